"""The typed form of a spec: messages, structs, fields and their types.

``parser`` creates the model, ``check`` validates it, and ``plan`` turns it into code. It is immutable. Every
part keeps its line number for later error messages. Source: the vocabulary of Kafka's message specs.
"""

from __future__ import annotations

import enum

import attrs

from codegen.versions import Versions


class MessageType(enum.Enum):
    """The kind of a message. Only requests and responses have an API key."""

    REQUEST = "request"
    RESPONSE = "response"
    HEADER = "header"
    DATA = "data"
    METADATA = "metadata"
    COORDINATOR_KEY = "coordinator-key"
    COORDINATOR_VALUE = "coordinator-value"


#: Types of a fixed number of bytes: struct format character (big-endian) for each.
FIXED_FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}

#: Integer types and their lowest and highest values.
INTEGER_RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}

#: Every type name that is not a struct's.
PRIMITIVES = (*FIXED_FORMATS, "string", "bytes", "records")


@attrs.frozen
class FieldType:
    """A primitive, a struct, or an array of either (Kafka has no arrays of arrays)."""

    name: str
    is_array: bool = False

    @property
    def is_struct(self) -> bool:
        """Whether the type, or the element type of an array, is a struct."""
        return self.name not in PRIMITIVES

    @property
    def can_be_null(self) -> bool:
        """Whether the wire format can represent null for this type."""
        return self.is_array or self.is_struct or self.name in ("string", "bytes", "records")

    @property
    def has_length_prefix(self) -> bool:
        """Whether the value starts with a length, which is a varint in flexible versions."""
        return self.is_array or self.name in ("string", "bytes", "records")

    def __str__(self) -> str:
        return f"[]{self.name}" if self.is_array else self.name


@attrs.frozen
class FieldSpec:
    """One field of a struct or message.

    ``default`` is the Python value of the spec's default: a number, text, ``None``, a bool; ``()`` for
    arrays and ``...`` for a new struct. ``flexible_versions`` is ``None`` unless the field overrides its
    message.
    """

    name: str
    type: FieldType
    versions: Versions
    nullable_versions: Versions
    tagged_versions: Versions
    tag: int | None
    flexible_versions: Versions | None
    default: object
    ignorable: bool
    map_key: bool
    zero_copy: bool
    entity_type: str | None
    about: str
    #: Fields of the struct that this field defines in place; ``None`` when it refers to a common struct.
    fields: tuple[FieldSpec, ...] | None
    #: The line of each key of the field, for error messages.
    lines: dict[str, int] = attrs.field(eq=False, repr=False)
    line: int = attrs.field(eq=False)


@attrs.frozen
class StructSpec:
    """A named group of fields: the message itself, or a struct inside it."""

    name: str
    versions: Versions
    fields: tuple[FieldSpec, ...]
    line: int = attrs.field(eq=False)


@attrs.frozen
class MessageSpec:
    """One spec file."""

    path: str
    sha256: str
    name: str
    type: MessageType
    api_key: int | None
    valid_versions: Versions
    flexible_versions: Versions
    deprecated_versions: Versions
    listeners: tuple[str, ...]
    latest_version_unstable: bool
    fields: tuple[FieldSpec, ...]
    common_structs: tuple[StructSpec, ...]
    line: int = attrs.field(eq=False)
    lines: dict[str, int] = attrs.field(eq=False, repr=False)

    def structs(self) -> dict[str, StructSpec]:
        """All structs below the message by name, each after the ones it contains.

        Only valid for a message that passed the checks (no unknown names, no cycles).
        """
        common = {struct.name: struct for struct in self.common_structs}
        ordered: dict[str, StructSpec] = {}

        def visit(fields: tuple[FieldSpec, ...]) -> None:
            for field in fields:
                if not field.type.is_struct or field.type.name in ordered:
                    continue
                if field.fields is None:
                    struct = common[field.type.name]
                else:
                    struct = StructSpec(field.type.name, field.versions, field.fields, field.line)
                visit(struct.fields)
                ordered[struct.name] = struct

        visit(self.fields)
        for struct in self.common_structs:
            if struct.name not in ordered:
                visit(struct.fields)
                ordered[struct.name] = struct
        return ordered

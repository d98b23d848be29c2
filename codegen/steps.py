"""The steps of generated functions, with every name and expression that the templates need.

Immutable and comparable: versions whose steps are equal share their functions. ``plan`` creates the steps.
"""

from __future__ import annotations

import struct

import attrs

#: By kind: the width of its length prefix in versions that are not flexible.
_CLASSIC_PREFIX = {"string": "h", "bytes": "i", "view": "i", "numbers": "i", "array": "i"}
#: The unit of a length, for error messages.
_UNITS = {"string": "bytes", "bytes": "bytes", "view": "bytes", "numbers": "elements", "array": "elements"}
_TABLES = {
    "?": "BOOL", "b": "INT8", "h": "INT16", "H": "UINT16",
    "i": "INT32", "I": "UINT32", "q": "INT64", "d": "FLOAT64",
}  # fmt: skip


def width_of(code: str) -> int:
    """Bytes of a struct format."""
    return struct.calcsize(">" + code)


@attrs.frozen
class Value:
    """One field, or one array element, as a particular version encodes it.

    ``kind`` is one of fixed, uuid, string, bytes, view (not copied), struct, numbers (an array of fixed-size
    numbers), array (of anything else).
    """

    kind: str
    attribute: str
    local: str
    annotation: str
    code: str = ""
    compact: bool = False
    nullable: bool = False
    functions: str = ""
    gathers: bool = False
    element: Value | None = None
    #: The expression for an empty array in decoding.
    empty: str = "[]"
    minimum: int = 1
    #: A tagged field: its null is always 0, while other structs encode null as a byte of -1.
    tagged: bool = False
    #: The attribute may be null in other versions, so this version must refuse null explicitly.
    guarded: bool = False

    @property
    def access(self) -> str:
        """The expression for the value in generated code."""
        return "element" if not self.attribute else f"item.{self.attribute}"

    @property
    def prefix(self) -> str:
        """Struct format of the length prefix; a compact one usually takes a single byte."""
        return "B" if self.compact else _CLASSIC_PREFIX[self.kind]

    @property
    def prefix_width(self) -> int:
        """Bytes of the prefix that do not depend on the value."""
        return width_of(self.prefix)

    @property
    def unit(self) -> str:
        """The unit of the length."""
        return _UNITS[self.kind]

    @property
    def width(self) -> int:
        """Bytes of one fixed-size value, or of one element of an array of numbers."""
        return width_of(self.code)

    @property
    def readers(self) -> str:
        """Name of the readers for arrays of numbers."""
        return _TABLES[self.code] + "_READERS"

    @property
    def table(self) -> str:
        """Name of the table of Structs for writing arrays of numbers."""
        return _TABLES[packing(self.code)] + "S"

    @property
    def base_size(self) -> int:
        """Bytes that do not depend on the value."""
        if self.kind == "struct":
            return 1 if self.nullable else 0
        return self.width if self.kind in ("fixed", "uuid") else self.prefix_width

    @property
    def encode_at(self) -> str:
        """The step's name while encoding, for error messages."""
        if self.kind in ("fixed", "uuid"):
            return f"{self.attribute}:{self.code}"
        return f"{self.attribute}:[{self.code}]" if self.kind == "numbers" else self.attribute


@attrs.frozen
class Group:
    """Neighbouring fixed-size fields, read or written by one struct call.

    Decoding takes the length prefix of the field that follows into the call as well.
    """

    values: tuple[Value, ...]
    prefix: str = ""
    prefix_of: str = ""
    kind: str = "group"

    @property
    def code(self) -> str:
        """The struct format, without byte order."""
        return "".join(value.code for value in self.values) + self.prefix

    @property
    def struct_name(self) -> str:
        """The module-level Struct."""
        return struct_name(self.code)

    @property
    def width(self) -> int:
        """Bytes of the whole group."""
        return width_of(self.code)

    @property
    def at(self) -> str:
        """The fields and their formats, for error messages."""
        parts = [f"{value.attribute}:{value.code}" for value in self.values]
        if self.prefix:
            parts.append(f"{self.prefix_of}:{self.prefix}")
        return " ".join(parts)

    @property
    def encode_struct_name(self) -> str:
        """The Struct for writing: packing "?" would accept any value."""
        return struct_name(packing(self.code))

    @property
    def targets(self) -> str:
        """The targets of decoding."""
        names = [value.local if value.kind == "uuid" else value.access for value in self.values]
        return ", ".join([*names, "length"] if self.prefix else names)

    @property
    def arguments(self) -> str:
        """The arguments of the struct call in encoding."""
        return ", ".join(argument(value) for value in self.values)

    @property
    def uuids(self) -> tuple[Value, ...]:
        """The values that need a conversion after reading."""
        return tuple(value for value in self.values if value.kind == "uuid")


def struct_name(code: str) -> str:
    """The module-level Struct for a format; "t" replaces "?", which a name cannot contain."""
    return "_S_" + code.replace("?", "t")


def packing(code: str) -> str:
    """The format for writing: packing "?" would accept any value."""
    return code.replace("?", "b")


def argument(value: Value) -> str:
    """The expression that packs a fixed-size value."""
    return f"{value.access}.bytes" if value.kind == "uuid" else value.access


@attrs.frozen
class Single:
    """A value that is not fixed-size. ``prefix_read`` says that the group before it read its prefix."""

    value: Value
    prefix_read: bool = False
    kind: str = "single"


@attrs.frozen
class Absent:
    """A field that the version does not have: decoding sets the default, encoding may refuse it."""

    attribute: str
    local: str
    annotation: str
    default: str
    differs: str
    versions: str
    ignorable: bool
    kind: str = "absent"


@attrs.frozen
class Tagged:
    """A tagged field: written only when it is not the default."""

    tag: int
    value: Value
    default: str
    differs: str
    #: The lowest unknown tag that would be written directly before this one, if any is possible.
    gap_from: int | None
    prefix_read: bool = False

    @property
    def tag_width(self) -> int:
        """Bytes of the tag itself."""
        return (max(self.tag.bit_length(), 1) + 6) // 7


@attrs.frozen
class Tags:
    """The tagged fields at the end of a flexible struct."""

    fields: tuple[Tagged, ...]
    #: Tags of fields that are not tagged in this version; Kafka refuses them too.
    misplaced: tuple[int, ...] = ()
    prefix_read: bool = False
    kind: str = "tags"

    @property
    def reserved(self) -> tuple[int, ...]:
        """Tags that unknown tagged fields cannot have."""
        return tuple(sorted([*(field.tag for field in self.fields), *self.misplaced]))


Step = Group | Single | Absent | Tags

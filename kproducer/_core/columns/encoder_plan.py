"""EncoderPlan: how rows of Arrow columns become bytes. Made by ``kproducer.columnar``, used by the encoders.

A plan is a tree of nodes. Each node reads one Arrow array and writes its values in one format. Both
implementations number the nodes in the order in which ``EncoderPlan.nodes`` returns them.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, Final, NamedTuple

#: What ``PlanNode.column`` may be besides the number of a child.
CONSTANT: Final = -1
ROW: Final = -2
SAME: Final = -3

#: See ``ProtobufOperation``.
NOT_IF_DEFAULT: Final = 1


class Format(IntEnum):
    """The format of a plan, which decides what its operations mean."""

    AVRO = 0
    PROTOBUF = 1
    JSON = 2


class AvroOperation(IntEnum):
    """How a node writes a value in Avro's binary encoding. ``a`` and ``b`` are parameters of the node.

    NOTHING: no bytes (the type null, and constants, which are the prefix).
    BOOLEAN: one byte.
    INTEGER: a zigzag varint. ``a``: the factor, or negative the divisor (rounded down). ``b``: 32 or 64 bits.
    FLOAT, DOUBLE: 4 or 8 bytes, little-endian, of a floating point number or an integer that fits exactly.
    BYTES: the length and the bytes of a string or binary value. ``a`` 1: the bytes alone.
    FIXED: the bytes of a binary value of ``size`` bytes.
    DECIMAL: the unscaled number times 10**``a``, big-endian, with its length. The encoding of the only
    symbol: the least number that has too many digits, in 32 bytes, little-endian.
    DECIMAL_FIXED: the same in ``size`` bytes.
    UUID: of text, or with ``a`` 16 of 16 bytes; as text with its length, or with ``size`` 16 as 16 bytes.
    DURATION: months, days and milliseconds of an interval, or of a duration with ``a`` as for INTEGER.
    ENUM: the encoding of the symbol with the value's text.
    ARRAY: a block of the child's values; of a map, the child is a RECORD of its keys and values.
    RECORD: the children, one after the other.
    UNION: the child that an Arrow union chooses. ``symbols``: from each type id, as one byte, to the number
    of the child, as one byte.
    """

    NOTHING = 0
    BOOLEAN = 1
    INTEGER = 2
    FLOAT = 3
    DOUBLE = 4
    BYTES = 5
    FIXED = 6
    DECIMAL = 7
    DECIMAL_FIXED = 8
    UUID = 9
    DURATION = 10
    ENUM = 11
    ARRAY = 12
    RECORD = 13
    UNION = 14


class ProtobufOperation(IntEnum):
    """How a node writes a value in Protobuf's binary encoding. The prefix of a node is the field's tag.

    ``size``: ``NOT_IF_DEFAULT``: a value that is the type's default is not written, and neither is the tag.
    From 2 to 64: the number of a oneof in its message, of whose nodes one may write a value.
    ``b``: the numbers that fit: 32 or 64 bits with a sign, -32 or -64: bits without one.

    NOTHING: no bytes (the type null, and constants, which are the prefix).
    BOOLEAN: one byte.
    VARINT: an integer in two's complement of 64 bits.
    ZIGZAG: a zigzag varint.
    FIXED32, FIXED64: an integer in 4 or 8 bytes, little-endian.
    FLOAT, DOUBLE: 4 or 8 bytes, little-endian, of a floating point number or an integer that fits exactly.
    BYTES: the length and the bytes of a string or binary value.
    STRING: the same of UTF-8.
    ENUM: the encoding of the symbol with the value's text.
    ENUM_NUMBER: the encoding of the symbol with the value as text: 4 bytes, little-endian.
    TIMESTAMP, DURATION: a message with seconds and nanoseconds. ``a``: ticks per second.
    DATE: a message with year, month and day. ``a``: ticks per day.
    FIELDS: the children, one after the other.
    MESSAGE: the same behind their length in bytes.
    REPEATED: the child's values, one after the other; of a map, the child is a MESSAGE of its keys and
    values.
    PACKED: the same behind their length in bytes; nothing, if there are none.
    UNION: as in ``AvroOperation``.
    """

    NOTHING = 0
    BOOLEAN = 1
    VARINT = 2
    ZIGZAG = 3
    FIXED32 = 4
    FIXED64 = 5
    FLOAT = 6
    DOUBLE = 7
    BYTES = 8
    STRING = 9
    ENUM = 10
    ENUM_NUMBER = 11
    TIMESTAMP = 12
    DURATION = 13
    DATE = 14
    FIELDS = 15
    MESSAGE = 16
    REPEATED = 17
    PACKED = 18
    UNION = 19


class JsonOperation(IntEnum):
    """How a node writes a value as JSON. ``a`` and ``b`` are parameters of the node.

    What stands between values is in the prefixes of nodes: each element of an array begins with a comma, each
    member of an object with a comma and its name. The bracket then takes the place of the first comma.

    NOTHING: no bytes (the type null).
    BOOLEAN: ``true`` or ``false``.
    INTEGER: all digits.
    FLOAT: of ``a`` bytes (2, 4 or 8): the fewest digits that read back as the same number of this size, in
    the form of Python's ``repr``. NaN and infinities: with ``b`` 1 the node's null, else they do not fit.
    TEXT: a string, escaped.
    BINARY: a string in base64.
    UUID: the text of 16 bytes.
    DECIMAL: all digits, ``a`` of them behind the point; with ``b`` 1 as a string.
    DATE: ``YYYY-MM-DD``. ``a``: ticks per day.
    TIME, TIMESTAMP: as in ISO 8601. ``a``: ticks per second. ``b`` 1: in UTC, with a ``Z``.
    DURATION: a duration of ISO 8601 in seconds. ``a``: ticks per second.
    INTERVAL: a duration of ISO 8601 in months, days and seconds.
    ARRAY: the child's values.
    MAP: the same in braces; the child is an ENTRY.
    ENTRY: the children, one after the other: key and value.
    OBJECT: the same in braces.
    UNION: as in ``AvroOperation``.
    """

    NOTHING = 0
    BOOLEAN = 1
    INTEGER = 2
    FLOAT = 3
    TEXT = 4
    BINARY = 5
    UUID = 6
    DECIMAL = 7
    DATE = 8
    TIME = 9
    TIMESTAMP = 10
    DURATION = 11
    INTERVAL = 12
    ARRAY = 13
    MAP = 14
    ENTRY = 15
    OBJECT = 16
    UNION = 17


class Misfit(IntEnum):
    """Why a value cannot be written. ``REASONS`` has the texts."""

    NULL = 1
    OUT_OF_RANGE = 2
    NOT_A_SYMBOL = 3
    TOO_MANY_DIGITS = 4
    WRONG_SIZE = 5
    NOT_A_UUID = 6
    NEGATIVE = 7
    NOT_EXACT = 8
    NOT_A_NUMBER = 9
    SEVERAL_VALUES = 10
    NOT_UTF8 = 11


#: Why a value does not fit, for texts of errors: the value ...
REASONS: Final = {
    Misfit.NULL: "is null, which the schema does not allow",
    Misfit.OUT_OF_RANGE: "is out of range",
    Misfit.NOT_A_SYMBOL: "is not among the symbols of the enum",
    Misfit.TOO_MANY_DIGITS: "has more digits than the schema's precision",
    Misfit.WRONG_SIZE: "has another number of bytes than the schema says",
    Misfit.NOT_A_UUID: "is not a UUID (32 hexadecimal digits in groups of 8, 4, 4, 4 and 12)",
    Misfit.NEGATIVE: "is negative, which the schema does not allow",
    Misfit.NOT_EXACT: "cannot be represented exactly as a floating point number",
    Misfit.NOT_A_NUMBER: "is NaN or infinite, which JSON cannot represent",
    Misfit.SEVERAL_VALUES: "has a value, and so has an earlier field of the same oneof",
    Misfit.NOT_UTF8: "is not valid UTF-8",
}


class MisfitError(Exception):
    """A value does not fit. Raised within this package only.

    Attributes:
        reason: why.
        node: of the plan; ``None``: the one that is being written.
    """

    def __init__(self, reason: Misfit, node: PlanNode | None = None) -> None:
        super().__init__(reason, node)
        self.reason, self.node = reason, node


class PlanNode(NamedTuple):
    """One node.

    Attributes:
        operation: of the plan's format.
        column: the child of the parent node's Arrow array: a field of a struct, an alternative of a union, 0
            for the elements of a list (of a map: structs of key and value). ``ROW``: the row itself, whose
            children are the columns of the source. ``SAME``: the parent's array. ``CONSTANT``: none; the
            prefix is all that is written.
        prefix: written before each value that is not null.
        null: written for null; ``None``: null does not fit.
        children: in the order of writing.
        a, b, size: parameters of the operation.
        symbols: from the text of a value to the bytes that are written for it.
        place: the name for messages, such as ``address.zip``.
    """

    operation: int
    column: int
    prefix: bytes = b""
    null: bytes | None = None
    children: tuple[PlanNode, ...] = ()
    a: int = 0
    b: int = 0
    size: int = 0
    symbols: tuple[tuple[bytes, bytes], ...] = ()
    place: str = ""


def child_value(child: PlanNode, value: Any) -> Any:
    """What a child writes, out of the values of a struct or row."""
    if child.column == CONSTANT:
        return None
    return value if child.column == SAME else value[child.column]


class EncoderPlan(NamedTuple):
    """How one key or value is made of a row.

    Attributes:
        format: whose operations the nodes have.
        root: either of a ``ROW``, or of one column of the source. If that is null, so is the key or value.
        prefix: of every key or value: what names the schema.
    """

    format: Format
    root: PlanNode
    prefix: bytes = b""

    @property
    def nodes(self) -> list[PlanNode]:
        """All nodes, each before its children: the number of a node is its place here."""
        return list(_in_order(self.root))


def _in_order(node: PlanNode) -> Iterator[PlanNode]:
    yield node
    for child in node.children:
        yield from _in_order(child)


class ArrowField(NamedTuple):
    """A field of Arrow data, as ``ArrowSource.fields`` describes it.

    Attributes:
        name: of the field.
        format: of the C data interface, without children; of the index, if the values are in a dictionary.
        is_nullable: as declared.
        children: of lists, structs, maps and unions.
        dictionary: the field of the values.
        extension: the name of the extension type, such as ``arrow.uuid``; empty: none.
    """

    name: str
    format: str
    is_nullable: bool = True
    children: tuple[ArrowField, ...] = ()
    dictionary: ArrowField | None = None
    extension: str = ""

    @classmethod
    def of(cls, described: tuple[Any, ...]) -> ArrowField:
        """From what ``ArrowSource.fields`` returns for a field."""
        name, format_, is_nullable, children, dictionary, extension = described
        return cls(
            name,
            format_,
            is_nullable,
            tuple(map(cls.of, children)),
            None if dictionary is None else cls.of(dictionary),
            extension,
        )

    @property
    def values(self) -> ArrowField:
        """The field of the values: that of the dictionary, if there is one."""
        return self if self.dictionary is None else self.dictionary

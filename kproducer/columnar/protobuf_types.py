"""Types of Protobuf's fields: their tags, the columns that they take, and the nodes that write one value.

Needs no protobuf: descriptors are asked for their attributes only.
Source: Protocol Buffers documentation, "Encoding"; descriptor.proto.

The columns that a field takes (messages without a package are in ``google.protobuf``):

=========================  ==============================================================================
Protobuf type              columns
=========================  ==============================================================================
integers of all kinds      integers; a number that is too large, or negative in an unsigned field, does
                           not fit
``float``                  float16, float32, integers; integers up to 2^24, so that they stay exact
``double``                 float16, float32, float64, integers; integers up to 2^53
``bool``                   bool
``string``                 strings; bytes that are not UTF-8 do not fit
``bytes``                  binary, strings (as UTF-8)
enum                       strings with the names of values, integers; closed enums, such as those of
                           proto2, take their own numbers only
message, group             struct; fields by name, as in the row
``repeated``               lists; null is an empty list; a null element does not fit
``map``                    map; list of structs with two fields; null is an empty map; a null value does
                           not fit
``oneof``                  one nullable column for each field, or a union with the oneof's name; two
                           values in a row do not fit; the names of a union's alternatives are fields
``Timestamp``              timestamps; the years 1 to 9999
``Duration``               durations; up to 315,576,000,000 s, in both directions
wrappers (``Int32Value``)  as the scalar; null is an absent message
``Struct``                 struct; map with string keys; fields and values as for ``Value``
``Value``                  bool, integers, floating point numbers, strings, lists, struct, map with
                           string keys; null is an absent ``Value``, but in lists, structs and maps
                           JSON's null. Integers up to 2^53
``ListValue``              lists; elements as for ``Value``
``google.type.Date``       date32, date64; the years 1 to 9999
all other messages         struct
=========================  ==============================================================================

Fields are written in the order of their numbers; a column has the name of its field, or its JSON name. Fields
with presence (``optional``, those of a oneof, all of proto2, messages) are written whenever the value is not
null, other fields if the value is not the default. Refused: decimals, intervals, times of day, UUIDs in
``string`` fields, timestamps and dates in integer fields, run-end encoded columns, extensions of proto2, and
more than 63 oneofs of one message with several columns each.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kproducer._core.columns.encoder_plan import ArrowField, PlanNode, ProtobufOperation
from kproducer._core.kernel.varint import encode_unsigned
from kproducer.columnar.chosen_columns import BINARY, INTEGERS, TEXT, type_name
from kproducer.columnar.column_compiler import DoesNotFitError

#: Wire types of Protobuf's encoding.
VARINT: Final = 0
FIXED64: Final = 1
SIZED: Final = 2
START_GROUP: Final = 3
END_GROUP: Final = 4
FIXED32: Final = 5

_FLOATS: Final = INTEGERS | frozenset("ef")
_BITS_OF_ENUMS: Final = 32


class Kind(NamedTuple):
    """A type of fields.

    Attributes:
        name: of the type.
        wire_type: of its tag.
        operation: of its nodes.
        accepted: which formats of columns it takes.
        remedy: the type that a column should have.
        bits: ``b`` of its nodes.
    """

    name: str
    wire_type: int
    operation: ProtobufOperation
    accepted: frozenset[str] = frozenset()
    remedy: str = ""
    bits: int = 0


GROUP: Final = 10
MESSAGE: Final = 11
_BYTES: Final = 12
#: What is known of each scalar type, by its number in ``FieldDescriptorProto.Type``.
KINDS: Final = {
    1: Kind("double", FIXED64, ProtobufOperation.DOUBLE, _FLOATS | frozenset("g"), "float64"),
    2: Kind("float", FIXED32, ProtobufOperation.FLOAT, _FLOATS, "float32"),
    3: Kind("int64", VARINT, ProtobufOperation.VARINT, INTEGERS, "int64", 64),
    4: Kind("uint64", VARINT, ProtobufOperation.VARINT, INTEGERS, "uint64", -64),
    5: Kind("int32", VARINT, ProtobufOperation.VARINT, INTEGERS, "int32", 32),
    6: Kind("fixed64", FIXED64, ProtobufOperation.FIXED64, INTEGERS, "uint64", -64),
    7: Kind("fixed32", FIXED32, ProtobufOperation.FIXED32, INTEGERS, "uint32", -32),
    8: Kind("bool", VARINT, ProtobufOperation.BOOLEAN, frozenset("b"), "bool"),
    9: Kind("string", SIZED, ProtobufOperation.STRING, TEXT, "string"),
    GROUP: Kind("group", START_GROUP, ProtobufOperation.FIELDS),
    MESSAGE: Kind("message", SIZED, ProtobufOperation.MESSAGE),
    _BYTES: Kind("bytes", SIZED, ProtobufOperation.BYTES, TEXT | BINARY, "binary"),
    13: Kind("uint32", VARINT, ProtobufOperation.VARINT, INTEGERS, "uint32", -32),
    14: Kind("enum", VARINT, ProtobufOperation.ENUM, TEXT | INTEGERS, "string or int32"),
    15: Kind("sfixed32", FIXED32, ProtobufOperation.FIXED32, INTEGERS, "int32", 32),
    16: Kind("sfixed64", FIXED64, ProtobufOperation.FIXED64, INTEGERS, "int64", 64),
    17: Kind("sint32", VARINT, ProtobufOperation.ZIGZAG, INTEGERS, "int32", 32),
    18: Kind("sint64", VARINT, ProtobufOperation.ZIGZAG, INTEGERS, "int64", 64),
}


def mismatch(arrow_field: ArrowField, place: str, wanted: str, remedy: str) -> DoesNotFitError:
    """The error of a value whose type does not fit.

    Args:
        wanted: the type in the message.
        remedy: what to do.
    """
    return DoesNotFitError(
        f"is of type {type_name(arrow_field)}, which does not fit {wanted} of the Protobuf message: {remedy}"
        ", or change the message",
        place,
    )


def scalar(field: Any, arrow_field: ArrowField, place: str) -> PlanNode:
    """The node of a value that is no message, without tag and column; null does not fit.

    Raises:
        DoesNotFitError: the column has another type.
    """
    kind = KINDS[field.type]
    values = arrow_field.values
    is_fixed = field.type == _BYTES and values.format.startswith("w:")
    if values.format not in kind.accepted and not is_fixed:
        raise mismatch(arrow_field, place, described(field), f"cast it to {kind.remedy}")
    if kind.operation == ProtobufOperation.ENUM:
        return _enum(field.enum_type, values.format in TEXT)._replace(place=place)
    return PlanNode(kind.operation, 0, b=kind.bits, place=place)


def _enum(enum: Any, is_by_name: bool) -> PlanNode:
    if is_by_name:
        symbols = tuple((name.encode(), varint(each.number)) for name, each in enum.values_by_name.items())
        return PlanNode(ProtobufOperation.ENUM, 0, symbols=symbols)
    if not enum.is_closed:
        return PlanNode(ProtobufOperation.VARINT, 0, b=_BITS_OF_ENUMS)
    symbols = tuple(
        (number.to_bytes(4, "little", signed=True), varint(number)) for number in enum.values_by_number
    )
    return PlanNode(ProtobufOperation.ENUM_NUMBER, 0, symbols=symbols)


def varint(number: int) -> bytes:
    """A number; a negative one in two's complement of 64 bits."""
    return encode_unsigned(number & (1 << 64) - 1)


def tag(number: int, wire_type: int) -> bytes:
    """The tag, which is in front of the value of the field with this number."""
    return varint(number << 3 | wire_type)


def described(field: Any) -> str:
    """The type of a field's values."""
    if field.message_type is not None:
        return str(field.message_type.full_name)
    return f"enum {field.enum_type.full_name}" if field.enum_type is not None else KINDS[field.type].name


# These functions exist because versions 5 of protobuf have labels instead of these properties, and the oldest
# of them do not tell what is packed.


def is_repeated(field: Any) -> bool:
    """Whether it has several values, as maps have, too."""
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED)


def is_required(field: Any) -> bool:
    """Whether each message must have a value."""
    return bool(field.is_required if hasattr(field, "is_required") else field.label == field.LABEL_REQUIRED)


def is_packed(field: Any) -> bool:
    """Whether repeated numbers are written without a tag for each. Readers take both forms."""
    if KINDS[field.type].wire_type in (SIZED, START_GROUP):
        return False
    if hasattr(field, "is_packed"):
        return bool(field.is_packed)
    options = field.GetOptions()
    return bool(options.packed) or not options.HasField("packed")

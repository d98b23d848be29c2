"""Messages that are made of other columns than structs: times, wrapped scalars, and JSON in messages.

Source: Protocol Buffers documentation, "Well-Known Types"; google/type/date.proto.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kproducer._core.columns.encoder_plan import (
    CONSTANT,
    SAME,
    ArrowField,
    PlanNode,
    ProtobufOperation,
)
from kproducer.columnar.chosen_columns import INTEGERS, LISTS, MS_PER_DAY, TEXT, TICKS_PER_SECOND
from kproducer.columnar.protobuf_types import (
    MESSAGE,
    SIZED,
    VARINT,
    mismatch,
    tag,
    varint,
)

#: Makes the node of a field, with its tag: from the descriptor, the column's field, its number and its place.
MakeField = Callable[[Any, ArrowField, int, str], PlanNode]

#: A ``Value`` that is null, with its length.
_NULL_VALUE: Final = b"\x02" + tag(1, VARINT) + b"\x00"
#: The messages with a ``Value`` that may be null; by name, because their file may have any path.
_WITH_JSON_NULL: Final = ("google.protobuf.ListValue", "google.protobuf.Struct.FieldsEntry")


def well_known(message: Any, arrow_field: ArrowField, place: str, make_field: MakeField) -> PlanNode | None:
    """The node of a message, without tag and column.

    Args:
        make_field: makes the nodes of its fields.

    Returns:
        ``None``: the message is made of a struct with its fields, as any other.

    Raises:
        DoesNotFitError: the column has another type.
    """
    found = _WELL_KNOWN.get(message.full_name)
    if found is None:
        return None
    make, remedy = found
    node = make(message, arrow_field, place, make_field)
    if node is None and arrow_field.values.format != "+s":
        raise mismatch(arrow_field, place, message.full_name, remedy)
    return node


# -- times and scalars -------------------------------------------------------------------------------


def _seconds(operation: ProtobufOperation, letters: str) -> _MakeNode:
    """For messages with seconds and nanoseconds, of columns whose formats begin with ``letters``."""

    def make(message: Any, arrow_field: ArrowField, place: str, make_field: MakeField) -> PlanNode | None:
        text = arrow_field.values.format
        if not text.startswith(letters):
            return None
        return PlanNode(operation, 0, a=TICKS_PER_SECOND[text[2]], place=place)

    return make


def _date(message: Any, arrow_field: ArrowField, place: str, make_field: MakeField) -> PlanNode | None:
    ticks = {"tdD": 1, "tdm": MS_PER_DAY}.get(arrow_field.values.format)
    return None if ticks is None else PlanNode(ProtobufOperation.DATE, 0, a=ticks, place=place)


def _only_field(message: Any, arrow_field: ArrowField, place: str, make_field: MakeField) -> PlanNode:
    """A message whose only field is made of the column, as the wrappers around scalars."""
    field = make_field(message.fields[0], arrow_field, SAME, place)
    return PlanNode(ProtobufOperation.MESSAGE, 0, children=(field,), place=place)


def _wrapper(message: Any, arrow_field: ArrowField, place: str, make_field: MakeField) -> PlanNode | None:
    """A message around one scalar, so that null differs from the default."""
    if arrow_field.values.format in ("+s", "n"):
        return None
    return _only_field(message, arrow_field, place, make_field)


# -- JSON --------------------------------------------------------------------------------------------


def _struct(message: Any, arrow_field: ArrowField, place: str, make_field: MakeField) -> PlanNode | None:
    """A ``Struct``, whose only field is a map from names to ``Value``."""
    values = arrow_field.values
    if values.format == "+m":
        entry = values.children[0].values.children
        is_object = len(entry) == 2 and entry[0].values.format in TEXT
        return _only_field(message, arrow_field, place, make_field) if is_object else None
    if values.format != "+s":
        return None
    value_field = message.fields[0].message_type.fields_by_name["value"]
    entries = []
    for number, child in enumerate(values.children):
        key = PlanNode(ProtobufOperation.NOTHING, CONSTANT, _key(child.name))
        value = with_json_null(value_field, make_field(value_field, child, number, f"{place}.{child.name}"))
        entries.append(
            PlanNode(
                ProtobufOperation.MESSAGE, SAME, tag(1, SIZED), children=(key, value), place=f"{place}[]"
            )
        )
    return PlanNode(ProtobufOperation.MESSAGE, 0, children=tuple(entries), place=place)


def with_json_null(field: Any, node: PlanNode) -> PlanNode:
    """The node of an element or of a map's value; null is JSON's null in a ``ListValue`` or ``Struct``."""
    is_json = field.containing_type.full_name in _WITH_JSON_NULL and field.type == MESSAGE
    return node._replace(null=node.prefix + _NULL_VALUE if is_json else None)


def _key(name: str) -> bytes:
    data = name.encode()
    return tag(1, SIZED) + varint(len(data)) + data


def _json_list(message: Any, arrow_field: ArrowField, place: str, make_field: MakeField) -> PlanNode | None:
    """A ``ListValue``, whose only field is a repeated ``Value``."""
    is_list = arrow_field.values.format.startswith(LISTS)
    return _only_field(message, arrow_field, place, make_field) if is_list else None


def _value(message: Any, arrow_field: ArrowField, place: str, make_field: MakeField) -> PlanNode | None:
    """A ``Value``: a oneof of all types of JSON."""
    text = arrow_field.values.format
    name = "list_value" if text.startswith(LISTS) else _FIELDS_OF_VALUE.get(text)
    if name is None:
        return None
    field = make_field(message.fields_by_name[name], arrow_field, SAME, place)
    return PlanNode(ProtobufOperation.MESSAGE, 0, children=(field,), place=place)


#: By Arrow format: the field of a ``Value``.
_FIELDS_OF_VALUE: Final = {
    **dict.fromkeys((*INTEGERS, "e", "f", "g"), "number_value"),
    **dict.fromkeys(TEXT, "string_value"),
    "b": "bool_value",
    **dict.fromkeys(("+s", "+m"), "struct_value"),
}
_JSON: Final = "make it bool, a number, text, a struct, a list, or a map with text as keys"

_MakeNode = Callable[[Any, ArrowField, str, MakeField], "PlanNode | None"]
#: By the name of a message: the function that makes its node, and what to do about a column of another type.
_WELL_KNOWN: Final[dict[str, tuple[_MakeNode, str]]] = {
    "google.protobuf.Timestamp": (_seconds(ProtobufOperation.TIMESTAMP, "ts"), "cast it to a timestamp"),
    "google.protobuf.Duration": (_seconds(ProtobufOperation.DURATION, "tD"), "cast it to a duration"),
    "google.type.Date": (_date, "cast it to date32"),
    "google.protobuf.Struct": (_struct, "make it a struct, or a map with text as keys"),
    "google.protobuf.ListValue": (_json_list, "make it a list"),
    "google.protobuf.Value": (_value, _JSON),
    **{
        f"google.protobuf.{name}Value": (_wrapper, "cast it to the type of its value")
        for name in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
    },
}

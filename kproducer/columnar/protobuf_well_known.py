"""Messages that are made of other columns than structs: times, wrapped scalars, and JSON in messages.

Source: Protocol Buffers documentation, "Well-Known Types"; google/type/date.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from kproducer._core.columns.encoder_plan import (
    CONSTANT,
    NOT_IF_DEFAULT,
    SAME,
    ArrowField,
    PlanNode,
    ProtobufOperation,
)
from kproducer.columnar.chosen_columns import INTEGERS, LISTS, TEXT, TICKS_PER_SECOND
from kproducer.columnar.protobuf_types import (
    FIXED64,
    KINDS,
    SIZED,
    VARINT,
    mismatch,
    scalar,
    tag,
    varint,
)

_MS_PER_DAY: Final = 86_400_000
#: A ``Value`` that is null, with its length.
_NULL_VALUE: Final = b"\x02" + tag(1, VARINT) + b"\x00"


def well_known(message: Any, arrow_field: ArrowField, place: str) -> PlanNode | None:
    """The node of a message, without tag and column.

    Returns:
        ``None``: the message is made of a struct with its fields, as any other.

    Raises:
        DoesNotFitError: the column has another type.
    """
    found = _WELL_KNOWN.get(message.full_name)
    if found is None:
        return None
    make, remedy = found
    node = make(message, arrow_field, place)
    if node is None and arrow_field.values.format != "+s":
        raise mismatch(arrow_field, place, message.full_name, remedy)
    return node


# -- times and scalars -------------------------------------------------------------------------------


def _seconds(operation: ProtobufOperation, letters: str) -> _MakeNode:
    """For messages with seconds and nanoseconds, of columns whose formats begin with ``letters``."""

    def make(message: Any, arrow_field: ArrowField, place: str) -> PlanNode | None:
        text = arrow_field.values.format
        if not text.startswith(letters):
            return None
        return PlanNode(operation, 0, a=TICKS_PER_SECOND[text[2]], place=place)

    return make


def _date(message: Any, arrow_field: ArrowField, place: str) -> PlanNode | None:
    ticks = {"tdD": 1, "tdm": _MS_PER_DAY}.get(arrow_field.values.format)
    return None if ticks is None else PlanNode(ProtobufOperation.DATE, 0, a=ticks, place=place)


def _wrapper(message: Any, arrow_field: ArrowField, place: str) -> PlanNode | None:
    """A message around one scalar, so that null differs from the default."""
    if arrow_field.values.format == "+s":
        return None
    (field,) = message.fields
    value = scalar(field, arrow_field, place)._replace(
        column=SAME, prefix=tag(field.number, KINDS[field.type].wire_type), size=NOT_IF_DEFAULT
    )
    return PlanNode(ProtobufOperation.MESSAGE, 0, children=(value,), place=place)


# -- JSON --------------------------------------------------------------------------------------------


def _struct(message: Any, arrow_field: ArrowField, place: str) -> PlanNode | None:
    """A ``Struct``, whose only field is a map from names to ``Value``."""
    values = arrow_field.values
    if values.format == "+s":
        entries = [
            _json_entry(
                (
                    PlanNode(ProtobufOperation.NOTHING, CONSTANT, _key(child.name)),
                    _json_value(child, number, 2, f"{place}.{child.name}"),
                ),
                SAME,
                place,
            )
            for number, child in enumerate(values.children)
        ]
        return PlanNode(ProtobufOperation.MESSAGE, 0, children=tuple(entries), place=place)
    if values.format != "+m" or len(values.children[0].values.children) != 2:
        return None
    key, value = values.children[0].values.children
    if key.values.format not in TEXT:
        return None
    key_node = PlanNode(ProtobufOperation.STRING, 0, tag(1, SIZED), place=f"{place}.key")
    entry = _json_entry((key_node, _json_value(value, 1, 2, f"{place}.value")), 0, place)
    elements = PlanNode(ProtobufOperation.REPEATED, SAME, children=(entry,), place=place)
    return PlanNode(ProtobufOperation.MESSAGE, 0, children=(elements,), place=place)


def _json_entry(children: Sequence[PlanNode], column: int, place: str) -> PlanNode:
    return PlanNode(
        ProtobufOperation.MESSAGE, column, tag(1, SIZED), children=tuple(children), place=f"{place}[]"
    )


def _key(name: str) -> bytes:
    data = name.encode()
    return tag(1, SIZED) + varint(len(data)) + data


def _json_list(message: Any, arrow_field: ArrowField, place: str) -> PlanNode | None:
    """A ``ListValue``, whose only field is a repeated ``Value``."""
    values = arrow_field.values
    if not values.format.startswith(LISTS):
        return None
    element = _json_value(values.children[0], 0, 1, f"{place}[]")
    elements = PlanNode(ProtobufOperation.REPEATED, SAME, children=(element,), place=place)
    return PlanNode(ProtobufOperation.MESSAGE, 0, children=(elements,), place=place)


def _json_value(arrow_field: ArrowField, column: int, number: int, place: str) -> PlanNode:
    """A ``Value`` in the field ``number`` of a map's entry or a list; null is JSON's null."""
    null = tag(number, SIZED) + _NULL_VALUE
    if arrow_field.values.format == "n":
        return PlanNode(ProtobufOperation.NOTHING, column, null=null, place=place)
    node = _value(None, arrow_field, place)
    if node is None:
        raise mismatch(arrow_field, place, "google.protobuf.Value", _JSON)
    return node._replace(column=column, prefix=tag(number, SIZED), null=null)


def _value(message: Any, arrow_field: ArrowField, place: str) -> PlanNode | None:
    """A ``Value``: a oneof of all types of JSON."""
    text = arrow_field.values.format
    inner: PlanNode | None
    if text in INTEGERS or text in ("e", "f", "g"):
        inner = PlanNode(ProtobufOperation.DOUBLE, SAME, tag(2, FIXED64))
    elif text in TEXT:
        inner = PlanNode(ProtobufOperation.STRING, SAME, tag(3, SIZED))
    elif text == "b":
        inner = PlanNode(ProtobufOperation.BOOLEAN, SAME, tag(4, VARINT))
    else:
        make, number = (_json_list, 6) if text.startswith(LISTS) else (_struct, 5)
        inner = make(message, arrow_field, place)
        if inner is None:
            return None
        inner = inner._replace(column=SAME, prefix=tag(number, SIZED))
    return PlanNode(ProtobufOperation.MESSAGE, 0, children=(inner._replace(place=place),), place=place)


_JSON: Final = "make it bool, a number, text, a struct, a list, or a map with text as keys"

_MakeNode = Callable[[Any, ArrowField, str], "PlanNode | None"]
#: By the name of a message: the function that makes its node, and what to do about a column of another type.
_WELL_KNOWN: Final[dict[str, tuple[_MakeNode, str]]] = {
    "google.protobuf.Timestamp": (_seconds(ProtobufOperation.TIMESTAMP, "ts"), "cast it to a timestamp"),
    "google.protobuf.Duration": (_seconds(ProtobufOperation.DURATION, "tD"), "cast it to a duration"),
    "google.type.Date": (_date, "cast it to date32"),
    "google.protobuf.Struct": (_struct, "make it a struct, or a map with text as keys"),
    "google.protobuf.ListValue": (_json_list, "make it a list"),
    "google.protobuf.Value": (_value, _JSON),
    **{
        f"google.protobuf.{name}Value": (_wrapper, "")
        for name in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
    },
}

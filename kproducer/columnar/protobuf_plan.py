"""ProtobufCompiler: from a message's descriptor and the types of Arrow columns to the nodes of a plan.

Source: Protocol Buffers documentation, "Encoding" and "Field Presence".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from kproducer._core.columns.encoder_plan import (
    CONSTANT,
    NOT_IF_DEFAULT,
    ROW,
    ArrowField,
    Format,
    PlanNode,
    ProtobufOperation,
)
from kproducer.columnar.chosen_columns import LISTS, ChosenColumns, not_in_schema
from kproducer.columnar.column_compiler import ColumnCompiler, DoesNotFitError, alternatives, inner_place
from kproducer.columnar.protobuf_types import (
    END_GROUP,
    GROUP,
    KINDS,
    SIZED,
    described,
    is_packed,
    is_repeated,
    is_required,
    mismatch,
    scalar,
    tag,
)
from kproducer.columnar.protobuf_well_known import well_known, with_json_null

#: The most oneofs of a message: the kernel keeps a bit for each in one word.
_MOST_ONEOFS: Final = 63


class ProtobufCompiler(ColumnCompiler):
    """Compiles one message for the columns of one call.

    Args:
        message: its descriptor.
        role: ``"key"`` or ``"value"``.
    """

    format = Format.PROTOBUF

    def __init__(self, message: Any, role: str) -> None:
        super().__init__(role)
        self._message = message

    def row(self, chosen: ChosenColumns) -> PlanNode:
        """A message of the columns."""
        columns = chosen.with_others(_members(self._message))
        fields = self._fields(self._message, columns, "", "column")
        return PlanNode(ProtobufOperation.FIELDS, ROW, children=fields)

    def column(self, number: int, field: ArrowField) -> PlanNode:
        """The values of the column, which are messages."""
        node = self._message_node(self._message, field, "", "field")
        # Refused, because the other operations write a length first, which the outermost message does not
        # have.
        if node.operation != ProtobufOperation.MESSAGE:
            raise mismatch(field, "", "the outermost message", "make it a struct")
        return node._replace(operation=ProtobufOperation.FIELDS, column=number)

    # -- messages and oneofs -----------------------------------------------------------------------------

    def _message_node(self, message: Any, arrow_field: ArrowField, place: str, what: str) -> PlanNode:
        """The node of a message, without tag and column."""
        node = well_known(message, arrow_field, place, self._field)
        if node is not None:
            return node
        values = arrow_field.values
        if values.format != "+s":
            raise mismatch(arrow_field, place, message.full_name, "make it a struct")
        fields = self._fields(message, enumerate(values.children), place, what)
        return PlanNode(ProtobufOperation.MESSAGE, 0, children=fields, place=place)

    def _fields(
        self, message: Any, given: Iterable[tuple[int, ArrowField]], place: str, what: str
    ) -> tuple[PlanNode, ...]:
        """The nodes of a message's fields, in the order of their numbers.

        Args:
            given: the columns, or the fields of a struct, with their numbers.
            place: of the message; empty: it is the key or value.
            what: ``"column"`` or ``"field"``.
        """
        members = _members(message)
        given = list(given)
        found: dict[str, tuple[Any, int, ArrowField]] = {}
        for number, arrow_field in given:
            member = members.get(arrow_field.name)
            if member is None:
                names = [field.name for field in message.fields]
                unknown = [each.name for _, each in given if each.name not in members]
                schema = f"Protobuf message {message.full_name}"
                raise DoesNotFitError(not_in_schema(what, unknown, place, schema, names))
            name = member.name
            if name in found:
                raise DoesNotFitError(
                    f"{what}s {found[name][2].name!r} and {arrow_field.name!r} are both field "
                    f"{inner_place(place, name)!r} of {message.full_name}: leave one of them out"
                )
            found[name] = member, number, arrow_field
        for field in message.fields:
            if is_required(field) and field.name not in found:
                where = f" in {place!r}" if place else ""
                raise DoesNotFitError(
                    f"there is no {what} {field.name!r}{where}, which the Protobuf message "
                    f"{message.full_name} requires: add it"
                )
        oneofs = _shared_oneofs(message, [member for member, _, _ in found.values()])
        nodes = []
        for member, number, arrow_field in sorted(found.values(), key=lambda each: _order(each[0])):
            if what == "column":
                self._column = arrow_field.name
            make = self._oneof if _is_oneof(member) else self._field
            node = make(member, arrow_field, number, inner_place(place, member.name))
            oneof = _oneof_of(member)
            if oneof is not None and oneof.name in oneofs:
                node = node._replace(size=oneofs[oneof.name])
            nodes.append(node)
        return tuple(nodes)

    def _oneof(self, oneof: Any, arrow_field: ArrowField, column: int, place: str) -> PlanNode:
        """The node of a union, whose alternatives are fields of the oneof."""
        values = arrow_field.values
        fields = _by_name(oneof.fields)
        names = ", ".join(field.name for field in oneof.fields)
        if not values.format.startswith("+u"):
            raise mismatch(
                arrow_field, place, f"oneof {oneof.full_name}", f"give one column for each field ({names})"
            )
        children = []
        for number, child in enumerate(values.children):
            field = fields.get(child.name)
            if field is None:
                raise DoesNotFitError(
                    f"the alternative {child.name!r} of the union {place!r} is not in oneof "
                    f"{oneof.full_name} (fields: {names}): rename it, or leave it out"
                )
            children.append(self._field(field, child, number, inner_place(place, field.name)))
        symbols = alternatives(values)
        return PlanNode(
            ProtobufOperation.UNION, column, b"", b"", tuple(children), symbols=symbols, place=place
        )

    # -- fields ------------------------------------------------------------------------------------------

    def _field(self, field: Any, arrow_field: ArrowField, column: int, place: str) -> PlanNode:
        """The node of a field, with its tag."""
        if is_repeated(field):
            return self._repeated(field, arrow_field, column, place)
        node = self._value(field, arrow_field, column, place)
        node = node._replace(
            prefix=tag(field.number, KINDS[field.type].wire_type), null=None if is_required(field) else b""
        )
        return node if field.has_presence else node._replace(size=NOT_IF_DEFAULT)

    def _repeated(self, field: Any, arrow_field: ArrowField, column: int, place: str) -> PlanNode:
        """The node of a list or map; null is an empty one, but null elements do not fit."""
        values = arrow_field.values
        if values.format == "n":
            return PlanNode(ProtobufOperation.NOTHING, column, null=b"", place=place)
        is_list = values.format.startswith(LISTS)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            entry_fields = field.message_type.fields
            pair = values.children[0].values if is_list or values.format == "+m" else None
            if pair is None or pair.format != "+s" or len(pair.children) != len(entry_fields):
                key, value = map(described, entry_fields)
                raise mismatch(arrow_field, place, f"map<{key}, {value}>", "make it a map")
            # Keys and values are written even if they are the default.
            children = tuple(
                self._element(each, child, number, f"{place}.{each.name}")
                for number, (each, child) in enumerate(zip(entry_fields, pair.children, strict=True))
            )
            entry = tag(field.number, SIZED)
            element = PlanNode(ProtobufOperation.MESSAGE, 0, entry, children=children, place=f"{place}[]")
        elif is_list:
            element = self._element(field, values.children[0], 0, f"{place}[]")
        else:
            raise mismatch(arrow_field, place, f"repeated {described(field)}", "make it a list")
        if is_packed(field):
            prefix, operation = tag(field.number, SIZED), ProtobufOperation.PACKED
            element = element._replace(prefix=b"")
        else:
            prefix, operation = b"", ProtobufOperation.REPEATED
        return PlanNode(operation, column, prefix, b"", (element,), place=place)

    def _element(self, field: Any, arrow_field: ArrowField, column: int, place: str) -> PlanNode:
        """The node of an element of a list, or of a key or value of a map, with its tag."""
        prefix = tag(field.number, KINDS[field.type].wire_type)
        node = self._value(field, arrow_field, column, place)._replace(prefix=prefix)
        return with_json_null(field, node)

    def _value(self, field: Any, arrow_field: ArrowField, column: int, place: str) -> PlanNode:
        """The node of one value of a field, without tag; null does not fit."""
        if arrow_field.values.format == "n":
            return PlanNode(ProtobufOperation.NOTHING, column, place=place)
        if field.message_type is None:
            return scalar(field, arrow_field, place)._replace(column=column)
        node = self._message_node(field.message_type, arrow_field, place, "field")
        if field.type == GROUP:
            end = PlanNode(ProtobufOperation.NOTHING, CONSTANT, tag(field.number, END_GROUP))
            node = node._replace(operation=ProtobufOperation.FIELDS, children=(*node.children, end))
        return node._replace(column=column)


def _by_name(fields: Sequence[Any]) -> dict[str, Any]:
    """Fields by their names and by their names in JSON."""
    return {**{each.json_name: each for each in fields}, **{each.name: each for each in fields}}


# A member of a message is a field; or a oneof, for a column that is a union of its fields.


def _members(message: Any) -> dict[str, Any]:
    return {**_by_name(message.fields), **{each.name: each for each in message.oneofs}}


def _is_oneof(member: Any) -> bool:
    return hasattr(member, "fields")


def _oneof_of(member: Any) -> Any:
    """The oneof itself, or that of the field; ``None``: it is in none."""
    return member if _is_oneof(member) else member.containing_oneof


def _order(member: Any) -> int:
    """The number of a field, or the least one of a oneof."""
    return min(field.number for field in member.fields) if _is_oneof(member) else int(member.number)


def _shared_oneofs(message: Any, members: Iterable[Any]) -> dict[str, int]:
    """The oneofs that could get several values, each with its number."""
    counts = Counter(oneof.name for oneof in map(_oneof_of, members) if oneof is not None)
    names = [name for name, count in counts.items() if count > 1]
    if len(names) > _MOST_ONEOFS:
        raise DoesNotFitError(
            f"more than {_MOST_ONEOFS} oneofs of {message.full_name} have several columns: leave some out, "
            "or make each of these oneofs one union"
        )
    return {name: number for number, name in enumerate(names, NOT_IF_DEFAULT + 1)}

"""JsonCompiler: from the types of Arrow columns, and what a JSON Schema says, to the nodes of a plan.

Sources: RFC 8259 (JSON); the Arrow C data interface (format texts).

What is written for a column:

=================================  ======================================================================
Arrow type                         JSON
=================================  ======================================================================
bool                               ``true`` or ``false``
integers of all widths             all digits. JavaScript and others read numbers above 2^53 as the
                                   nearest double
float16, float32, float64          the fewest digits that read back as the same number of this width, as
                                   Python's ``repr`` writes them: ``0.1``, ``5.0``, ``1e+16``
decimals                           a number with all its digits, also zeros at the end: ``1.50``.
                                   ``decimals="string"``: ``"1.50"``
string, large_string, string_view  a string. Bytes that are not UTF-8 do not fit
binary of all kinds                a string in base64
uuid (``arrow.uuid``)              ``"12345678-1234-5678-1234-567812345678"``
date32, date64                     ``"2024-01-31"``
time32, time64                     ``"12:34:56.789"``
timestamp with a time zone         ``"2024-01-31T12:34:56.789Z"``, converted to UTC
timestamp without one              the same without ``Z``
duration                           an ISO 8601 duration in seconds: ``"PT90.500S"``, ``"-PT1S"``
intervals                          an ISO 8601 duration in months, days and seconds: ``"P14M3DT4.500S"``
lists of all kinds                 an array
struct                             an object
map                                an object. Integers, booleans, dates and times become strings as keys;
                                   of several equal keys, all are written
dictionary                         as its values
union                              the value of the chosen alternative
null                               ``null``
=================================  ======================================================================

The text is compact and in UTF-8; only what JSON requires is escaped. Fractions of a second have 3, 6 or 9
digits, or are left out if they are 0. Years are 0000 to 9999; other dates do not fit. Run-end encoded columns
are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kproducer._core.columns.encoder_plan import ROW, ArrowField, Format, JsonOperation, PlanNode
from kproducer.columnar.chosen_columns import (
    BINARY,
    INTEGERS,
    LISTS,
    MS_PER_DAY,
    TEXT,
    TICKS_PER_SECOND,
    UUID_EXTENSION,
    ChosenColumns,
    listed,
    type_name,
)
from kproducer.columnar.column_compiler import ColumnCompiler, DoesNotFitError, alternatives, inner_place
from kproducer.columnar.json_constraints import UNCONSTRAINED, Constraints, ViolatedError

#: The most digits of a decimal: 256 bits.
_MOST_SCALE: Final = 76
_FLOAT_BYTES: Final = {"e": 2, "f": 4, "g": 8}
#: The format of decimals: precision, scale and width.
_DECIMAL: Final = re.compile(r"d:\d+,(-?\d+)(?:,\d+)?")
#: By Arrow format: the operation, ``a`` of its nodes, and the type in JSON Schema.
_SCALARS: Final[dict[str, tuple[JsonOperation, int, str]]] = {
    "b": (JsonOperation.BOOLEAN, 0, "boolean"),
    **dict.fromkeys(INTEGERS, (JsonOperation.INTEGER, 0, "integer")),
    **dict.fromkeys(TEXT, (JsonOperation.TEXT, 0, "string")),
    **dict.fromkeys(BINARY, (JsonOperation.BINARY, 0, "string")),
    "tdD": (JsonOperation.DATE, 1, "string"),
    "tdm": (JsonOperation.DATE, MS_PER_DAY, "string"),
    **{f"tt{unit}": (JsonOperation.TIME, ticks, "string") for unit, ticks in TICKS_PER_SECOND.items()},
    **{f"tD{unit}": (JsonOperation.DURATION, ticks, "string") for unit, ticks in TICKS_PER_SECOND.items()},
    **dict.fromkeys(("tiM", "tiD", "tin"), (JsonOperation.INTERVAL, 0, "string")),
}
#: JSON types that have to be quoted if they are keys, because they are not strings.
_UNQUOTED: Final = frozenset({"boolean", "integer"})
_REMEDIES: Final = {
    "boolean": "cast it to bool",
    "integer": "cast it to int64",
    "number": "cast it to float64",
    "string": "cast it to string",
    "array": "make it a list",
    "object": "make it a struct or a map",
}


class JsonOptions(NamedTuple):
    """How values are written that JSON has no form for.

    Attributes:
        omits_nulls: fields that are null are left out.
        nan_is_null: NaN and infinities are written as null.
        decimals_are_strings: else they are numbers.
    """

    omits_nulls: bool = False
    nan_is_null: bool = False
    decimals_are_strings: bool = False


class _Around(NamedTuple):
    """What is written before a value, and for null, with what is before it; ``None``: null does not fit."""

    prefix: bytes = b""
    null: bytes | None = b"null"

    @classmethod
    def of(cls, prefix: bytes, constraints: Constraints) -> _Around:
        return cls(prefix, None if constraints.exclude("null") else prefix + b"null")


def scalar(field: ArrowField, options: JsonOptions) -> tuple[PlanNode, str] | None:
    """How values that contain no others are written.

    Returns:
        A node without column and place, and the type in JSON Schema; ``None``: the type is another one.
    """
    values = field.values
    text = values.format
    if text in _SCALARS:
        operation, a, kind = _SCALARS[text]
        return PlanNode(operation, 0, a=a), kind
    if text in _FLOAT_BYTES:
        return PlanNode(JsonOperation.FLOAT, 0, a=_FLOAT_BYTES[text], b=options.nan_is_null), "number"
    if text.startswith("w:"):
        is_uuid = text == "w:16" and UUID_EXTENSION in (field.extension, values.extension)
        return PlanNode(JsonOperation.UUID if is_uuid else JsonOperation.BINARY, 0), "string"
    if text.startswith("ts") and text[2:3] in TICKS_PER_SECOND:
        return PlanNode(JsonOperation.TIMESTAMP, 0, a=TICKS_PER_SECOND[text[2]], b=bool(text[4:])), "string"
    decimal = _DECIMAL.fullmatch(text)
    if decimal is None or abs(scale := int(decimal[1])) > _MOST_SCALE:
        return None
    kind = "string" if options.decimals_are_strings else "number" if scale > 0 else "integer"
    return PlanNode(JsonOperation.DECIMAL, 0, a=scale, b=options.decimals_are_strings), kind


class JsonCompiler(ColumnCompiler):
    """Compiles the columns of one call.

    Args:
        options: of the format.
        schema: its contents, and those of the schemas that it refers to, by name; ``None``: columns are not
            compared with a schema.
        role: ``"key"`` or ``"value"``.
    """

    format = Format.JSON

    def __init__(self, options: JsonOptions, schema: tuple[Any, Mapping[str, Any]] | None, role: str) -> None:
        super().__init__(role)
        self._options = options
        self._constraints = UNCONSTRAINED if schema is None else Constraints.of(*schema)

    def row(self, chosen: ChosenColumns) -> PlanNode:
        """An object of the columns. Others that the schema names are written as well."""
        columns = chosen.with_others(self._constraints.properties)
        names = [field.name for _, field in columns]
        try:
            constraints = self._constraints.narrowed("object", names)
        except ViolatedError as error:
            raise DoesNotFitError(
                f"an object of the columns ({listed(names)}) does not fit the JSON Schema: it {error}: "
                "choose other columns, or change the schema"
            ) from None
        children = self._members(columns, "", constraints)
        return PlanNode(JsonOperation.OBJECT, ROW, children=children)

    def column(self, number: int, field: ArrowField) -> PlanNode:
        """The values of the column, without an object around them."""
        around = _Around.of(b"", self._constraints)
        return self._node(field, number, "", self._constraints, around)

    def _node(
        self, field: ArrowField, column: int, place: str, constraints: Constraints, around: _Around
    ) -> PlanNode:
        values = field.values
        if values.format == "n":
            if around.null is None:
                raise _mismatch(field, place, constraints, "is null, which is not allowed")
            return PlanNode(JsonOperation.NOTHING, column, null=around.null, place=place)
        if values.format.startswith("+u"):
            return self._union(values, column, place, constraints, around)
        found = scalar(field, self._options)
        names = None
        if found is not None:
            node, kind = found
        elif values.format.startswith(LISTS):
            node, kind = PlanNode(JsonOperation.ARRAY, 0), "array"
        elif values.format == "+m":
            node, kind = PlanNode(JsonOperation.MAP, 0), "object"
        elif values.format == "+s":
            node, kind = PlanNode(JsonOperation.OBJECT, 0), "object"
            names = [child.name for child in values.children]
        else:
            raise DoesNotFitError(not_written_as_json(field), place)
        try:
            narrowed = constraints.narrowed(kind, names)
        except ViolatedError as error:
            raise _mismatch(field, place, constraints, str(error)) from None
        children: tuple[PlanNode, ...] = ()
        if kind == "array":
            within = narrowed.of_elements()
            children = (self._node(values.children[0], 0, f"{place}[]", within, _Around.of(b",", within)),)
        elif names is not None:
            children = self._members(list(enumerate(values.children)), place, narrowed)
        elif kind == "object":
            children = (self._entry(values.children[0], place, narrowed.of_member(None)),)
        return node._replace(
            column=column, prefix=around.prefix, null=around.null, children=children, place=place
        )

    def _members(
        self, fields: Sequence[tuple[int, ArrowField]], place: str, constraints: Constraints
    ) -> tuple[PlanNode, ...]:
        """The nodes of the members of an object."""
        members = []
        seen = set()
        for number, field in fields:
            inner = inner_place(place, field.name)
            if not place:
                self._column = field.name
            if field.name in seen:
                raise DoesNotFitError("exists twice: rename one of them", inner)
            seen.add(field.name)
            within = constraints.of_member(field.name)
            around = _Around.of(f",{json.dumps(field.name, ensure_ascii=False)}:".encode(), within)
            if self._options.omits_nulls:
                around = around._replace(null=None if constraints.require(field.name) else b"")
            members.append(self._node(field, number, inner, within, around))
        return tuple(members)

    def _entry(self, entry: ArrowField, place: str, constraints: Constraints) -> PlanNode:
        """The node of a key and a value of a map."""
        key, value = entry.values.children
        found = scalar(key, self._options)
        if found is None or found[0].operation in (JsonOperation.FLOAT, JsonOperation.DECIMAL):
            raise DoesNotFitError(
                f"is of type {type_name(key)}, but keys in JSON are strings: cast it to string",
                f"{place}.key",
            )
        node, kind = found
        quote = b'"' if kind in _UNQUOTED else b""
        children = (
            node._replace(column=0, prefix=b"," + quote, place=f"{place}.key"),
            self._node(value, 1, f"{place}.value", constraints, _Around.of(quote + b":", constraints)),
        )
        return PlanNode(JsonOperation.ENTRY, 0, children=children, place=f"{place}[]")

    def _union(
        self, values: ArrowField, column: int, place: str, constraints: Constraints, around: _Around
    ) -> PlanNode:
        """Unions have no nulls of their own, but their alternatives do."""
        children = tuple(
            self._node(child, number, f"{place}.{child.name}", constraints, around)
            for number, child in enumerate(values.children)
        )
        symbols = alternatives(values)
        return PlanNode(JsonOperation.UNION, column, children=children, symbols=symbols, place=place)


def not_written_as_json(field: ArrowField) -> str:
    """The text of an error, without the column."""
    return f"is of type {type_name(field)}, which is not written as JSON: cast it, or leave it out"


def _mismatch(field: ArrowField, place: str, constraints: Constraints, problem: str) -> DoesNotFitError:
    fitting = (text for kind, text in _REMEDIES.items() if not constraints.exclude(kind))
    wanted = f"the property {place!r} of the JSON Schema" if place else "the JSON Schema"
    return DoesNotFitError(
        f"is of type {type_name(field)} and does not fit {wanted}: it {problem}: "
        f"{next(fitting, 'leave the column out')}, or change the schema",
        place,
    )

"""AvroCompiler: from an Avro schema and the types of Arrow columns to the nodes of a plan.

Source: Avro specification 1.12, "Binary Encoding", "Logical Types", and, for defaults, "Schema Resolution";
docs/decisions/0050-own-avro-encoders.md

The columns that a field takes:

============================  ===========================================================================
Avro type                     columns
============================  ===========================================================================
``null``                      null
``boolean``                   bool
``int``, ``long``             integers; a number that is too large does not fit
``float``                     half_float, float, integers; integers up to 2^24, so that they stay exact
``double``                    half_float, float, double, integers; integers up to 2^53
``string``                    strings
``bytes``                     binary, strings (as UTF-8)
``fixed``                     binary; of the right size
``enum``                      strings; one of the symbols
``array``                     lists
``map``                       map with string keys; list of structs with two fields
``record``                    struct; fields by name, as in the row
``date``                      date32, date64, integers
``time-millis``, ``-micros``  time32, time64, integers
``(local-)timestamp-*``       timestamps with and without time zone, integers; the zone does not change
                              the number
``decimal``                   decimals with at most the scale of the schema, in ``bytes`` or ``fixed``;
                              32 to 256 bits; zeros are added to the scale
``uuid``                      strings, fixed-size binary of 16 bytes, in ``string`` or ``fixed``
``duration``                  durations, intervals; not negative; durations become milliseconds
============================  ===========================================================================

Units are converted; coarser units round down: 1.9 ms are 1 ms, and -0.1 ms are -1 ms. Integers in a logical
type are written as they are, but a timestamp does not fit a plain ``long``. Columns find the fields with
their names, in any order, also in structs. A column goes to the branch of a union that fits its type exactly,
otherwise to the first that fits; null goes to ``null``. Each type of an Arrow union finds its own branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from kproducer._core.columns.encoder_plan import CONSTANT, ROW, ArrowField, AvroOperation, Format, PlanNode
from kproducer._core.kernel.varint import encode_varlong
from kproducer.columnar.avro_default import encoded_default
from kproducer.columnar.avro_schema import PLAIN_TYPES
from kproducer.columnar.chosen_columns import (
    BINARY,
    INTEGERS,
    LISTS,
    MS_PER_DAY,
    TEXT,
    TICKS_PER_SECOND,
    ChosenColumns,
    listed,
    not_in_schema,
    type_name,
)
from kproducer.columnar.column_compiler import ColumnCompiler, DoesNotFitError, alternatives, inner_place

_INT_BITS: Final = 32
_LONG_BITS: Final = 64
_UUID_BYTES: Final = 16
_DURATION_BYTES: Final = 12
_LIMIT_BYTES: Final = 32

#: For logical types of int and long: the letters in front of the unit in Arrow's formats, and ticks per
#: second.
_TIMES: Final = {
    "time-millis": ("tt", 1_000),
    "time-micros": ("tt", 1_000_000),
    **{
        f"{local}timestamp-{unit}": ("ts", ticks)
        for local in ("", "local-")
        for unit, ticks in (("millis", 1_000), ("micros", 1_000_000), ("nanos", 1_000_000_000))
    },
}
#: The type that a column should have, for the texts of errors.
_REMEDIES: Final = {
    "null": "leave the column out",
    "boolean": "cast it to bool",
    "int": "cast it to int32",
    "long": "cast it to int64",
    "float": "cast it to float32",
    "double": "cast it to float64",
    "bytes": "cast it to binary",
    "string": "cast it to string",
    "enum": "cast it to string",
    "fixed": "cast it to a fixed_size_binary of that size",
    "array": "make it a list",
    "map": "make it a map with string keys",
    "record": "make it a struct",
    "date": "cast it to date32",
    "uuid": "cast it to string",
    "decimal": "cast it to a decimal with at most that scale",
    "duration": "cast it to a duration or month_day_nano_interval",
}
#: Makes a node, without column and place, from a schema and the field of the values; ``None``: they do not
#: fit.
_MakeNode = Callable[[Any, ArrowField], "PlanNode | None"]


class AvroCompiler(ColumnCompiler):
    """Compiles the columns of one call for one schema.

    Args:
        schema: as ``fastavro.parse_schema`` returns it.
        named_schemas: the named types that schemas refer to, as ``fastavro.parse_schema`` collects them.
        is_registered: whether records name the schema.
        role: ``"key"`` or ``"value"``.
    """

    format = Format.AVRO

    def __init__(self, schema: Any, named_schemas: Mapping[str, Any], is_registered: bool, role: str) -> None:
        super().__init__(role)
        self._schema, self._named_schemas, self._is_registered = schema, named_schemas, is_registered

    def row(self, chosen: ChosenColumns) -> PlanNode:
        """A record of the columns. The schema has to be a record, or a union with one record."""
        schema = self._schema
        records = [
            (number, resolved)
            for number, branch in enumerate(schema if isinstance(schema, list) else [schema])
            if _kind(resolved := self._resolved(branch)) == "record"
        ]
        if len(records) != 1:
            raise DoesNotFitError(
                f"several columns make a record, but the Avro schema is {self._described(schema)}: pass "
                "columns='name' to write one column"
            )
        number, record = records[0]
        columns = chosen.with_others({field["name"] for field in record["fields"]})
        children = self._fields(record, columns, "", "column")
        if isinstance(schema, list):
            # The number of the branch becomes a child that writes constant bytes, because the node of the row
            # has no place for a prefix.
            children = (PlanNode(AvroOperation.NOTHING, CONSTANT, encode_varlong(number)), *children)
        return PlanNode(AvroOperation.RECORD, ROW, children=children)

    def column(self, number: int, field: ArrowField) -> PlanNode:
        """The values of the column, without a record around them."""
        node = self._node(self._schema, field, number, "")
        # Like the serializers for a registry, this writes bytes without a length if the schema is only bytes.
        is_bare = self._is_registered and self._schema in ("bytes", {"type": "bytes"})
        return node._replace(a=1) if is_bare else node

    # -- any type ----------------------------------------------------------------------------------------

    def _node(self, schema: Any, field: ArrowField, column: int, place: str) -> PlanNode:
        schema = self._resolved(schema)
        if isinstance(schema, list):
            return self._union(schema, field, column, place)
        kind = _kind(schema)
        if kind in ("array", "map", "record"):
            node = self._nested(kind, schema, field.values, place)
        else:
            make = _LOGICAL.get((kind, _logical(schema))) or _PLAIN.get(kind) or _scalar
            node = make(schema, field.values)
        if node is None:
            raise self._mismatch(schema, field, place)
        return node._replace(column=column, place=place)

    def _nested(self, kind: str, schema: Any, values: ArrowField, place: str) -> PlanNode | None:
        """The node of an array, a map or a record; ``None``: the values do not fit."""
        if kind == "record":
            if values.format != "+s":
                return None
            fields = self._fields(schema, enumerate(values.children), place, "field")
            return PlanNode(AvroOperation.RECORD, 0, children=fields)
        is_list = values.format.startswith(LISTS)
        if not is_list and (kind == "array" or values.format != "+m"):
            return None
        element = values.children[0]
        if kind == "array":
            return PlanNode(
                AvroOperation.ARRAY, 0, children=(self._node(schema["items"], element, 0, f"{place}[]"),)
            )
        if is_list and (element.format != "+s" or len(element.children) != 2):
            return None
        key, value = element.values.children
        pair = (
            self._node("string", key, 0, f"{place}.key"),
            self._node(schema["values"], value, 1, f"{place}.value"),
        )
        entry = PlanNode(AvroOperation.RECORD, 0, children=pair, place=f"{place}[]")
        return PlanNode(AvroOperation.ARRAY, 0, children=(entry,))

    def _fields(
        self, record: Any, given: Iterable[tuple[int, ArrowField]], place: str, what: str
    ) -> tuple[PlanNode, ...]:
        """The nodes of a record's fields, in the order of the schema."""
        found: dict[str, tuple[int, ArrowField]] = {}
        for number, each in given:
            if each.name in found:
                where = f" of {place!r}" if place else ""
                raise DoesNotFitError(f"two {what}s{where} have the name {each.name!r}: rename one of them")
            found[each.name] = number, each
        nodes = []
        names = [field["name"] for field in record["fields"]]
        unknown = [name for name in found if name not in names]
        for field in record["fields"]:
            name = field["name"]
            inner = inner_place(place, name)
            if what == "column":
                self._column = name
            if name in found:
                number, arrow_field = found.pop(name)
                nodes.append(self._node(field["type"], arrow_field, number, inner))
            else:
                default = self._default(field, inner, what, unknown)
                nodes.append(PlanNode(AvroOperation.NOTHING, CONSTANT, default, place=inner))
        if found:
            raise DoesNotFitError(not_in_schema(what, list(found), place, "Avro schema", names))
        return tuple(nodes)

    def _default(self, field: Any, place: str, what: str, unknown: Sequence[str]) -> bytes:
        """What is written for a field that the data do not have.

        Args:
            field: of the schema.
            place: of the field.
            what: ``"column"`` or ``"field"``, for the error's text.
            unknown: those that are not in the schema, of which one may be meant.
        """
        if "default" in field:
            try:
                return encoded_default(field["type"], field["default"], self._resolved)
            except (ValueError, OverflowError, RecursionError) as error:
                raise DoesNotFitError(
                    f"the default {field['default']!r} of field {place!r} does not fit its Avro type: {error}"
                ) from error
        branches = self._resolved(field["type"])
        kinds = [_kind(self._resolved(each)) for each in branches] if isinstance(branches, list) else []
        if "null" in kinds:
            return encode_varlong(kinds.index("null"))
        without = f" ({what}s without a field: {listed(unknown)})" if unknown else ""
        raise DoesNotFitError(
            f"there is no {what} for field {place!r} of the Avro schema, which has no default{without}: add "
            f"the {what}, or a default to the schema"
        )

    def _union(self, branches: Sequence[Any], field: ArrowField, column: int, place: str) -> PlanNode:
        kinds = [_kind(self._resolved(branch)) for branch in branches]
        null = encode_varlong(kinds.index("null")) if "null" in kinds else None
        values = field.values
        if values.format == "n" and null is not None:
            return PlanNode(AvroOperation.NOTHING, column, null=null, place=place)
        if values.format.startswith("+u"):
            children = tuple(
                self._union(branches, child, number, f"{place}.{child.name}")
                for number, child in enumerate(values.children)
            )
            symbols = alternatives(values)
            return PlanNode(AvroOperation.UNION, column, children=children, symbols=symbols, place=place)
        fitting: list[tuple[int, PlanNode]] = []
        refusals = []
        for number, branch in enumerate(branches):
            if kinds[number] == "null":
                continue
            try:
                fitting.append((number, self._node(branch, field, column, place)))
            except DoesNotFitError as error:
                refusals.append(error)
        if not fitting:
            if len(refusals) == 1:
                raise refusals[0]
            raise self._mismatch(list(branches), field, place)
        exact = PLAIN_TYPES.get(values.format)
        number, node = next((each for each in fitting if kinds[each[0]] == exact), fitting[0])
        return node._replace(prefix=encode_varlong(number), null=null)

    # -- schemas -----------------------------------------------------------------------------------------

    def _resolved(self, schema: Any) -> Any:
        """Follow names: to the name of a primitive type, a union, or a dictionary with its type."""
        while True:
            if isinstance(schema, str):
                if schema not in self._named_schemas:
                    return schema
                schema = self._named_schemas[schema]
            elif isinstance(schema, list):
                return schema
            else:
                kind = schema["type"]
                if isinstance(kind, str) and kind not in self._named_schemas:
                    return schema
                schema = kind

    def _described(self, schema: Any) -> str:
        schema = self._resolved(schema)
        if isinstance(schema, list):
            return f"a union of {', '.join(map(self._described, schema))}"
        logical = _logical(schema)
        kind = _kind(schema)
        if logical == "decimal":
            return f"decimal({schema['precision']}, {schema.get('scale', 0)}) in {kind}"
        if kind in ("record", "enum", "fixed"):
            kind = f"{kind} {schema['name']}"
        return f"{logical} in {kind}" if logical else str(kind)

    def _mismatch(self, schema: Any, field: ArrowField, place: str) -> DoesNotFitError:
        kind = _kind(schema) if not isinstance(schema, list) else ""
        logical = _logical(schema)
        remedy = _REMEDIES.get(logical or kind) or _REMEDIES.get(kind) or "cast it to the type of one of them"
        if logical in _TIMES:
            remedy = f"cast it to a {'time' if _TIMES[logical][0] == 'tt' else 'timestamp'}"
        return DoesNotFitError(
            f"is of type {type_name(field)}, which does not fit {self._described(schema)} of the Avro "
            f"schema: {remedy}, or change the schema",
            place,
        )


def _kind(schema: Any) -> str:
    """The type of a resolved schema that is not a union; errors of Avro's protocols are records."""
    if isinstance(schema, list):
        return "union"
    kind = schema["type"] if isinstance(schema, dict) else schema
    return "record" if kind == "error" else str(kind)


def _logical(schema: Any) -> str | None:
    """The logical type; ``None`` if there is none, or one that is not valid, which Avro ignores."""
    if not isinstance(schema, dict):
        return None
    logical, size = schema.get("logicalType"), schema.get("size", 0)
    is_ignored = {
        "decimal": not isinstance(schema.get("precision"), int)
        or not isinstance(schema.get("scale", 0), int)
        or not 0 <= schema.get("scale", 0) <= schema["precision"] > 0,
        "uuid": _kind(schema) == "fixed" and size != _UUID_BYTES,
        "duration": size != _DURATION_BYTES,
    }
    return None if not isinstance(logical, str) or is_ignored.get(logical) else logical


def scale(given: int, wanted: int) -> int:
    """From one number of ticks per second to another one: the factor, or negative the divisor."""
    return wanted // given if wanted >= given else -(given // wanted)


# -- types -------------------------------------------------------------------------------------------


def _null(schema: Any, values: ArrowField) -> PlanNode | None:
    return PlanNode(AvroOperation.NOTHING, 0, null=b"") if values.format == "n" else None


def _scalar(schema: Any, values: ArrowField) -> PlanNode | None:
    kind = _kind(schema)
    operation, accepted, bits = _SCALARS[kind]
    is_fixed = kind == "bytes" and values.format.startswith("w:")
    return PlanNode(operation, 0, b=bits) if values.format in accepted or is_fixed else None


def _date(schema: Any, values: ArrowField) -> PlanNode | None:
    if values.format == "tdm":
        return PlanNode(AvroOperation.INTEGER, 0, a=-MS_PER_DAY, b=_INT_BITS)
    if values.format == "tdD":
        return PlanNode(AvroOperation.INTEGER, 0, b=_INT_BITS)
    return _scalar(schema, values)


def _time(schema: Any, values: ArrowField) -> PlanNode | None:
    letters, ticks = _TIMES[schema["logicalType"]]
    if values.format[:2] != letters:
        return _scalar(schema, values)
    bits = _INT_BITS if _kind(schema) == "int" else _LONG_BITS
    return PlanNode(AvroOperation.INTEGER, 0, a=scale(TICKS_PER_SECOND[values.format[2]], ticks), b=bits)


def _fixed(schema: Any, values: ArrowField) -> PlanNode | None:
    size = schema["size"]
    is_right = values.format in BINARY or values.format == f"w:{size}"
    return PlanNode(AvroOperation.FIXED, 0, size=size) if is_right else None


def _decimal(schema: Any, values: ArrowField) -> PlanNode | None:
    if not values.format.startswith("d:"):
        return None
    missing = schema.get("scale", 0) - int(values.format[2:].split(",")[1])
    if missing < 0:
        return None
    # 10**78 does not fit into the limit's bytes, so a larger precision has no effect.
    limit = min(10 ** min(schema["precision"], 78), 1 << (8 * _LIMIT_BYTES - 1))
    symbols = ((b"", limit.to_bytes(_LIMIT_BYTES, "little")),)
    if _kind(schema) == "bytes":
        return PlanNode(AvroOperation.DECIMAL, 0, a=missing, symbols=symbols)
    return PlanNode(AvroOperation.DECIMAL_FIXED, 0, a=missing, size=schema["size"], symbols=symbols)


def _uuid(schema: Any, values: ArrowField) -> PlanNode | None:
    size = 0 if _kind(schema) == "string" else _UUID_BYTES
    if values.format in TEXT:
        return PlanNode(AvroOperation.UUID, 0, size=size)
    if values.format == f"w:{_UUID_BYTES}":
        return PlanNode(AvroOperation.UUID, 0, a=_UUID_BYTES, size=size)
    return None


def _duration(schema: Any, values: ArrowField) -> PlanNode | None:
    if values.format.startswith("ti"):
        return PlanNode(AvroOperation.DURATION, 0)
    if values.format.startswith("tD"):
        return PlanNode(AvroOperation.DURATION, 0, a=scale(TICKS_PER_SECOND[values.format[2]], 1_000))
    return None


def _enum(schema: Any, values: ArrowField) -> PlanNode | None:
    symbols = tuple(
        (symbol.encode(), encode_varlong(number)) for number, symbol in enumerate(schema["symbols"])
    )
    return PlanNode(AvroOperation.ENUM, 0, symbols=symbols) if values.format in TEXT and symbols else None


#: By type: the operation, the formats of columns that it takes, and ``b`` of its nodes.
_SCALARS: Final[dict[str, tuple[AvroOperation, frozenset[str], int]]] = {
    "boolean": (AvroOperation.BOOLEAN, frozenset("b"), 0),
    "int": (AvroOperation.INTEGER, INTEGERS, _INT_BITS),
    "long": (AvroOperation.INTEGER, INTEGERS, _LONG_BITS),
    "float": (AvroOperation.FLOAT, INTEGERS | frozenset("ef"), 0),
    "double": (AvroOperation.DOUBLE, INTEGERS | frozenset("efg"), 0),
    "bytes": (AvroOperation.BYTES, TEXT | BINARY, 0),
    "string": (AvroOperation.BYTES, TEXT, 0),
}
_PLAIN: Final[dict[str, _MakeNode]] = {"null": _null, "fixed": _fixed, "enum": _enum}
_LOGICAL: Final[dict[tuple[str, Any], _MakeNode]] = {
    ("int", "date"): _date,
    ("int", "time-millis"): _time,
    **{("long", name): _time for name in _TIMES if name != "time-millis"},
    ("bytes", "decimal"): _decimal,
    ("fixed", "decimal"): _decimal,
    ("string", "uuid"): _uuid,
    ("fixed", "uuid"): _uuid,
    ("fixed", "duration"): _duration,
}

"""The generated Avro encoder: for any schema and value the same bytes as fastavro, or fastavro's error."""

from __future__ import annotations

import datetime
import io
import json
import uuid
from decimal import Decimal
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from hypothesis import given
from hypothesis import strategies as st

from kproducer.schema_registry.avro_encoder import compile_encoder

PREFIX = b"\x00\x00\x00\x00\x07"
UTC = datetime.timezone.utc


class FastavroUsedError(Exception):
    """The generated code declined the value."""


def by_fastavro(parsed: Any, value: Any, strict: bool = False) -> bytes:
    buffer = io.BytesIO()
    schemaless_writer(buffer, parsed, value, strict=strict)
    return PREFIX + buffer.getvalue()


def generated(schema: Any, strict: bool = False, refuse: bool = False) -> Any:
    named: dict[str, Any] = {}
    parsed = parse_schema(schema, named)

    def with_fastavro(value: Any) -> bytes:
        if refuse:
            raise FastavroUsedError
        return by_fastavro(parsed, value, strict)

    return compile_encoder(parsed, named, PREFIX, strict, with_fastavro), parsed


def record(*types: Any, name: str = "Row") -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{number}", "type": kind} for number, kind in enumerate(types)],
    }


NAMES = iter(range(10**9))
aware = st.datetimes(
    min_value=datetime.datetime(1900, 1, 1),
    max_value=datetime.datetime(2200, 1, 1),
    timezones=st.sampled_from([UTC, datetime.timezone(datetime.timedelta(hours=5, minutes=30)), None]),
)
longs = st.integers(-(2**63), 2**63 - 1)
PRIMITIVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("null", st.none()),
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", longs | st.integers(-20_000, 20_000)),
    ("float", st.floats(width=32)),
    ("double", st.floats()),
    ("string", st.text()),
    ("bytes", st.binary()),
    ({"type": "long", "logicalType": "timestamp-micros"}, aware | longs),
    ({"type": "long", "logicalType": "timestamp-millis"}, aware | longs),
    ({"type": "long", "logicalType": "time-micros"}, st.times()),
    ({"type": "int", "logicalType": "date"}, st.dates() | st.integers(-1000, 1000)),
    ({"type": "string", "logicalType": "uuid"}, st.uuids()),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        st.decimals(-1000, 1000, places=2),
    ),
]


@st.composite
def schemas(draw: Any, depth: int = 2) -> tuple[Any, st.SearchStrategy[Any]]:
    """A schema, and a strategy of its values."""
    kinds = ["primitive"] * 3 + ["enum", "fixed", "nullable", "union"]
    kinds += ["array", "map", "record"] if depth else []
    kind = draw(st.sampled_from(kinds))
    if kind == "primitive":
        return draw(st.sampled_from(PRIMITIVES))
    if kind == "enum":
        symbols = ["A", "B", "C"]
        return {"type": "enum", "name": f"E{next(NAMES)}", "symbols": symbols}, st.sampled_from(symbols)
    if kind == "fixed":
        return {"type": "fixed", "name": f"X{next(NAMES)}", "size": 3}, st.binary(min_size=3, max_size=3)
    if kind == "union":
        some = draw(
            st.lists(st.sampled_from(PRIMITIVES[:8]), min_size=1, max_size=4, unique_by=lambda p: p[0])
        )
        return [each[0] for each in some], st.one_of(*(each[1] for each in some))
    inner, values = draw(schemas(depth=max(depth - 1, 0)))
    if kind == "nullable":
        if isinstance(inner, list) or inner == "null":
            return inner, values
        return draw(st.permutations(["null", inner])), st.none() | values
    if kind == "array":
        return {"type": "array", "items": inner}, st.lists(values, max_size=3)
    if kind == "map":
        return {"type": "map", "values": inner}, st.dictionaries(st.text(max_size=3), values, max_size=3)
    return draw(records(depth=depth - 1))


@st.composite
def records(draw: Any, depth: int = 2) -> tuple[Any, st.SearchStrategy[Any]]:
    fields = draw(st.lists(schemas(depth=depth), max_size=5))
    schema = record(*(each[0] for each in fields), name=f"R{next(NAMES)}")
    return schema, st.fixed_dictionaries({f"f{number}": each[1] for number, each in enumerate(fields)})


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=4,
)


def outcome(encode: Any, value: Any) -> tuple[str, Any]:
    try:
        return "bytes", encode(value)
    except Exception as error:
        return "error", type(error)


@given(st.data())
def test_values_of_a_schema_have_fastavros_bytes(data):
    schema, values = data.draw(records())
    encode, parsed = generated(schema)
    value = data.draw(values)
    assert encode(value) == by_fastavro(parsed, value)


@given(st.data())
def test_any_other_value_has_fastavros_bytes_or_error(data):
    schema, values = data.draw(records(depth=1))
    strict = data.draw(st.booleans())
    encode, parsed = generated(schema, strict)
    value = data.draw(values)
    for name in data.draw(st.lists(st.sampled_from([*value, "another"]), max_size=3)):
        if data.draw(st.booleans()):
            value.pop(name, None)
        else:
            value[name] = data.draw(anything)
    expected = outcome(lambda each: by_fastavro(parsed, each, strict), value)
    assert outcome(encode, value) == expected


USUAL = [
    ("long", 2**63 - 1),
    ("long", -(2**63)),
    ("long", 8192),
    ("int", -1),
    ("double", 1.5),
    ("double", 1),
    ("float", 1.5),
    ("string", "täxt"),
    ("string", "x" * 9000),
    ("bytes", b"x"),
    ("boolean", True),
    (["null", "string"], None),
    (["null", "string"], "x"),
    (["long", "null"], 3),
    (
        ["null", {"type": "long", "logicalType": "timestamp-micros"}],
        datetime.datetime(1969, 1, 1, tzinfo=UTC),
    ),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        datetime.datetime(2026, 1, 1, 1, 1, 1, 999_999, UTC),
    ),
    ({"type": "int", "logicalType": "date"}, datetime.date(2026, 1, 1)),
    ({"type": "string", "logicalType": "uuid"}, uuid.UUID(int=5)),
    ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, Decimal("1.25")),
    ({"type": "array", "items": "long"}, [1, 2, 300]),
    ({"type": "array", "items": "long"}, []),
    ({"type": "map", "values": "string"}, {"a": "b"}),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
    ({"type": "fixed", "name": "X", "size": 2}, b"ab"),
    (["null", record("long", name="Inner")], {"f0": 5}),
    (["null", "string", "long"], 5),
]


@pytest.mark.parametrize(("kind", "value"), USUAL, ids=str)
def test_usual_values_do_not_need_fastavro(kind, value):
    encode, parsed = generated(record(kind), refuse=True)
    assert encode({"f0": value}) == by_fastavro(parsed, {"f0": value})


@pytest.mark.parametrize("value", [1.75, True, 2**70, "text", -1, 2**40, 5, None], ids=str)
@pytest.mark.parametrize(
    "kind",
    [
        {"type": "int", "logicalType": "time-millis"},
        {"type": "long", "logicalType": "time-micros"},
        {"type": "long", "logicalType": "local-timestamp-millis"},
        {"type": "long", "logicalType": "local-timestamp-micros"},
        {"type": "long", "logicalType": "timestamp-nanos"},
        {"type": "long", "logicalType": "timestamp-millis"},
        {"type": "int", "logicalType": "date"},
        {"type": "string", "logicalType": "uuid"},
        {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
    ],
    ids=lambda kind: kind["logicalType"],
)
@pytest.mark.parametrize("is_nullable", [True, False], ids=["nullable", "required"])
def test_logical_types_accept_what_fastavro_accepts(kind, value, is_nullable):
    encode, parsed = generated(record(["null", kind] if is_nullable else kind))
    row = {"f0": value}
    assert outcome(encode, row) == outcome(lambda each: by_fastavro(parsed, each), row)


def test_unknown_logical_types_are_left_to_fastavro():
    inner = record("long", name="Inner")
    schema = record(inner, {"type": "array", "items": "Inner", "logicalType": "unknown"})
    encode, parsed = generated(schema)
    value = {"f0": {"f0": 1}, "f1": [{"f0": 2}]}
    assert encode(value) == by_fastavro(parsed, value)
    encode, parsed = generated(record({"type": "long", "logicalType": "unknown"}), refuse=True)
    assert encode({"f0": 3}) == by_fastavro(parsed, {"f0": 3})


def test_a_record_may_contain_itself():
    schema = record("long", ["null", "Row"])
    encode, parsed = generated(schema, refuse=True)
    value = {"f0": 1, "f1": {"f0": 2, "f1": {"f0": 3, "f1": None}}}
    assert encode(value) == by_fastavro(parsed, value)


def test_a_value_that_contains_itself_is_an_error():
    encode, _ = generated(record("long", ["null", "Row"]))
    value: dict[str, Any] = {"f0": 1}
    value["f1"] = value
    with pytest.raises(RecursionError):
        encode(value)


def test_missing_fields_get_their_defaults():
    schema = record("long", "string")
    schema["fields"][1]["default"] = "none"
    encode, parsed = generated(schema, refuse=True)
    assert encode({"f0": 1}) == by_fastavro(parsed, {"f0": 1})


def test_names_of_fields_are_data_and_not_code():
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "class", "type": "long"}, {"name": "__import__", "type": "string"}],
    }
    encode, parsed = generated(schema, refuse=True)
    value = {"class": 1, "__import__": "os"}
    assert schemaless_reader(io.BytesIO(encode(value)[5:]), parsed) == value


def test_sizes_are_data_and_not_code():
    encode, _ = generated(record({"type": "fixed", "name": "X", "size": "exit()"}), refuse=True)
    with pytest.raises(FastavroUsedError):
        encode({"f0": b"x"})


def test_defaults_of_a_schema_are_data_and_not_code():
    text = "'); raise SystemExit #"
    schema = record("string")
    schema["fields"][0]["default"] = text
    encode, parsed = generated(json.loads(json.dumps(schema)), refuse=True)
    assert schemaless_reader(io.BytesIO(encode({})[5:]), parsed) == {"f0": text}

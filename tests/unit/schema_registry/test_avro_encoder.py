"""The encoder of records in Avro: for any schema and value the same bytes as fastavro, or fastavro's error.

Tests that only the compiled encoder can pass are skipped without it.
"""

from __future__ import annotations

import datetime
import io
import json
import sys
import uuid
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from fastavro.write import LOGICAL_WRITERS
from hypothesis import given
from hypothesis import strategies as st

from kproducer._core.columns.avro_records import AvroRecordEncoder
from kproducer.schema_registry import Schema
from kproducer.schema_registry.avro import SETTINGS, AvroFormat
from kproducer.schema_registry.avro_encoder import compile_encoder

PREFIX = b"\x00\x00\x00\x00\x07"
UTC = datetime.timezone.utc


class FastavroUsedError(Exception):
    """The compiled encoder declined the value."""


def by_fastavro(parsed: Any, value: Any, strict: bool = False) -> bytes:
    buffer = io.BytesIO()
    schemaless_writer(buffer, parsed, value, strict=strict)
    return PREFIX + buffer.getvalue()


def compiled(schema: Any, strict: bool = False, refuse: bool = False) -> Any:
    """An encoder of values with this schema, and the parsed schema. ``refuse``: without fastavro."""
    if refuse and AvroRecordEncoder is None:
        pytest.skip("fastavro encodes all values without the native kernel")
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
ZONES = [
    UTC,
    datetime.timezone(datetime.timedelta(hours=5, minutes=30)),
    datetime.timezone(datetime.timedelta(hours=-3, microseconds=1)),
    ZoneInfo("UTC"),
    ZoneInfo("Europe/Berlin"),
    None,
]
aware = st.datetimes(timezones=st.sampled_from(ZONES[:-1])) | st.datetimes(
    # fastavro takes those without a time zone for local times, which the C library converts.
    min_value=datetime.datetime(1900, 1, 1),
    max_value=datetime.datetime(2200, 1, 1),
    timezones=st.sampled_from(ZONES),
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


def dictionaries_in(value: Any) -> list[dict[str, Any]]:
    """A dictionary or list, and all dictionaries in it: records and maps."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    found = [value] if isinstance(value, dict) else []
    return found + [inner for part in parts for inner in dictionaries_in(part)]


def outcome(encode: Any, value: Any) -> tuple[str, Any]:
    try:
        return "bytes", encode(value)
    except Exception as error:
        return "error", type(error)


@given(st.data())
def test_values_of_a_schema_have_fastavros_bytes(data):
    schema, values = data.draw(records())
    encode, parsed = compiled(schema)
    value = data.draw(values)
    assert encode(value) == by_fastavro(parsed, value)


@given(st.data())
def test_any_other_value_has_fastavros_bytes_or_error(data):
    schema, values = data.draw(records(depth=1))
    strict = data.draw(st.booleans())
    encode, parsed = compiled(schema, strict)
    value = data.draw(values)
    for part in data.draw(st.lists(st.sampled_from(dictionaries_in(value)), max_size=3)):
        name = data.draw(st.sampled_from([*part, "another", "-type"]))
        if data.draw(st.booleans()):
            part.pop(name, None)
        else:
            part[name] = data.draw(anything)
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
    encode, parsed = compiled(record(kind), refuse=True)
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
    encode, parsed = compiled(record(["null", kind] if is_nullable else kind))
    row = {"f0": value}
    assert outcome(encode, row) == outcome(lambda each: by_fastavro(parsed, each), row)


def test_unknown_logical_types_are_left_to_fastavro():
    inner = record("long", name="Inner")
    schema = record(inner, {"type": "array", "items": "Inner", "logicalType": "unknown"})
    encode, parsed = compiled(schema)
    value = {"f0": {"f0": 1}, "f1": [{"f0": 2}]}
    assert encode(value) == by_fastavro(parsed, value)
    encode, parsed = compiled(record({"type": "long", "logicalType": "unknown"}), refuse=True)
    assert encode({"f0": 3}) == by_fastavro(parsed, {"f0": 3})


def test_a_record_may_contain_itself():
    schema = record("long", ["null", "Row"])
    encode, parsed = compiled(schema, refuse=True)
    value = {"f0": 1, "f1": {"f0": 2, "f1": {"f0": 3, "f1": None}}}
    assert encode(value) == by_fastavro(parsed, value)


@pytest.mark.parametrize("extra", [{}, {"f0": 1.5}], ids=["usual", "declined"])
@pytest.mark.parametrize(
    ("kind", "wrap"),
    [
        (["null", "Row"], lambda value: value),
        ({"type": "array", "items": "Row"}, lambda value: [value]),
        ({"type": "map", "values": ["null", "Row"]}, lambda value: {"key": value}),
        (["null", "Row", record("long", name="Other")], lambda value: value),
        (["null", "Row"], lambda value: ("Row", value)),
    ],
    ids=["nullable", "array", "map", "union", "named branch"],
)
def test_a_value_that_contains_itself_is_an_error(kind, wrap, extra):
    """fastavro alone would crash, so with and without the compiled encoder it does not get the value."""
    schema = json.dumps(record("long", kind))
    encode = AvroFormat("schema", schema, None, SETTINGS).encoder(Schema(schema), PREFIX)
    value: dict[str, Any] = {"f0": 1, **extra}
    value["f1"] = wrap(value)
    with pytest.raises(RecursionError):
        encode(value)


def test_what_is_not_part_of_the_record_may_contain_it():
    schema = json.dumps(record("long", ["null", "Row"], {"type": "map", "values": "Row"}))
    encode = AvroFormat("schema", schema, None, SETTINGS).encoder(Schema(schema), PREFIX)
    leaf: dict[str, Any] = {"f0": 1, "f1": None, "f2": {}}
    value: dict[str, Any] = {"f0": 1, "f1": leaf, "f2": {"a": leaf, "b": leaf}}
    leaf["parent"] = value
    assert encode(value) == by_fastavro(parse_schema(json.loads(schema)), value)
    value["f0"] = Exact(1)  # declined
    assert encode(value) == by_fastavro(parse_schema(json.loads(schema)), value)


def test_values_may_be_nested_deeply():
    schema = json.dumps(record("long", ["null", "Row"]))
    encode = AvroFormat("schema", schema, None, SETTINGS).encoder(Schema(schema), PREFIX)
    value = None
    for number in range(500):
        value = {"f0": number, "f1": value}
    assert encode(value) == by_fastavro(parse_schema(json.loads(schema)), value)


@pytest.mark.parametrize("levels", [890, 950])
def test_values_that_are_nested_very_deeply_are_left_to_fastavro(levels):
    encode, parsed = compiled(record(["null", "Row"]))
    refusing, _ = compiled(record(["null", "Row"]), refuse=True)
    value = None
    for _ in range(levels):
        value = {"f0": value}
    assert encode(value) == by_fastavro(parsed, value)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        assert outcome(refusing, value)[0] == ("bytes" if levels < 900 else "error")
    finally:
        sys.setrecursionlimit(limit)


class Exact(int):
    """A subclass of a class that the encoder knows."""


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("long", 2**63),
        ("int", 2**31),
        ("long", Exact(1)),
        ("long", True),
        ("boolean", 1),
        ("string", "\ud800"),
        ("string", b"x"),
        ("bytes", bytearray(b"x")),
        ("float", 1e39),
        ("double", 10**400),
        ("null", 0),
        ({"type": "fixed", "name": "X", "size": 2}, b"abc"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, []),
        ({"type": "array", "items": "long"}, (1, 2)),
        ({"type": "map", "values": "long"}, {1: 2}),
        (["null", "string", "long"], 1.5),
        (["string", "long"], None),
        (["null", record("long", name="Inner")], {"f0": 1, "-type": "Inner"}),
        ({"type": "long", "logicalType": "timestamp-millis"}, datetime.datetime(2026, 1, 1)),
        ({"type": "int", "logicalType": "date"}, "2026-01-01"),
        ({"type": "int", "logicalType": "time-millis"}, 1.75),
    ],
    ids=str,
)
def test_other_values_are_left_to_fastavro(kind, value):
    encode, parsed = compiled(record(kind), refuse=True)
    with pytest.raises(FastavroUsedError) as caught:
        encode({"f0": value})
    assert caught.value.__context__ is None
    encode, parsed = compiled(record(kind))
    assert outcome(encode, {"f0": value}) == outcome(lambda each: by_fastavro(parsed, each), {"f0": value})


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "lenient"])
@pytest.mark.parametrize("value", [{"f0": 1}, {"f0": 1, "f1": None, "f2": 5}, {}], ids=str)
def test_missing_and_unknown_fields(value, strict):
    encode, parsed = compiled(record("long", ["null", "string"]), strict=strict)
    expected = outcome(lambda each: by_fastavro(parsed, each, strict), value)
    assert outcome(encode, value) == expected


def test_missing_nullable_fields_are_null():
    inner = record("long", ["null", "string"], name="Inner")
    encode, parsed = compiled(record(["string", "null"], ["null", inner]), refuse=True)
    for value in ({}, {"f1": {"f0": 1}}):
        assert encode(value) == by_fastavro(parsed, value)


def test_a_key_that_names_the_branch_counts_at_any_depth():
    inner = record("long", name="Inner")
    encode, parsed = compiled(record(["null", record(inner, name="Outer")]))
    for name in ("Inner", "Outer"):
        value = {"f0": {"f0": {"f0": 1, "-type": name}}}
        assert outcome(encode, value) == outcome(lambda each: by_fastavro(parsed, each), value)


class Sly(str):
    """Equal to a field's name. ``deed`` runs when it is looked up."""

    deed: Any = None

    def __hash__(self) -> int:
        return str.__hash__(self)

    def __eq__(self, other: object) -> bool:
        if self.deed is not None:
            self.deed()
        return str.__eq__(self, other)


class SlyZone(datetime.tzinfo):
    """``deed`` runs when a time in this zone is written."""

    deed: Any = None

    def utcoffset(self, dt: datetime.datetime | None) -> datetime.timedelta:
        if self.deed is not None:
            self.deed()
        return datetime.timedelta(0)


TIME = {"type": "long", "logicalType": "timestamp-micros"}


def test_dictionaries_may_change_while_they_are_written():
    row = record("string", TIME, {"type": "map", "values": TIME}, {"type": "array", "items": TIME})
    encode, parsed = compiled(row, refuse=True)
    for change in (dict.clear, lambda each: each.update(f1=2), lambda each: each.pop("f0", None)):
        for name in ("f1", "map", "array"):
            sly = SlyZone()
            moment = datetime.datetime(2026, 1, 1, tzinfo=sly)
            value: dict[str, Any] = {
                "".join(("f", "0")): "text" * 10,
                "f1": 1,
                "f2": {"".join(("k", "ey")): 1, "other": 2},
                "f3": [1, 2],
            }
            parts: list[Any] = [value, value["f2"], value["f3"]]
            if name == "f1":
                value["f1"] = moment
            elif name == "map":
                value["f2"]["key"] = moment
            else:
                value["f3"][0] = moment

            def deed(parts: list[Any] = parts, change: Any = change) -> None:
                whole, inner, items = parts
                change(whole)
                change(inner)
                items.clear()

            sly.deed = deed
            kind, result = outcome(encode, value)
            assert kind == "error" or schemaless_reader(io.BytesIO(result[5:]), parsed)


def test_symbols_with_code_of_their_own_are_left_to_fastavro():
    class Same(str):
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            return True

    encode, parsed = compiled(record({"type": "enum", "name": "E", "symbols": ["A", "B"]}))
    assert encode({"f0": Same("B")}) == by_fastavro(parsed, {"f0": Same("B")})


def test_keys_with_code_of_their_own():
    encode, parsed = compiled(record("long", "string"))
    for key in ("f0", "f1"):
        sly = Sly(key)
        value: Any = {"f0": 1, "f1": "text"}
        value = {sly if name == key else name: each for name, each in value.items()}
        assert encode(value) == by_fastavro(parsed, value)
        sly.deed = value.clear
        assert outcome(encode, value)[0] == "error"


def test_a_record_may_be_written_while_another_one_is():
    encode, parsed = compiled(record("string", TIME, "string"), refuse=True)
    inner, results = {"f0": "inner", "f1": 2, "f2": "x" * 100_000}, []
    sly = SlyZone()
    sly.deed = lambda: results.append(encode(inner))
    outer = {"f0": "outer", "f1": datetime.datetime(2026, 1, 1, tzinfo=sly), "f2": "end"}
    assert encode(outer) == by_fastavro(parsed, {**outer, "f1": datetime.datetime(2026, 1, 1, tzinfo=UTC)})
    assert results[0] == by_fastavro(parsed, inner)


def test_an_interrupt_is_not_left_to_fastavro():
    encode, _ = compiled(record(TIME), refuse=True)

    def interrupt() -> None:
        raise KeyboardInterrupt

    sly = SlyZone()
    sly.deed = interrupt
    with pytest.raises(KeyboardInterrupt):
        encode({"f0": datetime.datetime(2026, 1, 1, tzinfo=sly)})


def test_missing_fields_get_their_defaults():
    schema = record("long", "string")
    schema["fields"][1]["default"] = "none"
    encode, parsed = compiled(schema, refuse=True)
    assert encode({"f0": 1}) == by_fastavro(parsed, {"f0": 1})


@pytest.mark.parametrize("is_declined", [True, False], ids=["declined", "written"])
@pytest.mark.parametrize(("kind", "value"), USUAL, ids=str)
def test_references_are_given_back(kind, value, is_declined):
    class Unknown:
        pass

    schema = record(kind, "null")
    encode, _ = compiled(schema, refuse=True)
    row = {"f0": value, "f1": Unknown() if is_declined else None}
    objects = [value, row, row["f1"], encode]
    before = [sys.getrefcount(each) for each in objects]
    for _ in range(100):
        outcome(encode, row)
    after = [sys.getrefcount(each) for each in objects]
    # Other threads may use None, True and small numbers meanwhile.
    assert all(new - old < 50 for old, new in zip(before, after, strict=True))


def test_names_of_fields_are_data_and_not_code():
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "class", "type": "long"}, {"name": "__import__", "type": "string"}],
    }
    encode, parsed = compiled(schema, refuse=True)
    value = {"class": 1, "__import__": "os"}
    assert schemaless_reader(io.BytesIO(encode(value)[5:]), parsed) == value


def test_sizes_are_data_and_not_code():
    encode, _ = compiled(record({"type": "fixed", "name": "X", "size": "exit()"}), refuse=True)
    with pytest.raises(FastavroUsedError):
        encode({"f0": b"x"})


def test_defaults_of_a_schema_are_data_and_not_code():
    text = "'); raise SystemExit #"
    schema = record("string")
    schema["fields"][0]["default"] = text
    encode, parsed = compiled(json.loads(json.dumps(schema)), refuse=True)
    assert schemaless_reader(io.BytesIO(encode({})[5:]), parsed) == {"f0": text}


LOGICAL_KINDS = [
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "int", "logicalType": "date"},
    {"type": "string", "logicalType": "opt"},
    [{"type": "string", "logicalType": "opt"}, "null"],
]


@pytest.mark.parametrize("kind", LOGICAL_KINDS, ids=str)
def test_logical_types_of_the_application_are_left_to_fastavro(kind, monkeypatch):
    logical = kind[0] if isinstance(kind, list) else kind
    value, written = (None, "none") if logical["type"] == "string" else (3, 5)
    name = f"{logical['type']}-{logical['logicalType']}"
    monkeypatch.setitem(LOGICAL_WRITERS, name, lambda value, schema: written)
    encode, parsed = compiled(record(kind))
    assert encode({"f0": value}) == by_fastavro(parsed, {"f0": value})


def test_a_logical_type_of_the_outermost_record_is_left_to_fastavro(monkeypatch):
    monkeypatch.setitem(LOGICAL_WRITERS, "record-more", lambda value, schema: {"f0": value["f0"] + 1})
    encode, parsed = compiled({**record("long"), "logicalType": "more"})
    assert encode({"f0": 1}) == by_fastavro(parsed, {"f0": 1})


def fields(*names: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": "long"} for name in names]}


def nested(levels: int) -> Any:
    schema: Any = "long"
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


UNUSUAL = [
    (fields("a", "a"), {"a": 1, "b": 2}),
    (record(["null", fields("-type")]), {"f0": {"-type": 1}}),
    (fields(5), {5: 1}),
    (record({"type": "enum", "name": "string", "symbols": ["A"]}, "string"), {"f0": "A", "f1": "A"}),
    (record({"type": "fixed", "name": "X", "size": 2**70}), {"f0": b"x"}),
    (record(nested(1000)), {"f0": []}),
]


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "lenient"])
@pytest.mark.parametrize(
    ("schema", "value"), UNUSUAL, ids=["repeated", "-type", "number", "enum string", "fixed", "arrays"]
)
def test_unusual_schemas_are_left_to_fastavro(schema, value, strict):
    encode, parsed = compiled(schema, strict)
    assert outcome(encode, value) == outcome(lambda each: by_fastavro(parsed, each, strict), value)

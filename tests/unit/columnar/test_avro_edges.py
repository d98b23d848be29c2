"""What is rare in Avro schemas and names of columns: it is written right, or refused with its name."""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kproducer._core.bulk.arrow_columns import ArrowColumns
from kproducer._core.bulk.column_format import ColumnsToEncode
from kproducer._core.columns.encoder_plan import ArrowField, Misfit
from kproducer.columnar import Avro
from kproducer.errors import InvalidArgumentError, SerializationError
from kproducer.schema_registry import AvroSerializer, SchemaRegistryClient, header_schema_id_serializer
from kproducer.testing.schema_registry import FakeSchemaRegistry
from tests.support.columnar.encoders import Encoders


def record(*fields: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def wanted(data: Any, **more: Any) -> ColumnsToEncode:
    fields = tuple(map(ArrowField.of, Encoders.of("pure").fields(data)))
    return ColumnsToEncode(fields, frozenset(), "t", "value")._replace(**more)


def encoded(both: tuple[Encoders, Encoders], data: Any, schema: Any, columns: Any = None) -> list[Any]:
    """What both kernels write."""
    plan = Avro(columns, schema=json.dumps(schema)).compile_columns(wanted(data)).plan
    native, pure = (each.encode(data, plan) for each in both)
    assert native == pure
    return native


def read(schema: Any, data: bytes, reader: Any = None) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(data), schema, reader)


def refusal(data: Any, schema: Any, columns: Any = None) -> str:
    with pytest.raises(InvalidArgumentError) as caught:
        Avro(columns, schema=json.dumps(schema)).compile_columns(wanted(data))
    return str(caught.value)


# -- schemas -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("avro", "arrow", "value", "found"),
    [
        ({"type": "bytes", "logicalType": "decimal"}, pa.binary(), b"xy", b"xy"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, pa.binary(), b"xy", b"xy"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 0}, pa.binary(), b"xy", b"xy"),
        ({"type": "fixed", "name": "F", "size": 3, "logicalType": "uuid"}, pa.binary(3), b"xyz", b"xyz"),
        ({"type": "fixed", "name": "F", "size": 3, "logicalType": "duration"}, pa.binary(3), b"xyz", b"xyz"),
        ({"type": "string", "logicalType": "colour"}, pa.string(), "red", "red"),
        ({"type": "int", "logicalType": "time-micros"}, pa.int32(), 5, 5),
        ({"type": "double", "logicalType": "decimal", "precision": 3}, pa.float64(), 0.5, 0.5),
        ({"type": "long", "logicalType": ["x"]}, pa.int64(), 5, 5),
    ],
)
def test_a_logical_type_that_does_not_apply_is_its_base_type(both, avro, arrow, value, found):
    try:
        data = encoded(both, pa.table({"f": pa.array([value], arrow)}), record(field("f", avro)))
    except SerializationError:
        return  # fastavro refuses some of these schemas itself
    plain = {name: each for name, each in avro.items() if name not in ("logicalType", "precision", "scale")}
    assert read(record(field("f", plain)), data[0]) == {"f": found}


def test_null_may_be_written_as_an_object(both):
    schema = record(field("f", [{"type": "null"}, "long"]), field("g", ["long", {"type": "null"}]))
    data = encoded(both, pa.table({"f": [None, 5]}), schema)
    assert [read(schema, each) for each in data] == [{"f": None, "g": None}, {"f": 5, "g": None}]


def test_types_with_names_are_found_by_their_full_names(both):
    fixed = {"type": "fixed", "name": "F", "namespace": "a.b", "size": 2}
    enum = {"type": "enum", "name": "c.E", "symbols": ["X", "Y"], "aliases": ["Z"]}
    inner = record(field("e", enum), field("f", "a.b.F"), name="In", namespace="d")
    schema = record(
        field("f", fixed),
        field("in", inner),
        field("list", {"type": "array", "items": "d.In"}),
        field("e", ["null", "c.E"]),
        namespace="n",
        aliases=["old"],
    )
    row = {"f": b"ab", "in": {"e": "Y", "f": b"cd"}, "list": [{"e": "X", "f": b"ef"}], "e": "Y"}
    struct = pa.struct([("f", pa.binary(2)), ("e", pa.string())])
    arrow = pa.schema([("e", pa.string()), ("list", pa.list_(struct)), ("in", struct), ("f", pa.binary(2))])
    assert read(schema, encoded(both, pa.Table.from_pylist([row], arrow), schema)[0]) == row


def test_a_record_may_contain_itself(both):
    node = record(field("n", "int"), field("next", ["null", "Node"], default=None), name="Node")
    third = pa.struct([("n", pa.int32())])
    second = pa.struct([("n", pa.int32()), ("next", third)])
    table = pa.table({"n": [1, 2], "next": pa.array([{"n": 3, "next": {"n": 4}}, None], second)})
    found = [read(node, each) for each in encoded(both, table, node)]
    assert found[0] == {"n": 1, "next": {"n": 3, "next": {"n": 4, "next": None}}}
    assert found[1] == {"n": 2, "next": None}


def test_levels_are_limited_in_both_kernels(both):
    def nested(levels: int) -> tuple[Any, Any, Any]:
        kind, avro, value = pa.int32(), "int", 7
        for _ in range(levels):
            kind, avro, value = pa.list_(kind), {"type": "array", "items": avro}, [value]
        return pa.table({"f": pa.array([value], kind)}), record(field("f", avro)), value

    table, schema, value = nested(32)
    assert read(schema, encoded(both, table, schema)[0]) == {"f": value}
    for each in both:
        with pytest.raises(ValueError, match="more than 32 levels"):
            each.fields(nested(33)[0])


# -- defaults ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        (["null", "string"], "later than the first branch"),
        (["string", "null"], None),
        (["float", "double"], 1e300),
        (["int", "long"], 2**40),
        (["boolean", "int"], 1),
        ("boolean", True),
        ("bytes", "\u00ff\u0000"),
        ({"type": "fixed", "name": "F", "size": 2}, "\u00ff\u0000"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
        ({"type": "array", "items": ["null", "int"]}, [None, 1]),
        ({"type": "map", "values": "string"}, {"k": "v"}),
        (record(field("a", "int", default=3), field("b", ["null", "int"]), name="In"), {"b": None}),
    ],
)
def test_a_column_that_is_missing_is_the_default(both, kind, default):
    schema = record(field("a", "int"), field("f", kind, default=default))
    (data,) = encoded(both, pa.table({"a": [1]}), schema)
    if isinstance(default, str) and (kind == "bytes" or (isinstance(kind, dict) and kind["type"] == "fixed")):
        default = default.encode("latin-1")
    if isinstance(kind, dict) and kind["type"] == "record":
        default = {"a": 3, **default}
    assert read(schema, data) == {"a": 1, "f": default}


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("null", "x"),
        ("boolean", 1),
        ("int", True),
        ("int", 2**31),
        ("long", 2**63),
        ("long", 1.5),
        ("float", 1e300),
        ("double", "x"),
        ("string", 1),
        ("bytes", "\u20ac"),
        ({"type": "fixed", "name": "F", "size": 2}, "abc"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B"),
        ({"type": "array", "items": "int"}, {"a": 1}),
        ({"type": "map", "values": "int"}, [1]),
        (record(field("a", "int"), name="In"), {}),
        (["null", "int"], "x"),
    ],
)
def test_a_default_of_another_type_is_refused(kind, default):
    schema = record(field("a", "int"), field("f", kind, default=default))
    try:
        text = refusal(pa.table({"a": [1]}), schema)
    except SerializationError:
        return  # fastavro refuses some of these schemas itself
    assert f"the default {default!r} of field 'f' does not fit its Avro type" in text


# -- columns -----------------------------------------------------------------------------------------------


def test_two_fields_with_one_name_are_refused():
    twice = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    text = refusal(pa.table({"s": twice}), record(field("s", record(field("a", "long"), name="In"))))
    assert "two fields of 's' have the name 'a'" in text


def test_an_error_below_a_single_column_names_the_column():
    inner = record(field("zip", "int"), name="In")
    table = pa.table({"address": [{"zip": "x"}]})
    assert "column 'address', at 'zip', is of type string" in refusal(table, inner, "address")


def test_keys_of_a_format_leave_the_value_column_out():
    table = pa.table({"a": [1], "b": ["x"], "v": ["value"]})
    fields = wanted(table).fields
    for value in ("v", None):
        data = fields if value else (*fields[:2], fields[2]._replace(name="value"))
        compiled = ArrowColumns(value=value, key=Avro()).checked("t").compile_format("key", data, "t")
        assert compiled is not None
        assert [node.place for node in compiled.plan.root.children] == ["a", "b"]


def test_the_column_of_keys_is_a_field_of_the_value_if_the_schema_has_it(both):
    table = pa.table({"a": [1], "s": ["key"]})
    columns = ArrowColumns(
        value=Avro(schema=json.dumps(record(field("s", "string"), field("a", "long")))), key="s"
    )
    compiled = columns.checked("t").compile_format("value", wanted(table).fields, "t")
    assert compiled is not None
    assert both[0].encode(table, compiled.plan) == [b"\6key\2"]
    without = ArrowColumns(value=Avro(schema=json.dumps(record(field("a", "long")))), key="s")
    compiled = without.checked("t").compile_format("value", wanted(table).fields, "t")
    assert compiled is not None
    assert both[0].encode(table, compiled.plan) == [b"\2"]


def test_a_null_in_a_required_field_names_it(both):
    inner = record(field("b", "int"), name="In")
    table = pa.table({"a": pa.array([{"b": 1}, {"b": None}, None], pa.struct([("b", pa.int32())]))})
    plan = Avro(schema=json.dumps(record(field("a", inner)))).compile_columns(wanted(table)).plan
    rows = both[0].encode(table, plan)
    assert rows == both[1].encode(table, plan)
    assert rows[0] == b"\2"
    assert [(plan.nodes[node].place, reason) for node, reason in rows[1:]] == [
        ("a.b", Misfit.NULL),
        ("a", Misfit.NULL),
    ]


# -- registries --------------------------------------------------------------------------------------------


@pytest.fixture
def client() -> Iterator[SchemaRegistryClient]:
    with FakeSchemaRegistry() as registry, SchemaRegistryClient({"url": registry.url}) as connected:
        yield connected


@pytest.mark.parametrize("kind", ["bytes", "string", {"type": "bytes"}, ["null", "bytes"], "long"])
@pytest.mark.parametrize(
    "conf", [{}, {"schema.id.serializer": header_schema_id_serializer}], ids=["id", "guid"]
)
def test_one_column_is_written_as_the_serializer_writes_it(both, client, kind, conf):
    value: Any = {"string": "text", "long": 7}.get(kind if isinstance(kind, str) else "", b"data")
    table = pa.table({"f": [value]})
    compiled = Avro("f", schema=json.dumps(kind), registry=client, conf=conf).compile_columns(wanted(table))
    headers: list[tuple[str, bytes | None]] = []
    expected = AvroSerializer(client, json.dumps(kind), conf=conf).serialize("t", headers, value)
    assert [each.encode(table, compiled.plan) for each in both] == [[expected], [expected]]
    assert headers == ([] if compiled.header is None else [compiled.header])


def test_a_schema_id_of_zero_is_an_id(client):
    avro = Avro(registry=client, conf={"use.schema.id": 0})
    with pytest.raises(Exception, match="0"):
        avro.compile_columns(wanted(pa.table({"a": [1]})))


def test_threads_and_a_forked_child_share_a_format(client):
    avro = Avro(registry=client)
    table = pa.table({"a": [1]})
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(avro.compile_columns(wanted(table)))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(each == found[0] for each in found)
    child = os.fork()
    if child == 0:
        # What is known needs no registry, and another topic does.
        is_known = avro.compile_columns(wanted(table)) == found[0]
        other = avro.compile_columns(wanted(table, topic="other"))
        os._exit(0 if is_known and other.plan.prefix == found[0].plan.prefix else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# -- schema evolution --------------------------------------------------------------------------------------


def test_readers_with_another_schema_read_what_was_written(both):
    inner = record(field("x", "int"), field("old", "string"), name="In")
    enum = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
    written = record(
        *(
            field("i", "int"),
            field("l", "long"),
            field("f", "float"),
            field("s", "string"),
            field("b", "bytes"),
        ),
        *(
            field("gone", "string"),
            field("e", enum),
            field("in", inner),
            field("list", {"type": "array", "items": "int"}),
        ),
        field("u", ["null", "int"]),
    )
    later = {"type": "enum", "name": "E", "symbols": ["A", "B"], "default": "A"}
    reader = record(
        *(
            field("i", "double"),
            field("l", "float"),
            field("f", "double"),
            field("s", "bytes"),
            field("b", "string"),
        ),
        field("e", later),
        field("in", record(field("x", "long"), field("new", "string", default="d"), name="In")),
        *(field("list", {"type": "array", "items": "long"}), field("u", ["string", "long", "null"])),
        field("renamed", "string", aliases=["gone"]),
        field("added", ["null", "int"], default=None),
    )
    rows = [
        {
            "i": 7,
            "l": 8,
            "f": 0.5,
            "s": "text",
            "b": b"data",
            "gone": "here",
            "e": "C",
            "in": {"x": 1, "old": "o"},
            "list": [1, 2],
            "u": None,
        },
        {
            "i": -7,
            "l": -8,
            "f": -0.5,
            "s": "",
            "b": b"",
            "gone": "",
            "e": "B",
            "in": {"x": 2, "old": ""},
            "list": [],
            "u": 9,
        },
    ]
    arrow = pa.schema(
        [
            *(
                ("i", pa.int32()),
                ("l", pa.int64()),
                ("f", pa.float32()),
                ("s", pa.string()),
                ("b", pa.binary()),
            ),
            *(("gone", pa.string()), ("e", pa.string())),
            ("in", pa.struct([("x", pa.int32()), ("old", pa.string())])),
            *(("list", pa.list_(pa.int32())), ("u", pa.int32())),
        ]
    )
    data = encoded(both, pa.Table.from_pylist(rows, arrow), written)
    assert [read(written, each) for each in data] == rows
    found = [read(written, each, reader) for each in data]
    for row, seen in zip(rows, found, strict=True):
        assert seen == {
            **{name: row[name] for name in ("i", "l", "f", "list", "u")},
            "s": row["s"].encode(),
            "b": row["b"].decode(),
            "e": {"C": "A"}.get(row["e"], row["e"]),
            "in": {"x": row["in"]["x"], "new": "d"},
            "renamed": row["gone"],
            "added": None,
        }

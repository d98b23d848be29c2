"""Avro schemas that are derived from Arrow types: readers accept them, and the columns fit them."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kproducer._core.bulk.column_format import ColumnsToEncode
from kproducer._core.columns.encoder_plan import ArrowField
from kproducer.columnar import Avro, avro_schema
from kproducer.errors import InvalidArgumentError
from tests.support.columnar.avro_shapes import (
    Shape,
    draw_record,
    names,
    table_of,
    without_logical_types,
)
from tests.support.columnar.encoders import Encoders


def encoded(both: tuple[Encoders, Encoders], data: Any, columns: Any = None) -> tuple[Any, list[Any]]:
    """The derived schema, and what both kernels write with it."""
    fields = tuple(map(ArrowField.of, both[0].fields(data)))
    plan = Avro(columns).compile_columns(ColumnsToEncode(fields, frozenset(), "t", "value")).plan
    native, pure = (each.encode(data, plan) for each in both)
    assert native == pure
    return json.loads(avro_schema(data, columns=columns)), native


@st.composite
def cases(draw: st.DrawFn) -> tuple[Shape, list[Any]]:
    shape = draw_record(draw, names(), 2)
    return shape, draw(st.lists(shape.values, min_size=1, max_size=3))


@settings(max_examples=80, phases=[Phase.explicit, Phase.generate])
@given(cases())
def test_all_rows_of_a_table_fit_its_own_schema(both, case):
    shape, rows = case
    table = table_of(shape, rows, [])
    refused = ""
    try:
        schema, data = encoded(both, table)
    except InvalidArgumentError as error:
        refused = str(error)
    if refused:
        assert "give a schema" in refused
        return
    # Python's dates end before Arrow's.
    parsed = fastavro.parse_schema(without_logical_types(schema))
    for each in data:
        stream = io.BytesIO(each)
        found = fastavro.schemaless_reader(stream, parsed)
        assert set(found) == {f"f{number}" for number in range(len(table.column_names))}
        assert stream.read() == b""


def test_names_of_types_differ(both):
    struct = pa.struct([("b", pa.struct([("x", pa.int32())]))])
    table = pa.table({"a": pa.array([{"b": {"x": 1}}], struct), "a_b": pa.array([{"x": 2}], struct[0].type)})
    schema, (data,) = encoded(both, table)
    assert fastavro.schemaless_reader(io.BytesIO(data), schema) == {"a": {"b": {"x": 1}}, "a_b": {"x": 2}}


def test_one_column_whose_name_is_not_one_of_avro(both):
    table = pa.table({"my column": pa.array([b"abc"], pa.binary(3))})
    schema, data = encoded(both, table, "my column")
    assert (schema, data) == ({"type": "fixed", "name": "Record", "size": 3}, [b"abc"])


def test_a_union_has_each_type_once(both):
    union = pa.UnionArray.from_sparse(
        pa.array([0, 1, 2], pa.int8()),
        [pa.array([1, 2, 3], kind) for kind in (pa.int8(), pa.int16(), pa.int64())],
    )
    schema, data = encoded(both, pa.table({"u": union}))
    assert schema["fields"][0]["type"] == ["null", "int", "long"]
    assert [fastavro.schemaless_reader(io.BytesIO(each), schema) for each in data] == [
        {"u": n} for n in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    "kinds",
    [
        (pa.list_(pa.int8()), pa.list_(pa.string())),
        (pa.binary(), pa.decimal128(5)),
        (pa.sparse_union([pa.field("a", pa.int8())]), pa.string()),
    ],
)
def test_a_union_that_avro_does_not_have_is_refused(kinds):
    schema = pa.schema([("u", pa.sparse_union([pa.field(str(n), kind) for n, kind in enumerate(kinds)]))])
    with pytest.raises(InvalidArgumentError, match="Record_u: a union of Avro cannot have two types"):
        avro_schema(schema)


def test_two_fields_with_one_name_are_refused():
    twice = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(InvalidArgumentError, match=r"there are two fields 's\.a': rename one"):
        avro_schema(pa.table({"s": twice}))

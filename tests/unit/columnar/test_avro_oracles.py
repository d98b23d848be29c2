"""Any table that fits any Avro schema: fastavro reads back its values, and all of our writers agree.

Rows that do not fit do not fit for the same reason in both kernels.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import fastavro
import pyarrow as pa
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kproducer._core.bulk.column_format import ColumnsToEncode
from kproducer._core.columns.encoder_plan import ArrowField, EncoderPlan, Misfit
from kproducer.columnar import Avro
from kproducer.errors import InvalidArgumentError
from kproducer.schema_registry.avro import SETTINGS, AvroFormat
from kproducer.schema_registry.schemas import Schema
from tests.support.columnar.avro_shapes import (
    Shape,
    draw_record,
    leaves,
    names,
    nullable,
    record,
    table_of,
    union,
    without_logical_types,
)
from tests.support.columnar.encoders import Encoders
from tests.support.columnar.wild_columns import WILD_TYPES, wild_array

#: Examples are small; to make one smaller still would take minutes.
QUICK = [Phase.explicit, Phase.generate]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Shape, list[Any], list[int]]:
    """A record, rows, and where chunks begin."""
    shape = draw_record(draw, names(), 3)
    rows = draw(st.lists(shape.values, max_size=5))
    return shape, rows, draw(st.lists(st.integers(0, 5), max_size=3))


def plan_of(data: Any, encoders: Encoders, schema: Any, columns: Any = None) -> EncoderPlan:
    fields = tuple(map(ArrowField.of, encoders.fields(data)))
    wanted = ColumnsToEncode(fields, frozenset(), "t", "value")
    return Avro(columns, schema=json.dumps(schema)).compile_columns(wanted).plan


def read_alone(schema: Any, data: bytes) -> Any:
    """What fastavro reads, as plain numbers and bytes; there is nothing behind it."""
    stream = io.BytesIO(data)
    found = fastavro.schemaless_reader(stream, fastavro.parse_schema(without_logical_types(schema)), None)
    assert stream.read() == b""
    return found


def check(shape: Shape, table: Any, rows: Sequence[Any], both: tuple[Encoders, Encoders]) -> None:
    native, pure = both
    assert native.fields(table) == pure.fields(table)
    plan = plan_of(table, native, shape.avro)
    encoded = native.encode(table, plan)
    assert pure.encode(table, plan) == encoded
    expected = [shape.read(row) for row in rows]
    assert [read_alone(shape.avro, data) for data in encoded] == expected
    serialize = AvroFormat("", None, None, SETTINGS).encoder(Schema(json.dumps(shape.avro)), b"")
    assert [serialize(value) for value in expected] == encoded


@settings(max_examples=150, phases=QUICK)
@given(cases())
def test_fastavro_reads_the_values_of_any_table(
    both: tuple[Encoders, Encoders], case: tuple[Shape, list[Any], list[int]]
) -> None:
    shape, rows, cuts = case
    check(shape, table_of(shape, rows, cuts), rows, both)


def test_fastavro_reads_every_pair_of_types(both: tuple[Encoders, Encoders]) -> None:
    pairs = leaves(names())
    assert len(pairs) > 150
    for pair in pairs:
        for shape in (record([pair], "R"), record([nullable(pair, is_first=False)], "R")):

            @settings(max_examples=2, phases=QUICK, database=None)
            @given(rows=st.lists(shape.values, min_size=1, max_size=4))
            def check_rows(shape: Shape, rows: list[Any]) -> None:
                check(shape, table_of(shape, rows, [1]), rows, both)

            check_rows(shape)


@settings(max_examples=60, phases=QUICK)
@given(cases())
def test_structs_without_a_table_are_rows_too(
    both: tuple[Encoders, Encoders], case: tuple[Shape, list[Any], list[int]]
) -> None:
    """Also one column alone, whose null makes no value."""
    shape, rows, _ = case
    if not rows:
        return
    native, pure = both
    structs = shape.array([rows[0], *rows, rows[-1]]).slice(1, len(rows))
    plan = plan_of(structs, native, shape.avro)
    encoded = native.encode(structs, plan)
    assert pure.encode(structs, plan) == encoded
    assert [read_alone(shape.avro, each) for each in encoded] == [shape.read(row) for row in rows]
    table = pa.table({"one": shape.array([None, *rows])})
    plan = plan_of(table, native, ["null", shape.avro], "one")
    one = native.encode(table, plan)
    assert pure.encode(table, plan) == one
    assert one == [None, *(b"\2" + each for each in encoded)]


_AVRO_LEAVES = [shape.avro for shape in leaves(names())]


@settings(max_examples=150, phases=QUICK)
@given(st.data())
def test_rows_that_do_not_fit_are_the_same_ones(both: tuple[Encoders, Encoders], data: st.DataObject) -> None:
    """Any values of an Arrow type, for any Avro type that takes some of them."""
    native, pure = both
    arrow = data.draw(st.sampled_from(WILD_TYPES))
    array = wild_array(data, arrow)
    refusals: list[str] = []
    for schema in data.draw(st.lists(st.sampled_from(_AVRO_LEAVES), min_size=10, max_size=10)):
        table = pa.table({"one": array, "id": range(len(array))})
        fields = [{"name": "id", "type": "int"}, {"name": "one", "type": schema}]
        try:
            plan = plan_of(table, native, {"type": "record", "name": "R", "fields": fields})
        except InvalidArgumentError as error:
            refusals.append(str(error))
            continue
        encoded = native.encode(table, plan)
        assert pure.encode(table, plan) == encoded
        for each in encoded:
            if isinstance(each, tuple):
                assert plan.nodes[each[0]].place == "one"
                assert Misfit(each[1])
    assert all("'one'" in each for each in refusals)


def test_a_union_of_records_is_told_apart_by_their_fields(both: tuple[Encoders, Encoders]) -> None:
    next_name = names()
    text = next(each for each in leaves(next_name) if each.avro == "string")
    branches = [record([text], "A"), record([text, text], "B")]
    shape = record([union(branches, is_dense=True, type_ids=[9, 4])], "R")
    rows = [((1, ("x", "y")),), ((0, ("z",)),)]
    check(shape, table_of(shape, rows, []), rows, both)

"""What formats remember from call to call: equal calls share a plan, and no plan is out of date."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from kproducer import InvalidArgumentError
from kproducer._core.bulk.column_format import ColumnFormat, ColumnsToEncode
from kproducer._core.columns.encoder_plan import ROW, ArrowField, Format, JsonOperation, PlanNode
from kproducer.columnar import Avro, Json, Protobuf
from kproducer.columnar.chosen_columns import ChosenColumns
from kproducer.columnar.column_compiler import ColumnCompiler
from kproducer.columnar.format_plans import FormatPlans
from kproducer.errors import SchemaRegistryError
from kproducer.schema_registry import SchemaRegistryClient
from kproducer.testing.schema_registry import FakeSchemaRegistry
from tests.support.columnar.fields import fields_of

TABLE = pa.table({"seconds": [1, 2], "nanos": pa.array([3, None], pa.int32())})


@pytest.fixture
def registry() -> Iterator[FakeSchemaRegistry]:
    with FakeSchemaRegistry() as registry:
        yield registry


def wanted(data: Any = TABLE, topic: str | None = "t", role: str = "value", **more: Any) -> ColumnsToEncode:
    return ColumnsToEncode(fields_of(data), frozenset(more.get("taken", ())), topic, role)


def formats(client: SchemaRegistryClient | None = None) -> list[ColumnFormat]:
    return [Avro(registry=client), Json(registry=client), Protobuf(Timestamp, registry=client)]


def schema_of(*names: str) -> str:
    fields = [{"name": name, "type": ["null", "long"], "default": None} for name in names]
    return json.dumps({"type": "record", "name": "Row", "fields": fields})


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("is_registered", [False, True])
def test_equal_calls_have_one_plan(registry: FakeSchemaRegistry, number: int, is_registered: bool) -> None:
    with SchemaRegistryClient({"url": registry.url}) as client:
        given = formats(client if is_registered else None)[number]
        plan = given.compile_columns(wanted()).plan
        asked = len(registry.requests)
        assert given.compile_columns(wanted()).plan is plan
        assert len(registry.requests) == asked
        other = formats(client if is_registered else None)[number]
        assert other.compile_columns(wanted()).plan == plan


@pytest.mark.parametrize("number", [0, 1])
def test_a_plan_is_for_its_columns_only(number: int) -> None:
    """Names, types, whether null is allowed, and what the call uses for something else."""
    given = formats()[number]
    calls = [
        wanted(),
        wanted(TABLE.rename_columns(["a", "b"])),
        wanted(TABLE.select(["nanos", "seconds"])),
        wanted(TABLE.cast(pa.schema([("seconds", pa.string()), ("nanos", pa.int32())]))),
        wanted(
            TABLE.cast(pa.schema([pa.field("seconds", pa.int64(), nullable=False), ("nanos", pa.int32())]))
        ),
        wanted(taken=["nanos"]),
    ]
    plans = [given.compile_columns(each).plan for each in calls]
    assert [given.compile_columns(each).plan for each in reversed(calls)] == plans[::-1]
    assert [formats()[number].compile_columns(each).plan for each in calls] == plans


def test_each_topic_and_role_has_its_schema_id(registry: FakeSchemaRegistry) -> None:
    registry.register("other-value", schema_of("x"))
    with SchemaRegistryClient({"url": registry.url}) as client:
        given = Avro(registry=client, schema="latest")
        registry.register("t-value", schema_of("seconds", "nanos"))
        registry.register("u-value", schema_of("seconds"))
        registry.register("t-key", schema_of("nanos", "seconds"))
        data = TABLE.select(["seconds"])
        assert given.compile_columns(wanted(data)).plan.prefix[-1] == 2
        assert given.compile_columns(wanted(data, "u")).plan.prefix[-1] == 3
        assert given.compile_columns(wanted(data, role="key")).plan.prefix[-1] == 4
        assert given.compile_columns(wanted(data)).plan.prefix[-1] == 2
        # The topic is not part of what is remembered, but the registry needs it.
        with pytest.raises(InvalidArgumentError, match="call send_arrow once per topic"):
            given.compile_columns(wanted(data, None))


def test_a_newer_latest_schema_makes_a_new_plan(registry: FakeSchemaRegistry) -> None:
    registry.register("t-value", schema_of("seconds"))
    with SchemaRegistryClient({"url": registry.url, "cache.latest.ttl.sec": 0}) as client:
        given = Avro(["seconds"], registry=client, schema="latest")
        older = given.compile_columns(wanted())
        assert given.compile_columns(wanted()).plan is older.plan
        registry.register("t-value", schema_of("seconds", "more"))
        newer = given.compile_columns(wanted())
    assert (older.plan.prefix[-1], newer.plan.prefix[-1]) == (1, 2)
    assert len(newer.plan.root.children) == 1 + len(older.plan.root.children)


def test_errors_are_not_remembered(registry: FakeSchemaRegistry) -> None:
    with SchemaRegistryClient({"url": registry.url}) as client:
        given = Avro(registry=client, schema="latest")
        with pytest.raises(SchemaRegistryError):
            given.compile_columns(wanted())
        registry.register("t-value", schema_of("nanos"))
        with pytest.raises(InvalidArgumentError, match="seconds"):
            given.compile_columns(wanted())
        assert given.compile_columns(wanted(TABLE.select(["nanos"]))).plan.prefix[-1] == 1


def test_what_is_remembered_is_bounded() -> None:
    made: list[str] = []

    class CountingCompiler(ColumnCompiler):
        """Makes a plan of the first column's name."""

        format = Format.JSON

        def row(self, chosen: ChosenColumns) -> PlanNode:
            made.append(chosen.columns[0][1].name)
            return PlanNode(JsonOperation.OBJECT, ROW)

        def column(self, number: int, field: ArrowField) -> PlanNode:
            raise NotImplementedError

    plans: FormatPlans[Any] = FormatPlans(None, None, lambda *_: CountingCompiler)
    calls = [ColumnsToEncode((ArrowField(str(n), "l"),), frozenset(), "t", "value") for n in range(101)]
    for each in [calls[0], *calls[:100]]:
        plans.compile_columns(each)
    assert len(made) == 100
    plans.compile_columns(calls[100])
    plans.compile_columns(calls[99])
    assert len(made) == 101
    plans.compile_columns(calls[0])  # the one used least recently
    assert len(made) == 102


@pytest.mark.parametrize("number", [0, 1, 2])
def test_threads_share_a_format(number: int) -> None:
    tables = [TABLE, TABLE.select(["seconds"]), TABLE.select(["nanos"]), TABLE.select(["nanos", "seconds"])]
    expected = [formats()[number].compile_columns(wanted(each)).plan.root for each in tables]
    barrier = Barrier(4)
    shared = formats()[number]

    def run(first: int) -> None:
        barrier.wait()
        for n in range(first, first + 40):
            assert shared.compile_columns(wanted(tables[n % 4])).plan.root == expected[n % 4]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(4)))

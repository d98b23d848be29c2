"""Values and keys that ``send_arrow`` makes of columns: only the rows that do not fit fail, and say why."""

from __future__ import annotations

import decimal
import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kproducer import (
    AbortTransactionError,
    InvalidArgumentError,
    Outcome,
    RecordTooLargeError,
    SerializationError,
)
from kproducer.columnar import Avro
from kproducer.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from kproducer.testing.fakebroker import FakeCluster
from kproducer.testing.schema_registry import FakeSchemaRegistry
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S
from tests.scenarios.transactions import committed, transactional

ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}
SCHEMA = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "n", "type": "int"},
        {"name": "kind", "type": ENUM},
        {"name": "price", "type": DECIMAL},
        {"name": "in", "type": {"type": "record", "name": "In", "fields": [{"name": "x", "type": "long"}]}},
    ],
}
AVRO = Avro(["n", "kind", "price", "in"], schema=json.dumps(SCHEMA))
ARROW = pa.schema(
    [
        *(
            ("n", pa.int64()),
            ("kind", pa.string()),
            ("price", pa.decimal128(10, 1)),
            ("in", pa.struct([("x", pa.int64())])),
        ),
        *(("id", pa.int32()), ("time", pa.timestamp("ms"))),
    ]
)
GOOD = {"n": 1, "kind": "A", "price": decimal.Decimal("1.5"), "in": {"x": 5}, "id": 7, "time": None}
ROWS: list[tuple[dict[str, Any], str]] = [
    ({}, ""),
    ({"n": 2**31}, "the value cannot be written: field 'n' is out of range"),
    ({"kind": "C"}, "field 'kind' is not among the symbols of the enum"),
    ({"price": decimal.Decimal("100.0")}, "field 'price' has more digits than the schema's precision"),
    ({"kind": "B"}, ""),
    ({"n": None}, "field 'n' is null, which the schema does not allow"),
    ({"in": {"x": None}}, "field 'in.x' is null"),
    ({"in": None}, "field 'in' is null"),
    ({"id": 2**31 - 1}, ""),
    ({"time": -1, "n": None}, "the timestamp is before 1970"),
]
TABLE = pa.Table.from_pylist([GOOD | change for change, _ in ROWS], ARROW)


def read(data: bytes | None, schema: Any = SCHEMA) -> Any:
    assert data is not None
    return fastavro.schemaless_reader(io.BytesIO(data), schema, None)


def expected(rows: list[dict[str, Any]]) -> list[Any]:
    return [{name: row[name] for name in ("n", "kind", "price", "in")} for row in rows]


@pytest.mark.parametrize("partitions", [1, 3])
def test_only_the_rows_that_do_not_fit_fail(stage: Stage, partitions: int) -> None:
    cluster = stage.cluster(topics={"t": partitions})
    kafka = stage.producer(cluster).kafka
    key = Avro("id", schema='"int"')
    result = kafka.send_arrow("t", TABLE.slice(0, 10), value=AVRO, key=key, timestamp="time")
    failures = dict(result.failures(PATIENCE_S))
    assert sorted(failures) == [row for row, (_, text) in enumerate(ROWS) if text]
    for row, error in failures.items():
        assert ROWS[row][1] in str(error)
        assert isinstance(error, SerializationError if row < 9 else InvalidArgumentError)
        assert error.outcome is Outcome.NOT_SENT
    stored = {(p, r.offset): r for p in range(partitions) for r in cluster.records("t", p)}
    sent = [row for row in range(len(ROWS)) if row not in failures]
    found = [stored[result.partitions()[row], result.offsets()[row]] for row in sent]
    assert len(stored) == len(found)
    assert [read(each.value) for each in found] == expected([GOOD | ROWS[row][0] for row in sent])
    assert [read(each.key, "int") for each in found] == [(GOOD | ROWS[row][0])["id"] for row in sent]
    singly = [kafka.send("t", b"v", key=each.key).result(PATIENCE_S).partition for each in found]
    assert singly == [result.partitions()[row] for row in sent]


def test_a_row_that_does_not_fit_prevents_the_commit(stage: Stage) -> None:
    """As any record that ``send`` refuses; its error says which field, and the next transaction goes on."""
    cluster = stage.cluster()
    producer = transactional(stage, cluster)
    producer.begin_transaction()
    failures = dict(producer.send_arrow("t", TABLE[:3], value=AVRO).failures(PATIENCE_S))
    assert "field 'n' is out of range" in str(failures[1])
    assert "field 'kind' is not among the symbols" in str(failures[2])
    with pytest.raises(AbortTransactionError, match="field 'n' is out of range"):
        producer.commit_transaction()
    producer.abort_transaction()
    with producer.transaction():
        assert producer.send_arrow("t", TABLE[4:5], value=AVRO).failures(PATIENCE_S) == []
    assert [read(value) for value in committed(cluster)] == expected([GOOD | {"kind": "B"}])


def test_many_rows_of_large_values_are_all_there(stage: Stage) -> None:
    """Blocks end before they have all of their rows, some rows do not fit, and one is too large."""
    cluster = stage.cluster()
    kafka = stage.producer(cluster, linger_ms=1, max_request_size=50_000).kafka
    count = 9000
    texts = ["x" * (n % 2000) for n in range(count)]
    texts[5000] = "x" * 60_000
    numbers = [2**40 if n % 1000 == 3 else n for n in range(count)]
    table = pa.table({"n": numbers, "text": texts})
    fields = [{"name": "n", "type": "int"}, {"name": "text", "type": "string"}]
    schema = {"type": "record", "name": "R", "fields": fields}
    result = kafka.send_arrow("t", table, value=Avro(schema=json.dumps(schema)))
    failures = dict(result.failures(PATIENCE_S))
    assert sorted(failures) == sorted([5000, *range(3, count, 1000)])
    assert isinstance(failures[5000], RecordTooLargeError)
    found = [read(record.value, schema) for record in cluster.records("t", 0)]
    assert found == [{"n": n, "text": texts[n]} for n in range(count) if n not in failures]


def test_a_column_that_does_not_fit_is_refused_before_anything_is_sent(
    stage: Stage, cluster: FakeCluster
) -> None:
    kafka = stage.producer(cluster).kafka
    wrong = TABLE.set_column(0, "n", pa.array(["x"] * len(ROWS)))
    with pytest.raises(InvalidArgumentError, match=r"column 'n' is of type string.*int") as caught:
        kafka.send_arrow("t", wrong, value=AVRO)
    assert caught.value.outcome is Outcome.NOT_SENT
    assert cluster.records("t", 0) == []


def test_headers_of_keys_and_values_are_behind_those_of_the_row(stage: Stage, cluster: FakeCluster) -> None:
    kafka = stage.producer(cluster).kafka
    headers = pa.array([[("h", b"1")], None], pa.map_(pa.string(), pa.binary()))
    table = pa.table({"n": [1, 2], "id": [3, 4], "h": headers})
    with FakeSchemaRegistry() as registry, SchemaRegistryClient({"url": registry.url}) as client:
        guid = {"schema.id.serializer": header_schema_id_serializer}
        value, key = (Avro(name, registry=client, conf=guid) for name in ("n", "id"))
        assert kafka.send_arrow("t", table, value=value, key=key, headers="h").failures(PATIENCE_S) == []
        with pytest.raises(InvalidArgumentError, match="topic_column cannot be used"):
            kafka.send_arrow(None, pa.table({"n": [1], "t": ["t"]}), value=value, topic_column="t")
    first, second = cluster.records("t", 0)
    assert [name for name, _ in first.headers] == ["h", "__value_schema_id", "__key_schema_id"]
    assert [name for name, _ in second.headers] == ["__value_schema_id", "__key_schema_id"]
    assert (first.value, first.key, second.value, second.key) == (b"\2", b"\6", b"\4", b"\x08")


def test_topics_may_be_a_column_without_a_registry(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 1, "u": 2})
    kafka = stage.producer(cluster).kafka
    table = pa.table({"n": range(200), "where": ["t" if n % 2 else "u" for n in range(200)]})
    value = Avro(schema=json.dumps({"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}))
    assert kafka.send_arrow(None, table, value=value, topic_column="where").failures(PATIENCE_S) == []
    found = {
        topic: {r.value for p in range(parts) for r in cluster.records(topic, p)}
        for topic, parts in (("t", 1), ("u", 2))
    }
    assert found["t"] == {fastavro_int(n) for n in range(1, 200, 2)}
    assert found["u"] == {fastavro_int(n) for n in range(0, 200, 2)}


def fastavro_int(number: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "int", number)
    return out.getvalue()

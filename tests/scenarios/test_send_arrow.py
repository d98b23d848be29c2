"""``send_arrow`` from outside: every row is delivered or has its own error, as with ``send``."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from kproducer import (
    BufferExhaustedError,
    InvalidArgumentError,
    JsonSerializer,
    MetadataTimeoutError,
    Outcome,
    ProducerClosedError,
    RecordTooLargeError,
    SendManyResult,
    SerializationError,
)
from kproducer.columnar import Json
from kproducer.testing.fakebroker import FakeCluster, faults
from kproducer.testing.fakebroker.batch_check import StoredRecord
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S, partial

PRODUCE = 0
ONE_BATCH = {"buffer_memory": 16_384, "batch_size": 16_384}
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.fixture
def cluster(stage: Stage) -> FakeCluster:
    return stage.cluster()


def stored(cluster: FakeCluster, result: SendManyResult, row: int, topic: str = "t") -> StoredRecord:
    """The record in the log at the offset of the result."""
    metadata = result[row].result(PATIENCE_S)
    (found,) = [r for r in cluster.records(topic, metadata.partition) if r.offset == metadata.offset]
    assert metadata.topic == topic
    assert found.timestamp_ms == metadata.timestamp_ms
    assert metadata.serialized_key_size == (-1 if found.key is None else len(found.key))
    assert metadata.serialized_value_size == (-1 if found.value is None else len(found.value))
    return found


def values(cluster: FakeCluster, partition: int = 0, topic: str = "t") -> list[bytes | None]:
    return [record.value for record in cluster.records(topic, partition)]


# -- contents of records -----------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_every_row_is_in_the_log_where_its_result_says(stage: Stage, codec: str) -> None:
    cluster = stage.cluster(topics={"t": 3})
    kafka = stage.producer(cluster, batch_size=1000, linger_ms=1, compression_type=codec).kafka
    count = 6000
    sent = [None if n % 11 == 0 else b"%06d" % n + b"x" * (n % 97) for n in range(count)]
    keys = [None if n % 3 == 0 else "" if n % 7 == 0 else f"key-{n % 50}" for n in range(count)]
    headers = [None if n % 4 else [("übel", b"1"), ("null", None)][: n % 3] for n in range(count)]
    partitions = [None if n % 5 else n % 3 for n in range(count)]
    times = [None if n % 2 else 1_600_000_000_000 + n * 7919 % 1000 for n in range(count)]
    pairs = [None if h is None else [{"key": name, "value": v} for name, v in h] for h in headers]
    table = pa.table(
        {
            "k": pa.array(keys, pa.string()).dictionary_encode(),
            "value": pa.array(sent, pa.large_binary()),
            "h": pa.array(pairs, HEADERS),
            "p": pa.array(partitions, pa.int32()),
            "when": pa.array(times, pa.timestamp("ms")).cast(pa.timestamp("us", "UTC")),
            "not written": range(count),
        }
    )
    chunked = pa.concat_tables([table[:10], table[10:10], table[10:5000], table[5000:]])
    result = kafka.send_arrow("t", chunked, key="k", headers="h", partition="p", timestamp="when")
    assert result.result(PATIENCE_S) is result
    assert len(result) == count
    log = {p: {r.offset: r for r in cluster.records("t", p)} for p in range(3)}
    for row, (partition, offset) in enumerate(zip(result.partitions(), result.offsets(), strict=True)):
        found = log[partition][offset]
        assert (found.key, found.value) == (None if keys[row] is None else keys[row].encode(), sent[row])
        assert list(found.headers) == list(headers[row] or ())
        assert times[row] in (None, found.timestamp_ms)
        assert partitions[row] in (None, partition)
    assert sum(map(len, log.values())) == count
    for row in range(0, count, 1234):
        stored(cluster, result, row)


def test_keys_go_to_the_same_partitions_as_with_send(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 7})
    kafka = stage.producer(cluster).kafka
    keys = [f"key-{n}" for n in range(300)]
    singly = [kafka.send("t", b"v", key=key).result(PATIENCE_S).partition for key in keys]
    result = kafka.send_arrow("t", pa.table({"value": ["v"] * 300, "key": keys}), key="key")
    assert result.failures(PATIENCE_S) == []
    assert list(result.partitions()) == singly


def test_rows_of_a_partition_number_or_a_key_stay_in_order(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 3, "one": 1})
    kafka = stage.producer(cluster, batch_size=2000, linger_ms=1).kafka
    count = 9000
    numbers = [b"%05d" % n for n in range(count)]
    table = pa.table(
        {
            "value": numbers,
            "partition": pa.array([n % 3 for n in range(count)], pa.int8()),
            "key": [None if n % 4 else f"{n % 5}" for n in range(count)],
        }
    )
    assert kafka.send_arrow("t", table, partition="partition").failures(PATIENCE_S) == []
    for partition in range(3):
        assert values(cluster, partition) == numbers[partition::3]
    # A topic with one partition has one order, with or without keys.
    assert kafka.send_arrow("one", table, key="key").failures(PATIENCE_S) == []
    assert values(cluster, topic="one") == numbers


def test_rows_without_keys_fill_batch_after_batch(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 4})
    kafka = stage.producer(cluster, batch_size=2000, linger_ms=5, compression_type="lz4").kafka
    result = kafka.send_arrow("t", pa.table({"value": ["x" * 90 + f"{n:010}" for n in range(5000)]}))
    assert result.failures(PATIENCE_S) == []
    assert {len(values(cluster, partition)) > 100 for partition in range(4)} == {True}


def test_one_partition_and_one_timestamp_for_all_rows(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 3})
    kafka = stage.producer(cluster).kafka
    result = kafka.send_arrow("t", pa.table({"value": ["a", "b"]}), partition=2, timestamp=5)
    assert [stored(cluster, result, row).timestamp_ms for row in (0, 1)] == [5, 5]
    assert values(cluster, 2) == [b"a", b"b"]


def test_a_column_of_topics(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 2, "u": 1})
    kafka = stage.producer(cluster, max_block_ms=300).learn("t", "u").kafka
    topics = ["t", "u", "t", None, "lost", "not a name", "u", "lost"]
    table = pa.table({"topic": topics, "value": [f"{n}" for n in range(8)], "key": ["k"] * 8})
    result = kafka.send_arrow(None, table, topic_column="topic", key="key")
    assert [row for row, _ in result.failures(PATIENCE_S)] == [3, 4, 5, 7]
    assert stored(cluster, result, 2, "t").value == b"2"
    assert values(cluster, topic="u") == [b"1", b"6"]
    errors = dict(result.failures())
    assert {error.outcome for error in errors.values()} == {Outcome.NOT_SENT}
    assert "topic is null" in str(errors[3])
    assert errors[7] is errors[4]
    assert isinstance(errors[4], MetadataTimeoutError)
    assert "'not a name'" in str(errors[5])


def _polars(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("polars").DataFrame(columns)


def _polars_series(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("polars").Series(columns["value"])


def _pandas(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("pandas").DataFrame(columns)


def _pandas_categories(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("pandas").DataFrame(columns).astype("category")


def _duckdb(columns: dict[str, Any]) -> Any:
    duckdb = pytest.importorskip("duckdb")
    return duckdb.from_arrow(pa.table(columns))


SOURCES = {
    "table": pa.table,
    "batch": pa.record_batch,
    "struct": lambda columns: pa.record_batch(columns).to_struct_array(),
    "reader": lambda columns: pa.RecordBatchReader.from_batches(
        pa.table(columns).schema, pa.table(columns).to_batches(max_chunksize=2)
    ),
    "array": lambda columns: pa.array(columns["value"]),
    "chunked": lambda columns: pa.chunked_array([columns["value"][:1], columns["value"][1:]]),
    "batches": lambda columns: iter(pa.table(columns).to_batches(max_chunksize=2)),
    "polars": _polars,
    "polars series": _polars_series,
    "pandas": _pandas,
    "pandas categories": _pandas_categories,
    "duckdb": _duckdb,
}


@pytest.mark.parametrize("kind", SOURCES)
def test_data_of_every_library(stage: Stage, cluster: FakeCluster, kind: str) -> None:
    kafka = stage.producer(cluster).kafka
    texts = ["a", "a text that views keep in a buffer", None, "ü", ""]
    data = SOURCES[kind]({"value": texts})
    result = kafka.send_arrow("t", data)
    assert result.failures(PATIENCE_S) == []
    assert values(cluster) == [None if text is None else text.encode() for text in texts]


def test_nothing_to_send(stage: Stage, cluster: FakeCluster) -> None:
    kafka = stage.producer(cluster).kafka
    for nothing in (pa.table({"value": pa.array([], pa.string())}), [], iter(())):
        assert kafka.send_arrow("t", nothing).result(0).failures() == []


def test_a_partitioner_of_the_application_sees_every_row(stage: Stage) -> None:
    seen: list[Any] = []

    def by_length(topic: str, key: Any, key_bytes: Any, value: Any, value_bytes: Any, snapshot: Any) -> int:
        seen.append((key_bytes, value_bytes))
        return len(value_bytes) % 3

    cluster = stage.cluster(topics={"t": 3})
    kafka = stage.producer(cluster, partitioner=by_length).kafka
    table = pa.table({"value": ["", "a", "ab", "abc"], "key": ["k", None, "l", "m"]})
    result = kafka.send_arrow("t", table, key="key")
    assert result.failures(PATIENCE_S) == []
    assert list(result.partitions()) == [0, 1, 2, 0]
    assert seen == [(b"k", b""), (None, b"a"), (b"l", b"ab"), (b"m", b"abc")]


def test_ignored_keys_do_not_choose_partitions(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 3})
    kafka = stage.producer(cluster, partitioner_ignore_keys=True, linger_ms=50).kafka
    table = pa.table({"value": ["v"] * 60, "key": [f"{n}" for n in range(60)]})
    result = kafka.send_arrow("t", table, key="key")
    assert result.failures(PATIENCE_S) == []
    assert len(set(result.partitions())) == 1
    assert stored(cluster, result, 59).key == b"59"


def test_threads_do_not_mix_up_each_others_rows(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 3})
    kafka = stage.producer(cluster, batch_size=5000, linger_ms=1).kafka
    results: dict[int, Any] = {}
    rows = 6000

    def run(number: int) -> None:
        sent = [b"%d-%d" % (number, n) for n in range(rows)]
        if number < 3:
            table = pa.table({"value": sent, "key": sent})
            results[number] = kafka.send_arrow("t", table, key="key" if number % 2 else None, value="value")
        else:
            results[number] = [kafka.send("t", value, key=value) for value in sent]

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    kafka.flush(PATIENCE_S)
    log = {(p, r.offset): r.value for p in range(3) for r in cluster.records("t", p)}
    assert len(log) == 4 * rows
    for number, result in results.items():
        for n, future in enumerate(result):
            metadata = future.result(PATIENCE_S)
            assert log[metadata.partition, metadata.offset] == b"%d-%d" % (number, n)


# -- rows that fail ----------------------------------------------------------------------------------------


def test_rows_that_are_refused_do_not_stop_the_others(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 2})
    kafka = stage.producer(cluster, max_request_size=1000, max_block_ms=200).learn("t").kafka
    bad: dict[int, tuple[str, Any, type[Exception]]] = {
        10: ("value", b"x" * 2000, RecordTooLargeError),
        11: ("headers", [{"key": "h", "value": b"x" * 2000}], RecordTooLargeError),
        20: ("headers", [{"key": None, "value": b""}], SerializationError),
        21: ("headers", [None], SerializationError),
        30: ("partition", -1, InvalidArgumentError),
        32: ("partition", 2, MetadataTimeoutError),
        33: ("partition", 2**40, MetadataTimeoutError),
        40: ("time", -5, InvalidArgumentError),
    }
    columns: dict[str, list[Any]] = {
        "value": [b"%d" % n for n in range(60)],
        "headers": [None] * 60,
        "partition": [0] * 60,
        "time": [1000 + n for n in range(60)],
    }
    for row, (name, field, _) in bad.items():
        columns[name][row] = field
    table = pa.table({**columns, "headers": pa.array(columns["headers"], HEADERS)})
    result = kafka.send_arrow("t", table, headers="headers", partition="partition", timestamp="time")
    failures = result.failures(PATIENCE_S)
    assert [(row, type(error)) for row, error in failures] == [
        (row, kind) for row, (_, _, kind) in bad.items()
    ]
    assert {error.outcome for _, error in failures} == {Outcome.NOT_SENT}
    assert {error.__traceback__ for _, error in failures} == {None}
    assert values(cluster) == [b"%d" % n for n in range(60) if n not in bad]
    assert (result.succeeded_count, result.failed_count) == (60 - len(bad), len(bad))


def test_an_unknown_partition_is_waited_for_once(stage: Stage, cluster: FakeCluster) -> None:
    # Waiting max_block_ms for each row would take ten minutes.
    kafka = stage.producer(cluster, max_block_ms=600).learn("t").kafka
    table = pa.table({"value": ["v"] * 1001, "partition": [1 + n for n in range(1000)] + [0]})
    failures = kafka.send_arrow("t", table, partition="partition").failures(PATIENCE_S)
    assert [row for row, _ in failures] == list(range(1000))
    assert {type(error) for _, error in failures} == {MetadataTimeoutError}
    assert "not partition 1000" in str(failures[999][1])
    assert values(cluster) == [b"v"]


@pytest.mark.parametrize("partition", [3, 2**40])
def test_one_partition_for_all_that_some_topic_does_not_have(stage: Stage, partition: int) -> None:
    cluster = stage.cluster(topics={"t": 4, "u": 1})
    kafka = stage.producer(cluster, max_block_ms=200).learn("t", "u").kafka
    table = pa.table({"value": ["a", "b"], "topic": ["t", "u"]})
    result = kafka.send_arrow(None, table, topic_column="topic", partition=partition)
    *_, (row, error) = result.failures(PATIENCE_S)
    assert (row, type(error)) == (1, MetadataTimeoutError)
    assert f"partition {partition}" in str(error)
    assert len(result.failures()) == (1 if partition < 4 else 2)


# -- invalid calls -----------------------------------------------------------------------------------------

TABLE = pa.table({"value": ["a"], "key": ["k"], "n": [1], "f": [0.5], "when": ["now"], "l": [["x"]]})
TWICE = pa.Table.from_arrays([pa.array(["a"])] * 2, names=["value", "value"])

MISTAKES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no such column": (TABLE, {"key": "kay"}, r"key: there is no column 'kay': did you mean 'key'\?"),
    "no similar column": (TABLE, {"key": "customer"}, r"no column 'customer' \(columns: 'value', 'key', "),
    "no value": (TABLE.drop(["value"]), {}, r"no column 'value' .*pass value="),
    "a key that would be lost": (TABLE, {}, "column 'key' would not be written: pass key='key', or"),
    "numbers as values": (TABLE, {"value": "n"}, "'n' is of type int64 and must be strings or binary: cast"),
    "lists as keys": (
        TABLE,
        {"key": "l"},
        r"key: column 'l' is of type list .*pass a format, such as .*Json",
    ),
    "text as partition": (TABLE, {"partition": "key"}, "'key' is of type string and must be integers"),
    "text as timestamp": (TABLE, {"timestamp": "when"}, "must be timestamps, or int64 .*: parse it"),
    "seconds as timestamp": (TABLE, {"timestamp": "f"}, "float64 .*cast it to int64, in milliseconds"),
    "a dictionary as headers": (
        pa.table({"value": ["a"], "h": pa.array(["b"]).dictionary_encode()}),
        {"headers": "h"},
        "headers: column 'h' is of type dictionary<string> and must be list<struct<key",
    ),
    "text as headers": (TABLE, {"headers": "key"}, "headers: .*must be list<struct<key: string"),
    "two columns with one name": (TWICE, {"value": "value"}, "there are 2 columns named 'value'"),
    "a column name of the wrong type": (TABLE, {"key": 1}, "key must be the name of a column"),
    "several columns": (
        TABLE,
        {"value": ["key", "value"]},
        r"such as kproducer\.columnar\.Json\(\['key', 'value'\]\)",
    ),
    "an invalid partition": (TABLE, {"partition": -1}, "partition must be a number from 0"),
    "an invalid timestamp": (TABLE, {"timestamp": 1.5}, "timestamp_ms must be whole milliseconds"),
    "two topics": (TABLE, {"topic_column": "key"}, "topic and topic_column"),
    "a dict": ({"value": ["a"]}, {}, "must be Arrow data .* not dict"),
    "a number": (7, {}, "must be Arrow data .* not int"),
    "rows": ([{"value": "a"}], {}, r"dict has no Arrow interface .*make a table of it, .*from_pylist"),
    "objects": (
        pd.DataFrame({"value": [1, "x"]}),
        {},
        "^(invalid Arrow data: )?Could not convert 'x' .*: Conversion failed for column value",
    ),
    "nothing": (pa.table({}), {"value": Json()}, "there is no column for it: the data have no columns"),
    "a key only": (pa.table({"key": ["a"]}), {"value": Json(), "key": "key"}, "are used for something else"),
    "floats": (pa.array([1.5]), {}, "the data is of type float64"),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_an_invalid_call_sends_nothing(stage: Stage, cluster: FakeCluster, what: str) -> None:
    data, arguments, message = MISTAKES[what]
    kafka = stage.producer(cluster).kafka
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        kafka.send_arrow("t", data, **arguments)
    assert caught.value.outcome is Outcome.NOT_SENT
    assert not hasattr(caught.value, "partial_result")
    kafka.flush(PATIENCE_S)
    assert values(cluster) == []


def test_interceptors_and_serializers_that_need_objects_are_refused(
    stage: Stage, cluster: FakeCluster
) -> None:
    class Watcher:
        def on_send(self, record: Any) -> Any:
            return record

    for settings in ({"value_serializer": JsonSerializer()}, {"key_serializer": JsonSerializer()},
                     {"interceptors": [Watcher()]}):  # fmt: skip
        kafka = stage.producer(cluster, **settings).kafka
        with pytest.raises(InvalidArgumentError, match=next(iter(settings))):
            kafka.send_arrow("t", pa.table({"value": ["a"]}))


def test_unknown_topics_and_partitions_and_closed_producers(stage: Stage) -> None:
    cluster = stage.cluster()
    kafka = stage.producer(cluster, max_block_ms=200).learn("t").kafka
    table = pa.table({"value": ["a"]})
    with pytest.raises(MetadataTimeoutError, match="'lost' is not known"):
        kafka.send_arrow("lost", table)
    with pytest.raises(MetadataTimeoutError, match="partition 9 did not appear"):
        kafka.send_arrow("t", table, partition=9)
    with pytest.raises(InvalidArgumentError, match="no topic"):
        kafka.send_arrow(None, table)
    kafka.close()
    with pytest.raises(ProducerClosedError) as caught:
        kafka.send_arrow("t", table)
    assert caught.value.outcome is Outcome.NOT_SENT


# -- calls that end early ----------------------------------------------------------------------------------


def test_a_stream_that_fails_leaves_what_was_accepted(stage: Stage, cluster: FakeCluster) -> None:
    schema = pa.schema([("value", pa.string())])

    def batches() -> Iterator[Any]:
        yield pa.record_batch({"value": ["a", "b"]})
        raise OSError("the disk is gone")

    kafka = stage.producer(cluster).kafka
    with pytest.raises(InvalidArgumentError, match="the disk is gone") as caught:
        kafka.send_arrow("t", pa.RecordBatchReader.from_batches(schema, batches()))
    assert partial(caught).failures(PATIENCE_S) == []
    with pytest.raises(OSError, match="the disk is gone") as other:
        kafka.send_arrow("t", batches())
    assert partial(other).failures(PATIENCE_S) == []
    assert values(cluster) == [b"a", b"b"] * 2


def test_a_batch_with_other_columns_ends_the_call(stage: Stage, cluster: FakeCluster) -> None:
    kafka = stage.producer(cluster).kafka
    parts = [pa.record_batch({"value": ["a"], "n": [1]}), pa.record_batch({"n": [1], "value": ["b"]})]
    with pytest.raises(InvalidArgumentError, match="no column 'value'") as caught:
        kafka.send_arrow("t", [*parts, pa.record_batch({"n": [1], "m": [1]})])
    assert len(partial(caught)) == 2
    assert partial(caught).failures(PATIENCE_S) == []
    assert values(cluster) == [b"a", b"b"]


def test_a_timeout_waiting_for_memory_ends_the_call(stage: Stage, cluster: FakeCluster) -> None:
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate))
    kafka = stage.producer(cluster, max_block_ms=1000, linger_ms=60_000, **ONE_BATCH).learn("t").kafka
    table = pa.table({"value": [b"%05d" % n + b"x" * 95 for n in range(10_000)]})
    (batch,) = table.to_batches()
    # The number of rows of one array is known; that of a stream is not.
    result = kafka.send_arrow("t", batch)
    with pytest.raises(BufferExhaustedError) as caught:
        kafka.send_arrow("t", table)
    gate.open()
    assert len(result) == 10_000
    failures = result.failures(PATIENCE_S)
    taken = 10_000 - len(failures)
    assert 100 < taken < 200
    assert [row for row, _ in failures] == list(range(taken, 10_000))
    assert {type(error) for _, error in failures} == {BufferExhaustedError}
    assert failures[0][1].outcome is Outcome.NOT_SENT
    later = partial(caught).failures(PATIENCE_S)
    assert {type(error) for _, error in later} == {BufferExhaustedError}
    assert len(values(cluster)) == taken + len(partial(caught)) - len(later)


def test_a_producer_that_is_closed_meanwhile_ends_the_call(stage: Stage, cluster: FakeCluster) -> None:
    kafka = stage.producer(cluster).kafka

    def batches() -> Iterator[Any]:
        yield pa.record_batch({"value": ["a", "b"]})
        kafka.close()
        yield pa.record_batch({"value": ["c"]})

    with pytest.raises(ProducerClosedError) as caught:
        kafka.send_arrow("t", batches())
    result = partial(caught)
    assert [future.exception(PATIENCE_S) is None for future in result][:2] == [True, True]
    assert values(cluster) == [b"a", b"b"]

"""``send_many`` from outside: every row is delivered or has its own error."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kproducer import (
    BufferExhaustedError,
    InvalidArgumentError,
    JsonSerializer,
    KafkaProducer,
    MetadataTimeoutError,
    Outcome,
    ProducerClosedError,
    ProducerRecord,
    RecordTooLargeError,
    SendManyError,
    SendManyResult,
    SerializationError,
)
from kproducer.errors.broker_errors import InvalidTopicError, error_for_code
from kproducer.testing.fakebroker import FakeCluster, faults
from kproducer.testing.fakebroker.batch_check import StoredRecord
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S, partial

PRODUCE = 0
ONE_BATCH = {"buffer_memory": 16_384, "batch_size": 16_384}
HEADERS = [("plain", b"v"), ("text", "v"), ("null", None), ("übel", b""), ("plain", b"again")]


def stored(cluster: FakeCluster, result: SendManyResult, row: int, topic: str = "t") -> StoredRecord:
    """The record in the log at the offset of the result."""
    metadata = result[row].result(PATIENCE_S)
    (found,) = [r for r in cluster.records(topic, metadata.partition) if r.offset == metadata.offset]
    assert found.timestamp_ms == metadata.timestamp_ms
    assert metadata.serialized_key_size == (-1 if found.key is None else len(found.key))
    assert metadata.serialized_value_size == (-1 if found.value is None else len(found.value))
    return found


def values(cluster: FakeCluster, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in cluster.records("t", partition)]


# -- contents of records -----------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_every_row_is_in_the_log_where_its_result_says(stage: Stage, codec: str) -> None:
    cluster = stage.cluster(topics={"t": 3})
    kafka = stage.producer(cluster, batch_size=1000, linger_ms=1, compression_type=codec).kafka
    count = 3000
    sent = [b"%06d" % n + b"x" * (n % 97) for n in range(count)]
    keys = [None if n % 3 == 0 else b"" if n % 7 == 0 else b"key-%d" % (n % 50) for n in range(count)]
    headers = [None if n % 4 else HEADERS[: n % 6] for n in range(count)]
    partitions = [None if n % 5 else n % 3 for n in range(count)]
    times = [None if n % 2 else 1_600_000_000_000 + n * 7919 % 1000 for n in range(count)]
    result = kafka.send_many("t", sent, keys, headers, partitions, times)
    assert result.result(PATIENCE_S) is result
    for row in range(count):
        found = stored(cluster, result, row)
        assert (found.key, found.value) == (keys[row], sent[row])
        expected = [(name, v.encode() if isinstance(v, str) else v) for name, v in headers[row] or ()]
        assert list(found.headers) == expected
        assert times[row] in (None, found.timestamp_ms)
        assert partitions[row] in (None, result[row].result().partition)
    assert sum(len(cluster.records("t", p)) for p in range(3)) == count


def test_rows_have_the_same_meaning_as_in_send(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 4})
    kafka = stage.producer(cluster).kafka
    rows: list[tuple[Any, Any, Any]] = [
        (b"bytes", b"k", None),
        ("text", "kéy", {"mapping": "v"}),
        ("naïve", bytearray(b"array"), iter([("i", b"1")])),
        (memoryview(b"view"), None, ()),
        (None, b"tombstone", [["list", b"pair"]]),
        (b"", b"", []),
    ]
    singly = [
        kafka.send("t", v, k, h, timestamp_ms=5).result(PATIENCE_S) for v, k, h in rows if h is not rows[2][2]
    ]
    many = kafka.send_many("t", *map(list, zip(*rows, strict=True)), timestamps_ms=5)
    assert many.failures(PATIENCE_S) == []
    together = [many[row].result() for row in range(len(rows)) if row != 2]
    for one, other in zip(singly, together, strict=True):
        if one.serialized_key_size >= 0:
            assert one.partition == other.partition
        assert one[3:] == other[3:]
    assert stored(cluster, many, 1).headers == (("mapping", b"v"),)
    assert stored(cluster, many, 2)[2:] == (b"array", "naïve".encode(), (("i", b"1"),))
    assert stored(cluster, many, 4)[2:] == (b"tombstone", None, (("list", b"pair"),))


def test_iterators_of_all_kinds(stage: Stage, cluster: FakeCluster) -> None:
    kafka = stage.producer(cluster).kafka
    result = kafka.send_many(
        "t",
        (b"%d" % n for n in range(5000)),
        itertools.repeat(b"k"),
        itertools.repeat([("h", b"v")]),
        partitions=0,
        timestamps_ms=itertools.count(100),
    )
    assert result.failures(PATIENCE_S) == []
    assert len(result) == 5000
    assert values(cluster) == [b"%d" % n for n in range(5000)]
    assert list(result.offsets()) == list(range(5000))
    last = stored(cluster, result, -1)
    assert (last.key, last.timestamp_ms, last.headers) == (b"k", 5099, (("h", b"v"),))


def test_a_generator_may_send_itself(stage: Stage, cluster: FakeCluster) -> None:
    kafka = stage.producer(cluster, batch_size=200).kafka

    def rows() -> Iterator[bytes]:
        for n in range(100):
            kafka.send("t", b"inner")
            kafka.send_many("t", [b"inner"] * 3)
            yield b"outer-%d" % n

    result = kafka.send_many("t", rows())
    assert result.failures(PATIENCE_S) == []
    assert [stored(cluster, result, n).value for n in range(100)] == [b"outer-%d" % n for n in range(100)]
    kafka.flush(PATIENCE_S)
    assert values(cluster).count(b"inner") == 400


def test_serializers_and_interceptors_see_every_row(stage: Stage) -> None:
    seen: list[Any] = []
    acknowledged: list[Any] = []

    class Watcher:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            seen.append(record.value)
            return record._replace(topic="other") if record.value == {"n": 1} else record

        def on_acknowledgement(self, metadata: Any, error: Any) -> None:
            acknowledged.append((metadata.topic, error))

    cluster = stage.cluster(topics={"t": 1, "other": 1})
    kafka = stage.producer(cluster, value_serializer=JsonSerializer(), interceptors=[Watcher()]).kafka
    result = kafka.send_many("t", [{"n": 0}, {"n": 1}, {"n": object()}, {"n": 3}])
    ((row, error),) = result.failures(PATIENCE_S)
    assert (row, type(error)) == (2, SerializationError)
    assert [future.exception() is None for future in result] == [True, True, False, True]
    assert values(cluster) == [b'{"n":0}', b'{"n":3}']
    assert stored(cluster, result, 1, "other").value == b'{"n":1}'
    kafka.flush(PATIENCE_S)
    assert [value["n"] for value in seen[:2]] == [0, 1]
    assert sorted((topic, error is None) for topic, error in acknowledged) == [
        ("other", True),
        ("t", False),
        ("t", True),
        ("t", True),
    ]


def test_nothing_to_send(stage: Stage, cluster: FakeCluster) -> None:
    kafka = stage.producer(cluster).kafka
    for nothing in ([], (), iter([])):
        result = kafka.send_many("t", nothing)
        assert len(result) == 0
        assert result.result(0) is result


# -- rows that fail ----------------------------------------------------------------------------------------


def test_rows_that_are_refused_do_not_stop_the_others(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 2})
    kafka = stage.producer(cluster, max_request_size=1000, max_block_ms=200).learn("t").kafka
    bad: dict[int, tuple[dict[str, Any], type[Exception]]] = {
        3: ({"value": 7}, SerializationError),
        4: ({"value": "\udc80"}, SerializationError),
        10: ({"value": b"x" * 2000}, RecordTooLargeError),
        11: ({"key": object()}, SerializationError),
        20: ({"headers": [("h", 1)]}, SerializationError),
        21: ({"headers": [(b"h", b"")]}, SerializationError),
        22: ({"headers": 5}, SerializationError),
        30: ({"partition": -1}, InvalidArgumentError),
        31: ({"partition": "1"}, InvalidArgumentError),
        32: ({"partition": 2}, MetadataTimeoutError),
        33: ({"partition": 2**70}, MetadataTimeoutError),
        40: ({"time": -5}, InvalidArgumentError),
        41: ({"time": 2**63}, InvalidArgumentError),
        42: ({"time": 1.5}, InvalidArgumentError),
    }
    columns: dict[str, list[Any]] = {
        "value": [b"%d" % n for n in range(60)],
        "key": [None] * 60,
        "headers": [None] * 60,
        "partition": [0] * 60,
        "time": [1000 + n for n in range(60)],
    }
    for row, (fields, _) in bad.items():
        for name, field in fields.items():
            columns[name][row] = field
    result = kafka.send_many("t", *columns.values())
    failures = result.failures(PATIENCE_S)
    assert [(row, type(error)) for row, error in failures] == [(row, kind) for row, (_, kind) in bad.items()]
    assert {error.outcome for _, error in failures} == {Outcome.NOT_SENT}
    assert {error.__traceback__ for _, error in failures} == {None}
    assert values(cluster) == [b"%d" % n for n in range(60) if n not in bad]
    assert (result.succeeded_count, result.failed_count) == (60 - len(bad), len(bad))
    for row in bad:
        assert result[row].done()
        with pytest.raises(bad[row][1]):
            result[row].result()


def test_an_unknown_partition_is_waited_for_once(stage: Stage, cluster: FakeCluster) -> None:
    # Waiting max_block_ms for each row would take ten minutes.
    kafka = stage.producer(cluster, max_block_ms=600).learn("t").kafka
    result = kafka.send_many("t", [b"v"] * 1001, partitions=[1 + n for n in range(1000)] + [0])
    failures = result.failures(PATIENCE_S)
    assert [row for row, _ in failures] == list(range(1000))
    assert {type(error) for _, error in failures} == {MetadataTimeoutError}
    assert "not partition 1000" in str(failures[999][1])
    assert values(cluster) == [b"v"]


def test_a_partitioner_that_raises_fails_its_rows(stage: Stage) -> None:
    def odd(topic: str, key: Any, key_bytes: Any, value: Any, value_bytes: Any, snapshot: Any) -> int:
        return 1 // (len(value) % 2)

    cluster = stage.cluster(topics={"t": 2})
    kafka = stage.producer(cluster, partitioner=odd).kafka
    result = kafka.send_many("t", [b"a", b"ab", b"abc"])
    ((row, error),) = result.failures(PATIENCE_S)
    assert row == 1
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert error.outcome is Outcome.NOT_SENT
    assert values(cluster, 1) == [b"a", b"abc"]


def test_broker_errors_are_reported_per_row(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 2})
    cluster.control(PRODUCE, faults.refuse_produce(29, partition=("t", 1)), times=None)
    kafka = stage.producer(cluster, linger_ms=5).kafka
    result = kafka.send_many("t", [b"%d" % n for n in range(10)], partitions=[n % 2 for n in range(10)])
    assert [row for row, _ in result.failures(PATIENCE_S)] == [1, 3, 5, 7, 9]
    with pytest.raises(SendManyError, match="5 of 10 records for topic 't' were not delivered") as caught:
        result.result()
    assert caught.value.outcome is Outcome.REJECTED
    assert list(result.offsets()) == [0, -1, 1, -1, 2, -1, 3, -1, 4, -1]


def test_a_batch_that_is_split_keeps_its_rows(stage: Stage, cluster: FakeCluster) -> None:
    cluster.topics["t"].options.max_message_bytes = 3000
    kafka = stage.producer(cluster, linger_ms=20, max_in_flight_requests_per_connection=1).kafka
    told: list[SendManyResult] = []
    sent = [b"%04d" % n + b"x" * 500 for n in range(100)]
    sent[17] += b"x" * 3000
    result = kafka.send_many("t", sent)
    finished = threading.Event()
    result.add_done_callback(lambda r: (told.append(r), finished.set()))
    ((row, error),) = result.failures(PATIENCE_S)
    assert (row, type(error)) == (17, type(error_for_code(10)))
    assert finished.wait(PATIENCE_S)
    assert told == [result]
    for n in [*range(17), *range(18, 100)]:
        assert stored(cluster, result, n).value == sent[n]


# -- calls that end early ----------------------------------------------------------------------------------


def test_an_exception_of_the_iterator_leaves_what_was_accepted(stage: Stage, cluster: FakeCluster) -> None:
    def rows() -> Iterator[bytes]:
        for n in range(1500):
            yield b"%d" % n
        raise KeyboardInterrupt

    kafka = stage.producer(cluster).kafka
    with pytest.raises(KeyboardInterrupt) as caught:
        kafka.send_many("t", rows())
    result = partial(caught)
    assert len(result) == 1500
    assert result.failures(PATIENCE_S) == []
    assert values(cluster) == [b"%d" % n for n in range(1500)]


def test_an_interrupt_while_a_row_is_sent(stage: Stage, cluster: FakeCluster) -> None:
    def serialize(value: bytes) -> bytes:
        if value == b"7":
            raise KeyboardInterrupt
        return value

    kafka = stage.producer(cluster, value_serializer=serialize).kafka
    with pytest.raises(KeyboardInterrupt) as caught:
        kafka.send_many("t", [b"%d" % n for n in range(20)])
    result = partial(caught)
    assert len(result) == 7
    assert result.failures(PATIENCE_S) == []
    assert values(cluster) == [b"%d" % n for n in range(7)]


def test_columns_of_different_lengths(stage: Stage, cluster: FakeCluster) -> None:
    kafka = stage.producer(cluster).kafka
    with pytest.raises(
        InvalidArgumentError, match="values has 3000 entries and keys ended after 2000"
    ) as caught:
        kafka.send_many("t", [b"v"] * 3000, (b"k" for _ in range(2000)))
    assert len(partial(caught)) == 2000
    assert partial(caught).failures(PATIENCE_S) == []
    with pytest.raises(InvalidArgumentError, match="values has 1 entries and keys has 2"):
        kafka.send_many("t", [b"v"], [b"k", b"k"])
    assert len(values(cluster)) == 2000


def test_without_memory_the_rest_is_refused_after_one_wait(stage: Stage, cluster: FakeCluster) -> None:
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate))
    kafka = stage.producer(cluster, max_block_ms=300, linger_ms=60_000, **ONE_BATCH).learn("t").kafka
    # Waiting max_block_ms for each row would take hours.
    result = kafka.send_many("t", [b"%05d" % n + b"x" * 95 for n in range(100_000)])
    gate.open()
    assert len(result) == 100_000
    failures = result.failures(PATIENCE_S)
    taken = 100_000 - len(failures)
    assert 100 < taken < 200
    assert [row for row, _ in failures] == list(range(taken, 100_000))
    assert {type(error) for _, error in failures} == {BufferExhaustedError}
    assert failures[0][1].outcome is Outcome.NOT_SENT
    assert len(values(cluster)) == taken


def test_without_memory_a_generator_keeps_the_rest(stage: Stage, cluster: FakeCluster) -> None:
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate))
    kafka = stage.producer(cluster, max_block_ms=300, linger_ms=60_000, **ONE_BATCH).learn("t").kafka
    rows = (b"%07d" % n + b"x" * 95 for n in itertools.count())
    with pytest.raises(BufferExhaustedError) as caught:
        kafka.send_many("t", rows)
    gate.open()
    result = partial(caught)
    failed = [row for row, _ in result.failures(PATIENCE_S)]
    assert failed == list(range(len(result) - len(failed), len(result)))
    assert len(values(cluster)) == len(result) - len(failed)
    # Every row is either in the result or still in the generator.
    assert next(rows)[:7] == b"%07d" % len(result)


@pytest.mark.parametrize("sized", [True, False])
def test_a_producer_closed_during_the_call(stage: Stage, cluster: FakeCluster, sized: bool) -> None:
    kafka = stage.producer(cluster).kafka

    def rows() -> Iterator[bytes]:
        for n in range(5000):
            if n == 3000:
                kafka.close(PATIENCE_S)
            yield b"%d" % n

    if sized:
        result = kafka.send_many("t", [b"v"] * 5000, rows())
    else:
        with pytest.raises(ProducerClosedError) as caught:
            kafka.send_many("t", rows())
        result = partial(caught)
    failures = result.failures(PATIENCE_S)
    assert {type(error) for _, error in failures} == {ProducerClosedError}
    assert failures[-1][0] == len(result) - 1
    assert len(values(cluster)) == len(result) - len(failures)


def test_errors_of_the_whole_call_are_raised(stage: Stage, cluster: FakeCluster) -> None:
    kafka = stage.producer(cluster, max_block_ms=200).kafka
    with pytest.raises(MetadataTimeoutError) as caught:
        kafka.send_many("nowhere", [b"v"] * 10)
    assert caught.value.outcome is Outcome.NOT_SENT
    rows = iter([b"v"] * 10)
    with pytest.raises(MetadataTimeoutError):
        kafka.send_many("nowhere", rows)
    assert len(list(rows)) == 10
    with pytest.raises(InvalidTopicError):
        kafka.send_many("no/where", [b"v"])
    with pytest.raises(InvalidArgumentError, match="topic must be a non-empty str"):
        kafka.send_many(None, [b"v"])  # type: ignore[arg-type]
    kafka.close()
    for nothing in ([], [b"v"]):
        with pytest.raises(ProducerClosedError):
            kafka.send_many("t", nothing)


def test_a_timeout_ends_the_waiting(stage: Stage, cluster: FakeCluster) -> None:
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate), times=None)
    kafka = stage.producer(cluster, linger_ms=5).kafka
    result = kafka.send_many("t", [b"v"] * 1000)
    gate.wait_until_reached()
    told = threading.Event()
    result.add_done_callback(lambda _: told.set())
    kafka.close(0)
    assert result.wait(PATIENCE_S)
    assert told.wait(PATIENCE_S)
    assert len(result.failures()) == 1000
    gate.open()


def test_lists_that_change_during_the_call(stage: Stage, cluster: FakeCluster) -> None:
    kafka: KafkaProducer = stage.producer(cluster).kafka
    stop = threading.Event()
    rows = [b"%d" % n for n in range(5000)]

    def scribble() -> None:
        while not stop.is_set():
            rows[:] = [b"%d" % n for n in range(5000)]

    thread = threading.Thread(target=scribble)
    thread.start()
    try:
        for _ in range(20):
            result = kafka.send_many("t", rows, rows)
            assert result.failures(PATIENCE_S) == []
    finally:
        stop.set()
        thread.join(PATIENCE_S)
    assert len(values(cluster)) == 100_000


def test_serializers_of_both_kinds_see_each_row_once_and_refuse_it_alone(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 2})
    seen: list[Any] = []

    def plain(value: Any) -> bytes | None:
        seen.append(value)
        return None if value == "null" else f"<{value + 0 if value != 'text' else 'text'}>".encode()

    class Adding:
        def serialize(self, topic: str, headers: list[Any], value: Any) -> bytes | None:
            headers.append(("kind", type(value).__name__.encode()))
            return plain(value)

    rows = [1, None, "null", "text", object(), 2.5, *range(3000)]
    expected = [b"<1>", None, None, b"<text>", None, b"<2.5>", *(b"<%d>" % n for n in range(3000))]
    for serializer in (plain, Adding()):
        seen.clear()
        kafka = stage.producer(
            cluster, key_serializer=serializer, value_serializer=serializer, batch_size=999
        ).kafka
        result = kafka.send_many("t", rows, rows, itertools.repeat([("own", b"v")]), partitions=1)
        ((row, error),) = result.failures(PATIENCE_S)
        assert (row, type(error), error.outcome) == (4, SerializationError, Outcome.NOT_SENT)
        # Neither nulls nor the value of a row with a refused key are serialized.
        assert len(seen) == 2 * (len(rows) - 2) + 1
        found = {record.offset: record for record in cluster.records("t", 1)}
        for number in [*range(4), *range(5, len(rows))]:
            record = found[result[number].result().offset]
            assert (record.key, record.value) == (expected[number], expected[number])
            extra = 0 if serializer is plain or rows[number] is None else 2
            assert len(record.headers) == 1 + extra

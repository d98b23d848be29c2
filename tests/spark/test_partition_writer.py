"""What a task does: each row as its columns say, back when all are acknowledged, one failure fails all."""

from __future__ import annotations

import datetime
import pickle
import weakref

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql import types as t

from kproducer import KafkaProducer
from kproducer._core.accumulator.future_record_metadata import ProduceRequestResult
from kproducer.errors import (
    KafkaTimeoutError,
    NetworkError,
    Outcome,
    ProducerClosedError,
    RecordTooLargeError,
)
from kproducer.spark import flushing, writers
from kproducer.spark.arrow_types import record_batches
from kproducer.spark.errors import SparkWriteError
from kproducer.spark.partition_writer import TaskRowSender, write_partition
from kproducer.spark.producer_cache import ProducerCache
from kproducer.spark.write_columns import WriteColumns
from kproducer.spark.write_options import WriteOptions
from kproducer.spark.write_summary import WriteSummary
from kproducer.types import TopicPartition
from tests.spark.fake_producer import FakeProducer, SentRecord, close_idle
from tests.support.units.appending import append_value

OPTIONS = WriteOptions.parse({"kafka.bootstrap.servers": "h:1", "topic": "orders"})
HEADERS = t.ArrayType(
    t.StructType([t.StructField("key", t.StringType()), t.StructField("value", t.BinaryType())])
)


def batch_of(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


VALUES = batch_of(value=pa.array(["a", "b", None]))


class Bench:
    def __init__(self, columns: WriteColumns, options: WriteOptions = OPTIONS) -> None:
        self.producer = FakeProducer()
        self.made = 0
        self.cache = ProducerCache(self._make)
        self.columns, self.options = columns, options

    def _make(self, settings):
        self.made += 1
        return self.producer

    def write(self, *batches: pa.RecordBatch) -> WriteSummary:
        return self.write_all(iter(batches))

    def write_all(self, batches) -> WriteSummary:
        return write_partition(batches, self.columns, self.options, self.cache)


@pytest.fixture
def bench():
    made = Bench(WriteColumns(("value",), "orders"))
    yield made
    close_idle(made.cache)


def test_every_row_of_every_batch_is_sent_in_order(bench):
    summary = bench.write(VALUES, batch_of(value=pa.array(["c"])))
    assert [record.value for record in bench.producer.sent] == [b"a", b"b", None, b"c"]
    assert {record.topic for record in bench.producer.sent} == {"orders"}
    assert (summary.rows, summary.content_bytes) == (4, 3)
    assert (summary.requests, summary.wire_bytes, summary.latency_ms) == (4, 40, 20)


def test_every_column_reaches_the_record():
    bench = Bench(WriteColumns(("value", "key", "topic", "partition", "timestamp", "headers")))
    moment = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
    header_type = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    bench.write(
        batch_of(
            value=pa.array([b"v", None]),
            key=pa.array(["k", None]),
            topic=pa.array(["t1", "t2"]),
            partition=pa.array([7, None], type=pa.int32()),
            timestamp=pa.array([moment, None], type=pa.timestamp("us", tz="UTC")),
            headers=pa.array([[{"key": "h", "value": b"1"}], None], type=header_type),
        )
    )
    close_idle(bench.cache)
    assert bench.producer.sent == [
        SentRecord("t1", b"v", b"k", [("h", b"1")], 7, 1704067200000),
        SentRecord("t2", None, None, None, None, None),
    ]


def test_a_task_does_not_keep_the_batches_that_it_has_sent(bench):
    references: list[weakref.ref[pa.RecordBatch]] = []
    held: list[int] = []

    def batches():
        for number in range(4):
            made = batch_of(value=pa.array([str(number)]))
            references.append(weakref.ref(made))
            yield made
            del made
            held.append(sum(each() is not None for each in references))

    bench.write_all(batches())
    assert max(held) == 1


def test_an_empty_partition_makes_no_producer(bench):
    assert bench.write(VALUES.slice(0, 0)) == WriteSummary()
    assert bench.made == 0


def test_the_producer_is_kept_for_the_next_task(bench):
    bench.write(VALUES)
    bench.write(VALUES)
    assert bench.made == 1
    assert not bench.producer.closed_with


def test_a_failed_delivery_fails_the_task_with_place_reason_and_what_is_known(bench):
    bench.producer.errors[1] = NetworkError("broker 3 is gone").with_outcome(Outcome.UNKNOWN)
    with pytest.raises(SparkWriteError) as caught:
        bench.write(VALUES)
    message = str(caught.value)
    assert "topic 'orders', partition 0" in message
    assert "NetworkError: broker 3 is gone" in message
    assert "may have been written" in message
    assert caught.value.outcome is Outcome.UNKNOWN


def test_the_producer_of_a_failed_task_is_discarded(bench):
    bench.producer.errors[0] = NetworkError("x")
    with pytest.raises(SparkWriteError):
        bench.write(VALUES)
    assert bench.producer.closed_with == [0.0]
    assert len(bench.cache._idle) == 0


def test_a_record_that_send_refuses_fails_the_task(bench):
    bench.producer.refusals[1] = RecordTooLargeError("too large: max_request_size=1")
    with pytest.raises(SparkWriteError, match=r"topic 'orders'.*too large: kafka\.max\.request\.size=1"):
        bench.write(VALUES)
    assert bench.producer.closed_with == [0.0]


def test_no_more_rows_are_sent_after_a_failure_is_known(bench):
    def batches():
        yield VALUES
        bench.producer.errors[0] = NetworkError("x")
        bench.producer.settle()
        yield VALUES

    with pytest.raises(SparkWriteError):
        bench.write_all(batches())
    assert len(bench.producer.sent) == 3


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit, ValueError, GeneratorExit])
def test_an_interrupted_task_leaves_no_producer_behind(bench, interruption):
    def batches():
        yield VALUES
        raise interruption

    with pytest.raises(interruption):
        bench.write_all(batches())
    assert bench.producer.closed_with == [0.0]


def test_a_failure_ends_the_waiting_for_the_other_records(bench):
    def flush(timeout=None):
        bench.producer.errors[0] = NetworkError("x")
        bench.producer.settle()
        raise KafkaTimeoutError("others are still on their way")

    bench.producer.flush = flush
    with pytest.raises(SparkWriteError, match="NetworkError"):
        bench.write(VALUES)


def test_a_null_topic_is_named_with_its_row():
    bench = Bench(WriteColumns(("value", "topic")), WriteOptions.parse({"kafka.bootstrap.servers": "h:1"}))
    with pytest.raises(SparkWriteError, match="column 'topic' is null in row 2 "):
        bench.write(batch_of(value=pa.array(["a", "b", "c"]), topic=pa.array(["t", "t", None])))


def test_summaries_add_up_and_failed_tasks_count_nothing():
    one = WriteSummary(tasks=1, rows=2, content_bytes=3, wire_bytes=4, requests=5, retried_records=6)
    total = WriteSummary.total([one, None, one])
    assert (total.tasks, total.rows, total.retried_records) == (2, 4, 12)
    assert pickle.loads(pickle.dumps(one)) == one


def owner() -> ProduceRequestResult:
    return ProduceRequestResult(TopicPartition("orders", 3))


def end(result: ProduceRequestResult, error: NetworkError | None = None) -> None:
    assert result.settle(-1 if error else 0, -1, error, None)
    result.release()


@pytest.fixture
def sender():
    """A sender whose batches the test completes; the producer has nothing to flush."""
    return TaskRowSender(FakeProducer(), WriteColumns(("value",), "orders"))


def test_rows_without_a_result_after_a_flush_are_an_error(sender):
    first, second = owner(), owner()
    sender._pending.update({first: 1, second: 2})
    sender.summary.rows = 3
    end(first)
    with pytest.raises(SparkWriteError, match="2 of 3 records have no result"):
        sender.deliver_all()


def test_a_sender_forgets_batches_that_have_ended(sender):
    for _ in range(100):
        ended = owner()
        end(ended)
        sender._pending[ended] = 5
        sender.send(VALUES.slice(0, 0))
        assert not sender._pending
    sender.summary.rows = 500
    sender.deliver_all()


def test_a_sender_follows_a_batch_that_is_split(sender):
    whole, first, second = owner(), owner(), owner()
    sender._pending[whole] = 4
    sender.summary.rows = 4
    assert whole.split_into([0, 2], [first, second])
    end(first)
    with pytest.raises(SparkWriteError, match="4 of 4"):
        sender.deliver_all()
    end(second, NetworkError("gone"))
    with pytest.raises(SparkWriteError, match="topic 'orders', partition 3: NetworkError: gone"):
        sender.deliver_all()


SCHEMA = t.StructType(
    [
        t.StructField("value", t.BinaryType()),
        t.StructField("note", t.LongType()),
        t.StructField("headers", HEADERS),
        t.StructField("timestamp", t.TimestampType()),
        t.StructField("partition", t.IntegerType()),
    ]
)


def test_rows_become_the_same_columns():
    moment = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
    rows = [
        Row(bytearray(b"x"), 1, [Row("h", bytearray(b"1"))], moment, 4),
        Row(None, None, None, None, None),
    ] * 3000
    columns = WriteColumns.check(SCHEMA, "t")
    batches = list(record_batches(iter(rows), SCHEMA, columns.reads))
    assert [batch.num_rows for batch in batches] == [4096, 1904]
    bench = Bench(columns)
    bench.write(*batches)
    close_idle(bench.cache)
    sent = bench.producer.sent
    assert sent.count(SentRecord("t", b"x", None, [("h", b"1")], 4, 1704067200000)) == 3000
    assert sent.count(SentRecord("t", None, None, None, None, None)) == 3000


_WRITERS = (
    writers.BatchWriter,
    writers.StreamRowWriter,
    writers.StreamWriter,  # with PySpark 4.0 the same
)


@pytest.mark.parametrize("kind", _WRITERS)
def test_writers_are_picklable_and_show_no_settings(kind):
    options = WriteOptions.parse(
        {"kafka.bootstrap.servers": "h:1", "topic": "t", "kafka.client.id": "hunter2"}
    )
    writer = kind(SCHEMA, WriteColumns.check(SCHEMA, "t"), options)
    copy = pickle.loads(pickle.dumps(writer))
    assert type(copy) is kind
    assert repr(copy) == repr(writer)
    assert "hunter2" not in repr(writer)


def test_a_task_does_not_wait_for_an_io_thread_that_has_died(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end fails all records. Here it does not, as if that had failed as well."""
    monkeypatch.setattr(flushing, "LOOK_INTERVAL_S", 0.05)
    producer = KafkaProducer(bootstrap_servers=["127.0.0.1:1"])
    engine = producer._lifecycle.engine
    assert engine is not None
    shut_down = engine.sender._shut_down

    def die(now_ms: int) -> None:
        raise SystemExit

    try:
        future, _ = append_value(engine.accumulator, "t", 0, b"v", engine.metadata.snapshot)
        monkeypatch.setattr(engine.sender, "_shut_down", lambda ending: None)
        monkeypatch.setattr(engine.sender, "run_once", die)
        engine.sender.wakeup()
        engine.thread.join(30)
        rows = TaskRowSender(producer, WriteColumns(("value",), "t"))
        rows.summary.rows = 1
        rows._pending[future._batch_result] = 1
        with pytest.raises(ProducerClosedError, match="I/O thread has ended"):
            rows.deliver_all()
    finally:
        shut_down(None)
        producer.close(0)

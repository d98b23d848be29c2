"""``writeStream.foreach(KafkaForeachWriter(...))``: each row at once, committed when all are delivered."""

from __future__ import annotations

import datetime
import pickle

import pytest
from pyspark.sql import Row
from pyspark.sql import functions as f

from kproducer.errors import NetworkError, Outcome, RecordTooLargeError
from kproducer.spark import KafkaForeachWriter, SparkOptionError, SparkSchemaError, SparkWriteError
from kproducer.spark.producer_cache import ProducerCache
from tests.spark.fake_producer import FakeProducer, SentRecord, close_idle
from tests.support.kafka.reader import read_topic

SERVERS = {"kafka.bootstrap.servers": "h:1"}
ORDERS = {**SERVERS, "topic": "orders"}


class Bench:
    """A writer as Spark's worker has it, and the producer that it takes from the cache."""

    def __init__(self, options: dict[str, str]) -> None:
        self.producer = FakeProducer()
        self.settings: dict[str, str] = {}
        self.cache = ProducerCache(self._make)
        self.writer = pickle.loads(pickle.dumps(KafkaForeachWriter(options)))
        self.writer._cache = self.cache

    def _make(self, settings):
        self.settings = settings
        return self.producer

    def write(self, *rows: Row) -> None:
        """As ``DataStreamWriter.foreach`` calls it."""
        error = None
        assert self.writer.open(0, 7)
        try:
            for row in rows:
                self.writer.process(row)
        except Exception as raised:
            error = raised
        finally:
            self.writer.close(error)
            if error:
                raise error


def test_every_column_becomes_that_part_of_the_record():
    bench = Bench(SERVERS)
    when = datetime.datetime(2026, 1, 2, 3, 4, 5, 678999)
    headers = [Row(key="a", value=b"1"), Row(key="a", value=None)]
    names = ("topic", "key", "value", "partition", "headers", "timestamp")
    bench.write(
        Row(*names)("orders", "k", bytearray(b"v"), 3, headers, when),
        Row(*names)("other", None, None, None, None, 1.5),
    )
    milliseconds = int(when.replace(microsecond=0).timestamp()) * 1000 + 678
    assert bench.producer.sent == [
        SentRecord("orders", b"v", "k", [("a", b"1"), ("a", None)], 3, milliseconds),
        SentRecord("other", None, None, None, None, 1500),
    ]


def test_the_option_topic_overrides_the_column_and_records_do_not_linger():
    bench = Bench(ORDERS)
    bench.write(Row(topic="other", value="v"))
    assert [record.topic for record in bench.producer.sent] == ["orders"]
    assert bench.settings["linger.ms"] == "0"
    assert Bench({**ORDERS, "kafka.linger.ms": "3"}).writer._options.producer_config().linger_ms == 3


def test_a_partition_without_rows_does_not_connect():
    bench = Bench(ORDERS)
    bench.write()
    assert bench.settings == {}


def test_the_next_micro_batch_uses_the_same_producer():
    bench = Bench(ORDERS)
    bench.write(Row(value="a"))
    first = bench.settings
    bench.write(Row(value="b"))
    assert bench.settings is first
    close_idle(bench.cache)
    assert len(bench.producer.closed_with) == 1


def test_close_raises_if_a_record_failed_and_what_is_left_is_not_sent():
    bench = Bench(ORDERS)
    bench.producer.errors[1] = NetworkError("gone").with_outcome(Outcome.UNKNOWN)
    with pytest.raises(SparkWriteError, match=r"'orders', partition 0: NetworkError: gone \(it may have"):
        bench.write(Row(value="a"), Row(value="b"))
    # Not kept for the next task: a retry would otherwise come after leftovers of this one.
    assert bench.producer.closed_with == [0.0]


def test_a_failed_record_ends_the_micro_batch_before_its_last_row():
    bench = Bench(ORDERS)
    bench.producer.errors[0] = NetworkError("gone")
    bench.writer.open(0, 0)
    bench.writer.process(Row(value="a"))
    bench.producer.settle()
    with pytest.raises(SparkWriteError, match="gone"):
        bench.writer.process(Row(value="b"))
    bench.writer.close(SparkWriteError("gone"))
    assert bench.producer.closed_with == [0.0]


def test_a_record_that_is_refused_at_once_fails_with_its_reason():
    bench = Bench(ORDERS)
    bench.producer.refusals[0] = RecordTooLargeError("larger than max_request_size").with_outcome(
        Outcome.NOT_SENT
    )
    with pytest.raises(SparkWriteError, match=r"kafka.max.request.size \(it was not sent\)"):
        bench.write(Row(value="a"))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (Row(id=1), "column 'value' is missing"),
        (Row(value="v", Key="k"), "column 'Key' would not be written: rename it to 'key'"),
        (Row(value=5), r"column 'value' has values of type int: .*CAST\(value AS STRING\)"),
        (Row(value="v", partition="3"), "column 'partition' has values of type str: it must be INT"),
        (
            Row(value="v", timestamp=float("nan")),
            "column 'timestamp' has a wrong value: it must be TIMESTAMP",
        ),
        (Row(value="v", headers=[Row(value="1", key="a")]), "column 'headers' has a wrong value: it must be"),
        (Row(value="v", headers=[None]), "column 'headers' has a wrong value: it must be"),
        (Row(value="v", timestamp=7), "column 'timestamp' has values of type int: it must be TIMESTAMP"),
    ],
)
def test_wrong_columns_name_the_remedy(row, message):
    with pytest.raises(SparkSchemaError, match=message):
        Bench(ORDERS).write(row)


def test_a_row_without_topic_is_refused():
    with pytest.raises(SparkSchemaError, match="column 'topic' is null"):
        Bench(SERVERS).write(Row(topic=None, value="v"))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"valueFormat": "avro"}, "option 'valueFormat' is not available in foreach: .*to_avro"),
        (
            {"delivery": "exactly-once"},
            "option 'delivery' is not available in foreach, which writes",
        ),
        (
            {"checkpointLocation": "/c"},
            "option 'checkpointLocation' has no effect here: set it on writeStream",
        ),
        ({"checkTimeoutMs": "1"}, "option 'checkTimeoutMs' is not available in foreach"),
        ({"tpic": "x"}, "did you mean 'topic'"),
        ({"kafka.acks": "2"}, "kafka.acks"),
    ],
)
def test_wrong_options_are_errors_when_the_writer_is_created(option, message):
    with pytest.raises(SparkOptionError, match=message):
        KafkaForeachWriter({**ORDERS, **option})


def test_no_secret_is_shown():
    writer = KafkaForeachWriter({**ORDERS, "kafka.ssl.key.password": "hush"})
    assert "hush" not in repr(writer)


@pytest.mark.mock_cluster
def test_spark_writes_updates_again_after_a_failure(spark, mock_cluster, tmp_path):
    topic = "foreach-updates"
    mock_cluster.create_topic(topic, partitions=2)
    source = tmp_path / "source"
    source.mkdir()
    (source / "1.txt").write_text("a\nb\na\n")
    lines = spark.readStream.format("text").load(str(source))
    counts = lines.groupBy("value").count().select(f.concat_ws("=", "value", "count").alias("value"))
    options = {"kafka.bootstrap.servers": mock_cluster.bootstrap_servers, "topic": topic}

    def run() -> None:
        writer = counts.writeStream.outputMode("update").foreach(KafkaForeachWriter(options))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(240)

    # As many refusals as the first row's task has attempts: the micro-batch is not committed.
    mock_cluster.push_errors(0, *[87] * 4)
    with pytest.raises(Exception, match="SparkWriteError"):
        run()
    mock_cluster.clear_errors(0)
    run()
    values = [record.value for record in read_topic(mock_cluster.bootstrap_servers, topic)]
    assert set(values) == {b"a=2", b"b=1"}
    (source / "2.txt").write_text("b\n")
    run()
    values = [record.value for record in read_topic(mock_cluster.bootstrap_servers, topic)]
    assert values.count(b"b=2") == 1

"""``df.writeStream.format("kproducer")``: micro-batches, restarts from a checkpoint, failures in between."""

from __future__ import annotations

import inspect
import itertools
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from kproducer.spark import SparkWriteError, WriteSummary
from kproducer.spark.writers import CommitOptions, StreamWriter
from kproducer.testing.fakebroker import FakeCluster
from tests.support.kafka.reader import read_topic
from tests.support.waiting import wait_until

pytestmark = pytest.mark.mock_cluster

PRODUCE = 0
METADATA = 3
API_VERSIONS = 18
INVALID_RECORD = 87
ROOT = Path(__file__).parents[2]
_names = (f"stream-{number}" for number in itertools.count())


class Stream:
    """Text files to a topic, with a checkpoint."""

    def __init__(self, spark, cluster, folder) -> None:
        self.spark = spark
        self.cluster = cluster
        self.topic = next(_names)
        self.source = folder / "source"
        self.source.mkdir()
        self.checkpoint = folder / "checkpoint"
        cluster.create_topic(self.topic, partitions=2)

    def add_lines(self, name: str, lines) -> None:
        # Renamed into place: a half-written file would be taken for a whole one.
        part = self.source / f".{name}"
        part.write_text("".join(f"{line}\n" for line in lines))
        part.rename(self.source / name)

    def frame(self):
        return self.spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(self.source))

    def start(self, frame=None, source_format="kproducer", mode="append", **options):
        writer = (self.frame() if frame is None else frame).writeStream.format(source_format)
        writer = writer.option("kafka.bootstrap.servers", self.cluster.bootstrap_servers)
        writer = writer.option("topic", self.topic).option("checkpointLocation", str(self.checkpoint))
        for name, value in options.items():
            writer = writer.option(name, value)
        return writer.outputMode(mode).trigger(availableNow=True).start()

    def run(self, *arguments, **options):
        query = self.start(*arguments, **options)
        try:
            assert query.awaitTermination(240)
            return query
        finally:
            query.stop()

    def values(self) -> Counter:
        records = read_topic(self.cluster.bootstrap_servers, self.topic)
        return Counter(record.value.decode() for record in records)


@pytest.fixture
def stream(spark, mock_cluster, tmp_path) -> Stream:
    return Stream(spark, mock_cluster, tmp_path)


def lines(first: int, last: int) -> list[str]:
    return [f"line-{number}" for number in range(first, last)]


def test_a_restart_from_the_checkpoint_goes_on_where_it_was(stream):
    stream.add_lines("1.txt", lines(0, 100))
    stream.add_lines("2.txt", lines(100, 150))
    query = stream.run()
    assert len(query.recentProgress) == 2
    assert stream.values() == Counter(lines(0, 150))
    stream.add_lines("3.txt", lines(150, 200))
    stream.run()
    assert stream.values() == Counter(lines(0, 200))


def test_a_failed_micro_batch_is_written_again_after_a_restart(stream):
    stream.add_lines("1.txt", lines(0, 50))
    # As many refusals as a task has attempts: the query fails.
    stream.cluster.push_errors(PRODUCE, *[INVALID_RECORD] * 2)
    with pytest.raises(Exception, match="SparkWriteError") as caught:
        stream.run()
    assert f"topic '{stream.topic}'" in str(caught.value)
    stream.cluster.clear_errors(PRODUCE)
    stream.run()
    assert set(stream.values()) == set(lines(0, 50))


def test_a_query_stopped_in_the_middle_of_a_batch_loses_no_row(stream):
    stream.add_lines("1.txt", lines(0, 200))
    stream.cluster.start_request_tracking()
    for broker in (1, 2, 3):
        stream.cluster.push_error_rtts(broker, PRODUCE, (0, 8000))
    query = stream.start()
    deadline = time.monotonic() + 60
    while not stream.cluster.requests(PRODUCE):
        assert time.monotonic() < deadline
        assert query.exception() is None
        time.sleep(0.02)
    query.stop()
    stream.run()
    assert set(stream.values()) == set(lines(0, 200))


def test_the_complete_mode_writes_the_whole_result_each_time(stream):
    stream.add_lines("1.txt", ["a", "b", "a"])
    counts = stream.frame().groupBy("value").count()
    counts = counts.select(f.concat_ws("=", "value", "count").alias("value"))
    stream.run(counts, mode="complete")
    assert stream.values() == Counter({"a=2": 1, "b=1": 1})


def test_the_way_without_arrow_writes_the_same(stream):
    def by_rows():
        # Defined in here, so that it is pickled by value: workers cannot import the tests.
        from kproducer.spark.data_source import KafkaProducerDataSource
        from kproducer.spark.writers import StreamRowWriter

        class RowStreamSource(KafkaProducerDataSource):
            @classmethod
            def name(cls):
                return "kproducer_row_stream"

            stream_writer = StreamRowWriter

        return RowStreamSource

    stream.spark.dataSource.register(by_rows())
    stream.add_lines("1.txt", lines(0, 20))
    stream.run(source_format="kproducer_row_stream")
    assert stream.values() == Counter(lines(0, 20))


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_continuous_processing_commits_no_epoch(stream, delivery):
    """Spark passes none of its rows to Python, and would commit epochs whose rows are not written."""
    numbers = stream.spark.readStream.format("rate").option("numPartitions", 2).load()
    writer = numbers.selectExpr("CAST(value AS STRING) AS value").writeStream.format("kproducer")
    writer = writer.option("kafka.bootstrap.servers", stream.cluster.bootstrap_servers)
    writer = writer.option("topic", stream.topic).option("checkpointLocation", str(stream.checkpoint))
    query = writer.option("delivery", delivery).trigger(continuous="1 second").start()
    try:
        wait_until((stream.checkpoint / "offsets" / "3").exists)
    finally:
        query.stop()
    assert not [each for each in (stream.checkpoint / "commits").iterdir() if each.name.isdecimal()]


def test_a_commit_without_any_task_names_the_trigger(caplog):
    writer = StreamWriter(StructType(), None, CommitOptions("log", is_exactly_once=False))
    with pytest.raises(SparkWriteError, match=r"micro-batch 7: .*trigger\(continuous=\.\.\.\)"):
        writer.commit([None, None], 7)
    # A micro-batch without partitions looks the same as an epoch of one partition.
    writer.commit([None], 8)
    assert "trigger(continuous=...)" in caplog.text
    caplog.clear()
    writer.commit([WriteSummary(tasks=1), None], 9)
    assert "trigger" not in caplog.text


def test_real_time_mode_is_refused_by_spark(stream):
    stream.add_lines("1.txt", lines(0, 1))
    writer = stream.frame().writeStream.format("kproducer").outputMode("update")
    writer = writer.option("kafka.bootstrap.servers", stream.cluster.bootstrap_servers)
    writer = writer.option("topic", stream.topic).option("checkpointLocation", str(stream.checkpoint))
    if "realTime" not in inspect.signature(writer.trigger).parameters:
        pytest.skip("this version of PySpark has no real-time mode")
    with pytest.raises(Exception, match="real-time mode"):
        writer.trigger(realTime="5 minutes").start()


def test_the_update_mode_is_refused_by_spark_with_the_text_that_the_documentation_explains(stream):
    stream.add_lines("1.txt", lines(0, 1))
    told = "kproducer does not support Update mode"
    with pytest.raises(Exception, match=told):
        stream.run(mode="update")
    for page in ("docs/spark.md", "docs/spark-realtime.md"):
        assert told in (ROOT / page).read_text(encoding="utf-8")
    with pytest.raises(Exception, match=r"outputMode\('update'\)\.foreachBatch"):
        stream.run(outputMode="update")


def test_mistakes_end_the_query_before_a_task_starts(stream):
    stream.add_lines("1.txt", lines(0, 1))
    with pytest.raises(Exception, match=r"did you mean 'topic'") as caught:
        stream.run(tpic="x")
    assert "SparkOptionError" in str(caught.value)


def test_a_micro_batch_is_checked_before_its_tasks_and_not_before_its_commit(spark, tmp_path):
    with FakeCluster(1) as cluster:
        cluster.create_topic("checked", 1)
        source = tmp_path / "source"
        source.mkdir()
        (source / "1.txt").write_text("a\n")
        (source / "2.txt").write_text("b\n")
        frame = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(source))
        writer = frame.writeStream.format("kproducer").option("topic", "checked").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.option("kafka.bootstrap.servers", cluster.bootstrap_servers[0]).start()
        assert query.awaitTermination(240)
        assert len(query.recentProgress) == 2
        checks = [request for request in cluster.requests(METADATA) if request.api_version == 4]
        # The check for the first one may still count for the second.
        assert len(checks) in (1, 2)
        cluster.delete_topic("checked")
        (source / "3.txt").write_text("c\n")
        written = len(cluster.requests(PRODUCE))
        query = writer.option("checkTimeoutMs", 300).start()
        with pytest.raises(Exception, match="topic 'checked' does not exist"):
            query.awaitTermination(240)
        assert len(cluster.requests(PRODUCE)) == written


def test_tasks_of_later_micro_batches_use_the_producers_of_earlier_ones(stream):
    stream.cluster.start_request_tracking()
    for number in range(4):
        stream.add_lines(f"{number}.txt", lines(10 * number, 10 * number + 10))
    query = stream.run()
    # Looked at before the reader connects as well.
    handshakes = stream.cluster.requests(API_VERSIONS)
    assert len(query.recentProgress) == 4
    assert stream.values() == Counter(lines(0, 40))
    # Two workers, each with a connection to a bootstrap broker and to two leaders, each with two questions
    # for versions (this cluster answers the first with "lower, please"). Without cached producers: 24.
    assert len(handshakes) <= 2 * 3 * 2


def test_the_querys_progress_tells_the_rows_and_what_was_observed(stream):
    stream.add_lines("1.txt", lines(0, 10))
    stream.add_lines("2.txt", lines(10, 15))
    counted = stream.frame().observe("sent", f.count(f.lit(1)).alias("rows"))
    query = stream.run(counted)
    assert [progress["sink"]["numOutputRows"] for progress in query.recentProgress] == [10, 5]
    assert [progress["observedMetrics"]["sent"].rows for progress in query.recentProgress] == [10, 5]

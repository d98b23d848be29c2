"""``onBadRow`` on Spark and Apache Kafka; another client reads."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark import cloudpickle

from tests.support.kafka.committed_records import await_no_open_transaction
from tests.support.kafka.maven_artifacts import NEWEST_VERSION
from tests.support.kafka.reader import ReadRecord, iterate_topic, read_topic
from tests.support.kafka.topics import create_topic
from tests.support.spark import wrapped_ports

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.parametrize("each_protocol", [NEWEST_VERSION], indirect=True),
]

_names = (f"bad-rows-{number}" for number in itertools.count())
LARGE = "x" * 5000


class Target:
    """A topic, and one for dead letters."""

    def __init__(self, cluster, **configs: str) -> None:
        self.servers = cluster.bootstrap_servers
        self.topic = next(_names)
        self.dead = f"{self.topic}.dlq"
        create_topic(self.servers, self.topic, 2, config=configs)
        create_topic(self.servers, self.dead, 1)

    def options(self, **more: str) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.servers,
            "kafka.max.request.size": "4000",
            "kafka.compression.type": "none",
            "topic": self.topic,
            "onBadRow": f"topic:{self.dead}",
            **{name.replace("__", "."): value for name, value in more.items()},
        }

    def save(self, frame, **more: str) -> None:
        frame.write.format("kproducer").mode("append").options(**self.options(**more)).save()

    def records(self, topic: str = "") -> list[ReadRecord]:
        """The committed records."""
        name = topic or self.topic
        ends = await_no_open_transaction(self.servers, name, range(2 if name == self.topic else 1))
        return read_topic(self.servers, name, next_offsets=ends)

    def values(self) -> list[str]:
        return sorted((record.value or b"").decode() for record in self.records())

    def letters(self) -> list[tuple[Any, dict[str, str]]]:
        return [
            (
                json.loads(record.value or b""),
                {name: (value or b"").decode() for name, value in record.headers},
            )
            for record in self.records(self.dead)
        ]

    def sent_letters(self) -> int:
        """Those of aborted transactions as well."""
        return len(list(iterate_topic(self.servers, self.dead, isolation_level="read_uncommitted")))


@pytest.fixture
def dying_format(spark) -> str:
    """The first attempt of each task is killed when all of its rows and dead letters are written."""
    cloudpickle.register_pickle_by_value(wrapped_ports)

    def make():
        # Defined in here, so that it is pickled by value: workers cannot import the tests.
        import os

        from pyspark import TaskContext

        from kproducer.spark.data_source import KafkaProducerDataSource
        from kproducer.spark.writers import StreamWriter

        class Dies:
            def __init__(self, port):
                self.port = port

            def prepare(self):
                if TaskContext.get().attemptNumber() == 0:
                    os._exit(1)
                return self.port.prepare()

            def __getattr__(self, name):
                return getattr(self.port, name)

        class DyingStream(wrapped_ports.WrapsPorts, StreamWriter):
            def wrap_task_port(self, port):
                return Dies(port)

        class DyingSource(KafkaProducerDataSource):
            stream_writer = DyingStream

            @classmethod
            def name(cls):
                return "kproducer_dying"

        return DyingSource

    spark.dataSource.register(make())
    return "kproducer_dying"


def test_typed_rows_that_do_not_fit_the_schema_go_to_the_topic(spark, each_protocol):
    target = Target(each_protocol)
    schema = '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "int"}]}'
    frame = spark.range(100, numPartitions=2).selectExpr("id * 1000000000 AS id")
    target.save(frame, valueFormat="avro", value__schema=schema)
    assert len(target.records()) == 3
    letters = target.letters()
    assert sorted(columns["id"] for columns, _ in letters) == [n * 1_000_000_000 for n in range(3, 100)]
    assert {headers["__connect.errors.task.id"] for _, headers in letters} == {"0", "1"}
    headers = letters[0][1]
    assert headers["__connect.errors.topic"] == target.topic
    assert headers["__connect.errors.stage"] == "VALUE_CONVERTER"
    assert headers["__kproducer.errors.column"] == "id"
    assert "out of range" in headers["__connect.errors.exception.message"]
    with pytest.raises(Exception, match=r"97 of 100 rows could not be written, more than maxBadRows=90%"):
        target.save(frame, valueFormat="avro", value__schema=schema, maxBadRows="90%")


def test_rows_that_real_brokers_reject_go_to_the_topic(spark, each_protocol):
    large = Target(each_protocol, **{"max.message.bytes": "2000"})
    frame = spark.createDataFrame([("a",), ("y" * 3000,), ("b",), ("c",)], "value string").coalesce(1)
    large.save(frame)
    assert large.values() == ["a", "b", "c"]
    ((columns, headers),) = large.letters()
    assert columns == {"value": "y" * 3000}
    assert headers["__connect.errors.exception.class.name"].endswith(".MessageTooLargeError")
    compacted = Target(each_protocol, **{"cleanup.policy": "compact"})
    rows = spark.createDataFrame(
        [("k", "a", 0), (None, "b", 0), ("k", "c", 0)], "key string, value string, partition int"
    )
    compacted.save(rows.coalesce(1))
    assert compacted.values() == ["a", "c"]
    ((columns, headers),) = compacted.letters()
    assert columns == {"key": None, "value": "b", "partition": 0}
    assert headers["__connect.errors.exception.class.name"].endswith(".InvalidRecordError")


def test_a_killed_task_and_a_limit_leave_each_dead_letter_once(spark, each_protocol, dying_format, tmp_path):
    target = Target(each_protocol)
    source = tmp_path / "source"
    source.mkdir()

    def run(source_format="kproducer", **more):
        frame = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(source))
        writer = frame.repartition(2).writeStream.format(source_format).trigger(availableNow=True)
        writer = writer.options(**target.options(delivery="exactly-once", **more))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            assert query.awaitTermination(240)
            return query
        finally:
            query.stop()

    (source / "0.txt").write_text(f"a\n{LARGE}\nb\n{LARGE}\nc\nd\n")
    query = run(dying_format)
    assert query.recentProgress[0]["sink"]["numOutputRows"] == 6
    assert target.values() == ["a", "b", "c", "d"]
    assert len(target.letters()) == 2
    assert target.sent_letters() == 4
    (source / "1.txt").write_text(f"e\n{LARGE}\n")
    with pytest.raises(Exception, match=r"1 of 2 rows could not be written, more than maxBadRows=10% allows"):
        run(maxBadRows="10%")
    assert target.values() == ["a", "b", "c", "d"]
    assert len(target.letters()) == 2
    run(maxBadRows="1")
    assert target.values() == ["a", "b", "c", "d", "e"]
    assert len(target.letters()) == 3


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_a_file_for_prometheus_has_the_totals_of_a_query(spark, each_protocol, tmp_path, delivery):
    target = Target(each_protocol)
    source, path = tmp_path / "source", tmp_path / "orders.prom"
    source.mkdir()

    def metrics_after_run() -> dict[str, float]:
        frame = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(source))
        writer = frame.writeStream.format("kproducer").trigger(availableNow=True).queryName(delivery)
        writer = writer.options(**target.options(delivery=delivery, metricsFile=str(path)))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            assert query.awaitTermination(240)
        finally:
            query.stop()
        families = [*text_string_to_metric_families(Path(path).read_text())]
        samples = [sample for family in families for sample in family.samples]
        labels = {"query": delivery, "topic": target.topic}
        assert [sample.labels for sample in samples] == [labels] * len(samples)
        return {sample.name.removeprefix("kproducer_spark_"): sample.value for sample in samples}

    (source / "0.txt").write_text(f"a\n{LARGE}\n")
    (source / "1.txt").write_text("b\nc\n")
    first = metrics_after_run()
    assert (first["commits_total"], first["rows_total"], first["bad_rows_total"]) == (2, 3, 1)
    assert first["last_micro_batch"] == 1
    (source / "2.txt").write_text(f"d\n{LARGE}\n")
    last = metrics_after_run()
    assert (last["commits_total"], last["rows_total"], last["bad_rows_total"]) == (3, 4, 2)
    assert last["last_micro_batch"] == 2
    assert last["content_bytes_total"] - first["content_bytes_total"] >= 1
    assert last["wire_bytes_total"] > first["wire_bytes_total"] > 0
    assert last["requests_total"] > first["requests_total"] > 0
    assert last["request_latency_seconds_total"] > 0
    assert (last["commit_seconds_total"] > 0) == (delivery == "exactly-once")

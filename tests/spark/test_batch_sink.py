"""``df.write.format("kproducer")`` in a classic session, compared row by row by an independent consumer."""

from __future__ import annotations

import datetime
import itertools
import os
import signal
import subprocess
import threading
import time
from collections import Counter

import pytest
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.tvf import TableValuedFunction

from tests.support.kafka.reader import read_topic
from tests.support.kafka.topics import create_topic

pytestmark = pytest.mark.mock_cluster

PRODUCE = 0
_names = (f"spark-{number}" for number in itertools.count())


def sink(frame, cluster, topic=None, **options):
    writer = frame.write.format("kproducer").mode("append")
    writer = writer.option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    if topic is not None:
        writer = writer.option("topic", topic)
    for name, value in options.items():
        writer = writer.option(name.replace("__", "."), value)
    return writer


@pytest.fixture
def topic(mock_cluster) -> str:
    name = next(_names)
    mock_cluster.create_topic(name, partitions=3)
    return name


MOMENT = datetime.datetime(2024, 2, 29, 12, 30, 15, 123456)
MOMENT_MS = 1709209815123

ALL_COLUMNS = t.StructType(
    [
        t.StructField("note", t.LongType()),
        t.StructField("headers", t.ArrayType(t.StructType().add("key", "string").add("value", "binary"))),
        t.StructField("timestamp", t.TimestampType()),
        t.StructField("partition", t.IntegerType()),
        t.StructField("topic", t.StringType()),
        t.StructField("value", t.BinaryType()),
        t.StructField("key", t.StringType()),
    ]
)


def all_columns(spark, topic, number=40):
    rows = []
    for index in range(number):
        headers = [("a", b"1"), ("a", None), ("é", bytes([index]))] if index % 2 else None
        value = None if index == 7 else bytes([index, 0, 255])
        key = None if index % 5 == 0 else f"kéy-{index}"
        moment = MOMENT + datetime.timedelta(seconds=index)
        rows.append((index, headers, moment, index % 3, topic, value, key))
    return rows, spark.createDataFrame(rows, ALL_COLUMNS)


def expected_records(rows):
    return Counter(
        (
            partition,
            None if key is None else key.encode(),
            value,
            tuple(headers or ()),
            MOMENT_MS + 1000 * index,
        )
        for index, headers, _, partition, _, value, key in rows
    )


def read_records(cluster, topic):
    return Counter(
        (record.partition, record.key, record.value, record.headers, record.timestamp_ms)
        for record in read_topic(cluster.bootstrap_servers, topic)
    )


def test_every_column_of_every_row_arrives(spark, mock_cluster, topic):
    rows, frame = all_columns(spark, topic)
    sink(frame, mock_cluster).save()
    assert read_records(mock_cluster, topic) == expected_records(rows)


@pytest.mark.kafka
def test_every_column_of_every_row_arrives_in_apache_kafka(spark, kafka):
    topic = next(_names)
    create_topic(kafka.bootstrap_servers, topic, partitions=3)
    rows, frame = all_columns(spark, topic, number=200)
    sink(frame, kafka, kafka__compression__type="zstd").save()
    assert read_records(kafka, topic) == expected_records(rows)


def test_the_way_without_arrow_writes_the_same(spark, mock_cluster, topic):
    def by_rows():
        # Defined in here, so that it is pickled by value: workers cannot import the tests.
        from pyspark.sql.datasource import DataSourceWriter

        from kproducer.spark.data_source import KafkaProducerDataSource
        from kproducer.spark.writers import StreamRowWriter, Writer

        class RowWriter(Writer, DataSourceWriter):
            write = StreamRowWriter.write

        class RowSource(KafkaProducerDataSource):
            batch_writer = RowWriter

            @classmethod
            def name(cls):
                return "kproducer_rows"

        return RowSource

    spark.dataSource.register(by_rows())
    rows, frame = all_columns(spark, topic)
    writer = frame.write.format("kproducer_rows").mode("append")
    writer.option("kafka.bootstrap.servers", mock_cluster.bootstrap_servers).save()
    assert read_records(mock_cluster, topic) == expected_records(rows)


def test_the_topic_option_wins_over_the_column_and_string_values_are_utf8(spark, mock_cluster, topic):
    frame = spark.createDataFrame([("grün", "elsewhere")], "value string, topic string")
    sink(frame, mock_cluster, topic).save()
    assert [record.value for record in read_topic(mock_cluster.bootstrap_servers, topic)] == ["grün".encode()]


def test_rows_of_a_partition_keep_their_order(spark, mock_cluster, topic):
    frame = spark.range(0, 3000, 1, 1).select(f.col("id").cast("string").alias("value"))
    frame = frame.withColumn("partition", f.lit(1))
    sink(frame, mock_cluster, topic).save()
    values = [int(record.value) for record in read_topic(mock_cluster.bootstrap_servers, topic)]
    assert values == list(range(3000))


def test_many_small_arrow_batches_lose_nothing(spark, mock_cluster, topic):
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    try:
        frame = spark.range(0, 200, 1, 2).select(f.col("id").cast("string").alias("value"))
        sink(frame, mock_cluster, topic).save()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    values = sorted(int(record.value) for record in read_topic(mock_cluster.bootstrap_servers, topic))
    assert values == list(range(200))


@pytest.mark.parametrize(
    ("columns", "options", "parts"),
    [
        ("id", {"topic": "t"}, ["column 'value' is missing", "'id'"]),
        ("id AS value", {"topic": "t"}, ["column 'value' has type BIGINT", "CAST(value AS STRING)"]),
        ("'a' AS value", {}, ["no topic", "option 'topic'"]),
        (
            "'a' AS value",
            {"topic": "t", "kafka.acks": "7", "kafka.sasl.pasword": "hunter2"},
            ["'kafka.acks'", "'kafka.sasl.pasword'"],
        ),
        (
            "'a' AS value",
            {"topic": "t", "checkTimeoutMs": "300"},
            [
                "no broker of the option 'kafka.bootstrap.servers' responded to the driver within 0.3 s",
                "(127.0.0.1:1: ",
            ],
        ),
    ],
)
def test_mistakes_end_the_write_on_the_driver(spark, columns, options, parts):
    frame = spark.range(3).selectExpr(*columns.split(", "))
    writer = frame.write.format("kproducer").mode("append").option("kafka.bootstrap.servers", "127.0.0.1:1")
    for name, value in options.items():
        writer = writer.option(name, value)
    with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as caught:
        writer.save()
    assert all(part in str(caught.value) for part in parts)
    assert "hunter2" not in str(caught.value)


def test_overwriting_is_refused(spark, mock_cluster):
    writer = sink(spark.range(1).selectExpr("'a' AS value"), mock_cluster, "t")
    with pytest.raises(Exception, match=r"use mode\('append'\)"):
        writer.mode("overwrite").save()


def test_reading_is_refused_with_a_way_out(spark):
    with pytest.raises(Exception, match=r"cannot read; to read from Kafka"):
        spark.read.format("kproducer").load()


def test_a_failing_last_row_fails_the_job_with_topic_and_reason(spark, mock_cluster, topic):
    frame = spark.range(0, 101, 1, 1).selectExpr("IF(id = 100, repeat('x', 2000000), 'small') AS value")
    with pytest.raises(Exception, match="SparkWriteError") as caught:
        sink(frame, mock_cluster, topic).save()
    message = str(caught.value)
    assert f"topic '{topic}'" in message
    assert "RecordTooLargeError" in message
    assert "kafka.max.request.size=1048576" in message


def test_a_failed_task_is_tried_again_and_nothing_is_missing(spark, mock_cluster, topic):
    refused = 87  # INVALID_RECORD: not retriable for the producer, so the task's first attempt fails
    mock_cluster.push_errors(PRODUCE, refused)
    frame = spark.range(0, 500, 1, 1).select(f.col("id").cast("string").alias("value"))
    sink(frame, mock_cluster, topic).save()
    values = {int(record.value) for record in read_topic(mock_cluster.bootstrap_servers, topic)}
    assert values == set(range(500))


def python_workers() -> list[int]:
    """Processes of Spark's Python daemons that carry out tasks: children of daemons below this process."""
    listing = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True)
    parents, commands = {}, {}
    for line in listing.stdout.splitlines():
        pid, parent, command = line.split(None, 2)
        parents[int(pid)], commands[int(pid)] = int(parent), command

    def is_ours(pid):
        while pid in parents and pid != os.getpid():
            pid = parents[pid]
        return pid == os.getpid()

    daemons = {pid for pid, command in commands.items() if "pyspark.daemon" in command}
    return [pid for pid in daemons if parents[pid] in daemons and is_ours(pid)]


def test_a_killed_worker_loses_no_row(spark, mock_cluster, topic):
    mock_cluster.start_request_tracking()
    for broker in (1, 2, 3):
        mock_cluster.push_error_rtts(broker, PRODUCE, (0, 8000))
    frame = spark.range(0, 2000, 1, 1).select(f.col("id").cast("string").alias("value"))
    errors: list[BaseException] = []

    def write() -> None:
        try:
            # Classic sessions look Python sources up in the thread's active session, which this call sets.
            spark.createDataFrame([(1,)], "a int")
            sink(frame, mock_cluster, topic).save()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    deadline = time.monotonic() + 60
    while not mock_cluster.requests(PRODUCE):
        assert time.monotonic() < deadline
        assert not errors, str(errors[0])
        time.sleep(0.02)
    killed = python_workers()
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    thread.join(120)
    assert killed
    assert not errors
    values = Counter(int(record.value) for record in read_topic(mock_cluster.bootstrap_servers, topic))
    assert set(values) == set(range(2000))


def test_options_do_not_show_in_the_plan(spark, mock_cluster, topic):
    frame = spark.range(1).selectExpr("'a' AS value")
    sink(frame, mock_cluster, topic, kafka__client__id="hunter2").save()
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    plans = [executions.apply(index).physicalPlanDescription() for index in range(executions.size())]
    assert any("kproducer" in plan for plan in plans)
    assert not any("hunter2" in plan for plan in plans)


@pytest.mark.skipif(
    not hasattr(TableValuedFunction, "python_worker_logs"), reason="this Spark collects no workers' logs"
)
def test_rows_and_bytes_can_be_asked_for_after_the_write(spark, mock_cluster, topic):
    spark.conf.set("spark.sql.pyspark.worker.logging.enabled", "true")
    try:
        frame = spark.range(0, 30, 1, 2).selectExpr("'value' AS value", "'k' AS key")
        sink(frame, mock_cluster, topic).save()
        logs = spark.tvf.python_worker_logs().where("logger = 'kproducer.spark'")
        contexts = [row.context for row in logs.select("context").collect()]
    finally:
        spark.conf.set("spark.sql.pyspark.worker.logging.enabled", "false")
    tasks = [context for context in contexts if "attempt" in context]
    totals = [context for context in contexts if "attempt" not in context]
    assert sorted(int(context["rows"]) for context in tasks) == [15, 15]
    assert [int(context["rows"]) for context in totals] == [30]
    assert totals[0]["content_bytes"] == str(30 * 6)
    assert int(totals[0]["requests"]) == sum(int(context["requests"]) for context in tasks) > 0

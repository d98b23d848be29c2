"""``onBadRow`` and ``maxBadRows`` in tasks and on the driver, with brokers and without Spark's JVM."""

from __future__ import annotations

import base64
import itertools
import json
import math
import pickle
import weakref
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from kproducer import KafkaProducer
from kproducer.spark import KafkaProducerDataSource, SparkOptionError, SparkWriteError
from kproducer.spark.arrow_types import arrow_type
from kproducer.spark.exactly_once import spark_write
from kproducer.spark.exactly_once.driver_protocol import DriverProtocol
from kproducer.spark.exactly_once.kafka_ports import Connections, KafkaDriverPort, KafkaTaskPort
from kproducer.spark.exactly_once.spark_write import new_checksum
from kproducer.spark.exactly_once.task_protocol import TaskProtocol
from kproducer.spark.exactly_once.write_state import (
    EmptyTask,
    RepeatedTask,
    WriteIdentity,
    WriteKind,
    WriteRun,
    WriteTask,
)
from kproducer.spark.partition_writer import write_partition
from kproducer.spark.producer_cache import ProducerCache
from kproducer.spark.write_summary import WriteSummary
from kproducer.spark.writers import BatchWriter, CommitOptions
from kproducer.testing import FakeKafka
from kproducer.testing.fakebroker.model import Partition
from tests.spark.fake_producer import close_idle

DEAD = "dead"
LARGE = "x" * 5000
LIMIT = {"kafka.max.request.size": "4000", "kafka.compression.type": "none"}
VALUES = t.StructType().add("value", "string")
FULL = "value string, key string, topic string, partition int, timestamp double, note string"
HEADERS = "value string, headers array<struct<key: string, value: binary>>"


class Job:
    """Writes to brokers of its own as tasks do; ``columns`` are those of the DataFrame."""

    def __init__(self, kafka: FakeKafka) -> None:
        self.kafka = kafka
        self.tasks = ProducerCache(KafkaProducer.from_config)
        self.connections = ProducerCache(Connections)

    def writer(self, schema: str | t.StructType, **options: str) -> Any:
        if isinstance(schema, str):
            # Without a session, Spark cannot parse a schema.
            schema = _parsed(schema)
        given = {"kafka.bootstrap.servers": self.kafka.bootstrap_servers, "topic": "t", **LIMIT}
        given |= {"onBadRow": f"topic:{DEAD}", "kafka.linger.ms": "0", **options}
        given = {name: value for name, value in given.items() if value}
        return pickle.loads(pickle.dumps(KafkaProducerDataSource(given).writer(schema, False)))

    def write(self, schema: str | t.StructType, rows: list[tuple[Any, ...]], **options: str) -> WriteSummary:
        return self.write_batches(schema, [rows[:1], rows[1:]], **options)

    def write_batches(
        self, schema: str | t.StructType, batches: Iterable[list[tuple[Any, ...]]], **options: str
    ) -> WriteSummary:
        writer = self.writer(schema, **options)
        made = (_batch(writer.schema, rows) for rows in batches)
        return write_partition(made, writer.columns, writer.options, self.tasks)

    def values(self, topic: str = "t", isolation_level: Any = "read_uncommitted") -> list[bytes | None]:
        return [each.value for each in self.kafka.topic(topic).records(isolation_level=isolation_level)]

    def letters(self, isolation_level: Any = "read_uncommitted") -> list[tuple[Any, dict[str, str]]]:
        """Columns and headers of all dead letters."""
        return [
            (
                json.loads(each.value or b""),
                {name: (value or b"").decode() for name, value in each.headers},
            )
            for each in self.kafka.topic(DEAD).records(isolation_level=isolation_level)
        ]

    def causes(self) -> list[tuple[str, str, str]]:
        """Stage, class and column of all dead letters."""
        return [
            (
                headers["__connect.errors.stage"],
                headers["__connect.errors.exception.class.name"].rpartition(".")[2],
                headers.get("__kproducer.errors.column", ""),
            )
            for _, headers in self.letters()
        ]


def _parsed(text: str) -> t.StructType:
    kinds: dict[str, t.DataType] = {
        "string": t.StringType(),
        "int": t.IntegerType(),
        "double": t.DoubleType(),
        "array<struct<key: string, value: binary>>": t.ArrayType(
            t.StructType([t.StructField("key", t.StringType()), t.StructField("value", t.BinaryType())])
        ),
    }
    names = (field.strip().partition(" ") for field in text.replace("key: string, value", "\0").split(","))
    fields = [(name, kind.replace("\0", "key: string, value")) for name, _, kind in names]
    return t.StructType([t.StructField(name, kinds[kind]) for name, kind in fields])


def _batch(schema: t.StructType, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = [
        pa.array([row[index] for row in rows], arrow_type(field.dataType))
        for index, field in enumerate(schema.fields)
    ]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


@pytest.fixture
def job():
    with FakeKafka(auto_create=False) as kafka:
        kafka.create_topic("t", 2)
        kafka.create_topic(DEAD, 1)
        made = Job(kafka)
        yield made
        close_idle(made.tasks)
        close_idle(made.connections)


# -- rows that are refused before they are sent --------------------------------------------------------------


def test_a_dead_letter_has_the_columns_and_says_what_was_wrong_and_where(job):
    rows = [("a", "k", "t", 1, 1.5, "n"), ("b", "k2", "t", 7, 2.5, "other"), ("c", None, "t", None, None, "")]
    summary = job.write(FULL, rows, topic="")
    assert sorted(job.values()) == [b"a", b"c"]
    assert (summary.rows, summary.bad_rows) == (2, 1)
    assert "2 rows, " in summary.text()
    assert "1 bad rows were not written" in summary.text()
    (record,) = job.kafka.topic(DEAD).records()
    assert record.key == b"k2"
    assert dict(record.headers) == {
        "__connect.errors.topic": b"t",
        "__connect.errors.partition": b"7",
        "__connect.errors.offset": b"-1",
        "__connect.errors.connector.name": b"kproducer-spark",
        "__connect.errors.task.id": b"-1",
        "__connect.errors.stage": b"KAFKA_PRODUCE",
        "__connect.errors.exception.class.name": b"kproducer.errors.InvalidArgumentError",
        "__connect.errors.exception.message": b"topic 't' has partitions 0 to 1, not partition 7",
        "__kproducer.errors.column": b"partition",
    }
    assert json.loads(record.value) == {
        "value": "b", "key": "k2", "topic": "t", "partition": 7, "timestamp": 2.5, "note": "other"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"value": LARGE}, ("KAFKA_PRODUCE", "RecordTooLargeError", "value")),
        ({"key": LARGE}, ("KAFKA_PRODUCE", "RecordTooLargeError", "key")),
        ({"topic": None}, ("KAFKA_PRODUCE", "InvalidArgumentError", "topic")),
        ({"topic": "no topic"}, ("KAFKA_PRODUCE", "InvalidTopicError", "topic")),
        ({"partition": -1}, ("KAFKA_PRODUCE", "InvalidArgumentError", "partition")),
        ({"timestamp": -5.0}, ("KAFKA_PRODUCE", "InvalidArgumentError", "timestamp")),
    ],
)
def test_what_is_wrong_in_a_row_is_found_and_the_others_are_written(job, change, cause):
    good = {"value": "v", "key": "k", "topic": "t", "partition": 1, "timestamp": 1.0, "note": "n"}
    rows = [tuple({**good, "value": "a"}.values()), tuple((good | change).values()), tuple(good.values())]
    summary = job.write(FULL, rows, topic="")
    assert job.values() == [b"a", b"v"]
    assert job.causes() == [cause]
    assert summary.bad_rows == 1


def test_a_header_without_a_name_is_a_bad_row(job):
    rows = [("a", None), ("b", [{"key": None, "value": b"x"}])]
    job.write(HEADERS, rows)
    assert job.causes() == [("HEADER_CONVERTER", "SerializationError", "headers")]
    columns, _ = job.letters()[0]
    assert columns == {"value": "b", "headers": [{"key": None, "value": base64.b64encode(b"x").decode()}]}


def test_skipped_rows_are_only_counted(job):
    summary = job.write(VALUES, [("a",), (LARGE,), ("b",)], onBadRow="skip")
    assert sorted(job.values()) == [b"a", b"b"]
    assert job.letters() == []
    assert summary.bad_rows == 1


def test_by_default_a_bad_row_fails_the_task(job):
    with pytest.raises(SparkWriteError, match=r"\(row 1 of the task, from 0\): RecordTooLargeError"):
        job.write(VALUES, [("a",), (LARGE,)], onBadRow="")


def test_a_dead_letter_that_would_be_too_large_itself_has_the_beginning_of_long_cells(job):
    text = 'ü"\x1f' * 2000
    job.write("value string, note string", [("a", "n"), (text, "short")])
    ((columns, headers),) = job.letters()
    assert headers["__kproducer.errors.cut"] == "value"
    assert columns["note"] == "short"
    assert len(columns["value"]) > 50
    assert text.startswith(columns["value"])


def test_the_names_of_all_cut_columns_are_in_the_header(job):
    """The header takes room itself, so that more cells may have to be cut."""
    names = [f"c{number}" for number in range(20)]
    schema = "value string, " + ", ".join(f"{name} string" for name in names)
    rows = [("y" * 9000, *["x" * length] * 20) for length in range(135, 160)]
    job.write(schema, [("a", *["x"] * 20), *rows])
    for columns, headers in job.letters():
        cut = headers["__kproducer.errors.cut"].split(",")
        whole = [columns[name] for name in names if name not in cut]
        assert {len(cell) for cell in whole} <= set(range(135, 160))
        assert len({columns[name] for name in names}) == 1
        assert cut in (["value"], ["value", *names])


@pytest.mark.parametrize(
    ("row", "key"),
    [
        (("b", "k" * 3700, "t", 9), None),
        (("b", "k", "no topic " * 500, 0), b"k"),
        ((LARGE, "customer", "t", 0), b"customer"),
    ],
)
def test_a_dead_letter_has_room_whatever_the_row_has(job, row, key):
    schema = "value string, key string, topic string, partition int"
    assert job.write(schema, [("a", "k", "t", 0), row], topic="").bad_rows == 1
    (record,) = job.kafka.topic(DEAD).records()
    assert record.key == key
    assert len(dict(record.headers)["__connect.errors.topic"]) < 250


def test_new_partitions_are_found_although_metadata_is_slow(job):
    def batches():
        yield [("a", 0)]
        partitions = job.kafka._cluster.topics["t"].partitions
        first = partitions[0]
        partitions += [
            Partition(number, first.leader_id, 0, [*first.replicas], [*first.in_sync])
            for number in range(2, 8)
        ]
        job.kafka.delay("Metadata", 1.3)
        yield [("b", 5), ("c", 6), ("d", 9)]

    job.write_batches("value string, partition int", batches())
    assert sorted(job.values()) == [b"a", b"b", b"c"]
    assert [columns["value"] for columns, _ in job.letters()] == ["d"]


def test_a_partition_is_not_judged_without_metadata(job):
    def batches():
        yield [("a", 0)]
        job.kafka.delay("Metadata", 1.0, times=None)
        yield [("b", 5)]

    with pytest.raises(SparkWriteError, match=r"MetadataTimeoutError.*partitions 0 to 1, and partition 5"):
        job.write_batches("value string, partition int", batches(), **{"kafka.max.block.ms": "300"})
    assert job.letters() == []


def test_a_task_keeps_no_more_rows_than_the_producer_buffers(job):
    """Rows without an outcome are kept with all columns, because a broker may reject them."""
    references: list[weakref.ref[pa.RecordBatch]] = []
    alive: list[int] = []

    def batches():
        for number in range(20):
            made = _batch(writer.schema, [(str(number), "not written".ljust(10_000))])
            references.append(weakref.ref(made))
            yield made
            del made
            alive.append(sum(each() is not None for each in references))

    small = {"kafka.buffer.memory": "40000", "kafka.batch.size": "20000", "kafka.linger.ms": "100"}
    writer = job.writer("value string, note string", **small)
    assert write_partition(batches(), writer.columns, writer.options, job.tasks).rows == 20
    assert max(alive) <= 4


def test_values_that_do_not_fit_a_schema_name_the_field(job):
    schema = t.StructType([t.StructField("id", t.IntegerType()), t.StructField("ratio", t.DoubleType())])
    rows = [(1, 0.5), (2, math.nan), (None, 0.25)]
    wanted = {"type": "object", "properties": {"id": {"type": "integer"}, "ratio": {"type": "number"}}}
    wanted["required"] = ["id", "ratio"]
    summary = job.write(schema, rows, valueFormat="json", **{"value.schema": json.dumps(wanted)})
    assert [json.loads(value or b"") for value in job.values()] == [{"id": 1, "ratio": 0.5}]
    assert job.causes() == [
        ("VALUE_CONVERTER", "SerializationError", "ratio"),
        ("VALUE_CONVERTER", "SerializationError", "id"),
    ]
    assert [columns for columns, _ in job.letters()] == [
        {"id": 2, "ratio": "nan"},
        {"id": None, "ratio": 0.25},
    ]
    assert summary.bad_rows == 2


def test_a_topic_that_does_not_exist_is_not_a_bad_row(job):
    with pytest.raises(SparkWriteError, match=r"MetadataTimeoutError.*'missing'"):
        job.write(
            "value string, topic string",
            [("a", "t"), ("b", "missing")],
            topic="",
            **{"kafka.max.block.ms": "100"},
        )


# -- rows that a broker rejects ------------------------------------------------------------------------------


def test_a_record_that_is_too_large_for_the_topic_is_a_bad_row(job):
    job.kafka.create_topic("small", max_message_bytes=1000)
    rows = [("a",), ("y" * 2000,), ("b",)]
    summary = job.write(VALUES, rows, topic="small")
    assert sorted(job.values("small")) == [b"a", b"b"]
    assert job.causes() == [("KAFKA_PRODUCE", "MessageTooLargeError", "value")]
    assert (summary.rows, summary.bad_rows) == (2, 1)


def test_rows_that_share_a_batch_with_an_invalid_one_are_sent_again(job):
    """A compacted topic refuses records without keys."""
    job.kafka.create_topic("compacted", compacted=True)
    rows = [("k0", "a"), ("k1", "b"), (None, "c"), ("k2", "d")]
    summary = job.write("key string, value string", rows, topic="compacted")
    assert sorted(job.values("compacted")) == [b"a", b"b", b"d"]
    assert job.causes() == [("KAFKA_PRODUCE", "InvalidRecordError", "")]
    assert (summary.rows, summary.bad_rows) == (3, 1)


@pytest.mark.parametrize("error", ["TOPIC_AUTHORIZATION_FAILED", "INVALID_RECORD"])
def test_a_rejection_that_does_not_name_rows_fails_the_task(job, error):
    """Each row is in an Arrow batch of its own, and all are in one of the producer."""
    job.kafka.fail_next("Produce", error, times=None, topic="t")
    rows = [[(each, 0)] for each in "abc"]
    with pytest.raises(SparkWriteError, match="topic 't', partition "):
        job.write_batches("value string, partition int", rows, **{"kafka.linger.ms": "1000"})
    assert job.letters() == []


def test_a_dead_letter_is_shortened_until_its_topic_takes_it(job):
    for name in ("small", "small-dead"):
        job.kafka.create_topic(name, 1, max_message_bytes=1500)
    rows = [("a",), ("y" * 2000,), ("z" * 3000,), ("b",)]
    summary = job.write(VALUES, rows, topic="small", onBadRow="topic:small-dead")
    assert (summary.rows, summary.bad_rows) == (2, 2)
    letters = job.kafka.topic("small-dead").records()
    assert sorted(json.loads(each.value)["value"][0] for each in letters) == ["y", "z"]
    assert {dict(each.headers)["__kproducer.errors.cut"] for each in letters} == {b"value"}


def test_a_dead_letter_whose_headers_are_too_large_fails_the_task(job):
    job.kafka.create_topic("small-dead", 1, max_message_bytes=200)
    with pytest.raises(SparkWriteError, match=r"a dead letter could not be written .*MessageTooLargeError"):
        job.write(VALUES, [("a",), (LARGE,)], onBadRow="topic:small-dead")


def test_a_dead_letter_that_cannot_be_written_fails_the_task(job):
    job.kafka.fail_next("Produce", "TOPIC_AUTHORIZATION_FAILED", times=None, topic=DEAD)
    with pytest.raises(SparkWriteError, match="a dead letter could not be written to topic 'dead'"):
        job.write(VALUES, [("a",), (LARGE,)])


# -- limits --------------------------------------------------------------------------------------------------


def test_a_task_stops_when_it_alone_has_too_many_bad_rows(job):
    with pytest.raises(SparkWriteError, match=r"more bad rows than maxBadRows=1 allows.*RecordTooLargeError"):
        job.write(VALUES, [("a",), (LARGE,), (LARGE,)], maxBadRows="1")
    # A share is known when all tasks have ended.
    assert job.write(VALUES, [("a",), (LARGE,), (LARGE,)], maxBadRows="1%").bad_rows == 2


@pytest.mark.parametrize(
    ("limit", "bad", "is_exceeded"),
    [("2", 2, False), ("2", 3, True), ("0", 1, True), ("0.1%", 2, False), ("0.1%", 3, True), ("0%", 1, True)],
)
def test_the_driver_adds_up_what_tasks_have(limit, bad, is_exceeded):
    options = CommitOptions.of({"onBadRow": "skip", "MaxBadRows": limit})
    writer = BatchWriter(VALUES, None, options)
    messages = [WriteSummary(rows=1998), *[WriteSummary(bad_rows=1)] * bad]
    if bad == 3:
        messages[0].rows -= 1
    if not is_exceeded:
        writer.commit(messages)
        return
    with pytest.raises(SparkWriteError, match=f"DataFrame: {bad} of .*maxBadRows={limit} allows") as caught:
        writer.commit(messages)
    assert "are in their topics already" in str(caught.value)


def test_the_limit_holds_in_the_process_that_commits_a_micro_batch(job):
    given = {"kafka.bootstrap.servers": job.kafka.bootstrap_servers, "topic": "t", "onBadRow": "skip"}
    source = pickle.loads(pickle.dumps(KafkaProducerDataSource({**given, "maxBadRows": "1"})))
    with pytest.raises(SparkWriteError, match="micro-batch 7: 2 of 2 rows"):
        source.streamWriter(VALUES, False).commit([WriteSummary(bad_rows=2)], 7)


def test_bad_rows_are_always_reported(capfd):
    BatchWriter(VALUES, None, CommitOptions("log", False)).commit([WriteSummary(tasks=1, rows=5, bad_rows=2)])
    assert "2 bad rows were not written" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("options", "mistake"),
    [
        ({"onBadRow": "ignore"}, "expected fail, skip or topic:NAME, got 'ignore'"),
        ({"onBadRow": "topic:"}, "option 'onBadRow'"),
        ({"onBadRow": "topic:a b"}, "option 'onBadRow'"),
        ({"onBadRow": "topic:t"}, "bad rows need another topic"),
        ({"onBadRow": "skip", "maxBadRows": "101%"}, "expected a number of rows, or a share up to 100%"),
        ({"onBadRow": "skip", "maxBadRows": "many"}, "expected a number of rows, or a share up to 100%"),
        ({"onBadRow": "", "maxBadRows": "1"}, "'maxBadRows' requires the option onBadRow="),
    ],
)
def test_mistakes_in_the_options_are_named(job, options, mistake):
    with pytest.raises(SparkOptionError, match=mistake):
        job.writer(VALUES, **options)


def test_the_driver_checks_that_the_topic_exists(job):
    with pytest.raises(SparkWriteError, match=r"topic 'missing' does not exist.*'onBadRow'"):
        job.writer(VALUES, onBadRow="topic:missing", checkTimeoutMs="200")


# -- exactly once --------------------------------------------------------------------------------------------


class ExactlyOnce:
    """A micro-batch of one task."""

    _queries = (f"query-{number}" for number in itertools.count())

    def __init__(self, job: Job, **options: str) -> None:
        self.job = job
        self.writer = job.writer(VALUES, delivery="exactly-once", **options)
        self.identity = WriteIdentity(WriteKind.STREAM, next(self._queries), "k")

    def task(self, rows, attempt=lambda port: port):
        columns, options = self.writer.columns, self.writer.options
        with KafkaTaskPort(columns, options, self.job.connections) as port:
            message = TaskProtocol(attempt(port), new_checksum(columns)).write(
                WriteTask(WriteRun(self.identity, 0, "run"), 0), iter([_batch(VALUES, rows)])
            )
        message.summary = port.summary
        return message

    def commit(self, message):
        with KafkaDriverPort(self.writer.options, self.job.connections) as port:
            DriverProtocol(port).commit([message], 0)


class DiesBeforePrepare:
    """A task that is killed when its rows and dead letters are written."""

    def __init__(self, port) -> None:
        self._port = port

    def __getattr__(self, name):
        return getattr(self._port, name)

    def prepare(self):
        raise KeyboardInterrupt

    def abort(self):
        raise KeyboardInterrupt  # a killed process sends nothing


def test_dead_letters_are_in_the_transaction_of_their_task(job):
    once = ExactlyOnce(job)
    rows = [("a",), (LARGE,), ("b",)]
    with pytest.raises(KeyboardInterrupt):
        once.task(rows, DiesBeforePrepare)
    assert len(job.letters()) == 1
    message = once.task(rows)
    assert (message.summary.rows, message.summary.bad_rows) == (2, 1)
    assert job.letters("read_committed") == []
    once.commit(message)
    assert len(job.letters()) == 2
    assert len(job.letters("read_committed")) == 1
    assert sorted(job.values(isolation_level="read_committed")) == [b"a", b"b"]
    repeated = once.task(rows)
    assert isinstance(repeated, RepeatedTask)
    assert repeated.has_same_rows
    once.commit(repeated)
    assert len(job.letters()) == 2


def test_a_task_of_bad_rows_only_commits(job):
    once = ExactlyOnce(job, onBadRow="skip")
    message = once.task([(LARGE,)])
    once.commit(message)
    assert message.summary.bad_rows == 1
    assert isinstance(once.task([(LARGE,)]), RepeatedTask)


def test_a_bad_partition_does_not_fail_the_transaction(job):
    writer = job.writer("value string, partition int", delivery="exactly-once", writeId="w")
    with KafkaTaskPort(writer.columns, writer.options, job.connections) as port:
        port.initialize("k-0")
        port.begin()
        port.send(_batch(writer.schema, [("a", 0), ("b", 9), ("c", -1)]))
        port.flush()
        prepared = port.prepare()
    with KafkaDriverPort(writer.options, job.connections) as port:
        assert port.commit([prepared]) == [None]
    assert job.values(isolation_level="read_committed") == [b"a"]
    assert [column for _, _, column in job.causes()] == ["partition", "partition"]


def test_a_record_that_a_broker_rejects_fails_the_task(job):
    job.kafka.create_topic("small", max_message_bytes=1000)
    once = ExactlyOnce(job, topic="small")
    with pytest.raises(SparkWriteError, match=r"MessageTooLargeError.*onBadRow applies only to rows"):
        once.task([("y" * 2000,)])


def test_a_partly_committed_write_is_completed_whatever_the_share_of_bad_rows_is_now(job, monkeypatch):
    """The rows of the task that is committed already were counted in the commit that was interrupted."""
    once = ExactlyOnce(job, maxBadRows="10%")
    once.commit(once.task([("a",)] * 20))
    repeated = once.task([("a",)] * 20)
    assert isinstance(repeated, RepeatedTask)
    written = EmptyTask(repeated.task, summary=WriteSummary(rows=1, bad_rows=1))
    committed: list[int] = []
    monkeypatch.setattr(spark_write, "commit", lambda *arguments: committed.append(len(arguments[1])))
    once.writer.commit([repeated, written])
    assert committed == [2]


def test_nothing_is_committed_if_there_are_too_many_bad_rows(job):
    once = ExactlyOnce(job, maxBadRows="10%")
    message = once.task([("a",), (LARGE,)])
    with pytest.raises(SparkWriteError, match=r"1 of 2 rows .*maxBadRows=10% allows\. Nothing was committed"):
        once.writer.commit([message])
    assert job.values(isolation_level="read_committed") == []
    assert job.letters("read_committed") == []

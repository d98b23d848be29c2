"""``delivery=exactly-once`` on Spark and Apache Kafka: restarts, replays, refusals; another client reads."""

from __future__ import annotations

import itertools
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark import InheritableThread, cloudpickle
from pyspark.sql import functions as f

from tests.support.kafka.committed_records import read_committed
from tests.support.kafka.maven_artifacts import NEWEST_VERSION
from tests.support.kafka.topics import create_topic
from tests.support.spark import wrapped_ports

pytestmark = pytest.mark.kafka
newest = pytest.mark.parametrize("each_protocol", [NEWEST_VERSION], indirect=True)

_names = (f"spark-once-{number}" for number in itertools.count())


class Topic:
    def __init__(self, cluster) -> None:
        self.cluster = cluster
        self.name = next(_names)
        create_topic(cluster.bootstrap_servers, self.name, 2)

    def options(self, **more):
        return {
            "kafka.bootstrap.servers": self.cluster.bootstrap_servers,
            "topic": self.name,
            "delivery": "exactly-once",
            **more,
        }

    def values(self):
        partitions = read_committed(self.cluster.bootstrap_servers, self.name, 2)
        return sorted(value.decode() for values in partitions for value in values)


class Stream:
    """Text files to a topic in two tasks, with a checkpoint."""

    def __init__(self, spark, topic, folder) -> None:
        self.spark = spark
        self.topic = topic
        self.source = folder / "source"
        self.source.mkdir()
        self.checkpoint = folder / "checkpoint"

    def add(self, name, *values):
        # Renamed into place: a half-written file would be taken for a whole one.
        part = self.source / f".{name}"
        part.write_text("".join(f"{value}\n" for value in values))
        part.rename(self.source / name)

    def frame(self):
        return self.spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(self.source))

    def run(self, frame=None, source_format="kproducer", foreach=None, **options):
        writer = (self.frame().repartition(2) if frame is None else frame).writeStream
        writer = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)
        if foreach is None:
            writer = writer.format(source_format).options(**self.topic.options(**options))
        else:
            writer = writer.foreachBatch(foreach)
        query = writer.start()
        try:
            assert query.awaitTermination(240)
            return query
        finally:
            query.stop()

    def fails(self, *arguments, **options) -> str:
        with pytest.raises(Exception, match=r"STREAM_FAILED") as caught:
            self.run(*arguments, **options)
        return str(caught.value)


@pytest.fixture
def topic(each_protocol) -> Topic:
    return Topic(each_protocol)


@pytest.fixture
def stream(spark, topic, tmp_path) -> Stream:
    return Stream(spark, topic, tmp_path)


@pytest.fixture
def failing_format(spark, tmp_path) -> str:
    """A format that fails before the second task's commit, as long as the file ``fail`` is there.

    With the file ``fail-task`` its second task fails, once the first one has prepared its transaction.
    """
    flag = str(tmp_path / "fail")
    (tmp_path / "fail").touch()
    cloudpickle.register_pickle_by_value(wrapped_ports)

    def make():
        # Defined in here, so that it is pickled by value: workers cannot import the tests.
        import os
        import time

        from pyspark import TaskContext

        from kproducer.spark.data_source import KafkaProducerDataSource
        from kproducer.spark.writers import BatchWriter, StreamWriter

        class Halfway:
            def __init__(self, port):
                self.port = port

            def commit(self, prepared):
                self.port.commit(prepared[:1])
                raise RuntimeError("halfway")

            def __getattr__(self, name):
                return getattr(self.port, name)

        class Watched:
            def __init__(self, port, on_step):
                self.port, self.on_step = port, on_step

            def send(self, batch):
                self.on_step("send")
                self.port.send(batch)

            def prepare(self):
                prepared = self.port.prepare()
                self.on_step("prepared")
                return prepared

            def __getattr__(self, name):
                return getattr(self.port, name)

        class Fails(wrapped_ports.WrapsPorts):
            def wrap_driver_port(self, port):
                return Halfway(port) if os.path.exists(flag) else port

            def wrap_task_port(self, port):
                return Watched(port, self.on_step)

            def on_step(self, name):
                if os.path.exists(f"{flag}-task"):
                    self.fail_task(name, TaskContext.get())

            def fail_task(self, step, task):
                if step == "prepared" and task is not None:
                    open(f"{flag}-now", "w").close()
                elif step == "send" and task.partitionId() == 1:
                    while not os.path.exists(f"{flag}-now"):
                        time.sleep(0.01)
                    raise RuntimeError("second task")

        class FailingStream(Fails, StreamWriter):
            pass

        class FailingBatch(Fails, BatchWriter):
            pass

        class FailingSource(KafkaProducerDataSource):
            @classmethod
            def name(cls):
                return "kproducer_halfway"

            stream_writer = FailingStream
            batch_writer = FailingBatch

        return FailingSource

    spark.dataSource.register(make())
    return "kproducer_halfway"


def test_micro_batches_restarts_and_a_lost_entry_of_the_commit_log(stream):
    stream.add("0.txt", "a", "b", "c")
    stream.add("1.txt", "d")
    query = stream.run()
    assert len(query.recentProgress) == 2
    assert stream.topic.values() == list("abcd")
    stream.add("2.txt", "e", "f")
    stream.run()
    assert stream.topic.values() == list("abcdef")
    # Spark then runs the last micro-batch again.
    (stream.checkpoint / "commits" / "2").unlink()
    (stream.checkpoint / "commits" / ".2.crc").unlink(missing_ok=True)
    stream.add("3.txt", "g")
    stream.run()
    assert stream.topic.values() == list("abcdefg")


@newest
def test_a_committed_micro_batch_may_be_repeated_in_other_partitions(stream):
    stream.add("0.txt", "a", "b", "c", "d")
    stream.run()
    for log in (stream.checkpoint / "commits").iterdir():
        log.unlink()
    stream.add("1.txt", "e")
    stream.run(stream.frame().repartition(3))
    assert stream.topic.values() == list("abcde")


def test_a_commit_that_failed_halfway_is_completed_and_other_rows_are_refused(
    stream, failing_format, tmp_path
):
    stream.add("0.txt", "a", "b", "c", "d")
    assert "halfway" in stream.fails(source_format=failing_format)
    seen = stream.topic.values()
    assert 0 < len(seen) < 4
    others = stream.frame().repartition(2).select(f.concat("value", f.lit("!")).alias("value"))
    refusal = stream.fails(others)
    assert "ReplayMismatchError" in refusal
    assert "micro-batch 0 is a replay with other rows" in refusal
    fewer = stream.fails(stream.frame().filter(f.lit(False)))
    assert "ReplayMismatchError" in fewer
    assert stream.topic.values() == seen
    (tmp_path / "fail").unlink()
    stream.run(source_format=failing_format)
    assert stream.topic.values() == list("abcd")


@newest
def test_an_old_checkpoint_is_refused(stream, tmp_path):
    stream.add("0.txt", "a")
    stream.run()
    shutil.copytree(stream.checkpoint, tmp_path / "copy")
    stream.add("1.txt", "b")
    stream.run()
    stream.add("2.txt", "c")
    stream.run()
    shutil.rmtree(stream.checkpoint)
    shutil.copytree(tmp_path / "copy", stream.checkpoint)
    assert "StaleReplayError" in stream.fails()
    assert stream.topic.values() == list("abc")


@newest
def test_a_query_that_wrote_at_least_once_goes_on_when_told_to(stream):
    stream.add("0.txt", "a")
    stream.run(delivery="at-least-once")
    stream.add("1.txt", "b")
    refusal = stream.fails()
    assert "UncertainReplayError" in refusal
    assert "onUncertainReplay=write" in refusal
    assert stream.topic.values() == ["a"]
    stream.run(onUncertainReplay="write")
    stream.add("2.txt", "c")
    stream.run()
    assert stream.topic.values() == list("abc")


@newest
def test_the_way_without_arrow_and_tasks_without_rows(stream):
    def by_rows():
        from kproducer.spark.data_source import KafkaProducerDataSource
        from kproducer.spark.writers import StreamRowWriter

        class RowSource(KafkaProducerDataSource):
            @classmethod
            def name(cls):
                return "kproducer_once_rows"

            stream_writer = StreamRowWriter

        return RowSource

    stream.spark.dataSource.register(by_rows())
    stream.add("0.txt", "a", "b")
    stream.run(source_format="kproducer_once_rows")
    stream.add("1.txt", "b")
    stream.run(stream.frame().filter("value = 'none'").repartition(3))
    stream.add("2.txt", "c")
    stream.run()
    assert stream.topic.values() == list("abc")


@newest
def test_foreach_batch_writes_to_two_sinks_and_a_replay_completes_them(stream, each_protocol):
    other = Topic(each_protocol)
    fails = [True]

    def save(frame, topic, **options):
        frame.write.format("kproducer").options(**topic.options(**options)).mode("append").save()

    def both(frame, number):
        save(frame, stream.topic, writeId=f"{stream.topic.name}.first")
        if fails:
            raise RuntimeError("between")
        save(frame.filter("value != 'b'"), other, writeId=f"{stream.topic.name}.second")

    stream.add("0.txt", "a", "b")
    assert "needs the option 'writeId'" in stream.fails(foreach=lambda frame, _: save(frame, other))
    assert "between" in stream.fails(foreach=both)
    assert stream.topic.values() == list("ab")
    fails.clear()
    stream.add("1.txt", "a", "b")
    stream.run(foreach=both)
    assert stream.topic.values() == list("aabb")
    assert other.values() == list("aa")


@newest
def test_threads_within_foreach_batch_have_to_know_the_micro_batch(spark, stream):
    def save(frame, **options):
        # So that the session is active in this thread, which is where Spark looks the format up.
        spark.createDataFrame([(1,)], "a int")
        named = stream.topic.options(writeId=f"{stream.topic.name}.threads", **options)
        frame.write.format("kproducer").options(**named).mode("append").save()

    def in_a_plain_thread(frame, number, **options):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(save, frame, **options).result()

    def in_an_inheritable_thread(frame, number):
        thread = InheritableThread(target=save, args=(frame,))
        thread.start()
        thread.join()

    stream.add("0.txt", "a", "b")
    said = stream.fails(foreach=in_a_plain_thread)
    assert "in this thread, option 'writeId' needs the option 'writeVersion'" in said
    assert stream.topic.values() == []
    stream.run(foreach=lambda frame, number: in_a_plain_thread(frame, number, writeVersion=number))
    # The same rows once more: version 1, and no replay of version 0.
    stream.add("1.txt", "a", "b")
    stream.run(foreach=in_an_inheritable_thread)
    assert stream.topic.values() == list("aabb")


@newest
def test_batches_are_all_or_nothing_and_named_ones_are_written_once(spark, topic, failing_format, tmp_path):
    frame = spark.range(0, 20, 1, 2).select(f.format_string("%02d", "id").alias("value"))
    rows = [f"{number:02d}" for number in range(20)]

    def save(frame, source_format="kproducer", **options):
        frame.write.format(source_format).options(**topic.options(**options)).mode("append").save()

    (tmp_path / "fail-task").touch()
    for more in ({}, {"writeId": f"{topic.name}-failed"}):
        with pytest.raises(Exception, match="second task"):
            save(frame, failing_format, **more)
        # The message of the first task may have come too late for Spark. Readers do not wait, all the same.
        assert topic.values() == []
        (tmp_path / "fail-now").unlink()
    (tmp_path / "fail-task").unlink()
    save(frame)
    assert topic.values() == rows
    with pytest.raises(Exception, match="halfway"):
        save(frame, failing_format, writeId=topic.name)
    assert len(topic.values()) == 30
    (tmp_path / "fail").unlink()
    for _ in range(2):
        save(frame, failing_format, writeId=topic.name)
        assert topic.values() == sorted(rows * 2)
    with pytest.raises(Exception, match="ReplayMismatchError"):
        save(frame.limit(3), writeId=topic.name)
    save(frame, writeId=topic.name, writeVersion="1")
    assert topic.values() == sorted(rows * 3)

"""The ports of exactly-once writes on Apache Kafka, without Spark: tasks and driver as it calls them."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from kproducer import ConsumerGroupMetadata, KafkaError, KafkaProducer, TopicPartition
from kproducer.spark.errors import CommitFailedError, ExactlyOnceError, StaleReplayError
from kproducer.spark.exactly_once.driver_protocol import DriverProtocol
from kproducer.spark.exactly_once.kafka_ports import Connections, KafkaDriverPort, KafkaTaskPort
from kproducer.spark.exactly_once.spark_write import new_checksum
from kproducer.spark.exactly_once.task_protocol import TaskProtocol
from kproducer.spark.exactly_once.write_state import (
    Decision,
    EmptyTask,
    PreparedTask,
    RepeatedTask,
    WriteIdentity,
    WriteKind,
    WriteRun,
    WriteTask,
)
from kproducer.spark.producer_cache import ProducerCache
from kproducer.spark.write_columns import WriteColumns
from kproducer.spark.write_options import WriteOptions
from tests.spark.fake_producer import close_idle
from tests.support.kafka.committed_records import read_committed
from tests.support.kafka.reader import iterate_topic
from tests.support.kafka.topics import create_topic
from tests.support.spark.divided_commit import DividedCommit
from tests.support.spark.stepping_ports import SteppingTaskPort
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kafka

_names = (f"exactly-once-{number}" for number in itertools.count())


class Write:
    """One query's tasks and driver, with caches of their own."""

    def __init__(self, cluster, **options) -> None:
        self.cluster = cluster
        self.topic = next(_names)
        create_topic(cluster.bootstrap_servers, self.topic, 2)
        self.identity = WriteIdentity(WriteKind.STREAM, self.topic, "k")
        given = {
            "kafka.bootstrap.servers": cluster.bootstrap_servers,
            "topic": self.topic,
            "delivery": "exactly-once",
            "transactionalIdPrefix": "k",
            **options,
        }
        self.options = WriteOptions.parse(given, is_stream=True)
        self.columns = WriteColumns(("value",), self.topic)
        self.pairs = ProducerCache(Connections)
        self.sessions = ProducerCache(Connections)

    def close(self) -> None:
        close_idle(self.pairs)
        close_idle(self.sessions)

    def task(self, task, rows, number=0, run="run-1", on_step=lambda step: None, batches=1):
        batch = pa.RecordBatch.from_arrays([pa.array(rows)], names=["value"])
        with KafkaTaskPort(self.columns, self.options, self.pairs) as port:
            return TaskProtocol(SteppingTaskPort(port, on_step), new_checksum(self.columns)).write(
                WriteTask(WriteRun(self.identity, number, run), task), iter([batch] * batches)
            )

    def tasks(self, partitions, number=0, run="run-1"):
        return [self.task(task, rows, number, run) for task, rows in enumerate(partitions)]

    def commit(self, messages, number=0):
        with KafkaDriverPort(self.options, self.sessions) as port:
            DriverProtocol(port).commit(messages, number)

    def abort(self, messages):
        with KafkaDriverPort(self.options, self.sessions) as port:
            DriverProtocol(port).abort(messages)

    def sent(self):
        servers = self.cluster.bootstrap_servers
        return iterate_topic(servers, self.topic, isolation_level="read_uncommitted")

    def visible(self):
        return sorted(
            value.decode()
            for values in read_committed(self.cluster.bootstrap_servers, self.topic, 2)
            for value in values
        )


@pytest.fixture
def write(request, each_protocol):
    made = Write(each_protocol, **getattr(request, "param", {}))
    yield made
    made.close()


def test_several_batches_with_the_same_producers_and_session(write):
    for number in range(3):
        write.commit(write.tasks([[f"a{number}", f"b{number}"], [f"c{number}"]], number), number)
    assert len(write.pairs._idle) == len(write.sessions._idle) == 1
    assert write.visible() == sorted(f"{letter}{number}" for letter in "abc" for number in range(3))


def test_a_replay_recognises_what_is_committed_and_fences_the_rest(write):
    first = write.tasks([["a"], ["b"], ["c"]])
    port = KafkaDriverPort(write.options, write.sessions)

    def stop(step):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        DriverProtocol(DividedCommit(port, stop)).commit(first, 0)
    again = write.tasks([["a"], ["b"], ["c"]], run="run-2")
    assert [type(each) for each in again] == [RepeatedTask, PreparedTask, PreparedTask]
    write.commit(again)
    assert write.visible() == ["a", "b", "c"]
    # The first driver wakes up, and its tasks' transactions are not its own any more.
    errors = port.commit([each.transaction for each in first[1:]])
    assert all(error is not None for error in errors)
    port.release()
    write.commit(write.tasks([["d"]], 1, "run-2"), 1)
    assert write.visible() == ["a", "b", "c", "d"]


def test_a_committed_batch_may_be_repeated_in_another_division_and_readers_do_not_wait(write):
    write.commit(write.tasks([["a", "b"], ["c"]]))
    again = write.tasks([["c"], ["b"], ["a"]], run="run-2")
    assert [type(each) for each in again] == [RepeatedTask, RepeatedTask, PreparedTask]
    write.commit(again)
    write.commit(write.tasks([["d"], ["e"]], 1, "run-2"), 1)
    assert write.visible() == ["a", "b", "c", "d", "e"]


def test_an_old_copy_does_not_stop_the_query_that_is_ahead(write):
    for number in range(2):
        write.commit(write.tasks([[f"a{number}"], []], number), number)
    ahead = write.tasks([["a2"]], 2)
    with pytest.raises(StaleReplayError):
        write.task(0, ["a0"], 0, "copy")
    with pytest.raises(StaleReplayError):
        write.commit([EmptyTask(WriteTask(WriteRun(write.identity, 0, "copy"), 0))], 0)
    write.commit(ahead, 2)
    assert write.visible() == ["a0", "a1", "a2"]


def test_aborted_tasks_are_never_seen_and_readers_do_not_wait(write):
    write.abort([*write.tasks([["a"], ["b"]]), None])
    assert write.visible() == []
    write.commit(write.tasks([["a"], ["b"]], run="run-2"))
    assert write.visible() == ["a", "b"]


def test_a_driver_that_died_before_its_decision_is_not_waited_for(write):
    driver = write.identity.driver
    with KafkaProducer(
        bootstrap_servers=write.cluster.bootstrap_servers, transactional_id=driver, enable_idempotence=True
    ) as died:
        died.init_transactions()
        died.begin_transaction()
        decision = Decision(0, 1, 0, "nonce", "run-1").to_offset()
        died.send_offsets_to_transaction(
            {TopicPartition(write.topic, 0): decision}, ConsumerGroupMetadata(driver)
        )
        write.commit(write.tasks([["a"]], run="run-2"))
        assert write.visible() == ["a"]


@pytest.mark.parametrize("write", [{"producerIdleTimeoutMs": "0"}], indirect=True)
def test_a_worker_that_closes_its_producer_leaves_the_prepared_transaction_to_the_driver(write):
    messages = write.tasks([["a"], ["b"]])
    assert len(write.pairs._idle) == 0
    write.commit(messages)
    assert write.visible() == ["a", "b"]


def test_two_tasks_at_a_time_have_two_producers(write):
    def other(step):
        if step == "send":
            messages.append(write.task(1, ["b"]))

    messages = []
    messages.insert(0, write.task(0, ["a"], on_step=other))
    assert len(write.pairs._idle) == 2
    write.commit(messages)
    assert write.visible() == ["a", "b"]


@pytest.mark.parametrize("write", [{"kafka.transaction.timeout.ms": "900001"}], indirect=True)
def test_more_time_than_brokers_give_is_refused_with_both_settings(write):
    with pytest.raises(ExactlyOnceError, match=r"transaction\.max\.timeout\.ms") as caught:
        write.task(0, ["a"])
    assert "'kafka.transaction.timeout.ms'" in str(caught.value)
    assert len(write.pairs._idle) == 0


@pytest.mark.parametrize("write", [{"kafka.transaction.timeout.ms": "4000"}], indirect=True)
def test_a_batch_that_takes_longer_than_its_transactions_names_the_setting(write):
    messages = write.tasks([["a"]])
    # Readers wait until the cluster has ended it.
    assert write.visible() == []
    with pytest.raises(CommitFailedError, match=r"kafka\.transaction\.timeout\.ms"):
        write.commit(messages)
    write.commit(write.tasks([["a"]], run="run-2"))
    assert write.visible() == ["a"]


@pytest.mark.parametrize("write", [{"kafka.transaction.timeout.ms": "2000"}], indirect=True)
@pytest.mark.parametrize("late_step", ["send", "add_marker"])
def test_a_task_that_takes_longer_than_its_transaction_names_the_setting(write, late_step):
    steps = []

    def outlast_the_transaction(step):
        steps.append(step)
        if step == late_step and steps.count("send") == 2:
            wait_until(lambda: any(write.sent()))
            # Readers wait until the cluster has ended it.
            assert write.visible() == []

    with pytest.raises(KafkaError, match=r"kafka\.transaction\.timeout\.ms"):
        write.task(0, ["a"], on_step=outlast_the_transaction, batches=2)
    assert steps[-1] != "prepared"
    write.commit(write.tasks([["a"]], run="run-2"))
    assert write.visible() == ["a"]

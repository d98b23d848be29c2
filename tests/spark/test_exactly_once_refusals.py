"""What exactly-once writes ask of brokers, what these refuse and what the error says: on a fake broker."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from kproducer._core.transactions.transaction_arguments import OffsetAndMetadata
from kproducer.errors import IllegalStateError, KafkaError, KafkaTimeoutError
from kproducer.spark.errors import CommitFailedError, ExactlyOnceError
from kproducer.spark.exactly_once.driver_protocol import DriverProtocol
from kproducer.spark.exactly_once.kafka_ports import Connections, KafkaDriverPort, KafkaTaskPort
from kproducer.spark.exactly_once.task_protocol import TaskProtocol
from kproducer.spark.exactly_once.write_state import EmptyTask, WriteIdentity, WriteKind, WriteRun, WriteTask
from kproducer.spark.producer_cache import ProducerCache
from kproducer.spark.write_columns import WriteColumns
from kproducer.spark.write_options import WriteOptions
from kproducer.testing.fakebroker import FakeCluster, faults
from kproducer.types import TopicPartition
from tests.spark.fake_producer import close_idle
from tests.spark.memory_kafka import SumOfRows
from tests.support.spark.stepping_ports import SteppingDriverPort, SteppingTaskPort

PRODUCE, OFFSET_FETCH, INIT, ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS = 0, 9, 22, 24, 25, 26, 28
UNKNOWN_TOPIC, TOPIC_REFUSED, GROUP_REFUSED, INVALID_TIMEOUT, ID_REFUSED, UNSTABLE = 3, 29, 30, 50, 53, 88
IDENTITY = WriteIdentity(WriteKind.STREAM, "query", "k")


class NoSum(SumOfRows):
    def update(self, batch):
        self.rows += batch.num_rows


class Bench:
    def __init__(self, cluster, **more) -> None:
        self.cluster = cluster
        self.options = WriteOptions.parse(
            {
                "kafka.bootstrap.servers": ",".join(cluster.bootstrap_servers),
                "topic": "t",
                "delivery": "exactly-once",
                "kafka.linger.ms": "0",
                "kafka.retry.backoff.ms": "10",
                "kafka.retry.backoff.max.ms": "30",
                **more,
            },
            is_stream=True,
        )
        self.pairs = ProducerCache(Connections)
        self.sessions = ProducerCache(Connections)

    def task(self, number=0, on_step=lambda step: None, batches=1):
        rows = pa.RecordBatch.from_arrays([pa.array(["a"])], names=["value"])
        with KafkaTaskPort(WriteColumns(("value",), "t"), self.options, self.pairs) as port:
            protocol = TaskProtocol(SteppingTaskPort(port, on_step), NoSum())
            return protocol.write(WriteTask(WriteRun(IDENTITY, number, "run"), 0), iter([rows] * batches))

    def commit(self, *messages, number=0):
        with KafkaDriverPort(self.options, self.sessions) as port:
            DriverProtocol(port).commit(messages, number)

    def refuse(self, api_key, code, **how):
        return self.cluster.control(api_key, faults.refuse_coordination(code, **how), times=None)


@pytest.fixture(params=[1, 2])
def bench(request):
    with FakeCluster(1) as cluster:
        cluster.create_topic("t", 1)
        cluster.transaction_version = request.param
        made = Bench(cluster)
        yield made
        close_idle(made.pairs)
        close_idle(made.sessions)


def test_a_later_batch_costs_one_request_for_each_step(bench):
    bench.commit(bench.task())
    before = len(bench.cluster.requests())
    bench.commit(bench.task(1), number=1)
    asked = Counter(request.api_key for request in bench.cluster.requests()[before:])
    version_1 = bench.cluster.transaction_version == 1
    # The task: decision, id, marker, rows, marker, end.
    # The driver: look, id, decision (read, taken, ended, read).
    assert asked == {
        INIT: 2,
        OFFSET_FETCH: 5,
        PRODUCE: 1,
        COMMIT_OFFSETS: 2,
        END: 2,
        **({ADD_PARTITIONS: 1, ADD_OFFSETS: 2} if version_1 else {}),
    }


@pytest.mark.parametrize(
    ("api_key", "code", "whole", "said"),
    [
        (INIT, ID_REFUSED, True, "k-query-0"),
        (OFFSET_FETCH, GROUP_REFUSED, True, "k-query-driver"),
        (OFFSET_FETCH, TOPIC_REFUSED, False, "t-0"),
        (COMMIT_OFFSETS, GROUP_REFUSED, True, "k-query-0"),
        (COMMIT_OFFSETS, TOPIC_REFUSED, True, "t-0"),
    ],
)
def test_a_missing_permission_of_a_task_is_named_with_the_options_that_it_follows_from(
    bench, api_key, code, whole, said
):
    bench.refuse(api_key, code, whole=whole)
    with pytest.raises(ExactlyOnceError) as caught:
        bench.task()
    assert said in str(caught.value)
    assert "'transactionalIdPrefix'" in str(caught.value)
    assert "'markerTopic'" in str(caught.value)
    assert len(bench.pairs._idle) == 0


def test_a_missing_permission_of_the_driver_is_named_and_nothing_is_committed(bench):
    message = bench.task()
    fault = bench.refuse(INIT, ID_REFUSED)
    with pytest.raises(ExactlyOnceError, match="k-query-driver"):
        bench.commit(message)
    fault.remove()
    bench.commit(message)


def test_a_timeout_that_brokers_do_not_take_is_named_with_both_settings(bench):
    bench.refuse(INIT, INVALID_TIMEOUT)
    with pytest.raises(ExactlyOnceError, match=r"transaction\.max\.timeout\.ms") as caught:
        bench.task()
    assert "'kafka.transaction.timeout.ms'" in str(caught.value)
    # A task cannot close the producer that it does not have.
    assert "close it" not in str(caught.value)


@pytest.mark.parametrize("late_step", ["send", "flush", "add_marker"])
def test_a_transaction_that_runs_out_of_time_within_a_task_names_the_setting(bench, late_step):
    cluster = bench.cluster
    steps = []

    def on_step(step):
        steps.append(step)
        if step != late_step or steps.count("send") < 2:
            return
        # The first rows are in the log, so that the coordinator has a transaction to abort.
        cluster.wait_for(lambda: cluster.records("t"))
        with cluster.log.changed:
            cluster.coordination.transactions.time_out("k-query-0", cluster.transaction_version == 2)

    with pytest.raises(KafkaError, match=r"kafka\.transaction\.timeout\.ms") as caught:
        bench.task(on_step=on_step, batches=2)
    assert "nothing of this attempt is committed" in str(caught.value)
    bench.commit(bench.task())


def test_a_commit_that_is_refused_fails_with_the_task_and_the_reason(bench):
    message = bench.task()

    def refuse_task(context):
        is_task = context.message.transactional_id == "k-query-0"
        return faults.refuse_coordination(ID_REFUSED)(context) if is_task else None

    bench.cluster.control(END, refuse_task, times=None)
    with pytest.raises(
        CommitFailedError, match="1 of 1 tasks could not be committed; the first is 'k-query-0'"
    ):
        bench.commit(message)


def test_a_decision_that_cannot_be_read_back_leaves_no_doubt_that_the_rows_are_committed(bench):
    def confirm_late(step):
        if step == "confirm":
            bench.refuse(OFFSET_FETCH, UNSTABLE)
            port._step_s = 0.1

    port = KafkaDriverPort(bench.options, bench.sessions)
    with pytest.raises(CommitFailedError, match="all rows are committed") as caught, port:
        DriverProtocol(SteppingDriverPort(port, confirm_late)).commit([bench.task()], 0)
    assert isinstance(caught.value.__cause__, KafkaTimeoutError)
    assert "nothing" not in str(caught.value)
    assert len(bench.cluster.committed_records("t", 0)) == 1


def test_a_session_that_is_kept_forgets_whom_a_commit_has_fenced(bench):
    bench.commit(bench.task())
    lease = bench.sessions.acquire(bench.options.producer_settings, 1000)
    try:
        offsets = {TopicPartition("t", 0): OffsetAndMetadata(1)}
        with pytest.raises(IllegalStateError, match="fence 'k-query-driver' first"):
            lease.client.session.write_offsets("k-query-driver", "g", offsets, 1)
    finally:
        lease.release(discard=True)


def test_a_task_whose_rows_are_refused_aborts_and_says_which_topic(bench):
    bench.cluster.control(PRODUCE, faults.refuse_produce(87), times=None)
    with pytest.raises(KafkaError, match="topic 't', partition 0"):
        bench.task()
    assert len(bench.pairs._idle) == 0


SHORT = {f"kafka.{name}.ms": "9000" for name in ("max.block", "request.timeout", "delivery.timeout")}


def refuse_offsets_without(topic, cluster):
    def handler(context):
        return None if topic in cluster.topics else faults.refuse_coordination(UNKNOWN_TOPIC)(context)

    cluster.control(COMMIT_OFFSETS, handler, times=None)


# Brokers that create topics create them for every client that asks for their metadata.


def test_a_first_batch_without_rows_is_decided_though_nobody_has_made_the_topic_yet():
    with FakeCluster(1, auto_create_partitions=1) as cluster:
        bench = Bench(cluster, **SHORT)
        refuse_offsets_without("t", cluster)
        bench.commit(EmptyTask(WriteTask(WriteRun(IDENTITY, 0, "run"), 0)))
        close_idle(bench.sessions)
        assert "t" in cluster.topics


def test_a_marker_topic_to_which_nobody_writes_is_made_for_the_first_task():
    with FakeCluster(1, auto_create_partitions=1) as cluster:
        bench = Bench(cluster, markerTopic="marks", **SHORT)
        refuse_offsets_without("marks", cluster)
        bench.task()
        close_idle(bench.pairs)
        assert "marks" in cluster.topics


def test_a_marker_topic_that_nobody_makes_is_named():
    with FakeCluster(1) as cluster:
        cluster.create_topic("t", 1)
        limits = {**SHORT, "kafka.max.block.ms": "300"}
        bench = Bench(cluster, markerTopic="marks", **limits)
        refuse_offsets_without("marks", cluster)
        with pytest.raises(
            ExactlyOnceError, match=r"'marks', which must exist \(markerTopic\).*UNKNOWN_TOPIC"
        ):
            bench.task()
        assert len(bench.pairs._idle) == 0

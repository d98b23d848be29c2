"""One producer writes under many transactional ids, one after the other, on its existing connections."""

from __future__ import annotations

import pytest

from kproducer import FencedError, IllegalStateError, InvalidArgumentError, PreparedTransaction
from kproducer.testing.fakebroker import FakeCluster
from tests.scenarios import internals
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import WatchedProducer
from tests.scenarios.transactions import committed

PRODUCE = 0


@pytest.fixture(params=[1, 2])
def two(stage: Stage, request: pytest.FixtureRequest) -> FakeCluster:
    """Two brokers with one transaction protocol."""
    cluster = stage.cluster(2, topics={"t": 2})
    cluster.transaction_version = request.param
    return cluster


def transactional(stage: Stage, cluster: FakeCluster, transactional_id: str = "tx") -> WatchedProducer:
    return stage.producer(
        cluster, enable_idempotence=True, transactional_id=transactional_id, max_block_ms=20_000
    )


def hand_over(producer: WatchedProducer, transactional_id: str, *values: bytes) -> PreparedTransaction:
    """A complete task: change the id, initialize, write to both partitions, prepare."""
    kafka = producer.kafka
    kafka.change_transactional_id(transactional_id)
    kafka.init_transactions()
    kafka.begin_transaction()
    for value in values:
        for partition in (0, 1):
            producer.send(value=value, partition=partition)
    return kafka.prepare()


def test_a_worker_prepares_several_tasks_and_another_producer_commits(stage: Stage, two: FakeCluster) -> None:
    worker = transactional(stage, two)
    thread = internals.io_thread(worker.kafka)
    for batch in (b"0", b"1"):
        handed = [hand_over(worker, f"task-{task}", batch + b"-%d" % task) for task in range(3)]
        for each in handed:
            transactional(stage, two, each.transactional_id).kafka.commit_prepared(each)
    assert worker.kafka.config.transactional_id == "task-2"
    assert internals.io_thread(worker.kafka) is thread
    expected = [b"%d-%d" % (batch, task) for batch in range(2) for task in range(3)]
    assert committed(two) == committed(two, 1) == expected


def test_records_need_a_transaction_again_after_the_change(stage: Stage, two: FakeCluster) -> None:
    worker = transactional(stage, two)
    hand_over(worker, "a", b"1")
    worker.kafka.change_transactional_id("b")
    with pytest.raises(IllegalStateError):
        worker.kafka.send("t", b"too early", partition=0)
    worker.kafka.init_transactions()
    with pytest.raises(IllegalStateError):
        worker.kafka.send_many("t", [b"too early"])
    with worker.kafka.transaction():
        sent = worker.send_many(500, partition=1)
        worker.kafka.send_many("t", [b"many"] * 100, partitions=1)
    assert all(each.metadata().partition == 1 for each in sent)
    # One request per ready batch, not one per record.
    assert len(two.requests(PRODUCE)) < 300


def test_a_replaced_worker_is_fenced_only_under_that_id(stage: Stage, two: FakeCluster) -> None:
    older, newer = transactional(stage, two), transactional(stage, two)
    late = hand_over(older, "task-0", b"late")
    kept = hand_over(older, "task-1", b"kept")
    transactional(stage, two, "task-1").kafka.commit_prepared(kept)
    again = hand_over(newer, "task-0", b"again")
    with pytest.raises(FencedError):
        transactional(stage, two, "task-0").kafka.commit_prepared(late)
    transactional(stage, two, "task-0").kafka.commit_prepared(again)
    assert committed(two) == [b"kept", b"again"]
    hand_over(older, "task-2", b"unaffected")
    older.kafka.commit_transaction()


@pytest.mark.parametrize("wrong", ["", None, 7])
def test_a_transactional_id_must_be_a_string(stage: Stage, two: FakeCluster, wrong: object) -> None:
    with pytest.raises(InvalidArgumentError, match="transactional_id"):
        transactional(stage, two).kafka.change_transactional_id(wrong)  # type: ignore[arg-type]

"""Faults in transactions: what each error means to the application, and that the producer can continue."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kproducer import (
    AbortTransactionError,
    ConsumerGroupMetadata,
    FencedError,
    IllegalStateError,
    KafkaError,
    KafkaProducer,
    KafkaTimeoutError,
    OffsetAndMetadata,
    TopicPartition,
)
from kproducer.testing.fakebroker import FakeCluster, faults
from tests.scenarios.conftest import Stage
from tests.scenarios.transactions import answer_code, committed, transactional

PRODUCE, INIT, ADD_OFFSETS, END, COMMIT_OFFSETS = 0, 22, 25, 26, 28
GROUP = ConsumerGroupMetadata("g")
OFFSETS = {TopicPartition("in", 0): OffsetAndMetadata(7)}


def goes_on(producer: KafkaProducer, cluster: FakeCluster) -> None:
    """Check that the failed transaction can be aborted, is invisible, and the next one can commit."""
    producer.abort_transaction()
    with producer.transaction():
        producer.send("t", b"next", partition=0)
    assert committed(cluster) == [b"next"]


@pytest.mark.parametrize("code", [45, 47, 48, 59, 120], ids=lambda code: f"code {code}")
def test_a_refused_batch_fails_only_its_transaction(stage: Stage, one: FakeCluster, code: int) -> None:
    """OUT_OF_ORDER, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, UNKNOWN_PRODUCER_ID, TRANSACTION_ABORTABLE."""
    producer = transactional(stage, one)
    with producer.transaction():
        producer.send("t", b"first", partition=1)
    asked = len(one.requests(INIT))
    one.control(PRODUCE, faults.refuse_produce(code))
    producer.begin_transaction()
    assert producer.send("t", b"lost", partition=0).exception(60) is not None
    # Requesting a new epoch here would start a new transaction without the application's knowledge.
    assert len(one.requests(INIT)) == asked
    with pytest.raises(AbortTransactionError) as caught:
        producer.commit_transaction()
    assert caught.value.__cause__ is not None
    with pytest.raises(AbortTransactionError):
        producer.send("t", b"late", partition=0)
    goes_on(producer, one)


@pytest.mark.parametrize("code", [47, 90], ids=lambda code: f"code {code}")
@pytest.mark.parametrize("api_key", [ADD_OFFSETS, END], ids=["AddOffsetsToTxn", "EndTxn"])
def test_a_fenced_producer_can_only_be_closed(
    stage: Stage, one: FakeCluster, api_key: int, code: int
) -> None:
    if api_key == ADD_OFFSETS and one.transaction_version == 2:
        pytest.skip("protocol 2 has no such request")
    producer = transactional(stage, one)
    one.control(api_key, answer_code(code))
    producer.begin_transaction()
    producer.send("t", b"1", partition=0)
    if api_key == ADD_OFFSETS:
        with pytest.raises(FencedError):
            producer.send_offsets_to_transaction(OFFSETS, GROUP)
    else:
        with pytest.raises(FencedError):
            producer.commit_transaction()
    for call in (producer.begin_transaction, producer.commit_transaction, producer.abort_transaction):
        with pytest.raises(FencedError):
            call()
    producer.close()


@pytest.mark.parametrize(
    "record",
    [{"topic": "t", "partition": -5}, {"topic": "t", "timestamp_ms": -1}, {"topic": ""}, {"value": object()}],
    ids=["partition", "timestamp", "topic", "value"],
)
def test_an_invalid_record_prevents_the_commit(
    stage: Stage, one: FakeCluster, record: dict[str, Any]
) -> None:
    producer = transactional(stage, one)
    producer.begin_transaction()
    producer.send("t", b"lost", partition=0)
    with pytest.raises(KafkaError):
        producer.send(**{"topic": "t", "value": b"bad", **record})
    with pytest.raises(AbortTransactionError):
        producer.commit_transaction()
    goes_on(producer, one)


def test_closing_while_the_coordinator_is_silent_takes_no_longer_than_allowed(
    stage: Stage, one: FakeCluster
) -> None:
    one.control(INIT, faults.stall_before(), times=None)
    producer = stage.producer(one, transactional_id="tx").kafka
    with pytest.raises(KafkaTimeoutError, match="init_transactions"):
        producer.init_transactions(0.05)
    with pytest.raises(IllegalStateError):
        producer.begin_transaction()
    producer.close(0)


def test_only_one_of_two_threads_ends_the_transaction(stage: Stage, one: FakeCluster) -> None:
    producer = transactional(stage, one)
    for number in range(10):
        producer.begin_transaction()
        producer.send("t", b"%d" % number, partition=0)
        barrier = threading.Barrier(2)
        ended: list[str] = []

        def end(name: str, barrier: threading.Barrier = barrier, ended: list[str] = ended) -> None:
            barrier.wait(60)
            try:
                getattr(producer, f"{name}_transaction")()
                ended.append(name)
            except IllegalStateError:
                pass

        threads = [threading.Thread(target=end, args=(name,)) for name in ("commit", "abort")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(ended) == 1
        was_committed = committed(one)[-1:] == [b"%d" % number]
        assert was_committed == (ended == ["commit"])


def test_a_broker_that_cannot_check_members_is_named_and_the_producer_continues(stage: Stage) -> None:
    cluster = stage.cluster(1, topics={"t": 1})
    cluster.transaction_version = 1
    cluster.set_versions(COMMIT_OFFSETS, (0, 2))
    producer = transactional(stage, cluster)
    producer.begin_transaction()
    member = ConsumerGroupMetadata("g", generation_id=3, member_id="m")
    with pytest.raises(AbortTransactionError, match=r"2\.5"):
        producer.send_offsets_to_transaction(OFFSETS, member)
    goes_on(producer, cluster)
    with producer.transaction():
        producer.send_offsets_to_transaction(OFFSETS, GROUP)
    assert cluster.coordination.group("g").committed["in", 0].offset == 7

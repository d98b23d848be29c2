"""Transactions as an application uses them, in both protocols, against the strict broker."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from kproducer import (
    AbortTransactionError,
    ConsumerGroupMetadata,
    FencedError,
    IllegalStateError,
    KafkaTimeoutError,
    OffsetAndMetadata,
    RecordTooLargeError,
    TopicPartition,
)
from kproducer.testing.fakebroker import FakeCluster, faults
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import WatchedProducer
from tests.scenarios.transactions import committed

PRODUCE, INIT, ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS = 0, 22, 24, 25, 26, 28
GROUP = ConsumerGroupMetadata("g")


@pytest.fixture(params=[1, 2])
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def two(stage: Stage, version: int) -> FakeCluster:
    """Two brokers with one protocol; the second is the coordinator."""
    cluster = stage.cluster(2, topics={"t": 2})
    cluster.transaction_version = version
    cluster.coordination.moved[1, "tx"] = 2
    return cluster


def transactional(stage: Stage, cluster: FakeCluster, **config: Any) -> WatchedProducer:
    settings = {"enable_idempotence": True, "transactional_id": "tx", "max_block_ms": 20_000, **config}
    return stage.producer(cluster, **settings)


def asked(cluster: FakeCluster) -> list[int]:
    keys = (INIT, ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS)
    return [request.api_key for request in cluster.requests() if request.api_key in keys]


def test_committed_records_are_visible_and_aborted_ones_are_not(
    stage: Stage, two: FakeCluster, version: int
) -> None:
    producer = transactional(stage, two)
    kafka = producer.kafka
    kafka.init_transactions()
    for number, commit in enumerate([True, False, True]):
        kafka.begin_transaction()
        for partition in (0, 1):
            producer.send(value=b"%d-%d" % (number, partition), partition=partition)
        if commit:
            kafka.commit_transaction()
        else:
            kafka.flush()
            kafka.abort_transaction()
    assert committed(two) == [b"0-0", b"2-0"]
    assert committed(two, 1) == [b"0-1", b"2-1"]
    expected = [INIT, END, END, END] if version == 2 else None
    if expected is not None:
        assert asked(two) == expected
    versions = {request.api_version for request in two.requests(PRODUCE)}
    assert versions <= ({12, 13} if version == 2 else {11})


def test_a_block_commits_at_its_end_and_aborts_when_it_raises(stage: Stage, two: FakeCluster) -> None:
    producer = transactional(stage, two)
    producer.kafka.init_transactions()
    with producer.kafka.transaction():
        producer.send(value=b"kept", partition=0)

    def fail() -> None:
        with producer.kafka.transaction():
            producer.send(value=b"lost", partition=0)
            producer.kafka.flush()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with producer.kafka.transaction():
        producer.send(value=b"after", partition=0)
    assert committed(two) == [b"kept", b"after"]


def test_offsets_are_committed_with_the_records(stage: Stage, two: FakeCluster) -> None:
    producer = transactional(stage, two)
    producer.kafka.init_transactions()
    with producer.kafka.transaction():
        producer.send(value=b"result", partition=0)
        producer.kafka.send_offsets_to_transaction({TopicPartition("in", 0): OffsetAndMetadata(7)}, GROUP)
        assert two.coordination.group("g").committed == {}
    assert two.coordination.group("g").committed["in", 0].offset == 7
    assert committed(two) == [b"result"]


def test_a_send_that_raises_prevents_the_commit(stage: Stage, two: FakeCluster) -> None:
    producer = transactional(stage, two, max_request_size=2000)
    producer.kafka.init_transactions()
    with pytest.raises(RecordTooLargeError), producer.kafka.transaction():
        producer.kafka.send("t", b"x" * 5000)
    producer.kafka.begin_transaction()
    with pytest.raises(RecordTooLargeError):
        producer.kafka.send("t", b"x" * 5000)
    with pytest.raises(AbortTransactionError):
        producer.kafka.commit_transaction()
    producer.kafka.abort_transaction()


def test_bulk_calls_take_part(stage: Stage, two: FakeCluster) -> None:
    producer = transactional(stage, two, max_request_size=2000).kafka
    producer.init_transactions()
    with pytest.raises(IllegalStateError):
        producer.send_many("t", [b"too early"])
    with producer.transaction():
        producer.send_many("t", [b"1", b"2"], partitions=0)
    assert committed(two) == [b"1", b"2"]
    with pytest.raises(AbortTransactionError, match=r"refused|5097 bytes"), producer.transaction():
        producer.send_many("t", [b"3", b"x" * 5000], partitions=0)
    assert committed(two) == [b"1", b"2"]


def test_records_need_a_transaction(stage: Stage, two: FakeCluster) -> None:
    producer = transactional(stage, two)
    with pytest.raises(IllegalStateError, match=r"send: .*init_transactions\(\)"):
        producer.kafka.send("t", b"too early")
    producer.kafka.init_transactions()
    with pytest.raises(IllegalStateError, match=r"send: .*begin_transaction\(\)"):
        producer.kafka.send("t", b"too early")
    with producer.kafka.transaction():
        producer.kafka.send("t", b"now", partition=0)
    assert committed(two) == [b"now"]


def test_an_initialization_that_timed_out_can_be_resumed(stage: Stage, two: FakeCluster) -> None:
    gate = two.gate()
    two.control(INIT, faults.hold_before(gate))
    producer = transactional(stage, two)
    with pytest.raises(KafkaTimeoutError, match="init_transactions"):
        producer.kafka.init_transactions(0.05)
    with pytest.raises(IllegalStateError):
        producer.kafka.begin_transaction()
    gate.open()
    producer.kafka.init_transactions()
    with producer.kafka.transaction():
        pass


def test_closing_aborts_an_open_transaction(stage: Stage, two: FakeCluster) -> None:
    producer = transactional(stage, two)
    producer.kafka.init_transactions()
    producer.kafka.begin_transaction()
    producer.send(partition=0)
    producer.kafka.flush()
    producer.kafka.close()
    assert two.requests(END)[-1].message.committed is False
    assert committed(two) == []


def test_another_producer_commits_a_prepared_transaction(stage: Stage, two: FakeCluster) -> None:
    writer = transactional(stage, two)
    writer.kafka.init_transactions()
    writer.kafka.begin_transaction()
    writer.send(value=b"prepared", partition=0)
    handed = pickle.loads(pickle.dumps(writer.kafka.prepare()))
    writer.kafka.close()
    assert committed(two) == []
    for _ in range(2):
        transactional(stage, two).kafka.commit_prepared(handed)
    assert committed(two) == [b"prepared"]
    with pytest.raises(IllegalStateError, match="was committed"):
        transactional(stage, two).kafka.abort_prepared(handed)


def test_after_a_newer_producer_the_outcome_is_unknown(stage: Stage, two: FakeCluster) -> None:
    writer = transactional(stage, two)
    writer.kafka.init_transactions()
    writer.kafka.begin_transaction()
    writer.send(value=b"committed", partition=0)
    handed = writer.kafka.prepare()
    transactional(stage, two).kafka.commit_prepared(handed)
    newer = transactional(stage, two).kafka
    newer.init_transactions()
    with newer.transaction():
        newer.send("t", b"next", partition=0)
    with pytest.raises(FencedError, match="not known"):
        transactional(stage, two).kafka.commit_prepared(handed)
    assert committed(two) == [b"committed", b"next"]


def test_one_broker_that_was_not_upgraded_selects_protocol_1(stage: Stage) -> None:
    cluster = stage.cluster(2, topics={"t": 2})
    cluster.set_versions(PRODUCE, (3, 11), 2)
    producer = transactional(stage, cluster)
    producer.kafka.init_transactions()
    producer.kafka.partitions_for("t")
    results: list[Any] = []
    for _ in range(2):
        try:
            with producer.kafka.transaction():
                for partition in (0, 1):
                    producer.send(partition=partition)
        except AbortTransactionError as error:
            results.append(error)
    assert len(results) <= 1
    assert committed(cluster, 1) != []

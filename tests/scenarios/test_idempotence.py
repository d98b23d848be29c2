"""Idempotence: each record exactly once and in order under lost responses, errors and retries."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kproducer import BrokerError, Outcome
from kproducer.errors.broker_errors import ClusterAuthorizationFailedError, MessageTooLargeError
from kproducer.testing.fakebroker import FakeCluster, Hold, Reply, RequestContext, faults
from kproducer.testing.fakebroker.actions import Action
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S, WatchedProducer

PRODUCE, INIT_PRODUCER_ID = 0, 22


def idempotent(stage: Stage, cluster: FakeCluster, **config: Any) -> WatchedProducer:
    return stage.producer(cluster, **{"batch_size": 0, **config})


def values(cluster: FakeCluster, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in cluster.records("t", partition)]


def test_batches_are_numbered(stage: Stage, cluster: FakeCluster) -> None:
    producer = idempotent(stage, cluster)
    sent = producer.send_many(20)
    producer.kafka.flush(PATIENCE_S)
    assert values(cluster) == [s.value for s in sent]
    batches = cluster.topics["t"].partitions[0].batches
    assert {(b.producer_id, b.producer_epoch) for b in batches} == {(batches[0].producer_id, 0)}
    assert batches[0].producer_id >= 0
    sequence = 0
    for batch in batches:
        assert batch.base_sequence == sequence
        sequence += len(batch.records)
    assert len(cluster.requests(INIT_PRODUCER_ID)) == 1


def test_no_producer_id_is_requested_before_the_first_record(stage: Stage, cluster: FakeCluster) -> None:
    producer = idempotent(stage, cluster)
    producer.kafka.partitions_for("t")
    assert cluster.requests(INIT_PRODUCER_ID) == []


@pytest.mark.parametrize("code", [14, 15, 16, 51, 7])
def test_init_producer_id_is_retried_until_it_succeeds(stage: Stage, cluster: FakeCluster, code: int) -> None:
    def refuse(context: RequestContext) -> Action:
        answer = context.apply()
        answer.error_code = code
        return Reply(answer)

    cluster.control(INIT_PRODUCER_ID, refuse)
    cluster.control(INIT_PRODUCER_ID, faults.close_before())
    cluster.control(INIT_PRODUCER_ID, faults.close_after())
    producer = idempotent(stage, cluster)
    assert producer.send().metadata().offset == 0
    assert len(cluster.requests(INIT_PRODUCER_ID)) == 4


def test_one_request_in_flight_is_enough_for_all(stage: Stage, cluster: FakeCluster) -> None:
    producer = idempotent(stage, cluster, max_in_flight_requests_per_connection=1)
    sent = producer.send_many(10)
    assert [s.metadata().offset for s in sent] == list(range(10))


def test_a_refused_producer_id_fails_waiting_records_and_is_requested_again(
    stage: Stage, cluster: FakeCluster
) -> None:
    def refuse(context: RequestContext) -> Action:
        answer = context.apply()
        answer.error_code, answer.producer_id, answer.producer_epoch = 31, -1, -1
        return Reply(answer)

    cluster.control(INIT_PRODUCER_ID, refuse)
    producer = idempotent(stage, cluster)
    error = producer.send().error()
    assert isinstance(error, ClusterAuthorizationFailedError)
    assert error.outcome is Outcome.NOT_SENT
    assert "IdempotentWrite" in str(error)
    assert "enable_idempotence=False" in str(error)
    assert producer.send().metadata().offset == 0


@pytest.mark.parametrize("code", [-1, 42])
def test_an_unexpected_init_producer_id_error_does_not_end_the_producer(
    stage: Stage, cluster: FakeCluster, code: int
) -> None:
    def refuse(context: RequestContext) -> Action:
        answer = context.apply()
        answer.error_code, answer.producer_id, answer.producer_epoch = code, -1, -1
        return Reply(answer)

    cluster.control(INIT_PRODUCER_ID, refuse)
    producer = idempotent(stage, cluster)
    assert "enable_idempotence=False" in str(producer.send().error())
    assert producer.send().metadata().offset == 0


def test_a_lost_response_does_not_duplicate_records(stage: Stage, cluster: FakeCluster) -> None:
    cluster.control(PRODUCE, faults.close_after())
    producer = idempotent(stage, cluster)
    assert producer.send(value=b"once").metadata().offset == 0
    assert values(cluster) == [b"once"]
    assert len(cluster.requests(PRODUCE)) == 2


@pytest.mark.parametrize("code", [6, 7, 19, 20])
def test_five_in_flight_are_sent_again_in_order(stage: Stage, cluster: FakeCluster, code: int) -> None:
    producer = idempotent(stage, cluster)
    producer.send().metadata()
    gate = cluster.gate()
    cluster.control(PRODUCE, lambda context: Hold(gate, faults.refuse_produce(code)))
    sent = producer.send_many(12)
    cluster.wait_for_requests(PRODUCE, 6)
    gate.open()
    assert [s.metadata().offset for s in sent] == list(range(1, 13))
    assert values(cluster)[1:] == [s.value for s in sent]


def test_a_connection_that_ends_with_five_in_flight(stage: Stage, cluster: FakeCluster) -> None:
    producer = idempotent(stage, cluster)
    producer.send().metadata()
    gate = cluster.gate()
    cluster.control(PRODUCE, lambda context: Hold(gate, faults.close_after()))
    sent = producer.send_many(12)
    cluster.wait_for_requests(PRODUCE, 6)
    gate.open()
    assert [s.metadata().offset for s in sent] == list(range(1, 13))


def test_a_moved_leader_changes_nothing(stage: Stage) -> None:
    cluster = stage.cluster(2, topics={"t": 1})
    producer = idempotent(stage, cluster)
    first = producer.send_many(5)
    cluster.move_leader("t", 0, 2)
    second = producer.send_many(5)
    assert [s.metadata().offset for s in first + second] == list(range(10))


def test_a_refused_batch_does_not_fail_the_next_ones(stage: Stage, cluster: FakeCluster) -> None:
    cluster.topics["t"].options.max_message_bytes = 300
    producer = idempotent(stage, cluster)
    producer.send().metadata()
    large = producer.send(value=b"x" * 500)
    rest = producer.send_many(8)
    assert isinstance(large.error(), MessageTooLargeError)
    assert [s.metadata().offset for s in rest] == list(range(1, 9))
    assert values(cluster)[1:] == [s.value for s in rest]
    assert {b.producer_epoch for b in cluster.topics["t"].partitions[0].batches} <= {0, 1}


def test_a_batch_that_is_too_large_is_split_and_keeps_its_sequence_numbers(
    stage: Stage, cluster: FakeCluster
) -> None:
    cluster.topics["t"].options.max_message_bytes = 400
    gate = cluster.gate()
    producer = idempotent(stage, cluster, batch_size=16384, linger_ms=50)
    cluster.control(INIT_PRODUCER_ID, faults.hold_before(gate))
    sent = [producer.send(value=b"%03d" % index + b"x" * 50) for index in range(30)]
    gate.open()
    assert [s.metadata().offset for s in sent] == list(range(30))
    batches = cluster.topics["t"].partitions[0].batches
    assert [b.base_sequence for b in batches] == [b.base_offset for b in batches]


@pytest.mark.parametrize("refuses_unknown", [False, True])
def test_a_broker_without_state_of_the_producer(
    stage: Stage, cluster: FakeCluster, refuses_unknown: bool
) -> None:
    producers = cluster.topics["t"].partitions[0].producers
    producers.refuses_unknown = refuses_unknown
    producer = idempotent(stage, cluster)
    first = producer.send_many(3)
    assert [s.metadata().offset for s in first] == [0, 1, 2]
    with cluster.log.changed:
        producers.forget()
    second = producer.send_many(3)
    assert [s.metadata().offset for s in second] == [3, 4, 5]


def test_random_faults_neither_duplicate_nor_reorder(stage: Stage) -> None:
    cluster = stage.cluster(2, topics={"t": 3})
    rng = random.Random(3)

    def sometimes(context: RequestContext) -> Action | None:
        chance = rng.random()
        if chance < 0.10:
            return faults.refuse_produce(rng.choice([6, 7, 19, 20]))(context)
        if chance < 0.15:
            return faults.close_before()(context)
        if chance < 0.20:
            return faults.close_after()(context)
        return None

    cluster.control(PRODUCE, sometimes, times=None)
    producer = idempotent(stage, cluster, retry_backoff_ms=2, batch_size=200, linger_ms=1)
    sent = [producer.send(partition=index % 3) for index in range(400)]
    producer.kafka.flush(PATIENCE_S)
    for partition in range(3):
        mine = [s.value for s in sent if s.metadata().partition == partition]
        assert values(cluster, partition) == mine


def test_a_broker_without_producer_ids_is_named(stage: Stage, cluster: FakeCluster) -> None:
    cluster.set_versions(INIT_PRODUCER_ID, None)
    producer = idempotent(stage, cluster)
    error = producer.send().error()
    assert error.outcome is Outcome.NOT_SENT
    assert "InitProducerId" in str(error)
    assert "enable_idempotence=False" in str(error)
    assert isinstance(error.__cause__, BrokerError)


@pytest.mark.parametrize(
    "settings",
    [
        {"acks": 1},
        {"retries": 0},
        {"max_in_flight_requests_per_connection": 6},
        {"enable_idempotence": False},
    ],
)
def test_settings_incompatible_with_idempotence_disable_sequence_numbers(
    stage: Stage, cluster: FakeCluster, settings: dict[str, Any]
) -> None:
    producer = idempotent(stage, cluster, **settings)
    producer.send()
    producer.kafka.flush(PATIENCE_S)
    assert cluster.requests(INIT_PRODUCER_ID) == []
    assert [b.producer_id for b in cluster.topics["t"].partitions[0].batches] == [-1]

"""Idempotence: each record exactly once and in order under lost responses, errors and retries."""

from __future__ import annotations

from typing import Any

import pytest

from kproducer import BrokerError, Outcome
from kproducer.errors.broker_errors import ClusterAuthorizationFailedError
from kproducer.testing.fakebroker import FakeCluster, Reply, RequestContext, faults
from kproducer.testing.fakebroker.actions import Action, Silence
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S, WatchedProducer
from tests.scenarios.transactions import answer_code

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
    cluster.control(INIT_PRODUCER_ID, answer_code(code))
    cluster.control(INIT_PRODUCER_ID, faults.close_before())
    cluster.control(INIT_PRODUCER_ID, faults.close_after())
    producer = idempotent(stage, cluster)
    assert producer.send().metadata().offset == 0
    assert len(cluster.requests(INIT_PRODUCER_ID)) == 4


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


def test_a_recognised_batch_keeps_the_timestamps_of_its_records(stage: Stage, cluster: FakeCluster) -> None:
    """The response to a duplicate has the batch's newest timestamp as its log append time."""
    producer = idempotent(stage, cluster, batch_size=16384, linger_ms=20)
    producer.send().metadata()
    cluster.control(PRODUCE, faults.close_after())
    sent = [producer.send(timestamp_ms=1000 * number) for number in (3, 1, 2)]
    assert [one.metadata().timestamp_ms for one in sent] == [3000, 1000, 2000]
    assert len(cluster.topics["t"].partitions[0].batches) == 2


def test_a_batch_that_may_have_been_written_says_so(stage: Stage, cluster: FakeCluster) -> None:
    """After its clean restart, the broker knows only the last batch, not those before it."""
    producer = idempotent(stage, cluster)
    producer.send().metadata()

    def lose_the_response(context: RequestContext) -> Action:
        context.apply()
        return Silence()

    cluster.control(PRODUCE, lose_the_response, times=2)
    first, second = producer.send(), producer.send()
    cluster.wait_for(lambda: len(values(cluster)) == 3)
    cluster.restart_cleanly(1)
    error = first.error()
    assert error.outcome is Outcome.UNKNOWN
    assert "may have been written" in str(error)
    assert second.metadata().offset == 2

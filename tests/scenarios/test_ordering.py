"""Order within a partition with one request in flight at a time."""

from __future__ import annotations

import random

import pytest

from kproducer import DeliveryTimeoutError, Outcome
from kproducer.testing.fakebroker import FakeCluster, Hold, RequestContext, faults
from kproducer.testing.fakebroker.actions import Action
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S

PRODUCE, METADATA = 0, 3


@pytest.mark.parametrize("code", [3, 6, 7, 19])
def test_a_retried_batch_is_not_overtaken(stage: Stage, cluster: FakeCluster, code: int) -> None:
    gate = cluster.gate()
    cluster.control(PRODUCE, lambda context: Hold(gate, faults.refuse_produce(code)))
    producer = stage.producer(cluster, max_in_flight_requests_per_connection=1, batch_size=0)
    sent = producer.send_many(10)
    gate.wait_until_reached()
    gate.open()
    assert [s.metadata().offset for s in sent] == list(range(10))
    assert [r.value for r in cluster.records("t")] == [s.value for s in sent]


def test_order_survives_random_faults_on_several_partitions(stage: Stage) -> None:
    cluster = stage.cluster(2, topics={"t": 4})
    rng = random.Random(5)

    def sometimes(context: RequestContext) -> Action | None:
        chance = rng.random()
        if chance < 0.15:
            return faults.refuse_produce(rng.choice([6, 7, 19]))(context)
        if chance < 0.20:
            return faults.close_before()(context)
        if chance < 0.25:
            return faults.fragmented(7)(context)
        return None

    cluster.control(PRODUCE, sometimes, times=None)
    producer = stage.producer(
        cluster, max_in_flight_requests_per_connection=1, batch_size=200, retry_backoff_ms=2, linger_ms=1
    )
    sent = [producer.send(partition=index % 4) for index in range(300)]
    producer.kafka.flush(PATIENCE_S)
    for partition in range(4):
        mine = [s.value for s in sent if s.metadata().partition == partition]
        assert [r.value for r in cluster.records("t", partition)] == mine


def test_lost_responses_duplicate_a_batch_but_never_reorder(stage: Stage, cluster: FakeCluster) -> None:
    rng = random.Random(11)
    cluster.control(PRODUCE, lambda c: faults.close_after()(c) if rng.random() < 0.2 else None, times=None)
    producer = stage.producer(cluster, max_in_flight_requests_per_connection=1, batch_size=0)
    sent = producer.send_many(60)
    producer.kafka.flush(PATIENCE_S)
    in_log = [r.value for r in cluster.records("t")]
    without_repeats = [v for index, v in enumerate(in_log) if index == 0 or in_log[index - 1] != v]
    assert without_repeats == [s.value for s in sent]


def test_the_batch_behind_an_expired_one_waits_for_its_request(stage: Stage, cluster: FakeCluster) -> None:
    """The first batch expires in flight: the next may not be sent before that request has ended."""
    cluster.control(PRODUCE, faults.refuse_produce(7))
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_after(gate))
    producer = stage.producer(
        cluster,
        max_in_flight_requests_per_connection=1,
        batch_size=0,
        request_timeout_ms=1500,
        delivery_timeout_ms=1500,
        retry_backoff_ms=700,
        retry_backoff_max_ms=700,
    )
    first = producer.send()
    gate.wait_until_reached()
    error = first.error()  # in flight for the second time, with half of the request timeout left
    assert isinstance(error, DeliveryTimeoutError)
    assert error.outcome is Outcome.UNKNOWN
    second = producer.send()
    assert len(cluster.requests(PRODUCE)) == 2
    gate.open()
    assert second.metadata().offset == 1
    assert [r.value for r in cluster.records("t")] == [first.value, second.value]


def test_a_batch_at_the_old_leader_is_not_overtaken_by_one_for_the_new_leader(stage: Stage) -> None:
    """The other connection has room, but the partition is blocked until the first response arrives."""
    cluster = stage.cluster(2)
    producer = stage.producer(
        cluster, max_in_flight_requests_per_connection=1, batch_size=0, metadata_max_age_ms=50
    )
    producer.send().metadata()
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate), broker_id=1)
    first = producer.send()
    gate.wait_until_reached()
    cluster.move_leader("t", 0, 2)
    asked = len(cluster.requests(METADATA, broker_id=2))
    cluster.wait_for_requests(METADATA, asked + 2, broker_id=2)  # the producer knows the new leader now
    second = producer.send()
    cluster.wait_for_requests(METADATA, asked + 4, broker_id=2)
    assert cluster.requests(PRODUCE, broker_id=2) == []
    gate.open()
    assert [first.metadata().offset, second.metadata().offset] == [1, 2]


def test_several_batches_in_flight_keep_order_without_faults(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster, max_in_flight_requests_per_connection=5, batch_size=0)
    sent = producer.send_many(200)
    assert [s.metadata().offset for s in sent] == list(range(200))


def test_with_several_in_flight_a_retry_may_overtake_but_loses_nothing(
    stage: Stage, cluster: FakeCluster
) -> None:
    cluster.control(PRODUCE, faults.refuse_produce(7))
    producer = stage.producer(cluster, ordered=False, max_in_flight_requests_per_connection=5, batch_size=0)
    sent = producer.send_many(20)
    producer.kafka.flush(PATIENCE_S)
    assert sorted(s.metadata().offset for s in sent) == list(range(20))

"""Produce errors end to end: which are retried, which fail, and what the caller gets."""

from __future__ import annotations

from kproducer import DeliveryTimeoutError, Outcome
from kproducer.testing.fakebroker import FakeCluster, faults
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S

PRODUCE, METADATA = 0, 3


def test_per_record_errors_fail_the_named_records_only(stage: Stage, cluster: FakeCluster) -> None:
    cluster.topics["t"].options.compacted = True
    producer = stage.producer(cluster, linger_ms=50)
    innocent, culprit, second = producer.send(key=b"k"), producer.send(), producer.send(key=b"k2")
    producer.kafka.flush(PATIENCE_S)
    assert "record 1 has no key" in str(culprit.error())
    for bystander in (innocent, second):
        assert "record 1 has no key" not in str(bystander.error())
        assert bystander.error().outcome is Outcome.REJECTED
    assert producer.send(key=b"k").metadata().offset == 0


def test_a_new_leader_named_in_the_response_is_used_at_once(stage: Stage) -> None:
    cluster = stage.cluster(2)
    producer = stage.producer(cluster, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000)
    producer.send().metadata()
    cluster.move_leader("t", 0, 2)
    gate = cluster.gate()
    cluster.control(METADATA, faults.hold_before(gate), times=None)
    assert producer.send().metadata().offset == 1
    assert len(cluster.requests(PRODUCE, broker_id=1)) == 2
    assert len(cluster.requests(PRODUCE, broker_id=2)) == 1
    gate.open()


def test_a_leader_that_never_accepts_ends_in_a_timeout_without_a_flood(
    stage: Stage, cluster: FakeCluster
) -> None:
    cluster.brokers[1].leader_hints = False
    cluster.control(PRODUCE, faults.refuse_produce(6), times=None)
    producer = stage.producer(
        cluster,
        request_timeout_ms=600,
        delivery_timeout_ms=600,
        retry_backoff_ms=50,
        retry_backoff_max_ms=200,
    )
    error = producer.send().error()
    assert isinstance(error, DeliveryTimeoutError)
    assert "NOT_LEADER_OR_FOLLOWER" in str(error)
    # NOT_LEADER_OR_FOLLOWER (6) is also returned by a leader that loses the leadership after the append.
    assert error.outcome is Outcome.UNKNOWN
    # 50, 100, 200, 200 ms with 20% jitter: at most six attempts.
    assert len(cluster.requests(PRODUCE)) <= 7
    assert len(cluster.requests(METADATA)) <= 16


def test_acks_0_errors_close_the_connection_and_the_producer_continues(
    stage: Stage, cluster: FakeCluster
) -> None:
    producer = stage.producer(cluster, acks=0)
    cluster.control(PRODUCE, faults.refuse_produce(29))
    producer.send().metadata()  # not reported: with acks=0 it resolves when the bytes are written
    used = cluster.wait_for_requests(PRODUCE, 1)[0].connection_id
    cluster.wait_for(lambda: used not in cluster.open_connections(), what="the broker closed")
    cluster.wait_for(lambda: len(cluster.requests(METADATA)) >= 2, what="metadata asked after the close")
    producer.send().metadata()
    cluster.wait_for(lambda: len(cluster.records("t")) == 1, what="the second record")

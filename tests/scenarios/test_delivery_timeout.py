"""Records that cannot be delivered in time: when they fail, what the error says, and which others succeed."""

from __future__ import annotations

import time

import pytest

from kproducer import BufferExhaustedError, DeliveryTimeoutError, KafkaError, Outcome
from kproducer.testing.fakebroker import FakeCluster, faults
from kproducer.testing.fakebroker.actions import Hold
from tests.scenarios import internals
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S

PRODUCE, METADATA = 0, 3
SHORT_MS = 800
SHORT = {"request_timeout_ms": SHORT_MS, "delivery_timeout_ms": SHORT_MS}
#: The second attempt is sent in the middle of the delivery timeout and expires in flight; both halves are
#: long enough for a busy machine.
EXPIRES_IN_FLIGHT = {
    "request_timeout_ms": 1500,
    "delivery_timeout_ms": 1500,
    "retry_backoff_ms": 700,
    "retry_backoff_max_ms": 700,
}


def test_a_partition_without_a_leader_times_out_and_the_other_is_delivered(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 2})
    cluster.move_leader("t", 0, -1)
    producer = stage.producer(cluster, **SHORT)
    stuck, fine = producer.send(partition=0), producer.send(partition=1)
    assert fine.metadata().offset == 0
    error = stuck.error()
    assert isinstance(error, DeliveryTimeoutError)
    assert error.outcome is Outcome.NOT_SENT
    assert "t-0" in str(error)
    assert "delivery_timeout_ms" in str(error)
    assert "leader" in str(error).lower()
    assert 2 <= len(cluster.requests(METADATA)) <= 25


def test_a_partition_whose_leader_comes_back_in_time_is_delivered(stage: Stage) -> None:
    cluster = stage.cluster()
    cluster.move_leader("t", 0, -1)
    producer = stage.producer(cluster)
    sent = producer.send(partition=0)
    cluster.wait_for_requests(METADATA, 3)
    cluster.move_leader("t", 0, 1)
    assert sent.metadata().offset == 0


def test_a_dead_leader_times_out_and_the_error_names_it(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster, **SHORT)
    producer.send().metadata()
    cluster.kill(1)
    error = producer.send().error()
    assert isinstance(error, DeliveryTimeoutError)
    # UNKNOWN if the batch was written to the socket before the disconnect was noticed.
    assert error.outcome in (Outcome.NOT_SENT, Outcome.UNKNOWN)
    assert f"127.0.0.1:{cluster.brokers[1].port}" in str(error)


def test_records_expire_neither_early_nor_twice(stage: Stage, cluster: FakeCluster) -> None:
    cluster.move_leader("t", 0, -1)
    producer = stage.producer(cluster, **SHORT)
    started = time.monotonic()
    sent = producer.send_many(20, partition=0)
    for one in sent:
        assert isinstance(one.error(), DeliveryTimeoutError)
    assert (time.monotonic() - started) * 1000 >= SHORT_MS - 1


def test_an_unanswered_request_ends_as_unknown(stage: Stage, cluster: FakeCluster) -> None:
    cluster.control(PRODUCE, faults.stall_after(), times=None)
    error = stage.producer(cluster, **SHORT).send().error()
    assert isinstance(error, KafkaError)
    assert error.outcome is Outcome.UNKNOWN
    assert cluster.records("t") != []


def test_expired_in_flight_and_then_acknowledged_is_counted_once(stage: Stage, cluster: FakeCluster) -> None:
    cluster.control(PRODUCE, faults.refuse_produce(7))
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_after(gate))
    producer = stage.producer(cluster, **EXPIRES_IN_FLIGHT)
    late = producer.send()
    error = late.error()
    assert isinstance(error, DeliveryTimeoutError)
    assert error.outcome is Outcome.UNKNOWN
    free, total = internals.buffer_memory(producer.kafka)
    assert free < total, "the buffer was released while its request was in flight"
    gate.open()
    assert producer.send().metadata().offset == 1
    assert len(late.callbacks) == 1


@pytest.mark.parametrize("code", [10, 7])
def test_expired_in_flight_and_then_refused_is_neither_split_nor_resent(
    stage: Stage, cluster: FakeCluster, code: int
) -> None:
    cluster.control(PRODUCE, faults.refuse_produce(7))
    gate = cluster.gate()
    cluster.control(PRODUCE, lambda context: Hold(gate, faults.refuse_produce(code)))
    settings = {**EXPIRES_IN_FLIGHT, "delivery_timeout_ms": 1800}
    producer = stage.producer(cluster, linger_ms=300, **settings)
    late = producer.send_many(3)
    gate.wait_until_reached()
    for one in late:
        assert isinstance(one.error(), DeliveryTimeoutError)
    gate.open()
    assert producer.send().metadata().offset == 0
    assert [r.value for r in cluster.records("t")] == [producer.sent[-1].value]
    assert len(cluster.requests(PRODUCE)) == 3


def test_a_batch_half_written_to_a_stalled_socket_keeps_its_bytes(stage: Stage) -> None:
    """The batch expires when half of it is in the socket: the broker still reads the same bytes later."""
    cluster = stage.cluster(topics={"t": 1, "other": 1})
    cluster.brokers[1].receive_buffer_bytes = 4096
    cluster.kill(1)
    cluster.restart(1)
    size = 700_000
    producer = stage.producer(
        cluster,
        batch_size=size + 1000,
        buffer_memory=2 * (size + 1000),
        send_buffer_bytes=8192,
        request_timeout_ms=2000,
        delivery_timeout_ms=2000,
        retry_backoff_ms=1000,
        retry_backoff_max_ms=1000,
        max_block_ms=100,
    )
    producer.learn("t", "other")
    cluster.control(PRODUCE, faults.refuse_produce(19))
    stuck = producer.send("t", b"A" * size)
    cluster.wait_for_requests(PRODUCE, 1)
    cluster.stall_reading(1)
    error = stuck.error()
    assert isinstance(error, DeliveryTimeoutError)
    assert error.outcome is Outcome.UNKNOWN
    # The other half of the memory is available, but not the buffer of the stalled batch.
    later = producer.send("other", b"B" * size)
    with pytest.raises(BufferExhaustedError):
        producer.send("other", b"C" * size)
    cluster.resume_reading(1)
    assert later.metadata().offset == 0
    assert [r.value for r in cluster.records("t")] == [b"A" * size]


def test_a_huge_delivery_timeout_expires_nothing(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(
        cluster, delivery_timeout_ms=2**31 - 1, request_timeout_ms=30_000, linger_ms=2**31 - 30_002
    )
    sent = producer.send()
    producer.kafka.flush(PATIENCE_S)
    assert sent.metadata().offset == 0


def test_the_producer_works_again_after_a_timeout(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster, **SHORT)
    producer.send().metadata()
    cluster.kill(1)
    assert isinstance(producer.send().error(), DeliveryTimeoutError)
    cluster.restart(1)
    assert producer.send_until_it_works().metadata().offset == 1

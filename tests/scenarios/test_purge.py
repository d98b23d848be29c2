"""purge(): what is given up, what is known of it, and that the producer works as before afterwards."""

from __future__ import annotations

import threading

import pytest

from kproducer import (
    AbortTransactionError,
    FlushResult,
    IllegalStateError,
    KafkaError,
    Outcome,
    ProducerClosedError,
    PurgedError,
    RecordMetadata,
)
from kproducer.testing.fakebroker import FakeCluster, faults
from tests.scenarios import internals
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S

PRODUCE = 0
HOURS_MS = 3_600_000
WAITS = {"linger_ms": HOURS_MS, "delivery_timeout_ms": 2 * HOURS_MS}


def test_records_in_queues_were_not_sent(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster, **WAITS).learn("t")
    sent = producer.send_many(10)
    assert producer.kafka.purge() == 10
    for each in sent:
        error = each.error()
        assert isinstance(error, PurgedError)
        assert error.outcome is Outcome.NOT_SENT
    assert producer.kafka.purge() == 0
    assert producer.kafka.flush() == FlushResult(0, 0)
    assert cluster.records("t") == []


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("is_written", [False, True])
def test_records_in_flight_are_unknown_and_later_ones_follow(
    stage: Stage, cluster: FakeCluster, idempotent: bool, is_written: bool
) -> None:
    gate = cluster.gate()
    cluster.control(PRODUCE, (faults.hold_after if is_written else faults.hold_before)(gate))
    producer = stage.producer(cluster, enable_idempotence=idempotent).learn("t")
    late = producer.send()
    gate.wait_until_reached()
    assert producer.kafka.purge(in_queue=True, in_flight=False) == 0
    assert not late.future.done()
    assert producer.kafka.purge(in_queue=False, in_flight=True) == 1
    error = late.error()
    assert isinstance(error, PurgedError)
    assert error.outcome is Outcome.UNKNOWN
    free, total = internals.buffer_memory(producer.kafka)
    assert free < total, "the buffer was released while its request was in flight"
    gate.open()
    assert producer.send().metadata().offset == 1
    assert len(late.callbacks) == 1


def test_each_argument_leaves_the_other_records_alone(stage: Stage, cluster: FakeCluster) -> None:
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_after(gate))
    producer = stage.producer(
        cluster, enable_idempotence=True, max_in_flight_requests_per_connection=1, ordered=False
    ).learn("t")
    in_flight = producer.send()
    gate.wait_until_reached()
    queued = producer.send_many(3)
    assert producer.kafka.purge(in_queue=True, in_flight=False) == 3
    assert [each.error().outcome for each in queued] == [Outcome.NOT_SENT] * 3
    gate.open()
    assert in_flight.metadata().offset == 0
    assert producer.send().metadata().offset == 1


def test_a_transaction_can_only_be_aborted_afterwards(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster, transactional_id="tx", **WAITS)
    kafka = producer.kafka
    kafka.init_transactions()
    kafka.begin_transaction()
    sent = producer.send()
    assert kafka.purge() == 1
    assert sent.error().outcome is Outcome.NOT_SENT
    with pytest.raises(AbortTransactionError, match="purge"):
        kafka.commit_transaction()
    kafka.abort_transaction()
    kafka.begin_transaction()
    kept = producer.send()
    kafka.commit_transaction()
    assert [record.value for record in cluster.committed_records("t", 0)] == [kept.value]


def test_a_callback_and_a_closed_producer_cannot_purge(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster)
    raised: list[BaseException] = []

    def purge(metadata: RecordMetadata, error: KafkaError | None) -> None:
        try:
            producer.kafka.purge()
        except IllegalStateError as refusal:
            raised.append(refusal)

    producer.send(on_delivery=purge).metadata()
    assert "would deadlock" in str(raised[0])
    producer.close()
    with pytest.raises(ProducerClosedError):
        producer.kafka.purge()


def test_a_purge_ends_when_the_producer_is_closed_meanwhile(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster, **WAITS).learn("t")
    blocked, go_on = threading.Event(), threading.Event()

    def block(metadata: RecordMetadata, error: KafkaError | None) -> None:
        blocked.set()
        go_on.wait(PATIENCE_S)

    producer.send(on_delivery=block)
    closing = threading.Thread(target=producer.kafka.close, args=(PATIENCE_S,))
    closing.start()
    assert blocked.wait(PATIENCE_S)
    purging = threading.Thread(target=lambda: internals.purge_of_engine(producer.kafka))
    purging.start()
    go_on.set()
    purging.join(PATIENCE_S)
    closing.join(PATIENCE_S)
    assert not purging.is_alive()

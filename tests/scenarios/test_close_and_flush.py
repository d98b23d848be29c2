"""close(), flush() and the end of a producer, with and without faults."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest

from kproducer import (
    CloseTimeoutError,
    KafkaError,
    KafkaTimeoutError,
    Outcome,
    ProducerClosedError,
)
from kproducer._core.engine import producer_engine
from kproducer.testing.fakebroker import FakeCluster, faults
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S, WatchedProducer

PRODUCE, METADATA = 0, 3
HOURS_MS = 3_600_000


def _quiet_close(producer: WatchedProducer, timeout: float) -> None:
    """Close; a CloseTimeoutError with the number of lost records is a valid result."""
    with contextlib.suppress(CloseTimeoutError):
        producer.close(timeout)


def test_close_is_idempotent_and_the_second_call_returns_at_once(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster)
    producer.send().metadata()
    producer.close(PATIENCE_S)
    for _ in range(3):
        producer.close()


def test_a_closed_producer_refuses_everything_but_close(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster)
    producer.send().metadata()
    producer.close(PATIENCE_S)
    with pytest.raises(ProducerClosedError, match="close it after the last call, or create another one"):
        producer.send()
    with pytest.raises(ProducerClosedError, match="create another one"):
        producer.kafka.partitions_for("t")


def test_the_context_manager_closes(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster, linger_ms=HOURS_MS, delivery_timeout_ms=2 * HOURS_MS)
    with producer.kafka:
        sent = producer.send()
    assert sent.metadata().offset == 0


def test_a_producer_that_never_sent_closes_at_once(stage: Stage, cluster: FakeCluster) -> None:
    stage.producer(cluster).close(PATIENCE_S)
    unreachable = stage.producer(cluster, bootstrap_servers=["127.0.0.1:1"])
    unreachable.close(PATIENCE_S)


@pytest.mark.parametrize("timeout", [0, 0.2])
def test_close_with_a_dead_cluster_is_bounded_and_fails_every_future(
    stage: Stage, cluster: FakeCluster, timeout: float
) -> None:
    producer = stage.producer(cluster)
    producer.send().metadata()
    cluster.kill(1)
    sent = producer.send_many(20)
    _quiet_close(producer, timeout)
    for one in sent:
        assert one.error().outcome in (Outcome.NOT_SENT, Outcome.UNKNOWN)


def test_close_reports_the_number_of_lost_records(
    stage: Stage, cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    producer = stage.producer(cluster)
    producer.send().metadata()
    cluster.kill(1)
    producer.send_many(7)
    text = ""
    try:
        producer.close(0.1)
    except CloseTimeoutError as error:
        text = str(error)
    assert "7" in text + caplog.text


def test_close_releases_callers_that_wait_for_metadata(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster, max_block_ms=600_000)
    errors: list[KafkaError] = []
    caller = threading.Thread(target=lambda: errors.append(producer.failing_send("nowhere")))
    caller.start()
    cluster.wait_for_requests(METADATA, 1)
    _quiet_close(producer, 0.5)
    caller.join(PATIENCE_S)
    assert len(errors) == 1
    assert isinstance(errors[0], ProducerClosedError)


def test_close_releases_callers_that_wait_for_memory(stage: Stage, cluster: FakeCluster) -> None:
    cluster.control(PRODUCE, faults.stall_before(), times=None)
    producer = stage.producer(cluster, buffer_memory=16_384, batch_size=16_384, max_block_ms=600_000)
    producer.send()
    cluster.wait_for_requests(PRODUCE, 1)
    errors: list[KafkaError] = []
    started = threading.Event()

    def blocked() -> None:
        started.set()
        errors.append(producer.failing_send())

    callers = [threading.Thread(target=blocked) for _ in range(3)]
    for caller in callers:
        caller.start()
    assert started.wait(PATIENCE_S)
    _quiet_close(producer, 0.2)
    for caller in callers:
        caller.join(PATIENCE_S)
    assert [type(error) for error in errors] == [ProducerClosedError] * 3


def test_close_while_threads_send_loses_no_record(stage: Stage) -> None:
    """Each send is either refused or has exactly one outcome; the check after the test counts them."""
    cluster = stage.cluster(topics={"t": 3})
    # With more memory, the compiled kernel would accept a hundred thousand records before the first 200
    # arrive.
    producer = stage.producer(cluster, linger_ms=1, ordered=False, buffer_memory=131072)
    producer.send().metadata()
    running = threading.Barrier(5)

    def keep_sending() -> None:
        running.wait()
        while True:
            try:
                producer.send()
            except ProducerClosedError:
                return

    callers = [threading.Thread(target=keep_sending) for _ in range(4)]
    for caller in callers:
        caller.start()
    running.wait()
    cluster.wait_for(lambda: sum(len(cluster.records("t", p)) for p in range(3)) > 200, what="traffic")
    _quiet_close(producer, 0)
    for caller in callers:
        caller.join(PATIENCE_S)
        assert not caller.is_alive()


def test_flush_without_records_returns(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster)
    producer.kafka.flush(PATIENCE_S)
    producer.send().metadata()
    producer.kafka.flush(PATIENCE_S)


def test_flush_that_times_out_restores_linger(stage: Stage, cluster: FakeCluster) -> None:
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate))
    producer = stage.producer(cluster, linger_ms=HOURS_MS, delivery_timeout_ms=2 * HOURS_MS)
    first = producer.send()
    with pytest.raises(KafkaTimeoutError, match="flush"):
        producer.kafka.flush(0.2)
    gate.open()
    first.metadata()
    second = producer.send()
    producer.kafka.partitions_for("t")
    assert not second.future.done()
    producer.kafka.flush(PATIENCE_S)
    assert second.metadata().offset == 1


def test_flush_does_not_wait_for_later_sends(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster, linger_ms=1)
    stop = threading.Event()

    def feed() -> None:
        while not stop.is_set():
            producer.send().metadata()

    feeder = threading.Thread(target=feed)
    producer.send().metadata()
    feeder.start()
    try:
        for _ in range(5):
            earlier = producer.send()
            producer.kafka.flush(PATIENCE_S)
            assert earlier.future.done()
    finally:
        stop.set()
        feeder.join(PATIENCE_S)


def test_close_0_returns_soon_even_with_a_long_backoff(stage: Stage, cluster: FakeCluster) -> None:
    cluster.control(PRODUCE, faults.refuse_produce(19), times=None)
    producer = stage.producer(cluster, retry_backoff_ms=HOURS_MS, retry_backoff_max_ms=HOURS_MS)
    sent = producer.send()
    cluster.wait_for_requests(PRODUCE, 1)
    started = time.monotonic()
    _quiet_close(producer, 0)
    assert time.monotonic() - started < PATIENCE_S
    assert sent.error().outcome is not None


@pytest.mark.parametrize("kind", ["send", "send_many"])
def test_close_counts_records_that_a_blocked_callback_keeps_from_being_delivered(
    stage: Stage, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The I/O thread, which counts the records that it gives up, is still running by then."""
    monkeypatch.setattr(producer_engine, "_FORCED_JOIN_S", 0.1)
    producer = stage.producer(cluster)
    blocked, go_on = threading.Event(), threading.Event()

    def block(*_: object) -> None:
        blocked.set()
        go_on.wait(PATIENCE_S)

    producer.send(on_delivery=block)
    assert blocked.wait(PATIENCE_S)
    if kind == "send":
        futures = [producer.kafka.send("t", b"%d" % number) for number in range(3)]
    else:
        futures = list(producer.kafka.send_many("t", [b"%d" % number for number in range(3)]))
    with pytest.raises(CloseTimeoutError, match=r"3 records .* callback"):
        producer.close(0.1)
    assert not any(future.done() for future in futures)
    go_on.set()
    for future in futures:
        assert isinstance(future.exception(PATIENCE_S), ProducerClosedError)
    producer.close(PATIENCE_S)

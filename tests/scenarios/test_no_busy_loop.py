"""The I/O thread sleeps when it has nothing to do. Polls are counted over a fixed time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import pytest

from kproducer import CloseTimeoutError
from kproducer.testing.fakebroker import FakeCluster, faults
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import WatchedProducer

PRODUCE, METADATA = 0, 3
HOURS_MS = 3_600_000
_WATCHED_S = 0.5

Situation = Callable[[FakeCluster, WatchedProducer], None]


def _idle(cluster: FakeCluster, producer: WatchedProducer) -> None:
    """No records to send."""


def _dead_cluster(cluster: FakeCluster, producer: WatchedProducer) -> None:
    cluster.kill(1)
    producer.send()


def _dead_leader_that_metadata_still_names(cluster: FakeCluster, producer: WatchedProducer) -> None:
    cluster.brokers[2].listed_when_down = True
    cluster.kill(2)
    producer.send("other")


def _no_leader(cluster: FakeCluster, producer: WatchedProducer) -> None:
    cluster.move_leader("t", 0, -1)
    cluster.control(PRODUCE, faults.refuse_produce(6), times=None)
    producer.send()


def _unanswered_request(cluster: FakeCluster, producer: WatchedProducer) -> None:
    cluster.control(PRODUCE, faults.stall_before(), times=None)
    producer.send()
    cluster.wait_for_requests(PRODUCE, 3)


def _queued_behind_the_limit_of_requests_in_flight(cluster: FakeCluster, producer: WatchedProducer) -> None:
    _unanswered_request(cluster, producer)
    for _ in range(20):
        producer.send()


def _half_written_request(cluster: FakeCluster, producer: WatchedProducer) -> None:
    cluster.stall_reading(1)
    for index in range(10):
        producer.send(value=b"%d" % index + b"x" * 900_000)


def _lingering(cluster: FakeCluster, producer: WatchedProducer) -> None:
    producer.send()


def _backing_off(cluster: FakeCluster, producer: WatchedProducer) -> None:
    cluster.control(PRODUCE, faults.refuse_produce(19), times=None)
    producer.send()
    cluster.wait_for_requests(PRODUCE, 3)


def _throttled(cluster: FakeCluster, producer: WatchedProducer) -> None:
    cluster.brokers[1].throttle_time_ms = 60_000
    producer.send().metadata()
    producer.send()


def _every_connection_closed_at_once(cluster: FakeCluster, producer: WatchedProducer) -> None:
    cluster.control(None, faults.close_before(), times=None)
    cluster.drop_connections(1)
    cluster.drop_connections(2)
    producer.send()


_SITUATIONS: list[Situation] = [
    _idle,
    _dead_cluster,
    _dead_leader_that_metadata_still_names,
    _no_leader,
    _unanswered_request,
    _queued_behind_the_limit_of_requests_in_flight,
    _half_written_request,
    _lingering,
    _backing_off,
    _throttled,
    _every_connection_closed_at_once,
]


@pytest.mark.parametrize("situation", _SITUATIONS, ids=lambda situation: situation.__name__.strip("_"))
def test_the_io_thread_sleeps(stage: Stage, situation: Situation) -> None:
    cluster = stage.cluster(2, topics={})
    cluster.create_topic("t", leaders=[1])
    cluster.create_topic("other", leaders=[2])
    producer = stage.producer(
        cluster,
        linger_ms=HOURS_MS if situation is _lingering else 0,
        delivery_timeout_ms=2 * HOURS_MS,
        max_in_flight_requests_per_connection=2,
        send_buffer_bytes=16_384,
        retry_backoff_ms=100,
        retry_backoff_max_ms=1000,
        reconnect_backoff_ms=50,
        reconnect_backoff_max_ms=1000,
        ordered=False,
    )
    for topic in ("t", "other"):
        if situation is _lingering:
            producer.kafka.partitions_for(topic)
        else:
            producer.send(topic).metadata()
    situation(cluster, producer)
    before, started = stage.polls.count, time.monotonic()
    with pytest.raises(AssertionError):
        cluster.wait_for(lambda: False, timeout_s=_WATCHED_S)
    rounds, elapsed_s = stage.polls.count - before, time.monotonic() - started
    # A busy machine may take longer, and more time allows more polls.
    periods = elapsed_s / _WATCHED_S
    # Each attempt to connect or to send a request takes a few polls; the backoff allows about a dozen
    # attempts.
    assert rounds <= 80 * periods, f"{rounds} polls in {elapsed_s} s"
    if situation in (_idle, _lingering, _unanswered_request, _half_written_request, _throttled):
        assert rounds <= 12 * periods, f"{rounds} polls in {elapsed_s} s"
    cluster.resume_reading(1)
    cluster.brokers[1].throttle_time_ms = 0
    with contextlib.suppress(CloseTimeoutError):
        producer.close(0.05)

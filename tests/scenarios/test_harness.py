"""Tests of the standing checks: each fails when its promise is violated."""

from __future__ import annotations

import os
import threading

import pytest

from kproducer._core.kernel import data_plane
from kproducer.testing.fakebroker import FakeCluster, faults
from tests.scenarios import internals
from tests.scenarios.conftest import FORCED_HAND_OVERS, Stage
from tests.scenarios.harness import PollMeter, Resources, WatchedProducer

PRODUCE = 0


@pytest.fixture
def watched(stage: Stage, cluster: FakeCluster) -> WatchedProducer:
    """A producer with three delivered records; tests falsify its recorded results."""
    producer = stage.producer(cluster)
    for sent in producer.send_many(3):
        sent.metadata()
    producer.check()
    return producer


def test_a_second_callback_is_noticed(watched: WatchedProducer) -> None:
    watched.sent[1].callbacks *= 2
    with pytest.raises(AssertionError, match="2 callbacks"):
        watched.check()
    watched.sent[1].callbacks.pop()


def test_outcomes_out_of_order_are_noticed(watched: WatchedProducer) -> None:
    watched.completed.reverse()
    with pytest.raises(AssertionError, match="out of order"):
        watched.check()
    watched.completed.reverse()


def test_a_wrong_offset_is_noticed(watched: WatchedProducer, cluster: FakeCluster) -> None:
    batch = cluster.topics["t"].partitions[0].batches[0]
    true = batch.records
    batch.records = tuple(record._replace(value=b"another") for record in true)
    with pytest.raises(AssertionError, match="offset=0"):
        watched.check()
    batch.records = true


def test_a_refused_record_in_the_log_is_noticed(stage: Stage, cluster: FakeCluster) -> None:
    cluster.control(PRODUCE, faults.refuse_produce(29))
    producer = stage.producer(cluster)
    refused = producer.send()
    refused.error()
    producer.send(value=refused.value).metadata()
    with pytest.raises(AssertionError, match="is in the log"):
        producer.check()
    producer.forget([refused])


def test_missing_memory_is_noticed(watched: WatchedProducer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(internals, "buffer_memory", lambda kafka: (9, 10))
    with pytest.raises(AssertionError, match="1 bytes of buffer memory are missing"):
        watched.check()
    monkeypatch.undo()


def test_a_thread_and_a_descriptor_that_stay_are_noticed() -> None:
    resources = Resources()
    release = threading.Event()
    thread = threading.Thread(target=release.wait)
    thread.start()
    with pytest.raises(AssertionError, match="threads left"):
        resources.check()
    release.set()
    thread.join()
    resources.check()
    descriptor = os.open("/dev/null", os.O_RDONLY)
    with pytest.raises(AssertionError, match="/dev/null"):
        resources.check()
    os.close(descriptor)
    resources.check()


@pytest.mark.skipif(not FORCED_HAND_OVERS or data_plane is None, reason="no hand-overs are forced")
def test_hand_overs_are_forced(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster)
    lanes: list[object] = []

    def has_changed_its_lane() -> bool:
        lane = internals.lane(producer.kafka)
        if lane is not None and lane not in lanes:
            lanes.append(lane)
        return len(lanes) > 3

    producer.send_until(has_changed_its_lane)
    assert (cluster.tls is not None) == (FORCED_HAND_OVERS == "tls")


def test_spinning_is_noticed() -> None:
    meter = PollMeter()
    meter.count = 5000
    with pytest.raises(AssertionError, match="the I/O thread spins"):
        meter.check(event_count=10)
    meter.check(event_count=1000)

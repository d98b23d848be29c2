"""Many connections, producers, partitions and file descriptors."""

from __future__ import annotations

import os
import resource
import threading

import pytest

from kproducer.testing.fakebroker import FakeCluster, faults
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S

PRODUCE = 0


def test_a_hundred_producers_leave_no_connections(stage: Stage, cluster: FakeCluster) -> None:
    for _ in range(100):
        producer = stage.producer(cluster)
        producer.send().metadata()
        producer.close(PATIENCE_S)
    assert threading.active_count() < 20
    cluster.wait_for(lambda: len(cluster.open_connections()) == 0, what="all connections closed")


def test_two_hundred_reconnects_leave_one_connection(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster, reconnect_backoff_ms=0, reconnect_backoff_max_ms=0, retry_backoff_ms=0)
    producer.send().metadata()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(200):
        cluster.control(PRODUCE, faults.close_before())
        producer.send().metadata()
    assert cluster.accepted_count() > 200
    cluster.wait_for(lambda: len(cluster.open_connections()) <= 2, what="the old connections are closed")
    assert len(os.listdir("/proc/self/fd")) <= before + 4


def test_file_descriptors_above_1024_work(stage: Stage, cluster: FakeCluster) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1400:
        pytest.skip(f"the hard limit of {hard} descriptors is too low for 1024 additional ones")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1400), hard))
    others: list[int] = []
    try:
        while not others or others[-1] < 1100:
            others.append(os.open("/dev/null", os.O_RDONLY))
        producer = stage.producer(cluster)
        assert producer.send().metadata().offset == 0
        producer.close(PATIENCE_S)
    finally:
        for descriptor in others:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_idle_connections_are_closed_and_opened_again(stage: Stage, cluster: FakeCluster) -> None:
    """Idle connections are checked whenever the I/O thread wakes up, here by a metadata refresh."""
    producer = stage.producer(cluster, connections_max_idle_ms=20, metadata_max_age_ms=100)
    producer.send().metadata()
    first = cluster.open_connections()
    cluster.wait_for(lambda: not first & cluster.open_connections(), what="the first connections closed")
    assert producer.send().metadata().offset == 1


def test_a_connection_with_a_request_in_flight_is_not_idle(stage: Stage, cluster: FakeCluster) -> None:
    gate = cluster.gate()
    producer = stage.producer(cluster, connections_max_idle_ms=150)
    producer.send().metadata()
    cluster.control(PRODUCE, faults.hold_after(gate))
    held = producer.send()
    gate.wait_until_reached()
    with pytest.raises(TimeoutError):
        held.future.result(0.4)
    gate.open()
    assert held.metadata().offset == 1
    assert len(cluster.requests(PRODUCE)) == 2


def test_ten_clusters_and_producers_in_one_process(stage: Stage) -> None:
    clusters = [stage.cluster() for _ in range(10)]
    producers = [stage.producer(cluster) for cluster in clusters]
    for producer in producers:
        producer.send_many(10)
    for producer, cluster in zip(producers, clusters, strict=True):
        producer.kafka.flush(PATIENCE_S)
        assert len(cluster.records("t")) == 10


def test_metrics_count_what_happened(stage: Stage, cluster: FakeCluster) -> None:
    cluster.control(PRODUCE, faults.refuse_produce(19))
    producer = stage.producer(cluster)
    producer.send_many(10)
    producer.kafka.flush(PATIENCE_S)
    groups = producer.kafka.metrics()
    metrics = groups["producer-metrics"]
    assert metrics["record-retry-total"] > 0
    assert metrics["record-send-total"] == 10 + metrics["record-retry-total"]
    topics = [each for group, each in groups.items() if group.startswith("producer-topic-metrics.")]
    assert sum(each["record-retry-total"] for each in topics) == metrics["record-retry-total"]

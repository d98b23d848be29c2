"""What metrics() and health() say while brokers hold back, refuse or disappear."""

from __future__ import annotations

import math

import pytest

from kproducer import BufferExhaustedError, FencedError, KafkaError, KafkaProducer
from kproducer.errors.broker_errors import TopicAuthorizationFailedError
from kproducer.testing.fakebroker import FakeCluster, faults
from kproducer.testing.fakebroker.sasl_listener import SaslListener
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S
from tests.scenarios.transactions import transactional
from tests.support.waiting import wait_until

PRODUCE = 0


def of_producer(producer: KafkaProducer) -> dict[str, float]:
    return producer.metrics()["producer-metrics"]


def test_retries_and_failures_are_counted_by_topic(stage: Stage, cluster: FakeCluster) -> None:
    cluster.create_topic("other", 1)
    cluster.control(PRODUCE, faults.refuse_produce(19, partition=("t", 0)))
    producer = stage.producer(cluster)
    producer.send().metadata()
    producer.send("other").metadata()
    cluster.control(PRODUCE, faults.refuse_produce(29, partition=("other", 0)))
    assert isinstance(producer.send("other").future.exception(PATIENCE_S), TopicAuthorizationFailedError)
    producer.kafka.close(PATIENCE_S)
    groups = producer.kafka.metrics()
    retried, failed = groups["producer-topic-metrics.t"], groups["producer-topic-metrics.other"]
    assert (retried["record-send-total"], retried["record-retry-total"], retried["record-error-total"]) == (
        2,
        1,
        0,
    )
    assert (failed["record-send-total"], failed["record-retry-total"], failed["record-error-total"]) == (
        2,
        0,
        1,
    )
    metrics = groups["producer-metrics"]
    assert (metrics["record-send-total"], metrics["record-retry-total"], metrics["record-error-total"]) == (
        4,
        1,
        1,
    )
    assert metrics["byte-total"] == retried["byte-total"] + failed["byte-total"]
    assert metrics["request-latency-max"] >= metrics["request-latency-avg"] >= 0
    assert metrics["records-per-request-avg"] == 1
    assert math.isnan(groups["producer-node-metrics.node--1"]["request-latency-avg"])  # no records went there


def test_nodes_add_up_to_the_producer(stage: Stage) -> None:
    cluster = stage.cluster(3, {"t": 3})
    producer = stage.producer(cluster)
    for partition in range(3):
        producer.send(partition=partition).metadata()
    producer.kafka.close(PATIENCE_S)
    groups = producer.kafka.metrics()
    nodes = [metrics for group, metrics in groups.items() if group.startswith("producer-node-metrics.")]
    for name in ("request-total", "response-total", "incoming-byte-total", "outgoing-byte-total"):
        assert sum(metrics[name] for metrics in nodes) == groups["producer-metrics"][name] > 0
    assert groups["producer-metrics"]["connection-creation-total"] >= 3
    assert groups["producer-metrics"]["connection-count"] == 0
    assert (
        groups["producer-metrics"]["connection-close-total"]
        >= groups["producer-metrics"]["connection-creation-total"]
    )


def test_waits_for_memory_are_counted(stage: Stage, cluster: FakeCluster) -> None:
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate), times=None)
    producer = stage.producer(
        cluster, buffer_memory=40_000, batch_size=16_384, max_request_size=30_000, max_block_ms=200
    )

    def fill() -> None:
        for _ in range(10):
            producer.kafka.send("t", bytes(9_000))

    with pytest.raises(BufferExhaustedError):
        fill()
    metrics = of_producer(producer.kafka)
    assert metrics["buffer-exhausted-total"] == 1
    assert metrics["bufferpool-wait-time-ns-total"] >= 150e6
    assert metrics["bufferpool-wait-ratio"] > 0
    assert metrics["waiting-threads"] == 0
    assert metrics["buffer-available-bytes"] < metrics["buffer-total-bytes"] == 40_000
    gate.open()


def test_health_tells_how_long_the_oldest_record_waits(stage: Stage, cluster: FakeCluster) -> None:
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate))
    producer = stage.producer(cluster)
    sent = producer.send()
    cluster.wait_for_requests(PRODUCE, 1)
    first = producer.kafka.health()
    assert (first.unacknowledged_batches, first.unacknowledged_records) == (1, 1)
    assert first.is_connected
    assert first.oldest_unacknowledged_ms is not None
    wait_until(lambda: (producer.kafka.health().oldest_unacknowledged_ms or 0) > 50)
    assert producer.kafka.health().connection_error is None  # requests in flight are no failure
    gate.open()
    sent.metadata()
    assert producer.kafka.health().unacknowledged_records == 0


def test_health_has_the_last_error(stage: Stage, cluster: FakeCluster) -> None:
    cluster.control(PRODUCE, faults.refuse_produce(29))
    producer = stage.producer(cluster)
    assert producer.send().future.exception(PATIENCE_S) is not None
    producer.send().metadata()
    health = producer.kafka.health()
    assert health.last_error is not None
    assert health.last_error.startswith("TopicAuthorizationFailedError: ")
    assert health.last_error_time_ms is not None
    assert health.last_error_time_ms > 1.6e12
    assert health.fatal_error is None


def test_health_after_a_clean_close(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster)
    producer.send().metadata()
    producer.kafka.close(PATIENCE_S)
    health = producer.kafka.health()
    assert health.is_closed
    assert (health.fatal_error, health.connection_error) == (None, None)


def test_health_of_a_fenced_producer(stage: Stage, cluster: FakeCluster) -> None:
    fenced = transactional(stage, cluster)
    fenced.begin_transaction()
    fenced.send("t", b"v").result(PATIENCE_S)
    assert fenced.health().fatal_error is None
    transactional(stage, cluster)
    with pytest.raises(FencedError):
        fenced.commit_transaction(PATIENCE_S)
    assert fenced.health().fatal_error is not None
    times = of_producer(fenced)
    for call in ("init", "begin", "commit"):
        assert times[f"txn-{call}-time-ns-total"] > 0
    assert times["txn-abort-time-ns-total"] == 0


def test_authentications_are_counted(stage: Stage) -> None:
    cluster = stage.cluster(1)
    cluster.sasl = SaslListener({"alice": "wonderland"}, session_lifetime_ms=1000)
    settings = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "wonderland",
    }
    producer = stage.producer(cluster, **settings)
    producer.send_until(lambda: of_producer(producer.kafka)["successful-reauthentication-total"] > 0)
    metrics = of_producer(producer.kafka)
    assert metrics["successful-authentication-total"] > 0
    assert metrics["failed-authentication-total"] == 0
    refused = stage.producer(cluster, **{**settings, "sasl_plain_password": "wrong"})
    with pytest.raises(KafkaError):
        refused.kafka.send("t", b"v")
    assert of_producer(refused.kafka)["failed-authentication-total"] > 0

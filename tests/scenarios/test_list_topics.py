"""list_topics(): what it says about a cluster, and that asking changes nothing."""

from __future__ import annotations

import pytest

from kproducer import (
    BrokerError,
    FlushResult,
    InvalidArgumentError,
    KafkaTimeoutError,
    ProducerClosedError,
)
from kproducer.testing.fakebroker import FakeCluster, faults
from tests.scenarios.conftest import Stage

PRODUCE = 0


def test_brokers_topics_and_partitions(stage: Stage) -> None:
    cluster = stage.cluster(3, topics={"a": 2, "b": 1})
    producer = stage.producer(cluster)
    found = producer.kafka.list_topics()
    assert {each.id for each in found.brokers.values()} == {1, 2, 3}
    assert {f"{each.host}:{each.port}" for each in found.brokers.values()} == set(cluster.bootstrap_servers)
    assert found.controller_id in found.brokers
    assert found.answered_by in found.brokers.values()
    assert list(found.topics) == ["a", "b"]
    partitions = found.topics["a"].partitions
    assert [each.partition for each in partitions] == [0, 1]
    for each in partitions:
        assert each.leader == found.brokers[each.leader.id] if each.leader else False
        assert each.leader.id in each.in_sync_replicas
        assert each.error is None


def test_one_topic(stage: Stage) -> None:
    cluster = stage.cluster(1, topics={"a": 2, "b": 1})
    assert list(stage.producer(cluster).kafka.list_topics("b").topics) == ["b"]


def test_a_missing_topic_is_not_created(stage: Stage) -> None:
    cluster = stage.cluster(1, auto_create_partitions=1)
    kafka = stage.producer(cluster).kafka
    found = kafka.list_topics("missing").topics["missing"]
    assert isinstance(found.error, BrokerError)
    assert found.error.name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert found.partitions == ()
    assert "missing" not in kafka.list_topics().topics


def test_a_cluster_that_is_down_and_a_producer_that_is_closed(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster, bootstrap_servers=["127.0.0.1:1"])
    with pytest.raises(KafkaTimeoutError, match=r"within 300 ms: .*127\.0\.0\.1:1"):
        producer.kafka.list_topics(timeout=0.3)
    for topic in ("", 5):
        with pytest.raises(InvalidArgumentError, match="topic"):
            producer.kafka.list_topics(topic)  # type: ignore[arg-type]
    producer.close()
    with pytest.raises(ProducerClosedError):
        producer.kafka.list_topics()


def test_flush_counts_what_it_waited_for(stage: Stage) -> None:
    cluster = stage.cluster(1, topics={"t": 2})
    producer = stage.producer(cluster, linger_ms=3_600_000, delivery_timeout_ms=7_200_000, retries=0)
    producer.learn("t")
    cluster.control(PRODUCE, faults.refuse_produce(87))  # INVALID_RECORD
    producer.send_many(3, partition=0)
    assert producer.kafka.flush() == FlushResult(delivered=0, failed=3)
    producer.send_many(2, partition=0)
    producer.send_many(5, partition=1)
    result = producer.kafka.flush()
    assert (result.delivered, result.failed) == (7, 0)
    assert producer.kafka.flush() == FlushResult(0, 0)
    with pytest.raises(TypeError, match="failed"):
        bool(result)


def test_flush_counts_the_parts_of_a_split_batch_once(stage: Stage) -> None:
    cluster = stage.cluster(1)
    producer = stage.producer(cluster, linger_ms=3_600_000, delivery_timeout_ms=7_200_000)
    producer.learn("t")
    cluster.control(PRODUCE, faults.refuse_produce(10))  # MESSAGE_TOO_LARGE
    producer.send_many(9)
    assert producer.kafka.flush() == FlushResult(9, 0)

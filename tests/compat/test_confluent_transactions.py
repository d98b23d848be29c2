"""Transactions of the confluent-kafka adapter and of confluent-kafka itself on Apache Kafka: one program."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import confluent_kafka as peer
import pytest

from kproducer.compat import confluent_kafka as adapter
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.topics import create_topic

pytestmark = pytest.mark.kafka

PATIENCE_S = 60


@pytest.fixture(params=["confluent_kafka", "kproducer.compat.confluent_kafka"])
def client(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(request.param)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return "".join(each if each.isalnum() else "-" for each in request.node.name)


def consumer(cluster: KafkaCluster, group: str, topic: str) -> peer.Consumer:
    found = peer.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    found.subscribe([topic])
    return found


def messages(consumer: peer.Consumer, count: int) -> Iterator[peer.Message]:
    for _ in range(count):
        message = consumer.poll(PATIENCE_S)
        assert message is not None, "no message"
        assert message.error() is None
        yield message


def test_the_documented_transactional_loop(kafka: KafkaCluster, client: ModuleType, name: str) -> None:
    """Consume, transform, produce, with the consumer of confluent-kafka and its group metadata."""
    source, target = f"{name}-source", f"{name}-target"
    create_topic(kafka.bootstrap_servers, target, 1)
    create_topic(kafka.bootstrap_servers, source, 2)  # no position in the second partition, which is empty
    config = {"bootstrap.servers": kafka.bootstrap_servers}
    with client.Producer(config) as producer:
        for number in range(6):
            producer.produce(source, b"%d" % number, partition=0)
    reading = consumer(kafka, f"{name}-group", source)
    producer = client.Producer({**config, "transactional.id": name})
    producer.init_transactions()
    for is_kept in (True, False, True):
        batch = list(messages(reading, 2))
        producer.begin_transaction()
        for message in batch:
            producer.produce(target, b"out-" + message.value(), on_delivery=lambda error, message: None)
        if is_kept:
            offsets = reading.position(reading.assignment())
            producer.send_offsets_to_transaction(offsets, reading.consumer_group_metadata())
            producer.commit_transaction()
        else:
            producer.flush()
            producer.abort_transaction()
    committed = reading.committed(reading.assignment(), timeout=PATIENCE_S)
    assert sorted(each.offset for each in committed) == [peer.OFFSET_INVALID, 6]
    reading.close()
    checking = consumer(kafka, f"{name}-check", target)
    assert [each.value() for each in messages(checking, 4)] == [b"out-0", b"out-1", b"out-4", b"out-5"]
    checking.close()
    producer.close()


def test_a_fenced_producer(kafka: KafkaCluster, client: ModuleType, name: str) -> None:
    create_topic(kafka.bootstrap_servers, name, 1)
    config = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": name}
    first, second = client.Producer(config), client.Producer(config)
    first.init_transactions()
    first.begin_transaction()
    first.produce(name, b"1")
    first.flush(PATIENCE_S)
    second.init_transactions()
    with pytest.raises(client.KafkaException) as raised:
        first.commit_transaction()
    error: Any = raised.value.args[0]
    assert error.fatal()
    assert error.code() in (client.KafkaError._FENCED, client.KafkaError.PRODUCER_FENCED)
    with pytest.raises(client.KafkaException):
        first.begin_transaction()
    second.begin_transaction()
    second.produce(name, b"2")
    second.commit_transaction()
    second.close()


def test_a_producer_that_was_fenced_in_a_transaction_can_be_closed(kafka: KafkaCluster, name: str) -> None:
    create_topic(kafka.bootstrap_servers, name, 1)
    config = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": name}

    def use() -> None:
        with adapter.Producer(config) as first, adapter.Producer(config) as second:
            first.init_transactions()
            first.begin_transaction()
            first.produce(name, b"1")
            first.flush(PATIENCE_S)
            second.init_transactions()
            second.close()
            fenced.append(first)
            raise ZeroDivisionError

    fenced: list[adapter.Producer] = []
    with pytest.raises(ZeroDivisionError):
        use()
    with pytest.raises(RuntimeError, match="Producer has been closed"):
        fenced[0].poll(0)


def test_a_failed_message_requires_an_abort(kafka: KafkaCluster, client: ModuleType, name: str) -> None:
    create_topic(kafka.bootstrap_servers, name, 1, config={"max.message.bytes": "1000"})
    producer = client.Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": name})
    producer.init_transactions()
    producer.begin_transaction()
    seen: list[Any] = []
    producer.produce(name, bytes(5000), on_delivery=lambda error, message: seen.append(error))
    with pytest.raises(client.KafkaException) as raised:
        producer.commit_transaction()
    assert raised.value.args[0].txn_requires_abort()
    assert not raised.value.args[0].fatal()
    producer.abort_transaction()
    assert [error.name() for error in seen] == ["MSG_SIZE_TOO_LARGE"]
    if client is peer:
        return  # its next commit fails: librdkafka skips the sequence number of the refused message
    producer.begin_transaction()
    producer.produce(name, b"small")
    producer.commit_transaction()
    producer.close()
    checking = consumer(kafka, f"{name}-check", name)
    assert [each.value() for each in messages(checking, 1)] == [b"small"]
    checking.close()

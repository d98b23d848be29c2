"""Keys go to the same partitions as with other clients that use Java's murmur2."""

from __future__ import annotations

import random

import pytest
from confluent_kafka import Producer

from kproducer import KafkaProducer
from tests.support.kafka.topics import create_topic

pytestmark = pytest.mark.kafka

PARTITION_COUNT = 7


def _partitions_by_librdkafka(bootstrap_servers, topic, keys, partitioner):
    partitions = {}
    producer = Producer({"bootstrap.servers": bootstrap_servers, "partitioner": partitioner, "log_level": 0})
    for key in keys:
        producer.produce(
            topic,
            b"",
            key=key,
            on_delivery=lambda _, message: partitions.update({message.key(): message.partition()}),
        )
    assert producer.flush(30) == 0
    return partitions


@pytest.mark.parametrize(
    ("config", "librdkafka_name"),
    [({}, "murmur2"), ({"partitioner": "consistent_random"}, "consistent_random")],
    ids=["java", "librdkafka"],
)
def test_keys_go_to_the_partitions_of_the_other_client(kafka, config, librdkafka_name):
    topic = f"keys-{librdkafka_name}"
    create_topic(kafka.bootstrap_servers, topic, PARTITION_COUNT)
    source = random.Random(7)
    keys = [source.randbytes(1 + number % 33) for number in range(500)]
    theirs = _partitions_by_librdkafka(kafka.bootstrap_servers, topic, keys, librdkafka_name)

    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, **config) as producer:
        futures = {key: producer.send(topic, b"", key=key) for key in keys}
        ours = {key: future.get(timeout=30).partition for key, future in futures.items()}

    assert ours == theirs
    assert set(ours.values()) == set(range(PARTITION_COUNT))

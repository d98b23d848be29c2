"""The Apache Kafka harness itself, tested with another producer: its checks must be correct."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from tests.support.kafka.log_dump import dump_log_files
from tests.support.kafka.reader import read_topic
from tests.support.kafka.topics import create_topic

pytestmark = pytest.mark.kafka

CRC_POSITION = 17


def _produce(bootstrap_servers: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    for number in range(count):
        producer.produce(topic, str(number).encode(), key=b"k", headers=[("h", None)], partition=number % 2)
    assert producer.flush(30) == 0


def test_the_reader_returns_every_record_in_order(kafka):
    create_topic(kafka.bootstrap_servers, "harness-read", partitions=3)
    _produce(kafka.bootstrap_servers, "harness-read", 100)
    records = read_topic(kafka.bootstrap_servers, "harness-read")
    assert [record.value for record in records] == [
        str(number).encode() for partition in (0, 1) for number in range(partition, 100, 2)
    ]
    assert {(record.key, record.headers) for record in records} == {(b"k", (("h", None),))}
    assert [record.offset for record in records if record.partition == 1] == list(range(50))


def test_the_log_dump_finds_a_wrong_checksum(kafka, tmp_path):
    create_topic(kafka.bootstrap_servers, "harness-dump", partitions=2)
    _produce(kafka.bootstrap_servers, "harness-dump", 100)
    batches = kafka.dump_log("harness-dump")
    assert sum(batch.record_count for batch in batches) == 100
    assert all(batch.is_valid for batch in batches)

    original = next(kafka.folder.glob("node-*/data/harness-dump-0/*.log"))
    damaged = tmp_path / original.name
    content = bytearray(original.read_bytes())
    content[CRC_POSITION] ^= 0xFF
    damaged.write_bytes(content)
    assert not dump_log_files([damaged])[0].is_valid


def test_a_killed_node_restarts_with_its_data(kafka):
    create_topic(kafka.bootstrap_servers, "harness-restart", partitions=2)
    _produce(kafka.bootstrap_servers, "harness-restart", 10)
    kafka.nodes[1].kill()
    assert not kafka.nodes[1].is_alive
    kafka.nodes[1].start()
    assert len(read_topic(kafka.bootstrap_servers, "harness-restart")) == 10


def test_a_topic_name_that_another_test_uses_is_noticed(kafka):
    create_topic(kafka.bootstrap_servers, "harness-twice", partitions=2)
    # The admin client may repeat its request, so an empty topic may be this test's own.
    create_topic(kafka.bootstrap_servers, "harness-twice", partitions=2)
    with pytest.raises(RuntimeError, match="not with 3 empty partitions"):
        create_topic(kafka.bootstrap_servers, "harness-twice", partitions=3)
    _produce(kafka.bootstrap_servers, "harness-twice", 1)
    with pytest.raises(RuntimeError, match=r"exists, with end offsets \[1, 0\]"):
        create_topic(kafka.bootstrap_servers, "harness-twice", partitions=2)

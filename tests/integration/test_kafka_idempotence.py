"""enable_idempotence against Apache Kafka: nothing twice, nothing out of order, also while leaders die."""

from __future__ import annotations

import threading

import pytest

from kproducer import KafkaProducer
from tests.support.kafka.reader import read_topic
from tests.support.kafka.topics import create_topic, in_sync_count, partition_leader

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

WAIT_SECONDS = 60


def test_every_version_takes_numbered_batches(each_kafka):
    servers = each_kafka.bootstrap_servers
    create_topic(servers, "numbered", 2)
    with KafkaProducer(bootstrap_servers=servers, enable_idempotence=True, batch_size=200) as producer:
        futures = [producer.send("numbered", b"%d" % number, partition=number % 2) for number in range(2000)]
        places = [future.result(WAIT_SECONDS) for future in futures]
    stored = read_topic(servers, "numbered")
    assert [int(each.value) for each in stored if each.partition == 0] == list(range(0, 2000, 2))
    assert [int(each.value) for each in stored if each.partition == 1] == list(range(1, 2000, 2))
    assert [place.offset for place in places] == [number // 2 for number in range(2000)]


def test_killed_leaders_repeat_and_reorder_nothing(kafka_three_nodes):
    cluster = kafka_three_nodes
    servers = cluster.bootstrap_servers
    create_topic(servers, "once", 3)
    futures = []
    stop = threading.Event()

    def load(producer: KafkaProducer) -> None:
        while not stop.wait(0.001):
            for _ in range(3):
                number = len(futures)
                futures.append(producer.send("once", b"%d" % number, partition=number % 3))

    with KafkaProducer(bootstrap_servers=servers, enable_idempotence=True, linger_ms=0) as producer:
        thread = threading.Thread(target=load, args=(producer,))
        thread.start()
        try:
            for _ in range(2):
                await_more(futures, 500)
                node = cluster.nodes[partition_leader(servers, "once", 0)]
                node.kill()
                await_more(futures, 500)
                node.start()
                while in_sync_count(servers, "once") < 3:
                    threading.Event().wait(0.1)
        finally:
            stop.set()
            thread.join()
        next_offsets: dict[int, int] = {}
        for future in futures:
            place = future.result(WAIT_SECONDS)
            next_offsets[place.partition] = max(next_offsets.get(place.partition, 0), place.offset + 1)
    stored = read_topic(servers, "once", next_offsets=next_offsets)
    for partition in range(3):
        values = [int(each.value) for each in stored if each.partition == partition]
        assert values == list(range(partition, len(futures), 3))


def await_more(futures, count):
    """Wait until ``count`` more records than now are acknowledged."""
    target = len(futures) + count
    while len(futures) <= target:
        threading.Event().wait(0.01)
    futures[target].result(WAIT_SECONDS)

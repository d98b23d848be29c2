"""Three nodes of Apache Kafka under load while they crash and restart: nothing acknowledged may be lost."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from kproducer import KafkaProducer
from kproducer.errors import DeliveryTimeoutError
from tests.support.kafka.reader import read_topic
from tests.support.kafka.topics import create_topic, in_sync_count, partition_leader

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

NODE_COUNT = 3
WAIT_SECONDS = 60
#: Enough to have batches in flight at every moment, few enough to read back quickly.
PAUSE_SECONDS = 0.001


class Load:
    """A thread that sends numbered values to one topic until it is told to stop."""

    def __init__(self, producer: KafkaProducer, topic: str) -> None:
        self.futures = []
        self._producer = producer
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(PAUSE_SECONDS):
            for _ in range(5):
                self.futures.append(
                    self._producer.send(self._topic, b"%d" % number, key=b"%d" % (number % 50))
                )
                number += 1

    def await_acknowledged(self, count: int) -> None:
        """Wait until ``count`` more records than now are acknowledged: the cluster serves again."""
        start = len(self.futures)
        while len(self.futures) <= start + count:
            threading.Event().wait(0.01)
        self.futures[start + count].result(timeout=WAIT_SECONDS)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def _await(condition, what):
    for _ in range(WAIT_SECONDS * 10):
        if condition():
            return
        threading.Event().wait(0.1)
    raise AssertionError(f"{what} did not happen within {WAIT_SECONDS} s")


def _check_nothing_acknowledged_is_missing(cluster, topic, futures):
    answers = {b"%d" % number: future.get(timeout=WAIT_SECONDS) for number, future in enumerate(futures)}
    next_offsets: dict[int, int] = {}
    for answer in answers.values():
        next_offsets[answer.partition] = max(next_offsets.get(answer.partition, 0), answer.offset + 1)
    stored = read_topic(cluster.bootstrap_servers, topic, next_offsets=next_offsets)
    by_place = {(each.partition, each.offset): each.value for each in stored}
    assert {value: by_place.get((a.partition, a.offset)) for value, a in answers.items()} == {
        value: value for value in answers
    }
    return Counter(each.value for each in stored)


def test_killed_leaders_lose_nothing_acknowledged(kafka_three_nodes):
    cluster = kafka_three_nodes
    create_topic(cluster.bootstrap_servers, "killed", partitions=3)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
        load = Load(producer, "killed")
        try:
            for _ in range(3):
                load.await_acknowledged(500)
                node = cluster.nodes[partition_leader(cluster.bootstrap_servers, "killed", 0)]
                node.kill()
                load.await_acknowledged(500)
                node.start()
                _await(
                    lambda: in_sync_count(cluster.bootstrap_servers, "killed") == NODE_COUNT,
                    "full replication",
                )
        finally:
            load.stop()
    stored = _check_nothing_acknowledged_is_missing(cluster, "killed", load.futures)
    assert sum(stored.values()) >= len(load.futures)


def test_a_clean_rolling_restart_fails_no_send(kafka_three_nodes):
    cluster = kafka_three_nodes
    create_topic(cluster.bootstrap_servers, "rolled", partitions=3)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
        load = Load(producer, "rolled")
        try:
            for node in cluster.nodes.values():
                load.await_acknowledged(500)
                node.stop()
                load.await_acknowledged(500)
                node.start()
                _await(
                    lambda: in_sync_count(cluster.bootstrap_servers, "rolled") == NODE_COUNT,
                    "full replication",
                )
        finally:
            load.stop()
    assert [future for future in load.futures if future.exception(timeout=WAIT_SECONDS)] == []
    _check_nothing_acknowledged_is_missing(cluster, "rolled", load.futures)


def test_too_few_replicas_are_waited_for_and_named_when_they_stay_away(kafka_three_nodes):
    cluster = kafka_three_nodes
    create_topic(cluster.bootstrap_servers, "few", 1, config={"min.insync.replicas": "3"})
    leader = partition_leader(cluster.bootstrap_servers, "few", 0)
    follower = next(node for node in cluster.nodes.values() if node.node_id != leader)
    follower.stop()
    _await(lambda: 0 < in_sync_count(cluster.bootstrap_servers, "few") < NODE_COUNT, "a smaller in-sync set")
    impatience = {"request_timeout_ms": 1000, "delivery_timeout_ms": 2500, "linger_ms": 0}
    with (
        KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as patient,
        KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **impatience) as impatient,
    ):
        waiting = patient.send("few", b"patient")
        error = impatient.send("few", b"impatient").exception(timeout=WAIT_SECONDS)
        assert isinstance(error, DeliveryTimeoutError)
        assert "NOT_ENOUGH_REPLICAS" in str(error)
        assert not waiting.done()
        follower.start()
        assert waiting.get(timeout=WAIT_SECONDS).offset == 0
    assert [each.value for each in read_topic(cluster.bootstrap_servers, "few")] == [b"patient"]

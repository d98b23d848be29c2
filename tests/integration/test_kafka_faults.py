"""Three nodes of Apache Kafka crash and restart under load: no record is lost or duplicated."""

from __future__ import annotations

import threading

import pytest

from kproducer import KafkaProducer
from kproducer.errors import DeliveryTimeoutError
from kproducer.errors.broker_errors import NotEnoughReplicasError
from tests.support.kafka.reader import read_topic
from tests.support.kafka.topics import create_topic, in_sync_count, partition_leader

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

NODE_COUNT = PARTITION_COUNT = 3
WAIT_SECONDS = 60
#: Enough to have batches in flight at all times, few enough to read them back quickly.
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
                partition = number % PARTITION_COUNT
                self.futures.append(self._producer.send(self._topic, b"%d" % number, partition=partition))
                number += 1

    def await_acknowledged(self, count: int) -> None:
        """Wait until ``count`` more records are acknowledged, which shows that the cluster serves again."""
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


def _check_each_is_there_once_and_in_order(cluster, topic, futures):
    next_offsets: dict[int, int] = {}
    for number, future in enumerate(futures):
        place = future.result(timeout=WAIT_SECONDS)
        assert place.partition == number % PARTITION_COUNT
        next_offsets[place.partition] = place.offset + 1
    stored = read_topic(cluster.bootstrap_servers, topic, next_offsets=next_offsets)
    for partition in range(PARTITION_COUNT):
        values = [int(each.value) for each in stored if each.partition == partition]
        assert values == list(range(partition, len(futures), PARTITION_COUNT))


@pytest.mark.parametrize("outage", ["kill", "stop"])
def test_killed_leaders_and_rolling_restarts_lose_repeat_and_reorder_nothing(kafka_three_nodes, outage):
    """No send fails. The leader of a partition is killed twice, or each broker restarts in turn."""
    cluster, topic = kafka_three_nodes, f"outage-{outage}"
    servers = cluster.bootstrap_servers
    create_topic(servers, topic, PARTITION_COUNT)
    with KafkaProducer(bootstrap_servers=servers, linger_ms=0) as producer:
        load = Load(producer, topic)
        try:
            for turn in range(1, 3 if outage == "kill" else NODE_COUNT + 1):
                load.await_acknowledged(500)
                node = cluster.nodes[partition_leader(servers, topic, 0) if outage == "kill" else turn]
                getattr(node, outage)()
                load.await_acknowledged(500)
                node.start()
                _await(lambda: in_sync_count(servers, topic) == NODE_COUNT, "full replication")
        finally:
            load.stop()
    _check_each_is_there_once_and_in_order(cluster, topic, load.futures)


def test_too_few_replicas_are_retried_and_named_in_the_error(kafka_three_nodes):
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
        # The latter if the broker's last answer came when the time had passed already.
        assert isinstance(error, (DeliveryTimeoutError, NotEnoughReplicasError))
        assert "NOT_ENOUGH_REPLICAS" in str(error)
        assert "delivery_timeout_ms=2500" in str(error)
        assert not waiting.done()
        follower.start()
        assert waiting.get(timeout=WAIT_SECONDS).offset == 0
    assert [each.value for each in read_topic(cluster.bootstrap_servers, "few")] == [b"patient"]

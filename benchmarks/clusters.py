"""The clusters of the benchmark: a mock cluster, or one node of Apache Kafka; a new topic per run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from typing import Any, Protocol

import confluent_kafka
from confluent_kafka.admin import AdminClient, OffsetSpec

from benchmarks.workload import BROKER_COUNT, PARTITION_COUNT
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.mock_cluster import MockClusterProcess
from tests.support.kafka.topics import create_topic, delete_topic

_WARM_UP_RECORDS = 300_000


class BenchCluster(Protocol):
    """A kind of cluster; ``topic`` gives (bootstrap servers, a new topic's name) and cleans up afterwards.

    Only the embedded cluster has as many brokers as asked for.
    """

    name: str
    description: str
    is_mock: bool

    @property
    def pid(self) -> int: ...

    def topic(
        self, partitions: int = PARTITION_COUNT, brokers: int = BROKER_COUNT
    ) -> AbstractContextManager[tuple[str, str]]: ...

    def close(self) -> None: ...


class MockBench:
    """Mock brokers in one process; a new cluster per run frees the memory of the previous one."""

    name = "embedded"
    is_mock = True

    def __init__(self, lifetime_seconds: float) -> None:
        self._process = MockClusterProcess(lifetime_seconds)
        version = confluent_kafka.libversion()[0]
        self.description = f"librdkafka {version} mock cluster, {BROKER_COUNT} nodes"

    @property
    def pid(self) -> int:
        return self._process.pid

    @contextmanager
    def topic(
        self, partitions: int = PARTITION_COUNT, brokers: int = BROKER_COUNT
    ) -> Iterator[tuple[str, str]]:
        cluster = self._process.cluster(broker_count=brokers)
        try:
            cluster.create_topic("bench", partitions, min(brokers, BROKER_COUNT))
            if brokers == BROKER_COUNT:
                # Otherwise the mock chooses leaders at random. With many brokers this takes too long.
                for partition in range(partitions):
                    cluster.set_leader("bench", partition, partition % brokers + 1)
            yield ",".join(cluster.bootstrap_servers.split(",")[:BROKER_COUNT]), "bench"
        finally:
            cluster.close()

    def close(self) -> None:
        self._process.close()


class KafkaBench:
    """One node of Apache Kafka, with all of the JVM's optimizations.

    Args:
        settings: further ones of ``KafkaCluster``.
    """

    name = "kafka"
    is_mock = False

    def __init__(self, version: str, lifetime_seconds: float, **settings: Any) -> None:
        self._cluster = KafkaCluster(
            version, heap_mb=1024, java_options=(), lifetime_seconds=int(lifetime_seconds), **settings
        )
        self._numbers = count()
        self.description = f"Apache Kafka {version}, 1 node"
        self._warm_up()

    @property
    def pid(self) -> int:
        pid = self._cluster.nodes[1].pid
        assert pid is not None
        return pid

    def bootstrap(self, listener: str) -> str:
        """The addresses of a listener that ``settings`` name."""
        return self._cluster.bootstrap(listener)

    @contextmanager
    def topic(
        self, partitions: int = PARTITION_COUNT, brokers: int = BROKER_COUNT
    ) -> Iterator[tuple[str, str]]:
        name = f"bench-{next(self._numbers)}"
        create_topic(self._cluster.bootstrap_servers, name, partitions)
        yield self._cluster.bootstrap_servers, name
        delete_topic(self._cluster.bootstrap_servers, name)

    def close(self) -> None:
        self._cluster.close()

    def _warm_up(self) -> None:
        # Otherwise the first client would pay for the JVM's compilation.
        with self.topic() as (bootstrap_servers, topic):
            producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap_servers, "log_level": 0})
            for number in range(_WARM_UP_RECORDS):
                producer.produce(topic, b"x" * 100, partition=number % PARTITION_COUNT)
                if number % 10_000 == 0:
                    producer.flush(60)
            producer.flush(60)


def record_count(bootstrap_servers: str, topic: str, partitions: int = PARTITION_COUNT) -> int:
    """The number of records in a topic, by its log end offsets."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    ends = admin.list_offsets(
        {confluent_kafka.TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
    )
    return sum(future.result(60).offset for future in ends.values())

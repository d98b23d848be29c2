"""The result of ``list_topics`` in confluent-kafka's form: dictionaries of brokers, topics and partitions."""

from __future__ import annotations

from typing import Any

from kproducer.compat.confluent_kafka.errors import converted
from kproducer.errors import KafkaError as OwnError
from kproducer.types import ClusterMetadata as OwnClusterMetadata
from kproducer.types import Node, PartitionInfo, TopicDescription


def _error(error: OwnError | None) -> Any:
    return None if error is None else converted(error)


class BrokerMetadata:
    """Attributes ``id``, ``host``, ``port``."""

    def __init__(self, node: Node) -> None:
        self.id, self.host, self.port = node.id, node.host, node.port

    def __repr__(self) -> str:
        return f"BrokerMetadata({self.id}, {self.host}:{self.port})"

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.id}"


class PartitionMetadata:
    """Attributes ``id``, ``leader`` (-1: none), ``replicas``, ``isrs``, ``error``."""

    def __init__(self, partition: PartitionInfo) -> None:
        self.id = partition.partition
        self.leader = -1 if partition.leader is None else partition.leader.id
        self.replicas = list(partition.replicas)
        self.isrs = list(partition.in_sync_replicas)
        self.error = _error(partition.error)

    def __repr__(self) -> str:
        return (
            f"PartitionMetadata({self.id})"
            if self.error is None
            else f"PartitionMetadata({self.id}, {self.error})"
        )

    def __str__(self) -> str:
        return str(self.id)


class TopicMetadata:
    """Attributes ``topic``, ``partitions`` (by number), ``error``."""

    def __init__(self, topic: TopicDescription) -> None:
        self.topic = topic.topic
        self.partitions = {each.partition: PartitionMetadata(each) for each in topic.partitions}
        self.error = _error(topic.error)

    def __repr__(self) -> str:
        count = f"{len(self.partitions)} partitions"
        return f"TopicMetadata({self.topic}, {count if self.error is None else self.error})"

    def __str__(self) -> str:
        return self.topic


class ClusterMetadata:
    """Attributes ``cluster_id``, ``controller_id`` (-1: none), ``brokers`` (by id), ``topics`` (by name).

    And the broker that was asked: ``orig_broker_id`` (-1: not known) and ``orig_broker_name``.
    """

    def __init__(self, cluster: OwnClusterMetadata) -> None:
        self.cluster_id = cluster.cluster_id
        self.controller_id = -1 if cluster.controller_id is None else cluster.controller_id
        self.brokers = {each.id: BrokerMetadata(each) for each in cluster.brokers.values()}
        self.topics = {each.topic: TopicMetadata(each) for each in cluster.topics.values()}
        asked = cluster.answered_by
        self.orig_broker_id = asked.id
        self.orig_broker_name = f"{asked.host}:{asked.port}/{'bootstrap' if asked.id < 0 else asked.id}"

    def __repr__(self) -> str:
        return f"ClusterMetadata({self.cluster_id})"

    def __str__(self) -> str:
        return str(self.cluster_id)

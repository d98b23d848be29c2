"""MetadataSnapshot: an immutable picture of the cluster, from one Metadata response or a merge of several.

Built by ``client.metadata``; read without locks by caller threads (partitioning) and by the I/O thread. Knows
nothing of requests, timers or producing. Source: Kafka classes ``MetadataSnapshot`` and ``Cluster``; KIP-516.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

import attrs

from kproducer.types import UNKNOWN_LEADER, Node, TopicPartition

#: A topic id that says "this broker does not know topic ids".
ZERO_TOPIC_ID = UUID(int=0)
#: Stands for "the broker named no leader epoch".
NO_LEADER_EPOCH = -1
LEADER_NOT_AVAILABLE_CODE = 5


class PartitionMetadata(NamedTuple):
    """One partition.

    Attributes:
        partition: its number.
        leader_id: node id; -1 when there is no leader. The node may be missing from the broker list.
        leader_epoch: -1 when it is not known, or came from a response whose epochs are not reliable.
        replicas: node ids.
        isr: node ids of the in-sync replicas.
        offline: node ids of the replicas that are down.
        error_code: Kafka's code for this partition; 0 is none.
    """

    partition: int
    leader_id: int
    leader_epoch: int = NO_LEADER_EPOCH
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    error_code: int = 0


@attrs.frozen
class TopicMetadata:
    """One topic.

    Attributes:
        name: topic name.
        topic_id: ``ZERO_TOPIC_ID`` when the broker does not tell.
        partitions: indexed by partition number, without gaps.
        available: numbers of the partitions whose leader is a known node, ascending.
        is_internal: Kafka's own topics.
    """

    name: str
    topic_id: UUID
    partitions: tuple[PartitionMetadata, ...]
    available: tuple[int, ...]
    is_internal: bool = False


def available_partitions(
    partitions: Iterable[PartitionMetadata], node_ids: Collection[int]
) -> tuple[int, ...]:
    """Numbers of the partitions whose leader is one of ``node_ids``."""
    return tuple([p.partition for p in partitions if p.leader_id in node_ids])


@attrs.frozen
class MetadataSnapshot:
    """What is known about the cluster at one moment. Immutable: any thread may keep and read it.

    The mappings are never changed after construction; they are plain dicts because the producer looks topics
    up for each record.

    Attributes:
        cluster_id: ``None`` before the first response.
        nodes: brokers by id. Before the first response: the bootstrap servers with ids -1, -2, ...
        topics: topics known without a topic-level error.
        invalid_topics: refused as invalid names in the latest response that mentioned them.
        unauthorized_topics: refused for lack of authorization, likewise.
        controller_id: -1 when unknown.
        topic_ids: topic name to id, valid ids only.
        is_bootstrap: made from configured addresses, not from a broker's answer.
    """

    cluster_id: str | None = None
    nodes: Mapping[int, Node] = attrs.field(factory=dict)
    topics: Mapping[str, TopicMetadata] = attrs.field(factory=dict)
    invalid_topics: frozenset[str] = frozenset()
    unauthorized_topics: frozenset[str] = frozenset()
    controller_id: int = -1
    topic_ids: Mapping[str, UUID] = attrs.field(factory=dict)
    is_bootstrap: bool = False

    @classmethod
    def bootstrap(cls, addresses: Iterable[tuple[str, int]]) -> MetadataSnapshot:
        """A snapshot that knows only (host, port) pairs; their node ids are -1, -2, ..."""
        nodes = {-i: Node(-i, host, port) for i, (host, port) in enumerate(addresses, start=1)}
        return cls(nodes=nodes, is_bootstrap=True)

    @property
    def controller(self) -> Node | None:
        return self.nodes.get(self.controller_id)

    def partition_count(self, topic: str) -> int | None:
        """Number of partitions, ``None`` for an unknown topic."""
        metadata = self.topics.get(topic)
        return None if metadata is None else len(metadata.partitions)

    def partition(self, topic_partition: TopicPartition) -> PartitionMetadata | None:
        """What is known of one partition, ``None`` when nothing is."""
        topic, number = topic_partition
        metadata = self.topics.get(topic)
        if metadata is None or not 0 <= number < len(metadata.partitions):
            return None
        return metadata.partitions[number]

    def leader_for(self, topic_partition: TopicPartition) -> Node | None:
        """The leader, or ``None``: unknown partition, no leader, or a leader missing from the broker list."""
        partition = self.partition(topic_partition)
        return None if partition is None else self.nodes.get(partition.leader_id)

    def leader_epoch_for(self, topic_partition: TopicPartition) -> int:
        """The leader epoch, -1 when it is not known."""
        partition = self.partition(topic_partition)
        return NO_LEADER_EPOCH if partition is None else partition.leader_epoch


def missing_partition(number: int) -> PartitionMetadata:
    """A stand-in for a partition that a response left out: leaderless."""
    return PartitionMetadata(number, UNKNOWN_LEADER, error_code=LEADER_NOT_AVAILABLE_CODE)

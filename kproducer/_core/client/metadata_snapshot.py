"""MetadataSnapshot: an immutable picture of the cluster, from one Metadata response or from several.

``SnapshotMerger`` makes it. Caller threads (partitioning) and the I/O thread read it without locks. Knows
nothing of requests, timers or producing. Source: Kafka classes ``MetadataSnapshot`` and ``Cluster``; KIP-516.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from kproducer._core.runtime.public_names import public
from kproducer.types import Node, TopicPartition

#: The topic id in responses of brokers without topic ids.
ZERO_TOPIC_ID = UUID(int=0)
#: The broker named no leader epoch.
NO_LEADER_EPOCH = -1
_NONE: Final[Mapping[Any, Any]] = {}


@public
class PartitionMetadata(NamedTuple):
    """One partition.

    Attributes:
        partition: its number.
        leader_id: node id; -1 if there is no leader. The node may be missing from the broker list.
        leader_epoch: -1 if it is not known, or came from a response whose epochs are not reliable.
        replicas: node ids.
        isr: node ids of the in-sync replicas.
        offline: node ids of the replicas that are down.
        error_code: the broker's error code for this partition; 0 is none.
    """

    partition: int
    leader_id: int
    leader_epoch: int = NO_LEADER_EPOCH
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    error_code: int = 0


@public
class TopicMetadata(NamedTuple):
    """One topic.

    Attributes:
        name: topic name.
        topic_id: ``ZERO_TOPIC_ID`` if the broker has no topic ids.
        partitions: indexed by partition number, without gaps.
        available: numbers of the partitions whose leader is a known node, ascending.
    """

    name: str
    topic_id: UUID
    partitions: tuple[PartitionMetadata, ...]
    available: tuple[int, ...]


@public
class MetadataSnapshot(NamedTuple):
    """The state of the cluster at one moment. Immutable: any thread may keep and read it.

    The mappings never change after construction. They are plain dicts because the producer looks topics up
    per record.

    Attributes:
        cluster_id: ``None`` before the first response.
        nodes: brokers by id. Before the first response: the bootstrap servers with ids -1, -2, ...
        topics: topics without a topic-level error.
        topic_ids: topic name to id, valid ids only.
        is_bootstrap: made from configured addresses, not from a response.
    """

    cluster_id: str | None = None
    nodes: Mapping[int, Node] = _NONE
    topics: Mapping[str, TopicMetadata] = _NONE
    topic_ids: Mapping[str, UUID] = _NONE
    is_bootstrap: bool = False

    @classmethod
    def bootstrap(cls, addresses: Iterable[tuple[str, int]]) -> MetadataSnapshot:
        """A snapshot of (host, port) pairs; their node ids are -1, -2, ..."""
        nodes = {-i: Node(-i, host, port) for i, (host, port) in enumerate(addresses, start=1)}
        return cls(nodes=nodes, is_bootstrap=True)

    def partition_count(self, topic: str) -> int | None:
        """Number of partitions, ``None`` for an unknown topic."""
        metadata = self.topics.get(topic)
        return None if metadata is None else len(metadata.partitions)

    def partition(self, topic_partition: TopicPartition) -> PartitionMetadata | None:
        """One partition, ``None`` if it is not known."""
        topic, number = topic_partition
        metadata = self.topics.get(topic)
        if metadata is None or not 0 <= number < len(metadata.partitions):
            return None
        return metadata.partitions[number]

    def leader_for(self, topic_partition: TopicPartition) -> Node | None:
        """The leader, or ``None``: unknown partition, no leader, or a leader missing from the broker list."""
        partition = self.partition(topic_partition)
        return None if partition is None else self.nodes.get(partition.leader_id)

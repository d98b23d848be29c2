"""PartitionLoad: tells the partitioners which queues are long and which brokers are slow.

Source: KIP-794; Kafka's ``RecordAccumulator.NodeLatencyStats``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kproducer._core.accumulator.partition_queue import PartitionQueue, TopicQueues
from kproducer._core.client.metadata_snapshot import MetadataSnapshot


class PartitionLoad:
    """Publishes queue sizes and slow brokers to the partitioners.

    I/O thread only; threads that send read what it publishes.

    Args:
        adaptive: whether queue sizes count (``partitioner_adaptive_partitioning_enable``).
        availability_timeout_ms: a broker for which batches are ready and that accepts no request for this
            time is avoided; 0 never avoids any.

    Attributes:
        is_published: whether to publish again even if nothing waits: queue sizes are published, or brokers
            are watched.
    """

    def __init__(self, adaptive: bool, availability_timeout_ms: int) -> None:
        self._adaptive = adaptive
        self._availability_timeout_ms = availability_timeout_ms
        #: Node id -> (last drained, last ready).
        self._node_times_ms: dict[int, tuple[int, int]] = {}
        self._topics_with_load: set[str] = set()
        self.is_published = availability_timeout_ms > 0

    def note_node(self, node_id: int, now_ms: int, can_drain: bool) -> None:
        """Note that something is ready for a node, and whether it can take it."""
        if self._availability_timeout_ms <= 0:
            return
        known = self._node_times_ms.get(node_id)
        drained_ms = now_ms if can_drain or known is None else known[0]
        self._node_times_ms[node_id] = (drained_ms, now_ms)

    def publish(
        self,
        topics: Mapping[str, TopicQueues],
        active: Sequence[PartitionQueue],
        snapshot: MetadataSnapshot,
    ) -> None:
        """Publish the present load.

        Sizes only those that have chosen before: the first choice of a topic is even. If all records
        have keys, no queue is visited.

        Args:
            topics: all topics.
            active: the queues that hold something.
        """
        watches_nodes = self._availability_timeout_ms > 0
        asking = set()
        if self._adaptive:
            asking = {name for name in list(topics) if topics[name].slots.sticky is not None}
        sizes_by_topic: dict[str, list[int]] = {}
        waiting_node_ids: set[int] = set()
        if asking or watches_nodes:
            for queue in active:
                topic, partition = queue.topic_partition
                if topic not in asking and not watches_nodes:
                    continue
                metadata = snapshot.topics.get(topic)
                size = queue.waiting_count
                if not size or metadata is None or partition >= len(metadata.partitions):
                    continue
                leader_id = metadata.partitions[partition].leader_id
                if leader_id in snapshot.nodes:
                    if topic in asking:
                        sizes_by_topic.setdefault(topic, []).append(size)
                    waiting_node_ids.add(leader_id)
        self._publish_sizes(topics, snapshot, sizes_by_topic)
        if watches_nodes:
            # A broker without waiting batches is tried again: nothing else would show that it has recovered.
            slow_nodes = frozenset([node_id for node_id in waiting_node_ids if self._is_slow(node_id)])
            for topic_queues in list(topics.values()):
                topic_queues.partitioner.unavailable_nodes = slow_nodes

    def _publish_sizes(
        self,
        topics: Mapping[str, TopicQueues],
        snapshot: MetadataSnapshot,
        sizes_by_topic: Mapping[str, list[int]],
    ) -> None:
        for topic in self._topics_with_load - sizes_by_topic.keys():
            topics[topic].partitioner.queue_size_range = None
        self._topics_with_load = set(sizes_by_topic)
        self.is_published = bool(sizes_by_topic) or self._availability_timeout_ms > 0
        for topic, sizes in sizes_by_topic.items():
            # Queues that are not listed are empty.
            smallest = min(sizes) if len(sizes) >= len(snapshot.topics[topic].available) else 0
            largest = max(sizes)
            size_range = (smallest, largest) if largest > smallest else None
            topics[topic].partitioner.queue_size_range = size_range

    def _is_slow(self, node_id: int) -> bool:
        times = self._node_times_ms.get(node_id)
        return times is not None and times[1] - times[0] > self._availability_timeout_ms

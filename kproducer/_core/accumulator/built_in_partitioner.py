"""BuiltInPartitioner: which partition records without a key go to.

Stays with one partition for about a batch, then moves to another, preferring short queues and avoiding
partitions without a leader or behind a broker that accepts nothing, and on request those with a leader in
another rack. One for each topic. Knows the queues only by their sizes. Source: KIP-480 (sticky), KIP-794
(adaptive), KIP-1123 (racks); Kafka class ``BuiltInPartitioner``.

Differs from Kafka: the partition is switched when a batch is closed (full or lingered) and at least
``min_sticky_bytes`` were produced. Kafka switches after ``batch.size`` bytes; with large batches, a slow
topic would then use one partition for minutes (docs/decisions/0023-growing-batches.md). Kafka also rebuilds
a table of weights over all partitions whenever it looks at the ready queues. Here a partition is drawn evenly
and then accepted in proportion to its weight: without a table, idle partitions cost nothing.
"""

from __future__ import annotations

import random as random_module
from collections.abc import Callable
from typing import Final

from kproducer._core.client.metadata_snapshot import MetadataSnapshot, TopicMetadata
from kproducer._core.kernel import StickyPartition, TopicSlots
from kproducer._core.records.batch_sizing import TopicCompressionRatio
from kproducer.errors import IllegalStateError

#: Draws before the weights of all partitions are added up instead. Only very uneven queues get there.
MAX_DRAWS = 32

#: What a record takes in a batch beside its key and value, roughly; for the count of produced bytes.
RECORD_OVERHEAD_BYTES: Final = 9
#: After this many bytes the sticky partitioner switches with the end of the next batch, however small it is:
#: at low rates one partition would get all records for minutes if only full batches counted.
STICKY_BYTES: Final = 16384

_NO_NODES: frozenset[int] = frozenset()


class BuiltInPartitioner:
    """Sticky and adaptive choice for one topic. Methods may be called from any thread.

    Args:
        topic: topic name.
        slots: the topic's; the present choice is written to ``slots.sticky``, always a new object, so that
            comparing references shows a change.
        batch_size: bytes of a full batch, which always ends the sticky period.
        queue_size: number of batches that wait for a partition.
        adaptive: whether queue sizes count; else the choice is even.
        rack: prefer partitions whose leader is in this rack; ``None``: racks do not count.
        ratio: the topic's compression estimate; 16 KiB of batch may hold 64 KiB of records.
        random: source of randomness.

    Attributes:
        queue_size_range: smallest and largest queue among the topic's available partitions, or ``None`` when
            no queue holds more than another. Written by the I/O thread.
        unavailable_nodes: brokers that have accepted nothing for too long. Written by the I/O thread.
        snapshot: the last one that the I/O thread has seen; ``None``: none.
    """

    def __init__(
        self,
        topic: str,
        slots: TopicSlots,
        batch_size: int,
        queue_size: Callable[[int], int],
        *,
        adaptive: bool = True,
        rack: str | None = None,
        ratio: TopicCompressionRatio | None = None,
        random: random_module.Random | None = None,
    ) -> None:
        self._topic = topic
        self._slots = slots
        slots.choose = self.choose
        self._batch_size = batch_size
        self._queue_size = queue_size
        self._adaptive = adaptive
        self._rack = rack
        #: The last snapshot and its partitions in the rack, replaced as a whole. If two threads replace it at
        #: once, one of them has computed it for nothing.
        self._in_rack: tuple[MetadataSnapshot, tuple[int, ...]] | None = None
        self._ratio = ratio
        self._random = random or random_module.Random()
        self.queue_size_range: tuple[int, int] | None = None
        self.unavailable_nodes = _NO_NODES
        self.snapshot: MetadataSnapshot | None = None

    def peek(self, snapshot: MetadataSnapshot) -> StickyPartition:
        """The present choice, made now if there is none. Two threads may race; both get the winner's."""
        sticky = self._slots.sticky
        if sticky is None:
            # Losing the race is harmless: the choice that lost was never handed out under a queue's lock,
            # and appends compare ``slots.sticky`` again once they hold it.
            sticky = self._slots.sticky = self._choose(snapshot)
        return sticky

    def maybe_switch(
        self, sticky: StickyPartition, is_last_batch_full: bool, snapshot: MetadataSnapshot
    ) -> bool:
        """Choose another partition if enough was produced, or if this one has lost its leader.

        The lock of the queue of ``sticky`` is held.

        A switch in the middle of a batch would leave a fraction of one behind to be sent alone. So it waits
        for the end of a batch, up to twice a full one: with keyed records mixed in, that may never happen.

        Args:
            sticky: the choice of the caller.
            is_last_batch_full: no batch is open, or the open one takes no more.
            snapshot: if it is too old to contain the topic, the choice stays.

        Returns:
            Whether ``sticky`` is no longer the choice.
        """
        if self._slots.sticky is not sticky:
            return True
        topic = snapshot.topics.get(self._topic)
        if topic is None or not topic.partitions:
            return False
        produced, partitions = sticky.produced_bytes, topic.partitions
        if (
            produced < sticky.force_switch_at_bytes
            and not (is_last_batch_full and produced and produced >= sticky.least_bytes)
            # The present partition stays: it exists and has a leader, or no partition of the topic has one.
            and sticky.partition < len(partitions)
            and (not topic.available or partitions[sticky.partition].leader_id in snapshot.nodes)
        ):
            return False
        self._slots.sticky = self._choose(snapshot)
        return True

    def choose(self) -> StickyPartition | None:
        """Another choice, for a compiled append at the end of a batch. ``None``: it cannot be made."""
        snapshot = self.snapshot
        if snapshot is None or not snapshot.partition_count(self._topic):
            return None
        return self._choose(snapshot)

    def _choose(self, snapshot: MetadataSnapshot) -> StickyPartition:
        """Draw a partition. It is to be switched after a full batch, in bytes of records as estimated now."""
        full_bytes = self._batch_size
        least_bytes = min(full_bytes, STICKY_BYTES)
        if self._ratio is not None:
            ratio = min(max(self._ratio.ratio, 0.01), 1.0)
            full_bytes, least_bytes = int(full_bytes / ratio), int(least_bytes / ratio)
        return StickyPartition(self.next_partition(snapshot), least_bytes, full_bytes, RECORD_OVERHEAD_BYTES)

    def next_partition(self, snapshot: MetadataSnapshot) -> int:
        """Draw a partition, even if none is available.

        Raises:
            IllegalStateError: the topic is not in the snapshot.
        """
        topic = snapshot.topics.get(self._topic)
        if topic is None or not topic.partitions:
            raise IllegalStateError(f"no partitions of topic {self._topic!r} are known")
        available = topic.available
        if not available:
            return int(self._random.random() * len(topic.partitions))
        sizes = self.queue_size_range if self._adaptive else None
        slow_nodes = self.unavailable_nodes
        partitions = topic.partitions
        in_rack = self._available_in_rack(snapshot, topic) if self._rack is not None else ()
        if in_rack and not (slow_nodes and all(partitions[p].leader_id in slow_nodes for p in in_rack)):
            available = in_rack
            if sizes is not None:
                # The published range is that of the whole topic. Partitions elsewhere do not compete.
                in_use = [self._queue_size(partition) for partition in in_rack]
                sizes = (min(in_use), max(in_use))
        smallest, largest = sizes if sizes is not None else (0, None)
        top_weight = 1 if largest is None else largest - smallest + 1
        for _ in range(MAX_DRAWS):
            partition = available[int(self._random.random() * len(available))]
            if slow_nodes and partitions[partition].leader_id in slow_nodes:
                continue
            weight = self._weight(partition, largest)
            if weight >= top_weight or self._random.random() * top_weight < weight:
                return partition
        candidates = [p for p in available if partitions[p].leader_id not in slow_nodes] or list(available)
        return self._random.choices(candidates, [self._weight(p, largest) for p in candidates])[0]

    def _available_in_rack(self, snapshot: MetadataSnapshot, topic: TopicMetadata) -> tuple[int, ...]:
        """The available partitions whose leader is in the rack; looked up once per snapshot."""
        known = self._in_rack
        if known is not None and known[0] is snapshot:
            return known[1]
        nodes, partitions = snapshot.nodes, topic.partitions
        found = tuple([p for p in topic.available if nodes[partitions[p].leader_id].rack == self._rack])
        self._in_rack = (snapshot, found)
        return found

    def _weight(self, partition: int, largest: int | None) -> int:
        """Larger for shorter queues. ``largest``: the longest queue; ``None``: queues do not count."""
        # The queue may have grown since the largest was determined.
        return 1 if largest is None else max(largest + 1 - self._queue_size(partition), 1)

"""PartitionQueues: the queues of waiting batches, by topic and partition, and which of them hold anything.

State and its invariants; RecordAccumulator alone decides what goes in and out. A queue is made when its
partition is first used and stays. Source: Kafka's ``RecordAccumulator.TopicInfo`` and its deques.
Differs from Kafka, where the delivery timeout counts from the first record of a batch and later ones fail
early: here it counts from the last one, and a batch is not open for long.
"""

from __future__ import annotations

import random as random_module
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kproducer.accumulator.buffer_pool import BufferPool
from kproducer.accumulator.built_in_partitioner import BuiltInPartitioner
from kproducer.accumulator.owned_lock import OwnedLock
from kproducer.accumulator.producer_batch import ProducerBatch
from kproducer.client.metadata_snapshot import NO_LEADER_EPOCH
from kproducer.config.producer_config import ProducerConfig
from kproducer.kernel import AppendSlot, TopicSlots
from kproducer.records.compression import Compression, CompressionType
from kproducer.records.compression_ratio_estimator import CompressionRatioEstimator, TopicCompressionRatio
from kproducer.runtime.clock import NEVER_MS
from kproducer.types import Headers, TopicPartition

if TYPE_CHECKING:
    from kproducer.accumulator.future_record_metadata import DeliveryCallback, FutureRecordMetadata

#: After so much the sticky partitioner moves on with the next batch that ends, however small that was: at low
#: rates one partition would have all records for minutes if only full batches counted.
STICKY_BYTES: Final = 16384


class PartitionQueue:
    """Batches waiting for one partition, oldest first. Guarded by ``lock`` unless noted.

    Attributes:
        lock: guards the fields below and appends to ``open_batch``, except compiled ones.
        slot: where compiled code finds the open batch; see ``open_slot_locked``.
        topic_partition: fixed.
        batches: waiting batches in sending order.
        open_batch: the last of ``batches`` while it takes records, else ``None``.
        next_order: place of the next new batch in the sending order.
        fills_batches: the last batch was full: the next one may well begin large.

    I/O thread only:
        is_muted: a batch is in flight and order matters.
        node: in whose rotation it stands.
        is_due: it stands among the due ones of a node.
        timer_ms: when ``ReadyQueues`` has a timer for it; ``NEVER_MS``: none.
        leader_epoch: of its leader, as of when it was last looked at.
    """

    __slots__ = (
        "batches",
        "fills_batches",
        "is_due",
        "is_muted",
        "leader_epoch",
        "lock",
        "next_order",
        "node",
        "open_batch",
        "slot",
        "timer_ms",
        "topic_partition",
    )

    def __init__(
        self, topic_partition: TopicPartition, holds_another_lock: Callable[[], bool] | None = None
    ) -> None:
        self.lock = OwnedLock(holds_another_lock)
        self.slot = AppendSlot(self.lock)
        self.topic_partition = topic_partition
        self.batches: deque[ProducerBatch] = deque()
        self.open_batch: ProducerBatch | None = None
        self.next_order = 0
        self.fills_batches = False
        self.is_muted = False
        self.node: NodeQueues | None = None
        self.is_due = False
        self.timer_ms = NEVER_MS
        self.leader_epoch = NO_LEADER_EPOCH

    def try_append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
        on_delivery: DeliveryCallback | None,
    ) -> FutureRecordMetadata | None:
        """Encode one record into the open batch. Takes the lock.

        Returns:
            The record's future; ``None``: there is no open batch, or no room in it.
        """
        with self.lock:
            appender = self.slot.appender
            if appender is None:
                return None
            return appender.append(timestamp_ms, key, value, headers, on_delivery)

    def is_full(self, batch: ProducerBatch) -> bool:
        """Whether a batch of ours takes no more records. Takes the lock."""
        with self.lock:
            return batch.is_full

    def insert_in_order_locked(self, batch: ProducerBatch) -> None:
        """Put back a batch before all that were made after it."""
        batches = self.batches
        place = 0
        order = batch.order
        for waiting in batches:
            if waiting.order > order:
                break
            place += 1
        batches.insert(place, batch)

    def pop_first_locked(self, now_ms: int) -> ProducerBatch:
        """Take out the first batch; it takes no more records from now on."""
        batch = self.batches.popleft()
        if batch is self.open_batch:
            if self.fills_batches and batch.is_mostly_empty:
                self.fills_batches = False
            self.close_slot_locked(now_ms)
        return batch

    def close_slot(self, now_ms: int) -> None:
        """Let the open batch, if there is one, take no more records. Takes the lock."""
        with self.lock:
            if self.open_batch is not None:
                # Not close_for_appends(), which may compress.
                self.open_batch.is_open = False
            self.close_slot_locked(now_ms)

    def close_slot_locked(self, now_ms: int) -> None:
        """Have no open batch. From here on no thread appends to the one that was: it may be touched."""
        self.slot.appender = None
        batch, self.open_batch = self.open_batch, None
        if batch is not None:
            batch.took_last_record(now_ms)


class NodeQueues:
    """What waits for one broker. I/O thread only; entries may be out of date.

    Attributes:
        node_id: the broker's.
        rotation: queues that may be drained, in the order in which to do so; those whose ``node`` this is.
        due: queues whose first batch need not wait; those with ``is_due``.
    """

    __slots__ = ("due", "node_id", "rotation")

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.rotation: deque[PartitionQueue] = deque()
        self.due: deque[PartitionQueue] = deque()


class TopicQueues:
    """The queues of one topic and its sticky choice.

    Attributes:
        queues: by partition number, ``None`` where there is none yet; only ever grows.
        slots: the queues' slots and the sticky choice, for compiled code.
        ratio: the topic's compression estimate.
        partitioner: for records that leave the partition to us.
    """

    __slots__ = ("partitioner", "queues", "ratio", "slots")

    def __init__(
        self,
        topic: str,
        config: ProducerConfig,
        ratio: TopicCompressionRatio | None,
        random: random_module.Random | None,
    ) -> None:
        self.queues: list[PartitionQueue | None] = []
        self.slots = TopicSlots()
        self.ratio = ratio
        self.partitioner = BuiltInPartitioner(
            topic,
            self.slots,
            config.batch_size,
            self.queue_size,
            shortest_stay_bytes=STICKY_BYTES,
            adaptive=config.partitioner_adaptive_partitioning_enable,
            compression_ratio=None if ratio is None else lambda: ratio.ratio,
            random=random,
        )

    def queue_size(self, partition: int) -> int:
        """Number of batches that wait. Lock-free: a hint."""
        queue = self.queue(partition)
        return 0 if queue is None else len(queue.batches)

    def queue(self, partition: int) -> PartitionQueue | None:
        """The partition's queue, if there is one."""
        queues = self.queues
        return queues[partition] if partition < len(queues) else None

    def add_queue(self, queue: PartitionQueue) -> None:
        """Add a partition's first queue. The lock of ``PartitionQueues`` is held."""
        partition = queue.topic_partition.partition
        missing = partition + 1 - len(self.queues)
        # The queue before its slot: code that finds the slot may look for the queue.
        self.queues.extend([None] * missing)
        self.queues[partition] = queue
        self.slots.slots.extend([None] * missing)
        self.slots.slots[partition] = queue.slot


class PartitionQueues:
    """All queues of a producer. Thread-safe; lock order: a queue's lock, then ours.

    Attributes:
        topics: by name; only ever grows. Read without lock.
        slots: the slots of the same topics.
        active: the queues with batches in them, in the order in which to drain. An entry is added and removed
            under its queue's lock; the dict is changed by single operations and looked at as a copy.
        changed: queues whose first batch is another one, or need not wait any more: any thread adds to the
            end, after the change; ``ReadyQueues`` takes from the front.
        next_expiry_ms: a time before which no queued batch expires, nor has been open for too long.
    """

    __slots__ = (
        "_compression_type",
        "_config",
        "_delivery_timeout_ms",
        "_lock",
        "_longest_open_ms",
        "_pool",
        "_random",
        "_ratios",
        "active",
        "changed",
        "next_expiry_ms",
        "slots",
        "topics",
    )

    def __init__(
        self,
        config: ProducerConfig,
        compression: Compression,
        random: random_module.Random | None,
        pool: BufferPool,
    ) -> None:
        # Fixed after construction.
        self._config = config
        self._delivery_timeout_ms = config.delivery_timeout_ms
        # The first record of a batch fails so much later than it should; shorter, and a long outage would
        # leave many small batches.
        self._longest_open_ms = max(config.linger_ms, config.delivery_timeout_ms // 10)
        self._compression_type = compression.type
        # One for all topics: its state takes 2.5 KB, and topics are never forgotten.
        self._random = random if random is not None else random_module.Random()
        self._ratios = CompressionRatioEstimator()
        self._pool = pool
        self._lock = OwnedLock()
        # Guarded by _lock for writing.
        self.topics: dict[str, TopicQueues] = {}
        self.slots: dict[str, TopicSlots] = {}
        self.next_expiry_ms = NEVER_MS
        # Guarded as said above.
        self.active: dict[PartitionQueue, None] = {}
        self.changed: deque[PartitionQueue] = deque()

    def add_topic(self, topic: str) -> TopicQueues:
        """The topic's queues, made now if there are none."""
        with self._lock:
            found = self.topics.get(topic)
            if found is None:
                ratio = None
                if self._compression_type is not CompressionType.NONE:
                    ratio = self._ratios.topic_ratio(topic, self._compression_type)
                found = TopicQueues(topic, self._config, ratio, self._random)
                self.topics[topic] = found
                self.slots[topic] = found.slots
            return found

    def queue(self, topic: str, topic_queues: TopicQueues, partition: int) -> PartitionQueue:
        """The partition's queue, made now if there is none."""
        found = topic_queues.queue(partition)
        if found is None:
            with self._lock:
                found = topic_queues.queue(partition)
                if found is None:
                    found = PartitionQueue(TopicPartition(topic, partition), self.holds_lock)
                    topic_queues.add_queue(found)
        return found

    def queue_of(self, topic_partition: TopicPartition) -> PartitionQueue:
        """Likewise, by topic and partition."""
        topic, partition = topic_partition
        topic_queues = self.topics.get(topic)
        if topic_queues is None:
            topic_queues = self.add_topic(topic)
        return self.queue(topic, topic_queues, partition)

    def all_queues(self) -> list[PartitionQueue]:
        """Every queue there is, empty ones too."""
        with self._lock:
            queues = [queue for topic in self.topics.values() for queue in topic.queues]
            return [queue for queue in queues if queue is not None]

    def holds_lock(self) -> bool:
        """Whether the calling thread holds a queue's lock, ours or the pool's: it was interrupted there."""
        if self._lock.is_mine or self._pool.lock.is_mine:
            return True
        return any(
            queue is not None and queue.lock.is_mine
            for topic in list(self.topics.values())
            for queue in list(topic.queues)
        )

    def append_locked(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Add a new batch, open for records. The queue's lock is held."""
        queue.next_order += 1
        queue.open_batch = batch
        queue.batches.append(batch)
        # In this order: take_expired() first resets the expiry and then looks at the active queues.
        self.active[queue] = None
        self._note_expiry(batch.created_ms + self._longest_open_ms)
        # The second one makes the first one due.
        if len(queue.batches) <= 2:
            self.changed.append(queue)

    def take_back_locked(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Undo ``append_locked``, or as much of it as happened. The queue's lock is still held."""
        if queue.open_batch is batch:
            queue.close_slot_locked(batch.created_ms)
        self._take_out_locked(queue, batch)

    def put_back(self, batch: ProducerBatch) -> None:
        """Return a batch to its place among those that wait. I/O thread only."""
        queue = self.queue_of(batch.topic_partition)
        with queue.lock:
            queue.insert_in_order_locked(batch)
            self.active[queue] = None
        self._note_expiry(batch.closed_ms + self._delivery_timeout_ms)
        self.changed.append(queue)

    def pop_first_locked(self, queue: PartitionQueue, now_ms: int) -> ProducerBatch:
        """Take out the first batch; the queue goes behind all others. The queue's lock is held."""
        batch = queue.pop_first_locked(now_ms)
        del self.active[queue]
        if queue.batches:
            self.active[queue] = None
        return batch

    def remove(self, batch: ProducerBatch) -> None:
        """Take out a batch wherever it is; it takes no more records. Nothing happens if it is not queued."""
        queue = self.queue_of(batch.topic_partition)
        with queue.lock:
            if batch is queue.open_batch:
                queue.close_slot_locked(batch.created_ms)
            batch.is_open = False
            self._take_out_locked(queue, batch)

    def _take_out_locked(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        if batch in queue.batches:
            queue.batches.remove(batch)
        if queue.batches:
            self.changed.append(queue)
        else:
            self.active.pop(queue, None)

    def set_muted(self, topic_partition: TopicPartition, is_muted: bool) -> None:
        """Keep a partition's batches from being drained, or let them be drained again. I/O thread only."""
        queue = self.queue_of(topic_partition)
        queue.is_muted = is_muted
        if not is_muted and queue.batches:
            self.changed.append(queue)

    def _note_expiry(self, expiry_ms: int) -> None:
        if expiry_ms < self.next_expiry_ms:
            with self._lock:
                if expiry_ms < self.next_expiry_ms:
                    self.next_expiry_ms = expiry_ms

    def take_expired(self, now_ms: int) -> list[ProducerBatch]:
        """Take out the batches whose delivery timeout has passed. I/O thread only.

        A batch that has been open for too long is closed: the delivery timeout of all its records counts from
        the last one.
        """
        if now_ms < self.next_expiry_ms:
            return []
        with self._lock:
            self.next_expiry_ms = NEVER_MS
        expired: list[ProducerBatch] = []
        for queue in list(self.active):
            with queue.lock:
                open_batch = queue.open_batch
                if open_batch is not None:
                    close_at_ms = open_batch.created_ms + self._longest_open_ms
                    if now_ms < close_at_ms:
                        self._note_expiry(close_at_ms)
                    else:
                        open_batch.is_open = False
                        queue.close_slot_locked(now_ms)
                while queue.batches and queue.batches[0] is not queue.open_batch:
                    batch = queue.batches[0]
                    if not batch.has_reached_delivery_timeout(self._delivery_timeout_ms, now_ms):
                        self._note_expiry(batch.closed_ms + self._delivery_timeout_ms)
                        break
                    queue.pop_first_locked(now_ms)
                    # Not close_for_appends(), which may compress, and fail: the batch has to be told of.
                    batch.is_open = False
                    expired.append(batch)
                if not queue.batches:
                    self.active.pop(queue, None)
            self.changed.append(queue)
        return expired

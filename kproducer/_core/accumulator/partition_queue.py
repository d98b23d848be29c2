"""PartitionQueue: the batches that wait for one partition. TopicQueues and PartitionQueues: where to find it.

Only this file changes which batches a queue holds, which of them is open, and whether compiled code may
append. (Compiled code itself empties the slot while it writes without the GIL.) Methods that end in
``_locked`` need the queue's lock; the others take it. A queue is created when its partition is first used,
and stays.
Source: Kafka's ``RecordAccumulator.TopicInfo``.

Differs from Kafka, where the delivery timeout counts from the first record of a batch and later ones fail
early: here it counts from the last one, and a batch is not open for long.
"""

from __future__ import annotations

import bisect
import random as random_module
from collections import deque
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from kproducer._core.accumulator.buffer_pool import BufferPool
from kproducer._core.accumulator.built_in_partitioner import BuiltInPartitioner
from kproducer._core.accumulator.owned_lock import OwnedLock
from kproducer._core.accumulator.producer_batch import ProducerBatch
from kproducer._core.client.metadata_snapshot import NO_LEADER_EPOCH
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.kernel import AppendSlot, TopicSlots
from kproducer._core.records.batch_sizing import TopicCompressionRatio
from kproducer._core.records.compression import Compression, CompressionType
from kproducer._core.runtime.clock import NEVER_MS
from kproducer.types import Headers, TopicPartition

if TYPE_CHECKING:
    from kproducer._core.accumulator.future_record_metadata import DeliveryCallback

#: Timestamp, key, value, headers and callback, as ``ProducerBatch.try_append`` takes them.
Record: TypeAlias = "tuple[int, bytes | None, bytes | None, Headers | None, DeliveryCallback | None]"


def _no_lanes(batch: Any) -> ProducerBatch:
    raise AssertionError("there are no lanes")


class PartitionQueue:
    """Batches waiting for one partition, oldest first. Guarded by ``lock`` unless noted.

    Attributes:
        lock: guards the fields below and appends to ``open_batch``, except compiled ones.
        slot: where compiled code finds the open batch. Code that needs the batch to stay as it is, or writes
            to it in Python at its limit, empties the slot.
        topic_partition: fixed.
        batches: waiting batches in sending order.
        open_batch: the last of ``batches`` while it takes records, else ``None``.
        next_order: place of the next new batch in the sending order.
        fills_batches: the last batch was full, so the next one may begin large.

    I/O thread only:
        is_muted: a batch is in flight and order matters.
        node: in whose rotation it is.
        is_due: it is in the ``due`` of a node.
        timer_ms: when ``ReadyQueues`` has a timer for it; ``NEVER_MS``: none.
        leader_epoch: of its leader, as of the last ``ready``.
    """

    # fmt: off
    __slots__ = (
        "_all", "batches", "fills_batches", "is_due", "is_muted", "leader_epoch", "lock", "next_order",
        "node", "open_batch", "slot", "timer_ms", "topic_partition",
    )
    # fmt: on

    def __init__(self, topic_partition: TopicPartition, all_queues: PartitionQueues) -> None:
        self.topic_partition = topic_partition
        self._all = all_queues
        self.lock = OwnedLock(all_queues.holds_another)
        self.slot = AppendSlot(self.lock)
        # A deque would take 600 bytes while it is empty.
        self.batches: list[ProducerBatch] = []
        self.open_batch: ProducerBatch | None = None
        self.next_order = 0
        self.fills_batches = False
        self.is_muted = False
        self.node: NodeQueues | None = None
        self.is_due = False
        self.timer_ms = NEVER_MS
        self.leader_epoch = NO_LEADER_EPOCH

    # -- the slot --------------------------------------------------------------------------------------

    def fill_slot_locked(self) -> bool:
        """Let compiled code append to the open batch, if there is one; if that is full, it is due.

        Returns:
            Whether there is one, and it is full.
        """
        batch = self.open_batch
        if batch is None or not batch.is_open:
            return False
        self.slot.appender = batch.appender
        # First the slot, then the check. PartitionQueues.close() first sets is_closed, then empties the
        # slots: so no slot is filled after it, whichever thread is faster.
        if self._all.is_closed:
            self.slot.appender = None
        is_full = batch.builder is None or batch.builder.is_full
        if is_full:
            self._all.changed.append(self)
        return is_full

    def empty_slot_locked(self) -> None:
        """Keep compiled code from appending, until ``fill_slot_locked``."""
        self.slot.appender = None

    # -- the data plane --------------------------------------------------------------------------------

    def disarm_locked(self) -> None:
        """Take the partition back from its lane, with the batches that are not in flight.

        If it is interrupted, the next call goes on. The I/O thread makes that, when it is woken: see
        ``disarmed``.
        """
        part = self.slot.part
        if part is None:
            return
        queues = self._all
        queues.disarmed.append(part)
        batches: list[ProducerBatch] = []
        open_batch: ProducerBatch | None = None
        for each in part.disarm():
            batch = queues.adopt(each)
            if batch.is_done:  # failed after an interruption
                continue
            open_batch = batch if batch.is_open and not queues.is_closed else None
            batch.is_open = open_batch is not None
            batches.append(batch)
            queues.active[self] = None
            queues.note_expiry(batch.created_ms + queues.longest_open_ms)
            queues.note_expiry(batch.closed_ms + queues.delivery_timeout_ms)
        # Nothing is called here, so no interruption comes between.
        self.batches, self.open_batch, self.next_order = batches, open_batch, part.next_order
        self.slot.part, part.detached = None, None
        if batches:
            self.fill_slot_locked()
            queues.changed.append(self)

    def disarm(self) -> None:
        """``disarm_locked`` without the lock."""
        with self.lock:
            self.disarm_locked()

    def arm_locked(self, part: Any, lane: Any) -> None:
        """Give the partition to a lane, with its batches, all of which ``can_be_armed``. I/O thread only.

        Raises:
            MemoryError: nothing has changed.
        """
        self.slot.appender = None
        try:
            rows = [
                (
                    each,
                    each.appender,
                    each.order[0],
                    each.created_ms,
                    each.closed_ms,
                    each.compressed_records,
                )
                for each in self.batches
            ]
            nothing: list[ProducerBatch] = []
            part.next_order = self.next_order
            part.fills_batches = self.fills_batches
            part.arm(lane, rows, self.open_batch is not None)
        except BaseException:
            self.fill_slot_locked()
            raise
        self.open_batch, self.batches, self.slot.part = None, nothing, part
        self._all.active.pop(self, None)

    @property
    def waiting_count(self) -> int:
        """Batches that are not in flight. Lock-free: a hint."""
        part = self.slot.part
        return len(self.batches) if part is None else int(part.waiting_count)

    # -- batches in and out ----------------------------------------------------------------------------

    def add_batch_locked(self, batch: ProducerBatch) -> None:
        """Add a new batch, open for records in Python; ``fill_slot_locked`` opens it for compiled code."""
        self.next_order += 1
        self.open_batch = batch
        self.batches.append(batch)
        # First ``active``, then the expiry: take_expired() resets the expiry before it looks at the active
        # queues, so that it sees this batch, or this code sees the reset.
        queues = self._all
        queues.active[self] = None
        expiry_ms = batch.created_ms + queues.longest_open_ms
        if expiry_ms < queues.next_expiry_ms:
            queues.note_expiry(expiry_ms)
        # With a second batch queued, the first need not linger any longer.
        if len(self.batches) <= 2:
            queues.changed.append(self)

    def remove(self, batch: ProducerBatch) -> None:
        """Take out a batch, which takes no more records. Nothing happens if it is not here."""
        with self.lock:
            self.remove_locked(batch)

    def remove_locked(self, batch: ProducerBatch) -> None:
        """Like ``remove``; also undoes as much of an interrupted ``add_batch_locked`` as happened."""
        if batch is self.open_batch:
            self._close_open_batch_locked(batch.created_ms)
        if batch in self.batches:
            self.batches.remove(batch)
        if self.batches:
            self._all.changed.append(self)
        else:
            self._all.active.pop(self, None)

    def close_full_batch_locked(self, now_ms: int) -> None:
        """The open batch has no room for a record: it is due, and takes no more."""
        self.fills_batches = True
        self._close_open_batch_locked(now_ms)
        self._all.changed.append(self)

    def close_open_batch(self, now_ms: int) -> None:
        """Let the open batch, if there is one, take no more records."""
        with self.lock:
            self._close_open_batch_locked(now_ms)

    def _close_open_batch_locked(self, now_ms: int) -> None:
        """Close the open batch, if there is one: from here on no thread appends to it."""
        self.slot.appender = None
        batch, self.open_batch = self.open_batch, None
        if batch is not None:
            batch.is_open = False
            appender = batch.appender
            # closed_ms is the time of the last record. A single record came when the batch was begun, which
            # may be long ago.
            if appender is not None and appender.writer.record_count > 1 and now_ms > batch.created_ms:
                batch.closed_ms = now_ms

    def put_back(self, batch: ProducerBatch) -> None:
        """Return a batch that is to be sent again to its place in the sending order. I/O thread only."""
        with self.lock:
            self.disarm_locked()
            bisect.insort(self.batches, batch, key=attrgetter("order"))
            self._all.active[self] = None
        self._all.note_expiry(batch.closed_ms + self._all.delivery_timeout_ms)
        self._all.changed.append(self)

    def pop_first_locked(self, now_ms: int) -> ProducerBatch:
        """Take out the first batch, which takes no more records; the queue goes behind all others."""
        batch = self.batches.pop(0)
        if batch is self.open_batch:
            if self.fills_batches and batch.is_mostly_empty:
                self.fills_batches = False
            self._close_open_batch_locked(now_ms)
        del self._all.active[self]
        if self.batches:
            self._all.active[self] = None
        return batch

    def take_expired(self, now_ms: int) -> list[ProducerBatch]:
        """Take out the batches whose delivery timeout has passed. I/O thread only.

        A batch that has been open for too long is closed: the delivery timeout of all its records counts from
        the last one.
        """
        expired: list[ProducerBatch] = []
        with self.lock:
            if self.open_batch is not None:
                close_at_ms = self.open_batch.created_ms + self._all.longest_open_ms
                if now_ms < close_at_ms:
                    self._all.note_expiry(close_at_ms)
                else:
                    self._close_open_batch_locked(now_ms)
            while self.batches and self.batches[0] is not self.open_batch:
                batch = self.batches[0]
                if not batch.has_reached_delivery_timeout(self._all.delivery_timeout_ms, now_ms):
                    self._all.note_expiry(batch.closed_ms + self._all.delivery_timeout_ms)
                    break
                expired.append(self.pop_first_locked(now_ms))
        self._all.changed.append(self)
        return expired

    def set_muted(self, is_muted: bool) -> None:
        """Keep the batches from being drained, or let them be drained again. I/O thread only."""
        self.is_muted = is_muted
        if not is_muted and self.batches:
            self._all.changed.append(self)


class NodeQueues:
    """What waits for one broker. I/O thread only; entries may be out of date.

    Attributes:
        node_id: the broker's.
        rotation: queues that may be drained, in the order in which to do so; those whose ``node`` this is.
        due: queues whose first batch need not wait; those with ``is_due``.
    """

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
        partitioner: for records without a partition.
    """

    def __init__(
        self,
        topic: str,
        config: ProducerConfig,
        ratio: TopicCompressionRatio | None,
        random: random_module.Random,
    ) -> None:
        self.topic = topic
        self.queues: list[PartitionQueue | None] = []
        self.slots = TopicSlots()
        self.ratio = ratio
        self.partitioner = BuiltInPartitioner(
            topic,
            self.slots,
            max(config.batch_size, 1),
            self.queue_size,
            adaptive=config.partitioner_adaptive_partitioning_enable,
            rack=config.client_rack if config.partitioner_rack_aware else None,
            ratio=ratio,
            random=random,
        )

    def queue_size(self, partition: int) -> int:
        """Number of waiting batches. Lock-free: a hint."""
        queues = self.queues
        queue = queues[partition] if partition < len(queues) else None
        return 0 if queue is None else queue.waiting_count

    def queue(self, partition: int) -> PartitionQueue | None:
        """The partition's queue, if there is one."""
        queues = self.queues
        return queues[partition] if partition < len(queues) else None

    def add_queue(self, queue: PartitionQueue) -> None:
        """Add the queue of a partition that has none. The lock of ``PartitionQueues`` is held."""
        partition = queue.topic_partition.partition
        missing = partition + 1 - len(self.queues)
        # The queue is stored before its slot: code that finds the slot may look for the queue.
        self.queues.extend([None] * missing)
        self.queues[partition] = queue
        self.slots.slots.extend([None] * missing)
        self.slots.slots[partition] = queue.slot


class PartitionQueues:
    """All queues of a producer, and which of them hold anything. Thread-safe.

    Attributes:
        topics: by name; only ever grows. Read without lock.
        slots: the slots of the same topics.
        compression_locks: of the batches that callers compress now.
        active: the queues with batches in them, in the order in which to drain. An entry is added and removed
            under its queue's lock; the dict is changed by single operations and copied for iteration.
        changed: queues whose first batch is another one, or need not wait any more: any thread adds to the
            end, after the change; ``ReadyQueues`` takes from the front.
        next_expiry_ms: a time before which no queued batch expires, nor has been open for too long.
        is_closed: no record is taken any more; set once, by any thread.
        delivery_timeout_ms, longest_open_ms: how long a batch may wait, and may be open.
    """

    def __init__(
        self,
        config: ProducerConfig,
        compression: Compression,
        random: random_module.Random | None,
        pool: BufferPool,
    ) -> None:
        # Fixed after construction.
        self._config = config
        self._pool = pool
        self.delivery_timeout_ms = config.delivery_timeout_ms
        # A batch expires by the time of its last record, so its first record may expire this much too late. A
        # shorter limit would create many small batches in a long outage.
        self.longest_open_ms = max(config.linger_ms, config.delivery_timeout_ms // 10)
        self._compression_type = compression.type
        # One generator for all topics: its state takes 2.5 KB, and topics are never forgotten.
        self._random = random if random is not None else random_module.Random()
        self._lock = OwnedLock()
        #: For the locks of all queues: ``holds_lock``, which as an object of each would take 72 bytes.
        self.holds_another: Callable[[], bool] = self.holds_lock
        # Guarded by _lock for writing.
        self.topics: dict[str, TopicQueues] = {}
        self.slots: dict[str, TopicSlots] = {}
        self.next_expiry_ms = NEVER_MS
        # ``active`` is changed under the lock of the queue that is added or removed. Any thread changes the
        # others, by single operations.
        self.active: dict[PartitionQueue, None] = {}
        self.compression_locks: set[OwnedLock] = set()
        self.changed: deque[PartitionQueue] = deque()
        self.is_closed = False
        #: Partitions that were disarmed, perhaps not completely, because the caller was interrupted: for
        #: ``FastLanes``, which takes back the rest.
        self.disarmed: deque[Any] = deque()
        #: (batch of a lane) -> the ``ProducerBatch`` that it becomes.
        self.adopt: Callable[[Any], ProducerBatch] = _no_lanes

    def topic(self, topic: str, partition_count: int = 0) -> TopicQueues:
        """The topic's queues, created if there are none.

        Args:
            partition_count: as the caller knows it; 0: unknown. The I/O thread sets the present one soon.
        """
        found = self.topics.get(topic)
        if found is None:
            with self._lock:
                found = self.topics.get(topic)
                if found is None:
                    ratio = None
                    if self._compression_type is not CompressionType.NONE:
                        ratio = TopicCompressionRatio()
                    found = TopicQueues(topic, self._config, ratio, self._random)
                    found.slots.partition_count = partition_count
                    self.topics[topic] = found
                    self.slots[topic] = found.slots
        return found

    def queue(self, topic_queues: TopicQueues, partition: int) -> PartitionQueue:
        """The partition's queue, created if there is none."""
        queues = topic_queues.queues
        found = queues[partition] if partition < len(queues) else None
        if found is None:
            with self._lock:
                found = topic_queues.queue(partition)
                if found is None:
                    found = PartitionQueue(TopicPartition(topic_queues.topic, partition), self)
                    topic_queues.add_queue(found)
        return found

    def queue_of(self, topic_partition: TopicPartition) -> PartitionQueue:
        """The partition's queue by topic and partition, created if there is none."""
        return self.queue(self.topic(topic_partition.topic), topic_partition.partition)

    def all_queues(self) -> list[PartitionQueue]:
        """All queues, empty ones too. Takes no lock: a queue that is being created may be missing."""
        topics = list(self.topics.values())
        return [queue for topic in topics for queue in list(topic.queues) if queue is not None]

    def holds_lock(self) -> bool:
        """Whether the calling thread was interrupted with a lock: of a queue, a batch, the pool, or ours.

        Looks at every queue, for calls that wait anyway.
        """
        if any(lock.is_mine for lock in [self._lock, self._pool.lock, *self.compression_locks]):
            return True
        return any(queue.lock.is_mine for queue in self.all_queues())

    def note_expiry(self, expiry_ms: int) -> None:
        """Note that a queued batch expires, or has been open for too long, at this time."""
        if expiry_ms < self.next_expiry_ms:
            with self._lock:
                if expiry_ms < self.next_expiry_ms:
                    self.next_expiry_ms = expiry_ms

    def take_expired(self, now_ms: int) -> list[ProducerBatch]:
        """Take out the batches of all queues whose delivery timeout has passed. I/O thread only."""
        if now_ms < self.next_expiry_ms:
            return []
        with self._lock:
            self.next_expiry_ms = NEVER_MS
        return [batch for queue in list(self.active) for batch in queue.take_expired(now_ms)]

    def close(self) -> None:
        """Refuse further records. What was accepted stays."""
        self.is_closed = True
        for queue in self.all_queues():
            queue.slot.appender = None
            if queue.slot.part is not None:
                queue.slot.part.refuse()

"""NewBatches: makes the batch that a record needs, with memory and with the partition's slot empty.

What an append that finds no open batch, or no room in it, comes to. It may block, for memory only, and then
holds no lock. Any thread. Knows nothing of sending. Source: Kafka's ``RecordAccumulator.append`` from where
it allocates; KIP-794 (partitioning).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kproducer.accumulator.buffer_pool import BufferPool
from kproducer.accumulator.built_in_partitioner import produced_bytes
from kproducer.accumulator.compression_share import CompressionShare
from kproducer.accumulator.future_record_metadata import DeliveryCallback, FutureRecordMetadata
from kproducer.accumulator.partition_queues import PartitionQueue, PartitionQueues, TopicQueues
from kproducer.accumulator.producer_batch import ProducerBatch
from kproducer.config.producer_config import ProducerConfig
from kproducer.errors import IllegalStateError, ProducerClosedError
from kproducer.kernel import StickyPartition, record_size_upper_bound
from kproducer.records.compression import Compression, CompressionType
from kproducer.records.record_batch_builder import RecordBatchBuilder, expected_plain_bytes
from kproducer.runtime.clock import NEVER_MS, Clock
from kproducer.types import UNKNOWN_PARTITION, Headers

if TYPE_CHECKING:
    from kproducer.accumulator.built_in_partitioner import BuiltInPartitioner
    from kproducer.accumulator.incomplete_batches import IncompleteBatches
    from kproducer.client.metadata_snapshot import MetadataSnapshot
    from kproducer.records.compression_ratio_estimator import TopicCompressionRatio

#: Timestamp, key, value, headers and callback, as ``ProducerBatch.try_append`` takes them.
Record: TypeAlias = "tuple[int, bytes | None, bytes | None, Headers | None, DeliveryCallback | None]"


class _Unused:
    """The buffer of an append that no batch has yet: whatever interrupts the append, it goes back."""

    __slots__ = ("buffer",)

    def __init__(self) -> None:
        self.buffer: bytearray | None = None


class NewBatches:
    """Appends records for which there is no room yet. Thread-safe; lock order: a queue's, then the pool's.

    Args:
        config: sizes and linger.
        queues: where batches go.
        incomplete: every batch made is added.
        pool: memory.
        clock: for the time after a wait for memory.
        compression: codec of all batches.

    Attributes:
        is_closed: no record is taken any more; set once, by any thread.
        next_look_ms: when the I/O thread looks again at the latest, by itself; written by it, read by those
            who append. While it is looking: ``NEVER_MS``, since it may have passed the place already.
    """

    def __init__(
        self,
        config: ProducerConfig,
        queues: PartitionQueues,
        incomplete: IncompleteBatches,
        pool: BufferPool,
        clock: Clock,
        compression: Compression,
    ) -> None:
        # Fixed after construction.
        self._queues = queues
        self._active = queues.active
        self._incomplete = incomplete
        self._pool = pool
        self._clock = clock
        self._compression = compression
        is_compressed = compression.type is not CompressionType.NONE
        self._share = CompressionShare() if is_compressed else None
        self._batch_size = max(config.batch_size, 1)
        self._linger_ms = config.linger_ms
        # Any thread.
        self.is_closed = False
        self.next_look_ms = NEVER_MS

    def append(
        self,
        topic: str,
        topic_queues: TopicQueues,
        partition: int,
        record: Record,
        max_block_ms: float,
        now_ms: int | None,
        snapshot: MetadataSnapshot,
    ) -> tuple[FutureRecordMetadata, bool]:
        """Make a batch; wait for memory with no lock held, and look again. See ``RecordAccumulator.append``.

        Args:
            topic_queues: of ``topic``.
            partition: ``UNKNOWN_PARTITION`` leaves it to the sticky partitioner.
        """
        _, key, value, headers, _ = record
        partitioner = topic_queues.partitioner
        unused = _Unused()
        checked_usable = False
        #: A batch became ready, though the record may end up in another one that is open.
        filled = False
        try:
            while True:
                sticky: StickyPartition | None = None
                if partition == UNKNOWN_PARTITION:
                    sticky = partitioner.peek(snapshot)
                    queue = self._queues.queue(topic, topic_queues, sticky.partition)
                else:
                    queue = self._queues.queue(topic, topic_queues, partition)
                with queue.lock:
                    if self.is_closed:
                        raise ProducerClosedError("The producer is closed")
                    if sticky is not None:
                        if self._sticky_moved_locked(partitioner, sticky, queue, snapshot):
                            continue
                        if not checked_usable:
                            # The leader may have been lost since the choice. Only once: it may be that the
                            # next choice is no better.
                            checked_usable = True
                            if not partitioner.is_usable(sticky.partition, snapshot):
                                partitioner.switch(snapshot)
                                continue
                    future = None
                    is_new = False
                    batch = queue.open_batch
                    if batch is not None:
                        future = self._append_to_open_locked(queue, batch, record)
                        if future is None:
                            # Full. This is the moment when a switch leaves no fraction of a batch behind.
                            self._close_full_locked(queue, batch)
                            filled = True
                            queue.fills_batches = True
                            if sticky is not None:
                                sticky.produced_bytes = max(sticky.produced_bytes, sticky.switch_at_bytes)
                                partitioner.maybe_switch(sticky, True, snapshot)
                                continue
                        elif batch.is_full:
                            self._queues.changed.append(queue)
                            filled = True
                    if future is None and unused.buffer is None:
                        # Nearly always there is a buffer to be had at once, and the lock need not be let go.
                        first_bytes = self._first_bytes(queue, topic_queues.ratio)
                        size = max(first_bytes, record_size_upper_bound(key, value, headers))
                        unused.buffer = self._pool.take_pooled(size)
                        if unused.buffer is not None:
                            now_ms = self._time_of_append(now_ms)
                    if future is None and unused.buffer is not None and now_ms is not None:
                        future = self._append_first_locked(queue, topic_queues, record, unused, now_ms)
                        # Only now: an append_first that fails takes its batch back, with all that is in it.
                        self.open_slot_locked(queue)
                        is_new = True
                        # One record may be more than a batch.
                        filled = filled or (queue.open_batch is not None and queue.open_batch.is_full)
                    if future is not None:
                        if sticky is not None:
                            sticky.produced_bytes += produced_bytes(key, value)
                        return future, filled or (is_new and self._is_due_before_next_look(now_ms))
                unused.buffer = self._pool.allocate(size, max_block_ms)
                now_ms = self._time_of_append(now_ms)
        finally:
            if unused.buffer is not None:
                # Somebody else made room meanwhile, or this append failed.
                self._pool.deallocate(unused.buffer)

    def _close_full_locked(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """A batch has no room left: it is due.

        Records that come faster than one thread compresses are compressed by those who send them as well.
        """
        queue.close_slot_locked(self._clock.monotonic_ms())
        try:
            if self._share is None or self._share.leave(batch):
                batch.close_for_appends()
            else:
                batch.compress()
        finally:
            self._queues.changed.append(queue)

    def _first_bytes(self, queue: PartitionQueue, ratio: TopicCompressionRatio | None) -> int:
        """What a batch of the partition begins with: all it is expected to take, if the last one was full.

        Otherwise, whenever records come faster than they are sent, each buffer that comes back would be cut
        into small ones that have no room to grow: the smallest batches when the load is highest. Not when
        the partitions that hold batches could take a good part of the memory that way.
        """
        if queue.fills_batches:
            expected_bytes = expected_plain_bytes(self._batch_size, ratio)
            for size in self._pool.large_bytes:
                if size * len(self._active) <= self._pool.total_bytes // 4 and size < 2 * expected_bytes:
                    return size
        return self._pool.first_bytes

    def _time_of_append(self, now_ms: int | None) -> int:
        """The time, which may have passed since ``now_ms``."""
        clock_ms = self._clock.monotonic_ms()
        return clock_ms if now_ms is None else max(now_ms, clock_ms)

    def _append_to_open_locked(
        self, queue: PartitionQueue, batch: ProducerBatch, record: Record
    ) -> FutureRecordMetadata | None:
        """Append with the slot empty: at its limit a batch may compress a chunk and start over."""
        queue.slot.appender = None
        try:
            return batch.try_append(*record)
        finally:
            self.open_slot_locked(queue)

    def open_slot_locked(self, queue: PartitionQueue) -> None:
        """Let compiled code append to the open batch, if there is one."""
        batch = queue.open_batch
        if batch is None or not batch.is_open:
            return
        queue.slot.appender = batch.appender
        # In this order, and close() in the other one: no slot stays open after it.
        if self.is_closed:
            queue.slot.appender = None

    def _sticky_moved_locked(
        self,
        partitioner: BuiltInPartitioner,
        sticky: StickyPartition,
        queue: PartitionQueue,
        snapshot: MetadataSnapshot,
    ) -> bool:
        """Whether another partition is the choice by now, be it because this is the moment to switch."""
        last = queue.open_batch
        return partitioner.maybe_switch(sticky, last is None or last.is_full, snapshot)

    def _append_first_locked(
        self,
        queue: PartitionQueue,
        topic_queues: TopicQueues,
        record: Record,
        unused: _Unused,
        now_ms: int,
    ) -> FutureRecordMetadata:
        """Make a batch in the buffer around the record. The buffer is the batch's from then on.

        When the record is refused (``SerializationError``) nothing has changed.
        """
        buffer = unused.buffer
        assert buffer is not None
        batch: ProducerBatch | None = None
        try:
            builder = RecordBatchBuilder(
                buffer, self._compression, topic_queues.ratio, self._batch_size, self._pool
            )
            batch = ProducerBatch(queue.topic_partition, builder, now_ms, (queue.next_order,))
            future = batch.try_append(*record)
            if future is None:
                raise IllegalStateError(f"The first record does not fit into {len(buffer)} bytes")
            self._incomplete.add(batch)
            self._queues.append_locked(queue, batch)
            unused.buffer = None
        except BaseException:
            # Also what a signal handler raises, Ctrl-C for one. A batch that is incomplete and in no queue
            # would never end, nor would any flush() or close() that waits for it.
            if batch is not None:
                self._queues.take_back_locked(queue, batch)
                self._incomplete.remove(batch)
                batch.forget_memory()
            raise
        return future

    def _is_due_before_next_look(self, created_ms: int | None) -> bool:
        """Whether a new batch has lingered by then. With thousands of partitions looks are expensive."""
        if not self._linger_ms or created_ms is None:
            return True
        return self.next_look_ms > created_ms + self._linger_ms

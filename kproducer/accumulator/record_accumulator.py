"""RecordAccumulator: where records wait, as batches in one queue per partition.

Caller threads append; the I/O thread puts back what has to be sent again, and returns memory.
``ready_batches`` drains. ``PartitionQueue`` keeps the batches of one partition and knows which of them is
open; how a record gets into the open batch, or into a new one, is here. Knows nothing of requests and
connections. Source: Kafka class ``RecordAccumulator``; KIP-91 (delivery timeout), KIP-580 (backoff).

Locks: a queue's lock, then (within it) that of PartitionQueues or of the BufferPool. No lock is held while a
thread waits for memory, and only that of the batch while a thread compresses one. More than 400 lines because
append, abort and the release of memory share this order.
"""

from __future__ import annotations

import random as random_module
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Final

from kproducer.accumulator.buffer_pool import BufferPool
from kproducer.accumulator.built_in_partitioner import RECORD_OVERHEAD_BYTES
from kproducer.accumulator.future_record_metadata import (
    DeliveryCallback,
    FutureRecordMetadata,
)
from kproducer.accumulator.owned_lock import OwnedLock
from kproducer.accumulator.partition_queue import PartitionQueue, PartitionQueues, Record, TopicQueues
from kproducer.accumulator.pending_records import PendingRecords
from kproducer.accumulator.producer_batch import ProducerBatch
from kproducer.accumulator.ready_batches import ReadyBatches
from kproducer.client.metadata_snapshot import MetadataSnapshot
from kproducer.config.producer_config import ProducerConfig
from kproducer.errors import IllegalStateError, KafkaError, ProducerClosedError
from kproducer.errors.internal_errors import MemoryNeededError
from kproducer.kernel import StickyPartition, record_size_upper_bound
from kproducer.kernel.layout import MAX_RECORD_OVERHEAD, RECORD_BATCH_OVERHEAD
from kproducer.records.batch_sizing import FIRST_BUFFER_BYTES, TopicCompressionRatio, expected_plain_bytes
from kproducer.records.compression import PLAIN, Compression
from kproducer.records.record_batch_builder import RecordBatchBuilder
from kproducer.runtime.clock import NEVER_MS, Clock, ExponentialBackoff
from kproducer.runtime.guarded_logger import GuardedLogger
from kproducer.types import UNKNOWN_PARTITION, FlushResult, Headers, TopicPartition

if TYPE_CHECKING:
    from kproducer.transactions.transaction_manager import TransactionManager
    from kproducer.transactions.transaction_state import OpenTransaction

_log = GuardedLogger(__name__)

#: How many full batches may wait for the I/O thread to compress them: the one that it compresses now, and
#: more for the time in which it waits for the interpreter lock. With more, callers compress:
#: docs/decisions/0034-shared-compression.md
MAX_COMPRESSION_BACKLOG: Final = 3


class _Append:
    """One record on its way into a batch: what the rounds of ``_append_or_begin_batch`` share.

    Attributes:
        spare: a buffer that was taken for a new batch; empty again once it is the batch's.
        read_ms: the time, if it was read already; else 0.
        first_bytes: size of the buffer for the new batch.
        has_switched: the sticky partition was switched on behalf of this record.
        to_compress: a batch that this thread has to compress before the next round.
        future: the record's, once a batch has taken it.
        wakes_sender: a batch was begun or became full.
        may_wait: the caller may be blocked, by a wait for memory or by the compression of a full batch.
        transaction: the one to which the record belongs; ``None``: the producer has none.
    """

    __slots__ = (
        "first_bytes", "future", "has_switched", "may_wait", "now_ms", "partition", "read_ms", "record",
        "snapshot", "spare", "to_compress", "topic_queues", "transaction", "wakes_sender",
    )  # fmt: skip

    def __init__(
        self,
        topic_queues: TopicQueues,
        partition: int,
        record: Record,
        now_ms: int | None,
        snapshot: MetadataSnapshot,
        may_wait: bool,
        transaction: OpenTransaction | None,
    ) -> None:
        self.topic_queues = topic_queues
        self.partition = partition
        self.record = record
        self.may_wait = may_wait
        self.transaction = transaction
        self.now_ms = now_ms
        self.snapshot = snapshot
        self.spare: list[bytearray] = []
        self.read_ms = 0
        self.first_bytes = 0
        self.has_switched = False
        self.to_compress: ProducerBatch | None = None
        self.future: FutureRecordMetadata | None = None
        self.wakes_sender = False


class RecordAccumulator:
    """The queues of one producer. ``append``, flush and close: any thread. The rest: I/O thread only.

    Args:
        config: sizes, timeouts, partitioning.
        buffer_pool: memory for the batches.
        clock: for the time after a wait for memory, and of a batch's last record.
        random: for backoff jitter and the sticky partitioner; tests pass a seeded one.
        transaction_manager: numbers the batches, and decides which of them may be drained; ``None``: all,
            unnumbered.

    Attributes:
        queues: the queues, by topic and partition.
        ready_batches: what can be sent; drains it.
        next_look_ms: latest time of the next readiness check. Written by the I/O thread; read by appending
            threads to decide whether to wake it. ``NEVER_MS`` during a check.
    """

    def __init__(
        self,
        config: ProducerConfig,
        buffer_pool: BufferPool,
        clock: Clock,
        *,
        random: random_module.Random | None = None,
        transaction_manager: TransactionManager | None = None,
    ) -> None:
        # Fixed after construction.
        self._transaction_manager = transaction_manager
        self._pool = buffer_pool
        self._clock = clock
        self._batch_size = config.batch_size
        self._linger_ms = config.linger_ms
        self._compression = _compression_of(config)
        self._retry_backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms, random)
        self.queues = PartitionQueues(config, self._compression, random, buffer_pool)
        #: The same dict as ``queues.topics``, one look-up nearer.
        self._topics = self.queues.topics
        # Any thread; each change is one operation of the container, so no lock is needed.
        #: Batches whose memory has not been returned to the pool: flush waits for them, and a forced close
        #: fails them. A dict for its order: aborts fail records in the order they were sent.
        self._incomplete: dict[ProducerBatch, ProducerBatch] = {}
        #: One entry per flush.
        self._flushes: set[object] = set()
        #: Full batches that the I/O thread is to compress. Two threads at once may count one too few.
        self._compression_backlog: list[ProducerBatch] = []
        self.next_look_ms = NEVER_MS
        self.ready_batches = ReadyBatches(
            config,
            clock,
            self.queues,
            transaction_manager,
            flushes=self._flushes,
            waiters=buffer_pool.waiters,
            release=self.deallocate,
        )

    # -- appending -------------------------------------------------------------------------------------

    def append(
        self,
        topic: str,
        partition: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
        on_delivery: DeliveryCallback | None,
        max_block_ms: float,
        now_ms: int | None,
        snapshot: MetadataSnapshot,
        may_wait: bool = True,
    ) -> tuple[FutureRecordMetadata, bool]:
        """Take in one record. Blocks only for memory, up to ``max_block_ms``.

        Args:
            topic, partition: where to; with ``UNKNOWN_PARTITION`` the sticky partitioner chooses.
            timestamp_ms: of the record, since the epoch.
            key, value, headers: bytes as they go out.
            on_delivery: called on the I/O thread when the record is delivered or has failed.
            now_ms: monotonic; ``None`` has the clock read where the time is needed, which is once per batch.
            snapshot: the topic must be in it if the partition is not given.
            may_wait: ``False``: neither wait for memory nor compress; ``resume`` continues.

        Returns:
            The record's future, and whether the I/O thread should be woken: a batch was made or became full.

        Raises:
            ProducerClosedError: closed before or meanwhile.
            BufferExhaustedError: no memory in time.
            MemoryNeededError: no memory, and ``may_wait`` is false.
            IllegalStateError: the transaction ended meanwhile, or a signal handler or finalizer that has
                interrupted us calls this (see OwnedLock).
        """
        topic_queues = self._topics.get(topic)
        if topic_queues is None:
            topic_queues = self.queues.topic(topic, snapshot.partition_count(topic) or 0)
        # Few calls: with the pure kernel every record comes here.
        number = partition
        sticky = None
        if partition < 0:
            sticky = topic_queues.slots.sticky
            # Between the two limits a switch waits for the end of the batch, which has no room then.
            if sticky is not None and sticky.produced_bytes < sticky.force_switch_at_bytes:
                number = sticky.partition
        queues = topic_queues.queues
        queue = queues[number] if 0 <= number < len(queues) else None
        # Without the lock, to spare it: if the slot is empty, no batch is open, or it makes room.
        if queue is not None and queue.slot.appender is not None:
            future = None
            queue.lock.take()
            try:
                # That of the open batch, unless there is none, or it has to make room first.
                appender = queue.slot.appender
                if appender is not None:
                    future = appender.append(timestamp_ms, key, value, headers, on_delivery)
            finally:
                queue.lock.release()
            if future is not None:
                if sticky is not None:
                    # Without the lock: an addition may be lost, and the switch comes a record later.
                    size = (len(key) if key else 0) + (len(value) if value else 0)
                    sticky.produced_bytes += RECORD_OVERHEAD_BYTES + size
                return future, False
        record = (timestamp_ms, key, value, headers, on_delivery)
        manager = self._transaction_manager
        transaction = None if manager is None else manager.lifecycle.transaction
        append = _Append(topic_queues, partition, record, now_ms, snapshot, may_wait, transaction)
        return self._append_or_begin_batch(append, max_block_ms)

    def resume(self, needed: MemoryNeededError, buffer: bytearray) -> tuple[FutureRecordMetadata, bool]:
        """Continue an append that needed memory. ``buffer``: from the pool; it goes back if it is not used.

        Returns and raises the same as ``append``, except MemoryNeededError.
        """
        append: _Append = needed.append
        append.spare += (buffer,)
        append.now_ms = self._clock.monotonic_ms()
        append.read_ms = 0
        return self._append_or_begin_batch(append, 0)

    def _append_or_begin_batch(
        self, append: _Append, max_block_ms: float
    ) -> tuple[FutureRecordMetadata, bool]:
        """Append a record for which the open batch has no room, or for which there is no open batch.

        Each round chooses the queue again, because other threads may have used it meanwhile. No lock is held
        while this waits for memory.
        """
        topic_queues, partition, snapshot = append.topic_queues, append.partition, append.snapshot
        partitioner = topic_queues.partitioner
        spare = append.spare
        sticky: StickyPartition | None = None
        try:
            while append.future is None:
                to_compress, append.to_compress = append.to_compress, None
                if to_compress is not None:
                    # Before the next batch begins, which would linger meanwhile.
                    self._compress(to_compress)
                    append.read_ms = 0
                if partition == UNKNOWN_PARTITION:
                    sticky = topic_queues.slots.sticky or partitioner.peek(snapshot)
                number = partition if sticky is None else sticky.partition
                queues = topic_queues.queues
                queue = queues[number] if number < len(queues) else None
                if queue is None:
                    queue = self.queues.queue(topic_queues, number)
                with queue.lock:
                    lacks_memory = not self._append_locked(append, queue, sticky)
                if lacks_memory:
                    if not append.may_wait:
                        raise MemoryNeededError(append.first_bytes, append)
                    spare += (self._pool.allocate(append.first_bytes, max_block_ms),)
                    append.read_ms = 0
        finally:
            if spare:
                # Another thread has begun a batch meanwhile, or this append failed.
                self._pool.deallocate(spare[0])
        if sticky is not None:
            _, key, value, _, _ = append.record
            sticky.produced_bytes += RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
        return append.future, append.wakes_sender

    def _append_locked(self, append: _Append, queue: PartitionQueue, sticky: StickyPartition | None) -> bool:
        """Append to the queue's open batch, or begin one if there is memory.

        Returns:
            ``False``: a new batch needs memory. If ``True``, and there is no future, the caller chooses the
            queue again.
        """
        if self.queues.is_closed:
            raise ProducerClosedError.before_call()
        if append.transaction is not None and self._transaction_manager is not None:
            # The record may have waited for memory.
            self._transaction_manager.lifecycle.check_send(append.transaction)
        partitioner, snapshot = append.topic_queues.partitioner, append.snapshot
        batch = queue.open_batch
        if (
            sticky is not None
            and not append.has_switched
            and partitioner.maybe_switch(sticky, batch is None or batch.is_full, snapshot)
        ):
            return True
        if batch is not None:
            # The batch may have to grow first.
            queue.empty_slot_locked()
            is_refused = False
            try:
                future = batch.try_append(*append.record)
                is_refused = future is None
            finally:
                # If it is refused, the batch is closed below; if that is interrupted, the next append finds
                # it here.
                if not is_refused and queue.fill_slot_locked():
                    append.wakes_sender = True
            if future is not None:
                append.future = future
                return True
            append.read_ms = self._clock.monotonic_ms()
            queue.close_full_batch_locked(append.read_ms)
            append.wakes_sender = True
            if append.may_wait and self._compression.type is not PLAIN and self._must_compress_locked(batch):
                append.to_compress = batch
            if sticky is not None:
                # To another partition now, since no small batch is left here.
                sticky.produced_bytes = max(sticky.produced_bytes, sticky.switch_at_bytes)
                append.has_switched = partitioner.maybe_switch(sticky, True, snapshot)
                return True
            if append.to_compress is not None:
                return True
        spare = append.spare
        if not spare:
            # Nearly always there is enough memory, and the lock need not be released.
            append.first_bytes = self._first_bytes(queue, append.topic_queues.ratio, append.record)
            buffer = self._pool.try_allocate(append.first_bytes)
            if buffer is None:
                return False
            spare += (buffer,)
        created_ms = append.read_ms or max(append.now_ms or 0, self._clock.monotonic_ms())
        append.future = self._begin_batch_locked(queue, append, created_ms)
        # Only now: a batch that cannot be begun is removed with all its records. A single record may fill a
        # batch.
        is_full = queue.fill_slot_locked()
        # With thousands of partitions, looks are expensive: not if one comes early enough.
        if is_full or not self._linger_ms or self.next_look_ms > created_ms + self._linger_ms:
            append.wakes_sender = True
        return True

    def _begin_batch_locked(
        self, queue: PartitionQueue, append: _Append, now_ms: int
    ) -> FutureRecordMetadata:
        """Make a batch in the buffer around the record. The buffer is the batch's from then on.

        If anything is raised, nothing has changed.
        """
        spare = append.spare
        batch: ProducerBatch | None = None
        try:
            builder = RecordBatchBuilder(
                spare[0], self._compression, append.topic_queues.ratio, self._batch_size, self._pool
            )
            batch = ProducerBatch(queue.topic_partition, builder, now_ms, (queue.next_order,))
            future = batch.try_append(*append.record)
            if future is None:
                raise IllegalStateError(f"the first record does not fit into {len(spare[0])} bytes")
            self._incomplete[batch] = batch
            queue.add_batch_locked(batch)
            del spare[0]
        except BaseException:
            # Also Ctrl-C, or what else a signal handler raises. A batch that is incomplete and in no queue
            # would never complete, so flush() and close() would wait for it forever.
            if batch is not None:
                queue.remove_locked(batch)
                self._incomplete.pop(batch, None)
                batch.forget_memory()
            raise
        return future

    def _must_compress_locked(self, batch: ProducerBatch) -> bool:
        """Whether the caller must compress this full batch, because the I/O thread has enough to compress.

        The I/O thread compresses beside the caller, without the interpreter lock and without a partition's
        lock, so it gets enough batches to be always busy; threads that fill more compress them themselves. A
        batch that cannot be sent for now counts as well. Source: ours. Java's client compresses on the
        caller's thread, librdkafka on that of the broker.
        """
        backlog = [each for each in self._compression_backlog if each.awaits_compression]
        self._compression_backlog = backlog
        if len(backlog) < MAX_COMPRESSION_BACKLOG:
            backlog.append(batch)
            return False
        batch.compression_lock = OwnedLock()
        return True

    def _compress(self, batch: ProducerBatch) -> None:
        """Compress a full batch on the caller's thread, with none but the batch's own lock."""
        lock = batch.compression_lock
        assert lock is not None
        self.queues.compression_locks.add(lock)
        try:
            batch.compress(lock)
        finally:
            self.queues.compression_locks.discard(lock)

    def _first_bytes(self, queue: PartitionQueue, ratio: TopicCompressionRatio | None, record: Record) -> int:
        """Size of a new batch's first buffer, at least as much as the record takes.

        As much as the batch is expected to take, if the last one was full: otherwise freed large buffers are
        split into small ones under load, and batches cannot grow. But no more than the partition's share of a
        quarter of the memory: if thousands of partitions hold batches, the memory would be taken before there
        is much in them, and all would have to be sent nearly empty.
        """
        _, key, value, headers, _ = record
        pool = self._pool
        most_bytes = float(FIRST_BUFFER_BYTES)
        if queue.fills_batches and pool.sizes[0] > FIRST_BUFFER_BYTES:
            most_bytes = 2 * expected_plain_bytes(self._batch_size, ratio) - 1
        active_count = len(self.queues.active)
        # With compression, batches may grow to more than the memory.
        most_bytes = min(most_bytes, pool.total_bytes)
        for first_bytes in pool.sizes:
            if first_bytes <= most_bytes and first_bytes * active_count <= pool.total_bytes // 4:
                break
        payload_bytes = (len(key) if key else 0) + (len(value) if value else 0)
        if headers or payload_bytes > first_bytes - MAX_RECORD_OVERHEAD - RECORD_BATCH_OVERHEAD:
            return max(first_bytes, record_size_upper_bound(key, value, headers))
        return first_bytes

    def wake_when_memory_is_short(self, wakeup: Callable[[], object]) -> None:
        """Call ``wakeup`` whenever a thread begins to wait for memory. Before the first append."""
        self._pool.on_wait = wakeup

    # -- sending ---------------------------------------------------------------------------------------

    def mute_partition(self, topic_partition: TopicPartition) -> None:
        """Drain nothing from this partition until it is unmuted; its batches still expire."""
        self.queues.queue_of(topic_partition).set_muted(True)

    def unmute_partition(self, topic_partition: TopicPartition) -> None:
        """Let the batches of this partition be drained again."""
        self.queues.queue_of(topic_partition).set_muted(False)

    # -- putting back, expiring, giving memory back ----------------------------------------------------

    def reenqueue(self, batch: ProducerBatch, now_ms: int, error: KafkaError | None = None) -> None:
        """Put a batch back to be sent again after a backoff, in front of all later ones.

        Its request must have completed. ``error`` is the reason; the error of an expired batch names it.
        """
        batch.reenqueued(now_ms, self._retry_backoff.backoff_ms(batch.attempts), error)
        self.queues.queue_of(batch.topic_partition).put_back(batch)

    def split_and_reenqueue(self, batch: ProducerBatch) -> int:
        """Replace a batch that is too large for the broker with smaller ones, which are sent at once.

        The caller then deallocates ``batch``. The parts' memory does not come from the pool.

        Returns:
            Number of parts; 0 if the batch's outcome is decided already.
        """
        builder = batch.builder
        if batch.is_done or builder is None:
            return 0
        topic_queues = self._topics[batch.topic_partition.topic]
        if topic_queues.ratio is not None:
            topic_queues.ratio.reset_after_split(builder.compression_ratio)
        # At most half of the refused size, so that splitting ends even if the broker's limit is far below
        # batch_size.
        split_size = max(min(self._batch_size, batch.estimated_size_bytes // 2), 1)

        def new_builder(size_bytes: int) -> RecordBatchBuilder:
            return RecordBatchBuilder(
                bytearray(size_bytes), self._compression, topic_queues.ratio, split_size
            )

        parts = batch.split(split_size, new_builder)
        # Registered first: if anything fails below, the parts are found among the incomplete batches.
        for part in parts:
            self._incomplete[part] = part
        if self._transaction_manager is not None:
            self._transaction_manager.sequences.split(batch, parts)
        for part in parts:
            self.queues.queue_of(part.topic_partition).put_back(part)
        return len(parts)

    def stray_batches(self, in_flight: Container[ProducerBatch]) -> list[ProducerBatch]:
        """After an unexpected error: open batches that neither wait in a queue nor are in flight.

        They would never complete; the caller has to fail them.

        Args:
            in_flight: the batches whose request is on its way.
        """
        self.ready_batches.start_over()
        candidates = [batch for batch in list(self._incomplete) if not batch.is_done]
        queued: set[ProducerBatch] = set()
        for queue in self.queues.all_queues():
            # An append creates a batch and adds it to its queue without releasing the lock.
            with queue.lock:
                queued.update(queue.batches)
        return [
            batch
            for batch in candidates
            if batch not in queued and batch not in in_flight and batch in self._incomplete
        ]

    def deallocate(self, batch: ProducerBatch) -> None:
        """Forget a completed batch and return its memory to the pool. Idempotent.

        While the batch is in flight, its memory is kept until ``request_done``: otherwise the socket could
        send the bytes of another record from a reused buffer (KAFKA-19012).
        """
        # A batch in flight stays incomplete: no call waits for it any more, but its memory is still in use.
        if batch.in_flight or self._incomplete.pop(batch, None) is None:
            return
        builder = batch.builder
        buffer = None if builder is None or batch.is_split else builder.writer.buffer
        batch.forget_memory()
        if buffer is not None:
            self._pool.deallocate(buffer)

    def request_done(self, batch: ProducerBatch) -> None:
        """The batch's request has completed: answered, written in full (acks=0), or disconnected.

        Call it before completing, reenqueuing or deallocating the batch.
        """
        batch.in_flight = False
        outcome = batch.result.outcome
        if outcome.settled or outcome.is_split:
            self.deallocate(batch)

    # -- flush, abort, close ---------------------------------------------------------------------------

    @property
    def incomplete_count(self) -> int:
        """Batches that wait, are in flight, or whose memory is still in use."""
        return len(self._incomplete)

    def incomplete_batches(self) -> list[ProducerBatch]:
        """Batches that are neither acknowledged nor failed, in the order in which they began. Any thread."""
        return [batch for batch in list(self._incomplete) if not batch.is_done]

    @property
    def incomplete_record_count(self) -> int:
        """Records that are neither acknowledged nor failed."""
        return sum(batch.record_count for batch in self.incomplete_batches())

    def begin_flush(self, flush: object) -> None:
        """Make everything ready until ``end_flush(flush)``. Wake the I/O thread after this.

        Call it within the ``try`` whose ``finally`` ends the flush: Ctrl-C may come as soon as it has begun.

        Args:
            flush: a new object.
        """
        self._flushes.add(flush)

    def end_flush(self, flush: object) -> None:
        """End the flush. Does nothing if it has not begun."""
        self._flushes.discard(flush)

    def pending_records(self) -> PendingRecords:
        """The records whose outcome is not known, or whose delivery callbacks have not run. Any thread."""
        return PendingRecords([batch for batch in list(self._incomplete) if not batch.result.done])

    def await_completion(
        self, pending: PendingRecords, timeout_ms: float | None = None
    ) -> FlushResult | None:
        """Wait until these records have been delivered or have failed.

        Args:
            pending: the records.
            timeout_ms: in milliseconds; ``None``: no limit.

        Returns:
            How many of them were delivered and have failed; ``None``: not all within ``timeout_ms``.
        """
        deadline_ms = None if timeout_ms is None else self._clock.monotonic_ms() + timeout_ms
        for result in pending:
            left_s = None
            if deadline_ms is not None:
                left_s = max(deadline_ms - self._clock.monotonic_ms(), 0) / 1000
            if not result.wait(left_s):
                return None
        return pending.outcome()

    def abort_incomplete_batches(self, error: KafkaError) -> dict[str, int]:
        """Fail everything that is not done, after ``close``. Memory of batches in flight stays with them.

        ``error`` is shared; each batch gets the outcome that fits it. Returns the number of records by topic.
        """
        # An append that did not see the close holds its queue's lock, so it has finished when this thread has
        # had that lock; later ones see is_closed. So no batch is created after this loop.
        for queue in self.queues.all_queues():
            with queue.lock:
                pass
        return self._abort(lambda batch: error)

    def abort_undrained_batches(self, error: KafkaError, sent_too: bool = False) -> None:
        """Fail the queued batches that were never sent; ``sent_too``: also those that wait for a retry."""
        self._abort(
            lambda batch: error if not batch.in_flight and (sent_too or not batch.send_count) else None
        )

    def purge(self, error: KafkaError, in_queue: bool, in_flight: bool) -> dict[str, int]:
        """Fail the batches in queues, in flight, or both. Returns the number of their records by topic."""
        return self._abort(lambda batch: error if (in_flight if batch.in_flight else in_queue) else None)

    def abort_unsent_batches(self, error_of: Callable[[TopicPartition], KafkaError | None]) -> dict[str, int]:
        """Fail the batches that were never sent and whose partition has an error.

        Returns the number of their records by topic.
        """
        return self._abort(
            lambda batch: None if batch.in_flight or batch.send_count else error_of(batch.topic_partition)
        )

    def _abort(self, error_of: Callable[[ProducerBatch], KafkaError | None]) -> dict[str, int]:
        """Fail the batches that have an error; returns the number of their records by topic."""
        counts: dict[str, int] = {}
        for batch in list(self._incomplete):
            error = error_of(batch)
            if error is None:
                continue
            try:
                self.queues.queue_of(batch.topic_partition).remove(batch)
                # A batch that is already done was being completed when the I/O thread failed.
                if not batch.is_done:
                    topic = batch.topic_partition.topic
                    counts[topic] = counts.get(topic, 0) + batch.record_count
                    its_error = error.copy()
                    its_error.outcome = batch.outcome
                    if self._transaction_manager is not None:
                        self._transaction_manager.failed(batch, its_error, its_error.outcome)
                    batch.complete(error=its_error)
                self.deallocate(batch)
            except Exception:
                # Only logged, because the other batches have to fail nevertheless.
                _log.exception("The batch for %s could not be failed", batch.topic_partition)
        return counts

    def abandon_after_fork(self, error: KafkaError) -> None:
        """In a forked child, which does not use this object: fail the inherited futures, without a lock."""
        for batch in list(self._incomplete):
            for result in batch.result.leaves():
                result.abandon_after_fork(error)

    def release_all_in_flight(self) -> None:
        """All connections are closed, so no request reads any buffer: return the memory kept for them."""
        for batch in list(self._incomplete):
            self.request_done(batch)

    def close(self) -> None:
        """Refuse further records; threads that wait for memory are released. What was accepted stays."""
        self.queues.close()
        self._pool.close()


def _compression_of(config: ProducerConfig) -> Compression:
    """The codec and level that the settings ask for."""
    name = config.compression_type
    levels = {
        "gzip": config.compression_gzip_level,
        "lz4": config.compression_lz4_level,
        "zstd": config.compression_zstd_level,
    }
    return Compression.of(name, levels.get(name))

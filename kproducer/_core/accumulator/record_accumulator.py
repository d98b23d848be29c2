"""RecordAccumulator: where records wait, as batches in one queue per partition.

Caller threads append; the I/O thread puts back what has to be sent again, and returns memory.
``ready_batches`` drains. ``PartitionQueue`` keeps the batches of one partition and knows which of them is
open; how a record gets into the open batch, or into a new one, is here. Knows nothing of requests and
connections. Source: Kafka class ``RecordAccumulator``; KIP-91 (delivery timeout), KIP-580 (backoff).

Locks: a queue's lock, then (within it) that of PartitionQueues or of the BufferPool. No thread waits for
memory here, and one that compresses a batch holds only the lock of that batch.
"""

from __future__ import annotations

import random as random_module
from collections.abc import Callable, Container
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kproducer._core.accumulator.buffer_pool import BufferPool
from kproducer._core.accumulator.built_in_partitioner import RECORD_OVERHEAD_BYTES, BuiltInPartitioner
from kproducer._core.accumulator.future_record_metadata import FutureRecordMetadata
from kproducer._core.accumulator.owned_lock import OwnedLock
from kproducer._core.accumulator.partition_queue import PartitionQueue, PartitionQueues, Record, TopicQueues
from kproducer._core.accumulator.pending_records import PendingRecords
from kproducer._core.accumulator.producer_batch import ProducerBatch
from kproducer._core.accumulator.ready_batches import ReadyBatches
from kproducer._core.client.metadata_snapshot import MetadataSnapshot
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.kernel import StickyPartition, record_size_upper_bound
from kproducer._core.kernel.layout import MAX_RECORD_OVERHEAD, RECORD_BATCH_OVERHEAD
from kproducer._core.records.batch_sizing import (
    FIRST_BUFFER_BYTES,
    TopicCompressionRatio,
    expected_plain_bytes,
)
from kproducer._core.records.compression import PLAIN, Compression
from kproducer._core.records.record_batch_builder import RecordBatchBuilder
from kproducer._core.runtime.clock import NEVER_MS, Clock, ExponentialBackoff
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer.errors import IllegalStateError, KafkaError, ProducerClosedError
from kproducer.types import UNKNOWN_PARTITION, FlushResult, TopicPartition

if TYPE_CHECKING:
    from kproducer._core.transactions.transaction_manager import TransactionManager
    from kproducer._core.transactions.transaction_state import OpenTransaction

_log = GuardedLogger(__name__)

#: How many full batches may wait for the I/O thread to compress them: the one that it compresses now, and
#: more for the time in which it waits for the interpreter lock. With more, callers compress:
#: docs/decisions/0034-shared-compression.md
MAX_COMPRESSION_BACKLOG: Final = 3


class Append:
    """One record on its way into a batch: what the rounds of ``RecordAccumulator.append`` share.

    Attributes:
        topic, partition: where to; with ``UNKNOWN_PARTITION`` the sticky partitioner chooses.
        record: as batches take it.
        snapshot: the topic is in it if the partition is not given.
        transaction: the one to which the record belongs; ``None``: the producer has none.
        may_compress: the caller may be blocked by the compression of a full batch.
        future: the record's, once a batch has taken it; setting it is what accepts the record.
        first_bytes: size of the buffer for the new batch.
        buffer: was taken for the new batch; ``None`` again once it is the batch's.
        wakes_sender: a batch was begun or became full.
        closed_ms: when a full batch was closed, if that was in this call; else 0.
        has_switched: the sticky partition was switched on behalf of this record.
        to_compress: compresses the batch that this thread has to compress before the next round.
    """

    transaction: OpenTransaction | None = None
    may_compress: bool = True
    future: FutureRecordMetadata | None = None
    first_bytes: int = 0
    buffer: bytearray | None = None
    wakes_sender: bool = False
    closed_ms: int = 0
    has_switched: bool = False
    to_compress: Callable[[], None] | None = None

    def __init__(self, topic: str, partition: int, record: Record, snapshot: MetadataSnapshot) -> None:
        self.topic = topic
        self.partition = partition
        self.record = record
        self.snapshot = snapshot


class RecordAccumulator:
    """The queues of one producer. ``append``, flush and close: any thread. The rest: I/O thread only.

    Args:
        config: sizes, timeouts, partitioning.
        buffer_pool: memory for the batches.
        clock: for the time when a batch begins, and of its last record.
        random: for backoff jitter and the sticky partitioner; tests pass a seeded one.
        transaction_manager: numbers the batches, and decides which of them may be drained; ``None``: all,
            unnumbered.

    Attributes:
        queues: the queues, by topic and partition.
        pool: as given.
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
        self.pool = buffer_pool
        self._clock = clock
        self._batch_size = config.batch_size
        self._linger_ms = config.linger_ms
        self.compression = _compression_of(config)
        self._retry_backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms, random)
        self.queues = PartitionQueues(config, self.compression, random, buffer_pool)
        #: The same dict as ``queues.topics``, one look-up nearer.
        self._topics = self.queues.topics
        # Any thread; each change is one operation of the container, so no lock is needed.
        #: Batches whose memory has not been returned to the pool: flush waits for them, and a forced close
        #: fails them. A dict for its order: aborts fail records in the order they were sent.
        #: Lanes add theirs, which have the attributes of a ProducerBatch that any thread may read.
        self._incomplete: dict[Any, Any] = {}
        #: One entry per flush.
        self._flushes: set[object] = set()
        #: Full batches that the I/O thread is to compress. Two threads at once may count one too few.
        self._compression_backlog: list[ProducerBatch] = []
        self.next_look_ms = NEVER_MS
        #: Set by the lanes.
        self.on_flush_end: Callable[[], None] | None = None
        self.take_back: Callable[[], None] = lambda: None
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

    def try_append(self, topic: str, partition: int, record: Record) -> FutureRecordMetadata | None:
        """Take in one record if its partition has an open batch with room.

        The twin in Python of what the kernel's ``FastSend`` does without the lock.

        Args:
            topic, partition, record: see ``Append``.

        Returns:
            The record's future; ``None``: nothing has changed, use ``append``.

        Raises:
            IllegalStateError: a signal handler or finalizer that has interrupted us calls this (see
                OwnedLock).
        """
        topic_queues = self._topics.get(topic)
        if topic_queues is None:
            return None
        sticky = None
        if partition < 0:
            sticky = topic_queues.slots.sticky
            # Between the two limits, the switch waits until the batch is full and refuses a record.
            if sticky is None or sticky.produced_bytes >= sticky.force_switch_at_bytes:
                return None
            partition = sticky.partition
        queues = topic_queues.queues
        queue = queues[partition] if partition < len(queues) else None
        # Without the lock, to spare it: if the slot is empty, no batch is open, or the batch is growing.
        if queue is None or queue.slot.appender is None:
            return None
        timestamp_ms, key, value, headers, on_delivery = record
        future: FutureRecordMetadata | None = None
        queue.lock.take()
        try:
            # Read again under the lock: the batch may have been closed meanwhile.
            appender = queue.slot.appender
            if appender is not None:
                future = appender.append(timestamp_ms, key, value, headers, on_delivery)
        finally:
            queue.lock.release()
        if future is not None and sticky is not None:
            # As _count_record, without the call.
            size = (len(key) if key else 0) + (len(value) if value else 0)
            sticky.produced_bytes += RECORD_OVERHEAD_BYTES + size
        return future

    def append(self, append: Append) -> bool:
        """Append a record to the open batch, or begin a batch with it. Does not wait.

        Each round chooses the queue again, because other threads may have used it meanwhile.

        Returns:
            Whether the record is accepted: then ``append.future`` is set. If not, a new batch needs memory:
            repeat the call with ``append.buffer``, of ``append.first_bytes`` from the pool.

        Raises:
            ProducerClosedError: closed before or meanwhile.
            IllegalStateError: the transaction ended meanwhile, or a signal handler or finalizer that has
                interrupted us calls this (see OwnedLock).
        """
        topic_queues = self._topics.get(append.topic)
        if topic_queues is None:
            topic_queues = self.queues.topic(append.topic, append.snapshot.partition_count(append.topic) or 0)
        sticky: StickyPartition | None = None
        append.closed_ms = 0
        try:
            while append.future is None:
                to_compress, append.to_compress = append.to_compress, None
                if to_compress is not None:
                    # Before the next batch begins, which would linger meanwhile.
                    to_compress()
                    append.closed_ms = 0
                number = append.partition
                if number == UNKNOWN_PARTITION:
                    sticky = topic_queues.slots.sticky or topic_queues.partitioner.peek(append.snapshot)
                    number = sticky.partition
                queue = self.queues.queue(topic_queues, number)
                with queue.lock:
                    if not self._append_locked(append, topic_queues, queue, sticky):
                        return False
        finally:
            # Another thread has begun a batch meanwhile, or this append failed.
            self.give_up(append)
        if sticky is not None:
            _count_record(sticky, append.record)
        return True

    def give_up(self, append: Append) -> None:
        """Return memory that was taken for a batch and is not used. Idempotent."""
        buffer, append.buffer = append.buffer, None
        if buffer is not None:
            self.pool.deallocate(buffer)

    def _append_locked(
        self, append: Append, topic_queues: TopicQueues, queue: PartitionQueue, sticky: StickyPartition | None
    ) -> bool:
        """Append to the queue's open batch, or begin one if there is memory.

        Returns:
            ``False``: a new batch needs memory. If ``True``, and there is no future, the caller chooses the
            queue again.
        """
        if self.queues.is_closed:
            raise ProducerClosedError.before_call()
        if append.transaction is not None and self._transaction_manager is not None:
            # The record may have waited for memory.
            self._transaction_manager.state_machine.check_send(append.transaction)
        partitioner, snapshot = topic_queues.partitioner, append.snapshot
        batch = queue.open_batch
        part = queue.slot.part
        is_full = (batch is None or batch.is_full) if part is None else not part.has_open_batch
        if (
            sticky is not None
            and not append.has_switched
            and partitioner.maybe_switch(sticky, is_full, snapshot)
        ):
            return True
        if part is not None:
            if part.append(append):
                if append.may_compress and self.compression.type is not PLAIN:
                    append.to_compress = part.compress_last
                if sticky is not None:
                    self._leave_partition_locked(append, sticky, partitioner)
                return True
            if append.future is not None:
                return True
            if part.is_armed and append.buffer is None:
                append.first_bytes = part.needed_bytes(*append.record[:4])
                return False
            append.wakes_sender = True  # what the lane would have sent is the sender's now
            queue.disarm_locked()
            batch = queue.open_batch
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
            append.closed_ms = self._clock.monotonic_ms()
            queue.close_full_batch_locked(append.closed_ms)
            append.wakes_sender = True
            if (
                append.may_compress
                and self.compression.type is not PLAIN
                and self._must_compress_locked(batch)
            ):
                append.to_compress = partial(self._compress, batch)
            if sticky is not None:
                self._leave_partition_locked(append, sticky, partitioner)
                return True
            if append.to_compress is not None:
                return True
        if append.buffer is None:
            # Nearly always there is enough memory, and the lock need not be released.
            append.first_bytes = self._first_bytes(queue, topic_queues.ratio, append.record)
            append.buffer = self.pool.try_allocate(append.first_bytes)
            if append.buffer is None:
                return False
        created_ms = append.closed_ms or self._clock.monotonic_ms()
        append.future = self._begin_batch_locked(queue, append, topic_queues.ratio, created_ms)
        # The slot is filled only now, because a batch that cannot be begun is removed with all its records. A
        # single record may fill a batch.
        is_full = queue.fill_slot_locked()
        # Not woken if it will look early enough: with thousands of partitions, each look is expensive.
        if is_full or not self._linger_ms or self.next_look_ms > created_ms + self._linger_ms:
            append.wakes_sender = True
        return True

    def _leave_partition_locked(
        self, append: Append, sticky: StickyPartition, partitioner: BuiltInPartitioner
    ) -> None:
        """The batch is full, so the record goes to another partition now: no small batch is left here."""
        sticky.produced_bytes = max(sticky.produced_bytes, sticky.switch_at_bytes)
        append.has_switched = partitioner.maybe_switch(sticky, True, append.snapshot)

    def _begin_batch_locked(
        self, queue: PartitionQueue, append: Append, ratio: TopicCompressionRatio | None, now_ms: int
    ) -> FutureRecordMetadata:
        """Make a batch in the buffer around the record. The buffer is the batch's from then on.

        If anything is raised, nothing has changed.
        """
        buffer = append.buffer
        assert buffer is not None
        batch: ProducerBatch | None = None
        try:
            builder = RecordBatchBuilder(buffer, self.compression, ratio, self._batch_size, self.pool)
            batch = ProducerBatch(queue.topic_partition, builder, now_ms, (queue.next_order,))
            future = batch.try_append(*append.record)
            if future is None:
                raise IllegalStateError(f"the first record does not fit into {len(buffer)} bytes")
            self._note_incomplete(batch, append.transaction)
            queue.add_batch_locked(batch)
            append.buffer = None
        except BaseException:
            # A signal handler (Ctrl-C) may raise anything. A batch that is incomplete and in no queue
            # would never complete, so flush() and close() would wait for it forever.
            if batch is not None:
                queue.remove_locked(batch)
                self._incomplete.pop(batch, None)
                batch.forget_memory()
            raise
        return future

    def _note_incomplete(self, batch: ProducerBatch, transaction: OpenTransaction | None) -> None:
        """Have the end of the transaction wait for the batch. Raises IllegalStateError: it has ended."""
        if transaction is None or self._transaction_manager is None:
            self._incomplete[batch] = batch
            return
        # Under the lock, which also guards the question whether any batch is left: the transaction may have
        # begun to end since the last check.
        life = self._transaction_manager.state_machine
        with life.lock:
            life.check_send(transaction)
            self._incomplete[batch] = batch

    def _must_compress_locked(self, batch: ProducerBatch) -> bool:
        """Whether the caller must compress this full batch, because the I/O thread has enough to compress.

        The I/O thread compresses beside the caller, without the interpreter lock and without a partition's
        lock, so it gets enough batches to be always busy; threads that fill more compress them themselves. A
        batch that cannot be sent for now counts as well. Source: ours. Java's client compresses on the
        caller's thread, librdkafka on that of the broker.
        """
        # A lane has those that are not incomplete any more.
        backlog = [
            each for each in self._compression_backlog if each in self._incomplete and each.awaits_compression
        ]
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
        pool = self.pool
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

    # -- sending ---------------------------------------------------------------------------------------

    def adopt(self, fast: Any) -> ProducerBatch:
        """What a lane's batch becomes when Python takes it over. After an interruption, call it again."""
        batch: ProducerBatch | None = fast.successor
        if batch is None:
            batch = self._successor_of(fast)
            fast.hand_over(batch)
        if fast in self._incomplete:
            # Never neither of them: a commit or a flush on another thread would not wait for it.
            self._incomplete[batch] = batch
            self._incomplete.pop(fast, None)
        return batch

    def _successor_of(self, fast: Any) -> ProducerBatch:
        """A batch with what a lane's batch has, which does not change."""
        compressed = fast.compressed_records
        appender = fast.new_appender()
        writer = appender.writer
        ratio = self._topics[fast.topic_partition.topic].ratio
        builder = RecordBatchBuilder(
            writer.buffer, self.compression, ratio, self._batch_size, self.pool, writer
        )
        is_open = fast.is_open
        if not is_open:
            builder.close_for_appends()
        if compressed is not None:
            builder.use_compressed(compressed)
        batch = ProducerBatch(
            fast.topic_partition, builder, fast.created_ms, (fast.order,), appender=appender
        )
        batch.closed_ms = fast.closed_ms
        if compressed is None:
            batch.compression_lock = fast.compression_lock  # it may be compressed just now
        batch.is_open = is_open
        return batch

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
            return RecordBatchBuilder(bytearray(size_bytes), self.compression, topic_queues.ratio, split_size)

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
        self.take_back()
        self.ready_batches.start_over()
        candidates = [batch for batch in self._taken_back() if not batch.is_done]
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
            self.pool.deallocate(buffer)

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
    def incomplete(self) -> dict[Any, Any]:
        """The batches without an outcome, and those whose memory is in use; lanes add theirs."""
        return self._incomplete

    @property
    def incomplete_count(self) -> int:
        """Batches that wait, are in flight, or whose memory is still in use."""
        return len(self._incomplete)

    def incomplete_batches(self) -> list[Any]:
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
        if self.on_flush_end is not None:
            self.on_flush_end()

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
        if not self._incomplete:
            return  # an abort after a flush: lanes keep their partitions
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

    def _taken_back(self) -> list[ProducerBatch]:
        """All incomplete batches, after ``take_back``; not those that a caller is beginning in a lane."""
        batches: dict[ProducerBatch, None] = {}
        for each in list(self._incomplete):
            if isinstance(each, ProducerBatch):
                batches[each] = None
            elif each.is_begun:
                # A caller takes it back now, with this lock; or an error came in the middle of ``take_back``.
                with self.queues.queue_of(each.topic_partition).lock:
                    is_new = each.successor is None
                    batch = self.adopt(each)
                    if is_new:
                        batch.send_count = each.send_count
                batches[batch] = None
        return list(batches)

    def _abort(self, error_of: Callable[[ProducerBatch], KafkaError | None]) -> dict[str, int]:
        """Fail the batches that have an error; returns the number of their records by topic."""
        self.take_back()
        counts: dict[str, int] = {}
        for batch in self._taken_back():
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
        for batch in self._taken_back():
            self.request_done(batch)

    def close(self) -> None:
        """Refuse further records; threads that wait for memory are released. What was accepted stays."""
        self.queues.close()
        self.pool.close()


def _count_record(sticky: StickyPartition, record: Record) -> None:
    """Count an appended record. Without a lock: an addition may be lost, so the switch comes later."""
    _, key, value, _, _ = record
    sticky.produced_bytes += RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)


def _compression_of(config: ProducerConfig) -> Compression:
    """The codec and level that the settings ask for."""
    name = config.compression_type
    levels = {
        "gzip": config.compression_gzip_level,
        "lz4": config.compression_lz4_level,
        "zstd": config.compression_zstd_level,
    }
    return Compression.of(name, levels.get(name))

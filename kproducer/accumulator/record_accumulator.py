"""RecordAccumulator: where records wait, as batches in one queue per partition.

Caller threads append; the I/O thread asks which nodes have something ready, drains it, and puts back what has
to be sent again. Knows nothing of requests and connections. Source: Kafka class ``RecordAccumulator``; KIP-91
(delivery timeout), KIP-580 (backoff), KIP-794 (partitioning), KIP-951 (no backoff after a leader change).

Differs from Kafka in how much is looked at: only the queues with batches in them, so idle partitions cost
nothing. Their order is also that of draining: what was drained goes to the end, so that no partition starves
behind others of its node.

Locks: a queue's lock, then (within it) that of PartitionQueues or of the BufferPool. No lock is held where
taking a buffer may block. Longer than other files because an append, a drain and an abort share this order.
"""

from __future__ import annotations

import random as random_module
from collections.abc import Callable, Container, Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from kproducer.accumulator.buffer_pool import BufferPool
from kproducer.accumulator.built_in_partitioner import PartitionLoad, produced_bytes
from kproducer.accumulator.future_record_metadata import DeliveryCallback, FutureRecordMetadata
from kproducer.accumulator.partition_queue import PartitionQueue, PartitionQueues, Record, TopicQueues
from kproducer.accumulator.producer_batch import ProducerBatch
from kproducer.accumulator.ready_queues import ReadyCheckResult, ReadyQueues
from kproducer.client.metadata_snapshot import MetadataSnapshot
from kproducer.config.producer_config import ProducerConfig
from kproducer.errors import IllegalStateError, KafkaError, ProducerClosedError
from kproducer.kernel import TopicSlots, record_size_upper_bound
from kproducer.records.batch_sizing import TopicCompressionRatio, expected_plain_bytes
from kproducer.records.compression import Compression, CompressionType
from kproducer.records.record_batch_builder import RecordBatchBuilder
from kproducer.runtime.clock import NEVER_MS, Clock, ExponentialBackoff
from kproducer.runtime.guarded_logger import GuardedLogger
from kproducer.types import UNKNOWN_PARTITION, Headers, Node, TopicPartition

if TYPE_CHECKING:
    from kproducer.transactions.transaction_manager import TransactionManager

__all__ = ["ReadyCheckResult", "RecordAccumulator"]

_log = GuardedLogger(__name__)

#: Full batches that are left to the I/O thread to compress: the one that it compresses now, and the next ones
#: for as long as it waits for the interpreter lock in between.
MOST_LEFT: Final = 3


class _SpareBuffer:
    """The buffer of an append that no batch has yet: if the append is interrupted, it goes back."""

    __slots__ = ("buffer",)

    def __init__(self) -> None:
        self.buffer: bytearray | None = None


class RecordAccumulator:
    """The queues of one producer. ``append``, flush and close: any thread. The rest: I/O thread only.

    Args:
        config: sizes, timeouts, partitioning.
        buffer_pool: memory for the batches.
        clock: for the time after a wait for memory, and of a batch's last record.
        compression: codec of all batches; ``None`` means as ``config`` says.
        random: for backoff jitter and the sticky partitioner; tests pass a seeded one.
        transactions: numbers the batches, and decides which of them may be drained; ``None``: all,
            unnumbered.

    Attributes:
        next_look_ms: when the I/O thread looks again at the latest, by itself; written by it, read by threads
            that append. While it is looking: ``NEVER_MS``, since it may have passed the place already.
    """

    def __init__(
        self,
        config: ProducerConfig,
        buffer_pool: BufferPool,
        clock: Clock,
        *,
        compression: Compression | None = None,
        random: random_module.Random | None = None,
        transactions: TransactionManager | None = None,
    ) -> None:
        # Fixed after construction.
        self._transactions = transactions
        self._pool = buffer_pool
        self._clock = clock
        self._batch_size = config.batch_size
        self._linger_ms = config.linger_ms
        self._compression = compression if compression is not None else _compression_of(config)
        self._retry_backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms, random)
        self._queues = PartitionQueues(config, self._compression, random, buffer_pool)
        #: The same dict that _queues has, one look-up nearer.
        self._topics = self._queues.topics
        # Any thread; each change is one operation of the container, so no lock is needed.
        #: Batches that were accepted and whose memory has not been given back: what flush waits for and what
        #: a forced close fails. A dict for its order: aborts fail records in the order they were sent.
        self._incomplete: dict[ProducerBatch, ProducerBatch] = {}
        #: One entry per flush.
        self._flushes: set[object] = set()
        #: Full batches that the I/O thread is to compress. Two threads at once may count one too few.
        self._compression_backlog: list[ProducerBatch] = []
        self.next_look_ms = NEVER_MS
        # I/O thread only.
        self._counted_snapshot: MetadataSnapshot | None = None
        self._counted_topics = 0
        self._load = PartitionLoad(
            config.partitioner_adaptive_partitioning_enable, config.partitioner_availability_timeout_ms
        )
        self._ready = ReadyQueues(
            self._queues,
            config.linger_ms,
            None if transactions is None else transactions.may_drain,
            asks_early=transactions is not None and transactions.lifecycle.transactional_id is not None,
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
    ) -> tuple[FutureRecordMetadata, bool]:
        """Take in one record. Blocks only for memory, up to ``max_block_ms``.

        Args:
            topic, partition: where to; with ``UNKNOWN_PARTITION`` the sticky partitioner chooses.
            timestamp_ms: of the record, since the epoch.
            key, value, headers: bytes as they go out.
            on_delivery: called on the I/O thread when the record is delivered or has failed.
            now_ms: monotonic; ``None`` has the clock read where the time is needed, which is once per batch.
            snapshot: the topic must be in it if the partition is not given.

        Returns:
            The record's future, and whether the I/O thread should be woken: a batch was made or became full.

        Raises:
            ProducerClosedError: closed before or meanwhile.
            BufferExhaustedError: no memory in time.
            IllegalStateError: called by a signal handler or finalizer that has interrupted us; see OwnedLock.
        """
        topic_queues = self._topics.get(topic)
        if topic_queues is None:
            topic_queues = self._queues.topic(topic, snapshot.partition_count(topic) or 0)
        # Few calls: with the pure kernel every record comes here.
        number = partition
        sticky = None
        if partition < 0:
            sticky = topic_queues.slots.sticky
            if sticky is not None and sticky.produced_bytes < sticky.switch_at_bytes:
                number = sticky.partition
        queues = topic_queues.queues
        queue = queues[number] if 0 <= number < len(queues) else None
        if queue is not None:
            future = queue.try_append(timestamp_ms, key, value, headers, on_delivery)
            if future is not None:
                if sticky is not None:
                    # Without the lock: an addition may be lost, and the switch comes a record later.
                    sticky.produced_bytes += produced_bytes(key, value)
                return future, False
        record = (timestamp_ms, key, value, headers, on_delivery)
        return self._append_or_begin_batch(topic_queues, partition, record, max_block_ms, now_ms, snapshot)

    def _append_or_begin_batch(
        self,
        topic_queues: TopicQueues,
        partition: int,
        record: Record,
        max_block_ms: float,
        now_ms: int | None,
        snapshot: MetadataSnapshot,
    ) -> tuple[FutureRecordMetadata, bool]:
        """Append where there is no open batch or no room. Waits for memory with no lock held."""
        _, key, value, headers, _ = record
        partitioner = topic_queues.partitioner
        spare = _SpareBuffer()
        checked_usable = False
        #: A batch became ready, though the record may end up in another one that is open.
        filled = False
        try:
            while True:
                sticky = partitioner.peek(snapshot) if partition == UNKNOWN_PARTITION else None
                queue = self._queues.queue(topic_queues, partition if sticky is None else sticky.partition)
                with queue.lock:
                    if self._queues.is_closed:
                        raise ProducerClosedError("The producer is closed")
                    if sticky is not None:
                        if partitioner.maybe_switch(sticky, not queue.has_room_locked, snapshot):
                            continue
                        if not checked_usable:
                            # The leader may have been lost since the choice. Only once: the next choice may
                            # be no better.
                            checked_usable = True
                            if not partitioner.is_usable(sticky.partition, snapshot):
                                partitioner.switch(snapshot)
                                continue
                    is_new = False
                    future = queue.append_at_limit_locked(record)
                    if future is not None:
                        filled = filled or not queue.has_room_locked
                    elif queue.open_batch is not None:
                        self._close_full_locked(queue)
                        filled = True
                        if sticky is not None:
                            # A switch at this moment leaves no fraction of a batch behind.
                            sticky.produced_bytes = max(sticky.produced_bytes, sticky.switch_at_bytes)
                            partitioner.maybe_switch(sticky, True, snapshot)
                            continue
                    if future is None and spare.buffer is None:
                        # Nearly always a buffer is available at once, and the lock need not be released.
                        first_bytes = self._first_bytes(queue, topic_queues.ratio)
                        size = max(first_bytes, record_size_upper_bound(key, value, headers))
                        spare.buffer = self._pool.take_pooled(size)
                        if spare.buffer is not None:
                            now_ms = self._time_of_append(now_ms)
                    if future is None and spare.buffer is not None and now_ms is not None:
                        future = self._begin_batch_locked(queue, topic_queues, record, spare, now_ms)
                        # Only now: a batch that cannot be begun is taken back, with all that is in it.
                        queue.open_slot_locked()
                        is_new = True
                        # One record may be more than a batch.
                        filled = filled or not queue.has_room_locked
                    if future is not None:
                        if sticky is not None:
                            sticky.produced_bytes += produced_bytes(key, value)
                        return future, filled or (is_new and self._is_due_before_next_look(now_ms))
                spare.buffer = self._pool.allocate(size, max_block_ms)
                now_ms = self._time_of_append(now_ms)
        finally:
            if spare.buffer is not None:
                # Another thread made room meanwhile, or this append failed.
                self._pool.deallocate(spare.buffer)

    def _begin_batch_locked(
        self,
        queue: PartitionQueue,
        topic_queues: TopicQueues,
        record: Record,
        spare: _SpareBuffer,
        now_ms: int,
    ) -> FutureRecordMetadata:
        """Make a batch in the buffer around the record. The buffer is the batch's from then on.

        If anything is raised, nothing has changed.
        """
        buffer = spare.buffer
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
            self._incomplete[batch] = batch
            queue.add_batch_locked(batch)
            spare.buffer = None
        except BaseException:
            # Also what a signal handler raises, Ctrl-C for one. A batch that is incomplete and in no queue
            # would never end, nor would any flush() or close() that waits for it.
            if batch is not None:
                queue.take_back_locked(batch)
                self._incomplete.pop(batch, None)
                batch.forget_memory()
            raise
        return future

    def _close_full_locked(self, queue: PartitionQueue) -> None:
        """The open batch has no room left: close it, and compress it here if the I/O thread has enough to do.

        The I/O thread compresses beside the caller, without the interpreter lock and without a partition's
        lock. So it gets as many batches as it needs to be never without one; threads that fill more compress
        them themselves. A batch that cannot be sent for now counts as well. Source: ours. Java's client
        compresses on the caller's thread, librdkafka on that of the broker.
        """
        batch = queue.close_full_batch_locked(self._clock.monotonic_ms())
        if batch is None:
            return
        if self._compression.type is not CompressionType.NONE:
            backlog = [each for each in self._compression_backlog if each.awaits_compression]
            self._compression_backlog = backlog
            if len(backlog) >= MOST_LEFT:
                batch.compress()
                return
            backlog.append(batch)
        batch.close_for_appends()

    def _first_bytes(self, queue: PartitionQueue, ratio: TopicCompressionRatio | None) -> int:
        """What a batch of the partition begins with: all it is expected to take, if the last one was full.

        Otherwise, whenever records come faster than they are sent, each buffer that comes back would be cut
        into small ones that have no room to grow: the smallest batches when the load is highest. Not when
        the partitions that hold batches could take a good part of the memory that way.
        """
        if queue.fills_batches:
            expected_bytes = expected_plain_bytes(self._batch_size, ratio)
            for size in self._pool.large_bytes:
                needed_bytes = size * len(self._queues.active)
                if needed_bytes <= self._pool.total_bytes // 4 and size < 2 * expected_bytes:
                    return size
        return self._pool.first_bytes

    def _time_of_append(self, now_ms: int | None) -> int:
        """The time, which may have passed since ``now_ms``."""
        clock_ms = self._clock.monotonic_ms()
        return clock_ms if now_ms is None else max(now_ms, clock_ms)

    def _is_due_before_next_look(self, created_ms: int | None) -> bool:
        """Whether a new batch has lingered by then. With thousands of partitions looks are expensive."""
        if not self._linger_ms or created_ms is None:
            return True
        return self.next_look_ms > created_ms + self._linger_ms

    def wake_when_memory_is_short(self, wakeup: Callable[[], object]) -> None:
        """Call ``wakeup`` whenever a thread begins to wait for memory. Before the first append."""
        self._pool.on_wait = wakeup

    # -- what may be sent ------------------------------------------------------------------------------

    def ready(self, snapshot: MetadataSnapshot, now_ms: int) -> ReadyCheckResult:
        """Which nodes have something to be sent to them now, and when to look again.

        A partition's first batch is ready when its partition is not muted, its backoff is over (or the leader
        has changed since the last attempt), and any of these holds: it is full or followed by another; it has
        lingered; it was sent before; a thread waits for memory; a flush or the close is under way.
        """
        sends_everything = self.is_closed or bool(self._flushes) or self._pool.queued > 0
        if snapshot is not self._counted_snapshot or len(self._topics) != self._counted_topics:
            self._publish_partition_counts(snapshot)
        result = self._ready.look(snapshot, now_ms, sends_everything)
        self._load.publish(self._topics, self._queues.active, snapshot)
        return result

    def _publish_partition_counts(self, snapshot: MetadataSnapshot) -> None:
        """Set how many partitions each topic has for compiled appends, which decline topics with none.

        Also after a topic was added: the count that came with it may be from an older snapshot.
        """
        topics = list(self._topics.items())
        for topic, queues in topics:
            queues.slots.partition_count = snapshot.partition_count(topic) or 0
        self._counted_snapshot, self._counted_topics = snapshot, len(topics)

    def update_node_latency_stats(self, node_id: int, now_ms: int, can_drain: bool) -> None:
        """Note that a node had something ready, and whether it could take it (KIP-794)."""
        self._load.note_node(node_id, now_ms, can_drain)

    def drain(
        self, snapshot: MetadataSnapshot, nodes: Iterable[Node], max_request_size: int, now_ms: int
    ) -> dict[int, list[ProducerBatch]]:
        """Take out what goes into the next request to each node, closed and ready to be sent.

        At most one batch for each partition. A request stays within ``max_request_size`` unless a single
        batch exceeds it. The batches are in flight from here on, until ``request_done``.

        Returns:
            Batches by node id; nodes with nothing to send are left out.
        """
        self._ready.catch_up(snapshot, now_ms)
        drained: dict[int, list[ProducerBatch]] = {}
        for node in sorted(nodes, key=attrgetter("id")):
            batches = self._drain_node(node.id, max_request_size, now_ms)
            if batches:
                drained[node.id] = batches
        return drained

    def _drain_node(self, node_id: int, max_request_size: int, now_ms: int) -> list[ProducerBatch]:
        """At most one batch of each of the node's queues; what was drained goes behind all others.

        Source: Kafka's ``RecordAccumulator.drainBatchesForOneNode``.
        """
        drained: list[ProducerBatch] = []
        size = 0
        rotation = self._ready.rotation_of(node_id)
        for _ in range(len(rotation)):
            queue = rotation[0]
            with queue.lock:
                batch = self._ready.first_batch(queue, now_ms)
                if batch is None:
                    rotation.popleft()
                    queue.node = None
                    continue
                if size:
                    # While the slot is empty the size does not change.
                    queue.slot.appender = None
                    if size + batch.estimated_size_bytes > max_request_size:
                        # Nothing smaller overtakes it: this queue is the node's first next time.
                        queue.open_slot_locked()
                        break
                batch.maybe_update_leader_epoch(queue.leader_epoch)
                queue.pop_first_locked(self._clock.monotonic_ms())
                rotation.popleft()
                if queue.batches:
                    rotation.append(queue)
                    self._queues.changed.append(queue)
                else:
                    queue.node = None
            # With no lock held: compression takes its time.
            size_bytes = self._finish(batch)
            if size_bytes:
                batch.drained(now_ms)
                size += size_bytes
                drained.append(batch)
        return drained

    def _finish(self, batch: ProducerBatch) -> int:
        """Number and close a batch and return its size; 0: it could not be finished, and has failed."""
        try:
            if self._transactions is not None:
                self._transactions.drained(batch)
            return batch.records().nbytes
        except Exception as exception:
            _log.exception("A batch for %s could not be finished", batch.topic_partition)
            error = KafkaError(f"The batch for {batch.topic_partition} could not be finished: {exception!r}")
            error.outcome = batch.outcome
            error.__cause__ = exception
            if self._transactions is not None:
                self._transactions.failed(batch, error, batch.outcome)
            batch.complete_exceptionally(error)
            self.deallocate(batch)
            return 0

    def mute_partition(self, topic_partition: TopicPartition) -> None:
        """Drain nothing from this partition until it is unmuted; its batches still expire."""
        self._queues.queue_of(topic_partition).set_muted(True)

    def unmute_partition(self, topic_partition: TopicPartition) -> None:
        """Undo ``mute_partition``."""
        self._queues.queue_of(topic_partition).set_muted(False)

    # -- putting back, expiring, giving memory back ----------------------------------------------------

    def reenqueue(self, batch: ProducerBatch, now_ms: int, error: KafkaError | None = None) -> None:
        """Put a batch back to be sent again after a backoff, in front of all that were made after it.

        Its request must be over. ``error`` is why; it is named if the batch expires.
        """
        batch.reenqueued(now_ms, self._retry_backoff.backoff_ms(batch.attempts), error)
        self._queues.queue_of(batch.topic_partition).put_back(batch)

    def split_and_reenqueue(self, batch: ProducerBatch) -> int:
        """Replace a batch that is too large for the broker by smaller ones, to be sent at once.

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
        # Half of what was refused at most, so that splitting comes to an end even if the broker's limit is
        # far below batch_size.
        split_size = max(min(self._batch_size, batch.estimated_size_bytes // 2), 1)

        def new_builder(size_bytes: int) -> RecordBatchBuilder:
            return RecordBatchBuilder(
                bytearray(size_bytes), self._compression, topic_queues.ratio, split_size
            )

        parts = batch.split(split_size, new_builder)
        # First: if anything fails below, they are found among the incomplete.
        for part in parts:
            self._incomplete[part] = part
        if self._transactions is not None:
            self._transactions.sequences.split(batch, parts)
        for part in parts:
            self._queues.queue_of(part.topic_partition).put_back(part)
        return len(parts)

    def take_out(self, batch: ProducerBatch) -> None:
        """Take a batch out of its queue, wherever it is there; the caller fails and deallocates it."""
        self._queues.queue_of(batch.topic_partition).remove(batch)

    def stray_batches(self, in_flight: Container[ProducerBatch]) -> list[ProducerBatch]:
        """After an unexpected error: open batches that neither wait in a queue nor are in flight.

        Nothing would ever end them; the caller has to.

        Args:
            in_flight: the batches whose request is on its way.
        """
        self._ready.start_over()
        candidates = [batch for batch in list(self._incomplete) if not batch.is_done]
        queued: set[ProducerBatch] = set()
        for queue in self._queues.all_queues():
            # An append holds the lock from where a batch is made until it is in its queue, or gone again.
            with queue.lock:
                queued.update(queue.batches)
        return [
            batch
            for batch in candidates
            if batch not in queued and batch not in in_flight and batch in self._incomplete
        ]

    def expired_batches(self, now_ms: int) -> list[ProducerBatch]:
        """Take out the queued batches whose delivery timeout has passed; the caller fails and frees them.

        Costs nothing before the first one is due. In-flight batches are the Sender's to watch.
        """
        return self._queues.take_expired(now_ms)

    @property
    def next_expiry_ms(self) -> int:
        """A time (monotonic) before which no queued batch expires; ``NEVER_MS`` if there is none."""
        return self._queues.next_expiry_ms

    def deallocate(self, batch: ProducerBatch) -> None:
        """Forget a batch that has ended and give its memory back. Harmless when repeated.

        While a request with the batch may still be read from, memory waits for ``request_done``: bytes put
        into a half-sent buffer would go out as somebody else's record (KAFKA-19012).
        """
        if batch.in_flight:
            batch.release_pending = True
            # It stays incomplete: no call waits for it any more, but its memory is still in use.
            return
        if self._incomplete.pop(batch, None) is None:
            return
        builder = batch.builder
        buffer = None if builder is None or batch.is_split else builder.buffer
        batch.forget_memory()
        if buffer is not None:
            self._pool.deallocate(buffer)

    def request_done(self, batch: ProducerBatch) -> None:
        """The request that carried the batch is over: answered, written in full (acks=0), or disconnected.

        Call it before completing, putting back or deallocating the batch.
        """
        batch.in_flight = False
        if batch.release_pending:
            batch.release_pending = False
            self.deallocate(batch)

    # -- flush, abort, close ---------------------------------------------------------------------------

    @property
    def has_undrained(self) -> bool:
        """Whether batches wait in queues."""
        return bool(self._queues.active)

    @property
    def has_unresolved(self) -> bool:
        """Whether any record is neither delivered nor failed."""
        return any(not batch.is_done for batch in list(self._incomplete))

    @property
    def incomplete_count(self) -> int:
        """Batches that wait, are in flight, or whose memory is still in use."""
        return len(self._incomplete)

    @property
    def incomplete_record_count(self) -> int:
        """Records that are neither acknowledged nor failed."""
        return sum(batch.record_count for batch in list(self._incomplete) if not batch.is_done)

    @property
    def flush_in_progress(self) -> bool:
        """Whether somebody flushes: everything is ready then."""
        return bool(self._flushes)

    def begin_flush(self, flush: object) -> None:
        """Make everything ready until ``end_flush(flush)``. Wake the I/O thread after this.

        Call it within the ``try`` whose ``finally`` ends the flush: Ctrl-C may come as soon as it has begun.

        Args:
            flush: a new object.
        """
        self._flushes.add(flush)

    def end_flush(self, flush: object) -> None:
        """Undo ``begin_flush``. Harmless if it was not called."""
        self._flushes.discard(flush)

    def await_completion(self, timeout_ms: float | None = None) -> bool:
        """Wait until every record accepted before this call has been delivered or has failed.

        Returns:
            ``False``: not within ``timeout_ms``.
        """
        deadline_ms = None if timeout_ms is None else self._clock.monotonic_ms() + timeout_ms
        results = [batch.result for batch in list(self._incomplete)]
        while results:
            result = results.pop()
            if result.parts is not None:
                results.extend(result.leaves())
                continue
            if result.done:
                continue
            left_s = None
            if deadline_ms is not None:
                left_s = max(deadline_ms - self._clock.monotonic_ms(), 0) / 1000
            if not result.wait(left_s):
                return False
            # Done, or split meanwhile: look again.
            results.append(result)
        return True

    def abort_incomplete_batches(self, error: KafkaError) -> None:
        """Fail everything that is not done, after ``close``. Memory of batches in flight stays with them.

        ``error`` is shared; each batch gets the outcome that fits it.
        """
        # An append that was past its look at is_closed, or at its slot, under its lock when close() came is
        # over once that lock was ours; every later one sees is_closed. So no batch is made after this loop.
        for queue in self._queues.all_queues():
            with queue.lock:
                pass
        self._abort(error, lambda batch: True)

    def abort_undrained_batches(self, error: KafkaError, sent_too: bool = False) -> None:
        """Fail what waits in queues and was never sent; ``sent_too``: also what waits to be sent again."""
        self._abort(error, lambda batch: not batch.in_flight and (sent_too or not batch.send_count))

    def _abort(self, error: KafkaError, wanted: Callable[[ProducerBatch], bool]) -> None:
        for batch in list(self._incomplete):
            if not wanted(batch):
                continue
            try:
                self._queues.queue_of(batch.topic_partition).remove(batch)
                # One that is done already ended in the middle of what the I/O thread died of.
                if not batch.is_done:
                    its_error = _with_outcome(error, batch)
                    if self._transactions is not None:
                        self._transactions.failed(batch, its_error, its_error.outcome)
                    batch.abort(its_error)
                self.deallocate(batch)
            except Exception:
                # The others have to be told all the same.
                _log.exception("The batch for %s could not be given up", batch.topic_partition)

    def abandon_after_fork(self, error: KafkaError) -> None:
        """In a forked child, where this object is of no use: fail the inherited futures, lock nothing."""
        for batch in list(self._incomplete):
            for result in batch.result.leaves():
                result.abandon_after_fork(error)

    def release_all_in_flight(self) -> None:
        """All connections are closed: no request reads any buffer. Gives back what waited for that."""
        for batch in list(self._incomplete):
            self.request_done(batch)

    @property
    def topics(self) -> dict[str, TopicQueues]:
        """The queues by topic; only ever grows."""
        return self._topics

    @property
    def topic_slots(self) -> dict[str, TopicSlots]:
        """Where compiled code appends, by topic; only ever grows."""
        return self._queues.slots

    def slots_of(self, topic: str) -> TopicSlots:
        """Where compiled code appends to one topic; made now if there is nothing yet."""
        return self._queues.topic(topic).slots

    @property
    def holds_lock(self) -> bool:
        """Whether the calling thread holds one of our locks: then a call that waits for batches deadlocks."""
        return self._queues.holds_lock()

    @property
    def is_closed(self) -> bool:
        """Whether records are refused."""
        return self._queues.is_closed

    def close(self) -> None:
        """Refuse further records; threads that wait for memory are released. What was accepted stays."""
        self._queues.close()
        self._pool.close()


def _with_outcome(error: KafkaError, batch: ProducerBatch) -> KafkaError:
    """A copy of a shared error that says what is known of this batch."""
    clone: KafkaError = error.__class__.__new__(error.__class__, *error.args)
    clone.__dict__.update(error.__dict__)
    clone.__cause__ = error.__cause__
    clone.outcome = batch.outcome
    return clone


def _compression_of(config: ProducerConfig) -> Compression:
    """The codec and level that the settings ask for."""
    name = config.compression_type
    levels = {
        "gzip": config.compression_gzip_level,
        "lz4": config.compression_lz4_level,
        "zstd": config.compression_zstd_level,
    }
    return Compression.of(name, levels.get(name))

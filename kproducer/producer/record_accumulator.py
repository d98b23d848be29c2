"""RecordAccumulator: where records wait, as batches in one queue for each partition.

Caller threads append; the I/O thread asks which nodes have something ready, drains it, and puts back what has
to be sent again. Knows nothing of requests and connections. Source: Kafka class ``RecordAccumulator``; KIP-91
(delivery timeout), KIP-580 (backoff), KIP-794 (partitioning), KIP-951 (no backoff after a leader change).

Differs from Kafka in how much is looked at: only the queues with batches in them, so idle partitions cost
nothing. Their order is also that of draining: what was drained goes to the end, so that no partition starves
behind others of its node.

Locks: a queue's lock, then (within it) one of PartitionQueues, IncompleteBatches or BufferPool. Where taking
a buffer may block, no lock is held.
"""

from __future__ import annotations

import logging
import random as random_module
import sys
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

from kproducer.client.exponential_backoff import ExponentialBackoff
from kproducer.client.metadata import BACKOFF_JITTER, BACKOFF_MULTIPLIER
from kproducer.client.metadata_snapshot import MetadataSnapshot
from kproducer.clock import Clock
from kproducer.config import ProducerConfig
from kproducer.errors import IllegalStateError, KafkaError, Outcome, ProducerClosedError
from kproducer.kernel import StickyPartition, record_size_upper_bound
from kproducer.producer.buffer_pool import BufferPool
from kproducer.producer.built_in_partitioner import BuiltInPartitioner
from kproducer.producer.compression_settings import compression_of
from kproducer.producer.future_record_metadata import DeliveryCallback, FutureRecordMetadata
from kproducer.producer.incomplete_batches import IncompleteBatches
from kproducer.producer.partition_load import PartitionLoad
from kproducer.producer.partition_queues import NEVER_MS, PartitionQueue, PartitionQueues, TopicQueues
from kproducer.producer.partitioners import UNKNOWN_PARTITION
from kproducer.producer.producer_batch import ProducerBatch
from kproducer.producer.ready_check import ReadyCheckResult, find_ready
from kproducer.records.compression import Compression
from kproducer.records.record_batch_builder import RecordBatchBuilder
from kproducer.types import Headers, Node, TopicPartition

if TYPE_CHECKING:
    from kproducer.producer.transactions.transaction_manager import TransactionManager

__all__ = ["NEVER_MS", "ReadyCheckResult", "RecordAccumulator"]

_log = logging.getLogger(__name__)

#: What a record takes in a batch beside key and value, about. For the sticky partitioner's count only.
_RECORD_OVERHEAD_BYTES: Final = 9

#: Timestamp, key, value, headers and callback, as ``ProducerBatch.try_append`` takes them.
Record: TypeAlias = "tuple[int, bytes | None, bytes | None, Headers | None, DeliveryCallback | None]"


class RecordAccumulator:
    """The queues of one producer. ``append``, flush and close: any thread. The rest: I/O thread only.

    Args:
        config: sizes, timeouts, partitioning.
        buffer_pool: memory for the batches.
        clock: for the time after a wait for memory.
        compression: codec of all batches; ``None`` means as ``config`` says.
        random: for backoff jitter and the sticky partitioner; tests pass a seeded one.
        transactions: numbers the batches, and says which of them may be drained; ``None``: all, unnumbered.
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
        self._config = config
        self._transactions = transactions
        self._pool = buffer_pool
        self._clock = clock
        self._batch_size = config.batch_size
        self._linger_ms = config.linger_ms
        self._compression = compression if compression is not None else compression_of(config)
        self._retry_backoff = ExponentialBackoff(
            config.retry_backoff_ms,
            BACKOFF_MULTIPLIER,
            config.retry_backoff_max_ms,
            BACKOFF_JITTER,
            random,
        )
        self._incomplete = IncompleteBatches()
        self._queues = PartitionQueues(config, self._compression, random)
        #: The same dicts that _queues has, one look-up nearer.
        self._topics = self._queues.topics
        self._active = self._queues.active
        # Guarded by _flush_lock for writing, read without it.
        self._flush_lock = threading.Lock()
        self._flushes = 0
        # Set once, by any thread.
        self._closed = False
        #: When the I/O thread looks again at the latest, by itself; written by it, read by those who append.
        #: While it is looking: ``NEVER_MS``, since it may have passed the place already.
        self.next_look_ms = NEVER_MS
        # I/O thread only.
        self._load = PartitionLoad(config.partitioner_availability_timeout_ms)

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
            topic, partition: where to; ``UNKNOWN_PARTITION`` leaves the partition to us.
            timestamp_ms: of the record, since the epoch.
            key, value, headers: bytes as they go out.
            on_delivery: run on the I/O thread when the record's fate is known.
            now_ms: monotonic; ``None`` has the clock read where the time is needed, which is once a batch.
            snapshot: the topic must be in it if the partition is left to us.

        Returns:
            The record's future, and whether the I/O thread should be woken: a batch was made or became full.

        Raises:
            ProducerClosedError: closed before or meanwhile.
            BufferExhaustedError: no memory in time.
            SerializationError: an argument has the wrong type or range.
        """
        topic_queues = self._topics.get(topic)
        if topic_queues is None:
            topic_queues = self._queues.add_topic(topic)
        if partition >= 0:
            queue = topic_queues.queue(partition)
            future = None if queue is None else queue.append(timestamp_ms, key, value, headers, on_delivery)
        else:
            future = topic_queues.append_sticky(timestamp_ms, key, value, headers, on_delivery, snapshot)
        if future is not None:
            return future, False
        return self._append_to_new_batch(
            topic,
            topic_queues,
            partition,
            (timestamp_ms, key, value, headers, on_delivery),
            max_block_ms,
            now_ms,
            snapshot,
        )

    def _append_to_new_batch(
        self,
        topic: str,
        topic_queues: TopicQueues,
        partition: int,
        record: Record,
        max_block_ms: float,
        now_ms: int | None,
        snapshot: MetadataSnapshot,
    ) -> tuple[FutureRecordMetadata, bool]:
        """When there was no room: make a batch; wait for memory with no lock held, and look again."""
        _, key, value, headers, _ = record
        partitioner = topic_queues.partitioner
        buffer: bytearray | None = None
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
                if queue.lock.locked() or self._pool.is_locked:
                    self._refuse_in_the_middle_of_itself()
                with queue.lock:
                    if self._closed:
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
                            queue.close_lane_locked()
                            batch.close_for_appends()
                            filled = True
                            queue.fills_batches = True
                            if sticky is not None:
                                sticky.produced_bytes = max(sticky.produced_bytes, sticky.switch_at_bytes)
                                partitioner.maybe_switch(sticky, True, snapshot)
                                continue
                    if future is None and buffer is None:
                        # Nearly always there is a buffer to be had at once, and the lock need not be let go.
                        size = max(self._first_bytes(queue), record_size_upper_bound(key, value, headers))
                        buffer = self._pool.take_pooled(size)
                        if buffer is not None:
                            now_ms = self._time_of_append(now_ms)
                    if future is None and buffer is not None and now_ms is not None:
                        # Handed over before the call, which gives it back itself when the record is refused:
                        # a buffer given back twice would be handed to two batches.
                        first_buffer, buffer = buffer, None
                        future = self._append_first_locked(queue, topic_queues, record, first_buffer, now_ms)
                        # Only now: an append_first that fails takes its batch back, with all that is in it.
                        self._open_lane_locked(queue)
                        is_new = True
                    if future is not None:
                        if sticky is not None:
                            size = (len(key) if key else 0) + (len(value) if value else 0)
                            sticky.produced_bytes += size + _RECORD_OVERHEAD_BYTES
                            last = queue.open_batch
                            partitioner.maybe_switch(sticky, last is None or last.is_full, snapshot)
                        return future, filled or (is_new and self._is_due_before_next_look(now_ms))
                buffer = self._pool.allocate(size, max_block_ms)
                now_ms = self._time_of_append(now_ms)
        finally:
            if buffer is not None:
                # Somebody else made room meanwhile, or this append failed.
                self._pool.deallocate(buffer)

    def _refuse_in_the_middle_of_itself(self) -> None:
        """Refuse to wait for a lock that code further up on this very stack holds.

        The garbage collector may run a finalizer in the middle of an append, on the I/O thread too, and that
        may log, with a handler that sends. Nobody would ever send again if it waited here. The stack is
        looked at because that costs nothing where no lock is held.

        Raises:
            IllegalStateError: it is so.
        """
        frame = sys._getframe(1).f_back
        while frame is not None:
            code = frame.f_code
            if code is BufferPool._wait.__code__:
                return  # with no lock held
            if code in _HOLDING_LOCKS:
                owner = frame.f_locals.get("self")
                if owner is self._queues or owner is self._pool or self.has_part(owner):
                    raise IllegalStateError(
                        "send() in the middle of a send on the same thread, as in a finalizer or a signal"
                        " handler, would wait for itself"
                    ).with_outcome(Outcome.NOT_SENT)
            frame = frame.f_back

    def _first_bytes(self, queue: PartitionQueue) -> int:
        """What a batch of the partition begins with: all it may take, if the last one was full.

        Otherwise, whenever records come faster than they are sent, each buffer that comes back would be cut
        into small ones that have no room to grow: the smallest batches when the load is highest. Not when
        the partitions that hold batches could take a good part of the memory that way.
        """
        if queue.fills_batches:
            for size in self._pool.large_bytes:
                if size * len(self._active) <= self._pool.total_bytes // 4:
                    return size
        return self._pool.first_bytes

    def _time_of_append(self, now_ms: int | None) -> int:
        """The time, which may have passed since ``now_ms``."""
        clock_ms = self._clock.monotonic_ms()
        return clock_ms if now_ms is None else max(now_ms, clock_ms)

    def _append_to_open_locked(
        self, queue: PartitionQueue, batch: ProducerBatch, record: Record
    ) -> FutureRecordMetadata | None:
        """Append with nobody else in the lane: at its limit a batch may compress a chunk and start over."""
        queue.appender = None
        try:
            return batch.try_append(*record)
        finally:
            self._open_lane_locked(queue)

    def _open_lane_locked(self, queue: PartitionQueue) -> None:
        """Let every thread append to the open batch, if there is one."""
        batch = queue.open_batch
        if batch is None or not batch.is_open:
            return
        queue.appender = batch.appender
        # In this order, and close() in the other one: no lane stays open behind it.
        if self._closed:
            queue.appender = None

    def _sticky_moved_locked(
        self,
        partitioner: BuiltInPartitioner,
        sticky: StickyPartition,
        queue: PartitionQueue,
        snapshot: MetadataSnapshot,
    ) -> bool:
        """Whether another partition is the choice by now, be it because this is the moment to switch."""
        if partitioner.current is not sticky:
            return True
        last = queue.open_batch
        if last is None or last.is_full:
            return partitioner.maybe_switch(sticky, True, snapshot)
        return False

    def _append_first_locked(
        self,
        queue: PartitionQueue,
        topic_queues: TopicQueues,
        record: Record,
        buffer: bytearray,
        now_ms: int,
    ) -> FutureRecordMetadata:
        """Make a batch in ``buffer`` around the record. The buffer is the batch's from then on.

        When the record is refused (``SerializationError``) the buffer goes back and nothing has changed.
        """
        batch: ProducerBatch | None = None
        try:
            builder = RecordBatchBuilder(
                buffer, self._compression, topic_queues.ratio, max(self._batch_size, 1), self._pool
            )
            batch = ProducerBatch(queue.topic_partition, builder, now_ms, (queue.next_order,))
            future = batch.try_append(*record)
            if future is None:
                raise IllegalStateError(f"The first record does not fit into {len(buffer)} bytes")
            self._incomplete.add(batch)
            self._queues.append_locked(queue, batch)
        except BaseException:
            # Also what a signal handler raises, Ctrl-C for one. A batch that is incomplete and in no queue
            # would never end, nor would any flush() or close() that waits for it.
            if batch is not None:
                self._queues.take_back_locked(queue, batch)
                self._incomplete.remove(batch)
                batch.forget_memory()
            self._pool.deallocate(buffer)
            raise
        return future

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
        lingered; it was sent before; somebody waits for memory; a flush or the close is under way.
        """
        sends_everything = self._closed or self._flushes > 0 or self._pool.queued > 0
        may_drain = None if self._transactions is None else self._transactions.may_drain
        return find_ready(
            self._queues, self._load, snapshot, now_ms, self._linger_ms, sends_everything, may_drain
        )

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
        transactions = self._transactions
        drained: dict[int, list[ProducerBatch]] = {}
        sizes = {node.id: 0 for node in nodes}
        full_nodes: set[int] = set()
        topics = snapshot.topics
        for queue in list(self._active):
            if queue.is_muted:
                continue
            topic, partition = queue.topic_partition
            metadata = topics.get(topic)
            if metadata is None or partition >= len(metadata.partitions):
                continue
            leader = metadata.partitions[partition]
            node_id = leader.leader_id
            size = sizes.get(node_id)
            if size is None or node_id in full_nodes:
                continue
            with queue.lock:
                if not queue.batches:
                    continue
                batch = queue.batches[0]
                batch.maybe_update_leader_epoch(leader.leader_epoch)
                if batch.is_backing_off(now_ms):
                    continue
                if transactions is not None and not transactions.may_drain(batch):
                    continue
                if size:
                    # With the lane closed the size stays what it is.
                    queue.appender = None
                    if size + batch.estimated_size_bytes > max_request_size:
                        # Nothing smaller jumps ahead: this queue is the node's first next time.
                        full_nodes.add(node_id)
                        self._open_lane_locked(queue)
                        continue
                self._queues.pop_first_locked(queue)
            if transactions is not None:
                transactions.drained(batch)
            # Compression takes its time: with no lock held.
            size_bytes = self._close(batch)
            if size_bytes:
                batch.drained(now_ms)
                sizes[node_id] = size + size_bytes
                drained.setdefault(node_id, []).append(batch)
        return drained

    def _close(self, batch: ProducerBatch) -> int:
        """Finish a batch and return its size; one that cannot be finished is failed, and 0 returned."""
        try:
            return batch.records().nbytes
        except Exception as exception:
            _log.exception("A batch for %s could not be finished", batch.topic_partition)
            error = KafkaError(f"The batch for {batch.topic_partition} could not be finished: {exception!r}")
            error.outcome = Outcome.NOT_SENT
            error.__cause__ = exception
            if self._transactions is not None:
                outcome = Outcome.UNKNOWN if batch.send_count else Outcome.NOT_SENT
                self._transactions.failed(batch, error, outcome)
            batch.complete_exceptionally(error)
            self.deallocate(batch)
            return 0

    def mute_partition(self, topic_partition: TopicPartition) -> None:
        """Drain nothing from this partition until it is unmuted; its batches still expire."""
        self._queues.queue_of(topic_partition).is_muted = True

    def unmute_partition(self, topic_partition: TopicPartition) -> None:
        """Undo ``mute_partition``."""
        self._queues.queue_of(topic_partition).is_muted = False

    # -- putting back, expiring, giving memory back ----------------------------------------------------

    def reenqueue(self, batch: ProducerBatch, now_ms: int, error: KafkaError | None = None) -> None:
        """Put a batch back to be sent again after a backoff, in front of all that were made after it.

        Its request must be over. ``error`` is why; it is named if the batch expires.
        """
        batch.reenqueued(now_ms, self._retry_backoff.backoff_ms(batch.attempts), error)
        self._queues.put_back(batch)

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
        if self._transactions is not None:
            self._transactions.split(batch, parts)
        for part in parts:
            self._incomplete.add(part)
            self._queues.put_back(part)
        return len(parts)

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
            # It stays among the incomplete: nobody waits for it any more, but its memory is still in use.
            return
        if not self._incomplete.remove(batch):
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
        return bool(self._active)

    @property
    def has_unresolved(self) -> bool:
        """Whether any record's fate is still open."""
        return any(not batch.is_done for batch in self._incomplete.copy())

    @property
    def incomplete_count(self) -> int:
        """Batches that wait, are in flight, or whose memory is still in use."""
        return len(self._incomplete)

    @property
    def incomplete_record_count(self) -> int:
        """Records that are neither acknowledged nor failed."""
        return sum(batch.record_count for batch in self._incomplete.copy() if not batch.is_done)

    @property
    def flush_in_progress(self) -> bool:
        """Whether somebody flushes: everything is ready then."""
        return self._flushes > 0

    def begin_flush(self) -> None:
        """Make everything ready until ``await_flush_completion`` ends. Wake the I/O thread after this."""
        with self._flush_lock:
            self._flushes += 1

    def await_flush_completion(self, timeout_ms: float | None = None) -> bool:
        """Wait until every record accepted before this call has been delivered or has failed.

        Ends the flush in any case, exceptions included.

        Returns:
            ``False``: not within ``timeout_ms``.
        """
        try:
            deadline_ms = None if timeout_ms is None else self._clock.monotonic_ms() + timeout_ms
            results = [batch.result for batch in self._incomplete.copy()]
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
        finally:
            with self._flush_lock:
                self._flushes -= 1

    def abort_incomplete_batches(self, error: KafkaError) -> None:
        """Fail everything that is not done, after ``close``. Memory of batches in flight stays with them.

        ``error`` is shared; each batch gets the outcome that fits it.
        """
        # An append that was past its look at _closed, or into its lane, under its lock when close() came is
        # over once that lock was ours; every later one sees _closed. So no batch is made after this loop.
        for queue in self._queues.all_queues():
            with queue.lock:
                pass
        self._abort(error, lambda batch: True)

    def abort_undrained_batches(self, error: KafkaError, sent_too: bool = False) -> None:
        """Fail what waits in queues and was never sent; ``sent_too``: also what waits to be sent again."""
        self._abort(error, lambda batch: not batch.in_flight and (sent_too or not batch.send_count))

    def _abort(self, error: KafkaError, wanted: Callable[[ProducerBatch], bool]) -> None:
        for batch in self._incomplete.copy():
            if not wanted(batch):
                continue
            try:
                self._queues.remove(batch)
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
        for batch in self._incomplete.members_after_fork():
            for result in batch.result.leaves():
                result.abandon_after_fork(error)

    def release_all_in_flight(self) -> None:
        """All connections are closed: no request reads any buffer. Gives back what waited for that."""
        for batch in self._incomplete.copy():
            self.request_done(batch)

    @property
    def topics(self) -> dict[str, TopicQueues]:
        """The ways in, by topic; only ever grows. For appending to their lanes, see ``kernel.SendPath``."""
        return self._topics

    def lanes_of(self, topic: str) -> TopicQueues:
        """The ways into one topic's batches, made now if there are none."""
        return self._topics.get(topic) or self._queues.add_topic(topic)

    def has_part(self, part: object) -> bool:
        """Whether ``part`` is this accumulator, or one of its topics or queues."""
        return part is self or any(
            part is topic or any(part is queue for queue in topic.lanes)
            for topic in list(self._topics.values())
        )

    @property
    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Refuse further records; threads that wait for memory are released. What was accepted stays."""
        self._closed = True
        for queue in self._queues.all_queues():
            queue.appender = None
        self._pool.close()


#: The code that holds the lock of a queue or of the pool while other Python code may run.
_HOLDING_LOCKS: Final = {
    RecordAccumulator._append_to_new_batch.__code__,
    RecordAccumulator.drain.__code__,
    TopicQueues.end_stay.__code__,
    PartitionQueues.put_back.__code__,
    PartitionQueues.remove.__code__,
    PartitionQueues.take_expired.__code__,
    BufferPool.deallocate.__code__,
}


def _with_outcome(error: KafkaError, batch: ProducerBatch) -> KafkaError:
    """A copy of a shared error that says what is known of this batch."""
    clone: KafkaError = error.__class__.__new__(error.__class__, *error.args)
    clone.__dict__.update(error.__dict__)
    clone.__cause__ = error.__cause__
    clone.outcome = Outcome.UNKNOWN if batch.send_count else Outcome.NOT_SENT
    return clone

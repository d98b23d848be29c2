"""ProducerBatch: records of one partition that travel together, from the first append to their outcome.

Owns a RecordBatchBuilder and the result that the records' futures look at. Knows nothing of queues, memory
accounting, nodes or requests. Source: Kafka class ``ProducerBatch``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kproducer._core.accumulator.future_record_metadata import (
    DeliveryCallback,
    FutureRecordMetadata,
    ProduceRequestResult,
)
from kproducer._core.accumulator.owned_lock import OwnedLock
from kproducer._core.client.metadata_snapshot import NO_LEADER_EPOCH
from kproducer._core.kernel import Deliveries, RecordAppender, record_size_upper_bound
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer._core.transactions.delivery_knowledge import Knowledge
from kproducer.errors import DeliveryTimeoutError, IllegalStateError, KafkaError, Outcome
from kproducer.types import NO_OFFSET, NO_TIMESTAMP, Headers, TopicPartition

if TYPE_CHECKING:
    from kproducer._core.records.record_batch_builder import RecordBatchBuilder

_log = GuardedLogger(__name__)


class ProducerBatch:
    """Records on their way to one partition.

    Appends happen under the partition queue's lock, or in compiled code (see ``kernel.AppendSlot``);
    everything else on the I/O thread, except ``compress``, ``complete`` and the properties. Any thread may
    try to complete it: exactly one attempt succeeds.

    Args:
        topic_partition: where it goes.
        builder: takes the records.
        created_ms: monotonic; it lingers from here on.
        order: place among the batches of the partition; parts of a split sort where the whole was.
        is_split: its memory was not taken from the pool.
        appender: of a batch that a lane has begun; ``None``: the batch is new.

    Attributes:
        result: the outcome shared with the futures.
        appender: encodes the records; ``None`` once the memory was returned.
        is_open: whether records may still be appended.
        compression_lock: held by a thread that compresses the records or returns their memory, if that may be
            another one than the I/O thread; else ``None``.
        closed_ms: upper bound of when the last record was appended; the delivery timeout of the batch counts
            from here. Written under the queue's lock.
        attempts: how often it was put back to be sent again.
        send_count: how often it was handed to the network.
        in_flight: a request may be reading its buffer: the buffer must not go back to the pool.
        retry_at_ms: when the backoff of the present retry ends.
        last_error: why it was put back the last time.
        knowledge: what its attempts that have ended say about it.
        producer_id, producer_epoch, base_sequence: see ``set_producer_state``; -1 before.
        ordinal: how many batches of the partition got a sequence number before it; -1: it has none yet.
    """

    # Defaults on the class, because in most batches some of these never change.
    # Guarded by the partition queue's lock:
    is_open = True
    compression_lock: Any = None  # an OwnedLock, or that of a lane's batch
    _final_record_count = 0
    # I/O thread only:
    _records: memoryview | None = None
    attempts = 0
    send_count = 0
    in_flight = False
    retry_at_ms = 0
    last_error: KafkaError | None = None
    _leader_epoch_attempt = 0
    # Idempotence and transactions.
    producer_id = -1
    producer_epoch = -1
    base_sequence = -1
    ordinal = -1

    def __init__(
        self,
        topic_partition: TopicPartition,
        builder: RecordBatchBuilder,
        created_ms: int,
        order: tuple[int, ...] = (0,),
        is_split: bool = False,
        appender: RecordAppender | None = None,
    ) -> None:
        # Fixed after construction.
        self.topic_partition = topic_partition
        self.created_ms = created_ms
        self.closed_ms = created_ms
        self.order = order
        self.is_split = is_split
        # I/O thread only.
        self.knowledge = Knowledge.NEVER_SENT
        self._leader_epoch = NO_LEADER_EPOCH
        if appender is None:
            result = ProduceRequestResult(topic_partition)
            appender = RecordAppender(builder.writer, result, result.outcome, FutureRecordMetadata)
        self.result: ProduceRequestResult = appender.batch_result
        # Guarded by the partition queue's lock.
        self.builder: RecordBatchBuilder | None = builder
        self.appender: RecordAppender | None = appender
        self._deliveries = appender.deliveries

    # -- appending -------------------------------------------------------------------------------------

    def try_append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
        on_delivery: DeliveryCallback | None,
    ) -> FutureRecordMetadata | None:
        """Encode one record into the batch; ``None``: no room, or closed for appends.

        Its appender is in no slot meanwhile: no other thread appends.

        Raises:
            SerializationError: an argument has the wrong type or range; nothing has changed.
        """
        appender, builder = self.appender, self.builder
        if not self.is_open or appender is None or builder is None:
            return None
        future: FutureRecordMetadata | None = appender.append(timestamp_ms, key, value, headers, on_delivery)
        if future is not None:
            return future
        if not builder.append_at_limit(timestamp_ms, key, value, headers):
            return None
        future = appender.future_for_last_record(
            timestamp_ms, -1 if key is None else len(key), -1 if value is None else len(value), on_delivery
        )
        return future

    @property
    def record_count(self) -> int:
        """Records taken. The writer counts them, so that an interrupted append leaves the right number."""
        # Read once: the I/O thread sets it to None when it returns the memory.
        appender = self.appender
        return self._final_record_count if appender is None else appender.writer.record_count

    def close_for_appends(self) -> None:
        """Take no more records. Idempotent."""
        self.is_open = False
        if self.builder is not None:
            self.builder.close_for_appends()

    def compress(self, lock: OwnedLock) -> None:
        """Compress the records now, so that ``records`` has less to do. It must be closed. Idempotent.

        On any thread, without the partition's lock: the I/O thread may send, fail or expire the batch before
        this begins, and waits while it runs.

        Args:
            lock: ``compression_lock``.
        """
        with lock:
            if self.builder is not None:
                self.builder.compress()

    @property
    def awaits_compression(self) -> bool:
        """Whether its records are still plain, and will be sent. Lock-free: a hint."""
        builder = self.builder
        return builder is not None and not builder.is_compressed

    @property
    def compressed_records(self) -> bytes | memoryview | None:
        """What a caller has made of its records; ``None``: they are plain."""
        return None if self.builder is None else self.builder.compressed_records

    @property
    def is_full(self) -> bool:
        """Whether it need not wait for more records."""
        return not self.is_open or self.builder is None or self.builder.is_full

    @property
    def can_be_armed(self) -> bool:
        """Whether a lane may take it: it was never drained or split, and no caller is to compress it."""
        return not (
            self.send_count
            or self.attempts
            or self.is_split
            or self._records is not None
            or self.base_sequence >= 0
            or self.appender is None
            or (self.compression_lock is not None and self.awaits_compression)
        )

    @property
    def is_mostly_empty(self) -> bool:
        """Whether less than a quarter of its buffer is in use."""
        builder = self.builder
        return builder is not None and 4 * builder.uncompressed_size_bytes < len(builder.buffer)

    @property
    def max_timestamp_ms(self) -> int:
        """Newest timestamp of its records; -1 once the memory was returned."""
        return -1 if self.builder is None else self.builder.writer.max_timestamp_ms

    @property
    def estimated_size_bytes(self) -> int:
        """Size on the wire: estimated while compression is still to come."""
        if self._records is not None:
            return self._records.nbytes
        return 0 if self.builder is None else self.builder.estimated_size_bytes

    # -- sending ---------------------------------------------------------------------------------------

    def records(self) -> memoryview:
        """The finished batch; compressed, with header and checksum, on the first call.

        Raises:
            IllegalStateError: its memory was returned to the pool.
        """
        if self._records is None:
            if self.builder is None:
                raise IllegalStateError(
                    f"the memory of a batch for {self.topic_partition} was returned already"
                )
            self.is_open = False
            if self.compression_lock is None:
                self._records = self.builder.close()
            else:
                with self.compression_lock:
                    self._records = self.builder.close()
        return self._records

    def set_producer_state(
        self, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool
    ) -> None:
        """Assign its producer id and sequence number, again if need be. Not while it is in flight."""
        # A batch without a builder has ended: only its numbers still matter.
        if self.builder is not None:
            self._records = None
            self.builder.set_producer_state(producer_id, producer_epoch, base_sequence, is_transactional)
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence

    def drained(self, leader_epoch: int = NO_LEADER_EPOCH) -> None:
        """Note that it goes into a request to the leader with this epoch now."""
        if leader_epoch > self._leader_epoch:
            self.maybe_update_leader_epoch(leader_epoch)
        self.in_flight = True
        self.send_count += 1

    def reenqueued(self, now_ms: int, backoff_ms: int, error: KafkaError | None) -> None:
        """Note that it is to be sent again, not before ``backoff_ms`` from now unless the leader changes."""
        self.attempts += 1
        self.retry_at_ms = now_ms + backoff_ms
        self.in_flight = False
        if error is not None:
            self.last_error = error

    def maybe_update_leader_epoch(self, leader_epoch: int) -> None:
        """Note the newest leader epoch that metadata knows; -1 is ignored.

        At most every second retry skips the backoff: a broker that names a newer epoch in each error would
        otherwise get requests as fast as it rejects them.
        """
        if leader_epoch > self._leader_epoch:
            self._leader_epoch = leader_epoch
            if not 0 < self._leader_epoch_attempt == self.attempts - 1:
                self._leader_epoch_attempt = self.attempts

    @property
    def has_leader_changed_for_ongoing_retry(self) -> bool:
        """Whether the present retry goes to another leader than the last attempt: no need to back off."""
        return self.attempts > 0 and self._leader_epoch_attempt == self.attempts

    def is_backing_off(self, now_ms: int) -> bool:
        """Whether its retry has to wait."""
        return (
            self.attempts > 0 and now_ms < self.retry_at_ms and not self.has_leader_changed_for_ongoing_retry
        )

    def has_reached_delivery_timeout(self, delivery_timeout_ms: int, now_ms: int) -> bool:
        """Whether the delivery timeout of its last record has passed. It must take no more records."""
        return now_ms - self.closed_ms >= delivery_timeout_ms

    def delivery_timeout_error(self, delivery_timeout_ms: int, now_ms: int) -> DeliveryTimeoutError:
        """The error to fail it with when it expires: what happened to it, and what is known."""
        outcome = self.outcome
        if outcome is Outcome.NOT_SENT:
            history = "never sent"
        else:
            is_single = self.send_count == 1
            history = "sent once" if is_single else f"sent {self.send_count} times"
            if outcome is Outcome.UNKNOWN:
                history += " and possibly written"
            else:
                history += " and rejected" if is_single else " and rejected each time"
        if self.last_error is not None:
            cause = f"last error: {self.last_error}"
        elif self.in_flight:
            cause = "the broker has not answered"
        else:
            cause = "no error was reported; no leader was known or ready to take it"
        return DeliveryTimeoutError(
            f"{self.record_count} records for {self.topic_partition} were not acknowledged within"
            f" delivery_timeout_ms={delivery_timeout_ms}: {now_ms - self.created_ms} ms have passed since the"
            f" batch was created, it was {history}; {cause}"
        ).with_outcome(outcome, self.last_error)

    # -- outcome ---------------------------------------------------------------------------------------

    @property
    def outcome(self) -> Outcome:
        """What is known of its records if it fails now."""
        return Outcome.UNKNOWN if self.in_flight else self.knowledge.outcome or Outcome.UNKNOWN

    @property
    def is_done(self) -> bool:
        """Whether its outcome is decided, or left to the parts it was split into."""
        outcome = self.result.outcome
        return outcome.settled or outcome.is_split

    def complete(
        self,
        base_offset: int = NO_OFFSET,
        log_append_time_ms: int = NO_TIMESTAMP,
        error: KafkaError | None = None,
        record_errors: Callable[[int], KafkaError] | None = None,
    ) -> bool:
        """Decide its outcome; then run each ``on_delivery`` in order, wake the waiters, run done-callbacks.

        What callbacks raise is logged. A callback is called with the metadata and ``None`` or a copy of the
        error.

        Args:
            base_offset: of its first record, if it was written.
            log_append_time_ms: if the topic uses the broker's time.
            error: it failed, or was given up; ``None``: the broker has it (or, with acks=0, it was written to
                the socket).
            record_errors: returns the error of the record with an index, where they differ.

        Returns:
            Whether this call decided the outcome. ``False``: an earlier one did, and this one changes
            nothing.

        Raises:
            IllegalStateError: it succeeded before.
        """
        result = self.result
        if result.settle(base_offset, log_append_time_ms, error, record_errors):
            result.release(self._deliveries)
            return True
        if result.outcome.settled and result.error is None:
            raise IllegalStateError(
                f"A batch for {self.topic_partition} that succeeded cannot be completed again"
                + ("" if error is None else f" with {error!r}")
            )
        if error is None and result.error is not None:
            _log.info(
                "A batch for %s was acknowledged after it failed: %s", self.topic_partition, result.error
            )
        return False

    def split(
        self, split_batch_size: int, new_builder: Callable[[int], RecordBatchBuilder]
    ) -> list[ProducerBatch]:
        """Distribute the records over new, smaller batches; the futures follow.

        Args:
            split_batch_size: each part stays within it, except one record that is larger all by itself.
            new_builder: makes a builder over fresh memory of at least so many bytes.

        Returns:
            The parts in order; empty when the outcome is decided already (the records must not go out again).
        """
        if self.is_done or self.builder is None:
            return []
        parts: list[ProducerBatch] = []
        first_indexes: list[int] = []
        builder: RecordBatchBuilder | None = None
        for index, record in enumerate(self.builder.records()):
            if builder is not None and builder.try_append(*record):
                continue
            builder = new_builder(max(split_batch_size, record_size_upper_bound(*record[1:])))
            builder.try_append(*record)
            order = (*self.order, len(parts))
            parts.append(ProducerBatch(self.topic_partition, builder, self.created_ms, order, is_split=True))
            first_indexes.append(index)
        # Closed before the futures move to the parts: closing compresses, which may fail.
        for part in parts:
            part.close_for_appends()
        moved = self._deliveries.split(first_indexes)
        if not self.result.split_into(first_indexes, [part.result for part in parts]):
            return []
        self._deliveries = Deliveries()
        for part, deliveries in zip(parts, moved, strict=True):
            part._deliveries = deliveries
            part._leader_epoch = self._leader_epoch
            # An attempt with the whole batch may have been written although its response was lost: an error
            # of a part must say so.
            part.send_count = self.send_count
            part.closed_ms = self.closed_ms
            part.last_error = self.last_error
            part.knowledge = self.knowledge
        return parts

    def forget_memory(self) -> None:
        """Drop every reference to the buffer, which goes back to the pool. ``records`` raises afterwards."""
        if self.appender is not None:
            self._final_record_count = self.appender.writer.record_count
            self.appender = None
        self._records = None
        if self.compression_lock is None:
            self.builder = None
        else:
            with self.compression_lock:
                self.builder = None
        self.is_open = False

    def __repr__(self) -> str:
        return (
            f"<ProducerBatch {self.topic_partition} order={self.order} records={self.record_count}"
            f" attempts={self.attempts}>"
        )

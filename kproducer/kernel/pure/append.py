"""From ``send`` to the record in its batch: the reference of ``native/_append.pyx``.

Shape: a producer's ``SendPath`` finds the topic's ``TopicLanes``, there the partition's ``Lane``, there the
``RecordAppender`` of the open batch, which writes the record and makes its future. Only the usual is here: a
known topic, arguments of the usual types, an open batch with room. For everything else the answer is "not
here" (``None``), and ``RecordAccumulator`` and ``KafkaProducer`` see to it.

Locking: each append holds its lane's ``lock``. The compiled twin needs none, see ``native/_append.pxd``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kproducer.errors import KafkaError, Outcome
from kproducer.kernel.pure.batch_v2 import BatchWriter, is_nearly_full
from kproducer.kernel.pure.completion import BatchOutcome, Deliveries
from kproducer.kernel.pure.murmur2 import murmur2
from kproducer.kernel.record_arguments import BytesLike, Headers
from kproducer.runtime.arguments import headers_size_upper_bound
from kproducer.types import INT64_MAX

if TYPE_CHECKING:
    from kproducer.accumulator.future_record_metadata import DeliveryCallback, FutureRecordMetadata
    from kproducer.runtime.arguments import HeadersInput

#: What a record takes in a batch beside key and value, about. For the sticky partitioner's count only.
RECORD_OVERHEAD_BYTES: Final = 9


class RecordAppender:
    """Takes records into one batch and makes their futures.

    Args:
        writer: the batch's.
        owner: the result that the futures refer to.
        outcome: the outcome of ``owner``.
        future_type: a subclass of ``RecordFuture``.

    Attributes:
        writer, owner, outcome, future_type: as given.
        deliveries: the callbacks of its records.
    """

    __slots__ = ("_append", "deliveries", "future_type", "outcome", "owner", "writer")

    def __init__(self, writer: BatchWriter, owner: Any, outcome: BatchOutcome, future_type: Any) -> None:
        if not isinstance(writer, BatchWriter):
            raise TypeError(f"the writer must be a BatchWriter, not {type(writer).__name__}")
        self.writer = writer
        self.owner = owner
        self.outcome = outcome
        self.future_type = future_type
        self.deliveries = Deliveries()
        self._append = writer.append

    def append(
        self,
        timestamp_ms: int,
        key: BytesLike | None,
        value: BytesLike | None,
        headers: Headers | None,
        on_delivery: DeliveryCallback | None,
    ) -> FutureRecordMetadata | None:
        """Encode one record; see ``BatchWriter.append`` for the arguments and what is raised.

        Returns:
            The record's future; ``None``: there was no room, nothing has changed.
        """
        # What a signal handler raises may come after the record went in: the writer alone counts, so that
        # later records do not get the offsets of their predecessors.
        index = self.writer.record_count
        if not self._append(timestamp_ms, key, value, headers):
            return None
        future: FutureRecordMetadata = self.future_type(
            self.owner,
            self.outcome,
            index,
            timestamp_ms,
            -1 if key is None else key.nbytes if key.__class__ is memoryview else len(key),
            -1 if value is None else value.nbytes if value.__class__ is memoryview else len(value),
        )
        if on_delivery is not None:
            self.deliveries.add(
                on_delivery, future._index, future._timestamp_ms, future._key_size, future._value_size
            )
        return future

    def promise_last(
        self, timestamp_ms: int, key_size: int, value_size: int, on_delivery: DeliveryCallback | None
    ) -> FutureRecordMetadata:
        """The future of the record that somebody else appended to ``writer`` just now.

        The appender is in no lane meanwhile: the record is still the last one.
        """
        future: FutureRecordMetadata = self.future_type(
            self.owner, self.outcome, self.writer.record_count - 1, timestamp_ms, key_size, value_size
        )
        if on_delivery is not None:
            self.deliveries.add(
                on_delivery, future._index, future._timestamp_ms, future._key_size, future._value_size
            )
        return future


class Lane:
    """The way into one partition's open batch. A subclass has the ``lock``.

    Attributes:
        appender: the open batch's; ``None`` while there is none, or while it is not for everybody.
    """

    __slots__ = ("appender",)

    if TYPE_CHECKING:
        lock: threading.Lock

    def __init__(self) -> None:
        self.appender: RecordAppender | None = None

    def append(
        self,
        timestamp_ms: int,
        key: BytesLike | None,
        value: BytesLike | None,
        headers: Headers | None,
        on_delivery: DeliveryCallback | None,
    ) -> FutureRecordMetadata | None:
        """Encode one record into the open batch; see ``BatchWriter.append`` for the arguments and errors.

        Returns:
            The record's future; ``None``: there is no open batch, or no room in it.
        """
        with self.lock:
            appender = self.appender
            if appender is None:
                return None
            return appender.append(timestamp_ms, key, value, headers, on_delivery)


class StickyPartition:
    """The present choice of the built-in partitioner. Changed under the lock of that partition's queue.

    Attributes:
        partition: its number.
        produced_bytes: appended since it was chosen, before compression.
        switch_at_bytes: the next full batch from here on ends it.
        force_switch_at_bytes: it ends here in any case.
    """

    __slots__ = ("force_switch_at_bytes", "partition", "produced_bytes", "switch_at_bytes")

    def __init__(self, partition: int, switch_at_bytes: int) -> None:
        self.partition = partition
        self.produced_bytes = 0
        self.switch_at_bytes = switch_at_bytes
        self.force_switch_at_bytes = 2 * switch_at_bytes


class StickyChoice:
    """Holds the choice; what is chosen is decided elsewhere.

    Attributes:
        current: the choice, or ``None`` before the first one; replaced as a whole, so that comparing
            references tells of a change.
    """

    __slots__ = ("current",)

    def __init__(self) -> None:
        self.current: StickyPartition | None = None


class TopicLanes:
    """The ways into one topic's batches.

    Attributes:
        lanes: by partition number; ``None`` where nothing was sent yet.
        partitioner: holds the sticky choice.
    """

    __slots__ = ("lanes", "partitioner")

    def __init__(self) -> None:
        self.lanes: list[Any] = []
        self.partitioner: Any = None

    def end_stay(self, sticky: StickyPartition, lane: Any, snapshot: Any) -> None:
        """Enough was sent to the present choice: choose anew, if this is the moment. No lock is held."""
        raise NotImplementedError

    def append_sticky(
        self,
        timestamp_ms: int,
        key: BytesLike | None,
        value: BytesLike | None,
        headers: Headers | None,
        on_delivery: DeliveryCallback | None,
        snapshot: Any,
    ) -> FutureRecordMetadata | None:
        """Encode one record into the open batch of the sticky choice, and count it. See ``Lane.append``."""
        sticky = self.partitioner.current
        if sticky is None or sticky.partition >= len(self.lanes):
            return None
        lane = self.lanes[sticky.partition]
        if lane is None:
            return None
        with lane.lock:
            appender = lane.appender
            # Once switched away no more records go there: a race lost here is tried again by the caller.
            if appender is None or self.partitioner.current is not sticky:
                return None
            future: FutureRecordMetadata | None = appender.append(
                timestamp_ms, key, value, headers, on_delivery
            )
            if future is None:
                return None
            produced: int = sticky.produced_bytes + RECORD_OVERHEAD_BYTES
            if value is not None:
                produced += len(value)
            if key is not None:
                produced += len(key)
            sticky.produced_bytes = produced
            if produced < sticky.switch_at_bytes:
                return future
            if produced < sticky.force_switch_at_bytes and not is_nearly_full(appender.writer):
                return future
        self.end_stay(sticky, lane, snapshot)
        return future


class SendPath:
    """``send`` for the usual record; a subclass has ``_send_slowly`` and ``_send_serialized`` for others."""

    def _configure_send(
        self,
        *,
        usual: bool,
        wall_ms: Callable[[], int] | None,
        serializes_key: bool,
        serializes_value: bool,
        key_bytes: Callable[[str, Any, Any], bytes | None],
        value_bytes: Callable[[str, Any, Any], bytes | None],
        header_pairs: Callable[[str, Any], list[tuple[str, bytes | None]]],
        ignores_keys: bool,
        small_size: int,
        future_type: Any,
    ) -> None:
        """Say what the usual record is. Once, before ``_open_send``.

        Args:
            usual: ``False`` leaves every record to ``_send_slowly``.
            wall_ms: the clock; ``None`` is the operating system's.
            serializes_key, serializes_value: whether bytes, too, go through the functions that follow.
            key_bytes, value_bytes: (topic, header list, object) to bytes.
            header_pairs: (topic, headers) to the list that the serializers see.
            ignores_keys: keys do not decide on partitions.
            small_size: key, value and headers of so many bytes together cannot exceed any limit.
        """
        self.__usual = usual
        self.__wall_ms = wall_ms if wall_ms is not None else _system_wall_ms
        self.__serializes_key = serializes_key
        self.__serializes_value = serializes_value
        self.__key_bytes = key_bytes
        self.__value_bytes = value_bytes
        self.__header_pairs = header_pairs
        self.__ignores_keys = ignores_keys
        self.__small_size = small_size
        #: One attribute, so that no thread sees one without the other.
        self.__source: tuple[Any, Mapping[str, TopicLanes]] | None = None

    def _open_send(self, metadata: Any, topics: Mapping[str, Any]) -> None:
        """Send from now on: ``metadata.snapshot`` knows the topics, ``topics`` their ``TopicLanes``."""
        self.__source = (metadata, topics)

    def _close_send(self) -> None:
        """Leave every record to ``_send_slowly`` from now on."""
        self.__source = None

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: HeadersInput | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> FutureRecordMetadata:
        """Accept one record for delivery. Returns at once, unless metadata or memory has to be waited for.

        Either it raises, and then the record was not accepted and ``on_delivery`` is not called; or it
        returns a future, and then the record's fate is told once, by the future and by ``on_delivery``.
        (Differs from Kafka's Java client, which puts some errors that are known at once into the future:
        there they are easily lost.)

        Args:
            topic: topic name.
            value, key: for the serializers; without one: bytes-like, ``str`` (as UTF-8) or ``None`` (null).
            headers: (name, bytes, ``str`` or ``None``) pairs, or a mapping; names may repeat.
            partition: where to; ``None`` leaves it to the partitioner.
            timestamp_ms: milliseconds since the epoch; ``None`` means now.
            on_delivery: called on the I/O thread with ``(RecordMetadata, None)`` or, on failure, with
                ``(RecordMetadata, error)`` where the offset is -1. Must not block; what it raises is logged.

        Returns:
            A ``concurrent.futures.Future`` of ``RecordMetadata`` that can also be awaited.

        Raises:
            InvalidArgumentError: topic, partition or timestamp is none, or the callback cannot be called.
            SerializationError: key, value or a header cannot be turned into bytes.
            RecordTooLargeError: larger than ``max_request_size`` or ``buffer_memory``.
            MetadataTimeoutError: topic or partition did not become known within ``max_block_ms``.
            BufferExhaustedError: no memory came free within what was left of ``max_block_ms``.
            BrokerError: the topic's name is invalid, or this user may not see it.
            ProducerClosedError: the producer is closed.

        All of them say ``outcome=NOT_SENT``. Not for signal handlers and finalizers: one that interrupts
        ``send`` on its own thread while that makes a batch gets an IllegalStateError (with the pure kernel,
        at any time, it would wait for ever); let it set a flag.
        """
        source = self.__source
        lanes = source[1].get(topic) if source is not None and topic.__class__ is str else None
        if (
            source is None
            or lanes is None
            or not self.__usual
            or (on_delivery is not None and not callable(on_delivery))
        ):
            return self._send_slowly(topic, value, key, headers, partition, timestamp_ms, on_delivery)
        snapshot = source[0].snapshot
        topic_metadata = snapshot.topics.get(topic)
        if topic_metadata is None or (
            partition is not None
            and (partition.__class__ is not int or not 0 <= partition < len(topic_metadata.partitions))
        ):
            return self._send_slowly(topic, value, key, headers, partition, timestamp_ms, on_delivery)
        key_bytes = key
        value_bytes = value
        try:
            if headers is not None:
                headers = self.__header_pairs(topic, headers)
            if key is not None and (self.__serializes_key or key.__class__ is not bytes):
                headers = [] if headers is None else headers
                key_bytes = self.__key_bytes(topic, headers, key)
            if value is not None and (self.__serializes_value or value.__class__ is not bytes):
                headers = [] if headers is None else headers
                value_bytes = self.__value_bytes(topic, headers, value)
            now_ms = self.__wall_ms() if timestamp_ms is None else timestamp_ms
            size = len(key_bytes) if key_bytes is not None else 0
            if value_bytes is not None:
                size += len(value_bytes)
            if headers:
                size += headers_size_upper_bound(headers)
            future: FutureRecordMetadata | None = None
            if size <= self.__small_size and now_ms.__class__ is int and 0 <= now_ms <= INT64_MAX:
                if partition is not None or (key_bytes is not None and not self.__ignores_keys):
                    number = partition
                    if number is None:
                        number = (murmur2(key_bytes) & 0x7FFFFFFF) % len(topic_metadata.partitions)
                    lane = lanes.lanes[number] if number < len(lanes.lanes) else None
                    if lane is not None:
                        future = lane.append(now_ms, key_bytes, value_bytes, headers, on_delivery)
                else:
                    future = lanes.append_sticky(
                        now_ms, key_bytes, value_bytes, headers, on_delivery, snapshot
                    )
        except KafkaError as error:
            if error.outcome is None:
                error.outcome = Outcome.NOT_SENT
            raise
        if future is not None:
            return future
        # Not from the start: serializers are called once for each record.
        return self._send_serialized(
            topic, value, value_bytes, key, key_bytes, headers, partition, timestamp_ms, on_delivery, snapshot
        )

    if TYPE_CHECKING:

        def _send_slowly(
            self,
            topic: str,
            value: Any,
            key: Any,
            headers: HeadersInput | None,
            partition: int | None,
            timestamp_ms: int | None,
            on_delivery: DeliveryCallback | None,
        ) -> FutureRecordMetadata: ...

        def _send_serialized(
            self,
            topic: str,
            value: Any,
            value_bytes: bytes | None,
            key: Any,
            key_bytes: bytes | None,
            headers: Any,
            partition: int | None,
            timestamp_ms: int | None,
            on_delivery: DeliveryCallback | None,
            snapshot: Any,
        ) -> FutureRecordMetadata: ...


def _system_wall_ms() -> int:
    return time.time_ns() // 1_000_000

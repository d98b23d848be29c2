"""The values that an append to an open batch needs: the reference of ``native/_append.pyx``.

A topic's ``TopicSlots`` holds an ``AppendSlot`` for each partition, and that the ``RecordAppender`` of the
open batch, which encodes the record and makes its future. The compiled twin has a fast path over these
values, which takes no lock (see ``native/_append.pxd``). In plain Python there is none: the accumulator
appends every record under the partition's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kproducer.kernel.pure.batch_v2 import BatchWriter
from kproducer.kernel.pure.completion import BatchOutcome, Deliveries
from kproducer.types import Headers

if TYPE_CHECKING:
    from kproducer.accumulator.future_record_metadata import DeliveryCallback, FutureRecordMetadata
    from kproducer.runtime.arguments import HeadersInput


class RecordAppender:
    """Appends records to one batch and makes their futures.

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
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
        on_delivery: DeliveryCallback | None,
    ) -> FutureRecordMetadata | None:
        """Encode one record. The caller has checked the arguments.

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
            -1 if key is None else len(key),
            -1 if value is None else len(value),
        )
        if on_delivery is not None:
            self.deliveries.add(
                on_delivery, future._index, future._timestamp_ms, future._key_size, future._value_size
            )
        return future

    def future_for_last_record(
        self, timestamp_ms: int, key_size: int, value_size: int, on_delivery: DeliveryCallback | None
    ) -> FutureRecordMetadata:
        """The future of the record that the caller has just appended to ``writer`` directly.

        The appender is in no slot meanwhile, so that record is still the last one.
        """
        future: FutureRecordMetadata = self.future_type(
            self.owner, self.outcome, self.writer.record_count - 1, timestamp_ms, key_size, value_size
        )
        if on_delivery is not None:
            self.deliveries.add(
                on_delivery, future._index, future._timestamp_ms, future._key_size, future._value_size
            )
        return future


class AppendSlot:
    """Where compiled code finds the open batch of one partition. A plain value.

    Attributes:
        appender: of the open batch; ``None``: there is none, or compiled code must not append to it now.
        lock: the partition's; held by code that writes without the interpreter lock.
    """

    __slots__ = ("appender", "lock")

    def __init__(self, lock: Any) -> None:
        self.appender: RecordAppender | None = None
        self.lock = lock


class StickyPartition:
    """The partition that the built-in partitioner sends records to at present. A plain value.

    Attributes:
        partition: its number.
        produced_bytes: appended since it was chosen, before compression.
        switch_at_bytes: the next full batch from here on is the last one.
        force_switch_at_bytes: the limit, whether the batch is full or not.
        record_overhead_bytes: added to the size of each record's key and value.
    """

    __slots__ = (
        "force_switch_at_bytes",
        "partition",
        "produced_bytes",
        "record_overhead_bytes",
        "switch_at_bytes",
    )

    def __init__(self, partition: int, switch_at_bytes: int, record_overhead_bytes: int) -> None:
        self.partition = partition
        self.produced_bytes = 0
        self.switch_at_bytes = switch_at_bytes
        self.force_switch_at_bytes = 2 * switch_at_bytes
        self.record_overhead_bytes = record_overhead_bytes


class TopicSlots:
    """The slots of one topic. A plain value.

    Attributes:
        slots: ``AppendSlot`` by partition number; ``None`` where nothing was sent yet.
        sticky: the present ``StickyPartition``; ``None`` before the first one.
    """

    __slots__ = ("slots", "sticky")

    def __init__(self) -> None:
        self.slots: list[AppendSlot | None] = []
        self.sticky: StickyPartition | None = None


class SendPath:
    """``send``: every record goes to ``_send_slowly``, which a subclass has."""

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

    def _open_send(self, metadata: Any, topics: Mapping[str, Any]) -> None:
        """Send from now on: ``metadata.snapshot`` knows the topics, ``topics`` their ``TopicSlots``."""

    def _close_send(self) -> None:
        """Leave every record to ``_send_slowly`` from now on."""

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
        ``send`` on its own thread while that holds the partition's lock gets an IllegalStateError; let it set
        a flag.
        """
        return self._send_slowly(topic, value, key, headers, partition, timestamp_ms, on_delivery)

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

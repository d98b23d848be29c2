"""RecordCalls: what ``send`` does with one record: interceptors, serializers, partitioner, accumulator.

The usual record takes a shorter way, in the kernel (``SendPath.send``); whatever is unusual about it comes
here, and means the same. Knows no sockets and no requests. For callers' threads.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from kproducer.accumulator.future_record_metadata import DeliveryCallback, FutureRecordMetadata
from kproducer.engine.producer_engine import ProducerEngine
from kproducer.errors import InvalidArgumentError, KafkaError, Outcome, RecordTooLargeError
from kproducer.kernel import partition_for_key, record_size_upper_bound
from kproducer.runtime.arguments import (
    HeadersInput,
    checked_partition,
    checked_timestamp,
    encode_headers,
    headers_size_upper_bound,
)
from kproducer.runtime.clock import SystemClock
from kproducer.sending.interceptors import ProducerRecord
from kproducer.sending.partitioners import DefaultPartitioner, make_partitioner
from kproducer.sending.producer_lifecycle import ProducerLifecycle
from kproducer.sending.topic_wait import await_topic
from kproducer.serializers import TopicSerializer, serialize_function
from kproducer.types import INT64_MAX, UNKNOWN_PARTITION, RecordMetadata

if TYPE_CHECKING:
    from kproducer.client.metadata_snapshot import MetadataSnapshot

_Result = TypeVar("_Result")


#: Smaller records without headers cannot exceed a limit by their overhead: no exact sum is made for them.
_GENEROUS_OVERHEAD_BYTES = 128


class RecordCalls(ProducerLifecycle):
    """Takes records one by one."""

    def _set_up_sending(self) -> None:
        config, clock = self._config, self._clock
        # fixed after construction
        self._wall_ms = clock.wall_ms
        self._monotonic_ms = clock.monotonic_ms
        self._max_block_ms = config.max_block_ms
        self._is_transactional = bool(config.transactional_id)
        self._intercepts = self._interceptors.has_send_hooks or self._interceptors.has_acknowledgement_hooks
        self._serializes_key = config.key_serializer is not None
        self._serializes_value = config.value_serializer is not None
        self._serializers_see_data_alone = not any(
            isinstance(serializer, TopicSerializer)
            for serializer in (config.key_serializer, config.value_serializer)
        )
        self._key_bytes = serialize_function("key", config.key_serializer)
        self._value_bytes = serialize_function("value", config.value_serializer)
        self._size_limit = min(config.max_request_size, config.buffer_memory)
        self._small_size = self._size_limit - _GENEROUS_OVERHEAD_BYTES
        self._partition = make_partitioner(config.partitioner, ignore_keys=config.partitioner_ignore_keys)
        # The common case is decided on the way, without a call.
        self._hashes_keys = type(self._partition) is DefaultPartitioner
        self._ignores_keys = isinstance(self._partition, DefaultPartitioner) and self._partition.ignore_keys
        self._configure_send(
            usual=self._hashes_keys and not self._intercepts,
            wall_ms=None if type(clock) is SystemClock else clock.wall_ms,
            serializes_key=self._serializes_key,
            serializes_value=self._serializes_value,
            key_bytes=self._noted(self._key_bytes),
            value_bytes=self._noted(self._value_bytes),
            header_pairs=self._noted(encode_headers),
            ignores_keys=self._ignores_keys,
            small_size=self._small_size,
            future_type=FutureRecordMetadata,
        )

    # -- transactions ----------------------------------------------------------------------------------

    def _in_transaction(self, call: Callable[..., _Result], *arguments: Any) -> _Result:
        """Call only while a transaction is open. What is raised forbids the commit: the caller meant its
        records to be in the transaction."""
        manager = self._engine_on_first_use().transactions
        assert manager is not None
        manager.check_send()
        try:
            return call(*arguments)
        except BaseException as error:
            manager.send_failed(error if isinstance(error, KafkaError) else KafkaError(repr(error)))
            raise

    def _noted(self, convert: Callable[..., _Result]) -> Callable[..., _Result]:
        """The same for what the kernel calls by itself, as far as a transaction makes a difference."""
        if not self._is_transactional:
            return convert
        reference = weakref.ref(self)

        def convert_and_note(*arguments: Any) -> _Result:
            try:
                return convert(*arguments)
            except BaseException as error:
                producer = reference()
                engine = None if producer is None else producer._engine
                if engine is not None and engine.transactions is not None:
                    engine.transactions.send_failed(
                        error if isinstance(error, KafkaError) else KafkaError(repr(error))
                    )
                raise

        return convert_and_note

    # -- one record ------------------------------------------------------------------------------------

    # send() itself is the kernel's: see kernel.SendPath.

    def _send_slowly(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: HeadersInput | None,
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: DeliveryCallback | None,
    ) -> FutureRecordMetadata:
        """``send`` for any record; the kernel hands over those that are not the usual ones."""
        if on_delivery is not None and not callable(on_delivery):
            raise InvalidArgumentError(
                f"on_delivery must be a function of (metadata, error), not {type(on_delivery).__name__}"
            ).with_outcome(Outcome.NOT_SENT)
        try:
            send = self._send_intercepted if self._intercepts else self._send
            record = (topic, value, key, headers, partition, timestamp_ms, on_delivery)
            return self._in_transaction(send, *record) if self._is_transactional else send(*record)
        except KafkaError as error:
            if error.outcome is None:
                error.outcome = Outcome.NOT_SENT
            raise

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
        snapshot: MetadataSnapshot,
    ) -> FutureRecordMetadata:
        """``send`` for a record that has been through the serializers already."""
        record = (topic, value, value_bytes, key, key_bytes, headers, partition, timestamp_ms, on_delivery)
        try:
            if self._is_transactional:
                return self._in_transaction(self._accumulate, *record, snapshot)
            return self._accumulate(*record, snapshot)
        except KafkaError as error:
            if error.outcome is None:
                error.outcome = Outcome.NOT_SENT
            raise

    def _send(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: HeadersInput | None,
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: DeliveryCallback | None,
        is_serialized: bool = False,
    ) -> FutureRecordMetadata:
        engine = self._engine
        if engine is None:
            engine = self._engine_on_first_use()
        # Read only where it is needed: reading the clock for each record would be noticed.
        now_ms: int | None = None
        max_block_ms = self._max_block_ms
        snapshot = engine.metadata.snapshot
        topic_metadata = snapshot.topics.get(topic) if topic.__class__ is str else None
        if topic_metadata is None or (
            partition is not None
            and (partition.__class__ is not int or not 0 <= partition < len(topic_metadata.partitions))
        ):
            # Unknown so far, or not legal: the slow way finds out which.
            partition = checked_partition(partition)
            started_ms = self._monotonic_ms()
            snapshot = await_topic(engine, topic, partition, max_block_ms, started_ms)
            topic_metadata = snapshot.topics[topic]
            now_ms = self._monotonic_ms()
            max_block_ms = max(max_block_ms - (now_ms - started_ms), 0)

        if headers is not None:
            headers = encode_headers(topic, headers)
        key_bytes = key
        if key is not None and (key.__class__ is not bytes or (self._serializes_key and not is_serialized)):
            headers = [] if headers is None else headers
            key_bytes = self._key_bytes(topic, headers, key)
        value_bytes = value
        if value is not None and (
            value.__class__ is not bytes or (self._serializes_value and not is_serialized)
        ):
            headers = [] if headers is None else headers
            value_bytes = self._value_bytes(topic, headers, value)

        return self._accumulate(
            topic,
            value,
            value_bytes,
            key,
            key_bytes,
            headers,
            partition,
            timestamp_ms,
            on_delivery,
            snapshot,
            engine,
            max_block_ms,
            now_ms,
        )

    def _accumulate(
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
        snapshot: MetadataSnapshot,
        engine: ProducerEngine | None = None,
        max_block_ms: float | None = None,
        now_ms: int | None = None,
    ) -> FutureRecordMetadata:
        """Check what is left to check, choose the partition and append."""
        if engine is None:
            engine = self._engine or self._engine_on_first_use()
        if max_block_ms is None:
            max_block_ms = self._max_block_ms
        if timestamp_ms is None:
            timestamp_ms = self._wall_ms()
        elif timestamp_ms.__class__ is not int or not 0 <= timestamp_ms <= INT64_MAX:
            timestamp_ms = checked_timestamp(timestamp_ms)
        size = (0 if key_bytes is None else len(key_bytes)) + (0 if value_bytes is None else len(value_bytes))
        if headers:
            if self._serializes_key or self._serializes_value:
                headers = encode_headers(topic, headers)  # serializers may have appended anything
            size += headers_size_upper_bound(headers)
        if size > self._small_size:
            self._check_size(topic, key_bytes, value_bytes, headers)
        if partition is None:
            if not self._hashes_keys:
                partition = self._custom_partition(topic, key, key_bytes, value, value_bytes, snapshot)
            elif key_bytes is None or self._ignores_keys:
                partition = UNKNOWN_PARTITION
            else:
                # As DefaultPartitioner does, without the call.
                partition = partition_for_key(key_bytes, len(snapshot.topics[topic].partitions))

        future, wake_sender = engine.accumulator.append(
            topic,
            partition,
            timestamp_ms,
            key_bytes,
            value_bytes,
            headers or None,
            on_delivery,
            max_block_ms,
            now_ms,
            snapshot,
        )
        if wake_sender:
            engine.sender.wakeup()
        return future

    def _send_intercepted(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: HeadersInput | None,
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: DeliveryCallback | None,
    ) -> FutureRecordMetadata:
        """Like ``_send``, with the hooks around it. A send that raises is acknowledged to them as failed."""
        interceptors = self._interceptors
        record = ProducerRecord(topic, value, key, headers, partition, timestamp_ms)
        record = interceptors.on_send(record)

        def acknowledge(metadata: RecordMetadata, error: KafkaError | None) -> None:
            try:
                interceptors.on_acknowledgement(metadata, error)
            finally:  # also when a hook raises SystemExit or the like: the record's own callback comes
                if on_delivery is not None:
                    on_delivery(metadata, error)

        try:
            return self._send(*record, acknowledge)
        except Exception as error:
            partition = -1 if record.partition is None else record.partition
            timestamp = -1 if record.timestamp_ms is None else record.timestamp_ms
            interceptors.on_acknowledgement(
                RecordMetadata(record.topic, partition, -1, timestamp, -1, -1), error
            )
            raise

    def _custom_partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        snapshot: MetadataSnapshot,
    ) -> int:
        """Ask the partitioner, but do not trust it blindly: a partition that is none would never be sent."""
        chosen = self._partition(topic, key, key_bytes, value, value_bytes, snapshot)
        count = len(snapshot.topics[topic].partitions)
        try:
            number = operator.index(chosen)
        except TypeError:
            number = count
        if not UNKNOWN_PARTITION <= number < count:
            raise InvalidArgumentError(
                f"the partitioner chose {chosen!r} for topic {topic!r}, which has partitions 0 to {count - 1}"
            )
        return number

    def _check_size(self, topic: str, key: bytes | None, value: bytes | None, headers: Any) -> None:
        size = record_size_upper_bound(key, value, headers or None)
        if size > self._size_limit:
            config = self._config
            limit = "max_request_size" if config.max_request_size <= config.buffer_memory else "buffer_memory"
            raise RecordTooLargeError(
                f"a record for topic {topic!r} takes up to {size} bytes, more than {limit}={self._size_limit}"
            )

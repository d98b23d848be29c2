"""RecordSender: the general path of one record, from the arguments of ``send`` to the accumulator.

Interceptors, serializers, partitioner and size check run here, on the caller's thread. The compiled kernel's
``FastSend`` handles simple records before they get here, and means the same; it declines all others. Knows no
sockets and no requests. Source: Kafka class ``KafkaProducer`` (doSend).
"""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import partial
from typing import Any

from kproducer.accumulator.future_record_metadata import DeliveryCallback, FutureRecordMetadata
from kproducer.engine.engine_lifecycle import EngineLifecycle
from kproducer.errors import InvalidArgumentError, KafkaError, Outcome, RecordTooLargeError
from kproducer.errors.internal_errors import PreparationNeededError, TopicNeededError, WouldWaitError
from kproducer.kernel import IMPLEMENTATION, FastSend, partition_for_key, record_size_upper_bound
from kproducer.runtime.arguments import (
    check_callback,
    checked_partition,
    checked_timestamp,
    encode_headers,
    headers_size_upper_bound,
    whole_number,
)
from kproducer.sending.interceptors import ProducerInterceptors, ProducerRecord
from kproducer.sending.partitioners import (
    default_partitioner,
    make_partitioner,
    uniform_sticky_partitioner,
)
from kproducer.sending.topic_wait import await_topic
from kproducer.serializers import (
    Preparation,
    TopicSerializer,
    preparation_of,
    serialize_function,
    serializer_for_field,
)
from kproducer.transactions.transaction_state import OpenTransaction
from kproducer.types import INT64_MAX, UNKNOWN_PARTITION, RecordMetadata

#: More than a record adds to its key, value and headers.
_GENEROUS_OVERHEAD_BYTES = 128


class RecordSender:
    """Takes records one by one. Thread-safe.

    Args:
        lifecycle: has the settings, the clock and the running engine.
        interceptors: called around each record.
        fast_send: the compiled fast path of the same producer; configured here, opened and closed by the
            lifecycle.

    Attributes:
        uses_default_partitioner: the kernel can choose partitions as the configured partitioner does.
        ignores_keys: keys do not choose partitions.
        has_fast_path: the kernel may write records; ``False``: every record needs all of ``send``, because of
            interceptors, a partitioner of the application, or serializers that look at more than their datum.
        serializes_key, serializes_value: a serializer is configured.
        runs_application_code: ``send`` may call interceptors, serializers or the application's partitioner.
        key_bytes, value_bytes: from (topic, headers, key or value) to bytes.
        small_size: key, value and headers that together are not larger need no exact check of their size.
        interceptors: as given.
        size_limit, size_setting: bytes that a record may have, and the setting that limits them.
    """

    def __init__(
        self, lifecycle: EngineLifecycle, interceptors: ProducerInterceptors, fast_send: FastSend
    ) -> None:
        # Fixed after construction.
        config = lifecycle.config
        self._wall_ns = lifecycle.clock.wall_ns
        self._lifecycle = lifecycle
        self._max_block_ms = config.max_block_ms
        self.interceptors = interceptors
        self._intercepts = bool(interceptors)
        self._needs_checks = bool(config.transactional_id) or self._intercepts
        self.serializes_key = config.key_serializer is not None
        self.serializes_value = config.value_serializer is not None
        key_serializer = serializer_for_field("key", config.key_serializer)
        value_serializer = serializer_for_field("value", config.value_serializer)
        self.key_bytes = serialize_function("key", key_serializer)
        self.value_bytes = serialize_function("value", value_serializer)
        #: Of the key and of the value; ``None``: the serializer does not block.
        self._preparations = (
            preparation_of("key", key_serializer),
            preparation_of("value", value_serializer),
        )
        self._may_need_preparation = self._preparations != (None, None)
        #: Code object of the last accepted callback. Any thread; a lost update costs another check.
        self._accepted_code: Any = None
        self.size_limit, self.size_setting = config.max_request_size, "max_request_size"
        if config.buffer_memory < config.max_request_size:
            self.size_limit, self.size_setting = config.buffer_memory, "buffer_memory"
        self.small_size = self.size_limit - _GENEROUS_OVERHEAD_BYTES
        # What the application's returns is checked.
        self._partitioner: Any = make_partitioner(
            config.partitioner, ignore_keys=config.partitioner_ignore_keys
        )
        # The default partitioners are applied without a call.
        self.ignores_keys = self._partitioner is uniform_sticky_partitioner
        self.uses_default_partitioner = self.ignores_keys or self._partitioner is default_partitioner
        self.runs_application_code = (
            self._intercepts
            or self.serializes_key
            or self.serializes_value
            or not self.uses_default_partitioner
        )
        uses_fast_send = self.uses_default_partitioner and not self._intercepts
        needs_topics = any(
            isinstance(each, TopicSerializer) for each in (config.key_serializer, config.value_serializer)
        )
        self.has_fast_path = uses_fast_send and not needs_topics
        # The pure kernel's declines every record.
        self._fast_send = fast_send if uses_fast_send and IMPLEMENTATION == "native" else None
        fast_send.configure(
            takes_arguments=uses_fast_send and not self.serializes_key and not self.serializes_value,
            ignores_keys=self.ignores_keys,
            small_size=self.small_size,
        )

    def send(
        self,
        topic: Any,
        value: Any,
        key: Any,
        headers: Any,
        partition: Any,
        timestamp_ms: Any,
        on_delivery: Any,
        is_serialized: bool = False,
        is_checked: bool = False,
        transaction: OpenTransaction | None = None,
        is_prepared: bool = False,
        held_topics: Container[object] | None = None,
    ) -> FutureRecordMetadata:
        """See ``KafkaProducer.send``. One function, because with the pure kernel every record takes it.

        Args:
            topic, value, key, headers, partition, timestamp_ms, on_delivery: the application's, unchecked.
            is_serialized: key and value have been through the serializers; interceptors have seen the record.
            is_checked: the transaction was checked, and the interceptors were called.
            transaction: the one to which the record belongs; ``None``: the producer has none.
            is_prepared: the serializers were prepared for this record.
            held_topics: ``None``: the call may wait. Otherwise it does not wait, and these topics and (topic,
                partition) pairs count as unknown, because earlier records wait for them.

        Raises:
            WouldWaitError: it would have to wait, and ``held_topics`` is given.
        """
        try:
            if on_delivery is not None and not is_checked:
                # Lambdas and methods are created per record; their code is not.
                code = getattr(on_delivery, "__code__", None)
                if code is None or code is not self._accepted_code:
                    check_callback(on_delivery)
                    self._accepted_code = code
                    if code is not None and self._fast_send is not None:
                        self._fast_send.accept_callbacks_of(code)
            if self._needs_checks and not is_checked:
                record = ProducerRecord(topic, value, key, headers, partition, timestamp_ms)
                return self._send_checked(record, on_delivery, is_serialized, held_topics)
            lifecycle = self._lifecycle
            engine = lifecycle.engine
            if engine is None or lifecycle.is_closed:
                engine = lifecycle.running_engine()
            # None: the accumulator reads the clock where it needs the time, which is once per batch.
            now_ms: int | None = None
            max_block_ms = float(self._max_block_ms)
            snapshot = engine.metadata.snapshot
            topic_metadata = snapshot.topics.get(topic) if topic.__class__ is str else None
            partition_count = 0 if topic_metadata is None else len(topic_metadata.partitions)
            if (
                not partition_count
                or (
                    partition is not None
                    and (partition.__class__ is not int or not 0 <= partition < partition_count)
                )
                or (held_topics and (topic in held_topics or (topic, partition) in held_topics))
            ):
                # Unknown so far, or not legal: the wait finds out which.
                partition = checked_partition(partition)
                if held_topics is None:
                    started_ms = engine.clock.monotonic_ms()
                    snapshot = await_topic(engine, topic, partition)
                    partition_count = len(snapshot.topics[topic].partitions)
                    now_ms = engine.clock.monotonic_ms()
                    max_block_ms = max(max_block_ms - (now_ms - started_ms), 0)
                elif (
                    (partition or 0) >= partition_count
                    or topic in held_topics
                    or (topic, partition) in held_topics
                ):
                    rest = (topic, value, key, headers, partition, timestamp_ms, on_delivery, is_serialized)
                    resume = partial(self.send, *rest, True, transaction, is_prepared)
                    raise TopicNeededError(topic, partition, resume)
            if self._may_need_preparation and held_topics is not None and not is_prepared:
                prepare = self._needed_preparation(topic, key, value)
                if prepare is not None:
                    rest = (topic, value, key, headers, partition, timestamp_ms, on_delivery, is_serialized)
                    resume = partial(self.send, *rest, True, transaction, True)
                    raise PreparationNeededError(topic, prepare, resume)

            if headers is not None:
                headers = encode_headers(topic, headers)
            key_bytes = key
            if key is not None and (
                key.__class__ is not bytes or (self.serializes_key and not is_serialized)
            ):
                headers = [] if headers is None else headers
                key_bytes = self.key_bytes(topic, headers, key)
            value_bytes = value
            if value is not None and (
                value.__class__ is not bytes or (self.serializes_value and not is_serialized)
            ):
                headers = [] if headers is None else headers
                value_bytes = self.value_bytes(topic, headers, value)

            if headers and (self.serializes_key or self.serializes_value):
                headers = encode_headers(topic, headers)  # serializers may have appended anything

            if transaction is not None and engine.transaction_lifecycle is not None:
                # The waits and the serializers may have taken long.
                engine.transaction_lifecycle.check_send(transaction)
            if self._fast_send is not None and now_ms is None:
                future: FutureRecordMetadata | None = self._fast_send.try_send(
                    topic, value_bytes, key_bytes, headers, partition, timestamp_ms, on_delivery
                )
                if future is not None:
                    return future
            if timestamp_ms is None:
                timestamp_ms = self._wall_ns() // 1_000_000
            elif timestamp_ms.__class__ is not int or not 0 <= timestamp_ms <= INT64_MAX:
                timestamp_ms = checked_timestamp(timestamp_ms)
            size = len(key_bytes or b"") + len(value_bytes or b"")
            if headers:
                size += headers_size_upper_bound(headers)
            if size > self.small_size:
                self._check_size(topic, key_bytes, value_bytes, headers)
            if partition is None:
                if not self.uses_default_partitioner:
                    chosen = self._partitioner(topic, key, key_bytes, value, value_bytes, snapshot)
                    partition = _checked_choice(chosen, topic, partition_count)
                elif key_bytes is None or self.ignores_keys:
                    partition = UNKNOWN_PARTITION
                else:
                    partition = partition_for_key(key_bytes, partition_count)
            accepted, wake_sender = engine.accumulator.append(
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
                held_topics is None,
            )
            if wake_sender:
                engine.sender.wakeup()
            return accepted
        except KafkaError as error:
            if error.outcome is None:
                error.outcome = Outcome.NOT_SENT
            raise

    def _needed_preparation(self, topic: str, key: Any, value: Any) -> Callable[[], None] | None:
        """What prepares the serializers for a record; ``None``: they would not block."""
        of_key, of_value = self._preparations
        needed: list[Preparation] = []
        if of_key is not None and key is not None and not of_key.is_prepared(topic):
            needed.append(of_key)
        if of_value is not None and value is not None and not of_value.is_prepared(topic):
            needed.append(of_value)
        if not needed:
            return None

        def prepare() -> None:
            for each in needed:
                each.prepare(topic)

        return prepare

    def send_serialized(
        self, topic: str, value: Any, key: Any, headers: Any, partition: Any, timestamp_ms: Any
    ) -> FutureRecordMetadata:
        """``send`` for a row of ``send_many`` whose key and value are serialized already."""
        return self.send(topic, value, key, headers, partition, timestamp_ms, None, True)

    def _send_checked(
        self,
        record: ProducerRecord,
        on_delivery: DeliveryCallback | None,
        is_serialized: bool,
        held_topics: Container[object] | None,
    ) -> FutureRecordMetadata:
        """With a transactional id, refuse a record outside a transaction. Call the interceptors.

        An error forbids the commit: the caller meant the record to be part of the transaction.
        """
        transaction_lifecycle = self._lifecycle.running_engine().transaction_lifecycle
        transaction = None if transaction_lifecycle is None else transaction_lifecycle.check_send()
        try:
            if self._intercepts and not is_serialized:
                return self._send_intercepted(record, on_delivery, transaction, held_topics)
            return self.send(*record, on_delivery, is_serialized, True, transaction, False, held_topics)
        except WouldWaitError as wait:
            wait.on_failure.append(partial(self.note_refusal, transaction=transaction))
            raise
        except BaseException as error:
            self.note_refusal(error, transaction)
            raise

    def note_refusal(self, error: BaseException, transaction: OpenTransaction | None = None) -> None:
        """A record was refused: its transaction must not be committed without it."""
        engine = self._lifecycle.engine
        if engine is not None and engine.transaction_lifecycle is not None:
            engine.transaction_lifecycle.send_failed(
                error if isinstance(error, KafkaError) else KafkaError(repr(error)), transaction
            )

    def _send_intercepted(
        self,
        record: ProducerRecord,
        on_delivery: DeliveryCallback | None,
        transaction: OpenTransaction | None,
        held_topics: Container[object] | None,
    ) -> FutureRecordMetadata:
        """Send with the hooks around it. If it raises, the hooks get the error."""
        interceptors = self.interceptors
        record = interceptors.on_send(record)

        def acknowledge(metadata: RecordMetadata, error: KafkaError | None) -> None:
            try:
                interceptors.on_acknowledgement(metadata, error)
            finally:  # also when a hook raises SystemExit or the like: the record's own callback follows
                if on_delivery is not None:
                    on_delivery(metadata, error)

        def refuse(error: BaseException) -> None:
            # The application's, of any type.
            given: Any = record
            partition = -1 if given.partition is None else given.partition
            timestamp = -1 if given.timestamp_ms is None else given.timestamp_ms
            metadata = RecordMetadata(given.topic, partition, -1, timestamp, -1, -1)
            interceptors.on_acknowledgement(metadata, error)  # type: ignore[arg-type]  # see the callers

        try:
            return self.send(*record, acknowledge, False, True, transaction, False, held_topics)
        except WouldWaitError as wait:
            wait.on_failure.append(refuse)
            raise
        except Exception as error:
            refuse(error)
            raise

    def _check_size(self, topic: str, key: bytes | None, value: bytes | None, headers: Any) -> None:
        size = record_size_upper_bound(key, value, headers or None)
        if size > self.size_limit:
            raise RecordTooLargeError(
                f"a record for topic {topic!r} takes up to {size} bytes, more than "
                f"{self.size_setting}={self.size_limit}"
            )


def _checked_choice(chosen: Any, topic: str, partition_count: int) -> int:
    """What a partitioner has chosen. A record for a partition that does not exist would never be sent."""
    number = whole_number(chosen, UNKNOWN_PARTITION, partition_count - 1)
    if number is None:
        raise InvalidArgumentError(
            f"the partitioner chose {chosen!r} for topic {topic!r}, which has partitions 0 to "
            f"{partition_count - 1}"
        )
    return number

"""KafkaProducer: the application's face. Interceptors, serializers and partitioners run here, on its thread.

``send`` ends in ``RecordAccumulator.append``; everything after that is the I/O thread's. Knows no sockets and
no requests. Source: Kafka class ``KafkaProducer``; KIP-42 (interceptors), KIP-679 (defaults).
"""

from __future__ import annotations

import itertools
import logging
import operator
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

import attrs

from kproducer import process_lifecycle
from kproducer.clock import Clock, SystemClock
from kproducer.config import ProducerConfig
from kproducer.errors import (
    CloseTimeoutError,
    IllegalStateError,
    InvalidArgumentError,
    KafkaError,
    KafkaTimeoutError,
    Outcome,
    ProducerClosedError,
    RecordTooLargeError,
)
from kproducer.kernel import Lane, SendPath, TopicLanes, murmur2, record_size_upper_bound
from kproducer.method_suggestions import PRODUCER_METHODS, no_such_attribute
from kproducer.producer.buffer_pool import BufferPool
from kproducer.producer.future_record_metadata import DeliveryCallback, FutureRecordMetadata
from kproducer.producer.interceptors import ProducerInterceptors, ProducerRecord
from kproducer.producer.metrics import ProducerMetrics
from kproducer.producer.partition_queues import TopicQueues
from kproducer.producer.partitioners import UNKNOWN_PARTITION, DefaultPartitioner, make_partitioner
from kproducer.producer.record_accumulator import RecordAccumulator
from kproducer.producer.send_many import SendManyCall, SendManyProducer
from kproducer.producer.send_many_input import SendManyInput
from kproducer.producer.send_many_result import SendManyResult
from kproducer.producer.topic_wait import await_topic
from kproducer.producer_engine import ProducerEngine
from kproducer.send_arguments import (
    HeadersInput,
    checked_partition,
    checked_timeout_s,
    checked_timestamp,
    encode_headers,
    headers_size_upper_bound,
)
from kproducer.serializers import TopicSerializer, serialize_function
from kproducer.transactional_calls import TransactionalCalls
from kproducer.types import PartitionInfo, RecordMetadata

if TYPE_CHECKING:
    from typing_extensions import Self

    from kproducer.client.metadata_snapshot import MetadataSnapshot
    from kproducer.producer.arrow_columns import ArrowColumns
    from kproducer.producer.send_arrow import ArrowProducer, ArrowSink

_log = logging.getLogger(__name__)

_client_numbers = itertools.count(1)
_INT64_MAX = 2**63 - 1

#: Smaller records without headers cannot exceed a limit by their overhead: no exact sum is made for them.
_GENEROUS_OVERHEAD_BYTES = 128


class KafkaProducer(SendPath, TransactionalCalls):
    """Sends records to a Kafka cluster. Thread-safe: one producer serves a whole process.

    Args:
        bootstrap_servers: ``"host:port,host:port"`` or a list of ``"host:port"``.
        settings: any other attribute of ``ProducerConfig``; names are Kafka's with ``_`` for ``.``.

    Raises:
        ConfigError: a setting is unknown, out of range or contradicts another; nothing is left running.

    In a forked child the producer starts afresh on first use; records accepted before the fork stay the
    parent's, and their futures fail in the child. When the interpreter ends, or the producer is
    garbage-collected, accepted records are still delivered (for up to ``delivery_timeout_ms``), but
    ``close`` or a ``with`` block is better: they report losses.
    """

    def __init__(self, bootstrap_servers: str | Iterable[str] | None = None, **settings: Any) -> None:
        if bootstrap_servers is not None:
            settings["bootstrap_servers"] = bootstrap_servers
        self._start(ProducerConfig.from_keywords(settings), SystemClock())

    @classmethod
    def from_config(cls, settings: ProducerConfig | Mapping[str, Any]) -> Self:
        """Make a producer from Kafka's dotted names, such as ``{"bootstrap.servers": "host:9092"}``.

        Texts are accepted for numbers and booleans, as configuration files have them.

        Raises:
            ConfigError: as the constructor does.
        """
        config = settings if isinstance(settings, ProducerConfig) else ProducerConfig.from_dotted(settings)
        producer = cls.__new__(cls)
        producer._start(config, SystemClock())
        return producer

    def _start(self, config: ProducerConfig, clock: Clock) -> None:
        # fixed after construction
        if not config.client_id:
            config = attrs.evolve(config, client_id=f"kproducer-{next(_client_numbers)}")
        self._config = config
        self._clock = clock
        self._wall_ms = clock.wall_ms
        self._monotonic_ms = clock.monotonic_ms
        self._max_block_ms = config.max_block_ms
        self._interceptors = ProducerInterceptors(config.interceptors)
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
        # guarded by _lifecycle_lock; read without it
        self._lifecycle_lock = threading.Lock()
        self._closed = False
        #: None while closed, and after a fork until the first use.
        self._engine: ProducerEngine | None = None
        self._last_engine: ProducerEngine | None = None
        self._finalizer: weakref.finalize[..., Any] | None = None
        try:
            self._partition = make_partitioner(config.partitioner, ignore_keys=config.partitioner_ignore_keys)
            # The common case is decided on the way, without a call.
            self._hashes_keys = type(self._partition) is DefaultPartitioner
            self._ignores_keys = (
                isinstance(self._partition, DefaultPartitioner) and self._partition.ignore_keys
            )
            self._configure_send(
                usual=self._hashes_keys and not self._intercepts and not config.transactional_id,
                wall_ms=None if type(clock) is SystemClock else clock.wall_ms,
                serializes_key=self._serializes_key,
                serializes_value=self._serializes_value,
                key_bytes=self._key_bytes,
                value_bytes=self._value_bytes,
                header_pairs=encode_headers,
                ignores_keys=self._ignores_keys,
                small_size=self._small_size,
            )
            self._run_engine()
        except BaseException:
            self._close_user_objects()
            raise
        process_lifecycle.register(self)

    # -- sending ---------------------------------------------------------------------------------------

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
            if self._config.transactional_id:
                return self._send_in_transaction(
                    topic, value, key, headers, partition, timestamp_ms, on_delivery
                )
            if self._intercepts:
                return self._send_intercepted(
                    topic, value, key, headers, partition, timestamp_ms, on_delivery
                )
            return self._send(topic, value, key, headers, partition, timestamp_ms, on_delivery)
        except KafkaError as error:
            if error.outcome is None:
                error.outcome = Outcome.NOT_SENT
            raise

    def _send_in_transaction(self, topic: str, *record: Any) -> FutureRecordMetadata:
        """What is raised here forbids the commit: the caller meant the record to be in the transaction."""
        manager = self._engine_on_first_use().transactions
        assert manager is not None
        manager.check_send()
        try:
            send = self._send_intercepted if self._intercepts else self._send
            return send(topic, *record)
        except BaseException as error:
            manager.send_failed(error if isinstance(error, KafkaError) else KafkaError(repr(error)))
            raise

    def _accept_many(self, run: Callable[..., SendManyResult], *data: Any) -> SendManyResult:
        """Run a bulk call; in a transaction, what it refuses forbids the commit, as with ``send``."""
        if not self._config.transactional_id:
            return run(*data)
        manager = self._engine_on_first_use().transactions
        assert manager is not None
        manager.check_send()
        try:
            result = run(*data)
        except BaseException as error:
            manager.send_failed(error if isinstance(error, KafkaError) else KafkaError(repr(error)))
            raise
        if result.failed_count:
            manager.send_failed(KafkaError(f"{result.failed_count} records of a bulk call were refused"))
        return result

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
        try:
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
            )
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
        elif timestamp_ms.__class__ is not int or not 0 <= timestamp_ms <= _INT64_MAX:
            timestamp_ms = checked_timestamp(timestamp_ms)
        size = (0 if key_bytes is None else len(key_bytes)) + (0 if value_bytes is None else len(value_bytes))
        if headers:
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
                partition = (murmur2(key_bytes) & 0x7FFFFFFF) % len(snapshot.topics[topic].partitions)

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

    def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        keys: Iterable[Any] | None = None,
        headers: Iterable[HeadersInput | None] | None = None,
        partitions: Iterable[int | None] | int | None = None,
        timestamps_ms: Iterable[int | None] | int | None = None,
    ) -> SendManyResult:
        """Accept many records for one topic; each is treated as ``send`` would treat it.

        Args:
            topic: topic name.
            values: lists are fastest; generators are sent on as they yield.
            keys, headers, partitions, timestamps_ms: one entry for each value, or ``None``. One number is
                the partition or time of all; for one key or set of headers pass ``itertools.repeat(it)``.

        Returns:
            What becomes of every record. One that is refused here (too large, wrong type) is in there as
            failed, and the others go on. When a record has waited in vain for memory (``max_block_ms``), or
            the producer is closed meanwhile, it and all after it are refused.

        Raises:
            InvalidArgumentError: an argument is no column, or the columns are not of one length.
            MetadataTimeoutError, BrokerError, ProducerClosedError: as ``send`` does, before the first record.
            BufferExhaustedError, ProducerClosedError: later, if nothing tells how many records are left.
            Exception: what the iterators raise.

        Whatever is raised once records were accepted, Ctrl-C too, has their result as ``partial_result``.
        """
        rows = SendManyInput(values, keys, headers, partitions, timestamps_ms, self._clock)
        engine = self._engine or self._engine_on_first_use()
        is_usual = self._serializers_see_data_alone and self._hashes_keys and not self._intercepts
        producer = SendManyProducer(
            self if is_usual else None,
            self.send,
            self._send_serialized_row,
            self._key_bytes if self._serializes_key else None,
            self._value_bytes if self._serializes_value else None,
            engine,
            self._max_block_ms,
            self._interceptors.has_send_hooks,
        )
        return self._accept_many(SendManyCall(producer, topic, rows).run)

    def send_arrow(
        self,
        topic: str | None,
        data: Any,
        *,
        value: str | None = None,
        key: str | None = None,
        headers: str | None = None,
        partition: str | int | None = None,
        timestamp: str | int | None = None,
        topic_column: str | None = None,
    ) -> SendManyResult:
        """Accept the rows of Arrow data; each is treated as ``send`` would treat it, at a tenth of the price.

        Args:
            topic: topic name; ``None``: ``topic_column`` says.
            data: anything with the Arrow PyCapsule interface (tables and batches of pyarrow, polars, pandas
                and DuckDB), or an iterable of such. An array that is no struct is a column of values.
            value: the column of values; ``None``: the one named ``value``, or the only one. Strings (as
                UTF-8) or binary of any kind, dictionary-encoded too; null is a tombstone.
            key: a column likewise, for partitioning; null: no key.
            headers: a column of list<struct<key: string, value: binary>> or map<string, binary>.
            partition: a column of integers, or one number for all rows; null leaves it to the partitioner.
            timestamp: a column of timestamps, or of int64 milliseconds since the epoch, or one number of them
                for all rows; null means now.
            topic_column: a column of topic names.

        Returns:
            What becomes of every row, as ``send_many`` does. A row that cannot be sent (too large, no such
            partition, a time before 1970) is in there as failed, and the others go on. Rows with the same
            key or the same partition number stay in order.

        Raises:
            InvalidArgumentError: a column is missing, or of a type that cannot be what it is named for;
                serializers or interceptors are set, which see objects; the data are no Arrow data.
            MetadataTimeoutError, BrokerError, ProducerClosedError: as ``send`` does, before the first row.
            BufferExhaustedError, ProducerClosedError: later, when more data may be left in a stream.
            Exception: what an iterable raises.

        Whatever is raised once rows were accepted, Ctrl-C too, has their result as ``partial_result``.
        """
        from kproducer.producer.arrow_columns import ArrowColumns
        from kproducer.producer.send_arrow import SendArrowCall

        try:
            columns = ArrowColumns.checked(topic, value, key, headers, partition, timestamp, topic_column)
            call = SendArrowCall(self._arrow_producer("send_arrow()"), columns, topic)
        except KafkaError as error:
            if error.outcome is None:
                error.outcome = Outcome.NOT_SENT
            raise
        return self._accept_many(call.run, data)

    def arrow_sink(self, topic: str | None, columns: ArrowColumns) -> ArrowSink:
        """A sender of one Arrow batch after another that keeps nothing for each row. Not for applications."""
        from kproducer.producer.send_arrow import ArrowSink

        return ArrowSink(self._arrow_producer("arrow_sink()"), columns, topic)

    def _arrow_producer(self, call: str) -> ArrowProducer:
        from kproducer.producer.send_arrow import ArrowProducer

        for is_set, what in (
            (self._serializes_value, "value_serializer"),
            (self._serializes_key, "key_serializer"),
            (self._intercepts, "interceptors"),
        ):
            if is_set:
                raise InvalidArgumentError(
                    f"{call} writes columns as they are, and {what} would have to see each row as an object: "
                    "use send_many(), or a producer without"
                )
        config = self._config
        engine = self._engine or self._engine_on_first_use()
        return ArrowProducer(
            send_one=self.send,
            source=engine,
            lanes_of=engine.accumulator.lanes_of,
            max_block_ms=self._max_block_ms,
            size_limit=self._size_limit,
            size_setting=(
                "max_request_size" if config.max_request_size <= config.buffer_memory else "buffer_memory"
            ),
            uses_lanes=self._hashes_keys,
            hashes_keys=self._hashes_keys and not self._ignores_keys,
            wall_ms=self._wall_ms,
        )

    def _send_serialized_row(
        self, topic: str, value: Any, key: Any, headers: Any, partition: Any, timestamp_ms: Any
    ) -> FutureRecordMetadata:
        """``send`` for a row of ``send_many`` whose key and value have been through the serializers."""
        try:
            return self._send(topic, value, key, headers, partition, timestamp_ms, None, is_serialized=True)
        except KafkaError as error:
            if error.outcome is None:
                error.outcome = Outcome.NOT_SENT
            raise

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

    # -- everything else -------------------------------------------------------------------------------

    def flush(self, timeout: float | None = None) -> None:
        """Send at once what was accepted before this call, and wait until its fate is known.

        Failures are not raised here; the futures have them.

        Args:
            timeout: seconds; ``None`` waits as long as ``delivery_timeout_ms`` lets it take.

        Raises:
            KafkaTimeoutError: not done within ``timeout``; the records are still on their way.
            IllegalStateError: called from a delivery callback, or by a signal handler in the middle of
                ``send``, where it would wait for itself.
            InvalidArgumentError: ``timeout`` is no number.
            ProducerClosedError: the producer is closed.
        """
        # Checked first: once begun, a flush has to be ended too.
        timeout_s = checked_timeout_s("flush", timeout)
        engine = self._engine_on_first_use()
        if engine.is_io_thread:
            raise IllegalStateError("flush() in a delivery callback would wait for itself")
        _refuse_in_the_middle_of_send("flush", engine.accumulator)
        engine.accumulator.begin_flush()
        engine.sender.wakeup()
        timeout_ms = None if timeout_s is None else timeout_s * 1000
        if not engine.accumulator.await_flush_completion(timeout_ms):
            count = engine.accumulator.incomplete_record_count
            causes = engine.last_errors()
            raise KafkaTimeoutError(
                f"flush({timeout}): {count} records are not acknowledged yet{f'; {causes}' if causes else ''}"
            )

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic, by number; waits for metadata up to ``max_block_ms``.

        Raises:
            MetadataTimeoutError, BrokerError, InvalidArgumentError, ProducerClosedError: as ``send`` does.
        """
        engine = self._engine_on_first_use()
        snapshot = await_topic(engine, topic, None, self._max_block_ms, self._monotonic_ms())
        return [
            PartitionInfo(
                topic,
                partition.partition,
                snapshot.nodes.get(partition.leader_id),
                partition.replicas,
                partition.isr,
                partition.offline,
            )
            for partition in snapshot.topics[topic].partitions
        ]

    def metrics(self) -> dict[str, Any]:
        """What the producer did and is doing now. ``kproducer.METRICS`` has each name's unit and meaning."""
        engine = self._engine or self._last_engine
        if engine is None:
            return dict(ProducerMetrics().snapshot())
        values: dict[str, Any] = dict(engine.sender.metrics.snapshot())
        updated_ms = engine.metadata.last_successful_update_ms
        values["buffer_available_bytes"] = engine.pool.available_bytes
        values["buffer_total_bytes"] = self._config.buffer_memory
        values["incomplete_batches"] = engine.accumulator.incomplete_count
        values["metadata_age_ms"] = -1 if updated_ms is None else self._monotonic_ms() - updated_ms
        values["negotiated_versions"] = {
            node_id: {api.name: version for api, version in versions.items()}
            for node_id, versions in engine.client.negotiated_versions().items()
        }
        values["requests_in_flight"] = engine.client.in_flight_request_count()
        return values

    @property
    def config(self) -> ProducerConfig:
        """The settings in force."""
        return self._config

    def close(self, timeout: float | None = None) -> None:
        """Deliver what was accepted, then stop. Idempotent; blocks for at most ``timeout``, and a little.

        Args:
            timeout: seconds; ``None`` waits until everything is delivered or has failed, which takes at most
                about ``delivery_timeout_ms``; 0 gives up at once what is not acknowledged.

        Raises:
            CloseTimeoutError: ``timeout`` (above 0) passed; says how many records were given up. Their
                futures fail with ``ProducerClosedError``. The producer is closed all the same.
            InvalidArgumentError: ``timeout`` is no number; then nothing is closed.
            IllegalStateError: called by a signal handler in the middle of ``send``; then nothing is closed.
                Let handlers raise ``SystemExit`` instead, or set a flag.

        Called from a delivery callback it cannot wait, and gives up what is not acknowledged.
        """
        timeout = checked_timeout_s("close", timeout)
        if self._last_engine is not None:
            _refuse_in_the_middle_of_send("close", self._last_engine.accumulator)
        with self._lifecycle_lock:
            engine, self._engine = self._engine, None
            self._close_send()
            already_closed, self._closed = self._closed, True
            if self._finalizer is not None:
                self._finalizer.detach()
        if engine is None:
            if already_closed and self._last_engine is not None and not self._last_engine.is_io_thread:
                # Another thread may be closing it: then this one waits too, so that both find it closed.
                self._last_engine.wait_for_end(timeout)
            return
        try:
            lost = engine.stop(timeout)
        except BaseException:
            # Ctrl-C, most likely. What was accepted goes on, and the end of the process waits for it or says
            # how much was lost.
            engine.finish_alone()
            raise
        finally:
            self._close_user_objects()
        if lost and timeout is not None and timeout > 0:
            causes = engine.last_errors()
            raise CloseTimeoutError(
                f"close({timeout}): {lost} records were not acknowledged in time and are given up"
                + (f"; {causes}" if causes else "")
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError(
            "a KafkaProducer cannot be pickled: it has a thread and sockets. Send its settings instead, "
            "and make a producer where it is needed"
        )

    if not TYPE_CHECKING:  # type checkers would take any name for an attribute

        def __getattr__(self, name):
            raise no_such_attribute(self, name, PRODUCER_METHODS)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return f"<KafkaProducer {self._config.client_id} {','.join(self._config.bootstrap_servers)} {state}>"

    # -- life cycle ------------------------------------------------------------------------------------

    def _run_engine(self) -> ProducerEngine:
        engine = ProducerEngine(self._config, self._clock)
        self._engine = self._last_engine = engine
        self._open_send(engine.metadata, engine.accumulator.topics)
        self._finalizer = weakref.finalize(self, _stop_collected, engine)
        # The end of the process has a better way: see process_lifecycle.
        self._finalizer.atexit = False
        return engine

    def _engine_on_first_use(self) -> ProducerEngine:
        """The engine; made anew if this is the first use after a fork."""
        with self._lifecycle_lock:
            if self._closed:
                raise ProducerClosedError("the producer is closed")
            if self._engine is None:
                process_lifecycle.ensure_exit_hook()
                self._run_engine()
            assert self._engine is not None
            return self._engine

    def _close_user_objects(self) -> None:
        self._interceptors.close()
        for serializer in (self._config.key_serializer, self._config.value_serializer):
            close: Callable[[], Any] | None = getattr(serializer, "close", None)
            if close is not None:
                try:
                    close()
                except Exception:
                    _log.exception("%r failed in close", serializer)

    # -- process_lifecycle.ManagedProducer -------------------------------------------------------------

    def begin_close_at_exit(self) -> None:
        """The interpreter ends. Not for applications."""
        engine = self._engine
        if engine is not None:
            engine.begin_close_at_exit()

    def finish_close_at_exit(self) -> None:
        """The interpreter ends. Not for applications."""
        engine = self._engine
        if engine is not None:
            engine.finish_close_at_exit()
            self.close()

    def after_fork_in_child(self) -> None:
        """This process is a fork of the one that made the producer. Not for applications."""
        self._lifecycle_lock = threading.Lock()
        if self._finalizer is not None:
            self._finalizer.detach()
            self._finalizer = None
        engine, self._engine = self._engine or self._last_engine, None
        self._close_send()
        self._last_engine = None
        if engine is not None:
            engine.after_fork_in_child()


def _stop_collected(engine: ProducerEngine) -> None:
    """The producer was garbage-collected: let its I/O thread finish by itself."""
    count = engine.accumulator.incomplete_record_count
    _log.log(
        logging.WARNING if count else logging.INFO,  # untidy, but nothing is at stake
        "Producer %s was garbage-collected without close(); %d records are still being delivered",
        engine.config.client_id,
        count,
    )
    engine.finish_alone()


#: The code that holds a partition's lock while it appends. The compiled kernel has no frames, and no locks.
_LOCKING = {
    RecordAccumulator.append.__code__,
    TopicQueues.end_stay.__code__,
    Lane.append.__code__,
    TopicLanes.append_sticky.__code__,
}


def _refuse_in_the_middle_of_send(call: str, accumulator: RecordAccumulator) -> None:
    """Whoever interrupts ``send`` on its own thread, as signal handlers do, holds the locks it held.

    The stack is looked at because it costs ``send`` nothing. A ``send`` that waits for memory holds none.
    """
    caller = sys._getframe(1).f_back
    while caller is not None:
        code = caller.f_code
        if code is BufferPool.allocate.__code__:
            return
        if code in _LOCKING and accumulator.has_part(caller.f_locals.get("self")):
            raise IllegalStateError(
                f"{call}() in the middle of send() on the same thread, as in a signal handler, would wait "
                "for itself; let the handler raise SystemExit or set a flag, and close where the sending ends"
            )
        caller = caller.f_back

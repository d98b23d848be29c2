"""KafkaProducer: everything that an application calls.

Each method is short and names the part of ``_core`` that does the work:

* ``send``: ``sending.admission`` (one record), after the compiled kernel's ``FastSend``;
* ``send_many``, ``send_arrow``: ``bulk`` (many records);
* transactions: ``engine.transaction_calls``;
* start, close, forks: ``engine.engine_lifecycle``.

Simple records are written into the open batch by the compiled kernel; all others go through ``Admission``.
From the open batch on, the I/O thread handles them.
Source: Kafka class ``KafkaProducer``; KIP-42 (interceptors), KIP-679 (defaults).
"""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from types import FunctionType
from typing import TYPE_CHECKING, Any

from kproducer._core.accumulator.future_record_metadata import DeliveryCallback, FutureRecordMetadata
from kproducer._core.bulk.bulk_context import BulkContext
from kproducer._core.bulk.send_many import send_many
from kproducer._core.bulk.send_many_input import SendManyInput
from kproducer._core.bulk.send_many_result import SendManyResult
from kproducer._core.client.cluster_metadata import fetch_cluster_metadata
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.engine.engine_lifecycle import EngineLifecycle
from kproducer._core.engine.transaction_calls import TransactionCalls
from kproducer._core.kernel import IMPLEMENTATION, FastSend, fast_send
from kproducer._core.runtime.arguments import HeadersInput, checked_timeout_s
from kproducer._core.runtime.clock import WALL_MS, SystemClock
from kproducer._core.runtime.fork_safe_import import import_module
from kproducer._core.runtime.source_finder import IS_INTERPRETED
from kproducer._core.sending.admission import Admission, PendingSend
from kproducer._core.sending.blocking import finish
from kproducer._core.sending.interceptors import ProducerInterceptors
from kproducer._core.sending.record_rules import RecordRules
from kproducer.errors import Outcome, ProducerClosedError
from kproducer.errors.hidden_variables import hides_arguments
from kproducer.errors.suggestions import PRODUCER_METHODS, WrongStatement, keyword_hints, no_such_attribute
from kproducer.types import ClusterMetadata, FlushResult, PartitionInfo

if TYPE_CHECKING:
    import uuid

    from typing_extensions import Self, Unpack

    from kproducer._core.bulk.arrow_columns import ArrowColumns
    from kproducer._core.bulk.column_format import ColumnFormat
    from kproducer._core.bulk.send_arrow import ArrowSink, TolerantArrowSink
    from kproducer._core.config.producer_settings import ProducerSettings
    from kproducer._core.engine.producer_engine import ProducerEngine
    from kproducer._core.engine.producer_health import ProducerHealth
    from kproducer._core.metrics.metric_sample import MetricSample
    from kproducer._core.transactions.transaction_arguments import (
        ConsumerGroupMetadata,
        OffsetAndMetadata,
        PreparedTransaction,
    )
    from kproducer.types import TopicPartition

_client_numbers = itertools.count(1)


class KafkaProducer:
    """Sends records to a Kafka cluster. Thread-safe: one producer serves a whole process.

    Args:
        bootstrap_servers: ``"host:port,host:port"`` or a list of ``"host:port"``.
        settings: any other attribute of ``ProducerConfig``: Kafka's names with ``_`` for ``.``.
            docs/reference/configuration.md describes them all, docs/security.md those for TLS (``ssl_``),
            SASL (``sasl_``) and proxies.

    Raises:
        ConfigError: a setting is unknown, out of range or contradicts another; nothing is left running.

    In a forked child the producer starts a new engine on first use; records accepted before the fork stay
    with the parent, and their futures fail in the child. When the interpreter ends, or the producer is
    garbage-collected, accepted records are still delivered (for up to ``delivery_timeout_ms``), but ``close``
    or a ``with`` block is better: they report losses. Ctrl-C in a ``with`` block still delivers accepted
    records; if that takes more than a second, a warning says so, and another Ctrl-C gives up on them. In a
    transaction, a Ctrl-C before that ends the wait for the abort. (``asyncio.run`` turns Ctrl-C into
    ``CancelledError``, which is closed like any other error.)
    """

    # Compiled code reads the slot without a lookup by name.
    __slots__ = ("__dict__", "__weakref__", "_fast_send")

    @hides_arguments
    def __init__(
        self, bootstrap_servers: str | Iterable[str] | None = None, **settings: Unpack[ProducerSettings]
    ) -> None:
        servers = {} if bootstrap_servers is None else {"bootstrap_servers": bootstrap_servers}
        self._start(ProducerConfig.from_keywords({**servers, **settings}))

    @classmethod
    @hides_arguments
    def from_config(cls, settings: ProducerConfig | Mapping[str, Any] | str | os.PathLike[str]) -> Self:
        """Make a producer from Kafka's dotted names, such as ``{"bootstrap.servers": "host:9092"}``.

        Strings are accepted for numbers and booleans, as in configuration files. A path is that of a Java
        properties file.

        Raises:
            ConfigError: as the constructor does; also if the file cannot be read.
        """
        if isinstance(settings, (str, os.PathLike)):
            # Imported here, because most programs do not need it.
            from kproducer._core.config.properties_file import read_properties

            settings = read_properties(settings)
        config = settings if isinstance(settings, ProducerConfig) else ProducerConfig.from_dotted(settings)
        producer = cls.__new__(cls)
        producer._start(config)
        return producer

    def _start(self, config: ProducerConfig) -> None:
        if not config.client_id:
            config = config.evolve(client_id=f"kproducer-{next(_client_numbers)}")
        interceptors = ProducerInterceptors(config.interceptors)
        user_objects = [interceptors.close]
        for serializer in (config.key_serializer, config.value_serializer):
            if hasattr(serializer, "close"):
                user_objects.append(serializer.close)
        clock = SystemClock()
        wall_ms = WALL_MS if type(clock) is SystemClock and WALL_MS is not None else clock.wall_ms
        self._fast_send = FastSend(FutureRecordMetadata, wall_ms)
        rules = RecordRules(config, interceptors, self._fast_send)
        self._lifecycle = EngineLifecycle(config, clock, rules, self._fast_send, user_objects)
        self._transactions = TransactionCalls(self._lifecycle)
        self._lifecycle.start()
        if IMPLEMENTATION == "pure" or (isinstance(Admission.admit, FunctionType) and not IS_INTERPRETED):
            # Imported here, because with the native core no producer needs it.
            from kproducer._core.installation import warn_without_native_core

            warn_without_native_core()
        finalizer = weakref.finalize(self, self._lifecycle.finish_collected)
        # At interpreter exit, fork_and_exit closes the producer.
        finalizer.atexit = False

    # -- records ---------------------------------------------------------------------------------------

    # A record that is not accepted raises here: docs/decisions/0006-send-raises-or-returns.md
    # Compiled code tries first, because a Python frame would add a third to the cost of a send:
    # docs/decisions/0035-compiled-code-is-a-leaf.md
    @fast_send
    @keyword_hints
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
        """Accept one record for delivery. Returns at once, unless it has to wait for metadata or memory.

        If it raises, the record was not accepted and ``on_delivery`` is not called. If it returns a future,
        the outcome of the record is reported once, by the future and by ``on_delivery``.
        (Differs from Kafka's Java client, which reports some errors that are known at once through the
        future, where they are easily lost.)

        Args:
            topic: topic name.
            value, key: for the serializers; without one: bytes-like, ``str`` (as UTF-8) or ``None`` (null).
            headers: (name, bytes, ``str`` or ``None``) pairs, or a mapping; names may repeat.
            partition: partition number; ``None`` leaves it to the partitioner.
            timestamp_ms: milliseconds since the epoch; ``None`` means now.
            on_delivery: called on the I/O thread with ``(RecordMetadata, None)`` or, on failure, with
                ``(RecordMetadata, error)`` where the offset is -1. Must not block; exceptions are logged.
                ``send`` in it raises at once where it would wait for memory or metadata. A function that
                does not take two arguments, or whose parameters are named in the order of
                confluent-kafka (err, msg), is refused.

        Returns:
            A ``concurrent.futures.Future`` of ``RecordMetadata`` that can also be awaited.

        Raises:
            InvalidArgumentError: topic, partition, timestamp or callback is not valid.
            SerializationError: key, value or a header cannot be turned into bytes.
            RecordTooLargeError: larger than ``max_request_size`` or ``buffer_memory``.
            MetadataTimeoutError: topic or partition did not become known within ``max_block_ms``.
            BufferExhaustedError: no memory became free within the rest of ``max_block_ms``.
            BrokerError: the topic's name is invalid, or this user may not see it.
            ProducerClosedError: the producer is closed.

        All of them have ``outcome=NOT_SENT``. Do not call ``send`` in signal handlers and finalizers: if one
        interrupts a ``send`` on its own thread, it may get an IllegalStateError. Set a flag there instead.
        """
        lifecycle = self._lifecycle
        engine = lifecycle.engine
        if engine is None or lifecycle.is_closed:
            engine = self._running_engine()
        sent = engine.admission.admit(topic, value, key, headers, partition, timestamp_ms, on_delivery)
        if sent.__class__ is PendingSend:  # isinstance() would be a call for each record
            return finish(sent)
        return sent  # type: ignore[return-value]

    @keyword_hints
    def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        keys: Iterable[Any] | None = None,
        headers: Iterable[HeadersInput | None] | None = None,
        partitions: Iterable[int | None] | int | None = None,
        timestamps_ms: Iterable[int | None] | int | None = None,
    ) -> SendManyResult:
        """Accept many records for one topic; each is treated as by ``send``.

        Args:
            topic: topic name.
            values: lists are fastest; the values of generators are sent as they are yielded.
            keys, headers, partitions, timestamps_ms: one entry per value, or ``None``. A single number is the
                partition or timestamp of all records; for a single key or set of headers pass
                ``itertools.repeat(it)``.

        Returns:
            The outcome of every record. A record that is refused by this call (too large, wrong type) is
            included as failed, and the others are sent. After a record has waited ``max_block_ms`` for free
            memory, or the producer was closed meanwhile, it and all later ones are refused.

        Raises:
            InvalidArgumentError: an argument is not a column, or columns have different lengths.
            MetadataTimeoutError, BrokerError, ProducerClosedError: as ``send``, before the first record.
            BufferExhaustedError, ProducerClosedError: later, if the number of remaining records is unknown.
            Exception: raised by the iterators.

        What is raised after records were accepted, including Ctrl-C, has their result as ``partial_result``.
        """
        rows = SendManyInput(values, keys, headers, partitions, timestamps_ms, self._lifecycle.clock)
        return send_many(self._bulk_context(), topic, rows)

    @keyword_hints
    def send_arrow(
        self,
        topic: str | None,
        data: Any,
        *,
        value: str | ColumnFormat | None = None,
        key: str | ColumnFormat | None = None,
        headers: str | None = None,
        partition: str | int | None = None,
        timestamp: str | int | None = None,
        topic_column: str | None = None,
    ) -> SendManyResult:
        """Accept the rows of Arrow data; each is treated as by ``send``, at about a tenth of the cost.

        Args:
            topic: topic name; ``None``: see ``topic_column``.
            data: anything with the Arrow PyCapsule interface (tables and batches of pyarrow, polars, pandas
                and DuckDB), or an iterable of such. An array that is not a struct is a column of values.
            value: the column of values; ``None``: the one named ``value``, or the only one. Strings (as
                UTF-8) or binary of any kind, also dictionary-encoded; null is a tombstone. Or a format of
                ``kproducer.columnar`` (Avro, Protobuf, JSON), which makes values of columns of any types.
            key: a column of the same types, for partitioning, or a format; null: no key.
            headers: a column of list<struct<key: string, value: binary>> or map<string, binary>.
            partition: a column of integers, or one number for all rows; null leaves it to the partitioner.
            timestamp: a column of timestamps, or of int64 milliseconds since the epoch, or one number of
                milliseconds for all rows; null means now.
            topic_column: a column of topic names.

        Returns:
            The outcome of every row, as of ``send_many``. A row that cannot be sent (too large, no such
            partition, a time before 1970) is included as failed, and the others are sent. Rows with the same
            key or the same partition number keep their order.

        Raises:
            InvalidArgumentError: a column is missing or of a type that is unsuitable or does not fit the
                schema of a format; serializers or interceptors are configured, which need objects; the data
                are not Arrow data.
            SerializationError: the schema of a format is not valid, or its registry has none.
            MetadataTimeoutError, BrokerError, ProducerClosedError: as ``send``, before the first row.
            BufferExhaustedError, ProducerClosedError: later, if more rows may be left in a stream.
            Exception: raised by an iterable.

        What is raised after rows were accepted, including Ctrl-C, has their result as ``partial_result``.
        """
        from kproducer._core.bulk.arrow_columns import ArrowColumns
        from kproducer._core.bulk.send_arrow import send_arrow

        columns = ArrowColumns(value, key, headers, partition, timestamp, topic_column)
        return send_arrow(self._bulk_context(), topic, data, columns)

    def arrow_sink(self, topic: str | None, columns: ArrowColumns) -> ArrowSink:
        """Send one Arrow batch after another, without a result per row. Not for applications."""
        from kproducer._core.bulk.send_arrow import ArrowSink

        return ArrowSink(self._bulk_context(), columns, topic)

    def tolerant_arrow_sink(self, topic: str | None, columns: ArrowColumns) -> TolerantArrowSink:
        """Send one Arrow batch after another, and get the outcome of each row. Not for applications."""
        from kproducer._core.bulk.send_arrow import TolerantArrowSink

        return TolerantArrowSink(self._bulk_context(), columns, topic)

    def sent_totals(self, *, is_current: bool) -> dict[str, float]:
        """What a Spark task reports of ``metrics``, at a fraction of the cost. Not for applications.

        Args:
            is_current: wait until the I/O thread has counted what it has just sent.
        """
        engine = self._lifecycle.last_engine
        return {} if engine is None else engine.sent_totals(is_current=is_current)

    def _bulk_context(self) -> BulkContext:
        return BulkContext(self._running_engine(), self._lifecycle, self.send)

    def _running_engine(self) -> ProducerEngine:
        """The engine for a call that sends."""
        try:
            return self._lifecycle.running_engine()
        except ProducerClosedError as error:
            raise error.with_outcome(Outcome.NOT_SENT) from None

    @keyword_hints
    def flush(self, timeout: float | None = None) -> FlushResult:
        """Send at once what was accepted before this call, and wait until its outcome is known.

        Failures are not raised here; the futures have them, and the result counts them.

        Args:
            timeout: seconds; ``None`` waits for as long as ``delivery_timeout_ms`` allows.

        Returns:
            The numbers of records delivered and failed, of those that were not acknowledged before the call.
            Whole batches are counted, which may include records that were sent during the call.

        Raises:
            KafkaTimeoutError: not done within ``timeout``; the records may still be delivered.
            IllegalStateError: called from a delivery callback, or by a signal handler that interrupted
                ``send``: it would deadlock there.
            InvalidArgumentError: ``timeout`` is not a number.
            ProducerClosedError: the producer is closed, or its I/O thread has ended.
        """
        return self._lifecycle.running_engine().flush(timeout)

    def purge(self, in_queue: bool = True, in_flight: bool = True) -> int:
        """Give up the records that are not acknowledged; they fail with ``PurgedError``.

        Each error says what is known: records that were never sent are ``NOT_SENT``, those in flight are
        ``UNKNOWN``, because the broker may still write them. An open transaction can only be aborted then.
        Source: librdkafka's ``rd_kafka_purge``.

        Args:
            in_queue: those that wait to be sent, for the first time or again.
            in_flight: those in requests that are not answered.

        Returns:
            How many records were given up. Their delivery callbacks have run.

        Raises:
            IllegalStateError: called from a delivery callback, or by a signal handler that interrupted
                ``send``: it would deadlock there.
            ProducerClosedError: the producer is closed.
        """
        return self._lifecycle.running_engine().purge(in_queue, in_flight)

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The partitions of a topic, by number; waits for metadata up to ``max_block_ms``.

        Raises:
            MetadataTimeoutError, BrokerError, InvalidArgumentError, ProducerClosedError: as ``send`` does.
        """
        snapshot = self._lifecycle.running_engine().topics.await_topic(topic, None)
        node = snapshot.nodes.get
        return [
            PartitionInfo(topic, it.partition, node(it.leader_id), it.replicas, it.isr, it.offline)
            for it in snapshot.topics[topic].partitions
        ]

    def list_topics(self, topic: str | None = None, timeout: float | None = None) -> ClusterMetadata:
        """Ask a broker for brokers, controller, topics and partitions of the cluster. Creates no topic.

        Opens a connection of its own for each call; for the partitions of a topic that this producer sends
        to, ``partitions_for`` needs none.

        Args:
            topic: the only topic to ask for; if it does not exist, its ``error`` says so. ``None``: all
                topics that this user may see.
            timeout: seconds; ``None``: ``max_block_ms``.

        Raises:
            AuthenticationError: every broker that can be reached refused the credentials.
            KafkaTimeoutError: no broker answered in time; says what failed.
            InvalidArgumentError: ``topic`` or ``timeout`` is not valid.
            ProducerClosedError: the producer is closed.
        """
        timeout_s = checked_timeout_s("list_topics", timeout)
        config = self._lifecycle.running_engine().config
        timeout_ms = config.max_block_ms if timeout_s is None else timeout_s * 1000
        return fetch_cluster_metadata(config, self._lifecycle.clock, topic, timeout_ms)

    def metrics(self) -> dict[str, dict[str, Any]]:
        """The metrics of Java's producer with their present values, by group and name.

        The groups are "producer-metrics", "producer-topic-metrics.TOPIC" for each topic,
        "producer-node-metrics.node-ID" for each broker, "app-info" and "kafka-metrics-count", as in
        kafka-python. ``kproducer.METRICS`` has each name's kind, unit and meaning. Means, maxima and rates
        are those of the last 30 to 60 seconds; a mean or maximum of no values is NaN. Any thread; after
        ``close``, the last values. Empty in a forked child that has not used the producer yet.
        """
        from kproducer._core.engine.metric_samples import nested_metrics

        return nested_metrics(self.metric_samples())

    def metric_samples(self) -> list[MetricSample]:
        """The values of ``metrics``, each with group, tags, kind and description, for exporters."""
        engine = self._lifecycle.last_engine
        return [] if engine is None else engine.metric_samples()

    def health(self) -> ProducerHealth:
        """Connections, the oldest unacknowledged record and the last error. Never blocks; any thread.

        After ``close``, the last state. A forked child begins with a new one.
        """
        # Imported here, as in ProducerEngine.metric_samples.
        module = import_module("kproducer._core.engine.producer_health")
        engine = self._lifecycle.last_engine
        is_closed = self._lifecycle.is_closed
        health: ProducerHealth = (
            module.ProducerHealth(is_closed=is_closed)
            if engine is None
            else module.health_of(engine, is_closed)
        )
        return health

    def client_instance_id(self, timeout: float | None = None) -> uuid.UUID:
        """The id under which brokers know this client's metrics (KIP-714); the same until ``close``.

        A broker assigns it when the producer first asks which metrics it should push. In a forked child the
        producer has another one.

        Args:
            timeout: seconds; ``None``: ``max_block_ms``.

        Raises:
            KafkaTimeoutError: no broker has assigned one in time, for example because none receives metrics.
            KafkaError: a broker has refused the producer's telemetry.
            BootstrapResolutionError: no name was resolved within ``bootstrap_resolve_timeout_ms``.
            IllegalStateError: ``enable_metrics_push`` is False; or called from a delivery callback, or by a
                signal handler that interrupted ``send``: it would deadlock there.
            InvalidArgumentError: ``timeout`` is not a number.
            ProducerClosedError: the producer is closed.
        """
        return self._lifecycle.running_engine().client_instance_id(timeout)

    # -- transactions ----------------------------------------------------------------------------------
    # A call that times out continues in the background, and the same call made again waits for it. Calls that
    # wait for the I/O thread raise IllegalStateError in delivery callbacks, which run on that thread, and in
    # signal handlers that interrupt send. A refused call, and one with a wrong argument, starts nothing.

    def init_transactions(self, timeout: float | None = None) -> None:
        """Get a producer id and epoch, which fences earlier producers with this transactional id.

        Call it once, before the first transaction. A transaction that an earlier producer left open is ended.

        Args:
            timeout: seconds; ``None``: ``max_block_ms``.

        Raises:
            KafkaTimeoutError: no coordinator answered in time.
            AuthorizationError: a permission is missing; may be called again once it is granted.
            FatalProducerError: the brokers have no transactions, or refuse these settings.
            IllegalStateError: there is no ``transactional_id``, or the producer is initialized already.
        """
        self._transactions.initialize(timeout)()

    def change_transactional_id(self, transactional_id: str) -> None:
        """Continue under another transactional id, or start over with the same; then ``init_transactions``.

        Connections, metadata and the I/O thread stay. Allowed while no transaction is open here: before
        ``init_transactions``, between transactions, and after ``prepare``, whose result stays valid.

        Raises:
            InvalidArgumentError: the id is not a string, is empty, or is longer than 32767 bytes.
            IllegalStateError: a transaction is open, or a call that timed out continues; nothing has changed.
            AbortTransactionError: a transaction has to be aborted first.
            FatalProducerError: the producer has failed; close it.
        """
        self._transactions.change_transactional_id(transactional_id)

    def begin_transaction(self) -> None:
        """Begin a transaction. Every record sent until it ends belongs to it.

        A ``send`` that still waits on another thread when the transaction ends raises IllegalStateError: its
        record is not part of the next transaction.

        Raises:
            IllegalStateError: the last transaction has not ended, or ``init_transactions`` was not called.
            AbortTransactionError: the last transaction has to be aborted first.
            FatalProducerError: the producer has failed; close it.
        """
        self._transactions.begin()

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group_metadata: ConsumerGroupMetadata,
        timeout: float | None = None,
    ) -> None:
        """Make consumer group offsets part of the transaction: they are committed with it.

        Args:
            offsets: for each partition the offset of the next record to read.
            group_metadata: the group, and the member that read the records.
            timeout: seconds; ``None``: ``max_block_ms``.

        Raises:
            InvalidArgumentError: offsets or group cannot be sent; the transaction continues without them.
            AbortTransactionError: the group coordinator refused them; abort the transaction.
            TransactionAbortedError: another thread has aborted the transaction, or closed the producer.
            KafkaTimeoutError: not done in time; calling it again adds the offsets again, which is harmless.
            FatalProducerError, IllegalStateError: as ``begin_transaction``.
        """
        self._transactions.send_offsets(offsets, group_metadata, timeout)()

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Deliver what was sent, then commit.

        Args:
            timeout: seconds; ``None``: ``max_block_ms``.

        Raises:
            AbortTransactionError: a record or an offset could not be written; no part of it will be read.
            KafkaTimeoutError: the outcome is not known yet; call it again. It can no longer be aborted.
            FatalProducerError: the producer has failed; close it.
            IllegalStateError: there is no open transaction.
        """
        self._transactions.commit(timeout)()

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Drop the records that were not sent yet, and abort: consumers skip those that were.

        Args:
            timeout: seconds; ``None``: ``max_block_ms``.

        Raises:
            KafkaTimeoutError, FatalProducerError, IllegalStateError: as ``commit_transaction``.
        """
        self._transactions.abort(timeout)()

    def transaction(self) -> AbstractContextManager[None]:
        """Begin a transaction for a ``with`` block: commit at its end, abort if it raises or cannot commit.

        Raises the error that caused the abort; if the abort itself fails, the log has a warning. After a
        KafkaTimeoutError of the commit nothing is aborted: the commit continues, and ``commit_transaction``
        waits for it.
        """
        return self._transactions.block()

    def prepare(self, timeout: float | None = None) -> PreparedTransaction:
        """Deliver what was sent and hand the transaction over: the result lets another process end it.

        No transaction can be begun here until this one has ended, by ``commit_transaction`` or
        ``abort_transaction``. If another process ends it, close this producer or change its transactional id.
        May be repeated, with the same result, until then.

        Args:
            timeout: seconds; ``None``: ``max_block_ms``.

        Raises:
            KafkaTimeoutError: not everything was delivered in time; the transaction stays open.
            AbortTransactionError, FatalProducerError, IllegalStateError: as ``commit_transaction``.
        """
        return self._transactions.prepare(timeout)

    def commit_prepared(self, prepared: PreparedTransaction, timeout: float | None = None) -> None:
        """Commit the transaction of another process, which has prepared it. May safely be repeated.

        The producer must have the same transactional id and must not be initialized.

        Args:
            prepared: what ``prepare`` returned there.
            timeout: seconds; ``None``: ``max_block_ms``.

        Raises:
            InvalidArgumentError: ``prepared`` is not what ``prepare`` returned for this transactional id.
            TransactionAbortedError: it was aborted.
            FencedError: its epoch is no longer valid: it timed out, or a newer producer has the transactional
                id. In the second case it may have been committed before.
            KafkaTimeoutError, FatalProducerError, IllegalStateError: as ``commit_transaction``.
        """
        self._transactions.commit_prepared(prepared, timeout)()

    def abort_prepared(self, prepared: PreparedTransaction, timeout: float | None = None) -> None:
        """Abort the transaction of another process; see ``commit_prepared``.

        Raises:
            IllegalStateError: it was committed, or as ``commit_prepared``.
            FencedError, InvalidArgumentError, KafkaTimeoutError, FatalProducerError: as ``commit_prepared``.
        """
        self._transactions.abort_prepared(prepared, timeout)()

    # -- the end ---------------------------------------------------------------------------------------

    @keyword_hints
    def close(self, timeout: float | None = None) -> None:
        """Deliver what was accepted, then stop. May be repeated; blocks for little more than ``timeout``.

        Does not raise errors of records: futures and callbacks get them.

        Args:
            timeout: seconds; ``None`` waits until every record is delivered or has failed, which takes at
                most about ``delivery_timeout_ms``; 0 gives up unacknowledged records at once.

        Raises:
            CloseTimeoutError: ``timeout`` (above 0) passed; says how many records were given up. Their
                futures fail with ``ProducerClosedError``. The producer is closed all the same.
            InvalidArgumentError: ``timeout`` is not a number; then nothing is closed.
            IllegalStateError: called by a signal handler in the middle of ``send``; then nothing is closed.
                Let handlers raise ``SystemExit`` instead, or set a flag.

        In a delivery callback ``close`` cannot wait, and gives up unacknowledged records.
        """
        self._lifecycle.close(timeout)

    @property
    def config(self) -> ProducerConfig:
        """The settings in force."""
        return self._lifecycle.config

    if not TYPE_CHECKING:  # type checkers would take it for a method
        __aenter__ = WrongStatement("async with", "use 'with', or 'async with AsyncKafkaProducer(...)'")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object = None, *raised: object) -> None:
        if isinstance(kind, type) and issubclass(kind, KeyboardInterrupt):
            self._lifecycle.close_after_interrupt()
        else:
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
        if not hasattr(self, "_lifecycle"):  # the constructor has failed
            return super().__repr__()
        config = self.config
        state = "closed" if self._lifecycle.is_closed else "open"
        return f"<KafkaProducer {config.client_id} {','.join(config.bootstrap_servers)} {state}>"


def lifecycle_of(producer: KafkaProducer) -> EngineLifecycle:
    """The engine of a producer, for the parts of this package that are built on it. Not for applications.

    It gives them the running engine, the rules for records and the fast path; everything else they call as
    applications do.
    """
    return producer._lifecycle

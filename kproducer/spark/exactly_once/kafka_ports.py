"""The ports of the two protocols on real brokers: each step as requests of Kafka.

A worker keeps a transactional producer and a coordinator session over tasks and micro-batches; each task
gives the producer its own transactional id. One task at a time uses them. Errors that an option can fix say
how.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.transactions.coordinator_session import CoordinatorSession, unwrap_cause
from kproducer._core.transactions.transaction_arguments import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    PreparedTransaction,
)
from kproducer.errors import (
    AuthorizationError,
    ConfigError,
    FencedError,
    KafkaError,
    KafkaTimeoutError,
    TransactionAbortedError,
)
from kproducer.errors.broker_errors import (
    InvalidProducerEpochError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    TransactionAbortableError,
)
from kproducer.spark.errors import ExactlyOnceError, SparkOptionError, SparkWriteError
from kproducer.spark.option_names import config_mistake, explained
from kproducer.spark.producer_cache import Lease, ProducerCache
from kproducer.spark.write_columns import WriteColumns
from kproducer.spark.write_options import TRANSACTION_TIMEOUT_MS, WriteOptions
from kproducer.spark.write_summary import WriteSummary
from kproducer.types import TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Self

    from kproducer.kafka_producer import KafkaProducer
    from kproducer.spark.partition_writer import TaskRowSender
    from kproducer.spark.tolerant_row_sender import TolerantRowSender

#: Timeout of calls that only shorten the waits of others.
_SHORT_S = 5.0

#: How long an offset may be invisible after the response to its commit. Usually milliseconds.
_SETTLING_S = 2.0


class Connections:
    """A coordinator session and, once a task needs it, a transactional producer. For one user at a time."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._config = ProducerConfig.from_dotted(dict(settings))
        self.session = CoordinatorSession(self._config)

    @cached_property
    def producer(self) -> KafkaProducer:
        """The producer. Drivers use none, and do not import it."""
        from kproducer.kafka_producer import KafkaProducer

        return KafkaProducer.from_config(self._config)

    def close(self, timeout: float | None = None) -> None:
        """Close both."""
        try:
            self.session.close()
        finally:
            if "producer" in vars(self):
                self.producer.close(timeout)


#: The cache of this process.
CONNECTIONS: ProducerCache[Connections] = ProducerCache(Connections)


class _KafkaPort:
    """What both ports share: connections from a cache, acquired on first use.

    As a context manager it releases them, discards them after an error, and adds the remedy to the error.
    """

    def __init__(self, options: WriteOptions, cache: ProducerCache[Connections] = CONNECTIONS) -> None:
        self._options = options
        self._cache = cache
        self._lease: Lease[Connections] | None = None
        config = options.producer_config()
        #: Timeout of one step, which may have to end an earlier transaction first.
        self._step_s = max(config.max_block_ms, config.delivery_timeout_ms) / 1000
        timeout_ms = config.transaction_timeout_ms
        if config.transaction_two_phase_commit_enable:
            timeout_ms = TRANSACTION_TIMEOUT_MS  # without a timeout, a commit may take this long
        self._transaction_s = timeout_ms / 1000

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.release(discard=error is not None)
        if isinstance(error, ConfigError) and not isinstance(error, SparkOptionError):
            # Only files are read here: this machine cannot read certificates or keys.
            raise SparkOptionError(config_mistake(error)) from None
        # Errors of the protocols name their remedies already.
        if isinstance(error, KafkaError) and not isinstance(error, ExactlyOnceError):
            self._raise_with_remedy(error)
            if not isinstance(error, SparkWriteError):
                raise self._explained(error) from error

    @property
    def _connections(self) -> Connections:
        if self._lease is None:
            self._lease = self._cache.acquire(
                self._options.producer_settings, self._options.producer_idle_timeout_ms
            )
            if self._options.marker_topic is not None:
                # Brokers that create topics create this one now: records may never be sent to it.
                self._lease.client.session.name_topics([self._options.marker_topic])
        return self._lease.client

    @property
    def _partition(self) -> TopicPartition:
        assert self._options.marker_topic is not None
        return TopicPartition(self._options.marker_topic, 0)

    def _committed(
        self, groups: Sequence[str], timeout_s: float, *, stable: bool
    ) -> Mapping[str, OffsetAndMetadata | None]:
        return self._connections.session.committed_offsets(groups, self._partition, timeout_s, stable=stable)

    def release(self, *, discard: bool = False) -> None:
        """Return the connections to the cache, unless they are discarded. Idempotent."""
        lease, self._lease = self._lease, None
        if lease is not None:
            # The next commit fences the ids that it needs, which may be others.
            lease.client.session.release_fenced_ids()
            lease.release(discard=discard)

    def _raise_with_remedy(self, error: KafkaError, subject: str = "") -> None:
        """Raise an error that adds the remedy and the subject, if there is a remedy."""
        cause: BaseException | None = error
        while cause is not None:
            remedy = next((text for kinds, text in _REMEDIES.items() if isinstance(cause, kinds)), None)
            if remedy is not None:
                raise self._explained(error, subject, f": {remedy}") from error
            cause = cause.__cause__

    def _explained(self, error: KafkaError, subject: str = "", remedy: str = "") -> ExactlyOnceError:
        text = explained(unwrap_cause(error), self._options.producer_settings)
        raised = ExactlyOnceError(f"{subject}{text}{remedy}")
        raised.outcome = error.outcome
        return raised


class KafkaTaskPort(_KafkaPort):
    """``TaskPort`` of one attempt.

    Attributes:
        summary: what was written; complete after ``flush``.
    """

    def __init__(
        self, columns: WriteColumns, options: WriteOptions, cache: ProducerCache[Connections] = CONNECTIONS
    ) -> None:
        super().__init__(options, cache)
        self._columns = columns
        self._rows: TaskRowSender | TolerantRowSender
        self.summary = WriteSummary()

    def current_offset(self, group: str) -> OffsetAndMetadata | None:
        """OffsetFetch; waits a moment for a transaction that is being committed.

        Brokers answer a commit before its offsets are visible. After a crash the last decision may be about
        to become visible, and a driver that finds another decision than its tasks refuses to commit. But if
        a driver died before its commit, waiting would take until the transaction times out.
        """
        try:
            return self._committed([group], _SETTLING_S, stable=True)[group]
        except KafkaTimeoutError:
            return self._committed([group], self._step_s, stable=False)[group]

    def initialize(self, transactional_id: str) -> None:
        """InitProducerId: fences earlier attempts of the task, and waits for the end of their transaction."""
        producer = self._connections.producer
        producer.change_transactional_id(transactional_id)
        producer.init_transactions()

    def stable_offset(self, group: str) -> OffsetAndMetadata | None:
        """OffsetFetch; waits until no open transaction can change the offset."""
        return self._committed([group], self._step_s, stable=True)[group]

    def begin(self) -> None:
        """Begin the transaction. Sends no request yet."""
        from kproducer.spark.partition_writer import new_row_sender

        producer = self._connections.producer
        producer.begin_transaction()
        self._rows = new_row_sender(producer, self._columns, self._options)
        self.summary = self._rows.summary

    def send(self, batch: Any) -> None:
        """Produce; the same code as for at-least-once writes."""
        self._rows.send(batch)

    def flush(self) -> None:
        """Wait until each record, and each dead letter, is acknowledged, or raise."""
        self._rows.deliver_all()

    def add_marker(self, group: str, offset: OffsetAndMetadata) -> None:
        """AddOffsetsToTxn and TxnOffsetCommit: the offset becomes visible with the rows."""
        try:
            self._connections.producer.send_offsets_to_transaction(
                {self._partition: offset}, ConsumerGroupMetadata(group)
            )
        except KafkaError as error:
            topic = self._options.marker_topic
            self._raise_with_remedy(
                error, f"marker of group '{group}' for topic '{topic}', which must exist (markerTopic): "
            )
            raise

    def prepare(self) -> PreparedTransaction:
        """Hand the transaction over: its producer id and epoch, with which the driver ends it."""
        return self._connections.producer.prepare()

    def abort(self) -> None:
        """EndTxn, with a short timeout."""
        self._connections.producer.abort_transaction(_SHORT_S)


class KafkaDriverPort(_KafkaPort):
    """``DriverPort`` of one commit or abort."""

    def current_offset(self, group: str) -> OffsetAndMetadata | None:
        """OffsetFetch; does not wait for open transactions."""
        return self._committed([group], _SHORT_S, stable=False)[group]

    def fence(self, transactional_ids: Sequence[str]) -> None:
        """InitProducerId for each id: fences its producer, and waits until its transaction has ended."""
        self._connections.session.fence(transactional_ids, self._step_s)

    def stable_offsets(self, groups: Sequence[str]) -> Mapping[str, OffsetAndMetadata | None]:
        """OffsetFetch; waits until no open transaction can change the offsets."""
        return self._committed(groups, self._step_s, stable=True)

    def decide(self, transactional_id: str, group: str, offset: OffsetAndMetadata) -> None:
        """A transaction of its own, with the epoch from ``fence``; another driver's fence makes it fail."""
        self._connections.session.write_offsets(
            transactional_id, group, {self._partition: offset}, self._step_s
        )

    def commit(self, prepared: Sequence[PreparedTransaction]) -> list[KafkaError | None]:
        """EndTxn for each. The timeout is that of the transactions. ``None`` for each that is committed."""
        return self._connections.session.end(prepared, True, self._transaction_s)

    def abort(self, prepared: Iterable[PreparedTransaction], unknown: Sequence[str] = ()) -> None:
        """EndTxn, and ``fence`` for the ids whose transactions are unknown. Short timeout."""
        session = self._connections.session
        session.end(list(prepared), False, _SHORT_S)
        if unknown:
            session.fence(unknown, _SHORT_S)


#: Errors that an option can fix, and how. This also applies to errors that one of these caused.
_REMEDIES: dict[tuple[type[BaseException], ...], str] = {
    (InvalidTransactionTimeoutError,): (
        "kafka.transaction.timeout.ms (default: 900000) is larger than the brokers' "
        "transaction.max.timeout.ms: set the option 'kafka.transaction.timeout.ms' to at most that, and "
        "make batches that take less time"
    ),
    (AuthorizationError,): (
        "exactly-once writes need Write on transactional ids and Read on groups, both with the prefix of the "
        "option 'transactionalIdPrefix', and Read on the topic of the option 'markerTopic'"
    ),
    # A task that continues to write after its transaction has timed out gets INVALID_PRODUCER_EPOCH.
    (
        FencedError,
        InvalidProducerEpochError,
        InvalidTxnStateError,
        TransactionAbortableError,
        TransactionAbortedError,
    ): (
        "either the transaction was open for longer than kafka.transaction.timeout.ms (raise it, up to the "
        "brokers' transaction.max.timeout.ms, or make batches smaller), or another attempt has started (a "
        "retry, spark.speculation, the same query running twice); nothing of this attempt is committed"
    ),
    (KafkaTimeoutError,): (
        "nothing of this attempt is committed. Check that the brokers are running, and that "
        "kafka.bootstrap.servers and kafka.security.protocol are those of a listener; to wait longer, raise "
        "kafka.max.block.ms"
    ),
}

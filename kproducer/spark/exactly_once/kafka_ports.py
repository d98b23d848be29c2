"""The ports of the two protocols on real brokers.

A worker keeps a transactional producer and a coordinator session over tasks and micro-batches; each task
gives the producer its transactional id. One task at a time uses them. If the options can remedy an error,
the error says how.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from kproducer.config.producer_config import ProducerConfig
from kproducer.errors import (
    AuthorizationError,
    BrokerError,
    FencedError,
    KafkaError,
    KafkaTimeoutError,
    TransactionAbortedError,
)
from kproducer.errors.broker_errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    TransactionAbortableError,
)
from kproducer.kafka_producer import KafkaProducer
from kproducer.runtime.clock import Clock, SystemClock
from kproducer.spark.errors import ExactlyOnceError, SparkWriteError
from kproducer.spark.partition_writer import RowSender
from kproducer.spark.producer_cache import Lease, ProducerCache
from kproducer.spark.write_columns import WriteColumns
from kproducer.spark.write_options import WriteOptions
from kproducer.spark.write_summary import WriteSummary
from kproducer.transactions.coordinator_session import CoordinatorSession, unwrap_cause
from kproducer.transactions.transaction_arguments import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    PreparedTransaction,
)
from kproducer.types import TopicPartition

#: Timeout of calls that only save others from waiting.
_SHORT_S = 5.0

#: The time after which an offset is visible, once its commit was answered. Usually milliseconds.
_SETTLING_S = 2.0

#: INVALID_TRANSACTION_TIMEOUT.
_INVALID_TIMEOUT_CODE = 50


class TransactionalPair:
    """A producer, and a session for requests that producers do not send. For one task at a time."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        config = ProducerConfig.from_dotted(dict(settings))
        self.producer = KafkaProducer.from_config(config)
        self.session = CoordinatorSession(config)

    def close(self, timeout: float | None = None) -> None:
        """Close both."""
        try:
            self.session.close()
        finally:
            self.producer.close(timeout)


class DriverSession:
    """A session that a process keeps for its next commit."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.session = CoordinatorSession(ProducerConfig.from_dotted(dict(settings)))

    def close(self, timeout: float | None = None) -> None:
        """Close the connections at once."""
        self.session.close()


#: The caches of this process.
PAIRS: ProducerCache[TransactionalPair] = ProducerCache(TransactionalPair, exclusive=True)
SESSIONS: ProducerCache[DriverSession] = ProducerCache(DriverSession, exclusive=True)

_Connections = TypeVar("_Connections", TransactionalPair, DriverSession)


class _Leased(Generic[_Connections]):
    """Connections from a cache, taken with the first use; what both ports share."""

    def __init__(self, options: WriteOptions, cache: ProducerCache[_Connections]) -> None:
        self._options = options
        self._cache: ProducerCache[_Connections] = cache
        self._lease: Lease[_Connections] | None = None
        config = options.producer_config()
        #: Timeout of one step, which may first have to end an earlier transaction.
        self._step_s = max(config.max_block_ms, config.delivery_timeout_ms) / 1000
        self._transaction_s = config.transaction_timeout_ms / 1000

    @property
    def _connections(self) -> _Connections:
        if self._lease is None:
            self._lease = self._cache.acquire(
                self._options.producer_settings, self._options.producer_idle_timeout_ms
            )
            if self._options.marker_topic is not None:
                # So that brokers create the topic, if they do that: perhaps no record is ever sent to it.
                self._lease.producer.session.name_topics([self._options.marker_topic])
        return self._lease.producer

    @property
    def _place(self) -> TopicPartition:
        assert self._options.marker_topic is not None
        return TopicPartition(self._options.marker_topic, 0)

    def _committed(
        self, groups: Sequence[str], timeout_s: float, *, stable: bool
    ) -> Mapping[str, OffsetAndMetadata | None]:
        with _with_remedy(keep=KafkaTimeoutError):
            return self._connections.session.committed_offsets(groups, self._place, timeout_s, stable=stable)

    def release(self, *, discard: bool = False) -> None:
        """Return the connections to the cache, unless they are discarded. Idempotent."""
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release(discard=discard)


class KafkaTask(_Leased[TransactionalPair]):
    """``TaskKafka`` of one attempt. The caller calls ``release`` when the attempt is over."""

    def __init__(
        self,
        columns: WriteColumns,
        options: WriteOptions,
        cache: ProducerCache[TransactionalPair] = PAIRS,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(options, cache)
        self._columns = columns
        self._clock = clock or SystemClock()
        self._rows: RowSender | None = None

    @property
    def summary(self) -> WriteSummary:
        """What was written, once it is prepared."""
        return WriteSummary() if self._rows is None else self._rows.summary

    def decision(self, group: str) -> OffsetAndMetadata | None:
        """See ``TaskKafka``. Waits a moment for a transaction that is being committed.

        Brokers answer a commit before its offsets are visible. After a crash the last decision may be about
        to become visible, and a driver that finds another decision than its tasks refuses to commit. A
        driver that died before its commit is not waited for: that would take until the transaction times
        out.
        """
        try:
            return self._committed([group], _SETTLING_S, stable=True)[group]
        except KafkaTimeoutError:
            return self._committed([group], self._step_s, stable=False)[group]

    def initialize(self, transactional_id: str) -> None:
        """See ``TaskKafka``."""
        producer = self._connections.producer
        with _with_remedy():
            producer.change_transactional_id(transactional_id)
            producer.init_transactions()

    def marker(self, group: str) -> OffsetAndMetadata | None:
        """See ``TaskKafka``."""
        return self._committed([group], self._step_s, stable=True)[group]

    def begin(self) -> None:
        """See ``TaskKafka``."""
        producer = self._connections.producer
        producer.begin_transaction()
        self._rows = RowSender(producer, self._columns, self._clock)

    def send(self, batch: Any) -> None:
        """See ``TaskKafka``."""
        assert self._rows is not None
        with _with_remedy():
            self._rows.send(batch)

    def flush(self) -> None:
        """See ``TaskKafka``."""
        assert self._rows is not None
        with _with_remedy():
            self._rows.deliver_all()

    def add_marker(self, group: str, offset: OffsetAndMetadata) -> None:
        """See ``TaskKafka``."""
        topic = self._options.marker_topic
        with _with_remedy(f"marker of group '{group}' for topic '{topic}', which has to exist (markerTopic)"):
            self._connections.producer.send_offsets_to_transaction(
                {self._place: offset}, ConsumerGroupMetadata(group)
            )

    def prepare(self) -> PreparedTransaction:
        """See ``TaskKafka``."""
        assert self._rows is not None
        with _with_remedy():
            prepared = self._connections.producer.prepare()
        self._rows.note_requests()
        return prepared

    def abort(self) -> None:
        """See ``TaskKafka``."""
        self._connections.producer.abort_transaction(_SHORT_S)

    def discard(self) -> None:
        """See ``TaskKafka``."""
        self.release(discard=True)


class KafkaDriver(_Leased[DriverSession]):
    """``DriverKafka`` of one commit or abort. The caller calls ``release`` at the end."""

    def __init__(self, options: WriteOptions, cache: ProducerCache[DriverSession] = SESSIONS) -> None:
        super().__init__(options, cache)

    def decision(self, group: str) -> OffsetAndMetadata | None:
        """See ``DriverKafka``."""
        return self._committed([group], _SHORT_S, stable=False)[group]

    def fence(self, transactional_ids: Sequence[str]) -> None:
        """See ``DriverKafka``."""
        with _with_remedy():
            self._connections.session.fence(transactional_ids, self._step_s)

    def markers(self, groups: Sequence[str]) -> Mapping[str, OffsetAndMetadata | None]:
        """See ``DriverKafka``."""
        return self._committed(groups, self._step_s, stable=True)

    def decide(self, transactional_id: str, group: str, offset: OffsetAndMetadata) -> None:
        """See ``DriverKafka``."""
        with _with_remedy(keep=FencedError):
            self._connections.session.write_offsets(
                transactional_id, group, {self._place: offset}, self._step_s
            )

    def commit(self, prepared: Sequence[PreparedTransaction]) -> list[KafkaError | None]:
        """See ``DriverKafka``. The timeout is that of the transactions."""
        return self._connections.session.end(prepared, True, self._transaction_s)

    def abort(self, prepared: Iterable[PreparedTransaction], unknown: Sequence[str] = ()) -> None:
        """See ``DriverKafka``."""
        session = self._connections.session
        session.end(list(prepared), False, _SHORT_S)
        if unknown:
            session.fence(unknown, _SHORT_S)

    def release(self, *, discard: bool = False) -> None:
        """Return the session to the cache, unless it is discarded. Idempotent."""
        if self._lease is not None:
            # The next commit fences for itself, perhaps other ids.
            self._lease.producer.session.release_fenced_ids()
        super().release(discard=discard)


@contextlib.contextmanager
def _with_remedy(subject: str = "", *, keep: type[KafkaError] | tuple[()] = ()) -> Iterator[None]:
    """Add the remedy and the subject to errors that have a remedy, except for those to ``keep``."""
    try:
        yield
    except KafkaError as error:
        remedy = _remedy(error)
        if remedy is None or isinstance(error, keep):
            raise
        explained = ExactlyOnceError(f"{subject}{': ' if subject else ''}{unwrap_cause(error)}: {remedy}")
        if error.outcome is not None:
            explained.outcome = error.outcome
        raise explained from error


_REMEDIES: tuple[tuple[Callable[[BaseException], bool], str], ...] = (
    (
        lambda error: isinstance(error, BrokerError) and error.code == _INVALID_TIMEOUT_CODE,
        "kafka.transaction.timeout.ms (900000 unless it is given) is larger than the brokers' "
        "transaction.max.timeout.ms: set the option 'kafka.transaction.timeout.ms' to no more than that, and "
        "keep batches shorter than it",
    ),
    (
        lambda error: isinstance(error, AuthorizationError),
        "exactly-once writes need Write on transactional ids and Read on groups, both with the prefix of the "
        "option 'transactionalIdPrefix', and Read on the topic of the option 'markerTopic'",
    ),
    (
        # A task that continues to write after its transaction has timed out gets INVALID_PRODUCER_EPOCH.
        lambda error: isinstance(
            error,
            (
                FencedError,
                InvalidProducerEpochError,
                InvalidTxnStateError,
                TransactionAbortableError,
                TransactionAbortedError,
            ),
        ),
        "either the transaction was open for longer than kafka.transaction.timeout.ms (then raise that, up "
        "to the brokers' transaction.max.timeout.ms, or make smaller batches), or another attempt has begun "
        "(a retry, spark.speculation, the same query started twice); nothing of this attempt is committed",
    ),
    (
        lambda error: isinstance(error, KafkaTimeoutError) and not isinstance(error, SparkWriteError),
        "nothing of this attempt is committed",
    ),
)


def _remedy(error: BaseException) -> str | None:
    """The remedy of the error, or of the error that caused it."""
    cause: BaseException | None = error
    while cause is not None:
        for fits, remedy in _REMEDIES:
            if fits(cause):
                return remedy
        cause = cause.__cause__
    return None

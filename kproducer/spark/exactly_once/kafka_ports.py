"""The ports of the two protocols on real brokers, and the producers and sessions behind them.

A worker keeps a transactional producer and a session with coordinators over tasks and micro-batches: each
task gives the producer its transactional id. One task at a time uses a pair. Errors that have a cure in the
options are said with it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

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
from kproducer.spark.delivery_tracker import DeliveryTracker
from kproducer.spark.errors import ExactlyOnceError, SparkWriteError
from kproducer.spark.partition_writer import deliver_all
from kproducer.spark.producer_cache import Lease, ProducerCache
from kproducer.spark.record_batch_sender import RecordBatchSender
from kproducer.spark.write_columns import WriteColumns
from kproducer.spark.write_options import WriteOptions
from kproducer.spark.write_summary import WriteSummary, counters
from kproducer.transactions.coordinator_session import CoordinatorSession, unwrap_cause
from kproducer.transactions.transaction_arguments import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    PreparedTransaction,
)
from kproducer.types import TopicPartition

#: How long what is only a courtesy may take.
_COURTESY_S = 5.0

#: How soon an offset whose commit was answered can be read, at the latest; it takes milliseconds.
_SETTLING_S = 2.0

#: INVALID_TRANSACTION_TIMEOUT.
_INVALID_TIMEOUT_CODE = 50


class TransactionalPair:
    """A producer, and a session for what producers do not ask. For one task at a time."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        config = ProducerConfig.from_dotted(dict(settings))
        self.producer = KafkaProducer.from_config(config)
        self.session = CoordinatorSession(config)

    def close(self, timeout: float | None = None) -> None:
        """End both."""
        try:
            self.session.close()
        finally:
            self.producer.close(timeout)


class DriverSession:
    """A session that a process keeps for its next commit."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.session = CoordinatorSession(ProducerConfig.from_dotted(dict(settings)))

    def close(self, timeout: float | None = None) -> None:
        """End the connections, at once."""
        self.session.close()


#: Those of this process.
PAIRS: ProducerCache[TransactionalPair] = ProducerCache(TransactionalPair, exclusive=True)
SESSIONS: ProducerCache[DriverSession] = ProducerCache(DriverSession, exclusive=True)


class KafkaTask:
    """``TaskKafka`` of one attempt. Connects with the first call; ``release`` when the attempt is over.

    Attributes:
        summary: what was written, once it is prepared.
    """

    def __init__(
        self,
        columns: WriteColumns,
        options: WriteOptions,
        cache: ProducerCache[TransactionalPair] = PAIRS,
        clock: Clock | None = None,
    ) -> None:
        self.summary = WriteSummary()
        self._columns = columns
        self._options = options
        self._cache = cache
        self._clock = clock or SystemClock()
        self._lease: Lease[TransactionalPair] | None = None
        self._sender: RecordBatchSender | None = None
        self._tracker = DeliveryTracker(self._clock)
        self._before = (0, 0, 0)

    def decision(self, group: str) -> OffsetAndMetadata | None:
        """As the port says, but for a moment.

        A commit is answered before its offsets are there: after a crash the last decision may be about to
        show, and a driver that finds another one than its tasks refuses. Whoever died before the commit is
        not waited for: that takes until the transaction's time is over.
        """
        try:
            return self._committed(group, _SETTLING_S, stable=True)
        except KafkaTimeoutError:
            return self._committed(group, self._patience_s, stable=False)

    def initialize(self, transactional_id: str) -> None:
        """As the port says."""
        producer = self._pair.producer
        with _explained():
            producer.change_transactional_id(transactional_id)
            producer.init_transactions()

    def marker(self, group: str) -> OffsetAndMetadata | None:
        """As the port says."""
        return self._committed(group, self._patience_s, stable=True)

    def begin(self) -> None:
        """As the port says."""
        producer = self._pair.producer
        self._before = counters(producer.metrics())
        producer.begin_transaction()
        self._sender = RecordBatchSender(producer, self._columns, self._tracker)

    def send(self, batch: Any) -> None:
        """As the port says."""
        assert self._sender is not None
        with _explained():
            self.summary.content_bytes += self._sender.send(batch)
        self.summary.rows += batch.num_rows

    def flush(self) -> None:
        """As the port says."""
        with _explained():
            deliver_all(self._pair.producer, self._tracker, self.summary.rows)

    def add_marker(self, group: str, offset: OffsetAndMetadata) -> None:
        """As the port says."""
        topic = self._options.marker_topic
        with _explained(f"marker of group '{group}' for topic '{topic}', which has to exist (markerTopic)"):
            self._pair.producer.send_offsets_to_transaction(
                {_marker_partition(self._options): offset}, ConsumerGroupMetadata(group)
            )

    def prepare(self) -> PreparedTransaction:
        """As the port says."""
        producer = self._pair.producer
        with _explained():
            prepared = producer.prepare()
        self.summary.note_requests(self._before, counters(producer.metrics()))
        return prepared

    def abort(self) -> None:
        """As the port says."""
        self._pair.producer.abort_transaction(_COURTESY_S)

    def discard(self) -> None:
        """As the port says."""
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release(discard=True)

    def release(self) -> None:
        """The attempt is over: the next task may have the producer. Nothing, once it was discarded."""
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.release()

    @property
    def _pair(self) -> TransactionalPair:
        if self._lease is None:
            self._lease = self._cache.acquire(
                self._options.producer_settings, self._options.producer_idle_timeout_ms
            )
            _name_marker_topic(self._lease.producer.session, self._options)
        return self._lease.producer

    @property
    def _patience_s(self) -> float:
        return _patience_s(self._pair.producer.config)

    def _committed(self, group: str, timeout_s: float, *, stable: bool) -> OffsetAndMetadata | None:
        session = self._pair.session
        with _explained(keep=KafkaTimeoutError):
            place = _marker_partition(self._options)
            return session.committed_offsets([group], place, timeout_s, stable=stable)[group]


class KafkaDriver:
    """``DriverKafka`` of one commit or abort. Connects with the first call; ``release`` at the end."""

    def __init__(self, options: WriteOptions, cache: ProducerCache[DriverSession] = SESSIONS) -> None:
        self._options = options
        self._config = options.producer_config()
        self._cache = cache
        self._lease: Lease[DriverSession] | None = None

    def decision(self, group: str) -> OffsetAndMetadata | None:
        """As the port says."""
        place = _marker_partition(self._options)
        with _explained(keep=KafkaTimeoutError):
            return self._session.committed_offsets([group], place, _COURTESY_S, stable=False)[group]

    def fence(self, transactional_ids: Sequence[str]) -> None:
        """As the port says."""
        with _explained():
            self._session.fence(transactional_ids, _patience_s(self._config))

    def markers(self, groups: Sequence[str]) -> Mapping[str, OffsetAndMetadata | None]:
        """As the port says."""
        # A timeout may come when all is committed.
        with _explained(keep=KafkaTimeoutError):
            return self._session.committed_offsets(
                groups, _marker_partition(self._options), _patience_s(self._config)
            )

    def decide(self, transactional_id: str, group: str, offset: OffsetAndMetadata) -> None:
        """As the port says."""
        offsets = {_marker_partition(self._options): offset}
        with _explained(keep=FencedError):
            self._session.write_offsets(transactional_id, group, offsets, _patience_s(self._config))

    def commit(self, prepared: Sequence[PreparedTransaction]) -> list[KafkaError | None]:
        """As the port says. Patience ends when the transactions' time is over."""
        return self._session.end(prepared, True, self._config.transaction_timeout_ms / 1000)

    def abort(self, prepared: Iterable[PreparedTransaction], unknown: Sequence[str] = ()) -> None:
        """As the port says."""
        self._session.end(list(prepared), False, _COURTESY_S)
        if unknown:
            self._session.fence(unknown, _COURTESY_S)

    def release(self, *, discard: bool = False) -> None:
        """The next commit of this process may have the session, unless it is discarded."""
        lease, self._lease = self._lease, None
        if lease is not None:
            # The next one fences for itself; names may be others each time.
            lease.producer.session.release_fenced_ids()
            lease.release(discard=discard)

    @property
    def _session(self) -> CoordinatorSession:
        if self._lease is None:
            self._lease = self._cache.acquire(
                self._options.producer_settings, self._options.producer_idle_timeout_ms
            )
            _name_marker_topic(self._lease.producer.session, self._options)
        return self._lease.producer.session


def _marker_partition(options: WriteOptions) -> TopicPartition:
    assert options.marker_topic is not None
    return TopicPartition(options.marker_topic, 0)


def _name_marker_topic(session: CoordinatorSession, options: WriteOptions) -> None:
    """Have brokers make it, if they do that: perhaps nobody writes there, or has not yet."""
    if options.marker_topic is not None:
        session.name_topics([options.marker_topic])


def _patience_s(config: ProducerConfig) -> float:
    """For one step: what opened a transaction before may have to be ended first."""
    return max(config.max_block_ms, config.delivery_timeout_ms) / 1000


@contextlib.contextmanager
def _explained(subject: str = "", *, keep: type[KafkaError] | tuple[()] = ()) -> Iterator[None]:
    """Say what helps, where something does, but for errors to ``keep``; and what it is about."""
    try:
        yield
    except KafkaError as error:
        cure = _cure(error)
        if cure is None or isinstance(error, keep):
            raise
        explained = ExactlyOnceError(f"{subject}{': ' if subject else ''}{unwrap_cause(error)}: {cure}")
        if error.outcome is not None:
            explained.outcome = error.outcome
        raise explained from error


_CURES: tuple[tuple[Callable[[BaseException], bool], str], ...] = (
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
        # INVALID_PRODUCER_EPOCH is what a task gets that goes on writing after its time.
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


def _cure(error: BaseException) -> str | None:
    """By the error, or what it was caused by."""
    cause: BaseException | None = error
    while cause is not None:
        for fits, cure in _CURES:
            if fits(cause):
                return cure
        cause = cause.__cause__
    return None

"""``Producer``: confluent-kafka's interface over ``KafkaProducer``.

``produce`` never waits: a full queue is a ``BufferError``, and messages whose topic is not known yet are kept
aside. Callbacks run in ``poll``, ``flush`` and the transactional calls only, on the thread that calls them.
Source: confluent-kafka's API reference.
"""

from __future__ import annotations

import functools
import operator
import os
import time
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from kproducer import errors as own
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.runtime.arguments import encode_headers
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer._core.sending import blocking
from kproducer._core.sending.admission import PendingSend
from kproducer.compat.confluent_kafka.cluster_metadata import ClusterMetadata
from kproducer.compat.confluent_kafka.delivery_reports import DeliveryReports
from kproducer.compat.confluent_kafka.errors import (
    KafkaException,
    UnknownPartitionError,
    new_error,
    raised,
)
from kproducer.compat.confluent_kafka.events import ErrorEvents, ForwardedLog, Statistics
from kproducer.compat.confluent_kafka.group_offsets import own_group_metadata, own_offsets
from kproducer.compat.confluent_kafka.settings import translated
from kproducer.compat.confluent_kafka.unknown_topics import UnknownTopics, WaitingMessage
from kproducer.errors.hidden_variables import hides_arguments_in
from kproducer.kafka_producer import KafkaProducer, lifecycle_of

if TYPE_CHECKING:
    from typing_extensions import Self

    from kproducer._core.engine.producer_engine import ProducerEngine

_log = GuardedLogger(__name__)

_CLOSED = "Producer has been closed"
_CANNOT_PRODUCE = "Unable to produce message: "
#: How often a waiting call looks for errors of connections and for due statistics.
_EVENT_INTERVAL_S = 0.1
_producers: weakref.WeakSet[Producer] = weakref.WeakSet()


class Producer:
    """Produces messages, with confluent-kafka's interface. Thread-safe.

    Args:
        config: librdkafka's settings by their dotted names, and callbacks.
        settings: more of them, such as ``logger``.

    Raises:
        KafkaException: a setting is unknown, not supported or wrong; the text says what to do.
        TypeError: no dictionary was given, or a callback cannot be called.
    """

    #: Until ``__init__`` is done: as in confluent-kafka, a subclass may forget to call it.
    _is_closed = True

    @hides_arguments_in(KafkaException, TypeError)
    def __init__(self, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        if config is not None and not isinstance(config, Mapping):
            raise TypeError("expected configuration dict")
        if config is None and not settings:
            raise TypeError("expected configuration dict")
        try:
            self._settings = translated({**(config or {}), **settings})
            self._producer = KafkaProducer.from_config(ProducerConfig.from_keywords(self._settings.own))
        except own.KafkaError as error:
            raise raised(error) from error
        chosen = self._settings
        self._lifecycle = lifecycle_of(self._producer)
        self._try_send = self._lifecycle.fast_send.try_send
        self._most_messages = chosen.most_messages or float("inf")
        self._reports = DeliveryReports(chosen.only_errors)
        self._unknown_topics = UnknownTopics(
            self._reports, self._partition_of, chosen.message_timeout_s, chosen.propagation_s
        )
        self._errors = None if chosen.error_cb is None else ErrorEvents(chosen.error_cb, self._lifecycle)
        self._statistics = None
        if chosen.stats_cb is not None and chosen.statistics_s:
            self._statistics = Statistics(chosen, self._producer, self._reports)
        self._forwarded_log = None if chosen.logger is None else ForwardedLog.begin(chosen.logger)
        self._is_closed = False
        _producers.add(self)

    # -- messages --------------------------------------------------------------------------------------

    def produce(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = -1,
        callback: Callable[[Any, Any], object] | None = None,
        on_delivery: Callable[[Any, Any], object] | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """Queue a message. Returns at once.

        Args:
            topic: topic name.
            value, key: ``bytes``, ``str`` (as UTF-8) or ``None``.
            partition: partition number; -1 leaves it to the partitioner.
            callback, on_delivery: ``callback(error, message)``, called by ``poll`` or ``flush``. If both are
                given, only ``callback`` is called.
            timestamp: milliseconds since the epoch; 0 means now.
            headers: a dictionary or a list of (name, value) pairs.

        Raises:
            BufferError: the queue is full: call ``poll``, then try again.
            KafkaException: ``_UNKNOWN_PARTITION``, ``MSG_SIZE_TOO_LARGE``, ``_STATE`` (outside of a
                transaction) and others, as its code says.
            TypeError: an argument has the wrong type.
            UnicodeEncodeError: UTF-8 cannot encode ``value`` or ``key``.
            RuntimeError: the producer is closed.
        """
        if self._is_closed:
            raise RuntimeError(_CLOSED)
        reports = self._reports
        if reports.lock.is_mine:
            reports.check_not_interrupted("produce")
        if reports.count >= self._most_messages:
            raise BufferError("Local: Queue full")
        if callback is not None:
            on_delivery = callback
        elif on_delivery is None:
            on_delivery = self._settings.on_delivery
        started_s = time.monotonic()
        engine = self._lifecycle.engine
        if engine is None:
            engine = self._running_engine()
        count = engine.topics.snapshot.partition_count(topic) if topic.__class__ is str else None
        if not count or (self._unknown_topics.topics and topic in self._unknown_topics.topics):
            self._produce_later(topic, value, key, headers, partition, timestamp, on_delivery, started_s)
            return
        try:
            if partition.__class__ is not int:
                partition, timestamp = _integers(partition, timestamp)
            chosen: int | None = partition
            if partition < 0 or partition >= count:
                chosen = self._partition_of(topic, count, partition, key)
            record = (topic, value, key, headers, chosen, timestamp or None, None)
            future = self._try_send(*record)
            if future is None:
                # After an error the transaction goes on, unlike after one of KafkaProducer.send.
                future = blocking.send(engine.admission, *record, is_told=False)
        except own.KafkaError as error:
            self._refuse(error, topic, value, key, headers, partition, timestamp, on_delivery, started_s)
            return
        reports.add(future, on_delivery, value, key, started_s)

    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = -1,
        callback: Callable[[Any, Any], object] | None = None,
        on_delivery: Callable[[Any, Any], object] | None = None,
    ) -> int:
        """Queue messages given as dictionaries; returns how many were accepted.

        All messages are checked before the first one is queued. One that is refused afterwards, for example
        because the queue is full, gets an entry ``_error`` with the ``KafkaError``.

        Args:
            topic: topic name.
            messages: each with ``value``, ``key``, ``partition``, ``timestamp``, ``headers`` and
                ``callback``, all of them optional and as for ``produce``, but no bytes-like objects.
            partition: of messages without one.
            callback, on_delivery: of messages without one; as for ``produce``.

        Raises:
            TypeError: ``messages`` is not a list of dictionaries, or something else has the wrong type.
            ValueError: headers have the wrong form, or UTF-8 cannot encode a text.
            RuntimeError: the producer is closed.
        """
        _check_topic(topic)
        if not isinstance(messages, list):
            raise TypeError("messages must be a list")
        if not isinstance(partition, int):
            raise TypeError(f"partition must be int, not {type(partition).__name__}")
        if not messages:
            return 0
        self._running_engine()
        default = on_delivery if callback is None else callback
        checked = [
            _checked_message(topic, index, message, partition, default)
            for index, message in enumerate(messages)
        ]
        accepted = 0
        for message, (value, key, chosen, on_delivery, timestamp, headers) in zip(
            messages, checked, strict=True
        ):
            try:
                # Not that of SerializingProducer, whose produce_batch does not serialize.
                Producer.produce(self, topic, value, key, chosen, None, on_delivery, timestamp, headers)
            except Exception as error:
                # Not raised, because the caller would not know which messages were accepted.
                dict.__setitem__(message, "_error", self._error_in_batch(error))
            else:
                accepted += 1
        return accepted

    def _error_in_batch(self, error: Exception) -> Any:
        if isinstance(error, KafkaException):
            return error.args[0]
        if isinstance(error, BufferError):
            return new_error("_QUEUE_FULL", str(error))
        return new_error("_DESTROY" if self._is_closed else "_FAIL", f"{_CANNOT_PRODUCE}{error}")

    def _produce_later(
        self,
        topic: Any,
        value: Any,
        key: Any,
        headers: Any,
        partition: Any,
        timestamp: Any,
        callback: Callable[[Any, Any], object] | None,
        started_s: float,
    ) -> None:
        """The topic is not known: check what can be checked, and keep the message aside."""
        _check_topic(topic)
        partition, timestamp = _integers(partition, timestamp)
        # The caller may change these before the topic is known.
        value, key = _unchangeable(value), _unchangeable(key)
        for number, argument in ((2, value), (3, key)):
            if not isinstance(argument, (bytes, type(None))):
                raise TypeError(
                    f"argument {number}: a bytes-like object is required, not {type(argument).__name__!r}"
                )
        try:
            headers = None if headers is None else encode_headers(topic, headers)
        except own.SerializationError as wrong:
            raise TypeError(str(wrong)) from wrong
        limit = self._producer.config.max_request_size
        if len(value or b"") + len(key or b"") > limit:
            error = own.RecordTooLargeError(f"the message is larger than message.max.bytes={limit}")
            raise raised(error, _CANNOT_PRODUCE) from error
        engine = self._running_engine()
        timestamp_ms = timestamp or int(time.time() * 1000)
        record = PendingSend(engine.admission, (topic, value, key, headers, partition, timestamp_ms, None))
        try:
            record.check_transaction()
        except own.KafkaError as error:
            raise raised(error, _CANNOT_PRODUCE) from error
        message = WaitingMessage(record, callback, started_s)
        if self._unknown_topics.size_bytes + message.size_bytes > engine.available_bytes:
            raise BufferError("Local: Queue full")
        self._unknown_topics.add(topic, message)

    def _partition_of(self, topic: str, count: int, partition: int, key: Any) -> int | None:
        """The partition of a message; ``None``: the engine chooses it.

        With a key: librdkafka's ``consistent`` and ``consistent_random``.

        Args:
            topic, count: it has so many partitions.
            partition, key: of ``produce``.

        Raises:
            UnknownPartitionError: the topic does not have the partition.
        """
        if partition != -1:
            if not 0 <= partition < count:
                raise UnknownPartitionError(f"{topic} has partitions 0 to {count - 1}, not {partition}")
            return partition
        hash_of_key = self._settings.hash_of_key
        if hash_of_key is None or (not key and hash_of_key == "crc32"):
            return None
        return zlib.crc32(key.encode() if key.__class__ is str else key or b"") % count

    def _refuse(self, error: own.KafkaError, *message: Any) -> None:
        """The engine has refused a message: the arguments of ``_produce_later``.

        Raises:
            BufferError, KafkaException, TypeError, UnicodeEncodeError, RuntimeError: see ``produce``.
        """
        if isinstance(error, own.MetadataTimeoutError):
            # The topic has just been forgotten, because it was not used for a while.
            self._produce_later(*message)
            return
        if isinstance(error, own.BufferExhaustedError):
            raise BufferError("Local: Queue full") from error
        if isinstance(error, own.SerializationError):
            if isinstance(error.__cause__, UnicodeEncodeError):
                raise error.__cause__
            raise TypeError(str(error)) from error
        if isinstance(error, own.ProducerClosedError):
            raise RuntimeError(_CLOSED) from error
        *_, partition, timestamp, _, _ = message
        _integers(partition, timestamp)
        raise raised(error, _CANNOT_PRODUCE) from error

    def __len__(self) -> int:
        """Messages that are not acknowledged, or whose callback has not run."""
        return 0 if self._is_closed else self._reports.unreported()

    def __bool__(self) -> bool:
        return True

    # -- events ----------------------------------------------------------------------------------------

    def poll(self, timeout: float | None = -1) -> int:
        """Run the callbacks of what is done.

        Args:
            timeout: how long to wait for the first one, in seconds; -1 or ``None``: without limit.

        Returns:
            How many messages were reported.

        Raises:
            Exception: of a callback; the rest is reported by the next call.
        """
        self._engine_for("poll", may_wait=timeout != 0)
        deadline_s = _deadline(timeout)
        while True:
            served = self._serve()
            left_s = deadline_s - time.monotonic()
            if served or left_s <= 0:
                return served
            self._reports.wait(min(left_s, self._longest_wait_s()))

    def flush(self, timeout: float | None = -1) -> int:
        """Deliver everything, and run the callbacks.

        Args:
            timeout: seconds; -1 or ``None``: until everything is reported.

        Returns:
            How many messages are left.

        Raises:
            Exception: of a callback; the rest is reported by the next call.
        """
        engine = self._engine_for("flush")
        deadline_s = _deadline(timeout)
        with engine.flushing():
            while True:
                self._serve()
                left_s = deadline_s - time.monotonic()
                left = self._reports.unreported()
                if not left or left_s <= 0:
                    return left
                self._reports.wait_all(min(left_s, self._longest_wait_s()))

    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        """Give up messages; their callbacks, with ``_PURGE_QUEUE`` or ``_PURGE_INFLIGHT``, run in ``poll``.

        Args:
            in_queue: messages that wait to be sent.
            in_flight: messages in requests that are not answered; they may be written.
            blocking: accepted; the call always waits for the purge, which takes a round of the I/O thread.
        """
        self._engine_for("purge", may_wait=False)
        if in_queue:
            self._unknown_topics.purge()
        with _raising():
            self._producer.purge(bool(in_queue), bool(in_flight))

    def _engine_for(self, call: str, may_wait: bool = True) -> ProducerEngine:
        """The engine for a call that runs callbacks, or ends messages. Raises if it must not be made now."""
        engine = self._running_engine()
        self._reports.check_not_interrupted(call)
        if may_wait:
            with _raising():
                engine.check_may_wait(call)
        return engine

    def _serve(self) -> int:
        served = self._reports.serve()
        if self._errors is not None:
            served += self._errors.serve()
        if self._statistics is not None:
            served += self._statistics.serve()
        return served

    def _longest_wait_s(self) -> float:
        return 3600 if self._errors is None and self._statistics is None else _EVENT_INTERVAL_S

    # -- the cluster -----------------------------------------------------------------------------------

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """Ask a broker for brokers, topics and partitions. Creates no topic.

        Args:
            topic: the only topic to ask for; ``None``: all.
            timeout: seconds; -1: a minute.

        Raises:
            KafkaException: no broker answered in time (``_TRANSPORT``), or all refused the credentials.
        """
        self._running_engine()
        try:
            return ClusterMetadata(self._producer.list_topics(topic, 60.0 if timeout < 0 else timeout))
        except own.KafkaTimeoutError as error:
            # librdkafka's code where no broker can be asked.
            raise KafkaException(new_error("_TRANSPORT", f"Failed to get metadata: {error}")) from error
        except own.KafkaError as error:
            raise raised(error, "Failed to get metadata: ") from error

    def cluster_id(self, timeout: float = -1) -> str | None:
        """The id of the cluster. Raises as ``list_topics``."""
        found: str | None = self.list_topics(timeout=timeout).cluster_id
        return found

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Not supported: raises ``KafkaException`` (``_NOT_IMPLEMENTED``)."""
        text = "set_sasl_credentials: credentials cannot be replaced; create another Producer"
        raise KafkaException(new_error("_NOT_IMPLEMENTED", text))

    # -- transactions ----------------------------------------------------------------------------------

    def init_transactions(self, timeout: float = -1) -> None:
        """Register the transactional id, and fence earlier producers that have it. Raises KafkaException."""
        self._check_transactional()
        with _raising():
            self._producer.init_transactions(self._transaction_timeout(timeout))

    def begin_transaction(self) -> None:
        """Begin a transaction. Raises KafkaException."""
        self._check_transactional()
        with _raising():
            self._producer.begin_transaction()

    def send_offsets_to_transaction(
        self, positions: Iterable[Any], group_metadata: Any, timeout: float = -1
    ) -> None:
        """Make offsets part of the transaction.

        Args:
            positions: confluent-kafka's ``TopicPartition`` objects with the next offset to read.
            group_metadata: what ``consumer_group_metadata()`` of its consumer returns.
            timeout: seconds; -1: ``transaction.timeout.ms``.

        Raises:
            KafkaException: see ``txn_requires_abort``, ``retriable`` and ``fatal`` of its error.
        """
        self._check_transactional()
        with _raising():
            self._producer.send_offsets_to_transaction(
                own_offsets(positions), own_group_metadata(group_metadata), self._transaction_timeout(timeout)
            )

    def commit_transaction(self, timeout: float = -1) -> None:
        """Flush, running callbacks, then commit. Raises KafkaException, and what callbacks raise."""
        self._check_transactional()
        timeout_s = self._transaction_timeout(timeout)
        deadline_s = time.monotonic() + timeout_s
        with _raising():
            if self._running_engine().has_open_transaction and self.flush(timeout_s):
                text = f"commit_transaction: {len(self)} messages are not delivered after {timeout_s:g} s"
                raise own.KafkaTimeoutError(text)
            self._producer.commit_transaction(max(deadline_s - time.monotonic(), 0))

    def abort_transaction(self, timeout: float = -1) -> None:
        """Give up the queue, abort, and run callbacks. Raises KafkaException, and what callbacks raise."""
        self._check_transactional()
        with _raising():
            self._unknown_topics.purge()
            self._producer.abort_transaction(self._transaction_timeout(timeout))
        self._serve()

    def _check_transactional(self) -> None:
        if not self._running_engine().config.transactional_id:
            text = "The Transactional API requires transactional.id to be configured"
            raise KafkaException(new_error("_NOT_CONFIGURED", text))

    def _transaction_timeout(self, timeout: float) -> float:
        return self._producer.config.transaction_timeout_ms / 1000 if timeout < 0 else timeout

    # -- the end ---------------------------------------------------------------------------------------

    def close(self) -> bool:
        """Abort an open transaction, deliver everything, run the callbacks and stop. May be repeated.

        Raises:
            Exception: of a callback; call ``close`` again.
            KafkaException: ``_STATE``, in a signal handler that interrupted another call.
        """
        if not self._is_closed:
            engine = self._running_engine()
            self._reports.check_not_interrupted("close")
            with _raising():
                engine.check_may_wait("close")
            if engine.has_open_transaction:
                # A producer that cannot abort, for example because it is fenced, can still be closed.
                with suppress(KafkaException):
                    self.abort_transaction()
            self.flush()
            self._is_closed = True
            try:
                self._producer.close()
            finally:
                if self._forwarded_log is not None:
                    self._forwarded_log.end()
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close()
        except Exception:  # the exception of the block is the one to raise
            _log.exception("A producer could not be closed after its block had failed")

    def _running_engine(self) -> ProducerEngine:
        if self._is_closed:
            raise RuntimeError(_CLOSED)
        return self._lifecycle.running_engine()

    def _forget_after_fork(self) -> None:
        self._reports.forget_after_fork()
        self._unknown_topics.forget_after_fork()


def _check_topic(topic: Any) -> None:
    if not isinstance(topic, str):
        raise TypeError(f"argument 1 must be str, not {type(topic).__name__}")


def _integers(partition: Any, timestamp: Any) -> tuple[int, int]:
    """Both as ``int``. As in confluent-kafka, types such as numpy's and ``bool`` are integers, too."""
    try:
        return int(operator.index(partition)), 0 if timestamp is None else int(operator.index(timestamp))
    except TypeError:
        raise TypeError(
            "partition and timestamp must be integers, not"
            f" {type(partition).__name__} and {type(timestamp).__name__}"
        ) from None


def _unchangeable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    return bytes(value) if isinstance(value, (bytearray, memoryview)) else value


def _checked_message(
    topic: str, index: int, message: Any, partition: int, callback: Any
) -> tuple[Any, Any, int, Any, int, Any]:
    """Value, key, partition, callback, timestamp and headers of one message of a batch.

    Args:
        topic: for the error's text.
        index: its place in the batch.
        message: the application's.
        partition, callback: if it has none.

    Raises:
        TypeError, ValueError: see ``Producer.produce_batch``.
    """
    if not isinstance(message, dict):
        raise TypeError(f"Message at index {index} must be a dict")
    # As in confluent-kafka, what a subclass overrides is not called.
    get = functools.partial(dict.get, message)
    texts = []
    for name in ("value", "key"):
        given = get(name)
        if not isinstance(given, (bytes, str, type(None))):
            raise TypeError(f"Message {name} at index {index} must be bytes or str")
        texts.append(given.encode() if isinstance(given, str) else given)
    numbers = []
    for name, default in (("partition", partition), ("timestamp", 0)):
        given = get(name)
        if not isinstance(given, (int, type(None))):
            raise TypeError(f"Message {name} at index {index} must be int")
        numbers.append(default if given is None else given)
    headers = get("headers")
    if headers is not None:
        try:
            headers = encode_headers(topic, headers)
        except own.SerializationError as wrong:
            raise ValueError(f"Invalid headers at index {index}: {wrong}") from wrong
    own_callback = get("callback")
    return (*texts, numbers[0], callback if own_callback is None else own_callback, numbers[1], headers)


def _deadline(timeout: float | None) -> float:
    if timeout is None or timeout < 0:
        return float("inf")
    return time.monotonic() + timeout


@contextmanager
def _raising() -> Iterator[None]:
    """Raise what kproducer raises as ``KafkaException``."""
    try:
        yield
    except own.KafkaError as error:
        raise raised(error) from error


def _forget_after_fork() -> None:
    ForwardedLog.forget_after_fork()
    for producer in list(_producers):
        producer._forget_after_fork()


os.register_at_fork(after_in_child=_forget_after_fork)

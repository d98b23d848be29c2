"""UnknownTopics: messages whose topic is not known yet, because ``produce`` does not wait for metadata.

A thread asks for the topics, gives the messages to the engine in order as soon as a topic is known, and fails
them when their time is over or the topic does not exist. It runs only while there are such messages.
Source: librdkafka, whose ``produce`` queues messages of unknown topics.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from kproducer._core.client.snapshot_merger import UNKNOWN_TOPIC_OR_PARTITION_CODE
from kproducer._core.runtime.arguments import LONGEST_WAIT_S
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer._core.transactions.transaction_state import OpenTransaction
from kproducer.compat.confluent_kafka.delivery_reports import DeliveryReports, Undelivered
from kproducer.errors import (
    BufferExhaustedError,
    DeliveryTimeoutError,
    KafkaError,
    MetadataTimeoutError,
    Outcome,
    PurgedError,
)
from kproducer.errors.broker_errors import error_for_code
from kproducer.kafka_producer import KafkaProducer

#: How often the thread looks whether a topic is known.
_PAUSE_S = 0.02
#: How long the end of the process may wait without a line in the log.
_SILENT_S = 1.0
#: This runs before process_lifecycle, which closes the engines.
_EXIT_PRIORITY = 120
_log = GuardedLogger(__name__)


class WaitingMessage(NamedTuple):
    """The arguments of one ``produce``, when it was called (monotonic seconds), and in which transaction."""

    topic: str
    value: Any
    key: Any
    headers: Any
    partition: int
    timestamp_ms: int
    callback: Callable[[Any, Any], object] | None
    started_s: float
    transaction: OpenTransaction | None

    @property
    def size_bytes(self) -> int:
        """About how much memory it will need in the engine."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers or ())
        return len(self.value or b"") + len(self.key or b"") + headers


class UnknownTopics:
    """Messages of topics that are not known yet. Thread-safe.

    Args:
        producer: with ``max_block_ms=0``.
        reports: gets the messages that fail here.
        send: gives a message to the engine and adds it to the reports.
        timeout_s: a message that has waited for so long fails.
        propagation_s: a topic that does not exist is waited for so long.

    Attributes:
        topics: by name, oldest message first. Lock-free reads: whether a topic has messages here.
        size_bytes: of all messages here.
    """

    def __init__(
        self,
        producer: KafkaProducer,
        reports: DeliveryReports,
        send: Callable[[WaitingMessage], None],
        timeout_s: float,
        propagation_s: float,
    ) -> None:
        self._producer = producer
        self._reports = reports
        self._send = send
        self._timeout_s = timeout_s
        self._propagation_s = propagation_s
        self._lock = threading.RLock()
        # Guarded by _lock.
        self.topics: dict[str, deque[WaitingMessage]] = {}
        self._first_asked_s: dict[str, float] = {}
        self._thread: threading.Thread | None = None
        self.size_bytes = 0
        self._is_at_exit = False
        self._lost = 0
        self._last_error: KafkaError | None = None

    def add(self, message: WaitingMessage) -> None:
        """Keep a message until its topic is known. The reports count it."""
        with self._lock:
            if self._thread is None:
                # Started before anything is changed, because start() may raise. The thread waits for the
                # lock.
                thread = threading.Thread(target=self._run, name="kproducer-unknown-topics", daemon=True)
                thread.start()
                self._thread = thread
                _call_at_exit(self)
            self._reports.count_waiting(1)
            self.topics.setdefault(message.topic, deque()).append(message)
            self._first_asked_s.setdefault(message.topic, message.started_s)
            self.size_bytes += message.size_bytes

    def purge(self) -> None:
        """Fail all messages that are here."""
        with self._lock:
            for topic in list(self.topics):
                self._fail(topic, PurgedError("purge() has given up this message"), len(self.topics[topic]))

    def forget_after_fork(self) -> None:
        """In a forked child: the messages belong to its parent."""
        self._lock = threading.RLock()
        self.topics = {}
        self._first_asked_s = {}
        self._thread = None
        self.size_bytes = 0
        self._is_at_exit = False
        self._lost = 0

    def begin_at_exit(self) -> None:
        """The process ends: from now on, messages that fail are counted."""
        self._is_at_exit = True

    def finish_at_exit(self) -> None:
        """The process ends: wait until the engine has all messages or they have failed; log the losses."""
        thread = self._thread
        try:
            if thread is not None:
                thread.join(_SILENT_S)
                if thread.is_alive():
                    _log.warning(
                        "At the end of the process: waiting for topics %s, which are not known yet, for at"
                        " most message.timeout.ms; press Ctrl-C to give up",
                        sorted(self.topics),
                    )
                    thread.join(min(self._timeout_s, LONGEST_WAIT_S))
        except KeyboardInterrupt:
            pass  # Ctrl-C: the user does not want to wait any longer
        self.purge()
        if self._lost:
            _log.error(
                "%d messages were lost: their topics were not known when the process ended: %s",
                self._lost,
                self._last_error,
            )

    def _run(self) -> None:
        while True:
            with self._lock:
                for topic in list(self.topics):
                    try:
                        self._advance(topic)
                    except Exception as bug:  # no message may wait for ever
                        error = KafkaError(f"internal error while waiting for topic {topic!r}: {bug!r}")
                        self._fail(topic, error, len(self.topics[topic]))
                if not self.topics:
                    self._thread = None
                    return
            time.sleep(_PAUSE_S)

    def _advance(self, topic: str) -> None:
        waiting = self.topics[topic]
        now_s = time.monotonic()
        try:
            self._producer.partitions_for(topic)
        except MetadataTimeoutError:
            self._fail_late(topic, now_s)
            return
        except KafkaError as error:
            self._fail(topic, error, len(waiting))
            return
        while waiting:
            try:
                self._send(waiting[0])
            except BufferExhaustedError:
                text = "message.timeout.ms has passed, and there was no memory for the message"
                self._fail_expired(topic, text, now_s)
                return
            except KafkaError as error:
                self._fail(topic, error, 1)
            else:
                self.size_bytes -= waiting.popleft().size_bytes
        self._forget_if_empty(topic)

    def _fail_late(self, topic: str, now_s: float) -> None:
        engine = self._producer._lifecycle.running_engine()
        missing = engine.metadata.topic_error(topic)
        is_missing = missing is not None and missing.code == UNKNOWN_TOPIC_OR_PARTITION_CODE
        if is_missing and now_s - self._first_asked_s[topic] >= self._propagation_s:
            text = f"topic {topic!r} does not exist"
            self._fail(topic, error_for_code(UNKNOWN_TOPIC_OR_PARTITION_CODE, text), len(self.topics[topic]))
            return
        causes = "; ".join(filter(None, (str(missing or ""), engine.last_errors())))
        text = f"message.timeout.ms has passed, and topic {topic!r} is not known"
        self._fail_expired(topic, f"{text}: {causes}" if causes else text, now_s)

    def _fail_expired(self, topic: str, text: str, now_s: float) -> None:
        expired = sum(now_s - each.started_s >= self._timeout_s for each in self.topics[topic])
        if expired:
            self._fail(topic, DeliveryTimeoutError(text), expired)

    def _fail(self, topic: str, error: KafkaError, count: int) -> None:
        """Fail the oldest messages of a topic."""
        waiting = self.topics[topic]
        error = error.with_outcome(Outcome.NOT_SENT)
        failed = [waiting.popleft() for _ in range(count)]
        self.size_bytes -= sum(each.size_bytes for each in failed)
        if self._is_at_exit:
            self._lost += count
            self._last_error = error
        self._reports.add_undelivered(
            [
                (
                    Undelivered(topic, each.partition, error.copy()),
                    each.callback,
                    each.value,
                    each.key,
                    each.started_s,
                )
                for each in failed
            ]
        )
        engine = self._producer._lifecycle.last_engine
        if engine is not None and engine.transaction_lifecycle is not None:
            # The transaction must not be committed without these messages.
            for each in failed:
                engine.transaction_lifecycle.send_failed(error, each.transaction)
        self._forget_if_empty(topic)

    def _forget_if_empty(self, topic: str) -> None:
        if not self.topics.get(topic, True):
            del self.topics[topic]
            self._first_asked_s.pop(topic, None)


_used: weakref.WeakSet[UnknownTopics] = weakref.WeakSet()
_multiprocessing_exit_pid = -1


def _call_at_exit(topics: UnknownTopics) -> None:
    """Hand its messages over when the process ends. ``multiprocessing``'s children skip ``atexit``."""
    global _multiprocessing_exit_pid
    _used.add(topics)
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None or _multiprocessing_exit_pid == os.getpid():
        return
    from multiprocessing import util

    _multiprocessing_exit_pid = os.getpid()
    util.Finalize(None, _hand_over_at_exit, exitpriority=_EXIT_PRIORITY)


def _hand_over_at_exit() -> None:
    used = list(_used)
    for topics in used:
        topics.begin_at_exit()
    for topics in used:
        topics.finish_at_exit()


# atexit runs the functions in reverse order. process_lifecycle, which closes the engines, was imported
# before, so this one runs first.
atexit.register(_hand_over_at_exit)

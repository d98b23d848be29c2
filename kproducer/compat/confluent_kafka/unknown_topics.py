"""UnknownTopics: messages whose topic is not known yet, because ``produce`` does not wait for metadata.

A thread asks for the topics, gives the messages to the engine in order as soon as a topic is known, and fails
them when their time is over or the topic does not exist. It runs only while there are such messages.
Source: librdkafka, whose ``produce`` queues messages of unknown topics.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from kproducer.client.snapshot_merger import UNKNOWN_TOPIC_OR_PARTITION_CODE
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


class WaitingMessage(NamedTuple):
    """The arguments of one ``produce``, and when it was called (monotonic seconds)."""

    topic: str
    value: Any
    key: Any
    headers: Any
    partition: int
    timestamp_ms: int
    callback: Callable[[Any, Any], object] | None
    started_s: float


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
        self._wake = threading.Event()

    def add(self, message: WaitingMessage) -> None:
        """Keep a message until its topic is known. The reports count it."""
        with self._lock:
            self._reports.count_waiting(1)
            self.topics.setdefault(message.topic, deque()).append(message)
            self._first_asked_s.setdefault(message.topic, message.started_s)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="kproducer-unknown-topics", daemon=True
                )
                self._thread.start()

    def purge(self) -> None:
        """Fail all messages that are here."""
        with self._lock:
            for topic in list(self.topics):
                self._fail(topic, PurgedError("purge() has given up this message"), len(self.topics[topic]))

    def forget_after_fork(self) -> None:
        """In a forked child: the messages belong to its parent."""
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self.topics = {}
        self._first_asked_s = {}
        self._thread = None

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
            self._wake.wait(_PAUSE_S)

    def _advance(self, topic: str) -> None:
        waiting = self.topics[topic]
        now_s = time.monotonic()
        try:
            self._producer.partitions_for(topic)
        except MetadataTimeoutError as error:
            self._fail_late(topic, error, now_s)
            return
        except KafkaError as error:
            self._fail(topic, error, len(waiting))
            return
        while waiting:
            try:
                self._send(waiting[0])
            except BufferExhaustedError:
                return
            except KafkaError as error:
                self._fail(topic, error, 1)
            else:
                waiting.popleft()
        self._forget_if_empty(topic)

    def _fail_late(self, topic: str, cause: MetadataTimeoutError, now_s: float) -> None:
        engine = self._producer._lifecycle.running_engine()
        missing = engine.metadata.topic_error(topic)
        is_missing = missing is not None and missing.code == UNKNOWN_TOPIC_OR_PARTITION_CODE
        if is_missing and now_s - self._first_asked_s[topic] >= self._propagation_s:
            text = f"topic {topic!r} does not exist"
            self._fail(topic, error_for_code(UNKNOWN_TOPIC_OR_PARTITION_CODE, text), len(self.topics[topic]))
            return
        expired = sum(now_s - each.started_s >= self._timeout_s for each in self.topics[topic])
        if expired:
            text = f"message.timeout.ms has passed, and the topic is not known: {cause}"
            self._fail(topic, DeliveryTimeoutError(text), expired)

    def _fail(self, topic: str, error: KafkaError, count: int) -> None:
        """Fail the oldest messages of a topic."""
        waiting = self.topics[topic]
        error = error.with_outcome(Outcome.NOT_SENT)
        failed = [waiting.popleft() for _ in range(count)]
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
            # As for every message of a transaction that was not written.
            engine.transaction_lifecycle.send_failed(error)
        self._forget_if_empty(topic)

    def _forget_if_empty(self, topic: str) -> None:
        if not self.topics.get(topic, True):
            del self.topics[topic]
            self._first_asked_s.pop(topic, None)

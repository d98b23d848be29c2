"""UnknownTopics: messages whose topic is not known yet, because ``produce`` does not wait for metadata.

A thread asks for the topics, gives the messages to the engine in order as soon as a topic is known, and fails
them when their time is over or the topic does not exist. It runs only while there are such messages.
Source: librdkafka, whose ``produce`` queues messages of unknown topics.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from kproducer._core.client.metadata_snapshot import MetadataSnapshot
from kproducer._core.client.snapshot_merger import UNKNOWN_TOPIC_OR_PARTITION_CODE
from kproducer._core.runtime import fork_and_exit
from kproducer._core.runtime.arguments import LONGEST_WAIT_S
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer._core.runtime.thread_wakeup import ThreadWakeup
from kproducer._core.sending.admission import NEW, PendingSend
from kproducer._core.sending.needs import MemoryNeed, Need, TopicNeed
from kproducer.compat.confluent_kafka.delivery_reports import DeliveryReports, Report
from kproducer.compat.confluent_kafka.message import Undelivered
from kproducer.errors import DeliveryTimeoutError, KafkaError, Outcome, PurgedError
from kproducer.errors.broker_errors import error_for_code

#: How long the end of the process may wait without a line in the log.
_SILENT_S = 1.0
_log = GuardedLogger(__name__)


class WaitingMessage(NamedTuple):
    """The record of one ``produce``, its callback, and when it was called (monotonic seconds)."""

    record: PendingSend
    callback: Callable[[Any, Any], object] | None
    started_s: float

    @property
    def size_bytes(self) -> int:
        """About how much memory it will need in the engine."""
        _, value, key, headers, *_ = self.record.arguments
        return (
            len(value or b"")
            + len(key or b"")
            + sum(len(name) + len(it or b"") for name, it in headers or ())
        )


class _WaitingTopic:
    """The messages of a topic, oldest first, and what they wait for; ``None``: the thread has not asked."""

    def __init__(self) -> None:
        self.messages: deque[WaitingMessage] = deque()
        self.need: TopicNeed | None = None


class UnknownTopics:
    """Messages of topics that are not known yet. Thread-safe.

    Args:
        reports: gets the messages, those that fail here too.
        partition_of: from (topic, number of its partitions, partition of ``produce``, key) to the partition
            for the engine.
        timeout_s: a message that has waited for so long fails.
        propagation_s: a topic that does not exist is waited for so long.

    Attributes:
        topics: by name. Lock-free reads: whether a topic has messages here.
        size_bytes: of all messages here.
    """

    def __init__(
        self,
        reports: DeliveryReports,
        partition_of: Callable[[str, int, int, Any], int | None],
        timeout_s: float,
        propagation_s: float,
    ) -> None:
        self._reports = reports
        self._partition_of = partition_of
        self._timeout_s = timeout_s
        self._propagation_s = propagation_s
        self.forget_after_fork()
        _used.add(self)

    def forget_after_fork(self) -> None:
        """In a forked child: the messages belong to its parent."""
        self._lock = threading.RLock()
        # Guarded by _lock.
        self.topics: dict[str, _WaitingTopic] = {}
        self.size_bytes = 0
        self._thread: threading.Thread | None = None
        self._is_at_exit = False
        self._lost = 0
        self._last_error: KafkaError | None = None
        #: Called by any thread when there is something to look at.
        self._wake = ThreadWakeup()

    def add(self, topic: str, message: WaitingMessage) -> None:
        """Keep a message until its topic is known. The reports count it."""
        with self._lock:
            if self._thread is None:
                # Started before anything is changed, because start() may raise. The thread waits for the
                # lock.
                thread = threading.Thread(target=self._run, name="kproducer-unknown-topics", daemon=True)
                thread.start()
                self._thread = thread
            self._reports.count_waiting(1)
            self.size_bytes += message.size_bytes
            waiting = self.topics.get(topic) or _WaitingTopic()
            waiting.messages.append(message)
            # Last, because a signal handler may call ``purge`` in between, which forgets the topic.
            if waiting.messages and self.topics.get(topic) is not waiting:
                self.topics[topic] = waiting
                self._wake()

    def purge(self) -> None:
        """Fail all messages that are here."""
        with self._lock:
            for topic in list(self.topics):
                self._fail(topic, PurgedError("purge() has given up this message"))
            self._wake()

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
                looked_s = time.monotonic()
                for topic in list(self.topics):
                    try:
                        self._advance(topic, looked_s)
                    except Exception as bug:  # no message may wait for ever
                        self._fail(
                            topic, KafkaError(f"internal error while waiting for topic {topic!r}: {bug!r}")
                        )
                if not self.topics:
                    self._thread = None
                    return
                left_s = self._left_s(looked_s)
            self._wake.wait(left_s)

    def _left_s(self, looked_s: float) -> float:
        """How long until the time of a message, or that of a missing topic, is over.

        Times that have passed since the look at ``looked_s`` count: nothing else may wake the thread.
        """
        starts = [waiting.messages[0].started_s for waiting in self.topics.values()]
        ends = [start + limit for start in starts for limit in (self._timeout_s, self._propagation_s)]
        next_end = min((end for end in ends if end > looked_s), default=looked_s)
        return max(next_end - time.monotonic(), 0.0)

    def _advance(self, topic: str, now_s: float) -> None:
        waiting = self.topics[topic]
        messages = waiting.messages
        try:
            if waiting.need is None:
                waiting.need = TopicNeed(messages[0].record.admission.topics, topic, None)
                waiting.need.subscribe(self._wake)
            snapshot = waiting.need.known() if waiting.need.is_met() else None
            if snapshot is None:
                self._fail_late(topic, waiting.need, now_s)
                return
        except KafkaError as error:
            self._fail(topic, error)
            return
        while messages:
            try:
                if not self._is_accepted(messages[0], snapshot):
                    text = "message.timeout.ms has passed, and there was no memory for the message"
                    self._fail_expired(topic, text, now_s)
                    return
            except KafkaError as error:
                self._fail(topic, error, 1)
            else:
                self.size_bytes -= messages.popleft().size_bytes
        self._forget_if_empty(topic)

    def _is_accepted(self, message: WaitingMessage, snapshot: MetadataSnapshot) -> bool:
        """Give a message to the engine. ``False``: there is no memory yet. Raises why it is refused."""
        record = message.record
        topic, value, key, headers, partition, *rest = record.arguments
        if record.stage == NEW:
            partition = self._partition_of(topic, snapshot.partition_count(topic) or 0, partition, key)
            record.arguments = (topic, value, key, headers, partition, *rest)
        advanced = record.advance()
        if isinstance(advanced, Need):
            if isinstance(advanced, MemoryNeed) and not advanced.is_subscribed:
                advanced.subscribe(self._wake)
            return False
        self._reports.add(advanced, message.callback, value, key, message.started_s, is_counted=True)
        return True

    def _fail_late(self, topic: str, need: TopicNeed, now_s: float) -> None:
        missing = need.refusal
        is_missing = missing is not None and missing.code == UNKNOWN_TOPIC_OR_PARTITION_CODE
        if is_missing and now_s - self.topics[topic].messages[0].started_s >= self._propagation_s:
            text = f"topic {topic!r} does not exist"
            self._fail(topic, error_for_code(UNKNOWN_TOPIC_OR_PARTITION_CODE, text))
            return
        causes = "; ".join(filter(None, (str(missing or ""), need.last_errors())))
        text = f"message.timeout.ms has passed, and topic {topic!r} is not known"
        self._fail_expired(topic, f"{text}: {causes}" if causes else text, now_s)

    def _fail_expired(self, topic: str, text: str, now_s: float) -> None:
        messages = self.topics[topic].messages
        expired = sum(now_s - each.started_s >= self._timeout_s for each in messages)
        if expired:
            self._fail(topic, DeliveryTimeoutError(text), expired)

    def _fail(self, topic: str, error: KafkaError, count: int | None = None) -> None:
        """Fail the oldest messages of a topic, or all."""
        messages = self.topics[topic].messages
        error = error.with_outcome(Outcome.NOT_SENT)
        failed = [messages.popleft() for _ in range(len(messages) if count is None else count)]
        self.size_bytes -= sum(each.size_bytes for each in failed)
        if self._is_at_exit:
            self._lost += len(failed)
            self._last_error = error
        reports: list[Report] = []
        for record, callback, started_s in failed:
            record.refuse(error)  # its transaction must not be committed without it
            _, value, key, _, partition, *_ = record.arguments
            undelivered = Undelivered(topic, -1 if partition is None else partition, error.copy())
            reports.append((undelivered, callback, value, key, started_s))
        self._reports.add_undelivered(reports)
        self._forget_if_empty(topic)

    def _forget_if_empty(self, topic: str) -> None:
        waiting = self.topics.get(topic)
        if waiting is not None and not waiting.messages:
            del self.topics[topic]
            if waiting.need is not None:
                waiting.need.cancel()
                waiting.need = None  # an interrupted ``add`` may still put a message in here


_used: weakref.WeakSet[UnknownTopics] = weakref.WeakSet()


def _hand_over_at_exit() -> None:
    used = list(_used)
    for topics in used:
        topics.begin_at_exit()
    for topics in used:
        topics.finish_at_exit()


fork_and_exit.before_close.append(_hand_over_at_exit)

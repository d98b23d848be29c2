"""Metadata: which topics to request and when, the latest snapshot of the cluster, and waiting for updates.

The network client sends the requests and passes the responses in; all other parts read ``Metadata.snapshot``.
A topic is requested while it is in use; a new topic is requested alone and at once. Knows nothing of sockets.
Source: Kafka classes ``Metadata`` and ``ProducerMetadata``; KIP-526 (partial requests), KIP-580 (backoff),
KIP-899 (rebootstrap).
"""

from __future__ import annotations

import random as random_module
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kproducer._core.client.metadata_snapshot import MetadataSnapshot
from kproducer._core.client.snapshot_merger import (
    INVALID_TOPIC_CODE,
    TOPIC_AUTHORIZATION_FAILED_CODE,
    SnapshotMerger,
)
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.runtime.clock import ExponentialBackoff
from kproducer._core.runtime.guarded_logger import GuardedLogger, LogRepeats
from kproducer.errors import (
    AuthenticationError,
    BrokerError,
    KafkaError,
    ProducerClosedError,
    printable,
)
from kproducer.types import Node, TopicPartition

if TYPE_CHECKING:
    from kproducer_messages import MetadataResponse

_log = GuardedLogger(__name__)

#: A topic that does not exist is requested about every second: one warning in this time.
_QUIET_MS = 60_000

#: Before this version the leader epochs of a broker could go backwards (KAFKA-12257).
FIRST_VERSION_WITH_RELIABLE_LEADER_EPOCHS = 9


class MetadataRequestAndVersion(NamedTuple):
    """The content of a Metadata request; passed to ``Metadata.update`` with the response.

    Attributes:
        topics: names; without any, only the brokers are requested.
        request_version: tells whether topics were added after the request was made.
        is_partial: only new topics are requested.
    """

    topics: tuple[str, ...]
    request_version: int
    is_partial: bool


class Metadata:
    """The latest snapshot of the cluster, the topics in use, and the timers of updates. Thread-safe.

    Args:
        config: ``retry_backoff_ms`` and ``retry_backoff_max_ms``: the waits between two requests, which grow
            while requests fail or bring no news. ``metadata_max_age_ms``: the age at which all topics are
            requested again. ``metadata_max_idle_ms``: a topic that was not added again for this long is
            dropped.
        random: source of the backoff jitter.

    Attributes:
        snapshot: complete and immutable; read without the lock.
        update_version: grows with every update.
        last_failure: why the latest request failed, for error messages; ``None`` after a success.
        last_successful_update_ms: when the last full update arrived (monotonic); ``None`` before the first.
        fresh_until_ms: no update is due before this time (monotonic) unless one is requested; 0: one was
            requested. Read without the lock.
    """

    def __init__(self, config: ProducerConfig, *, random: random_module.Random | None = None) -> None:
        # Fixed after construction.
        self._backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms, random)
        self._max_age_ms = config.metadata_max_age_ms
        self._max_idle_ms = config.metadata_max_idle_ms
        self._renewal_ms = config.metadata_max_idle_ms // 100
        #: Guards everything below.
        self._lock = threading.RLock()
        # Written under _lock, read by any thread.
        self.snapshot = MetadataSnapshot()
        self.update_version = 0
        self.is_closed = False
        self.last_failure: KafkaError | None = None
        self.last_successful_update_ms: int | None = None
        # Guarded by _lock.
        self._expiries_ms: dict[str, int] = {}  # topic in use to when it is dropped
        self._new_topics: dict[str, None] = {}  # no response has mentioned them yet
        self._request_version = 0
        self._last_refresh_ms: int | None = None
        self._need_full_update = False
        self._need_partial_update = False
        self.fresh_until_ms = 0
        self._failed_attempts = 0
        self._equivalent_responses = 0
        # Jitter is drawn once per response or failure, so that the end of a wait does not change.
        self._backoff_ms = self._backoff.backoff_ms(0)
        self._equivalent_backoff_ms = 0
        self._bootstrap_addresses: tuple[tuple[str, int], ...] = ()
        self._merger = SnapshotMerger()
        self._missing_topics = LogRepeats(_QUIET_MS)
        self._fatal_error: KafkaError | None = None
        self._fatal_count = 0
        self._last_fatal_error: KafkaError | None = None
        #: Set when there will never be metadata: then every call raises it.
        self._final_error: KafkaError | None = None
        self._refuses_waiters = False
        self._listeners: list[Callable[[], object]] = []

    # -- reading ---------------------------------------------------------------------------------------

    @property
    def update_requested(self) -> bool:
        """Whether an update was requested and its response has not arrived."""
        return self._need_full_update or self._need_partial_update

    def describe_failures(self, of_connections: Iterable[str]) -> str:
        """The present failures for error messages: those of connections, or else ``last_failure``."""
        text = "; ".join(dict.fromkeys(of_connections))
        return text or str(self.last_failure or "")

    def topic_error(self, topic: str) -> BrokerError | None:
        """The error of this topic in the latest response that mentioned it, if any."""
        with self._lock:
            return self._merger.topic_errors.get(topic)

    def missing_topic_suffix(self, topic: str, now_ms: int) -> str | None:
        """The end of a warning that this topic does not exist; ``None``: do not warn again so soon."""
        with self._lock:
            return self._missing_topics.suffix(topic, now_ms)

    def maybe_throw_topic_error(self, topic: str) -> None:
        """Raise a pending fatal error, or the topic's error if another request cannot help.

        Raises:
            BrokerError: the topic's name is invalid, or this user is not authorized.
            KafkaError: the fatal error.
        """
        with self._lock:
            self.maybe_throw_fatal_error()
            error = self._merger.topic_errors.get(topic)
            if error is not None and error.code in (INVALID_TOPIC_CODE, TOPIC_AUTHORIZATION_FAILED_CODE):
                # All senders of the topic share one instance: drop the traceback of the one before.
                raise error.with_traceback(None)

    def maybe_throw_fatal_error(self) -> None:
        """Raise the pending fatal error, once. A successful update and ``forget_refusal`` clear it too.

        Raises the error of ``fail`` each time.
        """
        with self._lock:
            if self._final_error is not None:
                raise self._final_error.with_traceback(None)
            error, self._fatal_error = self._fatal_error, None
            if error is not None:
                raise error.with_traceback(None)

    # -- timers ----------------------------------------------------------------------------------------

    def time_to_next_update(self, now_ms: int) -> int:
        """Milliseconds until a request is due: requested or too old, and not within the backoff."""
        with self._lock:
            age_left_ms = self._age_left_ms(now_ms)
            due_in_ms = 0 if self.update_requested else age_left_ms
            if self._last_refresh_ms is None:
                return due_in_ms
            if not age_left_ms:
                # A periodic refresh is not a retry, even if all responses were equal.
                self._reset_equivalent_backoff()
            wait_ms = max(self._backoff_ms, self._equivalent_backoff_ms)
            return max(due_in_ms, self._last_refresh_ms + wait_ms - now_ms)

    def _age_left_ms(self, now_ms: int) -> int:
        updated_ms = self.last_successful_update_ms
        return 0 if updated_ms is None else max(updated_ms + self._max_age_ms - now_ms, 0)

    # -- requests --------------------------------------------------------------------------------------

    def add(self, topic: str, now_ms: int) -> None:
        """Renew the expiry of ``topic``; a new topic's metadata is requested at once."""
        expiry_ms = now_ms + self._max_idle_ms
        # Called per request, so the lock is not taken if the expiry would hardly change.
        known_ms = self._expiries_ms.get(topic)
        if known_ms is not None and expiry_ms - known_ms <= self._renewal_ms:
            return
        with self._lock:
            if topic not in self._expiries_ms:
                self._new_topics[topic] = None
                self.request_update_for_new_topics()
            self._expiries_ms[topic] = expiry_ms

    def request_update(self, reason: str) -> int:
        """Request a full update after the backoff.

        Args:
            reason: for the log.

        Returns:
            The current ``update_version``; an update has arrived once it is exceeded.
        """
        with self._lock:
            if not self._need_full_update:
                _log.debug("Metadata update requested: %s", reason)
            self._need_full_update = True
            self.fresh_until_ms = 0
            return self.update_version

    def request_update_for_new_topics(self) -> int:
        """Request new topics at once, without backoff. Returns the current ``update_version``."""
        with self._lock:
            self._last_refresh_ms = None
            self._need_partial_update = True
            self.fresh_until_ms = 0
            self._reset_equivalent_backoff()
            self._request_version += 1
            return self.update_version

    def request_update_for_topic(self, topic: str, reason: str) -> int:
        """Request this topic: at once if it is new, after the backoff if it was requested before."""
        with self._lock:
            if topic in self._new_topics:
                return self.request_update_for_new_topics()
            return self.request_update(reason)

    def new_metadata_request_and_version(self, now_ms: int) -> MetadataRequestAndVersion:
        """The next request: all topics in use, or only the new ones while the others are fresh."""
        with self._lock:
            is_partial = not self._need_full_update and self._age_left_ms(now_ms) > 0
            topics = tuple(self._new_topics if is_partial else self._expiries_ms)
            return MetadataRequestAndVersion(topics, self._request_version, is_partial)

    def _reset_equivalent_backoff(self) -> None:
        self._equivalent_responses = 0
        self._equivalent_backoff_ms = 0

    def _retain_topic(self, topic: str, now_ms: int) -> bool:
        expiry_ms = self._expiries_ms.get(topic)
        if expiry_ms is None:
            return False
        if topic in self._new_topics or expiry_ms > now_ms:
            return True
        del self._expiries_ms[topic]
        return False

    # -- updates ---------------------------------------------------------------------------------------

    def bootstrap(self, addresses: Iterable[tuple[str, int]]) -> None:
        """Start from (host, port) pairs. Topics are forgotten, their leader epochs are not."""
        with self._lock:
            self._bootstrap_addresses = tuple(addresses)
            self._need_full_update = True
            self.fresh_until_ms = 0
            self.update_version += 1
            self.snapshot = MetadataSnapshot.bootstrap(self._bootstrap_addresses)
            self._notify_all_locked()

    def rebootstrap(self) -> None:
        """Return to the configured addresses (KIP-899)."""
        _log.debug("Rebootstrapping with %s", self._bootstrap_addresses)
        self.bootstrap(self._bootstrap_addresses)

    def update(
        self,
        request: MetadataRequestAndVersion,
        response: MetadataResponse,
        now_ms: int,
        *,
        api_version: int = FIRST_VERSION_WITH_RELIABLE_LEADER_EPOCHS,
    ) -> None:
        """Merge a response into the snapshot. Ignored after ``close``.

        Args:
            request: what was requested.
            response: the decoded message.
            now_ms: monotonic milliseconds.
            api_version: of the response; leader epochs below version 9 are not reliable.
        """
        with self._lock:
            if self.is_closed:
                _log.debug("Metadata response ignored: closed")
                return
            self._need_partial_update = request.request_version < self._request_version
            self._last_refresh_ms = now_ms
            self._failed_attempts = 0
            self._backoff_ms = self._backoff.backoff_ms(0)
            self.last_failure = None
            self._fatal_error = None
            if not request.is_partial:
                self._need_full_update = False
                self.last_successful_update_ms = now_ms
            if not self.update_requested and self.last_successful_update_ms is not None:
                self.fresh_until_ms = self.last_successful_update_ms + self._max_age_ms
            epochs_reliable = api_version >= FIRST_VERSION_WITH_RELIABLE_LEADER_EPOCHS
            old_cluster_id = self.snapshot.cluster_id
            self.snapshot = self._merger.merge(
                self.snapshot,
                response,
                request.is_partial,
                epochs_reliable,
                lambda topic: self._retain_topic(topic, now_ms),
            )
            if self.snapshot.cluster_id != old_cluster_id:
                _log.info("Cluster id: %s", printable(self.snapshot.cluster_id or "none"))
            if self._merger.why_update is not None:
                self.request_update(self._merger.why_update)
            self._equivalent_responses = 0 if self._merger.has_news else self._equivalent_responses + 1
            self._equivalent_backoff_ms = (
                self._backoff.backoff_ms(self._equivalent_responses - 1) if self._equivalent_responses else 0
            )
            # Also if the response has an error for the topic: from now on full updates request it, so it is
            # not new.
            for topic in response.topics:
                if topic.name is not None:
                    self._new_topics.pop(topic.name, None)
            self.update_version += 1
            self._notify_all_locked()

    def failed_update(self, now_ms: int, error: KafkaError | None = None) -> None:
        """A request failed: the next one waits longer."""
        with self._lock:
            self._last_refresh_ms = now_ms
            self._backoff_ms = self._backoff.backoff_ms(self._failed_attempts)
            self._failed_attempts += 1
            self._reset_equivalent_backoff()
            if error is not None:
                self.last_failure = error

    def fatal_error(self, error: KafkaError) -> None:
        """Raise ``error`` to the threads that wait for metadata (authentication, unsupported version)."""
        with self._lock:
            self._fatal_count += 1
            self._fatal_error = self._last_fatal_error = self.last_failure = error
            self._notify_all_locked()

    def fail(self, error: KafkaError) -> None:
        """Raise ``error`` to all threads that wait for metadata, now and later: there will never be any."""
        with self._lock:
            self._final_error = error
            self.fatal_error(error)

    def forget_refusal(self) -> None:
        """A broker has accepted this client: an AuthenticationError from before is not raised any more."""
        with self._lock:
            if isinstance(self._fatal_error, AuthenticationError):
                self._fatal_error = None
            if isinstance(self.last_failure, AuthenticationError):
                self.last_failure = None

    def update_partition_leadership(
        self, leaders: Mapping[TopicPartition, tuple[int, int]], nodes: Iterable[Node]
    ) -> bool:
        """Merge leaders that a Produce response named (KIP-951); see ``SnapshotMerger.with_leaders``.

        Args:
            leaders: (leader id, leader epoch) by partition.
            nodes: addresses in the same response.

        Returns:
            Whether any leader has changed.
        """
        with self._lock:
            if self.is_closed:
                return False
            old = self.snapshot
            self.snapshot = self._merger.with_leaders(old, leaders, nodes)
            return self.snapshot is not old

    # -- waiting ---------------------------------------------------------------------------------------

    def refuse_waiters(self) -> None:
        """End every wait, now and later. Updates continue: accepted records need leaders. Idempotent."""
        with self._lock:
            self._refuses_waiters = True
            self._notify_all_locked()

    def begin_wait(self) -> int:
        """Begin to wait for an update, without blocking. Returns what ``has_update`` needs.

        Raises:
            KafkaError: the pending fatal error.
        """
        with self._lock:
            # A fatal error from before this call is raised by one waiter. One that occurs during the wait is
            # raised by all of them, which is why they compare the count instead of the pending error.
            if not self._refuses_waiters:
                self.maybe_throw_fatal_error()
            return self._fatal_count

    def has_update(self, last_version: int, fatal_count: int) -> bool:
        """Whether ``update_version`` exceeds ``last_version``.

        Args:
            fatal_count: what ``begin_wait`` returned.

        Raises:
            ProducerClosedError: ``close`` or ``refuse_waiters`` was called before or during the wait.
            KafkaError: a fatal error, the same one for all that wait.
        """
        with self._lock:
            if self._refuses_waiters:
                raise ProducerClosedError("the producer was closed while a call waited for metadata")
            if self._fatal_count != fatal_count and self._last_fatal_error is not None:
                self._fatal_error = None
                raise self._last_fatal_error.with_traceback(None)
            return self.update_version > last_version

    def add_listener(self, listener: Callable[[], object]) -> None:
        """Have ``listener()`` called, on any thread, when a wait may be over. It must not wait or raise."""
        with self._lock:
            self._listeners.append(listener)

    def remove_listener(self, listener: Callable[[], object]) -> None:
        """Undo ``add_listener``."""
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)

    def _notify_all_locked(self) -> None:
        for listener in self._listeners:
            listener()

    def close(self) -> None:
        """End the updates and every wait for one. Idempotent."""
        with self._lock:
            self.is_closed = True
            self.refuse_waiters()

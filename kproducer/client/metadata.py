"""Metadata: when to request cluster metadata, and the latest snapshot of it.

The network client sends the requests and passes the responses in; all parts of the producer read
``Metadata.snapshot``. Knows nothing of sockets or of producing: a subclass decides which topics to request.
Source: Kafka class ``Metadata``; KIP-526 (partial requests), KIP-580 (backoff), KIP-899 (rebootstrap).
"""

from __future__ import annotations

import random as random_module
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import attrs

from kproducer.client.metadata_snapshot import MetadataSnapshot
from kproducer.client.snapshot_merger import (
    INVALID_TOPIC_CODE,
    TOPIC_AUTHORIZATION_FAILED_CODE,
    SnapshotMerger,
)
from kproducer.errors import (
    BrokerError,
    KafkaError,
    printable,
)
from kproducer.runtime.clock import ExponentialBackoff
from kproducer.runtime.guarded_logger import GuardedLogger
from kproducer.types import Node, TopicPartition

if TYPE_CHECKING:
    from kproducer_messages import MetadataResponse

_log = GuardedLogger(__name__)

#: Before this version the leader epochs of a broker could go backwards (KAFKA-12257).
FIRST_VERSION_WITH_RELIABLE_LEADER_EPOCHS = 9


@attrs.frozen
class MetadataRequestAndVersion:
    """The content of the next Metadata request.

    Attributes:
        topics: names; ``None`` requests all topics, an empty tuple only the brokers.
        request_version: passed to ``Metadata.update`` with the response.
        is_partial: only new topics are requested; passed to ``Metadata.update`` too.
    """

    topics: tuple[str, ...] | None
    request_version: int
    is_partial: bool


class Metadata:
    """The latest snapshot of the cluster, and the timers of its updates. Thread-safe.

    Args:
        retry_backoff_ms: the shortest wait between two requests; it grows while they fail or bring no news.
        retry_backoff_max_ms: the longest such wait.
        metadata_max_age_ms: the age at which all topics are requested again.
        random: source of the backoff jitter.

    Attributes:
        snapshot: complete and immutable; read without the lock.
        update_version: grows with every update.
        last_failure: why the latest request failed, for error messages; ``None`` after a success.
    """

    def __init__(
        self,
        retry_backoff_ms: int,
        retry_backoff_max_ms: int,
        metadata_max_age_ms: int,
        *,
        random: random_module.Random | None = None,
    ) -> None:
        # Fixed after construction.
        self._backoff = ExponentialBackoff(retry_backoff_ms, retry_backoff_max_ms, random)
        self._max_age_ms = metadata_max_age_ms
        #: Guards everything below. A subclass waits on it for updates.
        self._lock = threading.Condition(threading.RLock())
        # Written under _lock, read by any thread.
        self.snapshot = MetadataSnapshot()
        self.update_version = 0
        self.is_closed = False
        self.last_failure: KafkaError | None = None
        # Guarded by _lock.
        self._request_version = 0
        self._last_refresh_ms: int | None = None
        self._last_successful_refresh_ms: int | None = None
        self._need_full_update = False
        self._need_partial_update = False
        self._failed_attempts = 0
        self._equivalent_responses = 0
        # Jitter is drawn once per response or failure, so that every look at the wait gives the same end.
        self._backoff_ms = self._backoff.backoff_ms(0)
        self._equivalent_backoff_ms = 0
        self._bootstrap_addresses: tuple[tuple[str, int], ...] = ()
        self._merger = SnapshotMerger()
        self._fatal_error: KafkaError | None = None

    # -- reading ---------------------------------------------------------------------------------------

    @property
    def last_successful_update_ms(self) -> int | None:
        """When the last full update arrived (monotonic); ``None`` before the first."""
        return self._last_successful_refresh_ms

    @property
    def update_requested(self) -> bool:
        """Whether an update was requested and its response has not arrived."""
        return self._need_full_update or self._need_partial_update

    def topic_error(self, topic: str) -> BrokerError | None:
        """The error of this topic in the latest response that mentioned it, if any."""
        with self._lock:
            return self._merger.topic_errors.get(topic)

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
        """Raise the pending fatal error, once. A successful update clears it too."""
        with self._lock:
            error, self._fatal_error = self._fatal_error, None
            if error is not None:
                raise error.with_traceback(None)

    # -- timers ----------------------------------------------------------------------------------------

    def time_to_allow_update(self, now_ms: int) -> int:
        """Milliseconds until the backoff ends; 0: now."""
        with self._lock:
            if self._last_refresh_ms is None:
                return 0
            if self._equivalent_responses and self._age_left_ms(now_ms) == 0:
                # A periodic refresh is not a retry, even if all responses were equal.
                self._equivalent_responses = 0
                self._equivalent_backoff_ms = 0
            wait_ms = max(self._backoff_ms, self._equivalent_backoff_ms)
            return max(self._last_refresh_ms + wait_ms - now_ms, 0)

    def time_to_next_update(self, now_ms: int) -> int:
        """Milliseconds until a request is due: requested or too old, and not within the backoff."""
        with self._lock:
            expires_in_ms = 0 if self.update_requested else self._age_left_ms(now_ms)
            return max(expires_in_ms, self.time_to_allow_update(now_ms))

    def is_fresh(self, now_ms: int) -> bool:
        """Whether no update is due. Takes no lock, so ``False`` may be wrong."""
        return not (self._need_full_update or self._need_partial_update) and self._age_left_ms(now_ms) > 0

    def _age_left_ms(self, now_ms: int) -> int:
        if self._last_successful_refresh_ms is None:
            return 0
        return max(self._last_successful_refresh_ms + self._max_age_ms - now_ms, 0)

    # -- requests --------------------------------------------------------------------------------------

    def request_update(self, reason: str = "", *, reset_equivalent_backoff: bool = False) -> int:
        """Request a full update after the backoff.

        Args:
            reason: for the log.
            reset_equivalent_backoff: whether to forget that the last responses brought no news, because
                something new is requested.

        Returns:
            The current ``update_version``; an update has arrived once it is exceeded.
        """
        with self._lock:
            if not self._need_full_update and reason:
                _log.debug("Metadata update requested: %s", reason)
            self._need_full_update = True
            if reset_equivalent_backoff:
                self._equivalent_responses = 0
                self._equivalent_backoff_ms = 0
            return self.update_version

    def request_update_for_new_topics(self) -> int:
        """Request new topics at once, without backoff. Returns the current ``update_version``."""
        with self._lock:
            self._last_refresh_ms = None
            self._need_partial_update = True
            self._equivalent_responses = 0
            self._equivalent_backoff_ms = 0
            self._request_version += 1
            return self.update_version

    def new_metadata_request_and_version(self, now_ms: int) -> MetadataRequestAndVersion:
        """The next request: all topics of interest, or only the new ones while the others are fresh."""
        with self._lock:
            topics = None
            is_partial = False
            if not self._need_full_update and self._age_left_ms(now_ms) > 0:
                topics = self._new_topics_of_interest()
                is_partial = topics is not None
            if not is_partial:
                topics = self._topics_of_interest()
            return MetadataRequestAndVersion(topics, self._request_version, is_partial)

    # -- for subclasses; called with the lock held -----------------------------------------------------

    def _topics_of_interest(self) -> tuple[str, ...] | None:
        return None

    def _new_topics_of_interest(self) -> tuple[str, ...] | None:
        """``None`` when partial requests are not supported."""
        return None

    def _retain_topic(self, topic: str, now_ms: int) -> bool:
        return True

    def _after_update(self, response: MetadataResponse) -> None:
        pass

    # -- updates ---------------------------------------------------------------------------------------

    def bootstrap(self, addresses: Iterable[tuple[str, int]]) -> None:
        """Start from (host, port) pairs. Topics are forgotten, their leader epochs are not."""
        with self._lock:
            self._bootstrap_addresses = tuple(addresses)
            self._need_full_update = True
            self.update_version += 1
            self.snapshot = MetadataSnapshot.bootstrap(self._bootstrap_addresses)
            self._lock.notify_all()

    def rebootstrap(self) -> None:
        """Return to the configured addresses (KIP-899)."""
        _log.info("Rebootstrapping with %s", self._bootstrap_addresses)
        self.bootstrap(self._bootstrap_addresses)

    def update(
        self,
        request_version: int,
        response: MetadataResponse,
        is_partial: bool,
        now_ms: int,
        *,
        api_version: int = FIRST_VERSION_WITH_RELIABLE_LEADER_EPOCHS,
    ) -> None:
        """Merge a response into the snapshot. Ignored after ``close``.

        Args:
            request_version, is_partial: of the ``MetadataRequestAndVersion`` of the request.
            response: the decoded message.
            now_ms: monotonic milliseconds.
            api_version: of the response; leader epochs below version 9 are not reliable.
        """
        with self._lock:
            if self.is_closed:
                _log.debug("Metadata response ignored: closed")
                return
            self._need_partial_update = request_version < self._request_version
            self._last_refresh_ms = now_ms
            self._failed_attempts = 0
            self._backoff_ms = self._backoff.backoff_ms(0)
            self.last_failure = None
            self._fatal_error = None
            if not is_partial:
                self._need_full_update = False
                self._last_successful_refresh_ms = now_ms
            epochs_reliable = api_version >= FIRST_VERSION_WITH_RELIABLE_LEADER_EPOCHS
            old_cluster_id = self.snapshot.cluster_id
            self.snapshot, has_news, why_update = self._merger.merge(
                self.snapshot,
                response,
                is_partial,
                epochs_reliable,
                lambda topic: self._retain_topic(topic, now_ms),
            )
            if self.snapshot.cluster_id != old_cluster_id:
                _log.info("Cluster id: %s", printable(self.snapshot.cluster_id or "none"))
            if why_update is not None:
                self.request_update(why_update)
            self._equivalent_responses = 0 if has_news else self._equivalent_responses + 1
            self._equivalent_backoff_ms = (
                self._backoff.backoff_ms(self._equivalent_responses - 1) if self._equivalent_responses else 0
            )
            self._after_update(response)
            self.update_version += 1
            self._lock.notify_all()

    def failed_update(self, now_ms: int, error: KafkaError | None = None) -> None:
        """A request failed: the next one waits longer."""
        with self._lock:
            self._last_refresh_ms = now_ms
            self._backoff_ms = self._backoff.backoff_ms(self._failed_attempts)
            self._failed_attempts += 1
            self._equivalent_responses = 0
            self._equivalent_backoff_ms = 0
            if error is not None:
                self.last_failure = error

    def fatal_error(self, error: KafkaError) -> None:
        """Raise ``error`` to the threads that wait for metadata (authentication, unsupported version)."""
        with self._lock:
            self._fatal_error = error
            self.last_failure = error
            self._lock.notify_all()

    def update_partition_leadership(
        self, leaders: Mapping[TopicPartition, tuple[int, int]], nodes: Iterable[Node]
    ) -> set[TopicPartition]:
        """Merge leaders that a Produce response named (KIP-951); see ``SnapshotMerger.with_leaders``.

        Args:
            leaders: (leader id, leader epoch) by partition.
            nodes: addresses in the same response.

        Returns:
            The partitions whose leader changed.
        """
        with self._lock:
            if self.is_closed:
                return set()
            self.snapshot, changed = self._merger.with_leaders(self.snapshot, leaders, nodes)
            return changed

    def close(self) -> None:
        """No more updates; waiting threads are woken. Idempotent."""
        with self._lock:
            self.is_closed = True
            self._lock.notify_all()

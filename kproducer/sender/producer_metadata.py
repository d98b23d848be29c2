"""ProducerMetadata: the metadata of the topics that a producer sends to.

Adds three things to ``Metadata``: which topics to request (those sent to within ``metadata_max_idle_ms``),
requests for new topics only, and waiting for an update. Source: Kafka class ``ProducerMetadata``; KIP-526.
"""

from __future__ import annotations

import random as random_module
from typing import TYPE_CHECKING

from kproducer.client.metadata import Metadata
from kproducer.errors import KafkaError, MetadataTimeoutError, ProducerClosedError

if TYPE_CHECKING:
    from kproducer_messages import MetadataResponse


class ProducerMetadata(Metadata):
    """Metadata with topic expiry. Thread-safe.

    Args:
        metadata_max_idle_ms: the metadata of a topic that was not sent to for this long is dropped.
        (others): see ``Metadata``.
    """

    def __init__(
        self,
        retry_backoff_ms: int,
        retry_backoff_max_ms: int,
        metadata_max_age_ms: int,
        metadata_max_idle_ms: int,
        *,
        random: random_module.Random | None = None,
    ) -> None:
        super().__init__(retry_backoff_ms, retry_backoff_max_ms, metadata_max_age_ms, random=random)
        # Fixed after construction.
        self._max_idle_ms = metadata_max_idle_ms
        # Guarded by _lock.
        self._expiries_ms: dict[str, int] = {}
        self._new_topics: dict[str, None] = {}
        self._fatal_count = 0
        self._last_fatal_error: KafkaError | None = None
        self._refuses_waiters = False

    def add(self, topic: str, now_ms: int) -> None:
        """Renew the expiry of ``topic``; a new topic's metadata is requested at once."""
        expiry_ms = now_ms + self._max_idle_ms
        # Called per record: without the lock if the expiry stays the same.
        if self._expiries_ms.get(topic) == expiry_ms:
            return
        with self._lock:
            if topic not in self._expiries_ms:
                self._new_topics[topic] = None
                self.request_update_for_new_topics()
            self._expiries_ms[topic] = expiry_ms

    def request_update_for_topic(self, topic: str, reason: str = "") -> int:
        """Request this topic: at once if it is new, after the backoff if it was requested before."""
        with self._lock:
            if topic in self._new_topics:
                return self.request_update_for_new_topics()
            return self.request_update(reason)

    def refuse_waiters(self) -> None:
        """End every wait, now and later. Updates continue: accepted records need leaders. Idempotent."""
        with self._lock:
            self._refuses_waiters = True
            self._lock.notify_all()

    def await_update(self, last_version: int, timeout_ms: float) -> None:
        """Block until ``update_version`` exceeds ``last_version``.

        Raises:
            MetadataTimeoutError: not within ``timeout_ms``.
            ProducerClosedError: ``close`` or ``refuse_waiters`` was called before or during the wait.
            KafkaError: a fatal error, the same one for all waiting threads.
        """
        with self._lock:
            # A fatal error from before this call is raised by one waiter. One that occurs during the wait is
            # raised by all of them, which is why they compare the count instead of the pending error.
            if not (self.is_closed or self._refuses_waiters):
                self.maybe_throw_fatal_error()
            fatal_count = self._fatal_count

            def is_over() -> bool:
                return (
                    self.is_closed
                    or self._refuses_waiters
                    or self._fatal_count != fatal_count
                    or self.update_version > last_version
                )

            in_time = self._lock.wait_for(is_over, max(timeout_ms, 0) / 1000)
            if self.is_closed or self._refuses_waiters:
                raise ProducerClosedError("the producer was closed while a call waited for metadata")
            if self._fatal_count != fatal_count and self._last_fatal_error is not None:
                self._fatal_error = None
                raise self._last_fatal_error.with_traceback(None)
            if not in_time:
                failure = self.last_failure
                cause = "" if failure is None else f"; the last attempt failed with: {failure}"
                raise MetadataTimeoutError(f"no metadata update arrived within {timeout_ms:.0f} ms{cause}")

    def fatal_error(self, error: KafkaError) -> None:
        with self._lock:
            self._fatal_count += 1
            self._last_fatal_error = error
            super().fatal_error(error)

    # -- hooks of Metadata; the lock is held -----------------------------------------------------------

    def _topics_of_interest(self) -> tuple[str, ...]:
        return tuple(self._expiries_ms)

    def _new_topics_of_interest(self) -> tuple[str, ...]:
        return tuple(self._new_topics)

    def _retain_topic(self, topic: str, now_ms: int) -> bool:
        expiry_ms = self._expiries_ms.get(topic)
        if expiry_ms is None:
            return False
        if topic in self._new_topics:
            return True
        if expiry_ms <= now_ms:
            del self._expiries_ms[topic]
            return False
        return True

    def _after_update(self, response: MetadataResponse) -> None:
        # Also with an error in the response: from now on full updates request the topic.
        for topic in response.topics:
            if topic.name is not None:
                self._new_topics.pop(topic.name, None)

"""ProducerMetadata: the metadata of the topics a producer is using.

Adds to ``Metadata`` which topics are of interest (those sent to within ``metadata_max_idle_ms``), requests
for new topics only, and waiting. Knows nothing of batches. Source: Kafka class ``ProducerMetadata``; KIP-526.
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
        metadata_max_idle_ms: a topic not sent to for this long is no longer asked for.
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
        """Note a use of ``topic``; the first use asks for its metadata at once."""
        expiry_ms = now_ms + self._max_idle_ms
        # Once per record: a known topic is only written to again when that moves its expiry.
        if self._expiries_ms.get(topic) == expiry_ms:
            return
        with self._lock:
            if topic not in self._expiries_ms:
                self._new_topics[topic] = None
                self.request_update_for_new_topics()
            self._expiries_ms[topic] = expiry_ms

    def contains_topic(self, topic: str) -> bool:
        """Whether the topic is of interest at present."""
        return topic in self._expiries_ms

    def request_update_for_topic(self, topic: str, reason: str = "") -> int:
        """Ask for this topic: at once if it is new, after the backoff if it was asked for before."""
        with self._lock:
            if topic in self._new_topics:
                return self.request_update_for_new_topics()
            return self.request_update(reason)

    def refuse_waiters(self) -> None:
        """Let nobody wait any more. Updates go on: what was accepted still needs leaders. Idempotent."""
        with self._lock:
            self._refuses_waiters = True
            self._lock.notify_all()

    def await_update(self, last_version: int, timeout_ms: float) -> None:
        """Block until ``update_version`` exceeds ``last_version``.

        Raises:
            MetadataTimeoutError: not within ``timeout_ms``.
            ProducerClosedError: closed, or waiters refused, before or meanwhile.
            KafkaError: a fatal error, the same one for everyone who waits.
        """
        with self._lock:
            # An error that struck before this call is raised once. One that strikes during it is raised by
            # every waiter, which is why they watch the count and not the pending error.
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
                raise ProducerClosedError("The producer was closed while a call waited for metadata")
            if self._fatal_count != fatal_count and self._last_fatal_error is not None:
                self._fatal_error = None
                raise self._last_fatal_error.with_traceback(None)
            if not in_time:
                failure = self.last_failure
                cause = "" if failure is None else f"; the last attempt failed with: {failure}"
                raise MetadataTimeoutError(f"No metadata update arrived within {timeout_ms:.0f} ms{cause}")

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
        # A topic answered with an error is not new either: full updates keep asking for it.
        for topic in response.topics:
            if topic.name is not None:
                self._new_topics.pop(topic.name, None)

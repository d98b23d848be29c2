"""SessionLoop: the connections of a session, and the loop that drives many dialogues at once to their ends.

Not thread-safe, and without a thread: it runs while a call of the session does. Source: Kafka's
``KafkaAdminClient``, whose loop has a thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

import attrs

from kproducer.client.metadata import Metadata
from kproducer.client.new_network_client import new_network_client
from kproducer.config.producer_config import ProducerConfig
from kproducer.errors import KafkaError
from kproducer.runtime.clock import Clock, SystemClock
from kproducer.transactions.coordinator_link import NEVER_MS
from kproducer.transactions.dialogue import Dialogue, DialogueLink

#: Requests to coordinators are small, and for different ids their order does not matter.
_MOST_IN_FLIGHT: Final = 100


class Errand(Protocol):
    """What the loop drives: sends requests when it is asked to, and ends at some time."""

    @property
    def has_ended(self) -> bool: ...
    @property
    def waits_for(self) -> str: ...
    def step(self, now_ms: int) -> int:
        """Send what is due. Returns when to look again, in ms; answers come sooner."""


class _Brokers(Metadata):
    """Metadata of brokers, and of the topics that somebody has named."""

    _topics: tuple[str, ...] = ()

    def name(self, topics: Iterable[str]) -> None:
        """Ask about these as well, and soon; brokers that make topics by themselves make them then."""
        with self._lock:
            known = self._topics
            self._topics = tuple(dict.fromkeys([*known, *topics]))
            if self._topics != known:
                self.request_update("new topics", reset_equivalent_backoff=True)

    def _topics_of_interest(self) -> tuple[str, ...]:
        return self._topics


class SessionLoop:
    """The connections, and the loop.

    Args:
        config: see ``CoordinatorSession``.

    Attributes:
        client, clock: for links.
        request_timeout_ms: for links.
    """

    def __init__(self, config: ProducerConfig) -> None:
        # What forbids more in flight are sequences of batches; there are none here.
        config = attrs.evolve(
            config,
            client_id=config.client_id or "kproducer-coordinators",
            transactional_id="",
            enable_idempotence=False,
            max_in_flight_requests_per_connection=_MOST_IN_FLIGHT,
        )
        self.clock: Clock = SystemClock()
        self.request_timeout_ms = config.request_timeout_ms
        self._metadata = _Brokers(
            config.retry_backoff_ms, config.retry_backoff_max_ms, config.metadata_max_age_ms
        )
        self.client = new_network_client(config, self._metadata, self.clock)

    def link(self, dialogue: Dialogue) -> DialogueLink:
        """The errand of a dialogue."""
        return DialogueLink(dialogue, self.client, self.clock, self.request_timeout_ms)

    def name_topics(self, topics: Iterable[str]) -> None:
        """See ``CoordinatorSession.name_topics``."""
        self._metadata.name(topics)

    def drive(self, errands: Iterable[Errand], deadline_ms: int) -> None:
        """Let all of them go on until each has ended or the time (monotonic) has come."""
        open_errands = list(errands)
        now_ms = self.clock.monotonic_ms()
        # Connections that ended since the last call are noticed before anything is sent on them.
        self.client.poll(0, now_ms)
        while now_ms < deadline_ms:
            delay_ms = min((errand.step(now_ms) for errand in open_errands), default=NEVER_MS)
            # Some need no broker, and have ended in their step.
            open_errands = [errand for errand in open_errands if not errand.has_ended]
            if not open_errands:
                return
            self.client.poll(min(delay_ms, deadline_ms - now_ms), now_ms)
            now_ms = self.clock.monotonic_ms()
            open_errands = [errand for errand in open_errands if not errand.has_ended]

    @property
    def troubles(self) -> str:
        """What is wrong with brokers at present, in words; empty if nothing is known."""
        causes = list(self.client.last_errors())
        failure: KafkaError | None = self._metadata.last_failure
        if failure is not None and not causes:
            causes.append(str(failure))
        return "; ".join(dict.fromkeys(causes))

    def close(self) -> None:
        """End the connections. Idempotent."""
        self.client.close()

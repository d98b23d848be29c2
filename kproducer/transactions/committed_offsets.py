"""CommittedOffset: the task of a session that asks a coordinator what a group has committed.

It asks again if the coordinator moved, is loading, or waits for the end of a transaction.
Source: KIP-447; Kafka's ``ListConsumerGroupOffsetsHandler``, ``CoordinatorStrategy``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kproducer.errors import AuthenticationError, BrokerError, KafkaError
from kproducer.errors.broker_errors import UnsupportedVersionError, error_for_code
from kproducer.runtime.clock import NEVER_MS
from kproducer.transactions.coordinator_link import (
    AddressedRequest,
    Attempts,
    CoordinatorCache,
    CoordinatorTask,
    transport_failure,
)
from kproducer.transactions.coordinator_requests import (
    Coordinator,
    CoordinatorKind,
    FindCoordinator,
    OffsetFetch,
    Reaction,
)
from kproducer.transactions.transaction_arguments import OffsetAndMetadata
from kproducer.types import TopicPartition

if TYPE_CHECKING:
    from kproducer.client.client_request import ClientResponse
    from kproducer.runtime.clock import ExponentialBackoff

#: UNSTABLE_OFFSET_COMMIT: between the response to a commit and its markers, which takes milliseconds.
_UNSTABLE: Final = 88
_FIRST_UNSTABLE_PAUSE_MS: Final = 10

_Request = FindCoordinator | OffsetFetch


class CommittedOffset(CoordinatorTask):
    """A ``CoordinatorTask``: what a group has committed for one partition. One request at a time.

    Args:
        group: its name.
        topic_partition: the partition.
        known: which brokers coordinate.
        backoff: pauses between attempts.
        stable: whether to wait for transactions that may change the offset.

    Attributes:
        subject: named in errors.
        position: what was committed, once the task has ended; ``None``: nothing.
        error: why there will be no answer.
    """

    def __init__(
        self,
        group: str,
        topic_partition: TopicPartition,
        known: CoordinatorCache,
        backoff: ExponentialBackoff,
        stable: bool = True,
    ) -> None:
        self._coordinator = Coordinator(CoordinatorKind.GROUP, group)
        self._question = OffsetFetch(group, topic_partition, stable)
        self._known = known
        self._attempts = Attempts(backoff)
        self._is_in_flight = False
        self._is_answered = False
        self._last_failure = ""
        self.subject = f"offset of {topic_partition} in group {group!r}"
        self.position: OffsetAndMetadata | None = None
        self.error: KafkaError | None = None

    @property
    def has_ended(self) -> bool:
        """Whether there is an answer or an error."""
        return self._is_answered or self.error is not None

    @property
    def waits_for(self) -> str:
        """For the text of a timeout."""
        node = self._known.get(self._coordinator)
        return (
            f"waiting for the {self.subject}"
            + (f" from broker {node}" if node is not None else f" from {self._coordinator}")
            + (f"; the last attempt failed with {self._last_failure}" if self._last_failure else "")
        )

    def next_request(self, now_ms: int) -> AddressedRequest | None:
        """The question, or first the look-up of the coordinator."""
        if self.has_ended or self._is_in_flight or now_ms < self._attempts.not_before_ms:
            return None
        self._is_in_flight = True
        node = self._known.get(self._coordinator)
        request = FindCoordinator(self._coordinator) if node is None else self._question
        return AddressedRequest(request, node)

    def delay_ms(self, now_ms: int) -> int:
        """Until the end of the pause after a failure."""
        return NEVER_MS if self._is_in_flight else max(1, self._attempts.not_before_ms - now_ms)

    def handle(self, request: _Request, response: ClientResponse, now_ms: int) -> None:
        """Note the answer, or ask again where that may help."""
        self._is_in_flight = False
        if response.body is None:
            error, may_retry = transport_failure(request, response)
            if response.unsupported_version is not None and isinstance(request, OffsetFetch):
                error = UnsupportedVersionError(
                    "brokers before 2.5 cannot tell whether a committed offset is stable, or may still be "
                    f"changed by an open transaction: {error}"
                )
            self._failed(error, now_ms, may_retry)
            return
        ((code, value, message),) = request.parse(response.body).values()
        reaction = request.reaction_to(code)
        if reaction is not Reaction.DONE:
            error = error_for_code(code, message, self.subject)
            may_retry = reaction <= Reaction.RELOCATE
            self._failed(error, now_ms, may_retry, relocate=reaction is Reaction.RELOCATE)
        elif isinstance(request, FindCoordinator):
            self._known.found(self._coordinator, value)
        else:
            self.position = value
            self._is_answered = True

    def unreachable(self, request: _Request, now_ms: int, refusal: AuthenticationError | None = None) -> None:
        """Another broker may be the coordinator now."""
        self._is_in_flight = False
        node = None if isinstance(request, FindCoordinator) else self._known.get(self._coordinator)
        error = refusal or KafkaError(f"no connection to {node or 'any broker'}")
        self._failed(error, now_ms, may_retry=refusal is None)

    def _failed(self, error: KafkaError, now_ms: int, may_retry: bool, *, relocate: bool = True) -> None:
        """Ask again after a pause, first looking the coordinator up, or give up."""
        if not may_retry:
            self.error = error
            return
        self._last_failure = str(error)
        is_unstable = isinstance(error, BrokerError) and error.code == _UNSTABLE
        self._attempts.failed(now_ms, _FIRST_UNSTABLE_PAUSE_MS if is_unstable else None)
        if relocate:
            self._known.pop(self._coordinator, None)

"""CommittedOffset: the task of a session that asks a coordinator what a group has committed.

It asks again if the coordinator moved, is loading, or waits for the end of a transaction.
Source: KIP-447; Kafka's ``ListConsumerGroupOffsetsHandler``, ``CoordinatorStrategy``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kproducer._core.runtime.clock import NEVER_MS
from kproducer._core.transactions.coordinator_link import (
    AddressedRequest,
    Attempts,
    CoordinatorCache,
    CoordinatorTask,
    transport_failure,
)
from kproducer._core.transactions.coordinator_requests import FindCoordinator, OffsetFetch, Reaction
from kproducer._core.transactions.transaction_arguments import OffsetAndMetadata
from kproducer.errors import BrokerError, KafkaError
from kproducer.errors.broker_errors import UnsupportedVersionError, error_for_code

if TYPE_CHECKING:
    from kproducer._core.client.client_request import ClientResponse

#: UNSTABLE_OFFSET_COMMIT: between the response to a commit and its markers, which takes milliseconds.
_UNSTABLE: Final = 88
_FIRST_UNSTABLE_PAUSE_MS: Final = 10

_Request = FindCoordinator | OffsetFetch


class CommittedOffset(CoordinatorTask):
    """A ``CoordinatorTask``: what a group has committed for one partition. One request at a time.

    Args:
        question: names the group and the partition.
        known: which brokers coordinate.
        attempts: pauses between attempts.

    Attributes:
        position: what was committed, once the task has ended; ``None``: nothing.
        error: why there will be no answer.
    """

    def __init__(self, question: OffsetFetch, known: CoordinatorCache, attempts: Attempts) -> None:
        self._question, self._known, self._attempts = question, known, attempts
        self.position: OffsetAndMetadata | None = None
        self.error: KafkaError | None = None
        self._is_in_flight = self._is_answered = False
        self._last_failure = ""

    @property
    def subject(self) -> str:
        """What is asked, for errors."""
        return f"offset of {self._question.topic_partition} in group {self._question.group!r}"

    @property
    def has_ended(self) -> bool:
        """Whether there is an answer or an error."""
        return self._is_answered or self.error is not None

    @property
    def waits_for(self) -> str:
        """What this waits for, for the text of a timeout."""
        return self._known.address(self._question).waits_for(self._last_failure)

    def next_request(self, now_ms: int) -> AddressedRequest | None:
        """The question, or first the look-up of the coordinator."""
        if self.has_ended or self._is_in_flight or now_ms < self._attempts.not_before_ms:
            return None
        self._is_in_flight = True
        return self._known.address(self._question)

    def delay_ms(self, now_ms: int) -> int:
        """Milliseconds until the end of the pause after a failure."""
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
            self._known.found(request.wanted, value)
        else:
            self.position = value
            self._is_answered = True

    def unreachable(self, request: _Request, now_ms: int, refusal: KafkaError | None = None) -> None:
        """Look the coordinator up again: another broker may be it now."""
        self._is_in_flight = False
        error = refusal or KafkaError(f"no connection to {self._known.address(request).node or 'any broker'}")
        self._failed(error, now_ms, may_retry=refusal is None)

    def _failed(self, error: KafkaError, now_ms: int, may_retry: bool, *, relocate: bool = True) -> None:
        """Ask again after a pause, first looking the coordinator up, or give up."""
        if not may_retry:
            self.error = error
            return
        self._last_failure = str(error)
        is_unstable = isinstance(error, BrokerError) and error.code == _UNSTABLE
        self._attempts.failed(now_ms, _FIRST_UNSTABLE_PAUSE_MS if is_unstable else None)
        if relocate and self._question.coordinator is not None:
            self._known.pop(self._question.coordinator, None)

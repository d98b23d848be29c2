"""The tasks of a session that ask brokers about groups and coordinators: CommittedOffsets, CoordinatorLookup.

``CommittedOffsets`` asks each coordinator for all its groups at once, and again for groups whose coordinator
moved, is loading, or waits for the end of a transaction.
Source: KIP-447, KIP-699, KIP-709; Kafka's ``ListConsumerGroupOffsetsHandler``, ``CoordinatorStrategy``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import attrs

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
from kproducer.types import Node, TopicPartition

if TYPE_CHECKING:
    from kproducer.client.client_request import ClientResponse
    from kproducer.runtime.clock import ExponentialBackoff

#: Groups in one OffsetFetch request.
_MOST_GROUPS: Final = 100
#: Coordinators in one FindCoordinator request, which stays below 100 kB with the longest names of the Spark
#: sink (some 400 bytes).
_MOST_COORDINATORS: Final = 200
#: UNSTABLE_OFFSET_COMMIT: between the response to a commit and its markers, which takes milliseconds.
_UNSTABLE: Final = 88
_FIRST_UNSTABLE_PAUSE_MS: Final = 10

_Request = FindCoordinator | OffsetFetch


@attrs.define
class _Group:
    """A group without an answer yet."""

    coordinator: Coordinator
    attempts: Attempts
    last_failure: str = ""


class CommittedOffsets(CoordinatorTask):
    """A ``CoordinatorTask``: what groups have committed for one partition.

    Args:
        groups: their names.
        topic_partition: the partition.
        known: which brokers coordinate.
        backoff: pauses between attempts.
        stable: whether to wait for transactions that may change an offset.

    Attributes:
        positions: what is known so far; ``None``: nothing was committed.
        errors: groups that will get no answer.
        asks_for_several: whether one request asks for several groups; false once a broker was too old for
            that.
    """

    def __init__(
        self,
        groups: Iterable[str],
        topic_partition: TopicPartition,
        known: CoordinatorCache,
        backoff: ExponentialBackoff,
        stable: bool = True,
    ) -> None:
        self._stable = stable
        self._topic_partition = topic_partition
        self._known = known
        self.asks_for_several = True
        self._open = {
            name: _Group(Coordinator(CoordinatorKind.GROUP, name), Attempts(backoff)) for name in groups
        }
        self._in_flight: set[str] = set()
        self.positions: dict[str, OffsetAndMetadata | None] = {}
        self.errors: dict[str, KafkaError] = {}

    @property
    def has_ended(self) -> bool:
        """Whether each group has an answer or an error."""
        return not self._open

    @property
    def waits_for(self) -> str:
        """A group without answer, preferably one with a failure, and the number of such groups."""
        if not self._open:
            return ""
        name, group = max(self._open.items(), key=lambda item: bool(item[1].last_failure))
        node = self._known.get(group.coordinator)
        return (
            f"waiting for the offset of {self._topic_partition} in group {name!r}"
            + (f" from broker {node}" if node is not None else f" from {group.coordinator}")
            + (f" ({len(self._open)} groups are open)" if len(self._open) > 1 else "")
            + (f"; the last attempt failed with {group.last_failure}" if group.last_failure else "")
        )

    def next_requests(self, now_ms: int) -> Sequence[AddressedRequest]:
        """One for each coordinator, and one for each group whose coordinator is not known."""
        requests: list[AddressedRequest] = []
        by_node: dict[Node, list[str]] = defaultdict(list)
        for name, group in self._open.items():
            if name in self._in_flight or group.attempts.not_before_ms > now_ms:
                continue
            self._in_flight.add(name)
            node = self._known.get(group.coordinator)
            if node is None:
                requests.append(AddressedRequest(FindCoordinator(group.coordinator), None))
            else:
                by_node[node].append(name)
        most = _MOST_GROUPS if self.asks_for_several else 1
        for node, names in by_node.items():
            for start in range(0, len(names), most):
                request = OffsetFetch(names[start : start + most], self._topic_partition, self._stable)
                requests.append(AddressedRequest(request, node))
        return requests

    def delay_ms(self, now_ms: int) -> int:
        """Until the first of the groups that pause may be asked about again."""
        pausing = (g.attempts.not_before_ms for name, g in self._open.items() if name not in self._in_flight)
        return max(1, min(pausing, default=NEVER_MS) - now_ms)

    def handle(self, request: _Request, response: ClientResponse, now_ms: int) -> None:
        """Note the answers; ask again about groups where that may help."""
        names = self._completed(request)
        if response.body is None:
            self._handle_failure(request, names, response, now_ms)
            return
        results = request.parse(response.body).values()
        for name, (code, value, message) in zip(names, results, strict=True):
            reaction = request.reaction_to(code)
            if reaction is not Reaction.DONE:
                error = error_for_code(code, message, f"group {name!r}, {self._topic_partition}")
                self._failed(
                    name, error, now_ms, reaction <= Reaction.RELOCATE, relocate=reaction is Reaction.RELOCATE
                )
            elif isinstance(request, FindCoordinator):
                self._known.found(request.wanted[0], value)
            else:
                self.positions[name] = value
                del self._open[name]

    def unreachable(self, request: _Request, now_ms: int, refusal: AuthenticationError | None = None) -> None:
        """Another broker may be the coordinator now."""
        for name in self._completed(request):
            if refusal is not None:
                self._failed(name, refusal, now_ms, may_retry=False)
                continue
            is_lookup = isinstance(request, FindCoordinator)
            node = None if is_lookup else self._known.get(self._open[name].coordinator)
            error = KafkaError(f"no connection to {node or 'any broker'}")
            self._failed(name, error, now_ms, may_retry=True)

    def _completed(self, request: _Request) -> Sequence[str]:
        """Note that a request has ended. Returns its groups."""
        names = [request.wanted[0].key] if isinstance(request, FindCoordinator) else request.groups
        self._in_flight.difference_update(names)
        return names

    def _handle_failure(
        self, request: _Request, names: Sequence[str], response: ClientResponse, now_ms: int
    ) -> None:
        error, may_retry = transport_failure(request, response)
        if response.unsupported_version is not None and isinstance(request, OffsetFetch):
            if len(names) > 1:
                self.asks_for_several = False
                return
            error = UnsupportedVersionError(
                "brokers before 2.5 cannot tell whether a committed offset is stable, or may still be "
                f"changed by an open transaction: {error}"
            )
        for name in names:
            self._failed(name, error, now_ms, may_retry)

    def _failed(
        self, name: str, error: KafkaError, now_ms: int, may_retry: bool, *, relocate: bool = True
    ) -> None:
        """Ask about a group again after a pause, first looking its coordinator up, or give it up."""
        if not may_retry:
            self.errors[name] = error
            del self._open[name]
            return
        group = self._open[name]
        group.last_failure = str(error)
        is_unstable = isinstance(error, BrokerError) and error.code == _UNSTABLE
        group.attempts.failed(now_ms, _FIRST_UNSTABLE_PAUSE_MS if is_unstable else None)
        if relocate:
            self._known.pop(group.coordinator, None)


class CoordinatorLookup(CoordinatorTask):
    """A ``CoordinatorTask``: looks up many coordinators at once, to save round trips.

    Each request is sent once. A coordinator that is not found this way, for instance because a broker is too
    old, is looked up again by the task that needs it.

    Args:
        coordinators: all of one kind.
        known: gets those that are found.
    """

    def __init__(self, coordinators: Sequence[Coordinator], known: CoordinatorCache) -> None:
        self._known = known
        self._due = [
            FindCoordinator(*coordinators[start : start + _MOST_COORDINATORS])
            for start in range(0, len(coordinators), _MOST_COORDINATORS)
        ]
        self._unanswered = list(self._due)

    @property
    def has_ended(self) -> bool:
        """Whether all requests have ended."""
        return not self._unanswered

    def next_requests(self, now_ms: int) -> Sequence[AddressedRequest]:
        """All of them, the first time."""
        due, self._due = self._due, []
        return [AddressedRequest(request, None) for request in due]

    def handle(self, request: FindCoordinator, response: ClientResponse, now_ms: int) -> None:
        """Note the brokers that were found."""
        self._unanswered.remove(request)
        if response.body is not None:
            for coordinator, (code, node, _) in request.parse(response.body).items():
                if code == 0:
                    self._known.found(coordinator, node)

    def unreachable(
        self, request: FindCoordinator, now_ms: int, refusal: AuthenticationError | None = None
    ) -> None:
        """The request is not repeated."""
        self._unanswered.remove(request)

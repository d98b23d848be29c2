"""CommittedOffsets: the dialogue with coordinators of groups about what these have committed.

Asks each coordinator for all its groups at once, and again for those whose coordinator moved, loads, or
waits for the end of a transaction. Source: KIP-447, KIP-709; Kafka's ``ListConsumerGroupOffsetsHandler``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from kproducer.errors import KafkaError
from kproducer.errors.broker_errors import UnsupportedVersionError, error_for_code
from kproducer.transactions.consumer_offsets import OffsetAndMetadata
from kproducer.transactions.coordinator_calls import Attempts, KnownCoordinators
from kproducer.transactions.dialogue import Addressed
from kproducer.transactions.offset_fetch import GroupAnswer, OffsetFetch
from kproducer.transactions.transaction_requests import (
    Coordinator,
    CoordinatorKind,
    FindCoordinator,
)
from kproducer.types import Node, TopicPartition

if TYPE_CHECKING:
    from kproducer.client.client_request import ClientResponse
    from kproducer.client.exponential_backoff import ExponentialBackoff

#: Of one request.
_MOST_GROUPS: Final = 100
#: COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
_MOVED: Final = (15, 16)
#: UNSTABLE_OFFSET_COMMIT: after the answer to a commit, until its markers are written: some milliseconds.
_UNSTABLE: Final = 88
_FIRST_UNSTABLE_PAUSE_MS: Final = 10
#: GROUP_ID_NOT_FOUND: who has never committed anything need not exist.
_NO_GROUP: Final = 69

_Request = FindCoordinator | OffsetFetch


class _Group:
    """One group on its way to an answer."""

    __slots__ = ("attempts", "coordinator", "trouble")

    def __init__(self, name: str, backoff: ExponentialBackoff) -> None:
        self.coordinator = Coordinator(CoordinatorKind.GROUP, name)
        self.attempts = Attempts(backoff)
        self.trouble = ""


class CommittedOffsets:
    """A ``Dialogue``.

    Args:
        groups: which.
        topic_partition: the partition that is asked about.
        known: which brokers coordinate; asked and told.
        backoff: pauses between attempts.
        asks_for_several: whether to try requests for several groups at once.
        stable: whether to wait for transactions that may change an offset.

    Attributes:
        positions: what is known so far; ``None``: nothing was committed.
        errors: groups for which nothing will be known.
        asks_for_several: false once a broker was too old for that.
    """

    def __init__(
        self,
        groups: Iterable[str],
        topic_partition: TopicPartition,
        known: KnownCoordinators,
        backoff: ExponentialBackoff,
        asks_for_several: bool = True,
        stable: bool = True,
    ) -> None:
        self._stable = stable
        self._topic_partition = topic_partition
        self._known = known
        self.asks_for_several = asks_for_several
        #: Without an answer yet, in the order in which they were named.
        self._open = {name: _Group(name, backoff) for name in groups}
        self._under_way: set[str] = set()
        self.positions: dict[str, OffsetAndMetadata | None] = {}
        self.errors: dict[str, KafkaError] = {}

    @property
    def has_ended(self) -> bool:
        """Whether each group has an answer, or an error."""
        return not self._open

    @property
    def waits_for(self) -> str:
        """One of the groups without answer, the one in trouble if there is one; and how many there are."""
        if not self._open:
            return ""
        name, group = next(
            ((name, group) for name, group in self._open.items() if group.trouble),
            next(iter(self._open.items())),
        )
        node = self._known.get(group.coordinator)
        return (
            f"waiting for the offset of {self._topic_partition} in group {name!r}"
            + (f" from broker {node}" if node is not None else f" from {group.coordinator}")
            + (f" ({len(self._open)} groups are open)" if len(self._open) > 1 else "")
            + (f"; the last attempt failed with {group.trouble}" if group.trouble else "")
        )

    # -- what to ask -----------------------------------------------------------------------------------

    def next_requests(self, now_ms: int) -> Sequence[Addressed]:
        """One for each coordinator, and one for each group whose coordinator is not known."""
        requests: list[Addressed] = []
        by_node: dict[Node, list[str]] = defaultdict(list)
        for name, group in self._open.items():
            if name in self._under_way or group.attempts.not_before_ms > now_ms:
                continue
            self._under_way.add(name)
            node = self._known.get(group.coordinator)
            if node is None:
                requests.append(Addressed(FindCoordinator(group.coordinator), None))
            else:
                by_node[node].append(name)
        most = _MOST_GROUPS if self.asks_for_several else 1
        for node, names in by_node.items():
            for start in range(0, len(names), most):
                request = OffsetFetch(names[start : start + most], self._topic_partition, self._stable)
                requests.append(Addressed(request, node))
        return requests

    def delay_ms(self, now_ms: int) -> int:
        """Until the first of the groups that have to wait may be asked for again; 0: none has to."""
        waiting = (g.attempts.not_before_ms for name, g in self._open.items() if name not in self._under_way)
        return max(1, min(waiting) - now_ms) if len(self._under_way) < len(self._open) else 0

    # -- what came back --------------------------------------------------------------------------------

    def handle(self, request: _Request, response: ClientResponse, now_ms: int) -> None:
        """Note the answers; ask again where that may help."""
        names = self._landed(request)
        if response.body is None:
            self._no_answer(request, names, response, now_ms)
        elif isinstance(request, FindCoordinator):
            self._looked_up(request, names[0], response, now_ms)
        else:
            for name, answer in request.parse(response.body).items():
                self._answered(name, answer, now_ms)

    def unreachable(self, request: _Request, now_ms: int) -> None:
        """Perhaps another broker coordinates by now."""
        for name in self._landed(request):
            node = (
                None
                if isinstance(request, FindCoordinator)
                else self._known.get(self._open[name].coordinator)
            )
            self._again(name, f"no connection to {node or 'any broker'}", now_ms, moved=True)

    def _landed(self, request: _Request) -> Sequence[str]:
        names = (request.wanted.key,) if isinstance(request, FindCoordinator) else request.groups
        self._under_way.difference_update(names)
        return names

    def _no_answer(
        self, request: _Request, names: Sequence[str], response: ClientResponse, now_ms: int
    ) -> None:
        if response.unsupported_version is not None and len(names) > 1:
            self.asks_for_several = False
            return
        for name in names:
            if response.disconnected and response.authentication_error is None:
                self._again(name, str(response.error or "a connection that ended"), now_ms, moved=True)
            else:
                self._failed(name, response.authentication_error or _why(request, response))

    def _looked_up(self, request: FindCoordinator, name: str, response: ClientResponse, now_ms: int) -> None:
        answer = request.parse(response.body)
        if answer.node is not None:
            self._known.found(request.wanted, answer.node)
            return
        error = error_for_code(answer.codes[None], answer.message, f"{request}")
        if error.retriable:
            self._again(name, str(error), now_ms)
        else:
            self._failed(name, error)

    def _answered(self, name: str, answer: GroupAnswer, now_ms: int) -> None:
        if answer.code in (0, _NO_GROUP):
            self.positions[name] = answer.position
            del self._open[name]
            return
        error = error_for_code(answer.code, None, f"group {name!r}, {self._topic_partition}")
        if error.retriable:
            unstable = answer.code == _UNSTABLE
            self._again(name, str(error), now_ms, moved=answer.code in _MOVED, unstable=unstable)
        else:
            self._failed(name, error)

    def _again(
        self, name: str, trouble: str, now_ms: int, *, moved: bool = False, unstable: bool = False
    ) -> None:
        group = self._open[name]
        group.trouble = trouble
        group.attempts.failed(now_ms, first_ms=_FIRST_UNSTABLE_PAUSE_MS if unstable else None)
        if moved:
            self._known.forget(group.coordinator)

    def _failed(self, name: str, error: KafkaError) -> None:
        self.errors[name] = error
        del self._open[name]


def _why(request: _Request, response: ClientResponse) -> KafkaError:
    unsupported = response.unsupported_version
    if unsupported is not None and isinstance(request, OffsetFetch):
        return UnsupportedVersionError(
            "brokers before 2.5 cannot tell whether a committed offset is stable, or may still be changed by "
            f"an open transaction: {unsupported}"
        )
    return unsupported or response.error or KafkaError(f"{request}: no answer, and no reason for it")

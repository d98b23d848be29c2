"""CoordinatorLookup: asks once, for many groups or transactional ids at a time, who coordinates them.

Saves round trips, and is not relied on: those that are not found ask again, alone. Source: KIP-699.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kproducer.protocol.registry import ApiKey
from kproducer.transactions.coordinator_calls import KnownCoordinators
from kproducer.transactions.dialogue import Addressed
from kproducer.transactions.transaction_requests import Coordinator, CoordinatorKind
from kproducer.types import Node

if TYPE_CHECKING:
    from kproducer_messages import FindCoordinatorRequest

    from kproducer.client.client_request import ClientResponse

#: Of one request, which stays below 100 kB with the longest names that the Spark sink makes (some 400).
_MOST_KEYS: Final = 200


class FindCoordinators:
    """A ``RequestBuilder``: which brokers are they? At least version 4."""

    api_key = ApiKey.FIND_COORDINATOR
    oldest_version = 4
    latest_version = 6

    def __init__(self, kind: CoordinatorKind, keys: Sequence[str]) -> None:
        self._kind = kind
        self._keys = tuple(keys)

    def build(self, version: int) -> FindCoordinatorRequest:
        from kproducer_messages import FindCoordinatorRequest

        return FindCoordinatorRequest(key_type=self._kind.value, coordinator_keys=list(self._keys))

    def parse(self, body: Any) -> dict[Coordinator, Node]:
        """Those that were found."""
        return {
            Coordinator(self._kind, found.key): Node(found.node_id, found.host, found.port)
            for found in body.coordinators
            if found.error_code == 0 and found.node_id >= 0 and found.host and found.key in self._keys
        }

    def __repr__(self) -> str:
        return (
            f"FindCoordinator({self._kind.name.lower()} {self._keys[0]!r} and {len(self._keys) - 1} others)"
        )


class CoordinatorLookup:
    """A ``Dialogue`` of one request for each two hundred.

    Args:
        kind: groups or transactional ids.
        keys: their names.
        known: gets what is found.
    """

    def __init__(self, kind: CoordinatorKind, keys: Iterable[str], known: KnownCoordinators) -> None:
        self._known = known
        names = list(keys)
        self._due = [
            FindCoordinators(kind, names[start : start + _MOST_KEYS])
            for start in range(0, len(names), _MOST_KEYS)
        ]
        self._under_way = list(self._due)
        #: A broker is too old for this; it was not asked.
        self.is_unsupported = False

    @property
    def has_ended(self) -> bool:
        """Whether nothing is under way."""
        return not self._under_way

    @property
    def waits_for(self) -> str:
        """In words, for error messages."""
        return f"waiting for {self._under_way[0]}" if self._under_way else ""

    def next_requests(self, now_ms: int) -> Sequence[Addressed]:
        """All of them, the first time."""
        due, self._due = self._due, []
        return [Addressed(request, None) for request in due]

    def delay_ms(self, now_ms: int) -> int:
        """Nothing is held back."""
        return 0

    def handle(self, request: FindCoordinators, response: ClientResponse, now_ms: int) -> None:
        """Note what was found."""
        self._under_way.remove(request)
        if response.body is not None:
            for coordinator, node in request.parse(response.body).items():
                self._known.found(coordinator, node)
        self.is_unsupported |= response.unsupported_version is not None

    def unreachable(self, request: FindCoordinators, now_ms: int) -> None:
        """Whoever is not found asks again."""
        self._under_way.remove(request)

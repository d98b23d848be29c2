"""CoordinatorCalls: one request at a time to whoever coordinates, again after a pause, and after a look-up.

Which request is due is asked anew each time: what the state does not want any more is not sent again. Guarded
by the manager's lock. Source: Kafka's ``TransactionManager`` (pendingRequests, lookupCoordinator).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

from kproducer.client.exponential_backoff import ExponentialBackoff
from kproducer.transactions.transaction_requests import (
    Coordinator,
    FindCoordinator,
    TransactionRequest,
)
from kproducer.types import Node

#: A producer that changes its transactional id with each piece of work meets more and more of them.
_MOST_COORDINATORS: Final = 10_000
_MOST_DOUBLINGS: Final = 16


class Attempts:
    """How often something failed in a row, and when it may be tried again."""

    __slots__ = ("_backoff", "failures", "not_before_ms")

    def __init__(self, backoff: ExponentialBackoff) -> None:
        self._backoff = backoff
        self.succeeded()

    def succeeded(self) -> None:
        """Begin to count anew."""
        self.failures = 0
        self.not_before_ms = 0

    def failed(self, now_ms: int, longest_ms: int | None = None, first_ms: int | None = None) -> None:
        """Wait longer than the last time.

        Args:
            now_ms: monotonic.
            longest_ms: so long at most, every time.
            first_ms: so long at most the first time, then twice as long, and so on: it will be over soon.
        """
        pause_ms = self._backoff.backoff_ms(self.failures)
        if longest_ms is not None:
            pause_ms = min(pause_ms, longest_ms)
        if first_ms is not None:
            pause_ms = min(pause_ms, first_ms << min(self.failures, _MOST_DOUBLINGS))
        self.not_before_ms = now_ms + pause_ms
        self.failures += 1


class KnownCoordinators:
    """Which broker coordinates, as far as it is known: of so many, the oldest is forgotten.

    A guess: a broker that is not the coordinator any more says so.
    """

    def __init__(self) -> None:
        self._nodes: dict[Coordinator, Node] = {}

    def __contains__(self, coordinator: Coordinator) -> bool:
        return coordinator in self._nodes

    def get(self, coordinator: Coordinator) -> Node | None:
        """The broker; None: it has to be looked up."""
        return self._nodes.get(coordinator)

    def found(self, coordinator: Coordinator, node: Node) -> None:
        """A look-up was answered."""
        self._nodes[coordinator] = node
        if len(self._nodes) > _MOST_COORDINATORS:
            del self._nodes[next(iter(self._nodes))]

    def forget(self, coordinator: Coordinator) -> None:
        """It is not, or does not answer."""
        self._nodes.pop(coordinator, None)


class CoordinatorCalls:
    """The request that is due, or on its way.

    Args:
        backoff: pauses between attempts.
        nodes: may be shared with others whose requests go to the same cluster, on the same thread.

    Attributes:
        in_flight: the request that waits for its answer.
        trouble: why the last attempt has to be repeated, in words; empty after a success.
    """

    def __init__(self, backoff: ExponentialBackoff, nodes: KnownCoordinators | None = None) -> None:
        self._nodes = nodes if nodes is not None else KnownCoordinators()
        self._key: Hashable = None
        self._request: TransactionRequest | None = None
        self._request_attempts = Attempts(backoff)
        self._lookup_attempts = Attempts(backoff)
        self.in_flight: TransactionRequest | None = None
        self.trouble = ""

    def next_request(
        self, key: Hashable, make: Callable[[], TransactionRequest], now_ms: int
    ) -> TransactionRequest | None:
        """The request to send now: the wanted one, or the look-up that has to come before it.

        Args:
            key: equal as long as the same thing is wanted.
            make: builds it; called once for a key.
            now_ms: monotonic.
        """
        if self.in_flight is not None:
            return None
        if self._request is None or key != self._key:
            self.done()
            self._key, self._request = key, make()
            self._request_attempts.succeeded()
        request: TransactionRequest = self._request
        attempts = self._request_attempts
        if request.coordinator is not None and request.coordinator not in self._nodes:
            request, attempts = FindCoordinator(request.coordinator), self._lookup_attempts
        if now_ms < attempts.not_before_ms:
            return None
        self.in_flight = request
        return request

    def delay_ms(self, now_ms: int) -> int:
        """How long the request that ``next_request`` held back has to wait; 0 when nothing was held back."""
        request = self._request
        if request is None:
            return 0
        is_lookup = request.coordinator is not None and request.coordinator not in self._nodes
        attempts = self._lookup_attempts if is_lookup else self._request_attempts
        return max(0, attempts.not_before_ms - now_ms)

    def node_for(self, request: TransactionRequest) -> Node | None:
        """Where to send it; None: any broker will do."""
        return None if request.coordinator is None else self._nodes.get(request.coordinator)

    def landed(self) -> None:
        """The request in flight has ended, somehow."""
        self.in_flight = None

    def found(self, coordinator: Coordinator, node: Node) -> None:
        """A look-up was answered."""
        self._nodes.found(coordinator, node)
        self._lookup_attempts.succeeded()

    def lookup_failed(self, now_ms: int) -> None:
        """A look-up has to be made again."""
        self._lookup_attempts.failed(now_ms)

    def again(self, now_ms: int, longest_ms: int | None = None, first_ms: int | None = None) -> None:
        """The request has to be sent again after a pause; see ``Attempts.failed``."""
        self._request_attempts.failed(now_ms, longest_ms, first_ms)

    def forget(self, coordinator: Coordinator | None) -> None:
        """That broker is not the coordinator, or does not answer: look it up before the next request."""
        if coordinator is not None:
            self._nodes.forget(coordinator)

    def start_over(self) -> None:
        """What was wanted is not wanted any more, and its failures say nothing about what comes."""
        self.done()
        self._request_attempts.succeeded()
        self._lookup_attempts.succeeded()

    def done(self) -> None:
        """What was wanted is done: if the same is wanted once more it is a new request."""
        self._key = self._request = None
        self.trouble = ""

    def __str__(self) -> str:
        """What is waited for, and what went wrong with it last; empty when nothing is."""
        request = self.in_flight or self._request
        if request is None:
            return ""
        if request.coordinator is not None and request.coordinator not in self._nodes:
            request = FindCoordinator(request.coordinator)
        node = self.node_for(request)
        return (
            f"waiting for {request}"
            + (f", broker {node}" if node is not None else "")
            + (f"; the last attempt failed with {self.trouble}" if self.trouble else "")
        )

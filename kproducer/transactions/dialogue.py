"""Dialogue: several requests to coordinators at a time, without sockets and clock; and DialogueLink, which
carries them to the brokers.

The counterpart, for many, of a producer's ``TransactionManager`` and ``CoordinatorLink``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kproducer.runtime.clock import Clock
from kproducer.transactions.coordinator_link import NEVER_MS, UNREACHABLE, wait_for_node
from kproducer.types import Node

if TYPE_CHECKING:
    from kproducer.client.client_request import ClientResponse
    from kproducer.client.network_client import NetworkClient


class Addressed(NamedTuple):
    """A request and where it goes; ``None``: to any broker."""

    request: Any
    node: Node | None


class Dialogue(Protocol):
    """What asks and understands. Each request comes back once, through ``handle`` or ``unreachable``."""

    @property
    def has_ended(self) -> bool:
        """Whether everything is known."""

    @property
    def waits_for(self) -> str:
        """In words, for error messages; empty after the end."""

    def next_requests(self, now_ms: int) -> Sequence[Addressed]:
        """Those that are due and were not given before."""

    def delay_ms(self, now_ms: int) -> int:
        """When there may be more, by themselves; 0: nothing is held back."""

    def handle(self, request: Any, response: ClientResponse, now_ms: int) -> None:
        """A request has ended."""

    def unreachable(self, request: Any, now_ms: int) -> None:
        """A request could not be sent: no connection to its broker."""


class DialogueLink:
    """Sends what the dialogue wants sent. Not thread-safe.

    Args:
        dialogue: says what.
        client: the connections.
        clock: the time of answers.
        request_timeout_ms: for each request.
    """

    def __init__(
        self, dialogue: Dialogue, client: NetworkClient, clock: Clock, request_timeout_ms: int
    ) -> None:
        self._dialogue = dialogue
        self._client = client
        self._clock = clock
        self._request_timeout_ms = request_timeout_ms
        self._held: list[Addressed] = []

    @property
    def has_ended(self) -> bool:
        """Whether the dialogue has."""
        return self._dialogue.has_ended

    @property
    def waits_for(self) -> str:
        """See ``Dialogue``."""
        return self._dialogue.waits_for

    def step(self, now_ms: int) -> int:
        """Send the requests that are due and whose brokers can take them. Returns when to look again, ms."""
        due, self._held = [*self._held, *self._dialogue.next_requests(now_ms)], []
        delays_ms = [self._try_to_send(addressed, now_ms) for addressed in due]
        return min([*delays_ms, self._dialogue.delay_ms(now_ms) or NEVER_MS])

    def _try_to_send(self, addressed: Addressed, now_ms: int) -> int:
        node = addressed.node or self._client.least_loaded_node(now_ms)
        delay_ms = wait_for_node(self._client, node, now_ms)
        if delay_ms == UNREACHABLE:
            self._dialogue.unreachable(addressed.request, now_ms)
            return self._dialogue.delay_ms(now_ms) or NEVER_MS
        if delay_ms or node is None:
            self._held.append(addressed)
            return delay_ms
        request = addressed.request

        def on_complete(response: ClientResponse) -> None:
            self._dialogue.handle(request, response, self._clock.monotonic_ms())

        self._client.send(
            self._client.new_client_request(
                str(node.id), request, now_ms, True, self._request_timeout_ms, on_complete
            ),
            now_ms,
        )
        return NEVER_MS

"""CoordinatorLink: carries the manager's requests to the brokers and their ends back.

I/O thread only. One request at a time; while its broker is being connected to it is held here. Source:
Kafka's ``Sender.maybeSendAndPollTransactionalRequest``, which waits for the connection where this one looks
again later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kproducer.runtime.clock import Clock
from kproducer.runtime.guarded_logger import GuardedLogger
from kproducer.transactions.transaction_manager import TransactionManager
from kproducer.transactions.transaction_requests import TransactionRequest
from kproducer.types import Node

if TYPE_CHECKING:
    from kproducer.client.client_request import ClientResponse
    from kproducer.client.network_client import NetworkClient

_log = GuardedLogger(__name__)

NEVER_MS: Final = 3_600_000
#: Of ``wait_for_node``: there is no connection, and none is being made.
UNREACHABLE: Final = -1
#: No broker is known to be there: metadata, which looks for one, has its own pauses.
_NO_NODE_DELAY_MS: Final = 50


def wait_for_node(client: NetworkClient, node: Node | None, now_ms: int) -> int:
    """When a request may be sent to the node, in ms; 0: now. Begins a connection if there is none."""
    if node is None:
        return _NO_NODE_DELAY_MS
    if client.ready(node, now_ms):
        return 0
    if client.connection_failed(node):
        return UNREACHABLE
    # Connecting, asked for its versions, or full: its next event ends the poll.
    return max(1, client.poll_delay_ms(node, now_ms))


class CoordinatorLink:
    """Sends what the manager wants sent.

    Args:
        manager: says what.
        client: the connections.
        clock: the time of answers.
        request_timeout_ms: for each request.
    """

    def __init__(
        self, manager: TransactionManager, client: NetworkClient, clock: Clock, request_timeout_ms: int
    ) -> None:
        self._manager = manager
        self._client = client
        self._clock = clock
        self._request_timeout_ms = request_timeout_ms
        self._held: TransactionRequest | None = None

    def step(self, now_ms: int, has_incomplete: bool) -> int:
        """Send the request that is due, if its broker can take it. Returns when to look again, in ms."""
        try:
            return self._step(now_ms, has_incomplete)
        except Exception as bug:
            self._fail(bug)
            return 0

    def _fail(self, bug: Exception) -> None:
        """The manager would wait for a request that nobody sends, or ask the same again and again."""
        self._manager.internal_error(bug)
        _log.error("Internal error with a request to a coordinator", exc_info=bug)

    def _step(self, now_ms: int, has_incomplete: bool) -> int:
        if self._held is None:
            if self._manager.wants_nothing:
                return NEVER_MS
            self._held = self._manager.next_request(now_ms, has_incomplete)
            if self._held is None:
                return self._manager.delay_ms(now_ms) or NEVER_MS
        return self._try_to_send(self._held, now_ms)

    def _try_to_send(self, request: TransactionRequest, now_ms: int) -> int:
        if request.coordinator is None:
            node = self._client.least_loaded_node(now_ms)
        else:
            node = self._manager.node_for(request)
        delay_ms = wait_for_node(self._client, node, now_ms)
        if delay_ms == UNREACHABLE:
            self._held = None
            self._manager.unreachable(request, now_ms)
            return self._manager.delay_ms(now_ms)
        if delay_ms or node is None:
            return delay_ms
        self._held = None
        self._send(request, node, now_ms)
        return NEVER_MS

    def _send(self, request: TransactionRequest, node: Node, now_ms: int) -> None:
        def on_complete(response: ClientResponse) -> None:
            try:
                self._manager.handle(request, response, self._clock.monotonic_ms())
            except Exception as bug:
                self._fail(bug)

        self._client.send(
            self._client.new_client_request(
                str(node.id), request, now_ms, True, self._request_timeout_ms, on_complete
            ),
            now_ms,
        )

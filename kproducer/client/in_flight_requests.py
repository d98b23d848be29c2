"""Requests that were sent, or are being sent, and not answered yet: a queue for each node.

Brokers answer in order on a connection, so the oldest request is the one a response belongs to.
Knows no bytes and no connections. Source: Kafka class ``InFlightRequests``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from kproducer.client.client_request import ClientRequest
from kproducer.errors import IllegalStateError
from kproducer.network.network_send import NetworkSend
from kproducer.runtime.clock import NEVER_MS


class InFlightRequest:
    """A request under way. I/O thread only.

    Attributes:
        request: what the caller asked for.
        api_version: the version it was encoded in.
        send: its bytes; completed once they left.
        is_internal: made by the client itself (metadata, version check).
        sent_ms: when it was handed to the socket; the timeout counts from here.
        expires_ms: when it times out; put off while the broker makes us wait (throttling).
    """

    __slots__ = ("api_version", "expires_ms", "is_internal", "request", "send", "sent_ms")

    def __init__(
        self, request: ClientRequest, api_version: int, send: NetworkSend, is_internal: bool, sent_ms: int
    ) -> None:
        self.request = request
        self.api_version = api_version
        self.send = send
        self.is_internal = is_internal
        self.sent_ms = sent_ms
        self.expires_ms = sent_ms + request.request_timeout_ms


class InFlightRequests:
    """The queues of all nodes. I/O thread only.

    Args:
        max_per_connection: how many requests may wait for their answers on one connection.
    """

    __slots__ = ("_earliest_expiry_ms", "_max_per_connection", "_queues", "count")

    def __init__(self, max_per_connection: int) -> None:
        self._max_per_connection = max_per_connection
        self._queues: dict[str, deque[InFlightRequest]] = {}
        # Never later than the true earliest expiry; made exact when it is reached, so that the usual case
        # (nothing times out) costs one comparison a loop.
        self._earliest_expiry_ms = NEVER_MS
        self.count = 0

    def add(self, request: InFlightRequest) -> None:
        """Append a request; it is the newest one of its node."""
        destination = request.request.destination
        queue = self._queues.get(destination)
        if queue is None:
            queue = self._queues[destination] = deque()
        queue.append(request)
        self.count += 1
        if request.expires_ms < self._earliest_expiry_ms:
            self._earliest_expiry_ms = request.expires_ms

    def oldest(self, node_id: str) -> InFlightRequest | None:
        """The request that the next response of this node belongs to."""
        queue = self._queues.get(node_id)
        return queue[0] if queue else None

    def complete_oldest(self, node_id: str) -> InFlightRequest:
        """Take out the oldest request. Raises IllegalStateError when there is none."""
        queue = self._queues.get(node_id)
        if not queue:
            raise IllegalStateError(f"no request is in flight to node {node_id}")
        self.count -= 1
        return queue.popleft()

    def complete_unanswered(self, send: NetworkSend) -> InFlightRequest | None:
        """Take out the request whose frame was written, if it expects no response; else nothing happens."""
        queue = self._queues.get(send.destination, ())
        for position, request in enumerate(queue):
            if request.send is send:
                if request.request.expect_response:
                    return None
                del queue[position]  # type: ignore[union-attr]
                self.count -= 1
                return request
        return None

    def can_send_more(self, node_id: str) -> bool:
        """Whether the limit is not reached, and the socket took all that it was offered."""
        queue = self._queues.get(node_id)
        if not queue:
            return True
        newest = queue[-1].send
        return (newest.completed or not newest.is_stalled) and len(queue) < self._max_per_connection

    def count_of(self, node_id: str) -> int:
        """Requests under way to this node."""
        queue = self._queues.get(node_id)
        return len(queue) if queue else 0

    def node_ids(self) -> list[str]:
        """Nodes with requests under way."""
        return [node_id for node_id, queue in self._queues.items() if queue]

    def clear(self, node_id: str) -> list[InFlightRequest]:
        """Take out all requests of a node, oldest first."""
        queue = self._queues.pop(node_id, None)
        if not queue:
            return []
        self.count -= len(queue)
        return list(queue)

    def delay_expiry(self, node_id: str, throttle_ms: int, most_ms: int) -> None:
        """Give the node's requests more time: the broker holds them back on purpose (KIP-219).

        Args:
            throttle_ms: how much.
            most_ms: no request gets more than this in all, however many answers ask for it.
        """
        for request in self._queues.get(node_id, ()):
            latest_ms = request.sent_ms + request.request.request_timeout_ms + most_ms
            request.expires_ms = min(request.expires_ms + throttle_ms, latest_ms)

    def expired(self, now_ms: int) -> Iterator[InFlightRequest]:
        """For each node with a request past its timeout, the first such request."""
        if now_ms <= self._earliest_expiry_ms:
            return
        earliest = NEVER_MS
        late: list[InFlightRequest] = []
        for queue in self._queues.values():
            first_late: InFlightRequest | None = None
            for request in queue:
                if request.expires_ms < now_ms:
                    first_late = first_late or request
                earliest = min(earliest, request.expires_ms)
            if first_late is not None:
                late.append(first_late)
        self._earliest_expiry_ms = earliest
        yield from late

    def next_expiry_delay_ms(self, now_ms: int) -> int:
        """How long until a request may time out (never too late, sometimes too early)."""
        if not self.count:
            return NEVER_MS
        return max(self._earliest_expiry_ms + 1 - now_ms, 0)

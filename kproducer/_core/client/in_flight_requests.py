"""Requests that were sent, or are being sent, and the responses they get: a queue per node.

Brokers answer in order on a connection, so a response belongs to the oldest request in flight. A broker must
not answer ``acks=0``, but librdkafka's mock cluster does; such a response is dropped. Any other response that
does not match the oldest request means that the connection is out of step and has to end.
Source: Kafka class ``InFlightRequests``; ``NetworkClient`` (handleCompletedReceives).
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

from kproducer._core.client.client_request import ClientRequest
from kproducer._core.client.responses import parse_response
from kproducer._core.network.network_send import NetworkSend
from kproducer._core.runtime.clock import NEVER_MS
from kproducer.errors import IllegalStateError, RemoteProtocolError
from kproducer.errors.internal_errors import CorrelationIdMismatchError

#: Per connection: requests without a response that are remembered, to recognize responses to them.
_REMEMBERED = 4096


class InFlightRequests:
    """The queues of all nodes. I/O thread only.

    Args:
        max_per_connection: how many requests may wait for their responses on one connection.

    Attributes:
        count: requests in flight to all nodes.
        lanes: by node id, the lanes, which have requests of their own in flight.
        next_expiry_ms: no request times out before this time has passed. Made exact by ``expired``.
    """

    __slots__ = ("_max_per_connection", "_queues", "_without_response", "count", "lanes", "next_expiry_ms")

    def __init__(self, max_per_connection: int) -> None:
        self._max_per_connection = max_per_connection
        self._queues: dict[str, deque[ClientRequest]] = defaultdict(deque)
        #: Correlation ids of written requests that expect no response, by node.
        self._without_response: dict[str, deque[int]] = {}
        self.next_expiry_ms = NEVER_MS
        self.count = 0
        self.lanes: dict[str, Any] = {}

    def add(self, request: ClientRequest) -> None:
        """Append a request to the queue of its node."""
        self._queues[request.destination].append(request)
        self.count += 1
        if request.expires_ms < self.next_expiry_ms:
            self.next_expiry_ms = request.expires_ms

    def request_of(self, node_id: str, payload: bytes, broker: str) -> ClientRequest | None:
        """The request that a frame answers; None if the frame is to be dropped.

        Raises RemoteProtocolError if no request, or one that is not completely written, waits for a response.
        """
        queue = self._queues.get(node_id)
        if not queue or not queue[0].expect_response:
            if self._answers_acks_0(node_id, payload):
                return None
            raise RemoteProtocolError(f"{broker} sent a response of {len(payload)} bytes to no request")
        oldest = queue[0]
        if not oldest.send.completed:
            # To complete the request would return the record buffers to the pool, while the socket still has
            # to read them.
            raise RemoteProtocolError(
                f"{broker} answered a request of which {oldest.send.remaining_bytes} bytes are not sent yet"
            )
        return oldest

    def complete(self, pending: ClientRequest, payload: bytes) -> Any | None:
        """Remove ``pending``, its node's oldest request, and return the decoded response.

        None if the frame is to be dropped; the request then stays, as it does after an error. Raises
        RemoteProtocolError if the frame cannot be decoded, or answers another request.
        """
        try:
            body = parse_response(pending.api_key, pending.api_version, pending.correlation_id, payload)
        except CorrelationIdMismatchError:
            if self._answers_acks_0(pending.destination, payload):
                return None
            raise
        self.count -= 1
        self._queues[pending.destination].popleft()
        return body

    def _answers_acks_0(self, node_id: str, payload: bytes) -> bool:
        """Whether the frame answers a request that expects no response. Forgets it and the older ones."""
        ids = self._without_response.get(node_id)
        if not ids or len(payload) < 4:
            return False
        correlation_id = int.from_bytes(payload[:4], "big")
        if correlation_id not in ids:
            return False
        while ids.popleft() != correlation_id:
            pass
        return True

    def complete_oldest(self, node_id: str) -> ClientRequest:
        """Remove the oldest request. Raises IllegalStateError if there is none."""
        queue = self._queues.get(node_id)
        if not queue:
            raise IllegalStateError(f"no request is in flight to node {node_id}")
        self.count -= 1
        return queue.popleft()

    def complete_unanswered(self, send: NetworkSend) -> ClientRequest | None:
        """Remove the request whose frame was written, if it expects no response; else do nothing."""
        queue = self._queues.get(send.destination)
        if queue is None:
            return None
        for position, pending in enumerate(queue):
            if pending.send is send:
                if pending.expect_response:
                    return None
                del queue[position]
                self.count -= 1
                ids = self._without_response.setdefault(send.destination, deque(maxlen=_REMEMBERED))
                ids.append(pending.correlation_id)
                return pending
        return None

    def can_send_more(self, node_id: str) -> bool:
        """Whether the limit is not reached and the socket took all bytes offered to it."""
        queue, lane = self._queues.get(node_id), self.lanes.get(node_id)
        newest = queue[-1].send if queue else None
        if newest is not None and newest.is_stalled and not newest.completed:
            return False
        if lane is not None and lane.is_stalled:
            return False
        return self.count_of(node_id) < self._max_per_connection

    def count_of(self, node_id: str) -> int:
        """Requests in flight to this node."""
        queue, lane = self._queues.get(node_id), self.lanes.get(node_id)
        in_lane: int = 0 if lane is None else lane.in_flight
        return (len(queue) if queue else 0) + in_lane

    def oldest_api_key(self, node_id: str) -> int | None:
        """The API of the node's oldest request; None: there is none."""
        queue = self._queues.get(node_id)
        return queue[0].api_key if queue else None

    def node_ids(self) -> list[str]:
        """Nodes with requests in flight."""
        return [node_id for node_id, queue in self._queues.items() if queue]

    def clear(self, node_id: str) -> list[ClientRequest]:
        """The connection ended: remove all requests of its node. Returns them, oldest first."""
        self._without_response.pop(node_id, None)
        requests = list(self._queues.pop(node_id, ()))
        self.count -= len(requests)
        return requests

    def delay_expiry(self, node_id: str, throttle_ms: int, most_ms: int) -> None:
        """Give the node's requests more time: the broker delays them because of a quota (KIP-219).

        Args:
            throttle_ms: how much more.
            most_ms: the most that one request gets in all, however many responses ask for it.
        """
        for request in self._queues.get(node_id, ()):
            latest_ms = request.sent_ms + request.timeout_ms + most_ms
            request.expires_ms = min(request.expires_ms + throttle_ms, latest_ms)

    def expired(self, now_ms: int) -> list[ClientRequest]:
        """The first request past its timeout of each node. Empty until ``next_expiry_ms`` has passed."""
        earliest = NEVER_MS
        late: list[ClientRequest] = []
        for queue in self._queues.values():
            first_late: ClientRequest | None = None
            for request in queue:
                if request.expires_ms < now_ms:
                    first_late = first_late or request
                earliest = min(earliest, request.expires_ms)
            if first_late is not None:
                late.append(first_late)
        self.next_expiry_ms = earliest
        return late

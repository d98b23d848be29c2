"""A selector without sockets: the test controls connections, responses and failures.

Replaces ``kproducer._core.network.selector.Selector``. Requests are decoded into messages, so a test sees
what a broker would see.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from kproducer_messages import REQUESTS, RequestHeader

from kproducer._core.client.api_keys import request_header_version, response_header_version
from kproducer._core.network.network_receive import NetworkReceive
from kproducer._core.network.network_send import NetworkSend
from kproducer._core.network.transport_layer import SocketAddress
from kproducer._core.runtime.clock import Clock
from kproducer.errors import DisconnectedError, IllegalStateError, KafkaError, NetworkError


class SentRequest(NamedTuple):
    """A request as a broker would read it."""

    node_id: str
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    message: Any


class MockSelector:
    """Connections succeed at the next poll by default. Not thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.connected: list[str] = []
        self.disconnected: dict[str, KafkaError] = {}
        self.completed_sends: list[NetworkSend] = []
        self.completed_receives: list[NetworkReceive] = []
        #: (id, address, family) of every connection attempt.
        self.attempts: list[tuple[str, SocketAddress, int]] = []
        self.requests: list[SentRequest] = []
        self.poll_timeouts_ms: list[int] = []
        self.closed: list[str] = []
        self.wakeups = 0
        #: Ids that fail inside ``connect``, that stay connecting, and whose channel never becomes ready.
        self.fail_at_once: set[str] = set()
        self.hang: set[str] = set()
        self.never_ready: set[str] = set()
        #: Ids with full sockets: sends stay incomplete until ``finish_sends``.
        self.full: set[str] = set()
        self._up: set[str] = set()
        self._connecting: list[str] = []
        self._unfinished: list[NetworkSend] = []
        self._next_sends: list[NetworkSend] = []
        self._next_receives: list[NetworkReceive] = []
        self._next_disconnected: dict[str, KafkaError] = {}
        self.is_closed = False

    # -- called by the client --------------------------------------------------------------------------

    def connect(
        self,
        connection_id: str,
        address: SocketAddress,
        family: int = 2,
        host: str = "",
        target: tuple[str, int] | None = None,
    ) -> None:
        if connection_id in self._up or connection_id in self._connecting:
            raise IllegalStateError(f"a connection with id {connection_id} already exists")
        self.attempts.append((connection_id, address, family))
        if connection_id in self.fail_at_once:
            raise NetworkError(f"could not connect to {address[0]}: no route")
        self._connecting.append(connection_id)

    def send(self, send: NetworkSend) -> None:
        node_id = send.destination
        if node_id not in self._up:
            raise IllegalStateError(f"there is no connection with id {node_id}")
        if any(unfinished.destination == node_id for unfinished in self._unfinished):
            raise IllegalStateError("still sending")
        if node_id in self.full:
            send.is_stalled = True
            self._unfinished.append(send)
            return
        self._write(send)

    def poll(self, timeout_ms: int) -> int:
        self.poll_timeouts_ms.append(timeout_ms)
        self.connected = [i for i in self._connecting if i not in self.hang]
        self._connecting = [i for i in self._connecting if i in self.hang]
        self._up.update(self.connected)
        self.completed_sends, self._next_sends = self._next_sends, []
        self.completed_receives, self._next_receives = self._next_receives, []
        self.disconnected, self._next_disconnected = self._next_disconnected, {}
        return self._clock.monotonic_ms()

    def expect_long_frames(self, connection_id: str) -> None:
        pass

    def wakeup(self) -> None:
        self.wakeups += 1

    def close(self, connection_id: str | None = None) -> None:
        if connection_id is None:
            self.is_closed = True
            return
        self.closed.append(connection_id)
        self._forget(connection_id)

    def is_channel_ready(self, connection_id: str) -> bool:
        return connection_id in self._up and connection_id not in self.never_ready

    def release_after_fork(self) -> None:
        self.is_closed = True

    # -- called by tests -------------------------------------------------------------------------------

    def finish_sends(self) -> None:
        """Let the full sockets accept everything; reported by the next poll."""
        unfinished, self._unfinished = self._unfinished, []
        for send in unfinished:
            self._write(send)

    def respond(self, request: SentRequest, body: Any, *, correlation_id: int | None = None) -> None:
        """Answer a request; delivered by the next poll."""
        version = response_header_version(request.api_key, request.version)
        number = request.correlation_id if correlation_id is None else correlation_id
        header = struct.pack(">i", number) + (b"\0" if version >= 1 else b"")
        self.respond_raw(request.node_id, header + body.encode(request.version))

    def respond_raw(self, node_id: str, payload: bytes) -> None:
        """Send an arbitrary frame; delivered by the next poll."""
        self._next_receives.append((node_id, payload))

    def break_connection(self, node_id: str, error: KafkaError | None = None) -> None:
        """Close the connection; reported by the next poll."""
        self._forget(node_id)
        self._next_disconnected[node_id] = error or DisconnectedError("the peer closed the connection")

    def last_request(self, node_id: str | None = None) -> SentRequest:
        """The newest request, of one node or of all nodes."""
        return [r for r in self.requests if node_id in (None, r.node_id)][-1]

    def _forget(self, node_id: str) -> None:
        self._up.discard(node_id)
        self._connecting = [i for i in self._connecting if i != node_id]
        self._unfinished = [send for send in self._unfinished if send.destination != node_id]

    def _write(self, send: NetworkSend) -> None:
        data = b"".join(send.buffers)
        send.note_written(len(data))
        self._next_sends.append(send)
        self.requests.append(_decode(send.destination, data))


def _decode(node_id: str, frame: bytes) -> SentRequest:
    (size,) = struct.unpack_from(">i", frame)
    assert size == len(frame) - 4
    api_key, version = struct.unpack_from(">hh", frame, 4)
    header, position = RequestHeader.decode(frame, request_header_version(api_key, version), 4)
    message, end = REQUESTS[api_key].decode(frame, version, position)
    assert end == len(frame)
    return SentRequest(node_id, api_key, version, header.correlation_id, header.client_id, message)

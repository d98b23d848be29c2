"""One connection: its transport, the frames to be written, the frame being read and the mute state.

Moves bytes when the selector says so; knows nothing of requests, nodes or other connections.
Source: Kafka class ``KafkaChannel``.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kproducer.errors import IllegalStateError
from kproducer.network.network_receive import FrameAssembler
from kproducer.network.network_send import NetworkSend
from kproducer.network.transport_layer import TransportLayer

if TYPE_CHECKING:
    from kproducer.kernel.native._socket_io import SocketLane


class KafkaChannel:
    """One connection to one broker. I/O thread only.

    Attributes:
        connection_id: the name the client gave it.
        address: ``host:port`` as connected to, for messages.
        transport: the bytes in and out.
        sends: frames to be written, in order; the first one may be written in part.
        is_stalled: the socket took less than it was offered; nothing is added until it has taken all.
        assembler: cuts frames out of what is read.
        is_closed: ``close`` was called.
        muted: nothing is read while true.
        last_active_ms: when bytes last moved (monotonic).
        interest: the selector events registered now; 0 is not registered. Not used with a lane.
        tcp_connected: the TCP connect has succeeded (handshakes may follow).
        lane: the connection's part of the native I/O step, where that moves the bytes.
    """

    __slots__ = (
        "address",
        "assembler",
        "connection_id",
        "interest",
        "is_closed",
        "is_stalled",
        "lane",
        "last_active_ms",
        "muted",
        "sends",
        "tcp_connected",
        "transport",
    )

    def __init__(
        self, connection_id: str, address: str, transport: TransportLayer, max_frame_bytes: int, now_ms: int
    ) -> None:
        self.connection_id = connection_id
        self.address = address
        self.transport = transport
        self.assembler = FrameAssembler(max_frame_bytes)
        self.sends: deque[NetworkSend] = deque()
        self.is_stalled = False
        self.is_closed = False
        self.muted = False
        self.last_active_ms = now_ms
        self.interest = 0
        self.tcp_connected = False
        self.lane: SocketLane | None = None

    def add_send(self, send: NetworkSend) -> None:
        """Accept a frame. Raises IllegalStateError while the socket is full of earlier ones."""
        if self.is_stalled:
            left = sum(waiting.remaining_bytes for waiting in self.sends)
            raise IllegalStateError(
                f"connection {self.connection_id} to {self.address} is still sending ({left} bytes left)"
            )
        if not self.transport.is_ready:
            raise IllegalStateError(f"connection {self.connection_id} to {self.address} is not ready to send")
        self.sends.append(send)

    def write(self, completed: list[NetworkSend]) -> None:
        """Write what waits; append the frames that complete. Raises OSError when the connection broke."""
        sends = self.sends
        while sends and sends[0].write_to(self.transport):
            completed.append(sends.popleft())
        self._note_stall()

    def wrote(self, count: int, completed: list[NetworkSend]) -> None:
        """Take note that the native step wrote ``count`` bytes; append the frames that completed."""
        sends = self.sends
        while sends and (count or not sends[0].remaining_bytes):
            count = sends[0].note_written(count)
            if sends[0].remaining_bytes:
                break
            completed.append(sends.popleft())
        self._note_stall()

    def _note_stall(self) -> None:
        self.is_stalled = bool(self.sends)
        for waiting in self.sends:
            waiting.is_stalled = True

    @property
    def may_expire(self) -> bool:
        """Whether nothing waits here: nothing to be written, and no bytes held back by muting."""
        return not self.sends and not self.muted

    def close(self) -> None:
        """Close the connection and let go of the buffers of unfinished sends. Idempotent."""
        self.is_closed = True
        while self.sends:
            self.sends.popleft().release()
        self.transport.close()

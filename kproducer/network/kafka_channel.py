"""One connection: its transport, the send in progress, the frame being read and the mute state.

Moves bytes when the selector says so; knows nothing of requests, nodes or other connections.
Source: Kafka class ``KafkaChannel``.
"""

from __future__ import annotations

from kproducer.errors import IllegalStateError
from kproducer.network.network_receive import FrameAssembler
from kproducer.network.network_send import NetworkSend
from kproducer.network.transport_layer import TransportLayer


class KafkaChannel:
    """One connection to one broker. I/O thread only.

    Attributes:
        connection_id: the name the client gave it.
        address: ``host:port`` as connected to, for messages.
        transport: the bytes in and out.
        send: the frame being written, at most one.
        assembler: cuts frames out of what is read.
        muted: nothing is read while true.
        last_active_ms: when bytes last moved (monotonic).
        interest: the selector events registered now; 0 is not registered.
        tcp_connected: the TCP connect has succeeded (handshakes may follow).
    """

    __slots__ = (
        "address",
        "assembler",
        "connection_id",
        "interest",
        "last_active_ms",
        "muted",
        "send",
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
        self.send: NetworkSend | None = None
        self.muted = False
        self.last_active_ms = now_ms
        self.interest = 0
        self.tcp_connected = False

    def set_send(self, send: NetworkSend) -> None:
        """Accept the next frame. Raises IllegalStateError while another one is in progress."""
        if self.send is not None:
            raise IllegalStateError(
                f"connection {self.connection_id} to {self.address} is still sending"
                f" ({self.send.remaining_bytes} of {self.send.size_bytes} bytes left)"
            )
        if not self.transport.is_ready:
            raise IllegalStateError(f"connection {self.connection_id} to {self.address} is not ready to send")
        self.send = send

    def write(self) -> NetworkSend | None:
        """Go on writing; the send when it completed just now. Raises OSError when the connection broke."""
        send = self.send
        if send is None or not send.write_to(self.transport):
            return None
        self.send = None
        return send

    @property
    def may_expire(self) -> bool:
        """Whether nothing waits here: no send in progress, and no bytes held back by muting."""
        return self.send is None and not self.muted

    def close(self) -> None:
        """Close the connection and let go of the buffers of an unfinished send. Idempotent."""
        if self.send is not None:
            self.send.release()
            self.send = None
        self.transport.close()

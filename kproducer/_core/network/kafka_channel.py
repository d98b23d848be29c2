"""One connection: its transport layer, the frames to be written and the frame being read.

Moves bytes when the selector calls it; knows nothing of requests, nodes or other connections.
Source: Kafka class ``KafkaChannel``.
"""

from __future__ import annotations

import itertools
from collections import deque
from typing import TYPE_CHECKING, Any

from kproducer._core.network.network_receive import FrameAssembler
from kproducer._core.network.network_send import MAX_PIECES, NetworkSend
from kproducer._core.network.transport_layer import TransportLayer
from kproducer.errors import IllegalStateError

if TYPE_CHECKING:
    from kproducer._core.network import _native_channel_io as native
    from kproducer._core.network.proxy import ProxyTunnel


class KafkaChannel:
    """One connection to one broker. I/O thread only.

    Attributes:
        connection_id: the name the client gave it.
        address: ``host:port`` of the connect, for messages.
        transport: the bytes in and out.
        sends: frames to be written, in order; the first one may be partly written.
        is_stalled: the socket took less than it was offered; it accepts no frame until it took the rest.
        assembler: cuts the bytes read into frames.
        is_closed: ``close`` was called.
        last_active_ms: when bytes last moved (monotonic).
        tcp_connected: the TCP connect has succeeded (handshakes may follow).
        is_ready: the connection is up, its tunnel is open and its handshakes have ended.
        interest: the events that ``PortableChannelIo`` registered; 0 is not registered.
        native_socket: the connection's part of ``NativeChannelIo``, if that moves the bytes.
        lane: the lane of the data plane that uses the connection at present.
        tunnel: a tunnel through a proxy that is not open yet; the transport layer waits for it.
    """

    def __init__(
        self,
        connection_id: str,
        address: str,
        transport: TransportLayer,
        assembler: FrameAssembler,
        last_active_ms: int,
        tunnel: ProxyTunnel | None = None,
    ) -> None:
        self.connection_id = connection_id
        self.address = address
        self.transport = transport
        self.assembler = assembler
        self.last_active_ms = last_active_ms
        self.sends: deque[NetworkSend] = deque()
        self.is_stalled = False
        self.is_closed = False
        self.tcp_connected = False
        self.is_ready = False
        self.interest = 0
        self.native_socket: native.NativeSocket | None = None
        self.lane: Any = None
        self.tunnel = tunnel

    @property
    def wants_write(self) -> bool:
        """Whether bytes other than frames wait for the socket."""
        return self.transport.wants_write if self.tunnel is None else self.tunnel.wants_write

    def not_writable(self) -> IllegalStateError:
        """The error for a frame that the connection cannot take now."""
        reason = "not ready to send"
        if self.is_stalled:
            left = sum(waiting.remaining_bytes for waiting in self.sends)
            reason = f"still sending ({left} bytes left)"
        return IllegalStateError(f"connection {self.connection_id} to {self.address} is {reason}")

    def write(self, completed: list[NetworkSend]) -> None:
        """Write queued frames; append those that complete. Raises OSError if the connection broke.

        Returns after a short write: the socket is full then, and another system call could only confirm it.
        """
        is_full = False
        while (self.sends or self.transport.wants_write) and not is_full:
            queued = itertools.chain.from_iterable([send.buffers for send in self.sends])
            pieces = list(itertools.islice(queued, MAX_PIECES))
            written = self.transport.send(pieces) if pieces or self.transport.wants_write else 0
            is_full = written < sum(piece.nbytes for piece in pieces) or self.transport.wants_write
            self.note_written(written, completed)

    def note_written(self, count: int, completed: list[NetworkSend]) -> None:
        """Note that ``count`` bytes were written; append the frames that this completed."""
        sends = self.sends
        while sends:
            count = sends[0].note_written(count)
            if not sends[0].completed:
                break
            completed.append(sends.popleft())
        self.is_stalled = bool(sends)
        for waiting in sends:
            waiting.is_stalled = True

    def read(self, buffer: memoryview) -> memoryview | None:
        """Read into ``buffer``: the part that was filled, empty at the end of the stream, ``None``: nothing.

        Raises OSError if the connection broke.
        """
        try:
            count = self.transport.receive_into(buffer)
        except BlockingIOError:
            return None
        return buffer[:count]

    def close(self) -> None:
        """Close the connection and release the buffers of unfinished sends. Idempotent."""
        self.is_closed = True
        while self.sends:
            self.sends.popleft().release()
        self.transport.close()

"""One request frame to be written: a list of buffers for scatter-gather writes.

It refers to record bytes and never copies them; it knows nothing of what the bytes mean.
Source: Kafka classes ``NetworkSend`` and ``ByteBufferSend``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from kproducer.network.transport_layer import TransportLayer


def _io_vector_limit() -> int:
    """How many buffers one sendmsg may take; POSIX guarantees 16."""
    try:
        limit = os.sysconf("SC_IOV_MAX")
    except (AttributeError, OSError, ValueError):  # pragma: no cover - not on this platform
        return 16
    return limit if limit > 0 else 16


#: A sendmsg with more buffers than this fails with EMSGSIZE.
MAX_PIECES = _io_vector_limit()


class NetworkSend:
    """The bytes of one frame. I/O thread only.

    It releases its references to the buffers as soon as the last byte is written, or on ``release``.

    Attributes:
        destination: connection id.
        buffers: the bytes to be written; ``write_to`` removes what it has written.
        remaining_bytes: bytes that the transport has not accepted yet.
        completed: the operating system has accepted all bytes.
        is_stalled: a write was tried, and the socket did not take everything.
    """

    __slots__ = ("buffers", "completed", "destination", "is_stalled", "remaining_bytes")

    def __init__(self, destination: str, buffers: Sequence[memoryview]) -> None:
        self.destination = destination
        self.buffers: list[memoryview] = [piece for piece in buffers if piece.nbytes]
        self.remaining_bytes = sum(piece.nbytes for piece in self.buffers)
        self.completed = False
        self.is_stalled = False

    def note_written(self, count: int) -> int:
        """Note that ``count`` bytes of this and later frames were written; returns the later frames' part.

        For a caller that writes ``buffers`` itself.
        """
        taken = min(count, self.remaining_bytes)
        self.remaining_bytes -= taken
        if not self.remaining_bytes:
            self.completed = True
            self.buffers = []
        return count - taken

    def write_to(self, transport: TransportLayer) -> bool:
        """Write as much as the transport takes; returns whether the frame is complete.

        Returns after a short write: the socket is full then, and another system call could only confirm it.
        The caller waits until the socket is writable. Raises OSError if the connection broke.
        """
        while self.remaining_bytes:
            pieces, offered = self.buffers, self.remaining_bytes
            if len(pieces) > MAX_PIECES:
                pieces = pieces[:MAX_PIECES]
                offered = sum(piece.nbytes for piece in pieces)
            written = transport.send(pieces)
            self._remove(written)
            if written < offered:
                return False
        if transport.has_pending_writes:
            transport.flush()
            if transport.has_pending_writes:
                return False
        self.completed = True
        return True

    def release(self) -> None:
        """Drop the references to the buffers: nothing more will be written."""
        self.buffers = []
        self.remaining_bytes = 0

    def _remove(self, written: int) -> None:
        self.remaining_bytes -= written
        buffers, count = self.buffers, 0
        while written and written >= buffers[count].nbytes:
            written -= buffers[count].nbytes
            count += 1
        del buffers[:count]
        if written:
            buffers[0] = buffers[0][written:]

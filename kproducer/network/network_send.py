"""One request frame on its way out: a list of buffers, written by scatter-gather, resumed as often as needed.

It refers to record bytes and never copies them; it knows nothing of what the bytes mean.
Source: Kafka classes ``NetworkSend`` and ``ByteBufferSend``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from kproducer.network.transport_layer import TransportLayer


def _io_vector_limit() -> int:
    """How many pieces one sendmsg may carry; 16 is what POSIX promises at least."""
    try:
        limit = os.sysconf("SC_IOV_MAX")
    except (AttributeError, OSError, ValueError):  # pragma: no cover - not on this platform
        return 16
    return limit if limit > 0 else 16


#: More pieces than this in one sendmsg is EMSGSIZE.
MAX_PIECES = _io_vector_limit()


class NetworkSend:
    """The bytes for one destination. I/O thread only.

    The references to the buffers are dropped as soon as the last byte is written, or on ``release``.

    Attributes:
        destination: connection id.
        size_bytes: bytes of the whole frame.
        remaining_bytes: bytes not accepted by the transport yet.
        completed: the transport has passed everything on to the operating system.
        is_stalled: it was to be written, and the socket did not take all of it.
    """

    __slots__ = (
        "_buffers",
        "_next",
        "completed",
        "destination",
        "is_stalled",
        "remaining_bytes",
        "size_bytes",
    )

    def __init__(self, destination: str, buffers: Sequence[memoryview]) -> None:
        self.destination = destination
        self._buffers: list[memoryview] = [piece for piece in buffers if piece.nbytes]
        self._next = 0
        self.size_bytes = sum(piece.nbytes for piece in self._buffers)
        self.remaining_bytes = self.size_bytes
        self.completed = False
        self.is_stalled = False

    @property
    def buffers(self) -> list[memoryview]:
        """What is to be written, for those who write it themselves and then call ``note_written``."""
        return self._buffers

    def note_written(self, count: int) -> int:
        """Others wrote ``count`` bytes of this frame and those behind it: returns the share of the latter."""
        taken = min(count, self.remaining_bytes)
        self.remaining_bytes -= taken
        if not self.remaining_bytes:
            self.completed = True
            self._buffers = []
        return count - taken

    def write_to(self, transport: TransportLayer) -> bool:
        """Write as much as the transport takes; True when the frame is complete.

        A short write is not tried again here: the socket is full then, and another system call would only
        say so. The caller waits until the socket is writable. Raises OSError when the connection is broken.
        """
        while self.remaining_bytes:
            buffers = self._buffers
            if self._next == 0 and len(buffers) <= MAX_PIECES:
                pieces = buffers
                offered = self.remaining_bytes
            else:
                pieces = buffers[self._next : self._next + MAX_PIECES]
                offered = sum(piece.nbytes for piece in pieces)
            written = transport.send(pieces)
            self._advance(written)
            if written < offered:
                return False
        if transport.has_pending_writes:
            transport.flush()
            if transport.has_pending_writes:
                return False
        self.completed = True
        self._buffers = []
        return True

    def release(self) -> None:
        """Drop the references to the buffers: nothing more will be written."""
        self._buffers = []
        self._next = 0
        self.remaining_bytes = 0

    def _advance(self, written: int) -> None:
        self.remaining_bytes -= written
        if not self.remaining_bytes:
            self._buffers = []
            self._next = 0
            return
        buffers, index = self._buffers, self._next
        while written:
            piece = buffers[index]
            if written < piece.nbytes:
                buffers[index] = piece[written:]
                break
            written -= piece.nbytes
            index += 1
        self._next = index

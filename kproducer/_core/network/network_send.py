"""One request frame to be written: a list of buffers for scatter-gather writes.

It refers to record bytes and never copies them; it knows nothing of what the bytes mean.
Source: Kafka classes ``NetworkSend`` and ``ByteBufferSend``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence


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
        buffers: the bytes to be written, as views of single bytes.
        remaining_bytes: their number.
        completed: the operating system has accepted all bytes.
        is_stalled: a write was tried, and the socket did not take everything.
    """

    __slots__ = ("buffers", "completed", "destination", "is_stalled", "remaining_bytes")

    def __init__(self, destination: str, buffers: Sequence[memoryview]) -> None:
        self.destination = destination
        # Empty buffers are left out: each would take one of the few entries of a sendmsg.
        self.buffers: list[memoryview] = list(filter(None, buffers))
        self.remaining_bytes = sum(map(len, self.buffers))
        self.completed = False
        self.is_stalled = False

    def note_written(self, count: int) -> int:
        """Remove ``count`` written bytes; returns how many of them belong to later frames."""
        if count >= self.remaining_bytes:
            count -= self.remaining_bytes
            self.completed = True
            self.buffers = []
            self.remaining_bytes = 0
            return count
        self.remaining_bytes -= count
        pieces, whole = self.buffers, 0
        while count >= pieces[whole].nbytes:
            count -= pieces[whole].nbytes
            whole += 1
        del pieces[:whole]
        pieces[0] = pieces[0][count:]
        return 0

    def release(self) -> None:
        """Drop the references to the buffers: nothing more will be written."""
        self.buffers = []
        self.remaining_bytes = 0

"""The size prefix around every request and response. No sockets here.

Shape: int32 big-endian, the number of bytes that follow.
Source: the Kafka protocol guide; the default limit is the broker's ``socket.request.max.bytes``.
"""

from __future__ import annotations

import struct

from kproducer.errors import RemoteProtocolError

SIZE_PREFIX = struct.Struct(">i")
SIZE_PREFIX_BYTES = 4

#: Largest frame that is accepted from a peer: a size beyond it is garbage far more often than a response.
MAX_FRAME_BYTES = 100 * 1024 * 1024

#: What other protocols answer first, read as a size: for a message that tells people what they talk to.
_FOREIGN_GREETINGS = {
    b"HTTP": "an HTTP server",
    b"SSH-": "an SSH server",
    b"\x15\x03\x01\x00": "a TLS listener (this connection is not encrypted)",
    b"\x15\x03\x02\x00": "a TLS listener (this connection is not encrypted)",
    b"\x15\x03\x03\x00": "a TLS listener (this connection is not encrypted)",
}


def parse_size_prefix(
    buffer: bytes | bytearray | memoryview, position: int = 0, max_frame_bytes: int = MAX_FRAME_BYTES
) -> int:
    """Read the size of the frame that begins at ``position``.

    Args:
        buffer: holds at least 4 bytes from ``position`` on.
        max_frame_bytes: the limit, inclusive.

    Returns:
        The number of bytes behind the prefix.

    Raises:
        RemoteProtocolError: the size is negative or beyond the limit. The stream cannot be read on.
    """
    (size,) = SIZE_PREFIX.unpack_from(buffer, position)
    if 0 <= size <= max_frame_bytes:
        return int(size)
    head = bytes(buffer[position : position + SIZE_PREFIX_BYTES])
    reason = f"the peer announces a frame of {size} bytes; at most {max_frame_bytes} are accepted"
    if head in _FOREIGN_GREETINGS:
        reason += f". Its bytes look like {_FOREIGN_GREETINGS[head]}"
    raise RemoteProtocolError(reason)

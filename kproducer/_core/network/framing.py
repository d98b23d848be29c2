"""The size prefix around every request and response. No sockets here.

Shape: int32 big-endian, the number of bytes that follow.
Source: the Kafka protocol guide; the default limit is the broker's ``socket.request.max.bytes``.
"""

from __future__ import annotations

import struct

from kproducer.errors import RemoteProtocolError
from kproducer.errors.internal_errors import TlsListenerError

SIZE_PREFIX = struct.Struct(">i")
SIZE_PREFIX_BYTES = 4

#: The largest frame accepted from a peer. A larger size is more likely garbage than a response.
MAX_FRAME_BYTES = 100 * 1024 * 1024

#: The largest frame accepted from a peer that is not authenticated, or has not answered ApiVersions. Kafka's
#: ApiVersions response has less than 1 kB, SASL messages have a few kB, and decoding 64 KiB takes a few
#: milliseconds. For comparison, brokers accept 512 KiB from such clients (``sasl.server.max.receive.size``).
#: docs/decisions/0051-limits-for-peers.md
MAX_FIRST_FRAME_BYTES = 64 * 1024

#: TLS record types a server may open with: change cipher spec, alert, handshake, application data.
_TLS_RECORD_TYPES = frozenset({0x14, 0x15, 0x16, 0x17})


def parse_size_prefix(
    buffer: bytes | bytearray | memoryview, position: int = 0, max_frame_bytes: int = MAX_FRAME_BYTES
) -> int:
    """Read the size of the frame that begins at ``position``.

    Args:
        buffer: holds at least 4 bytes from ``position`` on.
        max_frame_bytes: the limit, inclusive.

    Returns:
        The number of bytes after the prefix.

    Raises:
        RemoteProtocolError: the size is negative or beyond the limit. The rest of the stream is unreadable.
        TlsListenerError: and the bytes are those of TLS.
    """
    (size,) = SIZE_PREFIX.unpack_from(buffer, position)
    if 0 <= size <= max_frame_bytes:
        return int(size)
    head = bytes(buffer[position : position + SIZE_PREFIX_BYTES])
    reason = f"the peer announces a frame of {size} bytes; at most {max_frame_bytes} are accepted"
    if head[0] in _TLS_RECORD_TYPES and head[1] == 0x03:
        raise TlsListenerError(
            f"{reason}. Its bytes ({head.hex(' ')}) look like a TLS listener (this connection is not"
            " encrypted): set security_protocol to SSL or SASL_SSL, or use the port of another listener"
        )
    raise RemoteProtocolError(f"{reason}. {_what_it_looks_like(head)}")


def _what_it_looks_like(head: bytes) -> str:
    """Describe four bytes that are not a valid size. The usual cause is a connection to the wrong port."""
    if head == b"HTTP":
        return "Its bytes ('HTTP') look like an HTTP server, not a Kafka listener"
    if head == b"SSH-":
        return "Its bytes ('SSH-') look like an SSH server, not a Kafka listener"
    if all(0x20 <= byte < 0x7F for byte in head):
        return f"Its bytes ({head.decode('ascii')!r}) look like text, not like a Kafka listener"
    return f"Its bytes ({head.hex(' ')}) do not look like a Kafka listener"

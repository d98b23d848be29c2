"""One received response frame, and the assembler that cuts frames out of the byte stream.

A frame is a 4-byte big-endian signed length and that many payload bytes. The frames do not depend on how the
stream was split into reads. Knows nothing of what the payload means.
Source: Kafka class ``NetworkReceive``; Kafka protocol guide, "Request/Response".
"""

from __future__ import annotations

from typing import NamedTuple

from kproducer.protocol.framing import SIZE_PREFIX, SIZE_PREFIX_BYTES, parse_size_prefix


class NetworkReceive(NamedTuple):
    """A complete frame.

    Attributes:
        source: connection id.
        payload: the frame without its size prefix.
    """

    source: str
    payload: bytes


class FrameAssembler:
    """Cuts the frames of one connection out of the bytes read. I/O thread only.

    Its memory grows with the bytes received, never with an announced length.

    Args:
        max_frame_bytes: the longest payload accepted.
    """

    __slots__ = ("_body", "_body_size", "_max_frame_bytes", "_prefix")

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._prefix = bytearray()  # the first 0 to 3 bytes of a size prefix that is not complete
        self._body = bytearray()
        self._body_size = -1  # -1: between frames, or inside a size prefix

    def describe_position(self) -> str:
        """The position in the stream, for the error message if the stream ends there."""
        if self._body_size >= 0:
            return f"in the middle of a response ({len(self._body)} of {self._body_size} bytes had arrived)"
        if self._prefix:
            return f"inside a response's size prefix ({len(self._prefix)} of {SIZE_PREFIX_BYTES} bytes)"
        return "between responses"

    def feed(self, data: memoryview, frames: list[bytes]) -> None:
        """Append a copy of every payload that ``data`` completes to ``frames``.

        Raises RemoteProtocolError for a negative or too large size. ``frames`` then has the frames before it,
        and the assembler cannot be used again.
        """
        position = 0
        end = len(data)
        if self._body_size >= 0:
            position = self._continue_body(data, frames)
        elif self._prefix:
            missing = SIZE_PREFIX_BYTES - len(self._prefix)
            self._prefix += data[:missing]
            if len(self._prefix) < SIZE_PREFIX_BYTES:
                return
            prefix = bytes(self._prefix)
            self._prefix.clear()
            self._body_size = parse_size_prefix(prefix, 0, self._max_frame_bytes)
            position = missing + self._continue_body(data[missing:], frames)
        while position < end:
            body_at = position + SIZE_PREFIX_BYTES
            if body_at > end:
                self._prefix += data[position:]
                return
            (size,) = SIZE_PREFIX.unpack_from(data, position)
            frame_end = body_at + size
            if body_at <= frame_end <= end and size <= self._max_frame_bytes:
                frames.append(bytes(data[body_at:frame_end]))
                position = frame_end
                continue
            self._body_size = parse_size_prefix(data, position, self._max_frame_bytes)
            position = body_at + self._continue_body(data[body_at:], frames)

    def _continue_body(self, data: memoryview, frames: list[bytes]) -> int:
        """Add to the open frame; returns how many bytes of ``data`` belong to it."""
        taken = min(self._body_size - len(self._body), len(data))
        self._body += data[:taken]
        if len(self._body) == self._body_size:
            frames.append(bytes(self._body))
            self._body = bytearray()
            self._body_size = -1
        return taken

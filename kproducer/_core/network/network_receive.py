"""FrameAssembler: cuts response frames out of the byte stream of a connection.

A frame is a 4-byte big-endian signed length and that many payload bytes. The frames do not depend on how the
stream was split into reads. Knows nothing of what the payload means.
Source: Kafka class ``NetworkReceive``; Kafka protocol guide, "Request/Response".
"""

from __future__ import annotations

from typing import TypeAlias

from kproducer._core.network.framing import SIZE_PREFIX_BYTES, parse_size_prefix

#: A complete frame: the id of its connection, and the frame without its size prefix.
NetworkReceive: TypeAlias = tuple[str, bytes]


class FrameAssembler:
    """Cuts the frames of one connection out of the bytes read. I/O thread only.

    Its memory grows with the bytes received, never with an announced length.

    Attributes:
        max_frame_bytes: the longest payload accepted.
    """

    __slots__ = ("_frame_bytes", "_partial", "max_frame_bytes")

    def __init__(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._partial = bytearray()  # the frame that is not complete, with its size prefix
        self._frame_bytes = SIZE_PREFIX_BYTES  # the size of that frame; of the prefix alone until it is known

    @property
    def is_between_frames(self) -> bool:
        """Whether no part of a frame has arrived."""
        return not self._partial

    def describe_position(self) -> str:
        """The position in the stream, for the error message if the stream ends there."""
        arrived = len(self._partial)
        if not arrived:
            return "between responses"
        if arrived < SIZE_PREFIX_BYTES:
            return f"inside a response's size prefix ({arrived} of {SIZE_PREFIX_BYTES} bytes)"
        arrived, size = arrived - SIZE_PREFIX_BYTES, self._frame_bytes - SIZE_PREFIX_BYTES
        return f"in the middle of a response ({arrived} of {size} bytes had arrived)"

    def feed(self, data: memoryview, frames: list[bytes]) -> None:
        """Append a copy of every payload that ``data`` completes to ``frames``.

        Raises RemoteProtocolError for a negative or too large size. ``frames`` then has the frames before it,
        and the assembler cannot be used again.
        """
        if self._partial:
            self._partial += data
            if len(self._partial) < self._frame_bytes:
                return
            data, self._partial = memoryview(self._partial), bytearray()
        position = 0
        while True:
            left = len(data) - position
            self._frame_bytes = SIZE_PREFIX_BYTES
            if left >= SIZE_PREFIX_BYTES:
                self._frame_bytes += parse_size_prefix(data, position, self.max_frame_bytes)
            if left < self._frame_bytes:
                break
            frames.append(bytes(data[position + SIZE_PREFIX_BYTES : position + self._frame_bytes]))
            position += self._frame_bytes
        self._partial += data[position:]

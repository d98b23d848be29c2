# DO NOT EDIT: generated from specs/PushTelemetryResponse.json (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: 0b0cde4bb36a4ea4a670da8cb2e06fe6e502b22a496ad970ab90a6f1f09aec07
"""PushTelemetryResponse: a response of API 72, versions 0, flexible 0."""

from __future__ import annotations

from struct import Struct
from typing import Any, ClassVar

from ._decoders import Layouts, decoders
from ._plain import Plain
from ._wire import (
    Buffer,
    DECODE_FAILURES,
    DecodeError,
    ENCODE_FAILURES,
    EncodeError,
    Gather,
    check_unknown_tags,
    decode_failed,
    encode_failed,
    no_such_version,
    read_unknown_tags,
    read_uvarint_rest,
    unknown_tags_size,
    uvarint_size,
    write_unknown_tags,
    write_uvarint,
)

__all__ = [
    "PushTelemetryResponse",
]

_S_h = Struct(">h")
_S_i = Struct(">i")
_S_ih = Struct(">ih")
_S_ihB = Struct(">ihB")
_new = object.__new__


class PushTelemetryResponse(Plain):
    """A response. Not thread-safe: plain data.

    Attributes:
        throttle_time_ms: How long the client should send nothing, because of a quota; in milliseconds.
            (int32, versions 0+)
        error_code: Why the broker did not take the metrics; 0 if it did. (int16, versions 0+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    API_KEY: ClassVar[int] = 72
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    #: Versions with compact lengths and tagged fields.
    FLEXIBLE_VERSIONS: ClassVar[range] = range(0, 1)
    FIELDS: ClassVar[dict[str, Any]] = {
        "throttle_time_ms": 0,
        "error_code": 0,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.unknown_tagged_fields = unknown_tagged_fields

    def size(self, version: int) -> int:
        """Exact size of the encoded message in bytes, referenced bytes included.

        Raises:
            EncodeError: the version does not exist, or a field is null that must not be.
        """
        try:
            size_of = _SIZE[version]
        except KeyError:
            raise no_such_version(EncodeError, "PushTelemetryResponse", version, 0, 0) from None
        try:
            return size_of(self)
        except EncodeError as error:
            raise error.of("PushTelemetryResponse", version) from None

    def zero_copy_size(self, version: int) -> int:
        """The number of those bytes that ``encode_into`` passes to ``gather``."""
        return 0

    def encode_into(
        self, buffer: bytearray, position: int, version: int, gather: Gather | None = None
    ) -> int:
        """Write the message into a buffer that is large enough; return the position after it.

        Args:
            buffer: has ``size(version)`` bytes from ``position`` on, minus ``zero_copy_size(version)`` if
                ``gather`` is given.
            gather: receives (position, bytes) of each field that is passed by reference.

        Raises:
            EncodeError: this version cannot represent the message; the buffer is then not valid.
        """
        try:
            encode = _ENCODE[version]
        except KeyError:
            raise no_such_version(EncodeError, "PushTelemetryResponse", version, 0, 0) from None
        try:
            return encode(self, buffer, position)
        except EncodeError as error:
            raise error.of("PushTelemetryResponse", version) from None

    def encode(self, version: int) -> bytes:
        """The whole message as bytes. Raises EncodeError as ``encode_into`` does."""
        buffer = bytearray(self.size(version))
        self.encode_into(buffer, 0, version)
        return bytes(buffer)

    @classmethod
    def decode(
        cls, buffer: Buffer, version: int, position: int = 0
    ) -> tuple[PushTelemetryResponse, int]:
        """Read one message; return it and the position after it. Further bytes are ignored.

        Raises:
            DecodeError: the version does not exist, or the bytes are not a valid message.
        """
        try:
            decode = _DECODE[version]
        except KeyError:
            raise no_such_version(DecodeError, "PushTelemetryResponse", version, 0, 0) from None
        readable = buffer if type(buffer) is bytes else bytes(buffer)
        try:
            if not 0 <= position <= len(readable):
                raise DecodeError(f"position {position} is outside the buffer of {len(readable)} bytes")
            return decode(readable, position, len(readable))
        except DecodeError as error:
            raise error.of("PushTelemetryResponse", version) from None


def _decode_push_telemetry_response_v0(
    buffer: bytes, position: int, end: int
) -> tuple[PushTelemetryResponse, int]:
    """Version 0."""
    at = ""
    item = None
    try:
        item = _new(PushTelemetryResponse)

        at = "throttle_time_ms:i error_code:h tagged_fields:B"
        item.throttle_time_ms, item.error_code, length = _S_ihB.unpack_from(buffer, position)
        position += 7
        if length:
            at = "tagged_fields"
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            item.unknown_tagged_fields, position = read_unknown_tags(buffer, position, end, length)
        else:
            item.unknown_tagged_fields = None
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_push_telemetry_response_v0(item: PushTelemetryResponse, buffer: bytearray, position: int) -> int:
    """Version 0."""
    at = ""
    try:
        at = "throttle_time_ms:i error_code:h"
        _S_ih.pack_into(buffer, position, item.throttle_time_ms, item.error_code)
        position += 6

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            position = write_uvarint(buffer, position, check_unknown_tags(unknown, ()))
            position = write_unknown_tags(buffer, position, unknown)
        else:
            buffer[position] = 0
            position += 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_push_telemetry_response_v0(item: PushTelemetryResponse) -> int:
    """Version 0."""
    size = 7
    at = ""
    try:
        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


#: The wire layout of each decoder; compiled decoders interpret it (see _decoders.py).
_LAYOUTS: Layouts = {
    "push_telemetry_response_v0": (
        PushTelemetryResponse,
        list,
        "throttle_time_ms:int32 error_code:int16 tags",
    ),
}
_DECODE = decoders(
    {
        0: _decode_push_telemetry_response_v0,
    },
    _LAYOUTS,
)
_ENCODE = {
    0: _encode_push_telemetry_response_v0,
}
_SIZE = {
    0: _size_push_telemetry_response_v0,
}

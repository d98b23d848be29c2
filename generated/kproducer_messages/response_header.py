# DO NOT EDIT: generated from specs/ResponseHeader.json (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: 7b705d3fc99270b6da62ea03d7b70012f2e3a83e750ee9620cd6abe1199444b0
"""ResponseHeader: a header, versions 0-1, flexible 1."""

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
    not_in_version,
    read_unknown_tags,
    read_uvarint_rest,
    unknown_tags_size,
    uvarint_size,
    write_unknown_tags,
    write_uvarint,
)

__all__ = [
    "ResponseHeader",
]

_S_h = Struct(">h")
_S_i = Struct(">i")
_S_iB = Struct(">iB")
_new = object.__new__


class ResponseHeader(Plain):
    """A header. Not thread-safe: plain data.

    Attributes:
        correlation_id: Correlation id of the request. (int32, versions 0+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    API_KEY: ClassVar[int] = -1
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    #: Versions with compact lengths and tagged fields.
    FLEXIBLE_VERSIONS: ClassVar[range] = range(1, 2)
    FIELDS: ClassVar[dict[str, Any]] = {
        "correlation_id": 0,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        correlation_id: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.correlation_id: int = correlation_id
        self.unknown_tagged_fields = unknown_tagged_fields

    def size(self, version: int) -> int:
        """Exact size of the encoded message in bytes, referenced bytes included.

        Raises:
            EncodeError: the version does not exist, or a field is null that must not be.
        """
        try:
            size_of = _SIZE[version]
        except KeyError:
            raise no_such_version(EncodeError, "ResponseHeader", version, 0, 1) from None
        try:
            return size_of(self)
        except EncodeError as error:
            raise error.of("ResponseHeader", version) from None

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
            raise no_such_version(EncodeError, "ResponseHeader", version, 0, 1) from None
        try:
            return encode(self, buffer, position)
        except EncodeError as error:
            raise error.of("ResponseHeader", version) from None

    def encode(self, version: int) -> bytes:
        """The whole message as bytes. Raises EncodeError as ``encode_into`` does."""
        buffer = bytearray(self.size(version))
        self.encode_into(buffer, 0, version)
        return bytes(buffer)

    @classmethod
    def decode(
        cls, buffer: Buffer, version: int, position: int = 0
    ) -> tuple[ResponseHeader, int]:
        """Read one message; return it and the position after it. Further bytes are ignored.

        Raises:
            DecodeError: the version does not exist, or the bytes are not a valid message.
        """
        try:
            decode = _DECODE[version]
        except KeyError:
            raise no_such_version(DecodeError, "ResponseHeader", version, 0, 1) from None
        readable = buffer if type(buffer) is bytes else bytes(buffer)
        try:
            if not 0 <= position <= len(readable):
                raise DecodeError(f"position {position} is outside the buffer of {len(readable)} bytes")
            return decode(readable, position, len(readable))
        except DecodeError as error:
            raise error.of("ResponseHeader", version) from None


def _decode_response_header_v0(buffer: bytes, position: int, end: int) -> tuple[ResponseHeader, int]:
    """Version 0."""
    at = ""
    item = None
    try:
        item = _new(ResponseHeader)
        item.unknown_tagged_fields = None

        at = "correlation_id:i"
        (item.correlation_id,) = _S_i.unpack_from(buffer, position)
        position += 4
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_response_header_v0(item: ResponseHeader, buffer: bytearray, position: int) -> int:
    """Version 0."""
    at = ""
    try:
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "1")

        at = "correlation_id:i"
        _S_i.pack_into(buffer, position, item.correlation_id)
        position += 4
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_response_header_v0(item: ResponseHeader) -> int:
    """Version 0."""
    return 4


def _decode_response_header_v1(buffer: bytes, position: int, end: int) -> tuple[ResponseHeader, int]:
    """Version 1."""
    at = ""
    item = None
    try:
        item = _new(ResponseHeader)

        at = "correlation_id:i tagged_fields:B"
        item.correlation_id, length = _S_iB.unpack_from(buffer, position)
        position += 5
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


def _encode_response_header_v1(item: ResponseHeader, buffer: bytearray, position: int) -> int:
    """Version 1."""
    at = ""
    try:
        at = "correlation_id:i"
        _S_i.pack_into(buffer, position, item.correlation_id)
        position += 4

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


def _size_response_header_v1(item: ResponseHeader) -> int:
    """Version 1."""
    size = 5
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
    "response_header_v0": (ResponseHeader, list, "correlation_id:int32"),
    "response_header_v1": (ResponseHeader, list, "correlation_id:int32 tags"),
}
_DECODE = decoders(
    {
        0: _decode_response_header_v0,
        1: _decode_response_header_v1,
    },
    _LAYOUTS,
)
_ENCODE = {
    0: _encode_response_header_v0,
    1: _encode_response_header_v1,
}
_SIZE = {
    0: _size_response_header_v0,
    1: _size_response_header_v1,
}

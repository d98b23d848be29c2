# DO NOT EDIT: generated from specs/RequestHeader.json (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: e83224dac5289d1f648302c97b2b966390dea367169beecd42d3a2c08b244bb9
"""RequestHeader: a header, versions 1-2, flexible 2."""

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
    MAX_STRING_BYTES,
    bad_length,
    check_unknown_tags,
    decode_failed,
    encode_failed,
    no_such_version,
    not_in_version,
    read_unknown_tags,
    read_uvarint_rest,
    string_too_long,
    text_bytes,
    unknown_tags_size,
    uvarint_size,
    write_unknown_tags,
    write_uvarint,
)

__all__ = [
    "RequestHeader",
]

_S_h = Struct(">h")
_S_hhi = Struct(">hhi")
_S_hhih = Struct(">hhih")
_S_i = Struct(">i")
_new = object.__new__


class RequestHeader(Plain):
    """A header. Not thread-safe: plain data.

    Attributes:
        request_api_key: API key of the request. (int16, versions 0+)
        request_api_version: API version of the request. (int16, versions 0+)
        correlation_id: Correlation id, which the response repeats. (int32, versions 0+)
        client_id: Client id, for logs and quotas. (string, versions 1+; nullable in 1+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    API_KEY: ClassVar[int] = -1
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 2
    #: Versions with compact lengths and tagged fields.
    FLEXIBLE_VERSIONS: ClassVar[range] = range(2, 3)
    FIELDS: ClassVar[dict[str, Any]] = {
        "request_api_key": 0,
        "request_api_version": 0,
        "correlation_id": 0,
        "client_id": "",
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        request_api_key: int = 0,
        request_api_version: int = 0,
        correlation_id: int = 0,
        client_id: str | None = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.request_api_key: int = request_api_key
        self.request_api_version: int = request_api_version
        self.correlation_id: int = correlation_id
        self.client_id: str | None = client_id
        self.unknown_tagged_fields = unknown_tagged_fields

    def size(self, version: int) -> int:
        """Exact size of the encoded message in bytes, referenced bytes included.

        Raises:
            EncodeError: the version does not exist, or a field is null that must not be.
        """
        try:
            size_of = _SIZE[version]
        except KeyError:
            raise no_such_version(EncodeError, "RequestHeader", version, 1, 2) from None
        try:
            return size_of(self)
        except EncodeError as error:
            raise error.of("RequestHeader", version) from None

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
            raise no_such_version(EncodeError, "RequestHeader", version, 1, 2) from None
        try:
            return encode(self, buffer, position)
        except EncodeError as error:
            raise error.of("RequestHeader", version) from None

    def encode(self, version: int) -> bytes:
        """The whole message as bytes. Raises EncodeError as ``encode_into`` does."""
        buffer = bytearray(self.size(version))
        self.encode_into(buffer, 0, version)
        return bytes(buffer)

    @classmethod
    def decode(
        cls, buffer: Buffer, version: int, position: int = 0
    ) -> tuple[RequestHeader, int]:
        """Read one message; return it and the position after it. Further bytes are ignored.

        Raises:
            DecodeError: the version does not exist, or the bytes are not a valid message.
        """
        try:
            decode = _DECODE[version]
        except KeyError:
            raise no_such_version(DecodeError, "RequestHeader", version, 1, 2) from None
        readable = buffer if type(buffer) is bytes else bytes(buffer)
        try:
            if not 0 <= position <= len(readable):
                raise DecodeError(f"position {position} is outside the buffer of {len(readable)} bytes")
            return decode(readable, position, len(readable))
        except DecodeError as error:
            raise error.of("RequestHeader", version) from None


def _decode_request_header_v1(buffer: bytes, position: int, end: int) -> tuple[RequestHeader, int]:
    """Version 1."""
    at = ""
    item = None
    try:
        item = _new(RequestHeader)
        item.unknown_tagged_fields = None

        at = "request_api_key:h request_api_version:h correlation_id:i client_id:h"
        (
            item.request_api_key,
            item.request_api_version,
            item.correlation_id,
            length,
        ) = _S_hhih.unpack_from(buffer, position)
        position += 10

        at = "client_id"
        if length == -1:
            item.client_id = None
        else:
            stop = position + length
            if not position <= stop <= end:
                raise bad_length(length, position, end, "bytes")
            item.client_id = str(buffer[position:stop], "utf-8")
            position = stop
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_request_header_v1(item: RequestHeader, buffer: bytearray, position: int) -> int:
    """Version 1."""
    at = ""
    try:
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "2")

        at = "request_api_key:h request_api_version:h correlation_id:i"
        _S_hhi.pack_into(
            buffer,
            position,
            item.request_api_key,
            item.request_api_version,
            item.correlation_id,
        )
        position += 8

        at = "client_id"
        if item.client_id is None:
            _S_h.pack_into(buffer, position, -1)
            position += 2
        else:
            data = item.client_id.encode()
            length = len(data)
            if length > MAX_STRING_BYTES:
                raise string_too_long(length)
            _S_h.pack_into(buffer, position, length)
            position += 2
            stop = position + length
            buffer[position:stop] = data
            position = stop
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_request_header_v1(item: RequestHeader) -> int:
    """Version 1."""
    size = 10
    at = ""
    try:
        at = "client_id"
        if item.client_id is not None:
            length = text_bytes(item.client_id)
            size += length
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_request_header_v2(buffer: bytes, position: int, end: int) -> tuple[RequestHeader, int]:
    """Version 2."""
    at = ""
    item = None
    try:
        item = _new(RequestHeader)

        at = "request_api_key:h request_api_version:h correlation_id:i client_id:h"
        (
            item.request_api_key,
            item.request_api_version,
            item.correlation_id,
            length,
        ) = _S_hhih.unpack_from(buffer, position)
        position += 10

        at = "client_id"
        if length == -1:
            item.client_id = None
        else:
            stop = position + length
            if not position <= stop <= end:
                raise bad_length(length, position, end, "bytes")
            item.client_id = str(buffer[position:stop], "utf-8")
            position = stop

        at = "tagged_fields"
        length = buffer[position]
        position += 1
        if length:
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            item.unknown_tagged_fields, position = read_unknown_tags(buffer, position, end, length)
        else:
            item.unknown_tagged_fields = None
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_request_header_v2(item: RequestHeader, buffer: bytearray, position: int) -> int:
    """Version 2."""
    at = ""
    try:
        at = "request_api_key:h request_api_version:h correlation_id:i"
        _S_hhi.pack_into(
            buffer,
            position,
            item.request_api_key,
            item.request_api_version,
            item.correlation_id,
        )
        position += 8

        at = "client_id"
        if item.client_id is None:
            _S_h.pack_into(buffer, position, -1)
            position += 2
        else:
            data = item.client_id.encode()
            length = len(data)
            if length > MAX_STRING_BYTES:
                raise string_too_long(length)
            _S_h.pack_into(buffer, position, length)
            position += 2
            stop = position + length
            buffer[position:stop] = data
            position = stop

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


def _size_request_header_v2(item: RequestHeader) -> int:
    """Version 2."""
    size = 11
    at = ""
    try:
        at = "client_id"
        if item.client_id is not None:
            length = text_bytes(item.client_id)
            size += length

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


#: The wire layout of each decoder; compiled decoders interpret it (see _decoders.py).
_LAYOUTS: Layouts = {
    "request_header_v1": (
        RequestHeader,
        list,
        "request_api_key:int16 request_api_version:int16 correlation_id:int32 client_id:nullable_string",
    ),
    "request_header_v2": (
        RequestHeader,
        list,
        "request_api_key:int16 request_api_version:int16 correlation_id:int32 client_id:nullable_string "
        "tags",
    ),
}
_DECODE = decoders(
    {
        1: _decode_request_header_v1,
        2: _decode_request_header_v2,
    },
    _LAYOUTS,
)
_ENCODE = {
    1: _encode_request_header_v1,
    2: _encode_request_header_v2,
}
_SIZE = {
    1: _size_request_header_v1,
    2: _size_request_header_v2,
}

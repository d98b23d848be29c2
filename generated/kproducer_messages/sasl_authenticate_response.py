# DO NOT EDIT: generated from specs/SaslAuthenticateResponse.json (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: 224f533914e2437293cdecd831ec962835def3cf5ada086131966cdb4934ac37
"""SaslAuthenticateResponse: a response of API 36, versions 0-2, flexible 2."""

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
    byte_view,
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
    "SaslAuthenticateResponse",
]

_S_h = Struct(">h")
_S_hB = Struct(">hB")
_S_hh = Struct(">hh")
_S_i = Struct(">i")
_S_q = Struct(">q")
_S_qB = Struct(">qB")
_new = object.__new__


class SaslAuthenticateResponse(Plain):
    """A response. Not thread-safe: plain data.

    Attributes:
        error_code: The error code, or 0. (int16, versions 0+)
        error_message: Why authentication failed, or null. (string, versions 0+; nullable in 0+)
        auth_bytes: The message of the mechanism. (bytes, versions 0+)
        session_lifetime_ms: Time after which the client must have authenticated again, in milliseconds; 0 if
            it need not. (int64, versions 1+; dropped if the version does not have it)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    API_KEY: ClassVar[int] = 36
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    #: Versions with compact lengths and tagged fields.
    FLEXIBLE_VERSIONS: ClassVar[range] = range(2, 3)
    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "auth_bytes": bytes,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "error_code": 0,
        "error_message": "",
        "auth_bytes": b"",
        "session_lifetime_ms": 0,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        auth_bytes: bytes = b"",
        session_lifetime_ms: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.auth_bytes: bytes = auth_bytes
        self.session_lifetime_ms: int = session_lifetime_ms
        self.unknown_tagged_fields = unknown_tagged_fields

    def size(self, version: int) -> int:
        """Exact size of the encoded message in bytes, referenced bytes included.

        Raises:
            EncodeError: the version does not exist, or a field is null that must not be.
        """
        try:
            size_of = _SIZE[version]
        except KeyError:
            raise no_such_version(EncodeError, "SaslAuthenticateResponse", version, 0, 2) from None
        try:
            return size_of(self)
        except EncodeError as error:
            raise error.of("SaslAuthenticateResponse", version) from None

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
            raise no_such_version(EncodeError, "SaslAuthenticateResponse", version, 0, 2) from None
        try:
            return encode(self, buffer, position)
        except EncodeError as error:
            raise error.of("SaslAuthenticateResponse", version) from None

    def encode(self, version: int) -> bytes:
        """The whole message as bytes. Raises EncodeError as ``encode_into`` does."""
        buffer = bytearray(self.size(version))
        self.encode_into(buffer, 0, version)
        return bytes(buffer)

    @classmethod
    def decode(
        cls, buffer: Buffer, version: int, position: int = 0
    ) -> tuple[SaslAuthenticateResponse, int]:
        """Read one message; return it and the position after it. Further bytes are ignored.

        Raises:
            DecodeError: the version does not exist, or the bytes are not a valid message.
        """
        try:
            decode = _DECODE[version]
        except KeyError:
            raise no_such_version(DecodeError, "SaslAuthenticateResponse", version, 0, 2) from None
        readable = buffer if type(buffer) is bytes else bytes(buffer)
        try:
            if not 0 <= position <= len(readable):
                raise DecodeError(f"position {position} is outside the buffer of {len(readable)} bytes")
            return decode(readable, position, len(readable))
        except DecodeError as error:
            raise error.of("SaslAuthenticateResponse", version) from None


def _decode_sasl_authenticate_response_v0(
    buffer: bytes, position: int, end: int
) -> tuple[SaslAuthenticateResponse, int]:
    """Version 0."""
    at = ""
    item = None
    try:
        item = _new(SaslAuthenticateResponse)
        item.session_lifetime_ms = 0
        item.unknown_tagged_fields = None

        at = "error_code:h error_message:h"
        item.error_code, length = _S_hh.unpack_from(buffer, position)
        position += 4

        at = "error_message"
        if length == -1:
            item.error_message = None
        else:
            stop = position + length
            if not position <= stop <= end:
                raise bad_length(length, position, end, "bytes")
            item.error_message = str(buffer[position:stop], "utf-8")
            position = stop

        at = "auth_bytes"
        (length,) = _S_i.unpack_from(buffer, position)
        position += 4
        stop = position + length
        if not position <= stop <= end:
            raise bad_length(length, position, end, "bytes")
        item.auth_bytes = bytes(buffer[position:stop])
        position = stop
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_sasl_authenticate_response_v0(
    item: SaslAuthenticateResponse, buffer: bytearray, position: int
) -> int:
    """Version 0."""
    at = ""
    try:
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "2")

        at = "error_code:h"
        _S_h.pack_into(buffer, position, item.error_code)
        position += 2

        at = "error_message"
        if item.error_message is None:
            _S_h.pack_into(buffer, position, -1)
            position += 2
        else:
            data = item.error_message.encode()
            length = len(data)
            if length > MAX_STRING_BYTES:
                raise string_too_long(length)
            _S_h.pack_into(buffer, position, length)
            position += 2
            stop = position + length
            buffer[position:stop] = data
            position = stop

        at = "auth_bytes"
        data = item.auth_bytes
        length = data.nbytes if isinstance(data, memoryview) else len(data)
        _S_i.pack_into(buffer, position, length)
        position += 4
        stop = position + length
        buffer[position:stop] = data if type(data) is bytes else byte_view(data)
        position = stop
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_sasl_authenticate_response_v0(item: SaslAuthenticateResponse) -> int:
    """Version 0."""
    size = 8
    at = ""
    try:
        at = "error_message"
        if item.error_message is not None:
            length = text_bytes(item.error_message)
            size += length

        at = "auth_bytes"
        data = item.auth_bytes
        length = data.nbytes if isinstance(data, memoryview) else len(data)
        size += length
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_sasl_authenticate_response_v1(
    buffer: bytes, position: int, end: int
) -> tuple[SaslAuthenticateResponse, int]:
    """Version 1."""
    at = ""
    item = None
    try:
        item = _new(SaslAuthenticateResponse)
        item.unknown_tagged_fields = None

        at = "error_code:h error_message:h"
        item.error_code, length = _S_hh.unpack_from(buffer, position)
        position += 4

        at = "error_message"
        if length == -1:
            item.error_message = None
        else:
            stop = position + length
            if not position <= stop <= end:
                raise bad_length(length, position, end, "bytes")
            item.error_message = str(buffer[position:stop], "utf-8")
            position = stop

        at = "auth_bytes"
        (length,) = _S_i.unpack_from(buffer, position)
        position += 4
        stop = position + length
        if not position <= stop <= end:
            raise bad_length(length, position, end, "bytes")
        item.auth_bytes = bytes(buffer[position:stop])
        position = stop

        at = "session_lifetime_ms:q"
        (item.session_lifetime_ms,) = _S_q.unpack_from(buffer, position)
        position += 8
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_sasl_authenticate_response_v1(
    item: SaslAuthenticateResponse, buffer: bytearray, position: int
) -> int:
    """Version 1."""
    at = ""
    try:
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "2")

        at = "error_code:h"
        _S_h.pack_into(buffer, position, item.error_code)
        position += 2

        at = "error_message"
        if item.error_message is None:
            _S_h.pack_into(buffer, position, -1)
            position += 2
        else:
            data = item.error_message.encode()
            length = len(data)
            if length > MAX_STRING_BYTES:
                raise string_too_long(length)
            _S_h.pack_into(buffer, position, length)
            position += 2
            stop = position + length
            buffer[position:stop] = data
            position = stop

        at = "auth_bytes"
        data = item.auth_bytes
        length = data.nbytes if isinstance(data, memoryview) else len(data)
        _S_i.pack_into(buffer, position, length)
        position += 4
        stop = position + length
        buffer[position:stop] = data if type(data) is bytes else byte_view(data)
        position = stop

        at = "session_lifetime_ms:q"
        _S_q.pack_into(buffer, position, item.session_lifetime_ms)
        position += 8
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_sasl_authenticate_response_v1(item: SaslAuthenticateResponse) -> int:
    """Version 1."""
    size = 16
    at = ""
    try:
        at = "error_message"
        if item.error_message is not None:
            length = text_bytes(item.error_message)
            size += length

        at = "auth_bytes"
        data = item.auth_bytes
        length = data.nbytes if isinstance(data, memoryview) else len(data)
        size += length
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_sasl_authenticate_response_v2(
    buffer: bytes, position: int, end: int
) -> tuple[SaslAuthenticateResponse, int]:
    """Version 2."""
    at = ""
    item = None
    try:
        item = _new(SaslAuthenticateResponse)

        at = "error_code:h error_message:B"
        item.error_code, length = _S_hB.unpack_from(buffer, position)
        position += 3

        at = "error_message"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if length == -1:
            item.error_message = None
        else:
            stop = position + length
            if stop > end or length > MAX_STRING_BYTES:
                raise bad_length(length, position, end, "bytes")
            item.error_message = str(buffer[position:stop], "utf-8")
            position = stop

        at = "auth_bytes"
        length = buffer[position]
        position += 1
        if length > 127:
            byte = buffer[position]
            if byte < 128:
                length += (byte << 7) - 128
                position += 1
            else:
                length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        stop = position + length
        if not position <= stop <= end:
            raise bad_length(length, position, end, "bytes")
        item.auth_bytes = bytes(buffer[position:stop])
        position = stop

        at = "session_lifetime_ms:q tagged_fields:B"
        item.session_lifetime_ms, length = _S_qB.unpack_from(buffer, position)
        position += 9
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


def _encode_sasl_authenticate_response_v2(
    item: SaslAuthenticateResponse, buffer: bytearray, position: int
) -> int:
    """Version 2."""
    at = ""
    try:
        at = "error_code:h"
        _S_h.pack_into(buffer, position, item.error_code)
        position += 2

        at = "error_message"
        if item.error_message is None:
            buffer[position] = 0
            position += 1
        else:
            data = item.error_message.encode()
            length = len(data)
            if length > MAX_STRING_BYTES:
                raise string_too_long(length)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            stop = position + length
            buffer[position:stop] = data
            position = stop

        at = "auth_bytes"
        data = item.auth_bytes
        length = data.nbytes if isinstance(data, memoryview) else len(data)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        stop = position + length
        buffer[position:stop] = data if type(data) is bytes else byte_view(data)
        position = stop

        at = "session_lifetime_ms:q"
        _S_q.pack_into(buffer, position, item.session_lifetime_ms)
        position += 8

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


def _size_sasl_authenticate_response_v2(item: SaslAuthenticateResponse) -> int:
    """Version 2."""
    size = 13
    at = ""
    try:
        at = "error_message"
        if item.error_message is not None:
            length = text_bytes(item.error_message)
            size += length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1

        at = "auth_bytes"
        data = item.auth_bytes
        length = data.nbytes if isinstance(data, memoryview) else len(data)
        size += length
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


#: The wire layout of each decoder; compiled decoders interpret it (see _decoders.py).
_LAYOUTS: Layouts = {
    "sasl_authenticate_response_v0": (
        SaslAuthenticateResponse,
        list,
        "error_code:int16 error_message:nullable_string auth_bytes:bytes",
    ),
    "sasl_authenticate_response_v1": (
        SaslAuthenticateResponse,
        list,
        "error_code:int16 error_message:nullable_string auth_bytes:bytes session_lifetime_ms:int64",
    ),
    "sasl_authenticate_response_v2": (
        SaslAuthenticateResponse,
        list,
        "error_code:int16 error_message:compact_nullable_string auth_bytes:compact_bytes "
        "session_lifetime_ms:int64 tags",
    ),
}
_DECODE = decoders(
    {
        0: _decode_sasl_authenticate_response_v0,
        1: _decode_sasl_authenticate_response_v1,
        2: _decode_sasl_authenticate_response_v2,
    },
    _LAYOUTS,
)
_ENCODE = {
    0: _encode_sasl_authenticate_response_v0,
    1: _encode_sasl_authenticate_response_v1,
    2: _encode_sasl_authenticate_response_v2,
}
_SIZE = {
    0: _size_sasl_authenticate_response_v0,
    1: _size_sasl_authenticate_response_v1,
    2: _size_sasl_authenticate_response_v2,
}

# DO NOT EDIT: generated from specs/SaslHandshakeResponse.json (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: 1b2589b9c07973dc56d19bc44b799d55556740e013d4f8cd4c1f27347765f13b
"""SaslHandshakeResponse: a response of API 17, versions 0-1."""

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
    NEW,
    bad_length,
    decode_failed,
    encode_failed,
    no_such_version,
    not_in_version,
    string_too_long,
    text_bytes,
)

__all__ = [
    "SaslHandshakeResponse",
]

_S_h = Struct(">h")
_S_hi = Struct(">hi")
_S_i = Struct(">i")
_new = object.__new__


class SaslHandshakeResponse(Plain):
    """A response. Not thread-safe: plain data.

    Attributes:
        error_code: The error code, or 0. (int16, versions 0+)
        mechanisms: The mechanisms that the listener supports. ([]string, versions 0+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    API_KEY: ClassVar[int] = 17
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    #: Versions with compact lengths and tagged fields.
    FLEXIBLE_VERSIONS: ClassVar[range] = range(0)
    FIELDS: ClassVar[dict[str, Any]] = {
        "error_code": 0,
        "mechanisms": list,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        error_code: int = 0,
        mechanisms: list[str] = NEW,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.mechanisms: list[str] = [] if mechanisms is NEW else mechanisms
        self.unknown_tagged_fields = unknown_tagged_fields

    def size(self, version: int) -> int:
        """Exact size of the encoded message in bytes, referenced bytes included.

        Raises:
            EncodeError: the version does not exist, or a field is null that must not be.
        """
        try:
            size_of = _SIZE[version]
        except KeyError:
            raise no_such_version(EncodeError, "SaslHandshakeResponse", version, 0, 1) from None
        try:
            return size_of(self)
        except EncodeError as error:
            raise error.of("SaslHandshakeResponse", version) from None

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
            raise no_such_version(EncodeError, "SaslHandshakeResponse", version, 0, 1) from None
        try:
            return encode(self, buffer, position)
        except EncodeError as error:
            raise error.of("SaslHandshakeResponse", version) from None

    def encode(self, version: int) -> bytes:
        """The whole message as bytes. Raises EncodeError as ``encode_into`` does."""
        buffer = bytearray(self.size(version))
        self.encode_into(buffer, 0, version)
        return bytes(buffer)

    @classmethod
    def decode(
        cls, buffer: Buffer, version: int, position: int = 0
    ) -> tuple[SaslHandshakeResponse, int]:
        """Read one message; return it and the position after it. Further bytes are ignored.

        Raises:
            DecodeError: the version does not exist, or the bytes are not a valid message.
        """
        try:
            decode = _DECODE[version]
        except KeyError:
            raise no_such_version(DecodeError, "SaslHandshakeResponse", version, 0, 1) from None
        readable = buffer if type(buffer) is bytes else bytes(buffer)
        try:
            if not 0 <= position <= len(readable):
                raise DecodeError(f"position {position} is outside the buffer of {len(readable)} bytes")
            return decode(readable, position, len(readable))
        except DecodeError as error:
            raise error.of("SaslHandshakeResponse", version) from None


def _decode_sasl_handshake_response_v0(
    buffer: bytes, position: int, end: int
) -> tuple[SaslHandshakeResponse, int]:
    """Versions 0-1."""
    at = ""
    item = None
    try:
        item = _new(SaslHandshakeResponse)
        item.unknown_tagged_fields = None

        at = "error_code:h mechanisms:i"
        item.error_code, length = _S_hi.unpack_from(buffer, position)
        position += 6

        at = "mechanisms"
        if not 0 <= length * 2 <= end - position:
            raise bad_length(length, position, end, "elements of at least 2 bytes")
        mechanisms: list[str] = []
        item.mechanisms = mechanisms
        for _ in range(length):
            (length,) = _S_h.unpack_from(buffer, position)
            position += 2
            stop = position + length
            if not position <= stop <= end:
                raise bad_length(length, position, end, "bytes")
            mechanisms.append(str(buffer[position:stop], "utf-8"))
            position = stop
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_sasl_handshake_response_v0(item: SaslHandshakeResponse, buffer: bytearray, position: int) -> int:
    """Versions 0-1."""
    element: Any = None
    at = ""
    try:
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "none")

        at = "error_code:h"
        _S_h.pack_into(buffer, position, item.error_code)
        position += 2

        at = "mechanisms"
        length = len(item.mechanisms)
        _S_i.pack_into(buffer, position, length)
        position += 4
        for element in item.mechanisms:
            data = element.encode()
            length = len(data)
            if length > MAX_STRING_BYTES:
                raise string_too_long(length)
            _S_h.pack_into(buffer, position, length)
            position += 2
            stop = position + length
            buffer[position:stop] = data
            position = stop
        element = None
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at, element) from None
    return position


def _size_sasl_handshake_response_v0(item: SaslHandshakeResponse) -> int:
    """Versions 0-1."""
    size = 6
    element: Any = None
    at = ""
    try:
        at = "mechanisms"
        length = len(item.mechanisms)
        size += 2 * length
        for element in item.mechanisms:
            length = text_bytes(element)
            size += length
        element = None
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at, element) from None
    return size


#: The wire layout of each decoder; compiled decoders interpret it (see _decoders.py).
_LAYOUTS: Layouts = {
    "sasl_handshake_response_v0": (SaslHandshakeResponse, list, "error_code:int16 mechanisms:array(string)"),
}
_DECODE = decoders(
    {
        0: _decode_sasl_handshake_response_v0,
        1: _decode_sasl_handshake_response_v0,
    },
    _LAYOUTS,
)
_ENCODE = {
    0: _encode_sasl_handshake_response_v0,
    1: _encode_sasl_handshake_response_v0,
}
_SIZE = {
    0: _size_sasl_handshake_response_v0,
    1: _size_sasl_handshake_response_v0,
}

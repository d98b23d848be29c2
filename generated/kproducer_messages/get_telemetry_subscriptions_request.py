# DO NOT EDIT: generated from specs/GetTelemetrySubscriptionsRequest.json (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: 925a0e7070add2720e35a7a28a180ab0dc6178bec3278875458539ca221e0b81
"""GetTelemetrySubscriptionsRequest: a request of API 71, versions 0, flexible 0."""

from __future__ import annotations

from struct import Struct
from typing import Any, ClassVar
from uuid import UUID

from ._decoders import Layouts, decoders
from ._plain import Plain
from ._wire import (
    Buffer,
    DECODE_FAILURES,
    DecodeError,
    ENCODE_FAILURES,
    EncodeError,
    Gather,
    ZERO_UUID,
    ZERO_UUID_BYTES,
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
    "GetTelemetrySubscriptionsRequest",
]

_S_16s = Struct(">16s")
_S_16sB = Struct(">16sB")
_S_h = Struct(">h")
_S_i = Struct(">i")
_new = object.__new__


class GetTelemetrySubscriptionsRequest(Plain):
    """A request. Not thread-safe: plain data.

    Attributes:
        client_instance_id: The id that an earlier response has assigned; all zeros in the first request.
            (uuid, versions 0+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    API_KEY: ClassVar[int] = 71
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    #: Versions with compact lengths and tagged fields.
    FLEXIBLE_VERSIONS: ClassVar[range] = range(0, 1)
    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "client_instance_id": UUID,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "client_instance_id": ZERO_UUID,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        client_instance_id: UUID = ZERO_UUID,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.client_instance_id: UUID = client_instance_id
        self.unknown_tagged_fields = unknown_tagged_fields

    def size(self, version: int) -> int:
        """Exact size of the encoded message in bytes, referenced bytes included.

        Raises:
            EncodeError: the version does not exist, or a field is null that must not be.
        """
        try:
            size_of = _SIZE[version]
        except KeyError:
            raise no_such_version(EncodeError, "GetTelemetrySubscriptionsRequest", version, 0, 0) from None
        try:
            return size_of(self)
        except EncodeError as error:
            raise error.of("GetTelemetrySubscriptionsRequest", version) from None

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
            raise no_such_version(EncodeError, "GetTelemetrySubscriptionsRequest", version, 0, 0) from None
        try:
            return encode(self, buffer, position)
        except EncodeError as error:
            raise error.of("GetTelemetrySubscriptionsRequest", version) from None

    def encode(self, version: int) -> bytes:
        """The whole message as bytes. Raises EncodeError as ``encode_into`` does."""
        buffer = bytearray(self.size(version))
        self.encode_into(buffer, 0, version)
        return bytes(buffer)

    @classmethod
    def decode(
        cls, buffer: Buffer, version: int, position: int = 0
    ) -> tuple[GetTelemetrySubscriptionsRequest, int]:
        """Read one message; return it and the position after it. Further bytes are ignored.

        Raises:
            DecodeError: the version does not exist, or the bytes are not a valid message.
        """
        try:
            decode = _DECODE[version]
        except KeyError:
            raise no_such_version(DecodeError, "GetTelemetrySubscriptionsRequest", version, 0, 0) from None
        readable = buffer if type(buffer) is bytes else bytes(buffer)
        try:
            if not 0 <= position <= len(readable):
                raise DecodeError(f"position {position} is outside the buffer of {len(readable)} bytes")
            return decode(readable, position, len(readable))
        except DecodeError as error:
            raise error.of("GetTelemetrySubscriptionsRequest", version) from None


def _decode_get_telemetry_subscriptions_request_v0(
    buffer: bytes, position: int, end: int
) -> tuple[GetTelemetrySubscriptionsRequest, int]:
    """Version 0."""
    at = ""
    item = None
    try:
        item = _new(GetTelemetrySubscriptionsRequest)

        at = "client_instance_id:16s tagged_fields:B"
        client_instance_id, length = _S_16sB.unpack_from(buffer, position)
        position += 17
        item.client_instance_id = ZERO_UUID if client_instance_id == ZERO_UUID_BYTES else UUID(bytes=client_instance_id)
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


def _encode_get_telemetry_subscriptions_request_v0(
    item: GetTelemetrySubscriptionsRequest, buffer: bytearray, position: int
) -> int:
    """Version 0."""
    at = ""
    try:
        at = "client_instance_id:16s"
        _S_16s.pack_into(buffer, position, item.client_instance_id.bytes)
        position += 16

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


def _size_get_telemetry_subscriptions_request_v0(item: GetTelemetrySubscriptionsRequest) -> int:
    """Version 0."""
    size = 17
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
    "get_telemetry_subscriptions_request_v0": (
        GetTelemetrySubscriptionsRequest,
        list,
        "client_instance_id:uuid tags",
    ),
}
_DECODE = decoders(
    {
        0: _decode_get_telemetry_subscriptions_request_v0,
    },
    _LAYOUTS,
)
_ENCODE = {
    0: _encode_get_telemetry_subscriptions_request_v0,
}
_SIZE = {
    0: _size_get_telemetry_subscriptions_request_v0,
}

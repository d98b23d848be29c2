# DO NOT EDIT: generated from specs/PushTelemetryRequest.json (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: 2e01ae8f531bf36bb668d06109c63397cd77a70025dd1c9adbf1d8de5f55bd9d
"""PushTelemetryRequest: a request of API 72, versions 0, flexible 0."""

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
    bad_length,
    byte_length,
    byte_view,
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
    "PushTelemetryRequest",
]

_S_16sitb = Struct(">16si?b")
_S_16sitbB = Struct(">16si?bB")
_S_16sibb = Struct(">16sibb")
_S_16sibbB = Struct(">16sibbB")
_S_h = Struct(">h")
_S_i = Struct(">i")
_new = object.__new__


class PushTelemetryRequest(Plain):
    """A request. Not thread-safe: plain data.

    Attributes:
        client_instance_id: The id from the response with the subscription. (uuid, versions 0+)
        subscription_id: The subscription that chose these metrics. (int32, versions 0+)
        terminating: Whether the client closes, and this is its last push. (bool, versions 0+)
        compression_type: The codec of the payload, numbered as in record batches. (int8, versions 0+)
        metrics: The payload: a MetricsData message of OpenTelemetry's protocol, version 1, compressed.
            (bytes, versions 0+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    API_KEY: ClassVar[int] = 72
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    #: Versions with compact lengths and tagged fields.
    FLEXIBLE_VERSIONS: ClassVar[range] = range(0, 1)
    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "client_instance_id": UUID,
        "metrics": bytes,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "client_instance_id": ZERO_UUID,
        "subscription_id": 0,
        "terminating": False,
        "compression_type": 0,
        "metrics": b"",
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        client_instance_id: UUID = ZERO_UUID,
        subscription_id: int = 0,
        terminating: bool = False,
        compression_type: int = 0,
        metrics: Buffer = b"",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.client_instance_id: UUID = client_instance_id
        self.subscription_id: int = subscription_id
        self.terminating: bool = terminating
        self.compression_type: int = compression_type
        self.metrics: Buffer = metrics
        self.unknown_tagged_fields = unknown_tagged_fields

    def size(self, version: int) -> int:
        """Exact size of the encoded message in bytes, referenced bytes included.

        Raises:
            EncodeError: the version does not exist, or a field is null that must not be.
        """
        try:
            size_of = _SIZE[version]
        except KeyError:
            raise no_such_version(EncodeError, "PushTelemetryRequest", version, 0, 0) from None
        try:
            return size_of(self)
        except EncodeError as error:
            raise error.of("PushTelemetryRequest", version) from None

    def zero_copy_size(self, version: int) -> int:
        """The number of those bytes that ``encode_into`` passes to ``gather``."""
        measure = _ZERO_COPY_SIZE.get(version)
        return measure(self) if measure is not None else 0

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
            raise no_such_version(EncodeError, "PushTelemetryRequest", version, 0, 0) from None
        try:
            return encode(self, buffer, position, gather)
        except EncodeError as error:
            raise error.of("PushTelemetryRequest", version) from None

    def encode(self, version: int) -> bytes:
        """The whole message as bytes. Raises EncodeError as ``encode_into`` does."""
        buffer = bytearray(self.size(version))
        self.encode_into(buffer, 0, version)
        return bytes(buffer)

    @classmethod
    def decode(
        cls, buffer: Buffer, version: int, position: int = 0
    ) -> tuple[PushTelemetryRequest, int]:
        """Read one message; return it and the position after it. Further bytes are ignored.

        Byte fields that are not copied are views of ``buffer``.

        Raises:
            DecodeError: the version does not exist, or the bytes are not a valid message.
        """
        try:
            decode = _DECODE[version]
        except KeyError:
            raise no_such_version(DecodeError, "PushTelemetryRequest", version, 0, 0) from None
        readable = memoryview(buffer).cast("B")
        try:
            if not 0 <= position <= len(readable):
                raise DecodeError(f"position {position} is outside the buffer of {len(readable)} bytes")
            return decode(readable, position, len(readable))
        except DecodeError as error:
            raise error.of("PushTelemetryRequest", version) from None


def _decode_push_telemetry_request_v0(
    buffer: memoryview, position: int, end: int
) -> tuple[PushTelemetryRequest, int]:
    """Version 0."""
    at = ""
    item = None
    try:
        item = _new(PushTelemetryRequest)

        at = "client_instance_id:16s subscription_id:i terminating:? compression_type:b metrics:B"
        (
            client_instance_id,
            item.subscription_id,
            item.terminating,
            item.compression_type,
            length,
        ) = _S_16sitbB.unpack_from(buffer, position)
        position += 23
        item.client_instance_id = ZERO_UUID if client_instance_id == ZERO_UUID_BYTES else UUID(bytes=client_instance_id)

        at = "metrics"
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
        item.metrics = buffer[position:stop]
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


def _encode_push_telemetry_request_v0(
    item: PushTelemetryRequest, buffer: bytearray, position: int, gather: Gather | None
) -> int:
    """Version 0."""
    at = ""
    try:
        at = "client_instance_id:16s subscription_id:i terminating:? compression_type:b"
        _S_16sibb.pack_into(
            buffer,
            position,
            item.client_instance_id.bytes,
            item.subscription_id,
            item.terminating,
            item.compression_type,
        )
        position += 22

        at = "metrics"
        data = item.metrics
        length = data.nbytes if isinstance(data, memoryview) else len(data)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        if gather is None:
            stop = position + length
            buffer[position:stop] = data if type(data) is bytes else byte_view(data)
            position = stop
        else:
            gather.append((position, data))

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


def _size_push_telemetry_request_v0(item: PushTelemetryRequest) -> int:
    """Version 0."""
    size = 24
    at = ""
    try:
        at = "metrics"
        data = item.metrics
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


def _zero_copy_size_push_telemetry_request_v0(item: PushTelemetryRequest) -> int:
    """Version 0."""
    size = 0
    if item.metrics is not None:
        size += byte_length(item.metrics)
    return size


#: The wire layout of each decoder; compiled decoders interpret it (see _decoders.py).
_LAYOUTS: Layouts = {
    "push_telemetry_request_v0": (
        PushTelemetryRequest,
        list,
        "client_instance_id:uuid subscription_id:int32 terminating:bool compression_type:int8 "
        "metrics:compact_view tags",
    ),
}
_DECODE = decoders(
    {
        0: _decode_push_telemetry_request_v0,
    },
    _LAYOUTS,
)
_ENCODE = {
    0: _encode_push_telemetry_request_v0,
}
_SIZE = {
    0: _size_push_telemetry_request_v0,
}
_ZERO_COPY_SIZE = {
    0: _zero_copy_size_push_telemetry_request_v0,
}

# DO NOT EDIT: generated from specs/GetTelemetrySubscriptionsResponse.json (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: 3dacff2cbfd52f79cfba5db8f553e524b43728c265509621657fd29f62ecebb3
"""GetTelemetrySubscriptionsResponse: a response of API 71, versions 0, flexible 0."""

from __future__ import annotations

from itertools import repeat
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
    INT8S,
    INT8_READERS,
    MAX_STRING_BYTES,
    NEW,
    ZERO_UUID,
    ZERO_UUID_BYTES,
    bad_length,
    check_unknown_tags,
    decode_failed,
    encode_failed,
    no_such_version,
    read_long_length,
    read_numbers,
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
    "GetTelemetrySubscriptionsResponse",
]

_S_h = Struct(">h")
_S_i = Struct(">i")
_S_ih16si = Struct(">ih16si")
_S_ih16siB = Struct(">ih16siB")
_S_iit = Struct(">ii?")
_S_iitB = Struct(">ii?B")
_S_iib = Struct(">iib")
_S_iibB = Struct(">iibB")
_new = object.__new__


class GetTelemetrySubscriptionsResponse(Plain):
    """A response. Not thread-safe: plain data.

    Attributes:
        throttle_time_ms: How long the client should send nothing, because of a quota; in milliseconds.
            (int32, versions 0+)
        error_code: Why there is no subscription; 0 if there is one. (int16, versions 0+)
        client_instance_id: The id of this client; chosen by the broker if the request had none. (uuid,
            versions 0+)
        subscription_id: Changes with the subscriptions that match the client; pushes repeat it. (int32,
            versions 0+)
        accepted_compression_types: The codecs that a push may use, the preferred one first. ([]int8, versions
            0+)
        push_interval_ms: Time between two pushes, and between two of these requests if nothing is wanted; in
            milliseconds. (int32, versions 0+)
        telemetry_max_bytes: Largest accepted payload of a push, in bytes. (int32, versions 0+)
        delta_temporality: Whether counters have the change since the last push, and not the sum since the
            client's start. (bool, versions 0+)
        requested_metrics: Prefixes of the names of the wanted metrics: none if empty, all for an empty string
            or an asterisk. ([]string, versions 0+)
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
        "throttle_time_ms": 0,
        "error_code": 0,
        "client_instance_id": ZERO_UUID,
        "subscription_id": 0,
        "accepted_compression_types": list,
        "push_interval_ms": 0,
        "telemetry_max_bytes": 0,
        "delta_temporality": False,
        "requested_metrics": list,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        client_instance_id: UUID = ZERO_UUID,
        subscription_id: int = 0,
        accepted_compression_types: list[int] = NEW,
        push_interval_ms: int = 0,
        telemetry_max_bytes: int = 0,
        delta_temporality: bool = False,
        requested_metrics: list[str] = NEW,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.client_instance_id: UUID = client_instance_id
        self.subscription_id: int = subscription_id
        self.accepted_compression_types: list[int] = [] if accepted_compression_types is NEW else accepted_compression_types
        self.push_interval_ms: int = push_interval_ms
        self.telemetry_max_bytes: int = telemetry_max_bytes
        self.delta_temporality: bool = delta_temporality
        self.requested_metrics: list[str] = [] if requested_metrics is NEW else requested_metrics
        self.unknown_tagged_fields = unknown_tagged_fields

    def size(self, version: int) -> int:
        """Exact size of the encoded message in bytes, referenced bytes included.

        Raises:
            EncodeError: the version does not exist, or a field is null that must not be.
        """
        try:
            size_of = _SIZE[version]
        except KeyError:
            raise no_such_version(EncodeError, "GetTelemetrySubscriptionsResponse", version, 0, 0) from None
        try:
            return size_of(self)
        except EncodeError as error:
            raise error.of("GetTelemetrySubscriptionsResponse", version) from None

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
            raise no_such_version(EncodeError, "GetTelemetrySubscriptionsResponse", version, 0, 0) from None
        try:
            return encode(self, buffer, position)
        except EncodeError as error:
            raise error.of("GetTelemetrySubscriptionsResponse", version) from None

    def encode(self, version: int) -> bytes:
        """The whole message as bytes. Raises EncodeError as ``encode_into`` does."""
        buffer = bytearray(self.size(version))
        self.encode_into(buffer, 0, version)
        return bytes(buffer)

    @classmethod
    def decode(
        cls, buffer: Buffer, version: int, position: int = 0
    ) -> tuple[GetTelemetrySubscriptionsResponse, int]:
        """Read one message; return it and the position after it. Further bytes are ignored.

        Raises:
            DecodeError: the version does not exist, or the bytes are not a valid message.
        """
        try:
            decode = _DECODE[version]
        except KeyError:
            raise no_such_version(DecodeError, "GetTelemetrySubscriptionsResponse", version, 0, 0) from None
        readable = buffer if type(buffer) is bytes else bytes(buffer)
        try:
            if not 0 <= position <= len(readable):
                raise DecodeError(f"position {position} is outside the buffer of {len(readable)} bytes")
            return decode(readable, position, len(readable))
        except DecodeError as error:
            raise error.of("GetTelemetrySubscriptionsResponse", version) from None


def _decode_get_telemetry_subscriptions_response_v0(
    buffer: bytes, position: int, end: int
) -> tuple[GetTelemetrySubscriptionsResponse, int]:
    """Version 0."""
    at = ""
    item = None
    try:
        item = _new(GetTelemetrySubscriptionsResponse)

        at = "throttle_time_ms:i error_code:h client_instance_id:16s subscription_id:i accepted_compression_types:B"
        (
            item.throttle_time_ms,
            item.error_code,
            client_instance_id,
            item.subscription_id,
            length,
        ) = _S_ih16siB.unpack_from(buffer, position)
        position += 27
        item.client_instance_id = ZERO_UUID if client_instance_id == ZERO_UUID_BYTES else UUID(bytes=client_instance_id)

        at = "accepted_compression_types"
        if length == 1:
            item.accepted_compression_types = []
        elif 1 < length < 128:
            length -= 1
            item.accepted_compression_types = [*INT8_READERS[length](buffer, position)]
            position += length
        else:
            length, position = read_long_length(buffer, position, length)
            item.accepted_compression_types, position = read_numbers(buffer, position, length, end, "b")

        at = "push_interval_ms:i telemetry_max_bytes:i delta_temporality:? requested_metrics:B"
        (
            item.push_interval_ms,
            item.telemetry_max_bytes,
            item.delta_temporality,
            length,
        ) = _S_iitB.unpack_from(buffer, position)
        position += 10

        at = "requested_metrics"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length <= end - position:
            raise bad_length(length, position, end, "elements of at least 1 bytes")
        requested_metrics: list[str] = []
        item.requested_metrics = requested_metrics
        for _ in range(length):
            length = buffer[position]
            position += 1
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            stop = position + length
            if not position <= stop <= end or length > MAX_STRING_BYTES:
                raise bad_length(length, position, end, "bytes")
            requested_metrics.append(str(buffer[position:stop], "utf-8"))
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


def _encode_get_telemetry_subscriptions_response_v0(
    item: GetTelemetrySubscriptionsResponse, buffer: bytearray, position: int
) -> int:
    """Version 0."""
    element: Any = None
    at = ""
    try:
        at = "throttle_time_ms:i error_code:h client_instance_id:16s subscription_id:i"
        _S_ih16si.pack_into(
            buffer,
            position,
            item.throttle_time_ms,
            item.error_code,
            item.client_instance_id.bytes,
            item.subscription_id,
        )
        position += 26

        at = "accepted_compression_types:[b]"
        accepted_compression_types = item.accepted_compression_types
        length = len(accepted_compression_types)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        INT8S[length].pack_into(buffer, position, *accepted_compression_types)
        position += length

        at = "push_interval_ms:i telemetry_max_bytes:i delta_temporality:?"
        _S_iib.pack_into(
            buffer,
            position,
            item.push_interval_ms,
            item.telemetry_max_bytes,
            item.delta_temporality,
        )
        position += 9

        at = "requested_metrics"
        length = len(item.requested_metrics)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        for element in item.requested_metrics:
            data = element.encode()
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
        element = None

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            position = write_uvarint(buffer, position, check_unknown_tags(unknown, ()))
            position = write_unknown_tags(buffer, position, unknown)
        else:
            buffer[position] = 0
            position += 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at, element) from None
    return position


def _size_get_telemetry_subscriptions_response_v0(item: GetTelemetrySubscriptionsResponse) -> int:
    """Version 0."""
    size = 38
    element: Any = None
    at = ""
    try:
        at = "accepted_compression_types"
        length = len(item.accepted_compression_types)
        size += length
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1

        at = "requested_metrics"
        length = len(item.requested_metrics)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += length
        for element in item.requested_metrics:
            length = text_bytes(element)
            size += length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        element = None

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at, element) from None
    return size


#: The wire layout of each decoder; compiled decoders interpret it (see _decoders.py).
_LAYOUTS: Layouts = {
    "get_telemetry_subscriptions_response_v0": (
        GetTelemetrySubscriptionsResponse,
        list,
        "throttle_time_ms:int32 error_code:int16 client_instance_id:uuid subscription_id:int32 "
        "accepted_compression_types:compact_array(int8) push_interval_ms:int32 telemetry_max_bytes:int32 "
        "delta_temporality:bool requested_metrics:compact_array(string) tags",
    ),
}
_DECODE = decoders(
    {
        0: _decode_get_telemetry_subscriptions_response_v0,
    },
    _LAYOUTS,
)
_ENCODE = {
    0: _encode_get_telemetry_subscriptions_response_v0,
}
_SIZE = {
    0: _size_get_telemetry_subscriptions_response_v0,
}

# DO NOT EDIT: generated from specs/InitProducerIdResponse.json (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: da2e025f894748e6b205c1ea057545062aced81f83e083b8eba0afd3c6032690
"""InitProducerIdResponse: a response of API 22, versions 0-6, flexible 2-6."""

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
    "InitProducerIdResponse",
]

_S_h = Struct(">h")
_S_i = Struct(">i")
_S_ihqh = Struct(">ihqh")
_S_ihqhB = Struct(">ihqhB")
_S_ihqhqh = Struct(">ihqhqh")
_S_ihqhqhB = Struct(">ihqhqhB")
_new = object.__new__


class InitProducerIdResponse(Plain):
    """A response. Not thread-safe: plain data.

    Attributes:
        throttle_time_ms: Time for which the quota delays the client, in milliseconds. (int32, versions 0+;
            dropped if the version does not have it)
        error_code: The error code, or 0. (int16, versions 0+)
        producer_id: The producer id to use. (int64, versions 0+; a producerId)
        producer_epoch: The producer epoch to use. (int16, versions 0+)
        ongoing_txn_producer_id: Producer id of the transaction that was kept open; -1 if there is none.
            (int64, versions 6+; a producerId)
        ongoing_txn_producer_epoch: Its epoch; -1 if there is none. (int16, versions 6+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    API_KEY: ClassVar[int] = 22
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 6
    #: Versions with compact lengths and tagged fields.
    FLEXIBLE_VERSIONS: ClassVar[range] = range(2, 7)
    FIELDS: ClassVar[dict[str, Any]] = {
        "throttle_time_ms": 0,
        "error_code": 0,
        "producer_id": -1,
        "producer_epoch": 0,
        "ongoing_txn_producer_id": -1,
        "ongoing_txn_producer_epoch": -1,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = 0,
        ongoing_txn_producer_id: int = -1,
        ongoing_txn_producer_epoch: int = -1,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.ongoing_txn_producer_id: int = ongoing_txn_producer_id
        self.ongoing_txn_producer_epoch: int = ongoing_txn_producer_epoch
        self.unknown_tagged_fields = unknown_tagged_fields

    def size(self, version: int) -> int:
        """Exact size of the encoded message in bytes, referenced bytes included.

        Raises:
            EncodeError: the version does not exist, or a field is null that must not be.
        """
        try:
            size_of = _SIZE[version]
        except KeyError:
            raise no_such_version(EncodeError, "InitProducerIdResponse", version, 0, 6) from None
        try:
            return size_of(self)
        except EncodeError as error:
            raise error.of("InitProducerIdResponse", version) from None

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
            raise no_such_version(EncodeError, "InitProducerIdResponse", version, 0, 6) from None
        try:
            return encode(self, buffer, position)
        except EncodeError as error:
            raise error.of("InitProducerIdResponse", version) from None

    def encode(self, version: int) -> bytes:
        """The whole message as bytes. Raises EncodeError as ``encode_into`` does."""
        buffer = bytearray(self.size(version))
        self.encode_into(buffer, 0, version)
        return bytes(buffer)

    @classmethod
    def decode(
        cls, buffer: Buffer, version: int, position: int = 0
    ) -> tuple[InitProducerIdResponse, int]:
        """Read one message; return it and the position after it. Further bytes are ignored.

        Raises:
            DecodeError: the version does not exist, or the bytes are not a valid message.
        """
        try:
            decode = _DECODE[version]
        except KeyError:
            raise no_such_version(DecodeError, "InitProducerIdResponse", version, 0, 6) from None
        readable = buffer if type(buffer) is bytes else bytes(buffer)
        try:
            if not 0 <= position <= len(readable):
                raise DecodeError(f"position {position} is outside the buffer of {len(readable)} bytes")
            return decode(readable, position, len(readable))
        except DecodeError as error:
            raise error.of("InitProducerIdResponse", version) from None


def _decode_init_producer_id_response_v0(
    buffer: bytes, position: int, end: int
) -> tuple[InitProducerIdResponse, int]:
    """Versions 0-1."""
    at = ""
    item = None
    try:
        item = _new(InitProducerIdResponse)
        item.ongoing_txn_producer_id = -1
        item.ongoing_txn_producer_epoch = -1
        item.unknown_tagged_fields = None

        at = "throttle_time_ms:i error_code:h producer_id:q producer_epoch:h"
        (
            item.throttle_time_ms,
            item.error_code,
            item.producer_id,
            item.producer_epoch,
        ) = _S_ihqh.unpack_from(buffer, position)
        position += 16
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_init_producer_id_response_v0(
    item: InitProducerIdResponse, buffer: bytearray, position: int
) -> int:
    """Versions 0-1."""
    at = ""
    try:
        if item.ongoing_txn_producer_id != -1:
            at = "ongoing_txn_producer_id"
            raise not_in_version(item.ongoing_txn_producer_id, "6")
        if item.ongoing_txn_producer_epoch != -1:
            at = "ongoing_txn_producer_epoch"
            raise not_in_version(item.ongoing_txn_producer_epoch, "6")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "2-6")

        at = "throttle_time_ms:i error_code:h producer_id:q producer_epoch:h"
        _S_ihqh.pack_into(
            buffer,
            position,
            item.throttle_time_ms,
            item.error_code,
            item.producer_id,
            item.producer_epoch,
        )
        position += 16
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_init_producer_id_response_v0(item: InitProducerIdResponse) -> int:
    """Versions 0-1."""
    return 16


def _decode_init_producer_id_response_v2(
    buffer: bytes, position: int, end: int
) -> tuple[InitProducerIdResponse, int]:
    """Versions 2-5."""
    at = ""
    item = None
    try:
        item = _new(InitProducerIdResponse)
        item.ongoing_txn_producer_id = -1
        item.ongoing_txn_producer_epoch = -1

        at = "throttle_time_ms:i error_code:h producer_id:q producer_epoch:h tagged_fields:B"
        (
            item.throttle_time_ms,
            item.error_code,
            item.producer_id,
            item.producer_epoch,
            length,
        ) = _S_ihqhB.unpack_from(buffer, position)
        position += 17
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


def _encode_init_producer_id_response_v2(
    item: InitProducerIdResponse, buffer: bytearray, position: int
) -> int:
    """Versions 2-5."""
    at = ""
    try:
        if item.ongoing_txn_producer_id != -1:
            at = "ongoing_txn_producer_id"
            raise not_in_version(item.ongoing_txn_producer_id, "6")
        if item.ongoing_txn_producer_epoch != -1:
            at = "ongoing_txn_producer_epoch"
            raise not_in_version(item.ongoing_txn_producer_epoch, "6")

        at = "throttle_time_ms:i error_code:h producer_id:q producer_epoch:h"
        _S_ihqh.pack_into(
            buffer,
            position,
            item.throttle_time_ms,
            item.error_code,
            item.producer_id,
            item.producer_epoch,
        )
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


def _size_init_producer_id_response_v2(item: InitProducerIdResponse) -> int:
    """Versions 2-5."""
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


def _decode_init_producer_id_response_v6(
    buffer: bytes, position: int, end: int
) -> tuple[InitProducerIdResponse, int]:
    """Version 6."""
    at = ""
    item = None
    try:
        item = _new(InitProducerIdResponse)

        at = "throttle_time_ms:i error_code:h producer_id:q producer_epoch:h ongoing_txn_producer_id:q ongoing_txn_producer_epoch:h tagged_fields:B"
        (
            item.throttle_time_ms,
            item.error_code,
            item.producer_id,
            item.producer_epoch,
            item.ongoing_txn_producer_id,
            item.ongoing_txn_producer_epoch,
            length,
        ) = _S_ihqhqhB.unpack_from(buffer, position)
        position += 27
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


def _encode_init_producer_id_response_v6(
    item: InitProducerIdResponse, buffer: bytearray, position: int
) -> int:
    """Version 6."""
    at = ""
    try:
        at = "throttle_time_ms:i error_code:h producer_id:q producer_epoch:h ongoing_txn_producer_id:q ongoing_txn_producer_epoch:h"
        _S_ihqhqh.pack_into(
            buffer,
            position,
            item.throttle_time_ms,
            item.error_code,
            item.producer_id,
            item.producer_epoch,
            item.ongoing_txn_producer_id,
            item.ongoing_txn_producer_epoch,
        )
        position += 26

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


def _size_init_producer_id_response_v6(item: InitProducerIdResponse) -> int:
    """Version 6."""
    size = 27
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
    "init_producer_id_response_v0": (
        InitProducerIdResponse,
        list,
        "throttle_time_ms:int32 error_code:int16 producer_id:int64 producer_epoch:int16",
    ),
    "init_producer_id_response_v2": (
        InitProducerIdResponse,
        list,
        "throttle_time_ms:int32 error_code:int16 producer_id:int64 producer_epoch:int16 tags",
    ),
    "init_producer_id_response_v6": (
        InitProducerIdResponse,
        list,
        "throttle_time_ms:int32 error_code:int16 producer_id:int64 producer_epoch:int16 "
        "ongoing_txn_producer_id:int64 ongoing_txn_producer_epoch:int16 tags",
    ),
}
_DECODE = decoders(
    {
        0: _decode_init_producer_id_response_v0,
        1: _decode_init_producer_id_response_v0,
        2: _decode_init_producer_id_response_v2,
        3: _decode_init_producer_id_response_v2,
        4: _decode_init_producer_id_response_v2,
        5: _decode_init_producer_id_response_v2,
        6: _decode_init_producer_id_response_v6,
    },
    _LAYOUTS,
)
_ENCODE = {
    0: _encode_init_producer_id_response_v0,
    1: _encode_init_producer_id_response_v0,
    2: _encode_init_producer_id_response_v2,
    3: _encode_init_producer_id_response_v2,
    4: _encode_init_producer_id_response_v2,
    5: _encode_init_producer_id_response_v2,
    6: _encode_init_producer_id_response_v6,
}
_SIZE = {
    0: _size_init_producer_id_response_v0,
    1: _size_init_producer_id_response_v0,
    2: _size_init_producer_id_response_v2,
    3: _size_init_producer_id_response_v2,
    4: _size_init_producer_id_response_v2,
    5: _size_init_producer_id_response_v2,
    6: _size_init_producer_id_response_v6,
}

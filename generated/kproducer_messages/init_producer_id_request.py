# DO NOT EDIT: generated from specs/InitProducerIdRequest.json (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: 8c6fdb1f126c582d99ad93354b1d5a771c6d8d78f08e3e207af796829f0310a9
"""InitProducerIdRequest: a request of API 22, versions 0-6, flexible 2-6."""

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
    "InitProducerIdRequest",
]

_S_h = Struct(">h")
_S_i = Struct(">i")
_S_iB = Struct(">iB")
_S_iqh = Struct(">iqh")
_S_iqhtt = Struct(">iqh??")
_S_iqhttB = Struct(">iqh??B")
_S_iqhB = Struct(">iqhB")
_S_iqhbb = Struct(">iqhbb")
_S_iqhbbB = Struct(">iqhbbB")
_new = object.__new__


class InitProducerIdRequest(Plain):
    """A request. Not thread-safe: plain data.

    Attributes:
        transactional_id: The transactional id; null for a producer without transactions. (string, versions
            0+; nullable in 0+; a transactionalId)
        transaction_timeout_ms: Time after which the coordinator aborts an open transaction, in milliseconds;
            only with a transactional id. (int32, versions 0+)
        producer_id: The current producer id; -1 to request a new one. (int64, versions 3+; a producerId)
        producer_epoch: The current epoch; -1 to request a new id. (int16, versions 3+)
        enable2_pc: Whether the producer takes part in two-phase commit, in which transactions have no
            timeout. (bool, versions 6+)
        keep_prepared_txn: Whether to keep an open transaction instead of aborting it. (bool, versions 6+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    API_KEY: ClassVar[int] = 22
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 6
    #: Versions with compact lengths and tagged fields.
    FLEXIBLE_VERSIONS: ClassVar[range] = range(2, 7)
    FIELDS: ClassVar[dict[str, Any]] = {
        "transactional_id": "",
        "transaction_timeout_ms": 0,
        "producer_id": -1,
        "producer_epoch": -1,
        "enable2_pc": False,
        "keep_prepared_txn": False,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        transactional_id: str | None = "",
        transaction_timeout_ms: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        enable2_pc: bool = False,
        keep_prepared_txn: bool = False,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.transactional_id: str | None = transactional_id
        self.transaction_timeout_ms: int = transaction_timeout_ms
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.enable2_pc: bool = enable2_pc
        self.keep_prepared_txn: bool = keep_prepared_txn
        self.unknown_tagged_fields = unknown_tagged_fields

    def size(self, version: int) -> int:
        """Exact size of the encoded message in bytes, referenced bytes included.

        Raises:
            EncodeError: the version does not exist, or a field is null that must not be.
        """
        try:
            size_of = _SIZE[version]
        except KeyError:
            raise no_such_version(EncodeError, "InitProducerIdRequest", version, 0, 6) from None
        try:
            return size_of(self)
        except EncodeError as error:
            raise error.of("InitProducerIdRequest", version) from None

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
            raise no_such_version(EncodeError, "InitProducerIdRequest", version, 0, 6) from None
        try:
            return encode(self, buffer, position)
        except EncodeError as error:
            raise error.of("InitProducerIdRequest", version) from None

    def encode(self, version: int) -> bytes:
        """The whole message as bytes. Raises EncodeError as ``encode_into`` does."""
        buffer = bytearray(self.size(version))
        self.encode_into(buffer, 0, version)
        return bytes(buffer)

    @classmethod
    def decode(
        cls, buffer: Buffer, version: int, position: int = 0
    ) -> tuple[InitProducerIdRequest, int]:
        """Read one message; return it and the position after it. Further bytes are ignored.

        Raises:
            DecodeError: the version does not exist, or the bytes are not a valid message.
        """
        try:
            decode = _DECODE[version]
        except KeyError:
            raise no_such_version(DecodeError, "InitProducerIdRequest", version, 0, 6) from None
        readable = buffer if type(buffer) is bytes else bytes(buffer)
        try:
            if not 0 <= position <= len(readable):
                raise DecodeError(f"position {position} is outside the buffer of {len(readable)} bytes")
            return decode(readable, position, len(readable))
        except DecodeError as error:
            raise error.of("InitProducerIdRequest", version) from None


def _decode_init_producer_id_request_v0(
    buffer: bytes, position: int, end: int
) -> tuple[InitProducerIdRequest, int]:
    """Versions 0-1."""
    at = ""
    item = None
    try:
        item = _new(InitProducerIdRequest)
        item.producer_id = -1
        item.producer_epoch = -1
        item.enable2_pc = False
        item.keep_prepared_txn = False
        item.unknown_tagged_fields = None

        at = "transactional_id"
        (length,) = _S_h.unpack_from(buffer, position)
        position += 2
        if length == -1:
            item.transactional_id = None
        else:
            stop = position + length
            if not position <= stop <= end:
                raise bad_length(length, position, end, "bytes")
            item.transactional_id = str(buffer[position:stop], "utf-8")
            position = stop

        at = "transaction_timeout_ms:i"
        (item.transaction_timeout_ms,) = _S_i.unpack_from(buffer, position)
        position += 4
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_init_producer_id_request_v0(item: InitProducerIdRequest, buffer: bytearray, position: int) -> int:
    """Versions 0-1."""
    at = ""
    try:
        if item.producer_id != -1:
            at = "producer_id"
            raise not_in_version(item.producer_id, "3-6")
        if item.producer_epoch != -1:
            at = "producer_epoch"
            raise not_in_version(item.producer_epoch, "3-6")
        if item.enable2_pc:
            at = "enable2_pc"
            raise not_in_version(item.enable2_pc, "6")
        if item.keep_prepared_txn:
            at = "keep_prepared_txn"
            raise not_in_version(item.keep_prepared_txn, "6")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "2-6")

        at = "transactional_id"
        if item.transactional_id is None:
            _S_h.pack_into(buffer, position, -1)
            position += 2
        else:
            data = item.transactional_id.encode()
            length = len(data)
            if length > MAX_STRING_BYTES:
                raise string_too_long(length)
            _S_h.pack_into(buffer, position, length)
            position += 2
            stop = position + length
            buffer[position:stop] = data
            position = stop

        at = "transaction_timeout_ms:i"
        _S_i.pack_into(buffer, position, item.transaction_timeout_ms)
        position += 4
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_init_producer_id_request_v0(item: InitProducerIdRequest) -> int:
    """Versions 0-1."""
    size = 6
    at = ""
    try:
        at = "transactional_id"
        if item.transactional_id is not None:
            length = text_bytes(item.transactional_id)
            size += length
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_init_producer_id_request_v2(
    buffer: bytes, position: int, end: int
) -> tuple[InitProducerIdRequest, int]:
    """Version 2."""
    at = ""
    item = None
    try:
        item = _new(InitProducerIdRequest)
        item.producer_id = -1
        item.producer_epoch = -1
        item.enable2_pc = False
        item.keep_prepared_txn = False

        at = "transactional_id"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if length == -1:
            item.transactional_id = None
        else:
            stop = position + length
            if stop > end or length > MAX_STRING_BYTES:
                raise bad_length(length, position, end, "bytes")
            item.transactional_id = str(buffer[position:stop], "utf-8")
            position = stop

        at = "transaction_timeout_ms:i tagged_fields:B"
        item.transaction_timeout_ms, length = _S_iB.unpack_from(buffer, position)
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


def _encode_init_producer_id_request_v2(item: InitProducerIdRequest, buffer: bytearray, position: int) -> int:
    """Version 2."""
    at = ""
    try:
        if item.producer_id != -1:
            at = "producer_id"
            raise not_in_version(item.producer_id, "3-6")
        if item.producer_epoch != -1:
            at = "producer_epoch"
            raise not_in_version(item.producer_epoch, "3-6")
        if item.enable2_pc:
            at = "enable2_pc"
            raise not_in_version(item.enable2_pc, "6")
        if item.keep_prepared_txn:
            at = "keep_prepared_txn"
            raise not_in_version(item.keep_prepared_txn, "6")

        at = "transactional_id"
        if item.transactional_id is None:
            buffer[position] = 0
            position += 1
        else:
            data = item.transactional_id.encode()
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

        at = "transaction_timeout_ms:i"
        _S_i.pack_into(buffer, position, item.transaction_timeout_ms)
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


def _size_init_producer_id_request_v2(item: InitProducerIdRequest) -> int:
    """Version 2."""
    size = 6
    at = ""
    try:
        at = "transactional_id"
        if item.transactional_id is not None:
            length = text_bytes(item.transactional_id)
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


def _decode_init_producer_id_request_v3(
    buffer: bytes, position: int, end: int
) -> tuple[InitProducerIdRequest, int]:
    """Versions 3-5."""
    at = ""
    item = None
    try:
        item = _new(InitProducerIdRequest)
        item.enable2_pc = False
        item.keep_prepared_txn = False

        at = "transactional_id"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if length == -1:
            item.transactional_id = None
        else:
            stop = position + length
            if stop > end or length > MAX_STRING_BYTES:
                raise bad_length(length, position, end, "bytes")
            item.transactional_id = str(buffer[position:stop], "utf-8")
            position = stop

        at = "transaction_timeout_ms:i producer_id:q producer_epoch:h tagged_fields:B"
        (
            item.transaction_timeout_ms,
            item.producer_id,
            item.producer_epoch,
            length,
        ) = _S_iqhB.unpack_from(buffer, position)
        position += 15
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


def _encode_init_producer_id_request_v3(item: InitProducerIdRequest, buffer: bytearray, position: int) -> int:
    """Versions 3-5."""
    at = ""
    try:
        if item.enable2_pc:
            at = "enable2_pc"
            raise not_in_version(item.enable2_pc, "6")
        if item.keep_prepared_txn:
            at = "keep_prepared_txn"
            raise not_in_version(item.keep_prepared_txn, "6")

        at = "transactional_id"
        if item.transactional_id is None:
            buffer[position] = 0
            position += 1
        else:
            data = item.transactional_id.encode()
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

        at = "transaction_timeout_ms:i producer_id:q producer_epoch:h"
        _S_iqh.pack_into(buffer, position, item.transaction_timeout_ms, item.producer_id, item.producer_epoch)
        position += 14

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


def _size_init_producer_id_request_v3(item: InitProducerIdRequest) -> int:
    """Versions 3-5."""
    size = 16
    at = ""
    try:
        at = "transactional_id"
        if item.transactional_id is not None:
            length = text_bytes(item.transactional_id)
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


def _decode_init_producer_id_request_v6(
    buffer: bytes, position: int, end: int
) -> tuple[InitProducerIdRequest, int]:
    """Version 6."""
    at = ""
    item = None
    try:
        item = _new(InitProducerIdRequest)

        at = "transactional_id"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if length == -1:
            item.transactional_id = None
        else:
            stop = position + length
            if stop > end or length > MAX_STRING_BYTES:
                raise bad_length(length, position, end, "bytes")
            item.transactional_id = str(buffer[position:stop], "utf-8")
            position = stop

        at = "transaction_timeout_ms:i producer_id:q producer_epoch:h enable2_pc:? keep_prepared_txn:? tagged_fields:B"
        (
            item.transaction_timeout_ms,
            item.producer_id,
            item.producer_epoch,
            item.enable2_pc,
            item.keep_prepared_txn,
            length,
        ) = _S_iqhttB.unpack_from(buffer, position)
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


def _encode_init_producer_id_request_v6(item: InitProducerIdRequest, buffer: bytearray, position: int) -> int:
    """Version 6."""
    at = ""
    try:
        at = "transactional_id"
        if item.transactional_id is None:
            buffer[position] = 0
            position += 1
        else:
            data = item.transactional_id.encode()
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

        at = "transaction_timeout_ms:i producer_id:q producer_epoch:h enable2_pc:? keep_prepared_txn:?"
        _S_iqhbb.pack_into(
            buffer,
            position,
            item.transaction_timeout_ms,
            item.producer_id,
            item.producer_epoch,
            item.enable2_pc,
            item.keep_prepared_txn,
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


def _size_init_producer_id_request_v6(item: InitProducerIdRequest) -> int:
    """Version 6."""
    size = 18
    at = ""
    try:
        at = "transactional_id"
        if item.transactional_id is not None:
            length = text_bytes(item.transactional_id)
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
    "init_producer_id_request_v0": (
        InitProducerIdRequest,
        list,
        "transactional_id:nullable_string transaction_timeout_ms:int32",
    ),
    "init_producer_id_request_v2": (
        InitProducerIdRequest,
        list,
        "transactional_id:compact_nullable_string transaction_timeout_ms:int32 tags",
    ),
    "init_producer_id_request_v3": (
        InitProducerIdRequest,
        list,
        "transactional_id:compact_nullable_string transaction_timeout_ms:int32 producer_id:int64 "
        "producer_epoch:int16 tags",
    ),
    "init_producer_id_request_v6": (
        InitProducerIdRequest,
        list,
        "transactional_id:compact_nullable_string transaction_timeout_ms:int32 producer_id:int64 "
        "producer_epoch:int16 enable2_pc:bool keep_prepared_txn:bool tags",
    ),
}
_DECODE = decoders(
    {
        0: _decode_init_producer_id_request_v0,
        1: _decode_init_producer_id_request_v0,
        2: _decode_init_producer_id_request_v2,
        3: _decode_init_producer_id_request_v3,
        4: _decode_init_producer_id_request_v3,
        5: _decode_init_producer_id_request_v3,
        6: _decode_init_producer_id_request_v6,
    },
    _LAYOUTS,
)
_ENCODE = {
    0: _encode_init_producer_id_request_v0,
    1: _encode_init_producer_id_request_v0,
    2: _encode_init_producer_id_request_v2,
    3: _encode_init_producer_id_request_v3,
    4: _encode_init_producer_id_request_v3,
    5: _encode_init_producer_id_request_v3,
    6: _encode_init_producer_id_request_v6,
}
_SIZE = {
    0: _size_init_producer_id_request_v0,
    1: _size_init_producer_id_request_v0,
    2: _size_init_producer_id_request_v2,
    3: _size_init_producer_id_request_v3,
    4: _size_init_producer_id_request_v3,
    5: _size_init_producer_id_request_v3,
    6: _size_init_producer_id_request_v6,
}

# DO NOT EDIT: generated from specs/EndTxnRequest.json (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: 9ce3e8627105ce9371e87eef46ac625120c3d67d57ec933dda55baaeaeb76ffb
"""EndTxnRequest: a request of API 26, versions 0-5, flexible 3-5."""

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
    "EndTxnRequest",
]

_S_h = Struct(">h")
_S_i = Struct(">i")
_S_qht = Struct(">qh?")
_S_qhtB = Struct(">qh?B")
_S_qhb = Struct(">qhb")
_S_qhbB = Struct(">qhbB")
_new = object.__new__


class EndTxnRequest(Plain):
    """A request. Not thread-safe: plain data.

    Attributes:
        transactional_id: The producer's transactional id. (string, versions 0+; a transactionalId)
        producer_id: The producer id that belongs to the transactional id. (int64, versions 0+; a producerId)
        producer_epoch: The producer's current epoch. (int16, versions 0+)
        committed: Whether to commit; false aborts. (bool, versions 0+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    API_KEY: ClassVar[int] = 26
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    #: Versions with compact lengths and tagged fields.
    FLEXIBLE_VERSIONS: ClassVar[range] = range(3, 6)
    FIELDS: ClassVar[dict[str, Any]] = {
        "transactional_id": "",
        "producer_id": 0,
        "producer_epoch": 0,
        "committed": False,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        committed: bool = False,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.transactional_id: str = transactional_id
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.committed: bool = committed
        self.unknown_tagged_fields = unknown_tagged_fields

    def size(self, version: int) -> int:
        """Exact size of the encoded message in bytes, referenced bytes included.

        Raises:
            EncodeError: the version does not exist, or a field is null that must not be.
        """
        try:
            size_of = _SIZE[version]
        except KeyError:
            raise no_such_version(EncodeError, "EndTxnRequest", version, 0, 5) from None
        try:
            return size_of(self)
        except EncodeError as error:
            raise error.of("EndTxnRequest", version) from None

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
            raise no_such_version(EncodeError, "EndTxnRequest", version, 0, 5) from None
        try:
            return encode(self, buffer, position)
        except EncodeError as error:
            raise error.of("EndTxnRequest", version) from None

    def encode(self, version: int) -> bytes:
        """The whole message as bytes. Raises EncodeError as ``encode_into`` does."""
        buffer = bytearray(self.size(version))
        self.encode_into(buffer, 0, version)
        return bytes(buffer)

    @classmethod
    def decode(
        cls, buffer: Buffer, version: int, position: int = 0
    ) -> tuple[EndTxnRequest, int]:
        """Read one message; return it and the position after it. Further bytes are ignored.

        Raises:
            DecodeError: the version does not exist, or the bytes are not a valid message.
        """
        try:
            decode = _DECODE[version]
        except KeyError:
            raise no_such_version(DecodeError, "EndTxnRequest", version, 0, 5) from None
        readable = buffer if type(buffer) is bytes else bytes(buffer)
        try:
            if not 0 <= position <= len(readable):
                raise DecodeError(f"position {position} is outside the buffer of {len(readable)} bytes")
            return decode(readable, position, len(readable))
        except DecodeError as error:
            raise error.of("EndTxnRequest", version) from None


def _decode_end_txn_request_v0(buffer: bytes, position: int, end: int) -> tuple[EndTxnRequest, int]:
    """Versions 0-2."""
    at = ""
    item = None
    try:
        item = _new(EndTxnRequest)
        item.unknown_tagged_fields = None

        at = "transactional_id"
        (length,) = _S_h.unpack_from(buffer, position)
        position += 2
        stop = position + length
        if not position <= stop <= end:
            raise bad_length(length, position, end, "bytes")
        item.transactional_id = str(buffer[position:stop], "utf-8")
        position = stop

        at = "producer_id:q producer_epoch:h committed:?"
        item.producer_id, item.producer_epoch, item.committed = _S_qht.unpack_from(buffer, position)
        position += 11
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_end_txn_request_v0(item: EndTxnRequest, buffer: bytearray, position: int) -> int:
    """Versions 0-2."""
    at = ""
    try:
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "3-5")

        at = "transactional_id"
        data = item.transactional_id.encode()
        length = len(data)
        if length > MAX_STRING_BYTES:
            raise string_too_long(length)
        _S_h.pack_into(buffer, position, length)
        position += 2
        stop = position + length
        buffer[position:stop] = data
        position = stop

        at = "producer_id:q producer_epoch:h committed:?"
        _S_qhb.pack_into(buffer, position, item.producer_id, item.producer_epoch, item.committed)
        position += 11
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_end_txn_request_v0(item: EndTxnRequest) -> int:
    """Versions 0-2."""
    size = 13
    at = ""
    try:
        at = "transactional_id"
        length = text_bytes(item.transactional_id)
        size += length
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_end_txn_request_v3(buffer: bytes, position: int, end: int) -> tuple[EndTxnRequest, int]:
    """Versions 3-5."""
    at = ""
    item = None
    try:
        item = _new(EndTxnRequest)

        at = "transactional_id"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        stop = position + length
        if not position <= stop <= end or length > MAX_STRING_BYTES:
            raise bad_length(length, position, end, "bytes")
        item.transactional_id = str(buffer[position:stop], "utf-8")
        position = stop

        at = "producer_id:q producer_epoch:h committed:? tagged_fields:B"
        item.producer_id, item.producer_epoch, item.committed, length = _S_qhtB.unpack_from(buffer, position)
        position += 12
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


def _encode_end_txn_request_v3(item: EndTxnRequest, buffer: bytearray, position: int) -> int:
    """Versions 3-5."""
    at = ""
    try:
        at = "transactional_id"
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

        at = "producer_id:q producer_epoch:h committed:?"
        _S_qhb.pack_into(buffer, position, item.producer_id, item.producer_epoch, item.committed)
        position += 11

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


def _size_end_txn_request_v3(item: EndTxnRequest) -> int:
    """Versions 3-5."""
    size = 13
    at = ""
    try:
        at = "transactional_id"
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
    "end_txn_request_v0": (
        EndTxnRequest,
        list,
        "transactional_id:string producer_id:int64 producer_epoch:int16 committed:bool",
    ),
    "end_txn_request_v3": (
        EndTxnRequest,
        list,
        "transactional_id:compact_string producer_id:int64 producer_epoch:int16 committed:bool tags",
    ),
}
_DECODE = decoders(
    {
        0: _decode_end_txn_request_v0,
        1: _decode_end_txn_request_v0,
        2: _decode_end_txn_request_v0,
        3: _decode_end_txn_request_v3,
        4: _decode_end_txn_request_v3,
        5: _decode_end_txn_request_v3,
    },
    _LAYOUTS,
)
_ENCODE = {
    0: _encode_end_txn_request_v0,
    1: _encode_end_txn_request_v0,
    2: _encode_end_txn_request_v0,
    3: _encode_end_txn_request_v3,
    4: _encode_end_txn_request_v3,
    5: _encode_end_txn_request_v3,
}
_SIZE = {
    0: _size_end_txn_request_v0,
    1: _size_end_txn_request_v0,
    2: _size_end_txn_request_v0,
    3: _size_end_txn_request_v3,
    4: _size_end_txn_request_v3,
    5: _size_end_txn_request_v3,
}

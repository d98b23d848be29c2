# DO NOT EDIT: generated from specs/TxnOffsetCommitResponse.json (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: d19912ddb42faefebcc1b4e4cc06e17a1602e4ca7ea07d8e2a188c8fba74d435
"""TxnOffsetCommitResponse: a response of API 28, versions 0-6, flexible 3-6."""

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
    MAX_STRING_BYTES,
    NEW,
    ZERO_UUID,
    ZERO_UUID_BYTES,
    bad_length,
    check_unknown_tags,
    decode_failed,
    element_failed,
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
    "TxnOffsetCommitResponse",
    "TxnOffsetCommitResponsePartition",
    "TxnOffsetCommitResponseTopic",
]

_S_16s = Struct(">16s")
_S_16sB = Struct(">16sB")
_S_h = Struct(">h")
_S_i = Struct(">i")
_S_iB = Struct(">iB")
_S_ih = Struct(">ih")
_S_ihB = Struct(">ihB")
_S_ii = Struct(">ii")
_new = object.__new__


class TxnOffsetCommitResponsePartition(Plain):
    """Part of TxnOffsetCommitResponse.

    Attributes:
        partition_index: Partition number. (int32, versions 0+)
        error_code: The error code, or 0. (int16, versions 0+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    FIELDS: ClassVar[dict[str, Any]] = {
        "partition_index": 0,
        "error_code": 0,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.partition_index: int = partition_index
        self.error_code: int = error_code
        self.unknown_tagged_fields = unknown_tagged_fields


class TxnOffsetCommitResponseTopic(Plain):
    """Part of TxnOffsetCommitResponse.

    Attributes:
        name: Name of the topic. (string, versions 0-5; dropped if the version does not have it; a topicName)
        topic_id: Id of the topic. (uuid, versions 6+; dropped if the version does not have it)
        partitions: Results, by partition. ([]TxnOffsetCommitResponsePartition, versions 0+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "topic_id": UUID,
        "partitions": TxnOffsetCommitResponsePartition,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "name": "",
        "topic_id": ZERO_UUID,
        "partitions": list,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: UUID = ZERO_UUID,
        partitions: list[TxnOffsetCommitResponsePartition] = NEW,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.name: str = name
        self.topic_id: UUID = topic_id
        self.partitions: list[TxnOffsetCommitResponsePartition] = [] if partitions is NEW else partitions
        self.unknown_tagged_fields = unknown_tagged_fields


class TxnOffsetCommitResponse(Plain):
    """A response. Not thread-safe: plain data.

    Attributes:
        throttle_time_ms: Time for which the quota delays the client, in milliseconds. (int32, versions 0+)
        topics: Results, by topic. ([]TxnOffsetCommitResponseTopic, versions 0+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    API_KEY: ClassVar[int] = 28
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 6
    #: Versions with compact lengths and tagged fields.
    FLEXIBLE_VERSIONS: ClassVar[range] = range(3, 7)
    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "topics": TxnOffsetCommitResponseTopic,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "throttle_time_ms": 0,
        "topics": list,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[TxnOffsetCommitResponseTopic] = NEW,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[TxnOffsetCommitResponseTopic] = [] if topics is NEW else topics
        self.unknown_tagged_fields = unknown_tagged_fields

    def size(self, version: int) -> int:
        """Exact size of the encoded message in bytes, referenced bytes included.

        Raises:
            EncodeError: the version does not exist, or a field is null that must not be.
        """
        try:
            size_of = _SIZE[version]
        except KeyError:
            raise no_such_version(EncodeError, "TxnOffsetCommitResponse", version, 0, 6) from None
        try:
            return size_of(self)
        except EncodeError as error:
            raise error.of("TxnOffsetCommitResponse", version) from None

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
            raise no_such_version(EncodeError, "TxnOffsetCommitResponse", version, 0, 6) from None
        try:
            return encode(self, buffer, position)
        except EncodeError as error:
            raise error.of("TxnOffsetCommitResponse", version) from None

    def encode(self, version: int) -> bytes:
        """The whole message as bytes. Raises EncodeError as ``encode_into`` does."""
        buffer = bytearray(self.size(version))
        self.encode_into(buffer, 0, version)
        return bytes(buffer)

    @classmethod
    def decode(
        cls, buffer: Buffer, version: int, position: int = 0
    ) -> tuple[TxnOffsetCommitResponse, int]:
        """Read one message; return it and the position after it. Further bytes are ignored.

        Raises:
            DecodeError: the version does not exist, or the bytes are not a valid message.
        """
        try:
            decode = _DECODE[version]
        except KeyError:
            raise no_such_version(DecodeError, "TxnOffsetCommitResponse", version, 0, 6) from None
        readable = buffer if type(buffer) is bytes else bytes(buffer)
        try:
            if not 0 <= position <= len(readable):
                raise DecodeError(f"position {position} is outside the buffer of {len(readable)} bytes")
            return decode(readable, position, len(readable))
        except DecodeError as error:
            raise error.of("TxnOffsetCommitResponse", version) from None


def _decode_txn_offset_commit_response_partition_v0_list(
    buffer: bytes, position: int, end: int, count: int, items: list[TxnOffsetCommitResponsePartition]
) -> int:
    """Versions 0-2."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(TxnOffsetCommitResponsePartition, count)):
            item.unknown_tagged_fields = None

            at = "partition_index:i error_code:h"
            item.partition_index, item.error_code = _S_ih.unpack_from(buffer, position)
            position += 6
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_txn_offset_commit_response_partition_v0_list(
    items: list[TxnOffsetCommitResponsePartition], buffer: bytearray, position: int
) -> int:
    """Versions 0-2."""
    at = ""
    item = None
    try:
        for item in items:
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "3-6")

            at = "partition_index:i error_code:h"
            _S_ih.pack_into(buffer, position, item.partition_index, item.error_code)
            position += 6
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_txn_offset_commit_response_partition_v0_list(items: list[TxnOffsetCommitResponsePartition]) -> int:
    """Versions 0-2."""
    size = 6 * len(items)
    return size


def _decode_txn_offset_commit_response_partition_v3_list(
    buffer: bytes, position: int, end: int, count: int, items: list[TxnOffsetCommitResponsePartition]
) -> int:
    """Versions 3-6."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(TxnOffsetCommitResponsePartition, count)):
            at = "partition_index:i error_code:h tagged_fields:B"
            item.partition_index, item.error_code, length = _S_ihB.unpack_from(buffer, position)
            position += 7
            if length:
                at = "tagged_fields"
                if length > 127:
                    length, position = read_uvarint_rest(buffer, position, length)
                item.unknown_tagged_fields, position = read_unknown_tags(buffer, position, end, length)
            else:
                item.unknown_tagged_fields = None
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_txn_offset_commit_response_partition_v3_list(
    items: list[TxnOffsetCommitResponsePartition], buffer: bytearray, position: int
) -> int:
    """Versions 3-6."""
    at = ""
    item = None
    try:
        for item in items:
            at = "partition_index:i error_code:h"
            _S_ih.pack_into(buffer, position, item.partition_index, item.error_code)
            position += 6

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                position = write_uvarint(buffer, position, check_unknown_tags(unknown, ()))
                position = write_unknown_tags(buffer, position, unknown)
            else:
                buffer[position] = 0
                position += 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_txn_offset_commit_response_partition_v3_list(items: list[TxnOffsetCommitResponsePartition]) -> int:
    """Versions 3-6."""
    size = 7 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_txn_offset_commit_response_topic_v0_list(
    buffer: bytes, position: int, end: int, count: int, items: list[TxnOffsetCommitResponseTopic]
) -> int:
    """Versions 0-2."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(TxnOffsetCommitResponseTopic, count)):
            item.topic_id = ZERO_UUID
            item.unknown_tagged_fields = None

            at = "name"
            (length,) = _S_h.unpack_from(buffer, position)
            position += 2
            stop = position + length
            if not position <= stop <= end:
                raise bad_length(length, position, end, "bytes")
            item.name = str(buffer[position:stop], "utf-8")
            position = stop

            at = "partitions"
            (length,) = _S_i.unpack_from(buffer, position)
            position += 4
            if not 0 <= length * 6 <= end - position:
                raise bad_length(length, position, end, "elements of at least 6 bytes")
            partitions: list[TxnOffsetCommitResponsePartition] = []
            item.partitions = partitions
            position = _decode_txn_offset_commit_response_partition_v0_list(buffer, position, end, length, partitions)
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_txn_offset_commit_response_topic_v0_list(
    items: list[TxnOffsetCommitResponseTopic], buffer: bytearray, position: int
) -> int:
    """Versions 0-2."""
    at = ""
    item = None
    try:
        for item in items:
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "3-6")

            at = "name"
            data = item.name.encode()
            length = len(data)
            if length > MAX_STRING_BYTES:
                raise string_too_long(length)
            _S_h.pack_into(buffer, position, length)
            position += 2
            stop = position + length
            buffer[position:stop] = data
            position = stop

            at = "partitions"
            length = len(item.partitions)
            _S_i.pack_into(buffer, position, length)
            position += 4
            position = _encode_txn_offset_commit_response_partition_v0_list(item.partitions, buffer, position)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_txn_offset_commit_response_topic_v0_list(items: list[TxnOffsetCommitResponseTopic]) -> int:
    """Versions 0-2."""
    size = 6 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "name"
            length = text_bytes(item.name)
            size += length

            at = "partitions"
            size += _size_txn_offset_commit_response_partition_v0_list(item.partitions)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_txn_offset_commit_response_topic_v3_list(
    buffer: bytes, position: int, end: int, count: int, items: list[TxnOffsetCommitResponseTopic]
) -> int:
    """Versions 3-5."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(TxnOffsetCommitResponseTopic, count)):
            item.topic_id = ZERO_UUID

            at = "name"
            length = buffer[position]
            position += 1
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            stop = position + length
            if not position <= stop <= end or length > MAX_STRING_BYTES:
                raise bad_length(length, position, end, "bytes")
            item.name = str(buffer[position:stop], "utf-8")
            position = stop

            at = "partitions"
            length = buffer[position]
            position += 1
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if not 0 <= length * 7 <= end - position:
                raise bad_length(length, position, end, "elements of at least 7 bytes")
            partitions: list[TxnOffsetCommitResponsePartition] = []
            item.partitions = partitions
            position = _decode_txn_offset_commit_response_partition_v3_list(buffer, position, end, length, partitions)

            at = "tagged_fields"
            length = buffer[position]
            position += 1
            if length:
                if length > 127:
                    length, position = read_uvarint_rest(buffer, position, length)
                item.unknown_tagged_fields, position = read_unknown_tags(buffer, position, end, length)
            else:
                item.unknown_tagged_fields = None
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_txn_offset_commit_response_topic_v3_list(
    items: list[TxnOffsetCommitResponseTopic], buffer: bytearray, position: int
) -> int:
    """Versions 3-5."""
    at = ""
    item = None
    try:
        for item in items:
            at = "name"
            data = item.name.encode()
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

            at = "partitions"
            length = len(item.partitions)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            position = _encode_txn_offset_commit_response_partition_v3_list(item.partitions, buffer, position)

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                position = write_uvarint(buffer, position, check_unknown_tags(unknown, ()))
                position = write_unknown_tags(buffer, position, unknown)
            else:
                buffer[position] = 0
                position += 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_txn_offset_commit_response_topic_v3_list(items: list[TxnOffsetCommitResponseTopic]) -> int:
    """Versions 3-5."""
    size = 3 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "name"
            length = text_bytes(item.name)
            size += length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1

            at = "partitions"
            length = len(item.partitions)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_txn_offset_commit_response_partition_v3_list(item.partitions)

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_txn_offset_commit_response_topic_v6_list(
    buffer: bytes, position: int, end: int, count: int, items: list[TxnOffsetCommitResponseTopic]
) -> int:
    """Version 6."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(TxnOffsetCommitResponseTopic, count)):
            item.name = ""

            at = "topic_id:16s partitions:B"
            topic_id, length = _S_16sB.unpack_from(buffer, position)
            position += 17
            item.topic_id = ZERO_UUID if topic_id == ZERO_UUID_BYTES else UUID(bytes=topic_id)

            at = "partitions"
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if not 0 <= length * 7 <= end - position:
                raise bad_length(length, position, end, "elements of at least 7 bytes")
            partitions: list[TxnOffsetCommitResponsePartition] = []
            item.partitions = partitions
            position = _decode_txn_offset_commit_response_partition_v3_list(buffer, position, end, length, partitions)

            at = "tagged_fields"
            length = buffer[position]
            position += 1
            if length:
                if length > 127:
                    length, position = read_uvarint_rest(buffer, position, length)
                item.unknown_tagged_fields, position = read_unknown_tags(buffer, position, end, length)
            else:
                item.unknown_tagged_fields = None
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_txn_offset_commit_response_topic_v6_list(
    items: list[TxnOffsetCommitResponseTopic], buffer: bytearray, position: int
) -> int:
    """Version 6."""
    at = ""
    item = None
    try:
        for item in items:
            at = "topic_id:16s"
            _S_16s.pack_into(buffer, position, item.topic_id.bytes)
            position += 16

            at = "partitions"
            length = len(item.partitions)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            position = _encode_txn_offset_commit_response_partition_v3_list(item.partitions, buffer, position)

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                position = write_uvarint(buffer, position, check_unknown_tags(unknown, ()))
                position = write_unknown_tags(buffer, position, unknown)
            else:
                buffer[position] = 0
                position += 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_txn_offset_commit_response_topic_v6_list(items: list[TxnOffsetCommitResponseTopic]) -> int:
    """Version 6."""
    size = 18 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "partitions"
            length = len(item.partitions)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_txn_offset_commit_response_partition_v3_list(item.partitions)

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_txn_offset_commit_response_v0(
    buffer: bytes, position: int, end: int
) -> tuple[TxnOffsetCommitResponse, int]:
    """Versions 0-2."""
    at = ""
    item = None
    try:
        item = _new(TxnOffsetCommitResponse)
        item.unknown_tagged_fields = None

        at = "throttle_time_ms:i topics:i"
        item.throttle_time_ms, length = _S_ii.unpack_from(buffer, position)
        position += 8

        at = "topics"
        if not 0 <= length * 6 <= end - position:
            raise bad_length(length, position, end, "elements of at least 6 bytes")
        topics: list[TxnOffsetCommitResponseTopic] = []
        item.topics = topics
        position = _decode_txn_offset_commit_response_topic_v0_list(buffer, position, end, length, topics)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_txn_offset_commit_response_v0(
    item: TxnOffsetCommitResponse, buffer: bytearray, position: int
) -> int:
    """Versions 0-2."""
    at = ""
    try:
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "3-6")

        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4

        at = "topics"
        length = len(item.topics)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_txn_offset_commit_response_topic_v0_list(item.topics, buffer, position)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_txn_offset_commit_response_v0(item: TxnOffsetCommitResponse) -> int:
    """Versions 0-2."""
    size = 8
    at = ""
    try:
        at = "topics"
        size += _size_txn_offset_commit_response_topic_v0_list(item.topics)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_txn_offset_commit_response_v3(
    buffer: bytes, position: int, end: int
) -> tuple[TxnOffsetCommitResponse, int]:
    """Versions 3-5."""
    at = ""
    item = None
    try:
        item = _new(TxnOffsetCommitResponse)

        at = "throttle_time_ms:i topics:B"
        item.throttle_time_ms, length = _S_iB.unpack_from(buffer, position)
        position += 5

        at = "topics"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 3 <= end - position:
            raise bad_length(length, position, end, "elements of at least 3 bytes")
        topics: list[TxnOffsetCommitResponseTopic] = []
        item.topics = topics
        position = _decode_txn_offset_commit_response_topic_v3_list(buffer, position, end, length, topics)

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


def _encode_txn_offset_commit_response_v3(
    item: TxnOffsetCommitResponse, buffer: bytearray, position: int
) -> int:
    """Versions 3-5."""
    at = ""
    try:
        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4

        at = "topics"
        length = len(item.topics)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_txn_offset_commit_response_topic_v3_list(item.topics, buffer, position)

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


def _size_txn_offset_commit_response_v3(item: TxnOffsetCommitResponse) -> int:
    """Versions 3-5."""
    size = 6
    at = ""
    try:
        at = "topics"
        length = len(item.topics)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_txn_offset_commit_response_topic_v3_list(item.topics)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_txn_offset_commit_response_v6(
    buffer: bytes, position: int, end: int
) -> tuple[TxnOffsetCommitResponse, int]:
    """Version 6."""
    at = ""
    item = None
    try:
        item = _new(TxnOffsetCommitResponse)

        at = "throttle_time_ms:i topics:B"
        item.throttle_time_ms, length = _S_iB.unpack_from(buffer, position)
        position += 5

        at = "topics"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 18 <= end - position:
            raise bad_length(length, position, end, "elements of at least 18 bytes")
        topics: list[TxnOffsetCommitResponseTopic] = []
        item.topics = topics
        position = _decode_txn_offset_commit_response_topic_v6_list(buffer, position, end, length, topics)

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


def _encode_txn_offset_commit_response_v6(
    item: TxnOffsetCommitResponse, buffer: bytearray, position: int
) -> int:
    """Version 6."""
    at = ""
    try:
        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4

        at = "topics"
        length = len(item.topics)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_txn_offset_commit_response_topic_v6_list(item.topics, buffer, position)

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


def _size_txn_offset_commit_response_v6(item: TxnOffsetCommitResponse) -> int:
    """Version 6."""
    size = 6
    at = ""
    try:
        at = "topics"
        length = len(item.topics)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_txn_offset_commit_response_topic_v6_list(item.topics)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


#: The wire layout of each decoder; compiled decoders interpret it (see _decoders.py).
_LAYOUTS: Layouts = {
    "txn_offset_commit_response_partition_v0": (
        TxnOffsetCommitResponsePartition,
        list,
        "partition_index:int32 error_code:int16",
    ),
    "txn_offset_commit_response_partition_v3": (
        TxnOffsetCommitResponsePartition,
        list,
        "partition_index:int32 error_code:int16 tags",
    ),
    "txn_offset_commit_response_topic_v0": (
        TxnOffsetCommitResponseTopic,
        list,
        "name:string partitions:array(txn_offset_commit_response_partition_v0)",
    ),
    "txn_offset_commit_response_topic_v3": (
        TxnOffsetCommitResponseTopic,
        list,
        "name:compact_string partitions:compact_array(txn_offset_commit_response_partition_v3) tags",
    ),
    "txn_offset_commit_response_topic_v6": (
        TxnOffsetCommitResponseTopic,
        list,
        "topic_id:uuid partitions:compact_array(txn_offset_commit_response_partition_v3) tags",
    ),
    "txn_offset_commit_response_v0": (
        TxnOffsetCommitResponse,
        list,
        "throttle_time_ms:int32 topics:array(txn_offset_commit_response_topic_v0)",
    ),
    "txn_offset_commit_response_v3": (
        TxnOffsetCommitResponse,
        list,
        "throttle_time_ms:int32 topics:compact_array(txn_offset_commit_response_topic_v3) tags",
    ),
    "txn_offset_commit_response_v6": (
        TxnOffsetCommitResponse,
        list,
        "throttle_time_ms:int32 topics:compact_array(txn_offset_commit_response_topic_v6) tags",
    ),
}
_DECODE = decoders(
    {
        0: _decode_txn_offset_commit_response_v0,
        1: _decode_txn_offset_commit_response_v0,
        2: _decode_txn_offset_commit_response_v0,
        3: _decode_txn_offset_commit_response_v3,
        4: _decode_txn_offset_commit_response_v3,
        5: _decode_txn_offset_commit_response_v3,
        6: _decode_txn_offset_commit_response_v6,
    },
    _LAYOUTS,
)
_ENCODE = {
    0: _encode_txn_offset_commit_response_v0,
    1: _encode_txn_offset_commit_response_v0,
    2: _encode_txn_offset_commit_response_v0,
    3: _encode_txn_offset_commit_response_v3,
    4: _encode_txn_offset_commit_response_v3,
    5: _encode_txn_offset_commit_response_v3,
    6: _encode_txn_offset_commit_response_v6,
}
_SIZE = {
    0: _size_txn_offset_commit_response_v0,
    1: _size_txn_offset_commit_response_v0,
    2: _size_txn_offset_commit_response_v0,
    3: _size_txn_offset_commit_response_v3,
    4: _size_txn_offset_commit_response_v3,
    5: _size_txn_offset_commit_response_v3,
    6: _size_txn_offset_commit_response_v6,
}

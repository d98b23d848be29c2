# DO NOT EDIT: generated from specs/OffsetFetchResponse.json (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: 82799ca80d146b3e3c77873f737de7b9289301f5633e9b24eb5bbfdc64425ee5
"""OffsetFetchResponse: a response of API 9, versions 1-10, flexible 6-10."""

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
    "OffsetFetchResponse",
    "OffsetFetchResponseGroup",
    "OffsetFetchResponsePartition",
    "OffsetFetchResponsePartitions",
    "OffsetFetchResponseTopic",
    "OffsetFetchResponseTopics",
]

_S_16s = Struct(">16s")
_S_16sB = Struct(">16sB")
_S_h = Struct(">h")
_S_hB = Struct(">hB")
_S_i = Struct(">i")
_S_iB = Struct(">iB")
_S_ii = Struct(">ii")
_S_iq = Struct(">iq")
_S_iqh = Struct(">iqh")
_S_iqi = Struct(">iqi")
_S_iqiB = Struct(">iqiB")
_S_iqih = Struct(">iqih")
_new = object.__new__


class OffsetFetchResponsePartition(Plain):
    """Part of OffsetFetchResponse.

    Attributes:
        partition_index: Partition number. (int32, versions 0-7)
        committed_offset: The committed offset; -1 if there is none. (int64, versions 0-7)
        committed_leader_epoch: Leader epoch of the last record that was read; -1 if unknown. (int32, versions
            5-7; dropped if the version does not have it)
        metadata: The text that is stored with the offset. (string, versions 0-7; nullable in 0-7)
        error_code: The error code of the partition, or 0. (int16, versions 0-7)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    FIELDS: ClassVar[dict[str, Any]] = {
        "partition_index": 0,
        "committed_offset": 0,
        "committed_leader_epoch": -1,
        "metadata": "",
        "error_code": 0,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.partition_index: int = partition_index
        self.committed_offset: int = committed_offset
        self.committed_leader_epoch: int = committed_leader_epoch
        self.metadata: str | None = metadata
        self.error_code: int = error_code
        self.unknown_tagged_fields = unknown_tagged_fields


class OffsetFetchResponseTopic(Plain):
    """Part of OffsetFetchResponse.

    Attributes:
        name: Name of the topic. (string, versions 0-7; a topicName)
        partitions: The offsets, by partition. ([]OffsetFetchResponsePartition, versions 0-7)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "partitions": OffsetFetchResponsePartition,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "name": "",
        "partitions": list,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OffsetFetchResponsePartition] = NEW,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.name: str = name
        self.partitions: list[OffsetFetchResponsePartition] = [] if partitions is NEW else partitions
        self.unknown_tagged_fields = unknown_tagged_fields


class OffsetFetchResponsePartitions(Plain):
    """Part of OffsetFetchResponse.

    Attributes:
        partition_index: Partition number. (int32, versions 8+)
        committed_offset: The committed offset; -1 if there is none. (int64, versions 8+)
        committed_leader_epoch: Leader epoch of the last record that was read; -1 if unknown. (int32, versions
            8+; dropped if the version does not have it)
        metadata: The text that is stored with the offset. (string, versions 8+; nullable in 8+)
        error_code: The error code of the partition, or 0. (int16, versions 8+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    FIELDS: ClassVar[dict[str, Any]] = {
        "partition_index": 0,
        "committed_offset": 0,
        "committed_leader_epoch": -1,
        "metadata": "",
        "error_code": 0,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.partition_index: int = partition_index
        self.committed_offset: int = committed_offset
        self.committed_leader_epoch: int = committed_leader_epoch
        self.metadata: str | None = metadata
        self.error_code: int = error_code
        self.unknown_tagged_fields = unknown_tagged_fields


class OffsetFetchResponseTopics(Plain):
    """Part of OffsetFetchResponse.

    Attributes:
        name: Name of the topic. (string, versions 8-9; dropped if the version does not have it; a topicName)
        topic_id: Id of the topic. (uuid, versions 10+; dropped if the version does not have it)
        partitions: The offsets, by partition. ([]OffsetFetchResponsePartitions, versions 8+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "topic_id": UUID,
        "partitions": OffsetFetchResponsePartitions,
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
        partitions: list[OffsetFetchResponsePartitions] = NEW,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.name: str = name
        self.topic_id: UUID = topic_id
        self.partitions: list[OffsetFetchResponsePartitions] = [] if partitions is NEW else partitions
        self.unknown_tagged_fields = unknown_tagged_fields


class OffsetFetchResponseGroup(Plain):
    """Part of OffsetFetchResponse.

    Attributes:
        group_id: The consumer group. (string, versions 8+; a groupId)
        topics: The offsets, by topic. ([]OffsetFetchResponseTopics, versions 8+)
        error_code: The error code of the group, or 0. (int16, versions 8+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "topics": OffsetFetchResponseTopics,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "group_id": "",
        "topics": list,
        "error_code": 0,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[OffsetFetchResponseTopics] = NEW,
        error_code: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[OffsetFetchResponseTopics] = [] if topics is NEW else topics
        self.error_code: int = error_code
        self.unknown_tagged_fields = unknown_tagged_fields


class OffsetFetchResponse(Plain):
    """A response. Not thread-safe: plain data.

    Attributes:
        throttle_time_ms: Time for which the quota delays the client, in milliseconds. (int32, versions 3+;
            dropped if the version does not have it)
        topics: The offsets, by topic. ([]OffsetFetchResponseTopic, versions 0-7)
        error_code: The error code of the group, or 0. (int16, versions 2-7; dropped if the version does not
            have it)
        groups: The offsets, by group. ([]OffsetFetchResponseGroup, versions 8+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    API_KEY: ClassVar[int] = 9
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 10
    #: Versions with compact lengths and tagged fields.
    FLEXIBLE_VERSIONS: ClassVar[range] = range(6, 11)
    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "topics": OffsetFetchResponseTopic,
        "groups": OffsetFetchResponseGroup,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "throttle_time_ms": 0,
        "topics": list,
        "error_code": 0,
        "groups": list,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[OffsetFetchResponseTopic] = NEW,
        error_code: int = 0,
        groups: list[OffsetFetchResponseGroup] = NEW,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[OffsetFetchResponseTopic] = [] if topics is NEW else topics
        self.error_code: int = error_code
        self.groups: list[OffsetFetchResponseGroup] = [] if groups is NEW else groups
        self.unknown_tagged_fields = unknown_tagged_fields

    def size(self, version: int) -> int:
        """Exact size of the encoded message in bytes, referenced bytes included.

        Raises:
            EncodeError: the version does not exist, or a field is null that must not be.
        """
        try:
            size_of = _SIZE[version]
        except KeyError:
            raise no_such_version(EncodeError, "OffsetFetchResponse", version, 1, 10) from None
        try:
            return size_of(self)
        except EncodeError as error:
            raise error.of("OffsetFetchResponse", version) from None

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
            raise no_such_version(EncodeError, "OffsetFetchResponse", version, 1, 10) from None
        try:
            return encode(self, buffer, position)
        except EncodeError as error:
            raise error.of("OffsetFetchResponse", version) from None

    def encode(self, version: int) -> bytes:
        """The whole message as bytes. Raises EncodeError as ``encode_into`` does."""
        buffer = bytearray(self.size(version))
        self.encode_into(buffer, 0, version)
        return bytes(buffer)

    @classmethod
    def decode(
        cls, buffer: Buffer, version: int, position: int = 0
    ) -> tuple[OffsetFetchResponse, int]:
        """Read one message; return it and the position after it. Further bytes are ignored.

        Raises:
            DecodeError: the version does not exist, or the bytes are not a valid message.
        """
        try:
            decode = _DECODE[version]
        except KeyError:
            raise no_such_version(DecodeError, "OffsetFetchResponse", version, 1, 10) from None
        readable = buffer if type(buffer) is bytes else bytes(buffer)
        try:
            if not 0 <= position <= len(readable):
                raise DecodeError(f"position {position} is outside the buffer of {len(readable)} bytes")
            return decode(readable, position, len(readable))
        except DecodeError as error:
            raise error.of("OffsetFetchResponse", version) from None


def _decode_offset_fetch_response_partition_v1_list(
    buffer: bytes, position: int, end: int, count: int, items: list[OffsetFetchResponsePartition]
) -> int:
    """Versions 1-4."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(OffsetFetchResponsePartition, count)):
            item.committed_leader_epoch = -1
            item.unknown_tagged_fields = None

            at = "partition_index:i committed_offset:q metadata:h"
            item.partition_index, item.committed_offset, length = _S_iqh.unpack_from(buffer, position)
            position += 14

            at = "metadata"
            if length == -1:
                item.metadata = None
            else:
                stop = position + length
                if not position <= stop <= end:
                    raise bad_length(length, position, end, "bytes")
                item.metadata = str(buffer[position:stop], "utf-8")
                position = stop

            at = "error_code:h"
            (item.error_code,) = _S_h.unpack_from(buffer, position)
            position += 2
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_offset_fetch_response_partition_v1_list(
    items: list[OffsetFetchResponsePartition], buffer: bytearray, position: int
) -> int:
    """Versions 1-4."""
    at = ""
    item = None
    try:
        for item in items:
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "6-10")

            at = "partition_index:i committed_offset:q"
            _S_iq.pack_into(buffer, position, item.partition_index, item.committed_offset)
            position += 12

            at = "metadata"
            if item.metadata is None:
                _S_h.pack_into(buffer, position, -1)
                position += 2
            else:
                data = item.metadata.encode()
                length = len(data)
                if length > MAX_STRING_BYTES:
                    raise string_too_long(length)
                _S_h.pack_into(buffer, position, length)
                position += 2
                stop = position + length
                buffer[position:stop] = data
                position = stop

            at = "error_code:h"
            _S_h.pack_into(buffer, position, item.error_code)
            position += 2
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_offset_fetch_response_partition_v1_list(items: list[OffsetFetchResponsePartition]) -> int:
    """Versions 1-4."""
    size = 16 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "metadata"
            if item.metadata is not None:
                length = text_bytes(item.metadata)
                size += length
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_offset_fetch_response_partition_v5_list(
    buffer: bytes, position: int, end: int, count: int, items: list[OffsetFetchResponsePartition]
) -> int:
    """Version 5."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(OffsetFetchResponsePartition, count)):
            item.unknown_tagged_fields = None

            at = "partition_index:i committed_offset:q committed_leader_epoch:i metadata:h"
            (
                item.partition_index,
                item.committed_offset,
                item.committed_leader_epoch,
                length,
            ) = _S_iqih.unpack_from(buffer, position)
            position += 18

            at = "metadata"
            if length == -1:
                item.metadata = None
            else:
                stop = position + length
                if not position <= stop <= end:
                    raise bad_length(length, position, end, "bytes")
                item.metadata = str(buffer[position:stop], "utf-8")
                position = stop

            at = "error_code:h"
            (item.error_code,) = _S_h.unpack_from(buffer, position)
            position += 2
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_offset_fetch_response_partition_v5_list(
    items: list[OffsetFetchResponsePartition], buffer: bytearray, position: int
) -> int:
    """Version 5."""
    at = ""
    item = None
    try:
        for item in items:
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "6-10")

            at = "partition_index:i committed_offset:q committed_leader_epoch:i"
            _S_iqi.pack_into(
                buffer,
                position,
                item.partition_index,
                item.committed_offset,
                item.committed_leader_epoch,
            )
            position += 16

            at = "metadata"
            if item.metadata is None:
                _S_h.pack_into(buffer, position, -1)
                position += 2
            else:
                data = item.metadata.encode()
                length = len(data)
                if length > MAX_STRING_BYTES:
                    raise string_too_long(length)
                _S_h.pack_into(buffer, position, length)
                position += 2
                stop = position + length
                buffer[position:stop] = data
                position = stop

            at = "error_code:h"
            _S_h.pack_into(buffer, position, item.error_code)
            position += 2
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_offset_fetch_response_partition_v5_list(items: list[OffsetFetchResponsePartition]) -> int:
    """Version 5."""
    size = 20 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "metadata"
            if item.metadata is not None:
                length = text_bytes(item.metadata)
                size += length
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_offset_fetch_response_partition_v6_list(
    buffer: bytes, position: int, end: int, count: int, items: list[OffsetFetchResponsePartition]
) -> int:
    """Versions 6-7."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(OffsetFetchResponsePartition, count)):
            at = "partition_index:i committed_offset:q committed_leader_epoch:i metadata:B"
            (
                item.partition_index,
                item.committed_offset,
                item.committed_leader_epoch,
                length,
            ) = _S_iqiB.unpack_from(buffer, position)
            position += 17

            at = "metadata"
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if length == -1:
                item.metadata = None
            else:
                stop = position + length
                if stop > end or length > MAX_STRING_BYTES:
                    raise bad_length(length, position, end, "bytes")
                item.metadata = str(buffer[position:stop], "utf-8")
                position = stop

            at = "error_code:h tagged_fields:B"
            item.error_code, length = _S_hB.unpack_from(buffer, position)
            position += 3
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


def _encode_offset_fetch_response_partition_v6_list(
    items: list[OffsetFetchResponsePartition], buffer: bytearray, position: int
) -> int:
    """Versions 6-7."""
    at = ""
    item = None
    try:
        for item in items:
            at = "partition_index:i committed_offset:q committed_leader_epoch:i"
            _S_iqi.pack_into(
                buffer,
                position,
                item.partition_index,
                item.committed_offset,
                item.committed_leader_epoch,
            )
            position += 16

            at = "metadata"
            if item.metadata is None:
                buffer[position] = 0
                position += 1
            else:
                data = item.metadata.encode()
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

            at = "error_code:h"
            _S_h.pack_into(buffer, position, item.error_code)
            position += 2

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


def _size_offset_fetch_response_partition_v6_list(items: list[OffsetFetchResponsePartition]) -> int:
    """Versions 6-7."""
    size = 20 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "metadata"
            if item.metadata is not None:
                length = text_bytes(item.metadata)
                size += length
                if length > 126:
                    size += 1 if length < 16383 else uvarint_size(length + 1) - 1

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_offset_fetch_response_topic_v1_list(
    buffer: bytes, position: int, end: int, count: int, items: list[OffsetFetchResponseTopic]
) -> int:
    """Versions 1-4."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(OffsetFetchResponseTopic, count)):
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
            if not 0 <= length * 16 <= end - position:
                raise bad_length(length, position, end, "elements of at least 16 bytes")
            partitions: list[OffsetFetchResponsePartition] = []
            item.partitions = partitions
            position = _decode_offset_fetch_response_partition_v1_list(buffer, position, end, length, partitions)
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_offset_fetch_response_topic_v1_list(
    items: list[OffsetFetchResponseTopic], buffer: bytearray, position: int
) -> int:
    """Versions 1-4."""
    at = ""
    item = None
    try:
        for item in items:
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "6-10")

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
            position = _encode_offset_fetch_response_partition_v1_list(item.partitions, buffer, position)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_offset_fetch_response_topic_v1_list(items: list[OffsetFetchResponseTopic]) -> int:
    """Versions 1-4."""
    size = 6 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "name"
            length = text_bytes(item.name)
            size += length

            at = "partitions"
            size += _size_offset_fetch_response_partition_v1_list(item.partitions)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_offset_fetch_response_topic_v5_list(
    buffer: bytes, position: int, end: int, count: int, items: list[OffsetFetchResponseTopic]
) -> int:
    """Version 5."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(OffsetFetchResponseTopic, count)):
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
            if not 0 <= length * 20 <= end - position:
                raise bad_length(length, position, end, "elements of at least 20 bytes")
            partitions: list[OffsetFetchResponsePartition] = []
            item.partitions = partitions
            position = _decode_offset_fetch_response_partition_v5_list(buffer, position, end, length, partitions)
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_offset_fetch_response_topic_v5_list(
    items: list[OffsetFetchResponseTopic], buffer: bytearray, position: int
) -> int:
    """Version 5."""
    at = ""
    item = None
    try:
        for item in items:
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "6-10")

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
            position = _encode_offset_fetch_response_partition_v5_list(item.partitions, buffer, position)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_offset_fetch_response_topic_v5_list(items: list[OffsetFetchResponseTopic]) -> int:
    """Version 5."""
    size = 6 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "name"
            length = text_bytes(item.name)
            size += length

            at = "partitions"
            size += _size_offset_fetch_response_partition_v5_list(item.partitions)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_offset_fetch_response_topic_v6_list(
    buffer: bytes, position: int, end: int, count: int, items: list[OffsetFetchResponseTopic]
) -> int:
    """Versions 6-7."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(OffsetFetchResponseTopic, count)):
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
            if not 0 <= length * 20 <= end - position:
                raise bad_length(length, position, end, "elements of at least 20 bytes")
            partitions: list[OffsetFetchResponsePartition] = []
            item.partitions = partitions
            position = _decode_offset_fetch_response_partition_v6_list(buffer, position, end, length, partitions)

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


def _encode_offset_fetch_response_topic_v6_list(
    items: list[OffsetFetchResponseTopic], buffer: bytearray, position: int
) -> int:
    """Versions 6-7."""
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
            position = _encode_offset_fetch_response_partition_v6_list(item.partitions, buffer, position)

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


def _size_offset_fetch_response_topic_v6_list(items: list[OffsetFetchResponseTopic]) -> int:
    """Versions 6-7."""
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
            size += _size_offset_fetch_response_partition_v6_list(item.partitions)

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_offset_fetch_response_partitions_v8_list(
    buffer: bytes, position: int, end: int, count: int, items: list[OffsetFetchResponsePartitions]
) -> int:
    """Versions 8-10."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(OffsetFetchResponsePartitions, count)):
            at = "partition_index:i committed_offset:q committed_leader_epoch:i metadata:B"
            (
                item.partition_index,
                item.committed_offset,
                item.committed_leader_epoch,
                length,
            ) = _S_iqiB.unpack_from(buffer, position)
            position += 17

            at = "metadata"
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if length == -1:
                item.metadata = None
            else:
                stop = position + length
                if stop > end or length > MAX_STRING_BYTES:
                    raise bad_length(length, position, end, "bytes")
                item.metadata = str(buffer[position:stop], "utf-8")
                position = stop

            at = "error_code:h tagged_fields:B"
            item.error_code, length = _S_hB.unpack_from(buffer, position)
            position += 3
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


def _encode_offset_fetch_response_partitions_v8_list(
    items: list[OffsetFetchResponsePartitions], buffer: bytearray, position: int
) -> int:
    """Versions 8-10."""
    at = ""
    item = None
    try:
        for item in items:
            at = "partition_index:i committed_offset:q committed_leader_epoch:i"
            _S_iqi.pack_into(
                buffer,
                position,
                item.partition_index,
                item.committed_offset,
                item.committed_leader_epoch,
            )
            position += 16

            at = "metadata"
            if item.metadata is None:
                buffer[position] = 0
                position += 1
            else:
                data = item.metadata.encode()
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

            at = "error_code:h"
            _S_h.pack_into(buffer, position, item.error_code)
            position += 2

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


def _size_offset_fetch_response_partitions_v8_list(items: list[OffsetFetchResponsePartitions]) -> int:
    """Versions 8-10."""
    size = 20 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "metadata"
            if item.metadata is not None:
                length = text_bytes(item.metadata)
                size += length
                if length > 126:
                    size += 1 if length < 16383 else uvarint_size(length + 1) - 1

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_offset_fetch_response_topics_v8_list(
    buffer: bytes, position: int, end: int, count: int, items: list[OffsetFetchResponseTopics]
) -> int:
    """Versions 8-9."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(OffsetFetchResponseTopics, count)):
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
            if not 0 <= length * 20 <= end - position:
                raise bad_length(length, position, end, "elements of at least 20 bytes")
            partitions: list[OffsetFetchResponsePartitions] = []
            item.partitions = partitions
            position = _decode_offset_fetch_response_partitions_v8_list(buffer, position, end, length, partitions)

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


def _encode_offset_fetch_response_topics_v8_list(
    items: list[OffsetFetchResponseTopics], buffer: bytearray, position: int
) -> int:
    """Versions 8-9."""
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
            position = _encode_offset_fetch_response_partitions_v8_list(item.partitions, buffer, position)

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


def _size_offset_fetch_response_topics_v8_list(items: list[OffsetFetchResponseTopics]) -> int:
    """Versions 8-9."""
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
            size += _size_offset_fetch_response_partitions_v8_list(item.partitions)

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_offset_fetch_response_topics_v10_list(
    buffer: bytes, position: int, end: int, count: int, items: list[OffsetFetchResponseTopics]
) -> int:
    """Version 10."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(OffsetFetchResponseTopics, count)):
            item.name = ""

            at = "topic_id:16s partitions:B"
            topic_id, length = _S_16sB.unpack_from(buffer, position)
            position += 17
            item.topic_id = ZERO_UUID if topic_id == ZERO_UUID_BYTES else UUID(bytes=topic_id)

            at = "partitions"
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if not 0 <= length * 20 <= end - position:
                raise bad_length(length, position, end, "elements of at least 20 bytes")
            partitions: list[OffsetFetchResponsePartitions] = []
            item.partitions = partitions
            position = _decode_offset_fetch_response_partitions_v8_list(buffer, position, end, length, partitions)

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


def _encode_offset_fetch_response_topics_v10_list(
    items: list[OffsetFetchResponseTopics], buffer: bytearray, position: int
) -> int:
    """Version 10."""
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
            position = _encode_offset_fetch_response_partitions_v8_list(item.partitions, buffer, position)

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


def _size_offset_fetch_response_topics_v10_list(items: list[OffsetFetchResponseTopics]) -> int:
    """Version 10."""
    size = 18 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "partitions"
            length = len(item.partitions)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_offset_fetch_response_partitions_v8_list(item.partitions)

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_offset_fetch_response_group_v8_list(
    buffer: bytes, position: int, end: int, count: int, items: list[OffsetFetchResponseGroup]
) -> int:
    """Versions 8-9."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(OffsetFetchResponseGroup, count)):
            at = "group_id"
            length = buffer[position]
            position += 1
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            stop = position + length
            if not position <= stop <= end or length > MAX_STRING_BYTES:
                raise bad_length(length, position, end, "bytes")
            item.group_id = str(buffer[position:stop], "utf-8")
            position = stop

            at = "topics"
            length = buffer[position]
            position += 1
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if not 0 <= length * 3 <= end - position:
                raise bad_length(length, position, end, "elements of at least 3 bytes")
            topics: list[OffsetFetchResponseTopics] = []
            item.topics = topics
            position = _decode_offset_fetch_response_topics_v8_list(buffer, position, end, length, topics)

            at = "error_code:h tagged_fields:B"
            item.error_code, length = _S_hB.unpack_from(buffer, position)
            position += 3
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


def _encode_offset_fetch_response_group_v8_list(
    items: list[OffsetFetchResponseGroup], buffer: bytearray, position: int
) -> int:
    """Versions 8-9."""
    at = ""
    item = None
    try:
        for item in items:
            at = "group_id"
            data = item.group_id.encode()
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

            at = "topics"
            length = len(item.topics)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            position = _encode_offset_fetch_response_topics_v8_list(item.topics, buffer, position)

            at = "error_code:h"
            _S_h.pack_into(buffer, position, item.error_code)
            position += 2

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


def _size_offset_fetch_response_group_v8_list(items: list[OffsetFetchResponseGroup]) -> int:
    """Versions 8-9."""
    size = 5 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "group_id"
            length = text_bytes(item.group_id)
            size += length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1

            at = "topics"
            length = len(item.topics)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_offset_fetch_response_topics_v8_list(item.topics)

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_offset_fetch_response_group_v10_list(
    buffer: bytes, position: int, end: int, count: int, items: list[OffsetFetchResponseGroup]
) -> int:
    """Version 10."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(OffsetFetchResponseGroup, count)):
            at = "group_id"
            length = buffer[position]
            position += 1
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            stop = position + length
            if not position <= stop <= end or length > MAX_STRING_BYTES:
                raise bad_length(length, position, end, "bytes")
            item.group_id = str(buffer[position:stop], "utf-8")
            position = stop

            at = "topics"
            length = buffer[position]
            position += 1
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if not 0 <= length * 18 <= end - position:
                raise bad_length(length, position, end, "elements of at least 18 bytes")
            topics: list[OffsetFetchResponseTopics] = []
            item.topics = topics
            position = _decode_offset_fetch_response_topics_v10_list(buffer, position, end, length, topics)

            at = "error_code:h tagged_fields:B"
            item.error_code, length = _S_hB.unpack_from(buffer, position)
            position += 3
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


def _encode_offset_fetch_response_group_v10_list(
    items: list[OffsetFetchResponseGroup], buffer: bytearray, position: int
) -> int:
    """Version 10."""
    at = ""
    item = None
    try:
        for item in items:
            at = "group_id"
            data = item.group_id.encode()
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

            at = "topics"
            length = len(item.topics)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            position = _encode_offset_fetch_response_topics_v10_list(item.topics, buffer, position)

            at = "error_code:h"
            _S_h.pack_into(buffer, position, item.error_code)
            position += 2

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


def _size_offset_fetch_response_group_v10_list(items: list[OffsetFetchResponseGroup]) -> int:
    """Version 10."""
    size = 5 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "group_id"
            length = text_bytes(item.group_id)
            size += length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1

            at = "topics"
            length = len(item.topics)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_offset_fetch_response_topics_v10_list(item.topics)

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_offset_fetch_response_v1(
    buffer: bytes, position: int, end: int
) -> tuple[OffsetFetchResponse, int]:
    """Version 1."""
    at = ""
    item = None
    try:
        item = _new(OffsetFetchResponse)
        item.throttle_time_ms = 0
        item.error_code = 0
        item.groups = []
        item.unknown_tagged_fields = None

        at = "topics"
        (length,) = _S_i.unpack_from(buffer, position)
        position += 4
        if not 0 <= length * 6 <= end - position:
            raise bad_length(length, position, end, "elements of at least 6 bytes")
        topics: list[OffsetFetchResponseTopic] = []
        item.topics = topics
        position = _decode_offset_fetch_response_topic_v1_list(buffer, position, end, length, topics)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_offset_fetch_response_v1(item: OffsetFetchResponse, buffer: bytearray, position: int) -> int:
    """Version 1."""
    at = ""
    try:
        if (item.groups is None or len(item.groups) > 0):
            at = "groups"
            raise not_in_version(item.groups, "8-10")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "6-10")

        at = "topics"
        length = len(item.topics)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_offset_fetch_response_topic_v1_list(item.topics, buffer, position)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_offset_fetch_response_v1(item: OffsetFetchResponse) -> int:
    """Version 1."""
    size = 4
    at = ""
    try:
        at = "topics"
        size += _size_offset_fetch_response_topic_v1_list(item.topics)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_offset_fetch_response_v2(
    buffer: bytes, position: int, end: int
) -> tuple[OffsetFetchResponse, int]:
    """Version 2."""
    at = ""
    item = None
    try:
        item = _new(OffsetFetchResponse)
        item.throttle_time_ms = 0
        item.groups = []
        item.unknown_tagged_fields = None

        at = "topics"
        (length,) = _S_i.unpack_from(buffer, position)
        position += 4
        if not 0 <= length * 6 <= end - position:
            raise bad_length(length, position, end, "elements of at least 6 bytes")
        topics: list[OffsetFetchResponseTopic] = []
        item.topics = topics
        position = _decode_offset_fetch_response_topic_v1_list(buffer, position, end, length, topics)

        at = "error_code:h"
        (item.error_code,) = _S_h.unpack_from(buffer, position)
        position += 2
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_offset_fetch_response_v2(item: OffsetFetchResponse, buffer: bytearray, position: int) -> int:
    """Version 2."""
    at = ""
    try:
        if (item.groups is None or len(item.groups) > 0):
            at = "groups"
            raise not_in_version(item.groups, "8-10")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "6-10")

        at = "topics"
        length = len(item.topics)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_offset_fetch_response_topic_v1_list(item.topics, buffer, position)

        at = "error_code:h"
        _S_h.pack_into(buffer, position, item.error_code)
        position += 2
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_offset_fetch_response_v2(item: OffsetFetchResponse) -> int:
    """Version 2."""
    size = 6
    at = ""
    try:
        at = "topics"
        size += _size_offset_fetch_response_topic_v1_list(item.topics)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_offset_fetch_response_v3(
    buffer: bytes, position: int, end: int
) -> tuple[OffsetFetchResponse, int]:
    """Versions 3-4."""
    at = ""
    item = None
    try:
        item = _new(OffsetFetchResponse)
        item.groups = []
        item.unknown_tagged_fields = None

        at = "throttle_time_ms:i topics:i"
        item.throttle_time_ms, length = _S_ii.unpack_from(buffer, position)
        position += 8

        at = "topics"
        if not 0 <= length * 6 <= end - position:
            raise bad_length(length, position, end, "elements of at least 6 bytes")
        topics: list[OffsetFetchResponseTopic] = []
        item.topics = topics
        position = _decode_offset_fetch_response_topic_v1_list(buffer, position, end, length, topics)

        at = "error_code:h"
        (item.error_code,) = _S_h.unpack_from(buffer, position)
        position += 2
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_offset_fetch_response_v3(item: OffsetFetchResponse, buffer: bytearray, position: int) -> int:
    """Versions 3-4."""
    at = ""
    try:
        if (item.groups is None or len(item.groups) > 0):
            at = "groups"
            raise not_in_version(item.groups, "8-10")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "6-10")

        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4

        at = "topics"
        length = len(item.topics)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_offset_fetch_response_topic_v1_list(item.topics, buffer, position)

        at = "error_code:h"
        _S_h.pack_into(buffer, position, item.error_code)
        position += 2
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_offset_fetch_response_v3(item: OffsetFetchResponse) -> int:
    """Versions 3-4."""
    size = 10
    at = ""
    try:
        at = "topics"
        size += _size_offset_fetch_response_topic_v1_list(item.topics)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_offset_fetch_response_v5(
    buffer: bytes, position: int, end: int
) -> tuple[OffsetFetchResponse, int]:
    """Version 5."""
    at = ""
    item = None
    try:
        item = _new(OffsetFetchResponse)
        item.groups = []
        item.unknown_tagged_fields = None

        at = "throttle_time_ms:i topics:i"
        item.throttle_time_ms, length = _S_ii.unpack_from(buffer, position)
        position += 8

        at = "topics"
        if not 0 <= length * 6 <= end - position:
            raise bad_length(length, position, end, "elements of at least 6 bytes")
        topics: list[OffsetFetchResponseTopic] = []
        item.topics = topics
        position = _decode_offset_fetch_response_topic_v5_list(buffer, position, end, length, topics)

        at = "error_code:h"
        (item.error_code,) = _S_h.unpack_from(buffer, position)
        position += 2
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_offset_fetch_response_v5(item: OffsetFetchResponse, buffer: bytearray, position: int) -> int:
    """Version 5."""
    at = ""
    try:
        if (item.groups is None or len(item.groups) > 0):
            at = "groups"
            raise not_in_version(item.groups, "8-10")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "6-10")

        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4

        at = "topics"
        length = len(item.topics)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_offset_fetch_response_topic_v5_list(item.topics, buffer, position)

        at = "error_code:h"
        _S_h.pack_into(buffer, position, item.error_code)
        position += 2
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_offset_fetch_response_v5(item: OffsetFetchResponse) -> int:
    """Version 5."""
    size = 10
    at = ""
    try:
        at = "topics"
        size += _size_offset_fetch_response_topic_v5_list(item.topics)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_offset_fetch_response_v6(
    buffer: bytes, position: int, end: int
) -> tuple[OffsetFetchResponse, int]:
    """Versions 6-7."""
    at = ""
    item = None
    try:
        item = _new(OffsetFetchResponse)
        item.groups = []

        at = "throttle_time_ms:i topics:B"
        item.throttle_time_ms, length = _S_iB.unpack_from(buffer, position)
        position += 5

        at = "topics"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 3 <= end - position:
            raise bad_length(length, position, end, "elements of at least 3 bytes")
        topics: list[OffsetFetchResponseTopic] = []
        item.topics = topics
        position = _decode_offset_fetch_response_topic_v6_list(buffer, position, end, length, topics)

        at = "error_code:h tagged_fields:B"
        item.error_code, length = _S_hB.unpack_from(buffer, position)
        position += 3
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


def _encode_offset_fetch_response_v6(item: OffsetFetchResponse, buffer: bytearray, position: int) -> int:
    """Versions 6-7."""
    at = ""
    try:
        if (item.groups is None or len(item.groups) > 0):
            at = "groups"
            raise not_in_version(item.groups, "8-10")

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
        position = _encode_offset_fetch_response_topic_v6_list(item.topics, buffer, position)

        at = "error_code:h"
        _S_h.pack_into(buffer, position, item.error_code)
        position += 2

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


def _size_offset_fetch_response_v6(item: OffsetFetchResponse) -> int:
    """Versions 6-7."""
    size = 8
    at = ""
    try:
        at = "topics"
        length = len(item.topics)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_offset_fetch_response_topic_v6_list(item.topics)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_offset_fetch_response_v8(
    buffer: bytes, position: int, end: int
) -> tuple[OffsetFetchResponse, int]:
    """Versions 8-9."""
    at = ""
    item = None
    try:
        item = _new(OffsetFetchResponse)
        item.topics = []
        item.error_code = 0

        at = "throttle_time_ms:i groups:B"
        item.throttle_time_ms, length = _S_iB.unpack_from(buffer, position)
        position += 5

        at = "groups"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 5 <= end - position:
            raise bad_length(length, position, end, "elements of at least 5 bytes")
        groups: list[OffsetFetchResponseGroup] = []
        item.groups = groups
        position = _decode_offset_fetch_response_group_v8_list(buffer, position, end, length, groups)

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


def _encode_offset_fetch_response_v8(item: OffsetFetchResponse, buffer: bytearray, position: int) -> int:
    """Versions 8-9."""
    at = ""
    try:
        if (item.topics is None or len(item.topics) > 0):
            at = "topics"
            raise not_in_version(item.topics, "1-7")

        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4

        at = "groups"
        length = len(item.groups)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_offset_fetch_response_group_v8_list(item.groups, buffer, position)

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


def _size_offset_fetch_response_v8(item: OffsetFetchResponse) -> int:
    """Versions 8-9."""
    size = 6
    at = ""
    try:
        at = "groups"
        length = len(item.groups)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_offset_fetch_response_group_v8_list(item.groups)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_offset_fetch_response_v10(
    buffer: bytes, position: int, end: int
) -> tuple[OffsetFetchResponse, int]:
    """Version 10."""
    at = ""
    item = None
    try:
        item = _new(OffsetFetchResponse)
        item.topics = []
        item.error_code = 0

        at = "throttle_time_ms:i groups:B"
        item.throttle_time_ms, length = _S_iB.unpack_from(buffer, position)
        position += 5

        at = "groups"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 5 <= end - position:
            raise bad_length(length, position, end, "elements of at least 5 bytes")
        groups: list[OffsetFetchResponseGroup] = []
        item.groups = groups
        position = _decode_offset_fetch_response_group_v10_list(buffer, position, end, length, groups)

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


def _encode_offset_fetch_response_v10(item: OffsetFetchResponse, buffer: bytearray, position: int) -> int:
    """Version 10."""
    at = ""
    try:
        if (item.topics is None or len(item.topics) > 0):
            at = "topics"
            raise not_in_version(item.topics, "1-7")

        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4

        at = "groups"
        length = len(item.groups)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_offset_fetch_response_group_v10_list(item.groups, buffer, position)

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


def _size_offset_fetch_response_v10(item: OffsetFetchResponse) -> int:
    """Version 10."""
    size = 6
    at = ""
    try:
        at = "groups"
        length = len(item.groups)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_offset_fetch_response_group_v10_list(item.groups)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


#: The wire layout of each decoder; compiled decoders interpret it (see _decoders.py).
_LAYOUTS: Layouts = {
    "offset_fetch_response_partition_v1": (
        OffsetFetchResponsePartition,
        list,
        "partition_index:int32 committed_offset:int64 metadata:nullable_string error_code:int16",
    ),
    "offset_fetch_response_partition_v5": (
        OffsetFetchResponsePartition,
        list,
        "partition_index:int32 committed_offset:int64 committed_leader_epoch:int32 metadata:nullable_string "
        "error_code:int16",
    ),
    "offset_fetch_response_partition_v6": (
        OffsetFetchResponsePartition,
        list,
        "partition_index:int32 committed_offset:int64 committed_leader_epoch:int32 "
        "metadata:compact_nullable_string error_code:int16 tags",
    ),
    "offset_fetch_response_topic_v1": (
        OffsetFetchResponseTopic,
        list,
        "name:string partitions:array(offset_fetch_response_partition_v1)",
    ),
    "offset_fetch_response_topic_v5": (
        OffsetFetchResponseTopic,
        list,
        "name:string partitions:array(offset_fetch_response_partition_v5)",
    ),
    "offset_fetch_response_topic_v6": (
        OffsetFetchResponseTopic,
        list,
        "name:compact_string partitions:compact_array(offset_fetch_response_partition_v6) tags",
    ),
    "offset_fetch_response_partitions_v8": (
        OffsetFetchResponsePartitions,
        list,
        "partition_index:int32 committed_offset:int64 committed_leader_epoch:int32 "
        "metadata:compact_nullable_string error_code:int16 tags",
    ),
    "offset_fetch_response_topics_v8": (
        OffsetFetchResponseTopics,
        list,
        "name:compact_string partitions:compact_array(offset_fetch_response_partitions_v8) tags",
    ),
    "offset_fetch_response_topics_v10": (
        OffsetFetchResponseTopics,
        list,
        "topic_id:uuid partitions:compact_array(offset_fetch_response_partitions_v8) tags",
    ),
    "offset_fetch_response_group_v8": (
        OffsetFetchResponseGroup,
        list,
        "group_id:compact_string topics:compact_array(offset_fetch_response_topics_v8) error_code:int16 "
        "tags",
    ),
    "offset_fetch_response_group_v10": (
        OffsetFetchResponseGroup,
        list,
        "group_id:compact_string topics:compact_array(offset_fetch_response_topics_v10) error_code:int16 "
        "tags",
    ),
    "offset_fetch_response_v1": (OffsetFetchResponse, list, "topics:array(offset_fetch_response_topic_v1)"),
    "offset_fetch_response_v2": (
        OffsetFetchResponse,
        list,
        "topics:array(offset_fetch_response_topic_v1) error_code:int16",
    ),
    "offset_fetch_response_v3": (
        OffsetFetchResponse,
        list,
        "throttle_time_ms:int32 topics:array(offset_fetch_response_topic_v1) error_code:int16",
    ),
    "offset_fetch_response_v5": (
        OffsetFetchResponse,
        list,
        "throttle_time_ms:int32 topics:array(offset_fetch_response_topic_v5) error_code:int16",
    ),
    "offset_fetch_response_v6": (
        OffsetFetchResponse,
        list,
        "throttle_time_ms:int32 topics:compact_array(offset_fetch_response_topic_v6) error_code:int16 tags",
    ),
    "offset_fetch_response_v8": (
        OffsetFetchResponse,
        list,
        "throttle_time_ms:int32 groups:compact_array(offset_fetch_response_group_v8) tags",
    ),
    "offset_fetch_response_v10": (
        OffsetFetchResponse,
        list,
        "throttle_time_ms:int32 groups:compact_array(offset_fetch_response_group_v10) tags",
    ),
}
_DECODE = decoders(
    {
        1: _decode_offset_fetch_response_v1,
        2: _decode_offset_fetch_response_v2,
        3: _decode_offset_fetch_response_v3,
        4: _decode_offset_fetch_response_v3,
        5: _decode_offset_fetch_response_v5,
        6: _decode_offset_fetch_response_v6,
        7: _decode_offset_fetch_response_v6,
        8: _decode_offset_fetch_response_v8,
        9: _decode_offset_fetch_response_v8,
        10: _decode_offset_fetch_response_v10,
    },
    _LAYOUTS,
)
_ENCODE = {
    1: _encode_offset_fetch_response_v1,
    2: _encode_offset_fetch_response_v2,
    3: _encode_offset_fetch_response_v3,
    4: _encode_offset_fetch_response_v3,
    5: _encode_offset_fetch_response_v5,
    6: _encode_offset_fetch_response_v6,
    7: _encode_offset_fetch_response_v6,
    8: _encode_offset_fetch_response_v8,
    9: _encode_offset_fetch_response_v8,
    10: _encode_offset_fetch_response_v10,
}
_SIZE = {
    1: _size_offset_fetch_response_v1,
    2: _size_offset_fetch_response_v2,
    3: _size_offset_fetch_response_v3,
    4: _size_offset_fetch_response_v3,
    5: _size_offset_fetch_response_v5,
    6: _size_offset_fetch_response_v6,
    7: _size_offset_fetch_response_v6,
    8: _size_offset_fetch_response_v8,
    9: _size_offset_fetch_response_v8,
    10: _size_offset_fetch_response_v10,
}

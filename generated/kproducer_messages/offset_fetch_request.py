# DO NOT EDIT: generated from specs/OffsetFetchRequest.json (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: d97ac2fbe5a0f3e2edb9bfe4128c45bbaf98b8d7cfe4b4385a4b4ec9ea0ec3df
"""OffsetFetchRequest: a request of API 9, versions 1-10, flexible 6-10."""

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
    INT32S,
    INT32_READERS,
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
    null_value,
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
    "OffsetFetchRequest",
    "OffsetFetchRequestGroup",
    "OffsetFetchRequestTopic",
    "OffsetFetchRequestTopics",
]

_S_16s = Struct(">16s")
_S_16sB = Struct(">16sB")
_S_tB = Struct(">?B")
_S_b = Struct(">b")
_S_bB = Struct(">bB")
_S_h = Struct(">h")
_S_i = Struct(">i")
_S_iB = Struct(">iB")
_new = object.__new__


class OffsetFetchRequestTopic(Plain):
    """Part of OffsetFetchRequest.

    Attributes:
        name: Name of the topic. (string, versions 0-7; a topicName)
        partition_indexes: Partition numbers. ([]int32, versions 0-7)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    FIELDS: ClassVar[dict[str, Any]] = {
        "name": "",
        "partition_indexes": list,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: list[int] = NEW,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.name: str = name
        self.partition_indexes: list[int] = [] if partition_indexes is NEW else partition_indexes
        self.unknown_tagged_fields = unknown_tagged_fields


class OffsetFetchRequestTopics(Plain):
    """Part of OffsetFetchRequest.

    Attributes:
        name: Name of the topic. (string, versions 8-9; dropped if the version does not have it; a topicName)
        topic_id: Id of the topic. (uuid, versions 10+; dropped if the version does not have it)
        partition_indexes: Partition numbers. ([]int32, versions 8+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "topic_id": UUID,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "name": "",
        "topic_id": ZERO_UUID,
        "partition_indexes": list,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: UUID = ZERO_UUID,
        partition_indexes: list[int] = NEW,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.name: str = name
        self.topic_id: UUID = topic_id
        self.partition_indexes: list[int] = [] if partition_indexes is NEW else partition_indexes
        self.unknown_tagged_fields = unknown_tagged_fields


class OffsetFetchRequestGroup(Plain):
    """Part of OffsetFetchRequest.

    Attributes:
        group_id: The consumer group. (string, versions 8+; a groupId)
        member_id: The member id, with the newer group protocol; null if there is none. (string, versions 9+;
            nullable in 9+; dropped if the version does not have it)
        member_epoch: The member epoch; -1 if there is none. (int32, versions 9+; dropped if the version does
            not have it)
        topics: The topics to return offsets of; null for all with offsets. ([]OffsetFetchRequestTopics,
            versions 8+; nullable in 8+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "topics": OffsetFetchRequestTopics,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "group_id": "",
        "member_id": None,
        "member_epoch": -1,
        "topics": list,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str | None = None,
        member_epoch: int = -1,
        topics: list[OffsetFetchRequestTopics] | None = NEW,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.member_id: str | None = member_id
        self.member_epoch: int = member_epoch
        self.topics: list[OffsetFetchRequestTopics] | None = [] if topics is NEW else topics
        self.unknown_tagged_fields = unknown_tagged_fields


class OffsetFetchRequest(Plain):
    """A request. Not thread-safe: plain data.

    Attributes:
        group_id: The consumer group. (string, versions 0-7; a groupId)
        topics: The topics to return offsets of; null for all with offsets. ([]OffsetFetchRequestTopic,
            versions 0-7; nullable in 2-7)
        groups: The groups to return offsets of. ([]OffsetFetchRequestGroup, versions 8+)
        require_stable: Whether to return UNSTABLE_OFFSET_COMMIT if an open transaction may still change the
            offset. (bool, versions 7+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    API_KEY: ClassVar[int] = 9
    MIN_VERSION: ClassVar[int] = 1
    MAX_VERSION: ClassVar[int] = 10
    #: Versions with compact lengths and tagged fields.
    FLEXIBLE_VERSIONS: ClassVar[range] = range(6, 11)
    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "topics": OffsetFetchRequestTopic,
        "groups": OffsetFetchRequestGroup,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "group_id": "",
        "topics": list,
        "groups": list,
        "require_stable": False,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[OffsetFetchRequestTopic] | None = NEW,
        groups: list[OffsetFetchRequestGroup] = NEW,
        require_stable: bool = False,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[OffsetFetchRequestTopic] | None = [] if topics is NEW else topics
        self.groups: list[OffsetFetchRequestGroup] = [] if groups is NEW else groups
        self.require_stable: bool = require_stable
        self.unknown_tagged_fields = unknown_tagged_fields

    def size(self, version: int) -> int:
        """Exact size of the encoded message in bytes, referenced bytes included.

        Raises:
            EncodeError: the version does not exist, or a field is null that must not be.
        """
        try:
            size_of = _SIZE[version]
        except KeyError:
            raise no_such_version(EncodeError, "OffsetFetchRequest", version, 1, 10) from None
        try:
            return size_of(self)
        except EncodeError as error:
            raise error.of("OffsetFetchRequest", version) from None

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
            raise no_such_version(EncodeError, "OffsetFetchRequest", version, 1, 10) from None
        try:
            return encode(self, buffer, position)
        except EncodeError as error:
            raise error.of("OffsetFetchRequest", version) from None

    def encode(self, version: int) -> bytes:
        """The whole message as bytes. Raises EncodeError as ``encode_into`` does."""
        buffer = bytearray(self.size(version))
        self.encode_into(buffer, 0, version)
        return bytes(buffer)

    @classmethod
    def decode(
        cls, buffer: Buffer, version: int, position: int = 0
    ) -> tuple[OffsetFetchRequest, int]:
        """Read one message; return it and the position after it. Further bytes are ignored.

        Raises:
            DecodeError: the version does not exist, or the bytes are not a valid message.
        """
        try:
            decode = _DECODE[version]
        except KeyError:
            raise no_such_version(DecodeError, "OffsetFetchRequest", version, 1, 10) from None
        readable = buffer if type(buffer) is bytes else bytes(buffer)
        try:
            if not 0 <= position <= len(readable):
                raise DecodeError(f"position {position} is outside the buffer of {len(readable)} bytes")
            return decode(readable, position, len(readable))
        except DecodeError as error:
            raise error.of("OffsetFetchRequest", version) from None


def _decode_offset_fetch_request_topic_v1_list(
    buffer: bytes, position: int, end: int, count: int, items: list[OffsetFetchRequestTopic]
) -> int:
    """Versions 1-5."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(OffsetFetchRequestTopic, count)):
            item.unknown_tagged_fields = None

            at = "name"
            (length,) = _S_h.unpack_from(buffer, position)
            position += 2
            stop = position + length
            if not position <= stop <= end:
                raise bad_length(length, position, end, "bytes")
            item.name = str(buffer[position:stop], "utf-8")
            position = stop

            at = "partition_indexes"
            (length,) = _S_i.unpack_from(buffer, position)
            position += 4
            if length == 0:
                item.partition_indexes = []
            elif 0 < length < 128:
                item.partition_indexes = [*INT32_READERS[length](buffer, position)]
                position += 4 * length
            else:
                item.partition_indexes, position = read_numbers(buffer, position, length, end, "i")
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_offset_fetch_request_topic_v1_list(
    items: list[OffsetFetchRequestTopic], buffer: bytearray, position: int
) -> int:
    """Versions 1-5."""
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

            at = "partition_indexes:[i]"
            partition_indexes = item.partition_indexes
            length = len(partition_indexes)
            _S_i.pack_into(buffer, position, length)
            position += 4
            INT32S[length].pack_into(buffer, position, *partition_indexes)
            position += 4 * length
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_offset_fetch_request_topic_v1_list(items: list[OffsetFetchRequestTopic]) -> int:
    """Versions 1-5."""
    size = 6 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "name"
            length = text_bytes(item.name)
            size += length

            at = "partition_indexes"
            length = len(item.partition_indexes)
            size += 4 * length
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_offset_fetch_request_topic_v6_list(
    buffer: bytes, position: int, end: int, count: int, items: list[OffsetFetchRequestTopic]
) -> int:
    """Versions 6-7."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(OffsetFetchRequestTopic, count)):
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

            at = "partition_indexes"
            length = buffer[position]
            position += 1
            if length == 1:
                item.partition_indexes = []
            elif 1 < length < 128:
                length -= 1
                item.partition_indexes = [*INT32_READERS[length](buffer, position)]
                position += 4 * length
            else:
                length, position = read_long_length(buffer, position, length)
                item.partition_indexes, position = read_numbers(buffer, position, length, end, "i")

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


def _encode_offset_fetch_request_topic_v6_list(
    items: list[OffsetFetchRequestTopic], buffer: bytearray, position: int
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

            at = "partition_indexes:[i]"
            partition_indexes = item.partition_indexes
            length = len(partition_indexes)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            INT32S[length].pack_into(buffer, position, *partition_indexes)
            position += 4 * length

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


def _size_offset_fetch_request_topic_v6_list(items: list[OffsetFetchRequestTopic]) -> int:
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

            at = "partition_indexes"
            length = len(item.partition_indexes)
            size += 4 * length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_offset_fetch_request_topics_v8_list(
    buffer: bytes, position: int, end: int, count: int, items: list[OffsetFetchRequestTopics]
) -> int:
    """Versions 8-9."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(OffsetFetchRequestTopics, count)):
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

            at = "partition_indexes"
            length = buffer[position]
            position += 1
            if length == 1:
                item.partition_indexes = []
            elif 1 < length < 128:
                length -= 1
                item.partition_indexes = [*INT32_READERS[length](buffer, position)]
                position += 4 * length
            else:
                length, position = read_long_length(buffer, position, length)
                item.partition_indexes, position = read_numbers(buffer, position, length, end, "i")

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


def _encode_offset_fetch_request_topics_v8_list(
    items: list[OffsetFetchRequestTopics], buffer: bytearray, position: int
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

            at = "partition_indexes:[i]"
            partition_indexes = item.partition_indexes
            length = len(partition_indexes)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            INT32S[length].pack_into(buffer, position, *partition_indexes)
            position += 4 * length

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


def _size_offset_fetch_request_topics_v8_list(items: list[OffsetFetchRequestTopics]) -> int:
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

            at = "partition_indexes"
            length = len(item.partition_indexes)
            size += 4 * length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_offset_fetch_request_topics_v10_list(
    buffer: bytes, position: int, end: int, count: int, items: list[OffsetFetchRequestTopics]
) -> int:
    """Version 10."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(OffsetFetchRequestTopics, count)):
            item.name = ""

            at = "topic_id:16s partition_indexes:B"
            topic_id, length = _S_16sB.unpack_from(buffer, position)
            position += 17
            item.topic_id = ZERO_UUID if topic_id == ZERO_UUID_BYTES else UUID(bytes=topic_id)

            at = "partition_indexes"
            if length == 1:
                item.partition_indexes = []
            elif 1 < length < 128:
                length -= 1
                item.partition_indexes = [*INT32_READERS[length](buffer, position)]
                position += 4 * length
            else:
                length, position = read_long_length(buffer, position, length)
                item.partition_indexes, position = read_numbers(buffer, position, length, end, "i")

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


def _encode_offset_fetch_request_topics_v10_list(
    items: list[OffsetFetchRequestTopics], buffer: bytearray, position: int
) -> int:
    """Version 10."""
    at = ""
    item = None
    try:
        for item in items:
            at = "topic_id:16s"
            _S_16s.pack_into(buffer, position, item.topic_id.bytes)
            position += 16

            at = "partition_indexes:[i]"
            partition_indexes = item.partition_indexes
            length = len(partition_indexes)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            INT32S[length].pack_into(buffer, position, *partition_indexes)
            position += 4 * length

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


def _size_offset_fetch_request_topics_v10_list(items: list[OffsetFetchRequestTopics]) -> int:
    """Version 10."""
    size = 18 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "partition_indexes"
            length = len(item.partition_indexes)
            size += 4 * length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_offset_fetch_request_group_v8_list(
    buffer: bytes, position: int, end: int, count: int, items: list[OffsetFetchRequestGroup]
) -> int:
    """Version 8."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(OffsetFetchRequestGroup, count)):
            item.member_id = None
            item.member_epoch = -1

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
            if length == -1:
                item.topics = None
            else:
                if not 0 <= length * 3 <= end - position:
                    raise bad_length(length, position, end, "elements of at least 3 bytes")
                topics: list[OffsetFetchRequestTopics] = []
                item.topics = topics
                position = _decode_offset_fetch_request_topics_v8_list(buffer, position, end, length, topics)

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


def _encode_offset_fetch_request_group_v8_list(
    items: list[OffsetFetchRequestGroup], buffer: bytearray, position: int
) -> int:
    """Version 8."""
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
            if item.topics is None:
                buffer[position] = 0
                position += 1
            else:
                length = len(item.topics)
                if length < 127:
                    buffer[position] = length + 1
                    position += 1
                else:
                    position = write_uvarint(buffer, position, length + 1)
                position = _encode_offset_fetch_request_topics_v8_list(item.topics, buffer, position)

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


def _size_offset_fetch_request_group_v8_list(items: list[OffsetFetchRequestGroup]) -> int:
    """Version 8."""
    size = 3 * len(items)
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
            if item.topics is not None:
                length = len(item.topics)
                if length > 126:
                    size += 1 if length < 16383 else uvarint_size(length + 1) - 1
                size += _size_offset_fetch_request_topics_v8_list(item.topics)

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_offset_fetch_request_group_v9_list(
    buffer: bytes, position: int, end: int, count: int, items: list[OffsetFetchRequestGroup]
) -> int:
    """Version 9."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(OffsetFetchRequestGroup, count)):
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

            at = "member_id"
            length = buffer[position]
            position += 1
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if length == -1:
                item.member_id = None
            else:
                stop = position + length
                if stop > end or length > MAX_STRING_BYTES:
                    raise bad_length(length, position, end, "bytes")
                item.member_id = str(buffer[position:stop], "utf-8")
                position = stop

            at = "member_epoch:i topics:B"
            item.member_epoch, length = _S_iB.unpack_from(buffer, position)
            position += 5

            at = "topics"
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if length == -1:
                item.topics = None
            else:
                if not 0 <= length * 3 <= end - position:
                    raise bad_length(length, position, end, "elements of at least 3 bytes")
                topics: list[OffsetFetchRequestTopics] = []
                item.topics = topics
                position = _decode_offset_fetch_request_topics_v8_list(buffer, position, end, length, topics)

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


def _encode_offset_fetch_request_group_v9_list(
    items: list[OffsetFetchRequestGroup], buffer: bytearray, position: int
) -> int:
    """Version 9."""
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

            at = "member_id"
            if item.member_id is None:
                buffer[position] = 0
                position += 1
            else:
                data = item.member_id.encode()
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

            at = "member_epoch:i"
            _S_i.pack_into(buffer, position, item.member_epoch)
            position += 4

            at = "topics"
            if item.topics is None:
                buffer[position] = 0
                position += 1
            else:
                length = len(item.topics)
                if length < 127:
                    buffer[position] = length + 1
                    position += 1
                else:
                    position = write_uvarint(buffer, position, length + 1)
                position = _encode_offset_fetch_request_topics_v8_list(item.topics, buffer, position)

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


def _size_offset_fetch_request_group_v9_list(items: list[OffsetFetchRequestGroup]) -> int:
    """Version 9."""
    size = 8 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "group_id"
            length = text_bytes(item.group_id)
            size += length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1

            at = "member_id"
            if item.member_id is not None:
                length = text_bytes(item.member_id)
                size += length
                if length > 126:
                    size += 1 if length < 16383 else uvarint_size(length + 1) - 1

            at = "topics"
            if item.topics is not None:
                length = len(item.topics)
                if length > 126:
                    size += 1 if length < 16383 else uvarint_size(length + 1) - 1
                size += _size_offset_fetch_request_topics_v8_list(item.topics)

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_offset_fetch_request_group_v10_list(
    buffer: bytes, position: int, end: int, count: int, items: list[OffsetFetchRequestGroup]
) -> int:
    """Version 10."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(OffsetFetchRequestGroup, count)):
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

            at = "member_id"
            length = buffer[position]
            position += 1
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if length == -1:
                item.member_id = None
            else:
                stop = position + length
                if stop > end or length > MAX_STRING_BYTES:
                    raise bad_length(length, position, end, "bytes")
                item.member_id = str(buffer[position:stop], "utf-8")
                position = stop

            at = "member_epoch:i topics:B"
            item.member_epoch, length = _S_iB.unpack_from(buffer, position)
            position += 5

            at = "topics"
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if length == -1:
                item.topics = None
            else:
                if not 0 <= length * 18 <= end - position:
                    raise bad_length(length, position, end, "elements of at least 18 bytes")
                topics: list[OffsetFetchRequestTopics] = []
                item.topics = topics
                position = _decode_offset_fetch_request_topics_v10_list(buffer, position, end, length, topics)

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


def _encode_offset_fetch_request_group_v10_list(
    items: list[OffsetFetchRequestGroup], buffer: bytearray, position: int
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

            at = "member_id"
            if item.member_id is None:
                buffer[position] = 0
                position += 1
            else:
                data = item.member_id.encode()
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

            at = "member_epoch:i"
            _S_i.pack_into(buffer, position, item.member_epoch)
            position += 4

            at = "topics"
            if item.topics is None:
                buffer[position] = 0
                position += 1
            else:
                length = len(item.topics)
                if length < 127:
                    buffer[position] = length + 1
                    position += 1
                else:
                    position = write_uvarint(buffer, position, length + 1)
                position = _encode_offset_fetch_request_topics_v10_list(item.topics, buffer, position)

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


def _size_offset_fetch_request_group_v10_list(items: list[OffsetFetchRequestGroup]) -> int:
    """Version 10."""
    size = 8 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "group_id"
            length = text_bytes(item.group_id)
            size += length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1

            at = "member_id"
            if item.member_id is not None:
                length = text_bytes(item.member_id)
                size += length
                if length > 126:
                    size += 1 if length < 16383 else uvarint_size(length + 1) - 1

            at = "topics"
            if item.topics is not None:
                length = len(item.topics)
                if length > 126:
                    size += 1 if length < 16383 else uvarint_size(length + 1) - 1
                size += _size_offset_fetch_request_topics_v10_list(item.topics)

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_offset_fetch_request_v1(buffer: bytes, position: int, end: int) -> tuple[OffsetFetchRequest, int]:
    """Version 1."""
    at = ""
    item = None
    try:
        item = _new(OffsetFetchRequest)
        item.groups = []
        item.require_stable = False
        item.unknown_tagged_fields = None

        at = "group_id"
        (length,) = _S_h.unpack_from(buffer, position)
        position += 2
        stop = position + length
        if not position <= stop <= end:
            raise bad_length(length, position, end, "bytes")
        item.group_id = str(buffer[position:stop], "utf-8")
        position = stop

        at = "topics"
        (length,) = _S_i.unpack_from(buffer, position)
        position += 4
        if not 0 <= length * 6 <= end - position:
            raise bad_length(length, position, end, "elements of at least 6 bytes")
        topics: list[OffsetFetchRequestTopic] = []
        item.topics = topics
        position = _decode_offset_fetch_request_topic_v1_list(buffer, position, end, length, topics)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_offset_fetch_request_v1(item: OffsetFetchRequest, buffer: bytearray, position: int) -> int:
    """Version 1."""
    at = ""
    try:
        if (item.groups is None or len(item.groups) > 0):
            at = "groups"
            raise not_in_version(item.groups, "8-10")
        if item.require_stable:
            at = "require_stable"
            raise not_in_version(item.require_stable, "7-10")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "6-10")

        at = "group_id"
        data = item.group_id.encode()
        length = len(data)
        if length > MAX_STRING_BYTES:
            raise string_too_long(length)
        _S_h.pack_into(buffer, position, length)
        position += 2
        stop = position + length
        buffer[position:stop] = data
        position = stop

        at = "topics"
        if item.topics is None:
            raise null_value()
        length = len(item.topics)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_offset_fetch_request_topic_v1_list(item.topics, buffer, position)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_offset_fetch_request_v1(item: OffsetFetchRequest) -> int:
    """Version 1."""
    size = 6
    at = ""
    try:
        at = "group_id"
        length = text_bytes(item.group_id)
        size += length

        at = "topics"
        if item.topics is None:
            raise null_value()
        size += _size_offset_fetch_request_topic_v1_list(item.topics)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_offset_fetch_request_v2(buffer: bytes, position: int, end: int) -> tuple[OffsetFetchRequest, int]:
    """Versions 2-5."""
    at = ""
    item = None
    try:
        item = _new(OffsetFetchRequest)
        item.groups = []
        item.require_stable = False
        item.unknown_tagged_fields = None

        at = "group_id"
        (length,) = _S_h.unpack_from(buffer, position)
        position += 2
        stop = position + length
        if not position <= stop <= end:
            raise bad_length(length, position, end, "bytes")
        item.group_id = str(buffer[position:stop], "utf-8")
        position = stop

        at = "topics"
        (length,) = _S_i.unpack_from(buffer, position)
        position += 4
        if length == -1:
            item.topics = None
        else:
            if not 0 <= length * 6 <= end - position:
                raise bad_length(length, position, end, "elements of at least 6 bytes")
            topics: list[OffsetFetchRequestTopic] = []
            item.topics = topics
            position = _decode_offset_fetch_request_topic_v1_list(buffer, position, end, length, topics)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_offset_fetch_request_v2(item: OffsetFetchRequest, buffer: bytearray, position: int) -> int:
    """Versions 2-5."""
    at = ""
    try:
        if (item.groups is None or len(item.groups) > 0):
            at = "groups"
            raise not_in_version(item.groups, "8-10")
        if item.require_stable:
            at = "require_stable"
            raise not_in_version(item.require_stable, "7-10")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "6-10")

        at = "group_id"
        data = item.group_id.encode()
        length = len(data)
        if length > MAX_STRING_BYTES:
            raise string_too_long(length)
        _S_h.pack_into(buffer, position, length)
        position += 2
        stop = position + length
        buffer[position:stop] = data
        position = stop

        at = "topics"
        if item.topics is None:
            _S_i.pack_into(buffer, position, -1)
            position += 4
        else:
            length = len(item.topics)
            _S_i.pack_into(buffer, position, length)
            position += 4
            position = _encode_offset_fetch_request_topic_v1_list(item.topics, buffer, position)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_offset_fetch_request_v2(item: OffsetFetchRequest) -> int:
    """Versions 2-5."""
    size = 6
    at = ""
    try:
        at = "group_id"
        length = text_bytes(item.group_id)
        size += length

        at = "topics"
        if item.topics is not None:
            size += _size_offset_fetch_request_topic_v1_list(item.topics)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_offset_fetch_request_v6(buffer: bytes, position: int, end: int) -> tuple[OffsetFetchRequest, int]:
    """Version 6."""
    at = ""
    item = None
    try:
        item = _new(OffsetFetchRequest)
        item.groups = []
        item.require_stable = False

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
        if length == -1:
            item.topics = None
        else:
            if not 0 <= length * 3 <= end - position:
                raise bad_length(length, position, end, "elements of at least 3 bytes")
            topics: list[OffsetFetchRequestTopic] = []
            item.topics = topics
            position = _decode_offset_fetch_request_topic_v6_list(buffer, position, end, length, topics)

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


def _encode_offset_fetch_request_v6(item: OffsetFetchRequest, buffer: bytearray, position: int) -> int:
    """Version 6."""
    at = ""
    try:
        if (item.groups is None or len(item.groups) > 0):
            at = "groups"
            raise not_in_version(item.groups, "8-10")
        if item.require_stable:
            at = "require_stable"
            raise not_in_version(item.require_stable, "7-10")

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
        if item.topics is None:
            buffer[position] = 0
            position += 1
        else:
            length = len(item.topics)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            position = _encode_offset_fetch_request_topic_v6_list(item.topics, buffer, position)

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


def _size_offset_fetch_request_v6(item: OffsetFetchRequest) -> int:
    """Version 6."""
    size = 3
    at = ""
    try:
        at = "group_id"
        length = text_bytes(item.group_id)
        size += length
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1

        at = "topics"
        if item.topics is not None:
            length = len(item.topics)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_offset_fetch_request_topic_v6_list(item.topics)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_offset_fetch_request_v7(buffer: bytes, position: int, end: int) -> tuple[OffsetFetchRequest, int]:
    """Version 7."""
    at = ""
    item = None
    try:
        item = _new(OffsetFetchRequest)
        item.groups = []

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
        if length == -1:
            item.topics = None
        else:
            if not 0 <= length * 3 <= end - position:
                raise bad_length(length, position, end, "elements of at least 3 bytes")
            topics: list[OffsetFetchRequestTopic] = []
            item.topics = topics
            position = _decode_offset_fetch_request_topic_v6_list(buffer, position, end, length, topics)

        at = "require_stable:? tagged_fields:B"
        item.require_stable, length = _S_tB.unpack_from(buffer, position)
        position += 2
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


def _encode_offset_fetch_request_v7(item: OffsetFetchRequest, buffer: bytearray, position: int) -> int:
    """Version 7."""
    at = ""
    try:
        if (item.groups is None or len(item.groups) > 0):
            at = "groups"
            raise not_in_version(item.groups, "8-10")

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
        if item.topics is None:
            buffer[position] = 0
            position += 1
        else:
            length = len(item.topics)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            position = _encode_offset_fetch_request_topic_v6_list(item.topics, buffer, position)

        at = "require_stable:?"
        _S_b.pack_into(buffer, position, item.require_stable)
        position += 1

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


def _size_offset_fetch_request_v7(item: OffsetFetchRequest) -> int:
    """Version 7."""
    size = 4
    at = ""
    try:
        at = "group_id"
        length = text_bytes(item.group_id)
        size += length
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1

        at = "topics"
        if item.topics is not None:
            length = len(item.topics)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_offset_fetch_request_topic_v6_list(item.topics)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_offset_fetch_request_v8(buffer: bytes, position: int, end: int) -> tuple[OffsetFetchRequest, int]:
    """Version 8."""
    at = ""
    item = None
    try:
        item = _new(OffsetFetchRequest)
        item.group_id = ""
        item.topics = []

        at = "groups"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 3 <= end - position:
            raise bad_length(length, position, end, "elements of at least 3 bytes")
        groups: list[OffsetFetchRequestGroup] = []
        item.groups = groups
        position = _decode_offset_fetch_request_group_v8_list(buffer, position, end, length, groups)

        at = "require_stable:? tagged_fields:B"
        item.require_stable, length = _S_tB.unpack_from(buffer, position)
        position += 2
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


def _encode_offset_fetch_request_v8(item: OffsetFetchRequest, buffer: bytearray, position: int) -> int:
    """Version 8."""
    at = ""
    try:
        if item.group_id != "":
            at = "group_id"
            raise not_in_version(item.group_id, "1-7")
        if (item.topics is None or len(item.topics) > 0):
            at = "topics"
            raise not_in_version(item.topics, "1-7")

        at = "groups"
        length = len(item.groups)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_offset_fetch_request_group_v8_list(item.groups, buffer, position)

        at = "require_stable:?"
        _S_b.pack_into(buffer, position, item.require_stable)
        position += 1

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


def _size_offset_fetch_request_v8(item: OffsetFetchRequest) -> int:
    """Version 8."""
    size = 3
    at = ""
    try:
        at = "groups"
        length = len(item.groups)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_offset_fetch_request_group_v8_list(item.groups)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_offset_fetch_request_v9(buffer: bytes, position: int, end: int) -> tuple[OffsetFetchRequest, int]:
    """Version 9."""
    at = ""
    item = None
    try:
        item = _new(OffsetFetchRequest)
        item.group_id = ""
        item.topics = []

        at = "groups"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 8 <= end - position:
            raise bad_length(length, position, end, "elements of at least 8 bytes")
        groups: list[OffsetFetchRequestGroup] = []
        item.groups = groups
        position = _decode_offset_fetch_request_group_v9_list(buffer, position, end, length, groups)

        at = "require_stable:? tagged_fields:B"
        item.require_stable, length = _S_tB.unpack_from(buffer, position)
        position += 2
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


def _encode_offset_fetch_request_v9(item: OffsetFetchRequest, buffer: bytearray, position: int) -> int:
    """Version 9."""
    at = ""
    try:
        if item.group_id != "":
            at = "group_id"
            raise not_in_version(item.group_id, "1-7")
        if (item.topics is None or len(item.topics) > 0):
            at = "topics"
            raise not_in_version(item.topics, "1-7")

        at = "groups"
        length = len(item.groups)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_offset_fetch_request_group_v9_list(item.groups, buffer, position)

        at = "require_stable:?"
        _S_b.pack_into(buffer, position, item.require_stable)
        position += 1

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


def _size_offset_fetch_request_v9(item: OffsetFetchRequest) -> int:
    """Version 9."""
    size = 3
    at = ""
    try:
        at = "groups"
        length = len(item.groups)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_offset_fetch_request_group_v9_list(item.groups)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_offset_fetch_request_v10(
    buffer: bytes, position: int, end: int
) -> tuple[OffsetFetchRequest, int]:
    """Version 10."""
    at = ""
    item = None
    try:
        item = _new(OffsetFetchRequest)
        item.group_id = ""
        item.topics = []

        at = "groups"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 8 <= end - position:
            raise bad_length(length, position, end, "elements of at least 8 bytes")
        groups: list[OffsetFetchRequestGroup] = []
        item.groups = groups
        position = _decode_offset_fetch_request_group_v10_list(buffer, position, end, length, groups)

        at = "require_stable:? tagged_fields:B"
        item.require_stable, length = _S_tB.unpack_from(buffer, position)
        position += 2
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


def _encode_offset_fetch_request_v10(item: OffsetFetchRequest, buffer: bytearray, position: int) -> int:
    """Version 10."""
    at = ""
    try:
        if item.group_id != "":
            at = "group_id"
            raise not_in_version(item.group_id, "1-7")
        if (item.topics is None or len(item.topics) > 0):
            at = "topics"
            raise not_in_version(item.topics, "1-7")

        at = "groups"
        length = len(item.groups)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_offset_fetch_request_group_v10_list(item.groups, buffer, position)

        at = "require_stable:?"
        _S_b.pack_into(buffer, position, item.require_stable)
        position += 1

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


def _size_offset_fetch_request_v10(item: OffsetFetchRequest) -> int:
    """Version 10."""
    size = 3
    at = ""
    try:
        at = "groups"
        length = len(item.groups)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_offset_fetch_request_group_v10_list(item.groups)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


#: The wire layout of each decoder; compiled decoders interpret it (see _decoders.py).
_LAYOUTS: Layouts = {
    "offset_fetch_request_topic_v1": (
        OffsetFetchRequestTopic,
        list,
        "name:string partition_indexes:array(int32)",
    ),
    "offset_fetch_request_topic_v6": (
        OffsetFetchRequestTopic,
        list,
        "name:compact_string partition_indexes:compact_array(int32) tags",
    ),
    "offset_fetch_request_topics_v8": (
        OffsetFetchRequestTopics,
        list,
        "name:compact_string partition_indexes:compact_array(int32) tags",
    ),
    "offset_fetch_request_topics_v10": (
        OffsetFetchRequestTopics,
        list,
        "topic_id:uuid partition_indexes:compact_array(int32) tags",
    ),
    "offset_fetch_request_group_v8": (
        OffsetFetchRequestGroup,
        list,
        "group_id:compact_string topics:compact_nullable_array(offset_fetch_request_topics_v8) tags",
    ),
    "offset_fetch_request_group_v9": (
        OffsetFetchRequestGroup,
        list,
        "group_id:compact_string member_id:compact_nullable_string member_epoch:int32 "
        "topics:compact_nullable_array(offset_fetch_request_topics_v8) tags",
    ),
    "offset_fetch_request_group_v10": (
        OffsetFetchRequestGroup,
        list,
        "group_id:compact_string member_id:compact_nullable_string member_epoch:int32 "
        "topics:compact_nullable_array(offset_fetch_request_topics_v10) tags",
    ),
    "offset_fetch_request_v1": (
        OffsetFetchRequest,
        list,
        "group_id:string topics:array(offset_fetch_request_topic_v1)",
    ),
    "offset_fetch_request_v2": (
        OffsetFetchRequest,
        list,
        "group_id:string topics:nullable_array(offset_fetch_request_topic_v1)",
    ),
    "offset_fetch_request_v6": (
        OffsetFetchRequest,
        list,
        "group_id:compact_string topics:compact_nullable_array(offset_fetch_request_topic_v6) tags",
    ),
    "offset_fetch_request_v7": (
        OffsetFetchRequest,
        list,
        "group_id:compact_string topics:compact_nullable_array(offset_fetch_request_topic_v6) "
        "require_stable:bool tags",
    ),
    "offset_fetch_request_v8": (
        OffsetFetchRequest,
        list,
        "groups:compact_array(offset_fetch_request_group_v8) require_stable:bool tags",
    ),
    "offset_fetch_request_v9": (
        OffsetFetchRequest,
        list,
        "groups:compact_array(offset_fetch_request_group_v9) require_stable:bool tags",
    ),
    "offset_fetch_request_v10": (
        OffsetFetchRequest,
        list,
        "groups:compact_array(offset_fetch_request_group_v10) require_stable:bool tags",
    ),
}
_DECODE = decoders(
    {
        1: _decode_offset_fetch_request_v1,
        2: _decode_offset_fetch_request_v2,
        3: _decode_offset_fetch_request_v2,
        4: _decode_offset_fetch_request_v2,
        5: _decode_offset_fetch_request_v2,
        6: _decode_offset_fetch_request_v6,
        7: _decode_offset_fetch_request_v7,
        8: _decode_offset_fetch_request_v8,
        9: _decode_offset_fetch_request_v9,
        10: _decode_offset_fetch_request_v10,
    },
    _LAYOUTS,
)
_ENCODE = {
    1: _encode_offset_fetch_request_v1,
    2: _encode_offset_fetch_request_v2,
    3: _encode_offset_fetch_request_v2,
    4: _encode_offset_fetch_request_v2,
    5: _encode_offset_fetch_request_v2,
    6: _encode_offset_fetch_request_v6,
    7: _encode_offset_fetch_request_v7,
    8: _encode_offset_fetch_request_v8,
    9: _encode_offset_fetch_request_v9,
    10: _encode_offset_fetch_request_v10,
}
_SIZE = {
    1: _size_offset_fetch_request_v1,
    2: _size_offset_fetch_request_v2,
    3: _size_offset_fetch_request_v2,
    4: _size_offset_fetch_request_v2,
    5: _size_offset_fetch_request_v2,
    6: _size_offset_fetch_request_v6,
    7: _size_offset_fetch_request_v7,
    8: _size_offset_fetch_request_v8,
    9: _size_offset_fetch_request_v9,
    10: _size_offset_fetch_request_v10,
}

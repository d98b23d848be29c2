# DO NOT EDIT: generated from specs/MetadataRequest.json (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: f2a760feccec5cae87c3df446dff11efaba1a6f99b132b8d2756e8304091a765
"""MetadataRequest: a request of API 3, versions 0-13, flexible 9-13."""

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
    null_value,
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
    "MetadataRequest",
    "MetadataRequestTopic",
]

_S_16s = Struct(">16s")
_S_16sB = Struct(">16sB")
_S_tt = Struct(">??")
_S_ttt = Struct(">???")
_S_tttB = Struct(">???B")
_S_ttB = Struct(">??B")
_S_b = Struct(">b")
_S_bb = Struct(">bb")
_S_bbB = Struct(">bbB")
_S_bbb = Struct(">bbb")
_S_bbbB = Struct(">bbbB")
_S_h = Struct(">h")
_S_i = Struct(">i")
_new = object.__new__


class MetadataRequestTopic(Plain):
    """Part of MetadataRequest.

    Attributes:
        topic_id: Id of the topic, or zero if the topic is requested by name. (uuid, versions 10+; dropped if
            the version does not have it)
        name: Name of the topic, or null if the topic is requested by id. (string, versions 0+; nullable in
            10+; a topicName)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "topic_id": UUID,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "topic_id": ZERO_UUID,
        "name": "",
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        topic_id: UUID = ZERO_UUID,
        name: str | None = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.topic_id: UUID = topic_id
        self.name: str | None = name
        self.unknown_tagged_fields = unknown_tagged_fields


class MetadataRequest(Plain):
    """A request. Not thread-safe: plain data.

    Attributes:
        topics: The topics to return; null for all. ([]MetadataRequestTopic, versions 0+; nullable in 1+)
        allow_auto_topic_creation: Whether the broker may create a missing topic, if its settings allow it.
            (bool, versions 4+)
        include_cluster_authorized_operations: Whether to return the operations that the client may perform on
            the cluster. (bool, versions 8-10)
        include_topic_authorized_operations: Whether to return the operations that the client may perform on
            each topic. (bool, versions 8+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    API_KEY: ClassVar[int] = 3
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 13
    #: Versions with compact lengths and tagged fields.
    FLEXIBLE_VERSIONS: ClassVar[range] = range(9, 14)
    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "topics": MetadataRequestTopic,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "topics": list,
        "allow_auto_topic_creation": True,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        topics: list[MetadataRequestTopic] | None = NEW,
        allow_auto_topic_creation: bool = True,
        include_cluster_authorized_operations: bool = False,
        include_topic_authorized_operations: bool = False,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.topics: list[MetadataRequestTopic] | None = [] if topics is NEW else topics
        self.allow_auto_topic_creation: bool = allow_auto_topic_creation
        self.include_cluster_authorized_operations: bool = include_cluster_authorized_operations
        self.include_topic_authorized_operations: bool = include_topic_authorized_operations
        self.unknown_tagged_fields = unknown_tagged_fields

    def size(self, version: int) -> int:
        """Exact size of the encoded message in bytes, referenced bytes included.

        Raises:
            EncodeError: the version does not exist, or a field is null that must not be.
        """
        try:
            size_of = _SIZE[version]
        except KeyError:
            raise no_such_version(EncodeError, "MetadataRequest", version, 0, 13) from None
        try:
            return size_of(self)
        except EncodeError as error:
            raise error.of("MetadataRequest", version) from None

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
            raise no_such_version(EncodeError, "MetadataRequest", version, 0, 13) from None
        try:
            return encode(self, buffer, position)
        except EncodeError as error:
            raise error.of("MetadataRequest", version) from None

    def encode(self, version: int) -> bytes:
        """The whole message as bytes. Raises EncodeError as ``encode_into`` does."""
        buffer = bytearray(self.size(version))
        self.encode_into(buffer, 0, version)
        return bytes(buffer)

    @classmethod
    def decode(
        cls, buffer: Buffer, version: int, position: int = 0
    ) -> tuple[MetadataRequest, int]:
        """Read one message; return it and the position after it. Further bytes are ignored.

        Raises:
            DecodeError: the version does not exist, or the bytes are not a valid message.
        """
        try:
            decode = _DECODE[version]
        except KeyError:
            raise no_such_version(DecodeError, "MetadataRequest", version, 0, 13) from None
        readable = buffer if type(buffer) is bytes else bytes(buffer)
        try:
            if not 0 <= position <= len(readable):
                raise DecodeError(f"position {position} is outside the buffer of {len(readable)} bytes")
            return decode(readable, position, len(readable))
        except DecodeError as error:
            raise error.of("MetadataRequest", version) from None


def _decode_metadata_request_topic_v0_list(
    buffer: bytes, position: int, end: int, count: int, items: list[MetadataRequestTopic]
) -> int:
    """Versions 0-8."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(MetadataRequestTopic, count)):
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
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_metadata_request_topic_v0_list(
    items: list[MetadataRequestTopic], buffer: bytearray, position: int
) -> int:
    """Versions 0-8."""
    at = ""
    item = None
    try:
        for item in items:
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "9-13")

            at = "name"
            if item.name is None:
                raise null_value()
            data = item.name.encode()
            length = len(data)
            if length > MAX_STRING_BYTES:
                raise string_too_long(length)
            _S_h.pack_into(buffer, position, length)
            position += 2
            stop = position + length
            buffer[position:stop] = data
            position = stop
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_metadata_request_topic_v0_list(items: list[MetadataRequestTopic]) -> int:
    """Versions 0-8."""
    size = 2 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "name"
            if item.name is None:
                raise null_value()
            length = text_bytes(item.name)
            size += length
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_metadata_request_topic_v9_list(
    buffer: bytes, position: int, end: int, count: int, items: list[MetadataRequestTopic]
) -> int:
    """Version 9."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(MetadataRequestTopic, count)):
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


def _encode_metadata_request_topic_v9_list(
    items: list[MetadataRequestTopic], buffer: bytearray, position: int
) -> int:
    """Version 9."""
    at = ""
    item = None
    try:
        for item in items:
            at = "name"
            if item.name is None:
                raise null_value()
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


def _size_metadata_request_topic_v9_list(items: list[MetadataRequestTopic]) -> int:
    """Version 9."""
    size = 2 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "name"
            if item.name is None:
                raise null_value()
            length = text_bytes(item.name)
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


def _decode_metadata_request_topic_v10_list(
    buffer: bytes, position: int, end: int, count: int, items: list[MetadataRequestTopic]
) -> int:
    """Versions 10-13."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(MetadataRequestTopic, count)):
            at = "topic_id:16s name:B"
            topic_id, length = _S_16sB.unpack_from(buffer, position)
            position += 17
            item.topic_id = ZERO_UUID if topic_id == ZERO_UUID_BYTES else UUID(bytes=topic_id)

            at = "name"
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if length == -1:
                item.name = None
            else:
                stop = position + length
                if stop > end or length > MAX_STRING_BYTES:
                    raise bad_length(length, position, end, "bytes")
                item.name = str(buffer[position:stop], "utf-8")
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
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_metadata_request_topic_v10_list(
    items: list[MetadataRequestTopic], buffer: bytearray, position: int
) -> int:
    """Versions 10-13."""
    at = ""
    item = None
    try:
        for item in items:
            at = "topic_id:16s"
            _S_16s.pack_into(buffer, position, item.topic_id.bytes)
            position += 16

            at = "name"
            if item.name is None:
                buffer[position] = 0
                position += 1
            else:
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


def _size_metadata_request_topic_v10_list(items: list[MetadataRequestTopic]) -> int:
    """Versions 10-13."""
    size = 18 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "name"
            if item.name is not None:
                length = text_bytes(item.name)
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


def _decode_metadata_request_v0(buffer: bytes, position: int, end: int) -> tuple[MetadataRequest, int]:
    """Version 0."""
    at = ""
    item = None
    try:
        item = _new(MetadataRequest)
        item.allow_auto_topic_creation = True
        item.include_cluster_authorized_operations = False
        item.include_topic_authorized_operations = False
        item.unknown_tagged_fields = None

        at = "topics"
        (length,) = _S_i.unpack_from(buffer, position)
        position += 4
        if not 0 <= length * 2 <= end - position:
            raise bad_length(length, position, end, "elements of at least 2 bytes")
        topics: list[MetadataRequestTopic] = []
        item.topics = topics
        position = _decode_metadata_request_topic_v0_list(buffer, position, end, length, topics)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_metadata_request_v0(item: MetadataRequest, buffer: bytearray, position: int) -> int:
    """Version 0."""
    at = ""
    try:
        if not item.allow_auto_topic_creation:
            at = "allow_auto_topic_creation"
            raise not_in_version(item.allow_auto_topic_creation, "4-13")
        if item.include_cluster_authorized_operations:
            at = "include_cluster_authorized_operations"
            raise not_in_version(item.include_cluster_authorized_operations, "8-10")
        if item.include_topic_authorized_operations:
            at = "include_topic_authorized_operations"
            raise not_in_version(item.include_topic_authorized_operations, "8-13")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "9-13")

        at = "topics"
        if item.topics is None:
            raise null_value()
        length = len(item.topics)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_metadata_request_topic_v0_list(item.topics, buffer, position)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_metadata_request_v0(item: MetadataRequest) -> int:
    """Version 0."""
    size = 4
    at = ""
    try:
        at = "topics"
        if item.topics is None:
            raise null_value()
        size += _size_metadata_request_topic_v0_list(item.topics)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_metadata_request_v1(buffer: bytes, position: int, end: int) -> tuple[MetadataRequest, int]:
    """Versions 1-3."""
    at = ""
    item = None
    try:
        item = _new(MetadataRequest)
        item.allow_auto_topic_creation = True
        item.include_cluster_authorized_operations = False
        item.include_topic_authorized_operations = False
        item.unknown_tagged_fields = None

        at = "topics"
        (length,) = _S_i.unpack_from(buffer, position)
        position += 4
        if length == -1:
            item.topics = None
        else:
            if not 0 <= length * 2 <= end - position:
                raise bad_length(length, position, end, "elements of at least 2 bytes")
            topics: list[MetadataRequestTopic] = []
            item.topics = topics
            position = _decode_metadata_request_topic_v0_list(buffer, position, end, length, topics)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_metadata_request_v1(item: MetadataRequest, buffer: bytearray, position: int) -> int:
    """Versions 1-3."""
    at = ""
    try:
        if not item.allow_auto_topic_creation:
            at = "allow_auto_topic_creation"
            raise not_in_version(item.allow_auto_topic_creation, "4-13")
        if item.include_cluster_authorized_operations:
            at = "include_cluster_authorized_operations"
            raise not_in_version(item.include_cluster_authorized_operations, "8-10")
        if item.include_topic_authorized_operations:
            at = "include_topic_authorized_operations"
            raise not_in_version(item.include_topic_authorized_operations, "8-13")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "9-13")

        at = "topics"
        if item.topics is None:
            _S_i.pack_into(buffer, position, -1)
            position += 4
        else:
            length = len(item.topics)
            _S_i.pack_into(buffer, position, length)
            position += 4
            position = _encode_metadata_request_topic_v0_list(item.topics, buffer, position)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_metadata_request_v1(item: MetadataRequest) -> int:
    """Versions 1-3."""
    size = 4
    at = ""
    try:
        at = "topics"
        if item.topics is not None:
            size += _size_metadata_request_topic_v0_list(item.topics)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_metadata_request_v4(buffer: bytes, position: int, end: int) -> tuple[MetadataRequest, int]:
    """Versions 4-7."""
    at = ""
    item = None
    try:
        item = _new(MetadataRequest)
        item.include_cluster_authorized_operations = False
        item.include_topic_authorized_operations = False
        item.unknown_tagged_fields = None

        at = "topics"
        (length,) = _S_i.unpack_from(buffer, position)
        position += 4
        if length == -1:
            item.topics = None
        else:
            if not 0 <= length * 2 <= end - position:
                raise bad_length(length, position, end, "elements of at least 2 bytes")
            topics: list[MetadataRequestTopic] = []
            item.topics = topics
            position = _decode_metadata_request_topic_v0_list(buffer, position, end, length, topics)

        at = "allow_auto_topic_creation:?"
        item.allow_auto_topic_creation = buffer[position] != 0
        position += 1
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_metadata_request_v4(item: MetadataRequest, buffer: bytearray, position: int) -> int:
    """Versions 4-7."""
    at = ""
    try:
        if item.include_cluster_authorized_operations:
            at = "include_cluster_authorized_operations"
            raise not_in_version(item.include_cluster_authorized_operations, "8-10")
        if item.include_topic_authorized_operations:
            at = "include_topic_authorized_operations"
            raise not_in_version(item.include_topic_authorized_operations, "8-13")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "9-13")

        at = "topics"
        if item.topics is None:
            _S_i.pack_into(buffer, position, -1)
            position += 4
        else:
            length = len(item.topics)
            _S_i.pack_into(buffer, position, length)
            position += 4
            position = _encode_metadata_request_topic_v0_list(item.topics, buffer, position)

        at = "allow_auto_topic_creation:?"
        _S_b.pack_into(buffer, position, item.allow_auto_topic_creation)
        position += 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_metadata_request_v4(item: MetadataRequest) -> int:
    """Versions 4-7."""
    size = 5
    at = ""
    try:
        at = "topics"
        if item.topics is not None:
            size += _size_metadata_request_topic_v0_list(item.topics)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_metadata_request_v8(buffer: bytes, position: int, end: int) -> tuple[MetadataRequest, int]:
    """Version 8."""
    at = ""
    item = None
    try:
        item = _new(MetadataRequest)
        item.unknown_tagged_fields = None

        at = "topics"
        (length,) = _S_i.unpack_from(buffer, position)
        position += 4
        if length == -1:
            item.topics = None
        else:
            if not 0 <= length * 2 <= end - position:
                raise bad_length(length, position, end, "elements of at least 2 bytes")
            topics: list[MetadataRequestTopic] = []
            item.topics = topics
            position = _decode_metadata_request_topic_v0_list(buffer, position, end, length, topics)

        at = "allow_auto_topic_creation:? include_cluster_authorized_operations:? include_topic_authorized_operations:?"
        (
            item.allow_auto_topic_creation,
            item.include_cluster_authorized_operations,
            item.include_topic_authorized_operations,
        ) = _S_ttt.unpack_from(buffer, position)
        position += 3
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_metadata_request_v8(item: MetadataRequest, buffer: bytearray, position: int) -> int:
    """Version 8."""
    at = ""
    try:
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "9-13")

        at = "topics"
        if item.topics is None:
            _S_i.pack_into(buffer, position, -1)
            position += 4
        else:
            length = len(item.topics)
            _S_i.pack_into(buffer, position, length)
            position += 4
            position = _encode_metadata_request_topic_v0_list(item.topics, buffer, position)

        at = "allow_auto_topic_creation:? include_cluster_authorized_operations:? include_topic_authorized_operations:?"
        _S_bbb.pack_into(
            buffer,
            position,
            item.allow_auto_topic_creation,
            item.include_cluster_authorized_operations,
            item.include_topic_authorized_operations,
        )
        position += 3
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_metadata_request_v8(item: MetadataRequest) -> int:
    """Version 8."""
    size = 7
    at = ""
    try:
        at = "topics"
        if item.topics is not None:
            size += _size_metadata_request_topic_v0_list(item.topics)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_metadata_request_v9(buffer: bytes, position: int, end: int) -> tuple[MetadataRequest, int]:
    """Version 9."""
    at = ""
    item = None
    try:
        item = _new(MetadataRequest)

        at = "topics"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if length == -1:
            item.topics = None
        else:
            if not 0 <= length * 2 <= end - position:
                raise bad_length(length, position, end, "elements of at least 2 bytes")
            topics: list[MetadataRequestTopic] = []
            item.topics = topics
            position = _decode_metadata_request_topic_v9_list(buffer, position, end, length, topics)

        at = "allow_auto_topic_creation:? include_cluster_authorized_operations:? include_topic_authorized_operations:? tagged_fields:B"
        (
            item.allow_auto_topic_creation,
            item.include_cluster_authorized_operations,
            item.include_topic_authorized_operations,
            length,
        ) = _S_tttB.unpack_from(buffer, position)
        position += 4
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


def _encode_metadata_request_v9(item: MetadataRequest, buffer: bytearray, position: int) -> int:
    """Version 9."""
    at = ""
    try:
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
            position = _encode_metadata_request_topic_v9_list(item.topics, buffer, position)

        at = "allow_auto_topic_creation:? include_cluster_authorized_operations:? include_topic_authorized_operations:?"
        _S_bbb.pack_into(
            buffer,
            position,
            item.allow_auto_topic_creation,
            item.include_cluster_authorized_operations,
            item.include_topic_authorized_operations,
        )
        position += 3

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


def _size_metadata_request_v9(item: MetadataRequest) -> int:
    """Version 9."""
    size = 5
    at = ""
    try:
        at = "topics"
        if item.topics is not None:
            length = len(item.topics)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_metadata_request_topic_v9_list(item.topics)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_metadata_request_v10(buffer: bytes, position: int, end: int) -> tuple[MetadataRequest, int]:
    """Version 10."""
    at = ""
    item = None
    try:
        item = _new(MetadataRequest)

        at = "topics"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if length == -1:
            item.topics = None
        else:
            if not 0 <= length * 18 <= end - position:
                raise bad_length(length, position, end, "elements of at least 18 bytes")
            topics: list[MetadataRequestTopic] = []
            item.topics = topics
            position = _decode_metadata_request_topic_v10_list(buffer, position, end, length, topics)

        at = "allow_auto_topic_creation:? include_cluster_authorized_operations:? include_topic_authorized_operations:? tagged_fields:B"
        (
            item.allow_auto_topic_creation,
            item.include_cluster_authorized_operations,
            item.include_topic_authorized_operations,
            length,
        ) = _S_tttB.unpack_from(buffer, position)
        position += 4
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


def _encode_metadata_request_v10(item: MetadataRequest, buffer: bytearray, position: int) -> int:
    """Version 10."""
    at = ""
    try:
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
            position = _encode_metadata_request_topic_v10_list(item.topics, buffer, position)

        at = "allow_auto_topic_creation:? include_cluster_authorized_operations:? include_topic_authorized_operations:?"
        _S_bbb.pack_into(
            buffer,
            position,
            item.allow_auto_topic_creation,
            item.include_cluster_authorized_operations,
            item.include_topic_authorized_operations,
        )
        position += 3

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


def _size_metadata_request_v10(item: MetadataRequest) -> int:
    """Version 10."""
    size = 5
    at = ""
    try:
        at = "topics"
        if item.topics is not None:
            length = len(item.topics)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_metadata_request_topic_v10_list(item.topics)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_metadata_request_v11(buffer: bytes, position: int, end: int) -> tuple[MetadataRequest, int]:
    """Versions 11-13."""
    at = ""
    item = None
    try:
        item = _new(MetadataRequest)
        item.include_cluster_authorized_operations = False

        at = "topics"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if length == -1:
            item.topics = None
        else:
            if not 0 <= length * 18 <= end - position:
                raise bad_length(length, position, end, "elements of at least 18 bytes")
            topics: list[MetadataRequestTopic] = []
            item.topics = topics
            position = _decode_metadata_request_topic_v10_list(buffer, position, end, length, topics)

        at = "allow_auto_topic_creation:? include_topic_authorized_operations:? tagged_fields:B"
        (
            item.allow_auto_topic_creation,
            item.include_topic_authorized_operations,
            length,
        ) = _S_ttB.unpack_from(buffer, position)
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


def _encode_metadata_request_v11(item: MetadataRequest, buffer: bytearray, position: int) -> int:
    """Versions 11-13."""
    at = ""
    try:
        if item.include_cluster_authorized_operations:
            at = "include_cluster_authorized_operations"
            raise not_in_version(item.include_cluster_authorized_operations, "8-10")

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
            position = _encode_metadata_request_topic_v10_list(item.topics, buffer, position)

        at = "allow_auto_topic_creation:? include_topic_authorized_operations:?"
        _S_bb.pack_into(
            buffer,
            position,
            item.allow_auto_topic_creation,
            item.include_topic_authorized_operations,
        )
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


def _size_metadata_request_v11(item: MetadataRequest) -> int:
    """Versions 11-13."""
    size = 4
    at = ""
    try:
        at = "topics"
        if item.topics is not None:
            length = len(item.topics)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_metadata_request_topic_v10_list(item.topics)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


#: The wire layout of each decoder; compiled decoders interpret it (see _decoders.py).
_LAYOUTS: Layouts = {
    "metadata_request_topic_v0": (MetadataRequestTopic, list, "name:string"),
    "metadata_request_topic_v9": (MetadataRequestTopic, list, "name:compact_string tags"),
    "metadata_request_topic_v10": (
        MetadataRequestTopic,
        list,
        "topic_id:uuid name:compact_nullable_string tags",
    ),
    "metadata_request_v0": (MetadataRequest, list, "topics:array(metadata_request_topic_v0)"),
    "metadata_request_v1": (MetadataRequest, list, "topics:nullable_array(metadata_request_topic_v0)"),
    "metadata_request_v4": (
        MetadataRequest,
        list,
        "topics:nullable_array(metadata_request_topic_v0) allow_auto_topic_creation:bool",
    ),
    "metadata_request_v8": (
        MetadataRequest,
        list,
        "topics:nullable_array(metadata_request_topic_v0) allow_auto_topic_creation:bool "
        "include_cluster_authorized_operations:bool include_topic_authorized_operations:bool",
    ),
    "metadata_request_v9": (
        MetadataRequest,
        list,
        "topics:compact_nullable_array(metadata_request_topic_v9) allow_auto_topic_creation:bool "
        "include_cluster_authorized_operations:bool include_topic_authorized_operations:bool tags",
    ),
    "metadata_request_v10": (
        MetadataRequest,
        list,
        "topics:compact_nullable_array(metadata_request_topic_v10) allow_auto_topic_creation:bool "
        "include_cluster_authorized_operations:bool include_topic_authorized_operations:bool tags",
    ),
    "metadata_request_v11": (
        MetadataRequest,
        list,
        "topics:compact_nullable_array(metadata_request_topic_v10) allow_auto_topic_creation:bool "
        "include_topic_authorized_operations:bool tags",
    ),
}
_DECODE = decoders(
    {
        0: _decode_metadata_request_v0,
        1: _decode_metadata_request_v1,
        2: _decode_metadata_request_v1,
        3: _decode_metadata_request_v1,
        4: _decode_metadata_request_v4,
        5: _decode_metadata_request_v4,
        6: _decode_metadata_request_v4,
        7: _decode_metadata_request_v4,
        8: _decode_metadata_request_v8,
        9: _decode_metadata_request_v9,
        10: _decode_metadata_request_v10,
        11: _decode_metadata_request_v11,
        12: _decode_metadata_request_v11,
        13: _decode_metadata_request_v11,
    },
    _LAYOUTS,
)
_ENCODE = {
    0: _encode_metadata_request_v0,
    1: _encode_metadata_request_v1,
    2: _encode_metadata_request_v1,
    3: _encode_metadata_request_v1,
    4: _encode_metadata_request_v4,
    5: _encode_metadata_request_v4,
    6: _encode_metadata_request_v4,
    7: _encode_metadata_request_v4,
    8: _encode_metadata_request_v8,
    9: _encode_metadata_request_v9,
    10: _encode_metadata_request_v10,
    11: _encode_metadata_request_v11,
    12: _encode_metadata_request_v11,
    13: _encode_metadata_request_v11,
}
_SIZE = {
    0: _size_metadata_request_v0,
    1: _size_metadata_request_v1,
    2: _size_metadata_request_v1,
    3: _size_metadata_request_v1,
    4: _size_metadata_request_v4,
    5: _size_metadata_request_v4,
    6: _size_metadata_request_v4,
    7: _size_metadata_request_v4,
    8: _size_metadata_request_v8,
    9: _size_metadata_request_v9,
    10: _size_metadata_request_v10,
    11: _size_metadata_request_v11,
    12: _size_metadata_request_v11,
    13: _size_metadata_request_v11,
}

# DO NOT EDIT: generated from specs/TxnOffsetCommitRequest.json (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: 275a4b9f2bc59bb099aad3e08bec2a8264e736ea830e2e7f91b576f6a6f6ef8a
"""TxnOffsetCommitRequest: a request of API 28, versions 0-6, flexible 3-6."""

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
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitRequestPartition",
    "TxnOffsetCommitRequestTopic",
]

_S_16s = Struct(">16s")
_S_16sB = Struct(">16sB")
_S_h = Struct(">h")
_S_i = Struct(">i")
_S_iq = Struct(">iq")
_S_iqh = Struct(">iqh")
_S_iqi = Struct(">iqi")
_S_iqiB = Struct(">iqiB")
_S_iqih = Struct(">iqih")
_S_qh = Struct(">qh")
_S_qhi = Struct(">qhi")
_S_qhiB = Struct(">qhiB")
_new = object.__new__


class TxnOffsetCommitRequestPartition(Plain):
    """Part of TxnOffsetCommitRequest.

    Attributes:
        partition_index: Partition number. (int32, versions 0+)
        committed_offset: The offset to commit. (int64, versions 0+)
        committed_leader_epoch: Leader epoch of the last record that was read; -1 if unknown. (int32, versions
            2+; dropped if the version does not have it)
        committed_metadata: Text to store with the offset. (string, versions 0+; nullable in 0+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    FIELDS: ClassVar[dict[str, Any]] = {
        "partition_index": 0,
        "committed_offset": 0,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        committed_metadata: str | None = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.partition_index: int = partition_index
        self.committed_offset: int = committed_offset
        self.committed_leader_epoch: int = committed_leader_epoch
        self.committed_metadata: str | None = committed_metadata
        self.unknown_tagged_fields = unknown_tagged_fields


class TxnOffsetCommitRequestTopic(Plain):
    """Part of TxnOffsetCommitRequest.

    Attributes:
        name: Name of the topic. (string, versions 0-5; dropped if the version does not have it; a topicName)
        topic_id: Id of the topic. (uuid, versions 6+; dropped if the version does not have it)
        partitions: The offsets, by partition. ([]TxnOffsetCommitRequestPartition, versions 0+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "topic_id": UUID,
        "partitions": TxnOffsetCommitRequestPartition,
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
        partitions: list[TxnOffsetCommitRequestPartition] = NEW,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.name: str = name
        self.topic_id: UUID = topic_id
        self.partitions: list[TxnOffsetCommitRequestPartition] = [] if partitions is NEW else partitions
        self.unknown_tagged_fields = unknown_tagged_fields


class TxnOffsetCommitRequest(Plain):
    """A request. Not thread-safe: plain data.

    Attributes:
        transactional_id: The producer's transactional id. (string, versions 0+; a transactionalId)
        group_id: The consumer group of the offsets. (string, versions 0+; a groupId)
        producer_id: The producer id that belongs to the transactional id. (int64, versions 0+; a producerId)
        producer_epoch: The producer's current epoch. (int16, versions 0+)
        generation_id_or_member_epoch: Generation of the group, or the member epoch with the newer group
            protocol; -1 skips the check. (int32, versions 3+)
        member_id: The member id; empty skips the check. (string, versions 3+)
        group_instance_id: The static member's group.instance.id, or null. (string, versions 3+; nullable in
            3+)
        topics: The offsets, by topic. ([]TxnOffsetCommitRequestTopic, versions 0+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    API_KEY: ClassVar[int] = 28
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 6
    #: Versions with compact lengths and tagged fields.
    FLEXIBLE_VERSIONS: ClassVar[range] = range(3, 7)
    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "topics": TxnOffsetCommitRequestTopic,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "transactional_id": "",
        "group_id": "",
        "producer_id": 0,
        "producer_epoch": 0,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": list,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        transactional_id: str = "",
        group_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        topics: list[TxnOffsetCommitRequestTopic] = NEW,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.transactional_id: str = transactional_id
        self.group_id: str = group_id
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.generation_id_or_member_epoch: int = generation_id_or_member_epoch
        self.member_id: str = member_id
        self.group_instance_id: str | None = group_instance_id
        self.topics: list[TxnOffsetCommitRequestTopic] = [] if topics is NEW else topics
        self.unknown_tagged_fields = unknown_tagged_fields

    def size(self, version: int) -> int:
        """Exact size of the encoded message in bytes, referenced bytes included.

        Raises:
            EncodeError: the version does not exist, or a field is null that must not be.
        """
        try:
            size_of = _SIZE[version]
        except KeyError:
            raise no_such_version(EncodeError, "TxnOffsetCommitRequest", version, 0, 6) from None
        try:
            return size_of(self)
        except EncodeError as error:
            raise error.of("TxnOffsetCommitRequest", version) from None

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
            raise no_such_version(EncodeError, "TxnOffsetCommitRequest", version, 0, 6) from None
        try:
            return encode(self, buffer, position)
        except EncodeError as error:
            raise error.of("TxnOffsetCommitRequest", version) from None

    def encode(self, version: int) -> bytes:
        """The whole message as bytes. Raises EncodeError as ``encode_into`` does."""
        buffer = bytearray(self.size(version))
        self.encode_into(buffer, 0, version)
        return bytes(buffer)

    @classmethod
    def decode(
        cls, buffer: Buffer, version: int, position: int = 0
    ) -> tuple[TxnOffsetCommitRequest, int]:
        """Read one message; return it and the position after it. Further bytes are ignored.

        Raises:
            DecodeError: the version does not exist, or the bytes are not a valid message.
        """
        try:
            decode = _DECODE[version]
        except KeyError:
            raise no_such_version(DecodeError, "TxnOffsetCommitRequest", version, 0, 6) from None
        readable = buffer if type(buffer) is bytes else bytes(buffer)
        try:
            if not 0 <= position <= len(readable):
                raise DecodeError(f"position {position} is outside the buffer of {len(readable)} bytes")
            return decode(readable, position, len(readable))
        except DecodeError as error:
            raise error.of("TxnOffsetCommitRequest", version) from None


def _decode_txn_offset_commit_request_partition_v0_list(
    buffer: bytes, position: int, end: int, count: int, items: list[TxnOffsetCommitRequestPartition]
) -> int:
    """Versions 0-1."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(TxnOffsetCommitRequestPartition, count)):
            item.committed_leader_epoch = -1
            item.unknown_tagged_fields = None

            at = "partition_index:i committed_offset:q committed_metadata:h"
            item.partition_index, item.committed_offset, length = _S_iqh.unpack_from(buffer, position)
            position += 14

            at = "committed_metadata"
            if length == -1:
                item.committed_metadata = None
            else:
                stop = position + length
                if not position <= stop <= end:
                    raise bad_length(length, position, end, "bytes")
                item.committed_metadata = str(buffer[position:stop], "utf-8")
                position = stop
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_txn_offset_commit_request_partition_v0_list(
    items: list[TxnOffsetCommitRequestPartition], buffer: bytearray, position: int
) -> int:
    """Versions 0-1."""
    at = ""
    item = None
    try:
        for item in items:
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "3-6")

            at = "partition_index:i committed_offset:q"
            _S_iq.pack_into(buffer, position, item.partition_index, item.committed_offset)
            position += 12

            at = "committed_metadata"
            if item.committed_metadata is None:
                _S_h.pack_into(buffer, position, -1)
                position += 2
            else:
                data = item.committed_metadata.encode()
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


def _size_txn_offset_commit_request_partition_v0_list(items: list[TxnOffsetCommitRequestPartition]) -> int:
    """Versions 0-1."""
    size = 14 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "committed_metadata"
            if item.committed_metadata is not None:
                length = text_bytes(item.committed_metadata)
                size += length
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_txn_offset_commit_request_partition_v2_list(
    buffer: bytes, position: int, end: int, count: int, items: list[TxnOffsetCommitRequestPartition]
) -> int:
    """Version 2."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(TxnOffsetCommitRequestPartition, count)):
            item.unknown_tagged_fields = None

            at = "partition_index:i committed_offset:q committed_leader_epoch:i committed_metadata:h"
            (
                item.partition_index,
                item.committed_offset,
                item.committed_leader_epoch,
                length,
            ) = _S_iqih.unpack_from(buffer, position)
            position += 18

            at = "committed_metadata"
            if length == -1:
                item.committed_metadata = None
            else:
                stop = position + length
                if not position <= stop <= end:
                    raise bad_length(length, position, end, "bytes")
                item.committed_metadata = str(buffer[position:stop], "utf-8")
                position = stop
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_txn_offset_commit_request_partition_v2_list(
    items: list[TxnOffsetCommitRequestPartition], buffer: bytearray, position: int
) -> int:
    """Version 2."""
    at = ""
    item = None
    try:
        for item in items:
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "3-6")

            at = "partition_index:i committed_offset:q committed_leader_epoch:i"
            _S_iqi.pack_into(
                buffer,
                position,
                item.partition_index,
                item.committed_offset,
                item.committed_leader_epoch,
            )
            position += 16

            at = "committed_metadata"
            if item.committed_metadata is None:
                _S_h.pack_into(buffer, position, -1)
                position += 2
            else:
                data = item.committed_metadata.encode()
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


def _size_txn_offset_commit_request_partition_v2_list(items: list[TxnOffsetCommitRequestPartition]) -> int:
    """Version 2."""
    size = 18 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "committed_metadata"
            if item.committed_metadata is not None:
                length = text_bytes(item.committed_metadata)
                size += length
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_txn_offset_commit_request_partition_v3_list(
    buffer: bytes, position: int, end: int, count: int, items: list[TxnOffsetCommitRequestPartition]
) -> int:
    """Versions 3-6."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(TxnOffsetCommitRequestPartition, count)):
            at = "partition_index:i committed_offset:q committed_leader_epoch:i committed_metadata:B"
            (
                item.partition_index,
                item.committed_offset,
                item.committed_leader_epoch,
                length,
            ) = _S_iqiB.unpack_from(buffer, position)
            position += 17

            at = "committed_metadata"
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if length == -1:
                item.committed_metadata = None
            else:
                stop = position + length
                if stop > end or length > MAX_STRING_BYTES:
                    raise bad_length(length, position, end, "bytes")
                item.committed_metadata = str(buffer[position:stop], "utf-8")
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


def _encode_txn_offset_commit_request_partition_v3_list(
    items: list[TxnOffsetCommitRequestPartition], buffer: bytearray, position: int
) -> int:
    """Versions 3-6."""
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

            at = "committed_metadata"
            if item.committed_metadata is None:
                buffer[position] = 0
                position += 1
            else:
                data = item.committed_metadata.encode()
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


def _size_txn_offset_commit_request_partition_v3_list(items: list[TxnOffsetCommitRequestPartition]) -> int:
    """Versions 3-6."""
    size = 18 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "committed_metadata"
            if item.committed_metadata is not None:
                length = text_bytes(item.committed_metadata)
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


def _decode_txn_offset_commit_request_topic_v0_list(
    buffer: bytes, position: int, end: int, count: int, items: list[TxnOffsetCommitRequestTopic]
) -> int:
    """Versions 0-1."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(TxnOffsetCommitRequestTopic, count)):
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
            if not 0 <= length * 14 <= end - position:
                raise bad_length(length, position, end, "elements of at least 14 bytes")
            partitions: list[TxnOffsetCommitRequestPartition] = []
            item.partitions = partitions
            position = _decode_txn_offset_commit_request_partition_v0_list(buffer, position, end, length, partitions)
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_txn_offset_commit_request_topic_v0_list(
    items: list[TxnOffsetCommitRequestTopic], buffer: bytearray, position: int
) -> int:
    """Versions 0-1."""
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
            position = _encode_txn_offset_commit_request_partition_v0_list(item.partitions, buffer, position)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_txn_offset_commit_request_topic_v0_list(items: list[TxnOffsetCommitRequestTopic]) -> int:
    """Versions 0-1."""
    size = 6 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "name"
            length = text_bytes(item.name)
            size += length

            at = "partitions"
            size += _size_txn_offset_commit_request_partition_v0_list(item.partitions)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_txn_offset_commit_request_topic_v2_list(
    buffer: bytes, position: int, end: int, count: int, items: list[TxnOffsetCommitRequestTopic]
) -> int:
    """Version 2."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(TxnOffsetCommitRequestTopic, count)):
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
            if not 0 <= length * 18 <= end - position:
                raise bad_length(length, position, end, "elements of at least 18 bytes")
            partitions: list[TxnOffsetCommitRequestPartition] = []
            item.partitions = partitions
            position = _decode_txn_offset_commit_request_partition_v2_list(buffer, position, end, length, partitions)
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_txn_offset_commit_request_topic_v2_list(
    items: list[TxnOffsetCommitRequestTopic], buffer: bytearray, position: int
) -> int:
    """Version 2."""
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
            position = _encode_txn_offset_commit_request_partition_v2_list(item.partitions, buffer, position)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_txn_offset_commit_request_topic_v2_list(items: list[TxnOffsetCommitRequestTopic]) -> int:
    """Version 2."""
    size = 6 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "name"
            length = text_bytes(item.name)
            size += length

            at = "partitions"
            size += _size_txn_offset_commit_request_partition_v2_list(item.partitions)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_txn_offset_commit_request_topic_v3_list(
    buffer: bytes, position: int, end: int, count: int, items: list[TxnOffsetCommitRequestTopic]
) -> int:
    """Versions 3-5."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(TxnOffsetCommitRequestTopic, count)):
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
            if not 0 <= length * 18 <= end - position:
                raise bad_length(length, position, end, "elements of at least 18 bytes")
            partitions: list[TxnOffsetCommitRequestPartition] = []
            item.partitions = partitions
            position = _decode_txn_offset_commit_request_partition_v3_list(buffer, position, end, length, partitions)

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


def _encode_txn_offset_commit_request_topic_v3_list(
    items: list[TxnOffsetCommitRequestTopic], buffer: bytearray, position: int
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
            position = _encode_txn_offset_commit_request_partition_v3_list(item.partitions, buffer, position)

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


def _size_txn_offset_commit_request_topic_v3_list(items: list[TxnOffsetCommitRequestTopic]) -> int:
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
            size += _size_txn_offset_commit_request_partition_v3_list(item.partitions)

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_txn_offset_commit_request_topic_v6_list(
    buffer: bytes, position: int, end: int, count: int, items: list[TxnOffsetCommitRequestTopic]
) -> int:
    """Version 6."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(TxnOffsetCommitRequestTopic, count)):
            item.name = ""

            at = "topic_id:16s partitions:B"
            topic_id, length = _S_16sB.unpack_from(buffer, position)
            position += 17
            item.topic_id = ZERO_UUID if topic_id == ZERO_UUID_BYTES else UUID(bytes=topic_id)

            at = "partitions"
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if not 0 <= length * 18 <= end - position:
                raise bad_length(length, position, end, "elements of at least 18 bytes")
            partitions: list[TxnOffsetCommitRequestPartition] = []
            item.partitions = partitions
            position = _decode_txn_offset_commit_request_partition_v3_list(buffer, position, end, length, partitions)

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


def _encode_txn_offset_commit_request_topic_v6_list(
    items: list[TxnOffsetCommitRequestTopic], buffer: bytearray, position: int
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
            position = _encode_txn_offset_commit_request_partition_v3_list(item.partitions, buffer, position)

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


def _size_txn_offset_commit_request_topic_v6_list(items: list[TxnOffsetCommitRequestTopic]) -> int:
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
            size += _size_txn_offset_commit_request_partition_v3_list(item.partitions)

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_txn_offset_commit_request_v0(
    buffer: bytes, position: int, end: int
) -> tuple[TxnOffsetCommitRequest, int]:
    """Versions 0-1."""
    at = ""
    item = None
    try:
        item = _new(TxnOffsetCommitRequest)
        item.generation_id_or_member_epoch = -1
        item.member_id = ""
        item.group_instance_id = None
        item.unknown_tagged_fields = None

        at = "transactional_id"
        (length,) = _S_h.unpack_from(buffer, position)
        position += 2
        stop = position + length
        if not position <= stop <= end:
            raise bad_length(length, position, end, "bytes")
        item.transactional_id = str(buffer[position:stop], "utf-8")
        position = stop

        at = "group_id"
        (length,) = _S_h.unpack_from(buffer, position)
        position += 2
        stop = position + length
        if not position <= stop <= end:
            raise bad_length(length, position, end, "bytes")
        item.group_id = str(buffer[position:stop], "utf-8")
        position = stop

        at = "producer_id:q producer_epoch:h topics:i"
        item.producer_id, item.producer_epoch, length = _S_qhi.unpack_from(buffer, position)
        position += 14

        at = "topics"
        if not 0 <= length * 6 <= end - position:
            raise bad_length(length, position, end, "elements of at least 6 bytes")
        topics: list[TxnOffsetCommitRequestTopic] = []
        item.topics = topics
        position = _decode_txn_offset_commit_request_topic_v0_list(buffer, position, end, length, topics)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_txn_offset_commit_request_v0(
    item: TxnOffsetCommitRequest, buffer: bytearray, position: int
) -> int:
    """Versions 0-1."""
    at = ""
    try:
        if item.generation_id_or_member_epoch != -1:
            at = "generation_id_or_member_epoch"
            raise not_in_version(item.generation_id_or_member_epoch, "3-6")
        if item.member_id != "":
            at = "member_id"
            raise not_in_version(item.member_id, "3-6")
        if item.group_instance_id is not None:
            at = "group_instance_id"
            raise not_in_version(item.group_instance_id, "3-6")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "3-6")

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

        at = "producer_id:q producer_epoch:h"
        _S_qh.pack_into(buffer, position, item.producer_id, item.producer_epoch)
        position += 10

        at = "topics"
        length = len(item.topics)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_txn_offset_commit_request_topic_v0_list(item.topics, buffer, position)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_txn_offset_commit_request_v0(item: TxnOffsetCommitRequest) -> int:
    """Versions 0-1."""
    size = 18
    at = ""
    try:
        at = "transactional_id"
        length = text_bytes(item.transactional_id)
        size += length

        at = "group_id"
        length = text_bytes(item.group_id)
        size += length

        at = "topics"
        size += _size_txn_offset_commit_request_topic_v0_list(item.topics)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_txn_offset_commit_request_v2(
    buffer: bytes, position: int, end: int
) -> tuple[TxnOffsetCommitRequest, int]:
    """Version 2."""
    at = ""
    item = None
    try:
        item = _new(TxnOffsetCommitRequest)
        item.generation_id_or_member_epoch = -1
        item.member_id = ""
        item.group_instance_id = None
        item.unknown_tagged_fields = None

        at = "transactional_id"
        (length,) = _S_h.unpack_from(buffer, position)
        position += 2
        stop = position + length
        if not position <= stop <= end:
            raise bad_length(length, position, end, "bytes")
        item.transactional_id = str(buffer[position:stop], "utf-8")
        position = stop

        at = "group_id"
        (length,) = _S_h.unpack_from(buffer, position)
        position += 2
        stop = position + length
        if not position <= stop <= end:
            raise bad_length(length, position, end, "bytes")
        item.group_id = str(buffer[position:stop], "utf-8")
        position = stop

        at = "producer_id:q producer_epoch:h topics:i"
        item.producer_id, item.producer_epoch, length = _S_qhi.unpack_from(buffer, position)
        position += 14

        at = "topics"
        if not 0 <= length * 6 <= end - position:
            raise bad_length(length, position, end, "elements of at least 6 bytes")
        topics: list[TxnOffsetCommitRequestTopic] = []
        item.topics = topics
        position = _decode_txn_offset_commit_request_topic_v2_list(buffer, position, end, length, topics)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_txn_offset_commit_request_v2(
    item: TxnOffsetCommitRequest, buffer: bytearray, position: int
) -> int:
    """Version 2."""
    at = ""
    try:
        if item.generation_id_or_member_epoch != -1:
            at = "generation_id_or_member_epoch"
            raise not_in_version(item.generation_id_or_member_epoch, "3-6")
        if item.member_id != "":
            at = "member_id"
            raise not_in_version(item.member_id, "3-6")
        if item.group_instance_id is not None:
            at = "group_instance_id"
            raise not_in_version(item.group_instance_id, "3-6")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "3-6")

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

        at = "producer_id:q producer_epoch:h"
        _S_qh.pack_into(buffer, position, item.producer_id, item.producer_epoch)
        position += 10

        at = "topics"
        length = len(item.topics)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_txn_offset_commit_request_topic_v2_list(item.topics, buffer, position)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_txn_offset_commit_request_v2(item: TxnOffsetCommitRequest) -> int:
    """Version 2."""
    size = 18
    at = ""
    try:
        at = "transactional_id"
        length = text_bytes(item.transactional_id)
        size += length

        at = "group_id"
        length = text_bytes(item.group_id)
        size += length

        at = "topics"
        size += _size_txn_offset_commit_request_topic_v2_list(item.topics)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_txn_offset_commit_request_v3(
    buffer: bytes, position: int, end: int
) -> tuple[TxnOffsetCommitRequest, int]:
    """Versions 3-5."""
    at = ""
    item = None
    try:
        item = _new(TxnOffsetCommitRequest)

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

        at = "producer_id:q producer_epoch:h generation_id_or_member_epoch:i member_id:B"
        (
            item.producer_id,
            item.producer_epoch,
            item.generation_id_or_member_epoch,
            length,
        ) = _S_qhiB.unpack_from(buffer, position)
        position += 15

        at = "member_id"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        stop = position + length
        if not position <= stop <= end or length > MAX_STRING_BYTES:
            raise bad_length(length, position, end, "bytes")
        item.member_id = str(buffer[position:stop], "utf-8")
        position = stop

        at = "group_instance_id"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if length == -1:
            item.group_instance_id = None
        else:
            stop = position + length
            if stop > end or length > MAX_STRING_BYTES:
                raise bad_length(length, position, end, "bytes")
            item.group_instance_id = str(buffer[position:stop], "utf-8")
            position = stop

        at = "topics"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 3 <= end - position:
            raise bad_length(length, position, end, "elements of at least 3 bytes")
        topics: list[TxnOffsetCommitRequestTopic] = []
        item.topics = topics
        position = _decode_txn_offset_commit_request_topic_v3_list(buffer, position, end, length, topics)

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


def _encode_txn_offset_commit_request_v3(
    item: TxnOffsetCommitRequest, buffer: bytearray, position: int
) -> int:
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

        at = "producer_id:q producer_epoch:h generation_id_or_member_epoch:i"
        _S_qhi.pack_into(
            buffer,
            position,
            item.producer_id,
            item.producer_epoch,
            item.generation_id_or_member_epoch,
        )
        position += 14

        at = "member_id"
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

        at = "group_instance_id"
        if item.group_instance_id is None:
            buffer[position] = 0
            position += 1
        else:
            data = item.group_instance_id.encode()
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
        position = _encode_txn_offset_commit_request_topic_v3_list(item.topics, buffer, position)

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


def _size_txn_offset_commit_request_v3(item: TxnOffsetCommitRequest) -> int:
    """Versions 3-5."""
    size = 20
    at = ""
    try:
        at = "transactional_id"
        length = text_bytes(item.transactional_id)
        size += length
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1

        at = "group_id"
        length = text_bytes(item.group_id)
        size += length
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1

        at = "member_id"
        length = text_bytes(item.member_id)
        size += length
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1

        at = "group_instance_id"
        if item.group_instance_id is not None:
            length = text_bytes(item.group_instance_id)
            size += length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1

        at = "topics"
        length = len(item.topics)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_txn_offset_commit_request_topic_v3_list(item.topics)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_txn_offset_commit_request_v6(
    buffer: bytes, position: int, end: int
) -> tuple[TxnOffsetCommitRequest, int]:
    """Version 6."""
    at = ""
    item = None
    try:
        item = _new(TxnOffsetCommitRequest)

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

        at = "producer_id:q producer_epoch:h generation_id_or_member_epoch:i member_id:B"
        (
            item.producer_id,
            item.producer_epoch,
            item.generation_id_or_member_epoch,
            length,
        ) = _S_qhiB.unpack_from(buffer, position)
        position += 15

        at = "member_id"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        stop = position + length
        if not position <= stop <= end or length > MAX_STRING_BYTES:
            raise bad_length(length, position, end, "bytes")
        item.member_id = str(buffer[position:stop], "utf-8")
        position = stop

        at = "group_instance_id"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if length == -1:
            item.group_instance_id = None
        else:
            stop = position + length
            if stop > end or length > MAX_STRING_BYTES:
                raise bad_length(length, position, end, "bytes")
            item.group_instance_id = str(buffer[position:stop], "utf-8")
            position = stop

        at = "topics"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 18 <= end - position:
            raise bad_length(length, position, end, "elements of at least 18 bytes")
        topics: list[TxnOffsetCommitRequestTopic] = []
        item.topics = topics
        position = _decode_txn_offset_commit_request_topic_v6_list(buffer, position, end, length, topics)

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


def _encode_txn_offset_commit_request_v6(
    item: TxnOffsetCommitRequest, buffer: bytearray, position: int
) -> int:
    """Version 6."""
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

        at = "producer_id:q producer_epoch:h generation_id_or_member_epoch:i"
        _S_qhi.pack_into(
            buffer,
            position,
            item.producer_id,
            item.producer_epoch,
            item.generation_id_or_member_epoch,
        )
        position += 14

        at = "member_id"
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

        at = "group_instance_id"
        if item.group_instance_id is None:
            buffer[position] = 0
            position += 1
        else:
            data = item.group_instance_id.encode()
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
        position = _encode_txn_offset_commit_request_topic_v6_list(item.topics, buffer, position)

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


def _size_txn_offset_commit_request_v6(item: TxnOffsetCommitRequest) -> int:
    """Version 6."""
    size = 20
    at = ""
    try:
        at = "transactional_id"
        length = text_bytes(item.transactional_id)
        size += length
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1

        at = "group_id"
        length = text_bytes(item.group_id)
        size += length
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1

        at = "member_id"
        length = text_bytes(item.member_id)
        size += length
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1

        at = "group_instance_id"
        if item.group_instance_id is not None:
            length = text_bytes(item.group_instance_id)
            size += length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1

        at = "topics"
        length = len(item.topics)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_txn_offset_commit_request_topic_v6_list(item.topics)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


#: The wire layout of each decoder; compiled decoders interpret it (see _decoders.py).
_LAYOUTS: Layouts = {
    "txn_offset_commit_request_partition_v0": (
        TxnOffsetCommitRequestPartition,
        list,
        "partition_index:int32 committed_offset:int64 committed_metadata:nullable_string",
    ),
    "txn_offset_commit_request_partition_v2": (
        TxnOffsetCommitRequestPartition,
        list,
        "partition_index:int32 committed_offset:int64 committed_leader_epoch:int32 "
        "committed_metadata:nullable_string",
    ),
    "txn_offset_commit_request_partition_v3": (
        TxnOffsetCommitRequestPartition,
        list,
        "partition_index:int32 committed_offset:int64 committed_leader_epoch:int32 "
        "committed_metadata:compact_nullable_string tags",
    ),
    "txn_offset_commit_request_topic_v0": (
        TxnOffsetCommitRequestTopic,
        list,
        "name:string partitions:array(txn_offset_commit_request_partition_v0)",
    ),
    "txn_offset_commit_request_topic_v2": (
        TxnOffsetCommitRequestTopic,
        list,
        "name:string partitions:array(txn_offset_commit_request_partition_v2)",
    ),
    "txn_offset_commit_request_topic_v3": (
        TxnOffsetCommitRequestTopic,
        list,
        "name:compact_string partitions:compact_array(txn_offset_commit_request_partition_v3) tags",
    ),
    "txn_offset_commit_request_topic_v6": (
        TxnOffsetCommitRequestTopic,
        list,
        "topic_id:uuid partitions:compact_array(txn_offset_commit_request_partition_v3) tags",
    ),
    "txn_offset_commit_request_v0": (
        TxnOffsetCommitRequest,
        list,
        "transactional_id:string group_id:string producer_id:int64 producer_epoch:int16 "
        "topics:array(txn_offset_commit_request_topic_v0)",
    ),
    "txn_offset_commit_request_v2": (
        TxnOffsetCommitRequest,
        list,
        "transactional_id:string group_id:string producer_id:int64 producer_epoch:int16 "
        "topics:array(txn_offset_commit_request_topic_v2)",
    ),
    "txn_offset_commit_request_v3": (
        TxnOffsetCommitRequest,
        list,
        "transactional_id:compact_string group_id:compact_string producer_id:int64 producer_epoch:int16 "
        "generation_id_or_member_epoch:int32 member_id:compact_string "
        "group_instance_id:compact_nullable_string topics:compact_array(txn_offset_commit_request_topic_v3) "
        "tags",
    ),
    "txn_offset_commit_request_v6": (
        TxnOffsetCommitRequest,
        list,
        "transactional_id:compact_string group_id:compact_string producer_id:int64 producer_epoch:int16 "
        "generation_id_or_member_epoch:int32 member_id:compact_string "
        "group_instance_id:compact_nullable_string topics:compact_array(txn_offset_commit_request_topic_v6) "
        "tags",
    ),
}
_DECODE = decoders(
    {
        0: _decode_txn_offset_commit_request_v0,
        1: _decode_txn_offset_commit_request_v0,
        2: _decode_txn_offset_commit_request_v2,
        3: _decode_txn_offset_commit_request_v3,
        4: _decode_txn_offset_commit_request_v3,
        5: _decode_txn_offset_commit_request_v3,
        6: _decode_txn_offset_commit_request_v6,
    },
    _LAYOUTS,
)
_ENCODE = {
    0: _encode_txn_offset_commit_request_v0,
    1: _encode_txn_offset_commit_request_v0,
    2: _encode_txn_offset_commit_request_v2,
    3: _encode_txn_offset_commit_request_v3,
    4: _encode_txn_offset_commit_request_v3,
    5: _encode_txn_offset_commit_request_v3,
    6: _encode_txn_offset_commit_request_v6,
}
_SIZE = {
    0: _size_txn_offset_commit_request_v0,
    1: _size_txn_offset_commit_request_v0,
    2: _size_txn_offset_commit_request_v2,
    3: _size_txn_offset_commit_request_v3,
    4: _size_txn_offset_commit_request_v3,
    5: _size_txn_offset_commit_request_v3,
    6: _size_txn_offset_commit_request_v6,
}

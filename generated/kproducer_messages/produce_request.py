# DO NOT EDIT: generated from specs/ProduceRequest.json (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: 539f8dc276ecf2142a7549bb2d5ce816e89d42a96e5e554af8050e76d345f60a
"""ProduceRequest: a request of API 0, versions 3-13, flexible 9-13."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from operator import attrgetter
from struct import Struct
from typing import Any, ClassVar
from uuid import UUID

from ._decoders import Layouts, decoders
from ._keyed import KeyedList
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
    byte_length,
    byte_view,
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
    "PartitionProduceData",
    "ProduceRequest",
    "TopicProduceData",
    "TopicProduceDataCollection",
]

_S_16s = Struct(">16s")
_S_16sB = Struct(">16sB")
_S_h = Struct(">h")
_S_hi = Struct(">hi")
_S_hiB = Struct(">hiB")
_S_hii = Struct(">hii")
_S_i = Struct(">i")
_S_iB = Struct(">iB")
_S_ii = Struct(">ii")
_new = object.__new__


class PartitionProduceData(Plain):
    """Part of ProduceRequest.

    Attributes:
        index: Partition number. (int32, versions 0+)
        records: Exactly one record batch. (records, versions 0+; nullable in 0+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "records": bytes,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "index": 0,
        "records": b"",
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        index: int = 0,
        records: Buffer | None = b"",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.index: int = index
        self.records: Buffer | None = records
        self.unknown_tagged_fields = unknown_tagged_fields


class TopicProduceData(Plain):
    """Part of ProduceRequest.

    Attributes:
        name: Name of the topic. (string, versions 0-12; dropped if the version does not have it; a topicName)
        topic_id: Id of the topic. (uuid, versions 13+; dropped if the version does not have it)
        partition_data: The records, by partition. ([]PartitionProduceData, versions 0+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    #: The fields by which collections of this struct are indexed.
    MAP_KEYS: ClassVar[tuple[str, ...]] = ("name", "topic_id")
    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "topic_id": UUID,
        "partition_data": PartitionProduceData,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "name": "",
        "topic_id": ZERO_UUID,
        "partition_data": list,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: UUID = ZERO_UUID,
        partition_data: list[PartitionProduceData] = NEW,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.name: str = name
        self.topic_id: UUID = topic_id
        self.partition_data: list[PartitionProduceData] = [] if partition_data is NEW else partition_data
        self.unknown_tagged_fields = unknown_tagged_fields


class TopicProduceDataCollection(KeyedList[TopicProduceData]):
    """A list of TopicProduceData that finds its elements by name and topic_id."""

    __slots__ = ()
    KEY_OF = attrgetter("name", "topic_id")

    def find(self, name: str, topic_id: UUID) -> TopicProduceData | None:
        """The first element with this key, or ``None``."""
        return self._first((name, topic_id))

    def find_all(self, name: str, topic_id: UUID) -> list[TopicProduceData]:
        """All elements with this key, in their order."""
        return list(self._with_key((name, topic_id)))


class ProduceRequest(Plain):
    """A request. Not thread-safe: plain data.

    Attributes:
        transactional_id: Id of the transactional producer, or null. (string, versions 3+; nullable in 3+; a
            transactionalId)
        acks: The replicas that must have the records before the broker responds: 0 none (there is no
            response), 1 the leader, -1 all in-sync replicas. (int16, versions 0+)
        timeout_ms: How long the broker may wait for those acknowledgements, in milliseconds. (int32, versions
            0+)
        topic_data: The records, by topic. ([]TopicProduceData, versions 0+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    API_KEY: ClassVar[int] = 0
    MIN_VERSION: ClassVar[int] = 3
    MAX_VERSION: ClassVar[int] = 13
    #: Versions with compact lengths and tagged fields.
    FLEXIBLE_VERSIONS: ClassVar[range] = range(9, 14)
    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "topic_data": TopicProduceData,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "transactional_id": None,
        "acks": 0,
        "timeout_ms": 0,
        "topic_data": TopicProduceDataCollection,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        transactional_id: str | None = None,
        acks: int = 0,
        timeout_ms: int = 0,
        topic_data: Iterable[TopicProduceData] | None = (),
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.transactional_id: str | None = transactional_id
        self.acks: int = acks
        self.timeout_ms: int = timeout_ms
        self.topic_data: TopicProduceDataCollection = None if topic_data is None else TopicProduceDataCollection(topic_data)  # type: ignore[assignment]
        self.unknown_tagged_fields = unknown_tagged_fields

    def size(self, version: int) -> int:
        """Exact size of the encoded message in bytes, referenced bytes included.

        Raises:
            EncodeError: the version does not exist, or a field is null that must not be.
        """
        try:
            size_of = _SIZE[version]
        except KeyError:
            raise no_such_version(EncodeError, "ProduceRequest", version, 3, 13) from None
        try:
            return size_of(self)
        except EncodeError as error:
            raise error.of("ProduceRequest", version) from None

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
            raise no_such_version(EncodeError, "ProduceRequest", version, 3, 13) from None
        try:
            return encode(self, buffer, position, gather)
        except EncodeError as error:
            raise error.of("ProduceRequest", version) from None

    def encode(self, version: int) -> bytes:
        """The whole message as bytes. Raises EncodeError as ``encode_into`` does."""
        buffer = bytearray(self.size(version))
        self.encode_into(buffer, 0, version)
        return bytes(buffer)

    @classmethod
    def decode(
        cls, buffer: Buffer, version: int, position: int = 0
    ) -> tuple[ProduceRequest, int]:
        """Read one message; return it and the position after it. Further bytes are ignored.

        Byte fields that are not copied are views of ``buffer``.

        Raises:
            DecodeError: the version does not exist, or the bytes are not a valid message.
        """
        try:
            decode = _DECODE[version]
        except KeyError:
            raise no_such_version(DecodeError, "ProduceRequest", version, 3, 13) from None
        readable = memoryview(buffer).cast("B")
        try:
            if not 0 <= position <= len(readable):
                raise DecodeError(f"position {position} is outside the buffer of {len(readable)} bytes")
            return decode(readable, position, len(readable))
        except DecodeError as error:
            raise error.of("ProduceRequest", version) from None


def _decode_partition_produce_data_v3_list(
    buffer: memoryview, position: int, end: int, count: int, items: list[PartitionProduceData]
) -> int:
    """Versions 3-8."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(PartitionProduceData, count)):
            item.unknown_tagged_fields = None

            at = "index:i records:i"
            item.index, length = _S_ii.unpack_from(buffer, position)
            position += 8

            at = "records"
            if length == -1:
                item.records = None
            else:
                stop = position + length
                if not position <= stop <= end:
                    raise bad_length(length, position, end, "bytes")
                item.records = buffer[position:stop]
                position = stop
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_partition_produce_data_v3_list(
    items: list[PartitionProduceData], buffer: bytearray, position: int, gather: Gather | None
) -> int:
    """Versions 3-8."""
    at = ""
    item = None
    try:
        for item in items:
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "9-13")

            at = "index:i"
            _S_i.pack_into(buffer, position, item.index)
            position += 4

            at = "records"
            if item.records is None:
                _S_i.pack_into(buffer, position, -1)
                position += 4
            else:
                data = item.records
                length = data.nbytes if isinstance(data, memoryview) else len(data)
                _S_i.pack_into(buffer, position, length)
                position += 4
                if gather is None:
                    stop = position + length
                    buffer[position:stop] = data if type(data) is bytes else byte_view(data)
                    position = stop
                else:
                    gather.append((position, data))
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_partition_produce_data_v3_list(items: list[PartitionProduceData]) -> int:
    """Versions 3-8."""
    size = 8 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "records"
            if item.records is not None:
                data = item.records
                length = data.nbytes if isinstance(data, memoryview) else len(data)
                size += length
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _zero_copy_size_partition_produce_data_v3(item: PartitionProduceData) -> int:
    """Versions 3-8."""
    size = 0
    if item.records is not None:
        size += byte_length(item.records)
    return size

def _decode_partition_produce_data_v9_list(
    buffer: memoryview, position: int, end: int, count: int, items: list[PartitionProduceData]
) -> int:
    """Versions 9-13."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(PartitionProduceData, count)):
            at = "index:i records:B"
            item.index, length = _S_iB.unpack_from(buffer, position)
            position += 5

            at = "records"
            if length > 127:
                byte = buffer[position]
                if byte < 128:
                    length += (byte << 7) - 128
                    position += 1
                else:
                    length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if length == -1:
                item.records = None
            else:
                stop = position + length
                if stop > end:
                    raise bad_length(length, position, end, "bytes")
                item.records = buffer[position:stop]
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


def _encode_partition_produce_data_v9_list(
    items: list[PartitionProduceData], buffer: bytearray, position: int, gather: Gather | None
) -> int:
    """Versions 9-13."""
    at = ""
    item = None
    try:
        for item in items:
            at = "index:i"
            _S_i.pack_into(buffer, position, item.index)
            position += 4

            at = "records"
            if item.records is None:
                buffer[position] = 0
                position += 1
            else:
                data = item.records
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
        raise element_failed(error, items, item, at) from None
    return position


def _size_partition_produce_data_v9_list(items: list[PartitionProduceData]) -> int:
    """Versions 9-13."""
    size = 6 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "records"
            if item.records is not None:
                data = item.records
                length = data.nbytes if isinstance(data, memoryview) else len(data)
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


def _zero_copy_size_partition_produce_data_v9(item: PartitionProduceData) -> int:
    """Versions 9-13."""
    size = 0
    if item.records is not None:
        size += byte_length(item.records)
    return size

def _decode_topic_produce_data_v3_list(
    buffer: memoryview, position: int, end: int, count: int, items: list[TopicProduceData]
) -> int:
    """Versions 3-8."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(TopicProduceData, count)):
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

            at = "partition_data"
            (length,) = _S_i.unpack_from(buffer, position)
            position += 4
            if not 0 <= length * 8 <= end - position:
                raise bad_length(length, position, end, "elements of at least 8 bytes")
            partition_data: list[PartitionProduceData] = []
            item.partition_data = partition_data
            position = _decode_partition_produce_data_v3_list(buffer, position, end, length, partition_data)
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_topic_produce_data_v3_list(
    items: list[TopicProduceData], buffer: bytearray, position: int, gather: Gather | None
) -> int:
    """Versions 3-8."""
    at = ""
    item = None
    try:
        for item in items:
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "9-13")

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

            at = "partition_data"
            length = len(item.partition_data)
            _S_i.pack_into(buffer, position, length)
            position += 4
            position = _encode_partition_produce_data_v3_list(item.partition_data, buffer, position, gather)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_topic_produce_data_v3_list(items: list[TopicProduceData]) -> int:
    """Versions 3-8."""
    size = 6 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "name"
            length = text_bytes(item.name)
            size += length

            at = "partition_data"
            size += _size_partition_produce_data_v3_list(item.partition_data)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _zero_copy_size_topic_produce_data_v3(item: TopicProduceData) -> int:
    """Versions 3-8."""
    size = 0
    for partition_data_element in item.partition_data or ():
        size += _zero_copy_size_partition_produce_data_v3(partition_data_element)
    return size

def _decode_topic_produce_data_v9_list(
    buffer: memoryview, position: int, end: int, count: int, items: list[TopicProduceData]
) -> int:
    """Versions 9-12."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(TopicProduceData, count)):
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

            at = "partition_data"
            length = buffer[position]
            position += 1
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if not 0 <= length * 6 <= end - position:
                raise bad_length(length, position, end, "elements of at least 6 bytes")
            partition_data: list[PartitionProduceData] = []
            item.partition_data = partition_data
            position = _decode_partition_produce_data_v9_list(buffer, position, end, length, partition_data)

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


def _encode_topic_produce_data_v9_list(
    items: list[TopicProduceData], buffer: bytearray, position: int, gather: Gather | None
) -> int:
    """Versions 9-12."""
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

            at = "partition_data"
            length = len(item.partition_data)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            position = _encode_partition_produce_data_v9_list(item.partition_data, buffer, position, gather)

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


def _size_topic_produce_data_v9_list(items: list[TopicProduceData]) -> int:
    """Versions 9-12."""
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

            at = "partition_data"
            length = len(item.partition_data)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_partition_produce_data_v9_list(item.partition_data)

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _zero_copy_size_topic_produce_data_v9(item: TopicProduceData) -> int:
    """Versions 9-12."""
    size = 0
    for partition_data_element in item.partition_data or ():
        size += _zero_copy_size_partition_produce_data_v9(partition_data_element)
    return size

def _decode_topic_produce_data_v13_list(
    buffer: memoryview, position: int, end: int, count: int, items: list[TopicProduceData]
) -> int:
    """Version 13."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(TopicProduceData, count)):
            item.name = ""

            at = "topic_id:16s partition_data:B"
            topic_id, length = _S_16sB.unpack_from(buffer, position)
            position += 17
            item.topic_id = ZERO_UUID if topic_id == ZERO_UUID_BYTES else UUID(bytes=topic_id)

            at = "partition_data"
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if not 0 <= length * 6 <= end - position:
                raise bad_length(length, position, end, "elements of at least 6 bytes")
            partition_data: list[PartitionProduceData] = []
            item.partition_data = partition_data
            position = _decode_partition_produce_data_v9_list(buffer, position, end, length, partition_data)

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


def _encode_topic_produce_data_v13_list(
    items: list[TopicProduceData], buffer: bytearray, position: int, gather: Gather | None
) -> int:
    """Version 13."""
    at = ""
    item = None
    try:
        for item in items:
            at = "topic_id:16s"
            _S_16s.pack_into(buffer, position, item.topic_id.bytes)
            position += 16

            at = "partition_data"
            length = len(item.partition_data)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            position = _encode_partition_produce_data_v9_list(item.partition_data, buffer, position, gather)

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


def _size_topic_produce_data_v13_list(items: list[TopicProduceData]) -> int:
    """Version 13."""
    size = 18 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "partition_data"
            length = len(item.partition_data)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_partition_produce_data_v9_list(item.partition_data)

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _zero_copy_size_topic_produce_data_v13(item: TopicProduceData) -> int:
    """Version 13."""
    size = 0
    for partition_data_element in item.partition_data or ():
        size += _zero_copy_size_partition_produce_data_v9(partition_data_element)
    return size

def _decode_produce_request_v3(buffer: memoryview, position: int, end: int) -> tuple[ProduceRequest, int]:
    """Versions 3-8."""
    at = ""
    item = None
    try:
        item = _new(ProduceRequest)
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

        at = "acks:h timeout_ms:i topic_data:i"
        item.acks, item.timeout_ms, length = _S_hii.unpack_from(buffer, position)
        position += 10

        at = "topic_data"
        if not 0 <= length * 6 <= end - position:
            raise bad_length(length, position, end, "elements of at least 6 bytes")
        topic_data: TopicProduceDataCollection = TopicProduceDataCollection()
        item.topic_data = topic_data
        position = _decode_topic_produce_data_v3_list(buffer, position, end, length, topic_data)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_produce_request_v3(
    item: ProduceRequest, buffer: bytearray, position: int, gather: Gather | None
) -> int:
    """Versions 3-8."""
    at = ""
    try:
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "9-13")

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

        at = "acks:h timeout_ms:i"
        _S_hi.pack_into(buffer, position, item.acks, item.timeout_ms)
        position += 6

        at = "topic_data"
        length = len(item.topic_data)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_topic_produce_data_v3_list(item.topic_data, buffer, position, gather)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_produce_request_v3(item: ProduceRequest) -> int:
    """Versions 3-8."""
    size = 12
    at = ""
    try:
        at = "transactional_id"
        if item.transactional_id is not None:
            length = text_bytes(item.transactional_id)
            size += length

        at = "topic_data"
        size += _size_topic_produce_data_v3_list(item.topic_data)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _zero_copy_size_produce_request_v3(item: ProduceRequest) -> int:
    """Versions 3-8."""
    size = 0
    for topic_data_element in item.topic_data or ():
        size += _zero_copy_size_topic_produce_data_v3(topic_data_element)
    return size

def _decode_produce_request_v9(buffer: memoryview, position: int, end: int) -> tuple[ProduceRequest, int]:
    """Versions 9-12."""
    at = ""
    item = None
    try:
        item = _new(ProduceRequest)

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

        at = "acks:h timeout_ms:i topic_data:B"
        item.acks, item.timeout_ms, length = _S_hiB.unpack_from(buffer, position)
        position += 7

        at = "topic_data"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 3 <= end - position:
            raise bad_length(length, position, end, "elements of at least 3 bytes")
        topic_data: TopicProduceDataCollection = TopicProduceDataCollection()
        item.topic_data = topic_data
        position = _decode_topic_produce_data_v9_list(buffer, position, end, length, topic_data)

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


def _encode_produce_request_v9(
    item: ProduceRequest, buffer: bytearray, position: int, gather: Gather | None
) -> int:
    """Versions 9-12."""
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

        at = "acks:h timeout_ms:i"
        _S_hi.pack_into(buffer, position, item.acks, item.timeout_ms)
        position += 6

        at = "topic_data"
        length = len(item.topic_data)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_topic_produce_data_v9_list(item.topic_data, buffer, position, gather)

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


def _size_produce_request_v9(item: ProduceRequest) -> int:
    """Versions 9-12."""
    size = 9
    at = ""
    try:
        at = "transactional_id"
        if item.transactional_id is not None:
            length = text_bytes(item.transactional_id)
            size += length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1

        at = "topic_data"
        length = len(item.topic_data)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_topic_produce_data_v9_list(item.topic_data)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _zero_copy_size_produce_request_v9(item: ProduceRequest) -> int:
    """Versions 9-12."""
    size = 0
    for topic_data_element in item.topic_data or ():
        size += _zero_copy_size_topic_produce_data_v9(topic_data_element)
    return size

def _decode_produce_request_v13(buffer: memoryview, position: int, end: int) -> tuple[ProduceRequest, int]:
    """Version 13."""
    at = ""
    item = None
    try:
        item = _new(ProduceRequest)

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

        at = "acks:h timeout_ms:i topic_data:B"
        item.acks, item.timeout_ms, length = _S_hiB.unpack_from(buffer, position)
        position += 7

        at = "topic_data"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 18 <= end - position:
            raise bad_length(length, position, end, "elements of at least 18 bytes")
        topic_data: TopicProduceDataCollection = TopicProduceDataCollection()
        item.topic_data = topic_data
        position = _decode_topic_produce_data_v13_list(buffer, position, end, length, topic_data)

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


def _encode_produce_request_v13(
    item: ProduceRequest, buffer: bytearray, position: int, gather: Gather | None
) -> int:
    """Version 13."""
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

        at = "acks:h timeout_ms:i"
        _S_hi.pack_into(buffer, position, item.acks, item.timeout_ms)
        position += 6

        at = "topic_data"
        length = len(item.topic_data)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_topic_produce_data_v13_list(item.topic_data, buffer, position, gather)

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


def _size_produce_request_v13(item: ProduceRequest) -> int:
    """Version 13."""
    size = 9
    at = ""
    try:
        at = "transactional_id"
        if item.transactional_id is not None:
            length = text_bytes(item.transactional_id)
            size += length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1

        at = "topic_data"
        length = len(item.topic_data)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_topic_produce_data_v13_list(item.topic_data)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _zero_copy_size_produce_request_v13(item: ProduceRequest) -> int:
    """Version 13."""
    size = 0
    for topic_data_element in item.topic_data or ():
        size += _zero_copy_size_topic_produce_data_v13(topic_data_element)
    return size


#: The wire layout of each decoder; compiled decoders interpret it (see _decoders.py).
_LAYOUTS: Layouts = {
    "partition_produce_data_v3": (PartitionProduceData, list, "index:int32 records:nullable_view"),
    "partition_produce_data_v9": (
        PartitionProduceData,
        list,
        "index:int32 records:compact_nullable_view tags",
    ),
    "topic_produce_data_v3": (
        TopicProduceData,
        TopicProduceDataCollection,
        "name:string partition_data:array(partition_produce_data_v3)",
    ),
    "topic_produce_data_v9": (
        TopicProduceData,
        TopicProduceDataCollection,
        "name:compact_string partition_data:compact_array(partition_produce_data_v9) tags",
    ),
    "topic_produce_data_v13": (
        TopicProduceData,
        TopicProduceDataCollection,
        "topic_id:uuid partition_data:compact_array(partition_produce_data_v9) tags",
    ),
    "produce_request_v3": (
        ProduceRequest,
        list,
        "transactional_id:nullable_string acks:int16 timeout_ms:int32 "
        "topic_data:array(topic_produce_data_v3)",
    ),
    "produce_request_v9": (
        ProduceRequest,
        list,
        "transactional_id:compact_nullable_string acks:int16 timeout_ms:int32 "
        "topic_data:compact_array(topic_produce_data_v9) tags",
    ),
    "produce_request_v13": (
        ProduceRequest,
        list,
        "transactional_id:compact_nullable_string acks:int16 timeout_ms:int32 "
        "topic_data:compact_array(topic_produce_data_v13) tags",
    ),
}
_DECODE = decoders(
    {
        3: _decode_produce_request_v3,
        4: _decode_produce_request_v3,
        5: _decode_produce_request_v3,
        6: _decode_produce_request_v3,
        7: _decode_produce_request_v3,
        8: _decode_produce_request_v3,
        9: _decode_produce_request_v9,
        10: _decode_produce_request_v9,
        11: _decode_produce_request_v9,
        12: _decode_produce_request_v9,
        13: _decode_produce_request_v13,
    },
    _LAYOUTS,
)
_ENCODE = {
    3: _encode_produce_request_v3,
    4: _encode_produce_request_v3,
    5: _encode_produce_request_v3,
    6: _encode_produce_request_v3,
    7: _encode_produce_request_v3,
    8: _encode_produce_request_v3,
    9: _encode_produce_request_v9,
    10: _encode_produce_request_v9,
    11: _encode_produce_request_v9,
    12: _encode_produce_request_v9,
    13: _encode_produce_request_v13,
}
_SIZE = {
    3: _size_produce_request_v3,
    4: _size_produce_request_v3,
    5: _size_produce_request_v3,
    6: _size_produce_request_v3,
    7: _size_produce_request_v3,
    8: _size_produce_request_v3,
    9: _size_produce_request_v9,
    10: _size_produce_request_v9,
    11: _size_produce_request_v9,
    12: _size_produce_request_v9,
    13: _size_produce_request_v13,
}
_ZERO_COPY_SIZE = {
    3: _zero_copy_size_produce_request_v3,
    4: _zero_copy_size_produce_request_v3,
    5: _zero_copy_size_produce_request_v3,
    6: _zero_copy_size_produce_request_v3,
    7: _zero_copy_size_produce_request_v3,
    8: _zero_copy_size_produce_request_v3,
    9: _zero_copy_size_produce_request_v9,
    10: _zero_copy_size_produce_request_v9,
    11: _zero_copy_size_produce_request_v9,
    12: _zero_copy_size_produce_request_v9,
    13: _zero_copy_size_produce_request_v13,
}

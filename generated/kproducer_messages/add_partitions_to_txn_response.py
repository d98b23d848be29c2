# DO NOT EDIT: generated from specs/AddPartitionsToTxnResponse.json (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: 42b7ced35548b05ca11373d834247b299add4ec8c8bc895c619e54abd98f6553
"""AddPartitionsToTxnResponse: a response of API 24, versions 0-5, flexible 3-5."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from operator import attrgetter
from struct import Struct
from typing import Any, ClassVar

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
    "AddPartitionsToTxnPartitionResult",
    "AddPartitionsToTxnPartitionResultCollection",
    "AddPartitionsToTxnResponse",
    "AddPartitionsToTxnResult",
    "AddPartitionsToTxnResultCollection",
    "AddPartitionsToTxnTopicResult",
    "AddPartitionsToTxnTopicResultCollection",
]

_S_h = Struct(">h")
_S_i = Struct(">i")
_S_iB = Struct(">iB")
_S_ih = Struct(">ih")
_S_ihB = Struct(">ihB")
_S_ii = Struct(">ii")
_new = object.__new__


class AddPartitionsToTxnPartitionResult(Plain):
    """Part of AddPartitionsToTxnResponse.

    Attributes:
        partition_index: Partition number. (int32, versions 0+)
        partition_error_code: The error code of the partition, or 0. (int16, versions 0+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    #: The fields by which collections of this struct are indexed.
    MAP_KEYS: ClassVar[tuple[str, ...]] = ("partition_index",)
    FIELDS: ClassVar[dict[str, Any]] = {
        "partition_index": 0,
        "partition_error_code": 0,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        partition_index: int = 0,
        partition_error_code: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.partition_index: int = partition_index
        self.partition_error_code: int = partition_error_code
        self.unknown_tagged_fields = unknown_tagged_fields


class AddPartitionsToTxnPartitionResultCollection(KeyedList[AddPartitionsToTxnPartitionResult]):
    """A list of AddPartitionsToTxnPartitionResult that finds its elements by partition_index."""

    __slots__ = ()
    KEY_OF = attrgetter("partition_index")

    def find(self, partition_index: int) -> AddPartitionsToTxnPartitionResult | None:
        """The first element with this key, or ``None``."""
        return self._first(partition_index)

    def find_all(self, partition_index: int) -> list[AddPartitionsToTxnPartitionResult]:
        """All elements with this key, in their order."""
        return list(self._with_key(partition_index))


class AddPartitionsToTxnTopicResult(Plain):
    """Part of AddPartitionsToTxnResponse.

    Attributes:
        name: Name of the topic. (string, versions 0+; a topicName)
        results_by_partition: Results, by partition. ([]AddPartitionsToTxnPartitionResult, versions 0+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    #: The fields by which collections of this struct are indexed.
    MAP_KEYS: ClassVar[tuple[str, ...]] = ("name",)
    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "results_by_partition": AddPartitionsToTxnPartitionResult,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "name": "",
        "results_by_partition": AddPartitionsToTxnPartitionResultCollection,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        name: str = "",
        results_by_partition: Iterable[AddPartitionsToTxnPartitionResult] | None = (),
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.name: str = name
        self.results_by_partition: AddPartitionsToTxnPartitionResultCollection = None if results_by_partition is None else AddPartitionsToTxnPartitionResultCollection(results_by_partition)  # type: ignore[assignment]
        self.unknown_tagged_fields = unknown_tagged_fields


class AddPartitionsToTxnTopicResultCollection(KeyedList[AddPartitionsToTxnTopicResult]):
    """A list of AddPartitionsToTxnTopicResult that finds its elements by name."""

    __slots__ = ()
    KEY_OF = attrgetter("name")

    def find(self, name: str) -> AddPartitionsToTxnTopicResult | None:
        """The first element with this key, or ``None``."""
        return self._first(name)

    def find_all(self, name: str) -> list[AddPartitionsToTxnTopicResult]:
        """All elements with this key, in their order."""
        return list(self._with_key(name))


class AddPartitionsToTxnResult(Plain):
    """Part of AddPartitionsToTxnResponse.

    Attributes:
        transactional_id: The transactional id of the results. (string, versions 4+; a transactionalId)
        topic_results: Results, by topic. ([]AddPartitionsToTxnTopicResult, versions 4+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    #: The fields by which collections of this struct are indexed.
    MAP_KEYS: ClassVar[tuple[str, ...]] = ("transactional_id",)
    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "topic_results": AddPartitionsToTxnTopicResult,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "transactional_id": "",
        "topic_results": AddPartitionsToTxnTopicResultCollection,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        transactional_id: str = "",
        topic_results: Iterable[AddPartitionsToTxnTopicResult] | None = (),
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.transactional_id: str = transactional_id
        self.topic_results: AddPartitionsToTxnTopicResultCollection = None if topic_results is None else AddPartitionsToTxnTopicResultCollection(topic_results)  # type: ignore[assignment]
        self.unknown_tagged_fields = unknown_tagged_fields


class AddPartitionsToTxnResultCollection(KeyedList[AddPartitionsToTxnResult]):
    """A list of AddPartitionsToTxnResult that finds its elements by transactional_id."""

    __slots__ = ()
    KEY_OF = attrgetter("transactional_id")

    def find(self, transactional_id: str) -> AddPartitionsToTxnResult | None:
        """The first element with this key, or ``None``."""
        return self._first(transactional_id)

    def find_all(self, transactional_id: str) -> list[AddPartitionsToTxnResult]:
        """All elements with this key, in their order."""
        return list(self._with_key(transactional_id))


class AddPartitionsToTxnResponse(Plain):
    """A response. Not thread-safe: plain data.

    Attributes:
        throttle_time_ms: Time for which the quota delays the client, in milliseconds. (int32, versions 0+)
        error_code: The error code of the whole request, or 0. (int16, versions 4+; dropped if the version
            does not have it)
        results_by_transaction: Results, by transactional id. ([]AddPartitionsToTxnResult, versions 4+)
        results_by_topic_v3_and_below: Results, by topic. ([]AddPartitionsToTxnTopicResult, versions 0-3)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    API_KEY: ClassVar[int] = 24
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    #: Versions with compact lengths and tagged fields.
    FLEXIBLE_VERSIONS: ClassVar[range] = range(3, 6)
    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "results_by_transaction": AddPartitionsToTxnResult,
        "results_by_topic_v3_and_below": AddPartitionsToTxnTopicResult,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "throttle_time_ms": 0,
        "error_code": 0,
        "results_by_transaction": AddPartitionsToTxnResultCollection,
        "results_by_topic_v3_and_below": AddPartitionsToTxnTopicResultCollection,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results_by_transaction: Iterable[AddPartitionsToTxnResult] | None = (),
        results_by_topic_v3_and_below: Iterable[AddPartitionsToTxnTopicResult] | None = (),
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.results_by_transaction: AddPartitionsToTxnResultCollection = None if results_by_transaction is None else AddPartitionsToTxnResultCollection(results_by_transaction)  # type: ignore[assignment]
        self.results_by_topic_v3_and_below: AddPartitionsToTxnTopicResultCollection = None if results_by_topic_v3_and_below is None else AddPartitionsToTxnTopicResultCollection(results_by_topic_v3_and_below)  # type: ignore[assignment]
        self.unknown_tagged_fields = unknown_tagged_fields

    def size(self, version: int) -> int:
        """Exact size of the encoded message in bytes, referenced bytes included.

        Raises:
            EncodeError: the version does not exist, or a field is null that must not be.
        """
        try:
            size_of = _SIZE[version]
        except KeyError:
            raise no_such_version(EncodeError, "AddPartitionsToTxnResponse", version, 0, 5) from None
        try:
            return size_of(self)
        except EncodeError as error:
            raise error.of("AddPartitionsToTxnResponse", version) from None

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
            raise no_such_version(EncodeError, "AddPartitionsToTxnResponse", version, 0, 5) from None
        try:
            return encode(self, buffer, position)
        except EncodeError as error:
            raise error.of("AddPartitionsToTxnResponse", version) from None

    def encode(self, version: int) -> bytes:
        """The whole message as bytes. Raises EncodeError as ``encode_into`` does."""
        buffer = bytearray(self.size(version))
        self.encode_into(buffer, 0, version)
        return bytes(buffer)

    @classmethod
    def decode(
        cls, buffer: Buffer, version: int, position: int = 0
    ) -> tuple[AddPartitionsToTxnResponse, int]:
        """Read one message; return it and the position after it. Further bytes are ignored.

        Raises:
            DecodeError: the version does not exist, or the bytes are not a valid message.
        """
        try:
            decode = _DECODE[version]
        except KeyError:
            raise no_such_version(DecodeError, "AddPartitionsToTxnResponse", version, 0, 5) from None
        readable = buffer if type(buffer) is bytes else bytes(buffer)
        try:
            if not 0 <= position <= len(readable):
                raise DecodeError(f"position {position} is outside the buffer of {len(readable)} bytes")
            return decode(readable, position, len(readable))
        except DecodeError as error:
            raise error.of("AddPartitionsToTxnResponse", version) from None


def _decode_add_partitions_to_txn_partition_result_v0_list(
    buffer: bytes, position: int, end: int, count: int, items: list[AddPartitionsToTxnPartitionResult]
) -> int:
    """Versions 0-2."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(AddPartitionsToTxnPartitionResult, count)):
            item.unknown_tagged_fields = None

            at = "partition_index:i partition_error_code:h"
            item.partition_index, item.partition_error_code = _S_ih.unpack_from(buffer, position)
            position += 6
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_add_partitions_to_txn_partition_result_v0_list(
    items: list[AddPartitionsToTxnPartitionResult], buffer: bytearray, position: int
) -> int:
    """Versions 0-2."""
    at = ""
    item = None
    try:
        for item in items:
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "3-5")

            at = "partition_index:i partition_error_code:h"
            _S_ih.pack_into(buffer, position, item.partition_index, item.partition_error_code)
            position += 6
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_add_partitions_to_txn_partition_result_v0_list(
    items: list[AddPartitionsToTxnPartitionResult]
) -> int:
    """Versions 0-2."""
    size = 6 * len(items)
    return size


def _decode_add_partitions_to_txn_partition_result_v3_list(
    buffer: bytes, position: int, end: int, count: int, items: list[AddPartitionsToTxnPartitionResult]
) -> int:
    """Versions 3-5."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(AddPartitionsToTxnPartitionResult, count)):
            at = "partition_index:i partition_error_code:h tagged_fields:B"
            item.partition_index, item.partition_error_code, length = _S_ihB.unpack_from(buffer, position)
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


def _encode_add_partitions_to_txn_partition_result_v3_list(
    items: list[AddPartitionsToTxnPartitionResult], buffer: bytearray, position: int
) -> int:
    """Versions 3-5."""
    at = ""
    item = None
    try:
        for item in items:
            at = "partition_index:i partition_error_code:h"
            _S_ih.pack_into(buffer, position, item.partition_index, item.partition_error_code)
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


def _size_add_partitions_to_txn_partition_result_v3_list(
    items: list[AddPartitionsToTxnPartitionResult]
) -> int:
    """Versions 3-5."""
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


def _decode_add_partitions_to_txn_topic_result_v0_list(
    buffer: bytes, position: int, end: int, count: int, items: list[AddPartitionsToTxnTopicResult]
) -> int:
    """Versions 0-2."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(AddPartitionsToTxnTopicResult, count)):
            item.unknown_tagged_fields = None

            at = "name"
            (length,) = _S_h.unpack_from(buffer, position)
            position += 2
            stop = position + length
            if not position <= stop <= end:
                raise bad_length(length, position, end, "bytes")
            item.name = str(buffer[position:stop], "utf-8")
            position = stop

            at = "results_by_partition"
            (length,) = _S_i.unpack_from(buffer, position)
            position += 4
            if not 0 <= length * 6 <= end - position:
                raise bad_length(length, position, end, "elements of at least 6 bytes")
            results_by_partition: AddPartitionsToTxnPartitionResultCollection = AddPartitionsToTxnPartitionResultCollection()
            item.results_by_partition = results_by_partition
            position = _decode_add_partitions_to_txn_partition_result_v0_list(buffer, position, end, length, results_by_partition)
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_add_partitions_to_txn_topic_result_v0_list(
    items: list[AddPartitionsToTxnTopicResult], buffer: bytearray, position: int
) -> int:
    """Versions 0-2."""
    at = ""
    item = None
    try:
        for item in items:
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "3-5")

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

            at = "results_by_partition"
            length = len(item.results_by_partition)
            _S_i.pack_into(buffer, position, length)
            position += 4
            position = _encode_add_partitions_to_txn_partition_result_v0_list(item.results_by_partition, buffer, position)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_add_partitions_to_txn_topic_result_v0_list(items: list[AddPartitionsToTxnTopicResult]) -> int:
    """Versions 0-2."""
    size = 6 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "name"
            length = text_bytes(item.name)
            size += length

            at = "results_by_partition"
            size += _size_add_partitions_to_txn_partition_result_v0_list(item.results_by_partition)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_add_partitions_to_txn_topic_result_v3_list(
    buffer: bytes, position: int, end: int, count: int, items: list[AddPartitionsToTxnTopicResult]
) -> int:
    """Versions 3-5."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(AddPartitionsToTxnTopicResult, count)):
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

            at = "results_by_partition"
            length = buffer[position]
            position += 1
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if not 0 <= length * 7 <= end - position:
                raise bad_length(length, position, end, "elements of at least 7 bytes")
            results_by_partition: AddPartitionsToTxnPartitionResultCollection = AddPartitionsToTxnPartitionResultCollection()
            item.results_by_partition = results_by_partition
            position = _decode_add_partitions_to_txn_partition_result_v3_list(buffer, position, end, length, results_by_partition)

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


def _encode_add_partitions_to_txn_topic_result_v3_list(
    items: list[AddPartitionsToTxnTopicResult], buffer: bytearray, position: int
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

            at = "results_by_partition"
            length = len(item.results_by_partition)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            position = _encode_add_partitions_to_txn_partition_result_v3_list(item.results_by_partition, buffer, position)

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


def _size_add_partitions_to_txn_topic_result_v3_list(items: list[AddPartitionsToTxnTopicResult]) -> int:
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

            at = "results_by_partition"
            length = len(item.results_by_partition)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_add_partitions_to_txn_partition_result_v3_list(item.results_by_partition)

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_add_partitions_to_txn_result_v4_list(
    buffer: bytes, position: int, end: int, count: int, items: list[AddPartitionsToTxnResult]
) -> int:
    """Versions 4-5."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(AddPartitionsToTxnResult, count)):
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

            at = "topic_results"
            length = buffer[position]
            position += 1
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if not 0 <= length * 3 <= end - position:
                raise bad_length(length, position, end, "elements of at least 3 bytes")
            topic_results: AddPartitionsToTxnTopicResultCollection = AddPartitionsToTxnTopicResultCollection()
            item.topic_results = topic_results
            position = _decode_add_partitions_to_txn_topic_result_v3_list(buffer, position, end, length, topic_results)

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


def _encode_add_partitions_to_txn_result_v4_list(
    items: list[AddPartitionsToTxnResult], buffer: bytearray, position: int
) -> int:
    """Versions 4-5."""
    at = ""
    item = None
    try:
        for item in items:
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

            at = "topic_results"
            length = len(item.topic_results)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            position = _encode_add_partitions_to_txn_topic_result_v3_list(item.topic_results, buffer, position)

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


def _size_add_partitions_to_txn_result_v4_list(items: list[AddPartitionsToTxnResult]) -> int:
    """Versions 4-5."""
    size = 3 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "transactional_id"
            length = text_bytes(item.transactional_id)
            size += length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1

            at = "topic_results"
            length = len(item.topic_results)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_add_partitions_to_txn_topic_result_v3_list(item.topic_results)

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_add_partitions_to_txn_response_v0(
    buffer: bytes, position: int, end: int
) -> tuple[AddPartitionsToTxnResponse, int]:
    """Versions 0-2."""
    at = ""
    item = None
    try:
        item = _new(AddPartitionsToTxnResponse)
        item.error_code = 0
        item.results_by_transaction = AddPartitionsToTxnResultCollection()
        item.unknown_tagged_fields = None

        at = "throttle_time_ms:i results_by_topic_v3_and_below:i"
        item.throttle_time_ms, length = _S_ii.unpack_from(buffer, position)
        position += 8

        at = "results_by_topic_v3_and_below"
        if not 0 <= length * 6 <= end - position:
            raise bad_length(length, position, end, "elements of at least 6 bytes")
        results_by_topic_v3_and_below: AddPartitionsToTxnTopicResultCollection = AddPartitionsToTxnTopicResultCollection()
        item.results_by_topic_v3_and_below = results_by_topic_v3_and_below
        position = _decode_add_partitions_to_txn_topic_result_v0_list(buffer, position, end, length, results_by_topic_v3_and_below)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_add_partitions_to_txn_response_v0(
    item: AddPartitionsToTxnResponse, buffer: bytearray, position: int
) -> int:
    """Versions 0-2."""
    at = ""
    try:
        if (item.results_by_transaction is None or len(item.results_by_transaction) > 0):
            at = "results_by_transaction"
            raise not_in_version(item.results_by_transaction, "4-5")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "3-5")

        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4

        at = "results_by_topic_v3_and_below"
        length = len(item.results_by_topic_v3_and_below)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_add_partitions_to_txn_topic_result_v0_list(item.results_by_topic_v3_and_below, buffer, position)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_add_partitions_to_txn_response_v0(item: AddPartitionsToTxnResponse) -> int:
    """Versions 0-2."""
    size = 8
    at = ""
    try:
        at = "results_by_topic_v3_and_below"
        size += _size_add_partitions_to_txn_topic_result_v0_list(item.results_by_topic_v3_and_below)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_add_partitions_to_txn_response_v3(
    buffer: bytes, position: int, end: int
) -> tuple[AddPartitionsToTxnResponse, int]:
    """Version 3."""
    at = ""
    item = None
    try:
        item = _new(AddPartitionsToTxnResponse)
        item.error_code = 0
        item.results_by_transaction = AddPartitionsToTxnResultCollection()

        at = "throttle_time_ms:i results_by_topic_v3_and_below:B"
        item.throttle_time_ms, length = _S_iB.unpack_from(buffer, position)
        position += 5

        at = "results_by_topic_v3_and_below"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 3 <= end - position:
            raise bad_length(length, position, end, "elements of at least 3 bytes")
        results_by_topic_v3_and_below: AddPartitionsToTxnTopicResultCollection = AddPartitionsToTxnTopicResultCollection()
        item.results_by_topic_v3_and_below = results_by_topic_v3_and_below
        position = _decode_add_partitions_to_txn_topic_result_v3_list(buffer, position, end, length, results_by_topic_v3_and_below)

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


def _encode_add_partitions_to_txn_response_v3(
    item: AddPartitionsToTxnResponse, buffer: bytearray, position: int
) -> int:
    """Version 3."""
    at = ""
    try:
        if (item.results_by_transaction is None or len(item.results_by_transaction) > 0):
            at = "results_by_transaction"
            raise not_in_version(item.results_by_transaction, "4-5")

        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4

        at = "results_by_topic_v3_and_below"
        length = len(item.results_by_topic_v3_and_below)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_add_partitions_to_txn_topic_result_v3_list(item.results_by_topic_v3_and_below, buffer, position)

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


def _size_add_partitions_to_txn_response_v3(item: AddPartitionsToTxnResponse) -> int:
    """Version 3."""
    size = 6
    at = ""
    try:
        at = "results_by_topic_v3_and_below"
        length = len(item.results_by_topic_v3_and_below)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_add_partitions_to_txn_topic_result_v3_list(item.results_by_topic_v3_and_below)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_add_partitions_to_txn_response_v4(
    buffer: bytes, position: int, end: int
) -> tuple[AddPartitionsToTxnResponse, int]:
    """Versions 4-5."""
    at = ""
    item = None
    try:
        item = _new(AddPartitionsToTxnResponse)
        item.results_by_topic_v3_and_below = AddPartitionsToTxnTopicResultCollection()

        at = "throttle_time_ms:i error_code:h results_by_transaction:B"
        item.throttle_time_ms, item.error_code, length = _S_ihB.unpack_from(buffer, position)
        position += 7

        at = "results_by_transaction"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 3 <= end - position:
            raise bad_length(length, position, end, "elements of at least 3 bytes")
        results_by_transaction: AddPartitionsToTxnResultCollection = AddPartitionsToTxnResultCollection()
        item.results_by_transaction = results_by_transaction
        position = _decode_add_partitions_to_txn_result_v4_list(buffer, position, end, length, results_by_transaction)

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


def _encode_add_partitions_to_txn_response_v4(
    item: AddPartitionsToTxnResponse, buffer: bytearray, position: int
) -> int:
    """Versions 4-5."""
    at = ""
    try:
        if (item.results_by_topic_v3_and_below is None or len(item.results_by_topic_v3_and_below) > 0):
            at = "results_by_topic_v3_and_below"
            raise not_in_version(item.results_by_topic_v3_and_below, "0-3")

        at = "throttle_time_ms:i error_code:h"
        _S_ih.pack_into(buffer, position, item.throttle_time_ms, item.error_code)
        position += 6

        at = "results_by_transaction"
        length = len(item.results_by_transaction)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_add_partitions_to_txn_result_v4_list(item.results_by_transaction, buffer, position)

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


def _size_add_partitions_to_txn_response_v4(item: AddPartitionsToTxnResponse) -> int:
    """Versions 4-5."""
    size = 8
    at = ""
    try:
        at = "results_by_transaction"
        length = len(item.results_by_transaction)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_add_partitions_to_txn_result_v4_list(item.results_by_transaction)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


#: The wire layout of each decoder; compiled decoders interpret it (see _decoders.py).
_LAYOUTS: Layouts = {
    "add_partitions_to_txn_partition_result_v0": (
        AddPartitionsToTxnPartitionResult,
        AddPartitionsToTxnPartitionResultCollection,
        "partition_index:int32 partition_error_code:int16",
    ),
    "add_partitions_to_txn_partition_result_v3": (
        AddPartitionsToTxnPartitionResult,
        AddPartitionsToTxnPartitionResultCollection,
        "partition_index:int32 partition_error_code:int16 tags",
    ),
    "add_partitions_to_txn_topic_result_v0": (
        AddPartitionsToTxnTopicResult,
        AddPartitionsToTxnTopicResultCollection,
        "name:string results_by_partition:array(add_partitions_to_txn_partition_result_v0)",
    ),
    "add_partitions_to_txn_topic_result_v3": (
        AddPartitionsToTxnTopicResult,
        AddPartitionsToTxnTopicResultCollection,
        "name:compact_string results_by_partition:compact_array(add_partitions_to_txn_partition_result_v3) "
        "tags",
    ),
    "add_partitions_to_txn_result_v4": (
        AddPartitionsToTxnResult,
        AddPartitionsToTxnResultCollection,
        "transactional_id:compact_string topic_results:compact_array(add_partitions_to_txn_topic_result_v3) "
        "tags",
    ),
    "add_partitions_to_txn_response_v0": (
        AddPartitionsToTxnResponse,
        list,
        "throttle_time_ms:int32 results_by_topic_v3_and_below:array(add_partitions_to_txn_topic_result_v0)",
    ),
    "add_partitions_to_txn_response_v3": (
        AddPartitionsToTxnResponse,
        list,
        "throttle_time_ms:int32 "
        "results_by_topic_v3_and_below:compact_array(add_partitions_to_txn_topic_result_v3) tags",
    ),
    "add_partitions_to_txn_response_v4": (
        AddPartitionsToTxnResponse,
        list,
        "throttle_time_ms:int32 error_code:int16 "
        "results_by_transaction:compact_array(add_partitions_to_txn_result_v4) tags",
    ),
}
_DECODE = decoders(
    {
        0: _decode_add_partitions_to_txn_response_v0,
        1: _decode_add_partitions_to_txn_response_v0,
        2: _decode_add_partitions_to_txn_response_v0,
        3: _decode_add_partitions_to_txn_response_v3,
        4: _decode_add_partitions_to_txn_response_v4,
        5: _decode_add_partitions_to_txn_response_v4,
    },
    _LAYOUTS,
)
_ENCODE = {
    0: _encode_add_partitions_to_txn_response_v0,
    1: _encode_add_partitions_to_txn_response_v0,
    2: _encode_add_partitions_to_txn_response_v0,
    3: _encode_add_partitions_to_txn_response_v3,
    4: _encode_add_partitions_to_txn_response_v4,
    5: _encode_add_partitions_to_txn_response_v4,
}
_SIZE = {
    0: _size_add_partitions_to_txn_response_v0,
    1: _size_add_partitions_to_txn_response_v0,
    2: _size_add_partitions_to_txn_response_v0,
    3: _size_add_partitions_to_txn_response_v3,
    4: _size_add_partitions_to_txn_response_v4,
    5: _size_add_partitions_to_txn_response_v4,
}

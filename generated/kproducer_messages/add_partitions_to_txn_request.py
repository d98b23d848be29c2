# DO NOT EDIT: generated from specs/AddPartitionsToTxnRequest.json (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: 8a83d43b8cf16c91b5942be61d79e3bed05d5ba29e6ad28e670f71367d9d8d00
"""AddPartitionsToTxnRequest: a request of API 24, versions 0-5, flexible 3-5."""

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
    INT32S,
    INT32_READERS,
    MAX_STRING_BYTES,
    NEW,
    bad_length,
    check_unknown_tags,
    decode_failed,
    element_failed,
    encode_failed,
    no_such_version,
    not_in_version,
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
    "AddPartitionsToTxnRequest",
    "AddPartitionsToTxnTopic",
    "AddPartitionsToTxnTopicCollection",
    "AddPartitionsToTxnTransaction",
    "AddPartitionsToTxnTransactionCollection",
]

_S_h = Struct(">h")
_S_i = Struct(">i")
_S_qh = Struct(">qh")
_S_qht = Struct(">qh?")
_S_qhtB = Struct(">qh?B")
_S_qhB = Struct(">qhB")
_S_qhb = Struct(">qhb")
_S_qhbB = Struct(">qhbB")
_S_qhi = Struct(">qhi")
_new = object.__new__


class AddPartitionsToTxnTopic(Plain):
    """Part of AddPartitionsToTxnRequest.

    Attributes:
        name: Name of the topic. (string, versions 0+; a topicName)
        partitions: Partition numbers. ([]int32, versions 0+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    #: The fields by which collections of this struct are indexed.
    MAP_KEYS: ClassVar[tuple[str, ...]] = ("name",)
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
        partitions: list[int] = NEW,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.name: str = name
        self.partitions: list[int] = [] if partitions is NEW else partitions
        self.unknown_tagged_fields = unknown_tagged_fields


class AddPartitionsToTxnTopicCollection(KeyedList[AddPartitionsToTxnTopic]):
    """A list of AddPartitionsToTxnTopic that finds its elements by name."""

    __slots__ = ()
    KEY_OF = attrgetter("name")

    def find(self, name: str) -> AddPartitionsToTxnTopic | None:
        """The first element with this key, or ``None``."""
        return self._first(name)

    def find_all(self, name: str) -> list[AddPartitionsToTxnTopic]:
        """All elements with this key, in their order."""
        return list(self._with_key(name))


class AddPartitionsToTxnTransaction(Plain):
    """Part of AddPartitionsToTxnRequest.

    Attributes:
        transactional_id: The transactional id to add partitions for. (string, versions 4+; a transactionalId)
        producer_id: The producer id that belongs to the transactional id. (int64, versions 4+; a producerId)
        producer_epoch: The producer's current epoch. (int16, versions 4+)
        verify_only: Whether to only check that the partitions are part of the transaction. (bool, versions
            4+)
        topics: The topics to add to the transaction, or to check. ([]AddPartitionsToTxnTopic, versions 4+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    #: The fields by which collections of this struct are indexed.
    MAP_KEYS: ClassVar[tuple[str, ...]] = ("transactional_id",)
    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "topics": AddPartitionsToTxnTopic,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "transactional_id": "",
        "producer_id": 0,
        "producer_epoch": 0,
        "verify_only": False,
        "topics": AddPartitionsToTxnTopicCollection,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        verify_only: bool = False,
        topics: Iterable[AddPartitionsToTxnTopic] | None = (),
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.transactional_id: str = transactional_id
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.verify_only: bool = verify_only
        self.topics: AddPartitionsToTxnTopicCollection = None if topics is None else AddPartitionsToTxnTopicCollection(topics)  # type: ignore[assignment]
        self.unknown_tagged_fields = unknown_tagged_fields


class AddPartitionsToTxnTransactionCollection(KeyedList[AddPartitionsToTxnTransaction]):
    """A list of AddPartitionsToTxnTransaction that finds its elements by transactional_id."""

    __slots__ = ()
    KEY_OF = attrgetter("transactional_id")

    def find(self, transactional_id: str) -> AddPartitionsToTxnTransaction | None:
        """The first element with this key, or ``None``."""
        return self._first(transactional_id)

    def find_all(self, transactional_id: str) -> list[AddPartitionsToTxnTransaction]:
        """All elements with this key, in their order."""
        return list(self._with_key(transactional_id))


class AddPartitionsToTxnRequest(Plain):
    """A request. Not thread-safe: plain data.

    Attributes:
        transactions: The transactions, in the form that brokers send. ([]AddPartitionsToTxnTransaction,
            versions 4+)
        v3_and_below_transactional_id: The producer's transactional id. (string, versions 0-3; a
            transactionalId)
        v3_and_below_producer_id: The producer id that belongs to the transactional id. (int64, versions 0-3;
            a producerId)
        v3_and_below_producer_epoch: The producer's current epoch. (int16, versions 0-3)
        v3_and_below_topics: The topics to add to the transaction. ([]AddPartitionsToTxnTopic, versions 0-3)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    API_KEY: ClassVar[int] = 24
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    #: Versions with compact lengths and tagged fields.
    FLEXIBLE_VERSIONS: ClassVar[range] = range(3, 6)
    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "transactions": AddPartitionsToTxnTransaction,
        "v3_and_below_topics": AddPartitionsToTxnTopic,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "transactions": AddPartitionsToTxnTransactionCollection,
        "v3_and_below_transactional_id": "",
        "v3_and_below_producer_id": 0,
        "v3_and_below_producer_epoch": 0,
        "v3_and_below_topics": AddPartitionsToTxnTopicCollection,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        transactions: Iterable[AddPartitionsToTxnTransaction] | None = (),
        v3_and_below_transactional_id: str = "",
        v3_and_below_producer_id: int = 0,
        v3_and_below_producer_epoch: int = 0,
        v3_and_below_topics: Iterable[AddPartitionsToTxnTopic] | None = (),
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.transactions: AddPartitionsToTxnTransactionCollection = None if transactions is None else AddPartitionsToTxnTransactionCollection(transactions)  # type: ignore[assignment]
        self.v3_and_below_transactional_id: str = v3_and_below_transactional_id
        self.v3_and_below_producer_id: int = v3_and_below_producer_id
        self.v3_and_below_producer_epoch: int = v3_and_below_producer_epoch
        self.v3_and_below_topics: AddPartitionsToTxnTopicCollection = None if v3_and_below_topics is None else AddPartitionsToTxnTopicCollection(v3_and_below_topics)  # type: ignore[assignment]
        self.unknown_tagged_fields = unknown_tagged_fields

    def size(self, version: int) -> int:
        """Exact size of the encoded message in bytes, referenced bytes included.

        Raises:
            EncodeError: the version does not exist, or a field is null that must not be.
        """
        try:
            size_of = _SIZE[version]
        except KeyError:
            raise no_such_version(EncodeError, "AddPartitionsToTxnRequest", version, 0, 5) from None
        try:
            return size_of(self)
        except EncodeError as error:
            raise error.of("AddPartitionsToTxnRequest", version) from None

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
            raise no_such_version(EncodeError, "AddPartitionsToTxnRequest", version, 0, 5) from None
        try:
            return encode(self, buffer, position)
        except EncodeError as error:
            raise error.of("AddPartitionsToTxnRequest", version) from None

    def encode(self, version: int) -> bytes:
        """The whole message as bytes. Raises EncodeError as ``encode_into`` does."""
        buffer = bytearray(self.size(version))
        self.encode_into(buffer, 0, version)
        return bytes(buffer)

    @classmethod
    def decode(
        cls, buffer: Buffer, version: int, position: int = 0
    ) -> tuple[AddPartitionsToTxnRequest, int]:
        """Read one message; return it and the position after it. Further bytes are ignored.

        Raises:
            DecodeError: the version does not exist, or the bytes are not a valid message.
        """
        try:
            decode = _DECODE[version]
        except KeyError:
            raise no_such_version(DecodeError, "AddPartitionsToTxnRequest", version, 0, 5) from None
        readable = buffer if type(buffer) is bytes else bytes(buffer)
        try:
            if not 0 <= position <= len(readable):
                raise DecodeError(f"position {position} is outside the buffer of {len(readable)} bytes")
            return decode(readable, position, len(readable))
        except DecodeError as error:
            raise error.of("AddPartitionsToTxnRequest", version) from None


def _decode_add_partitions_to_txn_topic_v0_list(
    buffer: bytes, position: int, end: int, count: int, items: list[AddPartitionsToTxnTopic]
) -> int:
    """Versions 0-2."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(AddPartitionsToTxnTopic, count)):
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
            if length == 0:
                item.partitions = []
            elif 0 < length < 128:
                item.partitions = [*INT32_READERS[length](buffer, position)]
                position += 4 * length
            else:
                item.partitions, position = read_numbers(buffer, position, length, end, "i")
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_add_partitions_to_txn_topic_v0_list(
    items: list[AddPartitionsToTxnTopic], buffer: bytearray, position: int
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

            at = "partitions:[i]"
            partitions = item.partitions
            length = len(partitions)
            _S_i.pack_into(buffer, position, length)
            position += 4
            INT32S[length].pack_into(buffer, position, *partitions)
            position += 4 * length
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_add_partitions_to_txn_topic_v0_list(items: list[AddPartitionsToTxnTopic]) -> int:
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
            length = len(item.partitions)
            size += 4 * length
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_add_partitions_to_txn_topic_v3_list(
    buffer: bytes, position: int, end: int, count: int, items: list[AddPartitionsToTxnTopic]
) -> int:
    """Versions 3-5."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(AddPartitionsToTxnTopic, count)):
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
            if length == 1:
                item.partitions = []
            elif 1 < length < 128:
                length -= 1
                item.partitions = [*INT32_READERS[length](buffer, position)]
                position += 4 * length
            else:
                length, position = read_long_length(buffer, position, length)
                item.partitions, position = read_numbers(buffer, position, length, end, "i")

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


def _encode_add_partitions_to_txn_topic_v3_list(
    items: list[AddPartitionsToTxnTopic], buffer: bytearray, position: int
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

            at = "partitions:[i]"
            partitions = item.partitions
            length = len(partitions)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            INT32S[length].pack_into(buffer, position, *partitions)
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


def _size_add_partitions_to_txn_topic_v3_list(items: list[AddPartitionsToTxnTopic]) -> int:
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


def _decode_add_partitions_to_txn_transaction_v4_list(
    buffer: bytes, position: int, end: int, count: int, items: list[AddPartitionsToTxnTransaction]
) -> int:
    """Versions 4-5."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(AddPartitionsToTxnTransaction, count)):
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

            at = "producer_id:q producer_epoch:h verify_only:? topics:B"
            (
                item.producer_id,
                item.producer_epoch,
                item.verify_only,
                length,
            ) = _S_qhtB.unpack_from(buffer, position)
            position += 12

            at = "topics"
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if not 0 <= length * 3 <= end - position:
                raise bad_length(length, position, end, "elements of at least 3 bytes")
            topics: AddPartitionsToTxnTopicCollection = AddPartitionsToTxnTopicCollection()
            item.topics = topics
            position = _decode_add_partitions_to_txn_topic_v3_list(buffer, position, end, length, topics)

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


def _encode_add_partitions_to_txn_transaction_v4_list(
    items: list[AddPartitionsToTxnTransaction], buffer: bytearray, position: int
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

            at = "producer_id:q producer_epoch:h verify_only:?"
            _S_qhb.pack_into(buffer, position, item.producer_id, item.producer_epoch, item.verify_only)
            position += 11

            at = "topics"
            length = len(item.topics)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            position = _encode_add_partitions_to_txn_topic_v3_list(item.topics, buffer, position)

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


def _size_add_partitions_to_txn_transaction_v4_list(items: list[AddPartitionsToTxnTransaction]) -> int:
    """Versions 4-5."""
    size = 14 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "transactional_id"
            length = text_bytes(item.transactional_id)
            size += length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1

            at = "topics"
            length = len(item.topics)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_add_partitions_to_txn_topic_v3_list(item.topics)

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_add_partitions_to_txn_request_v0(
    buffer: bytes, position: int, end: int
) -> tuple[AddPartitionsToTxnRequest, int]:
    """Versions 0-2."""
    at = ""
    item = None
    try:
        item = _new(AddPartitionsToTxnRequest)
        item.transactions = AddPartitionsToTxnTransactionCollection()
        item.unknown_tagged_fields = None

        at = "v3_and_below_transactional_id"
        (length,) = _S_h.unpack_from(buffer, position)
        position += 2
        stop = position + length
        if not position <= stop <= end:
            raise bad_length(length, position, end, "bytes")
        item.v3_and_below_transactional_id = str(buffer[position:stop], "utf-8")
        position = stop

        at = "v3_and_below_producer_id:q v3_and_below_producer_epoch:h v3_and_below_topics:i"
        (
            item.v3_and_below_producer_id,
            item.v3_and_below_producer_epoch,
            length,
        ) = _S_qhi.unpack_from(buffer, position)
        position += 14

        at = "v3_and_below_topics"
        if not 0 <= length * 6 <= end - position:
            raise bad_length(length, position, end, "elements of at least 6 bytes")
        v3_and_below_topics: AddPartitionsToTxnTopicCollection = AddPartitionsToTxnTopicCollection()
        item.v3_and_below_topics = v3_and_below_topics
        position = _decode_add_partitions_to_txn_topic_v0_list(buffer, position, end, length, v3_and_below_topics)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_add_partitions_to_txn_request_v0(
    item: AddPartitionsToTxnRequest, buffer: bytearray, position: int
) -> int:
    """Versions 0-2."""
    at = ""
    try:
        if (item.transactions is None or len(item.transactions) > 0):
            at = "transactions"
            raise not_in_version(item.transactions, "4-5")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "3-5")

        at = "v3_and_below_transactional_id"
        data = item.v3_and_below_transactional_id.encode()
        length = len(data)
        if length > MAX_STRING_BYTES:
            raise string_too_long(length)
        _S_h.pack_into(buffer, position, length)
        position += 2
        stop = position + length
        buffer[position:stop] = data
        position = stop

        at = "v3_and_below_producer_id:q v3_and_below_producer_epoch:h"
        _S_qh.pack_into(buffer, position, item.v3_and_below_producer_id, item.v3_and_below_producer_epoch)
        position += 10

        at = "v3_and_below_topics"
        length = len(item.v3_and_below_topics)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_add_partitions_to_txn_topic_v0_list(item.v3_and_below_topics, buffer, position)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_add_partitions_to_txn_request_v0(item: AddPartitionsToTxnRequest) -> int:
    """Versions 0-2."""
    size = 16
    at = ""
    try:
        at = "v3_and_below_transactional_id"
        length = text_bytes(item.v3_and_below_transactional_id)
        size += length

        at = "v3_and_below_topics"
        size += _size_add_partitions_to_txn_topic_v0_list(item.v3_and_below_topics)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_add_partitions_to_txn_request_v3(
    buffer: bytes, position: int, end: int
) -> tuple[AddPartitionsToTxnRequest, int]:
    """Version 3."""
    at = ""
    item = None
    try:
        item = _new(AddPartitionsToTxnRequest)
        item.transactions = AddPartitionsToTxnTransactionCollection()

        at = "v3_and_below_transactional_id"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        stop = position + length
        if not position <= stop <= end or length > MAX_STRING_BYTES:
            raise bad_length(length, position, end, "bytes")
        item.v3_and_below_transactional_id = str(buffer[position:stop], "utf-8")
        position = stop

        at = "v3_and_below_producer_id:q v3_and_below_producer_epoch:h v3_and_below_topics:B"
        (
            item.v3_and_below_producer_id,
            item.v3_and_below_producer_epoch,
            length,
        ) = _S_qhB.unpack_from(buffer, position)
        position += 11

        at = "v3_and_below_topics"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 3 <= end - position:
            raise bad_length(length, position, end, "elements of at least 3 bytes")
        v3_and_below_topics: AddPartitionsToTxnTopicCollection = AddPartitionsToTxnTopicCollection()
        item.v3_and_below_topics = v3_and_below_topics
        position = _decode_add_partitions_to_txn_topic_v3_list(buffer, position, end, length, v3_and_below_topics)

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


def _encode_add_partitions_to_txn_request_v3(
    item: AddPartitionsToTxnRequest, buffer: bytearray, position: int
) -> int:
    """Version 3."""
    at = ""
    try:
        if (item.transactions is None or len(item.transactions) > 0):
            at = "transactions"
            raise not_in_version(item.transactions, "4-5")

        at = "v3_and_below_transactional_id"
        data = item.v3_and_below_transactional_id.encode()
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

        at = "v3_and_below_producer_id:q v3_and_below_producer_epoch:h"
        _S_qh.pack_into(buffer, position, item.v3_and_below_producer_id, item.v3_and_below_producer_epoch)
        position += 10

        at = "v3_and_below_topics"
        length = len(item.v3_and_below_topics)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_add_partitions_to_txn_topic_v3_list(item.v3_and_below_topics, buffer, position)

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


def _size_add_partitions_to_txn_request_v3(item: AddPartitionsToTxnRequest) -> int:
    """Version 3."""
    size = 13
    at = ""
    try:
        at = "v3_and_below_transactional_id"
        length = text_bytes(item.v3_and_below_transactional_id)
        size += length
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1

        at = "v3_and_below_topics"
        length = len(item.v3_and_below_topics)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_add_partitions_to_txn_topic_v3_list(item.v3_and_below_topics)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_add_partitions_to_txn_request_v4(
    buffer: bytes, position: int, end: int
) -> tuple[AddPartitionsToTxnRequest, int]:
    """Versions 4-5."""
    at = ""
    item = None
    try:
        item = _new(AddPartitionsToTxnRequest)
        item.v3_and_below_transactional_id = ""
        item.v3_and_below_producer_id = 0
        item.v3_and_below_producer_epoch = 0
        item.v3_and_below_topics = AddPartitionsToTxnTopicCollection()

        at = "transactions"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 14 <= end - position:
            raise bad_length(length, position, end, "elements of at least 14 bytes")
        transactions: AddPartitionsToTxnTransactionCollection = AddPartitionsToTxnTransactionCollection()
        item.transactions = transactions
        position = _decode_add_partitions_to_txn_transaction_v4_list(buffer, position, end, length, transactions)

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


def _encode_add_partitions_to_txn_request_v4(
    item: AddPartitionsToTxnRequest, buffer: bytearray, position: int
) -> int:
    """Versions 4-5."""
    at = ""
    try:
        if item.v3_and_below_transactional_id != "":
            at = "v3_and_below_transactional_id"
            raise not_in_version(item.v3_and_below_transactional_id, "0-3")
        if item.v3_and_below_producer_id != 0:
            at = "v3_and_below_producer_id"
            raise not_in_version(item.v3_and_below_producer_id, "0-3")
        if item.v3_and_below_producer_epoch != 0:
            at = "v3_and_below_producer_epoch"
            raise not_in_version(item.v3_and_below_producer_epoch, "0-3")
        if (item.v3_and_below_topics is None or len(item.v3_and_below_topics) > 0):
            at = "v3_and_below_topics"
            raise not_in_version(item.v3_and_below_topics, "0-3")

        at = "transactions"
        length = len(item.transactions)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_add_partitions_to_txn_transaction_v4_list(item.transactions, buffer, position)

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


def _size_add_partitions_to_txn_request_v4(item: AddPartitionsToTxnRequest) -> int:
    """Versions 4-5."""
    size = 2
    at = ""
    try:
        at = "transactions"
        length = len(item.transactions)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_add_partitions_to_txn_transaction_v4_list(item.transactions)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


#: The wire layout of each decoder; compiled decoders interpret it (see _decoders.py).
_LAYOUTS: Layouts = {
    "add_partitions_to_txn_topic_v0": (
        AddPartitionsToTxnTopic,
        AddPartitionsToTxnTopicCollection,
        "name:string partitions:array(int32)",
    ),
    "add_partitions_to_txn_topic_v3": (
        AddPartitionsToTxnTopic,
        AddPartitionsToTxnTopicCollection,
        "name:compact_string partitions:compact_array(int32) tags",
    ),
    "add_partitions_to_txn_transaction_v4": (
        AddPartitionsToTxnTransaction,
        AddPartitionsToTxnTransactionCollection,
        "transactional_id:compact_string producer_id:int64 producer_epoch:int16 verify_only:bool "
        "topics:compact_array(add_partitions_to_txn_topic_v3) tags",
    ),
    "add_partitions_to_txn_request_v0": (
        AddPartitionsToTxnRequest,
        list,
        "v3_and_below_transactional_id:string v3_and_below_producer_id:int64 "
        "v3_and_below_producer_epoch:int16 v3_and_below_topics:array(add_partitions_to_txn_topic_v0)",
    ),
    "add_partitions_to_txn_request_v3": (
        AddPartitionsToTxnRequest,
        list,
        "v3_and_below_transactional_id:compact_string v3_and_below_producer_id:int64 "
        "v3_and_below_producer_epoch:int16 "
        "v3_and_below_topics:compact_array(add_partitions_to_txn_topic_v3) tags",
    ),
    "add_partitions_to_txn_request_v4": (
        AddPartitionsToTxnRequest,
        list,
        "transactions:compact_array(add_partitions_to_txn_transaction_v4) tags",
    ),
}
_DECODE = decoders(
    {
        0: _decode_add_partitions_to_txn_request_v0,
        1: _decode_add_partitions_to_txn_request_v0,
        2: _decode_add_partitions_to_txn_request_v0,
        3: _decode_add_partitions_to_txn_request_v3,
        4: _decode_add_partitions_to_txn_request_v4,
        5: _decode_add_partitions_to_txn_request_v4,
    },
    _LAYOUTS,
)
_ENCODE = {
    0: _encode_add_partitions_to_txn_request_v0,
    1: _encode_add_partitions_to_txn_request_v0,
    2: _encode_add_partitions_to_txn_request_v0,
    3: _encode_add_partitions_to_txn_request_v3,
    4: _encode_add_partitions_to_txn_request_v4,
    5: _encode_add_partitions_to_txn_request_v4,
}
_SIZE = {
    0: _size_add_partitions_to_txn_request_v0,
    1: _size_add_partitions_to_txn_request_v0,
    2: _size_add_partitions_to_txn_request_v0,
    3: _size_add_partitions_to_txn_request_v3,
    4: _size_add_partitions_to_txn_request_v4,
    5: _size_add_partitions_to_txn_request_v4,
}

# DO NOT EDIT: generated from specs/ProduceResponse.json (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: 8c87fdefa14fc1ac7b7bbc0b3fd84b9b9b10f333304d9813fb26c69b66b2b669
"""ProduceResponse: a response of API 0, versions 3-13, flexible 9-13."""

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
    check_unknown_tags,
    decode_failed,
    element_failed,
    encode_failed,
    no_such_version,
    not_in_version,
    read_tag,
    read_unknown_tags,
    read_uvarint_rest,
    string_too_long,
    tag_overrun,
    text_bytes,
    unknown_tags_size,
    uvarint_size,
    write_unknown_tags,
    write_uvarint,
)

__all__ = [
    "BatchIndexAndErrorMessage",
    "LeaderIdAndEpoch",
    "NodeEndpoint",
    "NodeEndpointCollection",
    "PartitionProduceResponse",
    "ProduceResponse",
    "TopicProduceResponse",
    "TopicProduceResponseCollection",
]

_S_ = Struct(">")
_S_16s = Struct(">16s")
_S_16sB = Struct(">16sB")
_S_h = Struct(">h")
_S_i = Struct(">i")
_S_iB = Struct(">iB")
_S_ih = Struct(">ih")
_S_ihqq = Struct(">ihqq")
_S_ihqqq = Struct(">ihqqq")
_S_ihqqqB = Struct(">ihqqqB")
_S_ihqqqi = Struct(">ihqqqi")
_S_ii = Struct(">ii")
_S_iiB = Struct(">iiB")
_new = object.__new__


class BatchIndexAndErrorMessage(Plain):
    """Part of ProduceResponse.

    Attributes:
        batch_index: Position of the record in its batch, from 0. (int32, versions 8+)
        batch_index_error_message: The error message of the record. (string, versions 8+; nullable in 8+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    FIELDS: ClassVar[dict[str, Any]] = {
        "batch_index": 0,
        "batch_index_error_message": None,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        batch_index: int = 0,
        batch_index_error_message: str | None = None,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.batch_index: int = batch_index
        self.batch_index_error_message: str | None = batch_index_error_message
        self.unknown_tagged_fields = unknown_tagged_fields


class LeaderIdAndEpoch(Plain):
    """Part of ProduceResponse.

    Attributes:
        leader_id: The new leader; -1 if unknown. (int32, versions 10+; a brokerId)
        leader_epoch: Epoch of the new leader; -1 if unknown. (int32, versions 10+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    FIELDS: ClassVar[dict[str, Any]] = {
        "leader_id": -1,
        "leader_epoch": -1,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        leader_id: int = -1,
        leader_epoch: int = -1,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.leader_id: int = leader_id
        self.leader_epoch: int = leader_epoch
        self.unknown_tagged_fields = unknown_tagged_fields


class PartitionProduceResponse(Plain):
    """Part of ProduceResponse.

    Attributes:
        index: Partition number. (int32, versions 0+)
        error_code: The error code of the batch, or 0. (int16, versions 0+)
        base_offset: Offset of the batch's first record. (int64, versions 0+)
        log_append_time_ms: Log append time in milliseconds; -1 if the topic keeps the timestamps of the
            producer. (int64, versions 2+; dropped if the version does not have it)
        log_start_offset: First offset of the log. (int64, versions 5+; dropped if the version does not have
            it)
        record_errors: The records that caused the rejection of the batch. ([]BatchIndexAndErrorMessage,
            versions 8+; dropped if the version does not have it)
        error_message: The error message of the batch. (string, versions 8+; nullable in 8+; dropped if the
            version does not have it)
        current_leader: The current leader of the partition, if it is not the responding broker.
            (LeaderIdAndEpoch, versions 10+; tag 0 in 10+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "record_errors": BatchIndexAndErrorMessage,
        "current_leader": LeaderIdAndEpoch,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "index": 0,
        "error_code": 0,
        "base_offset": 0,
        "log_append_time_ms": -1,
        "log_start_offset": -1,
        "record_errors": list,
        "error_message": None,
        "current_leader": LeaderIdAndEpoch,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        index: int = 0,
        error_code: int = 0,
        base_offset: int = 0,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: list[BatchIndexAndErrorMessage] = NEW,
        error_message: str | None = None,
        current_leader: LeaderIdAndEpoch = NEW,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.index: int = index
        self.error_code: int = error_code
        self.base_offset: int = base_offset
        self.log_append_time_ms: int = log_append_time_ms
        self.log_start_offset: int = log_start_offset
        self.record_errors: list[BatchIndexAndErrorMessage] = [] if record_errors is NEW else record_errors
        self.error_message: str | None = error_message
        self.current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch() if current_leader is NEW else current_leader
        self.unknown_tagged_fields = unknown_tagged_fields


class TopicProduceResponse(Plain):
    """Part of ProduceResponse.

    Attributes:
        name: Name of the topic. (string, versions 0-12; dropped if the version does not have it; a topicName)
        topic_id: Id of the topic. (uuid, versions 13+; dropped if the version does not have it)
        partition_responses: Results, by partition. ([]PartitionProduceResponse, versions 0+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    #: The fields by which collections of this struct are indexed.
    MAP_KEYS: ClassVar[tuple[str, ...]] = ("name", "topic_id")
    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "topic_id": UUID,
        "partition_responses": PartitionProduceResponse,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "name": "",
        "topic_id": ZERO_UUID,
        "partition_responses": list,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: UUID = ZERO_UUID,
        partition_responses: list[PartitionProduceResponse] = NEW,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.name: str = name
        self.topic_id: UUID = topic_id
        self.partition_responses: list[PartitionProduceResponse] = [] if partition_responses is NEW else partition_responses
        self.unknown_tagged_fields = unknown_tagged_fields


class TopicProduceResponseCollection(KeyedList[TopicProduceResponse]):
    """A list of TopicProduceResponse that finds its elements by name and topic_id."""

    __slots__ = ()
    KEY_OF = attrgetter("name", "topic_id")

    def find(self, name: str, topic_id: UUID) -> TopicProduceResponse | None:
        """The first element with this key, or ``None``."""
        return self._first((name, topic_id))

    def find_all(self, name: str, topic_id: UUID) -> list[TopicProduceResponse]:
        """All elements with this key, in their order."""
        return list(self._with_key((name, topic_id)))


class NodeEndpoint(Plain):
    """Part of ProduceResponse.

    Attributes:
        node_id: Id of the broker. (int32, versions 10+; a brokerId)
        host: Host name or address to connect to. (string, versions 10+)
        port: Port to connect to. (int32, versions 10+)
        rack: Rack of the broker, or null. (string, versions 10+; nullable in 10+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    #: The fields by which collections of this struct are indexed.
    MAP_KEYS: ClassVar[tuple[str, ...]] = ("node_id",)
    FIELDS: ClassVar[dict[str, Any]] = {
        "node_id": 0,
        "host": "",
        "port": 0,
        "rack": None,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.node_id: int = node_id
        self.host: str = host
        self.port: int = port
        self.rack: str | None = rack
        self.unknown_tagged_fields = unknown_tagged_fields


class NodeEndpointCollection(KeyedList[NodeEndpoint]):
    """A list of NodeEndpoint that finds its elements by node_id."""

    __slots__ = ()
    KEY_OF = attrgetter("node_id")

    def find(self, node_id: int) -> NodeEndpoint | None:
        """The first element with this key, or ``None``."""
        return self._first(node_id)

    def find_all(self, node_id: int) -> list[NodeEndpoint]:
        """All elements with this key, in their order."""
        return list(self._with_key(node_id))


class ProduceResponse(Plain):
    """A response. Not thread-safe: plain data.

    Attributes:
        responses: Results, by topic. ([]TopicProduceResponse, versions 0+)
        throttle_time_ms: Time for which the quota delays the client, in milliseconds. (int32, versions 1+;
            dropped if the version does not have it)
        node_endpoints: Addresses of the brokers that are named as current leaders. ([]NodeEndpoint, versions
            10+; tag 0 in 10+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    API_KEY: ClassVar[int] = 0
    MIN_VERSION: ClassVar[int] = 3
    MAX_VERSION: ClassVar[int] = 13
    #: Versions with compact lengths and tagged fields.
    FLEXIBLE_VERSIONS: ClassVar[range] = range(9, 14)
    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "responses": TopicProduceResponse,
        "node_endpoints": NodeEndpoint,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "responses": TopicProduceResponseCollection,
        "throttle_time_ms": 0,
        "node_endpoints": NodeEndpointCollection,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        responses: Iterable[TopicProduceResponse] | None = (),
        throttle_time_ms: int = 0,
        node_endpoints: Iterable[NodeEndpoint] | None = (),
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.responses: TopicProduceResponseCollection = None if responses is None else TopicProduceResponseCollection(responses)  # type: ignore[assignment]
        self.throttle_time_ms: int = throttle_time_ms
        self.node_endpoints: NodeEndpointCollection = None if node_endpoints is None else NodeEndpointCollection(node_endpoints)  # type: ignore[assignment]
        self.unknown_tagged_fields = unknown_tagged_fields

    def size(self, version: int) -> int:
        """Exact size of the encoded message in bytes, referenced bytes included.

        Raises:
            EncodeError: the version does not exist, or a field is null that must not be.
        """
        try:
            size_of = _SIZE[version]
        except KeyError:
            raise no_such_version(EncodeError, "ProduceResponse", version, 3, 13) from None
        try:
            return size_of(self)
        except EncodeError as error:
            raise error.of("ProduceResponse", version) from None

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
            raise no_such_version(EncodeError, "ProduceResponse", version, 3, 13) from None
        try:
            return encode(self, buffer, position)
        except EncodeError as error:
            raise error.of("ProduceResponse", version) from None

    def encode(self, version: int) -> bytes:
        """The whole message as bytes. Raises EncodeError as ``encode_into`` does."""
        buffer = bytearray(self.size(version))
        self.encode_into(buffer, 0, version)
        return bytes(buffer)

    @classmethod
    def decode(
        cls, buffer: Buffer, version: int, position: int = 0
    ) -> tuple[ProduceResponse, int]:
        """Read one message; return it and the position after it. Further bytes are ignored.

        Raises:
            DecodeError: the version does not exist, or the bytes are not a valid message.
        """
        try:
            decode = _DECODE[version]
        except KeyError:
            raise no_such_version(DecodeError, "ProduceResponse", version, 3, 13) from None
        readable = buffer if type(buffer) is bytes else bytes(buffer)
        try:
            if not 0 <= position <= len(readable):
                raise DecodeError(f"position {position} is outside the buffer of {len(readable)} bytes")
            return decode(readable, position, len(readable))
        except DecodeError as error:
            raise error.of("ProduceResponse", version) from None

_DEFAULT_LEADER_ID_AND_EPOCH = LeaderIdAndEpoch()


def _decode_batch_index_and_error_message_v8_list(
    buffer: bytes, position: int, end: int, count: int, items: list[BatchIndexAndErrorMessage]
) -> int:
    """Version 8."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(BatchIndexAndErrorMessage, count)):
            item.unknown_tagged_fields = None

            at = "batch_index:i batch_index_error_message:h"
            item.batch_index, length = _S_ih.unpack_from(buffer, position)
            position += 6

            at = "batch_index_error_message"
            if length == -1:
                item.batch_index_error_message = None
            else:
                stop = position + length
                if not position <= stop <= end:
                    raise bad_length(length, position, end, "bytes")
                item.batch_index_error_message = str(buffer[position:stop], "utf-8")
                position = stop
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_batch_index_and_error_message_v8_list(
    items: list[BatchIndexAndErrorMessage], buffer: bytearray, position: int
) -> int:
    """Version 8."""
    at = ""
    item = None
    try:
        for item in items:
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "9-13")

            at = "batch_index:i"
            _S_i.pack_into(buffer, position, item.batch_index)
            position += 4

            at = "batch_index_error_message"
            if item.batch_index_error_message is None:
                _S_h.pack_into(buffer, position, -1)
                position += 2
            else:
                data = item.batch_index_error_message.encode()
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


def _size_batch_index_and_error_message_v8_list(items: list[BatchIndexAndErrorMessage]) -> int:
    """Version 8."""
    size = 6 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "batch_index_error_message"
            if item.batch_index_error_message is not None:
                length = text_bytes(item.batch_index_error_message)
                size += length
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_batch_index_and_error_message_v9_list(
    buffer: bytes, position: int, end: int, count: int, items: list[BatchIndexAndErrorMessage]
) -> int:
    """Versions 9-13."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(BatchIndexAndErrorMessage, count)):
            at = "batch_index:i batch_index_error_message:B"
            item.batch_index, length = _S_iB.unpack_from(buffer, position)
            position += 5

            at = "batch_index_error_message"
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if length == -1:
                item.batch_index_error_message = None
            else:
                stop = position + length
                if stop > end or length > MAX_STRING_BYTES:
                    raise bad_length(length, position, end, "bytes")
                item.batch_index_error_message = str(buffer[position:stop], "utf-8")
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


def _encode_batch_index_and_error_message_v9_list(
    items: list[BatchIndexAndErrorMessage], buffer: bytearray, position: int
) -> int:
    """Versions 9-13."""
    at = ""
    item = None
    try:
        for item in items:
            at = "batch_index:i"
            _S_i.pack_into(buffer, position, item.batch_index)
            position += 4

            at = "batch_index_error_message"
            if item.batch_index_error_message is None:
                buffer[position] = 0
                position += 1
            else:
                data = item.batch_index_error_message.encode()
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


def _size_batch_index_and_error_message_v9_list(items: list[BatchIndexAndErrorMessage]) -> int:
    """Versions 9-13."""
    size = 6 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "batch_index_error_message"
            if item.batch_index_error_message is not None:
                length = text_bytes(item.batch_index_error_message)
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


def _decode_leader_id_and_epoch_v10(buffer: bytes, position: int, end: int) -> tuple[LeaderIdAndEpoch, int]:
    """Versions 10-13."""
    at = ""
    item = None
    try:
        item = _new(LeaderIdAndEpoch)

        at = "leader_id:i leader_epoch:i tagged_fields:B"
        item.leader_id, item.leader_epoch, length = _S_iiB.unpack_from(buffer, position)
        position += 9
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


def _encode_leader_id_and_epoch_v10(item: LeaderIdAndEpoch, buffer: bytearray, position: int) -> int:
    """Versions 10-13."""
    at = ""
    try:
        at = "leader_id:i leader_epoch:i"
        _S_ii.pack_into(buffer, position, item.leader_id, item.leader_epoch)
        position += 8

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


def _size_leader_id_and_epoch_v10(item: LeaderIdAndEpoch) -> int:
    """Versions 10-13."""
    size = 9
    at = ""
    try:
        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_partition_produce_response_v3_list(
    buffer: bytes, position: int, end: int, count: int, items: list[PartitionProduceResponse]
) -> int:
    """Versions 3-4."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(PartitionProduceResponse, count)):
            item.log_start_offset = -1
            item.record_errors = []
            item.error_message = None
            item.current_leader = LeaderIdAndEpoch()
            item.unknown_tagged_fields = None

            at = "index:i error_code:h base_offset:q log_append_time_ms:q"
            (
                item.index,
                item.error_code,
                item.base_offset,
                item.log_append_time_ms,
            ) = _S_ihqq.unpack_from(buffer, position)
            position += 22
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_partition_produce_response_v3_list(
    items: list[PartitionProduceResponse], buffer: bytearray, position: int
) -> int:
    """Versions 3-4."""
    at = ""
    item = None
    try:
        for item in items:
            if item.current_leader != _DEFAULT_LEADER_ID_AND_EPOCH:
                at = "current_leader"
                raise not_in_version(item.current_leader, "10-13")
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "9-13")

            at = "index:i error_code:h base_offset:q log_append_time_ms:q"
            _S_ihqq.pack_into(
                buffer,
                position,
                item.index,
                item.error_code,
                item.base_offset,
                item.log_append_time_ms,
            )
            position += 22
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_partition_produce_response_v3_list(items: list[PartitionProduceResponse]) -> int:
    """Versions 3-4."""
    size = 22 * len(items)
    return size


def _decode_partition_produce_response_v5_list(
    buffer: bytes, position: int, end: int, count: int, items: list[PartitionProduceResponse]
) -> int:
    """Versions 5-7."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(PartitionProduceResponse, count)):
            item.record_errors = []
            item.error_message = None
            item.current_leader = LeaderIdAndEpoch()
            item.unknown_tagged_fields = None

            at = "index:i error_code:h base_offset:q log_append_time_ms:q log_start_offset:q"
            (
                item.index,
                item.error_code,
                item.base_offset,
                item.log_append_time_ms,
                item.log_start_offset,
            ) = _S_ihqqq.unpack_from(buffer, position)
            position += 30
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_partition_produce_response_v5_list(
    items: list[PartitionProduceResponse], buffer: bytearray, position: int
) -> int:
    """Versions 5-7."""
    at = ""
    item = None
    try:
        for item in items:
            if item.current_leader != _DEFAULT_LEADER_ID_AND_EPOCH:
                at = "current_leader"
                raise not_in_version(item.current_leader, "10-13")
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "9-13")

            at = "index:i error_code:h base_offset:q log_append_time_ms:q log_start_offset:q"
            _S_ihqqq.pack_into(
                buffer,
                position,
                item.index,
                item.error_code,
                item.base_offset,
                item.log_append_time_ms,
                item.log_start_offset,
            )
            position += 30
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_partition_produce_response_v5_list(items: list[PartitionProduceResponse]) -> int:
    """Versions 5-7."""
    size = 30 * len(items)
    return size


def _decode_partition_produce_response_v8_list(
    buffer: bytes, position: int, end: int, count: int, items: list[PartitionProduceResponse]
) -> int:
    """Version 8."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(PartitionProduceResponse, count)):
            item.current_leader = LeaderIdAndEpoch()
            item.unknown_tagged_fields = None

            at = "index:i error_code:h base_offset:q log_append_time_ms:q log_start_offset:q record_errors:i"
            (
                item.index,
                item.error_code,
                item.base_offset,
                item.log_append_time_ms,
                item.log_start_offset,
                length,
            ) = _S_ihqqqi.unpack_from(buffer, position)
            position += 34

            at = "record_errors"
            if not 0 <= length * 6 <= end - position:
                raise bad_length(length, position, end, "elements of at least 6 bytes")
            record_errors: list[BatchIndexAndErrorMessage] = []
            item.record_errors = record_errors
            position = _decode_batch_index_and_error_message_v8_list(buffer, position, end, length, record_errors)

            at = "error_message"
            (length,) = _S_h.unpack_from(buffer, position)
            position += 2
            if length == -1:
                item.error_message = None
            else:
                stop = position + length
                if not position <= stop <= end:
                    raise bad_length(length, position, end, "bytes")
                item.error_message = str(buffer[position:stop], "utf-8")
                position = stop
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_partition_produce_response_v8_list(
    items: list[PartitionProduceResponse], buffer: bytearray, position: int
) -> int:
    """Version 8."""
    at = ""
    item = None
    try:
        for item in items:
            if item.current_leader != _DEFAULT_LEADER_ID_AND_EPOCH:
                at = "current_leader"
                raise not_in_version(item.current_leader, "10-13")
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "9-13")

            at = "index:i error_code:h base_offset:q log_append_time_ms:q log_start_offset:q"
            _S_ihqqq.pack_into(
                buffer,
                position,
                item.index,
                item.error_code,
                item.base_offset,
                item.log_append_time_ms,
                item.log_start_offset,
            )
            position += 30

            at = "record_errors"
            length = len(item.record_errors)
            _S_i.pack_into(buffer, position, length)
            position += 4
            position = _encode_batch_index_and_error_message_v8_list(item.record_errors, buffer, position)

            at = "error_message"
            if item.error_message is None:
                _S_h.pack_into(buffer, position, -1)
                position += 2
            else:
                data = item.error_message.encode()
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


def _size_partition_produce_response_v8_list(items: list[PartitionProduceResponse]) -> int:
    """Version 8."""
    size = 36 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "record_errors"
            size += _size_batch_index_and_error_message_v8_list(item.record_errors)

            at = "error_message"
            if item.error_message is not None:
                length = text_bytes(item.error_message)
                size += length
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_partition_produce_response_v9_list(
    buffer: bytes, position: int, end: int, count: int, items: list[PartitionProduceResponse]
) -> int:
    """Version 9."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(PartitionProduceResponse, count)):
            item.current_leader = LeaderIdAndEpoch()

            at = "index:i error_code:h base_offset:q log_append_time_ms:q log_start_offset:q record_errors:B"
            (
                item.index,
                item.error_code,
                item.base_offset,
                item.log_append_time_ms,
                item.log_start_offset,
                length,
            ) = _S_ihqqqB.unpack_from(buffer, position)
            position += 31

            at = "record_errors"
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if not 0 <= length * 6 <= end - position:
                raise bad_length(length, position, end, "elements of at least 6 bytes")
            record_errors: list[BatchIndexAndErrorMessage] = []
            item.record_errors = record_errors
            position = _decode_batch_index_and_error_message_v9_list(buffer, position, end, length, record_errors)

            at = "error_message"
            length = buffer[position]
            position += 1
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if length == -1:
                item.error_message = None
            else:
                stop = position + length
                if stop > end or length > MAX_STRING_BYTES:
                    raise bad_length(length, position, end, "bytes")
                item.error_message = str(buffer[position:stop], "utf-8")
                position = stop

            at = "tagged_fields"
            length = buffer[position]
            position += 1
            if length:
                if length > 127:
                    length, position = read_uvarint_rest(buffer, position, length)
                item.unknown_tagged_fields, position = read_unknown_tags(buffer, position, end, length, (0,))
            else:
                item.unknown_tagged_fields = None
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_partition_produce_response_v9_list(
    items: list[PartitionProduceResponse], buffer: bytearray, position: int
) -> int:
    """Version 9."""
    at = ""
    item = None
    try:
        for item in items:
            if item.current_leader != _DEFAULT_LEADER_ID_AND_EPOCH:
                at = "current_leader"
                raise not_in_version(item.current_leader, "10-13")

            at = "index:i error_code:h base_offset:q log_append_time_ms:q log_start_offset:q"
            _S_ihqqq.pack_into(
                buffer,
                position,
                item.index,
                item.error_code,
                item.base_offset,
                item.log_append_time_ms,
                item.log_start_offset,
            )
            position += 30

            at = "record_errors"
            length = len(item.record_errors)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            position = _encode_batch_index_and_error_message_v9_list(item.record_errors, buffer, position)

            at = "error_message"
            if item.error_message is None:
                buffer[position] = 0
                position += 1
            else:
                data = item.error_message.encode()
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
                position = write_uvarint(buffer, position, check_unknown_tags(unknown, (0,)))
                position = write_unknown_tags(buffer, position, unknown)
            else:
                buffer[position] = 0
                position += 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_partition_produce_response_v9_list(items: list[PartitionProduceResponse]) -> int:
    """Version 9."""
    size = 33 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "record_errors"
            length = len(item.record_errors)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_batch_index_and_error_message_v9_list(item.record_errors)

            at = "error_message"
            if item.error_message is not None:
                length = text_bytes(item.error_message)
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


def _decode_partition_produce_response_v10_list(
    buffer: bytes, position: int, end: int, count: int, items: list[PartitionProduceResponse]
) -> int:
    """Versions 10-13."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(PartitionProduceResponse, count)):
            at = "index:i error_code:h base_offset:q log_append_time_ms:q log_start_offset:q record_errors:B"
            (
                item.index,
                item.error_code,
                item.base_offset,
                item.log_append_time_ms,
                item.log_start_offset,
                length,
            ) = _S_ihqqqB.unpack_from(buffer, position)
            position += 31

            at = "record_errors"
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if not 0 <= length * 6 <= end - position:
                raise bad_length(length, position, end, "elements of at least 6 bytes")
            record_errors: list[BatchIndexAndErrorMessage] = []
            item.record_errors = record_errors
            position = _decode_batch_index_and_error_message_v9_list(buffer, position, end, length, record_errors)

            at = "error_message"
            length = buffer[position]
            position += 1
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if length == -1:
                item.error_message = None
            else:
                stop = position + length
                if stop > end or length > MAX_STRING_BYTES:
                    raise bad_length(length, position, end, "bytes")
                item.error_message = str(buffer[position:stop], "utf-8")
                position = stop

            at = "tagged_fields"
            length = buffer[position]
            position += 1
            item.current_leader = LeaderIdAndEpoch()
            item.unknown_tagged_fields = None
            if length:
                if length > 127:
                    length, position = read_uvarint_rest(buffer, position, length)
                tag = -1
                for _ in range(length):
                    at = "tagged_fields"
                    tag, tag_end, position = read_tag(buffer, position, end, tag)
                    if tag == 0:
                        at = "current_leader"
                        item.current_leader, position = _decode_leader_id_and_epoch_v10(buffer, position, tag_end)
                    else:
                        if item.unknown_tagged_fields is None:
                            item.unknown_tagged_fields = {}
                        item.unknown_tagged_fields[tag] = bytes(buffer[position:tag_end])
                    if position > tag_end:
                        raise tag_overrun(position, tag_end)
                    position = tag_end
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_partition_produce_response_v10_list(
    items: list[PartitionProduceResponse], buffer: bytearray, position: int
) -> int:
    """Versions 10-13."""
    at = ""
    item = None
    try:
        for item in items:
            at = "index:i error_code:h base_offset:q log_append_time_ms:q log_start_offset:q"
            _S_ihqqq.pack_into(
                buffer,
                position,
                item.index,
                item.error_code,
                item.base_offset,
                item.log_append_time_ms,
                item.log_start_offset,
            )
            position += 30

            at = "record_errors"
            length = len(item.record_errors)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            position = _encode_batch_index_and_error_message_v9_list(item.record_errors, buffer, position)

            at = "error_message"
            if item.error_message is None:
                buffer[position] = 0
                position += 1
            else:
                data = item.error_message.encode()
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
            tag_count = 0
            if item.current_leader != _DEFAULT_LEADER_ID_AND_EPOCH:
                tag_count += 1
            unknown = item.unknown_tagged_fields
            if unknown:
                tag_count += check_unknown_tags(unknown, (0,))
            position = write_uvarint(buffer, position, tag_count)
            if item.current_leader != _DEFAULT_LEADER_ID_AND_EPOCH:
                at = "current_leader"
                size = 0
                size += _size_leader_id_and_epoch_v10(item.current_leader)
                position = write_uvarint(buffer, position, 0)
                position = write_uvarint(buffer, position, size)
                at = "current_leader"
                position = _encode_leader_id_and_epoch_v10(item.current_leader, buffer, position)
            if unknown:
                at = "tagged_fields"
                position = write_unknown_tags(buffer, position, unknown, 1)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_partition_produce_response_v10_list(items: list[PartitionProduceResponse]) -> int:
    """Versions 10-13."""
    size = 33 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "record_errors"
            length = len(item.record_errors)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_batch_index_and_error_message_v9_list(item.record_errors)

            at = "error_message"
            if item.error_message is not None:
                length = text_bytes(item.error_message)
                size += length
                if length > 126:
                    size += 1 if length < 16383 else uvarint_size(length + 1) - 1

            at = "tagged_fields"
            tag_count = 0
            if item.current_leader != _DEFAULT_LEADER_ID_AND_EPOCH:
                at = "current_leader"
                tag_count += 1
                total = size
                size = 0
                size += _size_leader_id_and_epoch_v10(item.current_leader)
                size += total + uvarint_size(size) + 1

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                tag_count += len(unknown)
                size += unknown_tags_size(unknown)
            if tag_count > 127:
                size += uvarint_size(tag_count) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_topic_produce_response_v3_list(
    buffer: bytes, position: int, end: int, count: int, items: list[TopicProduceResponse]
) -> int:
    """Versions 3-4."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(TopicProduceResponse, count)):
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

            at = "partition_responses"
            (length,) = _S_i.unpack_from(buffer, position)
            position += 4
            if not 0 <= length * 22 <= end - position:
                raise bad_length(length, position, end, "elements of at least 22 bytes")
            partition_responses: list[PartitionProduceResponse] = []
            item.partition_responses = partition_responses
            position = _decode_partition_produce_response_v3_list(buffer, position, end, length, partition_responses)
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_topic_produce_response_v3_list(
    items: list[TopicProduceResponse], buffer: bytearray, position: int
) -> int:
    """Versions 3-4."""
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

            at = "partition_responses"
            length = len(item.partition_responses)
            _S_i.pack_into(buffer, position, length)
            position += 4
            position = _encode_partition_produce_response_v3_list(item.partition_responses, buffer, position)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_topic_produce_response_v3_list(items: list[TopicProduceResponse]) -> int:
    """Versions 3-4."""
    size = 6 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "name"
            length = text_bytes(item.name)
            size += length

            at = "partition_responses"
            size += _size_partition_produce_response_v3_list(item.partition_responses)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_topic_produce_response_v5_list(
    buffer: bytes, position: int, end: int, count: int, items: list[TopicProduceResponse]
) -> int:
    """Versions 5-7."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(TopicProduceResponse, count)):
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

            at = "partition_responses"
            (length,) = _S_i.unpack_from(buffer, position)
            position += 4
            if not 0 <= length * 30 <= end - position:
                raise bad_length(length, position, end, "elements of at least 30 bytes")
            partition_responses: list[PartitionProduceResponse] = []
            item.partition_responses = partition_responses
            position = _decode_partition_produce_response_v5_list(buffer, position, end, length, partition_responses)
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_topic_produce_response_v5_list(
    items: list[TopicProduceResponse], buffer: bytearray, position: int
) -> int:
    """Versions 5-7."""
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

            at = "partition_responses"
            length = len(item.partition_responses)
            _S_i.pack_into(buffer, position, length)
            position += 4
            position = _encode_partition_produce_response_v5_list(item.partition_responses, buffer, position)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_topic_produce_response_v5_list(items: list[TopicProduceResponse]) -> int:
    """Versions 5-7."""
    size = 6 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "name"
            length = text_bytes(item.name)
            size += length

            at = "partition_responses"
            size += _size_partition_produce_response_v5_list(item.partition_responses)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_topic_produce_response_v8_list(
    buffer: bytes, position: int, end: int, count: int, items: list[TopicProduceResponse]
) -> int:
    """Version 8."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(TopicProduceResponse, count)):
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

            at = "partition_responses"
            (length,) = _S_i.unpack_from(buffer, position)
            position += 4
            if not 0 <= length * 36 <= end - position:
                raise bad_length(length, position, end, "elements of at least 36 bytes")
            partition_responses: list[PartitionProduceResponse] = []
            item.partition_responses = partition_responses
            position = _decode_partition_produce_response_v8_list(buffer, position, end, length, partition_responses)
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_topic_produce_response_v8_list(
    items: list[TopicProduceResponse], buffer: bytearray, position: int
) -> int:
    """Version 8."""
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

            at = "partition_responses"
            length = len(item.partition_responses)
            _S_i.pack_into(buffer, position, length)
            position += 4
            position = _encode_partition_produce_response_v8_list(item.partition_responses, buffer, position)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_topic_produce_response_v8_list(items: list[TopicProduceResponse]) -> int:
    """Version 8."""
    size = 6 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "name"
            length = text_bytes(item.name)
            size += length

            at = "partition_responses"
            size += _size_partition_produce_response_v8_list(item.partition_responses)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_topic_produce_response_v9_list(
    buffer: bytes, position: int, end: int, count: int, items: list[TopicProduceResponse]
) -> int:
    """Version 9."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(TopicProduceResponse, count)):
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

            at = "partition_responses"
            length = buffer[position]
            position += 1
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if not 0 <= length * 33 <= end - position:
                raise bad_length(length, position, end, "elements of at least 33 bytes")
            partition_responses: list[PartitionProduceResponse] = []
            item.partition_responses = partition_responses
            position = _decode_partition_produce_response_v9_list(buffer, position, end, length, partition_responses)

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


def _encode_topic_produce_response_v9_list(
    items: list[TopicProduceResponse], buffer: bytearray, position: int
) -> int:
    """Version 9."""
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

            at = "partition_responses"
            length = len(item.partition_responses)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            position = _encode_partition_produce_response_v9_list(item.partition_responses, buffer, position)

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


def _size_topic_produce_response_v9_list(items: list[TopicProduceResponse]) -> int:
    """Version 9."""
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

            at = "partition_responses"
            length = len(item.partition_responses)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_partition_produce_response_v9_list(item.partition_responses)

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_topic_produce_response_v10_list(
    buffer: bytes, position: int, end: int, count: int, items: list[TopicProduceResponse]
) -> int:
    """Versions 10-12."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(TopicProduceResponse, count)):
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

            at = "partition_responses"
            length = buffer[position]
            position += 1
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if not 0 <= length * 33 <= end - position:
                raise bad_length(length, position, end, "elements of at least 33 bytes")
            partition_responses: list[PartitionProduceResponse] = []
            item.partition_responses = partition_responses
            position = _decode_partition_produce_response_v10_list(buffer, position, end, length, partition_responses)

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


def _encode_topic_produce_response_v10_list(
    items: list[TopicProduceResponse], buffer: bytearray, position: int
) -> int:
    """Versions 10-12."""
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

            at = "partition_responses"
            length = len(item.partition_responses)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            position = _encode_partition_produce_response_v10_list(item.partition_responses, buffer, position)

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


def _size_topic_produce_response_v10_list(items: list[TopicProduceResponse]) -> int:
    """Versions 10-12."""
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

            at = "partition_responses"
            length = len(item.partition_responses)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_partition_produce_response_v10_list(item.partition_responses)

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_topic_produce_response_v13_list(
    buffer: bytes, position: int, end: int, count: int, items: list[TopicProduceResponse]
) -> int:
    """Version 13."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(TopicProduceResponse, count)):
            item.name = ""

            at = "topic_id:16s partition_responses:B"
            topic_id, length = _S_16sB.unpack_from(buffer, position)
            position += 17
            item.topic_id = ZERO_UUID if topic_id == ZERO_UUID_BYTES else UUID(bytes=topic_id)

            at = "partition_responses"
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if not 0 <= length * 33 <= end - position:
                raise bad_length(length, position, end, "elements of at least 33 bytes")
            partition_responses: list[PartitionProduceResponse] = []
            item.partition_responses = partition_responses
            position = _decode_partition_produce_response_v10_list(buffer, position, end, length, partition_responses)

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


def _encode_topic_produce_response_v13_list(
    items: list[TopicProduceResponse], buffer: bytearray, position: int
) -> int:
    """Version 13."""
    at = ""
    item = None
    try:
        for item in items:
            at = "topic_id:16s"
            _S_16s.pack_into(buffer, position, item.topic_id.bytes)
            position += 16

            at = "partition_responses"
            length = len(item.partition_responses)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            position = _encode_partition_produce_response_v10_list(item.partition_responses, buffer, position)

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


def _size_topic_produce_response_v13_list(items: list[TopicProduceResponse]) -> int:
    """Version 13."""
    size = 18 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "partition_responses"
            length = len(item.partition_responses)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_partition_produce_response_v10_list(item.partition_responses)

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_node_endpoint_v10_list(
    buffer: bytes, position: int, end: int, count: int, items: list[NodeEndpoint]
) -> int:
    """Versions 10-13."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(NodeEndpoint, count)):
            at = "node_id:i host:B"
            item.node_id, length = _S_iB.unpack_from(buffer, position)
            position += 5

            at = "host"
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            stop = position + length
            if not position <= stop <= end or length > MAX_STRING_BYTES:
                raise bad_length(length, position, end, "bytes")
            item.host = str(buffer[position:stop], "utf-8")
            position = stop

            at = "port:i rack:B"
            item.port, length = _S_iB.unpack_from(buffer, position)
            position += 5

            at = "rack"
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if length == -1:
                item.rack = None
            else:
                stop = position + length
                if stop > end or length > MAX_STRING_BYTES:
                    raise bad_length(length, position, end, "bytes")
                item.rack = str(buffer[position:stop], "utf-8")
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


def _encode_node_endpoint_v10_list(items: list[NodeEndpoint], buffer: bytearray, position: int) -> int:
    """Versions 10-13."""
    at = ""
    item = None
    try:
        for item in items:
            at = "node_id:i"
            _S_i.pack_into(buffer, position, item.node_id)
            position += 4

            at = "host"
            data = item.host.encode()
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

            at = "port:i"
            _S_i.pack_into(buffer, position, item.port)
            position += 4

            at = "rack"
            if item.rack is None:
                buffer[position] = 0
                position += 1
            else:
                data = item.rack.encode()
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


def _size_node_endpoint_v10_list(items: list[NodeEndpoint]) -> int:
    """Versions 10-13."""
    size = 11 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "host"
            length = text_bytes(item.host)
            size += length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1

            at = "rack"
            if item.rack is not None:
                length = text_bytes(item.rack)
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


def _decode_produce_response_v3(buffer: bytes, position: int, end: int) -> tuple[ProduceResponse, int]:
    """Versions 3-4."""
    at = ""
    item = None
    try:
        item = _new(ProduceResponse)
        item.node_endpoints = NodeEndpointCollection()
        item.unknown_tagged_fields = None

        at = "responses"
        (length,) = _S_i.unpack_from(buffer, position)
        position += 4
        if not 0 <= length * 6 <= end - position:
            raise bad_length(length, position, end, "elements of at least 6 bytes")
        responses: TopicProduceResponseCollection = TopicProduceResponseCollection()
        item.responses = responses
        position = _decode_topic_produce_response_v3_list(buffer, position, end, length, responses)

        at = "throttle_time_ms:i"
        (item.throttle_time_ms,) = _S_i.unpack_from(buffer, position)
        position += 4
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_produce_response_v3(item: ProduceResponse, buffer: bytearray, position: int) -> int:
    """Versions 3-4."""
    at = ""
    try:
        if (item.node_endpoints is None or len(item.node_endpoints) > 0):
            at = "node_endpoints"
            raise not_in_version(item.node_endpoints, "10-13")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "9-13")

        at = "responses"
        length = len(item.responses)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_topic_produce_response_v3_list(item.responses, buffer, position)

        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_produce_response_v3(item: ProduceResponse) -> int:
    """Versions 3-4."""
    size = 8
    at = ""
    try:
        at = "responses"
        size += _size_topic_produce_response_v3_list(item.responses)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_produce_response_v5(buffer: bytes, position: int, end: int) -> tuple[ProduceResponse, int]:
    """Versions 5-7."""
    at = ""
    item = None
    try:
        item = _new(ProduceResponse)
        item.node_endpoints = NodeEndpointCollection()
        item.unknown_tagged_fields = None

        at = "responses"
        (length,) = _S_i.unpack_from(buffer, position)
        position += 4
        if not 0 <= length * 6 <= end - position:
            raise bad_length(length, position, end, "elements of at least 6 bytes")
        responses: TopicProduceResponseCollection = TopicProduceResponseCollection()
        item.responses = responses
        position = _decode_topic_produce_response_v5_list(buffer, position, end, length, responses)

        at = "throttle_time_ms:i"
        (item.throttle_time_ms,) = _S_i.unpack_from(buffer, position)
        position += 4
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_produce_response_v5(item: ProduceResponse, buffer: bytearray, position: int) -> int:
    """Versions 5-7."""
    at = ""
    try:
        if (item.node_endpoints is None or len(item.node_endpoints) > 0):
            at = "node_endpoints"
            raise not_in_version(item.node_endpoints, "10-13")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "9-13")

        at = "responses"
        length = len(item.responses)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_topic_produce_response_v5_list(item.responses, buffer, position)

        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_produce_response_v5(item: ProduceResponse) -> int:
    """Versions 5-7."""
    size = 8
    at = ""
    try:
        at = "responses"
        size += _size_topic_produce_response_v5_list(item.responses)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_produce_response_v8(buffer: bytes, position: int, end: int) -> tuple[ProduceResponse, int]:
    """Version 8."""
    at = ""
    item = None
    try:
        item = _new(ProduceResponse)
        item.node_endpoints = NodeEndpointCollection()
        item.unknown_tagged_fields = None

        at = "responses"
        (length,) = _S_i.unpack_from(buffer, position)
        position += 4
        if not 0 <= length * 6 <= end - position:
            raise bad_length(length, position, end, "elements of at least 6 bytes")
        responses: TopicProduceResponseCollection = TopicProduceResponseCollection()
        item.responses = responses
        position = _decode_topic_produce_response_v8_list(buffer, position, end, length, responses)

        at = "throttle_time_ms:i"
        (item.throttle_time_ms,) = _S_i.unpack_from(buffer, position)
        position += 4
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_produce_response_v8(item: ProduceResponse, buffer: bytearray, position: int) -> int:
    """Version 8."""
    at = ""
    try:
        if (item.node_endpoints is None or len(item.node_endpoints) > 0):
            at = "node_endpoints"
            raise not_in_version(item.node_endpoints, "10-13")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "9-13")

        at = "responses"
        length = len(item.responses)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_topic_produce_response_v8_list(item.responses, buffer, position)

        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_produce_response_v8(item: ProduceResponse) -> int:
    """Version 8."""
    size = 8
    at = ""
    try:
        at = "responses"
        size += _size_topic_produce_response_v8_list(item.responses)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_produce_response_v9(buffer: bytes, position: int, end: int) -> tuple[ProduceResponse, int]:
    """Version 9."""
    at = ""
    item = None
    try:
        item = _new(ProduceResponse)
        item.node_endpoints = NodeEndpointCollection()

        at = "responses"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 3 <= end - position:
            raise bad_length(length, position, end, "elements of at least 3 bytes")
        responses: TopicProduceResponseCollection = TopicProduceResponseCollection()
        item.responses = responses
        position = _decode_topic_produce_response_v9_list(buffer, position, end, length, responses)

        at = "throttle_time_ms:i tagged_fields:B"
        item.throttle_time_ms, length = _S_iB.unpack_from(buffer, position)
        position += 5
        if length:
            at = "tagged_fields"
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            item.unknown_tagged_fields, position = read_unknown_tags(buffer, position, end, length, (0,))
        else:
            item.unknown_tagged_fields = None
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_produce_response_v9(item: ProduceResponse, buffer: bytearray, position: int) -> int:
    """Version 9."""
    at = ""
    try:
        if (item.node_endpoints is None or len(item.node_endpoints) > 0):
            at = "node_endpoints"
            raise not_in_version(item.node_endpoints, "10-13")

        at = "responses"
        length = len(item.responses)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_topic_produce_response_v9_list(item.responses, buffer, position)

        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            position = write_uvarint(buffer, position, check_unknown_tags(unknown, (0,)))
            position = write_unknown_tags(buffer, position, unknown)
        else:
            buffer[position] = 0
            position += 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_produce_response_v9(item: ProduceResponse) -> int:
    """Version 9."""
    size = 6
    at = ""
    try:
        at = "responses"
        length = len(item.responses)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_topic_produce_response_v9_list(item.responses)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_produce_response_v10(buffer: bytes, position: int, end: int) -> tuple[ProduceResponse, int]:
    """Versions 10-12."""
    at = ""
    item = None
    try:
        item = _new(ProduceResponse)

        at = "responses"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 3 <= end - position:
            raise bad_length(length, position, end, "elements of at least 3 bytes")
        responses: TopicProduceResponseCollection = TopicProduceResponseCollection()
        item.responses = responses
        position = _decode_topic_produce_response_v10_list(buffer, position, end, length, responses)

        at = "throttle_time_ms:i tagged_fields:B"
        item.throttle_time_ms, length = _S_iB.unpack_from(buffer, position)
        position += 5
        item.node_endpoints = NodeEndpointCollection()
        item.unknown_tagged_fields = None
        if length:
            at = "tagged_fields"
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            tag = -1
            for _ in range(length):
                at = "tagged_fields"
                tag, tag_end, position = read_tag(buffer, position, end, tag)
                if tag == 0:
                    at = "node_endpoints"
                    length = buffer[position]
                    position += 1
                    if length > 127:
                        length, position = read_uvarint_rest(buffer, position, length)
                    length -= 1
                    if not 0 <= length * 11 <= tag_end - position:
                        raise bad_length(length, position, tag_end, "elements of at least 11 bytes")
                    node_endpoints: NodeEndpointCollection = NodeEndpointCollection()
                    item.node_endpoints = node_endpoints
                    position = _decode_node_endpoint_v10_list(buffer, position, tag_end, length, node_endpoints)
                else:
                    if item.unknown_tagged_fields is None:
                        item.unknown_tagged_fields = {}
                    item.unknown_tagged_fields[tag] = bytes(buffer[position:tag_end])
                if position > tag_end:
                    raise tag_overrun(position, tag_end)
                position = tag_end
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_produce_response_v10(item: ProduceResponse, buffer: bytearray, position: int) -> int:
    """Versions 10-12."""
    at = ""
    try:
        at = "responses"
        length = len(item.responses)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_topic_produce_response_v10_list(item.responses, buffer, position)

        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4

        at = "tagged_fields"
        tag_count = 0
        if (item.node_endpoints is None or len(item.node_endpoints) > 0):
            tag_count += 1
        unknown = item.unknown_tagged_fields
        if unknown:
            tag_count += check_unknown_tags(unknown, (0,))
        position = write_uvarint(buffer, position, tag_count)
        if (item.node_endpoints is None or len(item.node_endpoints) > 0):
            at = "node_endpoints"
            size = 1
            length = len(item.node_endpoints)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_node_endpoint_v10_list(item.node_endpoints)
            position = write_uvarint(buffer, position, 0)
            position = write_uvarint(buffer, position, size)
            at = "node_endpoints"
            length = len(item.node_endpoints)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            position = _encode_node_endpoint_v10_list(item.node_endpoints, buffer, position)
        if unknown:
            at = "tagged_fields"
            position = write_unknown_tags(buffer, position, unknown, 1)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_produce_response_v10(item: ProduceResponse) -> int:
    """Versions 10-12."""
    size = 6
    at = ""
    try:
        at = "responses"
        length = len(item.responses)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_topic_produce_response_v10_list(item.responses)

        at = "tagged_fields"
        tag_count = 0
        if (item.node_endpoints is None or len(item.node_endpoints) > 0):
            at = "node_endpoints"
            tag_count += 1
            total = size
            size = 1
            length = len(item.node_endpoints)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_node_endpoint_v10_list(item.node_endpoints)
            size += total + uvarint_size(size) + 1

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            tag_count += len(unknown)
            size += unknown_tags_size(unknown)
        if tag_count > 127:
            size += uvarint_size(tag_count) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_produce_response_v13(buffer: bytes, position: int, end: int) -> tuple[ProduceResponse, int]:
    """Version 13."""
    at = ""
    item = None
    try:
        item = _new(ProduceResponse)

        at = "responses"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 18 <= end - position:
            raise bad_length(length, position, end, "elements of at least 18 bytes")
        responses: TopicProduceResponseCollection = TopicProduceResponseCollection()
        item.responses = responses
        position = _decode_topic_produce_response_v13_list(buffer, position, end, length, responses)

        at = "throttle_time_ms:i tagged_fields:B"
        item.throttle_time_ms, length = _S_iB.unpack_from(buffer, position)
        position += 5
        item.node_endpoints = NodeEndpointCollection()
        item.unknown_tagged_fields = None
        if length:
            at = "tagged_fields"
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            tag = -1
            for _ in range(length):
                at = "tagged_fields"
                tag, tag_end, position = read_tag(buffer, position, end, tag)
                if tag == 0:
                    at = "node_endpoints"
                    length = buffer[position]
                    position += 1
                    if length > 127:
                        length, position = read_uvarint_rest(buffer, position, length)
                    length -= 1
                    if not 0 <= length * 11 <= tag_end - position:
                        raise bad_length(length, position, tag_end, "elements of at least 11 bytes")
                    node_endpoints: NodeEndpointCollection = NodeEndpointCollection()
                    item.node_endpoints = node_endpoints
                    position = _decode_node_endpoint_v10_list(buffer, position, tag_end, length, node_endpoints)
                else:
                    if item.unknown_tagged_fields is None:
                        item.unknown_tagged_fields = {}
                    item.unknown_tagged_fields[tag] = bytes(buffer[position:tag_end])
                if position > tag_end:
                    raise tag_overrun(position, tag_end)
                position = tag_end
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_produce_response_v13(item: ProduceResponse, buffer: bytearray, position: int) -> int:
    """Version 13."""
    at = ""
    try:
        at = "responses"
        length = len(item.responses)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_topic_produce_response_v13_list(item.responses, buffer, position)

        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4

        at = "tagged_fields"
        tag_count = 0
        if (item.node_endpoints is None or len(item.node_endpoints) > 0):
            tag_count += 1
        unknown = item.unknown_tagged_fields
        if unknown:
            tag_count += check_unknown_tags(unknown, (0,))
        position = write_uvarint(buffer, position, tag_count)
        if (item.node_endpoints is None or len(item.node_endpoints) > 0):
            at = "node_endpoints"
            size = 1
            length = len(item.node_endpoints)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_node_endpoint_v10_list(item.node_endpoints)
            position = write_uvarint(buffer, position, 0)
            position = write_uvarint(buffer, position, size)
            at = "node_endpoints"
            length = len(item.node_endpoints)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            position = _encode_node_endpoint_v10_list(item.node_endpoints, buffer, position)
        if unknown:
            at = "tagged_fields"
            position = write_unknown_tags(buffer, position, unknown, 1)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_produce_response_v13(item: ProduceResponse) -> int:
    """Version 13."""
    size = 6
    at = ""
    try:
        at = "responses"
        length = len(item.responses)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_topic_produce_response_v13_list(item.responses)

        at = "tagged_fields"
        tag_count = 0
        if (item.node_endpoints is None or len(item.node_endpoints) > 0):
            at = "node_endpoints"
            tag_count += 1
            total = size
            size = 1
            length = len(item.node_endpoints)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_node_endpoint_v10_list(item.node_endpoints)
            size += total + uvarint_size(size) + 1

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            tag_count += len(unknown)
            size += unknown_tags_size(unknown)
        if tag_count > 127:
            size += uvarint_size(tag_count) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


#: The wire layout of each decoder; compiled decoders interpret it (see _decoders.py).
_LAYOUTS: Layouts = {
    "batch_index_and_error_message_v8": (
        BatchIndexAndErrorMessage,
        list,
        "batch_index:int32 batch_index_error_message:nullable_string",
    ),
    "batch_index_and_error_message_v9": (
        BatchIndexAndErrorMessage,
        list,
        "batch_index:int32 batch_index_error_message:compact_nullable_string tags",
    ),
    "leader_id_and_epoch_v10": (LeaderIdAndEpoch, list, "leader_id:int32 leader_epoch:int32 tags"),
    "partition_produce_response_v3": (
        PartitionProduceResponse,
        list,
        "index:int32 error_code:int16 base_offset:int64 log_append_time_ms:int64",
    ),
    "partition_produce_response_v5": (
        PartitionProduceResponse,
        list,
        "index:int32 error_code:int16 base_offset:int64 log_append_time_ms:int64 log_start_offset:int64",
    ),
    "partition_produce_response_v8": (
        PartitionProduceResponse,
        list,
        "index:int32 error_code:int16 base_offset:int64 log_append_time_ms:int64 log_start_offset:int64 "
        "record_errors:array(batch_index_and_error_message_v8) error_message:nullable_string",
    ),
    "partition_produce_response_v9": (
        PartitionProduceResponse,
        list,
        "index:int32 error_code:int16 base_offset:int64 log_append_time_ms:int64 log_start_offset:int64 "
        "record_errors:compact_array(batch_index_and_error_message_v9) "
        "error_message:compact_nullable_string tags 0=refused",
    ),
    "partition_produce_response_v10": (
        PartitionProduceResponse,
        list,
        "index:int32 error_code:int16 base_offset:int64 log_append_time_ms:int64 log_start_offset:int64 "
        "record_errors:compact_array(batch_index_and_error_message_v9) "
        "error_message:compact_nullable_string tags 0=current_leader:struct(leader_id_and_epoch_v10)",
    ),
    "topic_produce_response_v3": (
        TopicProduceResponse,
        TopicProduceResponseCollection,
        "name:string partition_responses:array(partition_produce_response_v3)",
    ),
    "topic_produce_response_v5": (
        TopicProduceResponse,
        TopicProduceResponseCollection,
        "name:string partition_responses:array(partition_produce_response_v5)",
    ),
    "topic_produce_response_v8": (
        TopicProduceResponse,
        TopicProduceResponseCollection,
        "name:string partition_responses:array(partition_produce_response_v8)",
    ),
    "topic_produce_response_v9": (
        TopicProduceResponse,
        TopicProduceResponseCollection,
        "name:compact_string partition_responses:compact_array(partition_produce_response_v9) tags",
    ),
    "topic_produce_response_v10": (
        TopicProduceResponse,
        TopicProduceResponseCollection,
        "name:compact_string partition_responses:compact_array(partition_produce_response_v10) tags",
    ),
    "topic_produce_response_v13": (
        TopicProduceResponse,
        TopicProduceResponseCollection,
        "topic_id:uuid partition_responses:compact_array(partition_produce_response_v10) tags",
    ),
    "node_endpoint_v10": (
        NodeEndpoint,
        NodeEndpointCollection,
        "node_id:int32 host:compact_string port:int32 rack:compact_nullable_string tags",
    ),
    "produce_response_v3": (
        ProduceResponse,
        list,
        "responses:array(topic_produce_response_v3) throttle_time_ms:int32",
    ),
    "produce_response_v5": (
        ProduceResponse,
        list,
        "responses:array(topic_produce_response_v5) throttle_time_ms:int32",
    ),
    "produce_response_v8": (
        ProduceResponse,
        list,
        "responses:array(topic_produce_response_v8) throttle_time_ms:int32",
    ),
    "produce_response_v9": (
        ProduceResponse,
        list,
        "responses:compact_array(topic_produce_response_v9) throttle_time_ms:int32 tags 0=refused",
    ),
    "produce_response_v10": (
        ProduceResponse,
        list,
        "responses:compact_array(topic_produce_response_v10) throttle_time_ms:int32 tags "
        "0=node_endpoints:compact_array(node_endpoint_v10)",
    ),
    "produce_response_v13": (
        ProduceResponse,
        list,
        "responses:compact_array(topic_produce_response_v13) throttle_time_ms:int32 tags "
        "0=node_endpoints:compact_array(node_endpoint_v10)",
    ),
}
_DECODE = decoders(
    {
        3: _decode_produce_response_v3,
        4: _decode_produce_response_v3,
        5: _decode_produce_response_v5,
        6: _decode_produce_response_v5,
        7: _decode_produce_response_v5,
        8: _decode_produce_response_v8,
        9: _decode_produce_response_v9,
        10: _decode_produce_response_v10,
        11: _decode_produce_response_v10,
        12: _decode_produce_response_v10,
        13: _decode_produce_response_v13,
    },
    _LAYOUTS,
)
_ENCODE = {
    3: _encode_produce_response_v3,
    4: _encode_produce_response_v3,
    5: _encode_produce_response_v5,
    6: _encode_produce_response_v5,
    7: _encode_produce_response_v5,
    8: _encode_produce_response_v8,
    9: _encode_produce_response_v9,
    10: _encode_produce_response_v10,
    11: _encode_produce_response_v10,
    12: _encode_produce_response_v10,
    13: _encode_produce_response_v13,
}
_SIZE = {
    3: _size_produce_response_v3,
    4: _size_produce_response_v3,
    5: _size_produce_response_v5,
    6: _size_produce_response_v5,
    7: _size_produce_response_v5,
    8: _size_produce_response_v8,
    9: _size_produce_response_v9,
    10: _size_produce_response_v10,
    11: _size_produce_response_v10,
    12: _size_produce_response_v10,
    13: _size_produce_response_v13,
}

# DO NOT EDIT: generated from specs/MetadataResponse.json (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: 34cc1583f0397981b67fcb6bcac82a9fff91e10a23ee50c51463d08ba4b0b9b2
"""MetadataResponse: a response of API 3, versions 0-13, flexible 9-13."""

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
    "MetadataResponse",
    "MetadataResponseBroker",
    "MetadataResponseBrokerCollection",
    "MetadataResponsePartition",
    "MetadataResponseTopic",
    "MetadataResponseTopicCollection",
]

_S_16st = Struct(">16s?")
_S_16stB = Struct(">16s?B")
_S_16sb = Struct(">16sb")
_S_16sbB = Struct(">16sbB")
_S_tB = Struct(">?B")
_S_ti = Struct(">?i")
_S_b = Struct(">b")
_S_bB = Struct(">bB")
_S_bi = Struct(">bi")
_S_h = Struct(">h")
_S_hB = Struct(">hB")
_S_hh = Struct(">hh")
_S_hii = Struct(">hii")
_S_hiii = Struct(">hiii")
_S_hiiiB = Struct(">hiiiB")
_S_hiiii = Struct(">hiiii")
_S_i = Struct(">i")
_S_iB = Struct(">iB")
_S_ih = Struct(">ih")
_S_ii = Struct(">ii")
_new = object.__new__


class MetadataResponseBroker(Plain):
    """Part of MetadataResponse.

    Attributes:
        node_id: Id of the broker. (int32, versions 0+; a brokerId)
        host: Host name or address to connect to. (string, versions 0+)
        port: Port to connect to. (int32, versions 0+)
        rack: Rack of the broker, or null. (string, versions 1+; nullable in 1+; dropped if the version does
            not have it)
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


class MetadataResponseBrokerCollection(KeyedList[MetadataResponseBroker]):
    """A list of MetadataResponseBroker that finds its elements by node_id."""

    __slots__ = ()
    KEY_OF = attrgetter("node_id")

    def find(self, node_id: int) -> MetadataResponseBroker | None:
        """The first element with this key, or ``None``."""
        return self._first(node_id)

    def find_all(self, node_id: int) -> list[MetadataResponseBroker]:
        """All elements with this key, in their order."""
        return list(self._with_key(node_id))


class MetadataResponsePartition(Plain):
    """Part of MetadataResponse.

    Attributes:
        error_code: The error code of the partition, or 0. (int16, versions 0+)
        partition_index: Partition number. (int32, versions 0+)
        leader_id: Broker id of the partition's leader; -1 if there is none. (int32, versions 0+; a brokerId)
        leader_epoch: Leader epoch of the partition; -1 if unknown. (int32, versions 7+; dropped if the
            version does not have it)
        replica_nodes: Brokers that hold a replica. ([]int32, versions 0+; a brokerId)
        isr_nodes: Brokers with an in-sync replica. ([]int32, versions 0+; a brokerId)
        offline_replicas: Brokers whose replica is offline. ([]int32, versions 5+; dropped if the version does
            not have it; a brokerId)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    FIELDS: ClassVar[dict[str, Any]] = {
        "error_code": 0,
        "partition_index": 0,
        "leader_id": 0,
        "leader_epoch": -1,
        "replica_nodes": list,
        "isr_nodes": list,
        "offline_replicas": list,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: list[int] = NEW,
        isr_nodes: list[int] = NEW,
        offline_replicas: list[int] = NEW,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.partition_index: int = partition_index
        self.leader_id: int = leader_id
        self.leader_epoch: int = leader_epoch
        self.replica_nodes: list[int] = [] if replica_nodes is NEW else replica_nodes
        self.isr_nodes: list[int] = [] if isr_nodes is NEW else isr_nodes
        self.offline_replicas: list[int] = [] if offline_replicas is NEW else offline_replicas
        self.unknown_tagged_fields = unknown_tagged_fields


class MetadataResponseTopic(Plain):
    """Part of MetadataResponse.

    Attributes:
        error_code: The error code of the topic, or 0. (int16, versions 0+)
        name: Name of the topic; null if no topic has the requested id. (string, versions 0+; nullable in 12+;
            a topicName)
        topic_id: Id of the topic; zero if no topic has the requested name. (uuid, versions 10+; dropped if
            the version does not have it)
        is_internal: Whether the topic is internal. (bool, versions 1+; dropped if the version does not have
            it)
        partitions: Partitions of the topic, in any order. ([]MetadataResponsePartition, versions 0+)
        topic_authorized_operations: Bits of the operations that the client may perform on the topic; the
            default means that they were not requested. (int32, versions 8+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    #: The fields by which collections of this struct are indexed.
    MAP_KEYS: ClassVar[tuple[str, ...]] = ("name",)
    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "topic_id": UUID,
        "partitions": MetadataResponsePartition,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "error_code": 0,
        "name": "",
        "topic_id": ZERO_UUID,
        "is_internal": False,
        "partitions": list,
        "topic_authorized_operations": -2147483648,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        error_code: int = 0,
        name: str | None = "",
        topic_id: UUID = ZERO_UUID,
        is_internal: bool = False,
        partitions: list[MetadataResponsePartition] = NEW,
        topic_authorized_operations: int = -2147483648,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.name: str | None = name
        self.topic_id: UUID = topic_id
        self.is_internal: bool = is_internal
        self.partitions: list[MetadataResponsePartition] = [] if partitions is NEW else partitions
        self.topic_authorized_operations: int = topic_authorized_operations
        self.unknown_tagged_fields = unknown_tagged_fields


class MetadataResponseTopicCollection(KeyedList[MetadataResponseTopic]):
    """A list of MetadataResponseTopic that finds its elements by name."""

    __slots__ = ()
    KEY_OF = attrgetter("name")

    def find(self, name: str | None) -> MetadataResponseTopic | None:
        """The first element with this key, or ``None``."""
        return self._first(name)

    def find_all(self, name: str | None) -> list[MetadataResponseTopic]:
        """All elements with this key, in their order."""
        return list(self._with_key(name))


class MetadataResponse(Plain):
    """A response. Not thread-safe: plain data.

    Attributes:
        throttle_time_ms: Time for which the quota delays the client, in milliseconds. (int32, versions 3+;
            dropped if the version does not have it)
        brokers: The live brokers. ([]MetadataResponseBroker, versions 0+)
        cluster_id: Id of the cluster. (string, versions 2+; nullable in 2+; dropped if the version does not
            have it)
        controller_id: Broker id of the controller; -1 if there is none. (int32, versions 1+; dropped if the
            version does not have it; a brokerId)
        topics: The requested topics. ([]MetadataResponseTopic, versions 0+)
        cluster_authorized_operations: Bits of the operations that the client may perform on the cluster; the
            default means that they were not requested. (int32, versions 8-10)
        error_code: The error code of the whole request, such as REBOOTSTRAP_REQUIRED, or 0. (int16, versions
            13+; dropped if the version does not have it)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    API_KEY: ClassVar[int] = 3
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 13
    #: Versions with compact lengths and tagged fields.
    FLEXIBLE_VERSIONS: ClassVar[range] = range(9, 14)
    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "brokers": MetadataResponseBroker,
        "topics": MetadataResponseTopic,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "throttle_time_ms": 0,
        "brokers": MetadataResponseBrokerCollection,
        "cluster_id": None,
        "controller_id": -1,
        "topics": MetadataResponseTopicCollection,
        "cluster_authorized_operations": -2147483648,
        "error_code": 0,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        brokers: Iterable[MetadataResponseBroker] | None = (),
        cluster_id: str | None = None,
        controller_id: int = -1,
        topics: Iterable[MetadataResponseTopic] | None = (),
        cluster_authorized_operations: int = -2147483648,
        error_code: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.brokers: MetadataResponseBrokerCollection = None if brokers is None else MetadataResponseBrokerCollection(brokers)  # type: ignore[assignment]
        self.cluster_id: str | None = cluster_id
        self.controller_id: int = controller_id
        self.topics: MetadataResponseTopicCollection = None if topics is None else MetadataResponseTopicCollection(topics)  # type: ignore[assignment]
        self.cluster_authorized_operations: int = cluster_authorized_operations
        self.error_code: int = error_code
        self.unknown_tagged_fields = unknown_tagged_fields

    def size(self, version: int) -> int:
        """Exact size of the encoded message in bytes, referenced bytes included.

        Raises:
            EncodeError: the version does not exist, or a field is null that must not be.
        """
        try:
            size_of = _SIZE[version]
        except KeyError:
            raise no_such_version(EncodeError, "MetadataResponse", version, 0, 13) from None
        try:
            return size_of(self)
        except EncodeError as error:
            raise error.of("MetadataResponse", version) from None

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
            raise no_such_version(EncodeError, "MetadataResponse", version, 0, 13) from None
        try:
            return encode(self, buffer, position)
        except EncodeError as error:
            raise error.of("MetadataResponse", version) from None

    def encode(self, version: int) -> bytes:
        """The whole message as bytes. Raises EncodeError as ``encode_into`` does."""
        buffer = bytearray(self.size(version))
        self.encode_into(buffer, 0, version)
        return bytes(buffer)

    @classmethod
    def decode(
        cls, buffer: Buffer, version: int, position: int = 0
    ) -> tuple[MetadataResponse, int]:
        """Read one message; return it and the position after it. Further bytes are ignored.

        Raises:
            DecodeError: the version does not exist, or the bytes are not a valid message.
        """
        try:
            decode = _DECODE[version]
        except KeyError:
            raise no_such_version(DecodeError, "MetadataResponse", version, 0, 13) from None
        readable = buffer if type(buffer) is bytes else bytes(buffer)
        try:
            if not 0 <= position <= len(readable):
                raise DecodeError(f"position {position} is outside the buffer of {len(readable)} bytes")
            return decode(readable, position, len(readable))
        except DecodeError as error:
            raise error.of("MetadataResponse", version) from None


def _decode_metadata_response_broker_v0_list(
    buffer: bytes, position: int, end: int, count: int, items: list[MetadataResponseBroker]
) -> int:
    """Version 0."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(MetadataResponseBroker, count)):
            item.rack = None
            item.unknown_tagged_fields = None

            at = "node_id:i host:h"
            item.node_id, length = _S_ih.unpack_from(buffer, position)
            position += 6

            at = "host"
            stop = position + length
            if not position <= stop <= end:
                raise bad_length(length, position, end, "bytes")
            item.host = str(buffer[position:stop], "utf-8")
            position = stop

            at = "port:i"
            (item.port,) = _S_i.unpack_from(buffer, position)
            position += 4
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_metadata_response_broker_v0_list(
    items: list[MetadataResponseBroker], buffer: bytearray, position: int
) -> int:
    """Version 0."""
    at = ""
    item = None
    try:
        for item in items:
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "9-13")

            at = "node_id:i"
            _S_i.pack_into(buffer, position, item.node_id)
            position += 4

            at = "host"
            data = item.host.encode()
            length = len(data)
            if length > MAX_STRING_BYTES:
                raise string_too_long(length)
            _S_h.pack_into(buffer, position, length)
            position += 2
            stop = position + length
            buffer[position:stop] = data
            position = stop

            at = "port:i"
            _S_i.pack_into(buffer, position, item.port)
            position += 4
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_metadata_response_broker_v0_list(items: list[MetadataResponseBroker]) -> int:
    """Version 0."""
    size = 10 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "host"
            length = text_bytes(item.host)
            size += length
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_metadata_response_broker_v1_list(
    buffer: bytes, position: int, end: int, count: int, items: list[MetadataResponseBroker]
) -> int:
    """Versions 1-8."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(MetadataResponseBroker, count)):
            item.unknown_tagged_fields = None

            at = "node_id:i host:h"
            item.node_id, length = _S_ih.unpack_from(buffer, position)
            position += 6

            at = "host"
            stop = position + length
            if not position <= stop <= end:
                raise bad_length(length, position, end, "bytes")
            item.host = str(buffer[position:stop], "utf-8")
            position = stop

            at = "port:i rack:h"
            item.port, length = _S_ih.unpack_from(buffer, position)
            position += 6

            at = "rack"
            if length == -1:
                item.rack = None
            else:
                stop = position + length
                if not position <= stop <= end:
                    raise bad_length(length, position, end, "bytes")
                item.rack = str(buffer[position:stop], "utf-8")
                position = stop
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_metadata_response_broker_v1_list(
    items: list[MetadataResponseBroker], buffer: bytearray, position: int
) -> int:
    """Versions 1-8."""
    at = ""
    item = None
    try:
        for item in items:
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "9-13")

            at = "node_id:i"
            _S_i.pack_into(buffer, position, item.node_id)
            position += 4

            at = "host"
            data = item.host.encode()
            length = len(data)
            if length > MAX_STRING_BYTES:
                raise string_too_long(length)
            _S_h.pack_into(buffer, position, length)
            position += 2
            stop = position + length
            buffer[position:stop] = data
            position = stop

            at = "port:i"
            _S_i.pack_into(buffer, position, item.port)
            position += 4

            at = "rack"
            if item.rack is None:
                _S_h.pack_into(buffer, position, -1)
                position += 2
            else:
                data = item.rack.encode()
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


def _size_metadata_response_broker_v1_list(items: list[MetadataResponseBroker]) -> int:
    """Versions 1-8."""
    size = 12 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "host"
            length = text_bytes(item.host)
            size += length

            at = "rack"
            if item.rack is not None:
                length = text_bytes(item.rack)
                size += length
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_metadata_response_broker_v9_list(
    buffer: bytes, position: int, end: int, count: int, items: list[MetadataResponseBroker]
) -> int:
    """Versions 9-13."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(MetadataResponseBroker, count)):
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


def _encode_metadata_response_broker_v9_list(
    items: list[MetadataResponseBroker], buffer: bytearray, position: int
) -> int:
    """Versions 9-13."""
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


def _size_metadata_response_broker_v9_list(items: list[MetadataResponseBroker]) -> int:
    """Versions 9-13."""
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


def _decode_metadata_response_partition_v0_list(
    buffer: bytes, position: int, end: int, count: int, items: list[MetadataResponsePartition]
) -> int:
    """Versions 0-4."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(MetadataResponsePartition, count)):
            item.leader_epoch = -1
            item.offline_replicas = []
            item.unknown_tagged_fields = None

            at = "error_code:h partition_index:i leader_id:i replica_nodes:i"
            (
                item.error_code,
                item.partition_index,
                item.leader_id,
                length,
            ) = _S_hiii.unpack_from(buffer, position)
            position += 14

            at = "replica_nodes"
            if length == 0:
                item.replica_nodes = []
            elif 0 < length < 128:
                item.replica_nodes = [*INT32_READERS[length](buffer, position)]
                position += 4 * length
            else:
                item.replica_nodes, position = read_numbers(buffer, position, length, end, "i")

            at = "isr_nodes"
            (length,) = _S_i.unpack_from(buffer, position)
            position += 4
            if length == 0:
                item.isr_nodes = []
            elif 0 < length < 128:
                item.isr_nodes = [*INT32_READERS[length](buffer, position)]
                position += 4 * length
            else:
                item.isr_nodes, position = read_numbers(buffer, position, length, end, "i")
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_metadata_response_partition_v0_list(
    items: list[MetadataResponsePartition], buffer: bytearray, position: int
) -> int:
    """Versions 0-4."""
    at = ""
    item = None
    try:
        for item in items:
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "9-13")

            at = "error_code:h partition_index:i leader_id:i"
            _S_hii.pack_into(buffer, position, item.error_code, item.partition_index, item.leader_id)
            position += 10

            at = "replica_nodes:[i]"
            replica_nodes = item.replica_nodes
            length = len(replica_nodes)
            _S_i.pack_into(buffer, position, length)
            position += 4
            INT32S[length].pack_into(buffer, position, *replica_nodes)
            position += 4 * length

            at = "isr_nodes:[i]"
            isr_nodes = item.isr_nodes
            length = len(isr_nodes)
            _S_i.pack_into(buffer, position, length)
            position += 4
            INT32S[length].pack_into(buffer, position, *isr_nodes)
            position += 4 * length
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_metadata_response_partition_v0_list(items: list[MetadataResponsePartition]) -> int:
    """Versions 0-4."""
    size = 18 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "replica_nodes"
            length = len(item.replica_nodes)
            size += 4 * length

            at = "isr_nodes"
            length = len(item.isr_nodes)
            size += 4 * length
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_metadata_response_partition_v5_list(
    buffer: bytes, position: int, end: int, count: int, items: list[MetadataResponsePartition]
) -> int:
    """Versions 5-6."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(MetadataResponsePartition, count)):
            item.leader_epoch = -1
            item.unknown_tagged_fields = None

            at = "error_code:h partition_index:i leader_id:i replica_nodes:i"
            (
                item.error_code,
                item.partition_index,
                item.leader_id,
                length,
            ) = _S_hiii.unpack_from(buffer, position)
            position += 14

            at = "replica_nodes"
            if length == 0:
                item.replica_nodes = []
            elif 0 < length < 128:
                item.replica_nodes = [*INT32_READERS[length](buffer, position)]
                position += 4 * length
            else:
                item.replica_nodes, position = read_numbers(buffer, position, length, end, "i")

            at = "isr_nodes"
            (length,) = _S_i.unpack_from(buffer, position)
            position += 4
            if length == 0:
                item.isr_nodes = []
            elif 0 < length < 128:
                item.isr_nodes = [*INT32_READERS[length](buffer, position)]
                position += 4 * length
            else:
                item.isr_nodes, position = read_numbers(buffer, position, length, end, "i")

            at = "offline_replicas"
            (length,) = _S_i.unpack_from(buffer, position)
            position += 4
            if length == 0:
                item.offline_replicas = []
            elif 0 < length < 128:
                item.offline_replicas = [*INT32_READERS[length](buffer, position)]
                position += 4 * length
            else:
                item.offline_replicas, position = read_numbers(buffer, position, length, end, "i")
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_metadata_response_partition_v5_list(
    items: list[MetadataResponsePartition], buffer: bytearray, position: int
) -> int:
    """Versions 5-6."""
    at = ""
    item = None
    try:
        for item in items:
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "9-13")

            at = "error_code:h partition_index:i leader_id:i"
            _S_hii.pack_into(buffer, position, item.error_code, item.partition_index, item.leader_id)
            position += 10

            at = "replica_nodes:[i]"
            replica_nodes = item.replica_nodes
            length = len(replica_nodes)
            _S_i.pack_into(buffer, position, length)
            position += 4
            INT32S[length].pack_into(buffer, position, *replica_nodes)
            position += 4 * length

            at = "isr_nodes:[i]"
            isr_nodes = item.isr_nodes
            length = len(isr_nodes)
            _S_i.pack_into(buffer, position, length)
            position += 4
            INT32S[length].pack_into(buffer, position, *isr_nodes)
            position += 4 * length

            at = "offline_replicas:[i]"
            offline_replicas = item.offline_replicas
            length = len(offline_replicas)
            _S_i.pack_into(buffer, position, length)
            position += 4
            INT32S[length].pack_into(buffer, position, *offline_replicas)
            position += 4 * length
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_metadata_response_partition_v5_list(items: list[MetadataResponsePartition]) -> int:
    """Versions 5-6."""
    size = 22 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "replica_nodes"
            length = len(item.replica_nodes)
            size += 4 * length

            at = "isr_nodes"
            length = len(item.isr_nodes)
            size += 4 * length

            at = "offline_replicas"
            length = len(item.offline_replicas)
            size += 4 * length
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_metadata_response_partition_v7_list(
    buffer: bytes, position: int, end: int, count: int, items: list[MetadataResponsePartition]
) -> int:
    """Versions 7-8."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(MetadataResponsePartition, count)):
            item.unknown_tagged_fields = None

            at = "error_code:h partition_index:i leader_id:i leader_epoch:i replica_nodes:i"
            (
                item.error_code,
                item.partition_index,
                item.leader_id,
                item.leader_epoch,
                length,
            ) = _S_hiiii.unpack_from(buffer, position)
            position += 18

            at = "replica_nodes"
            if length == 0:
                item.replica_nodes = []
            elif 0 < length < 128:
                item.replica_nodes = [*INT32_READERS[length](buffer, position)]
                position += 4 * length
            else:
                item.replica_nodes, position = read_numbers(buffer, position, length, end, "i")

            at = "isr_nodes"
            (length,) = _S_i.unpack_from(buffer, position)
            position += 4
            if length == 0:
                item.isr_nodes = []
            elif 0 < length < 128:
                item.isr_nodes = [*INT32_READERS[length](buffer, position)]
                position += 4 * length
            else:
                item.isr_nodes, position = read_numbers(buffer, position, length, end, "i")

            at = "offline_replicas"
            (length,) = _S_i.unpack_from(buffer, position)
            position += 4
            if length == 0:
                item.offline_replicas = []
            elif 0 < length < 128:
                item.offline_replicas = [*INT32_READERS[length](buffer, position)]
                position += 4 * length
            else:
                item.offline_replicas, position = read_numbers(buffer, position, length, end, "i")
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_metadata_response_partition_v7_list(
    items: list[MetadataResponsePartition], buffer: bytearray, position: int
) -> int:
    """Versions 7-8."""
    at = ""
    item = None
    try:
        for item in items:
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "9-13")

            at = "error_code:h partition_index:i leader_id:i leader_epoch:i"
            _S_hiii.pack_into(
                buffer,
                position,
                item.error_code,
                item.partition_index,
                item.leader_id,
                item.leader_epoch,
            )
            position += 14

            at = "replica_nodes:[i]"
            replica_nodes = item.replica_nodes
            length = len(replica_nodes)
            _S_i.pack_into(buffer, position, length)
            position += 4
            INT32S[length].pack_into(buffer, position, *replica_nodes)
            position += 4 * length

            at = "isr_nodes:[i]"
            isr_nodes = item.isr_nodes
            length = len(isr_nodes)
            _S_i.pack_into(buffer, position, length)
            position += 4
            INT32S[length].pack_into(buffer, position, *isr_nodes)
            position += 4 * length

            at = "offline_replicas:[i]"
            offline_replicas = item.offline_replicas
            length = len(offline_replicas)
            _S_i.pack_into(buffer, position, length)
            position += 4
            INT32S[length].pack_into(buffer, position, *offline_replicas)
            position += 4 * length
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_metadata_response_partition_v7_list(items: list[MetadataResponsePartition]) -> int:
    """Versions 7-8."""
    size = 26 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "replica_nodes"
            length = len(item.replica_nodes)
            size += 4 * length

            at = "isr_nodes"
            length = len(item.isr_nodes)
            size += 4 * length

            at = "offline_replicas"
            length = len(item.offline_replicas)
            size += 4 * length
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_metadata_response_partition_v9_list(
    buffer: bytes, position: int, end: int, count: int, items: list[MetadataResponsePartition]
) -> int:
    """Versions 9-13."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(MetadataResponsePartition, count)):
            at = "error_code:h partition_index:i leader_id:i leader_epoch:i replica_nodes:B"
            (
                item.error_code,
                item.partition_index,
                item.leader_id,
                item.leader_epoch,
                length,
            ) = _S_hiiiB.unpack_from(buffer, position)
            position += 15

            at = "replica_nodes"
            if length == 1:
                item.replica_nodes = []
            elif 1 < length < 128:
                length -= 1
                item.replica_nodes = [*INT32_READERS[length](buffer, position)]
                position += 4 * length
            else:
                length, position = read_long_length(buffer, position, length)
                item.replica_nodes, position = read_numbers(buffer, position, length, end, "i")

            at = "isr_nodes"
            length = buffer[position]
            position += 1
            if length == 1:
                item.isr_nodes = []
            elif 1 < length < 128:
                length -= 1
                item.isr_nodes = [*INT32_READERS[length](buffer, position)]
                position += 4 * length
            else:
                length, position = read_long_length(buffer, position, length)
                item.isr_nodes, position = read_numbers(buffer, position, length, end, "i")

            at = "offline_replicas"
            length = buffer[position]
            position += 1
            if length == 1:
                item.offline_replicas = []
            elif 1 < length < 128:
                length -= 1
                item.offline_replicas = [*INT32_READERS[length](buffer, position)]
                position += 4 * length
            else:
                length, position = read_long_length(buffer, position, length)
                item.offline_replicas, position = read_numbers(buffer, position, length, end, "i")

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


def _encode_metadata_response_partition_v9_list(
    items: list[MetadataResponsePartition], buffer: bytearray, position: int
) -> int:
    """Versions 9-13."""
    at = ""
    item = None
    try:
        for item in items:
            at = "error_code:h partition_index:i leader_id:i leader_epoch:i"
            _S_hiii.pack_into(
                buffer,
                position,
                item.error_code,
                item.partition_index,
                item.leader_id,
                item.leader_epoch,
            )
            position += 14

            at = "replica_nodes:[i]"
            replica_nodes = item.replica_nodes
            length = len(replica_nodes)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            INT32S[length].pack_into(buffer, position, *replica_nodes)
            position += 4 * length

            at = "isr_nodes:[i]"
            isr_nodes = item.isr_nodes
            length = len(isr_nodes)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            INT32S[length].pack_into(buffer, position, *isr_nodes)
            position += 4 * length

            at = "offline_replicas:[i]"
            offline_replicas = item.offline_replicas
            length = len(offline_replicas)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            INT32S[length].pack_into(buffer, position, *offline_replicas)
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


def _size_metadata_response_partition_v9_list(items: list[MetadataResponsePartition]) -> int:
    """Versions 9-13."""
    size = 18 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "replica_nodes"
            length = len(item.replica_nodes)
            size += 4 * length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1

            at = "isr_nodes"
            length = len(item.isr_nodes)
            size += 4 * length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1

            at = "offline_replicas"
            length = len(item.offline_replicas)
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


def _decode_metadata_response_topic_v0_list(
    buffer: bytes, position: int, end: int, count: int, items: list[MetadataResponseTopic]
) -> int:
    """Version 0."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(MetadataResponseTopic, count)):
            item.topic_id = ZERO_UUID
            item.is_internal = False
            item.topic_authorized_operations = -2147483648
            item.unknown_tagged_fields = None

            at = "error_code:h name:h"
            item.error_code, length = _S_hh.unpack_from(buffer, position)
            position += 4

            at = "name"
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
            partitions: list[MetadataResponsePartition] = []
            item.partitions = partitions
            position = _decode_metadata_response_partition_v0_list(buffer, position, end, length, partitions)
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_metadata_response_topic_v0_list(
    items: list[MetadataResponseTopic], buffer: bytearray, position: int
) -> int:
    """Version 0."""
    at = ""
    item = None
    try:
        for item in items:
            if item.topic_authorized_operations != -2147483648:
                at = "topic_authorized_operations"
                raise not_in_version(item.topic_authorized_operations, "8-13")
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "9-13")

            at = "error_code:h"
            _S_h.pack_into(buffer, position, item.error_code)
            position += 2

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

            at = "partitions"
            length = len(item.partitions)
            _S_i.pack_into(buffer, position, length)
            position += 4
            position = _encode_metadata_response_partition_v0_list(item.partitions, buffer, position)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_metadata_response_topic_v0_list(items: list[MetadataResponseTopic]) -> int:
    """Version 0."""
    size = 8 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "name"
            if item.name is None:
                raise null_value()
            length = text_bytes(item.name)
            size += length

            at = "partitions"
            size += _size_metadata_response_partition_v0_list(item.partitions)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_metadata_response_topic_v1_list(
    buffer: bytes, position: int, end: int, count: int, items: list[MetadataResponseTopic]
) -> int:
    """Versions 1-4."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(MetadataResponseTopic, count)):
            item.topic_id = ZERO_UUID
            item.topic_authorized_operations = -2147483648
            item.unknown_tagged_fields = None

            at = "error_code:h name:h"
            item.error_code, length = _S_hh.unpack_from(buffer, position)
            position += 4

            at = "name"
            stop = position + length
            if not position <= stop <= end:
                raise bad_length(length, position, end, "bytes")
            item.name = str(buffer[position:stop], "utf-8")
            position = stop

            at = "is_internal:? partitions:i"
            item.is_internal, length = _S_ti.unpack_from(buffer, position)
            position += 5

            at = "partitions"
            if not 0 <= length * 18 <= end - position:
                raise bad_length(length, position, end, "elements of at least 18 bytes")
            partitions: list[MetadataResponsePartition] = []
            item.partitions = partitions
            position = _decode_metadata_response_partition_v0_list(buffer, position, end, length, partitions)
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_metadata_response_topic_v1_list(
    items: list[MetadataResponseTopic], buffer: bytearray, position: int
) -> int:
    """Versions 1-4."""
    at = ""
    item = None
    try:
        for item in items:
            if item.topic_authorized_operations != -2147483648:
                at = "topic_authorized_operations"
                raise not_in_version(item.topic_authorized_operations, "8-13")
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "9-13")

            at = "error_code:h"
            _S_h.pack_into(buffer, position, item.error_code)
            position += 2

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

            at = "is_internal:?"
            _S_b.pack_into(buffer, position, item.is_internal)
            position += 1

            at = "partitions"
            length = len(item.partitions)
            _S_i.pack_into(buffer, position, length)
            position += 4
            position = _encode_metadata_response_partition_v0_list(item.partitions, buffer, position)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_metadata_response_topic_v1_list(items: list[MetadataResponseTopic]) -> int:
    """Versions 1-4."""
    size = 9 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "name"
            if item.name is None:
                raise null_value()
            length = text_bytes(item.name)
            size += length

            at = "partitions"
            size += _size_metadata_response_partition_v0_list(item.partitions)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_metadata_response_topic_v5_list(
    buffer: bytes, position: int, end: int, count: int, items: list[MetadataResponseTopic]
) -> int:
    """Versions 5-6."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(MetadataResponseTopic, count)):
            item.topic_id = ZERO_UUID
            item.topic_authorized_operations = -2147483648
            item.unknown_tagged_fields = None

            at = "error_code:h name:h"
            item.error_code, length = _S_hh.unpack_from(buffer, position)
            position += 4

            at = "name"
            stop = position + length
            if not position <= stop <= end:
                raise bad_length(length, position, end, "bytes")
            item.name = str(buffer[position:stop], "utf-8")
            position = stop

            at = "is_internal:? partitions:i"
            item.is_internal, length = _S_ti.unpack_from(buffer, position)
            position += 5

            at = "partitions"
            if not 0 <= length * 22 <= end - position:
                raise bad_length(length, position, end, "elements of at least 22 bytes")
            partitions: list[MetadataResponsePartition] = []
            item.partitions = partitions
            position = _decode_metadata_response_partition_v5_list(buffer, position, end, length, partitions)
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_metadata_response_topic_v5_list(
    items: list[MetadataResponseTopic], buffer: bytearray, position: int
) -> int:
    """Versions 5-6."""
    at = ""
    item = None
    try:
        for item in items:
            if item.topic_authorized_operations != -2147483648:
                at = "topic_authorized_operations"
                raise not_in_version(item.topic_authorized_operations, "8-13")
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "9-13")

            at = "error_code:h"
            _S_h.pack_into(buffer, position, item.error_code)
            position += 2

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

            at = "is_internal:?"
            _S_b.pack_into(buffer, position, item.is_internal)
            position += 1

            at = "partitions"
            length = len(item.partitions)
            _S_i.pack_into(buffer, position, length)
            position += 4
            position = _encode_metadata_response_partition_v5_list(item.partitions, buffer, position)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_metadata_response_topic_v5_list(items: list[MetadataResponseTopic]) -> int:
    """Versions 5-6."""
    size = 9 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "name"
            if item.name is None:
                raise null_value()
            length = text_bytes(item.name)
            size += length

            at = "partitions"
            size += _size_metadata_response_partition_v5_list(item.partitions)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_metadata_response_topic_v7_list(
    buffer: bytes, position: int, end: int, count: int, items: list[MetadataResponseTopic]
) -> int:
    """Version 7."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(MetadataResponseTopic, count)):
            item.topic_id = ZERO_UUID
            item.topic_authorized_operations = -2147483648
            item.unknown_tagged_fields = None

            at = "error_code:h name:h"
            item.error_code, length = _S_hh.unpack_from(buffer, position)
            position += 4

            at = "name"
            stop = position + length
            if not position <= stop <= end:
                raise bad_length(length, position, end, "bytes")
            item.name = str(buffer[position:stop], "utf-8")
            position = stop

            at = "is_internal:? partitions:i"
            item.is_internal, length = _S_ti.unpack_from(buffer, position)
            position += 5

            at = "partitions"
            if not 0 <= length * 26 <= end - position:
                raise bad_length(length, position, end, "elements of at least 26 bytes")
            partitions: list[MetadataResponsePartition] = []
            item.partitions = partitions
            position = _decode_metadata_response_partition_v7_list(buffer, position, end, length, partitions)
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_metadata_response_topic_v7_list(
    items: list[MetadataResponseTopic], buffer: bytearray, position: int
) -> int:
    """Version 7."""
    at = ""
    item = None
    try:
        for item in items:
            if item.topic_authorized_operations != -2147483648:
                at = "topic_authorized_operations"
                raise not_in_version(item.topic_authorized_operations, "8-13")
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "9-13")

            at = "error_code:h"
            _S_h.pack_into(buffer, position, item.error_code)
            position += 2

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

            at = "is_internal:?"
            _S_b.pack_into(buffer, position, item.is_internal)
            position += 1

            at = "partitions"
            length = len(item.partitions)
            _S_i.pack_into(buffer, position, length)
            position += 4
            position = _encode_metadata_response_partition_v7_list(item.partitions, buffer, position)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_metadata_response_topic_v7_list(items: list[MetadataResponseTopic]) -> int:
    """Version 7."""
    size = 9 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "name"
            if item.name is None:
                raise null_value()
            length = text_bytes(item.name)
            size += length

            at = "partitions"
            size += _size_metadata_response_partition_v7_list(item.partitions)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_metadata_response_topic_v8_list(
    buffer: bytes, position: int, end: int, count: int, items: list[MetadataResponseTopic]
) -> int:
    """Version 8."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(MetadataResponseTopic, count)):
            item.topic_id = ZERO_UUID
            item.unknown_tagged_fields = None

            at = "error_code:h name:h"
            item.error_code, length = _S_hh.unpack_from(buffer, position)
            position += 4

            at = "name"
            stop = position + length
            if not position <= stop <= end:
                raise bad_length(length, position, end, "bytes")
            item.name = str(buffer[position:stop], "utf-8")
            position = stop

            at = "is_internal:? partitions:i"
            item.is_internal, length = _S_ti.unpack_from(buffer, position)
            position += 5

            at = "partitions"
            if not 0 <= length * 26 <= end - position:
                raise bad_length(length, position, end, "elements of at least 26 bytes")
            partitions: list[MetadataResponsePartition] = []
            item.partitions = partitions
            position = _decode_metadata_response_partition_v7_list(buffer, position, end, length, partitions)

            at = "topic_authorized_operations:i"
            (item.topic_authorized_operations,) = _S_i.unpack_from(buffer, position)
            position += 4
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_metadata_response_topic_v8_list(
    items: list[MetadataResponseTopic], buffer: bytearray, position: int
) -> int:
    """Version 8."""
    at = ""
    item = None
    try:
        for item in items:
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "9-13")

            at = "error_code:h"
            _S_h.pack_into(buffer, position, item.error_code)
            position += 2

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

            at = "is_internal:?"
            _S_b.pack_into(buffer, position, item.is_internal)
            position += 1

            at = "partitions"
            length = len(item.partitions)
            _S_i.pack_into(buffer, position, length)
            position += 4
            position = _encode_metadata_response_partition_v7_list(item.partitions, buffer, position)

            at = "topic_authorized_operations:i"
            _S_i.pack_into(buffer, position, item.topic_authorized_operations)
            position += 4
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_metadata_response_topic_v8_list(items: list[MetadataResponseTopic]) -> int:
    """Version 8."""
    size = 13 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "name"
            if item.name is None:
                raise null_value()
            length = text_bytes(item.name)
            size += length

            at = "partitions"
            size += _size_metadata_response_partition_v7_list(item.partitions)
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_metadata_response_topic_v9_list(
    buffer: bytes, position: int, end: int, count: int, items: list[MetadataResponseTopic]
) -> int:
    """Version 9."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(MetadataResponseTopic, count)):
            item.topic_id = ZERO_UUID

            at = "error_code:h name:B"
            item.error_code, length = _S_hB.unpack_from(buffer, position)
            position += 3

            at = "name"
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            stop = position + length
            if not position <= stop <= end or length > MAX_STRING_BYTES:
                raise bad_length(length, position, end, "bytes")
            item.name = str(buffer[position:stop], "utf-8")
            position = stop

            at = "is_internal:? partitions:B"
            item.is_internal, length = _S_tB.unpack_from(buffer, position)
            position += 2

            at = "partitions"
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if not 0 <= length * 18 <= end - position:
                raise bad_length(length, position, end, "elements of at least 18 bytes")
            partitions: list[MetadataResponsePartition] = []
            item.partitions = partitions
            position = _decode_metadata_response_partition_v9_list(buffer, position, end, length, partitions)

            at = "topic_authorized_operations:i tagged_fields:B"
            item.topic_authorized_operations, length = _S_iB.unpack_from(buffer, position)
            position += 5
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


def _encode_metadata_response_topic_v9_list(
    items: list[MetadataResponseTopic], buffer: bytearray, position: int
) -> int:
    """Version 9."""
    at = ""
    item = None
    try:
        for item in items:
            at = "error_code:h"
            _S_h.pack_into(buffer, position, item.error_code)
            position += 2

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

            at = "is_internal:?"
            _S_b.pack_into(buffer, position, item.is_internal)
            position += 1

            at = "partitions"
            length = len(item.partitions)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            position = _encode_metadata_response_partition_v9_list(item.partitions, buffer, position)

            at = "topic_authorized_operations:i"
            _S_i.pack_into(buffer, position, item.topic_authorized_operations)
            position += 4

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


def _size_metadata_response_topic_v9_list(items: list[MetadataResponseTopic]) -> int:
    """Version 9."""
    size = 10 * len(items)
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

            at = "partitions"
            length = len(item.partitions)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_metadata_response_partition_v9_list(item.partitions)

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_metadata_response_topic_v10_list(
    buffer: bytes, position: int, end: int, count: int, items: list[MetadataResponseTopic]
) -> int:
    """Versions 10-11."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(MetadataResponseTopic, count)):
            at = "error_code:h name:B"
            item.error_code, length = _S_hB.unpack_from(buffer, position)
            position += 3

            at = "name"
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            stop = position + length
            if not position <= stop <= end or length > MAX_STRING_BYTES:
                raise bad_length(length, position, end, "bytes")
            item.name = str(buffer[position:stop], "utf-8")
            position = stop

            at = "topic_id:16s is_internal:? partitions:B"
            topic_id, item.is_internal, length = _S_16stB.unpack_from(buffer, position)
            position += 18
            item.topic_id = ZERO_UUID if topic_id == ZERO_UUID_BYTES else UUID(bytes=topic_id)

            at = "partitions"
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if not 0 <= length * 18 <= end - position:
                raise bad_length(length, position, end, "elements of at least 18 bytes")
            partitions: list[MetadataResponsePartition] = []
            item.partitions = partitions
            position = _decode_metadata_response_partition_v9_list(buffer, position, end, length, partitions)

            at = "topic_authorized_operations:i tagged_fields:B"
            item.topic_authorized_operations, length = _S_iB.unpack_from(buffer, position)
            position += 5
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


def _encode_metadata_response_topic_v10_list(
    items: list[MetadataResponseTopic], buffer: bytearray, position: int
) -> int:
    """Versions 10-11."""
    at = ""
    item = None
    try:
        for item in items:
            at = "error_code:h"
            _S_h.pack_into(buffer, position, item.error_code)
            position += 2

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

            at = "topic_id:16s is_internal:?"
            _S_16sb.pack_into(buffer, position, item.topic_id.bytes, item.is_internal)
            position += 17

            at = "partitions"
            length = len(item.partitions)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            position = _encode_metadata_response_partition_v9_list(item.partitions, buffer, position)

            at = "topic_authorized_operations:i"
            _S_i.pack_into(buffer, position, item.topic_authorized_operations)
            position += 4

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


def _size_metadata_response_topic_v10_list(items: list[MetadataResponseTopic]) -> int:
    """Versions 10-11."""
    size = 26 * len(items)
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

            at = "partitions"
            length = len(item.partitions)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_metadata_response_partition_v9_list(item.partitions)

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_metadata_response_topic_v12_list(
    buffer: bytes, position: int, end: int, count: int, items: list[MetadataResponseTopic]
) -> int:
    """Versions 12-13."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(MetadataResponseTopic, count)):
            at = "error_code:h name:B"
            item.error_code, length = _S_hB.unpack_from(buffer, position)
            position += 3

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

            at = "topic_id:16s is_internal:? partitions:B"
            topic_id, item.is_internal, length = _S_16stB.unpack_from(buffer, position)
            position += 18
            item.topic_id = ZERO_UUID if topic_id == ZERO_UUID_BYTES else UUID(bytes=topic_id)

            at = "partitions"
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            if not 0 <= length * 18 <= end - position:
                raise bad_length(length, position, end, "elements of at least 18 bytes")
            partitions: list[MetadataResponsePartition] = []
            item.partitions = partitions
            position = _decode_metadata_response_partition_v9_list(buffer, position, end, length, partitions)

            at = "topic_authorized_operations:i tagged_fields:B"
            item.topic_authorized_operations, length = _S_iB.unpack_from(buffer, position)
            position += 5
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


def _encode_metadata_response_topic_v12_list(
    items: list[MetadataResponseTopic], buffer: bytearray, position: int
) -> int:
    """Versions 12-13."""
    at = ""
    item = None
    try:
        for item in items:
            at = "error_code:h"
            _S_h.pack_into(buffer, position, item.error_code)
            position += 2

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

            at = "topic_id:16s is_internal:?"
            _S_16sb.pack_into(buffer, position, item.topic_id.bytes, item.is_internal)
            position += 17

            at = "partitions"
            length = len(item.partitions)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            position = _encode_metadata_response_partition_v9_list(item.partitions, buffer, position)

            at = "topic_authorized_operations:i"
            _S_i.pack_into(buffer, position, item.topic_authorized_operations)
            position += 4

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


def _size_metadata_response_topic_v12_list(items: list[MetadataResponseTopic]) -> int:
    """Versions 12-13."""
    size = 26 * len(items)
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

            at = "partitions"
            length = len(item.partitions)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_metadata_response_partition_v9_list(item.partitions)

            at = "tagged_fields"
            unknown = item.unknown_tagged_fields
            if unknown:
                size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return size


def _decode_metadata_response_v0(buffer: bytes, position: int, end: int) -> tuple[MetadataResponse, int]:
    """Version 0."""
    at = ""
    item = None
    try:
        item = _new(MetadataResponse)
        item.throttle_time_ms = 0
        item.cluster_id = None
        item.controller_id = -1
        item.cluster_authorized_operations = -2147483648
        item.error_code = 0
        item.unknown_tagged_fields = None

        at = "brokers"
        (length,) = _S_i.unpack_from(buffer, position)
        position += 4
        if not 0 <= length * 10 <= end - position:
            raise bad_length(length, position, end, "elements of at least 10 bytes")
        brokers: MetadataResponseBrokerCollection = MetadataResponseBrokerCollection()
        item.brokers = brokers
        position = _decode_metadata_response_broker_v0_list(buffer, position, end, length, brokers)

        at = "topics"
        (length,) = _S_i.unpack_from(buffer, position)
        position += 4
        if not 0 <= length * 8 <= end - position:
            raise bad_length(length, position, end, "elements of at least 8 bytes")
        topics: MetadataResponseTopicCollection = MetadataResponseTopicCollection()
        item.topics = topics
        position = _decode_metadata_response_topic_v0_list(buffer, position, end, length, topics)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_metadata_response_v0(item: MetadataResponse, buffer: bytearray, position: int) -> int:
    """Version 0."""
    at = ""
    try:
        if item.cluster_authorized_operations != -2147483648:
            at = "cluster_authorized_operations"
            raise not_in_version(item.cluster_authorized_operations, "8-10")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "9-13")

        at = "brokers"
        length = len(item.brokers)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_metadata_response_broker_v0_list(item.brokers, buffer, position)

        at = "topics"
        length = len(item.topics)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_metadata_response_topic_v0_list(item.topics, buffer, position)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_metadata_response_v0(item: MetadataResponse) -> int:
    """Version 0."""
    size = 8
    at = ""
    try:
        at = "brokers"
        size += _size_metadata_response_broker_v0_list(item.brokers)

        at = "topics"
        size += _size_metadata_response_topic_v0_list(item.topics)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_metadata_response_v1(buffer: bytes, position: int, end: int) -> tuple[MetadataResponse, int]:
    """Version 1."""
    at = ""
    item = None
    try:
        item = _new(MetadataResponse)
        item.throttle_time_ms = 0
        item.cluster_id = None
        item.cluster_authorized_operations = -2147483648
        item.error_code = 0
        item.unknown_tagged_fields = None

        at = "brokers"
        (length,) = _S_i.unpack_from(buffer, position)
        position += 4
        if not 0 <= length * 12 <= end - position:
            raise bad_length(length, position, end, "elements of at least 12 bytes")
        brokers: MetadataResponseBrokerCollection = MetadataResponseBrokerCollection()
        item.brokers = brokers
        position = _decode_metadata_response_broker_v1_list(buffer, position, end, length, brokers)

        at = "controller_id:i topics:i"
        item.controller_id, length = _S_ii.unpack_from(buffer, position)
        position += 8

        at = "topics"
        if not 0 <= length * 9 <= end - position:
            raise bad_length(length, position, end, "elements of at least 9 bytes")
        topics: MetadataResponseTopicCollection = MetadataResponseTopicCollection()
        item.topics = topics
        position = _decode_metadata_response_topic_v1_list(buffer, position, end, length, topics)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_metadata_response_v1(item: MetadataResponse, buffer: bytearray, position: int) -> int:
    """Version 1."""
    at = ""
    try:
        if item.cluster_authorized_operations != -2147483648:
            at = "cluster_authorized_operations"
            raise not_in_version(item.cluster_authorized_operations, "8-10")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "9-13")

        at = "brokers"
        length = len(item.brokers)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_metadata_response_broker_v1_list(item.brokers, buffer, position)

        at = "controller_id:i"
        _S_i.pack_into(buffer, position, item.controller_id)
        position += 4

        at = "topics"
        length = len(item.topics)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_metadata_response_topic_v1_list(item.topics, buffer, position)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_metadata_response_v1(item: MetadataResponse) -> int:
    """Version 1."""
    size = 12
    at = ""
    try:
        at = "brokers"
        size += _size_metadata_response_broker_v1_list(item.brokers)

        at = "topics"
        size += _size_metadata_response_topic_v1_list(item.topics)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_metadata_response_v2(buffer: bytes, position: int, end: int) -> tuple[MetadataResponse, int]:
    """Version 2."""
    at = ""
    item = None
    try:
        item = _new(MetadataResponse)
        item.throttle_time_ms = 0
        item.cluster_authorized_operations = -2147483648
        item.error_code = 0
        item.unknown_tagged_fields = None

        at = "brokers"
        (length,) = _S_i.unpack_from(buffer, position)
        position += 4
        if not 0 <= length * 12 <= end - position:
            raise bad_length(length, position, end, "elements of at least 12 bytes")
        brokers: MetadataResponseBrokerCollection = MetadataResponseBrokerCollection()
        item.brokers = brokers
        position = _decode_metadata_response_broker_v1_list(buffer, position, end, length, brokers)

        at = "cluster_id"
        (length,) = _S_h.unpack_from(buffer, position)
        position += 2
        if length == -1:
            item.cluster_id = None
        else:
            stop = position + length
            if not position <= stop <= end:
                raise bad_length(length, position, end, "bytes")
            item.cluster_id = str(buffer[position:stop], "utf-8")
            position = stop

        at = "controller_id:i topics:i"
        item.controller_id, length = _S_ii.unpack_from(buffer, position)
        position += 8

        at = "topics"
        if not 0 <= length * 9 <= end - position:
            raise bad_length(length, position, end, "elements of at least 9 bytes")
        topics: MetadataResponseTopicCollection = MetadataResponseTopicCollection()
        item.topics = topics
        position = _decode_metadata_response_topic_v1_list(buffer, position, end, length, topics)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_metadata_response_v2(item: MetadataResponse, buffer: bytearray, position: int) -> int:
    """Version 2."""
    at = ""
    try:
        if item.cluster_authorized_operations != -2147483648:
            at = "cluster_authorized_operations"
            raise not_in_version(item.cluster_authorized_operations, "8-10")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "9-13")

        at = "brokers"
        length = len(item.brokers)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_metadata_response_broker_v1_list(item.brokers, buffer, position)

        at = "cluster_id"
        if item.cluster_id is None:
            _S_h.pack_into(buffer, position, -1)
            position += 2
        else:
            data = item.cluster_id.encode()
            length = len(data)
            if length > MAX_STRING_BYTES:
                raise string_too_long(length)
            _S_h.pack_into(buffer, position, length)
            position += 2
            stop = position + length
            buffer[position:stop] = data
            position = stop

        at = "controller_id:i"
        _S_i.pack_into(buffer, position, item.controller_id)
        position += 4

        at = "topics"
        length = len(item.topics)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_metadata_response_topic_v1_list(item.topics, buffer, position)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_metadata_response_v2(item: MetadataResponse) -> int:
    """Version 2."""
    size = 14
    at = ""
    try:
        at = "brokers"
        size += _size_metadata_response_broker_v1_list(item.brokers)

        at = "cluster_id"
        if item.cluster_id is not None:
            length = text_bytes(item.cluster_id)
            size += length

        at = "topics"
        size += _size_metadata_response_topic_v1_list(item.topics)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_metadata_response_v3(buffer: bytes, position: int, end: int) -> tuple[MetadataResponse, int]:
    """Versions 3-4."""
    at = ""
    item = None
    try:
        item = _new(MetadataResponse)
        item.cluster_authorized_operations = -2147483648
        item.error_code = 0
        item.unknown_tagged_fields = None

        at = "throttle_time_ms:i brokers:i"
        item.throttle_time_ms, length = _S_ii.unpack_from(buffer, position)
        position += 8

        at = "brokers"
        if not 0 <= length * 12 <= end - position:
            raise bad_length(length, position, end, "elements of at least 12 bytes")
        brokers: MetadataResponseBrokerCollection = MetadataResponseBrokerCollection()
        item.brokers = brokers
        position = _decode_metadata_response_broker_v1_list(buffer, position, end, length, brokers)

        at = "cluster_id"
        (length,) = _S_h.unpack_from(buffer, position)
        position += 2
        if length == -1:
            item.cluster_id = None
        else:
            stop = position + length
            if not position <= stop <= end:
                raise bad_length(length, position, end, "bytes")
            item.cluster_id = str(buffer[position:stop], "utf-8")
            position = stop

        at = "controller_id:i topics:i"
        item.controller_id, length = _S_ii.unpack_from(buffer, position)
        position += 8

        at = "topics"
        if not 0 <= length * 9 <= end - position:
            raise bad_length(length, position, end, "elements of at least 9 bytes")
        topics: MetadataResponseTopicCollection = MetadataResponseTopicCollection()
        item.topics = topics
        position = _decode_metadata_response_topic_v1_list(buffer, position, end, length, topics)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_metadata_response_v3(item: MetadataResponse, buffer: bytearray, position: int) -> int:
    """Versions 3-4."""
    at = ""
    try:
        if item.cluster_authorized_operations != -2147483648:
            at = "cluster_authorized_operations"
            raise not_in_version(item.cluster_authorized_operations, "8-10")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "9-13")

        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4

        at = "brokers"
        length = len(item.brokers)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_metadata_response_broker_v1_list(item.brokers, buffer, position)

        at = "cluster_id"
        if item.cluster_id is None:
            _S_h.pack_into(buffer, position, -1)
            position += 2
        else:
            data = item.cluster_id.encode()
            length = len(data)
            if length > MAX_STRING_BYTES:
                raise string_too_long(length)
            _S_h.pack_into(buffer, position, length)
            position += 2
            stop = position + length
            buffer[position:stop] = data
            position = stop

        at = "controller_id:i"
        _S_i.pack_into(buffer, position, item.controller_id)
        position += 4

        at = "topics"
        length = len(item.topics)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_metadata_response_topic_v1_list(item.topics, buffer, position)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_metadata_response_v3(item: MetadataResponse) -> int:
    """Versions 3-4."""
    size = 18
    at = ""
    try:
        at = "brokers"
        size += _size_metadata_response_broker_v1_list(item.brokers)

        at = "cluster_id"
        if item.cluster_id is not None:
            length = text_bytes(item.cluster_id)
            size += length

        at = "topics"
        size += _size_metadata_response_topic_v1_list(item.topics)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_metadata_response_v5(buffer: bytes, position: int, end: int) -> tuple[MetadataResponse, int]:
    """Versions 5-6."""
    at = ""
    item = None
    try:
        item = _new(MetadataResponse)
        item.cluster_authorized_operations = -2147483648
        item.error_code = 0
        item.unknown_tagged_fields = None

        at = "throttle_time_ms:i brokers:i"
        item.throttle_time_ms, length = _S_ii.unpack_from(buffer, position)
        position += 8

        at = "brokers"
        if not 0 <= length * 12 <= end - position:
            raise bad_length(length, position, end, "elements of at least 12 bytes")
        brokers: MetadataResponseBrokerCollection = MetadataResponseBrokerCollection()
        item.brokers = brokers
        position = _decode_metadata_response_broker_v1_list(buffer, position, end, length, brokers)

        at = "cluster_id"
        (length,) = _S_h.unpack_from(buffer, position)
        position += 2
        if length == -1:
            item.cluster_id = None
        else:
            stop = position + length
            if not position <= stop <= end:
                raise bad_length(length, position, end, "bytes")
            item.cluster_id = str(buffer[position:stop], "utf-8")
            position = stop

        at = "controller_id:i topics:i"
        item.controller_id, length = _S_ii.unpack_from(buffer, position)
        position += 8

        at = "topics"
        if not 0 <= length * 9 <= end - position:
            raise bad_length(length, position, end, "elements of at least 9 bytes")
        topics: MetadataResponseTopicCollection = MetadataResponseTopicCollection()
        item.topics = topics
        position = _decode_metadata_response_topic_v5_list(buffer, position, end, length, topics)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_metadata_response_v5(item: MetadataResponse, buffer: bytearray, position: int) -> int:
    """Versions 5-6."""
    at = ""
    try:
        if item.cluster_authorized_operations != -2147483648:
            at = "cluster_authorized_operations"
            raise not_in_version(item.cluster_authorized_operations, "8-10")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "9-13")

        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4

        at = "brokers"
        length = len(item.brokers)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_metadata_response_broker_v1_list(item.brokers, buffer, position)

        at = "cluster_id"
        if item.cluster_id is None:
            _S_h.pack_into(buffer, position, -1)
            position += 2
        else:
            data = item.cluster_id.encode()
            length = len(data)
            if length > MAX_STRING_BYTES:
                raise string_too_long(length)
            _S_h.pack_into(buffer, position, length)
            position += 2
            stop = position + length
            buffer[position:stop] = data
            position = stop

        at = "controller_id:i"
        _S_i.pack_into(buffer, position, item.controller_id)
        position += 4

        at = "topics"
        length = len(item.topics)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_metadata_response_topic_v5_list(item.topics, buffer, position)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_metadata_response_v5(item: MetadataResponse) -> int:
    """Versions 5-6."""
    size = 18
    at = ""
    try:
        at = "brokers"
        size += _size_metadata_response_broker_v1_list(item.brokers)

        at = "cluster_id"
        if item.cluster_id is not None:
            length = text_bytes(item.cluster_id)
            size += length

        at = "topics"
        size += _size_metadata_response_topic_v5_list(item.topics)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_metadata_response_v7(buffer: bytes, position: int, end: int) -> tuple[MetadataResponse, int]:
    """Version 7."""
    at = ""
    item = None
    try:
        item = _new(MetadataResponse)
        item.cluster_authorized_operations = -2147483648
        item.error_code = 0
        item.unknown_tagged_fields = None

        at = "throttle_time_ms:i brokers:i"
        item.throttle_time_ms, length = _S_ii.unpack_from(buffer, position)
        position += 8

        at = "brokers"
        if not 0 <= length * 12 <= end - position:
            raise bad_length(length, position, end, "elements of at least 12 bytes")
        brokers: MetadataResponseBrokerCollection = MetadataResponseBrokerCollection()
        item.brokers = brokers
        position = _decode_metadata_response_broker_v1_list(buffer, position, end, length, brokers)

        at = "cluster_id"
        (length,) = _S_h.unpack_from(buffer, position)
        position += 2
        if length == -1:
            item.cluster_id = None
        else:
            stop = position + length
            if not position <= stop <= end:
                raise bad_length(length, position, end, "bytes")
            item.cluster_id = str(buffer[position:stop], "utf-8")
            position = stop

        at = "controller_id:i topics:i"
        item.controller_id, length = _S_ii.unpack_from(buffer, position)
        position += 8

        at = "topics"
        if not 0 <= length * 9 <= end - position:
            raise bad_length(length, position, end, "elements of at least 9 bytes")
        topics: MetadataResponseTopicCollection = MetadataResponseTopicCollection()
        item.topics = topics
        position = _decode_metadata_response_topic_v7_list(buffer, position, end, length, topics)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_metadata_response_v7(item: MetadataResponse, buffer: bytearray, position: int) -> int:
    """Version 7."""
    at = ""
    try:
        if item.cluster_authorized_operations != -2147483648:
            at = "cluster_authorized_operations"
            raise not_in_version(item.cluster_authorized_operations, "8-10")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "9-13")

        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4

        at = "brokers"
        length = len(item.brokers)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_metadata_response_broker_v1_list(item.brokers, buffer, position)

        at = "cluster_id"
        if item.cluster_id is None:
            _S_h.pack_into(buffer, position, -1)
            position += 2
        else:
            data = item.cluster_id.encode()
            length = len(data)
            if length > MAX_STRING_BYTES:
                raise string_too_long(length)
            _S_h.pack_into(buffer, position, length)
            position += 2
            stop = position + length
            buffer[position:stop] = data
            position = stop

        at = "controller_id:i"
        _S_i.pack_into(buffer, position, item.controller_id)
        position += 4

        at = "topics"
        length = len(item.topics)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_metadata_response_topic_v7_list(item.topics, buffer, position)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_metadata_response_v7(item: MetadataResponse) -> int:
    """Version 7."""
    size = 18
    at = ""
    try:
        at = "brokers"
        size += _size_metadata_response_broker_v1_list(item.brokers)

        at = "cluster_id"
        if item.cluster_id is not None:
            length = text_bytes(item.cluster_id)
            size += length

        at = "topics"
        size += _size_metadata_response_topic_v7_list(item.topics)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_metadata_response_v8(buffer: bytes, position: int, end: int) -> tuple[MetadataResponse, int]:
    """Version 8."""
    at = ""
    item = None
    try:
        item = _new(MetadataResponse)
        item.error_code = 0
        item.unknown_tagged_fields = None

        at = "throttle_time_ms:i brokers:i"
        item.throttle_time_ms, length = _S_ii.unpack_from(buffer, position)
        position += 8

        at = "brokers"
        if not 0 <= length * 12 <= end - position:
            raise bad_length(length, position, end, "elements of at least 12 bytes")
        brokers: MetadataResponseBrokerCollection = MetadataResponseBrokerCollection()
        item.brokers = brokers
        position = _decode_metadata_response_broker_v1_list(buffer, position, end, length, brokers)

        at = "cluster_id"
        (length,) = _S_h.unpack_from(buffer, position)
        position += 2
        if length == -1:
            item.cluster_id = None
        else:
            stop = position + length
            if not position <= stop <= end:
                raise bad_length(length, position, end, "bytes")
            item.cluster_id = str(buffer[position:stop], "utf-8")
            position = stop

        at = "controller_id:i topics:i"
        item.controller_id, length = _S_ii.unpack_from(buffer, position)
        position += 8

        at = "topics"
        if not 0 <= length * 13 <= end - position:
            raise bad_length(length, position, end, "elements of at least 13 bytes")
        topics: MetadataResponseTopicCollection = MetadataResponseTopicCollection()
        item.topics = topics
        position = _decode_metadata_response_topic_v8_list(buffer, position, end, length, topics)

        at = "cluster_authorized_operations:i"
        (item.cluster_authorized_operations,) = _S_i.unpack_from(buffer, position)
        position += 4
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_metadata_response_v8(item: MetadataResponse, buffer: bytearray, position: int) -> int:
    """Version 8."""
    at = ""
    try:
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "9-13")

        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4

        at = "brokers"
        length = len(item.brokers)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_metadata_response_broker_v1_list(item.brokers, buffer, position)

        at = "cluster_id"
        if item.cluster_id is None:
            _S_h.pack_into(buffer, position, -1)
            position += 2
        else:
            data = item.cluster_id.encode()
            length = len(data)
            if length > MAX_STRING_BYTES:
                raise string_too_long(length)
            _S_h.pack_into(buffer, position, length)
            position += 2
            stop = position + length
            buffer[position:stop] = data
            position = stop

        at = "controller_id:i"
        _S_i.pack_into(buffer, position, item.controller_id)
        position += 4

        at = "topics"
        length = len(item.topics)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_metadata_response_topic_v8_list(item.topics, buffer, position)

        at = "cluster_authorized_operations:i"
        _S_i.pack_into(buffer, position, item.cluster_authorized_operations)
        position += 4
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_metadata_response_v8(item: MetadataResponse) -> int:
    """Version 8."""
    size = 22
    at = ""
    try:
        at = "brokers"
        size += _size_metadata_response_broker_v1_list(item.brokers)

        at = "cluster_id"
        if item.cluster_id is not None:
            length = text_bytes(item.cluster_id)
            size += length

        at = "topics"
        size += _size_metadata_response_topic_v8_list(item.topics)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_metadata_response_v9(buffer: bytes, position: int, end: int) -> tuple[MetadataResponse, int]:
    """Version 9."""
    at = ""
    item = None
    try:
        item = _new(MetadataResponse)
        item.error_code = 0

        at = "throttle_time_ms:i brokers:B"
        item.throttle_time_ms, length = _S_iB.unpack_from(buffer, position)
        position += 5

        at = "brokers"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 11 <= end - position:
            raise bad_length(length, position, end, "elements of at least 11 bytes")
        brokers: MetadataResponseBrokerCollection = MetadataResponseBrokerCollection()
        item.brokers = brokers
        position = _decode_metadata_response_broker_v9_list(buffer, position, end, length, brokers)

        at = "cluster_id"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if length == -1:
            item.cluster_id = None
        else:
            stop = position + length
            if stop > end or length > MAX_STRING_BYTES:
                raise bad_length(length, position, end, "bytes")
            item.cluster_id = str(buffer[position:stop], "utf-8")
            position = stop

        at = "controller_id:i topics:B"
        item.controller_id, length = _S_iB.unpack_from(buffer, position)
        position += 5

        at = "topics"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 10 <= end - position:
            raise bad_length(length, position, end, "elements of at least 10 bytes")
        topics: MetadataResponseTopicCollection = MetadataResponseTopicCollection()
        item.topics = topics
        position = _decode_metadata_response_topic_v9_list(buffer, position, end, length, topics)

        at = "cluster_authorized_operations:i tagged_fields:B"
        item.cluster_authorized_operations, length = _S_iB.unpack_from(buffer, position)
        position += 5
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


def _encode_metadata_response_v9(item: MetadataResponse, buffer: bytearray, position: int) -> int:
    """Version 9."""
    at = ""
    try:
        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4

        at = "brokers"
        length = len(item.brokers)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_metadata_response_broker_v9_list(item.brokers, buffer, position)

        at = "cluster_id"
        if item.cluster_id is None:
            buffer[position] = 0
            position += 1
        else:
            data = item.cluster_id.encode()
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

        at = "controller_id:i"
        _S_i.pack_into(buffer, position, item.controller_id)
        position += 4

        at = "topics"
        length = len(item.topics)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_metadata_response_topic_v9_list(item.topics, buffer, position)

        at = "cluster_authorized_operations:i"
        _S_i.pack_into(buffer, position, item.cluster_authorized_operations)
        position += 4

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


def _size_metadata_response_v9(item: MetadataResponse) -> int:
    """Version 9."""
    size = 16
    at = ""
    try:
        at = "brokers"
        length = len(item.brokers)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_metadata_response_broker_v9_list(item.brokers)

        at = "cluster_id"
        if item.cluster_id is not None:
            length = text_bytes(item.cluster_id)
            size += length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1

        at = "topics"
        length = len(item.topics)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_metadata_response_topic_v9_list(item.topics)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_metadata_response_v10(buffer: bytes, position: int, end: int) -> tuple[MetadataResponse, int]:
    """Version 10."""
    at = ""
    item = None
    try:
        item = _new(MetadataResponse)
        item.error_code = 0

        at = "throttle_time_ms:i brokers:B"
        item.throttle_time_ms, length = _S_iB.unpack_from(buffer, position)
        position += 5

        at = "brokers"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 11 <= end - position:
            raise bad_length(length, position, end, "elements of at least 11 bytes")
        brokers: MetadataResponseBrokerCollection = MetadataResponseBrokerCollection()
        item.brokers = brokers
        position = _decode_metadata_response_broker_v9_list(buffer, position, end, length, brokers)

        at = "cluster_id"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if length == -1:
            item.cluster_id = None
        else:
            stop = position + length
            if stop > end or length > MAX_STRING_BYTES:
                raise bad_length(length, position, end, "bytes")
            item.cluster_id = str(buffer[position:stop], "utf-8")
            position = stop

        at = "controller_id:i topics:B"
        item.controller_id, length = _S_iB.unpack_from(buffer, position)
        position += 5

        at = "topics"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 26 <= end - position:
            raise bad_length(length, position, end, "elements of at least 26 bytes")
        topics: MetadataResponseTopicCollection = MetadataResponseTopicCollection()
        item.topics = topics
        position = _decode_metadata_response_topic_v10_list(buffer, position, end, length, topics)

        at = "cluster_authorized_operations:i tagged_fields:B"
        item.cluster_authorized_operations, length = _S_iB.unpack_from(buffer, position)
        position += 5
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


def _encode_metadata_response_v10(item: MetadataResponse, buffer: bytearray, position: int) -> int:
    """Version 10."""
    at = ""
    try:
        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4

        at = "brokers"
        length = len(item.brokers)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_metadata_response_broker_v9_list(item.brokers, buffer, position)

        at = "cluster_id"
        if item.cluster_id is None:
            buffer[position] = 0
            position += 1
        else:
            data = item.cluster_id.encode()
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

        at = "controller_id:i"
        _S_i.pack_into(buffer, position, item.controller_id)
        position += 4

        at = "topics"
        length = len(item.topics)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_metadata_response_topic_v10_list(item.topics, buffer, position)

        at = "cluster_authorized_operations:i"
        _S_i.pack_into(buffer, position, item.cluster_authorized_operations)
        position += 4

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


def _size_metadata_response_v10(item: MetadataResponse) -> int:
    """Version 10."""
    size = 16
    at = ""
    try:
        at = "brokers"
        length = len(item.brokers)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_metadata_response_broker_v9_list(item.brokers)

        at = "cluster_id"
        if item.cluster_id is not None:
            length = text_bytes(item.cluster_id)
            size += length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1

        at = "topics"
        length = len(item.topics)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_metadata_response_topic_v10_list(item.topics)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_metadata_response_v11(buffer: bytes, position: int, end: int) -> tuple[MetadataResponse, int]:
    """Version 11."""
    at = ""
    item = None
    try:
        item = _new(MetadataResponse)
        item.cluster_authorized_operations = -2147483648
        item.error_code = 0

        at = "throttle_time_ms:i brokers:B"
        item.throttle_time_ms, length = _S_iB.unpack_from(buffer, position)
        position += 5

        at = "brokers"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 11 <= end - position:
            raise bad_length(length, position, end, "elements of at least 11 bytes")
        brokers: MetadataResponseBrokerCollection = MetadataResponseBrokerCollection()
        item.brokers = brokers
        position = _decode_metadata_response_broker_v9_list(buffer, position, end, length, brokers)

        at = "cluster_id"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if length == -1:
            item.cluster_id = None
        else:
            stop = position + length
            if stop > end or length > MAX_STRING_BYTES:
                raise bad_length(length, position, end, "bytes")
            item.cluster_id = str(buffer[position:stop], "utf-8")
            position = stop

        at = "controller_id:i topics:B"
        item.controller_id, length = _S_iB.unpack_from(buffer, position)
        position += 5

        at = "topics"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 26 <= end - position:
            raise bad_length(length, position, end, "elements of at least 26 bytes")
        topics: MetadataResponseTopicCollection = MetadataResponseTopicCollection()
        item.topics = topics
        position = _decode_metadata_response_topic_v10_list(buffer, position, end, length, topics)

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


def _encode_metadata_response_v11(item: MetadataResponse, buffer: bytearray, position: int) -> int:
    """Version 11."""
    at = ""
    try:
        if item.cluster_authorized_operations != -2147483648:
            at = "cluster_authorized_operations"
            raise not_in_version(item.cluster_authorized_operations, "8-10")

        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4

        at = "brokers"
        length = len(item.brokers)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_metadata_response_broker_v9_list(item.brokers, buffer, position)

        at = "cluster_id"
        if item.cluster_id is None:
            buffer[position] = 0
            position += 1
        else:
            data = item.cluster_id.encode()
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

        at = "controller_id:i"
        _S_i.pack_into(buffer, position, item.controller_id)
        position += 4

        at = "topics"
        length = len(item.topics)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_metadata_response_topic_v10_list(item.topics, buffer, position)

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


def _size_metadata_response_v11(item: MetadataResponse) -> int:
    """Version 11."""
    size = 12
    at = ""
    try:
        at = "brokers"
        length = len(item.brokers)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_metadata_response_broker_v9_list(item.brokers)

        at = "cluster_id"
        if item.cluster_id is not None:
            length = text_bytes(item.cluster_id)
            size += length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1

        at = "topics"
        length = len(item.topics)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_metadata_response_topic_v10_list(item.topics)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_metadata_response_v12(buffer: bytes, position: int, end: int) -> tuple[MetadataResponse, int]:
    """Version 12."""
    at = ""
    item = None
    try:
        item = _new(MetadataResponse)
        item.cluster_authorized_operations = -2147483648
        item.error_code = 0

        at = "throttle_time_ms:i brokers:B"
        item.throttle_time_ms, length = _S_iB.unpack_from(buffer, position)
        position += 5

        at = "brokers"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 11 <= end - position:
            raise bad_length(length, position, end, "elements of at least 11 bytes")
        brokers: MetadataResponseBrokerCollection = MetadataResponseBrokerCollection()
        item.brokers = brokers
        position = _decode_metadata_response_broker_v9_list(buffer, position, end, length, brokers)

        at = "cluster_id"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if length == -1:
            item.cluster_id = None
        else:
            stop = position + length
            if stop > end or length > MAX_STRING_BYTES:
                raise bad_length(length, position, end, "bytes")
            item.cluster_id = str(buffer[position:stop], "utf-8")
            position = stop

        at = "controller_id:i topics:B"
        item.controller_id, length = _S_iB.unpack_from(buffer, position)
        position += 5

        at = "topics"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 26 <= end - position:
            raise bad_length(length, position, end, "elements of at least 26 bytes")
        topics: MetadataResponseTopicCollection = MetadataResponseTopicCollection()
        item.topics = topics
        position = _decode_metadata_response_topic_v12_list(buffer, position, end, length, topics)

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


def _encode_metadata_response_v12(item: MetadataResponse, buffer: bytearray, position: int) -> int:
    """Version 12."""
    at = ""
    try:
        if item.cluster_authorized_operations != -2147483648:
            at = "cluster_authorized_operations"
            raise not_in_version(item.cluster_authorized_operations, "8-10")

        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4

        at = "brokers"
        length = len(item.brokers)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_metadata_response_broker_v9_list(item.brokers, buffer, position)

        at = "cluster_id"
        if item.cluster_id is None:
            buffer[position] = 0
            position += 1
        else:
            data = item.cluster_id.encode()
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

        at = "controller_id:i"
        _S_i.pack_into(buffer, position, item.controller_id)
        position += 4

        at = "topics"
        length = len(item.topics)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_metadata_response_topic_v12_list(item.topics, buffer, position)

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


def _size_metadata_response_v12(item: MetadataResponse) -> int:
    """Version 12."""
    size = 12
    at = ""
    try:
        at = "brokers"
        length = len(item.brokers)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_metadata_response_broker_v9_list(item.brokers)

        at = "cluster_id"
        if item.cluster_id is not None:
            length = text_bytes(item.cluster_id)
            size += length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1

        at = "topics"
        length = len(item.topics)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_metadata_response_topic_v12_list(item.topics)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_metadata_response_v13(buffer: bytes, position: int, end: int) -> tuple[MetadataResponse, int]:
    """Version 13."""
    at = ""
    item = None
    try:
        item = _new(MetadataResponse)
        item.cluster_authorized_operations = -2147483648

        at = "throttle_time_ms:i brokers:B"
        item.throttle_time_ms, length = _S_iB.unpack_from(buffer, position)
        position += 5

        at = "brokers"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 11 <= end - position:
            raise bad_length(length, position, end, "elements of at least 11 bytes")
        brokers: MetadataResponseBrokerCollection = MetadataResponseBrokerCollection()
        item.brokers = brokers
        position = _decode_metadata_response_broker_v9_list(buffer, position, end, length, brokers)

        at = "cluster_id"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if length == -1:
            item.cluster_id = None
        else:
            stop = position + length
            if stop > end or length > MAX_STRING_BYTES:
                raise bad_length(length, position, end, "bytes")
            item.cluster_id = str(buffer[position:stop], "utf-8")
            position = stop

        at = "controller_id:i topics:B"
        item.controller_id, length = _S_iB.unpack_from(buffer, position)
        position += 5

        at = "topics"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 26 <= end - position:
            raise bad_length(length, position, end, "elements of at least 26 bytes")
        topics: MetadataResponseTopicCollection = MetadataResponseTopicCollection()
        item.topics = topics
        position = _decode_metadata_response_topic_v12_list(buffer, position, end, length, topics)

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


def _encode_metadata_response_v13(item: MetadataResponse, buffer: bytearray, position: int) -> int:
    """Version 13."""
    at = ""
    try:
        if item.cluster_authorized_operations != -2147483648:
            at = "cluster_authorized_operations"
            raise not_in_version(item.cluster_authorized_operations, "8-10")

        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4

        at = "brokers"
        length = len(item.brokers)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_metadata_response_broker_v9_list(item.brokers, buffer, position)

        at = "cluster_id"
        if item.cluster_id is None:
            buffer[position] = 0
            position += 1
        else:
            data = item.cluster_id.encode()
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

        at = "controller_id:i"
        _S_i.pack_into(buffer, position, item.controller_id)
        position += 4

        at = "topics"
        length = len(item.topics)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_metadata_response_topic_v12_list(item.topics, buffer, position)

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


def _size_metadata_response_v13(item: MetadataResponse) -> int:
    """Version 13."""
    size = 14
    at = ""
    try:
        at = "brokers"
        length = len(item.brokers)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_metadata_response_broker_v9_list(item.brokers)

        at = "cluster_id"
        if item.cluster_id is not None:
            length = text_bytes(item.cluster_id)
            size += length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1

        at = "topics"
        length = len(item.topics)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_metadata_response_topic_v12_list(item.topics)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


#: The wire layout of each decoder; compiled decoders interpret it (see _decoders.py).
_LAYOUTS: Layouts = {
    "metadata_response_broker_v0": (
        MetadataResponseBroker,
        MetadataResponseBrokerCollection,
        "node_id:int32 host:string port:int32",
    ),
    "metadata_response_broker_v1": (
        MetadataResponseBroker,
        MetadataResponseBrokerCollection,
        "node_id:int32 host:string port:int32 rack:nullable_string",
    ),
    "metadata_response_broker_v9": (
        MetadataResponseBroker,
        MetadataResponseBrokerCollection,
        "node_id:int32 host:compact_string port:int32 rack:compact_nullable_string tags",
    ),
    "metadata_response_partition_v0": (
        MetadataResponsePartition,
        list,
        "error_code:int16 partition_index:int32 leader_id:int32 replica_nodes:array(int32) "
        "isr_nodes:array(int32)",
    ),
    "metadata_response_partition_v5": (
        MetadataResponsePartition,
        list,
        "error_code:int16 partition_index:int32 leader_id:int32 replica_nodes:array(int32) "
        "isr_nodes:array(int32) offline_replicas:array(int32)",
    ),
    "metadata_response_partition_v7": (
        MetadataResponsePartition,
        list,
        "error_code:int16 partition_index:int32 leader_id:int32 leader_epoch:int32 "
        "replica_nodes:array(int32) isr_nodes:array(int32) offline_replicas:array(int32)",
    ),
    "metadata_response_partition_v9": (
        MetadataResponsePartition,
        list,
        "error_code:int16 partition_index:int32 leader_id:int32 leader_epoch:int32 "
        "replica_nodes:compact_array(int32) isr_nodes:compact_array(int32) "
        "offline_replicas:compact_array(int32) tags",
    ),
    "metadata_response_topic_v0": (
        MetadataResponseTopic,
        MetadataResponseTopicCollection,
        "error_code:int16 name:string partitions:array(metadata_response_partition_v0)",
    ),
    "metadata_response_topic_v1": (
        MetadataResponseTopic,
        MetadataResponseTopicCollection,
        "error_code:int16 name:string is_internal:bool partitions:array(metadata_response_partition_v0)",
    ),
    "metadata_response_topic_v5": (
        MetadataResponseTopic,
        MetadataResponseTopicCollection,
        "error_code:int16 name:string is_internal:bool partitions:array(metadata_response_partition_v5)",
    ),
    "metadata_response_topic_v7": (
        MetadataResponseTopic,
        MetadataResponseTopicCollection,
        "error_code:int16 name:string is_internal:bool partitions:array(metadata_response_partition_v7)",
    ),
    "metadata_response_topic_v8": (
        MetadataResponseTopic,
        MetadataResponseTopicCollection,
        "error_code:int16 name:string is_internal:bool partitions:array(metadata_response_partition_v7) "
        "topic_authorized_operations:int32",
    ),
    "metadata_response_topic_v9": (
        MetadataResponseTopic,
        MetadataResponseTopicCollection,
        "error_code:int16 name:compact_string is_internal:bool "
        "partitions:compact_array(metadata_response_partition_v9) topic_authorized_operations:int32 tags",
    ),
    "metadata_response_topic_v10": (
        MetadataResponseTopic,
        MetadataResponseTopicCollection,
        "error_code:int16 name:compact_string topic_id:uuid is_internal:bool "
        "partitions:compact_array(metadata_response_partition_v9) topic_authorized_operations:int32 tags",
    ),
    "metadata_response_topic_v12": (
        MetadataResponseTopic,
        MetadataResponseTopicCollection,
        "error_code:int16 name:compact_nullable_string topic_id:uuid is_internal:bool "
        "partitions:compact_array(metadata_response_partition_v9) topic_authorized_operations:int32 tags",
    ),
    "metadata_response_v0": (
        MetadataResponse,
        list,
        "brokers:array(metadata_response_broker_v0) topics:array(metadata_response_topic_v0)",
    ),
    "metadata_response_v1": (
        MetadataResponse,
        list,
        "brokers:array(metadata_response_broker_v1) controller_id:int32 "
        "topics:array(metadata_response_topic_v1)",
    ),
    "metadata_response_v2": (
        MetadataResponse,
        list,
        "brokers:array(metadata_response_broker_v1) cluster_id:nullable_string controller_id:int32 "
        "topics:array(metadata_response_topic_v1)",
    ),
    "metadata_response_v3": (
        MetadataResponse,
        list,
        "throttle_time_ms:int32 brokers:array(metadata_response_broker_v1) cluster_id:nullable_string "
        "controller_id:int32 topics:array(metadata_response_topic_v1)",
    ),
    "metadata_response_v5": (
        MetadataResponse,
        list,
        "throttle_time_ms:int32 brokers:array(metadata_response_broker_v1) cluster_id:nullable_string "
        "controller_id:int32 topics:array(metadata_response_topic_v5)",
    ),
    "metadata_response_v7": (
        MetadataResponse,
        list,
        "throttle_time_ms:int32 brokers:array(metadata_response_broker_v1) cluster_id:nullable_string "
        "controller_id:int32 topics:array(metadata_response_topic_v7)",
    ),
    "metadata_response_v8": (
        MetadataResponse,
        list,
        "throttle_time_ms:int32 brokers:array(metadata_response_broker_v1) cluster_id:nullable_string "
        "controller_id:int32 topics:array(metadata_response_topic_v8) cluster_authorized_operations:int32",
    ),
    "metadata_response_v9": (
        MetadataResponse,
        list,
        "throttle_time_ms:int32 brokers:compact_array(metadata_response_broker_v9) "
        "cluster_id:compact_nullable_string controller_id:int32 "
        "topics:compact_array(metadata_response_topic_v9) cluster_authorized_operations:int32 tags",
    ),
    "metadata_response_v10": (
        MetadataResponse,
        list,
        "throttle_time_ms:int32 brokers:compact_array(metadata_response_broker_v9) "
        "cluster_id:compact_nullable_string controller_id:int32 "
        "topics:compact_array(metadata_response_topic_v10) cluster_authorized_operations:int32 tags",
    ),
    "metadata_response_v11": (
        MetadataResponse,
        list,
        "throttle_time_ms:int32 brokers:compact_array(metadata_response_broker_v9) "
        "cluster_id:compact_nullable_string controller_id:int32 "
        "topics:compact_array(metadata_response_topic_v10) tags",
    ),
    "metadata_response_v12": (
        MetadataResponse,
        list,
        "throttle_time_ms:int32 brokers:compact_array(metadata_response_broker_v9) "
        "cluster_id:compact_nullable_string controller_id:int32 "
        "topics:compact_array(metadata_response_topic_v12) tags",
    ),
    "metadata_response_v13": (
        MetadataResponse,
        list,
        "throttle_time_ms:int32 brokers:compact_array(metadata_response_broker_v9) "
        "cluster_id:compact_nullable_string controller_id:int32 "
        "topics:compact_array(metadata_response_topic_v12) error_code:int16 tags",
    ),
}
_DECODE = decoders(
    {
        0: _decode_metadata_response_v0,
        1: _decode_metadata_response_v1,
        2: _decode_metadata_response_v2,
        3: _decode_metadata_response_v3,
        4: _decode_metadata_response_v3,
        5: _decode_metadata_response_v5,
        6: _decode_metadata_response_v5,
        7: _decode_metadata_response_v7,
        8: _decode_metadata_response_v8,
        9: _decode_metadata_response_v9,
        10: _decode_metadata_response_v10,
        11: _decode_metadata_response_v11,
        12: _decode_metadata_response_v12,
        13: _decode_metadata_response_v13,
    },
    _LAYOUTS,
)
_ENCODE = {
    0: _encode_metadata_response_v0,
    1: _encode_metadata_response_v1,
    2: _encode_metadata_response_v2,
    3: _encode_metadata_response_v3,
    4: _encode_metadata_response_v3,
    5: _encode_metadata_response_v5,
    6: _encode_metadata_response_v5,
    7: _encode_metadata_response_v7,
    8: _encode_metadata_response_v8,
    9: _encode_metadata_response_v9,
    10: _encode_metadata_response_v10,
    11: _encode_metadata_response_v11,
    12: _encode_metadata_response_v12,
    13: _encode_metadata_response_v13,
}
_SIZE = {
    0: _size_metadata_response_v0,
    1: _size_metadata_response_v1,
    2: _size_metadata_response_v2,
    3: _size_metadata_response_v3,
    4: _size_metadata_response_v3,
    5: _size_metadata_response_v5,
    6: _size_metadata_response_v5,
    7: _size_metadata_response_v7,
    8: _size_metadata_response_v8,
    9: _size_metadata_response_v9,
    10: _size_metadata_response_v10,
    11: _size_metadata_response_v11,
    12: _size_metadata_response_v12,
    13: _size_metadata_response_v13,
}

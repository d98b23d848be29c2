# DO NOT EDIT: generated from specs/FindCoordinatorResponse.json (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: 9881cc6af878480127f38b07c8357226931f71fe593cbfebdabb8f2633b5389f
"""FindCoordinatorResponse: a response of API 10, versions 0-6, flexible 3-6."""

from __future__ import annotations

from itertools import repeat
from struct import Struct
from typing import Any, ClassVar

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
    "Coordinator",
    "FindCoordinatorResponse",
]

_S_h = Struct(">h")
_S_hi = Struct(">hi")
_S_hih = Struct(">hih")
_S_i = Struct(">i")
_S_iB = Struct(">iB")
_S_ih = Struct(">ih")
_S_ihB = Struct(">ihB")
_S_ihh = Struct(">ihh")
_new = object.__new__


class Coordinator(Plain):
    """Part of FindCoordinatorResponse.

    Attributes:
        key: The requested group or transactional id. (string, versions 4+)
        node_id: Id of the coordinating broker. (int32, versions 4+; a brokerId)
        host: Host name or address to connect to. (string, versions 4+)
        port: Port to connect to. (int32, versions 4+)
        error_code: The error code, or 0. (int16, versions 4+)
        error_message: The broker's error message, or null. (string, versions 4+; nullable in 4+; dropped if
            the version does not have it)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    FIELDS: ClassVar[dict[str, Any]] = {
        "key": "",
        "node_id": 0,
        "host": "",
        "port": 0,
        "error_code": 0,
        "error_message": "",
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        key: str = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.key: str = key
        self.node_id: int = node_id
        self.host: str = host
        self.port: int = port
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.unknown_tagged_fields = unknown_tagged_fields


class FindCoordinatorResponse(Plain):
    """A response. Not thread-safe: plain data.

    Attributes:
        throttle_time_ms: Time for which the quota delays the client, in milliseconds. (int32, versions 1+;
            dropped if the version does not have it)
        error_code: The error code, or 0. (int16, versions 0-3)
        error_message: The broker's error message, or null. (string, versions 1-3; nullable in 1-3; dropped if
            the version does not have it)
        node_id: Id of the coordinating broker. (int32, versions 0-3; a brokerId)
        host: Host name or address to connect to. (string, versions 0-3)
        port: Port to connect to. (int32, versions 0-3)
        coordinators: The coordinators, by key. ([]Coordinator, versions 4+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    API_KEY: ClassVar[int] = 10
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 6
    #: Versions with compact lengths and tagged fields.
    FLEXIBLE_VERSIONS: ClassVar[range] = range(3, 7)
    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "coordinators": Coordinator,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "throttle_time_ms": 0,
        "error_code": 0,
        "error_message": "",
        "node_id": 0,
        "host": "",
        "port": 0,
        "coordinators": list,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        coordinators: list[Coordinator] = NEW,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.node_id: int = node_id
        self.host: str = host
        self.port: int = port
        self.coordinators: list[Coordinator] = [] if coordinators is NEW else coordinators
        self.unknown_tagged_fields = unknown_tagged_fields

    def size(self, version: int) -> int:
        """Exact size of the encoded message in bytes, referenced bytes included.

        Raises:
            EncodeError: the version does not exist, or a field is null that must not be.
        """
        try:
            size_of = _SIZE[version]
        except KeyError:
            raise no_such_version(EncodeError, "FindCoordinatorResponse", version, 0, 6) from None
        try:
            return size_of(self)
        except EncodeError as error:
            raise error.of("FindCoordinatorResponse", version) from None

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
            raise no_such_version(EncodeError, "FindCoordinatorResponse", version, 0, 6) from None
        try:
            return encode(self, buffer, position)
        except EncodeError as error:
            raise error.of("FindCoordinatorResponse", version) from None

    def encode(self, version: int) -> bytes:
        """The whole message as bytes. Raises EncodeError as ``encode_into`` does."""
        buffer = bytearray(self.size(version))
        self.encode_into(buffer, 0, version)
        return bytes(buffer)

    @classmethod
    def decode(
        cls, buffer: Buffer, version: int, position: int = 0
    ) -> tuple[FindCoordinatorResponse, int]:
        """Read one message; return it and the position after it. Further bytes are ignored.

        Raises:
            DecodeError: the version does not exist, or the bytes are not a valid message.
        """
        try:
            decode = _DECODE[version]
        except KeyError:
            raise no_such_version(DecodeError, "FindCoordinatorResponse", version, 0, 6) from None
        readable = buffer if type(buffer) is bytes else bytes(buffer)
        try:
            if not 0 <= position <= len(readable):
                raise DecodeError(f"position {position} is outside the buffer of {len(readable)} bytes")
            return decode(readable, position, len(readable))
        except DecodeError as error:
            raise error.of("FindCoordinatorResponse", version) from None


def _decode_coordinator_v4_list(
    buffer: bytes, position: int, end: int, count: int, items: list[Coordinator]
) -> int:
    """Versions 4-6."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(Coordinator, count)):
            at = "key"
            length = buffer[position]
            position += 1
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            stop = position + length
            if not position <= stop <= end or length > MAX_STRING_BYTES:
                raise bad_length(length, position, end, "bytes")
            item.key = str(buffer[position:stop], "utf-8")
            position = stop

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

            at = "port:i error_code:h error_message:B"
            item.port, item.error_code, length = _S_ihB.unpack_from(buffer, position)
            position += 7

            at = "error_message"
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
                item.unknown_tagged_fields, position = read_unknown_tags(buffer, position, end, length)
            else:
                item.unknown_tagged_fields = None
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_coordinator_v4_list(items: list[Coordinator], buffer: bytearray, position: int) -> int:
    """Versions 4-6."""
    at = ""
    item = None
    try:
        for item in items:
            at = "key"
            data = item.key.encode()
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

            at = "port:i error_code:h"
            _S_ih.pack_into(buffer, position, item.port, item.error_code)
            position += 6

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
                position = write_uvarint(buffer, position, check_unknown_tags(unknown, ()))
                position = write_unknown_tags(buffer, position, unknown)
            else:
                buffer[position] = 0
                position += 1
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_coordinator_v4_list(items: list[Coordinator]) -> int:
    """Versions 4-6."""
    size = 14 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "key"
            length = text_bytes(item.key)
            size += length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1

            at = "host"
            length = text_bytes(item.host)
            size += length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1

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


def _decode_find_coordinator_response_v0(
    buffer: bytes, position: int, end: int
) -> tuple[FindCoordinatorResponse, int]:
    """Version 0."""
    at = ""
    item = None
    try:
        item = _new(FindCoordinatorResponse)
        item.throttle_time_ms = 0
        item.error_message = ""
        item.coordinators = []
        item.unknown_tagged_fields = None

        at = "error_code:h node_id:i host:h"
        item.error_code, item.node_id, length = _S_hih.unpack_from(buffer, position)
        position += 8

        at = "host"
        stop = position + length
        if not position <= stop <= end:
            raise bad_length(length, position, end, "bytes")
        item.host = str(buffer[position:stop], "utf-8")
        position = stop

        at = "port:i"
        (item.port,) = _S_i.unpack_from(buffer, position)
        position += 4
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_find_coordinator_response_v0(
    item: FindCoordinatorResponse, buffer: bytearray, position: int
) -> int:
    """Version 0."""
    at = ""
    try:
        if (item.coordinators is None or len(item.coordinators) > 0):
            at = "coordinators"
            raise not_in_version(item.coordinators, "4-6")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "3-6")

        at = "error_code:h node_id:i"
        _S_hi.pack_into(buffer, position, item.error_code, item.node_id)
        position += 6

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
        raise encode_failed(error, item, at) from None
    return position


def _size_find_coordinator_response_v0(item: FindCoordinatorResponse) -> int:
    """Version 0."""
    size = 12
    at = ""
    try:
        at = "host"
        length = text_bytes(item.host)
        size += length
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_find_coordinator_response_v1(
    buffer: bytes, position: int, end: int
) -> tuple[FindCoordinatorResponse, int]:
    """Versions 1-2."""
    at = ""
    item = None
    try:
        item = _new(FindCoordinatorResponse)
        item.coordinators = []
        item.unknown_tagged_fields = None

        at = "throttle_time_ms:i error_code:h error_message:h"
        item.throttle_time_ms, item.error_code, length = _S_ihh.unpack_from(buffer, position)
        position += 8

        at = "error_message"
        if length == -1:
            item.error_message = None
        else:
            stop = position + length
            if not position <= stop <= end:
                raise bad_length(length, position, end, "bytes")
            item.error_message = str(buffer[position:stop], "utf-8")
            position = stop

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
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_find_coordinator_response_v1(
    item: FindCoordinatorResponse, buffer: bytearray, position: int
) -> int:
    """Versions 1-2."""
    at = ""
    try:
        if (item.coordinators is None or len(item.coordinators) > 0):
            at = "coordinators"
            raise not_in_version(item.coordinators, "4-6")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "3-6")

        at = "throttle_time_ms:i error_code:h"
        _S_ih.pack_into(buffer, position, item.throttle_time_ms, item.error_code)
        position += 6

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
        raise encode_failed(error, item, at) from None
    return position


def _size_find_coordinator_response_v1(item: FindCoordinatorResponse) -> int:
    """Versions 1-2."""
    size = 18
    at = ""
    try:
        at = "error_message"
        if item.error_message is not None:
            length = text_bytes(item.error_message)
            size += length

        at = "host"
        length = text_bytes(item.host)
        size += length
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_find_coordinator_response_v3(
    buffer: bytes, position: int, end: int
) -> tuple[FindCoordinatorResponse, int]:
    """Version 3."""
    at = ""
    item = None
    try:
        item = _new(FindCoordinatorResponse)
        item.coordinators = []

        at = "throttle_time_ms:i error_code:h error_message:B"
        item.throttle_time_ms, item.error_code, length = _S_ihB.unpack_from(buffer, position)
        position += 7

        at = "error_message"
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

        at = "port:i tagged_fields:B"
        item.port, length = _S_iB.unpack_from(buffer, position)
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


def _encode_find_coordinator_response_v3(
    item: FindCoordinatorResponse, buffer: bytearray, position: int
) -> int:
    """Version 3."""
    at = ""
    try:
        if (item.coordinators is None or len(item.coordinators) > 0):
            at = "coordinators"
            raise not_in_version(item.coordinators, "4-6")

        at = "throttle_time_ms:i error_code:h"
        _S_ih.pack_into(buffer, position, item.throttle_time_ms, item.error_code)
        position += 6

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


def _size_find_coordinator_response_v3(item: FindCoordinatorResponse) -> int:
    """Version 3."""
    size = 17
    at = ""
    try:
        at = "error_message"
        if item.error_message is not None:
            length = text_bytes(item.error_message)
            size += length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1

        at = "host"
        length = text_bytes(item.host)
        size += length
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_find_coordinator_response_v4(
    buffer: bytes, position: int, end: int
) -> tuple[FindCoordinatorResponse, int]:
    """Versions 4-6."""
    at = ""
    item = None
    try:
        item = _new(FindCoordinatorResponse)
        item.error_code = 0
        item.error_message = ""
        item.node_id = 0
        item.host = ""
        item.port = 0

        at = "throttle_time_ms:i coordinators:B"
        item.throttle_time_ms, length = _S_iB.unpack_from(buffer, position)
        position += 5

        at = "coordinators"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 14 <= end - position:
            raise bad_length(length, position, end, "elements of at least 14 bytes")
        coordinators: list[Coordinator] = []
        item.coordinators = coordinators
        position = _decode_coordinator_v4_list(buffer, position, end, length, coordinators)

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


def _encode_find_coordinator_response_v4(
    item: FindCoordinatorResponse, buffer: bytearray, position: int
) -> int:
    """Versions 4-6."""
    at = ""
    try:
        if item.error_code != 0:
            at = "error_code"
            raise not_in_version(item.error_code, "0-3")
        if item.node_id != 0:
            at = "node_id"
            raise not_in_version(item.node_id, "0-3")
        if item.host != "":
            at = "host"
            raise not_in_version(item.host, "0-3")
        if item.port != 0:
            at = "port"
            raise not_in_version(item.port, "0-3")

        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4

        at = "coordinators"
        length = len(item.coordinators)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_coordinator_v4_list(item.coordinators, buffer, position)

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


def _size_find_coordinator_response_v4(item: FindCoordinatorResponse) -> int:
    """Versions 4-6."""
    size = 6
    at = ""
    try:
        at = "coordinators"
        length = len(item.coordinators)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_coordinator_v4_list(item.coordinators)

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


#: The wire layout of each decoder; compiled decoders interpret it (see _decoders.py).
_LAYOUTS: Layouts = {
    "coordinator_v4": (
        Coordinator,
        list,
        "key:compact_string node_id:int32 host:compact_string port:int32 error_code:int16 "
        "error_message:compact_nullable_string tags",
    ),
    "find_coordinator_response_v0": (
        FindCoordinatorResponse,
        list,
        "error_code:int16 node_id:int32 host:string port:int32",
    ),
    "find_coordinator_response_v1": (
        FindCoordinatorResponse,
        list,
        "throttle_time_ms:int32 error_code:int16 error_message:nullable_string node_id:int32 host:string "
        "port:int32",
    ),
    "find_coordinator_response_v3": (
        FindCoordinatorResponse,
        list,
        "throttle_time_ms:int32 error_code:int16 error_message:compact_nullable_string node_id:int32 "
        "host:compact_string port:int32 tags",
    ),
    "find_coordinator_response_v4": (
        FindCoordinatorResponse,
        list,
        "throttle_time_ms:int32 coordinators:compact_array(coordinator_v4) tags",
    ),
}
_DECODE = decoders(
    {
        0: _decode_find_coordinator_response_v0,
        1: _decode_find_coordinator_response_v1,
        2: _decode_find_coordinator_response_v1,
        3: _decode_find_coordinator_response_v3,
        4: _decode_find_coordinator_response_v4,
        5: _decode_find_coordinator_response_v4,
        6: _decode_find_coordinator_response_v4,
    },
    _LAYOUTS,
)
_ENCODE = {
    0: _encode_find_coordinator_response_v0,
    1: _encode_find_coordinator_response_v1,
    2: _encode_find_coordinator_response_v1,
    3: _encode_find_coordinator_response_v3,
    4: _encode_find_coordinator_response_v4,
    5: _encode_find_coordinator_response_v4,
    6: _encode_find_coordinator_response_v4,
}
_SIZE = {
    0: _size_find_coordinator_response_v0,
    1: _size_find_coordinator_response_v1,
    2: _size_find_coordinator_response_v1,
    3: _size_find_coordinator_response_v3,
    4: _size_find_coordinator_response_v4,
    5: _size_find_coordinator_response_v4,
    6: _size_find_coordinator_response_v4,
}

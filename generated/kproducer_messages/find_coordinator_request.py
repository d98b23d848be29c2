# DO NOT EDIT: generated from specs/FindCoordinatorRequest.json (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: 6f9bcee40538840643f04d1417cac2128fd6e1855fd575338cf40ed63db7e7c2
"""FindCoordinatorRequest: a request of API 10, versions 0-6, flexible 3-6."""

from __future__ import annotations

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
    "FindCoordinatorRequest",
]

_S_b = Struct(">b")
_S_bB = Struct(">bB")
_S_h = Struct(">h")
_S_i = Struct(">i")
_new = object.__new__


class FindCoordinatorRequest(Plain):
    """A request. Not thread-safe: plain data.

    Attributes:
        key: Group or transactional id. (string, versions 0-3)
        key_type: Type of the keys: 0 groups, 1 transactional ids, 2 share groups. (int8, versions 1+)
        coordinator_keys: Group or transactional ids. ([]string, versions 4+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    API_KEY: ClassVar[int] = 10
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 6
    #: Versions with compact lengths and tagged fields.
    FLEXIBLE_VERSIONS: ClassVar[range] = range(3, 7)
    FIELDS: ClassVar[dict[str, Any]] = {
        "key": "",
        "key_type": 0,
        "coordinator_keys": list,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        key: str = "",
        key_type: int = 0,
        coordinator_keys: list[str] = NEW,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.key: str = key
        self.key_type: int = key_type
        self.coordinator_keys: list[str] = [] if coordinator_keys is NEW else coordinator_keys
        self.unknown_tagged_fields = unknown_tagged_fields

    def size(self, version: int) -> int:
        """Exact size of the encoded message in bytes, referenced bytes included.

        Raises:
            EncodeError: the version does not exist, or a field is null that must not be.
        """
        try:
            size_of = _SIZE[version]
        except KeyError:
            raise no_such_version(EncodeError, "FindCoordinatorRequest", version, 0, 6) from None
        try:
            return size_of(self)
        except EncodeError as error:
            raise error.of("FindCoordinatorRequest", version) from None

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
            raise no_such_version(EncodeError, "FindCoordinatorRequest", version, 0, 6) from None
        try:
            return encode(self, buffer, position)
        except EncodeError as error:
            raise error.of("FindCoordinatorRequest", version) from None

    def encode(self, version: int) -> bytes:
        """The whole message as bytes. Raises EncodeError as ``encode_into`` does."""
        buffer = bytearray(self.size(version))
        self.encode_into(buffer, 0, version)
        return bytes(buffer)

    @classmethod
    def decode(
        cls, buffer: Buffer, version: int, position: int = 0
    ) -> tuple[FindCoordinatorRequest, int]:
        """Read one message; return it and the position after it. Further bytes are ignored.

        Raises:
            DecodeError: the version does not exist, or the bytes are not a valid message.
        """
        try:
            decode = _DECODE[version]
        except KeyError:
            raise no_such_version(DecodeError, "FindCoordinatorRequest", version, 0, 6) from None
        readable = buffer if type(buffer) is bytes else bytes(buffer)
        try:
            if not 0 <= position <= len(readable):
                raise DecodeError(f"position {position} is outside the buffer of {len(readable)} bytes")
            return decode(readable, position, len(readable))
        except DecodeError as error:
            raise error.of("FindCoordinatorRequest", version) from None


def _decode_find_coordinator_request_v0(
    buffer: bytes, position: int, end: int
) -> tuple[FindCoordinatorRequest, int]:
    """Version 0."""
    at = ""
    item = None
    try:
        item = _new(FindCoordinatorRequest)
        item.key_type = 0
        item.coordinator_keys = []
        item.unknown_tagged_fields = None

        at = "key"
        (length,) = _S_h.unpack_from(buffer, position)
        position += 2
        stop = position + length
        if not position <= stop <= end:
            raise bad_length(length, position, end, "bytes")
        item.key = str(buffer[position:stop], "utf-8")
        position = stop
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_find_coordinator_request_v0(
    item: FindCoordinatorRequest, buffer: bytearray, position: int
) -> int:
    """Version 0."""
    at = ""
    try:
        if item.key_type != 0:
            at = "key_type"
            raise not_in_version(item.key_type, "1-6")
        if (item.coordinator_keys is None or len(item.coordinator_keys) > 0):
            at = "coordinator_keys"
            raise not_in_version(item.coordinator_keys, "4-6")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "3-6")

        at = "key"
        data = item.key.encode()
        length = len(data)
        if length > MAX_STRING_BYTES:
            raise string_too_long(length)
        _S_h.pack_into(buffer, position, length)
        position += 2
        stop = position + length
        buffer[position:stop] = data
        position = stop
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_find_coordinator_request_v0(item: FindCoordinatorRequest) -> int:
    """Version 0."""
    size = 2
    at = ""
    try:
        at = "key"
        length = text_bytes(item.key)
        size += length
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_find_coordinator_request_v1(
    buffer: bytes, position: int, end: int
) -> tuple[FindCoordinatorRequest, int]:
    """Versions 1-2."""
    at = ""
    item = None
    try:
        item = _new(FindCoordinatorRequest)
        item.coordinator_keys = []
        item.unknown_tagged_fields = None

        at = "key"
        (length,) = _S_h.unpack_from(buffer, position)
        position += 2
        stop = position + length
        if not position <= stop <= end:
            raise bad_length(length, position, end, "bytes")
        item.key = str(buffer[position:stop], "utf-8")
        position = stop

        at = "key_type:b"
        (item.key_type,) = _S_b.unpack_from(buffer, position)
        position += 1
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_find_coordinator_request_v1(
    item: FindCoordinatorRequest, buffer: bytearray, position: int
) -> int:
    """Versions 1-2."""
    at = ""
    try:
        if (item.coordinator_keys is None or len(item.coordinator_keys) > 0):
            at = "coordinator_keys"
            raise not_in_version(item.coordinator_keys, "4-6")
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "3-6")

        at = "key"
        data = item.key.encode()
        length = len(data)
        if length > MAX_STRING_BYTES:
            raise string_too_long(length)
        _S_h.pack_into(buffer, position, length)
        position += 2
        stop = position + length
        buffer[position:stop] = data
        position = stop

        at = "key_type:b"
        _S_b.pack_into(buffer, position, item.key_type)
        position += 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_find_coordinator_request_v1(item: FindCoordinatorRequest) -> int:
    """Versions 1-2."""
    size = 3
    at = ""
    try:
        at = "key"
        length = text_bytes(item.key)
        size += length
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_find_coordinator_request_v3(
    buffer: bytes, position: int, end: int
) -> tuple[FindCoordinatorRequest, int]:
    """Version 3."""
    at = ""
    item = None
    try:
        item = _new(FindCoordinatorRequest)
        item.coordinator_keys = []

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

        at = "key_type:b tagged_fields:B"
        item.key_type, length = _S_bB.unpack_from(buffer, position)
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


def _encode_find_coordinator_request_v3(
    item: FindCoordinatorRequest, buffer: bytearray, position: int
) -> int:
    """Version 3."""
    at = ""
    try:
        if (item.coordinator_keys is None or len(item.coordinator_keys) > 0):
            at = "coordinator_keys"
            raise not_in_version(item.coordinator_keys, "4-6")

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

        at = "key_type:b"
        _S_b.pack_into(buffer, position, item.key_type)
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


def _size_find_coordinator_request_v3(item: FindCoordinatorRequest) -> int:
    """Version 3."""
    size = 3
    at = ""
    try:
        at = "key"
        length = text_bytes(item.key)
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


def _decode_find_coordinator_request_v4(
    buffer: bytes, position: int, end: int
) -> tuple[FindCoordinatorRequest, int]:
    """Versions 4-6."""
    at = ""
    item = None
    try:
        item = _new(FindCoordinatorRequest)
        item.key = ""

        at = "key_type:b coordinator_keys:B"
        item.key_type, length = _S_bB.unpack_from(buffer, position)
        position += 2

        at = "coordinator_keys"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length <= end - position:
            raise bad_length(length, position, end, "elements of at least 1 bytes")
        coordinator_keys: list[str] = []
        item.coordinator_keys = coordinator_keys
        for _ in range(length):
            length = buffer[position]
            position += 1
            if length > 127:
                length, position = read_uvarint_rest(buffer, position, length)
            length -= 1
            stop = position + length
            if not position <= stop <= end or length > MAX_STRING_BYTES:
                raise bad_length(length, position, end, "bytes")
            coordinator_keys.append(str(buffer[position:stop], "utf-8"))
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
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_find_coordinator_request_v4(
    item: FindCoordinatorRequest, buffer: bytearray, position: int
) -> int:
    """Versions 4-6."""
    element: Any = None
    at = ""
    try:
        if item.key != "":
            at = "key"
            raise not_in_version(item.key, "0-3")

        at = "key_type:b"
        _S_b.pack_into(buffer, position, item.key_type)
        position += 1

        at = "coordinator_keys"
        length = len(item.coordinator_keys)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        for element in item.coordinator_keys:
            data = element.encode()
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
        element = None

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            position = write_uvarint(buffer, position, check_unknown_tags(unknown, ()))
            position = write_unknown_tags(buffer, position, unknown)
        else:
            buffer[position] = 0
            position += 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at, element) from None
    return position


def _size_find_coordinator_request_v4(item: FindCoordinatorRequest) -> int:
    """Versions 4-6."""
    size = 3
    element: Any = None
    at = ""
    try:
        at = "coordinator_keys"
        length = len(item.coordinator_keys)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += length
        for element in item.coordinator_keys:
            length = text_bytes(element)
            size += length
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        element = None

        at = "tagged_fields"
        unknown = item.unknown_tagged_fields
        if unknown:
            size += unknown_tags_size(unknown) + uvarint_size(len(unknown)) - 1
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at, element) from None
    return size


#: The wire layout of each decoder; compiled decoders interpret it (see _decoders.py).
_LAYOUTS: Layouts = {
    "find_coordinator_request_v0": (FindCoordinatorRequest, list, "key:string"),
    "find_coordinator_request_v1": (FindCoordinatorRequest, list, "key:string key_type:int8"),
    "find_coordinator_request_v3": (FindCoordinatorRequest, list, "key:compact_string key_type:int8 tags"),
    "find_coordinator_request_v4": (
        FindCoordinatorRequest,
        list,
        "key_type:int8 coordinator_keys:compact_array(string) tags",
    ),
}
_DECODE = decoders(
    {
        0: _decode_find_coordinator_request_v0,
        1: _decode_find_coordinator_request_v1,
        2: _decode_find_coordinator_request_v1,
        3: _decode_find_coordinator_request_v3,
        4: _decode_find_coordinator_request_v4,
        5: _decode_find_coordinator_request_v4,
        6: _decode_find_coordinator_request_v4,
    },
    _LAYOUTS,
)
_ENCODE = {
    0: _encode_find_coordinator_request_v0,
    1: _encode_find_coordinator_request_v1,
    2: _encode_find_coordinator_request_v1,
    3: _encode_find_coordinator_request_v3,
    4: _encode_find_coordinator_request_v4,
    5: _encode_find_coordinator_request_v4,
    6: _encode_find_coordinator_request_v4,
}
_SIZE = {
    0: _size_find_coordinator_request_v0,
    1: _size_find_coordinator_request_v1,
    2: _size_find_coordinator_request_v1,
    3: _size_find_coordinator_request_v3,
    4: _size_find_coordinator_request_v4,
    5: _size_find_coordinator_request_v4,
    6: _size_find_coordinator_request_v4,
}

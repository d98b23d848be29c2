# DO NOT EDIT: generated from specs/ApiVersionsRequest.json (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: a228c9d4264ab76bb28d631076d113b9a5e500e501fa4dc8f78323ae1a92e68f
"""ApiVersionsRequest: a request of API 18, versions 0-5, flexible 3-5."""

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
    "ApiVersionsRequest",
]

_S_h = Struct(">h")
_S_i = Struct(">i")
_S_iB = Struct(">iB")
_new = object.__new__


class ApiVersionsRequest(Plain):
    """A request. Not thread-safe: plain data.

    Attributes:
        client_software_name: Name of the client library: letters, digits, dots and dashes. (string, versions
            3+; dropped if the version does not have it)
        client_software_version: Version of the client library: letters, digits, dots and dashes. (string,
            versions 3+; dropped if the version does not have it)
        cluster_id: Id of the cluster that the client means to reach; null without NodeId. (string, versions
            5+; nullable in 5+; dropped if the version does not have it)
        node_id: Id of the broker that the client means to reach; -1 without ClusterId. (int32, versions 5+;
            dropped if the version does not have it)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    API_KEY: ClassVar[int] = 18
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    #: Versions with compact lengths and tagged fields.
    FLEXIBLE_VERSIONS: ClassVar[range] = range(3, 6)
    FIELDS: ClassVar[dict[str, Any]] = {
        "client_software_name": "",
        "client_software_version": "",
        "cluster_id": None,
        "node_id": -1,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        client_software_name: str = "",
        client_software_version: str = "",
        cluster_id: str | None = None,
        node_id: int = -1,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.client_software_name: str = client_software_name
        self.client_software_version: str = client_software_version
        self.cluster_id: str | None = cluster_id
        self.node_id: int = node_id
        self.unknown_tagged_fields = unknown_tagged_fields

    def size(self, version: int) -> int:
        """Exact size of the encoded message in bytes, referenced bytes included.

        Raises:
            EncodeError: the version does not exist, or a field is null that must not be.
        """
        try:
            size_of = _SIZE[version]
        except KeyError:
            raise no_such_version(EncodeError, "ApiVersionsRequest", version, 0, 5) from None
        try:
            return size_of(self)
        except EncodeError as error:
            raise error.of("ApiVersionsRequest", version) from None

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
            raise no_such_version(EncodeError, "ApiVersionsRequest", version, 0, 5) from None
        try:
            return encode(self, buffer, position)
        except EncodeError as error:
            raise error.of("ApiVersionsRequest", version) from None

    def encode(self, version: int) -> bytes:
        """The whole message as bytes. Raises EncodeError as ``encode_into`` does."""
        buffer = bytearray(self.size(version))
        self.encode_into(buffer, 0, version)
        return bytes(buffer)

    @classmethod
    def decode(
        cls, buffer: Buffer, version: int, position: int = 0
    ) -> tuple[ApiVersionsRequest, int]:
        """Read one message; return it and the position after it. Further bytes are ignored.

        Raises:
            DecodeError: the version does not exist, or the bytes are not a valid message.
        """
        try:
            decode = _DECODE[version]
        except KeyError:
            raise no_such_version(DecodeError, "ApiVersionsRequest", version, 0, 5) from None
        readable = buffer if type(buffer) is bytes else bytes(buffer)
        try:
            if not 0 <= position <= len(readable):
                raise DecodeError(f"position {position} is outside the buffer of {len(readable)} bytes")
            return decode(readable, position, len(readable))
        except DecodeError as error:
            raise error.of("ApiVersionsRequest", version) from None


def _decode_api_versions_request_v0(buffer: bytes, position: int, end: int) -> tuple[ApiVersionsRequest, int]:
    """Versions 0-2."""
    item = _new(ApiVersionsRequest)
    item.client_software_name = ""
    item.client_software_version = ""
    item.cluster_id = None
    item.node_id = -1
    item.unknown_tagged_fields = None
    return item, position


def _encode_api_versions_request_v0(item: ApiVersionsRequest, buffer: bytearray, position: int) -> int:
    """Versions 0-2."""
    at = ""
    try:
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "3-5")
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_api_versions_request_v0(item: ApiVersionsRequest) -> int:
    """Versions 0-2."""
    return 0


def _decode_api_versions_request_v3(buffer: bytes, position: int, end: int) -> tuple[ApiVersionsRequest, int]:
    """Versions 3-4."""
    at = ""
    item = None
    try:
        item = _new(ApiVersionsRequest)
        item.cluster_id = None
        item.node_id = -1

        at = "client_software_name"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        stop = position + length
        if not position <= stop <= end or length > MAX_STRING_BYTES:
            raise bad_length(length, position, end, "bytes")
        item.client_software_name = str(buffer[position:stop], "utf-8")
        position = stop

        at = "client_software_version"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        stop = position + length
        if not position <= stop <= end or length > MAX_STRING_BYTES:
            raise bad_length(length, position, end, "bytes")
        item.client_software_version = str(buffer[position:stop], "utf-8")
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


def _encode_api_versions_request_v3(item: ApiVersionsRequest, buffer: bytearray, position: int) -> int:
    """Versions 3-4."""
    at = ""
    try:
        at = "client_software_name"
        data = item.client_software_name.encode()
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

        at = "client_software_version"
        data = item.client_software_version.encode()
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
        raise encode_failed(error, item, at) from None
    return position


def _size_api_versions_request_v3(item: ApiVersionsRequest) -> int:
    """Versions 3-4."""
    size = 3
    at = ""
    try:
        at = "client_software_name"
        length = text_bytes(item.client_software_name)
        size += length
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1

        at = "client_software_version"
        length = text_bytes(item.client_software_version)
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


def _decode_api_versions_request_v5(buffer: bytes, position: int, end: int) -> tuple[ApiVersionsRequest, int]:
    """Version 5."""
    at = ""
    item = None
    try:
        item = _new(ApiVersionsRequest)

        at = "client_software_name"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        stop = position + length
        if not position <= stop <= end or length > MAX_STRING_BYTES:
            raise bad_length(length, position, end, "bytes")
        item.client_software_name = str(buffer[position:stop], "utf-8")
        position = stop

        at = "client_software_version"
        length = buffer[position]
        position += 1
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        stop = position + length
        if not position <= stop <= end or length > MAX_STRING_BYTES:
            raise bad_length(length, position, end, "bytes")
        item.client_software_version = str(buffer[position:stop], "utf-8")
        position = stop

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

        at = "node_id:i tagged_fields:B"
        item.node_id, length = _S_iB.unpack_from(buffer, position)
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


def _encode_api_versions_request_v5(item: ApiVersionsRequest, buffer: bytearray, position: int) -> int:
    """Version 5."""
    at = ""
    try:
        at = "client_software_name"
        data = item.client_software_name.encode()
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

        at = "client_software_version"
        data = item.client_software_version.encode()
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

        at = "node_id:i"
        _S_i.pack_into(buffer, position, item.node_id)
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


def _size_api_versions_request_v5(item: ApiVersionsRequest) -> int:
    """Version 5."""
    size = 8
    at = ""
    try:
        at = "client_software_name"
        length = text_bytes(item.client_software_name)
        size += length
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1

        at = "client_software_version"
        length = text_bytes(item.client_software_version)
        size += length
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1

        at = "cluster_id"
        if item.cluster_id is not None:
            length = text_bytes(item.cluster_id)
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


#: The wire layout of each decoder; compiled decoders interpret it (see _decoders.py).
_LAYOUTS: Layouts = {
    "api_versions_request_v0": (ApiVersionsRequest, list, ""),
    "api_versions_request_v3": (
        ApiVersionsRequest,
        list,
        "client_software_name:compact_string client_software_version:compact_string tags",
    ),
    "api_versions_request_v5": (
        ApiVersionsRequest,
        list,
        "client_software_name:compact_string client_software_version:compact_string "
        "cluster_id:compact_nullable_string node_id:int32 tags",
    ),
}
_DECODE = decoders(
    {
        0: _decode_api_versions_request_v0,
        1: _decode_api_versions_request_v0,
        2: _decode_api_versions_request_v0,
        3: _decode_api_versions_request_v3,
        4: _decode_api_versions_request_v3,
        5: _decode_api_versions_request_v5,
    },
    _LAYOUTS,
)
_ENCODE = {
    0: _encode_api_versions_request_v0,
    1: _encode_api_versions_request_v0,
    2: _encode_api_versions_request_v0,
    3: _encode_api_versions_request_v3,
    4: _encode_api_versions_request_v3,
    5: _encode_api_versions_request_v5,
}
_SIZE = {
    0: _size_api_versions_request_v0,
    1: _size_api_versions_request_v0,
    2: _size_api_versions_request_v0,
    3: _size_api_versions_request_v3,
    4: _size_api_versions_request_v3,
    5: _size_api_versions_request_v5,
}

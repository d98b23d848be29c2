# DO NOT EDIT: generated from specs/ApiVersionsResponse.json (python -m codegen SPEC_DIR OUT_DIR).
# sha256 of the source: d1ff1edbeb628c4263554df12cbde58ea18a397b1e0dcbb14383668092ad4c6d
"""ApiVersionsResponse: a response of API 18, versions 0-5, flexible 3-5."""

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
    "ApiVersion",
    "ApiVersionCollection",
    "ApiVersionsResponse",
    "FinalizedFeatureKey",
    "FinalizedFeatureKeyCollection",
    "SupportedFeatureKey",
    "SupportedFeatureKeyCollection",
]

_S_ = Struct(">")
_S_b = Struct(">b")
_S_h = Struct(">h")
_S_hB = Struct(">hB")
_S_hh = Struct(">hh")
_S_hhB = Struct(">hhB")
_S_hhh = Struct(">hhh")
_S_hhhB = Struct(">hhhB")
_S_hi = Struct(">hi")
_S_i = Struct(">i")
_S_iB = Struct(">iB")
_S_q = Struct(">q")
_new = object.__new__


class ApiVersion(Plain):
    """Part of ApiVersionsResponse.

    Attributes:
        api_key: API key. (int16, versions 0+)
        min_version: Oldest version that the broker supports. (int16, versions 0+)
        max_version: Newest version that the broker supports. (int16, versions 0+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    #: The fields by which collections of this struct are indexed.
    MAP_KEYS: ClassVar[tuple[str, ...]] = ("api_key",)
    FIELDS: ClassVar[dict[str, Any]] = {
        "api_key": 0,
        "min_version": 0,
        "max_version": 0,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        api_key: int = 0,
        min_version: int = 0,
        max_version: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.api_key: int = api_key
        self.min_version: int = min_version
        self.max_version: int = max_version
        self.unknown_tagged_fields = unknown_tagged_fields


class ApiVersionCollection(KeyedList[ApiVersion]):
    """A list of ApiVersion that finds its elements by api_key."""

    __slots__ = ()
    KEY_OF = attrgetter("api_key")

    def find(self, api_key: int) -> ApiVersion | None:
        """The first element with this key, or ``None``."""
        return self._first(api_key)

    def find_all(self, api_key: int) -> list[ApiVersion]:
        """All elements with this key, in their order."""
        return list(self._with_key(api_key))


class SupportedFeatureKey(Plain):
    """Part of ApiVersionsResponse.

    Attributes:
        name: Name of the feature. (string, versions 3+)
        min_version: Lowest supported level. (int16, versions 3+)
        max_version: Highest supported level. (int16, versions 3+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    #: The fields by which collections of this struct are indexed.
    MAP_KEYS: ClassVar[tuple[str, ...]] = ("name",)
    FIELDS: ClassVar[dict[str, Any]] = {
        "name": "",
        "min_version": 0,
        "max_version": 0,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        name: str = "",
        min_version: int = 0,
        max_version: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.name: str = name
        self.min_version: int = min_version
        self.max_version: int = max_version
        self.unknown_tagged_fields = unknown_tagged_fields


class SupportedFeatureKeyCollection(KeyedList[SupportedFeatureKey]):
    """A list of SupportedFeatureKey that finds its elements by name."""

    __slots__ = ()
    KEY_OF = attrgetter("name")

    def find(self, name: str) -> SupportedFeatureKey | None:
        """The first element with this key, or ``None``."""
        return self._first(name)

    def find_all(self, name: str) -> list[SupportedFeatureKey]:
        """All elements with this key, in their order."""
        return list(self._with_key(name))


class FinalizedFeatureKey(Plain):
    """Part of ApiVersionsResponse.

    Attributes:
        name: Name of the feature. (string, versions 3+)
        max_version_level: Highest finalized level. (int16, versions 3+)
        min_version_level: Lowest finalized level. (int16, versions 3+)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    #: The fields by which collections of this struct are indexed.
    MAP_KEYS: ClassVar[tuple[str, ...]] = ("name",)
    FIELDS: ClassVar[dict[str, Any]] = {
        "name": "",
        "max_version_level": 0,
        "min_version_level": 0,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        name: str = "",
        max_version_level: int = 0,
        min_version_level: int = 0,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.name: str = name
        self.max_version_level: int = max_version_level
        self.min_version_level: int = min_version_level
        self.unknown_tagged_fields = unknown_tagged_fields


class FinalizedFeatureKeyCollection(KeyedList[FinalizedFeatureKey]):
    """A list of FinalizedFeatureKey that finds its elements by name."""

    __slots__ = ()
    KEY_OF = attrgetter("name")

    def find(self, name: str) -> FinalizedFeatureKey | None:
        """The first element with this key, or ``None``."""
        return self._first(name)

    def find_all(self, name: str) -> list[FinalizedFeatureKey]:
        """All elements with this key, in their order."""
        return list(self._with_key(name))


class ApiVersionsResponse(Plain):
    """A response. Not thread-safe: plain data.

    Attributes:
        error_code: The error code, or 0. (int16, versions 0+)
        api_keys: The APIs that the broker supports. ([]ApiVersion, versions 0+)
        throttle_time_ms: Time for which the quota delays the client, in milliseconds. (int32, versions 1+;
            dropped if the version does not have it)
        supported_features: Features that the broker supports. ([]SupportedFeatureKey, versions 3+; tag 0 in
            3+; dropped if the version does not have it)
        finalized_features_epoch: Epoch of the finalized features; -1 if unknown. (int64, versions 3+; tag 1
            in 3+; dropped if the version does not have it)
        finalized_features: Feature levels that are finalized for the cluster. Not valid if the epoch is -1.
            ([]FinalizedFeatureKey, versions 3+; tag 2 in 3+; dropped if the version does not have it)
        zk_migration_ready: Whether the controller is configured for a migration from ZooKeeper. (bool,
            versions 3+; tag 3 in 3+; dropped if the version does not have it)
        unknown_tagged_fields: tagged fields of a newer version, by tag; encoded again unchanged.
    """

    API_KEY: ClassVar[int] = 18
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 5
    #: Versions with compact lengths and tagged fields.
    FLEXIBLE_VERSIONS: ClassVar[range] = range(3, 6)
    CONVERTED: ClassVar[dict[str, type[Any]]] = {
        "api_keys": ApiVersion,
        "supported_features": SupportedFeatureKey,
        "finalized_features": FinalizedFeatureKey,
    }
    FIELDS: ClassVar[dict[str, Any]] = {
        "error_code": 0,
        "api_keys": ApiVersionCollection,
        "throttle_time_ms": 0,
        "supported_features": SupportedFeatureKeyCollection,
        "finalized_features_epoch": -1,
        "finalized_features": FinalizedFeatureKeyCollection,
        "zk_migration_ready": False,
        "unknown_tagged_fields": None,
    }
    __slots__ = tuple(FIELDS)

    def __init__(
        self,
        *,
        error_code: int = 0,
        api_keys: Iterable[ApiVersion] | None = (),
        throttle_time_ms: int = 0,
        supported_features: Iterable[SupportedFeatureKey] | None = (),
        finalized_features_epoch: int = -1,
        finalized_features: Iterable[FinalizedFeatureKey] | None = (),
        zk_migration_ready: bool = False,
        unknown_tagged_fields: dict[int, bytes] | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.api_keys: ApiVersionCollection = None if api_keys is None else ApiVersionCollection(api_keys)  # type: ignore[assignment]
        self.throttle_time_ms: int = throttle_time_ms
        self.supported_features: SupportedFeatureKeyCollection = None if supported_features is None else SupportedFeatureKeyCollection(supported_features)  # type: ignore[assignment]
        self.finalized_features_epoch: int = finalized_features_epoch
        self.finalized_features: FinalizedFeatureKeyCollection = None if finalized_features is None else FinalizedFeatureKeyCollection(finalized_features)  # type: ignore[assignment]
        self.zk_migration_ready: bool = zk_migration_ready
        self.unknown_tagged_fields = unknown_tagged_fields

    def size(self, version: int) -> int:
        """Exact size of the encoded message in bytes, referenced bytes included.

        Raises:
            EncodeError: the version does not exist, or a field is null that must not be.
        """
        try:
            size_of = _SIZE[version]
        except KeyError:
            raise no_such_version(EncodeError, "ApiVersionsResponse", version, 0, 5) from None
        try:
            return size_of(self)
        except EncodeError as error:
            raise error.of("ApiVersionsResponse", version) from None

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
            raise no_such_version(EncodeError, "ApiVersionsResponse", version, 0, 5) from None
        try:
            return encode(self, buffer, position)
        except EncodeError as error:
            raise error.of("ApiVersionsResponse", version) from None

    def encode(self, version: int) -> bytes:
        """The whole message as bytes. Raises EncodeError as ``encode_into`` does."""
        buffer = bytearray(self.size(version))
        self.encode_into(buffer, 0, version)
        return bytes(buffer)

    @classmethod
    def decode(
        cls, buffer: Buffer, version: int, position: int = 0
    ) -> tuple[ApiVersionsResponse, int]:
        """Read one message; return it and the position after it. Further bytes are ignored.

        Raises:
            DecodeError: the version does not exist, or the bytes are not a valid message.
        """
        try:
            decode = _DECODE[version]
        except KeyError:
            raise no_such_version(DecodeError, "ApiVersionsResponse", version, 0, 5) from None
        readable = buffer if type(buffer) is bytes else bytes(buffer)
        try:
            if not 0 <= position <= len(readable):
                raise DecodeError(f"position {position} is outside the buffer of {len(readable)} bytes")
            return decode(readable, position, len(readable))
        except DecodeError as error:
            raise error.of("ApiVersionsResponse", version) from None


def _decode_api_version_v0_list(
    buffer: bytes, position: int, end: int, count: int, items: list[ApiVersion]
) -> int:
    """Versions 0-2."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(ApiVersion, count)):
            item.unknown_tagged_fields = None

            at = "api_key:h min_version:h max_version:h"
            item.api_key, item.min_version, item.max_version = _S_hhh.unpack_from(buffer, position)
            position += 6
            items.append(item)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return position


def _encode_api_version_v0_list(items: list[ApiVersion], buffer: bytearray, position: int) -> int:
    """Versions 0-2."""
    at = ""
    item = None
    try:
        for item in items:
            if item.unknown_tagged_fields:
                at = "unknown_tagged_fields"
                raise not_in_version(item.unknown_tagged_fields, "3-5")

            at = "api_key:h min_version:h max_version:h"
            _S_hhh.pack_into(buffer, position, item.api_key, item.min_version, item.max_version)
            position += 6
    except ENCODE_FAILURES as error:
        raise element_failed(error, items, item, at) from None
    return position


def _size_api_version_v0_list(items: list[ApiVersion]) -> int:
    """Versions 0-2."""
    size = 6 * len(items)
    return size


def _decode_api_version_v3_list(
    buffer: bytes, position: int, end: int, count: int, items: list[ApiVersion]
) -> int:
    """Versions 3-5."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(ApiVersion, count)):
            at = "api_key:h min_version:h max_version:h tagged_fields:B"
            item.api_key, item.min_version, item.max_version, length = _S_hhhB.unpack_from(buffer, position)
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


def _encode_api_version_v3_list(items: list[ApiVersion], buffer: bytearray, position: int) -> int:
    """Versions 3-5."""
    at = ""
    item = None
    try:
        for item in items:
            at = "api_key:h min_version:h max_version:h"
            _S_hhh.pack_into(buffer, position, item.api_key, item.min_version, item.max_version)
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


def _size_api_version_v3_list(items: list[ApiVersion]) -> int:
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


def _decode_supported_feature_key_v3_list(
    buffer: bytes, position: int, end: int, count: int, items: list[SupportedFeatureKey]
) -> int:
    """Versions 3-5."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(SupportedFeatureKey, count)):
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

            at = "min_version:h max_version:h tagged_fields:B"
            item.min_version, item.max_version, length = _S_hhB.unpack_from(buffer, position)
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


def _encode_supported_feature_key_v3_list(
    items: list[SupportedFeatureKey], buffer: bytearray, position: int
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

            at = "min_version:h max_version:h"
            _S_hh.pack_into(buffer, position, item.min_version, item.max_version)
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


def _size_supported_feature_key_v3_list(items: list[SupportedFeatureKey]) -> int:
    """Versions 3-5."""
    size = 6 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "name"
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


def _decode_finalized_feature_key_v3_list(
    buffer: bytes, position: int, end: int, count: int, items: list[FinalizedFeatureKey]
) -> int:
    """Versions 3-5."""
    at = ""
    item = None
    try:
        for item in map(_new, repeat(FinalizedFeatureKey, count)):
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

            at = "max_version_level:h min_version_level:h tagged_fields:B"
            item.max_version_level, item.min_version_level, length = _S_hhB.unpack_from(buffer, position)
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


def _encode_finalized_feature_key_v3_list(
    items: list[FinalizedFeatureKey], buffer: bytearray, position: int
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

            at = "max_version_level:h min_version_level:h"
            _S_hh.pack_into(buffer, position, item.max_version_level, item.min_version_level)
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


def _size_finalized_feature_key_v3_list(items: list[FinalizedFeatureKey]) -> int:
    """Versions 3-5."""
    size = 6 * len(items)
    at = ""
    item = None
    try:
        for item in items:
            at = "name"
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


def _decode_api_versions_response_v0(
    buffer: bytes, position: int, end: int
) -> tuple[ApiVersionsResponse, int]:
    """Version 0."""
    at = ""
    item = None
    try:
        item = _new(ApiVersionsResponse)
        item.throttle_time_ms = 0
        item.supported_features = SupportedFeatureKeyCollection()
        item.finalized_features_epoch = -1
        item.finalized_features = FinalizedFeatureKeyCollection()
        item.zk_migration_ready = False
        item.unknown_tagged_fields = None

        at = "error_code:h api_keys:i"
        item.error_code, length = _S_hi.unpack_from(buffer, position)
        position += 6

        at = "api_keys"
        if not 0 <= length * 6 <= end - position:
            raise bad_length(length, position, end, "elements of at least 6 bytes")
        api_keys: ApiVersionCollection = ApiVersionCollection()
        item.api_keys = api_keys
        position = _decode_api_version_v0_list(buffer, position, end, length, api_keys)
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_api_versions_response_v0(item: ApiVersionsResponse, buffer: bytearray, position: int) -> int:
    """Version 0."""
    at = ""
    try:
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "3-5")

        at = "error_code:h"
        _S_h.pack_into(buffer, position, item.error_code)
        position += 2

        at = "api_keys"
        length = len(item.api_keys)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_api_version_v0_list(item.api_keys, buffer, position)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_api_versions_response_v0(item: ApiVersionsResponse) -> int:
    """Version 0."""
    size = 6
    at = ""
    try:
        at = "api_keys"
        size += _size_api_version_v0_list(item.api_keys)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_api_versions_response_v1(
    buffer: bytes, position: int, end: int
) -> tuple[ApiVersionsResponse, int]:
    """Versions 1-2."""
    at = ""
    item = None
    try:
        item = _new(ApiVersionsResponse)
        item.supported_features = SupportedFeatureKeyCollection()
        item.finalized_features_epoch = -1
        item.finalized_features = FinalizedFeatureKeyCollection()
        item.zk_migration_ready = False
        item.unknown_tagged_fields = None

        at = "error_code:h api_keys:i"
        item.error_code, length = _S_hi.unpack_from(buffer, position)
        position += 6

        at = "api_keys"
        if not 0 <= length * 6 <= end - position:
            raise bad_length(length, position, end, "elements of at least 6 bytes")
        api_keys: ApiVersionCollection = ApiVersionCollection()
        item.api_keys = api_keys
        position = _decode_api_version_v0_list(buffer, position, end, length, api_keys)

        at = "throttle_time_ms:i"
        (item.throttle_time_ms,) = _S_i.unpack_from(buffer, position)
        position += 4
    except DECODE_FAILURES as error:
        raise decode_failed(error, item, at, position, end) from None
    return item, position


def _encode_api_versions_response_v1(item: ApiVersionsResponse, buffer: bytearray, position: int) -> int:
    """Versions 1-2."""
    at = ""
    try:
        if item.unknown_tagged_fields:
            at = "unknown_tagged_fields"
            raise not_in_version(item.unknown_tagged_fields, "3-5")

        at = "error_code:h"
        _S_h.pack_into(buffer, position, item.error_code)
        position += 2

        at = "api_keys"
        length = len(item.api_keys)
        _S_i.pack_into(buffer, position, length)
        position += 4
        position = _encode_api_version_v0_list(item.api_keys, buffer, position)

        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_api_versions_response_v1(item: ApiVersionsResponse) -> int:
    """Versions 1-2."""
    size = 10
    at = ""
    try:
        at = "api_keys"
        size += _size_api_version_v0_list(item.api_keys)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return size


def _decode_api_versions_response_v3(
    buffer: bytes, position: int, end: int
) -> tuple[ApiVersionsResponse, int]:
    """Versions 3-5."""
    at = ""
    item = None
    try:
        item = _new(ApiVersionsResponse)

        at = "error_code:h api_keys:B"
        item.error_code, length = _S_hB.unpack_from(buffer, position)
        position += 3

        at = "api_keys"
        if length > 127:
            length, position = read_uvarint_rest(buffer, position, length)
        length -= 1
        if not 0 <= length * 7 <= end - position:
            raise bad_length(length, position, end, "elements of at least 7 bytes")
        api_keys: ApiVersionCollection = ApiVersionCollection()
        item.api_keys = api_keys
        position = _decode_api_version_v3_list(buffer, position, end, length, api_keys)

        at = "throttle_time_ms:i tagged_fields:B"
        item.throttle_time_ms, length = _S_iB.unpack_from(buffer, position)
        position += 5
        item.supported_features = SupportedFeatureKeyCollection()
        item.finalized_features_epoch = -1
        item.finalized_features = FinalizedFeatureKeyCollection()
        item.zk_migration_ready = False
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
                    at = "supported_features"
                    length = buffer[position]
                    position += 1
                    if length > 127:
                        length, position = read_uvarint_rest(buffer, position, length)
                    length -= 1
                    if not 0 <= length * 6 <= tag_end - position:
                        raise bad_length(length, position, tag_end, "elements of at least 6 bytes")
                    supported_features: SupportedFeatureKeyCollection = SupportedFeatureKeyCollection()
                    item.supported_features = supported_features
                    position = _decode_supported_feature_key_v3_list(buffer, position, tag_end, length, supported_features)
                elif tag == 1:
                    at = "finalized_features_epoch"
                    (item.finalized_features_epoch,) = _S_q.unpack_from(buffer, position)
                    position += 8
                elif tag == 2:
                    at = "finalized_features"
                    length = buffer[position]
                    position += 1
                    if length > 127:
                        length, position = read_uvarint_rest(buffer, position, length)
                    length -= 1
                    if not 0 <= length * 6 <= tag_end - position:
                        raise bad_length(length, position, tag_end, "elements of at least 6 bytes")
                    finalized_features: FinalizedFeatureKeyCollection = FinalizedFeatureKeyCollection()
                    item.finalized_features = finalized_features
                    position = _decode_finalized_feature_key_v3_list(buffer, position, tag_end, length, finalized_features)
                elif tag == 3:
                    at = "zk_migration_ready"
                    item.zk_migration_ready = buffer[position] != 0
                    position += 1
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


def _encode_api_versions_response_v3(item: ApiVersionsResponse, buffer: bytearray, position: int) -> int:
    """Versions 3-5."""
    at = ""
    try:
        at = "error_code:h"
        _S_h.pack_into(buffer, position, item.error_code)
        position += 2

        at = "api_keys"
        length = len(item.api_keys)
        if length < 127:
            buffer[position] = length + 1
            position += 1
        else:
            position = write_uvarint(buffer, position, length + 1)
        position = _encode_api_version_v3_list(item.api_keys, buffer, position)

        at = "throttle_time_ms:i"
        _S_i.pack_into(buffer, position, item.throttle_time_ms)
        position += 4

        at = "tagged_fields"
        tag_count = 0
        if (item.supported_features is None or len(item.supported_features) > 0):
            tag_count += 1
        if item.finalized_features_epoch != -1:
            tag_count += 1
        if (item.finalized_features is None or len(item.finalized_features) > 0):
            tag_count += 1
        if item.zk_migration_ready:
            tag_count += 1
        unknown = item.unknown_tagged_fields
        if unknown:
            tag_count += check_unknown_tags(unknown, (0, 1, 2, 3))
        position = write_uvarint(buffer, position, tag_count)
        if (item.supported_features is None or len(item.supported_features) > 0):
            at = "supported_features"
            size = 1
            length = len(item.supported_features)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_supported_feature_key_v3_list(item.supported_features)
            position = write_uvarint(buffer, position, 0)
            position = write_uvarint(buffer, position, size)
            at = "supported_features"
            length = len(item.supported_features)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            position = _encode_supported_feature_key_v3_list(item.supported_features, buffer, position)
        if item.finalized_features_epoch != -1:
            at = "finalized_features_epoch"
            size = 8
            position = write_uvarint(buffer, position, 1)
            position = write_uvarint(buffer, position, size)
            at = "finalized_features_epoch:q"
            _S_q.pack_into(buffer, position, item.finalized_features_epoch)
            position += 8
        if (item.finalized_features is None or len(item.finalized_features) > 0):
            at = "finalized_features"
            size = 1
            length = len(item.finalized_features)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_finalized_feature_key_v3_list(item.finalized_features)
            position = write_uvarint(buffer, position, 2)
            position = write_uvarint(buffer, position, size)
            at = "finalized_features"
            length = len(item.finalized_features)
            if length < 127:
                buffer[position] = length + 1
                position += 1
            else:
                position = write_uvarint(buffer, position, length + 1)
            position = _encode_finalized_feature_key_v3_list(item.finalized_features, buffer, position)
        if item.zk_migration_ready:
            at = "zk_migration_ready"
            size = 1
            position = write_uvarint(buffer, position, 3)
            position = write_uvarint(buffer, position, size)
            at = "zk_migration_ready:?"
            _S_b.pack_into(buffer, position, item.zk_migration_ready)
            position += 1
        if unknown:
            at = "tagged_fields"
            position = write_unknown_tags(buffer, position, unknown, 4)
    except ENCODE_FAILURES as error:
        raise encode_failed(error, item, at) from None
    return position


def _size_api_versions_response_v3(item: ApiVersionsResponse) -> int:
    """Versions 3-5."""
    size = 8
    at = ""
    try:
        at = "api_keys"
        length = len(item.api_keys)
        if length > 126:
            size += 1 if length < 16383 else uvarint_size(length + 1) - 1
        size += _size_api_version_v3_list(item.api_keys)

        at = "tagged_fields"
        tag_count = 0
        if (item.supported_features is None or len(item.supported_features) > 0):
            at = "supported_features"
            tag_count += 1
            total = size
            size = 1
            length = len(item.supported_features)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_supported_feature_key_v3_list(item.supported_features)
            size += total + uvarint_size(size) + 1
        if item.finalized_features_epoch != -1:
            at = "finalized_features_epoch"
            tag_count += 1
            total = size
            size = 8
            size += total + uvarint_size(size) + 1
        if (item.finalized_features is None or len(item.finalized_features) > 0):
            at = "finalized_features"
            tag_count += 1
            total = size
            size = 1
            length = len(item.finalized_features)
            if length > 126:
                size += 1 if length < 16383 else uvarint_size(length + 1) - 1
            size += _size_finalized_feature_key_v3_list(item.finalized_features)
            size += total + uvarint_size(size) + 1
        if item.zk_migration_ready:
            at = "zk_migration_ready"
            tag_count += 1
            total = size
            size = 1
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
    "api_version_v0": (ApiVersion, ApiVersionCollection, "api_key:int16 min_version:int16 max_version:int16"),
    "api_version_v3": (
        ApiVersion,
        ApiVersionCollection,
        "api_key:int16 min_version:int16 max_version:int16 tags",
    ),
    "supported_feature_key_v3": (
        SupportedFeatureKey,
        SupportedFeatureKeyCollection,
        "name:compact_string min_version:int16 max_version:int16 tags",
    ),
    "finalized_feature_key_v3": (
        FinalizedFeatureKey,
        FinalizedFeatureKeyCollection,
        "name:compact_string max_version_level:int16 min_version_level:int16 tags",
    ),
    "api_versions_response_v0": (
        ApiVersionsResponse,
        list,
        "error_code:int16 api_keys:array(api_version_v0)",
    ),
    "api_versions_response_v1": (
        ApiVersionsResponse,
        list,
        "error_code:int16 api_keys:array(api_version_v0) throttle_time_ms:int32",
    ),
    "api_versions_response_v3": (
        ApiVersionsResponse,
        list,
        "error_code:int16 api_keys:compact_array(api_version_v3) throttle_time_ms:int32 tags "
        "0=supported_features:compact_array(supported_feature_key_v3) 1=finalized_features_epoch:int64 "
        "2=finalized_features:compact_array(finalized_feature_key_v3) 3=zk_migration_ready:bool",
    ),
}
_DECODE = decoders(
    {
        0: _decode_api_versions_response_v0,
        1: _decode_api_versions_response_v1,
        2: _decode_api_versions_response_v1,
        3: _decode_api_versions_response_v3,
        4: _decode_api_versions_response_v3,
        5: _decode_api_versions_response_v3,
    },
    _LAYOUTS,
)
_ENCODE = {
    0: _encode_api_versions_response_v0,
    1: _encode_api_versions_response_v1,
    2: _encode_api_versions_response_v1,
    3: _encode_api_versions_response_v3,
    4: _encode_api_versions_response_v3,
    5: _encode_api_versions_response_v3,
}
_SIZE = {
    0: _size_api_versions_response_v0,
    1: _size_api_versions_response_v1,
    2: _size_api_versions_response_v1,
    3: _size_api_versions_response_v3,
    4: _size_api_versions_response_v3,
    5: _size_api_versions_response_v3,
}

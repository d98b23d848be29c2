"""Serializers: from what the application has to the bytes of a record's key or value.

A serializer is any callable ``f(value) -> bytes | None``, or any object with
``serialize(topic, headers, value) -> bytes | None`` (Java's shape) for those that need to know the topic.
The classes here are callables of the first kind, keep no state and may be shared between threads and
producers; their bytes equal those of the Java serializers of the same name. ``None`` never reaches a
serializer: a null stays a null (a tombstone).
Knows nothing of producers. Source: ``org.apache.kafka.common.serialization``; KIP-82 for headers.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from kproducer.errors import ConfigError, SerializationError

BytesLike = bytes | bytearray | memoryview


@runtime_checkable
class TopicSerializer(Protocol):
    """A serializer that wants to know the topic and may add headers."""

    def serialize(self, topic: str, headers: list[tuple[str, bytes | None]], value: Any) -> BytesLike | None:
        """Turn ``value`` into bytes.

        Args:
            topic: where the record goes.
            headers: the record's headers, a list of its own: what is appended here is sent.
            value: the key or value; never ``None``.
        """


#: What ``key_serializer`` and ``value_serializer`` accept besides the names in ``SERIALIZER_NAMES``.
Serializer = Callable[[Any], "BytesLike | None"] | TopicSerializer

#: The one shape the producer calls: (topic, headers, value) to bytes.
SerializeFunction = Callable[[str, "list[tuple[str, bytes | None]]", Any], "bytes | None"]


class StringSerializer:
    """``str`` to bytes of an encoding (UTF-8 unless said otherwise)."""

    __slots__ = ("encoding",)

    def __init__(self, encoding: str = "utf-8") -> None:
        try:
            "".encode(encoding)
        except LookupError:
            raise ConfigError(f"StringSerializer: Python knows no encoding {encoding!r}") from None
        self.encoding = encoding

    def __call__(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise SerializationError(f"StringSerializer takes str, not {_type_name(value)}")
        return value.encode(self.encoding)


class BytesSerializer:
    """Bytes-like objects as they are; nothing else."""

    __slots__ = ()

    def __call__(self, value: Any) -> bytes:
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise SerializationError(f"BytesSerializer takes bytes-like objects, not {_type_name(value)}")
        return bytes(value)


class IntegerSerializer:
    """``int`` to a signed big-endian number of ``width`` bytes: 1, 2 (Java's short), 4 (int) or 8 (long)."""

    __slots__ = ("_pack", "width")

    def __init__(self, width: int = 8) -> None:
        formats = {1: ">b", 2: ">h", 4: ">i", 8: ">q"}
        if width not in formats:
            raise ConfigError(f"IntegerSerializer: width must be 1, 2, 4 or 8 bytes, not {width!r}")
        self.width = width
        self._pack = struct.Struct(formats[width]).pack

    def __call__(self, value: Any) -> bytes:
        if not isinstance(value, int) or isinstance(value, bool):
            raise SerializationError(f"IntegerSerializer takes int, not {_type_name(value)}")
        try:
            return self._pack(value)
        except struct.error:
            raise SerializationError(f"{value} does not fit into {self.width} signed bytes") from None


class FloatSerializer:
    """``float`` to an IEEE 754 big-endian number of ``width`` bytes: 4 (Java's float) or 8 (double)."""

    __slots__ = ("_pack", "width")

    def __init__(self, width: int = 8) -> None:
        formats = {4: ">f", 8: ">d"}
        if width not in formats:
            raise ConfigError(f"FloatSerializer: width must be 4 or 8 bytes, not {width!r}")
        self.width = width
        self._pack = struct.Struct(formats[width]).pack

    def __call__(self, value: Any) -> bytes:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise SerializationError(f"FloatSerializer takes float, not {_type_name(value)}")
        try:
            return self._pack(value)
        except (struct.error, OverflowError):
            raise SerializationError(f"{value} does not fit into a {self.width}-byte float") from None


class JsonSerializer:
    """Whatever ``json`` can write, to compact UTF-8 JSON.

    Args:
        default: called for objects ``json`` does not know, as in ``json.dumps``.
        sort_keys: whether keys are written in order, so that equal objects give equal bytes.
        allow_nan: NaN and the infinities are no JSON, so by default they are refused.
    """

    __slots__ = ("_encode",)

    def __init__(
        self,
        default: Callable[[Any], Any] | None = None,
        *,
        sort_keys: bool = False,
        allow_nan: bool = False,
    ) -> None:
        self._encode = json.JSONEncoder(
            separators=(",", ":"),
            ensure_ascii=False,
            default=default,
            sort_keys=sort_keys,
            allow_nan=allow_nan,
        ).encode

    def __call__(self, value: Any) -> bytes:
        try:
            return self._encode(value).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise SerializationError(f"not representable as JSON: {error}") from error


class UuidSerializer:
    """``uuid.UUID`` to its usual text of 36 characters, as Java's UUIDSerializer writes it."""

    __slots__ = ()

    def __call__(self, value: Any) -> bytes:
        if not isinstance(value, uuid.UUID):
            raise SerializationError(f"UuidSerializer takes uuid.UUID, not {_type_name(value)}")
        return str(value).encode("ascii")


class NullSerializer:
    """For topics without keys or values: refuses everything but ``None``. Java's VoidSerializer."""

    __slots__ = ()

    def __call__(self, value: Any) -> bytes | None:
        raise SerializationError(f"NullSerializer takes only None, not {_type_name(value)}")


#: Names that configuration files may use, Java's class names among them.
SERIALIZER_NAMES: dict[str, Callable[[], Callable[[Any], bytes | None]]] = {
    "string": StringSerializer,
    "bytes": BytesSerializer,
    "short": lambda: IntegerSerializer(2),
    "int": lambda: IntegerSerializer(4),
    "long": lambda: IntegerSerializer(8),
    "float": lambda: FloatSerializer(4),
    "double": lambda: FloatSerializer(8),
    "json": JsonSerializer,
    "uuid": UuidSerializer,
    "null": NullSerializer,
}

_JAVA_PACKAGE = "org.apache.kafka.common.serialization."
_JAVA_NAMES = {
    "StringSerializer": "string",
    "ByteArraySerializer": "bytes",
    "ByteBufferSerializer": "bytes",
    "BytesSerializer": "bytes",
    "ShortSerializer": "short",
    "IntegerSerializer": "int",
    "LongSerializer": "long",
    "FloatSerializer": "float",
    "DoubleSerializer": "double",
    "UUIDSerializer": "uuid",
    "VoidSerializer": "null",
}

#: The serializers of this module.
BuiltInSerializer = (
    StringSerializer
    | BytesSerializer
    | IntegerSerializer
    | FloatSerializer
    | JsonSerializer
    | UuidSerializer
    | NullSerializer
)


def resolve_serializer(setting: str, given: object) -> Serializer | None:
    """Turn what was configured into a serializer.

    Args:
        setting: ``key_serializer`` or ``value_serializer``, for the error's text.
        given: ``None``, a callable, an object with ``serialize``, one of our classes, a name of
            ``SERIALIZER_NAMES`` or the name of a Java serializer class.

    Raises:
        ConfigError: for anything else.
    """
    if given is None:
        return None
    if isinstance(given, str):
        name = _JAVA_NAMES.get(given.removeprefix(_JAVA_PACKAGE), given)
        factory = SERIALIZER_NAMES.get(name)
        if factory is None:
            raise ConfigError(
                f"{setting}: no serializer is called {given!r}; "
                f"the names are {', '.join(SERIALIZER_NAMES)}, or pass a callable"
            )
        return factory()
    if isinstance(given, type) and issubclass(given, BuiltInSerializer):
        return given()
    if isinstance(given, TopicSerializer) or callable(given):
        return given
    raise ConfigError(
        f"{setting}: expected a callable, an object with serialize(topic, headers, value) or a name, "
        f"got {_type_name(given)}"
    )


def serialize_function(role: str, serializer: Serializer | None) -> SerializeFunction:
    """Wrap a serializer into the one shape the producer calls.

    Args:
        role: ``key`` or ``value``, for the error's text.
        serializer: as ``resolve_serializer`` returns it; ``None`` for the default, which passes
            bytes-like objects, encodes ``str`` as UTF-8 and refuses everything else.

    Returns:
        A function (topic, headers, value) to bytes; it raises ``SerializationError`` that names the
        topic, the role and the value's type, whatever the serializer raised.
    """
    if serializer is None:
        return _default_function(role)
    if isinstance(serializer, TopicSerializer):
        call = serializer.serialize
    else:
        plain = serializer

        def call(topic: str, headers: list[tuple[str, bytes | None]], value: Any) -> BytesLike | None:
            return plain(value)

    def serialize(topic: str, headers: list[tuple[str, bytes | None]], value: Any) -> bytes | None:
        try:
            data = call(topic, headers, value)
        except Exception as error:
            # Anything may come out of user code; KeyboardInterrupt and the like pass through.
            raise SerializationError(
                f"cannot serialize the {role} ({_type_name(value)}) for topic {topic!r}: "
                f"{error if isinstance(error, SerializationError) else repr(error)}"
            ) from error
        if data is None or data.__class__ is bytes:
            return data
        if isinstance(data, (bytes, bytearray, memoryview)):
            return bytes(data)
        hint = "; encode it, for instance with .encode()" if isinstance(data, str) else ""
        raise SerializationError(
            f"the {role}_serializer returned {_type_name(data)} for topic {topic!r}; bytes are needed{hint}"
        )

    return serialize


def _default_function(role: str) -> SerializeFunction:
    def serialize(topic: str, headers: Sequence[tuple[str, bytes | None]], value: Any) -> bytes:
        if isinstance(value, str):
            try:
                return value.encode()
            except UnicodeEncodeError as error:
                raise SerializationError(
                    f"the {role} for topic {topic!r} is a str that UTF-8 cannot encode: {error}"
                ) from error
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value)
        raise SerializationError(
            f"the {role} for topic {topic!r} is {_type_name(value)}, and without a {role}_serializer only "
            f"bytes-like objects, str (as UTF-8) and None can be sent; {_advice(role, value)}"
        )

    return serialize


def _advice(role: str, value: Any) -> str:
    helpful = {int: "IntegerSerializer()", float: "FloatSerializer()", uuid.UUID: "UuidSerializer()"}
    name = helpful.get(type(value))
    if name is None:
        if not isinstance(value, (dict, list, tuple, bool)):
            return f"{role}_serializer=a function that makes bytes of it would help"
        name = "JsonSerializer()"
    return f"for instance {role}_serializer={name} would take it"


def _type_name(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"

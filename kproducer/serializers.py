"""Serializers: convert the key or value of a record to bytes.

A serializer is a callable ``f(value) -> bytes | None``, or an object with
``serialize(topic, headers, value) -> bytes | None``, like Java's, if it needs the topic.
The classes here are callables, have no state and may be shared between threads and producers. They write the
same bytes as the Java serializers of the same name. A serializer is not called for ``None``, which is sent as
null (a tombstone). docs/decisions/0007-values-without-serializer.md says what needs no serializer.
Source: ``org.apache.kafka.common.serialization``; KIP-82 for headers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from kproducer.errors import ConfigError, KafkaError, SchemaRegistryError, SerializationError

BytesLike = bytes | bytearray | memoryview


@runtime_checkable
class TopicSerializer(Protocol):
    """A serializer that needs the topic, or adds headers."""

    def serialize(self, topic: str, headers: list[tuple[str, bytes | None]], value: Any) -> BytesLike | None:
        """Convert ``value`` to bytes.

        Args:
            topic: the topic of the record.
            headers: a list of the record's headers; headers that are appended to it are sent.
            value: the key or value; never ``None``.
        """


@runtime_checkable
class FieldAwareSerializer(TopicSerializer, Protocol):
    """A serializer that writes keys and values differently, such as one that uses a schema registry."""

    def for_field(self, field: str) -> TopicSerializer:
        """The serializer that a producer uses. Called once per setting of each producer.

        Args:
            field: ``key`` for ``key_serializer``, ``value`` for ``value_serializer``.
        """


@runtime_checkable
class PreparableSerializer(Protocol):
    """A serializer that may block with the first record of a topic, and can do that work earlier.

    ``AsyncKafkaProducer`` calls ``prepare`` on a thread before the first record of a topic, so that the event
    loop goes on. ``KafkaProducer`` does not call these methods.
    """

    def is_prepared(self, topic: str) -> bool:
        """Whether ``serialize`` would not block now. Must not block; called for every record."""

    def prepare(self, topic: str) -> None:
        """Do what ``serialize`` would block for. Raises as ``serialize``. Several threads may call it."""


#: Accepted by ``key_serializer`` and ``value_serializer``, besides the names in ``SERIALIZER_NAMES``.
Serializer = Callable[[Any], "BytesLike | None"] | TopicSerializer

#: What the producer calls with (topic, headers, value); returns bytes.
SerializeFunction = Callable[[str, "list[tuple[str, bytes | None]]", Any], "bytes | None"]


class BuiltInSerializer:
    """Base class of the serializers of this module; a setting accepts each of them as a class, too."""

    def __call__(self, value: Any) -> bytes | None:
        raise NotImplementedError


class StringSerializer(BuiltInSerializer):
    """``str`` to bytes in an encoding; the default is UTF-8."""

    def __init__(self, encoding: str = "utf-8") -> None:
        try:
            "".encode(encoding)
        except LookupError:
            raise ConfigError(f"StringSerializer: Python has no encoding {encoding!r}") from None
        self.encoding = encoding

    def __call__(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise SerializationError(f"StringSerializer takes str, not {_type_name(value)}")
        return value.encode(self.encoding)


class BytesSerializer(BuiltInSerializer):
    """Accepts bytes-like objects only, and sends them unchanged."""

    def __call__(self, value: Any) -> bytes:
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise SerializationError(f"BytesSerializer takes bytes-like objects, not {_type_name(value)}")
        return bytes(value)


class _NumberSerializer(BuiltInSerializer):
    """A number to big-endian bytes. Subclasses name the types and the ``struct`` format of each width."""

    _TYPES: ClassVar[tuple[type, ...]]
    _FORMATS: ClassVar[dict[int, str]]

    def __init__(self, width: int = 8) -> None:
        if width not in self._FORMATS:
            widths = ", ".join(map(str, self._FORMATS))
            raise ConfigError(f"{type(self).__name__}: width must be one of {widths} (bytes), not {width!r}")
        self.width = width
        self._format = self._FORMATS[width]

    def __call__(self, value: Any) -> bytes:
        wanted = self._TYPES[-1].__name__
        if not isinstance(value, self._TYPES) or isinstance(value, bool):
            raise SerializationError(f"{type(self).__name__} takes {wanted}, not {_type_name(value)}")
        try:
            return struct.pack(self._format, value)
        except (struct.error, OverflowError):
            raise SerializationError(f"{value} does not fit into a {self.width}-byte {wanted}") from None


class IntegerSerializer(_NumberSerializer):
    """``int`` to a signed big-endian number of ``width`` bytes: 1, 2 (Java's short), 4 (int) or 8 (long)."""

    _TYPES = (int,)
    _FORMATS: ClassVar[dict[int, str]] = {1: ">b", 2: ">h", 4: ">i", 8: ">q"}


class FloatSerializer(_NumberSerializer):
    """``float`` to an IEEE 754 big-endian number of ``width`` bytes: 4 (Java's float) or 8 (double)."""

    _TYPES = (int, float)
    _FORMATS: ClassVar[dict[int, str]] = {4: ">f", 8: ">d"}


class JsonSerializer(BuiltInSerializer):
    """Objects to compact JSON in UTF-8.

    Args:
        default: called for objects that ``json`` cannot encode, as in ``json.dumps``.
        sort_keys: whether keys are sorted, so that equal objects have equal bytes.
        allow_nan: whether NaN and the infinities, which are not valid JSON, are accepted.
    """

    def __init__(
        self,
        default: Callable[[Any], Any] | None = None,
        *,
        sort_keys: bool = False,
        allow_nan: bool = False,
    ) -> None:
        # Imported here, because most programs do not need it.
        import json

        self._has_default = default is not None
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
            hint = ""
            if isinstance(error, TypeError) and not self._has_default:
                hint = "; convert it, or pass a function that does: JsonSerializer(default=str)"
            raise SerializationError(
                f"JsonSerializer cannot encode the value as JSON: {error}{hint}"
            ) from error


class UuidSerializer(BuiltInSerializer):
    """``uuid.UUID`` to its text of 36 characters, like Java's UUIDSerializer."""

    def __call__(self, value: Any) -> bytes:
        import uuid  # imported here, because a program that has a UUID has loaded it

        if not isinstance(value, uuid.UUID):
            raise SerializationError(f"UuidSerializer takes uuid.UUID, not {_type_name(value)}")
        return str(value).encode("ascii")


class NullSerializer(BuiltInSerializer):
    """For topics without keys or values: accepts only ``None``, like Java's VoidSerializer."""

    def __call__(self, value: Any) -> bytes | None:
        raise SerializationError(f"NullSerializer takes only None, not {_type_name(value)}")


#: Names for configuration files; the names of Java's classes are accepted too.
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


#: Classes that do not run here, and what to pass instead.
_REPLACEMENTS = {
    "BooleanSerializer": "a function, such as lambda flag: bytes([flag])",
    "KafkaAvroSerializer": "kproducer.schema_registry.AvroSerializer(...)",
    "KafkaJsonSchemaSerializer": "kproducer.schema_registry.JSONSerializer(...)",
    "KafkaProtobufSerializer": "kproducer.schema_registry.ProtobufSerializer(...)",
}


def serializer_name(given: str) -> str:
    """The name in ``SERIALIZER_NAMES`` of a Java serializer class; other texts are returned."""
    simple = given.strip().removeprefix(_JAVA_PACKAGE)
    return _JAVA_NAMES.get(simple, simple)


def resolve_serializer(setting: str, given: object) -> Serializer | None:
    """The serializer for a setting's value.

    Args:
        setting: ``key_serializer`` or ``value_serializer``, for the error's text.
        given: ``None``, a callable, an object with ``serialize``, a class of this module, a name in
            ``SERIALIZER_NAMES``, or the name of a Java serializer class.

    Raises:
        ConfigError: any other value.
    """
    if given is None:
        return None
    if isinstance(given, str):
        factory = SERIALIZER_NAMES.get(serializer_name(given))
        if factory is not None:
            return factory()
        simple = given.rpartition(".")[2]
        is_class = simple != given or simple in _REPLACEMENTS
        instead = _REPLACEMENTS.get(simple, "a function that returns bytes")
        raise ConfigError(
            f"{setting}: expected one of {', '.join(SERIALIZER_NAMES)}, or a callable, got {given!r}"
            + (f"; Java classes cannot run here: pass {instead}" if is_class else "")
        )
    if isinstance(given, type) and issubclass(given, BuiltInSerializer):
        return given()
    if isinstance(given, type) and (hasattr(given, "serialize") or hasattr(given, "for_field")):
        raise ConfigError(
            f"{setting}: expected an object, got the class {given.__name__}: pass {given.__name__}(...)"
        )
    if isinstance(given, TopicSerializer) or callable(given):
        return given
    raise ConfigError(
        f"{setting}: expected a callable, an object with serialize(topic, headers, value) or a name, "
        f"got {_type_name(given)}"
    )


def serializer_for_field(field: str, serializer: Serializer | None) -> Serializer | None:
    """The serializer of keys or of values, if one object writes both.

    Args:
        field: ``key`` or ``value``.
        serializer: a result of ``resolve_serializer``.
    """
    return serializer.for_field(field) if isinstance(serializer, FieldAwareSerializer) else serializer


def serialize_function(role: str, serializer: Serializer | None) -> SerializeFunction:
    """The function that the producer calls for a serializer.

    Args:
        role: ``key`` or ``value``, for the error's text.
        serializer: a result of ``serializer_for_field``; ``None`` for the default, which accepts bytes-like
            objects, and ``str`` as UTF-8.

    Returns:
        A function (topic, headers, value) to bytes. It turns every error into a ``SerializationError`` that
        names the topic, the role and the type of the value; a ``SchemaRegistryError`` stays one.
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
            # Code of the application may raise anything. KeyboardInterrupt and SystemExit pass.
            raise _failure(f"the {role} ({_type_name(value)})", topic, error) from error
        if data is None or data.__class__ is bytes:
            return data
        if isinstance(data, (bytes, bytearray, memoryview)):
            return bytes(data)
        hint = "; encode it, for instance with .encode()" if isinstance(data, str) else ""
        raise SerializationError(
            f"the {role}_serializer returned {_type_name(data)} for topic {topic!r}; expected bytes{hint}"
        )

    return serialize


class Preparation:
    """What a serializer can do before the first record of a topic.

    Args:
        role: ``key`` or ``value``, for the error's text.
        serializer: a result of ``serializer_for_field``.

    Attributes:
        is_prepared: from a topic to whether the serializer would not block.
    """

    def __init__(self, role: str, serializer: PreparableSerializer) -> None:
        self._role = role
        self._serializer = serializer
        self.is_prepared = serializer.is_prepared

    def prepare(self, topic: str) -> None:
        """Prepare the serializer. Blocks. Raises as the result of ``serialize_function``."""
        try:
            self._serializer.prepare(topic)
        except Exception as error:
            raise _failure(f"the {self._role}", topic, error) from error


def preparation_of(role: str, serializer: object) -> Preparation | None:
    """The ``Preparation`` of a serializer; ``None``: it never blocks."""
    return Preparation(role, serializer) if isinstance(serializer, PreparableSerializer) else None


def _failure(what: str, topic: str, error: Exception) -> KafkaError:
    text = (
        f"cannot serialize {what} for topic {topic!r}: "
        f"{error if isinstance(error, SerializationError) else repr(error)}"
    )
    return error.with_text(text) if isinstance(error, SchemaRegistryError) else SerializationError(text)


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
            f"the {role} for topic {topic!r} is {_type_name(value)}; without a {role}_serializer, expected a "
            f"bytes-like object, str (as UTF-8) or None; {_advice(role, value)}"
        )

    return serialize


def _advice(role: str, value: Any) -> str:
    helpful = {"int": "IntegerSerializer()", "float": "FloatSerializer()", "uuid.UUID": "UuidSerializer()"}
    name = helpful.get(_type_name(value))
    if name is None:
        if not isinstance(value, (dict, list, tuple, bool)):
            return f"set {role}_serializer to a function that converts it to bytes"
        name = "JsonSerializer()"
    return f"set {role}_serializer={name}"


def _type_name(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"

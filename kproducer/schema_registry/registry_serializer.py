"""RegistrySerializer: what the serializers of all formats have in common: settings, look-ups, framing.

A look-up (subject, schema, id) is made with the first record of a topic, on the caller's thread, never on the
I/O thread. ``prepare`` makes it earlier, and ``AsyncKafkaProducer`` calls it on a thread. Knows no format;
each one is a ``SchemaFormat``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import attrs

from kproducer.errors import ConfigError, SerializationError
from kproducer.errors.suggestions import nearest_name
from kproducer.schema_registry.answers import MOST_INT32, shown
from kproducer.schema_registry.client import SchemaRegistryClient
from kproducer.schema_registry.framing import (
    header_name,
    header_schema_id_serializer,
    prefix_schema_id_serializer,
)
from kproducer.schema_registry.schemas import RegisteredSchema, Schema, check_rules
from kproducer.schema_registry.subjects import (
    Headers,
    MessageField,
    SerializationContext,
    SubjectNameStrategy,
    subject_strategy,
)
from kproducer.schema_registry.topic_look_ups import TopicLookUps

#: Converts a value before it is encoded.
ToDict = Callable[[Any, SerializationContext], Any]


class SchemaFormat(Protocol):
    """What a format does.

    Attributes:
        schema_type: as the registry calls it.
        record_name: the schema's name, for subject name strategies; ``None``: it has none.
        fmt: the form in which the registry should send schemas; ``None``: as they are.
    """

    schema_type: str
    record_name: str | None
    fmt: str | None

    def own_schema(self, registration: Registration) -> Schema | None:
        """The schema that the application gave; its references are registered or looked up."""

    def message_indexes(self, schema: Schema) -> Sequence[int]:
        """What follows the id: for Protobuf the position of the message in its file. Here: nothing."""
        return ()

    def encoder(self, schema: Schema, prefix: bytes) -> Callable[[Any], bytes]:
        """From a value to ``prefix`` and its data.

        Raises:
            SerializationError: the schema is not valid.
        """


_DEFAULTS: dict[str, Any] = {
    "auto.register.schemas": True,
    "normalize.schemas": False,
    "use.schema.id": None,
    "use.latest.version": False,
    "use.latest.with.metadata": None,
    "subject.name.strategy": None,
    "subject.name.strategy.type": None,
    "subject.name.strategy.conf": None,
    "schema.id.serializer": prefix_schema_id_serializer,
}


def checked_conf(owner: str, conf: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a serializer, with defaults.

    Args:
        owner: the serializer's class, for the error's text.
        conf: the application's.
        more: the settings of this format, with their defaults.

    Raises:
        ConfigError: a setting is unknown, is not a bool where the default is one, or contradicts another.
    """
    known = {**_DEFAULTS, **more}
    merged = {**known, **(conf or {})}
    for name, value in merged.items():
        if name not in known:
            if name.startswith(("rule", "validation.rules")):
                raise ConfigError(f"{owner}: {name}: kproducer does not apply data-contract rules")
            near = nearest_name(str(name), known)
            hint = f"did you mean {near!r}?" if near else f"known are {', '.join(known)}"
            raise ConfigError(f"{owner}: unknown setting {str(name)!r}; {hint}")
        if isinstance(known[name], bool) and not isinstance(value, bool):
            raise ConfigError(f"{owner}: {name}: expected True or False, got {value!r}")
    schema_id = merged["use.schema.id"]
    if schema_id is not None and (type(schema_id) is not int or not 0 <= schema_id <= MOST_INT32):
        raise ConfigError(
            f"{owner}: use.schema.id: expected a whole number from 0 to {MOST_INT32}, got {schema_id!r}"
        )
    metadata = merged["use.latest.with.metadata"]
    if metadata is not None and not isinstance(metadata, Mapping):
        raise ConfigError(f"{owner}: use.latest.with.metadata: expected a dictionary, got {metadata!r}")
    if merged["use.latest.version"] and merged["auto.register.schemas"]:
        raise ConfigError(
            f"{owner}: use.latest.version: set 'auto.register.schemas' to False, too: the latest version is "
            "used, and nothing is registered"
        )
    return merged


@attrs.frozen
class Registration:
    """How schemas are registered or found. Immutable.

    Attributes:
        client: the registry.
        conf: settings of the serializer, checked.
    """

    client: SchemaRegistryClient
    conf: Mapping[str, Any]

    def of(self, subject: str, schema: Schema) -> RegisteredSchema:
        """Register a schema, or look it up if ``auto.register.schemas`` is false."""
        normalize = self.conf["normalize.schemas"]
        if self.conf["auto.register.schemas"]:
            return self.client.register_schema_full_response(subject, schema, normalize)
        return self.client.lookup_schema(subject, schema, normalize)

    def chosen(self, subject: str, fmt: str | None) -> RegisteredSchema | None:
        """The schema that the settings choose (an id, the latest); ``None``: the application's own."""
        conf = self.conf
        if conf["use.schema.id"] is not None:
            return attrs.evolve(
                self.client.get_registered_schema(conf["use.schema.id"], subject, fmt), subject=subject
            )
        if conf["use.latest.with.metadata"] is not None:
            return self.client.get_latest_with_metadata(
                subject, conf["use.latest.with.metadata"], deleted=True, fmt=fmt
            )
        if conf["use.latest.version"]:
            return self.client.get_latest_version(subject, fmt)
        return None

    @property
    def latest_ttl_s(self) -> float | None:
        """How long a result may be used, in seconds; ``None``: for ever."""
        follows = self.conf["use.latest.with.metadata"] is not None or self.conf["use.latest.version"]
        return self.client.latest_ttl_s if follows else None


class RegistrySerializer:
    """Base class of the serializers that use a schema registry. Thread-safe.

    One object may be shared by producers, and used for keys and values.

    Args:
        arguments: what the subclass was called with, for pickles.
        conf: settings of the subclass, checked.
    """

    def __init__(
        self,
        arguments: tuple[object, ...],
        schema_format: SchemaFormat,
        client: SchemaRegistryClient,
        conf: Mapping[str, Any],
        to_dict: ToDict | None = None,
    ) -> None:
        self._arguments = arguments
        name = type(self).__name__
        if to_dict is not None and not callable(to_dict):
            raise ConfigError(f"{name}: to_dict: expected a function of (value, ctx), got {to_dict!r}")
        look_ups = {
            field: SchemaLookUp.of(name, field, schema_format, client, conf)
            for field in (MessageField.KEY, MessageField.VALUE)
        }
        self._is_framed_by_guid = look_ups[MessageField.VALUE].is_framed_by_guid
        self._fields = {field: FieldSerializer(look_up, to_dict) for field, look_up in look_ups.items()}

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self._arguments

    def for_field(self, field: str) -> FieldSerializer:
        """The serializer of keys or of values. A producer calls it for each setting.

        Args:
            field: ``key`` or ``value``.
        """
        return self._fields[field]

    def serialize(self, topic: str, headers: list[tuple[str, bytes | None]], value: Any) -> bytes | None:
        """Write a value; see ``FieldSerializer.serialize``. A producer uses ``for_field`` instead."""
        return self._fields[MessageField.VALUE].serialize(topic, headers, value)

    def __call__(self, value: Any, ctx: SerializationContext | None = None) -> bytes | None:
        """Write a key or value without a producer, as with confluent-kafka's serializers.

        Args:
            value: what to write; ``None`` stays ``None``.
            ctx: topic and field. Framing by GUID adds to its headers, a list or a dictionary.

        Raises:
            SerializationError: see ``FieldSerializer.serialize``.
        """
        if value is None:
            return None
        if ctx is None:
            raise SerializationError(
                f"{type(self).__name__}: expected a SerializationContext with topic and field as second "
                "argument"
            )
        if self._is_framed_by_guid and not isinstance(ctx.headers, (list, dict)):
            raise SerializationError(
                f"{type(self).__name__}: the schema's GUID goes into a header, but the headers of the "
                f"SerializationContext are {type(ctx.headers).__name__}; expected a list or a dictionary"
            )
        if ctx.field not in self._fields:
            raise SerializationError(
                f"{type(self).__name__}: the SerializationContext has the field {ctx.field!r}; expected "
                f"{MessageField.KEY!r} or {MessageField.VALUE!r}"
            )
        headers = [] if ctx.headers is None else ctx.headers
        return self._fields[ctx.field].serialize(ctx.topic, headers, value)

    def prepare(self, topic: str, field: str = MessageField.VALUE) -> None:
        """Make the look-ups for a topic now instead of with its first record. Blocks.

        Args:
            topic: the topic.
            field: ``key`` or ``value``.

        Raises:
            SerializationError: the schema is not usable, or the registry refused it or is not reachable.
        """
        self._fields[field].prepare(topic)

    async def aprepare(self, topic: str, field: str = MessageField.VALUE) -> None:
        """``prepare`` in a thread: the event loop goes on. Raises as ``prepare``."""
        if not self._fields[field].is_prepared(topic):
            import asyncio

            await asyncio.to_thread(self.prepare, topic, field)


class FieldSerializer:
    """A serializer of keys, or of values: what a producer calls for each record. Thread-safe.

    Args:
        look_up: finds the schema of a topic.
        to_dict: changes each value first.
    """

    def __init__(self, look_up: SchemaLookUp, to_dict: ToDict | None) -> None:
        # Fixed after construction.
        self._look_up = look_up
        self._to_dict = to_dict
        registration = look_up.registration
        self._writers = TopicLookUps(
            self._writer, registration.client.max_block_ms, registration.latest_ttl_s
        )

    def serialize(self, topic: str, headers: Headers, value: Any) -> bytes | None:
        """Write a key or a value.

        Blocks at the first record of a topic for the look-ups, for at most ``max.block.ms``.

        Raises:
            SerializationError: the value does not fit the schema, or the schema has rules.
            SchemaRegistryError: the registry refused the schema, or is not reachable.
        """
        writer = self._writers.find(topic)
        if self._to_dict is not None:
            value = self._to_dict(value, SerializationContext(topic, self._look_up.field, headers))
        data = writer.encode(value)
        if writer.header is not None:
            if isinstance(headers, dict):
                headers[writer.header[0]] = writer.header[1]
            else:
                headers.append(writer.header)
        return data

    def is_prepared(self, topic: str) -> bool:
        """Whether ``serialize`` would not block."""
        return self._writers.is_prepared(topic)

    def prepare(self, topic: str) -> None:
        """Make the look-ups for a topic. Blocks. Raises as ``serialize``."""
        self._writers.find(topic)

    def _writer(self, topic: str) -> Writer:
        found = self._look_up.find(topic)
        return Writer(self._look_up.schema_format.encoder(found.schema, found.prefix), found.header)


@attrs.frozen
class Writer:
    """How the values of one topic are written.

    Attributes:
        encode: from a value to the data of the record, with the schema's id if it is there.
        header: what is added to the headers of the record; ``None``: nothing.
    """

    encode: Callable[[Any], bytes]
    header: tuple[str, bytes] | None


@attrs.frozen
class FoundSchema:
    """The schema of a topic's keys or values, and how records name it.

    Attributes:
        schema: the schema.
        prefix: what each value begins with; empty if the header names the schema.
        header: what is added to the headers of each record; ``None``: nothing.
    """

    schema: Schema
    prefix: bytes
    header: tuple[str, bytes] | None


@attrs.frozen
class SchemaLookUp:
    """Finds subject, schema and frame for a topic. Immutable; any thread.

    Attributes:
        field: ``key`` or ``value``.
        schema_format: whose schemas are accepted.
        registration: registers or finds schemas.
        strategy: from the topic to the subject.
        is_framed_by_guid: the GUID goes into a header, instead of the id before the data.
    """

    field: str
    schema_format: SchemaFormat
    registration: Registration
    strategy: SubjectNameStrategy
    is_framed_by_guid: bool

    @classmethod
    def of(
        cls,
        owner: str,
        field: str,
        schema_format: SchemaFormat,
        client: SchemaRegistryClient,
        conf: Mapping[str, Any],
    ) -> SchemaLookUp:
        """Make one from settings that ``checked_conf`` has checked.

        Args:
            owner: the class that the application uses, for the error's text.

        Raises:
            ConfigError: the client or a setting is wrong.
        """
        if not isinstance(client, SchemaRegistryClient):
            raise ConfigError(
                f"{owner}: expected a kproducer.schema_registry.SchemaRegistryClient, "
                f"got {type(client).__name__}"
            )
        frame = getattr(conf["schema.id.serializer"], "__name__", None)
        if frame not in ("prefix_schema_id_serializer", "header_schema_id_serializer"):
            raise ConfigError(
                f"{owner}: schema.id.serializer: expected prefix_schema_id_serializer or "
                "header_schema_id_serializer"
            )
        strategy = subject_strategy(conf, client)
        is_framed_by_guid = frame == "header_schema_id_serializer"
        return cls(field, schema_format, Registration(client, conf), strategy, is_framed_by_guid)

    def find(self, topic: str) -> FoundSchema:
        """Register or find the schema of a topic. Blocks.

        Raises:
            SerializationError: there is no schema, or it has another format, or rules for producers.
            SchemaRegistryError: the registry refused the schema, or is not reachable.
        """
        schema_format = self.schema_format
        subject = self.strategy(SerializationContext(topic, self.field), schema_format.record_name)
        found = self.registration.chosen(subject, schema_format.fmt)
        schema = None if found is None else found.schema
        if found is None:
            schema = schema_format.own_schema(self.registration)
            if schema is None:
                raise SerializationError(
                    f"there is no schema for subject {subject!r}: pass one to the serializer, or set "
                    "use.latest.version or use.schema.id"
                )
            check_rules(schema, subject)
            found = self.registration.of(subject, schema)
        assert schema is not None
        check_rules(found.schema, subject)
        if schema.schema_type != schema_format.schema_type:
            raise SerializationError(
                f"the schema of subject {subject!r} has the type {shown(schema.schema_type)}, but the "
                f"serializer writes {schema_format.schema_type}"
            )
        indexes = schema_format.message_indexes(schema)
        if self.is_framed_by_guid:
            header = header_name(self.field), header_schema_id_serializer(found, indexes)
            return FoundSchema(schema, b"", header)
        return FoundSchema(schema, prefix_schema_id_serializer(found, indexes), None)

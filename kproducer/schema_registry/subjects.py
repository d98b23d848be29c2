"""Under which subject of the registry a schema is: the subject name strategies.

Source: Confluent Schema Registry, "Subject name strategy"; the names of confluent-kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs

from kproducer.errors import ConfigError, SchemaRegistryError, SerializationError
from kproducer.schema_registry.client import SchemaRegistryClient

#: Settings of the strategy ``ASSOCIATED``, in ``subject.name.strategy.conf``.
KAFKA_CLUSTER_ID = "subject.name.strategy.kafka.cluster.id"
FALLBACK_TYPE = "subject.name.strategy.fallback.type"
_ANY_CLUSTER = "-"
#: HTTP statuses of registries that do not know associations.
_NO_ASSOCIATIONS = {404, 405, 501}


class MessageField:
    """The parts of a record that have a schema."""

    KEY = "key"
    VALUE = "value"


#: The headers of a record. As in confluent-kafka, those of a ``SerializationContext`` may be a dictionary.
Headers: TypeAlias = "list[tuple[str, bytes | None]] | dict[str, bytes | None]"


@attrs.frozen
class SerializationContext:
    """The record that a value belongs to.

    Attributes:
        topic: its topic.
        field: ``key`` or ``value``.
        headers: its headers; ``None`` where they are not known, as in subject name strategies.
    """

    topic: str
    field: str
    headers: Headers | None = None


#: Returns the subject, from the context and the name of the schema (``None`` if it has none).
SubjectNameStrategy = Callable[[SerializationContext, "str | None"], str]


def topic_subject_name_strategy(ctx: SerializationContext, record_name: str | None) -> str:
    """``topic-key`` or ``topic-value``."""
    return f"{ctx.topic}-{ctx.field}"


def record_subject_name_strategy(ctx: SerializationContext, record_name: str | None) -> str:
    """The schema's name.

    Raises:
        SerializationError: the schema has no name.
    """
    return _named(record_name)


def topic_record_subject_name_strategy(ctx: SerializationContext, record_name: str | None) -> str:
    """The topic and the schema's name, with ``-`` between them.

    Raises:
        SerializationError: the schema has no name.
    """
    return f"{ctx.topic}-{_named(record_name)}"


_BY_TYPE: dict[str, SubjectNameStrategy] = {
    "TOPIC": topic_subject_name_strategy,
    "RECORD": record_subject_name_strategy,
    "TOPIC_RECORD": topic_record_subject_name_strategy,
}
_TYPES = (*_BY_TYPE, "ASSOCIATED")


def subject_strategy(conf: Mapping[str, Any], client: SchemaRegistryClient) -> SubjectNameStrategy:
    """The strategy that a serializer's settings choose; ``ASSOCIATED`` if they say nothing.

    Raises:
        ConfigError: a setting is wrong.
    """
    function = conf.get("subject.name.strategy")
    if function is not None:
        if not callable(function):
            raise ConfigError(
                f"subject.name.strategy: expected a function of (ctx, record_name), got {function!r}; for a "
                f"strategy by its name, set subject.name.strategy.type to one of {', '.join(_TYPES)}"
            )
        return _checked(function)
    kind = conf.get("subject.name.strategy.type")
    name = "ASSOCIATED" if kind is None else _type_name(kind)
    if name in _BY_TYPE:
        return _BY_TYPE[name]
    if name != "ASSOCIATED":
        raise ConfigError(f"subject.name.strategy.type: expected one of {', '.join(_TYPES)}, got {kind!r}")
    return _associated(conf.get("subject.name.strategy.conf") or {}, client)


def _associated(conf: Mapping[str, Any], client: SchemaRegistryClient) -> SubjectNameStrategy:
    """The subject that the registry associates with the topic; without one, the fallback's."""
    fallback = _type_name(conf.get(FALLBACK_TYPE, "TOPIC"))
    if fallback not in (*_BY_TYPE, "NONE"):
        raise ConfigError(f"{FALLBACK_TYPE}: expected one of {', '.join(_BY_TYPE)}, NONE, got {fallback!r}")
    cluster_id = conf.get(KAFKA_CLUSTER_ID) or _ANY_CLUSTER

    def find(ctx: SerializationContext, record_name: str | None) -> str:
        try:
            found = client.get_associations_by_resource_name(
                ctx.topic, cluster_id, "topic", association_types=[ctx.field]
            )
        except SchemaRegistryError as error:
            if error.http_status_code not in _NO_ASSOCIATIONS:
                raise
            found = []
        if len(found) > 1:
            raise SerializationError(
                f"the schema registry associates several subjects with the {ctx.field}s of topic "
                f"{ctx.topic!r}: {', '.join(each.subject for each in found)}; remove all but one, "
                f"or set {KAFKA_CLUSTER_ID}"
            )
        if found:
            return found[0].subject
        if fallback == "NONE":
            raise SerializationError(
                f"the schema registry associates no subject with the {ctx.field}s of topic {ctx.topic!r}; "
                f"create an association, or set {FALLBACK_TYPE} to one of {', '.join(_BY_TYPE)}"
            )
        return _BY_TYPE[fallback](ctx, record_name)

    return find


def _checked(function: Callable[..., Any]) -> SubjectNameStrategy:
    def strategy(ctx: SerializationContext, record_name: str | None) -> str:
        subject = function(ctx, record_name)
        if not isinstance(subject, str) or not subject:
            raise SerializationError(
                f"subject.name.strategy returned {subject!r} for the {ctx.field}s of topic {ctx.topic!r}; "
                "expected the name of a subject"
            )
        return subject

    return strategy


def _named(record_name: str | None) -> str:
    if not record_name:
        raise SerializationError(
            "the schema has no name (Avro: a record's name; JSON: title), which the subject name strategies "
            "RECORD and TOPIC_RECORD need; pass a schema with a name, or use TOPIC"
        )
    return record_name


def _type_name(kind: object) -> str:
    """The name of a strategy's type, also of one in an enumeration, as confluent-kafka's are."""
    return str(getattr(kind, "value", kind)).upper()

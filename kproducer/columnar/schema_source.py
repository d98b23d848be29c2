"""SchemaSource: where a format gets the schema of keys or values: the application, columns or a registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Generic, TypeVar

from kproducer._core.bulk.column_format import ColumnsToEncode
from kproducer.errors import ConfigError, InvalidArgumentError
from kproducer.schema_registry.client import SchemaRegistryClient
from kproducer.schema_registry.registry_serializer import (
    FoundSchema,
    SchemaFormat,
    SchemaLookUp,
    checked_conf,
)
from kproducer.schema_registry.topic_look_ups import TopicLookUps

F = TypeVar("F", bound=SchemaFormat)

#: How many schemas that were derived from columns are remembered, with their formats.
_MOST_DERIVED = 100


class SchemaSource(Generic[F]):
    """Finds schemas, and remembers what was found. Thread-safe.

    Args:
        owner: the format's class, for the errors' texts.
        schema: the application's, as the format takes it; ``"latest"``: that of the registry; ``None``:
            derived from columns.
        registry: ``None``: keys and values do not say which schema they have.
        conf: settings of the format's serializer, for the registry.
        more: the settings that only this format has, with their defaults.
        make_format: from the application's schema, or a derived one, to what the registry's client needs.

    Attributes:
        conf: the settings, with defaults.

    Raises:
        ConfigError: an argument is wrong.
    """

    def __init__(
        self,
        owner: str,
        schema: Any,
        registry: SchemaRegistryClient | None,
        conf: Mapping[str, Any] | None,
        more: Mapping[str, Any],
        make_format: Callable[[Any, Mapping[str, Any]], F],
    ) -> None:
        given = dict(conf or {})
        is_latest = schema == "latest"
        if registry is None and (is_latest or given):
            raise ConfigError(f"{owner}: {'schema=latest' if is_latest else 'conf'} needs a registry")
        if is_latest:
            given = {"auto.register.schemas": False, "use.latest.version": True, **given}
        self._owner = owner
        self._registry = registry
        self._make_format = make_format
        self.conf = conf = checked_conf(owner, given, more)
        chosen = ("use.schema.id", "use.latest.version", "use.latest.with.metadata")
        #: Whether a schema has to be derived from the columns.
        self.derives = schema is None and all(conf[name] in (None, False) for name in chosen)
        # A schema without references is parsed here, so that a mistake in it shows now.
        self._format = None if self.derives else make_format(None if is_latest else schema, conf)
        if registry is not None:
            SchemaLookUp.of(owner, "value", self._format or make_format(None, conf), registry, conf)
        self._look_ups = lru_cache(_MOST_DERIVED)(self._new_look_ups)

    def find(self, wanted: ColumnsToEncode, derived: str | None) -> tuple[F, FoundSchema | None]:
        """The format and the registered schema (``None``: there is no registry). May block.

        Equal arguments get the same format, unless there were many others in between.

        Args:
            wanted: the call.
            derived: the schema of the columns, if ``derives``.

        Raises:
            InvalidArgumentError: the topic is a column, but the registry needs to know the topic.
            SerializationError: there is no schema, or it is not valid or has rules.
            SchemaRegistryError: the registry refused the schema, or is not reachable.
        """
        schema_format, look_ups = self._look_ups(wanted.role, derived)
        if look_ups is None:
            return schema_format, None
        if wanted.topic is None:
            raise InvalidArgumentError(
                f"{wanted.role}: the schema in the registry depends on the topic, so topic_column cannot be "
                "used: call send_arrow once per topic"
            )
        return schema_format, look_ups.find(wanted.topic)

    def _new_look_ups(self, role: str, derived: str | None) -> tuple[F, TopicLookUps[FoundSchema] | None]:
        """The format, and the registry's look-ups (``None``: there is no registry)."""
        schema_format = self._format or self._make_format(derived, self.conf)
        if self._registry is None:
            return schema_format, None
        look_up = SchemaLookUp.of(self._owner, role, schema_format, self._registry, self.conf)
        ttl_s = look_up.registration.latest_ttl_s
        return schema_format, TopicLookUps(look_up.find, self._registry.max_block_ms, ttl_s)

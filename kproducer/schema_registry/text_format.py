"""TextFormat: what Avro and JSON Schema have in common, whose schemas are texts in JSON."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from kproducer.errors import ConfigError
from kproducer.schema_registry import answers
from kproducer.schema_registry.client import SchemaRegistryClient
from kproducer.schema_registry.registry_serializer import FoundSchema, Registration, SchemaFormat
from kproducer.schema_registry.schemas import Schema


class TextFormat(SchemaFormat):
    """A format whose schemas are texts in JSON; see ``SchemaFormat``.

    Args:
        owner: the argument that the schema is, for the errors' texts.
        given: the application's schema; ``None``: the registry has it.
        client: for references; ``None``: a schema that has some is refused.

    Attributes:
        schema: the application's.

    Raises:
        ConfigError: the schema is not JSON.
        SerializationError: it is not valid.
    """

    fmt = None

    def __init__(self, owner: str, given: str | Schema | None, client: SchemaRegistryClient | None) -> None:
        if given is not None and not isinstance(given, (str, Schema)):
            raise ConfigError(f"{owner}: expected JSON or a Schema, got {type(given).__name__}")
        self.schema = Schema(given, self.schema_type) if isinstance(given, str) else given
        self._client = client
        self.record_name: str | None = None
        if self.schema is not None:
            try:
                self.record_name = self._name_of(answers.parsed(self.schema.schema_str))
            except ValueError as error:
                raise ConfigError(f"{owner} is not JSON: {error}") from error
            if not self.schema.references:
                self._check(self.schema)  # a mistake in it shows now

    def own_schema(self, registration: Registration) -> Schema | None:
        return self.schema

    def schema_of(self, found: FoundSchema | None) -> Schema:
        """The registered schema; without a registry, the application's."""
        schema = self.schema if found is None else found.schema
        assert schema is not None
        return schema

    @abstractmethod
    def parsed(self, schema: Schema) -> tuple[Any, Mapping[str, Any]]:
        """The contents of a schema, and those of the schemas that it refers to, by name.

        Raises:
            SerializationError: it is not valid, or a reference is missing.
        """

    @abstractmethod
    def _name_of(self, contents: Any) -> str | None:
        """The schema's name; ``None``: it has none."""

    def _check(self, schema: Schema) -> None:
        self.parsed(schema)

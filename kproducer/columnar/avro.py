"""Avro: keys or values in Avro, made of Arrow columns.

Source: Avro specification 1.12; Confluent Schema Registry, "Wire format".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kproducer._core.runtime.extra_packages import need_package
from kproducer.columnar.avro_plan import AvroCompiler
from kproducer.columnar.avro_schema import schema_of_fields
from kproducer.columnar.format_plans import FormatPlans
from kproducer.columnar.schema_source import SchemaSource
from kproducer.schema_registry.avro import SETTINGS, AvroFormat
from kproducer.schema_registry.client import SchemaRegistryClient
from kproducer.schema_registry.registry_serializer import FoundSchema
from kproducer.schema_registry.schemas import Schema


class Avro(FormatPlans[AvroFormat]):
    """A format for ``send_arrow``: keys or values in Avro, made of columns. Thread-safe.

    Args:
        columns: a list of names: these columns are the fields of a record; one name: the values of that
            column, without a record around them; null makes a null key or value. ``None``: a record of all
            columns that the call does not use for something else.
        schema: as JSON, or a ``Schema`` if it refers to others; ``"latest"``: the latest version in the
            registry; ``None``: derived from the columns, as by ``avro_schema``.
        registry: registers the schema or looks it up, and each key or value has its id; ``None``: there is
            no id.
        conf: settings of ``AvroSerializer``, such as ``subject.name.strategy``.
        name: of the record, if the schema is derived; ``None``: that of the one column, or ``Record``.

    Raises:
        ConfigError: an argument is wrong, or fastavro is not installed.
    """

    def __init__(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        schema: str | Schema | None = None,
        registry: SchemaRegistryClient | None = None,
        conf: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> None:
        need_package("Avro", "fastavro", "fastavro", "avro")
        source = SchemaSource(
            "Avro",
            schema,
            registry,
            conf,
            SETTINGS,
            lambda given, conf: AvroFormat("Avro: schema", given, registry, conf),
        )
        super().__init__(columns, source, _compiler, partial(schema_of_fields, name=name))


def _compiler(schema_format: AvroFormat | None, found: FoundSchema | None) -> partial[AvroCompiler]:
    """For the registered schema, or for that of the application.

    Raises:
        SerializationError: the schema is not valid.
    """
    assert schema_format is not None
    parsed = schema_format.parsed(schema_format.schema_of(found))
    return partial(AvroCompiler, *parsed, found is not None)

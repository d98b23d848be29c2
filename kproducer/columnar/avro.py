"""Avro: keys or values in Avro, made of Arrow columns.

Source: Avro specification 1.12; Confluent Schema Registry, "Wire format".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import attrs

from kproducer._core.kernel.encoder_plan import Format, PlanNode
from kproducer.columnar.avro_plan import AvroCompiler
from kproducer.columnar.avro_schema import schema_of_fields
from kproducer.columnar.chosen_columns import ChosenColumns
from kproducer.columnar.format_plans import FormatPlans
from kproducer.columnar.schema_source import SchemaSource
from kproducer.errors import ConfigError
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
        try:
            import fastavro  # noqa: F401
        except ImportError as error:
            raise ConfigError("Avro needs the package fastavro: pip install 'kproducer[avro]'") from error
        source = SchemaSource(
            "Avro",
            schema,
            registry,
            conf,
            SETTINGS,
            lambda given, conf: AvroFormat("Avro: schema", given, registry, conf),
        )
        super().__init__(columns, source, AvroRoot.of, partial(schema_of_fields, name=name))


@attrs.frozen
class AvroRoot:
    """A ``RootMaker`` for one schema.

    Attributes:
        schema, named_schemas: as ``AvroFormat.parsed`` returns them.
        is_registered: whether records name the schema.
    """

    schema: Any = attrs.field(repr=False)
    named_schemas: Mapping[str, Any] = attrs.field(repr=False)
    is_registered: bool

    format: ClassVar = Format.AVRO

    @classmethod
    def of(cls, schema_format: AvroFormat | None, found: FoundSchema | None) -> AvroRoot:
        """Parse the registered schema, or that of the application.

        Raises:
            SerializationError: it is not valid.
        """
        assert schema_format is not None
        schema = schema_format.schema if found is None else found.schema
        assert schema is not None
        return cls(*schema_format.parsed(schema), found is not None)

    def root(self, chosen: ChosenColumns, role: str) -> PlanNode:
        """See ``RootMaker``."""
        root = AvroCompiler(self.schema, self.named_schemas, role).compile(chosen)
        if chosen.is_single and self.is_registered and self.schema in ("bytes", {"type": "bytes"}):
            # Like the serializers for a registry, this writes bytes without a length if the schema is only
            # bytes.
            return root._replace(a=1)
        return root

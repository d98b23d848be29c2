"""Avro: keys or values in Avro, made of Arrow columns.

Source: Avro specification 1.12; Confluent Schema Registry, "Wire format".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from kproducer.bulk.column_format import ColumnsToEncode, CompiledColumns
from kproducer.columnar.avro_plan import AvroCompiler
from kproducer.columnar.avro_schema import schema_of_fields
from kproducer.columnar.chosen_columns import ChosenColumns, checked_columns
from kproducer.columnar.schema_source import SchemaSource
from kproducer.errors import ConfigError
from kproducer.kernel.encoder_plan import EncoderPlan, Format
from kproducer.schema_registry.avro import SETTINGS, AvroFormat
from kproducer.schema_registry.client import SchemaRegistryClient
from kproducer.schema_registry.schemas import Schema


class Avro:
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
        self._columns = checked_columns("Avro", columns)
        self._name = name
        self._source = SchemaSource(
            "Avro",
            schema,
            registry,
            conf,
            SETTINGS,
            lambda given, conf: AvroFormat("Avro: schema", given, registry, conf),
        )

    def __repr__(self) -> str:
        return f"Avro({self._columns!r})"

    def compile_columns(self, wanted: ColumnsToEncode) -> CompiledColumns:
        """See ``ColumnFormat``."""
        return self.resolve(wanted).compile_columns(wanted)

    def resolve(self, wanted: ColumnsToEncode) -> AvroColumns:
        """The same format with the schema of one topic, which needs no registry. May block. Picklable.

        Raises:
            InvalidArgumentError: the columns are missing, or no schema can be derived from their types.
            SerializationError: there is no schema, or it is not valid or has rules.
            SchemaRegistryError: the registry refused the schema, or is not reachable.
        """
        derived = None
        if self._source.derives:
            derived = schema_of_fields(ChosenColumns.of(self._columns, wanted), self._name)
        schema_format, found = self._source.find(wanted, derived)
        if found is None:
            assert schema_format.schema is not None
            return AvroColumns(self._columns, *schema_format.parsed(schema_format.schema))
        return AvroColumns(self._columns, *schema_format.parsed(found.schema), found.prefix, found.header)


@attrs.frozen
class AvroColumns:
    """A ``ColumnFormat`` with a known schema. Picklable.

    Attributes:
        columns: see ``Avro``.
        schema, named_schemas: as ``AvroFormat.parsed`` returns them.
        prefix, header: what names the schema in each record.
    """

    columns: str | tuple[str, ...] | None
    schema: Any = attrs.field(repr=False)
    named_schemas: Mapping[str, Any] = attrs.field(repr=False)
    prefix: bytes = b""
    header: tuple[str, bytes] | None = None

    @property
    def is_registered(self) -> bool:
        """Whether records name the schema."""
        return bool(self.prefix) or self.header is not None

    def compile_columns(self, wanted: ColumnsToEncode) -> CompiledColumns:
        """See ``ColumnFormat``."""
        chosen = ChosenColumns.of(self.columns, wanted)
        compiler = AvroCompiler(self.named_schemas, wanted.role)
        if chosen.is_single:
            number, field = chosen.columns[0]
            root = compiler.column(self.schema, number, field)
            if self.is_registered and self.schema in ("bytes", {"type": "bytes"}):
                # As serializers with a registry: a schema that is only bytes is written without a length.
                root = root._replace(a=1)
        else:
            root = compiler.row(self.schema, chosen)
        return CompiledColumns(EncoderPlan(Format.AVRO, root, self.prefix), self.header)

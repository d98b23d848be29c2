"""Json: keys or values as JSON, made of Arrow columns.

Source: RFC 8259; Confluent Schema Registry, "Wire format".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

from kproducer.bulk.column_format import ColumnsToEncode, CompiledColumns
from kproducer.columnar.chosen_columns import ChosenColumns, checked_columns
from kproducer.columnar.json_constraints import UNCONSTRAINED, Constraints
from kproducer.columnar.json_plan import JsonCompiler, JsonOptions
from kproducer.columnar.json_schema import schema_of_fields
from kproducer.columnar.schema_source import SchemaSource
from kproducer.errors import ConfigError
from kproducer.kernel.encoder_plan import EncoderPlan, Format
from kproducer.schema_registry.client import SchemaRegistryClient
from kproducer.schema_registry.json_schema import SETTINGS, JsonFormat
from kproducer.schema_registry.schemas import Schema


class Json:
    """A format for ``send_arrow``: keys or values as JSON, made of columns. Thread-safe.

    With a schema, the names and types of the columns are compared with it before anything is sent, and null
    where it is not allowed fails only that row. Other constraints on values (``pattern``, ``minimum``,
    ``enum``) are not checked.

    Args:
        columns: a list of names: these columns are the members of an object; one name: the values of that
            column, without an object around them; null makes a null key or value. ``None``: an object of all
            columns that the call does not use for something else.
        schema: a JSON Schema, or a ``Schema`` if it refers to others; ``"latest"``: the latest version in the
            registry; ``None``: with a registry derived from the columns, as by ``json_schema``, else none.
        registry: registers the schema or looks it up, and each key or value has its id; ``None``: there is
            no id.
        conf: settings of ``JSONSerializer``, such as ``subject.name.strategy``. ``validate``: compare the
            columns with the schema.
        title: of the schema, if it is derived.
        nulls: ``"write"``: members that are null are written as null; ``"omit"``: they are left out.
        nan: ``"error"``: NaN and infinities do not fit; ``"null"``: they are written as null.
        decimals: ``"number"``: decimals are numbers with all their digits; ``"string"``: strings.

    Raises:
        ConfigError: an argument is wrong, or there is a schema or registry, but no package jsonschema-rs.
    """

    def __init__(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        schema: str | Schema | None = None,
        registry: SchemaRegistryClient | None = None,
        conf: Mapping[str, Any] | None = None,
        title: str | None = None,
        nulls: Literal["write", "omit"] = "write",
        nan: Literal["error", "null"] = "error",
        decimals: Literal["number", "string"] = "number",
    ) -> None:
        self._columns = checked_columns("Json", columns)
        self._title = title
        self._options = JsonOptions(
            omits_nulls=_is_second("nulls", nulls, "write", "omit"),
            nan_is_null=_is_second("nan", nan, "error", "null"),
            decimals_are_strings=_is_second("decimals", decimals, "number", "string"),
        )
        self._source: SchemaSource[JsonFormat] | None = None
        if schema is None and registry is None and not conf:
            return
        try:
            import jsonschema_rs  # noqa: F401
        except ImportError as error:
            raise ConfigError(
                "Json with a schema needs the package jsonschema-rs: pip install 'kproducer[json]'"
            ) from error
        self._source = SchemaSource(
            "Json",
            schema,
            registry,
            conf,
            SETTINGS,
            lambda given, conf: JsonFormat("Json: schema", given, registry, conf["validate"]),
        )

    def __repr__(self) -> str:
        return f"Json({self._columns!r})"

    def compile_columns(self, wanted: ColumnsToEncode) -> CompiledColumns:
        """See ``ColumnFormat``."""
        return self.resolve(wanted).compile_columns(wanted)

    def resolve(self, wanted: ColumnsToEncode) -> JsonColumns:
        """The same format with the schema of one topic, which needs no registry. May block. Picklable.

        Raises:
            InvalidArgumentError: the columns are missing, or no schema can be derived from their types.
            SerializationError: there is no schema, or it is not valid or has rules.
            SchemaRegistryError: the registry refused the schema, or is not reachable.
        """
        if self._source is None:
            return JsonColumns(self._columns, self._options)
        derived = None
        if self._source.derives:
            derived = schema_of_fields(ChosenColumns.of(self._columns, wanted), self._title, self._options)
        schema_format, found = self._source.find(wanted, derived)
        schema = schema_format.schema if found is None else found.schema
        assert schema is not None
        parsed = schema_format.parsed(schema) if self._source.conf["validate"] else None
        if found is None:
            return JsonColumns(self._columns, self._options, parsed)
        return JsonColumns(self._columns, self._options, parsed, found.prefix, found.header)


@attrs.frozen
class JsonColumns:
    """A ``ColumnFormat`` with a known schema. Picklable.

    Attributes:
        columns: see ``Json``.
        options: how values are written.
        schema: as ``JsonFormat.parsed`` returns it; ``None``: columns are not compared with one.
        prefix, header: what names the schema in each record.
    """

    columns: str | tuple[str, ...] | None
    options: JsonOptions
    schema: tuple[Any, Mapping[str, Any]] | None = attrs.field(default=None, repr=False)
    prefix: bytes = b""
    header: tuple[str, bytes] | None = None

    def compile_columns(self, wanted: ColumnsToEncode) -> CompiledColumns:
        """See ``ColumnFormat``."""
        chosen = ChosenColumns.of(self.columns, wanted)
        constraints = UNCONSTRAINED if self.schema is None else Constraints.of(*self.schema)
        compiler = JsonCompiler(self.options, wanted.role)
        if chosen.is_single:
            number, field = chosen.columns[0]
            root = compiler.column(number, field, constraints)
        else:
            root = compiler.row(chosen, constraints)
        return CompiledColumns(EncoderPlan(Format.JSON, root, self.prefix), self.header)


def _is_second(name: str, given: object, first: str, second: str) -> bool:
    if given not in (first, second):
        raise ConfigError(f"Json: {name}: expected {first!r} or {second!r}, not {given!r:.200}")
    return given == second

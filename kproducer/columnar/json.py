"""Json: keys or values as JSON, made of Arrow columns.

Source: RFC 8259; Confluent Schema Registry, "Wire format".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

from kproducer._core.runtime.extra_packages import need_package
from kproducer.columnar.format_plans import FormatPlans
from kproducer.columnar.json_plan import JsonCompiler, JsonOptions
from kproducer.columnar.json_schema import schema_of_fields
from kproducer.columnar.schema_source import SchemaSource
from kproducer.errors import ConfigError
from kproducer.schema_registry.client import SchemaRegistryClient
from kproducer.schema_registry.json_schema import SETTINGS, JsonFormat
from kproducer.schema_registry.registry_serializer import FoundSchema
from kproducer.schema_registry.schemas import Schema


class Json(FormatPlans[JsonFormat]):
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
        options = JsonOptions(
            omits_nulls=_is_second("nulls", nulls, "write", "omit"),
            nan_is_null=_is_second("nan", nan, "error", "null"),
            decimals_are_strings=_is_second("decimals", decimals, "number", "string"),
        )
        if schema is None and registry is None and not conf:
            super().__init__(columns, None, lambda *_: partial(JsonCompiler, options, None))
            return
        need_package("Json with a schema", "jsonschema-rs", "jsonschema_rs", "json")
        source = SchemaSource(
            "Json",
            schema,
            registry,
            conf,
            SETTINGS,
            lambda given, conf: JsonFormat("Json: schema", given, registry, conf["validate"]),
        )

        def compiler(schema_format: JsonFormat | None, found: FoundSchema | None) -> partial[JsonCompiler]:
            assert schema_format is not None
            schema = schema_format.schema_of(found)
            parsed = schema_format.parsed(schema) if source.conf["validate"] else None
            return partial(JsonCompiler, options, parsed)

        super().__init__(columns, source, compiler, lambda chosen: schema_of_fields(chosen, title, options))


def _is_second(name: str, given: object, first: str, second: str) -> bool:
    if given not in (first, second):
        raise ConfigError(f"Json: {name}: expected {first!r} or {second!r}, not {given!r:.200}")
    return given == second

"""AvroSerializer: records in Avro, with the schema's id.

Values are what fastavro takes. The compiled encoder that ``avro_encoder`` makes writes the usual ones,
fastavro all others. Source: Avro specification 1.12; Confluent Schema Registry, "Wire format".
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any

from kproducer._core.runtime.extra_packages import need_package
from kproducer.errors import SerializationError
from kproducer.schema_registry import answers
from kproducer.schema_registry.avro_encoder import compile_encoder
from kproducer.schema_registry.client import SchemaRegistryClient
from kproducer.schema_registry.references import referenced_schemas
from kproducer.schema_registry.registry_serializer import RegistrySerializer, ToDict, checked_conf
from kproducer.schema_registry.schemas import Schema
from kproducer.schema_registry.text_format import TextFormat
from kproducer.schema_registry.value_depth import with_depth_check

SETTINGS = {"validate.strict": False, "validate.strict.allow.default": False}


class AvroSerializer(RegistrySerializer):
    """Writes values in Avro, with the schema's id. For ``key_serializer`` and ``value_serializer``.

    Args:
        schema_registry_client: the registry.
        schema_str: the schema as JSON, or a ``Schema`` if it refers to others. May be left out with
            ``use.latest.version``, ``use.latest.with.metadata`` and ``use.schema.id``.
        to_dict: function of (value, ctx) that returns what fastavro takes: a dictionary for a record.
        conf: settings; the guide ``docs/guides/schema-registry.md`` lists them.

    Raises:
        ConfigError: a setting is wrong, or fastavro is not installed.

    Compiled code writes records of primitive types, timestamps, dates, enums, ``fixed``, arrays, maps,
    records, nullable types, and unions of primitive types. fastavro writes the rest, more slowly and with the
    same results: single values of other logical types (decimals, UUIDs, times of day); a whole record if one
    of its values is unusual (a ``datetime`` without a time zone, a tuple that names the branch of a union, an
    instance of a subclass of ``int`` or ``dict``); all records of other schemas, such as those with unions of
    several records, or with a logical type that the application has put into
    ``fastavro.write.LOGICAL_WRITERS``; all records without the compiled core. A value that is nested deeper
    than ``sys.getrecursionlimit()``, or contains itself, is a ``SerializationError`` of ``send``.
    """

    def __init__(
        self,
        schema_registry_client: SchemaRegistryClient,
        schema_str: str | Schema | None = None,
        to_dict: ToDict | None = None,
        conf: Mapping[str, Any] | None = None,
    ) -> None:
        need_package("AvroSerializer", "fastavro", "fastavro", "avro")
        checked = checked_conf("AvroSerializer", conf, SETTINGS)
        super().__init__(
            (schema_registry_client, schema_str, to_dict, conf),
            AvroFormat("AvroSerializer: schema_str", schema_str, schema_registry_client, checked),
            schema_registry_client,
            checked,
            to_dict,
        )


class AvroFormat(TextFormat):
    """Avro. The name of a primitive type is accepted as a schema without its quotes.

    Args:
        owner, given, client: see ``TextFormat``.
        conf: settings of ``AvroSerializer``.
    """

    schema_type = "AVRO"

    def __init__(
        self,
        owner: str,
        given: str | Schema | None,
        client: SchemaRegistryClient | None,
        conf: Mapping[str, Any],
    ) -> None:
        self._strict: bool = conf["validate.strict"]
        self._strict_allow_default: bool = conf["validate.strict.allow.default"]
        super().__init__(owner, _with_quotes(given) if isinstance(given, str) else given, client)

    def encoder(self, schema: Schema, prefix: bytes) -> Callable[[Any], bytes]:
        from fastavro import schemaless_writer

        parsed, named_schemas = self.parsed(schema)
        if parsed == "bytes" or (isinstance(parsed, dict) and parsed == {"type": "bytes"}):
            # Like Java's serializer, this writes bytes without a length if the schema is only bytes.
            return lambda value: prefix + _as_bytes(value)
        strict, strict_allow_default = self._strict, self._strict_allow_default

        def with_fastavro(value: Any) -> bytes:
            buffer = io.BytesIO()
            buffer.write(prefix)
            try:
                schemaless_writer(
                    buffer, parsed, value, strict=strict, strict_allow_default=strict_allow_default
                )
            except Exception as error:
                # fastavro raises errors of many classes, and its own code for values of the application.
                raise SerializationError(
                    f"the value does not fit the Avro schema: {type(error).__name__}: {error}"
                    f"{_record_advice(parsed, value)}"
                ) from error
            return buffer.getvalue()

        encode = with_depth_check(parsed, named_schemas, with_fastavro)
        if strict_allow_default:
            return encode
        return compile_encoder(parsed, named_schemas, prefix, strict, encode)

    def parsed(self, schema: Schema) -> tuple[Any, dict[str, Any]]:
        """The schema as fastavro wants it, and the named types in it and in its references.

        Raises:
            SerializationError: it is not valid.
        """
        from fastavro import parse_schema

        named_schemas: dict[str, Any] = {}
        try:
            seen: set[tuple[str, int]] = set()
            for reference, other in referenced_schemas(schema, self._client):
                if (place := (reference.subject, reference.version)) not in seen:
                    seen.add(place)
                    parse_schema(answers.parsed(other.schema_str), named_schemas)
            parsed = parse_schema(answers.parsed(schema.schema_str), named_schemas)
        except SerializationError:
            raise
        except Exception as error:
            # fastavro raises errors of many classes for schemas that are not valid.
            raise SerializationError(
                f"the Avro schema is not valid: {type(error).__name__}: {answers.shown(str(error))}"
                f"{_type_advice(error)}"
            ) from error
        if isinstance(parsed, list):
            # A union has no place for named types: put their definitions in it.
            parsed = [named_schemas.get(each, each) if isinstance(each, str) else each for each in parsed]
        elif isinstance(parsed, str):
            parsed = named_schemas.get(parsed, parsed)
        return parsed, named_schemas

    def _name_of(self, contents: Any) -> str | None:
        """The full name of a record, or the name of a primitive type; ``None`` for unions."""
        if isinstance(contents, str):
            return contents
        if not isinstance(contents, dict):
            return None
        name = contents.get("name")
        if not name:
            kind = contents.get("type")
            return kind if isinstance(kind, str) else None
        namespace = contents.get("namespace")
        return f"{namespace}.{name}" if namespace and "." not in name else str(name)


def _record_advice(parsed: Any, value: object) -> str:
    """What to do if the value of a record is something else: fastavro only says what it missed in it."""
    is_record = isinstance(parsed, dict) and parsed.get("type") == "record"
    if not is_record or isinstance(value, (Mapping, tuple)):
        return ""
    return f"; a record is a dictionary, not {type(value).__name__}: to_dict converts each value"


def _type_advice(error: Exception) -> str:
    name = getattr(error, "name", None) if type(error).__name__ == "UnknownType" else None
    if not isinstance(name, str):
        return ""
    return (
        f"; check the name, or refer to the schema that defines {answers.shown(name)!r}: "
        "Schema(text, 'AVRO', [SchemaReference(name, subject, version)])"
    )


def _as_bytes(value: object) -> bytes:
    # bytes() would make zeros of an int, and bytes of a list.
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise SerializationError(f"the Avro schema is bytes; expected bytes, got {type(value).__name__}")
    return bytes(value)


def _with_quotes(schema: str) -> str:
    """The name of a primitive type as JSON: ``string`` as ``"string"``."""
    text = schema.strip()
    return json.dumps(text) if text.isidentifier() else schema

"""JSONSerializer: values as JSON that a JSON Schema describes, with the schema's id.

Source: JSON Schema; Confluent Schema Registry, "Wire format".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from kproducer._core.runtime.extra_packages import need_package
from kproducer.errors import SerializationError
from kproducer.schema_registry import answers
from kproducer.schema_registry.client import SchemaRegistryClient
from kproducer.schema_registry.references import referenced_schemas
from kproducer.schema_registry.registry_serializer import RegistrySerializer, ToDict, checked_conf
from kproducer.schema_registry.schemas import Schema
from kproducer.schema_registry.text_format import TextFormat

SETTINGS = {"validate": True}


class JSONSerializer(RegistrySerializer):
    """Writes values as JSON, checked against a schema, with the schema's id.

    Args:
        schema_str: the JSON Schema, or a ``Schema`` if it refers to others; ``None`` with
            ``use.latest.version``, ``use.latest.with.metadata`` and ``use.schema.id``.
        schema_registry_client: the registry.
        to_dict: function of (value, ctx) that returns what ``json`` encodes.
        conf: settings; the guide ``docs/guides/schema-registry.md`` lists them.
        json_encode: from a value to JSON, as ``str`` or ``bytes``; the default writes compact JSON.

    Raises:
        ConfigError: a setting is wrong, or jsonschema-rs is not installed.
    """

    def __init__(
        self,
        schema_str: str | Schema | None,
        schema_registry_client: SchemaRegistryClient,
        to_dict: ToDict | None = None,
        conf: Mapping[str, Any] | None = None,
        json_encode: Callable[[Any], str | bytes] | None = None,
    ) -> None:
        need_package("JSONSerializer", "jsonschema-rs", "jsonschema_rs", "json")
        checked = checked_conf("JSONSerializer", conf, SETTINGS)
        schema_format = JsonFormat(
            "JSONSerializer: schema_str", schema_str, schema_registry_client, checked["validate"], json_encode
        )
        arguments = (schema_str, schema_registry_client, to_dict, conf, json_encode)
        super().__init__(arguments, schema_format, schema_registry_client, checked, to_dict)


class JsonFormat(TextFormat):
    """JSON that a JSON Schema describes.

    Args:
        owner, given, client: see ``TextFormat``.
        validates: values are checked against the schema.
        json_encode: see ``JSONSerializer``.
    """

    schema_type = "JSON"

    def __init__(
        self,
        owner: str,
        given: str | Schema | None,
        client: SchemaRegistryClient | None,
        validates: bool,
        json_encode: Callable[[Any], str | bytes] | None = None,
    ) -> None:
        self._validates = validates
        self._json_encode = json_encode
        super().__init__(owner, given, client)

    def encoder(self, schema: Schema, prefix: bytes) -> Callable[[Any], bytes]:
        encode_json = self._json_encode
        if encode_json is None:
            encode_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
        validate = self._validator(schema).validate if self._validates else None

        def encode(value: Any) -> bytes:
            if validate is not None:
                try:
                    validate(value)
                except Exception as error:
                    # Errors of jsonschema-rs: ValidationError, or ValueError for values that are not JSON.
                    raise SerializationError(_mistake(error)) from error
            try:
                text = encode_json(value)
                return prefix + (text.encode() if isinstance(text, str) else text)
            except (TypeError, ValueError, RecursionError) as error:
                raise SerializationError(f"the value cannot be encoded as JSON: {error}") from error

        return encode

    def parsed(self, schema: Schema) -> tuple[Any, dict[str, Any]]:
        """The contents of a schema, and those of the schemas that it refers to, by name.

        Raises:
            SerializationError: it is not valid, or a reference is missing.
        """
        try:
            others = {
                reference.name: answers.parsed(other.schema_str)
                for reference, other in referenced_schemas(schema, self._client)
            }
            return answers.parsed(schema.schema_str), others
        except SerializationError:
            raise
        except ValueError as error:
            raise SerializationError(f"the JSON Schema is not valid: {error}") from error

    def _name_of(self, contents: Any) -> str | None:
        return contents.get("title") if isinstance(contents, dict) else None

    def _check(self, schema: Schema) -> None:
        self._validator(schema)

    def _validator(self, schema: Schema) -> Any:
        import jsonschema_rs

        contents, resources = self.parsed(schema)
        try:
            registry = None
            if resources:
                registry = jsonschema_rs.Registry(
                    resources.items(), draft=jsonschema_rs.Draft7, retriever=_refuse_to_retrieve
                )
            if isinstance(contents, dict) and "$schema" in contents:
                return jsonschema_rs.validator_for(contents, registry=registry, retriever=_refuse_to_retrieve)
            # The version that Schema Registry assumes.
            return jsonschema_rs.Draft7Validator(contents, registry=registry, retriever=_refuse_to_retrieve)
        except Exception as error:
            # jsonschema-rs raises errors of several classes for schemas that are not valid.
            raise SerializationError(f"the JSON Schema is not valid: {_shortened(str(error))}") from error


def _refuse_to_retrieve(uri: str) -> Any:
    """Schemas come from the registry only, not from any address that a schema names."""
    raise ValueError(f"{uri} is not among the references of the schema")


def _mistake(error: Exception) -> str:
    path = "".join(f"[{part!r}]" for part in getattr(error, "instance_path", ()))
    text = _shortened(str(getattr(error, "message", error)))
    return f"the value does not fit the JSON Schema{f', at {path}' if path else ''}: {text}"


def _shortened(text: str) -> str:
    return answers.shown(text.partition("\n\n")[0])

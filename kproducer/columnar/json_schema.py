"""JSON Schemas derived from Arrow types. Source: JSON Schema, draft 7."""

from __future__ import annotations

import json
from typing import Any, Final

from kproducer._core.columns.encoder_plan import ArrowField, JsonOperation
from kproducer.columnar.chosen_columns import LISTS, ChosenColumns
from kproducer.columnar.column_compiler import inner_place
from kproducer.columnar.json_plan import JsonOptions, not_written_as_json, scalar
from kproducer.errors import InvalidArgumentError

#: Schema Registry assumes it for schemas that name none.
_DRAFT: Final = "http://json-schema.org/draft-07/schema#"
#: What a string contains.
_CONTENTS: Final[dict[int, dict[str, str]]] = {
    JsonOperation.DATE: {"format": "date"},
    JsonOperation.UUID: {"format": "uuid"},
    JsonOperation.BINARY: {"contentEncoding": "base64"},
}


def json_schema(data: Any, title: str | None = None, columns: str | list[str] | None = None) -> str:
    """The JSON Schema for the columns of Arrow data, as ``Json`` derives it with its default options.

    Objects have no other properties than the columns, so that a column may be added later: Schema Registry
    calls this a closed content model. Columns that may not be null are required; the others may be null.

    Args:
        data: Arrow data, or a schema of pyarrow. A stream is consumed.
        title: of the schema, which some subject name strategies use; ``None``: it has none.
        columns: see ``Json``.

    Returns:
        The schema as JSON.

    Raises:
        InvalidArgumentError: a column is missing, or its type has no form in JSON.
    """
    return schema_of_fields(ChosenColumns.of_data(columns, data), title, JsonOptions())


def schema_of_fields(chosen: ChosenColumns, title: str | None, options: JsonOptions) -> str:
    """The schema of the columns of a key or value, as JSON.

    Raises:
        InvalidArgumentError: see ``json_schema``.
    """
    types = _Types(options)
    if chosen.is_single:
        # A null column makes a null key or value: the schema does not need to allow it.
        _, field = chosen.columns[0]
        schema = types.of_values(field, field.name)
    else:
        schema = types.of_object([field for _, field in chosen.columns], "")
    return json.dumps({"$schema": _DRAFT, **({} if title is None else {"title": title}), **schema})


class _Types:
    """Schemas of types.

    Args:
        options: of the format.
    """

    def __init__(self, options: JsonOptions) -> None:
        self._options = options

    def of_object(self, fields: list[ArrowField], place: str) -> dict[str, Any]:
        of_property = self.of_values if self._options.omits_nulls else self._of_field
        properties = {field.name: of_property(field, inner_place(place, field.name)) for field in fields}
        required = [field.name for field in fields if not field.is_nullable and field.values.format != "n"]
        return {
            "type": "object",
            "properties": properties,
            **({"required": required} if required else {}),
            "additionalProperties": False,
        }

    def _of_field(self, field: ArrowField, place: str) -> dict[str, Any]:
        """The schema of values, which may be null if the field says so."""
        schema = self.of_values(field, place)
        return _or_null(schema) if field.is_nullable else schema

    def of_values(self, field: ArrowField, place: str) -> dict[str, Any]:
        """The schema of values that are not null."""
        values = field.values
        text = values.format
        if text == "n":
            return {"type": "null"}
        if text.startswith("+u"):
            return {"anyOf": [self._of_field(child, f"{place}.{child.name}") for child in values.children]}
        if text == "+s":
            return self.of_object(list(values.children), place)
        if text == "+m":
            value = values.children[0].values.children[1]
            return {"type": "object", "additionalProperties": self._of_field(value, f"{place}.value")}
        if text.startswith(LISTS):
            items = self._of_field(values.children[0], f"{place}[]")
            is_fixed = text.startswith("+w:")
            size = dict.fromkeys(("minItems", "maxItems"), int(text[3:])) if is_fixed else {}
            return {"type": "array", "items": items, **size}
        found = scalar(field, self._options)
        if found is None:
            raise InvalidArgumentError(f"column {place!r} {not_written_as_json(field)}")
        node, kind = found
        details = _CONTENTS.get(node.operation, {})
        # Timestamps without a time zone, and times, have no format in JSON Schema.
        if node.operation == JsonOperation.TIMESTAMP and node.b:
            details = {"format": "date-time"}
        schema: dict[str, Any] = {"type": kind, **details}
        can_be_nan = node.operation == JsonOperation.FLOAT and self._options.nan_is_null
        return _or_null(schema) if can_be_nan and not self._options.omits_nulls else schema


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    if "anyOf" in schema:
        return {"anyOf": [*schema["anyOf"], {"type": "null"}]}
    if isinstance(schema["type"], list) or schema["type"] == "null":
        return schema
    return {**schema, "type": [schema["type"], "null"]}

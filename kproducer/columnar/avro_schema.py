"""Avro schemas derived from Arrow types.

Source: Avro specification 1.12, "Names" and "Logical Types".
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from kproducer._core.columns.encoder_plan import ArrowField
from kproducer.columnar.chosen_columns import BINARY, LISTS, TEXT, UUID_EXTENSION, ChosenColumns, type_name
from kproducer.errors import InvalidArgumentError

_DEFAULT_NAME: Final = "Record"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: By Arrow format.
PLAIN_TYPES: Final[dict[str, Any]] = {
    "n": "null", "b": "boolean", "c": "int", "C": "int", "s": "int", "S": "int", "i": "int", "I": "long",
    "l": "long", "L": "long", "e": "float", "f": "float", "g": "double",
    **dict.fromkeys(TEXT, "string"),
    **dict.fromkeys(BINARY, "bytes"),
}  # fmt: skip
_TIMES: Final = {
    "tdD": ("int", "date"), "tdm": ("int", "date"), "tts": ("int", "time-millis"),
    "ttm": ("int", "time-millis"), "ttu": ("long", "time-micros"), "ttn": ("long", "time-micros"),
}  # fmt: skip
_TIMESTAMPS: Final = {"s": "millis", "m": "millis", "u": "micros", "n": "nanos"}


def avro_schema(data: Any, name: str | None = None, columns: str | list[str] | None = None) -> str:
    """The Avro schema for the columns of Arrow data, as ``Avro`` derives it.

    Fields that may be null are unions with null, whose default is null. Dictionaries become the type of their
    values, and unsigned 64-bit integers ``long``, so larger numbers do not fit. Times in nanoseconds become
    ``time-micros``, rounded down; seconds and milliseconds ``-millis``, timestamps without time zone
    ``local-timestamp-``, half_float ``float``, decimals ``bytes``, fixed-size binary ``fixed``,
    month_day_nano_interval ``duration``, and the extension type ``arrow.uuid`` ``uuid``. Durations, the other
    intervals and decimals with a negative scale have no type: give a schema.

    Args:
        data: Arrow data, or a schema of pyarrow. A stream is consumed.
        name: of the record, with its namespace; ``None``: that of the one column, or ``Record``.
        columns: see ``Avro``.

    Returns:
        The schema as JSON.

    Raises:
        InvalidArgumentError: a column is missing, or its type or name has no counterpart in Avro.
    """
    return schema_of_fields(ChosenColumns.of_data(columns, data), name)


def schema_of_fields(chosen: ChosenColumns, name: str | None) -> str:
    """The schema of the columns of a key or value, as JSON.

    Args:
        chosen: the columns.
        name: see ``avro_schema``.

    Raises:
        InvalidArgumentError: see ``avro_schema``.
    """
    if chosen.is_single:
        # A null column makes a null value: the schema does not need to allow it.
        _, field = chosen.columns[0]
        own_name = name or (field.name if _NAME.fullmatch(field.name) else _DEFAULT_NAME)
        return json.dumps(_Types().of_values(field.values, own_name, field.name, field.extension))
    return json.dumps(_Types().of_record(name or _DEFAULT_NAME, [field for _, field in chosen.columns], ""))


class _Types:
    """The types of one schema."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def _unused(self, name: str) -> str:
        """A name with ``_`` behind it, if another type has it: of ``a.b_c`` and ``a_b.c``, for example."""
        while name in self._names:
            name = f"{name}_"
        self._names.add(name)
        return name

    def of_record(self, name: str, fields: list[ArrowField], place: str) -> dict[str, Any]:
        if not all(_NAME.fullmatch(part) for part in name.split(".")):
            raise InvalidArgumentError(
                f"{name!r} is not a name in Avro, which has letters, digits and _ only"
            )
        for number, field in enumerate(fields):
            if any(field.name == other.name for other in fields[:number]):
                raise InvalidArgumentError(f"there are two fields {place + field.name!r}: rename one of them")
            if not _NAME.fullmatch(field.name):
                raise InvalidArgumentError(
                    f"column {place + field.name!r}: names in Avro have letters, digits and _ only: rename it"
                )
        return {
            "type": "record",
            "name": self._unused(name),
            "fields": [
                {
                    "name": field.name,
                    "type": self._of_field(field, f"{name}_{field.name}", f"{place}{field.name}"),
                    **({"default": None} if field.is_nullable and field.values.format != "n" else {}),
                }
                for field in fields
            ],
        }

    def _of_field(self, field: ArrowField, name: str, place: str) -> Any:
        """The type of a field; a union with null, if it may be null."""
        schema = self.of_values(field.values, name, place, field.extension)
        if not field.is_nullable or schema == "null":
            return schema
        if isinstance(schema, list):
            return ["null", *(branch for branch in schema if branch != "null")]
        return ["null", schema]

    def of_values(self, field: ArrowField, name: str, place: str, extension: str = "") -> Any:
        """The type of a field's values.

        Args:
            name: of the record or fixed that it may be.
            place: the column, and the field in it, for errors: ``address.zip``.
        """
        text = field.format
        if UUID_EXTENSION in (extension, field.extension):
            return {"type": "string", "logicalType": "uuid"}
        if text in PLAIN_TYPES:
            return PLAIN_TYPES[text]
        if text in _TIMES:
            kind, logical = _TIMES[text]
            return {"type": kind, "logicalType": logical}
        if text.startswith("ts"):
            local = "" if text[4:] else "local-"
            return {"type": "long", "logicalType": f"{local}timestamp-{_TIMESTAMPS[text[2]]}"}
        if text.startswith("d:"):
            precision, scale = map(int, text[2:].split(",")[:2])
            if scale >= 0:
                return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
        if text.startswith("w:"):
            return {"type": "fixed", "name": self._unused(name), "size": int(text[2:])}
        if text == "tin":
            return {"type": "fixed", "name": self._unused(name), "size": 12, "logicalType": "duration"}
        if text.startswith(LISTS):
            return {"type": "array", "items": self._of_field(field.children[0], f"{name}_item", f"{place}[]")}
        if text == "+m":
            value = field.children[0].children[1]
            return {"type": "map", "values": self._of_field(value, f"{name}_value", f"{place}.{value.name}")}
        if text == "+s":
            return self.of_record(name, list(field.children), f"{place}.")
        if text.startswith("+u"):
            branches = [
                self.of_values(child.values, f"{name}_{child.name}", f"{place}.{child.name}", child.extension)
                for child in field.children
            ]
            return _union(branches, any(child.is_nullable for child in field.children), name)
        remedy = "decode it" if text == "+r" else "cast it, leave it out, or give a schema"
        raise InvalidArgumentError(
            f"column {place!r} is of type {type_name(field)}, for which no Avro type is derived: {remedy}"
        )


def _union(branches: list[Any], is_nullable: bool, name: str) -> list[Any]:
    """The union of what the fields of an Arrow union are; the same type is in it once."""
    different = [branch for number, branch in enumerate(branches) if branch not in branches[:number]]
    kinds = [branch["type"] if isinstance(branch, dict) else str(branch) for branch in different]
    for number, kind in enumerate(kinds):
        if isinstance(different[number], list) or (
            kind in kinds[:number] and kind not in ("record", "fixed")
        ):
            raise InvalidArgumentError(
                f"{name}: a union of Avro cannot have two types {kind!r}, nor another union: give a schema"
            )
    return [*(["null"] if is_nullable and "null" not in kinds else []), *different]

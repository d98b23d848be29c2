"""Refuses values that contain themselves before they reach fastavro: its compiled code would end the process.

Only a schema with a record that may contain itself has such values. Source: observed with fastavro 1.13; it
calls itself for each level and does not count them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kproducer.errors import SerializationError


def with_depth_check(
    schema: Any, named_schemas: Mapping[str, Any], encode: Callable[[Any], bytes]
) -> Callable[[Any], bytes]:
    """``encode``, after a check of the value's depth where the schema needs one.

    Args:
        schema: as ``fastavro.parse_schema`` returns it.
        named_schemas: the named types that the schema refers to, also from ``parse_schema``.
        encode: encodes a value of this schema with fastavro.

    Returns:
        A function that raises ``RecursionError`` if records, arrays and maps are nested deeper than
        ``sys.getrecursionlimit()``, and ``SerializationError`` if the value's own code raises an exception.
    """
    try:
        if not _refers_to_itself(schema, named_schemas, (), set()):
            return encode
    except RecursionError:
        pass  # a schema that is nested very deeply; the check only costs time

    def check_and_encode(value: Any) -> bytes:
        limit = sys.getrecursionlimit()
        try:
            is_too_deep = _is_too_deep(schema, named_schemas, value, limit)
        except Exception as error:
            # Raised by code of the value; fastavro would have met it, too.
            raise SerializationError(
                f"the value does not fit the Avro schema: {type(error).__name__}: {error}"
            ) from error
        if is_too_deep:
            raise RecursionError(f"the value contains itself, or is nested more than {limit} levels deep")
        return encode(value)

    return check_and_encode


def _refers_to_itself(
    schema: Any, named_schemas: Mapping[str, Any], around: tuple[str, ...], done: set[str]
) -> bool:
    """Whether a record in the schema may contain itself, or one of the records around the schema.

    Args:
        done: names of records that do not; more are added.
    """
    if isinstance(schema, str):
        if schema in around:
            return True
        if schema in done or schema not in named_schemas:
            return False
        return _refers_to_itself(named_schemas[schema], named_schemas, around, done)
    if isinstance(schema, dict):
        kind = schema["type"]
        if kind in ("record", "error"):
            around = (*around, schema["name"])
        parts = _parts_of(schema)
    else:
        kind, parts = None, schema
    if any(_refers_to_itself(part, named_schemas, around, done) for part in parts):
        return True
    if kind in ("record", "error"):
        done.add(schema["name"])
    return False


def _parts_of(schema: Mapping[str, Any]) -> list[Any]:
    """The types within a type."""
    kind = schema["type"]
    if kind in ("record", "error"):
        return [field["type"] for field in schema["fields"]]
    if kind in ("array", "map"):
        return [schema["items" if kind == "array" else "values"]]
    return [] if kind in ("enum", "fixed") else [kind]


def _is_too_deep(schema: Any, named_schemas: Mapping[str, Any], value: Any, limit: int) -> bool:
    #: Values by the identities of value and type: those that contain the present one, and those that were
    #: checked. They are kept alive here, because a later object may get the identity of one that is gone.
    around: dict[tuple[int, int], Any] = {}
    done: dict[tuple[int, int], Any] = {}
    #: What is still to be checked, the next one last. ``None`` as type: the last of ``around`` is done.
    waiting: list[tuple[Any, Any]] = [(schema, value)]
    while waiting:
        schema, value = waiting.pop()
        if schema is None:
            place, value = around.popitem()
            done[place] = value
            continue
        if isinstance(schema, str):
            schema = named_schemas.get(schema)
        if isinstance(schema, list):
            if isinstance(value, tuple) and len(value) == 2:  # the pair of a branch's name and its value
                value = value[1]
            elif not isinstance(value, (Mapping, Sequence)):
                continue  # it cannot contain other values
            waiting += [(branch, value) for branch in schema]
        elif isinstance(schema, dict):
            within = _values_within(schema, value)
            place = id(value), id(schema)
            if not within or place in done:
                continue
            if place in around or len(around) >= limit:
                return True
            around[place] = value
            waiting.append((None, None))
            waiting += within
    return False


def _values_within(schema: Mapping[str, Any], value: Any) -> list[tuple[Any, Any]]:
    """The types and values of which a value consists. As in fastavro, what the value can do decides."""
    kind = schema["type"]
    if kind in ("record", "error"):
        if hasattr(value, "get"):
            return [
                (field["type"], value.get(field["name"], field.get("default"))) for field in schema["fields"]
            ]
    elif kind == "map":
        if hasattr(value, "items"):
            return [(schema["values"], each) for _, each in value.items()]
    elif kind == "array":
        if hasattr(value, "__len__") and not isinstance(value, (str, bytes, bytearray)):
            return [(schema["items"], each) for each in value]
    elif kind not in ("enum", "fixed"):
        return [(kind, value)]
    return []

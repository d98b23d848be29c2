"""The encoding of a field's default, for columns that the data do not have.

Source: Avro specification 1.12, "Complex Types" (defaults in JSON) and "Binary Encoding".
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

#: From a schema to the one that its name refers to.
Resolve = Callable[[Any], Any]


def varint(number: int) -> bytes:
    """The zigzag varint of a number of 64 bits."""
    rest = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def encoded_default(schema: Any, value: Any, resolve: Resolve) -> bytes:
    """The binary encoding of a default.

    Args:
        schema: of the field.
        value: the default, as JSON has it.
        resolve: finds named types.

    Raises:
        ValueError, TypeError, KeyError, AttributeError, struct.error: the default is not one of this type.
    """
    schema = resolve(schema)
    if isinstance(schema, list):
        # A default is of the first branch.
        return varint(0) + encoded_default(schema[0], value, resolve)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "null":
        return b""
    if kind == "boolean":
        return b"\x01" if value else b"\x00"
    if kind in ("int", "long"):
        return varint(value)
    if kind in ("float", "double"):
        return struct.pack("<f" if kind == "float" else "<d", value)
    if kind == "enum":
        return varint(schema["symbols"].index(value))
    if kind == "fixed":
        return bytes(value.encode("latin-1"))
    if kind in ("bytes", "string"):
        data: bytes = value.encode("latin-1" if kind == "bytes" else "utf-8")
        return varint(len(data)) + data
    if kind == "array":
        items = [encoded_default(schema["items"], each, resolve) for each in value]
    elif kind == "map":
        items = [
            encoded_default("string", name, resolve) + encoded_default(schema["values"], each, resolve)
            for name, each in value.items()
        ]
    else:
        return b"".join(
            encoded_default(field["type"], value.get(field["name"], field.get("default")), resolve)
            for field in schema["fields"]
        )
    return b"".join((varint(len(items)), *items, b"\x00" if items else b""))

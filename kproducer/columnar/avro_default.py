"""The encoding of a field's default, for columns that the data do not have.

Source: Avro specification 1.12, "Complex Types" (defaults in JSON) and "Binary Encoding".
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from kproducer._core.kernel.varint import encode_varlong

#: Returns the schema to which a name refers.
Resolve = Callable[[Any], Any]


def encoded_default(schema: Any, value: Any, resolve: Resolve) -> bytes:
    """The binary encoding of a default.

    Args:
        schema: of the field.
        value: the default, as JSON has it. In a union it is of the first branch that it fits: before Avro
            1.12 that had to be the first one.
        resolve: finds named types.

    Raises:
        ValueError: the default is not one of this type.
        OverflowError: a number is too large for a ``float``.
    """
    schema = resolve(schema)
    if isinstance(schema, list):
        for number, branch in enumerate(schema):
            try:
                return encode_varlong(number) + encoded_default(branch, value, resolve)
            except (ValueError, OverflowError):
                continue
        raise ValueError("it fits none of the types of the union")
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind in _BITS and type(value) is int and -1 << _BITS[kind] <= value < 1 << _BITS[kind]:
        return encode_varlong(value)
    if kind in _PLAIN and isinstance(value, _PLAIN[kind][0]) and type(value) is not bool:
        return _PLAIN[kind][1](value)
    if kind == "null" and value is None:
        return b""
    if kind == "boolean" and type(value) is bool:
        return b"\x01" if value else b"\x00"
    if kind == "enum" and value in schema["symbols"]:
        return encode_varlong(schema["symbols"].index(value))
    if kind == "fixed" and isinstance(value, str) and len(value) == schema["size"]:
        return value.encode("latin-1")
    if kind == "array" and isinstance(value, list):
        return _blocks([encoded_default(schema["items"], each, resolve) for each in value])
    if kind == "map" and isinstance(value, dict):
        return _blocks(
            [
                encoded_default("string", name, resolve) + encoded_default(schema["values"], each, resolve)
                for name, each in value.items()
            ]
        )
    if kind in ("record", "error") and isinstance(value, dict):
        return b"".join(_field_default(field, value, resolve) for field in schema["fields"])
    raise ValueError(f"{value!r:.100} is not one of type {kind}")


def _field_default(field: Any, values: Mapping[str, Any], resolve: Resolve) -> bytes:
    if field["name"] not in values and "default" not in field:
        raise ValueError(f"it has no field {field['name']!r}")
    return encoded_default(field["type"], values.get(field["name"], field.get("default")), resolve)


def _sized(data: bytes) -> bytes:
    return encode_varlong(len(data)) + data


def _blocks(items: list[bytes]) -> bytes:
    """One block with all items, and the end."""
    return b"".join((encode_varlong(len(items)), *items, b"\x00" if items else b""))


#: Bits of a number beside its sign.
_BITS: Final = {"int": 31, "long": 63}
#: By type: the types that JSON has for it, and the function that encodes it. In JSON, the bytes of a text are
#: the numbers of its characters.
_PLAIN: Final[dict[str, tuple[Any, Callable[[Any], bytes]]]] = {
    "float": ((int, float), struct.Struct("<f").pack),
    "double": ((int, float), struct.Struct("<d").pack),
    "bytes": (str, lambda text: _sized(text.encode("latin-1"))),
    "string": (str, lambda text: _sized(text.encode())),
}

"""Reads the fields of a registry's answers. Nothing from outside is used before its type is checked here.

Source: Confluent Schema Registry API reference; ids and versions are ``int32`` there and in its wire format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from kproducer.errors import printable

MOST_INT32 = (1 << 31) - 1
_LONGEST_SHOWN = 500
_GUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class InvalidAnswerError(ValueError):
    """An answer is not what a schema registry sends. Its text names the field, and quotes nothing."""


def parsed(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: it is not JSON, or is nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def shown(text: str) -> str:
    """A text from outside for an error: escaped and shortened."""
    return printable(text[:_LONGEST_SHOWN]) + ("..." if len(text) > _LONGEST_SHOWN else "")


def mapping(value: object, what: str = "the answer") -> Mapping[str, Any]:
    """Check that a value is a JSON object."""
    if not isinstance(value, dict):
        raise _unexpected(what, "an object", value)
    return value


def array(value: object, what: str = "the answer") -> list[Any]:
    """Check that a value is a JSON array."""
    if not isinstance(value, list):
        raise _unexpected(what, "an array", value)
    return value


def text(value: object, what: str) -> str:
    """Check that a value is a text that can be sent and written, and is not empty."""
    if not isinstance(value, str) or not value:
        raise _unexpected(what, "a text that is not empty", value)
    try:
        value.encode()
    except UnicodeEncodeError:  # JSON can escape one half of a character
        raise InvalidAnswerError(f"{what} is not valid Unicode") from None
    return value


def number(value: object, what: str, least: int) -> int:
    """Check that a value is a whole number of 32 bits."""
    if type(value) is not int or not least <= value <= MOST_INT32:
        raise _unexpected(what, f"a whole number from {least} to {MOST_INT32}", value)
    return value


def flag(value: object, what: str) -> bool:
    """Check that a value is true or false."""
    if not isinstance(value, bool):
        raise _unexpected(what, "true or false", value)
    return value


def guid(value: object) -> str:
    """Check that a value is a GUID."""
    if not isinstance(value, str) or not _GUID.fullmatch(value):
        raise _unexpected("guid", "a GUID", value)
    return value


def _unexpected(what: str, expected: str, value: object) -> InvalidAnswerError:
    found = {dict: "an object", list: "an array", str: "a text", type(None): "nothing"}.get(type(value))
    if type(value) is int:
        found = str(value) if abs(value) < 1 << 64 else "a very long number"
    return InvalidAnswerError(f"{what}: expected {expected}, got {found or repr(value)}")

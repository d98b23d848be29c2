"""Record headers as ``send`` takes them, turned into what goes into a record.

Knows nothing of records. Source: KIP-82.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kproducer.errors import SerializationError


def encode_headers(topic: str, headers: Any) -> list[tuple[str, bytes | None]]:
    """Check headers and turn their values into bytes.

    Args:
        topic: for the error's text.
        headers: (name, value) pairs or a mapping; values are bytes-like, ``str`` (as UTF-8) or ``None``.

    Returns:
        A new list, in the same order, repeated names included.

    Raises:
        SerializationError: the shape is another, or a name or value cannot be encoded.
    """
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    if not isinstance(pairs, Iterable) or isinstance(pairs, (str, bytes, bytearray)):
        kind = type(headers).__name__
        raise SerializationError(
            f"headers for topic {topic!r} must be (name, value) pairs or a mapping, not {kind}"
        )
    encoded: list[tuple[str, bytes | None]] = []
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise SerializationError(
                f"a header for topic {topic!r} must be a (name, value) pair, not {pair!r}"
            )
        encoded.append(_encode_header(topic, pair[0], pair[1]))
    return encoded


def _encode_header(topic: str, name: Any, value: Any) -> tuple[str, bytes | None]:
    if not isinstance(name, str):
        raise SerializationError(f"a header name for topic {topic!r} must be str, not {type(name).__name__}")
    try:
        name.encode()
        if value is None or value.__class__ is bytes:
            return name, value
        if isinstance(value, str):
            return name, value.encode()
    except UnicodeEncodeError as error:
        raise SerializationError(
            f"header {name!r} for topic {topic!r} has text that UTF-8 cannot encode: {error}"
        ) from error
    if isinstance(value, (bytes, bytearray, memoryview)):
        return name, bytes(value)
    raise SerializationError(
        f"header {name!r} for topic {topic!r} must be bytes-like, str or None, not {type(value).__name__}"
    )

"""Arguments of the producer's methods, checked: headers, partition, timestamp, timeouts, numbers and texts.

Knows nothing of records. Source: KIP-32 (timestamps), KIP-82 (headers).
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from kproducer.errors import InvalidArgumentError, SerializationError
from kproducer.types import INT64_MAX

#: What ``send`` accepts as headers.
HeadersInput = Mapping[str, "bytes | str | None"] | Iterable[tuple[str, "bytes | str | None"]]

#: Of texts in requests: older versions of the protocol count their bytes with 16 bits.
_LONGEST_TEXT_BYTES = 2**15 - 1

#: A header's two length prefixes; a character of its name takes at most 4 bytes more.
_HEADER_OVERHEAD_BYTES = 10
_LONGEST_CHARACTER_BYTES = 4


#: Half of what the platform can wait: what is left until a deadline may be rounded up to more than was given.
LONGEST_WAIT_S = threading.TIMEOUT_MAX / 2


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
        if pair.__class__ is tuple and len(pair) == 2:
            name, value = pair
            if name.__class__ is str and name.isascii() and (value.__class__ is bytes or value is None):
                encoded.append(pair)
                continue
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise SerializationError(
                f"a header for topic {topic!r} must be a (name, value) pair, not {pair!r}"
            )
        encoded.append(_encode_header(topic, pair[0], pair[1]))
    return encoded


def headers_size_upper_bound(headers: Iterable[tuple[str, bytes | None]]) -> int:
    """More bytes than these headers can take in a record; cheaper than the exact number."""
    size = 0
    for name, value in headers:
        size += _HEADER_OVERHEAD_BYTES + _LONGEST_CHARACTER_BYTES * len(name)
        if value is not None:
            size += len(value)
    return size


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


def checked_partition(partition: Any) -> int | None:
    """A partition number, or ``None`` as it is. Raises InvalidArgumentError."""
    if partition is None:
        return None
    try:
        number = operator.index(partition)
    except TypeError:
        number = -1
    if number < 0 or isinstance(partition, bool):
        raise InvalidArgumentError(f"partition must be a number from 0 on, or None, not {partition!r}")
    return number


def checked_timestamp(timestamp_ms: Any) -> int:
    """Milliseconds since the epoch. Raises InvalidArgumentError."""
    try:
        number = operator.index(timestamp_ms)
    except TypeError:
        number = -1
    if not 0 <= number <= INT64_MAX or isinstance(timestamp_ms, bool):
        raise InvalidArgumentError(
            f"timestamp_ms must be whole milliseconds since the epoch, or None, not {timestamp_ms!r}"
        )
    return number


def checked_timeout_s(call: str, timeout: Any) -> float | None:
    """The ``timeout`` of a call: seconds from 0 to ``LONGEST_WAIT_S``, or ``None``.

    Raises:
        InvalidArgumentError: no number of seconds.
    """
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or timeout != timeout:
        raise InvalidArgumentError(f"{call}: timeout must be a number of seconds, or None, not {timeout!r}")
    return min(max(timeout, 0), LONGEST_WAIT_S)


def checked_number(what: str, value: Any, lowest: int, highest: int) -> int:
    """A whole number within bounds, as an ``int``; ``bool`` is not one.

    Args:
        what: begins the error's text.
        value: the argument; an ``int``, or another type that Python takes for an index.
        lowest, highest: the bounds, both included.

    Raises:
        InvalidArgumentError: not a whole number, or out of bounds.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = lowest - 1
    if not lowest <= number <= highest or isinstance(value, bool):
        raise InvalidArgumentError(f"{what} must be a whole number from {lowest} to {highest}, not {value!r}")
    return number


def checked_text(what: str, value: Any, shortest: int = 0) -> str:
    """A text that fits into a request.

    Args:
        what: begins the error's text.
        value: the argument.
        shortest: the least number of characters.

    Raises:
        InvalidArgumentError: not ``str``, too short or too long, or with characters that UTF-8 cannot encode.
    """
    if not isinstance(value, str) or len(value) < shortest:
        raise InvalidArgumentError(f"{what} must be a str{', not empty' if shortest else ''}, not {value!r}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"{what} has text that UTF-8 cannot encode: {error}") from error
    if size > _LONGEST_TEXT_BYTES:
        raise InvalidArgumentError(
            f"{what} has {size} bytes, the most is {_LONGEST_TEXT_BYTES}: {value[:40]!r}..."
        )
    return value

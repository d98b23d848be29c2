"""Checks of arguments of public methods: headers, partitions, timestamps, timeouts, callbacks, texts, topics.

Source: KIP-32 (timestamps), KIP-82 (headers), Kafka's class ``Topic`` (topic names).
"""

from __future__ import annotations

import functools
import operator
import re
import threading
from collections.abc import Iterable, Mapping
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

from kproducer.errors import InvalidArgumentError, SerializationError
from kproducer.types import INT64_MAX

#: Accepted as headers by ``send``.
HeadersInput = Mapping[str, "bytes | str | None"] | Iterable[tuple[str, "bytes | str | None"]]

#: Longest text in a request: older versions of the protocol have an int16 length.
LONGEST_TEXT_BYTES = 2**15 - 1

#: What a header takes besides its value: two length prefixes, and up to 4 bytes per character of its name.
_HEADER_OVERHEAD_BYTES = 10
_LONGEST_CHARACTER_BYTES = 4

#: Half of the longest wait of the platform, because the time that is left until a deadline may be rounded up.
LONGEST_WAIT_S = threading.TIMEOUT_MAX / 2

#: What callbacks call a parameter for the error, without underscores.
_NAMES_OF_ERRORS = frozenset(("err", "error", "exc", "exception", "kafka_error"))

#: How delivery callbacks are called, for texts of errors.
CALLBACK_SIGNATURE = "on_delivery is called with (metadata, error), where error is None on success"
#: ``inspect.CO_VARARGS``, without importing ``inspect``.
_VARIABLE_ARGUMENTS = 4
#: Since Python 3.14, stands in a ``partial`` for an argument of the call. Before, an object that no
#: ``partial`` has.
_PLACEHOLDER: Any = getattr(functools, "Placeholder", object())

_LONGEST_TOPIC = 249
_TOPIC_PATTERN = re.compile(r"[a-zA-Z0-9._-]*")


def encode_headers(topic: str, headers: Any) -> list[tuple[str, bytes | None]]:
    """Check headers and encode their values.

    Args:
        topic: for the error's text.
        headers: (name, value) pairs or a mapping; values are bytes-like, ``str`` (as UTF-8) or ``None``.

    Returns:
        A new list in the same order, with repeated names.

    Raises:
        SerializationError: the headers have another shape, or a name or value cannot be encoded.
    """
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    if not isinstance(pairs, Iterable) or isinstance(pairs, (str, bytes, bytearray)):
        kind = type(headers).__name__
        hint = "; the partition is the argument after the headers" if isinstance(headers, int) else ""
        raise SerializationError(
            f"headers for topic {topic!r} must be (name, value) pairs or a mapping, not {kind}{hint}"
        )
    encoded: list[tuple[str, bytes | None]] = []
    for pair in pairs:
        if pair.__class__ is tuple and len(pair) == 2:
            name, value = pair
            if name.__class__ is str and name.isascii() and (value.__class__ is bytes or value is None):
                encoded.append(pair)
                continue
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            # The error does not show the header, which may contain a secret.
            found = type(pair).__name__
            if isinstance(pair, (tuple, list)):
                found = f"a {found} of {len(pair)}"
            elif isinstance(pair, (str, bytes)):
                found += "; put the pairs into a list: [(name, value)]"
            raise SerializationError(
                f"a header for topic {topic!r} must be a (name, value) pair, not {found}"
            )
        encoded.append(_encode_header(topic, pair[0], pair[1]))
    return encoded


def headers_size_upper_bound(headers: Iterable[tuple[str, bytes | None]]) -> int:
    """An upper bound of the bytes that headers take in a record; cheaper than the exact number."""
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


def whole_number(value: object, lowest: int, highest: int) -> int | None:
    """``value`` as an ``int``, or ``None`` if it is not a whole number between the bounds, both included.

    Accepts every type that Python accepts as an index, such as numpy's integers, except ``bool``.
    """
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None
    return number if lowest <= number <= highest and not isinstance(value, bool) else None


def checked_partition(partition: Any) -> int | None:
    """A partition number; ``None`` stays ``None``. Raises InvalidArgumentError."""
    if partition is None:
        return None
    # Larger numbers are checked against the topic's partitions.
    number = whole_number(partition, 0, INT64_MAX)
    if number is None:
        raise InvalidArgumentError(f"partition must be a number from 0 on, or None, not {partition!r}")
    return number


def checked_timestamp(timestamp_ms: Any) -> int:
    """Milliseconds since the epoch. Raises InvalidArgumentError."""
    number = whole_number(timestamp_ms, 0, INT64_MAX)
    if number is None:
        hint = ""
        if callable(getattr(timestamp_ms, "timestamp", None)):  # as datetime has
            hint = "; pass int(time.timestamp() * 1000) of a time with a time zone"
        elif isinstance(timestamp_ms, float):
            hint = "; round it with int()"
        raise InvalidArgumentError(
            f"timestamp_ms must be whole milliseconds since the epoch, or None, not {timestamp_ms!r}{hint}"
        )
    return number


def checked_timeout_s(call: str, timeout: Any) -> float | None:
    """The ``timeout`` of a call: ``None``, or seconds, limited to 0 to ``LONGEST_WAIT_S``.

    Raises:
        InvalidArgumentError: not a number of seconds.
    """
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or timeout != timeout:
        raise InvalidArgumentError(f"{call}: timeout must be a number of seconds, or None, not {timeout!r}")
    return min(max(timeout, 0), LONGEST_WAIT_S)


def checked_number(what: str, value: Any, lowest: int, highest: int) -> int:
    """A whole number between two bounds, both included.

    Args:
        what: names the argument in the error's text.
        value: the argument; see ``whole_number``.
        lowest, highest: the bounds.

    Raises:
        InvalidArgumentError: not a whole number, or out of bounds.
    """
    number = whole_number(value, lowest, highest)
    if number is None:
        raise InvalidArgumentError(f"{what} must be a whole number from {lowest} to {highest}, not {value!r}")
    return number


def text_mistake(text: str) -> str | None:
    """The reason why a text does not fit into a request, or ``None``. Not the text, which may be a secret."""
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as error:
        return f"text that UTF-8 cannot encode: {error}"
    if size > LONGEST_TEXT_BYTES:
        return f"{size} bytes of UTF-8, more than the {LONGEST_TEXT_BYTES} that a request can hold"
    return None


def checked_text(what: str, value: Any, shortest: int = 0) -> str:
    """A text that fits into a request.

    Args:
        what: names the argument in the error's text.
        value: the argument.
        shortest: the least number of characters.

    Raises:
        InvalidArgumentError: not ``str``, too short, too long, or not encodable as UTF-8.
    """
    if not isinstance(value, str) or len(value) < shortest:
        raise InvalidArgumentError(f"{what} must be a str{', not empty' if shortest else ''}, not {value!r}")
    mistake = text_mistake(value)
    if mistake is not None:
        raise InvalidArgumentError(f"{what} has {mistake}")
    return value


def topic_mistake(topic: str) -> str | None:
    """The reason why Kafka does not accept this topic name, or ``None`` if it does."""
    if not topic:
        return "a topic name cannot be empty"
    if len(topic) > _LONGEST_TOPIC:
        return f"a topic name has at most {_LONGEST_TOPIC} characters; {topic[:40]!r}... has {len(topic)}"
    if topic in (".", "..") or not _TOPIC_PATTERN.fullmatch(topic):
        allowed = "the allowed characters are letters, digits, '.', '_' and '-'"
        return f"{topic!r} is not a topic name: {allowed}, and a name cannot be '.' or '..'"
    return None


def check_callback(on_delivery: Any) -> None:
    """Refuse what cannot be called with (metadata, error), or has confluent-kafka's order of parameters.

    The latter would take every success for a failure. Reads names and numbers only, in 1 to 2 µs.
    Accepts what is not written in Python, and looks at a wrapper of ``functools.wraps``, not at what it
    wraps, which may get other arguments.

    Raises:
        InvalidArgumentError: it is not callable; it takes fewer or more parameters; or only the first of the
            two has the name of an error.
    """
    if not callable(on_delivery):
        raise InvalidArgumentError(
            f"on_delivery must be a function of (metadata, error), not {type(on_delivery).__name__}"
        )
    function, bound, has_keywords = on_delivery, 0, False
    while isinstance(function, partial):
        if any(each is _PLACEHOLDER for each in function.args):
            return  # with placeholders, counting does not tell which parameters are left
        bound += len(function.args)
        has_keywords = has_keywords or bool(function.keywords)
        function = function.func
    if not isinstance(function, (FunctionType, MethodType, type)):
        function = getattr(function, "__call__", function)  # noqa: B004  # its code
    if isinstance(function, MethodType):
        bound += 1
        function = function.__func__
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return
    names = code.co_varnames[bound : code.co_argcount]
    # Shown without the values that are bound to it, which may be secrets.
    shown = f"{getattr(function, '__qualname__', function.__class__.__name__)}()"
    if _are_swapped(names):
        raise InvalidArgumentError(
            f"{CALLBACK_SIGNATURE}, and the parameters of {shown} are named ({names[0]}, {names[1]}), in the"
            " order of confluent-kafka: swap them"
        )
    if isinstance(function, FunctionType) and not has_keywords and not _takes_two(function, code, names):
        raise InvalidArgumentError(
            f"on_delivery: {shown} takes other parameters: {CALLBACK_SIGNATURE}; define it as"
            " 'def on_delivery(metadata, error)'"
        )


def _are_swapped(names: tuple[str, ...]) -> bool:
    return (
        len(names) >= 2
        and names[0].strip("_") in _NAMES_OF_ERRORS
        and names[1].strip("_") not in _NAMES_OF_ERRORS
    )


def _takes_two(function: FunctionType, code: CodeType, names: tuple[str, ...]) -> bool:
    """Whether a function, of whose positional parameters ``names`` are not bound yet, takes two arguments."""
    required = len(names) - len(function.__defaults__ or ())
    required_by_name = code.co_kwonlyargcount - len(function.__kwdefaults__ or ())
    takes_any_number = bool(code.co_flags & _VARIABLE_ARGUMENTS)
    return required <= 2 and required_by_name <= 0 and (len(names) >= 2 or takes_any_number)

"""Checks and measures the headers of a record, for both kernels.

Without the tables that the pure kernel encodes with, so that a process with the native kernel does not
import the pure one later: if another thread forked the process meanwhile, that import would never end in
the child.
"""

from __future__ import annotations

from kproducer.types import Headers


def checked_headers(headers: Headers) -> list[tuple[bytes, bytes | None]]:
    """The headers of one record with their names in UTF-8.

    Raises:
        TypeError: not a list or tuple of (str, bytes or None) tuples.
        ValueError: a name cannot be encoded as UTF-8.
    """
    if not isinstance(headers, (list, tuple)):
        raise TypeError(f"headers must be a list or a tuple, not {type(headers).__name__}")
    checked = []
    # Iterates over a copy, because another thread may change the list meanwhile.
    for header in tuple(headers):
        if header.__class__ is not tuple or len(header) != 2:
            raise TypeError(f"a header must be a (name, value) tuple, not {type(header).__name__}")
        name, value = header
        name_bytes = str.encode(name)  # TypeError unless it is a str
        if value is not None and value.__class__ is not bytes:
            raise TypeError(f"the value of a header must be bytes or None, not {type(value).__name__}")
        checked.append((name_bytes, value))
    return checked


def headers_size(headers: Headers) -> int:
    """The number of bytes that the headers of one record take, their count included.

    Raises:
        TypeError, ValueError: as ``checked_headers``.
    """
    checked = checked_headers(headers)
    size = _varint_size(len(checked))
    for name, value in checked:
        size += _varint_size(len(name)) + len(name)
        size += 1 if value is None else _varint_size(len(value)) + len(value)
    return size


def _varint_size(length: int) -> int:
    """The number of bytes of a length as zigzag varint."""
    return ((length << 1 | 1).bit_length() + 6) // 7

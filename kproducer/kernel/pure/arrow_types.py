"""pyarrow's types as format texts, and its columns as lists of what ``send`` takes.

For the pure kernel alone; pyarrow is imported by its caller. Source: the Arrow C data interface.
"""

from __future__ import annotations

from typing import Any

_PLAIN = {
    "null": "n",
    "bool": "b",
    "int8": "c",
    "uint8": "C",
    "int16": "s",
    "uint16": "S",
    "int32": "i",
    "uint32": "I",
    "int64": "l",
    "uint64": "L",
    "halffloat": "e",
    "float": "f",
    "double": "g",
    "string": "u",
    "large_string": "U",
    "string_view": "vu",
    "binary": "z",
    "large_binary": "Z",
    "binary_view": "vz",
    "date32[day]": "tdD",
    "date64[ms]": "tdm",
}
_UNITS = {"s": "s", "ms": "m", "us": "u", "ns": "n"}


def format_of(kind: Any) -> str:
    """The type as text: Arrow's format, children in brackets; ``dictionary(i,u)`` for encoded ones."""
    import pyarrow.types as types

    if isinstance(kind, _extension_type()):
        return format_of(kind.storage_type)
    plain = _PLAIN.get(str(kind))
    if plain is not None:
        return plain
    if types.is_dictionary(kind):
        return f"dictionary({format_of(kind.index_type)},{format_of(kind.value_type)})"
    if types.is_fixed_size_binary(kind):
        return f"w:{kind.byte_width}"
    if types.is_timestamp(kind):
        return f"ts{_UNITS[kind.unit]}:{kind.tz or ''}"
    children = [f"{kind.field(n).name}:{format_of(kind.field(n).type)}" for n in range(kind.num_fields)]
    inner = f"({','.join(children)})" if children else ""
    for is_kind, text in (
        (types.is_list, "+l"),
        (types.is_large_list, "+L"),
        (types.is_list_view, "+vl"),
        (types.is_large_list_view, "+vL"),
        (types.is_struct, "+s"),
    ):
        if is_kind(kind):
            return text + inner
    if types.is_map(kind):
        return f"+m(entries:+s(key:{format_of(kind.key_type)},value:{format_of(kind.item_type)}))"
    return str(kind)


def _extension_type() -> Any:
    import pyarrow as pa

    return pa.BaseExtensionType


def bytes_list(column: Any) -> list[bytes | None]:
    """Strings (as UTF-8) or binary values; nulls are ``None``."""
    import pyarrow as pa

    column = _storage(column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string(column.type):
        column = column.cast(pa.binary())
    elif pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    return [value.encode() if isinstance(value, str) else value for value in column.to_pylist()]


def epoch_ms_list(column: Any) -> list[int | None]:
    """Milliseconds since the epoch, rounded down; -1 for what is before it or beyond 64 bits."""
    import pyarrow as pa

    if pa.types.is_floating(column.type):
        return [None if seconds is None else _from_seconds(seconds) for seconds in column.to_pylist()]
    unit = column.type.unit if pa.types.is_timestamp(column.type) else "ms"
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return [None if ticks is None else _from_ticks(ticks, unit) for ticks in column.to_pylist()]


def _from_seconds(seconds: float) -> int:
    if not 0 <= seconds <= 9.2e15:
        return -1
    return int(seconds * 1000.0)


def _from_ticks(ticks: int, unit: str) -> int:
    ms = {"s": ticks * 1000, "ms": ticks, "us": ticks // 1000, "ns": ticks // 1000000}[unit]
    return ms if ticks >= 0 and ms < 2**63 else -1


def header_list(column: Any) -> list[list[tuple[str, bytes | None]] | str | None]:
    """Headers of each row; a text is the reason why the row is refused."""
    return [_headers(column[row]) for row in range(len(column))]


def _headers(cell: Any) -> list[tuple[str, bytes | None]] | str | None:
    try:
        headers = cell.as_py()
    except UnicodeDecodeError:
        return "header name"
    pairs: list[tuple[str, bytes | None]] = []
    for header in headers or ():
        if header is None:
            return "header is null"
        name, value = header.values() if isinstance(header, dict) else header
        if name is None:
            return "header name"
        pairs.append((name, value.encode() if isinstance(value, str) else value))
    return pairs


def _storage(column: Any) -> Any:
    return getattr(column, "storage", column)

"""Makes the fields of records from the columns of a row: of JSON objects, CSV rows and Arrow rows."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

Headers = Sequence[tuple[str, "bytes | None"]]


class RowError(ValueError):
    """No record can be made from a row; says why."""


class Fields(NamedTuple):
    """The fields of one record."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers | None = None
    timestamp_ms: int | None = None


class RowMapping(NamedTuple):
    """Names the columns from which records are made.

    Attributes:
        value: ``None`` takes the whole row as JSON.
        key, headers: ``None`` leaves them out.
        timestamp: ``None`` takes the present time.
        fixed_headers: headers that every record gets if no column has headers.
    """

    value: str | None = None
    key: str | None = None
    headers: str | None = None
    timestamp: str | None = None
    fixed_headers: Headers | None = None

    @property
    def needs_columns(self) -> bool:
        """Whether any column is read."""
        return any((self.value, self.key, self.headers, self.timestamp))

    def fields(self, row: Mapping[str, Any], whole: bytes | None = None) -> Fields:
        """The fields of one row's record.

        Args:
            row: the columns by name.
            whole: the row as JSON, if the input has it in this form.

        Raises:
            RowError: a column is missing or of an unsuitable type.
        """
        try:
            if self.value is not None:
                value = _content(_column(row, self.value))
            else:
                value = _json(row) if whole is None else whole
            return Fields(
                value,
                None if self.key is None else _content(_column(row, self.key)),
                self.fixed_headers if self.headers is None else _headers(_column(row, self.headers)),
                None if self.timestamp is None else _timestamp_ms(_column(row, self.timestamp)),
            )
        except UnicodeEncodeError:
            raise RowError("a text cannot be encoded as UTF-8") from None


def _column(row: Mapping[str, Any], name: str) -> Any:
    if name not in row:
        raise RowError(f"there is no column {name!r}; the columns are {', '.join(map(repr, row))}")
    return row[name]


def _content(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else _json(value)


def _json(value: Any) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
    except UnicodeEncodeError:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        raise RowError(f"the row cannot be written as JSON: {error}") from None
    return text.encode()


def _plain(value: Any) -> Any:
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (Decimal, UUID)):
        return str(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    raise TypeError(f"there is no JSON for the type {type(value).__name__}")


def _headers(value: Any) -> Headers | None:
    """From an object, or from a list of pairs or of objects with ``key`` and ``value``; also as JSON text."""
    if isinstance(value, str):
        try:
            value = json.loads(value) if value else None
        except (ValueError, RecursionError):
            raise RowError("the headers are not JSON") from None
    if value is None:
        return None
    pairs = list(value.items()) if isinstance(value, Mapping) else value
    if not isinstance(pairs, list):
        raise RowError("the headers are neither an object nor a list")
    headers = []
    for pair in pairs:
        if isinstance(pair, Mapping) and {"key", "value"} == set(pair):
            pair = (pair["key"], pair["value"])
        if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not isinstance(pair[0], str):
            raise RowError("a header is not a pair of name and value")
        headers.append((pair[0], _content(pair[1])))
    return headers


def _timestamp_ms(value: Any) -> int | None:
    """From milliseconds since the epoch or a time in ISO 8601, which is UTC unless it says otherwise."""
    if value is None or value == "":
        return None
    try:
        if isinstance(value, str):
            value = int(value) if value.lstrip("-").isdecimal() else datetime.fromisoformat(_offset(value))
        if isinstance(value, datetime):
            moment = value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)
            return (moment - _EPOCH) // timedelta(milliseconds=1)
    except ValueError:
        value = None
    if isinstance(value, bool) or not isinstance(value, int):
        raise RowError("the timestamp is neither a whole number of milliseconds nor a time in ISO 8601")
    return value


def _offset(text: str) -> str:
    # Python 3.10 does not know "Z".
    return text[:-1] + "+00:00" if text.endswith(("Z", "z")) else text

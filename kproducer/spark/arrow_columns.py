"""From Arrow columns to the Python values that ``KafkaProducer.send`` takes: one conversion a column.

A cell is never touched alone: strings become bytes by reinterpreting the column, timestamps become whole
milliseconds by an Arrow kernel, and headers are built from the flattened child arrays. A large RecordBatch is
cut into slices first, so that the Python copies of a slice stay small however large the batch is.
Knows nothing of Spark and of producers. Source: the Arrow columnar format.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kproducer.types import Headers

#: Bytes of a RecordBatch that are Python objects at a time: enough rows to spread the cost of a conversion,
#: little beside the producer's own buffer.
SLICE_BYTES = 4 * 1024 * 1024
#: ... and rows, since objects of empty values cost memory as well.
SLICE_ROWS = 16384


def slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch into pieces of about ``SLICE_BYTES`` (a single row may exceed that). No copies."""
    rows = batch.num_rows
    if rows == 0:
        return
    step = max(1, min(SLICE_ROWS, SLICE_BYTES * rows // max(1, batch.nbytes)))
    for start in range(0, rows, step):
        yield batch.slice(start, step)


def as_bytes(column: pa.Array) -> list[bytes | None]:
    """Strings (as UTF-8) or binary values; nulls are ``None``."""
    kind = column.type
    if pa.types.is_string(kind):
        column = column.cast(pa.binary())
    elif pa.types.is_large_string(kind):
        column = column.cast(pa.large_binary())
    elif not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        column = column.cast(pa.binary())
    values: list[bytes | None] = column.to_pylist()
    return values


def as_topics(column: pa.Array) -> list[str | None]:
    """Topic names; equal names are one object, which hashes once."""
    encoded = column.dictionary_encode()
    names: list[str] = encoded.dictionary.to_pylist()
    return [None if index is None else names[index] for index in encoded.indices.to_pylist()]


def as_integers(column: pa.Array) -> list[int | None]:
    """Whole numbers; nulls are ``None``."""
    values: list[int | None] = column.to_pylist()
    return values


def as_epoch_ms(column: pa.Array) -> list[int | None]:
    """Milliseconds since the epoch, rounded down, of timestamps or of seconds as floating point numbers."""
    kind = column.type
    if pa.types.is_floating(kind):
        column = pc.floor(pc.multiply(column, 1000.0)).cast(pa.int64())
    else:
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            # The count is UTC's already; without a zone no time zone database is looked at.
            column = column.cast(pa.timestamp(kind.unit))
        column = pc.floor_temporal(column, unit="millisecond").cast(pa.timestamp("ms")).cast(pa.int64())
    values: list[int | None] = column.to_pylist()
    return values


def as_headers(column: pa.Array) -> list[Headers | None]:
    """Lists of (name, value) from array<struct<key, value>>; null or empty lists are ``None``.

    Raises:
        ValueError: a header without a name.
    """
    structs = column.flatten()
    if len(structs) == 0:
        return [None] * len(column)
    if structs.null_count:
        raise ValueError("a header is null: Kafka's headers need a name")
    # flatten() and not field(): only the former takes the offset of a sliced array into account.
    name_column, value_column = structs.flatten()
    if name_column.null_count:
        raise ValueError("a header has a null key: Kafka's headers need a name")
    pairs = list(zip(name_column.to_pylist(), as_bytes(value_column), strict=True))
    lengths = pc.list_value_length(column).to_pylist()
    result: list[Headers | None] = []
    start = 0
    for length in lengths:
        if not length:
            result.append(None)
            continue
        result.append(pairs[start : start + length])
        start += length
    return result


def content_bytes(column: pa.Array | None) -> int:
    """Sum of the lengths of strings (in UTF-8) or binary values."""
    if column is None:
        return 0
    total: Any = pc.sum(pc.binary_length(column)).as_py()
    return int(total or 0)


def nothing(rows: int) -> Iterator[None]:
    """A column that is not there."""
    return repeat(None, rows)

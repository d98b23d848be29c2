"""RowChecksum: what the rows of Arrow chunks say, as one number, whatever their order and their chunks.

The sum, modulo 2**64, of a hash of each row. Two writes of the same rows have the same sum, whatever types
hold them (string or binary, view, dictionary) and however they were cut; of other rows, another one, but for
one chance in 2**64. Not for keeping secrets: whoever wants to can make two sets of rows with one sum.

A row's hash is a chain over topic, partition, timestamp, key, value, and the number, names and values of its
headers. Each link multiplies two 64-bit numbers and puts the upper half of the product over the lower one
(as wyhash does). Bytes go in behind their length plus one (null: 0), 16 at a time, as two little-endian
words; the last 16 may overlap those before them; fewer than 16 overlap themselves. So nothing runs together.
Where a column or its cell says nothing, what holds for all rows counts. What cannot be written (a null topic,
a timestamp before 1970, a header without a name) counts the same for all such rows: no write has any.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from kproducer.kernel.arrow_columns import BLOCK_ROWS, HASH_SECRETS
from kproducer.kernel.pure.arrow import ArrowSource, check_columns
from kproducer.kernel.pure.arrow_types import bytes_list, epoch_ms_list, header_list

_MASK: Final = 2**64 - 1
_VALUE, _KEY, _HEADERS, _PARTITION, _TIMESTAMP, _TOPIC = range(6)
_LENGTH, _WORDS, _NUMBER, _ROW, _UNWRITABLE = HASH_SECRETS


def _fold(first: int, second: int) -> int:
    product = first * second
    return (product & _MASK) ^ (product >> 64)


def _add_number(state: int, number: int) -> int:
    return _fold(state ^ _NUMBER, (number & _MASK) ^ _LENGTH)


def _add_bytes(state: int, data: bytes | None) -> int:
    if data is None:
        return _fold(state ^ _LENGTH, _NUMBER)
    state = _fold(state ^ _LENGTH, (len(data) + 1) ^ _NUMBER)
    for first, second in _pairs(data):
        state = _fold(first ^ _WORDS, second ^ state)
    return state


def _pairs(data: bytes) -> list[tuple[int, int]]:
    """The words of ``data``, two by two."""
    size = len(data)
    if size == 0:
        return []
    if size < 4:
        return [(data[0] | data[size >> 1] << 8 | data[-1] << 16, 0)]
    if size < 8:
        return [struct.unpack("<II", data[:4] + data[-4:])]
    if size < 16:
        return [struct.unpack("<QQ", data[:8] + data[-8:])]
    whole = (size - 1) // 16 * 16
    return list(struct.iter_unpack("<QQ", data[:whole] + data[-16:]))


class RowChecksum:
    """For one thread.

    Args:
        topic: of rows without a column that says theirs.
        partition, timestamp_ms: of rows without one; -1: none.

    Attributes:
        rows: how many were added.
        value: the sum of their hashes, modulo 2**64.
    """

    __slots__ = ("_partition", "_timestamp_ms", "_topic", "rows", "value")

    def __init__(self, topic: str | None, partition: int, timestamp_ms: int) -> None:
        self._topic = None if topic is None else topic.encode()
        self._partition = partition
        self._timestamp_ms = timestamp_ms
        self.rows = 0
        self.value = 0

    def add_chunk(self, source: ArrowSource, columns: tuple[int, int, int, int, int, int]) -> None:
        """Add the rows of the source's chunk at hand.

        Args:
            columns: numbers of value, key, headers, partition, timestamp and topic; -1: there is none.

        Raises:
            ValueError: there is no such column, or no value column.
            InvalidArgumentError: the chunk contradicts itself or the schema; nothing was added.
        """
        check_columns(columns, source)
        total = 0
        for first in range(0, source.chunk_rows, BLOCK_ROWS):
            total += self._sum(source, columns, first, min(BLOCK_ROWS, source.chunk_rows - first))
        self.value = (self.value + total) & _MASK
        self.rows += source.chunk_rows

    def _sum(self, source: ArrowSource, columns: tuple[int, ...], first: int, rows: int) -> int:
        def column(role: int, read: Callable[[Any], Sequence[Any]], default: object) -> Sequence[Any]:
            if columns[role] < 0:
                return [default] * rows
            return read(source.column(columns[role], first, rows))

        cells = zip(
            source.null_rows(first, rows),
            column(_TOPIC, bytes_list, self._topic),
            column(_PARTITION, lambda cells: cells.to_pylist(), None),
            column(_TIMESTAMP, epoch_ms_list, None),
            column(_KEY, bytes_list, None),
            column(_VALUE, bytes_list, None),
            column(_HEADERS, header_list, None),
            strict=True,
        )
        has_topics = columns[_TOPIC] >= 0
        return sum(
            _UNWRITABLE if is_null or (has_topics and row[0] is None) else self._hash(*row)
            for is_null, *row in cells
        )

    def _hash(
        self,
        topic: bytes | None,
        partition: int | None,
        timestamp_ms: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]] | str | None,
    ) -> int:
        if (partition is not None and not 0 <= partition < 2**63) or (timestamp_ms or 0) < 0:
            return _UNWRITABLE
        if isinstance(headers, str):
            return _UNWRITABLE
        state = _add_number(_add_bytes(_ROW, topic), self._partition if partition is None else partition)
        state = _add_number(state, self._timestamp_ms if timestamp_ms is None else timestamp_ms)
        state = _add_bytes(_add_bytes(state, key), value)
        state = _add_number(state, len(headers or ()))
        for name, data in headers or ():
            state = _add_bytes(_add_bytes(state, name.encode()), data)
        return state

"""RowChecksum: one number for the contents of the rows of Arrow data, in any order and any chunks.

The sum, modulo 2**64, of a hash of each row. Two writes of the same rows have the same sum, in all
types that can hold them (string or binary, view, dictionary) and in chunks of all sizes; different rows have
different sums, except with a probability of 2**-64. Not for secrets: it is easy to construct two sets of rows
with the same sum.

A row's hash is a chain over topic, partition, timestamp, key, value, and the number, names and values of its
headers. Each link multiplies two 64-bit numbers and combines the halves of the product by exclusive or (as
wyhash does). Bytes are hashed after their length plus one (null: 0), 16 at a time, as two little-endian
words; the last 16 may overlap the previous ones; fewer than 16 overlap themselves. So no two sequences of
fields hash the same bytes. Where a column is missing or its cell is null, the value for all rows counts. Rows
that cannot be sent (a null topic, a timestamp before 1970, a header without a name) all count the same: they
are not among the records of a write.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from kproducer._core.columns.pure.arrow_reader import ArrowSource
from kproducer._core.columns.pure.arrow_rows import (
    BLOCK_ROWS,
    ColumnNumbers,
    Headers,
    RowEncoders,
    check_columns,
    check_has_values,
    read_rows,
)
from kproducer._core.columns.pure.row_encoder import RowEncoder

_MASK: Final = 2**64 - 1
#: Mixed into the hash of lengths, words, numbers and the start of a row, and the hash of a row that cannot be
#: sent. Hexadecimal digits of pi, those groups of 64 bits that are odd numbers.
_LENGTH: Final = 0x243F6A8885A308D3
_WORDS: Final = 0x082EFA98EC4E6C89
_NUMBER: Final = 0x452821E638D01377
_ROW: Final = 0xC0AC29B7C97C50DD
_UNWRITABLE: Final = 0x3F84D5B5B5470917


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
        topic: of all rows, if there is no topic column.
        partition, timestamp_ms: of rows without one; -1: none.

    Attributes:
        rows: number of rows added.
        value: the sum of their hashes, modulo 2**64.
    """

    __slots__ = ("_partition", "_timestamp_ms", "_topic", "rows", "value")

    def __init__(self, topic: str | None, partition: int, timestamp_ms: int) -> None:
        self._topic = None if topic is None else topic.encode()
        self._partition = partition
        self._timestamp_ms = timestamp_ms
        self.rows = 0
        self.value = 0

    def add_chunk(
        self,
        source: ArrowSource,
        columns: ColumnNumbers,
        value: RowEncoder | None = None,
        key: RowEncoder | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """Add the rows of the source's current chunk.

        Args:
            source: the chunk's.
            columns: which columns records are made of.
            value, key, headers: as for ``ArrowRows.encode_columns``.

        Raises:
            ValueError: a column number is out of range, there is no value column, or the chunk contradicts
                itself or the schema; nothing was added.
        """
        check_columns(columns, source)
        encoders = RowEncoders(value, key, headers)
        check_has_values(columns, encoders)
        total = 0
        for first in range(0, source.chunk_rows, BLOCK_ROWS):
            for is_null, topic, *row in read_rows(
                source, columns, first, min(BLOCK_ROWS, source.chunk_rows - first), encoders
            ):
                if (
                    is_null
                    or (columns[5] >= 0 and topic is None)
                    or any(isinstance(each, tuple) for each in row)
                ):
                    total += _UNWRITABLE
                else:
                    total += self._hash(self._topic if columns[5] < 0 else topic, *row)
        self.value = (self.value + total) & _MASK
        self.rows += source.chunk_rows

    def _hash(
        self,
        topic: bytes | None,
        partition: int | None,
        timestamp_ms: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | int | None,
    ) -> int:
        if (partition is not None and not 0 <= partition < 2**63) or (timestamp_ms or 0) < 0:
            return _UNWRITABLE
        if isinstance(headers, int):
            return _UNWRITABLE
        state = _add_number(_add_bytes(_ROW, topic), self._partition if partition is None else partition)
        state = _add_number(state, self._timestamp_ms if timestamp_ms is None else timestamp_ms)
        state = _add_bytes(_add_bytes(state, key), value)
        state = _add_number(state, len(headers or ()))
        for name, data in headers or ():
            state = _add_bytes(_add_bytes(state, name.encode()), data)
        return state

"""ArrowRows in Python: the rows of Arrow data as records, where the compiled ``ArrowRows`` is missing.

It has the interface of its compiled twin and writes no row itself: it hands out each of them, and the caller
sends them one by one. So installations without a compiler have ``send_arrow`` and the Spark sink, and this is
the reference for the compiled one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from kproducer._core.columns.pure.arrow_reader import ArrowSource
from kproducer._core.columns.pure.row_encoder import RowEncoder
from kproducer._core.kernel.pure.batch_v2 import encode_headers
from kproducer.types import INT64_MAX

if TYPE_CHECKING:
    from kproducer._core.kernel.pure.append import TopicSlots

#: Rows that are planned at a time.
BLOCK_ROWS: Final = 4096

# The codes of ``REFUSALS``.
(
    _FINE, _ROW_IS_NULL, _TOPIC_IS_NULL, _TIMESTAMP_WRONG, _TOO_LARGE, _HEADER_IS_NULL, _HEADER_NAME_WRONG,
    _VALUE_DOES_NOT_FIT, _KEY_DOES_NOT_FIT,
) = range(9)  # fmt: skip

_TICKS_PER_SECOND: Final = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}
#: Seconds since the epoch that fit as milliseconds, with room.
_MOST_SECONDS: Final = 9.2e15

#: Column numbers of value, key, headers, partition, timestamp and topic; -1: not given.
ColumnNumbers: TypeAlias = tuple[int, int, int, int, int, int]
Headers: TypeAlias = list[tuple[str, "bytes | None"]]
#: Topic, value, key, headers, partition and timestamp in milliseconds: the arguments of ``send``.
Record: TypeAlias = tuple["bytes | None", "bytes | None", "bytes | None", "Headers | None", "int | None", int]


class RowEncoders(NamedTuple):
    """What makes keys and values of several columns; ``None``: they are a column.

    Attributes:
        value, key: encoders.
        headers: added to those of each row.
    """

    value: RowEncoder | None = None
    key: RowEncoder | None = None
    headers: Sequence[tuple[str, bytes]] = ()


#: For values and keys that are columns, and need no encoder.
NO_ENCODERS: Final = RowEncoders()


def read_rows(
    source: ArrowSource, columns: ColumnNumbers, first: int, count: int, encoders: RowEncoders = NO_ENCODERS
) -> Iterator[tuple[Any, ...]]:
    """Rows of the current chunk as Python values.

    Returns:
        (whether the row itself is null, topic, partition, timestamp, key, value, headers) of each;
        ``None`` where there is no column. Headers that cannot be sent are the code of the refusal; keys
        and values that cannot be made are the numbers of the node and of the reason.
    """

    def read(number: int, convert: Callable[[Any], Sequence[Any]]) -> Sequence[Any]:
        return [None] * count if number < 0 else convert(source.column(number, first, count))

    def made(number: int, encoder: RowEncoder | None) -> Sequence[Any]:
        return read(number, _bytes_list) if encoder is None else encoder.encode_rows(source, first, count)

    value, key, headers, partition, timestamp, topic = columns
    return zip(
        source.null_rows(first, count),
        read(topic, _bytes_list),
        read(partition, lambda cells: cells.to_pylist()),
        read(timestamp, _epoch_ms_list),
        made(key, encoders.key),
        made(value, encoders.value),
        [
            found if isinstance(found, int) else [*(found or ()), *encoders.headers] or None
            for found in read(headers, lambda cells: [_headers(cell) for cell in cells])
        ],
        strict=True,
    )


def check_has_values(columns: ColumnNumbers, encoders: RowEncoders) -> None:
    """Raise ``ValueError`` if there is neither a column of values nor what makes them."""
    if columns[0] < 0 and encoders.value is None:
        raise ValueError("there is no value column")


def _refused_content(is_null: bool, time: int | None, key: Any, value: Any) -> tuple[int, int, Record]:
    """What a block knows of a row whose key or value does not fit."""
    refusal, misfit = (_VALUE_DOES_NOT_FIT, value) if isinstance(value, tuple) else (_KEY_DOES_NOT_FIT, key)
    record = (None, None, None, None, None, 0)
    if is_null:
        return _ROW_IS_NULL, 0, record
    if time is not None and time < 0:
        return _TIMESTAMP_WRONG, 0, record
    return refusal, misfit[0] << 8 | misfit[1], record


def check_columns(columns: ColumnNumbers, source: ArrowSource) -> None:
    """Raise ``ValueError`` if a number is out of range."""
    for number in columns:
        if not -1 <= number < len(source.names):
            raise ValueError(f"there is no column {number}")


class ArrowRows:
    """The rows of a source as records. For one thread; rows are counted from the start of the current chunk.

    Args:
        source: read by the caller, chunk by chunk.
        columns: which columns records are made of.
        content_limit: bytes of key, value and encoded headers that a record may have together.
        hashes_keys: a key chooses the partition; else only partition numbers do.

    Attributes:
        content_bytes: of keys and values of all rows that were planned and not refused.
        unknown_topic: the topic that ended the last plan early, because it was not added yet; else ``None``.
    """

    __slots__ = ("_block", "_columns", "_content_limit", "_encoders", "_first", "_next", "_source",
                 "content_bytes", "unknown_topic")  # fmt: skip

    def __init__(
        self, source: ArrowSource, columns: ColumnNumbers, content_limit: int, hashes_keys: bool
    ) -> None:
        check_columns(columns, source)
        self._encoders = NO_ENCODERS
        self._source = source
        self._columns = columns
        self._content_limit = content_limit
        self._block: list[tuple[int, int, Record]] = []
        self._first = self._next = 0
        self.content_bytes = 0
        self.unknown_topic: bytes | None = None

    def add_topic(self, name: bytes, partition_count: int, slots: TopicSlots | None) -> None:
        """Add a topic, or change its number of partitions. Between two blocks.

        Args:
            name: the first one is the topic of all rows where there is no topic column.
            partition_count: -1: unknown; its rows are handed out.
            slots: the topic's; ``None``: its rows are handed out.
        """

    def encode_columns(
        self, value: RowEncoder | None, key: RowEncoder | None, headers: list[tuple[str, bytes]]
    ) -> None:
        """Make values or keys of several columns. Before the first chunk.

        Args:
            value, key: make them, for nobody else; ``None``: they are a column.
            headers: added to those of each row; at most 63.
        """
        if value is not None and value is key:
            raise ValueError("value and key need encoders of their own")
        self._encoders = RowEncoders(value, key, headers)

    def start_chunk(
        self, first_location: int, batch_results: dict[Any, int], *columns: Any, transaction: Any = None
    ) -> None:
        """Read the source's current chunk, and note where its rows are written.

        Args:
            first_location: where the chunk's first row is in the columns below; they must not be resized
                before ``end_chunk``.
            batch_results: the number of each batch's result; new ones are added. Without ``runs`` and
                ``result_numbers``: how many rows each has got.
            columns: ``runs``, ``result_numbers``, ``indexes``, ``timestamps_ms``, ``key_sizes`` and
                ``value_sizes``; those at the end can be left out.
            runs: gets (first row, number of rows, result number, index of the first record) of rows that
                follow each other in a batch.
            result_numbers, indexes: instead of ``runs``: of each row, the number of its result and its index
                in the batch.
            timestamps_ms, key_sizes, value_sizes: of each row, written or not; ``None``: not wanted.
            transaction: to which the rows belong; ``None``: the producer's present one, if it has any.

        Raises:
            ValueError: the chunk contradicts itself or the schema; or there is nothing to make values of.
        """
        check_has_values(self._columns, self._encoders)

    def end_chunk(self) -> None:
        """Release the chunk and the arguments of ``start_chunk``. Idempotent."""
        self._block = []
        self._next = 0

    def plan(self, first_row: int, timestamp_ms: int, partition: int) -> int:
        """Plan a block of rows: at most ``BLOCK_ROWS``, fewer if there is an unknown topic.

        Args:
            timestamp_ms: of rows without one.
            partition: of rows without one; -1: none.

        Returns:
            The row behind the block.

        Raises:
            ValueError: a cell is outside of the data.
        """
        count = min(BLOCK_ROWS, self._source.chunk_rows - first_row)
        self._block = []
        self._first, self._next = first_row, 0
        for is_null, topic, number, time, key, value, headers in read_rows(
            self._source, self._columns, first_row, count, self._encoders
        ):
            if isinstance(value, tuple) or isinstance(key, tuple):
                self._block.append(_refused_content(is_null, time, key, value))
                continue
            size = len(key or b"") + len(value or b"")
            header_size = len(encode_headers(headers)) if isinstance(headers, list) and headers else 0
            refusal = _FINE
            if is_null:
                refusal = _ROW_IS_NULL
            elif time is not None and time < 0:
                refusal = _TIMESTAMP_WRONG
            elif isinstance(headers, int):
                refusal = headers
            elif size + header_size > self._content_limit:
                refusal = _TOO_LARGE
            elif topic is None and self._columns[5] >= 0:
                refusal = _TOPIC_IS_NULL
            if not refusal:
                self.content_bytes += size
            record = (topic, value, key, headers or None, number, timestamp_ms if time is None else time)
            self._block.append((refusal, size + header_size if refusal == _TOO_LARGE else 0, record))
        return first_row + count

    def append_planned(self) -> int:
        """Write the rows of the block into open batches, as far as possible.

        The rows of one partition keep their order; rows of different partitions, and rows that leave the
        choice to the producer, may pass each other.

        Returns:
            A row that was not written, after which this is called again; -1: the block is done.
            (Here: each row in turn.)
        """
        if self._next >= len(self._block):
            return -1
        self._next += 1
        return self._first + self._next - 1

    def refusal(self, row: int) -> tuple[int, int]:
        """Why a planned row cannot be sent.

        Returns:
            The place in ``REFUSALS`` (0: it can), and a detail: the size of key, value and headers if that is
            too large; if the columns of a key or value do not fit, the number of the plan's node times 256,
            plus the reason.
        """
        return self._block[row - self._first][:2]

    def record(self, row: int) -> Record:
        """A planned row that was not refused; topic and partition are ``None`` where the row has none."""
        return self._block[row - self._first][2]


def _bytes_list(column: Any) -> list[bytes | None]:
    """Strings (as UTF-8) or binary values; nulls are ``None``."""
    import pyarrow as pa

    column = getattr(column, "storage", column)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string(column.type):
        column = column.cast(pa.binary())
    elif pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    return [value.encode() if isinstance(value, str) else value for value in column.to_pylist()]


def _epoch_ms_list(column: Any) -> list[int | None]:
    """Milliseconds since the epoch, rounded down; -1: before it, or more than 64 bits."""
    import pyarrow as pa

    if pa.types.is_floating(column.type):
        return [
            None if seconds is None else int(seconds * 1000.0) if 0 <= seconds <= _MOST_SECONDS else -1
            for seconds in column.to_pylist()
        ]
    ticks_per_second = 1000
    if pa.types.is_timestamp(column.type):
        ticks_per_second = _TICKS_PER_SECOND[column.type.unit]
        column = column.cast(pa.int64())
    times = [None if ticks is None else ticks * 1000 // ticks_per_second for ticks in column.to_pylist()]
    return [time if time is None or 0 <= time <= INT64_MAX else -1 for time in times]


def _headers(cell: Any) -> Headers | int | None:
    """The headers of one row; a number is the code of the refusal."""
    try:
        headers = cell.as_py()
    except UnicodeDecodeError:
        return _HEADER_NAME_WRONG
    pairs: Headers = []
    for header in headers or ():
        if header is None:
            return _HEADER_IS_NULL
        name, value = header.values() if isinstance(header, dict) else header
        if name is None:
            return _HEADER_NAME_WRONG
        pairs.append((name, value.encode() if isinstance(value, str) else value))
    return pairs

"""ArrowSource and ArrowRows: Arrow data as records, with pyarrow and a Python object for each cell.

The reference for the compiled twin, which needs no pyarrow and makes no objects: same blocks, same order of
rows, same refusals. A block of rows is planned at a time: which can be sent, and where to. Then the rows are
taken out by destination, destinations as they come first in the block, rows of one in their order. So rows of
one key or one partition number stay in order; a row that leaves the choice to the producer may pass others.
Knows no policy and no time.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from kproducer.errors import ConfigError, InvalidArgumentError
from kproducer.kernel.arrow_columns import BLOCK_ROWS, REASONS
from kproducer.kernel.pure.arrow_types import bytes_list, epoch_ms_list, format_of, header_list
from kproducer.kernel.pure.batch_v2 import encode_headers
from kproducer.kernel.pure.murmur2 import murmur2

_OVERHEAD = 61 + 36
_VALUE, _KEY, _HEADERS, _PARTITION, _TIMESTAMP, _TOPIC = range(6)

_Headers = list[tuple[str, "bytes | None"]]


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ConfigError(
            "Arrow data need the native kernel, which this installation does not have or use, or else "
            "pyarrow: pip install 'kproducer[arrow]'"
        ) from error
    return pyarrow


class ArrowSource:
    """One table, record batch, array or stream. For one thread.

    Args:
        data: has ``__arrow_c_array__`` or ``__arrow_c_stream__``.

    Attributes:
        names, formats: of the columns; formats as the C data interface writes them, children in brackets.
            What is no struct is one column without a name.
        chunk_rows: rows of the chunk at hand.

    Raises:
        InvalidArgumentError: it has neither, or what it exports is not valid.
        ConfigError: pyarrow is not installed.
    """

    __slots__ = ("_chunks", "_is_struct", "chunk", "chunk_rows", "formats", "names")

    def __init__(self, data: object) -> None:
        pa = _pyarrow()
        self.chunk: Any = None
        self.chunk_rows = 0
        try:
            kind = self._open(pa, data)
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise InvalidArgumentError(f"this is no valid Arrow data: {error}") from error
        self._is_struct = pa.types.is_struct(kind)
        fields = [kind.field(number) for number in range(kind.num_fields)] if self._is_struct else []
        self.names = tuple(field.name for field in fields) if self._is_struct else ("",)
        self.formats = (
            tuple(format_of(field.type) for field in fields) if self._is_struct else (format_of(kind),)
        )

    def _open(self, pa: Any, data: object) -> Any:
        """Set ``_chunks``; return the type of a row."""
        if hasattr(data, "__arrow_c_array__"):
            array = pa.array(data)
            self._chunks = iter([array])
            return array.type
        if not hasattr(data, "__arrow_c_stream__"):
            raise InvalidArgumentError(
                f"{type(data).__name__} has no Arrow interface (__arrow_c_stream__ or __arrow_c_array__)"
            )
        try:
            reader = pa.RecordBatchReader.from_stream(data)
        except pa.ArrowInvalid:
            # No rows of columns, or no valid stream at all: then this says so.
            chunked = pa.chunked_array(data)
            self._chunks = iter(chunked.chunks)
            return chunked.type
        self._chunks = (batch.to_struct_array() for batch in reader)
        return pa.struct(list(reader.schema))

    def close(self) -> None:
        """Release everything; there are no more chunks. Idempotent."""
        self._chunks = iter(())
        self.chunk = None
        self.chunk_rows = 0

    def next_chunk(self) -> int:
        """Release the chunk at hand and go to the next one.

        Returns:
            The number of its rows; -1: there is none.

        Raises:
            InvalidArgumentError: the source failed, in its own words.
        """
        self.chunk = None
        self.chunk_rows = 0
        try:
            self.chunk = next(self._chunks, None)
        except Exception as error:  # whatever a generator behind a stream raises
            raise InvalidArgumentError(f"the Arrow stream failed: {error}") from error
        if self.chunk is None:
            return -1
        self.chunk_rows = len(self.chunk)
        return self.chunk_rows

    def column(self, number: int, first: int, rows: int) -> Any:
        """Rows of one column of the chunk at hand."""
        block = self.chunk.slice(first, rows)
        # flatten() and not field(): only the former takes a struct's own offset and nulls into account.
        return block.flatten()[number] if self._is_struct else block

    def null_rows(self, first: int, rows: int) -> list[bool]:
        """Which rows of a struct are null themselves."""
        if not self._is_struct:
            return [False] * rows
        nulls: list[bool] = self.chunk.slice(first, rows).is_null().to_pylist()
        return nulls


def check_columns(columns: tuple[int, ...], source: ArrowSource) -> None:
    """Raise ``ValueError`` where a number is no column's, or there is no value column."""
    for number in columns:
        if not -1 <= number < len(source.names):
            raise ValueError(f"there is no column {number}")
    if columns[_VALUE] < 0:
        raise ValueError("there is no value column")


class ArrowRows:
    """The rows of a source as records. For one thread; rows are counted from the start of the chunk at hand.

    Args:
        source: read by the caller, chunk by chunk.
        columns: numbers of the columns value, key, headers, partition, timestamp, topic; -1: there is none.
        size_limit: bytes that a record may take, as ``record_size_upper_bound`` counts.
        hashes_keys: a key chooses the partition; else only partition numbers do.

    Attributes:
        content_bytes: keys and values of all rows that were planned and not refused.
        refusals: (row, reason, topic number, detail) of the block planned last; the number is -1 where the
            topic was not looked at, the detail is the partition or the size that is wrong.
        unknown_topic: the name that ended the last plan early, else ``None``.
        owner_counts: rows by owner, for those that are not kept in places.
    """

    __slots__ = (
        "_columns", "_first", "_hashes_keys", "_next", "_order", "_places", "_places_start", "_records",
        "_size_limit", "_source", "_targets", "_topics", "content_bytes", "owner_counts", "refusals",
        "unknown_topic",
    )  # fmt: skip

    def __init__(
        self,
        source: ArrowSource,
        columns: tuple[int, int, int, int, int, int],
        size_limit: int,
        hashes_keys: bool,
    ) -> None:
        check_columns(columns, source)
        self._source = source
        self._columns = columns
        self._size_limit = size_limit
        self._hashes_keys = hashes_keys
        #: Name to number and partition count, in the order of their numbers.
        self._topics: dict[str, tuple[int, int]] = {}
        self._first = 0
        self._records: list[tuple[int, bytes | None, bytes | None, _Headers | None]] = []
        self._targets: list[tuple[int, int]] = []
        self._order: list[int] = []
        self._next = 0
        self._places: Any = None
        self._places_start = 0
        self.content_bytes = 0
        self.refusals: list[tuple[int, str, int, int]] = []
        self.unknown_topic: str | None = None
        self.owner_counts: dict[object, int] = {}

    def add_topic(self, name: str, partition_count: int, lanes: object) -> int:
        """Make a topic known, or its new number of partitions. Between two blocks.

        Args:
            name: the only one where there is no topic column.
            partition_count: -1: its rows are refused.
            lanes: its ``TopicSlots``; ``None``: each of its records is handed out.

        Returns:
            Its number, from 0 on.
        """
        number = self._topics.get(name, (len(self._topics), 0))[0]
        self._topics[name] = (number, partition_count)
        return number

    def start_chunk(self, places: object = None, first_place: int = 0) -> None:
        """Read the source's chunk at hand.

        Args:
            places: an ``ArrowPlaces`` with a row for each of the chunk's; not to grow before ``end_chunk``.
            first_place: that of the chunk's first row.

        Raises:
            InvalidArgumentError: the chunk contradicts itself or the schema.
        """
        self._places = places
        self._places_start = first_place
        self._records = []

    def end_chunk(self) -> None:
        """Let go of the chunk and the places. Idempotent."""
        self._places = None
        self._records = []
        self._order = []

    def plan(self, first_row: int, timestamp_ms: int, partition: int) -> int:
        """Plan a block of rows: at most ``BLOCK_ROWS``, fewer where a topic comes that is not known.

        Args:
            timestamp_ms: of rows without one.
            partition: of rows without one; -1: none.

        Returns:
            The row behind the block.

        Raises:
            InvalidArgumentError: cells lead outside of the data.
        """
        rows = min(BLOCK_ROWS, self._source.chunk_rows - first_row)
        self._first = first_row
        self.unknown_topic = None
        statuses = self._read(rows, timestamp_ms)
        partitions = self._numbers(_PARTITION, rows)
        topics = self._topic_names(rows)
        self._targets = []
        self._order = []
        self._next = 0
        by_target: dict[tuple[int, int], list[int]] = {}
        self.refusals = []
        for row in range(rows):
            reason, detail = statuses[row]
            number, count = next(iter(self._topics.values()), (0, 0))
            if not reason and topics is not None:
                name = topics[row]
                if name is None:
                    reason = "topic is null"
                elif name not in self._topics:
                    self.unknown_topic = name
                    rows = row
                    break
                else:
                    number, count = self._topics[name]
            if not reason and count < 0:
                reason = "topic failed"
            target = -1
            if not reason:
                wanted = partitions[row]
                target = partition if wanted is None else wanted
                if wanted is None and target < 0:
                    target = self._choose(row, count)
                elif not 0 <= target < count:
                    reason, detail = "partition", -1 if wanted is None else wanted
            self._targets.append((number, target))
            if reason:
                told = number if reason in ("topic failed", "partition") or topics is None else -1
                self.refusals.append((first_row + row, reason, told, detail))
                continue
            by_target.setdefault((number, target), []).append(row)
            self._count(row)
        del self._records[rows:]
        self._note_sizes(rows)
        self._order = [row for those in by_target.values() for row in those]
        return first_row + rows

    def _choose(self, row: int, count: int) -> int:
        if not self._hashes_keys:
            return -1
        if count == 1:
            # So that all rows of such a topic stay in order.
            return 0
        key = self._records[row][1]
        if key is None:
            return -1
        return (murmur2(key) & 0x7FFFFFFF) % count

    def _read(self, rows: int, default_timestamp_ms: int) -> list[tuple[str, int]]:
        """Set ``_records``; return why rows cannot be sent, so far: (reason or nothing, detail)."""
        values = bytes_list(self._column(_VALUE, rows))
        keys = [None] * rows if self._columns[_KEY] < 0 else bytes_list(self._column(_KEY, rows))
        times: Sequence[int | None] = [None] * rows
        if self._columns[_TIMESTAMP] >= 0:
            times = epoch_ms_list(self._column(_TIMESTAMP, rows))
        headers: Sequence[_Headers | str | None] = [None] * rows
        if self._columns[_HEADERS] >= 0:
            headers = header_list(self._column(_HEADERS, rows))
        nulls = self._source.null_rows(self._first, rows)
        statuses: list[tuple[str, int]] = []
        self._records = []
        for value, key, time, pairs, is_null in zip(values, keys, times, headers, nulls, strict=True):
            reason, detail = "", -1
            if time is not None and time < 0:
                reason = "timestamp"
            elif isinstance(pairs, str):
                reason = pairs
            else:
                size = _OVERHEAD + (len(encode_headers(pairs)) if pairs else 0)
                size += len(value or b"") + len(key or b"")
                if size > self._size_limit:
                    reason, detail = "size", size
            if is_null:
                reason, detail = "row is null", -1
            assert reason in REASONS
            statuses.append((reason, detail))
            timestamp_ms = default_timestamp_ms if time is None else time
            self._records.append(
                (timestamp_ms, key, value, None if isinstance(pairs, str) else pairs or None)
            )
        return statuses

    def _column(self, role: int, rows: int) -> Any:
        return self._source.column(self._columns[role], self._first, rows)

    def _numbers(self, role: int, rows: int) -> Sequence[int | None]:
        if self._columns[role] < 0:
            return [None] * rows
        numbers: list[int | None] = self._column(role, rows).to_pylist()
        return numbers

    def _topic_names(self, rows: int) -> list[str | None] | None:
        if self._columns[_TOPIC] < 0:
            return None
        names = bytes_list(self._column(_TOPIC, rows))
        return [None if name is None else name.decode("utf-8", "replace") for name in names]

    def _count(self, row: int) -> None:
        _, key, value, _ = self._records[row]
        self.content_bytes += len(key or b"") + len(value or b"")

    def _note_sizes(self, rows: int) -> None:
        places = self._places
        if places is None:
            return
        place = self._places_start + self._first
        for timestamp_ms, key, value, _ in islice(self._records, rows):
            if places.timestamps_ms is not None:
                places.timestamps_ms[place] = timestamp_ms
            if places.key_sizes is not None:
                places.key_sizes[place] = -1 if key is None else len(key)
            places.value_sizes[place] = -1 if value is None else len(value)
            place += 1

    def append_planned(self, snapshot: object) -> int:
        """Write the rows of the block into open batches, as far as that goes.

        Args:
            snapshot: what is known of the cluster; the topics are in it.

        Returns:
            A row that has to be sent the usual way, after which this is called again; -1: the block is done.
            (Here: each row in turn.)
        """
        if self._next >= len(self._order):
            return -1
        self._next += 1
        return self._first + self._order[self._next - 1]

    def destination(self, row: int) -> tuple[int, int]:
        """The topic's number and the partition of a planned row; -1: the producer chooses the partition."""
        return self._targets[self._planned(row)]

    def record(self, row: int) -> tuple[int, bytes | None, bytes | None, _Headers | None]:
        """Timestamp, key, value and headers of a planned row that was not refused."""
        return self._records[self._planned(row)]

    def _planned(self, row: int) -> int:
        if not self._first <= row < self._first + len(self._records):
            raise IndexError(row)
        return row - self._first

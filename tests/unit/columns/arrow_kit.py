"""Arrow data of every accepted type for tests, and a stand-in for the batches that rows go into."""

from __future__ import annotations

import importlib
import itertools
import threading
from array import array
from types import ModuleType
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

BUFFER_BYTES = 700
DEFAULT_MS = 1_700_000_000_000

TEXT_TYPES = [pa.string(), pa.large_string(), pa.string_view()]
BINARY_TYPES = [pa.binary(), pa.large_binary(), pa.binary_view()]
INDEX_TYPES = [
    pa.int8(),
    pa.uint8(),
    pa.int16(),
    pa.uint16(),
    pa.int32(),
    pa.uint32(),
    pa.int64(),
    pa.uint64(),
]
TIME_TYPES = [
    pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "+05:30")
]
HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
LIST_TYPES = [pa.list_(HEADER), pa.large_list(HEADER), pa.list_view(HEADER), pa.large_list_view(HEADER)]

COLUMNS = ("value", "key", "headers", "partition", "timestamp", "topic")

_texts = st.none() | st.text(max_size=5) | st.text(alphabet="ab\u00fc", min_size=11, max_size=30)
_headers = st.none() | st.lists(
    st.tuples(st.text(max_size=15), st.none() | st.binary(max_size=14)), max_size=3
)
_partitions = st.none() | st.integers(-1, 4)
_times = st.none() | st.integers(-2, 2**42)
_topics = st.sampled_from(["t", "t", "t", "u", "lost", None])
_row = st.tuples(_texts, _texts, _headers, _partitions, _times, _topics)


class Rows(NamedTuple):
    """Chunks that are exported, and which of their columns are what."""

    chunks: list[Any]
    columns: tuple[int, int, int, int, int, int]

    @property
    def table(self) -> Any:
        return pa.Table.from_batches(self.chunks)


@st.composite
def rows(draw: st.DrawFn) -> Rows:
    """Some chunks of one schema: slices of longer ones, in any accepted types, some columns left out."""
    size = draw(st.integers(0, 12))
    drawn = draw(st.lists(_row, min_size=size, max_size=size))
    kinds = {
        "value": draw(_byte_types()),
        "key": draw(_byte_types()),
        "headers": draw(st.sampled_from([*LIST_TYPES, pa.map_(pa.string(), pa.binary())])),
        "partition": draw(st.sampled_from(INDEX_TYPES)),
        "timestamp": draw(st.sampled_from([*TIME_TYPES, pa.int64(), pa.uint64(), pa.float64()])),
        "topic": draw(_text_types()),
    }
    present = ["value", *draw(st.lists(st.sampled_from(COLUMNS[1:]), unique=True))]
    order = draw(st.permutations(present))
    values = dict(zip(COLUMNS, zip(*drawn, strict=True), strict=True)) if drawn else {}
    arrays = [column(kinds[name], list(values.get(name, ()))) for name in order]
    whole = pa.RecordBatch.from_arrays(arrays, names=order)
    cuts = sorted(draw(st.lists(st.integers(0, size), min_size=1, max_size=4)))
    chunks = [whole.slice(start, end - start) for start, end in itertools.pairwise(cuts)] or [whole]
    value, key, headers, partition, timestamp, topic = (
        order.index(name) if name in order else -1 for name in COLUMNS
    )
    return Rows(chunks, (value, key, headers, partition, timestamp, topic))


def _byte_types() -> st.SearchStrategy[Any]:
    plain = [*TEXT_TYPES, *BINARY_TYPES]
    encoded = [
        pa.dictionary(index, kind)
        for index in INDEX_TYPES
        for kind in plain
        if kind not in (plain[2], plain[5])
    ]
    return st.sampled_from(plain) | st.sampled_from(encoded) | st.sampled_from([pa.binary(3), pa.null()])


def _text_types() -> st.SearchStrategy[Any]:
    return st.sampled_from([*TEXT_TYPES, pa.dictionary(pa.int8(), pa.string())])


def column(kind: Any, values: list[Any]) -> Any:
    """An array of these values, as far as the type has them."""
    if pa.types.is_null(kind):
        return pa.nulls(len(values))
    if pa.types.is_dictionary(kind):
        plain = column(kind.value_type, values)
        encoded = plain.dictionary_encode()
        return pa.DictionaryArray.from_arrays(encoded.indices.cast(kind.index_type), encoded.dictionary)
    if pa.types.is_fixed_size_binary(kind):
        return pa.array([None if v is None else v.encode()[:3].ljust(3) for v in values], type=kind)
    if kind in BINARY_TYPES:
        return pa.array([None if v is None else v.encode() for v in values], type=kind)
    if pa.types.is_unsigned_integer(kind):
        return pa.array([None if v is None else abs(v) for v in values], type=kind)
    if pa.types.is_timestamp(kind):
        return pa.array(values, type=pa.int64()).cast(pa.timestamp(kind.unit)).cast(kind)
    if pa.types.is_floating(kind):
        return pa.array([None if v is None else v / 1000 for v in values], type=kind)
    if pa.types.is_map(kind):
        return pa.array(values, type=kind)
    if pa.types.is_nested(kind):
        pairs = [None if v is None else [{"key": name, "value": data} for name, data in v] for v in values]
        return pa.array(pairs, type=kind)
    return pa.array(values, type=kind)


class Twin(NamedTuple):
    """One implementation and what it works with."""

    arrow: Any
    source: Any
    writer: Any
    append: Any
    checksum: Any


def twin(name: str) -> Twin:
    """``pure`` or ``native``; ImportError: it was not built."""

    def module(path: str) -> ModuleType:
        return importlib.import_module(f"kproducer._core.{path}")

    prefix = "columns.pure.arrow" if name == "pure" else "columns.native._arrow"
    kernel = module("kernel.pure" if name == "pure" else "kernel.native.twin")
    return Twin(
        module(f"{prefix}_rows").ArrowRows,
        module(f"{prefix}_reader").ArrowSource,
        kernel.BatchWriter,
        None if name == "pure" else kernel,
        module(f"{prefix}_checksum").RowChecksum,
    )


class Locations:
    """The columns of a ``RecordLocations``."""

    def __init__(self, size: int) -> None:
        self.result_numbers = array("i", [-1] * size)
        self.indexes = array("i", [-1] * size)
        self.timestamps_ms = array("q", [-1] * size)
        self.key_sizes = array("i", [-1] * size)
        self.value_sizes = array("i", [-1] * size)
        self.batch_results: dict[Any, int] = {}

    def start_chunk(self, reader: Any) -> None:
        reader.start_chunk(
            0,
            self.batch_results,
            None,
            self.result_numbers,
            self.indexes,
            self.timestamps_ms,
            self.key_sizes,
            self.value_sizes,
        )

    def put(self, row: int, batch_result: Any, index: int, record: tuple[Any, ...]) -> None:
        self.result_numbers[row] = self.batch_results.setdefault(batch_result, len(self.batch_results))
        self.indexes[row] = index
        timestamp_ms, key, value, _ = record
        self.timestamps_ms[row] = timestamp_ms
        self.key_sizes[row] = -1 if key is None else len(key)
        self.value_sizes[row] = -1 if value is None else len(value)

    def rows(self) -> list[Any]:
        """What is noted of each row; ``None`` for rows without a batch."""
        batch_results = list(self.batch_results)
        columns = zip(self.indexes, self.timestamps_ms, self.key_sizes, self.value_sizes, strict=True)
        return [
            None if number < 0 else (batch_results[number], *row)
            for number, row in zip(self.result_numbers, columns, strict=True)
        ]


class Batches:
    """The batches of some partitions, and of the sticky partition behind them: a new one when a record does
    not fit."""

    def __init__(
        self, kind: Twin, partition_count: int, buffer_bytes: int = BUFFER_BYTES, topic: str = "t"
    ) -> None:
        self._kind = kind
        self._buffer_bytes = buffer_bytes
        self._topic = topic
        self.sticky = partition_count
        self.closed: dict[int, list[bytes]] = {number: [] for number in range(partition_count + 1)}
        self._writers: dict[int, Any] = {}
        self.slots: Any = None
        if kind.append is not None:
            self.slots = kind.append.TopicSlots()
            self.slots.slots = [kind.append.AppendSlot(threading.RLock()) for _ in range(partition_count + 1)]
            self.slots.sticky = kind.append.StickyPartition(self.sticky, 2**60, 2**60, 9)

    def append(self, partition: int, record: tuple[Any, ...]) -> tuple[tuple[str, int, int], int]:
        """What the accumulator does: append, or make a batch first. Returns its result and the index."""
        writer = self._writers.get(partition)
        if writer is None or not writer.append(*record):
            if writer is not None:
                self._close(partition)
            writer = self._writers[partition] = self._kind.writer(bytearray(self._buffer_bytes))
            if self.slots is not None:
                appender = self._kind.append.RecordAppender(
                    writer,
                    self._batch_result(partition),
                    self._kind.append.BatchOutcome(("t", partition), tuple),
                    self._kind.append.RecordFuture,
                )
                self.slots.slots[partition].appender = appender
            assert writer.append(*record)
        return self._batch_result(partition), writer.record_count - 1

    def _batch_result(self, partition: int) -> tuple[str, int, int]:
        return self._topic, partition, len(self.closed[partition])

    def _close(self, partition: int) -> None:
        writer = self._writers[partition]
        self.closed[partition].append(bytes(writer.buffer[61 : writer.position]))

    def finish(self) -> dict[int, list[bytes]]:
        for partition in list(self._writers):
            self._close(partition)
        return self.closed


def parts(record: tuple[Any, ...]) -> tuple[Any, ...]:
    """What ``BatchWriter.append`` takes of what ``ArrowRows.record`` returns."""
    _, value, key, headers, _, timestamp_ms = record
    return timestamp_ms, key, value, headers

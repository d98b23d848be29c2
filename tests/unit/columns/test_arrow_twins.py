"""Both Arrow readers find the same records, refuse the same rows, and fill batches with the same bytes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproducer._core.bulk.record_locations import RecordLocations
from kproducer._core.columns.arrow_names import REFUSALS
from kproducer._core.columns.pure.arrow_rows import BLOCK_ROWS
from kproducer._core.kernel import partition_for_key
from tests.unit.columns.arrow_kit import (
    BUFFER_BYTES,
    DEFAULT_MS,
    Batches,
    Locations,
    Rows,
    Twin,
    parts,
    rows,
    twin,
)

PARTITIONS = 3
CONTENT_LIMIT = 43


def drain(
    kind: Twin,
    given: Rows,
    data: list[Any],
    *,
    hashes_keys: bool = True,
    partition: int = -1,
    content_limit: int = CONTENT_LIMIT,
    buffer_bytes: int = BUFFER_BYTES,
) -> Any:
    """Everything that comes out: by topic and partition the batches' bytes, and what is noted of rows.

    Rows that are handed out are appended one by one, as ``send`` does: for the pure twin, that is all of
    them.
    """
    topics: dict[bytes, Batches] = {}
    said: list[Any] = []

    def batches_of(name: bytes) -> Batches:
        if name not in topics:
            topics[name] = Batches(kind, PARTITIONS, buffer_bytes, name.decode())
        return topics[name]

    def send(row: int, reader: Any, locations: Locations) -> tuple[Any, ...] | None:
        code, size = reader.refusal(row)
        if code:
            return row, REFUSALS[code], size
        name, _, key, _, number, _ = record = reader.record(row)
        if name == b"lost":
            return row, "topic failed"
        batches = batches_of(b"t" if name is None else name)
        if number is None and partition >= 0:
            number = partition
        if number is None:
            number = batches.sticky
            if hashes_keys and key is not None:
                number = partition_for_key(key, PARTITIONS)
        elif not 0 <= number < PARTITIONS:
            return row, "partition", number
        locations.put(row, *batches.append(number, parts(record)), parts(record))
        return None

    for part in data:
        source = kind.source(part)
        reader = kind.arrow(source, given.columns, content_limit, hashes_keys)
        if given.columns[5] < 0:
            reader.add_topic(b"t", PARTITIONS, batches_of(b"t").slots)
        said.append((source.names, source.formats))
        while (count := source.next_chunk()) >= 0:
            locations = Locations(count)
            locations.start_chunk(reader)
            refusals: list[Any] = []
            row = 0
            while row < count:
                row = reader.plan(row, DEFAULT_MS, partition)
                while (alone := reader.append_planned()) >= 0:
                    refusals.append(send(alone, reader, locations))
                if (name := reader.unknown_topic) is not None:
                    reader.add_topic(name, -1 if name == b"lost" else PARTITIONS, batches_of(name).slots)
            reader.end_chunk()
            said.append((sorted(refusal for refusal in refusals if refusal), locations.rows()))
        said.append(reader.content_bytes)
        source.close()
    written = {name: batches.finish() for name, batches in topics.items()}
    return {name: batches for name, batches in written.items() if any(batches.values())}, said


@settings(deadline=None, max_examples=300)
@given(
    rows(), st.booleans(), st.integers(-1, PARTITIONS - 1), st.sampled_from(["table", "batches", "structs"])
)
def test_twins_agree_on_any_table(native: Twin, given: Rows, hashes: bool, partition: int, form: str) -> None:
    data: list[Any] = [given.table] if form == "table" else list(given.chunks)
    if form == "structs":
        data = [chunk.to_struct_array() for chunk in given.chunks]
    expected = drain(twin("pure"), given, data, hashes_keys=hashes, partition=partition)
    assert drain(native, given, data, hashes_keys=hashes, partition=partition) == expected


@pytest.mark.parametrize("name", ["pure", "native"])
def test_rows_of_more_than_a_block_lie_in_order_in_their_batches(name: str, native: Twin) -> None:
    kind = twin(name)
    count = 2 * BLOCK_ROWS + 100
    table = pa.table(
        {"value": [b"%06d" % n for n in range(count)], "partition": [n % 3 for n in range(count)]}
    )
    given = Rows(table.to_batches(), (0, -1, -1, 1, -1, -1))
    batches, _ = drain(kind, given, [table])
    for partition in range(PARTITIONS):
        together = b"".join(batches[b"t"][partition])
        numbers = [b"%06d" % n for n in range(partition, count, 3)]
        positions = [together.index(number) for number in numbers[::97]]
        assert positions == sorted(positions)
        assert sum(piece.count(b"\x0c0") for piece in batches[b"t"][partition]) == len(numbers)


def test_twins_agree_on_long_runs(native: Twin) -> None:
    """Those of 1000 bytes are long enough to be written without the interpreter lock."""
    count = BLOCK_ROWS + 1000
    sizes = {"content_limit": 2000, "buffer_bytes": 1 << 20}
    large = pa.table({"value": [b"%04d" % n + b"x" * (n % 1500) for n in range(count)]})
    given = Rows([], (0, -1, -1, -1, -1, -1))
    for partition in (-1, 2):
        expected = drain(twin("pure"), given, [large], partition=partition, **sizes)
        assert drain(native, given, [large], partition=partition, **sizes) == expected
    table = pa.table(
        {
            "value": ["v" * (n % 50) for n in range(count)],
            "key": [None if n % 7 == 0 else f"key-{n % 20}" for n in range(count)],
        }
    )
    given = Rows(table.to_batches(), (0, 1, -1, -1, -1, -1))
    assert drain(native, given, [table]) == drain(twin("pure"), given, [table])


@pytest.mark.parametrize("has_refusals", [False, True])
def test_rows_of_a_batch_are_noted_as_runs_where_they_follow_each_other(
    native: Twin, has_refusals: bool
) -> None:
    count = BLOCK_ROWS + 500
    times = [-1 if has_refusals and n % 100 == 7 else n for n in range(count)]
    batch = pa.RecordBatch.from_pydict({"value": ["v" * (n % 30) for n in range(count)], "time": times})
    runs = RecordLocations("t", has_keys=False, has_runs=True)
    runs.grow(count)
    columns = Locations(count)
    for locations in (runs, columns):
        batches = Batches(native, PARTITIONS)
        source = native.source(batch)
        reader = native.arrow(source, (0, -1, -1, -1, 1, -1), CONTENT_LIMIT, True)
        reader.add_topic(b"t", PARTITIONS, batches.slots)
        source.next_chunk()
        if isinstance(locations, RecordLocations):
            reader.start_chunk(0, locations.batch_results, locations.runs, *locations.kernel_columns())
        else:
            locations.start_chunk(reader)
        row = 0
        while row < count:
            row = reader.plan(row, DEFAULT_MS, -1)
            while (alone := reader.append_planned()) >= 0:
                if reader.refusal(alone)[0]:
                    continue
                record = parts(reader.record(alone))
                batch_result, index = batches.append(batches.sticky, record)
                if isinstance(locations, RecordLocations):
                    assert locations.runs is not None
                    number = locations.number_of(batch_result)  # type: ignore[arg-type]
                    locations.runs.append((alone, 1, number, index))
                else:
                    locations.put(alone, batch_result, index, record)
        reader.end_chunk()
    assert runs.runs is not None
    assert len(runs.runs) < count / 5
    assert list(runs.batch_results) == list(columns.batch_results)
    assert runs.result_numbers == columns.result_numbers
    assert [n for n in runs.value_sizes if n] == [n for n in columns.value_sizes if n]
    wrong = columns.result_numbers.count(-1)
    assert wrong == times.count(-1)
    owned = [row for row in range(count) if columns.result_numbers[row] >= 0]
    assert [runs.indexes[row] for row in owned] == [columns.indexes[row] for row in owned]


@pytest.mark.parametrize("name", ["pure", "native"])
def test_a_struct_that_is_null_is_no_record(name: str, native: Twin) -> None:
    kind = twin(name)
    structs = pa.StructArray.from_arrays(
        [pa.array(["a", "b", "c", "d"])], names=["value"], mask=pa.array([False, True, False, False])
    )[1:]
    given = Rows([structs], (0, -1, -1, -1, -1, -1))
    _, said = drain(kind, given, [structs])
    assert said[1][0] == [(0, "row is null", 0)]


@pytest.mark.parametrize("name", ["pure", "native"])
def test_an_array_that_is_no_struct_is_the_column(name: str, native: Twin) -> None:
    kind = twin(name)
    for data in (pa.array(["a", None, "c"])[1:], pa.chunked_array([["a"], [None, "c"]])):
        source = kind.source(data)
        assert (source.names, source.formats) == (("",), ("u",))
        batches, _ = drain(kind, Rows([], (0, -1, -1, -1, -1, -1)), [data], partition=1)
        assert b"c" in batches[b"t"][1][0]


@pytest.mark.parametrize("name", ["pure", "native"])
@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ([{"key": None, "value": b""}], "header name"),
        ([None], "header is null"),
        ([{"key": "a", "value": b"x" * CONTENT_LIMIT}], "size"),
    ],
)
def test_headers_that_cannot_be_sent_refuse_their_row(
    name: str, header: Any, reason: str, native: Twin
) -> None:
    kind = twin(name)
    kinds = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    table = pa.table({"value": ["a", "b"], "headers": pa.array([header, None], type=kinds)})
    _, said = drain(kind, Rows([], (0, -1, 1, -1, -1, -1)), [table])
    assert [refusal[:2] for refusal in said[1][0]] == [(0, reason)]


@pytest.mark.parametrize("name", ["pure", "native"])
def test_a_header_name_that_is_no_utf8_refuses_its_row(name: str, native: Twin) -> None:
    kind = twin(name)
    for bad in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"a\xe2\x82", b"\x80"):
        texts = pa.array([bad, "\u00fc\u20ac\U0001f600".encode()])
        names = pa.Array.from_buffers(pa.string(), 2, texts.buffers())
        pairs = pa.StructArray.from_arrays([names, pa.array([b"1", b"2"])], names=["key", "value"])
        headers = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pairs)
        batch = pa.RecordBatch.from_arrays([pa.array(["a", "b"]), headers], names=["value", "headers"])
        _, said = drain(kind, Rows([], (0, -1, 1, -1, -1, -1)), [batch])
        assert [refusal[:2] for refusal in said[1][0]] == [(0, "header name")]


@pytest.mark.parametrize("name", ["pure", "native"])
def test_columns_that_are_not_there_are_a_mistake_of_the_program(name: str, native: Twin) -> None:
    kind = twin(name)
    source = kind.source(pa.table({"value": ["a"]}))
    with pytest.raises(ValueError, match="no column 1"):
        kind.arrow(source, (0, 1, -1, -1, -1, -1), 100, True)
    rows = kind.arrow(source, (-1, -1, -1, -1, -1, -1), 100, True)
    source.next_chunk()
    with pytest.raises(ValueError, match="no value column"):
        rows.start_chunk(0, {})


def test_twins_have_the_same_interface(native: Twin) -> None:
    pure = twin("pure")
    for ours, theirs in ((native.arrow, pure.arrow), (native.source, pure.source)):
        names, others = ({n for n in dir(each) if not n.startswith("_")} for each in (ours, theirs))
        # The pure source is read by the pure rows and checksum, the native one through C functions.
        assert names == others - {"column", "null_rows", "raw_columns"}


def test_a_topic_whose_number_of_partitions_changes(native: Twin) -> None:
    keys = [f"key-{n}" for n in range(50)]
    batch = pa.RecordBatch.from_pydict({"value": keys, "key": keys})
    source = native.source(batch)
    reader = native.arrow(source, (0, 1, -1, -1, -1, -1), CONTENT_LIMIT, True)
    count = source.next_chunk()
    for partition_count in (8, 3, 200, 1):
        batches = Batches(native, partition_count)
        for partition in range(partition_count):
            batches.append(partition, (0, None, b"first", None))
        locations = Locations(count)
        locations.start_chunk(reader)
        reader.add_topic(b"t", partition_count, batches.slots)
        assert reader.plan(0, DEFAULT_MS, -1) == count
        while (row := reader.append_planned()) >= 0:
            locations.put(row, *batches.append(partition_of(keys[row], partition_count),
            parts(reader.record(row))),
                          parts(reader.record(row)))  # fmt: skip
        targets = [row[0][1] for row in locations.rows()]
        assert targets == [partition_of(key, partition_count) for key in keys]


def partition_of(key: str, count: int) -> int:
    return partition_for_key(key.encode(), count)

"""Both Arrow readers find the same records, refuse the same rows, and fill batches with the same bytes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproducer.bulk.arrow_places import ArrowPlaces
from kproducer.kernel import murmur2
from kproducer.kernel.arrow_columns import BLOCK_ROWS
from tests.unit.kernel.arrow_kit import BUFFER_BYTES, DEFAULT_MS, Batches, Places, Rows, Twin, rows, twin

PARTITIONS = 3
SIZE_LIMIT = 140


def drain(
    kind: Twin,
    given: Rows,
    data: list[Any],
    *,
    hashes_keys: bool = True,
    partition: int = -1,
    size_limit: int = SIZE_LIMIT,
    buffer_bytes: int = BUFFER_BYTES,
) -> Any:
    """Everything that comes out: per partition the batches' bytes, and what is said of rows."""
    batches = Batches(kind, PARTITIONS, buffer_bytes)
    said: list[Any] = []
    for part in data:
        source = kind.source(part)
        reader = kind.arrow(source, given.columns, size_limit, hashes_keys)
        topics: list[str] = []
        if given.columns[5] < 0:
            reader.add_topic("t", PARTITIONS, batches.lanes)
        said.append((source.names, source.formats))
        while (count := source.next_chunk()) >= 0:
            places = Places(count)
            reader.start_chunk(places, 0)
            row = 0
            while row < count:
                end = reader.plan(row, DEFAULT_MS, partition)
                said.append((row, end, reader.refusals, reader.unknown_topic))
                while (alone := reader.append_planned(None)) >= 0:
                    topic, target = reader.destination(alone)
                    assert topic == 0 or topics[topic] != "lost"
                    owner, index = batches.append(target, reader.record(alone))
                    places.owner_numbers[alone] = places.number_of(owner)
                    places.indexes[alone] = index
                if reader.unknown_topic is not None:
                    topics.append(reader.unknown_topic)
                    count_of = -1 if reader.unknown_topic == "lost" else PARTITIONS
                    assert reader.add_topic(reader.unknown_topic, count_of, batches.lanes) == len(topics) - 1
                row = end
            said.append(
                (
                    [None if n < 0 else places.owners[n] for n in places.owner_numbers],
                    places.indexes,
                    places.timestamps_ms,
                    places.key_sizes,
                    places.value_sizes,
                )
            )
            reader.end_chunk()
        said.append(reader.content_bytes)
        source.close()
    return batches.finish(), said


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
        together = b"".join(batches[partition])
        numbers = [b"%06d" % n for n in range(partition, count, 3)]
        positions = [together.index(number) for number in numbers[::97]]
        assert positions == sorted(positions)
        assert sum(piece.count(b"\x0c0") for piece in batches[partition]) == len(numbers)


def test_twins_agree_on_long_runs(native: Twin) -> None:
    """Those of 1000 bytes are long enough to be written without the interpreter lock."""
    count = BLOCK_ROWS + 1000
    sizes = {"size_limit": 2000, "buffer_bytes": 1 << 20}
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


@pytest.mark.parametrize("keys", [False, True])
def test_rows_of_a_batch_are_noted_as_runs_where_they_lie_in_order(native: Twin, keys: bool) -> None:
    columns = {"value": ["v" * (n % 30) for n in range(BLOCK_ROWS + 500)]}
    if keys:
        columns["key"] = [f"key-{n % 20}" for n in range(BLOCK_ROWS + 500)]
    batch = pa.RecordBatch.from_pydict(columns)
    noted = []
    for places in (Places(len(batch)), ArrowPlaces("t", keys, False)):
        batches = Batches(native, PARTITIONS)
        source = native.source(batch)
        reader = native.arrow(source, (0, 1 if keys else -1, -1, -1, -1, -1), SIZE_LIMIT, True)
        reader.add_topic("t", PARTITIONS, batches.lanes)
        count = source.next_chunk()
        if isinstance(places, ArrowPlaces):
            places.grow(count)
        reader.start_chunk(places)
        row = 0
        while row < count:
            row = reader.plan(row, DEFAULT_MS, -1)
            while (alone := reader.append_planned(None)) >= 0:
                owner, index = batches.append(reader.destination(alone)[1], reader.record(alone))
                number = places.number_of(owner)  # type: ignore[arg-type]
                if places.runs is not None:
                    places.runs.append((alone, 1, number, index))
                else:
                    places.indexes[alone] = index
                    places.owner_numbers[alone] = number
        assert (places.runs is not None) == (isinstance(places, ArrowPlaces) and not keys)
        noted.append(([places.owners[n] for n in places.owner_numbers], places.indexes, places.value_sizes))
    assert noted[0] == noted[1]


@pytest.mark.parametrize("name", ["pure", "native"])
def test_a_struct_that_is_null_is_no_record(name: str, native: Twin) -> None:
    kind = twin(name)
    structs = pa.StructArray.from_arrays(
        [pa.array(["a", "b", "c", "d"])], names=["value"], mask=pa.array([False, True, False, False])
    )[1:]
    given = Rows([structs], (0, -1, -1, -1, -1, -1))
    _, said = drain(kind, given, [structs])
    assert said[1][2] == [(0, "row is null", 0, -1)]


@pytest.mark.parametrize("name", ["pure", "native"])
def test_an_array_that_is_no_struct_is_the_column(name: str, native: Twin) -> None:
    kind = twin(name)
    for data in (pa.array(["a", None, "c"])[1:], pa.chunked_array([["a"], [None, "c"]])):
        source = kind.source(data)
        assert (source.names, source.formats) == (("",), ("u",))
        batches, _ = drain(kind, Rows([], (0, -1, -1, -1, -1, -1)), [data], partition=1)
        assert b"c" in batches[1][0]


@pytest.mark.parametrize("name", ["pure", "native"])
@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ([{"key": None, "value": b""}], "header name"),
        ([None], "header is null"),
        ([{"key": "a", "value": b"x" * SIZE_LIMIT}], "size"),
    ],
)
def test_headers_that_cannot_be_sent_refuse_their_row(
    name: str, header: Any, reason: str, native: Twin
) -> None:
    kind = twin(name)
    kinds = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    table = pa.table({"value": ["a", "b"], "headers": pa.array([header, None], type=kinds)})
    _, said = drain(kind, Rows([], (0, -1, 1, -1, -1, -1)), [table])
    assert [refusal[:2] for refusal in said[1][2]] == [(0, reason)]


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
        assert [refusal[:2] for refusal in said[1][2]] == [(0, "header name")]


@pytest.mark.parametrize("name", ["pure", "native"])
def test_columns_that_are_not_there_are_a_mistake_of_the_program(name: str, native: Twin) -> None:
    kind = twin(name)
    source = kind.source(pa.table({"value": ["a"]}))
    with pytest.raises(ValueError, match="no column 1"):
        kind.arrow(source, (0, 1, -1, -1, -1, -1), 100, True)
    with pytest.raises(ValueError, match="no value column"):
        kind.arrow(source, (-1, -1, -1, -1, -1, -1), 100, True)


def test_twins_have_the_same_face(native: Twin) -> None:
    pure = twin("pure")
    for ours, theirs in ((native.arrow, pure.arrow), (native.source, pure.source)):
        missing = {n for n in dir(ours) if not n.startswith("_")} - set(dir(theirs))
        assert not missing


@pytest.mark.parametrize("name", ["pure", "native"])
def test_a_topic_whose_number_of_partitions_changes(name: str, native: Twin) -> None:
    kind = twin(name)
    keys = [f"key-{n}" for n in range(50)]
    batch = pa.RecordBatch.from_pydict({"value": keys, "key": keys})
    source = kind.source(batch)
    reader = kind.arrow(source, (0, 1, -1, -1, -1, -1), SIZE_LIMIT, True)
    count = source.next_chunk()
    reader.start_chunk(Places(count))
    for partition_count in (8, 3, 200, 1):
        assert reader.add_topic("t", partition_count, None) == 0
        assert reader.plan(0, DEFAULT_MS, -1) == count
        targets = []
        while (row := reader.append_planned(None)) >= 0:
            targets.append((row, reader.destination(row)[1]))
        assert dict(targets) == {
            row: (murmur2(key.encode()) & 0x7FFFFFFF) % partition_count for row, key in enumerate(keys)
        }

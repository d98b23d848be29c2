"""What an Arrow call keeps of its rows says the same as the plain columns do, in less memory."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer.accumulator.future_record_metadata import ProduceRequestResult
from kproducer.bulk.arrow_places import ArrowPlaces
from kproducer.bulk.record_places import NO_OWNER, NULL_SIZE, RecordPlaces
from kproducer.errors import KafkaError, Outcome
from kproducer.types import TopicPartition

OWNERS = [ProduceRequestResult(TopicPartition("t", number)) for number in range(3)]
REFUSED = KafkaError("no").with_outcome(Outcome.NOT_SENT)

_chunks = st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=4), max_size=4)


def fill(places: RecordPlaces, first: int, rows: int, number: int, index: int) -> None:
    """As the kernel does: a run where runs are kept, else row by row."""
    runs = places.runs if isinstance(places, ArrowPlaces) else None
    if runs is not None:
        runs.append((first, rows, number, index))
        return
    for row in range(rows):
        places.indexes[first + row] = index + row
        places.owner_numbers[first + row] = number


def sent(places: RecordPlaces, chunks: list[list[tuple[int, int]]], looks_after: int) -> None:
    """Chunks of runs: by whom, how many rows; 3: a row by itself. Looks at a column after so many chunks."""
    counts = [0, 0, 0]
    for number, chunk in enumerate(chunks):
        first = places.grow(sum(rows for _, rows in chunk))
        if isinstance(places, ArrowPlaces):
            places.stamp(first, 1000 + number)
        for owner, rows in chunk:
            for row in range(first, first + rows):
                places.value_sizes[row] = row
                if places.key_sizes is not None:
                    places.key_sizes[row] = NULL_SIZE
                if places.timestamps_ms is not None:
                    places.timestamps_ms[row] = 1000 + number
            if owner == 3:
                future = OWNERS[0].future(counts[0], 1000 + number, NULL_SIZE, first)
                places.put(first, future)
                places.refuse_all_open(first, REFUSED)
                counts[0] += 1
            else:
                fill(places, first, rows, places.number_of(OWNERS[owner]), counts[owner])
                counts[owner] += rows
            first += rows
        if number == looks_after:
            assert len(places.owner_numbers) == len(places.indexes) >= len(places)


@given(_chunks, st.integers(-1, 3), st.booleans(), st.booleans(), st.integers(0, 3))
def test_it_says_what_the_plain_columns_say(
    chunks: list[list[tuple[int, int]]], looks_after: int, keys: bool, timestamps: bool, cut: int
) -> None:
    plain, places = RecordPlaces("t"), ArrowPlaces("t", keys, timestamps)
    for each in (plain, places):
        sent(each, chunks, looks_after)
        each.cut(max(len(each) - cut, 0))
    assert len(places) == len(plain)
    assert places.owner_numbers == plain.owner_numbers
    assert places.indexes == plain.indexes
    for row in range(len(plain)):
        ours, theirs = places.future(row), plain.future(row)
        if plain.owners[plain.owner_numbers[row]] in OWNERS:
            assert ours._batch_result is theirs._batch_result
        for name in ("_index", "_timestamp_ms", "_key_size", "_value_size"):
            assert getattr(ours, name) == getattr(theirs, name)


def test_rows_of_a_run_without_keys_and_timestamps_take_4_bytes() -> None:
    places = ArrowPlaces("t", has_keys=False, has_timestamps=False)
    places.grow(100_000)
    number = places.number_of(OWNERS[0])
    assert places.runs is not None
    places.runs.append((0, 100_000, number, 0))
    assert places.key_sizes is None
    assert places.timestamps_ms is None
    assert sys.getsizeof(places.value_sizes) < 4.1 * 100_000
    assert sys.getsizeof(places._owner_numbers) < 100


@pytest.mark.parametrize("has_run", [True, False])
def test_rows_that_nobody_came_to_are_open(has_run: bool) -> None:
    places = ArrowPlaces("t", has_keys=True, has_timestamps=True)
    places.grow(3)
    if has_run:
        fill(places, 1, 1, places.number_of(OWNERS[0]), 0)
    assert list(places.owner_numbers) == [NO_OWNER, 0 if has_run else NO_OWNER, NO_OWNER]
    places.refuse_all_open(0, REFUSED)
    assert NO_OWNER not in places.owner_numbers

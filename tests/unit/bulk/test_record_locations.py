"""RecordLocations: runs and left-out columns say the same as all columns do, in less memory."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer._core.accumulator.future_record_metadata import ProduceRequestResult
from kproducer._core.bulk.record_locations import NO_RESULT, NULL_SIZE, RecordLocations
from kproducer.errors import KafkaError, Outcome
from kproducer.types import TopicPartition

BATCH_RESULTS = [ProduceRequestResult(TopicPartition("t", number)) for number in range(3)]
REFUSED = KafkaError("no").with_outcome(Outcome.NOT_SENT)

_chunks = st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), max_size=4), max_size=4)


def fill(locations: RecordLocations, first: int, rows: int, number: int, index: int) -> None:
    """As the kernel does: a run where runs are kept, else row by row."""
    if locations.runs is not None:
        locations.runs.append((first, rows, number, index))
        return
    for row in range(rows):
        locations.indexes[first + row] = index + row
        locations.result_numbers[first + row] = number


def sent(locations: RecordLocations, chunks: list[list[tuple[int, int]]], looks_after: int) -> None:
    """Chunks of runs: by whom, how many rows; 3: a row by itself. Looks at a column after so many chunks."""
    counts = [0, 0, 0]
    for number, chunk in enumerate(chunks):
        first = locations.grow(sum(rows for _, rows in chunk))
        locations.stamp(first, 1000 + number)
        for batch_result, rows in chunk:
            for row in range(first, first + rows):
                locations.value_sizes[row] = row
                if locations.key_sizes is not None:
                    locations.key_sizes[row] = NULL_SIZE
                if locations.timestamps_ms is not None:
                    locations.timestamps_ms[row] = 1000 + number
            if batch_result == 3:
                future = BATCH_RESULTS[0].future(counts[0], 1000 + number, NULL_SIZE, first)
                locations.put(first, future)
                locations.refuse_all_open(first, REFUSED)
                counts[0] += 1
            else:
                fill(
                    locations,
                    first,
                    rows,
                    locations.number_of(BATCH_RESULTS[batch_result]),
                    counts[batch_result],
                )
                counts[batch_result] += rows
            first += rows
        if number == looks_after:
            assert len(locations.result_numbers) == len(locations.indexes) >= len(locations)


@given(_chunks, st.integers(-1, 3), st.booleans(), st.booleans(), st.integers(0, 3))
def test_it_says_what_the_plain_columns_say(
    chunks: list[list[tuple[int, int]]], looks_after: int, keys: bool, timestamps: bool, cut: int
) -> None:
    plain = RecordLocations("t")
    locations = RecordLocations("t", has_keys=keys, has_timestamps=timestamps, has_runs=True)
    for each in (plain, locations):
        sent(each, chunks, looks_after)
        each.finish(max(len(each) - cut, 0))
    assert len(locations) == len(plain)
    assert locations.result_numbers == plain.result_numbers
    assert locations.indexes == plain.indexes
    for row in range(len(plain)):
        ours, theirs = (each.future(row, list(each.batch_results)) for each in (locations, plain))
        if theirs._batch_result in BATCH_RESULTS:
            assert ours._batch_result is theirs._batch_result
        for name in ("_index", "_timestamp_ms", "_key_size", "_value_size"):
            assert getattr(ours, name) == getattr(theirs, name)


def test_rows_of_a_run_without_keys_and_timestamps_take_4_bytes() -> None:
    locations = RecordLocations("t", has_keys=False, has_timestamps=False, has_runs=True)
    locations.grow(100_000)
    number = locations.number_of(BATCH_RESULTS[0])
    assert locations.runs is not None
    locations.runs.append((0, 100_000, number, 0))
    assert locations.key_sizes is None
    assert locations.timestamps_ms is None
    assert sys.getsizeof(locations.value_sizes) < 4.1 * 100_000
    assert sys.getsizeof(locations._result_numbers) < 100


@pytest.mark.parametrize("has_run", [True, False])
def test_rows_that_were_not_sent_are_open(has_run: bool) -> None:
    locations = RecordLocations("t", has_runs=True)
    locations.grow(3)
    if has_run:
        fill(locations, 1, 1, locations.number_of(BATCH_RESULTS[0]), 0)
    assert list(locations.result_numbers) == [NO_RESULT, 0 if has_run else NO_RESULT, NO_RESULT]
    locations.refuse_all_open(0, REFUSED)
    assert NO_RESULT not in locations.result_numbers

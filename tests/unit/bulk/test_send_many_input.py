"""SendManyInput: columns of any kind, cut into chunks of equal length, or refused with both lengths named."""

from __future__ import annotations

import itertools
from array import array
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer._core.bulk.send_many_input import CHUNK_ROWS, Chunk, SendManyInput
from kproducer.errors import InvalidArgumentError, Outcome
from tests.support.manual_clock import ManualClock


def columns(
    values: Any, keys: Any = None, headers: Any = None, partitions: Any = None, times: Any = None
) -> Any:
    return SendManyInput(values, keys, headers, partitions, times, ManualClock(0))


def read(rows: SendManyInput) -> list[Chunk]:
    chunks = []
    while True:
        chunks.append(rows.next_chunk())
        if chunks[-1].is_last or chunks[-1].error is not None:
            return chunks


def all_rows(chunks: list[Chunk]) -> list[tuple[Any, Any]]:
    return [pair for chunk in chunks for pair in zip(chunk.values, chunk.keys or [], strict=True)]


def error_of(rows: SendManyInput) -> str:
    last = read(rows)[-1].error
    assert isinstance(last, InvalidArgumentError)
    # Some records may have been accepted by now.
    assert last.outcome is None
    return str(last)


class Sized:
    """A length and an iterator, which need not agree."""

    def __init__(self, length: int, rows: Any) -> None:
        self._length = length
        self._rows = rows

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)


KINDS = [list, tuple, iter, deque, lambda rows: (row for row in rows), lambda rows: Sized(len(rows), rows)]


@given(st.integers(0, 3 * CHUNK_ROWS), st.sampled_from(KINDS), st.sampled_from(KINDS))
def test_all_kinds_of_columns_give_the_same_rows(count: int, kind: Any, other: Any) -> None:
    numbers = list(range(count))
    chunks = read(columns(kind(numbers), other([-n for n in numbers])))
    assert all_rows(chunks) == [(n, -n) for n in numbers]
    assert chunks[-1].is_last
    assert all(len(chunk.values) <= CHUNK_ROWS for chunk in chunks)


def test_numbers_stand_for_all_records() -> None:
    (chunk,) = read(columns([b"a", b"b"], partitions=3, times=7))
    assert (chunk.partitions, chunk.timestamps_ms, chunk.keys) == ([3, 3], [7, 7], None)


def test_endless_columns_give_as_many_as_needed() -> None:
    (chunk,) = read(
        columns([1, 2, 3], itertools.repeat(b"k"), None, itertools.cycle([0, 1]), itertools.count(9))
    )
    assert chunk.keys == [b"k"] * 3
    assert chunk.partitions == [0, 1, 0]
    assert chunk.timestamps_ms == [9, 10, 11]
    with pytest.raises(InvalidArgumentError, match="values never ends"):
        columns(itertools.repeat(b"v"))
    # This one ends.
    assert all_rows(read(columns([1, 2], itertools.repeat(b"k", 2)))) == [(1, b"k"), (2, b"k")]


def test_arrays_of_integers_become_numbers() -> None:
    class Vector(list):  # type: ignore[type-arg]
        class dtype:  # noqa: N801
            kind = "i"

        def tolist(self) -> list[int]:
            return [int(row) for row in self]

    (chunk,) = read(columns([b"a", b"b"], partitions=Vector(["1", "2"]), times=array("q", [5, 6])))
    assert (chunk.partitions, chunk.timestamps_ms) == ([1, 2], [5, 6])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((b"abc",), "values must be a list or iterable.*not bytes; put them into a list"),
        (("abc",), "values must be.*not str"),
        (({"a": 1},), "values must be.*not dict"),
        ((7,), "values must be.*not int"),
        (
            ([1], b"key"),
            r"keys must be.*not bytes; for the same keys on all records pass itertools.repeat\(keys\)",
        ),
        (([1], None, {"a": b"b"}), "headers must be.*not dict; for the same headers on all"),
        (([1], None, None, "0"), "partitions must be.*not str"),
        (([1], None, None, None, 1.5), "timestamps_ms must be.*not float"),
        (([1, 2], [1]), "values has 2 entries and keys has 1: each record needs one of each"),
        (([1], None, None, range(3)), "values has 1 entries and partitions has 3"),
        ((iter([1]), [1], [None, None]), "keys has 1 entries and headers has 2"),
    ],
)
def test_what_is_no_column_is_refused_before_anything_is_sent(arguments: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text) as caught:
        columns(*arguments)
    assert caught.value.outcome is Outcome.NOT_SENT


def test_lengths_that_differ_are_named_when_they_are_noticed() -> None:
    assert "values has 3 entries and keys ended after 2" in error_of(columns([1, 2, 3], iter("ab")))
    assert "values has 3 entries and keys has more than 3" in error_of(columns([1, 2, 3], iter("abcd")))
    assert "values has more than 1 entries and keys ended after 1" in error_of(columns(iter("ab"), iter("x")))
    assert "values ended after 2 entries and keys has 3" in error_of(columns(iter("ab"), ["x", "y", "z"]))
    assert "values has 5 entries and keys ended after 2" in error_of(columns(range(5), iter("xy")))
    assert "values had 5 entries and ended after 2" in error_of(columns(Sized(5, "ab")))


def test_rows_before_the_wrong_length_are_there() -> None:
    chunks = read(columns(range(100), iter(range(50))))
    assert all_rows(chunks) == [(n, n) for n in range(50)]


def test_rows_before_an_exception_are_there_and_it_comes_after_them() -> None:
    def broken() -> Iterator[int]:
        yield from range(5)
        raise OSError("disk")

    for rows in (columns(broken(), iter(range(10))), columns(range(10), broken())):
        chunks = read(rows)
        assert all_rows(chunks) == [(n, n) for n in range(5)]
        assert isinstance(chunks[-1].error, OSError)
        assert not chunks[-1].is_last


def test_a_list_that_shrinks_or_grows_meanwhile() -> None:
    values = list(range(CHUNK_ROWS + 10))
    rows = columns(values)
    rows.next_chunk()
    values.clear()
    assert "values had 2058 entries and ended after 2048" in error_of(rows)
    values = list(range(CHUNK_ROWS + 10))
    rows = columns(values)
    first = rows.next_chunk()
    values.extend(range(100))
    assert len(first.values) + len(rows.next_chunk().values) == CHUNK_ROWS + 10


def test_a_slow_iterator_gets_small_chunks_and_a_fast_one_large_ones() -> None:
    clock = ManualClock(0)

    def slow() -> Iterator[int]:
        for number in range(200):
            clock.advance(1 if number < 100 else 0)
            yield number

    rows = SendManyInput(slow(), None, None, None, None, clock)
    sizes = [len(chunk.values) for chunk in read(rows)]
    assert sum(sizes) == 200
    assert min(sizes[:-1]) <= 2
    fast = [len(chunk.values) for chunk in read(columns(iter(range(10 * CHUNK_ROWS))))]
    assert max(fast) == CHUNK_ROWS

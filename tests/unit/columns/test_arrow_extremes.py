"""Numbers near the ends of 64 bits in Arrow data: rows are read, or an error; nothing overflows on the way.

What the C data interface lets nobody check is left out: an offset that memory could have, and the buffer not.
"""

from __future__ import annotations

import itertools
import struct
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kproducer._core.columns.arrow_names import REFUSALS
from tests.unit.columns.arrow_kit import Twin
from tests.unit.columns.hostile_arrow import Exported, array, schema
from tests.unit.columns.test_arrow_hostile import GOOD, HEADERS, longs, read, texts

DATA = b"abcd"
_FAR = st.integers(2**48 + 1, 2**63 - 1) | st.integers(2**63 - 5, 2**63 - 1)
_BELOW = st.integers(-(2**63), -1) | st.integers(-(2**63), -(2**63) + 4)
#: Where bytes may be said to lie: there, or where nobody has memory.
_places = st.integers(0, len(DATA)) | _FAR | _BELOW
_any = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3) | _FAR | _BELOW


def outcome(native: Twin, columns: list[Any], role: int = 0, **fields: Any) -> list[Any] | None:
    """The records; ``None``: an error. Memory is given back in either case."""
    data = Exported(columns, **fields)
    try:
        return read(native, data, role=role)
    except ValueError:
        return None
    finally:
        assert data.releases.count == 2


def cells(offsets: list[int]) -> list[bytes] | None:
    """What offsets say of ``DATA``; ``None``: they lead outside."""
    pairs = list(itertools.pairwise(offsets))
    if not all(0 <= start <= end <= len(DATA) for start, end in pairs):
        return None
    return [DATA[start:end] for start, end in pairs]


@given(st.lists(_places, min_size=3, max_size=3))
def test_large_offsets_are_read_or_lead_outside(native: Twin, offsets: list[int]) -> None:
    records = outcome(native, [(schema(b"Z"), array(2, [None, longs(*offsets), DATA]))])
    assert (None if records is None else [record[2] for record in records]) == cells(offsets)


@given(st.lists(_places, min_size=3, max_size=3), st.lists(_places, min_size=3, max_size=3))
def test_large_names_and_values_of_headers_are_read_or_lead_outside(
    native: Twin, names: list[int], values: list[int]
) -> None:
    item = schema(b"+s", b"item", [schema(b"U", b"key"), schema(b"Z", b"value")])
    pairs = [array(2, [None, longs(*offsets), DATA]) for offsets in (names, values)]
    lists = array(2, [None, longs(0, 1, 2)], [array(2, [None], pairs)])
    records = outcome(native, [GOOD, (schema(b"+L", b"h", [item]), lists)], role=2)
    expected = None
    if (keys := cells(names)) is not None and (data := cells(values)) is not None:
        expected = [[(key.decode(), value)] for key, value in zip(keys, data, strict=True)]
    assert (None if records is None else [record[3] for record in records]) == expected


def _listed(text: bytes, *buffers: bytes) -> Any:
    pairs = array(2, [None], [texts(0, 1, 3), texts(0, 1, 3)])
    return schema(text, b"h", [HEADERS.children[0].contents]), array(2, [None, *buffers], [pairs])


def _headers_in(ranges: list[tuple[int, int]]) -> list[Any] | None:
    """Headers of two rows, each the first to the second of two that there are."""
    if not all(0 <= start <= end <= 2 for start, end in ranges):
        return None
    return [[("a", b"a"), ("bc", b"bc")][start:end] or None for start, end in ranges]


@given(st.lists(_any, min_size=3, max_size=3))
def test_offsets_of_large_lists_are_read_or_lead_outside(native: Twin, offsets: list[int]) -> None:
    records = outcome(native, [GOOD, _listed(b"+L", longs(*offsets))], role=2)
    expected = _headers_in(list(itertools.pairwise(offsets)))
    assert (None if records is None else [record[3] for record in records]) == expected


@given(st.lists(st.tuples(_any, _any), min_size=2, max_size=2))
def test_large_views_of_lists_are_read_or_lead_outside(native: Twin, views: list[tuple[int, int]]) -> None:
    starts, sizes = zip(*views, strict=True)
    records = outcome(native, [GOOD, _listed(b"+vL", longs(*starts), longs(*sizes))], role=2)
    expected = _headers_in([(start, start + size) for start, size in views])
    assert (None if records is None else [record[3] for record in records]) == expected


@given(
    length=_any, offset=st.just(0) | _any, parent_length=st.just(2) | _any, parent_offset=st.just(0) | _any
)
def test_lengths_and_offsets_of_arrays_are_what_the_data_have_or_an_error(
    native: Twin, length: int, offset: int, parent_length: int, parent_offset: int
) -> None:
    is_possible = (
        0 <= offset <= 2**48
        and parent_offset >= 0
        and parent_length >= 0
        and parent_offset + parent_length <= length <= 2**48
    )
    # What memory could have is believed; here it has two rows.
    assume(not is_possible or offset + parent_offset + parent_length <= 2)
    column = (schema(b"Z"), array(length, [None, longs(0, 1, 3), DATA], offset=offset))
    records = outcome(native, [column], length=parent_length, offset=parent_offset)
    expected = [b"a", b"bc"][offset + parent_offset :][:parent_length] if is_possible else None
    assert (None if records is None else [record[2] for record in records]) == expected


@pytest.mark.parametrize("size", [2**31, 2**47, 2**48])
def test_headers_that_are_the_same_bytes_very_often_are_too_large(native: Twin, size: int) -> None:
    # A dictionary's one entry, so often that the sum of its sizes passes 2**63.
    count = 2**16
    item = schema(b"+s", b"item", [schema(b"w:1", b"key"), schema(b"c", b"value", dictionary=schema(b"Z"))])
    entry = array(1, [None, longs(0, size), DATA])
    fields = [array(count, [None, b"k" * count]), array(count, [None, bytes(count)], dictionary=entry)]
    lists = array(2, [None, longs(0, 0, count)], [array(count, [None], fields)])
    source = native.source(Exported([GOOD, (schema(b"+L", b"h", [item]), lists)]))
    rows = native.arrow(source, (0, -1, 1, -1, -1, -1), 903, True)
    rows.add_topic(b"t", 2, None)
    source.next_chunk()
    rows.start_chunk(0, {})
    assert rows.plan(0, 7, 0) == 2
    assert rows.append_planned() == 1
    code, seen = rows.refusal(1)
    assert REFUSALS[code] == "size"
    assert seen >= min(size * count, 2**48)
    assert rows.content_bytes == 1
    assert rows.append_planned() == 0
    assert rows.refusal(0) == (0, 0)
    assert rows.append_planned() == -1


@given(st.lists(st.binary(min_size=8, max_size=8) | _any.map(longs), min_size=2, max_size=2))
def test_numbers_of_any_size_are_partitions_or_refused(native: Twin, numbers: list[bytes]) -> None:
    for kind, text in (("<q", b"l"), ("<Q", b"L")):
        column = (schema(text), array(2, [None, b"".join(numbers)]))
        source = native.source(Exported([GOOD, column]))
        rows = native.arrow(source, (0, -1, -1, 1, -1, -1), 903, True)
        rows.add_topic(b"t", 2, None)
        source.next_chunk()
        rows.start_chunk(0, {})
        assert rows.plan(0, 7, -1) == 2
        wanted = [struct.unpack(kind, number)[0] for number in numbers]
        assert rows.append_planned() >= 0
        assert rows.append_planned() >= 0
        assert rows.append_planned() == -1
        assert [rows.record(row)[4] for row in range(2)] == [n if n < 2**63 else -1 for n in wanted]

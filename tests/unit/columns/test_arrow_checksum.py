"""The checksum of rows: the same for the same rows, in both twins, any order, cut and type; else another."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.columns.arrow_kit import BINARY_TYPES, LIST_TYPES, TEXT_TYPES, Rows, Twin, rows, twin
from tests.unit.columns.hostile_arrow import Exported
from tests.unit.columns.test_arrow_hostile import GOOD, WRONG, WRONG_HEADERS

NAMES = ("value", "key", "headers", "partition", "timestamp", "topic")
ALL = (0, 1, 2, 3, 4, 5)
NONE = (0, -1, -1, -1, -1, -1)


@pytest.fixture(params=["pure", "native"], scope="module")
def kind(request: pytest.FixtureRequest) -> Twin:
    return _twin(request.param)


@pytest.fixture(scope="module")
def twins() -> tuple[Twin, Twin]:
    return twin("pure"), _twin("native")


def _twin(name: str) -> Twin:
    try:
        return twin(name)
    except ImportError as error:
        pytest.skip(f"not built: {error}")


def total(
    kind: Twin, data: Iterable[Any], columns: tuple[int, ...] = NONE, topic: str | None = "t", **defaults: int
) -> tuple[int, int]:
    """Rows and value over all of ``data``."""
    checksum = kind.checksum(topic, defaults.get("partition", -1), defaults.get("timestamp_ms", -1))
    for part in data:
        source = kind.source(part)
        while source.next_chunk() >= 0:
            checksum.add_chunk(source, columns)
        source.close()
    return checksum.rows, checksum.value


def full(*cells: tuple[Any, ...]) -> Any:
    """Rows of all columns: value, key, headers, partition, timestamp, topic."""
    kinds = [pa.binary(), pa.string(), LIST_TYPES[0], pa.int32(), pa.int64(), pa.string()]
    columns = list(zip(*cells, strict=True)) if cells else [()] * 6
    arrays = [pa.array(list(column), type=kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=NAMES)


def headers(*pairs: tuple[str | None, bytes | None]) -> list[dict[str, Any]]:
    return [{"key": name, "value": value} for name, value in pairs]


ROW = (b"value", "key", headers(("a", b"1"), ("b", None)), 2, 1_700_000_000_000, "topic")


@settings(deadline=None, max_examples=200)
@given(rows(), st.integers(-1, 3), st.integers(-1, 9), st.randoms(use_true_random=False))
def test_twins_agree_whatever_the_order_and_the_cuts(
    twins: tuple[Twin, Twin], given: Rows, partition: int, timestamp_ms: int, chance: Any
) -> None:
    topic = "t" if given.columns[5] < 0 else None
    defaults = {"partition": partition, "timestamp_ms": timestamp_ms}
    pure, native = twins
    expected = total(pure, [given.table], given.columns, topic, **defaults)
    assert total(native, [given.table], given.columns, topic, **defaults) == expected
    cut = [chunk.slice(row, 1) for chunk in given.chunks for row in range(chunk.num_rows)]
    chance.shuffle(cut)
    for kind in twins:
        assert total(kind, given.chunks, given.columns, topic, **defaults) == expected
        assert total(kind, cut, given.columns, topic, **defaults) == expected


@pytest.mark.parametrize("rows_of_a_block", [256, 4096])
def test_twins_agree_on_more_than_a_block(twins: tuple[Twin, Twin], rows_of_a_block: int) -> None:
    count = 2 * rows_of_a_block + 3
    values = pa.array([None if n % 11 == 0 else b"%d" % n * (n % 37) for n in range(count)])
    table = pa.table({"value": values, "key": [str(n % 7) for n in range(count)]})
    totals = {total(kind, [table], (0, 1, -1, -1, -1, -1)) for kind in twins}
    totals |= {total(kind, [table[5:], table[:5]], (0, 1, -1, -1, -1, -1)) for kind in twins}
    assert len(totals) == 1
    assert totals.pop()[0] == count


def test_the_value_stays_the_same_from_release_to_release(kind: Twin) -> None:
    """What one program wrote down, a later one may have to compare with."""
    batch = full(ROW, (None, None, None, None, None, "t"), (b"0123456789abcdef!", "", [], 0, 0, ""))
    assert total(kind, [batch], ALL, None) == (3, GOLDEN)


GOLDEN = 10981669104628017010


def test_the_type_that_holds_a_row_does_not_matter(kind: Twin) -> None:
    texts = ["", "a", None, "b" * 40, "\u00fc", "a"]
    plain = pa.array(texts)
    arrays = [plain.cast(each) for each in (*TEXT_TYPES[:2], *BINARY_TYPES[:2])]
    arrays += [pa.array(texts, pa.string_view()), plain.dictionary_encode()]
    arrays += [pa.array([text and text.encode() for text in texts], pa.binary_view())]
    assert len({total(kind, [pa.table({"value": array})]) for array in arrays}) == 1
    fixed = pa.array([b"abc", None], pa.binary(3))
    assert total(kind, [pa.table({"v": fixed})]) == total(kind, [pa.table({"v": fixed.cast(pa.binary())})])


def test_timestamps_count_as_the_milliseconds_that_are_written(kind: Twin) -> None:
    columns = (0, -1, -1, -1, 1, -1)

    def of(times: Any, **defaults: int) -> tuple[int, int]:
        return total(kind, [pa.table({"value": ["a"] * len(times), "time": times})], columns, **defaults)

    ms = pa.array([5000, None, 7000], pa.int64())
    assert (
        of(ms) == of(ms.cast(pa.timestamp("ms"))) == of(ms.cast(pa.timestamp("ms")).cast(pa.timestamp("s")))
    )
    assert of(ms) == of(pa.array([5_000_999, None, 7_000_000], pa.timestamp("us", "UTC")))
    assert of(ms) == of(pa.array([5.0004, None, 7.0]))
    assert of(ms) != of(pa.array([5001, None, 7000]))
    assert of(ms) != of(ms, timestamp_ms=6000) == of(pa.array([5000, 6000, 7000]))


def test_what_holds_for_all_rows_counts_as_a_column_does(kind: Twin) -> None:
    columns = {"value": ["a"], "key": pa.nulls(1), "partition": [2], "topic": ["orders"]}
    written = total(kind, [pa.table(columns)], (0, 1, -1, 2, -1, 3), None)
    assert total(kind, [pa.table({"value": ["a"]})], NONE, "orders", partition=2) == written
    assert total(kind, [pa.table({"value": ["a"]})], NONE, "orders") != written
    assert total(kind, [pa.table({"value": ["a"]})], NONE, "other", partition=2) != written


def changed() -> list[tuple[Any, ...]]:
    """Rows that differ from ROW, and from each other, in one thing."""
    value, key, pairs, partition, time, topic = ROW
    values = [b"valud", b"value\0", b"valu", b"", None, b"keyvalue", b"topicvalue", b"value" * 9]
    keys = ["kez", "ke", "", None, "keyvalue", "value"]
    lists: list[Any] = [None, headers(("a", b"1")), headers(("b", None), ("a", b"1"))]
    lists += [
        headers(("a", b"1"), ("b", b"")),
        headers(("a1", b""), ("b", None)),
        headers(("a", None), ("b", b"1")),
    ]
    lists += [headers(("a", b"1"), ("b", None), ("", None)), headers(("", b""))]
    return [
        *((each, key, pairs, partition, time, topic) for each in values),
        *((value, each, pairs, partition, time, topic) for each in keys),
        *((value, key, each, partition, time, topic) for each in lists),
        *((value, key, pairs, each, time, topic) for each in (0, 1, 3, None)),
        *((value, key, pairs, partition, each, topic) for each in (0, time + 1, time - 2**32, None)),
        *((value, key, pairs, partition, time, each) for each in ("", "t", "topics", "TOPIC")),
        ("key", "value", pairs, partition, time, topic),
        (b"topic", key, pairs, partition, time, "value"),
        (None, None, None, None, None, topic),
        (b"", "", None, None, None, ""),
    ]


def test_whatever_is_changed_of_a_row_changes_the_value(kind: Twin) -> None:
    values = [total(kind, [full(row)], ALL, None) for row in (ROW, *changed())]
    assert len(set(values)) == len(values)


@pytest.mark.parametrize("size", [1, 3, 4, 7, 8, 15, 16, 17, 33])
def test_any_bit_of_a_value_counts(kind: Twin, size: int) -> None:
    data = bytes(range(100, 100 + size))
    flipped = [
        data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :] for at in range(size) for bit in range(8)
    ]
    moved = [data + b"\0", data[:-1], data[1:] + data[:1] if size > 1 else b"xx"]
    values = {total(kind, [pa.table({"value": [each]})]) for each in (data, *flipped, *moved)}
    assert len(values) == 1 + len(flipped) + len(moved)


def test_rows_more_or_less_and_cells_that_change_rows_count(kind: Twin) -> None:
    def of(*cells: tuple[Any, Any]) -> int:
        table = pa.table(
            {"value": pa.array([c[0] for c in cells], pa.string()), "key": [c[1] for c in cells]}
        )
        return total(kind, [table], (0, 1, -1, -1, -1, -1))[1]

    rows = [("a", "1"), ("b", "2"), (None, "3"), ("d", "4")]
    sets = [
        rows,
        rows[:-1],
        [*rows, rows[0]],
        [*rows, rows[0], rows[0]],
        [("b", "1"), ("a", "2"), *rows[2:]],
        [("a", "1"), (None, "2"), ("b", "3"), ("d", "4")],
        [("a", "1"), ("b", "2"), ("", "3"), ("d", "4")],
        [("a", "1"), ("a", "1"), *rows[2:]],
    ]
    assert len({of(*each) for each in sets}) == len(sets)
    assert {of(*each) for each in itertools.permutations(rows)} == {of(*rows)}


def test_rows_that_no_write_has_count_alike_and_as_no_other_row(kind: Twin) -> None:
    value, key, pairs, partition, time, topic = ROW
    unwritable = [
        (value, key, pairs, partition, time, None),
        (value, key, pairs, -1, time, topic),
        (value, key, pairs, partition, -5, topic),
        (value, key, [None], partition, time, topic),
        (value, key, headers((None, b"")), partition, time, topic),
    ]
    values = {total(kind, [full(row)], ALL, None) for row in unwritable}
    structs = pa.StructArray.from_arrays(
        full(ROW, ROW).columns, names=list(NAMES), mask=pa.array([False, True])
    )
    values.add(total(kind, [structs[1:]], ALL, None))
    assert len(values) == 1
    assert values.pop() != total(kind, [full(ROW)], ALL, None)


def test_nothing_is_no_rows_and_zero(kind: Twin) -> None:
    assert total(kind, []) == total(kind, [full()], ALL) == (0, 0)


@pytest.mark.parametrize(
    "columns", [(1, -1, -1, -1, -1, -1), (-1, -1, -1, -1, -1, -1), (0, -2, -1, -1, -1, -1)]
)
def test_columns_that_are_not_there_are_a_mistake_of_the_program(
    kind: Twin, columns: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match="column"):
        total(kind, [pa.table({"value": ["a"]})], columns)


HOSTILE = {
    **{what: (column, NONE) for what, column in WRONG.items()},
    **{f"headers {what}": (column, (0, -1, 1, -1, -1, -1)) for what, column in WRONG_HEADERS.items()},
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_column_that_contradicts_itself_is_an_error_and_adds_nothing(
    twins: tuple[Twin, Twin], what: str
) -> None:
    column, numbers = HOSTILE[what]
    checksum = twins[1].checksum("t", -1, -1)

    def add() -> None:
        source = twins[1].source(Exported([column] if numbers is NONE else [GOOD, column]))
        source.next_chunk()
        checksum.add_chunk(source, numbers)

    with pytest.raises(ValueError, match=r"Arrow|column|header"):
        add()
    assert (checksum.rows, checksum.value) == (0, 0)

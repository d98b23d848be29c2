"""The verdict of the exactly-once run: it is good for what is right, and names everything that is not."""

from __future__ import annotations

import json
import math

import pytest

from tests.support.spark.exactly_once_rows import (
    BAD,
    GOOD,
    PARTITIONS,
    Row,
    SeenRows,
    fields_of_text,
    text_of_file,
)
from tests.support.spark.exactly_once_variants import DEAD_LETTERS, VARIANTS

#: All rows of file 17 are bad.
FILES = {1: 7, 2: 2, 3: 0, 17: 30}


def lines(mark: str) -> list[bytes]:
    return [
        line.encode()
        for number, rows in FILES.items()
        for line in text_of_file(number, rows).splitlines()
        if line.startswith(mark)
    ]


def everything() -> list[tuple[int, bytes]]:
    """All rows that can be written, as records: partition and value."""
    return [(int(row.split()[2]) % PARTITIONS, row) for row in lines(GOOD)]


@pytest.fixture
def seen() -> SeenRows:
    return expecting(SeenRows())


def expecting(rows: SeenRows) -> SeenRows:
    for number, count in FILES.items():
        rows.expect(number, count)
    return rows


def read(seen: SeenRows, records: list[tuple[int, bytes]]) -> None:
    for partition, value in records:
        seen.see(partition, value)
    for partition in range(seen.partitions):
        seen.at_end(partition)


def test_every_row_once_is_good(seen):
    read(seen, everything())
    verdict = seen.verdict()
    assert verdict.is_good
    assert (verdict.expected, verdict.seen) == (8, 8)
    assert seen.unfinished() == []


def test_a_repeated_row_is_a_duplicate(seen):
    read(seen, [*everything(), everything()[3]])
    verdict = seen.verdict()
    assert not verdict.is_good
    assert (verdict.duplicates, verdict.lost, verdict.torn) == (1, 0, 0)


def test_a_missing_row_is_lost_and_its_task_is_torn(seen):
    read(seen, everything()[1:])
    verdict = seen.verdict()
    assert not verdict.is_good
    assert (verdict.duplicates, verdict.lost, verdict.torn) == (0, 1, 1)
    assert seen.unfinished() == [1]


def test_half_a_task_at_the_end_of_a_partition_is_torn_also_when_the_rest_follows(seen):
    records = everything()
    first = [each for each in records if each[0] == 0]
    rest = [each for each in records if each[0] != 0]
    seen.see(*first[0])
    seen.at_end(0)
    read(seen, [*first[1:], *rest])
    verdict = seen.verdict()
    assert not verdict.is_good
    assert (verdict.duplicates, verdict.lost, verdict.torn) == (0, 0, 1)


def test_partitions_of_a_task_may_become_visible_one_after_the_other(seen):
    for partition in range(PARTITIONS):
        read(seen, [each for each in everything() if each[0] == partition])
    assert seen.verdict().is_good


def test_between_two_ends_a_task_may_be_seen_in_parts(seen):
    for record in everything():
        seen.see(*record)
    read(seen, [])
    assert seen.verdict().is_good


def test_a_row_before_an_earlier_one_is_out_of_order(seen):
    records = everything()
    second = next(index for index, each in enumerate(records) if each[0] == 0 and index)
    read(seen, [records[second], *records[:second], *records[second + 1 :]])
    assert seen.verdict().misplaced == 1
    assert not seen.verdict().is_good


def test_a_task_in_several_transactions_is_told(seen):
    read(seen, everything())
    seen.note_split(1, {(7, 0), (7, 1)})
    assert not seen.verdict().is_good


@pytest.mark.parametrize(
    ("partition", "value"),
    [
        (1, lines(GOOD)[0]),
        (0, lines(GOOD)[0] + b"x"),
        (0, b"+ 2 3 0 0 0 x"),
        (0, b"+ 9 0 0 0 0 x"),
        (0, b"?"),
        (0, lines(BAD)[0]),
    ],
)
def test_what_nobody_wrote_is_told(seen, partition, value):
    read(seen, [*everything(), (partition, value)])
    assert seen.verdict().strangers == 1
    assert not seen.verdict().is_good


def test_nothing_at_all_is_not_good(seen):
    assert not SeenRows().verdict().is_good


def letters() -> list[tuple[int, bytes]]:
    """The dead letters of all bad rows, with NaN and large cells as the sink writes them."""
    rows = [Row(**fields_of_text(line)) for line in lines(BAD)]
    assert {row.partition >= PARTITIONS for row in rows} == {False, True}
    assert {math.isnan(row.ratio) for row in rows} == {False, True}
    return [
        (0, json.dumps({**row._asdict(), "ratio": str(row.ratio), "padding": row.padding[:600]}).encode())
        for row in rows
    ]


def test_dead_letters_are_rows_of_their_own_topic():
    seen = next(each for each in VARIANTS if each.has_fields).new_seen("rows")
    dead = expecting(seen["rows" + DEAD_LETTERS])
    read(dead, letters()[:-1])
    assert (dead.verdict().expected, dead.verdict().lost, dead.verdict().torn) == (31, 1, 1)
    read(dead, letters()[-2:])
    assert (dead.verdict().lost, dead.verdict().duplicates) == (0, 1)

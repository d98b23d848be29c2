"""The verdict of the exactly-once run: it is good for what is right, and names everything that is not."""

from __future__ import annotations

import pytest

from tests.support.spark.exactly_once_rows import PARTITIONS, SKIPPED, SeenRows, text_of_file

FILES = {1: 7, 2: 2, 3: 0}


def everything() -> list[tuple[int, bytes]]:
    """All rows of the files as records: partition and value."""
    rows = [
        line.encode()
        for number, rows in FILES.items()
        for line in text_of_file(number, rows).splitlines()
        if not line.startswith(SKIPPED)
    ]
    return [(int(row.split()[1]) % PARTITIONS, row) for row in rows]


@pytest.fixture
def seen() -> SeenRows:
    rows = SeenRows()
    for number, count in FILES.items():
        rows.expect(number, count)
    return rows


def read(seen: SeenRows, records: list[tuple[int, bytes]]) -> None:
    for partition, value in records:
        seen.see(partition, value)
    for partition in range(PARTITIONS):
        seen.at_end(partition)


def test_every_row_once_is_good(seen):
    read(seen, everything())
    verdict = seen.verdict()
    assert verdict.is_good
    assert (verdict.expected, verdict.seen) == (9, 9)
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


@pytest.mark.parametrize(("partition", "value"), [(1, b"1 0 x"), (0, b"2 3 x"), (0, b"9 0 x")])
def test_what_nobody_wrote_is_told(seen, partition, value):
    read(seen, [*everything(), (partition, value)])
    assert seen.verdict().strangers == 1
    assert not seen.verdict().is_good


def test_nothing_at_all_is_not_good(seen):
    assert not SeenRows().verdict().is_good

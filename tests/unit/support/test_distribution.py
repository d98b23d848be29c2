"""The order of tests for several processes."""

from __future__ import annotations

from tests.support.distribution import dealt


def test_each_part_begins_with_long_tests_and_ends_with_short_ones() -> None:
    # The long tests of each group are scattered over the list.
    tests = [f"{group}{number}" for number in range(10) for group in ("a", "short-1", "b", "short-2")]
    ordered = dealt(tests, 2, lambda test: None if test.startswith("short") else test[0])
    assert sorted(ordered) == sorted(tests)
    for part, group in ((ordered[:20], "a"), (ordered[20:], "b")):
        assert part[:10] == [f"{group}{number}" for number in range(10)]
        assert all(test.startswith("short") for test in part[10:])


def test_groups_go_where_there_is_least() -> None:
    tests = [
        f"{group}{number}" for group, count in (("a", 50), ("b", 9), ("c", 8)) for number in range(count)
    ]
    assert dealt(tests, 2, lambda test: test[0]) == [*tests[:50], *tests[50:]]
    assert dealt(tests, 1, lambda test: test[0]) == tests

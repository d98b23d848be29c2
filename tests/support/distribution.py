"""The order of tests for ``pytest -n``: long ones first in each process, those that share a cluster together.

With ``--dist worksteal`` each process gets a contiguous part of the list, and when it is through with it,
takes tests from the end of another's part. So each part begins with its share of the tests that start
clusters, Spark, compilers or type checkers, and ends with short ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

import pytest

Test = TypeVar("Test")

_LONG_FOLDERS = {"docs", "integration", "packaging", "spark", "wire_compat"}
#: Clusters of several files, with the version as parameter.
_CLUSTERS = ("each_protocol", "three_nodes", "each_kafka")
#: Starting what the tests of a group share takes as long as about so many of them.
_START = 30


def group_of(item: pytest.Function) -> Hashable:
    """What a long test shares with others: Spark, a cluster of a version, or a file. None: a short test."""
    is_long = item.nodeid.split("/")[1] in _LONG_FOLDERS or item.get_closest_marker("kafka") is not None
    if not is_long:
        return None
    if "spark" in item.fixturenames:
        return "spark"
    for name in _CLUSTERS:
        if name in item.fixturenames:
            return name, item.callspec.params[name]
    return item.path


def dealt(tests: Sequence[Test], processes: int, group_of: Callable[[Test], Hashable]) -> list[Test]:
    """All tests, in an order whose equal parts, one for each process, begin with as many long tests each."""
    groups: dict[Hashable, list[Test]] = {}
    for test in tests:
        groups.setdefault(group_of(test), []).append(test)
    short = iter(groups.pop(None, []))
    shares: list[list[Test]] = [[] for _ in range(processes)]
    loads = [0] * processes
    for group in sorted(groups.values(), key=len, reverse=True):
        least = loads.index(min(loads))
        shares[least] += group
        loads[least] += _START + len(group)
    ordered: list[Test] = []
    for i, share in enumerate(shares):
        size = (len(tests) - len(ordered)) // (processes - i)
        ordered += [*share, *itertools.islice(short, max(size - len(share), 0))]
    return ordered

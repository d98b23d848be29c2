from __future__ import annotations

import pytest

from kproducer.cli.perf import percentile, random_values


@pytest.mark.parametrize(
    ("percent", "value"), [(50, 50.0), (95, 95.0), (99, 99.0), (99.9, 100.0), (0, 1.0), (100, 100.0)]
)
def test_a_percentile_is_one_of_the_values(percent, value):
    assert percentile([float(each) for each in range(1, 101)], percent) == value


def test_the_percentiles_of_one_value_are_this_value():
    assert percentile([7.0], 50) == percentile([7.0], 99.9) == 7.0


@pytest.mark.parametrize(("size_bytes", "different"), [(0, 1), (100, 1000), (1 << 20, 16), (64 << 20, 1)])
def test_values_differ_as_long_as_they_take_little_memory(size_bytes, different):
    values = random_values(size_bytes)
    assert len(values) == 1000
    assert {len(each) for each in values} == {size_bytes}
    assert len({id(each) for each in values}) == len(set(values)) == different

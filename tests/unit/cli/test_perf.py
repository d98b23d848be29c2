from __future__ import annotations

import pytest

from kproducer.cli.perf import percentile


@pytest.mark.parametrize(
    ("percent", "value"), [(50, 50.0), (95, 95.0), (99, 99.0), (99.9, 100.0), (0, 1.0), (100, 100.0)]
)
def test_a_percentile_is_one_of_the_values(percent, value):
    assert percentile([float(each) for each in range(1, 101)], percent) == value


def test_the_percentiles_of_one_value_are_this_value():
    assert percentile([7.0], 50) == percentile([7.0], 99.9) == 7.0

from __future__ import annotations

import pytest

from kproducer.cli.latency import (
    duration,
    histogram,
    histogram_lines,
    latency_figures,
    percentile,
    three_digits,
)
from kproducer.cli.perf import random_values


@pytest.mark.parametrize(
    ("percent", "value"), [(50, 50.0), (95, 95.0), (99, 99.0), (99.9, 100.0), (0, 1.0), (100, 100.0)]
)
def test_a_percentile_is_one_of_the_values(percent, value):
    assert percentile([float(each) for each in range(1, 101)], percent) == value


def test_the_percentiles_of_one_value_are_this_value():
    assert percentile([7.0], 50) == percentile([7.0], 99.9) == 7.0


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (2237.387, "2.24 s"),
        (0.8123, "812 µs"),
        (0.9999, "1.00 ms"),
        (999.7, "1.00 s"),
        (99.96, "100 ms"),
        (0, "0 µs"),
        (1_234_567, "1,230 s"),
    ],
)
def test_durations_have_three_digits(ms, text):
    assert duration(ms) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1_234_567, "1,230,000"), (12.345, "12.3"), (0.012345, "0.0123"), (0, "0"), (999.9, "1,000")],
)
def test_numbers_have_three_digits(value, text):
    assert three_digits(value) == text


def test_each_latency_is_in_one_row_of_the_histogram():
    rows = histogram([0.5, 0.5001, 4.9, 5.0])
    assert rows == [
        {"up_to_ms": 0.5, "records": 1},
        {"up_to_ms": 1.0, "records": 1},
        {"up_to_ms": 2.0, "records": 0},
        {"up_to_ms": 5.0, "records": 2},
    ]
    assert list(histogram_lines(rows)) == [
        "   up to       timed    share",
        "  500 µs           1    25.0%  ####################",
        "    1 ms           1    25.0%  ####################",
        "    2 ms           0     0.0%",
        "    5 ms           2    50.0%  ########################################",
    ]
    assert histogram([]) == []
    assert latency_figures([], (50,)) == {}


def test_the_histogram_fits_into_80_columns():
    rows = histogram([1e-5, 1e9, *[7.0] * 1_234_567])
    assert sum(row["records"] for row in rows) == 1_234_569
    assert max(map(len, histogram_lines(rows))) <= 80


@pytest.mark.parametrize(("size_bytes", "different"), [(0, 1), (100, 1000), (1 << 20, 16), (64 << 20, 1)])
def test_values_differ_as_long_as_they_take_little_memory(size_bytes, different):
    values = random_values(size_bytes)
    assert len(values) == 1000
    assert {len(each) for each in values} == {size_bytes}
    assert len({id(each) for each in values}) == len(set(values)) == different

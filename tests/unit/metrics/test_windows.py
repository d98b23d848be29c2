"""Windows and Series, compared with a list of all values."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kproducer import KafkaProducer, ProducerConfig
from kproducer._core.metrics.windows import WINDOW_MS, Recent, Series, Windows, combined
from tests.support.manual_clock import ManualClock


@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 1000)), max_size=30),
    st.integers(0, 3),
    st.integers(1, 6),
    st.integers(1, 100),
)
def test_a_series_agrees_with_a_list_of_its_values(
    steps: list[tuple[int, int]], idle_windows: int, num_samples: int, window_ms: int
) -> None:
    clock = ManualClock()
    started_ms = clock.now_ms
    windows = Windows(clock, num_samples, window_ms)
    series = windows.series()
    values: list[tuple[int, int]] = []
    for wait_ms, value in steps:
        clock.now_ms += wait_ms
        series.add(float(value), windows.at(clock.now_ms))
        values.append((clock.now_ms, value))
    clock.now_ms += idle_windows * window_ms
    present = (clock.now_ms - started_ms) // window_ms
    recent = [value for at_ms, value in values if (at_ms - started_ms) // window_ms > present - num_samples]
    found = series.recent(windows.now())
    assert (found.count, found.total) == (len(recent), sum(recent))
    assert found.maximum == max(recent, default=0)
    assert (series.count, series.total) == (len(values), sum(value for _, value in values))


def test_without_values_mean_and_maximum_are_nan() -> None:
    nothing = Series().recent(0)
    assert math.isnan(nothing.mean)
    assert math.isnan(nothing.largest)


def test_rates_are_divided_by_one_window_at_least_and_two_at_most() -> None:
    clock = ManualClock()
    windows = Windows(clock)
    started_ms = clock.now_ms
    assert windows.seconds(started_ms) == WINDOW_MS / 1000
    assert windows.seconds(started_ms + 10_000) == 40  # as in Java: at least one whole window
    for elapsed_ms in range(WINDOW_MS, 5 * WINDOW_MS, 7_000):
        assert WINDOW_MS / 1000 <= windows.seconds(started_ms + elapsed_ms) < 2 * WINDOW_MS / 1000


def test_rates_are_divided_by_all_windows_but_one_at_least() -> None:
    clock = ManualClock()
    windows = Windows(clock, 4, 1000)
    assert windows.seconds(clock.now_ms) == 3
    assert windows.seconds(clock.now_ms + 10_500) == 3.5
    assert 0 < Windows(clock, 1, 1000).seconds(clock.now_ms) <= 1


def test_all_parts_have_the_windows_of_the_settings() -> None:
    settings: dict[str, Any] = {"metrics_num_samples": 4, "metrics_sample_window_ms": 1000}
    with KafkaProducer("localhost:1", **settings) as producer:
        engine = producer._lifecycle.running_engine()
        for part in (engine.pool, engine.sender.metrics, engine.client.metrics):
            now_ms = part.windows._started_ms
            assert part.windows.seconds(now_ms + 10_500) == 3.5
    config = ProducerConfig.from_dotted({"bootstrap.servers": "h:1", "metrics.num.samples": "1"})
    assert (config.metrics_num_samples, config.metrics_sample_window_ms) == (1, 30_000)


def test_a_steady_rate_is_found() -> None:
    clock = ManualClock()
    windows, series = Windows(clock), Series()
    for _ in range(1000):
        series.add(10.0, windows.at(clock.now_ms))
        clock.now_ms += 250
    rate = series.recent(windows.now()).total / windows.seconds(clock.now_ms)
    assert math.isclose(rate, 40, rel_tol=0.02)


def test_several_series_together() -> None:
    together = combined([Recent(2.0, 10.0, 7.0), Recent(1.0, 2.0, 2.0)])
    assert (together.count, together.mean, together.largest) == (3, 4, 7)
    assert math.isnan(combined([]).mean)

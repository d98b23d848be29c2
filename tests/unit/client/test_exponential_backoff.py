"""Waits grow by the multiplier, stay under the cap and are spread by the jitter."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer.client.exponential_backoff import ExponentialBackoff


def test_without_jitter_the_wait_doubles_up_to_the_cap() -> None:
    backoff = ExponentialBackoff(100, 2, 1000, 0)
    assert [backoff.backoff_ms(n) for n in range(6)] == [100, 200, 400, 800, 1000, 1000]


def test_huge_attempt_counts_neither_overflow_nor_loop() -> None:
    assert ExponentialBackoff(100, 2, 1000, 0).backoff_ms(2**62) == 1000
    assert ExponentialBackoff(0, 2, 1000, 0).backoff_ms(2**62) == 0
    assert ExponentialBackoff(7, 1, 1000, 0).backoff_ms(2**62) == 7


def test_a_cap_below_the_initial_wait_wins() -> None:
    backoff = ExponentialBackoff(100, 2, 50, 0.2, random.Random(1))
    assert max(backoff.backoff_ms(n) for n in range(50)) <= 50


@given(attempts=st.integers(0, 40), seed=st.integers())
def test_jitter_stays_within_its_share_and_under_the_cap(attempts: int, seed: int) -> None:
    wait = ExponentialBackoff(50, 2, 1000, 0.2, random.Random(seed)).backoff_ms(attempts)
    term = min(50 * 2**attempts, 1000)
    assert int(term * 0.8) - 1 <= wait <= min(int(term * 1.2) + 1, 1000)


def test_jitter_really_spreads_the_waits() -> None:
    backoff = ExponentialBackoff(1000, 2, 100_000, 0.2, random.Random(3))
    assert len({backoff.backoff_ms(0) for _ in range(50)}) > 20


@pytest.mark.parametrize("bad", [(-1, 2, 10, 0.2), (1, 0.5, 10, 0.2), (1, 2, -1, 0.2), (1, 2, 10, 1.0)])
def test_senseless_settings_are_refused(bad: tuple[int, float, int, float]) -> None:
    with pytest.raises(ValueError, match="bad backoff"):
        ExponentialBackoff(*bad)

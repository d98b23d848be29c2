"""Waits grow by the multiplier, stay under the cap and are spread by the jitter."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kproducer._core.runtime.clock import ExponentialBackoff


def test_the_wait_doubles_up_to_the_maximum_and_jitter_stays_within_its_share() -> None:
    backoff = ExponentialBackoff(100, 1000, random.Random(1))
    for attempts, wait_ms in enumerate([100, 200, 400, 800, 1000, 1000]):
        assert wait_ms * 0.8 - 1 <= backoff.backoff_ms(attempts) <= min(wait_ms * 1.2, 1000)


def test_huge_attempt_counts_neither_overflow_nor_loop() -> None:
    assert 800 <= ExponentialBackoff(100, 1000).backoff_ms(2**62) <= 1000
    assert ExponentialBackoff(0, 1000).backoff_ms(2**62) == 0


def test_a_maximum_below_the_initial_wait_wins() -> None:
    backoff = ExponentialBackoff(100, 50, random.Random(1))
    assert max(backoff.backoff_ms(n) for n in range(50)) <= 50


@given(attempts=st.integers(0, 40), seed=st.integers())
def test_jitter_stays_within_its_share_and_under_the_maximum(attempts: int, seed: int) -> None:
    wait = ExponentialBackoff(50, 1000, random.Random(seed)).backoff_ms(attempts)
    term = min(50 * 2**attempts, 1000)
    assert int(term * 0.8) - 1 <= wait <= min(int(term * 1.2) + 1, 1000)


def test_jitter_really_spreads_the_waits() -> None:
    backoff = ExponentialBackoff(1000, 100_000, random.Random(3))
    assert len({backoff.backoff_ms(0) for _ in range(50)}) > 20

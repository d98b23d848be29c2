"""Every combination of faults for three batches in flight, each with one event.

``make simulate EXHAUSTIVE=1`` has four batches, and each combination with every event.
"""

from __future__ import annotations

import pytest

from tests.simulation.exhaustive import ENDS, EVENTS, PRODUCERS, Combinations
from tests.simulation.explore import run_plans

_COMBINATIONS = Combinations(batches=3, event_places=(1, 2))
_EVENTS = 1 + 2 * len(EVENTS)


def _of_producer(producer: int) -> list[int]:
    """One number per combination of ends: the events take turns."""
    return [
        (ends * _EVENTS + ends % _EVENTS) * len(PRODUCERS) + producer
        for ends in range(len(ENDS) ** 3)
    ]  # fmt: skip


@pytest.mark.parametrize("producer", range(len(PRODUCERS)))
def test_promises_hold_for_each_combination_of_faults(producer: int) -> None:
    tally = run_plans(_COMBINATIONS, _of_producer(producer))
    assert tally.schedules == len(ENDS) ** 3
    assert tally.counters["outcomes"]["delivered"] > tally.records // 2
    assert {str(_COMBINATIONS(number)): found for number, found in tally.findings.items()} == {}


def test_numbers_and_combinations_are_the_same() -> None:
    plans = {str(_COMBINATIONS(number)) for number in range(len(_COMBINATIONS))}
    assert len(plans) == len(_COMBINATIONS) == 7**3 * 7 * 6

"""Random plans of a fixed set of seeds: all promises hold."""

from __future__ import annotations

import pytest

from kproducer import build_info
from tests.simulation.explore import run_plans
from tests.simulation.plan import RECORDS, record_count
from tests.simulation.random_plans import random_plan

_PER_BLOCK = 200
# Other seeds for the other kernel: the schedules differ anyway.
_FIRST, _BLOCKS = (0, 20) if build_info().kernel == "native" else (1_000_000, 5)


@pytest.mark.parametrize("block", range(_BLOCKS))
def test_promises_hold_under_random_faults_and_schedules(block: int) -> None:
    first = _FIRST + block * _PER_BLOCK
    tally = run_plans(random_plan, range(first, first + _PER_BLOCK))
    assert tally.schedules == _PER_BLOCK
    # Callers give up after some errors.
    assert tally.records >= 0.9 * RECORDS * _PER_BLOCK
    # Nothing is promised of a producer that delivers nothing.
    assert tally.counters["outcomes"]["delivered"] > tally.records // 2
    # `make simulate SEED=n SCHEDULES=1` prints the smallest plan.
    assert tally.findings == {}


def test_each_plan_has_many_records_and_a_fault() -> None:
    for seed in range(2000):
        plan = random_plan(seed)
        assert record_count(plan) >= RECORDS, seed
        assert plan.faults, seed

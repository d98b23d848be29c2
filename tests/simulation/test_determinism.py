"""The same seed gives the same run, to the byte."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.simulation.random_plans import random_plan
from tests.simulation.simulation import simulate

_ROOT = Path(__file__).parents[2]
_SEEDS = range(100, 150)
_PROGRAM = """
import sys
from tests.simulation.test_determinism import runs
before = set(sys.modules)
print(*runs(), sep="\\n")
print("imported:", *sorted(set(sys.modules) - before), file=sys.stderr)
"""


def runs(seeds: Iterable[int] = _SEEDS) -> list[str]:
    """What can be compared of each run."""
    results = [simulate(random_plan(seed)) for seed in seeds]
    return [f"{r.digest} {r.steps} {r.virtual_s} {sorted(r.outcomes.items())} {r.findings}" for r in results]


@pytest.fixture(scope="module")
def here() -> list[str]:
    return runs()


def test_a_seed_repeats_a_run_whatever_ran_before(here: list[str]) -> None:
    assert runs(reversed(_SEEDS)) == here[::-1]


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_a_seed_repeats_a_run_in_another_process(here: list[str], hash_seed: str) -> None:
    # The order of sets and the addresses of objects differ there.
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        cwd=_ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    # A run that imports a module takes steps that the next one does not take.
    assert done.stderr == "imported:\n"
    assert done.stdout.splitlines() == here


def test_other_seeds_give_other_runs(here: list[str]) -> None:
    assert len({run.split()[0] for run in here}) > len(here) - 5

"""``python -m tests.simulation``: random plans for some time, on all processors; ``make simulate``.

Exit status 1: promises were broken. Their plans are made as small as possible and printed as tests.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from collections.abc import Mapping

from kproducer import build_info
from tests.simulation import random_plans
from tests.simulation.explore import Exploration, Limits, Tally
from tests.simulation.shrink import findings_of, shrink
from tests.simulation.simulation import Result, simulate

_PROGRESS_S = 10.0


def main() -> int:
    """Run; 1 with findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seconds", type=float, help="for how long (60, unless --schedules is given)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--schedules", type=int, help="how many; 1 prints the plan")
    parser.add_argument("--processes", type=int, help="one per processor, unless given")
    parser.add_argument("--exhaustive", action="store_true", help="every combination of a few faults")
    parser.add_argument("--mutants", action="store_true", help="wrong producers: which are noticed")
    arguments = parser.parse_args()
    if arguments.exhaustive or arguments.mutants:
        name = "exhaustive" if arguments.exhaustive else "mutants"
        return int(importlib.import_module(f"tests.simulation.{name}").main())
    if arguments.schedules == 1:
        return _replay(arguments.seed)
    seconds = 60.0 if arguments.seconds is None and arguments.schedules is None else arguments.seconds
    return _explore(arguments.seed, Limits(seconds, arguments.schedules), arguments.processes)


def _replay(seed: int) -> int:
    plan = random_plans.random_plan(seed)
    print(plan)
    findings = findings_of(plan)
    if not findings:
        print(_described(simulate(plan)))
        print("no findings")
        return 0
    print(*findings, sep="\n")
    print(shrink(plan, findings[:1]).as_test())
    return 1


def _described(result: Result) -> str:
    return (
        f"{result.records} records, {result.steps} steps, {result.virtual_s:.3f} s of virtual time,"
        f" outcomes: {_counts(result.outcomes)}; faults: {_counts(result.met)}; digest {result.digest[:16]}"
    )


def _explore(first: int, limits: Limits, processes: int | None) -> int:
    info = build_info()
    print(f"{info.kernel} kernel, {info.client} client; seeds from {first}", flush=True)
    progress = _Progress()
    with Exploration(processes) as exploration:
        tally = exploration.run(first, limits, progress)
        _summarize(tally, progress.seconds, exploration.processes)
        for seed, shrunk in exploration.shrink(tally.findings):
            print(f"\nseed {seed}, smallest plan after {shrunk.runs} schedules:\n\n{shrunk.as_test()}")
    return 1 if tally.findings else 0


class _Progress:
    """Prints a line now and then, and each finding."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._printed = time.monotonic()
        self._known: set[int] = set()

    def __call__(self, tally: Tally, seconds: float) -> None:
        self.seconds = seconds
        for seed in sorted(tally.findings.keys() - self._known):
            self._known.add(seed)
            print(f"seed {seed}: {'; '.join(tally.findings[seed][:3])}", flush=True)
        if time.monotonic() - self._printed >= _PROGRESS_S:
            self._printed = time.monotonic()
            rate = tally.schedules / seconds * 60
            print(
                f"{seconds:6.0f} s: {tally.schedules} schedules, {rate:.0f} per minute,"
                f" {len(tally.findings)} with findings, {tally.peak_kib // 1024} MiB",
                flush=True,
            )


def _summarize(tally: Tally, seconds: float, processes: int) -> None:
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    rate = tally.schedules / max(seconds, 1e-9) * 60
    print(
        f"\n{tally.schedules} schedules in {seconds:.1f} s: {rate:.0f} per minute"
        f" in {processes} processes (load average: {load}; {tally.peak_kib // 1024} MiB each)"
    )
    print(f"{tally.records} records, {len(tally.findings)} schedules with findings")
    for name, counter in tally.counters.items():
        print(f"{name}: {_counts(counter)}")
        missing = [item for item in random_plans.KNOWN.get(name, ()) if item not in counter]
        if missing:
            print(f"{name}, never reached: {', '.join(missing)}")


def _counts(counter: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counter.items(), key=_most_first)) or "none"


def _most_first(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


if __name__ == "__main__":
    sys.exit(main())

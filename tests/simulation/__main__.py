"""``python -m tests.simulation``: random plans for some time, on all processors; ``make simulate``.

Exit status 1: promises were broken. Their plans are made as small as possible and printed as tests. After
Ctrl-C, status 130: what was found until then is printed.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress

from kproducer import build_info
from tests.simulation import random_plans
from tests.simulation.exhaustive import Combinations
from tests.simulation.explore import Exploration, Limits, PlanMaker, Tally
from tests.simulation.plan import Plan
from tests.simulation.shrink import findings_of, shrink
from tests.simulation.simulation import simulate

_PROGRESS_S = 10.0
#: Findings that are printed at once.
_MOST_PRINTED = 50
#: Enough random plans to have each kind of fault.
_PLANS = 3000
#: Of the exhaustive run: batches in flight, and the requests after which other things happen.
_BATCHES, _EVENT_PLACES = 4, (1, 3)
#: The exit status after Ctrl-C, as that of a shell.
_INTERRUPTED = 128 + signal.SIGINT


def main(arguments: Sequence[str]) -> int:
    """Run; 1 with findings, 130 if it was interrupted."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seconds", type=float, help="for how long (60, unless --schedules is given)")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the first plan; with --exhaustive, its number"
    )
    parser.add_argument("--schedules", type=int, help="how many; 1 prints the plan")
    parser.add_argument("--processes", type=int, help="one per processor, unless given")
    parser.add_argument("--exhaustive", action="store_true", help="every combination of a few faults")
    parser.add_argument("--mutants", action="store_true", help="wrong producers: which are noticed")
    chosen = parser.parse_args(arguments)
    if chosen.mutants:
        return int(importlib.import_module("tests.simulation.mutants").main())
    plan_of: PlanMaker = random_plans.random_plan
    seconds, schedules = chosen.seconds, chosen.schedules
    if chosen.exhaustive:
        plan_of = combinations = Combinations(_BATCHES, _EVENT_PLACES)
        schedules = len(combinations) if schedules is None else schedules
    elif seconds is None and schedules is None:
        seconds = 60.0
    if schedules == 1:
        return _replay(plan_of(chosen.seed))
    return _explore(plan_of, chosen.seed, Limits(seconds, schedules), chosen.processes)


def _replay(plan: Plan) -> int:
    print(plan)
    findings = findings_of(plan)
    if findings:
        print(*findings, shrink(plan, findings[:1]).as_test(), sep="\n")
        return 1
    result = simulate(plan)
    print(
        f"{result.records} records, {result.steps} steps, {result.virtual_s:.3f} s of virtual time,"
        f" outcomes: {_counts(result.outcomes)}; faults: {_counts(result.met)}; digest {result.digest[:16]};"
        " no findings"
    )
    return 0


def _explore(plan_of: PlanMaker, first: int, limits: Limits, processes: int | None) -> int:
    info = build_info()
    progress = _Progress(limits.schedules)
    exploration = Exploration(plan_of, processes)
    is_summarized = False
    try:
        print(f"{info.kernel} kernel, {info.client} client; plans from {first}", flush=True)
        with exploration:
            tally = exploration.run(first, limits, progress)
            is_summarized = True
            _summarize(tally, progress.seconds, exploration.processes)
            if plan_of is random_plans.random_plan:
                _print_missing(tally)
            for number, shrunk in exploration.shrink(tally.findings):
                print(
                    f"\nplan {number}, at its smallest after {shrunk.runs} schedules:\n\n{shrunk.as_test()}"
                )
    except KeyboardInterrupt:
        if not is_summarized:
            _summarize(progress.tally, progress.seconds, exploration.processes)
        return _INTERRUPTED
    return 1 if tally.findings else 0


class _Progress:
    """Prints a line now and then, and each finding."""

    def __init__(self, schedules: int | None) -> None:
        self.seconds = 0.0
        self.tally = Tally()
        self._of = "" if schedules is None else f" of {schedules}"
        self._printed = time.monotonic()
        self._known: set[int] = set()

    def __call__(self, tally: Tally, seconds: float) -> None:
        self.seconds, self.tally = seconds, tally
        for number in sorted(tally.findings.keys() - self._known):
            self._known.add(number)
            if len(self._known) <= _MOST_PRINTED:
                print(f"plan {number}: {'; '.join(tally.findings[number][:3])}", flush=True)
        if time.monotonic() - self._printed >= _PROGRESS_S:
            self._printed = time.monotonic()
            rate = tally.schedules / seconds * 60
            print(
                f"{seconds:6.0f} s: {tally.schedules}{self._of} schedules, {rate:.0f} per minute,"
                f" {len(tally.findings)} with findings, {tally.peak_kib // 1024} MiB",
                flush=True,
            )


def _summarize(tally: Tally, seconds: float, processes: int) -> None:
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    rate = tally.schedules / max(seconds, 1e-9) * 60
    print(
        f"\n{tally.schedules} schedules in {seconds:.1f} s: {rate:.0f} per minute"
        f" in {processes} processes (load average: {load}; {tally.peak_kib // 1024} MiB each;"
        f" {tally.cpu_s / max(tally.schedules, 1) * 1000:.1f} ms of CPU time per schedule)"
    )
    print(f"{tally.records} records, {len(tally.findings)} schedules with findings")
    for name, counter in tally.counters.items():
        print(f"{name}: {_counts(counter)}")


def _print_missing(tally: Tally) -> None:
    """What could have been counted, and was not."""
    known = {"met": _plannable_faults()}
    with suppress(ImportError):
        known["reached"] = set(importlib.import_module("tests.simulation.coverage").ALL)
    for name, items in known.items():
        missing = items - tally.counters.get(name, Counter()).keys()
        print(f"{name}, never: {', '.join(sorted(missing)) or 'none'}")


def _plannable_faults() -> set[str]:
    """The names by which ``Result.met`` counts the faults that random plans have."""
    plans = map(random_plans.random_plan, range(_PLANS))
    faults = {fault for plan in plans for fault in plan.faults}
    return {f"{fault.kind} {code}" if (code := getattr(fault, "code", 0)) else fault.kind for fault in faults}


def _counts(counter: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counter.items(), key=_most_first)) or "none"


def _most_first(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


if __name__ == "__main__":
    # The processes end with this one, also if it is told to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:  # in a run that prints what it finds at once
        sys.exit(_INTERRUPTED)

"""``python -m tests.simulation.mutants``: plants bugs, one at a time, and has the simulation find them.

Each bug (``mutant_list``) gets a process of its own, which runs random plans until one has findings. Exit
status 1: a bug was not found, or no longer fits the code.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs

from tests.simulation.mutant_list import MUTANTS
from tests.simulation.mutation import ROOT, MisfitError, Mutant, mutated_sources, plant

#: Of CPU time, in which each bug has to be found: other processes do not count.
SECONDS = 60.0
_PROCESSES = 2
#: A schedule that computes for so long does not end. In CPU time.
_HUNG_S = 20.0


@attrs.frozen
class Verdict:
    """How the search for one bug has ended.

    Attributes:
        name: of the mutant.
        finding: the first one; empty: the bug was not found.
        seed: of the plan that has it; -1: of none.
        schedules: how many were run.
        seconds: of CPU time.
        error: why the search has failed.
    """

    name: str
    finding: str = ""
    seed: int = -1
    schedules: int = 0
    seconds: float = 0.0
    error: str = ""


def find(mutant: Mutant, seconds: float = SECONDS) -> Verdict:
    """Search for one bug, in a process of its own."""
    try:
        mutated_sources(mutant)
    except MisfitError as error:
        return Verdict(mutant.name, error=str(error))
    verdict = _in_child(mutant.name, str(seconds), mutant.kernel, 10 * seconds + 60)
    if verdict.finding:
        healthy = _in_child(mutant.name, f"healthy {verdict.seed}", mutant.kernel, 10 * _HUNG_S)
        if healthy.finding or healthy.error:
            error = f"without the bug, seed {verdict.seed} has the finding {healthy.finding or healthy.error}"
            return attrs.evolve(verdict, finding="", error=error)
    return verdict


def _in_child(name: str, task: str, kernel: str, limit_s: float) -> Verdict:
    environment = {**os.environ, "KPRODUCER_INTERPRETED": "1", "KPRODUCER_KERNEL": kernel}
    environment["PYTHONPATH"] = os.pathsep.join((str(ROOT), str(ROOT / "generated")))
    command = [sys.executable, "-m", "tests.simulation.mutants", "--child", name, task]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return Verdict(name, error=f"the process was not done after {limit_s:g} s")
    try:
        return Verdict(**json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, TypeError, ValueError):
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        return Verdict(name, error=f"the process ended with {done.returncode}: {' '.join(last)}")


def _search(mutant: Mutant, seconds: float) -> Verdict:
    """In the child: plant the bug, and run plans until one has findings."""
    missing = plant(mutant)
    # Only now: this imports what was changed.
    from tests.simulation.simulation import simulate

    seed = schedules = 0
    began_s = time.process_time()

    def spent_s() -> float:
        return time.process_time() - began_s

    def give_up(*_: Any) -> None:
        hung = f"a schedule computes for {_HUNG_S:g} s and does not end"
        _report(Verdict(mutant.name, hung, seed, schedules, spent_s()))

    signal.signal(signal.SIGPROF, give_up)
    while spent_s() < seconds:
        plan = mutant.plans(seed)
        if mutant.reaches(plan):
            schedules += 1
            signal.setitimer(signal.ITIMER_PROF, _HUNG_S)
            findings = simulate(plan).findings
            signal.setitimer(signal.ITIMER_PROF, 0)
            if findings:
                return Verdict(mutant.name, findings[0], seed, schedules, spent_s())
            if schedules == 1 and missing():
                raise MisfitError(f"mutant {mutant.name}: never imported: {missing()}")
        seed += 1
    return Verdict(mutant.name, "", -1, schedules, spent_s())


def _run_healthy(mutant: Mutant, seed: int) -> Verdict:
    """In the child: run one plan without the bug."""
    from tests.simulation.simulation import simulate

    findings = simulate(mutant.plans(seed)).findings
    return Verdict(mutant.name, findings[0] if findings else "", seed, 1)


def _report(verdict: Verdict) -> None:
    """In the child: print the verdict and end, wherever it is."""
    print(json.dumps(attrs.asdict(verdict)), flush=True)
    os._exit(0)


def run(names: Iterable[str] = (), seconds: float = SECONDS, processes: int = _PROCESSES) -> int:
    """Search for each bug, and print a table.

    Args:
        names: of the mutants; none: all.
        seconds: of CPU time for each.
        processes: at the same time.

    Returns:
        The exit status: 1 if a bug was not found.
    """
    wanted = set(names)
    chosen = [mutant for mutant in MUTANTS if not wanted or mutant.name in wanted]
    if unknown := wanted - {mutant.name for mutant in chosen}:
        raise SystemExit(f"there is no mutant {', '.join(sorted(unknown))}; {_names()}")
    print(f"{'mutant':<36} {'found':<6} {'schedules':>9} {'seconds':>8}  first finding", flush=True)
    with ThreadPoolExecutor(processes) as executor:
        verdicts = []
        for verdict in executor.map(lambda mutant: find(mutant, seconds), chosen):
            verdicts.append(verdict)
            print(_row(verdict), flush=True)
    missed = [verdict.name for verdict in verdicts if not verdict.finding]
    print(f"\n{len(verdicts) - len(missed)} of {len(verdicts)} found")
    if missed:
        print(f"not found: {', '.join(missed)}")
    return 1 if missed else 0


def _row(verdict: Verdict) -> str:
    shown = verdict.error or verdict.finding or "-"
    found = "yes" if verdict.finding else "NO"
    return f"{verdict.name:<36} {found:<6} {verdict.schedules:>9} {verdict.seconds:>8.1f}  {shown[:160]}"


def _names() -> str:
    return f"the mutants are {', '.join(mutant.name for mutant in MUTANTS)}"


def main(arguments: Sequence[str] = ()) -> int:
    """Search for all bugs, or those that are named."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="MUTANT", help=_names())
    parser.add_argument("--seconds", type=float, default=SECONDS, help="CPU time for each mutant")
    parser.add_argument("--processes", type=int, default=_PROCESSES, help="at the same time")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.child:
        name, task = chosen.child
        mutant = next(mutant for mutant in MUTANTS if mutant.name == name)
        _report(
            _run_healthy(mutant, int(task.split()[1])) if "healthy" in task else _search(mutant, float(task))
        )
    return run(chosen.names, chosen.seconds, chosen.processes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

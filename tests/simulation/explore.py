"""Exploration: many plans, each of which has a number, on all processors."""

from __future__ import annotations

import faulthandler
import gc
import multiprocessing
import os
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any, TypeAlias

import attrs

from tests.simulation.plan import Plan
from tests.simulation.shrink import Shrunk, findings_of, kind_of, shrink
from tests.simulation.simulation import Result, simulate

#: Plans that a process gets at once. It collects garbage between them.
BLOCK = 25
#: A block that takes longer hangs: virtual time passes and real time does not end, or a loop never yields.
_HUNG_S = 300
#: Findings of different kinds that are shrunk.
MOST_SHRUNK = 5


@attrs.define
class Tally:
    """Sums over some schedules.

    Attributes:
        schedules: how many ran.
        records: how many records callers have tried to send.
        counters: sums of all counters of ``Result``, by the name of its attribute.
        findings: what was wrong, by the number of the plan.
        peak_kib: the largest resident set of a process.
        cpu_s: CPU time of the processes, which a busy machine hardly changes.
    """

    schedules: int = 0
    records: int = 0
    counters: dict[str, Counter[str]] = attrs.field(factory=dict)
    findings: dict[int, list[str]] = attrs.field(factory=dict)
    peak_kib: int = 0
    cpu_s: float = 0.0

    def add(self, number: int, result: Result) -> None:
        self.schedules += 1
        self.records += result.records
        if result.findings:
            self.findings[number] = result.findings
        for field in attrs.fields(Result):
            value = getattr(result, field.name)
            if isinstance(value, Mapping):
                self.counters.setdefault(field.name, Counter()).update(value)

    def merge(self, other: Tally) -> None:
        self.schedules += other.schedules
        self.records += other.records
        for name, counter in other.counters.items():
            self.counters.setdefault(name, Counter()).update(counter)
        self.findings.update(other.findings)
        self.peak_kib = max(self.peak_kib, other.peak_kib)
        self.cpu_s += other.cpu_s


#: Makes a plan from its number. Goes to the processes, so it can be pickled.
PlanMaker: TypeAlias = Callable[[int], Plan]


def run_plans(plan_of: PlanMaker, numbers: Iterable[int]) -> Tally:
    """Run some plans in this process."""
    tally = Tally()
    for number in numbers:
        try:
            tally.add(number, simulate(plan_of(number)))
        except Exception as error:
            tally.schedules += 1
            tally.findings[number] = [f"the simulation raised {error!r}"]
    return tally


def _prepare_process(plan_of: PlanMaker) -> None:
    # Collecting takes longer the more there is: what was imported is left out, and the rest is collected once
    # per block.
    run_plans(plan_of, range(2))
    gc.collect()
    gc.freeze()
    gc.disable()


def _run_block(plan_of: PlanMaker, numbers: range) -> Tally:
    began_s = time.process_time()
    faulthandler.dump_traceback_later(_HUNG_S, exit=True)
    tally = run_plans(plan_of, numbers)
    faulthandler.cancel_dump_traceback_later()
    gc.collect()
    tally.cpu_s = time.process_time() - began_s
    tally.peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return tally


def _shrink(plan: Plan) -> Shrunk:
    return shrink(plan, findings_of(plan)[:1])


@attrs.frozen
class Limits:
    """When an exploration ends: after some seconds, or some schedules; ``None``: no limit."""

    seconds: float | None = None
    schedules: int | None = None


class Exploration:
    """Processes that run schedules. A context manager.

    Args:
        plan_of: makes the plans.
        processes: how many; ``None``: one per processor.
    """

    def __init__(self, plan_of: PlanMaker, processes: int | None = None) -> None:
        self.processes = processes or len(os.sched_getaffinity(0))
        self._plan_of = plan_of
        self._pool = ProcessPoolExecutor(
            self.processes,
            multiprocessing.get_context("spawn"),
            initializer=_prepare_process,
            initargs=(plan_of,),
        )

    def __enter__(self) -> Exploration:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            for process in multiprocessing.active_children():
                process.terminate()
        self._pool.shutdown(cancel_futures=True)

    def run(self, first: int, limits: Limits, on_progress: Callable[[Tally, float], object]) -> Tally:
        """Run the plans from number ``first`` on; none is left out.

        Args:
            first: the first number.
            limits: when to end.
            on_progress: called after each block with the sums so far, and seconds since the first block.

        Raises:
            RuntimeError: a process has died, or hung and ended itself.
        """
        # Starting takes a second or two.
        wait([self._submit(range(0)) for _ in range(self.processes)])
        began = time.monotonic()
        elapsed = lambda: time.monotonic() - began  # noqa: E731
        tally = Tally()
        blocks = _blocks(first, limits.schedules)
        running: dict[Future[Tally], range] = {}
        while True:
            is_over = limits.seconds is not None and elapsed() >= limits.seconds
            # One waits for each process, so that no process waits for the parent.
            while not is_over and len(running) < 2 * self.processes and (block := next(blocks, None)):
                running[self._submit(block)] = block
            if not running:
                return tally
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                block = running.pop(done)
                try:
                    tally.merge(done.result())
                except BrokenProcessPool as error:
                    last = block.stop - 1
                    raise RuntimeError(
                        f"plan {block.start}, {last} or one between has ended its process"
                    ) from error
            on_progress(tally, elapsed())

    def _submit(self, numbers: range) -> Future[Tally]:
        with _deferred_interrupts():  # may start a process
            return self._pool.submit(_run_block, self._plan_of, numbers)

    def shrink(self, findings: dict[int, list[str]]) -> Iterator[tuple[int, Shrunk]]:
        """Shrink the first plan of each kind of finding."""
        firsts: dict[str, int] = {}
        for number in sorted(findings):
            firsts.setdefault(kind_of(findings[number][0]), number)
        chosen = sorted(firsts.values())[:MOST_SHRUNK]
        return zip(chosen, self._pool.map(_shrink, map(self._plan_of, chosen)), strict=True)


@contextmanager
def _deferred_interrupts() -> Iterator[None]:
    """Ctrl-C takes effect at the end; a process that is started here inherits a mask and never sees it.

    The mask alone does not protect this process: the signal may reach a thread of a native library, and
    the interpreter then calls the handler in the main thread.
    """
    resource_tracker.ensure_running()  # its start would unblock the signal
    met: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: met.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
    if met:
        raise KeyboardInterrupt


def _blocks(first: int, schedules: int | None) -> Iterator[range]:
    end: Any = float("inf") if schedules is None else first + schedules
    while first < end:
        yield range(first, min(first + BLOCK, end))
        first += BLOCK

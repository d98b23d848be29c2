"""Scheduler: the tasks of a simulation, one at a time, on one thread and on virtual time.

A task is a greenlet with the stack of a thread: the producer's I/O thread, a caller, an event loop, the fake
brokers. It runs until it blocks, sleeps or passes a point at which another thread could have run instead; the
seed decides then who goes on. When all tasks are blocked, time moves to the next timer. So a run takes no
longer than its computations, and the same seed gives the same run.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import greenlet

#: Virtual time passes with each step, in nanoseconds: between these two, drawn evenly.
_STEP_NS = (200, 20_000)
#: More steps than these in a virtual second: a task spins. Simulations of random plans make up to 2,000.
MOST_STEPS = 20_000


class SimulationError(AssertionError):
    """The run did not end as it should: all tasks wait for ever, or one of them spins."""


class Task:
    """One thread of the simulated process.

    Attributes:
        name: for people.
        number: its identity, as ``threading.get_ident`` gives it.
        result, error: how its function ended.
        locals: what ``threading.local`` objects hold for it, by their id.
        waits_for: what it is blocked on; ``None``: it is not.
        steps: how often it was resumed.
    """

    __slots__ = (
        "_was_woken", "error", "greenlet", "has_ended", "is_ready", "locals", "loop", "name", "number",
        "on_end", "result", "steps", "thread", "waits_for",
    )  # fmt: skip

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.greenlet: Any = None
        self.thread: Any = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.has_ended = False
        self.is_ready = False
        self.locals: dict[int, dict[str, Any]] = {}
        self.loop: asyncio.AbstractEventLoop | None = None
        self.on_end: list[Callable[[], object]] = []
        self.waits_for: str | None = None
        self.steps = 0
        self._was_woken = False

    def __repr__(self) -> str:
        return f"<{self.name}: {self.waits_for or ('ended' if self.has_ended else 'ready')}>"


class Timer:
    """An action at a virtual time."""

    __slots__ = ("action", "at_ns")

    def __init__(self, at_ns: int, action: Callable[[], object] | None) -> None:
        self.at_ns = at_ns
        self.action = action

    def cancel(self) -> None:
        self.action = None


class Scheduler:
    """Runs tasks. One per simulation.

    Args:
        seed: decides everything that is left open.
        switch_rate: the probability that a task is interrupted where it could be.

    Attributes:
        now_ns: virtual monotonic time.
        current: the task that runs; ``None``: an action of a timer, or nobody.
        steps: how many times a task was resumed.
        record: called with each step, if it is to be recorded.
    """

    def __init__(self, seed: object, switch_rate: float = 0.05) -> None:
        self.random = random.Random(f"schedule {seed}")
        self.now_ns = 1_000_000_000
        self.current: Task | None = None
        self.steps = 0
        self.tasks: list[Task] = []
        self._switch_rate = switch_rate
        self._ready: list[Task] = []
        self._timers: list[tuple[int, int, Timer]] = []
        self._timer_count = 0
        self._hub = greenlet.getcurrent()
        self.record: Callable[[str], object] | None = None

    # -- tasks -------------------------------------------------------------------------------------------

    def spawn(self, name: str, function: Callable[[], Any]) -> Task:
        """A new task, which begins when the scheduler chooses it."""
        task = Task(name, len(self.tasks) + 1)
        self.tasks.append(task)

        def body() -> None:
            try:
                task.result = function()
            except greenlet.GreenletExit:
                pass
            except BaseException as error:
                task.error = error
            task.has_ended = True
            for action in task.on_end:
                action()

        task.greenlet = greenlet.greenlet(body, parent=self._hub)
        self._make_ready(task)
        return task

    def wake(self, task: Task) -> None:
        """End the ``block`` of a task. Does nothing if it is not blocked, or was woken already."""
        if task.waits_for is not None and not task.is_ready:
            task._was_woken = True
            self._make_ready(task)

    def block(self, what: str, timeout_ns: int | None = None) -> bool:
        """Suspend the current task until ``wake`` or the timeout; ``False``: the timeout."""
        task = self.current
        if task is None:
            raise SimulationError(f"nobody can wait here: {what}")
        task.waits_for = what
        task._was_woken = False
        timer = (
            None if timeout_ns is None else self.at(self.now_ns + timeout_ns, lambda: self._time_out(task))
        )
        self._hub.switch()
        task.waits_for = None
        if timer is not None:
            timer.cancel()
        return task._was_woken

    def _time_out(self, task: Task) -> None:
        if not task.is_ready:
            self._make_ready(task)

    def pause(self) -> None:
        """Another thread may run here instead of the current task, if the seed says so."""
        task = self.current
        if task is not None and self._ready and self.random.random() < self._switch_rate:
            self._make_ready(task)
            self._hub.switch()
            task.steps -= 1  # not of its own

    def give_way(self) -> None:
        """Other tasks may run first; for calls that release the interpreter lock."""
        task = self.current
        if task is not None:
            self._make_ready(task)
            self._hub.switch()

    def join(self, task: Task, timeout_ns: int | None = None) -> None:
        """Suspend the current task until another one has ended, or for this virtual time."""
        me = self.current
        assert me is not None
        deadline_ns = None if timeout_ns is None else self.now_ns + timeout_ns
        while not task.has_ended:
            left_ns = None if deadline_ns is None else deadline_ns - self.now_ns
            if left_ns is not None and left_ns <= 0:
                return
            task.on_end.append(partial(self.wake, me))
            self.block(f"the end of {task.name}", left_ns)

    def sleep(self, ns: int) -> None:
        """Suspend the current task for this virtual time."""
        self.block("sleep", max(ns, 0))

    def _make_ready(self, task: Task) -> None:
        task.is_ready = True
        self._ready.append(task)

    # -- time --------------------------------------------------------------------------------------------

    def at(self, at_ns: int, action: Callable[[], object]) -> Timer:
        """Call ``action()`` at this time, on no task: it must not block."""
        timer = Timer(at_ns, action)
        self._timer_count += 1
        heapq.heappush(self._timers, (at_ns, self._timer_count, timer))
        return timer

    def after(self, ns: int, action: Callable[[], object]) -> Timer:
        """Call ``action()`` after this time."""
        return self.at(self.now_ns + ns, action)

    # -- the loop ----------------------------------------------------------------------------------------

    def run(self, until: Callable[[], bool], limit_ns: int) -> None:
        """Run tasks until the condition holds, or for this virtual time.

        Raises:
            SimulationError: nothing can happen any more, the time is over, or a task spins.
        """
        deadline_ns = self.now_ns + limit_ns
        draw = self.random.random
        shortest, longest = _STEP_NS
        spread = longest - shortest
        quiet_since = self.now_ns
        steps_since = 0
        while not until():
            ready = self._ready
            timers = self._timers
            while timers and timers[0][0] <= self.now_ns:
                timer = heapq.heappop(timers)[2]
                if timer.action is not None:
                    timer.action()
            if not ready:
                while timers and timers[0][2].action is None:
                    heapq.heappop(timers)
                if not timers:
                    raise SimulationError(f"everybody waits: {self.describe()}")
                self.now_ns = max(self.now_ns, timers[0][0])
                if self.now_ns > deadline_ns:
                    raise SimulationError(f"not done after {limit_ns / 1e9:g} s: {self.describe()}")
                continue
            # The last one takes the place of the chosen one: the order among ready tasks has no meaning.
            index = int(draw() * len(ready))
            task = ready[index]
            last = ready.pop()
            if last is not task:
                ready[index] = last
            task.is_ready = False
            task.steps += 1
            self.steps += 1
            steps_since += 1
            if self.now_ns - quiet_since > 1_000_000_000:
                quiet_since, steps_since = self.now_ns, 0
            elif steps_since > MOST_STEPS:
                raise SimulationError(f"{steps_since} steps in less than a second: {self.describe()}")
            self.now_ns += shortest + int(draw() * spread)
            if self.record is not None:
                self.record(f"{self.now_ns} {task.name}")
            self._resume(task)

    def _resume(self, task: Task) -> None:
        self.current = task
        loop = task.loop
        if loop is not None:
            asyncio._set_running_loop(loop)
        task.greenlet.switch()
        loop = asyncio._get_running_loop()
        if loop is not None or task.loop is not None:
            task.loop = loop
            asyncio._set_running_loop(None)
        self.current = None

    def describe(self) -> str:
        """The tasks that have not ended."""
        return ", ".join(f"{task!r} after {task.steps} steps" for task in self.tasks if not task.has_ended)

    def end(self) -> None:
        """Throw away the tasks that have not ended, and forget everything."""
        for task in self.tasks:
            if not task.has_ended:
                self.current = task
                task.greenlet.throw(greenlet.GreenletExit)
                asyncio._set_running_loop(None)
                self.current = None
        self.tasks.clear()
        self._ready.clear()
        self._timers.clear()

"""Every order of events within bounds, each state once; and walks at random where there are too many."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import attrs

from tests.spark.exactly_once_model.actors import Actors, DriverSpec, Node, TaskSpec
from tests.spark.exactly_once_model.checks import outcome_after_crash, violation
from tests.spark.exactly_once_model.kafka_model import BlockedError
from tests.spark.exactly_once_model.spark_model import Action, Bounds, Stage, World

#: The last action, and what came before it.
Trace = tuple[Action, "Trace"] | None


@attrs.define
class Report:
    """What an exploration has seen.

    Attributes:
        states: different ones.
        transitions: steps from one to another, among them those to states that were known.
        crashes: states of Kafka and the commit log from which a single run was let go on alone, once for each
            division.
        ends: how runs ended, in states in which nothing more can happen.
        executions: how often a protocol was run.
        seconds: processor time.
        is_complete: all states within the bounds were seen.
        violation: the first one, or ``None``.
        trace: how it came about.
    """

    states: int = 0
    transitions: int = 0
    crashes: int = 0
    executions: int = 0
    seconds: float = 0.0
    is_complete: bool = False
    violation: str | None = None
    trace: list[str] = attrs.field(factory=list)
    ends: dict[str, int] = attrs.field(factory=dict)

    def __str__(self) -> str:
        text = (
            f"{self.states} states, {self.transitions} steps, {self.crashes} restarts alone, "
            f"{self.executions} protocol runs, {self.seconds:.1f} s"
        )
        if not self.is_complete:
            text += ", not complete"
        if self.violation is not None:
            text += "\n".join(["", f"VIOLATION: {self.violation}", *self.trace])
        return text


def explore(
    new_world: Callable[[], World], actors: Actors, *, max_states: int = 10**9, restarts: bool = True
) -> Report:
    """Go through all states, depth first; stop at the first violation.

    Args:
        new_world: the first state.
        actors: those of the world, for the figures.
        max_states: give up after so many.
        restarts: from every state, see what a restart alone comes to.
    """
    report = Report()
    started = time.process_time()
    first = new_world()
    _explore(first, report, max_states, restarts)
    report.executions = actors.executions
    report.seconds = time.process_time() - started
    return report


def _explore(first: World, report: Report, max_states: int, restarts: bool) -> None:
    seen = {hash(first.key())}
    restarted: set[int] = set()
    stack: list[tuple[World, Trace]] = [(first, None)]
    while stack:
        world, trace = stack.pop()
        report.states += 1
        if report.states > max_states:
            return
        wrong = _wrong_restart(world, restarted, report) if restarts else None
        if wrong is not None:
            report.violation, report.trace = wrong, shown(trace)
            return
        has_next = False
        for action in world.actions():
            following = world.copy()
            try:
                following.apply(action)
            except BlockedError:
                continue
            has_next = True
            report.transitions += 1
            wrong = violation(following)
            if wrong is not None:
                report.violation, report.trace = wrong, shown((action, trace))
                return
            key = hash(following.key())
            if key not in seen:
                seen.add(key)
                stack.append((following, (action, trace)))
        if not has_next:
            _count_ends(world, report)
            if world.actors and not any(map(world.kafka.has_open, world.kafka.transactions)):
                report.violation, report.trace = "somebody waits for ever", shown(trace)
                return
    report.is_complete = True


def _wrong_restart(world: World, restarted: set[int], report: Report) -> str | None:
    key = hash((world.kafka.key(), world.checkpoints, _faults(world)))
    if key in restarted:
        return None
    restarted.add(key)
    report.crashes += 1
    number = min(world.checkpoints[0], len(world.bounds.divisions) - 1)
    for division in range(len(world.bounds.divisions[number])):
        wrong = outcome_after_crash(world.copy(), division)
        if wrong is not None:
            return wrong
    return None


def _faults(world: World) -> tuple[int, ...]:
    return tuple(world.budgets[each] for each in ("retentions", "first_retentions", "lost_markers"))


def _count_ends(world: World, report: Report) -> None:
    for run in world.runs:
        name = run.stage.name.lower() + (f" {run.error}" if run.stage is Stage.FAILED else "")
        report.ends[name] = report.ends.get(name, 0) + 1


def walk(world: World, choices: Sequence[int]) -> str | None:
    """One order of events: each choice is taken among what may happen then. Returns the violation.

    Half of the choices let the actor go on that went on last, one of sixteen is for anything, the others for
    any step: faults at every step would let nothing come to an end. At the end everybody dies, and a run goes
    on alone.
    """
    for choice in choices:
        world, action = _take(world, choice)
        if action is None:
            break
        wrong = violation(world)
        if wrong is not None:
            return wrong
    for division in range(len(world.bounds.divisions[-1])):
        wrong = outcome_after_crash(world.copy(), division)
        if wrong is not None:
            return wrong
    return None


def _take(world: World, choice: int) -> tuple[World, Action | None]:
    actions = list(world.actions())
    if choice % 16:
        actions = [each for each in actions if each.kind in ("step", "log", "settle")] or actions
    # The process that went on last is the last one here.
    first = -1 if choice % 4 in (1, 2) else choice // 16
    for turn in range(len(actions)):
        action = actions[(first - turn) % len(actions)]
        following = world.copy()
        try:
            following.apply(action)
        except BlockedError:
            continue
        return following, action
    return world, None


def shown(trace: Trace) -> list[str]:
    """A trace, one event a line, the first one first."""
    lines = []
    while trace is not None:
        action, trace = trace
        lines.append(_line(action))
    return lines[::-1]


def _line(action: Action) -> str:
    subject = action.subject.spec if isinstance(action.subject, Node) else action.subject
    if isinstance(subject, TaskSpec):
        rows = [name for chunk in subject.chunks for _, name in chunk]
        who = f"run {subject.run} batch {subject.number} task {subject.task}.{subject.attempt} {rows}"
    elif isinstance(subject, DriverSpec):
        what = "commit" if subject.does_commit else "abort"
        who = f"run {subject.run} batch {subject.number} driver {what}"
    else:
        who = str(subject)
    return f"  {action.kind:14} {who} ({action.choice})"


def bounds_of(*divisions: Sequence[Sequence[str]], batches: int = 1, **others: int | bool) -> Bounds:
    """Bounds from divisions as words: ``["a", "b"]`` is two tasks of a row each, the same in each batch."""
    return Bounds(
        divisions=tuple(
            tuple(tuple(tuple((number, row) for row in task) for task in division) for division in divisions)
            for number in range(batches)
        ),
        **others,  # type: ignore[arg-type]
    )

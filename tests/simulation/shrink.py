"""Shrinking: from a plan with findings to the smallest one that still has a finding of the same kind.

A smaller plan often needs another schedule, so each is tried with a few seeds. Nothing is random: the same
plan always shrinks to the same one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs

from tests.simulation import plan as planned
from tests.simulation.plan import AtTime, Caller, OnRequest, Plan
from tests.simulation.simulation import simulate

#: Schedules that are tried per smaller plan, besides the last one that had a finding.
_SEEDS = 3
#: Schedules per shrinking, at most.
MOST_RUNS = 4000
#: Values without chance, and then those that most plans have.
_WITHOUT_CHANCE: dict[str, tuple[Any, ...]] = {
    "partial_rate": (0.0, 0.05),
    "switch_rate": (0.0, 0.05),
    "hand_overs": (None, 0.0),
    "latency_ms": ((1.0, 1.0), (0.05, 0.5)),
}
#: What has reductions of its own.
_PARTS = ("seed", "callers", "faults", "settings", "topics", "brokers")


def findings_of(plan: Plan) -> list[str]:
    """The findings of a simulation, also if the simulation itself fails."""
    try:
        return simulate(plan).findings
    except Exception as error:
        return [f"the simulation raised {error!r}"]


def kind_of(finding: str) -> str:
    """The finding without what differs from run to run: numbers, names in quotes, contents of brackets."""
    text = re.sub(r"\"[^\"]*\"|b?'[^']*'|<[^<>]*>", "", finding)
    before = ""
    while before != text:
        before, text = text, re.sub(r"\([^()]*\)|\[[^][]*\]|\{[^{}]*\}", "", text)
    text = re.sub(r"\d+(\.\d+)?", "#", text)
    return re.sub(r"[\s,:]+( after # steps[\s,]*)*$", "", text).strip()


@attrs.frozen
class Shrunk:
    """The end of a shrinking.

    Attributes:
        plan: the smallest plan.
        findings: of that plan.
        runs: how many schedules it took.
    """

    plan: Plan
    findings: list[str]
    runs: int

    def as_test(self) -> str:
        """A test that fails until the cause is fixed, as Python source."""
        fields = "".join(f"        {name}={text},\n" for name, text in planned.sources(self.plan))
        classes = sorted({"Plan", *re.findall(r"\b([A-Z]\w+)\(", fields)})
        name = re.sub(r"\W+", "_", re.sub(r"[#\d]", "", kind_of(self.findings[0]).lower())).strip("_")[:60]
        comments = "".join(f"    # {finding}\n" for finding in self.findings[:3])
        return (
            f"from tests.simulation.plan import {', '.join(classes)}\n"
            "from tests.simulation.simulation import simulate\n\n\n"
            f"def test_{name.rstrip('_') or 'found'}() -> None:\n"
            f"{comments}    plan = Plan(\n{fields}    )\n    assert not simulate(plan).findings\n"
        )


def shrink(
    plan: Plan,
    findings: Iterable[str],
    *,
    run: Callable[[Plan], list[str]] = findings_of,
    most_runs: int = MOST_RUNS,
) -> Shrunk:
    """Make a plan as small as possible.

    Args:
        plan: a plan whose simulation has these findings.
        findings: the smaller plan has a finding of the kind of one of them.
        run: returns the findings of a plan.
        most_runs: how many schedules to try.
    """
    return _Shrinking(plan, list(findings), run, most_runs).done()


class _Shrinking:
    def __init__(
        self, plan: Plan, findings: list[str], run: Callable[[Plan], list[str]], most_runs: int
    ) -> None:
        self._plan = plan
        self._findings = findings
        self._kinds = {kind_of(finding) for finding in findings}
        self._run = run
        self._left = most_runs
        self._runs = 0
        self._tried: set[str] = set()

    def done(self) -> Shrunk:
        while sum([self._adopt_one_of(candidates) for candidates in _REDUCTIONS]):
            pass
        return Shrunk(self._plan, self._findings, self._runs)

    def _adopt_one_of(self, candidates: Callable[[Plan], Iterator[Plan]]) -> bool:
        """Go to smaller plans of one sort for as long as there are any; whether there were."""
        has_adopted = False
        is_smaller = True
        while is_smaller:
            is_smaller = any(self._adopt(each) for each in candidates(self._plan))
            has_adopted = has_adopted or is_smaller
        return has_adopted

    def _adopt(self, candidate: Plan) -> bool:
        """Whether the candidate has a finding of the same kind; it takes the place of the plan then."""
        source = str(attrs.evolve(candidate, seed=0))
        if source in self._tried:
            return False
        self._tried.add(source)
        for seed in dict.fromkeys((self._plan.seed, *range(_SEEDS))):
            if self._runs >= self._left:
                return False
            self._runs += 1
            tried = attrs.evolve(candidate, seed=seed)
            found = [text for text in self._run(tried) if kind_of(text) in self._kinds]
            if found:
                self._plan, self._findings = tried, found
                return True
        return False


# -- smaller plans, the largest steps first --------------------------------------------------------------


def _shorter(items: tuple[Any, ...], least: int = 0) -> Iterator[tuple[Any, ...]]:
    """Without a half, a quarter, ..., one item."""
    size = len(items)
    while size:
        for start in range(0, len(items), size):
            rest = items[:start] + items[start + size :]
            if len(rest) >= least:
                yield rest
        size //= 2


def _with_callers(plan: Plan, number: int, *callers: Caller) -> Plan:
    return attrs.evolve(plan, callers=plan.callers[:number] + callers + plan.callers[number + 1 :])


def _fewer_callers(plan: Plan) -> Iterator[Plan]:
    for callers in _shorter(plan.callers, 1):
        yield attrs.evolve(plan, callers=callers)


def _fewer_faults(plan: Plan) -> Iterator[Plan]:
    for faults in _shorter(plan.faults):
        yield attrs.evolve(plan, faults=faults)


def _fewer_steps(plan: Plan) -> Iterator[Plan]:
    for number, caller in enumerate(plan.callers):
        for steps in _shorter(caller.steps):
            yield _with_callers(plan, number, attrs.evolve(caller, steps=steps))
        for place, step in enumerate(caller.steps):
            if inner := _inner(step):
                yield _with_callers(plan, number, _with_step(caller, place, *inner))
                for fewer in _shorter(inner):
                    smaller: Any = attrs.evolve(step, steps=fewer)  # type: ignore[call-arg]
                    yield _with_callers(plan, number, _with_step(caller, place, smaller))


def _inner(step: planned.Step) -> tuple[planned.Step, ...]:
    """The steps of a transaction."""
    return getattr(step, "steps", ())


def _with_step(caller: Caller, place: int, *steps: planned.Step) -> Caller:
    return attrs.evolve(caller, steps=caller.steps[:place] + steps + caller.steps[place + 1 :])


def _without_transactions(plan: Plan) -> Iterator[Plan]:
    if "transactional_id" in plan.settings:
        settings = {name: value for name, value in plan.settings.items() if name != "transactional_id"}
        callers = [
            attrs.evolve(
                caller,
                steps=tuple(
                    each
                    for step in caller.steps
                    for each in (step.steps if isinstance(step, planned.Transaction) else (step,))
                ),
            )
            for caller in plan.callers
        ]
        yield attrs.evolve(plan, settings=settings, callers=tuple(callers))


def _in_one_caller(plan: Plan) -> Iterator[Plan]:
    if len(plan.callers) > 1:
        steps = tuple(step for caller in plan.callers for step in caller.steps)
        yield attrs.evolve(plan, callers=(Caller(steps),))


def _fewer_settings(plan: Plan) -> Iterator[Plan]:
    # Without an id there would be another finding: that transactions need one.
    kept = ("transactional_id",) if any(map(_has_transaction, plan.callers)) else ()
    for names in _shorter(tuple(name for name in plan.settings if name not in kept)):
        yield attrs.evolve(plan, settings={name: plan.settings[name] for name in (*names, *kept)})


def _has_transaction(caller: Caller) -> bool:
    return any(
        isinstance(each, planned.Transaction) for step in caller.steps for each in (step, *_inner(step))
    )


def _smaller_cluster(plan: Plan) -> Iterator[Plan]:
    for brokers in range(1, plan.brokers):
        faults = tuple(
            attrs.evolve(fault, broker_id=min(fault.broker_id, brokers))
            if isinstance(fault, AtTime)
            else fault
            for fault in plan.faults
        )
        yield attrs.evolve(plan, brokers=brokers, faults=faults)
    if len(plan.topics) > 1:
        for name, count in plan.topics.items():
            yield _with_topics(plan, {name: count})
    for name, count in plan.topics.items():
        for fewer in range(1, count):
            yield _with_topics(plan, {**plan.topics, name: fewer})


def _with_topics(plan: Plan, topics: dict[str, int]) -> Plan:
    """What is about other topics and partitions is about the first topic and the last partition."""
    first = next(iter(topics))

    def in_topics(item: Any) -> Any:
        if hasattr(item, "topic"):
            item = attrs.evolve(item, topic=item.topic if item.topic in topics else first)
            if hasattr(item, "partition") and item.partition is not None:
                item = attrs.evolve(item, partition=min(item.partition, topics[item.topic] - 1))
        if hasattr(item, "steps"):
            item = attrs.evolve(item, steps=tuple(map(in_topics, item.steps)))
        return item

    return attrs.evolve(
        plan,
        topics=topics,
        callers=tuple(map(in_topics, plan.callers)),
        faults=tuple(map(in_topics, plan.faults)),
    )


def _plainer_world(plan: Plan) -> Iterator[Plan]:
    for field in attrs.fields(Plan):
        present = getattr(plan, field.name)
        values = _WITHOUT_CHANCE.get(field.name, (planned.default_of(field),))
        if field.name not in _PARTS:
            for value in values[: values.index(present) if present in values else None]:
                yield attrs.evolve(plan, **{field.name: value})


def _plainer_callers(plan: Plan) -> Iterator[Plan]:
    for number, caller in enumerate(plan.callers):
        if caller.uses_asyncio:
            yield _with_callers(plan, number, attrs.evolve(caller, uses_asyncio=False))
        for place, step in enumerate(caller.steps):
            for plainer in _plainer(step):
                yield _with_callers(plan, number, _with_step(caller, place, plainer))


def _plainer(step: planned.Step) -> Iterator[Any]:
    """Steps that do less, or with fewer arguments."""
    for place, inner in enumerate(_inner(step)):
        for plainer in _plainer(inner):
            steps = (*_inner(step)[:place], plainer, *_inner(step)[place + 1 :])
            yield attrs.evolve(step, steps=steps)  # type: ignore[call-arg]
    for field in attrs.fields(type(step)):
        present = getattr(step, field.name)
        default = planned.default_of(field)
        if default is attrs.NOTHING or present == default:
            continue
        yield attrs.evolve(step, **{field.name: default})
        if field.name in ("count", "size"):
            for value in dict.fromkeys((present // 4, present // 2, present - 1)):
                if value > default:
                    yield attrs.evolve(step, **{field.name: value})


def _plainer_faults(plan: Plan) -> Iterator[Plan]:
    for number, fault in enumerate(plan.faults):
        for plainer in _earlier(fault):
            yield attrs.evolve(plan, faults=(*plan.faults[:number], plainer, *plan.faults[number + 1 :]))


def _earlier(fault: planned.Fault) -> Iterator[planned.Fault]:
    if isinstance(fault, OnRequest):
        for number in range(fault.number):
            yield attrs.evolve(fault, number=number)
        return
    for at_s in (0.0, 0.01, 0.1):
        if at_s < fault.at_s:
            yield attrs.evolve(fault, at_s=at_s)


_REDUCTIONS: tuple[Callable[[Plan], Iterator[Plan]], ...] = (
    _fewer_callers,
    _fewer_faults,
    _fewer_steps,
    _without_transactions,
    _smaller_cluster,
    _fewer_settings,
    _plainer_world,
    _in_one_caller,
    _plainer_callers,
    _plainer_faults,
)

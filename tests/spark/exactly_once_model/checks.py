"""What has to be true after every step, and when a run may be refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kproducer.spark.errors import (
    CommitFailedError,
    ReplayMismatchError,
    StaleReplayError,
    UncertainReplayError,
)
from kproducer.spark.exactly_once.write_state import Decision, Marker
from tests.spark.exactly_once_model.actors import IDENTITY
from tests.spark.exactly_once_model.kafka_model import BlockedError, Phase, Row
from tests.spark.exactly_once_model.spark_model import Run, Stage, World

#: What a run may end in when others were in its way, or answers were lost.
_PASSING = ("CommitFailedError", "FencedError", "KafkaTimeoutError", "TransactionAbortedError")


def violation(world: World) -> str | None:
    """What is wrong in this state, or with how it was reached; takes the world's refusals away."""
    refusals, world.refusals = world.refusals, []
    for name, error in refusals:
        wrong = _unjustified(world, name, error)
        if wrong:
            return wrong
    committed = world.kafka.committed()
    key = (committed, world.checkpoints)
    if key not in world.verdicts:
        world.verdicts[key] = _wrong_rows(world, committed)
    return world.verdicts[key]


def _wrong_rows(world: World, all_committed: Sequence[tuple[str, tuple[Row, ...]]]) -> str | None:
    parts: dict[int, list[tuple[str, tuple[Row, ...]]]] = {}
    for transactional_id, rows in all_committed:
        parts.setdefault(rows[0][0], []).append((transactional_id, tuple(sorted(rows))))
    for number, committed in parts.items():
        wrong = _wrong_parts(world, number, committed)
        if wrong:
            return wrong
    visible = {row for _, rows in all_committed for row in rows}
    for done in world.checkpoints:
        for number in range(done):
            missing = _batch(world, number) - visible
            if missing:
                return f"the commit log has batch {number}, readers never see {sorted(missing)}"
    return None


def _wrong_parts(world: World, number: int, committed: list[tuple[str, tuple[Row, ...]]]) -> str | None:
    counts = Counter(row for _, rows in committed for row in rows)
    twice = sorted(row for row, count in counts.items() if count > 1)
    if twice:
        return f"visible twice: {twice}"
    foreign = sorted(set(counts) - _batch(world, number))
    if foreign:
        return f"foreign rows: {foreign}"
    found = {(name, rows) for name, rows in committed}
    for division in world.bounds.divisions[number]:
        tasks = {(IDENTITY.task(task), tuple(sorted(rows))) for task, rows in enumerate(division)}
        if found <= tasks:
            return None
    return f"not whole tasks of one division: {sorted(found)}"


def _batch(world: World, number: int) -> set[Row]:
    return {row for rows in world.bounds.divisions[number][0] for row in rows}


def _unjustified(world: World, name: int, error: Exception) -> str | None:
    run = world.runs[name]
    if isinstance(error, ReplayMismatchError):
        right = _is_divided_otherwise(world, run)
    elif isinstance(error, StaleReplayError):
        right = _latest(world) > run.number
    elif isinstance(error, UncertainReplayError):
        right = any(
            world.budgets[each] < getattr(world.bounds, each) for each in ("retentions", "lost_markers")
        )
    else:
        right = type(error).__name__ in _PASSING and _was_disturbed(world)
    return None if right else f"run {name} was refused without need: {error!r}"


def _is_divided_otherwise(world: World, run: Run) -> bool:
    """Whether a task is committed with other rows than it has in this run."""
    division = [tuple(sorted(rows)) for rows in world.division(run)]
    for transactional_id, rows in world.kafka.committed():
        if rows[0][0] == run.number:
            task = int(transactional_id.rpartition("-")[2])
            if task >= len(division) or division[task] != tuple(sorted(rows)):
                return True
    return False


def _is_complete(world: World, number: int) -> bool:
    """Whether every row of the batch is committed."""
    return _batch(world, number) <= {row for _, rows in world.kafka.committed() for row in rows}


def _latest(world: World) -> int:
    """The highest number that Kafka has of this query."""
    numbers = [-1]
    for group, offset in world.kafka.offsets.items():
        parse = Decision.from_offset if group == IDENTITY.driver else Marker.from_offset
        found = parse(group, offset)
        assert found is not None
        numbers.append(found.number)
    return max(numbers)


def _was_disturbed(world: World) -> bool:
    bounds = world.bounds
    return len(world.runs) > 1 or any(left < getattr(bounds, name) for name, left in world.budgets.items())


def outcome_after_crash(world: World, division: int, checkpoint: int = 0) -> str | None:
    """Everybody dies, and one run goes on alone, without faults. What is wrong with what comes of it?

    The world is spoilt.
    """
    world.crash_everything()
    if world.checkpoints[checkpoint] >= len(world.bounds.divisions):
        return None
    for budget in world.budgets:
        world.budgets[budget] = 0
    open_before = {
        each: what for each, what in world.kafka.transactions.items() if what.phase is Phase.ONGOING
    }
    was_complete = _is_complete(world, world.checkpoints[checkpoint])
    name = world.start(checkpoint, division)
    error: Exception | None = None
    while world.runs[name].stage not in (Stage.DONE, Stage.FAILED):
        blocked = True
        for action in [each for each in world.actions() if each.kind in ("step", "log", "settle")]:
            trial = world.copy()
            try:
                trial.apply(action)
            except BlockedError:
                continue
            world, blocked = trial, False
            break
        if blocked:
            # A reader of stable offsets waits for a transaction whose owner is dead, until its time is over.
            left = [each for each, what in open_before.items() if world.kafka.transactions[each] is what]
            if not left:
                return "the restart waits for ever"
            world.kafka.time_out(left[0])
            continue
        error = world.refusals[-1][1] if world.refusals else error
        wrong = violation(world)
        if wrong:
            return f"restart with division {division}: {wrong}"
    if isinstance(error, CommitFailedError):
        return f"restart with division {division}, alone, ended in {error!r}"
    if isinstance(error, ReplayMismatchError) and was_complete:
        return f"restart with division {division}: every row was committed, and it ended in {error!r}"
    return None

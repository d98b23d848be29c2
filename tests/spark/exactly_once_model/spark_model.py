"""World: Spark runs over a Kafka model; what may happen next, and what follows.

A run is a start of the query from a checkpoint. It divides each batch into tasks by the division it was
started with, waits for one message of each task, commits, writes Spark's commit log, and goes on with the
next batch. A new run may start at any moment, beside the older ones: those are paused drivers that may go on
at any moment (a crash is a pause without end). Attempts that Spark has given up, and those of drivers that
failed, go on too.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, NamedTuple

import attrs

from kproducer.errors import FencedError, IllegalStateError, KafkaError, TransactionAbortedError
from tests.spark.exactly_once_model.actors import (
    IDENTITY,
    Actors,
    Answer,
    Call,
    DriverSpec,
    Node,
    TaskSpec,
    chunked,
)
from tests.spark.exactly_once_model.kafka_model import KafkaModel, Phase, Row

#: A batch, divided into tasks.
Division = tuple[tuple[Row, ...], ...]


@attrs.frozen(kw_only=True)
class Bounds:
    """What may happen, and how often.

    Attributes:
        divisions: for each batch: the ways to divide its rows into tasks; a run has the same way for all.
        runs: starts of the query.
        attempts: further attempts of tasks that Spark starts beside others (speculation, lost executors).
        task_failures: how often a task may fail in a run before the run fails.
        time_outs: transactions that brokers end because their time is over.
        lost_answers: calls that have their effect, or part of it, and then raise a timeout.
        failed_calls: calls that raise a timeout and have no effect.
        expiries: transactional ids that the coordinator forgets.
        retentions: everybody dies, and all committed offsets are deleted, once there is a batch in the commit
            log.
        first_retentions: the same at any time.
        lost_markers: the committed offset of one task is deleted, and no other, once there is such a batch.
        copies: checkpoints that are copied, to be used beside the first.
        restores: checkpoints that are put back by one batch.
        rows_in_chunk: how many rows a task sends at a time.
        fine: requests of one call are steps of their own, and end in any order.
    """

    divisions: tuple[tuple[Division, ...], ...]
    runs: int = 2
    attempts: int = 0
    task_failures: int = 0
    time_outs: int = 0
    lost_answers: int = 0
    failed_calls: int = 0
    expiries: int = 0
    retentions: int = 0
    first_retentions: int = 0
    lost_markers: int = 0
    copies: int = 0
    restores: int = 0
    rows_in_chunk: int = 10
    fine: bool = False


class Stage(IntEnum):
    """What a run does."""

    TASKS = 0
    COMMIT = 1
    #: The sink has committed, Spark's commit log does not know yet.
    LOG = 2
    DONE = 3
    FAILED = 4


#: Parts of the answer to a call that makes several requests.
Parts = tuple[Any, ...]


class Run(NamedTuple):
    """One start of the query.

    Attributes:
        checkpoint: which.
        division: which of the ways to divide a batch.
        number: the batch.
        messages: of each task, the end of the attempt that gave it, or ``None``.
        failures: of tasks.
        error: the name of what ended it.
    """

    checkpoint: int
    division: int
    number: int
    stage: Stage
    messages: tuple[Node | None, ...] = ()
    failures: int = 0
    error: str = ""


class Action(NamedTuple):
    """Something that may happen; ``subject`` and ``choice`` depend on the kind."""

    kind: str
    subject: Any = None
    choice: int = 0


class ModelError(Exception):
    """Something that must never be."""


_NOT_YET = "-"


class World:
    """One state. ``copy`` before ``apply`` to keep it.

    Attributes:
        kafka: the cluster.
        runs: every start; the index is its name.
        actors: tasks and drivers that have not ended, with what they have of the answer they wait for.
        checkpoints: number of batches in the commit log of each.
        budgets: what is left of ``Bounds``.
        verdicts: what ``checks`` remembers; shared by all copies.
        refusals: runs that ended in an error with this step; reading them removes them.
    """

    __slots__ = (
        "_actors",
        "actors",
        "bounds",
        "budgets",
        "checkpoints",
        "kafka",
        "refusals",
        "runs",
        "verdicts",
    )

    def __init__(self, bounds: Bounds, kafka: KafkaModel, actors: Actors) -> None:
        self.bounds = bounds
        self._actors = actors
        self.kafka = kafka
        self.runs: tuple[Run, ...] = ()
        self.actors: dict[Node, Parts] = {}
        self.checkpoints: tuple[int, ...] = (0,)
        self.budgets: dict[str, int] = {
            name: getattr(bounds, name)
            for name in (
                "attempts",
                "time_outs",
                "lost_answers",
                "failed_calls",
                "expiries",
                "retentions",
                "first_retentions",
                "lost_markers",
                "copies",
                "restores",
            )
        }
        self.refusals: list[tuple[int, Exception]] = []
        self.verdicts: dict[object, str | None] = {}
        self.start(0, 0)

    def copy(self) -> World:
        other = World.__new__(World)
        other.bounds = self.bounds
        other._actors = self._actors
        other.kafka = self.kafka.copy()
        other.runs = self.runs
        other.actors = self.actors.copy()
        other.checkpoints = self.checkpoints
        other.budgets = self.budgets.copy()
        other.refusals = []
        other.verdicts = self.verdicts
        return other

    def key(self) -> object:
        """Equal for equal states."""
        return (
            self.kafka.key(),
            self.runs,
            frozenset(self.actors.items()),
            self.checkpoints,
            tuple(self.budgets.values()),
        )

    # -- what may happen -------------------------------------------------------------------------------

    def actions(self) -> Iterator[Action]:
        """All that may happen; some of it turns out to be blocked."""
        for node, had in self.actors.items():
            call = _call(node)
            parts = self._open_parts(call, had)
            for part in parts:
                yield Action("step", node, part)
            if self.budgets["lost_answers"] and call.name != "fetch":
                for part in parts:
                    yield Action("lost_answers", node, part)
            if self.budgets["failed_calls"]:
                yield Action("failed_calls", node)
        for number, run in enumerate(self.runs):
            if run.stage is Stage.LOG:
                yield Action("log", number)
            if run.stage is Stage.TASKS and self.budgets["attempts"]:
                for task in range(len(run.messages)):
                    yield Action("attempts", (number, task))
        for name, transaction in self.kafka.transactions.items():
            if transaction.phase in (Phase.PREPARE_COMMIT, Phase.PREPARE_ABORT):
                yield Action("settle", name)
            elif transaction.phase is Phase.ONGOING:
                if self.budgets["time_outs"]:
                    yield Action("time_outs", name)
            elif self.budgets["expiries"]:
                yield Action("expiries", name)
        yield from self._rare_actions()

    def _rare_actions(self) -> Iterator[Action]:
        if len(self.runs) < self.bounds.runs:
            for checkpoint, done in enumerate(self.checkpoints):
                if done < len(self.bounds.divisions):
                    for division in range(len(self.bounds.divisions[done])):
                        yield Action("start", checkpoint, division)
        if self.budgets["first_retentions"] and self.kafka.offsets:
            yield Action("first_retentions")
        if self.budgets["retentions"] and self.checkpoints[0]:
            yield Action("retentions")
        if self.budgets["lost_markers"] and self.checkpoints[0]:
            for group in self.kafka.offsets:
                if group != IDENTITY.driver:
                    yield Action("lost_markers", group)
        if self.budgets["copies"]:
            yield Action("copies")
        if self.budgets["restores"] and self.checkpoints[0]:
            yield Action("restores")

    # -- what follows ----------------------------------------------------------------------------------

    def apply(self, action: Action) -> None:
        """Let it happen.

        Raises:
            BlockedError: it cannot happen now; the state is spoilt.
        """
        kind, subject, choice = action
        if kind in self.budgets:
            self.budgets[kind] -= 1
        if kind == "step":
            self._step(subject, choice)
        elif kind == "lost_answers":
            self._lose_answer(subject, choice)
        elif kind == "failed_calls":
            self._answer(subject, Answer(error="KafkaTimeoutError"))
        elif kind == "log":
            self._write_commit_log(subject)
        elif kind == "attempts":
            self._start_attempt(*subject)
        elif kind == "settle":
            self.kafka.settle(subject)
        elif kind == "time_outs":
            self.kafka.time_out(subject)
        elif kind == "expiries":
            self.kafka.expire_producer_id(subject)
        elif kind == "start":
            self.start(subject, choice)
        elif kind == "retentions":
            self.crash_everything()
            self.kafka.offsets.clear()
        elif kind == "first_retentions":
            self.kafka.offsets.clear()
        elif kind == "lost_markers":
            del self.kafka.offsets[subject]
        elif kind == "copies":
            self.checkpoints = (*self.checkpoints, self.checkpoints[0])
        elif kind == "restores":
            self.checkpoints = (self.checkpoints[0] - 1, *self.checkpoints[1:])

    def start(self, checkpoint: int, division: int) -> int:
        """A new run; returns its name."""
        self.runs = (*self.runs, Run(checkpoint, division, self.checkpoints[checkpoint], Stage.TASKS))
        self._begin_batch(len(self.runs) - 1)
        return len(self.runs) - 1

    def division(self, run: Run) -> Division:
        """How the run divides its batch into tasks."""
        ways = self.bounds.divisions[run.number]
        return ways[run.division % len(ways)]

    def crash_everything(self) -> None:
        """All drivers and tasks are gone; Kafka stays, and ends what is half ended."""
        self.actors.clear()
        self.runs = tuple(
            run
            if run.stage is Stage.DONE
            else run._replace(stage=Stage.FAILED, messages=(), error=run.error or "Dead")
            for run in self.runs
        )
        for name, transaction in list(self.kafka.transactions.items()):
            if transaction.phase in (Phase.PREPARE_COMMIT, Phase.PREPARE_ABORT):
                self.kafka.settle(name)

    # -- steps of actors -------------------------------------------------------------------------------

    def _open_parts(self, call: Call, had: Parts) -> list[int]:
        """Which requests of the call may go next: the first, or any of them where order is left open."""
        if call.name == "write":
            return [0]
        left = [index for index in range(len(call.arguments[0])) if not had or had[index] == _NOT_YET]
        return left if self.bounds.fine or call.name == "end" else left[:1]

    def _step(self, node: Node, part: int) -> None:
        call = _call(node)
        if call.name == "write":
            self._answer(node, self._write(call))
            return
        at_once = range(len(call.arguments[0])) if call.name == "fetch" and not self.bounds.fine else [part]
        self._answer_parts(node, {index: self._request(call, call.arguments[0][index]) for index in at_once})

    def _answer_parts(self, node: Node, answers: dict[int, Any]) -> None:
        had = self.actors[node] or (_NOT_YET,) * len(_call(node).arguments[0])
        parts = tuple(answers.get(index, part) for index, part in enumerate(had))
        if _NOT_YET in parts:
            self.actors[node] = parts
        else:
            self._answer(node, Answer(parts))

    def _request(self, call: Call, subject: Any) -> Any:
        if call.name == "fetch":
            return self.kafka.offset_fetch(subject)
        if call.name == "unstable_fetch":
            return self.kafka.offset_fetch(subject, stable=False)
        if call.name == "init":
            return self.kafka.init_producer_id(subject) or _NOT_YET
        if call.name == "offset_commit":
            return self.kafka.offset_commit(*subject)
        assert call.name == "end"
        try:
            self.kafka.end_txn(subject, commit=call.arguments[1])
        except (FencedError, IllegalStateError, TransactionAbortedError) as error:
            return type(error).__name__
        return None

    def _write(self, call: Call) -> Answer:
        try:
            self.kafka.write(*call.arguments)
        except KafkaError as error:
            return Answer(error=type(error).__name__)
        return Answer()

    def _lose_answer(self, node: Node, part: int) -> None:
        """The request has its effect; the caller gives up waiting for the answer.

        For one of several transactions that are ended, this is the result of that one.
        """
        call = _call(node)
        if call.name == "write":
            self._write(call)
        else:
            self._request(call, call.arguments[0][part])
        if call.name == "end":
            self._answer_parts(node, {part: "KafkaTimeoutError"})
        else:
            self._answer(node, Answer(error="KafkaTimeoutError"))

    def _answer(self, node: Node, answer: Answer) -> None:
        del self.actors[node]
        self._go_on(self._actors.go_on(node, answer))

    def _go_on(self, node: Node) -> None:
        """The actor waits at its next call, or has ended."""
        if node.outcome.call is not None:
            self.actors[node] = ()
        elif isinstance(node.spec, TaskSpec):
            self._task_ended(node, node.spec)
        elif node.spec.does_commit:
            self._driver_ended(node.spec, node.outcome.error)
        elif node.outcome.error is not None:
            raise ModelError(f"abort raised {node.outcome.error!r}")

    # -- Spark -----------------------------------------------------------------------------------------

    def _begin_batch(self, name: int) -> None:
        run = self.runs[name]
        division = self.division(run)
        self._set(name, run._replace(stage=Stage.TASKS, messages=(None,) * len(division)))
        for task in range(len(division)):
            self._start_attempt(name, task)

    def _start_attempt(self, name: int, task: int) -> None:
        run = self.runs[name]
        rows = self.division(run)[task]
        # Enough to tell those apart that are there at the same time.
        attempt = sum(each.spec[:3] == (name, run.number, task) for each in self.actors)
        if (name + attempt) % 2:
            # Another attempt may get its rows in another order.
            rows = rows[::-1]
        spec = TaskSpec(name, run.number, task, attempt, tuple(self._chunks(rows)))
        self._go_on(self._actors.start(spec))

    def _chunks(self, rows: tuple[Row, ...]) -> Iterator[tuple[Row, ...]]:
        return chunked(rows, self.bounds.rows_in_chunk)

    def _task_ended(self, node: Node, spec: TaskSpec) -> None:
        error = node.outcome.error
        run = self.runs[spec.run]
        if run.stage is not Stage.TASKS or run.number != spec.number or run.messages[spec.task] is not None:
            # Nobody waits for it any more.
            return
        if error is not None:
            run = run._replace(failures=run.failures + 1)
            self._set(spec.run, run)
            if run.failures > self.bounds.task_failures:
                self._fail(spec.run, error)
            else:
                self._start_attempt(spec.run, spec.task)
            return
        messages = list(run.messages)
        messages[spec.task] = node
        run = run._replace(messages=tuple(messages))
        self._set(spec.run, run)
        if None not in messages:
            self._set(spec.run, run._replace(stage=Stage.COMMIT))
            self._go_on(self._actors.start(DriverSpec(spec.run, spec.number, True, run.messages)))

    def _driver_ended(self, spec: DriverSpec, error: Exception | None) -> None:
        if error is not None:
            self._fail(spec.run, error)
            return
        run = self.runs[spec.run]
        self._set(spec.run, run._replace(stage=Stage.LOG, messages=()))

    def _fail(self, name: int, error: Exception) -> None:
        """Spark gives up, and lets the sink abort what it has messages for."""
        run = self.runs[name]
        self.refusals.append((name, error))
        messages = run.messages
        self._set(name, run._replace(stage=Stage.FAILED, messages=(), error=type(error).__name__, failures=0))
        self._go_on(self._actors.start(DriverSpec(name, run.number, False, messages)))

    def _write_commit_log(self, name: int) -> None:
        run = self.runs[name]
        done = self.checkpoints[run.checkpoint]
        if done != run.number:
            # Spark finds the file of the other driver, and ends.
            self._set(name, run._replace(stage=Stage.FAILED, error="ConcurrentLog"))
            return
        checkpoints = list(self.checkpoints)
        checkpoints[run.checkpoint] = done + 1
        self.checkpoints = tuple(checkpoints)
        if done + 1 < len(self.bounds.divisions):
            self._set(name, run._replace(number=done + 1))
            self._begin_batch(name)
        else:
            self._set(name, run._replace(stage=Stage.DONE))

    def _set(self, name: int, run: Run) -> None:
        self.runs = (*self.runs[:name], run, *self.runs[name + 1 :])


def _call(node: Node) -> Call:
    call = node.outcome.call
    assert call is not None
    return call

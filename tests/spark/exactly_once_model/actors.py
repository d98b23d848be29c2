"""Actors: the real ``TaskProtocol`` and ``DriverProtocol``, stopped before each call to Kafka.

What an actor is follows from what it was started with and the answers it got: the protocol runs from its
beginning, each call takes the next answer, and the first call without one ends the run by an exception that
no ``except Exception`` catches. What comes of a run is remembered, since the same answers come again in
thousands of states.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kproducer import errors
from kproducer._core.transactions.transaction_arguments import OffsetAndMetadata, PreparedTransaction
from kproducer.errors import KafkaError
from kproducer.spark.exactly_once.driver_protocol import DriverProtocol
from kproducer.spark.exactly_once.task_protocol import TaskProtocol
from kproducer.spark.exactly_once.write_state import (
    TaskMessage,
    WriteIdentity,
    WriteKind,
    WriteRun,
    WriteTask,
)
from tests.spark.exactly_once_model.kafka_model import Identity, Row

IDENTITY = WriteIdentity(WriteKind.STREAM, "q", "k")


class Call(NamedTuple):
    """A call to Kafka that waits for its answer. Arguments are hashable."""

    name: str
    arguments: tuple[Any, ...]


class Answer(NamedTuple):
    """What a call returned, or the name of the ``KafkaError`` that it raised."""

    value: Any = None
    error: str | None = None


class TaskSpec(NamedTuple):
    """What one attempt of a task is started with: rows in chunks."""

    run: int
    number: int
    task: int
    attempt: int
    chunks: tuple[tuple[Row, ...], ...]


class DriverSpec(NamedTuple):
    """What the driver's commit, or abort, is started with: the ends of the attempts whose messages it got.

    ``None`` in place of a message: the task has none (abort only).
    """

    run: int
    number: int
    does_commit: bool
    tasks: tuple[Node | None, ...]


Spec = TaskSpec | DriverSpec


class Outcome(NamedTuple):
    """Where an actor is: at a call, or at its end with what it returned or raised."""

    call: Call | None = None
    value: Any = None
    error: Exception | None = None


class Node:
    """An actor at one point: what it was started with, and its answers. There is one object for each.

    Attributes:
        spec: what it was started with.
        log: the answers.
        outcome: where it is.
        following: by the next answer.
    """

    __slots__ = ("following", "log", "outcome", "spec")

    def __init__(self, spec: Spec, log: tuple[Answer, ...], outcome: Outcome) -> None:
        self.spec = spec
        self.log = log
        self.outcome = outcome
        self.following: dict[Answer, Node] = {}


class _WaitingError(BaseException):
    """The protocol has come to a call without an answer."""


class _Answers:
    """Gives answers one by one; after the last one every call ends the run."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self._answers = iter(answers)
        self.call: Call | None = None

    def ask(self, name: str, *arguments: Any) -> Any:
        answer = None if self.call else next(self._answers, None)
        if answer is None:
            self.call = self.call or Call(name, arguments)
            raise _WaitingError
        if answer.error is not None:
            raise _error(answer.error)
        return answer.value


class Rows:
    """What stands for an Arrow RecordBatch."""

    def __init__(self, rows: tuple[Row, ...]) -> None:
        self.rows = rows

    @property
    def num_rows(self) -> int:
        return len(self.rows)


class Checksum:
    """As the real one: a sum over rows."""

    def __init__(self) -> None:
        self.rows = 0
        self.value = 0

    def update(self, batch: Rows) -> None:
        self.rows += batch.num_rows
        self.value = (self.value + sum(zlib.crc32(repr(row).encode()) for row in batch.rows)) % 2**64


class ModelTaskPort:
    """``TaskPort`` on answers. Steps that no broker notices need none."""

    version = 2

    def __init__(self, answers: _Answers) -> None:
        self._ask = answers.ask
        self.identity = Identity("", -1, -1)
        self._is_fenced = False

    def initialize(self, transactional_id: str) -> None:
        (self.identity,) = self._ask("init", (transactional_id,))

    def current_offset(self, group: str) -> OffsetAndMetadata | None:
        (found,) = self._ask("unstable_fetch", (group,))
        return found  # type: ignore[no-any-return]

    def stable_offset(self, group: str) -> OffsetAndMetadata | None:
        (found,) = self._ask("fetch", (group,))
        return found  # type: ignore[no-any-return]

    def begin(self) -> None:
        pass

    def send(self, batch: Rows) -> None:
        self._write(batch.rows, ())

    def flush(self) -> None:
        pass

    def add_marker(self, group: str, offset: OffsetAndMetadata) -> None:
        self._write((), ((group, offset),))

    def prepare(self) -> PreparedTransaction:
        return PreparedTransaction(*self.identity, self.version)

    def abort(self) -> None:
        if not self._is_fenced:
            self._ask("end", (self.identity,), False)

    def _write(self, rows: tuple[Row, ...], offsets: tuple[tuple[str, OffsetAndMetadata], ...]) -> None:
        try:
            self._ask("write", self.identity, rows, offsets)
        except errors.FencedError:
            self._is_fenced = True
            raise


class ModelDriverPort:
    """``DriverPort`` on answers."""

    def __init__(self, answers: _Answers) -> None:
        self._ask = answers.ask
        self._owned: dict[str, Identity] = {}

    def current_offset(self, group: str) -> OffsetAndMetadata | None:
        (found,) = self._ask("unstable_fetch", (group,))
        return found  # type: ignore[no-any-return]

    def fence(self, transactional_ids: Sequence[str]) -> None:
        for identity in self._ask("init", tuple(transactional_ids)):
            self._owned[identity.transactional_id] = identity

    def stable_offsets(self, groups: Sequence[str]) -> Mapping[str, OffsetAndMetadata | None]:
        return dict(zip(groups, self._ask("fetch", tuple(groups)), strict=True))

    def decide(self, transactional_id: str, group: str, offset: OffsetAndMetadata) -> None:
        identity = self._owned[transactional_id]
        self._ask("write", identity, (), ((group, offset),))
        (name,) = self._ask("end", (identity,), True)
        if name is not None:
            raise _error(name)

    def commit(self, prepared: Sequence[PreparedTransaction]) -> list[KafkaError | None]:
        return self._end(prepared, commit=True)

    def abort(self, prepared: Iterable[PreparedTransaction], unknown: Sequence[str] = ()) -> None:
        self._end(prepared, commit=False)

    def _end(self, prepared: Iterable[PreparedTransaction], *, commit: bool) -> list[KafkaError | None]:
        identities = tuple(Identity(*each[:3]) for each in prepared)
        return [None if name is None else _error(name) for name in self._ask("end", identities, commit)]


class Actors:
    """Runs protocols on answers, and remembers what came of it.

    Args:
        task_port, driver_port, new_checksum: the parts that a scenario may spoil.
        write_when_uncertain: option ``onUncertainReplay=write``.
        kind: of the write.
        has_run_names: whether Spark tells runs apart, as it does for streams.
        has_nonces: whether decisions have one.
    """

    def __init__(
        self,
        task_port: Callable[[_Answers], ModelTaskPort] = ModelTaskPort,
        driver_port: Callable[[_Answers], ModelDriverPort] = ModelDriverPort,
        new_checksum: Callable[[], Any] = Checksum,
        *,
        write_when_uncertain: bool = False,
        kind: WriteKind = WriteKind.STREAM,
        has_run_names: bool = True,
        has_nonces: bool = True,
    ) -> None:
        self._identity = IDENTITY._replace(kind=kind)
        self._has_run_names = has_run_names
        self._has_nonces = has_nonces
        self._task_port = task_port
        self._driver_port = driver_port
        self._new_checksum = new_checksum
        self._write_when_uncertain = write_when_uncertain
        self._first: dict[Spec, Node] = {}
        self.executions = 0

    def start(self, spec: Spec) -> Node:
        """The actor before its first answer."""
        found = self._first.get(spec)
        if found is None:
            found = self._first[spec] = Node(spec, (), self._run(spec, ()))
        return found

    def go_on(self, node: Node, answer: Answer) -> Node:
        """The actor after one more answer."""
        found = node.following.get(answer)
        if found is None:
            log = (*node.log, answer)
            found = node.following[answer] = Node(node.spec, log, self._run(node.spec, log))
        return found

    def _run(self, spec: Spec, log: tuple[Answer, ...]) -> Outcome:
        self.executions += 1
        answers = _Answers(log)
        try:
            if isinstance(spec, TaskSpec):
                return Outcome(value=self._run_task(spec, answers))
            self._run_driver(spec, answers)
        except _WaitingError:
            return Outcome(call=answers.call)
        except Exception as error:
            if answers.call:
                return Outcome(call=answers.call)
            return Outcome(error=error)
        return Outcome()

    def _run_task(self, spec: TaskSpec, answers: _Answers) -> TaskMessage:
        run = f"run{spec.run}" if self._has_run_names else ""
        task = WriteTask(WriteRun(self._identity, spec.number, run), spec.task)
        protocol = TaskProtocol(self._task_port(answers), self._new_checksum())
        return protocol.write(task, map(Rows, spec.chunks))

    def _run_driver(self, spec: DriverSpec, answers: _Answers) -> None:
        messages = [None if task is None else task.outcome.value for task in spec.tasks]
        protocol = DriverProtocol(
            self._driver_port(answers),
            write_when_uncertain=self._write_when_uncertain,
            new_nonce=lambda: f"nonce{spec.run}" if self._has_nonces else "",
        )
        if spec.does_commit:
            protocol.commit(messages, spec.number)
        else:
            protocol.abort(messages)


def chunked(rows: Iterable[Row], size: int) -> Iterator[tuple[Row, ...]]:
    """Rows in pieces of at most ``size``."""
    remaining = list(rows)
    for start in range(0, len(remaining), size):
        yield tuple(remaining[start : start + size])


def _error(name: str) -> KafkaError:
    kind = getattr(errors, name)
    error: KafkaError = kind("as the model says")
    return error

"""DriverProtocol: what the driver does with what its tasks prepared, step by step.

Refuse a number that is behind, fence every older driver, see what was decided, refuse what cannot be told or
does not fit, decide, commit.
Nothing of a number is committed before a decision for it is in Kafka; whoever finds none knows that nothing
is there. Knows neither Spark nor Kafka. Argument: docs/exactly-once.md.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence

from kproducer.errors import FencedError, KafkaError, KafkaTimeoutError
from kproducer.spark.errors import (
    CommitFailedError,
    ExactlyOnceError,
    ReplayMismatchError,
    StaleReplayError,
    UncertainReplayError,
)
from kproducer.spark.exactly_once.identity import TaskPlace, WriteIdentity, WriteKind, numbered
from kproducer.spark.exactly_once.marker import Decision, Marker
from kproducer.spark.exactly_once.ports import DriverKafka, OnStep, unobserved
from kproducer.spark.exactly_once.task_messages import (
    InitializedTask,
    PreparedTask,
    RepeatedTask,
    TaskMessage,
)
from kproducer.transactions.transaction_arguments import OffsetAndMetadata, PreparedTransaction


def _new_nonce() -> str:
    return uuid.uuid4().hex[:16]


class DriverProtocol:
    """Ends one write. For the driver's thread.

    Args:
        port: Kafka.
        write_when_uncertain: go on where it cannot be told what of this number is committed.
        on_step: see ``OnStep``.
        new_nonce: see ``Decision``.
    """

    def __init__(
        self,
        port: DriverKafka,
        *,
        write_when_uncertain: bool = False,
        on_step: OnStep = unobserved,
        new_nonce: Callable[[], str] = _new_nonce,
    ) -> None:
        self._port = port
        self._write_when_uncertain = write_when_uncertain
        self._on_step = on_step
        self._new_nonce = new_nonce

    def commit(self, messages: Sequence[object], number: int | None = None) -> None:
        """Make all rows visible, or raise.

        Args:
            messages: one for each task; ``None``: a partition for which Spark started no task.
            number: Spark's, where it tells one.

        Raises:
            UncertainReplayError, StaleReplayError, ReplayMismatchError: nothing of this run is committed.
            CommitFailedError: not all is known to be committed, or to be seen; a replay completes it.
            KafkaError: what the port raises; nothing is committed.
        """
        tasks = _task_messages(messages, number)
        if not tasks:
            # No rows, and nobody who knows which write it is.
            return
        place = tasks[0].place
        prepared = _prepared(tasks)
        if place.identity.is_remembered:
            is_committed = self._decide(place.identity, place.number, place.run, tasks, len(messages))
            if is_committed and prepared:
                # In another division of the batch. No reader should wait for them until their time is over.
                self._on_step("drop")
                with contextlib.suppress(KafkaError):
                    self._port.abort(prepared)
                prepared = []
        self._commit(place, prepared)
        if place.identity.is_remembered:
            # A commit is answered before its offsets are there. The tasks of the next number look without
            # waiting, and have to see this decision.
            self._on_step("confirm")
            self._confirm(place)
        self._on_step("committed")

    def abort(
        self, messages: Sequence[object], identity: WriteIdentity | None = None, number: int = 0
    ) -> None:
        """End what was prepared, so that no reader waits for it. Best effort: a replay does it anyway.

        Args:
            messages: one for each task; ``None``: Spark has none. Its task failed, or prepared its
                transaction just when Spark stopped it.
            identity: of a batch, which nobody may ever repeat: tasks without a message are fenced. Those of
                a stream are known by their messages alone, and wait for its restart.
            number: of the batch, or less where it is not known. Where a later one is decided, tasks without
                a message are left alone: their ids may be those of the run that is ahead.
        """
        prepared = [each.transaction for each in messages if isinstance(each, PreparedTask)]
        unknown: list[str] = []
        if identity is not None:
            unknown = [identity.task(task) for task, each in enumerate(messages) if each is None]
        number = max([number, *(each.place.number for each in messages if isinstance(each, TaskMessage))])
        with contextlib.suppress(KafkaError):
            if identity is not None and identity.is_remembered and unknown:
                last = Decision.from_offset(identity.driver, self._port.decision(identity.driver))
                if last is not None and last.number > number:
                    unknown = []
            if prepared or unknown:
                self._port.abort(prepared, unknown)

    # -- steps -----------------------------------------------------------------------------------------

    def _decide(
        self, identity: WriteIdentity, number: int, run: str, tasks: Sequence[TaskMessage], count: int
    ) -> bool:
        """Returns whether every row is committed already."""
        self._look(identity, number, tasks)
        self._on_step("fence_driver")
        self._port.fence([identity.driver])
        self._on_step("decision")
        found = self._port.markers([identity.driver])[identity.driver]
        last = Decision.from_offset(identity.driver, found)
        self._refuse_unfit(identity, number, run, last)
        _refuse_overtaken(identity, number, tasks, found)
        known = {
            task.place.task: task.marker
            for task in tasks
            if isinstance(task, InitializedTask) and task.marker is not None
        }
        marked = len(known)
        # A marker may be there without its decision, which brokers have forgotten.
        is_repeated = (last is not None and last.number == number) or any(
            isinstance(task, RepeatedTask) for task in tasks
        )
        if is_repeated or last is None or not last.is_of_run(run):
            uncovered = self._fence_uncovered(identity, tasks, max(count, last.tasks if last else 0))
            if is_repeated and uncovered:
                known.update(self._markers(uncovered))
        is_committed = is_repeated and _is_committed(identity, number, tasks, known)
        if last is not None and last.number == number:
            if not is_committed:
                self._refuse_lost_markers(identity, number, len(known), last)
            count, marked = max(count, last.tasks), max(marked, last.marked)
        decision = Decision(number, count, marked, self._new_nonce(), run)
        self._on_step("decide")
        try:
            self._port.decide(identity.driver, identity.driver, decision.to_offset())
        except FencedError as error:
            raise CommitFailedError(
                f"{numbered(identity, number)}: another driver has taken over while this one was about to "
                "commit; it has committed nothing. Does the same query, or a write with the same writeId, "
                "run twice?"
            ) from error
        return is_committed

    def _look(self, identity: WriteIdentity, number: int, tasks: Sequence[TaskMessage]) -> None:
        """Refuse what can be refused before the fence, which could stop the run that took a later decision.

        What this read misses, the one after the fence finds, so a timeout here is not an error.
        """
        self._on_step("look")
        with contextlib.suppress(KafkaTimeoutError):
            found = self._port.decision(identity.driver)
            _refuse_later(identity, number, Decision.from_offset(identity.driver, found))
            _refuse_overtaken(identity, number, tasks, found)

    def _refuse_unfit(self, identity: WriteIdentity, number: int, run: str, last: Decision | None) -> None:
        """Compare the number with that of the last decision."""
        _refuse_later(identity, number, last)
        if identity.kind is not WriteKind.STREAM or self._write_when_uncertain:
            return
        # A run replays nothing but its first batch, so within a run it is no matter that batches without any
        # task left no trace.
        is_next = number == 0 if last is None else last.number >= number - 1 or last.is_of_run(run)
        if not is_next:
            found = "no decision" if last is None else f"decision {last.number} as the last one"
            raise UncertainReplayError.of(numbered(identity, number), found)

    def _fence_uncovered(
        self, identity: WriteIdentity, tasks: Sequence[TaskMessage], count: int
    ) -> dict[int, str]:
        """Fence the tasks that earlier runs had and this one has not initialized; returns their ids.

        Without a decision for this number none is committed; the fence then only frees readers from waiting.
        """
        covered = {task.place.task for task in tasks if isinstance(task, InitializedTask)}
        uncovered = {task: identity.task(task) for task in range(count) if task not in covered}
        if uncovered:
            self._on_step("fence_tasks")
            self._port.fence(list(uncovered.values()))
        return uncovered

    def _refuse_lost_markers(self, identity: WriteIdentity, number: int, marked: int, last: Decision) -> None:
        if marked < last.marked and not self._write_when_uncertain:
            # Brokers forget old offsets, those of tasks a little before the decision's.
            found = f"decision {number}, and fewer markers than it had"
            raise UncertainReplayError.of(numbered(identity, number), found)

    def _markers(self, groups: Mapping[int, str]) -> dict[int, Marker]:
        self._on_step("markers")
        found = self._port.markers(list(groups.values()))
        markers = {task: Marker.from_offset(group, found[group]) for task, group in groups.items()}
        return {task: marker for task, marker in markers.items() if marker is not None}

    def _commit(self, place: TaskPlace, prepared: Sequence[PreparedTransaction]) -> None:
        outcomes: list[KafkaError | None] = []
        if prepared:
            self._on_step("commit")
            outcomes = self._port.commit(prepared)
        failed = [
            (transaction.transactional_id, error)
            for transaction, error in zip(prepared, outcomes, strict=True)
            if error is not None
        ]
        if failed:
            subject = numbered(place.identity, place.number)
            can_repeat = place.identity.is_remembered
            raise CommitFailedError.of(subject, failed, len(prepared), can_repeat=can_repeat) from failed[0][
                1
            ]

    def _confirm(self, place: TaskPlace) -> None:
        try:
            self._port.markers([place.identity.driver])
        except KafkaError as error:
            subject = numbered(place.identity, place.number)
            raise CommitFailedError.unconfirmed(subject, error) from error


def _task_messages(messages: Sequence[object], number: int | None) -> list[TaskMessage]:
    """Those of tasks, which have to belong together."""
    tasks = [each for each in messages if isinstance(each, TaskMessage)]
    if any(each is not None and not isinstance(each, TaskMessage) for each in messages):
        raise ExactlyOnceError("messages of another kind are among those of the tasks; nothing is committed")
    places = {(task.place.identity, task.place.number, task.place.run) for task in tasks}
    numbers = {task.place.task for task in tasks}
    if len(places) > 1 or len(numbers) < len(tasks) or any(each >= len(messages) for each in numbers):
        raise ExactlyOnceError(
            f"the tasks do not belong to one write ({len(tasks)} messages); nothing is committed"
        )
    if tasks and number is not None and tasks[0].place.number != number:
        raise ExactlyOnceError(
            f"the tasks wrote number {tasks[0].place.number}, Spark commits {number}; nothing is committed"
        )
    return tasks


def _prepared(tasks: Iterable[TaskMessage]) -> list[PreparedTransaction]:
    return [task.transaction for task in tasks if isinstance(task, PreparedTask)]


def _is_committed(
    identity: WriteIdentity, number: int, tasks: Sequence[TaskMessage], markers: Mapping[int, Marker]
) -> bool:
    """Whether every row of this run is committed; if not, what is committed has to be whole tasks of it.

    Count and checksum are sums over rows. If the markers together have those of all tasks together, they are
    of the same rows, however these were divided.

    Args:
        markers: all that there are of the write, by task, of this number or an earlier one.

    Raises:
        ReplayMismatchError: they are neither.
    """
    committed = {task: marker for task, marker in markers.items() if marker.number == number}
    present = {task.place.task: task for task in tasks if isinstance(task, InitializedTask)}
    committed_rows, committed_sum = _total(committed.values())
    rows, checksum = _total(present.values())
    if (committed_rows, committed_sum) == (rows, checksum):
        return True
    for task, marker in sorted(committed.items()):
        now = present.get(task)
        if now is not None and marker.is_of(now.rows, now.checksum):
            continue
        has = f"{now.rows} rows with checksum {now.checksum:016x}" if now else "no rows, or does not exist"
        raise ReplayMismatchError.of(
            numbered(identity, number),
            f"{marker.rows} rows with checksum {marker.checksum:016x} of task {task} are committed, now it "
            f"has {has}. Of all tasks {committed_rows} rows are committed, and the repetition has {rows}",
        )
    return False


def _total(parts: Iterable[Marker | InitializedTask]) -> tuple[int, int]:
    """Number of rows and checksum of all parts together."""
    counts = [(each.rows, each.checksum) for each in parts]
    return sum(rows for rows, _ in counts), sum(checksum for _, checksum in counts) % 2**64


def _refuse_later(identity: WriteIdentity, number: int, last: Decision | None) -> None:
    if last is not None and last.number > number:
        raise StaleReplayError.of(numbered(identity, number), last.number)


def _refuse_overtaken(
    identity: WriteIdentity, number: int, tasks: Iterable[TaskMessage], found: OffsetAndMetadata | None
) -> None:
    """Every task has to have seen the decision that is there now.

    If one has not: another driver has decided since, and may at any moment commit an attempt that is later
    than this run's. That, and the others of this run, could be parts of two divisions of the rows into tasks.
    """
    for task in tasks:
        if isinstance(task, InitializedTask) and task.decision != found:
            raise CommitFailedError(
                f"{numbered(identity, number)}: another driver has decided while the tasks of this one were "
                "writing; this one has committed nothing. Does the same query, or a write with the same "
                "writeId, run twice?"
            )

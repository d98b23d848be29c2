"""DriverProtocol: how the driver commits what its tasks have prepared, step by step.

It refuses an outdated number, fences all older drivers, reads the last decision, refuses what is uncertain
or does not match, decides, and commits. Nothing of a number is committed before its decision is in Kafka; so
if there is none, nothing is committed. Independent of Spark and Kafka. docs/exactly-once.md explains why the
steps are sufficient.
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
from kproducer.spark.exactly_once.ports import DriverKafka, OnStep, no_hook
from kproducer.spark.exactly_once.write_state import (
    Decision,
    InitializedTask,
    Marker,
    PreparedTask,
    RepeatedTask,
    TaskMessage,
    TaskPlace,
    WriteIdentity,
    WriteKind,
)
from kproducer.transactions.transaction_arguments import OffsetAndMetadata, PreparedTransaction


def _new_nonce() -> str:
    return uuid.uuid4().hex[:16]


class DriverProtocol:
    """Commits or aborts one write. Used on the driver's thread only.

    Args:
        port: Kafka.
        write_when_uncertain: commit even if it is unknown what of this number is already committed.
        on_step: see ``OnStep``.
        new_nonce: see ``Decision``.
    """

    def __init__(
        self,
        port: DriverKafka,
        *,
        write_when_uncertain: bool = False,
        on_step: OnStep = no_hook,
        new_nonce: Callable[[], str] = _new_nonce,
    ) -> None:
        self._port = port
        self._write_when_uncertain = write_when_uncertain
        self._on_step = on_step
        self._new_nonce = new_nonce

    def commit(self, messages: Sequence[object], number: int | None = None) -> None:
        """Make all rows visible, or raise.

        Args:
            messages: one per task; ``None`` for a partition for which Spark started no task.
            number: Spark's number, if it gives one.

        Raises:
            UncertainReplayError, StaleReplayError, ReplayMismatchError: nothing of this run is committed.
            CommitFailedError: not everything is known to be committed or visible; a replay completes it.
            KafkaError: from the port; nothing is committed.
        """
        tasks = _task_messages(messages, number)
        if not tasks:
            return  # no rows, and nothing tells which write this is
        place = tasks[0].place
        prepared = [task.transaction for task in tasks if isinstance(task, PreparedTask)]
        if place.identity.is_remembered and self._decide(place, tasks, len(messages)) and prepared:
            # All rows are already committed, in another division into tasks. Readers should not have to wait
            # until these transactions time out.
            self._on_step("drop")
            with contextlib.suppress(KafkaError):
                self._port.abort(prepared)
            prepared = []
        self._commit(place, prepared)
        if place.identity.is_remembered:
            self._confirm(place)
        self._on_step("committed")

    def abort(
        self, messages: Sequence[object], identity: WriteIdentity | None = None, number: int = 0
    ) -> None:
        """Abort what was prepared, so that no reader waits for it. Best effort: a replay does it anyway.

        Args:
            messages: one per task; ``None``: Spark has none. The task failed, or Spark stopped it just when
            it
                had prepared its transaction.
            identity: of a batch, which may never be repeated: tasks without a message are fenced. Tasks of a
                stream are known only by their messages; transactions of others wait for the next run.
            number: of the batch; a smaller one if unknown. If a later number is decided, tasks without a
            message
                are left alone: their ids may belong to the run that is ahead.
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

    def _decide(self, place: TaskPlace, tasks: Sequence[TaskMessage], count: int) -> bool:
        """Write the decision. Returns whether every row is already committed."""
        identity, number = place.identity, place.number
        self._look(place, tasks)
        self._on_step("fence_driver")
        self._port.fence([identity.driver])
        self._on_step("decision")
        found = self._port.markers([identity.driver])[identity.driver]
        last = Decision.from_offset(identity.driver, found)
        self._refuse_unfit(place, last)
        _refuse_overtaken(place, tasks, found)
        known = {
            task.place.task: task.marker
            for task in tasks
            if isinstance(task, InitializedTask) and task.marker is not None
        }
        marked = len(known)
        # There may be a marker without its decision, if brokers have forgotten the decision.
        is_repeated = (last is not None and last.number == number) or any(
            isinstance(task, RepeatedTask) for task in tasks
        )
        if is_repeated or last is None or not last.is_of_run(place.run):
            uncovered = self._fence_uncovered(identity, tasks, max(count, last.tasks if last else 0))
            if is_repeated and uncovered:
                known.update(self._markers(uncovered))
        is_committed = is_repeated and _is_committed(place, tasks, known)
        if last is not None and last.number == number:
            if not is_committed and len(known) < last.marked and not self._write_when_uncertain:
                # Brokers forget old offsets, those of tasks a little before the decision's.
                raise UncertainReplayError.of(
                    place.write, f"decision {number}, and fewer markers than it had"
                )
            count, marked = max(count, last.tasks), max(marked, last.marked)
        decision = Decision(number, count, marked, self._new_nonce(), place.run)
        self._on_step("decide")
        try:
            self._port.decide(identity.driver, identity.driver, decision.to_offset())
        except FencedError as error:
            raise _overtaken(place, "has taken over while this one was about to commit") from error
        return is_committed

    def _look(self, place: TaskPlace, tasks: Sequence[TaskMessage]) -> None:
        """Refuse what can be refused before the fence, which could stop the run that took a later decision.

        The read after the fence finds what this one misses, so a timeout here is not an error.
        """
        self._on_step("look")
        with contextlib.suppress(KafkaTimeoutError):
            driver = place.identity.driver
            found = self._port.decision(driver)
            _refuse_later(place, Decision.from_offset(driver, found))
            _refuse_overtaken(place, tasks, found)

    def _refuse_unfit(self, place: TaskPlace, last: Decision | None) -> None:
        """Compare the number with that of the last decision."""
        _refuse_later(place, last)
        number = place.number
        if place.identity.kind is not WriteKind.STREAM or self._write_when_uncertain:
            return
        # Only the first batch of a run can be a replay. So within a run it does not matter that batches
        # without tasks have left no decision.
        is_next = number == 0 if last is None else last.number >= number - 1 or last.is_of_run(place.run)
        if not is_next:
            found = "no decision" if last is None else f"decision {last.number} as the last one"
            raise UncertainReplayError.of(place.write, found)

    def _fence_uncovered(
        self, identity: WriteIdentity, tasks: Sequence[TaskMessage], count: int
    ) -> dict[int, str]:
        """Fence the tasks of earlier runs that this one has not initialized; return their ids.

        Without a decision for this number none of them is committed. The fence then only ends the waiting of
        readers.
        """
        covered = {task.place.task for task in tasks if isinstance(task, InitializedTask)}
        uncovered = {task: identity.task(task) for task in range(count) if task not in covered}
        if uncovered:
            self._on_step("fence_tasks")
            self._port.fence(list(uncovered.values()))
        return uncovered

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
            raise CommitFailedError.of(
                place.write, failed, len(prepared), can_repeat=place.identity.is_remembered
            ) from failed[0][1]

    def _confirm(self, place: TaskPlace) -> None:
        """Wait until the decision can be read.

        Brokers answer a commit before its offsets are visible. The tasks of the next number read without
        waiting, and have to see this decision.
        """
        self._on_step("confirm")
        try:
            self._port.markers([place.identity.driver])
        except KafkaError as error:
            raise CommitFailedError.unconfirmed(place.write, error) from error


def _task_messages(messages: Sequence[object], number: int | None) -> list[TaskMessage]:
    """The messages of tasks, which must belong together."""
    tasks = [each for each in messages if isinstance(each, TaskMessage)]
    if any(each is not None and not isinstance(each, TaskMessage) for each in messages):
        raise ExactlyOnceError("messages of another kind are among those of the tasks; nothing is committed")
    writes = {(task.place.identity, task.place.number, task.place.run) for task in tasks}
    numbers = {task.place.task for task in tasks}
    if len(writes) > 1 or len(numbers) < len(tasks) or any(each >= len(messages) for each in numbers):
        raise ExactlyOnceError(
            f"the tasks do not belong to one write ({len(tasks)} messages); nothing is committed"
        )
    if tasks and number is not None and tasks[0].place.number != number:
        raise ExactlyOnceError(
            f"the tasks wrote number {tasks[0].place.number}, Spark commits {number}; nothing is committed"
        )
    return tasks


def _is_committed(place: TaskPlace, tasks: Sequence[TaskMessage], markers: Mapping[int, Marker]) -> bool:
    """Whether every row of this run is committed. If not, only whole tasks of it may be committed.

    Count and checksum are sums over rows: if the markers together have the same sums as all tasks together,
    they are of the same rows, in whatever division.

    Args:
        markers: all existing markers of the write by task, of this number or an earlier one.

    Raises:
        ReplayMismatchError: other rows are committed.
    """
    committed = {task: marker for task, marker in markers.items() if marker.number == place.number}
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
            place.write,
            f"{marker.rows} rows with checksum {marker.checksum:016x} of task {task} are committed, now it "
            f"has {has}. Of all tasks {committed_rows} rows are committed, and the repetition has {rows}",
        )
    return False


def _total(parts: Iterable[Marker | InitializedTask]) -> tuple[int, int]:
    """Number of rows and checksum of all parts together."""
    counts = [(each.rows, each.checksum) for each in parts]
    return sum(rows for rows, _ in counts), sum(checksum for _, checksum in counts) % 2**64


def _refuse_later(place: TaskPlace, last: Decision | None) -> None:
    if last is not None and last.number > place.number:
        raise StaleReplayError.of(place.write, last.number)


def _refuse_overtaken(
    place: TaskPlace, tasks: Iterable[TaskMessage], found: OffsetAndMetadata | None
) -> None:
    """Every task must have seen the decision that is there now.

    If one has not, another driver has decided since, and may at any moment commit an attempt that is later
    than this run's. That attempt, and the others of this run, could belong to two divisions of the rows into
    tasks.
    """
    for task in tasks:
        if isinstance(task, InitializedTask) and task.decision != found:
            raise _overtaken(place, "has decided while the tasks of this one were writing")


def _overtaken(place: TaskPlace, what: str) -> CommitFailedError:
    return CommitFailedError(
        f"{place.write}: another driver {what}; this one has committed nothing. Does the same query, or a "
        "write with the same writeId, run twice?"
    )

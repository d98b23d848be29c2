"""DriverProtocol: how the driver commits what its tasks have prepared, step by step.

It refuses an outdated number, fences all older drivers, reads the last decision, refuses what is uncertain
or does not match, decides, and commits. The decision for a number is in Kafka before anything of that number
is committed; so without a decision, nothing is committed. Independent of Spark and Kafka.
docs/exactly-once.md explains why the steps are sufficient.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from kproducer._core.transactions.transaction_arguments import OffsetAndMetadata, PreparedTransaction
from kproducer.errors import FencedError, KafkaError, KafkaTimeoutError
from kproducer.spark.errors import (
    CommitFailedError,
    ExactlyOnceError,
    ReplayMismatchError,
    UncertainReplayError,
)
from kproducer.spark.exactly_once.ports import DriverPort
from kproducer.spark.exactly_once.write_state import (
    Decision,
    InitializedTask,
    Marker,
    PreparedTask,
    RepeatedTask,
    TaskMessage,
    WriteIdentity,
    WriteKind,
    WriteRun,
    refuse_later,
)


class DriverProtocol:
    """Commits or aborts one write. Used on the driver's thread only.

    Args:
        port: Kafka.
        write_when_uncertain: commit even if it is unknown what of this number is already committed.
        new_nonce: see ``Decision``.
    """

    def __init__(
        self,
        port: DriverPort,
        write_when_uncertain: bool = False,
        new_nonce: Callable[[], str] = lambda: uuid.uuid4().hex[:16],
    ) -> None:
        self._port, self._write_when_uncertain, self._new_nonce = port, write_when_uncertain, new_nonce

    def commit(self, messages: Sequence[object], number: int | None = None) -> None:
        """Make all rows visible, or raise.

        Args:
            messages: one per task; ``None`` for a partition for which Spark started no task.
            number: Spark's number, if Spark provides one.

        Raises:
            UncertainReplayError, StaleReplayError, ReplayMismatchError: nothing of this run is committed.
            CommitFailedError: some rows may not be committed or visible; a replay completes the write.
            KafkaError: from the port; nothing is committed.
        """
        tasks = _task_messages(messages, number)
        if not tasks:
            return  # There are no rows, and the write is not known.
        write = tasks[0].task.write
        prepared = [task.transaction for task in tasks if isinstance(task, PreparedTask)]
        if write.identity.is_remembered and self._decide(write, tasks, len(messages)) and prepared:
            # All rows are already committed, in another division into tasks. Without this abort, readers
            # would wait until these transactions time out.
            with contextlib.suppress(KafkaError):
                self._port.abort(prepared)
            prepared = []
        if prepared:
            self._commit(write, prepared)
        if write.identity.is_remembered:
            # Brokers answer a commit before its offsets are visible. The tasks of the next number read
            # without waiting, and must see this decision.
            try:
                self._port.stable_offsets([write.identity.driver])
            except KafkaError as error:
                raise CommitFailedError.unconfirmed(write, error) from error

    def abort(
        self, messages: Sequence[object], identity: WriteIdentity | None = None, number: int = 0
    ) -> None:
        """Abort what was prepared, so that no reader waits for it. Best effort: a replay does it anyway.

        Args:
            messages: one per task; ``None``: Spark has no message, because the task failed, or because Spark
                stopped it when it had just prepared its transaction.
            identity: of a batch, which may never be repeated: its tasks without a message are fenced. Tasks
                of a stream are known only by their messages; the next run ends the other transactions.
            number: of the batch; a smaller one if unknown. If a later number is decided, tasks without a
                message are not fenced: their ids may belong to the run that is ahead.
        """
        prepared = [each.transaction for each in messages if isinstance(each, PreparedTask)]
        unknown: list[str] = []
        if identity is not None:
            unknown = [identity.task(index) for index, each in enumerate(messages) if each is None]
        numbers = [each.task.write.number for each in messages if isinstance(each, TaskMessage)]
        with contextlib.suppress(KafkaError):
            if identity is not None and identity.is_remembered and unknown:
                last = Decision.from_offset(identity.driver, self._port.current_offset(identity.driver))
                if last is not None and last.number > max([number, *numbers]):
                    unknown = []
            if prepared or unknown:
                self._port.abort(prepared, unknown)

    # -- steps -----------------------------------------------------------------------------------------

    def _decide(self, write: WriteRun, tasks: Sequence[TaskMessage], count: int) -> bool:
        """Write the decision. Returns whether every row is already committed."""
        driver, number = write.identity.driver, write.number
        # Before the fence, which could stop the run that took a later decision. The read after the fence
        # finds what this one misses, so a timeout here is not an error.
        with contextlib.suppress(KafkaTimeoutError):
            _last_decision(write, tasks, self._port.current_offset(driver))
        self._port.fence([driver])
        last = _last_decision(write, tasks, self._port.stable_offsets([driver])[driver])
        self._refuse_uncertain(write, last)
        is_decided = last is not None and last.number == number
        markers = {
            each.task.partition: each.marker
            for each in tasks
            if isinstance(each, InitializedTask) and each.marker is not None
        }
        marked = len(markers)
        # A marker may exist without its decision, if brokers have forgotten the decision.
        is_repeated = is_decided or any(isinstance(task, RepeatedTask) for task in tasks)
        if is_repeated or last is None or not last.is_of_run(write.run):
            count_before = 0 if last is None else last.tasks
            markers |= self._fence_uncovered(write, tasks, max(count, count_before), is_repeated)
        is_committed = is_repeated and _is_committed(write, tasks, markers)
        if last is not None and is_decided:
            if not is_committed and len(markers) < last.marked and not self._write_when_uncertain:
                # Brokers forget old offsets, those of tasks a little before the decision's.
                raise UncertainReplayError.of(write, f"decision {number}, but fewer markers than it records,")
            count, marked = max(count, last.tasks), max(marked, last.marked)
        decision = Decision(number, count, marked, self._new_nonce(), write.run)
        try:
            self._port.decide(driver, driver, decision.to_offset())
        except FencedError as error:
            raise _overtaken(write, "has taken over while this one was about to commit") from error
        return is_committed

    def _refuse_uncertain(self, write: WriteRun, last: Decision | None) -> None:
        """Refuse a micro-batch if the previous one has no decision."""
        number = write.number
        if write.identity.kind is not WriteKind.STREAM or self._write_when_uncertain:
            return
        # Only the first batch of a run can be a replay. So within a run it does not matter that batches
        # without tasks have left no decision.
        is_next = number == 0 if last is None else last.number >= number - 1 or last.is_of_run(write.run)
        if not is_next:
            found = "no decision" if last is None else f"decision {last.number} as the last one"
            raise UncertainReplayError.of(write, found)

    def _fence_uncovered(
        self, write: WriteRun, tasks: Sequence[TaskMessage], count: int, is_repeated: bool
    ) -> dict[int, Marker]:
        """Fence the tasks of earlier runs that this one has not initialized; return their markers.

        Unless the number is repeated, none of them is committed: the fence only aborts leftovers for which
        readers wait.
        """
        covered = {each.task.partition for each in tasks if isinstance(each, InitializedTask)}
        uncovered = {index: write.identity.task(index) for index in range(count) if index not in covered}
        if not uncovered:
            return {}
        self._port.fence(list(uncovered.values()))
        if not is_repeated:
            return {}
        found = self._port.stable_offsets(list(uncovered.values()))
        markers = {index: Marker.from_offset(group, found[group]) for index, group in uncovered.items()}
        return {index: marker for index, marker in markers.items() if marker is not None}

    def _commit(self, write: WriteRun, prepared: Sequence[PreparedTransaction]) -> None:
        failed = [
            (transaction.transactional_id, error)
            for transaction, error in zip(prepared, self._port.commit(prepared), strict=True)
            if error is not None
        ]
        if failed:
            raise CommitFailedError.of(
                write, failed, len(prepared), can_repeat=write.identity.is_remembered
            ) from failed[0][1]


def _task_messages(messages: Sequence[object], number: int | None) -> list[TaskMessage]:
    """The messages of tasks, which must belong together."""
    tasks = [each for each in messages if isinstance(each, TaskMessage)]
    writes = {each.task.write for each in tasks}
    partitions = {each.task.partition for each in tasks}
    if (
        any(each is not None and not isinstance(each, TaskMessage) for each in messages)
        or len(writes) > 1
        or len(partitions) < len(tasks)
        or any(each >= len(messages) for each in partitions)
    ):
        raise ExactlyOnceError(
            f"the {len(messages)} commit messages from Spark are not those of one write; nothing is committed"
        )
    if tasks and number is not None and tasks[0].task.write.number != number:
        raise ExactlyOnceError(
            f"the tasks wrote {tasks[0].task.write}, but Spark commits number {number}; nothing is committed"
        )
    return tasks


def _is_committed(write: WriteRun, tasks: Sequence[TaskMessage], markers: Mapping[int, Marker]) -> bool:
    """Whether every row of this run is committed. If not, only whole tasks of it may be committed.

    Count and checksum are sums over rows: if the markers together have the same sums as all tasks together,
    they are for the same rows, however these are divided.

    Args:
        write: what this run writes.
        tasks: the messages of this run.
        markers: all existing markers of the write by partition, for this number or an earlier one.

    Raises:
        ReplayMismatchError: other rows are committed.
    """
    committed = {partition: marker for partition, marker in markers.items() if marker.number == write.number}
    present = {each.task.partition: each for each in tasks if isinstance(each, InitializedTask)}
    if _total(committed.values()) == _total(present.values()):
        return True
    for partition, marker in sorted(committed.items()):
        now = present.get(partition)
        if now is not None and marker.is_of(now.rows, now.checksum):
            continue
        has = f"{now.rows} rows with checksum {now.checksum:016x}" if now else "no rows, or does not exist"
        raise ReplayMismatchError.of(
            write,
            f"{marker.rows} rows with checksum {marker.checksum:016x} of task {partition} are committed, now "
            f"it has {has}. Of all tasks {_total(committed.values())[0]} rows are committed, and the replay "
            f"has {_total(present.values())[0]}",
        )
    return False


def _total(parts: Collection[Marker | InitializedTask]) -> tuple[int, int]:
    """Number of rows and checksum of all parts together."""
    return sum(each.rows for each in parts), sum(each.checksum for each in parts) % 2**64


def _last_decision(
    write: WriteRun, tasks: Iterable[TaskMessage], found: OffsetAndMetadata | None
) -> Decision | None:
    last = Decision.from_offset(write.identity.driver, found)
    refuse_later(write, last)
    _refuse_overtaken(write, tasks, found)
    return last


def _refuse_overtaken(write: WriteRun, tasks: Iterable[TaskMessage], found: OffsetAndMetadata | None) -> None:
    """Every task must have seen the present decision.

    If a task has not seen it, another driver has decided since, and may at any moment commit an attempt that
    is later than this run's. If both were committed, rows could be lost or doubled, because the two runs may
    have divided the rows differently into tasks.
    """
    if any(isinstance(each, InitializedTask) and each.decision != found for each in tasks):
        raise _overtaken(write, "has decided while the tasks of this one were writing")


def _overtaken(write: WriteRun, what: str) -> CommitFailedError:
    return CommitFailedError(
        f"{write}: another driver {what}; this one has committed nothing. Check whether the same "
        "query, or a write with the same writeId, runs twice"
    )

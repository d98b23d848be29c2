"""Values of exactly-once writes: names, markers and decisions in Kafka, messages from tasks to the driver.

A streaming query is identified by its id, which the checkpoint keeps; a batch by its ``writeId``, or by a
random name that no replay shares. Transactional ids and consumer groups are derived from that name.

The state of a write is kept in Kafka, as committed offsets of consumer groups without members. The offset is
the number of the micro-batch or the version of the batch. Everything else is a short text in the metadata
(brokers allow 4096 bytes), which begins with the version of this format. A task commits its marker in the
same transaction as its rows, so the marker exists if and only if the rows do. The driver commits its decision
before it commits anything else of its number.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from typing import NamedTuple

from pyspark.sql.datasource import WriterCommitMessage

from kproducer._core.transactions.transaction_arguments import OffsetAndMetadata, PreparedTransaction
from kproducer.spark.errors import ExactlyOnceError, StaleReplayError
from kproducer.spark.write_summary import WriteSummary

_FORMAT = "kproducer/1"
_MARKER = re.compile(rf"{_FORMAT} marker rows=(\d+) checksum=([0-9a-f]+)")
_DECISION = re.compile(rf"{_FORMAT} decision tasks=(\d+) marked=(\d+) nonce=(\S*) run=(.*)", re.DOTALL)

#: Enough for the id of a streaming run (36 characters); a job group may be any text.
_LONGEST_RUN = 200


# -- names -------------------------------------------------------------------------------------------------


class WriteKind(enum.Enum):
    """How a replay of a write is recognised; the value describes the write in messages."""

    #: A streaming query: numbers are consecutive micro-batches.
    STREAM = "streaming query"
    #: A batch with a ``writeId``: numbers are versions, which only increase.
    NAMED = "writeId"
    #: A batch without a ``writeId``: all or nothing, once. It has no markers and no decision.
    UNNAMED = "write"


class WriteIdentity(NamedTuple):
    """Immutable and picklable.

    Attributes:
        kind: see ``WriteKind``.
        name: the query's id, the ``writeId``, or random.
        prefix: common prefix of all transactional ids and groups, for ACLs.
    """

    kind: WriteKind
    name: str
    prefix: str

    @property
    def is_remembered(self) -> bool:
        """Whether the write has markers and a decision."""
        return self.kind is not WriteKind.UNNAMED

    @property
    def driver(self) -> str:
        """Transactional id and group of the driver."""
        return f"{self.prefix}-{self.name}-driver"

    def task(self, partition: int) -> str:
        """Transactional id and group of a task."""
        return f"{self.prefix}-{self.name}-{partition}"

    def __str__(self) -> str:
        return f"{self.kind.value} {self.name}"


class WriteRun(NamedTuple):
    """One number of a write, as one run writes it; ``str`` names it in messages.

    Attributes:
        identity: the write.
        number: micro-batch, or version of the batch.
        run: the run of the query, or the job group; empty if unknown, and then different from every run.
    """

    identity: WriteIdentity
    number: int
    run: str

    def __str__(self) -> str:
        number = "micro-batch" if self.identity.kind is WriteKind.STREAM else "version"
        return (
            f"{self.identity}, {number} {self.number}" if self.identity.is_remembered else str(self.identity)
        )


class WriteTask(NamedTuple):
    """One task of a write.

    Attributes:
        write: what it belongs to.
        partition: of the DataFrame, from 0.
    """

    write: WriteRun
    partition: int

    @property
    def name(self) -> str:
        """Transactional id and group."""
        return self.write.identity.task(self.partition)


# -- state in Kafka ----------------------------------------------------------------------------------------


class Marker(NamedTuple):
    """What a task wrote as ``number``: so many rows, with this checksum (see ``ArrowChecksum``)."""

    number: int
    rows: int
    checksum: int

    def is_of(self, rows: int, checksum: int) -> bool:
        """Whether it describes these rows."""
        return (self.rows, self.checksum) == (rows, checksum)

    def to_offset(self) -> OffsetAndMetadata:
        """The committed offset that holds the marker."""
        return OffsetAndMetadata(
            self.number, metadata=f"{_FORMAT} marker rows={self.rows} checksum={self.checksum:016x}"
        )

    @classmethod
    def from_offset(cls, group: str, offset: OffsetAndMetadata | None) -> Marker | None:
        """Read a committed offset. Raises ``ExactlyOnceError`` if it does not hold a marker."""
        if offset is None:
            return None
        rows, checksum = _fields(_MARKER, group, offset)
        return cls(offset.offset, int(rows), int(checksum, 16))


class Decision(NamedTuple):
    """The driver's decision to commit what the tasks of ``number`` have prepared.

    Attributes:
        number: of the write.
        tasks: the largest number of tasks in any decision for this number.
        marked: how many of them already had a marker, for this number or an earlier one.
        nonce: distinguishes decisions that are otherwise equal.
        run: see ``WriteRun``.
    """

    number: int
    tasks: int
    marked: int
    nonce: str
    run: str

    def to_offset(self) -> OffsetAndMetadata:
        """The committed offset that holds the decision."""
        run = self.run[:_LONGEST_RUN]
        text = f"{_FORMAT} decision tasks={self.tasks} marked={self.marked} nonce={self.nonce} run={run}"
        return OffsetAndMetadata(self.number, metadata=text)

    @classmethod
    def from_offset(cls, group: str, offset: OffsetAndMetadata | None) -> Decision | None:
        """Read a committed offset. Raises ``ExactlyOnceError`` if it does not hold a decision."""
        if offset is None:
            return None
        tasks, marked, nonce, run = _fields(_DECISION, group, offset)
        return cls(offset.offset, int(tasks), int(marked), nonce, run)

    def is_of_run(self, run: str) -> bool:
        """Whether this run took the decision. A run without a name took none."""
        return bool(run) and self.run == run[:_LONGEST_RUN]


def _fields(pattern: re.Pattern[str], group: str, offset: OffsetAndMetadata) -> tuple[str, ...]:
    found = pattern.fullmatch(offset.metadata)
    if found is None:
        raise ExactlyOnceError(
            f"group '{group}' has a committed offset ({offset.offset}, {offset.metadata[:80]!r}) that this "
            "version did not write: either another program uses the group (choose another "
            "transactionalIdPrefix), or a newer version wrote it (use that version)"
        )
    return found.groups()


def refuse_later(write: WriteRun, found: Marker | Decision | None) -> None:
    """Raise ``StaleReplayError`` if ``found`` is of a later number than the write."""
    if found is not None and found.number > write.number:
        raise StaleReplayError.of(write, found.number)


# -- messages from tasks to the driver ---------------------------------------------------------------------


@dataclass
class TaskMessage(WriterCommitMessage):
    """The commit message of a task, which Spark carries to the driver.

    Attributes:
        task: who sent it.
        summary: what it wrote.
    """

    task: WriteTask
    summary: WriteSummary = field(default_factory=WriteSummary, kw_only=True)


@dataclass
class EmptyTask(TaskMessage):
    """The task had no rows and sent no request, so earlier attempts are not fenced."""


@dataclass
class InitializedTask(TaskMessage):
    """The task fenced all earlier attempts.

    Attributes:
        rows: number of its rows.
        checksum: of these rows; 0 if the write is not remembered.
        decision: the driver's last decision, read before the fence; ``None``: there was none.
        marker: the task's marker, for any number, read after the fence; ``None``: there was none.
    """

    rows: int
    checksum: int
    decision: OffsetAndMetadata | None
    marker: Marker | None


@dataclass
class RepeatedTask(InitializedTask):
    """Rows of this number were already committed for the task, so it wrote nothing.

    Its marker describes those rows. If the task has other rows now, the driver compares the totals of all
    tasks.
    """

    @property
    def has_same_rows(self) -> bool:
        """Whether the task still has the rows that are committed."""
        return self.marker is not None and self.marker.is_of(self.rows, self.checksum)


@dataclass
class PreparedTask(InitializedTask):
    """The task wrote its rows in ``transaction``, which the driver has to commit."""

    transaction: PreparedTransaction

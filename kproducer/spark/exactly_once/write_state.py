"""Values of exactly-once writes: names, markers and decisions in Kafka, messages from tasks to the driver.

A streaming query is identified by its id, which the checkpoint keeps; a batch by its ``writeId``, or by a
random name that no replay shares. Transactional ids and consumer groups are derived from that name.

Kafka keeps the state of a write as committed offsets of consumer groups that have no members. The offset is
the number of the micro-batch or the version of the batch; everything else is a short text in the metadata
(brokers allow 4096 bytes), which begins with the version of this format. A task commits its marker in the
same transaction as its rows, so the marker is there if and only if the rows are. The driver commits its
decision before the first commit of its number.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import attrs
from pyspark.sql.datasource import WriterCommitMessage

from kproducer.spark.errors import ExactlyOnceError
from kproducer.spark.write_summary import WriteSummary
from kproducer.transactions.transaction_arguments import OffsetAndMetadata, PreparedTransaction

_FORMAT = "kproducer/1"

#: Enough for the id of a streaming run (36 characters); a job group may be any text.
_LONGEST_RUN = 200


# -- names -------------------------------------------------------------------------------------------------


class WriteKind(enum.Enum):
    """How a replay of a write is recognised; the value describes the write in messages."""

    #: A streaming query: numbers are micro-batches, one after the other.
    STREAM = "streaming query"
    #: A batch with a ``writeId``: numbers are versions, which only grow.
    NAMED = "writeId"
    #: A batch without a ``writeId``: all or nothing, once. It has no markers and no decision.
    UNNAMED = "write"


@attrs.frozen
class WriteIdentity:
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

    def task(self, task: int) -> str:
        """Transactional id and group of a task."""
        return f"{self.prefix}-{self.name}-{task}"

    def numbered(self, number: int) -> str:
        """The write with its number, for messages."""
        what = "micro-batch" if self.kind is WriteKind.STREAM else "version"
        return f"{self}, {what} {number}" if self.is_remembered else str(self)

    def __str__(self) -> str:
        return f"{self.kind.value} {self.name}"


@attrs.frozen
class TaskPlace:
    """The part of a write that one task is.

    Attributes:
        identity: the write.
        number: micro-batch, or version of the batch.
        run: the start of the query, or the job group; empty if unknown, and then equal to no other run.
        task: the DataFrame's partition, from 0.
    """

    identity: WriteIdentity
    number: int
    run: str
    task: int

    @property
    def name(self) -> str:
        """Transactional id and group."""
        return self.identity.task(self.task)

    @property
    def write(self) -> str:
        """The write with its number, for messages."""
        return self.identity.numbered(self.number)


# -- state in Kafka ----------------------------------------------------------------------------------------


@attrs.frozen
class Marker:
    """What a task wrote: ``rows`` with ``checksum`` (64 bits, independent of their order) as ``number``."""

    number: int
    rows: int
    checksum: int

    def is_of(self, rows: int, checksum: int) -> bool:
        """Whether it was written for these rows."""
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
        try:
            fields = _fields(offset, "marker", 2)
            return cls(offset.offset, int(fields["rows"]), int(fields["checksum"], 16))
        except (KeyError, ValueError):
            raise _foreign(group, offset) from None


@attrs.frozen
class Decision:
    """The driver's decision that what the tasks of ``number`` have prepared is committed now.

    Attributes:
        number: of the write.
        tasks: number of tasks, now or in an earlier decision for the same number, whichever is larger.
        marked: how many of them had a marker already, of this number or an earlier one.
        nonce: distinguishes decisions that are otherwise equal.
        run: see ``TaskPlace``.
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
        try:
            fields = _fields(offset, "decision", 4)
            return cls(
                offset.offset, int(fields["tasks"]), int(fields["marked"]), fields["nonce"], fields["run"]
            )
        except (KeyError, ValueError):
            raise _foreign(group, offset) from None

    def is_of_run(self, run: str) -> bool:
        """Whether this run took the decision. A run without a name never equals another."""
        return bool(run) and self.run == run[:_LONGEST_RUN]


def _fields(offset: OffsetAndMetadata, kind: str, count: int) -> dict[str, str]:
    head, found_kind, rest = offset.metadata.split(" ", 2)
    if (head, found_kind) != (_FORMAT, kind):
        raise ValueError
    # The last field may contain spaces.
    return dict(part.split("=", 1) for part in rest.split(" ", count - 1))


def _foreign(group: str, offset: OffsetAndMetadata) -> ExactlyOnceError:
    return ExactlyOnceError(
        f"group '{group}' has a committed offset ({offset.offset}, {offset.metadata[:80]!r}) that this "
        "version did not write: another program uses the group, or a newer version wrote it; choose another "
        "transactionalIdPrefix, or use that version"
    )


# -- messages from tasks to the driver ---------------------------------------------------------------------


@dataclass
class TaskMessage(WriterCommitMessage):
    """The commit message of a task, which Spark carries to the driver.

    Attributes:
        place: which task.
        summary: what it wrote.
    """

    place: TaskPlace
    summary: WriteSummary = field(default_factory=WriteSummary, kw_only=True)


@dataclass
class EmptyTask(TaskMessage):
    """The task had no rows and sent no request: earlier attempts are not fenced."""


@dataclass
class InitializedTask(TaskMessage):
    """The task fenced all earlier attempts.

    Attributes:
        rows: number of its rows.
        checksum: of these rows; 0 if the write is not remembered.
        decision: the driver's last decision, read before the fence; ``None``: there was none.
        marker: the task's marker of any number, read after the fence; ``None``: there was none.
    """

    rows: int
    checksum: int
    decision: OffsetAndMetadata | None
    marker: Marker | None


@dataclass
class RepeatedTask(InitializedTask):
    """Rows of this number are already committed for the task; it wrote nothing.

    Its marker describes these rows. If they differ from the rows that it has now, the driver compares all
    tasks.
    """

    @property
    def has_same_rows(self) -> bool:
        """Whether the committed rows are those that the task has now."""
        return self.marker is not None and self.marker.is_of(self.rows, self.checksum)


@dataclass
class PreparedTask(InitializedTask):
    """The task wrote its rows in a transaction that the driver has to commit.

    Attributes:
        transaction: identifies the transaction.
    """

    transaction: PreparedTransaction

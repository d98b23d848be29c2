"""WriteIdentity: by which name a write is known, to itself and when it comes again.

A streaming query has its id, which the checkpoint keeps; a batch has what its user calls it, or else a name
of the moment, which no repetition shares. Transactional ids and groups follow from the name. Plain values.
"""

from __future__ import annotations

import enum

import attrs


class WriteKind(enum.Enum):
    """What a repetition can be told by."""

    #: A streaming query: numbers are micro-batches and come one after the other.
    STREAM = "stream"
    #: A batch with a ``writeId``: numbers are versions and only grow.
    NAMED = "named"
    #: A batch without: all or nothing, once. No markers, no decision.
    UNNAMED = "unnamed"


@attrs.frozen
class WriteIdentity:
    """Immutable and picklable.

    Attributes:
        kind: see ``WriteKind``.
        name: the query's id, the ``writeId``, or random.
        prefix: of all transactional ids and groups, for ACLs.
    """

    kind: WriteKind
    name: str
    prefix: str

    @property
    def is_remembered(self) -> bool:
        """Whether there are markers and a decision."""
        return self.kind is not WriteKind.UNNAMED

    @property
    def driver(self) -> str:
        """Transactional id and group of the driver."""
        return f"{self.prefix}-{self.name}-driver"

    def task(self, task: int) -> str:
        """Transactional id and group of a task."""
        return f"{self.prefix}-{self.name}-{task}"

    def __str__(self) -> str:
        what = {WriteKind.STREAM: "streaming query", WriteKind.NAMED: "writeId", WriteKind.UNNAMED: "write"}
        return f"{what[self.kind]} {self.name}"


@attrs.frozen
class TaskPlace:
    """Which part of which write a task is.

    Attributes:
        identity: the write.
        number: micro-batch, or version of the batch.
        run: which start of the query, or job group; empty: not known, and equal to no other.
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

    def __str__(self) -> str:
        return f"task {self.task} of {numbered(self.identity, self.number)}"


def numbered(identity: WriteIdentity, number: int) -> str:
    """A write and its number, for messages."""
    what = "micro-batch" if identity.kind is WriteKind.STREAM else "version"
    return f"{identity}, {what} {number}" if identity.is_remembered else str(identity)

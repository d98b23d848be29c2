"""Marker and Decision: what is kept in Kafka of a write, as committed offsets of groups that nobody reads by.

A task's marker is part of its transaction: it is there exactly when the rows are. The driver's decision comes
before the first commit of its number. The offset is the number; the rest is a short text in the metadata
(brokers take 4096 bytes), which begins with the version of this format. Plain values.
"""

from __future__ import annotations

import attrs

from kproducer.spark.errors import ExactlyOnceError
from kproducer.transactions.transaction_arguments import OffsetAndMetadata

_FORMAT = "kproducer/1"

#: Enough for the id of a streaming run (36); a job group may be any text.
_LONGEST_RUN = 200


@attrs.frozen
class Marker:
    """What a task wrote: ``rows`` with ``checksum`` (64 bits, whatever their order) as ``number``."""

    number: int
    rows: int
    checksum: int

    def is_of(self, rows: int, checksum: int) -> bool:
        """Whether it was written for these rows."""
        return (self.rows, self.checksum) == (rows, checksum)

    def to_offset(self) -> OffsetAndMetadata:
        """As Kafka keeps it."""
        return OffsetAndMetadata(
            self.number, metadata=f"{_FORMAT} marker rows={self.rows} checksum={self.checksum:016x}"
        )

    @classmethod
    def from_offset(cls, group: str, offset: OffsetAndMetadata | None) -> Marker | None:
        """Raises ``ExactlyOnceError`` for what is no marker."""
        if offset is None:
            return None
        try:
            fields = _fields(offset, "marker", 2)
            return cls(offset.offset, int(fields["rows"]), int(fields["checksum"], 16))
        except (KeyError, ValueError):
            raise _foreign(group, offset) from None


@attrs.frozen
class Decision:
    """A driver's: "what the tasks of ``number`` prepared is committed now".

    Attributes:
        number: of the write.
        tasks: how many tasks there are, or were in an earlier decision for the same number, if more.
        marked: how many of them had a marker already, of this number or an earlier one.
        nonce: tells decisions apart that are equal otherwise.
        run: see ``TaskPlace``.
    """

    number: int
    tasks: int
    marked: int
    nonce: str
    run: str

    def to_offset(self) -> OffsetAndMetadata:
        """As Kafka keeps it."""
        run = self.run[:_LONGEST_RUN]
        text = f"{_FORMAT} decision tasks={self.tasks} marked={self.marked} nonce={self.nonce} run={run}"
        return OffsetAndMetadata(self.number, metadata=text)

    @classmethod
    def from_offset(cls, group: str, offset: OffsetAndMetadata | None) -> Decision | None:
        """Raises ``ExactlyOnceError`` for what is no decision."""
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
        """Whether the same run took it. A run without a name is never the same."""
        return bool(run) and self.run == run[:_LONGEST_RUN]


def _fields(offset: OffsetAndMetadata, kind: str, count: int) -> dict[str, str]:
    head, found_kind, rest = offset.metadata.split(" ", 2)
    if (head, found_kind) != (_FORMAT, kind):
        raise ValueError
    # The last one may have blanks in it.
    return dict(part.split("=", 1) for part in rest.split(" ", count - 1))


def _foreign(group: str, offset: OffsetAndMetadata) -> ExactlyOnceError:
    return ExactlyOnceError(
        f"group '{group}' has a committed offset ({offset.offset}, {offset.metadata[:80]!r}) that this "
        "version did not write: another program uses the group, or a newer version wrote it; choose another "
        "transactionalIdPrefix, or use that version"
    )

"""What the two protocols need of Kafka, and of rows. Each call is one step, after which a crash may come.

``kafka_ports`` has the real ones; tests and the model have theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from kproducer.errors import KafkaError
from kproducer.transactions.transaction_arguments import OffsetAndMetadata, PreparedTransaction

#: Called with the name of a step before the step is taken. Only tests use it.
OnStep = Callable[[str], None]


def unobserved(step: str) -> None:
    """Nobody looks."""


class RowBatch(Protocol):
    """Some rows; an Arrow RecordBatch, for instance."""

    @property
    def num_rows(self) -> int:
        """How many."""


class RowChecksum(Protocol):
    """A sum over rows, each row by its content: neither order nor division into parts changes it.

    Attributes:
        rows: how many were added.
        value: 64 bits, unsigned. That of two parts together is the sum of both, modulo 2**64.
    """

    @property
    def rows(self) -> int: ...
    @property
    def value(self) -> int: ...

    def update(self, data: Any) -> None:
        """Take rows in."""


class TaskKafka(Protocol):
    """One task's transactional producer."""

    def decision(self, group: str) -> OffsetAndMetadata | None:
        """The committed offset of a group, whatever open transactions may do to it: waits for none."""

    def initialize(self, transactional_id: str) -> None:
        """Fence whoever uses the id, and end what is open. Back only when it has ended."""

    def marker(self, group: str) -> OffsetAndMetadata | None:
        """The committed offset of a group, stable: no open transaction may change it."""

    def begin(self) -> None:
        """Begin the transaction."""

    def send(self, batch: Any) -> None:
        """Hand over rows."""

    def flush(self) -> None:
        """Wait until each row is acknowledged, or raise."""

    def add_marker(self, group: str, offset: OffsetAndMetadata) -> None:
        """Make an offset part of the transaction."""

    def prepare(self) -> PreparedTransaction:
        """Hand the transaction over."""

    def abort(self) -> None:
        """End the transaction, with short patience."""

    def discard(self) -> None:
        """Nobody may use this producer again."""


class DriverKafka(Protocol):
    """What the driver does to transactions of others, and its own."""

    def decision(self, group: str) -> OffsetAndMetadata | None:
        """The committed offset of a group as it is now: waits for no transaction. With short patience."""

    def fence(self, transactional_ids: Sequence[str]) -> None:
        """Fence whoever uses the ids, and end what is open. Back only when all have ended."""

    def markers(self, groups: Sequence[str]) -> Mapping[str, OffsetAndMetadata | None]:
        """Committed offsets of groups, stable: no open transaction may change them."""

    def decide(self, transactional_id: str, group: str, offset: OffsetAndMetadata) -> None:
        """Commit an offset in a transaction of its own, as the one whom the last ``fence`` made the owner.

        Raises:
            FencedError: somebody else has fenced the id since.
        """

    def commit(self, prepared: Sequence[PreparedTransaction]) -> list[KafkaError | None]:
        """Commit all, with patience; for each ``None`` (it is committed) or why that is not known."""

    def abort(self, prepared: Iterable[PreparedTransaction], unknown: Sequence[str] = ()) -> None:
        """Abort all, and ``fence`` the ids of which nothing is known, with short patience."""

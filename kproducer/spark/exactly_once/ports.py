"""What the two protocols need from Kafka and from rows. Each call is one step; a crash may come after any.

``kafka_ports`` implements them on real brokers; tests and the model have their own implementations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from kproducer.errors import KafkaError
from kproducer.transactions.transaction_arguments import OffsetAndMetadata, PreparedTransaction

#: Called with the name of a step before the step is taken. Used by tests only.
OnStep = Callable[[str], None]


def no_hook(step: str) -> None:
    """The ``OnStep`` that does nothing."""


class RowBatch(Protocol):
    """Some rows, for instance an Arrow RecordBatch."""

    @property
    def num_rows(self) -> int:
        """Number of rows."""


class RowChecksum(Protocol):
    """A sum of hashes of rows: neither their order nor their division into parts changes it.

    Attributes:
        rows: number of rows added.
        value: 64 bits, unsigned. The value of two parts together is the sum of both, modulo 2**64.
    """

    @property
    def rows(self) -> int: ...
    @property
    def value(self) -> int: ...

    def update(self, data: Any) -> None:
        """Add rows."""


class TaskKafka(Protocol):
    """One task's transactional producer."""

    def decision(self, group: str) -> OffsetAndMetadata | None:
        """The committed offset of a group. Does not wait for open transactions that may change it."""

    def initialize(self, transactional_id: str) -> None:
        """Fence other producers with this id and end their open transaction. Returns when it has ended."""

    def marker(self, group: str) -> OffsetAndMetadata | None:
        """The committed offset of a group, when no open transaction can change it."""

    def begin(self) -> None:
        """Begin the transaction."""

    def send(self, batch: Any) -> None:
        """Send rows."""

    def flush(self) -> None:
        """Wait until each row is acknowledged, or raise."""

    def add_marker(self, group: str, offset: OffsetAndMetadata) -> None:
        """Commit an offset as part of the transaction."""

    def prepare(self) -> PreparedTransaction:
        """Hand the transaction over to the driver."""

    def abort(self) -> None:
        """Abort the transaction, with a short timeout."""

    def discard(self) -> None:
        """Close the producer; no other task may use it."""


class DriverKafka(Protocol):
    """The driver's calls about its own transactions and those of tasks."""

    def decision(self, group: str) -> OffsetAndMetadata | None:
        """The committed offset of a group as it is now: does not wait for transactions. Short timeout."""

    def fence(self, transactional_ids: Sequence[str]) -> None:
        """Fence producers with these ids and end their open transactions. Returns when all have ended."""

    def markers(self, groups: Sequence[str]) -> Mapping[str, OffsetAndMetadata | None]:
        """The committed offsets of groups, when no open transaction can change them."""

    def decide(self, transactional_id: str, group: str, offset: OffsetAndMetadata) -> None:
        """Commit an offset in its own transaction, with the epoch that the last ``fence`` has got.

        Raises:
            FencedError: another driver has fenced the id since.
        """

    def commit(self, prepared: Sequence[PreparedTransaction]) -> list[KafkaError | None]:
        """Commit all. Returns ``None`` for each that is committed, or why that is not known."""

    def abort(self, prepared: Iterable[PreparedTransaction], unknown: Sequence[str] = ()) -> None:
        """Abort all, and ``fence`` the ids whose transactions are unknown. Short timeout."""

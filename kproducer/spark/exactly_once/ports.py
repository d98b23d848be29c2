"""What the two protocols need from Kafka. Each call is a step; a crash may follow any of them.

``kafka_ports`` implements the ports on real brokers; tests and the model have their own implementations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from kproducer._core.transactions.transaction_arguments import OffsetAndMetadata, PreparedTransaction
from kproducer.errors import KafkaError


class TaskPort(Protocol):
    """One task's transactional producer."""

    def current_offset(self, group: str) -> OffsetAndMetadata | None:
        """The committed offset of a group. Waits only briefly for an open transaction that may change it."""

    def initialize(self, transactional_id: str) -> None:
        """Fence other producers with this id. Returns when their open transaction has ended."""

    def stable_offset(self, group: str) -> OffsetAndMetadata | None:
        """The committed offset of a group, once no open transaction can change it."""

    def begin(self) -> None:
        """Begin the transaction."""

    def send(self, batch: Any) -> None:
        """Send rows."""

    def flush(self) -> None:
        """Wait until every row is acknowledged. Raises if one was not."""

    def add_marker(self, group: str, offset: OffsetAndMetadata) -> None:
        """Commit an offset as part of the transaction."""

    def prepare(self) -> PreparedTransaction:
        """Hand the transaction over to the driver."""

    def abort(self) -> None:
        """Abort the transaction, with a short timeout."""


class DriverPort(Protocol):
    """The driver's calls about its own transactions and those of tasks."""

    def current_offset(self, group: str) -> OffsetAndMetadata | None:
        """The committed offset of a group, without those of open transactions. Short timeout."""

    def fence(self, transactional_ids: Sequence[str]) -> None:
        """Fence producers with these ids. Returns when their open transactions have ended."""

    def stable_offsets(self, groups: Sequence[str]) -> Mapping[str, OffsetAndMetadata | None]:
        """The committed offsets of groups, once no open transaction can change them."""

    def decide(self, transactional_id: str, group: str, offset: OffsetAndMetadata) -> None:
        """Commit an offset in its own transaction, with the epoch from the last ``fence``.

        Raises:
            FencedError: another driver has fenced the id since then.
        """

    def commit(self, prepared: Sequence[PreparedTransaction]) -> list[KafkaError | None]:
        """Commit all. Returns for each ``None`` if it is committed, else the error: it may be committed."""

    def abort(self, prepared: Iterable[PreparedTransaction], unknown: Sequence[str] = ()) -> None:
        """Abort all, and ``fence`` the ids whose transactions are unknown. Short timeout."""

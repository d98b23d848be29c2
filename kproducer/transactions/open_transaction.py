"""OpenTransaction: what belongs to one transaction, from ``begin_transaction`` to its end.

Plain data, guarded by the manager's lock. PreparedTransaction is what another process needs to end one.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from kproducer.errors import InvalidArgumentError
from kproducer.kernel.layout import INT16_MAX
from kproducer.runtime.arguments import checked_number, checked_text
from kproducer.transactions.consumer_offsets import ConsumerGroupMetadata, OffsetAndMetadata
from kproducer.transactions.transaction_state import PendingOperation
from kproducer.types import INT64_MAX, TopicPartition


class PreparedTransaction(NamedTuple):
    """A transaction with everything written, for another process to commit or abort. Small; pickles.

    Attributes:
        transactional_id: the producer's.
        producer_id, epoch: as whom it was written.
        transaction_version: 1 or 2: how it has to be ended (KIP-890).
        is_empty: nothing was written; no broker knows of it.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    transaction_version: int
    is_empty: bool = False


def checked_prepared(prepared: PreparedTransaction) -> PreparedTransaction:
    """Raise InvalidArgumentError for what ``prepare`` cannot have returned. Returns it."""
    given: Any = prepared
    if not isinstance(given, PreparedTransaction):
        raise InvalidArgumentError(
            f"prepared must be the PreparedTransaction that prepare() returned, not {given!r}"
        )
    checked_text(f"transactional_id of {given}", given.transactional_id, shortest=1)
    checked_number(f"producer_id of {given}", given.producer_id, 0, INT64_MAX)
    checked_number(f"epoch of {given}", given.epoch, 0, INT16_MAX)
    checked_number(f"transaction_version of {given}", given.transaction_version, 1, 2)
    return prepared


class OffsetsTask:
    """One call of ``send_offsets_to_transaction``.

    Attributes:
        remaining: what the group's coordinator has not taken yet.
    """

    __slots__ = ("group", "operation", "remaining")

    def __init__(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        self.remaining = offsets
        self.group = group
        self.operation = PendingOperation("send_offsets_to_transaction")


class OpenTransaction:
    """What the producer knows of its transaction.

    Attributes:
        version: 1: partitions and groups are added by requests of their own; 2: by writing to them (KIP-890).
        is_taken_over: another process wrote it.
        new_partitions: written to by the application, not yet added (version 1).
        partitions: added: batches may go there (version 1).
        groups: consumer groups that were added (version 1).
        offsets: calls that are not done, oldest first.
        has_started: the coordinator knows of the transaction.
        may_have_started: it may know: a request went out, and nothing is known of its effect.
        has_ended: the coordinator has taken the end; what may be left is to get the next epoch.
        must_raise_epoch: a batch or request may still arrive in the next transaction: that needs a new epoch.
    """

    __slots__ = (
        "groups",
        "has_ended",
        "has_started",
        "is_taken_over",
        "may_have_started",
        "must_raise_epoch",
        "new_partitions",
        "offsets",
        "partitions",
        "version",
    )

    def __init__(self, version: int, is_taken_over: bool = False) -> None:
        self.version = version
        self.is_taken_over = is_taken_over
        self.new_partitions: set[TopicPartition] = set()
        self.partitions: set[TopicPartition] = set()
        self.groups: set[str] = set()
        self.offsets: deque[OffsetsTask] = deque()
        self.has_started = is_taken_over
        self.may_have_started = is_taken_over
        self.has_ended = False
        self.must_raise_epoch = False

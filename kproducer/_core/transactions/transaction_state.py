"""The states of a producer with a transactional id, their legal transitions, and the open transaction.

docs/internals/transactions.md has a diagram. FATAL_ERROR is final: the producer has to be closed. A
producer without transactional id uses UNINITIALIZED, INITIALIZING, READY and FATAL_ERROR only.

Plain data, guarded by the lock of ``TransactionStateMachine``; ``PendingOperation`` has its own event.
Source: Kafka's ``TransactionManager.State``; PREPARED is our own (KIP-939 plans something similar).
"""

from __future__ import annotations

import enum
import threading
from collections import deque
from typing import Final

from kproducer._core.transactions.transaction_arguments import ConsumerGroupMetadata, OffsetAndMetadata
from kproducer.errors import KafkaError
from kproducer.types import TopicPartition


class TransactionState(enum.Enum):
    """The value completes "the producer is ..." in error messages."""

    UNINITIALIZED = "not initialized"
    INITIALIZING = "being initialized"
    READY = "ready for a transaction"
    IN_TRANSACTION = "in an open transaction"
    PREPARED = "in a transaction that was handed over"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "in a transaction that can only be aborted"
    FATAL_ERROR = "unusable after a fatal error"


_S = TransactionState

#: The states that may follow each state.
LEGAL_TRANSITIONS: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    # FATAL_ERROR: the brokers have no transactions, or refuse permanently.
    _S.UNINITIALIZED: frozenset({_S.INITIALIZING, _S.PREPARED, _S.FATAL_ERROR}),
    # UNINITIALIZED: authorization failed; the application may try again.
    _S.INITIALIZING: frozenset({_S.READY, _S.UNINITIALIZED, _S.FATAL_ERROR}),
    # INITIALIZING: an idempotent producer has used up its epochs and needs another id.
    # UNINITIALIZED, here and from PREPARED: change_transactional_id.
    _S.READY: frozenset({_S.IN_TRANSACTION, _S.INITIALIZING, _S.UNINITIALIZED, _S.FATAL_ERROR}),
    _S.IN_TRANSACTION: frozenset(
        {_S.COMMITTING, _S.ABORTING, _S.PREPARED, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}
    ),
    _S.PREPARED: frozenset({_S.COMMITTING, _S.ABORTING, _S.UNINITIALIZED, _S.FATAL_ERROR}),
    # UNINITIALIZED: a transaction taken over from another process has ended; this producer has no id.
    _S.COMMITTING: frozenset({_S.READY, _S.UNINITIALIZED, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.ABORTABLE_ERROR: frozenset({_S.ABORTING, _S.FATAL_ERROR}),
    _S.ABORTING: frozenset({_S.READY, _S.UNINITIALIZED, _S.FATAL_ERROR}),
    _S.FATAL_ERROR: frozenset(),
}


class PendingOperation:
    """A step that a caller waits for; the I/O thread ends it exactly once. Thread-safe.

    Attributes:
        name: the method that started it: "commit_transaction".
        error: why it failed; ``None`` while it has not ended, and after success.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.error: KafkaError | None = None
        self._event = threading.Event()

    def end(self, error: KafkaError | None = None) -> None:
        """End it, with success or with an error, unless it has ended."""
        if not self._event.is_set():
            self.error = error
            self._event.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until it has ended. Returns whether it has."""
        return self._event.wait(timeout_s)

    @property
    def has_ended(self) -> bool:
        """Whether ``end`` was called."""
        return self._event.is_set()

    def raise_if_failed(self) -> None:
        """Raise a copy of its error, if it has one. A copy, because tracebacks grow with every raise."""
        if self.error is not None:
            raise self.error.copy()


class PendingOffsets(PendingOperation):
    """One call of ``send_offsets_to_transaction``.

    Attributes:
        remaining: the offsets that the group's coordinator has not accepted yet.
        group: whose offsets.
    """

    def __init__(
        self, name: str, remaining: dict[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        super().__init__(name)
        self.remaining = remaining
        self.group = group


class OpenTransaction:
    """What the producer knows about its transaction, from ``begin_transaction`` to the end.

    Attributes:
        version: 1: partitions and groups are added with requests of their own; 2: by writing (KIP-890).
        is_taken_over: another process has written it.
        has_started: the coordinator knows of the transaction.
        may_have_started: the coordinator may know of it: a request was sent whose effect is not known.
        has_ended: the coordinator has committed or aborted it; only the next epoch may be missing.
        may_be_committed: a commit was requested, and what has become of the request is not known.
        must_raise_epoch: a batch or request may still arrive in the next transaction, which therefore needs
            another epoch.
        new_partitions: partitions with records, not added to the transaction yet (version 1).
        partitions: partitions that were added, so that batches may be sent (version 1).
        groups: consumer groups that were added (version 1).
        offsets: calls of ``send_offsets_to_transaction`` that are not done, oldest first.
    """

    def __init__(self, version: int, *, is_taken_over: bool = False, has_started: bool = False) -> None:
        self.version = version
        self.is_taken_over = is_taken_over
        self.has_started = has_started
        self.may_have_started = has_started
        self.has_ended = False
        self.may_be_committed = False
        self.must_raise_epoch = False
        self.new_partitions: set[TopicPartition] = set()
        self.partitions: set[TopicPartition] = set()
        self.groups: set[str] = set()
        self.offsets: deque[PendingOffsets] = deque()

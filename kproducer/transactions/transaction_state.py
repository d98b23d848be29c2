"""The states of a producer with a transactional id, the legal ways between them, and what a caller waits for.

    UNINITIALIZED --> INITIALIZING --> READY --> IN_TRANSACTION --> COMMITTING --> READY
          ^  |             |                      |     |    |          |
          |  |             v                      |     |    v          v
          |  |       UNINITIALIZED                |     |  ABORTABLE_ERROR
          |  |       (refused: try again)         v     v        |
          |  `------------------------------> PREPARED  ABORTING <'
          |                                     |  |        |
          `--- (taken over from a process) <----'  `-> COMMITTING, ABORTING --> READY, UNINITIALIZED

READY and PREPARED also lead to UNINITIALIZED: the producer goes on under another transactional id.
Every state but FATAL_ERROR leads to FATAL_ERROR, and that one leads nowhere: the producer is to be closed.
An idempotent producer without transactional id knows UNINITIALIZED, INITIALIZING, READY and FATAL_ERROR.
Source: Kafka's ``TransactionManager.State``; PREPARED is ours in this form (KIP-939 has another).
"""

from __future__ import annotations

import copy
import enum
import threading
from typing import Final

from kproducer.errors import KafkaError


class TransactionState(enum.Enum):
    """Where the producer is. The value is the word that error messages use."""

    UNINITIALIZED = "not initialized"
    INITIALIZING = "being initialized"
    READY = "ready for a transaction"
    IN_TRANSACTION = "in a transaction"
    PREPARED = "in a transaction that was handed over"
    COMMITTING = "committing"
    ABORTING = "aborting"
    ABORTABLE_ERROR = "in a transaction that can only be aborted"
    FATAL_ERROR = "of no use any more"


_S = TransactionState

#: State to the states that may follow. ``tests/unit/transactions`` draws on it too.
LEGAL_TRANSITIONS: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    # FATAL_ERROR: a broker that has no transactions, a refusal for good.
    _S.UNINITIALIZED: frozenset({_S.INITIALIZING, _S.PREPARED, _S.FATAL_ERROR}),
    # UNINITIALIZED: refused for now (authorization); may be asked again.
    _S.INITIALIZING: frozenset({_S.READY, _S.UNINITIALIZED, _S.FATAL_ERROR}),
    # INITIALIZING: an idempotent producer has used up its epochs and asks for another id.
    # UNINITIALIZED, here and from PREPARED: another transactional id.
    _S.READY: frozenset({_S.IN_TRANSACTION, _S.INITIALIZING, _S.UNINITIALIZED, _S.FATAL_ERROR}),
    _S.IN_TRANSACTION: frozenset(
        {_S.COMMITTING, _S.ABORTING, _S.PREPARED, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}
    ),
    _S.PREPARED: frozenset({_S.COMMITTING, _S.ABORTING, _S.UNINITIALIZED, _S.FATAL_ERROR}),
    # UNINITIALIZED: a transaction taken over from another process has ended, and we never were its producer.
    _S.COMMITTING: frozenset({_S.READY, _S.UNINITIALIZED, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.ABORTABLE_ERROR: frozenset({_S.ABORTING, _S.FATAL_ERROR}),
    _S.ABORTING: frozenset({_S.READY, _S.UNINITIALIZED, _S.FATAL_ERROR}),
    _S.FATAL_ERROR: frozenset(),
}


class PendingOperation:
    """A step that a caller waits for; the I/O thread ends it exactly once. Thread-safe.

    Attributes:
        name: the step in words: "commit_transaction".
    """

    __slots__ = ("_error", "_event", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._event = threading.Event()
        self._error: KafkaError | None = None

    def succeed(self) -> None:
        """It is done. Does nothing when it had ended before."""
        self._event.set()

    def fail(self, error: KafkaError) -> None:
        """It will not be done. Does nothing when it had ended before."""
        if not self._event.is_set():
            self._error = error
            self._event.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until it has ended. Returns whether it has."""
        return self._event.wait(timeout_s)

    @property
    def has_ended(self) -> bool:
        """Whether ``succeed`` or ``fail`` was called."""
        return self._event.is_set()

    @property
    def error(self) -> KafkaError | None:
        """Why it failed; None while it goes on and after success."""
        return self._error

    def raise_if_failed(self) -> None:
        """Raise its error, if it has one: each time a copy, for tracebacks grow with each raise."""
        if self._error is not None:
            error = copy.copy(self._error)
            error.__cause__ = self._error.__cause__
            raise error

    def __repr__(self) -> str:
        how = "goes on" if not self.has_ended else ("is done" if self._error is None else str(self._error))
        return f"<{self.name}: {how}>"

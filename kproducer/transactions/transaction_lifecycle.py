"""TransactionLifecycle: the state, how it changes, and what each change means for those who wait.

The only place that sets the state. Guarded by the manager's lock. Knows no requests and no batches.
Source: Kafka's ``TransactionManager`` (transitionTo, transitionToAbortableError, transitionToFatalError).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from kproducer.errors import (
    AbortTransactionError,
    FatalProducerError,
    FencedError,
    IllegalStateError,
    InvalidArgumentError,
    KafkaError,
    TransactionAbortedError,
)
from kproducer.runtime.guarded_logger import GuardedLogger
from kproducer.transactions.open_transaction import (
    OpenTransaction,
    PreparedTransaction,
    checked_prepared,
)
from kproducer.transactions.producer_id_and_epoch import ProducerIdAndEpoch
from kproducer.transactions.sequence_tracker import SequenceTracker
from kproducer.transactions.transaction_state import (
    LEGAL_TRANSITIONS,
    PendingOperation,
    TransactionState,
)

_log = GuardedLogger(__name__)
_S = TransactionState

#: States in which batches in the queues may stay there, unless an initialization was refused.
_WAITING = frozenset(_S) - {_S.ABORTABLE_ERROR, _S.ABORTING, _S.FATAL_ERROR}

#: States in which nothing of a transaction is up to this producer.
_WITHOUT_TRANSACTION = frozenset({_S.UNINITIALIZED, _S.READY, _S.PREPARED})


class GivenUp(NamedTuple):
    """Batches in the queues are to be failed.

    Attributes:
        error: with this.
        numbered_too: also those that were sent before and wait to be sent again; else those never sent only.
    """

    error: KafkaError
    numbered_too: bool


class TransactionLifecycle:
    """State of the producer and of its transaction.

    Args:
        transactional_id: None for a producer that is idempotent only.

    Attributes:
        transactional_id: the present one.
        state: see ``transaction_state``.
        cause: why the state is an error, or why the last initialization was refused.
        operation: what a caller waits for, kept until the caller has seen how it ended.
        transaction: the open transaction; None outside.
        sequences: numbers of the batches.
        can_raise_epoch: the coordinator gives the next epoch to whoever has this one (KIP-360).
        gate: told whether records may be sent without asking: before they may not, after they may.
    """

    def __init__(self, transactional_id: str | None) -> None:
        self.transactional_id = transactional_id
        self.state = TransactionState.UNINITIALIZED
        self.cause: KafkaError | None = None
        self.operation: PendingOperation | None = None
        self.transaction: OpenTransaction | None = None
        self.sequences = SequenceTracker(transactional_id is not None)
        self.can_raise_epoch = False
        self.gate: Callable[[bool], None] | None = None

    def move_to(self, state: TransactionState) -> None:
        """Go to another state. Raises IllegalStateError for a way that is not in the table."""
        if state not in LEGAL_TRANSITIONS[self.state]:
            raise IllegalStateError(f"a producer that is {self.state.value} cannot be {state.value} next")
        _log.debug("Producer %s: %s -> %s", self.transactional_id, self.state.name, state.name)
        self._enter(state)

    def _enter(self, state: TransactionState) -> None:
        gate = self.gate
        if gate is not None and self.state is _S.IN_TRANSACTION:
            gate(False)
        self.state = state
        if gate is not None and state is _S.IN_TRANSACTION:
            gate(True)

    # -- for callers -----------------------------------------------------------------------------------

    def start(self, name: str) -> PendingOperation | None:
        """Begin a step that somebody waits for.

        Returns:
            None: go on, and once the state allows the step, replace ``operation``. Else the one of that name
            that was begun before and not seen to the end, for instance because of a timeout: the caller waits
            for that.

        Raises:
            IllegalStateError: another step is not done yet.
        """
        earlier = self.operation
        if earlier is not None and earlier.name == name:
            return earlier
        if earlier is not None and not earlier.has_ended:
            raise IllegalStateError(
                f"{name}: {earlier.name} is not done yet; call {earlier.name} again to wait for it"
            )
        return None

    def refuse_call(self, name: str, instead: str) -> NoReturn:
        """Raise what fits the state for a call that this state does not allow.

        Raises:
            FatalProducerError: nothing is allowed any more.
            AbortTransactionError: only an abort is.
            IllegalStateError: the call came at a wrong time; nothing has changed.
        """
        if self.state is _S.FATAL_ERROR:
            raise self.fatal_error()
        if self.state is _S.ABORTABLE_ERROR:
            raise self.abort_error()
        cause = "" if self.cause is None else f" ({self.cause})"
        raise IllegalStateError(
            f"{name}: the producer is {self.state.value}{cause}; {instead}"
        ) from self.cause

    def fatal_error(self) -> FatalProducerError:
        """The error that every call gets from now on."""
        is_fenced = isinstance(self.cause, FencedError)
        error = (FencedError if is_fenced else FatalProducerError)(
            f"the producer can do nothing any more, close it: {self.cause}"
        )
        error.__cause__ = self.cause
        return error

    def abort_error(self) -> AbortTransactionError:
        """The error that every call but an abort gets."""
        error = AbortTransactionError(f"the transaction can only be aborted: {self.cause}")
        error.__cause__ = self.cause
        return error

    def change_transactional_id(self, transactional_id: str) -> None:
        """See ``TransactionManager.change_transactional_id``."""
        name = "change_transactional_id"
        self.start(name)
        if self.state not in _WITHOUT_TRANSACTION:
            self.refuse_call(name, "commit or abort the transaction, or prepare and hand it over, first")
        if self.state is not _S.UNINITIALIZED:
            self.move_to(_S.UNINITIALIZED)
        _log.debug("Producer %s goes on as %s", self.transactional_id, transactional_id)
        self.transactional_id = transactional_id
        # The sequences stay as they are until the next initialization: they belong to the I/O thread.
        self.cause = self.transaction = self.operation = None
        self.can_raise_epoch = False

    # -- hand-over -------------------------------------------------------------------------------------

    def hand_over(self, has_incomplete: bool) -> PreparedTransaction:
        """See ``TransactionManager.prepare``."""
        transaction = self.transaction
        if transaction is None or self.state is not _S.IN_TRANSACTION:
            self.refuse_call("prepare", "begin a transaction first")
        if has_incomplete or transaction.new_partitions or transaction.offsets:
            raise IllegalStateError("prepare: flush first; something is not written yet")
        self.move_to(_S.PREPARED)
        assert self.transactional_id is not None
        is_empty = not transaction.may_have_started
        # Others may send EndTxn as well, and nobody here knows whether theirs were answered.
        transaction.must_raise_epoch |= transaction.version < 2 and not is_empty
        return PreparedTransaction(
            self.transactional_id, *self.sequences.producer, transaction.version, is_empty
        )

    def take_over(self, prepared: PreparedTransaction) -> None:
        """See ``TransactionManager.take_over``."""
        checked_prepared(prepared)
        if prepared.transactional_id != self.transactional_id:
            raise InvalidArgumentError(
                f"{prepared} is of another transactional id than {self.transactional_id!r}"
            )
        producer = ProducerIdAndEpoch(prepared.producer_id, prepared.epoch)
        if (
            self.transaction is not None
            and self.transaction.is_taken_over
            and self.sequences.producer == producer
            and self.state in (_S.PREPARED, _S.COMMITTING, _S.ABORTING)
        ):
            # The call that took it over has timed out, or was interrupted, and is made again.
            return
        if self.state is not _S.UNINITIALIZED:
            self.refuse_call("take_over", "take a producer that was not initialized")
        self.operation = None
        self.move_to(_S.PREPARED)
        self.transaction = OpenTransaction(prepared.transaction_version, is_taken_over=True)
        if prepared.is_empty:
            self.transaction.has_started = self.transaction.may_have_started = False
        self.sequences.reset(producer)

    # -- for batches -----------------------------------------------------------------------------------

    @property
    def may_wait(self) -> bool:
        """Whether ``give_up`` would say None. A look without the lock."""
        return self.state in _WAITING and self.cause is None

    def give_up(self) -> GivenUp | None:
        """What is to happen now to batches that wait in the queues; None: they may wait on."""
        # The next epoch refuses what may still be under way; protocol 1 has to find out what was written.
        numbered_too = self.transaction is not None and self.transaction.version >= 2
        if self.state is _S.FATAL_ERROR:
            return GivenUp(self.fatal_error(), True)
        if self.state is _S.ABORTABLE_ERROR:
            return GivenUp(self.abort_error(), numbered_too)
        if self.state is _S.ABORTING:
            return GivenUp(TransactionAbortedError("the transaction is being aborted"), numbered_too)
        if self.transactional_id is None and self.state is _S.UNINITIALIZED and self.cause is not None:
            # Once: records that come later have another try.
            refusal, self.cause = self.cause, None
            return GivenUp(refusal, False)
        return None

    # -- endings ---------------------------------------------------------------------------------------

    def initialized(self, producer: ProducerIdAndEpoch) -> None:
        """The coordinator gave us an id."""
        self.cause = None
        if self.transactional_id is None:
            self.sequences.set_producer(producer)
        else:
            self.sequences.reset(producer)
        self.move_to(_S.READY)
        self._succeed()

    def not_initialized(self, error: KafkaError) -> None:
        """Refused, or given up; it may be tried again."""
        self.cause = error
        self.move_to(_S.UNINITIALIZED)
        self._fail(error)
        self.transaction = None

    def transaction_over(self, producer: ProducerIdAndEpoch) -> None:
        """Committed or aborted.

        Args:
            producer: for the next transaction; not valid: as before.
        """
        transaction = self.transaction
        assert transaction is not None
        self.cause = None
        self.transaction = None
        if producer.is_valid:
            self.sequences.reset(producer)
        self.move_to(_S.UNINITIALIZED if transaction.is_taken_over else _S.READY)
        self._succeed()

    def was_aborted(self, error: TransactionAbortedError) -> None:
        """A transaction that was taken over, to be committed, turns out to be aborted."""
        self.not_initialized(error)

    def fail_transaction(self, cause: KafkaError) -> None:
        """The transaction can only be aborted. Ends the producer where not even that would help."""
        transaction = self.transaction
        if transaction is None or self.state not in (_S.IN_TRANSACTION, _S.COMMITTING, _S.ABORTING):
            return
        if self.state is _S.ABORTING or transaction.has_ended:
            # Kafka's older producers went round in circles here (KAFKA-19250).
            self.fail_for_good(cause)
            return
        self.cause = cause
        self.move_to(_S.ABORTABLE_ERROR)
        # What was announced and not sent need not be added any more.
        transaction.new_partitions.clear()
        transaction.must_raise_epoch = transaction.version < 2
        error = self.abort_error()
        self._fail(error)
        self._fail_offsets(error)

    def fail_for_good(self, cause: KafkaError) -> None:
        """Nothing works any more but ``close``."""
        if self.state is _S.FATAL_ERROR:
            return
        # Who ends a transaction for somebody else has no producer to mourn, and is told the cause.
        is_foreign = self.transaction is not None and self.transaction.is_taken_over
        level = logging.DEBUG if is_foreign else logging.ERROR
        _log.log(level, "Producer %s is of no use any more: %s", self.transactional_id, cause)
        self.cause = cause
        self._enter(_S.FATAL_ERROR)
        error = self.fatal_error()
        self._fail(error)
        self._fail_offsets(error)

    def abandon(self, error: KafkaError) -> None:
        """The producer is closed: nobody may be left waiting."""
        if self.state is not _S.FATAL_ERROR:
            self.cause = error
            self._enter(_S.FATAL_ERROR)
        self._fail(error)
        self._fail_offsets(error)

    def drop_offsets(self) -> None:
        """An abort begins: offsets that were not sent are not sent any more."""
        self._fail_offsets(TransactionAbortedError("the transaction is being aborted"))

    def _succeed(self) -> None:
        if self.operation is not None:
            self.operation.succeed()

    def _fail(self, error: KafkaError) -> None:
        if self.operation is None:
            return
        if self.transaction is not None and self.transaction.has_ended:
            # The transaction is committed, or aborted. What has failed is to get the next epoch, and the
            # next call says so.
            self.operation.succeed()
        else:
            self.operation.fail(error)

    def _fail_offsets(self, error: KafkaError) -> None:
        if self.transaction is not None:
            for task in self.transaction.offsets:
                task.operation.fail(error)
            self.transaction.offsets.clear()

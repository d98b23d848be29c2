"""TransactionLifecycle: the state of one producer, how it changes, and what each change means for callers.

The only place that sets the state. Guarded by the lock of ``TransactionManager``. Knows neither requests nor
batches. Source: Kafka's ``TransactionManager`` (transitionTo, transitionToAbortableError,
transitionToFatalError).
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
from kproducer.transactions.partition_sequences import ProducerIdAndEpoch
from kproducer.transactions.sequence_tracker import SequenceTracker
from kproducer.transactions.transaction_arguments import PreparedTransaction, checked_prepared
from kproducer.transactions.transaction_state import (
    LEGAL_TRANSITIONS,
    OpenTransaction,
    PendingOperation,
    TransactionState,
)

_log = GuardedLogger(__name__)
_S = TransactionState

#: States in which this producer has no transaction to end.
_WITHOUT_TRANSACTION = frozenset({_S.UNINITIALIZED, _S.READY, _S.PREPARED})


class GivenUp(NamedTuple):
    """Queued batches have to be failed.

    Attributes:
        error: the error for them.
        numbered_too: also those that were sent before and wait to be sent again; else only those never sent.
    """

    error: KafkaError
    numbered_too: bool


class TransactionLifecycle:
    """State of the producer and of its transaction.

    Args:
        transactional_id: ``None`` for a producer that is idempotent only.

    Attributes:
        transactional_id: the present one.
        state: see ``transaction_state``.
        cause: why the state is an error, or why the last initialization was refused.
        operation: what a caller waits for; kept until the caller has seen how it ended.
        transaction: the open transaction, if there is one.
        sequences: the sequence numbers; used by the I/O thread only.
        can_raise_epoch: whether the coordinator assigns the next epoch to the producer that has this one
            (KIP-360).
        gate: told whether records may be sent without ``check_send``: false just before they may not, true
            just after they may.
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
        """Change the state. Raises IllegalStateError for a transition that is not legal."""
        if state not in LEGAL_TRANSITIONS[self.state]:
            raise IllegalStateError(
                f"producer {self.transactional_id!r} is {self.state.value} and cannot become {state.value}"
            )
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
        """Check whether a step may begin.

        Returns:
            The operation of this name if the last call timed out: the caller waits for that one. ``None``: a
            new operation may begin if the state allows it.

        Raises:
            IllegalStateError: another operation is not done yet.
        """
        earlier = self.operation
        if earlier is not None and earlier.name == name:
            return earlier
        if earlier is not None and not earlier.has_ended:
            raise IllegalStateError(
                f"{name}: {earlier.name} is not done yet; call {earlier.name} again to wait for it"
            )
        return None

    def refuse_call(self, name: str, remedy: str) -> NoReturn:
        """Raise the error for a call that the state does not allow.

        Raises:
            FatalProducerError: nothing is allowed any more.
            AbortTransactionError: only an abort is allowed.
            IllegalStateError: the call came at the wrong time; nothing has changed.
        """
        if self.state is _S.FATAL_ERROR:
            raise self.fatal_error()
        if self.state is _S.ABORTABLE_ERROR:
            raise self.abort_error()
        cause = "" if self.cause is None else f" ({self.cause})"
        error = IllegalStateError(f"{name}: the producer is {self.state.value}{cause}; {remedy}")
        raise error from self.cause

    def fatal_error(self) -> FatalProducerError:
        """The error that every call gets after FATAL_ERROR was entered."""
        is_fenced = isinstance(self.cause, FencedError)
        error = (FencedError if is_fenced else FatalProducerError)(
            f"the producer has failed and cannot be used any more, close it: {self.cause}"
        )
        error.__cause__ = self.cause
        return error

    def abort_error(self) -> AbortTransactionError:
        """The error that every call but an abort gets in ABORTABLE_ERROR."""
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
        _log.debug("Producer %s continues as %s", self.transactional_id, transactional_id)
        self.transactional_id = transactional_id
        # The sequence numbers belong to the I/O thread. The next initialization resets them.
        self.cause = self.transaction = self.operation = None
        self.can_raise_epoch = False

    # -- hand-over -------------------------------------------------------------------------------------

    def hand_over(self, has_incomplete: bool) -> PreparedTransaction:
        """See ``TransactionManager.prepare``."""
        transaction = self.transaction
        if transaction is None or self.state is not _S.IN_TRANSACTION:
            self.refuse_call("prepare", "begin a transaction first")
        if has_incomplete or transaction.new_partitions or transaction.offsets:
            raise IllegalStateError("prepare: some records or offsets are not written yet; flush first")
        self.move_to(_S.PREPARED)
        assert self.transactional_id is not None
        is_empty = not transaction.may_have_started
        # Other processes may send EndTxn, and this one does not learn whether it was answered.
        transaction.must_raise_epoch |= transaction.version < 2 and not is_empty
        return PreparedTransaction(
            self.transactional_id, *self.sequences.producer, transaction.version, is_empty
        )

    def take_over(self, prepared: PreparedTransaction) -> None:
        """See ``TransactionManager.take_over``."""
        checked_prepared(prepared)
        if prepared.transactional_id != self.transactional_id:
            raise InvalidArgumentError(
                f"{prepared} has another transactional id than this producer, {self.transactional_id!r}"
            )
        producer = ProducerIdAndEpoch(prepared.producer_id, prepared.epoch)
        if (
            self.transaction is not None
            and self.transaction.is_taken_over
            and self.sequences.producer == producer
            and self.state in (_S.PREPARED, _S.COMMITTING, _S.ABORTING)
        ):
            # The call that took it over has timed out or was interrupted, and is repeated.
            return
        if self.state is not _S.UNINITIALIZED:
            self.refuse_call("take_over", "use a producer that was not initialized")
        self.operation = None
        self.move_to(_S.PREPARED)
        self.transaction = OpenTransaction(
            prepared.transaction_version,
            is_taken_over=True,
            has_started=not prepared.is_empty,
            may_have_started=not prepared.is_empty,
        )
        self.sequences.reset(producer)

    # -- for batches -----------------------------------------------------------------------------------

    def give_up(self) -> GivenUp | None:
        """Which queued batches have to be failed now; ``None``: none."""
        # In version 2, the next epoch fences requests that are still on their way. In version 1, the outcome
        # of each batch has to be found out.
        numbered_too = self.transaction is not None and self.transaction.version >= 2
        if self.state is _S.FATAL_ERROR:
            return GivenUp(self.fatal_error(), True)
        if self.state is _S.ABORTABLE_ERROR:
            return GivenUp(self.abort_error(), numbered_too)
        if self.state is _S.ABORTING:
            return GivenUp(TransactionAbortedError("the transaction is being aborted"), numbered_too)
        if self.transactional_id is None and self.state is _S.UNINITIALIZED and self.cause is not None:
            # Only once: records that are sent later cause another attempt.
            refusal, self.cause = self.cause, None
            return GivenUp(refusal, False)
        return None

    # -- ends of steps ---------------------------------------------------------------------------------

    def initialized(self, producer: ProducerIdAndEpoch) -> None:
        """The coordinator has assigned a producer id and epoch."""
        self.cause = None
        if self.transactional_id is None:
            self.sequences.set_producer(producer)
        else:
            self.sequences.reset(producer)
        self.move_to(_S.READY)
        self._succeed()

    def not_initialized(self, error: KafkaError) -> None:
        """The initialization was refused, or a taken-over transaction cannot be ended; it may be retried."""
        self.cause = error
        self.move_to(_S.UNINITIALIZED)
        self._fail(error)
        self.transaction = None

    def transaction_over(self, producer: ProducerIdAndEpoch) -> None:
        """The transaction is committed or aborted.

        Args:
            producer: for the next transaction; if not valid, the present one stays.
        """
        transaction = self.transaction
        assert transaction is not None
        self.cause = None
        self.transaction = None
        if producer.is_valid:
            self.sequences.reset(producer)
        self.move_to(_S.UNINITIALIZED if transaction.is_taken_over else _S.READY)
        self._succeed()

    def fail_transaction(self, cause: KafkaError) -> None:
        """The transaction has to be aborted; if it is being aborted already, the producer has failed."""
        transaction = self.transaction
        if transaction is None or self.state not in (_S.IN_TRANSACTION, _S.COMMITTING, _S.ABORTING):
            return
        if self.state is _S.ABORTING or transaction.has_ended:
            # Older Kafka producers loop here (KAFKA-19250).
            self.fail_for_good(cause)
            return
        self.cause = cause
        self.move_to(_S.ABORTABLE_ERROR)
        # Their batches will not be sent, so the partitions need not be added.
        transaction.new_partitions.clear()
        transaction.must_raise_epoch = transaction.version < 2
        error = self.abort_error()
        self._fail(error)
        self._fail_offsets(error)

    def fail_for_good(self, cause: KafkaError) -> None:
        """Enter FATAL_ERROR: from now on only ``close`` is allowed."""
        if self.state is _S.FATAL_ERROR:
            return
        # A coordinator session ends other producers' transactions, so it has no producer of its own to
        # report as failed.
        is_foreign = self.transaction is not None and self.transaction.is_taken_over
        level = logging.DEBUG if is_foreign else logging.ERROR
        _log.log(level, "Producer %s has failed and has to be closed: %s", self.transactional_id, cause)
        self.cause = cause
        self._enter(_S.FATAL_ERROR)
        error = self.fatal_error()
        self._fail(error)
        self._fail_offsets(error)

    def abandon(self, error: KafkaError) -> None:
        """The producer is closed: fail everything that callers wait for."""
        if self.state is not _S.FATAL_ERROR:
            self.cause = error
            self._enter(_S.FATAL_ERROR)
        self._fail(error)
        self._fail_offsets(error)

    def drop_offsets(self) -> None:
        """An abort begins: offsets that were not sent yet are not sent any more."""
        self._fail_offsets(TransactionAbortedError("the transaction is being aborted"))

    def _succeed(self) -> None:
        if self.operation is not None:
            self.operation.succeed()

    def _fail(self, error: KafkaError) -> None:
        if self.operation is None:
            return
        if self.transaction is not None and self.transaction.has_ended:
            # The transaction is committed or aborted. Only the request for the next epoch has failed, which
            # the next call reports.
            self.operation.succeed()
        else:
            self.operation.fail(error)

    def _fail_offsets(self, error: KafkaError) -> None:
        if self.transaction is not None:
            for task in self.transaction.offsets:
                task.operation.fail(error)
            self.transaction.offsets.clear()

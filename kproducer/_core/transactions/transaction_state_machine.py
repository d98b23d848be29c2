"""TransactionStateMachine: the state of one producer, how it changes, and what application threads call.

The only place that sets the state. Application threads begin, commit and abort, and wait for a
``PendingOperation``; the I/O thread ends it. Knows no requests; of batches only that the ``SequenceTracker``,
which it owns, numbers them under the producer id that it passes on. Errors are of three kinds: those that are
retried and never reported; those after which the transaction has to be aborted (``AbortTransactionError``);
those that end the producer (``FatalProducerError``).

``lock`` guards everything here, and the requests of ``TransactionProtocol``. It is taken while a partition's
lock is held (``may_drain``), so nothing that runs under it may take a partition's lock. Code that reads a
state without it does a single read.
Source: KIP-98, KIP-447; Kafka's ``TransactionManager`` (transitionTo, transitionToAbortableError,
transitionToFatalError).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, NoReturn

from kproducer._core.runtime.guarded_logger import GuardedLogger, error_fields
from kproducer._core.transactions.partition_sequences import ProducerIdAndEpoch
from kproducer._core.transactions.sequence_tracker import SequenceTracker
from kproducer._core.transactions.transaction_arguments import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    PreparedTransaction,
    checked_group,
    checked_offsets,
    checked_prepared,
)
from kproducer._core.transactions.transaction_state import (
    LEGAL_TRANSITIONS,
    OpenTransaction,
    PendingOffsets,
    PendingOperation,
    TransactionState,
)
from kproducer.errors import (
    AbortTransactionError,
    BootstrapResolutionError,
    FatalProducerError,
    FencedError,
    IllegalStateError,
    InvalidArgumentError,
    KafkaError,
    ProducerClosedError,
    TransactionAbortedError,
)
from kproducer.errors.internal_errors import PendingOperationError
from kproducer.types import TopicPartition

_log = GuardedLogger(__name__)
_S = TransactionState
_ENDING: Final = (_S.COMMITTING, _S.ABORTING)
_SENDING: Final = (_S.IN_TRANSACTION, _S.COMMITTING)

#: The errors that end the producer and that callers tell from others.
_KEPT: Final = (FencedError, BootstrapResolutionError)

#: What to do in each state before the call that was refused.
_REMEDIES: Final = {
    _S.UNINITIALIZED: "call init_transactions() once, before the first begin_transaction()",
    _S.INITIALIZING: "wait until init_transactions() returns",
    _S.READY: "call begin_transaction() first",
    _S.IN_TRANSACTION: "end it first, with commit_transaction(), abort_transaction() or its 'with' block",
    _S.PREPARED: "call commit_transaction() or abort_transaction() first",
    _S.COMMITTING: "wait until commit_transaction() returns",
    _S.ABORTING: "wait until abort_transaction() returns",
}


class ProducerHooks(NamedTuple):
    """What the transactions of a producer ask its other parts, and tell them.

    Attributes:
        transaction_version: called when a transaction begins: 2 where all brokers have KIP-890, else 1.
        wakeup: called when the I/O thread has something new to do.
        has_incomplete: whether the accumulator has batches that are not done, or whose memory is in use.
            Called with the state machine's lock held, and may take no lock.
        has_unwritten: whether it has batches that are not done; likewise. Just after a flush, the I/O thread
            may still have to give back the memory of the last one.
        gate: called, with the lock held, when it changes whether records may be sent without ``check_send``:
            with ``False`` just before they may not, with ``True`` just after they may. Must not call back.
    """

    transaction_version: Callable[[], int] = lambda: 1
    wakeup: Callable[[], object] = lambda: None
    has_incomplete: Callable[[], bool] = lambda: False
    has_unwritten: Callable[[], bool] = lambda: False
    gate: Callable[[bool], None] = lambda is_open: None


class TransactionStateMachine:
    """State of the producer and of its transaction.

    Args:
        transactional_id: ``None`` for a producer that is idempotent only.
        hooks: see above.

    Attributes:
        transactional_id: the present one.
        hooks: as given.
        state: see ``transaction_state``.
        cause: why the state is an error, or why the last initialization was refused.
        operation: what a caller waits for; kept until the caller has seen how it ended.
        transaction: the open transaction, if there is one.
        sequences: the sequence numbers, which belong to the I/O thread. Their ``producer`` changes, and is
            read by application threads, with the lock held; see ``SequenceTracker.reset``.
        can_raise_epoch: whether the coordinator assigns the next epoch to the producer that has this one
            (KIP-360).
        lock: see above.
        data_plane: the compiled part that takes and sends records of the open transaction by itself
            (``sender/fast_lanes.py``); ``None``: there is none.
    """

    def __init__(self, transactional_id: str | None, hooks: ProducerHooks) -> None:
        self.transactional_id = transactional_id
        self.hooks = hooks
        self.state = TransactionState.UNINITIALIZED
        self.cause: KafkaError | None = None
        self.operation: PendingOperation | None = None
        self.transaction: OpenTransaction | None = None
        #: What the last ``take_over`` was given.
        self._taken_over: PreparedTransaction | None = None
        self.sequences = SequenceTracker(transactional_id is not None)
        self.can_raise_epoch = False
        self.lock = threading.RLock()
        self.data_plane: Any = None

    @property
    def uses_version_2(self) -> bool:
        """Whether the open transaction has version 2 (KIP-890), which needs Produce version 12 or later."""
        transaction = self.transaction
        return transaction is not None and transaction.version >= 2

    @property
    def gives_up_sent_batches(self) -> bool:
        """Whether batches that were sent before are not sent again.

        In version 2, the next epoch fences requests that are still on their way. In version 1, the outcome of
        each batch has to be found out before the transaction is aborted.
        """
        state = self.state
        is_aborting = state is _S.ABORTABLE_ERROR or state is _S.ABORTING
        return state is _S.FATAL_ERROR or (is_aborting and self.uses_version_2)

    @property
    def is_ending(self) -> bool:
        """Whether a transaction is being committed or aborted."""
        return self.state in _ENDING

    @property
    def sending_transaction(self) -> OpenTransaction | None:
        """The open transaction, if batches of it that were never sent may be sent."""
        return self.transaction if self.state in _SENDING else None

    def move_to(self, state: TransactionState) -> None:
        """Change the state. Raises IllegalStateError for a transition that is not legal."""
        if state not in LEGAL_TRANSITIONS[self.state]:
            raise IllegalStateError(
                f"producer {self.transactional_id!r} is {self.state.value} and cannot become {state.value}"
            )
        _log.debug("Producer %s: %s -> %s", self.transactional_id, self.state.name, state.name)
        self._enter(state)

    def _enter(self, state: TransactionState) -> None:
        if self.state is _S.IN_TRANSACTION:
            self.hooks.gate(False)
            self._let_data_plane_append(False)
        if state is _S.IN_TRANSACTION:
            self._let_data_plane_append(True)
        self.state = state
        if state is _S.IN_TRANSACTION:
            self.hooks.gate(True)

    def _let_data_plane_append(self, may_append: bool) -> None:
        """The gate of appends that ask neither ``check_send`` nor the fast path again.

        Closed before anyone asks whether batches are left: see ``takes_records_of`` in ``_lane.pyx``.
        """
        plane = self.data_plane
        if plane is not None and may_append:
            plane.begin_transaction(self.transaction, self.uses_version_2)
        elif plane is not None:
            plane.end_transaction()

    def _number_from_0(self, producer: ProducerIdAndEpoch) -> None:
        """Use this producer id and epoch for the next transaction. No batch is left of the last one."""
        self.sequences.reset(producer)
        if self.data_plane is not None:
            self.data_plane.number(*producer)

    def may_have_started(self) -> bool:
        """Whether the coordinator may know of the open transaction. The lock is held."""
        transaction = self.transaction
        if transaction is None:
            return False
        if self.data_plane is not None and not transaction.is_taken_over and self.data_plane.has_sent:
            transaction.may_have_started = True
        return transaction.may_have_started

    # -- application threads: steps of producers with a transactional id -------------------------------

    def begin_initialize(self) -> PendingOperation:
        """Get a producer id and epoch; fences earlier producers and ends the transaction they left open.

        Raises:
            IllegalStateError: initialized before.
            FatalProducerError: the producer has failed.
        """
        remedy = "it was called before, and once is enough for all transactions"
        return self._begin("init_transactions", {_S.UNINITIALIZED}, _S.INITIALIZING, remedy)

    def begin_transaction(self) -> None:
        """Begin a transaction; no request is sent. Raises as ``begin_initialize``."""
        with self.lock:
            self._check_call("begin_transaction", {_S.READY})
            self.operation = None
            # Before the state changes, after which records can be sent.
            self.transaction = OpenTransaction(2 if self.hooks.transaction_version() >= 2 else 1)
            self.move_to(_S.IN_TRANSACTION)

    def begin_commit(self, call: str = "commit_transaction") -> PendingOperation:
        """Commit once everything is written; also a transaction that was handed over or taken over.

        Args:
            call: names the method in error messages.

        Raises:
            AbortTransactionError: the transaction can only be aborted.
            FatalProducerError, IllegalStateError: as ``begin_initialize``.
        """
        return self._begin(call, {_S.IN_TRANSACTION, _S.PREPARED}, _S.COMMITTING)

    def begin_abort(self, call: str = "abort_transaction") -> PendingOperation:
        """Abort; batches that were not sent yet are failed. Raises as ``begin_commit``."""
        allowed = {_S.IN_TRANSACTION, _S.PREPARED, _S.ABORTABLE_ERROR}
        with self.lock:
            operation = self._begin(call, allowed, _S.ABORTING)
            if self.transaction is not None and self.state is _S.ABORTING:
                self.transaction.new_partitions.clear()
                self._fail_offsets(TransactionAbortedError("the transaction is being aborted"))
            return operation

    def acknowledge(self, operation: PendingOperation) -> None:
        """The caller has seen how its operation ended: the next call of that name begins a new one."""
        with self.lock:
            if self.operation is operation and operation.has_ended:
                self.operation = None

    def check_send(self, expected: OpenTransaction | None = None) -> OpenTransaction:
        """Called before a record is appended, and again after each step that may have taken long.

        Args:
            expected: what the first call has returned; ``None``: this is the first one.

        Returns:
            The transaction to which the record belongs.

        Raises:
            IllegalStateError: ``expected`` has ended. Others as ``begin_commit``.
        """
        transaction = self.transaction
        if expected is not None and expected is not transaction:
            raise IllegalStateError("the transaction ended before the record was accepted")
        # First without the lock: a change just after this could as well come after the append.
        if transaction is None or self.state is not _S.IN_TRANSACTION:
            with self.lock:
                transaction = self._check_in_transaction("send")
        return transaction

    def send_failed(self, error: KafkaError, expected: OpenTransaction | None = None) -> None:
        """``send`` raised: the transaction must not be committed without that record.

        Args:
            expected: the transaction to which the record belongs, if it is known: no other one fails.
        """
        with self.lock:
            is_another = expected is not None and expected is not self.transaction
            if self.state is _S.IN_TRANSACTION and not is_another:
                # The futures of the transaction get it as their cause, and the frames have such futures.
                self.fail_transaction(error.detached())

    def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> PendingOperation:
        """Make offsets of a group part of the transaction.

        Raises:
            InvalidArgumentError: offsets or group cannot be sent. Others as ``begin_commit``.
        """
        task = PendingOffsets("send_offsets_to_transaction", checked_offsets(offsets), checked_group(group))
        with self.lock:
            self._check_nothing_is_pending(task.name)
            transaction = self._check_in_transaction(task.name)
            if task.remaining:
                transaction.offsets.append(task)
            else:
                task.end()
        self.hooks.wakeup()
        return task

    def change_transactional_id(self, transactional_id: str) -> None:
        """Become uninitialized under another transactional id, and forget everything about the present one.

        Allowed while this producer has no transaction to end. No request is in flight then, because every
        transition into these states processes the response to the last request.

        Raises:
            IllegalStateError: a transaction is open, or an operation is not done. Others as ``begin_commit``.
        """
        with self.lock:
            self._check_call(
                "change_transactional_id",
                {_S.UNINITIALIZED, _S.READY, _S.PREPARED},
                "commit or abort the transaction, or prepare and hand it over, first",
            )
            if self.state is not _S.UNINITIALIZED:
                self.move_to(_S.UNINITIALIZED)
            _log.debug("Producer %s continues as %s", self.transactional_id, transactional_id)
            self.transactional_id = transactional_id
            # The sequence numbers belong to the I/O thread. The next initialization resets them.
            self.cause = self.transaction = self.operation = None
            self.can_raise_epoch = False

    def prepare(self) -> PreparedTransaction:
        """Hand the transaction over. Flush first; no more records are accepted.

        May be repeated: a caller that was cancelled or interrupted has not got the result.

        Raises:
            IllegalStateError: some records or offsets are not written yet. Others as ``begin_commit``.
        """
        with self.lock:
            transaction = self.transaction
            if self.state is not _S.PREPARED or transaction is None or transaction.is_taken_over:
                transaction = self._check_in_transaction("prepare")
                self._let_data_plane_append(False)
                if self.hooks.has_unwritten() or transaction.new_partitions or transaction.offsets:
                    self._let_data_plane_append(True)
                    raise IllegalStateError(
                        "prepare: some records or offsets are not written yet; flush first"
                    )
                self.move_to(_S.PREPARED)
            assert self.transactional_id is not None
            is_empty = not self.may_have_started()
            # Other processes may send EndTxn, and this one does not learn whether it was answered.
            transaction.must_raise_epoch |= transaction.version < 2 and not is_empty
            return PreparedTransaction(
                self.transactional_id, *self.sequences.producer, transaction.version, is_empty
            )

    def take_over(self, prepared: PreparedTransaction, call: str) -> TransactionStateMachine:
        """Make another process's transaction one that this producer can end, instead of initializing.

        Args:
            prepared: the transaction.
            call: names the method in error messages.

        Returns:
            This state machine, to begin the commit or the abort.

        Raises:
            InvalidArgumentError: not a transaction of this transactional id.
            IllegalStateError: the producer was initialized, or is ending another transaction.
        """
        checked_prepared(prepared)
        producer = ProducerIdAndEpoch(prepared.producer_id, prepared.epoch)
        with self.lock:
            if prepared.transactional_id != self.transactional_id:
                raise InvalidArgumentError(
                    f"{prepared} has another transactional id than this producer, {self.transactional_id!r}"
                )
            if self._taken_over == prepared and (
                (
                    self.transaction is not None
                    and self.transaction.is_taken_over
                    and self.state in (_S.PREPARED, _S.COMMITTING, _S.ABORTING)
                )
                or (self.operation is not None and self.operation.name == call)
            ):
                # The call that took it over has timed out or was interrupted, and is repeated. It may have
                # ended meanwhile; then the caller gets its outcome.
                return self
            if self.state is not _S.UNINITIALIZED:
                self._refuse_call(call, "use a producer that was not initialized")
            self.operation = None
            self._taken_over = prepared
            self.move_to(_S.PREPARED)
            self.transaction = OpenTransaction(
                prepared.transaction_version, is_taken_over=True, has_started=not prepared.is_empty
            )
            self._number_from_0(producer)
            return self

    # -- application threads: checks -------------------------------------------------------------------

    def _begin(
        self, name: str, allowed: set[TransactionState], target: TransactionState, remedy: str | None = None
    ) -> PendingOperation:
        with self.lock:
            earlier = self._check_call(name, allowed, remedy)
            if earlier is not None:
                return earlier
            operation = self.operation = PendingOperation(name)
            self.move_to(target)
        self.hooks.wakeup()
        return operation

    def _check_call(
        self, name: str, allowed: set[TransactionState], remedy: str | None = None
    ) -> PendingOperation | None:
        """Check whether a step may begin.

        Args:
            name: the method.
            allowed: the states in which it may begin.
            remedy: what to do in the other states, if it is not the one in ``_REMEDIES``.

        Returns:
            The operation of this name if the last call timed out: the caller waits for that one. ``None``: a
            new operation may begin.

        Raises:
            PendingOperationError: another operation is not done yet. Others as ``_refuse_call``.
        """
        earlier = self.operation
        if earlier is not None and earlier.name == name:
            return earlier
        self._check_nothing_is_pending(name)
        if self.state not in allowed:
            self._refuse_call(name, remedy)
        return None

    def _check_nothing_is_pending(self, name: str) -> None:
        earlier = self.operation
        if earlier is not None and not earlier.has_ended:
            raise PendingOperationError(
                f"{name}: {earlier.name} is not done yet; call {earlier.name} again to wait for it"
            )

    def _check_in_transaction(self, name: str) -> OpenTransaction:
        if self.transaction is None or self.state is not _S.IN_TRANSACTION:
            self._refuse_call(name)
        return self.transaction

    def _refuse_call(self, name: str, remedy: str | None = None) -> NoReturn:
        """Raise the error for a call that the state does not allow.

        Raises:
            FatalProducerError: nothing is allowed any more.
            AbortTransactionError: only an abort is allowed.
            IllegalStateError: the call came at the wrong time; nothing has changed.
        """
        state_error = self._state_error()
        if state_error is not None:
            raise state_error
        cause = "" if self.cause is None else f" ({self.cause})"
        remedy = remedy or _REMEDIES[self.state]
        error = IllegalStateError(f"{name}: the producer is {self.state.value}{cause}; {remedy}")
        raise error from self.cause

    def _state_error(self) -> KafkaError | None:
        """The error of every call in FATAL_ERROR, and of every call but an abort in ABORTABLE_ERROR."""
        error: KafkaError
        if self.state is _S.FATAL_ERROR:
            error_class = next((each for each in _KEPT if isinstance(self.cause, each)), FatalProducerError)
            error = error_class(
                f"the producer has failed and cannot be used any more, close it: {self.cause}"
                + self._unknown_end()
            )
        elif self.state is _S.ABORTABLE_ERROR:
            error = AbortTransactionError(f"the transaction can only be aborted: {self.cause}")
        else:
            return None
        error.__cause__ = self.cause
        return error

    def _unknown_end(self) -> str:
        transaction = self.transaction
        if transaction is None or transaction.has_ended:
            return ""
        is_unknown = transaction.is_taken_over or transaction.may_be_committed
        return "; whether the transaction was committed is not known" if is_unknown else ""

    # -- I/O thread ------------------------------------------------------------------------------------

    def error_of_queued_batches(self) -> KafkaError | None:
        """The error with which to fail queued batches now; ``None``: none has to be failed.

        Those that were sent before only if ``gives_up_sent_batches``.
        """
        # Without the lock in the usual case: each is a single read, and the next round reads them again.
        if self.cause is None and self.state not in _ENDING:
            return None
        with self.lock:
            error = self._state_error()
            if self.state is _S.ABORTING:
                error = TransactionAbortedError("the transaction is being aborted")
            elif self.state is _S.UNINITIALIZED and self.transactional_id is None:
                # Only once: records that are sent later cause another attempt.
                error, self.cause = self.cause, None
            return error

    def begin_close(self) -> None:
        """The producer is about to be closed: abort an open transaction, unless it was handed over."""
        with self.lock:
            if self.state in (_S.IN_TRANSACTION, _S.ABORTABLE_ERROR):
                self.operation = None
                self.begin_abort()

    def close(self, error: KafkaError | None = None) -> None:
        """The producer is closed: fail everything that callers wait for."""
        error = error or ProducerClosedError("the producer was closed")
        with self.lock:
            if self.state is not _S.FATAL_ERROR:
                self.cause = error
                self._enter(_S.FATAL_ERROR)
            self._fail_calls(error)

    def initialized(self, producer: ProducerIdAndEpoch) -> None:
        """The coordinator has assigned a producer id and epoch."""
        self.cause = None
        if self.transactional_id is None:
            self.sequences.set_producer(producer)
        else:
            self._number_from_0(producer)
        self.move_to(_S.READY)
        self._end_operation(None)

    def not_initialized(self, error: KafkaError) -> None:
        """The initialization was refused, or a taken-over transaction cannot be ended; it may be retried."""
        self.cause = error
        self.move_to(_S.UNINITIALIZED)
        self._fail_calls(error)
        self.transaction = None

    def transaction_over(self, producer: ProducerIdAndEpoch) -> None:
        """The transaction is committed or aborted.

        Args:
            producer: for the next transaction; if not valid, the present one stays.
        """
        transaction = self.transaction
        assert transaction is not None
        self.cause = self.transaction = None
        if producer.is_valid:
            self._number_from_0(producer)
        self.move_to(_S.UNINITIALIZED if transaction.is_taken_over else _S.READY)
        self._end_operation(None)

    def fail_transaction(self, cause: KafkaError) -> None:
        """The transaction has to be aborted. The producer has failed if it is being aborted already, or if it
        may be committed already: the coordinator would take the abort for that of an empty transaction.
        """
        transaction = self.transaction
        if transaction is None or self.state not in (_S.IN_TRANSACTION, _S.COMMITTING, _S.ABORTING):
            return
        if self.state is _S.ABORTING or transaction.has_ended or transaction.may_be_committed:
            # Older Kafka producers loop here (KAFKA-19250).
            self.fail_for_good(cause)
            return
        self.cause = cause
        self.move_to(_S.ABORTABLE_ERROR)
        # Their batches will not be sent, so the partitions need not be added.
        transaction.new_partitions.clear()
        transaction.must_raise_epoch = transaction.version < 2
        self._fail_calls()

    def fail_for_good(self, cause: KafkaError) -> None:
        """Enter FATAL_ERROR: from now on only ``close`` is allowed."""
        if self.state is _S.FATAL_ERROR:
            return
        # A coordinator session ends other producers' transactions, so it has no producer of its own to
        # report as failed.
        is_foreign = self.transaction is not None and self.transaction.is_taken_over
        level = logging.DEBUG if is_foreign else logging.ERROR
        _log.log(
            level,
            "Producer %s has failed and has to be closed: %s",
            self.transactional_id,
            cause,
            extra={"transactional_id": self.transactional_id, **error_fields(cause)},
        )
        self.cause = cause
        self._enter(_S.FATAL_ERROR)
        self._fail_calls()

    def _end_operation(self, error: KafkaError | None) -> None:
        """End what the caller waits for; ``None``: with success."""
        if self.operation is not None:
            self.operation.end(error)

    def _fail_calls(self, error: KafkaError | None = None) -> None:
        """Fail everything that callers wait for, by default with the error of the state."""
        error = error or self._state_error()
        assert error is not None
        # If the transaction is committed or aborted already, only the request for the next epoch has failed,
        # which the next call reports.
        has_ended = self.transaction is not None and self.transaction.has_ended
        self._end_operation(None if has_ended else error)
        self._fail_offsets(error)

    def _fail_offsets(self, error: KafkaError) -> None:
        if self.transaction is not None:
            for task in self.transaction.offsets:
                task.end(error)
            self.transaction.offsets.clear()

"""TransactionProtocol: which request the state of a producer calls for, and what responses do to the state.

Source: KIP-98, KIP-360, KIP-588, KIP-890, KIP-939; Kafka's ``TransactionManager`` (pendingRequests,
lookupCoordinator) and its ``TxnRequestHandler`` classes. docs/internals/transactions.md has
the differences.
"""

from __future__ import annotations

import random as random_module
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.runtime.clock import ExponentialBackoff
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer._core.transactions.coordinator_link import (
    AddressedRequest,
    CoordinatorCache,
    CoordinatorTask,
    transport_failure,
)
from kproducer._core.transactions.coordinator_requests import (
    EPOCH_RAISED_SINCE,
    TWO_PHASE_COMMIT_SINCE,
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    CoordinatorRequest,
    EndTxn,
    FindCoordinator,
    InitProducerId,
    Reaction,
    Result,
    TxnOffsetCommit,
)
from kproducer._core.transactions.partition_sequences import NO_PRODUCER, ProducerIdAndEpoch
from kproducer._core.transactions.transaction_state import OpenTransaction, TransactionState
from kproducer._core.transactions.transaction_state_machine import TransactionStateMachine
from kproducer.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerError,
    FencedError,
    IllegalStateError,
    KafkaError,
    TransactionAbortedError,
)
from kproducer.errors.broker_errors import TransactionalIdAuthorizationFailedError, error_for_code
from kproducer.types import TopicPartition

if TYPE_CHECKING:
    from kproducer._core.client.client_request import ClientResponse

_log = GuardedLogger(__name__)
_S = TransactionState
# Constants, because a look-up in an enum takes longer than all else that a round does here.
_READY: Final = _S.READY
_INITIALIZING: Final = _S.INITIALIZING
_OPEN: Final = (_S.IN_TRANSACTION, _S.COMMITTING)
_IDLE: Final = (_S.PREPARED, _S.FATAL_ERROR)

_CONCURRENT_TRANSACTIONS: Final = 51
_INVALID_TXN_STATE: Final = 48
_OPERATION_NOT_ATTEMPTED: Final = 55
#: UNKNOWN_PRODUCER_ID, INVALID_PRODUCER_ID_MAPPING
_FORGOTTEN_CODES: Final = (49, 59)
_NO_TIMEOUT_MS: Final = 2**31 - 1


class TransactionProtocol(CoordinatorTask):
    """The ``CoordinatorTask`` of one producer.

    Sent and received on one thread; the lock of the state machine guards the rest.

    Args:
        state_machine: the state.
        config: ``transaction_timeout_ms`` and ``transaction_two_phase_commit_enable`` for InitProducerId,
            ``retry_backoff_ms`` and ``retry_backoff_max_ms`` between attempts.
        known: which brokers coordinate; may be shared by tasks whose requests one thread sends.
        random: source of the backoff jitter.
    """

    def __init__(
        self,
        state_machine: TransactionStateMachine,
        config: ProducerConfig,
        known: CoordinatorCache,
        random: random_module.Random | None = None,
    ) -> None:
        super().__init__(
            known, ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms, random)
        )
        self._two_phase_commit = config.transaction_two_phase_commit_enable
        self._has_warned = False
        self._life = state_machine
        self._timeout_ms = config.transaction_timeout_ms

    # -- CoordinatorTask -------------------------------------------------------------------------------

    @property
    def has_ended(self) -> bool:
        """Whether no caller waits for a request."""
        operation, transaction = self._life.operation, self._life.transaction
        return (operation is None or operation.has_ended) and not (transaction and transaction.offsets)

    @property
    def waits_for(self) -> str:
        """See ``CoordinatorTask``. Any thread."""
        with self._life.lock:
            return super().waits_for

    def next_request(self, now_ms: int) -> AddressedRequest | None:
        """The request to send now, if any."""
        life = self._life
        if self._in_flight is not None:
            return None  # without the lock, as below
        if life.transactional_id is None and life.state is _READY and not life.sequences.needs_new_id:
            # The usual state of an idempotent producer. Without the lock: only the I/O thread changes any of
            # this.
            return None
        with life.lock:
            return super().next_request(now_ms)

    def handle(self, request: CoordinatorRequest, response: ClientResponse, now_ms: int) -> None:
        """A request has ended, with or without a response."""
        with self._life.lock:
            self._in_flight = None
            if self._life.state is _S.FATAL_ERROR:
                return
            if response.body is None:
                self._handle_failure(request, response, now_ms)
                return
            results = request.parse(response.body)
            if isinstance(request, InitProducerId):
                self._life.can_raise_epoch = response.request.api_version >= EPOCH_RAISED_SINCE
                self._warn_of_timeout(request, response.request.api_version)
            worst = max(results.values(), key=lambda result: _severity(request, result.code))
            if request.reaction_to(worst.code) is Reaction.DONE:
                self._done(request, results)
            elif not self._handle_end_txn_error(request, worst.code):
                self._react(request, results, worst, now_ms)

    def unreachable(
        self, request: CoordinatorRequest, now_ms: int, refusal: KafkaError | None = None
    ) -> None:
        """The request was not sent, because its broker could not be connected to."""
        with self._life.lock:
            # Without a transactional id, another broker may answer; records fail if their leaders refuse.
            if refusal is not None and self._life.transactional_id is not None:
                self._in_flight = None
                self._give_up(refusal)
                return
            super().unreachable(request, now_ms)

    def internal_error(self, bug: Exception) -> None:
        """Our own code has failed on the I/O thread. Fatal: the known state may be wrong.

        Source: KAFKA-14831 (``TransactionManager.shouldPoisonStateOnInvalidTransition``).
        """
        error = KafkaError(f"internal error: {bug!r}")
        error.__cause__ = bug
        with self._life.lock:
            self._life.fail_for_good(error)

    # -- requests --------------------------------------------------------------------------------------

    def _choose_next_request(self) -> CoordinatorRequest | None:
        life, transaction = self._life, self._life.transaction
        # Under the lock: another thread may send a record and commit between this and the state.
        has_incomplete = life.hooks.has_incomplete()
        if life.transactional_id is None:
            # An idempotent producer requests a producer id when it has something to send.
            lacks_id = life.state is _S.UNINITIALIZED or (
                life.state is _S.READY and life.sequences.needs_new_id
            )
            if lacks_id and has_incomplete:
                life.move_to(_S.INITIALIZING)
        if life.state is _INITIALIZING:
            timeout_ms = _NO_TIMEOUT_MS if life.transactional_id is None else self._timeout_ms
            return self._init_producer_id(timeout_ms, NO_PRODUCER)
        if transaction is None or life.transactional_id is None or life.state in _IDLE:
            return None
        producer = life.sequences.producer
        if transaction.has_ended:
            return self._init_producer_id(self._timeout_ms, producer)
        identity = (life.transactional_id, producer, transaction.version)
        if life.state in _OPEN:
            if transaction.new_partitions:
                # Partitions that are announced while this request is in flight go with the next one.
                return AddPartitionsToTxn(identity, frozenset(transaction.new_partitions))
            if transaction.offsets:
                task = transaction.offsets[0]
                if transaction.version < 2 and task.group.group_id not in transaction.groups:
                    return AddOffsetsToTxn(identity, task.group.group_id)
                return TxnOffsetCommit(identity, task.group, dict(task.remaining))
        if not life.is_ending or has_incomplete or life.sequences.has_pending:
            return None
        if not life.may_have_started():
            # No broker knows of it, and some brokers refuse to end a transaction that never started.
            self._ended(transaction, NO_PRODUCER)
            return self._choose_next_request()
        return EndTxn(identity, life.state is _S.COMMITTING)

    def _init_producer_id(self, timeout_ms: int, current: ProducerIdAndEpoch) -> InitProducerId:
        transactional_id = self._life.transactional_id
        # Each request counts: without it, the request for the next epoch would bring the timeout back.
        two_phase_commit = self._two_phase_commit and transactional_id is not None
        return InitProducerId(transactional_id, timeout_ms, current, two_phase_commit)

    # -- responses -------------------------------------------------------------------------------------

    def _handle_failure(self, request: CoordinatorRequest, response: ClientResponse, now_ms: int) -> None:
        error, may_retry = transport_failure(request, response)
        if may_retry:
            self._note_unanswered(request)
            self._repeat(request, str(error), now_ms)
        elif response.unsupported_version is None:
            self._give_up(error)
        elif not isinstance(request, (TxnOffsetCommit, AddOffsetsToTxn)):
            self._life.fail_for_good(self._with_advice(error))
        elif not self._is_moot(request):
            self._life.fail_transaction(error)

    def _give_up(self, error: KafkaError) -> None:
        """A repetition would not help. An initialization may be repeated by the application."""
        may_be_repeated = isinstance(error, (AuthenticationError, AuthorizationError))
        if self._life.state is _S.INITIALIZING and may_be_repeated:
            self._life.not_initialized(error)
        else:
            self._life.fail_for_good(error)

    def _warn_of_timeout(self, request: InitProducerId, version: int) -> None:
        """Once per producer: the coordinator could not be asked for transactions without a timeout."""
        if request.two_phase_commit and version < TWO_PHASE_COMMIT_SINCE and not self._has_warned:
            self._has_warned = True
            _log.warning(
                "Producer %s: its coordinator has no two-phase commit (InitProducerId version %d was used,"
                " and %d is needed), so transactions time out after %d ms, also prepared ones. Brokers of"
                " Kafka 4.4 need unstable.api.versions.enable=true; or remove"
                " transaction_two_phase_commit_enable",
                request.transactional_id,
                version,
                TWO_PHASE_COMMIT_SINCE,
                request.timeout_ms,
            )

    def _note_unanswered(self, request: CoordinatorRequest) -> None:
        """The request may have arrived, may arrive later, or never.

        In version 1 it would count for the next transaction if it arrived during that one, unless that one
        has another epoch (KIP-890). Closing the connection does not prevent this: the broker may have read
        the request already.
        """
        transaction = self._life.transaction
        if transaction is None:
            return
        if isinstance(request, (AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit)):
            transaction.may_have_started = True
        elif isinstance(request, EndTxn):
            transaction.may_be_committed |= request.is_commit
        else:
            return
        transaction.must_raise_epoch |= transaction.version < 2

    def _react(
        self, request: CoordinatorRequest, results: Mapping[Any, Result], worst: Result, now_ms: int
    ) -> None:
        life, transaction = self._life, self._life.transaction
        code, reaction = worst.code, request.reaction_to(worst.code)
        replaces_id = life.transactional_id is None and life.sequences.producer.is_valid
        if reaction in (Reaction.RETRY, Reaction.RELOCATE) or (
            # Partitions whose epochs are not used up continue with the present producer id.
            replaces_id and reaction is not Reaction.FENCED
        ):
            if isinstance(request, EndTxn) and transaction:
                # It may have written the decision, and have lost its partition or begun a change since.
                transaction.may_be_committed |= request.is_commit
            self._repeat(request, str(error_for_code(code, worst.message)), now_ms, code)
            is_first = isinstance(request, AddPartitionsToTxn) and transaction and not transaction.partitions
            if is_first and code == _CONCURRENT_TRANSACTIONS:
                # The markers of the last transaction are written within milliseconds: the pause stays short.
                self._attempts.failures = 0
            self._note_partial_success(request, results)
            return
        refused = (each for each, result in results.items() if result.code == code)
        partitions = ", ".join(str(each) for each in refused if isinstance(each, TopicPartition))
        error = error_for_code(code, worst.message, partitions or f"{request}")
        if reaction is Reaction.FENCED:
            life.fail_for_good(self._fenced(error))
        elif life.state is _S.INITIALIZING:
            is_final = reaction is Reaction.FATAL and not isinstance(error, AuthorizationError)
            if is_final and life.transactional_id is not None:
                life.fail_for_good(error)
            else:
                life.not_initialized(self._with_advice(error))
        elif reaction is Reaction.FAIL_CALL:
            life.not_initialized(error)
        elif reaction is Reaction.ABORT and not self._is_moot(request):
            life.fail_transaction(error)
        elif reaction is Reaction.FATAL:
            life.fail_for_good(error)

    def _with_advice(self, error: KafkaError) -> KafkaError:
        """Idempotence is the default, so its errors say what it needs and how to turn it off.

        With two-phase commit, brokers give the same error for a permission and for their own setting.
        """
        if self._two_phase_commit and isinstance(error, TransactionalIdAuthorizationFailedError):
            error.args = (
                f"{error.args[0]} (with transaction_two_phase_commit_enable, brokers also need"
                " transaction.two.phase.commit.enable=true, and this user TwoPhaseCommit on the id)",
            )
        if self._life.transactional_id is None:
            needs = (
                "an idempotent producer needs Write on a topic, or before Kafka 2.8 IdempotentWrite on the "
                "cluster; "
                if isinstance(error, AuthorizationError)
                else ""
            )
            error.args = (f"{error.args[0]} ({needs}set enable_idempotence=False to send without it)",)
        return error

    def _is_moot(self, request: CoordinatorRequest) -> bool:
        """Whether the request prepared a commit and an abort has begun since it was sent."""
        return request.is_moot_after_abort and self._life.state in (_S.ABORTABLE_ERROR, _S.ABORTING)

    def _handle_end_txn_error(self, request: CoordinatorRequest, code: int) -> bool:
        """Process EndTxn error codes that have another meaning in this situation. Returns whether it did."""
        life, transaction = self._life, self._life.transaction
        if not isinstance(request, EndTxn) or transaction is None:
            return False
        is_taken_over = transaction.is_taken_over
        has_nothing_to_abort = not request.is_commit and (
            # The request that would have started the transaction was not answered, and had no effect.
            (code == _INVALID_TXN_STATE and not transaction.has_started)
            or (code in _FORGOTTEN_CODES and not is_taken_over and life.can_raise_epoch)
        )
        if has_nothing_to_abort:
            transaction.must_raise_epoch = True
            self._ended(transaction, NO_PRODUCER)
        elif code in _FORGOTTEN_CODES and is_taken_over:
            # A newer producer has another producer id because the epochs of this one were used up, or the
            # coordinator has forgotten the transactional id because it was not used for long.
            life.fail_for_good(self._fenced(error_for_code(code)))
        elif code == _INVALID_TXN_STATE and is_taken_over and not request.is_commit:
            life.not_initialized(
                IllegalStateError(
                    f"the transaction of {life.transactional_id!r} was committed and cannot be aborted"
                )
            )
        elif code == _INVALID_TXN_STATE and request.is_commit and (is_taken_over or transaction.version >= 2):
            aborted = TransactionAbortedError(
                f"the transaction of {life.transactional_id!r} was aborted, or timed out, before the commit"
            )
            if is_taken_over:
                life.not_initialized(aborted)
            else:
                # The coordinator has raised the epoch. It answers an abort under our epoch with the next one,
                # so the producer can continue. Kafka's client treats this as fatal. If it had carried out an
                # earlier request for the commit, it would have answered this one with success.
                transaction.may_be_committed = False
                life.fail_transaction(aborted)
        else:
            return False
        return True

    def _fenced(self, error: BrokerError) -> KafkaError:
        fenced = FencedError(
            f"another producer uses transactional id {self._life.transactional_id!r}, or the transaction "
            f"timed out: {error}"
        )
        fenced.__cause__ = error
        return fenced

    def _note_partial_success(self, request: CoordinatorRequest, results: Mapping[Any, Result]) -> None:
        transaction = self._life.transaction
        if not isinstance(request, TxnOffsetCommit) or transaction is None or not transaction.offsets:
            return
        task = transaction.offsets[0]
        for partition, result in results.items():
            if result.code == 0:
                task.remaining.pop(partition, None)
                transaction.has_started = transaction.may_have_started = True

    def _done(self, request: CoordinatorRequest, results: Mapping[Any, Result]) -> None:
        if isinstance(request, FindCoordinator):
            self._found(request.wanted, results[request.wanted].value)
            return
        self._forget_request()
        transaction = self._life.transaction
        if isinstance(request, InitProducerId):
            if self._life.state is _S.INITIALIZING:
                self._life.initialized(results[None].value)
            elif transaction is not None and transaction.has_ended:
                self._life.transaction_over(results[None].value)
            return
        if transaction is None:
            return
        if isinstance(request, EndTxn):
            # In version 2 the response has the next epoch; if it has not, the epoch is requested.
            transaction.must_raise_epoch |= transaction.version >= 2
            self._ended(transaction, results[None].value)
            return
        transaction.has_started = transaction.may_have_started = True
        if isinstance(request, AddPartitionsToTxn):
            transaction.partitions |= request.partitions
            transaction.new_partitions -= request.partitions
        elif isinstance(request, AddOffsetsToTxn):
            transaction.groups.add(request.group_id)
        elif isinstance(request, TxnOffsetCommit) and transaction.offsets:
            transaction.offsets.popleft().end()

    def _ended(self, transaction: OpenTransaction, producer: ProducerIdAndEpoch) -> None:
        """The coordinator has committed or aborted the transaction.

        The next transaction may need another epoch, which version 1 requests separately. The caller's
        operation ends after that, so that the next transaction begins with the new epoch.
        """
        if producer.is_valid or not transaction.must_raise_epoch or transaction.is_taken_over:
            self._life.transaction_over(producer)
        elif self._life.can_raise_epoch:
            transaction.has_ended = True
        elif self._life.sequences.gapped:
            self._life.fail_for_good(
                KafkaError(
                    "batches of the aborted transaction may or may not be in the log, and this broker cannot "
                    "raise the epoch of a producer (brokers from 2.5 on can)"
                )
            )
        else:
            self._life.transaction_over(NO_PRODUCER)


def _severity(request: CoordinatorRequest, code: int) -> tuple[Reaction, bool, int]:
    """Orders the results of one response: the highest reaction counts, and a cause before its consequence."""
    return request.reaction_to(code), code != _OPERATION_NOT_ATTEMPTED, code

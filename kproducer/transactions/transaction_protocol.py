"""TransactionProtocol: which request the state of a producer calls for, and what responses do to the state.

Guarded by the lock of ``TransactionManager``. Source: Kafka's ``TransactionManager`` and its
``TxnRequestHandler`` classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kproducer.errors import (
    AuthorizationError,
    BrokerError,
    FencedError,
    IllegalStateError,
    KafkaError,
    TransactionAbortedError,
)
from kproducer.errors.broker_errors import error_for_code
from kproducer.transactions.coordinator_link import CoordinatorRequestQueue, Wanted, transport_failure
from kproducer.transactions.coordinator_requests import (
    EPOCH_RAISED_SINCE,
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    Answer,
    CoordinatorKind,
    CoordinatorRequest,
    EndTxn,
    FindCoordinator,
    InitProducerId,
    Reaction,
    TxnOffsetCommit,
)
from kproducer.transactions.partition_sequences import NO_PRODUCER, ProducerIdAndEpoch
from kproducer.transactions.transaction_lifecycle import TransactionLifecycle
from kproducer.transactions.transaction_state import OpenTransaction, TransactionState

if TYPE_CHECKING:
    from kproducer.client.client_request import ClientResponse

_S = TransactionState

#: The markers of the last transaction are written within milliseconds, much sooner than a whole backoff.
_FIRST_PARTITIONS_PAUSE_MS: Final = 20
_FIRST_BUSY_PAUSE_MS: Final = 20
_CONCURRENT_TRANSACTIONS: Final = 51
_INVALID_TXN_STATE: Final = 48
#: UNKNOWN_PRODUCER_ID, INVALID_PRODUCER_ID_MAPPING
_FORGOTTEN_CODES: Final = (49, 59)
_NO_TIMEOUT_MS: Final = 2**31 - 1


class TransactionProtocol:
    """Requests and responses of one producer.

    Args:
        lifecycle: the state.
        queue: keeps the request that is under way.
        transaction_timeout_ms: for InitProducerId.
    """

    def __init__(
        self, lifecycle: TransactionLifecycle, queue: CoordinatorRequestQueue, transaction_timeout_ms: int
    ) -> None:
        self._life = lifecycle
        self._queue = queue
        self._timeout_ms = transaction_timeout_ms

    # -- requests --------------------------------------------------------------------------------------

    def wanted(self, has_incomplete: bool) -> Wanted | None:
        """The request that the state calls for, if any.

        Args:
            has_incomplete: whether the accumulator has batches that are not done.
        """
        life = self._life
        if life.state in (_S.FATAL_ERROR, _S.READY, _S.PREPARED, _S.UNINITIALIZED):
            return self._wanted_without_transactions(has_incomplete)
        if life.state is _S.INITIALIZING:
            return self._init(NO_PRODUCER)
        transaction = life.transaction
        assert transaction is not None
        if transaction.has_ended:
            return self._init(life.sequences.producer)
        if life.state in (_S.IN_TRANSACTION, _S.COMMITTING):
            part = self._next_part(transaction)
            if part is not None:
                return part
        if life.state not in (_S.COMMITTING, _S.ABORTING) or has_incomplete or life.sequences.has_pending:
            return None
        return self._end(transaction)

    def _wanted_without_transactions(self, has_incomplete: bool) -> Wanted | None:
        """An idempotent producer requests a producer id when it has something to send."""
        life = self._life
        lacks_id = life.state is _S.UNINITIALIZED or (life.state is _S.READY and life.sequences.needs_new_id)
        if life.transactional_id is not None or not has_incomplete or not lacks_id:
            return None
        life.move_to(_S.INITIALIZING)
        return self._init(NO_PRODUCER)

    def _init(self, current: ProducerIdAndEpoch) -> Wanted:
        transactional_id = self._life.transactional_id
        timeout_ms = _NO_TIMEOUT_MS if transactional_id is None else self._timeout_ms
        return Wanted(("init", current), lambda: InitProducerId(transactional_id, timeout_ms, current))

    def _next_part(self, transaction: OpenTransaction) -> Wanted | None:
        """The next partitions, group or offsets to be added to the transaction."""
        transactional_id, producer = self._life.transactional_id, self._life.sequences.producer
        assert transactional_id is not None
        if transaction.new_partitions:
            # Partitions that are announced while this request is in flight go with the next one.
            partitions = frozenset(transaction.new_partitions)
            return Wanted(
                ("partitions", transaction, partitions),
                lambda: AddPartitionsToTxn(transactional_id, producer, partitions),
            )
        if not transaction.offsets:
            return None
        task = transaction.offsets[0]
        group = task.group
        if transaction.version < 2 and group.group_id not in transaction.groups:
            return Wanted(
                ("group", transaction, group.group_id),
                lambda: AddOffsetsToTxn(transactional_id, producer, group.group_id),
            )
        remaining = dict(task.remaining)
        return Wanted(
            ("offsets", task, len(remaining)),
            lambda: TxnOffsetCommit(transactional_id, producer, group, remaining, transaction.version),
        )

    def _end(self, transaction: OpenTransaction) -> Wanted | None:
        transactional_id, producer = self._life.transactional_id, self._life.sequences.producer
        assert transactional_id is not None
        if not transaction.may_have_started:
            # No broker knows of it, and some brokers refuse to end a transaction that never started.
            self._ended(transaction, NO_PRODUCER)
            return self.wanted(False)
        commit = self._life.state is _S.COMMITTING
        return Wanted(
            ("end", transaction, commit),
            lambda: EndTxn(transactional_id, producer, commit, transaction.version),
        )

    # -- responses -------------------------------------------------------------------------------------

    def handle(self, request: CoordinatorRequest, response: ClientResponse, now_ms: int) -> None:
        """Process the end of a request, with or without a response."""
        self._queue.request_completed()
        if self._life.state is _S.FATAL_ERROR:
            return
        if response.body is None:
            self._handle_failure(request, response, now_ms)
            return
        answer = request.parse(response.body)
        if isinstance(request, InitProducerId):
            self._life.can_raise_epoch = response.request.api_version >= EPOCH_RAISED_SINCE
        reaction, code = request.worst_reaction(answer.codes.values())
        if reaction is Reaction.DONE:
            self._done(request, answer)
        elif not self._is_special(request, code):
            self._react(request, answer, reaction, code, now_ms)

    def unreachable(self, request: CoordinatorRequest, now_ms: int) -> None:
        """The request was not sent, because its broker could not be connected to."""
        self._queue.request_completed()
        node = self._queue.node_for(request)
        self._retry(request, Reaction.RELOCATE, 0, f"no connection to {node or 'any broker'}", now_ms)

    def _handle_failure(self, request: CoordinatorRequest, response: ClientResponse, now_ms: int) -> None:
        error, may_retry = transport_failure(request, response)
        if may_retry:
            self._note_unanswered(request)
            self._retry(request, Reaction.RELOCATE, 0, str(error), now_ms)
        elif response.unsupported_version is None:
            self._give_up(error)
        elif not isinstance(request, (TxnOffsetCommit, AddOffsetsToTxn)):
            self._give_up(self._with_advice(error))
        elif not self._is_moot(request):
            self._life.fail_transaction(error)

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
        elif not isinstance(request, EndTxn):
            return
        transaction.must_raise_epoch |= transaction.version < 2

    def _give_up(self, error: KafkaError) -> None:
        """Repeating the request would not help. An initialization may be repeated by the application."""
        if self._life.state is _S.INITIALIZING and isinstance(error, AuthorizationError):
            self._life.not_initialized(error)
        else:
            self._life.fail_for_good(error)

    def _react(
        self, request: CoordinatorRequest, answer: Answer, reaction: Reaction, code: int, now_ms: int
    ) -> None:
        life = self._life
        replaces_id = life.transactional_id is None and life.sequences.producer.is_valid
        if reaction in (Reaction.RETRY, Reaction.RELOCATE) or (
            # Partitions whose epochs are not used up continue with the present producer id.
            replaces_id and reaction is not Reaction.FENCED
        ):
            self._retry(request, reaction, code, str(error_for_code(code, answer.message)), now_ms)
            self._note_partial_success(request, answer)
            return
        places = ", ".join(str(place) for place, its in answer.codes.items() if its == code and place)
        error = error_for_code(code, answer.message, f"{places or request}")
        if reaction is Reaction.FENCED:
            life.fail_for_good(self._fenced(error))
        elif life.state is _S.INITIALIZING:
            is_final = reaction is Reaction.FATAL and not isinstance(error, AuthorizationError)
            if is_final and life.transactional_id is not None:
                life.fail_for_good(error)
            else:
                life.not_initialized(self._with_advice(error))
        elif reaction is Reaction.REFUSE and isinstance(request, InitProducerId):
            life.not_initialized(error)
        elif reaction is Reaction.ABORT and not self._is_moot(request):
            life.fail_transaction(error)
        elif reaction is Reaction.FATAL:
            life.fail_for_good(error)

    def _with_advice(self, error: KafkaError) -> KafkaError:
        """Idempotence is the default, so its errors say what it needs and how to turn it off."""
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
        if isinstance(request, FindCoordinator):
            concerns_commit = request.wanted[0].kind is CoordinatorKind.GROUP
        else:
            concerns_commit = not isinstance(request, (EndTxn, InitProducerId))
        return concerns_commit and self._life.state in (_S.ABORTABLE_ERROR, _S.ABORTING)

    def _is_special(self, request: CoordinatorRequest, code: int) -> bool:
        """Process EndTxn error codes that have another meaning in this situation. Returns whether it did."""
        life, transaction = self._life, self._life.transaction
        if not isinstance(request, EndTxn) or transaction is None:
            return False
        if code == _INVALID_TXN_STATE and not request.is_commit and not transaction.has_started:
            # The request that would have started the transaction was not answered, and had no effect.
            transaction.must_raise_epoch = True
            self._ended(transaction, NO_PRODUCER)
        elif code == _INVALID_TXN_STATE and request.is_commit and transaction.is_taken_over:
            life.not_initialized(self._aborted_before_commit())
        elif code == _INVALID_TXN_STATE and request.is_commit and transaction.version >= 2:
            # The coordinator aborted it and raised the epoch. It answers an abort under our epoch with the
            # next one, so the producer can continue. Kafka's client treats this as fatal.
            life.fail_transaction(self._aborted_before_commit())
        elif code == _INVALID_TXN_STATE and transaction.is_taken_over:
            life.not_initialized(
                IllegalStateError(
                    f"the transaction of {life.transactional_id!r} was committed and cannot be aborted"
                )
            )
        elif code in _FORGOTTEN_CODES and transaction.is_taken_over:
            # A newer producer has another producer id because the epochs of this one were used up, or the
            # coordinator has forgotten the transactional id because it was not used for long.
            life.fail_for_good(self._fenced(error_for_code(code)))
        elif code in _FORGOTTEN_CODES and not request.is_commit and life.can_raise_epoch:
            # Nothing is left to be aborted.
            transaction.must_raise_epoch = True
            self._ended(transaction, NO_PRODUCER)
        else:
            return False
        return True

    def _aborted_before_commit(self) -> TransactionAbortedError:
        return TransactionAbortedError(
            f"the transaction of {self._life.transactional_id!r} was aborted, or timed out, before the commit"
        )

    def _fenced(self, error: BrokerError) -> KafkaError:
        transaction = self._life.transaction
        is_foreign = transaction is not None and transaction.is_taken_over
        fenced = FencedError(
            f"another producer uses transactional id {self._life.transactional_id!r}, or the transaction "
            f"timed out: {error}"
            + ("; whether it was committed before that is not known" if is_foreign else "")
        )
        fenced.__cause__ = error
        return fenced

    def _retry(
        self, request: CoordinatorRequest, reaction: Reaction, code: int, failure: str, now_ms: int
    ) -> None:
        queue, transaction = self._queue, self._life.transaction
        if isinstance(request, FindCoordinator):
            queue.lookup_failed(now_ms)
        else:
            is_busy = code == _CONCURRENT_TRANSACTIONS
            is_first = (
                is_busy
                and isinstance(request, AddPartitionsToTxn)
                and transaction is not None
                and not transaction.partitions
            )
            queue.retry(
                now_ms,
                relocate=reaction is Reaction.RELOCATE,
                longest_ms=_FIRST_PARTITIONS_PAUSE_MS if is_first else None,
                first_ms=_FIRST_BUSY_PAUSE_MS if is_busy else None,
            )
        queue.last_failure = failure

    def _note_partial_success(self, request: CoordinatorRequest, answer: Answer) -> None:
        transaction = self._life.transaction
        if not isinstance(request, TxnOffsetCommit) or transaction is None or not transaction.offsets:
            return
        task = transaction.offsets[0]
        for place, code in answer.codes.items():
            if code == 0 and place is not None:
                task.remaining.pop(place, None)
                transaction.has_started = transaction.may_have_started = True

    def _done(self, request: CoordinatorRequest, answer: Answer) -> None:
        if isinstance(request, FindCoordinator):
            assert answer.node is not None
            self._queue.found(request.wanted[0], answer.node)
            return
        self._queue.done()
        transaction = self._life.transaction
        if isinstance(request, InitProducerId):
            if self._life.state is _S.INITIALIZING:
                self._life.initialized(answer.producer)
            elif transaction is not None and transaction.has_ended:
                self._life.transaction_over(answer.producer)
            return
        if transaction is None:
            return
        if isinstance(request, EndTxn):
            # In version 2 the response has the next epoch; if it has not, the epoch is requested.
            transaction.must_raise_epoch |= transaction.version >= 2
            self._ended(transaction, answer.producer)
            return
        transaction.has_started = transaction.may_have_started = True
        if isinstance(request, AddPartitionsToTxn):
            transaction.partitions |= request.partitions
            transaction.new_partitions -= request.partitions
        elif isinstance(request, AddOffsetsToTxn):
            transaction.groups.add(request.group_id)
        elif isinstance(request, TxnOffsetCommit) and transaction.offsets:
            transaction.offsets.popleft().operation.succeed()

    def _ended(self, transaction: OpenTransaction, producer: ProducerIdAndEpoch) -> None:
        """The coordinator has committed or aborted the transaction.

        The next transaction may need another epoch, which version 1 requests separately. The caller's
        operation ends after that, so that the next transaction begins with the new epoch.
        """
        if producer.is_valid or not transaction.must_raise_epoch or transaction.is_taken_over:
            self._life.transaction_over(producer)
        elif self._life.can_raise_epoch:
            transaction.has_ended = True
        elif self._life.sequences.has_gaps:
            self._life.fail_for_good(
                KafkaError(
                    "batches of the aborted transaction may or may not be in the log, and this broker cannot "
                    "raise the epoch of a producer (brokers from 2.5 on can)"
                )
            )
        else:
            self._life.transaction_over(NO_PRODUCER)

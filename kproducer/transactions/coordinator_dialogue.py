"""CoordinatorDialogue: which request the state wants next, and what an answer does to the state.

Guarded by the manager's lock. Source: Kafka's ``TransactionManager`` and its ``TxnRequestHandler`` classes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

from kproducer.client.client_request import ClientResponse
from kproducer.errors import (
    AuthorizationError,
    BrokerError,
    FencedError,
    IllegalStateError,
    KafkaError,
    TransactionAbortedError,
)
from kproducer.errors.broker_errors import error_for_code
from kproducer.transactions.coordinator_calls import CoordinatorCalls
from kproducer.transactions.open_transaction import OpenTransaction
from kproducer.transactions.producer_id_and_epoch import NO_PRODUCER, ProducerIdAndEpoch
from kproducer.transactions.transaction_errors import Reaction, worst
from kproducer.transactions.transaction_lifecycle import TransactionLifecycle
from kproducer.transactions.transaction_requests import (
    EPOCH_RAISED_SINCE,
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    Answer,
    CoordinatorKind,
    EndTxn,
    FindCoordinator,
    InitProducerId,
    TransactionRequest,
    TxnOffsetCommit,
)
from kproducer.transactions.transaction_state import TransactionState

_S = TransactionState

#: The markers of the last transaction take a moment; who begins the next at once would wait a whole backoff.
_FIRST_PARTITIONS_PAUSE_MS: Final = 20
_FIRST_BUSY_PAUSE_MS: Final = 20
_CONCURRENT_TRANSACTIONS: Final = 51
_INVALID_TXN_STATE: Final = 48
#: UNKNOWN_PRODUCER_ID, INVALID_PRODUCER_ID_MAPPING
_FORGOTTEN_CODES: Final = (49, 59)
_NO_TIMEOUT_MS: Final = 2**31 - 1

_Wanted = tuple[Hashable, Callable[[], TransactionRequest]]


class CoordinatorDialogue:
    """Requests and answers.

    Args:
        lifecycle: the state.
        calls: attempts and coordinators.
        transaction_timeout_ms: goes into InitProducerId.
    """

    def __init__(
        self, lifecycle: TransactionLifecycle, calls: CoordinatorCalls, transaction_timeout_ms: int
    ) -> None:
        self._life = lifecycle
        self._calls = calls
        self._timeout_ms = transaction_timeout_ms

    # -- what to send ----------------------------------------------------------------------------------

    def wanted(self, has_incomplete: bool) -> _Wanted | None:
        """The request that is due, as a key and what makes it; None: none.

        Args:
            has_incomplete: whether the accumulator has batches without a fate.
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

    def _wanted_without_transactions(self, has_incomplete: bool) -> _Wanted | None:
        """A producer that is idempotent only asks for an id when there is something to send."""
        life = self._life
        lacks_id = life.state is _S.UNINITIALIZED or (life.state is _S.READY and life.sequences.needs_new_id)
        if life.transactional_id is not None or not has_incomplete or not lacks_id:
            return None
        life.move_to(_S.INITIALIZING)
        return self._init(NO_PRODUCER)

    def _init(self, current: ProducerIdAndEpoch) -> _Wanted:
        transactional_id = self._life.transactional_id
        timeout_ms = _NO_TIMEOUT_MS if transactional_id is None else self._timeout_ms
        return ("init", current), lambda: InitProducerId(transactional_id, timeout_ms, current)

    def _next_part(self, transaction: OpenTransaction) -> _Wanted | None:
        """The next thing to be added to the transaction."""
        transactional_id, producer = self._life.transactional_id, self._life.sequences.producer
        assert transactional_id is not None
        if transaction.new_partitions:
            # All that are new when it is built; more may come meanwhile, and go with the next.
            partitions = frozenset(transaction.new_partitions)
            return ("partitions", transaction, partitions), lambda: AddPartitionsToTxn(
                transactional_id, producer, partitions
            )
        if not transaction.offsets:
            return None
        task = transaction.offsets[0]
        group = task.group
        if transaction.version < 2 and group.group_id not in transaction.groups:
            return ("group", transaction, group.group_id), lambda: AddOffsetsToTxn(
                transactional_id, producer, group.group_id
            )
        remaining = dict(task.remaining)
        return ("offsets", task, len(remaining)), lambda: TxnOffsetCommit(
            transactional_id, producer, group, remaining, transaction.version
        )

    def _end(self, transaction: OpenTransaction) -> _Wanted | None:
        transactional_id, producer = self._life.transactional_id, self._life.sequences.producer
        assert transactional_id is not None
        if not transaction.may_have_started:
            # No broker knows of it, and ending what never began is an error to some.
            self._ended(transaction, NO_PRODUCER)
            return self.wanted(False)
        commit = self._life.state is _S.COMMITTING
        return ("end", transaction, commit), lambda: EndTxn(
            transactional_id, producer, commit, transaction.version
        )

    # -- what came back --------------------------------------------------------------------------------

    def handle(self, request: TransactionRequest, response: ClientResponse, now_ms: int) -> None:
        """Deal with the end of a request, whatever it was."""
        self._calls.landed()
        if self._life.state is _S.FATAL_ERROR:
            return
        if response.body is None:
            self._handle_no_answer(request, response, now_ms)
            return
        answer = request.parse(response.body)
        if isinstance(request, InitProducerId):
            self._life.can_raise_epoch = response.api_version >= EPOCH_RAISED_SINCE
        reaction, code = worst(request.api_key, answer.codes.values())
        if reaction is Reaction.DONE:
            self._done(request, answer)
        elif not self._is_special(request, code):
            self._react(request, answer, reaction, code, now_ms)

    def _handle_no_answer(self, request: TransactionRequest, response: ClientResponse, now_ms: int) -> None:
        error = response.error
        if response.unsupported_version is not None:
            failed = self._with_way_out(response.unsupported_version)
            if isinstance(request, (TxnOffsetCommit, AddOffsetsToTxn)):
                if not self._is_moot(request):
                    self._life.fail_transaction(failed)
            else:
                self._give_up(request, failed)
        elif response.authentication_error is not None:
            self._give_up(request, response.authentication_error)
        elif response.disconnected:
            self._note_unanswered(request)
            self._retry(request, Reaction.RELOCATE, 0, now_ms)
            self._calls.trouble = str(error or "a connection that ended")
        else:
            self._give_up(request, error or KafkaError(f"{request}: no answer, and no reason for it"))

    def _note_unanswered(self, request: TransactionRequest) -> None:
        """The request may have arrived, may arrive later, or never.

        With protocol 1 it would count for the next transaction if it arrived in that one, unless that has
        another epoch (KIP-890). That its connection has ended does not stop it: the broker may have read it.
        """
        transaction = self._life.transaction
        if transaction is None:
            return
        if isinstance(request, (AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit)):
            transaction.may_have_started = True
        elif not isinstance(request, EndTxn):
            return
        transaction.must_raise_epoch |= transaction.version < 2

    def _give_up(self, request: TransactionRequest, error: KafkaError) -> None:
        """Asking again would not help. An initialization may be begun anew; else the producer is lost."""
        is_init = self._life.state is _S.INITIALIZING
        if is_init and isinstance(error, (AuthorizationError,)):
            self._life.not_initialized(error)
        else:
            self._life.fail_for_good(error)

    def _react(
        self, request: TransactionRequest, answer: Answer, reaction: Reaction, code: int, now_ms: int
    ) -> None:
        is_replacement = self._life.transactional_id is None and self._life.sequences.producer.is_valid
        if reaction in (Reaction.RETRY, Reaction.RELOCATE) or (
            is_replacement and reaction is not Reaction.FENCED
        ):
            # Partitions whose epochs are not used up go on with the id that there is.
            self._retry(request, reaction, code, now_ms)
            self._calls.trouble = str(error_for_code(code, answer.message))
            self._note_partial_success(request, answer)
            return
        places = ", ".join(str(place) for place, its in answer.codes.items() if its == code and place)
        error = error_for_code(code, answer.message, f"{places or request}")
        life = self._life
        if reaction is Reaction.FENCED:
            life.fail_for_good(self._fenced(error))
        elif life.state is _S.INITIALIZING:
            is_final = reaction is Reaction.FATAL and not isinstance(error, AuthorizationError)
            if is_final and life.transactional_id is not None:
                life.fail_for_good(error)
            else:
                life.not_initialized(self._with_way_out(error))
        elif reaction is Reaction.REFUSE and isinstance(request, InitProducerId):
            life.not_initialized(error)
        elif reaction is Reaction.ABORT and not self._is_moot(request):
            life.fail_transaction(error)
        elif reaction is Reaction.FATAL:
            life.fail_for_good(error)

    def _with_way_out(self, error: KafkaError) -> KafkaError:
        """Idempotence is the default: who never asked for it is told what it needs, and how to do without."""
        if self._life.transactional_id is None:
            needs = (
                "an idempotent producer needs the right to write to a topic, before Kafka 2.8 "
                "IdempotentWrite on the cluster; "
                if isinstance(error, AuthorizationError)
                else ""
            )
            error.args = (f"{error.args[0]} ({needs}enable_idempotence=False does without)",)
        return error

    def _is_moot(self, request: TransactionRequest) -> bool:
        """Whether an abort was begun while the request, which had to do with a commit, was on its way."""
        if isinstance(request, FindCoordinator):
            concerns_commit = request.wanted.kind is CoordinatorKind.GROUP
        else:
            concerns_commit = not isinstance(request, (EndTxn, InitProducerId))
        return concerns_commit and self._life.state in (_S.ABORTABLE_ERROR, _S.ABORTING)

    def _is_special(self, request: TransactionRequest, code: int) -> bool:
        """Codes that mean something else in this very situation."""
        life, transaction = self._life, self._life.transaction
        if not isinstance(request, EndTxn) or transaction is None:
            return False
        if code == _INVALID_TXN_STATE and not request.is_commit and not transaction.has_started:
            # The answer to what would have begun it was lost; now we know that it had no effect.
            transaction.must_raise_epoch = True
            self._ended(transaction, NO_PRODUCER)
            return True
        if code == _INVALID_TXN_STATE and request.is_commit:
            aborted = TransactionAbortedError(
                f"the transaction of {life.transactional_id!r} was aborted, or ran out of time, "
                "before it could be committed"
            )
            if transaction.is_taken_over:
                life.was_aborted(aborted)
                return True
            if transaction.version >= 2:
                # The coordinator knows the epoch as the one before its own abort: ours, said once more, is
                # answered with the next epoch, and life goes on. To Kafka's client this is fatal.
                life.fail_transaction(aborted)
                return True
        if code == _INVALID_TXN_STATE and transaction.is_taken_over:
            life.not_initialized(
                IllegalStateError(
                    f"the transaction of {life.transactional_id!r} was committed; no abort is possible"
                )
            )
            return True
        if code in _FORGOTTEN_CODES and transaction.is_taken_over:
            # A newer producer has another producer id, since the epochs of this one were used up; or the
            # transactional id was not used for so long that the coordinator forgot it.
            life.fail_for_good(self._fenced(error_for_code(code)))
            return True
        if code in _FORGOTTEN_CODES and not request.is_commit and life.can_raise_epoch:
            # Nothing is left to be aborted.
            transaction.must_raise_epoch = True
            self._ended(transaction, NO_PRODUCER)
            return True
        return False

    def _fenced(self, error: BrokerError) -> KafkaError:
        transaction = self._life.transaction
        is_foreign = transaction is not None and transaction.is_taken_over
        fenced = FencedError(
            f"another producer with transactional id {self._life.transactional_id!r} has taken over, "
            f"or the transaction ran out of time: {error}"
            + ("; whether it was committed before that is not known" if is_foreign else "")
        )
        fenced.__cause__ = error
        return fenced

    def try_again(self, request: TransactionRequest, now_ms: int) -> None:
        """It could not be sent: perhaps another broker coordinates by now."""
        node = self._calls.node_for(request)
        self._retry(request, Reaction.RELOCATE, 0, now_ms)
        self._calls.trouble = f"no connection to {node or 'any broker'}"

    def _retry(self, request: TransactionRequest, reaction: Reaction, code: int, now_ms: int) -> None:
        calls = self._calls
        if isinstance(request, FindCoordinator):
            calls.lookup_failed(now_ms)
            return
        if reaction is Reaction.RELOCATE:
            calls.forget(request.coordinator)
        transaction = self._life.transaction
        is_first = (
            isinstance(request, AddPartitionsToTxn) and transaction is not None and not transaction.partitions
        )
        is_busy = code == _CONCURRENT_TRANSACTIONS
        calls.again(
            now_ms,
            _FIRST_PARTITIONS_PAUSE_MS if is_busy and is_first else None,
            _FIRST_BUSY_PAUSE_MS if is_busy else None,
        )

    def _note_partial_success(self, request: TransactionRequest, answer: Answer) -> None:
        transaction = self._life.transaction
        if not isinstance(request, TxnOffsetCommit) or transaction is None or not transaction.offsets:
            return
        task = transaction.offsets[0]
        for place, code in answer.codes.items():
            if code == 0 and place is not None:
                task.remaining.pop(place, None)
                transaction.has_started = transaction.may_have_started = True

    def _done(self, request: TransactionRequest, answer: Answer) -> None:
        if isinstance(request, FindCoordinator):
            assert answer.node is not None
            self._calls.found(request.wanted, answer.node)
            return
        self._calls.done()
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
            # Protocol 2 gives the next epoch along; a broker that does not is asked for it.
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
        """The coordinator has taken the end. Protocol 1 may have to ask for the next epoch as well: what the
        caller waits for ends after that, so that the next transaction begins with it.
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

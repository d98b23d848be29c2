"""TransactionManager: what callers and the I/O thread see of idempotence and transactions.

Callers begin, commit and abort, and wait for a ``PendingOperation``. The I/O thread asks for the next request
to a coordinator, brings its end back, and asks about each batch before it is sent and when it came back.
An error is one of three kinds: tried again by us and never seen; the transaction has to be aborted
(``AbortTransactionError``); the producer has to be given up (``FatalProducerError``).

Source: KIP-98, KIP-360, KIP-447, KIP-588, KIP-890; Kafka's ``TransactionManager``; ``docs/transactions.md``
says where and why we differ.
"""

from __future__ import annotations

import random as random_module
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kproducer.client.client_request import ClientResponse
from kproducer.client.exponential_backoff import ExponentialBackoff
from kproducer.errors import (
    BrokerError,
    IllegalStateError,
    KafkaError,
    Outcome,
    ProducerClosedError,
)
from kproducer.transactions.consumer_offsets import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    checked_group,
    checked_offsets,
)
from kproducer.transactions.coordinator_calls import CoordinatorCalls, KnownCoordinators
from kproducer.transactions.coordinator_dialogue import CoordinatorDialogue
from kproducer.transactions.delivery_knowledge import AttemptEnd
from kproducer.transactions.open_transaction import (
    OffsetsTask,
    OpenTransaction,
    PreparedTransaction,
)
from kproducer.transactions.partition_sequences import SequencedBatch
from kproducer.transactions.producer_id_and_epoch import NO_SEQUENCE, ProducerIdAndEpoch
from kproducer.transactions.sequence_tracker import Verdict
from kproducer.transactions.transaction_errors import FATAL_PRODUCE_CODES
from kproducer.transactions.transaction_lifecycle import GivenUp, TransactionLifecycle
from kproducer.transactions.transaction_requests import TransactionRequest
from kproducer.transactions.transaction_state import PendingOperation, TransactionState
from kproducer.types import Node, TopicPartition

_S = TransactionState
#: States in which batches of the transaction may still be sent: the last two only again.
_SENDING = frozenset({_S.IN_TRANSACTION, _S.COMMITTING, _S.ABORTABLE_ERROR, _S.ABORTING})


class TransactionManager:
    """Idempotence, and with a transactional id transactions. Thread-safe as the sections say.

    Args:
        transactional_id: None: idempotent only.
        transaction_timeout_ms: after which the coordinator aborts an open transaction.
        retry_backoff_ms, retry_backoff_max_ms: pauses between attempts to reach a coordinator.
        transaction_version: asked when a transaction begins: 2 where all brokers have KIP-890, else 1.
        wakeup: called when the I/O thread has something new to do; may be set later, before the first use.
        random: for the jitter of pauses; tests pass a seeded one.
        known: which brokers coordinate; may be shared by managers whose I/O is done by one thread.
    """

    def __init__(
        self,
        transactional_id: str | None,
        transaction_timeout_ms: int = 60_000,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1000,
        transaction_version: Callable[[], int] = lambda: 1,
        wakeup: Callable[[], None] = lambda: None,
        random: random_module.Random | None = None,
        known: KnownCoordinators | None = None,
    ) -> None:
        self._transaction_version = transaction_version
        self.set_wakeup(wakeup)
        self._has_news = False  # I/O thread only
        self._lock = threading.RLock()  # guards all that follows, but for the sequences: I/O thread only
        self._life = TransactionLifecycle(transactional_id)
        self._calls = CoordinatorCalls(
            ExponentialBackoff(retry_backoff_ms, 2, retry_backoff_max_ms, 0.2, random), known
        )
        self._dialogue = CoordinatorDialogue(self._life, self._calls, transaction_timeout_ms)
        self._sequences = self._life.sequences

    def set_wakeup(self, wakeup: Callable[[], None]) -> None:
        """See the class: for whoever is made after the manager."""
        self._wakeup = wakeup

    def set_gate(self, gate: Callable[[bool], None]) -> None:
        """Have ``gate`` told when records may be sent without ``check_send``; before the first use.

        It is called under the manager's lock, and may not call back.
        """
        self._life.gate = gate

    # -- any thread: looking ---------------------------------------------------------------------------

    @property
    def is_transactional(self) -> bool:
        """Whether there is a transactional id."""
        return self._life.transactional_id is not None

    @property
    def state(self) -> TransactionState:
        """See ``transaction_state``."""
        return self._life.state

    @property
    def producer(self) -> ProducerIdAndEpoch:
        """What the coordinator gave last."""
        return self._sequences.producer

    @property
    def transactional_id(self) -> str | None:
        """As given, or changed to."""
        return self._life.transactional_id

    @property
    def waits_for(self) -> str:
        """What a coordinator is asked for at present and what went wrong with it last, for error messages."""
        with self._lock:
            return str(self._calls)

    @property
    def uses_version_2(self) -> bool:
        """Whether the open transaction follows KIP-890: Produce then has to be version 12 or later."""
        transaction = self._life.transaction
        return transaction is not None and transaction.version >= 2

    # -- application threads ---------------------------------------------------------------------------

    def begin_initialize(self) -> PendingOperation:
        """Get an id and an epoch; ends what an earlier producer with this id has left open, and fences it.

        Raises:
            IllegalStateError: no transactional id, or initialized before.
            FatalProducerError: the producer is of no use any more.
        """
        return self._begin("init_transactions", {_S.UNINITIALIZED}, _S.INITIALIZING, "it was called before")

    def begin_transaction(self) -> None:
        """Begin one; no broker is asked. Raises as ``begin_initialize``."""
        with self._lock:
            life = self._life
            self._check_transactional("begin_transaction")
            life.start("begin_transaction")
            if life.state is not _S.READY:
                life.refuse_call(
                    "begin_transaction", "call init_transactions once, then end each transaction"
                )
            life.operation = None
            # First: as soon as the state says so records come.
            life.transaction = OpenTransaction(2 if self._transaction_version() >= 2 else 1)
            life.move_to(_S.IN_TRANSACTION)

    def begin_commit(self) -> PendingOperation:
        """Commit once everything is written. Also for a transaction that was handed over.

        Raises:
            AbortTransactionError: it can only be aborted.
            FatalProducerError, IllegalStateError: as ``begin_initialize``.
        """
        allowed = {_S.IN_TRANSACTION, _S.PREPARED}
        return self._begin("commit_transaction", allowed, _S.COMMITTING, "begin a transaction first")

    def begin_abort(self) -> PendingOperation:
        """Abort: what was not sent is given up, what was sent is not read. Raises as ``begin_commit``."""
        allowed = {_S.IN_TRANSACTION, _S.PREPARED, _S.ABORTABLE_ERROR}
        with self._lock:
            operation = self._begin("abort_transaction", allowed, _S.ABORTING, "begin a transaction first")
            transaction = self._life.transaction
            if transaction is not None and self._life.state is _S.ABORTING:
                transaction.new_partitions.clear()
                self._life.drop_offsets()
            return operation

    def acknowledge(self, operation: PendingOperation) -> None:
        """The caller has seen how its operation ended: the next call of that name begins a new one."""
        with self._lock:
            if self._life.operation is operation and operation.has_ended:
                self._life.operation = None

    def check_send(self) -> None:
        """A record is about to be appended. Raises as ``begin_commit`` where records are not taken."""
        life = self._life
        # The usual cases take no lock: these are single reads.
        if life.state is _S.IN_TRANSACTION:
            return
        if life.transactional_id is None and life.state is not _S.FATAL_ERROR:
            return
        with self._lock:
            if self.state is not _S.IN_TRANSACTION:
                life.refuse_call("send", "begin a transaction first")

    def send_failed(self, error: KafkaError) -> None:
        """``send`` raised: a transaction must not be committed without that record."""
        with self._lock:
            if self._life.state is _S.IN_TRANSACTION:
                self._life.fail_transaction(error)

    def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> PendingOperation:
        """Make positions of a group part of the transaction.

        Raises:
            InvalidArgumentError: offsets or group cannot be sent. And as ``begin_commit``.
        """
        task = OffsetsTask(checked_offsets(offsets), checked_group(group))
        with self._lock:
            self._check_transactional("send_offsets_to_transaction")
            transaction = self._life.transaction
            if transaction is None or self._life.state is not _S.IN_TRANSACTION:
                self._life.refuse_call("send_offsets_to_transaction", "begin a transaction first")
            if task.remaining:
                transaction.offsets.append(task)
            else:
                task.operation.succeed()
        self._wakeup()
        return task.operation

    def prepare(self, has_incomplete: bool) -> PreparedTransaction:
        """Hand the transaction over. Everything was flushed before; no more records are taken.

        Raises:
            IllegalStateError: something is not written yet. And as ``begin_commit``.
        """
        with self._lock:
            self._check_transactional("prepare")
            return self._life.hand_over(has_incomplete)

    def change_transactional_id(self, transactional_id: str) -> None:
        """Be not initialized, under another id, with nothing left of the one before.

        Allowed while no transaction is open here; one that was handed over is none of ours. Nothing is on its
        way then: each way into these states ends with the answer to the last request.

        Raises:
            IllegalStateError: a transaction is open, or a step goes on. And as ``begin_commit``.
        """
        with self._lock:
            self._check_transactional("change_transactional_id")
            if self._calls.in_flight is not None and self._life.state is not _S.FATAL_ERROR:
                # Its answer would be taken for one to the new id.
                raise IllegalStateError(
                    f"change_transactional_id: {self._calls.in_flight} has not been answered yet"
                )
            self._life.change_transactional_id(transactional_id)
            self._calls.start_over()

    def take_over(self, prepared: PreparedTransaction) -> None:
        """Become able to end another process's transaction, instead of being initialized.

        Raises:
            InvalidArgumentError: not a transaction of this transactional id.
            IllegalStateError: the producer was initialized, or is ending another transaction.
        """
        with self._lock:
            self._life.take_over(prepared)

    def begin_close(self) -> None:
        """The producer is about to be closed: abort an open transaction, unless it was handed over."""
        with self._lock:
            if self._life.state in (_S.IN_TRANSACTION, _S.ABORTABLE_ERROR):
                self._life.operation = None
                self.begin_abort()

    @property
    def is_ending(self) -> bool:
        """Whether a transaction is being committed or aborted."""
        return self._life.state in (_S.COMMITTING, _S.ABORTING)

    def close(self, error: KafkaError | None = None) -> None:
        """The producer ends: whoever waits is told."""
        with self._lock:
            self._life.abandon(error or ProducerClosedError("the producer was closed"))

    def _begin(
        self, name: str, allowed: set[TransactionState], target: TransactionState, otherwise: str
    ) -> PendingOperation:
        with self._lock:
            life = self._life
            self._check_transactional(name)
            earlier = life.start(name)
            if earlier is not None:
                return earlier
            if life.state not in allowed:
                if target is _S.ABORTING and life.state is _S.FATAL_ERROR:
                    raise life.fatal_error()
                life.refuse_call(name, otherwise)
            life.operation = PendingOperation(name)
            life.move_to(target)
            operation = life.operation
        self._wakeup()
        return operation

    def _check_transactional(self, name: str) -> None:
        if self._life.transactional_id is None:
            raise IllegalStateError(f"{name}: the producer has no transactional_id")

    # -- I/O thread: requests --------------------------------------------------------------------------

    def next_request(self, now_ms: int, has_incomplete: bool) -> TransactionRequest | None:
        """The request to send now. Its end, of whatever kind, has to come back through ``handle``.

        Args:
            now_ms: monotonic.
            has_incomplete: whether the accumulator has batches without a fate.
        """
        with self._lock:
            if self._calls.in_flight is not None:
                return None
            wanted = self._dialogue.wanted(has_incomplete)
            return None if wanted is None else self._calls.next_request(*wanted, now_ms)

    @property
    def wants_nothing(self) -> bool:
        """Whether ``next_request`` would give None, whatever the time; seen without the lock.

        The usual state of a producer that is idempotent only, in which the I/O thread alone changes anything.
        """
        life = self._life
        return (
            life.transactional_id is None
            and life.state is _S.READY
            and not self._sequences.needs_new_id
            and self._calls.in_flight is None
        )

    def delay_ms(self, now_ms: int) -> int:
        """After ``next_request`` gave None: the time until it may give one; 0: it waits for something."""
        with self._lock:
            return 0 if self._calls.in_flight is not None else self._calls.delay_ms(now_ms)

    def take_news(self) -> bool:
        """Whether something has happened since the last call that the next round reacts to: do not sleep.

        A request has become due, or a batch was given up, which may hold back others until ``resolve``.
        """
        has_news, self._has_news = self._has_news, False
        return has_news

    def node_for(self, request: TransactionRequest) -> Node | None:
        """Which broker it goes to; None: any."""
        with self._lock:
            return self._calls.node_for(request)

    def handle(self, request: TransactionRequest, response: ClientResponse, now_ms: int) -> None:
        """A request has ended."""
        with self._lock:
            self._dialogue.handle(request, response, now_ms)

    def unreachable(self, request: TransactionRequest, now_ms: int) -> None:
        """The request could not be sent: no connection to its broker. It will come again."""
        with self._lock:
            self._calls.landed()
            self._dialogue.try_again(request, now_ms)

    def internal_error(self, bug: Exception) -> None:
        """Our own code failed on the I/O thread: what is known of the transaction may be wrong. Fatal.

        Source: KAFKA-14831 (``TransactionManager.shouldPoisonStateOnInvalidTransition``).
        """
        error = KafkaError(f"internal error: {bug!r}")
        error.__cause__ = bug
        with self._lock:
            self._life.fail_for_good(error)
        self._has_news = True

    def give_up(self) -> GivenUp | None:
        """What is to happen now to batches that wait in the queues; None: they may wait on."""
        if self._life.may_wait:
            return None
        with self._lock:
            return self._life.give_up()

    # -- I/O thread: batches ---------------------------------------------------------------------------

    def resolve(self) -> list[SequencedBatch]:
        """Each round of the loop, before batches are drained: batches that must be failed as UNKNOWN."""
        return self._sequences.resolve() if self._sequences.has_gaps else []

    def note_topic_ids(self, topic_ids: Mapping[str, Any]) -> None:
        """What metadata knows now: leaders of a recreated topic do not know the producer."""
        self._sequences.note_topic_ids(topic_ids)

    def may_drain(self, batch: SequencedBatch, now_ms: int) -> bool:
        """Whether the first batch in a partition's queue may be sent now."""
        life = self._life
        if life.transactional_id is not None:
            transaction = life.transaction
            if transaction is None or life.state not in _SENDING:
                return False
            if batch.base_sequence == NO_SEQUENCE and life.state in (_S.ABORTABLE_ERROR, _S.ABORTING):
                return False
            if transaction.version < 2 and batch.topic_partition not in transaction.partitions:
                self._announce(batch.topic_partition)
                return False
        elif life.state is _S.FATAL_ERROR:
            return False
        return self._sequences.may_drain(batch, now_ms)

    def _announce(self, topic_partition: TopicPartition) -> None:
        """Have a partition added to the transaction: its first batch waits."""
        with self._lock:
            transaction = self._life.transaction
            if transaction is None or self._life.state not in (_S.IN_TRANSACTION, _S.COMMITTING):
                return
            if topic_partition in transaction.new_partitions:
                return
            transaction.new_partitions.add(topic_partition)
        # No wakeup: a partition's lock is held here, and the loop asks.
        self._has_news = True

    def drained(self, batch: SequencedBatch) -> None:
        """It goes into a request now: gets its number, if it has none yet."""
        self._sequences.drained(batch)
        transaction = self._life.transaction
        if transaction is not None:
            transaction.may_have_started = True

    def succeeded(self, batch: SequencedBatch, now_ms: int) -> None:
        """A broker has it; also when its records were given up before."""
        self._sequences.succeeded(batch, now_ms)

    def verdict(self, batch: SequencedBatch, end: AttemptEnd, error: KafkaError) -> Verdict:
        """What to do after a failed attempt. After FAIL, or limits, ``failed`` has to follow."""
        verdict = self._sequences.verdict(batch, end, error.retriable)
        is_ending = self._life.state in (_S.ABORTABLE_ERROR, _S.ABORTING) and self.uses_version_2
        if verdict is Verdict.RETRY and (is_ending or self._life.state is _S.FATAL_ERROR):
            # The next epoch refuses what may still be under way; protocol 1 has to find out.
            return Verdict.FAIL
        return verdict

    def failed(self, batch: SequencedBatch, error: KafkaError, outcome: Outcome | None) -> None:
        """It is given up, and no request carries it any more; also when its records were given up before."""
        self._sequences.failed(batch, outcome)
        self._fail_transaction(error)
        self._has_news = True

    def expired(self, batch: SequencedBatch, error: KafkaError, outcome: Outcome | None) -> None:
        """Its time is over, whether it waits to be sent or for an answer."""
        self._sequences.expired(batch, outcome)
        self._fail_transaction(error)
        self._has_news = True

    def split(self, batch: SequencedBatch, parts: Sequence[SequencedBatch]) -> None:
        """Its records go out in parts, which take its place and its numbers."""
        self._sequences.split(batch, parts)

    def _fail_transaction(self, error: KafkaError) -> None:
        if self._life.transactional_id is None:
            return
        with self._lock:
            if isinstance(error, BrokerError) and error.code in FATAL_PRODUCE_CODES:
                self._life.fail_for_good(error)
            elif self._life.state in (_S.IN_TRANSACTION, _S.COMMITTING):
                self._life.fail_transaction(error)
            elif self._life.transaction is not None:
                # An abort is under way. What was lost track of must not turn up in the next transaction.
                self._life.transaction.must_raise_epoch = True

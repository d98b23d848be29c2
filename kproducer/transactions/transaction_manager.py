"""TransactionManager: idempotence and transactions of one producer, as other packages see them.

Application threads begin, commit and abort, and wait for a ``PendingOperation``. The I/O thread sends the
requests to coordinators (through a ``CoordinatorLink``), and asks about each batch before it is sent and
after each attempt. Errors are of three kinds: those that are retried here and never reported; those after
which the transaction has to be aborted (``AbortTransactionError``); those that end the producer
(``FatalProducerError``).

Locks: ``_lock`` guards the lifecycle, the protocol and its request queue. The sequence numbers belong to the
I/O thread and need no lock. ``_lock`` is taken while a partition's lock is held (``may_drain``), so nothing
that runs under it may take a partition's lock. Methods that read a state without it do a single read.

Source: KIP-98, KIP-360, KIP-447, KIP-588, KIP-890; Kafka's ``TransactionManager``. docs/transactions.md lists
the differences. The file holds the whole interface of the package to the rest, hence its length.
"""

from __future__ import annotations

import random as random_module
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kproducer.errors import (
    BrokerError,
    IllegalStateError,
    KafkaError,
    Outcome,
    ProducerClosedError,
)
from kproducer.runtime.clock import ExponentialBackoff
from kproducer.transactions.coordinator_link import Addressed, CoordinatorRequestQueue, KnownCoordinators
from kproducer.transactions.coordinator_requests import FATAL_PRODUCE_CODES, CoordinatorRequest
from kproducer.transactions.delivery_knowledge import AttemptEnd
from kproducer.transactions.partition_sequences import NO_SEQUENCE, ProducerIdAndEpoch, SequencedBatch
from kproducer.transactions.sequence_tracker import Verdict
from kproducer.transactions.transaction_arguments import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    PreparedTransaction,
    checked_group,
    checked_offsets,
)
from kproducer.transactions.transaction_lifecycle import GivenUp, TransactionLifecycle
from kproducer.transactions.transaction_protocol import TransactionProtocol
from kproducer.transactions.transaction_state import (
    OffsetsTask,
    OpenTransaction,
    PendingOperation,
    TransactionState,
)
from kproducer.types import TopicPartition

if TYPE_CHECKING:
    from kproducer.client.client_request import ClientResponse

_S = TransactionState
#: States in which batches of the transaction may be sent; in the last two only batches that were sent before.
_SENDING = frozenset({_S.IN_TRANSACTION, _S.COMMITTING, _S.ABORTABLE_ERROR, _S.ABORTING})

#: States in which queued batches stay queued, unless an initialization was refused.
_QUEUES_WAIT = frozenset(_S) - {_S.ABORTABLE_ERROR, _S.ABORTING, _S.FATAL_ERROR}


class TransactionManager:
    """Idempotence, and with a transactional id transactions. Also a ``CoordinatorTask``.

    Each section says which threads may call its methods.

    Args:
        transactional_id: ``None``: idempotent only.
        transaction_timeout_ms: after which the coordinator aborts an open transaction.
        retry_backoff_ms, retry_backoff_max_ms: pauses between attempts to reach a coordinator.
        transaction_version: called when a transaction begins: 2 where all brokers have KIP-890, else 1.
        random: for the jitter of pauses; tests pass a seeded one.
        known: which brokers coordinate; may be shared by managers whose requests one thread sends.
    """

    def __init__(
        self,
        transactional_id: str | None,
        transaction_timeout_ms: int = 60_000,
        retry_backoff_ms: int = 100,
        retry_backoff_max_ms: int = 1000,
        transaction_version: Callable[[], int] = lambda: 1,
        random: random_module.Random | None = None,
        known: KnownCoordinators | None = None,
    ) -> None:
        self._transaction_version = transaction_version
        self._wakeup: Callable[[], None] = lambda: None
        self._has_incomplete: Callable[[], bool] = lambda: False
        self._has_news = False  # I/O thread only
        self._lock = threading.RLock()
        self._life = TransactionLifecycle(transactional_id)
        backoff = ExponentialBackoff(retry_backoff_ms, retry_backoff_max_ms, random)
        self._queue = CoordinatorRequestQueue(backoff, known)
        self._protocol = TransactionProtocol(self._life, self._queue, transaction_timeout_ms)
        self._sequences = self._life.sequences

    def connect(self, wakeup: Callable[[], None], has_incomplete: Callable[[], bool]) -> None:
        """Connect the manager with the sender and the accumulator; before the first use.

        Args:
            wakeup: called when the I/O thread has something new to do.
            has_incomplete: whether the accumulator has batches that are not done. Called under the manager's
                lock, and may take no lock.
        """
        self._wakeup = wakeup
        self._has_incomplete = has_incomplete

    def set_gate(self, gate: Callable[[bool], None]) -> None:
        """Have ``gate`` told when records may be sent without ``check_send``; before the first use.

        It is called under the manager's lock, and must not call back.
        """
        self._life.gate = gate

    # -- any thread: reading ---------------------------------------------------------------------------

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
        """What the coordinator has assigned last."""
        return self._sequences.producer

    @property
    def transactional_id(self) -> str | None:
        """The present transactional id."""
        return self._life.transactional_id

    @property
    def waits_for(self) -> str:
        """The request to a coordinator that is under way and its last failure, for error messages."""
        with self._lock:
            return str(self._queue)

    @property
    def uses_version_2(self) -> bool:
        """Whether the open transaction has version 2 (KIP-890), which needs Produce version 12 or later."""
        transaction = self._life.transaction
        return transaction is not None and transaction.version >= 2

    @property
    def is_ending(self) -> bool:
        """Whether a transaction is being committed or aborted."""
        return self._life.state in (_S.COMMITTING, _S.ABORTING)

    # -- application threads ---------------------------------------------------------------------------

    def begin_initialize(self) -> PendingOperation:
        """Get a producer id and epoch; fences earlier producers and ends the transaction they left open.

        Raises:
            IllegalStateError: no transactional id, or initialized before.
            FatalProducerError: the producer has failed.
        """
        return self._begin("init_transactions", {_S.UNINITIALIZED}, _S.INITIALIZING, "it was called before")

    def begin_transaction(self) -> None:
        """Begin a transaction; no request is sent. Raises as ``begin_initialize``."""
        with self._lock:
            life = self._life
            self._check_transactional("begin_transaction")
            life.start("begin_transaction")
            if life.state is not _S.READY:
                life.refuse_call(
                    "begin_transaction", "call init_transactions once, then end each transaction"
                )
            life.operation = None
            # Before the state changes: from then on records come.
            life.transaction = OpenTransaction(2 if self._transaction_version() >= 2 else 1)
            life.move_to(_S.IN_TRANSACTION)

    def begin_commit(self) -> PendingOperation:
        """Commit once everything is written; also a transaction that was handed over or taken over.

        Raises:
            AbortTransactionError: the transaction can only be aborted.
            FatalProducerError, IllegalStateError: as ``begin_initialize``.
        """
        allowed = {_S.IN_TRANSACTION, _S.PREPARED}
        return self._begin("commit_transaction", allowed, _S.COMMITTING, "begin a transaction first")

    def begin_abort(self) -> PendingOperation:
        """Abort; batches that were not sent yet are failed. Raises as ``begin_commit``."""
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
        """Called before a record is appended. Raises as ``begin_commit`` where records are not accepted."""
        life = self._life
        # Without the lock: each is a single read, and a change just after it could as well come after the
        # append.
        if life.state is _S.IN_TRANSACTION:
            return
        if life.transactional_id is None and life.state is not _S.FATAL_ERROR:
            return
        with self._lock:
            if self.state is not _S.IN_TRANSACTION:
                life.refuse_call("send", "begin a transaction first")

    def send_failed(self, error: KafkaError) -> None:
        """``send`` raised: the transaction must not be committed without that record."""
        with self._lock:
            if self._life.state is _S.IN_TRANSACTION:
                self._life.fail_transaction(error)

    def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> PendingOperation:
        """Make offsets of a group part of the transaction.

        Raises:
            InvalidArgumentError: offsets or group cannot be sent. Others as ``begin_commit``.
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

    def prepare(self) -> PreparedTransaction:
        """Hand the transaction over. Flush first; no more records are accepted.

        Raises:
            IllegalStateError: some records or offsets are not written yet. Others as ``begin_commit``.
        """
        with self._lock:
            self._check_transactional("prepare")
            return self._life.hand_over(self._has_incomplete())

    def change_transactional_id(self, transactional_id: str) -> None:
        """Become uninitialized under another transactional id, and forget everything about the present one.

        Allowed while this producer has no transaction to end. No request is in flight then, because every
        transition into these states processes the response to the last request.

        Raises:
            IllegalStateError: a transaction is open, or an operation is not done. Others as ``begin_commit``.
        """
        with self._lock:
            self._check_transactional("change_transactional_id")
            if self._queue.in_flight is not None and self._life.state is not _S.FATAL_ERROR:
                # Its response would be taken for one to the new id.
                raise IllegalStateError(
                    f"change_transactional_id: {self._queue.in_flight} has not been answered yet"
                )
            self._life.change_transactional_id(transactional_id)
            self._queue.start_over()

    def take_over(self, prepared: PreparedTransaction) -> None:
        """Make another process's transaction one that this producer can end, instead of initializing.

        Raises:
            InvalidArgumentError: not a transaction of this transactional id.
            IllegalStateError: the producer was initialized, or is ending another transaction.
        """
        with self._lock:
            self._life.take_over(prepared)

    def _begin(
        self, name: str, allowed: set[TransactionState], target: TransactionState, remedy: str
    ) -> PendingOperation:
        with self._lock:
            life = self._life
            self._check_transactional(name)
            earlier = life.start(name)
            if earlier is not None:
                return earlier
            if life.state not in allowed:
                life.refuse_call(name, remedy)
            operation = life.operation = PendingOperation(name)
            life.move_to(target)
        self._wakeup()
        return operation

    def _check_transactional(self, name: str) -> None:
        if self._life.transactional_id is None:
            raise IllegalStateError(f"{name}: the producer has no transactional_id")

    # -- I/O thread: life cycle ------------------------------------------------------------------------

    def begin_close(self) -> None:
        """The producer is about to be closed: abort an open transaction, unless it was handed over."""
        with self._lock:
            if self._life.state in (_S.IN_TRANSACTION, _S.ABORTABLE_ERROR):
                self._life.operation = None
                self.begin_abort()

    def close(self, error: KafkaError | None = None) -> None:
        """The producer is closed: fail everything that callers wait for."""
        with self._lock:
            self._life.abandon(error or ProducerClosedError("the producer was closed"))

    def internal_error(self, bug: Exception) -> None:
        """Our own code has failed on the I/O thread. Fatal: the known state may be wrong.

        Source: KAFKA-14831 (``TransactionManager.shouldPoisonStateOnInvalidTransition``).
        """
        error = KafkaError(f"internal error: {bug!r}")
        error.__cause__ = bug
        with self._lock:
            self._life.fail_for_good(error)
        self._has_news = True

    def take_news(self) -> bool:
        """Whether the next round of the loop has to come at once, since the last call.

        A request has become due, or a batch was given up, which may hold back others until ``resolve``.
        """
        has_news, self._has_news = self._has_news, False
        return has_news

    # -- I/O thread: requests (CoordinatorTask) --------------------------------------------------------

    @property
    def has_ended(self) -> bool:
        """Whether no caller waits for a request."""
        operation, transaction = self._life.operation, self._life.transaction
        return (operation is None or operation.has_ended) and not (transaction and transaction.offsets)

    def next_requests(self, now_ms: int) -> Sequence[Addressed]:
        """The request to send now, if any. It ends in ``handle`` or ``unreachable``."""
        if self._needs_no_request:
            return ()
        with self._lock:
            if self._queue.in_flight is not None:
                return ()
            # Under the lock: another thread may send a record and commit between the two.
            wanted = self._protocol.wanted(self._has_incomplete())
            addressed = self._queue.next_request(wanted, now_ms)
        return () if addressed is None else (addressed,)

    @property
    def _needs_no_request(self) -> bool:
        """The usual state of a producer that is idempotent only.

        Read without the lock: without a transactional id only the I/O thread changes any of this.
        """
        life = self._life
        return (
            life.transactional_id is None
            and life.state is _S.READY
            and not self._sequences.needs_new_id
            and self._queue.in_flight is None
        )

    def delay_ms(self, now_ms: int) -> int:
        """Until the request that ``next_requests`` held back is due. Without the lock: I/O thread only."""
        return max(0, self._queue.held_back_until_ms - now_ms)

    def handle(self, request: CoordinatorRequest, response: ClientResponse, now_ms: int) -> None:
        """A request has ended, with or without a response."""
        with self._lock:
            self._protocol.handle(request, response, now_ms)

    def unreachable(self, request: CoordinatorRequest, now_ms: int) -> None:
        """The request was not sent, because its broker could not be connected to."""
        with self._lock:
            self._protocol.unreachable(request, now_ms)

    # -- I/O thread: batches ---------------------------------------------------------------------------

    def give_up(self) -> GivenUp | None:
        """Which queued batches have to be failed now; ``None``: none."""
        # Without the lock in the usual case: each is a single read, and the next round looks again.
        if self._life.state in _QUEUES_WAIT and self._life.cause is None:
            return None
        with self._lock:
            return self._life.give_up()

    def resolve(self) -> list[SequencedBatch]:
        """Batches that have to be failed as UNKNOWN; called in each round, before batches are drained."""
        return self._sequences.resolve() if self._sequences.has_gaps else []

    def note_topic_ids(self, topic_ids: Mapping[str, Any]) -> None:
        """The topic ids in the newest metadata: leaders of a recreated topic do not know the producer."""
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
        """Have a partition added to the transaction, which its first batch waits for."""
        with self._lock:
            transaction = self._life.transaction
            if transaction is None or self._life.state not in (_S.IN_TRANSACTION, _S.COMMITTING):
                return
            if topic_partition in transaction.new_partitions:
                return
            transaction.new_partitions.add(topic_partition)
        # Not ``_wakeup``: a partition's lock is held here. The loop calls ``take_news``.
        self._has_news = True

    def drained(self, batch: SequencedBatch) -> None:
        """The batch goes into a request now: number it, if it has no number yet."""
        self._sequences.drained(batch)
        transaction = self._life.transaction
        if transaction is not None:
            transaction.may_have_started = True

    def succeeded(self, batch: SequencedBatch, now_ms: int) -> None:
        """A broker has acknowledged the batch, even if its records were given up before."""
        self._sequences.succeeded(batch, now_ms)

    def verdict(self, batch: SequencedBatch, end: AttemptEnd, error: KafkaError) -> Verdict:
        """What to do after a failed attempt. If the batch is given up, ``failed`` has to follow."""
        verdict = self._sequences.verdict(batch, end, error.retriable)
        is_aborting = self._life.state in (_S.ABORTABLE_ERROR, _S.ABORTING) and self.uses_version_2
        if verdict is Verdict.RETRY and (is_aborting or self._life.state is _S.FATAL_ERROR):
            # In version 2, the next epoch fences requests that are still on their way. In version 1, the
            # outcome of each batch has to be found out.
            return Verdict.FAIL
        return verdict

    def failed(self, batch: SequencedBatch, error: KafkaError, outcome: Outcome | None) -> None:
        """The batch is given up and no longer in flight, even if its records were given up before."""
        self._sequences.failed(batch, outcome)
        self._fail_transaction(error)

    def expired(self, batch: SequencedBatch, error: KafkaError, outcome: Outcome | None) -> None:
        """``delivery_timeout_ms`` is over for the batch, queued or in flight."""
        self._sequences.expired(batch, outcome)
        self._fail_transaction(error)

    def split(self, batch: SequencedBatch, parts: Sequence[SequencedBatch]) -> None:
        """The batch is replaced by parts, which share its numbers."""
        self._sequences.split(batch, parts)

    def _fail_transaction(self, error: KafkaError) -> None:
        self._has_news = True
        if self._life.transactional_id is None:
            return
        with self._lock:
            if isinstance(error, BrokerError) and error.code in FATAL_PRODUCE_CODES:
                self._life.fail_for_good(error)
            elif self._life.state in (_S.IN_TRANSACTION, _S.COMMITTING):
                self._life.fail_transaction(error)
            elif self._life.transaction is not None:
                # It is being aborted. The next transaction must not receive a batch of this one.
                self._life.transaction.must_raise_epoch = True

"""TransactionManager: idempotence and transactions of one producer, as sender and accumulator see them.

It is asked about each batch before it is sent and after each attempt. Its parts are public: application
threads call the ``TransactionStateMachine``; a ``CoordinatorLink`` sends the requests of the
``TransactionProtocol``; the ``SequenceTracker`` numbers the batches.

Everything here runs on the I/O thread, partly with a partition's lock held; in a session, on the caller's
thread. The sequence numbers belong to that thread and need no lock.
Source: KIP-98, KIP-360, KIP-447, KIP-588, KIP-890; Kafka's ``TransactionManager``.
docs/internals/transactions.md lists the differences.
"""

from __future__ import annotations

import random as random_module
from typing import Final

from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.transactions.coordinator_link import CoordinatorCache
from kproducer._core.transactions.coordinator_requests import FATAL_PRODUCE_CODES
from kproducer._core.transactions.partition_sequences import NO_SEQUENCE, SequencedBatch
from kproducer._core.transactions.transaction_protocol import TransactionProtocol
from kproducer._core.transactions.transaction_state import TransactionState
from kproducer._core.transactions.transaction_state_machine import ProducerHooks, TransactionStateMachine
from kproducer.errors import BrokerError, KafkaError, Outcome
from kproducer.types import TopicPartition

# Tuples, because hashing a member of an enum runs Python code.
#: States in which batches of the transaction may be sent.
_SENDING: Final = (TransactionState.IN_TRANSACTION, TransactionState.COMMITTING)
#: States in which only batches may be sent that were sent before.
_FAILED: Final = (TransactionState.ABORTABLE_ERROR, TransactionState.ABORTING)
_FATAL: Final = TransactionState.FATAL_ERROR


class TransactionManager:
    """Idempotence, and with a transactional id transactions.

    Args:
        transactional_id: ``None``: idempotent only.
        config: timeouts and backoffs, and whether to ask for transactions that do not time out (KIP-939).
        hooks: of the state machine.
        known: which brokers coordinate; may be shared by managers whose requests one thread sends.
        random: source of the backoff jitter.

    Attributes:
        state_machine, protocol, sequences: the parts.
        needs_another_round: whether the next round of the loop has to come at once: a request has become due,
            or a batch was given up, which may hold back others until ``sequences.resolve``. The sender resets
            it.
    """

    def __init__(
        self,
        transactional_id: str | None,
        config: ProducerConfig,
        hooks: ProducerHooks = ProducerHooks(),  # noqa: B008
        known: CoordinatorCache | None = None,
        random: random_module.Random | None = None,
    ) -> None:
        self.state_machine = self._life = TransactionStateMachine(transactional_id, hooks)
        self.sequences = self._life.sequences
        self.protocol = TransactionProtocol(
            self._life, config, CoordinatorCache() if known is None else known, random
        )
        self.needs_another_round = False

    def may_drain(self, batch: SequencedBatch, now_ms: int) -> bool:
        """Whether the first batch in a partition's queue may be sent now."""
        life = self._life
        state = life.state
        if life.transactional_id is not None:
            transaction = life.transaction
            if transaction is None:
                return False
            if state not in _SENDING and (state not in _FAILED or batch.base_sequence == NO_SEQUENCE):
                return False
            if transaction.version < 2 and batch.topic_partition not in transaction.partitions:
                self.announce(batch.topic_partition)
                return False
        elif state is _FATAL:
            return False
        return self.sequences.may_drain(batch, now_ms)

    def announce(self, topic_partition: TopicPartition) -> None:
        """Have a partition added to the transaction, which its first batch waits for (version 1)."""
        transaction = self._life.transaction
        if transaction is None or transaction.version >= 2 or topic_partition in transaction.partitions:
            return
        with self._life.lock:
            transaction = self._life.transaction
            if transaction is None or self._life.state not in _SENDING:
                return
            if topic_partition in transaction.new_partitions:
                return
            transaction.new_partitions.add(topic_partition)
        # Not ``wakeup``, because a partition's lock is held here. The I/O loop reads this flag before it
        # polls.
        self.needs_another_round = True

    def drained(self, batch: SequencedBatch) -> None:
        """The batch goes into a request now: number it, if it has no number yet."""
        self.sequences.drained(batch)
        transaction = self._life.transaction
        if transaction is not None:
            transaction.may_have_started = True

    def failed(self, batch: SequencedBatch, error: KafkaError, outcome: Outcome | None) -> None:
        """The batch is given up. Called again when the request of such a batch ends."""
        self.sequences.failed(batch, outcome)
        self.needs_another_round = True
        if self._life.transactional_id is None:
            return
        with self._life.lock:
            if isinstance(error, BrokerError) and error.code in FATAL_PRODUCE_CODES:
                self._life.fail_for_good(error)
            elif self._life.state in _SENDING:
                self._life.fail_transaction(error)
            elif self._life.transaction is not None:
                # The transaction is being aborted. The next one must not receive a batch of this one.
                self._life.transaction.must_raise_epoch = True

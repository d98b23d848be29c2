"""TransactionalCalls: the transactional methods of ``KafkaProducer``; see ``engine.transaction_calls``."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import attrs

from kproducer.engine.transaction_calls import TransactionCalls, transaction_block
from kproducer.sending.producer_lifecycle import ProducerLifecycle

if TYPE_CHECKING:
    from kproducer.transactions.transaction_arguments import (
        ConsumerGroupMetadata,
        OffsetAndMetadata,
        PreparedTransaction,
    )
    from kproducer.types import TopicPartition


class TransactionalCalls(ProducerLifecycle):
    """Base of ``KafkaProducer``. ``timeout`` is in seconds; ``None`` means ``max_block_ms``.

    A call that times out continues in the background, and the same call made again waits for it. Calls that
    wait for the I/O thread raise IllegalStateError in delivery callbacks, which run on that thread, and in
    signal handlers that interrupt ``send``. A refused call, and one with a wrong argument, starts nothing.
    """

    def init_transactions(self, timeout: float | None = None) -> None:
        """Get a producer id and epoch, which fences earlier producers with this transactional id.

        Call it once, before the first transaction. A transaction that an earlier producer left open is ended.

        Args:
            timeout: seconds; ``None``: ``max_block_ms``.

        Raises:
            KafkaTimeoutError: no coordinator answered in time.
            AuthorizationError: a permission is missing; may be called again once it is granted.
            FatalProducerError: the brokers have no transactions, or refuse these settings.
            IllegalStateError: there is no ``transactional_id``, or the producer is initialized already.
        """
        self._transaction_calls().init_transactions(timeout)

    def change_transactional_id(self, transactional_id: str) -> None:
        """Continue under another transactional id, or start over with the same; then ``init_transactions``.

        Connections, metadata and the I/O thread stay. Allowed while no transaction is open here: before
        ``init_transactions``, between transactions, and after ``prepare``, whose result stays valid.

        Raises:
            InvalidArgumentError: the id is not a string, is empty, or is longer than 32767 bytes.
            IllegalStateError: a transaction is open, or a call that timed out continues; nothing has changed.
            AbortTransactionError: a transaction has to be aborted first.
            FatalProducerError: the producer has failed; close it.
        """
        calls = self._transaction_calls()
        calls.change_transactional_id(transactional_id)
        # Not around the call: begin_transaction takes the two locks in the other order.
        with self._lifecycle_lock:
            # For the engine that a forked child makes. Read again: another thread may have changed it since.
            self._config = attrs.evolve(self._config, transactional_id=calls.transactional_id)

    def begin_transaction(self) -> None:
        """Begin a transaction. Every record sent until it ends belongs to it.

        Raises:
            IllegalStateError: the last transaction has not ended, or ``init_transactions`` was not called.
            AbortTransactionError: the last transaction has to be aborted first.
            FatalProducerError: the producer has failed; close it.
        """
        self._transaction_calls().begin_transaction()

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group_metadata: ConsumerGroupMetadata,
        timeout: float | None = None,
    ) -> None:
        """Make consumer group offsets part of the transaction: they are committed with it.

        Args:
            offsets: for each partition the offset of the next record to read.
            group_metadata: the group, and the member that read the records.
            timeout: seconds; ``None``: ``max_block_ms``.

        Raises:
            InvalidArgumentError: offsets or group cannot be sent; the transaction continues without them.
            AbortTransactionError: the group coordinator refused them; abort the transaction.
            KafkaTimeoutError: not done in time; calling it again adds the offsets again, which is harmless.
            FatalProducerError, IllegalStateError: as ``begin_transaction``.
        """
        self._transaction_calls().send_offsets_to_transaction(offsets, group_metadata, timeout)

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Deliver what was sent, then commit.

        Args:
            timeout: seconds; ``None``: ``max_block_ms``.

        Raises:
            AbortTransactionError: a record or an offset could not be written; nothing of it will be read.
            KafkaTimeoutError: the outcome is not known yet; call it again. It can no longer be aborted.
            FatalProducerError: the producer has failed; close it.
            IllegalStateError: there is no open transaction.
        """
        self._transaction_calls().commit_transaction(timeout)

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Drop the records that were not sent yet, and abort: consumers skip those that were.

        Args:
            timeout: seconds; ``None``: ``max_block_ms``.

        Raises:
            KafkaTimeoutError, FatalProducerError, IllegalStateError: as ``commit_transaction``.
        """
        self._transaction_calls().abort_transaction(timeout)

    def transaction(self) -> AbstractContextManager[None]:
        """Begin a transaction for a ``with`` block: commit at its end, abort if it raises or cannot commit.

        Raises the error that caused the abort; if the abort itself fails, the log has a warning. After a
        KafkaTimeoutError of the commit nothing is aborted: the commit continues, and ``commit_transaction``
        waits for it.
        """
        return transaction_block(self._transaction_calls)

    def prepare(self, timeout: float | None = None) -> PreparedTransaction:
        """Deliver what was sent and hand the transaction over: the result lets another process end it.

        No transaction can be begun here until this one has ended, by ``commit_transaction`` or
        ``abort_transaction``. If another process ends it, close this producer or change its transactional id.

        Args:
            timeout: seconds; ``None``: ``max_block_ms``.

        Raises:
            KafkaTimeoutError: not everything was delivered in time; the transaction stays open.
            AbortTransactionError, FatalProducerError, IllegalStateError: as ``commit_transaction``.
        """
        return self._transaction_calls().prepare(timeout)

    def commit_prepared(self, prepared: PreparedTransaction, timeout: float | None = None) -> None:
        """Commit the transaction of another process, which has prepared it. May safely be repeated.

        The producer must have the same transactional id and must not be initialized.

        Args:
            prepared: what ``prepare`` returned there.
            timeout: seconds; ``None``: ``max_block_ms``.

        Raises:
            InvalidArgumentError: ``prepared`` is not what ``prepare`` returned for this transactional id.
            TransactionAbortedError: it was aborted.
            FencedError: its epoch is no longer valid: it timed out, or a newer producer has the transactional
                id. In the second case it may have been committed before.
            KafkaTimeoutError, FatalProducerError, IllegalStateError: as ``commit_transaction``.
        """
        self._transaction_calls().commit_prepared(prepared, timeout)

    def abort_prepared(self, prepared: PreparedTransaction, timeout: float | None = None) -> None:
        """Abort the transaction of another process; see ``commit_prepared``.

        Raises:
            IllegalStateError: it was committed, or as ``commit_prepared``.
            FencedError, InvalidArgumentError, KafkaTimeoutError, FatalProducerError: as ``commit_prepared``.
        """
        self._transaction_calls().abort_prepared(prepared, timeout)

    def _transaction_calls(self) -> TransactionCalls:
        return self._engine_on_first_use().transaction_calls

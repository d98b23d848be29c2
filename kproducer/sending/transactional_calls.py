"""TransactionalCalls: the part of ``KafkaProducer`` that has to do with transactions.

Begins steps of the transaction manager and waits for them. Errors are of three kinds: those tried again by us
are never seen; ``AbortTransactionError``: abort, then begin another transaction; ``FatalProducerError`` (a
kind of it: ``FencedError``): close the producer. Source: KIP-98, KIP-447; Kafka class ``KafkaProducer``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import attrs

from kproducer.errors import (
    FatalProducerError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    ProducerClosedError,
)
from kproducer.runtime.arguments import checked_text, checked_timeout_s
from kproducer.runtime.guarded_logger import GuardedLogger
from kproducer.sending.producer_lifecycle import ProducerLifecycle, refuse_in_the_middle_of_send
from kproducer.transactions.consumer_offsets import ConsumerGroupMetadata, OffsetAndMetadata
from kproducer.transactions.open_transaction import PreparedTransaction
from kproducer.transactions.transaction_state import PendingOperation

if TYPE_CHECKING:
    from kproducer.engine.producer_engine import ProducerEngine
    from kproducer.transactions.transaction_manager import TransactionManager
    from kproducer.types import TopicPartition

_log = GuardedLogger(__name__)


class TransactionalCalls(ProducerLifecycle):
    """Mixed into ``KafkaProducer``. ``timeout`` is in seconds; ``None``: ``max_block_ms``.

    A call that ran into its timeout goes on in the background; the same call again waits for it. Calls that
    wait for the I/O thread are refused with IllegalStateError in delivery callbacks, which run on it, and in
    signal handlers that interrupt ``send``. A call that is refused, or has a wrong argument, starts nothing.
    """

    def init_transactions(self, timeout: float | None = None) -> None:
        """Get a producer id; ends what an earlier producer with this transactional id has left open.

        Raises:
            KafkaTimeoutError: no coordinator answered in time.
            AuthorizationError: not allowed; may be called again once it is.
            FatalProducerError: the brokers have no transactions, or not with these settings.
            IllegalStateError: there is no ``transactional_id``, or it was called before.
        """
        engine, manager, timeout_s = self._waiting("init_transactions", timeout)
        self._wait(engine, manager, manager.begin_initialize(), timeout_s)

    def change_transactional_id(self, transactional_id: str) -> None:
        """Go on under another transactional id, or anew under the same; ``init_transactions`` has to follow.

        Connections, metadata and the I/O thread stay. Allowed while no transaction is open here: before
        ``init_transactions``, between transactions, and after ``prepare``, whose result stays good.

        Raises:
            InvalidArgumentError: the id is no text, empty, or longer than 32767 bytes.
            IllegalStateError: a transaction is open, or a call that timed out goes on; nothing has changed.
            AbortTransactionError: a transaction has to be aborted first.
            FatalProducerError: the producer is of no use any more.
        """
        transactional_id = checked_text("transactional_id", transactional_id, shortest=1)
        manager = self._transactional("change_transactional_id")[1]
        manager.change_transactional_id(transactional_id)
        # Not around the call: a beginning transaction takes the two locks the other way round.
        with self._lifecycle_lock:
            # For the engine that a forked child makes. What the manager says now: another thread may have
            # changed it again.
            self._config = attrs.evolve(self._config, transactional_id=manager.transactional_id or "")

    def begin_transaction(self) -> None:
        """Begin a transaction; every record sent until its end belongs to it.

        Raises:
            IllegalStateError: the last one has not ended, or ``init_transactions`` was not called.
            AbortTransactionError, FatalProducerError: as the module says.
        """
        self._transactional("begin_transaction")[1].begin_transaction()

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group_metadata: ConsumerGroupMetadata,
        timeout: float | None = None,
    ) -> None:
        """Make positions of a consumer group part of the transaction: they count when it is committed.

        Raises:
            InvalidArgumentError: offsets or group cannot be sent; the transaction goes on without them.
            KafkaTimeoutError, IllegalStateError, AbortTransactionError, FatalProducerError: as others here.
        """
        engine, manager, timeout_s = self._waiting("send_offsets_to_transaction", timeout)
        operation = manager.send_offsets(offsets, group_metadata)
        self._wait(engine, manager, operation, timeout_s)

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Write what was sent, then commit.

        Raises:
            AbortTransactionError: a record or an offset could not be written; nothing of it will be read.
            KafkaTimeoutError: not known yet; call it again. An abort is not possible any more.
            FatalProducerError, IllegalStateError: as others here.
        """
        engine, manager, timeout_s = self._waiting("commit_transaction", timeout)
        self._commit(engine, manager, timeout_s)

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Give up what was not sent; nobody reads what was. Raises as ``commit_transaction``."""
        engine, manager, timeout_s = self._waiting("abort_transaction", timeout)
        self._wait(engine, manager, manager.begin_abort(), timeout_s)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin, and commit at the end of the block; abort when the block raises, or when the commit must.

        Raises the error that made it abort; if the abort does not succeed, a warning in the log says so.
        A KafkaTimeoutError of the commit aborts nothing: the commit goes on, and ``commit_transaction`` waits
        for it.
        """
        self._waiting("transaction", None)
        self.begin_transaction()
        try:
            yield
        except BaseException as error:
            self._abort_after(error)
            raise
        try:
            self.commit_transaction()
        except (FatalProducerError, KafkaTimeoutError):
            # Nothing can be aborted any more, or the commit goes on.
            raise
        except BaseException as error:
            self._abort_after(error)
            raise

    def prepare(self, timeout: float | None = None) -> PreparedTransaction:
        """Write what was sent and hand the transaction over, to be ended by whoever gets the result.

        Raises as ``commit_transaction``. No transaction can be begun here until this one has ended, by
        ``commit_transaction`` or ``abort_transaction``; or else in another process, and this producer closed.
        """
        engine, manager, timeout_s = self._waiting("prepare", timeout)
        self._flush(engine, timeout_s)
        return manager.prepare(engine.accumulator.incomplete_count > 0)

    def commit_prepared(self, prepared: PreparedTransaction, timeout: float | None = None) -> None:
        """Commit a transaction of another process, on a producer with its transactional id, not initialized.

        Harmless when it was committed before.

        Raises:
            InvalidArgumentError: ``prepared`` is not what ``prepare`` returned for this transactional id.
            TransactionAbortedError: it was aborted.
            FencedError: its epoch is gone: it ran out of time, or a newer producer has taken over. In the
                second case it may have been committed before.
            KafkaTimeoutError, FatalProducerError, IllegalStateError: as others here.
        """
        engine, manager, timeout_s = self._waiting("commit_prepared", timeout)
        manager.take_over(prepared)
        self._commit(engine, manager, timeout_s)

    def abort_prepared(self, prepared: PreparedTransaction, timeout: float | None = None) -> None:
        """As ``commit_prepared``, to abort it. IllegalStateError: it was committed."""
        engine, manager, timeout_s = self._waiting("abort_prepared", timeout)
        manager.take_over(prepared)
        self._wait(engine, manager, manager.begin_abort(), timeout_s)

    # -- waiting ---------------------------------------------------------------------------------------

    def _transactional(self, name: str) -> tuple[ProducerEngine, TransactionManager]:
        engine = self._engine_on_first_use()
        manager = engine.transactions
        if manager is None or not manager.is_transactional:
            raise IllegalStateError(f"{name}: set transactional_id to use transactions")
        return engine, manager

    def _waiting(self, name: str, timeout: float | None) -> tuple[ProducerEngine, TransactionManager, float]:
        """For calls that wait: whatever may refuse them is checked here, before they start anything.

        Returns the engine, the manager, and the timeout in seconds.
        """
        timeout_s = checked_timeout_s(name, timeout)
        engine, manager = self._transactional(name)
        if engine.is_io_thread:
            raise IllegalStateError(
                f"{name}() in a delivery callback would deadlock: it waits for the thread it runs on; "
                "call it where the sending ends"
            )
        refuse_in_the_middle_of_send(name, engine.accumulator)
        return engine, manager, self._config.max_block_ms / 1000 if timeout_s is None else timeout_s

    def _commit(self, engine: ProducerEngine, manager: TransactionManager, timeout_s: float) -> None:
        operation = manager.begin_commit()
        flush = object()
        try:
            engine.accumulator.begin_flush(flush)
            engine.wakeup()
            self._wait(engine, manager, operation, timeout_s)
        finally:
            engine.accumulator.end_flush(flush)

    def _abort_after(self, error: BaseException) -> None:
        """Abort without hiding the error that is the reason for it."""
        try:
            self.abort_transaction()
        except (FatalProducerError, IllegalStateError, ProducerClosedError):
            # The producer has failed or was closed, or the block has ended the transaction itself.
            pass
        except KafkaError as failure:
            _log.warning(
                "Producer %s: the transaction in which %s was raised is not aborted yet: %s",
                self._config.transactional_id,
                type(error).__name__,
                failure,
            )

    def _flush(self, engine: ProducerEngine, timeout_s: float) -> None:
        accumulator = engine.accumulator
        flush = object()
        try:
            accumulator.begin_flush(flush)
            engine.wakeup()
            is_complete = accumulator.await_completion(timeout_s * 1000)
        finally:
            accumulator.end_flush(flush)
        if not is_complete:
            raise KafkaTimeoutError(f"prepare: not everything was written within {timeout_s} s")

    def _wait(
        self,
        engine: ProducerEngine,
        manager: TransactionManager,
        operation: PendingOperation,
        timeout_s: float,
    ) -> None:
        if not operation.wait(timeout_s):
            causes = "; ".join(filter(None, (manager.waits_for, engine.last_errors())))
            raise KafkaTimeoutError(
                f"{operation.name}: not done within {timeout_s} s; it goes on, and another call waits for it"
                f"{f'; {causes}' if causes else ''}"
            )
        manager.acknowledge(operation)
        operation.raise_if_failed()

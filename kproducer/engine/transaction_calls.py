"""TransactionCalls: the transactional methods of ``KafkaProducer``, which start a step and wait for it.

The I/O thread performs the steps; these methods run on the caller's thread. Retriable errors are retried and
never reach the caller. ``AbortTransactionError`` means: abort, then begin another transaction.
``FatalProducerError`` (and its subclass ``FencedError``) means: close the producer.
Source: KIP-98, KIP-447; Kafka class ``KafkaProducer``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from kproducer.errors import (
    FatalProducerError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    ProducerClosedError,
)
from kproducer.runtime.arguments import checked_text, checked_timeout_s
from kproducer.runtime.guarded_logger import GuardedLogger

if TYPE_CHECKING:
    from kproducer.engine.producer_engine import ProducerEngine
    from kproducer.transactions.transaction_arguments import (
        ConsumerGroupMetadata,
        OffsetAndMetadata,
        PreparedTransaction,
    )
    from kproducer.transactions.transaction_manager import TransactionManager
    from kproducer.transactions.transaction_state import PendingOperation
    from kproducer.types import TopicPartition

_log = GuardedLogger(__name__)


class TransactionCalls:
    """The methods are named and documented in ``KafkaProducer``. Thread-safe.

    ``timeout`` is in seconds; ``None`` means ``max_block_ms``. A step whose call timed out continues in the
    background, and the same call made again waits for it. Arguments are checked before a step starts.

    Args:
        engine: the running producer.
    """

    def __init__(self, engine: ProducerEngine) -> None:
        self._engine = engine

    @property
    def transactional_id(self) -> str:
        """The present one; empty without transactions."""
        manager = self._engine.transactions
        return (manager.transactional_id if manager is not None else None) or ""

    def init_transactions(self, timeout: float | None) -> None:
        manager, timeout_s = self._check_may_wait("init_transactions", timeout)
        self._wait(manager, manager.begin_initialize(), timeout_s)

    def change_transactional_id(self, transactional_id: str) -> None:
        transactional_id = checked_text("transactional_id", transactional_id, shortest=1)
        self._manager("change_transactional_id").change_transactional_id(transactional_id)

    def begin_transaction(self) -> None:
        self._manager("begin_transaction").begin_transaction()

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group_metadata: ConsumerGroupMetadata,
        timeout: float | None,
    ) -> None:
        manager, timeout_s = self._check_may_wait("send_offsets_to_transaction", timeout)
        self._wait(manager, manager.send_offsets(offsets, group_metadata), timeout_s)

    def commit_transaction(self, timeout: float | None) -> None:
        manager, timeout_s = self._check_may_wait("commit_transaction", timeout)
        self._commit(manager, timeout_s)

    def abort_transaction(self, timeout: float | None) -> None:
        manager, timeout_s = self._check_may_wait("abort_transaction", timeout)
        self._wait(manager, manager.begin_abort(), timeout_s)

    def prepare(self, timeout: float | None) -> PreparedTransaction:
        manager, timeout_s = self._check_may_wait("prepare", timeout)
        accumulator = self._engine.accumulator
        with self._engine.flushing():
            is_complete = accumulator.await_completion(timeout_s * 1000)
        if not is_complete:
            raise KafkaTimeoutError(f"prepare: not everything was written within {timeout_s} s")
        return manager.prepare()

    def commit_prepared(self, prepared: PreparedTransaction, timeout: float | None) -> None:
        manager, timeout_s = self._check_may_wait("commit_prepared", timeout)
        manager.take_over(prepared)
        self._commit(manager, timeout_s)

    def abort_prepared(self, prepared: PreparedTransaction, timeout: float | None) -> None:
        manager, timeout_s = self._check_may_wait("abort_prepared", timeout)
        manager.take_over(prepared)
        self._wait(manager, manager.begin_abort(), timeout_s)

    # -- parts of calls --------------------------------------------------------------------------------

    def _manager(self, call: str) -> TransactionManager:
        manager = self._engine.transactions
        if manager is None or not manager.is_transactional:
            raise IllegalStateError(f"{call}: set transactional_id to use transactions")
        return manager

    def _check_may_wait(self, call: str, timeout: float | None) -> tuple[TransactionManager, float]:
        """Refuse a waiting call before it starts anything. Returns the manager and the timeout in seconds."""
        timeout_s = checked_timeout_s(call, timeout)
        manager = self._manager(call)
        self._engine.check_may_wait(call)
        return manager, self._engine.config.max_block_ms / 1000 if timeout_s is None else timeout_s

    def _commit(self, manager: TransactionManager, timeout_s: float) -> None:
        operation = manager.begin_commit()
        with self._engine.flushing():
            self._wait(manager, operation, timeout_s)

    def _wait(self, manager: TransactionManager, operation: PendingOperation, timeout_s: float) -> None:
        if not operation.wait(timeout_s):
            causes = "; ".join(filter(None, (manager.waits_for, self._engine.last_errors())))
            raise KafkaTimeoutError(
                f"{operation.name}: not done within {timeout_s} s; it continues in the background, and "
                f"{operation.name} called again waits for it{f'; {causes}' if causes else ''}"
            )
        manager.acknowledge(operation)
        operation.raise_if_failed()


@contextlib.contextmanager
def transaction_block(calls: Callable[[], TransactionCalls]) -> Iterator[None]:
    """The context manager of ``KafkaProducer.transaction``.

    Args:
        calls: asked again for every step, because a forked child has another engine.
    """
    calls()._check_may_wait("transaction", None)
    calls().begin_transaction()
    try:
        yield
    except BaseException as error:
        _abort_after(error, calls)
        raise
    try:
        calls().commit_transaction(None)
    except (FatalProducerError, KafkaTimeoutError):
        # Nothing can be aborted any more, or the commit continues.
        raise
    except BaseException as error:
        _abort_after(error, calls)
        raise


def _abort_after(error: BaseException, calls: Callable[[], TransactionCalls]) -> None:
    """Abort without hiding the error that is the reason for it."""
    try:
        calls().abort_transaction(None)
    except (FatalProducerError, IllegalStateError, ProducerClosedError):
        # The producer has failed or was closed, or the block has ended the transaction itself.
        pass
    except KafkaError as failure:
        _log.warning(
            "Producer %s: the transaction was not aborted yet after %s: %s",
            calls().transactional_id,
            type(error).__name__,
            failure,
        )

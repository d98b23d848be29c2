"""TransactionCalls: what the transactional methods of ``KafkaProducer`` have in common.

The I/O thread performs the steps; this code starts them and waits, on the caller's thread. A call that times
out continues in the background, and the same call made again waits for it. The same holds for a call whose
caller was cancelled: asyncio waits on another thread, so each call here returns a function, and the caller
calls it to acknowledge the outcome and to get its error.
Source: KIP-98, KIP-447; Kafka class ``KafkaProducer``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from kproducer._core.runtime.arguments import checked_text, checked_timeout_s
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer.errors import (
    FatalProducerError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    ProducerClosedError,
)

if TYPE_CHECKING:
    from kproducer._core.engine.engine_lifecycle import EngineLifecycle
    from kproducer._core.engine.producer_engine import ProducerEngine
    from kproducer._core.transactions.transaction_arguments import (
        ConsumerGroupMetadata,
        OffsetAndMetadata,
        PreparedTransaction,
    )
    from kproducer._core.transactions.transaction_state import PendingOperation
    from kproducer._core.transactions.transaction_state_machine import TransactionStateMachine
    from kproducer.types import TopicPartition

_log = GuardedLogger(__name__)

#: The metric that counts the time of each call that waits.
_TIMES = {
    "init_transactions": "txn-init-time-ns-total",
    "send_offsets_to_transaction": "txn-send-offsets-time-ns-total",
    "commit_transaction": "txn-commit-time-ns-total",
    "commit_prepared": "txn-commit-time-ns-total",
    "abort_transaction": "txn-abort-time-ns-total",
    "abort_prepared": "txn-abort-time-ns-total",
}


#: Acknowledges the outcome of a step, and raises its error, if it has one. Until it is called, the same call
#: made again has the same outcome.
See = Callable[[], None]


class TransactionCalls:
    """Starts the steps of transactions, and waits for them. Thread-safe.

    ``timeout`` is in seconds; ``None`` means ``max_block_ms``. A call that returns ``See`` has waited for the
    end of its step, and raises if it cannot: the step was refused or has timed out.

    Args:
        lifecycle: has the running engine; a forked child has another one than its parent.
    """

    def __init__(self, lifecycle: EngineLifecycle) -> None:
        self._lifecycle = lifecycle

    def state(self, call: str) -> TransactionStateMachine:
        """The state that ``call`` reads or changes. Raises IllegalStateError without a transactional id."""
        transactions = self._lifecycle.running_engine().transactions
        if transactions is None:
            raise IllegalStateError(f"{call}: set transactional_id to use transactions")
        return transactions

    def _run(
        self,
        call: str,
        timeout: float | None,
        begin: Callable[[TransactionStateMachine], PendingOperation],
        flush: bool = False,
    ) -> See:
        """Begin a step and wait for its end. A call that is refused begins nothing.

        Args:
            call: names the method in error messages.
            timeout: see above.
            begin: begins the step, unless the outcome of the last call has not been seen.
            flush: send batches without waiting for ``linger_ms`` meanwhile.
        """
        engine, transactions, timeout_s = self._check_may_wait(call, timeout)
        with engine.call_times.timing(_TIMES[call]):
            operation = begin(transactions)
            with engine.flushing() if flush else contextlib.nullcontext():
                has_ended = operation.wait(timeout_s)
        if not has_ended:
            assert engine.transaction_manager is not None  # as there is a transactional id
            waits_for = engine.transaction_manager.protocol.waits_for
            causes = "; ".join(filter(None, (waits_for, engine.last_errors())))
            raise KafkaTimeoutError(
                f"{call}: not done within {timeout_s} s; it continues in the background, and "
                f"{call} called again waits for it{f'; {causes}' if causes else ''}"
            )

        def see() -> None:
            transactions.acknowledge(operation)
            operation.raise_if_failed()

        return see

    def initialize(self, timeout: float | None) -> See:
        """See ``KafkaProducer.init_transactions``."""
        return self._run("init_transactions", timeout, lambda state: state.begin_initialize())

    def begin(self) -> None:
        """See ``KafkaProducer.begin_transaction``."""
        transactions = self.state("begin_transaction")
        with self._lifecycle.running_engine().call_times.timing("txn-begin-time-ns-total"):
            transactions.begin_transaction()

    def send_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
        timeout: float | None,
    ) -> See:
        """See ``KafkaProducer.send_offsets_to_transaction``."""
        return self._run(
            "send_offsets_to_transaction", timeout, lambda state: state.send_offsets(offsets, group)
        )

    def commit(self, timeout: float | None) -> See:
        """See ``KafkaProducer.commit_transaction``."""
        return self._run("commit_transaction", timeout, lambda state: state.begin_commit(), flush=True)

    def abort(self, timeout: float | None) -> See:
        """See ``KafkaProducer.abort_transaction``."""
        return self._run("abort_transaction", timeout, lambda state: state.begin_abort())

    def commit_prepared(self, prepared: PreparedTransaction, timeout: float | None) -> See:
        """See ``KafkaProducer.commit_prepared``."""
        call = "commit_prepared"
        return self._run(
            call, timeout, lambda state: state.take_over(prepared, call).begin_commit(call), flush=True
        )

    def abort_prepared(self, prepared: PreparedTransaction, timeout: float | None) -> See:
        """See ``KafkaProducer.abort_prepared``."""
        call = "abort_prepared"
        return self._run(call, timeout, lambda state: state.take_over(prepared, call).begin_abort(call))

    def prepare(self, timeout: float | None) -> PreparedTransaction:
        """See ``KafkaProducer.prepare``."""
        engine, transactions, timeout_s = self._check_may_wait("prepare", timeout)
        with engine.call_times.timing("txn-prepare-time-ns-total"), engine.flushing() as pending:
            flushed = engine.accumulator.await_completion(pending, timeout_s * 1000)
        if flushed is None:
            raise KafkaTimeoutError(f"prepare: not everything was written within {timeout_s} s")
        return transactions.prepare()

    def change_transactional_id(self, transactional_id: str) -> None:
        """See ``KafkaProducer.change_transactional_id``."""
        transactional_id = checked_text("transactional_id", transactional_id, shortest=1)
        transactions = self.state("change_transactional_id")
        transactions.change_transactional_id(transactional_id)
        self._lifecycle.note_transactional_id(transactions)

    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        """See ``KafkaProducer.transaction``."""
        self._check_may_wait("transaction", None)
        self.begin()
        is_committing = False
        try:
            yield
            is_committing = True
            self.commit(None)()
        except BaseException as error:
            # If the producer has failed, nothing can be aborted. A commit that timed out continues.
            if not is_committing or not isinstance(error, (FatalProducerError, KafkaTimeoutError)):
                with abort_after(error, self._lifecycle.config.transactional_id):
                    self.abort(None)()
            raise

    def _check_may_wait(
        self, call: str, timeout: float | None
    ) -> tuple[ProducerEngine, TransactionStateMachine, float]:
        """Refuse a waiting call before it begins anything. Returns the timeout in seconds, too."""
        timeout_s = checked_timeout_s(call, timeout)
        transactions = self.state(call)
        engine = self._lifecycle.running_engine()
        engine.check_may_wait(call)
        default_s = engine.config.max_block_ms / 1000
        return engine, transactions, default_s if timeout_s is None else timeout_s


@contextlib.contextmanager
def abort_after(error: BaseException, transactional_id: str | None) -> Iterator[None]:
    """Around an abort: its failure does not hide the error that is the reason for it.

    Args:
        error: the reason for the abort.
        transactional_id: of the producer, for the log.
    """
    try:
        yield
    except (FatalProducerError, IllegalStateError, ProducerClosedError):
        # The producer has failed or was closed, or the block has ended the transaction itself.
        pass
    except KafkaError as failure:
        _log.warning(
            "Producer %s: the transaction was not aborted yet after %s: %s",
            transactional_id,
            type(error).__name__,
            failure,
        )

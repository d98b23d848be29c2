"""ProducerEngine: everything that one producer runs in one process, wired together.

A forked child gets another engine. Nothing here refers to the ``KafkaProducer``, so that a producer which the
application has dropped can be collected while its I/O thread still delivers.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from kproducer._core.accumulator.buffer_pool import BufferPool
from kproducer._core.accumulator.pending_records import PendingRecords
from kproducer._core.accumulator.record_accumulator import RecordAccumulator
from kproducer._core.client.metadata import Metadata
from kproducer._core.client.network_client import new_network_client
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.metrics.call_times import CallTimes
from kproducer._core.runtime import fork_and_exit
from kproducer._core.runtime.arguments import checked_timeout_s
from kproducer._core.runtime.clock import Clock
from kproducer._core.runtime.fork_safe_import import import_module
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer._core.sender.fast_lanes import new_lanes
from kproducer._core.sender.sender import Purge, Sender
from kproducer._core.sending.admission import Admission
from kproducer._core.sending.needs import Topics
from kproducer._core.sending.record_rules import RecordRules
from kproducer.errors import (
    AuthenticationError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    Outcome,
    ProducerClosedError,
)
from kproducer.types import FlushResult

if TYPE_CHECKING:
    import uuid

    from kproducer._core.metrics.metric_sample import MetricSample
    from kproducer._core.telemetry.telemetry_link import TelemetryLink
    from kproducer._core.transactions.transaction_manager import TransactionManager

_log = GuardedLogger(__name__)

#: After a forced close the I/O thread has only its own clean-up left; a user's callback may still delay it.
_FORCED_JOIN_S = 5.0
#: Most closes take less; a longer one is explained.
_SILENT_WAIT_S = 1.0
_BLOCKED = "a delivery callback probably blocks the I/O thread; the futures fail when it returns"


class ProducerEngine:
    """The parts of a running producer. Thread-safe as its parts are.

    Args:
        config: with a client id.
        clock: time for all parts.
        rules: what the settings say about each record.
        gate: see ``ProducerHooks``; called with this engine.

    Attributes:
        accumulator, metadata, sender, client, pool: the parts.
        topics: what is known of topics, and the waits for the rest.
        admission: accepts records.
        transaction_manager: idempotence and transactions; ``None`` without either.
        transactions: the state of transactions; ``None`` without a transactional id.
        config, clock: as given.
        call_times: how long callers have waited.
        started_wall_ms: when it was created, since the epoch.
        thread: the I/O thread; a daemon, so that it cannot keep the interpreter from ending.
    """

    def __init__(
        self,
        config: ProducerConfig,
        clock: Clock,
        rules: RecordRules,
        gate: Callable[[ProducerEngine, bool], None],
    ) -> None:
        self.config = config
        self.clock = clock
        self.call_times = CallTimes()
        self.started_wall_ms = clock.wall_ms()
        with contextlib.ExitStack() as undo:
            # If a step fails, everything that was opened before is closed.
            # The parts call each other; none does before all are there.
            self.pool = BufferPool.of(
                config, clock, lambda: self.sender.wakeup(), lambda: not self.is_io_thread
            )
            undo.callback(self.pool.close)
            self.transaction_manager = self._transaction_manager(gate) if config.enable_idempotence else None
            self.transactions = (
                self.transaction_manager.state_machine
                if self.transaction_manager and config.transactional_id
                else None
            )
            self.accumulator = RecordAccumulator(
                config, self.pool, clock, transaction_manager=self.transaction_manager
            )
            self.metadata = Metadata(config)
            undo.callback(self.metadata.close)
            self.client = new_network_client(config, self.metadata, clock)
            undo.callback(self.client.close)
            self.sender = Sender(
                self.client,
                self.metadata,
                self.accumulator,
                config,
                clock,
                self.transaction_manager,
                self._telemetry() if config.enable_metrics_push else None,
                partial(new_lanes, self.client, self.metadata, self.accumulator, config, clock),
            )
            self.topics = Topics(
                config,
                self.metadata,
                clock,
                self.sender.wakeup,
                self.call_times,
                self.last_errors,
                self.pool.may_wait,
            )
            self.admission = Admission(rules, self.topics, self.accumulator, self.transactions)
            self._ended = threading.Event()
            self.thread = threading.Thread(
                target=self._run, name=f"kproducer-io-{config.client_id}", daemon=True
            )
            #: What was opened; taken out by the I/O thread, or by a start that failed.
            self._unused = [undo.pop_all()]
        try:
            self.thread.start()
        except BaseException:
            self._give_up_start()
            raise

    def _give_up_start(self) -> None:
        """The thread could not be started; or it was, and Ctrl-C came before the start was complete.

        In the second case the thread may be in the middle of anything, so it closes what it uses itself.
        """
        try:
            unused = self._unused.pop()
        except IndexError:
            self.sender.force_close()
        else:
            unused.close()

    def _transaction_manager(self, gate: Callable[[ProducerEngine, bool], None]) -> TransactionManager:
        # Imported here, because not every producer needs them.
        from kproducer._core.transactions.coordinator_requests import transaction_version
        from kproducer._core.transactions.transaction_manager import TransactionManager
        from kproducer._core.transactions.transaction_state_machine import ProducerHooks

        config = self.config
        return TransactionManager(
            config.transactional_id or None,
            config,
            ProducerHooks(
                lambda: transaction_version(self.client.connections.versions()),
                lambda: self.sender.wakeup(),
                lambda: self.accumulator.incomplete_count > 0,
                lambda: len(self.accumulator.incomplete_batches()) > 0,
                lambda is_open: gate(self, is_open),
            ),
        )

    def _telemetry(self) -> TelemetryLink:
        # Imported here, because not every producer needs it.
        from kproducer._core.telemetry.client_telemetry import ClientTelemetry
        from kproducer._core.telemetry.metrics_payload import MetricsPayload
        from kproducer._core.telemetry.telemetry_link import TelemetryLink

        payload = MetricsPayload(self.metric_samples, self._telemetry_resource, self.clock)
        return TelemetryLink(ClientTelemetry(payload, self.config.client_id), self.client, self.clock)

    def _telemetry_resource(self) -> dict[str, str]:
        """What the Java client says of a producer as a whole. Brokers know the client id and the address."""
        resource: dict[str, str] = {}
        if self.transactions is not None:
            resource["transactional_id"] = self.transactions.transactional_id or ""
        if self.config.client_rack:
            resource["client_rack"] = self.config.client_rack
        return resource

    @property
    def is_io_thread(self) -> bool:
        """Whether the caller runs on the I/O thread, as delivery callbacks do."""
        return threading.current_thread() is self.thread

    def check_may_wait(self, call: str) -> None:
        """Raise IllegalStateError where a method that waits for the I/O thread would deadlock.

        Delivery callbacks run on that thread; signal handlers may interrupt ``send`` while it holds a lock.
        """
        if self.is_io_thread:
            raise IllegalStateError(
                f"{call}() in a delivery callback would deadlock: it waits for the thread it runs on; "
                "call it on the thread that sends"
            )
        refuse_in_the_middle_of_send(call, self.accumulator)

    @contextlib.contextmanager
    def flushing(self) -> Iterator[PendingRecords]:
        """Within this block, batches are sent without waiting for ``linger_ms``. Does not wait itself.

        Gives the records that are pending when the block begins.
        """
        flush = object()
        # Before the flush begins, when the I/O thread may complete them at once.
        pending = self.accumulator.pending_records()
        try:
            self.accumulator.begin_flush(flush)
            self.sender.wakeup()
            yield pending
        finally:
            self.accumulator.end_flush(flush)

    def flush(self, timeout: float | None) -> FlushResult:
        """See ``KafkaProducer.flush``."""
        timeout_s = checked_timeout_s("flush", timeout)
        self.check_may_wait("flush")
        timeout_ms = None if timeout_s is None else timeout_s * 1000
        with self.call_times.timing("flush-time-ns-total"), self.flushing() as pending:
            result = self.accumulator.await_completion(pending, timeout_ms)
        if result is None:
            raise self.unfinished_flush(timeout)
        return result

    def unfinished_flush(self, timeout: float | None, waiting: int = 0) -> KafkaError:
        """The error of a ``flush`` that was not done within ``timeout``.

        Args:
            waiting: records that are not accepted yet.
        """
        if self._ended.is_set():
            # Its end fails every record. One that is still open shows a bug, and nothing will complete it.
            return ProducerClosedError("flush: the producer's I/O thread has ended")
        count = self.accumulator.incomplete_record_count + waiting
        causes = self.last_errors()
        return KafkaTimeoutError(
            f"flush({timeout}): {count} records are not acknowledged yet{f'; {causes}' if causes else ''}"
        )

    def purge(self, in_queue: bool, in_flight: bool) -> int:
        """See ``KafkaProducer.purge``."""
        self.check_may_wait("purge")
        purge = Purge(in_queue, in_flight)
        self.sender.purge(purge)
        if self._ended.is_set():
            # The I/O thread may have looked for purges the last time before this one was added.
            self.sender.end_purges()
        purge.done.wait()
        return purge.record_count

    def client_instance_id(self, timeout: float | None) -> uuid.UUID:
        """See ``KafkaProducer.client_instance_id``."""
        call = "client_instance_id"
        timeout_s = checked_timeout_s(call, timeout)
        if self.sender.telemetry is None:
            raise IllegalStateError(f"{call}: there is no id, because enable_metrics_push is False")
        self.check_may_wait(call)
        telemetry = self.sender.telemetry.telemetry
        instance_id = telemetry.await_instance_id(
            self.config.max_block_ms / 1000 if timeout_s is None else timeout_s
        )
        if instance_id is not None:
            return instance_id
        if self._ended.is_set():
            raise ProducerClosedError(f"{call}: the producer was closed before a broker assigned an id")
        if self.client.bootstrap_error is not None:
            raise self.client.bootstrap_error.with_traceback(None)
        if not telemetry.is_open:
            raise KafkaError(f"{call}: a broker has refused telemetry; the log has its answer at INFO")
        causes = self.last_errors()
        raise KafkaTimeoutError(
            f"{call}({timeout}): no broker has assigned an id yet; brokers do from Kafka 3.7 if they have a"
            f" metrics reporter that receives client telemetry{f'; {causes}' if causes else ''}"
        )

    def metric_samples(self) -> list[MetricSample]:
        """Every metric with its present value. Any thread, also after the end.

        Waits for the I/O thread, which counts what lanes have done, but not for I/O, and at most 0.2 s.
        """
        self.sender.count_lanes()
        # Imported here, because attrs takes longer than all other imports of a producer. If a broker wants
        # metrics, the I/O thread may be the first to call this.
        samples: list[MetricSample] = import_module("kproducer._core.engine.metric_samples").sample_metrics(
            self
        )
        return samples

    def sent_totals(self, *, is_current: bool) -> dict[str, float]:
        """Some totals of ``metric_samples``, by name. Without ``is_current`` it waits for nothing."""
        if is_current:
            self.sender.count_lanes()
        sent = self.sender.metrics
        return {
            "byte-total": sent.batch_size.total,
            "produce-request-total": sent.records.count,
            "record-retry-total": sent.retries.total,
            "produce-latency-ms-total": sent.latency.total,
        }

    @property
    def available_bytes(self) -> int:
        """How much of ``buffer_memory`` is free."""
        return self.pool.available_bytes

    @property
    def has_open_transaction(self) -> bool:
        """Whether a transaction is open, and no call has begun to end it."""
        state = self.transactions
        return state is not None and state.transaction is not None and not state.is_ending

    def connection_failures(self) -> tuple[list[AuthenticationError], list[str], bool]:
        """The present refusals of credentials, the other failures, and whether no broker can be reached."""
        connections = self.client.connections
        return list(connections.refusals.values()), *connections.failures()

    def exhausted_error(self, waited_ms: int, others: int) -> KafkaError:
        """The error of a record whose turn to ask for memory did not come. See ``BufferPool``."""
        return self.pool.exhausted_error(0, waited_ms, others)

    @property
    def has_ended(self) -> bool:
        """Whether the I/O thread has ended: nothing will be sent any more."""
        return self._ended.is_set()

    def stop(self, timeout_s: float | None, notice: str | None = None) -> int:
        """Deliver what was accepted and end the I/O thread; after ``timeout_s`` give up the rest.

        Args:
            timeout_s: in seconds; ``None``: no limit.
            notice: how the warning begins that is logged if the user may wonder why nothing happens.

        Returns:
            The number of records given up. Their futures have failed with ``ProducerClosedError``, or will
            fail when the delivery callback that blocks the I/O thread returns: see ``last_errors``.
        """
        is_given_up = self.sender.is_forced_to_close
        if timeout_s == 0:
            self.sender.force_close()  # at once: the I/O thread would begin to send what is waiting
        else:
            self.sender.initiate_close()
        if self.is_io_thread:
            # A delivery callback has called ``close``. It would wait for its own thread, so unacknowledged
            # records are given up, as if the timeout had passed.
            self.sender.force_close()
            return 0
        if not is_given_up:
            if notice is not None and not self.wait_for_end(_SILENT_WAIT_S):
                self._warn_of_wait(notice)
            if timeout_s is None or timeout_s > 0:
                self.wait_for_end(timeout_s)
        if not self._ended.is_set():
            self.sender.force_close()
            if not self.wait_for_end(_FORCED_JOIN_S):
                fields = {"client_id": self.config.client_id}
                _log.error("The I/O thread has not ended: %s", _BLOCKED, extra=fields)
                # Counted here: the I/O thread counts when it ends.
                return self.accumulator.incomplete_record_count
        return self.sender.records_lost

    def _warn_of_wait(self, notice: str) -> None:
        count = self.accumulator.incomplete_record_count
        if count:
            what = f"{count} unacknowledged records, up to about {self.config.delivery_timeout_ms / 1000:g} s"
            causes = self.last_errors()
        elif self.transactions is not None and self.transactions.is_ending:
            what, causes = "the end of its transaction", self.last_errors()
        else:
            what, causes = "the I/O thread", _BLOCKED
        _log.warning(
            "%s: producer %s is waiting for %s%s; press Ctrl-C to give up",
            notice,
            self.config.client_id,
            what,
            f" ({causes})" if causes else "",
            extra={"client_id": self.config.client_id, "record_count": count},
        )

    def wait_for_end(self, timeout_s: float | None) -> bool:
        """Wait until the I/O thread has ended; ``False``: not within ``timeout_s``.

        Before Python 3.13, once Ctrl-C has interrupted ``join``, ``join`` takes a running thread for ended.
        """
        in_time = self._ended.wait(timeout_s)
        if in_time:
            self.thread.join()
        return in_time

    def _run(self) -> None:
        try:
            self._unused.pop()
        except IndexError:
            return
        try:
            self.sender.run()
        finally:
            fork_and_exit.release(self)
            self._ended.set()
            self.sender.end_purges()

    def finish_alone(self) -> None:
        """Deliver what was accepted and end, although the producer was collected. Returns at once.

        Takes only re-entrant locks, because the garbage collector calls it in the middle of anything.
        """
        fork_and_exit.hold(self)
        self.sender.end_when_done()
        if self._ended.is_set():
            fork_and_exit.release(self)

    # -- fork_and_exit.ManagedProducer ---------------------------------------------------------------

    def begin_close_at_exit(self) -> None:
        """The interpreter ends: accept no more records, continue to deliver."""
        self.sender.initiate_close()

    def finish_close_at_exit(self) -> None:
        """The interpreter ends: wait until all records are delivered or have failed, and log the losses."""
        failed_before = self.sender.metrics.record_error_total
        try:
            self.stop(None, "At the end of the process")
        except KeyboardInterrupt:
            # The user does not want to wait any longer.
            self.stop(0)
        # The sender logs those that it gave up.
        lost = self.sender.metrics.record_error_total - failed_before - self.sender.records_lost
        if lost:
            _log.error(
                "%d records of producer %s were lost: not delivered when the process ended; "
                "call close() or flush() before the end to learn the outcome of each",
                lost,
                self.config.client_id,
                extra={"client_id": self.config.client_id, "record_count": lost},
            )

    def after_fork_in_child(self) -> None:
        """In a forked child: leave the parent's connections alone, and fail every inherited future."""
        # The lock of the parent's event may be held by a thread that does not exist here.
        self._ended = threading.Event()
        self._ended.set()
        self.sender.end_after_fork()
        self.client.release_after_fork()
        if self.sender.telemetry is not None:
            self.sender.telemetry.telemetry.end_after_fork()
        error = ProducerClosedError(
            "this record belongs to the parent process, which continues to deliver it; its outcome is known "
            "only there"
        )
        error.outcome = Outcome.UNKNOWN
        self.accumulator.abandon_after_fork(error)

    def last_errors(self, with_unanswered: bool = True) -> str:
        """The present failures of connections and metadata, for error messages; empty if there are none.

        Args:
            with_unanswered: see ``Connections.last_errors``.
        """
        if self.sender.is_forced_to_close and not self._ended.is_set():
            return _BLOCKED
        return self.metadata.describe_failures(self.client.connections.last_errors(with_unanswered))


def refuse_in_the_middle_of_send(call: str, accumulator: RecordAccumulator) -> None:
    """Refuse a call that waits for batches while this thread holds the lock of a partition.

    A signal handler or finalizer that has interrupted ``send`` runs on such a thread.

    Raises:
        IllegalStateError: it would deadlock.
    """
    if accumulator.queues.holds_lock():
        raise IllegalStateError(
            f"{call}() was called in the middle of send() on the same thread, as in a signal handler: it"
            " would deadlock. Let the handler raise SystemExit or set a flag; close where the sending ends"
        )

"""EngineLifecycle: the engine of one producer from its start to its end, across forks and interpreter exit.

Refers to no ``KafkaProducer``, so that a producer which the application has dropped is collected while its
engine still delivers. Source: Kafka class ``KafkaProducer`` (close).
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.engine.producer_engine import ProducerEngine, refuse_in_the_middle_of_send
from kproducer._core.kernel import FastSend
from kproducer._core.runtime import fork_and_exit
from kproducer._core.runtime.arguments import checked_timeout_s
from kproducer._core.runtime.clock import Clock
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer._core.sending.record_rules import RecordRules
from kproducer.errors import CloseTimeoutError, ProducerClosedError

if TYPE_CHECKING:
    from kproducer._core.transactions.transaction_state_machine import TransactionStateMachine

_log = GuardedLogger(__name__)


class EngineLifecycle:
    """Starts the engine, stops it, and starts another one in a forked child. Thread-safe.

    Args:
        config: with a client id.
        clock: time for all parts.
        rules: what the settings say about each record.
        fast_send: opened while records may be appended without the general path.
        user_objects: the ``close`` methods of serializers and interceptors; each is called once.

    Attributes:
        config: the settings in force.
        clock, rules, fast_send: as given.
        engine: the running one; ``None`` while closed, and after a fork until the first use.
        last_engine: the running one, or the one that ran before ``close``.
        is_closed: whether ``close`` was called.
    """

    def __init__(
        self,
        config: ProducerConfig,
        clock: Clock,
        rules: RecordRules,
        fast_send: FastSend,
        user_objects: list[Callable[[], Any]],
    ) -> None:
        self.config = config
        self.clock = clock
        self.rules = rules
        self.fast_send = fast_send
        #: Each is taken out before it is called.
        self._user_objects = user_objects
        self._lock = threading.Lock()
        # Guarded by _lock; read without it.
        self.is_closed = False
        self.engine: ProducerEngine | None = None
        self.last_engine: ProducerEngine | None = None

    def start(self) -> None:
        """Start the first engine, and register for forks and interpreter exit.

        Raises:
            ConfigError: a setting does not work on this machine; nothing is left running.
        """
        try:
            self._start_engine()
        except BaseException:
            self._close_user_objects()
            raise
        fork_and_exit.register(self)

    def running_engine(self) -> ProducerEngine:
        """The engine; started now if this is the first use after a fork.

        Raises:
            ProducerClosedError: the producer is closed.
        """
        engine = self.engine
        if engine is not None and not self.is_closed:
            return engine
        with self._lock:
            if self.is_closed:
                raise ProducerClosedError.before_call()
            if self.engine is None:
                fork_and_exit.ensure_exit_hook()
                return self._start_engine()
            return self.engine

    def _start_engine(self) -> ProducerEngine:
        engine = ProducerEngine(self.config, self.clock, self.rules, self._gate())
        self.engine = self.last_engine = engine
        if engine.transactions is None:
            self.fast_send.open(engine.accumulator.queues.slots)
        return engine

    def _gate(self) -> Callable[[ProducerEngine, bool], None]:
        """Opens the fast path when a transaction begins, and closes it before the transaction ends.

        Its reference is weak: the engine must not keep a dropped producer alive.
        """
        weak_self = weakref.ref(self)

        def gate(engine: ProducerEngine, is_open: bool) -> None:
            lifecycle = weak_self()
            if lifecycle is None or lifecycle.engine is not engine:
                return
            if not is_open:
                lifecycle.fast_send.close()
                return
            with lifecycle._lock:
                if lifecycle.engine is engine and not lifecycle.is_closed:
                    lifecycle.fast_send.open(engine.accumulator.queues.slots)

        return gate

    def note_transactional_id(self, transactions: TransactionStateMachine) -> None:
        """Note that the transactional id has changed, for the engine of a forked child."""
        # Not around the change itself: a beginning transaction takes the two locks in the other order. The
        # id is read here because another thread may have changed it again.
        with self._lock:
            self.config = self.config.evolve(transactional_id=transactions.transactional_id or "")

    def close_after_interrupt(self) -> None:
        """``close`` for a ``with`` block that Ctrl-C has ended: another Ctrl-C gives up what is left.

        Raises:
            KeyboardInterrupt: the other Ctrl-C. The records have failed with ``ProducerClosedError``.
        """
        try:
            self.close(None, "After Ctrl-C")
        except KeyboardInterrupt:
            self.close(0)
            raise

    def close(self, timeout: float | None, notice: str | None = None) -> None:
        """See ``KafkaProducer.close``. ``notice``: see ``ProducerEngine.stop``."""
        timeout = checked_timeout_s("close", timeout)
        if self.last_engine is not None:
            refuse_in_the_middle_of_send("close", self.last_engine.accumulator)
        with self._lock:
            already_closed, self.is_closed = self.is_closed, True
            self.fast_send.close()
            # The attribute stays set until the engine has stopped: if Ctrl-C interrupts this call, another
            # call, the finalizer or the end of the process has to find it.
            engine = self.engine
        if engine is None or (already_closed and engine.is_io_thread):
            if self.last_engine is not None and not self.last_engine.is_io_thread:
                # A callback may have closed it, and could not wait.
                self.last_engine.wait_for_end(timeout)
            return
        try:
            lost = engine.stop(timeout, notice)
        except BaseException:
            # Most likely Ctrl-C. What was accepted is still delivered; the end of the process waits for it,
            # or logs how much was lost.
            engine.finish_alone()
            raise
        finally:
            self._close_user_objects()
        self.engine = None
        if lost and timeout is not None and timeout > 0:
            causes = engine.last_errors()
            raise CloseTimeoutError(
                f"close({timeout}): {lost} records were not acknowledged in time and are given up"
                + (f"; {causes}" if causes else "")
            )

    def finish_collected(self) -> None:
        """The producer was garbage-collected: let its I/O thread deliver what was accepted, and end.

        Takes no lock, because the garbage collector may call it in the middle of anything.
        """
        engine = self.engine
        if engine is None or self.is_closed:
            return
        count = engine.accumulator.incomplete_record_count
        _log.log(
            logging.WARNING if count else logging.INFO,
            "Producer %s was garbage-collected without close(); %d records are still being delivered",
            engine.config.client_id,
            count,
            extra={"client_id": engine.config.client_id, "record_count": count},
        )
        engine.finish_alone()

    def _close_user_objects(self) -> None:
        while True:
            try:
                close = self._user_objects.pop(0)
            except IndexError:
                return
            try:
                close()
            except Exception:
                _log.exception("close() of %r raised", getattr(close, "__self__", close))

    # -- fork_and_exit.ManagedProducer -------------------------------------------------------------

    def begin_close_at_exit(self) -> None:
        """The interpreter ends: accept no more records."""
        if self.engine is not None:
            self.engine.begin_close_at_exit()

    def finish_close_at_exit(self) -> None:
        """The interpreter ends: deliver what was accepted, then close."""
        engine = self.engine
        if engine is not None:
            engine.finish_close_at_exit()
            self.close(None)

    def after_fork_in_child(self) -> None:
        """This process is a fork of the one that started the engine."""
        self._lock = threading.Lock()
        engine, self.engine = self.engine or self.last_engine, None
        self.fast_send.close()
        self.last_engine = None
        if engine is not None:
            engine.after_fork_in_child()

"""ProducerLifecycle: a producer's engine from the first use to the end, also across forks and at exit.

The base of ``KafkaProducer``: knows no records. Source: Kafka class ``KafkaProducer`` (close).
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from typing import Any

from kproducer.config.producer_config import ProducerConfig
from kproducer.engine.producer_engine import ProducerEngine, refuse_in_the_middle_of_send
from kproducer.errors import CloseTimeoutError, ProducerClosedError
from kproducer.kernel import SendPath
from kproducer.runtime import process_lifecycle
from kproducer.runtime.arguments import checked_timeout_s
from kproducer.runtime.clock import Clock
from kproducer.runtime.guarded_logger import GuardedLogger
from kproducer.sending.interceptors import ProducerInterceptors

_log = GuardedLogger(__name__)


class ProducerLifecycle(SendPath):
    """Starts the engine, stops it, and starts another one in a forked child. Thread-safe."""

    def _set_up(self, config: ProducerConfig, clock: Clock) -> None:
        # fixed after construction
        self._config = config
        self._clock = clock
        self._interceptors = ProducerInterceptors(config.interceptors)
        #: How serializers and interceptors are closed. Each is taken out before it is called.
        self._user_objects: list[Callable[[], Any]] = [self._interceptors.close]
        for serializer in (config.key_serializer, config.value_serializer):
            if hasattr(serializer, "close"):
                self._user_objects.append(serializer.close)
        # guarded by _lifecycle_lock; read without it
        self._lifecycle_lock = threading.Lock()
        self._closed = False
        #: None while closed, and after a fork until the first use.
        self._engine: ProducerEngine | None = None
        self._last_engine: ProducerEngine | None = None
        self._finalizer: weakref.finalize[..., Any] | None = None

    def close(self, timeout: float | None = None) -> None:
        """Deliver what was accepted, then stop. Idempotent; blocks for at most ``timeout``, and a little.

        Args:
            timeout: seconds; ``None`` waits until everything is delivered or has failed, which takes at most
                about ``delivery_timeout_ms``; 0 gives up at once what is not acknowledged.

        Raises:
            CloseTimeoutError: ``timeout`` (above 0) passed; says how many records were given up. Their
                futures fail with ``ProducerClosedError``. The producer is closed all the same.
            InvalidArgumentError: ``timeout`` is no number; then nothing is closed.
            IllegalStateError: called by a signal handler in the middle of ``send``; then nothing is closed.
                Let handlers raise ``SystemExit`` instead, or set a flag.

        Called from a delivery callback it cannot wait, and gives up what is not acknowledged.
        """
        timeout = checked_timeout_s("close", timeout)
        if self._last_engine is not None:
            refuse_in_the_middle_of_send("close", self._last_engine.accumulator)
        with self._lifecycle_lock:
            already_closed, self._closed = self._closed, True
            self._close_send()
            # Kept until it has stopped: Ctrl-C may come between any two lines, and then another call, the
            # finalizer or the end of the process has to find it.
            engine = self._engine
        if engine is None or (already_closed and engine.is_io_thread):
            if self._last_engine is not None and not self._last_engine.is_io_thread:
                # A callback may have closed it, and could not wait.
                self._last_engine.wait_for_end(timeout)
            return
        try:
            lost = engine.stop(timeout)
        except BaseException:
            # Ctrl-C, most likely. What was accepted goes on, and the end of the process waits for it or says
            # how much was lost.
            engine.finish_alone()
            if self._finalizer is not None:
                self._finalizer.detach()
            raise
        finally:
            self._close_user_objects()
        self._engine = None
        if self._finalizer is not None:
            self._finalizer.detach()
        if lost and timeout is not None and timeout > 0:
            causes = engine.last_errors()
            raise CloseTimeoutError(
                f"close({timeout}): {lost} records were not acknowledged in time and are given up"
                + (f"; {causes}" if causes else "")
            )

    # -- life cycle ------------------------------------------------------------------------------------

    def _run_engine(self) -> ProducerEngine:
        engine = ProducerEngine(self._config, self._clock)
        self._engine = self._last_engine = engine
        if engine.transactions is not None and engine.transactions.is_transactional:
            engine.transactions.set_gate(_Gate(self, engine))
        else:
            self._open_send(engine.metadata, engine.accumulator.topic_slots)
        self._finalizer = weakref.finalize(self, _stop_collected, engine)
        # The end of the process has a better way: see process_lifecycle.
        self._finalizer.atexit = False
        return engine

    def _engine_on_first_use(self) -> ProducerEngine:
        """The engine; made anew if this is the first use after a fork."""
        with self._lifecycle_lock:
            if self._closed:
                raise ProducerClosedError("the producer is closed")
            if self._engine is None:
                process_lifecycle.ensure_exit_hook()
                self._run_engine()
            assert self._engine is not None
            return self._engine

    def _close_user_objects(self) -> None:
        """Close serializers and interceptors, each of them once."""
        while True:
            try:
                close = self._user_objects.pop(0)
            except IndexError:
                return
            try:
                close()
            except Exception:
                _log.exception("%r failed", close)

    def _admit_records(self, engine: ProducerEngine) -> None:
        """A transaction has begun: the usual record may take the usual way."""
        with self._lifecycle_lock:
            if self._engine is engine and not self._closed:
                self._open_send(engine.metadata, engine.accumulator.topic_slots)

    # -- process_lifecycle.ManagedProducer -------------------------------------------------------------

    def begin_close_at_exit(self) -> None:
        """The interpreter ends. Not for applications."""
        engine = self._engine
        if engine is not None:
            engine.begin_close_at_exit()

    def finish_close_at_exit(self) -> None:
        """The interpreter ends. Not for applications."""
        engine = self._engine
        if engine is not None:
            engine.finish_close_at_exit()
            self.close()

    def after_fork_in_child(self) -> None:
        """This process is a fork of the one that made the producer. Not for applications."""
        self._lifecycle_lock = threading.Lock()
        if self._finalizer is not None:
            self._finalizer.detach()
            self._finalizer = None
        engine, self._engine = self._engine or self._last_engine, None
        self._close_send()
        self._last_engine = None
        if engine is not None:
            engine.after_fork_in_child()


class _Gate:
    """Lets records pass while a transaction is open: the manager calls it when that changes.

    Refers to the producer weakly: one that nobody holds any more must be collected while its engine runs.
    """

    __slots__ = ("_engine", "_producer")

    def __init__(self, producer: ProducerLifecycle, engine: ProducerEngine) -> None:
        self._producer = weakref.ref(producer)
        self._engine = weakref.ref(engine)

    def __call__(self, is_open: bool) -> None:
        producer, engine = self._producer(), self._engine()
        if producer is None or engine is None:
            return
        if is_open:
            producer._admit_records(engine)
        elif producer._engine is engine:
            producer._close_send()


def _stop_collected(engine: ProducerEngine) -> None:
    """The producer was garbage-collected: let its I/O thread finish by itself."""
    count = engine.accumulator.incomplete_record_count
    _log.log(
        logging.WARNING if count else logging.INFO,  # untidy, but nothing is at stake
        "Producer %s was garbage-collected without close(); %d records are still being delivered",
        engine.config.client_id,
        count,
    )
    engine.finish_alone()

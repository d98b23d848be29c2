"""ProduceRequestResult and FutureRecordMetadata: how a batch's fate reaches those who sent its records.

One result for each batch, one future for each record; the future is only (result, index in the batch) plus
what its RecordMetadata needs, because millions of them are made. Everything else (events, waiter lists,
callbacks) is made when somebody asks. A split batch redirects its result to those of its parts, so futures
are never touched. Source: Kafka classes of the same names; ``concurrent.futures`` for how waiters attach.

Locking: one re-entrant lock for all futures of the process. ``concurrent.futures.wait`` locks the conditions
of many futures at once in an order of its own; with one condition for all there is no order to get wrong. The
lock is taken once for each completed batch and by those who wait, never for a record on its way.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Generator
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FuturesTimeoutError
from typing import TYPE_CHECKING, Any

from kproducer.errors import IllegalStateError, KafkaError
from kproducer.errors.suggestions import FUTURE_METHODS, no_such_attribute
from kproducer.kernel import BatchOutcome, Deliveries, RecordFuture, set_future_type
from kproducer.runtime.arguments import checked_timeout_s
from kproducer.runtime.guarded_logger import GuardedLogger
from kproducer.runtime.io_thread import is_io_thread
from kproducer.types import RecordMetadata, TopicPartition

_log = GuardedLogger(__name__)

#: ``on_delivery(metadata, error)``; ``error`` is ``None`` on success.
DeliveryCallback = Callable[[RecordMetadata, "KafkaError | None"], object]

_PENDING = "PENDING"
_FINISHED = "FINISHED"


if issubclass(FuturesTimeoutError, TimeoutError):
    ResultTimeoutError: type[Exception] = TimeoutError
else:  # Python 3.10: two classes; callers may catch either

    class _BothTimeoutsError(FuturesTimeoutError, TimeoutError):
        pass

    ResultTimeoutError = _BothTimeoutsError


class _Watch:
    """What somebody attached to one future: waiters of ``concurrent.futures`` and done-callbacks."""

    __slots__ = ("callbacks", "future", "waiters")

    def __init__(self) -> None:
        self.future: FutureRecordMetadata | None = None
        self.waiters: list[Any] = []
        self.callbacks: list[Callable[[Any], object]] = []


class ProduceRequestResult(BatchOutcome):
    """The outcome of one batch, shared by its futures. Thread-safe; completed once, by the I/O thread.

    Attributes (``BatchOutcome`` has more):
        parts: for a split batch, the results of its parts with the index of each one's first record.
    """

    __slots__ = ("_event", "_listeners", "_watches")

    def __init__(self, topic_partition: TopicPartition) -> None:
        super().__init__(topic_partition)
        # All guarded by FutureRecordMetadata._condition for writing; done and parts are read without it.
        self._event: threading.Event | None = None
        self._watches: dict[int, _Watch] | None = None
        self._listeners: list[Callable[[], object]] | None = None

    if TYPE_CHECKING:
        topic_partition: TopicPartition
        parts: tuple[list[int], list[ProduceRequestResult]] | None

    # -- the batch's side ------------------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """The outcome is decided, though callbacks may still be running; or left to the parts of a split."""
        return self._settled or self.parts is not None

    def settle(
        self,
        base_offset: int,
        log_append_time_ms: int,
        error: KafkaError | None,
        record_errors: Callable[[int], KafkaError] | None,
    ) -> bool:
        """Decide the outcome; the first one wins. ``release`` must follow if this returns ``True``."""
        # The condition's own lock: the condition's methods would be four more calls for each batch.
        with FutureRecordMetadata._lock:
            if self._settled or self.parts is not None:
                return False
            self._settled = True
            self.base_offset = base_offset
            self.log_append_time_ms = log_append_time_ms
            self.error = error
            self._record_errors = record_errors
            # Inside the delivery callbacks a future is done already; for everybody else it is not before
            # all of them ran, so that after get() or flush() their effects are there.
            self._firing_thread_id = threading.get_ident()
            return True

    def release(self, deliveries: Deliveries | None = None) -> None:
        """Run the delivery callbacks in order, then wake everybody who waits. Logs what they raise."""
        raised = deliveries.run(self, self._error_copy_for, self._log_raised) if deliveries else 0
        if raised > 1:
            _log.error(
                "%d delivery callbacks for one batch of %s raised; the traceback above is the first one's",
                raised,
                self.topic_partition,
            )
        watched: list[_Watch] = []
        with FutureRecordMetadata._lock:
            self.done = True
            self._firing_thread_id = 0
            event = self._event
            listeners, self._listeners = self._listeners, None
            if self._watches:
                # Waiter lists stay where they are: wait() and as_completed() take their waiters out later.
                for _, watch in sorted(self._watches.items()):
                    watched.append(watch)
                    future_or_none = watch.future
                    if future_or_none is not None:
                        for waiter in watch.waiters:
                            if future_or_none._error() is None:
                                waiter.add_result(future_or_none)
                            else:
                                waiter.add_exception(future_or_none)
        if event is not None:
            event.set()
        for watch in watched:
            watched_future, watch.future = watch.future, None
            callbacks, watch.callbacks = watch.callbacks, []
            for done_callback in callbacks:
                _run_done_callback(done_callback, watched_future)
        for listener in listeners or ():
            listener()

    def _error_copy_for(self, index: int) -> KafkaError | None:
        return _copy_of(self.error_for(index))

    def _log_raised(self) -> None:
        # Of the first one alone: the others of this batch most likely raise the same.
        _log.exception("A delivery callback for a record of %s raised", self.topic_partition)

    def abandon_after_fork(self, error: KafkaError) -> None:
        """In a forked child: fail what the parent is still working on, so that nobody here waits for ever.

        The locks inside may have been held by threads that do not exist here, and callbacks and waiters are
        the parent's: nothing is locked, and nothing is called.
        """
        self._watches = None
        self._listeners = None
        self._event = None
        if not self._settled:
            self._settled = True
            self.error = error
        self.done = True

    def split_into(self, first_indexes: list[int], results: list[ProduceRequestResult]) -> bool:
        """Redirect to the results of the parts; ``first_indexes[i]`` is the first record of part ``i``.

        Returns ``False``, and does nothing, when this one is settled already.
        """
        with FutureRecordMetadata._condition:
            if self._settled or self.parts is not None:
                return False
            for index, watch in (self._watches or {}).items():
                part = bisect_right(first_indexes, index) - 1
                results[part]._adopt(index - first_indexes[part], watch)
            self._watches = None
            self.parts = (first_indexes, results)
            event = self._event
            listeners, self._listeners = self._listeners, None
        if event is not None:
            # Whoever waits finds the parts and waits for the right one.
            event.set()
        for listener in listeners or ():
            listener()
        return True

    def _adopt(self, index: int, watch: _Watch) -> None:
        if self._watches is None:
            self._watches = {}
        self._watches[index] = watch

    # -- the waiters' side -----------------------------------------------------------------------------

    def wait(self, timeout_s: float | None) -> bool:
        """Block until this result, not counting parts, is done or split. ``False``: it is neither."""
        with FutureRecordMetadata._condition:
            if self.done or self.parts is not None:
                return True
            event = self._event
            if event is None:
                event = self._event = threading.Event()
        return event.wait(timeout_s)

    def add_listener(self, listener: Callable[[], object]) -> bool:
        """Have ``listener()`` called once, when this result is done or split; it must not raise.

        Returns:
            ``False``: it is done or split already, and the listener is not called.
        """
        with FutureRecordMetadata._condition:
            if self.done or self.parts is not None:
                return False
            if self._listeners is None:
                self._listeners = []
            self._listeners.append(listener)
            return True

    def leaves(self) -> list[ProduceRequestResult]:
        """This result, or those of the parts it was split into, all the way down."""
        if self.parts is None:
            return [self]
        return [leaf for part in self.parts[1] for leaf in part.leaves()]

    def error_for(self, index: int) -> KafkaError | None:
        """The error of one record of a settled result."""
        if self._record_errors is not None and self.error is not None:
            return self._record_errors(index)
        return self.error

    def watch(self, index: int, future: FutureRecordMetadata) -> _Watch:
        """The watch of one record, made on demand. The lock is held."""
        if self._watches is None:
            self._watches = {}
        watch = self._watches.get(index)
        if watch is None:
            watch = self._watches[index] = _Watch()
        if not self.done:
            watch.future = future
        return watch


class FutureRecordMetadata(RecordFuture, Future[RecordMetadata]):
    """The promise of a RecordMetadata. A ``concurrent.futures.Future`` that cannot be cancelled.

    Works with ``concurrent.futures.wait`` and ``as_completed``, ``asyncio.wrap_future``, and ``await`` in any
    asyncio event loop. Thread-safe. Do not block on one in an ``on_delivery`` callback: it runs on the thread
    that completes futures (its own future is done by then).
    """

    __slots__ = ()

    #: Stands for the condition that each Future makes in its constructor, which is not run: see above.
    _lock = threading.RLock()
    _condition = threading.Condition(_lock)

    if TYPE_CHECKING:
        _owner: ProduceRequestResult

    # -- reading ---------------------------------------------------------------------------------------

    def _locate(self) -> tuple[ProduceRequestResult, int]:
        """The result that decides this record now, and the record's index in it."""
        owner = self._owner
        index = self._index
        parts = owner.parts
        while parts is not None:
            part = bisect_right(parts[0], index) - 1
            index -= parts[0][part]
            owner = parts[1][part]
            parts = owner.parts
        return owner, index

    def _metadata(self) -> RecordMetadata:
        owner, index = self._locate()
        return owner.metadata_of(index, self._timestamp_ms, self._key_size, self._value_size)

    def _error(self) -> KafkaError | None:
        owner, index = self._locate()
        return owner.error_for(index)

    def running(self) -> bool:
        """Always ``False``."""
        return False

    def cancelled(self) -> bool:
        """Always ``False``."""
        return False

    def cancel(self) -> bool:
        """A record cannot be taken back once accepted: returns ``False`` and does nothing."""
        return False

    get = RecordFuture.result

    def _done_slowly(self) -> bool:
        return self._locate()[0].is_readable()

    def _result_slowly(self, timeout: float | None) -> RecordMetadata:
        error = self._exception_slowly(timeout)
        if error is not None:
            try:
                raise error
            finally:
                del error  # breaks the cycle: error, traceback, this frame
        return self._metadata()

    def _exception_slowly(self, timeout: float | None) -> KafkaError | None:
        self._wait_done(timeout)
        return _copy_of(self._error())

    def _wait_done(self, timeout: float | None) -> None:
        owner, _ = self._locate()
        if owner.is_readable():
            return
        if timeout is None and is_io_thread():
            raise IllegalStateError(
                "result() without a timeout in a delivery callback would wait for itself; "
                "use add_done_callback()"
            )
        timeout_s = checked_timeout_s("result", timeout)
        in_time = owner.wait(timeout_s)
        owner, _ = self._locate()
        while in_time and not owner.is_readable():
            # Split meanwhile. At most the timeout once more: the clock is not ours to read here.
            in_time = owner.wait(timeout_s)
            owner, _ = self._locate()
        if not owner.is_readable():
            raise ResultTimeoutError(
                f"The record for {owner.topic_partition} was neither acknowledged nor failed within"
                f" {timeout} s; it may still be delivered"
            )

    # -- callbacks and waiters -------------------------------------------------------------------------

    def add_done_callback(self, fn: Callable[[Future[RecordMetadata]], object]) -> None:
        """Call ``fn(future)`` when done: on the I/O thread, or at once if it is done already.

        What ``fn`` raises is logged.
        """
        if getattr(fn, "__module__", None) == "asyncio.tasks":
            # Called on the I/O thread it would not wake the event loop, which would then wait for ever.
            raise TypeError(
                "asyncio.wait() takes only asyncio's own futures: give it asyncio.wrap_future(future), or "
                "use asyncio.gather(), which takes this one as it is"
            )
        with self._condition:
            owner, index = self._locate()
            if not owner.done:
                owner.watch(index, self).callbacks.append(fn)
                return
        _run_done_callback(fn, self)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self.done():
            import asyncio  # costs start-up time that only asyncio's users, who have it loaded, should pay

            yield from asyncio.wrap_future(self).__await__()
        return self.result()

    # -- what concurrent.futures and asyncio look at ---------------------------------------------------

    if not TYPE_CHECKING:  # there they stay Future's plain attributes, which as_completed()'s type asks for

        @property
        def _state(self) -> str:
            return _FINISHED if self._locate()[0].done else _PENDING

        @property
        def _waiters(self) -> list[Any]:
            with self._condition:
                owner, index = self._locate()
                return owner.watch(index, self).waiters

    def _get_snapshot(self) -> tuple[bool, bool, RecordMetadata | None, BaseException | None]:
        # asyncio of Python 3.14 reads (done, cancelled, result, exception) in one go.
        if not self.done():
            return False, False, None, None
        error = _copy_of(self._error())
        return True, False, None if error is not None else self._metadata(), error

    def set_running_or_notify_cancel(self) -> bool:
        raise InvalidStateError("The producer alone completes this future")

    def set_result(self, result: RecordMetadata) -> None:
        raise InvalidStateError("The producer alone completes this future")

    def set_exception(self, exception: BaseException | None) -> None:
        raise InvalidStateError("The producer alone completes this future")

    def __reduce__(self) -> Any:
        raise TypeError("a future cannot be pickled: nobody would ever complete the copy. Send its result()")

    if not TYPE_CHECKING:  # type checkers would take any name for an attribute

        def __getattr__(self, name):
            raise no_such_attribute(self, name, FUTURE_METHODS)

    def __repr__(self) -> str:
        owner, _ = self._locate()
        if not owner.done:
            state = "pending"
        else:
            error = self._error()
            state = f"failed: {error!r}" if error is not None else repr(self._metadata())
        return f"<FutureRecordMetadata {owner.topic_partition} {state}>"


set_future_type(FutureRecordMetadata)


def _copy_of(error: KafkaError | None) -> KafkaError | None:
    """The batch's error for one reader, who may raise it.

    Raising puts frames on an error, and in these are futures, often all of the batch. The collector does not
    see through futures (see ``new_future`` in ``native/_append.pyx``): on the batch's own error the frames,
    and whatever else is in them, would stay for ever.
    """
    if error is None:
        return None
    clone: KafkaError = error.__class__.__new__(error.__class__, *error.args)
    clone.__dict__.update(error.__dict__)
    if error.__cause__ is not None:
        clone.__cause__ = error.__cause__
    return clone


def _run_done_callback(callback: Callable[[Any], object], future: FutureRecordMetadata | None) -> None:
    try:
        callback(future)
    except BaseException:
        _log.exception("A done-callback of %r raised", future)


def _reset_lock_after_fork() -> None:
    # Another thread of the parent may have held it at the fork; that thread does not exist in the child.
    FutureRecordMetadata._lock = threading.RLock()
    FutureRecordMetadata._condition = threading.Condition(FutureRecordMetadata._lock)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_lock_after_fork)

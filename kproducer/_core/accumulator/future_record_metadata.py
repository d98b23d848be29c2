"""ProduceRequestResult and FutureRecordMetadata: from a batch's outcome to the futures of its records.

There is one result per batch and one future per record. A future holds only its result and outcome, its
index in the batch, and what its RecordMetadata needs, because applications keep millions of them. Waiter
lists and callbacks are created on demand. A split batch redirects its result to those of its
parts, so futures never change. Source: Kafka classes of the same names; ``concurrent.futures`` for how
waiters attach.

Locking: one re-entrant lock for all futures of the process. ``concurrent.futures.wait`` locks the conditions
of many futures at once in an order of its own; with one condition for all futures, lock order cannot
deadlock. The lock is taken once per completed batch and by threads that wait, never by a ``send``.
"""

from __future__ import annotations

import os
import sys
import threading
from bisect import bisect_right
from collections.abc import Callable, Generator
from concurrent.futures import Future, InvalidStateError
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kproducer._core.kernel import (
    BatchOutcome,
    Deliveries,
    RecordFuture,
    fast_done,
    fast_exception,
    fast_result,
)
from kproducer._core.runtime.arguments import CALLBACK_SIGNATURE, checked_timeout_s
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer._core.runtime.public_names import public
from kproducer._core.runtime.threads import is_io_thread
from kproducer.errors import IllegalStateError, KafkaError, ResultTimeoutError
from kproducer.errors.suggestions import FUTURE_METHODS, no_such_attribute
from kproducer.types import RecordMetadata, TopicPartition

_log = GuardedLogger(__name__)

#: ``on_delivery(metadata, error)``; ``error`` is ``None`` on success.
DeliveryCallback = Callable[[RecordMetadata, "KafkaError | None"], object]

#: Texts of errors of callbacks that take other parameters, which are logged. Any I/O thread; a lost update
#: costs another line.
_uncallable: set[str] = set()
_MOST_UNCALLABLE = 100

_PENDING = "PENDING"
_FINISHED = "FINISHED"


def _raised_by_the_call(error: BaseException) -> bool:
    """Whether a callback did not even begin: the only frame is that of its caller."""
    traceback = error.__traceback__
    return traceback is None or traceback.tb_next is None


class _FutureWaiters:
    """What is attached to one future: waiters of ``concurrent.futures`` and done-callbacks."""

    def __init__(self) -> None:
        self.future: FutureRecordMetadata | None = None
        self.waiters: list[Any] = []
        self.callbacks: list[Callable[[Any], object]] = []


class ProduceRequestResult:
    """The result of one batch, shared by its futures. Thread-safe; completed once, by the I/O thread.

    Args:
        topic_partition: where the batch goes.
        outcome: of the batch, decided or not; ``None``: a new one.

    Attributes:
        outcome: the values that are known once the batch has ended; compiled code reads them.
        parts: for a split batch, the index of each part's first record, and the results of the parts.
    """

    __slots__ = ("_future_waiters", "_listeners", "_record_errors", "outcome", "parts")

    def __init__(self, topic_partition: TopicPartition, outcome: BatchOutcome | None = None) -> None:
        # Written under FutureRecordMetadata._condition; outcome and parts are read without it.
        self.outcome = BatchOutcome(topic_partition, RecordMetadata) if outcome is None else outcome
        self.parts: tuple[list[int], list[ProduceRequestResult]] | None = None
        self._record_errors: Callable[[int], KafkaError] | None = None
        self._future_waiters: dict[int, _FutureWaiters] = {}
        self._listeners: list[Callable[[], object]] = []

    @property
    def topic_partition(self) -> TopicPartition:
        """Where the batch goes."""
        topic_partition: TopicPartition = self.outcome.topic_partition  # type: ignore[assignment]
        return topic_partition

    @property
    def done(self) -> bool:
        """Whether the batch has ended and its delivery callbacks have run."""
        return self.outcome.done

    @property
    def error(self) -> KafkaError | None:
        """Why the batch failed; ``None`` on success, and before its end."""
        error: KafkaError | None = self.outcome.error
        return error

    def future(self, index: int, timestamp_ms: int, key_size: int, value_size: int) -> FutureRecordMetadata:
        """The future of the record with this index in the batch.

        Args:
            timestamp_ms: as sent.
            key_size, value_size: bytes; -1 for null.
        """
        return FutureRecordMetadata(self, self.outcome, index, timestamp_ms, key_size, value_size)

    # -- the batch's side ------------------------------------------------------------------------------

    def settle(
        self,
        base_offset: int,
        log_append_time_ms: int,
        error: KafkaError | None,
        record_errors: Callable[[int], KafkaError] | None,
    ) -> bool:
        """Decide the outcome; the first one wins. ``release`` must follow if this returns ``True``."""
        # The condition's lock is taken directly: through the condition it would take four more calls per
        # batch.
        with FutureRecordMetadata._lock:
            outcome = self.outcome
            if outcome.settled or outcome.is_split:
                return False
            outcome.settled = True
            outcome.base_offset = base_offset
            outcome.log_append_time_ms = log_append_time_ms
            outcome.error = error
            self._record_errors = record_errors
            # Inside the delivery callbacks a future is done already. For other threads it is done after all
            # of them ran, so that their effects are visible after get() or flush().
            outcome.firing_thread_id = threading.get_ident()
            return True

    def release(self, deliveries: Deliveries | None = None) -> None:
        """Run the delivery callbacks in order, then wake the waiting threads. Logs what callbacks raise."""
        raised = deliveries.run(self.outcome, self._error_copy_for, self._log_raised) if deliveries else 0
        if raised > 1:
            self.log_all_raised(raised)
        with FutureRecordMetadata._lock:
            self.outcome.done = True
            self.outcome.firing_thread_id = 0
            if not self._listeners and not self._future_waiters:
                return
            listeners, self._listeners = self._listeners, []
            # Waiter lists stay where they are: wait() and as_completed() remove their waiters later.
            all_attached: list[_FutureWaiters] = []
            if self._future_waiters:
                all_attached = [attached for _, attached in sorted(self._future_waiters.items())]
            for attached in all_attached:
                future = attached.future
                if future is None:
                    continue
                for waiter in attached.waiters:
                    if future._error() is None:
                        waiter.add_result(future)
                    else:
                        waiter.add_exception(future)
        for listener in listeners:
            listener()
        for attached in all_attached:
            future, attached.future = attached.future, None
            callbacks, attached.callbacks = attached.callbacks, []
            for done_callback in callbacks:
                _run_done_callback(done_callback, future)

    def log_all_raised(self, count: int) -> None:
        """Log that several callbacks have raised."""
        _log.error(
            "%d delivery callbacks for one batch of %s raised; of their errors, only the first is logged",
            count,
            self.topic_partition,
        )

    def _error_copy_for(self, index: int) -> KafkaError | None:
        error = self.error_for(index)
        return None if error is None else error.copy()

    def _log_raised(self) -> None:
        # Only the first callback that raises is logged: the others of this batch most likely raise the same.
        topic, partition = self.topic_partition
        fields = {"topic": topic, "partition": partition}
        error = sys.exc_info()[1]
        if isinstance(error, TypeError) and _raised_by_the_call(error):
            # Logged once per text: every record with this callback would repeat it.
            if str(error) not in _uncallable:
                if len(_uncallable) >= _MOST_UNCALLABLE:
                    _uncallable.clear()
                _uncallable.add(str(error))
                _log.error(
                    "A delivery callback for a record of %s cannot be called: %s; %s. Logged once",
                    self.topic_partition,
                    error,
                    CALLBACK_SIGNATURE,
                    extra=fields,
                )
            return
        _log.exception("A delivery callback for a record of %s raised", self.topic_partition, extra=fields)

    def abandon_after_fork(self, error: KafkaError) -> None:
        """In a forked child: fail what the parent is still working on, so that no thread waits for ever.

        The locks inside may have been held by threads that do not exist here, and callbacks and waiters are
        the parent's: nothing is locked, and nothing is called.
        """
        self._future_waiters = {}
        self._listeners = []
        if not self.outcome.settled:
            self.outcome.settled = True
            self.outcome.error = error
        self.outcome.done = True

    def split_into(self, first_indexes: list[int], results: list[ProduceRequestResult]) -> bool:
        """Redirect to the results of the parts; ``first_indexes[i]`` is the first record of part ``i``.

        Returns ``False``, and does nothing, when this one is settled already.
        """
        with FutureRecordMetadata._condition:
            if self.outcome.settled or self.outcome.is_split:
                return False
            for index, attached in self._future_waiters.items():
                part = bisect_right(first_indexes, index) - 1
                results[part]._future_waiters[index - first_indexes[part]] = attached
            self._future_waiters = {}
            self.parts = (first_indexes, results)
            self.outcome.is_split = True
            listeners, self._listeners = self._listeners, []
        # The listeners wake the threads that wait for this batch. Each then waits for the part with its
        # record.
        for listener in listeners:
            listener()
        return True

    # -- the waiters' side -----------------------------------------------------------------------------

    def wait(self, timeout_s: float | None) -> bool:
        """Block until this result, not counting parts, is done or split. ``False``: it is neither."""
        # A plain lock, which the listener releases: a threading.Event would make about twenty calls.
        waiter = threading.Lock()
        waiter.acquire()
        wake = waiter.release
        if not self.add_listener(wake):
            return True
        is_over = False
        try:
            left_s = -1 if timeout_s is None else min(max(timeout_s, 0), threading.TIMEOUT_MAX)
            is_over = waiter.acquire(timeout=left_s)
        finally:
            if not is_over:
                with FutureRecordMetadata._lock:
                    if wake in self._listeners:
                        self._listeners.remove(wake)
        return is_over

    def add_listener(self, listener: Callable[[], object]) -> bool:
        """Have ``listener()`` called once, when this result is done or split; it must not raise.

        Returns:
            ``False``: it is done or split already, and the listener is not called.
        """
        with FutureRecordMetadata._lock:
            if self.outcome.done or self.parts is not None:
                return False
            self._listeners.append(listener)
            return True

    def leaves(self) -> list[ProduceRequestResult]:
        """This result, or those of the parts it was split into, all the way down."""
        if self.parts is None:
            return [self]
        return [leaf for part in self.parts[1] for leaf in part.leaves()]

    def error_for(self, index: int) -> KafkaError | None:
        """The error of one record of a settled result."""
        error: KafkaError | None = self.outcome.error
        return self._record_errors(index) if self._record_errors is not None and error is not None else error

    def failed_count(self, record_count: int) -> int:
        """How many of its records have failed. It is done, and so are its parts.

        Args:
            record_count: how many records it has.
        """
        if self.parts is None:
            return record_count if self.error is not None else 0
        first_indexes, results = self.parts
        ends = [*first_indexes[1:], record_count]
        return sum(
            result.failed_count(end - first)
            for first, end, result in zip(first_indexes, ends, results, strict=True)
        )

    def waiters_of(self, index: int, future: FutureRecordMetadata) -> _FutureWaiters:
        """The waiters of one record's future, created on demand. The lock is held."""
        attached = self._future_waiters.setdefault(index, _FutureWaiters())
        if not self.outcome.done:
            attached.future = future
        return attached


@public
class FutureRecordMetadata(RecordFuture, Future[RecordMetadata]):
    """The future of one record's RecordMetadata. A ``concurrent.futures.Future`` that cannot be cancelled.

    Works with ``concurrent.futures.wait`` and ``as_completed``, ``asyncio.wrap_future``, and ``await`` in any
    asyncio event loop. Thread-safe. Do not block on one in an ``on_delivery`` callback: it runs on the thread
    that completes futures (its own future is done by then).
    """

    __slots__ = ()

    #: Shared by all futures, in place of the condition that Future's constructor would make for each. That
    #: constructor is not run: see above.
    _lock = threading.RLock()
    _condition = threading.Condition(_lock)

    if TYPE_CHECKING:
        _batch_result: ProduceRequestResult

    # -- reading ---------------------------------------------------------------------------------------

    def _locate(self) -> tuple[ProduceRequestResult, int]:
        """The result that decides this record now, and the record's index in it."""
        result = self._batch_result
        index = self._index
        parts = result.parts
        while parts is not None:
            part = bisect_right(parts[0], index) - 1
            index -= parts[0][part]
            result = parts[1][part]
            parts = result.parts
        return result, index

    def _metadata(self) -> RecordMetadata:
        result, index = self._locate()
        metadata: RecordMetadata = result.outcome.metadata(
            index, self._timestamp_ms, self._key_size, self._value_size
        )
        return metadata

    def _error(self) -> KafkaError | None:
        result, index = self._locate()
        return result.error_for(index)

    @property
    def has_log_append_time(self) -> bool:
        """Whether the time of the delivered record is that of the broker."""
        return self._locate()[0].outcome.log_append_time_ms >= 0

    def running(self) -> bool:
        """Always ``False``."""
        return False

    def cancelled(self) -> bool:
        """Always ``False``."""
        return False

    def cancel(self) -> bool:
        """A record cannot be taken back once accepted: returns ``False`` and does nothing."""
        return False

    # The compiled kernel answers for delivered records first: a Python frame would triple result()'s cost.

    @fast_done
    def done(self) -> bool:
        """Whether the record was delivered or has failed."""
        return self._locate()[0].outcome.is_readable()

    @fast_result
    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait until the record is delivered or has failed.

        Args:
            timeout: seconds; ``None`` waits for as long as ``delivery_timeout_ms`` allows.

        Raises:
            KafkaError: the record was not delivered; ``error.outcome`` says what is known.
            ResultTimeoutError: not known within ``timeout``; the record may still be delivered.
            IllegalStateError: not known yet, and called without ``timeout`` on the I/O thread, as in a
                delivery callback: it would deadlock, because it waits for the thread it runs on.
        """
        error = self.exception(timeout)
        if error is not None:
            try:
                raise error
            finally:
                del error  # breaks the cycle: error, traceback, this frame
        return self._metadata()

    @fast_exception
    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """Like ``result``, but return the error, a new object each time, or ``None`` on success."""
        self._wait_done(timeout)
        error = self._error()
        return None if error is None else error.copy()

    get = result

    def _wait_done(self, timeout: float | None) -> None:
        result, _ = self._locate()
        if result.outcome.is_readable():
            return
        if timeout is None and is_io_thread():
            raise IllegalStateError(
                "result() without a timeout in a delivery callback would deadlock: it waits for the thread "
                "it runs on; use add_done_callback()"
            )
        timeout_s = checked_timeout_s("result", timeout)
        # If the batch is split meanwhile, this may wait for the timeout once more: no clock is read here.
        while not result.outcome.is_readable():
            in_time = result.wait(timeout_s)
            result, _ = self._locate()
            if not in_time and not result.outcome.is_readable():
                raise self._late(timeout)

    def _late(self, timeout: float | None) -> ResultTimeoutError:
        return ResultTimeoutError(
            f"the record for {self._outcome.topic_partition} was neither acknowledged nor failed within"
            f" {timeout} s; it may still be delivered"
        )

    # -- callbacks and waiters -------------------------------------------------------------------------

    def add_done_callback(self, fn: Callable[[Future[RecordMetadata]], object]) -> None:
        """Call ``fn(future)`` when done: on the I/O thread, or at once if it is done already.

        What ``fn`` raises is logged.
        """
        if getattr(fn, "__module__", None) == "asyncio.tasks":
            # asyncio.wait() adds a callback of its own, which must run in the event loop. The I/O thread
            # would call it without waking the loop, and the loop would wait forever.
            raise TypeError(
                "asyncio.wait() takes only asyncio's own futures: give it asyncio.wrap_future(future), or "
                "use asyncio.gather(), which takes this one as it is"
            )
        with self._condition:
            result, index = self._locate()
            if not result.done:
                result.waiters_of(index, self).callbacks.append(fn)
                return
        _run_done_callback(fn, self)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self.done():
            # Imported here because it imports asyncio: only programs that use asyncio should wait for that.
            from kproducer._core.event_loop.loop_waiters import await_record

            return (yield from await_record(self))
        return self.result()

    # -- what concurrent.futures and asyncio look at ---------------------------------------------------

    if not TYPE_CHECKING:  # type checkers see Future's own attributes, as as_completed() requires

        @property
        def _state(self) -> str:
            return _FINISHED if self._locate()[0].done else _PENDING

        @property
        def _waiters(self) -> list[Any]:
            with self._condition:
                result, index = self._locate()
                return result.waiters_of(index, self).waiters

    def _get_snapshot(self) -> tuple[bool, bool, RecordMetadata | None, BaseException | None]:
        # asyncio of Python 3.14 reads (done, cancelled, result, exception) in one go.
        if not self.done():
            return False, False, None, None
        error = self.exception()
        return True, False, None if error is not None else self._metadata(), error

    def _refuse(self, *arguments: Any) -> Any:
        raise InvalidStateError("only the producer completes this future")

    if not TYPE_CHECKING:  # the types are those of Future
        set_running_or_notify_cancel = set_result = set_exception = _refuse

    def __reduce__(self) -> Any:
        raise TypeError(
            "a future cannot be pickled, because the copy would never complete. Send its result()"
        )

    if not TYPE_CHECKING:  # with it, type checkers would accept any attribute

        def __getattr__(self, name):
            raise no_such_attribute(self, name, FUTURE_METHODS)

    def __repr__(self) -> str:
        result, _ = self._locate()
        if not result.done:
            state = "pending"
        else:
            error = self._error()
            state = f"failed: {error!r}" if error is not None else repr(self._metadata())
        return f"<FutureRecordMetadata {result.topic_partition} {state}>"


# What this package asks of a future. Not methods, which applications would see.

#: The result of the batch to which the record was added.
batch_result_of: Callable[[FutureRecordMetadata], ProduceRequestResult] = attrgetter("_batch_result")

#: The same, the record's index in it, its timestamp in ms, and the sizes of key and value in bytes.
kept_of: Callable[[FutureRecordMetadata], tuple[ProduceRequestResult, int, int, int, int]] = attrgetter(
    "_batch_result", "_index", "_timestamp_ms", "_key_size", "_value_size"
)


def place_of(future: FutureRecordMetadata) -> tuple[ProduceRequestResult, int]:
    """The result that decides the record now, a part's if the batch was split, and the index in it."""
    return future._locate()


def lock_of_futures() -> threading.Condition:
    """The lock that is held while a result changes. A forked child has another one."""
    return FutureRecordMetadata._condition


def metadata_of(future: FutureRecordMetadata) -> RecordMetadata:
    """What is known of the record, also if it has failed: then the offset is -1."""
    return future._metadata()


def _run_done_callback(callback: Callable[[Any], object], future: FutureRecordMetadata | None) -> None:
    try:
        callback(future)
    except BaseException:
        _log.exception("A done-callback of %r raised", future)


def _reset_lock_after_fork() -> None:
    # Another thread of the parent may have held the lock at the fork; that thread does not exist in the
    # child.
    FutureRecordMetadata._lock = threading.RLock()
    FutureRecordMetadata._condition = threading.Condition(FutureRecordMetadata._lock)


os.register_at_fork(after_in_child=_reset_lock_after_fork)

"""LoopWaiters: the records whose outcome one asyncio event loop awaits.

A response completes batches on the I/O thread; the loop is woken once for all of them, and completes their
waiters itself. Except for one listener per batch, everything here belongs to the thread of the loop, so it
needs no lock. Imported when something is awaited, because it imports asyncio.
docs/decisions/0049-asyncio-layer.md says why asyncio is a layer.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from kproducer._core.event_loop.loop_wakeup import LoopWakeup
from kproducer._core.runtime.public_names import public
from kproducer.errors import KafkaError, Outcome
from kproducer.types import RecordMetadata

#: Waiters that are completed in one turn of the loop; the tasks that they resume run between two turns.
_WAITERS_PER_TURN = 128

_Result = TypeVar("_Result")


class AwaitedBatch(Protocol):
    """The ``ProduceRequestResult`` of a batch, as far as an event loop needs it."""

    parts: tuple[list[int], list[Any]] | None

    @property
    def done(self) -> bool: ...

    def add_listener(self, listener: Callable[[], object]) -> bool: ...


class AwaitedRecord(Protocol):
    """A ``FutureRecordMetadata``, as far as an event loop needs it."""

    _batch_result: Any

    def done(self) -> bool: ...

    def result(self, timeout: float | None = None) -> RecordMetadata: ...

    def exception(self, timeout: float | None = None) -> KafkaError | None: ...

    def add_done_callback(self, fn: Callable[[Future[RecordMetadata]], object]) -> None: ...

    def _locate(self) -> tuple[Any, int]: ...

    def __await__(self) -> Generator[Any, None, RecordMetadata]: ...


@public
class CancelledSend(str):
    """What is known of a record whose ``send`` was cancelled: the argument of the ``CancelledError``.

    A text, because libraries compare the text that they gave to ``Task.cancel``: it stays the same.

    Attributes:
        outcome: ``NOT_SENT``: the record was not accepted and will not be written. ``UNKNOWN``: it was
            accepted, and is written unless it fails; ``record`` tells.
        record: the record's ``FutureRecordMetadata`` if it was accepted; ``None`` in an object that was
            pickled, because a copy of the future would never complete.
    """

    outcome: Outcome
    record: AwaitedRecord | None

    def __new__(cls, text: object, record: AwaitedRecord | None) -> CancelledSend:
        """Called by the producer."""
        if text is None:
            text = "the record may be written" if record is not None else "the record was not sent"
        made = super().__new__(cls, text)
        made.record = record
        made.outcome = Outcome.NOT_SENT if record is None else Outcome.UNKNOWN
        return made

    def __getnewargs__(self) -> tuple[str, None]:  # type: ignore[override]
        return str(self), None

    def __getstate__(self) -> dict[str, object]:
        return {"outcome": self.outcome, "record": None}

    @classmethod
    def of(cls, error: BaseException) -> CancelledSend | None:
        """The report in a ``CancelledError``, or in an error that it caused, such as a ``TimeoutError``."""
        seen: BaseException | None = error
        for _ in range(20):
            if seen is None:
                return None
            for argument in seen.args:
                if isinstance(argument, cls):
                    return argument
            seen = seen.__cause__ or seen.__context__
        return None


class RecordFuture(asyncio.Future[_Result]):
    """What ``LoopWaiters`` completes: the ``asyncio.Future`` of a record.

    Belongs to the event loop in which it was created. If it is cancelled, the ``CancelledError`` has a
    ``CancelledSend``; a record that was accepted is delivered all the same.

    Attributes:
        record: the record's own future, which works in every thread and loop; ``None``: not accepted (yet).
    """

    # A dictionary per future would be one more object for the garbage collector to walk.
    __slots__ = ("record",)

    # Set by the code that creates the future.
    record: AwaitedRecord | None

    def cancel(self, msg: Any = None) -> bool:
        """Stop waiting: a record that was not accepted yet is not sent. ``False``: it is done already."""
        if self.done():
            return False
        return super().cancel(CancelledSend(msg, self.record))

    def complete(self, record: AwaitedRecord) -> None:
        """Take over the outcome of a record that is done. This future is not."""
        raise NotImplementedError


@public
class SendFuture(RecordFuture[RecordMetadata]):
    """The future of ``AsyncKafkaProducer.send``: await it, gather it, or give it to ``asyncio.create_task``.

    See ``RecordFuture`` for the rest.
    """

    __slots__ = ("_steps",)

    _steps: Generator[Any, None, RecordMetadata]

    def complete(self, record: AwaitedRecord) -> None:
        """See ``RecordFuture``."""
        try:
            metadata = record.result()
        except KafkaError as error:
            self.set_exception(error.with_traceback(None))
        else:
            self.set_result(metadata)

    # asyncio.create_task() and TaskGroup.create_task() take only coroutines. These methods make this future
    # one, which is why asyncio.wait() refuses it.

    def send(self, value: Any) -> Any:
        """For tasks: the next step of awaiting this."""
        return self._awaiting().send(value)

    def throw(self, *error: Any) -> Any:
        """For tasks: end awaiting with an error."""
        return self._awaiting().throw(*error)

    def close(self) -> None:
        """For tasks: end awaiting."""
        self._awaiting().close()

    def _awaiting(self) -> Generator[Any, None, RecordMetadata]:
        try:
            return self._steps
        except AttributeError:
            self._steps = self.__await__()
            return self._steps


class _LastWaiter(RecordFuture[None]):
    """Completed after all waiters that a batch had when this one was added."""

    __slots__ = ()

    def cancel(self, msg: Any = None) -> bool:
        return asyncio.Future.cancel(self, msg)  # it waits for no record, so there is nothing to report

    def complete(self, record: object) -> None:
        self.set_result(None)


class LoopWaiters:
    """Completes the waiters of one event loop. All methods but the listener: on the thread of the loop.

    Args:
        loop: the event loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.wakeup = LoopWakeup(loop, self)
        self._loop = loop
        #: The waiters of each batch that is not finished yet, in the order of their records.
        self._by_result: dict[AwaitedBatch, list[RecordFuture[Any]]] = {}
        #: The batch of the last ``add``, and its waiters: the next record is mostly in the same batch.
        self._last: AwaitedBatch | None = None
        self._last_waiters: list[RecordFuture[Any]] = []
        self._finished: deque[RecordFuture[Any]] = deque()
        #: Whether ``_complete_some`` is posted.
        self._is_completing = False

    def add(self, record: AwaitedRecord, waiter: RecordFuture[Any]) -> None:
        """Complete ``waiter`` when the record is delivered or has failed."""
        waiter.record = record
        result = record._batch_result
        if result is self._last:
            self._last_waiters.append(waiter)
            return
        if record.done():
            waiter.complete(record)
            return
        if result.parts is not None:
            result, _ = record._locate()
        waiters = self._by_result.get(result)
        if waiters is None:
            waiters = []

            def finished() -> None:
                self.wakeup.post(lambda: self._finish(result))

            if not result.add_listener(finished):
                # The batch was completed or split just now, and nothing would call the listener: look again.
                self.add(record, waiter)
                return
            self._by_result[result] = waiters
        waiters.append(waiter)
        self._last, self._last_waiters = result, waiters

    async def result_done(self, result: AwaitedBatch) -> None:
        """Wait until a batch is done or split, and this loop's waiters for it are completed."""
        waiters = self._by_result.get(result)
        if waiters is not None:
            last = _LastWaiter(loop=self._loop)
            last.record = None
            waiters.append(last)
            await last
            return
        is_over = self._loop.create_future()

        def wake() -> None:
            if not is_over.done():
                is_over.set_result(None)

        if result.add_listener(lambda: self.wakeup.post(wake)):
            await is_over

    async def caught_up(self) -> None:
        """Wait until this loop's waiters for all finished batches are completed."""
        for result in [each for each in self._by_result if each.done]:
            await self.result_done(result)
        while self._finished:
            await asyncio.sleep(0)

    def _finish(self, result: AwaitedBatch) -> None:
        """A batch is done, or was split into others."""
        if self._last is result:
            self._last, self._last_waiters = None, []
        self._finished.extend(self._by_result.get(result, ()))
        if not self._is_completing:
            self._complete_some()
        # Not before: if it is interrupted, this is called again.
        self._by_result.pop(result, None)

    def _complete_some(self) -> None:
        finished = self._finished
        try:
            for _ in range(min(_WAITERS_PER_TURN, len(finished))):
                waiter = finished[0]
                record = waiter.record
                if not waiter.done():
                    try:
                        if record is not None and record._batch_result.parts is not None:
                            self.add(record, waiter)  # wait for the part of the batch that has the record
                        else:
                            waiter.complete(record)  # type: ignore[arg-type]  # None: a _LastWaiter
                    except Exception as error:
                        if not waiter.done():
                            waiter.set_exception(error)
                finished.popleft()
        finally:
            # Also after a KeyboardInterrupt: the remaining waiters must not hang.
            if finished:
                self.wakeup.post(self._complete_some)
            self._is_completing = bool(finished)


class _ThisThread(threading.local):
    #: To the waiters of the loop that this thread ran last.
    reference: weakref.ref[LoopWaiters] | None = None


_this_thread = _ThisThread()
#: For threads that alternate between loops, and for loops that move to another thread. Each entry is used by
#: one thread at a time. References to a LoopWaiters are weak, because it refers to its loop: a loop that
#: watches a descriptor refers to it, a record that waits does, and without either, a new object does as well.
_by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[LoopWaiters]] = (
    weakref.WeakKeyDictionary()
)


def waiters_of(loop: asyncio.AbstractEventLoop) -> LoopWaiters:
    """The waiters of the event loop that runs on this thread."""
    reference = _this_thread.reference
    waiters = None if reference is None else reference()
    if waiters is not None and waiters.wakeup.loop is loop:
        return waiters
    reference = _by_loop.get(loop)
    waiters = None if reference is None else reference()
    if waiters is None:
        waiters = LoopWaiters(loop)
        reference = _by_loop[loop] = weakref.ref(waiters)
    _this_thread.reference = reference
    return waiters


def await_record(record: AwaitedRecord) -> Generator[Any, None, RecordMetadata]:
    """See ``FutureRecordMetadata.__await__``."""
    loop = asyncio.get_running_loop()
    waiter = SendFuture(loop=loop)
    waiters_of(loop).add(record, waiter)
    return waiter.__await__()

"""BackgroundCalls: calls that block, on threads of their own, one after another, awaited by event loops.

Not the loop's executor: ``asyncio.run`` waits for its threads, so a call that takes long would delay the end
of the program, and calls of the application could keep ours from running.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from kproducer._core.event_loop.loop_waiters import waiters_of
from kproducer._core.runtime.guarded_logger import GuardedLogger

_log = GuardedLogger(__name__)

_Result = TypeVar("_Result")


class BackgroundCalls:
    """Runs calls in the order in which they were awaited. Thread-safe.

    Args:
        name: of the threads.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        #: That of the latest call. Guarded by _lock.
        self._last: threading.Thread | None = None

    def begin(self, call: Callable[..., object], *arguments: Any) -> None:
        """Make a call that nobody waits for."""

        def work() -> None:
            try:
                call(*arguments)
            except Exception as error:
                _log.info("A call whose caller was cancelled has failed: %r", error)

        threading.Thread(target=work, name=self._name, daemon=True).start()

    async def run(
        self, call: Callable[..., _Result], *arguments: Any, waits: bool = True, always: bool = False
    ) -> _Result:
        """The result of ``call(*arguments)``.

        If this is cancelled before the call has begun, it does not begin, unless it is to be made ``always``;
        otherwise it continues, and nobody receives its result.

        Args:
            waits: ``False``: do not wait for earlier calls.
        """
        loop = asyncio.get_running_loop()
        wakeup = waiters_of(loop).wakeup
        outcome: asyncio.Future[_Result] = loop.create_future()
        may_begin = threading.Lock()  # held by the one who decides whether the call begins

        def finish(result: Any, error: BaseException | None) -> None:
            if outcome.done():
                return
            if error is None:
                outcome.set_result(result)
            else:
                outcome.set_exception(
                    RuntimeError(repr(error)) if isinstance(error, StopIteration) else error
                )

        def work(previous: threading.Thread | None) -> None:
            if previous is not None:
                previous.join()
            if not may_begin.acquire(blocking=False):
                return
            result, failure = None, None
            try:
                result = call(*arguments)
            except BaseException as error:
                failure = error
            wakeup.post(lambda: finish(result, failure))

        with self._lock:
            previous = self._last if waits and self._last is not None and self._last.is_alive() else None
            thread = threading.Thread(target=work, args=(previous,), name=self._name, daemon=True)
            thread.start()
            if waits:
                self._last = thread
        try:
            return await outcome
        except asyncio.CancelledError:
            if not always:
                may_begin.acquire(blocking=False)
            if outcome.done() and not outcome.cancelled():
                outcome.exception()  # asyncio would log an error that nobody retrieves
            raise

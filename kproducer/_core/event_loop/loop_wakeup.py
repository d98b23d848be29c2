"""LoopWakeup: from other threads into one asyncio event loop, with one wake-up for several actions.

Imports nothing of asyncio: a program with an event loop has loaded it. Source: ``loop.call_soon_threadsafe``.
"""

from __future__ import annotations

import contextvars
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

try:
    from kproducer._core.event_loop import _native_eventfd
except ImportError:
    _native_eventfd = None  # type: ignore[assignment]

if TYPE_CHECKING:
    import asyncio

#: Actions of one turn of the loop; between two turns, the application's tasks run.
_ACTIONS_PER_TURN = 64


class LoopWakeup:
    """Runs actions on the thread of an event loop, which creates it. ``post``: any thread.

    Args:
        loop: the event loop. If it can watch a descriptor, it refers to this object until it is closed.
        owner: an object to which it then refers, too.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, owner: object = None) -> None:
        self.loop = loop
        # Changed by any thread, without a lock: each change is one operation of the deque.
        self._actions: deque[Callable[[], object]] = deque()
        #: Whether ``_run`` will look at the actions. Two threads at once may schedule it twice.
        self._is_scheduled = False
        #: What the loop watches; it is closed with the loop. ``None``: the loop watches nothing.
        self._event = _watched_event(loop, self._run, owner)

    def post(self, action: Callable[[], object]) -> bool:
        """Have ``action()`` called by the loop. Does not wait, takes no lock, and does not raise.

        An action that is interrupted is called again.

        Returns:
            ``False``: the loop is closed, and will not call it.
        """
        self._actions.append(action)
        if self.loop.is_closed():
            self._actions.clear()
            return False
        if self._is_scheduled:
            return True
        self._is_scheduled = True
        try:
            event = None if self._event is None else self._event()
            if event is None:
                self.loop.call_soon_threadsafe(self._run)
            else:
                event.set()
        except RuntimeError:  # closed just now
            self._actions.clear()
            return False
        except BaseException:
            # Ctrl-C, perhaps before anything was scheduled: later calls must not rely on this one.
            self._is_scheduled = False
            raise
        return True

    def _run(self, event: _native_eventfd.EventDescriptor | None = None, owner: object = None) -> None:
        try:
            if event is not None:
                event.clear()
            # Before the first look, so that what is posted from here on schedules another run.
            self._is_scheduled = False
            for _ in range(_ACTIONS_PER_TURN):
                if not self._actions:
                    return
                try:
                    self._actions[0]()
                except (KeyboardInterrupt, SystemExit):
                    raise  # the action stays in the queue, because it may not have been done
                except BaseException:
                    self._actions.popleft()
                    raise
                self._actions.popleft()
        finally:
            # Also after an exception: the remaining actions must not be forgotten.
            self._is_scheduled = False
            if self._actions:
                self.loop.call_soon(self._run)
                self._is_scheduled = True


def _watched_event(
    loop: asyncio.AbstractEventLoop, on_set: Callable[..., None], owner: object
) -> weakref.ref[_native_eventfd.EventDescriptor] | None:
    """Have the loop watch an event; it calls ``on_set(event, owner)``.

    Returns:
        ``None``: nothing is compiled, or the loop cannot watch descriptors.
    """
    if _native_eventfd is None:
        return None
    try:
        event = _native_eventfd.EventDescriptor()
        # In an empty context: the loop would keep that of the task which happens to send first.
        contextvars.Context().run(loop.add_reader, event.fd, on_set, event, owner)
    except (NotImplementedError, OSError):
        return None
    return weakref.ref(event)

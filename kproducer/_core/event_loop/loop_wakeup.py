"""LoopWakeup: from other threads into one asyncio event loop.

Imports nothing of asyncio: a program with an event loop has loaded it. Source: ``loop.call_soon_threadsafe``.
"""

from __future__ import annotations

import contextvars
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from kproducer._core.runtime.event_descriptor import new_event_descriptor

if TYPE_CHECKING:
    import asyncio

    from kproducer._core.runtime.event_descriptor import EventDescriptor

#: Actions of one turn of the loop; between two turns, the application's tasks run.
_ACTIONS_PER_TURN = 64
#: ``select`` takes smaller descriptors only.
_SELECT_DESCRIPTORS = 1024


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
        #: What the loop watches; it is closed with the loop. ``None``: the loop has noticed no event yet.
        self._event: weakref.ref[EventDescriptor] | None = None
        _watch_event(loop, self._run, owner)

    def post(self, action: Callable[[], object]) -> bool:
        """Have ``action()`` called by the loop. Does not wait, takes no lock, and does not raise.

        An action that is interrupted is called again.

        Returns:
            ``False``: the loop is closed, and will not call it.
        """
        self._actions.append(action)
        event = None if self._event is None else self._event()
        try:
            if event is None or self.loop.is_closed():
                self.loop.call_soon_threadsafe(self._run)
            else:
                event.set()
        except RuntimeError:
            self._actions.clear()
            return False
        return True

    def _run(self, event: EventDescriptor | None = None, owner: object = None) -> None:
        try:
            if event is not None:
                event.clear()
                if self._event is None:
                    self._event = weakref.ref(event)
            # Those that are posted meanwhile wait for the next turn.
            for _ in range(min(len(self._actions), _ACTIONS_PER_TURN)):
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
            if self._actions:
                if event is None:
                    self.loop.call_soon(self._run)
                else:
                    event.set()


def _watch_event(loop: asyncio.AbstractEventLoop, on_set: Callable[..., None], owner: object) -> None:
    """Have the loop watch an event, if possible, and call ``on_set(event, owner)``, for the first time soon.

    Until then, nothing may rely on it: if the application has closed a watched descriptor, the loop watches
    nothing under its number.
    """
    try:
        event = new_event_descriptor()
        if event.fd >= _SELECT_DESCRIPTORS:
            return
        # In an empty context: the loop would keep that of the task which happens to send first.
        contextvars.Context().run(loop.add_reader, event.fd, on_set, event, owner)
        event.set()
    except Exception:
        return  # there is no descriptor, or it is a transport's, or the loop has no such method

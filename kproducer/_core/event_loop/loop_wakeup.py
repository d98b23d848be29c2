"""LoopWakeup: from other threads into one asyncio event loop, with one wake-up for several actions.

Imports nothing of asyncio: a program with an event loop has loaded it. Source: ``loop.call_soon_threadsafe``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

#: Actions of one turn of the loop; between two turns, the application's tasks run.
_ACTIONS_PER_TURN = 64


class LoopWakeup:
    """Runs actions on the thread of an event loop. ``post``: any thread.

    Args:
        loop: the event loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        # Changed by any thread, without a lock: each change is one operation of the deque.
        self._actions: deque[Callable[[], object]] = deque()
        #: Whether ``_run`` will look at the actions. Two threads at once may schedule it twice.
        self._is_scheduled = False

    def post(self, action: Callable[[], object]) -> bool:
        """Have ``action()`` called by the loop. Does not wait, takes no lock, and does not raise.

        An action that is interrupted is called again.

        Returns:
            ``False``: the loop is closed, and will not call it.
        """
        self._actions.append(action)
        if self._is_scheduled and not self.loop.is_closed():
            return True
        self._is_scheduled = True
        try:
            self.loop.call_soon_threadsafe(self._run)
        except RuntimeError:
            self._actions.clear()
            return False
        except BaseException:
            # Ctrl-C, perhaps before anything was scheduled: later calls must not rely on this one.
            self._is_scheduled = False
            raise
        return True

    def _run(self) -> None:
        # Reset first, so that what is posted from here on schedules another run.
        self._is_scheduled = False
        try:
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
            if self._actions:
                self.loop.call_soon(self._run)
                self._is_scheduled = True

"""ThreadWakeup: ends the wait of one thread, from any other and from signal handlers."""

from __future__ import annotations

import threading
from contextlib import suppress


class ThreadWakeup:
    """Call it to end the present wait, or the next one if the thread does not wait now. Thread-safe."""

    def __init__(self) -> None:
        # A lock, and not an Event: a signal handler may call this within another call, or within a wait.
        self._lock = threading.Lock()
        self._lock.acquire()

    def __call__(self) -> bool:
        """``True``, as ``Need.subscribe`` expects of a subscriber that wants to be called again."""
        with suppress(RuntimeError):  # it was released before
            self._lock.release()
        return True

    def wait(self, timeout_s: float) -> bool:
        """Wait for a call. For one thread.

        Returns:
            ``False``: there was none within ``timeout_s`` seconds.
        """
        return self._lock.acquire(timeout=timeout_s)

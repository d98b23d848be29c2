"""Which threads are I/O threads, and the check that the interpreter has a global interpreter lock.

I/O threads complete futures, and therefore must not wait for one. A forked child has none until it starts
one, even if an I/O thread forked it in a delivery callback: that thread is the child's main thread and
completes nothing. ``kproducer`` imports this module before everything else.
Source: PEP 703, ``sys._is_gil_enabled`` (CPython 3.13 and later).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable


class _ThisThread(threading.local):
    is_io_thread = False


_this_thread = _ThisThread()


def mark_io_thread() -> None:
    """Declare the calling thread an I/O thread."""
    _this_thread.is_io_thread = True


def is_io_thread() -> bool:
    """Whether the calling thread is an I/O thread."""
    return _this_thread.is_io_thread


def _forget_after_fork() -> None:
    _this_thread.is_io_thread = False


def refuse_without_gil() -> None:
    """Do nothing if the GIL is enabled.

    The fast path takes no lock, because the GIL makes its steps atomic. Without a GIL, records would be lost
    or corrupted, without an error.

    Raises:
        ImportError: the GIL is disabled.
    """
    is_enabled: Callable[[], bool] | None = getattr(sys, "_is_gil_enabled", None)
    if is_enabled is not None and not is_enabled():
        raise ImportError(
            "kproducer does not run on a free-threaded Python yet: enable the GIL with PYTHON_GIL=1 in the "
            "environment (or python -X gil=1), or use the ordinary build of this Python version"
        )


refuse_without_gil()
os.register_at_fork(after_in_child=_forget_after_fork)

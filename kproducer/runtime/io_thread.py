"""Which threads are I/O threads: those that complete futures, and therefore must not wait for one.

Knows nothing of what runs on them. A forked child has none until it starts one, also if the fork was made by
an I/O thread, in a delivery callback: that thread is the child's main thread and completes nothing.
"""

from __future__ import annotations

import os
import threading


class _ThisThread(threading.local):
    is_io_thread = False


_this_thread = _ThisThread()


def mark_io_thread() -> None:
    """The calling thread is an I/O thread from now on."""
    _this_thread.is_io_thread = True


def is_io_thread() -> bool:
    """Whether the calling thread is an I/O thread."""
    return _this_thread.is_io_thread


def _forget_after_fork() -> None:
    _this_thread.is_io_thread = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)

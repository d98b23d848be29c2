"""What slows down short tasks in Spark's Python workers, and what a sink can do about it.

Spark's JVM writes to a worker's socket in small pieces and leaves Nagle's algorithm on, so a piece waits
until the worker's host has acknowledged the one before: 40 ms later, if the worker has nothing to answer.
And Spark's daemon collects all garbage after each task, while the next task of the worker waits: tens of
milliseconds, spent on modules and their functions.
Source: RFC 896; RFC 1122, 4.2.3.2; ``TCP_QUICKACK`` in Linux' ``tcp(7)``; ``pyspark.daemon``; ``gc.freeze``.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import stat
import sys
from typing import Final

from pyspark import TaskContext

_OPEN_FILES: Final = "/proc/self/fd"
#: How addresses of loopback begin; the last one on sockets for both versions of IP.
_LOCAL: Final = ("127.", "::1", "::ffff:127.")

#: How many modules were imported when objects were frozen last.
_frozen_modules = 0


def acknowledge_at_once() -> None:
    """Acknowledge what the JVM has sent, and for a while what it sends, without delay. Linux only.

    Spark does not pass its socket on, so this is done for each TCP connection over loopback.
    """
    quick_ack = getattr(socket, "TCP_QUICKACK", None)
    if quick_ack is None or socket.getdefaulttimeout() is not None:
        return  # with a default timeout, a socket object would make the connection non-blocking
    with contextlib.suppress(OSError):
        for name in os.listdir(_OPEN_FILES):
            with contextlib.suppress(OSError):  # closed meanwhile, or not connected
                if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    _set_if_local(int(name), quick_ack)


def _set_if_local(descriptor: int, option: int) -> None:
    # Of a duplicate, which may be closed at any time: Spark interrupts tasks.
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        is_tcp = (
            connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM
        )
        if is_tcp and connection.getpeername()[0].startswith(_LOCAL):
            connection.setsockopt(socket.IPPROTO_TCP, option, 1)


def freeze_gc_if_modules_were_imported() -> None:
    """Exclude all present objects from garbage collection, in a Python worker of Spark.

    At the end of a task, nearly all of them belong to modules, which live until the worker ends. Planning and
    committing a write are tasks of workers of their own.
    """
    global _frozen_modules
    if len(sys.modules) > _frozen_modules and _is_worker():
        _frozen_modules = len(sys.modules)
        gc.freeze()


def _is_worker() -> bool:
    """Whether this is a process of Spark's daemon, whose argument is the module that the process runs."""
    return TaskContext.get() is not None or (len(sys.argv) > 1 and sys.argv[1].startswith("pyspark."))

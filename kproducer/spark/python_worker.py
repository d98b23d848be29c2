"""What slows down short tasks in Spark's Python workers, and what a sink can do about it.

Spark's JVM writes to a worker's socket in small pieces and leaves Nagle's algorithm on, so a piece waits
until the worker's system has acknowledged the one before: 40 ms later, if the worker has nothing to answer.
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
from ipaddress import ip_address
from typing import Final

from pyspark import TaskContext

_OPEN_FILES: Final = "/proc/self/fd"

#: When the first task ends, Spark has not yet imported what its answer needs: pandas, if that is installed.
_FIRST_TASKS: Final = 2

_ended_tasks = 0


def acknowledge_at_once() -> None:
    """Acknowledge what the JVM has sent, and for a while what it sends, without delay. Linux only.

    Spark does not pass its socket on, so this is done for each TCP connection to the same machine.
    """
    quick_ack = getattr(socket, "TCP_QUICKACK", None)
    if quick_ack is None:
        return
    with contextlib.suppress(OSError):
        for name in os.listdir(_OPEN_FILES):
            with contextlib.suppress(OSError):  # closed meanwhile, or not connected
                if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    _set_if_local(int(name), quick_ack)


def _set_if_local(descriptor: int, option: int) -> None:
    connection = socket.socket(fileno=descriptor)
    try:
        is_tcp = (
            connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM
        )
        if is_tcp and ip_address(connection.getpeername()[0]).is_loopback:
            connection.setsockopt(socket.IPPROTO_TCP, option, 1)
    finally:
        connection.detach()


def freeze_gc_after_first_tasks() -> None:
    """Exclude all present objects from garbage collection: twice per Python worker, and only in one.

    Objects that exist when the first tasks end live until the worker ends.
    """
    global _ended_tasks
    if _ended_tasks < _FIRST_TASKS and TaskContext.get() is not None:
        _ended_tasks += 1
        gc.freeze()

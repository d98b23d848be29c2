"""What happens to producers when their process forks or ends.

Holds every live producer weakly. In a forked child each is told before any other code of the child runs; when
the interpreter ends each is closed, so that accepted records are delivered or reported lost.
Knows of producers only the three methods of ``ManagedProducer``. Source: CPython's ``atexit``,
``os.register_at_fork``, and ``multiprocessing.util.Finalize`` for its children, which skip ``atexit``.
"""

from __future__ import annotations

import atexit
import itertools
import os
import sys
import weakref
from typing import Protocol

from kproducer.runtime.guarded_logger import GuardedLogger

_log = GuardedLogger(__name__)

#: Among multiprocessing's finalizers the higher ones run first; its own begin at 0 and go up to 100.
_EXIT_PRIORITY = 110


class ManagedProducer(Protocol):
    """What a process does to its producers."""

    def begin_close_at_exit(self) -> None:
        """The interpreter ends: accept no more records, go on delivering. Does not block."""

    def finish_close_at_exit(self) -> None:
        """The interpreter ends: wait until everything is delivered or has failed, and report losses."""

    def after_fork_in_child(self) -> None:
        """This process is a fork: let go of what belongs to the parent. Must not take locks or log."""


# Plain dict operations, each atomic: a lock might be held by another thread at the moment of a fork.
_live: dict[int, weakref.ref[ManagedProducer]] = {}
#: What has no owner any more and still delivers; held until ``release``.
_unowned: dict[int, ManagedProducer] = {}
_numbers = itertools.count()
_multiprocessing_exit_pid = -1


def register(producer: ManagedProducer) -> None:
    """Look after ``producer`` for as long as it lives. Thread-safe."""
    number = next(_numbers)

    def forget(_reference: weakref.ref[ManagedProducer]) -> None:
        _live.pop(number, None)

    _live[number] = weakref.ref(producer, forget)
    ensure_exit_hook()


def hold(unowned: ManagedProducer) -> None:
    """Look after something that nobody else holds any more, until ``release``."""
    _unowned[id(unowned)] = unowned


def release(unowned: ManagedProducer) -> None:
    """Forget what ``hold`` was called with; harmless if it was not."""
    _unowned.pop(id(unowned), None)


def ensure_exit_hook() -> None:
    """In a child of ``multiprocessing``, hook into its way to end, which does not run ``atexit``."""
    global _multiprocessing_exit_pid
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None or _multiprocessing_exit_pid == os.getpid():
        return
    from multiprocessing import util  # only loaded where multiprocessing is in use anyway

    _multiprocessing_exit_pid = os.getpid()
    util.Finalize(None, close_all, exitpriority=_EXIT_PRIORITY)


def live_producers() -> list[ManagedProducer]:
    """Those that are in use, and those without an owner that still deliver."""
    producers = [reference() for reference in list(_live.values())]
    return [*list(_unowned.values()), *(producer for producer in producers if producer is not None)]


def close_all() -> None:
    """Close every live producer: all at once first, then wait for each."""
    producers = live_producers()
    for step in ("begin_close_at_exit", "finish_close_at_exit"):
        for producer in producers:
            try:
                getattr(producer, step)()
            except Exception:
                _log.exception("A producer could not be closed at the end of the process")


def _after_fork_in_child() -> None:
    producers = live_producers()
    _unowned.clear()
    for producer in producers:
        producer.after_fork_in_child()


# Threads that are not daemons have ended by the time atexit runs, so nobody is cut off in the middle of
# sending; daemon threads, such as our I/O threads, run on until it is over.
atexit.register(close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)

"""Closes producers when the interpreter ends, and resets them in a forked child.

Holds weak references to all live producers. In a forked child, ``after_fork_in_child`` of each runs before
any other code of the child. When the interpreter ends, each producer is closed, so that accepted records are
delivered or reported lost. Source: CPython's ``atexit``, ``os.register_at_fork``, and
``multiprocessing.util.Finalize`` for its child processes, which skip ``atexit``.
"""

from __future__ import annotations

import atexit
import itertools
import os
import sys
import weakref
from collections.abc import Callable, Iterable
from typing import Protocol

from kproducer._core.runtime.guarded_logger import GuardedLogger

_log = GuardedLogger(__name__)

#: multiprocessing runs finalizers of higher priority first; its own have 0 to 100.
_EXIT_PRIORITY = 110


class ManagedProducer(Protocol):
    """The methods of a producer that this module calls."""

    def begin_close_at_exit(self) -> None:
        """The interpreter ends: accept no more records, continue to deliver. Does not block."""

    def finish_close_at_exit(self) -> None:
        """The interpreter ends: wait until all records are delivered or have failed; report losses."""

    def after_fork_in_child(self) -> None:
        """This process is a fork: release everything that belongs to the parent. Must not lock or log."""


# Atomic operations instead of a lock, which another thread could hold at the moment of a fork. The keys are
# numbers because producers need not be hashable.
_live: weakref.WeakValueDictionary[int, ManagedProducer] = weakref.WeakValueDictionary()
#: Producers that the application dropped and that still deliver; kept alive until ``release``.
_unowned: dict[int, ManagedProducer] = {}
#: Called when the interpreter ends, before the producers are closed. For what still has to send.
before_close: list[Callable[[], object]] = []
_numbers = itertools.count()
_multiprocessing_exit_pid = -1


def register(producer: ManagedProducer) -> None:
    """Manage ``producer`` for as long as it lives. Thread-safe."""
    _live[next(_numbers)] = producer
    ensure_exit_hook()


def hold(unowned: ManagedProducer) -> None:
    """Keep a producer alive, and manage it, until ``release``."""
    _unowned[id(unowned)] = unowned


def release(unowned: ManagedProducer) -> None:
    """Undo ``hold``. Does nothing if ``hold`` was not called."""
    _unowned.pop(id(unowned), None)


def ensure_exit_hook() -> None:
    """In a child process of ``multiprocessing``, which skips ``atexit``, register a finalizer instead."""
    global _multiprocessing_exit_pid
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None or _multiprocessing_exit_pid == os.getpid():
        return
    from multiprocessing import util  # already loaded if multiprocessing is in use

    _multiprocessing_exit_pid = os.getpid()
    util.Finalize(None, close_all, exitpriority=_EXIT_PRIORITY)


def live_producers() -> list[ManagedProducer]:
    """All producers that are in use or still deliver."""
    # ``values()`` would fail if another thread registered a producer meanwhile.
    producers = [reference() for reference in _live.valuerefs()]
    return [*list(_unowned.values()), *(producer for producer in producers if producer is not None)]


def close_all() -> None:
    """Close every live producer: begin with all, then wait for each."""
    try:
        _take(before_close)
    finally:  # also after Ctrl-C
        producers = live_producers()
        _take([each.begin_close_at_exit for each in producers])
        _take([each.finish_close_at_exit for each in producers])


def _take(steps: Iterable[Callable[[], object]]) -> None:
    for step in steps:
        try:
            step()
        except Exception:
            _log.exception("A producer could not be closed when the process ended")


def _after_fork_in_child() -> None:
    producers = live_producers()
    _unowned.clear()
    for producer in producers:
        producer.after_fork_in_child()


# atexit runs after all non-daemon threads have ended, so it does not interrupt a send(). Daemon threads, such
# as the I/O threads, continue until it is done.
atexit.register(close_all)
os.register_at_fork(after_in_child=_after_fork_in_child)

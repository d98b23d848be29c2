"""Ends a blocking poll from another thread, with as few system calls as possible.

A system call is made only when the I/O thread really waits and nobody has woken it yet: an application
that sends a million records must not write a million bytes into a pipe.
Source: what ``java.nio.channels.Selector.wakeup`` promises.
"""

from __future__ import annotations

import contextlib
import socket
import threading


class Wakeup:
    """A wake-up flag with a socket pair behind it. ``signal``: any thread; the rest: I/O thread."""

    __slots__ = ("_closed", "_lock", "_reader", "_signalled", "_waiting", "_woken", "_writer")

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        # Re-entrant: the garbage collector may run a finalizer that signals inside of every method here.
        self._lock = threading.RLock()
        # guarded by _lock (``_woken`` is read without it on the fast path of signal())
        self._woken = False
        self._waiting = False
        self._signalled = False
        self._closed = False

    def fileno(self) -> int:
        """Readable while a wake-up waits to be taken in."""
        return self._reader.fileno()

    def signal(self) -> None:
        """End the present wait, or the next one before it begins. Never blocks; coalesced. Any thread."""
        # A stale True is harmless: it is taken back only after the wait has ended, and whoever waited looks
        # for work after that, so it sees what was put there before this call.
        if self._woken:
            return
        with self._lock:
            if self._woken or self._closed:
                return
            self._woken = True
            if self._waiting:
                # The descriptor cannot be closed (and its number reused) here: close() takes the lock too.
                with contextlib.suppress(BlockingIOError):
                    self._writer.send(b"\0")
                self._signalled = True

    def begin_wait(self) -> bool:
        """Announce that a wait begins; False when it must not block because of an earlier signal."""
        with self._lock:
            if self._woken:
                return False
            self._waiting = True
            return True

    def end_wait(self) -> None:
        """The wait is over: take in the signals so far. Reads the socket only when it was written to."""
        with self._lock:
            self._waiting = False
            self._woken = False
            if self._signalled:
                self._signalled = False
                with contextlib.suppress(BlockingIOError):
                    self._reader.recv(64)

    def release_after_fork(self) -> None:
        """In a forked child: ``close``, though a thread that exists only in the parent may hold the lock."""
        self._lock = threading.RLock()
        self.close()

    def close(self) -> None:
        """Give both descriptors back; later signals do nothing. Idempotent."""
        with self._lock:
            self._closed = True
            self._reader.close()
            self._writer.close()

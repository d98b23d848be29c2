"""Ends a blocking poll from another thread, with as few system calls as possible.

It writes to the socket only if the I/O thread is waiting and no signal is pending: an application that sends
a million records must not make a million system calls.
Source: the contract of ``java.nio.channels.Selector.wakeup``.
"""

from __future__ import annotations

import socket
import threading


class Wakeup:
    """A wake-up flag with a socket pair behind it. ``signal``: any thread; the rest: I/O thread."""

    __slots__ = ("_closed", "_lock", "_reader", "_waiting", "_woken", "_writer")

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        # Keeps the descriptors open while a byte is written. Re-entrant: the garbage collector may run a
        # finalizer that calls signal() inside of signal().
        self._lock = threading.RLock()
        # signal() sets _woken, then reads _waiting; begin_wait() sets _waiting, then reads _woken: at least
        # one of the two sees the other. The interpreter lock keeps these steps in order.
        self._woken = False
        self._waiting = False
        # guarded by _lock
        self._closed = False

    def fileno(self) -> int:
        """Readable while a signal is pending."""
        return self._reader.fileno()

    def signal(self) -> None:
        """End the current wait, or make the next one not block. Never blocks; coalesced. Any thread."""
        # A stale True is harmless: end_wait() resets it, and the I/O thread looks for work after that, so it
        # finds what was added before this call.
        if self._woken:
            return
        with self._lock:
            if self._woken or self._closed:
                return
            try:
                self._woken = True
                if self._waiting:
                    # close() takes the lock too, so the descriptor cannot be closed and reused meanwhile.
                    self._writer.send(b"\0")
            except BlockingIOError:
                pass
            except BaseException:
                # Ctrl-C, perhaps before anything was written: later calls must not rely on this one.
                self._woken = False
                raise

    def begin_wait(self) -> bool:
        """Announce a wait; returns False if it must not block because a signal is pending."""
        self._waiting = True
        return not self._woken

    def end_wait(self) -> None:
        """End the wait and clear the signals so far. ``clear`` has to read the bytes in the socket."""
        self._waiting = False
        self._woken = False

    def clear(self) -> None:
        """Read what signals have written. The socket must be readable; native waits read it themselves."""
        self._reader.recv(64)

    def release_after_fork(self) -> None:
        """In a forked child: ``close``, even if a thread that exists only in the parent held the lock."""
        self._lock = threading.RLock()
        self.close()

    def close(self) -> None:
        """Close both descriptors; later signals do nothing. Idempotent."""
        with self._lock:
            self._closed = True
            self._reader.close()
            self._writer.close()

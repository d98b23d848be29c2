"""ProducerCache: producers that outlive a task, shared by the tasks of one Python worker.

Keeping a producer between micro-batches saves connections, metadata and compression estimates, but it must
not be closed while a task uses it. So the cache keeps producers by configuration, counts their users, and
closes a producer that has been idle for a while. Transactional producers have one user at a time
(``exclusive``). A forked child starts with an empty cache, because the producers belong to the parent.
Independent of Spark. Source: the pool of Spark's own sink (``InternalKafkaProducerPool``).
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

logger = logging.getLogger("kproducer.spark")

#: Identifies a producer: its settings as sorted (dotted name, text). May contain secrets: never shown.
SettingsKey = tuple[tuple[str, str], ...]

#: How long closing an idle producer may take. It has nothing to deliver, so this is ample.
_CLOSE_TIMEOUT_S = 5.0


class Closable(Protocol):
    """What the cache keeps: a producer, or the ``Connections`` of exactly-once writes, which contain one."""

    def close(self, timeout: float | None = None) -> None:
        """Close it within ``timeout`` seconds."""


P = TypeVar("P", bound=Closable)


class Lease(Generic[P]):
    """The use of a producer by one task, until ``release``. For the task's thread only.

    As a context manager it returns the producer, and discards it if an exception ends the block.

    Attributes:
        client: the producer, or the ``Connections`` that contain it.
    """

    def __init__(self, cache: ProducerCache[P], entry: _Entry[P]) -> None:
        self.client = entry.client
        self._cache = cache
        self._entry: _Entry[P] | None = entry

    def __enter__(self) -> P:
        return self.client

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Any BaseException: Spark kills a task with KeyboardInterrupt or SystemExit.
        self.release(discard=kind is not None)

    def release(self, *, discard: bool = False) -> None:
        """Return the producer to the cache. Idempotent.

        Args:
            discard: the task failed: no other task gets this producer, and records that the task left in its
                buffers are not sent. It is closed when its last user has released it.
        """
        entry, self._entry = self._entry, None
        if entry is not None:
            self._cache._release(entry, discard)


class _Entry(Generic[P]):
    """A producer and its users. Guarded by the cache's lock."""

    def __init__(self, key: SettingsKey, client: P) -> None:
        self.key, self.client = key, client
        self.users = self.idle_timeout_ms = 0
        self.timer: threading.Timer | None = None

    def cancel_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class ProducerCache(Generic[P]):
    """Producers by configuration. Thread-safe and fork-safe.

    Args:
        make_producer: creates a producer from settings with dotted names; calls never overlap.
        make_timer: creates a timer from seconds and a function; tests pass their own.
        exclusive: whether a producer has one user at a time.
    """

    def __init__(
        self,
        make_producer: Callable[[dict[str, str]], P],
        make_timer: Callable[[float, Callable[[], None]], threading.Timer] = threading.Timer,
        *,
        exclusive: bool = False,
    ) -> None:
        self._make_producer, self._make_timer, self._exclusive = make_producer, make_timer, exclusive
        self._reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        # Guarded by _lock: producers that a task can get. Discarded ones are known only to their users.
        self._entries: list[_Entry[P]] = []

    def __len__(self) -> int:
        """Number of producers that a task can get."""
        with self._lock:
            return len(self._entries)

    def acquire(self, key: SettingsKey, idle_timeout_ms: int) -> Lease[P]:
        """Get a producer with these settings; creates one if necessary. It stays open during the lease.

        Args:
            key: the settings, sorted.
            idle_timeout_ms: how long it stays open without users; 0: it is closed with the last user.
        """
        with self._lock:
            usable = (
                each for each in self._entries if each.key == key and not (self._exclusive and each.users)
            )
            entry = next(usable, None)
            if entry is None:
                # Created under the lock, so that two tasks that start together share it. This does not wait
                # for brokers.
                entry = _Entry(key, self._make_producer(dict(key)))
                self._entries.append(entry)
            entry.users += 1
            entry.idle_timeout_ms = idle_timeout_ms
            entry.cancel_timer()
            return Lease(self, entry)

    def close_idle(self) -> None:
        """Close every producer without users."""
        for entry in tuple(self._entries):
            self._close_if_idle(entry)

    def _release(self, entry: _Entry[P], discard: bool) -> None:
        with self._lock:
            entry.users -= 1
            if discard and entry in self._entries:
                self._entries.remove(entry)
            if entry.users > 0:
                return
            if entry in self._entries:
                if entry.idle_timeout_ms > 0:
                    entry.timer = self._make_timer(
                        entry.idle_timeout_ms / 1000, lambda: self._close_if_idle(entry)
                    )
                    entry.timer.daemon = True
                    entry.timer.start()
                    return
                self._entries.remove(entry)
        # Outside the lock: closing joins the producer's thread, which other tasks should not wait for.
        self._close(entry, 0.0 if discard else _CLOSE_TIMEOUT_S)

    def _close_if_idle(self, entry: _Entry[P]) -> None:
        with self._lock:
            # A task may have acquired the client after the timer fired and before this thread got the lock,
            # when cancel() was too late.
            if entry.users > 0 or entry not in self._entries:
                return
            entry.cancel_timer()
            self._entries.remove(entry)
        self._close(entry, _CLOSE_TIMEOUT_S)

    def _close(self, entry: _Entry[P], timeout_s: float) -> None:
        try:
            entry.client.close(timeout_s)
        except Exception as error:
            # Only logged: the task has its result already, or an error of its own, which is more useful.
            logger.warning("Closing a producer failed: %s: %s", type(error).__name__, error)

"""ProducerCache: producers that outlive a task, for the next task of the same Python worker.

Keeping a producer between micro-batches saves connections, metadata and compression estimates. The cache has
the idle producers, by configuration, and closes each after a while; one that a task uses belongs to that task
alone (a Python worker of Spark runs one task at a time). A forked child starts with an empty cache, because
the producers belong to the parent.
Independent of Spark. Source: the pool of Spark's own sink (``InternalKafkaProducerPool``).
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable
from functools import partial
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

    def __init__(self, cache: ProducerCache[P], key: SettingsKey, client: P, idle_timeout_ms: int) -> None:
        self.client = client
        self._cache, self._key, self._idle_timeout_ms = cache, key, idle_timeout_ms
        self._is_released = False

    def __enter__(self) -> P:
        return self.client

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Any BaseException: Spark kills a task with KeyboardInterrupt or SystemExit.
        self.release(discard=kind is not None)

    def release(self, *, discard: bool = False) -> None:
        """Return the producer to the cache. Idempotent.

        Args:
            discard: the task failed: the producer is closed, and records that the task left in its buffers
                are not sent.
        """
        if self._is_released:
            return
        self._is_released = True
        if discard or not self._idle_timeout_ms:
            _close(self.client, 0.0 if discard else _CLOSE_TIMEOUT_S)
        else:
            self._cache._keep(self._key, self.client, self._idle_timeout_ms)


class ProducerCache(Generic[P]):
    """Idle producers by configuration. Thread-safe and fork-safe.

    One timer serves all of them, and runs on while tasks use them: to start the thread of a timer after each
    task takes as long as to write a few rows.

    Args:
        make_producer: creates a producer from settings with dotted names.
        make_timer: creates a timer from seconds and a function; tests pass their own.
        clock: seconds; tests pass their own.
    """

    def __init__(
        self,
        make_producer: Callable[[dict[str, str]], P],
        make_timer: Callable[[float, Callable[[], None]], threading.Timer] = threading.Timer,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make_producer, self._make_timer, self._clock = make_producer, make_timer, clock
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        # Guarded by _lock: what is idle, each until when; and when the next timer fires.
        self._idle: list[tuple[SettingsKey, P, float]] = []
        self._timer_s = math.inf

    def acquire(self, key: SettingsKey, idle_timeout_ms: int) -> Lease[P]:
        """Get a producer with these settings; creates one if none is idle. It stays open during the lease.

        Args:
            key: the settings, sorted.
            idle_timeout_ms: how long it stays open after the lease; 0: it is closed at once.
        """
        client = self._take(key)
        if client is None:
            client = self._make_producer(dict(key))
        return Lease(self, key, client, idle_timeout_ms)

    def _take(self, key: SettingsKey) -> P | None:
        """Remove an idle producer; ``None``: there is none."""
        with self._lock:
            found = next((each for each in self._idle if each[0] == key), None)
            if found is None:
                return None
            self._idle.remove(found)
        return found[1]

    def _keep(self, key: SettingsKey, client: P, idle_timeout_ms: int) -> None:
        with self._lock:
            self._idle.append((key, client, self._clock() + idle_timeout_ms / 1000))
        self._start_timer()

    def _start_timer(self) -> None:
        """Start a timer for what expires first, unless one fires by then."""
        with self._lock:
            first_s = min((until_s for *_, until_s in self._idle), default=math.inf)
            if first_s >= self._timer_s:
                return
            self._timer_s = first_s
            timer = self._make_timer(first_s - self._clock(), partial(self._close_expired, first_s))
        timer.daemon = True
        timer.start()

    def _close_expired(self, timer_s: float) -> None:
        """Close what has expired. Called by the timer for ``timer_s``."""
        with self._lock:
            now_s = self._clock()
            expired = [client for _, client, until_s in self._idle if until_s <= now_s]
            self._idle = [each for each in self._idle if each[2] > now_s]
            if self._timer_s == timer_s:
                self._timer_s = math.inf
        self._start_timer()
        for client in expired:
            _close(client, _CLOSE_TIMEOUT_S)


def _close(client: Closable, timeout_s: float) -> None:
    try:
        client.close(timeout_s)
    except Exception as error:
        # Only logged: the task has its result already, or an error of its own, which is more useful.
        logger.warning("Closing a producer failed: %s: %s", type(error).__name__, error)

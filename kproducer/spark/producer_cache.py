"""ProducerCache: producers that outlive a task, shared by the tasks of one Python worker.

Connections, metadata and compression estimates are worth keeping between micro-batches, but a producer must
not be closed while a task uses it. So producers are kept by configuration, their users are counted, and a
producer is closed when it has had no user for a while. Transactional producers serve one user at a time
(``exclusive``). A forked child starts with an empty cache: the parent's producers belong to the parent.
Independent of Spark.
Source: the pool of Spark's own sink (``InternalKafkaProducerPool``).
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from kproducer.bulk.arrow_columns import ArrowColumns
from kproducer.bulk.send_arrow import ArrowSink

logger = logging.getLogger("kproducer.spark")

#: What identifies a producer: its settings as sorted (dotted name, text). May hold secrets: never shown.
SettingsKey = tuple[tuple[str, str], ...]

#: An idle producer has nothing to deliver, so this is ample.
_CLOSE_TIMEOUT_S = 5.0


class Producer(Protocol):
    """The part of ``KafkaProducer`` that the sink uses."""

    def arrow_sink(self, topic: str | None, columns: ArrowColumns) -> ArrowSink:
        """Return an object that takes RecordBatches."""

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all records are delivered."""

    def metrics(self) -> Mapping[str, Any]:
        """Counters."""

    def close(self, timeout: float | None = None) -> None:
        """Close it."""


class Closable(Protocol):
    """What the cache keeps."""

    def close(self, timeout: float | None = None) -> None:
        """Close it, within so many seconds."""


P = TypeVar("P", bound=Closable)


class Lease(Generic[P]):
    """One task's use of a producer, until ``release``. Used on the task's thread only.

    As a context manager it gives the producer, and discards it if an exception ends the block.
    """

    __slots__ = ("_cache", "_entry", "producer")

    def __init__(self, cache: ProducerCache[P], entry: _Entry[P]) -> None:
        self.producer = entry.producer
        self._cache = cache
        self._entry: _Entry[P] | None = entry

    def __enter__(self) -> P:
        return self.producer

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Any BaseException: Spark kills a task with KeyboardInterrupt or SystemExit.
        self.release(discard=kind is not None)

    def release(self, *, discard: bool = False) -> None:
        """Give the producer back. Idempotent.

        Args:
            discard: the task failed: no other task gets this producer, and what the task left in its buffers
            is
                not sent. It is closed when its last user has released it.
        """
        entry, self._entry = self._entry, None
        if entry is not None:
            self._cache._release(entry, discard)


class _Entry(Generic[P]):
    """A producer and its users. Guarded by the cache's lock."""

    __slots__ = ("discarded", "idle_timeout_ms", "key", "producer", "timer", "users")

    def __init__(self, key: SettingsKey, producer: P) -> None:
        self.key = key
        self.producer = producer
        self.users = 0
        self.idle_timeout_ms = 0
        self.discarded = False
        self.timer: threading.Timer | None = None


class ProducerCache(Generic[P]):
    """Producers by configuration. Thread-safe and fork-safe.

    Args:
        make_producer: makes a producer from settings (dotted names); not called concurrently.
        exclusive: whether a producer has one user at a time.
        make_timer: makes a timer from seconds and a function; tests use their own.
    """

    def __init__(
        self,
        make_producer: Callable[[dict[str, str]], P],
        make_timer: Callable[[float, Callable[[], None]], threading.Timer] = threading.Timer,
        *,
        exclusive: bool = False,
    ) -> None:
        self._make_producer = make_producer
        self._make_timer = make_timer
        self._exclusive = exclusive
        self._lock = threading.Lock()
        # Guarded by _lock: producers that a task can get. Only their users have discarded ones.
        self._entries: list[_Entry[P]] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._start_afresh)

    def __len__(self) -> int:
        """Number of producers that a task can get."""
        with self._lock:
            return len(self._entries)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a producer cache belongs to its process and cannot be pickled")

    def acquire(self, key: SettingsKey, idle_timeout_ms: int) -> Lease[P]:
        """Get a producer with these settings, a new one if necessary. It stays open while the lease lasts.

        Args:
            key: the settings, sorted.
            idle_timeout_ms: how long it stays open without users; 0: it is closed at once.
        """
        with self._lock:
            usable = (
                each for each in self._entries if each.key == key and not (self._exclusive and each.users)
            )
            entry = next(usable, None)
            if entry is None:
                # Made under the lock, so that two tasks that start together share one. It waits for no
                # broker.
                entry = _Entry(key, self._make_producer(dict(key)))
                self._entries.append(entry)
            entry.users += 1
            entry.idle_timeout_ms = idle_timeout_ms
            if entry.timer is not None:
                entry.timer.cancel()
                entry.timer = None
            return Lease(self, entry)

    def close_idle(self) -> None:
        """Close every producer without users."""
        with self._lock:
            idle = [entry for entry in self._entries if entry.users == 0]
            for entry in idle:
                self._forget_locked(entry)
        for entry in idle:
            self._close(entry, _CLOSE_TIMEOUT_S)

    def _release(self, entry: _Entry[P], discard: bool) -> None:
        with self._lock:
            entry.users -= 1
            if discard and not entry.discarded:
                self._forget_locked(entry)
            if entry.users > 0:
                return
            if not entry.discarded and entry.idle_timeout_ms > 0:
                entry.timer = self._make_timer(
                    entry.idle_timeout_ms / 1000, lambda: self._close_if_still_idle(entry)
                )
                entry.timer.daemon = True
                entry.timer.start()
                return
            self._forget_locked(entry)
        # Outside the lock: closing joins the producer's thread, and other tasks should not wait for that.
        self._close(entry, 0.0 if discard else _CLOSE_TIMEOUT_S)

    def _close_if_still_idle(self, entry: _Entry[P]) -> None:
        with self._lock:
            # A task may have taken it after the timer fired and before this lock: too late for cancel().
            if entry.users > 0 or entry.discarded:
                return
            self._forget_locked(entry)
        self._close(entry, _CLOSE_TIMEOUT_S)

    def _forget_locked(self, entry: _Entry[P]) -> None:
        entry.discarded = True
        if entry.timer is not None:
            entry.timer.cancel()
            entry.timer = None
        if entry in self._entries:
            self._entries.remove(entry)

    def _close(self, entry: _Entry[P], timeout_s: float) -> None:
        try:
            entry.producer.close(timeout_s)
        except Exception as error:
            # The task already has its result, or its own error, which says more than this one.
            logger.warning("closing a producer: %s: %s", type(error).__name__, error)

    def _start_afresh(self) -> None:
        # In a forked child: a thread of the parent may hold the lock, and the timers are gone. The producers
        # are not closed: their sockets and records are the parent's.
        self._lock = threading.Lock()
        self._entries = []


def _make_kafka_producer(settings: dict[str, str]) -> Producer:
    from kproducer.kafka_producer import KafkaProducer

    return KafkaProducer.from_config(settings)


#: The cache of this process: a global, because writers are pickled and caches cannot be.
PRODUCERS: ProducerCache[Producer] = ProducerCache(_make_kafka_producer)

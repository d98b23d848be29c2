"""ProducerCache: producers that outlive a task, shared by the tasks of one Python worker.

A connection, its metadata and its batches in the making are worth keeping between micro-batches; a producer
that somebody uses must never be closed. So producers are kept by configuration, counted, and closed only when
nobody has held one for a while. Transactional ones serve one user at a time, from a cache that is told so. A
forked child starts with an empty cache: the parent's producers are the parent's. Knows nothing of Spark.
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

#: An idle producer has nothing to deliver, so closing it needs no patience.
_CLOSE_TIMEOUT_S = 5.0


class Producer(Protocol):
    """The part of ``KafkaProducer`` that the sink uses."""

    def arrow_sink(self, topic: str | None, columns: ArrowColumns) -> ArrowSink:
        """What takes RecordBatches."""

    def flush(self, timeout: float | None = None) -> None:
        """Wait for everything that was handed over."""

    def metrics(self) -> Mapping[str, Any]:
        """Counters."""

    def close(self, timeout: float | None = None) -> None:
        """End it."""


class Closable(Protocol):
    """All that the cache knows of what it keeps."""

    def close(self, timeout: float | None = None) -> None:
        """End it, within so many seconds."""


P = TypeVar("P", bound=Closable)


class Lease(Generic[P]):
    """One task's use of a producer; ``release`` ends it, once. For the task's thread."""

    __slots__ = ("_cache", "_entry", "producer")

    def __init__(self, cache: ProducerCache[P], entry: _Entry[P]) -> None:
        self.producer = entry.producer
        self._cache = cache
        self._entry: _Entry[P] | None = entry

    def release(self, *, discard: bool = False) -> None:
        """Give the producer back.

        Args:
            discard: nobody shall get this producer again: the task failed, and what it left in the buffers
                shall not be sent. It is closed when the last of its users has gone.
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
        make_producer: from settings (dotted names) to a producer; called at most once at a time.
        exclusive: a producer has one user at a time; two that come together get two.
        make_timer: (seconds, function) to something with ``start`` and ``cancel``; a test brings its own.
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
        # Guarded by _lock: producers that a task can get. Discarded ones are known to their users only.
        self._entries: list[_Entry[P]] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._start_afresh)

    def __len__(self) -> int:
        """How many producers are open and can be had."""
        with self._lock:
            return len(self._entries)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a producer cache belongs to its process and cannot be pickled")

    def acquire(self, key: SettingsKey, idle_timeout_ms: int) -> Lease[P]:
        """Get the producer of these settings, a new one if need be. It is open until the lease is released.

        Args:
            key: the settings, sorted.
            idle_timeout_ms: how long it stays open when nobody uses it; 0: it is closed at once.
        """
        with self._lock:
            entry = self._usable_locked(key)
            if entry is None:
                # Made under the lock: two tasks that start together shall share one. No broker is waited for.
                entry = _Entry(key, self._make_producer(dict(key)))
                self._entries.append(entry)
            entry.users += 1
            entry.idle_timeout_ms = idle_timeout_ms
            if entry.timer is not None:
                entry.timer.cancel()
                entry.timer = None
            return Lease(self, entry)

    def close_idle(self) -> None:
        """Close every producer that nobody uses now."""
        with self._lock:
            idle = [entry for entry in self._entries if entry.users == 0]
            for entry in idle:
                self._forget_locked(entry)
        for entry in idle:
            self._close(entry, _CLOSE_TIMEOUT_S)

    def _usable_locked(self, key: SettingsKey) -> _Entry[P] | None:
        # A worker has few, so they are looked through.
        for entry in self._entries:
            if entry.key == key and not (self._exclusive and entry.users):
                return entry
        return None

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
        # Outside the lock: closing joins the producer's thread, and other tasks shall not wait for that.
        self._close(entry, 0.0 if discard else _CLOSE_TIMEOUT_S)

    def _close_if_still_idle(self, entry: _Entry[P]) -> None:
        with self._lock:
            # A task may have taken it between the timer's firing and this lock; cancel() came too late then.
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
            # The task has its result already (or its own error, which says more than this one).
            logger.warning("closing a producer: %s: %s", type(error).__name__, error)

    def _start_afresh(self) -> None:
        # In a forked child: the lock may be held by a thread that is not here, and the timers are gone.
        # Producers are let go without closing: their sockets and records are the parent's.
        self._lock = threading.Lock()
        self._entries = []


def _make_kafka_producer(settings: dict[str, str]) -> Producer:
    from kproducer.kafka_producer import KafkaProducer

    return KafkaProducer.from_config(settings)


#: The one of this process. A module's name and not an argument, since writers are pickled and caches are not.
PRODUCERS: ProducerCache[Producer] = ProducerCache(_make_kafka_producer)

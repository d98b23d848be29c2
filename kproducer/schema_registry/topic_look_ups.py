"""TopicLookUps: what a schema registry says of each topic; looked up once, then used without a lock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

import attrs

from kproducer.errors import KafkaError, SchemaRegistryError
from kproducer.schema_registry import deadlines, forked_children

#: Topics that one serializer remembers. The oldest is looked up again, which the client's cache answers.
_MOST_TOPICS = 1_000
#: How long a result is used after its end if the registry does not answer; then the next look-up is made.
_RETRY_AFTER_S = 30.0


#: The result of a look-up.
Found = TypeVar("Found")


@attrs.define
class _LookUp:
    """A look-up that a thread makes, for itself and for others that wait for it.

    Attributes:
        thread_id: the thread.
        is_done: set when ``error`` or the result is known.
        error: why it failed; ``None`` also if it was interrupted.
    """

    thread_id: int
    is_done: threading.Event = attrs.field(factory=threading.Event)
    error: KafkaError | None = None


class TopicLookUps(Generic[Found]):
    """What was found for the keys, or for the values, of each topic. Thread-safe; usable in a forked child.

    Args:
        find: looks a topic up; may block, and raises a ``KafkaError``.
        max_block_ms: how long a look-up takes at most, with all its requests, and how long a thread waits for
            the look-up of another one.
        ttl_s: how long a result is used, in seconds; ``None``: for ever. If a look-up after it fails for
            a temporary reason, the result is used for another 30 seconds.
    """

    def __init__(self, find: Callable[[str], Found], max_block_ms: float, ttl_s: float | None) -> None:
        # Fixed after construction.
        self._find = find
        self._max_block_ms = max_block_ms
        self._ttl_s = ttl_s
        # Written under _lock, read without it. By topic: the result, and its end (monotonic; 0: none).
        self._found: dict[str, tuple[Found, float]] = {}
        # The look-ups that are under way. Guarded by _lock, which a signal handler may take again on the same
        # thread.
        self._lock = threading.RLock()
        self._look_ups: dict[str, _LookUp] = {}
        forked_children.register(self)

    def find(self, topic: str) -> Found:
        """What is known of a topic. Blocks if it has to be looked up.

        Raises:
            SerializationError: the look-up failed.
        """
        known = self._found.get(topic)
        if known is not None and (not known[1] or time.monotonic() < known[1]):
            return known[0]
        return self._look_up(topic)

    def is_prepared(self, topic: str) -> bool:
        """Whether ``find`` would return at once."""
        known = self._found.get(topic)
        return known is not None and (not known[1] or time.monotonic() < known[1])

    def after_fork_in_child(self) -> None:
        """Threads that look something up are the parent's. Must not lock."""
        self._lock = threading.RLock()
        self._look_ups = {}

    def _look_up(self, topic: str) -> Found:
        deadline = time.monotonic() + self._max_block_ms / 1000
        while not self.is_prepared(topic):
            with self._lock:
                other = self._look_ups.get(topic)
                # A signal handler must not wait for the look-up that it interrupts.
                if other is None or other.thread_id == threading.get_ident():
                    mine = _LookUp(threading.get_ident())
                    self._look_ups[topic] = mine
                    other = None
            if other is None:
                return self._look_up_for_all(topic, mine)
            if not other.is_done.wait(max(deadline - time.monotonic(), 0)):
                raise SchemaRegistryError(
                    f"the look-up of the schema for topic {topic!r} by another thread took longer than "
                    f"{self._max_block_ms:.0f} ms; check the schema registry"
                )
            if other.error is not None:
                raise other.error.copy()
        return self._found[topic][0]

    def _look_up_for_all(self, topic: str, mine: _LookUp) -> Found:
        try:
            with deadlines.within(self._max_block_ms / 1000):
                found = self._find(topic)
            ends_at = 0.0 if self._ttl_s is None else time.monotonic() + self._ttl_s
            with self._lock:
                self._found.pop(topic, None)
                self._found[topic] = found, ends_at
                if len(self._found) > _MOST_TOPICS:
                    del self._found[next(iter(self._found))]
            return found
        except KafkaError as error:
            with self._lock:
                known = self._found.get(topic)
                if known is not None and isinstance(error, SchemaRegistryError) and error.is_temporary:
                    # Sending does not stop with the registry: the id in these records remains valid.
                    self._found[topic] = known[0], time.monotonic() + _RETRY_AFTER_S
                    return known[0]
            mine.error = error.copy()
            raise
        finally:
            with self._lock:
                if self._look_ups.get(topic) is mine:
                    del self._look_ups[topic]
            mine.is_done.set()

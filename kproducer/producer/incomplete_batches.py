"""IncompleteBatches: the batches that were accepted and whose memory has not been given back.

What flush waits for and what a forced close fails. Source: Kafka class ``IncompleteBatches``.
"""

from __future__ import annotations

import threading

from kproducer.producer.producer_batch import ProducerBatch


class IncompleteBatches:
    """A set of batches in the order they came. Thread-safe."""

    __slots__ = ("_batches", "_lock")

    def __init__(self) -> None:
        # Re-entrant: the garbage collector may count the members at any moment, on any thread.
        self._lock = threading.RLock()
        # Guarded by _lock. A dict for its order: aborts then fail records in the order they were sent.
        self._batches: dict[ProducerBatch, None] = {}

    def __len__(self) -> int:
        return len(self._batches)

    def add(self, batch: ProducerBatch) -> None:
        with self._lock:
            self._batches[batch] = None

    def remove(self, batch: ProducerBatch) -> bool:
        """``False``: it was not there (any more)."""
        with self._lock:
            if batch not in self._batches:
                return False
            del self._batches[batch]
            return True

    def copy(self) -> list[ProducerBatch]:
        """The present members, oldest first."""
        with self._lock:
            return list(self._batches)

    def members_after_fork(self) -> list[ProducerBatch]:
        """The members, without the lock: in a forked child a thread that is not there may hold it."""
        return list(self._batches)

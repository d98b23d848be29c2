"""IncompleteBatches: the batches that were accepted and whose memory has not been given back.

What flush waits for and what a forced close fails. Source: Kafka class ``IncompleteBatches``.
"""

from __future__ import annotations

from kproducer.accumulator.producer_batch import ProducerBatch


class IncompleteBatches:
    """A set of batches in the order they came. Thread-safe, without a lock.

    Each method is one operation of a dict whose keys compare by identity, so no other Python code can run in
    the midst of it: no thread, no forked child and no finalizer ever sees half of one.
    """

    __slots__ = ("_batches",)

    def __init__(self) -> None:
        # A dict for its order: aborts then fail records in the order they were sent.
        self._batches: dict[ProducerBatch, ProducerBatch] = {}

    def __len__(self) -> int:
        return len(self._batches)

    def __contains__(self, batch: object) -> bool:
        return batch in self._batches

    def add(self, batch: ProducerBatch) -> None:
        self._batches[batch] = batch

    def remove(self, batch: ProducerBatch) -> bool:
        """``False``: it was not there (any more)."""
        return self._batches.pop(batch, None) is not None

    def copy(self) -> list[ProducerBatch]:
        """The present members, oldest first."""
        return list(self._batches)

    def members_after_fork(self) -> list[ProducerBatch]:
        """Likewise, in a forked child."""
        return self.copy()

"""InFlightBatches: which batches are at a broker, and which of these have waited too long.

A batch is here from the moment its request is made until the response, or the end of the connection, came.
Looking for expired ones costs nothing while the oldest is young. Knows nothing of requests.
Source: KIP-91; Kafka's ``Sender.inFlightBatches``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kproducer.accumulator.producer_batch import ProducerBatch

_NEVER = 2**63 - 1


class InFlightBatches:
    """The batches in flight and the node each is at. I/O thread only; others may read ``len``."""

    __slots__ = ("_delivery_timeout_ms", "_earliest_expiry_ms", "_node_of_batch")

    def __init__(self, delivery_timeout_ms: int) -> None:
        self._delivery_timeout_ms = delivery_timeout_ms
        self._node_of_batch: dict[ProducerBatch, int] = {}
        self._earliest_expiry_ms = _NEVER

    def __len__(self) -> int:
        return len(self._node_of_batch)

    def __contains__(self, batch: object) -> bool:
        return batch in self._node_of_batch

    @property
    def next_expiry_ms(self) -> int:
        """A time (monotonic) before which nothing here expires."""
        return self._earliest_expiry_ms

    def add_all(self, batches: Sequence[ProducerBatch], node_id: int) -> None:
        """Note that batches are on their way to a node."""
        node_of_batch = self._node_of_batch
        earliest_ms = self._earliest_expiry_ms - self._delivery_timeout_ms
        for batch in batches:
            node_of_batch[batch] = node_id
            if batch.closed_ms < earliest_ms:
                earliest_ms = batch.closed_ms
                self._earliest_expiry_ms = earliest_ms + self._delivery_timeout_ms

    def remove(self, batch: ProducerBatch) -> None:
        """Note that the request's fate is known. The earliest expiry may now be too early: never too late."""
        node_of_batch = self._node_of_batch
        node_of_batch.pop(batch, None)
        if not node_of_batch:
            self._earliest_expiry_ms = _NEVER

    def expired(self, now_ms: int) -> list[tuple[ProducerBatch, int]]:
        """Batches past ``delivery_timeout_ms`` that nobody has completed, with their node ids.

        They stay here, since their bytes may still be in a socket, but are not reported again.
        """
        if now_ms < self._earliest_expiry_ms:
            return []
        due: list[tuple[ProducerBatch, int]] = []
        earliest_ms = _NEVER
        for batch, node_id in self._node_of_batch.items():
            if batch.is_done:
                continue
            expiry_ms = batch.closed_ms + self._delivery_timeout_ms
            if expiry_ms <= now_ms:
                due.append((batch, node_id))
            else:
                earliest_ms = min(earliest_ms, expiry_ms)
        self._earliest_expiry_ms = earliest_ms
        return due

    def clear(self) -> None:
        """Forget everything: the connections are closed."""
        self._node_of_batch.clear()
        self._earliest_expiry_ms = _NEVER

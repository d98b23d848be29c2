"""BatchDrain: takes out what goes into the next request to each node, finished and ready to be sent.

I/O thread only. Knows nothing of how batches were filled, and nothing of requests but their greatest size.
Source: Kafka's ``RecordAccumulator.drainBatchesForOneNode``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import TYPE_CHECKING

from kproducer.errors import KafkaError
from kproducer.runtime.guarded_logger import GuardedLogger

if TYPE_CHECKING:
    from kproducer.accumulator.partition_queues import PartitionQueue, PartitionQueues
    from kproducer.accumulator.producer_batch import ProducerBatch
    from kproducer.accumulator.ready_queues import ReadyQueues
    from kproducer.runtime.clock import Clock
    from kproducer.transactions.transaction_manager import TransactionManager
    from kproducer.types import Node

_log = GuardedLogger(__name__)

_id_of = attrgetter("id")


class BatchDrain:
    """Drains queues, node by node, in rotation. I/O thread only.

    Args:
        queues: where batches wait.
        ready: which of them may be drained, and in which order.
        transactions: numbers the batches; ``None``: they go unnumbered.
        clock: tells when a batch took its last record, which is after ``now_ms``.
        open_slot_locked: lets compiled code append to a queue's open batch again.
        deallocate: gives back the memory of a batch that could not be finished.
    """

    __slots__ = ("_clock", "_deallocate", "_open_slot_locked", "_queues", "_ready", "_transactions")

    def __init__(
        self,
        queues: PartitionQueues,
        ready: ReadyQueues,
        transactions: TransactionManager | None,
        open_slot_locked: Callable[[PartitionQueue], None],
        clock: Clock,
        deallocate: Callable[[ProducerBatch], None],
    ) -> None:
        self._queues = queues
        self._ready = ready
        self._transactions = transactions
        self._open_slot_locked = open_slot_locked
        self._clock = clock
        self._deallocate = deallocate

    def drain(
        self, nodes: Iterable[Node], max_request_size: int, now_ms: int
    ) -> dict[int, list[ProducerBatch]]:
        """See ``RecordAccumulator.drain``; ``ready`` has caught up."""
        drained: dict[int, list[ProducerBatch]] = {}
        for node in sorted(nodes, key=_id_of):
            batches = self.drain_node(node.id, max_request_size, now_ms)
            if batches:
                drained[node.id] = batches
        return drained

    def drain_node(self, node_id: int, max_request_size: int, now_ms: int) -> list[ProducerBatch]:
        """At most one batch of each of the node's queues; what was drained goes behind all others."""
        ready, queues = self._ready, self._queues
        drained: list[ProducerBatch] = []
        size = 0
        rotation = ready.rotation_of(node_id)
        for _ in range(len(rotation)):
            queue = rotation[0]
            with queue.lock:
                batch = ready.first_batch(queue, now_ms)
                if batch is None:
                    rotation.popleft()
                    queue.node = None
                    continue
                if size:
                    # While the slot is empty the size does not change.
                    queue.slot.appender = None
                    if size + batch.estimated_size_bytes > max_request_size:
                        # Nothing smaller jumps ahead: this queue is the node's first next time.
                        self._open_slot_locked(queue)
                        break
                batch.maybe_update_leader_epoch(queue.leader_epoch)
                queues.pop_first_locked(queue, self._clock.monotonic_ms())
                rotation.popleft()
                if queue.batches:
                    rotation.append(queue)
                    queues.changed.append(queue)
                else:
                    queue.node = None
            # Compression takes its time: with no lock held.
            size_bytes = self._finish(batch)
            if size_bytes:
                batch.drained(now_ms)
                size += size_bytes
                drained.append(batch)
        return drained

    def _finish(self, batch: ProducerBatch) -> int:
        """Number and close a batch and return its size; 0: it could not be finished, and has failed."""
        try:
            if self._transactions is not None:
                self._transactions.drained(batch)
            return batch.records().nbytes
        except Exception as exception:
            _log.exception("A batch for %s could not be finished", batch.topic_partition)
            error = KafkaError(f"The batch for {batch.topic_partition} could not be finished: {exception!r}")
            error.outcome = batch.outcome
            error.__cause__ = exception
            if self._transactions is not None:
                self._transactions.failed(batch, error, batch.outcome)
            batch.complete_exceptionally(error)
            self._deallocate(batch)
            return 0

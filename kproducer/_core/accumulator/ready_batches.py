"""ReadyBatches: which brokers can be sent something, and the batches that go into their next requests.

The draining half of the accumulator; ``record_accumulator`` is the half that takes records. ``ReadyQueues``
knows which queues are ready. Knows nothing of requests and connections.
Source: Kafka class ``RecordAccumulator`` (ready, drain); KIP-580 (backoff), KIP-794 (partitioning), KIP-951
(no backoff after a leader change).

Differs from Kafka, which visits all partitions: here only queues that hold batches are visited, so that idle
partitions cost nothing. A drained queue goes behind all others of its broker, so that no partition starves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from operator import attrgetter
from typing import TYPE_CHECKING

from kproducer._core.accumulator.built_in_partitioner import PartitionLoad
from kproducer._core.accumulator.partition_queue import PartitionQueue, PartitionQueues
from kproducer._core.accumulator.producer_batch import ProducerBatch
from kproducer._core.accumulator.ready_queues import NodeQueues, ReadyCheckResult, ReadyQueues
from kproducer._core.client.metadata_snapshot import MetadataSnapshot
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.runtime.clock import Clock
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer.errors import KafkaError
from kproducer.types import Node

if TYPE_CHECKING:
    from kproducer._core.transactions.transaction_manager import TransactionManager

_log = GuardedLogger(__name__)


class ReadyBatches:
    """Finds and drains what can be sent. I/O thread only.

    Args:
        config: linger, partitioning.
        clock: for the time of a batch's last record.
        queues: all queues.
        transaction_manager: numbers the batches, and decides which of them may be drained; ``None``: all,
            unnumbered.
        flushes: one entry per flush that is under way.
        waiters: one entry per thread that waits for memory.
        release: returns the memory of a batch that could not be closed.
    """

    def __init__(
        self,
        config: ProducerConfig,
        clock: Clock,
        queues: PartitionQueues,
        transaction_manager: TransactionManager | None,
        flushes: Collection[object],
        waiters: Collection[object],
        release: Callable[[ProducerBatch], None],
    ) -> None:
        self._clock = clock
        self._queues = queues
        self._transaction_manager = manager = transaction_manager
        self._flushes = flushes
        self._waiters = waiters
        self._release = release
        self._counted_snapshot: MetadataSnapshot | None = None
        self._counted_topics = 0
        self._load = PartitionLoad(
            config.partitioner_adaptive_partitioning_enable, config.partitioner_availability_timeout_ms
        )
        self._ready = ReadyQueues(
            queues,
            config.linger_ms,
            None if manager is None else manager.may_drain,
            None if manager is None or manager.lifecycle.transactional_id is None else manager.announce,
        )
        #: After an unexpected error: have the next look begin with all queues.
        self.start_over = self._ready.start_over
        #: (node id, now_ms, can_drain): a node had something ready, and whether it could take it (KIP-794).
        self.update_node_latency_stats = self._load.note_node

    def ready(self, snapshot: MetadataSnapshot, now_ms: int) -> ReadyCheckResult:
        """Which nodes have something to be sent to them now, and when to look again.

        A partition's first batch is ready when its partition is not muted, its backoff is over (or the leader
        has changed since the last attempt), and any of these holds: it is full or followed by another; it has
        lingered; it was sent before; a thread waits for memory; a flush or the close is under way.
        """
        if snapshot is not self._counted_snapshot or len(self._queues.topics) != self._counted_topics:
            self._publish_partition_counts(snapshot)
        return self._ready.look(snapshot, now_ms, self._sends_everything())

    def may_have_more(self) -> bool:
        """Whether another look, right after a drain, may find something that is ready."""
        return bool(self._queues.changed) or self._ready.has_due or self._sends_everything()

    def _sends_everything(self) -> bool:
        return self._queues.is_closed or bool(self._flushes or self._waiters)

    def publish_load(self, snapshot: MetadataSnapshot) -> None:
        """Tell the partitioners which queues are long and which brokers are slow (KIP-794).

        Once per round of the loop, after the drains: what waits then, the brokers could not take.
        """
        queues = self._queues
        if queues.active or self._load.is_published:
            self._load.publish(queues.topics, queues.active, snapshot)

    def _publish_partition_counts(self, snapshot: MetadataSnapshot) -> None:
        """Set how many partitions each topic has for compiled appends, which decline topics with none.

        Also after a topic was added: the count that came with it may be from an older snapshot.
        """
        topics = list(self._queues.topics.items())
        for topic, queues in topics:
            queues.slots.partition_count = snapshot.partition_count(topic) or 0
        self._counted_snapshot, self._counted_topics = snapshot, len(topics)

    def drain(
        self, snapshot: MetadataSnapshot, nodes: Iterable[Node], max_request_size: int, now_ms: int
    ) -> dict[int, list[ProducerBatch]]:
        """Take out what goes into the next request to each node, closed and ready to be sent.

        At most one batch for each partition. A request stays within ``max_request_size`` unless a single
        batch exceeds it. The batches are in flight from here on, until ``request_done``.

        Returns:
            Batches by node id; nodes with nothing to send are left out.
        """
        self._ready.catch_up(snapshot, now_ms)
        drained: dict[int, list[ProducerBatch]] = {}
        for node in sorted(nodes, key=attrgetter("id")):
            batches = self._drain_node(node.id, max_request_size, now_ms)
            if batches:
                drained[node.id] = batches
        return drained

    def _drain_node(self, node_id: int, max_request_size: int, now_ms: int) -> list[ProducerBatch]:
        """At most one batch of each of the node's queues; what was drained goes behind all others.

        Source: Kafka's ``RecordAccumulator.drainBatchesForOneNode``.
        """
        drained: list[ProducerBatch] = []
        size = 0
        node_queues = self._ready.node_queues(node_id)
        if node_queues is None:
            return drained
        rotation = node_queues.rotation
        for _ in range(len(rotation)):
            queue = rotation[0]
            fits = True
            with queue.lock:
                batch = self._ready.first_batch(queue, now_ms)
                if batch is None:
                    rotation.popleft()
                    queue.node = None
                else:
                    fits = not size or _fits_locked(queue, batch, max_request_size - size)
                    if fits:
                        self._take_out_locked(node_queues, queue, batch, now_ms)
            if batch is None:
                continue
            if not fits:
                # A smaller batch of another partition must not overtake this one: its queue stays the first
                # of the node.
                break
            # No lock is held here, because the batch may have to be compressed.
            try:
                if self._transaction_manager is not None:
                    self._transaction_manager.drained(batch)
                size += batch.records().nbytes
            except Exception as exception:
                self._fail_unfinished(batch, exception)
                continue
            batch.drained(queue.leader_epoch)
            drained.append(batch)
        return drained

    def _take_out_locked(
        self, node_queues: NodeQueues, queue: PartitionQueue, batch: ProducerBatch, now_ms: int
    ) -> None:
        """Take out the first batch of a node's first queue, which goes behind the node's other queues."""
        # An open batch may have taken a record after ``now_ms``.
        is_open = batch is queue.open_batch
        queue.pop_first_locked(self._clock.monotonic_ms() if is_open else now_ms)
        rotation, due = node_queues.rotation, node_queues.due
        rotation.popleft()
        if due and due[0] is queue:
            due.popleft()
            queue.is_due = False
        if queue.batches:
            rotation.append(queue)
            self._queues.changed.append(queue)
        else:
            queue.node = None

    def _fail_unfinished(self, batch: ProducerBatch, exception: Exception) -> None:
        """Fail a batch that could not be numbered or closed."""
        _log.exception("A batch for %s could not be finished", batch.topic_partition)
        error = KafkaError(f"the batch for {batch.topic_partition} could not be finished: {exception!r}")
        error = error.with_outcome(batch.outcome, exception)
        if self._transaction_manager is not None:
            self._transaction_manager.failed(batch, error, batch.outcome)
        batch.complete(error=error)
        self._release(batch)


def _fits_locked(queue: PartitionQueue, batch: ProducerBatch, most_bytes: int) -> bool:
    """Whether the queue's first batch is small enough; if so, no compiled code appends to it any more."""
    # Compiled code appends while the slot is filled: only with an empty slot the size stays the same.
    queue.empty_slot_locked()
    if batch.estimated_size_bytes <= most_bytes:
        return True
    queue.fill_slot_locked()
    return False

"""Which nodes can be sent something now, and when to look again.

One walk over the queues that hold batches. Knows nothing of how they are filled and drained.
Source: Kafka's ``RecordAccumulator.ready``; KIP-580, KIP-794, KIP-951.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from kproducer.client.metadata_snapshot import MetadataSnapshot
from kproducer.producer.partition_load import PartitionLoad
from kproducer.producer.partition_queues import NEVER_MS, PartitionQueue, PartitionQueues
from kproducer.producer.producer_batch import ProducerBatch
from kproducer.types import Node


@attrs.frozen
class ReadyCheckResult:
    """What ``ready`` found.

    Attributes:
        ready_nodes: leaders with at least one batch that may be sent now.
        next_ready_check_delay_ms: until the first batch that is not ready becomes so; ``NEVER_MS`` for none.
        unknown_leader_topics: topics with batches for partitions without a known leader.
    """

    ready_nodes: set[Node]
    next_ready_check_delay_ms: int
    unknown_leader_topics: set[str]


def find_ready(
    queues: PartitionQueues,
    load: PartitionLoad,
    snapshot: MetadataSnapshot,
    now_ms: int,
    linger_ms: int,
    sends_everything: bool,
    may_drain: Callable[[ProducerBatch], bool] | None = None,
) -> ReadyCheckResult:
    """See ``RecordAccumulator.ready``. I/O thread only.

    Args:
        load: told about the queues on the way.
        sends_everything: nothing lingers: a flush, the close, or a thread that waits for memory.
        may_drain: asked about the first batch of each queue; ``None``: all may.
    """
    ready_node_ids: set[int] = set()
    unknown_leader_topics: set[str] = set()
    delay_ms = NEVER_MS
    nodes = snapshot.nodes
    topics = snapshot.topics
    loads: dict[str, list[int]] = {}
    waiting_node_ids: set[int] = set()
    for queue in list(queues.active):
        # Without the lock: a look may miss what happens meanwhile, as it may always be a moment too early.
        try:
            batch = queue.batches[0]
        except IndexError:
            continue
        topic, partition = queue.topic_partition
        metadata = topics.get(topic)
        if metadata is None or partition >= len(metadata.partitions):
            unknown_leader_topics.add(topic)
            continue
        leader = metadata.partitions[partition]
        leader_id = leader.leader_id
        if leader_id not in nodes:
            unknown_leader_topics.add(topic)
            continue
        size = len(queue.batches)
        sizes = loads.get(topic)
        if sizes is None:
            sizes = loads[topic] = []
        sizes.append(size)
        waiting_node_ids.add(leader_id)
        if queue.is_muted:
            # Whoever unmutes it looks again.
            continue
        if batch.attempts:
            batch.maybe_update_leader_epoch(leader.leader_epoch)
            if batch.is_backing_off(now_ms):
                delay_ms = min(delay_ms, batch.retry_at_ms - now_ms)
                continue
        if leader_id in ready_node_ids:
            continue
        if may_drain is not None and not may_drain(batch):
            # The end of a request, which ends every poll, opens it again.
            continue
        left_ms = batch.created_ms + linger_ms - now_ms
        # Retried batches are closed, hence full.
        if left_ms <= 0 or sends_everything or size > 1 or not batch.is_open or _is_full(queue, batch):
            ready_node_ids.add(leader_id)
        elif left_ms < delay_ms:
            delay_ms = left_ms
    load.publish(queues.topics, snapshot, loads, waiting_node_ids)
    return ReadyCheckResult({nodes[i] for i in ready_node_ids}, delay_ms, unknown_leader_topics)


def _is_full(queue: PartitionQueue, batch: ProducerBatch) -> bool:
    """Whether an open batch need not wait. Looked at again only if it has grown: thousands may linger."""
    with queue.lock:
        count = batch.record_count
        if count == batch.record_count_when_not_full:
            return False
        if batch.is_full:
            return True
        batch.record_count_when_not_full = count
        return False

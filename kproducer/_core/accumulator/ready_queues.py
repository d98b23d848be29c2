"""ReadyQueues: which nodes can be sent something now, and when to check again, without checking all queues.

An index of the queues that hold batches. A queue is re-evaluated when its first batch changes or becomes
ready (the code that does that adds it to ``changed``), when its timer fires, and when metadata changes. Stale
entries are removed lazily, when they are read, so the cost is proportional to the number of changes. For each
node it keeps the order in which queues are drained: a drained queue goes to the end.

Does not know how queues are filled, nor what a request is.
Source: Kafka's ``RecordAccumulator.ready``, which walks all partitions; KIP-580, KIP-794, KIP-951;
docs/decisions/0011-look-only-at-changes.md
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from kproducer._core.accumulator.partition_queue import PartitionQueue, PartitionQueues
from kproducer._core.runtime.clock import NEVER_MS

if TYPE_CHECKING:
    from kproducer._core.accumulator.producer_batch import ProducerBatch
    from kproducer._core.client.metadata_snapshot import MetadataSnapshot
    from kproducer.types import Node, TopicPartition

_DUE_OF = attrgetter("due")


class ReadyCheckResult(NamedTuple):
    """What ``ready`` found.

    Attributes:
        ready_nodes: leaders with at least one batch that may be sent now.
        next_ready_check_delay_ms: until the first batch that is not ready becomes so; ``NEVER_MS`` for none.
        unknown_leader_topics: topics with batches for partitions without a known leader.
    """

    ready_nodes: set[Node]
    next_ready_check_delay_ms: int
    unknown_leader_topics: set[str]


#: The usual result: most looks find out that the last one has sent everything.
_NOTHING = ReadyCheckResult(set(), NEVER_MS, set())


class NodeQueues:
    """What waits for one broker. I/O thread only; entries may be out of date.

    Attributes:
        node_id: the broker's.
        rotation: queues that may be drained, in the order in which to do so; those whose ``node`` this is.
        due: queues whose first batch need not wait; those with ``is_due``.
    """

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.rotation: deque[PartitionQueue] = deque()
        self.due: deque[PartitionQueue] = deque()


class ReadyQueues:
    """The index. I/O thread only, except that any thread adds to ``PartitionQueues.changed``.

    A queue that holds batches is in one of these states; ``_classify`` decides, and is called again for each
    event that the state waits for:

    * in its node's rotation, may be drained: ``due`` if its first batch need not wait, else with a timer;
    * with a timer alone: its first batch backs off;
    * leaderless: until metadata changes;
    * held: ``may_drain`` has refused it, and is asked again at each look;
    * nowhere, muted: unmuting it puts it among ``changed``.

    Args:
        queues: all queues.
        linger_ms: how long a batch that has room waits for more records.
        may_drain: asked about the first batch of each queue, with the time; ``None``: all may.
        announce: called before a partition's batch is due: starts the requests that ``may_drain`` waits for.
    """

    def __init__(
        self,
        queues: PartitionQueues,
        linger_ms: int,
        may_drain: Callable[[ProducerBatch, int], bool] | None = None,
        announce: Callable[[TopicPartition], None] | None = None,
    ) -> None:
        self._queues = queues
        self._linger_ms = linger_ms
        self._may_drain = may_drain
        self._announce = announce
        # I/O thread only.
        self._snapshot: MetadataSnapshot | None = None
        self._nodes: dict[int, NodeQueues] = {}
        #: A heap of (time in ms, number, queue). A queue may have several entries; only the one of its
        #: ``timer_ms`` counts.
        self._timers: list[tuple[int, int, PartitionQueue]] = []
        self._next_timer = 0
        self._held: dict[PartitionQueue, None] = {}
        #: Queues whose partition has no leader, by topic.
        self._leaderless: dict[str, dict[PartitionQueue, None]] = {}

    # -- looking ---------------------------------------------------------------------------------------

    def look(self, snapshot: MetadataSnapshot, now_ms: int, sends_everything: bool) -> ReadyCheckResult:
        """See ``ReadyBatches.ready``.

        Args:
            sends_everything: nothing lingers: a flush, the close, or a thread that waits for memory.
        """
        if self._held:
            self._queues.changed.extend(self._held)
            self._held = {}
        self.catch_up(snapshot, now_ms)
        ready = set()
        for node_queues in self._nodes.values():
            if (node_queues.due and self._has_due(node_queues, now_ms)) or (
                sends_everything and self._has_drainable(node_queues, now_ms)
            ):
                ready.add(snapshot.nodes[node_queues.node_id])
        if not (ready or self._timers or self._leaderless):
            return _NOTHING
        unknown = self._unknown_leader_topics() if self._leaderless else set()
        return ReadyCheckResult(ready, self._delay_ms(now_ms) if self._timers else NEVER_MS, unknown)

    def catch_up(self, snapshot: MetadataSnapshot, now_ms: int) -> None:
        """Apply what has happened since the last time: changed queues, timers, metadata."""
        try:
            if snapshot is not self._snapshot:
                self._start_with_all_queues(snapshot)
            changed = self._queues.changed
            while changed:
                self._classify(changed.popleft(), now_ms)
            timers = self._timers
            while timers and timers[0][0] <= now_ms:
                at_ms, _, queue = heapq.heappop(timers)
                if queue.timer_ms == at_ms:
                    queue.timer_ms = NEVER_MS
                    self._classify(queue, now_ms)
        except BaseException:
            self.start_over()
            raise

    def start_over(self) -> None:
        """Have the next look begin with all queues.

        The I/O loop goes on after errors, and an error may leave a queue unindexed.
        """
        self._snapshot = None

    def _start_with_all_queues(self, snapshot: MetadataSnapshot) -> None:
        """Leaders may have changed: classify every queue that holds batches again, in its present order."""
        self._snapshot = snapshot
        for node_queues in self._nodes.values():
            for queue in node_queues.rotation:
                queue.node = None
            for queue in node_queues.due:
                queue.is_due = False
        for _, _, queue in self._timers:
            queue.timer_ms = NEVER_MS
        self._nodes = {}
        self._timers.clear()
        self._held = {}
        self._leaderless = {}
        changed = self._queues.changed
        changed.clear()
        # Cleared before the active queues are listed: a queue that changes meanwhile may be classified twice,
        # but is not missed.
        changed.extend(list(self._queues.active))

    def _delay_ms(self, now_ms: int) -> int:
        """Milliseconds until the first timer that is not out of date."""
        timers = self._timers
        while timers:
            at_ms, _, queue = timers[0]
            wanted_ms = self._waits_until_ms(queue, now_ms)
            if at_ms == queue.timer_ms == wanted_ms:
                return at_ms - now_ms
            heapq.heappop(timers)
            if at_ms == queue.timer_ms:
                queue.timer_ms = NEVER_MS
                if wanted_ms != NEVER_MS:
                    self._look_again_at(queue, wanted_ms)
        return NEVER_MS

    def _unknown_leader_topics(self) -> set[str]:
        for topic, queues in list(self._leaderless.items()):
            while queues and not next(reversed(queues)).batches:
                queues.popitem()
            if not queues:
                del self._leaderless[topic]
        return set(self._leaderless)

    # -- one queue -------------------------------------------------------------------------------------

    def _classify(self, queue: PartitionQueue, now_ms: int) -> None:
        """Index a queue in its present state; it may be in it already."""
        # No lock is needed: a thread that changes the queue now adds it to ``changed`` afterwards.
        try:
            batch = queue.batches[0]
        except IndexError:
            return
        snapshot = self._snapshot
        assert snapshot is not None
        topic, partition = queue.topic_partition
        metadata = snapshot.topics.get(topic)
        leader = None
        if metadata is not None:
            if partition < len(metadata.partitions):
                leader = metadata.partitions[partition]
            else:
                # The topic has fewer partitions now. Its records wait in case this one comes back; new ones
                # must not join them.
                queue.close_open_batch(now_ms)
        if leader is None or leader.leader_id not in snapshot.nodes:
            self._leaderless.setdefault(topic, {})[queue] = None
            return
        queue.leader_epoch = leader.leader_epoch
        if queue.is_muted:
            return
        if batch.attempts:
            batch.maybe_update_leader_epoch(leader.leader_epoch)
            if batch.is_backing_off(now_ms):
                self._look_again_at(queue, batch.retry_at_ms)
                return
        if self._announce is not None:
            self._announce(queue.topic_partition)
        node_queues = self._nodes.get(leader.leader_id)
        if node_queues is None:
            node_queues = self._nodes[leader.leader_id] = NodeQueues(leader.leader_id)
        if queue.node is None:
            queue.node = node_queues
            node_queues.rotation.append(queue)
        linger_end_ms = batch.created_ms + self._linger_ms
        if linger_end_ms > now_ms and _may_wait(queue, batch):
            self._look_again_at(queue, linger_end_ms)
        elif not queue.is_due:
            queue.is_due = True
            node_queues.due.append(queue)

    def _look_again_at(self, queue: PartitionQueue, at_ms: int) -> None:
        # A queue keeps its earliest timer. If that fires too early, it is replaced: so one timer is enough,
        # however many batches come.
        if at_ms < queue.timer_ms:
            queue.timer_ms = at_ms
            self._next_timer += 1
            heapq.heappush(self._timers, (at_ms, self._next_timer, queue))

    def _waits_until_ms(self, queue: PartitionQueue, now_ms: int) -> int:
        """The time that the first batch of a queue waits for; ``NEVER_MS``: it does not wait for a time."""
        try:
            batch = queue.batches[0]
        except IndexError:
            return NEVER_MS
        if queue.is_muted or queue in self._held:
            return NEVER_MS
        if batch.is_backing_off(now_ms):
            return batch.retry_at_ms
        # A batch that filled without a report is not in `due`; its timer is the only thing that finds it.
        if _may_wait(queue, batch) or not queue.is_due:
            return batch.created_ms + self._linger_ms
        return NEVER_MS

    def may_drain(self, queue: PartitionQueue, batch: ProducerBatch, now_ms: int) -> bool:
        """Ask whether a first batch may be sent; if not, its queue is held."""
        if self._may_drain is None or self._may_drain(batch, now_ms):
            return True
        # ``look`` asks again in the next round. A completed request ends the poll, and that is what such a
        # batch waits for.
        self._held[queue] = None
        return False

    # -- one node --------------------------------------------------------------------------------------

    def _has_due(self, node_queues: NodeQueues, now_ms: int) -> bool:
        """Whether any batch for the node need not wait."""
        due = node_queues.due
        while due:
            queue = due[0]
            if queue.node is node_queues:
                batch = self.first_batch(queue, now_ms)
                if batch is not None and (
                    batch.created_ms + self._linger_ms <= now_ms or not _may_wait(queue, batch)
                ):
                    return True
            due.popleft()
            queue.is_due = False
        return False

    def _has_drainable(self, node_queues: NodeQueues, now_ms: int) -> bool:
        """Whether there is any batch for the node that may be drained."""
        rotation = node_queues.rotation
        while rotation:
            queue = rotation[0]
            if self.first_batch(queue, now_ms) is not None:
                return True
            rotation.popleft()
            queue.node = None
        return False

    def first_batch(self, queue: PartitionQueue, now_ms: int) -> ProducerBatch | None:
        """A queue's first batch, if it may be drained now; else the caller takes it out of its rotation."""
        try:
            batch = queue.batches[0]
        except IndexError:
            return None
        if queue.is_muted or (batch.attempts and batch.is_backing_off(now_ms)):
            return None
        return batch if self._may_drain is None or self.may_drain(queue, batch, now_ms) else None

    def node_queues(self, node_id: int) -> NodeQueues | None:
        """What waits for a node. Code that takes a queue out clears its ``node`` or ``is_due``."""
        return self._nodes.get(node_id)

    @property
    def has_due(self) -> bool:
        """Whether any queue may be due: entries may be out of date."""
        return any(map(_DUE_OF, self._nodes.values()))


def _may_wait(queue: PartitionQueue, batch: ProducerBatch) -> bool:
    """Whether a first batch has room left. Batches that are sent again are closed, hence full."""
    return batch.is_open and len(queue.batches) <= 1 and not batch.is_full

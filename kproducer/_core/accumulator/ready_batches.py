"""ReadyBatches: which brokers can be sent something, and the batches that go into their next requests.

The draining half of the accumulator; ``record_accumulator`` is the half that takes records. Knows nothing of
requests and connections. ``ReadyQueues`` is its index of the queues that hold batches: a queue is
re-evaluated when its first batch changes or becomes ready (the code that does that adds it to ``changed``),
when its timer fires, and when metadata changes. Stale entries are removed when they are read, so the cost is
proportional to the number of changes, and idle partitions cost nothing.
docs/decisions/0011-look-only-at-changes.md

Source: Kafka class ``RecordAccumulator`` (ready, drain), which visits all partitions; KIP-580 (backoff),
KIP-794 (partitioning), KIP-951 (no backoff after a leader change). A drained queue goes behind all others of
its broker, so that no partition starves.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from kproducer._core.accumulator.partition_load import PartitionLoad
from kproducer._core.accumulator.partition_queue import NodeQueues, PartitionQueue, PartitionQueues
from kproducer._core.accumulator.producer_batch import ProducerBatch
from kproducer._core.client.metadata_snapshot import MetadataSnapshot
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.runtime.clock import NEVER_MS, Clock
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer.errors import KafkaError
from kproducer.types import Node

if TYPE_CHECKING:
    from kproducer._core.transactions.transaction_manager import TransactionManager
    from kproducer.types import TopicPartition

_log = GuardedLogger(__name__)
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
            None if manager is None or manager.state_machine.transactional_id is None else manager.announce,
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
            self._publish_snapshot(snapshot)
        return self._ready.look(snapshot, now_ms, self.sends_everything())

    def may_have_more(self) -> bool:
        """Whether another look, right after a drain, may find something that is ready."""
        return bool(self._queues.changed) or self._ready.has_due or self.sends_everything()

    def sends_everything(self) -> bool:
        """Whether nothing lingers: a flush, the close, or a thread that waits for memory. Any thread."""
        return self._queues.is_closed or bool(self._flushes or self._waiters)

    def publish_load(self, snapshot: MetadataSnapshot, blocked: Sequence[PartitionQueue] = ()) -> None:
        """Tell the partitioners which queues are long and which brokers are slow (KIP-794).

        Once per round of the loop, after the drains: what waits then, the brokers could not take.

        Args:
            blocked: queues whose batches a lane has, and cannot send now.
        """
        queues = self._queues
        if queues.active or blocked or self._load.is_published:
            self._load.publish(queues.topics, list(queues.active) + list(blocked), snapshot)

    def _publish_snapshot(self, snapshot: MetadataSnapshot) -> None:
        """Set what compiled appends need: how many partitions each topic has, and where they may go next.

        They decline topics without partitions. Also called after a topic was added: the count that came with
        it may be from an older snapshot.
        """
        topics = self._queues.topics
        # Not of items: each would be a new tuple, for which the collector may run, and then other threads.
        names = list(topics)
        for topic in names:
            queues = topics[topic]
            queues.slots.partition_count = snapshot.partition_count(topic) or 0
            queues.partitioner.snapshot = snapshot
        self._counted_snapshot, self._counted_topics = snapshot, len(names)

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
        # A batch that compiled code has filled is not in `due`; its timer is the only thing that finds it.
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
        """A queue's first batch, if it may be drained now. ``None``: remove the queue from its rotation."""
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

"""SequenceTracker: which batch may be sent, under which number, and what to do when an attempt has failed.

Brokers accept the batches of a producer in one partition in sequence order only, and recognise the last five
of them when they arrive again. This leads to three rules. At most five batches of a partition are unresolved.
Of the numbered batches only the first pending one is sent again; one without a number may follow it while the
leader remembers the producer. A batch that an earlier attempt may have written keeps its number permanently,
so that no record is written twice: only batches that are certainly not in the log get another number,
together with a new epoch, after every request that carried the old numbers has ended.

Differences from Kafka (see docs/internals/transactions.md): an idempotent producer raises the epoch only of
a partition with a gap; batches that may have been written are never renumbered.
I/O thread only, except ``reset`` when a transaction is taken over.
Source: KIP-98, KIP-360; Kafka's ``TransactionManager`` (canRetry, handleFailedBatch, maybeResolveSequences)
and ``RecordAccumulator.shouldStopDrainBatchesForPartition``; docs/decisions/0025-epoch-per-partition.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, Final

from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer._core.transactions.delivery_knowledge import AttemptEnd, Verdict, decide
from kproducer._core.transactions.partition_sequences import (
    NO_PRODUCER,
    NO_SEQUENCE,
    PartitionSequences,
    ProducerIdAndEpoch,
    SequencedBatch,
)
from kproducer.errors import Outcome
from kproducer.types import TopicPartition

_log = GuardedLogger(__name__)

#: How many batches of a producer brokers remember in each partition (``ProducerStateEntry``).
MOST_PENDING_BATCHES: Final = 5

#: How long a leader is assumed to remember the producer after it has acknowledged a batch. It forgets after
#: ``producer.id.expiration.ms`` (a day by default), which no request reveals. A short time costs little:
#: after an idle period one batch goes alone.
REMEMBERED_MS: Final = 1000


class SequenceTracker:
    """The sequence numbers of all partitions. I/O thread only, except for ``reset``.

    Args:
        is_transactional: batches belong to a transaction; a gap then ends the transaction.

    Attributes:
        producer: what the coordinator has assigned last. Changes only under the lock of the state machine.
        gapped: partitions with a gap or a pending restart, for ``resolve``; usually empty.
        awaiting_loan: partitions that a lane gets when nothing of them is pending; until then, no new batch
            is sent.
        needs_new_id: the epochs of a partition are used up, so a new producer id has to be requested.
    """

    def __init__(self, is_transactional: bool) -> None:
        self._is_transactional = is_transactional
        self.producer = NO_PRODUCER
        self._has_producer = False
        self._partitions: dict[TopicPartition, PartitionSequences] = {}
        #: The partitions whose batches lanes number at present.
        self._lent: set[TopicPartition] = set()
        #: When the leader last acknowledged this producer id. A leader without state for an id accepts a
        #: batch with any number as its first: of two batches in flight, the later one could become the first
        #: (KAFKA-14359). With state, even of an earlier epoch, it accepts them in order only.
        self._acknowledged_ms: dict[TopicPartition, int] = {}
        self._topic_ids: dict[str, Any] = {}
        self._latest_topic_ids: Mapping[str, Any] = self._topic_ids
        self.gapped: set[TopicPartition] = set()
        self.awaiting_loan: Set[TopicPartition] = frozenset()
        self.needs_new_id = False

    def set_producer(self, producer: ProducerIdAndEpoch) -> None:
        """Use this producer id and epoch from now on; where batches are pending, once they are resolved."""
        if producer.producer_id != self.producer.producer_id:
            # A new dictionary, because another thread may be reading the present one: see ``reset``.
            self._acknowledged_ms = {}
        self.producer = producer
        self._has_producer = producer.is_valid
        self.needs_new_id = False

    def reset(self, producer: ProducerIdAndEpoch) -> None:
        """As ``set_producer``, and number from 0 everywhere: a transaction has ended, nothing is pending.

        An application thread that takes a transaction over calls this while the I/O thread may be in
        ``note_topic_ids``. All other calls of the I/O thread find nothing to do then: no batch is numbered
        and no partition has a gap. Lanes keep what was lent to them, and number from 0 as well.
        """
        self.set_producer(producer)
        self._partitions.clear()
        self.gapped.clear()

    def note_topic_ids(self, topic_ids: Mapping[str, Any]) -> None:
        """The topic ids in the newest metadata. Leaders of a recreated topic do not know the producer."""
        if topic_ids is self._latest_topic_ids:
            return
        self._latest_topic_ids = topic_ids
        known = self._topic_ids
        recreated = {topic for topic, topic_id in topic_ids.items() if known.get(topic, topic_id) != topic_id}
        # A topic that is missing for a while keeps its id.
        known.update(topic_ids)
        if recreated:
            acknowledged_ms = self._acknowledged_ms
            for topic_partition in [tp for tp in acknowledged_ms if tp.topic in recreated]:
                del acknowledged_ms[topic_partition]
            for topic_partition, partition in list(self._partitions.items()):
                if topic_partition.topic in recreated:
                    partition.note_new_topic()

    # -- before a batch is sent ------------------------------------------------------------------------

    def may_drain(self, batch: SequencedBatch, now_ms: int) -> bool:
        """Whether the first batch of a partition's queue may be sent now."""
        topic_partition = batch.topic_partition
        if self._lent and topic_partition in self._lent:
            return False  # its lane was told to return the numbers, see FastLanes
        partition = self._partitions.get(topic_partition)
        if partition is None:
            return self._has_producer
        if batch.base_sequence != NO_SEQUENCE:
            return partition.is_first(batch) and not partition.awaits_restart(batch)
        if not self._has_producer or (self.gapped and topic_partition in self.gapped):
            return False
        if not partition.pending:
            return True
        if topic_partition in self.awaiting_loan:
            return False
        if partition.numbered_since_first_pending() >= MOST_PENDING_BATCHES:
            # If the first one has to be sent again, its leader must not have forgotten it.
            return False
        # Compared by identity first, because it usually is the same object.
        if partition.producer is not self.producer and self._is_stale(partition):
            return False
        acknowledged_ms = self._acknowledged_ms.get(topic_partition)
        return acknowledged_ms is not None and now_ms - acknowledged_ms < REMEMBERED_MS

    def drained(self, batch: SequencedBatch) -> None:
        """The batch goes into a request now: number it, if it has no number yet."""
        if batch.base_sequence != NO_SEQUENCE:
            return
        partition = self._partition(batch.topic_partition)
        if partition.producer is not self.producer and self._is_stale(partition):
            partition.begin(self.producer)
        partition.assign(batch, self._is_transactional)

    def _partition(self, topic_partition: TopicPartition) -> PartitionSequences:
        partition = self._partitions.get(topic_partition)
        if partition is None:
            partition = self._partitions[topic_partition] = PartitionSequences(self.producer)
        return partition

    def _is_stale(self, partition: PartitionSequences) -> bool:
        """Whether the partition still uses an earlier producer id or epoch."""
        if self._is_transactional:
            return partition.producer != self.producer
        # The epoch may have been raised for this partition only.
        return partition.producer.producer_id != self.producer.producer_id

    # -- lanes -----------------------------------------------------------------------------------------

    def lend(self, topic_partition: TopicPartition) -> tuple[int, int, int, int] | None:
        """Let a lane number the batches of a partition. The tracker numbers none until ``end_loan``.

        Returns:
            Producer id, epoch, next sequence number, and when the leader has acknowledged them last (-1:
            never); ``None``: not now, because batches are pending, or there is no producer id, or a gap.
        """
        if not self._has_producer or topic_partition in self.gapped or topic_partition in self._lent:
            return None
        partition = self._partition(topic_partition)
        if partition.pending:
            return None
        if partition.producer is not self.producer and self._is_stale(partition):
            partition.begin(self.producer)
        self._lent.add(topic_partition)
        producer_id, epoch = partition.producer
        acknowledged_ms = self._acknowledged_ms.get(topic_partition, -1)
        return producer_id, epoch, partition.next_sequence, acknowledged_ms

    def note_lent(
        self, topic_partition: TopicPartition, count: int, last_acked_sequence: int, acknowledged_ms: int
    ) -> None:
        """So many batches of a lane were acknowledged since the last call, or since ``reset``."""
        partition = self._partition(topic_partition)
        partition.note_lent(count, last_acked_sequence)
        if count and partition.producer.producer_id == self.producer.producer_id:
            self._acknowledged_ms[topic_partition] = acknowledged_ms

    def adopt(self, batch: SequencedBatch, numbers: tuple[int, int, int]) -> None:
        """A batch that a lane has numbered is in flight. Later ones of its partition follow."""
        self._partition(batch.topic_partition).adopt(batch, numbers, self._is_transactional)

    def end_loan(self, topic_partition: TopicPartition, next_sequence: int) -> None:
        """Number the batches of the partition here again, from this number on."""
        self._lent.discard(topic_partition)
        self._partition(topic_partition).next_sequence = next_sequence

    # -- after it was sent -----------------------------------------------------------------------------

    def succeeded(self, batch: SequencedBatch, now_ms: int) -> None:
        """A broker has acknowledged the batch."""
        partition = self._partitions.get(batch.topic_partition)
        if partition is None or batch.base_sequence == NO_SEQUENCE:
            return
        partition.acknowledge(batch)
        if batch.producer_id == self.producer.producer_id and partition.is_for_present_topic(batch):
            self._acknowledged_ms[batch.topic_partition] = now_ms
        if self.gapped:
            self._note_state(batch.topic_partition, partition)

    def verdict(self, batch: SequencedBatch, end: AttemptEnd, retriable: bool) -> Verdict:
        """What to do after a failed attempt; ``batch.knowledge`` includes it already.

        RESTART is processed here and returned as RETRY. If the batch is given up,
        ``TransactionManager.failed`` has to follow.
        """
        partition = self._partition_of(batch)
        if partition is None:
            return Verdict.RETRY if retriable else Verdict.FAIL
        verdict = decide(
            batch.knowledge,
            end,
            retriable=retriable,
            is_first=partition.is_first(batch),
            is_passed=partition.is_passed(batch),
            is_transactional=self._is_transactional,
        )
        if verdict is not Verdict.RESTART:
            return verdict
        if partition.is_ours(batch):
            self._restart(batch, partition)
        return Verdict.RETRY

    def failed(self, batch: SequencedBatch, outcome: Outcome | None) -> None:
        """The batch is given up.

        Args:
            batch: ignored if it has no number. If it is in flight, it stays pending: the end of its request
                decides, after which this is called again.
            outcome: whether it may be in the log nevertheless.
        """
        partition = self._partition_of(batch)
        if partition is None or batch.in_flight:
            return
        partition.forget(batch)
        if not partition.is_ours(batch) or partition.is_passed(batch):
            return
        if outcome in (Outcome.REJECTED, Outcome.NOT_SENT) and not self._is_transactional:
            self._restart(batch, partition)
        else:
            partition.note_gap(batch)
            self.gapped.add(batch.topic_partition)

    def split(self, batch: SequencedBatch, parts: Sequence[SequencedBatch]) -> None:
        """The batch was too large and is replaced by its parts."""
        partition = self._partition_of(batch)
        if partition is None:
            return
        if parts and batch in partition.pending:
            partition.split(batch, parts, self._is_transactional)
        else:
            self.failed(batch, Outcome.UNKNOWN)

    def _partition_of(self, batch: SequencedBatch) -> PartitionSequences | None:
        return None if batch.base_sequence == NO_SEQUENCE else self._partitions.get(batch.topic_partition)

    # -- gaps ------------------------------------------------------------------------------------------

    @property
    def has_pending(self) -> bool:
        """Whether any numbered batch is unresolved, including those whose records were given up."""
        return any(partition.pending for partition in self._partitions.values())

    def resolve(self) -> list[SequencedBatch]:
        """Restart the numbering where that is possible now; called in each round of the sender's loop.

        Returns:
            Batches that have to be failed with the outcome that is known: they or later ones may have been
            written, and the leader cannot accept them under their numbers any more.
        """
        unsafe: list[SequencedBatch] = []
        for topic_partition in tuple(self.gapped):
            partition = self._partitions[topic_partition]
            if partition.gap_end is not None and not partition.pending and not self._is_transactional:
                partition.note_restart(partition.next_sequence)
            if partition.restart_from is not None:
                unsafe += self._try_restart(topic_partition, partition)
            self._note_state(topic_partition, partition)
        return unsafe

    def _restart(self, batch: SequencedBatch, partition: PartitionSequences) -> None:
        partition.note_restart(batch.base_sequence)
        self.gapped.add(batch.topic_partition)

    def _note_state(self, topic_partition: TopicPartition, partition: PartitionSequences) -> None:
        if partition.gap_end is None and partition.restart_from is None:
            self.gapped.discard(topic_partition)

    def _try_restart(
        self, topic_partition: TopicPartition, partition: PartitionSequences
    ) -> list[SequencedBatch]:
        pending = partition.pending
        if pending and not partition.awaits_restart(pending[0]):
            # The leader can still accept or recognise it under its number.
            return []
        if any(batch.in_flight for batch in pending):
            return []
        producer = self.producer
        if producer.producer_id == partition.producer.producer_id:
            if not partition.producer.can_be_raised:
                self.needs_new_id = True
                return []
            producer = partition.producer.raised()
        elif not producer.is_valid:
            return []
        unsafe = partition.renumber(producer)
        _log.info(
            "%s: sequence numbers restart with %s; %d batches are renumbered, %d fail because they cannot be"
            " resent safely",
            topic_partition,
            producer,
            len(partition.pending),
            len(unsafe),
        )
        return unsafe

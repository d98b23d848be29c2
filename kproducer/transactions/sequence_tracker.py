"""SequenceTracker: which batch may be sent, under which number, and what to do when an attempt has failed.

Brokers take the batches of a producer in one partition only in the order of their numbers, and recognise the
last five of them when they come again. Two rules follow: at most five batches of a partition are unresolved,
and a batch that is sent again goes alone, before all others. A third one keeps records from being written
twice: a batch that an earlier attempt may have written keeps its number for good. Only batches that are
certainly not in the log get another one, together with a new epoch, and only after every request that
carried the old ones has ended.

Differs from Kafka (see docs/transactions.md): an idempotent producer raises the epoch of the one partition
with a gap, the others are not disturbed; what may have been written is never renumbered. I/O thread only.
Source: KIP-98, KIP-360; Kafka's ``TransactionManager`` (canRetry, handleFailedBatch, maybeResolveSequences)
and ``RecordAccumulator.shouldStopDrainBatchesForPartition``.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kproducer.errors import Outcome
from kproducer.runtime.guarded_logger import GuardedLogger
from kproducer.transactions.delivery_knowledge import AttemptEnd, Knowledge
from kproducer.transactions.partition_sequences import PartitionSequences, SequencedBatch
from kproducer.transactions.producer_id_and_epoch import (
    NO_PRODUCER,
    NO_SEQUENCE,
    ProducerIdAndEpoch,
)
from kproducer.types import TopicPartition

_log = GuardedLogger(__name__)

#: Brokers remember so many batches of a producer in each partition (``ProducerStateEntry``).
MOST_PENDING_BATCHES: Final = 5

#: A leader is taken to remember the producer for so long after it has acknowledged a batch. It forgets after
#: ``producer.id.expiration.ms`` (a day unless changed), which no request tells. The price of a short time is
#: small: after an idle period one batch goes alone.
REMEMBERED_MS: Final = 1000


class Verdict(enum.Enum):
    """What to do with a batch after an attempt; limits of time and tries are not looked at."""

    RETRY = "send it again"
    RESTART = "number it, and what is pending behind it, under a new epoch; then send it again"
    FAIL = "its records have failed"
    WRITTEN = "it is in the log, at an offset that is not known"


def decide(
    knowledge: Knowledge,
    end: AttemptEnd,
    *,
    retriable: bool,
    is_first: bool,
    is_passed: bool,
    is_transactional: bool,
) -> Verdict:
    """What to do with a numbered batch. The table in docs/transactions.md lists every case.

    Args:
        knowledge: about the batch, this attempt included.
        end: of this attempt.
        retriable: whether the error says that the same request may succeed later.
        is_first: no earlier batch of the partition is pending.
        is_passed: a later batch was acknowledged.
        is_transactional: a gap ends the transaction, and nothing is renumbered.
    """
    if end in (AttemptEnd.ACKNOWLEDGED, AttemptEnd.DUPLICATE):
        return Verdict.WRITTEN
    if end not in (AttemptEnd.OUT_OF_ORDER, AttemptEnd.UNKNOWN_PRODUCER_ID):
        return Verdict.RETRY if retriable else Verdict.FAIL
    if end is AttemptEnd.OUT_OF_ORDER and not is_first:
        # The leader waits for the one before it.
        return Verdict.RETRY
    if is_transactional or is_passed or knowledge is Knowledge.UNKNOWN:
        # Passed: it would come behind a record that was sent after it. UNKNOWN: the leader may refuse it
        # because it has written it and remembers later ones only, so under another number it could be
        # written twice.
        return Verdict.FAIL
    return Verdict.RESTART


class SequenceTracker:
    """The sequence numbers of all partitions. I/O thread only.

    Args:
        is_transactional: batches belong to a transaction; a gap then ends the transaction.
    """

    def __init__(self, is_transactional: bool) -> None:
        self._is_transactional = is_transactional
        self._producer = NO_PRODUCER
        self._partitions: dict[TopicPartition, PartitionSequences] = {}
        #: When the leader last acknowledged this producer id. A leader without state for an id takes a batch
        #: with any number as its first: with two on their way the later one might become the first
        #: (KAFKA-14359). With state, be it of an earlier epoch, it takes them in order only.
        self._acknowledged_ms: dict[TopicPartition, int] = {}
        self._topic_ids: dict[str, Any] = {}
        self._latest_topic_ids: Mapping[str, Any] = self._topic_ids
        #: Partitions with a gap, or a restart to come: empty as long as all is well.
        self._gapped: set[TopicPartition] = set()
        #: An epoch has come to its end: a new producer id has to be requested.
        self.needs_new_id = False

    @property
    def producer(self) -> ProducerIdAndEpoch:
        """What the coordinator gave last."""
        return self._producer

    def set_producer(self, producer: ProducerIdAndEpoch) -> None:
        """Write as this producer from now on; in a partition with batches pending, when these are done."""
        if producer.producer_id != self._producer.producer_id:
            self._acknowledged_ms.clear()
        self._producer = producer
        self.needs_new_id = False

    def reset(self, producer: ProducerIdAndEpoch) -> None:
        """As ``set_producer``, and every count begins at 0: a transaction has ended, nothing is pending."""
        self.set_producer(producer)
        self._partitions.clear()
        self._gapped.clear()

    def note_topic_ids(self, topic_ids: Mapping[str, Any]) -> None:
        """What metadata knows now. A topic with another id is a new one: no leader has state for us."""
        if topic_ids is self._latest_topic_ids:
            return
        self._latest_topic_ids = topic_ids
        known = self._topic_ids
        recreated = {topic for topic, topic_id in topic_ids.items() if known.get(topic, topic_id) != topic_id}
        # A topic that is missing for a while keeps the id that it had.
        known.update(topic_ids)
        if recreated:
            for topic_partition in [tp for tp in self._acknowledged_ms if tp.topic in recreated]:
                del self._acknowledged_ms[topic_partition]

    # -- before a batch is sent ------------------------------------------------------------------------

    def may_drain(self, batch: SequencedBatch, now_ms: int) -> bool:
        """Whether the first batch of a partition's queue may be sent now."""
        topic_partition = batch.topic_partition
        partition = self._partitions.get(topic_partition)
        if partition is None:
            return self._producer.is_valid
        if batch.base_sequence != NO_SEQUENCE:
            return partition.is_first(batch) and not partition.awaits_restart(batch)
        if not self._producer.is_valid or topic_partition in self._gapped:
            return False
        pending = len(partition.pending)
        if not pending:
            return True
        if pending >= MOST_PENDING_BATCHES or self._is_stale(partition):
            return False
        acknowledged_ms = self._acknowledged_ms.get(topic_partition)
        return acknowledged_ms is not None and now_ms - acknowledged_ms < REMEMBERED_MS

    def drained(self, batch: SequencedBatch) -> None:
        """It goes out now: number it, if that was not done before."""
        if batch.base_sequence != NO_SEQUENCE:
            return
        partition = self._partitions.get(batch.topic_partition)
        if partition is None:
            partition = self._partitions[batch.topic_partition] = PartitionSequences()
        if self._is_stale(partition):
            partition.begin(self._producer)
        partition.assign(batch, self._is_transactional)

    def _is_stale(self, partition: PartitionSequences) -> bool:
        """Whether the partition still counts as an earlier producer."""
        if self._is_transactional:
            return partition.producer != self._producer
        # Its epoch may have been raised for this partition alone.
        return partition.producer.producer_id != self._producer.producer_id

    # -- after it was sent -----------------------------------------------------------------------------

    def succeeded(self, batch: SequencedBatch, now_ms: int) -> None:
        """A broker has it."""
        partition = self._partition_of(batch)
        if partition is None:
            return
        partition.acknowledge(batch)
        if batch.producer_id == self._producer.producer_id:
            self._acknowledged_ms[batch.topic_partition] = now_ms
        if self._gapped:
            self._note_state(batch.topic_partition, partition)

    def verdict(self, batch: SequencedBatch, end: AttemptEnd, retriable: bool) -> Verdict:
        """What to do after a failed attempt; ``batch.knowledge`` includes it already.

        RESTART is noted here; to the caller it means RETRY.
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
        """It is given up, and no request carries it any more.

        Args:
            batch: numbered, or not: then nothing happens.
            outcome: whether it may be in the log all the same.
        """
        partition = self._partition_of(batch)
        if partition is None:
            return
        partition.forget(batch)
        if not partition.is_ours(batch) or partition.is_passed(batch):
            return
        if outcome in (Outcome.REJECTED, Outcome.NOT_SENT) and not self._is_transactional:
            self._restart(batch, partition)
        else:
            partition.note_gap(batch)
            self._gapped.add(batch.topic_partition)

    def expired(self, batch: SequencedBatch, outcome: Outcome | None) -> None:
        """Its time is over. While it is in flight it stays pending: the end of its request decides."""
        if not batch.in_flight:
            self.failed(batch, outcome)

    def split(self, batch: SequencedBatch, parts: Sequence[SequencedBatch]) -> None:
        """It was too large, and its records go out in parts."""
        partition = self._partition_of(batch)
        if partition is None:
            return
        if parts and batch in partition.pending:
            partition.split(batch, parts, self._is_transactional)
        else:
            self.failed(batch, Outcome.UNKNOWN)

    def _partition_of(self, batch: SequencedBatch) -> PartitionSequences | None:
        if batch.base_sequence == NO_SEQUENCE:
            return None
        return self._partitions.get(batch.topic_partition)

    # -- gaps ------------------------------------------------------------------------------------------

    @property
    def has_pending(self) -> bool:
        """Whether any numbered batch is unresolved, those included whose records were given up."""
        return any(partition.pending for partition in self._partitions.values())

    @property
    def has_gaps(self) -> bool:
        """Whether ``resolve`` has something to do, now or later."""
        return bool(self._gapped)

    def resolve(self) -> list[SequencedBatch]:
        """Restart the numbering where that is possible now. Each round of the sender's loop.

        Returns:
            Batches that have to be failed with what is known of them: they, or later ones, may have been
            written, and the leader cannot take them under their numbers any more.
        """
        unsafe: list[SequencedBatch] = []
        for topic_partition in tuple(self._gapped):
            partition = self._partitions[topic_partition]
            if partition.gap_end is not None and not partition.pending and not self._is_transactional:
                partition.note_restart(partition.next_sequence)
            if partition.restart_from is not None:
                unsafe += self._try_restart(topic_partition, partition)
            self._note_state(topic_partition, partition)
        return unsafe

    def _restart(self, batch: SequencedBatch, partition: PartitionSequences) -> None:
        partition.note_restart(batch.base_sequence)
        self._gapped.add(batch.topic_partition)

    def _note_state(self, topic_partition: TopicPartition, partition: PartitionSequences) -> None:
        if partition.gap_end is None and partition.restart_from is None:
            self._gapped.discard(topic_partition)

    def _try_restart(
        self, topic_partition: TopicPartition, partition: PartitionSequences
    ) -> list[SequencedBatch]:
        pending = partition.pending
        if pending and not partition.awaits_restart(pending[0]):
            # The leader can still take it, or recognise it, under its number.
            return []
        if partition.is_in_flight:
            return []
        producer = self._producer
        if producer.producer_id == partition.producer.producer_id:
            if not partition.producer.can_be_raised:
                self.needs_new_id = True
                return []
            producer = partition.producer.raised()
        elif not producer.is_valid:
            return []
        unsafe = partition.renumber(producer)
        _log.info(
            "%s: sequence numbers start over as %s; %d batches are numbered again, %d cannot be sent again"
            " safely and fail",
            topic_partition,
            producer,
            len(partition.pending),
            len(unsafe),
        )
        return unsafe

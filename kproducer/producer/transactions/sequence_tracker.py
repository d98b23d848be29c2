"""SequenceTracker: which batch may be sent, under which number, and what an error says about the numbers.

Brokers take the batches of a producer in one partition only in the order of their numbers, and recognise the
last five of them when they come again. Two rules follow: at most five batches of a partition are without a
fate, and a batch that is sent again goes alone, first of all. Numbers are never given to other records, but
together with a new epoch, and only after every request that carried the old ones has ended: no broker ever
sees one number with two meanings, and what still comes in late under the old epoch is refused by it.

Differs from Kafka (see docs/transactions.md): an idempotent producer raises the epoch of the one partition in
trouble, the others are not disturbed. I/O thread only. Source: KIP-98, KIP-360; Kafka's
``TransactionManager`` (canRetry, handleFailedBatch, maybeResolveSequences) and
``RecordAccumulator.shouldStopDrainBatchesForPartition``.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

from kproducer.broker_errors import (
    DuplicateSequenceNumberError,
    OutOfOrderSequenceNumberError,
    UnknownProducerIdError,
)
from kproducer.errors import KafkaError, Outcome
from kproducer.guarded_logger import GuardedLogger
from kproducer.producer.transactions.partition_sequences import PartitionSequences, SequencedBatch
from kproducer.producer.transactions.producer_id_and_epoch import (
    NO_PRODUCER,
    NO_SEQUENCE,
    ProducerIdAndEpoch,
)
from kproducer.types import NO_OFFSET, TopicPartition

_log = GuardedLogger(__name__)

#: Brokers remember so many batches of a producer in each partition (``ProducerStateEntry``).
MOST_PENDING_BATCHES = 5


class Verdict(enum.Enum):
    """What an error means for a batch with a sequence; limits of time and tries are not looked at."""

    RETRY = "send it again"
    FAIL = "its records have failed"
    WRITTEN = "it is in the log, at an offset nobody knows"


class SequenceTracker:
    """The sequences of all partitions. I/O thread only.

    Args:
        is_transactional: batches belong to a transaction; then gaps are not mended, the transaction ends.
    """

    def __init__(self, is_transactional: bool) -> None:
        self._is_transactional = is_transactional
        self._producer = NO_PRODUCER
        self._partitions: dict[TopicPartition, PartitionSequences] = {}
        #: Where this producer id was acknowledged before. A leader that never heard of it takes a batch with
        #: any number as its first: with two on their way the later one might become the first (KAFKA-14359).
        self._known_to_leader: set[TopicPartition] = set()
        #: Partitions with a gap or a restart to come: empty as long as all is well.
        self._troubled: set[TopicPartition] = set()
        #: An epoch has come to its end: a new producer id has to be asked for.
        self.needs_new_id = False

    @property
    def producer(self) -> ProducerIdAndEpoch:
        """What the coordinator gave last."""
        return self._producer

    def set_producer(self, producer: ProducerIdAndEpoch) -> None:
        """Write as this producer from now on; in a partition with batches pending, when these are done."""
        if producer.producer_id != self._producer.producer_id:
            self._known_to_leader.clear()
        self._producer = producer
        self.needs_new_id = False

    def reset(self, producer: ProducerIdAndEpoch) -> None:
        """As ``set_producer``, and every count begins at 0: a transaction has ended, nothing is pending."""
        self.set_producer(producer)
        self._partitions.clear()
        self._troubled.clear()

    # -- before a batch is sent ------------------------------------------------------------------------

    def may_drain(self, batch: SequencedBatch) -> bool:
        """Whether the first batch of a partition's queue may be sent now."""
        topic_partition = batch.topic_partition
        partition = self._partitions.get(topic_partition)
        if partition is None:
            return self._producer.is_valid
        if batch.base_sequence != NO_SEQUENCE:
            return partition.is_first(batch) and not partition.must_restart
        if not self._producer.is_valid or topic_partition in self._troubled:
            return False
        if self._is_stale(partition):
            return not partition.pending
        is_known = topic_partition in self._known_to_leader
        return len(partition.pending) < (MOST_PENDING_BATCHES if is_known else 1)

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

    def succeeded(self, batch: SequencedBatch, base_offset: int = NO_OFFSET) -> None:
        """A broker has it."""
        partition = self._partition_of(batch)
        if partition is not None:
            partition.acknowledge(batch, base_offset)
            if batch.producer_id == self._producer.producer_id:
                self._known_to_leader.add(batch.topic_partition)
            if partition.gap_end is None and not partition.must_restart:
                self._troubled.discard(batch.topic_partition)

    def verdict(self, batch: SequencedBatch, error: KafkaError) -> Verdict:
        """What a broker's error means for the batch that it answered."""
        retry_if_retriable = Verdict.RETRY if error.retriable else Verdict.FAIL
        partition = self._partition_of(batch)
        if partition is None:
            return retry_if_retriable
        if isinstance(error, DuplicateSequenceNumberError):
            return Verdict.WRITTEN
        if isinstance(error, OutOfOrderSequenceNumberError):
            return self._out_of_order(partition, batch)
        if isinstance(error, UnknownProducerIdError) and not self._is_transactional:
            # Retention, or the deletion of records, took all that the broker knew of us.
            self._restart(batch.topic_partition, partition)
            return Verdict.RETRY
        return retry_if_retriable

    def _out_of_order(self, partition: PartitionSequences, batch: SequencedBatch) -> Verdict:
        if partition.has_acknowledged(batch):
            # The broker is past it, and takes batches in order only: an earlier attempt was written, longer
            # ago than the broker remembers.
            return Verdict.WRITTEN
        if partition.must_restart or not partition.is_first(batch):
            # An earlier one has to go before it.
            return Verdict.RETRY
        if self._is_transactional:
            return Verdict.FAIL
        self._restart(batch.topic_partition, partition)
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
        if partition.has_acknowledged(batch):
            partition.forget(batch)
        elif outcome in (Outcome.REJECTED, Outcome.NOT_SENT) and partition.gap_end is None:
            partition.forget(batch)
            if self._is_transactional:
                partition.note_gap(batch)
                self._troubled.add(batch.topic_partition)
            elif partition.is_ours(batch):
                self._restart(batch.topic_partition, partition)
        else:
            partition.note_gap(batch)
            self._troubled.add(batch.topic_partition)

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
        """Whether any numbered batch is without a fate, those included whose records were given up."""
        return any(partition.pending for partition in self._partitions.values())

    @property
    def has_trouble(self) -> bool:
        """Whether ``resolve`` has something to do, now or later."""
        return bool(self._troubled)

    def resolve(self) -> None:
        """Mend what can be mended now. Each round of the sender's loop; costs nothing while all is well."""
        for topic_partition in tuple(self._troubled):
            partition = self._partitions[topic_partition]
            if partition.gap_end is not None and not partition.pending:
                if partition.is_complete:
                    partition.gap_end = None
                elif not self._is_transactional:
                    partition.must_restart = True
            if partition.must_restart:
                self._try_restart(topic_partition, partition)
            elif partition.gap_end is None:
                self._troubled.discard(topic_partition)

    def _restart(self, topic_partition: TopicPartition, partition: PartitionSequences) -> None:
        partition.must_restart = True
        self._troubled.add(topic_partition)

    def _try_restart(self, topic_partition: TopicPartition, partition: PartitionSequences) -> None:
        if partition.is_in_flight:
            return
        producer = self._producer
        if producer.producer_id == partition.producer.producer_id:
            if not partition.producer.can_be_raised:
                self.needs_new_id = True
                return
            producer = partition.producer.raised()
        elif not producer.is_valid:
            return
        _log.info(
            "%s: %d batches are numbered anew, as %s", topic_partition, len(partition.pending), producer
        )
        partition.renumber(producer, self._is_transactional)
        self._troubled.discard(topic_partition)

    def forget_partitions(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Topics are gone for good: drop the books of those partitions where nothing is pending."""
        for topic_partition in topic_partitions:
            partition = self._partitions.get(topic_partition)
            if partition is not None and not partition.pending:
                del self._partitions[topic_partition]
                self._troubled.discard(topic_partition)

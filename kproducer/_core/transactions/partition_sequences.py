"""Producer ids and epochs, sequence numbers, and the batches of one partition that have them.

Sequence numbers count the records of a producer in one partition, from 0 to 2^31-1 and then from 0 again. So
one number is "after" another if it is less than half of the circle ahead. Everything here belongs to the I/O
thread, and nothing knows errors: ``SequenceTracker`` decides, ``PartitionSequences`` keeps the numbers.
Source: KIP-98, KIP-360; Kafka's ``ProducerIdAndEpoch``, ``TxnPartitionEntry``,
``DefaultRecordBatch.incrementSequence``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from kproducer._core.kernel.layout import INT16_MAX
from kproducer._core.transactions.delivery_knowledge import Knowledge
from kproducer.types import TopicPartition

#: Sequence numbers are taken modulo this: the one after 2^31-1 is 0.
SEQUENCE_COUNT: Final = 2**31
_HALF: Final = SEQUENCE_COUNT // 2
#: The value of an unused sequence field.
NO_SEQUENCE: Final = -1


class ProducerIdAndEpoch(NamedTuple):
    """Brokers tell producers apart by the id, and generations of one producer by the epoch."""

    producer_id: int
    epoch: int

    @property
    def is_valid(self) -> bool:
        """Whether the coordinator assigned it; ``NO_PRODUCER`` is not valid."""
        return self.producer_id >= 0 and self.epoch >= 0

    @property
    def can_be_raised(self) -> bool:
        """Whether there is a next epoch; after 32767 a new producer id has to be requested."""
        return self.is_valid and self.epoch < INT16_MAX

    def raised(self) -> ProducerIdAndEpoch:
        """The same id with the next epoch. Raises OverflowError after the last one."""
        if not self.can_be_raised:
            raise OverflowError(f"{self} has no next epoch")
        return ProducerIdAndEpoch(self.producer_id, self.epoch + 1)

    def __str__(self) -> str:
        return f"producer id {self.producer_id} epoch {self.epoch}"


NO_PRODUCER: Final = ProducerIdAndEpoch(-1, -1)


def sequence_after(sequence: int, record_count: int) -> int:
    """The sequence number ``record_count`` after ``sequence``; -1 counts as the number before 0."""
    return (sequence + record_count) % SEQUENCE_COUNT


def is_at_or_before(sequence: int, other: int) -> bool:
    """Whether ``sequence`` is ``other`` or less than half of the circle behind it."""
    return (other - sequence) % SEQUENCE_COUNT < _HALF


class SequencedBatch(Protocol):
    """The part of ``ProducerBatch`` that is needed here.

    Attributes:
        topic_partition: where it goes.
        record_count: how many sequence numbers it takes.
        producer_id, producer_epoch, base_sequence: what ``set_producer_state`` set last; -1 before.
        ordinal: how many batches of its partition were numbered before it.
        in_flight: a request that carries it was sent, and its end is not processed yet.
        knowledge: what the ended attempts say about it.
    """

    ordinal: int
    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    base_sequence: int
    in_flight: bool
    knowledge: Knowledge

    @property
    def record_count(self) -> int: ...

    def set_producer_state(
        self, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool
    ) -> None:
        """Write these into the batch's header; called only while it is not in flight."""


class PartitionSequences:
    """The sequence numbers of one partition.

    Attributes:
        producer: the producer id and epoch that the numbers belong to.
        next_sequence: for the next batch without a number.
        last_acked_sequence: the highest that a broker has acknowledged; -1 before the first.
        pending: numbered batches whose outcome is open, in sequence order: in flight, or waiting to be sent
            again.
        gap_end: the sequence number after a batch that was given up and may or may not be in the log. The
            leader accepts the next batch only if that one was written. ``None``: there is no such batch.
        restart_from: the leader cannot accept this sequence number: a batch before it was given up and is
            certainly not in the log, or the leader has refused it. Pending batches from here on need another
            epoch; those before it are still sent under their numbers. ``None``: there is no such number.
    """

    def __init__(self, producer: ProducerIdAndEpoch = NO_PRODUCER) -> None:
        self.pending: list[SequencedBatch] = []
        self._next_ordinal = 0
        self._first_ordinal_of_topic = 0
        self.begin(producer)

    def begin(self, producer: ProducerIdAndEpoch) -> None:
        """Number from 0 for this producer id and epoch."""
        self.producer = producer
        self.next_sequence = 0
        self.last_acked_sequence = NO_SEQUENCE
        self.gap_end: int | None = None
        self.restart_from: int | None = None

    def assign(self, batch: SequencedBatch, is_transactional: bool) -> None:
        """Give a batch the next numbers, and keep it until its outcome is known."""
        producer_id, epoch = self.producer
        sequence = self.next_sequence
        batch.set_producer_state(producer_id, epoch, sequence, is_transactional)
        self.next_sequence = (sequence + batch.record_count) % SEQUENCE_COUNT
        batch.ordinal = self._next_ordinal
        self._next_ordinal += 1
        self.pending.append(batch)

    def note_lent(self, count: int, last_acked_sequence: int) -> None:
        """A lane has numbered batches, and so many were acknowledged, up to this sequence number."""
        if count:
            self._next_ordinal += count
            if not self._is_acked(last_acked_sequence):
                self.last_acked_sequence = last_acked_sequence

    def adopt(self, batch: SequencedBatch, numbers: tuple[int, int, int], is_transactional: bool) -> None:
        """A batch that a lane has numbered and sent is pending."""
        batch.set_producer_state(*numbers, is_transactional)
        batch.ordinal = self._next_ordinal
        self._next_ordinal += 1
        self.pending.append(batch)

    def numbered_since_first_pending(self) -> int:
        """How many batches were numbered since the first pending one, with itself. There is a pending one.

        Those behind it may have been acknowledged already, on the connection to another leader, for example.
        """
        return self._next_ordinal - self.pending[0].ordinal

    def note_new_topic(self) -> None:
        """The topic was created again."""
        self._first_ordinal_of_topic = self._next_ordinal

    def is_for_present_topic(self, batch: SequencedBatch) -> bool:
        """Whether the batch was numbered after its topic was created again, if it was.

        An earlier one may have been sent to the deleted topic, whose leader may still answer.
        """
        return batch.ordinal >= self._first_ordinal_of_topic

    def renumber(self, producer: ProducerIdAndEpoch) -> list[SequencedBatch]:
        """Number from 0 for this producer id and epoch, pending batches first. None may be in flight.

        Returns:
            Batches that must not be sent again, and are no longer pending: those that an earlier attempt may
            have written, because a broker would not recognise them under other numbers, and those before
            them, because they would be written after those.
        """
        pending, self.pending = self.pending, []
        self.begin(producer)
        unsafe_count = 0
        for count, batch in enumerate(pending, 1):
            if batch.knowledge is Knowledge.UNKNOWN:
                unsafe_count = count
        for batch in pending[unsafe_count:]:
            self.assign(batch, is_transactional=False)
        return pending[:unsafe_count]

    def acknowledge(self, batch: SequencedBatch) -> None:
        """A broker has acknowledged the batch. Responses may come in any order."""
        if self.pending and self.pending[0] is batch:
            del self.pending[0]
        else:
            self.forget(batch)
        if self.producer != (batch.producer_id, batch.producer_epoch):
            return
        last = last_sequence(batch)
        if not self._is_acked(last):
            self.last_acked_sequence = last
        # The leader has accepted a batch behind the gap, so it accepts the next numbers too. This says
        # nothing about whether the batch that left the gap was written.
        if self.gap_end is not None and self._is_acked(sequence_after(self.gap_end, -1)):
            self.gap_end = None
        if self.restart_from is not None and self._is_acked(self.restart_from):
            self.restart_from = None

    def note_gap(self, batch: SequencedBatch) -> None:
        """The batch was given up and may be in the log: it is unknown which number the leader expects."""
        end = sequence_after(batch.base_sequence, batch.record_count)
        if self.gap_end is None or is_at_or_before(self.gap_end, end):
            self.gap_end = end

    def note_restart(self, sequence: int) -> None:
        """Numbering has to start over from this number on."""
        if self.restart_from is None or is_at_or_before(sequence, self.restart_from):
            self.restart_from = sequence

    def split(self, batch: SequencedBatch, parts: Sequence[SequencedBatch], is_transactional: bool) -> None:
        """Replace a pending batch by its parts, which share its numbers."""
        sequence = batch.base_sequence
        for part in parts:
            part.set_producer_state(batch.producer_id, batch.producer_epoch, sequence, is_transactional)
            sequence = sequence_after(sequence, part.record_count)
        index = self.pending.index(batch)
        self.pending[index : index + 1] = parts
        # Nothing behind a batch that was refused is acknowledged.
        for ordinal, each in enumerate(self.pending[index:], batch.ordinal):
            each.ordinal = ordinal
        self._next_ordinal = self.pending[-1].ordinal + 1

    def forget(self, batch: SequencedBatch) -> None:
        """The outcome of the batch is known, or does not matter. A batch that is not pending is ignored."""
        if batch in self.pending:
            self.pending.remove(batch)

    def is_first(self, batch: SequencedBatch) -> bool:
        """Whether no earlier batch is pending."""
        return not self.pending or self.pending[0] is batch

    def is_ours(self, batch: SequencedBatch) -> bool:
        """Whether the batch was numbered under the present producer id and epoch."""
        return self.producer == (batch.producer_id, batch.producer_epoch)

    def is_passed(self, batch: SequencedBatch) -> bool:
        """Whether this batch or a later one was acknowledged, so that the leader refuses this one."""
        return self.is_ours(batch) and self._is_acked(last_sequence(batch))

    def awaits_restart(self, batch: SequencedBatch) -> bool:
        """Whether the leader cannot accept a pending batch under its present numbers."""
        return self.restart_from is not None and is_at_or_before(self.restart_from, batch.base_sequence)

    def _is_acked(self, sequence: int) -> bool:
        last = self.last_acked_sequence
        return last != NO_SEQUENCE and (last - sequence) % SEQUENCE_COUNT < _HALF


def last_sequence(batch: SequencedBatch) -> int:
    """The sequence number of the batch's last record."""
    return (batch.base_sequence + batch.record_count - 1) % SEQUENCE_COUNT

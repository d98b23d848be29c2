"""PartitionSequences: the sequence numbers of one partition's batches, and which batches are unresolved.

I/O thread only. Knows nothing of errors: ``SequenceTracker`` decides, this class keeps the books.
Source: Kafka's ``TxnPartitionEntry``; KIP-98, KIP-360.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kproducer.transactions.delivery_knowledge import Knowledge
from kproducer.transactions.producer_id_and_epoch import (
    NO_PRODUCER,
    NO_SEQUENCE,
    ProducerIdAndEpoch,
    is_at_or_before,
    sequence_after,
)
from kproducer.types import TopicPartition


class SequencedBatch(Protocol):
    """What a batch has to offer: ``ProducerBatch`` does.

    Attributes:
        topic_partition: where it goes.
        record_count: how many sequence numbers it takes.
        producer_id, producer_epoch, base_sequence: what ``set_producer_state`` set last; -1 before.
        in_flight: a request that carries it is on its way or being answered.
        knowledge: what the attempts that have ended say about it.
    """

    @property
    def topic_partition(self) -> TopicPartition: ...
    @property
    def record_count(self) -> int: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...
    @property
    def in_flight(self) -> bool: ...
    @property
    def knowledge(self) -> Knowledge: ...

    def set_producer_state(
        self, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool
    ) -> None:
        """Write the numbers into the batch's header; called only while it is not in flight."""


class PartitionSequences:
    """The books of one partition.

    Attributes:
        producer: whose sequence numbers these are.
        next_sequence: of the next batch that has none yet.
        last_acked_sequence: the highest that a broker has acknowledged; -1 before the first.
        pending: numbered batches whose outcome is open, in sequence order: at a broker, or waiting to be sent
            again.
        gap_end: set when a batch was given up that may or may not be in the log: the sequence behind it. The
            leader takes the next batch only if the one before was written.
        restart_from: set when the leader cannot take this sequence number: a batch before it was given up and
            is certainly not in the log, or the leader has refused it. What is pending from here on needs
            another epoch. Batches before it are still sent under their numbers.
    """

    __slots__ = (
        "gap_end",
        "last_acked_sequence",
        "next_sequence",
        "pending",
        "producer",
        "restart_from",
    )

    def __init__(self) -> None:
        self.pending: list[SequencedBatch] = []
        self.begin(NO_PRODUCER)

    def begin(self, producer: ProducerIdAndEpoch) -> None:
        """Count from 0 as this producer."""
        self.producer = producer
        self.next_sequence = 0
        self.last_acked_sequence = NO_SEQUENCE
        self.gap_end: int | None = None
        self.restart_from: int | None = None

    def assign(self, batch: SequencedBatch, is_transactional: bool) -> None:
        """Give a batch the next numbers, and keep it until its outcome is known."""
        producer_id, epoch = self.producer
        batch.set_producer_state(producer_id, epoch, self.next_sequence, is_transactional)
        self.next_sequence = sequence_after(self.next_sequence, batch.record_count)
        self.pending.append(batch)

    def renumber(self, producer: ProducerIdAndEpoch) -> list[SequencedBatch]:
        """Count from 0 as this producer, beginning with what is pending. Nothing of it may be in flight.

        Returns:
            Batches that must not be sent again, and are no longer pending: those that an earlier attempt may
            have written, since under other numbers the broker would not recognise them, and those before
            them, since they would come behind.
        """
        pending, self.pending = self.pending, []
        self.begin(producer)
        unsafe_count = 0
        for place, batch in enumerate(pending, 1):
            if batch.knowledge is Knowledge.UNKNOWN:
                unsafe_count = place
        for batch in pending[unsafe_count:]:
            self.assign(batch, is_transactional=False)
        return pending[:unsafe_count]

    def acknowledge(self, batch: SequencedBatch) -> None:
        """A broker has it. Answers may come in any order: only later numbers move the mark."""
        self.forget(batch)
        if not self.is_ours(batch):
            return
        if not self.is_passed(batch):
            self.last_acked_sequence = last_sequence(batch)
        # The leader has taken a batch behind the gap, so it takes the next numbers too. Whether what was
        # given up there has been written is another question, and nobody concludes anything about it.
        if self.gap_end is not None and self._is_acked(sequence_after(self.gap_end, -1)):
            self.gap_end = None
        if self.restart_from is not None and self._is_acked(self.restart_from):
            self.restart_from = None

    def note_gap(self, batch: SequencedBatch) -> None:
        """The batch was given up and may be in the log: what the leader expects next is not known."""
        end = sequence_after(batch.base_sequence, batch.record_count)
        if self.gap_end is None or is_at_or_before(self.gap_end, end):
            self.gap_end = end

    def note_restart(self, sequence: int) -> None:
        """From this number on, numbering has to start over."""
        if self.restart_from is None or is_at_or_before(sequence, self.restart_from):
            self.restart_from = sequence

    def split(self, batch: SequencedBatch, parts: Sequence[SequencedBatch], is_transactional: bool) -> None:
        """The parts take the place and, one after the other, the numbers of the whole."""
        sequence = batch.base_sequence
        for part in parts:
            part.set_producer_state(batch.producer_id, batch.producer_epoch, sequence, is_transactional)
            sequence = sequence_after(sequence, part.record_count)
        place = self.pending.index(batch)
        self.pending[place : place + 1] = parts

    def forget(self, batch: SequencedBatch) -> None:
        """Its outcome is known, or does not matter. Does nothing for a batch that is not pending."""
        if batch in self.pending:
            self.pending.remove(batch)

    def is_first(self, batch: SequencedBatch) -> bool:
        """Whether no earlier batch is pending."""
        return not self.pending or self.pending[0] is batch

    def is_ours(self, batch: SequencedBatch) -> bool:
        """Whether it was numbered under the present producer id and epoch."""
        return self.producer == (batch.producer_id, batch.producer_epoch)

    def is_passed(self, batch: SequencedBatch) -> bool:
        """Whether this batch, or a later one, was acknowledged: the leader takes this one no more."""
        return self.is_ours(batch) and self._is_acked(last_sequence(batch))

    def awaits_restart(self, batch: SequencedBatch) -> bool:
        """Whether the leader cannot take a pending batch under its present numbers."""
        return self.restart_from is not None and is_at_or_before(self.restart_from, batch.base_sequence)

    def _is_acked(self, sequence: int) -> bool:
        return self.last_acked_sequence != NO_SEQUENCE and is_at_or_before(sequence, self.last_acked_sequence)

    @property
    def is_in_flight(self) -> bool:
        """Whether a request carries any of its numbered batches."""
        return any(batch.in_flight for batch in self.pending)


def last_sequence(batch: SequencedBatch) -> int:
    """The number of the batch's last record."""
    return sequence_after(batch.base_sequence, batch.record_count - 1)

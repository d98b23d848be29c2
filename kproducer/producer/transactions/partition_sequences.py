"""PartitionSequences: the numbers of one partition's batches, and which of these batches have no fate yet.

I/O thread only. Knows nothing of errors and states: ``SequenceTracker`` decides, this keeps the books.
Source: Kafka's ``TxnPartitionEntry``; KIP-98, KIP-360.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kproducer.producer.transactions.producer_id_and_epoch import (
    NO_PRODUCER,
    NO_SEQUENCE,
    ProducerIdAndEpoch,
    is_at_or_before,
    sequence_after,
)
from kproducer.types import NO_OFFSET, TopicPartition


class SequencedBatch(Protocol):
    """What a batch has to offer: ``ProducerBatch`` does.

    Attributes:
        topic_partition: where it goes.
        record_count: how many sequences it takes.
        producer_id, producer_epoch, base_sequence: what ``set_producer_state`` set last; -1 before.
        in_flight: a request that carries it is on its way or being answered.
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

    def set_producer_state(
        self, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool
    ) -> None:
        """Write the numbers into the batch's header; called only while it is not in flight."""


class PartitionSequences:
    """The books of one partition.

    Attributes:
        producer: whose sequences these are.
        next_sequence: of the next batch that has none yet.
        last_acked_sequence: the highest that a broker has acknowledged; -1 before the first.
        last_acked_offset: its place in the log; -1 when no answer told one.
        pending: batches with a sequence and without a fate, in sequence order: at a broker, or waiting to be
            sent again.
        gap_end: set when a batch was given up and may or may not be in the log: the sequence behind it.
        must_restart: what is pending has to be numbered anew, from 0 and with another epoch or id.
    """

    __slots__ = (
        "gap_end",
        "last_acked_offset",
        "last_acked_sequence",
        "must_restart",
        "next_sequence",
        "pending",
        "producer",
    )

    def __init__(self) -> None:
        self.pending: list[SequencedBatch] = []
        self.begin(NO_PRODUCER)

    def begin(self, producer: ProducerIdAndEpoch) -> None:
        """Count from 0 as this producer. What is pending keeps its old numbers until ``renumber``."""
        self.producer = producer
        self.next_sequence = 0
        self.last_acked_sequence = NO_SEQUENCE
        self.last_acked_offset = NO_OFFSET
        self.gap_end: int | None = None
        self.must_restart = False

    def assign(self, batch: SequencedBatch, is_transactional: bool) -> None:
        """Give a batch the next numbers and wait for its fate."""
        self._number(batch, is_transactional)
        self.pending.append(batch)

    def renumber(self, producer: ProducerIdAndEpoch, is_transactional: bool) -> None:
        """Count from 0 as this producer, beginning with what is pending. Nothing of it may be in flight."""
        self.begin(producer)
        for batch in self.pending:
            self._number(batch, is_transactional)

    def _number(self, batch: SequencedBatch, is_transactional: bool) -> None:
        producer_id, epoch = self.producer
        batch.set_producer_state(producer_id, epoch, self.next_sequence, is_transactional)
        self.next_sequence = sequence_after(self.next_sequence, batch.record_count)

    def acknowledge(self, batch: SequencedBatch, base_offset: int) -> None:
        """A broker has it. Answers may come in any order: only later numbers move the mark."""
        self.forget(batch)
        if self.is_ours(batch) and not self.has_acknowledged(batch):
            self.last_acked_sequence = last_sequence(batch)
            if base_offset >= 0:
                self.last_acked_offset = base_offset + batch.record_count - 1
        if self.gap_end is not None and self._is_acked(sequence_after(self.gap_end, -1)):
            # A later batch was taken, so the one in doubt was in the log.
            self.gap_end = None

    def note_gap(self, batch: SequencedBatch) -> None:
        """Nobody will ever know whether this batch was written, unless a later one is acknowledged."""
        self.forget(batch)
        end = sequence_after(batch.base_sequence, batch.record_count)
        if self.is_ours(batch) and (self.gap_end is None or is_at_or_before(self.gap_end, end)):
            self.gap_end = end

    def split(self, batch: SequencedBatch, parts: Sequence[SequencedBatch], is_transactional: bool) -> None:
        """The parts take the place and, one after the other, the numbers of the whole."""
        sequence = batch.base_sequence
        for part in parts:
            part.set_producer_state(batch.producer_id, batch.producer_epoch, sequence, is_transactional)
            sequence = sequence_after(sequence, part.record_count)
        place = self.pending.index(batch)
        self.pending[place : place + 1] = parts

    def forget(self, batch: SequencedBatch) -> None:
        """Its fate is known, or does not matter. Does nothing for a batch that is not pending."""
        if batch in self.pending:
            self.pending.remove(batch)

    def is_first(self, batch: SequencedBatch) -> bool:
        """Whether no earlier batch is pending."""
        return not self.pending or self.pending[0] is batch

    def is_ours(self, batch: SequencedBatch) -> bool:
        """Whether it was numbered in the present count."""
        return self.producer == (batch.producer_id, batch.producer_epoch)

    def has_acknowledged(self, batch: SequencedBatch) -> bool:
        """Whether this batch, or a later one, was acknowledged: then it is in the log."""
        return self.is_ours(batch) and self._is_acked(last_sequence(batch))

    def _is_acked(self, sequence: int) -> bool:
        return self.last_acked_sequence != NO_SEQUENCE and is_at_or_before(sequence, self.last_acked_sequence)

    @property
    def is_complete(self) -> bool:
        """Whether each number given out is known to be in the log."""
        return sequence_after(self.last_acked_sequence, 1) == self.next_sequence

    @property
    def is_in_flight(self) -> bool:
        """Whether a request carries any of its numbered batches."""
        return any(batch.in_flight for batch in self.pending)


def last_sequence(batch: SequencedBatch) -> int:
    """The number of the batch's last record."""
    return sequence_after(batch.base_sequence, batch.record_count - 1)

"""The producer's id and epoch, and arithmetic on sequence numbers.

Sequences number the records of a producer in one partition, from 0 to 2^31-1 and then from 0 again. So
"later" means: less than half of the circle ahead. Source: KIP-98, KIP-360; Kafka's ``ProducerIdAndEpoch``,
``DefaultRecordBatch.incrementSequence``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kproducer.kernel.layout import INT16_MAX

#: Sequences are taken modulo this: the one after 2^31-1 is 0.
SEQUENCE_COUNT: Final = 2**31
#: What an unused sequence field holds.
NO_SEQUENCE: Final = -1


class ProducerIdAndEpoch(NamedTuple):
    """Who writes: brokers tell producers apart by the id, and generations of one producer by the epoch."""

    producer_id: int
    epoch: int

    @property
    def is_valid(self) -> bool:
        """Whether the coordinator gave it; ``NO_PRODUCER`` is not valid."""
        return self.producer_id >= 0 and self.epoch >= 0

    @property
    def can_be_raised(self) -> bool:
        """Whether there is a next epoch; after 32767 a new producer id has to be asked for."""
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
    """The sequence ``record_count`` places after ``sequence``; -1 counts as the place before 0."""
    return (sequence + record_count) % SEQUENCE_COUNT


def is_at_or_before(sequence: int, other: int) -> bool:
    """Whether ``sequence`` is ``other`` or less than half of the circle behind it."""
    return (other - sequence) % SEQUENCE_COUNT < SEQUENCE_COUNT // 2

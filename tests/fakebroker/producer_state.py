"""What a partition's leader knows of producers: epochs, the last five batches of each, and open transactions.

Pure state: nothing of requests or sockets, so that state machine tests use it without a broker.
Source: Kafka's ``ProducerStateManager``, ``ProducerAppendInfo``, ``ProducerStateEntry``; KIP-98, KIP-360.
"""

from __future__ import annotations

from typing import NamedTuple

import attrs

OUT_OF_ORDER_SEQUENCE_NUMBER = 45
INVALID_PRODUCER_EPOCH = 47
INVALID_TXN_STATE = 48
UNKNOWN_PRODUCER_ID = 59
KEPT_BATCHES = 5
_SEQUENCES = 2**31


class KeptBatch(NamedTuple):
    """A batch that would be recognised if it came again."""

    first_sequence: int
    last_sequence: int
    base_offset: int


class Marker(NamedTuple):
    """The end of a producer's transaction in this partition; takes an offset, as in Kafka."""

    offset: int
    producer_id: int
    epoch: int
    is_commit: bool

    def ends(self, producer_id: int, offset: int) -> bool:
        """Whether it decides about what this producer wrote at an offset; the first such marker does."""
        return self.producer_id == producer_id and self.offset > offset


@attrs.define
class ProducerEntry:
    """One producer in one partition. ``kept`` is empty after a marker with a new epoch."""

    epoch: int
    kept: list[KeptBatch] = attrs.field(factory=list)
    is_in_transaction: bool = False


@attrs.define
class ProducerStates:
    """All producers of one partition.

    Attributes:
        refuses_unknown: answer UNKNOWN_PRODUCER_ID to a producer without state that does not begin at 0, as
            brokers before 2.5 do; later ones take any sequence then.
    """

    entries: dict[int, ProducerEntry] = attrs.field(factory=dict)
    refuses_unknown: bool = False

    def check(self, producer_id: int, epoch: int, first: int, count: int) -> int | KeptBatch:
        """0: append it; an error code; or the batch that it is a duplicate of."""
        entry = self.entries.get(producer_id)
        if entry is None:
            return UNKNOWN_PRODUCER_ID if self.refuses_unknown and first != 0 else 0
        if epoch < entry.epoch:
            return INVALID_PRODUCER_EPOCH
        if epoch > entry.epoch:
            return OUT_OF_ORDER_SEQUENCE_NUMBER if first != 0 else 0
        last = (first + count - 1) % _SEQUENCES
        for kept in entry.kept:
            if (kept.first_sequence, kept.last_sequence) == (first, last):
                return kept
        if entry.kept and first != (entry.kept[-1].last_sequence + 1) % _SEQUENCES:
            return OUT_OF_ORDER_SEQUENCE_NUMBER
        # After a marker of this epoch and no batch any sequence is taken.
        return 0

    def appended(
        self, producer_id: int, epoch: int, first: int, count: int, base_offset: int, is_transactional: bool
    ) -> None:
        """Note a batch that ``check`` let through."""
        entry = self.entries.get(producer_id)
        if entry is None or epoch > entry.epoch:
            entry = self.entries[producer_id] = ProducerEntry(epoch)
        entry.kept.append(KeptBatch(first, (first + count - 1) % _SEQUENCES, base_offset))
        del entry.kept[:-KEPT_BATCHES]
        entry.is_in_transaction = is_transactional

    def marked(self, producer_id: int, epoch: int) -> None:
        """Note the end of a transaction; a newer epoch in the marker fences the older one."""
        entry = self.entries.get(producer_id)
        if entry is None or epoch > entry.epoch:
            self.entries[producer_id] = ProducerEntry(epoch)
        else:
            entry.is_in_transaction = False

    def forget(self, producer_id: int | None = None) -> None:
        """Retention, DeleteRecords or producer.id.expiration.ms took what was known."""
        if producer_id is None:
            self.entries.clear()
        else:
            self.entries.pop(producer_id, None)

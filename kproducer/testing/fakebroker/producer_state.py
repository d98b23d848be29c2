"""A partition leader's state of producers: epochs, the last five batches of each, and open transactions.

Pure state without requests or sockets, so that state machine tests can use it without a broker. Each rule
names its source in Apache Kafka (4.x, package ``org.apache.kafka.storage.internals.log``);
see also KIP-98, KIP-360, KIP-890.
"""

from __future__ import annotations

from typing import NamedTuple

import attrs

OUT_OF_ORDER_SEQUENCE_NUMBER = 45
INVALID_PRODUCER_EPOCH = 47
INVALID_TXN_STATE = 48
UNKNOWN_PRODUCER_ID = 59
#: ``ProducerStateEntry.NUM_BATCHES_TO_RETAIN``.
KEPT_BATCHES = 5
_SEQUENCES = 2**31


class KeptBatch(NamedTuple):
    """A batch that is recognised as a duplicate. ``timestamp_ms``: of its newest record."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    timestamp_ms: int = -1


class Marker(NamedTuple):
    """The end of a producer's transaction in this partition; takes an offset, as in Kafka."""

    offset: int
    producer_id: int
    epoch: int
    is_commit: bool

    def ends(self, producer_id: int, offset: int) -> bool:
        """Whether it ends the transaction of a record at an offset; the first such marker does."""
        return self.producer_id == producer_id and self.offset > offset


@attrs.define
class ProducerEntry:
    """One producer in one partition (``ProducerStateEntry``).

    Attributes:
        kept: its last batches of this epoch; empty after a marker with a new epoch.
        is_in_transaction: a transaction has data in this partition, but no marker yet.
        last_timestamp_ms: newest record timestamp of the last batch, not the broker's time.
    """

    epoch: int
    kept: list[KeptBatch] = attrs.field(factory=list)
    is_in_transaction: bool = False
    last_timestamp_ms: int = -1

    def find(self, epoch: int, first: int, last: int) -> KeptBatch | None:
        """The kept batch of this epoch with exactly this range
        (``ProducerStateEntry.findDuplicateBatch``).
        """
        if epoch != self.epoch:
            return None
        return next((kept for kept in self.kept if kept[:2] == (first, last)), None)

    @property
    def next_sequence(self) -> int:
        """The only first sequence that this epoch accepts.

        ``ProducerAppendInfo.inSequence``: the last one plus 1, or 0 after 2**31 - 1. If this epoch has no
        batch (it came with a marker), the last sequence counts as -1.
        """
        return (self.kept[-1].last_sequence + 1) % _SEQUENCES if self.kept else 0


@attrs.define
class Verification:
    """A transaction without data in this partition yet (``VerificationStateEntry``, KIP-890)."""

    lowest_sequence: int
    epoch: int
    bumps_epoch: bool


@attrs.define
class ProducerStates:
    """All producers of one partition (``ProducerStateManager``).

    Attributes:
        entries: by producer id.
        verifications: by producer id, of transactions that have no data in this partition yet.
        refuses_unknown: return UNKNOWN_PRODUCER_ID to a producer without state that does not begin at 0, as
            brokers before 2.5.
    """

    entries: dict[int, ProducerEntry] = attrs.field(factory=dict)
    verifications: dict[int, Verification] = attrs.field(factory=dict)
    refuses_unknown: bool = False

    # -- before an append -----------------------------------------------------------------------------

    def check(
        self, producer_id: int, epoch: int, first: int, count: int, is_transactional: bool = False
    ) -> int | KeptBatch:
        """Return 0 to append the batch, an error code, or the kept batch that it duplicates.

        The order is that of ``UnifiedLog.analyzeAndValidateProducerState`` and
        ``ProducerAppendInfo.appendDataBatch``: duplicate, epoch, sequence, open transaction.
        """
        entry = self.entries.get(producer_id)
        if entry is not None and (kept := entry.find(epoch, first, (first + count - 1) % _SEQUENCES)):
            return kept
        if self.is_fenced(producer_id, epoch):
            return INVALID_PRODUCER_EPOCH
        if code := self._check_sequence(producer_id, entry, epoch, first):
            return code
        if entry is not None and entry.is_in_transaction and not is_transactional:
            return INVALID_TXN_STATE
        return 0

    def _check_sequence(self, producer_id: int, entry: ProducerEntry | None, epoch: int, first: int) -> int:
        """``ProducerAppendInfo.checkSequence``."""
        verification = self.verifications.get(producer_id)
        if verification is not None:
            has_batch = entry is not None and entry.kept
            if verification.bumps_epoch and first != 0 and not has_batch:
                return OUT_OF_ORDER_SEQUENCE_NUMBER
            if first > verification.lowest_sequence:
                return OUT_OF_ORDER_SEQUENCE_NUMBER
        if entry is None:
            # Any sequence is accepted (KAFKA-14359), by brokers since 2.5.
            return UNKNOWN_PRODUCER_ID if self.refuses_unknown and first != 0 else 0
        expected = 0 if epoch != entry.epoch else entry.next_sequence
        return 0 if first == expected else OUT_OF_ORDER_SEQUENCE_NUMBER

    def is_fenced(self, producer_id: int, epoch: int) -> bool:
        """``ProducerAppendInfo.checkProducerEpoch`` for data, and ``UnifiedLog`` before it verifies."""
        entry = self.entries.get(producer_id)
        return entry is not None and epoch < entry.epoch

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """``UnifiedLog.hasOngoingTransaction``."""
        entry = self.entries.get(producer_id)
        return entry is not None and entry.is_in_transaction and entry.epoch == epoch

    def verifying(self, producer_id: int, epoch: int, first: int, bumps_epoch: bool) -> None:
        """Register that the coordinator verifies a transaction's first batch in this partition.

        ``ProducerStateManager.maybeCreateVerificationStateEntry``. The entry stays until data is appended, so
        that after a failed verification no later batch is appended before an earlier one.

        Args:
            bumps_epoch: transaction protocol 2.
        """
        known = self.verifications.setdefault(producer_id, Verification(first, epoch, bumps_epoch))
        if epoch > known.epoch:
            known.epoch, known.lowest_sequence = epoch, first
        elif epoch == known.epoch:
            known.lowest_sequence = min(known.lowest_sequence, first)

    # -- after an append ------------------------------------------------------------------------------

    def appended(
        self,
        producer_id: int,
        epoch: int,
        first: int,
        count: int,
        base_offset: int,
        is_transactional: bool,
        timestamp_ms: int = -1,
    ) -> None:
        """Register an appended batch that passed ``check`` (``ProducerStateEntry.addBatch``)."""
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(epoch)
        if epoch != entry.epoch:
            entry.epoch = epoch
            entry.kept.clear()
        last = (first + count - 1) % _SEQUENCES
        entry.kept.append(KeptBatch(first, last, base_offset, timestamp_ms))
        del entry.kept[:-KEPT_BATCHES]
        entry.last_timestamp_ms = timestamp_ms
        if is_transactional:
            entry.is_in_transaction = True
            self.verifications.pop(producer_id, None)

    def marked(self, producer_id: int, epoch: int, timestamp_ms: int = -1) -> None:
        """Apply the end marker of a transaction; a newer epoch in the marker fences the older one.

        ``ProducerAppendInfo.appendEndTxnMarker`` and ``UnifiedLog.updateProducers``.
        """
        entry = self.entries.get(producer_id)
        if entry is None or epoch > entry.epoch:
            self.entries[producer_id] = ProducerEntry(epoch, last_timestamp_ms=timestamp_ms)
        else:
            entry.is_in_transaction = False
            entry.last_timestamp_ms = timestamp_ms
        verification = self.verifications.get(producer_id)
        if verification is not None and not (verification.bumps_epoch and verification.epoch == epoch):
            del self.verifications[producer_id]

    # -- expiry ---------------------------------------------------------------------------------------

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """``producer.id.expiration.ms``: drop producers without newer records, unless in a transaction.

        ``ProducerStateManager.removeExpiredProducers``.
        """
        for producer_id, entry in list(self.entries.items()):
            if not entry.is_in_transaction and now_ms - entry.last_timestamp_ms >= expiration_ms:
                del self.entries[producer_id]

    def reload_snapshot(self) -> None:
        """A clean shutdown and start: the snapshot has only the last batch of each producer.

        ``ProducerStateManager.writeSnapshot`` and ``readSnapshot``. (After a crash, the broker reads the log
        and knows the last five batches.)
        """
        for entry in self.entries.values():
            del entry.kept[:-1]
        self.verifications.clear()

    def forget(self) -> None:
        """Forget all producers, as after retention or ``producer.id.expiration.ms``."""
        self.entries.clear()

"""KafkaModel: as much of a Kafka cluster as decides what a read_committed reader sees.

One entry for each transactional id with Kafka's phases, and the pending offsets; committed offsets of groups;
what became visible. Each method is atomic: a broker does one thing after the other for one transactional id.
Leaders refuse what coordinators refuse (KIP-890, or AddPartitionsToTxn before it); that one may hear of a new
epoch later than the other is not modelled. Source: KIP-98, KIP-447, KIP-890; ``TransactionCoordinator``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from kproducer._core.transactions.transaction_arguments import OffsetAndMetadata
from kproducer.errors import FencedError, IllegalStateError, TransactionAbortedError

#: A row: the number of its batch, and its name.
Row = tuple[int, str]


class Phase(IntEnum):
    """Of the transaction of a transactional id."""

    EMPTY = 0
    ONGOING = 1
    #: It will be committed in any case; partitions do not all show it yet.
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5


class Identity(NamedTuple):
    """Whom a producer says it is."""

    transactional_id: str
    producer_id: int
    epoch: int


class Transaction(NamedTuple):
    """What the coordinator keeps of a transactional id.

    Attributes:
        producer_id, epoch: whom it belongs to; producer ids are counted for each transactional id here.
        rows, offsets: what is open; empty when nothing is.
        ended: whose transaction ended last, as long as nobody initialized the id since.
        by_broker: its time was over, or it was fenced: its owner did not end it.
    """

    producer_id: int
    epoch: int
    phase: Phase
    rows: tuple[Row, ...] = ()
    offsets: tuple[tuple[str, OffsetAndMetadata], ...] = ()
    ended: tuple[int, int] | None = None
    by_broker: bool = False


class BlockedError(Exception):
    """The answer has to wait for something else (CONCURRENT_TRANSACTIONS, UNSTABLE_OFFSET_COMMIT)."""


class KafkaModel:
    """Mutable; ``copy`` is cheap, ``key`` compares.

    Args:
        version: of the transaction protocol: 1, or 2 (each end of a transaction brings a new epoch).
        last_epoch: after it comes a new producer id.
        slow_markers: the end of a transaction and its becoming visible are two events.
        fencing: ``False`` takes from InitProducerId that it ends what is open and raises the epoch.
    """

    __slots__ = ("_fencing", "_last_epoch", "_slow_markers", "_version", "offsets", "transactions", "visible")

    def __init__(
        self, *, version: int = 2, last_epoch: int = 32_767, slow_markers: bool = False, fencing: bool = True
    ) -> None:
        self._version = version
        self._last_epoch = last_epoch
        self._slow_markers = slow_markers
        self._fencing = fencing
        self.transactions: dict[str, Transaction] = {}
        self.offsets: dict[str, OffsetAndMetadata] = {}
        #: Rows of committed transactions with data, each with its transactional id; sorted.
        self.visible: tuple[tuple[str, tuple[Row, ...]], ...] = ()

    def copy(self) -> KafkaModel:
        """Another one in the same state."""
        other = KafkaModel.__new__(KafkaModel)
        other._version = self._version
        other._last_epoch = self._last_epoch
        other._slow_markers = self._slow_markers
        other._fencing = self._fencing
        other.transactions = self.transactions.copy()
        other.offsets = self.offsets.copy()
        other.visible = self.visible
        return other

    def key(self) -> object:
        """Equal for equal states."""
        return (
            frozenset(self.transactions.items()),
            frozenset(self.offsets.items()),
            self.visible,
        )

    # -- what a reader sees ----------------------------------------------------------------------------

    def committed(self) -> tuple[tuple[str, tuple[Row, ...]], ...]:
        """What a reader sees now, or will see in any case: transactional ids and rows."""
        decided = tuple(
            (name, each.rows)
            for name, each in self.transactions.items()
            if each.phase is Phase.PREPARE_COMMIT and each.rows
        )
        return self.visible + decided

    def has_open(self, transactional_id: str) -> bool:
        """Whether a transaction of it is open."""
        found = self.transactions.get(transactional_id)
        return found is not None and found.phase is Phase.ONGOING

    # -- requests --------------------------------------------------------------------------------------

    def init_producer_id(self, transactional_id: str) -> Identity | None:
        """``None``: what was open is aborted now, the request has to come again.

        Raises:
            BlockedError: what was ended is not wholly ended.
        """
        found = self.transactions.get(transactional_id, Transaction(0, -1, Phase.EMPTY))
        if self._fencing:
            if found.phase in (Phase.PREPARE_COMMIT, Phase.PREPARE_ABORT):
                raise BlockedError
            if found.phase is Phase.ONGOING:
                self._end(transactional_id, found, Phase.PREPARE_ABORT, bump=True, by_broker=True)
                if self._slow_markers:
                    return None
                found = self.transactions[transactional_id]
        if self._fencing or found.epoch < 0:
            found = Transaction(*self._next(found), Phase.EMPTY)
            self.transactions[transactional_id] = found
        return Identity(transactional_id, found.producer_id, found.epoch)

    def write(
        self,
        identity: Identity,
        rows: tuple[Row, ...] = (),
        offsets: tuple[tuple[str, OffsetAndMetadata], ...] = (),
    ) -> None:
        """Produce, or TxnOffsetCommit; the first one begins the transaction.

        Raises:
            FencedError: the identity is not the current one.
        """
        found = self._owned(identity)
        if found.phase in (Phase.PREPARE_COMMIT, Phase.PREPARE_ABORT):
            raise BlockedError
        if found.phase is Phase.ONGOING:
            rows = found.rows + rows
            offsets = found.offsets + offsets
        self.transactions[identity.transactional_id] = Transaction(
            found.producer_id, found.epoch, Phase.ONGOING, rows, offsets
        )

    def end_txn(self, identity: Identity, *, commit: bool) -> None:
        """EndTxn as ``PreparedTransaction`` and ``commit_prepared`` understand its answers.

        Raises:
            TransactionAbortedError: it is aborted already.
            IllegalStateError: it is committed already, and should be aborted.
            FencedError: somebody else has the id.
        """
        name, *whom = identity
        found = self.transactions.get(name)
        if found is not None and found.phase in (Phase.PREPARE_COMMIT, Phase.PREPARE_ABORT):
            raise BlockedError
        if found is not None and found.ended == tuple(whom):
            if self._version == 1 and found.by_broker:
                raise FencedError("ended by the broker")
            if (found.phase is Phase.COMPLETE_COMMIT) is commit:
                return
            if commit:
                raise TransactionAbortedError("aborted before")
            raise IllegalStateError("committed before")
        found = self._owned(identity)
        if found.phase is not Phase.ONGOING:
            raise IllegalStateError("nothing is open")
        into = Phase.PREPARE_COMMIT if commit else Phase.PREPARE_ABORT
        self._end(name, found, into, bump=self._version == 2, by_broker=False)

    def offset_fetch(self, group: str, *, stable: bool = True) -> OffsetAndMetadata | None:
        """The committed offset of a group.

        Raises:
            BlockedError: a transaction that may change it has not ended.
        """
        if stable and any(
            name == group
            for each in self.transactions.values()
            if each.phase in (Phase.ONGOING, Phase.PREPARE_COMMIT, Phase.PREPARE_ABORT)
            for name, _ in each.offsets
        ):
            raise BlockedError
        return self.offsets.get(group)

    def offset_commit(self, group: str, offset: OffsetAndMetadata) -> None:
        """Outside of transactions."""
        self.offsets[group] = offset

    # -- what brokers do by themselves -----------------------------------------------------------------

    def time_out(self, transactional_id: str) -> None:
        """The open transaction has lasted too long."""
        found = self.transactions[transactional_id]
        self._end(transactional_id, found, Phase.PREPARE_ABORT, bump=True, by_broker=True)

    def settle(self, transactional_id: str) -> None:
        """The transaction's markers have reached all partitions."""
        found = self.transactions[transactional_id]
        if found.phase is Phase.PREPARE_COMMIT:
            if found.rows:
                self.visible = tuple(sorted([*self.visible, (transactional_id, tuple(sorted(found.rows)))]))
            self.offsets.update(found.offsets)
            phase = Phase.COMPLETE_COMMIT
        else:
            phase = Phase.COMPLETE_ABORT
        self.transactions[transactional_id] = found._replace(phase=phase, rows=(), offsets=())

    def expire_producer_id(self, transactional_id: str) -> None:
        """The coordinator forgets the id; the next one gets another producer id."""
        found = self.transactions[transactional_id]
        self.transactions[transactional_id] = Transaction(found.producer_id + 1, -1, Phase.EMPTY)

    # --------------------------------------------------------------------------------------------------

    def _owned(self, identity: Identity) -> Transaction:
        found = self.transactions.get(identity.transactional_id)
        if found is None or (found.producer_id, found.epoch) != identity[1:]:
            raise FencedError("somebody else has the id")
        return found

    def _next(self, found: Transaction) -> tuple[int, int]:
        if found.epoch >= self._last_epoch:
            return found.producer_id + 1, 0
        return found.producer_id, found.epoch + 1

    def _end(self, name: str, found: Transaction, into: Phase, *, bump: bool, by_broker: bool) -> None:
        producer_id, epoch = self._next(found) if bump else (found.producer_id, found.epoch)
        self.transactions[name] = Transaction(
            producer_id,
            epoch,
            into,
            found.rows,
            found.offsets,
            (found.producer_id, found.epoch),
            by_broker,
        )
        if not self._slow_markers:
            self.settle(name)

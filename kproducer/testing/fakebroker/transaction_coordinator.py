"""The transaction coordinator: producer ids, epochs, and the state of each transactional id, in both
protocols.

Pure state; ``on_end`` writes the markers at once. ``settling`` is the number of CONCURRENT_TRANSACTIONS
responses after each end, as while a real coordinator is still writing markers.
Source: Kafka's ``TransactionCoordinator``, ``TransactionMetadata``; KIP-98, KIP-360, KIP-588, KIP-890.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import NamedTuple

import attrs

INVALID_PRODUCER_EPOCH = 47
INVALID_TXN_STATE = 48
INVALID_PRODUCER_ID_MAPPING = 49
INVALID_TRANSACTION_TIMEOUT = 50
CONCURRENT_TRANSACTIONS = 51
PRODUCER_FENCED = 90
MAX_EPOCH = 32767


class State(enum.Enum):
    """State of a transaction; the intermediate states take no time here."""

    EMPTY = "empty"
    ONGOING = "ongoing"
    COMMITTED = "complete commit"
    ABORTED = "complete abort"


class Producer(NamedTuple):
    producer_id: int
    epoch: int


NO_PRODUCER = Producer(-1, -1)


@attrs.define
class Transaction:
    """The coordinator's state of a transactional id.

    Attributes:
        before: producer id and epoch before their last change: a request with them is a repetition.
        partitions: (topic, partition) in the transaction.
        groups: consumer groups in the transaction.
        busy: number of further requests that are refused because the last transaction is still ending.
    """

    producer: Producer
    timeout_ms: int
    before: Producer = NO_PRODUCER
    state: State = State.EMPTY
    partitions: set[tuple[str, int]] = attrs.field(factory=set)
    groups: set[str] = attrs.field(factory=set)
    busy: int = 0


OnEnd = Callable[[Transaction, Producer, bool], None]


class TransactionCoordinator:
    """All transactional ids of a cluster.

    Args:
        on_end: called with the transaction, the producer that the markers name, and whether it is a commit.

    Attributes:
        max_timeout_ms: ``transaction.max.timeout.ms``.
        settling: see above.
        first_epoch: of idempotent producers; raise it to test producers that exhaust their epochs.
        newest_epoch: lower it to test exhausted producer ids.
    """

    def __init__(self, on_end: OnEnd) -> None:
        self._on_end = on_end
        self._next_producer_id = 1000
        self.transactions: dict[str, Transaction] = {}
        self.max_timeout_ms = 900_000
        self.settling = 0
        self.first_epoch = 0
        self.newest_epoch = MAX_EPOCH - 1

    # -- ids ------------------------------------------------------------------------------------------

    def new_producer_id(self) -> int:
        self._next_producer_id += 1
        return self._next_producer_id

    def init_producer_id(
        self, transactional_id: str | None, timeout_ms: int, current: Producer
    ) -> tuple[int, Producer]:
        """Returns (error code, producer id and epoch)."""
        if transactional_id is None:
            return 0, Producer(self.new_producer_id(), self.first_epoch)
        if not 0 < timeout_ms <= self.max_timeout_ms:
            return INVALID_TRANSACTION_TIMEOUT, NO_PRODUCER
        known = self.transactions.get(transactional_id)
        if known is None:
            known = Transaction(Producer(self.new_producer_id(), 0), timeout_ms)
            self.transactions[transactional_id] = known
            return 0, known.producer
        if self._is_busy(known):
            return CONCURRENT_TRANSACTIONS, NO_PRODUCER
        if current != NO_PRODUCER and current not in (known.producer, known.before):
            return PRODUCER_FENCED, NO_PRODUCER
        if known.state is State.ONGOING:
            self._end(known, self._fence(known), commit=False)
            known.before = NO_PRODUCER
            return CONCURRENT_TRANSACTIONS, NO_PRODUCER
        if current == NO_PRODUCER or current == known.producer:
            self._raise_epoch(known)
        if current == NO_PRODUCER:
            # A new producer took over: the earlier one must not get this epoch in response to a repeated
            # request.
            known.before = NO_PRODUCER
        known.timeout_ms = timeout_ms
        known.state = State.EMPTY
        return 0, known.producer

    def _raise_epoch(self, transaction: Transaction) -> None:
        transaction.before = transaction.producer
        producer_id, epoch = transaction.producer
        if epoch >= self.newest_epoch:
            transaction.producer = Producer(self.new_producer_id(), 0)
        else:
            transaction.producer = Producer(producer_id, epoch + 1)

    def _fence(self, transaction: Transaction) -> Producer:
        """Bump the epoch. Returns the producer for the markers, with the producer id of the records."""
        producer_id = transaction.producer.producer_id
        self._raise_epoch(transaction)
        same_id = transaction.producer.producer_id == producer_id
        return transaction.producer if same_id else Producer(producer_id, MAX_EPOCH)

    # -- adding partitions and groups -----------------------------------------------------------------

    def add(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Iterable[tuple[str, int]] = (),
        groups: Iterable[str] = (),
    ) -> int:
        """Add partitions and groups to the transaction, beginning it if needed. Returns the error code."""
        known = self.transactions.get(transactional_id)
        if known is None or known.producer.producer_id != producer.producer_id:
            return INVALID_PRODUCER_ID_MAPPING
        if known.producer != producer:
            return PRODUCER_FENCED
        if self._is_busy(known):
            return CONCURRENT_TRANSACTIONS
        known.state = State.ONGOING
        known.partitions |= set(partitions)
        known.groups |= set(groups)
        return 0

    def ongoing(self, transactional_id: str, producer: Producer) -> Transaction | None:
        """This producer's open transaction."""
        known = self.transactions.get(transactional_id)
        is_open = known is not None and known.producer == producer and known.state is State.ONGOING
        return known if is_open else None

    # -- ending ---------------------------------------------------------------------------------------

    def end(
        self, transactional_id: str, producer: Producer, *, commit: bool, version_2: bool
    ) -> tuple[int, Producer]:
        """Returns (error code, producer id and epoch for the next transaction; protocol 1: none)."""
        known = self.transactions.get(transactional_id)
        if known is None:
            return INVALID_PRODUCER_ID_MAPPING, NO_PRODUCER
        if self._is_busy(known):
            return CONCURRENT_TRANSACTIONS, NO_PRODUCER
        wanted = State.COMMITTED if commit else State.ABORTED
        if version_2 and producer == known.before and known.state in (State.COMMITTED, State.ABORTED):
            # A repeated request whose first response was lost.
            return (0, known.producer) if known.state is wanted else (INVALID_TXN_STATE, NO_PRODUCER)
        if known.producer.producer_id != producer.producer_id:
            return INVALID_PRODUCER_ID_MAPPING, NO_PRODUCER
        if known.producer != producer:
            return PRODUCER_FENCED, NO_PRODUCER
        if known.state is not State.ONGOING:
            if not version_2:
                return (0 if known.state is wanted else INVALID_TXN_STATE), NO_PRODUCER
            if commit:
                return INVALID_TXN_STATE, NO_PRODUCER
        self._end(known, self._fence(known) if version_2 else known.producer, commit)
        return 0, known.producer if version_2 else NO_PRODUCER

    def time_out(self, transactional_id: str, version_2: bool) -> None:
        """``transaction.timeout.ms`` has passed: the coordinator aborts and bumps the epoch.

        With protocol 2 it still accepts the previous epoch, as after any other end.
        """
        known = self.transactions[transactional_id]
        assert known.state is State.ONGOING, known
        self._end(known, self._fence(known), commit=False)
        if not version_2:
            known.before = NO_PRODUCER

    def forget(self, transactional_id: str) -> None:
        """``transactional.id.expiration.ms`` has passed."""
        del self.transactions[transactional_id]

    def _end(self, transaction: Transaction, written_as: Producer, commit: bool) -> None:
        self._on_end(transaction, written_as, commit)
        transaction.partitions.clear()
        transaction.groups.clear()
        transaction.state = State.COMMITTED if commit else State.ABORTED
        transaction.busy = self.settling

    def _is_busy(self, transaction: Transaction) -> bool:
        if transaction.busy:
            transaction.busy -= 1
            return True
        return False

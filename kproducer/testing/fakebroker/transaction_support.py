"""Shared by the transactional APIs: which broker coordinates, and what ends with a transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kproducer.testing.fakebroker.group_offsets import Group
from kproducer.testing.fakebroker.model import BrokerState, Topics
from kproducer.testing.fakebroker.producer_state import (
    INVALID_PRODUCER_EPOCH,
    INVALID_TXN_STATE,
    Marker,
    ProducerStates,
)
from kproducer.testing.fakebroker.transaction_coordinator import (
    PRODUCER_FENCED,
    Producer,
    Transaction,
    TransactionCoordinator,
)

COORDINATOR_NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
TRANSACTION_ABORTABLE = 120
GROUP, TRANSACTION = 0, 1


def verify_partition(
    coordinator: TransactionCoordinator,
    states: ProducerStates,
    transactional_id: str,
    producer: Producer,
    first_sequence: int,
    place: tuple[str, int],
    *,
    adds_partition: bool,
    knows_abortable: bool = True,
) -> int:
    """A leader's request to the coordinator before it checks a transactional batch (KIP-890). Error code.

    Not needed once the transaction has data in the partition. ``ReplicaManager.handleProduceAppend`` and
    ``maybeSendPartitionsToTransactionCoordinator``, ``UnifiedLog.maybeStartTransactionVerification``.

    Args:
        states: the producer state of the partition's leader.
        place: topic and partition.
        adds_partition: transaction protocol 2: add the partition to the transaction.
        knows_abortable: the client understands TRANSACTION_ABORTABLE.
    """
    if states.is_fenced(*producer):
        return INVALID_PRODUCER_EPOCH
    if states.has_open_transaction(*producer):
        return 0
    states.verifying(*producer, first_sequence, adds_partition)
    if adds_partition:
        code = coordinator.add(transactional_id, producer, [place])
        return INVALID_PRODUCER_EPOCH if code == PRODUCER_FENCED else code
    ongoing = coordinator.ongoing(transactional_id, producer)
    if ongoing is not None and place in ongoing.partitions:
        return 0
    return TRANSACTION_ABORTABLE if knows_abortable else INVALID_TXN_STATE


class Coordination:
    """Transactions and groups of one cluster. Guarded by the cluster's lock.

    Args:
        now_ms: the brokers' wall clock, for the markers.

    Attributes:
        transactions: the transaction coordinator, shared by all brokers.
        groups: consumer groups by name, created on first use.
        moved: (key type, key) to the coordinating broker, if it is not the first running one.
    """

    def __init__(self, brokers: Mapping[int, BrokerState], topics: Topics, now_ms: Callable[[], int]) -> None:
        self._brokers = brokers
        self._topics = topics
        self._now_ms = now_ms
        self.transactions = TransactionCoordinator(self._write_markers)
        self.groups: dict[str, Group] = {}
        self.moved: dict[tuple[int, str], int] = {}

    def group(self, name: str) -> Group:
        return self.groups.setdefault(name, Group())

    def broker_id_for(self, key_type: int, key: str) -> int | None:
        """The current coordinator; None: there is none."""
        chosen = self.moved.get((key_type, key))
        up = [broker.node_id for broker in self._brokers.values() if broker.up]
        if chosen is not None:
            return chosen if chosen in up else None
        return min(up, default=None)

    def refusal(self, broker: BrokerState, key_type: int, key: str) -> int:
        """NOT_COORDINATOR for requests to any other broker; 0 for the coordinator."""
        return 0 if self.broker_id_for(key_type, key) == broker.node_id else NOT_COORDINATOR

    def _write_markers(self, transaction: Transaction, written_as: Producer, commit: bool) -> None:
        for name, index in sorted(transaction.partitions):
            partition = self._topics.partition(name, index)
            if partition is not None:  # the topic may have been created again, with fewer partitions
                partition.markers.append(Marker(partition.next_offset, *written_as, commit))
                partition.next_offset += 1
                partition.producers.marked(*written_as, self._now_ms())
        for group in transaction.groups:
            self.group(group).ended(written_as.producer_id, commit)

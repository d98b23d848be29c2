"""The state of a fake cluster that the handlers of requests read and change.

The lock of the request log guards it.
"""

from __future__ import annotations

import itertools
import re
import ssl
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from kproducer.testing.fakebroker.batch_check import StoredRecord
from kproducer.testing.fakebroker.model import BrokerState, Partition, Topic, TopicOptions, Topics
from kproducer.testing.fakebroker.request_log import RequestLog
from kproducer.testing.fakebroker.sasl_listener import SaslListener
from kproducer.testing.fakebroker.telemetry import Telemetry
from kproducer.testing.fakebroker.transaction_support import Coordination

LEADER_NOT_AVAILABLE = 5


class ClusterState:
    """The settings, topics and violations of a cluster. Thread-safe.

    Attributes:
        transaction_version: the finalized feature of that name: 2 with KIP-890, 1 or 0 without.
        two_phase_commit: ``transaction.two.phase.commit.enable`` (KIP-939), for InitProducerId 6.
        sasl: what every listener demands; ``None``: no authentication.
        tls: with the brokers' certificate; ``None``: no encryption.
        coordination: transactions and consumer groups.
        telemetry: which metrics clients push, and their pushes. As in Kafka without a receiver of metrics,
            no broker offers the APIs, until ``offer_telemetry``.
        producer_id_expiration_ms: ``producer.id.expiration.ms``: before each batch, leaders drop producers
            whose newest record timestamp is older; ``None``: never.
        now_ms: the brokers' wall clock, for the expiration.
        violations: what clients did that no correct client does; tests check it at the end.
    """

    def __init__(self, auto_create_partitions: int | None, cluster_id: str) -> None:
        # Constant after construction.
        self.log = RequestLog()
        self.cluster_id = cluster_id
        # Guarded by the log's lock.
        self.auto_create_partitions = auto_create_partitions
        self.auto_create_first_error = LEADER_NOT_AVAILABLE
        self.brokers: Mapping[int, BrokerState] = {}  # ``FakeCluster`` fills it
        self.topics = Topics()
        self.deleted_topics: list[Topic] = []
        self.metadata_errors: dict[str, int] = {}
        self.transaction_version = 2
        self.two_phase_commit = False
        self.sasl: SaslListener | None = None
        self.tls: ssl.SSLContext | None = None
        self.coordination = self._new_coordination()
        self.telemetry = Telemetry()
        self.producer_id_expiration_ms: int | None = None
        self.now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
        self.violations: list[str] = []
        self.internal_errors: list[BaseException] = []
        self._tolerated: list[str] = []
        # Event loop.
        self.connection_numbers = itertools.count(1)

    def _new_coordination(self) -> Coordination:
        return Coordination(self.brokers, self.topics, lambda: self.now_ms())

    # -- topics ------------------------------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int = 1, *, leaders: list[int] | None = None, **options: Any
    ) -> Topic:
        """Create a topic. ``leaders`` has each partition's leader; default: the running brokers in turn."""
        with self.log.changed:
            nodes = sorted(self.brokers)
            up = [node for node in nodes if self.brokers[node].up] or nodes
            chosen = leaders or [up[index % len(up)] for index in range(partitions)]
            topic = Topic(
                name,
                uuid.uuid4(),
                [
                    Partition(index, leader, 0, _leader_first(leader, nodes), _leader_first(leader, up))
                    for index, leader in enumerate(chosen)
                ],
                TopicOptions(**options),
            )
            self.topics[name] = topic
            return topic

    def delete_topic(self, name: str) -> None:
        with self.log.changed:
            self.deleted_topics.append(self.topics.pop(name))

    def recreate_topic(self, name: str, partitions: int | None = None) -> Topic:
        """Delete and recreate the topic: same name and options, new id, empty logs, epoch 0."""
        with self.log.changed:
            self.delete_topic(name)
            old = self.deleted_topics[-1]
            leaders = [partition.leader_id for partition in old.partitions]
            topic = self.create_topic(
                name, partitions or len(leaders), leaders=None if partitions else leaders
            )
            topic.options = old.options
            return topic

    def move_leader(self, topic: str, partition: int, leader_id: int) -> None:
        """Make another broker the leader; -1 makes the partition leaderless."""
        with self.log.changed:
            moved = self.topics[topic].partitions[partition]
            moved.leader_id = leader_id
            moved.leader_epoch += 1

    def elect_leaders(self) -> None:
        """Let running brokers take part again, and lead the partitions whose leader is down.

        A partition without a running in-sync replica keeps its leader: there are no unclean elections.
        """
        with self.log.changed:
            up = [node_id for node_id, broker in self.brokers.items() if broker.up]
            for topic in self.topics.values():
                for partition in topic.partitions:
                    in_sync = [node_id for node_id in partition.in_sync if node_id in up]
                    if not in_sync:
                        continue
                    if partition.leader_id not in in_sync:
                        partition.leader_id = in_sync[0]
                        partition.leader_epoch += 1
                    partition.in_sync = _leader_first(partition.leader_id, sorted(up))

    def reset(self) -> None:
        """Forget all topics, transactions, requests and violations. Brokers and scripts stay."""
        with self.log.changed:
            self.topics.clear()
            self.deleted_topics.clear()
            self.violations.clear()
            self.coordination = self._new_coordination()
            self.log.clear()
            self.log.changed.notify_all()

    def records(self, topic: str, partition: int = 0) -> list[StoredRecord]:
        """Everything in a partition's log, oldest first."""
        with self.log.changed:
            return self.topics[topic].partitions[partition].records

    def committed_records(self, topic: str, partition: int = 0) -> list[StoredRecord]:
        """What a ``read_committed`` consumer sees of a partition, oldest first."""
        with self.log.changed:
            return self.topics[topic].partitions[partition].committed_records

    def all_topics(self) -> list[Topic]:
        """Every existing and deleted topic."""
        with self.log.changed:
            return [*self.topics.values(), *self.deleted_topics]

    # -- violations and events ---------------------------------------------------------------------

    def tolerate(self, pattern: str) -> None:
        """Do not count violations that match this regular expression."""
        with self.log.changed:
            self._tolerated.append(pattern)

    def note_violation(self, text: str) -> None:
        with self.log.changed:
            if not any(re.search(pattern, text) for pattern in self._tolerated):
                self.violations.append(text)
            self.log.changed.notify_all()

    def note_internal_error(self, error: BaseException) -> None:
        with self.log.changed:
            self.internal_errors.append(error)

    def notify(self) -> None:
        with self.log.changed:
            self.log.changed.notify_all()


def _leader_first(leader_id: int, nodes: list[int]) -> list[int]:
    return [leader_id, *(node for node in nodes if node != leader_id)] if leader_id >= 0 else list(nodes)

"""SnapshotMerger: makes a new MetadataSnapshot from the old one and a Metadata response.

Decides per partition whether the response or the old snapshot is newer, by leader epochs and topic ids. Knows
nothing of requests, timers or threads. Source: Kafka class ``Metadata`` (handleMetadataResponse,
updateLatestMetadata); KIP-320 (leader epochs), KIP-516 (topic ids), KIP-951 (leaders in other responses).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kproducer._core.client.metadata_snapshot import (
    NO_LEADER_EPOCH,
    ZERO_TOPIC_ID,
    MetadataSnapshot,
    PartitionMetadata,
    TopicMetadata,
)
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer.errors import BrokerError
from kproducer.errors.broker_errors import error_for_code
from kproducer.types import UNKNOWN_LEADER, Node, TopicPartition

if TYPE_CHECKING:
    from kproducer_messages import MetadataResponse

_log = GuardedLogger(__name__)

UNKNOWN_TOPIC_OR_PARTITION_CODE = 3
LEADER_NOT_AVAILABLE_CODE = 5
INVALID_TOPIC_CODE = 17
TOPIC_AUTHORIZATION_FAILED_CODE = 29


class SnapshotMerger:
    """Merges responses, and remembers what no snapshot holds. Not thread-safe.

    Attributes:
        topic_errors: topic to the error in the latest response that mentioned it.
        has_news: the latest response named a leader, or a newer leader epoch, that was not known before.
        why_update: why the latest response calls for another update, for the log; None if it does not.
    """

    def __init__(self) -> None:
        self.topic_errors: dict[str, BrokerError] = {}
        #: Topic to {partition: newest leader epoch seen}, and the topic id that these epochs belong to.
        self._epochs: dict[str, dict[int, int]] = {}
        self._topic_ids: dict[str, UUID] = {}
        #: What the latest response with the topic said. A rebootstrap forgets the snapshot, but nothing here:
        #: if only the bootstrap servers can be reached, each response would look like news otherwise.
        self._latest: dict[str, tuple[PartitionMetadata, ...]] = {}
        self.has_news = False
        self.why_update: str | None = None

    def merge(
        self,
        old: MetadataSnapshot,
        response: MetadataResponse,
        is_partial: bool,
        epochs_reliable: bool,
        retain: Callable[[str], bool],
    ) -> MetadataSnapshot:
        """Merge a response. Sets ``has_news`` and ``why_update``.

        Args:
            old: the snapshot before.
            response: the decoded message.
            is_partial: the response has only new topics; the others are taken from ``old``.
            epochs_reliable: whether the leader epochs of this response can be believed.
            retain: whether a topic is still of interest.
        """
        self.has_news, self.why_update = False, None
        nodes = {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
        if is_partial and not nodes:
            nodes = dict(old.nodes)
        topics: dict[str, TopicMetadata] = {}
        if is_partial:
            topics = {name: topic for name, topic in old.topics.items() if retain(name)}
        else:
            self.topic_errors.clear()
        for topic in response.topics:
            name = topic.name
            if name is None:
                continue
            topics.pop(name, None)
            self.topic_errors.pop(name, None)
            if not retain(name):
                continue
            if topic.error_code:
                self._note_topic_error(name, topic.error_code)
                continue
            partitions = self._latest_partitions(old, name, topic, epochs_reliable)
            if not partitions:
                # The topic is being created; no partition has a leader yet.
                self._note_topic_error(name, LEADER_NOT_AVAILABLE_CODE)
                continue
            topics[name] = TopicMetadata(name, topic.topic_id, partitions, ())
        _set_available(topics, nodes)
        for name in [known for known in self._epochs if not retain(known)]:
            del self._epochs[name]
            self._topic_ids.pop(name, None)
            self._latest.pop(name, None)
        return MetadataSnapshot(
            cluster_id=response.cluster_id,
            nodes=nodes,
            topics=topics,
            topic_ids={n: t.topic_id for n, t in topics.items() if t.topic_id != ZERO_TOPIC_ID},
        )

    def with_leaders(
        self,
        old: MetadataSnapshot,
        leaders: Mapping[TopicPartition, tuple[int, int]],
        nodes: Iterable[Node],
    ) -> MetadataSnapshot:
        """Merge leaders that a Produce response named (KIP-951). Returns ``old`` if nothing has changed.

        Args:
            old: the snapshot before.
            leaders: (leader id, leader epoch) by partition. Ignored if a number is negative, the epoch is not
                newer than the known one, or the partition or the address of the leader is unknown.
            nodes: addresses in the same response; they replace known ones.
        """
        all_nodes = dict(old.nodes)
        all_nodes.update({node.id: node for node in nodes})
        changed: dict[str, dict[int, PartitionMetadata]] = {}
        for topic_partition, (leader_id, epoch) in leaders.items():
            known = old.partition(topic_partition)
            if known is None or epoch < 0 or leader_id < 0 or leader_id not in all_nodes:
                continue
            topic, number = topic_partition
            epochs = self._epochs.setdefault(topic, {})
            if epoch <= max(epochs.get(number, NO_LEADER_EPOCH), known.leader_epoch):
                continue
            epochs[number] = epoch
            changed.setdefault(topic, {})[number] = known._replace(
                leader_id=leader_id, leader_epoch=epoch, error_code=0
            )
        if not changed:
            return old
        topics = dict(old.topics)
        for topic, by_number in changed.items():
            partitions = tuple([by_number.get(p.partition, p) for p in topics[topic].partitions])
            topics[topic] = topics[topic]._replace(partitions=partitions)
        _set_available(topics, all_nodes)
        return old._replace(nodes=all_nodes, topics=topics)

    def _note_topic_error(self, name: str, code: int) -> None:
        error = error_for_code(code, f"topic {name!r}")
        self.topic_errors[name] = error
        if error.refreshes_metadata:
            self.why_update = f"topic {name}: {error}"
        if code == INVALID_TOPIC_CODE:
            _log.error("Invalid topic name %r", name, extra={"topic": name})
        elif code == TOPIC_AUTHORIZATION_FAILED_CODE:
            _log.error("Not authorized to access topic %r", name, extra={"topic": name})

    def _latest_partitions(
        self, snapshot: MetadataSnapshot, name: str, response_topic: Any, epochs_reliable: bool
    ) -> tuple[PartitionMetadata, ...]:
        """The topic's partitions, each from the response, or from the old snapshot if that is newer."""
        topic_id = response_topic.topic_id
        recreated = False
        if topic_id != ZERO_TOPIC_ID:
            # A topic id tells a broker that is behind from a topic that was deleted and created again, whose
            # epochs start again. The id is remembered across responses without the topic.
            recreated = self._topic_ids.get(name, topic_id) != topic_id
            self._topic_ids[name] = topic_id
            if recreated:
                _log.info("Topic %s was deleted and created again: its id is %s now", name, topic_id)
                self._epochs.pop(name, None)
                self._latest.pop(name, None)
        epochs = self._epochs.setdefault(name, {})
        old_topic = snapshot.topics.get(name)
        old_partitions = () if old_topic is None or recreated else old_topic.partitions
        old_count = len(old_partitions)
        before = old_partitions or self._latest.get(name, ())
        response_partitions = response_topic.partitions
        # Numbers are dense in practice. The limit prevents a list of 2**31 after a malformed response.
        limit = 2 * len(response_partitions) + 1024
        new_tuple = tuple.__new__
        found: dict[int, PartitionMetadata] = {}
        same: dict[tuple[int, ...], tuple[int, ...]] = {}
        self.has_news |= recreated
        needs_refresh = False
        for p in response_partitions:
            number = p.partition_index
            if not 0 <= number < limit:
                continue
            old = old_partitions[number] if number < old_count else None
            epoch = p.leader_epoch if epochs_reliable else NO_LEADER_EPOCH
            if epoch >= 0:
                seen = epochs.get(number, NO_LEADER_EPOCH)
                if epoch < seen:
                    # The broker is behind: the old snapshot is newer, if it still has the partition.
                    found[number] = old if old is not None else _missing_partition(number)
                    needs_refresh = needs_refresh or old is None
                    continue
                if epoch > seen:
                    epochs[number] = epoch
                    self.has_news = True
            elif not epochs_reliable:
                epochs.pop(number, None)
            # An epoch of -1 in a reliable response changes nothing: the newest epoch stays remembered.
            leader_id = p.leader_id
            if number >= len(before) or before[number].leader_id != leader_id:
                self.has_news = True
            error_code = p.error_code
            replicas, isr, offline = tuple(p.replica_nodes), tuple(p.isr_nodes), tuple(p.offline_replicas)
            # Many partitions have the same ones: that saves 100 bytes of each.
            replicas, isr = same.setdefault(replicas, replicas), same.setdefault(isr, isr)
            fields = (number, leader_id, epoch, replicas, isr, offline, error_code)
            # The constructor of a named tuple is Python code, which is slow for 10,000 partitions.
            found[number] = new_tuple(PartitionMetadata, fields)
            if error_code and not needs_refresh:
                needs_refresh = error_for_code(error_code).refreshes_metadata
        if needs_refresh:
            self.why_update = f"topic {name} has partitions with errors"
        count = max(found, default=-1) + 1
        partitions = tuple([found.get(number) or _missing_partition(number) for number in range(count)])
        self._latest[name] = partitions
        return partitions


def _missing_partition(number: int) -> PartitionMetadata:
    """A partition without leader, in place of one that a response left out."""
    return PartitionMetadata(number, UNKNOWN_LEADER, error_code=LEADER_NOT_AVAILABLE_CODE)


def _set_available(topics: dict[str, TopicMetadata], nodes: Collection[int]) -> None:
    for name, topic in topics.items():
        available = tuple([p.partition for p in topic.partitions if p.leader_id in nodes])
        if available != topic.available:
            topics[name] = topic._replace(available=available)

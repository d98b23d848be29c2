"""Produce requests: the message of one request, and the batches that are in requests now.

Source: Produce v3 (KIP-98) to v13 (KIP-516: topic ids); zstd needs v7 (KIP-110); Kafka's
``Sender.inFlightBatches`` (KIP-91).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kproducer_messages import ProduceRequest
from kproducer_messages.produce_request import PartitionProduceData, TopicProduceData

from kproducer.protocol.registry import ApiKey
from kproducer.runtime.clock import NEVER_MS

if TYPE_CHECKING:
    from kproducer.accumulator.producer_batch import ProducerBatch

FIRST_VERSION_WITH_ZSTD = 7
FIRST_VERSION_THAT_ADDS_PARTITIONS = 12
FIRST_VERSION_WITH_TOPIC_IDS = 13


class ProduceRequestBuilder:
    """Builds a Produce request from the batches of one node, in the version that the node supports.

    The network client asks for the message when the connection is ready, because only then the version is
    known; after a change of version it asks again. The records are not copied. I/O thread only.

    Args:
        batches: closed batches, at most one per partition.
        topic_ids: topic name to id. Versions with topic ids are offered only if all topics have one.
        acks: 0, 1 or -1.
        timeout_ms: how long the broker may wait for replicas.
        uses_zstd: whether the batches are compressed with zstd, which older versions do not support.
        transactional_id: of the transaction that the batches belong to; ``None``: of none.
        transaction_version: of that transaction. With version 2 the request adds its partitions to the
            transaction (KIP-890).
    """

    def __init__(
        self,
        batches: Sequence[ProducerBatch],
        topic_ids: Mapping[str, Any],
        acks: int,
        timeout_ms: int,
        uses_zstd: bool,
        transactional_id: str | None = None,
        transaction_version: int = 2,
    ) -> None:
        self._batches = batches
        self._topic_ids = topic_ids
        self._acks = acks
        self._timeout_ms = timeout_ms
        self.api_key = int(ApiKey.PRODUCE)
        self.oldest_version = FIRST_VERSION_WITH_ZSTD if uses_zstd else ProduceRequest.MIN_VERSION
        self.latest_version = ProduceRequest.MAX_VERSION
        self._transactional_id = transactional_id
        if transactional_id is not None:
            if transaction_version >= 2:
                self.oldest_version = FIRST_VERSION_THAT_ADDS_PARTITIONS
            else:
                self.latest_version = FIRST_VERSION_THAT_ADDS_PARTITIONS - 1
        if not {batch.topic_partition.topic for batch in batches} <= topic_ids.keys():
            # The metadata may come from a broker without topic ids, and the leader may support them.
            self.latest_version = min(self.latest_version, FIRST_VERSION_WITH_TOPIC_IDS - 1)

    def build(self, version: int) -> ProduceRequest:
        """The message; ``version`` decides between topic names and topic ids."""
        uses_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
        topics: dict[str, TopicProduceData] = {}
        for batch in self._batches:
            name, partition = batch.topic_partition
            topic = topics.get(name)
            if topic is None:
                id_or_name = {"topic_id": self._topic_ids[name]} if uses_ids else {"name": name}
                topic = topics[name] = TopicProduceData(**id_or_name)
            topic.partition_data.append(PartitionProduceData(index=partition, records=batch.records()))
        return ProduceRequest(
            transactional_id=self._transactional_id,
            acks=self._acks,
            timeout_ms=self._timeout_ms,
            topic_data=list(topics.values()),
        )

    def __repr__(self) -> str:
        partitions = ", ".join(str(batch.topic_partition) for batch in self._batches)
        return f"ProduceRequest({partitions})"


class InFlightBatches:
    """The batches in flight, with the node of each. I/O thread only; any thread may read ``len``.

    A batch is in flight from the creation of its request until the response arrives or the connection is
    closed. ``expired`` costs nothing as long as the oldest batch has time left.
    """

    def __init__(self, delivery_timeout_ms: int) -> None:
        self._delivery_timeout_ms = delivery_timeout_ms
        self._node_of_batch: dict[ProducerBatch, int] = {}
        #: No batch expires before this time (monotonic).
        self.next_expiry_ms = NEVER_MS

    def __len__(self) -> int:
        return len(self._node_of_batch)

    def __contains__(self, batch: object) -> bool:
        return batch in self._node_of_batch

    def add_all(self, batches: Sequence[ProducerBatch], node_id: int) -> None:
        """Add the batches of a request to a node."""
        for batch in batches:
            self._node_of_batch[batch] = node_id
            self.next_expiry_ms = min(self.next_expiry_ms, batch.closed_ms + self._delivery_timeout_ms)

    def remove(self, batch: ProducerBatch) -> None:
        """Remove a batch whose request has completed. ``next_expiry_ms`` may now be too early, never late."""
        self._node_of_batch.pop(batch, None)
        if not self._node_of_batch:
            self.next_expiry_ms = NEVER_MS

    def expired(self, now_ms: int) -> list[tuple[ProducerBatch, int]]:
        """Unfinished batches whose ``delivery_timeout_ms`` has passed, with their node ids.

        Each is returned once. It stays in flight, because the socket may still have to read its memory.
        """
        if now_ms < self.next_expiry_ms:
            return []
        due: list[tuple[ProducerBatch, int]] = []
        earliest_ms = NEVER_MS
        for batch, node_id in self._node_of_batch.items():
            if batch.is_done:
                continue
            expiry_ms = batch.closed_ms + self._delivery_timeout_ms
            if expiry_ms <= now_ms:
                due.append((batch, node_id))
            else:
                earliest_ms = min(earliest_ms, expiry_ms)
        self.next_expiry_ms = earliest_ms
        return due

    def clear(self) -> None:
        """Remove all batches: the connections are closed."""
        self._node_of_batch.clear()
        self.next_expiry_ms = NEVER_MS

"""ProduceRequestBuilder: one Produce request from the batches drained for one node.

Built twice at most: the version is known only when the connection is, so the network client asks for the
message then. Records go in by reference. Knows nothing of connections.
Source: Produce v3 (KIP-98) to v13 (KIP-516: topic ids); zstd needs v7 (KIP-110).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kproducer_messages import ProduceRequest
from kproducer_messages.produce_request import PartitionProduceData, TopicProduceData

from kproducer.protocol.registry import ApiKey

if TYPE_CHECKING:
    from kproducer.accumulator.producer_batch import ProducerBatch

FIRST_VERSION_WITH_ZSTD = 7
FIRST_VERSION_THAT_ADDS_PARTITIONS = 12
FIRST_VERSION_WITH_TOPIC_IDS = 13


class ProduceRequestBuilder:
    """Makes the message in whatever version the node speaks. I/O thread only.

    Args:
        batches: closed batches, at most one for each partition.
        topic_ids: name to id; versions that need ids are not offered unless all topics have one.
        acks: 0, 1 or -1.
        timeout_ms: how long the broker may wait for replicas.
        uses_zstd: whether the batches are compressed with zstd, which old versions cannot carry.
        transactional_id: of the transaction that the batches belong to.
        transaction_version: of that transaction: 2 makes the partitions part of it (KIP-890).
    """

    __slots__ = (
        "_acks",
        "_batches",
        "_timeout_ms",
        "_topic_ids",
        "_transactional_id",
        "api_key",
        "latest_version",
        "oldest_version",
    )

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
            # The leader may speak topic ids while the broker that gave us metadata did not.
            self.latest_version = min(self.latest_version, FIRST_VERSION_WITH_TOPIC_IDS - 1)

    @property
    def topic_ids(self) -> Mapping[str, Any]:
        """Topic name to id, as of when the batches were drained: what a response in ids refers to."""
        return self._topic_ids

    def build(self, version: int) -> ProduceRequest:
        """The message; ``version`` only decides between names and ids."""
        uses_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
        topics: dict[str, TopicProduceData] = {}
        for batch in self._batches:
            name, partition = batch.topic_partition
            topic = topics.get(name)
            if topic is None:
                topic = (
                    TopicProduceData(topic_id=self._topic_ids[name])
                    if uses_ids
                    else TopicProduceData(name=name)
                )
                topics[name] = topic
            topic.partition_data.append(PartitionProduceData(index=partition, records=batch.records()))
        return ProduceRequest(
            transactional_id=self._transactional_id,
            acks=self._acks,
            timeout_ms=self._timeout_ms,
            topic_data=list(topics.values()),
        )

    def __repr__(self) -> str:
        places = ", ".join(str(batch.topic_partition) for batch in self._batches)
        return f"ProduceRequest({places})"

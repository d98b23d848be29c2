"""Metadata responses in one line, for tests of metadata handling."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from kproducer_messages import MetadataResponse
from kproducer_messages.metadata_response import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

#: (leader id, leader epoch) or (leader id, leader epoch, error code).
Leader = tuple[int, int] | tuple[int, int, int]


def topic_id(number: int) -> uuid.UUID:
    return uuid.UUID(int=number)


def partition(index: int, leader: Leader) -> MetadataResponsePartition:
    leader_id, epoch, error_code = leader if len(leader) == 3 else (*leader, 0)
    return MetadataResponsePartition(
        partition_index=index,
        leader_id=leader_id,
        leader_epoch=epoch,
        error_code=error_code,
        replica_nodes=[1, 2],
        isr_nodes=[1],
        offline_replicas=[2],
    )


def topic(name: str, leaders: Sequence[Leader], id_number: int = 0) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=name,
        topic_id=topic_id(id_number),
        partitions=[partition(index, leader) for index, leader in enumerate(leaders)],
    )


def response(
    topics: Mapping[str, Sequence[Leader]] | None = None,
    *,
    nodes: Sequence[int] = (1, 2),
    errors: Mapping[str, int] | None = None,
    ids: Mapping[str, int] | None = None,
) -> MetadataResponse:
    """A response with the partitions' leaders or an error code by topic, and brokers ``host1:9092``..."""
    entries = [topic(name, leaders, (ids or {}).get(name, 0)) for name, leaders in (topics or {}).items()]
    entries += [MetadataResponseTopic(name=n, error_code=c, partitions=[]) for n, c in (errors or {}).items()]
    return MetadataResponse(
        cluster_id="cluster",
        controller_id=1,
        brokers=[MetadataResponseBroker(node_id=i, host=f"host{i}", port=9092) for i in nodes],
        topics=entries,
    )

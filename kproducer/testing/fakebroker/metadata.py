"""Metadata, versions 0 to 13.

Behaviour: describes the requested topics (all topics: an empty list in v0, null from v1), by name, or
from v12 by id. A missing topic is created if the cluster allows it and the request does not forbid it
(possible from v4); the first response then has ``auto_create_first_error``, as with Apache Kafka.
Illegal names get 17, unknown ones 3, unknown ids 100. Errors that a test sets for a topic
(``metadata_errors``) take precedence. A partition whose leader is down is leaderless
with error 5, unless that broker is ``listed_when_down``.
Versions: 7 leader epochs; 9 flexible; 10 topic ids in answers; 13 top-level error.
"""

from __future__ import annotations

from typing import Any

from kproducer_messages import ZERO_UUID, MetadataResponse
from kproducer_messages.metadata_response import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from kproducer.testing.fakebroker.actions import RequestContext
from kproducer.testing.fakebroker.cluster_state import LEADER_NOT_AVAILABLE, ClusterState
from kproducer.testing.fakebroker.model import Partition, Topic, is_legal_topic_name

UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_TOPIC_EXCEPTION = 17
UNKNOWN_TOPIC_ID = 100


def handle(context: RequestContext) -> Any:
    """Describe the brokers and the requested topics."""
    cluster = context.cluster
    listed = [b for b in cluster.brokers.values() if b.up or b.listed_when_down]
    response = MetadataResponse(
        cluster_id=cluster.cluster_id,
        controller_id=min((b.node_id for b in listed), default=-1),
        brokers=[
            MetadataResponseBroker(node_id=b.node_id, host=b.advertised[0], port=b.advertised[1])
            for b in listed
        ],
    )
    asked = context.message.topics
    if asked is None or (not asked and context.api_version == 0):
        response.topics.extend(_describe(cluster, topic) for topic in cluster.topics.values())
    else:
        response.topics.extend(_answer(context, wanted) for wanted in asked)
    return response


def _answer(context: RequestContext, wanted: Any) -> MetadataResponseTopic:
    cluster = context.cluster
    name = wanted.name
    if wanted.topic_id != ZERO_UUID:
        if context.api_version < 12:
            cluster.note_violation(f"{context.logged}: topic id before v12")
        found = cluster.topics.get(cluster.topics.name_of("", wanted.topic_id))
        if found is None:
            return MetadataResponseTopic(error_code=UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id)
        return _describe(cluster, found)
    if name is None:
        cluster.note_violation(f"{context.logged}: a topic without name and id")
        return MetadataResponseTopic(error_code=INVALID_TOPIC_EXCEPTION, name="")
    if (error := cluster.metadata_errors.get(name, 0)) != 0:
        return MetadataResponseTopic(error_code=error, name=name)
    if name in cluster.topics:
        return _describe(cluster, cluster.topics[name])
    if not is_legal_topic_name(name):
        return MetadataResponseTopic(error_code=INVALID_TOPIC_EXCEPTION, name=name)
    return _unknown(context, name)


def _unknown(context: RequestContext, name: str) -> MetadataResponseTopic:
    cluster = context.cluster
    if cluster.auto_create_partitions is None or not context.message.allow_auto_topic_creation:
        return MetadataResponseTopic(error_code=UNKNOWN_TOPIC_OR_PARTITION, name=name)
    topic = cluster.create_topic(name, cluster.auto_create_partitions)
    if cluster.auto_create_first_error:
        return MetadataResponseTopic(error_code=cluster.auto_create_first_error, name=name)
    return _describe(cluster, topic)


def _describe(cluster: ClusterState, topic: Topic) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[_describe_partition(cluster, partition) for partition in topic.partitions],
    )


def _describe_partition(cluster: ClusterState, partition: Partition) -> MetadataResponsePartition:
    leader = cluster.brokers.get(partition.leader_id)
    alive = leader is not None and (leader.up or leader.listed_when_down)
    return MetadataResponsePartition(
        error_code=0 if alive else LEADER_NOT_AVAILABLE,
        partition_index=partition.index,
        leader_id=partition.leader_id if alive else -1,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.in_sync),
        offline_replicas=[node for node in partition.replicas if not cluster.brokers[node].up],
    )

"""OffsetFetch, versions 1 to 10.

Behaviour: returns a group's committed offsets for the requested or all partitions; -1 if there is none. With
``require_stable`` (v7), a partition with a pending offset in an open transaction gets 88. Wrong coordinator:
16 (in v1, which has no group error, for each partition). Versions: 2 group error; 6 flexible; 8 several
groups; 10 topic ids, unknown ones get 100.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from kproducer_messages import ZERO_UUID, OffsetFetchResponse
from kproducer_messages.offset_fetch_response import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

from kproducer.testing.fakebroker.actions import RequestContext
from kproducer.testing.fakebroker.group_offsets import Group, Position
from kproducer.testing.fakebroker.transaction_support import GROUP

UNSTABLE_OFFSET_COMMIT = 88
UNKNOWN_TOPIC_ID = 100
_NOTHING = Position(-1, -1, "")


def handle(context: RequestContext) -> OffsetFetchResponse:
    message, coordination = context.message, context.cluster.coordination
    if context.api_version < 8:
        code = coordination.refusal(context.broker, GROUP, message.group_id)
        topics = [
            OffsetFetchResponseTopic(
                name=name, partitions=[OffsetFetchResponsePartition(**each) for each in positions]
            )
            for name, _, positions in _positions(context, message, code)
        ]
        return OffsetFetchResponse(error_code=code, topics=topics)
    response = OffsetFetchResponse()
    for asked in message.groups:
        code = coordination.refusal(context.broker, GROUP, asked.group_id)
        group = OffsetFetchResponseGroup(group_id=asked.group_id, error_code=code)
        response.groups.append(group)
        for name, topic_id, positions in _positions(context, asked, code):
            partitions = [OffsetFetchResponsePartitions(**each) for each in positions]
            group.topics.append(
                OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=partitions)
            )
    return response


def _positions(
    context: RequestContext, asked: Any, code: int
) -> Iterator[tuple[str, UUID, list[dict[str, Any]]]]:
    """Name and id of each topic for which a group is asked, and its partitions."""
    cluster = context.cluster
    group = cluster.coordination.group(asked.group_id)
    if asked.topics is None:
        for name in sorted({name for name, _ in group.committed}):
            indexes = sorted(index for topic, index in group.committed if topic == name)
            topic_id = cluster.topics[name].topic_id if name in cluster.topics else ZERO_UUID
            yield name, topic_id, [_position(context, group, name, each, code) for each in indexes]
        return
    for topic in asked.topics:
        topic_id = getattr(topic, "topic_id", ZERO_UUID)
        name = cluster.topics.name_of(topic.name, topic_id)
        topic_code = code or (0 if name else UNKNOWN_TOPIC_ID)
        indexes = topic.partition_indexes
        yield name, topic_id, [_position(context, group, name, each, topic_code) for each in indexes]


def _position(context: RequestContext, group: Group, name: str, index: int, code: int) -> dict[str, Any]:
    is_unstable = any((name, index) in pending for pending in group.pending.values())
    if not code and is_unstable and context.message.require_stable:
        code = UNSTABLE_OFFSET_COMMIT
    position = _NOTHING if code else group.committed.get((name, index), _NOTHING)
    return {
        "partition_index": index,
        "error_code": code,
        "committed_offset": position.offset,
        "committed_leader_epoch": position.leader_epoch,
        "metadata": position.metadata,
    }

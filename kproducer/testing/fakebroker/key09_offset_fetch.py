"""OffsetFetch, versions 1 to 10.

Behaviour: returns a group's committed offsets for the requested or all partitions; -1 if there is none. With
``require_stable`` (v7), a partition with a pending offset in an open transaction gets 88. Wrong coordinator:
16 (in v1, which has no group error, for each partition). Versions: 2 group error; 6 flexible; 8 several
groups; 10 topic ids, unknown ones get 100.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kproducer_messages import OffsetFetchResponse
from kproducer_messages.offset_fetch_response import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

from kproducer.testing.fakebroker.group_offsets import Group, Position
from kproducer.testing.fakebroker.transaction_support import GROUP

if TYPE_CHECKING:
    from kproducer.testing.fakebroker.connection import RequestContext

UNSTABLE_OFFSET_COMMIT = 88
UNKNOWN_TOPIC_ID = 100
_GROUP_ERROR_SINCE = 2
_STABLE_SINCE = 7
_SEVERAL_SINCE = 8
_TOPIC_IDS_SINCE = 10
_NOTHING = Position(-1, -1, "")


def handle(context: RequestContext) -> OffsetFetchResponse:
    message, version = context.message, context.api_version
    response = OffsetFetchResponse(throttle_time_ms=context.broker.throttle_time_ms)
    if version >= _SEVERAL_SINCE:
        response.groups = [_of_group(context, asked) for asked in message.groups]
        return response
    code = context.cluster.coordination.refusal(context, GROUP, message.group_id)
    if version >= _GROUP_ERROR_SINCE:
        response.error_code = code
    group = context.cluster.coordination.group(message.group_id)
    for name, indexes in _asked(group, message.topics):
        partitions = [
            OffsetFetchResponsePartition(partition_index=i, **_position(context, group, name, i, code))
            for i in indexes
        ]
        response.topics.append(OffsetFetchResponseTopic(name=name, partitions=partitions))
    return response


def _of_group(context: RequestContext, asked: Any) -> OffsetFetchResponseGroup:
    code = context.cluster.coordination.refusal(context, GROUP, asked.group_id)
    answer = OffsetFetchResponseGroup(group_id=asked.group_id, error_code=code)
    group = context.cluster.coordination.group(asked.group_id)
    topics = context.cluster.topics
    names = {topic.topic_id: topic.name for topic in topics.values()}
    by_id = context.api_version >= _TOPIC_IDS_SINCE
    if by_id and asked.topics is not None:
        for topic in asked.topics:
            topic.name = names.get(topic.topic_id, "")
    for name, indexes in _asked(group, asked.topics):
        topic_code = code or (UNKNOWN_TOPIC_ID if by_id and not name else 0)
        entry = OffsetFetchResponseTopics(
            partitions=[
                OffsetFetchResponsePartitions(
                    partition_index=i, **_position(context, group, name, i, topic_code)
                )
                for i in indexes
            ]
        )
        if by_id:
            entry.topic_id = next((t.topic_id for t in asked.topics or () if t.name == name), None) or (
                topics[name].topic_id
            )
        else:
            entry.name = name
        answer.topics.append(entry)
    return answer


def _asked(group: Group, topics: Any) -> list[tuple[str, list[int]]]:
    if topics is not None:
        return [(topic.name, list(topic.partition_indexes)) for topic in topics]
    names = sorted({name for name, _ in group.committed})
    return [(name, sorted(i for n, i in group.committed if n == name)) for name in names]


def _position(context: RequestContext, group: Group, name: str, index: int, code: int) -> dict[str, Any]:
    position = group.committed.get((name, index), _NOTHING)
    is_unstable = any((name, index) in pending for pending in group.pending.values())
    if not code and context.api_version >= _STABLE_SINCE and context.message.require_stable and is_unstable:
        code = UNSTABLE_OFFSET_COMMIT
    if code:
        position = _NOTHING
    return {
        "error_code": code,
        "committed_offset": position.offset,
        "committed_leader_epoch": position.leader_epoch,
        "metadata": position.metadata,
    }

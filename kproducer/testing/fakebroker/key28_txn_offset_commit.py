"""TxnOffsetCommit, versions 0 to 6.

Behaviour: offsets are pending until the transaction ends. From v5 on, the request adds the group to the
transaction (KIP-890); before, the group must have been added, otherwise 48. A wrong member: 22, 25 or 82;
wrong coordinator: 16. Versions: 2 leader epochs; 3 flexible, member; 6 topic ids, unknown ones get 100.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kproducer_messages import TxnOffsetCommitResponse
from kproducer_messages.txn_offset_commit_response import (
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

from kproducer.testing.fakebroker.group_offsets import Position
from kproducer.testing.fakebroker.transaction_coordinator import INVALID_TXN_STATE, Producer, State
from kproducer.testing.fakebroker.transaction_support import GROUP

if TYPE_CHECKING:
    from kproducer.testing.fakebroker.connection import RequestContext

UNKNOWN_TOPIC_ID = 100
_MEMBER_SINCE = 3
_ADDS_GROUP_SINCE = 5
_TOPIC_IDS_SINCE = 6


def handle(context: RequestContext) -> TxnOffsetCommitResponse:
    message = context.message
    code = _refusal(context)
    response = TxnOffsetCommitResponse(throttle_time_ms=context.broker.throttle_time_ms)
    names = {topic.topic_id: topic.name for topic in context.cluster.topics.values()}
    positions = {}
    for topic in message.topics:
        answer = TxnOffsetCommitResponseTopic()
        name = topic.name
        topic_code = code
        if context.api_version >= _TOPIC_IDS_SINCE:
            answer.topic_id = topic.topic_id
            name = names.get(topic.topic_id, "")
            topic_code = code or (0 if name else UNKNOWN_TOPIC_ID)
        else:
            answer.name = name
        response.topics.append(answer)
        for partition in topic.partitions:
            answer.partitions.append(
                TxnOffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=topic_code
                )
            )
            if not topic_code:
                positions[name, partition.partition_index] = Position(
                    partition.committed_offset, partition.committed_leader_epoch, partition.committed_metadata
                )
    group = context.cluster.coordination.group(message.group_id)
    if positions:
        group.pending.setdefault(message.producer_id, {}).update(positions)
    return response


def _refusal(context: RequestContext) -> int:
    message, version = context.message, context.api_version
    coordination = context.cluster.coordination
    code = coordination.refusal(context, GROUP, message.group_id)
    if code:
        return code
    if version >= _MEMBER_SINCE:
        code = coordination.group(message.group_id).refuses(
            message.member_id, message.generation_id_or_member_epoch, message.group_instance_id
        )
        if code:
            return code
    producer = Producer(message.producer_id, message.producer_epoch)
    transactions = coordination.transactions
    if version >= _ADDS_GROUP_SINCE and context.cluster.transaction_version >= 2:
        return transactions.add(message.transactional_id, producer, groups=[message.group_id])
    known = transactions.transactions.get(message.transactional_id)
    is_part = (
        known is not None
        and known.producer == producer
        and known.state is State.ONGOING
        and message.group_id in known.groups
    )
    return 0 if is_part else INVALID_TXN_STATE

"""AddPartitionsToTxn, versions 0 to 3 (the versions for clients; 4 and 5 are for brokers).

Behaviour: adds all partitions or none. A missing partition gets 3 and the others 55; a coordinator error (49,
51, 90 or before v2: 47, 16) is returned for all partitions. Versions: 2 error 90; 3 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kproducer_messages import AddPartitionsToTxnResponse
from kproducer_messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnTopicResult,
)

from kproducer.testing.fakebroker.transaction_coordinator import (
    INVALID_PRODUCER_EPOCH,
    PRODUCER_FENCED,
    Producer,
)
from kproducer.testing.fakebroker.transaction_support import TRANSACTION

if TYPE_CHECKING:
    from kproducer.testing.fakebroker.connection import RequestContext

UNKNOWN_TOPIC_OR_PARTITION = 3
OPERATION_NOT_ATTEMPTED = 55
_FENCED_SINCE = 2


def handle(context: RequestContext) -> AddPartitionsToTxnResponse:
    message = context.message
    wanted = [(t.name, index) for t in message.v3_and_below_topics for index in t.partitions]
    if not wanted:
        context.cluster.note_violation(f"{context.logged}: no partitions")
    codes = _codes(context, wanted)
    return AddPartitionsToTxnResponse(
        throttle_time_ms=context.broker.throttle_time_ms,
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=codes[topic.name, index]
                    )
                    for index in topic.partitions
                ],
            )
            for topic in message.v3_and_below_topics
        ],
    )


def _codes(context: RequestContext, wanted: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    message, topics = context.message, context.cluster.topics
    transactional_id = message.v3_and_below_transactional_id
    code = context.cluster.coordination.refusal(context, TRANSACTION, transactional_id)
    if code:
        return dict.fromkeys(wanted, code)
    missing = [(n, i) for n, i in wanted if n not in topics or not 0 <= i < len(topics[n].partitions)]
    if missing:
        return dict.fromkeys(wanted, OPERATION_NOT_ATTEMPTED) | dict.fromkeys(
            missing, UNKNOWN_TOPIC_OR_PARTITION
        )
    producer = Producer(message.v3_and_below_producer_id, message.v3_and_below_producer_epoch)
    code = context.cluster.coordination.transactions.add(transactional_id, producer, wanted)
    if code == PRODUCER_FENCED and context.api_version < _FENCED_SINCE:
        code = INVALID_PRODUCER_EPOCH
    return dict.fromkeys(wanted, code)

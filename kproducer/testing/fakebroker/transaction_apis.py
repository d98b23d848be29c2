"""The APIs of transactional producers: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit
and EndTxn.

All of them return coordinator errors: 16 if the broker is not the coordinator, 49 for an unknown
transactional id or producer id, 51 while the last transaction is still ending, 90 if the producer is fenced;
versions that do not know 90 return 47 instead. ``refusal`` is an error code that a test injects: the request
is not processed.
"""

from __future__ import annotations

from kproducer_messages import (
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnResponse,
    EndTxnResponse,
    InitProducerIdResponse,
    TxnOffsetCommitResponse,
)
from kproducer_messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnTopicResult,
)
from kproducer_messages.txn_offset_commit_response import (
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

from kproducer.testing.fakebroker.actions import RequestContext
from kproducer.testing.fakebroker.group_offsets import Position
from kproducer.testing.fakebroker.transaction_coordinator import (
    INVALID_PRODUCER_EPOCH,
    INVALID_TXN_STATE,
    NO_PRODUCER,
    PRODUCER_FENCED,
    Producer,
)
from kproducer.testing.fakebroker.transaction_support import GROUP, TRANSACTION

UNKNOWN_TOPIC_OR_PARTITION = 3
UNSUPPORTED_VERSION = 35
NOT_AUTHORIZED = 53
OPERATION_NOT_ATTEMPTED = 55
UNKNOWN_TOPIC_ID = 100


def _known_code(context: RequestContext, code: int, fenced_since: int = 2) -> int:
    """The code, or the one that the request's version has instead of PRODUCER_FENCED."""
    is_unknown = code == PRODUCER_FENCED and context.api_version < fenced_since
    return INVALID_PRODUCER_EPOCH if is_unknown else code


def init_producer_id(context: RequestContext, refusal: int = 0) -> InitProducerIdResponse:
    """Versions 0 to 6 (6 is not stable in Kafka, and not offered by default).

    Without a transactional id, returns a new producer id with epoch 0. With one, returns the next epoch after
    aborting an open transaction, which causes one CONCURRENT_TRANSACTIONS (51) response; 90 if the id and
    epoch in the request are not the current ones; 50 for a timeout above the maximum. Versions: 2 flexible; 3
    current id and epoch (KIP-360); 4 error 90; 6 two-phase commit (KIP-939): 53 if the cluster does not allow
    it, and 35 for a transaction to be kept, as in Kafka 4.4.
    """
    message, coordination = context.message, context.cluster.coordination
    code, producer = refusal, NO_PRODUCER
    if not code and message.transactional_id is not None:
        code = coordination.refusal(context.broker, TRANSACTION, message.transactional_id)
    if not code and message.enable2_pc and not context.cluster.two_phase_commit:
        code = NOT_AUTHORIZED
    if not code and message.keep_prepared_txn:
        code = UNSUPPORTED_VERSION
    if not code:
        transactions = coordination.transactions
        code, producer = transactions.init_producer_id(
            message.transactional_id,
            transactions.max_timeout_ms if message.enable2_pc else message.transaction_timeout_ms,
            Producer(message.producer_id, message.producer_epoch),
        )
    return InitProducerIdResponse(
        error_code=_known_code(context, code, fenced_since=4),
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
    )


def add_partitions(context: RequestContext, refusal: int = 0) -> AddPartitionsToTxnResponse:
    """AddPartitionsToTxn, versions 0 to 3 (the versions for clients; 4 and 5 are for brokers).

    Adds all partitions or none. A missing partition gets 3 and the others 55; a coordinator error is returned
    for all partitions. Versions: 2 error 90; 3 flexible.
    """
    message, cluster = context.message, context.cluster
    wanted = [(topic.name, index) for topic in message.v3_and_below_topics for index in topic.partitions]
    if not wanted:
        cluster.note_violation(f"{context.logged}: no partitions")
    transactional_id = message.v3_and_below_transactional_id
    code = refusal or cluster.coordination.refusal(context.broker, TRANSACTION, transactional_id)
    missing = [place for place in wanted if cluster.topics.partition(*place) is None]
    if not code and missing:
        code = OPERATION_NOT_ATTEMPTED
    elif not code:
        producer = Producer(message.v3_and_below_producer_id, message.v3_and_below_producer_epoch)
        code = cluster.coordination.transactions.add(transactional_id, producer, wanted)
    codes = dict.fromkeys(wanted, _known_code(context, code))
    if code == OPERATION_NOT_ATTEMPTED:
        codes |= dict.fromkeys(missing, UNKNOWN_TOPIC_OR_PARTITION)
    return AddPartitionsToTxnResponse(
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


def add_offsets(context: RequestContext, refusal: int = 0) -> AddOffsetsToTxnResponse:
    """AddOffsetsToTxn, versions 0 to 4: adds the group to the transaction. 2: error 90; 3: flexible."""
    message, coordination = context.message, context.cluster.coordination
    code = refusal or coordination.refusal(context.broker, TRANSACTION, message.transactional_id)
    if not code:
        producer = Producer(message.producer_id, message.producer_epoch)
        code = coordination.transactions.add(message.transactional_id, producer, groups=[message.group_id])
    return AddOffsetsToTxnResponse(error_code=_known_code(context, code))


def commit_offsets(context: RequestContext, refusal: int = 0) -> TxnOffsetCommitResponse:
    """TxnOffsetCommit, versions 0 to 6.

    Offsets are pending until the transaction ends. From v5 on, the request adds the group to the transaction
    (KIP-890); before, the group must have been added, otherwise 48. A wrong member: 22, 25 or 82. Versions: 2
    leader epochs; 3 flexible, member; 6 topic ids, unknown ones get 100.
    """
    code = refusal or _refusal_of_offsets(context)
    response = TxnOffsetCommitResponse()
    positions = {}
    for asked in context.message.topics:
        # Topics need not exist in the versions that name them.
        name = context.cluster.topics.name_of(asked.name, asked.topic_id)
        topic_code = code or (0 if name else UNKNOWN_TOPIC_ID)
        answer = TxnOffsetCommitResponseTopic(name=asked.name, topic_id=asked.topic_id)
        response.topics.append(answer)
        for each in asked.partitions:
            answer.partitions.append(
                TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=topic_code)
            )
            if not topic_code:
                positions[name, each.partition_index] = Position(
                    each.committed_offset, each.committed_leader_epoch, each.committed_metadata
                )
    if positions:
        group = context.cluster.coordination.group(context.message.group_id)
        group.pending.setdefault(context.message.producer_id, {}).update(positions)
    return response


def _refusal_of_offsets(context: RequestContext) -> int:
    message, coordination = context.message, context.cluster.coordination
    code = coordination.refusal(context.broker, GROUP, message.group_id) or coordination.group(
        message.group_id
    ).refuses(message.member_id, message.generation_id_or_member_epoch, message.group_instance_id)
    if code:
        return code
    producer = Producer(message.producer_id, message.producer_epoch)
    if context.api_version >= 5 and context.cluster.transaction_version >= 2:
        return coordination.transactions.add(message.transactional_id, producer, groups=[message.group_id])
    ongoing = coordination.transactions.ongoing(message.transactional_id, producer)
    return 0 if ongoing is not None and message.group_id in ongoing.groups else INVALID_TXN_STATE


def end(context: RequestContext, refusal: int = 0) -> EndTxnResponse:
    """EndTxn, versions 0 to 5.

    Ends the transaction at once, including its markers; 48 if there is none to end. From v5 with
    transaction.version 2 or more, the epoch is bumped, and the response has the next producer id and epoch; a
    repeated request gets the same response. Versions: 2 error 90; 3 flexible; 5 next id and epoch.
    """
    message, coordination = context.message, context.cluster.coordination
    code = refusal or coordination.refusal(context.broker, TRANSACTION, message.transactional_id)
    following = NO_PRODUCER
    if not code:
        code, following = coordination.transactions.end(
            message.transactional_id,
            Producer(message.producer_id, message.producer_epoch),
            commit=message.committed,
            version_2=context.api_version >= 5 and context.cluster.transaction_version >= 2,
        )
    return EndTxnResponse(
        error_code=_known_code(context, code),
        producer_id=following.producer_id,
        producer_epoch=following.epoch,
    )

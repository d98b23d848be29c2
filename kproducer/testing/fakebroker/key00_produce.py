"""Produce, versions 3 to 13.

Behaviour: every partition entry is checked as described in ``batch_check`` and then appended to the log, or
refused with Apache Kafka's error code: unknown topic or partition 3 (from v13, with topic ids: 100), wrong
leader 6 (from v10 with the current leader and its endpoint, KIP-951), batch larger than ``max.message.bytes``
10, too few in-sync replicas 19, acks other than -1, 0, 1: 21, timestamp out of range 32, records without a
key on a compacted topic 87 (from v8 with one error per record, KIP-467). ``acks=0`` gets no response; if a
partition is refused, the connection is closed, as in Apache Kafka.
Idempotence and transactions: see ``producer_state``. A duplicate batch is answered with its existing offset.
The partition of a transactional batch must be part of the transaction (otherwise 48, from v11 on 120); with
v12 and transaction.version 2, the batch adds it. Versions: 5 log start offset; 7 zstd legal; 8 record errors;
9 flexible; 12 adds partitions; 13 topic ids.

The checks come in Kafka's order: format (``ProduceRequest.validateRecords``), topic and partition,
transaction (``ReplicaManager.handleProduceAppend``), acks, leader, replicas in sync
(``Partition.appendRecordsToLeader``), size (``UnifiedLog.analyzeAndValidateRecords``), records
(``LogValidator``), and only then duplicate, epoch and sequence
(``UnifiedLog.analyzeAndValidateProducerState``): a batch that is in the log already and is resent after
``max.message.bytes`` was lowered is too large, not a duplicate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs
from kproducer_messages import ProduceResponse
from kproducer_messages.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    TopicProduceResponse,
)

from kproducer.testing.fakebroker.batch_check import (
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    BatchRefusedError,
    ReadBatch,
    read_batch,
)
from kproducer.testing.fakebroker.model import Partition, StoredBatch, StoredRecord, Topic
from kproducer.testing.fakebroker.producer_state import KeptBatch
from kproducer.testing.fakebroker.transaction_coordinator import Producer
from kproducer.testing.fakebroker.transaction_support import verify_partition

if TYPE_CHECKING:
    from kproducer.testing.fakebroker.connection import RequestContext

UNKNOWN_TOPIC_OR_PARTITION = 3
NOT_LEADER_OR_FOLLOWER = 6
MESSAGE_TOO_LARGE = 10
NOT_ENOUGH_REPLICAS = 19
INVALID_REQUIRED_ACKS = 21
UNKNOWN_TOPIC_ID = 100
_ABORTABLE_SINCE = 11
_ADDS_PARTITIONS_SINCE = 12
_TOPIC_IDS_SINCE = 13
_HINTS_SINCE = 10
RECORD_ERRORS_SINCE = 8
WITHOUT_PRODUCER_ID = "an epoch or a sequence number without a producer id"


@attrs.frozen
class Refusal:
    """Why a partition's batch is refused.

    Attributes:
        code: Kafka's error code.
        message: the broker's error message, v8 and later.
        record_errors: (index in the batch, message) of the invalid records, v8 and later.
    """

    code: int
    message: str | None = None
    record_errors: tuple[tuple[int, str | None], ...] = ()


#: Called for each (topic name, partition) before the broker checks it: a refusal, or ``None``.
Refuse = Callable[[str, int], "Refusal | None"]


def handle(context: RequestContext, refuse: Refuse | None = None) -> Any:
    """Check and append. Returns the response; ``None`` for ``acks=0``."""
    request = context.message
    _check_request(context)
    by_id = context.api_version >= _TOPIC_IDS_SINCE
    response = ProduceResponse(throttle_time_ms=context.broker.throttle_time_ms)
    for topic_data in request.topic_data:
        topic = _find_topic(context, topic_data, by_id)
        answer = TopicProduceResponse()
        if by_id:
            answer.topic_id = topic_data.topic_id
        else:
            answer.name = topic_data.name
        response.responses.append(answer)
        for data in topic_data.partition_data:
            name = topic.name if topic else topic_data.name
            refusal = refuse(name, data.index) if refuse else None
            entry = _produce(context, topic, data, refusal, response)
            answer.partition_responses.append(entry)
    if request.acks != 0:
        return response
    entries = [entry for topic in response.responses for entry in topic.partition_responses]
    context.must_close = any(entry.error_code for entry in entries)
    return None


def _check_request(context: RequestContext) -> None:
    """Record requests that no correct producer sends as violations, regardless of the response."""
    request = context.message
    seen = set()
    for topic in request.topic_data:
        if not topic.partition_data:
            _violation(context, f"topic {topic.name!r} without partitions")
        for data in topic.partition_data:
            key = (topic.name, topic.topic_id, data.index)
            if key in seen:
                _violation(context, f"partition {key} twice in one request")
            seen.add(key)
    if not seen:
        _violation(context, "a Produce request without data")
    if request.acks not in (-1, 0, 1):
        _violation(context, f"acks {request.acks}")
    if request.timeout_ms <= 0:
        _violation(context, f"timeout {request.timeout_ms} ms")
    if request.transactional_id is not None and request.acks != -1:
        _violation(context, f"transactional id {request.transactional_id!r} with acks {request.acks}")


def _find_topic(context: RequestContext, topic_data: Any, by_id: bool) -> Topic | None:
    topics = context.cluster.topics
    if not by_id:
        return topics.get(topic_data.name)
    return next((topic for topic in topics.values() if topic.topic_id == topic_data.topic_id), None)


def _produce(
    context: RequestContext,
    topic: Topic | None,
    data: Any,
    refusal: Refusal | None,
    response: ProduceResponse,
) -> PartitionProduceResponse:
    batch: ReadBatch | None = None
    partition = None
    if topic is not None and 0 <= data.index < len(topic.partitions):
        partition = topic.partitions[data.index]
    try:
        batch = read_batch(data.records if data.records is not None else b"", context.api_version)
        if batch.is_transactional != (context.message.transactional_id is not None):
            _violation(context, f"partition {data.index}: only one of request and batch is transactional")
        if batch.producer_id < 0 and (batch.producer_epoch, batch.base_sequence) != (-1, -1):
            epoch, sequence = batch.producer_epoch, batch.base_sequence
            _violation(context, f"{WITHOUT_PRODUCER_ID} (epoch {epoch}, sequence {sequence})")
        if batch.producer_id >= 0 and context.message.acks != -1:
            _violation(context, f"partition {data.index}: producer id with acks {context.message.acks}")
    except BatchRefusedError as error:
        _violation(context, f"partition {data.index}: {error}")
        refusal = refusal or Refusal(error.code, str(error))
    if refusal is None and (topic is None or partition is None):
        by_id = context.api_version >= _TOPIC_IDS_SINCE and topic is None
        refusal = Refusal(UNKNOWN_TOPIC_ID if by_id else UNKNOWN_TOPIC_OR_PARTITION)
    if refusal is None:
        assert topic is not None
        assert partition is not None
        assert batch is not None
        refusal = _transaction_refusal(context, topic, partition, batch)
        refusal = refusal or _refusal(context, topic, partition, batch, len(data.records))
    if refusal is not None:
        return _refused(context, data.index, partition, refusal, response)
    assert topic is not None
    assert partition is not None
    assert batch is not None
    if batch.producer_id >= 0:
        cluster = context.cluster
        if cluster.producer_id_expiration_ms is not None:
            partition.producers.expire(cluster.now_ms(), cluster.producer_id_expiration_ms)
        found = partition.producers.check(
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            len(batch.records),
            batch.is_transactional,
        )
        if isinstance(found, KeptBatch):
            return _duplicate(partition, found)
        if found:
            return _refused(context, data.index, partition, Refusal(found), response)
    return _append(context, topic, partition, batch, bytes(data.records))


def _transaction_refusal(
    context: RequestContext, topic: Topic, partition: Partition, batch: ReadBatch
) -> Refusal | None:
    """Let the coordinator verify a transaction's first batch in a partition, or add the partition."""
    if not batch.is_transactional or context.message.transactional_id is None:
        return None
    if partition.leader_id != context.broker.node_id:
        return Refusal(NOT_LEADER_OR_FOLLOWER)
    code = verify_partition(
        context.cluster.coordination.transactions,
        partition.producers,
        context.message.transactional_id,
        Producer(batch.producer_id, batch.producer_epoch),
        batch.base_sequence,
        (topic.name, partition.index),
        adds_partition=context.api_version >= _ADDS_PARTITIONS_SINCE
        and context.cluster.transaction_version >= 2,
        knows_abortable=context.api_version >= _ABORTABLE_SINCE,
    )
    return Refusal(code) if code else None


def _refusal(
    context: RequestContext, topic: Topic, partition: Partition, batch: ReadBatch, size: int
) -> Refusal | None:
    options = topic.options
    acks = context.message.acks
    if acks not in (-1, 0, 1):
        return Refusal(INVALID_REQUIRED_ACKS)
    if partition.leader_id != context.broker.node_id:
        return Refusal(NOT_LEADER_OR_FOLLOWER)
    if acks == -1 and len(partition.in_sync) < options.min_insync_replicas:
        return Refusal(NOT_ENOUGH_REPLICAS)
    if size > options.max_message_bytes:
        return Refusal(
            MESSAGE_TOO_LARGE, f"the batch has {size} bytes, the limit is {options.max_message_bytes}"
        )
    if options.compacted:
        keyless = tuple(
            (r.position, f"record {r.position} has no key") for r in batch.records if r.key is None
        )
        if keyless:
            return Refusal(INVALID_RECORD, "a compacted topic needs keys", keyless)
    if options.timestamp_range_ms is not None:
        low, high = options.timestamp_range_ms
        outside = tuple(
            (r.position, f"timestamp {r.timestamp_ms} is out of range")
            for r in batch.records
            if not low <= r.timestamp_ms <= high
        )
        if outside:
            return Refusal(INVALID_TIMESTAMP, "timestamps out of range", outside)
    return None


def _append(
    context: RequestContext, topic: Topic, partition: Partition, batch: ReadBatch, raw: bytes
) -> PartitionProduceResponse:
    stamp = topic.options.append_time_ms if topic.options.log_append_time else None
    base_offset = partition.next_offset
    stored = tuple(
        StoredRecord(
            base_offset + r.position,
            r.timestamp_ms if stamp is None else stamp,
            r.key,
            r.value,
            r.headers,
        )
        for r in batch.records
    )
    logged = context.logged
    partition.batches.append(
        StoredBatch(
            base_offset,
            raw,
            stored,
            batch.codec,
            context.message.acks,
            logged.broker_id,
            logged.connection_id,
            logged.correlation_id,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            batch.is_transactional,
        )
    )
    partition.next_offset += len(stored)
    if batch.producer_id >= 0:
        partition.producers.appended(
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            len(stored),
            base_offset,
            batch.is_transactional,
            batch.max_timestamp_ms if stamp is None else stamp,
        )
    return _answer(partition, base_offset, -1 if stamp is None else stamp)


def _answer(partition: Partition, base_offset: int, log_append_time_ms: int) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=partition.index,
        error_code=0,
        base_offset=base_offset,
        log_append_time_ms=log_append_time_ms,
        log_start_offset=partition.log_start_offset,
    )


def _duplicate(partition: Partition, kept: KeptBatch) -> PartitionProduceResponse:
    # UnifiedLog.append returns the batch's timestamp as log append time with every message.timestamp.type.
    return _answer(partition, kept.base_offset, kept.timestamp_ms)


def _refused(
    context: RequestContext,
    index: int,
    partition: Partition | None,
    refusal: Refusal,
    response: ProduceResponse,
) -> PartitionProduceResponse:
    entry = PartitionProduceResponse(index=index, error_code=refusal.code, base_offset=-1)
    if context.api_version >= RECORD_ERRORS_SINCE:
        entry.error_message = refusal.message
        entry.record_errors = [
            BatchIndexAndErrorMessage(batch_index=position, batch_index_error_message=text)
            for position, text in refusal.record_errors
        ]
    hint = refusal.code == NOT_LEADER_OR_FOLLOWER and context.broker.leader_hints
    if hint and partition is not None and context.api_version >= _HINTS_SINCE:
        _add_leader_hint(context, partition, entry, response)
    return entry


def _add_leader_hint(
    context: RequestContext,
    partition: Partition,
    entry: PartitionProduceResponse,
    response: ProduceResponse,
) -> None:
    entry.current_leader = LeaderIdAndEpoch(
        leader_id=partition.leader_id, leader_epoch=partition.leader_epoch
    )
    leader = context.cluster.brokers.get(partition.leader_id)
    if leader is None or any(endpoint.node_id == leader.node_id for endpoint in response.node_endpoints):
        return
    host, port = leader.advertised
    response.node_endpoints.append(
        NodeEndpoint(node_id=leader.node_id, host=host, port=port, rack=leader.rack)
    )


def _violation(context: RequestContext, text: str) -> None:
    context.cluster.note_violation(f"{context.logged}: {text}")

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
from typing import Any

from kproducer_messages import ProduceResponse
from kproducer_messages.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    TopicProduceResponse,
)

from kproducer.testing.fakebroker.actions import RequestContext
from kproducer.testing.fakebroker.batch_check import (
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    BatchRefusedError,
    RecordBatch,
    read_batch,
)
from kproducer.testing.fakebroker.model import Partition, TopicOptions
from kproducer.testing.fakebroker.producer_state import KeptBatch
from kproducer.testing.fakebroker.transaction_coordinator import Producer
from kproducer.testing.fakebroker.transaction_support import verify_partition

UNKNOWN_TOPIC_OR_PARTITION = 3
NOT_LEADER_OR_FOLLOWER = 6
MESSAGE_TOO_LARGE = 10
NOT_ENOUGH_REPLICAS = 19
INVALID_REQUIRED_ACKS = 21
UNKNOWN_TOPIC_ID = 100
WITHOUT_PRODUCER_ID = "an epoch or a sequence number without a producer id"

#: Called for each (topic name, partition) before the broker checks it: why it is refused, or ``None``.
Refuse = Callable[[str, int], "BatchRefusedError | None"]


def handle(context: RequestContext, refuse: Refuse | None = None) -> ProduceResponse | None:
    """Check and append. Returns the response; ``None`` for ``acks=0``."""
    request = context.message
    _check_request(context)
    response = ProduceResponse()
    for asked in request.topic_data:
        name = context.cluster.topics.name_of(asked.name, asked.topic_id)
        answer = TopicProduceResponse(name=asked.name, topic_id=asked.topic_id)
        response.responses.append(answer)
        for data in asked.partition_data:
            refusal = refuse(name, data.index) if refuse else None
            answer.partition_responses.append(_produce(context, name, data, refusal, response))
    if request.acks != 0:
        return response
    entries = [entry for answer in response.responses for entry in answer.partition_responses]
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


def _produce(
    context: RequestContext,
    name: str,
    data: Any,
    refusal: BatchRefusedError | None,
    response: ProduceResponse,
) -> PartitionProduceResponse:
    try:
        batch = _read(context, data)
        if refusal is None:
            return _append(context, name, data, batch)
    except BatchRefusedError as error:
        refusal = refusal or error
    entry = PartitionProduceResponse(
        index=data.index,
        error_code=refusal.code,
        base_offset=-1,
        error_message=refusal.reason,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=position, batch_index_error_message=text)
            for position, text in refusal.record_errors
        ],
    )
    partition = context.cluster.topics.partition(name, data.index)
    hint = refusal.code == NOT_LEADER_OR_FOLLOWER and context.broker.leader_hints
    if hint and partition is not None and context.api_version >= 10:
        _add_leader_hint(context, partition, entry, response)
    return entry


def _read(context: RequestContext, data: Any) -> RecordBatch:
    """Read the batch of a partition; record what no correct producer sends as violations.

    Raises:
        BatchRefusedError: it violates the format.
    """
    request = context.message
    try:
        batch = read_batch(data.records if data.records is not None else b"", context.api_version)
    except BatchRefusedError as error:
        _violation(context, f"partition {data.index}: {error}")
        raise
    if batch.is_transactional != (request.transactional_id is not None):
        _violation(context, f"partition {data.index}: only one of request and batch is transactional")
    epoch, sequence = batch.producer_epoch, batch.base_sequence
    if batch.producer_id < 0 and (epoch, sequence) != (-1, -1):
        _violation(context, f"{WITHOUT_PRODUCER_ID} (epoch {epoch}, sequence {sequence})")
    if batch.producer_id >= 0 and request.acks != -1:
        _violation(context, f"partition {data.index}: producer id with acks {request.acks}")
    return batch


def _append(context: RequestContext, name: str, data: Any, batch: RecordBatch) -> PartitionProduceResponse:
    """Append a batch, unless it is a duplicate.

    Raises:
        BatchRefusedError: the broker does not accept it.
    """
    cluster = context.cluster
    topic, partition = cluster.topics.get(name), cluster.topics.partition(name, data.index)
    if topic is None or partition is None:
        by_id = context.api_version >= 13 and topic is None
        raise BatchRefusedError(UNKNOWN_TOPIC_ID if by_id else UNKNOWN_TOPIC_OR_PARTITION)
    if batch.is_transactional and context.message.transactional_id is not None:
        _verify_transaction(context, name, partition, batch)
    _check(context, topic.options, partition, batch, len(data.records))
    stamp_ms = topic.options.append_time_ms if topic.options.log_append_time else -1
    batch.base_offset, batch.connection_id = partition.next_offset, context.logged.connection_id
    if batch.producer_id >= 0:
        if cluster.producer_id_expiration_ms is not None:
            partition.producers.expire(cluster.now_ms(), cluster.producer_id_expiration_ms)
        numbers = batch.producer_id, batch.producer_epoch, batch.base_sequence, len(batch.records)
        found = partition.producers.check(*numbers, batch.is_transactional)
        if isinstance(found, KeptBatch):
            # UnifiedLog.append returns the batch's timestamp as log append time with every
            # message.timestamp.type.
            return _appended(partition, found.base_offset, found.timestamp_ms)
        if found:
            raise BatchRefusedError(found)
        newest_ms = batch.max_timestamp_ms if stamp_ms < 0 else stamp_ms
        partition.producers.appended(*numbers, batch.base_offset, batch.is_transactional, newest_ms)
    batch.records = tuple(
        record._replace(
            offset=batch.base_offset + record.offset,
            timestamp_ms=record.timestamp_ms if stamp_ms < 0 else stamp_ms,
        )
        for record in batch.records
    )
    partition.batches.append(batch)
    partition.next_offset += len(batch.records)
    return _appended(partition, batch.base_offset, stamp_ms)


def _verify_transaction(context: RequestContext, name: str, partition: Partition, batch: RecordBatch) -> None:
    """Let the coordinator verify a transaction's first batch in a partition, or add the partition."""
    if partition.leader_id != context.broker.node_id:
        raise BatchRefusedError(NOT_LEADER_OR_FOLLOWER)
    code = verify_partition(
        context.cluster.coordination.transactions,
        partition.producers,
        context.message.transactional_id,
        Producer(batch.producer_id, batch.producer_epoch),
        batch.base_sequence,
        (name, partition.index),
        adds_partition=context.api_version >= 12 and context.cluster.transaction_version >= 2,
        knows_abortable=context.api_version >= 11,
    )
    if code:
        raise BatchRefusedError(code)


def _check(
    context: RequestContext, options: TopicOptions, partition: Partition, batch: RecordBatch, size: int
) -> None:
    acks = context.message.acks
    if acks not in (-1, 0, 1):
        raise BatchRefusedError(INVALID_REQUIRED_ACKS)
    if partition.leader_id != context.broker.node_id:
        raise BatchRefusedError(NOT_LEADER_OR_FOLLOWER)
    if acks == -1 and len(partition.in_sync) < options.min_insync_replicas:
        raise BatchRefusedError(NOT_ENOUGH_REPLICAS)
    if size > options.max_message_bytes:
        raise BatchRefusedError(
            MESSAGE_TOO_LARGE, f"the batch has {size} bytes, the limit is {options.max_message_bytes}"
        )
    if options.compacted:
        keyless = [(r.offset, f"record {r.offset} has no key") for r in batch.records if r.key is None]
        if keyless:
            raise BatchRefusedError(INVALID_RECORD, "a compacted topic needs keys", keyless)
    if options.timestamp_range_ms is not None:
        low, high = options.timestamp_range_ms
        outside = [
            (r.offset, f"timestamp {r.timestamp_ms} is out of range")
            for r in batch.records
            if not low <= r.timestamp_ms <= high
        ]
        if outside:
            raise BatchRefusedError(INVALID_TIMESTAMP, "timestamps out of range", outside)


def _appended(partition: Partition, base_offset: int, log_append_time_ms: int) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=partition.index,
        base_offset=base_offset,
        log_append_time_ms=log_append_time_ms,
        log_start_offset=partition.log_start_offset,
    )


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
    response.node_endpoints.append(NodeEndpoint(node_id=leader.node_id, host=host, port=port))


def _violation(context: RequestContext, text: str) -> None:
    context.cluster.note_violation(f"{context.logged}: {text}")

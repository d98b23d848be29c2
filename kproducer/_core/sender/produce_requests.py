"""Produce requests: the frame of one request, and the batches that are in requests now.

The frame is laid out by hand: a generated message with an object per partition takes about three times as
long. What all requests share comes from the generated code, and a test compares the frames for all versions.
Responses need no such code: the compiled decoder is about as fast as ``struct.iter_unpack``.
Source: Produce v3 (KIP-98) to v13 (KIP-516: topic ids); zstd needs v7 (KIP-110); Kafka's
``Sender.inFlightBatches`` (KIP-91).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING
from uuid import UUID

from kproducer_messages import ProduceRequest
from kproducer_messages.produce_request import TopicProduceData

from kproducer._core.client.api_keys import ApiKey
from kproducer._core.client.send_builder import FRAME_START, build_request, frame_start
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.runtime.clock import NEVER_MS

if TYPE_CHECKING:
    from kproducer._core.accumulator.producer_batch import ProducerBatch
    from kproducer._core.transactions.transaction_state_machine import TransactionStateMachine

FIRST_VERSION_WITH_ZSTD = 7
FIRST_VERSION_THAT_ADDS_PARTITIONS = 12
FIRST_VERSION_WITH_TOPIC_IDS = 13

_PRODUCE = int(ApiKey.PRODUCE)
_INT32 = struct.Struct(">i")


class ProduceRequestBuilder:
    """Lays out a Produce request with the batches of one node, in the version that the node supports.

    The frame is what ``build_request`` returns for the generated message. It is made directly, because this
    is work per batch: the parts that many requests share come from the generated code once. The records are
    not copied. I/O thread only.

    Args:
        batches: closed batches, at least one and at most one per partition.
        topic_ids: topic name to id. Versions with topic ids are offered only if all topics have one.
        config: ``acks``; ``request_timeout_ms``, for which the broker may wait for replicas;
            ``compression_type``: older versions do not support zstd.
        transactions: has the transaction that the batches belong to; ``None``, or without a transactional id:
            they belong to none. In version 2 the request adds its partitions to the transaction (KIP-890).

    Attributes:
        batches, topic_ids: as given.
        topics: the names of the batches' topics.
    """

    def __init__(
        self,
        batches: Sequence[ProducerBatch],
        topic_ids: Mapping[str, UUID],
        config: ProducerConfig,
        transactions: TransactionStateMachine | None,
    ) -> None:
        self.batches = batches
        self._batches_by_topic: dict[str, list[ProducerBatch]] = {}
        for batch in batches:
            self._batches_by_topic.setdefault(batch.topic_partition.topic, []).append(batch)
        self.topics = self._batches_by_topic.keys()
        self.topic_ids = topic_ids
        self._acks = config.acks
        self._timeout_ms = config.request_timeout_ms
        self.api_key = _PRODUCE
        self._transactional_id = None if transactions is None else transactions.transactional_id
        has_topic_ids = self.topics <= topic_ids.keys()
        uses_version_2 = None
        if transactions is not None and self._transactional_id is not None:
            uses_version_2 = transactions.uses_version_2
        self.oldest_version, self.latest_version = produce_versions(uses_version_2, has_topic_ids, config)

    def build_frame(self, version: int, correlation_id: int, client_id: str | None) -> list[memoryview]:
        """The frame, with the records between slices of everything else."""
        length_of, end = _LENGTH_AND_END[version]
        small = fields_before_topics(version, client_id, self._acks, self._timeout_ms, self._transactional_id)
        small += length_of(len(self._batches_by_topic))
        frame_bytes = FRAME_START.size
        pieces: list[memoryview] = []
        for topic, batches in self._batches_by_topic.items():
            if version >= FIRST_VERSION_WITH_TOPIC_IDS:
                small += self.topic_ids[topic].int.to_bytes(16, "big")
            else:
                small += encoded_topic_name(version, topic)
            small += length_of(len(batches))
            for batch in batches:
                records = batch.records()
                record_bytes = len(records)
                small += _INT32.pack(batch.topic_partition.partition) + length_of(record_bytes)
                frame_bytes += len(small) + record_bytes
                pieces += memoryview(small), records
                small = end  # of the partition
            small += end  # of the topic
        small += end  # of the request
        if small:
            frame_bytes += len(small)
            pieces.append(memoryview(small))
        start = frame_start(_PRODUCE, version, correlation_id, frame_bytes)
        pieces[0] = memoryview(start + pieces[0])
        return pieces


def produce_versions(
    uses_version_2: bool | None, has_topic_ids: bool, config: ProducerConfig
) -> tuple[int, int]:
    """The oldest and the latest version that can be used.

    Args:
        uses_version_2: whether the transaction has version 2, in which the request adds its partitions to
            the transaction (KIP-890); ``None``: there is no transaction.
        has_topic_ids: whether the topics have ids in the metadata. It may come from a broker that does not
            know topic ids, although the leader does.
        config: ``compression_type``: older versions do not support zstd.
    """
    oldest, latest = ProduceRequest.MIN_VERSION, ProduceRequest.MAX_VERSION
    if config.compression_type == "zstd":
        oldest = FIRST_VERSION_WITH_ZSTD
    if uses_version_2:
        oldest = FIRST_VERSION_THAT_ADDS_PARTITIONS
    elif uses_version_2 is not None:
        latest = FIRST_VERSION_THAT_ADDS_PARTITIONS - 1
    return oldest, latest if has_topic_ids else min(latest, FIRST_VERSION_WITH_TOPIC_IDS - 1)


@lru_cache(maxsize=1024)
def _compact_length(length: int) -> bytes:
    """The length of an array or of bytes in a flexible version: an unsigned varint of one more."""
    encoded, rest = bytearray(), length + 1
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


#: By version: the function that encodes a length, and what ends a structure (if flexible: no tagged fields).
_LENGTH_AND_END: dict[int, tuple[Callable[[int], bytes], bytes]] = {
    version: (_compact_length, b"\0") if version in ProduceRequest.FLEXIBLE_VERSIONS else (_INT32.pack, b"")
    for version in range(ProduceRequest.MIN_VERSION, ProduceRequest.MAX_VERSION + 1)
}


@lru_cache(maxsize=64)
def fields_before_topics(
    version: int, client_id: str | None, acks: int, timeout_ms: int, transactional_id: str | None
) -> bytes:
    """What is between the correlation id and the number of topics. Raises LocalProtocolError."""
    message = ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms)
    frame = b"".join(build_request(_PRODUCE, version, 0, client_id, message))
    length_of, end = _LENGTH_AND_END[version]
    after = len(length_of(0) + end)
    return frame[FRAME_START.size : len(frame) - after]


@lru_cache(maxsize=1024)
def encoded_topic_name(version: int, name: str) -> bytes:
    """A topic's name as it is in a frame. Raises LocalProtocolError."""
    message = ProduceRequest(topic_data=[TopicProduceData(name=name)])
    frame = b"".join(build_request(_PRODUCE, version, 0, None, message))
    length_of, end = _LENGTH_AND_END[version]
    before = FRAME_START.size + len(fields_before_topics(version, None, 0, 0, None) + length_of(1))
    after = len(length_of(0) + end + end)
    return frame[before : len(frame) - after]


class InFlightBatches:
    """The batches in flight, with the node of each. I/O thread only.

    A batch is in flight from the creation of its request until the response arrives or the connection is
    closed. ``expired`` costs nothing as long as the oldest batch has time left.
    """

    def __init__(self, delivery_timeout_ms: int) -> None:
        self._delivery_timeout_ms = delivery_timeout_ms
        self._node_of_batch: dict[ProducerBatch, int] = {}
        #: No batch expires before this time (monotonic).
        self.next_expiry_ms = NEVER_MS

    def __contains__(self, batch: object) -> bool:
        return batch in self._node_of_batch

    def add_all(self, batches: Sequence[ProducerBatch], node_id: int) -> None:
        """Add the batches of a request to a node."""
        for batch in batches:
            self._node_of_batch[batch] = node_id
            expiry_ms = batch.closed_ms + self._delivery_timeout_ms
            if expiry_ms < self.next_expiry_ms:
                self.next_expiry_ms = expiry_ms

    def remove(self, batch: ProducerBatch) -> None:
        """Remove a batch whose request has completed. ``next_expiry_ms`` may now be too early, never late."""
        self._node_of_batch.pop(batch, None)
        if not self._node_of_batch:
            self.next_expiry_ms = NEVER_MS

    def expired(self, now_ms: int) -> list[tuple[ProducerBatch, int]]:
        """Unfinished batches whose ``delivery_timeout_ms`` has passed, with their node ids.

        Each is returned once. It stays in flight, because the socket may still have to read its memory.
        """
        if now_ms < self.next_expiry_ms:
            return []
        due: list[tuple[ProducerBatch, int]] = []
        earliest_ms = NEVER_MS
        for batch, node_id in self._node_of_batch.items():
            if batch.is_done:
                continue
            expiry_ms = batch.closed_ms + self._delivery_timeout_ms
            if expiry_ms <= now_ms:
                due.append((batch, node_id))
            else:
                earliest_ms = min(earliest_ms, expiry_ms)
        self.next_expiry_ms = earliest_ms
        return due

    def clear(self) -> None:
        """Remove all batches: the connections are closed."""
        self._node_of_batch.clear()
        self.next_expiry_ms = NEVER_MS

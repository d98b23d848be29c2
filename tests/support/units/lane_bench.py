"""A lane of the data plane, and what tests do with it."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from kproducer_messages import ProduceResponse, ResponseHeader
from kproducer_messages.produce_response import (
    PartitionProduceResponse,
    TopicProduceResponse,
)

from kproducer._core.accumulator.future_record_metadata import FutureRecordMetadata, ProduceRequestResult
from kproducer._core.accumulator.producer_batch import ProducerBatch
from kproducer._core.client.api_keys import response_header_version
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.kernel import data_plane
from kproducer._core.records.batch_sizing import TopicCompressionRatio
from kproducer._core.records.compression import Compression
from kproducer._core.records.record_batch_builder import RecordBatchBuilder
from kproducer._core.sender.produce_requests import (
    ProduceRequestBuilder,
    encoded_topic_name,
    fields_before_topics,
)
from kproducer._core.transactions.transaction_state_machine import ProducerHooks, TransactionStateMachine
from kproducer.types import RecordMetadata, TopicPartition

FIRST_WITH_IDS = 13


def interruptible(function: Callable[..., Any], errors: list[BaseException]) -> Callable[..., Any]:
    """``function``; but while there are errors, a call takes one of them and raises it instead."""

    def call(*arguments: Any) -> Any:
        if errors:
            raise errors.pop()
        return function(*arguments)

    return call


class Bench:
    """A plane with one lane over a socket pair, and what was appended to it.

    ``plane`` replaces arguments of the plane.
    """

    def __init__(
        self,
        version: int = 9,
        *,
        linger_ms: int = 0,
        first_bytes: int = 4096,
        has_wake_descriptor: bool = False,
        transactional_id: str | None = None,
        compression: str = "none",
        plane: dict[str, Any] | None = None,
        **lane: Any,
    ) -> None:
        self.version = version
        self.transactional_id = transactional_id
        #: Of transactional producers: producer id, epoch, next sequence, ms of the last acknowledgement.
        self.numbers = (7, 3, 5, 0)
        self.refusals: list[None] = []
        self.on_allocate: Any = lambda: None
        self.taken = 0
        self.sizes: list[int] = []
        self.is_empty = False
        self.memory_waiters: list[Any] = []
        self.compression = Compression.of(compression)
        is_plain = compression == "none"
        self.ratio = None if is_plain else TopicCompressionRatio()
        self.incomplete: dict[Any, Any] = {}
        settings: dict[str, Any] = {
            "linger_ms": linger_ms,
            "request_timeout_ms": 30_000,
            "delivery_timeout_ms": 120_000,
            "longest_open_ms": 12_000,
            "batch_size": 4096,
            "buffer_memory": 1 << 20,
            "first_bytes": first_bytes,
            "sizes": (4096, 1024) if is_plain else (16384, 4096, 1024),
            "future_type": FutureRecordMetadata,
            "metadata_type": RecordMetadata,
            "make_result": ProduceRequestResult,
            "allocate": self.allocate,
            "deallocate": self.deallocate,
            "incomplete": self.incomplete,
            "memory_waiters": self.memory_waiters,
            "on_wake": None if has_wake_descriptor else lambda: None,
            "codec": None if is_plain else self.compression.native_codec(),
        }
        self.plane = data_plane.Plane(**{**settings, **(plane or {})})
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)
        self.theirs.setblocking(False)
        self.options = {"most_in_flight": 5, "most_request_bytes": 1 << 20, **lane}
        self.transactional_id = transactional_id
        if transactional_id is not None:
            self.plane.use_transactions(lambda: self.refusals.append(None))
            self.plane.number(7, 3)
        self.new_lane()
        self.topics: dict[str, Any] = {}
        self.ids: dict[str, uuid.UUID] = {}
        self.parts: dict[tuple[str, int], Any] = {}
        self.now_ms = 1000

    def new_lane(self) -> None:
        fields = fields_before_topics(self.version, "me", -1, 30_000, self.transactional_id)
        fd = self.ours.fileno()
        self.lane = data_plane.FastLane(self.plane, "1", fd, self.version, fields, **self.options)
        self.plane.add_lane(self.lane)
        self.lane.is_armed = True

    def allocate(self, size: int) -> bytearray | None:
        self.on_allocate()
        if self.is_empty:
            return None
        buffer = bytearray(size)
        self.sizes.append(size)
        self.taken += 1
        return buffer

    def deallocate(self, buffers: list[bytearray]) -> None:
        self.taken -= len(buffers)

    def part(self, topic: str, partition: int) -> Any:
        if topic not in self.topics:
            self.ids[topic] = uuid.uuid4()
            by_id = self.version >= FIRST_WITH_IDS
            encoded = self.ids[topic].bytes if by_id else encoded_topic_name(self.version, topic)
            self.topics[topic] = data_plane.FastTopic(topic, encoded, by_id, self.ratio)
        if (topic, partition) not in self.parts:
            part = data_plane.FastPart(self.plane, self.topics[topic], TopicPartition(topic, partition))
            if self.transactional_id is not None:
                part.number(*self.numbers)
            part.arm(self.lane)
            self.parts[topic, partition] = part
        return self.parts[topic, partition]

    def send(
        self, topic: str, partition: int, value: bytes, on_delivery: Any = None, *, may_compress: bool = True
    ) -> Any:
        part = self.part(topic, partition)
        record = (1_700_000_000_000, b"k", value, [("h", b"1")], on_delivery)
        append = SimpleNamespace(record=record, transaction=self.plane.transaction, buffer=None, future=None)
        while part.append(append):
            if may_compress:
                part.compress_last()
        return append.future

    def sent(self) -> bytes:
        found = b""
        try:
            while data := self.theirs.recv(1 << 20):
                found += data
        except BlockingIOError:
            pass
        return found

    def expected(self, batches: list[tuple[str, int, list[bytes]]], correlation_id: int = 0) -> bytes:
        made = []
        for topic, partition, values in batches:
            builder = RecordBatchBuilder(bytearray(1 << 16), self.compression)
            batch = ProducerBatch(TopicPartition(topic, partition), builder, 0)
            for value in values:
                assert batch.try_append(1_700_000_000_000, b"k", value, [("h", b"1")], None)
            if self.transactional_id is not None:
                producer_id, epoch, sequence, _ = self.numbers
                batch.set_producer_state(producer_id, epoch, sequence, is_transactional=True)
            made.append(batch)
        transactions = None
        if self.transactional_id is not None:
            transactions = TransactionStateMachine(self.transactional_id, ProducerHooks())
        config = ProducerConfig(bootstrap_servers=("b:1",))
        builder = ProduceRequestBuilder(made, self.ids, config, transactions)
        return b"".join(builder.build_frame(self.version, correlation_id, "me"))

    def response(
        self, partitions: list[tuple[str, int, int]], correlation_id: int = 0, **fields: Any
    ) -> bytes:
        by_topic: dict[str, list[Any]] = {}
        for topic, partition, offset in partitions:
            answer = PartitionProduceResponse(index=partition, base_offset=offset, log_append_time_ms=-1)
            by_topic.setdefault(topic, []).append(answer)
        topics = [
            TopicProduceResponse(name=name, topic_id=self.ids[name], partition_responses=answers)
            for name, answers in by_topic.items()
        ]
        return self.frame(ProduceResponse(responses=topics, **fields), correlation_id)

    def frame(self, body: ProduceResponse, correlation_id: int = 0) -> bytes:
        if self.version < FIRST_WITH_IDS:
            for topic in body.responses:
                topic.topic_id = uuid.UUID(int=0)
        else:
            for topic in body.responses:
                topic.name = ""
        header = ResponseHeader(correlation_id=correlation_id)
        payload = header.encode(response_header_version(0, self.version)) + body.encode(self.version)
        return len(payload).to_bytes(4, "big") + payload

    def receive(self, data: bytes) -> tuple[list[bytes], bytes | None, int]:
        """The frames for Python, the bytes that are not usual, and how many requests were settled."""
        payloads = []
        while True:
            payload, rest = self.lane.receive(data)
            if payload is None:
                return payloads, rest, self.plane.settle(self.now_ms)
            payloads.append(payload)
            data = b""

    def close(self) -> None:
        for part in self.parts.values():
            part.disarm()
        self.lane.take_requests()
        self.ours.close()
        self.theirs.close()

"""A fixed metadata snapshot and an accumulator with a manual clock, for the accumulator's tests."""

from __future__ import annotations

import random
from typing import Any

from kproducer._core.accumulator.buffer_pool import BufferPool
from kproducer._core.accumulator.future_record_metadata import FutureRecordMetadata
from kproducer._core.accumulator.producer_batch import ProducerBatch
from kproducer._core.accumulator.record_accumulator import RecordAccumulator
from kproducer._core.client.metadata_snapshot import (
    ZERO_TOPIC_ID,
    MetadataSnapshot,
    PartitionMetadata,
    TopicMetadata,
)
from kproducer._core.config.producer_config import ProducerConfig
from kproducer.types import Node, TopicPartition
from tests.support.manual_clock import ManualClock
from tests.support.units.appending import append_record

TOPIC = "topic"
START_MS = 1_000_000


def make_snapshot(leaders: list[int], *, nodes: int = 2, epochs: list[int] | None = None) -> MetadataSnapshot:
    """One topic whose partition i has leader ``leaders[i]`` (-1: none); nodes 1 to ``nodes``."""
    members = {i: Node(i, f"host{i}", 9092) for i in range(1, nodes + 1)}
    partitions = tuple(
        PartitionMetadata(i, leader, epochs[i] if epochs else 1) for i, leader in enumerate(leaders)
    )
    available = tuple([p.partition for p in partitions if p.leader_id in members])
    topic = TopicMetadata(TOPIC, ZERO_TOPIC_ID, partitions, available)
    return MetadataSnapshot(cluster_id="c", nodes=members, topics={TOPIC: topic})


class Kit:
    """An accumulator with its dependencies. Times are the clock's unless given."""

    def __init__(self, snapshot: MetadataSnapshot | None = None, **settings: Any) -> None:
        settings.setdefault("batch_size", 1024)
        settings.setdefault("buffer_memory", 64 * 1024)
        settings.setdefault("linger_ms", 10)
        self.config = ProducerConfig(bootstrap_servers=("127.0.0.1:9092",), **settings)
        self.clock = ManualClock(START_MS)
        self.pool = BufferPool.of(self.config, self.clock)
        self.random = random.Random(7)
        self.accumulator = RecordAccumulator(self.config, self.pool, self.clock, random=self.random)
        self.snapshot = snapshot if snapshot is not None else make_snapshot([1, 1, 2, 2])
        self.count = 0

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms

    def append(
        self,
        partition: int = 0,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        on_delivery: Any = None,
        max_block_ms: float = 0,
    ) -> FutureRecordMetadata:
        return self.append_and_wake(partition, value, key, on_delivery, max_block_ms)[0]

    def append_and_wake(
        self,
        partition: int = 0,
        value: bytes | None = None,
        key: bytes | None = None,
        on_delivery: Any = None,
        max_block_ms: float = 0,
    ) -> tuple[FutureRecordMetadata, bool]:
        self.count += 1
        if value is None:
            value = b"%08d" % self.count
        record = (1, key, value, None, on_delivery)
        return append_record(self.accumulator, TOPIC, partition, record, self.snapshot, max_block_ms)

    def fill(self, partition: int = 0, batches: int = 1) -> list[FutureRecordMetadata]:
        """Append until ``batches`` batches are full, that is, until one more is open."""
        futures = []
        made = 0
        while made <= batches:
            future, wake = self.append_and_wake(partition, b"x" * 100)
            made += wake
            futures.append(future)
        return futures

    def ready_ids(self) -> set[int]:
        return {n.id for n in self.accumulator.ready_batches.ready(self.snapshot, self.now_ms).ready_nodes}

    def delay_ms(self) -> int:
        return self.accumulator.ready_batches.ready(self.snapshot, self.now_ms).next_ready_check_delay_ms

    def drain(self, *node_ids: int, max_size: int = 1 << 20) -> list[ProducerBatch]:
        nodes = [self.snapshot.nodes[i] for i in node_ids or self.snapshot.nodes]
        drained = self.accumulator.ready_batches.drain(self.snapshot, nodes, max_size, self.now_ms)
        return [batch for batches in drained.values() for batch in batches]

    def finish(self, batch: ProducerBatch, base_offset: int = 0) -> None:
        self.accumulator.request_done(batch)
        batch.complete(base_offset)
        self.accumulator.deallocate(batch)

    def retry(self, batch: ProducerBatch, error: Any = None) -> None:
        self.accumulator.request_done(batch)
        self.accumulator.reenqueue(batch, self.now_ms, error)

    def assert_all_memory_is_back(self) -> None:
        assert self.accumulator.incomplete_count == 0
        assert not self.accumulator.queues.active
        assert self.pool.available_bytes == self.pool.total_bytes


def partition_of(batch: ProducerBatch) -> int:
    return batch.topic_partition.partition


def tp(partition: int) -> TopicPartition:
    return TopicPartition(TOPIC, partition)

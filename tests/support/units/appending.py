"""Appends a record to an accumulator, and takes memory, as a thread does that sends: with a wait."""

from __future__ import annotations

from typing import Any

from kproducer._core.accumulator.buffer_pool import BufferPool
from kproducer._core.accumulator.future_record_metadata import DeliveryCallback, FutureRecordMetadata
from kproducer._core.accumulator.record_accumulator import Append, RecordAccumulator
from kproducer._core.client.metadata_snapshot import MetadataSnapshot
from kproducer._core.sending.needs import MemoryNeed


def append_value(
    accumulator: RecordAccumulator,
    topic: str,
    partition: int,
    value: bytes | None,
    snapshot: MetadataSnapshot,
    *,
    on_delivery: DeliveryCallback | None = None,
    max_block_ms: float = 0,
) -> tuple[FutureRecordMetadata, bool]:
    """See ``append_record``. The record has the timestamp 1000."""
    record = (1000, None, value, None, on_delivery)
    return append_record(accumulator, topic, partition, record, snapshot, max_block_ms)


def append_record(
    accumulator: RecordAccumulator,
    topic: str,
    partition: int,
    record: Any,
    snapshot: MetadataSnapshot,
    max_block_ms: float = 0,
) -> tuple[FutureRecordMetadata, bool]:
    """The record's future, and whether the I/O thread should be woken."""
    future = accumulator.try_append(topic, partition, record)
    if future is not None:
        return future, False
    append = Append(topic, partition, record, snapshot)
    try:
        while not accumulator.append(append):
            MemoryNeed(accumulator.pool, append).wait(max_block_ms)
    except BaseException:
        accumulator.give_up(append)
        raise
    assert append.future is not None
    return append.future, append.wakes_sender


def take_memory(pool: BufferPool, size_bytes: int, max_block_ms: float = 0) -> bytearray:
    """A buffer of the pool, for a batch that nobody begins."""
    append = Append("t", 0, (0, None, None, None, None), MetadataSnapshot())
    append.first_bytes = size_bytes
    try:
        MemoryNeed(pool, append).wait(max_block_ms)
    except BaseException:
        if append.buffer is not None:
            pool.deallocate(append.buffer)
        raise
    assert append.buffer is not None
    return append.buffer

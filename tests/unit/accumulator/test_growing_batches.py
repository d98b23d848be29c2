"""Batches begin small and grow up to batch_size, out of the pool; never at the cost of others."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from kproducer._core.accumulator.buffer_pool import BufferPool
from kproducer._core.accumulator.future_record_metadata import FutureRecordMetadata
from kproducer._core.accumulator.producer_batch import ProducerBatch
from kproducer._core.accumulator.record_accumulator import MAX_COMPRESSION_BACKLOG
from kproducer._core.records.batch_sizing import FIRST_BUFFER_BYTES, WHOLE_BUFFER_BYTES
from kproducer._core.records.compression import Compression
from kproducer._core.records.record_batch_builder import RecordBatchBuilder
from kproducer.errors import DeliveryTimeoutError
from kproducer.testing.fakebroker.batch_check import RecordBatch, read_batch
from kproducer.types import UNKNOWN_PARTITION
from tests.support.manual_clock import ManualClock
from tests.support.units.accumulator_kit import Kit, make_snapshot
from tests.support.units.appending import take_memory

KIB = 1024
TS = 1_700_000_000_000


def open_batch(kit: Kit, partition: int = 0) -> ProducerBatch:
    queue = kit.accumulator.queues.topics["topic"].queue(partition)
    assert queue is not None
    assert queue.open_batch is not None
    return queue.open_batch


def first_batch(kit: Kit, partition: int) -> ProducerBatch:
    queue = kit.accumulator.queues.topics["topic"].queue(partition)
    assert queue is not None
    return queue.batches[0]


def taken_bytes(kit: Kit) -> int:
    return kit.config.buffer_memory - kit.pool.available_bytes


def append_until(kit: Kit, over: Callable[[], bool]) -> list[FutureRecordMetadata]:
    futures = []
    while not over():
        futures.append(kit.append(value=b"%0900d" % len(futures)))
    return futures


def end(kit: Kit) -> list[RecordBatch]:
    """Drain everything and acknowledge it; what was in the batches."""
    parsed = []
    while kit.accumulator.queues.active:
        for batches in kit.accumulator.ready_batches.drain(
            kit.snapshot, kit.snapshot.nodes.values(), 1 << 30, kit.now_ms
        ).values():
            for batch in batches:
                parsed.append(read_batch(bytes(batch.records())))
                kit.accumulator.request_done(batch)
                batch.complete(0, -1)
                kit.accumulator.deallocate(batch)
    return parsed


def test_a_batch_takes_what_it_needs_and_no_more() -> None:
    kit = Kit(batch_size=256 * KIB, buffer_memory=4096 * KIB)
    kit.append()
    assert taken_bytes(kit) == 16 * KIB
    futures = [kit.append(value=bytes(900)) for _ in range(20)]
    assert taken_bytes(kit) == 64 * KIB
    (batch,) = end(kit)
    assert len(batch.records) == 21
    assert [future.result(0).offset for future in futures] == list(range(1, 21))
    kit.assert_all_memory_is_back()


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "zstd"])
def test_a_batch_grows_to_batch_size_and_is_full_then(codec: str) -> None:
    kit = Kit(batch_size=200 * KIB, buffer_memory=4096 * KIB, compression_type=codec)
    noise = random.Random(3)
    values = []
    while len(kit.accumulator.queues.topics.get("topic", _Nothing).queues) == 0 or queue_length(kit) == 1:
        values.append(noise.randbytes(900))
        kit.append(value=values[-1])
    batches = end(kit)
    sent = [record.value for batch in batches for record in batch.records]
    assert sent == values
    assert len(batches) == 2
    assert 180 * KIB < sum(map(len, values[:-1])) < 200 * KIB
    kit.assert_all_memory_is_back()


def test_with_many_partitions_memory_is_taken_for_records_and_not_for_empty_buffers() -> None:
    partitions = 3000
    kit = Kit(make_snapshot([1] * partitions), batch_size=256 * KIB, buffer_memory=16384 * KIB)
    for _ in range(10):
        for partition in range(partitions):
            kit.append(partition, bytes(150))
    assert kit.accumulator.incomplete_count == partitions
    assert all(len(batch.records) == 10 for batch in end(kit))
    kit.assert_all_memory_is_back()
    kit.append()
    assert taken_bytes(kit) == 16 * KIB


class _Nothing:
    queues: tuple[()] = ()


def queue_length(kit: Kit) -> int:
    queue = kit.accumulator.queues.topics["topic"].queue(0)
    return 0 if queue is None else len(queue.batches)


def test_a_batch_that_cannot_grow_is_full() -> None:
    kit = Kit(batch_size=100 * KIB, buffer_memory=100 * KIB)
    append_until(kit, lambda: taken_bytes(kit) > 16 * KIB)
    # 64 KiB would not leave as much again.
    assert taken_bytes(kit) == 32 * KIB
    assert queue_length(kit) == 2
    assert len(end(kit)) == 2
    kit.assert_all_memory_is_back()


def test_nobody_grows_while_somebody_waits() -> None:
    pool = BufferPool(100, 100, ManualClock())
    held = take_memory(pool, 60, 0)
    assert pool.try_allocate(30) is None  # not as much again would be left
    small = pool.try_allocate(20)
    assert small is not None
    waited: list[object] = []
    pool.on_wait = lambda: waited.append(pool.try_allocate(1))
    with pytest.raises(Exception, match="could not allocate 50 bytes"):
        take_memory(pool, 50, 0)
    assert waited == [None]
    pool.deallocate(held)
    pool.deallocate(small)
    assert pool.available_bytes == 100
    pool.close()
    assert pool.try_allocate(1) is None


def test_every_size_of_a_growing_batch_is_handed_out_again() -> None:
    pool = BufferPool(4096 * KIB, 300 * KIB, ManualClock())
    for size in (16 * KIB, 64 * KIB, 256 * KIB, 300 * KIB):
        buffer = pool.try_allocate(size)
        assert buffer is not None
        pool.deallocate(buffer)
        assert pool.try_allocate(size) is buffer
        pool.deallocate(buffer)
    assert pool.available_bytes == pool.total_bytes
    # All of them give way to what is wanted now.
    everything = take_memory(pool, pool.total_bytes, 0)
    assert pool.available_bytes == 0
    pool.deallocate(everything)
    assert pool.available_bytes == pool.total_bytes


def test_a_large_first_record_gets_a_buffer_of_its_size_and_the_batch_grows_on() -> None:
    kit = Kit(batch_size=256 * KIB, buffer_memory=4096 * KIB)
    kit.append(value=bytes(20 * KIB))
    assert 20 * KIB < taken_bytes(kit) < 21 * KIB
    kit.append(value=bytes(20 * KIB))
    assert taken_bytes(kit) == 64 * KIB
    kit.append(value=bytes(100 * KIB))
    assert taken_bytes(kit) == 256 * KIB
    (batch,) = end(kit)
    assert [len(record.value or b"") for record in batch.records] == [20 * KIB, 20 * KIB, 100 * KIB]
    kit.assert_all_memory_is_back()


class Buffers:
    """A source that remembers, and can fail while the batch moves."""

    def __init__(self) -> None:
        self.out: list[bytearray] = []

    def try_allocate(self, size_bytes: int) -> bytearray | None:
        self.out.append(bytearray(size_bytes))
        return self.out[-1]

    def deallocate(self, buffer: bytearray) -> None:
        self.out = [other for other in self.out if other is not buffer]


def test_a_compressed_batch_goes_on_growing_while_the_estimate_has_room() -> None:
    buffers = Buffers()
    first = buffers.try_allocate(FIRST_BUFFER_BYTES)
    assert first is not None
    builder = RecordBatchBuilder(first, Compression.of("gzip"), None, 64 * KIB, buffers)
    count = 0
    while builder.try_append(TS, None, bytes(500), None):
        count += 1
    assert [len(buffer) for buffer in buffers.out] == [64 * KIB]
    assert builder.buffer is buffers.out[0]
    assert len(read_batch(builder.close()).records) == count


def test_a_sticky_stay_lasts_until_its_batch_ends() -> None:
    kit = Kit(batch_size=256 * KIB, buffer_memory=4096 * KIB)
    partitions = set()
    for _ in range(100):
        partitions.add(kit.append(UNKNOWN_PARTITION, bytes(900))._batch_result.topic_partition.partition)
    assert len(partitions) == 1, "moved on in the middle of a batch that had room to grow"
    for _ in range(40):
        # A batch that has lingered is sent at any size.
        end(kit)
        for _ in range(20):
            partitions.add(kit.append(UNKNOWN_PARTITION, bytes(900))._batch_result.topic_partition.partition)
    assert len(partitions) > 1, "one partition has all records of a slow topic"


def test_a_partition_that_fills_its_batches_begins_the_next_one_large() -> None:
    kit = Kit(batch_size=256 * KIB, buffer_memory=8192 * KIB)
    assert open_batch_after(kit, 0) == 16 * KIB
    kit.fill(0)
    assert open_batch_after(kit, 0) == 256 * KIB
    # One that is sent nearly empty says that the load is over.
    end(kit)
    assert open_batch_after(kit, 0) == 16 * KIB


def test_many_partitions_begin_small_however_full_their_batches() -> None:
    kit = Kit(make_snapshot([1] * 16), batch_size=256 * KIB, buffer_memory=8192 * KIB)
    for partition in range(16):
        open_batch_after(kit, partition)
    kit.fill(0)
    assert open_batch_after(kit, 0) == 64 * KIB


def compressing_kit(batch_size: int = 64 * KIB) -> Kit:
    kit = Kit(batch_size=batch_size, buffer_memory=128 * batch_size, compression_type="lz4")
    kit.append()
    end(kit)
    kit.accumulator.queues.topics["topic"].ratio.ratio = 0.6
    return kit


def test_a_batch_that_will_be_compressed_takes_more_plain_records_than_its_size() -> None:
    kit = compressing_kit()
    kit.fill(0)
    full, following = kit.accumulator.queues.topics["topic"].queue(0).batches
    assert len(full.builder.buffer) == 4 * 64 * KIB
    assert 64 * KIB / (0.6 * 1.05) - KIB < full.builder.uncompressed_size_bytes < 64 * KIB / (0.6 * 1.05)
    # The next one begins with no more than twice what it will take.
    assert len(following.builder.buffer) == 64 * KIB
    sent = end(kit)
    assert [len(batch.records) for batch in sent] == [kit.count - 2, 1]
    kit.assert_all_memory_is_back()


def test_what_does_not_compress_begins_with_no_more_than_it_will_take() -> None:
    kit = compressing_kit()
    kit.accumulator.queues.topics["topic"].ratio.ratio = 1.0
    kit.fill(0)
    full, following = kit.accumulator.queues.topics["topic"].queue(0).batches
    assert len(full.builder.buffer) == len(following.builder.buffer) == 64 * KIB


def test_without_memory_to_spare_a_full_buffer_is_a_batch() -> None:
    kit = compressing_kit()
    held = take_memory(kit.pool, kit.pool.total_bytes - 192 * KIB, 0)
    kit.fill(0)
    full = kit.accumulator.queues.topics["topic"].queue(0).batches[0]
    assert len(full.builder.buffer) == 64 * KIB
    assert 64 * KIB - KIB < full.builder.uncompressed_size_bytes <= 64 * KIB
    kit.pool.deallocate(held)
    sent = end(kit)
    assert sum(len(batch.records) for batch in sent) == kit.count - 1
    kit.assert_all_memory_is_back()


@pytest.mark.parametrize("keeps_up", [True, False])
def test_senders_compress_what_they_fill_once_the_io_thread_has_enough_of_it(keeps_up: bool) -> None:
    kit = compressing_kit()
    for partition in range(MAX_COMPRESSION_BACKLOG):
        kit.fill(partition)
        if keeps_up:
            first_batch(kit, partition).records()
    kit.fill(MAX_COMPRESSION_BACKLOG)
    batches = [first_batch(kit, partition) for partition in range(MAX_COMPRESSION_BACKLOG + 1)]
    assert [batch.is_full for batch in batches] == [True] * (MAX_COMPRESSION_BACKLOG + 1)
    assert [batch.awaits_compression for batch in batches] == [not keeps_up] * MAX_COMPRESSION_BACKLOG + [
        keeps_up
    ]
    sent = end(kit)
    assert sum(len(batch.records) for batch in sent) == kit.count - 1
    kit.assert_all_memory_is_back()


def test_a_batch_that_was_given_up_is_no_work_for_the_io_thread() -> None:
    kit = compressing_kit()
    for partition in range(MAX_COMPRESSION_BACKLOG):
        kit.fill(partition)
    kit.accumulator.abort_undrained_batches(DeliveryTimeoutError("given up"))
    kit.fill(MAX_COMPRESSION_BACKLOG)
    assert first_batch(kit, MAX_COMPRESSION_BACKLOG).awaits_compression


def test_a_large_buffer_of_plain_records_is_a_batch_of_its_own() -> None:
    kit = compressing_kit(batch_size=WHOLE_BUFFER_BYTES // 2)
    kit.accumulator.queues.topics["topic"].ratio.ratio = 0.1
    kit.fill(0)
    full = first_batch(kit, 0)
    assert full.awaits_compression
    assert WHOLE_BUFFER_BYTES - KIB < full.builder.uncompressed_size_bytes <= WHOLE_BUFFER_BYTES
    assert sum(len(batch.records) for batch in end(kit)) == kit.count - 1
    kit.assert_all_memory_is_back()


def open_batch_after(kit: Kit, partition: int) -> int:
    """Size of the buffer of the batch that takes a small record."""
    kit.append(partition)
    builder = open_batch(kit, partition).builder
    assert builder is not None
    return len(builder.buffer)


def test_the_first_buffer_is_not_larger_than_the_memory() -> None:
    kit = Kit(linger_ms=0, batch_size=1500, buffer_memory=3000, compression_type="gzip")
    kit.append(0)
    (batch,) = kit.drain()
    kit.finish(batch)
    kit.assert_all_memory_is_back()

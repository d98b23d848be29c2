"""Ctrl-C may come between any two instructions of an append: what is in the batch stays sound.

The trace function raises after the n-th instruction, for every n: each place is tried, none by luck.
"""

from __future__ import annotations

import functools
import inspect
import itertools

import pytest

from kproducer._core.accumulator.buffer_pool import BufferPool
from kproducer._core.accumulator.owned_lock import OwnedLock
from kproducer._core.accumulator.partition_queue import PartitionQueue
from kproducer._core.accumulator.producer_batch import ProducerBatch
from kproducer._core.accumulator.record_accumulator import RecordAccumulator
from kproducer._core.kernel import IMPLEMENTATION, BatchWriter, RecordAppender
from kproducer._core.records.compression import Compression
from kproducer._core.records.record_batch_builder import RecordBatchBuilder
from kproducer._core.runtime.clock import SystemClock
from kproducer._core.sending.needs import MemoryNeed, Need
from kproducer.testing.fakebroker.batch_check import read_batch
from kproducer.types import TopicPartition
from tests.support.interruption import interrupt_after
from tests.support.units.accumulator_kit import Kit
from tests.support.units.appending import take_memory

TS = 1_700_000_000_000
#: Of those that are Python code: an interrupt cannot come within a compiled function.
APPENDING = {
    function.__code__
    for function in (ProducerBatch.try_append, RecordAppender.append, BatchWriter.append)
    if hasattr(function, "__code__")
}


COMPRESSING = {
    ProducerBatch.compress.__code__,
    OwnedLock.__enter__.__code__,
    RecordBatchBuilder.close_for_appends.__code__,
    RecordBatchBuilder.compress.__code__,
    RecordBatchBuilder._finish_records.__code__,
}


@pytest.mark.parametrize("records_before", [0, 2])
def test_every_interruption_leaves_a_batch_that_brokers_accept(records_before: int) -> None:
    interrupted = True
    instructions = 0
    taken = lost = 0
    while interrupted:
        instructions += 1
        builder = RecordBatchBuilder(bytearray(2000), Compression.of("none"))
        batch = ProducerBatch(TopicPartition("t", 0), builder, 0)
        values = [b"before %d" % number for number in range(records_before)]
        for value in values:
            assert batch.try_append(TS, None, value, None, None) is not None
        act = functools.partial(batch.try_append, TS + 1, b"key", b"interrupted", None, None)
        interrupted = interrupt_after(instructions, APPENDING, act)
        future = batch.try_append(TS + 2, None, b"after", None, None)
        assert future is not None

        sent = [record.value for record in read_batch(batch.records()).records]
        assert sent in ([*values, b"after"], [*values, b"interrupted", b"after"])
        taken += len(sent) - len(values) - 1
        lost += len(sent) == len(values) + 1
        batch.complete(100, -1)
        assert future.result().offset == 100 + sent.index(b"after")
    # What is compiled cannot be interrupted, and has nothing that could be counted.
    assert instructions > (100 if IMPLEMENTATION == "pure" else 20)
    assert taken  # late interruptions find the record in the batch
    assert lost  # early ones do not


def test_a_batch_whose_sender_was_interrupted_while_it_compressed_is_sent_nevertheless() -> None:
    """Ctrl-C in the middle of send() must not fail records that were taken long before."""
    interrupted = True
    instructions = 0
    while interrupted:
        instructions += 1
        builder = RecordBatchBuilder(bytearray(4000), Compression.of("gzip"))
        batch = ProducerBatch(TopicPartition("t", 0), builder, 0)
        values = [b"%0100d" % number for number in range(20)]
        for value in values:
            assert batch.try_append(TS, None, value, None, None) is not None
        lock = batch.compression_lock = OwnedLock()
        compress = functools.partial(batch.compress, lock)
        interrupted = interrupt_after(instructions, COMPRESSING, compress, as_signals_do=True)
        assert [record.value for record in read_batch(batch.records()).records] == values
        assert builder.compression_ratio < 0.5, f"after interruption {instructions}"
    assert instructions > 10


TAKING_MEMORY = {
    RecordAccumulator.append.__code__,
    RecordAccumulator.try_append.__code__,
    RecordAccumulator._append_locked.__code__,
    RecordAccumulator._begin_batch_locked.__code__,
    PartitionQueue.add_batch_locked.__code__,
    PartitionQueue.fill_slot_locked.__code__,
    OwnedLock.__enter__.__code__,
    *(
        function.__code__
        for name, function in vars(BufferPool).items()
        # Not where memory is about to be returned: nothing refers to it yet.
        if inspect.isfunction(function) and name not in ("deallocate", "deallocate_all", "_give_back")
    ),
}


@pytest.mark.parametrize(
    ("sizes", "compression_type"),
    [([10], "none"), ([100_000], "none"), ([10, 10], "none"), ([60] * 400, "none"), ([60] * 400, "gzip")],
    ids=["a buffer of the first size", "one for itself", "two batches", "a batch that grows", "compressed"],
)
@pytest.mark.parametrize("is_pooled", [False, True])
def test_an_interrupted_append_loses_no_memory(
    sizes: list[int], compression_type: str, is_pooled: bool
) -> None:
    taken = 0
    for number in itertools.count(1):
        kit = Kit(
            batch_size=20_000, buffer_memory=1 << 20, linger_ms=0, compression_type=compression_type, acks=1
        )
        if is_pooled:
            kit.append()
            _deliver_all(kit)

        def append(kit: Kit = kit) -> None:
            for index, size in enumerate(sizes):
                kit.append(index % 2 if len(sizes) == 2 else 0, b"x" * size)

        # Of the many appends of a batch that grows, in the middle of which it happens, a few are enough.
        step = number if len(sizes) < 10 else 31 * number
        interrupted = interrupt_after(step, TAKING_MEMORY, append, as_signals_do=True)
        kit.append(2)
        taken += _deliver_all(kit)
        kit.assert_all_memory_is_back()
        if not interrupted:
            break
    assert number > 5
    assert taken > number  # the record that was interrupted is in some of them, too


def test_a_wait_for_memory_that_is_interrupted_loses_none() -> None:
    for number in itertools.count(1):
        pool = BufferPool(100_000, 20_000, SystemClock())
        held = [take_memory(pool, 50_000, 0), take_memory(pool, 50_000, 0)]
        pool.on_wait = lambda held=held, pool=pool: pool.deallocate(held.pop())  # type: ignore[misc]
        got: list[bytearray] = []
        act = functools.partial(lambda pool, got: got.append(take_memory(pool, 40_000, 60_000)), pool, got)
        # Without what the lambda runs: returning memory has another end.
        needs = (Need.wait, MemoryNeed.subscribe, MemoryNeed.is_met, MemoryNeed.cancel)
        steps = (*needs, BufferPool.request, BufferPool._gather_locked, BufferPool.collect)
        codes = {step.__code__ for step in steps}
        interrupted = interrupt_after(number, codes, act, as_signals_do=True)
        for buffer in held + got:
            pool.deallocate(buffer)
        assert len(pool.waiters) == 0
        assert pool.available_bytes == pool.total_bytes, f"after interruption {number}"
        if not interrupted:
            break
    assert number > 8


def _deliver_all(kit: Kit) -> int:
    """Returns how many records there were."""
    records = 0
    while kit.accumulator.queues.active:
        kit.clock.advance(1)
        kit.ready_ids()
        for batch in kit.drain():
            records += batch.record_count
            kit.finish(batch)
    return records

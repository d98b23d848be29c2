"""A thread that compresses the batch it has filled stops no other thread, and nothing is compressed twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from unittest.mock import Mock

import pytest

from kproducer._core.accumulator.owned_lock import OwnedLock
from kproducer._core.accumulator.producer_batch import ProducerBatch
from kproducer._core.accumulator.record_accumulator import MAX_COMPRESSION_BACKLOG
from kproducer._core.engine.producer_engine import refuse_in_the_middle_of_send
from kproducer._core.records.compression import Compression
from kproducer.errors import DeliveryTimeoutError, IllegalStateError
from kproducer.testing.fakebroker.batch_check import read_batch
from tests.support.units.accumulator_kit import Kit

TIMEOUT_S = 20


class Compressing:
    """An accumulator in which callers compress. The test's thread is the I/O thread.

    Attributes:
        began, goes_on: the caller is in the middle of a compression, and may go on.
        waits: a thread waits for a lock.
        in_the_middle: called by the compressing thread.
        compressed: how many batches were.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.kit = Kit(batch_size=4096, buffer_memory=1 << 20, compression_type="gzip")
        self.began, self.goes_on, self.waits = threading.Event(), threading.Event(), threading.Event()
        self.in_the_middle: Callable[[], object] = lambda: None
        self.threads = ThreadPoolExecutor(2)
        self.compressed = 0
        # As much as the I/O thread is to compress, for another node than that of partition 0.
        for _ in range(MAX_COMPRESSION_BACKLOG):
            self.fill(2)
        compress, wait = Compression.compress, OwnedLock._wait

        def stops(compression: Compression, plain: memoryview) -> bytes:
            self.compressed += 1
            self.in_the_middle()
            self.began.set()
            assert self.goes_on.wait(TIMEOUT_S)
            return compress(compression, plain)

        def waits(lock: OwnedLock) -> None:
            self.waits.set()
            wait(lock)

        patch.setattr(Compression, "compress", stops)
        patch.setattr(OwnedLock, "_wait", waits)

    def batches(self, partition: int) -> list[ProducerBatch]:
        topic_queues = self.kit.accumulator.queues.topics.get("topic")
        queue = None if topic_queues is None else topic_queues.queue(partition)
        return [] if queue is None else list(queue.batches)

    def fill(self, partition: int) -> list[bytes]:
        """Append until a batch is full; the values before the one that found it full."""
        values: list[bytes] = []
        wake = False
        while len(values) < 2 or not wake:
            values.append(self.kit.random.randbytes(500))
            _, wake = self.kit.append_and_wake(partition, values[-1])
        return values[:-1]

    def begin(self) -> tuple[ProducerBatch, Future[list[bytes]]]:
        """Have a caller fill the first batch of partition 0, and stop while it compresses that."""
        filled = self.threads.submit(self.fill, 0)
        assert self.began.wait(TIMEOUT_S)
        return self.batches(0)[0], filled

    def while_it_compresses(self, act: Callable[[], object]) -> None:
        """Call ``act``, which has to wait for the caller, on another thread; then let the caller go on."""
        waiting = self.threads.submit(act)
        assert self.waits.wait(TIMEOUT_S)
        assert not waiting.done()
        self.goes_on.set()
        waiting.result(TIMEOUT_S)


@pytest.fixture
def compressing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Compressing]:
    compressing = Compressing(monkeypatch)
    yield compressing
    compressing.goes_on.set()
    compressing.threads.shutdown()


def values_in(batch: ProducerBatch) -> list[bytes | None]:
    return [record.value for record in read_batch(bytes(batch.records())).records]


def test_its_partition_takes_records_and_is_looked_at(compressing: Compressing) -> None:
    batch, filled = compressing.begin()
    compressing.kit.ready_ids()
    compressing.kit.append(0, b"of another thread")
    assert not compressing.waits.is_set()
    compressing.goes_on.set()
    assert values_in(batch) == filled.result(TIMEOUT_S)
    assert compressing.compressed == 1


def test_the_io_thread_waits_until_the_batch_it_sends_is_compressed(compressing: Compressing) -> None:
    batch, filled = compressing.begin()
    compressing.while_it_compresses(lambda: compressing.kit.drain(1))
    assert batch.in_flight
    assert values_in(batch) == filled.result(TIMEOUT_S)
    assert compressing.compressed == 1


def test_the_memory_of_a_failed_batch_is_not_returned_before(compressing: Compressing) -> None:
    batch, filled = compressing.begin()
    kit = compressing.kit
    builder = batch.builder
    assert builder is not None
    buffer = builder.writer.buffer

    def fail() -> None:
        kit.accumulator.queues.queue_of(batch.topic_partition).remove(batch)
        batch.complete(error=DeliveryTimeoutError())
        kit.accumulator.deallocate(batch)

    def give_back(returned: bytearray) -> None:
        assert returned is not buffer or compressing.goes_on.is_set()
        deallocate(returned)

    deallocate = kit.pool.deallocate
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kit.pool, "deallocate", give_back)
        compressing.while_it_compresses(fail)
    filled.result(TIMEOUT_S)
    kit.accumulator.abort_undrained_batches(DeliveryTimeoutError())
    kit.assert_all_memory_is_back()


@pytest.mark.parametrize("is_sent", [True, False], ids=["sent", "failed"])
def test_a_batch_that_has_ended_already_is_left_alone(
    compressing: Compressing, is_sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = compressing.kit
    compress = ProducerBatch.compress
    compressed = []

    def end_first(batch: ProducerBatch, lock: OwnedLock) -> None:
        if is_sent:
            (drained,) = kit.drain(1)
            assert drained is batch
            kit.finish(drained)
        else:
            kit.accumulator.abort_undrained_batches(DeliveryTimeoutError())
        compressed.append(compressing.compressed)
        compress(batch, lock)
        compressed.append(compressing.compressed)

    monkeypatch.setattr(ProducerBatch, "compress", end_first)
    compressing.goes_on.set()
    compressing.fill(0)
    assert compressed == ([1, 1] if is_sent else [0, 0])
    kit.accumulator.abort_undrained_batches(DeliveryTimeoutError())
    kit.assert_all_memory_is_back()


def test_what_a_lane_has_is_not_counted(compressing: Compressing) -> None:
    accumulator = compressing.kit.accumulator
    queue = accumulator.queues.queue_of(compressing.batches(2)[0].topic_partition)
    part = Mock()
    part.arm = lambda lane, rows, is_last_open: [accumulator.incomplete.pop(batch) for batch, *_ in rows]
    with queue.lock:
        queue.arm_locked(part, Mock())
    compressing.fill(0)
    assert compressing.compressed == 0


def test_a_signal_handler_in_the_middle_must_not_wait_for_batches(compressing: Compressing) -> None:
    """The I/O thread may wait for this very compression."""
    errors = []

    def handler() -> None:
        try:
            refuse_in_the_middle_of_send("flush", compressing.kit.accumulator)
        except IllegalStateError as error:
            errors.append(str(error))

    compressing.in_the_middle = handler
    compressing.goes_on.set()
    compressing.fill(0)
    assert len(errors) == 1
    assert "middle of send()" in errors[0]
    handler()
    assert len(errors) == 1


def test_a_compression_that_raises_leaves_the_batch_to_the_io_thread(compressing: Compressing) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    compressing.in_the_middle = interrupt
    compressing.goes_on.set()
    with pytest.raises(KeyboardInterrupt):
        compressing.fill(0)
    compressing.in_the_middle = lambda: None
    assert not compressing.kit.accumulator.queues.holds_lock()
    (batch,) = compressing.batches(0)
    assert compressing.threads.submit(compressing.kit.drain, 1).result(TIMEOUT_S) == [batch]
    assert len(values_in(batch)) == batch.record_count > 1

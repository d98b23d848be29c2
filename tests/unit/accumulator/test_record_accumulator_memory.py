"""Memory at the edges of an append: a record that is refused, and a call that begins to wait."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kproducer._core.accumulator.buffer_pool import BufferPool
from kproducer._core.accumulator.partition_queue import PartitionQueue, PartitionQueues
from kproducer._core.records.record_batch_builder import RecordBatchBuilder
from kproducer._core.runtime.clock import NEVER_MS
from kproducer.errors import IllegalStateError, KafkaError, Outcome
from tests.support.units.accumulator_kit import TOPIC, Kit, make_snapshot, partition_of
from tests.support.units.appending import append_record, append_value
from tests.support.units.sender_bench import Bench


@pytest.mark.parametrize("other_record_first", [False, True])
@pytest.mark.parametrize(
    "wrong",
    [{"timestamp_ms": -5}, {"headers": [("name", 5)]}, {"value": "text"}],
    ids=["time", "header", "value"],
)
def test_buffer_of_a_refused_first_record_goes_back_once(
    wrong: dict[str, Any], other_record_first: bool
) -> None:
    """Given back twice it would be handed to two batches, and each would overwrite the other's records."""
    kit = Kit()
    if other_record_first:  # a full pool would notice the second time
        kit.append(1)
    record = {"timestamp_ms": 1, "key": None, "value": b"v", "headers": None, "on_delivery": None, **wrong}
    before = kit.pool.available_bytes
    with pytest.raises((TypeError, ValueError)):
        append_record(kit.accumulator, TOPIC, 0, tuple(record.values()), kit.snapshot)
    assert kit.pool.available_bytes == before
    kit.append(2)
    kit.append(3)
    batches = kit.drain(1, 2)
    buffers = [batch.builder.buffer for batch in batches if batch.builder is not None]
    assert len({id(buffer) for buffer in buffers}) == len(batches) >= 2
    for batch in batches:
        kit.finish(batch, partition_of(batch))
    kit.assert_all_memory_is_back()


def test_call_that_begins_to_wait_for_memory_wakes_the_io_thread() -> None:
    """What lingers must go then. Nobody else would say so until the longest linger is over."""
    bench = Bench(linger_ms=50_000, delivery_timeout_ms=100_000, batch_size=1024, buffer_memory=2048)
    lingering = [bench.send(0), bench.send(1)]
    assert bench.step() == []
    assert bench.client.poll_timeouts[-1] == 50_000
    woken = threading.Event()
    bench.client.wakeup = woken.set  # type: ignore[method-assign]
    outcome: list[Any] = []

    def send_a_third() -> None:
        snapshot = bench.metadata.snapshot
        try:
            outcome.append(append_value(bench.accumulator, "t", 2, b"v", snapshot, max_block_ms=20_000))
        except KafkaError as error:
            outcome.append(error)

    caller = threading.Thread(target=send_a_third)
    caller.start()
    try:
        assert woken.wait(60)
        for request in bench.step():
            bench.client.answer_all(request, bench.clock.now_ms)
        bench.step()
        caller.join(60)
    finally:
        bench.accumulator.close()
        caller.join(60)
    assert all(future.result(0) for future in lingering)
    assert isinstance(outcome[0], tuple), outcome


@pytest.mark.parametrize("seed", range(8))
def test_full_batch_wakes_the_io_thread_although_its_last_record_went_elsewhere(seed: int) -> None:
    """The sticky choice moves on with the record that did not fit, perhaps to a batch that is open."""
    kit = Kit(make_snapshot([1, 1, 1]), linger_ms=100_000)
    kit.random.seed(seed)
    for partition in range(3):
        kit.append(partition)
    woken = False
    while not kit.ready_ids():
        _, wake = kit.append_and_wake(-1, b"x" * 100)
        woken = woken or wake
    assert woken


@pytest.mark.parametrize("method", ["note_expiry", "add_batch_locked"])
def test_ctrl_c_while_a_batch_is_put_in_leaves_nothing_that_never_ends(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = Kit()
    kit.append(1)
    kit.accumulator.queues.next_expiry_ms = NEVER_MS  # so that the new batch changes it
    owner: Any = PartitionQueues if method == "note_expiry" else PartitionQueue
    real = getattr(owner, method)

    def interrupted(*arguments: Any) -> None:
        real(*arguments)
        raise KeyboardInterrupt

    before = kit.pool.available_bytes
    monkeypatch.setattr(owner, method, interrupted)
    with pytest.raises(KeyboardInterrupt):
        kit.append(0)
    monkeypatch.undo()
    assert kit.pool.available_bytes == before
    assert kit.accumulator.incomplete_count == 1
    kit.append(0)
    for batch in kit.drain(1, 2):
        kit.finish(batch, partition_of(batch))
    assert not kit.accumulator.incomplete_record_count
    kit.assert_all_memory_is_back()


def test_a_batch_that_cannot_be_compressed_expires_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(builder: RecordBatchBuilder) -> None:
        raise MemoryError

    kit = Kit(compression_type="gzip")
    future = kit.append()
    (batch,) = kit.accumulator._incomplete.copy()
    monkeypatch.setattr(RecordBatchBuilder, "_finish_records", no_memory)
    kit.clock.advance(kit.config.delivery_timeout_ms)
    assert kit.accumulator.queues.take_expired(kit.now_ms) == [batch]
    batch.complete(error=KafkaError("expired"))
    kit.accumulator.deallocate(batch)
    assert future.done()
    kit.assert_all_memory_is_back()


@pytest.mark.parametrize(
    ("owner", "method"),
    [
        (PartitionQueue, "add_batch_locked"),
        (PartitionQueues, "note_expiry"),
        (BufferPool, "_gather_locked"),
    ],
)
def test_a_finalizer_that_sends_is_refused_where_it_would_wait_for_itself(
    owner: type[Any], method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector may run one anywhere: here it does where locks are held."""
    kit = Kit()
    kit.append(1)
    for batch in kit.drain(1, 2):
        kit.finish(batch)
    kit.accumulator.queues.next_expiry_ms = NEVER_MS  # so that the new batch changes it
    original = getattr(owner, method)
    errors: list[KafkaError] = []

    def collecting(*arguments: Any) -> Any:
        monkeypatch.setattr(owner, method, original)
        try:
            kit.append()
        except KafkaError as error:
            errors.append(error)
        return original(*arguments)

    monkeypatch.setattr(owner, method, collecting)
    future = kit.append(value=b"x" * 2000)  # no buffer of this size is at hand
    (error,) = errors
    assert isinstance(error, IllegalStateError)
    assert error.outcome is Outcome.NOT_SENT
    (batch,) = kit.drain(1, 2)
    assert batch.record_count == 1
    kit.finish(batch)
    assert future.done()
    kit.assert_all_memory_is_back()


def test_a_look_at_what_is_ready_waits_for_no_append() -> None:
    kit = Kit(batch_size=1024)
    kit.append()
    queue = kit.accumulator.queues.topics["topic"].queue(0)
    assert queue is not None
    with queue.lock, ThreadPoolExecutor(1) as io_thread:
        assert io_thread.submit(kit.ready_ids).result(20) == set()
    kit.fill(0)
    assert kit.ready_ids() == {1}

"""RecordAccumulator: appending, expiry, splitting, flush, abort; memory and futures are accounted for."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from kproducer._core.accumulator import record_accumulator
from kproducer._core.accumulator.future_record_metadata import FutureRecordMetadata
from kproducer._core.records.compression import Compression
from kproducer._core.sender.produce_requests import InFlightBatches
from kproducer._core.sending.needs import MemoryNeed
from kproducer.errors import (
    BufferExhaustedError,
    DeliveryTimeoutError,
    KafkaError,
    Outcome,
    ProducerClosedError,
)
from kproducer.errors.broker_errors import MessageTooLargeError, NotLeaderOrFollowerError
from kproducer.testing.fakebroker.batch_check import read_batch
from kproducer.types import UNKNOWN_PARTITION, FlushResult
from tests.support.units.accumulator_kit import Kit, make_snapshot, partition_of
from tests.support.waiting import wait_until

# -- appending ---------------------------------------------------------------------------------------------


def test_append_blocks_for_memory_and_names_the_setting() -> None:
    kit = Kit(buffer_memory=1024)
    kit.append(0)
    with pytest.raises(BufferExhaustedError, match="max_block_ms"):
        kit.append(1, max_block_ms=1)
    kit.clock.advance(10)
    kit.finish(kit.drain()[0])
    kit.append(1)


def test_waiting_append_goes_on_when_memory_comes_back() -> None:
    kit = Kit(buffer_memory=1024, linger_ms=3_600_000)
    kit.append(0)
    futures: list[FutureRecordMetadata] = []
    thread = threading.Thread(target=lambda: futures.append(kit.append(1, max_block_ms=30_000)))
    thread.start()
    wait_until(lambda: len(kit.pool.waiters) == 1)
    # Somebody waits for memory: what lingers goes out now.
    (batch,) = kit.drain(1)
    kit.finish(batch)
    thread.join(30)
    (batch,) = kit.drain(1)
    kit.finish(batch, 9)
    assert futures[0].result(0).offset == 9
    kit.assert_all_memory_is_back()


def test_buffer_that_turned_out_not_to_be_needed_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    kit = Kit()
    wait = MemoryNeed.wait

    def wait_while_another_appends(need: MemoryNeed, left_ms: float) -> None:
        monkeypatch.setattr(MemoryNeed, "wait", wait)
        kit.append(0, b"other")
        wait(need, left_ms)

    monkeypatch.setattr(type(kit.pool), "try_allocate", lambda self, size: None)
    monkeypatch.setattr(MemoryNeed, "wait", wait_while_another_appends)
    future, wake = kit.append_and_wake(0, b"mine")
    assert not wake
    assert kit.accumulator.incomplete_count == 1
    assert kit.pool.available_bytes == kit.pool.total_bytes - 1024
    kit.clock.advance(10)
    (batch,) = kit.drain()
    assert [r.value for r in read_batch(batch.records()).records] == [b"other", b"mine"]
    kit.finish(batch, 5)
    assert future.result(0).offset == 6
    kit.assert_all_memory_is_back()


def test_refused_record_takes_no_memory_and_makes_no_batch() -> None:
    kit = Kit()
    with pytest.raises((TypeError, ValueError)):
        kit.append(0, "text")  # type: ignore[arg-type]
    kit.assert_all_memory_is_back()
    kit.append(0, b"fine")
    with pytest.raises((TypeError, ValueError)):
        kit.append(0, "text")  # type: ignore[arg-type]
    assert kit.accumulator.incomplete_record_count == 1


def test_append_after_close_is_refused() -> None:
    kit = Kit()
    kit.append(0)
    kit.accumulator.close()
    for partition in (0, 1, -1):
        with pytest.raises(ProducerClosedError):
            kit.append(partition)
    assert kit.accumulator.incomplete_count == 1


def test_nothing_is_appended_to_a_batch_that_was_drained_or_put_back() -> None:
    kit = Kit(linger_ms=0)
    kit.append(0)
    (first,) = kit.drain()
    kit.append(0)
    assert first.record_count == 1
    kit.retry(first)
    (second,) = [b for b in kit.accumulator._incomplete.copy() if b is not first]
    kit.append(0)
    assert (first.record_count, second.record_count) == (1, 2)


def test_threads_appending_to_one_partition_keep_each_thread_s_order() -> None:
    kit = Kit(make_snapshot([1]), linger_ms=0, buffer_memory=1 << 22)
    barrier = threading.Barrier(4)

    def run(name: int) -> None:
        barrier.wait(30)
        for i in range(300):
            kit.append(0, b"%d %d" % (name, i), max_block_ms=30_000)

    threads = [threading.Thread(target=run, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    seen: dict[bytes, list[int]] = {}
    while batches := kit.drain():
        for batch in batches:
            for record in read_batch(batch.records()).records:
                assert record.value is not None
                name, number = record.value.split()
                seen.setdefault(name, []).append(int(number))
            kit.finish(batch)
    assert seen == {b"%d" % name: list(range(300)) for name in range(4)}
    kit.assert_all_memory_is_back()


# -- expiry ------------------------------------------------------------------------------------------------


def test_queued_batches_expire_in_order_exactly_when_due() -> None:
    kit = Kit(make_snapshot([-1, 1]), delivery_timeout_ms=1000, request_timeout_ms=500, linger_ms=0)
    kit.append(0)
    first = kit.append(0, b"x" * 2000)
    kit.clock.advance(100)
    later = kit.append(1)
    assert kit.accumulator.queues.take_expired(kit.now_ms) == []
    assert kit.accumulator.queues.next_expiry_ms <= kit.now_ms + 900
    kit.clock.advance(899)
    assert kit.accumulator.queues.take_expired(kit.now_ms) == []
    kit.clock.advance(1)
    expired = kit.accumulator.queues.take_expired(kit.now_ms)
    assert [partition_of(b) for b in expired] == [0, 0]
    assert expired == sorted(expired, key=lambda b: b.order)
    assert kit.accumulator.queues.next_expiry_ms == kit.now_ms + 100
    for batch in expired:
        batch.complete(error=batch.delivery_timeout_error(1000, kit.now_ms))
        kit.accumulator.deallocate(batch)
    error = first.exception(0)
    assert isinstance(error, DeliveryTimeoutError)
    assert error.outcome is Outcome.NOT_SENT
    assert not later.done()
    assert kit.accumulator.incomplete_count == 1


@pytest.mark.parametrize("linger_ms", [0, 300])
@pytest.mark.parametrize("seed", range(4))
def test_no_record_fails_before_its_own_time_and_none_much_later(linger_ms: int, seed: int) -> None:
    """There is no leader; records come one by one, join batches that are open, and fill some."""
    timeout_ms, longest_late_ms, step_ms = 1000, max(linger_ms, 100), 10
    kit = Kit(
        make_snapshot([-1]),
        delivery_timeout_ms=timeout_ms,
        request_timeout_ms=500,
        linger_ms=linger_ms,
        buffer_memory=1024 * 1024,
    )
    rng = random.Random(seed)
    sent: list[tuple[int, FutureRecordMetadata]] = []
    failed = 0
    while failed < 200:
        if len(sent) < 200 and rng.random() < 0.4:
            sent.append((kit.now_ms, kit.append(0, b"x" * rng.choice([1, 50, 900]))))
        kit.clock.advance(rng.randint(1, step_ms))
        for batch in kit.accumulator.queues.take_expired(kit.now_ms):
            batch.complete(error=batch.delivery_timeout_error(timeout_ms, kit.now_ms))
            kit.accumulator.deallocate(batch)
        while failed < len(sent) and sent[failed][1].done():
            assert timeout_ms <= kit.now_ms - sent[failed][0] <= timeout_ms + longest_late_ms + 2 * step_ms
            failed += 1
        assert all(
            kit.now_ms - at_ms < timeout_ms + longest_late_ms + 2 * step_ms for at_ms, _ in sent[failed:]
        )


def test_the_time_of_a_batch_in_flight_counts_from_its_last_record() -> None:
    kit = Kit(delivery_timeout_ms=1000, request_timeout_ms=500, linger_ms=300)
    kit.append(0)
    kit.clock.advance(299)
    kit.append(0)
    kit.clock.advance(1)
    (batch,) = kit.drain()
    assert not batch.has_reached_delivery_timeout(1000, kit.now_ms + 999)
    assert batch.has_reached_delivery_timeout(1000, kit.now_ms + 1000)
    in_flight = InFlightBatches(1000)
    in_flight.add_all([batch], 1)
    assert in_flight.expired(kit.now_ms + 999) == []
    assert in_flight.expired(kit.now_ms + 1000) == [(batch, 1)]


def test_delivery_timeout_near_the_largest_number_never_expires_early() -> None:
    kit = Kit(delivery_timeout_ms=2**31 - 1, request_timeout_ms=500, linger_ms=0)
    kit.append(0)
    kit.clock.advance(2**31 - 2)
    assert kit.accumulator.queues.take_expired(kit.now_ms) == []
    kit.clock.advance(1)
    assert len(kit.accumulator.queues.take_expired(kit.now_ms)) == 1


def test_retried_batch_expires_by_its_first_append() -> None:
    kit = Kit(delivery_timeout_ms=1000, request_timeout_ms=500, linger_ms=0)
    kit.append(0)
    (batch,) = kit.drain()
    assert kit.accumulator.queues.take_expired(kit.now_ms + 1) == []
    kit.clock.advance(900)
    kit.retry(batch, NotLeaderOrFollowerError())
    assert kit.accumulator.queues.next_expiry_ms <= kit.now_ms + 100
    kit.clock.advance(100)
    assert kit.accumulator.queues.take_expired(kit.now_ms) == [batch]
    error = batch.delivery_timeout_error(1000, kit.now_ms)
    assert error.outcome is batch.outcome
    assert "NOT_LEADER_OR_FOLLOWER" in str(error)


def test_batch_put_back_is_watched_again_after_others_expired() -> None:
    kit = Kit(make_snapshot([-1, 1]), delivery_timeout_ms=1000, request_timeout_ms=500, linger_ms=0)
    kit.append(0)
    kit.clock.advance(50)
    kit.append(1)
    (in_flight,) = kit.drain(1)
    kit.clock.advance(950)
    assert len(kit.accumulator.queues.take_expired(kit.now_ms)) == 1
    kit.retry(in_flight)
    assert kit.accumulator.queues.next_expiry_ms == kit.now_ms + 50
    kit.clock.advance(50)
    assert kit.accumulator.queues.take_expired(kit.now_ms) == [in_flight]


def test_batch_that_expires_in_flight_keeps_its_buffer_until_the_request_is_over() -> None:
    kit = Kit(buffer_memory=1024, linger_ms=0)
    future = kit.append(0, b"mine")
    (batch,) = kit.drain()
    on_the_wire = batch.records()
    before = bytes(on_the_wire)
    batch.complete(error=batch.delivery_timeout_error(1000, kit.now_ms))
    kit.accumulator.deallocate(batch)
    # The future fails at once, but nobody else's record may enter the half-sent buffer.
    assert isinstance(future.exception(0), DeliveryTimeoutError)
    with pytest.raises(BufferExhaustedError):
        kit.append(1, b"other")
    assert bytes(on_the_wire) == before
    kit.accumulator.deallocate(batch)
    assert kit.pool.available_bytes == 0
    kit.accumulator.request_done(batch)
    kit.accumulator.request_done(batch)
    kit.accumulator.deallocate(batch)
    kit.assert_all_memory_is_back()


# -- splitting ---------------------------------------------------------------------------------------------


def test_too_large_batch_is_split_into_its_place_and_resolves_the_same_futures() -> None:
    kit = Kit(make_snapshot([1]), batch_size=2048, linger_ms=0)
    order: list[int] = []
    futures = [
        kit.append(0, b"%0100d" % i, on_delivery=lambda m, e: order.append(m.offset)) for i in range(15)
    ]
    (batch,) = kit.drain()
    futures.append(kit.append(0, b"later", on_delivery=lambda m, e: order.append(m.offset)))
    kit.accumulator.request_done(batch)
    parts = kit.accumulator.split_and_reenqueue(batch)
    kit.accumulator.deallocate(batch)
    assert parts >= 2
    offset = 0
    while drained := kit.drain():
        (part,) = drained
        if part.is_split:
            assert part.records().nbytes <= 1024
        kit.finish(part, offset)
        offset += part.record_count
    assert [f.result(0).offset for f in futures] == list(range(16))
    assert order == list(range(16))
    kit.assert_all_memory_is_back()


def test_splitting_comes_to_an_end_when_the_broker_takes_one_record_at_a_time() -> None:
    kit = Kit(make_snapshot([1]), batch_size=4096, linger_ms=0, compression_type="gzip")
    futures = [kit.append(0, b"x" * 100) for _ in range(33)]
    rounds = 0
    while drained := kit.drain():
        rounds += 1
        (batch,) = drained
        kit.accumulator.request_done(batch)
        if batch.record_count > 1:
            assert kit.accumulator.split_and_reenqueue(batch) > 1
        else:
            batch.complete(error=MessageTooLargeError())
        kit.accumulator.deallocate(batch)
        assert rounds < 100
    assert all(isinstance(f.exception(0), MessageTooLargeError) for f in futures)
    kit.assert_all_memory_is_back()


@pytest.mark.parametrize("partition", [0, UNKNOWN_PARTITION], ids=["given", "sticky"])
def test_a_batch_lingers_from_its_first_record_on_even_if_the_thread_compressed_before(
    partition: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = Kit(linger_ms=10, batch_size=16384, buffer_memory=1 << 20, compression_type="gzip")
    compress = Compression.compress

    def slow(self: Compression, plain: memoryview) -> bytes:
        kit.clock.advance(30)
        return compress(self, plain)

    monkeypatch.setattr(Compression, "compress", slow)
    started_ms = kit.now_ms
    while kit.now_ms == started_ms:
        kit.append(partition, kit.random.randbytes(3000))
    appended_ms = kit.now_ms
    *full, newest = list(kit.accumulator._incomplete)
    assert len(full) == record_accumulator.MAX_COMPRESSION_BACKLOG + 1
    assert newest.created_ms == appended_ms


def test_expired_batch_is_neither_split_nor_sent_again() -> None:
    kit = Kit(linger_ms=0)
    kit.append(0)
    kit.append(0)
    (batch,) = kit.drain()
    batch.complete(error=batch.delivery_timeout_error(1000, kit.now_ms))
    kit.accumulator.deallocate(batch)
    kit.accumulator.request_done(batch)
    assert kit.accumulator.split_and_reenqueue(batch) == 0
    assert not kit.accumulator.queues.active
    kit.assert_all_memory_is_back()


# -- flush -------------------------------------------------------------------------------------------------


def flush(kit: Kit, timeout_ms: float | None) -> FlushResult | None:
    mark = object()
    pending = kit.accumulator.pending_records()
    try:
        kit.accumulator.begin_flush(mark)
        return kit.accumulator.await_completion(pending, timeout_ms)
    finally:
        kit.accumulator.end_flush(mark)


def test_flush_makes_everything_ready_and_waits_for_earlier_records_only() -> None:
    kit = Kit(linger_ms=3_600_000)
    futures = [kit.append(0), kit.append(2)]
    assert kit.ready_ids() == set()
    results: list[FlushResult | None] = []
    thread = threading.Thread(target=lambda: results.append(flush(kit, 30_000)))
    thread.start()
    wait_until(lambda: kit.accumulator._flushes)
    assert kit.ready_ids() == {1, 2}
    batches = kit.drain()
    wait_until(lambda: any(batch.result._listeners for batch in batches))
    kit.finish(batches[0])
    later = kit.append(1)
    kit.finish(batches[1])
    thread.join(30)
    assert results == [FlushResult(2, 0)]
    assert all(f.done() for f in futures)
    assert not later.done()
    assert not kit.accumulator._flushes
    assert kit.ready_ids() == set()


def test_a_flush_that_times_out_says_so_and_others_go_on() -> None:
    kit = Kit(linger_ms=3_600_000)
    kit.append(0)
    kit.accumulator.begin_flush("another")
    assert flush(kit, 1) is None
    assert kit.accumulator._flushes
    assert kit.ready_ids() == {1}
    kit.accumulator.end_flush("another")
    kit.accumulator.end_flush("another")
    assert not kit.accumulator._flushes
    assert kit.ready_ids() == set()


def test_flush_follows_a_split() -> None:
    kit = Kit(make_snapshot([1]), batch_size=2048, linger_ms=0)
    for _ in range(10):
        kit.append(0, b"x" * 100)
    (batch,) = kit.drain()
    results: list[FlushResult | None] = []
    thread = threading.Thread(target=lambda: results.append(flush(kit, 30_000)))
    thread.start()
    wait_until(lambda: batch.result._listeners)
    kit.accumulator.request_done(batch)
    kit.accumulator.split_and_reenqueue(batch)
    kit.accumulator.deallocate(batch)
    while drained := kit.drain():
        assert results == []
        for part in drained:
            kit.finish(part)
    thread.join(30)
    assert results == [FlushResult(10, 0)]


# -- abort -------------------------------------------------------------------------------------------------


def test_abort_fails_every_record_once_and_keeps_buffers_that_are_being_sent() -> None:
    kit = Kit(linger_ms=0)
    calls: list[tuple[int, KafkaError]] = []
    sent = kit.append(0, on_delivery=lambda m, e: calls.append((0, e)))
    (in_flight,) = kit.drain()
    queued = kit.append(0, on_delivery=lambda m, e: calls.append((1, e)))
    kit.accumulator.close()
    kit.accumulator.abort_incomplete_batches(ProducerClosedError("closed"))
    kit.accumulator.abort_incomplete_batches(ProducerClosedError("closed again"))
    assert [i for i, _ in calls] == [0, 1]
    for future, outcome in ((sent, Outcome.UNKNOWN), (queued, Outcome.NOT_SENT)):
        error = future.exception(0)
        assert isinstance(error, ProducerClosedError)
        assert str(error) == "closed"
        assert error.outcome is outcome
    assert kit.pool.available_bytes == kit.pool.total_bytes - 1024
    assert in_flight.records().nbytes > 0
    kit.accumulator.release_all_in_flight()
    kit.assert_all_memory_is_back()


def test_abort_of_what_was_never_sent_leaves_the_rest() -> None:
    kit = Kit(linger_ms=0)
    retried, sent = kit.append(0), kit.append(1)
    for batch in kit.drain():
        if partition_of(batch) == 0:
            kit.retry(batch)
    queued = kit.append(2)
    kit.accumulator.abort_undrained_batches(KafkaError("aborted"))
    assert queued.done()
    assert not retried.done()
    assert not sent.done()


def test_abort_while_threads_append_overlooks_nobody() -> None:
    kit = Kit(buffer_memory=1 << 22, linger_ms=3_600_000)
    barrier = threading.Barrier(5)
    futures: list[FutureRecordMetadata] = []
    refused = []

    def run(partition: int) -> None:
        barrier.wait(30)
        while True:
            try:
                futures.append(kit.append(partition, b"x" * 100, max_block_ms=30_000))
            except ProducerClosedError as error:
                refused.append(error)
                return

    threads = [threading.Thread(target=run, args=(p,), daemon=True) for p in (0, 1, 2, -1)]
    for thread in threads:
        thread.start()
    barrier.wait(30)
    wait_until(lambda: len(futures) > 200)
    kit.accumulator.close()
    kit.accumulator.abort_incomplete_batches(ProducerClosedError("closed"))
    for thread in threads:
        thread.join(30)
    assert len(refused) == 4
    assert all(isinstance(f.exception(0), ProducerClosedError) for f in futures)
    kit.assert_all_memory_is_back()


def test_abort_waits_for_an_append_that_did_not_see_the_close(monkeypatch: pytest.MonkeyPatch) -> None:
    kit = Kit()
    at_work, go_on = threading.Event(), threading.Event()
    original = record_accumulator.RecordBatchBuilder

    def slow_builder(*args: Any) -> Any:
        at_work.set()
        go_on.wait(30)
        return original(*args)

    monkeypatch.setattr(record_accumulator, "RecordBatchBuilder", slow_builder)
    futures: list[FutureRecordMetadata] = []
    appender = threading.Thread(target=lambda: futures.append(kit.append(0)))
    appender.start()
    at_work.wait(30)
    kit.accumulator.close()
    aborter = threading.Thread(
        target=lambda: kit.accumulator.abort_incomplete_batches(ProducerClosedError("closed"))
    )
    aborter.start()
    aborter.join(0.05)
    go_on.set()
    aborter.join(30)
    appender.join(30)
    assert isinstance(futures[0].exception(0), ProducerClosedError)
    kit.assert_all_memory_is_back()


def test_batch_that_cannot_be_finished_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    kit = Kit(make_snapshot([1, 1]), linger_ms=0)
    bad, good = kit.append(0), kit.append(1)
    broken = next(iter(kit.accumulator._incomplete))

    def fail() -> memoryview:
        raise RuntimeError("compressor trouble")

    monkeypatch.setattr(type(broken.builder), "close", lambda self: fail())
    assert kit.drain(1) == []
    monkeypatch.undo()
    error = bad.exception(0)
    assert "compressor trouble" in str(error)
    assert error is not None
    assert error.outcome is Outcome.NOT_SENT
    assert isinstance(good.exception(0), KafkaError)
    kit.assert_all_memory_is_back()


def test_records_of_two_moments_are_counted_once() -> None:
    kit = Kit(linger_ms=0)
    kit.append(0)
    pending = kit.accumulator.pending_records()
    kit.append(2)
    pending.include(kit.accumulator.pending_records())
    for batch in kit.drain():
        kit.finish(batch)
    assert kit.accumulator.await_completion(pending, 0) == FlushResult(2, 0)

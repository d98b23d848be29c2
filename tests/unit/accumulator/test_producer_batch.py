"""ProducerBatch: records in, one outcome out, futures that follow a split."""

from __future__ import annotations

import logging

import pytest

from kproducer._core.accumulator.future_record_metadata import FutureRecordMetadata
from kproducer._core.accumulator.producer_batch import ProducerBatch
from kproducer._core.records.compression import Compression
from kproducer._core.records.record_batch_builder import RecordBatchBuilder
from kproducer.errors import IllegalStateError, KafkaError, Outcome
from kproducer.errors.broker_errors import NotLeaderOrFollowerError
from kproducer.testing.fakebroker.batch_check import read_batch
from kproducer.types import RecordMetadata, TopicPartition

TP = TopicPartition("topic", 0)
NONE = Compression.of("none")


def new_builder(size: int) -> RecordBatchBuilder:
    return RecordBatchBuilder(bytearray(size), NONE)


def make_batch(size: int = 1024, created_ms: int = 1000) -> ProducerBatch:
    return ProducerBatch(TP, new_builder(size), created_ms)


def fill(
    batch: ProducerBatch, count: int, value_size: int = 10, on_delivery=None
) -> list[FutureRecordMetadata]:  # type: ignore[no-untyped-def]
    futures = []
    for i in range(count):
        value = bytes([i]) * value_size
        future = batch.try_append(5000 + i, b"k%d" % i, value, [("h", b"x")], on_delivery)
        assert future is not None
        futures.append(future)
    return futures


def test_records_resolve_to_consecutive_offsets() -> None:
    batch = make_batch()
    futures = fill(batch, 3)
    parsed = read_batch(batch.records())
    assert [r.value for r in parsed.records] == [bytes([i]) * 10 for i in range(3)]
    assert batch.complete(50)
    assert [f.result(0) for f in futures] == [
        RecordMetadata("topic", 0, 50 + i, 5000 + i, 2, 10) for i in range(3)
    ]
    assert batch.is_done


def test_no_room_closed_or_refused_leaves_it_unchanged() -> None:
    batch = make_batch(200)
    fill(batch, 2)
    assert batch.try_append(1, None, b"x" * 200, None, None) is None
    with pytest.raises((TypeError, ValueError)):
        batch.try_append(1, "text", None, None, None)  # type: ignore[arg-type]
    assert batch.record_count == 2
    assert not batch.is_full
    batch.close_for_appends()
    assert batch.try_append(1, None, b"x", None, None) is None
    assert batch.is_full
    assert batch.record_count == 2


def test_null_key_and_value_have_size_minus_one() -> None:
    batch = make_batch()
    future = batch.try_append(7, None, None, None, None)
    assert future is not None
    batch.complete(0)
    assert future.result(0)[4:] == (-1, -1)


def test_late_success_after_failure_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    batch = make_batch()
    (future,) = fill(batch, 1)
    assert batch.complete(error=KafkaError("closed"))
    with caplog.at_level(logging.INFO):
        assert not batch.complete(5)
    assert "acknowledged after it failed: closed" in caplog.text
    assert not batch.complete(error=KafkaError("other"))
    assert str(future.exception(0)) == "closed"


def test_nothing_may_follow_success() -> None:
    batch = make_batch()
    fill(batch, 1)
    batch.complete(5)
    for again in (lambda: batch.complete(6), lambda: batch.complete(error=KafkaError("x"))):
        with pytest.raises(IllegalStateError):
            again()


def test_culprits_and_innocents_get_their_own_errors() -> None:
    batch = make_batch()
    futures = fill(batch, 3)
    errors = {1: KafkaError("bad key")}
    batch.complete(
        error=KafkaError("batch refused"),
        record_errors=lambda i: errors.get(i, KafkaError("refused because of others")),
    )
    assert [str(f.exception(0)) for f in futures] == [
        "refused because of others",
        "bad key",
        "refused because of others",
    ]


def test_delivery_callbacks_once_and_in_order() -> None:
    batch = make_batch()
    got: list[tuple[int, KafkaError | None]] = []
    fill(batch, 4, on_delivery=lambda m, e: got.append((m.offset, e)))
    batch.complete(10, 99)
    assert got == [(10, None), (11, None), (12, None), (13, None)]


def test_delivery_timeout_without_overflow_or_early_expiry() -> None:
    batch = make_batch(created_ms=1000)
    assert not batch.has_reached_delivery_timeout(120_000, 120_999)
    assert batch.has_reached_delivery_timeout(120_000, 121_000)
    assert not batch.has_reached_delivery_timeout(2**31 - 1, 2**31)
    assert not batch.has_reached_delivery_timeout(2**63 - 1, 2**62)


def test_timeout_error_says_what_is_known() -> None:
    batch = make_batch(created_ms=1000)
    fill(batch, 2)
    unsent = batch.delivery_timeout_error(500, 1600)
    assert unsent.outcome is Outcome.NOT_SENT
    assert "topic-0" in str(unsent)
    assert "delivery_timeout_ms=500" in str(unsent)
    assert "600 ms" in str(unsent)
    assert "never sent" in str(unsent)
    batch.drained()
    silent = batch.delivery_timeout_error(500, 1600)
    assert silent.outcome is Outcome.UNKNOWN
    assert "has not answered" in str(silent)
    batch.reenqueued(1200, 100, NotLeaderOrFollowerError())
    batch.drained()
    failed = batch.delivery_timeout_error(500, 1600)
    assert failed.outcome is Outcome.UNKNOWN
    assert "sent 2 times" in str(failed)
    assert "NOT_LEADER_OR_FOLLOWER" in str(failed)


def test_backoff_is_skipped_once_when_the_leader_changed() -> None:
    batch = make_batch()
    fill(batch, 1)
    batch.maybe_update_leader_epoch(5)
    assert not batch.has_leader_changed_for_ongoing_retry
    batch.reenqueued(2000, 100, None)
    assert batch.is_backing_off(2099)
    assert not batch.is_backing_off(2100)
    batch.maybe_update_leader_epoch(-1)
    batch.maybe_update_leader_epoch(5)
    batch.maybe_update_leader_epoch(4)
    assert not batch.has_leader_changed_for_ongoing_retry
    batch.maybe_update_leader_epoch(6)
    assert batch.has_leader_changed_for_ongoing_retry
    assert not batch.is_backing_off(2000)
    batch.reenqueued(2100, 100, None)
    assert not batch.has_leader_changed_for_ongoing_retry
    assert batch.is_backing_off(2150)


def test_a_broker_that_names_newer_and_newer_leaders_is_backed_off_from() -> None:
    batch = make_batch()
    fill(batch, 1)
    batch.maybe_update_leader_epoch(5)
    free = 0
    for epoch in range(6, 16):
        batch.reenqueued(2000, 100, None)
        batch.maybe_update_leader_epoch(epoch)
        free += not batch.is_backing_off(2000)
    assert free == 5  # the first one, and then every other


def test_split_distributes_records_callbacks_and_futures() -> None:
    batch = make_batch(4096, created_ms=700)
    got: list[int] = []
    futures = fill(batch, 10, 100, on_delivery=lambda m, e: got.append(m.offset))
    batch.records()
    parts = batch.split(400, new_builder)
    assert len(parts) > 2
    assert sum(p.record_count for p in parts) == 10
    assert batch.is_done
    values: list[bytes | None] = []
    for part in parts:
        assert part.created_ms == 700
        assert part.is_full
        assert part.attempts == 0
        assert part.records().nbytes <= 400
        values += [r.value for r in read_batch(part.records()).records]
    assert values == [bytes([i]) * 100 for i in range(10)]
    assert [p.order for p in parts] == sorted(p.order for p in parts)
    offset = 100
    for part in parts:
        part.complete(offset)
        offset += part.record_count
    assert got == list(range(100, 110))
    assert [f.result(0).offset for f in futures] == list(range(100, 110))


def test_split_of_a_split_keeps_the_order_before_later_batches() -> None:
    batch = ProducerBatch(TP, new_builder(4096), 0, (3,))
    futures = fill(batch, 8, 100)
    batch.records()
    halves = batch.split(600, new_builder)
    halves[0].records()
    quarters = halves[0].split(300, new_builder)
    orders = [p.order for p in quarters] + [p.order for p in halves[1:]] + [(4,)]
    assert orders == sorted(orders)
    for base, part in enumerate(quarters + halves[1:]):
        part.complete(base * 1000)
    offsets = [f.result(0).offset for f in futures]
    assert offsets == sorted(offsets)


def test_record_larger_than_the_limit_is_split_off_alone() -> None:
    batch = make_batch(8192)
    fill(batch, 1, 10)
    batch.try_append(1, None, b"x" * 3000, None, None)
    batch.try_append(1, None, b"y", None, None)
    batch.records()
    parts = batch.split(500, lambda size: RecordBatchBuilder(bytearray(size), NONE, None, 500))
    assert [p.record_count for p in parts] == [1, 1, 1]


def test_batch_that_ended_is_not_split() -> None:
    batch = make_batch()
    (future,) = fill(batch, 1)
    batch.records()
    batch.complete(error=KafkaError("expired"))
    assert batch.split(10, new_builder) == []
    assert str(future.exception(0)) == "expired"


def test_records_are_gone_with_the_memory() -> None:
    batch = make_batch()
    fill(batch, 1)
    batch.records()
    batch.forget_memory()
    with pytest.raises(IllegalStateError):
        batch.records()
    assert batch.try_append(1, None, b"x", None, None) is None
    assert batch.record_count == 1

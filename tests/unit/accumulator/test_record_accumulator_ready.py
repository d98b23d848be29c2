"""RecordAccumulator: what is ready when, what is drained in which order, and when to look again."""

from __future__ import annotations

import gc

import pytest

from kproducer._core.runtime.clock import NEVER_MS
from kproducer.errors.broker_errors import NotLeaderOrFollowerError
from kproducer.testing.fakebroker.batch_check import read_batch
from tests.support.units.accumulator_kit import TOPIC, Kit, make_snapshot, partition_of, tp


def values(view: memoryview) -> list[bytes | None]:
    return [r.value for r in read_batch(view).records]


def test_full_batch_is_ready_despite_linger_and_wakes_once_per_batch() -> None:
    kit = Kit(linger_ms=3_600_000)
    wakes = [kit.append_and_wake(0, b"x" * 100)[1] for _ in range(9)]
    assert wakes.count(True) == 2
    assert wakes[0]
    assert kit.ready_ids() == {1}
    (batch,) = kit.drain()
    assert batch.record_count == wakes.index(True, 1)
    kit.finish(batch)
    # What has only been begun lingers.
    assert kit.ready_ids() == set()


def test_a_batch_that_is_full_to_the_byte_is_ready_and_wakes() -> None:
    kit = Kit(linger_ms=3_600_000, batch_size=256)
    kit.append(0, b"x" * 8)
    assert kit.ready_ids() == set()
    _, wakes = kit.append_and_wake(0, b"x" * 171)
    assert kit.accumulator.queues.all_queues()[0].batches[0].estimated_size_bytes == 256
    assert wakes
    assert kit.ready_ids() == {1}


def test_a_batch_that_is_full_by_the_estimate_is_ready_and_wakes() -> None:
    # By the first estimate compression makes records a little larger: such a batch is full before its buffer.
    kit = Kit(linger_ms=3_600_000, compression_type="gzip")
    wakes = [kit.append_and_wake(0, b"x" * 455)[1] for _ in range(2)]
    (batch,) = kit.accumulator.queues.all_queues()[0].batches
    assert batch.is_full
    assert wakes == [True, True]
    assert kit.ready_ids() == {1}


def test_a_batch_that_became_full_unnoticed_lingers_and_is_not_forgotten() -> None:
    kit = Kit(linger_ms=10, batch_size=256)
    kit.append(0, b"x" * 8)
    assert kit.ready_ids() == set()
    builder = kit.accumulator.queues.all_queues()[0].batches[0].builder
    assert builder is not None
    assert builder.append_at_limit(1, None, b"x" * 171, None)
    assert builder.is_full
    assert kit.delay_ms() == 10
    kit.clock.advance(10)
    assert kit.ready_ids() == {1}


@pytest.mark.parametrize(
    ("linger_ms", "next_look_in_ms", "wakes"),
    [(10, NEVER_MS, True), (10, 11, True), (10, 10, False), (10, 0, False), (0, 0, True)],
)
def test_a_new_batch_wakes_nobody_who_looks_in_time(
    linger_ms: int, next_look_in_ms: int, wakes: bool
) -> None:
    kit = Kit(linger_ms=linger_ms)
    kit.accumulator.next_look_ms = min(kit.now_ms + next_look_in_ms, NEVER_MS)
    assert kit.append_and_wake(0, b"x")[1] is wakes


def test_a_new_batch_that_is_full_at_once_wakes_who_looks_in_time_too() -> None:
    kit = Kit(linger_ms=10)
    kit.accumulator.next_look_ms = kit.now_ms
    assert kit.append_and_wake(0, b"x" * 5000)[1]


def test_linger_is_kept_to_the_millisecond() -> None:
    kit = Kit(linger_ms=10)
    kit.append()
    assert kit.ready_ids() == set()
    assert kit.delay_ms() == 10
    kit.clock.advance(9)
    assert kit.ready_ids() == set()
    assert kit.delay_ms() == 1
    kit.clock.advance(1)
    assert kit.ready_ids() == {1}


def test_nothing_queued_means_nothing_due() -> None:
    kit = Kit()
    assert kit.delay_ms() == NEVER_MS
    assert kit.accumulator.queues.next_expiry_ms == NEVER_MS


def test_batch_size_zero_sends_each_record_alone() -> None:
    kit = Kit(batch_size=0, linger_ms=0)
    for _ in range(3):
        kit.append()
    counts = []
    while batches := kit.drain():
        for batch in batches:
            counts.append(batch.record_count)
            kit.finish(batch)
    assert counts == [1, 1, 1]
    kit.assert_all_memory_is_back()


def test_record_larger_than_batch_size_gets_a_batch_of_its_own_that_is_not_pooled() -> None:
    kit = Kit(linger_ms=3_600_000)
    kit.append(0, b"x" * 5000)
    assert kit.ready_ids() == {1}
    kit.append(0, b"small")
    first, second = kit.drain()[0], kit.drain()[0]
    assert values(first.records()) == [b"x" * 5000]
    assert values(second.records()) == [b"small"]
    kit.finish(first)
    kit.finish(second)
    kit.assert_all_memory_is_back()
    # Only the one of batch_size was kept.
    assert len(kit.pool._free) == 1


def test_drain_takes_whole_batches_at_least_one_and_keeps_the_rest_in_order() -> None:
    kit = Kit(make_snapshot([1, 1, 1]), linger_ms=0)
    for partition in range(3):
        kit.append(partition, b"x" * 500)
    assert [partition_of(b) for b in kit.drain(max_size=10)] == [0]
    drained = kit.drain(max_size=1200)
    assert [partition_of(b) for b in drained] == [1, 2]
    assert kit.drain() == []


def test_one_batch_for_each_partition_in_a_request() -> None:
    kit = Kit(linger_ms=0)
    kit.fill(0, batches=3)
    assert len(kit.drain()) == 1
    assert len(kit.drain()) == 1


def test_drain_rotates_so_that_no_partition_starves() -> None:
    kit = Kit(make_snapshot([1] * 5), linger_ms=0, buffer_memory=1 << 20)
    for partition in range(5):
        kit.fill(partition, batches=3)
    # Room for two batches in each request.
    order = []
    for _ in range(5):
        drained = [partition_of(b) for b in kit.drain(max_size=2100)]
        assert len(drained) == 2
        order += drained
    assert order == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]


def test_busy_partition_that_is_refilled_does_not_shut_out_others() -> None:
    kit = Kit(make_snapshot([1, 1, 1]), linger_ms=0, buffer_memory=1 << 20)
    kit.append(1)
    kit.append(2)
    seen = []
    for _ in range(3):
        kit.append(0)
        seen += [partition_of(b) for b in kit.drain(max_size=1)]
    assert sorted(seen) == [0, 1, 2]


def test_node_without_partitions_is_harmless() -> None:
    kit = Kit(make_snapshot([1], nodes=3), linger_ms=0)
    kit.append()
    assert kit.drain(2, 3) == []
    assert len(kit.drain(1, 2, 3)) == 1


def test_next_look_is_at_the_nearest_of_linger_and_backoff() -> None:
    kit = Kit(make_snapshot([1, 2, 1]), linger_ms=50, retry_backoff_ms=100, retry_backoff_max_ms=1000)
    kit.append(0)
    kit.clock.advance(50)
    (batch,) = kit.drain(1)
    kit.retry(batch)
    backoff = batch.retry_at_ms - kit.now_ms
    assert 80 <= backoff <= 120
    assert kit.ready_ids() == set()
    assert kit.delay_ms() == backoff
    kit.append(1)
    assert kit.delay_ms() == 50
    kit.clock.advance(30)
    assert kit.delay_ms() == 20
    kit.clock.advance(20)
    # Node 2 is ready now; the next deadline is the backoff's, not 0.
    assert kit.ready_ids() == {2}
    assert kit.delay_ms() == backoff - 50
    kit.clock.advance(backoff - 50)
    assert kit.ready_ids() == {1, 2}


def test_retry_and_its_successors_wait_while_other_partitions_flow() -> None:
    kit = Kit(make_snapshot([1, 1]), linger_ms=0)
    kit.append(0)
    (batch,) = kit.drain()
    kit.retry(batch)
    kit.append(0)
    kit.append(1)
    assert [partition_of(b) for b in kit.drain()] == [1]
    assert kit.ready_ids() == set()
    kit.clock.advance(batch.retry_at_ms - kit.now_ms)
    assert kit.ready_ids() == {1}
    assert kit.drain() == [batch]
    (successor,) = kit.drain()
    assert partition_of(successor) == 0
    assert successor is not batch


def test_backoff_doubles_with_jitter_up_to_the_cap() -> None:
    kit = Kit(linger_ms=0, retry_backoff_ms=100, retry_backoff_max_ms=1000)
    kit.append(0)
    for expected in (100, 200, 400, 800, 1000, 1000):
        (batch,) = kit.drain()
        kit.retry(batch)
        wait = batch.retry_at_ms - kit.now_ms
        assert min(expected * 0.8, 1000) - 1 <= wait <= min(expected * 1.2, 1000)
        kit.clock.advance(wait - 1)
        assert kit.ready_ids() == set()
        assert kit.delay_ms() == 1
        kit.clock.advance(1)


def test_leader_change_skips_the_backoff() -> None:
    kit = Kit(make_snapshot([1], epochs=[4]), linger_ms=0)
    kit.append(0)
    (batch,) = kit.drain()
    kit.retry(batch, NotLeaderOrFollowerError())
    assert kit.ready_ids() == set()
    kit.snapshot = make_snapshot([2], epochs=[5])
    assert kit.ready_ids() == {2}
    assert kit.drain(2) == [batch]
    kit.retry(batch, NotLeaderOrFollowerError())
    assert kit.ready_ids() == set()


def test_several_batches_put_back_in_any_order_leave_in_the_order_they_were_made() -> None:
    kit = Kit(linger_ms=0, buffer_memory=1 << 20)
    kit.fill(0, batches=3)
    batches = [kit.drain()[0] for _ in range(4)]
    for index in (2, 0, 3, 1):
        kit.retry(batches[index])
    kit.clock.advance(5000)
    assert [kit.drain()[0] for _ in range(4)] == batches


def test_muted_partition_is_not_drained_but_expires() -> None:
    kit = Kit(make_snapshot([1, 1]), linger_ms=0, delivery_timeout_ms=1000, request_timeout_ms=500)
    kit.append(0)
    kit.accumulator.mute_partition(tp(0))
    assert kit.ready_ids() == set()
    assert kit.drain() == []
    assert kit.delay_ms() == NEVER_MS
    kit.append(1)
    assert [partition_of(b) for b in kit.drain()] == [1]
    kit.accumulator.unmute_partition(tp(0))
    assert kit.ready_ids() == {1}
    kit.accumulator.mute_partition(tp(0))
    kit.clock.advance(1000)
    (expired,) = kit.accumulator.queues.take_expired(kit.now_ms)
    assert partition_of(expired) == 0


def test_first_batch_expired_in_flight_does_not_let_the_second_go_first_when_muted() -> None:
    kit = Kit(linger_ms=0, delivery_timeout_ms=1000, request_timeout_ms=500)
    kit.append(0)
    (first,) = kit.drain()
    kit.accumulator.mute_partition(tp(0))
    kit.clock.advance(600)
    kit.append(0)
    kit.clock.advance(400)
    first.complete(error=first.delivery_timeout_error(1000, kit.now_ms))
    kit.accumulator.deallocate(first)
    assert kit.drain() == []
    kit.accumulator.request_done(first)
    kit.accumulator.unmute_partition(tp(0))
    assert len(kit.drain()) == 1


@pytest.mark.parametrize("leaders", [[-1], [7]], ids=["no leader", "leader not in the broker list"])
def test_unknown_leader_is_reported_and_nothing_is_due(leaders: list[int]) -> None:
    kit = Kit(make_snapshot(leaders), linger_ms=0)
    kit.append(0)
    result = kit.accumulator.ready_batches.ready(kit.snapshot, kit.now_ms)
    assert result.unknown_leader_topics == {TOPIC}
    assert result.ready_nodes == set()
    assert result.next_ready_check_delay_ms == NEVER_MS
    assert kit.drain() == []
    assert 0 < kit.accumulator.queues.next_expiry_ms - kit.now_ms <= kit.config.delivery_timeout_ms


def test_topic_that_vanished_from_metadata_is_reported() -> None:
    kit = Kit(linger_ms=0)
    kit.append(3)
    kit.snapshot = make_snapshot([1])
    result = kit.accumulator.ready_batches.ready(kit.snapshot, kit.now_ms)
    assert result.unknown_leader_topics == {TOPIC}
    assert kit.drain() == []


def test_everything_is_ready_when_somebody_waits_for_memory() -> None:
    kit = Kit(linger_ms=3_600_000, buffer_memory=1024)
    kit.append(0)
    assert kit.ready_ids() == set()
    kit.accumulator.ready_batches._waiters = [object()]
    assert kit.ready_ids() == {1}


def test_everything_is_ready_once_closed() -> None:
    kit = Kit(linger_ms=3_600_000)
    kit.append(0)
    kit.append(2)
    kit.accumulator.close()
    assert kit.ready_ids() == {1, 2}


def test_idle_partitions_are_not_looked_at() -> None:
    kit = Kit(make_snapshot([1] * 10_001), linger_ms=0, buffer_memory=64 << 20, batch_size=128)
    for partition in range(10_000):
        kit.append(partition)
    drained = kit.drain()
    assert len(drained) == 10_000
    for batch in drained:
        kit.finish(batch)
    kit.append(10_000)
    topic = kit.snapshot.topics[TOPIC]

    class CountingPartitions(tuple):  # type: ignore[type-arg]
        looks = 0

        def __getitem__(self, index: object) -> object:
            CountingPartitions.looks += 1
            return tuple.__getitem__(self, index)  # type: ignore[index]

    counted = topic._replace(partitions=CountingPartitions(topic.partitions))
    kit.snapshot.topics[TOPIC] = counted  # type: ignore[index]
    assert kit.ready_ids() == {1}
    assert len(kit.drain()) == 1
    assert CountingPartitions.looks <= 2
    assert len(kit.accumulator.queues.active) == 0


def test_many_partitions_with_one_record_each_are_drained_fairly_within_the_memory_bound() -> None:
    kit = Kit(
        make_snapshot([1 + i % 2 for i in range(5000)]), linger_ms=0, batch_size=256, buffer_memory=5000 * 256
    )
    for partition in range(5000):
        kit.append(partition)
    assert kit.pool.available_bytes == 0
    seen: list[int] = []
    while batches := kit.drain(max_size=20_000):
        for batch in batches:
            seen.append(partition_of(batch))
            kit.finish(batch)
    assert sorted(seen) == list(range(5000))
    assert [p for p in seen if p % 2 == 0] == list(range(0, 5000, 2))
    kit.assert_all_memory_is_back()


def test_a_topic_that_is_added_by_another_thread_meanwhile_is_no_error() -> None:
    """Another thread may run wherever the garbage collector does: it calls finalizers, written in Python."""
    kit = Kit()
    queues = kit.accumulator.queues
    for number in range(100):
        queues.topic(f"t{number}")
    thresholds = gc.get_threshold()

    def add_topic(*_: object) -> None:
        queues.topic(f"t{len(queues.topics)}")

    gc.callbacks.append(add_topic)
    try:
        gc.set_threshold(1)
        kit.ready_ids()
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(add_topic)
    assert len(queues.topics) > 100

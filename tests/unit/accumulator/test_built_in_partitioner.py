"""The sticky, adaptive choice for records without key, alone and inside the accumulator."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer._core.accumulator.built_in_partitioner import BuiltInPartitioner
from kproducer._core.client.metadata_snapshot import MetadataSnapshot
from kproducer._core.kernel import TopicSlots
from kproducer._core.records.batch_sizing import TopicCompressionRatio
from kproducer.errors import IllegalStateError
from kproducer.testing.fakebroker.batch_check import read_batch
from kproducer.types import UNKNOWN_PARTITION, Node
from tests.support.units.accumulator_kit import TOPIC, Kit, make_snapshot, partition_of


def make(sizes: dict[int, int] | None = None, *, adaptive: bool = True) -> BuiltInPartitioner:
    queue_sizes = sizes or {}
    return BuiltInPartitioner(
        TOPIC, TopicSlots(), 1000, lambda p: queue_sizes.get(p, 0), adaptive=adaptive, random=random.Random(5)
    )


def draw(partitioner: BuiltInPartitioner, leaders: list[int], count: int = 4000) -> Counter[int]:
    snapshot = make_snapshot(leaders)
    return Counter(partitioner.next_partition(snapshot) for _ in range(count))


def test_even_without_load() -> None:
    counts = draw(make(), [1, 2, 1, 2])
    assert set(counts) == {0, 1, 2, 3}
    assert min(counts.values()) > 850


def test_leaderless_partitions_are_avoided_unless_all_are() -> None:
    assert set(draw(make(), [1, -1, 9, 2])) == {0, 3}
    assert set(draw(make(), [-1, -1, -1])) == {0, 1, 2}


def test_unknown_topic_is_refused() -> None:
    partitioner = BuiltInPartitioner("other", TopicSlots(), 1000, lambda p: 0)
    with pytest.raises(IllegalStateError, match="other"):
        partitioner.peek(make_snapshot([1]))


def test_shorter_queues_get_proportionally_more() -> None:
    partitioner = make({0: 0, 1: 3, 2: 1})
    partitioner.queue_size_range = (0, 3)
    counts = draw(partitioner, [1, 1, 1], 8000)
    # Weights are the largest size + 1 - size: 4, 1 and 3.
    assert counts[0] / 8000 == pytest.approx(4 / 8, abs=0.03)
    assert counts[1] / 8000 == pytest.approx(1 / 8, abs=0.03)
    assert counts[2] / 8000 == pytest.approx(3 / 8, abs=0.03)


def test_very_uneven_queues_are_decided_by_weight_all_the_same() -> None:
    sizes = dict.fromkeys(range(20), 500) | {7: 0}
    partitioner = make(sizes)
    partitioner.queue_size_range = (0, 500)
    counts = draw(partitioner, [1] * 20, 2000)
    assert counts[7] / 2000 == pytest.approx(501 / 520, abs=0.03)


def test_load_is_ignored_when_not_adaptive() -> None:
    partitioner = make({0: 100}, adaptive=False)
    partitioner.queue_size_range = (0, 100)
    assert draw(partitioner, [1, 1])[0] > 1700


def test_slow_brokers_leave_the_rotation_unless_all_are_slow() -> None:
    partitioner = make()
    partitioner.unavailable_nodes = frozenset({2})
    assert set(draw(partitioner, [1, 2, 1, 2])) == {0, 2}
    partitioner.unavailable_nodes = frozenset({1, 2})
    assert set(draw(partitioner, [1, 2, 1, 2])) == {0, 1, 2, 3}


# -- racks (KIP-1123) --------------------------------------------------------------------------------------

RACKS = {1: "a", 2: "b", 3: "a", 4: None}


def in_racks(leaders: list[int]) -> MetadataSnapshot:
    snapshot = make_snapshot(leaders, nodes=4)
    nodes = {number: node._replace(rack=RACKS[number]) for number, node in snapshot.nodes.items()}
    return snapshot._replace(nodes=nodes)


def make_in_rack(rack: str | None, sizes: dict[int, int] | None = None) -> BuiltInPartitioner:
    queue_sizes = sizes or {}
    return BuiltInPartitioner(
        TOPIC, TopicSlots(), 1000, lambda p: queue_sizes.get(p, 0), rack=rack, random=random.Random(5)
    )


def drawn(partitioner: BuiltInPartitioner, snapshot: MetadataSnapshot, count: int = 400) -> Counter[int]:
    return Counter(partitioner.next_partition(snapshot) for _ in range(count))


def test_partitions_with_a_leader_in_the_rack_are_preferred() -> None:
    snapshot = in_racks([1, 2, 3, 4, -1])
    assert set(drawn(make_in_rack("a"), snapshot)) == {0, 2}
    assert set(drawn(make_in_rack("b"), snapshot)) == {1}
    assert set(drawn(make_in_rack(None), snapshot)) == {0, 1, 2, 3}


def test_without_a_leader_in_the_rack_all_partitions_are_used() -> None:
    assert set(drawn(make_in_rack("c"), in_racks([1, 2, 3, 4]))) == {0, 1, 2, 3}
    assert set(drawn(make_in_rack("b"), in_racks([1, -1, 3, 4]))) == {0, 2, 3}
    assert set(drawn(make_in_rack("a"), in_racks([-1, -1]))) == {0, 1}


def test_leaders_that_move_are_followed() -> None:
    partitioner = make_in_rack("b")
    assert set(drawn(partitioner, in_racks([1, 2]))) == {1}
    assert set(drawn(partitioner, in_racks([2, 1]))) == {0}


def test_slow_brokers_of_the_rack_are_avoided_and_other_racks_used_if_all_are_slow() -> None:
    partitioner = make_in_rack("a")
    snapshot = in_racks([1, 2, 3, 4])
    partitioner.unavailable_nodes = frozenset({1})
    assert set(drawn(partitioner, snapshot)) == {2}
    partitioner.unavailable_nodes = frozenset({1, 3})
    assert set(drawn(partitioner, snapshot)) == {1, 3}


def test_only_queues_in_the_rack_are_compared() -> None:
    partitioner = make_in_rack("a", {0: 0, 1: 1000, 2: 3})
    partitioner.queue_size_range = (0, 1000)
    counts = drawn(partitioner, in_racks([1, 2, 3, 4]), 4000)
    # Weights are the largest size in the rack + 1 - size: 4 and 1.
    assert counts[0] / 4000 == pytest.approx(4 / 5, abs=0.03)
    assert set(counts) == {0, 2}


@given(
    leaders=st.lists(st.integers(-1, 4), min_size=1, max_size=12),
    rack=st.sampled_from(["a", "b", "c", None]),
    slow=st.frozensets(st.integers(1, 4)),
    sizes=st.lists(st.integers(0, 50), min_size=12, max_size=12),
    seed=st.integers(),
)
def test_the_choice_is_always_the_nearest_usable_one(
    leaders: list[int], rack: str | None, slow: frozenset[int], sizes: list[int], seed: int
) -> None:
    partitioner = BuiltInPartitioner(
        TOPIC, TopicSlots(), 1000, sizes.__getitem__, rack=rack, random=random.Random(seed)
    )
    partitioner.unavailable_nodes = slow
    used = sizes[: len(leaders)]
    partitioner.queue_size_range = (min(used), max(used)) if min(used) < max(used) else None
    led = [p for p, leader in enumerate(leaders) if leader > 0]
    fast = [p for p in led if leaders[p] not in slow]
    near = [p for p in fast if rack is not None and RACKS[leaders[p]] == rack]
    allowed = near or fast or led or range(len(leaders))
    assert {partitioner.next_partition(in_racks(leaders)) for _ in range(20)} <= set(allowed)


def test_switches_at_a_full_batch_only_up_to_twice_the_amount() -> None:
    partitioner = make()
    snapshot = make_snapshot([1] * 10)
    sticky = partitioner.peek(snapshot)
    assert partitioner.peek(snapshot) is sticky
    sticky.produced_bytes = 999
    assert not partitioner.maybe_switch(sticky, True, snapshot)
    sticky.produced_bytes = 1000
    assert not partitioner.maybe_switch(sticky, False, snapshot)
    assert partitioner.maybe_switch(sticky, True, snapshot)
    assert partitioner._slots.sticky is not sticky
    again = partitioner.peek(snapshot)
    again.produced_bytes = 2000
    assert partitioner.maybe_switch(again, False, snapshot)
    assert partitioner.maybe_switch(sticky, False, snapshot)


def test_compression_stretches_the_stay() -> None:
    ratio = TopicCompressionRatio()
    ratio.ratio = 0.25
    partitioner = BuiltInPartitioner(TOPIC, TopicSlots(), 1000, lambda p: 0, ratio=ratio)
    assert partitioner.peek(make_snapshot([1])).switch_at_bytes == 4000


# -- inside the accumulator --------------------------------------------------------------------------------


def sticky_runs(kit: Kit, count: int, size: int) -> list[list[int]]:
    """Send unkeyed records; returns the numbers of the records between two changes of partition."""
    where: dict[int, int] = {}
    for number in range(count):
        kit.append(-1, b"%06d" % number + b"x" * (size - 6))
    while batches := kit.drain():
        for batch in batches:
            for record in read_batch(batch.records()).records:
                assert record.value is not None
                where[int(record.value[:6])] = partition_of(batch)
            kit.finish(batch)
    runs: list[list[int]] = []
    for number in range(count):
        if not runs or where[runs[-1][-1]] != where[number]:
            runs.append([])
        runs[-1].append(number)
    return runs


def test_unkeyed_records_stay_for_a_batch_and_leave_no_fractions() -> None:
    kit = Kit(make_snapshot([1] * 100), batch_size=1024, linger_ms=0, buffer_memory=1 << 20)
    runs = sticky_runs(kit, 300, 100)
    # Eight records fill a batch. Only a chance repetition of the same partition makes a run longer.
    lengths = Counter(len(run) for run in runs[:-1])
    assert set(lengths) <= {8, 16, 24, 9, 18, 27}
    assert len(lengths) <= 2


def test_records_up_to_the_end_of_a_batch_do_not_ask_for_another_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A partition that has had its share stays the choice until the batch ends; few records look for more."""
    asked = 0
    maybe_switch = BuiltInPartitioner.maybe_switch

    def counted(*arguments: Any) -> bool:
        nonlocal asked
        asked += 1
        return maybe_switch(*arguments)

    monkeypatch.setattr(BuiltInPartitioner, "maybe_switch", counted)
    kit = Kit(batch_size=16384, buffer_memory=1 << 20)
    runs = []
    for _ in range(2):
        # Two thirds of a batch: the partition's share ends in the middle of the second one.
        for _ in range(100):
            kit.append(UNKNOWN_PARTITION, b"x" * 100)
        kit.clock.advance(10)
        runs += [(partition_of(batch), batch.record_count) for batch in kit.drain()]
    assert runs == [(runs[0][0], 100)] * 2
    assert asked < 10


def test_load_is_even_over_time() -> None:
    kit = Kit(make_snapshot([1] * 4), batch_size=512, linger_ms=0, buffer_memory=1 << 22)
    counts: Counter[int] = Counter()
    for _ in range(6000):
        kit.append(-1, b"x" * 100)
        if kit.pool.available_bytes < 1 << 21:
            for batch in kit.drain():
                counts[partition_of(batch)] += batch.record_count
                kit.finish(batch)
    while batches := kit.drain():
        for batch in batches:
            counts[partition_of(batch)] += batch.record_count
            kit.finish(batch)
    assert sum(counts.values()) == 6000
    assert max(counts.values()) - min(counts.values()) < 600


def test_long_linger_fills_batches_although_they_are_sent_unfilled() -> None:
    # Two thirds of a batch arrive in each linger time. A switch after exactly batch_size bytes would send
    # batches of 2/3 and 1/3 in turn.
    kit = Kit(make_snapshot([1] * 20), batch_size=1024, linger_ms=500, buffer_memory=1 << 20)
    counts = []
    for _ in range(20):
        for _ in range(6):
            kit.append(-1, b"x" * 100)
        kit.clock.advance(500)
        for batch in kit.drain():
            counts.append(batch.record_count)
            kit.finish(batch)
    assert counts == [6] * 20


def test_partition_whose_leader_was_lost_is_left_at_the_next_batch() -> None:
    kit = Kit(make_snapshot([1, 1]), linger_ms=0)
    kit.append(-1)
    (batch,) = kit.drain()
    lost = partition_of(batch)
    kit.finish(batch)
    kit.snapshot = make_snapshot([-1 if p == lost else 1 for p in range(2)])
    kit.append(-1)
    (batch,) = kit.drain()
    assert partition_of(batch) == 1 - lost


def test_topic_that_shrank_is_no_trap() -> None:
    kit = Kit(make_snapshot([-1] * 9 + [1]), linger_ms=0)
    kit.append(-1)
    (batch,) = kit.drain()
    assert partition_of(batch) == 9
    kit.finish(batch)
    kit.snapshot = make_snapshot([1, 1])
    kit.append(-1)
    assert len(kit.drain()) == 1


def test_queues_of_a_broker_that_takes_nothing_are_avoided_until_it_does() -> None:
    kit = Kit(
        make_snapshot([1, 2, 1, 2]),
        linger_ms=0,
        batch_size=256,
        buffer_memory=1 << 20,
        partitioner_availability_timeout_ms=100,
    )
    accumulator = kit.accumulator
    partitioner = None

    def round_trip(slow: bool) -> set[int]:
        for partition in range(4):
            kit.append(partition)
        ready: set[Node] = accumulator.ready_batches.ready(kit.snapshot, kit.now_ms).ready_nodes
        for node in ready:
            accumulator.ready_batches.update_node_latency_stats(node.id, kit.now_ms, node.id != 2 or not slow)
        for batch in kit.drain(1) if slow else kit.drain():
            kit.finish(batch)
        accumulator.ready_batches.publish_load(kit.snapshot)
        nonlocal partitioner
        partitioner = accumulator._topics[TOPIC].partitioner
        return {partitioner.next_partition(kit.snapshot) for _ in range(200)}

    assert round_trip(slow=True) == {0, 1, 2, 3}
    kit.clock.advance(200)
    assert round_trip(slow=True) == {0, 2}
    kit.clock.advance(10)
    while round_trip(slow=False) == {0, 2}:
        kit.clock.advance(10)
    assert round_trip(slow=False) == {0, 1, 2, 3}


def test_load_is_published_and_taken_back() -> None:
    kit = Kit(make_snapshot([1, 1, 1]), linger_ms=0, batch_size=256, buffer_memory=1 << 20)
    kit.fill(0, batches=4)
    kit.append(1)
    kit.accumulator.ready_batches.publish_load(kit.snapshot)
    # Nobody has asked so far.
    assert kit.accumulator._topics[TOPIC].partitioner.queue_size_range is None
    kit.accumulator._topics[TOPIC].partitioner.peek(kit.snapshot)
    kit.accumulator.ready_batches.publish_load(kit.snapshot)
    partitioner = kit.accumulator._topics[TOPIC].partitioner
    assert partitioner.queue_size_range == (0, 5)
    counts = Counter(partitioner.next_partition(kit.snapshot) for _ in range(3000))
    assert counts[2] > counts[1] > counts[0]
    while batches := kit.drain():
        for batch in batches:
            kit.finish(batch)
    kit.accumulator.ready_batches.publish_load(kit.snapshot)
    assert partitioner.queue_size_range is None

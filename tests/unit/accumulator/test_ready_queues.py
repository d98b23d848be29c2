"""ReadyQueues: after every change of the queues, the index gives the same answer as a scan of all of them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kproducer._core.accumulator.partition_queue import PartitionQueue
from kproducer._core.accumulator.producer_batch import ProducerBatch
from kproducer._core.accumulator.ready_batches import ReadyCheckResult, ReadyQueues
from kproducer._core.client.metadata_snapshot import MetadataSnapshot
from kproducer._core.runtime.clock import NEVER_MS
from kproducer.errors import BufferExhaustedError
from tests.support.units.accumulator_kit import TOPIC, Kit, make_snapshot, partition_of, tp

PARTITIONS = 6
LINGER_MS = 20
DELIVERY_TIMEOUT_MS = 1000


class Walk:
    """The oracle: looks at every queue, as Kafka does. Leaves out what the index may not know either."""

    def __init__(self, kit: Kit, refused: set[int]) -> None:
        self.ready: set[int] = set()
        self.unknown: set[str] = set()
        self.delay_ms = self.soonest_ms = NEVER_MS
        self.drainable: dict[int, set[int]] = {}
        accumulator, snapshot = kit.accumulator, kit.snapshot
        sends_everything = accumulator.queues.is_closed or accumulator._flushes or kit.pool.waiters
        for queue in accumulator.queues.all_queues():
            if not queue.batches:
                continue
            batch, partition = queue.batches[0], queue.topic_partition.partition
            leaders = snapshot.topics[TOPIC].partitions
            leader = leaders[partition].leader_id if partition < len(leaders) else -1
            if leader not in snapshot.nodes:
                self.unknown.add(TOPIC)
                continue
            if queue.is_muted:
                continue
            batch.maybe_update_leader_epoch(leaders[partition].leader_epoch)
            if batch.is_backing_off(kit.now_ms):
                self.delay_ms = min(self.delay_ms, batch.retry_at_ms - kit.now_ms)
                continue
            left_ms = batch.created_ms + LINGER_MS - kit.now_ms
            is_due = left_ms <= 0 or len(queue.batches) > 1 or batch.is_full
            if partition not in refused:
                self.drainable.setdefault(leader, set()).add(partition)
                if is_due or sends_everything:
                    self.ready.add(leader)
            if not is_due:
                # Where something else makes the node ready, or nothing may be drained, looking is early only.
                self.soonest_ms = min(self.soonest_ms, left_ms)
                if partition not in refused:
                    self.delay_ms = min(self.delay_ms, left_ms)
        self.soonest_ms = min(self.soonest_ms, self.delay_ms)


class ReadyMachine(RuleBasedStateMachine):
    """Plays callers, Sender, brokers and metadata."""

    @initialize()
    def start(self) -> None:
        self.leaders = [1, 1, 2, 2, 1, 2]
        self.epochs = [1] * PARTITIONS
        self.kit = Kit(
            self.snapshot(),
            batch_size=256,
            buffer_memory=1 << 20,
            linger_ms=LINGER_MS,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            request_timeout_ms=500,
        )
        #: Partitions of which ``may_drain`` takes nothing.
        self.refused: set[int] = set()
        self.in_flight: list[ProducerBatch] = []
        self.flushes: list[object] = []
        ready = self.kit.accumulator.ready_batches._ready
        assert isinstance(ready, ReadyQueues)
        ready._may_drain = lambda batch, now_ms: partition_of(batch) not in self.refused

    def snapshot(self) -> MetadataSnapshot:
        return make_snapshot(self.leaders, epochs=self.epochs)

    def look(self) -> ReadyCheckResult:
        return self.kit.accumulator.ready_batches.ready(self.kit.snapshot, self.kit.now_ms)

    # After one of 8 bytes, one of 171 makes a batch full to the byte.
    @rule(
        partition=st.integers(0, PARTITIONS - 1), size=st.sampled_from([8, 60, 120, 171, 179, 180, 181, 400])
    )
    def append(self, partition: int, size: int) -> None:
        with contextlib.suppress(BufferExhaustedError):
            self.kit.append(partition, b"." * size)

    @rule(ms=st.sampled_from([1, 7, 13, LINGER_MS, 100, 400]))
    def time_passes(self, ms: int) -> None:
        self.kit.clock.advance(ms)

    @rule()
    def begin_flush(self) -> None:
        self.flushes.append(object())
        self.kit.accumulator.begin_flush(self.flushes[-1])

    @precondition(lambda self: self.kit.accumulator._flushes)
    @rule()
    def end_flush(self) -> None:
        self.kit.accumulator.end_flush(self.flushes.pop())

    @rule(partition=st.integers(0, PARTITIONS - 1), leader=st.sampled_from([-1, 1, 2, 7]))
    def leader_moves(self, partition: int, leader: int) -> None:
        self.leaders[partition] = leader
        self.epochs[partition] += 1
        self.kit.snapshot = self.snapshot()

    @rule(partition=st.integers(0, PARTITIONS - 1))
    def mute(self, partition: int) -> None:
        self.kit.accumulator.mute_partition(tp(partition))

    @rule(partition=st.integers(0, PARTITIONS - 1))
    def unmute(self, partition: int) -> None:
        self.kit.accumulator.unmute_partition(tp(partition))

    @rule(partition=st.integers(0, PARTITIONS - 1))
    def refuse_or_allow(self, partition: int) -> None:
        self.refused ^= {partition}

    @rule(max_size=st.sampled_from([1, 300, 700, 1 << 20]))
    def drain_what_is_ready(self, max_size: int) -> None:
        nodes = self.look().ready_nodes
        walk = Walk(self.kit, self.refused)
        drained = self.kit.accumulator.ready_batches.drain(
            self.kit.snapshot, nodes, max_size, self.kit.now_ms
        )
        assert drained.keys() == {node.id for node in nodes}
        for node_id, batches in drained.items():
            taken = [partition_of(batch) for batch in batches]
            assert len(set(taken)) == len(taken)
            if max_size == 1 << 20:
                assert set(taken) == walk.drainable[node_id]
            else:
                assert set(taken) <= walk.drainable[node_id]
            self.in_flight += batches

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data(), answer=st.sampled_from(["ok", "retry", "split"]))
    def answer(self, data: st.DataObject, answer: str) -> None:
        batch = self.in_flight.pop(data.draw(st.integers(0, len(self.in_flight) - 1)))
        if answer == "retry":
            self.kit.retry(batch)
        elif answer == "split" and batch.record_count > 1:
            self.kit.accumulator.request_done(batch)
            self.kit.accumulator.split_and_reenqueue(batch)
            self.kit.accumulator.deallocate(batch)
        else:
            self.kit.finish(batch)

    @rule()
    def expire(self) -> None:
        for batch in self.kit.accumulator.queues.take_expired(self.kit.now_ms):
            batch.complete(error=batch.delivery_timeout_error(DELIVERY_TIMEOUT_MS, self.kit.now_ms))
            self.kit.accumulator.deallocate(batch)

    @invariant()
    def the_index_says_what_a_walk_says(self) -> None:
        if not hasattr(self, "refused"):
            return
        found = self.look()
        walk = Walk(self.kit, self.refused)
        assert {node.id for node in found.ready_nodes} == walk.ready
        assert found.unknown_leader_topics == walk.unknown
        assert walk.soonest_ms <= found.next_ready_check_delay_ms <= walk.delay_ms

    @invariant()
    def nothing_is_noted_twice(self) -> None:
        if not hasattr(self, "refused"):
            return
        index = self.kit.accumulator.ready_batches._ready
        for node in index._nodes.values():
            rotation: list[PartitionQueue] = list(node.rotation)
            assert len(set(rotation)) == len(rotation)
            assert all(queue.node is node for queue in rotation)
            assert len(set(node.due)) == len(node.due)
        # One that counts for each queue, and at most one more that was put in front of a later one.
        assert len(index._timers) <= 2 * PARTITIONS


ReadyMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
TestReadyMachine = ReadyMachine.TestCase


def test_turns_go_round_although_retries_and_mutes_come_between() -> None:
    kit = Kit(make_snapshot([1] * 4), linger_ms=0, buffer_memory=1 << 20)
    for partition in range(4):
        kit.fill(partition, batches=4)
    kit.accumulator.mute_partition(tp(1))
    taken = [partition_of(kit.drain(max_size=1)[0]) for _ in range(3)]
    assert taken == [0, 2, 3]
    kit.accumulator.unmute_partition(tp(1))
    taken = [partition_of(kit.drain(max_size=1)[0]) for _ in range(8)]
    assert sorted(taken[:4]) == sorted(taken[4:]) == [0, 1, 2, 3]


def test_a_look_costs_what_has_happened_since_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    kit = Kit(make_snapshot([1] * 500), linger_ms=1000, buffer_memory=1 << 20)
    for partition in range(500):
        kit.append(partition)
    assert kit.ready_ids() == set()
    filed: list[PartitionQueue] = []
    original = ReadyQueues._classify

    def counting(self: ReadyQueues, queue: PartitionQueue, now_ms: int) -> None:
        filed.append(queue)
        original(self, queue, now_ms)

    monkeypatch.setattr(ReadyQueues, "_classify", counting)
    kit.clock.advance(500)
    assert kit.ready_ids() == set()
    assert filed == []
    kit.fill(7)
    assert kit.ready_ids() == {1}
    assert {queue.topic_partition for queue in filed} == {tp(7)}


def test_an_error_in_a_look_loses_no_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    kit = Kit(make_snapshot([1, 2]), linger_ms=0)
    kit.append(0)
    kit.append(1)
    original = ReadyQueues._classify

    def failing(self: ReadyQueues, queue: PartitionQueue, now_ms: int) -> None:
        monkeypatch.setattr(ReadyQueues, "_classify", original)
        raise MemoryError

    monkeypatch.setattr(ReadyQueues, "_classify", failing)
    with pytest.raises(MemoryError):
        kit.ready_ids()
    assert kit.ready_ids() == {1, 2}
    assert sorted(partition_of(batch) for batch in kit.drain()) == [0, 1]

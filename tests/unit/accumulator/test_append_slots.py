"""The slot of a queue holds an appender exactly while compiled code may append to the open batch."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kproducer._core.accumulator.partition_queue import PartitionQueue
from kproducer._core.accumulator.producer_batch import ProducerBatch
from kproducer._core.client.metadata_snapshot import MetadataSnapshot
from kproducer.errors import ProducerClosedError
from kproducer.types import UNKNOWN_PARTITION
from tests.support.units.accumulator_kit import Kit


def queue_of(kit: Kit, partition: int = 0) -> PartitionQueue:
    queue = kit.accumulator.queues.topics["topic"].queue(partition)
    assert queue is not None
    return queue


def slot_takes_records(kit: Kit) -> bool:
    appender = queue_of(kit).slot.appender
    return appender is not None and appender.append(1, None, b"through the slot", None, None) is not None


def test_the_slot_is_filled_with_a_batch_and_emptied_when_it_is_drained() -> None:
    kit = Kit()
    kit.append()
    assert slot_takes_records(kit)
    ((batch,),) = kit.accumulator.ready_batches.drain(
        kit.snapshot, kit.snapshot.nodes.values(), 1 << 20, kit.now_ms
    ).values()
    assert batch.record_count == 2
    assert queue_of(kit).slot.appender is None
    assert not slot_takes_records(kit)
    assert batch.record_count == 2
    kit.append()
    assert slot_takes_records(kit)


def test_a_batch_that_waits_for_room_in_a_request_stays_open() -> None:
    kit = Kit()
    kit.append(1)
    kit.append(0)
    drained = kit.accumulator.ready_batches.drain(kit.snapshot, kit.snapshot.nodes.values(), 1, kit.now_ms)
    ((first,),) = drained.values()
    assert first.topic_partition.partition == 1
    assert slot_takes_records(kit)


def test_the_slot_of_a_full_batch_leads_to_the_next_one() -> None:
    kit = Kit()
    kit.fill()
    queue = queue_of(kit)
    assert queue.open_batch is queue.batches[-1]
    assert queue.slot.appender is queue.batches[-1].appender
    assert queue.batches[0].appender is not queue.slot.appender


def test_the_slot_is_empty_while_a_batch_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    kit = Kit()
    kit.append()
    queue = queue_of(kit)
    seen: list[Any] = []
    try_append = ProducerBatch.try_append

    def looking(batch: ProducerBatch, *record: Any) -> Any:
        seen.append(queue.slot.appender)
        return try_append(batch, *record)

    monkeypatch.setattr(ProducerBatch, "try_append", looking)
    kit.append(value=bytes(2000))
    assert seen == [None, None]  # the batch that was open, and the new one
    assert queue.slot.appender is not None


def test_close_empties_every_slot_even_that_of_a_batch_in_the_making(monkeypatch: pytest.MonkeyPatch) -> None:
    kit = Kit()
    kit.append()
    kit.accumulator.close()
    assert not slot_takes_records(kit)
    with pytest.raises(ProducerClosedError):
        kit.append()

    kit = Kit()
    at_work, go_on = threading.Event(), threading.Event()
    try_append = ProducerBatch.try_append

    def slow(batch: ProducerBatch, *record: Any) -> Any:
        at_work.set()
        go_on.wait(30)
        return try_append(batch, *record)

    monkeypatch.setattr(ProducerBatch, "try_append", slow)
    thread = threading.Thread(target=kit.append)
    thread.start()
    at_work.wait(30)
    kit.accumulator.close()
    go_on.set()
    thread.join(30)
    assert queue_of(kit).open_batch is not None  # what was accepted is delivered
    assert not slot_takes_records(kit)


def test_what_is_given_up_takes_no_more_records() -> None:
    kit = Kit()
    kit.append()
    kit.accumulator.abort_undrained_batches(ProducerClosedError("enough"))
    assert not slot_takes_records(kit)
    kit.assert_all_memory_is_back()


def test_what_expired_takes_no_more_records() -> None:
    kit = Kit(delivery_timeout_ms=30000 + 10)
    kit.append()
    (batch,) = kit.accumulator.queues.take_expired(kit.now_ms + 31000)
    assert not slot_takes_records(kit)
    assert batch.record_count == 1


def test_the_next_record_goes_elsewhere_once_enough_was_sent_to_a_partition() -> None:
    kit = Kit(batch_size=16384, buffer_memory=1 << 20)
    kit.append(UNKNOWN_PARTITION, bytes(100))
    slots = kit.accumulator.queues.slots["topic"]
    sticky = slots.sticky
    assert sticky is not None
    sticky.produced_bytes = sticky.force_switch_at_bytes
    kit.append(UNKNOWN_PARTITION, bytes(100))
    assert slots.sticky is not sticky
    assert slots.sticky is not None
    assert slots.sticky.produced_bytes == 100 + sticky.record_overhead_bytes


def test_the_sticky_partition_stays_where_nothing_is_left_to_choose() -> None:
    """A long call may hold a snapshot from a moment when its topic was forgotten."""
    kit = Kit(batch_size=32_768)
    kit.append(UNKNOWN_PARTITION)
    slots = kit.accumulator.queues.slots["topic"]
    sticky = slots.sticky
    assert sticky is not None
    sticky.produced_bytes = 10 * sticky.force_switch_at_bytes
    known = kit.snapshot
    kit.snapshot = MetadataSnapshot(cluster_id="c", nodes=known.nodes, topics={})
    kit.append(UNKNOWN_PARTITION)
    assert slots.sticky is sticky
    kit.snapshot = known
    kit.append(UNKNOWN_PARTITION)
    assert slots.sticky is not sticky

"""Ctrl-C and a lack of memory at any place: nothing that lanes give and take is lost, or is there twice."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from kproducer._core.accumulator.future_record_metadata import ProduceRequestResult
from kproducer._core.accumulator.owned_lock import OwnedLock
from kproducer._core.accumulator.partition_queue import PartitionQueue, PartitionQueues
from kproducer._core.accumulator.producer_batch import ProducerBatch
from kproducer._core.accumulator.record_accumulator import RecordAccumulator
from kproducer._core.kernel import data_plane
from kproducer._core.records.record_batch_builder import RecordBatchBuilder
from tests.support.interruption import interrupt_after
from tests.support.units.armed_kit import Armed

pytestmark = [
    pytest.mark.skipif(data_plane is None, reason="needs the compiled kernel"),
    pytest.mark.skipif(
        not hasattr(RecordAccumulator.adopt, "__code__"), reason="compiled code cannot be interrupted"
    ),
]

INTERRUPTED = {
    function.__code__
    for kind in (
        OwnedLock,
        PartitionQueue,
        PartitionQueues,
        ProduceRequestResult,
        ProducerBatch,
        RecordAccumulator,
        RecordBatchBuilder,
    )
    for function in vars(kind).values()
    if inspect.isfunction(function)
}


def filled(compression: str) -> tuple[Armed, list[Any]]:
    """Five batches in partition 0, the last of which is open; and the futures of their records."""
    armed = Armed(compression)
    futures = [armed.kit.append(0, b"%d" % number * 1500) for number in range(10)]
    assert armed.parts[0].waiting_count == 5
    return armed, futures


def assert_all_are_delivered(armed: Armed, futures: list[Any], late: bool = True) -> None:
    if late:
        futures = [*futures, armed.kit.append(0)]
    assert armed.deliver() == len(futures)
    assert [future.result(0).offset for future in futures] == list(range(len(futures)))
    armed.kit.assert_all_memory_is_back()
    armed.close()


def lacking_memory(act: Callable[[], object], number: int) -> bool:
    """Call ``act`` with no memory for its allocation of this number. Whether that failed."""
    hooks = pytest.importorskip("_testcapi", reason="this Python cannot make allocations fail")
    hooks.set_nomemory(number, number + 1)
    try:
        act()
    except MemoryError:
        return True
    finally:
        hooks.remove_mem_hooks()
    return False


def failures_without_memory(
    compression: str, most: int, prepare: Callable[[Armed], Callable[[], object]]
) -> int:
    """In how many of ``most`` runs an act failed, each with no memory for another allocation."""
    failures = 0
    for number in range(most):
        armed, futures = filled(compression)
        failures += lacking_memory(prepare(armed), number)
        assert_all_are_delivered(armed, futures)
    return failures


@pytest.mark.parametrize("compression", ["none", "lz4"])
@pytest.mark.parametrize("late", [False, True])
def test_a_hand_over_that_is_interrupted_goes_on_later(compression: str, late: bool) -> None:
    for number in itertools.count(1):
        armed, futures = filled(compression)
        queue = armed.queue(0)
        interrupted = interrupt_after(number, INTERRUPTED, queue.disarm, as_signals_do=True)
        # The I/O thread finds the partition there, unless nothing has changed.
        assert armed.parts[0].is_armed or armed.parts[0] in armed.kit.accumulator.queues.disarmed
        assert_all_are_delivered(armed, futures, late)
        if not interrupted:
            break
    assert number > 50


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_a_hand_over_without_memory_goes_on_later(compression: str) -> None:
    assert failures_without_memory(compression, 250, lambda armed: armed.queue(0).disarm) > 50


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_a_partition_that_cannot_be_armed_keeps_its_batches(compression: str) -> None:
    def arming(armed: Armed) -> Callable[[], object]:
        armed.queue(0).disarm()
        return functools.partial(armed.arm, 0)

    assert failures_without_memory(compression, 60, arming) > 10


def test_an_interrupted_append_to_a_lane_loses_no_memory() -> None:
    for number in itertools.count(1):
        # Each batch begins in a buffer that the caller has waited for.
        armed = Armed(plane={"allocate": lambda size: None})

        def append(armed: Armed = armed) -> None:
            for _ in range(5):
                armed.kit.append(0, b"x" * 1500)

        interrupted = interrupt_after(number, INTERRUPTED, append, as_signals_do=True)
        armed.kit.append(0)
        armed.deliver()
        armed.kit.assert_all_memory_is_back()
        armed.close()
        if not interrupted:
            break
    assert number > 50


@pytest.mark.parametrize("waits", [False, True])
def test_an_interrupted_wake_up_loses_neither_record_nor_memory(waits: bool) -> None:
    """Where a function wakes the I/O thread."""
    for number in range(2):
        calls = itertools.count()

        def wake(number: int = number, calls: Any = calls) -> None:
            if next(calls) == number:
                raise KeyboardInterrupt

        armed = Armed(plane={"on_wake": wake, **({"allocate": lambda size: None} if waits else {})})
        futures = []
        interruptions = 0
        for _ in range(4):
            # Woken when the first batch begins, and when it is full.
            assert armed.bench.plane.wait_until_ms
            try:
                futures.append(armed.kit.append(0, b"x" * 1500))
            except KeyboardInterrupt:
                interruptions += 1
        assert interruptions == 1
        assert armed.deliver() == 4 - number  # a record that finds the batch full is not taken
        assert all(future.done() for future in futures)
        armed.kit.assert_all_memory_is_back()
        armed.close()

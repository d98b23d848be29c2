"""Records of the general path whose partition a lane has."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from kproducer._core.accumulator.partition_queue import PartitionQueue
from kproducer._core.kernel import data_plane
from kproducer.types import UNKNOWN_PARTITION
from tests.support.units.accumulator_kit import Kit, tp
from tests.support.units.armed_kit import Armed

pytestmark = pytest.mark.skipif(data_plane is None, reason="needs the compiled kernel")


@pytest.fixture(params=["none", "lz4"])
def armed(request: pytest.FixtureRequest) -> Iterator[Armed]:
    made = Armed(request.param)
    yield made
    made.close()


class _Watched:
    """A part that notes who compresses with which lock."""

    def __init__(self, part: Any, queue: PartitionQueue) -> None:
        self._part = part
        self._queue = queue
        self.had_lock: list[bool] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)

    def compress_last(self) -> None:
        self.had_lock.append(self._queue.lock.is_mine)
        self._part.compress_last()


def test_a_caller_compresses_without_the_lock_of_the_queue() -> None:
    armed = Armed("lz4")
    try:
        queue = armed.queue(0)
        queue.slot.part = watched = _Watched(armed.parts[0], queue)
        for number in range(60):
            armed.kit.append(0, random.Random(number).randbytes(600))
        queue.disarm()
        batches = queue.batches
        by_callers = [batch.compressed_records is not None for batch in batches]
        assert by_callers == [False] * 3 + [True] * (len(batches) - 4) + [False]
        assert len(batches) > 8
        assert watched.had_lock == [False] * (len(batches) - 1)
    finally:
        armed.close()


def test_sticky_records_leave_only_full_batches_behind(armed: Armed) -> None:
    """As many as without lanes."""
    plain = Kit(
        batch_size=4096,
        buffer_memory=1 << 20,
        linger_ms=10_000,
        compression_type=armed.kit.config.compression_type,
    )
    for number in range(200):
        for kit in (plain, armed.kit):
            kit.append(UNKNOWN_PARTITION, random.Random(number).randbytes(300))
    expected = [len(plain.accumulator.queues.queue_of(tp(number)).batches) for number in range(4)]
    assert [part.waiting_count for part in armed.parts] == expected
    assert sum(part.has_open_batch for part in armed.parts) == 1

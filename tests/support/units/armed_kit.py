"""An accumulator whose partitions a lane has."""

from __future__ import annotations

from typing import Any

from kproducer._core.accumulator.partition_queue import PartitionQueue
from kproducer._core.kernel import data_plane
from tests.support.units.accumulator_kit import TOPIC, Kit, tp
from tests.support.units.lane_bench import Bench


class Armed:
    """A kit whose four partitions a lane has. Nothing is sent.

    ``plane`` replaces arguments of the plane.
    """

    def __init__(self, compression: str = "none", plane: dict[str, Any] | None = None) -> None:
        self.kit = kit = Kit(
            batch_size=4096, buffer_memory=1 << 20, linger_ms=10_000, compression_type=compression
        )
        queues, pool = kit.accumulator.queues, kit.pool
        queues.adopt = kit.accumulator.adopt
        settings: dict[str, Any] = {
            "buffer_memory": pool.total_bytes,
            "sizes": pool.sizes,
            "allocate": pool.try_allocate,
            "deallocate": pool.deallocate_all,
            "incomplete": kit.accumulator.incomplete,
            "memory_waiters": pool.waiters,
        }
        self.bench = Bench(
            compression=compression, first_bytes=1024, linger_ms=10_000, plane={**settings, **(plane or {})}
        )
        self.topic = data_plane.FastTopic(TOPIC, b"x", False, queues.topic(TOPIC).ratio)
        self.parts = [data_plane.FastPart(self.bench.plane, self.topic, tp(number)) for number in range(4)]
        for number in range(4):
            self.arm(number)

    def queue(self, number: int) -> PartitionQueue:
        return self.kit.accumulator.queues.queue_of(tp(number))

    def arm(self, number: int) -> None:
        queue = self.queue(number)
        with queue.lock:
            queue.arm_locked(self.parts[number], self.bench.lane)

    def deliver(self) -> int:
        """Take all back, and deliver it from the queues. Returns how many records there were."""
        records = 0
        for number in range(4):
            self.queue(number).disarm()
        while self.kit.accumulator.queues.active:
            self.kit.clock.advance(20_000)
            self.kit.ready_ids()
            for batch in self.kit.drain():
                self.kit.finish(batch, records)
                records += batch.record_count
        return records

    def close(self) -> None:
        for number in range(4):
            self.queue(number).disarm()
        self.bench.close()

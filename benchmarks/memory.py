"""Resident memory of a producer at rest: one record to every partition, all acknowledged, then a pause.

One case has many partitions, the other many connections: to 1,000 brokers, of which most lead partitions.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.process_costs import own_memory_bytes

#: The name of these rows' family in tables.
FAMILY = "memory at rest"
_VALUE = b"x" * 100
_FLUSH_SECONDS = 120.0
_REST_SECONDS = 7.0


class Case(NamedTuple):
    """The topic and the brokers."""

    partitions: int
    brokers: int

    @property
    def name(self) -> str:
        on = "1 broker" if self.brokers == 1 else f"{self.brokers:,} brokers"
        return f"{self.partitions:,} partitions, {on}"

    @property
    def topic(self) -> tuple[int, int]:
        """Arguments of ``BenchCluster.topic``."""
        return self.partitions, self.brokers


CASES = (Case(10_000, 1), Case(3_000, 1_000))


def _kproducer(task: dict[str, Any], partitions: int) -> tuple[Any, int, int]:
    from kproducer import KafkaProducer

    before = own_memory_bytes("VmRSS")
    producer = KafkaProducer(bootstrap_servers=task["bootstrap"], acks="all", enable_idempotence=False)
    known = []

    def delivered(metadata: object, error: object) -> None:
        known.append(error)

    for partition in range(partitions):
        producer.send(task["topic"], _VALUE, partition=partition, on_delivery=delivered)
    producer.flush(_FLUSH_SECONDS)
    return producer, before, known.count(None)


def _confluent(task: dict[str, Any], partitions: int) -> tuple[Any, int, int]:
    from confluent_kafka import Producer

    before = own_memory_bytes("VmRSS")
    producer = Producer({"bootstrap.servers": task["bootstrap"], "acks": "all", "log_level": 0})
    known = []

    def delivered(error: object, message: object) -> None:
        known.append(error)

    for partition in range(partitions):
        producer.produce(task["topic"], _VALUE, partition=partition, on_delivery=delivered)
    producer.flush(_FLUSH_SECONDS)
    return producer, before, known.count(None)


DRIVERS: dict[str, Callable[[dict[str, Any], int], tuple[Any, int, int]]] = {
    "kproducer": _kproducer,
    "confluent-kafka": _confluent,
}


def _socket_count() -> int:
    count = 0
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            count += os.readlink(each).startswith("socket:")
    return count


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """One client in one case, in this process."""
    partitions = min(task["count"] or task["partitions"], task["partitions"])
    producer, before, acknowledged = DRIVERS[task["client"]](task, partitions)
    if acknowledged != partitions:
        raise RuntimeError(f"{acknowledged} of {partitions} records were acknowledged")
    if not task["count"]:  # a short run
        time.sleep(_REST_SECONDS)
    resident = own_memory_bytes("VmRSS")
    found = {
        "resident_mb": resident / 1e6,
        "producer_mb": (resident - before) / 1e6,
        "sockets": _socket_count(),
    }
    del producer
    return found


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))), flush=True)

"""Latency and CPU at a fixed rate: the time from ``send()`` until the application knows that the record is
acknowledged, and the CPU of the process.

Linger 0, acks=all, 100-byte values, a fixed number of records per second from one thread, a callback per
record; the time ends in the callback. confluent-kafka calls its callbacks in ``poll``, for which the
application has a thread; the sending thread sleeps between records, as with every client. One case has
another thread that computes in pure Python. In another one, a thread sends each record when the one before is
acknowledged, with ``send().result()`` or confluent-kafka's ``produce`` and ``flush``. The CPU includes the
sending loop; "application alone" is that loop without a client. Every client runs in its own process, and
each run starts after a warm-up that is long enough to use all partitions: the first records of a
partition are slower, in the client and in the broker.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from benchmarks.figures import percentile
from benchmarks.peer_sessions import librdkafka_security, polling
from benchmarks.process_costs import own_cpu_seconds
from benchmarks.workload import BROKER_COUNT, PARTITION_COUNT

SECONDS = 1.5
#: kproducer stays with a partition for 150 of these records.
WARM_UP_RECORDS = 4_000
_ONE_BY_ONE_RECORDS = 6_000
_WARM_UP_RATE = 10_000
_VALUE = b"x" * 100
_TIMEOUT_SECONDS = 30.0
#: kproducer's client in this group, and the one to compare it with.
OURS, PEER = "kproducer", "confluent-kafka, poll thread"
#: The same for asyncio.
ASYNC, ASYNC_PEER = "kproducer async", "aiokafka"
ALONE = "application alone"
#: Of the rows in tables.
FAMILY = "fixed rate"


class Case(NamedTuple):
    """Records per second (0: one at a time), with or without a thread that computes."""

    rate: int
    busy: bool = False

    @property
    def name(self) -> str:
        if not self.rate:
            return "one at a time"
        return f"{self.rate:,}/s{', busy thread' if self.busy else ''}"

    @property
    def topic(self) -> tuple[int, int]:
        """Arguments of ``BenchCluster.topic``."""
        return PARTITION_COUNT, BROKER_COUNT

    @property
    def clients(self) -> tuple[str, ...]:
        """Names of the clients that it is for."""
        return (OURS, PEER) if not self.rate else (OURS, ASYNC, PEER, ASYNC_PEER, ALONE)


CASES = (Case(100), Case(1_000), Case(10_000), Case(1_000, busy=True), Case(0))


class Times:
    """When each record was sent and acknowledged; ``wait`` until all are."""

    def __init__(self, count: int) -> None:
        self.sent = [0.0] * count
        self.known = [0.0] * count
        self._left = count
        self._all_known = threading.Event()

    def acknowledge(self, number: int) -> None:
        """Called by one thread at a time."""
        self.known[number] = time.perf_counter()
        self._left -= 1
        if not self._left:
            self._all_known.set()

    def wait(self) -> None:
        if not self._all_known.wait(_TIMEOUT_SECONDS):
            raise RuntimeError(f"{self._left} records were not acknowledged")

    @property
    def all_known(self) -> bool:
        return self._all_known.is_set()

    def milliseconds(self) -> list[float]:
        """The latency of each record."""
        return [(known - sent) * 1000 for sent, known in zip(self.sent, self.known, strict=True)]


class Measured:
    """The warm-up and the timed part of a run, with the CPU and wall seconds of the latter."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.times = Times(task["count"] or int(task["rate"] * SECONDS) or _ONE_BY_ONE_RECORDS)
        self.parts = [(_WARM_UP_RATE, Times(WARM_UP_RECORDS)), (task["rate"], self.times)]
        self._busy = task.get("busy", False)
        self.turns = 0
        self.cpu_seconds = self.seconds = 0.0

    @contextmanager
    def part(self, times: Times) -> Iterator[None]:
        """Measure the block, if it is the timed part."""
        if times is not self.times:
            yield
            return
        stop = threading.Event()
        thread = threading.Thread(target=self._spin, args=(stop,))
        if self._busy:
            thread.start()
        cpu, started = own_cpu_seconds(), time.perf_counter()
        try:
            yield
        finally:
            self.cpu_seconds, self.seconds = own_cpu_seconds() - cpu, time.perf_counter() - started
            stop.set()
            if self._busy:
                thread.join()

    def _spin(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self.turns += 1


Driver = Callable[[dict[str, Any], Measured], None]
#: Sends the record with this number and lets its callback fill the times.
Send = Callable[[Times, int], None]


def _send_on_schedule(measured: Measured, send: Send) -> None:
    """Send the records one by one, each at its time; late ones immediately."""
    for rate, times in measured.parts:
        with measured.part(times):
            started = time.perf_counter()
            for number in range(len(times.sent)):
                while (left := started + number / rate - time.perf_counter()) > 0:
                    time.sleep(left)
                times.sent[number] = time.perf_counter()
                send(times, number)
            times.wait()


def _send_one_by_one(measured: Measured, deliver: Callable[[], object]) -> None:
    """Send each record when the one before is acknowledged. ``deliver`` sends one and waits for it."""
    for _, times in measured.parts:
        with measured.part(times):
            for number in range(len(times.sent)):
                times.sent[number] = time.perf_counter()
                deliver()
                times.acknowledge(number)


def _kproducer(task: dict[str, Any], measured: Measured) -> None:
    from kproducer import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=task["bootstrap"],
        acks="all",
        linger_ms=0,
        enable_idempotence=False,
        **task.get("security", {}),
    )

    def send(times: Times, number: int) -> None:
        def known(metadata: object, error: object) -> None:
            if error is None:
                times.acknowledge(number)

        producer.send(task["topic"], _VALUE, on_delivery=known)

    if task["rate"]:
        _send_on_schedule(measured, send)
    else:
        _send_one_by_one(measured, lambda: producer.send(task["topic"], _VALUE).result())
    producer.close()


def _kproducer_async(task: dict[str, Any], measured: Measured) -> None:
    asyncio.run(_kproducer_loop(task, measured))


async def _kproducer_loop(task: dict[str, Any], measured: Measured) -> None:
    from kproducer import AsyncKafkaProducer

    settings = {"acks": "all", "linger_ms": 0, "enable_idempotence": False, **task.get("security", {})}
    async with AsyncKafkaProducer(task["bootstrap"], **settings) as producer:
        for rate, times in measured.parts:
            with measured.part(times):
                started = time.perf_counter()
                for number in range(len(times.sent)):
                    while (left := started + number / rate - time.perf_counter()) > 0:
                        await asyncio.sleep(left)
                    times.sent[number] = time.perf_counter()
                    producer.send(task["topic"], _VALUE).add_done_callback(_known(times, number))
                await producer.flush()
                while not times.all_known:
                    await asyncio.sleep(0)


def _known(times: Times, number: int) -> Callable[[Any], None]:
    def acknowledge(future: Any) -> None:
        if future.exception() is None:
            times.acknowledge(number)

    return acknowledge


def _confluent(task: dict[str, Any], measured: Measured) -> None:
    from confluent_kafka import Producer

    security = librdkafka_security(task.get("security", {}))
    producer = Producer(
        {"bootstrap.servers": task["bootstrap"], "acks": "all", "linger.ms": 0, "log_level": 0, **security}
    )

    def send(times: Times, number: int) -> None:
        def known(error: object, message: object) -> None:
            if error is None:
                times.acknowledge(number)

        producer.produce(task["topic"], _VALUE, on_delivery=known)

    def deliver() -> None:
        producer.produce(task["topic"], _VALUE)
        if producer.flush():
            raise RuntimeError("a record was not acknowledged")

    if not task["rate"]:
        _send_one_by_one(measured, deliver)
        return
    with polling(producer):
        _send_on_schedule(measured, send)


def _aiokafka(task: dict[str, Any], measured: Measured) -> None:
    asyncio.run(_aiokafka_loop(task, measured))


async def _aiokafka_loop(task: dict[str, Any], measured: Measured) -> None:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(
        bootstrap_servers=task["bootstrap"], acks="all", linger_ms=0, enable_idempotence=False
    )
    await producer.start()

    for rate, times in measured.parts:
        with measured.part(times):
            started = time.perf_counter()
            for number in range(len(times.sent)):
                while (left := started + number / rate - time.perf_counter()) > 0:
                    await asyncio.sleep(left)
                times.sent[number] = time.perf_counter()
                (await producer.send(task["topic"], _VALUE)).add_done_callback(_known(times, number))
            await producer.flush()
            # Callbacks run in the next turn of the loop.
            await asyncio.sleep(0)
            times.wait()
    with suppress(Exception):
        await producer.stop()


def _alone(task: dict[str, Any], measured: Measured) -> None:
    _send_on_schedule(measured, Times.acknowledge)


DRIVERS: dict[str, Driver] = {
    OURS: _kproducer,
    ASYNC: _kproducer_async,
    PEER: _confluent,
    ASYNC_PEER: _aiokafka,
    ALONE: _alone,
}


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """One client in one case, in this process."""
    measured = Measured(task)
    DRIVERS[task["client"]](task, measured)
    milliseconds = measured.times.milliseconds()
    return {
        "milliseconds": [round(each, 3) for each in milliseconds],
        "p50_ms": percentile(milliseconds, 50),
        "p99_ms": percentile(milliseconds, 99),
        "largest_ms": max(milliseconds),
        "cpu_percent": measured.cpu_seconds / measured.seconds * 100,
        "cpu_us": measured.cpu_seconds / len(milliseconds) * 1e6,
        "records_per_second": len(milliseconds) / measured.seconds,
        "turns_per_second": measured.turns / measured.seconds,
    }


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))), flush=True)

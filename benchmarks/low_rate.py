"""Latency at low rates: the time from ``send()`` until the application knows that the record is acknowledged.

Linger 0, acks=all, 100-byte values, a fixed number of records per second from one thread, a callback per
record; the time ends in the callback. confluent-kafka calls its callbacks in ``poll``, and the application
waits in ``poll`` between two records, so no callback is late. The clients run in turn, each in its own
process; the times of all rounds form one sample.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

from benchmarks.peer_sessions import librdkafka_security
from benchmarks.process_costs import own_cpu_seconds

RATES_PER_SECOND = (100, 1000)
WARM_UP_RECORDS = 100
_VALUE = b"x" * 100
_TIMEOUT_SECONDS = 30.0

#: (task, times to fill, records per second)
Driver = Callable[[dict[str, Any], "Times", int], None]


class Times:
    """When each record was sent and acknowledged; ``wait`` until all are."""

    def __init__(self, count: int) -> None:
        self.sent = [0.0] * count
        self.known = [0.0] * count
        self._left = count
        self._all_known = threading.Event()

    def acknowledge(self, number: int) -> None:
        """Called by one thread only."""
        self.known[number] = time.perf_counter()
        self._left -= 1
        if not self._left:
            self._all_known.set()

    def wait(self) -> None:
        if not self._all_known.wait(_TIMEOUT_SECONDS):
            raise RuntimeError(f"{self._left} records were not acknowledged")

    def milliseconds(self) -> list[float]:
        """The latency of each record, without the warm-up."""
        pairs = list(zip(self.sent, self.known, strict=True))[WARM_UP_RECORDS:]
        return [(known - sent) * 1000 for sent, known in pairs]


def _on_schedule(times: Times, rate: int, send: Callable[[int], None], wait: Callable[[float], Any]) -> None:
    """Send the records one by one, each at its time; ``wait`` gets the seconds until the next."""
    started = time.perf_counter()
    for number in range(len(times.sent)):
        while (left := started + number / rate - time.perf_counter()) > 0:
            wait(left)
        times.sent[number] = time.perf_counter()
        send(number)


def _kproducer(task: dict[str, Any], times: Times, rate: int) -> None:
    from kproducer import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=task["bootstrap"],
        acks="all",
        linger_ms=0,
        enable_idempotence=False,
        **task.get("security", {}),
    )

    def send(number: int) -> None:
        def known(metadata: object, error: object) -> None:
            if error is None:
                times.acknowledge(number)

        producer.send(task["topic"], _VALUE, on_delivery=known)

    _on_schedule(times, rate, send, time.sleep)
    times.wait()
    producer.close()


def _confluent(task: dict[str, Any], times: Times, rate: int) -> None:
    from confluent_kafka import Producer

    security = librdkafka_security(task.get("security", {}))
    producer = Producer(
        {"bootstrap.servers": task["bootstrap"], "acks": "all", "linger.ms": 0, "log_level": 0, **security}
    )

    def send(number: int) -> None:
        def known(error: object, message: object) -> None:
            if error is None:
                times.acknowledge(number)

        producer.produce(task["topic"], _VALUE, on_delivery=known)

    _on_schedule(times, rate, send, producer.poll)
    producer.flush(_TIMEOUT_SECONDS)
    times.wait()


def _kafka_python(task: dict[str, Any], times: Times, rate: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from kafka import KafkaProducer

    pinned = {"api_version": (2, 3)} if task["is_mock"] else {}
    producer = KafkaProducer(
        bootstrap_servers=task["bootstrap"], acks="all", linger_ms=0, enable_idempotence=False, **pinned
    )

    def send(number: int) -> None:
        producer.send(task["topic"], _VALUE).add_callback(lambda metadata: times.acknowledge(number))

    _on_schedule(times, rate, send, time.sleep)
    times.wait()
    producer.close()


def _aiokafka(task: dict[str, Any], times: Times, rate: int) -> None:
    asyncio.run(_aiokafka_loop(task, times, rate))


async def _aiokafka_loop(task: dict[str, Any], times: Times, rate: int) -> None:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(
        bootstrap_servers=task["bootstrap"], acks="all", linger_ms=0, enable_idempotence=False
    )
    await producer.start()

    def known(number: int) -> Callable[[Any], None]:
        def acknowledge(future: Any) -> None:
            if future.exception() is None:
                times.acknowledge(number)

        return acknowledge

    started = time.perf_counter()
    for number in range(len(times.sent)):
        while (left := started + number / rate - time.perf_counter()) > 0:
            await asyncio.sleep(left)
        times.sent[number] = time.perf_counter()
        (await producer.send(task["topic"], _VALUE)).add_done_callback(known(number))
    await producer.stop()
    times.wait()


DRIVERS: dict[str, Driver] = {
    "kproducer": _kproducer,
    "kproducer, pure Python": _kproducer,
    "confluent-kafka": _confluent,
    "aiokafka": _aiokafka,
    "kafka-python": _kafka_python,
}


def environment_of(name: str) -> dict[str, str]:
    """Additional variables of a client's process."""
    if not name.startswith("kproducer"):
        return {}
    return {"KPRODUCER_KERNEL": "pure" if name.endswith("pure Python") else "auto"}


def main() -> None:
    """One client at one rate, given as the argument."""
    task = json.loads(sys.argv[1])
    times = Times(WARM_UP_RECORDS + task["count"])
    before = own_cpu_seconds()
    DRIVERS[task["client"]](task, times, task["rate"])
    print(json.dumps({"milliseconds": times.milliseconds(), "cpu_seconds": own_cpu_seconds() - before}))


if __name__ == "__main__":
    main()

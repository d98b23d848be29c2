"""The producers that the demo compares, each as its users learn the result of each record."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Protocol

import confluent_kafka

from kproducer import KafkaProducer, RecordMetadata

#: (key, value)
Record = tuple["bytes | None", bytes]
#: (partition, offset)
Position = tuple[int, int]

#: For both clients, as in docs/performance.md.
SETTINGS = {"acks": "all", "linger.ms": 5, "enable.idempotence": False}
_FLUSH_SECONDS = 120
#: confluent-kafka's documentation calls ``poll(0)`` after each record, which is slower.
_POLL_EVERY = 100
_FULL_QUEUE_WAIT_SECONDS = 0.01
_POLL_SECONDS = 0.1
#: The longest that confluent-kafka's ``flush`` delays Ctrl-C.
_FLUSH_STEP_SECONDS = 0.5


@contextmanager
def gives_up_on_interrupt(producer: KafkaProducer) -> Iterator[None]:
    """At Ctrl-C, do not wait for records that are not acknowledged, as the producer's ``with`` block does."""
    try:
        yield
    except KeyboardInterrupt:
        logging.disable()  # the producer would also report how many records it gives up
        producer.close(0)
        raise


class Results(NamedTuple):
    """What a client has reported about a portion.

    Attributes:
        acknowledged: how many records.
        error: the first one, or ``None``.
        positions: of each record in the order of sending, if the client reports them so; otherwise ``None``.
            A record that failed has the offset -1.
    """

    acknowledged: int
    error: object
    positions: list[Position] | None = None


class Client(Protocol):
    """A producer that is connected to one topic."""

    name: str
    result: str

    def send(self, records: Sequence[Record]) -> Callable[[], Results]:
        """Send until each record is acknowledged or has failed. The returned function is not measured."""
        ...

    def latencies(self, records: Sequence[Record], rate: int) -> list[float]:
        """Send so many records per second; the seconds from each call to its callback."""
        ...


class _Kproducer:
    name = "kproducer"

    def __init__(self, producer: KafkaProducer, topic: str) -> None:
        self._producer = producer
        self._topic = topic

    def latencies(self, records: Sequence[Record], rate: int) -> list[float]:
        sent_at, known_at = [0.0] * len(records), [0.0] * len(records)

        def delivered(number: int, _metadata: RecordMetadata, error: BaseException | None) -> None:
            if error is None:
                known_at[number] = time.perf_counter()

        for number in _on_schedule(len(records), rate):
            key, value = records[number]
            sent_at[number] = time.perf_counter()
            self._producer.send(self._topic, value, key, on_delivery=partial(delivered, number))
        self._producer.flush(_FLUSH_SECONDS)
        return _differences(sent_at, known_at)


class KproducerFutures(_Kproducer):
    """``send()``; the futures are kept, and read when all are complete."""

    result = "future"

    def send(self, records: Sequence[Record]) -> Callable[[], Results]:
        send, topic = self._producer.send, self._topic
        futures = [send(topic, value, key) for key, value in records]
        self._producer.flush(_FLUSH_SECONDS)
        return lambda: self._results(futures)

    def _results(self, futures: list[Any]) -> Results:
        positions, first = [], None
        for future in futures:
            if (error := future.exception(0)) is None:
                metadata = future.result()
                positions.append((metadata.partition, metadata.offset))
            else:
                first = first or error
                positions.append((-1, -1))
        return Results(sum(offset >= 0 for _, offset in positions), first, positions)


class KproducerCallbacks(_Kproducer):
    """``send()`` with a function that is called for each record."""

    result = "callback"

    def send(self, records: Sequence[Record]) -> Callable[[], Results]:
        acknowledged, first = 0, None

        def delivered(_metadata: RecordMetadata, error: BaseException | None) -> None:
            nonlocal acknowledged, first
            if error is None:
                acknowledged += 1
            else:
                first = first or error

        send, topic = self._producer.send, self._topic
        for key, value in records:
            send(topic, value, key, on_delivery=delivered)
        self._producer.flush(_FLUSH_SECONDS)
        return lambda: Results(acknowledged, first)


class Confluent:
    """``produce()`` of confluent-kafka with a function that is called for each record."""

    name = "confluent-kafka"
    result = "callback"

    def __init__(self, settings: Mapping[str, Any], topic: str) -> None:
        self._producer = confluent_kafka.Producer({**settings, "log_level": 0})
        self._topic = topic

    def send(self, records: Sequence[Record]) -> Callable[[], Results]:
        acknowledged, first = 0, None

        def delivered(error: object, _message: object) -> None:
            nonlocal acknowledged, first
            if error is None:
                acknowledged += 1
            else:
                first = first or error

        produce, poll, topic = self._producer.produce, self._producer.poll, self._topic
        with _interruptible():
            for number, (key, value) in enumerate(records):
                while True:
                    try:
                        produce(topic, value, key, on_delivery=delivered)
                        break
                    except BufferError:
                        poll(_FULL_QUEUE_WAIT_SECONDS)
                if number % _POLL_EVERY == 0:
                    poll(0)
            self._flush()
        return lambda: Results(acknowledged, first)

    def latencies(self, records: Sequence[Record], rate: int) -> list[float]:
        sent_at, known_at = [0.0] * len(records), [0.0] * len(records)

        def delivered(number: int, error: object, _message: object) -> None:
            if error is None:
                known_at[number] = time.perf_counter()

        with self._polling():
            for number in _on_schedule(len(records), rate):
                key, value = records[number]
                sent_at[number] = time.perf_counter()
                self._producer.produce(self._topic, value, key, on_delivery=partial(delivered, number))
            self._flush()
        return _differences(sent_at, known_at)

    @contextmanager
    def _polling(self) -> Iterator[None]:
        """A thread that calls ``poll``, which calls the callbacks: they must not wait for the next record."""
        stop = threading.Event()

        def poll() -> None:
            while not stop.is_set():
                self._producer.poll(_POLL_SECONDS)

        thread = threading.Thread(target=poll)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _flush(self) -> None:
        deadline = time.monotonic() + _FLUSH_SECONDS
        while self._producer.flush(_FLUSH_STEP_SECONDS):
            if time.monotonic() > deadline:
                raise TimeoutError(f"confluent-kafka has unacknowledged records after {_FLUSH_SECONDS} s")


@contextmanager
def _interruptible() -> Iterator[None]:
    """If Ctrl-C comes while a callback runs, confluent-kafka replaces ``KeyboardInterrupt``."""
    try:
        yield
    except SystemError as error:
        raise KeyboardInterrupt from error


def _on_schedule(count: int, rate: int) -> Iterator[int]:
    """The numbers below ``count``, each at its time; late ones immediately."""
    started = time.perf_counter()
    for number in range(count):
        while (left := started + number / rate - time.perf_counter()) > 0:
            time.sleep(left)
        yield number


def _differences(sent_at: list[float], known_at: list[float]) -> list[float]:
    if missing := known_at.count(0.0):
        raise RuntimeError(f"{missing:,} of {len(known_at):,} records at a fixed rate were not acknowledged")
    return [known - sent for sent, known in zip(sent_at, known_at, strict=True)]


class Cost(NamedTuple):
    """What sending took: wall time, and user and system time of this process with all its threads."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def plus(self, other: Cost) -> Cost:
        return Cost(self.seconds + other.seconds, self.cpu_seconds + other.cpu_seconds)


def measured(client: Client, records: Sequence[Record]) -> tuple[Callable[[], Results], Cost]:
    """Send the records while the process does nothing else."""
    gc.collect()
    cpu_before, started = time.process_time(), time.perf_counter()
    results = client.send(records)
    seconds = time.perf_counter() - started
    return results, Cost(seconds, time.process_time() - cpu_before)

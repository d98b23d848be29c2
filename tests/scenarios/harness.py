"""A watched producer: it records every send, and the standing promises are checked after the test.

The promises hold in every scenario, with every behaviour of the broker:
each send resolves exactly once; its callback runs exactly once with the same result; the outcomes of a
partition arrive in send order; an acknowledged record is in the log at the reported offset; a record that
failed as "not sent" or "rejected" is not in the log; all buffer memory is free again; nothing is in flight;
no thread and no file descriptor is left; the I/O thread did not spin; and the broker received no request that
a correct producer would not send.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs
import pytest

from kproducer import KafkaError, KafkaProducer, Outcome, RecordMetadata, SendManyResult
from kproducer.testing.fakebroker import FakeCluster
from tests.scenarios import internals
from tests.support.waiting import learn_topics

#: So generous that only a failing test reaches it.
PATIENCE_S = 60.0
_counter = itertools.count()


@attrs.define(eq=False)
class Sent:
    """One accepted ``send`` and its result."""

    topic: str
    key: bytes | None
    value: bytes
    future: Any
    thread_id: int
    callbacks: list[tuple[RecordMetadata, KafkaError | None]] = attrs.field(factory=list)

    def __str__(self) -> str:
        return f"{self.value[:30]!r} ({len(self.value)} bytes) to {self.topic}"

    def metadata(self) -> RecordMetadata:
        """Wait for success."""
        result: RecordMetadata = self.future.result(PATIENCE_S)
        return result

    def error(self) -> KafkaError:
        """Wait for failure."""
        error = self.future.exception(PATIENCE_S)
        assert isinstance(error, KafkaError), f"{error!r}"
        return error


class WatchedProducer:
    """``KafkaProducer`` that records its sends. Thread-safe, too.

    Args:
        cluster: its logs are compared with the results.
        ordered: outcomes arrive in send order per partition and sending thread; false if retries may reorder
            records.
        config: the producer's settings; short timeouts and ``linger_ms=0`` unless given.
    """

    def __init__(self, cluster: FakeCluster, *, ordered: bool = True, **config: Any) -> None:
        self.cluster = cluster
        self.ordered = ordered
        settings: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "linger_ms": 0,
            "retry_backoff_ms": 20,
            "retry_backoff_max_ms": 50,
            "reconnect_backoff_ms": 10,
            "reconnect_backoff_max_ms": 50,
        }
        settings.update(config)
        self.kafka = KafkaProducer(**settings)
        self.acks: int = self.kafka.config.acks
        self.sent: list[Sent] = []
        self.completed: list[Sent] = []
        self._lock = threading.Lock()

    def send(
        self,
        topic: str = "t",
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[[RecordMetadata, KafkaError | None], Any] | None = None,
    ) -> Sent:
        """Send a value that no other send has, unless one is given."""
        value = b"value-%d" % next(_counter) if value is None else value
        sent = Sent(topic, key, value, None, threading.get_ident())

        def note(metadata: RecordMetadata, error: KafkaError | None) -> None:
            with self._lock:
                sent.callbacks.append((metadata, error))
                self.completed.append(sent)
            if on_delivery is not None:
                on_delivery(metadata, error)

        # Appended before send(): the result may arrive before send() returns.
        with self._lock:
            self.sent.append(sent)
        try:
            sent.future = self.kafka.send(
                topic,
                value,
                key=key,
                partition=partition,
                headers=headers,
                timestamp_ms=timestamp_ms,
                on_delivery=note,
            )
        except BaseException:
            with self._lock:
                self.sent.remove(sent)
            raise
        return sent

    def learn(self, *topics: str) -> WatchedProducer:
        """See ``learn_topics``."""
        learn_topics(self.kafka, *topics)
        return self

    def send_until_it_works(self, topic: str = "t") -> Sent:
        """Repeat a send for a while: after a fault, until the producer notices that it has ended."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                sent = self.send(topic)
            except KafkaError:
                assert time.monotonic() < deadline_s
                continue
            if sent.future.exception(PATIENCE_S) is None:
                return sent
            assert time.monotonic() < deadline_s, sent.future.exception(0)

    def send_many(self, count: int, topic: str = "t", **options: Any) -> list[Sent]:
        return [self.send(topic, **options) for _ in range(count)]

    def send_until(self, condition: Callable[[], bool], partitions: int = 1) -> None:
        """Send to each of these partitions of "t" every 2 ms until this is true, then wait for all outcomes.

        Raises:
            AssertionError: it was not true within a minute.
        """
        deadline_s = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline_s
            for partition in range(partitions):
                self.send(partition=partition)
            time.sleep(0.002)
        self.kafka.flush()

    @staticmethod
    def was_not_sent(error: KafkaError) -> bool:
        """True for errors raised by ``send`` itself (nothing was accepted) and for outcome NOT_SENT."""
        return error.outcome in (None, Outcome.NOT_SENT)

    def failing_send(self, topic: str = "t", value: bytes | None = None, **options: Any) -> KafkaError:
        """Send a record that must fail, either in ``send`` itself or through the future."""
        try:
            sent = self.send(topic, value, **options)
        except KafkaError as error:
            return error
        return sent.error()

    def forget(self, sends: Iterable[Sent]) -> None:
        """Do not compare these sends with the log: the broker lied about them."""
        forgotten = list(sends)
        self.sent = [sent for sent in self.sent if sent not in forgotten]
        self.completed = [sent for sent in self.completed if sent not in forgotten]

    def close(self, timeout: float | None = None) -> None:
        self.kafka.close(timeout)

    # -- the promises -------------------------------------------------------------------------------

    def check(self) -> None:
        """Close the producer if it is open, and check its promises."""
        self.kafka.close(PATIENCE_S)
        assert not internals.io_thread(self.kafka).is_alive(), "the I/O thread is alive after close()"
        for sent in self.sent:
            self._check_resolved(sent)
            self._check_log(sent)
        if self.ordered:
            self._check_order()
        self._check_memory()

    def _check_resolved(self, sent: Sent) -> None:
        assert sent.future.done(), f"{sent} was never resolved"
        assert len(sent.callbacks) == 1, f"{sent}: {len(sent.callbacks)} callbacks"
        metadata, error = sent.callbacks[0]
        told = sent.future.exception(0)
        assert (type(told), str(told)) == (type(error), str(error))
        if error is None:
            assert sent.future.result(0) == metadata
        else:
            assert metadata.offset == -1
            assert isinstance(error, KafkaError), f"{error!r}"
            assert error.outcome is not None, f"the error of {sent} has no outcome: {error!r}"
        assert metadata.topic == sent.topic

    def _check_log(self, sent: Sent) -> None:
        metadata, error = sent.callbacks[0]
        topics = [topic for topic in self.cluster.all_topics() if topic.name == sent.topic]
        if error is not None:
            if error.outcome is not Outcome.UNKNOWN:
                found = [r for topic in topics for p in topic.partitions for r in p.records]
                is_there = any(record.value == sent.value for record in found)
                assert not is_there, f"{sent} is in the log: {error!r}"
            return
        if self.acks == 0:
            assert metadata.offset == -1
            return
        at_offset = [
            (record.key, record.value, record.timestamp_ms)
            for topic in topics
            for partition in topic.partitions
            for record in partition.records
            if partition.index == metadata.partition and record.offset == metadata.offset
        ]
        is_there = (sent.key, sent.value, metadata.timestamp_ms) in at_offset
        assert is_there, f"{sent} is not the record at {metadata}"

    def _check_order(self) -> None:
        position = {id(sent): index for index, sent in enumerate(self.sent)}
        last: dict[tuple[str, int, int], int] = {}
        for sent in self.completed:
            metadata = sent.callbacks[0][0]
            if metadata.partition < 0:  # failed before a partition was chosen
                continue
            place = (metadata.topic, metadata.partition, sent.thread_id)
            index = position[id(sent)]
            assert index > last.get(place, -1), f"{sent} was resolved out of order in {place}"
            last[place] = index

    def _check_memory(self) -> None:
        free, total = internals.buffer_memory(self.kafka)
        assert free == total, f"{total - free} bytes of buffer memory are missing"
        assert internals.in_flight_count(self.kafka) == 0
        assert internals.incomplete_count(self.kafka) == 0


class Resources:
    """Threads and file descriptors of this process, compared before and after a test."""

    def __init__(self) -> None:
        self._threads = set(threading.enumerate())
        self._descriptors = _descriptors()

    def check(self) -> None:
        for thread in threading.enumerate():
            # close() does not wait for them. The last ones have told the event loop, or the client of an
            # identity provider, what it waits for, and are about to end.
            if thread.name.startswith(
                ("kproducer-resolver", "kproducer-oauth", "kproducer-gssapi", "kproducer-call-")
            ) or thread.name.endswith("(process_request_thread)"):
                thread.join(60)
        threads = [t for t in threading.enumerate() if t not in self._threads and t.is_alive()]
        assert not threads, f"threads left: {threads}"
        left = {fd: target for fd, target in _descriptors().items() if fd not in self._descriptors}
        assert not left, f"file descriptors left: { {fd: _describe(what) for fd, what in left.items()} }"


def _describe(target: str) -> str:
    """A TCP socket with its ports, which show whether it belongs to the fake cluster or to the producer."""
    inode = target.removeprefix("socket:[").removesuffix("]")
    with open("/proc/self/net/tcp") as table:
        for row in table:
            fields = row.split()
            if fields[9] == inode:
                ends = [int(end.partition(":")[2], 16) for end in fields[1:3]]
                return f"{target} port {ends[0]} to port {ends[1]}, state {fields[3]}"
    return target


def _descriptors() -> dict[str, str]:
    """Without pipes, which a producer does not use, and clients of librdkafka do: those of an earlier test in
    the same process make some whenever they connect again."""
    found = {}
    for descriptor in os.listdir("/proc/self/fd"):
        # The descriptor of this directory listing is gone.
        with contextlib.suppress(FileNotFoundError):
            target = os.readlink(f"/proc/self/fd/{descriptor}")
            if not target.startswith("pipe:"):
                found[descriptor] = target
    return found


class PollMeter:
    """Counts the polls of the I/O thread. A spinning loop makes tens of thousands per second.

    The limit grows with the number of events (requests, sends, connections) and slowly with time, so a slow
    machine can only loosen it.
    """

    BASE = 400
    PER_EVENT = 20
    PER_SECOND = 200

    def __init__(self) -> None:
        self.count = 0
        self._started = time.monotonic()

    def check(self, event_count: int) -> None:
        elapsed_s = time.monotonic() - self._started
        bound = self.BASE + self.PER_EVENT * event_count + self.PER_SECOND * elapsed_s
        assert self.count <= bound, (
            f"{self.count} polls for {event_count} events in {elapsed_s:.2f} s: the I/O thread spins"
        )


def partial(caught: pytest.ExceptionInfo[BaseException]) -> SendManyResult:
    """What a bulk call that has raised had accepted."""
    result = caught.value.partial_result  # type: ignore[attr-defined]
    assert isinstance(result, SendManyResult)
    return result

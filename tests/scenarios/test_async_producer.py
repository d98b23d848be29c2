"""AsyncKafkaProducer against the strict fake broker: waiting in order, cancellation, shutdown, several loops.

Each test runs in the event loop of asyncio and in that of uvloop. ``run`` fails if anything blocks the thread
of the loop, or if a task or an error is left over.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import re
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest
import uvloop

from kproducer import (
    AbortTransactionError,
    AsyncKafkaProducer,
    BufferExhaustedError,
    CancelledSend,
    CloseTimeoutError,
    ConsumerGroupMetadata,
    IllegalStateError,
    InvalidArgumentError,
    KafkaError,
    KafkaTimeoutError,
    MetadataTimeoutError,
    OffsetAndMetadata,
    Outcome,
    ProducerClosedError,
    ProducerRecord,
    RecordMetadata,
    SerializationError,
    TopicPartition,
)
from kproducer._core.accumulator.future_record_metadata import ProduceRequestResult
from kproducer.aio.waiting_records import WaitingRecords
from kproducer.compat.aiokafka import AIOKafkaProducer
from kproducer.schema_registry import AvroSerializer, SchemaRegistryClient
from kproducer.testing.fakebroker import FakeCluster, faults
from kproducer.testing.schema_registry import FakeSchemaRegistry
from tests.scenarios import internals
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S

PRODUCE, METADATA, INIT_PRODUCER_ID, END_TXN = 0, 3, 22, 26
ONE_BATCH: dict[str, Any] = {"buffer_memory": 16_384, "batch_size": 16_384, "linger_ms": 0}
#: More than half of a batch, so that each record needs memory of its own.
LARGE = b"x" * 9_000
_Result = TypeVar("_Result")


class Runner:
    """Runs coroutines in new event loops, and fails if one of them was blocked."""

    def __init__(self, new_loop: Callable[[], asyncio.AbstractEventLoop], patch: pytest.MonkeyPatch) -> None:
        self.new_loop = new_loop
        self._threads: set[int] = set()
        self.blocked: list[str] = []
        self.reported: list[dict[str, Any]] = []
        self._this_thread = threading.local()
        self._thread_start = threading.Thread.start
        patch.setattr(threading.Thread, "start", lambda thread: self._start(thread))
        for owner, name in (
            (threading.Event, "wait"),
            (threading.Condition, "wait"),
            (threading.Thread, "join"),
            (ProduceRequestResult, "wait"),
            (time, "sleep"),
        ):
            patch.setattr(owner, name, self._watched(f"{owner.__name__}.{name}", getattr(owner, name)))

    def _watched(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            # An executor asks its semaphore, without waiting.
            waits = (
                not getattr(self._this_thread, "starts", False)
                and sys._getframe(1).f_code.co_name != "acquire"
            )
            if threading.get_ident() in self._threads and waits:
                self.blocked.append(name)
            return function(*arguments, **options)

        return call

    def _start(self, thread: threading.Thread) -> None:
        # It waits until the new thread runs.
        self._this_thread.starts = True
        try:
            self._thread_start(thread)
        finally:
            self._this_thread.starts = False

    def __call__(self, main: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
        loop = self.new_loop()
        loop.set_exception_handler(lambda _, context: self.reported.append(context))
        self._threads.add(threading.get_ident())
        try:
            return loop.run_until_complete(asyncio.wait_for(main(), PATIENCE_S))
        finally:
            self._threads.discard(threading.get_ident())
            gc.collect()
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    def check(self) -> None:
        assert self.blocked == []
        assert self.reported == []


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    runner = Runner(request.param, monkeypatch)
    yield runner
    runner.check()


def producer_of(cluster: FakeCluster, **settings: Any) -> AsyncKafkaProducer:
    return AsyncKafkaProducer(cluster.bootstrap_servers, retry_backoff_ms=20, **settings)


def check_memory(producer: AsyncKafkaProducer) -> None:
    free, total = internals.buffer_memory(producer._producer)
    assert free == total


def values(cluster: FakeCluster, topic: str = "t") -> list[bytes | None]:
    return [record.value for record in cluster.records(topic, 0)]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def outcome_of(awaitable: Awaitable[Any]) -> Any:
    """The result or the error."""
    return (await asyncio.gather(awaitable, return_exceptions=True))[0]


# -- records -----------------------------------------------------------------------------------------------


def test_ten_thousand_concurrent_sends_are_delivered_in_order(stage: Stage, run: Runner) -> None:
    cluster = stage.cluster()

    async def main() -> None:
        async with producer_of(cluster) as producer:
            sends = [producer.send("t", b"%d" % number) for number in range(10_000)]
            metadata = await asyncio.gather(*sends)
        assert [each.offset for each in metadata] == list(range(10_000))
        check_memory(producer)

    run(main)
    assert values(cluster) == [b"%d" % number for number in range(10_000)]


def test_submit_returns_before_the_delivery(stage: Stage, cluster: FakeCluster, run: Runner) -> None:
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate))

    async def main() -> None:
        async with producer_of(cluster) as producer:
            future = await producer.submit("t", b"one")
            assert not future.done()
            gate.open()
            assert (await future).offset == 0

    run(main)


def test_awaiting_many_records_wakes_the_loop_once_for_each_batch(
    stage: Stage, cluster: FakeCluster, run: Runner
) -> None:
    gate = cluster.gate()

    async def main() -> None:
        async with producer_of(cluster, linger_ms=0) as producer:
            await producer.send("t", b"first")
            cluster.control(PRODUCE, faults.hold_before(gate))
            sends = [producer.send("t", b"x" * 100) for _ in range(1000)]
            futures = [await producer.submit("t", b"y" * 100) for _ in range(1000)]
            loop: Any = asyncio.get_running_loop()
            wakeups: list[object] = []
            post = type(producer._latest.waiters.wakeup).post  # type: ignore[union-attr]

            def counted(wakeup: Any, action: Any) -> bool:
                if threading.current_thread() is internals.io_thread(producer._producer):
                    wakeups.append(action)
                return post(wakeup, action)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(type(producer._latest.waiters.wakeup), "post", counted)  # type: ignore[union-attr]
                before = len(cluster.requests(PRODUCE))
                gate.open()
                await asyncio.gather(*sends, *futures)
                responses = len(cluster.requests(PRODUCE)) - before + 1
            assert loop is asyncio.get_running_loop()
            assert 1 <= len(wakeups) <= responses

    run(main)


def test_errors_are_those_of_the_threaded_producer(stage: Stage, cluster: FakeCluster, run: Runner) -> None:
    async def main() -> None:
        async with producer_of(cluster, max_block_ms=50) as producer:
            for arguments in (("t", object()), ("t", b"x", None, None, "two"), (7, b"x"), ("nope", b"x")):
                with pytest.raises(KafkaError) as threaded:
                    await asyncio.to_thread(producer._producer.send, *arguments)
                for call in (producer.send, producer.submit):
                    error = await outcome_of(call(*arguments))
                    text = str(threaded.value).partition("; brokers")[0]
                    assert (type(error), str(error).partition("; brokers")[0]) == (type(threaded.value), text)
                    assert error.outcome is Outcome.NOT_SENT

    run(main)


def test_hooks_run_once_in_the_loop_even_if_the_record_waits(
    stage: Stage, cluster: FakeCluster, run: Runner
) -> None:
    gate = cluster.gate()
    seen: list[tuple[str, Any, str, int]] = []
    caller: contextvars.ContextVar[str] = contextvars.ContextVar("caller")

    def note(what: str, value: Any) -> None:
        seen.append((what, value, caller.get("nobody"), threading.get_ident()))

    class Noting:
        def on_send(self, record: ProducerRecord) -> None:
            note("intercepted", record.value)

        def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
            seen.append(("acknowledged", metadata.offset, "", 0))

    def serialize(value: str) -> bytes:
        note("serialized", value)
        return value.encode() * 9_000

    async def send(producer: AsyncKafkaProducer, value: str) -> RecordMetadata:
        caller.set(value)
        return await producer.send("t", value)

    async def main() -> None:
        settings = {**ONE_BATCH, "interceptors": [Noting()], "value_serializer": serialize}
        async with producer_of(cluster, **settings) as producer:
            tasks = [asyncio.create_task(send(producer, value)) for value in "abcd"]
            cluster.control(PRODUCE, faults.hold_before(gate))
            await asyncio.to_thread(gate.wait_until_reached)
            gate.open()
            await asyncio.gather(*tasks)

    run(main)
    me = threading.get_ident()
    for value in "abcd":
        hooks = [each for each in seen if each[1] == value]
        assert hooks == [("intercepted", value, value, me), ("serialized", value, value, me)]
    assert sorted(offset for what, offset, *_ in seen if what == "acknowledged") == [0, 1, 2, 3]


def test_an_interceptor_cannot_cancel_the_record_that_it_sees(
    stage: Stage, cluster: FakeCluster, run: Runner
) -> None:
    """Whether the record will be written is not known in that moment."""
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate))
    cancelled: list[bool] = []

    class Cancelling:
        def on_send(self, record: ProducerRecord) -> None:
            if record.value == b"last":
                cancelled.append(sends[-1].cancel())

    async def main() -> None:
        async with producer_of(cluster, interceptors=[Cancelling()], **ONE_BATCH) as producer:
            await producer.partitions_for("t")
            sends.extend(producer.send("t", LARGE) for _ in range(4))
            sends.append(producer.send("t", b"last"))
            gate.open()
            assert (await sends[-1]).topic == "t"

    sends: list[Any] = []
    run(main)
    assert cancelled == [False]
    assert values(cluster)[-1] == b"last"


def test_a_serializer_that_fails_holds_nobody_up(stage: Stage, cluster: FakeCluster, run: Runner) -> None:
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate))

    async def main() -> None:
        async with producer_of(cluster, **ONE_BATCH) as producer:
            await producer.partitions_for("t")
            good = [producer.send("t", LARGE) for _ in range(3)]
            bad = producer.send("t", object())
            last = producer.send("t", b"last")
            gate.open()
            assert isinstance(await outcome_of(bad), SerializationError)
            await asyncio.gather(*good, last)

    run(main)
    assert values(cluster)[-1] == b"last"


# -- waiting for memory ------------------------------------------------------------------------------------


def test_without_memory_a_record_fails_after_max_block(
    stage: Stage, cluster: FakeCluster, run: Runner
) -> None:
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate))

    async def main() -> None:
        async with producer_of(cluster, max_block_ms=200, **ONE_BATCH) as producer:
            await producer.partitions_for("t")
            first = [producer.send("t", LARGE)]
            await asyncio.to_thread(gate.wait_until_reached)
            errors = await asyncio.gather(
                producer.submit("t", LARGE), producer.send("t", LARGE), return_exceptions=True
            )
            assert [type(error) for error in errors] == [BufferExhaustedError] * 2
            reason = r"buffer memory within max_block_ms \(waited \d+ ms"
            assert all(re.search(reason, str(error)) for error in errors)
            assert {error.outcome for error in errors} == {Outcome.NOT_SENT}  # type: ignore[union-attr]
            assert producer._latest is not None
            assert producer._latest.count == 0
            gate.open()
            await asyncio.gather(*first)
            await producer.send("t", b"later")
        check_memory(producer)

    run(main)
    assert values(cluster) == [LARGE, b"later"]


def test_a_cancelled_wait_for_memory_is_not_sent(stage: Stage, cluster: FakeCluster, run: Runner) -> None:
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate))

    async def main() -> None:
        async with producer_of(cluster, **ONE_BATCH) as producer:
            await producer.partitions_for("t")
            first = producer.send("t", LARGE)
            tasks = [asyncio.ensure_future(producer.submit("t", b"%d" % n + LARGE)) for n in range(5)]
            await asyncio.sleep(0)
            for number in (0, 3):
                tasks[number].cancel()
            for number in (0, 3):
                with pytest.raises(asyncio.CancelledError) as cancelled:
                    await tasks[number]
                report = CancelledSend.of(cancelled.value)
                assert report is not None
                assert (report.outcome, report.record) == (Outcome.NOT_SENT, None)
            gate.open()
            await first
            for number in (1, 2, 4):
                await (await tasks[number])
        check_memory(producer)

    run(main)
    assert [value[:1] for value in values(cluster) if value] == [b"x", b"1", b"2", b"4"]


def test_a_cancelled_send_in_flight_may_be_written(stage: Stage, cluster: FakeCluster, run: Runner) -> None:
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate))

    async def main() -> None:
        async with producer_of(cluster) as producer:
            with pytest.raises(asyncio.TimeoutError) as timeout:
                await asyncio.wait_for(producer.send("t", b"one"), 0.05)
            report = CancelledSend.of(timeout.value)
            assert report is not None
            assert report.outcome is Outcome.UNKNOWN
            assert report.record is not None
            task = asyncio.create_task(producer.send("t", b"two"))
            await asyncio.sleep(0)
            task.cancel("told so")
            with pytest.raises(asyncio.CancelledError, match="told so") as cancelled:
                await task
            second = CancelledSend.of(cancelled.value)
            assert second is not None
            assert second.record is not None
            gate.open()
            assert (await report.record).offset == 0
            assert (await second.record).offset == 1

    run(main)


def test_threads_and_loops_wait_for_memory_in_one_queue(
    stage: Stage, cluster: FakeCluster, run: Runner
) -> None:
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate))

    async def main() -> None:
        async with producer_of(cluster, **ONE_BATCH) as producer:
            await producer.partitions_for("t")
            first = producer.send("t", b"0" + LARGE)
            await asyncio.to_thread(gate.wait_until_reached)
            waiting = internals.memory_waiters
            sends: list[Any] = []
            for number in range(1, 5):
                value = b"%d" % number + LARGE
                if number % 2:
                    sends.append(
                        asyncio.ensure_future(asyncio.to_thread(producer._producer.send, "t", value))
                    )
                else:
                    # The loop has one place in the queue, for the first of its records.
                    sends.append(producer.send("t", value))
                await until(lambda number=number: waiting(producer._producer) >= min(number, 3))  # type: ignore[misc]
                await asyncio.sleep(0.01)
            gate.open()
            await first
            await asyncio.gather(*sends)

    run(main)
    order = [value[:1] for value in values(cluster) if value]
    assert order[:4] == [b"0", b"1", b"2", b"3"]
    assert sorted(order) == [b"0", b"1", b"2", b"3", b"4"]


# -- waiting for metadata ----------------------------------------------------------------------------------


def test_a_topic_that_does_not_appear_is_a_timeout(stage: Stage, cluster: FakeCluster, run: Runner) -> None:
    async def main() -> None:
        async with producer_of(cluster, max_block_ms=100) as producer:
            errors = await asyncio.gather(
                *(producer.send("nope", b"x") for _ in range(3)),
                producer.send("t", b"x", partition=9),
                outcome_of(producer.partitions_for("nope")),
                return_exceptions=True,
            )
            assert {type(error) for error in errors} == {MetadataTimeoutError}
            assert "partition 9 did not appear" in str(errors[3])
            assert "topic 'nope' is not known to the cluster" in str(errors[0])
            assert producer._latest is not None
            assert producer._latest.count == 0

    run(main)


# -- flush and close ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", [METADATA, PRODUCE], ids=["a record without its topic", "a batch"])
def test_flush_that_is_not_done_in_time(stage: Stage, cluster: FakeCluster, run: Runner, api: int) -> None:
    gate = cluster.gate()
    cluster.control(api, faults.hold_before(gate))

    async def main() -> None:
        async with producer_of(cluster) as producer:
            send = producer.send("t", b"x")
            with pytest.raises(KafkaTimeoutError, match=r"flush\(0.05\): 1 records are not acknowledged yet"):
                await producer.flush(0.05)
            with pytest.raises(InvalidArgumentError):
                await producer.flush("soon")  # type: ignore[arg-type]
            gate.open()
            await producer.flush(PATIENCE_S)
            assert (await send).offset == 0

    run(main)


def test_flush_0_returns_if_there_is_nothing_to_wait_for(
    stage: Stage, cluster: FakeCluster, run: Runner
) -> None:
    async def main() -> None:
        async with producer_of(cluster) as producer:
            await producer.send("t", b"x")
            await producer.flush(0)

    run(main)


def test_a_flush_that_is_given_up_says_nothing_of_records(
    stage: Stage, cluster: FakeCluster, run: Runner
) -> None:
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate))

    async def main() -> None:
        async with producer_of(cluster) as producer:
            send = producer.send("t", b"x")
            await asyncio.to_thread(gate.wait_until_reached)
            timed_out = await outcome_of(producer.flush(0.05))
            assert isinstance(timed_out, KafkaTimeoutError)
            flushing = asyncio.ensure_future(producer.flush())
            await asyncio.sleep(0.01)
            flushing.cancel()
            with pytest.raises(asyncio.CancelledError) as cancelled:
                await flushing
            assert CancelledSend.of(timed_out) is CancelledSend.of(cancelled.value) is None
            gate.open()
            await send

    run(main)


def test_aclose_delivers_what_waits(stage: Stage, cluster: FakeCluster, run: Runner) -> None:
    async def main() -> None:
        producer = producer_of(cluster, **ONE_BATCH)
        sends = [producer.send("t", LARGE) for _ in range(5)]
        submitted = asyncio.ensure_future(producer.submit("t", LARGE))
        await asyncio.sleep(0)
        await asyncio.gather(*(producer.aclose() for _ in range(3)))
        assert [(await send).offset for send in sends] == list(range(5))
        assert (await (await submitted)).offset == 5
        await producer.aclose()
        for call in (producer.send, producer.submit):
            assert isinstance(await outcome_of(call("t", b"x")), ProducerClosedError)
        check_memory(producer)

    run(main)


@pytest.mark.parametrize("timeout", [0, 0.05])
def test_aclose_refuses_what_still_waits_at_its_timeout(
    stage: Stage, cluster: FakeCluster, run: Runner, timeout: float
) -> None:
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate))

    async def main() -> None:
        producer = producer_of(cluster, **ONE_BATCH)
        await producer.partitions_for("t")
        first = producer.send("t", LARGE)
        await asyncio.to_thread(gate.wait_until_reached)
        waiting = [producer.send("t", LARGE) for _ in range(3)] + [producer.send("nope", b"x")]
        closing = outcome_of(producer.aclose(timeout))
        assert isinstance(await closing, CloseTimeoutError if timeout else type(None))
        for send in waiting:
            assert isinstance(error := await outcome_of(send), ProducerClosedError)
            assert error.outcome is Outcome.NOT_SENT
        assert isinstance(await outcome_of(first), ProducerClosedError)
        check_memory(producer)

    run(main)
    gate.open()


def test_a_cancelled_aclose_closes_all_the_same(stage: Stage, cluster: FakeCluster, run: Runner) -> None:
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate))

    async def main() -> None:
        producer = producer_of(cluster)
        send = producer.send("t", b"x")
        closing = asyncio.ensure_future(producer.aclose())
        await asyncio.to_thread(gate.wait_until_reached)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        gate.open()
        assert (await send).offset == 0
        await producer.aclose()

    run(main)


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
def test_a_body_that_fails_still_delivers(
    stage: Stage, cluster: FakeCluster, run: Runner, error: type[BaseException]
) -> None:
    sends: list[Any] = []

    async def main() -> None:
        with pytest.raises(error):  # noqa: PT012
            async with producer_of(cluster) as producer:
                sends.append(producer.send("t", b"x"))
                raise error
        assert (await sends[0]).offset == 0

    run(main)


# -- serializers that have to be prepared --------------------------------------------------------------------


class Prepared:
    """A serializer that blocks with the first record of a topic, unless it is prepared for it."""

    def __init__(self, *errors: Exception) -> None:
        self.is_called, self.may_end = threading.Event(), threading.Event()
        self.topics: set[str] = set()
        self.calls: list[str] = []
        self._errors = list(errors)

    def is_prepared(self, topic: str) -> bool:
        return topic in self.topics

    def prepare(self, topic: str) -> None:
        self.calls.append(topic)
        self.is_called.set()
        assert self.may_end.wait(PATIENCE_S)  # ``run`` fails if that is in the thread of the loop
        if self._errors:
            raise self._errors.pop(0)
        self.topics.add(topic)

    def serialize(self, topic: str, headers: list[tuple[str, bytes | None]], value: Any) -> bytes:
        if topic not in self.topics:
            self.prepare(topic)
        return b"%d" % value


def test_a_serializer_that_is_not_prepared_does_not_block_the_loop(stage: Stage, run: Runner) -> None:
    cluster = stage.cluster()
    for topic in ("t", "other"):
        cluster.create_topic(topic, 1)
    values_of, keys_of = Prepared(), Prepared()
    values_of.topics, keys_of.topics = {"other"}, {"other"}

    async def main() -> None:
        async with producer_of(cluster, key_serializer=keys_of, value_serializer=values_of) as producer:
            first = producer.send("t", 0)
            rest = [producer.send("t", number, 5) for number in range(1, 200)]
            submitted = asyncio.create_task(producer.submit("t", 200, 5))
            await producer.send("other", 1, 1)
            await until(values_of.is_called.is_set)
            assert not first.done()
            values_of.may_end.set()
            keys_of.may_end.set()
            await asyncio.gather(first, *rest)
            await (await submitted)
            await producer.send("t", 201, 5)

    run(main)
    assert [record.value for record in cluster.records("t", 0)] == [b"%d" % n for n in range(202)]
    assert [values_of.calls, keys_of.calls] == [["t"], ["t"]]


def test_a_null_needs_no_serializer(stage: Stage, cluster: FakeCluster, run: Runner) -> None:
    async def main() -> None:
        async with producer_of(cluster, value_serializer=Prepared()) as producer:
            await producer.send("t", None)

    run(main)


def test_a_record_that_waits_for_its_serializer_can_be_cancelled(
    stage: Stage, cluster: FakeCluster, run: Runner
) -> None:
    serializer = Prepared()

    async def main() -> None:
        async with producer_of(cluster, value_serializer=serializer) as producer:
            sends = [producer.send("t", number) for number in range(3)]
            await until(serializer.is_called.is_set)
            sends[0].cancel()
            report = CancelledSend.of(await outcome_of(sends[0]))
            assert report is not None
            assert report.outcome is Outcome.NOT_SENT
            serializer.may_end.set()
            await asyncio.gather(*sends[1:])

    run(main)
    assert values(cluster) == [b"1", b"2"]


def test_a_serializer_that_cannot_be_prepared_fails_the_records_that_wait(
    stage: Stage, cluster: FakeCluster, run: Runner
) -> None:
    serializer = Prepared(ValueError("no schema"))
    serializer.may_end.set()

    async def main() -> None:
        async with producer_of(cluster, value_serializer=serializer) as producer:
            sends = [producer.send("t", number) for number in range(2)]
            for send in sends:
                with pytest.raises(
                    SerializationError, match=r"the value for topic 't': ValueError.*no schema"
                ):
                    await send
            assert (await outcome_of(sends[0])).outcome is Outcome.NOT_SENT
            await producer.send("t", 2)

    run(main)
    assert values(cluster) == [b"2"]


def test_a_serializer_that_takes_too_long_is_a_timeout(
    stage: Stage, cluster: FakeCluster, run: Runner
) -> None:
    serializer = Prepared()

    async def main() -> None:
        async with producer_of(cluster, value_serializer=serializer, max_block_ms=200) as producer:
            await producer.partitions_for("t")
            with pytest.raises(KafkaTimeoutError, match=r"serializer .* topic 't' within max_block_ms=200"):
                await producer.send("t", 1)
            serializer.may_end.set()
            await until(lambda: "t" in serializer.topics)
            await producer.send("t", 2)

    run(main)
    assert values(cluster) == [b"2"]


def test_aclose_refuses_what_waits_for_a_serializer(stage: Stage, cluster: FakeCluster, run: Runner) -> None:
    serializer = Prepared()

    async def main() -> None:
        producer = producer_of(cluster, value_serializer=serializer)
        send = producer.send("t", 1)
        await until(serializer.is_called.is_set)
        await producer.aclose(0)
        assert isinstance(await outcome_of(send), ProducerClosedError)
        serializer.may_end.set()

    run(main)


def test_a_commit_waits_for_a_serializer(one: FakeCluster, run: Runner) -> None:
    serializer = Prepared()

    async def main() -> None:
        async with producer_of(one, value_serializer=serializer, transactional_id="it") as producer:
            await producer.init_transactions()
            async with producer.transaction():
                producer.send("t", 1, partition=0)
                await until(serializer.is_called.is_set)
                asyncio.get_running_loop().call_later(0.01, serializer.may_end.set)

    run(main)
    assert [each.value for each in one.committed_records("t", 0)] == [b"1"]


def test_the_schema_registry_is_asked_on_a_thread(
    stage: Stage, cluster: FakeCluster, run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[int] = set()
    look_up = SchemaRegistryClient.register_schema_full_response

    def noted(*arguments: Any) -> Any:
        threads.add(threading.get_ident())
        return look_up(*arguments)

    monkeypatch.setattr(SchemaRegistryClient, "register_schema_full_response", noted)

    async def main(url: str) -> None:
        with SchemaRegistryClient({"url": url}) as client:
            serializer = AvroSerializer(client, "string")
            async with producer_of(cluster, value_serializer=serializer) as producer:
                sends = [producer.send("t", f"{number}") for number in range(10)]
                await asyncio.gather(*sends)

    with FakeSchemaRegistry() as registry:
        run(lambda: main(registry.url))
    assert [value[-1:] for value in values(cluster) if value] == [b"%d" % number for number in range(10)]
    assert threads
    assert threading.get_ident() not in threads


# -- loops -------------------------------------------------------------------------------------------------


def test_one_producer_in_two_loops_one_after_another(stage: Stage, cluster: FakeCluster, run: Runner) -> None:
    producer = producer_of(cluster)

    async def main() -> int:
        return (await producer.send("t", b"x")).offset

    assert [run(main), run(main)] == [0, 1]
    run(producer.aclose)


def test_a_thread_may_alternate_between_two_loops(stage: Stage, cluster: FakeCluster, run: Runner) -> None:
    gate = cluster.gate()
    producer = producer_of(cluster, linger_ms=0)
    one, two = run.new_loop(), run.new_loop()

    async def send() -> list[Any]:
        await producer.partitions_for("t")
        return [producer.send("t", b"%d" % number, partition=0) for number in range(1000)]

    async def flush(futures: list[Any]) -> list[bool]:
        await producer.flush()
        return [future.done() for future in futures]

    cluster.control(PRODUCE, faults.hold_before(gate), times=None)
    sent = {loop: loop.run_until_complete(send()) for loop in (one, two)}
    gate.open()
    for loop in (one, two):
        assert all(loop.run_until_complete(asyncio.wait_for(flush(sent[loop]), PATIENCE_S)))
    one.run_until_complete(producer.aclose())
    one.close()
    two.close()


def test_a_loop_that_is_closed_early_harms_no_other(stage: Stage, cluster: FakeCluster, run: Runner) -> None:
    gate = cluster.gate()
    cluster.control(PRODUCE, faults.hold_before(gate))
    producer = producer_of(cluster, **ONE_BATCH)
    left: list[Any] = []

    async def leave() -> None:
        await producer.partitions_for("t")
        left.extend(producer.send("t", LARGE) for _ in range(4))
        await asyncio.to_thread(gate.wait_until_reached)

    run(leave)

    async def main() -> None:
        sends = [producer.send("t", b"other" + LARGE) for _ in range(4)]
        gate.open()
        await asyncio.gather(*sends)
        await producer.aclose()
        check_memory(producer)

    run(main)
    assert [value and value[:1] for value in values(cluster)].count(b"o") == 4


def test_records_that_wait_in_another_loop_do_not_slow_submit_down(
    stage: Stage, cluster: FakeCluster, run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = producer_of(cluster)
    other = asyncio.new_event_loop()

    async def wait_for_a_topic() -> None:
        producer.send("nope", b"waits")

    other.run_until_complete(wait_for_a_topic())
    slow: list[Any] = []

    async def main() -> None:
        await producer.send("t", b"warm-up")
        accept = WaitingRecords.accept
        monkeypatch.setattr(
            WaitingRecords, "accept", lambda *arguments: slow.append(arguments) or accept(*arguments)
        )
        await asyncio.gather(*[await producer.submit("t", b"fast") for _ in range(10)])

    run(main)
    other.close()
    run(producer.aclose)
    # The first record of a batch needs the general path.
    assert len(slow) < 10


# -- cancellation when a record was just accepted ----------------------------------------------------------


@pytest.mark.parametrize("after_another", [False, True])
def test_a_submit_cancelled_when_it_was_accepted_reports_its_record(
    stage: Stage, run: Runner, after_another: bool
) -> None:
    cluster = stage.cluster()

    async def main() -> None:
        async with producer_of(cluster, metadata_max_age_ms=50) as producer:

            async def submit() -> Any:
                if not after_another:
                    return await producer.submit("late", b"x")
                try:
                    return await producer.submit("nope", b"never accepted")
                except asyncio.CancelledError:
                    return await producer.submit("late", b"x")

            task = asyncio.create_task(submit())
            await asyncio.sleep(0)
            if after_another:
                task.cancel()
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            waiting = producer._by_loop[asyncio.get_running_loop()]
            accepted = waiting._accepted

            def accept_and_cancel(*arguments: Any) -> None:
                accepted(*arguments)
                task.cancel("stop")

            waiting._accepted = accept_and_cancel  # type: ignore[method-assign, assignment]
            cluster.create_topic("late", 1)
            with pytest.raises(asyncio.CancelledError, match="stop") as cancelled:
                await task
            report = CancelledSend.of(cancelled.value)
            assert report is not None
            assert report.outcome is Outcome.UNKNOWN
            assert report.record is not None
            assert (await report.record).topic == "late"

    run(main)


def test_tasks_that_ask_for_the_same_topic_share_a_thread(stage: Stage, run: Runner) -> None:
    cluster = stage.cluster()

    async def main() -> None:
        async with producer_of(cluster, metadata_max_age_ms=50) as producer:
            before = threading.active_count()
            tasks = [asyncio.create_task(producer.partitions_for("late")) for _ in range(100)]
            await asyncio.sleep(0.01)
            assert threading.active_count() == before + 1
            tasks[0].cancel()
            cluster.create_topic("late", 2)
            assert {len(each) for each in await asyncio.gather(*tasks[1:])} == {2}

    run(main)


def test_the_adapter_for_aiokafka_keeps_the_order_of_a_partition(stage: Stage, run: Runner) -> None:
    cluster = stage.cluster()

    async def main() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, retry_backoff_ms=20
        ) as producer:
            before = threading.active_count()
            tasks = [
                asyncio.create_task(producer.send("late", b"%d" % number, partition=0))
                for number in range(100)
            ]
            await asyncio.sleep(0.01)
            assert threading.active_count() <= before
            cluster.create_topic("late", 1)
            offsets = [(await each).offset for each in await asyncio.gather(*tasks)]
            assert offsets == list(range(100))
            for partition in (-1, 1):
                with pytest.raises(AssertionError, match="Unrecognized partition"):
                    await producer.send("late", b"x", partition=partition)

    run(main)


# -- bulk calls and transactions ---------------------------------------------------------------------------


def test_send_many_and_send_arrow(stage: Stage, cluster: FakeCluster, run: Runner) -> None:
    pyarrow = pytest.importorskip("pyarrow")

    async def main() -> None:
        async with producer_of(cluster, **ONE_BATCH) as producer:
            waiting = [producer.send("t", b"%d" % number + LARGE) for number in range(3)]
            many = await producer.send_many("t", (b"m%d" % number for number in range(100)))
            arrow = await producer.send_arrow("t", pyarrow.table({"value": ["a", "b"]}))
            assert (await many).succeeded_count == 100
            assert (await arrow).succeeded_count == 2
            await asyncio.gather(*waiting)
            assert isinstance(
                await outcome_of(producer.send_many("t", [b"x"], partitions=[1, 2])), KafkaError
            )

    run(main)
    assert [value[:2] for value in values(cluster)[:4] if value] == [b"0x", b"1x", b"2x", b"m0"]


def test_transactions_commit_and_abort(one: FakeCluster, run: Runner) -> None:
    async def main() -> None:
        async with producer_of(one, transactional_id="it") as producer:
            await producer.init_transactions()
            async with producer.transaction():
                producer.send("t", b"kept", partition=0)
            with pytest.raises(ValueError, match="no"):  # noqa: PT012
                async with producer.transaction():
                    await producer.send("t", b"dropped", partition=0)
                    raise ValueError("no")
            async with producer.transaction():
                await producer.send("t", b"kept too", partition=0)

    run(main)
    assert [each.value for each in one.committed_records("t", 0)] == [b"kept", b"kept too"]


def test_a_cancelled_wait_prevents_the_commit(one: FakeCluster, run: Runner) -> None:
    async def main() -> None:
        async with producer_of(one, transactional_id="it") as producer:
            await producer.init_transactions()
            with pytest.raises(AbortTransactionError):  # noqa: PT012
                async with producer.transaction():
                    await producer.send("t", b"one", partition=0)
                    lost = producer.send("nope", b"two")
                    await asyncio.sleep(0)
                    lost.cancel()

    run(main)
    assert one.committed_records("t", 0) == []


def test_a_record_sent_during_a_commit_is_not_part_of_the_next_transaction(stage: Stage, run: Runner) -> None:
    cluster = stage.cluster()

    async def main() -> None:
        settings = {"metadata_max_age_ms": 50, "max_block_ms": 20_000}
        async with producer_of(cluster, transactional_id="it", **settings) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            first = producer.send("early", b"early")
            committing = asyncio.ensure_future(producer.commit_transaction())
            await asyncio.sleep(0)
            second = producer.send("middle", b"middle")
            cluster.create_topic("early", 1)
            await first
            assert not committing.done()
            # The commit runs on a thread when this is sent, which the transaction still allows.
            run_call = producer._calls.run

            async def send_and_run(*arguments: Any, **options: Any) -> Any:
                late.append(producer.send("late", b"late"))
                return await run_call(*arguments, **options)

            late: list[Any] = []
            producer._calls.run = send_and_run  # type: ignore[method-assign]
            cluster.create_topic("middle", 1)
            await committing
            producer._calls.run = run_call  # type: ignore[method-assign]
            await second
            async with producer.transaction():
                cluster.create_topic("late", 1)
                await producer.partitions_for("late")
                error = await outcome_of(late[0])
                assert isinstance(error, IllegalStateError)
                assert error.outcome is Outcome.NOT_SENT

    run(main)
    assert [each.value for each in cluster.committed_records("middle", 0)] == [b"middle"]
    assert cluster.committed_records("late", 0) == []


@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
def test_a_record_that_waits_in_another_loop_is_not_part_of_the_next_transaction(
    stage: Stage, run: Runner, end: str
) -> None:
    cluster = stage.cluster()
    producer = producer_of(cluster, transactional_id="it", metadata_max_age_ms=50)
    errors: list[Any] = []
    is_waiting = threading.Event()

    async def other() -> None:
        send = producer.send("late", b"late")
        is_waiting.set()
        error = await outcome_of(send)
        # Without its traceback, which would keep the frames of the loop, and what they refer to.
        errors.append(error.with_traceback(None))

    async def main() -> None:
        await producer.init_transactions()
        producer.begin_transaction()
        thread = threading.Thread(target=run, args=(other,))
        thread.start()
        await asyncio.to_thread(is_waiting.wait, PATIENCE_S)
        await producer.send("t", b"x")
        await getattr(producer, end)()
        async with producer.transaction():
            await asyncio.to_thread(thread.join, PATIENCE_S)
            cluster.create_topic("late", 1)
            await producer.partitions_for("late")
            await producer.send("t", b"y")
        await producer.aclose()

    run(main)
    assert [type(each) for each in errors] == [IllegalStateError]
    assert errors[0].outcome is Outcome.NOT_SENT
    assert cluster.committed_records("late", 0) == []
    expected = [b"x", b"y"] if end == "commit_transaction" else [b"y"]
    assert [each.value for each in cluster.committed_records("t", 0)] == expected


def test_a_block_that_is_cancelled_while_records_wait_aborts(one: FakeCluster, run: Runner) -> None:
    async def main() -> None:
        async with producer_of(one, transactional_id="it") as producer:
            await producer.init_transactions()
            sends: list[Any] = []

            async def block() -> None:
                async with producer.transaction():
                    await producer.send("t", b"dropped", partition=0)
                    sends.append(producer.send("nope", b"x"))

            task = asyncio.create_task(block())
            await until(lambda: bool(sends))
            await asyncio.sleep(0.01)
            task.cancel()
            assert isinstance(await outcome_of(task), asyncio.CancelledError)
            assert isinstance(await outcome_of(sends[0]), IllegalStateError)
            async with producer.transaction():
                await producer.send("t", b"kept", partition=0)

    run(main)
    assert [each.value for each in one.committed_records("t", 0)] == [b"kept"]


def test_a_block_that_is_cancelled_while_its_commit_is_queued_is_committed(
    one: FakeCluster, run: Runner
) -> None:
    async def main() -> None:
        async with producer_of(one, transactional_id="it") as producer:
            await producer.init_transactions()
            may_end = threading.Event()
            earlier = asyncio.create_task(producer._calls.run(may_end.wait, PATIENCE_S))
            sent: list[Any] = []

            async def block() -> None:
                async with producer.transaction():
                    sent.append(await producer.send("t", b"kept", partition=0))

            task = asyncio.create_task(block())
            await until(lambda: bool(sent))
            await asyncio.sleep(0.01)
            task.cancel()
            assert isinstance(await outcome_of(task), asyncio.CancelledError)
            may_end.set()
            await earlier
            await producer.commit_transaction()

    run(main)
    assert [each.value for each in one.committed_records("t", 0)] == [b"kept"]


def test_a_transaction_is_not_committed_without_a_record_of_a_closed_loop(
    one: FakeCluster, run: Runner
) -> None:
    producer = producer_of(one, transactional_id="it")

    async def leave() -> None:
        await producer.init_transactions()
        producer.begin_transaction()
        await producer.send("t", b"x", partition=0)
        producer.send("nope", b"lost")

    async def main() -> None:
        with pytest.raises(AbortTransactionError, match="event loop was closed"):
            await producer.commit_transaction()
        await producer.abort_transaction()
        await producer.aclose()

    run(leave)
    run(main)
    assert one.committed_records("t", 0) == []


async def call_again_until_done(call: Callable[[], Awaitable[Any]]) -> Any:
    """What an application does that has to know the outcome."""
    try:
        return await call()
    except asyncio.CancelledError:
        return await call()


@pytest.mark.parametrize("has_ended", [False, True])
@pytest.mark.parametrize(
    ("name", "api"),
    [
        ("init_transactions", INIT_PRODUCER_ID),
        ("commit_transaction", END_TXN),
        ("abort_transaction", END_TXN),
        ("prepare", PRODUCE),
    ],
)
def test_a_cancelled_transactional_call_made_again_waits_for_its_end(
    one: FakeCluster, run: Runner, name: str, api: int, has_ended: bool
) -> None:
    gate = one.gate()
    if name == "init_transactions":
        one.control(api, faults.hold_after(gate))

    async def main() -> None:
        async with producer_of(one, transactional_id="it") as producer:
            if name != "init_transactions":
                await producer.init_transactions()
                one.control(api, faults.hold_after(gate))
                producer.begin_transaction()
                first = producer.send("t", b"first", partition=0)
                if name == "abort_transaction":
                    await first  # otherwise there is nothing to abort
            call = getattr(producer, name)
            task = asyncio.create_task(call())
            await asyncio.to_thread(gate.wait_until_reached)
            task.cancel()
            assert isinstance(await outcome_of(task), asyncio.CancelledError)
            again = None if has_ended else asyncio.create_task(call())
            await asyncio.sleep(0)
            gate.open()
            if again is None:
                thread_name = f"kproducer-call-{producer.config.client_id}"
                await until(lambda: all(each.name != thread_name for each in threading.enumerate()))
                again = call()
            result = await again
            if name == "prepare":
                assert result.transactional_id == "it"
                await producer.commit_transaction()
            else:
                # The outcome is known now, so this is another call.
                with pytest.raises(IllegalStateError):
                    await call()
            async with producer.transaction():
                await producer.send("t", b"last", partition=0)

    run(main)
    committed = [b"first"] if name in ("commit_transaction", "prepare") else []
    assert [each.value for each in one.committed_records("t", 0)] == [*committed, b"last"]


def test_an_abort_cancelled_while_it_refuses_records_can_be_made_again(one: FakeCluster, run: Runner) -> None:
    async def main() -> None:
        async with producer_of(one, transactional_id="it") as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await producer.send("t", b"dropped", partition=0)
            is_refusing = asyncio.Event()

            async def refuse(_: object) -> None:
                is_refusing.set()
                await asyncio.Event().wait()

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(producer._waiting_of(asyncio.get_running_loop()), "refuse_all", refuse)
                task = asyncio.create_task(producer.abort_transaction())
                await is_refusing.wait()
                task.cancel()
                assert isinstance(await outcome_of(task), asyncio.CancelledError)
            await producer.abort_transaction()
            with pytest.raises(IllegalStateError):
                await producer.abort_transaction()

    run(main)


def test_a_transactional_call_cancelled_at_any_step_can_be_made_again(
    one: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Runner(asyncio.new_event_loop, monkeypatch)
    expected: list[bytes] = []

    async def program(producer: AsyncKafkaProducer, name: bytes) -> None:
        await call_again_until_done(producer.init_transactions)
        producer.begin_transaction()
        producer.send("t", name + b"-1", partition=0)
        group, offsets = ConsumerGroupMetadata("g"), {TopicPartition("t", 0): OffsetAndMetadata(1)}
        await call_again_until_done(lambda: producer.send_offsets_to_transaction(offsets, group))
        await call_again_until_done(producer.commit_transaction)
        producer.begin_transaction()
        # More than are refused in one turn of the loop.
        waiting = [producer.send("nope", b"aborted") for _ in range(300)]
        await call_again_until_done(producer.abort_transaction)
        assert all(each.done() for each in waiting)
        await asyncio.gather(*waiting, return_exceptions=True)
        producer.begin_transaction()
        producer.send("t", name + b"-2", partition=0)
        prepared = await call_again_until_done(producer.prepare)
        producer.change_transactional_id(prepared.transactional_id)
        await call_again_until_done(lambda: producer.commit_prepared(prepared))

    async def main(cancel_after: int) -> bool:
        name = b"%03d" % cancel_after
        async with producer_of(one, transactional_id=f"it-{cancel_after}") as producer:
            task = asyncio.create_task(program(producer, name))
            for _ in range(cancel_after):
                await asyncio.sleep(0)
            is_done = task.done()
            task.cancel()
            await task
        expected.extend([name + b"-1", name + b"-2"])
        return is_done

    # Threads and the broker take their time, so the same step is not always the same await.
    for cancel_after in [*range(1, 10), *range(10, 400, 30)]:
        if run(lambda cancel_after=cancel_after: main(cancel_after)):  # type: ignore[misc]
            break
    run.check()
    assert len(expected) > 10
    assert [each.value for each in one.committed_records("t", 0)] == expected

"""WaitingRecords with a real pool and a cluster of dictionaries: order, cancellation, no record forgotten."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer import (
    AsyncKafkaProducer,
    BufferExhaustedError,
    IllegalStateError,
    KafkaError,
    MetadataTimeoutError,
    Outcome,
    ProducerClosedError,
)
from kproducer._core.accumulator.buffer_pool import BufferPool
from kproducer._core.client.metadata_snapshot import MetadataSnapshot
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.event_loop.loop_waiters import LoopWaiters, SendFuture
from kproducer._core.metrics.call_times import CallTimes
from kproducer._core.runtime.clock import SystemClock
from kproducer._core.sending.admission import Admission, PendingSend
from kproducer._core.sending.interceptors import ProducerInterceptors
from kproducer._core.sending.needs import MemoryNeed, Topics
from kproducer._core.sending.record_rules import RecordRules
from kproducer.aio.background_calls import BackgroundCalls
from kproducer.aio.waiting_records import WaitingRecords, WaitingSend
from tests.support.interruption import interrupt_after
from tests.support.manual_clock import ManualClock
from tests.support.units.appending import take_memory

SIZE, TOTAL = 1000, 3000
TOPICS = "abc"


class Cluster:
    """An engine with a real admission over stand-ins. Topics become known on request."""

    def __init__(self, max_block_ms: int = 600_000, transactions: Any = None, **settings: Any) -> None:
        self.pool = BufferPool(TOTAL, SIZE, SystemClock())
        self.known: set[str] = set()
        self.update_version = 0
        self.listeners: list[Callable[[], object]] = []
        self.accepted: list[tuple[str, int]] = []
        self.buffers: list[bytearray] = []
        self.config = SimpleNamespace(max_block_ms=max_block_ms, transactional_id=transactions and "x")
        self.clock = SystemClock()
        self.topic_errors: dict[str, KafkaError] = {}
        self.takes_memory = True
        self.is_closed = False
        self.queues = SimpleNamespace(is_closed=False)
        # The engine and its metadata, in one.
        self.metadata = self.last_engine = self
        self.add_listener, self.remove_listener = self.listeners.append, self.listeners.remove
        config = ProducerConfig(bootstrap_servers=("b:1",), max_block_ms=max_block_ms, **settings)
        parts: Any = self
        self.rules = RecordRules(config, ProducerInterceptors([]), parts)
        topics = Topics(config, parts, self.clock, self.wakeup, CallTimes(), lambda: "", lambda: True)
        self.transactions = transactions
        self.admission = Admission(self.rules, topics, parts, transactions)

    @property
    def snapshot(self) -> MetadataSnapshot:
        topics: Any = {topic: SimpleNamespace(partitions=(0,)) for topic in self.known}
        return MetadataSnapshot(topics=topics)

    def running_engine(self) -> Any:
        if self.pool.is_closed:
            raise ProducerClosedError("the producer is closed")
        return self

    def wakeup(self) -> None: ...

    def exhausted_error(self, waited_ms: int, others: int) -> KafkaError:
        return self.pool.exhausted_error(0, waited_ms, others)

    # the fast path

    def configure(self, **_: object) -> None: ...

    def try_send(self, *_: object) -> None: ...

    # metadata

    def add(self, topic: str, now_ms: int) -> None: ...

    def request_update_for_topic(self, topic: str, reason: str) -> int:
        return self.update_version

    def begin_wait(self) -> int:
        return 0

    def has_update(self, version: int, fatal_count: int) -> bool:
        return self.update_version > version

    def maybe_throw_topic_error(self, topic: str) -> None:
        if topic in self.topic_errors:
            raise self.topic_errors[topic]

    def topic_error(self, topic: str) -> None:
        return None

    def learn(self, topic: str) -> None:
        self.known.add(topic)
        self._update()

    def fail(self, topic: str, error: KafkaError) -> None:
        self.topic_errors[topic] = error
        self._update()

    def _update(self) -> None:
        self.update_version += 1
        for listener in list(self.listeners):
            listener()

    # the accumulator

    def try_append(self, *_: object) -> None: ...

    def append(self, append: Any) -> bool:
        append.first_bytes = SIZE
        if self.takes_memory:
            if append.buffer is None:
                append.buffer = self.pool.try_allocate(SIZE)
                if append.buffer is None:
                    return False
            self.buffers.append(append.buffer)
            append.buffer = None
        number = int(append.record[2])
        self.accepted.append((append.topic, number))
        append.future = number
        self.give_up(append)
        return True

    def give_up(self, append: Any) -> None:
        buffer, append.buffer = append.buffer, None
        if buffer is not None:
            self.pool.deallocate(buffer)

    def free_all(self) -> None:
        self.takes_memory = False
        while self.buffers:
            self.free()

    def free(self) -> None:
        if self.buffers:
            self.pool.deallocate(self.buffers.pop(0))


class Sends:
    """Records in the order of their sends."""

    def __init__(self, cluster: Cluster) -> None:
        loop = asyncio.get_running_loop()
        self.cluster = cluster
        lifecycle: Any = cluster
        self.waiting = WaitingRecords(lifecycle, LoopWaiters(loop), BackgroundCalls("call"), set())
        self.futures: list[SendFuture] = []
        self.topics: list[str] = []

    def send(self, topic: str) -> SendFuture:
        arguments = (topic, b"%d" % len(self.futures), None, None, None, None, None)
        self.topics.append(topic)
        self.futures.append(self.waiting.accept(arguments, False))
        return self.futures[-1]


steps = st.one_of(
    st.tuples(st.just("send"), st.sampled_from(TOPICS)),
    st.tuples(st.just("cancel"), st.integers(0, 30)),
    st.tuples(st.just("learn"), st.sampled_from(TOPICS)),
    st.tuples(st.sampled_from(["free", "turn"]), st.none()),
)


@given(st.lists(steps, max_size=60))
def test_every_record_is_accepted_in_order_or_was_cancelled(program: list[tuple[str, Any]]) -> None:
    async def main() -> None:
        cluster = Cluster()
        sends = Sends(cluster)
        cancelled: set[int] = set()
        for step, argument in program:
            if step == "send":
                sends.send(argument)
            elif step == "cancel" and sends.futures:
                number = argument % len(sends.futures)
                if sends.futures[number].cancel():
                    cancelled.add(number)
            elif step == "learn":
                cluster.learn(argument)
            elif step == "free":
                cluster.free()
            elif step == "turn":
                await asyncio.sleep(0)
            assert sends.waiting.count == sum(not future.done() for future in sends.futures)
        for topic in TOPICS:
            cluster.learn(topic)
        for _ in range(1000):
            cluster.free()
            await asyncio.sleep(0)
        assert sends.waiting.count == 0
        for topic in TOPICS:
            expected = [n for n, of in enumerate(sends.topics) if of == topic and n not in cancelled]
            assert [number for of, number in cluster.accepted if of == topic] == expected
        assert cluster.listeners == []
        while cluster.buffers:
            cluster.free()
        assert cluster.pool.available_bytes == TOTAL
        assert not cluster.pool.waiters

    asyncio.run(main())


def test_a_record_that_waits_for_metadata_gives_way_to_other_topics() -> None:
    async def main() -> None:
        cluster = Cluster()
        cluster.known = {"b"}
        sends = Sends(cluster)
        for topic in "aba":
            sends.send(topic)
        assert cluster.accepted == [("b", 1)]
        cluster.learn("a")
        sends.send("a")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [number for _, number in cluster.accepted] == [1, 0, 2]
        for _ in range(3):
            cluster.free()
            await asyncio.sleep(0)
        assert [number for _, number in cluster.accepted] == [1, 0, 2, 3]

    asyncio.run(main())


@pytest.mark.parametrize(("topic", "error"), [("a", BufferExhaustedError), ("b", MetadataTimeoutError)])
def test_every_record_fails_when_its_time_is_over(topic: str, error: type[KafkaError]) -> None:
    async def main() -> None:
        cluster = Cluster(max_block_ms=20)
        cluster.known = {"a"}
        held = [take_memory(cluster.pool, SIZE, 0) for _ in range(3)]
        sends = Sends(cluster)
        failures = await asyncio.gather(*(sends.send(topic) for _ in range(5)), return_exceptions=True)
        assert {type(each) for each in failures} == {error}
        assert {each.outcome for each in failures} == {Outcome.NOT_SENT}  # type: ignore[union-attr]
        assert sends.waiting.count == 0
        assert not cluster.pool.waiters
        for buffer in held:
            cluster.pool.deallocate(buffer)

    asyncio.run(main())


def test_memory_granted_to_a_closed_loop_goes_back() -> None:
    cluster = Cluster()
    cluster.known = {"a"}
    held = [take_memory(cluster.pool, SIZE, 0) for _ in range(3)]
    loop = asyncio.new_event_loop()

    async def main() -> None:
        Sends(cluster).send("a")

    loop.run_until_complete(main())
    loop.close()
    for buffer in held:
        cluster.pool.deallocate(buffer)
    assert cluster.pool.available_bytes == TOTAL
    assert not cluster.pool.waiters


def test_an_interrupt_keeps_no_later_record_from_being_accepted() -> None:
    cluster = Cluster()
    cluster.known = {"a"}
    loop = asyncio.new_event_loop()

    async def main() -> None:
        held = [take_memory(cluster.pool, SIZE, 0) for _ in range(3)]
        sends = Sends(cluster)
        futures = [sends.send("a") for _ in range(3)]
        append = cluster.append

        def interrupted(*_: Any) -> Any:
            cluster.append = append  # type: ignore[method-assign]
            raise KeyboardInterrupt

        cluster.append = interrupted  # type: ignore[method-assign]
        for buffer in held:
            cluster.pool.deallocate(buffer)
        results = await asyncio.gather(*futures, return_exceptions=True)
        assert [repr(each) for each in results[1:]] == ["1", "2"]

    task = loop.create_task(asyncio.wait_for(main(), 30))
    for _ in range(3):
        try:
            loop.run_until_complete(task)
        except KeyboardInterrupt:
            continue
        break
    task.result()
    loop.close()


def test_a_preparation_that_an_interrupt_prevented_is_begun_by_the_next_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Serializer:
        is_ready = False

        def is_prepared(self, topic: str) -> bool:
            return self.is_ready

        def prepare(self, topic: str) -> None:
            self.is_ready = True

        def serialize(self, topic: str, headers: Any, value: bytes) -> bytes:
            return value

    def interrupted(*_: Any) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    async def main() -> None:
        cluster = Cluster(value_serializer=Serializer())
        cluster.known = {"a"}
        sends = Sends(cluster)
        monkeypatch.setattr(WaitingRecords, "_keep_at", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sends.send("a")
        sends.futures.clear()
        sends.futures += [sends.waiting.accept(("a", b"7", None, None, None, None, None), False)]
        assert await asyncio.wait_for(sends.futures[0], 30) == 7  # type: ignore[comparison-overlap]

    asyncio.run(main())


def test_a_topic_that_becomes_known_between_two_looks_keeps_its_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        cluster = Cluster()
        sends = Sends(cluster)
        advance = PendingSend.advance

        def learn_too_late(pending: PendingSend) -> Any:
            monkeypatch.setattr(PendingSend, "advance", advance)
            try:
                return pending.advance()
            finally:
                cluster.learn("a")

        monkeypatch.setattr(PendingSend, "advance", learn_too_late)
        futures = [sends.send("a") for _ in range(3)]
        await asyncio.gather(*futures)
        assert cluster.accepted == [("a", 0), ("a", 1), ("a", 2)]

    asyncio.run(main())


def test_a_record_whose_gate_begins_after_the_close_is_refused_at_once() -> None:
    async def main() -> None:
        cluster = Cluster()
        sends = Sends(cluster)

        def closed(version: int, fatal_count: int) -> bool:
            raise ProducerClosedError("the producer is closed")

        cluster.has_update = closed  # type: ignore[method-assign]
        with pytest.raises(ProducerClosedError):
            await asyncio.wait_for(sends.send("a"), 30)

    asyncio.run(main())


def test_two_threads_that_start_loops_may_drop_the_same_closed_loop() -> None:
    class Raced(dict[Any, Any]):
        def __iter__(self) -> Any:
            keys = list(super().__iter__())
            for key in keys:
                yield key
                self.pop(key, None)  # the other thread was faster

    producer = AsyncKafkaProducer("localhost:1")
    try:
        loop = asyncio.new_event_loop()
        loop.close()
        gone = SimpleNamespace(abandon=lambda: None)
        producer._by_loop = Raced({loop: gone})
        # The list is made first, so that both threads see the loop.
        producer._drop_closed_loops()
        assert not producer._by_loop
    finally:
        producer._producer.close(0)


NOTING = {
    function.__code__
    for function in (
        WaitingRecords._pump,
        WaitingRecords._look,
        WaitingRecords._try,
        WaitingRecords._accepted,
        WaitingRecords._forget,
        WaitingSend.drop,
        PendingSend.advance,
        PendingSend.release,
        MemoryNeed.is_met,
    )
}


@pytest.mark.parametrize("waits_for", ["memory", "metadata"])
def test_an_interrupt_neither_repeats_nor_forgets_a_record(waits_for: str) -> None:
    interrupted = True
    instructions = 0
    while interrupted:
        instructions += 1
        cluster = Cluster()
        if waits_for == "memory":
            cluster.known = {"a"}
        loop = asyncio.new_event_loop()
        held = [take_memory(cluster.pool, SIZE, 0) for _ in range(3)] if waits_for == "memory" else []
        futures: list[SendFuture] = []
        settled: list[bool] = []

        async def begin(
            cluster: Cluster = cluster, futures: list[SendFuture] = futures, settled: list[bool] = settled
        ) -> None:
            sends = Sends(cluster)
            futures += [sends.send("a") for _ in range(3)]
            sends.waiting.settled().add_done_callback(lambda _: settled.append(True))
            await asyncio.sleep(0)

        loop.run_until_complete(begin())
        for buffer in held:
            cluster.pool.deallocate(buffer)
        if waits_for == "metadata":
            cluster.learn("a")

        async def end_of(futures: list[SendFuture] = futures) -> None:
            await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), 30)

        end = loop.create_task(end_of())
        finish = partial(loop.run_until_complete, end)
        interrupted = interrupt_after(instructions, NOTING, finish, as_signals_do=True)
        finish()
        loop.run_until_complete(asyncio.sleep(0))
        numbers = [number for _, number in cluster.accepted]
        assert sorted(set(numbers)) == numbers, f"sent twice at instruction {instructions}"
        outcomes = [future.exception() or future.result() for future in futures]
        assert [each for each in outcomes if isinstance(each, int)] == numbers, f"at {instructions}"
        assert settled == [True], f"at instruction {instructions}"
        while cluster.buffers:
            cluster.free()
        assert cluster.pool.available_bytes == TOTAL, f"at instruction {instructions}"
        assert cluster.listeners == []
        loop.close()
    assert instructions > 20


def test_a_record_that_waits_has_few_objects_for_the_garbage_collector() -> None:
    """Their number decides how long a collection stops the loop while thousands of records wait."""

    async def main() -> None:
        cluster = Cluster()
        cluster.known = {"a"}
        held = [take_memory(cluster.pool, SIZE, 0) for _ in range(3)]
        sends = Sends(cluster)
        sends.send("a")
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(1000):
            sends.send("a")
        # The future, and its arguments until a collection finds them to be plain.
        assert (len(gc.get_objects()) - before) / 1000 < 2.5
        for future in sends.futures:
            future.cancel()
        for buffer in held:
            cluster.pool.deallocate(buffer)

    asyncio.run(main())


async def most_in_a_turn(sends: Sends) -> int:
    """The largest number of records that stop waiting in one turn of the loop, until none waits."""
    most, before = 0, sends.waiting.count
    while before:
        await asyncio.sleep(0)
        most, before = max(most, before - sends.waiting.count), sends.waiting.count
    return most


#: What happens to thousands of records that wait, and whether they wait for metadata or for memory.
ENDS: dict[str, tuple[bool, Callable[[Sends], object]]] = {
    "timeout, memory": (False, lambda sends: setattr(sends.cluster.config, "max_block_ms", 0)),
    "timeout, metadata": (True, lambda sends: setattr(sends.cluster.config, "max_block_ms", 0)),
    "refused": (False, lambda sends: sends.waiting.refuse_all(KafkaError("refused"))),
    "close, memory": (False, lambda sends: sends.cluster.pool.close()),
    "close, metadata": (True, lambda sends: sends.cluster.fail("a", ProducerClosedError("closed"))),
    "topic refused": (True, lambda sends: sends.cluster.fail("a", KafkaError("no such topic"))),
    "metadata": (True, lambda sends: sends.cluster.learn("a")),
    "memory": (False, lambda sends: sends.cluster.free_all()),
}


@pytest.mark.parametrize("name", ENDS)
def test_what_ends_the_wait_of_thousands_takes_many_turns(name: str) -> None:
    """Otherwise it would stop the loop for tens of milliseconds."""
    waits_for_metadata, end = ENDS[name]

    async def main() -> None:
        cluster = Cluster()
        cluster.takes_memory = not waits_for_metadata
        if not waits_for_metadata:
            cluster.known = {"a"}
            cluster.buffers = [take_memory(cluster.pool, SIZE, 0) for _ in range(3)]
        sends = Sends(cluster)
        futures = [sends.send("a") for _ in range(3000)]
        settled = sends.waiting.settled()
        assert sends.waiting.count == 3000
        end(sends)
        if name.startswith("timeout"):
            sends.waiting._expire_some()
        already = 3000 - sends.waiting.count
        assert max(already, await most_in_a_turn(sends)) <= 2 * 128
        await settled
        outcomes = [future.exception() or future.result() for future in futures]
        if name in {"metadata", "memory"}:
            assert outcomes == list(range(3000))
        else:
            assert {type(each) for each in outcomes} <= {
                KafkaError, BufferExhaustedError, MetadataTimeoutError, ProducerClosedError,
            }  # fmt: skip
        assert not sends.waiting._busy

    asyncio.run(main())


def test_time_ends_for_more_records_than_a_task_sends() -> None:
    """Otherwise those that wait, and the time that they wait, would grow for as long as no broker answers."""

    async def main() -> None:
        cluster = Cluster(max_block_ms=10)
        cluster.clock = clock = ManualClock()  # type: ignore[assignment]
        sends = Sends(cluster)
        for _ in range(300):
            for _ in range(300):
                sends.send("a")
            clock.advance(1)
            await asyncio.sleep(0)
        assert sends.waiting.count < 20_000
        clock.advance(1000)
        results = await asyncio.gather(*sends.futures, return_exceptions=True)
        assert {type(each) for each in results} == {MetadataTimeoutError}

    asyncio.run(main())


def test_outside_of_a_transaction_a_record_does_not_begin_to_wait_behind_others() -> None:
    """It would be accepted in the next transaction."""

    class Transactions:
        transaction: object = "first"

        def check_send(self, expected: object = None) -> object:
            if self.transaction is None or expected not in (None, self.transaction):
                raise IllegalStateError("no transaction")
            return self.transaction

        def send_failed(self, error: KafkaError, expected: object) -> None: ...

    async def main() -> None:
        transactions = Transactions()
        cluster = Cluster(transactions=transactions)
        cluster.known = {"a"}
        cluster.buffers = [take_memory(cluster.pool, SIZE, 0) for _ in range(3)]
        sends = Sends(cluster)
        early = [sends.send("a") for _ in range(2)]
        transactions.transaction = None
        late = sends.send("a")
        transactions.transaction = "second"
        cluster.free_all()
        results = await asyncio.gather(*early, late, return_exceptions=True)
        assert [type(each) for each in results] == [IllegalStateError] * 3
        assert cluster.accepted == []
        assert late.exception().outcome is Outcome.NOT_SENT  # type: ignore[union-attr]

    asyncio.run(main())


def test_a_flush_that_is_given_up_leaves_nothing_behind() -> None:
    async def main() -> None:
        sends = Sends(Cluster())
        sends.send("a")
        sends.waiting.settled().cancel()
        await asyncio.sleep(0)
        assert not sends.waiting._awaited
        sends.futures[0].cancel()

    asyncio.run(main())


FAILING = {
    function.__code__
    for function in (
        WaitingRecords._fail_some, WaitingRecords._fail, WaitingRecords._give_up, WaitingRecords._forget,
        WaitingRecords._withdraw, PendingSend.refuse, PendingSend.release, WaitingSend.drop,
    )
}  # fmt: skip


@pytest.mark.parametrize("end", ["refuse", "cancel"])
def test_an_interrupted_failure_leaves_no_future_open(end: str) -> None:
    interrupted = True
    instructions = 0
    while interrupted:
        instructions += 1
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda *_: None)  # it would report the interrupt

        async def begin() -> tuple[Sends, asyncio.Future[None]]:
            sends = Sends(Cluster(max_block_ms=50))
            for topic in "aab":
                sends.send(topic)
            return sends, sends.waiting.settled()

        sends, settled = loop.run_until_complete(begin())
        if end == "refuse":
            loop.call_soon(sends.waiting.refuse_all, KafkaError("refused"))
        else:
            for future in sends.futures:
                loop.call_soon(future.cancel)

        async def end_of(ended: tuple[asyncio.Future[Any], ...] = (*sends.futures, settled)) -> None:
            await asyncio.wait_for(asyncio.gather(*ended, return_exceptions=True), 30)

        finish = partial(loop.run_until_complete, loop.create_task(end_of()))
        interrupted = interrupt_after(instructions, FAILING, finish, as_signals_do=True)
        finish()
        assert all(future.cancelled() or future.exception() for future in sends.futures)
        assert sends.cluster.accepted == []
        assert sends.waiting.count == 0
        loop.close()
    assert instructions > 20

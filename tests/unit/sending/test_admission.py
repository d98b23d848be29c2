"""Admission without a thread and without an event loop: what each step passes on, needs, refuses and undoes.

The accumulator is a stand-in, so that each need, and each error of a part, comes at a chosen step.
"""

from __future__ import annotations

import contextlib
import enum
import gc
import weakref
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from kproducer._core.accumulator.buffer_pool import BufferPool
from kproducer._core.client.metadata import Metadata
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.metrics.call_times import CallTimes
from kproducer._core.sending import blocking
from kproducer._core.sending.admission import (
    INTERCEPTED,
    NEW,
    PREPARED,
    SERIALIZED,
    TOPIC_KNOWN,
    Admission,
    PendingSend,
)
from kproducer._core.sending.interceptors import ProducerInterceptors
from kproducer._core.sending.needs import MemoryNeed, Need, PreparationNeed, TopicNeed, Topics
from kproducer._core.sending.record_rules import RecordRules
from kproducer.errors import (
    BufferExhaustedError,
    IllegalStateError,
    InvalidArgumentError,
    KafkaError,
    MetadataTimeoutError,
    Outcome,
    ProducerClosedError,
    RecordTooLargeError,
    SerializationError,
)
from kproducer.types import UNKNOWN_PARTITION
from tests.support.interruption import interrupt_after
from tests.support.manual_clock import ManualClock
from tests.support.units.appending import take_memory
from tests.support.units.metadata_messages import response

MAX_BLOCK_MS = 1000
BUFFER_BYTES = 100
FUTURE: Any = object()


class Appended(NamedTuple):
    """What the accumulator got."""

    topic: str
    partition: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Any
    on_delivery: Any


class Gate:
    """A ``TransactionStateMachine`` as far as ``send`` uses it."""

    def __init__(self) -> None:
        self.transaction = object()
        self.checked: list[object] = []
        self.failures: list[tuple[KafkaError, object]] = []

    def check_send(self, transaction: object = None) -> object:
        self.checked.append(transaction)
        if transaction is not None and transaction is not self.transaction:
            raise IllegalStateError("the transaction has ended")
        return self.transaction

    def send_failed(self, error: KafkaError, transaction: object) -> None:
        self.failures.append((error, transaction))


class Bench:
    """An admission over parts that record what they are told. It is its own accumulator and fast path.

    Attributes:
        has_room: an open batch takes the record.
        begins_batch: a new batch is necessary and possible; else memory is needed.
    """

    def __init__(
        self, *interceptors: object, topics: Mapping[str, int] | None = None, **settings: Any
    ) -> None:
        given: dict[str, Any] = {"max_block_ms": MAX_BLOCK_MS, **settings}
        self.config = config = ProducerConfig(bootstrap_servers=("b:1",), **given)
        self.clock = ManualClock()
        self.metadata = Metadata(config)
        self.transactions = Gate() if config.transactional_id else None
        self.pool = BufferPool(10 * BUFFER_BYTES, BUFFER_BYTES, self.clock)
        self.queues = SimpleNamespace(is_closed=False)
        self.appended: list[Appended] = []
        self.append_error: BaseException | None = None
        self.has_room, self.begins_batch = True, True
        self.may_wait = True
        self.wakeups = 0
        self.while_waiting: Callable[[], object] | None = None
        self.learn({"t": 2} if topics is None else topics)
        rules = RecordRules(config, ProducerInterceptors(interceptors), self)  # type: ignore[arg-type]
        self.topics = Topics(
            config,
            self.metadata,
            self.clock,
            self.wakeup,
            CallTimes(),
            lambda: "b:1 is down",
            lambda: self.may_wait,
        )
        self.admission = Admission(rules, self.topics, self, self.transactions)  # type: ignore[arg-type]

    def learn(self, topics: Mapping[str, int]) -> None:
        """The cluster has these topics, with so many partitions."""
        for topic in topics:
            self.metadata.add(topic, self.clock.now_ms)
        request = self.metadata.new_metadata_request_and_version(self.clock.now_ms)
        leaders = {topic: [(1, 1)] * count for topic, count in topics.items()}
        self.metadata.update(request, response(leaders), self.clock.now_ms)

    def send(self, topic: Any = "t", value: Any = b"v", key: Any = None, **others: Any) -> Any:
        """Send on a thread."""
        names = ("headers", "partition", "timestamp_ms", "on_delivery")
        return blocking.send(self.admission, topic, value, key, *map(others.get, names))

    def pending(self, value: Any = b"v", *, held: Any = (), **record: Any) -> PendingSend:
        """A record of an event loop, which must not be blocked."""
        names = ("key", "headers", "partition", "timestamp_ms", "on_delivery")
        key, headers, partition, timestamp_ms, on_delivery = map(record.get, names)
        arguments = ("t", value, key, headers, partition, timestamp_ms, on_delivery)
        return PendingSend(self.admission, arguments, None, held)

    def ended(self) -> Any:
        """What the transaction was told, as (error, transaction)."""
        assert self.transactions is not None
        return self.transactions.failures

    # -- accumulator, I/O thread, fast path

    def try_append(self, topic: str, partition: int, record: Any) -> Any:
        if not self.has_room:
            return None
        if self.append_error is not None:
            raise self.append_error
        self.appended.append(Appended(topic, partition, *record))
        return FUTURE

    def append(self, append: Any) -> bool:
        assert append.topic in append.snapshot.topics
        append.first_bytes = BUFFER_BYTES
        if self.append_error is not None:
            raise self.append_error
        if not self.has_room:
            if not self.begins_batch and append.buffer is None:
                return False
            append.wakes_sender = True
        append.future = FUTURE
        self.give_up(append)
        self.appended.append(Appended(append.topic, append.partition, *append.record))
        return True

    def give_up(self, append: Any) -> None:
        buffer, append.buffer = append.buffer, None
        if buffer is not None:
            self.pool.deallocate(buffer)

    def wakeup(self) -> None:
        self.wakeups += 1
        if self.while_waiting is not None:
            self.while_waiting()

    def configure(self, **_: object) -> None:
        pass

    def accept_callbacks_of(self, code: object) -> None:
        pass

    def try_send(self, *_: object) -> None:
        return None


# -- a thread ----------------------------------------------------------------------------------------------


def test_what_the_wait_for_the_topic_leaves_of_max_block_ms_is_for_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(topics={})
    bench.has_room = bench.begins_batch = False
    waits: list[float] = []
    monkeypatch.setattr(MemoryNeed, "wait", lambda need, left_ms: _grant(need, waits.append(left_ms)))

    def become_known() -> None:
        bench.clock.advance(300)
        bench.learn({"t": 1})

    bench.while_waiting = become_known
    assert bench.send() is FUTURE
    bench.send()
    assert waits == [700, MAX_BLOCK_MS]


def _grant(need: Any, _: None) -> None:
    need._append.buffer = need._pool.try_allocate(BUFFER_BYTES)


def test_a_wait_that_took_longer_than_max_block_ms_leaves_nothing_for_memory() -> None:
    bench = Bench(topics={})
    bench.has_room = bench.begins_batch = False
    held = take_memory(bench.pool, bench.pool.total_bytes, 0)

    def become_known_late() -> None:
        if not bench.metadata.snapshot.topics:
            bench.clock.advance(MAX_BLOCK_MS + 5)
            bench.learn({"t": 1})

    bench.while_waiting = become_known_late
    with pytest.raises(BufferExhaustedError) as caught:
        bench.send()
    assert caught.value.outcome is Outcome.NOT_SENT
    bench.pool.deallocate(held)
    assert bench.pool.available_bytes == bench.pool.total_bytes


@pytest.mark.parametrize(("topics", "partition"), [({}, None), ({"t": 2}, 2)])
def test_what_does_not_become_known_reaches_no_partitioner_and_no_memory(
    topics: dict[str, int], partition: int | None
) -> None:
    chosen: list[object] = []
    bench = Bench(topics=topics, partitioner=lambda *_: chosen.append(None), max_block_ms=1)
    with pytest.raises(MetadataTimeoutError, match="within max_block_ms=1; brokers: b:1 is down") as caught:
        bench.send(partition=partition)
    assert caught.value.outcome is Outcome.NOT_SENT
    assert (bench.appended, chosen) == ([], [])


@pytest.mark.parametrize("topics", [{}, {"t": 2}])
def test_the_thread_that_receives_metadata_does_not_wait_for_any(topics: dict[str, int]) -> None:
    bench = Bench(topics=topics)
    bench.may_wait = False
    with pytest.raises(MetadataTimeoutError, match=r"partition 2 of topic 't' is .*cannot wait") as caught:
        bench.send(partition=2)
    assert caught.value.outcome is Outcome.NOT_SENT


@pytest.mark.parametrize("needs", ["topic", "memory"])
def test_what_comes_just_before_a_thread_waits_is_not_missed(needs: str) -> None:
    """Also from a signal handler on the same thread, which must not find a lock that is held."""
    bench = Bench(topics={} if needs == "topic" else None, max_block_ms=2**62)
    bench.has_room = bench.begins_batch = False
    held = [take_memory(bench.pool, bench.pool.total_bytes)] if needs == "memory" else []

    def comes_now() -> bool:
        bench.learn({"t": 1})
        if held:
            bench.pool.deallocate(held.pop())
        return True

    bench.pool.may_wait = comes_now
    bench.admission.topics = bench.topics._replace(may_wait=comes_now)
    assert bench.send() is FUTURE


def test_a_partition_that_appears_is_used() -> None:
    bench = Bench(topics={"t": 1})
    bench.while_waiting = lambda: bench.learn({"t": 3})
    bench.send(partition=2)
    assert bench.appended[0].partition == 2


def test_the_sender_is_woken_only_if_the_accumulator_says_so() -> None:
    bench = Bench()
    bench.send()
    assert bench.wakeups == 0
    bench.has_room = False
    bench.send()
    assert bench.wakeups == 1


def test_a_wait_that_is_interrupted_keeps_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(transactional_id="x")
    bench.has_room = bench.begins_batch = False
    wait = MemoryNeed.wait

    def interrupted(need: MemoryNeed, left_ms: float) -> None:
        wait(need, left_ms)
        raise KeyboardInterrupt

    monkeypatch.setattr(MemoryNeed, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bench.send()
    assert bench.pool.available_bytes == bench.pool.total_bytes
    assert bench.appended == []
    assert len(bench.ended()) == 1


# -- step by step --------------------------------------------------------------------------------------------


class Hooks:
    """An interceptor that notes its calls."""

    def __init__(self) -> None:
        self.sent = 0
        self.acknowledged: list[tuple[int, object]] = []

    def on_send(self, record: Any) -> Any:
        self.sent += 1
        return record._replace(value=record.value + b"!")

    def on_acknowledgement(self, metadata: Any, error: object) -> None:
        self.acknowledged.append((metadata.partition, error))


class Preparable:
    """A serializer that notes for which topics it was prepared."""

    def __init__(self) -> None:
        self.prepared: list[str] = []
        self.error: Exception | None = None

    def is_prepared(self, topic: str) -> bool:
        return False

    def prepare(self, topic: str) -> None:
        if self.error is not None:
            raise self.error
        self.prepared.append(topic)

    def serialize(self, topic: str, headers: Any, value: Any) -> bytes:
        return b"serialized"


def test_a_record_passes_each_stage_once_and_may_be_asked_again() -> None:
    """Topic, preparation and memory are missing, one after another; nothing that was done is repeated."""
    hooks, serializer = Hooks(), Preparable()
    bench = Bench(hooks, topics={}, transactional_id="x", value_serializer=serializer)
    bench.has_room = bench.begins_batch = False
    pending = bench.pending()
    stages = [pending.stage]
    for _ in range(2):
        need = pending.advance()
        assert isinstance(need, TopicNeed)
    stages.append(pending.stage)
    bench.learn({"t": 1})
    for _ in range(2):
        preparation = pending.advance()
        assert isinstance(preparation, PreparationNeed)
    stages.append(pending.stage)
    preparation.prepare()
    for _ in range(2):
        memory = pending.advance()
        assert isinstance(memory, MemoryNeed)
    stages.append(pending.stage)
    assert pending.future is None
    memory.wait(0)
    assert pending.advance() is FUTURE
    assert pending.advance() is FUTURE
    assert stages == [NEW, INTERCEPTED, TOPIC_KNOWN, SERIALIZED]
    assert [each.value for each in bench.appended] == [b"serialized"]
    assert bench.pool.available_bytes == bench.pool.total_bytes
    assert (hooks.sent, serializer.prepared) == (1, ["t"])
    gate = bench.transactions
    assert gate is not None
    # Entered once; then checked again, because each wait may have outlived the transaction.
    assert gate.checked[0] is None
    assert set(gate.checked[1:]) == {gate.transaction}
    assert (gate.failures, hooks.acknowledged) == ([], [])


def test_a_record_that_is_given_up_is_told_to_interceptors_and_transaction_once() -> None:
    hooks = Hooks()
    bench = Bench(hooks, topics={}, transactional_id="x")
    pending = bench.pending(partition=1)
    need = pending.advance()
    assert isinstance(need, Need)
    error = need.timeout_error()
    for _ in range(2):
        pending.refuse(error)
    gate = bench.transactions
    assert gate is not None
    assert hooks.acknowledged == [(1, error)]
    assert gate.failures == [(error, gate.transaction)]


def test_a_record_for_another_transaction_is_refused_before_anybody_sees_it() -> None:
    hooks = Hooks()
    bench = Bench(hooks, transactional_id="x")
    pending = bench.pending()
    pending.transaction = object()  # type: ignore[assignment]
    with pytest.raises(IllegalStateError, match="has ended"):
        pending.advance()
    assert (hooks.sent, pending.stage, bench.appended) == (0, NEW, [])


@pytest.mark.parametrize("held", ["t", ("t", 1)])
def test_a_record_does_not_overtake_those_that_wait_for_its_topic(held: object) -> None:
    bench = Bench()
    waiting = {held}
    pending = bench.pending(partition=1, held=waiting)
    need = pending.advance()
    assert isinstance(need, TopicNeed)
    assert (need.topic, need.partition, bench.appended) == ("t", 1, [])
    assert bench.pending(partition=1, held={"other", ("t", 0)}).advance() is FUTURE
    waiting.clear()
    assert pending.advance() is FUTURE


@pytest.mark.parametrize("held", [None, ()])
def test_a_topic_of_another_text_type_is_its_text(held: Any) -> None:
    class Topics(str, enum.Enum):
        TEXT = "t"

    bench = Bench()
    pending = PendingSend(bench.admission, (Topics.TEXT, b"v", None, None, None, None, None), None, held)
    assert pending.advance() is FUTURE
    assert [(each.topic, type(each.topic)) for each in bench.appended] == [("t", str)]


def test_a_topic_that_is_forgotten_while_a_serializer_is_prepared_is_waited_for_again() -> None:
    bench = Bench(value_serializer=Preparable())
    pending = bench.pending()
    preparation = pending.advance()
    assert isinstance(preparation, PreparationNeed)
    preparation.prepare()
    bench.metadata.bootstrap([("b", 1)])
    assert isinstance(pending.advance(), TopicNeed)
    bench.learn({"t": 1})
    assert pending.advance() is FUTURE


def test_a_serializer_is_prepared_only_where_the_call_must_not_wait() -> None:
    serializer = Preparable()
    bench = Bench(value_serializer=serializer)
    assert bench.send() is FUTURE
    nothing = bench.pending(None)
    assert nothing.advance() is FUTURE
    assert (nothing.stage, serializer.prepared) == (SERIALIZED, [])


def test_a_serializer_that_cannot_be_prepared_fails_the_record() -> None:
    serializer = Preparable()
    serializer.error = ValueError("no schema")
    bench = Bench(value_serializer=serializer)
    pending = bench.pending()
    preparation = pending.advance()
    assert isinstance(preparation, PreparationNeed)
    told: list[None] = []
    preparation.subscribe(lambda: told.append(None) is None)
    preparation.prepare()
    preparation.cancel()
    assert len(told) == 1
    with pytest.raises(SerializationError, match="no schema"):
        pending.advance()
    assert pending.stage < PREPARED


def test_a_topic_that_is_known_before_the_subscription_ends_the_wait() -> None:
    """Also if a broker has refused the client once, which is over."""
    bench = Bench(topics={})
    need = bench.pending().advance()
    assert isinstance(need, TopicNeed)
    bench.metadata.fatal_error(KafkaError("refused"))
    bench.learn({"t": 1})
    need.subscribe(lambda: True)
    assert need.is_met()


def test_a_need_tells_its_subscriber_when_another_look_is_worth_it() -> None:
    bench = Bench(topics={})
    bench.has_room = bench.begins_batch = False
    held = take_memory(bench.pool, bench.pool.total_bytes, 0)
    pending = bench.pending()
    told: list[str] = []
    need = pending.advance()
    assert isinstance(need, TopicNeed)
    need.subscribe(lambda: told.append("topic") is None)
    assert not need.is_met()
    bench.learn({"t": 1})
    assert need.is_met()
    need.cancel()
    bench.learn({"t": 1})
    memory = pending.advance()
    assert isinstance(memory, MemoryNeed)
    memory.subscribe(lambda: told.append("memory") is None)
    assert not memory.is_met()
    bench.pool.deallocate(held)
    assert memory.is_met()
    assert told == ["topic", "memory"]
    assert pending.advance() is FUTURE
    assert bench.pool.available_bytes == bench.pool.total_bytes


@pytest.mark.parametrize("end", ["cancel", "time", "refuse"])
def test_memory_that_is_no_longer_needed_goes_back(end: str) -> None:
    bench = Bench()
    bench.has_room = bench.begins_batch = False
    held = take_memory(bench.pool, bench.pool.total_bytes, 0)
    pending = bench.pending()
    need = pending.advance()
    assert isinstance(need, MemoryNeed)
    need.subscribe(lambda: True)
    if end == "time":
        assert isinstance(need.timeout_error(), BufferExhaustedError)
    bench.pool.deallocate(held)
    if end == "cancel":
        need.cancel()
    if end == "refuse":
        assert need.is_met()
        pending.refuse(KafkaError("enough"))
    assert not bench.pool.waiters
    assert bench.pool.available_bytes == bench.pool.total_bytes


@pytest.mark.parametrize("has_end", [False, True])
def test_a_record_that_has_waited_is_freed_without_the_garbage_collector(has_end: bool) -> None:
    bench = Bench(max_block_ms=0)
    bench.has_room = bench.begins_batch = False
    if not has_end:
        take_memory(bench.pool, bench.pool.total_bytes)

    class Callback:
        def __call__(self, metadata: object, error: object) -> None: ...

    callback = Callback()
    alive = weakref.ref(callback)
    gc.collect()
    gc.disable()
    try:
        with contextlib.suppress(BufferExhaustedError):
            bench.send(on_delivery=callback)
        del callback
        bench.appended.clear()
        assert alive() is None
    finally:
        gc.enable()


STEPS = {
    function.__code__
    for function in (
        PendingSend.advance, PendingSend._take_first_steps, PendingSend._missing, PendingSend.release,
        PendingSend.refuse, Need.wait, MemoryNeed.subscribe, MemoryNeed.is_met, MemoryNeed.cancel,
        BufferPool.request, BufferPool.collect, Admission.admit, Bench.append,
    )
}  # fmt: skip


def test_an_interrupt_anywhere_neither_repeats_a_record_nor_loses_memory() -> None:
    """What an interrupted ``advance`` leaves is either accepted, or not accepted and refused once."""
    interrupted = True
    instructions = accepted = 0
    while interrupted:
        instructions += 1
        hooks = Hooks()
        bench = Bench(hooks, transactional_id="x")
        bench.has_room = bench.begins_batch = False
        pending = bench.pending()

        def drive(pending: PendingSend = pending) -> None:
            while isinstance(need := pending.advance(), Need):
                need.wait(0)

        interrupted = interrupt_after(instructions, STEPS, drive, as_signals_do=True)
        if pending.future is not None:
            accepted += 1
            assert pending.advance() is FUTURE
        else:
            pending.refuse(KeyboardInterrupt())
        assert len(bench.appended) == (pending.future is not None)
        assert hooks.sent <= 1
        assert len(bench.ended()) == (pending.future is None and pending.transaction is not None)
        assert bench.pool.available_bytes == bench.pool.total_bytes, f"at instruction {instructions}"
    assert instructions > 10
    assert accepted > 1  # also by an advance that was interrupted after the acceptance


# -- what fails ------------------------------------------------------------------------------------------


def test_an_error_keeps_the_outcome_that_is_known_and_otherwise_says_not_sent() -> None:
    bench = Bench()
    bench.append_error = BufferExhaustedError("full")
    with pytest.raises(BufferExhaustedError) as caught:
        bench.send()
    assert caught.value.outcome is Outcome.NOT_SENT
    bench.append_error = BufferExhaustedError("full").with_outcome(Outcome.UNKNOWN)
    with pytest.raises(BufferExhaustedError) as caught:
        bench.send()
    assert caught.value.outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("failure", [ValueError("no"), SystemExit(1), KeyboardInterrupt()])
def test_a_record_that_is_refused_in_any_way_keeps_its_transaction_from_committing(
    failure: BaseException,
) -> None:
    def serialize(value: Any) -> bytes:
        raise failure

    bench = Bench(transactional_id="x", value_serializer=serialize)
    expected = SerializationError if isinstance(failure, Exception) else type(failure)
    with pytest.raises(expected):
        bench.send()
    gate = bench.transactions
    assert gate is not None
    ((told, transaction),) = gate.failures
    assert isinstance(told, KafkaError)
    assert transaction is gate.transaction
    assert bench.appended == []


def test_a_transaction_that_ends_while_the_record_is_serialized_does_not_get_it() -> None:
    def serialize(value: Any) -> bytes:
        gate.transaction = object()
        return b""

    bench = Bench(transactional_id="x", value_serializer=serialize)
    gate = bench.transactions
    assert gate is not None
    before = gate.transaction
    with pytest.raises(IllegalStateError, match="has ended"):
        bench.send()
    assert bench.appended == []
    # The transaction that the record belonged to is told, not the next one.
    assert [transaction for _, transaction in gate.failures] == [before]


def test_a_record_for_a_full_buffer_reaches_interceptors_and_transaction_once() -> None:
    hooks = Hooks()
    bench = Bench(hooks, transactional_id="x")
    bench.append_error = full = BufferExhaustedError("full")
    with pytest.raises(BufferExhaustedError):
        bench.send(partition=1)
    gate = bench.transactions
    assert gate is not None
    assert hooks.acknowledged == [(1, full)]
    assert gate.failures == [(full, gate.transaction)]


@pytest.mark.parametrize("chosen", [2, -2, True, 1.5, "0", None])
def test_a_partition_that_the_topic_does_not_have_is_not_appended(chosen: object) -> None:
    bench = Bench(partitioner=lambda *_: chosen)
    with pytest.raises(InvalidArgumentError, match="partitions 0 to 1") as caught:
        bench.send()
    assert caught.value.outcome is Outcome.NOT_SENT
    assert bench.appended == []


def test_an_explicit_partition_is_not_left_to_the_partitioner() -> None:
    bench = Bench(partitioner=lambda *_: 1 / 0)
    bench.send(partition=1)
    assert bench.appended[0].partition == 1


def test_only_records_without_a_key_are_left_to_the_accumulator() -> None:
    bench = Bench()
    bench.send()
    bench.send(key=b"k")
    assert bench.appended[0].partition == UNKNOWN_PARTITION
    assert bench.appended[1].partition in (0, 1)
    without_keys = Bench(partitioner_ignore_keys=True)
    without_keys.send(key=b"k")
    assert without_keys.appended[0].partition == UNKNOWN_PARTITION


@pytest.mark.parametrize("role", ["key", "value"])
def test_headers_that_a_serializer_appends_are_checked_and_do_not_reach_the_callers_list(role: str) -> None:
    class Serializer:
        def serialize(self, topic: str, headers: list[Any], value: Any) -> bytes:
            headers.append(("added", value))
            return b"serialized"

    bench = Bench(**{f"{role}_serializer": Serializer()})
    given = [("h", b"1")]
    bench.send(headers=given, **{role: b"new"})
    assert bench.appended[0].headers == [("h", b"1"), ("added", b"new")]
    assert given == [("h", b"1")]
    with pytest.raises(SerializationError, match="header 'added'"):
        bench.send(headers=given, **{role: object()})
    assert len(bench.appended) == 1


@pytest.mark.parametrize(
    ("settings", "named"),
    [({"max_request_size": 2000}, "max_request_size=2000"), ({"buffer_memory": 1500}, "buffer_memory=1500")],
)
def test_the_smaller_limit_is_checked_to_the_byte_and_named(settings: dict[str, int], named: str) -> None:
    bench = Bench(batch_size=100, **settings)
    (limit,) = settings.values()
    fits = next(size for size in range(limit, 0, -1) if _is_accepted(bench, size))
    # Everything around the value takes less than the generous bound below which nothing is checked.
    assert 0 < limit - fits < 128
    with pytest.raises(RecordTooLargeError, match=rf"up to {limit + 1} bytes, more than {named}"):
        bench.send(value=bytes(fits + 1))


def _is_accepted(bench: Bench, size: int) -> bool:
    try:
        bench.send(value=bytes(size))
    except RecordTooLargeError:
        return False
    return True


def test_a_callback_is_checked_by_its_code_and_each_call_gets_its_own() -> None:
    bench = Bench()

    def make() -> Callable[[object, object], None]:
        return lambda metadata, error: None

    first, second = make(), make()
    bench.send(on_delivery=first)
    bench.send(on_delivery=second)
    assert [each.on_delivery for each in bench.appended] == [first, second]
    for wrong in (lambda error, metadata: None, "text"):
        with pytest.raises(KafkaError, match="on_delivery"):
            bench.send(on_delivery=wrong)
    assert len(bench.appended) == 2


def test_a_closed_producer_refuses_before_it_serializes() -> None:
    bench = Bench(value_serializer=lambda value: 1 / 0)
    pending = bench.pending()
    bench.queues.is_closed = True
    with pytest.raises(ProducerClosedError) as caught:
        blocking.finish(pending)
    assert caught.value.outcome is Outcome.NOT_SENT

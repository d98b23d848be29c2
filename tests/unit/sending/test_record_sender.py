"""RecordSender between its arguments and ``RecordAccumulator.append``: what it passes on, refuses and undoes.

The engine is a stand-in, so that each wait, and each error of a part, comes at a chosen step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from kproducer.client.metadata import Metadata
from kproducer.config.producer_config import ProducerConfig
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
from kproducer.errors.internal_errors import MemoryNeededError, PreparationNeededError, TopicNeededError
from kproducer.metrics.call_times import CallTimes
from kproducer.sending.interceptors import ProducerInterceptors
from kproducer.sending.record_sender import RecordSender
from kproducer.types import UNKNOWN_PARTITION
from tests.support.manual_clock import ManualClock
from tests.support.units.metadata_messages import response

MAX_BLOCK_MS = 1000
FUTURE: Any = object()


class Appended(NamedTuple):
    """The arguments of ``RecordAccumulator.append``."""

    topic: str
    partition: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Any
    on_delivery: Any
    max_block_ms: float
    now_ms: int | None
    snapshot: Any
    may_wait: bool


class Gate:
    """A ``TransactionLifecycle`` as far as ``send`` uses it."""

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
    """A sender over parts that record what they are told. It is its own engine, lifecycle and fast path."""

    def __init__(
        self, *interceptors: object, topics: Mapping[str, int] | None = None, **settings: Any
    ) -> None:
        given: dict[str, Any] = {"max_block_ms": MAX_BLOCK_MS, **settings}
        self.config = ProducerConfig(bootstrap_servers=("b:1",), **given)
        self.clock = ManualClock()
        self.call_times = CallTimes()
        self.metadata = Metadata(self.config)
        self.transaction_lifecycle = Gate() if self.config.transactional_id else None
        self.accumulator = self.sender = self
        self.engine: Bench | None = self
        self.is_closed = self.is_io_thread = False
        self.appended: list[Appended] = []
        self.append_error: BaseException | None = None
        self.wakes_sender = False
        self.wakeups = 0
        self.while_waiting: Callable[[], object] | None = None
        self.learn({"t": 2} if topics is None else topics)
        self.records = RecordSender(self, ProducerInterceptors(interceptors), self)  # type: ignore[arg-type]

    def learn(self, topics: Mapping[str, int]) -> None:
        """The cluster has these topics, with so many partitions."""
        for topic in topics:
            self.metadata.add(topic, self.clock.now_ms)
        request = self.metadata.new_metadata_request_and_version(self.clock.now_ms)
        leaders = {topic: [(1, 1)] * count for topic, count in topics.items()}
        self.metadata.update(request, response(leaders), self.clock.now_ms)

    def send(self, topic: Any = "t", value: Any = b"v", key: Any = None, **others: Any) -> Any:
        names = ("headers", "partition", "timestamp_ms", "on_delivery")
        arguments = [others.pop(name, None) for name in names]
        return self.records.send(topic, value, key, *arguments, **others)

    # -- engine, lifecycle, accumulator, sender, fast path

    def running_engine(self) -> Bench:
        if self.is_closed:
            raise ProducerClosedError("the producer is closed")
        return self

    def append(self, *arguments: Any) -> tuple[Any, bool]:
        if self.append_error is not None:
            raise self.append_error
        self.appended.append(Appended(*arguments))
        return FUTURE, self.wakes_sender

    def wakeup(self) -> None:
        self.wakeups += 1
        if self.while_waiting is not None:
            self.while_waiting()

    def last_errors(self) -> str:
        return "b:1 is down"

    def configure(self, **_: object) -> None:
        pass

    def accept_callbacks_of(self, code: object) -> None:
        pass

    def try_send(self, *_: object) -> None:
        return None


# -- time --------------------------------------------------------------------------------------------------


def test_what_the_wait_for_the_topic_leaves_of_max_block_ms_is_for_memory() -> None:
    bench = Bench(topics={})

    def become_known() -> None:
        bench.clock.advance(300)
        bench.learn({"t": 1})

    bench.while_waiting = become_known
    assert bench.send() is FUTURE
    (appended,) = bench.appended
    assert (appended.max_block_ms, appended.now_ms) == (700, bench.clock.now_ms)
    bench.while_waiting = None
    bench.send()
    # Without a wait the accumulator reads the clock if it needs it.
    assert bench.appended[1][7:9] == (MAX_BLOCK_MS, None)


def test_a_wait_that_took_longer_than_max_block_ms_leaves_nothing_for_memory() -> None:
    bench = Bench(topics={})

    def become_known_late() -> None:
        bench.clock.advance(MAX_BLOCK_MS + 5)
        bench.learn({"t": 1})

    bench.while_waiting = become_known_late
    bench.send()
    assert bench.appended[0].max_block_ms == 0


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


def test_a_partition_that_appears_is_used() -> None:
    bench = Bench(topics={"t": 1})
    bench.while_waiting = lambda: bench.learn({"t": 3})
    bench.send(partition=2)
    assert bench.appended[0].partition == 2


def test_the_sender_is_woken_only_if_the_accumulator_says_so() -> None:
    bench = Bench()
    bench.send()
    assert bench.wakeups == 0
    bench.wakes_sender = True
    bench.send()
    assert bench.wakeups == 1


# -- sends that must not wait --------------------------------------------------------------------------------


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


def test_a_send_that_waits_for_its_topic_continues_without_calling_anything_twice() -> None:
    hooks = Hooks()
    bench = Bench(hooks, topics={}, transactional_id="x")
    with pytest.raises(TopicNeededError) as caught:
        bench.send(held_topics=())
    assert (caught.value.topic, caught.value.partition, bench.appended) == ("t", None, [])
    bench.learn({"t": 1})
    assert caught.value.resume(held_topics=()) is FUTURE
    assert bench.appended[0].value == b"v!"
    assert not bench.appended[0].may_wait
    gate = bench.transaction_lifecycle
    assert gate is not None
    # Entered once; then checked again, because the wait may have outlived the transaction.
    assert (hooks.sent, gate.checked) == (1, [None, gate.transaction])
    assert (gate.failures, hooks.acknowledged) == ([], [])


def test_a_waiting_send_that_is_given_up_is_told_to_interceptors_and_transaction() -> None:
    hooks = Hooks()
    bench = Bench(hooks, topics={}, transactional_id="x")
    with pytest.raises(TopicNeededError) as caught:
        bench.send(held_topics=())
    error = MetadataTimeoutError("too late")
    for note in caught.value.on_failure:
        note(error)
    gate = bench.transaction_lifecycle
    assert gate is not None
    assert hooks.acknowledged == [(-1, error)]
    assert gate.failures == [(error, gate.transaction)]


@pytest.mark.parametrize("held", ["t", ("t", 1)])
def test_a_record_does_not_overtake_those_that_wait_for_its_topic(held: object) -> None:
    bench = Bench()
    with pytest.raises(TopicNeededError):
        bench.send(partition=1, held_topics={held})
    assert bench.send(partition=1, held_topics={"other", ("t", 0)}) is FUTURE


def test_a_serializer_is_prepared_once_and_only_where_the_call_must_not_wait() -> None:
    prepared: list[str] = []

    class Serializer:
        def is_prepared(self, topic: str) -> bool:
            return False

        def prepare(self, topic: str) -> None:
            prepared.append(topic)

        def serialize(self, topic: str, headers: Any, value: Any) -> bytes:
            return b"serialized"

    bench = Bench(value_serializer=Serializer())
    assert bench.send() is FUTURE
    assert bench.send(value=None, held_topics=()) is FUTURE  # there is nothing to serialize
    with pytest.raises(PreparationNeededError) as caught:
        bench.send(held_topics=())
    caught.value.prepare()
    # Its topic may be forgotten again meanwhile: it is serialized all the same.
    assert caught.value.resume(held_topics=()) is FUTURE
    assert (prepared, bench.appended[-1].value) == (["t"], b"serialized")


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
    gate = bench.transaction_lifecycle
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
    gate = bench.transaction_lifecycle
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
    gate = bench.transaction_lifecycle
    assert gate is not None
    assert hooks.acknowledged == [(1, full)]
    assert gate.failures == [(full, gate.transaction)]


def test_a_send_that_would_wait_for_memory_is_no_failure_yet() -> None:
    hooks = Hooks()
    bench = Bench(hooks, transactional_id="x")
    bench.append_error = wait = MemoryNeededError(10, None)
    with pytest.raises(MemoryNeededError):
        bench.send(held_topics=())
    gate = bench.transaction_lifecycle
    assert gate is not None
    assert (hooks.acknowledged, gate.failures) == ([], [])
    assert len(wait.on_failure) == 2


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
    bench.is_closed = True
    with pytest.raises(ProducerClosedError) as caught:
        bench.send()
    assert caught.value.outcome is Outcome.NOT_SENT

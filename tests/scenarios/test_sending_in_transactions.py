"""Sending with a transactional id: as without one, but never outside a transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from kproducer import (
    AbortTransactionError,
    FencedError,
    IllegalStateError,
    KafkaError,
    KafkaProducer,
    MetadataTimeoutError,
    Outcome,
    ProducerClosedError,
    SerializationError,
    build_info,
)
from kproducer._core.bulk.arrow_columns import ArrowColumns
from kproducer._core.bulk.send_arrow import RowRefusedError
from kproducer.compat.confluent_kafka import Producer
from kproducer.testing.fakebroker import FakeCluster, faults
from tests.scenarios import internals
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S
from tests.scenarios.transactions import committed, transactional
from tests.support.units.appending import take_memory
from tests.support.waiting import wait_until

PRODUCE, METADATA, END = 0, 3, 26
LONG_MS = 15_000


def count_general_sends(producer: KafkaProducer, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    general = []
    engine = producer._lifecycle.engine
    assert engine is not None
    original = engine.admission.admit

    def admit(*record: Any) -> Any:
        general.append(record[1])
        return original(*record)

    monkeypatch.setattr(engine.admission, "admit", admit)
    return general


@pytest.mark.skipif(build_info().kernel == "pure", reason="the pure kernel has no fast path")
def test_only_the_first_record_of_a_batch_takes_the_general_path(
    stage: Stage, one: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = transactional(stage, one, linger_ms=LONG_MS)
    slow = count_general_sends(producer, monkeypatch)
    for number in range(2):
        with producer.transaction():
            for letter in "abc":
                producer.send("t", f"{letter}{number}", partition=0)
    assert committed(one) == [b"a0", b"b0", b"c0", b"a1", b"b1", b"c1"]
    assert set(slow) <= {"a0", "a1"}


def _commit(producer: KafkaProducer) -> None:
    producer.commit_transaction()


def _abort(producer: KafkaProducer) -> None:
    producer.abort_transaction()


def _prepare(producer: KafkaProducer) -> None:
    producer.prepare()


def _close(producer: KafkaProducer) -> None:
    producer.close()


SENDS: list[Callable[[KafkaProducer], Any]] = [
    lambda producer: producer.send("t", b"stray", partition=0),
    lambda producer: producer.send_many("t", [b"stray"], partitions=0),
    lambda producer: producer.send_arrow("t", pa.table({"value": [b"stray"]}), partition=0),
]


@pytest.mark.parametrize("send", SENDS, ids=["send", "send_many", "send_arrow"])
@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (_commit, IllegalStateError),
        (_abort, IllegalStateError),
        (_prepare, IllegalStateError),
        (_close, ProducerClosedError),
    ],
)
def test_after_the_end_no_record_is_accepted(
    stage: Stage,
    one: FakeCluster,
    end: Callable[[KafkaProducer], None],
    expected: type[KafkaError],
    send: Callable[[KafkaProducer], Any],
) -> None:
    producer = transactional(stage, one)
    producer.begin_transaction()
    producer.send("t", b"1", partition=0)
    producer.flush()
    end(producer)
    produced = len(one.requests(PRODUCE))
    with pytest.raises(expected):
        send(producer)
    assert len(one.requests(PRODUCE)) == produced


def test_no_record_is_accepted_during_a_commit(stage: Stage, one: FakeCluster) -> None:
    producer = transactional(stage, one)
    producer.begin_transaction()
    producer.send("t", b"1", partition=0)
    gate = one.gate()
    one.control(END, faults.hold_before(gate))
    with pytest.raises(KafkaError, match="commit_transaction"):
        producer.commit_transaction(0.01)
    for send in SENDS:
        with pytest.raises(IllegalStateError):
            send(producer)
    gate.open()
    producer.commit_transaction()
    assert committed(one) == [b"1"]


@pytest.mark.parametrize("send", SENDS, ids=["send", "send_many", "send_arrow"])
def test_after_an_error_only_an_abort_is_possible(
    stage: Stage, one: FakeCluster, send: Callable[[KafkaProducer], Any]
) -> None:
    producer = transactional(stage, one)
    one.control(PRODUCE, faults.refuse_produce(87))
    producer.begin_transaction()
    future = producer.send("t", b"refused", partition=0)
    assert future.exception(60) is not None
    with pytest.raises(AbortTransactionError):
        send(producer)
    producer.abort_transaction()
    with producer.transaction():
        producer.send("t", b"next", partition=0)
    assert committed(one) == [b"next"]


@pytest.mark.parametrize("send", SENDS, ids=["send", "send_many", "send_arrow"])
def test_a_fenced_producer_accepts_no_record(
    stage: Stage, one: FakeCluster, send: Callable[[KafkaProducer], Any]
) -> None:
    older = transactional(stage, one)
    older.begin_transaction()
    older.send("t", b"old", partition=0)
    older.flush()
    transactional(stage, one)
    with pytest.raises(KafkaError):
        older.commit_transaction()
    with pytest.raises((FencedError, AbortTransactionError)):
        send(older)
    assert committed(one) == []


def strict(value: object) -> bytes:
    if value == "bad":
        raise ValueError(value)
    return str(value).encode()


@pytest.mark.parametrize("column", ["value", "key", "headers"])
def test_a_value_that_cannot_be_converted_prevents_the_commit(
    stage: Stage, one: FakeCluster, column: str
) -> None:
    producer = transactional(stage, one, linger_ms=LONG_MS, key_serializer=strict, value_serializer=strict)
    producer.begin_transaction()
    for _ in range(2):
        producer.send("t", "good", key="k", headers=[("h", b"")], partition=0)
    record: dict[str, Any] = {"value": "good", "key": "k", "headers": None, "partition": 0}
    record[column] = [("name", object())] if column == "headers" else "bad"
    with pytest.raises(SerializationError):
        producer.send("t", **record)
    with pytest.raises(AbortTransactionError):
        producer.commit_transaction()
    producer.abort_transaction()
    assert committed(one) == []


def test_text_that_is_not_valid_unicode_prevents_the_commit(stage: Stage, one: FakeCluster) -> None:
    producer = transactional(stage, one, linger_ms=LONG_MS)
    producer.begin_transaction()
    for _ in range(2):
        producer.send("t", b"good", partition=0)
    with pytest.raises(SerializationError):
        producer.send("t", "\ud800", partition=0)
    with pytest.raises(AbortTransactionError):
        producer.commit_transaction()


def test_a_bulk_call_ends_where_the_transaction_does(stage: Stage, one: FakeCluster) -> None:
    producer = transactional(stage, one, max_request_size=2000, linger_ms=LONG_MS)
    producer.begin_transaction()
    result = producer.send_many("t", [b"1", b"x" * 5000, *[b"more"] * 1000], partitions=0)
    failures = [result[index].exception(0) for index in range(2, 1002) if result[index].done()]
    assert all(isinstance(error, AbortTransactionError) for error in failures)
    assert len(result) == 1002
    with pytest.raises(AbortTransactionError):
        producer.commit_transaction()
    producer.abort_transaction()
    assert committed(one) == []


def test_an_arrow_sink_writes_in_transactions_only(stage: Stage, one: FakeCluster) -> None:
    producer = transactional(stage, one, max_request_size=2000)
    sink = producer.arrow_sink("t", ArrowColumns(value="value", partition=0))
    with pytest.raises(RowRefusedError) as caught:
        sink.send(pa.table({"value": [b"too early"]}))
    assert isinstance(caught.value.error, IllegalStateError)
    sink = producer.arrow_sink("t", ArrowColumns(value="value", partition=0))
    with producer.transaction():
        sink.send(pa.table({"value": [b"1", b"2"]}))
    assert committed(one) == [b"1", b"2"]
    producer.begin_transaction()
    with pytest.raises(RowRefusedError):
        sink.send(pa.table({"value": [b"3", b"x" * 5000]}))
    with pytest.raises(AbortTransactionError):
        producer.commit_transaction()
    producer.abort_transaction()
    assert committed(one) == [b"1", b"2"]


# -- a call that waits while its transaction ends ------------------------------------------------------------

ENDS = pytest.mark.parametrize("end", [_commit, _abort])


class Holding:
    """A serializer, and a column of values, that wait at the second value for the end of the transaction."""

    def __init__(self) -> None:
        self.is_waiting, self.may_continue = threading.Event(), threading.Event()

    def __call__(self, value: bytes) -> bytes:
        if value == b"late":
            self.is_waiting.set()
            assert self.may_continue.wait(PATIENCE_S)
        return value

    def values(self) -> Iterator[bytes]:
        yield b"early"
        yield self(b"late")

    def tables(self) -> Iterator[Any]:
        for value in self.values():
            yield pa.table({"value": [value]})


def asks_for(cluster: FakeCluster, topic: str) -> bool:
    requests = (each.message for each in cluster.requests(METADATA))
    return any(topic == wanted.name for request in requests for wanted in request.topics or ())


def begin_the_next(producer: KafkaProducer, end: Callable[[KafkaProducer], None]) -> None:
    end(producer)
    producer.begin_transaction()


def check_refused(call: Any, one: FakeCluster, producer: KafkaProducer, topic: str = "t") -> None:
    """The next transaction is open: the record is not part of it, and does not prevent its commit."""
    error = call.exception(PATIENCE_S)
    assert isinstance(error, IllegalStateError), error
    assert error.outcome is Outcome.NOT_SENT
    producer.send("t", b"next", partition=0)
    producer.commit_transaction()
    assert b"late" not in [each.value for each in one.committed_records(topic, 0)]
    assert committed(one)[-1] == b"next"


@ENDS
def test_a_record_that_waits_for_metadata_is_not_part_of_the_next_transaction(
    stage: Stage, one: FakeCluster, end: Callable[[KafkaProducer], None]
) -> None:
    producer = transactional(stage, one, metadata_max_age_ms=50)
    producer.begin_transaction()
    with ThreadPoolExecutor() as threads:
        call = threads.submit(producer.send, "late", b"late", partition=0)
        wait_until(lambda: asks_for(one, "late"))
        begin_the_next(producer, end)
        one.create_topic("late", 1)
        check_refused(call, one, producer, "late")


def test_a_record_that_waits_in_vain_does_not_prevent_the_next_commit(stage: Stage, one: FakeCluster) -> None:
    producer = transactional(stage, one, max_block_ms=3_000, metadata_max_age_ms=50)
    producer.begin_transaction()
    with ThreadPoolExecutor() as threads:
        call = threads.submit(producer.send, "late", b"late", partition=0)
        wait_until(lambda: asks_for(one, "late"))
        begin_the_next(producer, _commit)
        assert isinstance(call.exception(PATIENCE_S), MetadataTimeoutError)
        producer.send("t", b"next", partition=0)
        producer.commit_transaction()
    assert committed(one) == [b"next"]


@ENDS
def test_a_record_whose_serializer_waits_is_not_part_of_the_next_transaction(
    stage: Stage, one: FakeCluster, end: Callable[[KafkaProducer], None]
) -> None:
    holding = Holding()
    producer = transactional(stage, one, value_serializer=holding)
    producer.begin_transaction()
    producer.send("t", b"early", partition=0)
    with ThreadPoolExecutor() as threads:
        call = threads.submit(producer.send, "t", b"late", partition=0)
        assert holding.is_waiting.wait(PATIENCE_S)
        begin_the_next(producer, end)
        producer.send("t", b"open batch", partition=0)
        holding.may_continue.set()
        check_refused(call, one, producer)


@ENDS
def test_a_record_that_waits_for_memory_is_not_part_of_the_next_transaction(
    stage: Stage, one: FakeCluster, end: Callable[[KafkaProducer], None]
) -> None:
    producer = transactional(stage, one, buffer_memory=16_384, batch_size=16_384)
    producer.partitions_for("t")
    producer.begin_transaction()
    pool = internals.accumulator(producer).pool
    taken = take_memory(pool, 16_384, 0)
    with ThreadPoolExecutor() as threads:
        call = threads.submit(producer.send, "t", b"late", partition=0)
        wait_until(lambda: internals.memory_waiters(producer) == 1)
        begin_the_next(producer, end)
        pool.deallocate(taken)
        check_refused(call, one, producer)


@ENDS
@pytest.mark.parametrize("serializes", [False, True])
def test_rows_that_come_late_are_not_part_of_the_next_transaction(
    stage: Stage, one: FakeCluster, end: Callable[[KafkaProducer], None], serializes: bool
) -> None:
    holding = Holding()
    settings = {"value_serializer": lambda value: value} if serializes else {}
    producer = transactional(stage, one, **settings)
    producer.begin_transaction()

    def send_rows() -> None:
        error = producer.send_many("t", holding.values(), partitions=0)[1].exception(PATIENCE_S)
        if error is not None:
            raise error

    with ThreadPoolExecutor() as threads:
        call = threads.submit(send_rows)
        assert holding.is_waiting.wait(PATIENCE_S)
        begin_the_next(producer, end)
        producer.send("t", b"open batch", partition=0)
        holding.may_continue.set()
        check_refused(call, one, producer)


@ENDS
def test_tables_that_come_late_are_not_part_of_the_next_transaction(
    stage: Stage, one: FakeCluster, end: Callable[[KafkaProducer], None]
) -> None:
    holding = Holding()
    producer = transactional(stage, one)
    producer.begin_transaction()
    with ThreadPoolExecutor() as threads:
        call = threads.submit(producer.send_arrow, "t", holding.tables(), partition=0)
        assert holding.is_waiting.wait(PATIENCE_S)
        begin_the_next(producer, end)
        producer.send("t", b"open batch", partition=0)
        holding.may_continue.set()
        check_refused(call, one, producer)


def test_a_message_of_the_adapter_that_waits_for_its_topic_is_not_part_of_the_next_transaction(
    one: FakeCluster,
) -> None:
    producer = Producer({"bootstrap.servers": one.bootstrap_servers, "transactional.id": "tx"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    errors: list[Any] = []
    producer.produce("late", b"late", on_delivery=lambda error, message: errors.append(error))
    # As of a thread whose commit has flushed before the message was produced.
    producer._producer.commit_transaction(PATIENCE_S)
    producer.begin_transaction()
    one.create_topic("late", 1)
    producer.produce("t", b"next", partition=0)
    producer.commit_transaction(PATIENCE_S)
    assert [str(each.name()) for each in errors] == ["_STATE"]
    assert one.committed_records("late", 0) == []
    assert committed(one) == [b"next"]
    producer.close()

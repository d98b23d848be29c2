"""Sending with a transactional id: as without one, but never outside a transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from kproducer import (
    AbortTransactionError,
    FencedError,
    IllegalStateError,
    KafkaError,
    KafkaProducer,
    ProducerClosedError,
    SerializationError,
    build_info,
)
from kproducer.bulk.arrow_columns import ArrowColumns
from kproducer.bulk.send_arrow import RowRefusedError
from kproducer.testing.fakebroker import FakeCluster, faults
from tests.scenarios.conftest import Stage
from tests.scenarios.transactions import committed, transactional

PRODUCE, END = 0, 26
LONG_MS = 15_000


def count_general_sends(producer: KafkaProducer, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    general = []
    original = producer._record_sender.send

    def send(*record: Any) -> Any:
        general.append(record[1])
        return original(*record)

    monkeypatch.setattr(producer._record_sender, "send", send)
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

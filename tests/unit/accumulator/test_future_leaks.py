"""Nothing that applications do with a future and its error keeps objects alive for ever.

The garbage collector does not look at compiled futures, so no cycle may lead through one.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from kproducer import KafkaProducer
from kproducer._core.accumulator import future_record_metadata
from kproducer._core.accumulator.future_record_metadata import FutureRecordMetadata, ProduceRequestResult
from kproducer._core.kernel import BatchWriter, RecordAppender
from kproducer.errors import KafkaError, Outcome, SerializationError
from kproducer.testing import FakeKafka
from kproducer.types import TopicPartition


class Precious:
    """Held by a frame or a callback of the application; must go with it."""

    others: Any = None
    future: Any = None


def call_result(future: FutureRecordMetadata) -> None:
    future.result(0)


def raise_exception(future: FutureRecordMetadata) -> None:
    error = future.exception(0)
    assert error is not None
    raise error


def await_it(future: FutureRecordMetadata) -> None:
    async def wait() -> None:
        await future

    asyncio.run(wait())


def wrap_it(future: FutureRecordMetadata) -> None:
    async def wait() -> None:
        await asyncio.wrap_future(future)

    asyncio.run(wait())


def batch_of(count: int) -> tuple[RecordAppender, list[FutureRecordMetadata]]:
    result = ProduceRequestResult(TopicPartition("t", 0))
    appender = RecordAppender(
        BatchWriter(bytearray(1000)), result, result.outcome, future_record_metadata.FutureRecordMetadata
    )
    futures = [appender.append(1, b"k", b"v", None, None) for _ in range(count)]
    return appender, [future for future in futures if future is not None]


def fail(appender: RecordAppender) -> None:
    appender.batch_result.settle(-1, -1, KafkaError("no").with_outcome(Outcome.NOT_SENT), None)
    appender.batch_result.release(appender.deliveries)


@pytest.mark.parametrize("read", [call_result, raise_exception, await_it, wrap_it])
def test_a_raised_error_does_not_keep_the_frames_it_went_through(
    read: Callable[[FutureRecordMetadata], None],
) -> None:
    def application() -> weakref.ref[Precious]:
        precious = Precious()
        appender, futures = batch_of(3)
        fail(appender)
        # This frame holds all futures of the batch.
        with pytest.raises(KafkaError, match="no") as caught:
            read(futures[1])
        assert getattr(caught.value, "outcome", None) is Outcome.NOT_SENT
        return weakref.ref(precious)

    alive = application()
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("attach", ["on_delivery", "done callback"])
def test_a_callback_that_raises_the_error_is_let_go(attach: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Or pytest keeps the error, as part of what was logged.
    monkeypatch.setattr(logging.getLogger("kproducer.accumulator"), "disabled", True)

    def application() -> weakref.ref[Precious]:
        precious = Precious()
        appender, futures = batch_of(1)
        precious.others = futures

        def on_delivery(_: Any, error: KafkaError | None) -> None:
            assert precious.others is futures
            assert error is not None
            raise error

        def on_done(future: Any) -> None:
            assert precious.others is futures
            future.result(0)

        if attach == "on_delivery":
            futures.append(appender.append(1, b"k", b"v", None, on_delivery))
        else:
            futures[0].add_done_callback(on_done)
        fail(appender)
        return weakref.ref(precious)

    alive = application()
    gc.collect()
    assert alive() is None


def test_a_record_that_fails_its_transaction_does_not_keep_the_frames_of_the_call() -> None:
    def serialize(value: bytes) -> bytes:
        if value == b"wrong":
            raise ValueError(value)
        return value

    def application(producer: KafkaProducer) -> weakref.ref[Precious]:
        precious = Precious()
        precious.future = producer.send("t", b"right")
        with pytest.raises(SerializationError):
            producer.send("t", b"wrong")
        error = precious.future.exception(10)
        assert isinstance(error.__cause__, SerializationError)
        return weakref.ref(precious)

    with (
        FakeKafka() as kafka,
        KafkaProducer(
            kafka.bootstrap_servers, transactional_id="tx", linger_ms=60_000, value_serializer=serialize
        ) as producer,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        alive = application(producer)
        gc.collect()
        assert alive() is None


def test_what_hangs_on_a_future_and_leads_back_to_it_is_found() -> None:
    precious = Precious()
    _, (future,) = batch_of(1)
    precious.future = future
    future.context = precious  # type: ignore[attr-defined]
    alive = weakref.ref(precious)
    del precious, future
    gc.collect()
    assert alive() is None


def test_readers_of_one_error_do_not_share_its_object() -> None:
    appender, futures = batch_of(2)
    fail(appender)
    errors = [
        futures[0].exception(0),
        futures[0].exception(0),
        futures[1].exception(0),
        appender.batch_result.error,
    ]
    assert len({id(error) for error in errors}) == 4
    assert {(type(error), str(error)) for error in errors} == {(KafkaError, "no")}

"""A flush counts records that are done before it begins to wait."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from kproducer import AsyncKafkaProducer, KafkaProducer
from kproducer._core.engine.producer_engine import ProducerEngine
from kproducer.testing import FakeKafka
from kproducer.types import FlushResult
from tests.support.waiting import wait_until


class QuickSender:
    """The sender of an engine, which has delivered everything when ``wakeup`` returns."""

    def __init__(self, engine: ProducerEngine) -> None:
        self._engine, self._sender = engine, engine.sender

    def wakeup(self) -> None:
        self._sender.wakeup()
        wait_until(lambda: not self._engine.accumulator.incomplete_record_count)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sender, name)


@pytest.fixture
def servers() -> Iterator[str]:
    with FakeKafka() as kafka:
        kafka.create_topic("t")
        yield kafka.bootstrap_servers


@pytest.mark.parametrize("count", [0, 3])
def test_records_that_are_done_when_the_flush_begins_to_wait_are_counted(servers: str, count: int) -> None:
    with KafkaProducer(servers, linger_ms=3_600_000, delivery_timeout_ms=7_200_000) as producer:
        producer.partitions_for("t")
        for _ in range(count):
            producer.send("t", b"x")
        engine: Any = producer._lifecycle.running_engine()
        engine.sender = QuickSender(engine)
        assert producer.flush() == FlushResult(count, 0)
        assert producer.flush() == FlushResult(0, 0)


@pytest.mark.parametrize("count", [0, 3])
def test_so_does_the_flush_of_asyncio(servers: str, count: int) -> None:
    async def run() -> None:
        settings: Any = {"linger_ms": 3_600_000, "delivery_timeout_ms": 7_200_000}
        async with AsyncKafkaProducer(servers, **settings) as producer:
            await producer.partitions_for("t")
            for _ in range(count):
                producer.send("t", b"x")
            engine: Any = producer._lifecycle.running_engine()
            engine.sender = QuickSender(engine)
            assert await producer.flush() == FlushResult(count, 0)
            assert await producer.flush() == FlushResult(0, 0)

    asyncio.run(run())

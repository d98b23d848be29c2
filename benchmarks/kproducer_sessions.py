"""kproducer's methods of sending: a future per record, a callback per record, lists, Arrow tables."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.sessions import FLUSH_SECONDS, Target, chunks
from benchmarks.workload import LINGER_MS, Record
from kproducer import AsyncKafkaProducer, KafkaProducer


def _settings(target: Target) -> dict[str, Any]:
    settings: dict[str, Any] = dict(target.security)
    family = target.workload.settings
    if family.batch_bytes is not None:
        settings["batch_size"] = family.batch_bytes
    if family.buffer_bytes is not None:
        settings["buffer_memory"] = family.buffer_bytes
    return {
        "bootstrap_servers": target.bootstrap_servers,
        "acks": "all",
        "enable_idempotence": False,
        "linger_ms": LINGER_MS,
        "compression_type": target.workload.codec,
        **settings,
    }


class KeptFutureSession:
    """``send()``: each future is kept until ``flush`` returns, and read after the measurement."""

    def __init__(self, target: Target) -> None:
        self.topic = target.topic
        self.producer = KafkaProducer(**_settings(target))

    def prepare(self, records: list[Record]) -> Any:
        return records

    def send_all(self, prepared: Any) -> Any:
        send, topic = self.producer.send, self.topic
        futures = [send(topic, value, key) for key, value in prepared]
        self.producer.flush(FLUSH_SECONDS)
        return futures

    def acknowledged(self, sent: Any) -> int:
        return sum(future.exception(0) is None for future in sent)

    def close(self) -> None:
        self.producer.close()


class CountingSession(KeptFutureSession):
    """A session whose ``send_all`` returns the count."""

    def acknowledged(self, sent: Any) -> int:
        return int(sent)


class ReadFutureSession(CountingSession):
    """``send()``: each future is kept and read within the measurement."""

    def send_all(self, prepared: Any) -> int:
        return KeptFutureSession.acknowledged(self, super().send_all(prepared))


class DroppedFutureSession(CountingSession):
    """``send()`` by an application that drops the futures; the producer's metrics give the count."""

    def send_all(self, prepared: Any) -> int:
        send, topic = self.producer.send, self.topic
        failed_before = self._failed_count()
        for key, value in prepared:
            send(topic, value, key)
        self.producer.flush(FLUSH_SECONDS)
        return len(prepared) - (self._failed_count() - failed_before)

    def _failed_count(self) -> int:
        return int(self.producer.metrics()["producer-metrics"]["record-error-total"])


class CallbackSession(CountingSession):
    """``send()`` with a delivery callback."""

    def send_all(self, prepared: Any) -> int:
        acknowledged = 0

        def delivered(metadata: object, error: object) -> None:
            nonlocal acknowledged
            acknowledged += error is None

        send, topic = self.producer.send, self.topic
        for key, value in prepared:
            send(topic, value, key, on_delivery=delivered)
        self.producer.flush(FLUSH_SECONDS)
        return acknowledged


class ManySession(CountingSession):
    """``send_many()``: lists of values (and keys); the result of each call is read at the end."""

    def prepare(self, records: list[Record]) -> Any:
        return [
            ([value for _, value in chunk], None if chunk[0][0] is None else [key for key, _ in chunk])
            for chunk in chunks(records)
        ]

    def send_all(self, prepared: Any) -> int:
        send_many, topic = self.producer.send_many, self.topic
        results = [send_many(topic, values, keys) for values, keys in prepared]
        self.producer.flush(FLUSH_SECONDS)
        return sum(result.result(FLUSH_SECONDS).succeeded_count for result in results)


class ArrowSession(CountingSession):
    """``send_arrow()``: tables with the columns ``key`` and ``value``."""

    def prepare(self, records: list[Record]) -> Any:
        import pyarrow

        tables = []
        for chunk in chunks(records):
            columns = {"value": pyarrow.array([value for _, value in chunk], pyarrow.binary())}
            if chunk[0][0] is not None:
                columns["key"] = pyarrow.array([key for key, _ in chunk], pyarrow.binary())
            tables.append(pyarrow.table(columns))
        return tables

    def send_all(self, prepared: Any) -> int:
        send_arrow, topic = self.producer.send_arrow, self.topic
        key = "key" if "key" in prepared[0].column_names else None
        results = [send_arrow(topic, table, key=key) for table in prepared]
        self.producer.flush(FLUSH_SECONDS)
        return sum(result.result(FLUSH_SECONDS).succeeded_count for result in results)


class AsyncSubmitSession:
    """``AsyncKafkaProducer.submit()``: each future is kept until ``flush`` returns, and then read."""

    def __init__(self, target: Target) -> None:
        self.topic = target.topic
        self._gathered = target.gathered
        self._loop = asyncio.new_event_loop()
        self.producer = AsyncKafkaProducer(**_settings(target))

    def prepare(self, records: list[Record]) -> Any:
        return records

    def send_all(self, prepared: Any) -> int:
        return self._loop.run_until_complete(self._send(prepared))

    async def _send(self, records: list[Record]) -> int:
        submit, topic = self.producer.submit, self.topic
        futures = [await submit(topic, value, key) for key, value in records]
        await self.producer.flush(FLUSH_SECONDS)
        return sum(future.exception(0) is None for future in futures)

    def acknowledged(self, sent: Any) -> int:
        return int(sent)

    def close(self) -> None:
        self._loop.run_until_complete(self.producer.aclose())
        self._loop.close()


class AsyncSendsSession(AsyncSubmitSession):
    """``AsyncKafkaProducer.send()``, as many at once as ``Target.gathered``."""

    async def _send(self, records: list[Record]) -> int:
        send, topic, gathered = self.producer.send, self.topic, self._gathered
        acknowledged = 0
        for start in range(0, len(records), gathered):
            some = records[start : start + gathered]
            results = await asyncio.gather(*[send(topic, value, key) for key, value in some])
            acknowledged += sum(result.offset >= 0 for result in results)
        return acknowledged

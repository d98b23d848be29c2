"""A producer without brokers, for tests of what uses one: the test decides what becomes of each record."""

from __future__ import annotations

from typing import Any, NamedTuple

from kproducer.errors import KafkaError
from kproducer.types import RecordMetadata


class SentRecord(NamedTuple):
    topic: str
    value: Any
    key: Any
    headers: Any
    partition: int | None
    timestamp_ms: int | None


class FakeProducer:
    """Acknowledges on ``flush``, unless ``outcome`` (record number to error) says otherwise."""

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        self.settings = settings or {}
        self.sent: list[SentRecord] = []
        self.errors: dict[int, KafkaError] = {}
        self.refusals: dict[int, Exception] = {}
        self.closed_with: list[float | None] = []
        self.flush_count = 0
        self._waiting: list[tuple[int, Any]] = []

    def send(
        self, topic, value=None, key=None, headers=None, partition=None, timestamp_ms=None, on_delivery=None
    ):
        number = len(self.sent)
        if number in self.refusals:
            raise self.refusals[number]
        self.sent.append(SentRecord(topic, value, key, headers, partition, timestamp_ms))
        self._waiting.append((number, on_delivery))

    def settle(self) -> None:
        """Tell the fate of everything that was sent."""
        waiting, self._waiting = self._waiting, []
        for number, on_delivery in waiting:
            record = self.sent[number]
            partition = 0 if record.partition is None else record.partition
            error = self.errors.get(number)
            offset = -1 if error else number
            on_delivery(RecordMetadata(record.topic, partition, offset, 0, -1, -1), error)

    def flush(self, timeout: float | None = None) -> None:
        self.flush_count += 1
        self.settle()

    def metrics(self) -> dict[str, Any]:
        sent = len(self.sent)
        return {"byte_total": 10 * sent, "request_total": sent, "record_retry_total": 0}

    def close(self, timeout: float | None = None) -> None:
        self.closed_with.append(timeout)

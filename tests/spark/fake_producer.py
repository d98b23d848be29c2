"""A producer without brokers, for tests of what uses one: the test decides what becomes of each record."""

from __future__ import annotations

import math
import threading
from types import SimpleNamespace
from typing import Any, NamedTuple

from kproducer._core.accumulator.future_record_metadata import ProduceRequestResult
from kproducer._core.bulk.send_arrow import ArrowSink
from kproducer.errors import KafkaError
from kproducer.spark.producer_cache import ProducerCache
from kproducer.types import TopicPartition

_PARTITIONS = 10


class SentRecord(NamedTuple):
    topic: str
    value: Any
    key: Any
    headers: Any
    partition: int | None
    timestamp_ms: int | None


#: Of the cluster; the sink goes by what it knew when it began.
_NOTHING_KNOWN = SimpleNamespace(partition_count=lambda topic: 0)


class FakeProducer:
    """Acknowledges on ``flush``, unless ``outcome`` (record number to error) says otherwise."""

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        self.settings = settings or {}
        self.sent: list[SentRecord] = []
        self.errors: dict[int, KafkaError] = {}
        self.refusals: dict[int, Exception] = {}
        self.closed_with: list[float | None] = []
        self._waiting: list[tuple[int, ProduceRequestResult]] = []

    def arrow_sink(self, topic, columns):
        producer: Any = SimpleNamespace(
            send=self._send,
            # The time is a mark: real records never have it.
            clock=SimpleNamespace(wall_ms=lambda: -1),
            snapshot=_NOTHING_KNOWN,
            transaction=None,
            check_needs_no_objects=lambda call: None,
            await_partition_count=lambda topic, partition=None: _PARTITIONS,
            known_partition_count=lambda topic: 0,
            note_refusal=lambda error: None,
            slots_of=lambda topic: None,
            check_send=lambda: None,
            rules=SimpleNamespace(
                size_limit=1 << 20,
                size_setting="max_request_size",
                has_fast_path=False,
                ignores_keys=True,
            ),
            may_change_topics=False,
        )
        return ArrowSink(producer, columns, topic)

    def send(self, topic, value, key, headers, partition, timestamp_ms):
        return self._send(topic, value, key, headers, partition, timestamp_ms)

    def _send(self, topic, value, key, headers, partition, timestamp_ms):
        number = len(self.sent)
        if number in self.refusals:
            raise self.refusals[number]
        when = None if timestamp_ms == -1 else timestamp_ms
        self.sent.append(SentRecord(topic, value, key, headers, partition, when))
        result = ProduceRequestResult(TopicPartition(topic, partition or 0))
        self._waiting.append((number, result))
        return result.future(0, 0, -1, -1)

    def settle(self) -> None:
        """Tell the fate of everything that was sent."""
        waiting, self._waiting = self._waiting, []
        for number, result in waiting:
            error = self.errors.get(number)
            result.settle(-1 if error else number, -1, error, None)
            result.release()

    def flush(self, timeout: float | None = None) -> None:
        self.settle()

    def sent_totals(self, *, is_current: bool) -> dict[str, float]:
        sent = len(self.sent)
        return {
            "byte-total": 10 * sent,
            "produce-request-total": sent,
            "produce-latency-ms-total": 5 * sent,
            "record-retry-total": 0,
        }

    def close(self, timeout: float | None = None) -> None:
        self.closed_with.append(timeout)


def close_idle(cache: ProducerCache[Any]) -> None:
    """Close what a cache keeps, as its timer does later, and end the timer."""
    cache._clock = lambda: math.inf
    cache._close_expired(cache._timer_s)
    for thread in threading.enumerate():
        if (
            isinstance(thread, threading.Timer)
            and getattr(thread.function, "func", None) == cache._close_expired
        ):
            thread.cancel()

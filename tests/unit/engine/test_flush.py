"""ProducerEngine.flush: it counts records that are done before it begins to wait."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from kproducer.engine.producer_engine import ProducerEngine
from kproducer.metrics.call_times import CallTimes
from kproducer.types import FlushResult


class QuickEngine:
    """An engine whose I/O thread delivers everything as soon as a flush begins."""

    def __init__(self) -> None:
        self.call_times = CallTimes()
        self.waiting = 3
        self.accumulator: Any = SimpleNamespace(
            pending_records=lambda: self.waiting,
            await_completion=lambda pending, timeout_ms: FlushResult(pending, 0),
        )

    def check_may_wait(self, call: str) -> None:
        pass

    @contextlib.contextmanager
    def flushing(self) -> Iterator[None]:
        self.waiting = 0
        yield


def test_records_that_are_done_when_the_flush_begins_to_wait_are_counted() -> None:
    engine: Any = QuickEngine()
    assert ProducerEngine.flush(engine, None) == FlushResult(3, 0)

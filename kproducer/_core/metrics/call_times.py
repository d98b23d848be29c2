"""CallTimes: how long callers have waited in flush, in transaction calls and for metadata."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

#: The metrics that ``CallTimes`` counts. Source: Kafka class ``KafkaProducerMetrics`` (KIP-761).
CALL_TIMES = (
    "flush-time-ns-total",
    "metadata-wait-time-ns-total",
    "txn-init-time-ns-total",
    "txn-begin-time-ns-total",
    "txn-send-offsets-time-ns-total",
    "txn-prepare-time-ns-total",
    "txn-commit-time-ns-total",
    "txn-abort-time-ns-total",
)


class CallTimes:
    """Nanoseconds by metric. Thread-safe; a forked child makes its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ns = dict.fromkeys(CALL_TIMES, 0)

    @contextlib.contextmanager
    def timing(self, name: str) -> Iterator[None]:
        """Add the duration of the block, also if it raises. ``name``: one of ``CALL_TIMES``."""
        started_ns = time.monotonic_ns()
        try:
            yield
        finally:
            elapsed_ns = time.monotonic_ns() - started_ns
            with self._lock:
                self._ns[name] += elapsed_ns

    def values(self) -> dict[str, int]:
        """The nanoseconds by metric."""
        return self._ns.copy()

"""CallTimes: how long callers have waited in flush, in transaction calls and for metadata."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

#: The metrics that ``CallTimes`` counts, and their meanings. Source: Kafka class ``KafkaProducerMetrics``
#: (KIP-761).
CALL_TIMES = {
    "flush-time-ns-total": "ns in flush()",
    "metadata-wait-time-ns-total": "ns that calls waited for the metadata of a topic",
    "txn-abort-time-ns-total": "ns in abort_transaction() and abort_prepared()",
    "txn-begin-time-ns-total": "ns in begin_transaction()",
    "txn-commit-time-ns-total": "ns in commit_transaction() and commit_prepared()",
    "txn-init-time-ns-total": "ns in init_transactions()",
    "txn-prepare-time-ns-total": "ns in prepare()",
    "txn-send-offsets-time-ns-total": "ns in send_offsets_to_transaction()",
}


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

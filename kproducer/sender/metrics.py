"""ProducerMetrics: the counters of a producer, updated per batch and per request, never per record.

Only the I/O thread writes them and any thread may read, so a reader may see a sum that is one request ahead
of its count. The names are those of the Java client with ``_`` instead of ``-``.
Source: Kafka's ``SenderMetricsRegistry`` and ``BufferPool`` metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kproducer.accumulator.producer_batch import ProducerBatch

#: Every name that ``KafkaProducer.metrics()`` returns, with its unit and meaning.
METRICS: dict[str, tuple[str, str]] = {
    "batch_size_avg": ("bytes", "mean size of the batches sent, as on the wire"),
    "batch_size_max": ("bytes", "largest batch sent"),
    "batch_split_total": ("batches", "batches split because the broker rejected them as too large"),
    "batch_total": ("batches", "batches sent, retries included"),
    "buffer_available_bytes": ("bytes", "buffer memory that is available now"),
    "buffer_total_bytes": ("bytes", "buffer_memory"),
    "byte_total": ("bytes", "bytes of record batches sent, retries included"),
    "compression_rate_avg": ("ratio", "mean of compressed size / uncompressed size of the batches sent"),
    "incomplete_batches": ("batches", "batches that are neither acknowledged nor failed yet"),
    "io_error_total": ("errors", "unexpected errors in the I/O thread; each is logged"),
    "metadata_age_ms": ("ms", "time since the last full metadata update; -1 before the first"),
    "negotiated_versions": ("mapping", "node id to {API name: version in use}"),
    "produce_throttle_time_avg": ("ms", "mean throttle time in Produce responses"),
    "produce_throttle_time_max": ("ms", "longest throttle time in a Produce response"),
    "record_error_total": ("records", "records that failed"),
    "record_queue_time_avg": ("ms", "mean time from a batch's first record to its first request"),
    "record_queue_time_max": ("ms", "longest such time"),
    "record_retry_total": ("records", "records retried"),
    "record_send_total": ("records", "records sent, retries included"),
    "records_per_request_avg": ("records", "mean number of records in a Produce request"),
    "request_latency_avg": ("ms", "mean time from sending a Produce request to its response"),
    "request_latency_max": ("ms", "longest such time"),
    "request_total": ("requests", "Produce requests sent"),
    "requests_in_flight": ("requests", "requests of any kind without a response now"),
}


class _Distribution:
    """Sum, count and maximum of a series."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.maximum = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        if value > self.maximum:
            self.maximum = float(value)

    @property
    def average(self) -> float:
        return self.total / self.count if self.count else 0.0


class ProducerMetrics:
    """Counters of one producer. The I/O thread writes; any thread reads ``snapshot``."""

    def __init__(self) -> None:
        self._batch_size = _Distribution()
        self._compression_rate = _Distribution()
        self._latency = _Distribution()
        self._queue_time = _Distribution()
        self._record_total = 0
        self._request_total = 0
        self._throttle_time = _Distribution()
        self.batch_split_total = 0
        self.io_error_total = 0
        self.record_error_total = 0
        self.record_retry_total = 0

    def request_sent(self, batches: Sequence[ProducerBatch], now_ms: int) -> None:
        """Count a Produce request that is being sent with these batches."""
        sizes, rates, queue_times = self._batch_size, self._compression_rate, self._queue_time
        record_count = 0
        for batch in batches:
            size_bytes = float(batch.records().nbytes)
            sizes.total += size_bytes
            if size_bytes > sizes.maximum:
                sizes.maximum = size_bytes
            rates.total += 1.0 if batch.builder is None else batch.builder.compression_ratio
            # Of a batch that was sent before, the time is known.
            if not batch.attempts:
                queue_times.add(now_ms - batch.created_ms)
            record_count += batch.record_count
        sizes.count += len(batches)
        rates.count += len(batches)
        self._record_total += record_count
        self._request_total += 1

    def response_received(self, latency_ms: int, throttle_time_ms: int) -> None:
        """Count a Produce response."""
        self._latency.add(latency_ms)
        if throttle_time_ms:
            self._throttle_time.add(throttle_time_ms)

    def snapshot(self) -> dict[str, float]:
        """The values of those ``METRICS`` that are counted here."""
        return {
            "batch_size_avg": self._batch_size.average,
            "batch_size_max": self._batch_size.maximum,
            "batch_split_total": self.batch_split_total,
            "batch_total": self._batch_size.count,
            "byte_total": self._batch_size.total,
            "compression_rate_avg": self._compression_rate.average,
            "io_error_total": self.io_error_total,
            "produce_throttle_time_avg": self._throttle_time.total / max(self._latency.count, 1),
            "produce_throttle_time_max": self._throttle_time.maximum,
            "record_error_total": self.record_error_total,
            "record_queue_time_avg": self._queue_time.average,
            "record_queue_time_max": self._queue_time.maximum,
            "record_retry_total": self.record_retry_total,
            "record_send_total": self._record_total,
            "records_per_request_avg": self._record_total / max(self._request_total, 1),
            "request_latency_avg": self._latency.average,
            "request_latency_max": self._latency.maximum,
            "request_total": self._request_total,
        }

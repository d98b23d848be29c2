"""ProducerMetrics: what a producer sent and what became of it, counted per batch and per request.

Only the I/O thread adds and any thread may read. Source: Kafka class ``SenderMetricsRegistry``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kproducer._core.metrics.windows import Windows
from kproducer._core.runtime.clock import Clock
from kproducer.errors import KafkaError

if TYPE_CHECKING:
    from kproducer._core.accumulator.producer_batch import ProducerBatch


class TopicMetrics:
    """What was sent to one topic.

    Attributes:
        records: records per batch.
        sizes: of the batches on the wire, in bytes.
        compression: compressed size divided by plain size, per batch.
        retries, errors: records retried, and records that failed.
    """

    def __init__(self, windows: Windows) -> None:
        self.records = windows.series()
        self.sizes = windows.series()
        self.compression = windows.series()
        self.retries = windows.series()
        self.errors = windows.series()


class ProducerMetrics:
    """All that one producer sent.

    Attributes:
        windows: of all series here.
        topics: by name; in the order in which they were first sent to. Only the I/O thread looks a name up,
            which adds it.
        batch_size, compression: as in ``TopicMetrics``, for the whole producer.
        record_size: plain bytes of the records.
        queue_time: ms from a batch's first record to its first request.
        latency: ms from a Produce request to its response.
        throttle_time: ms, of each Produce response.
        records: records per Produce request.
        retries, errors: records retried, and records that failed.
        splits: batches split because a broker rejected them as too large.
        io_error_total: unexpected errors in the I/O thread.
        last_failure: the error with which records last failed, and when, in ms since the epoch.
    """

    def __init__(self, clock: Clock, windows: Windows | None = None) -> None:
        self._clock = clock
        self.windows = windows = Windows(clock) if windows is None else windows
        self.topics: dict[str, TopicMetrics] = defaultdict(lambda: TopicMetrics(windows))
        self.batch_size = windows.series()
        self.compression = windows.series()
        self.record_size = windows.series()
        self.queue_time = windows.series()
        self.latency = windows.series()
        self.throttle_time = windows.series()
        self.records = windows.series()
        self.retries = windows.series()
        self.errors = windows.series()
        self.splits = windows.series()
        self.io_error_total = 0
        self.last_failure: tuple[KafkaError, int] | None = None

    @property
    def record_error_total(self) -> int:
        """Records that failed."""
        return int(self.errors.total)

    def request_sent(self, batches: Sequence[ProducerBatch], now_ms: int) -> None:
        """Count a Produce request that is being sent with these batches."""
        window = self.windows.at(now_ms)
        batch_size, compression, queue_time = self.batch_size, self.compression, self.queue_time
        record_count = 0
        plain_bytes = 0
        for batch in batches:
            size_bytes = float(batch.records().nbytes)
            ratio = 1.0
            builder = batch.builder
            if builder is not None:
                ratio = builder.compression_ratio
                plain_bytes += builder.uncompressed_size_bytes
            batch_records = batch.record_count
            record_count += batch_records
            batch_size.add(size_bytes, window)
            compression.add(ratio, window)
            # Counted at the first attempt only.
            if not batch.attempts:
                queue_time.add(float(now_ms - batch.created_ms), window)
            topic = self.topics[batch.topic_partition.topic]
            topic.records.add(float(batch_records), window)
            topic.sizes.add(size_bytes, window)
            topic.compression.add(ratio, window)
        self.record_size.add_many(float(plain_bytes), float(record_count), window)
        self.records.add(float(record_count), window)

    def response_received(self, latency_ms: int, throttle_time_ms: int, now_ms: int) -> None:
        """Count a Produce response."""
        window = self.windows.at(now_ms)
        self.latency.add(float(latency_ms), window)
        self.throttle_time.add(float(throttle_time_ms), window)

    def lane_sent(self, lane: Any, now_ms: int) -> list[str]:
        """Count what a lane has sent and got answered since the last time; returns the topics."""
        window = self.windows.at(now_ms)
        requests, batches, records = lane.requests, lane.batches, lane.records
        self.batch_size.add_all(lane.batch_bytes, batches, lane.batch_bytes_max, window)
        self.compression.add_all(lane.compression, batches, lane.compression_max, window)
        self.queue_time.add_all(lane.queue_ms, batches, lane.queue_ms_max, window)
        self.record_size.add_many(lane.plain_bytes, records, window)
        self.records.add_many(records, requests, window)
        self.latency.add_all(lane.latency_ms, requests, lane.latency_ms_max, window)
        self.throttle_time.add_many(0.0, requests, window)
        topics = []
        for topic in lane.take_topics():
            name, count, topic_records, most_records, size, largest, ratios, worst = topic
            topics.append(name)
            metrics = self.topics[name]
            metrics.records.add_all(topic_records, count, most_records, window)
            metrics.sizes.add_all(size, count, largest, window)
            metrics.compression.add_all(ratios, count, worst, window)
        return topics

    def records_retried(self, topic: str, count: int) -> None:
        """Count the records of a batch that is put back to be sent again."""
        window = self.windows.now()
        self.retries.add(float(count), window)
        self.topics[topic].retries.add(float(count), window)

    def records_failed(self, topic: str, count: int, error: KafkaError) -> None:
        """Count the records of a batch that has failed."""
        self.last_failure = (error, self._clock.wall_ms())
        window = self.windows.now()
        self.errors.add(float(count), window)
        self.topics[topic].errors.add(float(count), window)

    def batch_split(self) -> None:
        """Count a batch that was split."""
        self.splits.add(1.0, self.windows.now())

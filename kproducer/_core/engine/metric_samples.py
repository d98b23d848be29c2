"""The samples of all metrics of one producer, computed from what its parts have counted. Any thread."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kproducer._core.metrics.connection_metrics import NodeMetrics
from kproducer._core.metrics.metric_sample import MetricSample
from kproducer._core.metrics.metric_table import APP_INFO, COUNT, METRICS, NODE, PRODUCER, TOPIC
from kproducer._core.metrics.windows import Recent, Series, Windows, combined
from kproducer.types import VERSION

if TYPE_CHECKING:
    from kproducer._core.engine.producer_engine import ProducerEngine
    from kproducer._core.sender.metrics import ProducerMetrics, TopicMetrics


class _Moment:
    """The windows of one part at one time."""

    def __init__(self, windows: Windows, now_ms: int) -> None:
        self._window = windows.at(now_ms)
        self._seconds = windows.seconds(now_ms)

    def recent(self, series: Iterable[Series]) -> Recent:
        """What several series together had within the windows."""
        return combined([each.recent(self._window) for each in series])

    def meter(self, name: str, *series: Series) -> dict[str, float]:
        """The rate and the total of the series' values."""
        return {
            f"{name}-rate": self.recent(series).total / self._seconds,
            f"{name}-total": sum(each.total for each in series),
        }

    def counts(self, name: str, *series: Series) -> dict[str, float]:
        """The rate and the total of the number of values."""
        return {
            f"{name}-rate": self.recent(series).count / self._seconds,
            f"{name}-total": sum(each.count for each in series),
        }

    def sizes(self, name: str, *series: Series) -> dict[str, float]:
        """The mean and the maximum of the values."""
        recent = self.recent(series)
        return {f"{name}-avg": recent.mean, f"{name}-max": recent.largest}

    def mean(self, series: Series) -> float:
        """The mean of the values."""
        return series.recent(self._window).mean

    def share(self, series: Series) -> float:
        """The share of the time that waits of so many milliseconds took."""
        return series.recent(self._window).total / (1000 * self._seconds)

    def traffic(self, nodes: Iterable[NodeMetrics]) -> dict[str, float]:
        """Requests, responses and their bytes, of one node or of all."""
        nodes = list(nodes)
        requests = [node.requests for node in nodes]
        responses = [node.responses for node in nodes]
        return {
            **self.meter("incoming-byte", *responses),
            **self.meter("outgoing-byte", *requests),
            **self.counts("request", *requests),
            **self.sizes("request-size", *requests),
            **self.counts("response", *responses),
        }


def sample_metrics(engine: ProducerEngine) -> list[MetricSample]:
    """Every metric of ``METRICS`` with its present value, those of topics and nodes for each of them."""
    now_ms = engine.clock.monotonic_ms()
    client = {"client-id": engine.config.client_id}
    samples: list[MetricSample] = []

    def add(group: str, tags: Mapping[str, str], values: Mapping[str, float]) -> None:
        for name, value in values.items():
            kind, description = METRICS[group][name]
            samples.append(MetricSample(group, name, tags, float(value), kind, description))

    sent, connections = engine.sender.metrics, engine.client.metrics
    sent_now = _Moment(sent.windows, now_ms)
    connections_now = _Moment(connections.windows, now_ms)
    add(PRODUCER, client, _of_producer(engine, now_ms))
    for topic, topic_metrics in sent.topics.copy().items():
        add(TOPIC, {**client, "topic": topic}, _of_topic(topic_metrics, sent_now))
    for node_id, node_metrics in connections.nodes.copy().items():
        values = connections_now.traffic([node_metrics])
        values |= connections_now.sizes("request-latency", node_metrics.latency)
        add(NODE, {**client, "node-id": f"node-{node_id}"}, values)
    add(APP_INFO, client, {"start-time-ms": engine.started_wall_ms})
    add(COUNT, client, {"count": len(samples) + 1})
    return samples


def nested_metrics(samples: Iterable[MetricSample]) -> dict[str, dict[str, Any]]:
    """The samples by group and name, as kafka-python has them.

    A group of a topic or a node has its name appended: "producer-topic-metrics.events".
    """
    groups: dict[str, dict[str, Any]] = {}
    for sample in samples:
        where = [value for tag, value in sample.tags.items() if tag != "client-id"]
        groups.setdefault(".".join([sample.group, *where]), {})[sample.name] = sample.value
    if groups:
        groups[APP_INFO]["version"] = VERSION
    return groups


def _of_producer(engine: ProducerEngine, now_ms: int) -> dict[str, float]:
    pool, connections = engine.pool, engine.client.metrics
    in_pool = _Moment(pool.windows, now_ms)
    connected = _Moment(connections.windows, now_ms)
    updated_ms = engine.metadata.last_successful_update_ms
    return {
        **_of_sender(engine.sender.metrics, now_ms),
        "buffer-available-bytes": pool.available_bytes,
        **in_pool.meter("buffer-exhausted", pool.exhausted),
        "buffer-total-bytes": pool.total_bytes,
        "bufferpool-wait-ratio": in_pool.share(pool.waits),
        "bufferpool-wait-time-ns-total": pool.waits.total * 1e6,
        **connected.meter("connection-close", connections.closed),
        "connection-count": engine.client.connection_count,
        **connected.meter("connection-creation", connections.created),
        **connected.meter("failed-authentication", connections.refused),
        "incomplete-batches": engine.accumulator.incomplete_count,
        "metadata-age": math.nan if updated_ms is None else (now_ms - updated_ms) / 1000,
        **connected.meter("network-io", connections.transfers),
        "requests-in-flight": engine.client.in_flight_request_count(),
        **connected.meter("select", connections.polls),
        **connected.meter("successful-authentication", connections.authenticated),
        **connected.meter("successful-reauthentication", connections.reauthenticated),
        **connected.traffic(connections.nodes.copy().values()),
        "waiting-threads": len(pool.waiters),
        **engine.call_times.values(),
    }


def _of_sender(sent: ProducerMetrics, now_ms: int) -> dict[str, float]:
    now = _Moment(sent.windows, now_ms)
    return {
        **now.sizes("batch-size", sent.batch_size),
        **now.meter("batch-split", sent.splits),
        "batch-total": sent.batch_size.count,
        "byte-total": sent.batch_size.total,
        "compression-rate-avg": now.mean(sent.compression),
        "io-error-total": sent.io_error_total,
        "produce-latency-ms-total": sent.latency.total,
        "produce-request-total": sent.records.count,
        **now.sizes("produce-throttle-time", sent.throttle_time),
        **now.meter("record-error", sent.errors),
        **now.sizes("record-queue-time", sent.queue_time),
        **now.meter("record-retry", sent.retries),
        **now.meter("record-send", sent.records),
        "record-size-avg": now.mean(sent.record_size),
        "records-per-request-avg": now.mean(sent.records),
        **now.sizes("request-latency", sent.latency),
    }


def _of_topic(topic: TopicMetrics, now: _Moment) -> dict[str, float]:
    return {
        **now.meter("byte", topic.sizes),
        "compression-rate": now.mean(topic.compression),
        **now.meter("record-error", topic.errors),
        **now.meter("record-retry", topic.retries),
        **now.meter("record-send", topic.records),
    }

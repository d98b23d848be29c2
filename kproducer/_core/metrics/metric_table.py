"""The table of metrics: each name with its kind, and its meaning with the unit.

Names and groups are Java's, and so are the meanings unless a description says otherwise. "-rate" is per
second, "-avg" and "-max" are the mean and the largest value, all within the last 30 to 60 seconds
(``windows``). Source: Kafka's ``SenderMetricsRegistry``, ``SelectorMetrics``, ``BufferPool``,
``KafkaProducerMetrics``, ``AppInfoParser``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kproducer._core.metrics.call_times import CALL_TIMES

if TYPE_CHECKING:
    from kproducer._core.metrics.metric_sample import MetricKind

PRODUCER: Final = "producer-metrics"
TOPIC: Final = "producer-topic-metrics"
NODE: Final = "producer-node-metrics"
APP_INFO: Final = "app-info"
COUNT: Final = "kafka-metrics-count"


def _meter(name: str, what: str) -> dict[str, tuple[MetricKind, str]]:
    """A total and its rate."""
    return {
        f"{name}-rate": ("gauge", f"{what}, per second"),
        f"{name}-total": ("counter", what),
    }


def _sizes(name: str, what: str) -> dict[str, tuple[MetricKind, str]]:
    """A mean and a maximum."""
    return {f"{name}-avg": ("gauge", f"mean {what}"), f"{name}-max": ("gauge", f"largest {what}")}


_TRAFFIC: dict[str, tuple[MetricKind, str]] = {
    **_meter("incoming-byte", "bytes of responses, before TLS"),
    **_meter("outgoing-byte", "bytes of requests, before TLS, once they are queued for the socket"),
    **_meter("request", "requests of any kind"),
    **_sizes("request-size", "size of a request in bytes"),
    **_meter("response", "responses of any kind"),
}

#: Group to name to kind and meaning. Groups of topics and nodes have the tags "topic" and "node-id".
METRICS: Final[dict[str, dict[str, tuple[MetricKind, str]]]] = {
    PRODUCER: {
        **_sizes("batch-size", "size of a batch in a request, in bytes on the wire"),
        **_meter("batch-split", "batches split because a broker rejected them as too large"),
        "batch-total": ("counter", "batches sent, retries included; not in Java"),
        "buffer-available-bytes": ("gauge", "bytes of buffer_memory that are available"),
        **_meter("buffer-exhausted", "records refused because there was no memory within max_block_ms"),
        "buffer-total-bytes": ("gauge", "buffer_memory"),
        "bufferpool-wait-ratio": ("gauge", "time that threads waited for memory / time"),
        "bufferpool-wait-time-ns-total": ("counter", "ns that threads waited for memory"),
        "byte-total": ("counter", "bytes of batches sent, as on the wire, retries included; not in Java"),
        "compression-rate-avg": ("gauge", "mean of compressed size / plain size of the batches"),
        **_meter("connection-close", "connections and attempts to connect that ended"),
        "connection-count": ("gauge", "connections and attempts to connect"),
        **_meter("connection-creation", "connections that came up"),
        **_meter("failed-authentication", "connections refused because of credentials or certificates"),
        "incomplete-batches": ("gauge", "batches that are neither acknowledged nor failed; not in Java"),
        "io-error-total": ("counter", "unexpected errors in the I/O thread, each in the log; not in Java"),
        "metadata-age": ("gauge", "seconds since the last full metadata update, NaN before the first"),
        **_meter("network-io", "connections on which a poll moved bytes; Java counts each read and write"),
        "produce-latency-ms-total": (
            "counter",
            "ms from Produce requests to responses, added up; not in Java",
        ),
        "produce-request-total": ("counter", "Produce requests sent; not in Java"),
        **_sizes("produce-throttle-time", "throttle time of a Produce response, in ms"),
        **_meter("record-error", "records that failed"),
        **_sizes("record-queue-time", "time from a batch's first record to its first request, in ms"),
        **_meter("record-retry", "records retried"),
        **_meter("record-send", "records sent, retries included"),
        "record-size-avg": ("gauge", "mean size of a record in bytes, before compression"),
        "records-per-request-avg": ("gauge", "mean number of records in a Produce request"),
        **_sizes("request-latency", "time from a Produce request to its response, in ms"),
        "requests-in-flight": ("gauge", "requests of any kind without a response"),
        **_meter("select", "polls of the I/O thread"),
        **_meter("successful-authentication", "connections with TLS or SASL that became ready"),
        **_meter("successful-reauthentication", "connections authenticated again before the session ended"),
        **_TRAFFIC,
        **{name: ("counter", meaning) for name, meaning in CALL_TIMES.items()},
        "waiting-threads": ("gauge", "threads that wait for memory"),
    },
    TOPIC: {
        **_meter("byte", "bytes of batches sent to the topic, as on the wire, retries included"),
        "compression-rate": ("gauge", "mean of compressed size / plain size of the topic's batches"),
        **_meter("record-error", "records of the topic that failed"),
        **_meter("record-retry", "records of the topic retried"),
        **_meter("record-send", "records of the topic sent, retries included"),
    },
    NODE: {
        **_TRAFFIC,
        **_sizes("request-latency", "time from a request for records or transactions to its response, in ms"),
    },
    APP_INFO: {"start-time-ms": ("gauge", "when the producer was created, in ms since the epoch")},
    COUNT: {"count": ("gauge", "number of metrics")},
}

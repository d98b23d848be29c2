"""A collector for prometheus_client, with the names that the JMX exporter gives to Java's producers.

``kafka.producer:type=producer-topic-metrics,client-id=a,topic=b`` with the attribute ``record-send-total``
becomes ``kafka_producer_producer_topic_metrics_record_send_total{client_id="a",topic="b"}``: the exporter's
default format, with ``lowercaseOutputName``. Needs the extra ``prometheus``.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import REGISTRY, Collector, CollectorRegistry
except ImportError as error:
    raise ImportError(
        "kproducer.prometheus needs the package prometheus-client: pip install 'kproducer[prometheus]'"
    ) from error

if TYPE_CHECKING:
    from kproducer._core.metrics.metric_sample import MetricSample
    from kproducer.kafka_producer import KafkaProducer


class ProducerCollector(Collector):
    """Exports the metrics of producers. Registers itself. Thread-safe.

    A scrape takes the samples of each producer at that time; between scrapes it costs nothing. Producers that
    are closed or garbage-collected are left out, as a closed producer of Java has no MBeans. The collector
    keeps no producer alive.

    Args:
        producers: more may be added later.
        registry: of prometheus_client; ``None``: the caller registers the collector.

    Raises:
        ValueError: two producers have the same ``client_id``.
    """

    def __init__(self, *producers: KafkaProducer, registry: CollectorRegistry | None = REGISTRY) -> None:
        self._lock = threading.Lock()
        #: The producers by client id. Guarded by the lock.
        self._producers: dict[str, weakref.ref[KafkaProducer]] = {}
        for producer in producers:
            self.add(producer)
        if registry is not None:
            registry.register(self)

    def add(self, producer: KafkaProducer) -> None:
        """Export another producer, from the next scrape on.

        Raises:
            ValueError: another open producer has the same ``client_id``: their series would be the same.
        """
        client_id = producer.config.client_id
        with self._lock:
            known = self._producers.get(client_id)
            other = None if known is None else known()
            if other is not None and other is not producer and not other.health().is_closed:
                raise ValueError(
                    f"another producer with client_id={client_id!r} is exported already: give each producer"
                    " of a process its own client_id"
                )
            self._producers[client_id] = weakref.ref(producer)

    def remove(self, producer: KafkaProducer) -> None:
        """Stop exporting a producer. Does nothing if it is not exported."""
        with self._lock:
            known = self._producers.get(producer.config.client_id)
            if known is not None and known() is producer:
                del self._producers[producer.config.client_id]

    def describe(self) -> Iterable[Metric]:
        """Nothing: which series there are is known when a producer has sent to topics and brokers."""
        return []

    def collect(self) -> Iterable[Metric]:
        """The metrics of the producers that are open."""
        families: dict[str, Metric] = {}
        for sample in self._samples():
            base = f"kafka_producer_{sample.group}_{sample.name}".replace("-", "_")
            family = families.get(base)
            labels = {tag.replace("-", "_"): value for tag, value in sample.tags.items()}
            if family is None:
                # The client library appends "_total" to the samples of a counter itself.
                kind = CounterMetricFamily if sample.kind == "counter" else GaugeMetricFamily
                family = kind(base, sample.description, labels=list(labels))
                families[base] = family
            family.add_metric(list(labels.values()), sample.value)  # type: ignore[attr-defined]
        return families.values()

    def _samples(self) -> list[MetricSample]:
        with self._lock:
            references = list(self._producers.items())
        samples: list[MetricSample] = []
        for client_id, reference in references:
            producer = reference()
            if producer is None:
                with self._lock:
                    if self._producers.get(client_id) is reference:
                        del self._producers[client_id]
            elif not producer.health().is_closed:
                samples += producer.metric_samples()
        return samples

"""ProducerCollector: what a Prometheus server reads over HTTP."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from kproducer import METRICS, KafkaProducer
from kproducer.prometheus import ProducerCollector
from tests.support.kafka.mock_cluster import MockCluster

pytestmark = pytest.mark.mock_cluster


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def url(registry: CollectorRegistry) -> Iterator[str]:
    server, thread = start_http_server(0, "127.0.0.1", registry)
    yield f"http://127.0.0.1:{server.server_port}/metrics"
    server.shutdown()
    server.server_close()
    thread.join(10)


def scraped(url: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    with urlopen(url, timeout=10) as response:
        text = response.read().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_scrape_has_the_names_of_the_jmx_exporter(
    mock_cluster: MockCluster, registry: CollectorRegistry, url: str
) -> None:
    mock_cluster.create_topic("orders", 1)
    with KafkaProducer(mock_cluster.bootstrap_servers, client_id="shop") as producer:
        ProducerCollector(producer, registry=registry)
        for _ in range(3):
            producer.send("orders", b"x").result(20)
        found = scraped(url)
        client, topic = ("client_id", "shop"), ("topic", "orders")
        assert found["kafka_producer_producer_metrics_record_send_total", (client,)] == 3
        assert found["kafka_producer_producer_topic_metrics_record_send_total", (client, topic)] == 3
        assert found["kafka_producer_producer_metrics_buffer_total_bytes", (client,)] == 33554432
        assert found["kafka_producer_app_info_start_time_ms", (client,)] > 1e12
        nodes = {dict(labels).get("node_id") for _, labels in found}
        assert nodes & {"node-1", "node-2", "node-3"}
        expected = {
            f"kafka_producer_{group}_{name}".replace("-", "_") for group in METRICS for name in METRICS[group]
        }
        assert {name for name, _ in found} == expected


def test_openmetrics_declares_counters_and_gauges(
    mock_cluster: MockCluster, registry: CollectorRegistry
) -> None:
    from prometheus_client.openmetrics.exposition import generate_latest

    with KafkaProducer(mock_cluster.bootstrap_servers) as producer:
        ProducerCollector(producer, registry=registry)
        kinds = {family.name: family.type for family in parse_openmetrics(generate_latest(registry).decode())}
        assert kinds["kafka_producer_producer_metrics_record_send"] == "counter"
        assert kinds["kafka_producer_producer_metrics_record_send_rate"] == "gauge"


def test_several_producers_closed_and_collected_ones(
    mock_cluster: MockCluster, registry: CollectorRegistry, url: str
) -> None:
    servers = mock_cluster.bootstrap_servers

    def clients() -> set[str]:
        return {dict(labels)["client_id"] for _, labels in scraped(url)}

    first = KafkaProducer(servers, client_id="first")
    collector = ProducerCollector(first, registry=registry)
    with KafkaProducer(servers, client_id="second") as second:
        collector.add(second)
        collector.add(second)
        assert clients() == {"first", "second"}
        with KafkaProducer(servers, client_id="second") as namesake:
            with pytest.raises(ValueError, match="its own client_id"):
                collector.add(namesake)
            second.close()
            collector.add(namesake)
            assert clients() == {"first", "second"}
            collector.remove(namesake)
            collector.remove(namesake)
        assert clients() == {"first"}
    del first
    gc.collect()
    assert clients() == set()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_exports_its_own_counts(
    mock_cluster: MockCluster, registry: CollectorRegistry
) -> None:
    mock_cluster.create_topic("forked", 1)
    with KafkaProducer(mock_cluster.bootstrap_servers, client_id="forked") as producer:
        collector = ProducerCollector(producer, registry=registry)
        producer.send("forked", b"x").result(20)
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                before = len(list(collector.collect()))
                producer.send("forked", b"y").result(20)
                sent = registry.get_sample_value(
                    "kafka_producer_producer_metrics_record_send_total", {"client_id": "forked"}
                )
                os.write(writing, f"{before} {sent}".encode())
                producer.close()
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as answer:
            assert answer.read() == "0 1.0"
        os.waitpid(pid, 0)

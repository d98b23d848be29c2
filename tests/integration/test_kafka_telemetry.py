"""Metrics push (KIP-714) to Apache Kafka: a receiver in the broker writes each push to a file, and
opentelemetry-proto reads it. Java's producer pushes to the same broker."""

from __future__ import annotations

import base64
import time
import uuid
from pathlib import Path

import attrs
import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric, MetricsData

from kproducer import KafkaProducer
from kproducer._core.records.compression import Compression
from kproducer._core.telemetry import client_telemetry
from tests.support.kafka.fixtures import start_or_skip
from tests.support.kafka.java_process import compile_java, run_java
from tests.support.kafka.maven_artifacts import KafkaUnavailableError
from tests.support.kafka.python_admin import subscribe_to_metrics
from tests.support.kafka.topics import create_topic

pytestmark = pytest.mark.kafka

#: The shortest interval that brokers accept.
INTERVAL_MS = 100
RECEIVER = Path(__file__).parents[1] / "support" / "kafka" / "TelemetryReceiver.java"
#: What KIP-714 requires of every producer.
STANDARD_METRICS = {
    f"org.apache.kafka.producer.{name}"
    for name in (
        "connection.creation.rate",
        "connection.creation.total",
        "node.request.latency.avg",
        "node.request.latency.max",
        "produce.throttle.time.avg",
        "produce.throttle.time.max",
        "record.queue.time.avg",
        "record.queue.time.max",
    )
}


@attrs.frozen
class Push:
    """What the receiver got."""

    client_id: str
    instance_id: uuid.UUID
    terminating: bool
    metrics: dict[str, Metric]
    resource: dict[str, str]


class Receiver:
    """The receiver's folder, and the broker's subscriptions."""

    def __init__(self, kafka, folder):
        self.bootstrap_servers = kafka.bootstrap_servers
        self.folder = folder

    def subscribe(self, *metrics):
        """Replace the one subscription of all clients."""
        values = {"metrics": ",".join(metrics), "interval.ms": str(INTERVAL_MS), "match": "client_id=.*"}
        subscribe_to_metrics(self.bootstrap_servers, "all", values)

    def unsubscribe(self):
        """Let the subscription match no client."""
        subscribe_to_metrics(self.bootstrap_servers, "all", {"match": "client_id=nobody"})

    def pushes(self, client_id):
        paths = sorted(path for path in self.folder.iterdir() if not path.name.startswith("."))
        return [push for path in paths if (push := read(path)).client_id == client_id]

    def await_pushes(self, client_id, count):
        deadline = time.monotonic() + 60
        while len(pushes := self.pushes(client_id)) < count:
            assert time.monotonic() < deadline, f"{len(pushes)} pushes of {client_id}"
            time.sleep(0.05)
        return pushes


def read(path):
    _, client_id, instance_id, terminating = path.name.split(",")
    message = MetricsData.FromString(path.read_bytes())
    metrics, resource = {}, {}
    for part in message.resource_metrics:
        resource.update({each.key: each.value.string_value for each in part.resource.attributes})
        for scope in part.scope_metrics:
            for metric in scope.metrics:
                metrics.setdefault(metric.name, Metric(name=metric.name)).MergeFrom(metric)
    return Push(client_id, kafka_uuid(instance_id), terminating == "true", metrics, resource)


def kafka_uuid(text):
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def points(metric):
    return list(getattr(metric, metric.WhichOneof("data")).data_points)


def value(push, name):
    (point,) = points(push.metrics[f"org.apache.kafka.producer.{name}"])
    return point.as_double


@pytest.fixture(scope="module")
def receiver(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pushes")
    classes = tmp_path_factory.mktemp("classes")
    try:
        compile_java("4.4.0", RECEIVER, classes)
    except KafkaUnavailableError as error:
        pytest.skip(str(error))
    properties = {"metric.reporters": "TelemetryReceiver", "telemetry.receiver.folder": str(folder)}
    with start_or_skip("4.4.0", properties=properties, classes=classes) as kafka:
        create_topic(kafka.bootstrap_servers, "t", 2)
        yield Receiver(kafka, folder)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_metrics_and_the_last_ones_at_close(receiver, codec, monkeypatch):
    # Apache Kafka accepts all codecs and prefers zstd.
    monkeypatch.setattr(client_telemetry, "_preferred", lambda accepted: Compression.of(codec))
    receiver.subscribe("*")
    client_id = f"pushes-{codec}"
    with KafkaProducer(receiver.bootstrap_servers, client_id=client_id) as producer:
        instance_id = producer.client_instance_id(30)
        for _ in range(7):
            producer.send("t", b"a value").result(30)
        receiver.await_pushes(client_id, 2)
        assert not any(push.terminating for push in receiver.pushes(client_id))
        sent = producer.metrics()["producer-metrics"]
    pushes = receiver.await_pushes(client_id, 3)
    last = pushes[-1]
    assert last.terminating
    assert {push.instance_id for push in pushes} == {instance_id}
    # The broker asks for changes, not for sums.
    assert sum(value(push, "record.send.total") for push in pushes) == sent["record-send-total"] == 7
    assert value(last, "batch.size.max") == sent["batch-size-max"]
    assert value(last, "buffer.total.bytes") == sent["buffer-total-bytes"]
    counters = [metric for metric in last.metrics.values() if metric.HasField("sum")]
    delta = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
    assert all(each.sum.is_monotonic and each.sum.aggregation_temporality == delta for each in counters)


def test_java_pushes_metrics_with_the_same_names(receiver):
    receiver.subscribe("*")
    program = str(Path(__file__).with_name("TelemetryProducer.java"))
    arguments = [receiver.bootstrap_servers, "t", "java", str(receiver.folder)]
    printed = run_java("4.4.0", program, arguments)
    javas = receiver.pushes("java")[-1]
    assert javas.instance_id == kafka_uuid(printed.strip())
    with KafkaProducer(receiver.bootstrap_servers, client_id="python") as producer:
        producer.send("t", b"a value").result(30)
        receiver.await_pushes("python", 1)
    ours = receiver.pushes("python")[-1]
    assert ours.metrics.keys() & javas.metrics.keys() >= STANDARD_METRICS
    assert ours.resource == javas.resource == {}
    for name in ours.metrics.keys() & javas.metrics.keys():
        assert outline(ours.metrics[name]) == outline(javas.metrics[name])


def outline(metric):
    """Gauge or sum, and the attributes."""
    return metric.WhichOneof("data"), {each.key for point in points(metric) for each in point.attributes}


def test_a_subscription_that_changes_and_ends(receiver):
    receiver.subscribe("org.apache.kafka.producer.record.")
    with KafkaProducer(receiver.bootstrap_servers, client_id="changes") as producer:
        instance_id = producer.client_instance_id(30)
        first = receiver.await_pushes("changes", 1)
        assert all(name.startswith("org.apache.kafka.producer.record.") for name in first[0].metrics)
        receiver.subscribe("org.apache.kafka.producer.batch.")
        deadline = time.monotonic() + 60
        while not (of_batches := pushes_with(receiver, "batch.size.max")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert all(name.startswith("org.apache.kafka.producer.batch.") for name in of_batches[0].metrics)
        receiver.unsubscribe()
        # Nothing is wanted any more, and records are sent as before.
        producer.send("t", b"a value").result(30)
    assert {push.instance_id for push in receiver.pushes("changes")} == {instance_id}


def pushes_with(receiver, name):
    return [p for p in receiver.pushes("changes") if f"org.apache.kafka.producer.{name}" in p.metrics]


def test_a_transactional_producer_says_so_as_javas_does(receiver):
    receiver.subscribe("*")
    settings = {"client_id": "orders-client", "transactional_id": "orders"}
    with KafkaProducer(receiver.bootstrap_servers, **settings) as producer:
        producer.init_transactions()
        (push, *_) = receiver.await_pushes("orders-client", 1)
    assert push.resource == {"transactional_id": "orders"}

"""MetricsPayload: names, selection, and the changes of counters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from kproducer._core.metrics.metric_sample import MetricSample
from kproducer._core.telemetry import metrics_payload
from kproducer._core.telemetry.metrics_payload import MetricsPayload, metric_name
from tests.support.manual_clock import ManualClock

SENT = "org.apache.kafka.producer.record.send.total"


class Producer:
    """A producer with counters by topic, and what its payloads say."""

    def __init__(self):
        self.clock = ManualClock()
        self.counters = {"a": 0.0}
        self.resource = {}
        self.payload = MetricsPayload(self.samples, lambda: self.resource, self.clock)

    def samples(self):
        tags = {"client-id": "c"}
        samples = [MetricSample("producer-metrics", "batch-size-max", tags, 7.0, "gauge", "")]
        for topic, value in self.counters.items():
            of_topic = {**tags, "topic": topic}
            samples.append(
                MetricSample("producer-metrics", "record-send-total", of_topic, value, "counter", "")
            )
        return samples

    def push(self, *prefixes, is_delta=True):
        """Name and attributes to value and time since when."""
        message = MetricsData.FromString(self.payload.build(prefixes or ("*",), is_delta=is_delta))
        return {
            (metric.name, *(each.value.string_value for each in point.attributes)): (
                point.as_double,
                point.start_time_unix_nano,
            )
            for of_client in message.resource_metrics
            for metric in of_client.scope_metrics[0].metrics
            for point in getattr(metric, metric.WhichOneof("data")).data_points
        }


@pytest.fixture
def producer():
    return Producer()


@pytest.mark.parametrize(
    ("group", "name", "pushed"),
    [
        ("producer-metrics", "record-send-total", "org.apache.kafka.producer.record.send.total"),
        (
            "producer-node-metrics",
            "request-latency-avg",
            "org.apache.kafka.producer.node.request.latency.avg",
        ),
        ("producer-topic-metrics", "byte-rate", "org.apache.kafka.producer.topic.byte.rate"),
        ("app-info", "start-time-ms", "org.apache.kafka.app.info.start.time.ms"),
        ("kafka-metrics-count", "count", "org.apache.kafka.kafka.count.count"),
    ],
)
def test_names_are_javas(group, name, pushed):
    assert metric_name(group, name) == pushed


def test_the_client_id_is_left_out_and_other_tags_have_underscores(producer):
    sample = MetricSample(
        "producer-node-metrics", "x", {"client-id": "c", "node-id": "node-1"}, 1.0, "gauge", ""
    )
    payload = MetricsPayload(lambda: [sample], dict, producer.clock)
    (of_client,) = MetricsData.FromString(payload.build(["*"], is_delta=False)).resource_metrics
    (point,) = of_client.scope_metrics[0].metrics[0].gauge.data_points
    assert [(each.key, each.value.string_value) for each in point.attributes] == [("node_id", "node-1")]


def test_the_resource_is_that_of_the_moment(producer):
    for transactional_id in ("first", "second"):
        producer.resource = {"transactional_id": transactional_id}
        (of_client,) = MetricsData.FromString(producer.payload.build(["*"], is_delta=True)).resource_metrics
        assert of_client.resource.attributes[0].value.string_value == transactional_id


@pytest.mark.parametrize(
    ("prefixes", "names"),
    [
        (["*"], {"batch.size.max", "record.send.total"}),
        ([""], {"batch.size.max", "record.send.total"}),
        (["org.apache.kafka.producer."], {"batch.size.max", "record.send.total"}),
        (["org.apache.kafka.producer.record", "org.apache.kafka.consumer."], {"record.send.total"}),
        (["org.apache.kafka.consumer."], set()),
    ],
)
def test_metrics_are_chosen_by_prefix(producer, prefixes, names):
    found = {name.removeprefix("org.apache.kafka.producer.") for name, *_ in producer.push(*prefixes)}
    assert found == names


def test_a_name_is_compared_with_the_prefixes_once_per_payload(producer, monkeypatch):
    compared = []

    class Name(str):
        def startswith(self, prefixes, *_):
            compared.append(self)
            return super().startswith(prefixes)

    monkeypatch.setattr(metrics_payload, "metric_name", lambda group, name: Name(metric_name(group, name)))
    producer.counters = dict.fromkeys(map(str, range(1000)), 1.0)
    assert len(producer.push(SENT)) == 1000
    assert sorted(compared) == ["org.apache.kafka.producer.batch.size.max", SENT]


def test_sums_count_from_the_start(producer):
    started_ns = producer.clock.wall_ns()
    for value in (3, 5):
        producer.clock.advance(1000)
        producer.counters["a"] = value
        assert producer.push(is_delta=False)[SENT, "a"] == (value, started_ns)
        producer.payload.accepted()


def test_changes_count_from_the_last_accepted_push(producer):
    started_ns = producer.clock.wall_ns()
    producer.counters["a"] = 3
    producer.clock.advance(1000)
    first_ns = producer.clock.wall_ns()
    assert producer.push()[SENT, "a"] == (3, started_ns)
    producer.payload.accepted()
    producer.counters["a"] = 5
    producer.clock.advance(1000)
    assert producer.push()[SENT, "a"] == (2, first_ns)
    # Refused: the next push has these, too.
    producer.counters["a"] = 6
    assert producer.push()[SENT, "a"] == (3, first_ns)
    producer.payload.accepted()
    producer.payload.reset()
    assert producer.push()[SENT, "a"] == (6, started_ns)


def test_a_metric_that_was_not_wanted_for_a_while_keeps_its_count(producer):
    producer.counters["a"] = 3
    producer.push()
    producer.payload.accepted()
    producer.counters["a"] = 4
    producer.push("org.apache.kafka.producer.batch")
    producer.payload.accepted()
    producer.counters["a"] = 9
    assert producer.push()[SENT, "a"][0] == 6


def test_a_topic_that_was_dropped_begins_at_zero_again(producer):
    producer.counters["a"] = 30
    producer.push()
    producer.payload.accepted()
    del producer.counters["a"]
    producer.push()
    producer.payload.accepted()
    producer.counters["a"] = 40
    assert producer.push()[SENT, "a"][0] == 40
    producer.payload.accepted()
    producer.counters["a"] = 2  # dropped and back between two pushes
    assert producer.push()[SENT, "a"][0] == 2


@given(st.lists(st.tuples(st.integers(0, 100), st.booleans()), max_size=30))
def test_accepted_changes_add_up_to_the_counter(pushes):
    producer = Producer()
    received = 0.0
    for growth, is_accepted in [*pushes, (0, True)]:
        producer.counters["a"] += growth
        change, _ = producer.push()[SENT, "a"]
        if is_accepted:
            producer.payload.accepted()
            received += change
    assert received == producer.counters["a"]

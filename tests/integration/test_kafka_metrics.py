"""The metrics have the groups, names and tags of Java's producer, as Java's producer lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from codegen.java_metrics import NOT_FROM_JAVA
from kproducer import KafkaProducer
from kproducer._core.metrics.metric_table import METRICS
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.java_process import run_java
from tests.support.kafka.topics import create_topic

pytestmark = pytest.mark.kafka

SOURCE = str(Path(__file__).with_name("ListProducerMetrics.java"))


def test_the_metrics_are_those_of_javas_producer(kafka: KafkaCluster) -> None:
    create_topic(kafka.bootstrap_servers, "measured")
    listed = run_java(kafka.version, SOURCE, [kafka.bootstrap_servers, "measured"])
    of_java = {tuple(line.split(" ")) for line in listed.splitlines()}
    with KafkaProducer(kafka.bootstrap_servers) as producer:
        producer.send("measured", b"x").result(30)
        ours = {
            (sample.group, sample.name, ",".join(sorted(sample.tags))) for sample in producer.metric_samples()
        }
    assert {name for _, name, _ in of_java - ours} == NOT_FROM_JAVA.keys()
    not_in_java = {(group, name) for group, name, _ in ours - of_java}
    assert not_in_java == {
        (group, name)
        for group, names in METRICS.items()
        for name, (_, description) in names.items()
        if description.endswith("not in Java")
    }

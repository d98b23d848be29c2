"""Errors of Apache Kafka and how the caller sees them: sizes, timestamps, deleted topics."""

from __future__ import annotations

import pytest

from kproducer import KafkaProducer
from kproducer.errors import KafkaError, Outcome
from kproducer.errors.broker_errors import InvalidTimestampError, MessageTooLargeError
from tests.support.kafka.reader import read_topic
from tests.support.kafka.topics import create_topic, delete_topic

pytestmark = pytest.mark.kafka


def test_a_batch_too_large_for_the_topic_is_split_and_delivered_in_order(kafka):
    create_topic(kafka.bootstrap_servers, "split", 1, config={"max.message.bytes": "2000"})
    values = [b"%04d" % number * 50 for number in range(100)]
    with KafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers,
        linger_ms=200,
        max_in_flight_requests_per_connection=1,
    ) as producer:
        futures = [producer.send("split", value) for value in values]
        answers = [future.get(timeout=30) for future in futures]
        splits = producer.metrics()["producer-metrics"]["batch-split-total"]
    assert [each.value for each in read_topic(kafka.bootstrap_servers, "split")] == values
    assert [answer.offset for answer in answers] == list(range(100))
    assert splits >= 1


def test_a_record_too_large_for_the_topic_fails_alone(kafka):
    create_topic(kafka.bootstrap_servers, "large", 1, config={"max.message.bytes": "2000"})
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=200) as producer:
        small = producer.send("large", b"small")
        large = producer.send("large", b"x" * 5000)
        after = producer.send("large", b"after")
        error = large.exception(timeout=30)
        small.get(timeout=30)
        after.get(timeout=30)
    assert isinstance(error, MessageTooLargeError)
    assert error.outcome is Outcome.REJECTED
    assert [each.value for each in read_topic(kafka.bootstrap_servers, "large")] == [b"small", b"after"]


def test_a_timestamp_outside_the_topics_bounds_is_refused(kafka):
    bounds = {"message.timestamp.before.max.ms": "60000"}
    create_topic(kafka.bootstrap_servers, "bounded", 1, config=bounds)
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=0) as producer:
        good = producer.send("bounded", b"good")
        good.get(timeout=30)
        bad = producer.send("bounded", b"bad", timestamp_ms=1_000)
        error = bad.exception(timeout=30)
    assert isinstance(error, InvalidTimestampError)
    assert error.outcome is Outcome.REJECTED
    assert [each.value for each in read_topic(kafka.bootstrap_servers, "bounded")] == [b"good"]


def test_a_recreated_topic_is_written_again(kafka):
    create_topic(kafka.bootstrap_servers, "reborn", 1)
    with KafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers,
        linger_ms=0,
        request_timeout_ms=5_000,
        delivery_timeout_ms=10_000,
        metadata_max_age_ms=1_000,
    ) as producer:
        for number in range(10):
            producer.send("reborn", b"old %d" % number).get(timeout=30)
        delete_topic(kafka.bootstrap_servers, "reborn")
        create_topic(kafka.bootstrap_servers, "reborn", 1)
        delivered = []
        for number in range(200):
            try:
                delivered.append((producer.send("reborn", b"new %d" % number).get(timeout=30).offset, number))
            except KafkaError:
                continue
            if len(delivered) == 10:
                break
    stored = {each.offset: each.value for each in read_topic(kafka.bootstrap_servers, "reborn")}
    assert len(delivered) == 10
    assert [stored[offset] for offset, _ in delivered] == [b"new %d" % number for _, number in delivered]

"""Send records with kproducer, read them back with confluent-kafka, and compare every field."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from kproducer import KafkaProducer, RecordMetadata
from tests.support.kafka.reader import ReadRecord, read_topic
from tests.support.kafka.record_samples import SampleRecord

#: Broker and producer share a clock, but the reader gets whole milliseconds.
CLOCK_SLACK_MS = 1
_SEND_TIMEOUT_SECONDS = 60


def send_all(producer: KafkaProducer, topic: str, records: Sequence[SampleRecord]) -> list[RecordMetadata]:
    """Send in order, flush, and return the results of the futures."""
    futures = [
        producer.send(
            topic,
            value=record.value,
            key=record.key,
            headers=record.headers,
            partition=record.partition,
            timestamp_ms=record.timestamp_ms,
        )
        for record in records
    ]
    producer.flush(_SEND_TIMEOUT_SECONDS)
    return [future.get(timeout=_SEND_TIMEOUT_SECONDS) for future in futures]


def check_round_trip(
    bootstrap_servers: str,
    topic: str,
    records: Sequence[SampleRecord],
    *,
    reports_record_time: bool = True,
    **config: Any,
) -> list[ReadRecord]:
    """Send, read back and compare byte for byte: contents, order, offsets, timestamps, sizes.

    With ``acks=0`` the producer does not know offsets, so the order within the partition is compared instead.
    ``reports_record_time=False`` is for the mock, which returns an invented append time.
    Returns the records that were read.
    """
    started_ms = time.time_ns() // 1_000_000
    with KafkaProducer(bootstrap_servers=bootstrap_servers, **config) as producer:
        answers = send_all(producer, topic, records)
        was_retried = producer.metrics()["producer-metrics"]["record-retry-total"] > 0
    ended_ms = time.time_ns() // 1_000_000

    has_offsets = config.get("acks", "all") not in (0, "0")
    expected: dict[int, list[tuple[SampleRecord, RecordMetadata]]] = defaultdict(list)
    for record, answer in zip(records, answers, strict=True):
        _check_answer(topic, record, answer, has_offsets)
        expected[answer.partition].append((record, answer))
    if has_offsets:
        for sent in expected.values():
            offsets = [answer.offset for _, answer in sent]
            # A retried batch may be reordered with the next one in flight; nothing else may change the order.
            assert was_retried or offsets == sorted(offsets)
            sent.sort(key=lambda pair: pair[1].offset)

    next_offsets = {partition: len(sent) for partition, sent in expected.items()}
    read = read_topic(bootstrap_servers, topic, next_offsets=next_offsets)
    assert len(read) == len(records)
    found: dict[int, list[ReadRecord]] = defaultdict(list)
    for each in read:
        found[each.partition].append(each)
    assert sorted(found) == sorted(expected)
    for partition, sent in expected.items():
        for (record, answer), stored in zip(sent, found[partition], strict=True):
            _check_stored(record, stored)
            assert not has_offsets or stored.offset == answer.offset
            assert not reports_record_time or stored.timestamp_ms == answer.timestamp_ms
            if record.timestamp_ms is None:
                assert started_ms - CLOCK_SLACK_MS <= stored.timestamp_ms <= ended_ms + CLOCK_SLACK_MS
    return read


def _check_answer(topic: str, record: SampleRecord, answer: RecordMetadata, has_offsets: bool) -> None:
    assert answer.topic == topic
    assert record.partition in (None, answer.partition)
    assert (answer.offset >= 0) is has_offsets
    assert answer.serialized_key_size == (-1 if record.key is None else len(record.key))
    assert answer.serialized_value_size == (-1 if record.value is None else len(record.value))


def _check_stored(record: SampleRecord, stored: ReadRecord) -> None:
    assert stored.key == record.key
    assert stored.value == record.value
    assert stored.headers == record.headers
    assert not stored.is_log_append_time
    assert record.timestamp_ms in (None, stored.timestamp_ms)


def versions_in_use(producer: KafkaProducer) -> dict[str, set[int]]:
    """API name -> the versions that the producer uses, over all nodes."""
    spoken: dict[str, set[int]] = defaultdict(set)
    for versions in producer.health().negotiated_versions.values():
        for name, version in versions.items():
            spoken[name].add(version)
    return dict(spoken)

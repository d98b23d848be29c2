"""Delivery without faults: offsets, batching, sizes, timestamps."""

from __future__ import annotations

import time

import pytest

from kproducer import KafkaError
from kproducer._core.network import selector
from kproducer._core.network.channel_io import PortableChannelIo
from kproducer.testing.fakebroker import FakeCluster
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S

PRODUCE = 0
HOURS_MS = 3_600_000


def test_records_are_delivered_where_no_socket_module_was_compiled(
    stage: Stage, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on platforms without epoll."""
    monkeypatch.setattr(selector, "PlaintextChannelIo", PortableChannelIo)
    producer = stage.producer(cluster, max_block_ms=5000)
    assert producer.send().metadata().offset == 0


def test_result_carries_sizes_and_the_records_own_time(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster)
    full = producer.send(value=b"12345", key=b"abc", timestamp_ms=1234).metadata()
    assert (full.timestamp_ms, full.serialized_key_size, full.serialized_value_size) == (1234, 3, 5)
    before = time.time_ns() // 1_000_000
    stamped = producer.send(value=b"").metadata()
    assert before <= stamped.timestamp_ms <= time.time_ns() // 1_000_000
    assert (stamped.serialized_key_size, stamped.serialized_value_size) == (-1, 0)


def test_log_append_time_topics_report_the_brokers_time(stage: Stage, cluster: FakeCluster) -> None:
    cluster.topics["t"].options.log_append_time = True
    producer = stage.producer(cluster)
    assert producer.send(timestamp_ms=5).metadata().timestamp_ms == 1_700_000_000_000


def test_headers_null_values_and_empty_values_arrive_as_sent(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster)
    headers = [("a", b"1"), ("a", None), ("", b""), ("\u00fc", b"\xff")]
    producer.send(value=b"", key=b"", headers=headers).metadata()
    producer.kafka.send("t", None).result(PATIENCE_S)
    with_headers, tombstone = cluster.records("t")
    assert with_headers.headers == tuple(headers)
    assert (with_headers.key, with_headers.value) == (b"", b"")
    assert (tombstone.key, tombstone.value) == (None, None)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["all", 1])
def test_every_codec_passes_the_strict_reader(stage: Stage, codec: str, acks: str | int) -> None:
    cluster = stage.cluster(topics={"t": 2})
    producer = stage.producer(cluster, compression_type=codec, acks=acks, linger_ms=5)
    for index in range(60):
        producer.send(value=b"%05d" % index * 100, key=b"k%d" % index, partition=index % 2)
    producer.kafka.flush(PATIENCE_S)
    expected = ["none", "gzip", "snappy", "lz4", "zstd"].index(codec)
    batches = [b for p in cluster.topics["t"].partitions for b in p.batches]
    assert {b.codec for b in batches} == {expected}


def test_acks_0_resolves_without_a_response_and_without_an_offset(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster, acks=0)
    sent = producer.send_many(20)
    assert {s.metadata().offset for s in sent} == {-1}
    cluster.wait_for(lambda: len(cluster.records("t")) == 20, what="20 records in the log")
    assert [r.value for r in cluster.records("t")] == [s.value for s in sent]


def test_a_full_batch_is_sent_at_once_despite_linger(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster, linger_ms=HOURS_MS, delivery_timeout_ms=2 * HOURS_MS, batch_size=1000)
    first = producer.send(value=b"x" * 600)
    second = producer.send(value=b"y" * 600)
    assert first.metadata().offset == 0
    assert not second.future.done()
    producer.kafka.flush(PATIENCE_S)
    assert second.metadata().offset == 1


def test_max_request_size_bounds_each_request_and_order_is_kept(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 8})
    producer = stage.producer(
        cluster, linger_ms=HOURS_MS, delivery_timeout_ms=2 * HOURS_MS, batch_size=4000, max_request_size=5000
    )
    for index in range(24):
        producer.send(value=b"%04d" % index * 250, partition=index % 8)
    producer.kafka.flush(PATIENCE_S)
    assert all(request.frame_bytes <= 5000 + 200 for request in cluster.requests(PRODUCE))
    for partition in range(8):
        values = [r.value for r in cluster.records("t", partition)]
        assert values == sorted(v for v in values if v is not None)


def test_a_single_record_too_large_for_a_request_is_refused_locally(
    stage: Stage, cluster: FakeCluster
) -> None:
    producer = stage.producer(cluster, max_request_size=2000)
    error = producer.failing_send(value=b"x" * 3000)
    assert producer.was_not_sent(error)
    assert "max_request_size" in str(error)
    assert producer.send().metadata().offset == 0


def test_a_record_larger_than_the_buffer_is_refused_at_once(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster, buffer_memory=20_000, max_request_size=1_000_000)
    error = producer.failing_send(value=b"x" * 30_000)
    assert isinstance(error, KafkaError)
    assert "buffer_memory" in str(error)
    assert producer.send().metadata().offset == 0


def test_partitions_for_and_explicit_partitions(stage: Stage) -> None:
    cluster = stage.cluster(2, topics={"t": 5})
    producer = stage.producer(cluster)
    assert len(producer.kafka.partitions_for("t")) == 5
    assert [producer.send(partition=p).metadata().partition for p in range(5)] == list(range(5))


def test_partitions_may_be_used_from_the_last_to_the_first(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 4})
    producer = stage.producer(cluster)
    assert [producer.send(partition=index).metadata().partition for index in (3, 1, 0, 2)] == [3, 1, 0, 2]

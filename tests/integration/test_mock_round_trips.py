"""The producer against the mock cluster: round trips as with Apache Kafka, and faults, without Java."""

from __future__ import annotations

import pytest

from kproducer import KafkaProducer
from tests.support.kafka.mock_cluster import DISCONNECT
from tests.support.kafka.reader import read_topic
from tests.support.kafka.record_samples import sample_records
from tests.support.kafka.round_trip import check_round_trip, versions_in_use

pytestmark = pytest.mark.mock_cluster

PARTITION_COUNT = 3
PRODUCE, METADATA = 0, 3
NOT_LEADER_OR_FOLLOWER = 6
REQUEST_TIMED_OUT = 7


@pytest.mark.parametrize("acks", [0, 1, "all"])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_record_shape_reads_back_as_it_was_sent(mock_cluster, codec, acks):
    mock_cluster.create_topic("shapes", PARTITION_COUNT)
    records = sample_records(PARTITION_COUNT)
    check_round_trip(
        mock_cluster.bootstrap_servers,
        "shapes",
        records,
        reports_record_time=False,
        acks=acks,
        compression_type=codec,
    )


def test_older_brokers_get_lower_versions(mock_cluster):
    mock_cluster.create_topic("old", 1)
    mock_cluster.set_api_versions(PRODUCE, 0, 7)
    mock_cluster.set_api_versions(METADATA, 0, 4)
    with KafkaProducer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
        leader = producer.send("old", b"value").get(timeout=30)
        in_use = versions_in_use(producer)
    assert leader.offset == 0
    assert (in_use["PRODUCE"], in_use["METADATA"]) == ({7}, {4})


def test_retriable_errors_lose_nothing(mock_cluster):
    mock_cluster.create_topic("retried", 2)
    mock_cluster.push_errors(PRODUCE, NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT, DISCONNECT, DISCONNECT)
    values = [b"%d" % number for number in range(200)]
    with KafkaProducer(bootstrap_servers=mock_cluster.bootstrap_servers, linger_ms=0) as producer:
        futures = [producer.send("retried", value, partition=n % 2) for n, value in enumerate(values)]
        answers = [future.get(timeout=30) for future in futures]
    stored = {
        (each.partition, each.offset): each.value
        for each in read_topic(mock_cluster.bootstrap_servers, "retried")
    }
    assert [stored[answer.partition, answer.offset] for answer in answers] == values


def test_records_follow_a_leader_that_moves(mock_cluster):
    mock_cluster.create_topic("moving", 1)
    mock_cluster.set_leader("moving", 0, 1)
    values = [b"%d" % number for number in range(30)]
    with KafkaProducer(bootstrap_servers=mock_cluster.bootstrap_servers, linger_ms=0) as producer:
        answers = []
        for number, value in enumerate(values):
            if number % 10 == 0:
                mock_cluster.set_leader("moving", 0, 1 + number // 10)
            answers.append(producer.send("moving", value).get(timeout=30))
    stored = {each.offset: each.value for each in read_topic(mock_cluster.bootstrap_servers, "moving")}
    assert [stored[answer.offset] for answer in answers] == values


def test_the_producer_reconnects_to_a_cluster_that_was_down(mock_cluster):
    mock_cluster.create_topic("back", 1)
    with KafkaProducer(bootstrap_servers=mock_cluster.bootstrap_servers, linger_ms=0) as producer:
        producer.send("back", b"before").get(timeout=30)
        mock_cluster.set_down()
        waiting = producer.send("back", b"after")
        assert not waiting.done()
        mock_cluster.set_up()
        assert waiting.get(timeout=30).offset >= 1
    stored = [each.value for each in read_topic(mock_cluster.bootstrap_servers, "back")]
    assert (stored[0], stored[-1]) == (b"before", b"after")


def test_a_second_record_needs_only_one_produce_request(mock_cluster):
    mock_cluster.create_topic("quiet", 1)
    with KafkaProducer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
        producer.send("quiet", b"value").get(timeout=30)
        mock_cluster.start_request_tracking()
        producer.send("quiet", b"value").get(timeout=30)
        kinds = [request.api_key for request in mock_cluster.requests()]
    assert kinds == [PRODUCE]

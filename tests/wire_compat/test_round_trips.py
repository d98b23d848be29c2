"""Every codec, every acks, every record shape against four versions of Apache Kafka, checked independently.

An independent client reads the records back, Kafka's dump tool checks the log segments, and the versions in
use are compared with those that each broker advertises.
"""

from __future__ import annotations

from itertools import count

import pytest

from kproducer import KafkaProducer
from tests.support.kafka.reader import read_topic
from tests.support.kafka.record_samples import sample_records
from tests.support.kafka.round_trip import check_round_trip, send_all, versions_in_use
from tests.support.kafka.topics import create_topic
from tests.wire_compat.api_versions_probe import advertised_versions

pytestmark = pytest.mark.kafka

PARTITION_COUNT = 3
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = (0, 1, "all")

#: The highest versions that both this client and the broker support.
EXPECTED_VERSIONS = {
    "2.8.2": {"PRODUCE": 9, "METADATA": 11, "API_VERSIONS": 3, "INIT_PRODUCER_ID": 4},
    "3.4.1": {"PRODUCE": 9, "METADATA": 12, "API_VERSIONS": 3, "INIT_PRODUCER_ID": 4},
    "3.9.2": {"PRODUCE": 11, "METADATA": 12, "API_VERSIONS": 4, "INIT_PRODUCER_ID": 5},
    "4.4.0": {"PRODUCE": 13, "METADATA": 13, "API_VERSIONS": 5, "INIT_PRODUCER_ID": 5},
}
_API_KEYS = {"PRODUCE": 0, "METADATA": 3, "API_VERSIONS": 18, "INIT_PRODUCER_ID": 22}
#: InitProducerId v6 is not final in Kafka 4.4.
_CLIENT_LATEST = {"PRODUCE": 13, "METADATA": 13, "API_VERSIONS": 5, "INIT_PRODUCER_ID": 5}

_topic_numbers = count(1)


def _new_topic(cluster, name, config=None):
    topic = f"wire-{name}-{next(_topic_numbers)}"
    create_topic(cluster.bootstrap_servers, topic, PARTITION_COUNT, config=config)
    return topic


@pytest.mark.parametrize("acks", ACKS)
@pytest.mark.parametrize("codec", CODECS)
def test_every_record_shape_reads_back_as_it_was_sent(each_kafka, codec, acks):
    topic = _new_topic(each_kafka, f"{codec}-{acks}")
    records = sample_records(PARTITION_COUNT)
    check_round_trip(each_kafka.bootstrap_servers, topic, records, acks=acks, compression_type=codec)


def test_every_version_accepts_sequence_numbers(each_kafka):
    servers, topic = each_kafka.bootstrap_servers, _new_topic(each_kafka, "numbered")
    with KafkaProducer(bootstrap_servers=servers, enable_idempotence=True, batch_size=200) as producer:
        futures = [producer.send(topic, b"%d" % number, partition=number % 2) for number in range(2000)]
        assert [future.result(60).offset for future in futures] == [number // 2 for number in range(2000)]
    stored = read_topic(servers, topic)
    for partition in range(2):
        values = [int(each.value) for each in stored if each.partition == partition]
        assert values == list(range(partition, 2000, 2))


def test_kafkas_dump_tool_finds_no_invalid_batch(each_kafka):
    topics = {codec: _new_topic(each_kafka, f"dump-{codec}") for codec in CODECS}
    records = sample_records(PARTITION_COUNT, seed=2)
    for codec, topic in topics.items():
        with KafkaProducer(
            bootstrap_servers=each_kafka.bootstrap_servers, compression_type=codec
        ) as producer:
            send_all(producer, topic, records)

    batches = each_kafka.dump_log(*topics.values())

    assert [batch for batch in batches if not batch.is_valid] == []
    for codec, topic in topics.items():
        of_topic = [batch for batch in batches if f"/{topic}-" in batch.file]
        assert sum(batch.record_count for batch in of_topic) == len(records)
        assert {batch.magic for batch in of_topic} == {2}
        assert {batch.codec for batch in of_topic} == {codec}


def test_the_highest_versions_that_both_sides_speak_are_used(each_kafka):
    topic = _new_topic(each_kafka, "versions")
    with KafkaProducer(bootstrap_servers=each_kafka.bootstrap_servers) as producer:
        producer.send(topic, b"value").get(timeout=30)
        in_use = versions_in_use(producer)

    advertised = advertised_versions(each_kafka.bootstrap_servers)
    common = {name: min(_CLIENT_LATEST[name], advertised[api_key][1]) for name, api_key in _API_KEYS.items()}
    assert in_use == {name: {version} for name, version in common.items()}
    assert common == EXPECTED_VERSIONS.get(each_kafka.version, common)


def test_old_and_new_brokers_get_different_versions():
    spoken = [tuple(versions.values()) for versions in EXPECTED_VERSIONS.values()]
    assert len(set(spoken)) == len(spoken)


def test_log_append_time_is_reported_if_the_topic_uses_it(each_kafka):
    topic = _new_topic(each_kafka, "append-time", {"message.timestamp.type": "LogAppendTime"})

    with KafkaProducer(bootstrap_servers=each_kafka.bootstrap_servers) as producer:
        sent = [producer.send(topic, b"%d" % n, timestamp_ms=1_000, partition=0) for n in range(5)]
        answers = [future.get(timeout=30) for future in sent]

    stored = read_topic(each_kafka.bootstrap_servers, topic)
    assert all(each.is_log_append_time and each.timestamp_ms > 1_000 for each in stored)
    assert [answer.timestamp_ms for answer in answers] == [each.timestamp_ms for each in stored]

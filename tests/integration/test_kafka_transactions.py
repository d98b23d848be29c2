"""Transactions against Apache Kafka: protocol 1 on older versions, protocol 2 (KIP-890) on 4.x."""

from __future__ import annotations

import pickle

import pytest

from kproducer import (
    AbortTransactionError,
    ConsumerGroupMetadata,
    FatalProducerError,
    FencedError,
    KafkaError,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
    TransactionAbortedError,
)
from kproducer._core.client.api_keys import ApiKey
from kproducer._core.kernel import data_plane
from tests.scenarios.internals import armed_partitions, uses_transaction_version_2
from tests.support.kafka.cluster_changes import set_feature_level
from tests.support.kafka.committed_records import committed_offset, read_committed
from tests.support.kafka.fixtures import start_or_skip, versions_under_test
from tests.support.kafka.maven_artifacts import NEWEST_VERSION
from tests.support.kafka.reader import read_topic
from tests.support.kafka.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


def transactional(cluster, transactional_id, **settings):
    return KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        enable_idempotence=True,
        transactional_id=transactional_id,
        linger_ms=0,
        **settings,
    )


def committed(cluster, topic):
    """Values seen by ``read_committed`` consumers once no transaction is open."""
    (values,) = read_committed(cluster.bootstrap_servers, topic)
    return values


def test_committed_aborted_and_offsets(each_kafka):
    create_topic(each_kafka.bootstrap_servers, "tx", 2)
    create_topic(each_kafka.bootstrap_servers, "tx-in", 1)
    with transactional(each_kafka, "tx") as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            for partition in (0, 1):
                for part in range(20):
                    producer.send("tx", b"%d-%d" % (number, part), partition=partition)
            offset = {TopicPartition("tx-in", 0): OffsetAndMetadata(number + 1)}
            producer.send_offsets_to_transaction(offset, ConsumerGroupMetadata("tx-group"))
            if number % 2:
                producer.flush()
                producer.abort_transaction()
            else:
                producer.commit_transaction()
        with producer.transaction():
            pass
        versions = producer._lifecycle.engine.client.negotiated_versions()
    end_txn = max(of_node.get(ApiKey.END_TXN, 0) for of_node in versions.values())
    assert (end_txn >= 5) is each_kafka.version.startswith("4")
    kept = [b"%d-%d" % (number, part) for number in (0, 2, 4) for part in range(20)]
    assert read_committed(each_kafka.bootstrap_servers, "tx", 2) == [kept, kept]
    assert committed_offset(each_kafka.bootstrap_servers, "tx-group", "tx-in") == 5


def test_the_older_producer_is_fenced(each_kafka):
    create_topic(each_kafka.bootstrap_servers, "fenced", 1)
    with transactional(each_kafka, "fence") as older, transactional(each_kafka, "fence") as newer:
        older.init_transactions()
        older.begin_transaction()
        older.send("fenced", b"old")
        older.flush()
        newer.init_transactions()
        older.send("fenced", b"older")
        with pytest.raises((FencedError, AbortTransactionError)) as caught:
            older.commit_transaction()
        if isinstance(caught.value, AbortTransactionError):
            with pytest.raises(FatalProducerError):
                older.abort_transaction()
        with newer.transaction():
            newer.send("fenced", b"new")
    assert committed(each_kafka, "fenced") == [b"new"]


def test_a_prepared_transaction_is_committed_by_another_producer(each_kafka):
    create_topic(each_kafka.bootstrap_servers, "handed", 1)
    with transactional(each_kafka, "hand") as writer:
        writer.init_transactions()
        writer.begin_transaction()
        writer.send("handed", b"prepared")
        handed = pickle.loads(pickle.dumps(writer.prepare()))
    # The transaction is still open: librdkafka's consumer uses read_committed by default.
    assert read_topic(each_kafka.bootstrap_servers, "handed") == []
    for _ in range(2):
        with transactional(each_kafka, "hand") as finisher:
            finisher.commit_prepared(handed)
    assert committed(each_kafka, "handed") == [b"prepared"]
    with transactional(each_kafka, "hand") as writer:
        writer.init_transactions()
        writer.begin_transaction()
        writer.send("handed", b"given up")
        second = writer.prepare()
    with transactional(each_kafka, "hand") as finisher:
        finisher.abort_prepared(second)
    with transactional(each_kafka, "hand") as finisher, pytest.raises(TransactionAbortedError):
        finisher.commit_prepared(second)
    with transactional(each_kafka, "hand") as finisher, pytest.raises(KafkaError):
        finisher.commit_prepared(handed)
    assert committed(each_kafka, "handed") == [b"prepared"]


def test_an_abort_after_a_failed_record_leaves_a_usable_producer(each_kafka):
    create_topic(each_kafka.bootstrap_servers, "failing", 1, config={"max.message.bytes": "1000"})
    with transactional(each_kafka, "failing") as producer:
        producer.init_transactions()
        for _ in range(3):
            producer.begin_transaction()
            producer.send("failing", b"small")
            producer.send("failing", b"x" * 5000)
            with pytest.raises(AbortTransactionError):
                producer.commit_transaction()
            producer.abort_transaction()
        with producer.transaction():
            producer.send("failing", b"kept")
    assert committed(each_kafka, "failing") == [b"kept"]


def test_a_transaction_that_timed_out_cannot_be_committed(kafka):
    """The broker checks for timed-out transactions every ten seconds."""
    create_topic(kafka.bootstrap_servers, "late", 1)
    with transactional(kafka, "late", transaction_timeout_ms=4000) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("late", b"in vain")
        handed = producer.prepare()
        with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as plain:
            plain.send("late", b"behind").result(60)
        # Read_committed consumers reach the end only after the transaction is aborted.
        seen = read_topic(kafka.bootstrap_servers, "late", next_offsets={0: 3})
        assert [each.value for each in seen] == [b"behind"]
        with transactional(kafka, "late") as finisher, pytest.raises(TransactionAbortedError):
            finisher.commit_prepared(handed)
        with pytest.raises(AbortTransactionError):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send("late", b"in time")
    assert committed(kafka, "late") == [b"behind", b"in time"]


@pytest.mark.skipif(data_plane is None, reason="needs the compiled kernel")
def test_the_data_plane_sends_many_transactions(each_kafka):
    create_topic(each_kafka.bootstrap_servers, "lanes", 3)
    expected = [[], [], []]
    with transactional(each_kafka, "lanes") as producer:
        producer.init_transactions()
        for number in range(40):
            producer.begin_transaction()
            values = [b"%d-%d" % (number, record) for record in range(90)]
            for place, value in enumerate(values):
                future = producer.send("lanes", value, partition=place % 3)
                if place % 15 == 14:
                    future.result(60)
            if number % 4 == 3:
                producer.abort_transaction()
                continue
            assert armed_partitions(producer) > 0
            producer.commit_transaction()
            for partition, written in enumerate(expected):
                written += values[partition::3]
    assert read_committed(each_kafka.bootstrap_servers, "lanes", 3) == expected


@pytest.mark.skipif(data_plane is None, reason="needs the compiled kernel")
@pytest.mark.skipif(NEWEST_VERSION not in versions_under_test(), reason="its brokers have both versions")
def test_the_data_plane_follows_when_the_version_of_transactions_changes():
    expected = []
    with start_or_skip(NEWEST_VERSION) as cluster:
        server = cluster.bootstrap_servers
        create_topic(server, "changing", 1)
        with transactional(cluster, "changing") as producer:
            producer.init_transactions()
            for level in (2, 1, 0, 2):
                if level != 2 or expected:
                    set_feature_level(server, "transaction.version", level, is_downgrade=level < 2)
                    # The producer learns of it when it connects again: here in a transaction of version 1.
                    cluster.nodes[1].stop()
                    cluster.nodes[1].start()
                    with producer.transaction():
                        expected.append(b"%d" % level)
                        producer.send("changing", expected[-1])
                for number in range(5):
                    producer.begin_transaction()
                    for record in range(20):
                        expected.append(b"%d-%d-%d" % (level, number, record))
                        producer.send("changing", expected[-1]).result(60)
                    assert uses_transaction_version_2(producer) is (level == 2)
                    assert armed_partitions(producer) == 1
                    producer.commit_transaction()
        assert committed(cluster, "changing") == expected

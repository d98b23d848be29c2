"""Other producers, which do not share our codecs, send to the fake cluster."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from kproducer.testing import FakeKafka
from kproducer.testing.fakebroker import FakeCluster, faults

PRODUCE, FETCH = 0, 1


def _producer(cluster: FakeCluster, **config: object) -> Producer:
    # librdkafka uses record batches of format 2 only with brokers that also offer Fetch 4.
    cluster.set_versions(FETCH, (4, 11))
    return Producer({"bootstrap.servers": ",".join(cluster.bootstrap_servers), **config})


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_librdkafka_delivers_every_codec(codec: str) -> None:
    with FakeCluster(2) as cluster:
        cluster.create_topic("t", 2)
        delivered: list[tuple[int | None, int | None]] = []

        def note(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            delivered.append((message.partition(), message.offset()))

        producer = _producer(cluster, **{"compression.type": codec})
        for index in range(40):
            producer.produce("t", b"value %d" % index, b"key", partition=index % 2, headers=[("h", b"1")])
            producer.produce("t", b"x" * 2000, partition=index % 2, on_delivery=note)
        assert producer.flush(60) == 0
        assert sorted(delivered) == [(p, offset) for p in (0, 1) for offset in range(1, 40, 2)]
        records = cluster.records("t", 1)
        assert [r.value for r in records[::2]] == [b"value %d" % index for index in range(1, 40, 2)]
        assert records[0].key == b"key"
        assert records[0].headers == (("h", b"1"),)
        assert cluster.violations == []


def test_librdkafka_is_idempotent_when_responses_are_lost() -> None:
    with FakeCluster(2) as cluster:
        cluster.create_topic("t", 1)
        cluster.control(PRODUCE, faults.close_after(), times=2)
        producer = _producer(
            cluster, **{"enable.idempotence": True, "retry.backoff.ms": 10, "reconnect.backoff.ms": 10}
        )
        for index in range(20):
            producer.produce("t", b"%d" % index)
            producer.poll(0.001)
        assert producer.flush(60) == 0
        assert [r.value for r in cluster.records("t")] == [b"%d" % index for index in range(20)]
        assert cluster.topics["t"].partitions[0].batches[0].producer_id >= 0
        assert cluster.violations == []


@pytest.mark.parametrize("moved", [False, True])
def test_librdkafka_commits_and_aborts(moved: bool) -> None:
    with FakeCluster(2) as cluster:
        cluster.create_topic("t", 2)
        if moved:
            cluster.coordination.moved[1, "tx"] = 2
        producer = _producer(cluster, **{"transactional.id": "tx"})
        producer.init_transactions(60)
        for number, commit in enumerate([True, False, True]):
            producer.begin_transaction()
            for partition in (0, 1):
                producer.produce("t", b"%d" % number, partition=partition)
            if commit:
                producer.commit_transaction(60)
            else:
                producer.abort_transaction(60)
        assert [r.value for r in cluster.committed_records("t", 1)] == [b"0", b"2"]
        assert len(cluster.topics["t"].partitions[0].markers) >= 2
        newer = _producer(cluster, **{"transactional.id": "tx"})
        newer.init_transactions(60)
        producer.begin_transaction()
        producer.produce("t", b"fenced", partition=0)
        with pytest.raises(KafkaException, match="FENCED"):
            producer.commit_transaction(60)
        assert b"fenced" not in [r.value for r in cluster.committed_records("t", 0)]
        assert cluster.violations == []


def test_librdkafka_survives_scripted_faults() -> None:
    with FakeCluster(1) as cluster:
        cluster.create_topic("t", 1)
        cluster.control(PRODUCE, faults.refuse_produce(6))
        cluster.control(PRODUCE, faults.close_before())
        cluster.control(PRODUCE, faults.fragmented())
        producer = _producer(cluster, **{"retry.backoff.ms": 10, "reconnect.backoff.ms": 10})
        producer.produce("t", b"kept")
        assert producer.flush(60) == 0
        assert [r.value for r in cluster.records("t")] == [b"kept"]
        assert len(cluster.requests(PRODUCE)) == 3
        assert cluster.violations == []


# -- through the public interface, with each client's own settings -------------------------------------------


def test_librdkafka_sends_to_fake_kafka() -> None:
    with FakeKafka(nodes=2, users={"alice": "secret"}) as broker:
        broker.disconnect_next("Produce", processed=True)
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "enable.idempotence": True,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "alice",
                "sasl.password": "secret",
            }
        )
        producer.produce("orders", b"placed", headers=[("h", b"1")])
        assert producer.flush(60) == 0
        broker.topic("orders").assert_written([b"placed"], headers=[[("h", b"1")]])
        assert broker.violations == []


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [True, False])
def test_aiokafka_sends_to_fake_kafka(codec: str | None, idempotent: bool) -> None:
    async def send(address: str) -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=address, compression_type=codec, enable_idempotence=idempotent
        ) as producer:
            await producer.send_and_wait("orders", b"placed", key=b"17")

    with FakeKafka(nodes=2) as broker:
        asyncio.run(send(broker.bootstrap_servers))
        broker.topic("orders").assert_written([b"placed"], keys=[b"17"])
        assert broker.violations == []


@pytest.mark.parametrize("transactional_id", [None, "tx"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of its import, and of its own
def test_kafka_python_sends_to_fake_kafka(transactional_id: str | None) -> None:
    import kafka

    with FakeKafka(nodes=2) as broker:
        producer = kafka.KafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, transactional_id=transactional_id
        )
        if transactional_id:
            producer.init_transactions()
            producer.begin_transaction()
        producer.send("orders", b"placed").get(60)
        if transactional_id:
            broker.topic("orders").assert_written([], isolation_level="read_committed")
            producer.commit_transaction()
        producer.close()
        broker.topic("orders").assert_written([b"placed"], isolation_level="read_committed")
        assert broker.violations == []


def test_a_consumer_is_told_that_it_is_not_served() -> None:
    with FakeKafka() as broker:
        broker.create_topic("orders")
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}
        consumer = Consumer(settings)
        consumer.subscribe(["orders"])
        message = consumer.poll(60)
        consumer.close()
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() == KafkaError._UNSUPPORTED_FEATURE

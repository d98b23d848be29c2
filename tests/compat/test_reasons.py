"""The reasons in docs/migration/ hold for the installed releases of the other clients.

If a test fails because a client has improved, its sentence on the page goes, and so does the test.
"""

from __future__ import annotations

import asyncio
import contextlib
import zipfile
from collections.abc import Callable, Iterator

import aiokafka
import confluent_kafka
import pytest
from confluent_kafka.aio import AIOProducer

from kproducer import KafkaProducer
from kproducer.testing import FakeKafka
from kproducer.testing.fakebroker import FakeCluster, Hold, faults
from tests.support.kafka.kafka_python import kafka as kafka_python
from tests.support.kafka.kafka_python import kafka_errors
from tests.support.kafka.maven_artifacts import NEWEST_VERSION, KafkaUnavailableError, spec_jars
from tests.support.requirements import REQUIRE_KAFKA, skip_or_fail

pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning:aiokafka")

PRODUCE, FETCH = 0, 1
NOT_LEADER_OR_FOLLOWER = 6
PATIENCE_S = 30


@pytest.fixture
def broker() -> Iterator[FakeKafka]:
    with FakeKafka() as each:
        yield each
        assert each.violations == []


def kproducers_transaction(servers: str) -> None:
    with KafkaProducer(servers, transactional_id="t") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("events", b"value")


def confluents_transaction(servers: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "transactional.id": "t"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("events", b"value")
    producer.commit_transaction(PATIENCE_S)
    producer.close()


def kafka_pythons_transaction(servers: str) -> None:
    with contextlib.closing(
        kafka_python.KafkaProducer(bootstrap_servers=servers, transactional_id="t")
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("events", b"value")
        producer.commit_transaction()


def aiokafkas_transaction(servers: str) -> None:
    async def run() -> None:
        client = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, transactional_id="t")
        async with client as producer, producer.transaction():
            await producer.send_and_wait("events", b"value")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("transaction", "end_txn_version"),
    [
        (kproducers_transaction, 5),
        (confluents_transaction, 1),
        (kafka_pythons_transaction, 3),
        (aiokafkas_transaction, 0),
    ],
)
def test_only_kproducer_has_transactions_of_version_2(
    broker: FakeKafka, transaction: Callable[[str], None], end_txn_version: int
) -> None:
    """EndTxn of version 5 says that the client has them (KIP-890)."""
    transaction(broker.bootstrap_servers)
    assert {request.api_version for request in broker.requests("EndTxn")} == {end_txn_version}
    assert bool(broker.requests("AddPartitionsToTxn")) is (end_txn_version < 5)


def confluents_sends(servers: str) -> tuple[Callable[[bytes, int], None], Callable[[], object]]:
    settings = {"enable.idempotence": True, "linger.ms": 0, "retry.backoff.ms": 1000}
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, **settings})
    return lambda value, partition: producer.produce("t", value, partition=partition), producer.close


def kproducers_sends(servers: str) -> tuple[Callable[[bytes, int], None], Callable[[], object]]:
    producer = KafkaProducer(servers, linger_ms=0, retry_backoff_ms=1000)

    def send(value: bytes, partition: int) -> None:
        producer.send("t", value, partition=partition)

    return send, producer.close


@pytest.mark.parametrize(("client", "copies"), [(confluents_sends, 2), (kproducers_sends, 1)])
def test_librdkafka_writes_an_idempotent_record_twice_if_another_partition_moves(
    client: Callable[[str], tuple[Callable[[bytes, int], None], Callable[[], object]]], copies: int
) -> None:
    """A record of one partition waits for its retry, and the leader of another partition has moved.

    The second batch in flight to the old leader is then out of order, for which librdkafka takes a new epoch
    for all partitions. With the new epoch, the broker cannot know that it has the first record.
    """
    cluster = FakeCluster(2)
    try:
        cluster.set_versions(FETCH, (4, 11))  # librdkafka sends today's batches only with it
        moved, other = cluster.brokers
        cluster.create_topic("t", 2, leaders=[moved, other])
        send, close = client(",".join(cluster.bootstrap_servers))
        for partition in range(2):
            send(b"first", partition)
        cluster.wait_for(lambda: all(cluster.records("t", partition) for partition in range(2)))
        gate = cluster.gate()
        refuse = faults.refuse_produce(NOT_LEADER_OR_FOLLOWER)
        cluster.control(PRODUCE, lambda context: Hold(gate, refuse), broker_id=moved)
        cluster.control(PRODUCE, faults.close_after(), broker_id=other)
        send(b"second", 0)
        gate.wait_until_reached()
        send(b"third", 0)
        cluster.wait_for_requests(PRODUCE, 3, broker_id=moved)
        send(b"once", 1)
        cluster.wait_for(lambda: len(cluster.records("t", 1)) == 2)
        gate.open()
        close()
        assert [record.value for record in cluster.records("t", 0)] == [b"first", b"second", b"third"]
        assert [record.value for record in cluster.records("t", 1)] == [b"first", *[b"once"] * copies]
    finally:
        cluster.close()


def test_confluent_kafkas_batches_have_no_headers(broker: FakeKafka) -> None:
    headers = [("source", b"docs")]

    async def run() -> None:
        async with AIOProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            with pytest.raises(NotImplementedError, match="Headers are not supported"):
                await producer.produce("events", b"value", headers=headers)

    asyncio.run(run())
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
    assert producer.produce_batch("events", [{"value": b"value", "headers": headers}]) == 1
    producer.close()
    assert [(record.value, record.headers) for record in broker.topic("events").records()] == [(b"value", ())]


def test_confluent_kafka_has_one_error_for_written_and_for_unwritten(broker: FakeKafka) -> None:
    reports = []

    def on_delivery(error: confluent_kafka.KafkaError, message: confluent_kafka.Message) -> None:
        reports.append((error.name(), str(error), message.error().code(), message.offset()))

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "message.timeout.ms": 500, "linger.ms": 0}
    )
    for value in (b"written", b"unwritten"):
        with broker.hang_next("Produce", times=None, processed=value == b"written"):
            producer.produce("events", value, on_delivery=on_delivery)
            assert producer.flush(PATIENCE_S) == 0
        broker.drop_connections()
    producer.close()
    assert [record.value for record in broker.topic("events").records()] == [b"written"]
    assert reports[0][0] == "_MSG_TIMED_OUT"
    assert reports[0] == reports[1]


def test_aiokafka_retries_an_idempotent_record_without_a_limit(broker: FakeKafka) -> None:
    timeout_ms, backoff_ms = 100, 10

    async def run() -> None:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap_servers,
            enable_idempotence=True,
            request_timeout_ms=timeout_ms,
            retry_backoff_ms=backoff_ms,
        ) as producer:
            await producer.send_and_wait("events", b"value")
            with broker.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", times=None) as fault:
                future = await producer.send("events", b"value")
                # Three times the timeout.
                await asyncio.to_thread(fault.wait_until_applied, 3 * timeout_ms // backoff_ms, PATIENCE_S)
                assert not future.done()
            await future

    asyncio.run(run())


def test_kafka_python_sends_nothing_after_a_record_expired(broker: FakeKafka) -> None:
    """It drops its producer id, and requests no other: futures do not even complete with an error."""
    producer = kafka_python.KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, request_timeout_ms=100, delivery_timeout_ms=300
    )
    producer.send("events", b"first").get(PATIENCE_S)
    with (
        broker.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", times=None),
        pytest.raises(kafka_errors.KafkaTimeoutError, match="Expiring"),
    ):
        producer.send("events", b"expires").get(PATIENCE_S)
    sent = len(broker.requests("Produce"))
    future = producer.send("events", b"second")
    with pytest.raises(kafka_errors.KafkaTimeoutError, match="Timeout after waiting"):
        future.get(1)  # more than three times delivery_timeout_ms
    assert not future.is_done
    assert len(broker.requests("Produce")) == sent
    assert len(broker.requests("InitProducerId")) == 1
    # close() would raise and leave the thread: let it request an id.
    transactions = producer._transaction_manager
    transactions._current_state = type(transactions._current_state).UNINITIALIZED
    producer.close()
    assert future.is_done


@pytest.mark.kafka
def test_javas_producer_does_not_prepare_transactions_and_its_timeouts_have_no_outcome() -> None:
    try:
        (jar,) = spec_jars(NEWEST_VERSION).glob("kafka-clients-*.jar")
    except KafkaUnavailableError as error:
        skip_or_fail(REQUIRE_KAFKA, f"a test with Kafka's own client: {error}")
    with zipfile.ZipFile(jar) as classes:
        producer = classes.read("org/apache/kafka/clients/producer/KafkaProducer.class")
        sender = classes.read("org/apache/kafka/clients/producer/internals/Sender.class")
    assert b"commitTransaction" in producer
    assert b"prepareTransaction" not in producer
    assert b"The request has not been sent, or no server response has been received yet" in sender

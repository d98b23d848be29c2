"""``FakeKafka``: what tests of applications can inject, wait for and assert."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import socket
import ssl
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kproducer_messages import SaslAuthenticateRequest, SaslHandshakeRequest

from kproducer import (
    ConsumerGroupMetadata,
    DeliveryTimeoutError,
    DisconnectedError,
    FatalProducerError,
    KafkaError,
    KafkaProducer,
    OffsetAndMetadata,
    Outcome,
    RequestTimeoutError,
    ResultTimeoutError,
    SslAuthenticationError,
    TopicPartition,
)
from kproducer.errors.broker_errors import (
    InvalidRecordError,
    MessageTooLargeError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
)
from kproducer.testing import FakeKafka, Record
from tests.support.certificates import Authority
from tests.support.raw_client import RawClient

#: For records that are not delivered whatever happens; enough to send them once on a busy machine.
IMPATIENT = {"request_timeout_ms": 1000, "delivery_timeout_ms": 2000, "linger_ms": 0}


@pytest.fixture
def kafka() -> Iterator[FakeKafka]:
    with FakeKafka() as made:
        yield made
        assert made.violations == []


@pytest.fixture
def three() -> Iterator[FakeKafka]:
    with FakeKafka(nodes=3) as made:
        yield made
        assert made.violations == []


def error_of_send(kafka: FakeKafka, **settings: Any) -> KafkaError:
    """The error of one record, with its outcome."""
    with (
        KafkaProducer(kafka.bootstrap_servers, **settings) as producer,
        pytest.raises(KafkaError) as caught,
    ):
        producer.send("orders", b"placed").result(30)
    return caught.value


def send(kafka: FakeKafka, *values: bytes, **settings: Any) -> None:
    with KafkaProducer(kafka.bootstrap_servers, retry_backoff_ms=1, **settings) as producer:
        assert producer.send_many("orders", list(values)).failures(30) == []


# -- records and assertions -------------------------------------------------------------------------------


def test_records_are_read_back(kafka: FakeKafka) -> None:
    with KafkaProducer(kafka.bootstrap_servers) as producer:
        producer.send("orders", "plac\xe9", key=b"17", headers=[("trace", b"1")], timestamp_ms=1234).result(
            30
        )
        producer.send("orders", None, key="18", timestamp_ms=1235).result(30)
    topic = kafka.topic("orders")
    assert topic.records() == [
        Record("orders", 0, 0, 1234, b"17", "plac\xe9".encode(), (("trace", b"1"),)),
        Record("orders", 0, 1, 1235, b"18", None, ()),
    ]
    topic.assert_written(["plac\xe9", None], keys=["17", b"18"], headers=[[("trace", b"1")], []])
    assert topic.wait_for_records(1) == topic.records()
    assert kafka.topics == ["orders"]


def test_headers_may_be_lists_or_tuples(kafka: FakeKafka) -> None:
    with KafkaProducer(kafka.bootstrap_servers) as producer:
        producer.send("orders", b"placed", headers=[("h", b"1"), ("i", None)])
    topic = kafka.topic("orders")
    in_lists: Any = [[["h", b"1"], ["i", None]]]
    topic.assert_written(headers=in_lists)
    topic.assert_written(headers=in_lists, in_any_order=True)
    topic.assert_written(headers=((("h", b"1"), ("i", None)),))
    another: Any = [[["h", b"2"], ["i", None]]]
    with pytest.raises(AssertionError, match=r"headers=\(\('h', b'2'\), \('i', None\)\)"):
        topic.assert_written(headers=another)


def test_several_partitions_are_read_in_their_order(kafka: FakeKafka) -> None:
    topic = kafka.create_topic("orders", 2)
    with KafkaProducer(kafka.bootstrap_servers) as producer:
        for number, partition in enumerate([1, 0, 1]):
            producer.send("orders", b"%d" % number, partition=partition)
    topic.assert_written([b"1", b"0", b"2"])
    topic.assert_written([b"0", b"1", b"2"], in_any_order=True)
    topic.assert_written([b"0", b"2"], partition=1)
    with pytest.raises(AssertionError, match="in another order"):
        topic.assert_written([b"0", b"1", b"2"])
    with pytest.raises(ValueError, match="partitions 0 to 1, not 2"):
        topic.records(2)


def test_a_failed_assertion_says_what_is_missing_and_what_the_topic_holds(kafka: FakeKafka) -> None:
    send(kafka, b"placed", b"x" * 5000)
    with pytest.raises(AssertionError) as caught:
        kafka.topic("orders").assert_written([b"placed", b"paid"])
    text = str(caught.value)
    assert "topic 'orders' should hold exactly 2 records, in this order:\n  value=b'placed'" in text
    assert "missing:\n  value=b'paid'\nnot expected:\n  value=b'xxx" in text
    assert "It holds 2 records:\n  partition 0 offset 0: key=None value=b'placed'\n" in text
    assert "(5003 characters)" in text
    assert " Produce" in text
    assert len(text) < 2000


def test_a_failed_assertion_names_the_topics_that_exist(kafka: FakeKafka) -> None:
    send(kafka, b"placed")
    with pytest.raises(AssertionError, match=r"no such topic. Topics: 'orders' with 1 record\."):
        kafka.topic("order").assert_written([b"placed"])
    kafka.topic("order").assert_written([])
    with pytest.raises(AssertionError, match="should hold exactly no records"):
        kafka.topic("orders").assert_written([])


def test_waiting_ends_with_the_records_or_says_what_is_there(kafka: FakeKafka) -> None:
    topic = kafka.topic("orders")
    with KafkaProducer(kafka.bootstrap_servers, linger_ms=50) as producer:
        producer.send("orders", b"placed")
        topic.assert_written([b"placed"], timeout=30)
    with pytest.raises(AssertionError, match=r"2 records or more within 0.01 s\nIt holds 1 record:"):
        topic.wait_for_records(2, 0.01)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, TypeError),
        ({"values": b"placed"}, TypeError),
        ({"values": [b"a"], "keys": []}, ValueError),
        ({"values": [], "isolation_level": "read_all"}, ValueError),
    ],
)
def test_wrong_assertions_are_refused(
    kafka: FakeKafka, arguments: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        kafka.topic("orders").assert_written(**arguments)


# -- faults of requests: the outcome of each ----------------------------------------------------------------


def test_a_retriable_error_is_retried(kafka: FakeKafka) -> None:
    fault = kafka.fail_next("PRODUCE", NotLeaderOrFollowerError, times=2)
    send(kafka, b"placed")
    assert fault.count == 2
    assert len(kafka.requests("Produce")) == 3
    kafka.topic("orders").assert_written([b"placed"])


def test_a_permanent_error_is_a_rejection_with_the_brokers_message(kafka: FakeKafka) -> None:
    kafka.fail_next("Produce", InvalidRecordError("not an order"))
    error = error_of_send(kafka)
    assert isinstance(error, InvalidRecordError)
    assert error.outcome is Outcome.REJECTED
    assert error.broker_message == "not an order"
    kafka.topic("orders").assert_written([])


@pytest.mark.parametrize("error", ["TOPIC_AUTHORIZATION_FAILED", 29, TopicAuthorizationFailedError])
def test_errors_are_classes_names_or_codes(kafka: FakeKafka, error: Any) -> None:
    kafka.fail_next("Produce", error)
    assert isinstance(error_of_send(kafka), TopicAuthorizationFailedError)


def test_a_request_that_is_never_answered_leaves_the_outcome_unknown(kafka: FakeKafka) -> None:
    kafka.hang_next("Produce", times=None, processed=True)
    error = error_of_send(kafka, **IMPATIENT)
    # Which one depends on whether the second request times out before the delivery does.
    assert isinstance(error, DeliveryTimeoutError | RequestTimeoutError)
    assert error.outcome is Outcome.UNKNOWN
    kafka.topic("orders").assert_written([b"placed"])


def test_a_lost_answer_is_retried_without_a_duplicate(kafka: FakeKafka) -> None:
    kafka.disconnect_next("Produce", processed=True)
    send(kafka, b"placed")
    assert len(kafka.requests("Produce")) == 2
    kafka.topic("orders").assert_written([b"placed"])


def test_a_lost_request_is_retried(kafka: FakeKafka) -> None:
    kafka.disconnect_next("Produce")
    send(kafka, b"placed")
    kafka.topic("orders").assert_written([b"placed"])


def test_an_error_after_the_append(kafka: FakeKafka) -> None:
    kafka.fail_next("Produce", RequestTimedOutError, processed=True)
    error = error_of_send(kafka, retries=0, enable_idempotence=False)
    assert error.outcome is Outcome.UNKNOWN
    kafka.topic("orders").assert_written([b"placed"])


def test_without_metadata_nothing_is_sent(kafka: FakeKafka) -> None:
    kafka.fail_next("Metadata", "LEADER_NOT_AVAILABLE", times=None)
    assert error_of_send(kafka, max_block_ms=300).outcome is Outcome.NOT_SENT
    assert kafka.requests("Produce") == []
    kafka.topic("orders").assert_written([])
    assert kafka.topics == []
    kafka.clear_faults()
    send(kafka, b"placed")


def test_faults_of_a_topic_and_a_partition_leave_others_alone(kafka: FakeKafka) -> None:
    kafka.create_topic("orders", 2)
    kafka.fail_next("Produce", InvalidRecordError, topic="orders", partition=1, times=None)
    kafka.fail_next("Metadata", "TOPIC_AUTHORIZATION_FAILED", topic="secret", times=None)
    with KafkaProducer(kafka.bootstrap_servers) as producer:
        results = [producer.send("orders", b"%d" % number, partition=number) for number in (0, 1)]
        producer.send("other", b"2").result(30)
        with pytest.raises(TopicAuthorizationFailedError):
            producer.send("secret", b"3")
        assert results[0].exception(30) is None
        assert isinstance(results[1].exception(30), InvalidRecordError)


def test_a_delay_holds_back_the_answer_and_applies_beside_other_faults(kafka: FakeKafka) -> None:
    kafka.create_topic("orders")
    with kafka.delay("Produce", 60, times=1) as delay, KafkaProducer(kafka.bootstrap_servers) as producer:
        future = producer.send("orders", b"placed")
        delay.wait_until_applied()
        kafka.topic("orders").wait_for_records(1)
        with pytest.raises(ResultTimeoutError):
            future.result(0.3)
        kafka.drop_connections()  # ends the wait
        future.result(30)
    kafka.topic("orders").assert_written([b"placed"])
    delay = kafka.delay("Produce", 0.001)
    fault = kafka.fail_next("Produce", NotLeaderOrFollowerError)
    send(kafka, b"paid")
    assert (delay.count, fault.count) == (2, 1)


def test_faults_end(kafka: FakeKafka) -> None:
    with kafka.fail_next("Produce", InvalidRecordError, times=None) as fault:
        error_of_send(kafka)
    send(kafka, b"placed")
    assert fault.count == 1
    kafka.fail_next("Produce", InvalidRecordError)
    kafka.clear_faults()
    send(kafka, b"paid")
    kafka.topic("orders").assert_written([b"placed", b"paid"])
    with pytest.raises(AssertionError, match=r"fail_next\('Produce', INVALID_RECORD\) was to be applied 2"):
        fault.wait_until_applied(2, 0.01)


@pytest.mark.parametrize("api", ["FindCoordinator", "InitProducerId", "AddPartitionsToTxn", "EndTxn"])
def test_errors_of_coordinators_are_retried(kafka: FakeKafka, api: str) -> None:
    if api == "AddPartitionsToTxn":
        kafka._cluster.transaction_version = 1
    fault = kafka.fail_next(api, "COORDINATOR_LOAD_IN_PROGRESS", times=2)
    with KafkaProducer(kafka.bootstrap_servers, transactional_id="tx", retry_backoff_ms=1) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("orders", b"placed")
    assert fault.count == 2
    kafka.topic("orders").assert_written([b"placed"], isolation_level="read_committed")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda kafka: kafka.fail_next("Fetch", 6), "'Fetch' is not an API of this broker; it has Produce"),
        (lambda kafka: kafka.fail_next("Produce", "NOT_LEADER"), "no error 'NOT_LEADER'"),
        (lambda kafka: kafka.fail_next("Produce", 0), "no error 0"),
        (lambda kafka: kafka.fail_next("Produce", 6, times=0), "at least one request"),
        (lambda kafka: kafka.fail_next("Produce", 6, node=2), "no node 2; nodes: 1"),
        (lambda kafka: kafka.fail_next("EndTxn", 6, topic="t"), "cannot be limited"),
        (lambda kafka: kafka.delay("Produce", -1), "not negative"),
        (lambda kafka: kafka.down(7), "no node 7"),
        (lambda kafka: kafka.move_leader("t", 0, 1), "no topic 't'; topics: none"),
        (lambda kafka: kafka.create_topic("a b"), "not the name of a topic"),
        (lambda kafka: kafka.create_topic("t", 0), "at least one partition"),
        (lambda kafka: kafka.delete_topic("t"), "no topic"),
        (lambda kafka: kafka.create_topic("t", "3"), "at least one partition, not '3'"),
        (lambda kafka: FakeKafka(nodes=0), "nodes must be a whole number of at least 1"),
        (lambda kafka: MADE(default_partitions="3"), "default_partitions must be a whole number"),
    ],
)
def test_mistakes_in_a_test_are_refused(kafka: FakeKafka, call: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call(kafka)


ARGUMENTS = "nodes, auto_create, default_partitions, users, ssl_context"
#: Its signature does not allow what the test passes.
MADE: Any = FakeKafka


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda kafka: MADE(brokers=3), f"'brokers'; did you mean nodes? Valid arguments: {ARGUMENTS}"),
        (lambda kafka: MADE(autocreate=True), "did you mean auto_create?"),
        (lambda kafka: MADE(partitions=3), "did you mean default_partitions?"),
        (lambda kafka: MADE(tls=None), "did you mean ssl_context?"),
        (lambda kafka: MADE(zookeeper=1), f"'zookeeper'; valid arguments: {ARGUMENTS}"),
        (
            lambda kafka: MADE(3),
            f"FakeKafka() got too many positional arguments; pass these by name: {ARGUMENTS}",
        ),
        (lambda kafka: MADE(users=["ann"]), "users must be a dict of names and passwords, not list"),
        (
            lambda kafka: MADE(ssl_context="ca.pem"),
            "must be an ssl.SSLContext with a certificate",
        ),
        (
            lambda kafka: kafka.create_topic("t", partition=3),
            "create_topic() got an unexpected keyword argument",
        ),
        (lambda kafka: kafka.fail_next("Produce", 6, time=1), "did you mean times?"),
        (lambda kafka: kafka.disconnect_next("Produce", time=1), "did you mean times?"),
        (lambda kafka: kafka.hang_next("Produce", time=1), "did you mean times?"),
        (lambda kafka: kafka.delay("Produce", second=1), "did you mean seconds?"),
    ],
)
def test_wrong_arguments_get_a_hint(kafka: FakeKafka, call: Any, text: str) -> None:
    with pytest.raises(TypeError, match=re.escape(text)):
        call(kafka)


def test_errors_of_the_producer_are_not_errors_of_a_broker(kafka: FakeKafka) -> None:
    with pytest.raises(TypeError, match="disconnect_next"):
        kafka.fail_next("Produce", DisconnectedError)  # type: ignore[arg-type]


# -- faults of nodes ----------------------------------------------------------------------------------------


def test_a_broker_that_is_down_refuses_connections_and_keeps_its_records(kafka: FakeKafka) -> None:
    send(kafka, b"placed")
    host, port = kafka.bootstrap_servers.split(":")
    with kafka.unreachable():
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)))
        assert error_of_send(kafka, max_block_ms=300).outcome is Outcome.NOT_SENT
    send(kafka, b"paid")
    kafka.topic("orders").assert_written([b"placed", b"paid"])


def test_another_node_takes_over(three: FakeKafka) -> None:
    topic = three.create_topic("orders", 3, min_insync_replicas=2)
    with KafkaProducer(three.bootstrap_servers, retry_backoff_ms=1, reconnect_backoff_ms=1) as producer:
        for number in range(3):
            producer.send("orders", b"%d" % number, partition=number).result(30)
        three.down(2)
        for number in range(3):
            producer.send("orders", b"later %d" % number, partition=number).result(30)
        three.up(2)
    assert [len(topic.records(index)) for index in range(3)] == [2, 2, 2]
    three.down(1)
    three.down(2)
    assert isinstance(error_of_send(three, **IMPATIENT).__cause__, NotEnoughReplicasError)
    three.up()
    three.down(3)
    assert three.create_topic("new", 3).partition_count == 3
    with KafkaProducer(three.bootstrap_servers) as producer:
        for number in range(3):
            producer.send("new", b"placed", partition=number).result(30)
    send(three, b"again")
    three.topic("orders").wait_for_records(7)


def test_leaders_can_be_moved(three: FakeKafka) -> None:
    three.create_topic("orders")
    with KafkaProducer(three.bootstrap_servers, retry_backoff_ms=1) as producer:
        producer.send("orders", b"1").result(30)
        three.move_leader("orders", 0, 3)
        producer.send("orders", b"2").result(30)
    three.topic("orders").assert_written([b"1", b"2"])
    assert [request.broker_id for request in three.requests("Produce")] == [1, 1, 3]
    assert three.nodes == [1, 2, 3]


# -- topics -------------------------------------------------------------------------------------------------


def test_topics_have_limits(kafka: FakeKafka) -> None:
    kafka.create_topic("orders", max_message_bytes=500)
    with KafkaProducer(kafka.bootstrap_servers) as producer:
        assert isinstance(producer.send("orders", b"x" * 1000).exception(30), MessageTooLargeError)
    with pytest.raises(ValueError, match="topic 'orders' exists"):
        kafka.create_topic("orders")
    kafka.delete_topic("orders")
    assert kafka.topic("orders").partition_count == 0
    kafka.create_topic("compacted", compacted=True)
    with KafkaProducer(kafka.bootstrap_servers) as producer:
        assert isinstance(producer.send("compacted", b"no key").exception(30), InvalidRecordError)


def test_topics_are_not_created_unless_asked_for() -> None:
    with FakeKafka(auto_create=False) as kafka:
        assert error_of_send(kafka, max_block_ms=300).outcome is Outcome.NOT_SENT
    with FakeKafka(default_partitions=4) as kafka:
        send(kafka, b"placed")
        assert kafka.topic("orders").partition_count == 4


# -- transactions -------------------------------------------------------------------------------------------


def test_read_committed_leaves_out_open_and_aborted_transactions(kafka: FakeKafka) -> None:
    topic = kafka.topic("orders")
    with KafkaProducer(kafka.bootstrap_servers, transactional_id="tx") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("orders", b"committed")
        producer.begin_transaction()
        producer.send("orders", b"aborted").result(30)
        with pytest.raises(AssertionError, match="1 record more, of open or aborted transactions"):
            topic.assert_written([b"committed", b"aborted"], isolation_level="read_committed")
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("orders", b"open").result(30)
        topic.assert_written([b"committed"], isolation_level="read_committed")
        assert topic.wait_for_records(1, isolation_level="read_committed")[0].value == b"committed"
        topic.assert_written([b"committed", b"aborted", b"open"])
        producer.abort_transaction()


def test_offsets_of_groups_are_committed_with_the_transaction(kafka: FakeKafka) -> None:
    place = TopicPartition("input", 0)
    with KafkaProducer(kafka.bootstrap_servers, transactional_id="tx") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_offsets_to_transaction({place: OffsetAndMetadata(42)}, ConsumerGroupMetadata("group"))
        assert kafka.committed_offsets("group") == {}
        producer.commit_transaction()
    assert kafka.committed_offsets("group") == {place: 42}
    kafka.reset()
    assert kafka.committed_offsets("group") == {}


def test_a_commit_may_succeed_although_the_answer_is_an_error(kafka: FakeKafka) -> None:
    kafka.fail_next("EndTxn", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", processed=True)
    with KafkaProducer(kafka.bootstrap_servers, transactional_id="tx") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"placed")
        with pytest.raises(FatalProducerError):
            producer.commit_transaction()
    kafka.topic("orders").assert_written([b"placed"], isolation_level="read_committed")


def test_a_newer_producer_fences_an_older_one(kafka: FakeKafka) -> None:
    with (
        KafkaProducer(kafka.bootstrap_servers, transactional_id="tx") as older,
        KafkaProducer(kafka.bootstrap_servers, transactional_id="tx") as newer,
    ):
        older.init_transactions()
        newer.init_transactions()
        older.begin_transaction()
        with pytest.raises(KafkaError):
            older.send("orders", b"late").result(30)
    kafka.topic("orders").assert_written([])


# -- security -----------------------------------------------------------------------------------------------


def test_users_have_passwords() -> None:
    with FakeKafka(users={"alice": "secret"}) as kafka:
        sasl = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": "alice",
        }
        send(kafka, b"placed", **sasl, sasl_plain_password="secret")
        assert "alice" in str(error_of_send(kafka, **sasl, sasl_plain_password="wrong"))
        kafka.topic("orders").assert_written([b"placed"])


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        *(("PLAIN", message) for message in (b"", b"\0alice", b"\0alice\0secret\0", b"\xff\0\xff\0\xff")),
        *(
            ("OAUTHBEARER", message)
            for message in (b"", b"n,,", b"n,a=alice,\x01auth=Bearer x\x01\x01", b"\xff")
        ),
    ],
)
def test_a_sasl_message_that_is_not_valid_is_refused(mechanism: str, message: bytes) -> None:
    with FakeKafka(users={"alice": "secret"}) as kafka:
        with RawClient(int(kafka.bootstrap_servers.rpartition(":")[2])) as client:
            client.ask(17, 1, SaslHandshakeRequest(mechanism=mechanism))
            answer = client.ask(36, 2, SaslAuthenticateRequest(auth_bytes=message))
            if mechanism == "OAUTHBEARER":
                answer = client.ask(36, 2, SaslAuthenticateRequest(auth_bytes=b"\x01"))
            assert answer.error_code == 58
            assert client.is_closed_by_peer()
        assert kafka.violations == []


@pytest.fixture
def encrypted(tmp_path: Path) -> Iterator[FakeKafka]:
    authority = Authority()
    authority.write(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.issue().write(tmp_path, "broker"))
    with FakeKafka(ssl_context=context) as made:
        yield made


def test_tls(encrypted: FakeKafka, tmp_path: Path) -> None:
    send(encrypted, b"placed", security_protocol="SSL", ssl_cafile=str(tmp_path / "ca.pem"))
    encrypted.topic("orders").assert_written([b"placed"])


def test_a_client_that_does_not_trust_the_brokers_certificate(encrypted: FakeKafka, tmp_path: Path) -> None:
    other = Authority().write(tmp_path, "other.pem")
    error = error_of_send(encrypted, security_protocol="SSL", ssl_cafile=other)
    assert isinstance(error, SslAuthenticationError)
    encrypted.close()
    assert encrypted.violations == []


def test_a_client_without_the_certificate_that_the_broker_requires(tmp_path: Path) -> None:
    authority = Authority()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.pem)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(*authority.issue().write(tmp_path, "broker"))
    with FakeKafka(ssl_context=context) as kafka:
        tls = {"security_protocol": "SSL", "ssl_cafile": authority.write(tmp_path)}
        assert "ssl_certfile" in str(error_of_send(kafka, **tls, max_block_ms=1000))


def test_a_client_without_tls_at_a_tls_listener(encrypted: FakeKafka) -> None:
    error_of_send(encrypted, max_block_ms=1000)
    encrypted.close()
    assert encrypted.violations == []


def test_a_client_with_tls_at_a_listener_without(tmp_path: Path) -> None:
    tls = {"security_protocol": "SSL", "ssl_cafile": Authority().write(tmp_path)}
    with FakeKafka() as kafka:
        assert "PLAINTEXT" in str(error_of_send(kafka, **tls, max_block_ms=1000))


@pytest.mark.parametrize(
    "sent", [b"", b"\x16\x03\x01\x02\0\x01", b"no tls"], ids=["nothing", "a part", "garbage"]
)
@pytest.mark.parametrize("ending", ["close", "reset", "stay"])
def test_a_client_that_does_not_end_the_handshake(encrypted: FakeKafka, sent: bytes, ending: str) -> None:
    host, _, port = encrypted.bootstrap_servers.partition(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(sent)
        if ending == "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if ending != "stay":
            client.close()
        encrypted.drop_connections()  # by now the broker has accepted the connection
        encrypted.close()


def test_a_client_that_breaks_tls_later(encrypted: FakeKafka) -> None:
    host, _, port = encrypted.bootstrap_servers.partition(":")
    context = ssl._create_unverified_context()
    with (
        socket.create_connection((host, int(port))) as connection,
        context.wrap_socket(connection) as client,
    ):
        os.write(client.fileno(), b"not a record of TLS")
        with contextlib.suppress(OSError):
            assert client.recv(1) == b""  # the end of the connection, or an error
    encrypted.close()


# -- life cycle ---------------------------------------------------------------------------------------------


def test_reset_forgets_everything_and_keeps_the_address(three: FakeKafka) -> None:
    address = three.bootstrap_servers
    send(three, b"placed")
    three.fail_next("Produce", InvalidRecordError, times=None)
    three.down()
    three.reset()
    assert (three.topics, three.requests(), three.bootstrap_servers) == ([], [], address)
    send(three, b"paid")
    three.topic("orders").assert_written([b"paid"])


def test_a_producer_continues_after_reset(kafka: FakeKafka) -> None:
    with KafkaProducer(kafka.bootstrap_servers, retry_backoff_ms=1) as producer:
        producer.send("orders", b"placed").result(30)
        kafka.reset()
        producer.send("orders", b"paid").result(30)
    kafka.topic("orders").assert_written([b"paid"])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "call",
    [
        lambda kafka: kafka.up(),
        lambda kafka: kafka.up(1),
        lambda kafka: kafka.down(),
        lambda kafka: kafka.down(1),
        lambda kafka: kafka.unreachable().__enter__(),
        lambda kafka: kafka.drop_connections(),
        lambda kafka: kafka.reset(),
    ],
    ids=["up", "up-1", "down", "down-1", "unreachable", "drop_connections", "reset"],
)
def test_nodes_of_a_closed_broker_cannot_be_used(call: Any) -> None:
    with FakeKafka() as kafka:
        send(kafka, b"placed")
    with pytest.raises(RuntimeError, match=r"^this FakeKafka was closed$"):
        call(kafka)
    gc.collect()  # a coroutine that nobody awaits warns when it is collected
    kafka.topic("orders").assert_written([b"placed"])
    kafka.close()


def test_close_leaves_no_thread_and_no_socket() -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    threads, before = threading.active_count(), descriptors()
    for _ in range(3):
        with FakeKafka(nodes=3) as kafka:
            send(kafka, b"placed")
            kafka.hang_next("Metadata")
            waiting = socket.create_connection(("127.0.0.1", int(kafka.bootstrap_servers.split(":")[-1])))
        kafka.close()
        waiting.close()
    assert threading.active_count() == threads
    assert descriptors() == before


FORKED = """
import os, sys
from kproducer import KafkaProducer
from kproducer.testing import FakeKafka

with FakeKafka() as kafka, kafka.delay("Produce", 0.001):
    orders = kafka.topic("orders")
    child = os.fork()
    if child == 0:
        with KafkaProducer(kafka.bootstrap_servers) as producer:
            producer.send("orders", b"of the child").result(30)
        for ask in (lambda: kafka.topics, orders.records):
            try:
                ask()
            except RuntimeError as error:
                print(error, flush=True)
        kafka.close()
        sys.exit()  # leaves the with block, too
    assert os.waitpid(child, 0)[1] == 0
    kafka.topic("orders").assert_written([b"of the child"])
    until_closed, keep_open = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(keep_open)
        os.read(until_closed, 1)
        os._exit(0)
    kafka.down()  # the child has no copy of the listener
    with KafkaProducer(kafka.bootstrap_servers, max_block_ms=1000) as producer:
        try:
            producer.partitions_for("orders")
        except Exception as error:
            print(error, flush=True)
    os.close(keep_open)
    os.waitpid(child, 0)
"""


def test_a_forked_child_may_send_and_does_not_keep_sockets() -> None:
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED],
        input="",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.count("a forked child can only use bootstrap_servers") == 2
    assert "refused" in finished.stdout

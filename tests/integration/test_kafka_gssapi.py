"""GSSAPI on Apache Kafka, with a KDC of our own: tickets, keytabs, what is missing, sessions that end."""

from __future__ import annotations

import logging
import time

import pytest

from kproducer import KafkaProducer
from kproducer.errors import AuthenticationError
from tests.support.certificates import Authority
from tests.support.kafka.fixtures import start_or_skip
from tests.support.kafka.reader import read_topic
from tests.support.kafka.sessions import check_numbers, leader_authentications, send_numbers
from tests.support.kafka.topics import create_topic
from tests.support.kerberos import REALM, Kdc

pytestmark = [pytest.mark.kafka, pytest.mark.kerberos]

BROKER = "kafka/127.0.0.1"
#: A principal that is not in the brokers' keytab.
OTHER_BROKER = "other/127.0.0.1"
SESSION_MS = 2000
PROMPT_S = 10.0
LISTENERS = {"KRB": "SASL_PLAINTEXT", "SHORT": "SASL_PLAINTEXT", "SECURE": "SASL_SSL"}


#: Without 3.9.2: sessions end in both versions through the same version of SaslAuthenticate.
newest = pytest.mark.parametrize("kafka", ["4.4.0"], indirect=True)


@pytest.fixture(scope="module")
def realm():
    with Kdc() as kdc:
        kdc.add_principal(BROKER)
        kdc.add_principal("alice", "wonderland")
        kdc.add_principal("bob", "old")
        kdc.add_principal(OTHER_BROKER)
        yield kdc


@pytest.fixture(autouse=True)
def kdc(realm, monkeypatch):
    realm.set_environment(monkeypatch)
    yield realm
    realm.remove_tickets()


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture(scope="module", params=["4.4.0", "3.9.2"])
def kafka(request, realm, authority):
    jaas = (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
        f' keyTab="{realm.keytab(BROKER)}" principal="{BROKER}@{REALM}";'
    )
    properties = {
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.short.gssapi.connections.max.reauth.ms": str(SESSION_MS),
        **{f"listener.name.{name.lower()}.gssapi.sasl.jaas.config": jaas for name in LISTENERS},
        **authority.broker_properties(),
    }
    options = (f"-Djava.security.krb5.conf={realm.krb5_conf}",)
    with start_or_skip(
        request.param, properties=properties, listeners=LISTENERS, java_options=options
    ) as cluster:
        create_topic(cluster.bootstrap_servers, "t", 1)
        yield cluster


def settings(kafka, *, listener="KRB", **others):
    return {
        "bootstrap_servers": kafka.bootstrap(listener),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        **others,
    }


def test_records_are_delivered_with_a_ticket_and_with_a_keytab(kafka, kdc, authority, tmp_path):
    create_topic(kafka.bootstrap_servers, "delivered", 1)
    kdc.kinit("alice", "wonderland")
    with KafkaProducer(**settings(kafka)) as producer:
        producer.send("delivered", b"ticket").result(30)
    kdc.remove_tickets()
    secure = {"security_protocol": "SASL_SSL", "ssl_cafile": authority.write(tmp_path)}
    keytab = {"sasl_kerberos_keytab": kdc.keytab("alice"), "sasl_kerberos_principal": f"alice@{REALM}"}
    with KafkaProducer(**settings(kafka, listener="SECURE", **secure, **keytab)) as producer:
        producer.send("delivered", b"keytab").result(30)
    values = [each.value for each in read_topic(kafka.bootstrap_servers, "delivered")]
    assert values == [b"ticket", b"keytab"]


def test_a_java_clients_properties_work_unchanged(kafka, kdc, tmp_path):
    path = tmp_path / "client.properties"
    path.write_text(
        f"bootstrap.servers={kafka.bootstrap('KRB')}\n"
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n"
        "sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true \\\n"
        f'  storeKey=true keyTab="{kdc.keytab("alice")}" principal="alice@{REALM}";\n'
    )
    with KafkaProducer.from_config(path) as producer:
        producer.send("t", b"value").result(30)


def test_what_is_missing_reaches_every_call_promptly(kafka, kdc):
    stale = kdc.keytab("bob")
    kdc.change_key("bob")
    cases = [
        ({}, "there is no ticket: run kinit"),
        ({"sasl_kerberos_keytab": stale, "sasl_kerberos_principal": "bob"}, "not have the current key"),
        (
            {"sasl_kerberos_keytab": kdc.keytab("alice"), "sasl_kerberos_service_name": "nobody"},
            "nobody/127.0.0.1@.* check sasl_kerberos_service_name",
        ),
    ]
    before_s = time.monotonic()
    for changes, words in cases:
        with KafkaProducer(**settings(kafka, **changes)) as producer:
            with pytest.raises(AuthenticationError, match=words):
                producer.partitions_for("t")
            with pytest.raises(AuthenticationError, match=words):
                producer.send("t", b"value").result(30)
    assert time.monotonic() - before_s < PROMPT_S


def test_a_ticket_for_another_key_is_refused_by_the_broker(kafka, kdc):
    other = {"sasl_kerberos_keytab": kdc.keytab("alice"), "sasl_kerberos_service_name": "other"}
    with KafkaProducer(**settings(kafka, **other)) as producer, pytest.raises(AuthenticationError) as caught:
        producer.partitions_for("t")
    assert f"principal 'alice@{REALM}'" in str(caught.value)


def test_a_producer_recovers_when_there_is_a_ticket(kafka, kdc):
    with KafkaProducer(**settings(kafka, reconnect_backoff_max_ms=200)) as producer:
        with pytest.raises(AuthenticationError):
            producer.partitions_for("t")
        kdc.kinit("alice", "wonderland")
        deadline_s = time.monotonic() + 30
        while True:
            try:
                producer.send("t", b"value").result(30)
                return
            except AuthenticationError:
                assert time.monotonic() < deadline_s
                time.sleep(0.05)


@newest
def test_sessions_that_end_under_load_lose_repeat_and_reorder_nothing(kafka, kdc, caplog):
    create_topic(kafka.bootstrap_servers, "sessions", 1)
    caplog.set_level(logging.DEBUG, "kproducer.client")
    chosen = settings(kafka, listener="SHORT", linger_ms=1, sasl_kerberos_keytab=kdc.keytab("alice"))
    with KafkaProducer(**chosen) as producer:
        counts = send_numbers(producer, "sessions", 3 * SESSION_MS / 1000)
    check_numbers(kafka.bootstrap_servers, "sessions", counts)
    assert leader_authentications(caplog) >= 2

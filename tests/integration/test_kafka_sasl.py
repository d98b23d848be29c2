"""SASL on Apache Kafka: every mechanism, what is refused, and sessions that end under load."""

from __future__ import annotations

import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import KafkaError as PeerError
from confluent_kafka import Producer as PeerProducer

from kproducer import KafkaProducer
from kproducer.errors import AuthenticationError, KafkaError, KafkaTimeoutError, Outcome
from tests.support.certificates import Authority
from tests.support.kafka import sasl
from tests.support.kafka.fixtures import start_or_skip
from tests.support.kafka.reader import read_topic
from tests.support.kafka.sessions import check_numbers, leader_authentications, numbers, send_numbers
from tests.support.kafka.topics import create_topic

pytestmark = pytest.mark.kafka

#: Kafka takes passwords as they are: the no-break space and the ligature would change under SASLprep.
SCRAM_USER, SCRAM_PASSWORD = "ca=ro,l", "p\u00e4ss\u00a0wo\ufb01rd"
#: How soon an authentication failure has to reach every call; ``max_block_ms`` is 60 s.
PROMPT_S = 30.0
#: How long the load lasts during which sessions end; 0: as short as is useful.
SESSION_SECONDS = int(os.environ.get("KPRODUCER_SESSION_SECONDS", "0"))


#: Without 3.9.2: sessions end in both versions through the same version of SaslAuthenticate.
newest = pytest.mark.parametrize("kafka", ["4.4.0"], indirect=True)


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture(scope="module", params=["4.4.0", "3.9.2"])
def kafka(request, authority):
    properties = {**sasl.broker_properties(), **authority.broker_properties()}
    with start_or_skip(request.param, properties=properties, listeners=sasl.LISTENERS) as cluster:
        sasl.add_scram_user(cluster.bootstrap_servers, SCRAM_USER, SCRAM_PASSWORD)
        yield cluster


def settings(kafka, mechanism, *, listener="SASL", **others):
    chosen = {
        "bootstrap_servers": kafka.bootstrap(listener),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        chosen["sasl_oauth_token_provider"] = sasl.unsigned_token
    elif mechanism == "PLAIN":
        chosen.update(sasl_plain_username="bob", sasl_plain_password=sasl.USERS["bob"])
    else:
        chosen.update(sasl_plain_username=SCRAM_USER, sasl_plain_password=SCRAM_PASSWORD)
    return {**chosen, **others}


MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_records_are_delivered(kafka, mechanism):
    topic = f"sasl-{mechanism}"
    create_topic(kafka.bootstrap_servers, topic, 1)
    with KafkaProducer(**settings(kafka, mechanism)) as producer:
        producer.send(topic, b"value").result(30)
    assert [each.value for each in read_topic(kafka.bootstrap_servers, topic)] == [b"value"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_records_are_delivered_over_tls(kafka, mechanism, authority, tmp_path):
    topic = f"sasl-ssl-{mechanism}"
    create_topic(kafka.bootstrap_servers, topic, 1)
    secure = {"security_protocol": "SASL_SSL", "ssl_cafile": authority.write(tmp_path)}
    chosen = settings(kafka, mechanism, listener="SECURE", **secure)
    with KafkaProducer(**chosen) as producer:
        producer.send(topic, b"value").result(30)
    assert [each.value for each in read_topic(kafka.bootstrap_servers, topic)] == [b"value"]
    wrong = {"sasl_oauth_token_provider": lambda: (sasl.unsigned_token(exp=1)[0], time.time() + 60)}
    if mechanism != "OAUTHBEARER":
        wrong = {"sasl_plain_password": "wrong"}
    with KafkaProducer(**{**chosen, **wrong}) as producer, pytest.raises(AuthenticationError):
        producer.partitions_for(topic)


def test_a_java_properties_file_works_unchanged(kafka, tmp_path):
    create_topic(kafka.bootstrap_servers, "properties", 1)
    path = tmp_path / "client.properties"
    jaas = (
        "kafkashaded.org.apache.kafka.common.security.scram.ScramLoginModule required"
        f" username={sasl.quoted(SCRAM_USER)} password={sasl.quoted(SCRAM_PASSWORD)};"
    )
    path.write_text(
        f"bootstrap.servers={kafka.bootstrap('SASL')}\n"
        "# how to authenticate\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        f"sasl.jaas.config={jaas}\nacks=all\n",
        encoding="utf-8",
    )
    with KafkaProducer.from_config(path) as producer:
        producer.send("properties", b"value").result(30)


REFUSED = {
    "wrong password": ("PLAIN", {"sasl_plain_password": "wrong"}, "Invalid username or password"),
    "unknown user": ("PLAIN", {"sasl_plain_username": "nobody"}, "Invalid username or password"),
    "wrong password, SCRAM": ("SCRAM-SHA-256", {"sasl_plain_password": "wrong"}, "invalid credentials"),
    "unknown user, SCRAM": ("SCRAM-SHA-512", {"sasl_plain_username": "nobody"}, "invalid credentials"),
    "expired token": (
        "OAUTHBEARER",
        # The provider says that the token is valid, but the claims in it say otherwise.
        {"sasl_oauth_token_provider": lambda: (sasl.unsigned_token(exp=1)[0], time.time() + 60)},
        "invalid_token",
    ),
    "no token": ("OAUTHBEARER", {"sasl_oauth_token_provider": lambda: 1 / 0}, "ZeroDivisionError"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_reaches_every_call_promptly(kafka, case, caplog):
    mechanism, changes, words = REFUSED[case]
    chosen = settings(kafka, mechanism, transactional_id="refused", **changes)
    before_s = time.monotonic()
    with KafkaProducer(**chosen) as producer, pytest.raises(AuthenticationError, match=words) as caught:
        producer.init_transactions()
    del chosen["transactional_id"]
    with KafkaProducer(**chosen) as producer:
        with pytest.raises(AuthenticationError, match=words):
            producer.partitions_for("any")
        with pytest.raises(AuthenticationError, match=words):
            producer.send("any", b"value").result(30)
    assert time.monotonic() - before_s < PROMPT_S
    assert kafka.bootstrap("SASL") in str(caught.value)
    for secret in (SCRAM_PASSWORD, sasl.USERS["bob"], "wrong"):
        if mechanism != "OAUTHBEARER":
            assert secret not in caplog.text.replace("wrong password", "")


def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are(kafka):
    wrong_listener = settings(kafka, "PLAIN", bootstrap_servers=kafka.bootstrap_servers)
    with (
        KafkaProducer(**wrong_listener) as producer,
        pytest.raises(AuthenticationError, match="does not expect SASL on this connection"),
    ):
        producer.partitions_for("any")


@pytest.mark.parametrize(
    ("protocol", "listener", "remedy", "error"),
    [
        # A broker that starts closes the connection without a reason as well.
        ("PLAINTEXT", "SASL", "SASL_PLAINTEXT", KafkaTimeoutError),
        ("PLAINTEXT", "SECURE", "SSL or SASL_SSL", AuthenticationError),
        ("SSL", "SECURE", "SASL_SSL", KafkaTimeoutError),
        ("SASL_PLAINTEXT", "SECURE", "SSL or SASL_SSL", AuthenticationError),
    ],
)
def test_a_wrong_security_protocol_is_answered_with_the_right_one(
    kafka, protocol, listener, remedy, error, authority, tmp_path
):
    chosen = settings(kafka, "PLAIN", listener=listener, security_protocol=protocol)
    if not protocol.startswith("SASL_"):
        chosen = {name: value for name, value in chosen.items() if not name.startswith("sasl_")}
    if protocol == "SSL":
        chosen["ssl_cafile"] = authority.write(tmp_path)
    deadline_s = time.monotonic() + PROMPT_S
    remedy = f"set security_protocol to {remedy}"
    with KafkaProducer(**chosen, max_block_ms=1000) as producer:
        told = ""
        while remedy not in told and time.monotonic() < deadline_s:
            with pytest.raises(KafkaError) as caught:
                producer.send("any", b"value")
            told = str(caught.value)
    assert remedy in told
    assert isinstance(caught.value, error)


PEER_NAMES = {
    "bootstrap_servers": "bootstrap.servers",
    "security_protocol": "security.protocol",
    "sasl_mechanism": "sasl.mechanism",
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
}


class Peer:
    """confluent-kafka with the same settings; ``errors`` has the codes of its errors."""

    def __init__(self, chosen):
        self.errors = []
        self.failures = []
        same = {PEER_NAMES[name]: value for name, value in chosen.items() if name in PEER_NAMES}
        on_error = {"error_cb": lambda error: self.errors.append(error.code()), "log_level": 0}
        self.producer = PeerProducer({**same, **on_error, "enable.idempotence": True})

    def send(self, topic, value):
        self.producer.produce(topic, value, partition=0, on_delivery=self._delivered)
        self.producer.poll(0)

    def _delivered(self, error, message):
        if error is not None:
            self.failures.append(error)


@newest
def test_a_deleted_user_is_refused_at_the_end_of_the_session_and_welcome_again_later(kafka):
    create_topic(kafka.bootstrap_servers, "deleted-user", 1)
    create_topic(kafka.bootstrap_servers, "peer-deleted-user", 1)
    sasl.add_scram_user(kafka.bootstrap_servers, "dora", "first")
    chosen = settings(
        kafka, "SCRAM-SHA-256", listener="SHORT", sasl_plain_username="dora", sasl_plain_password="first"
    )
    written = []
    with KafkaProducer(**chosen, linger_ms=0) as producer:
        written.append(producer.send("deleted-user", b"before").result(30))
        peer = Peer(chosen)
        peer.send("peer-deleted-user", b"before")
        peer.producer.flush(30)
        sasl.delete_scram_user(kafka.bootstrap_servers, "dora")
        error = None
        deadline_s = time.monotonic() + sasl.SESSION_MS / 1000 + PROMPT_S
        while error is None and time.monotonic() < deadline_s:
            time.sleep(0.05)
            try:
                error = producer.send("deleted-user", b"during").exception(30)
            except AuthenticationError as refusal:
                error = refusal.with_outcome(Outcome.NOT_SENT)
        assert isinstance(error, AuthenticationError)
        assert error.outcome is Outcome.NOT_SENT
        while PeerError._AUTHENTICATION not in peer.errors:
            assert time.monotonic() < deadline_s + PROMPT_S
            peer.send("peer-deleted-user", b"during")
            peer.producer.poll(0.1)
        sasl.add_scram_user(kafka.bootstrap_servers, "dora", "first")
        deadline_s = time.monotonic() + 30
        while True:
            try:
                written.append(producer.send("deleted-user", b"after").result(30))
                break
            except AuthenticationError:
                assert time.monotonic() < deadline_s
                time.sleep(0.2)


@newest
@pytest.mark.parametrize(
    ("mechanism", "seconds"),
    [("SCRAM-SHA-512", SESSION_SECONDS or 12), ("OAUTHBEARER", SESSION_SECONDS or 12)],
)
def test_sessions_that_end_under_load_lose_repeat_and_reorder_nothing(kafka, mechanism, seconds, caplog):
    topic = f"session-{mechanism}"
    create_topic(kafka.bootstrap_servers, topic, 2)
    create_topic(kafka.bootstrap_servers, f"peer-{topic}", 1)
    caplog.set_level(logging.DEBUG, "kproducer.client")
    # Tokens outlive the session by little, so that each of them needs to be a new one.
    provider = {"sasl_oauth_token_provider": lambda: sasl.unsigned_token(lifetime_s=6)}
    others = provider if mechanism == "OAUTHBEARER" else {}
    chosen = settings(kafka, mechanism, listener="SHORT", linger_ms=1, batch_size=2000, **others)
    peer = Peer(chosen) if mechanism != "OAUTHBEARER" else None
    with KafkaProducer(**chosen) as producer, ThreadPoolExecutor() as threads:
        ours = threads.submit(send_numbers, producer, topic, seconds, partitions=2)
        if peer is not None:
            theirs = numbers(lambda value: peer.send(f"peer-{topic}", value), seconds)
        counts = ours.result()
    if peer is not None:
        assert peer.producer.flush(30) == 0
        assert peer.failures == []
        assert PeerError._AUTHENTICATION not in peer.errors
        check_numbers(kafka.bootstrap_servers, f"peer-{topic}", [len(theirs)])
    check_numbers(kafka.bootstrap_servers, topic, counts)
    # On a busy machine a session may end before it is renewed; then the producer connects again.
    assert leader_authentications(caplog) >= 2


@newest
def test_a_session_that_ends_does_not_lose_records_without_acknowledgements(kafka):
    create_topic(kafka.bootstrap_servers, "acks-0", 1)
    chosen = settings(kafka, "PLAIN", listener="SHORT", acks=0, linger_ms=0)
    with KafkaProducer(**chosen) as producer:
        counts = send_numbers(producer, "acks-0", 12)
    check_numbers(kafka.bootstrap_servers, "acks-0", counts)


@newest
def test_an_idle_connection_is_authenticated_when_it_is_needed_again(kafka):
    create_topic(kafka.bootstrap_servers, "idle", 1)
    with KafkaProducer(**settings(kafka, "PLAIN", listener="SHORT", linger_ms=0)) as producer:
        producer.send("idle", b"0").result(30)
        time.sleep(2.5 * sasl.SESSION_MS / 1000)
        producer.send("idle", b"1").result(30)
    assert [each.value for each in read_topic(kafka.bootstrap_servers, "idle")] == [b"0", b"1"]

"""Which brokers and which clients are accepted: kproducer and confluent-kafka agree in every case.

One broker, whose listeners have certificates of all kinds. Each case is a table of settings; both clients get
them, and ask for the metadata of a topic.
"""

from __future__ import annotations

import datetime
import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import pytest
from confluent_kafka import KafkaError as PeerError
from confluent_kafka import KafkaException
from confluent_kafka import Producer as PeerProducer
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from kproducer import AuthenticationError, KafkaProducer
from tests.support.certificates import Authority, Certificate
from tests.support.kafka import sasl
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.fixtures import start_or_skip
from tests.support.kafka.topics import create_topic

pytestmark = pytest.mark.kafka

DAY = datetime.timedelta(days=1)
USER, PASSWORD, WRONG = "eve", "hunter2-of-eve", "hunter3-of-eve"
#: The broker answers a refused authentication that much later.
REFUSAL_DELAY_S = 0.5
#: How soon a refusal has to be known; ``max_block_ms`` is 60 s.
PROMPT_S = 10.0

#: Listener to security protocol; the listeners of SSL have a certificate each.
LISTENERS = {
    "GOOD": "SSL",
    "ADDRESS": "SSL",
    "OTHERHOST": "SSL",
    "EXPIRED": "SSL",
    "FUTURE": "SSL",
    "STRANGER": "SSL",
    "OLDTLS": "SSL",
    "MTLS": "SSL",
    "SASL": "SASL_SSL",
    "ONLYPLAIN": "SASL_SSL",
}

#: kproducer's settings to those of confluent-kafka.
PEER_NAMES = {
    "security_protocol": "security.protocol",
    "ssl_cafile": "ssl.ca.location",
    "ssl_truststore_certificates": "ssl.ca.pem",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password",
    "ssl_crlfile": "ssl.crl.location",
    "ssl_cipher_suites": "ssl.cipher.suites",
    "sasl_mechanism": "sasl.mechanism",
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
}


@attrs.frozen
class World:
    """The cluster, and files with certificates. ``good`` and the others are settings."""

    cluster: KafkaCluster
    folder: Path
    good: dict[str, Any]
    client: dict[str, Any]
    strange_client: dict[str, Any]
    expired_client: dict[str, Any]
    other_ca: str
    crl: str
    crl_of_nobody: str

    def servers(self, listener: str, host: str) -> str:
        return self.cluster.bootstrap(listener).replace("127.0.0.1", host)


def _listener_properties(listener: str, certificate: Certificate) -> dict[str, str]:
    start = f"listener.name.{listener.lower()}.ssl.keystore"
    return {
        f"{start}.type": "PEM",
        f"{start}.certificate.chain": certificate.chain_pem,
        f"{start}.key": certificate.key_pem(),
    }


def _identity(certificate: Certificate, folder: Path, name: str) -> dict[str, Any]:
    path, key = certificate.write(folder, name)
    return {"ssl_certfile": path, "ssl_keyfile": key}


def _revoked(authority: Authority, *revoked: Certificate) -> bytes:
    """A list of revoked certificates, as PEM."""
    now = datetime.datetime.now(datetime.timezone.utc)
    issuer = x509.load_pem_x509_certificate(authority.pem.encode())
    builder = x509.CertificateRevocationListBuilder().issuer_name(issuer.subject)
    builder = builder.last_update(now - DAY).next_update(now + DAY)
    for each in revoked:
        certificate = x509.load_pem_x509_certificate(each.chain_pem.encode())
        entry = x509.RevokedCertificateBuilder().serial_number(certificate.serial_number)
        builder = builder.add_revoked_certificate(entry.revocation_date(now - DAY).build())
    key: Any = serialization.load_pem_private_key(authority.ca.private_key_pem.bytes(), None)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("acceptance")
    authority, other = Authority(), Authority()
    now = datetime.datetime.now(datetime.timezone.utc)
    good = authority.issue("localhost")
    certificates = {
        "GOOD": good,
        "ADDRESS": authority.issue("127.0.0.1"),
        "OTHERHOST": authority.issue("broker.example.com"),
        "EXPIRED": authority.issue("localhost", not_before=now - 2 * DAY, not_after=now - DAY),
        "FUTURE": authority.issue("localhost", not_before=now + DAY, not_after=now + 2 * DAY),
        "STRANGER": other.issue("localhost"),
    }
    properties = {
        **sasl.broker_properties(("SASL", "ONLYPLAIN")),
        **authority.broker_properties(good),
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.oldtls.ssl.enabled.protocols": "TLSv1.2",
        "listener.name.onlyplain.sasl.enabled.mechanisms": "PLAIN",
        "connection.failed.authentication.delay.ms": str(round(1000 * REFUSAL_DELAY_S)),
    }
    for listener, certificate in certificates.items():
        properties |= _listener_properties(listener, certificate)
    crl, crl_of_nobody = folder / "crl.pem", folder / "nobody.pem"
    crl.write_bytes(_revoked(authority, good))
    crl_of_nobody.write_bytes(_revoked(authority))
    expired = authority.issue("client", not_before=now - 2 * DAY, not_after=now - DAY)
    with start_or_skip("4.4.0", properties=properties, listeners=LISTENERS) as cluster:
        sasl.add_scram_user(cluster.bootstrap_servers, USER, PASSWORD)
        create_topic(cluster.bootstrap_servers, "t", 1)
        yield World(
            cluster,
            folder,
            good={"ssl_cafile": authority.write(folder)},
            client=_identity(authority.issue("client"), folder, "client"),
            strange_client=_identity(other.issue("client"), folder, "strange"),
            expired_client=_identity(expired, folder, "expired"),
            other_ca=other.write(folder, "other.pem"),
            crl=str(crl),
            crl_of_nobody=str(crl_of_nobody),
        )


@attrs.frozen
class Case:
    """Settings, and what has to become of them.

    Attributes:
        names: of attributes of ``World``, whose settings are added.
        words: a part of kproducer's error; empty: accepted.
    """

    listener: str
    words: str = ""
    names: tuple[str, ...] = ("good",)
    host: str = "localhost"
    settings: dict[str, Any] = attrs.field(factory=dict)
    delay_s: float = 0.0

    def of(self, world: World) -> dict[str, Any]:
        made = {"security_protocol": LISTENERS.get(self.listener, "PLAINTEXT")}
        for name in self.names:
            made |= getattr(world, name)
        return made | {
            name: getattr(world, value[1:]) if isinstance(value, str) and value.startswith("@") else value
            for name, value in self.settings.items()
        }


def _login(mechanism: str, user: str = USER, password: str = PASSWORD) -> dict[str, Any]:
    return {"sasl_mechanism": mechanism, "sasl_plain_username": user, "sasl_plain_password": password}


_ALICE = {"user": "alice", "password": sasl.USERS["alice"]}
_PASSWORD_REFUSED = "SASL_AUTHENTICATION_FAILED"
CASES = {
    "a good authority, the name is in the certificate": Case("GOOD"),
    "the address is in the certificate": Case("ADDRESS", host="127.0.0.1"),
    "a certificate with a name only, for an address": Case("GOOD", "not for", host="127.0.0.1"),
    "another host": Case("OTHERHOST", "it is valid for broker.example.com, not for 'localhost'"),
    "another host, not verified": Case("OTHERHOST", settings={"ssl_check_hostname": False}),
    "another authority": Case("STRANGER", "self-signed certificate in certificate chain|unable to get"),
    "its own authority": Case("STRANGER", names=(), settings={"ssl_cafile": "@other_ca"}),
    "no authority": Case("GOOD", "trusted are", names=()),
    "expired": Case("EXPIRED", "expired"),
    "not yet valid": Case("FUTURE", "not yet valid"),
    "revoked": Case("GOOD", "revoked", settings={"ssl_crlfile": "@crl"}),
    "another one is revoked": Case("GOOD", settings={"ssl_crlfile": "@crl_of_nobody"}),
    "no common cipher suite": Case(
        "OLDTLS", "handshake failure", settings={"ssl_cipher_suites": "ECDHE-RSA-AES128-GCM-SHA256"}
    ),
    "a common cipher suite": Case("OLDTLS", settings={"ssl_cipher_suites": "ECDHE-ECDSA-AES128-GCM-SHA256"}),
    "a client certificate": Case("MTLS", names=("good", "client")),
    "no client certificate": Case("MTLS", "alert"),
    "a client certificate of another authority": Case("MTLS", "alert", names=("good", "strange_client")),
    "an expired client certificate": Case("MTLS", "alert", names=("good", "expired_client")),
    "PLAIN": Case("SASL", settings=_login("PLAIN", **_ALICE)),
    "PLAIN, wrong password": Case(
        "SASL", _PASSWORD_REFUSED, settings=_login("PLAIN", "alice", WRONG), delay_s=REFUSAL_DELAY_S
    ),
    "PLAIN, unknown user": Case(
        "SASL", _PASSWORD_REFUSED, settings=_login("PLAIN", "nobody", WRONG), delay_s=REFUSAL_DELAY_S
    ),
    "SCRAM-SHA-256": Case("SASL", settings=_login("SCRAM-SHA-256")),
    "SCRAM-SHA-512": Case("SASL", settings=_login("SCRAM-SHA-512")),
    "SCRAM, wrong password": Case(
        "SASL", _PASSWORD_REFUSED, settings=_login("SCRAM-SHA-512", USER, WRONG), delay_s=REFUSAL_DELAY_S
    ),
    "SCRAM, unknown user": Case("SASL", _PASSWORD_REFUSED, settings=_login("SCRAM-SHA-256", "nobody", WRONG)),
    "a mechanism that is not enabled": Case("ONLYPLAIN", "PLAIN", settings=_login("SCRAM-SHA-512")),
    "the only mechanism that is enabled": Case("ONLYPLAIN", settings=_login("PLAIN", **_ALICE)),
    "the password, but another authority": Case(
        "SASL", "certificate", names=(), settings={**_login("PLAIN", **_ALICE), "ssl_cafile": "@other_ca"}
    ),
}


def ask_kproducer(world: World, case: Case) -> str:
    """The words of the refusal; empty: accepted."""
    settings = case.of(world)
    with KafkaProducer(world.servers(case.listener, case.host), **settings) as producer:
        begin_s = time.monotonic()
        try:
            producer.partitions_for("t")
        except AuthenticationError as error:
            if case.host == "localhost" and "certificate of '127.0.0.1'" in str(error):
                # The bootstrap server was accepted. It was asked for metadata before the topic was known, and
                # the certificate need not be valid for the advertised address, which is asked for the topic.
                return ""
            assert case.delay_s <= time.monotonic() - begin_s < PROMPT_S + case.delay_s
            return str(error)
        return ""


def ask_confluent(world: World, case: Case) -> str:
    """As ``ask_kproducer``, with confluent-kafka."""
    refusals: list[str] = []

    def on_error(error: PeerError) -> None:
        # With TLS 1.3 a refused client certificate is a lost connection for librdkafka. After the metadata it
        # connects to the advertised address, for which the certificate need not be valid.
        is_refusal = error.code() in (PeerError._SSL, PeerError._AUTHENTICATION) or "alert" in str(error)
        if is_refusal and "/bootstrap" in str(error):
            refusals.append(str(error))

    settings = {PEER_NAMES[name]: value for name, value in case.of(world).items() if name in PEER_NAMES}
    if not case.of(world).get("ssl_check_hostname", True):
        settings["ssl.endpoint.identification.algorithm"] = "none"
    producer = PeerProducer(
        {
            **settings,
            "bootstrap.servers": world.servers(case.listener, case.host),
            "error_cb": on_error,
            "log_level": 0,
        }
    )
    deadline_s = time.monotonic() + PROMPT_S
    while not refusals and time.monotonic() < deadline_s:
        try:
            producer.list_topics("t", timeout=0.3)
            return ""
        except KafkaException:
            producer.poll(0)
    assert refusals, "neither accepted nor refused"
    return refusals[0]


@pytest.mark.parametrize("name", CASES)
def test_both_clients_are_accepted_or_refused(
    world: World, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "kproducer")
    case = CASES[name]
    with ThreadPoolExecutor(1) as pool:
        peer = pool.submit(ask_confluent, world, case)
        ours = ask_kproducer(world, case)
    assert any(words in ours for words in case.words.split("|")), ours
    assert bool(ours) == bool(case.words), ours
    assert bool(peer.result()) == bool(ours), peer.result()
    for secret in (PASSWORD, WRONG, sasl.USERS["alice"]):
        assert secret not in ours + caplog.text

"""The sink on a cluster with TLS and SASL: every security option of Spark's own sink works and shows nowhere.

One broker and one job (``secured_job.py``), whose session makes all writes: batch and stream, at least once
and exactly once, classic and Spark Connect, accepted and refused, with this sink and with Spark's own one.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from benchmarks.spark_connector import resolve_connector
from kproducer import KafkaProducer
from kproducer.spark.partition_writer import write_partition
from kproducer.spark.producer_cache import ProducerCache
from kproducer.spark.write_columns import WriteColumns
from kproducer.spark.write_options import WriteOptions
from tests.spark.fake_producer import close_idle
from tests.support.certificates import Authority, Certificate
from tests.support.identity_provider import (
    AUDIENCE,
    CLIENT_ID,
    CLIENT_SECRET,
    ISSUER,
    IdentityProvider,
)
from tests.support.kafka import sasl
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.fixtures import start_or_skip
from tests.support.kafka.reader import read_topic
from tests.support.kafka.topics import create_topic
from tests.support.proxies import LoopbackProxy
from tests.support.requirements import REQUIRE_KAFKA, skip_or_fail

#: On an idle machine the job takes a minute.
pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

JOB = Path(__file__).with_name("secured_job.py")
LISTENERS = {
    "SECURE": "SASL_SSL",
    "MTLS": "SSL",
    "SASL": "SASL_PLAINTEXT",
    "OAUTH": "SASL_PLAINTEXT",
}
_JOB_TIMEOUT_S = 500
ROWS = [str(number) for number in range(20)]

#: The user of SCRAM, and texts that must be found nowhere.
USER, PASSWORD, WRONG_PASSWORD = "eve", "hunter2-of-eve", "hunter3-of-eve"
KEY_PASSWORD, STORE_PASSWORD, TRUST_PASSWORD = "keypass-7391", "storepass-4628", "trustpass-5517"
PROXY_PASSWORD, ENDPOINT_KEY = "proxypass-2286", "endpointkey-9054"

_SECURITY = "org.apache.kafka.common.security"
_OAUTH = f"{_SECURITY}.oauthbearer"
_SCRAM = f"{_SECURITY}.scram.ScramLoginModule required"
ONCE = {"delivery": "exactly-once"}
UNCHECKED = {"checkTimeoutMs": "0"}


class Options:
    """The options of writes to a cluster, in every form that Spark's own sink accepts."""

    def __init__(
        self,
        cluster: KafkaCluster,
        authority: Authority,
        provider: IdentityProvider,
        proxy: LoopbackProxy,
        folder: Path,
    ) -> None:
        self.provider = provider
        self.through_proxy = {"kafka.proxy.url": proxy.url("alice", PROXY_PASSWORD)}
        self.servers = cluster.bootstrap_servers
        self._cluster = cluster
        client = authority.issue("client")
        pem_store = folder / "client.pem"
        pem_store.write_text(client.key_pem(KEY_PASSWORD) + client.chain_pem)
        ca = x509.load_pem_x509_certificate(authority.pem.encode())
        chain = x509.load_pem_x509_certificates(client.chain_pem.encode())
        key: Any = serialization.load_pem_private_key(client.key_pem().encode(), None)
        trust_store, key_store = folder / "trust.p12", folder / "client.p12"
        trust_store.write_bytes(
            pkcs12.serialize_java_truststore(
                [pkcs12.PKCS12Certificate(ca, b"ca")],
                serialization.BestAvailableEncryption(TRUST_PASSWORD.encode()),
            )
        )
        key_store.write_bytes(
            pkcs12.serialize_key_and_certificates(
                b"client",
                key,
                chain[0],
                chain[1:],
                serialization.BestAvailableEncryption(STORE_PASSWORD.encode()),
            )
        )
        self.trust_file = {
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": authority.write(folder),
        }
        self.trust_text = {
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.certificates": authority.pem,
        }
        self.trust_pkcs12 = {
            "kafka.ssl.truststore.type": "PKCS12",
            "kafka.ssl.truststore.location": str(trust_store),
            "kafka.ssl.truststore.password": TRUST_PASSWORD,
        }
        self.pem_file = {
            "kafka.ssl.keystore.type": "PEM",
            "kafka.ssl.keystore.location": str(pem_store),
            "kafka.ssl.key.password": KEY_PASSWORD,
        }
        self.pem_text = pem_text(client)
        self.locked_pem_text = pem_text(client, KEY_PASSWORD) | {"kafka.ssl.key.password": KEY_PASSWORD}
        # The plans of Spark's own sink show the key.
        self.shown_pem_text = pem_text(authority.issue("another-client"))
        self.pkcs12 = {
            "kafka.ssl.keystore.type": "PKCS12",
            "kafka.ssl.keystore.location": str(key_store),
            "kafka.ssl.keystore.password": STORE_PASSWORD,
            "kafka.ssl.key.password": STORE_PASSWORD,
        }

    def mutual_tls(self, *parts: dict[str, str]) -> dict[str, str]:
        return self._to("MTLS", "SSL", *parts)

    def scram(self, password: str = PASSWORD, prefix: str = "") -> dict[str, str]:
        jaas = f'{prefix}{_SCRAM} username="{USER}" password="{password}";'
        return self._to("SECURE", "SASL_SSL", self.trust_file, sasl_options("SCRAM-SHA-512", jaas))

    def plain(self, password: str = sasl.USERS["alice"]) -> dict[str, str]:
        jaas = f'{_SECURITY}.plain.PlainLoginModule required username="alice" password="{password}";'
        return self._to("SECURE", "SASL_SSL", self.trust_text, sasl_options("PLAIN", jaas))

    def without_tls(self) -> dict[str, str]:
        jaas = f'{_SCRAM} username="{USER}" password="{PASSWORD}";'
        return self._to("SASL", "SASL_PLAINTEXT", sasl_options("SCRAM-SHA-256", jaas))

    def oauth(self, secret: str = CLIENT_SECRET) -> dict[str, str]:
        """With client credentials, as hosted Spark writes them."""
        shaded = f"kafkashaded.{_OAUTH}"
        client = f"clientId={sasl.quoted(CLIENT_ID)} clientSecret={sasl.quoted(secret)}"
        jaas = f"{shaded}.OAuthBearerLoginModule required {client};"
        endpoint = {
            "kafka.sasl.login.callback.handler.class": f"{shaded}.secured.OAuthBearerLoginCallbackHandler",
            "kafka.sasl.oauthbearer.token.endpoint.url": f"{self.provider.token_url}?key={ENDPOINT_KEY}",
        }
        return self._to("OAUTH", "SASL_PLAINTEXT", endpoint, sasl_options("OAUTHBEARER", jaas))

    def managed_identity(self) -> dict[str, str]:
        """With tokens of Azure's metadata service."""
        options = {
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.oauthbearer.method": "oidc",
            "kafka.sasl.oauthbearer.metadata.authentication.type": "azure_imds",
            "kafka.sasl.oauthbearer.config": "query=api-version=2018-02-01&resource=api://kafka",
            "kafka.sasl.oauthbearer.token.endpoint.url": self.provider.imds_url,
        }
        return self._to("OAUTH", "SASL_PLAINTEXT", options)

    def oauth_file(self, path: Path) -> dict[str, str]:
        """With a token in a file."""
        options = {
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.oauthbearer.token.endpoint.url": path.as_uri(),
        }
        return self._to("OAUTH", "SASL_PLAINTEXT", options)

    def _to(self, listener: str, protocol: str, *parts: dict[str, str]) -> dict[str, str]:
        servers = self._cluster.bootstrap(listener)
        made = {"kafka.bootstrap.servers": servers, "kafka.security.protocol": protocol}
        for part in parts:
            made |= part
        return made


def pem_text(client: Certificate, password: str | None = None) -> dict[str, str]:
    return {
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": client.chain_pem,
        "kafka.ssl.keystore.key": client.key_pem(password),
    }


def sasl_options(mechanism: str, jaas: str) -> dict[str, str]:
    return {"kafka.sasl.mechanism": mechanism, "kafka.sasl.jaas.config": jaas}


def accepted(options: Options) -> dict[str, dict[str, str]]:
    """Options of writes that succeed. The first word of a name says what kind of write it is."""
    shaded = options.scram(prefix="kafkashaded.")
    return {
        "batch-scram": shaded,
        "batch-scram-once": {**shaded, **ONCE, "writeId": "w"},
        "stream-scram": shaded,
        "stream-scram-once": {**shaded, **ONCE},
        "connect-batch-plain": options.plain(),
        "connect-batch-plain-once": {**options.plain(), **ONCE},
        "connect-stream-plain": options.plain(),
        "connect-stream-plain-once": {**options.plain(), **ONCE},
        "batch-scram-unshaded": options.scram(),
        "batch-oauth": options.oauth(),
        "batch-managed-identity": options.managed_identity(),
        "batch-proxy": {**options.scram(), **options.through_proxy},
        "stream-proxy": {**options.scram(), **options.through_proxy},
        "connect-batch-proxy": {**options.scram(), **options.through_proxy},
        "batch-sasl-plaintext": options.without_tls(),
        "batch-pem-text": options.mutual_tls(options.trust_text, options.pem_text),
        "batch-shown-pem-text": options.mutual_tls(options.trust_text, options.shown_pem_text),
        "connect-batch-pem-text": options.mutual_tls(options.trust_text, options.pem_text),
        "batch-locked-pem-text": options.mutual_tls(options.trust_text, options.locked_pem_text),
        "batch-pem-files": options.mutual_tls(options.trust_file, options.pem_file),
        "batch-pkcs12": options.mutual_tls(
            options.trust_pkcs12,
            options.pkcs12,
            {
                "kafka.ssl.endpoint.identification.algorithm": "",
                "kafka.ssl.enabled.protocols": "TLSv1.2",
                "kafka.ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
                "kafka.ssl.protocol": "TLSv1.2",
                "kafka.ssl.provider": "SunJSSE",
                "kafka.ssl.keymanager.algorithm": "SunX509",
                "kafka.ssl.trustmanager.algorithm": "PKIX",
                "kafka.ssl.secure.random.implementation": "SHA1PRNG",
            },
        ),
    }


def refused(options: Options) -> dict[str, tuple[dict[str, str], str]]:
    """Options of writes that fail, and what the error says."""
    wrong = options.scram(WRONG_PASSWORD)
    # After the broker's SASL_AUTHENTICATION_FAILED.
    words = "check 'kafka.sasl.jaas.config', 'kafka.sasl.mechanism'"
    broken_jaas = options.scram()
    broken_jaas["kafka.sasl.jaas.config"] = f'{_SCRAM} username="{USER}" password="{PASSWORD}" oops;'
    wrong_store = options.mutual_tls(options.trust_pkcs12, options.pkcs12)
    wrong_store["kafka.ssl.keystore.password"] = WRONG_PASSWORD
    return {
        "batch-wrong-password": (wrong, words),
        "batch-wrong-password-in-tasks": ({**wrong, **UNCHECKED}, words),
        "batch-wrong-password-once": ({**wrong, **ONCE, **UNCHECKED}, words),
        "stream-wrong-password-in-tasks": ({**wrong, **UNCHECKED}, words),
        "connect-batch-wrong-password": (options.plain(WRONG_PASSWORD), words),
        "connect-batch-wrong-password-in-tasks": ({**options.plain(WRONG_PASSWORD), **UNCHECKED}, words),
        "batch-wrong-client-secret": (options.oauth(WRONG_PASSWORD), "Unknown client or secret"),
        "batch-broken-jaas": (broken_jaas, "kafka.sasl.jaas.config"),
        "batch-wrong-store-password": (wrong_store, "'kafka.ssl.keystore.password'"),
        "batch-wrong-store-password-in-tasks": (
            {**wrong_store, **UNCHECKED},
            "'kafka.ssl.keystore.password'",
        ),
        "batch-wrong-store-password-once": (
            {**wrong_store, **ONCE, **UNCHECKED},
            "'kafka.ssl.keystore.password'",
        ),
        "batch-no-client-certificate": (
            {**options.mutual_tls(options.trust_file), **UNCHECKED},
            "kafka.ssl.keystore.location",
        ),
    }


def shared(options: Options) -> dict[str, dict[str, str]]:
    """Options for this sink and for Spark's own one."""
    return {
        "batch-scram-unshaded": options.scram(),
        "batch-shown-pem-text": accepted(options)["batch-shown-pem-text"],
        "batch-pkcs12": accepted(options)["batch-pkcs12"],
        "batch-wrong-password": options.scram(WRONG_PASSWORD),
    }


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider() as started:
        yield started


@pytest.fixture(scope="module")
def secured(provider: IdentityProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Options]:
    authority = Authority()
    oauth = "listener.name.oauth.oauthbearer"
    properties = {
        **sasl.broker_properties(tuple(LISTENERS)),
        **authority.broker_properties(),
        "listener.name.mtls.ssl.client.auth": "required",
        # Tokens of the identity provider; a session lives as long as its token.
        f"{oauth}.sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
        f"{oauth}.sasl.server.callback.handler.class": f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
        f"{oauth}.connections.max.reauth.ms": "3600000",
        "sasl.oauthbearer.jwks.endpoint.url": provider.jwks_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={provider.jwks_url}"
    with (
        start_or_skip("4.4.0", properties=properties, listeners=LISTENERS, java_options=[allowed]) as cluster,
        LoopbackProxy("socks5", credentials=("alice", PROXY_PASSWORD)) as proxy,
    ):
        sasl.add_scram_user(cluster.bootstrap_servers, USER, PASSWORD)
        yield Options(cluster, authority, provider, proxy, tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize("from_file", [False, True])
def test_tokens_are_renewed_in_a_worker_that_keeps_its_producer(
    secured: Options, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, from_file: bool
) -> None:
    """Tasks follow each other for longer than two tokens live, as the micro-batches of a query do."""
    provider, topic = secured.provider, f"renewed-{from_file}"
    create_topic(secured.servers, topic, 1)
    monkeypatch.setattr(provider, "lifetime_s", 3.0)
    path = tmp_path / "token"
    path.write_text(provider.new_token())
    given = secured.oauth_file(path) if from_file else secured.oauth()
    options = WriteOptions.parse({**given, "topic": topic})
    made: list[KafkaProducer] = []

    def make(settings: dict[str, str]) -> KafkaProducer:
        made.append(KafkaProducer.from_config(settings))
        return made[-1]

    cache = ProducerCache(make)
    rows = 0
    end_s = time.monotonic() + 2.5 * provider.lifetime_s
    while time.monotonic() < end_s:
        if from_file:
            path.with_suffix(".new").write_text(provider.new_token())
            path.with_suffix(".new").rename(path)
        batch = pa.RecordBatch.from_arrays([pa.array([str(rows)])], names=["value"])
        message = write_partition(iter([batch]), WriteColumns(("value",), topic), options, cache)
        # Spark sends it to the driver.
        assert CLIENT_SECRET[:6].encode() not in pickle.dumps(message)
        rows += 1
        time.sleep(0.1)
    close_idle(cache)
    assert len(made) == 1
    assert [int(each.value) for each in read_topic(secured.servers, topic)] == list(range(rows))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secured-job")


def writes_of(options: Options) -> list[dict[str, Any]]:
    writes = [("kproducer", name, given) for name, given in accepted(options).items()]
    writes += [("kproducer", name, given) for name, (given, _) in refused(options).items()]
    writes += [("kafka", f"kafka-{name}", given) for name, given in shared(options).items()]
    return [
        {
            "name": name,
            "format": sink,
            "options": {"topic": name, **given},
            "is_stream": "stream" in name,
            "is_connect": "connect" in name,
        }
        for sink, name, given in writes
    ]


@pytest.fixture(scope="module")
def answers(secured: Options, folder: Path) -> dict[str, dict[str, str]]:
    """What became of each write, by its name."""
    try:
        jars = ",".join(resolve_connector(pyspark.__version__).jars)
    except RuntimeError as error:
        skip_or_fail(REQUIRE_KAFKA, str(error))
    (folder / "shown").mkdir()
    (folder / "lines").mkdir()
    (folder / "lines" / "1.txt").write_text("\n".join(ROWS))
    writes = writes_of(secured)
    for write in writes:
        create_topic(secured.servers, write["name"], 1)
    (folder / "writes.json").write_text(json.dumps({"jars": jars, "writes": writes}))
    with (folder / "shown" / "log").open("wb") as log:
        subprocess.run(
            [sys.executable, str(JOB), str(folder)],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            timeout=_JOB_TIMEOUT_S,
            check=True,
        )
    listed = json.loads((folder / "answers.json").read_text())
    return {answer["name"]: answer for answer in listed}


def test_options_are_accepted_or_refused_with_a_reason_and_no_secret_is_shown(
    secured: Options, answers: dict[str, dict[str, str]], folder: Path
) -> None:
    # One test, so that no other process of the test run needs a job of its own.
    assert_that_every_option_is_accepted(secured, answers)
    assert_that_every_refusal_says_why(secured, answers)
    assert_that_sparks_own_sink_takes_the_same_options(secured, answers)
    assert_that_no_secret_is_shown(secured, answers, folder)


def assert_that_every_option_is_accepted(secured: Options, answers: dict[str, dict[str, str]]) -> None:
    for name in accepted(secured):
        assert answers[name]["error"] == "", name
        read = read_topic(secured.servers, name)
        assert sorted(int(each.value) for each in read) == list(range(20)), name


def assert_that_every_refusal_says_why(secured: Options, answers: dict[str, dict[str, str]]) -> None:
    for name, (_, words) in refused(secured).items():
        assert words in answers[name]["error"], name
        assert read_topic(secured.servers, name) == []


def assert_that_sparks_own_sink_takes_the_same_options(
    secured: Options, answers: dict[str, dict[str, str]]
) -> None:
    for name in shared(secured):
        theirs = answers[f"kafka-{name}"]["error"]
        assert bool(theirs) == bool(answers[name]["error"]), name
        if theirs:
            assert "Authentication" in theirs
        else:
            assert len(read_topic(secured.servers, f"kafka-{name}")) == 20


def assert_that_no_secret_is_shown(
    secured: Options, answers: dict[str, dict[str, str]], folder: Path
) -> None:
    secrets = {
        "password": PASSWORD,
        "wrong password": WRONG_PASSWORD,
        "password of PLAIN": sasl.USERS["alice"],
        # Not its last characters, which are escaped in different ways.
        "client secret": CLIENT_SECRET[:6],
        "token": secured.provider.issued[0],
        "password of the key": KEY_PASSWORD,
        "password of the key store": STORE_PASSWORD,
        "password of the trust store": TRUST_PASSWORD,
        "password of the proxy": PROXY_PASSWORD,
        "key of the token endpoint": ENDPOINT_KEY,
        # The line after BEGIN.
        "key": secured.pem_text["kafka.ssl.keystore.key"].splitlines()[1],
        "locked key": secured.locked_pem_text["kafka.ssl.keystore.key"].splitlines()[1],
    }
    contents = {
        str(path.relative_to(folder)): path.read_text(errors="replace")
        for path in folder.rglob("*")
        if path.is_file() and path.name != "writes.json"
    }
    found = [
        (name, path) for name, secret in secrets.items() for path, text in contents.items() if secret in text
    ]
    assert found == []
    # Everything that could show them was searched.
    searched = ("events/", "checkpoints/", "shown/log", "shown/worker-logs", "shown/web-", "answers.json")
    for start in searched:
        assert any(path.startswith(start) for path in contents), start
    assert "INFO org.apache.spark" in contents["shown/log"]
    assert "batch-wrong-password-in-tasks" in "".join(
        text for path, text in contents.items() if path.startswith("shown/web-")
    )

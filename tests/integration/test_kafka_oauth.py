"""OAUTHBEARER on Apache Kafka with tokens from an identity provider; confluent-kafka as reference.

The brokers verify signature, issuer, audience and expiry of each token with the provider's public keys.
"""

from __future__ import annotations

import base64
import json
import logging
import ssl
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError as ConfluentError
from confluent_kafka.admin import AdminClient

from kproducer import KafkaProducer
from kproducer.errors import AuthenticationError
from tests.support.certificates import Authority
from tests.support.identity_provider import (
    AUDIENCE,
    CLIENT_ID,
    CLIENT_SECRET,
    ISSUER,
    JWT_BEARER,
    IdentityProvider,
)
from tests.support.kafka.fixtures import start_or_skip
from tests.support.kafka.java_process import run_java
from tests.support.kafka.properties import as_text
from tests.support.kafka.reader import read_topic
from tests.support.kafka.sasl import quoted
from tests.support.kafka.sessions import check_numbers, leader_authentications, send_numbers
from tests.support.kafka.topics import create_topic

pytestmark = pytest.mark.kafka

PACKAGE = "org.apache.kafka.common.security.oauthbearer"
#: How soon an authentication failure has to reach every call; ``max_block_ms`` is 60 s.
PROMPT_S = 30.0


#: Without 3.9.2: what the identity provider and the other client do does not depend on the broker.
newest = pytest.mark.parametrize("kafka", ["4.4.0"], indirect=True)


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture
def provider(shared_provider):
    kept = dict(shared_provider.claims), shared_provider.lifetime_s
    yield shared_provider
    shared_provider.claims, shared_provider.lifetime_s = kept


@pytest.fixture(scope="module", params=["4.4.0", "3.9.2"])
def kafka(request, shared_provider):
    properties = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": shared_provider.jwks_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        # As long as a token is valid.
        "listener.name.sasl.oauthbearer.connections.max.reauth.ms": "3600000",
        "listener.name.sasl.oauthbearer.sasl.jaas.config": f"{PACKAGE}.OAuthBearerLoginModule required;",
        "listener.name.sasl.oauthbearer.sasl.server.callback.handler.class": (
            f"{PACKAGE}.OAuthBearerValidatorCallbackHandler"
        ),
    }
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={shared_provider.jwks_url}"
    listeners = {"SASL": "SASL_PLAINTEXT"}
    with start_or_skip(
        request.param, properties=properties, listeners=listeners, java_options=[allowed]
    ) as cluster:
        create_topic(cluster.bootstrap_servers, "oauth", 1)
        yield cluster


def settings(kafka, provider, **others):
    """Java's names."""
    return {
        "bootstrap.servers": kafka.bootstrap("SASL"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": f"{PACKAGE}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        **others,
    }


def with_secret(secret=CLIENT_SECRET):
    return {
        "sasl.oauthbearer.client.credentials.client.id": CLIENT_ID,
        "sasl.oauthbearer.client.credentials.client.secret": secret,
        "sasl.oauthbearer.scope": "produce",
    }


def with_jaas(secret=CLIENT_SECRET):
    options = f"clientId={quoted(CLIENT_ID)} clientSecret={quoted(secret)} scope=produce"
    return {"sasl.jaas.config": f"{PACKAGE}.OAuthBearerLoginModule required {options};"}


def with_assertion(provider, folder, algorithm="RS256", **others):
    return {
        "sasl.oauthbearer.assertion.private.key.file": provider.write_client_key(folder, algorithm),
        "sasl.oauthbearer.assertion.algorithm": algorithm,
        "sasl.oauthbearer.assertion.claim.iss": CLIENT_ID,
        "sasl.oauthbearer.assertion.claim.sub": CLIENT_ID,
        "sasl.oauthbearer.assertion.claim.aud": provider.token_url,
        **others,
    }


JWT_BEARER_RETRIEVER = {"sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.JwtBearerJwtRetriever"}

WAYS = {
    "client secret": lambda provider, folder: with_secret(),
    "client secret in JAAS": lambda provider, folder: with_jaas(),
    "client assertion": lambda provider, folder: with_assertion(provider, folder),
    "client assertion, ES256": lambda provider, folder: with_assertion(provider, folder, "ES256"),
    "JWT bearer": lambda provider, folder: {**with_assertion(provider, folder), **JWT_BEARER_RETRIEVER},
}


@pytest.mark.parametrize("way", WAYS)
def test_records_are_delivered(kafka, provider, tmp_path, way):
    count = len(provider.requests)
    value = way.encode()
    with KafkaProducer.from_config(settings(kafka, provider, **WAYS[way](provider, tmp_path))) as producer:
        producer.send("oauth", value).result(30)
    assert value in [each.value for each in read_topic(kafka.bootstrap_servers, "oauth")]
    # One token for the connections to the bootstrap server and to the leader.
    assert len(provider.requests) - count == 1


@newest
def test_a_token_from_a_file(kafka, provider, tmp_path):
    (tmp_path / "token").write_text(provider.new_token() + "\n")
    url = {"sasl.oauthbearer.token.endpoint.url": (tmp_path / "token").as_uri()}
    with KafkaProducer.from_config(settings(kafka, provider, **url)) as producer:
        producer.send("oauth", b"file").result(30)


def test_javas_producer_sends_the_same_with_the_same_properties(kafka, provider, tmp_path):
    # Java's client of 3.9 has client credentials only.
    ways = [way for way in WAYS if kafka.version != "3.9.2" or "JAAS" in way]
    files = []
    for number, way in enumerate(ways):
        chosen = {"sasl.jaas.config": f"{PACKAGE}.OAuthBearerLoginModule required;"}
        chosen.update(settings(kafka, provider, **WAYS[way](provider, tmp_path)))
        files.append(tmp_path / f"{number}.properties")
        files[-1].write_text(as_text(chosen))
    keys = ",".join(str(path) for path in tmp_path.glob("*.pem"))
    options = [
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={provider.token_url}",
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={keys}",
    ]
    count = len(provider.requests)
    source = str(Path(__file__).with_name("SendOneRecord.java"))
    run_java(kafka.version, source, ["oauth", *map(str, files)], options=options)
    by_java = provider.requests[count:]
    for path in files:
        with KafkaProducer.from_config(path) as producer:
            producer.send("oauth", path.name.encode()).result(30)
    assert list(map(without_assertions, provider.requests[count:])) == 2 * list(
        map(without_assertions, by_java)
    )
    assert len(by_java) == len(ways)


def without_assertions(form):
    """A form, of each assertion in it only the header and the names of the claims."""
    return {name: _outline(value) if value.count(".") == 2 else value for name, value in form.items()}


def _outline(assertion):
    header, payload = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in assertion.split(".")[:2])
    return header, sorted(payload)


@newest
def test_a_java_properties_file_and_a_token_endpoint_with_tls(kafka, provider, authority, tmp_path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue().write(tmp_path, "endpoint"))
    path = tmp_path / "client.properties"
    with IdentityProvider(context, provider.signing_key) as encrypted:
        jaas = with_jaas()["sasl.jaas.config"].removesuffix(";")
        jaas += f' ssl.truststore.location={quoted(authority.write(tmp_path))} ssl.truststore.type="PEM";'
        lines = settings(kafka, encrypted, **{"sasl.jaas.config": jaas.replace("\\", "\\\\")})
        path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()), "utf-8")
        with KafkaProducer.from_config(path) as producer:
            producer.send("oauth", b"tls").result(30)


REFUSED = {
    "wrong secret": (with_secret("wrong-secret"), {}, "HTTP status 401: invalid_client: Unknown client"),
    "wrong audience": (with_secret(), {"aud": "other"}, "invalid_token"),
    "wrong issuer": (with_secret(), {"iss": "https://other.test"}, "invalid_token"),
    "no subject": (with_secret(), {"sub": ""}, "invalid_token"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_reaches_every_call_promptly(kafka, provider, case, caplog):
    changes, claims, words = REFUSED[case]
    provider.claims.update(claims)
    before_s = time.monotonic()
    with KafkaProducer.from_config(settings(kafka, provider, **changes)) as producer:
        with pytest.raises(AuthenticationError, match=words) as caught:
            producer.partitions_for("oauth")
        with pytest.raises(AuthenticationError, match=words):
            producer.send("oauth", b"value").result(30)
    assert time.monotonic() - before_s < PROMPT_S
    shown = f"{caught.value!r} {caught.value.__cause__!r} {caplog.text}"
    for secret in (CLIENT_SECRET, "wrong-secret", *provider.issued[-1:]):
        assert secret not in shown


#: librdkafka's names, and whether the settings are right.
FOR_BOTH_CLIENTS = {
    "client secret": (with_secret(), {}, True),
    "wrong secret": (with_secret("wrong-secret"), {}, False),
    "wrong audience": (with_secret(), {"aud": "other"}, False),
    "JWT bearer": (None, {}, True),
    "JWT bearer, wrong issuer of the assertion": (None, {"assertion": "mallory"}, False),
}


@pytest.fixture
def own_provider(shared_provider):
    """Not shared, because a client of librdkafka that was refused may ask for tokens after its test."""
    with IdentityProvider(signing_key=shared_provider.signing_key) as provider:
        yield provider


@newest
@pytest.mark.parametrize("case", FOR_BOTH_CLIENTS)
def test_the_same_settings_are_accepted_and_refused_as_by_confluent_kafka(
    kafka, own_provider, tmp_path, case
):
    provider = own_provider
    changes, claims, is_accepted = FOR_BOTH_CLIENTS[case]
    if changes is None:
        issuer = {"sasl.oauthbearer.assertion.claim.iss": claims.get("assertion", CLIENT_ID)}
        grant = {"sasl.oauthbearer.grant.type": JWT_BEARER}
        changes = with_assertion(provider, tmp_path, **issuer, **grant)
    else:
        provider.claims.update(claims)
        changes = {
            "sasl.oauthbearer.client.id": CLIENT_ID,
            "sasl.oauthbearer.client.secret": changes["sasl.oauthbearer.client.credentials.client.secret"],
            "sasl.oauthbearer.scope": "produce",
            "sasl.oauthbearer.extensions": "tenant=a,pool=b",
        }
    chosen = settings(kafka, provider, **changes, **{"sasl.oauthbearer.method": "oidc"})
    del chosen["sasl.login.callback.handler.class"]
    with KafkaProducer.from_config(chosen) as producer:
        if is_accepted:
            assert producer.partitions_for("oauth")
        else:
            with pytest.raises(AuthenticationError):
                producer.partitions_for("oauth")
    errors = []
    admin = AdminClient(
        {**chosen, "error_cb": errors.append, "logger": logging.getLogger("librdkafka.quiet")}
    )
    if is_accepted:
        admin.poll(0)
        assert "oauth" in admin.list_topics(timeout=20).topics
        return
    deadline_s = time.monotonic() + 20
    while not any(each.code() == ConfluentError._AUTHENTICATION for each in errors):
        assert time.monotonic() < deadline_s, errors
        admin.poll(0.1)


@newest
def test_tokens_that_expire_under_load_lose_repeat_and_reorder_nothing(kafka, provider, caplog):
    caplog.set_level(logging.DEBUG, "kproducer.client")
    create_topic(kafka.bootstrap_servers, "expiring", 1)
    provider.lifetime_s = 4
    before = len(provider.issued)
    chosen = {**settings(kafka, provider, **with_secret()), "linger.ms": "1", "batch.size": "2000"}
    with KafkaProducer.from_config(chosen) as producer:
        counts = send_numbers(producer, "expiring", 8)
    check_numbers(kafka.bootstrap_servers, "expiring", counts)
    assert leader_authentications(caplog) >= 2
    assert len(set(provider.issued[before:])) >= 2

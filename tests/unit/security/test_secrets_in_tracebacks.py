"""No error shows a secret in a text or in a variable of a function: settings, stores, SASL, tokens, AWS."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
    pkcs12,
)
from kproducer_messages import SaslAuthenticateResponse, SaslHandshakeResponse

from kproducer import AsyncKafkaProducer, ConfigError, KafkaProducer
from kproducer._core.client.authentication import AuthenticationExchange
from kproducer._core.config.producer_config import DOTTED_NAMES, ProducerConfig
from kproducer._core.security.sasl_settings import sasl_mechanism_of
from kproducer.errors import KafkaError
from tests.support.aws import running_aws
from tests.support.certificates import Authority
from tests.support.identity_provider import IdentityProvider
from tests.support.loopback import PATIENCE_S, closed_port
from tests.support.secrets_in_errors import places_of

SECRET = "s3cret-Pa55"
PLAIN = {
    "bootstrap_servers": "localhost:1",
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "user",
    "sasl_plain_password": SECRET,
}
OAUTH = {
    "bootstrap_servers": "localhost:1",
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "OAUTHBEARER",
    "sasl_oauthbearer_token_endpoint_url": "http://127.0.0.1:1/token",
    "sasl_oauthbearer_client_credentials_client_id": "client",
    "sasl_oauthbearer_client_credentials_client_secret": SECRET,
}
TLS = {"bootstrap_servers": "localhost:1", "security_protocol": "SSL"}
URL = "sasl_oauthbearer_token_endpoint_url"
PROVIDERS = "org.apache.kafka.common.config.provider"
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required username=user"

MISTAKES: dict[str, dict[str, Any]] = {
    "another setting is wrong": {**PLAIN, "linger_ms": -1},
    "another setting is unknown": {**PLAIN, "lingers": 1},
    "another setting is missing": {**PLAIN, "sasl_plain_username": ""},
    "two settings contradict each other": {**PLAIN, "acks": 1, "enable_idempotence": True},
    "the wrong type": {**PLAIN, "sasl_plain_password": [SECRET]},
    "not a text of UTF-8": {**PLAIN, "sasl_plain_password": f"{SECRET}\ud800"},
    "a NUL character": {**PLAIN, "sasl_plain_password": f"{SECRET}\0"},
    "another mechanism": {**PLAIN, "sasl_mechanism": "GSSAPI"},
    "SCRAM": {**PLAIN, "sasl_mechanism": "SCRAM-SHA-256", "sasl_plain_username": "a\0"},
    "JAAS": {**PLAIN, "sasl_jaas_config": f'{JAAS} password="{SECRET}";'},
    "JAAS that cannot be read": {
        "bootstrap_servers": "localhost:1",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_jaas_config": f'{JAAS} password="{SECRET}',
    },
    "a proxy": {"bootstrap_servers": "localhost:1", "proxy_url": f"socks5://user:{SECRET}@host:port"},
    "an endpoint": {**OAUTH, "sasl_oauthbearer_token_endpoint_url": "ftp://a"},
    "an extension": {**OAUTH, "sasl_oauthbearer_extensions": "auth=x"},
    "an assertion": {**OAUTH, "sasl_oauthbearer_assertion_private_key_pem": SECRET},
    "a store that is missing": {
        **TLS, "ssl_keystore_location": "/no/such.p12", "ssl_keystore_password": SECRET
    },
    "a password without its store": {**TLS, "ssl_keystore_password": SECRET},
    "a key that is not one": {
        **TLS, "ssl_keystore_key": SECRET, "ssl_keystore_certificate_chain": "x", "ssl_key_password": SECRET
    },
    "AWS": {
        "bootstrap_servers": "localhost:1",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "AWS_MSK_IAM",
        "sasl_jaas_config": "software.amazon.msk.auth.iam.IAMLoginModule required "
        f'awsRoleSecretAccessKey="{SECRET}";',
    },
}  # fmt: skip


def dotted(settings: dict[str, Any]) -> dict[str, Any]:
    return {DOTTED_NAMES.get(name, name): value for name, value in settings.items()}


ENTRIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "keywords": lambda settings: KafkaProducer(**settings),
    "dotted": lambda settings: KafkaProducer.from_config(dotted(settings)),
    "config": lambda settings: KafkaProducer.from_config(ProducerConfig(**settings)),
    "asyncio": lambda settings: AsyncKafkaProducer(**settings),
    "asyncio, dotted": lambda settings: AsyncKafkaProducer.from_config(dotted(settings)),
}


@pytest.mark.parametrize("mistake", list(MISTAKES))
@pytest.mark.parametrize("entry", list(ENTRIES))
def test_settings(entry, mistake):
    with pytest.raises(ConfigError) as refused:
        ENTRIES[entry](MISTAKES[mistake])
    assert places_of(SECRET, refused.value) == []


def encrypted_files(folder: Path) -> dict[str, dict[str, Any]]:
    """Keys with a password, which is not the one in the settings."""
    authority = Authority()
    certificate = authority.issue("client")
    chain, key = certificate.write(folder, "client", "another")
    loaded: Any = load_pem_private_key(certificate.key_pem().encode(), None)
    first = x509.load_pem_x509_certificates(certificate.chain_pem.encode())[0]
    store = folder / "store.p12"
    encryption = BestAvailableEncryption(b"another")
    store.write_bytes(pkcs12.serialize_key_and_certificates(b"client", loaded, first, None, encryption))
    return {
        "files": {"ssl_certfile": chain, "ssl_keyfile": key, "ssl_password": SECRET},
        "PKCS12": {"ssl_keystore_location": str(store), "ssl_keystore_password": SECRET},
        "texts": {
            "ssl_keystore_key": certificate.key_pem("another"),
            "ssl_keystore_certificate_chain": certificate.chain_pem,
            "ssl_key_password": SECRET,
        },
        "JKS": {
            "ssl_keystore_location": str(store),
            "ssl_keystore_password": SECRET,
            "ssl_keystore_type": "JKS",
        },
    }


@pytest.mark.parametrize("family", ["files", "PKCS12", "texts", "JKS"])
def test_the_wrong_password_of_a_key(tmp_path, family):
    with pytest.raises(ConfigError) as refused:
        KafkaProducer(**TLS, **encrypted_files(tmp_path)[family])
    assert places_of(SECRET, refused.value) == []


def test_an_unencrypted_key_is_as_secret_as_a_password(tmp_path):
    certificate, other = Authority().issue("client"), Authority().issue("other")
    key = certificate.key_pem()
    with pytest.raises(ConfigError) as refused:
        KafkaProducer(**TLS, ssl_keystore_key=key, ssl_keystore_certificate_chain=other.chain_pem)
    assert places_of(key.splitlines()[2], refused.value) == []


@pytest.mark.parametrize(
    "text",
    [
        f"sasl.password={SECRET}",
        f"bootstrap.servers=a:1\nsecurity.protocol=SSL\nssl.key.password={SECRET}\nlinger.ms=x",
        f"sasl.jaas.config={JAAS} \\\n password={SECRET}",
        f"config.providers=env\nconfig.providers.env.class={PROVIDERS}.EnvVarConfigProvider\n"
        "sasl.jaas.config=${env:SECRET_OF_TEST}",
        f"config.providers=file\nconfig.providers.file.class={PROVIDERS}.FileConfigProvider\n"
        f"ssl.key.password={SECRET}\nsasl.jaas.config=${{file:/no/such:x}}",
    ],
    ids=range(5),
)
def test_properties_files(tmp_path, monkeypatch, text):
    monkeypatch.setenv("SECRET_OF_TEST", f"{JAAS} password={SECRET}")
    path = tmp_path / "producer.properties"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        KafkaProducer.from_config(path)
    assert places_of(SECRET, refused.value) == []


#: What an exchange needs of its connection.
CONNECTION: Any = SimpleNamespace(broker="b1:9092", node=SimpleNamespace(host="b1"))


def refusal_of_broker(settings: dict[str, Any], *messages: bytes, code: int = 58) -> KafkaError:
    """The error of an authentication that the broker refuses after these messages."""
    exchange = AuthenticationExchange(sasl_mechanism_of(ProducerConfig(**settings)), CONNECTION, 0)
    exchange.begin()
    exchange.on_handshake(SaslHandshakeResponse(error_code=0))
    answers = [SaslAuthenticateResponse(error_code=0, auth_bytes=message) for message in messages]
    try:
        for answer in (*answers, SaslAuthenticateResponse(error_code=code, error_message="no")):
            exchange.on_authenticate(answer)
    except KafkaError as error:
        return error
    raise AssertionError("it was not refused")


def test_passwords_that_the_broker_refuses():
    assert places_of(SECRET, refusal_of_broker(PLAIN)) == []
    scram = {**PLAIN, "sasl_mechanism": "SCRAM-SHA-256"}
    for messages in ([], [b"x"], [b"e=unknown-user"], [b"r=x,s=AAAA,i=4096"]):
        assert places_of(SECRET, refusal_of_broker(scram, *messages)) == []


def failure_of_provider(**settings: Any) -> KafkaError:
    """The error of an authentication for which there is no token."""
    config = ProducerConfig(**settings, sasl_login_retry_backoff_ms=1, sasl_login_retry_backoff_max_ms=1)
    is_known = threading.Event()
    mechanism = sasl_mechanism_of(config, is_known.set)
    exchange = AuthenticationExchange(mechanism, CONNECTION, 0)
    try:
        while exchange.begin() is None:
            assert is_known.wait(PATIENCE_S)
            is_known.clear()
        exchange.on_handshake(SaslHandshakeResponse(error_code=0))
    except KafkaError as error:
        return error
    finally:
        mechanism.close()
    raise AssertionError("there was a token")


def test_tokens_that_cannot_be_had_or_used(tmp_path):
    with closed_port() as port:
        endpoint = f"http://127.0.0.1:{port}/token"
        assert places_of(SECRET, failure_of_provider(**{**OAUTH, URL: endpoint})) == []
    with IdentityProvider() as provider:  # it knows another secret
        assert places_of(SECRET, failure_of_provider(**{**OAUTH, URL: provider.token_url})) == []
    own = {name: value for name, value in OAUTH.items() if not name.startswith("sasl_oauthbearer")}
    for token in (f"{SECRET}\n", [SECRET], (f"{SECRET}\n", 2e9), (SECRET, "soon"), (SECRET, 5.0)):
        failed = failure_of_provider(**own, sasl_oauth_token_provider=lambda token=token: token)
        assert places_of(SECRET, failed) == []


@pytest.mark.parametrize("is_denied", [False, True])
def test_a_role_of_aws_that_cannot_be_assumed(tmp_path, monkeypatch, is_denied):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    jaas = (
        "software.amazon.msk.auth.iam.IAMLoginModule required awsRoleArn="
        f'"arn:aws:iam::123456789012:role/producer" awsRoleAccessKeyId="AKID" '
        f'awsRoleSecretAccessKey="{SECRET}" awsRoleSessionToken="session-{SECRET}";'
    )
    with running_aws() as aws, closed_port() as port:
        aws.is_denied = True
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", aws.url if is_denied else f"http://127.0.0.1:{port}")
        failed = failure_of_provider(
            bootstrap_servers="localhost:1",
            security_protocol="SASL_SSL",
            sasl_mechanism="AWS_MSK_IAM",
            sasl_aws_region="eu-central-1",
            sasl_jaas_config=jaas,
        )
    assert ("AccessDenied" if is_denied else "Could not connect") in str(failed)
    assert places_of(SECRET, failed) == []


def confluent(name: str, value: object) -> Callable[[], Any]:
    from kproducer.compat.confluent_kafka import Producer

    settings = {
        "bootstrap.servers": "localhost:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "user",
        "sasl.password": SECRET,
        name: value,
    }
    return lambda: Producer(settings)


def serializing(name: str, value: object) -> Callable[[], Any]:
    from kproducer.compat.confluent_kafka import SerializingProducer

    return lambda: SerializingProducer({"sasl.password": SECRET, name: value})


def kafka_python(**more: object) -> Callable[[], Any]:
    from kproducer.compat.kafka import KafkaProducer as Adapter

    return lambda: Adapter(**{**PLAIN, **more})


def aiokafka(**more: object) -> Callable[[], Any]:
    from kproducer.compat.aiokafka import AIOKafkaProducer

    return lambda: AIOKafkaProducer(**{**PLAIN, **more})


async def started(**more: object) -> None:
    from kproducer.compat.aiokafka import AIOKafkaProducer

    await AIOKafkaProducer(**{**PLAIN, "request_timeout_ms": 50, **more}).start()


@pytest.mark.parametrize(
    "create",
    [
        confluent("linger.ms", -1),
        confluent("lingers", 1),
        confluent("error_cb", 1),
        confluent("default.topic.config", 1),
        confluent("compression.type", "none of them"),
        confluent("message.timeout.ms", "soon"),
        confluent("security.protocol", "SASL_SSL_"),
        serializing("key.serializer.builder", 1),
        serializing("lingers", 1),
        kafka_python(linger_ms=-1),
        kafka_python(lingers=1),
        kafka_python(metrics_enabled=False),
        kafka_python(key_serializer=1),
        kafka_python(partitioner=1),
        kafka_python(acks="none"),
        kafka_python(bootstrap_timeout_ms=1),
        aiokafka(linger_ms=-1),
        aiokafka(acks=7),
        aiokafka(compression_type="none of them"),
        aiokafka(enable_idempotence=True, acks=1),
        aiokafka(sasl_oauth_token_provider=1),
        aiokafka(security_protocol="SASL_SSL", sasl_mechanism="none of them"),
        lambda: asyncio.run(started()),
        lambda: asyncio.run(started(compression_type="zstd", partitioner=lambda *_: 0)),
    ],
)
def test_adapters(create):
    with pytest.raises(Exception) as refused:  # noqa: PT011  # of each adapter's own classes
        create()
    assert places_of(SECRET, refused.value) == []


@pytest.mark.parametrize(
    ("create", "name"),
    [
        (confluent("linger.ms", float("inf")), "linger.ms"),
        (confluent("message.timeout.ms", float("inf")), "message.timeout.ms"),
        (kafka_python(batch_size="many"), "batch_size"),
        (kafka_python(max_request_size="large"), "max_request_size"),
        (kafka_python(reconnect_backoff_ms="soon"), "reconnect_backoff_ms"),
        (kafka_python(ssl_ciphers=5), "ssl_ciphers"),
        (aiokafka(linger_ms="soon"), "linger_ms"),
        (aiokafka(request_timeout_ms="soon"), "request_timeout_ms"),
        (aiokafka(retry_backoff_ms="soon"), "retry_backoff_ms"),
        (aiokafka(security_protocol=5), "security_protocol"),
    ],
)
def test_adapters_name_a_setting_of_the_wrong_type(create, name):
    """They calculate with some settings before the producer checks them."""
    with pytest.raises(Exception, match=f"{name}: expected") as refused:
        create()
    assert places_of(SECRET, refused.value) == []

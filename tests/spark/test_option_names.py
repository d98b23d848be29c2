"""Errors that reach a user of Spark name options as the user writes them: on the driver and in tasks."""

from __future__ import annotations

import pickle
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from kproducer.errors import AuthenticationError, KafkaError
from kproducer.kafka_producer import KafkaProducer
from kproducer.spark import KafkaProducerDataSource
from kproducer.spark.exactly_once.kafka_ports import Connections, KafkaTaskPort
from kproducer.spark.option_names import explained, in_format_options, in_options
from kproducer.spark.partition_writer import write_partition
from kproducer.spark.producer_cache import ProducerCache
from kproducer.spark.write_columns import WriteColumns
from kproducer.spark.write_options import WriteOptions
from kproducer.testing import FakeKafka
from kproducer.testing.fakebroker import FakeCluster
from kproducer.testing.fakebroker.sasl_listener import SaslListener
from tests.spark.fake_producer import close_idle
from tests.support.certificates import Authority
from tests.support.identity_provider import IdentityProvider
from tests.support.loopback import Listener, closed_port
from tests.support.proxies import LoopbackProxy

SCHEMA = StructType().add("value", "string")
TYPED = StructType().add("id", "long", False)
COLUMNS = WriteColumns(("value",), "t")
#: Enough to connect, and to fail a few times.
SOON = {"checkTimeoutMs": "700", "kafka.max.block.ms": "700"}
LOGIN = "org.apache.kafka.common.security"

Options = dict[str, str]
Attempt = Callable[[Options], object]


@pytest.mark.parametrize(
    ("text", "translated"),
    [
        (
            "no answer within max_block_ms=5 (request_timeout_ms)",
            "kafka.max.block.ms=5 (kafka.request.timeout.ms)",
        ),
        ("set enable_idempotence=False", "set kafka.enable.idempotence=false"),
        ("acks=0 loses records; acks are", "kafka.acks=0 loses records; acks are"),
        ("with compression_lz4_level, as", "with kafka.compression.lz4.level, as"),
        ("transactional_id='a-1' needs", "delivery=exactly-once needs"),
        ("sasl_plain_username is missing", "kafka.sasl.username is missing"),
        (
            "user 'linger_ms' at /etc/ssl_cafile/x-linger_ms",
            "user 'linger_ms' at /etc/ssl_cafile/x-linger_ms",
        ),
    ],
)
def test_names_of_settings_become_names_of_options(text: str, translated: str) -> None:
    assert translated in in_options(text)


def test_names_of_formats_and_registries_become_names_of_options() -> None:
    text = in_format_options(
        "check basic.auth.user.info or the bearer token, and use.schema.id, and the urls", "key"
    )
    assert text == (
        "check schema.registry.basic.auth.user.info or schema.registry.bearer.auth.token, and"
        " key.use.schema.id, and the urls"
    )


def test_refused_credentials_name_the_options_that_were_given_without_their_values() -> None:
    given = [("acks", "1"), ("sasl.mechanism", "PLAIN"), ("sasl.password", "hunter2")]
    assert explained(AuthenticationError("refused"), given) == (
        "refused; check 'kafka.sasl.mechanism', 'kafka.sasl.password'"
    )
    assert explained(AuthenticationError("refused: sasl_mechanism"), given) == "refused: kafka.sasl.mechanism"


def check(options: Options) -> None:
    """What the driver does before tasks start."""
    KafkaProducerDataSource({"topic": "t", **SOON, **options}).writer(SCHEMA, False)


def write_at_least_once(options: Options) -> None:
    """What a task does."""
    parsed = WriteOptions.parse({"topic": "t", **SOON, **options})
    rows = pa.RecordBatch.from_arrays([pa.array(["x"])], names=["value"])
    cache = ProducerCache(KafkaProducer.from_config)
    try:
        write_partition(iter([rows]), COLUMNS, parsed, cache)
    finally:
        close_idle(cache)


def write_exactly_once(options: Options) -> None:
    """What a task does first."""
    parsed = WriteOptions.parse({"topic": "t", "delivery": "exactly-once", **SOON, **options})
    cache = ProducerCache(Connections)
    with KafkaTaskPort(COLUMNS, parsed, cache) as port:
        port.initialize("t-0")


def plain(servers: object, password: str = "wrong") -> Options:
    return {
        "kafka.bootstrap.servers": str(servers),
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f"{LOGIN}.plain.PlainLoginModule required"
        f' username="alice" password="{password}";',
    }


def oauth(servers: object, url: str) -> Options:
    return {
        **plain(servers),
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.oauthbearer.token.endpoint.url": url,
        "kafka.sasl.jaas.config": f"{LOGIN}.oauthbearer.OAuthBearerLoginModule required"
        ' clientId="a" clientSecret="wrong";',
    }


def tls(servers: object, **others: str) -> Options:
    return {
        "kafka.bootstrap.servers": str(servers),
        "kafka.security.protocol": "SSL",
        **{f"kafka.ssl.{name}": value for name, value in others.items()},
    }


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def plain_kafka() -> Iterator[str]:
    with FakeKafka() as kafka:
        kafka.create_topic("t", 1)
        yield kafka.bootstrap_servers


@pytest.fixture(scope="module")
def sasl_kafka() -> Iterator[str]:
    with FakeKafka(users={"alice": "secret"}) as kafka:
        kafka.create_topic("t", 1)
        yield kafka.bootstrap_servers


@pytest.fixture(scope="module")
def tls_kafka(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("broker").write(tmp_path_factory.mktemp("broker"), "broker"))
    with FakeKafka(ssl_context=context) as kafka:
        kafka.create_topic("t", 1)
        yield kafka.bootstrap_servers


def refusal(attempt: Attempt, options: Options, *words: str) -> str:
    """The error, which says these words, and names no setting as a Python argument."""
    with pytest.raises(KafkaError) as caught:
        attempt(options)
    text = str(caught.value)
    for word in words:
        assert word in text
    assert in_options(text) == text
    assert "wrong" not in text
    # Spark sends errors of tasks to the driver.
    assert str(pickle.loads(pickle.dumps(caught.value))) == text
    return text


every_attempt = pytest.mark.parametrize("attempt", [check, write_at_least_once, write_exactly_once])


@every_attempt
def test_a_wrong_password(attempt: Attempt, sasl_kafka: str) -> None:
    refusal(attempt, plain(sasl_kafka), "SASL_AUTHENTICATION_FAILED", "'kafka.sasl.jaas.config'")


@every_attempt
def test_a_mechanism_that_the_broker_does_not_have(attempt: Attempt, sasl_kafka: str) -> None:
    options = plain(sasl_kafka)
    options["kafka.sasl.mechanism"] = "SCRAM-SHA-256"
    options["kafka.sasl.jaas.config"] = options["kafka.sasl.jaas.config"].replace(
        "plain.Plain", "scram.Scram"
    )
    refusal(attempt, options, "check kafka.sasl.mechanism")


@every_attempt
def test_sasl_where_the_broker_has_none(attempt: Attempt, plain_kafka: str) -> None:
    refusal(attempt, plain(plain_kafka), "check the port and kafka.security.protocol")


@every_attempt
def test_no_sasl_where_the_broker_needs_it(attempt: Attempt, sasl_kafka: str) -> None:
    # The broker's first answer has to come within this time.
    long = {"kafka.max.block.ms": "5000", "checkTimeoutMs": "5000"}
    refusal(attempt, {"kafka.bootstrap.servers": sasl_kafka, **long}, "kafka.security.protocol")


@every_attempt
def test_no_tls_where_the_broker_needs_it(attempt: Attempt, tls_kafka: str) -> None:
    # The client first tries each version of ApiVersions, on a connection of its own.
    often = {
        "kafka.reconnect.backoff.ms": "1",
        "kafka.reconnect.backoff.max.ms": "1",
        "kafka.max.block.ms": "2000",
    }
    refusal(attempt, {"kafka.bootstrap.servers": tls_kafka, **often}, "kafka.security.protocol")


@every_attempt
def test_a_certificate_that_is_not_trusted(attempt: Attempt, tls_kafka: str, tmp_path: Path) -> None:
    other = Authority().write(tmp_path)
    options = tls(tls_kafka, **{"truststore.type": "PEM", "truststore.location": other})
    refusal(attempt, options, "certificate", "kafka.ssl.truststore.location")


@every_attempt
@pytest.mark.parametrize(
    "option", ["truststore.location", "keystore.location", "cafile", "certfile", "keyfile", "crlfile"]
)
def test_a_file_that_is_missing(attempt: Attempt, option: str) -> None:
    options = tls("127.0.0.1:1", **{option: "/nope/file"})
    if option == "keyfile":
        options["kafka.ssl.certfile"] = __file__
    refusal(attempt, options, f"option 'kafka.ssl.{option}'", "/nope/file")


@every_attempt
@pytest.mark.parametrize("is_silent", [False, True])
def test_a_token_endpoint_that_does_not_answer(attempt: Attempt, is_silent: bool, sasl_kafka: str) -> None:
    with Listener() as silent, closed_port() as closed:
        port = silent.address[1] if is_silent else closed
        url = f"http://127.0.0.1:{port}/token"
        refusal(
            attempt,
            oauth(sasl_kafka, url),
            f"the token endpoint {url} (kafka.sasl.oauthbearer.token.endpoint.url)",
            "has not answered" if is_silent else "cannot be reached: Connection refused",
        )


@every_attempt
def test_an_identity_without_its_parameters(attempt: Attempt) -> None:
    kind = "kafka.sasl.oauthbearer.metadata.authentication.type"
    options = {
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        kind: "azure_imds",
    }
    refusal(attempt, options, f"kafka.sasl.oauthbearer.config is missing: {kind}=azure_imds needs")


@every_attempt
def test_a_token_endpoint_that_refuses_the_secret(attempt: Attempt, sasl_kafka: str) -> None:
    with IdentityProvider() as provider:
        refusal(attempt, oauth(sasl_kafka, provider.token_url), "HTTP status 401", "'kafka.sasl.jaas.config'")


@every_attempt
def test_a_broker_that_cannot_be_reached(attempt: Attempt) -> None:
    with closed_port() as port:
        options = plain(f"127.0.0.1:{port}")
        refusal(attempt, options, "Connection refused", "kafka.bootstrap.servers")
        unsecured = {"kafka.bootstrap.servers": f"127.0.0.1:{port}"}
        refusal(attempt, unsecured, "Connection refused", "kafka.bootstrap.servers")


@every_attempt
@pytest.mark.parametrize("is_silent", [False, True])
def test_a_proxy_that_does_not_answer(attempt: Attempt, is_silent: bool) -> None:
    with Listener() as silent, closed_port() as closed:
        proxy = f"http://127.0.0.1:{silent.address[1] if is_silent else closed}"
        options = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.proxy.url": proxy}
        refusal(attempt, options, f"through the proxy {proxy} (kafka.proxy.url)")


@every_attempt
def test_a_proxy_that_refuses_the_password(attempt: Attempt) -> None:
    with LoopbackProxy("http", credentials=("alice", "secret")) as proxy:
        options = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.proxy.url": proxy.url("alice", "wrong")}
        refusal(attempt, options, "rejected the user name and password in kafka.proxy.url")


def test_the_drivers_check_names_its_own_timeout(sasl_kafka: str) -> None:
    """The producer of the check waits for as long as this option says, not for ``kafka.max.block.ms``."""
    with closed_port() as port:
        text = refusal(check, plain(f"127.0.0.1:{port}"), "checkTimeoutMs=700", "'checkTimeoutMs'")
    assert "max.block.ms" not in text


@pytest.mark.parametrize("is_secured", [False, True])
def test_a_topic_that_may_not_be_written_to_names_the_permission(is_secured: bool) -> None:
    with FakeCluster(1) as cluster:
        cluster.create_topic("t", 1)
        cluster.metadata_errors["t"] = 29
        servers = cluster.bootstrap_servers[0]
        options = {"kafka.bootstrap.servers": servers}
        if is_secured:
            cluster.sasl = SaslListener({"alice": "secret"})
            options = plain(servers, "secret")
        refusal(check, options, "TOPIC_AUTHORIZATION_FAILED", "(option 'topic')", "Grant Write on it")


# -- formats and schema registries, on the driver ------------------------------------------------------------


@pytest.fixture
def formatted(plain_kafka: str) -> Callable[..., str]:
    def make(options: Options, *words: str) -> str:
        def attempt(given: Options) -> None:
            KafkaProducerDataSource(given).writer(TYPED, False)

        base = {"kafka.bootstrap.servers": plain_kafka, "topic": "t", "valueFormat": "avro"}
        return refusal(attempt, {**base, **options}, *words)

    return make


REGISTRY = {"schema.registry.url": "https://127.0.0.1:1", "schema.registry.max.retries": "0"}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"schema.registry.url": "nonsense"}, "option 'schema.registry.url': number 1"),
        ({"schema.registry.url": ""}, "option 'schema.registry.url': expected the URL"),
        ({**REGISTRY, "schema.registry.timeout": "-1"}, "option 'schema.registry.timeout'"),
        ({**REGISTRY, "schema.registry.proxy": "x"}, "option 'schema.registry.proxy'"),
        ({**REGISTRY, "schema.registry.ssl.ca.location": "/nope.pem"}, "schema.registry.ssl.ca.location"),
        ({**REGISTRY, "schema.registry.ssl.key.location": "/k"}, "schema.registry.ssl.certificate.location"),
        (
            {**REGISTRY, "schema.registry.basic.auth.user.info": "alice"},
            "option 'schema.registry.basic.auth.user.info'",
        ),
        ({"value.schema": "{nope"}, "option 'value.schema'"),
        ({"value.schema": '{"type": "nope"}'}, "option 'value.schema'"),
        ({"valueFormat": "json", "value.schema": '{"type": "nope"}'}, "option 'value.schema'"),
        ({"value.record.name": "1 x"}, "option 'value.record.name'"),
    ],
)
def test_a_wrong_option_of_a_format_or_registry(
    formatted: Callable[..., str], options: Options, named: str
) -> None:
    formatted(options, named)


def test_descriptors_that_cannot_be_used(formatted: Callable[..., str], tmp_path: Path) -> None:
    protobuf: dict[str, Any] = {"valueFormat": "protobuf", "value.message": "a.B"}
    option = "value.descriptor.file"
    formatted({**protobuf, option: "/nope.desc"}, f"option '{option}': ", "'/nope.desc': No such file")
    formatted({**protobuf, option: str(tmp_path)}, f"option '{option}': ", "Is a directory")
    wrong = tmp_path / "x.desc"
    wrong.write_bytes(b"hello")
    formatted({**protobuf, option: str(wrong)}, f"option '{option}': ", "protoc")
    wrong.write_bytes(b"")
    formatted({**protobuf, option: str(wrong)}, "option 'value.message'", "'a.B'")


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_registry_that_does_not_answer(formatted: Callable[..., str], is_silent: bool) -> None:
    with Listener() as silent, closed_port() as closed:
        url = f"http://127.0.0.1:{silent.address[1] if is_silent else closed}"
        options = {**REGISTRY, "schema.registry.url": url, "schema.registry.timeout": "0.3"}
        formatted(options, "is not reachable", url, "check schema.registry.url")
        proxied = {**options, "schema.registry.proxy": url}
        formatted(proxied, "is not reachable", "check schema.registry.proxy, schema.registry.url")

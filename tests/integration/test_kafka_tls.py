"""SSL listeners of Apache Kafka: with and without client certificates, and every way of being refused."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kproducer import KafkaError, KafkaProducer, NetworkError, SslAuthenticationError
from tests.support.certificates import Authority
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.fixtures import start_or_skip
from tests.support.kafka.reader import read_topic
from tests.support.kafka.topics import create_topic

pytestmark = pytest.mark.kafka

#: Without 3.9.2: nothing of these reaches the part of a broker that may differ.
newest = pytest.mark.parametrize("secured", ["4.4.0"], indirect=True)

README = Path(__file__).parents[2] / "README.md"
LISTENERS = {"SSL": "SSL", "MTLS": "SSL"}
TIMEOUT_S = 30.0


class Secured(NamedTuple):
    """A cluster with the listeners SSL and MTLS.

    Attributes:
        trust: settings to trust it.
        identity: settings with a certificate that its listener MTLS accepts.
    """

    cluster: KafkaCluster
    authority: Authority
    trust: dict[str, Any]
    identity: dict[str, Any]

    def producer(self, listener: str, **settings: Any) -> KafkaProducer:
        given = {"security_protocol": "SSL", **self.trust, "max_block_ms": 20_000, **settings}
        return KafkaProducer(self.cluster.bootstrap(listener), **given)


@pytest.fixture(scope="module", params=["4.4.0", "3.9.2"])
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority()
    certificate, key = authority.issue("client").write(folder, "client", "secret")
    properties = {**authority.broker_properties(), "listener.name.mtls.ssl.client.auth": "required"}
    with start_or_skip(request.param, 1, properties, LISTENERS) as cluster:
        create_topic(cluster.bootstrap_servers, "t", partitions=2)
        trust = {"ssl_cafile": authority.write(folder)}
        identity = {"ssl_certfile": certificate, "ssl_keyfile": key, "ssl_password": "secret"}
        yield Secured(cluster, authority, trust, identity)


@pytest.mark.parametrize("listener", ["SSL", "MTLS"])
@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_records_arrive_in_order(secured: Secured, listener: str, acks: Any) -> None:
    topic = f"in-order-{listener}-{acks}"
    create_topic(secured.cluster.bootstrap_servers, topic, partitions=1)
    identity = secured.identity if listener == "MTLS" else {}
    # A small socket buffer, so that writes are partial.
    with secured.producer(listener, acks=acks, send_buffer_bytes=8192, **identity) as producer:
        futures = [producer.send(topic, b"%06d" % i + b"x" * (i % 2000)) for i in range(2000)]
        producer.send_many(topic, [b"%06d" % i + b"y" * 3000 for i in range(2000, 3000)]).result(TIMEOUT_S)
        assert [future.result(TIMEOUT_S).offset for future in futures] == (
            [-1] * 2000 if acks == 0 else list(range(2000))
        )
    found = read_topic(secured.cluster.bootstrap_servers, topic)
    assert [int(record.value[:6]) for record in found] == list(range(3000))


def test_records_arrive_in_order_without_native_encryption(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KPRODUCER_NATIVE_TLS", "0")
    topic = "in-order-portable"
    create_topic(secured.cluster.bootstrap_servers, topic, partitions=1)
    with secured.producer("SSL", send_buffer_bytes=8192) as producer:
        values = [b"%06d" % i + b"z" * 3000 for i in range(1000)]
        producer.send_many(topic, values).result(TIMEOUT_S)
    found = read_topic(secured.cluster.bootstrap_servers, topic)
    assert [record.value for record in found] == values


def test_java_properties_with_a_large_record(secured: Secured, tmp_path: Path) -> None:
    client = secured.authority.issue("client")
    settings = {
        "bootstrap.servers": secured.cluster.bootstrap("MTLS"),
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": secured.authority.pem,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": client.chain_pem,
        "ssl.keystore.key": client.key_pem("geheim"),
        "ssl.key.password": "geheim",
        "linger.ms": "0",
    }
    with KafkaProducer.from_config(settings) as producer:
        for size in (1_000_000, 0, 16_384, 16_385, 500_000):
            assert producer.send("t", b"z" * size).result(TIMEOUT_S).serialized_value_size == size


@newest
def test_the_example_of_the_readme_runs(secured: Secured, tmp_path: Path) -> None:
    (program,) = re.findall(
        r"```python\n([^`]*security_protocol[^`]*)```", README.read_text(encoding="utf-8")
    )
    secured.authority.write(tmp_path)
    secured.authority.issue("client").write(tmp_path, "client")
    program = program.replace("broker.example.com:9093", secured.cluster.bootstrap("MTLS"))
    subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=tmp_path, timeout=60, check=True)
    assert read_topic(secured.cluster.bootstrap_servers, "events")[0].value == b"hello"


FORKING_PROGRAM = """
import os, sys
from kproducer import KafkaProducer

servers, trust = sys.argv[1:]
producer = KafkaProducer(servers, security_protocol="SSL", ssl_cafile=trust)
for number in range(10):
    producer.send("fork", b"parent").result(30)
    child = os.fork()
    if not child:
        producer.send("fork", b"child").result(30)
        producer.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
producer.send("fork", b"parent").result(30)
producer.close()
"""


@newest
def test_forked_children_leave_the_connection_of_the_parent_alone(secured: Secured) -> None:
    create_topic(secured.cluster.bootstrap_servers, "fork", partitions=1)
    arguments = [secured.cluster.bootstrap("SSL"), secured.trust["ssl_cafile"]]
    command = [sys.executable, "-W", "ignore", "-c", FORKING_PROGRAM, *arguments]
    done = subprocess.run(command, timeout=100, check=True, capture_output=True, text=True)
    # A connection that ended is logged, and an unhandled log record goes to standard error as a warning.
    assert done.stderr == ""
    values = [record.value for record in read_topic(secured.cluster.bootstrap_servers, "fork")]
    assert values == [b"parent", b"child"] * 10 + [b"parent"]


def failure(secured: Secured, listener: str, call: str, **settings: Any) -> tuple[KafkaError, float]:
    with secured.producer(listener, **settings) as producer:
        begin = time.monotonic()
        with pytest.raises(KafkaError) as caught:
            producer.partitions_for("t") if call == "partitions_for" else producer.send("t", b"1").result(20)
        return caught.value, time.monotonic() - begin


@pytest.mark.parametrize("call", ["send", "partitions_for"])
def test_refusals_arrive_at_once_and_name_the_cause(secured: Secured, call: str, tmp_path: Path) -> None:
    other = Authority()
    certificate, key = other.issue("client").write(tmp_path, "stranger")
    stranger = {"ssl_certfile": certificate, "ssl_keyfile": key}
    for listener, settings, words in (
        ("MTLS", {}, "ssl_keystore_location"),
        ("MTLS", stranger, "alert"),
        ("SSL", {"ssl_cafile": other.write(tmp_path, "other.pem")}, "other.pem"),
        ("SSL", {"ssl_cafile": None}, "trusted are"),
    ):
        error, seconds = failure(secured, listener, call, **settings)
        assert isinstance(error, SslAuthenticationError), error
        assert words in str(error)
        assert seconds < 5


def test_a_plaintext_listener_is_recognised(secured: Secured) -> None:
    begin = time.monotonic()
    with (
        pytest.raises(KafkaError, match="PLAINTEXT or SASL_PLAINTEXT listener"),
        KafkaProducer(
            secured.cluster.bootstrap_servers, security_protocol="SSL", max_block_ms=1000, **secured.trust
        ) as producer,
    ):
        producer.send("t", b"1")
    with (
        pytest.raises(KafkaError, match="set security_protocol to SSL or SASL_SSL"),
        KafkaProducer(secured.cluster.bootstrap("SSL"), max_block_ms=1000) as producer,
    ):
        producer.send("t", b"1")
    assert time.monotonic() - begin < 10


@newest
def test_refused_connections_are_not_retried_in_a_tight_loop(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kproducer._core.network.tls_transport import TlsTransport

    attempts: list[float] = []
    new = TlsTransport.__init__

    def count(self: TlsTransport, *arguments: Any, **more: Any) -> None:
        attempts.append(time.monotonic())
        new(self, *arguments, **more)

    monkeypatch.setattr(TlsTransport, "__init__", count)
    with secured.producer("SSL", ssl_cafile=Authority().write(tmp_path)) as producer:
        until = time.monotonic() + 3
        while time.monotonic() < until:
            with pytest.raises(SslAuthenticationError):
                producer.send("t", b"1")
    # reconnect_backoff_ms=50, doubled up to a second
    assert 3 <= len(attempts) <= 12


@newest
def test_accepted_records_fail_when_the_broker_is_refused_later(secured: Secured, tmp_path: Path) -> None:
    trust = secured.authority.write(tmp_path)
    with secured.producer("SSL", ssl_cafile=trust) as producer:
        producer.send("t", b"before").result(TIMEOUT_S)
        Authority().write(tmp_path)  # for new connections
        secured.cluster.nodes[1].kill()
        future = producer.send("t", b"after")
        secured.cluster.nodes[1].start()
        with pytest.raises(SslAuthenticationError) as caught:
            future.result(10)
        assert not isinstance(caught.value, NetworkError)
        secured.authority.write(tmp_path)
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                producer.send("t", b"again").result(TIMEOUT_S)
                break
            except SslAuthenticationError:
                assert time.monotonic() < deadline
    values = [record.value for record in read_topic(secured.cluster.bootstrap_servers, "t")]
    assert b"again" in values
    assert b"after" not in values

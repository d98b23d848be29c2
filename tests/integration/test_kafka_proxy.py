"""Apache Kafka through SOCKS5 and HTTP proxies: with TLS inside, and names that only the proxy knows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kproducer import KafkaProducer, SslAuthenticationError
from tests.support.certificates import Authority
from tests.support.kafka import sasl
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.fixtures import start_or_skip
from tests.support.kafka.maven_artifacts import NEWEST_VERSION
from tests.support.kafka.reader import read_topic
from tests.support.kafka.topics import create_topic
from tests.support.proxies import LoopbackProxy

pytestmark = pytest.mark.kafka

BROKER = "broker.only-the-proxy-knows.invalid"
USER, PASSWORD = "alice", "wonderland"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def secured(authority: Authority) -> Iterator[KafkaCluster]:
    listeners = {"SECURE": "SASL_SSL"}
    certificate = authority.issue(BROKER, "127.0.0.1")
    properties = {**authority.broker_properties(certificate), **sasl.broker_properties(tuple(listeners))}
    with start_or_skip(NEWEST_VERSION, properties=properties, listeners=listeners) as cluster:
        yield cluster


@pytest.mark.parametrize("scheme", ["socks5", "socks5h", "http"])
def test_records_arrive_through_the_proxy(
    secured: KafkaCluster, authority: Authority, tmp_path: Path, scheme: str
) -> None:
    plain, secure = f"plain-{scheme}", f"secure-{scheme}"
    for topic in (plain, secure):
        create_topic(secured.bootstrap_servers, topic, 1)
    port = secured.bootstrap("SECURE").rpartition(":")[2]
    host = "127.0.0.1" if scheme == "socks5" else BROKER
    security = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
        "ssl_cafile": authority.write(tmp_path),
    }
    values = [b"%d" % number * 500 for number in range(3000)]
    with LoopbackProxy(scheme, credentials=("p", "q"), names={BROKER: "127.0.0.1"}) as proxy:
        url = {"proxy_url": proxy.url("p", "q")}
        with KafkaProducer(secured.bootstrap_servers, **url) as producer:
            producer.send_many(plain, values).result(60)
        assert len(proxy.targets) == 2  # for bootstrap, and to the leader
        with KafkaProducer(f"{host}:{port}", **url, **security) as producer:
            producer.send_many(secure, values).result(60)
        assert proxy.targets[2] == (host, int(port))
        assert len(proxy.targets) == 4
        wrong = {**security, "ssl_cafile": Authority().write(tmp_path, "other.pem")}
        with (
            KafkaProducer(f"{host}:{port}", **url, **wrong) as producer,
            pytest.raises(SslAuthenticationError, match="through the proxy"),
        ):
            producer.partitions_for(secure)
    for topic in (plain, secure):
        assert [record.value for record in read_topic(secured.bootstrap_servers, topic)] == values

"""Kafka 4.4 with three nodes in three racks: partitions by rack, wrong addresses, names that resolve late."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kproducer import BootstrapResolutionError, KafkaProducer
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.cluster_changes import move_leader
from tests.support.kafka.fixtures import start_or_skip
from tests.support.kafka.maven_artifacts import NEWEST_VERSION
from tests.support.kafka.reader import read_topic
from tests.support.kafka.round_trip import versions_in_use
from tests.support.kafka.topics import create_topic, partition_leader
from tests.support.proxies import LoopbackProxy
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

WAIT_SECONDS = 60
PARTITIONS = 6


@pytest.fixture(scope="module")
def racks() -> Iterator[KafkaCluster]:
    """Node 1 is in rack-1, and so on."""
    rack = {"broker.rack": "rack-${node}", "auto.leader.rebalance.enable": "false"}
    with start_or_skip(NEWEST_VERSION, 3, rack) as cluster:
        yield cluster


def leaders_of(cluster: KafkaCluster, topic: str) -> dict[int, int]:
    servers = cluster.bootstrap_servers
    return {number: partition_leader(servers, topic, number) for number in range(PARTITIONS)}


def used_partitions(producer: KafkaProducer, topic: str, count: int = 300) -> set[int]:
    """Send small batches without keys; returns the partitions that they went to."""
    futures = [producer.send(topic, b"x" * 200) for _ in range(count)]
    return {future.result(WAIT_SECONDS).partition for future in futures}


# -- KIP-1123 ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("node", [1, 2, 3])
def test_records_without_a_key_stay_in_the_rack(racks: KafkaCluster, node: int) -> None:
    topic = f"rack-{node}"
    create_topic(racks.bootstrap_servers, topic, PARTITIONS, replication_factor=3)
    leaders = leaders_of(racks, topic)
    near = {number for number, leader in leaders.items() if leader == node}
    servers, settings = racks.bootstrap_servers, {"batch_size": 400, "client_rack": f"rack-{node}"}
    with KafkaProducer(servers, **settings, partitioner_rack_aware=True) as producer:
        assert used_partitions(producer, topic) == near
        keyed = {producer.send(topic, key=b"%d" % n).result(WAIT_SECONDS).partition for n in range(60)}
        assert keyed == set(range(PARTITIONS))
    with KafkaProducer(servers, **settings) as producer:
        assert used_partitions(producer, topic) == set(range(PARTITIONS))


def test_without_a_leader_in_the_rack_all_partitions_are_used(racks: KafkaCluster) -> None:
    servers, topic = racks.bootstrap_servers, "leaderless-rack"
    create_topic(servers, topic, PARTITIONS, replication_factor=3)
    settings = {"client_rack": "rack-1", "partitioner_rack_aware": True, "batch_size": 400}
    with KafkaProducer(servers, **settings, metadata_max_age_ms=100) as producer:
        near = {number for number, leader in leaders_of(racks, topic).items() if leader == 1}
        assert used_partitions(producer, topic) == near
        for number in near:
            assert move_leader(servers, topic, number, 2)
        wait_until(lambda: used_partitions(producer, topic) == set(range(PARTITIONS)))
    with KafkaProducer(servers, **{**settings, "client_rack": "elsewhere"}) as producer:
        assert used_partitions(producer, topic) == set(range(PARTITIONS))


# -- KIP-1242 ----------------------------------------------------------------------------------------------


def test_an_address_that_leads_to_another_node_gets_no_record(
    racks: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    servers, topic = racks.bootstrap_servers, "wrong-node"
    create_topic(servers, topic, 1, replication_factor=3)
    assert move_leader(servers, topic, 0, 2)
    port_of = {number: node.address.port for number, node in racks.nodes.items()}
    with (
        LoopbackProxy("socks5") as proxy,
        caplog.at_level(logging.INFO, "kproducer.client"),
        KafkaProducer(f"127.0.0.1:{port_of[1]}", proxy_url=proxy.url(), linger_ms=0) as producer,
    ):
        assert producer.send(topic, b"first").result(WAIT_SECONDS).offset == 0
        assert versions_in_use(producer)["API_VERSIONS"] == {5}
        proxy.ports[port_of[2]] = port_of[3]
        proxy.break_connections()
        late = producer.send(topic, b"late")
        wait_until(lambda: "is another broker" in caplog.text)
        assert not late.done()
        del proxy.ports[port_of[2]]
        assert late.result(WAIT_SECONDS).offset == 1
    assert [record.value for record in read_topic(servers, topic)] == [b"first", b"late"]


# -- KIP-909 -----------------------------------------------------------------------------------------------


class LateName:
    """A name that the name service does not know before the test allows it."""

    def __init__(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.name = name
        self.is_known = threading.Event()
        self.asked = threading.Semaphore(0)
        self._ask = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._getaddrinfo)

    def _getaddrinfo(self, host: Any, *arguments: Any, **options: Any) -> Any:
        if host != self.name:
            return self._ask(host, *arguments, **options)
        if options.get("flags") or not self.is_known.is_set():
            self.asked.release()
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self._ask("127.0.0.1", *arguments, **options)


def test_a_name_that_resolves_in_time_delivers(racks: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    create_topic(racks.bootstrap_servers, "late-name", 1)
    name = LateName("late.example", monkeypatch)
    servers = f"late.example:{racks.nodes[1].address.port}"
    with KafkaProducer(servers, bootstrap_resolve_timeout_ms=60_000) as producer:
        for _ in range(4):
            assert name.asked.acquire(timeout=WAIT_SECONDS)
        name.is_known.set()
        assert producer.send("late-name", b"value").result(WAIT_SECONDS).offset == 0


def test_a_name_that_does_not_resolve_in_time_is_final(
    racks: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = LateName("late.example", monkeypatch)
    servers = f"late.example:{racks.nodes[1].address.port}"
    with KafkaProducer(servers, bootstrap_resolve_timeout_ms=300) as producer:
        with pytest.raises(BootstrapResolutionError, match=r"late\.example"):
            producer.send("late-name", b"value")
        name.is_known.set()
        with pytest.raises(BootstrapResolutionError, match="close this producer and create another"):
            producer.send("late-name", b"value")
    with KafkaProducer(servers, bootstrap_resolve_timeout_ms=60_000) as another:
        another.send("late-name", b"value").result(WAIT_SECONDS)

"""The whole client over real sockets: librdkafka's mock cluster as a peer, and peers that misbehave."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from kproducer_messages import ProduceRequest

from kproducer._core.client.api_keys import ApiKey
from kproducer._core.client.client_request import ClientResponse
from kproducer._core.client.metadata import Metadata
from kproducer._core.client.metadata_updater import MetadataUpdater
from kproducer._core.client.network_client import NetworkClient
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.network.host_resolver import ResolvedAddress, resolve_host
from kproducer._core.network.selector import Selector
from kproducer._core.runtime.clock import SystemClock
from kproducer.types import Node
from tests.support.kafka.mock_cluster import MockCluster
from tests.support.loopback import HOST, Listener, closed_port, frame, receive_exactly
from tests.support.units.client_harness import Builder, NoteTakingUpdater, api_versions_response
from tests.support.units.lookups import at_once

CLOCK = SystemClock()
MAX_POLLS = 2000


class Rig:
    """A client with real sockets and metadata, polled by the test."""

    def __init__(self, servers: str, **settings: Any) -> None:
        config = ProducerConfig(
            bootstrap_servers=servers, **{"retry_backoff_ms": 20, "retry_backoff_max_ms": 200, **settings}
        )
        self.metadata = Metadata(config, random=random.Random(1))
        addresses = [server.rsplit(":", 1) for server in config.bootstrap_servers]
        self.metadata.bootstrap([(host, int(port)) for host, port in addresses])
        new_updater = partial(MetadataUpdater, self.metadata, config)
        self.client = NetworkClient(Selector(config, CLOCK), new_updater, config, CLOCK)
        self.done: list[ClientResponse] = []

    def poll_until(self, condition: Callable[[], object]) -> None:
        for _ in range(MAX_POLLS):
            if condition():
                return
            self.client.poll(1000, CLOCK.monotonic_ms())
        raise AssertionError(f"not reached; last errors: {self.client.connections.last_errors()}")

    def know_topic(self, topic: str) -> None:
        self.metadata.add(topic, CLOCK.monotonic_ms())
        self.poll_until(lambda: topic in self.metadata.snapshot.topics)

    def make_ready(self, node: Node) -> None:
        self.poll_until(lambda: self.client.ready(node, CLOCK.monotonic_ms()))

    def send(self, node: Node, *, expect_response: bool = True) -> None:
        builder = Builder(ProduceRequest(acks=-1 if expect_response else 0, timeout_ms=1000), 3, 9)
        now = CLOCK.monotonic_ms()
        self.client.send(node.id, builder, now, self.done.append, expect_response=expect_response)


@pytest.fixture
def make_rig() -> Iterator[Callable[..., Rig]]:
    made: list[Rig] = []

    def make(servers: str, **settings: Any) -> Rig:
        made.append(Rig(servers, **settings))
        return made[-1]

    yield make
    for rig in made:
        rig.client.close()


@pytest.mark.mock_cluster
def test_bootstrap_metadata_and_requests_to_every_broker(
    mock_cluster_factory: Callable[[int], MockCluster], make_rig: Callable[..., Rig]
) -> None:
    cluster = mock_cluster_factory(3)
    cluster.create_topic("t", 4)
    rig = make_rig(cluster.current_bootstrap_servers())
    rig.know_topic("t")
    assert set(rig.metadata.snapshot.nodes) == {1, 2, 3}
    for node in rig.metadata.snapshot.nodes.values():
        rig.make_ready(node)
        rig.send(node)
    rig.poll_until(lambda: len(rig.done) == 3)
    assert all(response.body is not None for response in rig.done)
    used = rig.client.negotiated_versions()
    for number in (1, 2, 3):
        # The mock cluster refuses version 3 and later in a malformed body, which leads to version 0.
        assert used[number] == {ApiKey.API_VERSIONS: 0, ApiKey.PRODUCE: 9}


@pytest.mark.mock_cluster
def test_answers_to_requests_without_response_do_not_disturb_the_connection(
    mock_cluster_factory: Callable[[int], MockCluster], make_rig: Callable[..., Rig]
) -> None:
    rig = make_rig(mock_cluster_factory(1).current_bootstrap_servers())
    rig.poll_until(lambda: 1 in rig.metadata.snapshot.nodes)
    node = rig.metadata.snapshot.nodes[1]
    rig.make_ready(node)
    for number in range(1, 6):
        rig.send(node, expect_response=False)
        rig.poll_until(lambda number=number: len(rig.done) == number)  # type: ignore[misc]
    rig.send(node)
    rig.poll_until(lambda: len(rig.done) == 6)
    assert not any(response.disconnected for response in rig.done)
    assert rig.client.connections.last_error(1) is None


@pytest.mark.mock_cluster
def test_a_broker_that_goes_and_comes_back(
    mock_cluster_factory: Callable[[int], MockCluster], make_rig: Callable[..., Rig]
) -> None:
    cluster = mock_cluster_factory(1)
    cluster.create_topic("t", 1)
    rig = make_rig(cluster.current_bootstrap_servers())
    rig.know_topic("t")
    node = rig.metadata.snapshot.nodes[1]
    rig.make_ready(node)
    cluster.set_rtt_ms(60_000)
    rig.send(node)
    cluster.set_down(1)
    rig.poll_until(lambda: rig.done)
    assert rig.done[0].disconnected
    rig.poll_until(lambda: any("refused" in error for error in rig.client.connections.last_errors()))
    cluster.set_rtt_ms(0)
    cluster.set_up(1)
    rig.poll_until(lambda: 1 in rig.metadata.snapshot.nodes)
    rig.make_ready(rig.metadata.snapshot.nodes[1])


@pytest.mark.mock_cluster
def test_a_lowered_produce_version_is_used_and_one_too_low_is_a_clear_error(
    mock_cluster_factory: Callable[[int], MockCluster], make_rig: Callable[..., Rig]
) -> None:
    for highest, usable in ((7, True), (2, False)):
        cluster = mock_cluster_factory(1)
        cluster.set_api_versions(ApiKey.PRODUCE, 0, highest)
        rig = make_rig(cluster.current_bootstrap_servers())
        rig.poll_until(lambda rig=rig: 1 in rig.metadata.snapshot.nodes)
        node = rig.metadata.snapshot.nodes[1]
        rig.make_ready(node)
        rig.send(node)
        rig.poll_until(lambda rig=rig: rig.done)
        if usable:
            assert rig.client.negotiated_versions()[1][ApiKey.PRODUCE] == highest
        else:
            assert "0 to 2" in str(rig.done[0].unsupported_version)


def one_node_client(listener: Listener, **settings: Any) -> tuple[NetworkClient, Node]:
    node = Node(0, HOST, listener.address[1])
    config = ProducerConfig(bootstrap_servers=f"{HOST}:{node.port}", **settings)
    return NetworkClient(
        Selector(config, CLOCK), lambda client: NoteTakingUpdater([node]), config, CLOCK
    ), node


def poll_until(client: NetworkClient, condition: Callable[[], object]) -> None:
    for _ in range(MAX_POLLS):
        if condition():
            return
        client.poll(10_000, CLOCK.monotonic_ms())
    raise AssertionError("not reached")


@pytest.mark.parametrize(
    ("bytes_on_the_wire", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "HTTP server"),
        (b"\x15\x03\x03\x00\x02\x02\x50", "TLS"),
        (struct.pack(">i", -5), "-5 bytes"),
        (frame(b"\x7f" * 30), "correlation id"),
        (frame(b""), "too short"),
    ],
)
def test_a_peer_that_is_no_kafka_broker_is_named_as_what_it_looks_like(
    bytes_on_the_wire: bytes, words: str
) -> None:
    with Listener() as listener:
        client, node = one_node_client(listener)
        try:
            client.ready(node, CLOCK.monotonic_ms())
            peer = listener.accept()
            peer.sendall(bytes_on_the_wire)
            poll_until(client, lambda: client.connections.has_failed(node))
            assert words in str(client.connections.last_error(0))
            assert client.in_flight_request_count() == 0
        finally:
            client.close()


def answer_version_question(peer: Any, byte_by_byte: Callable[[bytes], None]) -> None:
    (size,) = struct.unpack(">i", receive_exactly(peer, 4))
    question = receive_exactly(peer, size)
    _, version, correlation_id = struct.unpack_from(">hhi", question)
    body = api_versions_response({0: (0, 9), 3: (0, 12), 18: (0, 4)}).encode(version)
    byte_by_byte(frame(struct.pack(">i", correlation_id) + body))


def test_answers_that_come_byte_by_byte_are_read_all_the_same() -> None:
    with Listener() as listener:
        client, node = one_node_client(listener)
        try:
            client.ready(node, CLOCK.monotonic_ms())
            peer = listener.accept()
            client.poll(10_000, CLOCK.monotonic_ms())
            client.poll(0, CLOCK.monotonic_ms())  # writes the question

            def drip(data: bytes) -> None:
                for i in range(len(data)):
                    assert not client.is_ready(node, CLOCK.monotonic_ms())
                    peer.sendall(data[i : i + 1])
                    client.poll(10_000, CLOCK.monotonic_ms())

            answer_version_question(peer, drip)
            poll_until(client, lambda: client.is_ready(node, CLOCK.monotonic_ms()))
        finally:
            client.close()


def test_dead_addresses_of_a_host_are_passed_over() -> None:
    with Listener() as listener, closed_port() as dead:
        port = listener.address[1]
        client, node = one_node_client(listener, reconnect_backoff_ms=1, reconnect_backoff_max_ms=2)
        client.connections._begin_lookup = at_once(
            lambda _host, _port: [
                *resolve_host("::1", dead),
                ResolvedAddress(2, (HOST, dead)),
                ResolvedAddress(2, (HOST, port)),
            ]
        )
        try:
            for _ in range(MAX_POLLS):
                client.ready(node, CLOCK.monotonic_ms())
                client.poll(1, CLOCK.monotonic_ms())
                if client.in_flight_request_count():
                    break
            client.poll(0, CLOCK.monotonic_ms())  # writes the question
            peer = listener.accept()
            answer_version_question(peer, peer.sendall)
            poll_until(client, lambda: client.is_ready(node, CLOCK.monotonic_ms()))
        finally:
            client.close()

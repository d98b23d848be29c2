"""The connections of a client by node: errors in words for errors and the log, and what is forgotten."""

from __future__ import annotations

import random

import pytest
from kproducer_messages import MetadataRequest

from kproducer._core.client.api_keys import ApiKey
from kproducer._core.client.api_versions import NodeApiVersions
from kproducer._core.client.client_request import ClientRequest, MessageBuilder
from kproducer._core.client.connections import Connections
from kproducer._core.client.in_flight_requests import InFlightRequests
from kproducer._core.client.node_connection import NodeConnection
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.network.host_resolver import ResolvedAddress
from kproducer._core.network.network_send import NetworkSend
from kproducer._core.runtime.clock import NEVER_MS
from kproducer.errors import NetworkError
from kproducer.types import Node
from tests.support.manual_clock import ManualClock
from tests.support.units.lookups import at_once
from tests.support.units.mock_selector import MockSelector

NOW = 1_000_000
NODE, BOOTSTRAP = Node(1, "one", 9092), Node(-1, "seed", 9092)


@pytest.fixture
def selector() -> MockSelector:
    selector = MockSelector(ManualClock())
    selector.fail_at_once = {"1"}
    return selector


@pytest.fixture
def in_flight() -> InFlightRequests:
    return InFlightRequests(5)


@pytest.fixture
def connections(selector: MockSelector, in_flight: InFlightRequests) -> Connections:
    return Connections(
        selector,  # type: ignore[arg-type]
        in_flight,
        ProducerConfig(bootstrap_servers=("seed:9092",)),
        lambda: [NODE, BOOTSTRAP],
        at_once(lambda host, port: [ResolvedAddress(2, (host, port))]),
        random.Random(1),
    )


def begin(connections: Connections, node: Node, now_ms: int = NOW) -> None:
    connections.connect_if_resolved(connections.begin(node, now_ms), now_ms)


def fail(connections: Connections, node: Node, now_ms: int = NOW) -> None:
    """An attempt to connect that fails at once."""
    with pytest.raises(NetworkError):
        begin(connections, node, now_ms)
    connection = connections.get(str(node.id))
    assert connection is not None
    connections.ended(connection, NetworkError("refused"), now_ms)


def test_a_broker_has_a_name_once_it_was_connected_to(
    selector: MockSelector, connections: Connections
) -> None:
    selector.fail_at_once.clear()
    assert connections.get("1") is None
    begin(connections, NODE, NOW)
    begin(connections, BOOTSTRAP, NOW)
    assert connections.get("1").broker == str(NODE)
    assert connections.get("-1").broker == "seed:9092 (bootstrap)"


def test_an_error_is_reported_instead_of_a_wait_until_the_next_connection_is_ready(
    selector: MockSelector,
    connections: Connections,
) -> None:
    selector.fail_at_once.clear()
    begin(connections, NODE, NOW)
    assert "still connecting to one:9092" in connections.last_errors()[0]
    connection = connections.get("1")
    assert connection is not None
    connections.ended(connection, NetworkError("refused"), NOW)
    assert connections.last_errors() == ["refused"]


def test_equal_errors_are_logged_once_per_minute_with_a_count(
    connections: Connections, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for wait_ms in (0, 1000, 2000, 60_000):
        fail(connections, NODE, NOW + wait_ms)
    assert len(caplog.records) == 2
    assert "2 more like this" in caplog.records[1].getMessage()


def test_the_next_setup_timeout_is_that_of_the_first_node_to_reach_it(
    selector: MockSelector, connections: Connections
) -> None:
    selector.fail_at_once.clear()
    assert connections.next_setup_timeout_ms(NOW) == NEVER_MS
    begin(connections, NODE, NOW)
    begin(connections, BOOTSTRAP, NOW + 5)
    wait = connections.next_setup_timeout_ms(NOW + 5)
    assert connections.past_setup_timeout(NOW + 5 + wait - 1) == []
    assert len(connections.past_setup_timeout(NOW + 5 + wait)) == 1


def test_a_node_at_another_address_starts_without_backoff(connections: Connections) -> None:
    for attempt in range(6):
        fail(connections, NODE, NOW + attempt)
    moved = NODE._replace(host="elsewhere")
    fail(connections, moved, NOW + 10)
    assert connections.poll_delay_ms(moved, NOW + 10) <= 50 * 1.2
    assert "elsewhere" in connections.get("1").broker


def test_brokers_that_left_the_cluster_are_forgotten_once_disconnected(connections: Connections) -> None:
    fail(connections, NODE)
    begin(connections, BOOTSTRAP, NOW)
    connections.retain([Node(2, "two", 9092)])
    assert connections.get("1") is None
    assert connections.get("-1") is not None


@pytest.mark.parametrize(
    ("api_key", "version", "expected"),
    [
        (ApiKey.PRODUCE, 5, 0),
        (ApiKey.PRODUCE, 6, 70),
        (ApiKey.METADATA, 5, 0),
        (ApiKey.METADATA, 6, 70),
        (ApiKey.API_VERSIONS, 1, 0),
        (ApiKey.API_VERSIONS, 2, 70),
    ],
)
def test_only_brokers_that_answer_at_once_leave_the_waiting_to_us(
    selector: MockSelector, connections: Connections, api_key: ApiKey, version: int, expected: int
) -> None:
    selector.fail_at_once.clear()
    begin(connections, NODE)
    connection = connections.get("1")
    assert connection is not None
    connections.throttle(connection, api_key, version, 70, NOW)
    assert connections.poll_delay_ms(NODE, NOW) == (expected or NEVER_MS)


def make_ready(connections: Connections, node: Node, now_ms: int = NOW) -> NodeConnection:
    begin(connections, node, now_ms)
    connection = connections.get(str(node.id))
    assert connection is not None
    connections.checking_api_versions(connection)
    connection.ready(NodeApiVersions(connection.broker, {}))
    return connection


def test_ready_connections_come_with_the_least_loaded_first_and_bootstrap_last(
    selector: MockSelector, connections: Connections, in_flight: InFlightRequests
) -> None:
    selector.fail_at_once.clear()
    assert not connections.is_any_connected()
    nodes = [Node(number, f"host-{number}", 9092) for number in (1, 2, 3)]
    for node in (BOOTSTRAP, *nodes):
        make_ready(connections, node)
    begin(connections, Node(4, "connecting", 9092))
    for destination, count in (("1", 2), ("2", 1), ("3", 5)):
        for _ in range(count):
            in_flight.add(request_to(destination))
    # Node 3 has as many requests in flight as it may have.
    assert [each.id for each in connections.ready(NOW)] == ["2", "1", "-1"]
    connections.get("2").throttle(NOW + 1)  # type: ignore[union-attr]
    assert [each.id for each in connections.ready(NOW)] == ["1", "-1"]
    assert connections.is_any_connected()


def request_to(destination: str) -> ClientRequest:
    """A request whose bytes are written."""
    request = ClientRequest(destination, MessageBuilder(MetadataRequest(), 0, 0), 1, True, NOW, 1000)
    request.send = NetworkSend(destination, [])
    return request

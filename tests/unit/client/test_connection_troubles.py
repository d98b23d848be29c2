"""What is wrong with each connection can be told in words, and the log is not flooded with it."""

from __future__ import annotations

import random

import pytest

from kproducer.client.cluster_connection_states import ClusterConnectionStates, ConnectionState
from kproducer.client.connection_troubles import ConnectionTroubles
from kproducer.client.in_flight_requests import InFlightRequests
from kproducer.errors import NetworkError
from kproducer.network.host_resolver import ResolvedAddress
from kproducer.types import Node
from tests.support.units.lookups import at_once

NODE, BOOTSTRAP = Node(1, "one", 9092), Node(-1, "seed", 9092)


def connection_states() -> ClusterConnectionStates:
    return ClusterConnectionStates(
        50,
        1000,
        10_000,
        30_000,
        at_once(lambda host, port: [ResolvedAddress(2, (host, port))]),
        random.Random(1),
    )


def test_a_broker_has_a_name_once_it_was_connected_to() -> None:
    troubles = ConnectionTroubles(connection_states(), InFlightRequests(5), 30_000)
    assert troubles.broker("1") == "node 1"
    troubles.connecting("1", NODE)
    troubles.connecting("-1", BOOTSTRAP)
    assert troubles.broker("1") == str(NODE)
    assert troubles.broker("-1") == "seed:9092 (bootstrap)"


def test_an_error_goes_before_what_is_waited_for_and_is_over_when_the_connection_is_ready() -> None:
    states = connection_states()
    troubles = ConnectionTroubles(states, InFlightRequests(5), 30_000)
    troubles.connecting("1", NODE)
    states.connecting("1", 1000, NODE.host, NODE.port)
    assert "still connecting to one:9092" in troubles.of_all([NODE, BOOTSTRAP])[0]
    troubles.connection_ended("1", ConnectionState.CONNECTING, NetworkError("refused"), 1000)
    assert troubles.of_all([NODE, BOOTSTRAP]) == [troubles.last_error("1")] == ["refused"]
    troubles.over("1")
    assert troubles.last_error("1") is None


def test_equal_ends_are_logged_once_a_minute_with_a_count(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    troubles = ConnectionTroubles(connection_states(), InFlightRequests(5), 30_000)
    for now_ms in (0, 1000, 2000, 60_000):
        troubles.connection_ended("1", ConnectionState.CONNECTING, NetworkError("refused"), now_ms)
    assert len(caplog.records) == 2
    assert "2 more like this" in caplog.records[1].getMessage()

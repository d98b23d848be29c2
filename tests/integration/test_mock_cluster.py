"""The mock cluster harness itself: the behaviour that other tests rely on."""

from __future__ import annotations

import os
import signal
import socket
import threading

import pytest

from tests.support.kafka.mock_cluster import MockCluster, MockClusterDiedError

pytestmark = pytest.mark.mock_cluster


def _connect(port: int) -> None:
    """Connect and disconnect. From another address, so that a socket never connects to itself."""
    socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.2", 0)).close()


def _port_of(bootstrap_server: str) -> int:
    return int(bootstrap_server.rpartition(":")[2])


def test_a_down_broker_refuses_connections_and_comes_back_on_the_same_port(mock_cluster):
    port = _port_of(mock_cluster.bootstrap_servers.split(",")[0])
    _connect(port)
    mock_cluster.set_down(1)
    with pytest.raises(ConnectionRefusedError):
        _connect(port)
    mock_cluster.set_up(1)
    _connect(port)


def test_pushed_errors_are_counted_per_broker(mock_cluster):
    mock_cluster.push_error_rtts(2, 0, (6, 0), (7, 10))
    assert mock_cluster.pending_errors(2, 0) == 2
    assert mock_cluster.pending_errors(1, 0) == 0


def test_a_failed_command_names_librdkafkas_reason(mock_cluster):
    mock_cluster.create_topic("t", partitions=1)
    with pytest.raises(RuntimeError, match="BROKER_NOT_AVAILABLE"):
        mock_cluster.set_leader("t", 0, 77)


def test_closing_the_cluster_ends_its_brokers():
    with MockCluster.start() as cluster:
        port = _port_of(cluster.bootstrap_servers)
        _connect(port)
    assert not cluster.is_alive
    with pytest.raises(ConnectionRefusedError):
        _connect(port)


def test_a_dead_child_is_reported_with_its_signal():
    with MockCluster.start() as cluster:
        os.kill(cluster.pid, signal.SIGKILL)
        with pytest.raises(MockClusterDiedError, match="-9"):
            cluster.set_up()


def test_the_child_ends_after_its_lifetime():
    with MockCluster.start(lifetime_seconds=1) as cluster:
        while cluster.is_alive:
            threading.Event().wait(0.05)

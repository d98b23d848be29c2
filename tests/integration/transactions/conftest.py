"""Three nodes of the newest Kafka (transaction protocol 2) and of a 3.x (protocol 1), once per session."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from kproducer import KafkaProducer
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.fixtures import start_or_skip, versions_under_test
from tests.support.kafka.maven_artifacts import NEWEST_VERSION

#: The last 3.x: its clusters do not have the feature transaction.version, which means protocol 1.
PROTOCOL_1_VERSION = "3.9.2"
PROPERTIES = {
    # By default, brokers check for timed-out transactions only every ten seconds.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    # By default, followers of a new topic may wait for a second, and its first record with them.
    "replica.fetch.backoff.ms": "50",
    # Tests that stop brokers move leaders; these must not move back in the middle of another test.
    "auto.leader.rebalance.enable": "false",
}
_VERSIONS = [each for each in (NEWEST_VERSION, PROTOCOL_1_VERSION) if each in versions_under_test()]

MakeProducer = Callable[..., KafkaProducer]


@pytest.fixture(scope="session", params=_VERSIONS)
def three_nodes(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    with start_or_skip(request.param, 3, PROPERTIES) as cluster:
        yield cluster


@pytest.fixture
def has_protocol_2(three_nodes: KafkaCluster) -> bool:
    return three_nodes.version == NEWEST_VERSION


@pytest.fixture
def make_producer(three_nodes: KafkaCluster) -> Iterator[MakeProducer]:
    """Producers with a transactional id, closed after the test; ``init=False``: not initialized."""
    producers = []

    def make(transactional_id: str, init: bool = True, **settings: object) -> KafkaProducer:
        settings = {
            "bootstrap_servers": three_nodes.bootstrap_servers,
            "linger_ms": 0,
            "retry_backoff_ms": 20,
            "reconnect_backoff_ms": 10,
            **settings,
        }
        producer = KafkaProducer(enable_idempotence=True, transactional_id=transactional_id, **settings)
        producers.append(producer)
        if init:
            producer.init_transactions()
        return producer

    yield make
    for producer in producers:
        producer.close(timeout=5)


@pytest.fixture
def start_script(three_nodes: KafkaCluster) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Runs ``tests.integration.transactions.scripted_transactions`` in its own process."""
    children = []

    def start(script: str, servers: str, transactional_id: str, topic: str) -> subprocess.Popen[str]:
        module = "tests.integration.transactions.scripted_transactions"
        command = [sys.executable, "-W", "error", "-m", module]
        child = subprocess.Popen(
            [*command, script, servers, transactional_id, topic, f"{topic}-group"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()

"""A DNS server that does not answer: connections that need no lookup continue, and close does not wait."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kproducer import (
    BootstrapResolutionError,
    CloseTimeoutError,
    KafkaError,
    Outcome,
    ProducerConfig,
)
from kproducer._core.transactions.coordinator_session import CoordinatorSession
from kproducer.testing.fakebroker import FakeCluster
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S
from tests.scenarios.test_fork_and_exit import run_script

SLOW_HOST = "slow.example"


class NameService:
    """``getaddrinfo`` that answers for one host only after the test allows it."""

    def __init__(self) -> None:
        self._ask = socket.getaddrinfo
        self.asked = threading.Event()
        self.answers = threading.Event()
        self.threads: set[threading.Thread] = set()

    def getaddrinfo(self, host: Any, *arguments: Any, **options: Any) -> Any:
        if host == SLOW_HOST:
            if options.get("flags"):
                raise socket.gaierror("not a literal address")
            self.threads.add(threading.current_thread())
            self.asked.set()
            assert self.answers.wait(PATIENCE_S)
            host = "127.0.0.1"
        return self._ask(host, *arguments, **options)


@pytest.fixture
def service(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Iterator[NameService]:
    service = NameService()
    monkeypatch.setattr(socket, "getaddrinfo", service.getaddrinfo)
    yield service
    service.answers.set()
    # The sessions' threads end when they are closed, before the stage checks for leaks.
    for producer in stage.producers:
        producer.kafka.close()
    for thread in service.threads:
        thread.join(PATIENCE_S)


@pytest.fixture
def two(stage: Stage) -> FakeCluster:
    """Partition 0 of t has a leader with an IP address, partition 1 one with a host name."""
    cluster = stage.cluster(2, topics={"t": 2})
    cluster.brokers[2].advertised = (SLOW_HOST, cluster.brokers[2].port)
    return cluster


def test_a_slow_lookup_delays_neither_other_brokers_nor_close(
    stage: Stage, two: FakeCluster, service: NameService
) -> None:
    producer = stage.producer(two, bootstrap_servers=two.bootstrap_servers[:1])
    slow = producer.send(partition=1)
    assert service.asked.wait(PATIENCE_S)
    for _ in range(20):
        producer.send(partition=0).metadata()
    assert not slow.future.done()
    with pytest.raises(CloseTimeoutError, match="name service"):
        producer.kafka.close(timeout=0.2)
    assert not service.answers.is_set()  # close did not wait for the lookup
    assert slow.error().outcome is Outcome.NOT_SENT


def test_records_are_sent_as_soon_as_the_lookup_succeeds(
    stage: Stage, two: FakeCluster, service: NameService
) -> None:
    producer = stage.producer(two, bootstrap_servers=two.bootstrap_servers[:1])
    slow = producer.send(partition=1)
    assert service.asked.wait(PATIENCE_S)
    service.answers.set()
    assert slow.metadata().offset == 0


def test_a_slow_bootstrap_lookup_does_not_block_the_next_server(stage: Stage, service: NameService) -> None:
    cluster = stage.cluster()
    producer = stage.producer(
        cluster, bootstrap_servers=[f"{SLOW_HOST}:{cluster.brokers[1].port}", *cluster.bootstrap_servers]
    )
    producer.send().metadata()
    producer.kafka.close()
    assert not service.answers.is_set()


def test_a_coordinator_session_continues_with_other_brokers(two: FakeCluster, service: NameService) -> None:
    two.coordination.moved[1, "with-address"] = 1
    two.coordination.moved[1, "with-name"] = 2
    session = CoordinatorSession(ProducerConfig(bootstrap_servers=two.bootstrap_servers[:1]))
    try:
        with pytest.raises(KafkaError, match="name service"):
            session.fence(["with-name"], 0.5)
        assert service.asked.is_set()
        session.fence(["with-address"], PATIENCE_S)
        service.answers.set()
        session.fence(["with-name"], PATIENCE_S)
    finally:
        session.close()


def test_names_that_do_not_resolve_in_time_end_the_producer(stage: Stage, service: NameService) -> None:
    """KIP-909, with a name service that does not answer at all."""
    producer = stage.producer(
        stage.cluster(),
        bootstrap_servers=[f"{SLOW_HOST}:9092"],
        bootstrap_resolve_timeout_ms=200,
        max_block_ms=600_000,
        transactional_id="tx",
    )
    with pytest.raises(BootstrapResolutionError, match="bootstrap_resolve_timeout_ms=200"):
        producer.kafka.init_transactions()
    assert "bootstrap_resolve_timeout_ms=200" in (producer.kafka.health().fatal_error or "")
    for _ in range(2):
        with pytest.raises(BootstrapResolutionError, match=rf"{SLOW_HOST}:9092.*name service has not"):
            producer.kafka.partitions_for("t")
    producer.kafka.close()
    assert not service.answers.is_set()


@pytest.mark.parametrize("idempotent", [True, False])
def test_health_says_that_no_name_was_resolved(idempotent: bool, stage: Stage, service: NameService) -> None:
    producer = stage.producer(
        stage.cluster(),
        bootstrap_servers=[f"{SLOW_HOST}:9092"],
        bootstrap_resolve_timeout_ms=200,
        enable_idempotence=idempotent,
    )
    with pytest.raises(BootstrapResolutionError):
        producer.kafka.partitions_for("t")
    assert "bootstrap_resolve_timeout_ms=200" in (producer.kafka.health().fatal_error or "")


@pytest.mark.parametrize("idempotent", [True, False])
def test_no_broker_will_assign_an_id_if_no_name_was_resolved(
    idempotent: bool, stage: Stage, service: NameService
) -> None:
    producer = stage.producer(
        stage.cluster(),
        bootstrap_servers=[f"{SLOW_HOST}:9092"],
        bootstrap_resolve_timeout_ms=200,
        enable_idempotence=idempotent,
    )
    for _ in range(2):
        with pytest.raises(BootstrapResolutionError):
            producer.kafka.client_instance_id(timeout=PATIENCE_S)


def test_records_wait_for_a_name_that_resolves_in_time(stage: Stage, service: NameService) -> None:
    cluster = stage.cluster()
    producer = stage.producer(
        cluster,
        bootstrap_servers=[f"{SLOW_HOST}:{cluster.brokers[1].port}"],
        bootstrap_resolve_timeout_ms=1000 * int(PATIENCE_S),
    )
    assert service.asked.wait(PATIENCE_S)
    service.answers.set()
    producer.send().metadata()


_HANGING_NAME = """
        import socket, threading
        ask, asked, parent = socket.getaddrinfo, threading.Event(), os.getpid()

        def getaddrinfo(host, *arguments, **options):
            if host == "slow.example":
                if options.get("flags"):
                    raise socket.gaierror("not a literal address")
                if os.getpid() == parent:
                    asked.set()
                    threading.Event().wait()
                host = "127.0.0.1"
            return ask(host, *arguments, **options)

        socket.getaddrinfo = getaddrinfo
        p = producer(request_timeout_ms=4000, delivery_timeout_ms=5000)
        p.send("t", b"slow", partition=1)
        assert asked.wait(60)
        p.send("t", b"fine", partition=0).result(60)
"""


def test_a_hanging_lookup_does_not_block_the_interpreters_exit(two: FakeCluster) -> None:
    run_script(two, _HANGING_NAME)
    assert [record.value for record in two.records("t")] == [b"fine"]


def test_a_forked_child_does_its_own_lookups(two: FakeCluster) -> None:
    run_script(
        two,
        _HANGING_NAME
        + """
        def child():
            p.send("t", b"of the child", partition=1).result(60)
            p.close()

        assert in_child(child) == 0
        p.close(0)
        """,
    )
    assert [record.value for record in two.records("t", 1)] == [b"of the child"]

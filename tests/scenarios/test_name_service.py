"""A name service that does not answer: connections that need no name go on, and closing does not wait."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kproducer import CloseTimeoutError, KafkaError, Outcome, ProducerConfig
from kproducer.transactions.coordinator_session import CoordinatorSession
from tests.fakebroker import FakeCluster
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S
from tests.scenarios.test_fork_and_exit import run_script

SLOW_HOST = "slow.example"


class NameService:
    """``getaddrinfo`` for one host answers only when the test says so."""

    def __init__(self) -> None:
        self._ask = socket.getaddrinfo
        self.asked = threading.Event()
        self.answers = threading.Event()
        self.threads: set[threading.Thread] = set()

    def getaddrinfo(self, host: Any, *arguments: Any, **options: Any) -> Any:
        if host == SLOW_HOST:
            if options.get("flags"):
                raise socket.gaierror("it is no literal address")
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
    # Their threads end when they are closed, and the stage looks for what is left.
    for producer in stage.producers:
        producer.kafka.close()
    for thread in service.threads:
        thread.join(PATIENCE_S)


@pytest.fixture
def two(stage: Stage) -> FakeCluster:
    """Partition 0 of t is led by a broker with an address, 1 by one with a name."""
    cluster = stage.cluster(2, topics={"t": 2})
    cluster.brokers[2].advertised = (SLOW_HOST, cluster.brokers[2].port)
    return cluster


def test_a_slow_name_of_one_broker_delays_neither_the_others_nor_the_close(
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
    assert not service.answers.is_set()  # it did not wait for that
    assert slow.error().outcome is Outcome.NOT_SENT


def test_records_go_out_as_soon_as_the_name_is_known(
    stage: Stage, two: FakeCluster, service: NameService
) -> None:
    producer = stage.producer(two, bootstrap_servers=two.bootstrap_servers[:1])
    slow = producer.send(partition=1)
    assert service.asked.wait(PATIENCE_S)
    service.answers.set()
    assert slow.metadata().offset == 0


def test_a_slow_bootstrap_server_does_not_keep_the_next_one_from_being_asked(
    stage: Stage, service: NameService
) -> None:
    cluster = stage.cluster()
    producer = stage.producer(
        cluster, bootstrap_servers=[f"{SLOW_HOST}:{cluster.brokers[1].port}", *cluster.bootstrap_servers]
    )
    producer.send().metadata()
    producer.kafka.close()
    assert not service.answers.is_set()


def test_a_session_with_coordinators_goes_on_with_the_others(two: FakeCluster, service: NameService) -> None:
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


_HANGING_NAME = """
        import socket, threading
        ask, asked, parent = socket.getaddrinfo, threading.Event(), os.getpid()

        def getaddrinfo(host, *arguments, **options):
            if host == "slow.example":
                if options.get("flags"):
                    raise socket.gaierror("it is no literal address")
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


def test_a_lookup_that_hangs_does_not_keep_the_interpreter_from_ending(two: FakeCluster) -> None:
    run_script(two, _HANGING_NAME)
    assert [record.value for record in two.records("t")] == [b"fine"]


def test_a_forked_child_looks_names_up_by_itself(two: FakeCluster) -> None:
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

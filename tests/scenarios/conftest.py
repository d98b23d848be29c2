"""Fixtures of the scenarios: fake clusters, watched producers, and the checks after each test.

``KPRODUCER_HAND_OVERS=plaintext`` or ``tls`` has the data plane hand everything back to Python at random, in
one of ten rounds of the I/O thread and at one of ten sends. With ``tls``, brokers and producers encrypt.
"""

from __future__ import annotations

import gc
import logging
import os
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from kproducer._core.network.selector import Selector
from kproducer._core.sender import fast_lanes
from kproducer._core.sender.fast_lanes import FastLanes
from kproducer.testing.fakebroker import FakeCluster
from tests.scenarios import internals
from tests.scenarios.harness import PollMeter, Resources, WatchedProducer
from tests.support.tls_peer import authority, certificate, server_context

#: "plaintext", "tls", or empty: no hand-overs without a reason.
FORCED_HAND_OVERS = os.environ.get("KPRODUCER_HAND_OVERS", "")
_SHARE = 0.1


class _Surprises(logging.Handler):
    """Collects log messages of the producer that must never occur."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "nexpected error" in record.getMessage():
            self.texts.append(f"{record.getMessage()}: {record.exc_info and record.exc_info[1]!r}")


class Stage:
    """Creates clusters and producers for one test, and checks and closes them afterwards.

    Attributes:
        polls: number of polls of all I/O threads.
    """

    def __init__(self) -> None:
        gc.collect()
        self._resources = Resources()
        self.polls = PollMeter()
        self._surprises = _Surprises()
        logging.getLogger("kproducer").addHandler(self._surprises)
        self.clusters: list[FakeCluster] = []
        self.producers: list[WatchedProducer] = []

    def cluster(
        self, broker_count: int = 1, topics: dict[str, int] | None = None, **options: Any
    ) -> FakeCluster:
        """A cluster; ``topics`` maps names to partition counts (default: "t" with one)."""
        cluster = FakeCluster(broker_count, **options)
        self.clusters.append(cluster)
        if FORCED_HAND_OVERS == "tls":
            cluster.tls = server_context(certificate("127.0.0.1"))
        for name, partitions in ({"t": 1} if topics is None else topics).items():
            cluster.create_topic(name, partitions)
        return cluster

    def producer(self, cluster: FakeCluster, **config: Any) -> WatchedProducer:
        if FORCED_HAND_OVERS == "tls" and "security_protocol" not in config:
            config.update(security_protocol="SSL", ssl_truststore_certificates=authority().pem)
        producer = WatchedProducer(cluster, **config)
        self.producers.append(producer)
        return producer

    def finish(self, *, failed: bool) -> None:
        """Close everything; if the test passed, check the standing promises."""
        try:
            for producer in self.producers:
                if failed:
                    producer.close(0)
                else:
                    producer.check()
        finally:
            for cluster in self.clusters:
                cluster.close()
            logging.getLogger("kproducer").removeHandler(self._surprises)
        if failed:
            return
        assert self._surprises.texts == []
        violations = [text for cluster in self.clusters for text in cluster.violations]
        assert violations == []
        events = sum(len(c.requests()) + c.accepted_count() for c in self.clusters)
        self.polls.check(events + sum(len(p.sent) for p in self.producers))
        self.producers.clear()
        ports = {b.node_id: b.port for c in self.clusters for b in c.brokers.values()}
        try:
            self._resources.check()
        except AssertionError as error:
            raise AssertionError(f"{error}; the brokers' ports: {ports}") from None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    if report.when == "call":
        item.stash[_PASSED] = report.passed
    return report


_PASSED = pytest.StashKey[bool]()


@pytest.fixture(autouse=bool(FORCED_HAND_OVERS))
def hand_overs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hand-overs without a reason: see the top of this file. The seed is the test's name."""
    chooser = random.Random(request.node.nodeid)
    after_send: list[None] = []
    send = WatchedProducer.send

    def takes_back() -> bool:
        if after_send:
            after_send.clear()
            return True
        return chooser.random() < _SHARE

    def send_and_take_back(producer: WatchedProducer, *arguments: Any, **options: Any) -> Any:
        sent = send(producer, *arguments, **options)
        if chooser.random() < _SHARE:
            after_send.append(None)
            internals.begin_round(producer.kafka)  # otherwise, lanes that need no help make rounds long
        return sent

    monkeypatch.setattr(fast_lanes, "FastLanes", partial(FastLanes, takes_back=takes_back))
    monkeypatch.setattr(WatchedProducer, "send", send_and_take_back)


@pytest.fixture
def stage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    made = Stage()
    poll: Callable[..., Any] = Selector.poll

    def counted(selector: Selector, *args: Any, **options: Any) -> Any:
        made.polls.count += 1
        return poll(selector, *args, **options)

    monkeypatch.setattr(Selector, "poll", counted)
    yield made
    made.finish(failed=not request.node.stash.get(_PASSED, False))


@pytest.fixture
def cluster(stage: Stage) -> FakeCluster:
    """One broker, topic "t" with one partition."""
    return stage.cluster()


@pytest.fixture(params=[1, 2])
def one(stage: Stage, request: pytest.FixtureRequest) -> FakeCluster:
    """One broker, with each of the transaction protocols."""
    cluster = stage.cluster(1, topics={"t": 2})
    cluster.transaction_version = request.param
    return cluster

"""Fixtures of the scenarios: fake clusters, watched producers, and the checks after each test."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kproducer._core.network.selector import Selector
from kproducer.testing.fakebroker import FakeCluster
from tests.scenarios.harness import PollMeter, Resources, WatchedProducer


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
        for name, partitions in ({"t": 1} if topics is None else topics).items():
            cluster.create_topic(name, partitions)
        return cluster

    def producer(self, cluster: FakeCluster, **config: Any) -> WatchedProducer:
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

"""Fixtures for all test directories: Apache Kafka and mock clusters."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings

from build_tools.native_build import stale_modules
from kproducer import build_info
from tests.support.browser import skip_or_fail_without_browser
from tests.support.identity_provider import IdentityProvider
from tests.support.kafka.fixtures import (
    each_kafka,
    kafka,
    kafka_three_nodes,
    resolve_for,
    skip_or_fail_without_kafka,
)
from tests.support.kafka.mock_cluster import MockCluster, MockClusterProcess
from tests.support.kerberos import skip_or_fail_without_kerberos

__all__ = ["each_kafka", "kafka", "kafka_three_nodes", "mock_cluster", "mock_cluster_factory"]

MockClusterFactory = Callable[..., MockCluster]

# Hypothesis also limits the time per example and for data, which a busy machine exceeds by chance.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_sessionstart() -> None:
    """A run with the native core fails if parts of the core are missing."""
    missing = build_info().missing_modules
    if missing and os.environ.get("KPRODUCER_KERNEL") == "native":
        pytest.exit(f"KPRODUCER_KERNEL=native, but these modules are not usable: {'; '.join(missing)}", 4)


def pytest_report_header() -> list[str]:
    info = build_info()
    lines = [f"kproducer: {info.kernel} kernel ({info.reason}), {info.client} client"]
    if stale := stale_modules():
        lines.append(f"kproducer: compiled from older sources, run `make native`: {', '.join(stale)}")
    return lines


def pytest_collection_finish(session: pytest.Session) -> None:
    resolve_for(session)


def pytest_runtest_setup(item: pytest.Item) -> None:
    skip_or_fail_without_kafka(item)
    skip_or_fail_without_kerberos(item)
    skip_or_fail_without_browser(item)


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Exclude everything that is alive after a module from garbage collection.

    Hundreds of tests run the garbage collector to check for leaks; traversing everything that was imported
    and generated before them took longer than the tests.
    """
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


class _MockClusterHost:
    """Provides the session's mock process, and a new one if a test has crashed the last one."""

    def __init__(self) -> None:
        self._process: MockClusterProcess | None = None

    def process(self) -> MockClusterProcess:
        if self._process is not None and not self._process.is_alive:
            self.close()
        if self._process is None:
            self._process = MockClusterProcess()
        return self._process

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None


@pytest.fixture(scope="session")
def _mock_cluster_host() -> Iterator[_MockClusterHost]:
    host = _MockClusterHost()
    yield host
    host.close()


@pytest.fixture
def mock_cluster_factory(_mock_cluster_host: _MockClusterHost) -> Iterator[MockClusterFactory]:
    """Creates mock clusters with ``factory(broker_count=1)``; they end with the test."""
    clusters: list[MockCluster] = []

    def make(broker_count: int = 1) -> MockCluster:
        clusters.append(_mock_cluster_host.process().cluster(broker_count))
        return clusters[-1]

    yield make
    for cluster in clusters:
        cluster.close()


@pytest.fixture
def mock_cluster(mock_cluster_factory: MockClusterFactory) -> MockCluster:
    """A mock cluster of three brokers, for one test (``mock_cluster.create_topic(name, partitions)``)."""
    return mock_cluster_factory(broker_count=3)


@pytest.fixture(scope="module")
def shared_provider() -> Iterator[IdentityProvider]:
    """An OAuth server; a test that changes it has to undo that."""
    with IdentityProvider() as provider:
        yield provider

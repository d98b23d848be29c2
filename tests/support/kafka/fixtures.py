"""pytest fixtures that start Apache Kafka, and the message that says why it is not available.

Without Java or Maven the tests are skipped; ``KPRODUCER_REQUIRE_KAFKA=1`` makes that a failure.
``KPRODUCER_KAFKA_VERSIONS=4.4.0,2.8.2`` limits the versions of ``each_kafka``.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.kafka.cluster import QUICK_START_OPTIONS, KafkaCluster
from tests.support.kafka.maven_artifacts import (
    DUMP_TOOL_VERSION,
    KAFKA_VERSIONS,
    NEWEST_VERSION,
    KafkaUnavailableError,
    class_path,
    is_cached,
)
from tests.support.requirements import REQUIRE_KAFKA, skip_or_fail


def versions_under_test() -> tuple[str, ...]:
    chosen = os.environ.get("KPRODUCER_KAFKA_VERSIONS")
    return tuple(chosen.split(",")) if chosen else KAFKA_VERSIONS


@functools.cache
def _what_is_missing() -> str | None:
    try:
        for version in _needed_versions():
            class_path(version)
    except KafkaUnavailableError as error:
        return str(error)
    return None


def _needed_versions() -> list[str]:
    return sorted({*versions_under_test(), NEWEST_VERSION, DUMP_TOOL_VERSION})


def resolve_for(session: pytest.Session) -> None:
    """For ``pytest_collection_finish``: download before the first test and its timeout."""
    needs_kafka = any(item.get_closest_marker("kafka") for item in session.items)
    if not needs_kafka or session.config.option.collectonly:
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not all(map(is_cached, _needed_versions())):
        reporter.write_line(f"resolving Apache Kafka {', '.join(_needed_versions())} with Maven (once)")
    _what_is_missing()


def skip_or_fail_without_kafka(item: pytest.Item) -> None:
    """For ``pytest_runtest_setup``: pytest folds skips from there into one line of the summary."""
    if item.get_closest_marker("kafka") is not None and _what_is_missing() is not None:
        skip_or_fail(REQUIRE_KAFKA, f"tests with Apache Kafka: {_what_is_missing()}")


def start_or_skip(
    version: str,
    node_count: int = 1,
    properties: dict[str, str] | None = None,
    listeners: Mapping[str, str] | None = None,
    java_options: Iterable[str] = (),
    classes: Path | None = None,
) -> KafkaCluster:
    """A running cluster. Otherwise the test is skipped, or fails if Kafka is required."""
    options = (*QUICK_START_OPTIONS, *java_options)
    try:
        return KafkaCluster(
            version,
            node_count,
            properties=properties,
            listeners=listeners,
            java_options=options,
            classes=classes,
        )
    except KafkaUnavailableError as error:
        unavailable = str(error)
    skip_or_fail(REQUIRE_KAFKA, f"tests with Apache Kafka: {unavailable}")


@pytest.fixture(scope="session", params=versions_under_test())
def each_kafka(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """One node of each version: pytest orders the tests so that one version runs at a time."""
    with start_or_skip(request.param) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaCluster]:
    """One node of the newest version."""
    with start_or_skip(NEWEST_VERSION) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def kafka_three_nodes() -> Iterator[KafkaCluster]:
    """Three nodes of the newest version; topics have three replicas, two of which must be in sync."""
    with start_or_skip(NEWEST_VERSION, node_count=3) as cluster:
        yield cluster

"""ApiVersions on every connection, and requests in versions that both sides support."""

from __future__ import annotations

import threading

import pytest

from kproducer.errors.broker_errors import UnsupportedVersionError
from kproducer.testing.fakebroker import Close, FakeCluster, Stall, faults
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S

PRODUCE, METADATA, API_VERSIONS = 0, 3, 18


@pytest.mark.parametrize("version", range(3, 14))
def test_every_produce_version_delivers(stage: Stage, cluster: FakeCluster, version: int) -> None:
    cluster.set_versions(PRODUCE, (3, version))
    producer = stage.producer(cluster)
    assert producer.send(key=b"k", headers=[("h", b"v")]).metadata().offset == 0
    assert {r.api_version for r in cluster.requests(PRODUCE)} == {version}


@pytest.mark.parametrize("version", range(0, 14))
def test_every_metadata_version_finds_the_leader(stage: Stage, version: int) -> None:
    cluster = stage.cluster(2, topics={"t": 4})
    cluster.set_versions(METADATA, (0, version))
    # Topic ids exist since Metadata 10; without them, Produce requests must use topic names.
    cluster.set_versions(PRODUCE, (3, 13 if version >= 10 else 12))
    producer = stage.producer(cluster)
    assert [producer.send(partition=p).metadata().offset for p in range(4)] == [0, 0, 0, 0]
    assert {r.api_version for r in cluster.requests(METADATA)} == {version}


@pytest.mark.parametrize("version", range(0, 6))
def test_every_api_versions_version_is_understood(stage: Stage, cluster: FakeCluster, version: int) -> None:
    cluster.set_versions(API_VERSIONS, (0, version))
    producer = stage.producer(cluster)
    producer.send().metadata()
    assert {r.api_version for r in cluster.requests(PRODUCE)} == {13}


@pytest.mark.parametrize("refusal", ["range", "empty", "all", "own_version"])
@pytest.mark.parametrize("newest", [0, 2])
def test_api_versions_falls_back_on_the_same_connection(
    stage: Stage, cluster: FakeCluster, refusal: str, newest: int
) -> None:
    cluster.set_versions(API_VERSIONS, (0, newest))
    cluster.brokers[1].refusal = refusal
    producer = stage.producer(cluster)
    assert producer.send().metadata().offset == 0
    per_connection: dict[int, list[int]] = {}
    for request in cluster.requests(API_VERSIONS):
        per_connection.setdefault(request.connection_id, []).append(request.api_version)
    # A refusal in another body than KIP-511's names no range that can be read.
    named = newest if refusal in ("range", "all") else 0
    assert set(map(tuple, per_connection.values())) == {(5, named)}


def test_a_broker_that_closes_on_api_versions_is_backed_off_and_named(
    stage: Stage, cluster: FakeCluster
) -> None:
    cluster.set_versions(API_VERSIONS, None)
    cluster.brokers[1].refusal = "close"
    producer = stage.producer(
        cluster, max_block_ms=400, reconnect_backoff_ms=50, reconnect_backoff_max_ms=100
    )
    error = producer.failing_send()
    assert f"127.0.0.1:{cluster.brokers[1].port}" in str(error)
    assert cluster.accepted_count() <= 16


@pytest.mark.parametrize("offered", [(0, 2), (20, 22), None])
def test_a_broker_without_a_common_produce_version_is_a_clear_error(
    stage: Stage, cluster: FakeCluster, offered: tuple[int, int] | None
) -> None:
    cluster.set_versions(PRODUCE, offered)
    producer = stage.producer(cluster, max_block_ms=30_000)
    error = producer.failing_send()
    assert isinstance(error, UnsupportedVersionError)
    assert producer.was_not_sent(error)
    assert "Produce" in str(error) or "PRODUCE" in str(error)
    assert "3" in str(error)
    assert "13" in str(error)
    if offered is not None:
        assert str(offered[0]) in str(error)
        assert str(offered[1]) in str(error)
    assert cluster.requests(PRODUCE) == []


def test_a_broker_without_a_common_metadata_version_is_an_error(stage: Stage, cluster: FakeCluster) -> None:
    cluster.set_versions(METADATA, (40, 41))
    producer = stage.producer(cluster, max_block_ms=1000)
    error = producer.failing_send()
    assert "Metadata" in str(error) or "METADATA" in str(error)
    assert "40" in str(error)
    assert cluster.requests(METADATA) == []


def test_zstd_to_a_broker_before_produce_7_fails_locally(stage: Stage, cluster: FakeCluster) -> None:
    cluster.set_versions(PRODUCE, (3, 6))
    producer = stage.producer(cluster, compression_type="zstd")
    error = producer.failing_send()
    assert producer.was_not_sent(error)
    assert "zstd" in str(error).lower()
    assert cluster.requests(PRODUCE) == []


def test_an_unanswered_version_check_ends_and_the_next_connection_works(
    stage: Stage, cluster: FakeCluster
) -> None:
    cluster.control(API_VERSIONS, lambda context: Stall())
    producer = stage.producer(cluster, request_timeout_ms=250)
    assert producer.send().metadata().offset == 0
    stalled, *others = cluster.requests(API_VERSIONS)
    assert stalled.connection_id not in {r.connection_id for r in others}


def test_a_connection_that_is_accepted_and_never_served_is_given_up(
    stage: Stage, cluster: FakeCluster
) -> None:
    cluster.control_accept(lambda _, number: Stall() if number == 1 else None)
    producer = stage.producer(cluster, request_timeout_ms=250)
    assert producer.send().metadata().offset == 0


@pytest.mark.parametrize("reset", [False, True])
def test_a_disconnect_during_the_version_check_is_retried_with_backoff(
    stage: Stage, cluster: FakeCluster, reset: bool
) -> None:
    cluster.control(API_VERSIONS, lambda context: Close(reset), times=3)
    producer = stage.producer(cluster, reconnect_backoff_ms=40, reconnect_backoff_max_ms=80)
    assert producer.send().metadata().offset == 0
    times = [request.arrived_at_s for request in cluster.requests(API_VERSIONS)][:4]
    assert (times[-1] - times[0]) * 1000 >= (40 + 40 + 40) * 0.7


def test_closing_during_the_version_check_is_clean(stage: Stage, cluster: FakeCluster) -> None:
    cluster.control(API_VERSIONS, lambda context: Stall(), times=None)
    producer = stage.producer(cluster, max_block_ms=600_000)
    errors: list[object] = []
    caller = threading.Thread(target=lambda: errors.append(producer.failing_send()))
    caller.start()
    cluster.wait_for_requests(API_VERSIONS, 1)
    producer.close(PATIENCE_S)
    caller.join(PATIENCE_S)
    assert len(errors) == 1


def test_versions_are_chosen_for_each_node(stage: Stage) -> None:
    cluster = stage.cluster(3, topics={"t": 3})
    for broker_id, newest in ((1, 3), (2, 9), (3, 12)):
        cluster.set_versions(PRODUCE, (3, newest), broker_id)
    producer = stage.producer(cluster)
    for partition in range(3):
        producer.send(partition=partition).metadata()
    versions = {r.broker_id: r.api_version for r in cluster.requests(PRODUCE)}
    assert versions == {1: 3, 2: 9, 3: 12}


def test_a_mixed_cluster_uses_ids_where_it_can(stage: Stage) -> None:
    cluster = stage.cluster(2, topics={"t": 2})
    cluster.set_versions(PRODUCE, (3, 8), 1)
    producer = stage.producer(cluster)
    for partition in (0, 1, 0, 1):
        producer.send(partition=partition).metadata()
    assert {r.broker_id: r.api_version for r in cluster.requests(PRODUCE)} == {1: 8, 2: 13}


@pytest.mark.parametrize(("before", "after"), [(13, 5), (5, 13)])
def test_a_broker_that_returns_with_another_version_is_renegotiated(
    stage: Stage, cluster: FakeCluster, before: int, after: int
) -> None:
    cluster.set_versions(PRODUCE, (3, before))
    producer = stage.producer(cluster)
    producer.send().metadata()
    cluster.kill(1)
    cluster.set_versions(PRODUCE, (3, after))
    cluster.restart(1)
    assert producer.send().metadata().offset == 1
    assert cluster.requests(PRODUCE)[-1].api_version == after


def test_a_downgrade_with_a_request_in_flight_is_renegotiated_for_the_retry(
    stage: Stage, cluster: FakeCluster
) -> None:
    """The broker goes down with a request in flight and returns with an older version."""
    producer = stage.producer(cluster)
    producer.send().metadata()
    cluster.control(PRODUCE, faults.stall_before())
    sent = producer.send()
    cluster.wait_for_requests(PRODUCE, 2)
    cluster.kill(1)
    cluster.set_versions(PRODUCE, (3, 3))
    cluster.restart(1)
    assert sent.metadata().offset == 1
    assert cluster.requests(PRODUCE)[-1].api_version == 3


def test_each_connection_begins_with_api_versions(stage: Stage) -> None:
    cluster = stage.cluster(2, topics={"t": 2})
    producer = stage.producer(cluster)
    for partition in (0, 1):
        producer.send(partition=partition).metadata()
    first: dict[int, int] = {}
    for request in cluster.requests():
        first.setdefault(request.connection_id, request.api_key)
    assert set(first.values()) == {API_VERSIONS}


def test_api_versions_contains_the_clients_name(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster, client_id="demo-1")
    producer.send().metadata()
    message = cluster.requests(API_VERSIONS)[0].message
    assert message.client_software_name == "kproducer"
    assert message.client_software_version[0].isdigit()
    assert {r.client_id for r in cluster.requests()} == {"demo-1"}

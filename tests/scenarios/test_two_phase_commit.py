"""Transactions that do not time out (KIP-939), and brokers that do not have them."""

from __future__ import annotations

import logging

import pytest

from kproducer import AuthorizationError, KafkaProducer
from kproducer.testing.fakebroker import FakeCluster
from tests.scenarios.conftest import Stage
from tests.scenarios.transactions import committed, transactional

INIT = 22
STABLE, WITH_TWO_PHASE_COMMIT = (0, 5), (0, 6)


def commit(producer: KafkaProducer, value: bytes) -> None:
    with producer.transaction():
        producer.send("t", value, partition=0)


def asked(cluster: FakeCluster) -> list[tuple[int, bool, bool]]:
    """The version of each InitProducerId, and what it asks for."""
    return [
        (request.api_version, request.message.enable2_pc, request.message.keep_prepared_txn)
        for request in cluster.requests(INIT)
    ]


@pytest.mark.parametrize("transaction_version", [1, 2])
def test_every_epoch_is_requested_without_a_timeout(
    stage: Stage, cluster: FakeCluster, transaction_version: int
) -> None:
    cluster.transaction_version = transaction_version
    cluster.two_phase_commit = True
    cluster.set_versions(INIT, WITH_TWO_PHASE_COMMIT)
    producer = transactional(stage, cluster, transaction_two_phase_commit_enable=True)
    commit(producer, b"first")
    producer.begin_transaction()
    producer.send("t", b"second", partition=0)
    prepared = producer.prepare()
    # Another process may have ended it: in version 1, the next transaction gets an epoch of its own.
    producer.commit_transaction()
    commit(producer, b"third")
    assert committed(cluster) == [b"first", b"second", b"third"]
    assert prepared.transaction_version == transaction_version
    assert len(asked(cluster)) == (2 if transaction_version == 1 else 1)
    assert set(asked(cluster)) == {(6, True, False)}


def test_a_prepared_transaction_is_committed_by_another_producer(stage: Stage, cluster: FakeCluster) -> None:
    cluster.two_phase_commit = True
    cluster.set_versions(INIT, WITH_TWO_PHASE_COMMIT)
    settings = {"transaction_two_phase_commit_enable": True}
    producer = transactional(stage, cluster, **settings)
    producer.begin_transaction()
    producer.send("t", b"prepared", partition=0)
    prepared = producer.prepare()
    producer.close()
    other = stage.producer(cluster, transactional_id="tx", **settings).kafka
    other.commit_prepared(prepared)
    assert committed(cluster) == [b"prepared"]


def test_brokers_without_it_time_transactions_out_and_the_log_says_so(
    stage: Stage, cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.transaction_version = 1
    cluster.set_versions(INIT, STABLE)
    with caplog.at_level(logging.WARNING, "kproducer"):
        producer = transactional(stage, cluster, transaction_two_phase_commit_enable=True)
        commit(producer, b"value")
    assert committed(cluster) == [b"value"]
    assert {version for version, _, _ in asked(cluster)} == {5}
    (warning,) = [each.getMessage() for each in caplog.records if "two-phase" in each.getMessage()]
    assert "time out after 60000 ms" in warning
    assert "unstable.api.versions.enable" in warning


def test_brokers_that_do_not_allow_it_refuse_and_the_error_names_both_reasons(
    stage: Stage, cluster: FakeCluster
) -> None:
    cluster.set_versions(INIT, WITH_TWO_PHASE_COMMIT)
    producer = stage.producer(cluster, transactional_id="tx", transaction_two_phase_commit_enable=True).kafka
    with pytest.raises(AuthorizationError, match=r"transaction\.two\.phase\.commit\.enable.*TwoPhaseCommit"):
        producer.init_transactions()
    cluster.two_phase_commit = True
    producer.init_transactions()
    commit(producer, b"value")
    assert committed(cluster) == [b"value"]


def test_other_producers_do_not_use_the_version_that_is_not_stable(
    stage: Stage, cluster: FakeCluster
) -> None:
    cluster.set_versions(INIT, WITH_TWO_PHASE_COMMIT)
    commit(transactional(stage, cluster), b"value")
    stage.producer(cluster).send().metadata()
    assert set(asked(cluster)) == {(5, False, False)}

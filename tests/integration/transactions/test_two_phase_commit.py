"""KIP-939 on Kafka 4.4: transactions that never time out, so that one can be committed any time later.

4.4 has InitProducerId 6 only with ``unstable.api.versions.enable``, and cannot keep a prepared transaction
over a new InitProducerId (``KeepPreparedTxn``) at all: the process that ends one must not initialize.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kproducer import AuthorizationError, KafkaProducer, PreparedTransaction
from tests.integration.transactions.conftest import PROPERTIES
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.committed_records import await_no_open_transaction, read_committed
from tests.support.kafka.fixtures import start_or_skip
from tests.support.kafka.maven_artifacts import NEWEST_VERSION
from tests.support.kafka.round_trip import versions_in_use
from tests.support.kafka.topics import create_topic

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

#: Other transactions end after this time at the latest.
LONGEST_TIMEOUT_MS = 2000
_UNSTABLE = {"unstable.api.versions.enable": "true", **PROPERTIES}


@pytest.fixture(scope="module")
def two_phase_kafka() -> Iterator[KafkaCluster]:
    properties = {
        **_UNSTABLE,
        "transaction.two.phase.commit.enable": "true",
        "transaction.max.timeout.ms": str(LONGEST_TIMEOUT_MS),
    }
    with start_or_skip(NEWEST_VERSION, properties=properties) as cluster:
        yield cluster


def prepare(servers: str, topic: str, **settings: object) -> tuple[PreparedTransaction, dict[str, set[int]]]:
    """Write a record in a transaction with the topic's name as its id, and prepare it."""
    create_topic(servers, topic, 1)
    with KafkaProducer(servers, transactional_id=topic, **settings) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, topic.encode())
        return producer.prepare(), versions_in_use(producer)


def test_a_prepared_transaction_is_committed_after_others_have_timed_out(two_phase_kafka):
    servers = two_phase_kafka.bootstrap_servers
    prepared, versions = prepare(servers, "two-phase", transaction_two_phase_commit_enable=True)
    assert versions["INIT_PRODUCER_ID"] == {6}
    prepare(servers, "one-phase", transaction_timeout_ms=LONGEST_TIMEOUT_MS)
    # It was prepared later, and times out.
    await_no_open_transaction(servers, "one-phase", [0])
    assert read_committed(servers, "one-phase") == [[]]
    with KafkaProducer(
        servers, transactional_id="two-phase", transaction_two_phase_commit_enable=True
    ) as other:
        other.commit_prepared(prepared)
    assert read_committed(servers, "two-phase") == [[b"two-phase"]]


def test_a_new_producer_aborts_it_as_always(two_phase_kafka):
    servers = two_phase_kafka.bootstrap_servers
    settings = {"transaction_two_phase_commit_enable": True}
    prepare(servers, "replaced", **settings)
    with KafkaProducer(servers, transactional_id="replaced", **settings) as newer:
        newer.init_transactions()
        with newer.transaction():
            newer.send("replaced", b"newer")
    assert read_committed(servers, "replaced") == [[b"newer"]]


def test_brokers_must_allow_it():
    with start_or_skip(NEWEST_VERSION, properties=_UNSTABLE) as cluster:
        settings = {"transactional_id": "refused", "transaction_two_phase_commit_enable": True}
        with (
            KafkaProducer(cluster.bootstrap_servers, **settings) as producer,
            pytest.raises(AuthorizationError, match=r"transaction\.two\.phase\.commit\.enable=true"),
        ):
            producer.init_transactions()


def test_without_the_unstable_api_transactions_time_out_and_the_log_says_so(kafka, caplog):
    with caplog.at_level(logging.WARNING, "kproducer"):
        _, versions = prepare(
            kafka.bootstrap_servers, "not-two-phase", transaction_two_phase_commit_enable=True
        )
    assert versions["INIT_PRODUCER_ID"] == {5}
    assert "has no two-phase commit" in caplog.text

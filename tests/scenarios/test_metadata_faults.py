"""Unknown topics, wrong metadata, moved leaders, unavailable bootstrap servers."""

from __future__ import annotations

import itertools
import logging
import threading

import pytest

from kproducer import KafkaError, MetadataTimeoutError
from kproducer.errors.broker_errors import error_for_code
from kproducer.testing.fakebroker import FakeCluster, Reply, RequestContext
from kproducer.testing.fakebroker.batch_check import BatchRefusedError
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S
from tests.support.waiting import wait_until

PRODUCE, METADATA = 0, 3


def test_an_unknown_topic_times_out_within_max_block(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster, max_block_ms=300)
    error = producer.failing_send("nowhere")
    assert isinstance(error, MetadataTimeoutError)
    assert producer.was_not_sent(error)
    assert "nowhere" in str(error)
    assert "max_block_ms" in str(error)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in str(error)
    assert len(cluster.requests(METADATA)) <= 20
    assert producer.send_until_it_works().metadata().offset == 0


def test_waiting_for_a_topic_that_does_not_exist_is_logged(
    stage: Stage, cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    producer = stage.producer(cluster)
    senders = [threading.Thread(target=lambda: producer.send("missing").metadata()) for _ in range(2)]
    with caplog.at_level(logging.WARNING, "kproducer"):
        for sender in senders:
            sender.start()
        wait_until(lambda: "missing" in caplog.text)
        cluster.wait_for_requests(METADATA, 4)
        cluster.create_topic("missing")
        for sender in senders:
            sender.join(PATIENCE_S)
    [warning] = [record.getMessage() for record in caplog.records if "missing" in record.getMessage()]
    assert warning.startswith("Topic 'missing' does not exist")
    assert "auto.create.topics.enable" in warning
    assert f"max_block_ms={producer.kafka.config.max_block_ms}" in warning


def test_waiting_for_a_partition_or_without_permission_is_not_logged_as_a_missing_topic(
    stage: Stage, cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    producer = stage.producer(cluster, max_block_ms=300)
    cluster.create_topic("electing")
    cluster.metadata_errors["electing"] = 5
    with caplog.at_level(logging.WARNING, "kproducer"):
        producer.failing_send("electing")
        producer.failing_send("t", partition=7)
    assert "does not exist" not in caplog.text


@pytest.mark.parametrize("first_error", [0, 3, 5])
def test_auto_created_topics_are_used_after_their_first_metadata(
    stage: Stage, first_error: int, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = stage.cluster(topics={}, auto_create_partitions=3)
    cluster.auto_create_first_error = first_error
    producer = stage.producer(cluster)
    assert producer.send("fresh").metadata().offset == 0
    assert "does not exist" not in caplog.text


@pytest.mark.parametrize("name", ["bad name", "\u00fcnicode", "a" * 250, ".."])
def test_an_illegal_topic_name_fails_at_once(stage: Stage, cluster: FakeCluster, name: str) -> None:
    producer = stage.producer(cluster, max_block_ms=600_000)
    error = producer.failing_send(name)
    assert "INVALID_TOPIC" in str(error) or "topic" in str(error).lower()
    assert producer.send("t").metadata().offset == 0


def test_a_denied_topic_affects_no_other_topic_and_recovers(stage: Stage, cluster: FakeCluster) -> None:
    cluster.create_topic("secret")
    cluster.metadata_errors["secret"] = 29
    producer = stage.producer(cluster, max_block_ms=600_000)
    error = producer.failing_send("secret")
    assert type(error) is type(error_for_code(29))
    assert "secret" in str(error)
    assert producer.send("t").metadata().offset == 0
    cluster.metadata_errors.clear()
    assert producer.send("secret").metadata().offset == 0


def test_many_callers_of_new_topics_do_not_cause_a_request_storm(stage: Stage) -> None:
    cluster = stage.cluster(topics={f"t{index}": 1 for index in range(20)})
    producer = stage.producer(cluster)
    callers = [
        threading.Thread(target=lambda name=f"t{index % 20}": producer.send(name).metadata())
        for index in range(60)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PATIENCE_S)
    assert len(producer.completed) == 60
    assert len(cluster.requests(METADATA)) <= 25


def test_without_reachable_brokers_the_error_names_brokers_and_setting(
    stage: Stage, cluster: FakeCluster
) -> None:
    cluster.kill(1)
    producer = stage.producer(cluster, max_block_ms=300)
    error = producer.failing_send()
    assert isinstance(error, MetadataTimeoutError)
    assert f"127.0.0.1:{cluster.brokers[1].port}" in str(error)
    assert "max_block_ms" in str(error)
    cluster.restart(1)
    assert producer.send_until_it_works().metadata().offset == 0


def test_the_bootstrap_list_is_used_again_when_the_whole_cluster_moved(stage: Stage) -> None:
    """All known nodes are gone; the bootstrap address leads to the new ones."""
    cluster = stage.cluster(2)
    producer = stage.producer(
        cluster, bootstrap_servers=[cluster.bootstrap_servers[0]], metadata_max_age_ms=200
    )
    cluster.brokers[1].advertised = cluster.brokers[2].advertised
    cluster.move_leader("t", 0, 2)
    cluster.brokers[2].listed_when_down = True
    producer.send().metadata()
    cluster.kill(2)
    cluster.brokers[1].advertised = ("127.0.0.1", cluster.brokers[1].port)
    cluster.move_leader("t", 0, 1)
    cluster.brokers[2].listed_when_down = False
    assert producer.send().metadata().offset == 1
    assert cluster.requests(PRODUCE, broker_id=1) != []


def test_an_address_that_leads_to_another_broker_gets_no_record(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """KIP-1242: the broker says so, and the producer bootstraps again until the address is right."""
    cluster = stage.cluster(2)
    cluster.move_leader("t", 0, 2)
    right, wrong = cluster.brokers[2].advertised, cluster.brokers[1].advertised
    servers = cluster.bootstrap_servers[:1]
    producer = stage.producer(cluster, bootstrap_servers=servers, metadata_max_age_ms=100)
    producer.send().metadata()
    with caplog.at_level(logging.INFO, "kproducer.client"):
        cluster.brokers[2].advertised = wrong
        # The client has seen the address; until then, it may still send to the right one.
        wait_until(lambda: "has moved" in caplog.text)
        late = producer.send()
        wait_until(lambda: "is another broker" in caplog.text)
        assert not late.future.done()
        cluster.brokers[2].advertised = right
        assert late.metadata().offset == 1
    assert {request.broker_id for request in cluster.requests(PRODUCE)} == {2}


@pytest.mark.parametrize("code", [-1, 35, 42, 31, 777])
def test_a_timeout_names_any_topic_error_as_its_cause(stage: Stage, cluster: FakeCluster, code: int) -> None:
    cluster.metadata_errors["odd"] = code
    producer = stage.producer(cluster, max_block_ms=300)
    error = producer.failing_send("odd")
    assert isinstance(error, KafkaError)
    assert "odd" in str(error)
    assert producer.send_until_it_works().metadata().offset == 0


def test_a_deleted_topic_gives_bounded_errors_and_a_new_one_is_used(
    stage: Stage, cluster: FakeCluster
) -> None:
    producer = stage.producer(cluster, request_timeout_ms=500, delivery_timeout_ms=500)
    producer.send().metadata()
    cluster.delete_topic("t")
    error = producer.failing_send()
    assert "UNKNOWN_TOPIC" in str(error)
    cluster.create_topic("t")
    assert producer.send_until_it_works().metadata().offset == 0


def test_all_brokers_return_on_other_ports_but_one_of_the_bootstrap_list(stage: Stage) -> None:
    cluster = stage.cluster(3)
    cluster.move_leader("t", 0, 3)
    producer = stage.producer(cluster, bootstrap_servers=cluster.bootstrap_servers[:1])
    producer.send().metadata()
    for broker_id in (2, 3):
        cluster.replace_broker(broker_id)
    assert producer.send().metadata().offset == 1


def test_partitions_that_are_added_are_used_for_keys_too(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 2})
    producer = stage.producer(cluster, metadata_max_age_ms=100)
    producer.send().metadata()
    with cluster.log.changed:
        cluster.topics["t"].partitions += cluster.create_topic("model", 6).partitions[2:]
    asked = len(cluster.requests(METADATA))
    cluster.wait_for_requests(METADATA, asked + 2)
    assert {producer.send(key=b"%d" % key).metadata().partition for key in range(60)} == set(range(6))


def test_localhost_with_several_addresses_finds_the_one_that_listens(
    stage: Stage, cluster: FakeCluster
) -> None:
    port = cluster.brokers[1].port
    producer = stage.producer(cluster, bootstrap_servers=[f"localhost:{port}"])
    assert producer.send().metadata().offset == 0


def test_ever_newer_leader_epochs_are_backed_off(stage: Stage, cluster: FakeCluster) -> None:
    epochs = itertools.count(1)

    def refuse(context: RequestContext) -> Reply:
        answer = context.answer(refuse=lambda _topic, _partition: BatchRefusedError(6))
        assert isinstance(answer, Reply)
        assert answer.message is not None
        for topic in answer.message.responses:
            for entry in topic.partition_responses:
                entry.current_leader.leader_id, entry.current_leader.leader_epoch = 1, next(epochs)
        return answer

    cluster.control(PRODUCE, refuse, times=None)
    producer = stage.producer(cluster, request_timeout_ms=500, delivery_timeout_ms=1000)
    producer.send().error()
    # At least 20 ms of backoff per two requests, including jitter. Without backoff there were thousands.
    assert len(cluster.requests(PRODUCE)) <= 150

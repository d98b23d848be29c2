"""Unknown topics, wrong metadata, moved leaders, unavailable bootstrap servers."""

from __future__ import annotations

import itertools
import logging
import threading

import pytest

from kproducer import KafkaError, MetadataTimeoutError
from kproducer.errors.broker_errors import error_for_code
from kproducer.testing.fakebroker import Close, FakeCluster, Reply, RequestContext, faults
from kproducer.testing.fakebroker.key00_produce import Refusal
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S
from tests.support.waiting import wait_until

PRODUCE, METADATA, API_VERSIONS = 0, 3, 18


def _asked_topics(request: object) -> list[str] | None:
    topics = request.message.topics  # type: ignore[attr-defined]
    return None if topics is None else [topic.name for topic in topics]


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


def test_a_topic_that_appears_in_time_is_used(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster)
    outcome: list[int] = []
    caller = threading.Thread(target=lambda: outcome.append(producer.send("late").metadata().offset))
    caller.start()
    cluster.wait_for_requests(METADATA, 3)
    cluster.create_topic("late")
    caller.join(PATIENCE_S)
    assert outcome == [0]


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


def test_leader_not_available_is_retried_without_stalling(stage: Stage, cluster: FakeCluster) -> None:
    partition = cluster.topics["t"].partitions[0]
    partition.metadata_error, leader = 5, partition.leader_id
    partition.leader_id = -1
    producer = stage.producer(cluster)
    sent = producer.send(partition=0)
    cluster.wait_for_requests(METADATA, 2)
    partition.metadata_error, partition.leader_id = 0, leader
    assert sent.metadata().offset == 0


def test_a_leader_missing_from_the_broker_list_counts_as_no_leader(
    stage: Stage, cluster: FakeCluster
) -> None:
    def lie(context: RequestContext) -> Reply:
        answer = context.apply()
        for topic in answer.topics:
            for partition in topic.partitions:
                partition.leader_id = 99
        return Reply(answer)

    control = cluster.control(METADATA, lie, times=None)
    producer = stage.producer(cluster)
    sent = producer.send(partition=0)
    cluster.wait_for_requests(METADATA, 3)
    assert not sent.future.done()
    control.remove()
    assert sent.metadata().offset == 0


def test_metadata_with_an_older_epoch_does_not_bring_a_deposed_leader_back(stage: Stage) -> None:
    cluster = stage.cluster(2)
    producer = stage.producer(cluster)
    producer.send().metadata()
    cluster.move_leader("t", 0, 2)
    producer.send().metadata()  # learns leader 2, epoch 1, from the error response

    def stale(context: RequestContext) -> Reply:
        answer = context.apply()
        for topic in answer.topics:
            for partition in topic.partitions:
                partition.leader_id, partition.leader_epoch = 1, 0
        return Reply(answer)

    cluster.control(METADATA, stale, times=None)
    asked = len(cluster.requests(METADATA))
    cluster.create_topic("other")
    cluster.control(PRODUCE, faults.refuse_produce(3), broker_id=2)  # makes the producer refresh its metadata
    assert producer.send().metadata().offset == 2
    cluster.wait_for_requests(METADATA, asked + 1)
    producer.send().metadata()
    assert len(cluster.requests(PRODUCE, broker_id=1)) == 2


def test_a_new_topic_is_requested_alone(stage: Stage) -> None:
    cluster = stage.cluster(topics={"a": 1, "b": 1})
    producer = stage.producer(cluster)
    producer.send("a").metadata()
    producer.send("b").metadata()
    assert [_asked_topics(r) for r in cluster.requests(METADATA)][-1] == ["b"]
    assert producer.send("a").metadata().offset == 1


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


def test_the_timeout_error_names_a_partition_that_does_not_exist(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster, max_block_ms=200).learn("t")
    error = producer.failing_send(partition=7)
    assert isinstance(error, MetadataTimeoutError)
    assert "7" in str(error)


def test_a_partition_that_is_added_meanwhile_is_found(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster)
    producer.send().metadata()
    outcome: list[int] = []
    caller = threading.Thread(target=lambda: outcome.append(producer.send(partition=1).metadata().offset))
    asked = len(cluster.requests(METADATA))
    caller.start()
    cluster.wait_for_requests(METADATA, asked + 1)
    with cluster.log.changed:
        cluster.topics["t"].partitions += cluster.create_topic("model", 2).partitions[1:]
    caller.join(PATIENCE_S)
    assert outcome == [0]


def test_dead_bootstrap_servers_are_skipped(stage: Stage) -> None:
    cluster = stage.cluster(3)
    for dead in (1, 2):
        cluster.kill(dead)
    cluster.move_leader("t", 0, 3)
    producer = stage.producer(cluster)
    assert producer.send().metadata().offset == 0


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


def test_a_node_that_dies_with_the_metadata_request_is_replaced_by_another(stage: Stage) -> None:
    cluster = stage.cluster(2)
    gate = cluster.gate()
    held = cluster.control(METADATA, faults.hold_before(gate), times=1)
    producer = stage.producer(cluster)
    caller = threading.Thread(target=producer.send)
    caller.start()
    gate.wait_until_reached()
    victim = cluster.requests(METADATA)[0].broker_id
    cluster.move_leader("t", 0, 3 - victim)
    cluster.kill(victim)
    caller.join(PATIENCE_S)
    assert not caller.is_alive()
    assert held.taken == 1
    producer.kafka.flush(PATIENCE_S)


def test_another_node_replaces_a_silent_one_after_the_request_timeout(stage: Stage) -> None:
    cluster = stage.cluster(2)
    cluster.control(METADATA, faults.stall_before(), times=1)
    producer = stage.producer(cluster, request_timeout_ms=250)
    assert producer.send().metadata().offset == 0


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


def test_a_broker_that_asks_for_a_rebootstrap_gets_one(stage: Stage, cluster: FakeCluster) -> None:
    """REBOOTSTRAP_REQUIRED, the top-level error of Metadata 13 (KIP-1102)."""
    producer = stage.producer(cluster, metadata_max_age_ms=200)
    producer.send().metadata()
    known = cluster.open_connections()

    def sent_away(context: RequestContext) -> Reply:
        answer = context.apply()
        answer.error_code = 129
        answer.brokers.clear()
        answer.topics.clear()
        return Reply(answer)

    cluster.control(METADATA, sent_away)
    cluster.wait_for(
        lambda: any(r.connection_id not in known for r in cluster.requests(METADATA)), what="a rebootstrap"
    )
    assert producer.send().metadata().offset == 1


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


def test_metadata_that_never_arrives_causes_a_rebootstrap(stage: Stage) -> None:
    """The only known node does not answer; after the trigger time the bootstrap list is used (KIP-1102)."""
    cluster = stage.cluster(2)
    cluster.brokers[1].advertised = cluster.brokers[2].advertised
    cluster.move_leader("t", 0, 2)
    producer = stage.producer(
        cluster,
        bootstrap_servers=cluster.bootstrap_servers[:1],
        metadata_max_age_ms=100,
        metadata_recovery_rebootstrap_trigger_ms=500,
        request_timeout_ms=150,
    )
    cluster.control(METADATA, faults.stall_before(), times=None, broker_id=2)
    producer.send_until_it_works()
    asked = len(cluster.requests(METADATA, broker_id=1))
    cluster.wait_for_requests(METADATA, asked + 2, broker_id=1)


def test_metadata_is_refreshed_when_it_expires(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster, metadata_max_age_ms=100)
    producer.send().metadata()
    cluster.wait_for_requests(METADATA, 4)


def test_an_idle_producer_sends_no_requests_and_sleeps(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster)
    producer.send().metadata()
    before, polls = len(cluster.requests()), stage.polls.count
    with pytest.raises(AssertionError):
        cluster.wait_for_requests(METADATA, 1000, timeout_s=0.5)
    assert len(cluster.requests()) == before
    assert stage.polls.count - polls <= 10


@pytest.mark.parametrize("code", [-1, 35, 42, 31, 777])
def test_a_timeout_names_any_topic_error_as_its_cause(stage: Stage, cluster: FakeCluster, code: int) -> None:
    cluster.metadata_errors["odd"] = code
    producer = stage.producer(cluster, max_block_ms=300)
    error = producer.failing_send("odd")
    assert isinstance(error, KafkaError)
    assert "odd" in str(error)
    assert producer.send_until_it_works().metadata().offset == 0


def test_an_empty_broker_list_is_survived(stage: Stage, cluster: FakeCluster) -> None:
    def nobody(context: RequestContext) -> Reply:
        answer = context.apply()
        answer.brokers = []
        return Reply(answer)

    cluster.control(METADATA, nobody, times=2)
    producer = stage.producer(cluster)
    assert producer.send().metadata().offset == 0


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


@pytest.mark.parametrize("version", [12, 13])
def test_a_recreated_topic_is_found_under_its_new_id(
    stage: Stage, cluster: FakeCluster, version: int
) -> None:
    cluster.set_versions(PRODUCE, (3, version))
    producer = stage.producer(cluster)
    producer.send().metadata()
    cluster.recreate_topic("t")
    sent = producer.send()
    assert sent.metadata().offset == 0


def test_a_broker_that_returns_on_another_port_is_found(stage: Stage) -> None:
    cluster = stage.cluster(2)
    cluster.move_leader("t", 0, 2)
    producer = stage.producer(cluster)
    producer.send().metadata()
    cluster.replace_broker(2)
    assert producer.send().metadata().offset == 1


def test_all_brokers_return_on_other_ports_but_one_of_the_bootstrap_list(stage: Stage) -> None:
    cluster = stage.cluster(3)
    cluster.move_leader("t", 0, 3)
    producer = stage.producer(cluster, bootstrap_servers=cluster.bootstrap_servers[:1])
    producer.send().metadata()
    for broker_id in (2, 3):
        cluster.replace_broker(broker_id)
    assert producer.send().metadata().offset == 1


def test_a_topic_that_lost_partitions_uses_the_remaining_ones(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 6})
    producer = stage.producer(
        cluster,
        metadata_max_age_ms=100,
        request_timeout_ms=2000,
        delivery_timeout_ms=2000,
        max_block_ms=1000,
    )
    for partition in range(6):
        producer.send(partition=partition).metadata()
    cluster.recreate_topic("t", 2)
    producer.send_until_it_works()
    asked = len(cluster.requests(METADATA))
    cluster.wait_for_requests(METADATA, asked + 2)
    assert {producer.send().metadata().partition for _ in range(20)} <= {0, 1}
    assert {producer.send(key=b"%d" % key).metadata().partition for key in range(20)} == {0, 1}
    assert isinstance(producer.failing_send(partition=5), MetadataTimeoutError)


def test_partitions_that_are_added_are_used_for_keys_too(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 2})
    producer = stage.producer(cluster, metadata_max_age_ms=100)
    producer.send().metadata()
    with cluster.log.changed:
        cluster.topics["t"].partitions += cluster.create_topic("model", 6).partitions[2:]
    asked = len(cluster.requests(METADATA))
    cluster.wait_for_requests(METADATA, asked + 2)
    assert {producer.send(key=b"%d" % key).metadata().partition for key in range(60)} == set(range(6))


def test_refused_connections_are_backed_off(stage: Stage, cluster: FakeCluster) -> None:
    cluster.control_accept(lambda connection: Close())
    producer = stage.producer(
        cluster, max_block_ms=500, reconnect_backoff_ms=50, reconnect_backoff_max_ms=100
    )
    assert isinstance(producer.failing_send(), MetadataTimeoutError)
    assert 3 <= cluster.accepted_count() <= 16


def test_localhost_with_several_addresses_finds_the_one_that_listens(
    stage: Stage, cluster: FakeCluster
) -> None:
    port = cluster.brokers[1].port
    producer = stage.producer(cluster, bootstrap_servers=[f"localhost:{port}"])
    assert producer.send().metadata().offset == 0


def test_ever_newer_leader_epochs_are_backed_off(stage: Stage, cluster: FakeCluster) -> None:
    epochs = itertools.count(1)

    def refuse(context: RequestContext) -> Reply:
        answer = context.answer(refuse=lambda _topic, _partition: Refusal(6, None))
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

"""Produce errors end to end: which are retried, which fail, and what the caller gets."""

from __future__ import annotations

import copy
import itertools
import random

import pytest

from kproducer import DeliveryTimeoutError, Outcome
from kproducer.errors.broker_errors import error_for_code
from kproducer.testing.fakebroker import Close, FakeCluster, Hold, Reply, RequestContext, faults
from kproducer.testing.fakebroker.key00_produce import Refusal
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S

PRODUCE, METADATA = 0, 3
RETRIABLE_CODES = [2, 3, 5, 6, 7, 13, 19, 20, 56, 74, 100]
STALE_METADATA_CODES = [3, 5, 6, 13, 56, 74, 100]
FATAL_CODES = [17, 18, 21, 29, 31, 32, 43, 53, 87, 90, -1, 9999]


@pytest.mark.parametrize("code", RETRIABLE_CODES)
def test_retriable_code_then_success_delivers_once(stage: Stage, cluster: FakeCluster, code: int) -> None:
    cluster.control(PRODUCE, faults.refuse_produce(code))
    producer = stage.producer(cluster)
    sent = producer.send()
    assert sent.metadata().offset == 0
    assert len(cluster.requests(PRODUCE)) == 2
    assert len(cluster.records("t")) == 1


@pytest.mark.parametrize("code", STALE_METADATA_CODES)
def test_codes_that_mean_stale_metadata_refresh_it(stage: Stage, cluster: FakeCluster, code: int) -> None:
    producer = stage.producer(cluster)
    producer.send().metadata()
    asked = len(cluster.requests(METADATA))
    cluster.brokers[1].leader_hints = False
    cluster.control(PRODUCE, faults.refuse_produce(code))
    producer.send().metadata()
    cluster.wait_for_requests(METADATA, asked + 1)


@pytest.mark.parametrize("code", RETRIABLE_CODES)
def test_without_retries_left_the_original_error_surfaces(
    stage: Stage, cluster: FakeCluster, code: int
) -> None:
    cluster.control(PRODUCE, faults.refuse_produce(code), times=None)
    producer = stage.producer(cluster, retries=0)
    error = producer.send().error()
    assert type(error) is type(error_for_code(code))
    assert len(cluster.requests(PRODUCE)) == 1


def test_retries_are_counted(stage: Stage, cluster: FakeCluster) -> None:
    cluster.control(PRODUCE, faults.refuse_produce(19), times=None)
    producer = stage.producer(cluster, retries=3)
    assert type(producer.send().error()) is type(error_for_code(19))
    assert len(cluster.requests(PRODUCE)) == 4


@pytest.mark.parametrize("code", FATAL_CODES)
def test_other_codes_fail_their_batch_and_nothing_else(stage: Stage, cluster: FakeCluster, code: int) -> None:
    cluster.create_topic("other")
    cluster.control(PRODUCE, faults.refuse_produce(code, partition=("t", 0)))
    producer = stage.producer(cluster)
    refused, fine = producer.send("t"), producer.send("other")
    error = refused.error()
    assert type(error) is type(error_for_code(code))
    assert str(code) in str(error)
    assert error.outcome is not None
    assert fine.metadata().offset == 0
    assert producer.send("t").metadata().offset == 0
    assert len([r for r in cluster.requests(PRODUCE) if ("t", 0) in _partitions(cluster, r)]) == 2


def _partitions(cluster: FakeCluster, request: object) -> list[tuple[str, int]]:
    names = {topic.topic_id: topic.name for topic in cluster.topics.values()}
    return [
        (t.name or names[t.topic_id], p.index)
        for t in request.message.topic_data  # type: ignore[attr-defined]
        for p in t.partition_data
    ]


def test_a_broker_rejection_is_a_definite_outcome(stage: Stage, cluster: FakeCluster) -> None:
    cluster.control(PRODUCE, faults.refuse_produce(29))
    assert stage.producer(cluster).send().error().outcome is Outcome.REJECTED


def test_the_brokers_own_text_reaches_the_caller(stage: Stage, cluster: FakeCluster) -> None:
    producer = stage.producer(cluster)
    cluster.control(PRODUCE, faults.refuse_produce(87, "the colour is wrong"))
    assert "the colour is wrong" in str(producer.send().error())
    cluster.control(PRODUCE, faults.refuse_produce(87))
    assert len(str(producer.send().error())) > len("INVALID_RECORD (code 87): ")


def test_per_record_errors_fail_the_named_records_only(stage: Stage, cluster: FakeCluster) -> None:
    cluster.topics["t"].options.compacted = True
    producer = stage.producer(cluster, linger_ms=50)
    innocent, culprit, second = producer.send(key=b"k"), producer.send(), producer.send(key=b"k2")
    producer.kafka.flush(PATIENCE_S)
    assert "record 1 has no key" in str(culprit.error())
    for bystander in (innocent, second):
        assert "record 1 has no key" not in str(bystander.error())
        assert bystander.error().outcome is Outcome.REJECTED
    assert producer.send(key=b"k").metadata().offset == 0


def test_a_timestamp_out_of_range_fails_its_record_with_the_brokers_text(
    stage: Stage, cluster: FakeCluster
) -> None:
    cluster.topics["t"].options.timestamp_range_ms = (1000, 9000)
    producer = stage.producer(cluster, linger_ms=50)
    early, fine, late = (producer.send(timestamp_ms=time) for time in (5, 2000, 10_000))
    assert "timestamp 5 is out of range" in str(early.error())
    assert "timestamp 10000 is out of range" in str(late.error())
    assert "out of range" not in str(fine.error()).split(":")[0]
    assert producer.send(timestamp_ms=3000).metadata().timestamp_ms == 3000


def test_too_few_replicas_are_retried(stage: Stage) -> None:
    cluster = stage.cluster(2)
    cluster.topics["t"].options.min_insync_replicas = 2
    cluster.topics["t"].partitions[0].in_sync = [1]
    producer = stage.producer(cluster)
    sent = producer.send()
    cluster.wait_for_requests(PRODUCE, 2)
    assert not sent.future.done()
    cluster.topics["t"].partitions[0].in_sync = [1, 2]
    assert sent.metadata().offset == 0


def test_a_record_index_beyond_the_batch_is_ignored(stage: Stage, cluster: FakeCluster) -> None:
    wild = ((2_000_000_000, "far away"), (-5, "before"), (0, None))
    cluster.control(PRODUCE, faults.refuse_produce(87, "bad", record_errors=wild))
    producer = stage.producer(cluster)
    assert producer.send().error().outcome is Outcome.REJECTED
    assert producer.send().metadata().offset == 0


@pytest.mark.parametrize("reset", [False, True])
def test_a_connection_lost_before_the_append_is_retried(
    stage: Stage, cluster: FakeCluster, reset: bool
) -> None:
    cluster.control(PRODUCE, faults.close_before(reset=reset))
    sent = stage.producer(cluster).send()
    assert sent.metadata().offset == 0
    assert cluster.accepted_count() >= 2


def test_a_lost_response_is_retried_without_duplicates(stage: Stage, cluster: FakeCluster) -> None:
    cluster.control(PRODUCE, faults.close_after())
    sent = stage.producer(cluster).send()
    assert sent.metadata().offset == 0
    assert [r.value for r in cluster.records("t")] == [sent.value]
    assert len(cluster.requests(PRODUCE)) == 2


def test_without_idempotence_a_retry_duplicates_and_reports_a_valid_offset(
    stage: Stage, cluster: FakeCluster
) -> None:
    cluster.control(PRODUCE, faults.close_after())
    sent = stage.producer(cluster, enable_idempotence=False).send()
    assert sent.metadata().offset == 1
    assert [r.value for r in cluster.records("t")] == [sent.value, sent.value]


def test_a_lost_response_without_retries_is_an_unknown_outcome(stage: Stage, cluster: FakeCluster) -> None:
    cluster.control(PRODUCE, faults.close_after())
    assert stage.producer(cluster, retries=0).send().error().outcome is Outcome.UNKNOWN


def test_retries_wait_for_the_backoff_and_it_doubles(stage: Stage, cluster: FakeCluster) -> None:
    cluster.control(PRODUCE, faults.refuse_produce(19), times=3)
    producer = stage.producer(cluster, retry_backoff_ms=40, retry_backoff_max_ms=1000)
    producer.send().metadata()
    times = [request.arrived_at_s * 1000 for request in cluster.requests(PRODUCE)]
    waits = [later - earlier for earlier, later in itertools.pairwise(times)]
    for wait, nominal in zip(waits, (40, 80, 160), strict=True):
        assert wait >= nominal * 0.8 - 2  # jitter is at most 20%; times are whole milliseconds


def test_a_partition_in_backoff_does_not_delay_the_others(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 2})
    cluster.control(PRODUCE, faults.refuse_produce(19, partition=("t", 0)), times=1)
    producer = stage.producer(
        cluster, retry_backoff_ms=1500, retry_backoff_max_ms=1500, max_in_flight_requests_per_connection=1
    )
    slow = producer.send(partition=0)
    cluster.wait_for_requests(PRODUCE, 1)
    behind = producer.send(partition=0)
    assert producer.send(partition=1).metadata().offset == 0
    assert not slow.future.done()
    assert (slow.metadata().offset, behind.metadata().offset) == (0, 1)


def test_a_new_leader_named_in_the_response_is_used_at_once(stage: Stage) -> None:
    cluster = stage.cluster(2)
    producer = stage.producer(cluster, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000)
    producer.send().metadata()
    cluster.move_leader("t", 0, 2)
    gate = cluster.gate()
    cluster.control(METADATA, faults.hold_before(gate), times=None)
    assert producer.send().metadata().offset == 1
    assert len(cluster.requests(PRODUCE, broker_id=1)) == 2
    assert len(cluster.requests(PRODUCE, broker_id=2)) == 1
    gate.open()


def test_a_moved_leader_without_hint_is_found_through_metadata(stage: Stage) -> None:
    cluster = stage.cluster(2)
    for broker in cluster.brokers.values():
        broker.leader_hints = False
    producer = stage.producer(cluster)
    producer.send().metadata()
    cluster.move_leader("t", 0, 2)
    assert producer.send().metadata().offset == 1
    assert len(cluster.requests(PRODUCE, broker_id=1)) <= 3


def test_a_leader_that_never_accepts_ends_in_a_timeout_without_a_flood(
    stage: Stage, cluster: FakeCluster
) -> None:
    cluster.brokers[1].leader_hints = False
    cluster.control(PRODUCE, faults.refuse_produce(6), times=None)
    producer = stage.producer(
        cluster,
        request_timeout_ms=600,
        delivery_timeout_ms=600,
        retry_backoff_ms=50,
        retry_backoff_max_ms=200,
    )
    error = producer.send().error()
    assert isinstance(error, DeliveryTimeoutError)
    assert "NOT_LEADER_OR_FOLLOWER" in str(error)
    # NOT_LEADER_OR_FOLLOWER (6) is also returned by a leader that loses the leadership after the append.
    assert error.outcome is Outcome.UNKNOWN
    # 50, 100, 200, 200 ms with 20% jitter: at most six attempts.
    assert len(cluster.requests(PRODUCE)) <= 7
    assert len(cluster.requests(METADATA)) <= 16


def test_a_single_record_too_large_for_the_broker_fails_without_endless_splitting(
    stage: Stage, cluster: FakeCluster
) -> None:
    cluster.topics["t"].options.max_message_bytes = 500
    producer = stage.producer(cluster)
    error = producer.send(value=b"x" * 1000).error()
    assert type(error) is type(error_for_code(10))
    assert error.outcome is Outcome.REJECTED
    assert len(cluster.requests(PRODUCE)) == 1
    assert producer.send().metadata().offset == 0


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_batch_too_large_for_the_broker_is_split_until_it_fits(
    stage: Stage, cluster: FakeCluster, codec: str
) -> None:
    cluster.topics["t"].options.max_message_bytes = 3000
    producer = stage.producer(
        cluster, linger_ms=20, compression_type=codec, max_in_flight_requests_per_connection=1
    )
    rng = random.Random(2)
    sent = [producer.send(value=b"%04d" % index + rng.randbytes(500)) for index in range(24)]
    producer.kafka.flush(PATIENCE_S)
    assert [s.metadata().offset for s in sent] == list(range(24))
    assert [r.value for r in cluster.records("t")] == [s.value for s in sent]


def test_splitting_keeps_partitions_and_callbacks_apart(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 2})
    cluster.topics["t"].options.max_message_bytes = 2000
    producer = stage.producer(cluster, linger_ms=20, batch_size=8000, max_in_flight_requests_per_connection=1)
    for index in range(40):
        producer.send(value=b"%04d" % index + b"x" * 300, partition=index % 2)
    producer.kafka.flush(PATIENCE_S)
    assert all(len(cluster.records("t", partition)) == 20 for partition in (0, 1))


@pytest.mark.parametrize("ending", ["refused", "expired"])
def test_a_split_keeps_an_unknown_outcome(stage: Stage, cluster: FakeCluster, ending: str) -> None:
    """Appended with the response lost, then too large, then the parts fail: the outcome is unknown."""
    cluster.control(PRODUCE, faults.close_after())
    cluster.control(PRODUCE, faults.refuse_produce(10))
    cluster.control(PRODUCE, faults.refuse_produce(29 if ending == "refused" else 6), times=None)
    producer = stage.producer(cluster, linger_ms=300, request_timeout_ms=1500, delivery_timeout_ms=1800)
    sent = producer.send_many(4)
    for one in sent:
        assert one.error().outcome is Outcome.UNKNOWN
    assert len(cluster.records("t")) == 4


def test_one_record_larger_than_the_rest_of_a_split_batch_fails_alone(
    stage: Stage, cluster: FakeCluster
) -> None:
    cluster.topics["t"].options.max_message_bytes = 2000
    producer = stage.producer(cluster, linger_ms=20, batch_size=3000)
    small, big, after = producer.send(), producer.send(value=b"x" * 2500), producer.send()
    producer.kafka.flush(PATIENCE_S)
    assert type(big.error()) is type(error_for_code(10))
    assert (small.metadata().offset, after.metadata().offset) == (0, 1)


def test_other_partitions_of_a_request_are_not_retried_with_the_failed_one(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 3})
    cluster.control(PRODUCE, faults.refuse_produce(19, partition=("t", 1)))
    producer = stage.producer(cluster, linger_ms=20)
    sent = [producer.send(partition=partition) for partition in range(3)]
    assert [s.metadata().offset for s in sent] == [0, 0, 0]
    assert [len(cluster.records("t", partition)) for partition in range(3)] == [1, 1, 1]


def test_disconnect_with_several_in_flight_fails_each_once_and_all_are_retried(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 4})
    producer = stage.producer(cluster)
    producer.send(partition=0).metadata()
    asked = len(cluster.requests(METADATA))
    gate = cluster.gate()
    control = cluster.control(PRODUCE, faults.hold_before(gate), times=None)
    sent = []
    for partition in range(4):
        sent.append(producer.send(partition=partition))
        cluster.wait_for_requests(PRODUCE, partition + 2)
    control.remove()
    cluster.drop_connections(1)
    assert [s.metadata().offset for s in sent] == [1, 0, 0, 0]
    cluster.wait_for_requests(METADATA, asked + 1)


def test_request_timeout_closes_the_connection_and_retries(stage: Stage, cluster: FakeCluster) -> None:
    cluster.control(PRODUCE, faults.stall_before())
    producer = stage.producer(cluster, request_timeout_ms=1000)
    sent = producer.send()
    assert sent.metadata().offset == 0
    first, second = cluster.requests(PRODUCE)
    assert first.connection_id != second.connection_id
    assert (second.arrived_at_s - first.arrived_at_s) * 1000 >= 990


def test_request_timeout_without_retries_is_reported(stage: Stage, cluster: FakeCluster) -> None:
    cluster.control(PRODUCE, faults.stall_after())
    producer = stage.producer(cluster, request_timeout_ms=150, retries=0)
    error = producer.send().error()
    assert error.outcome is Outcome.UNKNOWN
    assert str(cluster.brokers[1].port) in str(error) or "request_timeout_ms" in str(error)


def test_a_throttled_node_gets_no_requests_but_others_do(stage: Stage) -> None:
    cluster = stage.cluster(2, topics={"t": 2})
    producer = stage.producer(cluster)
    for partition in (0, 1):
        producer.send(partition=partition).metadata()
    cluster.brokers[1].throttle_time_ms = 1500
    producer.send(partition=0).metadata()
    cluster.brokers[1].throttle_time_ms = 0
    throttled_from = cluster.requests(PRODUCE, broker_id=1)[-1]
    waiting = producer.send(partition=0)
    assert producer.send(partition=1).metadata().offset == 1
    assert not waiting.future.done()
    waiting.metadata()
    gap_s = cluster.requests(PRODUCE, broker_id=1)[-1].arrived_at_s - throttled_from.arrived_at_s
    assert gap_s * 1000 >= 1495


def test_one_dead_broker_does_not_delay_the_other(stage: Stage) -> None:
    cluster = stage.cluster(2, topics={"t": 4})
    producer = stage.producer(cluster)
    for partition in range(4):
        producer.send(partition=partition).metadata()
    cluster.brokers[2].listed_when_down = True
    cluster.kill(2)
    stuck = [producer.send(partition=partition) for partition in (1, 3)]
    for _ in range(20):
        producer.send(partition=0).metadata()
        producer.send(partition=2).metadata()
    assert not any(s.future.done() for s in stuck)
    cluster.restart(2)
    assert [s.metadata().offset for s in stuck] == [1, 1]


def test_a_stalled_broker_does_not_delay_the_other(stage: Stage) -> None:
    cluster = stage.cluster(2, topics={"t": 2})
    producer = stage.producer(cluster)
    for partition in (0, 1):
        producer.send(partition=partition).metadata()
    cluster.stall_reading(2)
    stuck = producer.send(partition=1)
    for _ in range(20):
        producer.send(partition=0).metadata()
    assert not stuck.future.done()
    cluster.resume_reading(2)
    assert stuck.metadata().offset == 1


def test_acks_0_errors_close_the_connection_and_the_producer_continues(
    stage: Stage, cluster: FakeCluster
) -> None:
    producer = stage.producer(cluster, acks=0)
    cluster.control(PRODUCE, faults.refuse_produce(29))
    producer.send().metadata()  # not reported: with acks=0 it resolves when the bytes are written
    used = cluster.wait_for_requests(PRODUCE, 1)[0].connection_id
    cluster.wait_for(lambda: used not in cluster.open_connections(), what="the broker closed")
    cluster.wait_for(lambda: len(cluster.requests(METADATA)) >= 2, what="metadata asked after the close")
    producer.send().metadata()
    cluster.wait_for(lambda: len(cluster.records("t")) == 1, what="the second record")


def test_a_partition_missing_from_the_response_is_retried(stage: Stage) -> None:
    cluster = stage.cluster(topics={"t": 2})

    def omit(context: RequestContext) -> Reply:
        answer = context.answer(refuse=lambda name, index: Refusal(19) if index == 1 else None)
        assert isinstance(answer, Reply)
        for topic in answer.message.responses:
            topic.partition_responses = [p for p in topic.partition_responses if p.index != 1]
        return answer

    cluster.control(PRODUCE, omit)
    producer = stage.producer(cluster, linger_ms=20)
    sent = [producer.send(partition=partition) for partition in (0, 1)]
    assert [s.metadata().offset for s in sent] == [0, 0]


def test_extra_and_repeated_partitions_in_a_response_are_ignored(stage: Stage, cluster: FakeCluster) -> None:
    def pad(context: RequestContext) -> Reply:
        answer = context.answer()
        assert isinstance(answer, Reply)
        (topic,) = answer.message.responses
        (entry,) = topic.partition_responses
        lie, wild = copy.copy(entry), copy.copy(entry)
        lie.error_code, wild.index = 29, 77
        topic.partition_responses = [entry, lie, wild]
        stranger = copy.copy(topic)
        stranger.name, stranger.partition_responses = "stranger", [entry]
        answer.message.responses = [topic, topic, stranger]
        return answer

    cluster.set_versions(PRODUCE, (3, 12))
    cluster.control(PRODUCE, pad)
    producer = stage.producer(cluster)
    assert producer.send().metadata().offset == 0
    assert producer.send().metadata().offset == 1


def test_a_negative_offset_without_an_error_affects_no_other_record(
    stage: Stage, cluster: FakeCluster
) -> None:
    def negative(context: RequestContext) -> Reply:
        answer = context.answer(refuse=lambda name, index: Refusal(19))
        assert isinstance(answer, Reply)
        entry = answer.message.responses[0].partition_responses[0]
        entry.error_code, entry.base_offset = 0, -77
        return answer

    cluster.control(PRODUCE, negative)
    producer = stage.producer(cluster, retries=0)
    first = producer.send()
    assert first.future.exception(PATIENCE_S) is not None or first.metadata().offset < 0
    producer.forget([first])  # the broker reported a wrong offset, so there is nothing to compare
    assert producer.send().metadata().offset == 0


def test_hold_then_close_is_a_disconnect(stage: Stage, cluster: FakeCluster) -> None:
    gate = cluster.gate()
    cluster.control(PRODUCE, lambda context: Hold(gate, Close()))
    sent = stage.producer(cluster).send()
    gate.wait_until_reached()
    gate.open()
    assert sent.metadata().offset == 0

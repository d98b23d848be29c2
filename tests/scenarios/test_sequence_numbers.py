"""Batches with an unknown outcome, and batches that reach the leader too early.

The strict fake broker follows Kafka's rules: a leader without producer state accepts any first sequence
number, a new epoch begins at 0, and after a clean restart a leader knows the last batch of each producer.
"""

from __future__ import annotations

from typing import Any

import pytest

from kproducer import BrokerError, Outcome
from kproducer.errors.broker_errors import OutOfOrderSequenceNumberError
from kproducer.testing.fakebroker import FakeCluster, Hold, RequestContext, faults
from kproducer.testing.fakebroker.actions import Action, Handler, Silence
from tests.scenarios.conftest import Stage
from tests.scenarios.harness import PATIENCE_S, Sent, WatchedProducer

PRODUCE, METADATA = 0, 3


def idempotent(stage: Stage, cluster: FakeCluster, **config: Any) -> WatchedProducer:
    """A producer known to the leader. A batch that is retried resolves after later ones."""
    producer = stage.producer(cluster, ordered=False, **{"batch_size": 0, **config})
    producer.send(value=b"first").metadata()
    return producer


def values(cluster: FakeCluster) -> list[bytes | None]:
    return [record.value for record in cluster.records("t", 0)]


def pipeline(
    producer: WatchedProducer, cluster: FakeCluster, handlers: dict[bytes, Handler | None]
) -> dict[bytes, Sent]:
    """Send one batch per value; the broker processes them only when all have arrived."""
    gate = cluster.gate()
    for handler in handlers.values():
        then = handler or (lambda held: held.answer())
        cluster.control(PRODUCE, lambda context, then=then: Hold(gate, then))
    before = len(cluster.requests(PRODUCE))
    sent = {value: producer.send(value=value) for value in handlers}
    cluster.wait_for_requests(PRODUCE, before + len(handlers))
    gate.open()
    return sent


# -- a leader without producer state --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (5, Outcome.REJECTED),
        (19, Outcome.REJECTED),
        (3, Outcome.UNKNOWN),
        (6, Outcome.UNKNOWN),
        (7, Outcome.UNKNOWN),
    ],
)
def test_a_refused_batch_does_not_succeed_because_a_later_one_did(
    stage: Stage, cluster: FakeCluster, code: int, outcome: Outcome
) -> None:
    producer = idempotent(stage, cluster)
    with cluster.log.changed:
        cluster.topics["t"].partitions[0].producers.forget()
    sent = pipeline(producer, cluster, {b"a": faults.refuse_produce(code), b"b": None})
    error = sent[b"a"].error()
    assert isinstance(error, OutOfOrderSequenceNumberError)
    assert error.outcome is outcome
    assert sent[b"b"].metadata().offset == 1
    assert producer.send(value=b"c").metadata().offset == 2
    assert values(cluster) == [b"first", b"b", b"c"]


@pytest.mark.parametrize("code", [3, 5, 6, 7, 19])
def test_a_recreated_topic_is_met_with_one_batch(stage: Stage, cluster: FakeCluster, code: int) -> None:
    producer = idempotent(stage, cluster, metadata_max_age_ms=50)
    cluster.recreate_topic("t")
    # The first request may be answered before; when the third arrives, the producer has read the second
    # response.
    cluster.wait_for_requests(METADATA, len(cluster.requests(METADATA)) + 3)
    cluster.control(PRODUCE, faults.refuse_produce(code))
    sent = producer.send_many(6)
    assert [s.metadata().offset for s in sent] == list(range(6))
    assert values(cluster) == [s.value for s in sent]


# -- batches that may have been written -----------------------------------------------------------------


@pytest.mark.parametrize("doubt", [7, 20])
@pytest.mark.parametrize("refusal", [10, 29, 32, 87])
def test_a_sequence_restart_waits_for_batches_with_an_unknown_outcome(
    stage: Stage, cluster: FakeCluster, doubt: int, refusal: int
) -> None:
    producer = idempotent(stage, cluster)
    sent = pipeline(
        producer,
        cluster,
        {
            b"a": faults.append_and_refuse(doubt),
            b"b": None,
            b"c": faults.refuse_produce(refusal),
            b"d": None,
        },
    )
    error = sent[b"c"].error()
    assert isinstance(error, BrokerError)
    assert (error.code, error.outcome) == (refusal, Outcome.REJECTED)
    # "b" is recognised by its sequence number; "d" is sent with a new epoch, and only after that.
    assert [sent[value].metadata().offset for value in (b"a", b"b", b"d")] == [1, 2, 3]
    assert values(cluster) == [b"first", b"a", b"b", b"d"]
    assert [batch.producer_epoch for batch in cluster.topics["t"].partitions[0].batches] == [0, 0, 0, 1]


def test_a_clean_restart_after_lost_responses_duplicates_nothing(stage: Stage, cluster: FakeCluster) -> None:
    producer = idempotent(stage, cluster)

    def lose_the_answer(context: RequestContext) -> Action:
        context.apply()
        return Silence()

    cluster.control(PRODUCE, lose_the_answer, times=4)
    sent = [producer.send(value=value) for value in (b"a", b"b", b"c", b"d")]
    cluster.wait_for(lambda: len(values(cluster)) == 5)
    cluster.restart_cleanly(1)
    # The broker knows only "d": for the others, the producer cannot find out whether they were appended.
    for unknown in sent[:3]:
        error = unknown.error()
        assert error.outcome is Outcome.UNKNOWN
        assert "may have been written" in str(error)
    assert sent[3].metadata().offset == 4
    assert producer.send(value=b"e").metadata().offset == 5
    assert values(cluster) == [b"first", b"a", b"b", b"c", b"d", b"e"]
    assert {batch.producer_epoch for batch in cluster.topics["t"].partitions[0].batches} == {0}


def test_parts_of_a_batch_with_an_unknown_outcome_are_not_written_again(
    stage: Stage, cluster: FakeCluster
) -> None:
    producer = idempotent(stage, cluster, batch_size=16384, linger_ms=20)
    options = cluster.topics["t"].options

    def lower_the_limit(context: Any) -> Any:
        action = faults.close_after()(context)
        options.max_message_bytes = 300
        return action

    cluster.control(PRODUCE, lower_the_limit)
    sent = [producer.send(value=b"%d" % number + b"x" * 100) for number in range(6)]
    for one in sent:
        assert one.error().outcome is Outcome.UNKNOWN
    assert producer.send(value=b"next").metadata().offset == 7
    assert values(cluster) == [b"first", *(one.value for one in sent), b"next"]


def test_batches_that_may_have_been_written_behind_a_gap_fail(stage: Stage, cluster: FakeCluster) -> None:
    producer = idempotent(stage, cluster)
    sent = pipeline(
        producer,
        cluster,
        {b"a": faults.refuse_produce(87), b"b": faults.close_before(), b"c": None},
    )
    assert sent[b"a"].error().outcome is Outcome.REJECTED
    error = sent[b"b"].error()
    assert error.outcome is Outcome.UNKNOWN
    assert "may have been written" in str(error)
    # Sent on the same connection as "b": its response was lost as well, or it was never sent.
    assert sent[b"c"].future.exception(PATIENCE_S) is None or sent[b"c"].error().outcome is Outcome.UNKNOWN
    assert producer.send(value=b"d").metadata().offset >= 1
    assert values(cluster)[-1] == b"d"


def test_a_recognised_batch_keeps_the_timestamps_of_its_records(stage: Stage, cluster: FakeCluster) -> None:
    """The response to a duplicate has the batch's newest timestamp as its log append time."""
    producer = idempotent(stage, cluster, batch_size=16384, linger_ms=20)
    cluster.control(PRODUCE, faults.close_after())
    sent = [producer.send(timestamp_ms=1000 * number) for number in (3, 1, 2)]
    assert [one.metadata().timestamp_ms for one in sent] == [3000, 1000, 2000]
    assert len(cluster.topics["t"].partitions[0].batches) == 2


def test_after_an_expiry_with_the_last_epoch_the_partition_continues(
    stage: Stage, cluster: FakeCluster
) -> None:
    """The gap needs a new epoch, and 32767 is the last one: the producer requests another producer id."""
    cluster.coordination.transactions.first_epoch = 32767
    producer = idempotent(
        stage, cluster, request_timeout_ms=300, delivery_timeout_ms=600, max_block_ms=60_000
    )
    is_down = True
    refuse = faults.refuse_produce(19)
    cluster.control(PRODUCE, lambda context: refuse(context) if is_down else None, times=None)
    assert producer.send().error().outcome is Outcome.REJECTED
    is_down = False
    sent = producer.send_many(20)
    assert [one.metadata().offset for one in sent] == list(range(1, 21))
    ids = {batch.producer_id for batch in cluster.topics["t"].partitions[0].batches}
    assert len(ids) == 2

"""Numbers of batches, one situation at a time; any mixture of them is in the tests of all states."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer.broker_errors import error_for_code
from kproducer.errors import Outcome
from kproducer.producer.transactions.producer_id_and_epoch import (
    NO_PRODUCER,
    SEQUENCE_COUNT,
    ProducerIdAndEpoch,
    is_at_or_before,
    sequence_after,
)
from kproducer.producer.transactions.sequence_tracker import MOST_PENDING_BATCHES, SequenceTracker, Verdict
from kproducer.types import TopicPartition
from tests.support.transaction_kit import Batch, Kit

TP = TopicPartition("t", 0)
PRODUCER = ProducerIdAndEpoch(7, 0)
OUT_OF_ORDER, DUPLICATE, UNKNOWN_ID = error_for_code(45), error_for_code(46), error_for_code(59)


def tracker_with(
    count: int, transactional: bool = False, size: int = 2
) -> tuple[SequenceTracker, list[Batch]]:
    """A tracker with ``count`` batches on their way, behind one that was acknowledged."""
    tracker = SequenceTracker(transactional)
    tracker.set_producer(PRODUCER)
    batches = [Batch(TP, size, number) for number in range(count + 1)]
    for batch in batches:
        assert tracker.may_drain(batch)
        tracker.drained(batch)
        batch.in_flight = True
        if batch is batches[0]:
            batch.in_flight = False
            tracker.succeeded(batch, 0)
    return tracker, batches[1:]


def came_back(batch: Batch) -> Batch:
    batch.in_flight = False
    return batch


def numbers(batches: list[Batch]) -> list[tuple[int, int]]:
    return [(batch.producer_epoch, batch.base_sequence) for batch in batches]


@given(st.integers(0, SEQUENCE_COUNT - 1), st.integers(1, 2**20))
def test_what_comes_after_is_after_also_at_the_end_of_the_circle(sequence: int, count: int) -> None:
    later = sequence_after(sequence, count)
    assert 0 <= later < SEQUENCE_COUNT
    assert is_at_or_before(sequence, later)
    assert not is_at_or_before(later, sequence)


def test_sequences_wrap_around_after_2_to_the_31_minus_1() -> None:
    kit = Kit(transactional=False)
    first = kit.append(count=3)
    kit.settle()
    partition = kit.manager._sequences._partitions[TP]
    partition.next_sequence, partition.last_acked_sequence = SEQUENCE_COUNT - 2, SEQUENCE_COUNT - 3
    kept = kit.partition(0).producers.entries[first.producer_id].kept
    kept[-1] = kept[-1]._replace(last_sequence=SEQUENCE_COUNT - 3)
    batches = [kit.append(count=3) for _ in range(3)]
    kit.settle()
    assert [batch.base_sequence for batch in batches] == [SEQUENCE_COUNT - 2, 1, 4]
    assert kit.log() == [0, 1, 2, 3]
    assert partition.last_acked_sequence == 6


def test_nothing_is_sent_without_an_id() -> None:
    assert not SequenceTracker(False).may_drain(Batch(TP, 1, 0))


def test_the_first_batch_goes_alone_until_the_leader_knows_the_producer() -> None:
    tracker = SequenceTracker(False)
    tracker.set_producer(PRODUCER)
    first, second = Batch(TP, 1, 0), Batch(TP, 1, 1)
    tracker.drained(first)
    assert not tracker.may_drain(second)
    tracker.succeeded(first, 0)
    assert tracker.may_drain(second)


def test_five_batches_of_a_partition_are_pending_at_most() -> None:
    tracker, batches = tracker_with(MOST_PENDING_BATCHES)
    assert not tracker.may_drain(Batch(TP, 1, 9))
    tracker.succeeded(came_back(batches[0]), 2)
    assert tracker.may_drain(Batch(TP, 1, 9))


def test_retries_go_in_order_and_one_at_a_time() -> None:
    tracker, batches = tracker_with(3)
    assert [tracker.may_drain(batch) for batch in batches] == [True, False, False]
    tracker.succeeded(came_back(batches[0]), 2)
    assert [tracker.may_drain(batch) for batch in batches[1:]] == [True, False]


def test_answers_out_of_order_move_the_mark_once() -> None:
    tracker, batches = tracker_with(2)
    tracker.succeeded(came_back(batches[1]), 4)
    assert tracker._partitions[TP].last_acked_sequence == 5
    tracker.succeeded(came_back(batches[0]), 2)
    assert tracker._partitions[TP].last_acked_sequence == 5
    assert tracker._partitions[TP].last_acked_offset == 5


@pytest.mark.parametrize("transactional", [False, True])
def test_a_duplicate_was_written(transactional: bool) -> None:
    tracker, batches = tracker_with(1, transactional)
    assert tracker.verdict(came_back(batches[0]), DUPLICATE) is Verdict.WRITTEN


@pytest.mark.parametrize("transactional", [False, True])
def test_out_of_order_behind_an_acknowledged_batch_was_written_long_ago(transactional: bool) -> None:
    tracker, batches = tracker_with(2, transactional)
    tracker.succeeded(came_back(batches[1]), 4)
    assert tracker.verdict(came_back(batches[0]), OUT_OF_ORDER) is Verdict.WRITTEN


@pytest.mark.parametrize("transactional", [False, True])
def test_out_of_order_waits_for_the_batch_before_it(transactional: bool) -> None:
    tracker, batches = tracker_with(2, transactional)
    assert tracker.verdict(came_back(batches[1]), OUT_OF_ORDER) is Verdict.RETRY
    tracker.resolve()
    assert numbers(batches) == [(0, 2), (0, 4)]


def test_a_gap_is_mended_by_an_epoch_when_nothing_is_in_flight_any_more() -> None:
    tracker, batches = tracker_with(3)
    assert tracker.verdict(came_back(batches[0]), OUT_OF_ORDER) is Verdict.RETRY
    tracker.resolve()
    assert numbers(batches) == [(0, 2), (0, 4), (0, 6)]
    assert not tracker.may_drain(batches[0])
    for batch in batches[1:]:
        assert tracker.verdict(came_back(batch), OUT_OF_ORDER) is Verdict.RETRY
    tracker.resolve()
    assert numbers(batches) == [(1, 0), (1, 2), (1, 4)]
    assert tracker.may_drain(batches[0])


def test_other_partitions_keep_their_epoch() -> None:
    tracker, batches = tracker_with(1)
    other = Batch(TopicPartition("t", 1), 1, 5)
    tracker.drained(other)
    tracker.failed(came_back(batches[0]), Outcome.REJECTED)
    tracker.resolve()
    behind = Batch(TP, 1, 6)
    tracker.drained(behind)
    assert numbers([behind, other]) == [(1, 0), (0, 0)]


@pytest.mark.parametrize("outcome", [Outcome.REJECTED, Outcome.NOT_SENT])
def test_a_refused_batch_leaves_a_gap_that_is_mended_at_once(outcome: Outcome) -> None:
    tracker, batches = tracker_with(1)
    tracker.failed(came_back(batches[0]), outcome)
    assert not tracker.may_drain(Batch(TP, 1, 9))
    tracker.resolve()
    assert tracker.may_drain(Batch(TP, 1, 9))
    assert tracker._partitions[TP].producer.epoch == 1


def test_a_batch_given_up_in_doubt_is_decided_by_the_next_one() -> None:
    tracker, batches = tracker_with(2)
    tracker.expired(came_back(batches[0]), Outcome.UNKNOWN)
    assert not tracker.may_drain(Batch(TP, 1, 9))
    tracker.succeeded(came_back(batches[1]), 4)
    tracker.resolve()
    assert tracker.may_drain(Batch(TP, 1, 9))
    assert tracker._partitions[TP].producer.epoch == 0


def test_a_batch_given_up_in_doubt_with_nothing_behind_it_costs_an_epoch() -> None:
    tracker, batches = tracker_with(1)
    tracker.expired(came_back(batches[0]), Outcome.UNKNOWN)
    tracker.resolve()
    assert tracker._partitions[TP].producer.epoch == 1


def test_an_expired_batch_is_pending_as_long_as_it_is_in_flight() -> None:
    tracker, batches = tracker_with(1)
    tracker.expired(batches[0], Outcome.UNKNOWN)
    tracker.resolve()
    assert tracker.has_pending
    tracker.succeeded(came_back(batches[0]), 2)
    assert not tracker.has_pending
    assert not tracker.has_trouble


def test_an_unknown_producer_begins_anew() -> None:
    tracker, batches = tracker_with(1)
    assert tracker.verdict(came_back(batches[0]), UNKNOWN_ID) is Verdict.RETRY
    tracker.resolve()
    assert numbers(batches) == [(1, 0)]


@pytest.mark.parametrize("error", [OUT_OF_ORDER, UNKNOWN_ID])
def test_in_a_transaction_a_gap_is_not_mended(error: Exception) -> None:
    tracker, batches = tracker_with(1, transactional=True)
    assert tracker.verdict(came_back(batches[0]), error) is Verdict.FAIL  # type: ignore[arg-type]
    tracker.failed(batches[0], Outcome.REJECTED)
    tracker.resolve()
    assert not tracker.may_drain(Batch(TP, 1, 9))
    tracker.reset(PRODUCER.raised())
    assert tracker.may_drain(Batch(TP, 1, 9))


def test_after_the_last_epoch_another_id_is_asked_for() -> None:
    tracker = SequenceTracker(False)
    tracker.set_producer(ProducerIdAndEpoch(7, 32767))
    batch, behind = Batch(TP, 1, 0), Batch(TP, 1, 1)
    tracker.drained(batch)
    assert tracker.verdict(batch, OUT_OF_ORDER) is Verdict.RETRY
    tracker.resolve()
    assert tracker.needs_new_id
    assert not tracker.may_drain(batch)
    tracker.set_producer(ProducerIdAndEpoch(8, 0))
    tracker.resolve()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (8, 0, 0)
    assert tracker.may_drain(batch)
    assert not tracker.may_drain(behind)
    assert not tracker.needs_new_id


def test_the_parts_of_a_split_batch_share_its_numbers() -> None:
    tracker, batches = tracker_with(2, size=4)
    parts = [Batch(TP, count, 1) for count in (1, 2, 1)]
    tracker.split(came_back(batches[0]), parts)
    assert numbers([*parts, batches[1]]) == [(0, 4), (0, 5), (0, 7), (0, 8)]
    assert [tracker.may_drain(part) for part in parts] == [True, False, False]


def test_there_is_no_epoch_after_the_last() -> None:
    with pytest.raises(OverflowError):
        ProducerIdAndEpoch(1, 32767).raised()
    with pytest.raises(OverflowError):
        NO_PRODUCER.raised()

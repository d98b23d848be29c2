"""Numbers of batches, one situation at a time; the simulation has any mixture of them."""

from __future__ import annotations

import itertools
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer._core.transactions.delivery_knowledge import (
    AttemptEnd,
    Knowledge,
    Verdict,
    decide,
    knowledge_after,
)
from kproducer._core.transactions.partition_sequences import (
    NO_PRODUCER,
    SEQUENCE_COUNT,
    ProducerIdAndEpoch,
    is_at_or_before,
    sequence_after,
)
from kproducer._core.transactions.sequence_tracker import MOST_PENDING_BATCHES, REMEMBERED_MS, SequenceTracker
from kproducer.errors import Outcome
from kproducer.types import TopicPartition
from tests.support.units.transaction_kit import Batch, Kit

TP = TopicPartition("t", 0)
PRODUCER = ProducerIdAndEpoch(7, 0)
NOW_MS = 1000
_K, _E = Knowledge, AttemptEnd


def tracker_with(
    count: int, transactional: bool = False, size: int = 2
) -> tuple[SequenceTracker, list[Batch]]:
    """A tracker with ``count`` batches on their way, behind one that was acknowledged."""
    tracker = SequenceTracker(transactional)
    tracker.set_producer(PRODUCER)
    batches = [Batch(TP, size, number) for number in range(count + 1)]
    for batch in batches:
        assert tracker.may_drain(batch, NOW_MS)
        tracker.drained(batch)
        batch.in_flight = True
        if batch is batches[0]:
            acknowledged(tracker, batch)
    return tracker, batches[1:]


def acknowledged(tracker: SequenceTracker, batch: Batch) -> None:
    batch.in_flight = False
    tracker.succeeded(batch, NOW_MS)


def came_back(
    tracker: SequenceTracker, batch: Batch, end: AttemptEnd, retriable: bool | None = None
) -> Verdict:
    """The attempt has failed: what to do?"""
    batch.in_flight = False
    batch.knowledge = knowledge_after(batch.knowledge, end)
    if retriable is None:
        retriable = end not in (_E.OUT_OF_ORDER, _E.UNKNOWN_PRODUCER_ID, _E.DUPLICATE)
    return tracker.verdict(batch, end, retriable)


def refused_for_good(tracker: SequenceTracker, batch: Batch) -> None:
    assert came_back(tracker, batch, _E.REJECTED, retriable=False) is Verdict.FAIL
    tracker.failed(batch, batch.knowledge.outcome)


def may_drain(tracker: SequenceTracker, batch: Batch) -> bool:
    return tracker.may_drain(batch, NOW_MS)


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
    partition = kit.manager.sequences._partitions[TP]
    partition.next_sequence, partition.last_acked_sequence = SEQUENCE_COUNT - 2, SEQUENCE_COUNT - 3
    kept = kit.partition(0).producers.entries[first.producer_id].kept
    kept[-1] = kept[-1]._replace(last_sequence=SEQUENCE_COUNT - 3)
    batches = [kit.append(count=3) for _ in range(3)]
    kit.settle()
    assert [batch.base_sequence for batch in batches] == [SEQUENCE_COUNT - 2, 1, 4]
    assert kit.log() == [0, 1, 2, 3]
    assert partition.last_acked_sequence == 6


def test_nothing_is_sent_without_an_id() -> None:
    assert not may_drain(SequenceTracker(False), Batch(TP, 1, 0))


# -- pipelining ------------------------------------------------------------------------------------


def test_the_first_batch_goes_alone_until_the_leader_knows_the_producer() -> None:
    tracker = SequenceTracker(False)
    tracker.set_producer(PRODUCER)
    first, second = Batch(TP, 1, 0), Batch(TP, 1, 1)
    tracker.drained(first)
    assert not may_drain(tracker, second)
    tracker.succeeded(first, NOW_MS)
    assert may_drain(tracker, second)


def test_after_an_idle_period_one_batch_goes_alone() -> None:
    tracker, batches = tracker_with(1)
    acknowledged(tracker, batches[0])
    later_ms = NOW_MS + REMEMBERED_MS
    first, second = Batch(TP, 1, 5), Batch(TP, 1, 6)
    assert tracker.may_drain(first, later_ms)
    tracker.drained(first)
    assert not tracker.may_drain(second, later_ms)
    tracker.succeeded(first, later_ms)
    assert tracker.may_drain(second, later_ms)


def test_a_recreated_topic_is_met_with_one_batch() -> None:
    tracker, batches = tracker_with(1)
    tracker.note_topic_ids({"t": UUID(int=1), "other": UUID(int=5)})
    assert may_drain(tracker, Batch(TP, 1, 9))
    tracker.note_topic_ids({"other": UUID(int=5)})  # gone from the metadata for a while
    tracker.note_topic_ids({"t": UUID(int=1), "other": UUID(int=6)})
    assert may_drain(tracker, Batch(TP, 1, 9))
    tracker.note_topic_ids({"t": UUID(int=2), "other": UUID(int=6)})
    assert not may_drain(tracker, Batch(TP, 1, 9))
    acknowledged(tracker, batches[0])
    assert may_drain(tracker, Batch(TP, 1, 9))


def test_another_thread_may_reset_while_topics_are_looked_at() -> None:
    """A transaction is taken over on an application thread, while the I/O thread sees a recreated topic."""
    tracker = SequenceTracker(is_transactional=True)

    class Interrupted(TopicPartition):
        @property
        def topic(self) -> str:  # type: ignore[override]
            tracker.reset(ProducerIdAndEpoch(8, 0))
            return self[0]

    tracker.set_producer(PRODUCER)
    for topic_partition in (Interrupted("t", 0), TopicPartition("t", 1)):
        batch = Batch(topic_partition, 1, 0)
        tracker.drained(batch)
        acknowledged(tracker, batch)
    tracker.note_topic_ids({"t": UUID(int=1)})
    tracker.note_topic_ids({"t": UUID(int=2)})
    assert tracker.producer == ProducerIdAndEpoch(8, 0)
    assert may_drain(tracker, Batch(TP, 1, 9))


def test_a_raised_epoch_does_not_make_a_leader_forget() -> None:
    tracker, batches = tracker_with(1)
    refused_for_good(tracker, batches[0])
    assert tracker.resolve() == []
    first, second = Batch(TP, 1, 5), Batch(TP, 1, 6)
    tracker.drained(first)
    assert (first.producer_epoch, first.base_sequence) == (1, 0)
    # With state of an earlier epoch the leader takes nothing but sequence 0.
    assert may_drain(tracker, second)


def test_five_batches_of_a_partition_are_pending_at_most() -> None:
    tracker, batches = tracker_with(MOST_PENDING_BATCHES)
    assert not may_drain(tracker, Batch(TP, 1, 9))
    acknowledged(tracker, batches[0])
    assert may_drain(tracker, Batch(TP, 1, 9))


def test_a_batch_that_may_be_sent_again_is_among_the_five_that_its_leader_remembers() -> None:
    tracker, batches = tracker_with(MOST_PENDING_BATCHES)
    for batch in batches[1:]:
        acknowledged(tracker, batch)
    assert not may_drain(tracker, Batch(TP, 1, 9))
    assert came_back(tracker, batches[0], _E.NO_ANSWER) is Verdict.RETRY
    assert not may_drain(tracker, Batch(TP, 1, 9))
    acknowledged(tracker, batches[0])
    assert may_drain(tracker, Batch(TP, 1, 9))


def test_what_the_leader_of_a_deleted_topic_acknowledges_says_nothing_of_the_new_one() -> None:
    tracker, batches = tracker_with(2)
    tracker.note_topic_ids({"t": 1})
    tracker.note_topic_ids({"t": 2})
    acknowledged(tracker, batches[0])  # sent before the topic was created again
    assert not may_drain(tracker, Batch(TP, 1, 9))
    acknowledged(tracker, batches[1])
    first, second = Batch(TP, 1, 9), Batch(TP, 1, 10)
    for batch in (first, second):
        assert may_drain(tracker, batch) is (batch is first)
        if batch is first:
            tracker.drained(batch)
    acknowledged(tracker, first)
    tracker.drained(second)
    assert may_drain(tracker, Batch(TP, 1, 11))


def test_retries_go_in_order_and_one_at_a_time() -> None:
    tracker, batches = tracker_with(3)
    assert [may_drain(tracker, batch) for batch in batches] == [True, False, False]
    acknowledged(tracker, batches[0])
    assert [may_drain(tracker, batch) for batch in batches[1:]] == [True, False]


# -- every decision --------------------------------------------------------------------------------


def expected(end: AttemptEnd, knowledge: Knowledge, first: bool, passed: bool, transactional: bool) -> str:
    """The table of decisions in the documentation; "again": RETRY if the error says so, else FAIL."""
    if end is _E.DUPLICATE:
        return "WRITTEN"
    if end is _E.OUT_OF_ORDER and not first:
        return "RETRY"
    if end in (_E.OUT_OF_ORDER, _E.UNKNOWN_PRODUCER_ID):
        only_refused = knowledge in (_K.NEVER_SENT, _K.REJECTED)
        return "RESTART" if only_refused and not passed and not transactional else "FAIL"
    return "again"


BOOLEANS = (False, True)


@pytest.mark.parametrize("end", AttemptEnd)
@pytest.mark.parametrize("before", [_K.NEVER_SENT, _K.REJECTED, _K.UNKNOWN])
def test_every_decision(before: Knowledge, end: AttemptEnd) -> None:
    knowledge = knowledge_after(before, end)
    for first, passed, transactional, retriable in itertools.product(BOOLEANS, repeat=4):
        verdict = decide(
            knowledge,
            end,
            retriable=retriable,
            is_first=first,
            is_passed=passed,
            is_transactional=transactional,
        )
        wanted = expected(end, knowledge, first, passed, transactional)
        if wanted == "again":
            wanted = "RETRY" if retriable else "FAIL"
        assert verdict.name == wanted, (first, passed, transactional, retriable)


# -- what may have been written --------------------------------------------------------------------


def test_batches_that_may_have_been_written_behind_a_gap_fail() -> None:
    tracker, (a, b, c) = tracker_with(3)
    refused_for_good(tracker, a)
    assert came_back(tracker, b, _E.NO_ANSWER) is Verdict.RETRY
    assert came_back(tracker, c, _E.OUT_OF_ORDER) is Verdict.RETRY
    assert tracker.resolve() == [b]
    assert numbers([c]) == [(1, 0)]
    assert may_drain(tracker, c)
    assert not tracker.gapped


# -- gaps ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [_E.OUT_OF_ORDER, _E.UNKNOWN_PRODUCER_ID])
def test_numbering_starts_over_when_nothing_is_in_flight_any_more(end: AttemptEnd) -> None:
    tracker, batches = tracker_with(3)
    assert came_back(tracker, batches[0], end) is Verdict.RETRY
    tracker.resolve()
    assert numbers(batches) == [(0, 2), (0, 4), (0, 6)]
    assert not may_drain(tracker, batches[0])
    for batch in batches[1:]:
        assert came_back(tracker, batch, _E.OUT_OF_ORDER) is Verdict.RETRY
    assert tracker.resolve() == []
    assert numbers(batches) == [(1, 0), (1, 2), (1, 4)]
    assert may_drain(tracker, batches[0])


def test_an_expired_batch_is_pending_as_long_as_it_is_in_flight() -> None:
    tracker, batches = tracker_with(1)
    tracker.failed(batches[0], Outcome.UNKNOWN)
    tracker.resolve()
    assert tracker.has_pending
    acknowledged(tracker, batches[0])
    assert not tracker.has_pending
    assert not tracker.gapped


@pytest.mark.parametrize("end", [_E.OUT_OF_ORDER, _E.UNKNOWN_PRODUCER_ID])
def test_in_a_transaction_nothing_is_renumbered(end: AttemptEnd) -> None:
    tracker, batches = tracker_with(1, transactional=True)
    assert came_back(tracker, batches[0], end) is Verdict.FAIL
    tracker.failed(batches[0], Outcome.REJECTED)
    tracker.resolve()
    assert not may_drain(tracker, Batch(TP, 1, 9))
    tracker.reset(PRODUCER.raised())
    assert may_drain(tracker, Batch(TP, 1, 9))


def test_after_the_last_epoch_another_id_is_requested() -> None:
    tracker = SequenceTracker(False)
    tracker.set_producer(ProducerIdAndEpoch(7, 32767))
    batch, behind = Batch(TP, 1, 0), Batch(TP, 1, 1)
    tracker.drained(batch)
    assert came_back(tracker, batch, _E.OUT_OF_ORDER) is Verdict.RETRY
    tracker.resolve()
    assert tracker.needs_new_id
    assert not may_drain(tracker, batch)
    tracker.set_producer(ProducerIdAndEpoch(8, 0))
    tracker.resolve()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (8, 0, 0)
    assert may_drain(tracker, batch)
    assert not may_drain(tracker, behind)
    assert not tracker.needs_new_id


def test_the_parts_of_a_split_batch_share_its_numbers() -> None:
    tracker, batches = tracker_with(2, size=4)
    parts = [Batch(TP, count, 1) for count in (1, 2, 1)]
    batches[0].in_flight = False
    tracker.split(batches[0], parts)
    assert numbers([*parts, batches[1]]) == [(0, 4), (0, 5), (0, 7), (0, 8)]
    assert [may_drain(tracker, part) for part in parts] == [True, False, False]


def test_there_is_no_epoch_after_the_last() -> None:
    with pytest.raises(OverflowError):
        ProducerIdAndEpoch(1, 32767).raised()
    with pytest.raises(OverflowError):
        NO_PRODUCER.raised()


# -- lanes --------------------------------------------------------------------------------------------


def test_a_lane_keeps_the_numbers_of_a_partition_when_a_transaction_ends() -> None:
    tracker = SequenceTracker(is_transactional=True)
    tracker.reset(PRODUCER)
    assert tracker.lend(TP) == (7, 0, 0, -1)
    tracker.reset(ProducerIdAndEpoch(7, 1))
    batch = Batch(TP, 2, 0)
    assert not may_drain(tracker, batch)
    assert tracker.lend(TP) is None
    # The lane has sent three records under the new epoch; the last two are in flight.
    in_flight = Batch(TP, 2, 1)
    tracker.note_lent(TP, 1, 0, NOW_MS)
    tracker.adopt(in_flight, (7, 1, 1))
    in_flight.in_flight = True
    tracker.end_loan(TP, 3)
    assert in_flight.is_transactional
    assert tracker.has_pending
    assert may_drain(tracker, batch)
    tracker.drained(batch)
    assert numbers([in_flight, batch]) == [(1, 1), (1, 3)]


def test_a_lane_that_returns_what_it_did_not_use_since_the_last_epoch_changes_nothing() -> None:
    tracker = SequenceTracker(is_transactional=True)
    tracker.reset(PRODUCER)
    tracker.lend(TP)
    tracker.reset(ProducerIdAndEpoch(7, 1))
    tracker.note_lent(TP, 0, -1, -1)
    tracker.end_loan(TP, 0)
    batch = Batch(TP, 2, 0)
    assert may_drain(tracker, batch)
    tracker.drained(batch)
    assert numbers([batch]) == [(1, 0)]

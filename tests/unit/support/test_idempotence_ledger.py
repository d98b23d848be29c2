"""The verdict on idempotent producers: good for what is right, and a name for everything that is wrong."""

from __future__ import annotations

import pytest

from kproducer import DeliveryTimeoutError, Outcome, RecordMetadata, RecordTooLargeError
from tests.support.chaos.idempotence_ledger import (
    Checker,
    Expiration,
    Lane,
    LedgerFile,
    LogRecord,
    Result,
    Verdict,
    read_ledgers,
)

#: What the lane of ``history`` wrote: 0 and 1 to partition 0, 2 to partition 1; 3 rejected, 4 unknown.
RIGHT = {0: [b"a 0 ..", b"a 1 .."], 1: [b"a 2 .."]}


def history(may_vanish: bool = False) -> Lane:
    lane = Lane("a", "t", may_vanish)
    lane.add(5)
    lane.acknowledge(0, 0, 0)
    lane.acknowledge(1, 0, 1)
    lane.acknowledge(2, 1, 0)
    lane.results[3] = Result.REJECTED
    return lane


def log(values: list[bytes]) -> list[LogRecord]:
    return [LogRecord(offset, value) for offset, value in enumerate(values)]


def check(logs: dict[int, list[bytes]], lane: Lane | None = None) -> Verdict:
    checker = Checker([lane or history()])
    for partition, values in logs.items():
        checker.read("t", partition, log(values))
    return checker.judge()


def test_what_was_acknowledged_and_nothing_else_is_good():
    verdict = check(RIGHT)
    assert verdict.is_good
    counts = (verdict.sent, verdict.acknowledged, verdict.rejected, verdict.unknown, verdict.seen)
    assert counts == (5, 3, 1, 1, 3)
    assert verdict.not_told == 1


def test_an_unknown_record_may_be_in_the_log():
    verdict = check({0: [*RIGHT[0], b"a 4 "], 1: RIGHT[1]})
    assert verdict.is_good
    assert verdict.unknown_written == 1


@pytest.mark.parametrize(
    ("fault", "partition_0", "partition_1"),
    [
        ("lost", RIGHT[0][:1], RIGHT[1]),
        ("lost", RIGHT[0], []),
        ("duplicated", [*RIGHT[0], RIGHT[0][1]], RIGHT[1]),
        ("duplicated", [*RIGHT[0], RIGHT[0][0]], RIGHT[1]),
        ("duplicated", RIGHT[0], [*RIGHT[1], RIGHT[0][0]]),
        ("duplicated", [*RIGHT[0], b"a 4 ", b"a 4 "], RIGHT[1]),
        ("reordered", RIGHT[0][::-1], RIGHT[1]),
        ("reordered", [*RIGHT[0]], [b"a 4 ", *RIGHT[1]]),
        ("lost", [RIGHT[0][0], b"a 4 "], RIGHT[1]),
        ("false_successes", RIGHT[0][::-1], RIGHT[1]),
        ("false_successes", [*RIGHT[0], *RIGHT[1]], []),
        ("false_failures", [*RIGHT[0], b"a 3 "], RIGHT[1]),
        ("strangers", [*RIGHT[0], b"b 0 "], RIGHT[1]),
        ("strangers", [*RIGHT[0], b"a 5 "], RIGHT[1]),
        ("strangers", [*RIGHT[0], b"something"], RIGHT[1]),
    ],
)
def test_each_mistake_has_a_name(fault, partition_0, partition_1):
    verdict = check({0: partition_0, 1: partition_1})
    assert not verdict.is_good
    assert getattr(verdict, fault) > 0
    assert verdict.examples


def test_an_acknowledgement_without_an_offset_is_believed_if_the_record_is_there():
    lane = history()
    lane.acknowledge(1, 0, -1)
    assert check(RIGHT, lane).is_good
    lane = history()
    lane.acknowledge(1, 0, -1)
    assert check({0: RIGHT[0][:1], 1: RIGHT[1]}, lane).lost == 1


def test_nothing_seen_is_not_good():
    assert not Checker([]).judge().is_good


def test_both_logs_of_a_topic_that_was_made_again_count():
    checker = Checker([history()])
    checker.read("t", 0, log(RIGHT[0]), is_deleted=True)
    checker.read("t", 0, [])
    checker.read("t", 1, log(RIGHT[1]))
    assert checker.judge().is_good


def test_a_record_in_both_logs_of_a_topic_is_a_duplicate():
    checker = Checker([history()])
    checker.read("t", 0, log(RIGHT[0]), is_deleted=True)
    checker.read("t", 0, log([RIGHT[0][0]]))
    checker.read("t", 1, log(RIGHT[1]))
    assert checker.judge().duplicated == 1


def test_records_vanish_with_a_topic_only_behind_the_last_look():
    checker = Checker([history(may_vanish=True)])
    checker.read("t", 0, log(RIGHT[0][:1]), is_deleted=True)
    checker.read("t", 0, [])
    checker.read("t", 1, log(RIGHT[1]))
    verdict = checker.judge()
    assert verdict.is_good
    assert verdict.vanished == 1

    checker = Checker([history(may_vanish=True)])
    checker.read("t", 0, log([RIGHT[0][0], b"a 4 "]), is_deleted=True)
    checker.read("t", 0, [])
    checker.read("t", 1, log(RIGHT[1]))
    assert not checker.judge().is_good


def test_what_was_sent_again_after_the_deletion_may_be_in_both_logs():
    lane = history(may_vanish=True)
    lane.acknowledge(1, 0, 0)
    checker = Checker([lane])
    checker.read("t", 0, log(RIGHT[0]), is_deleted=True)
    checker.read("t", 0, log([RIGHT[0][1]]))
    checker.read("t", 1, log(RIGHT[1]))
    assert checker.judge().is_good


@pytest.mark.parametrize(
    ("second_copies_at_ms", "forgotten", "duplicated"),
    [
        ((5000, 5001), 2, 0),  # 2 s after the producer's last record, while ids expire
        ((4999, 5000), 0, 2),  # the broker still knew the producer
        ((500, 501), 0, 2),  # before ids expired
        ((9001, 9002), 0, 2),  # afterwards
    ],
)
def test_a_second_copy_is_no_mistake_of_a_producer_that_the_broker_had_forgotten(
    second_copies_at_ms, forgotten, duplicated
):
    lane = Lane("p.1", "t")
    lane.add(2)
    lane.acknowledge(0, 0, 2)
    lane.acknowledge(1, 0, 3)
    times = [2500, 3000] if second_copies_at_ms[0] > 3000 else [0, 1]
    copies = [b"p.1 0 ", b"p.1 1 "] * 2
    checker = Checker([lane], Expiration(2000, [(1000, 9000)]))
    places = enumerate(zip(copies, (*times, *second_copies_at_ms), strict=True))
    checker.read("t", 0, [LogRecord(offset, value, at_ms) for offset, (value, at_ms) in places])
    verdict = checker.judge()
    assert (verdict.forgotten, verdict.duplicated) == (forgotten, duplicated)
    assert verdict.is_good == (not duplicated)


def test_a_copy_of_what_was_written_after_the_broker_had_forgotten_the_producer_is_a_duplicate() -> None:
    lane = Lane("p.1", "t")
    lane.add(2)
    checker = Checker([lane], Expiration(2000, [(1000, 9000)]))
    values = [(b"p.1 0 ", 0), (b"p.1 1 ", 5000), (b"p.1 1 ", 5001)]
    checker.read("t", 0, [LogRecord(offset, *each) for offset, each in enumerate(values)])
    assert checker.judge().duplicated == 1


def test_a_ledger_of_a_killed_process_is_read_up_to_its_last_whole_line(tmp_path):
    path = tmp_path / "a.ledger"
    ledger, lane = LedgerFile(path), Lane("a", "t", may_vanish=True)
    ledger.open_lane(lane)
    ledger.add(lane, 3)
    ledger.settle(
        [
            (lane, 0, RecordMetadata("t", 4, 70, 0, -1, 0)),
            (lane, 1, RecordTooLargeError().with_outcome(Outcome.REJECTED)),
            (lane, 2, DeliveryTimeoutError().with_outcome(Outcome.UNKNOWN)),
        ]
    )
    ledger.add(lane, 1)
    ledger.close()
    with path.open("a") as file:
        file.write("A a 3 4 7")
    (found,) = read_ledgers([path])
    assert (found.name, found.topic, found.may_vanish) == ("a", "t", True)
    assert list(found.results) == [Result.ACKNOWLEDGED, Result.REJECTED, Result.UNKNOWN, Result.NOT_TOLD]
    assert (found.partitions[0], found.offsets[0]) == (4, 70)

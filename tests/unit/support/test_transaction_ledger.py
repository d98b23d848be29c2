"""The verdict of the run of random faults: it is good for what is right, and names everything that is not."""

from __future__ import annotations

import json

import pytest

from tests.support.chaos.transaction_ledger import (
    Incarnation,
    Ledger,
    State,
    Transaction,
    compare,
    read_ledgers,
)

FIRST, SECOND = Incarnation("a", 0), Incarnation("a", 1)
HISTORY = [
    Transaction(FIRST, 1, {"t-0": 2, "t-1": 1}, State.COMMITTED),
    Transaction(FIRST, 2, {"t-0": 1}, State.ABORTED),
    Transaction(FIRST, 3, {"t-0": 1, "t-1": 1}, State.COMMITTING),
    Transaction(FIRST, 4, {"t-1": 2}, State.BEGUN),
    Transaction(SECOND, 1, {"t-0": 1}, State.COMMITTED),
]
RIGHT = {
    "t-0": [b"a.0000 1 0", b"a.0000 1 1", b"a.0001 1 0"],
    "t-1": [b"a.0000 1 0"],
}


def test_exactly_what_was_committed_is_good():
    verdict = compare(HISTORY, RIGHT)
    assert verdict.is_good
    assert (verdict.sent, verdict.committed, verdict.seen, verdict.unknown_aborted) == (9, 4, 4, 2)


def test_what_nobody_knows_of_may_be_there_when_it_is_whole():
    seen = {
        "t-0": [*RIGHT["t-0"][:2], b"a.0000 3 0", RIGHT["t-0"][2]],
        "t-1": [*RIGHT["t-1"], b"a.0000 3 0"],
    }
    verdict = compare(HISTORY, seen)
    assert verdict.is_good
    assert verdict.unknown_committed == 2


@pytest.mark.parametrize(
    ("fault", "t_0", "t_1"),
    [
        ("lost", RIGHT["t-0"][1:], RIGHT["t-1"]),
        ("lost", RIGHT["t-0"][:2], RIGHT["t-1"]),
        ("lost", RIGHT["t-0"], []),
        ("duplicates", [*RIGHT["t-0"], RIGHT["t-0"][2]], RIGHT["t-1"]),
        ("disordered", [RIGHT["t-0"][1], RIGHT["t-0"][0], RIGHT["t-0"][2]], RIGHT["t-1"]),
        ("disordered", [RIGHT["t-0"][2], *RIGHT["t-0"][:2]], RIGHT["t-1"]),
        ("aborted_seen", [*RIGHT["t-0"][:2], b"a.0000 2 0", RIGHT["t-0"][2]], RIGHT["t-1"]),
        ("aborted_seen", RIGHT["t-0"], [*RIGHT["t-1"], b"a.0000 4 0"]),
        ("torn", RIGHT["t-0"], [*RIGHT["t-1"], b"a.0000 3 0"]),
        ("strangers", RIGHT["t-0"], [*RIGHT["t-1"], b"b.0000 1 0"]),
    ],
)
def test_whatever_is_wrong_has_a_name(fault, t_0, t_1):
    verdict = compare(HISTORY, {"t-0": t_0, "t-1": t_1})
    assert not verdict.is_good
    assert getattr(verdict, fault) > 0
    assert verdict.examples


def test_nothing_seen_is_not_good():
    assert not compare([], {}).is_good


def test_the_last_step_counts_and_half_a_line_does_not(tmp_path):
    ledger = Ledger(tmp_path / "a.0000.jsonl")
    ledger.note(1, State.BEGUN, {"t-0": 2})
    ledger.note(1, State.COMMITTING)
    ledger.note(1, State.COMMITTED)
    ledger.note(2, State.BEGUN, {"t-0": 1})
    ledger.close()
    with (tmp_path / "a.0000.jsonl").open("a") as file:
        file.write(json.dumps({"transaction": 2, "state": "committed"})[:-4])
    finisher = Ledger(tmp_path / "a.0000.finisher.jsonl")
    finisher.note(2, State.COMMITTING)
    finisher.close()
    assert read_ledgers(tmp_path) == [
        Transaction(FIRST, 1, {"t-0": 2}, State.COMMITTED),
        Transaction(FIRST, 2, {"t-0": 1}, State.COMMITTING),
    ]

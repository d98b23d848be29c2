"""A run of random faults passes only if there were faults of every kind, and a bad reader is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from kproducer import RecordMetadata
from tests.support.chaos.idempotence_chaos import FAULTS, LEAST_PROXY_FAULTS, PROXY_FAULTS, IdempotenceChaos
from tests.support.chaos.idempotence_ledger import Lane, LedgerFile, LogRecord, Verdict
from tests.support.chaos.idempotence_worker import TOPICS

RECORDS = 3000
GOOD = Verdict(acknowledged=5000, seen=5000)


@pytest.fixture
def new_chaos(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """``new_chaos(kinds=(), breakage=None)``: one lane, whose records are all in partition 0 of one topic."""
    made = []

    def make(kinds: tuple[str, ...] = (), breakage: str | None = None) -> IdempotenceChaos:
        cluster = SimpleNamespace(bootstrap_servers="127.0.0.1:1", nodes={})
        chaos = IdempotenceChaos(cluster, 1, kinds=kinds, breakage=breakage, say=lambda line: None)  # type: ignore[arg-type]
        made.append(chaos)
        return chaos

    yield make
    for chaos in made:
        chaos.remove_ledgers()


def fill(chaos: IdempotenceChaos, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = next(iter(TOPICS))
    lane = Lane("w0.1.1", topic)
    lane.add(RECORDS)
    ledger = LedgerFile(chaos._folder / "w0.1.ledger")
    ledger.open_lane(lane)
    ledger.add(lane, RECORDS)
    ledger.settle((lane, number, RecordMetadata(topic, 0, number, 0, -1, 1)) for number in range(RECORDS))
    ledger.close()

    def log(of: str, partition: int) -> Iterator[LogRecord]:
        if (of, partition) == (topic, 0):
            for number in range(RECORDS):
                yield LogRecord(number, lane.value(number, 30))

    monkeypatch.setattr(chaos, "_log", log)


@pytest.mark.parametrize(
    ("breakage", "wrong"),
    [(None, ()), ("skip", ("lost",)), ("swap", ("false_successes", "reordered"))],
)
def test_a_reader_that_makes_mistakes_fails(new_chaos, monkeypatch, breakage, wrong):
    chaos = new_chaos(breakage=breakage)
    fill(chaos, monkeypatch)
    verdict = chaos.judge()
    assert verdict.sent == RECORDS
    assert verdict.is_good == (not wrong)
    for each in wrong:
        assert getattr(verdict, each) >= RECORDS // 1000


def test_every_kind_of_fault_has_to_take_place(new_chaos):
    chaos = new_chaos()
    chaos.faults.update(FAULTS.keys())
    chaos.faults.update(dict.fromkeys(PROXY_FAULTS, LEAST_PROXY_FAULTS))
    assert chaos.reasons_to_fail(GOOD) == []
    chaos.faults["ids expired"] -= 1
    chaos.faults["dropped"] -= 1
    assert chaos.reasons_to_fail(GOOD) == [
        "too few faults: ids expired 0 of 1",
        f"too few faults: dropped {LEAST_PROXY_FAULTS - 1} of {LEAST_PROXY_FAULTS}",
    ]


def test_only_the_chosen_faults_have_to_take_place(new_chaos):
    chaos = new_chaos(kinds=("leader moved",))
    assert chaos.reasons_to_fail(GOOD) == ["too few faults: leader moved 0 of 1"]
    chaos.faults["leader moved"] += 1
    assert chaos.reasons_to_fail(GOOD) == []


def test_a_bad_verdict_or_few_records_fail(new_chaos):
    chaos = new_chaos(kinds=("leader moved",))
    chaos.faults["leader moved"] += 1
    assert len(chaos.reasons_to_fail(Verdict(acknowledged=5000, seen=5000, duplicated=1))) == 1
    assert len(chaos.reasons_to_fail(Verdict(acknowledged=3, seen=3))) == 1

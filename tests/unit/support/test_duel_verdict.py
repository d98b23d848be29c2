"""The verdict of a duel: each way in which a client can be wrong is counted in its own row of the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.chaos.idempotence_ledger import Lane, Result, read_ledgers
from tests.support.chaos.transaction_ledger import State
from tests.support.duel import load
from tests.support.duel.clients.session import Session
from tests.support.duel.ledger import DuelLedger, Told, ToldTransaction, read_transactions
from tests.support.duel.run import ENDED, HUNG, Part
from tests.support.duel.table import table_of
from tests.support.duel.verdict import judge_records, judge_transactions, numbers_in
from tests.support.duel.worker import BREAKAGES, CLAIM, COMMIT, SWAP, TWICE, Life, Worker

TOPIC = load.TOPICS[load.TRANSACTIONAL]
ACKNOWLEDGED, REJECTED, UNKNOWN = Result.ACKNOWLEDGED, Result.REJECTED, Result.UNKNOWN


class Log:
    """A topic in memory: records in order, and which of them ``read_committed`` shows."""

    def __init__(self) -> None:
        self.values: dict[int, list[bytes]] = {}
        self.hidden: set[bytes] = set()

    def append(self, partition: int, value: bytes) -> int:
        values = self.values.setdefault(partition, [])
        values.append(value)
        return len(values) - 1

    def seen(self, committed: bool = False) -> dict[int, list[tuple[int, bytes]]]:
        return {
            partition: [
                (offset, value)
                for offset, value in enumerate(values)
                if not (committed and value in self.hidden)
            ]
            for partition, values in self.values.items()
        }


class HonestSession(Session):
    """A client without faults."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log
        self._open: list[bytes] = []

    def send(self, topic: str, partition: int, value: bytes, number: int) -> None:
        self._open.append(value)
        self.acknowledge(number, partition, self._log.append(partition, value))

    def poll(self, seconds: float) -> None: ...

    def begin(self) -> None:
        self._open.clear()

    def commit(self) -> State:
        return State.COMMITTED

    def abort(self) -> None:
        self._log.hidden.update(self._open)

    def close(self) -> None: ...


def part_of(ledger: Path, log: Log, **others: object) -> Part:
    """The verdict on a transactional producer; that on the idempotent one is the same for its records."""
    lanes = read_ledgers([ledger])
    part = Part("client", "1", seconds=1.0, ends=dict.fromkeys(load.MODES, ENDED), cpu_seconds=1.0)
    for mode in load.MODES:
        part.records[mode] = judge_records(lanes, TOPIC, log.seen())
        part.lives[mode] = len(lanes)
    part.transactions = judge_transactions(
        read_transactions(ledger, lanes), lanes, numbers_in(log.seen()), numbers_in(log.seen(committed=True))
    )
    for name, value in others.items():
        setattr(part, name, value)
    return part


def cells(part: Part) -> dict[str, str]:
    return {row[0]: row[1] for row in table_of([part]).rows}


FALSELY = "falsely successful"
LOST_OF_COMMITTED = "lost in committed transactions"
TORN = "torn"
#: Rows that are 0 for every client without faults.
WRONG = (
    "lost",
    LOST_OF_COMMITTED,
    "doubled",
    "reordered",
    FALSELY,
    "rejected but written",
    "never told",
    "committed but missing",
    TORN,
    "aborted but visible",
    "left open",
)


def wrong_rows(part: Part) -> dict[str, str]:
    found = cells(part)
    return {name: found[name] for name in WRONG if found[name] not in ("0", "0 / 0")}


# -- what a worker does wrong on purpose ---------------------------------------------------------------------


def work(tmp_path: Path, breakage: str, transactions: int = 20) -> tuple[Path, Log]:
    worker = Worker(None, load.TRANSACTIONAL, "", tmp_path, breakage)  # type: ignore[arg-type]
    log, lane = Log(), Lane("transactional1", TOPIC)
    worker._ledger.open_lane(lane)
    life = Life(HonestSession(log), lane, worker._ledger, tmp_path / "ready", breakage)
    for number in range(1, transactions + 1):
        worker._transaction(life, number)
    life.close()
    worker._ledger.close()
    return tmp_path / "transactional.ledger", log


@pytest.mark.parametrize("breakage", ["", *BREAKAGES])
def test_a_worker_that_is_wrong_on_purpose_is_found_out(tmp_path, monkeypatch, breakage):
    monkeypatch.setattr(load, "PAUSE_SECONDS", 0)
    part = part_of(*work(tmp_path, breakage))
    expected = {
        "": set(),
        CLAIM: {"lost", LOST_OF_COMMITTED, TORN},
        TWICE: {"doubled"},
        SWAP: {"reordered"},
        COMMIT: {FALSELY, "committed but missing"},
    }
    assert set(wrong_rows(part)) == expected[breakage]
    assert part.is_good == (not breakage)


# -- histories -----------------------------------------------------------------------------------------------

#: Three transactions of two records each, in one partition: committed, aborted, of unknown outcome.
STATES = (State.COMMITTED, State.ABORTED, State.COMMITTING)
TOLD = [Told(number, ACKNOWLEDGED, 0, number) for number in range(6)]


def history(
    tmp_path: Path,
    told: Mapping[int, Told | None] | None = None,
    written: tuple[int, ...] = (0, 1, 2, 3, 4, 5),
    hidden: tuple[int, ...] = (2, 3),
    **others: object,
) -> Part:
    """A history that differs from a good one.

    Args:
        told: what the client said about these records; ``None``: nothing.
        written: records in the log, in order.
        hidden: records that ``read_committed`` does not show.
    """
    ledger, lane = DuelLedger(tmp_path / "ledger"), Lane("a", TOPIC)
    ledger.open_lane(lane)
    for number, state in enumerate(STATES):
        ledger.begin(lane, number)
        lane.add(2)
        ledger.add(lane, 2)
        ledger.state(lane, number, state)
    said = dict(enumerate(TOLD)) | dict(told or {})
    ledger.tell(lane, [each for each in said.values() if each is not None])
    ledger.remark("höflich\nzwei Zeilen")
    ledger.close()
    log = Log()
    for number in written:
        log.append(0, lane.value(number, 20))
    log.hidden = {lane.value(number, 20) for number in hidden}
    return part_of(tmp_path / "ledger", log, **others)


def test_a_good_history(tmp_path):
    part = history(tmp_path)
    assert part.is_good
    assert wrong_rows(part) == {}
    found = cells(part)
    assert found["acknowledged"] == "6 / 6"
    assert found["transactions committed"] == "1"
    assert found["aborted"] == "1"
    assert found["unknown, of these committed"] == "1, 1"


def test_a_transaction_of_unknown_outcome_may_be_invisible(tmp_path):
    part = history(tmp_path, hidden=(2, 3, 4, 5))
    assert part.is_good
    assert cells(part)["unknown, of these committed"] == "1, 0"


@pytest.mark.parametrize(
    ("row", "cell", "difference"),
    [
        ("lost", "1 / 1", {"written": (0, 1, 2, 3, 4)}),
        (LOST_OF_COMMITTED, "0", {"written": (0, 1, 2, 3, 4)}),
        (LOST_OF_COMMITTED, "1", {"written": (0, 2, 3, 4, 5)}),
        ("doubled", "1 / 1", {"written": (0, 1, 2, 3, 4, 5, 5)}),
        ("reordered", "1 / 1", {"written": (0, 1, 3, 2, 4, 5)}),
        (FALSELY, "2 / 2", {"written": (0, 1, 3, 2, 4, 5)}),
        (FALSELY, "0 / 1", {"hidden": (1, 2, 3)}),
        ("rejected but written", "1 / 1", {"told": {5: Told(5, REJECTED)}}),
        ("never told", "1 / 1", {"told": {5: None}}),
        ("committed but missing", "1", {"hidden": (0, 1, 2, 3)}),
        (TORN, "1", {"hidden": (1, 2, 3)}),
        (TORN, "1", {"hidden": (2, 3, 4)}),
        ("aborted but visible", "1", {"hidden": (3,)}),
    ],
)
def test_each_mistake_has_a_row(tmp_path, row, cell, difference):
    part = history(tmp_path, **difference)
    assert cells(part)[row] == cell
    assert not part.is_good


def test_what_is_not_a_mistake_is_counted_too(tmp_path):
    part = history(
        tmp_path,
        told={2: Told(2, REJECTED), 3: Told(3, UNKNOWN, error="timed out"), 4: Told(4, UNKNOWN)},
        written=(0, 1, 4, 5),
    )
    found = cells(part)
    assert (found["rejected"], found["unknown"]) == ("1 / 1", "2 / 2")
    assert found["unknown or never told, and written"] == "1 / 1"
    # The offset of 5 is another one now.
    assert set(wrong_rows(part)) == {FALSELY}


def test_the_verdict_says_which_record_is_at_the_offset_of_a_lost_one(tmp_path):
    part = history(tmp_path, written=(0, 1, 2, 3, 5))
    assert "a 4 acknowledged at 0 @4, where ('a', 5) is" in part.records[load.IDEMPOTENT].examples


def test_a_transaction_that_stays_open_is_a_mistake(tmp_path):
    part = history(tmp_path)
    part.transactions.leaked = 1
    assert cells(part)["left open"] == "1"
    assert not part.is_good
    part.is_stuck = True
    assert cells(part)["left open"] == "1, stuck"


def test_a_process_that_does_not_end_is_a_mistake(tmp_path):
    part = history(tmp_path, ends={load.IDEMPOTENT: ENDED, load.TRANSACTIONAL: HUNG}, cpu_seconds=None)
    assert cells(part)["hung or crashed"] == "transactional: hung"
    assert cells(part)["CPU seconds"] == "-"
    assert not part.is_good


def test_transactions_of_one_producer_after_the_other(tmp_path):
    """Each producer begins with number 0 again; the last transaction of a lane has the rest of it."""
    ledger = DuelLedger(tmp_path / "ledger")
    lanes = [Lane(name, TOPIC) for name in ("a", "b")]
    for number, lane in enumerate(lanes):
        ledger.open_lane(lane)
        for transaction in (2 * number, 2 * number + 1):
            ledger.begin(lane, transaction)
            lane.add(3)
            ledger.add(lane, 3)
    ledger.state(lanes[1], 2, State.COMMITTED)
    ledger.close()
    assert read_transactions(tmp_path / "ledger", read_ledgers([tmp_path / "ledger"])) == [
        ToldTransaction("a", 0, 0, 3, State.BEGUN),
        ToldTransaction("a", 1, 3, 6, State.BEGUN),
        ToldTransaction("b", 2, 0, 3, State.COMMITTED),
        ToldTransaction("b", 3, 3, 6, State.BEGUN),
    ]


def test_the_table_has_a_column_for_each_client(tmp_path):
    parts = [history(tmp_path, version=version, faults=Counter(frozen=2)) for version in ("1", "2 (x 3)")]
    table = table_of(parts)
    assert table.header == ("", "client 1", "client 2")
    assert {len(row) for row in table.rows} == {3}

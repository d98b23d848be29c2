"""The file in which a worker of a duel writes what its client says: one line per event, in any language.

    L LANE TOPIC 0                  a producer was created; LANE names it in the records' values
    + LANE COUNT                    this many more records will be sent, numbered from 0
    A LANE NUMBER PARTITION OFFSET  acknowledged; offset -1: the client does not say where
    R LANE NUMBER                   failed; the client says that it was not written
    U LANE NUMBER                   failed; the client does not say whether it was written
    T LANE TRANSACTION FIRST        a transaction began; FIRST is the number of its first record
    S LANE TRANSACTION STATE        what the client says of it: a value of ``State``
    # TEXT                          an error of the client, for people

The first five are those of ``LedgerFile``. Does not use Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.support.chaos.idempotence_ledger import Lane, LedgerFile, Result
from tests.support.chaos.transaction_ledger import State


class Told(NamedTuple):
    """What the client said about a record.

    Attributes:
        error: text of the client's error, without line breaks; empty if there was none.
    """

    number: int
    result: Result
    partition: int = -1
    offset: int = -1
    error: str = ""


class ToldTransaction(NamedTuple):
    """A transaction of a lane: the records from ``first`` to before ``end``."""

    lane: str
    number: int
    first: int
    end: int
    state: State


class DuelLedger(LedgerFile):
    """What one worker writes."""

    def tell(self, lane: Lane, told: Iterable[Told]) -> None:
        for each in told:
            if each.result is Result.ACKNOWLEDGED:
                self._acknowledge(lane, each.number, each.partition, each.offset)
            else:
                self._fail(lane, each.number, each.result)
                self._file.write(f"# {each.number}: {_ascii(each.error)}\n")
        self._file.flush()

    def begin(self, lane: Lane, transaction: int) -> None:
        self._file.write(f"T {lane.name} {transaction} {len(lane.results)}\n")
        self._file.flush()

    def state(self, lane: Lane, transaction: int, state: State) -> None:
        self._file.write(f"S {lane.name} {transaction} {state.value}\n")
        self._file.flush()

    def remark(self, text: str) -> None:
        self._file.write(f"# {_ascii(text)}\n")
        self._file.flush()


def read_transactions(path: Path, lanes: Iterable[Lane]) -> list[ToldTransaction]:
    """Every transaction of a ledger, whose lanes ``read_ledgers`` returned."""
    firsts: dict[tuple[str, int], int] = {}
    states: dict[tuple[str, int], State] = {}
    for line in path.read_text(encoding="ascii").splitlines():
        kind, *words = line.split(" ")
        if kind == "T":
            key = (words[0], int(words[1]))
            firsts[key], states[key] = int(words[2]), State.BEGUN
        elif kind == "S":
            states[(words[0], int(words[1]))] = State(words[2])
    ends: dict[tuple[str, int], int] = {}
    lengths = {lane.name: len(lane.results) for lane in lanes}
    for key in reversed(firsts):
        ends[key] = lengths.get(key[0], 0)
        lengths[key[0]] = firsts[key]
    return [ToldTransaction(*key, first, ends[key], states[key]) for key, first in firsts.items()]


def _ascii(text: str) -> str:
    return ascii(text)[1:-1]

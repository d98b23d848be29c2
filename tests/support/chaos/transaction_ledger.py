"""What producers know of their transactions, and whether it agrees with what a reader sees.

One file for each producer (an incarnation), with a JSON line for each step that is on disk before the step is
taken. A record's value says where it belongs: ``incarnation transaction number``, numbered in each partition.
Does not use Kafka; ``transaction_chaos`` writes and reads.
"""

from __future__ import annotations

import enum
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


class State(enum.Enum):
    """What a producer knows of a transaction; the last line written counts."""

    BEGUN = "begun"
    #: The commit was requested and its result is unknown: all records are visible, or none.
    COMMITTING = "committing"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Incarnation(NamedTuple):
    """One initialized producer; later ones of the same name have higher numbers. Part of each value."""

    name: str
    number: int

    def __str__(self) -> str:
        return f"{self.name}.{self.number:04}"


class Ledger:
    """Writes the steps of one incarnation; each line is on disk when the method returns."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a")

    def note(self, transaction: int, state: State, counts: Mapping[str, int] | None = None) -> None:
        """``counts``: records by ``topic-partition``, given with BEGUN."""
        line: dict[str, object] = {"transaction": transaction, "state": state.value}
        if counts is not None:
            line["counts"] = dict(counts)
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


@dataclass
class Transaction:
    """One line of the history. ``counts``: records by ``topic-partition``."""

    incarnation: Incarnation
    number: int
    counts: dict[str, int]
    state: State = State.BEGUN


def read_ledgers(folder: Path) -> list[Transaction]:
    """Read every transaction from all files ``NAME.NUMBER.jsonl``, those of one incarnation in order.

    A second file, ``NAME.NUMBER.finisher.jsonl``, is from the process that ended prepared transactions.
    """
    found: dict[tuple[Incarnation, int], Transaction] = {}
    for path in sorted(folder.glob("*.jsonl"), key=lambda path: ("finisher" in path.name, path.name)):
        name, number = path.name.split(".")[:2]
        incarnation = Incarnation(name, int(number))
        for line in path.read_text().splitlines():
            try:
                step = json.loads(line)
            except json.JSONDecodeError:
                break  # the process was killed while writing this line
            key = (incarnation, step["transaction"])
            if key not in found:
                found[key] = Transaction(*key, step.get("counts", {}))
            found[key].state = State(step["state"])
    return list(found.values())


@dataclass
class Verdict:
    """Numbers of wrong records (``torn``, ``disordered``: of transactions). All zero: nothing is wrong."""

    sent: int = 0
    committed: int = 0
    seen: int = 0
    unknown_committed: int = 0
    unknown_aborted: int = 0
    duplicates: int = 0
    lost: int = 0
    aborted_seen: int = 0
    torn: int = 0
    disordered: int = 0
    strangers: int = 0
    #: Set by the caller, who reads the committed offsets of the groups.
    wrong_positions: int = 0
    examples: list[str] = field(default_factory=list)
    #: Transactions of which at least one record was seen.
    seen_transactions: set[tuple[str, int]] = field(default_factory=set)

    @property
    def is_good(self) -> bool:
        return self.seen > 0 and not (
            self.duplicates
            or self.lost
            or self.aborted_seen
            or self.torn
            or self.disordered
            or self.strangers
            or self.wrong_positions
        )

    def note(self, example: str) -> None:
        if len(self.examples) < 20:
            self.examples.append(example)

    def __str__(self) -> str:
        return (
            f"records sent {self.sent}, committed {self.committed}, seen {self.seen} "
            f"(of unknown outcome: {self.unknown_committed} committed, {self.unknown_aborted} not), "
            f"duplicates {self.duplicates}, lost {self.lost}, aborted but seen {self.aborted_seen}, "
            f"torn transactions {self.torn}, out of order {self.disordered}, "
            f"from unknown producers {self.strangers}, "
            f"wrong positions of groups {self.wrong_positions}"
        )


def compare(transactions: Sequence[Transaction], seen: Mapping[str, Iterable[bytes]]) -> Verdict:
    """Compare the records that a ``read_committed`` reader saw with the ledgers.

    Args:
        transactions: of all incarnations.
        seen: values in order, by ``topic-partition``.
    """
    verdict = Verdict()
    by_key = {(str(each.incarnation), each.number): each for each in transactions}
    seen_in: dict[tuple[str, int], Counter[str]] = {}
    for place, values in seen.items():
        _follow(place, values, by_key, seen_in, verdict)
    for key, transaction in by_key.items():
        _judge(transaction, seen_in.get(key, Counter()), verdict)
    verdict.seen_transactions = set(seen_in)
    return verdict


def _follow(
    place: str,
    values: Iterable[bytes],
    by_key: Mapping[tuple[str, int], Transaction],
    seen_in: dict[tuple[str, int], Counter[str]],
    verdict: Verdict,
) -> None:
    """Read one partition: each transaction counts from 0, and the transactions of a name go up."""
    last: dict[str, tuple[str, int]] = {}
    for value in values:
        verdict.seen += 1
        incarnation, transaction, number = value.decode().split()
        key = (incarnation, int(transaction))
        name = incarnation.rpartition(".")[0]
        if key not in by_key:
            verdict.strangers += 1
            verdict.note(f"{place}: {value!r} not found in any ledger")
            continue
        count = seen_in.setdefault(key, Counter())
        if int(number) < count[place]:
            verdict.duplicates += 1
            verdict.note(f"{place}: {value!r} again")
            continue
        if int(number) > count[place] or key < last.get(name, key):
            verdict.disordered += 1
            verdict.note(
                f"{place}: {value!r} follows {count[place]} records of its transaction "
                f"and transaction {last.get(name)}"
            )
        last[name] = key
        count[place] += 1


def _judge(transaction: Transaction, seen: Counter[str], verdict: Verdict) -> None:
    expected, got = sum(transaction.counts.values()), sum(seen.values())
    verdict.sent += expected
    name = f"transaction {transaction.number} of {transaction.incarnation} ({transaction.state.value})"
    missing = sum(max(0, count - seen[place]) for place, count in transaction.counts.items())
    if transaction.state is State.COMMITTED:
        verdict.committed += expected
        if missing:
            verdict.lost += missing
            verdict.note(f"{name}: {missing} of {expected} are missing")
    elif transaction.state is State.COMMITTING:
        if got and missing:
            verdict.torn += 1
            verdict.note(f"{name}: {got} of {expected} were seen")
        verdict.unknown_committed += got
        verdict.unknown_aborted += expected if not got else 0
    elif got:
        verdict.aborted_seen += got
        verdict.note(f"{name}: {got} of {expected} were seen")

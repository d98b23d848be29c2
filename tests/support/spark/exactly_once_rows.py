"""Rows of source files, and whether a reader of the topic sees each row once and each task as a whole.

A file is one task of a micro-batch, and its rows say where they belong: ``file line padding``. Line ``n``
goes to partition ``n % PARTITIONS``. Does not use Kafka or Spark; ``exactly_once_chaos`` writes and reads.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from dataclasses import dataclass, field

PARTITIONS = 3
#: Prefix of rows that the query filters out: a file with only such rows is a task without output.
SKIPPED = "-"


def text_of_file(number: int, rows: int) -> str:
    """The lines of one file: ``rows`` lines that are written to the topic, and some that are filtered out."""
    chance = random.Random(number)
    lines = [f"{number} {line} {'x' * chance.randrange(200)}\n" for line in range(rows)]
    return "".join([*lines, f"{SKIPPED} the end\n"])


@dataclass
class Verdict:
    """Numbers of rows. ``torn``: files seen in part when all or none of their rows had to be visible."""

    expected: int = 0
    seen: int = 0
    lost: int = 0
    duplicates: int = 0
    torn: int = 0
    strangers: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return self.seen > 0 and not (self.lost or self.duplicates or self.torn or self.strangers)

    def note(self, example: str) -> None:
        if len(self.examples) < 20:
            self.examples.append(example)

    def __str__(self) -> str:
        return (
            f"rows expected {self.expected}, seen {self.seen}, lost {self.lost}, "
            f"duplicates {self.duplicates}, half-visible tasks {self.torn}, "
            f"unknown rows {self.strangers}"
        )


class SeenRows:
    """What one reader has seen of the known files. Thread-safe.

    A ``read_committed`` reader of a partition stops before the first open transaction, and committed
    transactions may follow after it. Partitions are read one after the other. So a task is only checked where
    no transaction is open: at such an end of a partition (``at_end``), the reader has seen all rows that a
    file has there, or none.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[int, int] = {}
        self._times_seen: dict[int, Counter[int]] = {}
        self._unchecked: list[set[int]] = [set() for _ in range(PARTITIONS)]
        self._verdict = Verdict()

    def expect(self, number: int, rows: int) -> None:
        """Register a file before it can be read."""
        with self._lock:
            self._files[number] = rows
            self._times_seen[number] = Counter()
            self._verdict.expected += rows

    def see(self, partition: int, value: bytes) -> None:
        """Take one record of a partition."""
        number, line = (int(word) for word in value.split(b" ", 2)[:2])
        with self._lock:
            self._verdict.seen += 1
            if line >= self._files.get(number, 0) or line % PARTITIONS != partition:
                self._verdict.strangers += 1
                self._verdict.note(
                    f"row {line} of file {number} in partition {partition} was never written there"
                )
                return
            self._times_seen[number][line] += 1
            self._unchecked[partition].add(number)
            if self._times_seen[number][line] > 1:
                self._verdict.duplicates += 1
                self._verdict.note(f"row {line} of file {number} is duplicated in partition {partition}")

    def at_end(self, partition: int) -> None:
        """The reader has seen everything in a partition, and no transaction is open there."""
        with self._lock:
            for number in self._unchecked[partition]:
                expected = range(partition, self._files[number], PARTITIONS)
                there = sum(1 for line in expected if self._times_seen[number][line])
                if there != len(expected):
                    self._verdict.torn += 1
                    self._verdict.note(
                        f"{there} of {len(expected)} rows of file {number} are visible "
                        f"in partition {partition}"
                    )
            self._unchecked[partition].clear()

    def unfinished(self) -> list[int]:
        """Files with rows that have not been seen yet."""
        with self._lock:
            return [number for number, rows in self._files.items() if len(self._times_seen[number]) < rows]

    def verdict(self) -> Verdict:
        """The verdict at the end, when every row must be visible: missing rows count as lost."""
        with self._lock:
            verdict = self._verdict
            verdict.lost = 0
            for number, rows in self._files.items():
                missing = rows - len(self._times_seen[number])
                verdict.lost += missing
                if missing:
                    verdict.note(f"{missing} of {rows} rows of file {number} are missing")
            return verdict

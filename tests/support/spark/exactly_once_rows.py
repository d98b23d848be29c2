"""Rows of source files, and whether a reader of a topic sees each row once and each task as a whole.

A file is one task of a micro-batch, and its rows say where they belong: a mark and the fields of ``Row``.
Rows with the mark ``!`` cannot be written in a format that has fields, for one of three reasons; they belong
into a topic of dead letters. Does not use Kafka or Spark; ``exactly_once_chaos`` writes and reads.
"""

from __future__ import annotations

import math
import threading
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

PARTITIONS = 3
#: Prefix of rows that the query filters out: a file with only such rows is a task without output.
SKIPPED = "-"
#: Prefix of rows that can be written, and of the others.
GOOD, BAD = "+", "!"
#: The largest record that the producer takes; the padding of some bad rows is larger.
MAX_REQUEST_SIZE = 4000
_TOO_LARGE = "x" * 5000
#: In one of so many files all rows are bad; in the others, three of so many rows.
_BAD_FILES = 17
_BAD_ROWS = 96


class Row(NamedTuple):
    """One line of a file. ``partition`` is not a field of the record; ``ratio`` may be NaN."""

    file: int
    line: int
    partition: int
    weight: int
    ratio: float
    padding: str

    @property
    def is_bad(self) -> bool:
        return self.partition >= PARTITIONS or math.isnan(self.ratio) or len(self.padding) > MAX_REQUEST_SIZE


def row_of(number: int, line: int) -> Row:
    """The row of a line of a file."""
    chance = zlib.crc32(f"{number} {line}".encode())
    row = Row(number, line, line % PARTITIONS, chance % 1000, chance % 64 / 4, "x" * (chance % 200))
    match chance % (3 if number % _BAD_FILES == 0 else _BAD_ROWS):
        case 0:
            return row._replace(padding=_TOO_LARGE)
        case 1:  # an int has no such number, and JSON has no NaN
            return row._replace(weight=2**40, ratio=math.nan)
        case 2:
            return row._replace(partition=99)
        case _:
            return row


def text_of_file(number: int, rows: int) -> str:
    """The lines of one file: ``rows`` lines for the topics, and one that is filtered out."""
    every = [row_of(number, line) for line in range(rows)]
    return "".join(
        [f"{BAD if row.is_bad else GOOD} {' '.join(map(str, row))}\n" for row in every]
        + [f"{SKIPPED} the end\n"]
    )


def fields_of_text(value: bytes) -> dict[str, Any]:
    """The fields of a line of a file."""
    _, number, line, partition, weight, ratio, padding = value.decode().split(" ")
    return Row(int(number), int(line), int(partition), int(weight), float(ratio), padding)._asdict()


@dataclass
class Verdict:
    """Numbers of rows. ``torn``: files seen in part when all or none of their rows had to be visible;
    ``misplaced``: rows that follow a later one of their file; ``split``: files whose rows and dead letters
    were written in several transactions.
    """

    expected: int = 0
    seen: int = 0
    lost: int = 0
    duplicates: int = 0
    torn: int = 0
    strangers: int = 0
    misplaced: int = 0
    split: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        bad = (self.lost, self.duplicates, self.torn, self.strangers, self.misplaced, self.split)
        return self.seen > 0 and not any(bad)

    def note(self, example: str) -> None:
        if len(self.examples) < 20:
            self.examples.append(example)

    def __str__(self) -> str:
        return (
            f"expected {self.expected}, seen {self.seen}, lost {self.lost}, "
            f"duplicates {self.duplicates}, out of order {self.misplaced}, half-visible tasks {self.torn}, "
            f"tasks in several transactions {self.split}, unknown {self.strangers}"
        )


class SeenRows:
    """What one reader has seen of the known files, in one topic. Thread-safe.

    A ``read_committed`` reader of a partition stops before the first open transaction, and committed
    transactions may follow after it. Partitions are read one after the other. So a task is only checked where
    no transaction is open: at such an end of a partition (``at_end``), the reader has seen all rows that a
    file has there, or none.

    Args:
        fields_of: decodes a record, without ``partition`` if it has no such field.
        are_bad: the topic has the dead letters of bad rows in its only partition, else the others.
    """

    def __init__(
        self, fields_of: Callable[[bytes], dict[str, Any]] = fields_of_text, are_bad: bool = False
    ) -> None:
        self._fields_of = fields_of
        self._are_bad = are_bad
        self.partitions = 1 if are_bad else PARTITIONS
        self._lock = threading.Lock()
        #: Lines by file and partition.
        self._files: dict[int, list[list[int]]] = {}
        self._times_seen: dict[int, Counter[int]] = {}
        self._last: dict[tuple[int, int], int] = {}
        self._unchecked: list[set[int]] = [set() for _ in range(self.partitions)]
        self._verdict = Verdict()

    def expect(self, number: int, rows: int) -> None:
        """Register a file before it can be read."""
        lines: list[list[int]] = [[] for _ in range(self.partitions)]
        for line in range(rows):
            row = row_of(number, line)
            if row.is_bad == self._are_bad:
                lines[0 if self._are_bad else row.partition].append(line)
        with self._lock:
            self._files[number] = lines
            self._times_seen[number] = Counter()
            self._verdict.expected += sum(map(len, lines))

    def see(self, partition: int, value: bytes) -> int:
        """Take one record of a partition. Returns the number of its file."""
        try:
            row = Row(**{"partition": partition, **self._fields_of(value)})
        except Exception as error:  # decoders raise errors of many types
            row = Row(-1, -1, partition, 0, 0, f"{error!r} with {value!r}")
        number, line = row.file, row.line
        with self._lock:
            self._verdict.seen += 1
            here = self._files[number][partition] if number in self._files else []
            # As texts, in which NaN is NaN.
            if line not in here or str(row) != str(row_of(number, line)):
                self._verdict.strangers += 1
                self._verdict.note(
                    f"row {line} of file {number} in partition {partition} was never written there: "
                    f"{str(row)[:200]}"
                )
                return number
            self._times_seen[number][line] += 1
            self._unchecked[partition].add(number)
            if self._times_seen[number][line] > 1:
                self._verdict.duplicates += 1
                self._verdict.note(f"row {line} of file {number} is duplicated in partition {partition}")
            elif (last := self._last.get((partition, number), -1)) > line:
                self._verdict.misplaced += 1
                self._verdict.note(f"row {line} of file {number} follows {last} in partition {partition}")
            else:
                self._last[partition, number] = line
        return number

    def at_end(self, partition: int) -> None:
        """The reader has seen everything in a partition, and no transaction is open there."""
        with self._lock:
            for number in self._unchecked[partition]:
                expected = self._files[number][partition]
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
            return [number for number in self._files if self._missing(number)]

    def verdict(self) -> Verdict:
        """The verdict at the end, when every row must be visible: missing rows count as lost."""
        with self._lock:
            verdict = self._verdict
            verdict.lost = 0
            for number in self._files:
                missing = self._missing(number)
                verdict.lost += missing
                if missing:
                    verdict.note(f"{missing} rows of file {number} are missing")
            return verdict

    def note_split(self, number: int, transactions: object) -> None:
        """The rows of a file were written in several transactions."""
        with self._lock:
            self._verdict.split += 1
            self._verdict.note(f"file {number} was written in several transactions: {transactions}")

    def _missing(self, number: int) -> int:
        return sum(map(len, self._files[number])) - len(self._times_seen[number])

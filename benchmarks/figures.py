"""From runs to figures: medians with their spread, and ratios to the reference within each round."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.clients import REFERENCE
from benchmarks.workload import MANY_PARTITIONS

SPEED, CPU = "records_per_second", "cpu_us_per_record"
CLUSTER_CPU = "cluster_cpu_us_per_record"


@dataclass(frozen=True)
class Spread:
    """Median, smallest and largest of the rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread | None:
        """``None`` when there is no value."""
        found = sorted(values)
        return cls(statistics.median(found), found[0], found[-1]) if found else None


@dataclass(frozen=True)
class Table:
    """Cells as they are printed; the first column is text, the others are numbers."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    #: Rows to highlight: ours.
    strong: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Row:
    """One row of the benchmark on one cluster, with all of its runs."""

    cluster: str
    family: str
    name: str
    runs: list[dict[str, Any]]

    @property
    def clients(self) -> list[str]:
        return list(dict.fromkeys(run["client"] for run in self.runs if run["round"] == 0)) or list(
            dict.fromkeys(run["client"] for run in self.runs)
        )

    def spread(self, client: str, metric: str) -> Spread | None:
        return Spread.of(run[metric] for run in self.runs if run["client"] == client and metric in run)

    def ratio(self, client: str, metric: str, peer: str = REFERENCE) -> Spread | None:
        """Ratio of a client to another one, in each round with both."""
        found = {(run["round"], run["client"]): run[metric] for run in self.runs}
        rounds = {number for number, name in found if name == client}
        return Spread.of(
            found[number, client] / found[number, peer] for number in rounds if (number, peer) in found
        )

    def growth(self, client: str, first: Row, metric: str = CPU) -> Spread | None:
        """Ratio of a client's metric to that in another row, in each round with both."""
        base = {run["round"]: run[metric] for run in first.runs if run["client"] == client}
        return Spread.of(
            run[metric] / base[run["round"]]
            for run in self.runs
            if run["client"] == client and run["round"] in base
        )


def partition_rows(runs: list[dict[str, Any]]) -> list[Row]:
    """The rows with keys over partitions; the first is what the others are compared with."""
    families = {settings.name for settings in MANY_PARTITIONS}
    return [row for row in rows_of(runs) if row.family in families]


def rows_of(runs: list[dict[str, Any]]) -> list[Row]:
    """The rows in the order in which they were measured."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault((run["cluster"], run["family"], run["row"]), []).append(run)
    return [Row(*key, group) for key, group in groups.items()]


def percentile(values: list[float], percent: float) -> float:
    """The percentile by the nearest rank."""
    ordered = sorted(values)
    return ordered[max(math.ceil(percent / 100 * len(ordered)), 1) - 1]

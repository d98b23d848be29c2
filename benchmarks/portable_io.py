"""The cost of portable I/O, which systems without epoll use: ``python -m benchmarks.portable_io``.

Both ways send the same records to the embedded cluster, in rounds, each in its own process. The selector is
Linux's in both cases: what kqueue costs instead is not measured.
"""

from __future__ import annotations

import argparse
import os
import platform
from contextlib import closing
from typing import Any

from rich.console import Console

from benchmarks.clients import MAIN, PORTABLE
from benchmarks.clusters import MockBench
from benchmarks.figures import CPU, SPEED, rows_of
from benchmarks.throughput import run_rounds
from benchmarks.workload import OWN_DEFAULTS, SMALL_BATCHES, Workload

WORKLOADS = (
    Workload(OWN_DEFAULTS, 100),
    Workload(SMALL_BATCHES[0], 100),
    Workload(SMALL_BATCHES[0], 1000),
)
ROUNDS = 11
_RUN_SECONDS = 0.6
_MOST_SECONDS = 600


def as_markdown(runs: list[dict[str, Any]]) -> str:
    """A line per row: medians, and the ratios within each round with the smallest and the largest."""
    lines = [
        "| records | CPU us per record, native | portable | CPU, ratio | records/s, ratio |",
        "| --- | --: | --: | --: | --: |",
    ]
    for row in rows_of(runs):
        costs = [row.spread(client, CPU) for client in (MAIN, PORTABLE)]
        ratios = [row.ratio(PORTABLE, metric, MAIN) for metric in (CPU, SPEED)]
        cells = [f"{cost.median:.2f}" for cost in costs if cost]
        cells += [f"{each.median:.2f} ({each.low:.2f} to {each.high:.2f})" for each in ratios if each]
        lines.append(f"| {row.name}, {row.family} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.portable_io", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--count", type=int, help="records per run instead of a time, for short test runs")
    arguments = parser.parse_args()
    with closing(MockBench(2 * _MOST_SECONDS)) as cluster:
        found = run_rounds(
            cluster,
            [(workload, [MAIN, PORTABLE]) for workload in WORKLOADS],
            _MOST_SECONDS,
            Console(stderr=True),
            rounds=arguments.rounds,
            run_seconds=_RUN_SECONDS,
            count=arguments.count,
        )
        print(as_markdown(found.runs), *found.failures, sep="\n")
        machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end"
        print(f"\n{cluster.description}; {machine}")


if __name__ == "__main__":
    main()

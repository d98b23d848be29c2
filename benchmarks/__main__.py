"""Benchmark of the Python Kafka producers: ``make bench``, or ``python -m benchmarks --help``.

Every client gets the same records, settings and cluster, in a process of its own, in turn; the order within a
round rotates, and rounds go on until the time is used up. A run counts only when each of its records was
acknowledged and the cluster's log ends say that they are there. Results go to ``benchmarks/results/``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.clients import SESSIONS
from benchmarks.clusters import BenchCluster, KafkaBench, MockBench, record_count
from benchmarks.workload import (
    BATCH_BYTES,
    CODECS,
    LINGER_MS,
    VALUE_BYTES,
    WARM_UP_RECORDS,
    Workload,
    all_workloads,
)

RESULTS = Path(__file__).parent / "results"
DEFAULT_SECONDS = 300
DEFAULT_COUNT = 60_000
MOST_ROUNDS = 7
RUN_TIMEOUT_SECONDS = 120


def run_once(cluster: BenchCluster, client: str, workload: Workload) -> dict[str, Any]:
    """One client on one workload. Raises ``RuntimeError`` when it failed or records are missing."""
    with cluster.topic() as (bootstrap, topic):
        task = {
            "client": client,
            "workload": workload.as_dict(),
            "bootstrap": bootstrap,
            "topic": topic,
            "is_mock": cluster.is_mock,
        }
        finished = subprocess.run(
            [sys.executable, "-m", "benchmarks.run_client", json.dumps(task)],
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_SECONDS,
            check=False,
        )
        if finished.returncode != 0:
            raise RuntimeError(f"{client}: {finished.stderr.strip()[-500:]}")
        result = json.loads(finished.stdout.splitlines()[-1])
        stored = record_count(bootstrap, topic)
    expected = workload.count + min(WARM_UP_RECORDS, workload.count)
    if result["acknowledged"] != workload.count or stored != expected:
        raise RuntimeError(
            f"{client}: {result['acknowledged']} of {workload.count} acknowledged, "
            f"{stored} of {expected} stored"
        )
    return {**workload.as_dict(), "name": workload.name, "client": client, **result}


def run_rounds(
    cluster: BenchCluster, clients: list[str], workloads: list[Workload], seconds: float, console: Console
) -> tuple[list[dict[str, Any]], list[str]]:
    """Rounds over everything while there is time for one more; at least one. Returns (runs, failures)."""
    deadline = time.monotonic() + seconds
    runs: list[dict[str, Any]] = []
    failures: list[str] = []
    longest_round = 0.0
    for number in range(MOST_ROUNDS):
        started = time.monotonic()
        if number and started + longest_round > deadline:
            break
        turn = number % len(clients)
        for workload in workloads:
            for client in clients[turn:] + clients[:turn]:
                try:
                    runs.append({"round": number, **run_once(cluster, client, workload)})
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    failures.append(f"round {number}, {workload.codec}, {workload.name}: {error}")
            console.print(f"[dim]round {number + 1}  {workload.codec:5} {workload.name}[/]")
        longest_round = max(longest_round, time.monotonic() - started)
    return runs, failures


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=DEFAULT_SECONDS, help="time for all rounds together")
    parser.add_argument("--count", type=int, default=DEFAULT_COUNT, help="records of 100 bytes in a run")
    parser.add_argument("--kafka", metavar="VERSION", help="Apache Kafka instead of the mock cluster")
    parser.add_argument("--clients", default=",".join(SESSIONS), help="comma-separated")
    parser.add_argument("--codecs", default=",".join(CODECS))
    parser.add_argument("--sizes", default=",".join(map(str, VALUE_BYTES)), help="value sizes in bytes")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON and the plot")
    return parser.parse_args()


def main() -> None:
    arguments = _arguments()
    clients = arguments.clients.split(",")
    sizes = {int(size) for size in arguments.sizes.split(",")}
    workloads = [
        workload
        for workload in all_workloads(arguments.count)
        if workload.codec in arguments.codecs.split(",") and workload.value_bytes in sizes
    ]
    console = Console(highlight=False)
    lifetime_seconds = arguments.seconds * 3 + 600
    cluster = (
        KafkaBench(arguments.kafka, lifetime_seconds) if arguments.kafka else MockBench(lifetime_seconds)
    )
    try:
        runs, failures = run_rounds(cluster, clients, workloads, arguments.seconds, console)
    finally:
        cluster.close()

    # Only now: a big parent would make each start of a client slower.
    from benchmarks.report import plot, print_tables, write_json

    rounds = 1 + max((run["round"] for run in runs), default=-1)
    versions = {run["client"]: run["client_version"] for run in runs}
    facts = {
        "when": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "cluster": cluster.description,
        "python": platform.python_version(),
        "cpu_count": os.cpu_count(),
        "settings": {"acks": "all", "linger_ms": LINGER_MS, "batch_size": BATCH_BYTES, "idempotence": False},
        "rounds": rounds,
        "versions": versions,
        "failures": failures,
    }
    results: Path = arguments.results
    results.mkdir(parents=True, exist_ok=True)
    stem = f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{'kafka' if arguments.kafka else 'mock'}"
    write_json(results / f"{stem}.json", facts, runs)
    title = (
        f"{cluster.description}; Python {facts['python']}, {facts['cpu_count']} cores; acks=all, "
        f"linger {LINGER_MS} ms, batch {BATCH_BYTES // 1024} KiB; median of {rounds} rounds"
    )
    plot(results / f"{stem}.png", title, runs, clients)
    print_tables(console, runs, clients)
    console.print("  ".join(f"{client} {version}" for client, version in versions.items()))
    console.print(f"{title}\n{results / stem}.json and .png")
    for failure in failures:
        console.print(f"[red]{failure}[/]")
    sys.exit(1 if failures or not runs else 0)


if __name__ == "__main__":
    main()

"""Records per second and CPU per record: every client on every row, in rounds, each in its own process.

The order rotates in each round, and rounds continue until the time is over. A run counts only if all its
records were acknowledged and the log end offsets confirm this.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console

from benchmarks import java_client
from benchmarks.clients import BY_NAME, JAVA
from benchmarks.clusters import BenchCluster, record_count
from benchmarks.workload import OWN_DEFAULTS, Workload

MOST_ROUNDS = 5
RUN_TIMEOUT_SECONDS = 120

#: Failures are reported, so that they are not mistaken for skipped runs.
_FAILURES = (RuntimeError, subprocess.TimeoutExpired)


@dataclass
class Measurements:
    """The results of the rounds so far."""

    runs: list[dict[str, Any]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def run_once(
    cluster: BenchCluster, name: str, workload: Workload, seconds: float, count: int | None = None
) -> dict[str, Any]:
    """One client on one row.

    Args:
        seconds: of CPU for the timed part, approximately.
        count: number of records instead; for tests.

    Raises:
        RuntimeError: the run failed, or records are missing.
    """
    with cluster.topic() as (bootstrap, topic):
        if name == JAVA:
            result = java_client.measure(bootstrap, topic, workload)
        else:
            task = {
                "client": name,
                "workload": workload.as_dict(),
                "bootstrap": bootstrap,
                "topic": topic,
                "is_mock": cluster.is_mock,
                "cluster_pid": cluster.pid,
                "seconds": seconds,
                "count": count,
            }
            result = run_python("benchmarks.run_client", task, BY_NAME[name].environment)
        stored = record_count(bootstrap, topic)
    expected = result["warm_up"] + result["count"]
    if result["acknowledged"] != result["count"] or stored != expected:
        raise RuntimeError(
            f"{result['acknowledged']} of {result['count']} acknowledged, {stored} of {expected} stored"
        )
    return {
        "cluster": cluster.name,
        "family": workload.settings.name,
        "row": workload.name,
        "workload": workload.as_dict(),
        "client": name,
        **result,
    }


def run_python(module: str, task: dict[str, Any], environment: Mapping[str, str]) -> Any:
    """Run a module of the benchmark in its own process; returns its JSON output.

    Raises:
        RuntimeError: it failed; the message is the last line of its output.
    """
    finished = subprocess.run(
        [sys.executable, "-m", module, json.dumps(task)],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_SECONDS,
        check=False,
    )
    if finished.returncode != 0:
        last_lines = finished.stderr.strip().splitlines()[-1:] or [f"exit code {finished.returncode}"]
        raise RuntimeError(last_lines[0][-300:])
    return json.loads(finished.stdout.splitlines()[-1])


def clients_of_row(clients: list[str], workload: Workload, cluster: BenchCluster) -> list[str]:
    """The clients of a row: the Java tool has no keys and does not work with the mock cluster."""
    return [
        name
        for name in clients
        if (
            not (workload.has_keys or cluster.is_mock)
            if name == JAVA
            else workload.settings == OWN_DEFAULTS or BY_NAME[name].in_every_family
        )
    ]


def run_rounds(
    cluster: BenchCluster,
    clients: list[str],
    workloads: list[Workload],
    seconds: float,
    console: Console,
    *,
    run_seconds: float,
    count: int | None = None,
) -> Measurements:
    """Repeat rounds over all rows while there is time for another one; at least one round."""
    deadline = time.monotonic() + seconds
    found = Measurements()
    longest_round = 0.0
    for number in range(MOST_ROUNDS):
        started = time.monotonic()
        if number and started + longest_round > deadline:
            break
        for workload in workloads:
            names = clients_of_row(clients, workload, cluster)
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                try:
                    run = run_once(cluster, name, workload, run_seconds, count)
                    found.runs.append({"round": number, **run})
                except _FAILURES as error:
                    where = f"{cluster.name}, {workload.settings.name}, {workload.name}"
                    found.failures.append(f"round {number}, {where}, {name}: {error}")
            console.print(
                f"{cluster.name}: round {number + 1}, {workload.settings.name}, {workload.name}", style="dim"
            )
        longest_round = max(longest_round, time.monotonic() - started)
    return found

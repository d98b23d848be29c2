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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rich.console import Console

from benchmarks import java_client
from benchmarks.clients import BY_NAME, CLIENTS_OF_GROUP, JAVA, ON_ONE_ROW
from benchmarks.clusters import BenchCluster, record_count
from benchmarks.workload import ONE_ROW, Workload

RUN_TIMEOUT_SECONDS = 120

#: Failures are reported, so that they are not mistaken for skipped runs.
FAILURES = (RuntimeError, subprocess.TimeoutExpired)

_Case = TypeVar("_Case")


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
    with cluster.topic(workload.partitions, workload.brokers) as (bootstrap, topic):
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
        stored = record_count(bootstrap, topic, workload.partitions)
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


def clients_of_row(clients: list[str], group: str, workload: Workload, cluster: BenchCluster) -> list[str]:
    """The clients of a row: the Java tool has no keys and does not work with the mock cluster."""
    return [
        name
        for name in clients
        if name in CLIENTS_OF_GROUP.get(group, clients)
        and not (name == JAVA and (workload.has_keys or cluster.is_mock))
        and not (name in ON_ONE_ROW and workload != ONE_ROW)
    ]


def in_rounds(
    cases: Sequence[tuple[_Case, list[str]]], seconds: float, most_rounds: int
) -> Iterator[tuple[int, _Case, str]]:
    """(round, case, client) while there is time for another round; at least one round.

    The order of the clients rotates from round to round.
    """
    deadline = time.monotonic() + seconds
    longest_round = 0.0
    for number in range(most_rounds):
        started = time.monotonic()
        if number and started + longest_round > deadline:
            return
        for case, names in cases:
            turn = number % max(len(names), 1)
            for name in names[turn:] + names[:turn]:
                yield number, case, name
        longest_round = max(longest_round, time.monotonic() - started)


def run_rounds(
    cluster: BenchCluster,
    rows: Sequence[tuple[Workload, list[str]]],
    seconds: float,
    console: Console,
    *,
    rounds: int,
    run_seconds: float,
    count: int | None = None,
) -> Measurements:
    """Measure the clients of every row in rounds."""
    found = Measurements()
    for number, workload, name in in_rounds(rows, seconds, rounds):
        where = f"{cluster.name}: round {number + 1}, {workload.settings.name}, {workload.name}, {name}"
        try:
            found.runs.append({"round": number, **run_once(cluster, name, workload, run_seconds, count)})
        except FAILURES as error:
            found.failures.append(f"{where}: {error}")
        console.print(where, style="dim")
    return found

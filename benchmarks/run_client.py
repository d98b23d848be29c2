"""One client and one workload in one process, so that CPU time and peak memory are the client's own.

Called by ``benchmarks.throughput``; takes a JSON argument and prints a JSON line. The CPU time of the warm-up
determines the number of records of the timed part, so that each client is measured over the same CPU time.
"""

from __future__ import annotations

import gc
import json
import math
import sys
import time
from contextlib import nullcontext
from importlib.metadata import version
from typing import Any

from benchmarks import cpu_samples, io_thread
from benchmarks.clients import BY_NAME, Client
from benchmarks.process_costs import cpu_seconds_of, own_cpu_seconds, own_memory_bytes
from benchmarks.sessions import Session, Target
from benchmarks.workload import Record, Workload, distinct_records, repeated

WARM_UP_SECONDS = 0.25
LONG_PORTION_SECONDS = 0.04
FEWEST_RECORDS, MOST_RECORDS = 5_000, 3_000_000


def _warm_up(session: Session, pool: list[Record], count: int, seconds: float) -> tuple[int, float]:
    """Send until the client has reached its full speed. Returns (records sent, minimum CPU seconds per
    record).

    The first portion does not count: it connects, and some clients import many modules. Portions double until
    one takes so long that its flush is a small part of it.
    """
    _send_portion(session, pool, count)
    sent, cost = count, math.inf
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        taken = _send_portion(session, pool, count)
        sent += count
        cost = min(cost, taken / count)
        if taken < LONG_PORTION_SECONDS:
            count *= 2
    return sent, cost


def _send_portion(session: Session, pool: list[Record], count: int) -> float:
    """Send this many records of the warm-up. Returns the CPU seconds."""
    prepared = session.prepare(repeated(pool, count))
    before = own_cpu_seconds()
    outcome = session.send_all(prepared)
    taken = own_cpu_seconds() - before
    acknowledged = session.acknowledged(outcome)
    if acknowledged != count:
        raise RuntimeError(f"{acknowledged} of {count} acknowledged in the warm-up")
    return taken


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """Warm up, send, and return the measurements."""
    client = BY_NAME[task["client"]]
    functions: dict[str, Any] = {}
    with io_thread.profiled(functions) if task.get("profile") == "functions" else nullcontext():
        found = _measure_client(client, task)
    return {**found, **functions}


def _measure_client(client: Client, task: dict[str, Any]) -> dict[str, Any]:
    workload = Workload.from_dict(task["workload"])
    target = Target(task["bootstrap"], task["topic"], workload, task["is_mock"])
    pool = distinct_records(workload)
    session = client.open(target)
    fixed_count: int | None = task["count"]
    # All different records, so that the warm-up uses nearly every partition.
    first, warm_seconds = (fixed_count, 0.0) if fixed_count else (len(pool), WARM_UP_SECONDS)
    warm_up, cost = _warm_up(session, pool, first, warm_seconds)
    count = fixed_count or workload.count
    if count is None:
        count = min(max(int(task["seconds"] / cost), FEWEST_RECORDS), MOST_RECORDS)
        count += -count % client.gathered
    prepared = session.prepare(repeated(pool, count))
    gc.collect()
    memory_before = own_memory_bytes("VmRSS")

    samples: dict[str, Any] = {}
    with cpu_samples.sampled(samples) if task.get("profile") == "samples" else nullcontext():
        timed = _timed(session, prepared, count, task["cluster_pid"])
    acknowledged = session.acknowledged(timed.pop("outcome"))
    session.close()
    return {
        "count": count,
        "acknowledged": acknowledged,
        "warm_up": warm_up,
        **timed,
        "peak_memory_bytes": own_memory_bytes("VmHWM"),
        "memory_before_bytes": memory_before,
        "client_version": version(client.distribution),
        **({"profile": samples} if samples else {}),
    }


def _timed(session: Session, prepared: Any, count: int, cluster_pid: int) -> dict[str, Any]:
    cluster_before = cpu_seconds_of(cluster_pid)
    cpu_before, started = own_cpu_seconds(), time.perf_counter()
    outcome = session.send_all(prepared)
    seconds, cpu_seconds = time.perf_counter() - started, own_cpu_seconds() - cpu_before
    cluster_seconds = cpu_seconds_of(cluster_pid) - cluster_before
    return {
        "outcome": outcome,
        "seconds": seconds,
        "records_per_second": count / seconds,
        "cpu_us_per_record": cpu_seconds / count * 1e6,
        "cluster_cpu_us_per_record": cluster_seconds / count * 1e6,
    }


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))), flush=True)

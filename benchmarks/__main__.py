"""Benchmark of the Kafka producers: ``make bench``, or ``python -m benchmarks --help``.

Every client sends the same records to the same clusters, in its own process, in rounds. Results go to
``benchmarks/results/`` as JSON and to the console as tables; with ``--document`` also to docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import cpu_samples, import_time, java_client, low_rate
from benchmarks.clients import (
    BY_NAME,
    CLIENTS,
    JAVA,
    MAIN,
    available_clients,
    default_batch_bytes,
    has_native_kernel,
)
from benchmarks.clusters import BenchCluster, KafkaBench, MockBench
from benchmarks.throughput import Measurements, run_python, run_rounds
from benchmarks.workload import OWN_DEFAULTS, Workload, all_workloads
from tests.support.kafka.maven_artifacts import NEWEST_VERSION, KafkaUnavailableError, tools_class_path

RESULTS = Path(__file__).parent / "results"
DEFAULT_SECONDS = 600
#: Shares of the total time; the rest is for low rates, import times and the profile.
_EMBEDDED_SHARE, _KAFKA_SHARE = 0.62, 0.2
_RUN_SECONDS = 0.6
_CEILING_BATCHES = (16_384, 1_000_000)
_PROFILED = (MAIN, "kproducer send_many", "kproducer send_arrow")
#: Records per second; 0: as fast as possible.
_BUSY_RATES = (1_000, 0)
_BUSY_SECONDS = 2.0
_LOW_RATE_ROUNDS = 2
_LOW_RATE_SECONDS = 1.5


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=DEFAULT_SECONDS, help="total time, approximately")
    parser.add_argument("--kafka", metavar="VERSION", default=NEWEST_VERSION, help="version of Apache Kafka")
    parser.add_argument("--no-kafka", action="store_true", help="measure only on the embedded cluster")
    parser.add_argument("--clients", help="semicolon-separated names, as in the tables")
    parser.add_argument("--rows", help="semicolon-separated names of rows, as in the tables")
    parser.add_argument("--count", type=int, help="records per run instead of a time, for short test runs")
    parser.add_argument("--throughput-only", action="store_true", help="only throughput")
    parser.add_argument("--document", action="store_true", help="write docs/performance.md")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON")
    return parser.parse_args()


def _clusters(arguments: argparse.Namespace, results: dict[str, Any]) -> Iterator[BenchCluster]:
    """The clusters, one after the other, so that none runs during the measurement of another."""
    lifetime_seconds = arguments.seconds * 3 + 900
    with closing(MockBench(lifetime_seconds)) as embedded:
        yield embedded
    if not arguments.no_kafka:
        try:
            kafka = KafkaBench(arguments.kafka, lifetime_seconds)
        except KafkaUnavailableError as error:
            results["left_out"].append(f"Apache Kafka: {error}")
            return
        with closing(kafka):
            yield kafka


def _measure_throughput(
    cluster: BenchCluster, arguments: argparse.Namespace, results: dict[str, Any], console: Console
) -> None:
    share = _EMBEDDED_SHARE if cluster.is_mock else _KAFKA_SHARE
    measured: Measurements = run_rounds(
        cluster,
        results["clients"],
        _rows(cluster, arguments.rows),
        arguments.seconds * share,
        console,
        run_seconds=_RUN_SECONDS,
        count=arguments.count,
    )
    results["runs"] += measured.runs
    results["failures"] += measured.failures
    results["rounds"][cluster.name] = 1 + max((run["round"] for run in measured.runs), default=-1)


def _rows(cluster: BenchCluster, wanted: str | None) -> list[Workload]:
    """All rows on the embedded cluster; on Apache Kafka those with each client's own defaults."""
    rows = [row for row in all_workloads() if cluster.is_mock or row.settings == OWN_DEFAULTS]
    if wanted is None:
        return rows if cluster.is_mock else [row for row in rows if row.name in ("100 B", "1 kB, lz4")]
    return [row for row in rows if row.name in wanted.split(";")]


def _client_process(results: dict[str, Any], name: str, module: str, task: dict[str, Any]) -> Any:
    """As ``run_python``; on failure ``None``, and a line in ``failures``."""
    environment = BY_NAME[name].environment if name in BY_NAME else low_rate.environment_of(name)
    try:
        return run_python(module, task, environment)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        results["failures"].append(f"{module}, {name}: {error}")
        return None


def _measure_ceiling(cluster: BenchCluster, results: dict[str, Any]) -> None:
    for batch_bytes in _CEILING_BATCHES:
        with cluster.topic() as (bootstrap, topic):
            task = {
                "bootstrap": bootstrap,
                "topic": topic,
                "cluster_pid": cluster.pid,
                "batch_bytes": batch_bytes,
                "seconds": 1.5,
            }
            found = _client_process(results, "", "benchmarks.ceiling", task)
        if found:
            results["ceiling"].append({"cluster": cluster.name, **found})


def _measure_low_rate(cluster: BenchCluster, results: dict[str, Any]) -> None:
    """In rounds; the times of all rounds are one entry per client and rate."""
    times: dict[tuple[int, str], list[float]] = {}
    names = [name for name in low_rate.DRIVERS if has_native_kernel() or not name.endswith("pure Python")]
    for _ in range(_LOW_RATE_ROUNDS):
        for rate in low_rate.RATES_PER_SECOND:
            for name in names:
                with cluster.topic() as (bootstrap, topic):
                    task = {
                        "client": name,
                        "bootstrap": bootstrap,
                        "topic": topic,
                        "is_mock": cluster.is_mock,
                        "rate": rate,
                        "count": int(rate * _LOW_RATE_SECONDS),
                    }
                    found = _client_process(results, name, "benchmarks.low_rate", task)
                if found:
                    times.setdefault((rate, name), []).extend(found["milliseconds"])
    for (rate, name), milliseconds in times.items():
        rounded = [round(each, 3) for each in milliseconds]
        results["low_rate"].append(
            {"cluster": cluster.name, "rate": rate, "client": name, "milliseconds": rounded}
        )


def _measure_profile(cluster: BenchCluster, results: dict[str, Any]) -> None:
    """Two runs per method: CPU samples, and Python functions of the I/O thread."""
    kinds = ["functions"]
    if cpu_samples.is_possible():
        kinds.append("samples")
    else:
        results["left_out"].append("CPU samples: `perf` is missing or not permitted here")
    for name in _PROFILED:
        if name not in results["clients"]:
            continue
        profile: dict[str, Any] = {"client": name}
        for kind in kinds:
            with cluster.topic() as (bootstrap, topic):
                task = {
                    "client": name,
                    "workload": Workload(OWN_DEFAULTS, 100).as_dict(),
                    "bootstrap": bootstrap,
                    "topic": topic,
                    "is_mock": cluster.is_mock,
                    "cluster_pid": cluster.pid,
                    "seconds": 1.5,
                    "count": None,
                    "profile": kind,
                }
                found = _client_process(results, name, "benchmarks.run_client", task)
            if found and kind == "samples":
                profile |= {"cpu_us_per_record": found["cpu_us_per_record"], **found["profile"]}
            elif found:
                profile["io_functions"] = found["functions"]
        results["profile"].append(profile)


def _measure_busy(results: dict[str, Any]) -> None:
    """Latency and speed while another thread of the application computes."""
    from benchmarks import latency

    clients = tuple(
        name for name, kernel in latency.CLIENTS.items() if kernel != "native" or has_native_kernel()
    )
    try:
        results["busy"] = latency.rows(clients, _BUSY_RATES, lingers_ms=(0,), seconds=_BUSY_SECONDS)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        results["failures"].append(f"latency with a busy thread: {error}")


def _measure_growth(results: dict[str, Any]) -> None:
    """The cost per record as the cluster grows; a process per case, so a failure affects no other."""
    from benchmarks import growth

    first: dict[str, float] = {}
    for case in growth.cases():
        try:
            (row,) = growth.rows([case])
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            results["failures"].append(f"growth: {error}")
            continue
        base = first.setdefault(row["series"], row["cpu_us_per_record"])
        results["growth"].append({**row, "growth": row["cpu_us_per_record"] / base})


def _measure_all_else(cluster: BenchCluster, results: dict[str, Any]) -> None:
    _measure_ceiling(cluster, results)
    _measure_low_rate(cluster, results)
    if cluster.is_mock:
        _measure_profile(cluster, results)
        _measure_busy(results)
        _measure_growth(results)
        results["import_time"] = import_time.measure()


def _new_results(arguments: argparse.Namespace) -> dict[str, Any]:
    """Everything except the measurements."""
    clients, left_out = available_clients()
    names = [client.name for client in clients]
    if arguments.clients is not None:
        names = [name for name in names if name in arguments.clients.split(";")]
    elif not arguments.no_kafka:
        try:
            tools_class_path(java_client.TOOLS_VERSION)
            names.append(JAVA)
        except KafkaUnavailableError as error:
            left_out.append(f"{JAVA}: {error}")
    versions = {client.distribution: version(client.distribution) for client in CLIENTS}
    if JAVA in names:
        versions[JAVA] = java_client.TOOLS_VERSION
    return {
        "when": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "load_average": os.getloadavg()[0],
        "versions": versions,
        "default_batch_bytes": default_batch_bytes(),
        "clients": names,
        "left_out": left_out,
        "clusters": {},
        "rounds": {},
        "failures": [],
        "runs": [],
        "ceiling": [],
        "low_rate": [],
        "busy": [],
        "growth": [],
        "import_time": [],
        "profile": [],
    }


def main() -> None:
    arguments = _arguments()
    results = _new_results(arguments)
    console = Console(highlight=False, markup=False)
    folder: Path = arguments.results
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-bench.json"
    started = time.monotonic()
    try:
        for cluster in _clusters(arguments, results):
            results["clusters"][cluster.name] = cluster.description
            _measure_throughput(cluster, arguments, results, console)
            if not arguments.throughput_only:
                _measure_all_else(cluster, results)
    finally:
        # Results from before an interruption are kept; python -m benchmarks.report prints them.
        results["seconds"] = round(time.monotonic() - started)
        path.write_text(json.dumps(results, indent=1))

    # Imported late, because a large parent process makes each start of a client slower.
    from benchmarks.report import ROOT, new_console, print_results, write_document

    console = new_console()
    print_results(console, results)
    console.print(f"{path} ({results['seconds']} s)")
    if arguments.document:
        for written in write_document(results):
            console.print(f"{written.relative_to(ROOT)} written")
    sys.exit(1 if results["failures"] or not results["runs"] else 0)


if __name__ == "__main__":
    main()

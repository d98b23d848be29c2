"""Benchmark of the Kafka producers: ``make bench``, or ``python -m benchmarks --help``.

Every client sends the same records to the same clusters, in its own process, in rounds. Results go to
``benchmarks/results/`` as JSON and to the console as tables; with ``--document`` also to the documentation.
``--only`` runs some of the groups, such as ``--only "low-rate;small-batches"``. Only a whole run can be
written to the documentation, so that all tables there are of one run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import (
    cpu_samples,
    formats,
    idempotence,
    import_time,
    java_client,
    low_rate,
    memory,
    request_profile,
)
from benchmarks.clients import (
    ARROW,
    BY_NAME,
    CLIENTS,
    JAVA,
    MAIN,
    MANY,
    NATIVE,
    available_clients,
    default_batch_bytes,
    has_native_kernel,
)
from benchmarks.clusters import BenchCluster, KafkaBench, MockBench
from benchmarks.throughput import FAILURES, clients_of_row, in_rounds, run_python, run_rounds
from benchmarks.workload import GROUPS as ROW_GROUPS
from benchmarks.workload import OWN_DEFAULTS, Workload
from tests.support.kafka.maven_artifacts import NEWEST_VERSION, KafkaUnavailableError, tools_class_path

RESULTS = Path(__file__).parent / "results"
DEFAULT_SECONDS = 1050
DEFAULT_ROUNDS = 5
#: Shares of the total time, on the embedded cluster and on Apache Kafka. Most is for the groups with goals,
#: so that they get several rounds. The other groups take about a minute and a half in addition, and formats
#: one: the shares without it are the whole.
_SHARES = {
    "throughput": (0.14, 0.07),
    "small-batches": (0.2, 0.0),
    "partitions": (0.12, 0.0),
    "low-rate": (0.22, 0.22),
    "memory": (0.03, 0.0),
    "formats": (0.05, 0.0),
}
_GROUPS = (*_SHARES, "idempotence", "import", "ceiling", "requests", "profile")
_GROUPS_ON_KAFKA = {"throughput", "low-rate", "ceiling"}
_RUN_SECONDS = 0.4
_CEILING_BATCHES = (16_384, 1_000_000)
_PROFILED = (MAIN, MANY, ARROW)
#: Rows on Apache Kafka, unless the arguments name some.
_KAFKA_ROWS = ("100 B", "1 kB, lz4")
#: Groups of cases: each case has a name and a topic, and each client a process.
_CASE_GROUPS = {"low-rate": low_rate, "memory": memory, "formats": formats}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=DEFAULT_SECONDS, help="total time, approximately")
    parser.add_argument("--kafka", metavar="VERSION", default=NEWEST_VERSION, help="version of Apache Kafka")
    parser.add_argument("--no-kafka", action="store_true", help="measure only on the embedded cluster")
    parser.add_argument("--clients", help="semicolon-separated names, as in the tables")
    parser.add_argument("--rows", help="semicolon-separated names of rows, as in the tables")
    parser.add_argument("--count", type=int, help="records per run instead of a time, for short test runs")
    parser.add_argument(
        "--only", default=";".join(_GROUPS), help=f"semicolon-separated groups: {', '.join(_GROUPS)}"
    )
    parser.add_argument("--rounds", type=int, default=DEFAULT_ROUNDS, help="at most; fewer if time is short")
    parser.add_argument(
        "--document",
        action="store_true",
        help="write the documentation's tables and plots; needs a run of all groups",
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the JSON")
    arguments = parser.parse_args()
    arguments.only = arguments.only.split(";")
    if unknown := set(arguments.only) - set(_GROUPS):
        parser.error(f"no such group: {', '.join(sorted(unknown))}")
    if arguments.clients is not None:
        arguments.clients = arguments.clients.split(";")
        known = {*BY_NAME, JAVA}.union(*(module.DRIVERS for module in _CASE_GROUPS.values()))
        if unknown := set(arguments.clients) - known:
            parser.error(f"no such client: {', '.join(sorted(unknown))}")
    arguments.is_whole = (
        set(arguments.only) == set(_GROUPS)
        and arguments.clients is arguments.rows is arguments.count is None
        and not arguments.no_kafka
    )
    if arguments.document and not arguments.is_whole:
        parser.error(
            "--document writes every table, so it cannot be combined with --only, --clients, --rows, --count "
            "or --no-kafka"
        )
    return arguments


def _clusters(arguments: argparse.Namespace, results: dict[str, Any]) -> Iterator[BenchCluster]:
    """The clusters, one after the other, so that none runs during the measurement of another."""
    lifetime_seconds = arguments.seconds * 3 + 900
    with closing(MockBench(lifetime_seconds)) as embedded:
        yield embedded
    if not arguments.no_kafka and _GROUPS_ON_KAFKA & set(arguments.only):
        try:
            kafka = KafkaBench(arguments.kafka, lifetime_seconds)
        except KafkaUnavailableError as error:
            results["left_out"].append(f"Apache Kafka: {error}")
            return
        with closing(kafka):
            yield kafka


def _seconds(cluster: BenchCluster, group: str, arguments: argparse.Namespace) -> float:
    """The group's share of the total time, relative to the shares of the groups to measure."""
    embedded, kafka = _SHARES[group]
    if len(arguments.only) < len(_GROUPS):
        total = sum(sum(_SHARES.get(each, ())) for each in arguments.only)
        embedded, kafka = embedded / total, kafka / total
    return float(arguments.seconds * (embedded if cluster.is_mock else kafka))


def _measure_throughput(
    cluster: BenchCluster,
    group: str,
    arguments: argparse.Namespace,
    results: dict[str, Any],
    console: Console,
) -> None:
    rows = [
        (row, clients_of_row(results["clients"], group, row, cluster))
        for row in _rows(cluster, group, arguments.rows)
    ]
    measured = run_rounds(
        cluster,
        rows,
        _seconds(cluster, group, arguments),
        console,
        rounds=arguments.rounds,
        run_seconds=_RUN_SECONDS,
        count=arguments.count,
    )
    results["runs"] += measured.runs
    results["failures"] += measured.failures
    results["rounds"][f"{cluster.name}, {group}"] = _rounds_of(measured.runs)


def _rounds_of(runs: list[dict[str, Any]]) -> int:
    return 1 + max((run["round"] for run in runs), default=-1)


def _rows(cluster: BenchCluster, group: str, wanted: str | None) -> list[Workload]:
    """All rows of a group on the embedded cluster; on Apache Kafka those with each client's own defaults."""
    names = wanted.split(";") if wanted else None if cluster.is_mock else _KAFKA_ROWS
    rows = [row for row in ROW_GROUPS[group] if cluster.is_mock or row.settings == OWN_DEFAULTS]
    return [row for row in rows if names is None or row.name in names]


def _client_process(results: dict[str, Any], name: str, module: str, task: dict[str, Any]) -> Any:
    """As ``run_python``; on failure ``None``, and a line in ``failures``."""
    try:
        return run_python(module, task, BY_NAME[name].environment if name in BY_NAME else NATIVE)
    except FAILURES as error:
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
            found = _client_process(results, MAIN, "benchmarks.ceiling", task)
        if found:
            results["ceiling"].append({"cluster": cluster.name, **found})


def _measure_cases(
    cluster: BenchCluster,
    group: str,
    arguments: argparse.Namespace,
    results: dict[str, Any],
    console: Console,
) -> None:
    module = _CASE_GROUPS[group]
    cases = [
        (
            case,
            [
                name
                for name in getattr(case, "clients", module.DRIVERS)
                if (arguments.clients is None or name in arguments.clients)
                and (name != low_rate.OURS or has_native_kernel())
            ],
        )
        for case in module.CASES
    ]
    runs = []
    for number, case, name in in_rounds(cases, _seconds(cluster, group, arguments), arguments.rounds):
        with cluster.topic(*case.topic) as (bootstrap, topic):
            task = {"client": name, "bootstrap": bootstrap, "topic": topic, "count": arguments.count}
            found = _client_process(results, name, module.__name__, {**task, **case._asdict()})
        console.print(f"{cluster.name}: round {number + 1}, {group}, {case.name}, {name}", style="dim")
        if found:
            found.pop("milliseconds", None)
            place = {"cluster": cluster.name, "family": module.FAMILY, "row": case.name}
            runs.append({"round": number, **place, "client": name, **case._asdict(), **found})
    results[group.replace("-", "_")] += runs
    results["rounds"][f"{cluster.name}, {group}"] = _rounds_of(runs)


def _measure_idempotence(
    cluster: BenchCluster, arguments: argparse.Namespace, results: dict[str, Any]
) -> None:
    for case in idempotence.CASES:
        with cluster.topic() as (bootstrap, topic):
            task = {
                "case": case,
                "bootstrap": bootstrap,
                "topic": topic,
                "records": arguments.count or idempotence.RECORDS,
                "rounds": min(arguments.rounds, DEFAULT_ROUNDS) * idempotence.ROUNDS // DEFAULT_ROUNDS,
            }
            found = _client_process(results, case.name, "benchmarks.idempotence", task)
        results["idempotence"] += found or []


def _measure_requests(cluster: BenchCluster, arguments: argparse.Namespace, results: dict[str, Any]) -> None:
    if MAIN not in results["clients"]:
        return
    for case in request_profile.CASES:
        with cluster.topic(*case.topic) as (bootstrap, topic):
            task = {"case": case.name, "bootstrap": bootstrap, "topic": topic, "count": arguments.count}
            found = _client_process(results, MAIN, request_profile.__name__, task)
        if found:
            results["requests"].append(found)


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


def _measure_on(
    cluster: BenchCluster, arguments: argparse.Namespace, results: dict[str, Any], console: Console
) -> None:
    """All groups to measure on this cluster, in the order of the arguments."""
    for group in arguments.only:
        if not cluster.is_mock and group not in _GROUPS_ON_KAFKA:
            continue
        if group in ROW_GROUPS:
            _measure_throughput(cluster, group, arguments, results, console)
        elif group in _CASE_GROUPS and (group != "formats" or has_native_kernel()):
            _measure_cases(cluster, group, arguments, results, console)
        elif group == "idempotence" and has_native_kernel():
            _measure_idempotence(cluster, arguments, results)
        elif group == "requests":
            _measure_requests(cluster, arguments, results)
        elif group == "ceiling" and has_native_kernel():
            _measure_ceiling(cluster, results)
        elif group == "profile":
            _measure_profile(cluster, results)
        elif group == "import":
            results["import_time"] = import_time.measure()


def _new_results(arguments: argparse.Namespace) -> dict[str, Any]:
    """Everything except the measurements."""
    clients, left_out = available_clients()
    names = [client.name for client in clients]
    if arguments.clients is not None:
        names = [name for name in names if name in arguments.clients]
    elif not arguments.no_kafka and "throughput" in arguments.only:
        try:
            tools_class_path(java_client.TOOLS_VERSION)
            names.append(JAVA)
        except KafkaUnavailableError as error:
            left_out.append(f"{JAVA}: {error}")
    versions = {client.distribution: version(client.distribution) for client in CLIENTS}
    if "formats" in arguments.only:
        for name in formats.PACKAGES:
            with suppress(PackageNotFoundError):
                versions[name] = version(name)
    if JAVA in names:
        versions[JAVA] = java_client.TOOLS_VERSION
    return {
        "is_whole": arguments.is_whole,
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
        "memory": [],
        "formats": [],
        "idempotence": [],
        "import_time": [],
        "requests": [],
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
            _measure_on(cluster, arguments, results, console)
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
    sys.exit(1 if results["failures"] else 0)


if __name__ == "__main__":
    main()

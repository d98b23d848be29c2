"""What a record costs as a cluster grows: ``python -m benchmarks.growth``.

CPU time of the sending process for each record, from 1 to 10,000 partitions (without keys, and with keys that
hit all of them) and from 1 to 1,000 brokers, after a warm-up that has fetched metadata and made every
connection. Each case has a process and a mock cluster of its own. Beside the CPU stands how many records a
batch got: with keys over thousands of partitions hardly any meet in one, whatever the client does, and what
is paid then is the price of a batch.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

from tests.support.mock_cluster import MockClusterProcess

PARTITIONS = (1, 10, 100, 1_000, 10_000)
BROKERS = (1, 10, 100, 1_000)
#: With many brokers: enough partitions that each leads some.
PARTITIONS_OF_MANY_BROKERS = 1_000
RECORDS = 200_000
VALUE = b"x" * 100
LINGER_MS = 5
ROUNDS = 5
#: A case is good when it costs at most so many times what the smallest one does.
LIMIT = 1.3
_TOPIC = "growth"
_FLUSH_SECONDS = 120.0


def _totals(producer: Any) -> tuple[float, float]:
    metrics = producer.metrics()
    return metrics["batch_total"], metrics["request_total"]


def run_case(task: dict[str, Any]) -> dict[str, Any]:
    """One case, in this process: the best of some rounds, for a machine that does other things too."""
    from kproducer import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=task["bootstrap"], linger_ms=LINGER_MS, buffer_memory=256 * 1024 * 1024
    )
    partitions, count = task["partitions"], task["records"]
    # A partition each: all leaders are connected to, all queues made.
    for partition in range(partitions):
        producer.send(_TOPIC, VALUE, partition=partition)
    producer.flush(_FLUSH_SECONDS)
    keys: list[bytes | None] = [None]
    if task["keyed"]:
        keys = [b"key-%d" % number for number in range(max(4 * partitions, 1000))]
    keys = (keys * (count // len(keys) + 1))[:count]
    send = producer.send
    rounds: list[dict[str, Any]] = []
    for _ in range(ROUNDS):
        batches_before, requests_before = _totals(producer)
        cpu, started = time.process_time(), time.perf_counter()
        for key in keys:
            send(_TOPIC, VALUE, key)
        producer.flush(_FLUSH_SECONDS)
        cpu, seconds = time.process_time() - cpu, time.perf_counter() - started
        batches, requests = _totals(producer)
        batches, requests = batches - batches_before, requests - requests_before
        rounds.append(
            {
                "cpu_us_per_record": cpu / count * 1e6,
                "records_per_second": count / seconds,
                "records_per_batch": count / batches,
                "batches_per_request": batches / requests,
            }
        )
    failed = producer.metrics()["record_error_total"]
    if failed:
        raise RuntimeError(f"{failed} records failed")
    producer.close()
    return min(rounds[1:] or rounds, key=lambda found: found["cpu_us_per_record"])


def _run_in_child(cluster_process: MockClusterProcess, case: dict[str, Any]) -> dict[str, Any]:
    cluster = cluster_process.cluster(broker_count=case["brokers"])
    cluster.create_topic(_TOPIC, case["partitions"], 1)
    try:
        task = {**case, "bootstrap": cluster.bootstrap_servers.partition(",")[0]}
        finished = subprocess.run(
            [sys.executable, "-m", "benchmarks.growth", "--case", json.dumps(task)],
            capture_output=True,
            text=True,
            timeout=_FLUSH_SECONDS * 2,
            check=False,
        )
    finally:
        cluster.close()
    if finished.returncode != 0:
        raise RuntimeError(f"{case}: {finished.stderr.strip()[-500:]}")
    return {**case, **json.loads(finished.stdout.splitlines()[-1])}


def cases(
    partitions: tuple[int, ...] = PARTITIONS, brokers: tuple[int, ...] = BROKERS, records: int = RECORDS
) -> list[dict[str, Any]]:
    """All cases, in series: what grows, without keys or with them. The first of a series is its measure."""
    found: list[dict[str, Any]] = []
    for keyed in (False, True):
        series = "partitions, keyed" if keyed else "partitions"
        for count in partitions:
            found.append({"series": series, "brokers": 1, "partitions": count, "keyed": keyed})
    for count in brokers:
        spread = max(PARTITIONS_OF_MANY_BROKERS, count)
        found.append({"series": "brokers", "brokers": count, "partitions": spread, "keyed": False})
    return [{**case, "records": records} for case in found]


def rows(wanted: list[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
    """A row for each case, with ``growth``: its CPU a record beside that of the first of its series."""
    found: list[dict[str, Any]] = []
    first: dict[str, float] = {}
    for case in cases() if wanted is None else wanted:
        process = MockClusterProcess(lifetime_seconds=900.0)
        try:
            row = _run_in_child(process, case)
        finally:
            process.close()
        base = first.setdefault(row["series"], row["cpu_us_per_record"])
        found.append({**row, "growth": row["cpu_us_per_record"] / base})
    return found


def print_table(found: list[dict[str, Any]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title="CPU of a record as the cluster grows",
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
    )
    table.add_column("what grows", no_wrap=True)
    for label in (
        "brokers",
        "partitions",
        "CPU \u00b5s / record",
        f"times the first (limit {LIMIT})",
        "records / batch",
        "batches / request",
        "records / s",
    ):
        table.add_column(label, justify="right")
    for index, row in enumerate(found):
        table.add_row(
            row["series"],
            f"{row['brokers']:,}",
            f"{row['partitions']:,}",
            f"{row['cpu_us_per_record']:.2f}",
            f"{row['growth']:.2f}",
            f"{row['records_per_batch']:,.1f}",
            f"{row['batches_per_request']:,.1f}",
            f"{row['records_per_second']:,.0f}",
            end_section=index + 1 < len(found) and found[index + 1]["series"] != row["series"],
        )
    console = Console(highlight=False)
    console.print(table)
    console.print(f"mock cluster; {len(VALUE)} bytes, linger {LINGER_MS} ms; best of {ROUNDS - 1} rounds")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=RECORDS, help="records in a round")
    parser.add_argument("--partitions", default=",".join(map(str, PARTITIONS)))
    parser.add_argument("--brokers", default=",".join(map(str, BROKERS)))
    parser.add_argument("--json", help="also write the rows to this file")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(run_case(json.loads(arguments.case))), flush=True)
        return
    partitions = tuple(int(number) for number in arguments.partitions.split(",") if number)
    brokers = tuple(int(number) for number in arguments.brokers.split(",") if number)
    found = rows(cases(partitions, brokers, arguments.records))
    print_table(found)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()

"""The cost of idempotence: ``python -m benchmarks.idempotence``.

Two producers in one process, one with ``enable_idempotence`` and one without, send the same records in
turn. The result is the CPU time of the process per record, as the median of the ratios of adjacent rounds, so
that other work on the machine affects both almost equally. Idempotence costs CPU per batch, so one case has
small batches.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from statistics import median
from typing import Any, NamedTuple

from benchmarks.process_costs import own_cpu_seconds
from tests.support.kafka.mock_cluster import MockClusterProcess

#: The limit for the ratio of CPU per record with and without idempotence.
LIMIT = 1.05
ROUNDS = 15
RECORDS = 300_000
VALUE = b"x" * 100
_TOPIC = "idempotence"
_PARTITIONS = 6
_BUFFER_BYTES = 256 * 1024 * 1024
_CHUNK = 10_000
_FLUSH_SECONDS = 120.0


class Case(NamedTuple):
    """The records of a case and how they are sent.

    Attributes:
        name: in the table.
        method: ``send`` or ``send_many``.
        settings: of both producers.
        share: of the records of a round.
    """

    name: str
    method: str
    settings: dict[str, Any]
    share: float


CASES = (
    Case("send", "send", {}, 1),
    Case("send_many", "send_many", {}, 3),
    Case("send, batches of 16 KiB", "send", {"batch_size": 16_384}, 1),
    Case("send, batches of 1 kB", "send", {"batch_size": 1_000}, 0.2),
)


def _round(producer: Any, method: str, count: int) -> float:
    """CPU microseconds per record."""
    before = own_cpu_seconds()
    if method == "send":
        send = producer.send
        for _ in range(count):
            send(_TOPIC, VALUE)
    else:
        values = [VALUE] * _CHUNK
        for _ in range(count // _CHUNK):
            producer.send_many(_TOPIC, values)
    producer.flush(_FLUSH_SECONDS)
    return (own_cpu_seconds() - before) / count * 1e6


def run_case(task: dict[str, Any]) -> dict[str, Any]:
    """Run one case in this process."""
    from kproducer import KafkaProducer

    case = Case(*task["case"])
    count = max(_CHUNK, int(task["records"] * case.share) // _CHUNK * _CHUNK)
    producers = {
        is_idempotent: KafkaProducer(
            bootstrap_servers=task["bootstrap"],
            enable_idempotence=is_idempotent,
            buffer_memory=_BUFFER_BYTES,
            **case.settings,
        )
        for is_idempotent in (False, True)
    }
    costs: dict[bool, list[float]] = {False: [], True: []}
    for number in range(-2, task["rounds"]):
        # The order alternates; the first rounds, which connect, do not count.
        for is_idempotent in (False, True) if number % 2 else (True, False):
            cost = _round(producers[is_idempotent], case.method, count)
            if number >= 0:
                costs[is_idempotent].append(cost)
    metrics = producers[True].metrics()
    for producer in producers.values():
        failed = producer.metrics()["record_error_total"]
        if failed:
            raise RuntimeError(f"{failed} records failed")
        producer.close()
    return {
        "without_us": median(costs[False]),
        "with_us": median(costs[True]),
        "ratio": median(on / off for on, off in zip(costs[True], costs[False], strict=True)),
        "records_per_batch": metrics["record_send_total"] / metrics["batch_total"],
    }


def _run_in_child(case: Case, records: int, rounds: int) -> dict[str, Any]:
    process = MockClusterProcess(lifetime_seconds=900.0)
    try:
        cluster = process.cluster(broker_count=3)
        cluster.create_topic(_TOPIC, _PARTITIONS, 1)
        task = {"case": case, "records": records, "rounds": rounds, "bootstrap": cluster.bootstrap_servers}
        finished = subprocess.run(
            [sys.executable, "-m", "benchmarks.idempotence", "--case", json.dumps(task)],
            capture_output=True,
            text=True,
            timeout=_FLUSH_SECONDS * 4,
            check=False,
        )
    finally:
        process.close()
    if finished.returncode != 0:
        raise RuntimeError(f"{case.name}: {finished.stderr.strip()[-500:]}")
    return {"case": case.name, **json.loads(finished.stdout.splitlines()[-1])}


def rows(records: int = RECORDS, rounds: int = ROUNDS) -> list[dict[str, Any]]:
    """One row per case."""
    return [_run_in_child(case, records, rounds) for case in CASES]


def print_table(found: list[dict[str, Any]], rounds: int) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(title="CPU of idempotence", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.add_column("sent by", no_wrap=True)
    for label in ("without, \u00b5s / record", "with", f"ratio (limit {LIMIT})", "records / batch"):
        table.add_column(label, justify="right")
    for row in found:
        table.add_row(
            row["case"],
            f"{row['without_us']:.3f}",
            f"{row['with_us']:.3f}",
            f"{row['ratio']:.3f}",
            f"{row['records_per_batch']:,.0f}",
        )
    console = Console(highlight=False)
    console.print(table)
    console.print(f"mock cluster; {len(VALUE)} bytes; medians of {rounds} rounds in turn")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.idempotence", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--records", type=int, default=RECORDS, help="approximate records per round")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", help="also write the rows to this file")
    parser.add_argument("--check", action="store_true", help="fail above the limit; for idle machines")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(run_case(json.loads(arguments.case))), flush=True)
        return
    found = rows(arguments.records, arguments.rounds)
    print_table(found, arguments.rounds)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(found, file, indent=1)
    # Batches of a few records are shown, but have no limit.
    too_much = [row["case"] for row in found if row["ratio"] > LIMIT and row["records_per_batch"] > 20]
    if too_much:
        print(f"above the limit: {', '.join(too_much)}")
        sys.exit(1 if arguments.check else 0)


if __name__ == "__main__":
    main()

"""The cost per record as a cluster grows: ``python -m benchmarks.growth``.

CPU time of the sending process per record, from 1 to 10,000 partitions (without keys, and with keys that
hit all of them) and from 1 to 1,000 brokers, after a warm-up that fetches metadata and opens every
connection. Each case has its own process and mock cluster. The table also shows the records per batch: with
keys and thousands of partitions hardly any two records share a batch, in any client, so the cost per batch
dominates. At the end of a round each partition sends its records, so with 200,000 records and 10,000
partitions a batch has at most 20, on average. confluent-kafka (also idempotent, without callbacks) runs the
same cases with keys, in turn: its growth shows what the setting requires of any client.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

from tests.support.kafka.mock_cluster import MockClusterProcess

PARTITIONS = (1, 10, 100, 1_000, 10_000)
BROKERS = (1, 10, 100, 1_000)
#: With many brokers: enough partitions for each to lead some.
PARTITIONS_OF_MANY_BROKERS = 1_000
RECORDS = 200_000
VALUE = b"x" * 100
LINGER_MS = 5
ROUNDS = 5
#: A case passes if its cost is at most this multiple of the smallest case.
LIMIT = 1.3
_TOPIC = "growth"
_FLUSH_SECONDS = 120.0


class _KproducerCase:
    """kproducer; results are dropped, because the other client has none."""

    def __init__(self, bootstrap: str) -> None:
        from kproducer import KafkaProducer

        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap, linger_ms=LINGER_MS, buffer_memory=256 * 1024 * 1024
        )

    def send_to_each(self, partitions: int) -> None:
        for partition in range(partitions):
            self._producer.send(_TOPIC, VALUE, partition=partition)

    def send_all(self, keys: list[bytes | None]) -> None:
        send = self._producer.send
        for key in keys:
            send(_TOPIC, VALUE, key)

    def flush(self) -> None:
        self._producer.flush(_FLUSH_SECONDS)

    def totals(self) -> tuple[float, float]:
        """Batches and requests so far."""
        metrics = self._producer.metrics()
        return metrics["batch_total"], metrics["request_total"]

    def end(self) -> None:
        failed = self._producer.metrics()["record_error_total"]
        if failed:
            raise RuntimeError(f"{failed} records failed")
        self._producer.close()


class _ConfluentCase:
    """confluent-kafka with Java's partitioner; ``poll`` is called once per hundred records."""

    def __init__(self, bootstrap: str) -> None:
        from confluent_kafka import Producer

        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": LINGER_MS,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "queue.buffering.max.messages": 10_000_000,
                "queue.buffering.max.kbytes": 1024 * 1024,
            }
        )

    def send_to_each(self, partitions: int) -> None:
        for partition in range(partitions):
            self._producer.produce(_TOPIC, VALUE, partition=partition)

    def send_all(self, keys: list[bytes | None]) -> None:
        produce, poll = self._producer.produce, self._producer.poll
        for start in range(0, len(keys), 100):
            for key in keys[start : start + 100]:
                produce(_TOPIC, VALUE, key)
            poll(0)

    def flush(self) -> None:
        left = self._producer.flush(_FLUSH_SECONDS)
        if left:
            raise RuntimeError(f"{left} records were not acknowledged")

    def totals(self) -> tuple[float, float]:
        """Only from its statistics, which cost CPU themselves."""
        return 0.0, 0.0

    def end(self) -> None:
        pass


_CLIENTS: dict[str, type[_KproducerCase] | type[_ConfluentCase]] = {
    "kproducer": _KproducerCase,
    "confluent-kafka": _ConfluentCase,
}


def run_case(task: dict[str, Any]) -> dict[str, Any]:
    """Run one case in this process: the best of several rounds, because the machine may do other work."""
    partitions, count = task["partitions"], task["records"]
    client = _CLIENTS[task["client"]](task["bootstrap"])
    # One record per partition opens all connections and creates all queues.
    client.send_to_each(partitions)
    client.flush()
    keys: list[bytes | None] = [None]
    if task["keyed"]:
        keys = [b"key-%d" % number for number in range(max(4 * partitions, 1000))]
    keys = (keys * (count // len(keys) + 1))[:count]
    rounds: list[dict[str, Any]] = []
    for _ in range(ROUNDS):
        batches_before, requests_before = client.totals()
        cpu, started = time.process_time(), time.perf_counter()
        client.send_all(keys)
        client.flush()
        cpu, seconds = time.process_time() - cpu, time.perf_counter() - started
        batches, requests = client.totals()
        batches, requests = batches - batches_before, requests - requests_before
        rounds.append(
            {
                "cpu_us_per_record": cpu / count * 1e6,
                "records_per_second": count / seconds,
                "records_per_batch": count / batches if batches else None,
                "batches_per_request": batches / requests if requests else None,
            }
        )
    client.end()
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
    """All cases in series: what grows, without or with keys. The first of a series is its reference.

    With keys the clients take turns at each count, because the speed of the machine may change.
    """
    found: list[dict[str, Any]] = []
    for count in partitions:
        found.append({"series": "partitions", "brokers": 1, "partitions": count, "keyed": False})
    for count in partitions:
        for client in _CLIENTS:
            series = "partitions, keyed" if client == "kproducer" else f"keyed, {client}"
            case = {"series": series, "brokers": 1, "partitions": count, "keyed": True, "client": client}
            found.append(case)
    for count in brokers:
        spread = max(PARTITIONS_OF_MANY_BROKERS, count)
        found.append({"series": "brokers", "brokers": count, "partitions": spread, "keyed": False})
    return [{"client": "kproducer", **case, "records": records} for case in found]


def rows(wanted: list[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
    """A row per case, with ``growth``: the ratio of its CPU per record to that of the first in its series."""
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
    found.sort(key=lambda row: list(first).index(row["series"]))
    return found


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


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
            _number(row["records_per_batch"]),
            _number(row["batches_per_request"]),
            f"{row['records_per_second']:,.0f}",
            end_section=index + 1 < len(found) and found[index + 1]["series"] != row["series"],
        )
    console = Console(highlight=False)
    console.print(table)
    console.print(f"mock cluster; {len(VALUE)} bytes, linger {LINGER_MS} ms; best of {ROUNDS - 1} rounds")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=RECORDS, help="records per round")
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

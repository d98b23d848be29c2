"""Delivery latency and throughput beside a busy application thread: ``python -m benchmarks.latency``.

One process sends records at a fixed rate, or as fast as it can, with or without another thread that spins
in pure Python. The results are the times from ``send`` to the delivery callback. The spinning thread holds
the GIL for 5 ms at a time, so each return of a client's thread from a system call may take as long. The
sending thread polls confluent-kafka, as its documentation recommends. Every client and case has its own
process, with a mock cluster.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from tests.support.kafka.mock_cluster import MockClusterProcess

#: client -> KPRODUCER_KERNEL in its process.
CLIENTS = {"kproducer": "native", "kproducer (pure)": "pure", "confluent-kafka": "auto"}
#: Records per second; 0: as fast as possible.
RATES = (1_000, 20_000, 0)
LINGERS_MS = (0, 5)
VALUE = b"x" * 100
PARTITION_COUNT = 6
SECONDS = 4.0
FULL_SPEED_RECORDS = 200_000
_WARM_UP_RECORDS = 500
_FLUSH_SECONDS = 120.0
_TOPIC = "latency"

#: Sends one record and stores the time of its delivery.
Send = Callable[[], None]
#: Waits up to this many seconds for deliveries, and calls the callbacks if the client does not.
Pause = Callable[[float], None]
Flush = Callable[[], None]


def _kproducer(bootstrap: str, linger_ms: int, delays: list[float]) -> tuple[Send, Pause, Flush]:
    from kproducer import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=bootstrap, acks="all", linger_ms=linger_ms, enable_idempotence=False
    )
    clock = time.perf_counter

    def send() -> None:
        started = clock()

        def delivered(metadata: object, error: object) -> None:
            if error is not None:
                raise RuntimeError(error)
            delays.append(clock() - started)

        producer.send(_TOPIC, VALUE, on_delivery=delivered)

    return send, time.sleep, lambda: producer.flush(_FLUSH_SECONDS)


def _confluent(bootstrap: str, linger_ms: int, delays: list[float]) -> tuple[Send, Pause, Flush]:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "linger.ms": linger_ms,
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 0,
        }
    )
    clock = time.perf_counter

    def send() -> None:
        started = clock()

        def delivered(error: object, message: object) -> None:
            if error is not None:
                raise RuntimeError(error)
            delays.append(clock() - started)

        while True:
            try:
                producer.produce(_TOPIC, VALUE, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)

    return send, producer.poll, lambda: producer.flush(_FLUSH_SECONDS)


def _send_at(rate: int, seconds: float, send: Send, pause: Pause) -> int:
    """Send on schedule, late records immediately. Returns their number."""
    clock = time.perf_counter
    started = clock()
    wanted = int(rate * seconds)
    for number in range(wanted):
        early = started + number / rate - clock()
        while early > 0:
            pause(early)
            early = started + number / rate - clock()
        send()
    return wanted


def _spin(stop: list[bool], turns: list[int]) -> None:
    count = 0
    while not stop:
        count += 1
    turns.append(count)


def run_case(task: dict[str, Any]) -> dict[str, Any]:
    """One client in one case, in this process."""
    delays: list[float] = []
    session = _confluent if task["client"] == "confluent-kafka" else _kproducer
    send, pause, flush = session(task["bootstrap"], task["linger_ms"], delays)
    for _ in range(_WARM_UP_RECORDS):
        send()
    flush()
    delays.clear()
    stop: list[bool] = []
    turns: list[int] = []
    spinner = threading.Thread(target=_spin, args=(stop, turns), daemon=True)
    if task["busy"]:
        spinner.start()
    started, cpu = time.perf_counter(), time.process_time()
    if task["rate"]:
        count = _send_at(task["rate"], task["seconds"], send, pause)
    else:
        count = FULL_SPEED_RECORDS
        for _ in range(count):
            send()
    flush()
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    if task["busy"]:
        stop.append(True)
        spinner.join()
    if len(delays) != count:
        raise RuntimeError(f"{len(delays)} of {count} records were delivered")
    cuts = statistics.quantiles(delays, n=100)
    return {
        "records_per_second": count / seconds,
        "p50_ms": cuts[49] * 1e3,
        "p99_ms": cuts[98] * 1e3,
        "cpu_us_per_record": None if task["busy"] else cpu / count * 1e6,
        "turns_per_second": turns[0] / seconds if turns else None,
    }


def _run_in_child(task: dict[str, Any]) -> dict[str, Any]:
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks.latency", "--case", json.dumps(task)],
        capture_output=True,
        text=True,
        timeout=_FLUSH_SECONDS + 60,
        check=False,
        env={**os.environ, "KPRODUCER_KERNEL": CLIENTS[task["client"]]},
    )
    if finished.returncode != 0:
        raise RuntimeError(f"{task['client']}: {finished.stderr.strip()[-500:]}")
    result: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return {**{key: task[key] for key in ("client", "linger_ms", "rate", "busy")}, **result}


def rows(
    clients: tuple[str, ...] = tuple(CLIENTS),
    rates: tuple[int, ...] = RATES,
    lingers_ms: tuple[int, ...] = LINGERS_MS,
    seconds: float = SECONDS,
    rounds: int = 1,
) -> list[dict[str, Any]]:
    """A row per case and client: the round with the median p50."""
    found: list[dict[str, Any]] = []
    process = MockClusterProcess(lifetime_seconds=3600.0)
    try:
        for linger_ms in lingers_ms:
            for rate in rates:
                for busy in (False, True):
                    runs: dict[str, list[dict[str, Any]]] = {client: [] for client in clients}
                    for _ in range(rounds):
                        for client in clients:
                            # Each case has its own cluster, because the mock keeps all records in memory.
                            cluster = process.cluster(broker_count=3)
                            cluster.create_topic(_TOPIC, PARTITION_COUNT)
                            task = {
                                "client": client,
                                "bootstrap": cluster.bootstrap_servers,
                                "linger_ms": linger_ms,
                                "rate": rate,
                                "busy": busy,
                                "seconds": seconds,
                            }
                            runs[client].append(_run_in_child(task))
                            cluster.close()
                    for client in clients:
                        ordered = sorted(runs[client], key=lambda run: run["p50_ms"])
                        found.append(ordered[(len(ordered) - 1) // 2])
    finally:
        process.close()
    return found


def print_table(found: list[dict[str, Any]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title="from send() to the delivery callback",
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
    )
    table.add_column("linger")
    table.add_column("records / s wanted", justify="right")
    table.add_column("busy thread")
    table.add_column("client", no_wrap=True)
    for label in ("records / s", "p50 ms", "p99 ms", "CPU \u00b5s / record", "busy thread, M turns / s"):
        table.add_column(label, justify="right")
    for index, row in enumerate(found):
        following = found[index + 1] if index + 1 < len(found) else None
        table.add_row(
            f"{row['linger_ms']} ms",
            f"{row['rate']:,}" if row["rate"] else "all it can",
            "yes" if row["busy"] else "no",
            row["client"],
            f"{row['records_per_second']:,.0f}",
            f"{row['p50_ms']:.1f}",
            f"{row['p99_ms']:.1f}",
            "" if row["cpu_us_per_record"] is None else f"{row['cpu_us_per_record']:.1f}",
            "" if row["turns_per_second"] is None else f"{row['turns_per_second'] / 1e6:.1f}",
            end_section=following is not None
            and (following["rate"], following["busy"]) != (row["rate"], row["busy"]),
        )
    console = Console(highlight=False)
    console.print(table)
    console.print(
        f"mock cluster, 3 nodes, {PARTITION_COUNT} partitions, {len(VALUE)} bytes, acks=all, else defaults"
    )
    console.print(f"confluent-kafka {version('confluent-kafka')}, {os.cpu_count()} cores")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=SECONDS, help="length of a run at a fixed rate")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--clients", default=",".join(CLIENTS), help="comma-separated")
    parser.add_argument("--rates", default=",".join(map(str, RATES)), help="records/s; 0: maximum")
    parser.add_argument("--lingers", default=",".join(map(str, LINGERS_MS)), help="ms")
    parser.add_argument("--json", help="also write the rows to this file")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(run_case(json.loads(arguments.case))), flush=True)
        return
    found = rows(
        tuple(arguments.clients.split(",")),
        tuple(int(rate) for rate in arguments.rates.split(",")),
        tuple(int(linger) for linger in arguments.lingers.split(",")),
        arguments.seconds,
        arguments.rounds,
    )
    print_table(found)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()

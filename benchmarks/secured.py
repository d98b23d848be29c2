"""The cost of SASL_SSL: ``python -m benchmarks.secured``.

One node of Apache Kafka has a plaintext listener and one for SASL_SSL with SCRAM-SHA-256. For each client
and kind of record one process has two producers, one per listener, which send the same records in turn. What
TLS adds is the median of the differences of adjacent rounds, so that other work on the machine affects both
almost equally. The second table has the time until a new client knows a topic, and the latency at a low rate.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import ssl
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.clients import BY_NAME, MAIN, MANY, REFERENCE
from benchmarks.clusters import KafkaBench
from benchmarks.figures import percentile
from benchmarks.low_rate import OURS, PEER
from benchmarks.peer_sessions import librdkafka_security
from benchmarks.process_costs import own_cpu_seconds
from benchmarks.sessions import Session, Target
from benchmarks.throughput import run_python
from benchmarks.workload import OWN_DEFAULTS, Workload, distinct_records, repeated
from tests.support.certificates import Authority
from tests.support.kafka import sasl
from tests.support.kafka.maven_artifacts import NEWEST_VERSION

CLIENTS = (MAIN, MANY, REFERENCE)
WORKLOADS = (
    Workload(OWN_DEFAULTS, 100),
    Workload(OWN_DEFAULTS, 1000),
    Workload(OWN_DEFAULTS, 1000, codec="lz4"),
)
#: The most that TLS may add to the CPU time per record, in microseconds, by the size of the value.
GOALS_US = {100: 0.05, 1000: 0.5}
ROUNDS = 11
LATENCY_RATE, LATENCY_SECONDS = 1000, 5
CONNECTS = 15
_LISTENER = "SECURE"
_USER, _PASSWORD = "bench", "bench-password"
_WARM_UP_PORTIONS = 3
_PORTION_CPU_SECONDS = 0.3
_FEWEST_RECORDS, _MOST_BYTES = 5_000, 60_000_000
_LIFETIME_SECONDS = 900


# -- in the processes of the clients -------------------------------------------------------------------


def compare(task: dict[str, Any]) -> dict[str, Any]:
    """Send in turn through both listeners. Returns lists with a value for each round."""
    workload = Workload.from_dict(task["workload"])
    pool = distinct_records(workload)
    sessions = [
        BY_NAME[task["client"]].open(Target(bootstrap, task["topic"], workload, False, security))
        for bootstrap, security in task["listeners"]
    ]
    count = _FEWEST_RECORDS
    for _ in range(_WARM_UP_PORTIONS):
        cost = max(_portion(session, pool, count)[1] for session in sessions) / count
        count = min(int(_PORTION_CPU_SECONDS / cost), _MOST_BYTES // workload.value_bytes)
        count = max(count, _FEWEST_RECORDS)
    results: list[list[tuple[float, float]]] = [[], []]
    for number in range(task["rounds"]):
        for each in (0, 1) if number % 2 else (1, 0):
            seconds, cpu_seconds = _portion(sessions[each], pool, count)
            results[each].append((count / seconds, cpu_seconds / count * 1e6))
    for session in sessions:
        session.close()
    return {"rounds": results, "count": count}


def _portion(session: Session, pool: list[Any], count: int) -> tuple[float, float]:
    """Wall and CPU seconds of this process to send and acknowledge ``count`` records."""
    prepared = session.prepare(repeated(pool, count))
    gc.collect()
    cpu_before, before = own_cpu_seconds(), time.perf_counter()
    outcome = session.send_all(prepared)
    seconds, cpu_seconds = time.perf_counter() - before, own_cpu_seconds() - cpu_before
    acknowledged = session.acknowledged(outcome)
    if acknowledged != count:
        raise RuntimeError(f"{acknowledged} of {count} records were acknowledged")
    return seconds, cpu_seconds


def connect(task: dict[str, Any]) -> list[list[float]]:
    """Milliseconds until a new client knows the topic, for each listener in turn."""
    connect_once: Callable[[str, str, dict[str, str]], Callable[[], None]] = {
        "kproducer": _connect_kproducer,
        "confluent-kafka": _connect_confluent,
    }[task["client"]]
    found: list[list[float]] = [[], []]
    for number in range(1 + CONNECTS):
        for each, (bootstrap, security) in enumerate(task["listeners"]):
            before = time.perf_counter()
            close = connect_once(bootstrap, task["topic"], security)
            if number:  # the first one imports modules
                found[each].append((time.perf_counter() - before) * 1000)
            close()
    return found


def _connect_kproducer(bootstrap: str, topic: str, security: dict[str, str]) -> Callable[[], None]:
    from kproducer import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, **security)  # type: ignore[arg-type]
    producer.partitions_for(topic)
    return producer.close


def _connect_confluent(bootstrap: str, topic: str, security: dict[str, str]) -> Callable[[], None]:
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": bootstrap, "log_level": 0, **librdkafka_security(security)}
    producer = Producer(settings)
    producer.list_topics(topic, 30)
    return producer.purge


# -- the run -------------------------------------------------------------------------------------------


def measure(rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """All cases on a cluster of their own."""
    authority = Authority()
    with tempfile.TemporaryDirectory() as folder:
        security = {
            "security_protocol": "SASL_SSL",
            "ssl_cafile": authority.write(Path(folder)),
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_plain_username": _USER,
            "sasl_plain_password": _PASSWORD,
        }
        cluster = KafkaBench(
            NEWEST_VERSION,
            _LIFETIME_SECONDS,
            properties={
                **sasl.broker_properties((_LISTENER,)),
                **authority.broker_properties(),
                "log.segment.delete.delay.ms": "1000",
            },
            listeners={_LISTENER: "SASL_SSL"},
        )
        try:
            return _measure_on(cluster, security, rounds, say)
        finally:
            cluster.close()


def _measure_on(
    cluster: KafkaBench, security: dict[str, str], rounds: int, say: Callable[[str], None]
) -> dict[str, Any]:
    throughput, low_rate = [], []
    with cluster.topic() as (bootstrap, topic):
        sasl.add_scram_user(bootstrap, _USER, _PASSWORD)
        listeners = [(bootstrap, {}), (cluster.bootstrap(_LISTENER), security)]
        tasks: list[dict[str, Any]] = [
            {"run": "connect", "client": client, "topic": topic, "listeners": listeners}
            for client in ("kproducer", "confluent-kafka")
        ]
        for task in tasks:  # otherwise the first client would pay for the JVM's compilation
            run_python("benchmarks.secured", task, {})
        for task in tasks:
            client = task["client"]
            connects = run_python("benchmarks.secured", task, {})
            latency = []
            for address, settings in listeners:
                low = {**task, "client": OURS if client == "kproducer" else PEER}
                low |= {"rate": LATENCY_RATE, "count": LATENCY_RATE * LATENCY_SECONDS}
                low |= {"bootstrap": address, "security": settings}
                latency.append(run_python("benchmarks.low_rate", low, {})["milliseconds"])
            low_rate.append({"client": client, "connect_ms": connects, "latency_ms": latency})
            say(f"connecting and latency, {client}")
    for workload in WORKLOADS:
        for client in CLIENTS:
            with cluster.topic() as (bootstrap, topic):
                task = {"run": "compare", "client": client, "topic": topic, "rounds": rounds}
                task |= {"workload": workload.as_dict(), "listeners": [(bootstrap, {}), listeners[1]]}
                found = run_python("benchmarks.secured", task, BY_NAME[client].environment)
            throughput.append(
                {"client": client, "row": workload.name, "bytes": workload.value_bytes, **found}
            )
            say(f"{workload.name}, {client}")
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load_average": os.getloadavg()[0],
        "versions": {
            "Apache Kafka": NEWEST_VERSION,
            "kproducer": version("kproducer"),
            "confluent-kafka": version("confluent-kafka"),
            "Python": platform.python_version(),
            "ssl": ssl.OPENSSL_VERSION,
        },
        "rounds": rounds,
        "throughput": throughput,
        "low_rate": low_rate,
    }


# -- tables --------------------------------------------------------------------------------------------


def as_markdown(results: dict[str, Any]) -> str:
    """Both tables, and the conditions."""
    lines = [
        "| records | client | records/s plaintext | SASL_SSL | CPU us/record plaintext | SASL_SSL"
        " | TLS adds us | goal | speed vs confluent-kafka plaintext | SASL_SSL |",
        "| --- | --- | --: | --: | --: | --: | --: | --: | --: | --: |",
    ]
    peers = {each["row"]: each for each in results["throughput"] if each["client"] == REFERENCE}
    for each in results["throughput"]:
        plain, secured = each["rounds"]
        adds = median(tls[1] - none[1] for none, tls in zip(plain, secured, strict=True))
        speeds = [median(speed for speed, _ in side) for side in (plain, secured)]
        costs = [median(cpu for _, cpu in side) for side in (plain, secured)]
        ours = each["client"] != REFERENCE
        leads = ["", ""]
        if ours and each["row"] in peers:
            peer_sides = peers[each["row"]]["rounds"]
            leads = [
                f"{speed / median(rate for rate, _ in side):.2f}"
                for speed, side in zip(speeds, peer_sides, strict=True)
            ]
        goal = f"{GOALS_US[each['bytes']]:.2f}" if ours else ""
        lines.append(
            f"| {each['row']} | {each['client']} | {speeds[0]:,.0f} | {speeds[1]:,.0f} | {costs[0]:.2f}"
            f" | {costs[1]:.2f} | {adds:+.3f} | {goal} | {leads[0]} | {leads[1]} |"
        )
    lines += [
        "",
        "| client | connecting, ms, plaintext | SASL_SSL | p50 ms at 1,000/s plaintext | SASL_SSL"
        " | p99 ms plaintext | SASL_SSL |",
        "| --- | --: | --: | --: | --: | --: | --: |",
    ]
    for each in results["low_rate"]:
        connects = [f"{median(side):.1f}" for side in each["connect_ms"]]
        p50, p99 = ([f"{percentile(side, p):.2f}" for side in each["latency_ms"]] for p in (50, 99))
        lines.append(f"| {each['client']} | {' | '.join([*connects, *p50, *p99])} |")
    versions = ", ".join(f"{name} {found}" for name, found in results["versions"].items())
    lines += [
        "",
        f"{results['machine']}, load {results['load_average']:.1f} at the end; {versions}; acks=all, linger"
        f" 5 ms (latency: 0), SCRAM-SHA-256; medians of {results['rounds']} rounds in turn. Connecting: until"
        " a new client knows the partitions of a topic.",
    ]
    return "\n".join(lines)


def main() -> None:
    """The whole run, or with a JSON argument one client in this process."""
    if sys.argv[1:] and sys.argv[1].startswith("{"):
        task = json.loads(sys.argv[1])
        print(json.dumps({"compare": compare, "connect": connect}[task["run"]](task)), flush=True)
        return
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.secured", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", help="also write the results to this file")
    parser.add_argument("--markdown", help="also write the tables to this file")
    arguments = parser.parse_args()
    results = measure(arguments.rounds, lambda line: print(line, file=sys.stderr, flush=True))
    tables = as_markdown(results)
    print(tables)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results))
    if arguments.markdown:
        Path(arguments.markdown).write_text(tables + "\n")


if __name__ == "__main__":
    main()

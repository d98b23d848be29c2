"""Benchmark of the Spark sink: ``python -m benchmarks.spark_sinks``; part of ``make bench``.

One Spark session, one Apache Kafka, one cached frame for each workload; kproducer, Spark's own connector
(``spark-sql-kafka-0-10``) and a sink that only counts its rows write it in turn, with the same settings. A
run counts only if the topic's end offsets confirm every row. CPU is that of the whole process tree: the JVM
(which plans, and with Spark's connector also writes) and its Python workers. The broker's CPU is shown
separately, because it uses the same cores. ``possible`` is the rate that a sink without any cost of its own
would reach on this machine, computed from the CPU of the counting sink and of the broker.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pyspark
from confluent_kafka import Consumer, TopicPartition
from rich.console import Console
from rich.table import Table

from benchmarks.spark_connector import resolve_connector
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.maven_artifacts import NEWEST_VERSION
from tests.support.kafka.topics import create_topic, delete_topic

RESULTS = Path(__file__).parent / "results"
TASKS = 4
PARTITIONS = 4
WARM_UP_ROWS = 20_000

#: Rows of a small write that shows the fixed cost.
SMALL_ROWS = 4
SMALL_WRITES = 5

#: Each sink with its own defaults.
OWN_DEFAULTS = "own defaults"

#: Deleted topics release their memory immediately; otherwise each write would need new memory.
BROKER_PROPERTIES = {"log.segment.delete.delay.ms": "500"}

#: The same settings for both sinks: those that this one has for bulk writes. Both are idempotent by default.
SETTINGS = {
    "kafka.acks": "all",
    "kafka.batch.size": "524288",
    "kafka.linger.ms": "50",
    "kafka.buffer.memory": "67108864",
}


class Workload(NamedTuple):
    """The rows to write."""

    value_bytes: int
    codec: str
    has_key: bool
    rows: int

    @property
    def label(self) -> str:
        key = "key" if self.has_key else "no key"
        return f"{self.value_bytes} B, {self.codec}, {key}"


def workloads(scale: float) -> list[Workload]:
    return [
        Workload(size, codec, has_key, int(rows * scale))
        for size, rows in ((100, 2_000_000), (1000, 400_000))
        for has_key in (False, True)
        for codec in ("none", "lz4", *(() if has_key else (OWN_DEFAULTS,)))
    ]


def counting_source() -> type[Any]:
    """The upper bound: a sink that only counts its rows."""

    # Defined locally, so that it is pickled by value: workers cannot import the benchmarks.
    from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

    class CountingWriter(DataSourceArrowWriter):
        def write(self, iterator: Any) -> WriterCommitMessage:
            for batch in iterator:
                batch.num_rows  # noqa: B018 (reads the row, as a writer would)
            return WriterCommitMessage()

    class CountingSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return "counting"

        def writer(self, schema: Any, overwrite: bool) -> Any:
            return CountingWriter()

    return CountingSource


def make_session(jars: tuple[str, ...]) -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").appName("kproducer benchmark")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # As docs/spark.md recommends.
        "spark.sql.execution.arrow.maxBytesPerBatch": "1048576",
        "spark.jars": ",".join(jars),
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(counting_source())
    return session


def make_frame(spark: Any, workload: Workload) -> Any:
    """Rows that compress like text, not like zeros; cached, so that their creation is not measured."""
    pieces = -(-workload.value_bytes // 64)
    text = (
        "concat(" + ", ".join(f"md5(concat(id, '-{n}')), repeat('kproducer', 4)" for n in range(pieces)) + ")"
    )
    columns = [f"left({text}, {workload.value_bytes}) AS value"]
    if workload.has_key:
        columns.append("concat('key-', id % 10000) AS key")
    frame = spark.range(0, workload.rows, 1, TASKS).selectExpr(*columns).persist()
    assert frame.count() == workload.rows
    return frame


def tree_cpu_seconds(pid: int | None = None, without: int | None = None) -> float:
    """CPU of this process and all its descendants, including ended ones, except for one process."""
    total = 0.0
    root = psutil.Process(pid)
    left_out = set() if without is None else _pids_of_tree(without)
    for process in [root, *root.children(recursive=True)]:
        if process.pid in left_out:
            continue
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def _pids_of_tree(pid: int) -> set[int]:
    return {pid, *(process.pid for process in psutil.Process(pid).children(recursive=True))}


def end_offsets(bootstrap: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "log_level": 0})
    try:
        return sum(
            consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)[1]
            for partition in range(PARTITIONS)
        )
    finally:
        consumer.close()


def write(frame: Any, sink: str, bootstrap: str, topic: str, codec: str) -> None:
    writer = frame.write.format(sink).mode("append")
    if sink != "counting":
        if codec != OWN_DEFAULTS:
            writer = writer.options(**SETTINGS).option("kafka.compression.type", codec)
        writer = writer.option("kafka.bootstrap.servers", bootstrap).option("topic", topic)
    if sink == "kproducer":
        writer = writer.option("summary", "off")
    writer.save()


def measure(run: Callable[[], None], rows: int, broker_pid: int) -> dict[str, float]:
    def cpu_seconds() -> tuple[float, float]:
        return tree_cpu_seconds(without=broker_pid), tree_cpu_seconds(broker_pid)

    (cpu, broker_cpu), started = cpu_seconds(), time.perf_counter()
    run()
    elapsed = time.perf_counter() - started
    cpu_after, broker_cpu_after = cpu_seconds()
    return {
        "rows_per_second": rows / elapsed,
        "cpu_us_per_row": (cpu_after - cpu) / rows * 1e6,
        "broker_cpu_us_per_row": (broker_cpu_after - broker_cpu) / rows * 1e6,
    }


def small_writes(spark: Any, bootstrap: str, sinks: list[str]) -> dict[str, float]:
    """Milliseconds of a write of a few rows, per sink."""
    frame = make_frame(spark, Workload(100, "none", False, SMALL_ROWS))
    seconds: dict[str, list[float]] = {sink: [] for sink in sinks}
    for sink in sinks * SMALL_WRITES:
        started = time.perf_counter()
        write(frame, sink, bootstrap, "warm-up", "none")
        seconds[sink].append(time.perf_counter() - started)
    frame.unpersist()
    return {sink: statistics.median(each) * 1000 for sink, each in seconds.items()}


def run_workload(
    spark: Any, cluster: KafkaCluster, workload: Workload, sinks: list[str], rounds: int
) -> dict[str, list[dict[str, float]]]:
    bootstrap, broker_pid = cluster.bootstrap_servers, cluster.nodes[1].pid
    assert broker_pid is not None
    results: dict[str, list[dict[str, float]]] = {sink: [] for sink in sinks}
    frame = make_frame(spark, workload)
    for number in range(rounds):
        # The order rotates, because the first of a round finds empty caches.
        for sink in sinks[number % len(sinks) :] + sinks[: number % len(sinks)]:
            codec = workload.codec.replace(" ", "-")
            topic = f"{sink}-{workload.value_bytes}-{codec}-{workload.has_key}-{number}"
            reaches_kafka = sink != "counting"
            if reaches_kafka:
                create_topic(bootstrap, topic, PARTITIONS)

            def run(sink: str = sink, topic: str = topic) -> None:
                write(frame, sink, bootstrap, topic, workload.codec)

            results[sink].append(measure(run, workload.rows, broker_pid))
            if reaches_kafka:
                there = end_offsets(bootstrap, topic)
                if there != workload.rows:
                    raise RuntimeError(f"{sink} wrote {there} of {workload.rows} rows ({workload.label})")
                delete_topic(bootstrap, topic)
    frame.unpersist()
    return results


def table_of(report: dict[str, Any]) -> Table:
    title = (
        f"Spark {report['spark']}, local[2], Kafka {report['kafka']}; medians of {report['rounds']} rounds; "
        "thousand rows/s, CPU us/row, + the broker's"
    )
    table = Table(title=title)
    for column in ("workload", *report["sinks"], "possible", "of connector", "of counting", "of possible"):
        table.add_column(column, justify="left" if column == "workload" else "right")
    for label, results in report["results"].items():
        median = {
            sink: {name: statistics.median(run[name] for run in runs) for name in runs[0]}
            for sink, runs in results.items()
        }
        cells = [
            f"{each['rows_per_second'] / 1000:,.0f}k\n{each['cpu_us_per_row']:.2f}"
            + ("" if sink == "counting" else f" + {each['broker_cpu_us_per_row']:.2f}")
            for sink, each in median.items()
        ]
        possible = possible_rows_per_second(median["counting"], median["kproducer"])
        others = [
            median[sink]["rows_per_second"] if sink in median else None for sink in ("kafka", "counting")
        ]
        ours = median["kproducer"]["rows_per_second"]
        shares = [f"{ours / other:.0%}" if other else "-" for other in (*others, possible)]
        table.add_row(label, *cells, f"{possible / 1000:,.0f}k", *shares)
    table.add_row(
        f"a write of {SMALL_ROWS} rows", *(f"{each:.0f} ms" for each in report["small_write_ms"].values())
    )
    return table


def possible_rows_per_second(counting: dict[str, float], ours: dict[str, float]) -> float:
    """The rate of a sink that adds no work to Spark's and the broker's, on all cores."""
    cpu_us = counting["cpu_us_per_row"] + ours["broker_cpu_us_per_row"]
    return min(counting["rows_per_second"], (os.cpu_count() or 1) / cpu_us * 1e6)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the default number of rows")
    arguments = parser.parse_args()
    console = Console()
    sinks = ["kproducer", "kafka", "counting"]
    try:
        connector = resolve_connector(pyspark.__version__)
        jars, version = connector.jars, connector.version
    except RuntimeError as error:
        console.print(f"without Spark's own connector: {error}")
        jars, version = (), None
        sinks.remove("kafka")
    report: dict[str, Any] = {
        "spark": pyspark.__version__,
        "connector": version,
        "kafka": NEWEST_VERSION,
        "rounds": arguments.rounds,
        "settings": SETTINGS,
        "sinks": sinks,
        "results": {},
    }
    with KafkaCluster(NEWEST_VERSION, heap_mb=512, java_options=(), properties=BROKER_PROPERTIES) as cluster:
        bootstrap = cluster.bootstrap_servers
        spark = make_session(jars)
        try:
            create_topic(bootstrap, "warm-up", PARTITIONS)
            warm_up = make_frame(spark, Workload(100, "lz4", True, WARM_UP_ROWS))
            for sink in sinks * 2:
                write(warm_up, sink, bootstrap, "warm-up", "lz4")
            report["small_write_ms"] = small_writes(spark, bootstrap, sinks)
            for workload in workloads(arguments.scale):
                with console.status(workload.label):
                    results = run_workload(spark, cluster, workload, sinks, arguments.rounds)
                report["results"][workload.label] = results
        finally:
            spark.stop()
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "spark_sinks.json").write_text(json.dumps(report, indent=2) + "\n")
    if version is not None:
        console.print(f"'kafka' is spark-sql-kafka-0-10 {version}")
    console.print(table_of(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Benchmark of the Spark sink: ``python -m benchmarks.spark_sinks``; part of ``make bench``.

One Spark session, one Apache Kafka, one cached frame for each workload; kproducer, Spark's own connector
(``spark-sql-kafka-0-10``) and a sink that only counts its rows write it in turn, with the same settings. A
run counts only if the topic's end offsets confirm every row. CPU is shown by process: Spark's JVM (which
plans, and with Spark's connector also writes), its Python workers (with the driver's Python), and the broker,
which uses the same cores. ``possible`` is the rate that a sink without any cost of its own would reach on
this machine, computed from the CPU of the counting sink and of the broker.

Typed frames are written as Avro (with a schema id in front of each value) and as JSON, with ``valueFormat``
and with the connector after Spark's own ``to_avro`` or ``to_json``. The counting sink gets the same frames.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pyspark
from confluent_kafka import Consumer, TopicPartition
from rich.table import Table

from benchmarks.goals import Goal
from benchmarks.report import new_console
from benchmarks.spark_connector import resolve_avro, resolve_connector
from benchmarks.tables import goals_table, print_table
from kproducer.testing.schema_registry import FakeSchemaRegistry
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

#: Goals, as ratios to the connector: rows per second, and the CPU of JVM and Python together, by value size
#: and codec.
SPEED = {(100, "none"): 2.2, (100, "lz4"): 2.0, (1000, "none"): 1.4, (1000, "lz4"): 1.4}
CPU = {(1000, "none"): 0.8, (1000, "lz4"): 0.8}
FORMAT_SPEED = 1.8
SMALL_WRITE_TIME = 1.0

#: How Spark passes rows to Python, as docs/spark.md recommends; only the connector does not use it.
ARROW_SETTINGS = {
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
}

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


class FormatWorkload(NamedTuple):
    """Typed rows to write in a format, without key."""

    format: str
    fields: int
    rows: int

    @property
    def label(self) -> str:
        return f"{self.format}, {self.fields} fields"


def format_workloads(scale: float, has_avro: bool) -> list[FormatWorkload]:
    return [
        FormatWorkload(name, fields, int(rows * scale))
        for name in ("avro", "json")
        if name != "avro" or has_avro
        for fields, rows in ((6, 2_000_000), (30, 500_000))
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
        "spark.jars": ",".join(jars),
        **ARROW_SETTINGS,
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


def make_typed_frame(spark: Any, workload: FormatWorkload) -> Any:
    """Longs, strings, doubles, timestamps, and longs and strings of which a tenth is null; cached."""
    kinds = (
        "id * 7919 % 10000000 AS id",
        "concat('sensor-', id * 31 % 1000000) AS sensor",
        "(id * 7919 % 100000) / 1000D AS reading",
        "timestamp_millis(1772000000000 + id * 17) AS at",
        "if(id % 10 = 0, NULL, id % 1000) AS count",
        "if(id % 10 = 1, NULL, element_at(array('Lima', 'Oslo', 'Denver'), int(id % 3) + 1)) AS city",
    )
    columns = [f"{kinds[n % len(kinds)]}_{n // len(kinds)}" for n in range(workload.fields)]
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


def cpu_seconds_by_process(broker_pid: int) -> dict[str, float]:
    """CPU of Spark's JVM, of Python (the workers and this process), and of the broker."""
    (jvm,) = (
        process
        for process in psutil.Process().children(recursive=True)
        if name_of(process) == "java" and process.pid not in _pids_of_tree(broker_pid)
    )
    times = jvm.cpu_times()
    jvm_seconds = times.user + times.system
    return {
        "jvm": jvm_seconds,
        "python": tree_cpu_seconds(without=broker_pid) - jvm_seconds,
        "broker": tree_cpu_seconds(broker_pid),
    }


def name_of(process: psutil.Process) -> str:
    """The name of a process; empty if it has ended: Python workers may end at any time."""
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


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
    cpu, started = cpu_seconds_by_process(broker_pid), time.perf_counter()
    run()
    elapsed = time.perf_counter() - started
    cpu_after = cpu_seconds_by_process(broker_pid)
    return {
        "rows_per_second": rows / elapsed,
        **{f"{name}_cpu_us_per_row": (cpu_after[name] - cpu[name]) / rows * 1e6 for name in cpu},
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


def write_format(frame: Any, sink: str, bootstrap: str, topic: str, name: str, registry_url: str) -> None:
    """Write a typed frame in a format: all columns are fields of the value."""
    from pyspark.sql.avro.functions import to_avro
    from pyspark.sql.functions import concat, expr, struct, to_json

    if sink == "counting":
        frame.write.format(sink).mode("append").save()
        return
    options = {**SETTINGS, "kafka.compression.type": "none", "kafka.bootstrap.servers": bootstrap}
    if sink == "kproducer":
        options |= {"valueFormat": name, "summary": "off"}
        if name == "avro":
            options["schema.registry.url"] = registry_url
    elif name == "avro":
        # The first schema of a registry has the id 1.
        frame = frame.select(concat(expr("X'0000000001'"), to_avro(struct("*"))).alias("value"))
    else:
        frame = frame.select(to_json(struct("*")).alias("value"))
    frame.write.format(sink).mode("append").options(**options).option("topic", topic).save()


def run_rounds(
    cluster: KafkaCluster,
    label: str,
    rows: int,
    sinks: list[str],
    rounds: int,
    write_to: Callable[[str, str], None],
) -> dict[str, list[dict[str, float]]]:
    """The runs of each sink; ``write_to`` writes with a sink to a topic."""
    bootstrap, broker_pid = cluster.bootstrap_servers, cluster.nodes[1].pid
    assert broker_pid is not None
    results: dict[str, list[dict[str, float]]] = {sink: [] for sink in sinks}
    for number in range(rounds):
        # The order rotates, because the first of a round finds empty caches.
        for sink in sinks[number % len(sinks) :] + sinks[: number % len(sinks)]:
            topic = f"{sink}-{re.sub('[^0-9A-Za-z]+', '-', label)}-{number}"
            reaches_kafka = sink != "counting"
            if reaches_kafka:
                create_topic(bootstrap, topic, PARTITIONS)

            def run(sink: str = sink, topic: str = topic) -> None:
                write_to(sink, topic)

            results[sink].append(measure(run, rows, broker_pid))
            if reaches_kafka:
                there = end_offsets(bootstrap, topic)
                if there != rows:
                    raise RuntimeError(f"{sink} wrote {there} of {rows} rows ({label})")
                delete_topic(bootstrap, topic)
    return results


def run_workload(
    spark: Any, cluster: KafkaCluster, workload: Workload, sinks: list[str], rounds: int
) -> dict[str, list[dict[str, float]]]:
    frame = make_frame(spark, workload)
    results = run_rounds(
        cluster,
        workload.label,
        workload.rows,
        sinks,
        rounds,
        lambda sink, topic: write(frame, sink, cluster.bootstrap_servers, topic, workload.codec),
    )
    frame.unpersist()
    return results


def run_format(
    spark: Any, cluster: KafkaCluster, workload: FormatWorkload, sinks: list[str], rounds: int
) -> dict[str, list[dict[str, float]]]:
    frame = make_typed_frame(spark, workload)

    def write_to(sink: str, topic: str) -> None:
        # A topic is new, and so is its subject; a registry for each gives all schemas the id 1.
        with FakeSchemaRegistry() as registry:
            write_format(frame, sink, cluster.bootstrap_servers, topic, workload.format, registry.url)

    for sink in sinks:
        topic = f"warm-up-{sink}-{workload.format}-{workload.fields}"
        create_topic(cluster.bootstrap_servers, topic, PARTITIONS)
        write_to(sink, topic)
        delete_topic(cluster.bootstrap_servers, topic)
    results = run_rounds(cluster, workload.label, workload.rows, sinks, rounds, write_to)
    frame.unpersist()
    return results


def table_of(report: dict[str, Any]) -> Table:
    title = (
        f"Spark {report['spark']}, local[2], Kafka {report['kafka']}; medians of {report['rounds']} rounds; "
        "thousand rows/s, CPU us/row of JVM + Python + broker"
    )
    table = Table(title=title)
    for column in ("workload", *report["sinks"], "possible"):
        table.add_column(column, justify="left" if column == "workload" else "right")
    for label, results in report["results"].items():
        median = _medians(results)
        possible = possible_rows_per_second(median["counting"], median["kproducer"])
        table.add_row(label, *_cells(median), f"{possible / 1000:,.0f}k")
    table.add_row(
        f"a write of {SMALL_ROWS} rows", *(f"{each:.0f} ms" for each in report["small_write_ms"].values())
    )
    return table


def format_table_of(report: dict[str, Any]) -> Table:
    title = (
        f"Typed frames, spark-avro {report['avro']}; medians of {report['rounds']} rounds; "
        "thousand rows/s, CPU us/row of JVM + Python + broker"
    )
    table = Table(title=title)
    for column in ("workload", *report["sinks"]):
        table.add_column(column, justify="left" if column == "workload" else "right")
    for label, results in report["formats"].items():
        table.add_row(label, *_cells(_medians(results)))
    return table


def goals_of(report: dict[str, Any]) -> Iterator[Goal]:
    """The goals whose figures this run has."""
    for workload in workloads(1.0):
        kind = workload.value_bytes, workload.codec
        if workload.label not in report["results"] or kind not in SPEED:
            continue
        median = _medians(report["results"][workload.label])
        speed = _to_connector(median, "rows_per_second")
        yield Goal(f"{workload.label}: rows/s", speed, SPEED[kind], is_least=True)
        if kind in CPU:
            cpu = _to_connector(median, "jvm_cpu_us_per_row", "python_cpu_us_per_row")
            yield Goal(f"{workload.label}: CPU", cpu, CPU[kind])
    for label, results in report["formats"].items():
        speed = _to_connector(_medians(results), "rows_per_second")
        yield Goal(f"{label}: rows/s", speed, FORMAT_SPEED, is_least=True)
    times = report["small_write_ms"]
    yield Goal(f"a write of {SMALL_ROWS} rows: time", times["kproducer"] / times["kafka"], SMALL_WRITE_TIME)


def _to_connector(median: dict[str, dict[str, float]], *names: str) -> float:
    """This sink's figure, the sum of those with these names, divided by the connector's."""
    ours, connector = (sum(median[sink][name] for name in names) for sink in ("kproducer", "kafka"))
    return ours / connector


def _medians(results: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, float]]:
    return {
        sink: {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        for sink, runs in results.items()
    }


def _cells(median: dict[str, dict[str, float]]) -> list[str]:
    return [
        f"{each['rows_per_second'] / 1000:,.0f}k\n"
        + " + ".join(f"{each[f'{name}_cpu_us_per_row']:.2f}" for name in ("jvm", "python", "broker"))
        for each in median.values()
    ]


def possible_rows_per_second(counting: dict[str, float], ours: dict[str, float]) -> float:
    """The rate of a sink that adds no work to Spark's and the broker's, on all cores."""
    cpu_us = (
        counting["jvm_cpu_us_per_row"] + counting["python_cpu_us_per_row"] + ours["broker_cpu_us_per_row"]
    )
    return min(counting["rows_per_second"], (os.cpu_count() or 1) / cpu_us * 1e6)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the default number of rows")
    parser.add_argument("--formats", action="store_true", help="typed frames only")
    arguments = parser.parse_args()
    console = new_console()
    sinks = ["kproducer", "kafka", "counting"]
    try:
        connector = resolve_connector(pyspark.__version__)
        jars, version = connector.jars, connector.version
    except RuntimeError as error:
        console.print(f"without Spark's own connector: {error}")
        jars, version = (), None
        sinks.remove("kafka")
    avro = None
    try:
        found = resolve_avro(pyspark.__version__)
        jars, avro = (*jars, *found.jars), found.version
    except RuntimeError as error:
        console.print(f"without Avro: {error}")
    report: dict[str, Any] = {
        "spark": pyspark.__version__,
        "connector": version,
        "avro": avro,
        "kafka": NEWEST_VERSION,
        "rounds": arguments.rounds,
        "settings": {**SETTINGS, **ARROW_SETTINGS},
        "sinks": sinks,
        "results": {},
        "formats": {},
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
            for workload in workloads(arguments.scale) if not arguments.formats else ():
                with console.status(workload.label):
                    results = run_workload(spark, cluster, workload, sinks, arguments.rounds)
                report["results"][workload.label] = results
            for typed in format_workloads(arguments.scale, avro is not None) if version is not None else ():
                with console.status(typed.label):
                    results = run_format(spark, cluster, typed, sinks, arguments.rounds)
                report["formats"][typed.label] = results
        finally:
            spark.stop()
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "spark_sinks.json").write_text(json.dumps(report, indent=2) + "\n")
    if version is not None:
        console.print(f"'kafka' is spark-sql-kafka-0-10 {version}")
    if report["results"]:
        console.print(table_of(report))
    if report["formats"]:
        console.print(format_table_of(report))
    if version is not None:
        print_table(console, goals_table(goals_of(report), "the connector"))
    return 0


if __name__ == "__main__":
    sys.exit(main())

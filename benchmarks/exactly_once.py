"""The cost of exactly-once writes: ``python -m benchmarks.exactly_once``.

One Spark session (``local[2]``), one Apache Kafka, streaming queries over files with a micro-batch every
second; at least once and exactly once in turn, with the same settings otherwise.

Throughput: micro-batches of several sizes. Their duration is Spark's own figure (``triggerExecution``), and
the sustainable rows per second are the size that would take one second (by a line through the medians). A run
counts only if a ``read_committed`` consumer finds every row. Latency: small files at a steady rate, from the
moment a file is in its folder until a ``read_committed`` consumer has each of its rows. CPU is that of the
process tree (driver, JVM and Python workers) without the broker.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pyspark
from rich.console import Console
from rich.table import Table

from benchmarks.spark_sinks import RESULTS, SETTINGS, make_session, tree_cpu_seconds
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.committed_records import await_no_open_transaction
from tests.support.kafka.live_reader import LiveReader
from tests.support.kafka.maven_artifacts import NEWEST_VERSION
from tests.support.kafka.topics import create_topic, delete_topic

MODES = ("at-least-once", "exactly-once")
PARTITIONS = 4
TRIGGER = "1 second"
FILE_ROWS = 10_000
ROW_BYTES = 100
#: Files of a micro-batch.
SIZES = (2, 20, 60)
BATCHES = 8
#: The first micro-batches of a query are slower, because caches are empty.
WARM_UP_BATCHES = 2
LATENCY_FILE_ROWS = 200
LATENCY_FILES_A_SECOND = 5.0
TIMEOUT_SECONDS = 300


class Bench:
    """Queries of one session against one cluster, each with a topic and folders of its own."""

    def __init__(self, spark: Any, cluster: KafkaCluster, folder: Path) -> None:
        self._spark = spark
        self._bootstrap = cluster.bootstrap_servers
        self._broker = cluster.nodes[1].pid
        self._folder = folder
        self._count = 0
        self._content = folder / "rows.txt"
        text = "kproducer and its rows, " * (ROW_BYTES // 20)
        lines = (f"{number:08} {text}"[:ROW_BYTES] for number in range(FILE_ROWS))
        self._content.write_text("".join(f"{line}\n" for line in lines))

    def throughput(self, mode: str, files: int, batches: int) -> dict[str, Any]:
        """Write micro-batches of this many files. Returns seconds of each, and CPU seconds per batch."""
        topic, source = self._new_place()
        for number in range(files * batches):
            # The same content under many names, so it is read from memory.
            (source / f"{number:06}.txt").hardlink_to(self._content)
        cpu = tree_cpu_seconds(without=self._broker)
        query = self._start(mode, topic, source, files)
        query.processAllAvailable()
        cpu = (tree_cpu_seconds(without=self._broker) - cpu) / batches
        progress = [each for each in query.recentProgress if each["numInputRows"]]
        query.stop()
        rows = files * batches * FILE_ROWS
        seen = sum(self._read(topic).values())
        if seen != rows or len(progress) != batches:
            raise RuntimeError(f"{mode}: {seen} of {rows} rows, {len(progress)} of {batches} micro-batches")
        delete_topic(self._bootstrap, topic)
        seconds = [each["durationMs"]["triggerExecution"] / 1000 for each in progress[WARM_UP_BATCHES:]]
        return {"seconds": seconds, "cpu_seconds": cpu}

    def latency(self, mode: str, seconds: float) -> dict[str, Any]:
        """Seconds from file to visible row, per row, without the first files."""
        topic, source = self._new_place()
        delays: list[float] = []
        warm_up = 4.0

        def take(partition: int, value: bytes) -> None:
            now = time.time()
            since_start, written = (float(word) for word in value.split()[:2])
            if since_start > warm_up:
                delays.append(now - written)

        self._add_file(source, 0, 0.0)
        query = self._start(mode, topic, source, None)
        query.processAllAvailable()
        reader = LiveReader(self._bootstrap, topic, PARTITIONS, take, lambda partition: None)
        started = time.monotonic()
        count, is_over = 1, threading.Event()
        cpu = tree_cpu_seconds(without=self._broker)
        while (since_start := time.monotonic() - started) < seconds + warm_up:
            self._add_file(source, count, since_start)
            is_over.wait(max(0, started + count / LATENCY_FILES_A_SECOND - time.monotonic()))
            count += 1
        query.processAllAvailable()
        cpu = (tree_cpu_seconds(without=self._broker) - cpu) / (seconds + warm_up)
        seen = sum(self._read(topic).values())
        reader.stop()
        query.stop()
        if seen != count * LATENCY_FILE_ROWS:
            raise RuntimeError(f"{mode}: {seen} of {count * LATENCY_FILE_ROWS} rows")
        delete_topic(self._bootstrap, topic)
        return {"delays": sorted(delays), "cpu_share": cpu}

    def _new_place(self) -> tuple[str, Path]:
        self._count += 1
        topic = f"cost-{self._count}"
        create_topic(self._bootstrap, topic, PARTITIONS)
        source = self._folder / topic
        source.mkdir()
        return topic, source

    def _add_file(self, source: Path, number: int, since_start: float) -> None:
        part = source / f".{number}"
        padding = "x" * 60
        now = time.time()
        part.write_text(f"{since_start:.3f} {now:.6f} {padding}\n" * LATENCY_FILE_ROWS)
        part.rename(source / f"{number:06}.txt")

    def _start(self, mode: str, topic: str, source: Path, files: int | None) -> Any:
        lines = self._spark.readStream.format("text")
        if files is not None:
            lines = lines.option("maxFilesPerTrigger", files)
        writer = lines.load(str(source)).writeStream.format("kproducer").options(**SETTINGS)
        writer = writer.option("kafka.bootstrap.servers", self._bootstrap).option("topic", topic)
        writer = writer.option("delivery", mode).option("summary", "off")
        writer = writer.option("checkpointLocation", f"{source}-checkpoint")
        return writer.trigger(processingTime=TRIGGER).start()

    def _read(self, topic: str) -> dict[int, int]:
        """Committed rows by partition, without transaction markers."""
        ends = await_no_open_transaction(self._bootstrap, topic, range(PARTITIONS))
        counts = dict.fromkeys(ends, 0)
        is_read = {partition: threading.Event() for partition in ends}

        def take(partition: int, value: bytes) -> None:
            counts[partition] += 1

        reader = LiveReader(
            self._bootstrap, topic, PARTITIONS, take, lambda partition: is_read[partition].set()
        )
        for event in is_read.values():
            event.wait(TIMEOUT_SECONDS)
        reader.stop()
        return counts


def quantile(values: list[float], share: float) -> float:
    """Quantile of sorted values."""
    return values[min(len(values) - 1, int(len(values) * share))]


def kept_up_with(seconds: dict[int, float], target: float = 1.0) -> float:
    """Rows per second: the micro-batch size that would take one second, by a line through the points.

    Args:
        seconds: duration of a micro-batch, by its rows.
    """
    line = statistics.linear_regression(list(seconds), list(seconds.values()))
    return max(0.0, target - line.intercept) / line.slope


def run(bench: Bench, rounds: int, batches: int, latency_seconds: float, say: Any) -> dict[str, Any]:
    throughput: dict[str, dict[int, list[dict[str, Any]]]] = {
        mode: {size: [] for size in SIZES} for mode in MODES
    }
    latency: dict[str, list[dict[str, Any]]] = {mode: [] for mode in MODES}
    for mode in MODES * 2:
        bench.throughput(mode, 2, 4)
    for number in range(rounds):
        # The order rotates, because the first of a round finds empty caches.
        modes = MODES if number % 2 == 0 else MODES[::-1]
        for size in SIZES:
            for mode in modes:
                result = bench.throughput(mode, size, batches)
                throughput[mode][size].append(result)
                median = statistics.median(result["seconds"])
                say(f"{mode}, {size * FILE_ROWS:,} rows: {median:.3f} s, {result['cpu_seconds']:.2f} s CPU")
        for mode in modes:
            result = bench.latency(mode, latency_seconds)
            latency[mode].append(result)
            p50, p99 = quantile(result["delays"], 0.5), quantile(result["delays"], 0.99)
            say(f"{mode}, file to visible row: p50 {p50:.3f} s, p99 {p99:.3f} s")
    return {"throughput": throughput, "latency": latency}


def summary_of(results: dict[str, Any]) -> dict[str, Any]:
    """The figures of the table, by mode."""
    figures: dict[str, Any] = {}
    for mode in MODES:
        by_size = results["throughput"][mode]
        seconds = {
            size * FILE_ROWS: statistics.median(each for run in runs for each in run["seconds"])
            for size, runs in by_size.items()
        }
        least = {
            size * FILE_ROWS: min(each for run in runs for each in run["seconds"])
            for size, runs in by_size.items()
        }
        delays = sorted(each for run in results["latency"][mode] for each in run["delays"])
        figures[mode] = {
            "rows_per_second": kept_up_with(seconds),
            "rows_per_second_at_best": kept_up_with(least),
            "seconds": seconds,
            "least_seconds": least,
            "cpu_seconds": {
                size * FILE_ROWS: min(run["cpu_seconds"] for run in runs) for size, runs in by_size.items()
            },
            "p50": quantile(delays, 0.5),
            "p99": quantile(delays, 0.99),
            "cpu_share": min(run["cpu_share"] for run in results["latency"][mode]),
        }
    return figures


def table_of(report: dict[str, Any]) -> Table:
    figures = report["figures"]
    title = (
        f"Spark {report['spark']}, local[2], a micro-batch every second; Apache Kafka {report['kafka']}; "
        f"medians of {report['rounds']} rounds"
    )
    table = Table(title=title)
    for column in ("", *MODES, "of at-least-once"):
        table.add_column(column, justify="left" if not column else "right")

    def row(name: str, key: str, shape: str, rows: int | None = None) -> None:
        values = [figures[mode][key] if rows is None else figures[mode][key][rows] for mode in MODES]
        share = f"{values[1] / values[0]:.0%}" if values[0] else "-"
        table.add_row(name, *(format(value, shape) for value in values), share)

    row("sustainable rows/s", "rows_per_second", ",.0f")
    row("  by the fastest micro-batches", "rows_per_second_at_best", ",.0f")
    for size in SIZES:
        rows = size * FILE_ROWS
        row(f"micro-batch of {rows:,} rows, s", "seconds", ".3f", rows)
        row("  the fastest", "least_seconds", ".3f", rows)
        row("  CPU, s (least of the rounds)", "cpu_seconds", ".2f", rows)
    row("file to visible row, p50, s", "p50", ".3f")
    row("file to visible row, p99, s", "p99", ".3f")
    row("  CPUs busy (least of the rounds)", "cpu_share", ".2f")
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=BATCHES, help="micro-batches of each size")
    parser.add_argument("--latency-seconds", type=float, default=30.0)
    arguments = parser.parse_args()
    console = Console()
    report: dict[str, Any] = {
        "spark": pyspark.__version__,
        "kafka": NEWEST_VERSION,
        "rounds": arguments.rounds,
        "settings": SETTINGS,
    }
    with (
        KafkaCluster(NEWEST_VERSION, heap_mb=512, java_options=()) as cluster,
        tempfile.TemporaryDirectory(prefix="exactly-once-cost-") as folder,
    ):
        spark = make_session(())
        try:
            bench = Bench(spark, cluster, Path(folder))
            results = run(
                bench, arguments.rounds, arguments.batches, arguments.latency_seconds, console.print
            )
        finally:
            spark.stop()
    report["figures"] = summary_of(results)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "exactly_once.json").write_text(json.dumps(report, indent=2) + "\n")
    console.print(table_of(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())

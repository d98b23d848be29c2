"""Send a million records to a broker, read them back and check each one: ``make demo``.

By default the broker is a mock cluster, started in a child process: no Java, no network. ``--kafka VERSION``
runs Apache Kafka, ``--bootstrap HOST:PORT`` uses an existing cluster. Another client (confluent-kafka)
reads the records back; each is compared with what was sent. The exit code is 0 only if all of them are
at the reported offsets.
"""

from __future__ import annotations

import argparse
import sys
import uuid
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from examples import spark_demo
from examples.demo_journey import Journey
from examples.demo_source import FileLines, JsonEvents, Source, portions
from kproducer import KafkaProducer
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.maven_artifacts import KafkaUnavailableError
from tests.support.kafka.mock_cluster import MockCluster
from tests.support.kafka.topics import create_topic

DEFAULT_COUNT = 1_000_000
#: The mock keeps 5 MiB per partition; a portion of the demo must fit even if partitions are uneven.
MOCK_PARTITIONS = 32
KAFKA_PARTITIONS = 6


@contextmanager
def broker(arguments: argparse.Namespace, topic: str, console: Console) -> Iterator[tuple[str, str]]:
    """Start a cluster with the topic, or use an existing one; yields (bootstrap servers, description)."""
    if arguments.bootstrap:
        create_topic(arguments.bootstrap, topic, KAFKA_PARTITIONS)
        yield arguments.bootstrap, f"Kafka at {arguments.bootstrap}"
    elif arguments.kafka:
        with console.status(f"starting Apache Kafka {arguments.kafka}"):
            cluster = KafkaCluster(arguments.kafka, heap_mb=512, java_options=())
        with cluster:
            create_topic(cluster.bootstrap_servers, topic, KAFKA_PARTITIONS)
            yield cluster.bootstrap_servers, f"Apache Kafka {arguments.kafka}, {cluster.bootstrap_servers}"
    else:
        with MockCluster.start(broker_count=3) as mock:
            mock.create_topic(topic, MOCK_PARTITIONS)
            version = confluent_kafka.libversion()[0]
            yield (
                mock.bootstrap_servers,
                f"mock cluster (librdkafka {version}), 3 nodes, {MOCK_PARTITIONS} partitions",
            )


def run(bootstrap_servers: str, topic: str, source: Source, compression: str, console: Console) -> bool:
    """Send and verify everything and print the report; returns whether all records were correct."""
    latencies_ns = array("q")
    sending_seconds = 0.0
    size_bytes = verified = unexpected = 0
    errors: list[BaseException] = []
    columns = (
        TextColumn("{task.description:10}"),
        BarColumn(40),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers, compression_type=compression)
    with producer, Progress(*columns, console=console) as progress:
        sending = progress.add_task("sending", total=source.count)
        verifying = progress.add_task("verifying", total=source.count)
        for values in portions(source):
            journey = Journey(values)
            journey.send(producer, topic, lambda step: progress.advance(sending, step))
            found, strange = journey.verify(
                bootstrap_servers, topic, lambda step: progress.advance(verifying, step)
            )
            verified += found
            unexpected += strange
            latencies_ns += journey.latencies_ns
            sending_seconds += journey.sending_seconds
            size_bytes += sum(map(len, values))
            errors += journey.errors
        metrics = producer.metrics()
    report(console, source.count, size_bytes, sending_seconds, latencies_ns, metrics)
    holds = verified == source.count and unexpected == 0
    console.print(f"[bold {'green' if holds else 'red'}]verified {verified:,} of {source.count:,}[/]")
    if unexpected:
        console.print(f"[red]{unexpected:,} unexpected records[/]")
    if errors:
        console.print(f"[red]{len(errors):,} failed; the first: {errors[0]}[/]")
    return holds


def report(
    console: Console,
    count: int,
    size_bytes: int,
    seconds: float,
    latencies_ns: array[int],
    metrics: dict[str, Any],
) -> None:
    """Print the figures of the producer."""
    ordered = sorted(latencies_ns)

    def percentile(share: float) -> str:
        return (
            f"{ordered[min(len(ordered) - 1, int(share * len(ordered)))] / 1e6:,.1f} ms" if ordered else "-"
        )

    batches, requests = int(metrics["batch_total"]), int(metrics["request_total"])
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_row(
        "throughput",
        f"[bold]{count / seconds:,.0f} records/s[/]  {size_bytes / seconds / 1e6:,.1f} MB/s"
        f"  ({seconds:.1f} s, {size_bytes / max(count, 1):,.0f} bytes each)",
    )
    table.add_row(
        "latency",
        f"p50 {percentile(0.50)}  p95 {percentile(0.95)}  p99 {percentile(0.99)}  max {percentile(1.0)}",
    )
    table.add_row("batches", f"{batches:,}  ({count / max(batches, 1):,.0f} records each)")
    table.add_row("requests", f"{requests:,}  ({batches / max(requests, 1):,.1f} batches each)")
    table.add_row("versions", versions_in_use(metrics))
    console.print()
    console.print(table)


def versions_in_use(metrics: dict[str, Any]) -> str:
    """The versions in use of each API, over all nodes."""
    spoken: dict[str, set[int]] = {}
    for versions in metrics["negotiated_versions"].values():
        for name, version in versions.items():
            spoken.setdefault(name.title().replace("_", ""), set()).add(version)
    return "  ".join(f"{name} v{'/'.join(map(str, sorted(found)))}" for name, found in sorted(spoken.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description="Send records, read them back, check each one.")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--kafka", metavar="VERSION", help="run Apache Kafka of this version (Java and Maven)")
    where.add_argument("--bootstrap", metavar="HOST:PORT", help="use an existing cluster")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--count", type=int, default=DEFAULT_COUNT, help="number of JSON events")
    what.add_argument("--input", type=Path, metavar="FILE", help="send the lines of a file instead")
    parser.add_argument("--compression", default="none", choices=["none", "gzip", "snappy", "lz4", "zstd"])
    parser.add_argument("--spark", action="store_true", help="then run a Spark job, if Java is installed")
    arguments = parser.parse_args()

    console = Console(highlight=False)
    source = FileLines(arguments.input) if arguments.input else JsonEvents(arguments.count)
    topic = f"kproducer-demo-{uuid.uuid4().hex[:8]}"
    try:
        with broker(arguments, topic, console) as (bootstrap_servers, description):
            console.print(f"[bold]{source.description}[/] -> {description}\n")
            holds = run(bootstrap_servers, topic, source, arguments.compression, console)
            if arguments.spark:
                is_mock = not (arguments.kafka or arguments.bootstrap)
                holds &= spark_demo.show_in_demo(bootstrap_servers, console, is_mock=is_mock)
    except KafkaUnavailableError as error:
        sys.exit(str(error))
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()

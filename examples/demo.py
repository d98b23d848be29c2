"""Send a million records to a broker, read them back and check each one: ``make demo``.

By default the broker is a mock cluster, started in a child process: no Java, no network. ``--kafka VERSION``
runs Apache Kafka, ``--secure`` runs it with SASL_SSL, ``--bootstrap HOST:PORT`` uses an existing cluster.
Another client (confluent-kafka) reads the records back; each is compared with what was sent. The exit code is
0 only if all of them are at the reported offsets. Then a typed table goes the same way as Avro.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import uuid
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from examples import demo_columns, spark_demo
from examples.demo_journey import Journey, gives_up_on_interrupt
from examples.demo_source import FileLines, JsonEvents, Source, portions
from kproducer import KafkaError, KafkaProducer, build_info
from tests.support.kafka import sasl
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.maven_artifacts import NEWEST_VERSION, KafkaUnavailableError, check_version
from tests.support.kafka.mock_cluster import MockCluster
from tests.support.kafka.topics import create_topic, require_broker

DEFAULT_COUNT = 1_000_000
#: The mock keeps 5 MiB per partition; a portion of the demo must fit even if partitions are uneven.
MOCK_PARTITIONS = 32
KAFKA_PARTITIONS = 6


class Target(NamedTuple):
    """A running cluster.

    Attributes:
        bootstrap_servers: for the producer.
        security: the producer's further settings, by Kafka's dotted names.
        reader_servers: for the client that reads the records back, without encryption and authentication.
        description: in words.
    """

    bootstrap_servers: str
    security: dict[str, str]
    reader_servers: str
    description: str


@contextmanager
def broker(arguments: argparse.Namespace, topics: Sequence[str], console: Console) -> Iterator[Target]:
    """Start a cluster with the topics, or use an existing one."""
    if arguments.bootstrap:
        require_broker(arguments.bootstrap)
        create_topics(arguments.bootstrap, topics)
        yield Target(arguments.bootstrap, {}, arguments.bootstrap, f"Kafka at {arguments.bootstrap}")
    elif arguments.secure:
        with secured_kafka(arguments.kafka or NEWEST_VERSION, topics, console) as target:
            yield target
    elif arguments.kafka:
        with console.status(f"starting Apache Kafka {arguments.kafka}"):
            cluster = KafkaCluster(arguments.kafka, heap_mb=512, java_options=())
        with cluster:
            servers = cluster.bootstrap_servers
            create_topics(servers, topics)
            yield Target(servers, {}, servers, f"Apache Kafka {arguments.kafka}, {servers}")
    else:
        with MockCluster.start(broker_count=3) as mock:
            for topic in topics:
                mock.create_topic(topic, MOCK_PARTITIONS)
            version = confluent_kafka.libversion()[0]
            what = f"mock cluster (librdkafka {version}), 3 nodes, {MOCK_PARTITIONS} partitions"
            yield Target(mock.bootstrap_servers, {}, mock.bootstrap_servers, what)


def create_topics(bootstrap_servers: str, topics: Sequence[str]) -> None:
    """Create them on a cluster of Apache Kafka."""
    for topic in topics:
        create_topic(bootstrap_servers, topic, KAFKA_PARTITIONS)


@contextmanager
def secured_kafka(version: str, topics: Sequence[str], console: Console) -> Iterator[Target]:
    """Apache Kafka with a SASL_SSL listener, a new certificate and a SCRAM user with a new password."""
    from tests.support.certificates import Authority  # trustme: not needed by the other demos

    user, password, authority = "demo", secrets.token_urlsafe(), Authority()
    properties = {**authority.broker_properties(), **sasl.broker_properties(("SECURE",))}
    with console.status(f"starting Apache Kafka {version} with SASL_SSL"):
        cluster = KafkaCluster(
            version, properties=properties, listeners={"SECURE": "SASL_SSL"}, heap_mb=512, java_options=()
        )
    with cluster, tempfile.TemporaryDirectory() as folder:
        sasl.add_scram_user(cluster.bootstrap_servers, user, password)
        create_topics(cluster.bootstrap_servers, topics)
        security = {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": authority.write(Path(folder)),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required"
                f" username={sasl.quoted(user)} password={sasl.quoted(password)};"
            ),
        }
        servers = cluster.bootstrap("SECURE")
        what = f"Apache Kafka {version}, SASL_SSL (SCRAM-SHA-512), {servers}"
        yield Target(servers, security, cluster.bootstrap_servers, what)


def producer_settings(target: Target, compression: str) -> dict[str, Any]:
    """By Kafka's dotted names."""
    settings = {"bootstrap.servers": target.bootstrap_servers, "compression.type": compression}
    return {**settings, **target.security}


def run(target: Target, topic: str, source: Source, compression: str, console: Console) -> bool:
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
    producer = KafkaProducer.from_config(producer_settings(target, compression))
    with producer, gives_up_on_interrupt(producer), Progress(*columns, console=console) as progress:
        sending = progress.add_task("sending", total=source.count)
        verifying = progress.add_task("verifying", total=source.count)
        for values in portions(source):
            journey = Journey(values)
            journey.send(producer, topic, lambda step: progress.advance(sending, step))
            found, strange = journey.verify(
                target.reader_servers, topic, lambda step: progress.advance(verifying, step)
            )
            verified += found
            unexpected += strange
            latencies_ns += journey.latencies_ns
            sending_seconds += journey.sending_seconds
            size_bytes += sum(map(len, values))
            errors += journey.errors
        metrics = producer.metrics()["producer-metrics"]
        versions = producer.health().negotiated_versions
    report(console, source.count, size_bytes, sending_seconds, latencies_ns, metrics, versions)
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
    metrics: Mapping[str, Any],
    versions: Mapping[int, Mapping[str, int]],
) -> None:
    """Print the figures of the producer."""
    ordered = sorted(latencies_ns)

    def percentile(share: float) -> str:
        return (
            f"{ordered[min(len(ordered) - 1, int(share * len(ordered)))] / 1e6:,.1f} ms" if ordered else "-"
        )

    batches, requests = int(metrics["batch-total"]), int(metrics["produce-request-total"])
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
    table.add_row("versions", versions_in_use(versions))
    code = build_info()
    table.add_row("code", f"{code.kernel} kernel, {code.client} client")
    console.print()
    console.print(table)


def versions_in_use(negotiated: Mapping[int, Mapping[str, int]]) -> str:
    """The versions in use of each API, over all nodes."""
    spoken: dict[str, set[int]] = {}
    for versions in negotiated.values():
        for name, version in versions.items():
            spoken.setdefault(name.title().replace("_", ""), set()).add(version)
    return "  ".join(f"{name} v{'/'.join(map(str, sorted(found)))}" for name, found in sorted(spoken.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description="Send records, read them back, check each one.")
    parser.add_argument("--kafka", metavar="VERSION", help="run this version of Apache Kafka (Java, Maven)")
    parser.add_argument("--secure", action="store_true", help="run Apache Kafka with SASL_SSL")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="use an existing cluster")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--count", type=int, default=DEFAULT_COUNT, help="number of JSON events")
    what.add_argument("--input", type=Path, metavar="FILE", help="send the lines of a file instead")
    parser.add_argument("--compression", default="none", choices=["none", "gzip", "snappy", "lz4", "zstd"])
    parser.add_argument("--spark", action="store_true", help="then run a Spark job (Java and pyspark)")
    arguments = parser.parse_args()
    if arguments.bootstrap and (arguments.kafka or arguments.secure):
        parser.error("--bootstrap uses an existing cluster; --kafka and --secure start one")

    console = Console(highlight=False)
    source = FileLines(arguments.input) if arguments.input else JsonEvents(arguments.count)
    topic = f"kproducer-demo-{uuid.uuid4().hex[:8]}"
    avro_topic = f"{topic}-avro"
    try:
        if arguments.kafka:
            check_version(arguments.kafka)
        if arguments.spark:
            spark_demo.require_java()
        with broker(arguments, (topic, avro_topic), console) as target:
            console.print(f"[bold]{source.description}[/] -> {target.description}\n")
            holds = run(target, topic, source, arguments.compression, console)
            settings = producer_settings(target, arguments.compression)
            holds &= demo_columns.show(settings, target.reader_servers, avro_topic, source.count, console)
            if arguments.spark:
                is_mock = not (arguments.kafka or arguments.secure or arguments.bootstrap)
                holds &= spark_demo.show_in_demo(
                    target.bootstrap_servers,
                    console,
                    is_mock=is_mock,
                    security=target.security,
                    reader_servers=target.reader_servers,
                )
            else:
                console.print(
                    "\n[dim]make demo SPARK=1 also runs a Spark job: needs Java 17, installs pyspark[/]"
                )
    except KeyboardInterrupt:
        print("the demo was interrupted", file=sys.stderr)
        sys.exit(130)  # as shells report it
    except KafkaUnavailableError as error:
        sys.exit(str(error))
    except (KafkaError, confluent_kafka.KafkaException, RuntimeError, TimeoutError) as error:
        sys.exit(f"the demo failed: {str(error) or 'the cluster did not answer in time'}")
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()

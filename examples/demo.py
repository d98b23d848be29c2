"""Send a million records to a broker, with kproducer and confluent-kafka, and check each one: ``make demo``.

By default the broker is a mock cluster, started in a child process: no Java, no network. ``--kafka VERSION``
runs Apache Kafka, ``--secure`` runs it with SASL_SSL, ``--bootstrap HOST:PORT`` uses an existing cluster.
The clients send the same records to the same topic, in turns; while one sends, the process does nothing else.
confluent-kafka's consumer reads the records back, and each is compared with what was sent. A second phase
measures latency at a fixed rate. Then a typed table goes the same way as Avro. The exit code is 0 only if all
records are there once, and at the offsets that kproducer's futures reported.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table

from examples import demo_columns, spark_demo
from examples.demo_clients import (
    SETTINGS,
    Client,
    Confluent,
    KproducerCallbacks,
    KproducerFutures,
    Record,
    gives_up_on_interrupt,
)
from examples.demo_journey import Journey, Reader
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
#: Of the phase that measures latency: moderate, so that no record waits for others.
RATE, RATE_SECONDS = 5_000, 2
PROGRESS = (TextColumn("{task.description:26}"), BarColumn(8), TextColumn("verified"), MofNCompleteColumn())


class Target(NamedTuple):
    """A running cluster.

    Attributes:
        bootstrap_servers: for the producers.
        security: kproducer's further settings, by Kafka's dotted names.
        peer_security: the same for confluent-kafka.
        reader_servers: for the client that reads the records back, without encryption and authentication.
        description: in words.
    """

    bootstrap_servers: str
    security: dict[str, str]
    peer_security: dict[str, str]
    reader_servers: str
    description: str


@contextmanager
def broker(arguments: argparse.Namespace, topics: Sequence[str], console: Console) -> Iterator[Target]:
    """Start a cluster with the topics, or use an existing one."""
    if arguments.bootstrap:
        require_broker(arguments.bootstrap)
        create_topics(arguments.bootstrap, topics)
        yield Target(arguments.bootstrap, {}, {}, arguments.bootstrap, f"Kafka at {arguments.bootstrap}")
    elif arguments.secure:
        with secured_kafka(arguments.kafka or NEWEST_VERSION, topics, console) as target:
            yield target
    elif arguments.kafka:
        with console.status(f"starting Apache Kafka {arguments.kafka}"):
            cluster = KafkaCluster(arguments.kafka, heap_mb=512, java_options=())
        with cluster:
            servers = cluster.bootstrap_servers
            create_topics(servers, topics)
            yield Target(servers, {}, {}, servers, f"Apache Kafka {arguments.kafka}, {servers}")
    else:
        with MockCluster.start(broker_count=3) as mock:
            for topic in topics:
                mock.create_topic(topic, MOCK_PARTITIONS)
            version = confluent_kafka.libversion()[0]
            what = f"mock cluster (librdkafka {version}), 3 nodes, {MOCK_PARTITIONS} partitions"
            yield Target(mock.bootstrap_servers, {}, {}, mock.bootstrap_servers, what)


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
        ca_file = authority.write(Path(folder))
        security = {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": ca_file,
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required"
                f" username={sasl.quoted(user)} password={sasl.quoted(password)};"
            ),
        }
        peer_security = {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": ca_file,
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
        }
        servers = cluster.bootstrap("SECURE")
        what = f"Apache Kafka {version}, SASL_SSL (SCRAM-SHA-512), {servers}"
        yield Target(servers, security, peer_security, cluster.bootstrap_servers, what)


def producer_settings(target: Target, compression: str) -> dict[str, Any]:
    """For all clients, by Kafka's dotted names."""
    return {**SETTINGS, "bootstrap.servers": target.bootstrap_servers, "compression.type": compression}


def run(target: Target, topic: str, source: Source, compression: str, console: Console) -> bool:
    """Let every client send everything, and print the report; returns whether all records were correct."""
    settings = producer_settings(target, compression)
    producer = KafkaProducer.from_config({**settings, **target.security})
    with producer, gives_up_on_interrupt(producer):
        clients = (
            KproducerFutures(producer, topic),
            KproducerCallbacks(producer, topic),
            Confluent({**settings, **target.peer_security}, topic),
        )
        journeys, sample = compare(clients, source, Reader(target.reader_servers, topic), console)
        report_speed(console, journeys, compression)
        # Callbacks of both, after everything else: nothing waits for a full buffer.
        report_latency(console, [(client.name, client.latencies(sample, RATE)) for client in clients[1:]])
        versions = producer.health().negotiated_versions
    code = build_info()
    console.print(
        f"\n[dim]{code.kernel} kernel, {code.client} client, {versions_in_use(versions, 'PRODUCE')}[/]"
    )
    return report_verified(console, journeys, source.count)


def compare(
    clients: Sequence[Client], source: Source, reader: Reader, console: Console
) -> tuple[list[Journey], list[Record]]:
    """Send and verify portion by portion, each client in its turn.

    Returns what happened, and the first records, repeated, for ``RATE_SECONDS`` at ``RATE`` per second.
    """
    journeys = [Journey(client, reader) for client in clients]
    sample: list[Record] = []
    # Drawn between portions only: a thread that draws it would take CPU while a client sends.
    with Progress(*PROGRESS, console=console, auto_refresh=False) as progress:
        tasks = [progress.add_task(f"{each.name}, {each.result}s", total=source.count) for each in clients]
        for portion in portions(source):
            is_warm_up = not sample
            sample = sample or list(islice(cycle(portion), RATE * RATE_SECONDS))
            for journey, task in zip(journeys, tasks, strict=True):
                progress.refresh()
                journey.travel(portion, partial(advance, progress, task), is_warm_up=is_warm_up)
    return journeys, sample


def advance(progress: Progress, task: TaskID, step: int) -> None:
    """Move and draw a progress bar."""
    progress.advance(task, step)
    progress.refresh()


def report_speed(console: Console, journeys: Sequence[Journey], compression: str) -> None:
    """Print records per second and CPU."""
    console.print(
        "\n[bold]Full speed[/]: nothing but sending. A result per record,\n"
        f"acks=all, no idempotence, linger 5 ms, compression {compression}."
    )
    table = figures("records/s", "process CPU/record")
    for journey in journeys:
        count, cost, client = journey.measured_count, journey.cost, journey.client
        speed, cpu = (
            (f"{count / cost.seconds:,.0f}", f"{cost.cpu_seconds / count * 1e6:.2f} µs") if count else "--"
        )
        table.add_row(f"{client.name}, {client.result}s", speed, cpu)
    console.print(table)


def report_latency(console: Console, measured: Sequence[tuple[str, list[float]]]) -> None:
    """Print percentiles."""
    console.print(f"\n[bold]{RATE:,} records/s[/] for {RATE_SECONDS} s: from the call to the callback.")
    table = figures("p50", "p99")
    for name, seconds in measured:
        ordered = sorted(seconds)
        shares = (ordered[int(share * len(ordered))] for share in (0.5, 0.99))
        table.add_row(name, *(f"{each * 1e3:,.1f} ms" for each in shares))
    console.print(table)
    console.print("[dim]docs/performance.md has more workloads and clients.[/]")


def figures(*columns: str) -> Table:
    """A table with a client's name and these columns."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("", min_width=26)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def report_verified(console: Console, journeys: Sequence[Journey], count: int) -> bool:
    """Print how many records were read back; returns whether those were all, and no others."""
    for journey in journeys:
        client = journey.client
        name = f"{client.name}, {client.result}s"
        if not journey.holds(count):
            console.print(f"[bold red]{name}: verified {journey.verified:,} of {count:,}[/]")
        if journey.unexpected:
            console.print(f"[red]{name}: {journey.unexpected:,} unexpected records[/]")
        if journey.failed:
            console.print(f"[red]{name}: {journey.failed:,} failed; the first: {journey.error}[/]")
    holds = all(journey.holds(count) for journey in journeys)
    if holds:
        console.print(f"[bold green]verified {count:,} of {count:,}[/] in each row")
    return holds


def versions_in_use(negotiated: Mapping[int, Mapping[str, int]], api: str) -> str:
    """Over all nodes."""
    found = sorted({versions[api] for versions in negotiated.values() if api in versions})
    return f"{api.title()} v{'/'.join(map(str, found))}"


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
            console.print(f"[bold]{source.description}[/]\n-> {target.description}\n")
            holds = run(target, topic, source, arguments.compression, console)
            settings = {**producer_settings(target, arguments.compression), **target.security}
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
                console.print("\n[dim]make demo SPARK=1 also runs a Spark job (needs Java 17).[/]")
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

"""Run Apache Kafka until Ctrl-C: ``make broker``.

Prints the bootstrap address; with ``--secure`` a program that sends a record over TLS with a client
certificate. The data is in a temporary folder that is deleted at the end.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading

from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.maven_artifacts import KAFKA_VERSIONS, NEWEST_VERSION, check_version

LIFETIME_SECONDS = 12 * 3600
_SNIPPET = """\
from kproducer import KafkaProducer

with KafkaProducer(
    "{servers}",
    security_protocol="SSL",
    ssl_cafile="{ca}",
    ssl_certfile="{certificate}",
    ssl_keyfile="{key}",
) as producer:
    print(producer.send("events", value=b"hello").result(timeout=10))
"""


def interrupt(number: int, _frame: object) -> None:
    """Leave the program with the status that shells report. Other signals do not disturb its clean-up."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    print("make broker: interrupted", file=sys.stderr, flush=True)
    sys.exit(128 + number)


def start(arguments: argparse.Namespace) -> tuple[KafkaCluster, str]:
    """Start the cluster; returns it and what to print about it."""
    check_version(arguments.version)
    authority = None
    if arguments.secure:
        from tests.support.certificates import Authority  # trustme: only needed here

        authority = Authority()
    print(f"starting Apache Kafka {arguments.version} ...", file=sys.stderr, flush=True)
    cluster = KafkaCluster(
        arguments.version,
        arguments.nodes,
        properties=authority and {**authority.broker_properties(), "ssl.client.auth": "required"},
        listeners={"SSL": "SSL"} if authority else None,
        heap_mb=512,
        lifetime_seconds=LIFETIME_SECONDS,
        java_options=(),
        first_port=arguments.port,
    )
    if authority is None:
        return cluster, cluster.bootstrap_servers
    certificate, key = authority.issue("client").write(cluster.folder, "client")
    ca = authority.write(cluster.folder)
    servers = cluster.bootstrap("SSL")
    return cluster, _SNIPPET.format(servers=servers, ca=ca, certificate=certificate, key=key)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run Apache Kafka on a free loopback port until Ctrl-C.")
    known = ", ".join(KAFKA_VERSIONS)
    parser.add_argument("version", nargs="?", default=NEWEST_VERSION, help=f"one of {known}")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--port", type=int, help="port of the first node; default: a free port")
    parser.add_argument(
        "--secure", action="store_true", help="also listen with TLS and print a program for it"
    )
    arguments = parser.parse_args()

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, interrupt)
    try:
        cluster, announcement = start(arguments)
    except RuntimeError as error:
        sys.exit(f"make broker: {error}")
    with cluster:
        print(announcement, flush=True)
        print(f"logs and data in {cluster.folder}; Ctrl-C stops it", file=sys.stderr, flush=True)
        threading.Event().wait(LIFETIME_SECONDS)


if __name__ == "__main__":
    main()

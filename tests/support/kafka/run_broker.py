"""Run Apache Kafka until Ctrl-C: ``make broker``.

Prints the bootstrap address. The data is in a temporary folder that is deleted at the end.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading

from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.maven_artifacts import KAFKA_VERSIONS, NEWEST_VERSION, check_version

LIFETIME_SECONDS = 12 * 3600


def interrupt(number: int, _frame: object) -> None:
    """Leave the program with the status that shells report. Other signals do not disturb its clean-up."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    print("make broker: interrupted", file=sys.stderr, flush=True)
    sys.exit(128 + number)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run Apache Kafka on a free loopback port until Ctrl-C.")
    known = ", ".join(KAFKA_VERSIONS)
    parser.add_argument("version", nargs="?", default=NEWEST_VERSION, help=f"one of {known}")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--port", type=int, help="port of the first node; default: a free port")
    arguments = parser.parse_args()

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, interrupt)
    try:
        check_version(arguments.version)
        print(f"starting Apache Kafka {arguments.version} ...", file=sys.stderr, flush=True)
        cluster = KafkaCluster(
            arguments.version,
            arguments.nodes,
            heap_mb=512,
            lifetime_seconds=LIFETIME_SECONDS,
            java_options=(),
            first_port=arguments.port,
        )
    except RuntimeError as error:
        sys.exit(f"make broker: {error}")
    with cluster:
        print(cluster.bootstrap_servers, flush=True)
        print(f"logs and data in {cluster.folder}; Ctrl-C stops it", file=sys.stderr, flush=True)
        threading.Event().wait(LIFETIME_SECONDS)


if __name__ == "__main__":
    main()

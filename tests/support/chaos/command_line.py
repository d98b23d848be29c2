"""Command-line arguments and the cluster shared by all programs that inject random faults."""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from pathlib import Path

from tests.support.certificates import Authority
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.maven_artifacts import NEWEST_VERSION

#: In the cluster's folder, if the producers use TLS.
_CA_FILE = "ca.pem"
#: How long brokers may run in addition to the faults: to start, settle and be read.
EXTRA_LIFETIME_SECONDS = 1200


def fault_arguments(
    description: str | None, breakages: Sequence[str], seconds: float = 600
) -> argparse.ArgumentParser:
    """A parser with ``--seconds``, ``--kafka``, ``--tls``, ``--seed`` and ``--break``."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seconds", type=float, default=seconds, help="how long to inject faults, default: %(default)s"
    )
    parser.add_argument("--kafka", default=NEWEST_VERSION, help="version of the brokers")
    parser.add_argument("--tls", action="store_true", help="the producers use TLS")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    parser.add_argument(
        "--break", dest="breakage", choices=breakages, help="break something on purpose: the run must fail"
    )
    return parser


def three_nodes(arguments: argparse.Namespace, properties: dict[str, str], what: str) -> KafkaCluster:
    """Print the configuration of the run, and start three brokers that live as long as the run."""
    say(
        f"Apache Kafka {arguments.kafka}, 3 nodes{', TLS' if arguments.tls else ''}; {what}; "
        f"{arguments.seconds:.0f} s of faults, seed {arguments.seed}"
    )
    authority = Authority() if arguments.tls else None
    cluster = KafkaCluster(
        arguments.kafka,
        3,
        properties={**properties, **(authority.broker_properties() if authority else {})},
        listeners={"SSL": "SSL"} if authority else None,
        lifetime_seconds=int(arguments.seconds) + EXTRA_LIFETIME_SECONDS,
    )
    if authority is not None:
        authority.write(cluster.folder, _CA_FILE)
    return cluster


def access_of_producers(cluster: KafkaCluster, tls: bool) -> tuple[str, Path | None]:
    """The bootstrap servers for the producers, and the file with the authority that they check with TLS."""
    return (cluster.bootstrap("SSL"), cluster.folder / _CA_FILE) if tls else (cluster.bootstrap_servers, None)


def say(line: str) -> None:
    """Print a line and flush, so that it also appears at once in a redirected file."""
    print(line, flush=True)

"""``kproducer metadata``: brokers, controller, topics and partitions, from one Metadata response."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kproducer._core.client.cluster_metadata import fetch_cluster_metadata
from kproducer._core.runtime.clock import SystemClock
from kproducer.cli.connection_options import connection_options, producer_config
from kproducer.errors import printable
from kproducer.types import ClusterMetadata

#: Wide enough for a table in a file or a pipe.
_UNLIMITED_WIDTH = 10_000


@click.command(short_help="Print brokers, topics and partitions.")
@click.argument("topic", required=False)
@connection_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def metadata(topic: str | None, as_json: bool, **options: Any) -> None:
    """Print the brokers, the controller and the partitions of TOPIC, or of all topics."""
    config = producer_config(options)
    found = fetch_cluster_metadata(
        config.evolve(client_id=config.client_id or "kproducer-cli"),
        SystemClock(),
        topic,
        config.max_block_ms,
    )
    if as_json:
        click.echo(json.dumps(_described(found), indent=2, default=str))
    else:
        _print_tables(found)
    if topic is not None and (failure := next(iter(found.topics.values())).error) is not None:
        raise click.ClickException(f"topic {topic!r}: {failure}")


def _described(cluster: ClusterMetadata) -> dict[str, Any]:
    """The cluster as JSON; its errors become texts."""
    return {
        "cluster_id": cluster.cluster_id,
        "controller": cluster.controller_id,
        "brokers": [each._asdict() for each in cluster.brokers.values()],
        "topics": [
            {
                "name": each.topic,
                "internal": each.is_internal,
                "error": each.error,
                "partitions": [
                    {
                        "partition": partition.partition,
                        "leader": None if partition.leader is None else partition.leader.id,
                        "replicas": partition.replicas,
                        "in_sync_replicas": partition.in_sync_replicas,
                        "offline_replicas": partition.offline_replicas,
                        "error": partition.error,
                    }
                    for partition in each.partitions
                ],
            }
            for each in cluster.topics.values()
        ],
    }


def _print_tables(cluster: ClusterMetadata) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _UNLIMITED_WIDTH
    brokers = [
        (each.id, f"{each.host}:{each.port}", each.rack, "yes" if each.id == cluster.controller_id else "")
        for each in cluster.brokers.values()
    ]
    title = f"Cluster {cluster.cluster_id}" if cluster.cluster_id else "Cluster"
    console.print(_table(title, ("broker", "address", "rack", "controller"), brokers))
    rows: list[tuple[Any, ...]] = []
    for topic in cluster.topics.values():
        if topic.error is not None:
            rows.append((topic.topic, "", "", "", "", "", topic.error))
        for each in topic.partitions:
            replicas = each.replicas, each.in_sync_replicas, each.offline_replicas
            leader = "none" if each.leader is None else each.leader.id
            lists = [",".join(map(str, ids)) for ids in replicas]
            rows.append((topic.topic, each.partition, leader, *lists, each.error))
    names = ("topic", "partition", "leader", "replicas", "in sync", "offline", "error")
    console.print(_table("Topics", names, rows))


def _table(title: str, names: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> Table:
    table = Table(*names, title=Text(printable(title)), title_justify="left")
    for row in rows:
        # The texts come from brokers: they are neither markup nor escape sequences.
        table.add_row(*(Text("" if cell is None else printable(str(cell))) for cell in row))
    return table

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
from kproducer.errors import KafkaError, printable
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
    cluster = _described(found)
    if as_json:
        click.echo(json.dumps(cluster, indent=2))
    else:
        _print_tables(cluster)
    if topic is not None and (failure := cluster["topics"][0]["error"]) is not None:
        raise click.ClickException(f"topic {topic!r}: {failure}")


def _described(cluster: ClusterMetadata) -> dict[str, Any]:
    return {
        "cluster_id": cluster.cluster_id,
        "controller": cluster.controller_id,
        "brokers": [each._asdict() for each in cluster.brokers.values()],
        "topics": [
            {
                "name": each.topic,
                "internal": each.is_internal,
                "error": _text(each.error),
                "partitions": [
                    {
                        "partition": partition.partition,
                        "leader": None if partition.leader is None else partition.leader.id,
                        "replicas": list(partition.replicas),
                        "in_sync_replicas": list(partition.in_sync_replicas),
                        "offline_replicas": list(partition.offline_replicas),
                        "error": _text(partition.error),
                    }
                    for partition in each.partitions
                ],
            }
            for each in cluster.topics.values()
        ],
    }


def _text(error: KafkaError | None) -> str | None:
    return None if error is None else str(error)


def _print_tables(cluster: dict[str, Any]) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _UNLIMITED_WIDTH
    controller = cluster["controller"]
    brokers = [
        (
            each["id"],
            f"{each['host']}:{each['port']}",
            each["rack"],
            "yes" if each["id"] == controller else "",
        )
        for each in cluster["brokers"]
    ]
    title = f"Cluster {cluster['cluster_id']}" if cluster["cluster_id"] else "Cluster"
    console.print(_table(title, ("broker", "address", "rack", "controller"), brokers))
    rows = []
    for topic in cluster["topics"]:
        if topic["error"] is not None:
            rows.append((topic["name"], "", "", "", "", "", topic["error"]))
        rows += [
            (
                topic["name"],
                each["partition"],
                "none" if each["leader"] is None else each["leader"],
                *(",".join(map(str, each[f"{kind}replicas"])) for kind in ("", "in_sync_", "offline_")),
                each["error"],
            )
            for each in topic["partitions"]
        ]
    names = ("topic", "partition", "leader", "replicas", "in sync", "offline", "error")
    console.print(_table("Topics", names, rows))


def _table(title: str, names: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> Table:
    table = Table(*names, title=Text(printable(title)), title_justify="left")
    for row in rows:
        # The texts come from brokers: they are neither markup nor escape sequences.
        table.add_row(*(Text("" if cell is None else printable(str(cell))) for cell in row))
    return table

"""``kproducer metadata``: brokers, controller, topics and partitions, from one Metadata response.

Uses the network client and not ``KafkaProducer.partitions_for``, which knows only the topics that it is asked
for, and whose request creates topics on clusters with ``auto.create.topics.enable``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click
from kproducer_messages import MetadataRequest, MetadataResponse
from kproducer_messages.metadata_request import MetadataRequestTopic
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kproducer.cli.connection_options import connection_options, producer_config
from kproducer.client.client_request import ClientResponse, MessageBuilder
from kproducer.client.metadata import Metadata
from kproducer.client.network_client import new_network_client
from kproducer.config.producer_config import ProducerConfig
from kproducer.errors import KafkaError, KafkaTimeoutError, printable
from kproducer.errors.broker_errors import error_for_code
from kproducer.protocol.registry import ApiKey, supported_versions
from kproducer.runtime.clock import SystemClock

#: The first version of Metadata in which a request can say that it must not create topics.
_FIRST_VERSION_WITHOUT_CREATION = 4
#: Wide enough for a table in a file or a pipe.
_UNLIMITED_WIDTH = 10_000


@click.command()
@click.argument("topic", required=False)
@connection_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def metadata(topic: str | None, as_json: bool, **options: Any) -> None:
    """Print the brokers, the controller and the partitions of TOPIC, or of all topics."""
    config = producer_config(options)
    try:
        cluster = _described(fetch_metadata(config, topic))
    except KafkaError as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(json.dumps(cluster, indent=2))
    else:
        _print_tables(cluster)
    if topic is not None and (failure := cluster["topics"][0]["error"]) is not None:
        raise click.ClickException(f"topic {topic!r}: {failure}")


def fetch_metadata(config: ProducerConfig, topic: str | None) -> MetadataResponse:
    """Ask any broker for the metadata of a topic, or of all; waits up to ``max_block_ms``.

    Raises:
        AuthenticationError: every broker that can be reached refused the credentials.
        KafkaTimeoutError: no broker answered in time; says what failed.
        KafkaError: the brokers do not support the request, or a connection ended before the response.
    """
    clock = SystemClock()
    known = Metadata(config)
    client = new_network_client(config.evolve(client_id=config.client_id or "kproducer-cli"), known, clock)
    topics = None if topic is None else [MetadataRequestTopic(name=topic)]
    oldest, latest = supported_versions(ApiKey.METADATA)
    request = MessageBuilder(
        MetadataRequest(topics=topics, allow_auto_topic_creation=False),
        max(oldest, _FIRST_VERSION_WITHOUT_CREATION),
        latest,
    )
    responses: list[ClientResponse] = []
    is_sent = False
    now_ms = clock.monotonic_ms()
    deadline_ms = now_ms + config.max_block_ms
    try:
        while now_ms < deadline_ms:
            if not is_sent and (node := client.least_loaded_node(now_ms)) and client.ready(node, now_ms):
                client.send(node.id, request, now_ms, responses.append)
                is_sent = True
            client.poll(min(100, deadline_ms - now_ms), now_ms)
            if responses:
                response = responses.pop()
                if response.body is not None:
                    body: MetadataResponse = response.body
                    return body
                if not response.disconnected:
                    assert response.error is not None
                    raise response.error
                is_sent = False
            if (refusal := client.refusal_by_all()) is not None:
                raise refusal
            now_ms = clock.monotonic_ms()
        failures = known.describe_failures(client.last_errors())
        raise KafkaTimeoutError(f"no broker answered within max_block_ms={config.max_block_ms}: {failures}")
    finally:
        client.close()


def _described(response: MetadataResponse) -> dict[str, Any]:
    return {
        "cluster_id": response.cluster_id,
        "controller": response.controller_id if response.controller_id >= 0 else None,
        "brokers": [
            {"id": each.node_id, "host": each.host, "port": each.port, "rack": each.rack}
            for each in sorted(response.brokers, key=lambda each: each.node_id)
        ],
        "topics": [
            {
                "name": each.name,
                "internal": each.is_internal,
                "error": _error(each.error_code),
                "partitions": [
                    {
                        "partition": partition.partition_index,
                        "leader": partition.leader_id if partition.leader_id >= 0 else None,
                        "replicas": list(partition.replica_nodes),
                        "in_sync_replicas": list(partition.isr_nodes),
                        "offline_replicas": list(partition.offline_replicas),
                        "error": _error(partition.error_code),
                    }
                    for partition in sorted(each.partitions, key=lambda each: each.partition_index)
                ],
            }
            for each in sorted(response.topics, key=lambda each: each.name or "")
        ],
    }


def _error(code: int) -> str | None:
    return None if not code else str(error_for_code(code))


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

"""Admin calls that confluent-kafka lacks, with kafka-python: ``... COMMAND SERVERS ARGUMENTS``.

In its own process: importing kafka-python warns, and it leaves sockets to the garbage collector; both are
errors in tests. ``ARGUMENTS`` is JSON; see the functions.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

TIMEOUT_SECONDS = 60.0
_PREFERRED = 0


def place_replicas(bootstrap_servers: str, topic: str, partition: int, replicas: Sequence[int]) -> None:
    """Reassign a partition to these nodes and elect the first one as leader.

    Raises:
        RuntimeError: the admin client failed.
    """
    _run("place", bootstrap_servers, topic=topic, partition=partition, replicas=list(replicas))


def await_no_producers(
    bootstrap_servers: str, partitions: Mapping[str, int], node_ids: Mapping[str, Sequence[int] | None]
) -> None:
    """Wait until no broker remembers a producer id in these topics (name -> number of partitions).

    Args:
        node_ids: for each topic the nodes with replicas of all partitions; ``None``: query the leaders.

    Raises:
        RuntimeError: a producer is still known after a minute, or the admin client failed.
    """
    _run("await_no_producers", bootstrap_servers, partitions=dict(partitions), node_ids=dict(node_ids))


def subscribe_to_metrics(bootstrap_servers: str, name: str, settings: Mapping[str, str]) -> None:
    """Set the settings of a client metrics subscription (KIP-714), such as ``metrics`` and ``interval.ms``.

    Raises:
        RuntimeError: the admin client failed.
    """
    _run("subscribe_to_metrics", bootstrap_servers, name=name, settings=dict(settings))


def open_transactions(bootstrap_servers: str, partitions: Mapping[str, int]) -> set[int]:
    """Producer ids with an open transaction in these topics (name -> number of partitions).

    Raises:
        RuntimeError: the admin client failed.
    """
    return set(json.loads(_run("open_transactions", bootstrap_servers, partitions=dict(partitions))))


def _run(command: str, bootstrap_servers: str, **arguments: Any) -> str:
    """Returns what the command printed."""
    script = [sys.executable, "-W", "ignore", "-m", "tests.support.kafka.python_admin"]
    done = subprocess.run(
        [*script, command, bootstrap_servers, json.dumps(arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * TIMEOUT_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"kafka-python's admin client failed ({command}):\n{done.stderr[-3000:]}")
    return done.stdout


def _place(admin: Any, topic: str, partition: int, replicas: list[int]) -> None:
    from kafka import TopicPartition

    for error in admin.alter_partition_reassignments({TopicPartition(topic, partition): replicas}).values():
        if error is not None:
            raise error
    while admin.list_partition_reassignments({topic: [partition]}):
        time.sleep(0.05)
    if len(replicas) > 1:
        admin.elect_leaders(_PREFERRED, {topic: [partition]}, raise_errors=False)


def _await_no_producers(
    admin: Any, partitions: dict[str, int], node_ids: dict[str, list[int] | None]
) -> None:
    from kafka import TopicPartition

    deadline = time.monotonic() + TIMEOUT_SECONDS
    for topic, count in partitions.items():
        places = [TopicPartition(topic, number) for number in range(count)]
        for node_id in node_ids[topic] or [None]:
            while any(state.active_producers for state in admin.describe_producers(places, node_id).values()):
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"broker {node_id or 'that leads'} still remembers producers of {topic}"
                    )
                time.sleep(0.1)


def _subscribe_to_metrics(admin: Any, name: str, settings: dict[str, str]) -> None:
    from kafka.admin import ConfigResource, ConfigResourceType

    admin.alter_configs([ConfigResource(ConfigResourceType.CLIENT_METRICS, name, settings)])


def _open_transactions(admin: Any, partitions: dict[str, int]) -> None:
    from kafka import TopicPartition

    places = [TopicPartition(topic, number) for topic, count in partitions.items() for number in range(count)]
    found = {
        producer.producer_id
        for state in admin.describe_producers(places).values()
        for producer in state.active_producers
        if producer.current_transaction_start_offset >= 0
    }
    print(json.dumps(sorted(found)))


def main() -> None:
    from kafka import KafkaAdminClient

    command, servers, arguments = sys.argv[1:]
    admin = KafkaAdminClient(bootstrap_servers=servers)
    commands = {
        "place": _place,
        "await_no_producers": _await_no_producers,
        "open_transactions": _open_transactions,
        "subscribe_to_metrics": _subscribe_to_metrics,
    }
    commands[command](admin, **json.loads(arguments))
    admin.close()


if __name__ == "__main__":
    main()

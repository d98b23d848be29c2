"""Settings of the brokers that tests run, as plain dictionaries: no processes, no files.

KRaft in combined mode (each node is broker and controller) where it is ready for production, otherwise
ZooKeeper. Everything listens on 127.0.0.1. Sizes are small: test brokers hold little data and must start
fast.
Source: Kafka's ``KafkaConfig``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

FIRST_KRAFT_VERSION = (3, 3)


class NodeAddress(NamedTuple):
    """Addresses of one node. ``controller_port`` is unused with ZooKeeper.

    Attributes:
        listener_ports: the ports of further listeners, by name.
    """

    node_id: int
    port: int
    controller_port: int
    listener_ports: Mapping[str, int] = {}

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"


def uses_kraft(version: str) -> bool:
    major, minor = version.split(".")[:2]
    return (int(major), int(minor)) >= FIRST_KRAFT_VERSION


def broker_properties(
    version: str,
    node: NodeAddress,
    nodes: Sequence[NodeAddress],
    data_folder: str,
    zookeeper_port: int | None,
    listeners: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The properties of one node; with three nodes, three replicas of which two must be in sync.

    Args:
        listeners: security protocols of the listeners beside PLAINTEXT, by name.
    """
    replicas = min(3, len(nodes))
    in_sync = min(2, replicas)
    properties = {
        "log.dirs": data_folder,
        "num.partitions": "3",
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "group.initial.rebalance.delay.ms": "0",
        "num.network.threads": "2",
        "num.io.threads": "2",
        "num.recovery.threads.per.data.dir": "1",
        "log.cleaner.dedupe.buffer.size": "4194304",
        "log.index.size.max.bytes": "1048576",
        "controlled.shutdown.enable": "true",
    }
    if uses_kraft(version):
        properties.update(_kraft_properties(node, nodes))
    else:
        properties.update(_zookeeper_properties(node, zookeeper_port))
    properties.update(_listener_properties(node, listeners or {}, uses_kraft(version)))
    return properties


def _listener_properties(
    node: NodeAddress, listeners: Mapping[str, str], has_controller: bool
) -> dict[str, str]:
    addresses = {"PLAINTEXT": node.bootstrap} | {
        name: f"127.0.0.1:{node.listener_ports[name]}" for name in listeners
    }
    advertised = ",".join(f"{name}://{address}" for name, address in addresses.items())
    protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **listeners}
    controller = f",CONTROLLER://127.0.0.1:{node.controller_port}" if has_controller else ""
    return {
        "listeners": advertised + controller,
        "advertised.listeners": advertised,
        "listener.security.protocol.map": ",".join(f"{name}:{each}" for name, each in protocols.items()),
        "inter.broker.listener.name": "PLAINTEXT",
    }


def _kraft_properties(node: NodeAddress, nodes: Sequence[NodeAddress]) -> dict[str, str]:
    voters = ",".join(f"{each.node_id}@127.0.0.1:{each.controller_port}" for each in nodes)
    return {
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        # A killed broker is noticed in seconds: fault tests wait for it.
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "3000",
    }


def _zookeeper_properties(node: NodeAddress, zookeeper_port: int | None) -> dict[str, str]:
    return {
        "broker.id": str(node.node_id),
        "zookeeper.connect": f"127.0.0.1:{zookeeper_port}",
        "zookeeper.session.timeout.ms": "6000",
    }


def zookeeper_properties(port: int, data_folder: str) -> dict[str, str]:
    return {
        "dataDir": data_folder,
        "clientPort": str(port),
        "clientPortAddress": "127.0.0.1",
        "tickTime": "500",
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
    }


def as_text(properties: dict[str, str]) -> str:
    """A Java properties file. Values may have several lines, as PEM certificates do."""

    def escaped(value: str) -> str:
        return value.replace("\\", "\\\\").replace("\n", "\\n")

    return "".join(f"{key}={escaped(value)}\n" for key, value in properties.items())

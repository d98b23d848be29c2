"""Settings of the brokers that tests run, as plain dictionaries: no processes, no files.

KRaft in combined mode (each node is broker and controller) where it is ready for production, otherwise
ZooKeeper. Everything listens on 127.0.0.1. Sizes are small: test brokers hold little data and must start
fast.
Source: Kafka's ``KafkaConfig``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

FIRST_KRAFT_VERSION = (3, 3)


class NodeAddress(NamedTuple):
    """Addresses of one node. ``controller_port`` is unused with ZooKeeper."""

    node_id: int
    port: int
    controller_port: int

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
) -> dict[str, str]:
    """The properties of one node; with three nodes, three replicas of which two must be in sync."""
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
    return properties


def _kraft_properties(node: NodeAddress, nodes: Sequence[NodeAddress]) -> dict[str, str]:
    voters = ",".join(f"{each.node_id}@127.0.0.1:{each.controller_port}" for each in nodes)
    return {
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{node.bootstrap},CONTROLLER://127.0.0.1:{node.controller_port}",
        "advertised.listeners": f"PLAINTEXT://{node.bootstrap}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        # Detect killed brokers within seconds: fault tests wait for it.
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "3000",
    }


def _zookeeper_properties(node: NodeAddress, zookeeper_port: int | None) -> dict[str, str]:
    return {
        "broker.id": str(node.node_id),
        "zookeeper.connect": f"127.0.0.1:{zookeeper_port}",
        "zookeeper.session.timeout.ms": "6000",
        "listeners": f"PLAINTEXT://{node.bootstrap}",
        "advertised.listeners": f"PLAINTEXT://{node.bootstrap}",
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
    return "".join(f"{key}={value}\n" for key, value in properties.items())

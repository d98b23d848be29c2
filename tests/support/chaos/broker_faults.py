"""Kill, stop and freeze the brokers of a cluster, one at a time. Call it from the cluster's thread."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Mapping

from confluent_kafka import KafkaException

from tests.support.kafka.cluster import KafkaCluster, KafkaNode
from tests.support.kafka.topics import await_in_sync, describe

SETTLE_SECONDS = 180


class BrokerFaults:
    """Each fault ends when all replicas are in sync again: with two of three brokers down, every write fails.

    Args:
        replicas: number of in-sync replicas that each topic must reach again.
        tell: prints a line.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        chance: random.Random,
        replicas: Mapping[str, int],
        tell: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._chance = chance
        self._replicas = dict(replicas)
        self._tell = tell

    def any_node(self) -> KafkaNode:
        return self._chance.choice(list(self._cluster.nodes.values()))

    def freeze(self, node: KafkaNode, seconds: float) -> None:
        self._tell(f"broker {node.node_id} is frozen for {seconds:.1f} s")
        assert node.pid is not None
        os.kill(node.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(node.pid, signal.SIGCONT)
        self.await_replicas()

    def take_down(self, node: KafkaNode, how: str, seconds: float | None = None) -> None:
        """``how``: "kill" or "stop". ``seconds``: until it is started again; ``None``: a random time."""
        self._tell(f"broker {node.node_id} goes down ({how}) and comes back")
        getattr(node, how)()
        time.sleep(self._chance.uniform(0, 3) if seconds is None else seconds)
        node.start()
        self.await_replicas()

    def await_replicas(self) -> None:
        await_in_sync(self._are_in_sync, SETTLE_SECONDS)

    def _are_in_sync(self) -> bool:
        try:
            return all(self._is_in_sync(topic, count) for topic, count in self._replicas.items())
        except KafkaException:
            return False

    def _is_in_sync(self, topic: str, count: int) -> bool:
        partitions = describe(self._cluster.bootstrap_servers, topic).partitions.values()
        return bool(partitions) and all(
            len(each.isrs) == count and each.leader in each.isrs for each in partitions
        )

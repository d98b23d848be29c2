"""Topics on a real cluster, with an independent admin client (confluent-kafka)."""

from __future__ import annotations

import concurrent.futures
import socket
import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec, TopicMetadata

from kproducer._core.config.producer_config import ProducerConfig

TIMEOUT_SECONDS = 30.0
#: After that, another client tries to create a topic.
_ATTEMPT_SECONDS = 10.0
_CONNECT_TIMEOUT_SECONDS = 5.0


def _admin(bootstrap_servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})


def broker_ids(bootstrap_servers: str) -> set[int]:
    """The nodes in the cluster's metadata; empty if no broker answers."""
    try:
        return set(_admin(bootstrap_servers).list_topics(timeout=5).brokers)
    except KafkaException:
        return set()


def require_broker(bootstrap_servers: str) -> None:
    """Fail at once if there is no broker; the admin client tries for ``TIMEOUT_SECONDS`` and gives no reason.

    Raises:
        ConfigError: not ``host:port``, or a comma-separated list of them.
        RuntimeError: no server accepts connections, or none answers as a broker without TLS and SASL does.
    """
    failures = []
    for server in ProducerConfig(bootstrap_servers=bootstrap_servers).bootstrap_servers:
        host, _, port = server.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_TIMEOUT_SECONDS).close()
        except OSError as error:
            failures.append(f"{server}: {error.strerror or error}")
        else:
            break
    else:
        raise RuntimeError(
            f"no broker accepts connections ({'; '.join(failures)}): start one there, or correct the address"
        )
    if not broker_ids(bootstrap_servers):
        raise RuntimeError(
            f"{server} accepts connections, but no broker answers: check that this is a listener of a broker"
            " without TLS and SASL"
        )


def create_topic(
    bootstrap_servers: str,
    topic: str,
    partitions: int = 3,
    replication_factor: int = -1,
    config: dict[str, str] | None = None,
    replicas: list[list[int]] | None = None,
) -> None:
    """Create a topic and wait until each leader serves it. -1: the cluster's default replication factor.

    Args:
        replicas: the nodes of each partition, the leader first, in place of a replication factor.

    Raises:
        RuntimeError: there is a topic of this name, with records or with another number of partitions.
    """
    placed = {} if replicas is None else {"replica_assignment": replicas}
    new_topic = NewTopic(topic, partitions, replication_factor, config=config or {}, **placed)
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        admin = _admin(bootstrap_servers)
        try:
            created = admin.create_topics([new_topic], operation_timeout=TIMEOUT_SECONDS)[topic]
            created.result(_ATTEMPT_SECONDS)
            break
        except concurrent.futures.TimeoutError:
            # Seen on a busy machine. Another client asks: the topic may exist by now.
            if time.monotonic() > deadline:
                raise
        except KafkaException as error:
            code = error.args[0].code()
            # The client may lose the connection to a broker that has created the topic, above all while a
            # cluster starts. It sends some requests again itself.
            if code == KafkaError.TOPIC_ALREADY_EXISTS:
                _check_unused(bootstrap_servers, topic, partitions)
                break
            if code != KafkaError._DESTROY_BROKER or time.monotonic() > deadline:
                raise
    await_topic(bootstrap_servers, topic, partitions)


def _check_unused(bootstrap_servers: str, topic: str, partitions: int) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    # A broker that has not heard of the topic yet knows no partitions.
    while not (found := describe(bootstrap_servers, topic).partitions) and time.monotonic() < deadline:
        time.sleep(0.05)
    end_offsets = await_topic(bootstrap_servers, topic, len(found))
    if len(found) != partitions or any(end_offsets):
        raise RuntimeError(
            f"topic {topic!r} exists, with end offsets {end_offsets}, not with {partitions} empty partitions;"
            " another test may use the name"
        )


def await_topic(bootstrap_servers: str, topic: str, partitions: int) -> list[int]:
    """Wait until every partition of a topic has a leader that serves it; return the partitions' end offsets.

    Metadata is not sufficient: it may name a leader that does not know its role yet, and a record sent there
    with ``acks=0`` would be lost.
    """
    admin = _admin(bootstrap_servers)
    deadline = time.monotonic() + TIMEOUT_SECONDS
    asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(partitions)}
    while True:
        try:
            answers = admin.list_offsets(asked, request_timeout=TIMEOUT_SECONDS)
            return [answers[partition].result(TIMEOUT_SECONDS).offset for partition in asked]
        except KafkaException:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def delete_topic(bootstrap_servers: str, topic: str) -> None:
    admin = _admin(bootstrap_servers)
    admin.delete_topics([topic], operation_timeout=TIMEOUT_SECONDS)[topic].result(TIMEOUT_SECONDS)


def describe(bootstrap_servers: str, topic: str) -> TopicMetadata:
    """A broker's metadata of a topic, including the error of a broker that does not know it (yet).

    Raises:
        KafkaException: no broker answered in time, for instance because the broker stopped meanwhile.
    """
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            return _admin(bootstrap_servers).list_topics(topic, timeout=TIMEOUT_SECONDS).topics[topic]
        except KafkaException:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def partition_leader(bootstrap_servers: str, topic: str, partition: int) -> int:
    """Node id of a partition's leader, waiting for an election; -1: there is still no leader."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        found = describe(bootstrap_servers, topic).partitions.get(partition)
        if found is not None and found.leader >= 0:
            return int(found.leader)
        if time.monotonic() > deadline:
            return -1
        time.sleep(0.05)


def in_sync_count(bootstrap_servers: str, topic: str) -> int:
    """The smallest number of in-sync replicas over a topic's partitions; 0: the broker does not know them."""
    partitions = describe(bootstrap_servers, topic).partitions
    return min((len(each.isrs) for each in partitions.values()), default=0)


def await_in_sync(are_in_sync: Callable[[], bool], timeout_seconds: float) -> None:
    """Wait until ``are_in_sync`` reports that all replicas are in sync.

    Raises:
        RuntimeError: they are not in sync within ``timeout_seconds``.
    """
    deadline = time.monotonic() + timeout_seconds
    while not are_in_sync():
        if time.monotonic() > deadline:
            raise RuntimeError("the replicas did not get in sync in time")
        time.sleep(0.1)

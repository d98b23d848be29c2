"""The metadata of a whole cluster, from one Metadata response over a connection of its own.

``Metadata`` has only the topics that a producer sends to, and its requests create topics on clusters with
``auto.create.topics.enable``. Runs on the caller's thread.
"""

from __future__ import annotations

from typing import Any

from kproducer_messages import MetadataRequest, MetadataResponse
from kproducer_messages.metadata_request import MetadataRequestTopic

from kproducer._core.client.client_request import ClientResponse, MessageBuilder
from kproducer._core.client.metadata import Metadata
from kproducer._core.client.network_client import new_network_client
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.runtime.clock import Clock
from kproducer.errors import InvalidArgumentError, KafkaError, KafkaTimeoutError
from kproducer.errors.broker_errors import error_for_code
from kproducer.types import ClusterMetadata, Node, PartitionInfo, TopicDescription

#: The first version of Metadata in which a request can say that it must not create topics.
_FIRST_VERSION_WITHOUT_CREATION = 4
_LONGEST_POLL_MS = 100


def fetch_cluster_metadata(
    config: ProducerConfig, clock: Clock, topic: str | None, timeout_ms: float
) -> ClusterMetadata:
    """Ask any broker for the metadata of a topic, or of all.

    Args:
        config: servers, security, ``client_id``.
        clock: monotonic time.
        topic: ``None``: all topics that this user may see.
        timeout_ms: how long to wait for connection and response together.

    Raises:
        AuthenticationError: every broker that can be reached refused the credentials.
        KafkaTimeoutError: no broker answered in time; says what failed.
        InvalidArgumentError: ``topic`` is not a text, or empty.
        KafkaError: the brokers do not support the request.
    """
    if topic is not None and (not isinstance(topic, str) or not topic):
        raise InvalidArgumentError(f"topic must be a non-empty str or None, not {topic!r}")
    known = Metadata(config)
    client = new_network_client(config, known, clock)
    topics = None if topic is None else [MetadataRequestTopic(name=topic)]
    message = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    request = MessageBuilder(message, max(message.MIN_VERSION, _FIRST_VERSION_WITHOUT_CREATION))
    responses: list[ClientResponse] = []
    asked: Node | None = None
    now_ms = clock.monotonic_ms()
    deadline_ms = now_ms + timeout_ms
    try:
        while now_ms < deadline_ms:
            if not asked and (node := client.connections.least_loaded(now_ms)) and client.ready(node, now_ms):
                client.send(node.id, request, now_ms, responses.append)
                asked = node
            client.poll(int(min(_LONGEST_POLL_MS, deadline_ms - now_ms)), now_ms)
            if responses:
                response = responses.pop()
                if response.body is not None:
                    assert asked is not None
                    return _cluster_metadata(response.body, asked)
                if not response.disconnected:
                    assert response.error is not None
                    raise response.error
                asked = None
            if (refusal := client.connections.refusal_by_all()) is not None:
                raise refusal
            now_ms = clock.monotonic_ms()
        failures = known.describe_failures(client.connections.last_errors())
        raise KafkaTimeoutError(f"no broker answered within {timeout_ms:g} ms: {failures}")
    finally:
        client.close()


def _cluster_metadata(response: MetadataResponse, asked: Node) -> ClusterMetadata:
    brokers = {
        each.node_id: Node(each.node_id, each.host, each.port, each.rack)
        for each in sorted(response.brokers, key=lambda each: each.node_id)
    }
    address = (asked.host, asked.port)
    known = (each for each in brokers.values() if (each.host, each.port) == address)
    return ClusterMetadata(
        response.cluster_id,
        response.controller_id if response.controller_id >= 0 else None,
        brokers,
        {
            each.name or "": TopicDescription(
                each.name or "", _partitions(each, brokers), _error(each.error_code), each.is_internal
            )
            for each in sorted(response.topics, key=lambda each: each.name or "")
        },
        next(known, Node(-1, *address)),
    )


def _partitions(topic: Any, brokers: dict[int, Node]) -> tuple[PartitionInfo, ...]:
    return tuple(
        PartitionInfo(
            topic.name,
            each.partition_index,
            brokers.get(each.leader_id),
            tuple(each.replica_nodes),
            tuple(each.isr_nodes),
            tuple(each.offline_replicas),
            _error(each.error_code),
        )
        for each in sorted(topic.partitions, key=lambda each: each.partition_index)
    )


def _error(code: int) -> KafkaError | None:
    return None if not code else error_for_code(code)

"""Changes that an operator makes to a running cluster, with independent admin clients."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterable
from uuid import UUID

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from kproducer_messages import MetadataRequest, MetadataResponse, RequestHeader, ResponseHeader
from kproducer_messages.metadata_request import MetadataRequestTopic

from kproducer._core.client.api_keys import ApiKey
from tests.support.kafka.python_admin import place_replicas
from tests.support.kafka.topics import TIMEOUT_SECONDS, describe, partition_leader

#: The first version with topic ids; flexible.
_METADATA_VERSION = 10
_UPDATE_FEATURES = 57


def set_topic_config(bootstrap_servers: str, topic: str, name: str, value: str) -> None:
    _set_config(bootstrap_servers, ResourceType.TOPIC, topic, name, value)


def set_broker_config(bootstrap_servers: str, node_ids: Iterable[int], name: str, value: str) -> None:
    """Change a dynamic setting on each of these brokers."""
    for node_id in node_ids:
        _set_config(bootstrap_servers, ResourceType.BROKER, str(node_id), name, value)


def _set_config(bootstrap_servers: str, kind: ResourceType, whose: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(kind, whose, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    for done in admin.incremental_alter_configs([resource], request_timeout=TIMEOUT_SECONDS).values():
        done.result(TIMEOUT_SECONDS)


def move_leader(bootstrap_servers: str, topic: str, partition: int, node_id: int) -> bool:
    """Make a node the leader of a partition, as the preferred or the only replica.

    Returns:
        Whether it became the leader within 30 s.
    """
    replicas = list(describe(bootstrap_servers, topic).partitions[partition].replicas)
    others = [each for each in replicas if each != node_id]
    place_replicas(bootstrap_servers, topic, partition, [node_id, *others][: len(replicas)])
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while partition_leader(bootstrap_servers, topic, partition) != node_id:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def await_topic_id(
    bootstrap_servers: str, topic: str, is_right: Callable[[UUID | None], bool]
) -> UUID | None:
    """Wait until every broker returns the same, correct id of a topic. ``None``: the topic does not exist.

    Raises:
        RuntimeError: not within 30 s.
    """
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        found = {_topic_id(server, topic) for server in bootstrap_servers.split(",")}
        if len(found) == 1 and is_right(topic_id := found.pop()):
            return topic_id
        if time.monotonic() > deadline:
            raise RuntimeError(f"the brokers do not agree on the id of {topic}: {found}")
        time.sleep(0.05)


def _topic_id(server: str, topic: str) -> UUID | None:
    """The topic id known to this particular broker, which no admin client can query."""
    header = RequestHeader(request_api_key=ApiKey.METADATA, request_api_version=_METADATA_VERSION)
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    answer = _exchange(server, header.encode(2) + request.encode(_METADATA_VERSION))
    _, position = ResponseHeader.decode(answer, 1)
    (found,) = MetadataResponse.decode(answer, _METADATA_VERSION, position)[0].topics
    return found.topic_id if found.error_code == 0 else None


def set_feature_level(server: str, feature: str, level: int, *, is_downgrade: bool) -> None:
    """Finalize a level of a feature (KIP-584), as UpdateFeatures version 1.

    Raises:
        RuntimeError: the cluster refuses it.
    """
    name = feature.encode()
    update = struct.pack(">b", len(name) + 1) + name + struct.pack(">hbb", level, 1 + is_downgrade, 0)
    header = RequestHeader(request_api_key=_UPDATE_FEATURES, request_api_version=1)
    answer = _exchange(server, header.encode(2) + struct.pack(">ib", 60_000, 2) + update + b"\0\0")
    _, position = ResponseHeader.decode(answer, 1)
    code, text_size = struct.unpack_from(">hB", answer, position + 4)
    if code or text_size > 1:
        raise RuntimeError(f"{feature} cannot become {level}: {answer[position:]!r}")


def _exchange(server: str, frame: bytes) -> bytes:
    """The response to one request, on a connection of its own."""
    host, _, port = server.rpartition(":")
    with socket.create_connection((host, int(port)), TIMEOUT_SECONDS) as connection:
        stream = connection.makefile("rwb")
        stream.write(struct.pack(">i", len(frame)) + frame)
        stream.flush()
        return stream.read(struct.unpack(">i", stream.read(4))[0])

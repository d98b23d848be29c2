"""A ``Producer`` with the interface of confluent-kafka's, over kproducer's engine.

``from kproducer.compat.confluent_kafka import Producer`` instead of ``from confluent_kafka import Producer``;
docs/migration/confluent-kafka.md lists every difference. If confluent-kafka is installed, ``KafkaError``,
``KafkaException`` and ``TopicPartition`` are its own classes, so that code which catches or passes them works
with its consumers, too. If it is not, classes with the same methods take their place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kproducer.compat.confluent_kafka.cluster_metadata import (
    BrokerMetadata,
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
)
from kproducer.compat.confluent_kafka.errors import KafkaError, KafkaException
from kproducer.compat.confluent_kafka.group_offsets import TopicPartition
from kproducer.compat.confluent_kafka.message import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Message,
)
from kproducer.compat.confluent_kafka.producer import Producer
from kproducer.compat.confluent_kafka.serializing_producer import SerializingProducer

__all__ = [
    "TIMESTAMP_CREATE_TIME",
    "TIMESTAMP_LOG_APPEND_TIME",
    "TIMESTAMP_NOT_AVAILABLE",
    "BrokerMetadata",
    "ClusterMetadata",
    "KafkaError",
    "KafkaException",
    "Message",
    "PartitionMetadata",
    "Producer",
    "SerializingProducer",
    "TopicMetadata",
    "TopicPartition",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        raise AttributeError(
            f"{__name__} has no {name!r}, only a producer; import it from confluent_kafka, which works"
            " in the same process"
        )

"""kproducer: a Kafka producer for Python and PySpark. Public names only, no logic."""

from __future__ import annotations

from kproducer import free_threading  # noqa: F401  # first: it refuses interpreters that nothing else may run on
from kproducer.broker_errors import UnsupportedVersionError
from kproducer.config import ProducerConfig
from kproducer.errors import (
    AuthenticationError,
    AuthorizationError,
    BatchRejectedError,
    BrokerError,
    BufferExhaustedError,
    CloseTimeoutError,
    ConfigError,
    DeliveryTimeoutError,
    DisconnectedError,
    IllegalStateError,
    IncompleteResponseError,
    InvalidArgumentError,
    InvalidMetadataError,
    KafkaError,
    KafkaTimeoutError,
    LocalProtocolError,
    MetadataTimeoutError,
    NetworkError,
    NoBrokersAvailableError,
    Outcome,
    ProducerClosedError,
    RecordTooLargeError,
    RemoteProtocolError,
    RequestTimeoutError,
    RetriableError,
    SendManyError,
    SerializationError,
)
from kproducer.installation import BuildInfo, build_info
from kproducer.kafka_producer import KafkaProducer
from kproducer.producer.future_record_metadata import FutureRecordMetadata
from kproducer.producer.interceptors import ProducerRecord
from kproducer.producer.metrics import METRICS
from kproducer.producer.send_many_result import SendManyResult
from kproducer.serializers import (
    BytesSerializer,
    FloatSerializer,
    IntegerSerializer,
    JsonSerializer,
    NullSerializer,
    StringSerializer,
    UuidSerializer,
)
from kproducer.types import Node, PartitionInfo, RecordMetadata, TopicPartition

__all__ = [
    "METRICS",
    "AuthenticationError",
    "AuthorizationError",
    "BatchRejectedError",
    "BrokerError",
    "BufferExhaustedError",
    "BuildInfo",
    "BytesSerializer",
    "CloseTimeoutError",
    "ConfigError",
    "DeliveryTimeoutError",
    "DisconnectedError",
    "FloatSerializer",
    "FutureRecordMetadata",
    "IllegalStateError",
    "IncompleteResponseError",
    "IntegerSerializer",
    "InvalidArgumentError",
    "InvalidMetadataError",
    "JsonSerializer",
    "KafkaError",
    "KafkaProducer",
    "KafkaTimeoutError",
    "LocalProtocolError",
    "MetadataTimeoutError",
    "NetworkError",
    "NoBrokersAvailableError",
    "Node",
    "NullSerializer",
    "Outcome",
    "PartitionInfo",
    "ProducerClosedError",
    "ProducerConfig",
    "ProducerRecord",
    "RecordMetadata",
    "RecordTooLargeError",
    "RemoteProtocolError",
    "RequestTimeoutError",
    "RetriableError",
    "SendManyError",
    "SendManyResult",
    "SerializationError",
    "StringSerializer",
    "TopicPartition",
    "UnsupportedVersionError",
    "UuidSerializer",
    "build_info",
]

"""kproducer: a Kafka producer for Python and PySpark. Public names only, no logic."""

from __future__ import annotations

from kproducer import free_threading  # noqa: F401  # first: it refuses interpreters that nothing else may run on
from kproducer.broker_errors import UnsupportedVersionError
from kproducer.config import ProducerConfig
from kproducer.errors import (
    AbortTransactionError,
    AuthenticationError,
    AuthorizationError,
    BatchRejectedError,
    BrokerError,
    BufferExhaustedError,
    CloseTimeoutError,
    ConfigError,
    DeliveryTimeoutError,
    DisconnectedError,
    FatalProducerError,
    FencedError,
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
    TransactionAbortedError,
)
from kproducer.installation import BuildInfo, build_info
from kproducer.kafka_producer import KafkaProducer
from kproducer.producer.future_record_metadata import FutureRecordMetadata
from kproducer.producer.interceptors import ProducerRecord
from kproducer.producer.metrics import METRICS
from kproducer.producer.send_many_result import SendManyResult
from kproducer.producer.transactions.consumer_offsets import ConsumerGroupMetadata, OffsetAndMetadata
from kproducer.producer.transactions.open_transaction import PreparedTransaction
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
    "AbortTransactionError",
    "AuthenticationError",
    "AuthorizationError",
    "BatchRejectedError",
    "BrokerError",
    "BufferExhaustedError",
    "BuildInfo",
    "BytesSerializer",
    "CloseTimeoutError",
    "ConfigError",
    "ConsumerGroupMetadata",
    "DeliveryTimeoutError",
    "DisconnectedError",
    "FatalProducerError",
    "FencedError",
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
    "OffsetAndMetadata",
    "Outcome",
    "PartitionInfo",
    "PreparedTransaction",
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
    "TransactionAbortedError",
    "UnsupportedVersionError",
    "UuidSerializer",
    "build_info",
]

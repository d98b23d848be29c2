"""kproducer: a Kafka producer for Python and PySpark. Public names only; some are imported on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from kproducer.runtime import threads  # noqa: F401  # first: it refuses unsupported interpreters

# isort: split
from kproducer.config.producer_config import ProducerConfig
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
from kproducer.errors.broker_errors import UnsupportedVersionError
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

if TYPE_CHECKING:
    from kproducer.accumulator.future_record_metadata import FutureRecordMetadata
    from kproducer.bulk.send_many_result import SendManyResult
    from kproducer.config.producer_settings import ProducerSettings
    from kproducer.installation import BuildInfo, build_info
    from kproducer.kafka_producer import KafkaProducer
    from kproducer.sender.metrics import METRICS
    from kproducer.sending.interceptors import ProducerRecord
    from kproducer.transactions.transaction_arguments import (
        ConsumerGroupMetadata,
        OffsetAndMetadata,
        PreparedTransaction,
    )

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
    "ProducerSettings",
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

#: Imported when they are asked for: the processes in which Spark plans and commits each write need settings
#: and errors only, and start much sooner without a producer.
_LATER = {
    "BuildInfo": "installation",
    "build_info": "installation",
    "KafkaProducer": "kafka_producer",
    "FutureRecordMetadata": "accumulator.future_record_metadata",
    "ProducerRecord": "sending.interceptors",
    "ProducerSettings": "config.producer_settings",
    "METRICS": "sender.metrics",
    "SendManyResult": "bulk.send_many_result",
    "ConsumerGroupMetadata": "transactions.transaction_arguments",
    "OffsetAndMetadata": "transactions.transaction_arguments",
    "PreparedTransaction": "transactions.transaction_arguments",
}


if not TYPE_CHECKING:
    # Type checkers would take it for a promise that any name whatever is there.
    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

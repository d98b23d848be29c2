"""The public face: these names and no others, until somebody means to change them."""

from __future__ import annotations

import inspect

import kproducer
from kproducer import errors
from kproducer._core.metrics.metric_table import METRICS

PUBLIC_NAMES = [
    "METRICS",
    "AbortTransactionError",
    "AsyncKafkaProducer",
    "AuthenticationError",
    "AuthorizationError",
    "BatchRejectedError",
    "BootstrapResolutionError",
    "BrokerError",
    "BufferExhaustedError",
    "BuildInfo",
    "BytesSerializer",
    "CancelledSend",
    "CloseTimeoutError",
    "ClusterMetadata",
    "ConfigError",
    "ConsumerGroupMetadata",
    "DeliveryTimeoutError",
    "DisconnectedError",
    "FatalProducerError",
    "FencedError",
    "FloatSerializer",
    "FlushResult",
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
    "MetadataSnapshot",
    "MetadataTimeoutError",
    "MetricSample",
    "NetworkError",
    "NoBrokersAvailableError",
    "Node",
    "NullSerializer",
    "OffsetAndMetadata",
    "Outcome",
    "PartitionInfo",
    "PartitionMetadata",
    "Partitioner",
    "PreparedTransaction",
    "ProducerClosedError",
    "ProducerConfig",
    "ProducerHealth",
    "ProducerRecord",
    "ProducerSettings",
    "PurgedError",
    "RecordMetadata",
    "RecordTooLargeError",
    "RemoteProtocolError",
    "RequestTimeoutError",
    "ResultTimeoutError",
    "RetriableError",
    "SchemaRegistryError",
    "SendFuture",
    "SendManyError",
    "SendManyResult",
    "SerializationError",
    "SslAuthenticationError",
    "StringSerializer",
    "TopicDescription",
    "TopicMetadata",
    "TopicPartition",
    "TransactionAbortedError",
    "UnsupportedVersionError",
    "UuidSerializer",
    "build_info",
]


def test_the_public_names_are_pinned_and_sorted() -> None:
    assert kproducer.__all__ == sorted(PUBLIC_NAMES)
    constants = [name for name in PUBLIC_NAMES if name.isupper()]
    classes = [name for name in PUBLIC_NAMES if not name.isupper()]
    assert constants + classes == sorted(constants) + sorted(classes)


def test_every_public_name_exists_and_says_what_it_is() -> None:
    for name in kproducer.__all__:
        value = getattr(kproducer, name)
        assert not inspect.isclass(value) or value.__doc__, name


def test_every_error_is_public_and_a_kafka_error() -> None:
    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, Exception) and not name.startswith("_"):
            assert name in kproducer.__all__
            assert issubclass(value, errors.KafkaError)


def test_the_parameters_of_the_public_methods_are_pinned() -> None:
    def parameters(method: object) -> list[str]:
        return [
            str(p).partition(":")[0].partition(" =")[0] for p in inspect.signature(method).parameters.values()
        ]  # type: ignore[arg-type]

    producer = kproducer.KafkaProducer
    assert parameters(producer.__init__) == ["self", "bootstrap_servers", "**settings"]
    assert parameters(producer.send) == [
        "self",
        "topic",
        "value",
        "key",
        "headers",
        "partition",
        "timestamp_ms",
        "on_delivery",
    ]
    assert parameters(producer.send_many) == [
        "self",
        "topic",
        "values",
        "keys",
        "headers",
        "partitions",
        "timestamps_ms",
    ]
    assert parameters(producer.send_arrow) == [
        "self",
        "topic",
        "data",
        "value",
        "key",
        "headers",
        "partition",
        "timestamp",
        "topic_column",
    ]
    assert parameters(producer.flush) == ["self", "timeout"]
    assert parameters(producer.close) == ["self", "timeout"]
    assert parameters(producer.partitions_for) == ["self", "topic"]
    assert kproducer.RecordMetadata._fields == (
        "topic",
        "partition",
        "offset",
        "timestamp_ms",
        "serialized_key_size",
        "serialized_value_size",
    )


def test_every_metric_is_documented() -> None:
    for group in METRICS.values():
        for name, (kind, meaning) in group.items():
            assert name.islower()
            assert kind == ("counter" if name.endswith("-total") else "gauge")
            assert meaning

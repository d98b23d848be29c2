"""kproducer: a Kafka producer for Python and PySpark. Public names only; some are imported on first use."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

# isort: off
from kproducer._core.runtime import threads  # noqa: F401  # first: it refuses unsupported interpreters
from kproducer._core.runtime import source_finder  # noqa: F401  # before every module that is also compiled

from kproducer.errors import *  # noqa: F403  # every class of this module is public
from kproducer.serializers import (
    BytesSerializer as BytesSerializer,
    FloatSerializer as FloatSerializer,
    IntegerSerializer as IntegerSerializer,
    JsonSerializer as JsonSerializer,
    NullSerializer as NullSerializer,
    StringSerializer as StringSerializer,
    UuidSerializer as UuidSerializer,
)
from kproducer.types import (
    VERSION as _VERSION,
    ClusterMetadata as ClusterMetadata,
    FlushResult as FlushResult,
    Node as Node,
    PartitionInfo as PartitionInfo,
    RecordMetadata as RecordMetadata,
    TopicDescription as TopicDescription,
    TopicPartition as TopicPartition,
)

if TYPE_CHECKING:
    from kproducer._core.accumulator.future_record_metadata import (
        FutureRecordMetadata as FutureRecordMetadata,
    )
    from kproducer._core.event_loop.loop_waiters import (
        CancelledSend as CancelledSend,
        SendFuture as SendFuture,
    )
    from kproducer._core.bulk.send_many_result import SendManyResult as SendManyResult
    from kproducer._core.client.metadata_snapshot import (
        MetadataSnapshot as MetadataSnapshot,
        PartitionMetadata as PartitionMetadata,
        TopicMetadata as TopicMetadata,
    )
    from kproducer._core.config.producer_config import ProducerConfig as ProducerConfig
    from kproducer._core.config.producer_settings import ProducerSettings as ProducerSettings
    from kproducer._core.engine.producer_health import ProducerHealth as ProducerHealth
    from kproducer._core.installation import BuildInfo as BuildInfo, build_info as build_info
    from kproducer._core.metrics.metric_sample import MetricSample as MetricSample
    from kproducer._core.metrics.metric_table import METRICS as METRICS
    from kproducer._core.sending.interceptors import ProducerRecord as ProducerRecord
    from kproducer._core.sending.partitioners import Partitioner as Partitioner
    from kproducer._core.transactions.transaction_arguments import (
        ConsumerGroupMetadata as ConsumerGroupMetadata,
        OffsetAndMetadata as OffsetAndMetadata,
        PreparedTransaction as PreparedTransaction,
    )
    from kproducer.aio.async_kafka_producer import AsyncKafkaProducer as AsyncKafkaProducer
    from kproducer.errors.broker_errors import UnsupportedVersionError as UnsupportedVersionError
    from kproducer.kafka_producer import KafkaProducer as KafkaProducer

__version__ = _VERSION

#: Imported on first use: the processes in which Spark plans and commits each write need settings
#: and errors only, those in which it finds the format not even these, and they start much sooner
#: without the rest.
_LATER = {
    "FutureRecordMetadata": "_core.accumulator.future_record_metadata",
    "CancelledSend": "_core.event_loop.loop_waiters",
    "SendFuture": "_core.event_loop.loop_waiters",
    "SendManyResult": "_core.bulk.send_many_result",
    "MetadataSnapshot": "_core.client.metadata_snapshot",
    "PartitionMetadata": "_core.client.metadata_snapshot",
    "TopicMetadata": "_core.client.metadata_snapshot",
    "ProducerConfig": "_core.config.producer_config",
    "ProducerSettings": "_core.config.producer_config",
    "ProducerHealth": "_core.engine.producer_health",
    "BuildInfo": "_core.installation",
    "build_info": "_core.installation",
    "MetricSample": "_core.metrics.metric_sample",
    "METRICS": "_core.metrics.metric_table",
    "ProducerRecord": "_core.sending.interceptors",
    "Partitioner": "_core.sending.partitioners",
    "ConsumerGroupMetadata": "_core.transactions.transaction_arguments",
    "OffsetAndMetadata": "_core.transactions.transaction_arguments",
    "PreparedTransaction": "_core.transactions.transaction_arguments",
    "AsyncKafkaProducer": "aio.async_kafka_producer",
    "UnsupportedVersionError": "errors.broker_errors",
    "KafkaProducer": "kafka_producer",
}

if not TYPE_CHECKING:
    # Type checkers read the imports above: "import X as X" makes X public. A __getattr__ that they could see
    # would tell them that every name exists.
    __all__ = sorted([*(name for name, value in globals().items() if isinstance(value, type)), *_LATER])

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            from kproducer.errors.suggestions import no_such_name

            raise no_such_name(__name__, name, sys._getframe().f_back)
        value = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})

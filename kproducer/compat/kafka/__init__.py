"""A ``KafkaProducer`` with the interface of kafka-python's, over kproducer's engine.

``from kproducer.compat.kafka import KafkaProducer`` instead of ``from kafka import KafkaProducer``;
docs/migration/kafka-python.md lists every difference. If kafka-python is installed, the errors are its own
classes, so that ``except kafka.errors.KafkaError`` catches them.
"""

from __future__ import annotations

from kproducer._core.transactions.transaction_arguments import (
    ConsumerGroupMetadata as ConsumerGroupMetadata,
)
from kproducer._core.transactions.transaction_arguments import (
    OffsetAndMetadata as OffsetAndMetadata,
)
from kproducer.compat.kafka.producer import KafkaProducer as KafkaProducer
from kproducer.compat.kafka.record_future import (
    FutureRecordMetadata as FutureRecordMetadata,
)
from kproducer.compat.kafka.record_future import RecordMetadata as RecordMetadata
from kproducer.types import TopicPartition as TopicPartition

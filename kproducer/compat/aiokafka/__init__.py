"""``AIOKafkaProducer`` with the interface of aiokafka 0.14. See docs/migration/aiokafka.md."""

from __future__ import annotations

from kproducer._core.transactions.transaction_arguments import OffsetAndMetadata as OffsetAndMetadata
from kproducer.compat.aiokafka.aiokafka_producer import AIOKafkaProducer as AIOKafkaProducer
from kproducer.compat.aiokafka.record_metadata import RecordMetadata as RecordMetadata
from kproducer.types import TopicPartition as TopicPartition

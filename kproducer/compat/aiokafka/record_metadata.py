"""RecordMetadata with the fields of aiokafka's."""

from __future__ import annotations

from typing import NamedTuple

from kproducer.types import TopicPartition


class RecordMetadata(NamedTuple):
    """Where a record was written.

    Attributes:
        topic, partition, topic_partition: its partition.
        offset: in the partition.
        timestamp: milliseconds since the epoch.
        timestamp_type: 0: the time of the send; 1: that of the append.
        log_start_offset: ``None``: not known. aiokafka has it if the broker is not very old.
    """

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    timestamp: int
    timestamp_type: int
    log_start_offset: int | None = None

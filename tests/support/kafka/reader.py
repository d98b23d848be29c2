"""Read a topic with an independent client: confluent-kafka's consumer with CRC checks."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from tests.support.kafka.topics import describe

DEFAULT_TIMEOUT_SECONDS = 60.0
_BATCH_RECORDS = 5000


class ReadRecord(NamedTuple):
    """One record as returned by the consumer. ``headers`` is empty if there are none."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    is_log_append_time: bool
    timestamp_ms: int


def read_topic(
    bootstrap_servers: str,
    topic: str,
    *,
    next_offsets: Mapping[int, int] | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> list[ReadRecord]:
    """All records of a topic, sorted by partition and offset. See ``iterate_topic``."""
    records = iterate_topic(
        bootstrap_servers, topic, next_offsets=next_offsets, timeout_seconds=timeout_seconds
    )
    return sorted(records, key=lambda record: (record.partition, record.offset))


def iterate_topic(
    bootstrap_servers: str,
    topic: str,
    *,
    partitions: Sequence[int] | None = None,
    start_offsets: Mapping[int, int] | None = None,
    next_offsets: Mapping[int, int] | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    isolation_level: str = "read_committed",
) -> Iterator[ReadRecord]:
    """Yield every record from the log start (or ``start_offsets``) to the end of all (or these) partitions.

    ``next_offsets`` (partition -> offset) keeps a partition open until its end reaches that offset: after a
    leader change, the high watermark may lag behind acknowledged offsets.
    In order within a partition.

    Raises:
        TimeoutError: the end was not reached in time.
        KafkaException: the consumer reported an error.
    """
    deadline = time.monotonic() + timeout_seconds
    chosen = partitions_of(bootstrap_servers, topic, deadline) if partitions is None else partitions
    positions = {partition: (start_offsets or {}).get(partition, 0) for partition in chosen}
    for message in iterate_messages(
        bootstrap_servers,
        topic,
        positions,
        next_offsets=next_offsets,
        deadline=deadline,
        isolation_level=isolation_level,
    ):
        yield _as_record(message)


def partition_values(
    bootstrap_servers: str,
    topic: str,
    partition: int,
    end: int,
    timeout_seconds: float,
    isolation_level: str = "read_committed",
) -> Iterator[tuple[int, bytes]]:
    """Yield offset and value of each record of a partition, which is read at least up to offset ``end``."""
    for record in iterate_topic(
        bootstrap_servers,
        topic,
        partitions=[partition],
        next_offsets={partition: end},
        timeout_seconds=timeout_seconds,
        isolation_level=isolation_level,
    ):
        assert record.value is not None
        yield record.offset, record.value


def first_messages(
    bootstrap_servers: str, topic: str, count: int, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
) -> list[Message]:
    """The first messages of a topic, or those that there are when the time is over."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "reader", "auto.offset.reset": "earliest"}
    )
    partitions = consumer.list_topics(topic).topics[topic].partitions
    consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
    found: list[Message] = []
    deadline = time.monotonic() + timeout_seconds
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            found.append(message)
    consumer.close()
    return found


def iterate_messages(
    bootstrap_servers: str,
    topic: str,
    positions: dict[int, int],
    *,
    next_offsets: Mapping[int, int] | None = None,
    deadline: float,
    isolation_level: str = "read_committed",
) -> Iterator[Message]:
    """Like ``iterate_topic``, but faster: yields confluent-kafka's messages.

    ``positions`` has the next offset of each partition that is read, and is updated.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
            "isolation.level": isolation_level,
            "fetch.wait.max.ms": 20,
            "fetch.error.backoff.ms": 50,
            "fetch.queue.backoff.ms": 10,  # else it waits for a second when 64 MB are queued
            "queued.max.messages.kbytes": 65536,
            "log_level": 0,
        }
    )
    try:
        yield from _messages(consumer, topic, positions, next_offsets or {}, deadline)
    finally:
        consumer.close()


def partitions_of(bootstrap_servers: str, topic: str, deadline: float) -> list[int]:
    """The topic's partitions, sorted."""
    while (found := describe(bootstrap_servers, topic)).error is not None:
        # Not every broker knows a topic that was just created.
        if time.monotonic() > deadline or not found.error.retriable():
            raise KafkaException(found.error)
        time.sleep(0.05)
    return sorted(found.partitions)


def _messages(
    consumer: Consumer,
    topic: str,
    positions: dict[int, int],
    next_offsets: Mapping[int, int],
    deadline: float,
) -> Iterator[Message]:
    open_partitions = set(positions)
    consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in positions.items()])
    while open_partitions:
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"the end of {topic} was not reached in time; unfinished: {sorted(open_partitions)}"
            )
        for message in consumer.consume(_BATCH_RECORDS, timeout=0.2):
            error = message.error()
            partition = message.partition()
            if error is None:
                positions[partition] = message.offset() + 1
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                positions[partition] = max(positions[partition], message.offset())
                if positions[partition] >= next_offsets.get(partition, 0):
                    open_partitions.discard(partition)
            elif not error.retriable() and error.code() >= 0:
                raise KafkaException(error)


def _as_record(message) -> ReadRecord:  # type: ignore[no-untyped-def]
    timestamp_type, timestamp_ms = message.timestamp()
    return ReadRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
        timestamp_type == TIMESTAMP_LOG_APPEND_TIME,
        timestamp_ms,
    )

"""What an independent consumer (confluent-kafka) sees of transactions after all of them have ended."""

from __future__ import annotations

import time
from collections.abc import Iterable

from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.support.kafka.reader import read_topic

TIMEOUT_SECONDS = 60.0


def await_no_open_transaction(
    bootstrap_servers: str, topic: str, partitions: Iterable[int], timeout_seconds: float = TIMEOUT_SECONDS
) -> dict[int, int]:
    """Wait until ``read_committed`` consumers can read to the end. Returns the end offsets by partition.

    EndTxn is answered before the markers are written, so a consumer that reads at once may stop earlier.

    Raises:
        TimeoutError: a transaction stayed open.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in partitions}
    deadline = time.monotonic() + timeout_seconds
    stable: dict[int, int] = {}
    ends: dict[int, int] = {}
    while time.monotonic() < deadline:
        try:
            stable = _offsets(admin, asked, IsolationLevel.READ_COMMITTED)
            ends = _offsets(admin, asked, IsolationLevel.READ_UNCOMMITTED)
        except KafkaException:
            continue
        if stable == ends:
            return ends
        time.sleep(0.01)
    raise TimeoutError(
        f"a transaction of {topic} stays open: last stable offsets {stable}, end offsets {ends}"
    )


def _offsets(
    admin: AdminClient, asked: dict[TopicPartition, OffsetSpec], isolation: IsolationLevel
) -> dict[int, int]:
    answers = admin.list_offsets(asked, isolation_level=isolation, request_timeout=10)
    return {place.partition: answer.result(TIMEOUT_SECONDS).offset for place, answer in answers.items()}


def read_committed(bootstrap_servers: str, topic: str, partition_count: int = 1) -> list[list[bytes | None]]:
    """Values of the committed records of each partition, in order; waits until no transaction is open."""
    ends = await_no_open_transaction(bootstrap_servers, topic, range(partition_count))
    seen: list[list[bytes | None]] = [[] for _ in range(partition_count)]
    for record in read_topic(bootstrap_servers, topic, next_offsets=ends):
        seen[record.partition].append(record.value)
    return seen


def committed_offset(bootstrap_servers: str, group: str, topic: str, partition: int = 0) -> int | None:
    """The committed offset of a group, without pending transactions; None: it has none."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group, "log_level": 0})
    deadline = time.monotonic() + TIMEOUT_SECONDS
    try:
        while True:
            try:
                (place,) = consumer.committed([TopicPartition(topic, partition)], timeout=TIMEOUT_SECONDS)
                return place.offset if place.offset >= 0 else None
            except KafkaException:
                # The group's coordinator may be moving or still loading the group.
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.05)
    finally:
        consumer.close()

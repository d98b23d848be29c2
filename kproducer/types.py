"""Plain values that every layer may name: records, partitions, nodes, results.

Tuples are used where an object is a dictionary key or is made once per record: a named tuple is
built and hashed in C.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kproducer.errors import printable

#: The largest ``int32`` and ``int64`` of Kafka's protocol.
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

NO_OFFSET = -1
NO_TIMESTAMP = -1
UNKNOWN_LEADER = -1
#: Leaves the choice of the partition to the accumulator's sticky partitioner.
UNKNOWN_PARTITION = -1

#: Headers as the wire knows them: a sequence of (name, value); the same name may come twice.
Headers = Sequence[tuple[str, "bytes | None"]]


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Node(NamedTuple):
    """A broker. Bootstrap servers, whose real id is not known yet, have negative ids."""

    id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{printable(self.host)}:{self.port} (id {self.id})"


class PartitionInfo(NamedTuple):
    """What is known of a partition.

    Attributes:
        topic: topic name.
        partition: partition number.
        leader: the broker that takes its records; ``None`` when there is none at present.
        replicas: ids of the brokers that hold it.
        in_sync_replicas: ids of those that are up to date.
        offline_replicas: ids of those that are down.
    """

    topic: str
    partition: int
    leader: Node | None
    replicas: tuple[int, ...] = ()
    in_sync_replicas: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()


class RecordMetadata(NamedTuple):
    """Where a record ended up.

    Attributes:
        topic: topic name.
        partition: partition number.
        offset: offset in the partition's log; -1 when it is not known (``acks=0``, or a failure).
        timestamp_ms: milliseconds since the epoch: the record's own (CreateTime), or the broker's
            (LogAppendTime topics).
        serialized_key_size: bytes; -1 for a null key.
        serialized_value_size: bytes; -1 for a null value.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    serialized_key_size: int
    serialized_value_size: int

"""Plain values that every layer uses: partitions, brokers, metadata of records, and limits of the protocol.

Dictionary keys and objects that are created per record are named tuples, which C code creates and hashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kproducer.errors import KafkaError, printable

#: The version of the distribution. Reading it from the installed metadata would take 20 ms at each start.
VERSION: Final = "0.1.0"

#: The largest ``int32`` and ``int64`` of Kafka's protocol.
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

NO_OFFSET = -1
NO_TIMESTAMP = -1
UNKNOWN_LEADER = -1
#: The accumulator's sticky partitioner chooses the partition.
UNKNOWN_PARTITION = -1

#: Headers of a record: (name, value) pairs; names may repeat.
Headers = Sequence[tuple[str, "bytes | None"]]


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Node(NamedTuple):
    """A broker. Bootstrap servers, whose id is not known yet, have negative ids."""

    id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{printable(self.host)}:{self.port} (id {self.id})"


class PartitionInfo(NamedTuple):
    """The metadata of a partition.

    Attributes:
        topic: topic name.
        partition: partition number.
        leader: the broker that accepts its records; ``None`` if there is no leader at present.
        replicas: ids of the brokers with a replica.
        in_sync_replicas: ids of the brokers whose replica is in sync.
        offline_replicas: ids of the brokers whose replica is offline.
        error: why the partition is not available, as the broker says; only in ``ClusterMetadata``.
    """

    topic: str
    partition: int
    leader: Node | None
    replicas: tuple[int, ...] = ()
    in_sync_replicas: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()
    error: KafkaError | None = None


class TopicDescription(NamedTuple):
    """The metadata of a topic.

    Attributes:
        topic: topic name.
        partitions: by number.
        error: why the topic has no metadata: it does not exist, or this user may not see it.
        is_internal: whether Kafka itself uses it, as ``__consumer_offsets``.
    """

    topic: str
    partitions: tuple[PartitionInfo, ...] = ()
    error: KafkaError | None = None
    is_internal: bool = False


class ClusterMetadata(NamedTuple):
    """What one broker knows of the cluster.

    Attributes:
        cluster_id: ``None`` if the broker does not say.
        controller_id: the id of the broker that takes administrative requests; ``None`` if there is none.
        brokers: by id.
        topics: by name.
        answered_by: the broker that was asked. Its id is -1 if ``bootstrap_servers`` has another address of
            it than ``brokers``.
    """

    cluster_id: str | None
    controller_id: int | None
    brokers: dict[int, Node]
    topics: dict[str, TopicDescription]
    answered_by: Node


class FlushResult(NamedTuple):
    """The records that a ``flush`` waited for. It has no truth value: look at ``failed``.

    Attributes:
        delivered: how many are acknowledged.
        failed: how many have failed; their futures have the errors.
    """

    delivered: int
    failed: int

    def __bool__(self) -> bool:
        # In confluent-kafka a true result means that records are left, elsewhere it would mean success.
        raise TypeError("a FlushResult is neither true nor false: use flush().failed or flush().delivered")


class RecordMetadata(NamedTuple):
    """The position of a record that was delivered.

    Attributes:
        topic: topic name.
        partition: partition number.
        offset: offset in the partition's log; -1 if unknown (``acks=0``, or a failed delivery).
        timestamp_ms: milliseconds since the epoch: the record's timestamp, or the broker's if the topic uses
            LogAppendTime.
        serialized_key_size: bytes; -1 for a null key.
        serialized_value_size: bytes; -1 for a null value.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    serialized_key_size: int
    serialized_value_size: int


if not TYPE_CHECKING:  # with it, type checkers would accept any field

    def _no_such_field(metadata, name):
        from kproducer.errors.suggestions import METADATA_FIELDS, no_such_attribute  # only needed here

        raise no_such_attribute(metadata, name, METADATA_FIELDS)

    RecordMetadata.__getattr__ = _no_such_field

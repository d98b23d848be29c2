"""The state of the fake cluster: brokers, topics, partitions and their logs.

Plain data without I/O, guarded by the cluster's lock. Limits and defaults are those of Apache Kafka's
topic configuration (``max.message.bytes``, ``message.timestamp.type``, ...).
"""

from __future__ import annotations

import re
import uuid

import attrs
from kproducer_messages import ZERO_UUID

from kproducer.testing.fakebroker.batch_check import RecordBatch, StoredRecord
from kproducer.testing.fakebroker.producer_state import Marker, ProducerStates

#: Default ``max.message.bytes`` of Apache Kafka: 1 MiB plus the batch overhead of log format 0.
DEFAULT_MAX_MESSAGE_BYTES = 1024 * 1024 + 12
_LEGAL_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@attrs.define(eq=False)
class BrokerState:
    """What requests see of a broker; change it through ``FakeCluster`` or under its lock.

    Attributes:
        versions: API key to (oldest, newest) version offered and accepted.
        advertised: (host, port) in Metadata responses; wrong if it differs from the real address.
        listed_when_down: Metadata still lists this broker and its leaderships when it is down.
        leader_hints: NOT_LEADER_OR_FOLLOWER responses contain the current leader (KIP-951).
        refusal: the response to an unsupported ApiVersions version; see ``api_versions``.
        throttle_time_ms: sent in every response that has the field.
        max_request_bytes: ``socket.request.max.bytes``.
    """

    node_id: int
    versions: dict[int, tuple[int, int]]
    advertised: tuple[str, int]
    up: bool = False
    listed_when_down: bool = False
    leader_hints: bool = True
    refusal: str = "range"
    throttle_time_ms: int = 0
    max_request_bytes: int = 100 * 1024 * 1024


@attrs.define
class TopicOptions:
    """Topic settings that producers can observe.

    Attributes:
        max_message_bytes: maximum batch size, including the header.
        log_append_time: the broker replaces record timestamps by its own time.
        append_time_ms: that time (fixed, so that tests can compare it).
        min_insync_replicas: with fewer in-sync replicas, ``acks=-1`` is refused.
        compacted: records without a key are refused, with one error per record.
        timestamp_range_ms: (earliest, latest) accepted record timestamp; ``None``: no limit.
    """

    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    log_append_time: bool = False
    append_time_ms: int = 1_700_000_000_000
    min_insync_replicas: int = 1
    compacted: bool = False
    timestamp_range_ms: tuple[int, int] | None = None


@attrs.define
class Partition:
    """A partition: its leader, its followers and its log."""

    index: int
    leader_id: int
    leader_epoch: int
    replicas: list[int]
    in_sync: list[int]
    log_start_offset: int = 0
    next_offset: int = 0
    batches: list[RecordBatch] = attrs.field(factory=list)
    producers: ProducerStates = attrs.field(factory=ProducerStates)
    markers: list[Marker] = attrs.field(factory=list)

    @property
    def records(self) -> list[StoredRecord]:
        return [record for batch in self.batches for record in batch.records]

    @property
    def committed_records(self) -> list[StoredRecord]:
        """Records below the first open transaction, without those of aborted ones."""
        committed: list[StoredRecord] = []
        for batch in self.batches:
            if batch.is_transactional:
                end = next((m for m in self.markers if m.ends(batch.producer_id, batch.base_offset)), None)
                if end is None:
                    break
                if not end.is_commit:
                    continue
            committed.extend(batch.records)
        return committed


@attrs.define
class Topic:
    """A topic."""

    name: str
    topic_id: uuid.UUID
    partitions: list[Partition]
    options: TopicOptions


class Topics(dict[str, Topic]):
    """The topics of a cluster, by name."""

    def name_of(self, name: str, topic_id: uuid.UUID) -> str:
        """The name of a topic in a request, which has either name or id; ``""`` for an unknown id."""
        if topic_id == ZERO_UUID:
            return name
        return next((name for name, topic in self.items() if topic.topic_id == topic_id), "")

    def partition(self, name: str, index: int) -> Partition | None:
        topic = self.get(name)
        return topic.partitions[index] if topic and 0 <= index < len(topic.partitions) else None


def is_legal_topic_name(name: str) -> bool:
    """Kafka's rule: letters, digits, dot, underscore, dash; up to 249; neither "." nor ".."."""
    return _LEGAL_TOPIC_NAME.fullmatch(name) is not None and name not in (".", "..")

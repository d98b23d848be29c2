"""How long a call waits for a topic's metadata, and what it says when it waited in vain.

Caller threads only. Knows nothing of records. Source: Kafka's ``KafkaProducer.waitOnMetadata``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from kproducer.errors import InvalidArgumentError, MetadataTimeoutError
from kproducer.errors.broker_errors import InvalidTopicError
from kproducer.runtime.arguments import topic_mistake
from kproducer.runtime.clock import Clock

if TYPE_CHECKING:
    from kproducer.client.metadata import Metadata
    from kproducer.client.metadata_snapshot import MetadataSnapshot


class MetadataSource(Protocol):
    """The parts of a producer that are needed here."""

    @property
    def metadata(self) -> Metadata:
        """Where topics become known."""

    @property
    def clock(self) -> Clock:
        """The time."""

    def wakeup(self) -> None:
        """Let the I/O thread look at the metadata."""

    def last_errors(self) -> str:
        """What is going wrong with the brokers at present, in words; empty if nothing is known."""


def check_topic(topic: Any) -> None:
    """Refuse a topic name that Kafka does not accept.

    Raises:
        InvalidArgumentError: not a text, or empty.
        InvalidTopicError: a text that Kafka does not accept.
    """
    if not isinstance(topic, str) or not topic:
        raise InvalidArgumentError(f"topic must be a name, not {topic!r}")
    mistake = topic_mistake(topic)
    if mistake is not None:
        raise InvalidTopicError(mistake)


def await_topic(
    source: MetadataSource, topic: str, partition: int | None, max_block_ms: int, now_ms: int
) -> MetadataSnapshot:
    """Wait until a topic, and if given a partition of it, is known.

    Args:
        source: whose metadata.
        topic, partition: what has to be known.
        max_block_ms: how long to wait.
        now_ms: monotonic; the wait counts from here.

    Returns:
        A snapshot with the topic in it.

    Raises:
        InvalidArgumentError, InvalidTopicError: see ``check_topic``.
        MetadataTimeoutError: it did not become known; says what did, and what the brokers' last errors were.
        BrokerError: the cluster refuses the topic.
        ProducerClosedError: closed meanwhile.
    """
    check_topic(topic)
    metadata = source.metadata
    deadline_ms = now_ms + max_block_ms
    while True:
        metadata.add(topic, now_ms)
        snapshot = metadata.snapshot
        count = snapshot.partition_count(topic)
        if count and (partition is None or partition < count):
            return snapshot
        version = metadata.request_update_for_topic(topic, f"a caller waits for topic {topic}")
        source.wakeup()
        try:
            metadata.await_update(version, deadline_ms - now_ms)
        except MetadataTimeoutError:
            raise _timeout(source, topic, partition, max_block_ms) from None
        metadata.maybe_throw_topic_error(topic)
        now_ms = source.clock.monotonic_ms()


def _timeout(
    source: MetadataSource, topic: str, partition: int | None, max_block_ms: int
) -> MetadataTimeoutError:
    snapshot = source.metadata.snapshot
    count = snapshot.partition_count(topic)
    if count:
        what = f"topic {topic!r} has partitions 0 to {count - 1}, and partition {partition} did not appear"
    elif snapshot.is_bootstrap:
        what = f"no broker has told us about topic {topic!r}, or about anything else,"
    else:
        refusal = source.metadata.topic_error(topic)
        because = f" ({refusal})" if refusal is not None else ""
        what = f"topic {topic!r} is not known to the cluster{because}"
    causes = source.last_errors()
    trouble = f"; brokers: {causes}" if causes else ""
    return MetadataTimeoutError(f"{what} within max_block_ms={max_block_ms}{trouble}")

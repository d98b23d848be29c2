"""How long a call waits for a topic's metadata, and the error when the topic does not become known.

Caller threads only. Knows nothing of records. Source: Kafka's ``KafkaProducer.waitOnMetadata``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kproducer.client.snapshot_merger import UNKNOWN_TOPIC_OR_PARTITION_CODE
from kproducer.errors import InvalidArgumentError, MetadataTimeoutError
from kproducer.errors.broker_errors import InvalidTopicError
from kproducer.runtime.arguments import topic_mistake
from kproducer.runtime.guarded_logger import GuardedLogger

if TYPE_CHECKING:
    from kproducer.client.metadata_snapshot import MetadataSnapshot
    from kproducer.engine.producer_engine import ProducerEngine

_log = GuardedLogger(__name__)

#: Brokers from 3.x on that create a topic on request first respond that it does not exist.
_CREATION_MS = 1000


def await_topic(engine: ProducerEngine, topic: str, partition: int | None) -> MetadataSnapshot:
    """Wait until a topic, and if given a partition of it, is known, for at most ``max_block_ms``.

    Args:
        engine: whose metadata.
        topic, partition: what has to be known.

    Returns:
        A snapshot with the topic in it.

    Raises:
        InvalidArgumentError: the topic is not a text, or empty.
        InvalidTopicError: Kafka does not accept this name.
        MetadataTimeoutError: it did not become known; says what did, and what the brokers' last errors were.
        BrokerError: the cluster refuses the topic.
        ProducerClosedError: closed meanwhile.
    """
    if not isinstance(topic, str) or not topic:
        raise InvalidArgumentError(f"topic must be a non-empty str, not {topic!r}")
    mistake = topic_mistake(topic)
    if mistake is not None:
        raise InvalidTopicError(mistake)
    metadata = engine.metadata
    now_ms = engine.clock.monotonic_ms()
    metadata.add(topic, now_ms)
    snapshot = metadata.snapshot
    count = snapshot.partition_count(topic)
    if count and (partition is None or partition < count):
        return snapshot
    with engine.call_times.timing("metadata-wait-time-ns-total"):
        return _await(engine, topic, partition, now_ms)


def _await(engine: ProducerEngine, topic: str, partition: int | None, now_ms: int) -> MetadataSnapshot:
    metadata = engine.metadata
    deadline_ms = now_ms + engine.config.max_block_ms
    missing_since_ms: int | None = None
    while True:
        metadata.add(topic, now_ms)
        snapshot = metadata.snapshot
        count = snapshot.partition_count(topic)
        if count and (partition is None or partition < count):
            return snapshot
        version = metadata.request_update_for_topic(topic, f"a caller waits for topic {topic}")
        engine.sender.wakeup()
        try:
            metadata.await_update(version, deadline_ms - now_ms)
        except MetadataTimeoutError:
            raise _timeout(engine, topic, partition) from None
        metadata.maybe_throw_topic_error(topic)
        now_ms = engine.clock.monotonic_ms()
        error = metadata.topic_error(topic)
        if error is None or error.code != UNKNOWN_TOPIC_OR_PARTITION_CODE:
            missing_since_ms = None
            continue
        if missing_since_ms is None:
            missing_since_ms = now_ms
        if now_ms - missing_since_ms < _CREATION_MS:
            continue
        suffix = metadata.missing_topic_suffix(topic, now_ms)
        if suffix is not None:
            _log.warning(
                "Topic %r does not exist; waiting for it for up to max_block_ms=%d. Unless the brokers are"
                " creating it at this moment (auto.create.topics.enable), correct the name or create the"
                " topic%s",
                topic,
                engine.config.max_block_ms,
                suffix,
                extra={"client_id": engine.config.client_id, "topic": topic},
            )


def _timeout(engine: ProducerEngine, topic: str, partition: int | None) -> MetadataTimeoutError:
    snapshot = engine.metadata.snapshot
    count = snapshot.partition_count(topic)
    if count:
        what = f"topic {topic!r} has partitions 0 to {count - 1}, and partition {partition} did not appear"
    elif snapshot.is_bootstrap:
        what = f"no metadata received from any broker (topic {topic!r})"
    else:
        refusal = engine.metadata.topic_error(topic)
        because = f" ({refusal})" if refusal is not None else ""
        what = f"topic {topic!r} is not known to the cluster{because}"
    causes = engine.last_errors()
    brokers = f"; brokers: {causes}" if causes else ""
    return MetadataTimeoutError(f"{what} within max_block_ms={engine.config.max_block_ms}{brokers}")

"""How long a call waits for a topic's metadata, and the error when the topic does not become known.

Caller threads and event loops only. Knows nothing of records.
Source: Kafka's ``KafkaProducer.waitOnMetadata``.
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


class TopicWait:
    """One wait until a topic, and if given a partition of it, is known. The caller waits between the steps.

    Args:
        engine: whose metadata.
        topic, partition: what has to be known.

    Attributes:
        version: the metadata version that an update has to exceed, after ``known`` has returned ``None``.

    Raises:
        InvalidArgumentError: the topic is not a text, or empty.
        InvalidTopicError: Kafka does not accept this name.
    """

    def __init__(self, engine: ProducerEngine, topic: str, partition: int | None) -> None:
        if not isinstance(topic, str) or not topic:
            found = repr(topic) if isinstance(topic, (str, bytes, int, type(None))) else type(topic).__name__
            parts = "; pass its parts, topic first" if hasattr(topic, "topic") else ""
            raise InvalidArgumentError(f"topic must be a non-empty str, not {found}{parts}")
        mistake = topic_mistake(topic)
        if mistake is not None:
            raise InvalidTopicError(mistake)
        self._engine, self._topic, self._partition = engine, topic, partition
        self._now_ms = engine.clock.monotonic_ms()
        self._missing_since_ms: int | None = None
        self._deadline_ms = self._now_ms + engine.config.max_block_ms
        self.version = 0

    @property
    def left_ms(self) -> int:
        """What is left of ``max_block_ms``, at the last step."""
        return self._deadline_ms - self._now_ms

    def known(self) -> MetadataSnapshot | None:
        """A snapshot with the topic in it; ``None``: an update was requested."""
        engine, topic = self._engine, self._topic
        engine.metadata.add(topic, self._now_ms)
        snapshot = engine.metadata.snapshot
        count = snapshot.partition_count(topic)
        if count and (self._partition is None or self._partition < count):
            return snapshot
        self.version = engine.metadata.request_update_for_topic(topic, f"a caller waits for topic {topic}")
        engine.sender.wakeup()
        return None

    def check_update(self) -> None:
        """After an update.

        Raises:
            BrokerError: the cluster refuses the topic.
        """
        engine, topic = self._engine, self._topic
        engine.metadata.maybe_throw_topic_error(topic)
        self._now_ms = engine.clock.monotonic_ms()
        error = engine.metadata.topic_error(topic)
        if error is None or error.code != UNKNOWN_TOPIC_OR_PARTITION_CODE:
            self._missing_since_ms = None
            return
        if self._missing_since_ms is None:
            self._missing_since_ms = self._now_ms
        if self._now_ms - self._missing_since_ms < _CREATION_MS:
            return
        suffix = engine.metadata.missing_topic_suffix(topic, self._now_ms)
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

    def timeout_error(self) -> MetadataTimeoutError:
        """The error when ``max_block_ms`` has passed."""
        return timeout_error(self._engine, self._topic, self._partition)


def await_topic(engine: ProducerEngine, topic: str, partition: int | None) -> MetadataSnapshot:
    """Wait until a topic, and if given a partition of it, is known, for at most ``max_block_ms``.

    Args:
        engine: whose metadata.
        topic, partition: what has to be known.

    Returns:
        A snapshot with the topic in it.

    Raises:
        InvalidArgumentError, InvalidTopicError: as ``TopicWait``.
        MetadataTimeoutError: it did not become known; says what did, and what the brokers' last errors were.
            At once in a delivery callback, which would wait for its own thread.
        BrokerError: the cluster refuses the topic.
        ProducerClosedError: closed meanwhile.
    """
    wait = TopicWait(engine, topic, partition)
    snapshot = wait.known()
    if snapshot is not None:
        return snapshot
    if engine.is_io_thread:
        what = f"topic {topic!r}" if partition is None else f"partition {partition} of topic {topic!r}"
        raise MetadataTimeoutError(
            f"{what} is not known yet, and a delivery callback cannot wait, because metadata is received on"
            " its thread; send on another one"
        )
    with engine.call_times.timing("metadata-wait-time-ns-total"):
        while snapshot is None:
            try:
                engine.metadata.await_update(wait.version, wait.left_ms)
            except MetadataTimeoutError:
                raise wait.timeout_error() from None
            wait.check_update()
            snapshot = wait.known()
    return snapshot


def timeout_error(engine: ProducerEngine, topic: str, partition: int | None) -> MetadataTimeoutError:
    """What became known within ``max_block_ms``, and what did not."""
    snapshot = engine.metadata.snapshot
    count = snapshot.partition_count(topic)
    if count:
        what = f"topic {topic!r} has partitions 0 to {count - 1}, and partition {partition} did not appear"
    elif snapshot.is_bootstrap:
        what = f"no metadata received from any broker of bootstrap_servers (topic {topic!r})"
    else:
        refusal = engine.metadata.topic_error(topic)
        because = f" ({refusal})" if refusal is not None else ""
        what = f"topic {topic!r} is not known to the cluster{because}"
    causes = engine.last_errors()
    brokers = f"; brokers: {causes}" if causes else ""
    return MetadataTimeoutError(f"{what} within max_block_ms={engine.config.max_block_ms}{brokers}")

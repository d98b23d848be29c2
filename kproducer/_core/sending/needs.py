"""What a record may need before it can be accepted: its topic, the schema of a serializer, memory.

A need is a value that ``PendingSend.advance`` returns. Nothing begins before ``wait`` or ``subscribe`` is
called: a thread waits, an event loop subscribes and looks again when it is told to.
Source: Kafka's ``KafkaProducer.waitOnMetadata`` and ``BufferPool``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kproducer._core.accumulator.buffer_pool import BufferPool, Grant
from kproducer._core.client.metadata import Metadata
from kproducer._core.client.snapshot_merger import UNKNOWN_TOPIC_OR_PARTITION_CODE
from kproducer._core.config.producer_config import ProducerConfig
from kproducer._core.metrics.call_times import CallTimes
from kproducer._core.runtime.arguments import topic_mistake
from kproducer._core.runtime.clock import Clock
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer._core.runtime.thread_wakeup import ThreadWakeup
from kproducer.errors import (
    BrokerError,
    InvalidArgumentError,
    KafkaError,
    KafkaTimeoutError,
    MetadataTimeoutError,
)
from kproducer.errors.broker_errors import InvalidTopicError
from kproducer.serializers import Preparation

if TYPE_CHECKING:
    from kproducer._core.accumulator.record_accumulator import Append
    from kproducer._core.client.metadata_snapshot import MetadataSnapshot

_log = GuardedLogger(__name__)

#: Brokers from 3.x on that create a topic on request first respond that it does not exist.
_CREATION_MS = 1000


class Topics(NamedTuple):
    """What is known of topics, and what the waits for the rest need. Thread-safe.

    Attributes:
        config: has ``max_block_ms`` and the client id.
        metadata, clock: of the engine.
        wakeup: wakes the I/O thread.
        call_times: counts the time of waits.
        last_errors: why brokers do not answer, for error messages.
        may_wait: whether the calling thread may wait: not the one that receives metadata.
    """

    config: ProducerConfig
    metadata: Metadata
    clock: Clock
    wakeup: Callable[[], object]
    call_times: CallTimes
    last_errors: Callable[[], str]
    may_wait: Callable[[], bool]

    @property
    def snapshot(self) -> MetadataSnapshot:
        """What is known now."""
        return self.metadata.snapshot

    def await_brokers(self, timeout_ms: float) -> None:
        """Wait until a broker has answered.

        Raises:
            MetadataTimeoutError: none did within ``timeout_ms``.
            ProducerClosedError: closed meanwhile.
            KafkaError: the credentials were refused, or the brokers are too old.
        """
        BrokersNeed(self).wait(timeout_ms)

    def await_topic(self, topic: Any, partition: int | None) -> MetadataSnapshot:
        """Wait until a topic, and if given a partition of it, is known, for at most ``max_block_ms``.

        Returns:
            A snapshot with the topic in it.

        Raises:
            InvalidArgumentError, InvalidTopicError: as ``TopicNeed``.
            MetadataTimeoutError: it did not become known; says what did, and what the brokers' last errors
                were. At once in a delivery callback, which would wait for its own thread.
            BrokerError: the cluster refuses the topic.
            ProducerClosedError: closed meanwhile.
        """
        need = TopicNeed(self, topic, partition)
        while (snapshot := need.known()) is None:
            need.wait(self.config.max_block_ms)
        return snapshot


class Need:
    """Something that a record waits for. For one thread at a time, except what ``subscribe`` calls.

    Args:
        clock: measures the wait.
        may_wait: whether the calling thread may wait: not the one that ends the wait.
    """

    def __init__(self, clock: Clock, may_wait: Callable[[], bool]) -> None:
        self._clock = clock
        self._may_wait = may_wait

    def is_met(self) -> bool:
        """Whether the record can be advanced. Raises why it fails. Does not wait."""
        raise NotImplementedError

    def subscribe(self, changed: Callable[[], bool]) -> None:
        """Have ``changed()`` called when another look at ``is_met`` is worth it.

        Args:
            changed: called on any thread, with locks held. Must not raise or wait. Returns ``False`` if
                nobody will look any more.

        Raises:
            KafkaError: why the record fails.
        """
        raise NotImplementedError

    def cancel(self) -> None:
        """Wait no more: undo ``subscribe``. Idempotent."""
        raise NotImplementedError

    def timeout_error(self) -> KafkaError:
        """The error when ``max_block_ms`` has passed. Ends the wait."""
        raise NotImplementedError

    def wait(self, left_ms: float) -> None:
        """Wait until the record can be advanced.

        Raises:
            KafkaError: why the record fails; that of ``timeout_error`` after ``left_ms``.
        """
        woken = ThreadWakeup()
        deadline_ms = self._clock.monotonic_ms() + left_ms
        is_over = False
        try:
            self.subscribe(woken)
            while not self.is_met():
                if is_over:
                    raise self.timeout_error()
                left_s = max(deadline_ms - self._clock.monotonic_ms(), 0) / 1000
                is_over = not self._may_wait() or not woken.wait(left_s)
        finally:
            self.cancel()


class _MetadataNeed(Need):
    """Tells its subscriber of each update of the metadata, and of the close.

    Args:
        topics: of the engine.
    """

    _changed: Callable[[], bool] | None = None

    def __init__(self, topics: Topics) -> None:
        super().__init__(topics.clock, topics.may_wait)
        self._topics = topics
        self._metadata = topics.metadata

    def subscribe(self, changed: Callable[[], bool]) -> None:
        """See ``Need``."""
        self._changed = changed
        self._metadata.add_listener(changed)

    def cancel(self) -> None:
        """See ``Need``."""
        if self._changed is not None:
            self._metadata.remove_listener(self._changed)
            self._changed = None


class _UpdateNeed(_MetadataNeed):
    """Requests updates of the metadata until something is known."""

    #: An update has arrived when the metadata's version exceeds this one.
    _version = 0
    _fatal_count = 0

    def known(self) -> MetadataSnapshot | None:
        """A snapshot with what is needed in it; ``None``: it is not known."""
        raise NotImplementedError

    def subscribe(self, changed: Callable[[], bool]) -> None:
        """See ``Need``. Requests an update."""
        super().subscribe(changed)
        self._request_update()

    def is_met(self) -> bool:
        """See ``Need``. Requests another update after one without what is needed."""
        if self.known() is None and self._metadata.has_update(self._version, self._fatal_count):
            self._check_update()
            self._request_update()
        return self.known() is not None

    def _request_update(self) -> None:
        if self.known() is None:
            self._version = self._request()
            self._topics.wakeup()
            self._fatal_count = self._metadata.begin_wait()

    def _request(self) -> int:
        """Request an update. Returns the present version."""
        raise NotImplementedError

    def _check_update(self) -> None:
        """After an update. Raises why the next one will not help either."""


class BrokersNeed(_UpdateNeed):
    """A broker has to answer."""

    def known(self) -> MetadataSnapshot | None:
        """See ``_UpdateNeed``."""
        snapshot = self._metadata.snapshot
        return None if snapshot.is_bootstrap else snapshot

    def _request(self) -> int:
        return self._metadata.request_update("a caller waits for a broker")

    def timeout_error(self) -> MetadataTimeoutError:
        """See ``Need``."""
        return MetadataTimeoutError(f"no broker has answered in time: {self._topics.last_errors()}")


class TopicNeed(_UpdateNeed):
    """A topic, and if given a partition of it, has to become known.

    Args:
        topics: where.
        topic, partition: what. The topic is unchecked.

    Attributes:
        topic, partition: as given.

    Raises:
        InvalidArgumentError: the topic is not a text, or empty.
        InvalidTopicError: Kafka does not accept this name.
    """

    def __init__(self, topics: Topics, topic: Any, partition: int | None) -> None:
        if not isinstance(topic, str) or not topic:
            found = repr(topic) if isinstance(topic, (str, bytes, int, type(None))) else type(topic).__name__
            parts = "; pass its parts, topic first" if hasattr(topic, "topic") else ""
            raise InvalidArgumentError(f"topic must be a non-empty str, not {found}{parts}")
        mistake = topic_mistake(topic)
        if mistake is not None:
            raise InvalidTopicError(mistake)
        super().__init__(topics)
        self.topic: str = topic
        self.partition = partition
        self._missing_since_ms: int | None = None

    def known(self) -> MetadataSnapshot | None:
        """A snapshot with the topic in it; ``None``: it is not known, or the partition is not."""
        # Otherwise the metadata would forget the topic after a while.
        self._metadata.add(self.topic, self._clock.monotonic_ms())
        snapshot = self._metadata.snapshot
        count = snapshot.partition_count(self.topic)
        return snapshot if count and (self.partition is None or self.partition < count) else None

    @property
    def refusal(self) -> BrokerError | None:
        """What the brokers say of the topic; ``None``: nothing, or no error."""
        return self._metadata.topic_error(self.topic)

    def last_errors(self) -> str:
        """Why brokers do not answer; empty if they do."""
        return self._topics.last_errors()

    @property
    def is_only_partition(self) -> bool:
        """Whether the topic is known, and does not have the partition."""
        count = self._metadata.snapshot.partition_count(self.topic)
        return bool(count) and (self.partition or 0) >= (count or 0)

    def wait(self, left_ms: float) -> None:
        """See ``Need``."""
        with self._topics.call_times.timing("metadata-wait-time-ns-total"):
            super().wait(left_ms)

    def _request(self) -> int:
        return self._metadata.request_update_for_topic(self.topic, f"a caller waits for topic {self.topic}")

    def _check_update(self) -> None:
        """After an update. Raises BrokerError if the cluster refuses the topic."""
        topics, topic = self._topics, self.topic
        self._metadata.maybe_throw_topic_error(topic)
        now_ms = topics.clock.monotonic_ms()
        error = self.refusal
        if error is None or error.code != UNKNOWN_TOPIC_OR_PARTITION_CODE:
            self._missing_since_ms = None
            return
        if self._missing_since_ms is None:
            self._missing_since_ms = now_ms
        if now_ms - self._missing_since_ms < _CREATION_MS or topics.config.max_block_ms < _CREATION_MS:
            return  # or the caller, an adapter, has a limit of its own
        suffix = self._metadata.missing_topic_suffix(topic, now_ms)
        if suffix is not None:
            _log.warning(
                "Topic %r does not exist; waiting for it for up to max_block_ms=%d. Unless the brokers are"
                " creating it at this moment (auto.create.topics.enable), correct the name or create the"
                " topic%s",
                topic,
                topics.config.max_block_ms,
                suffix,
                extra={"client_id": topics.config.client_id, "topic": topic},
            )

    def timeout_error(self) -> MetadataTimeoutError:
        """What became known within ``max_block_ms``, and what did not."""
        topic, snapshot = self.topic, self._metadata.snapshot
        count = snapshot.partition_count(topic)
        if not self._may_wait():
            what = f"partition {self.partition} of " if self.partition is not None else ""
            return MetadataTimeoutError(
                f"{what}topic {topic!r} is not known yet, and a delivery callback cannot wait, because"
                " metadata is received on its thread; send on another one"
            )
        if count:
            what = (
                f"topic {topic!r} has partitions 0 to {count - 1}, and partition {self.partition} did not"
                " appear"
            )
        elif snapshot.is_bootstrap:
            what = f"no metadata received from any broker of bootstrap_servers (topic {topic!r})"
        else:
            refusal = self.refusal
            because = f" ({refusal})" if refusal is not None else ""
            what = f"topic {topic!r} is not known to the cluster{because}"
        causes = self.last_errors()
        brokers = f"; brokers: {causes}" if causes else ""
        return MetadataTimeoutError(f"{what} within max_block_ms={self._topics.config.max_block_ms}{brokers}")


class PreparationNeed(_MetadataNeed):
    """Serializers have to be prepared for a topic: otherwise they would block.

    A subscriber has ``prepare`` called on a thread. Met also when the producer is closed: then the record
    fails anyway.

    Args:
        topics: of the engine.
        topic: of the record.
        preparations: of the serializers.
        is_closed: whether the producer is closed.

    Attributes:
        topic: as given.
    """

    def __init__(
        self, topics: Topics, topic: str, preparations: list[Preparation], is_closed: Callable[[], bool]
    ) -> None:
        super().__init__(topics)
        self.topic = topic
        self._preparations = preparations
        self._is_closed = is_closed
        # Written by the thread that prepares, before it calls _changed.
        self._is_prepared = False
        self._error: Exception | None = None

    def prepare(self) -> None:
        """Prepare the serializers, and tell the subscriber. Blocks. Raises nothing."""
        try:
            for each in self._preparations:
                each.prepare(self.topic)
        except BaseException as error:
            # SystemExit and the like would end the thread of the record, and not only this one.
            self._error = error if isinstance(error, Exception) else KafkaError(repr(error))
        self._is_prepared = True
        changed = self._changed
        if changed is not None:
            changed()

    def is_met(self) -> bool:
        """See ``Need``."""
        if self._error is not None:
            raise self._error
        return self._is_prepared or self._is_closed()

    def wait(self, left_ms: float) -> None:
        """See ``Need``; but ``left_ms`` does not limit the serializers."""
        self.prepare()
        self.is_met()

    def timeout_error(self) -> KafkaError:
        """See ``Need``."""
        return KafkaTimeoutError(
            f"the serializer did not become ready for topic {self.topic!r} within"
            f" max_block_ms={self._topics.config.max_block_ms}"
        )


class MemoryNeed(Need):
    """A record needs the buffer of a new batch, and the pool has none to spare.

    Args:
        pool: hands out buffers.
        append: gets the buffer. A caller that gives up the record returns it (``RecordAccumulator.give_up``).
    """

    #: The place in the pool's queue, and what the pool has handed out, until ``append`` has it.
    _grant: Grant | None = None

    def __init__(self, pool: BufferPool, append: Append) -> None:
        super().__init__(pool.clock, pool.may_wait)
        self._pool = pool
        self._append = append

    def subscribe(self, changed: Callable[[], bool]) -> None:
        """See ``Need``. Raises ConfigError, ProducerClosedError."""
        self._grant = grant = Grant(self._append.first_bytes)
        self._pool.request(grant, changed)

    @property
    def is_subscribed(self) -> bool:
        """Whether the pool has been asked, and the buffer was not collected yet."""
        return self._grant is not None

    @property
    def is_ready(self) -> bool:
        """Whether the pool has granted the memory, or was closed."""
        return self._pool.is_closed or (self._grant is not None and self._grant.is_complete)

    def is_met(self) -> bool:
        """See ``Need``. Collects the buffer. Raises ProducerClosedError."""
        grant = self._grant
        if grant is not None and self.is_ready:
            self._pool.collect(grant)
            # Nothing is called here, so no interrupt comes between: the buffer has exactly one owner.
            self._append.buffer, grant.buffer, self._grant = grant.buffer, None, None
        return self._append.buffer is not None

    def cancel(self) -> None:
        """See ``Need``."""
        if self._grant is not None:
            self._pool.withdraw(self._grant)
            self._grant = None

    def timeout_error(self) -> KafkaError:
        """See ``Need``."""
        assert self._grant is not None
        return self._pool.withdraw_expired(self._grant)

"""GeneralPath: how a bulk call sends the rows that the kernel cannot write: one by one, through ``send``.

So a row in a bulk call means the same as a record that is sent alone. Decides which errors refuse one row,
and which end the call. For the calling thread.

How a full buffer ends a call: a record may wait for memory for ``max_block_ms``, as in ``send``. If that was
not enough, that record and all later ones are refused: otherwise a million records would wait one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs

from kproducer.accumulator.future_record_metadata import FutureRecordMetadata
from kproducer.errors import (
    AbortTransactionError,
    BrokerError,
    BufferExhaustedError,
    FatalProducerError,
    IllegalStateError,
    KafkaError,
    MetadataTimeoutError,
    Outcome,
    ProducerClosedError,
)
from kproducer.kernel import TopicSlots
from kproducer.sending.topic_wait import MetadataSource, await_topic
from kproducer.serializers import SerializeFunction

if TYPE_CHECKING:
    from kproducer.transactions.transaction_lifecycle import TransactionLifecycle

#: Errors after which every later record would fail too.
_ENDING_ERRORS = (
    BufferExhaustedError,
    ProducerClosedError,
    AbortTransactionError,
    FatalProducerError,
    IllegalStateError,
)

#: (topic, value, key, headers, partition, timestamp_ms) to the record's future.
SendFunction = Callable[[str, Any, Any, Any, Any, Any], FutureRecordMetadata]


@attrs.frozen
class BulkProducer:
    """The parts of a producer that bulk calls need.

    Attributes:
        send: ``KafkaProducer.send``.
        send_serialized: likewise, for keys and values that are serialized already.
        key_bytes, value_bytes: the serializers; ``None`` where none is configured.
        source: the running engine: its metadata and clock.
        fast_slots_of: the ``TopicSlots`` of a topic; ``None`` while its records have to take the general
            path.
        slots_of: likewise, made if there are none, and not closed by anything but the engine's end.
        transactions: ``None``: the producer is not transactional.
        max_block_ms: how long to wait for a topic.
        size_limit, size_setting: bytes that a record may have, and the setting that limits them.
        has_fast_path: the kernel may write records; ``False``: every record needs all of ``send``, because of
            interceptors, a partitioner of the application, or serializers that look at more than their datum.
        ignores_keys: keys do not choose partitions.
        may_change_topics: there are interceptors that may send records to other topics.
    """

    send: SendFunction
    send_serialized: SendFunction
    key_bytes: SerializeFunction | None
    value_bytes: SerializeFunction | None
    source: MetadataSource
    fast_slots_of: Callable[[str], TopicSlots | None]
    slots_of: Callable[[str], TopicSlots]
    transactions: TransactionLifecycle | None
    max_block_ms: int
    size_limit: int
    size_setting: str
    has_fast_path: bool
    ignores_keys: bool
    may_change_topics: bool

    def await_partition_count(self, topic: str, partition: int | None = None) -> int:
        """Wait until the topic, and the partition, are known; return the number of partitions.

        Raises:
            KafkaError: as ``send``.
        """
        source = self.source
        try:
            snapshot = await_topic(source, topic, partition, self.max_block_ms, source.clock.monotonic_ms())
        except KafkaError as error:
            if error.outcome is None:
                error.outcome = Outcome.NOT_SENT
            raise
        return self.known_partition_count(topic) or snapshot.partition_count(topic) or 0

    def known_partition_count(self, topic: str) -> int:
        """How many partitions are known now; 0: the topic is not known."""
        return self.source.metadata.snapshot.partition_count(topic) or 0

    def note_refusal(self, error: KafkaError) -> None:
        """A record was refused: a transaction must not be committed without it."""
        if self.transactions is not None:
            self.transactions.send_failed(error)


class GeneralPath:
    """The single records of one bulk call.

    Args:
        producer: sends.
        send: ``producer.send`` or ``producer.send_serialized``.
        topics_vary: records of one call may go to several topics.

    Attributes:
        ending: why no further record is accepted; ``None``: records are accepted.
    """

    __slots__ = ("_has_timed_out", "_producer", "_send", "_topics_vary", "ending")

    def __init__(self, producer: BulkProducer, send: SendFunction, *, topics_vary: bool) -> None:
        self._producer = producer
        self._send = send
        self._topics_vary = topics_vary
        self.ending: KafkaError | None = None
        #: A record has waited ``max_block_ms`` for metadata; the call does not do that again.
        self._has_timed_out = False

    def send(
        self, number: int, topic: str, value: Any, key: Any, headers: Any, partition: Any, timestamp_ms: Any
    ) -> FutureRecordMetadata | KafkaError:
        """Send one record. ``number``: its place in the call, named in errors.

        Returns:
            Its future, or why it was refused; also set as ``ending`` if later records would fail too.
        """
        if self._has_timed_out and self._is_missing(topic, partition):
            count = self._producer.known_partition_count(topic)
            return MetadataTimeoutError(
                f"topic {topic!r} has partitions 0 to {count - 1}, not partition {partition}; this call did"
                " not wait for it, because it has waited for metadata before"
            ).with_outcome(Outcome.NOT_SENT)
        try:
            return self._send(topic, value, key, headers, partition, timestamp_ms)
        except KafkaError as error:
            # Its frames would keep the rows alive.
            error.__traceback__ = None
            if self._ends_call(error, topic, partition):
                self.ending = error
            return error
        except MemoryError:
            raise
        except Exception as error:
            # Raised by a partitioner of the application, for example: it concerns this record.
            refusal = KafkaError(f"record {number} could not be sent: {error!r}").with_outcome(
                Outcome.NOT_SENT
            )
            refusal.__cause__ = error
            return refusal

    def _ends_call(self, error: KafkaError, topic: str, partition: Any) -> bool:
        """Whether later records would fail too, most of them after another wait."""
        if isinstance(error, MetadataTimeoutError):
            has_waited, self._has_timed_out = self._has_timed_out, True
            return has_waited or not (self._topics_vary or self._is_missing(topic, partition))
        # BrokerError: the topic was deleted, or may not be written to.
        return isinstance(error, _ENDING_ERRORS) or (isinstance(error, BrokerError) and not self._topics_vary)

    def _is_missing(self, topic: str, partition: Any) -> bool:
        """Whether the topic is known, and does not have this partition."""
        if not isinstance(partition, int) or self._producer.may_change_topics:
            return False
        return 0 < self._producer.known_partition_count(topic) <= partition

"""GeneralPath: how a bulk call sends the rows that the kernel cannot write: one by one, through ``send``.

So a row in a bulk call means the same as a record that is sent alone. Decides which errors refuse one row,
and which end the call. For the calling thread.

How a full buffer ends a call: a record may wait for memory for ``max_block_ms``, as in ``send``. If that was
not enough, that record and all later ones are refused: otherwise a million records would wait one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kproducer._core.accumulator.future_record_metadata import FutureRecordMetadata
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

if TYPE_CHECKING:
    from kproducer._core.bulk.bulk_context import BulkContext, SendFunction

#: Errors after which every later record would fail too.
_ENDING_ERRORS = (
    BufferExhaustedError,
    ProducerClosedError,
    AbortTransactionError,
    FatalProducerError,
    IllegalStateError,
)


class GeneralPath:
    """The single records of one bulk call.

    Args:
        producer: sends.
        send: ``producer.send`` or ``producer.send_serialized``.
        topics_vary: records of one call may go to several topics.

    Attributes:
        ending: why no further record is accepted; ``None``: records are accepted.
    """

    def __init__(self, producer: BulkContext, send: SendFunction, *, topics_vary: bool) -> None:
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
            self._producer.check_send()
            return self._send(topic, value, key, headers, partition, timestamp_ms)
        except KafkaError as error:
            if error.outcome is None:
                error.outcome = Outcome.NOT_SENT
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

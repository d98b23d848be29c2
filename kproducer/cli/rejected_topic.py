"""RejectedTopic: sends input that could not be written to another topic, with the reason in headers.

It has a producer of its own, because the other one may have serializers, may be closed, and may have no
memory left while a thread that reports its results sends dead letters.
"""

from __future__ import annotations

from collections.abc import Callable

from kproducer._core.bulk.dead_letters import CONTENT_ERRORS, REJECTED_CONTENT_ERRORS, DeadLetterCause
from kproducer._core.kernel import record_size_upper_bound
from kproducer.cli.rows import RowError
from kproducer.errors import KafkaError, Outcome
from kproducer.kafka_producer import KafkaProducer
from kproducer.types import UNKNOWN_PARTITION, RecordMetadata

_WRITER = "kproducer produce"
#: Room for what a record has besides value and headers.
_SPARE_BYTES = 64


class RejectedTopic:
    """Dead letters of one run. Thread-safe.

    Args:
        producer: without serializers; it is closed by ``close``.
        topic: of the dead letters.
        source: the topic for which the input was.
        partition: for which it was; ``None``: any.

    Attributes:
        topic: as given.
        written: how many dead letters were acknowledged so far.
    """

    def __init__(self, producer: KafkaProducer, topic: str, source: str, partition: int | None) -> None:
        self.topic, self.written = topic, 0
        self._producer, self._source = producer, source
        self._partition = UNKNOWN_PARTITION if partition is None else partition

    def takes(self, reason: object, outcome: Outcome) -> bool:
        """Whether the input itself is the cause.

        It is not of timeouts and missing permissions, nor of the error of a valid record that shared a batch
        with an invalid one. What may have been written is not taken.
        """
        if outcome is Outcome.NOT_SENT:
            return not isinstance(reason, KafkaError) or isinstance(reason, CONTENT_ERRORS)
        return outcome is Outcome.REJECTED and isinstance(reason, REJECTED_CONTENT_ERRORS)

    def send(
        self, file: str, line: int, original: bytes, reason: object, lost: Callable[[KafkaError], object]
    ) -> None:
        """Send the input as it is, or the beginning of it if a record cannot be that large.

        Args:
            file, line, original, reason: see ``Deliveries.report``.
            lost: called on any thread if the dead letter may not have been written.
        """
        error = reason if isinstance(reason, BaseException) else RowError(str(reason))
        cause = DeadLetterCause(error, str(error), self._source, self._partition)
        headers = cause.headers(_WRITER, -1, file=file, line=str(line))
        limit = self._producer.config.max_request_size
        room = max(limit - record_size_upper_bound(None, None, headers) - _SPARE_BYTES, 0)
        if len(original) > room:
            headers = cause.headers(_WRITER, -1, file=file, line=str(line), cut="value")
            original = original[: max(room - _SPARE_BYTES, 0)]

        def on_delivery(_metadata: RecordMetadata, error: KafkaError | None) -> None:
            if error is None:
                self.written += 1  # on the I/O thread only
            else:
                lost(error)

        try:
            self._producer.send(self.topic, original, headers=headers, on_delivery=on_delivery)
        except KafkaError as refusal:
            lost(refusal)

    def close(self, timeout: float | None = None) -> None:
        """Wait until all dead letters are written, or lost."""
        self._producer.close(timeout)

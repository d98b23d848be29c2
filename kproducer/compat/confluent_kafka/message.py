"""``Message``: what delivery callbacks get."""

from __future__ import annotations

from typing import Any, NamedTuple

from kproducer._core.accumulator.future_record_metadata import FutureRecordMetadata, metadata_of
from kproducer.errors import KafkaError as OwnError
from kproducer.types import NO_OFFSET, NO_TIMESTAMP, RecordMetadata

TIMESTAMP_NOT_AVAILABLE = 0
TIMESTAMP_CREATE_TIME = 1
TIMESTAMP_LOG_APPEND_TIME = 2


class Undelivered(NamedTuple):
    """A message that the engine did not get."""

    topic: str
    partition: int
    error: OwnError

    def exception(self) -> OwnError:
        return self.error


#: A record that has an outcome: a future that is done, or a record that the engine did not get.
Delivery = FutureRecordMetadata | Undelivered


class Message:
    """A produced message and its outcome. The accessors are methods, as in confluent-kafka.

    Created by the producer. It reads the position of the record when it is asked for it, because most
    callbacks look at the error only.
    """

    __slots__ = ("_delivery", "_error", "_headers", "_key", "_latency", "_metadata", "_topic", "_value")

    def __init__(self, delivery: Delivery, key: Any, value: Any, error: Any, latency: float) -> None:
        self._delivery = delivery
        self._key = key
        self._value = value
        self._error = error
        self._latency = latency
        self._metadata: RecordMetadata | None = None
        self._headers: Any = None
        self._topic: str | None = None

    def _record(self) -> RecordMetadata:
        if self._metadata is None:
            delivery = self._delivery
            self._metadata = (
                RecordMetadata(delivery.topic, delivery.partition, NO_OFFSET, NO_TIMESTAMP, -1, -1)
                if isinstance(delivery, Undelivered)
                else metadata_of(delivery)
            )
        return self._metadata

    def topic(self) -> str | None:
        """Topic name."""
        return self._record().topic if self._topic is None else self._topic

    def partition(self) -> int | None:
        """Partition number; ``None`` if none was chosen."""
        partition = self._record().partition
        return None if partition < 0 else partition

    def offset(self) -> int | None:
        """Offset; ``None`` if it is not known."""
        offset = self._record().offset
        return None if offset == NO_OFFSET else offset

    def key(self) -> Any:
        """Key as bytes; ``None`` if there is none."""
        return self._key.encode() if isinstance(self._key, str) else self._key

    def value(self) -> Any:
        """Value as bytes; ``None`` if there is none."""
        return self._value.encode() if isinstance(self._value, str) else self._value

    def headers(self) -> Any:
        """``None``, as in confluent-kafka's delivery callbacks, unless they were set."""
        return self._headers

    def error(self) -> Any:
        """``KafkaError``, or ``None`` if the message was delivered."""
        return self._error

    def cause(self) -> OwnError | None:
        """kproducer's own error, whose ``outcome`` says what is known. confluent-kafka does not have this."""
        return self._delivery.exception()

    def timestamp(self) -> tuple[int, int]:
        """(type, milliseconds since the epoch)."""
        if self._error is not None or isinstance(self._delivery, Undelivered):
            return TIMESTAMP_NOT_AVAILABLE, -1
        is_append_time = self._delivery.has_log_append_time
        kind = TIMESTAMP_LOG_APPEND_TIME if is_append_time else TIMESTAMP_CREATE_TIME
        return kind, self._record().timestamp_ms

    def latency(self) -> float | None:
        """Seconds from ``produce`` to the acknowledgement."""
        return self._latency

    def leader_epoch(self) -> int | None:
        """Always ``None``: Produce responses do not contain it."""
        return None

    def set_topic(self, value: Any) -> None:
        """Replace the topic."""
        self._topic = value

    def set_key(self, value: Any) -> None:
        """Replace the key."""
        self._key = value

    def set_value(self, value: Any) -> None:
        """Replace the value."""
        self._value = value

    def set_headers(self, value: Any) -> None:
        """Replace the headers."""
        self._headers = value

    def set_error(self, value: Any) -> None:
        """Replace the error."""
        self._error = value

    def __len__(self) -> int:
        value = self.value()
        return 0 if value is None else len(value)

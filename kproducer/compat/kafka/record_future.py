"""``FutureRecordMetadata`` and ``RecordMetadata`` of kafka-python, over kproducer's future."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NamedTuple

from kproducer import errors as own
from kproducer._core.runtime.guarded_logger import GuardedLogger
from kproducer.compat.kafka.errors import KafkaError, converted
from kproducer.types import TopicPartition

_log = GuardedLogger(__name__)


class RecordMetadata(NamedTuple):
    """The position of a record that was delivered; sizes in bytes, -1 where there is nothing."""

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    timestamp: int
    checksum: None
    serialized_key_size: int
    serialized_value_size: int
    serialized_header_size: int


class FutureRecordMetadata:
    """The outcome of one record, with kafka-python's methods.

    Callbacks run on the producer's I/O thread, or at once if the outcome is known; what they raise is logged.

    Args:
        future: kproducer's, which is also the attribute ``future``.
        headers_size: ``serialized_header_size`` of the record.
    """

    __slots__ = ("_headers_size", "future")

    def __init__(self, future: Future[Any], headers_size: int) -> None:
        self.future = future
        self._headers_size = headers_size

    @classmethod
    def failed_with(cls, error: own.KafkaError) -> FutureRecordMetadata:
        """A future that has failed already."""
        future: Future[Any] = Future()
        future.set_exception(error)
        return cls(future, -1)

    @property
    def is_done(self) -> bool:
        """Whether the outcome is known."""
        return self.future.done()

    def succeeded(self) -> bool:
        """Whether the record was delivered."""
        return self.future.done() and self.future.exception() is None

    def failed(self) -> bool:
        """Whether the record has failed."""
        return self.future.done() and self.future.exception() is not None

    def retriable(self) -> bool:
        """Whether it has failed with an error after which it may be sent again."""
        error = self.exception
        return bool(getattr(error, "retriable", False))

    @property
    def value(self) -> RecordMetadata | None:
        """The position of the record; ``None`` if it is not known, or if the record has failed."""
        return self._metadata() if self.succeeded() else None

    @property
    def exception(self) -> KafkaError | None:
        """Why the record has failed; ``None`` if it has not. kproducer's error is its ``__cause__``."""
        if not self.future.done():
            return None
        error = self.future.exception()
        return converted(error) if isinstance(error, own.KafkaError) else None

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the outcome.

        Args:
            timeout: seconds; ``None``: without limit.

        Raises:
            KafkaTimeoutError: not known in time.
            KafkaError: the record has failed.
        """
        try:
            self.future.result(timeout)
        except own.KafkaError as error:
            raise converted(error) from error
        return self._metadata()

    def add_callback(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> FutureRecordMetadata:
        """Call ``f(*args, metadata, **kwargs)`` when the record is delivered. Returns this future."""
        call = functools.partial(f, *args, **kwargs)

        def delivered(future: Future[Any]) -> None:
            if future.exception() is None:
                _logged(call, self._metadata())

        self.future.add_done_callback(delivered)
        return self

    def add_errback(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> FutureRecordMetadata:
        """Call ``f(*args, error, **kwargs)`` when the record fails. Returns this future."""
        call = functools.partial(f, *args, **kwargs)

        def failed(future: Future[Any]) -> None:
            error = future.exception()
            if isinstance(error, own.KafkaError):
                _logged(call, converted(error))

        self.future.add_done_callback(failed)
        return self

    def add_both(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> FutureRecordMetadata:
        """Call ``f`` with the metadata or the error. Returns this future."""
        return self.add_callback(f, *args, **kwargs).add_errback(f, *args, **kwargs)

    def chain(self, future: Any) -> FutureRecordMetadata:
        """Complete another future of kafka-python with this one. Returns this future."""
        return self.add_callback(future.success).add_errback(future.failure)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        # The future of ``failed_with`` is done already, and cannot be awaited.
        if not self.future.done():
            with suppress(own.KafkaError):
                yield from self.future.__await__()  # type: ignore[attr-defined]
        return self.get()

    def _metadata(self) -> RecordMetadata:
        found = self.future.result()
        return RecordMetadata(
            found.topic,
            found.partition,
            TopicPartition(found.topic, found.partition),
            found.offset,
            found.timestamp_ms,
            None,
            found.serialized_key_size,
            found.serialized_value_size,
            self._headers_size,
        )


def _logged(call: Callable[[Any], Any], argument: Any) -> None:
    try:
        call(argument)
    except Exception:
        _log.exception("A callback of a record's future raised")

"""From the outcome of a batch to those who sent its records: the reference of ``native/_completion.pyx``.

Only the usual is here: the batch's fate is known, it was not split, and the record was delivered. For
everything else the subclasses ask and wait (``producer/future_record_metadata.py``).
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any

from kproducer.errors import KafkaError
from kproducer.types import NO_OFFSET, NO_TIMESTAMP, RecordMetadata, TopicPartition

_OnDelivery = Callable[[RecordMetadata, "KafkaError | None"], object]


class BatchOutcome:
    """What became of a batch.

    Attributes:
        topic_partition: where the batch goes.
        done: values are set and every ``on_delivery`` has run.
        base_offset: offset of the first record; -1 unknown.
        log_append_time_ms: the broker's time; -1 when records keep their own.
        error: why the batch failed, ``None`` on success.
        parts: not ``None``: it was split, and the parts have outcomes of their own.
        _settled: values are set.
        _firing_thread_id: the thread that runs the ``on_delivery`` callbacks now; 0: none does.
        _record_errors: gives the error of each record of a batch that failed; ``None``: all have ``error``.
    """

    __slots__ = (
        "_firing_thread_id",
        "_record_errors",
        "_settled",
        "base_offset",
        "done",
        "error",
        "log_append_time_ms",
        "parts",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.done = False
        self.base_offset = NO_OFFSET
        self.log_append_time_ms = NO_TIMESTAMP
        self.error: KafkaError | None = None
        self.parts: tuple[list[int], list[Any]] | None = None
        self._settled = False
        self._firing_thread_id = 0
        self._record_errors: Callable[[int], KafkaError] | None = None

    def is_readable(self) -> bool:
        """Done, or settled and now running the delivery callbacks on the calling thread."""
        return self.done or (self._settled and self._firing_thread_id == threading.get_ident())

    def metadata_of(self, index: int, timestamp_ms: int, key_size: int, value_size: int) -> RecordMetadata:
        """The RecordMetadata of one record; the last three as sent."""
        topic, partition = self.topic_partition
        # A failed record has no offset; the time is the one it was sent with.
        offset = NO_OFFSET
        if self.error is None:
            if self.base_offset >= 0:
                offset = self.base_offset + index
            if self.log_append_time_ms != NO_TIMESTAMP:
                timestamp_ms = self.log_append_time_ms
        return RecordMetadata(topic, partition, offset, timestamp_ms, key_size, value_size)


class RecordFuture:
    """What is kept for each record: whose it is, which one it is there, and what its metadata needs.

    A subclass has ``_result_slowly``, ``_exception_slowly`` and ``_done_slowly`` for all that is unusual.

    Attributes:
        _owner: the result that the records of a batch share.
        _index: the record's place in the batch.
        _timestamp_ms: as sent.
        _key_size, _value_size: bytes; -1 for null.
    """

    __slots__ = ("_index", "_key_size", "_owner", "_timestamp_ms", "_value_size")

    def __init__(self, owner: Any, index: int, timestamp_ms: int, key_size: int, value_size: int) -> None:
        self._owner = owner
        self._index = index
        self._timestamp_ms = timestamp_ms
        self._key_size = key_size
        self._value_size = value_size

    def done(self) -> bool:
        """Whether the record's fate is known."""
        owner: BatchOutcome = self._owner
        return owner.is_readable() if owner.parts is None else self._done_slowly()

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the record's fate.

        Args:
            timeout: seconds; ``None`` waits for as long as ``delivery_timeout_ms`` lets it.

        Raises:
            KafkaError: the record was not delivered; ``error.outcome`` says what is known.
            TimeoutError: not known within ``timeout``; the record is still on its way.
            IllegalStateError: not known yet, and called without ``timeout`` on the I/O thread, as in a
                delivery callback: the thread that completes futures would wait for itself.
        """
        owner: BatchOutcome = self._owner
        if owner.error is None and owner.parts is None and owner.is_readable():
            return owner.metadata_of(self._index, self._timestamp_ms, self._key_size, self._value_size)
        return self._result_slowly(timeout)

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """Like ``result``, but return the error, a new object each time, or ``None`` on success."""
        owner: BatchOutcome = self._owner
        if owner.error is None and owner.parts is None and owner.is_readable():
            return None
        return self._exception_slowly(timeout)

    def _done_slowly(self) -> bool:
        raise NotImplementedError

    def _result_slowly(self, timeout: float | None) -> RecordMetadata:
        raise NotImplementedError

    def _exception_slowly(self, timeout: float | None) -> KafkaError | None:
        raise NotImplementedError


_future_type: type[Any] = RecordFuture


def set_future_type(future_type: type[RecordFuture]) -> None:
    """Say which subclass of ``RecordFuture`` the futures of records are. Once, when it is defined."""
    global _future_type
    if not issubclass(future_type, RecordFuture):
        raise TypeError(f"{future_type!r} is no RecordFuture")
    _future_type = future_type


def new_future(owner: Any, index: int, timestamp_ms: int, key_size: int, value_size: int) -> Any:
    """A FutureRecordMetadata."""
    return _future_type(owner, index, timestamp_ms, key_size, value_size)


class Deliveries:
    """The ``on_delivery`` callbacks of one batch, in order, with what the metadata of their records needs.

    Iterating gives (on_delivery, index of the record).
    """

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[_OnDelivery, int, int, int, int]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[tuple[_OnDelivery, int]]:
        return iter([(on_delivery, index) for on_delivery, index, *_ in self._entries])

    def add(
        self, on_delivery: _OnDelivery, index: int, timestamp_ms: int, key_size: int, value_size: int
    ) -> None:
        """``on_delivery`` wants to know about the record with this index in the batch."""
        self._entries.append((on_delivery, index, timestamp_ms, key_size, value_size))

    def split(self, first_indexes: list[int]) -> list[Deliveries]:
        """The callbacks of each part of a split batch; here they stay.

        Args:
            first_indexes: of each part, the index of its first record in this batch; the first one is 0.
        """
        parts = [Deliveries() for _ in first_indexes]
        for on_delivery, index, *rest in self._entries:
            place = bisect_right(first_indexes, index) - 1
            parts[place].add(on_delivery, index - first_indexes[place], *rest)
        return parts

    def run(
        self,
        outcome: BatchOutcome,
        error_of: Callable[[int], KafkaError | None],
        report: Callable[[], object],
    ) -> int:
        """Call each ``on_delivery(metadata, error)`` and forget it.

        Args:
            outcome: the batch's, settled.
            error_of: gives the error of the record with an index; asked only when ``outcome`` has one.
            report: called without arguments while the first exception of a callback is handled.

        Returns:
            How many callbacks raised.
        """
        entries, self._entries = self._entries, []
        raised = 0
        for on_delivery, index, timestamp_ms, key_size, value_size in entries:
            try:
                metadata = outcome.metadata_of(index, timestamp_ms, key_size, value_size)
                on_delivery(metadata, error_of(index) if outcome.error is not None else None)
            except BaseException:  # SystemExit and CancelledError too: the I/O thread serves everybody else
                raised += 1
                if raised == 1:
                    report()
        return raised

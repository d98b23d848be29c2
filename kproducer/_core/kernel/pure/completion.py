"""From the outcome of a batch to its records: the reference of ``native/_completion.pyx``.

The fast paths of a future's methods do nothing here: the general methods of ``FutureRecordMetadata`` handle
every case.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, TypeVar

import attrs

_Method = TypeVar("_Method", bound=Callable[..., Any])
_OnDelivery = Callable[[Any, Any], object]

_UNKNOWN = -1


@attrs.define(eq=False)
class BatchOutcome:
    """The outcome of a batch, as plain values.

    Args:
        topic_partition: where the batch goes: (topic, partition).
        metadata_type: the named tuple that ``metadata`` returns.

    Attributes:
        settled: the outcome is decided; the values below are final.
        firing_thread_id: the thread that runs the ``on_delivery`` callbacks now; 0: none does.
        done: settled, and every ``on_delivery`` has run.
        is_split: the batch was split; its parts have outcomes of their own.
        error: why the batch failed; ``None`` on success.
        base_offset: offset of the first record; -1: unknown.
        log_append_time_ms: the broker's time; -1: the records keep their own.
    """

    topic_partition: tuple[str, int]
    metadata_type: Any
    settled: bool = attrs.field(init=False, default=False)
    firing_thread_id: int = attrs.field(init=False, default=0)
    done: bool = attrs.field(init=False, default=False)
    is_split: bool = attrs.field(init=False, default=False)
    error: Any = attrs.field(init=False, default=None)
    base_offset: int = attrs.field(init=False, default=_UNKNOWN)
    log_append_time_ms: int = attrs.field(init=False, default=_UNKNOWN)

    def is_readable(self) -> bool:
        """Whether it is done, or settled while the calling thread runs the delivery callbacks."""
        return self.done or (self.settled and self.firing_thread_id == threading.get_ident())

    def metadata(self, index: int, timestamp_ms: int, key_size: int, value_size: int) -> Any:
        """The metadata of the record with this index in the batch; the other arguments are as sent."""
        topic, partition = self.topic_partition
        # A failed record has no offset, and the timestamp that it was sent with.
        offset = _UNKNOWN
        if self.error is None:
            if self.base_offset >= 0:
                offset = self.base_offset + index
            if self.log_append_time_ms != _UNKNOWN:
                timestamp_ms = self.log_append_time_ms
        return self.metadata_type(topic, partition, offset, timestamp_ms, key_size, value_size)


@attrs.define(eq=False, repr=False, weakref_slot=False)
class RecordFuture:
    """What is kept per record. The base of ``FutureRecordMetadata``, which has the methods.

    Attributes:
        _batch_result: the ``ProduceRequestResult`` that the records of a batch share.
        _outcome: its ``BatchOutcome``.
        _index: the record's index in the batch.
        _timestamp_ms: as sent.
        _key_size, _value_size: bytes; -1 for null.
    """

    _batch_result: Any
    _outcome: BatchOutcome
    _index: int
    _timestamp_ms: int
    _key_size: int
    _value_size: int


def fast_done(general: _Method) -> _Method:
    """The method itself: without compiled code there is no faster answer."""
    return general


fast_result = fast_exception = fast_done


class Deliveries:
    """The ``on_delivery`` callbacks of one batch, in order, with what the metadata of their records needs."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[_OnDelivery, int, int, int, int]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(
        self, on_delivery: _OnDelivery, index: int, timestamp_ms: int, key_size: int, value_size: int
    ) -> None:
        """Add the callback of the record with this index in the batch."""
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
        error_of: Callable[[int], Any],
        report: Callable[[], object],
    ) -> int:
        """Call each ``on_delivery(metadata, error)`` and forget it.

        Args:
            outcome: the batch's, settled.
            error_of: returns the error of the record with an index; called only if ``outcome`` has one.
            report: called without arguments while the first exception of a callback is handled.

        Returns:
            How many callbacks raised.
        """
        entries, self._entries = self._entries, []
        raised = 0
        for on_delivery, index, timestamp_ms, key_size, value_size in entries:
            try:
                metadata = outcome.metadata(index, timestamp_ms, key_size, value_size)
                on_delivery(metadata, error_of(index) if outcome.error is not None else None)
            except BaseException:  # SystemExit and CancelledError too: the I/O thread must go on
                raised += 1
                if raised == 1:
                    report()
        return raised

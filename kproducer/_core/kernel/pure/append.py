"""The values that an append to an open batch needs: the reference of ``native/_append.pyx``.

A topic's ``TopicSlots`` holds an ``AppendSlot`` for each partition, and that the ``RecordAppender`` of the
open batch, which encodes the record and makes its future. The compiled twin has a fast path over these
values, which takes no lock (see ``native/_append.pxd``). In plain Python there is none: the accumulator
appends every record under the partition's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from kproducer._core.kernel.pure.batch_v2 import BatchWriter
from kproducer._core.kernel.pure.completion import BatchOutcome, Deliveries
from kproducer.types import Headers

_new_object = object.__new__


class RecordAppender:
    """Appends records to one batch and makes their futures.

    Args:
        writer: the batch's.
        batch_result: the result that the futures refer to.
        outcome: the outcome of ``batch_result``.
        future_type: a subclass of ``RecordFuture``.

    Attributes:
        writer, batch_result, outcome, future_type: as given.
        deliveries: the callbacks of its records.
    """

    __slots__ = ("_append", "batch_result", "deliveries", "future_type", "outcome", "writer")

    def __init__(
        self, writer: BatchWriter, batch_result: Any, outcome: BatchOutcome, future_type: Any
    ) -> None:
        if not isinstance(writer, BatchWriter):
            raise TypeError(f"the writer must be a BatchWriter, not {type(writer).__name__}")
        self.writer = writer
        self.batch_result = batch_result
        self.outcome = outcome
        self.future_type = future_type
        self.deliveries = Deliveries()
        self._append = writer.append

    def append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
        on_delivery: Any,
    ) -> Any:
        """Encode one record. The caller has checked the arguments.

        Returns:
            The record's future; ``None``: there was no room, nothing has changed.
        """
        # A signal handler may raise after the record was written. So only the writer counts, or later records
        # would get the offsets of their predecessors.
        index = self.writer.record_count
        if not self._append(timestamp_ms, key, value, headers):
            return None
        key_size = -1 if key is None else len(key)
        value_size = -1 if value is None else len(value)
        # These are the steps of its constructor: calling a class from Python takes longer than the
        # assignments.
        future = _new_object(self.future_type)
        future._batch_result = self.batch_result
        future._outcome = self.outcome
        future._index = index
        future._timestamp_ms = timestamp_ms
        future._key_size = key_size
        future._value_size = value_size
        if on_delivery is not None:
            self.deliveries.add(on_delivery, index, timestamp_ms, key_size, value_size)
        return future

    def future_for_last_record(
        self, timestamp_ms: int, key_size: int, value_size: int, on_delivery: Any
    ) -> Any:
        """The future of the record that the caller has just appended to ``writer`` directly.

        The appender is in no slot meanwhile, so that record is still the last one.
        """
        index = self.writer.record_count - 1
        future = self.future_type(self.batch_result, self.outcome, index, timestamp_ms, key_size, value_size)
        if on_delivery is not None:
            self.deliveries.add(on_delivery, index, timestamp_ms, key_size, value_size)
        return future


@attrs.define(eq=False)
class AppendSlot:
    """Where compiled code finds the open batch of one partition. A plain value.

    Attributes:
        appender: of the open batch; ``None``: there is none, or compiled code must not append to it now.
        lock: the partition's; held by code that writes without the interpreter lock.
        part: compiled code only.
    """

    lock: Any
    appender: RecordAppender | None = attrs.field(init=False, default=None)
    part: Any = attrs.field(init=False, default=None)


@attrs.define(eq=False)
class StickyPartition:
    """The partition that the built-in partitioner sends records to at present. A plain value.

    Attributes:
        partition: its number.
        produced_bytes: appended since it was chosen, before compression.
        least_bytes: a batch that is closed before it is full is the last one from here on.
        switch_at_bytes: the next full batch from here on is the last one.
        force_switch_at_bytes: the limit, whether the batch is full or not.
        record_overhead_bytes: added to the size of each record's key and value.
    """

    partition: int
    least_bytes: int
    switch_at_bytes: int
    record_overhead_bytes: int
    produced_bytes: int = attrs.field(init=False, default=0)
    force_switch_at_bytes: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.force_switch_at_bytes = 2 * self.switch_at_bytes


@attrs.define(eq=False)
class TopicSlots:
    """The slots of one topic. A plain value.

    Attributes:
        slots: ``AppendSlot`` by partition number; ``None`` where nothing was sent yet.
        sticky: the present ``StickyPartition``; ``None`` before the first one.
        partition_count: as of the metadata that the I/O thread saw last; 0: not known.
        choose: makes another ``StickyPartition``; it returns ``None`` if it does not know the topic.
    """

    partition_count: int = attrs.field(init=False, default=0)
    slots: list[AppendSlot | None] = attrs.field(init=False, factory=list)
    sticky: StickyPartition | None = attrs.field(init=False, default=None)
    choose: Callable[[], StickyPartition | None] | None = attrs.field(init=False, default=None)

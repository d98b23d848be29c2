# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False, annotation_typing=False
"""RecordAppender, AppendSlot, TopicSlots: from a topic and a partition to the record in its open batch.

The compiled twin of ``pure/append.py``. ``_append.pxd`` explains why compiled appends need no lock.
"""

from __future__ import annotations

cimport cython

from kproducer._core.kernel.native._batch cimport BatchWriter, Record, fill_record
from kproducer._core.kernel.native._completion cimport BatchOutcome, Deliveries, RecordFuture, new_future

# -- one batch -------------------------------------------------------------------------------------------------

@cython.final
cdef class RecordAppender:
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

    def __cinit__(self, BatchWriter writer not None, batch_result, BatchOutcome outcome not None,
                  future_type not None):
        if not issubclass(future_type, RecordFuture):
            raise TypeError(f"future_type must be a subclass of RecordFuture, not {future_type!r}")
        self.writer = writer
        self.batch_result = batch_result
        self.outcome = outcome
        self.future_type = future_type
        self.deliveries = Deliveries()

    def append(self, timestamp_ms, key, value, headers, on_delivery):
        """Encode one record.

        Returns:
            The record's future; ``None``: there was no room, nothing has changed.

        Raises:
            TypeError, ValueError, OverflowError: as ``BatchWriter.append``.
        """
        cdef Record record
        cdef bytes tail = fill_record(&record, timestamp_ms, key, value, headers)
        cdef RecordFuture future = new_future(self.future_type)
        return future if self.append_record(&record, future, on_delivery) else None

    cdef int append_record(self, Record* record, RecordFuture future, object on_delivery) except -1:
        cdef BatchWriter writer = self.writer
        cdef long long index = writer.record_count
        if on_delivery is not None:
            # Before the record is written: it could not be taken back if this allocation failed.
            self.deliveries.reserve()
        if not writer.append_record(record):
            return 0
        if on_delivery is not None:
            self.deliveries.push(on_delivery, index, record.timestamp_ms, record.key_size, record.value_size)
        bind(future, self, <int>index, record.timestamp_ms, <int>record.key_size, <int>record.value_size)
        return 1

    def future_for_last_record(self, timestamp_ms, key_size, value_size, on_delivery):
        """The future of the record that the caller has just appended to ``writer`` directly.

        The appender is in no slot meanwhile, so that record is still the last one.
        """
        cdef RecordFuture future = new_future(self.future_type)
        bind(future, self, self.writer.record_count - 1, timestamp_ms, key_size, value_size)
        if on_delivery is not None:
            self.deliveries.add(on_delivery, future._index, timestamp_ms, key_size, value_size)
        return future


cdef inline void bind(RecordFuture future, RecordAppender appender, int index, long long timestamp_ms, int key_size,
                      int value_size) noexcept:
    """Make it the future of the record with this index in the appender's batch."""
    future._owner = appender.batch_result
    future._outcome = appender.outcome
    future._index = index
    future._timestamp_ms = timestamp_ms
    future._key_size = key_size
    future._value_size = value_size


# How many ids were given so far.
cdef long long _sender_ids = 0


cdef long long new_sender_id() noexcept:
    global _sender_ids
    _sender_ids += 1
    return _sender_ids


# -- one partition ---------------------------------------------------------------------------------------------

@cython.final
cdef class AppendSlot:
    """Where compiled code finds the open batch of one partition. A plain value.

    Attributes:
        appender: of the open batch; ``None``: there is none, or compiled code must not append to it now.
        lock: the partition's; held by code that writes without the interpreter lock.
        part: the ``FastPart`` that has the open batch instead, if the partition is armed (see ``plane.h``).
    """

    def __cinit__(self, lock):
        self.lock = lock


# -- one topic -------------------------------------------------------------------------------------------------

@cython.final
cdef class StickyPartition:
    """The partition that the built-in partitioner sends records to at present. A plain value.

    Attributes:
        partition: its number.
        produced_bytes: appended since it was chosen, before compression.
        least_bytes: a batch that is closed before it is full is the last one from here on.
        switch_at_bytes: the next full batch from here on is the last one.
        force_switch_at_bytes: the limit, whether the batch is full or not.
        record_overhead_bytes: added to the size of each record's key and value.
    """

    def __cinit__(self, Py_ssize_t partition, long long least_bytes, long long switch_at_bytes,
                  long long record_overhead_bytes):
        self.partition = partition
        self.least_bytes = least_bytes
        self.switch_at_bytes = switch_at_bytes
        self.force_switch_at_bytes = 2 * switch_at_bytes
        self.record_overhead_bytes = record_overhead_bytes


@cython.final
cdef class TopicSlots:
    """The slots of one topic. A plain value.

    Attributes:
        slots: ``AppendSlot`` by partition number; ``None`` where nothing was sent yet.
        sticky: the present ``StickyPartition``; ``None`` before the first one.
        partition_count: as of the metadata that the I/O thread saw last; 0: not known.
        choose: makes another ``StickyPartition``; it returns ``None`` if it does not know the topic.
    """

    def __cinit__(self):
        self.slots = []

# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False, annotation_typing=False
"""RowSender: writes the rows of ``send_many`` into open batches, without a Python object per row.

Does for each row what the compiled ``send`` does for one record; a row that is unusual in any way ends the run and is
left to the caller. Mirrors ``Admission.admit`` of ``sending/admission.py``, as ``FastSend`` does. The rule in
``_append.pxd`` holds here too; if the partition is armed, the lock of the data plane is held for a run of rows with the
same target. The pure twin leaves every row to the caller.
"""

from __future__ import annotations

cimport cython
from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from kproducer._core.kernel.native._append cimport (
    ANY_PARTITION,
    MOST_CHOICES,
    NO_PARTITION,
    AppendSlot,
    RecordAppender,
    StickyPartition,
    TopicSlots,
    ascii_or_bytes,
    count_record,
    fill_plain_record,
    meet,
    new_sender_id,
    next_choice,
    open_appender,
    partition_number,
    slot_of,
    timestamp_number,
)
from kproducer._core.kernel.native._batch cimport (
    KP_PREFETCH,
    BatchWriter,
    Record,
    partition_of_key,
    put_record,
    regular_headers,
)
from kproducer._core.kernel.native._completion cimport RecordFuture, new_future
from kproducer._core.kernel.native._lane cimport (
    APPENDED,
    ELSEWHERE,
    FastBatch,
    FastPart,
    Plane,
    append_alone,
    leave_open,
    take_open,
)

cdef enum:
    # How many rows ahead to prefetch: the objects of a long list can be anywhere in memory, and waiting for them would
    # cost as much as writing the record.
    PREFETCH_ROWS = 8
    CACHE_LINE_BYTES = 64
    # So many rows at most are written with the lock of an armed partition, for which the I/O thread may wait.
    MOST_LOCKED_ROWS = 64
    # Instead of a row: the sticky partition is another one now.
    CHOOSE_AGAIN = -2


@cython.final
cdef class RowSender:
    """Writes the plain rows of one ``send_many``. For the calling thread.

    Args:
        batch_results: the number of each batch's result; new ones are added.
        ignores_keys: keys do not choose partitions.
        small_size: bytes of key, value and headers of a row that cannot exceed any limit.
    """

    cdef dict _batch_results
    cdef bint _ignores_keys
    cdef Py_ssize_t _small_size
    cdef long long _id          # marks the appenders that this object has met, see _append.pxd
    # Of the current call.
    cdef TopicSlots _slots
    cdef list _values, _keys, _headers, _partitions, _timestamps_ms
    cdef Py_ssize_t _partition_count
    cdef long long _now_ms
    cdef int* _result_numbers
    cdef int* _indexes
    cdef long long* _sent_timestamps_ms
    cdef int* _key_sizes
    cdef int* _value_sizes
    cdef object _transaction
    # Of the armed partitions; None: there was none yet.
    cdef Plane _plane
    # What the current record points to.
    cdef object _value, _key
    cdef bytes _tail

    def __cinit__(self, dict batch_results not None, bint ignores_keys, Py_ssize_t small_size):
        self._batch_results = batch_results
        self._ignores_keys = ignores_keys
        self._small_size = small_size
        self._id = new_sender_id()

    def send(self, TopicSlots slots not None, tuple lists not None, Py_ssize_t start, long long now_ms, transaction,
             Py_ssize_t first_row, *columns):
        """Write rows in order, from ``start`` up to the first one that is not plain.

        Args:
            slots: the topic's.
            lists: values, keys, headers, partitions and timestamps, of one length; ``None`` where there are none,
                except for values. No other thread changes them.
            start: the first row.
            now_ms: the time of rows without one, since the epoch.
            transaction: to which the rows belong; ``None``: the producer has none.
            first_row: the number of ``values[0]`` in the columns.
            columns: arrays of result numbers, indexes, timestamps, key sizes and value sizes, to be filled.

        Returns:
            The row that has to be sent in another way; ``len(values)``: all were written.
        """
        cdef Py_buffer views[5]
        cdef int held = 0
        cdef object column
        cdef Py_ssize_t item_bytes
        cdef Py_ssize_t count
        self._values, self._keys, self._headers, self._partitions, self._timestamps_ms = lists
        count = len(self._values)
        for column in lists:
            if column is not None and len(column) != count:
                raise ValueError(f"columns of {count} and {len(column)} rows")
        if start < 0 or start > count or first_row < 0 or len(columns) != 5:
            raise ValueError(f"row {start} of {count}, to be noted in {len(columns)} columns from {first_row} on")
        try:
            for column in columns:
                # While the buffers are held, these arrays cannot be resized.
                PyObject_GetBuffer(column, &views[held], PyBUF_WRITABLE)
                held += 1
                item_bytes = sizeof(long long) if held == 3 else sizeof(int)
                if views[held - 1].len // item_bytes < first_row + count:
                    raise ValueError(f"a column of {views[held - 1].len} bytes for {first_row + count} rows")
            self._slots = slots
            self._partition_count = slots.partition_count
            self._now_ms = now_ms
            self._result_numbers = <int*>views[0].buf + first_row
            self._indexes = <int*>views[1].buf + first_row
            self._sent_timestamps_ms = <long long*>views[2].buf + first_row
            self._key_sizes = <int*>views[3].buf + first_row
            self._value_sizes = <int*>views[4].buf + first_row
            self._transaction = transaction
            return self.send_run(start, count) if self._partition_count > 0 else start
        finally:
            self._values = self._keys = self._headers = self._partitions = self._timestamps_ms = None
            self._value = self._key = self._tail = self._transaction = self._plane = self._slots = None
            while held:
                held -= 1
                PyBuffer_Release(&views[held])

    cdef Py_ssize_t send_run(self, Py_ssize_t row, Py_ssize_t count) except -1:
        cdef RecordAppender appender
        cdef StickyPartition sticky
        cdef AppendSlot slot
        cdef Record record
        cdef Py_ssize_t partition = ANY_PARTITION
        cdef Py_ssize_t following
        cdef long long index
        cdef int choices
        while row < count:
            if not self.fill(row, &record, &partition, False):
                return row
            choices = 0
            while True:
                # Releasing the last appender may run code of the application, so it is released before the slot is
                # read.
                sticky = None
                appender = None
                # From here on there must be nothing but the write: see _append.pxd.
                if partition == ANY_PARTITION:
                    sticky = self._slots.sticky
                    if sticky is None:
                        return row
                slot = slot_of(self._slots, partition if sticky is None else sticky.partition)
                if slot is not None and slot.part is not None:
                    following = self.send_to_lane(<FastPart?>slot.part, row, count, &record, partition, sticky)
                    if following == CHOOSE_AGAIN and choices < MOST_CHOICES:
                        choices += 1
                        continue
                    if following == CHOOSE_AGAIN or following == row:
                        return row
                    row = following
                    break
                appender = open_appender(slot, sticky)
                if appender is None or self.has_ended():
                    return row
                if appender.row_sender_id != self._id:
                    # This may run Python code, so the slot is read again afterwards.
                    meet(appender, self._id, self._batch_results)
                    continue
                index = appender.writer.record_count
                if not appender.writer.append_record(&record):
                    return row
                self.note(row, &record, index, appender.result_number)
                if sticky is not None:
                    count_record(sticky, record.key_size, record.value_size)
                row += 1
                break
        return row

    cdef inline bint has_ended(self) noexcept:
        """Whether the transaction has ended while this waited for an armed partition."""
        return self._plane is not None and self._plane.c.is_transactional and (
            self._plane.transaction is not self._transaction
        )

    cdef int fill(self, Py_ssize_t row, Record* record, Py_ssize_t* partition, bint in_place) except -1:
        """Point to the record of a row, and choose its partition.

        Args:
            in_place: make no object, and release none that may have a finalizer.

        Returns:
            0: the row is not plain, or needs objects.
        """
        cdef object value, key
        cdef bytes tail = None
        # No other thread must change the lists meanwhile. If one does, this check keeps reads within them.
        if not (has(self._values, row) and has(self._keys, row) and has(self._headers, row)
                and has(self._partitions, row) and has(self._timestamps_ms, row)):
            if in_place:
                return 0
            raise ValueError(f"a column lost its row {row} meanwhile")
        if has(self._values, row + PREFETCH_ROWS) and has(self._keys, row + PREFETCH_ROWS):
            prefetch(PyList_GET_ITEM(self._values, row + PREFETCH_ROWS))
            if self._keys is not None:
                prefetch(PyList_GET_ITEM(self._keys, row + PREFETCH_ROWS))
        value = <object>PyList_GET_ITEM(self._values, row)
        key = None if self._keys is None else <object>PyList_GET_ITEM(self._keys, row)
        if not in_place:
            self._value = value = ascii_or_bytes(value)
            self._key = key = ascii_or_bytes(key)
        if self._headers is not None and <object>PyList_GET_ITEM(self._headers, row) is not None:
            if in_place:
                return 0
            self._tail = tail = regular_headers(<object>PyList_GET_ITEM(self._headers, row), True)
            if tail is None:
                return 0
        if not fill_plain_record(record, value, key, tail, self._small_size):
            return 0
        partition[0] = ANY_PARTITION
        if self._partitions is not None:
            partition[0] = partition_number(<object>PyList_GET_ITEM(self._partitions, row), self._partition_count)
            if partition[0] == NO_PARTITION:
                return 0
        record.timestamp_ms = self._now_ms
        if self._timestamps_ms is not None and not timestamp_number(
            <object>PyList_GET_ITEM(self._timestamps_ms, row), &record.timestamp_ms
        ):
            return 0
        if partition[0] == ANY_PARTITION and record.key_size >= 0 and not self._ignores_keys:
            partition[0] = partition_of_key(record.key, record.key_size, self._partition_count)
        return 1

    cdef inline void note(self, Py_ssize_t row, const Record* record, long long index, int result_number) noexcept:
        self._indexes[row] = <int>index
        self._sent_timestamps_ms[row] = record.timestamp_ms
        self._key_sizes[row] = <int>record.key_size
        self._value_sizes[row] = <int>record.value_size
        self._result_numbers[row] = result_number

    # -- armed partitions ----------------------------------------------------------------------------------

    cdef Py_ssize_t send_to_lane(self, FastPart part, Py_ssize_t row, Py_ssize_t count, Record* record,
                                 Py_ssize_t partition, StickyPartition sticky) except -1:
        """Write a row, and those after it that go the same way, to an armed partition.

        Args:
            partition: of the row; ``ANY_PARTITION``: that of ``sticky``.

        Returns:
            The row behind them, or ``CHOOSE_AGAIN``.
        """
        cdef FastBatch batch
        cdef RecordFuture future
        cdef int64_t early_ms = part.plane.early_ms()
        cdef Py_ssize_t at
        cdef int appended
        cdef int number = -1
        self._plane = part.plane
        batch = take_open(part, sticky, self._transaction, self._id, self._batch_results, early_ms)
        if batch is not None:
            at = self.write_rows(batch.appender, row, min(count, row + MOST_LOCKED_ROWS), record, partition, sticky)
            if leave_open(batch, early_ms):
                part.plane.wake()
            if at > row:
                return at
        # A new batch, a larger buffer, or another partition.
        future = new_future(part.plane._future_type)
        try:
            appended = append_alone(part, record, future, sticky, self._transaction, self._batch_results, &number)
        finally:
            if number >= 0:
                self.note(row, record, future._index, number)
        if appended == ELSEWHERE:
            return row if next_choice(self._slots, sticky) is None else CHOOSE_AGAIN
        return row + 1 if appended == APPENDED else row

    cdef Py_ssize_t write_rows(self, RecordAppender appender, Py_ssize_t row, Py_ssize_t end, Record* record,
                               Py_ssize_t partition, StickyPartition sticky) except -1:
        """Write rows to the open batch of an armed partition, with its lock, from one whose record is given.

        So no other Python code may run here.

        Returns:
            The row behind them.
        """
        cdef BatchWriter writer = appender.writer
        cdef Py_ssize_t its_partition = partition
        while put_record(writer, record):
            self.note(row, record, writer.record_count - 1, appender.result_number)
            row += 1
            if sticky is not None:
                count_record(sticky, record.key_size, record.value_size)
                if sticky.produced_bytes >= sticky.force_switch_at_bytes:
                    break
            if row == end or not self.fill(row, record, &its_partition, True) or its_partition != partition:
                break
        return row


cdef inline bint has(list column, Py_ssize_t row) noexcept:
    return column is None or row < PyList_GET_SIZE(column)


cdef inline void prefetch(PyObject* data) noexcept:
    KP_PREFETCH(data)
    KP_PREFETCH(<const char*>data + CACHE_LINE_BYTES)

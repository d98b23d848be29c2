# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False, annotation_typing=False
"""RowSender: writes the rows of ``send_many`` into open batches, without a Python object per row.

Does for each row what the compiled ``send`` does for one record; a row that is unusual in any way ends the run and is
left to the caller. Mirrors ``Admission.admit`` of ``sending/admission.py``, as ``FastSend`` does. The rule in
``_append.pxd`` holds here too. The pure twin leaves every row to the caller.
"""

from __future__ import annotations

cimport cython
from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject

from kproducer._core.kernel.native._append cimport (
    ANY_PARTITION,
    NO_PARTITION,
    RecordAppender,
    StickyPartition,
    TopicSlots,
    ascii_or_bytes,
    count_record,
    fill_plain_record,
    open_appender,
    partition_number,
    timestamp_number,
)
from kproducer._core.kernel.native._batch cimport KP_PREFETCH, Record, partition_of_key, regular_headers

cdef enum:
    # How many rows ahead to prefetch: the objects of a long list can be anywhere in memory, and waiting for them would
    # cost as much as writing the record.
    PREFETCH_ROWS = 8
    CACHE_LINE_BYTES = 64


# How many objects of this class were made so far: the number of each is its id.
cdef long long _row_senders = 0


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

    def __cinit__(self, dict batch_results not None, bint ignores_keys, Py_ssize_t small_size):
        global _row_senders
        self._batch_results = batch_results
        self._ignores_keys = ignores_keys
        self._small_size = small_size
        _row_senders += 1
        self._id = _row_senders

    def send(self, TopicSlots slots not None, tuple lists not None, Py_ssize_t start, long long now_ms,
             Py_ssize_t first_row, *columns):
        """Write rows in order, from ``start`` up to the first one that is not plain.

        Args:
            slots: the topic's.
            lists: values, keys, headers, partitions and timestamps, of one length; ``None`` where there are none,
                except for values. No other thread changes them.
            start: the first row.
            now_ms: the time of rows without one, since the epoch.
            first_row: the number of ``values[0]`` in the columns.
            columns: arrays of result numbers, indexes, timestamps, key sizes and value sizes, to be filled.

        Returns:
            The row that has to be sent in another way; ``len(values)``: all were written.
        """
        cdef Py_buffer views[5]
        cdef int held = 0
        cdef object column
        cdef Py_ssize_t item_bytes
        cdef list values, keys, headers, partitions, timestamps_ms
        cdef Py_ssize_t count
        values, keys, headers, partitions, timestamps_ms = lists
        count = len(values)
        for column in (keys, headers, partitions, timestamps_ms):
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
            return self.send_run(slots, values, keys, headers, partitions, timestamps_ms, start, count, now_ms, views,
                                 first_row)
        finally:
            while held:
                held -= 1
                PyBuffer_Release(&views[held])

    cdef Py_ssize_t send_run(self, TopicSlots slots, list values, list keys, list headers, list partitions,
                             list timestamps_ms, Py_ssize_t row, Py_ssize_t count, long long now_ms,
                             const Py_buffer* views, Py_ssize_t first_row) except -1:
        cdef int* result_numbers = <int*>views[0].buf + first_row
        cdef int* indexes = <int*>views[1].buf + first_row
        cdef long long* sent_timestamps_ms = <long long*>views[2].buf + first_row
        cdef int* key_sizes = <int*>views[3].buf + first_row
        cdef int* value_sizes = <int*>views[4].buf + first_row
        cdef RecordAppender appender
        cdef StickyPartition sticky
        cdef object value
        cdef object key = None
        cdef bytes tail
        cdef Record record
        cdef Py_ssize_t partition
        cdef Py_ssize_t target
        cdef long long index
        cdef Py_ssize_t partition_count = slots.partition_count
        if partition_count <= 0:
            return row
        while row < count:
            # No other thread must change the lists meanwhile. If one does, this check keeps reads within them.
            if not (has(values, row) and has(keys, row) and has(headers, row) and has(partitions, row)
                    and has(timestamps_ms, row)):
                raise ValueError(f"a column lost its row {row} meanwhile")
            if has(values, row + PREFETCH_ROWS) and has(keys, row + PREFETCH_ROWS):
                prefetch(PyList_GET_ITEM(values, row + PREFETCH_ROWS))
                if keys is not None:
                    prefetch(PyList_GET_ITEM(keys, row + PREFETCH_ROWS))
            value = ascii_or_bytes(<object>PyList_GET_ITEM(values, row))
            if keys is not None:
                key = ascii_or_bytes(<object>PyList_GET_ITEM(keys, row))
            tail = None
            if headers is not None and <object>PyList_GET_ITEM(headers, row) is not None:
                tail = regular_headers(<object>PyList_GET_ITEM(headers, row), True)
                if tail is None:
                    return row
            if not fill_plain_record(&record, value, key, tail, self._small_size):
                return row
            partition = ANY_PARTITION
            if partitions is not None:
                partition = partition_number(<object>PyList_GET_ITEM(partitions, row), partition_count)
                if partition == NO_PARTITION:
                    return row
            record.timestamp_ms = now_ms
            if timestamps_ms is not None and not timestamp_number(
                <object>PyList_GET_ITEM(timestamps_ms, row), &record.timestamp_ms
            ):
                return row
            if partition == ANY_PARTITION and record.key_size >= 0 and not self._ignores_keys:
                partition = partition_of_key(record.key, record.key_size, partition_count)
            while True:
                # Releasing the last appender may run code of the application, so it is released before the slot is
                # read.
                sticky = None
                appender = None
                # From here on there must be nothing but the write: see _append.pxd.
                target = partition
                if partition == ANY_PARTITION:
                    sticky = slots.sticky
                    if sticky is None:
                        return row
                    target = sticky.partition
                appender = open_appender(slots, target, sticky)
                if appender is None:
                    return row
                if appender.row_sender_id == self._id:
                    break
                # This may run Python code, so the slot is read again afterwards.
                appender.result_number = self._batch_results.setdefault(appender.batch_result, len(self._batch_results))
                appender.row_sender_id = self._id
            index = appender.writer.record_count
            if not appender.writer.append_record(&record):
                return row
            indexes[row] = <int>index
            sent_timestamps_ms[row] = record.timestamp_ms
            key_sizes[row] = <int>record.key_size
            value_sizes[row] = <int>record.value_size
            result_numbers[row] = appender.result_number
            row += 1
            if sticky is not None:
                count_record(sticky, record.key_size, record.value_size)
        return row


cdef inline bint has(list column, Py_ssize_t row) noexcept:
    return column is None or row < PyList_GET_SIZE(column)


cdef inline void prefetch(PyObject* data) noexcept:
    KP_PREFETCH(data)
    KP_PREFETCH(<const char*>data + CACHE_LINE_BYTES)

# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False, annotation_typing=False
"""The rows of ``send_many``, written without an object for each: the compiled twin of ``pure/send_many.py``.

Does for a chunk of rows what ``SendPath.send`` does for one record, and as little: a row about which anything
is unusual ends the run and is left to the caller. The rule of ``_append.pxd`` holds here too.
"""

from __future__ import annotations

cimport cython
from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_AsUTF8String, PyUnicode_CheckExact
from libc.stdlib cimport free, realloc

from kproducer.kernel.native._append cimport (
    AppendSlot,
    RecordAppender,
    SendPath,
    StickyPartition,
    TopicSlots,
    count_record,
    should_switch_partition,
)
from kproducer.kernel.native._batch cimport murmur2_raw, regular_headers

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    void* PyUnicode_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) except? -1

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define KP_PREFETCH(address) __builtin_prefetch((const char*)(address))
    #else
    #define KP_PREFETCH(address) ((void)(address))
    #endif
    """
    void KP_PREFETCH(const void* address) noexcept

cdef enum:
    # Rows to look ahead: the objects of a long list lie anywhere in memory, and waiting for them would cost as
    # much as writing the record.
    PREFETCH_ROWS = 8
    CACHE_LINE_BYTES = 64
    ANY_PARTITION = -1


cdef struct Places:
    int* owner_numbers
    int* indexes
    long long* timestamps_ms
    int* key_sizes
    int* value_sizes


@cython.final
cdef class RowSender:
    """Sends the plain rows of one ``send_many``. For the calling thread.

    Args:
        path: the producer.
        topic: where to.
        places: where to note which batch each record went to.
        is_serialized: keys and values have been through the serializers, if there are any.
    """

    cdef SendPath _path
    cdef str _topic
    cdef object _places
    cdef bint _is_serialized
    # By partition: the owner that was met there last, and its number. The places keep the owners alive, so an
    # address means one owner.
    cdef PyObject** _owners
    cdef int* _numbers
    cdef Py_ssize_t _known_partitions

    def __cinit__(self, SendPath path not None, str topic not None, places, bint is_serialized=False):
        self._path = path
        self._topic = topic
        self._places = places
        self._is_serialized = is_serialized
        self._owners = NULL
        self._numbers = NULL
        self._known_partitions = 0

    def __dealloc__(self):
        free(self._owners)
        free(self._numbers)

    def send(self, list values not None, list keys, list headers, list partitions, list timestamps_ms,
             Py_ssize_t start, Py_ssize_t first_row, long long now_ms):
        """Send rows in order, from ``start`` up to the first one that is not plain.

        Args:
            values, keys, headers, partitions, timestamps_ms: lists of one length that nobody else changes.
            start: the first row.
            first_row: the number of ``values[0]`` in the places.
            now_ms: the time of rows without one, since the epoch.

        Returns:
            The row that has to be sent in another way; ``len(values)``: all were sent.
        """
        cdef Py_buffer views[5]
        cdef int held = 0
        cdef Places to
        cdef object column
        cdef Py_ssize_t item_bytes
        cdef Py_ssize_t count = PyList_GET_SIZE(values)
        for column in (keys, headers, partitions, timestamps_ms):
            if column is not None and len(column) != count:
                raise ValueError(f"columns of {count} and {len(column)} rows")
        places = self._places
        if start < 0 or start > count or first_row < 0:
            raise ValueError(f"row {start} of {count}, to be noted from {first_row} on")
        try:
            for column in (places.owner_numbers, places.indexes, places.key_sizes, places.value_sizes,
                           places.timestamps_ms):
                # While they are held, nobody can resize these arrays.
                PyObject_GetBuffer(column, &views[held], PyBUF_WRITABLE)
                held += 1
                item_bytes = sizeof(long long) if held == 5 else sizeof(int)
                if views[held - 1].len // item_bytes < first_row + count:
                    raise ValueError(f"a column of {views[held - 1].len} bytes for {first_row + count} rows")
            to.owner_numbers = <int*>views[0].buf + first_row
            to.indexes = <int*>views[1].buf + first_row
            to.key_sizes = <int*>views[2].buf + first_row
            to.value_sizes = <int*>views[3].buf + first_row
            to.timestamps_ms = <long long*>views[4].buf + first_row
            return self.send_run(values, keys, headers, partitions, timestamps_ms, start, count, now_ms, &to)
        finally:
            while held:
                held -= 1
                PyBuffer_Release(&views[held])

    cdef Py_ssize_t send_run(self, list values, list keys, list headers, list partitions, list timestamps_ms,
                             Py_ssize_t row, Py_ssize_t count, long long now_ms, Places* to) except -1:
        cdef SendPath path = self._path
        cdef TopicSlots lanes
        cdef AppendSlot lane
        cdef RecordAppender appender
        cdef StickyPartition sticky
        cdef object snapshot
        cdef object value
        cdef object key
        cdef bytes tail
        cdef const char* value_data
        cdef const char* key_data
        cdef const char* tail_data
        cdef Py_ssize_t value_size
        cdef Py_ssize_t key_size
        cdef Py_ssize_t tail_size
        cdef Py_ssize_t partition
        cdef Py_ssize_t target
        cdef Py_ssize_t partition_count
        cdef long long timestamp_ms
        cdef long long index
        lanes = path.lanes_of(self._topic) if path._usual else None
        if lanes is None or ((path._serializes_key or path._serializes_value) and not self._is_serialized):
            return row
        snapshot = path._metadata.snapshot
        partition_count = lanes.partition_count(self._topic, snapshot)
        if partition_count <= 0:
            return row
        while row < count:
            # The caller's lists are its own; this keeps a mistake there from reading what is not ours.
            if not (has(values, row) and has(keys, row) and has(headers, row) and has(partitions, row)
                    and has(timestamps_ms, row)):
                raise ValueError(f"a column lost its row {row} meanwhile")
            if has(values, row + PREFETCH_ROWS) and has(keys, row + PREFETCH_ROWS):
                prefetch(PyList_GET_ITEM(values, row + PREFETCH_ROWS))
                if keys is not None:
                    prefetch(PyList_GET_ITEM(keys, row + PREFETCH_ROWS))
            value = as_plain(<object>PyList_GET_ITEM(values, row))
            if not point_to(value, &value_data, &value_size):
                return row
            key_data = NULL
            key_size = -1
            if keys is not None:
                key = as_plain(<object>PyList_GET_ITEM(keys, row))
                if not point_to(key, &key_data, &key_size):
                    return row
            tail_data = NULL
            tail_size = 0
            if headers is not None and <object>PyList_GET_ITEM(headers, row) is not None:
                tail = regular_headers(<object>PyList_GET_ITEM(headers, row), True)
                if tail is None:
                    return row
                tail_data = PyBytes_AS_STRING(tail)
                tail_size = PyBytes_GET_SIZE(tail)
            if max(key_size, 0) + max(value_size, 0) + tail_size > path._small_size:
                return row
            partition = ANY_PARTITION
            if partitions is not None and not partition_of(
                <object>PyList_GET_ITEM(partitions, row), partition_count, &partition
            ):
                return row
            timestamp_ms = now_ms
            if timestamps_ms is not None and not timestamp_of(
                <object>PyList_GET_ITEM(timestamps_ms, row), &timestamp_ms
            ):
                return row
            if partition == ANY_PARTITION and key_size >= 0 and not path._ignores_keys:
                partition = <Py_ssize_t>(
                    murmur2_raw(<const unsigned char*>key_data, key_size) & 0x7FFFFFFF
                ) % partition_count
            while True:
                # What these held may run code of the application when it goes: it goes before the look.
                sticky = None
                lane = None
                appender = None
                # From here on nothing but the write: see _append.pxd.
                target = partition
                if partition == ANY_PARTITION:
                    sticky = lanes.sticky
                    if sticky is None:
                        return row
                    target = sticky.partition
                lane = lanes.slot(target)
                if lane is None or lane.appender is None:
                    return row
                appender = lane.appender
                if sticky is not None and should_switch_partition(sticky, appender.writer):
                    return row
                if target < self._known_partitions and self._owners[target] == <PyObject*>appender.owner:
                    break
                # This runs Python code: look again.
                self.note_owner(target, appender.owner)
            index = appender.writer.record_count
            if not appender.writer.append_raw(
                timestamp_ms, key_data, key_size, value_data, value_size, tail_data, tail_size
            ):
                return row
            to.indexes[row] = <int>index
            to.timestamps_ms[row] = timestamp_ms
            to.key_sizes[row] = <int>key_size
            to.value_sizes[row] = <int>value_size
            to.owner_numbers[row] = self._numbers[target]
            row += 1
            if sticky is not None:
                count_record(sticky, key_size, value_size)
        return row

    cdef int note_owner(self, Py_ssize_t partition, owner) except -1:
        cdef int number = self._places.number_of(owner)
        cdef Py_ssize_t known
        cdef void* grown
        if partition >= self._known_partitions:
            known = max(partition + 1, 2 * self._known_partitions)
            grown = realloc(self._owners, known * sizeof(PyObject*))
            if grown is NULL:
                raise MemoryError()
            self._owners = <PyObject**>grown
            grown = realloc(self._numbers, known * sizeof(int))
            if grown is NULL:
                raise MemoryError()
            self._numbers = <int*>grown
            while self._known_partitions < known:
                self._owners[self._known_partitions] = NULL
                self._numbers[self._known_partitions] = -1
                self._known_partitions += 1
        self._owners[partition] = <PyObject*>owner
        self._numbers[partition] = number
        return 0


cdef inline bint has(list column, Py_ssize_t row) noexcept:
    return column is None or row < PyList_GET_SIZE(column)


cdef inline void prefetch(PyObject* data) noexcept:
    KP_PREFETCH(data)
    KP_PREFETCH(<const char*>data + CACHE_LINE_BYTES)


cdef inline object as_plain(object data):
    """Text that is not ASCII as UTF-8; everything else, text that has none too, as it is."""
    if not PyUnicode_CheckExact(data) or PyUnicode_IS_COMPACT_ASCII(data):
        return data
    try:
        return PyUnicode_AsUTF8String(data)
    except UnicodeEncodeError:
        return data


cdef inline bint point_to(object data, const char** start, Py_ssize_t* size) noexcept:
    """Where bytes, or the characters of ASCII text, lie; false: neither."""
    if PyBytes_CheckExact(data):
        start[0] = PyBytes_AS_STRING(data)
        size[0] = PyBytes_GET_SIZE(data)
        return True
    if data is None:
        start[0] = NULL
        size[0] = -1
        return True
    if PyUnicode_CheckExact(data) and PyUnicode_IS_COMPACT_ASCII(data):
        start[0] = <const char*>PyUnicode_DATA(data)
        size[0] = PyUnicode_GET_LENGTH(data)
        return True
    return False


cdef inline int partition_of(object partition, Py_ssize_t count, Py_ssize_t* number) except -1:
    """The number of an existing partition, or ``ANY_PARTITION`` for ``None``; 0: neither."""
    cdef int overflow = 0
    cdef long long asked
    if partition is None:
        return 1
    if not PyLong_CheckExact(partition):
        return 0
    asked = PyLong_AsLongLongAndOverflow(partition, &overflow)
    if overflow or asked < 0 or asked >= count:
        return 0
    number[0] = <Py_ssize_t>asked
    return 1


cdef inline int timestamp_of(object timestamp_ms, long long* number) except -1:
    """Milliseconds since the epoch; unchanged for ``None``; 0: neither."""
    cdef int overflow = 0
    if timestamp_ms is None:
        return 1
    if not PyLong_CheckExact(timestamp_ms):
        return 0
    number[0] = PyLong_AsLongLongAndOverflow(timestamp_ms, &overflow)
    return not overflow and number[0] >= 0

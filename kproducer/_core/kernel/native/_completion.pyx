# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False, annotation_typing=False, binding=True
"""From the outcome of a batch to its records: the compiled twin of ``pure/completion.py``.

The fast paths handle one case: the outcome is known, the batch was not split, and the record was delivered.
"""

from __future__ import annotations

cimport cython
from cpython.long cimport PyLong_CheckExact
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_Check, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_CheckExact

from _thread import allocate_lock
from bisect import bisect_right
from functools import update_wrapper

cdef extern from "Python.h":
    void PyObject_GC_Track(PyObject* op) noexcept
    void PyObject_GC_UnTrack(PyObject* op) noexcept
    int PyObject_GC_IsTracked(PyObject* op) noexcept
    int PyObject_GenericSetAttr(object op, object name, object value) except -1
    unsigned long PyThread_get_thread_ident() noexcept

cdef extern from *:
    """
    #define KP_NEW(type, arguments) (((PyTypeObject*)(type))->tp_new((PyTypeObject*)(type), arguments, NULL))

    /* A named tuple as its own __new__, which is written in Python, would make it: as tuple.__new__ does. */
    static PyObject* KP_RECORD_METADATA(PyObject* type, PyObject* topic, PyObject* partition, long long offset,
                                        long long timestamp_ms, Py_ssize_t key_size, Py_ssize_t value_size) {
    #if PY_VERSION_HEX < 0x030F0000
        PyObject* made = ((PyTypeObject*)type)->tp_alloc((PyTypeObject*)type, 6);
    #else  /* what else a tuple may need there is not known yet */
        PyObject* made = PyTuple_New(6);
    #endif
        if (made == NULL) return NULL;
    #if PY_VERSION_HEX >= 0x030E0000 && PY_VERSION_HEX < 0x030F0000
        ((PyTupleObject*)made)->ob_hash = -1;
    #endif
        Py_INCREF(topic);
        PyTuple_SET_ITEM(made, 0, topic);
        Py_INCREF(partition);
        PyTuple_SET_ITEM(made, 1, partition);
        PyObject* number;
    #define KP_NUMBER(place, value) \\
        number = value; \\
        if (number == NULL) { Py_DECREF(made); return NULL; } \\
        PyTuple_SET_ITEM(made, place, number)
        KP_NUMBER(2, PyLong_FromLongLong(offset));
        KP_NUMBER(3, PyLong_FromLongLong(timestamp_ms));
        KP_NUMBER(4, PyLong_FromSsize_t(key_size));
        KP_NUMBER(5, PyLong_FromSsize_t(value_size));
    #undef KP_NUMBER
    #if PY_VERSION_HEX >= 0x030F0000
        PyObject* arguments = PyTuple_Pack(1, made);
        Py_DECREF(made);
        if (arguments == NULL) return NULL;
        made = PyTuple_Type.tp_new((PyTypeObject*)type, arguments, NULL);
        Py_DECREF(arguments);
    #endif
        return made;
    }
    """
    object KP_NEW(object type, object arguments)
    object KP_RECORD_METADATA(object type, object topic, object partition, long long offset,
                              long long timestamp_ms, Py_ssize_t key_size, Py_ssize_t value_size)

cdef enum:
    UNKNOWN = -1
    # Longer waits, in seconds, are checked in Python.
    LONGEST_WAIT_S = 1000000


# -- batches ---------------------------------------------------------------------------------------------------

@cython.final
cdef class BatchOutcome:
    """See ``pure/completion.py``."""

    def __cinit__(self, topic_partition, metadata_type):
        self.topic_partition = topic_partition
        self.metadata_type = metadata_type
        self.base_offset = UNKNOWN
        self.log_append_time_ms = UNKNOWN

    cpdef bint is_readable(self) noexcept:
        return self.done or (self.settled and self.firing_thread_id == PyThread_get_thread_ident())

    cpdef object metadata(self, long long index, long long timestamp_ms, Py_ssize_t key_size, Py_ssize_t value_size):
        cdef object place = self.topic_partition
        cdef object topic
        cdef object partition
        cdef object made
        # A failed record has no offset, and the timestamp that it was sent with.
        cdef long long offset = UNKNOWN
        if not PyTuple_Check(place) or PyTuple_GET_SIZE(place) != 2:
            raise TypeError(f"topic_partition must be a (topic, partition) tuple, not {place!r}")
        topic = <object>PyTuple_GET_ITEM(place, 0)
        partition = <object>PyTuple_GET_ITEM(place, 1)
        if self.error is None:
            if self.base_offset >= 0:
                offset = self.base_offset + index
            if self.log_append_time_ms != UNKNOWN:
                timestamp_ms = self.log_append_time_ms
        made = KP_RECORD_METADATA(self.metadata_type, topic, partition, offset, timestamp_ms, key_size,
                                  value_size)
        if PyUnicode_CheckExact(topic) and PyLong_CheckExact(partition):
            # The tuple has only plain values, so it can be in no cycle. The collector would find that out by itself,
            # but only later.
            PyObject_GC_UnTrack(<PyObject*>made)
        return made


cdef inline bint delivered(BatchOutcome outcome) noexcept:
    return (outcome is not None and outcome.error is None and not outcome.is_split and outcome.is_readable())


cdef class _LazyResult:
    """See ``_completion.pxd``. ``_make(topic_partition, outcome)`` makes the result."""

    @property
    def result(self):
        if self._made is None:
            made = self._make(self.outcome.topic_partition, self.outcome)
            if self._made is None:  # no other thread was faster
                self._made = made
        return self._made

    cdef void release(self) noexcept:
        """Wake the threads in ``_waiting``."""
        cdef list waiting = self._waiting
        if waiting is not None:
            self._waiting = None
            for lock in waiting:
                lock.release()


cdef int wait_for(RecordFuture future, object timeout) except -1:
    """Block until the outcome of the record is known, if that is simple.

    Returns:
        1: it is known, or the wait is not simple. 0: the timeout, in seconds, has passed.
    """
    cdef BatchOutcome outcome = future._outcome
    cdef _LazyResult owner
    cdef bint is_known = False
    if not isinstance(future._owner, _LazyResult):
        return 1
    owner = <_LazyResult>future._owner
    if timeout is not None and not (type(timeout) in (int, float) and 0 < timeout < LONGEST_WAIT_S):
        return 1
    lock = allocate_lock()
    lock.acquire()
    if owner._waiting is None:
        owner._waiting = []
    # No other thread runs from here to the wait, so the one that decides the outcome finds this lock and releases it.
    if outcome.done or outcome.is_split or owner._made is not None or owner.io_thread_id == PyThread_get_thread_ident():
        return 1
    owner._waiting.append(lock)
    try:
        is_known = lock.acquire() if timeout is None else lock.acquire(True, timeout)
    finally:
        if not is_known and owner._waiting is not None and lock in owner._waiting:
            owner._waiting.remove(lock)
    return is_known


# -- futures ---------------------------------------------------------------------------------------------------

cdef class RecordFuture:
    """See ``pure/completion.py``."""

    def __init__(self, result, BatchOutcome outcome, index, timestamp_ms, key_size, value_size):
        self._owner = result
        self._outcome = outcome
        self._index = index
        self._timestamp_ms = timestamp_ms
        self._key_size = key_size
        self._value_size = value_size

    @property
    def _batch_result(self):
        return (<_LazyResult>self._owner).result if isinstance(self._owner, _LazyResult) else self._owner

    @_batch_result.setter
    def _batch_result(self, result):
        self._owner = result

    def __setattr__(self, name, value):
        # An attribute that the application sets may refer back to the future: the collector must track it from now on.
        PyObject_GenericSetAttr(self, name, value)
        if not PyObject_GC_IsTracked(<PyObject*>self):
            PyObject_GC_Track(<PyObject*>self)


def fast_done(general):
    """The method ``general``, preceded by a compiled answer for batches that were not split."""
    def done(self):
        cdef BatchOutcome outcome = (<RecordFuture?>self)._outcome
        if outcome is not None and not outcome.is_split:
            return outcome.is_readable()
        return general(self)
    return update_wrapper(done, general)


def fast_result(general):
    """The method ``general``, preceded by a compiled answer for delivered records."""
    def result(self, timeout=None):
        cdef RecordFuture future = <RecordFuture?>self
        if not delivered(future._outcome) and not wait_for(future, timeout):
            raise self._late(timeout)
        if delivered(future._outcome):
            return future._outcome.metadata(
                future._index, future._timestamp_ms, future._key_size, future._value_size
            )
        return general(self, timeout)
    return update_wrapper(result, general)


def fast_exception(general):
    """The method ``general``, preceded by a compiled answer for delivered records."""
    def exception(self, timeout=None):
        cdef RecordFuture future = <RecordFuture?>self
        if not delivered(future._outcome) and not wait_for(future, timeout):
            raise self._late(timeout)
        if delivered(future._outcome):
            return None
        return general(self, timeout)
    return update_wrapper(exception, general)


cdef tuple _no_arguments = ()


cdef RecordFuture new_future(object future_type):
    # Untracked: applications keep millions of these, and the collector would walk all of them again and again
    # (0.38 us instead of 0.15 us per future). It would find nothing: a future refers to its result and its
    # outcome alone, and neither refers to a future once it is done, not through its error either: each reader
    # gets a copy of that. Freeing a future does not ask whether it was tracked.
    cdef object future = KP_NEW(future_type, _no_arguments)
    if type(future) is not future_type:
        raise TypeError(f"{future_type!r} made a {type(future)!r}")
    PyObject_GC_UnTrack(<PyObject*>future)
    return <RecordFuture>future


# -- callbacks -------------------------------------------------------------------------------------------------

@cython.final
cdef class Deliveries:
    """The ``on_delivery`` callbacks of one batch, in order, with what the metadata of their records needs.

    The garbage collector does not see the callbacks: the batch holds this object until it ends, and every batch ends.
    """

    def __dealloc__(self):
        self.drop(self._entries, 0, self._count)

    def __len__(self):
        return self._count

    def add(self, on_delivery, int index, long long timestamp_ms, int key_size, int value_size):
        """Add the callback of the record with this index in the batch."""
        self.reserve()
        self.push(on_delivery, index, timestamp_ms, key_size, value_size)

    cdef int reserve(self) except -1:
        cdef Py_ssize_t room
        cdef void* grown
        if self._count == self._room:
            room = max(4, 2 * self._room)  # many batches have a single record
            grown = PyMem_Realloc(self._entries, room * sizeof(Delivery))
            if grown == NULL:
                raise MemoryError
            self._entries = <Delivery*>grown
            self._room = room
        return 0

    cdef void push(self, object on_delivery, long long index, long long timestamp_ms, Py_ssize_t key_size,
                   Py_ssize_t value_size) noexcept:
        cdef Delivery* entry = &self._entries[self._count]
        Py_INCREF(on_delivery)
        entry.on_delivery = <void*>on_delivery
        entry.timestamp_ms = timestamp_ms
        entry.index = <int>index
        entry.key_size = <int>key_size
        entry.value_size = <int>value_size
        self._count += 1

    def split(self, list first_indexes not None):
        """The callbacks of each part of a split batch; here they stay.

        Args:
            first_indexes: of each part, the index of its first record in this batch; the first one is 0.
        """
        cdef list parts = [Deliveries() for _ in first_indexes]
        cdef Delivery entry
        cdef Deliveries part
        cdef object on_delivery
        cdef Py_ssize_t number = 0
        while number < self._count:
            entry = self._entries[number]
            on_delivery = <object>entry.on_delivery
            place = bisect_right(first_indexes, entry.index) - 1
            part = parts[place]
            part.add(on_delivery, entry.index - first_indexes[place], entry.timestamp_ms, entry.key_size,
                     entry.value_size)
            number += 1
        return parts

    def run(self, BatchOutcome outcome not None, error_of, report):
        """Call each ``on_delivery(metadata, error)`` and forget it.

        Args:
            outcome: the batch's, settled.
            error_of: returns the error of the record with an index; called only if ``outcome`` has one.
            report: called without arguments while the first exception of a callback is handled.

        Returns:
            How many callbacks raised.
        """
        cdef Delivery* entries = self._entries
        cdef Py_ssize_t count = self._count
        cdef Py_ssize_t number = 0
        cdef Py_ssize_t raised = 0
        cdef object on_delivery
        cdef object metadata
        self._entries = NULL
        self._count = 0
        self._room = 0
        try:
            while number < count:
                on_delivery = <object>entries[number].on_delivery
                Py_DECREF(on_delivery)
                number += 1
                try:
                    metadata = outcome.metadata(
                        entries[number - 1].index, entries[number - 1].timestamp_ms,
                        entries[number - 1].key_size, entries[number - 1].value_size,
                    )
                    if outcome.error is None:
                        on_delivery(metadata, None)
                    else:
                        on_delivery(metadata, error_of(entries[number - 1].index))
                except BaseException:  # SystemExit and CancelledError too: the I/O thread must go on
                    raised += 1
                    if raised == 1:
                        report()
        finally:
            self.drop(entries, number, count)
        return raised

    cdef void drop(self, Delivery* entries, Py_ssize_t start, Py_ssize_t end) noexcept:
        while start < end:
            Py_DECREF(<object>entries[start].on_delivery)
            start += 1
        PyMem_Free(entries)

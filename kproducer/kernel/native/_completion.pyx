# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False, annotation_typing=False
"""From the outcome of a batch to those who sent its records: the compiled twin of ``pure/completion.py``.

Only the usual is here: the batch's fate is known, it was not split, and the record was delivered. For
everything else the subclasses ask and wait in Python.
"""

from __future__ import annotations

cimport cython
from cpython.long cimport PyLong_CheckExact
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_Check, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_CheckExact

from bisect import bisect_right

from kproducer.errors import KafkaError
from kproducer.types import NO_OFFSET, NO_TIMESTAMP, RecordMetadata

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

cdef object _metadata_type = RecordMetadata
cdef long long _NO_OFFSET = NO_OFFSET
cdef long long _NO_TIMESTAMP = NO_TIMESTAMP


# -- batches ---------------------------------------------------------------------------------------------------

cdef class BatchOutcome:
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

    def __cinit__(self):
        self.base_offset = _NO_OFFSET
        self.log_append_time_ms = _NO_TIMESTAMP

    def __init__(self, topic_partition):
        self.topic_partition = topic_partition

    def is_readable(self):
        """Done, or settled and now running the delivery callbacks on the calling thread."""
        return readable(self)

    def metadata_of(self, index, timestamp_ms, key_size, value_size):
        """The RecordMetadata of one record; the last three as sent."""
        return self.metadata(index, timestamp_ms, key_size, value_size)

    cdef object metadata(self, long long index, long long timestamp_ms, Py_ssize_t key_size,
                         Py_ssize_t value_size):
        cdef object place = self.topic_partition
        cdef object topic
        cdef object partition
        cdef object made
        # A failed record has no offset; the time is the one it was sent with.
        cdef long long offset = _NO_OFFSET
        if not PyTuple_Check(place) or PyTuple_GET_SIZE(place) != 2:
            raise TypeError(f"{place!r} is no TopicPartition")
        topic = <object>PyTuple_GET_ITEM(place, 0)
        partition = <object>PyTuple_GET_ITEM(place, 1)
        if self.error is None:
            if self.base_offset >= 0:
                offset = self.base_offset + index
            if self.log_append_time_ms != _NO_TIMESTAMP:
                timestamp_ms = self.log_append_time_ms
        made = KP_RECORD_METADATA(_metadata_type, topic, partition, offset, timestamp_ms, key_size, value_size)
        if PyUnicode_CheckExact(topic) and PyLong_CheckExact(partition):
            # No reference in it leads anywhere. The collector stops looking at such plain tuples by itself.
            PyObject_GC_UnTrack(<PyObject*>made)
        return made


cdef inline bint readable(BatchOutcome outcome) noexcept:
    return outcome.done or (outcome._settled and outcome._firing_thread_id == PyThread_get_thread_ident())


# -- futures ---------------------------------------------------------------------------------------------------

cdef class RecordFuture:
    """What is kept for each record: whose it is, which one it is there, and what its metadata needs.

    A subclass has ``_result_slowly``, ``_exception_slowly`` and ``_done_slowly`` for all that is unusual.

    Attributes:
        _owner: the result that the records of a batch share.
        _index: the record's place in the batch.
        _timestamp_ms: as sent.
        _key_size, _value_size: bytes; -1 for null.
    """

    def __init__(self, owner, index, timestamp_ms, key_size, value_size):
        self._owner = owner
        self._index = index
        self._timestamp_ms = timestamp_ms
        self._key_size = key_size
        self._value_size = value_size

    def __setattr__(self, name, value):
        # What an application hangs on a future may lead back to it: from now on the collector has to look.
        PyObject_GenericSetAttr(self, name, value)
        if not PyObject_GC_IsTracked(<PyObject*>self):
            PyObject_GC_Track(<PyObject*>self)

    def done(self) -> bool:
        cdef object owner = self._owner
        if isinstance(owner, BatchOutcome) and (<BatchOutcome>owner).parts is None:
            return readable(<BatchOutcome>owner)
        return self._done_slowly()

    def result(self, timeout: float | None = None) -> RecordMetadata:
        cdef object owner = self._owner
        if isinstance(owner, BatchOutcome) and delivered(<BatchOutcome>owner):
            return (<BatchOutcome>owner).metadata(
                self._index, self._timestamp_ms, self._key_size, self._value_size
            )
        return self._result_slowly(timeout)

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        cdef object owner = self._owner
        if isinstance(owner, BatchOutcome) and delivered(<BatchOutcome>owner):
            return None
        return self._exception_slowly(timeout)


cdef inline bint delivered(BatchOutcome outcome) noexcept:
    return outcome.error is None and outcome.parts is None and readable(outcome)


cdef object _future_type = RecordFuture
cdef tuple _no_arguments = ()


def set_future_type(future_type):
    """Say which subclass of ``RecordFuture`` the futures of records are. Once, when it is defined."""
    global _future_type
    if not issubclass(future_type, RecordFuture):
        raise TypeError(f"{future_type!r} is no RecordFuture")
    _future_type = future_type


cdef RecordFuture new_future():
    # Untracked: applications keep millions of these, and the collector would walk all of them again and again
    # (0.38 us instead of 0.15 us for each). It would find nothing: a future refers to its result alone, and
    # no result refers to a future once it is done, not by way of its error either: whoever is told of that
    # gets a copy. Freeing one does not ask whether it was tracked.
    cdef object future = KP_NEW(_future_type, _no_arguments)
    PyObject_GC_UnTrack(<PyObject*>future)
    return <RecordFuture>future


# -- callbacks -------------------------------------------------------------------------------------------------

@cython.final
cdef class Deliveries:
    """The ``on_delivery`` callbacks of one batch, in order, with what the metadata of their records needs.

    Iterating gives (on_delivery, index of the record). The collector does not see through this: the batch
    holds it until its end, and every batch comes to one.
    """

    def __dealloc__(self):
        self.drop(self._entries, 0, self._count)

    def __len__(self):
        return self._count

    def __iter__(self):
        cdef list found = []
        cdef Delivery entry
        cdef object on_delivery
        cdef Py_ssize_t number = 0
        while number < self._count:  # making a tuple may run Python code, and that may run all of these
            entry = self._entries[number]
            on_delivery = <object>entry.on_delivery
            found.append((on_delivery, entry.index))
            number += 1
        return iter(found)

    def add(self, on_delivery, int index, long long timestamp_ms, int key_size, int value_size):
        """``on_delivery`` wants to know about the record with this index in the batch."""
        self.reserve()
        self.push(on_delivery, index, timestamp_ms, key_size, value_size)

    cdef int reserve(self) except -1:
        cdef Py_ssize_t room
        cdef void* grown
        if self._count == self._room:
            room = max(64, 2 * self._room)
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
            error_of: gives the error of the record with an index; asked only when ``outcome`` has one.
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
                except BaseException:  # SystemExit and CancelledError too: the I/O thread serves all the others
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

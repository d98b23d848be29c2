# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False, annotation_typing=False, binding=True
"""FastSend: one record into its partition's open batch; it makes no Python object but the future.

It declines (``None``), and has changed nothing, if the topic is unknown, a key or value is neither bytes nor text, the
record is larger than ``small_size`` or the callback is new; outside of lanes also if no batch is open or has room, or
the sticky partition should be switched. ``Admission.admit`` in ``sending/admission.py`` handles these records.
``_append.pxd`` explains why no lock is needed outside of lanes; in a lane, the partition's lock is taken.
"""

from __future__ import annotations

cimport cython
from cpython.dict cimport PyDict_GetItemWithError
from cpython.exc cimport PyErr_ExceptionMatches, PyErr_Fetch, PyErr_Restore
from cpython.object cimport PyObject, PyTypeObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from cpython.ref cimport Py_INCREF, Py_XDECREF

from functools import update_wrapper

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
    next_choice,
    open_appender,
    partition_number,
    slot_of,
    timestamp_number,
)
from kproducer._core.kernel.native._batch cimport Record, partition_of_key, regular_headers
from kproducer._core.kernel.native._completion cimport RecordFuture, new_future
from kproducer._core.kernel.native._lane cimport APPENDED, COMPRESS, ELSEWHERE, LEAVE, Backlog, FastPart, append_to_part

cdef extern from "Python.h":
    int PyCallable_Check(PyObject* op) noexcept
    bint PyFunction_Check(PyObject* op) noexcept
    PyObject* PyFunction_GET_CODE(PyObject* op) noexcept
    bint PyMethod_Check(PyObject* op) noexcept
    PyObject* PyMethod_GET_FUNCTION(PyObject* op) noexcept
    bint PyObject_TypeCheck(object op, PyTypeObject* type) noexcept
    PyTypeObject PyMemberDescr_Type
    PyObject* PyObject_Vectorcall(PyObject* op, PyObject* const* arguments, size_t count, PyObject* names) except NULL
    ctypedef PyObject* (*vectorcallfunc)(PyObject* op, PyObject* const* arguments, size_t count, PyObject* names) noexcept
    # Cython's functions begin with it.
    ctypedef struct PyCFunctionObject:
        vectorcallfunc vectorcall

cdef extern from "structmember.h":
    ctypedef struct PyMemberDef:
        Py_ssize_t offset
    ctypedef struct PyMemberDescrObject:
        PyMemberDef* d_member

ctypedef long long (*WallClock)() noexcept

#: The vectorcall of every function that ``fast_send`` makes, before it is replaced.
cdef vectorcallfunc _compiled_call

#: The class with the slot ``_fast_send``, and where its objects have it. NULL: not looked up yet.
cdef PyTypeObject* _owner_type
cdef Py_ssize_t _slot_offset

#: The most code objects of callbacks that one FastSend remembers.
cdef Py_ssize_t _MOST_CODES = 64


@cython.final
cdef class FastSend:
    """See ``pure/fast_sender.py``."""

    cdef object _future_type
    cdef object _wall_ms
    # The C function in a capsule; NULL if there is none: then _wall_ms is called.
    cdef WallClock _wall_clock
    cdef bint _takes_arguments
    cdef bint _ignores_keys
    cdef Py_ssize_t _small_size
    cdef bint _leaves_compression
    # None while nothing may be sent this way.
    cdef dict _topics
    cdef object _last_topic
    cdef TopicSlots _last_slots
    # The code objects of accepted callbacks, by address, and the one that was used last.
    cdef dict _accepted_codes
    cdef object _accepted_code

    def __cinit__(self, future_type, wall_ms):
        if not issubclass(future_type, RecordFuture):
            raise TypeError(f"future_type must be a subclass of RecordFuture, not {future_type!r}")
        self._accepted_codes = {}
        self._future_type = future_type
        self._wall_ms = wall_ms
        if PyCapsule_IsValid(wall_ms, "kproducer.wall_ms"):
            self._wall_clock = <WallClock>PyCapsule_GetPointer(wall_ms, "kproducer.wall_ms")

    def configure(self, *, takes_arguments, ignores_keys, small_size):
        self._takes_arguments = takes_arguments
        self._ignores_keys = ignores_keys
        self._small_size = small_size

    def leave_compression(self):
        self._leaves_compression = True

    def accept_callbacks_of(self, code not None):
        if len(self._accepted_codes) >= _MOST_CODES:
            self._accepted_codes.clear()
        # By address: comparing code objects compares their content, which takes longer than the check.
        self._accepted_codes[<size_t><PyObject*>code] = code
        self._accepted_code = code

    def open(self, dict topics not None):
        self._last_topic = None
        self._last_slots = None
        self._topics = topics

    def close(self):
        self._topics = None
        self._last_topic = None
        self._last_slots = None

    cpdef TopicSlots slots_of(self, object topic):
        """The topic's slots, or ``None``: nothing was sent there yet, or nothing may be sent."""
        cdef PyObject* found
        if topic is self._last_topic and topic is not None:
            return self._last_slots
        if self._topics is None or type(topic) is not str:
            return None
        found = PyDict_GetItemWithError(self._topics, topic)
        if found is NULL:
            return None
        self._last_slots = <TopicSlots?>(<object>found)
        self._last_topic = topic
        return self._last_slots

    cdef inline bint _accepts(self, object on_delivery) except -1:
        """Whether this callback may be called. The general path checks other functions and methods first."""
        cdef PyObject* function = <PyObject*>on_delivery
        cdef PyObject* code
        if PyMethod_Check(function):
            function = PyMethod_GET_FUNCTION(function)
        if not PyFunction_Check(function):
            return PyCallable_Check(<PyObject*>on_delivery)
        # A lambda or a bound method may be a new object per record; its code is not.
        code = PyFunction_GET_CODE(function)
        if code is not <PyObject*>self._accepted_code:
            if <size_t>code not in self._accepted_codes:
                return False
            self._accepted_code = <object>code
        return True

    cpdef RecordFuture try_send(self, object topic, object value, object key, object headers, object partition,
                                object timestamp_ms, object on_delivery):
        """The record's future; ``None``: declined, nothing has changed."""
        # Mirrors Admission.admit, and RecordAccumulator.try_append for the sticky partition.
        cdef TopicSlots slots
        cdef RecordFuture future
        cdef StickyPartition sticky = None
        cdef RecordAppender appender
        cdef AppendSlot slot
        cdef Record record
        cdef Backlog backlog
        cdef int appended
        cdef bytes tail = None
        cdef Py_ssize_t number
        cdef Py_ssize_t count
        if on_delivery is not None and not self._accepts(on_delivery):
            return None
        slots = self.slots_of(topic)
        if slots is None:
            return None
        count = slots.partition_count
        number = partition_number(partition, count)
        if number == NO_PARTITION:
            return None
        key = ascii_or_bytes(key)
        value = ascii_or_bytes(value)
        if headers is not None:
            tail = regular_headers(headers, True)
            if tail is None:
                return None
        if not fill_plain_record(&record, value, key, tail, self._small_size):
            return None
        if timestamp_ms is None:
            record.timestamp_ms = self._wall_clock() if self._wall_clock is not NULL else self._wall_ms()
        elif not timestamp_number(timestamp_ms, &record.timestamp_ms):
            return None
        if record.timestamp_ms < 0:  # a clock before 1970
            return None
        future = new_future(self._future_type)
        # From here on there must be nothing but the write: see _append.pxd.
        if number == ANY_PARTITION:
            if record.key_size < 0 or self._ignores_keys:
                sticky = slots.sticky
                if sticky is None:
                    return None
                number = sticky.partition
            else:
                number = partition_of_key(record.key, record.key_size, count)
        slot = slot_of(slots, number)
        if slot is not None and slot.part is not None:
            # `slots` were there just now, so this is the transaction in which they were.
            transaction = (<FastPart?>slot.part).plane.transaction
            backlog = LEAVE if self._leaves_compression else COMPRESS
            for _ in range(MOST_CHOICES):
                appended = append_to_part(
                    <FastPart?>slot.part, &record, future, on_delivery, sticky, transaction, None, backlog
                )
                if appended != ELSEWHERE:
                    return future if appended == APPENDED else None
                sticky = next_choice(slots, sticky)
                if self._topics is None:
                    return None  # closed meanwhile, or this is the child of a fork
                slot = None if sticky is None else slot_of(slots, sticky.partition)
                if slot is None or slot.part is None:
                    return None
            return None
        appender = open_appender(slot, sticky)
        if appender is None or not appender.append_record(&record, future, on_delivery):
            return None
        if sticky is not None:
            count_record(sticky, record.key_size, record.value_size)
        return future


cdef FastSend fast_send_of(object producer):
    """The object in the slot ``_fast_send``. A lookup by name would take a fifth of the time of a send."""
    global _owner_type, _slot_offset
    cdef PyObject* found
    if _owner_type is NULL:
        descriptor = type(producer)._fast_send
        if PyObject_TypeCheck(descriptor, &PyMemberDescr_Type):
            _slot_offset = (<PyMemberDescrObject*>descriptor).d_member.offset
            _owner_type = <PyTypeObject*>descriptor.__objclass__
            Py_INCREF(descriptor.__objclass__)
    if _owner_type is not NULL and PyObject_TypeCheck(producer, _owner_type):
        found = (<PyObject**>(<char*><PyObject*>producer + _slot_offset))[0]
        if found is not NULL:
            return <FastSend?>(<object>found)
    return producer._fast_send


cdef PyObject* call_with_hints(PyObject* function, PyObject* const* arguments, size_t count, PyObject* names) except NULL:
    """``_compiled_call``; but a keyword that the function does not have is left to the hinted method to refuse."""
    cdef PyObject* result = _compiled_call(function, arguments, count, names)
    cdef PyObject* error_type
    cdef PyObject* error
    cdef PyObject* traceback
    if result is not NULL or names is NULL or not PyErr_ExceptionMatches(TypeError):
        return result
    PyErr_Fetch(&error_type, &error, &traceback)
    hinted = (<object>function).__wrapped__
    code = hinted.__wrapped__.__code__
    if set(<tuple>names) <= set(code.co_varnames[:code.co_argcount]):
        PyErr_Restore(error_type, error, traceback)
        return NULL
    Py_XDECREF(error_type)
    Py_XDECREF(error)
    Py_XDECREF(traceback)
    return PyObject_Vectorcall(<PyObject*>hinted, arguments, count, names)


def fast_send(hinted):
    """The method of an object with a slot ``_fast_send`` that ``hinted`` wraps, preceded by a compiled attempt."""
    global _compiled_call
    general = hinted.__wrapped__

    def send(self, topic, value=None, key=None, headers=None, partition=None, timestamp_ms=None,
             on_delivery=None):
        cdef FastSend fast = fast_send_of(self)
        cdef RecordFuture future
        if fast._takes_arguments:
            future = fast.try_send(topic, value, key, headers, partition, timestamp_ms, on_delivery)
            if future is not None:
                return future
        return general(self, topic, value, key, headers, partition, timestamp_ms, on_delivery)

    # A wrong keyword is a TypeError before `send` runs, so the hint has to be added by the caller of `send`. A Python
    # function around it would add 7 % to the cost of every call, and `**names` would build a dictionary for each.
    # Replacing the vectorcall of `send` costs nothing unless the call fails.
    # docs/decisions/0035-compiled-code-is-a-leaf.md
    _compiled_call = (<PyCFunctionObject*>send).vectorcall
    (<PyCFunctionObject*>send).vectorcall = <vectorcallfunc>call_with_hints
    return update_wrapper(send, hinted)

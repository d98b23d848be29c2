# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False, annotation_typing=False, binding=False
"""AvroRecordEncoder: dictionaries in Avro's binary encoding. ``kproducer._core.columns.avro_records`` explains plans.

Unsupported values and all errors, including exceptions from the application's ``__eq__``, are left to fastavro.
So all functions but the constructor use the C API directly, and an exception is one of their results.
Any call that may run Python code may also change the dictionaries and lists that are being written, from
another thread or in this one. So the writers hold a reference to each value while they write it.

Source: Avro specification 1.12, "Binary Encoding" and "Logical Types"; docs/decisions/0050-own-avro-encoders.md
"""

cimport cython
from cpython.object cimport PyObject
from libc.math cimport isinf
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from kproducer._core.kernel.native._batch cimport put_varint
from kproducer._core.columns.native._output cimport NO_MEMORY, WRITTEN, Output, put, put_number, reserve

cdef extern from *:
    """
    #include <datetime.h>
    #define KP_IMPORT_DATETIME() (PyDateTime_IMPORT, PyDateTimeAPI == NULL ? -1 : 0)
    #define KP_RAISED() (-1)
    #define KP_TIME_ZONE_UTC PyDateTime_TimeZone_UTC
    """
    int KP_IMPORT_DATETIME() except -1
    # Tells Cython that the C API has set an exception.
    int KP_RAISED() except -1
    PyObject* KP_TIME_ZONE_UTC
    bint PyDateTime_CheckExact(PyObject* value) noexcept
    bint PyDate_CheckExact(PyObject* value) noexcept
    bint PyDelta_Check(PyObject* value) noexcept
    int PyDateTime_GET_YEAR(PyObject* value) noexcept
    int PyDateTime_GET_MONTH(PyObject* value) noexcept
    int PyDateTime_GET_DAY(PyObject* value) noexcept
    int PyDateTime_DATE_GET_HOUR(PyObject* value) noexcept
    int PyDateTime_DATE_GET_MINUTE(PyObject* value) noexcept
    int PyDateTime_DATE_GET_SECOND(PyObject* value) noexcept
    int PyDateTime_DATE_GET_MICROSECOND(PyObject* value) noexcept
    PyObject* PyDateTime_DATE_GET_TZINFO(PyObject* value) noexcept
    int PyDateTime_DELTA_GET_DAYS(PyObject* value) noexcept
    int PyDateTime_DELTA_GET_SECONDS(PyObject* value) noexcept
    int PyDateTime_DELTA_GET_MICROSECONDS(PyObject* value) noexcept

cdef extern from "Python.h":
    PyObject* Py_None
    PyObject* Py_True
    PyObject* PyExc_Exception
    void Py_INCREF(PyObject* value) noexcept
    void Py_DECREF(PyObject* value) noexcept
    int Py_EnterRecursiveCall(const char* where) noexcept
    void Py_LeaveRecursiveCall() noexcept
    PyObject* PyErr_Occurred() noexcept
    bint PyErr_ExceptionMatches(PyObject* kind) noexcept
    void PyErr_Clear() noexcept
    PyObject* PyObject_CallOneArg(PyObject* function, PyObject* value) noexcept
    PyObject* PyObject_CallMethodNoArgs(PyObject* value, PyObject* name) noexcept
    bint PyBool_Check(PyObject* value) noexcept
    bint PyLong_CheckExact(PyObject* value) noexcept
    long long PyLong_AsLongLongAndOverflow(PyObject* value, int* overflow) noexcept
    double PyLong_AsDouble(PyObject* value) noexcept
    bint PyFloat_CheckExact(PyObject* value) noexcept
    double PyFloat_AS_DOUBLE(PyObject* value) noexcept
    bint PyUnicode_CheckExact(PyObject* value) noexcept
    bint PyUnicode_IS_COMPACT_ASCII(PyObject* value) noexcept
    void* PyUnicode_DATA(PyObject* value) noexcept
    Py_ssize_t PyUnicode_GET_LENGTH(PyObject* value) noexcept
    PyObject* PyUnicode_AsUTF8String(PyObject* value) noexcept
    bint PyBytes_CheckExact(PyObject* value) noexcept
    char* PyBytes_AS_STRING(PyObject* value) noexcept
    Py_ssize_t PyBytes_GET_SIZE(PyObject* value) noexcept
    object PyBytes_FromStringAndSize(const char* data, Py_ssize_t size)
    bint PyList_CheckExact(PyObject* value) noexcept
    Py_ssize_t PyList_GET_SIZE(PyObject* value) noexcept
    PyObject* PyList_GET_ITEM(PyObject* value, Py_ssize_t place) noexcept
    bint PyDict_CheckExact(PyObject* value) noexcept
    Py_ssize_t PyDict_Size(PyObject* value) noexcept
    PyObject* PyDict_GetItemWithError(PyObject* value, PyObject* key) noexcept
    int PyDict_Next(PyObject* value, Py_ssize_t* place, PyObject** key, PyObject** item) noexcept

cdef enum:
    # The numbers of ValueOperation.
    NULL_VALUE = 0
    BOOLEAN = 1
    INTEGER = 2
    FLOAT = 3
    DOUBLE = 4
    STRING = 5
    BYTES = 6
    FIXED = 7
    TIMESTAMP = 8
    DATE = 9
    ENUM = 10
    FASTAVRO = 11
    UNION = 12
    ARRAY = 13
    MAP = 14
    RECORD = 15
    # What writers return besides WRITTEN and NO_MEMORY. DECLINED: fastavro has to write the value. FAILED: an exception
    # is set.
    DECLINED = 1
    FAILED = -1
    _MOST_VARINT_BYTES = 10
    _SECONDS_PER_DAY = 86400
    _MOST_LEVELS = 900
    # How much memory is kept for the next record.
    _MOST_SPARE_BYTES = 1 << 20

cdef Py_ssize_t _MOST_BYTES = (<Py_ssize_t> 1) << (8 * sizeof(Py_ssize_t) - 4)

cdef struct Child:
    ValueNode* node
    PyObject* name              # of a field
    PyObject* default           # NULL: there is none
    uint64_t branch             # the number of the child in its union, zigzag


cdef struct ValueNode:
    int operation
    int64_t size
    PyObject* data
    Child* children
    Child* end                  # behind the last child


# The memory of the last record. An encoder takes it, and with it the right to write there: see encode().
cdef Output _spare
cdef object _utcoffset = "utcoffset"
cdef object _branch_key = "-type"

KP_IMPORT_DATETIME()


# -- values without parts ---------------------------------------------------------------------------------------

cdef inline int write_sized(Output* out, const char* data, Py_ssize_t size) noexcept:
    if not reserve(out, _MOST_VARINT_BYTES + size):
        return NO_MEMORY
    out.size = put_varint(out.data + out.size, <uint64_t> size << 1) - out.data
    return put(out, data, size)


cdef inline int write_text(Output* out, PyObject* value) noexcept:
    cdef PyObject* encoded
    cdef int code
    if not PyUnicode_CheckExact(value):
        return DECLINED
    if PyUnicode_IS_COMPACT_ASCII(value):
        return write_sized(out, <const char*> PyUnicode_DATA(value), PyUnicode_GET_LENGTH(value))
    # Not PyUnicode_AsUTF8AndSize, which stores the bytes in the application's string for its whole life.
    encoded = PyUnicode_AsUTF8String(value)
    if encoded == NULL:
        return FAILED
    code = write_sized(out, PyBytes_AS_STRING(encoded), PyBytes_GET_SIZE(encoded))
    Py_DECREF(encoded)
    return code


cdef inline int write_number(Output* out, int64_t number) noexcept:
    return put_number(out, (<uint64_t> number << 1) ^ <uint64_t> (number >> 63))


cdef inline int write_integer(Output* out, PyObject* value, bint is_long) noexcept:
    cdef int overflow = 0
    cdef int64_t number
    if not PyLong_CheckExact(value):
        return DECLINED
    number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or not (is_long or number == <int32_t> number):
        return DECLINED
    return write_number(out, number)


cdef int write_floating(Output* out, PyObject* value, bint is_double) noexcept:
    """Little-endian."""
    cdef double number
    cdef float single
    cdef uint64_t bits
    cdef uint32_t short_bits
    cdef int at
    if PyFloat_CheckExact(value):
        number = PyFloat_AS_DOUBLE(value)
    elif PyLong_CheckExact(value):
        number = PyLong_AsDouble(value)
        if number == -1 and PyErr_Occurred() != NULL:
            return FAILED
    else:
        return DECLINED
    if not reserve(out, 8):
        return NO_MEMORY
    if is_double:
        memcpy(&bits, &number, 8)
        for at in range(8):
            out.data[out.size + at] = <char> (bits >> (8 * at))
        out.size += 8
        return WRITTEN
    single = <float> number
    if isinf(single) and not isinf(number):
        return DECLINED
    memcpy(&short_bits, &single, 4)
    for at in range(4):
        out.data[out.size + at] = <char> (short_bits >> (8 * at))
    out.size += 4
    return WRITTEN


cdef int64_t days_since_epoch(PyObject* value) noexcept:
    """Of a date or datetime."""
    cdef int64_t year = PyDateTime_GET_YEAR(value)
    cdef int64_t month = PyDateTime_GET_MONTH(value)
    # In years that begin in March a leap day is the last one, and months have 153 days in each five.
    if month < 3:
        year -= 1
        month += 12
    return (365 * year + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5
            + PyDateTime_GET_DAY(value) - 719469)


cdef int64_t microseconds(int64_t days, int64_t seconds, int64_t rest) noexcept:
    return (days * _SECONDS_PER_DAY + seconds) * 1000000 + rest


cdef int write_datetime(Output* out, PyObject* value, int64_t unit) noexcept:
    cdef PyObject* time_zone = PyDateTime_DATE_GET_TZINFO(value)
    cdef PyObject* offset
    cdef int64_t number
    if time_zone == Py_None:
        return DECLINED
    number = microseconds(
        days_since_epoch(value),
        3600 * PyDateTime_DATE_GET_HOUR(value) + 60 * PyDateTime_DATE_GET_MINUTE(value) + PyDateTime_DATE_GET_SECOND(value),
        PyDateTime_DATE_GET_MICROSECOND(value),
    )
    if time_zone != KP_TIME_ZONE_UTC:
        offset = PyObject_CallMethodNoArgs(value, <PyObject*> _utcoffset)
        if offset == NULL:
            return FAILED
        if not PyDelta_Check(offset):
            Py_DECREF(offset)
            return DECLINED
        number -= microseconds(
            PyDateTime_DELTA_GET_DAYS(offset), PyDateTime_DELTA_GET_SECONDS(offset), PyDateTime_DELTA_GET_MICROSECONDS(offset)
        )
        Py_DECREF(offset)
    # C rounds towards zero.
    return write_number(out, (number if number >= 0 else number - unit + 1) // unit)


cdef int write_bytes(Output* out, PyObject* value) noexcept:
    """Bytes as they are, or DECLINED."""
    if not PyBytes_CheckExact(value):
        return DECLINED
    return put(out, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))


cdef int write_enum(Output* out, const ValueNode* node, PyObject* value) noexcept:
    cdef PyObject* encoded
    if not PyUnicode_CheckExact(value):
        return DECLINED
    encoded = PyDict_GetItemWithError(node.data, value)
    if encoded == NULL:
        return DECLINED if PyErr_Occurred() == NULL else FAILED
    return write_bytes(out, encoded)


cdef int write_with_fastavro(Output* out, const ValueNode* node, PyObject* value) noexcept:
    cdef PyObject* encoded = PyObject_CallOneArg(node.data, value)
    cdef int code
    if encoded == NULL:
        return FAILED
    code = write_bytes(out, encoded)
    Py_DECREF(encoded)
    return code


# -- values with parts ------------------------------------------------------------------------------------------

cdef int write_held(Output* out, const ValueNode* node, PyObject* value, int levels) noexcept:
    """Write a value to which the caller has a borrowed reference only."""
    cdef int code
    Py_INCREF(value)
    code = write_value(out, node, value, levels)
    Py_DECREF(value)
    return code


cdef int write_union(Output* out, const ValueNode* node, PyObject* value, int levels) noexcept:
    cdef Py_ssize_t before = out.size
    cdef const Child* child = node.children
    cdef int code
    if value == Py_None:
        return write_number(out, node.size) if node.size >= 0 else DECLINED
    while child != node.end:
        code = put_number(out, child.branch)
        if code == WRITTEN:
            code = write_value(out, child.node, value, levels)
        if code != DECLINED:
            return code
        out.size = before
        child += 1
    return DECLINED


cdef int write_array(Output* out, const ValueNode* node, PyObject* value, int levels) noexcept:
    cdef Py_ssize_t place = 0
    cdef Py_ssize_t count
    cdef int code
    if not PyList_CheckExact(value):
        return DECLINED
    count = PyList_GET_SIZE(value)
    code = write_number(out, count) if count else WRITTEN
    while place < count and code == WRITTEN:
        code = write_held(out, node.children[0].node, PyList_GET_ITEM(value, place), levels)
        if PyList_GET_SIZE(value) != count and code == WRITTEN:
            return DECLINED
        place += 1
    return write_number(out, 0) if code == WRITTEN else code


cdef int write_map(Output* out, const ValueNode* node, PyObject* value, int levels) noexcept:
    cdef Py_ssize_t place = 0
    cdef Py_ssize_t written = 0
    cdef Py_ssize_t count
    cdef PyObject* key
    cdef PyObject* item
    cdef int code
    if not PyDict_CheckExact(value):
        return DECLINED
    count = PyDict_Size(value)
    code = write_number(out, count) if count else WRITTEN
    while code == WRITTEN and PyDict_Next(value, &place, &key, &item):
        Py_INCREF(item)
        code = write_text(out, key)  # runs no Python code
        if code == WRITTEN:
            code = write_value(out, node.children[0].node, item, levels)
        Py_DECREF(item)
        written += 1
        if PyDict_Size(value) != count and code == WRITTEN:
            return DECLINED
    if code == WRITTEN and written != count:
        return DECLINED
    return write_number(out, 0) if code == WRITTEN else code


cdef int write_record(Output* out, const ValueNode* node, PyObject* value, int levels) noexcept:
    cdef const Child* child = node.children
    cdef Py_ssize_t found = 0
    cdef PyObject* item
    cdef int code
    if not PyDict_CheckExact(value):
        return DECLINED
    while child != node.end:
        item = PyDict_GetItemWithError(value, child.name)
        if item != NULL:
            found += 1
        elif PyErr_Occurred() != NULL:
            return FAILED
        elif child.default != NULL:
            item = child.default
        else:
            return DECLINED
        code = write_held(out, child.node, item, levels)
        if code != WRITTEN:
            return code
        child += 1
    if PyDict_Size(value) != found:
        if node.size or PyDict_GetItemWithError(value, <PyObject*> _branch_key) != NULL:
            return DECLINED
        if PyErr_Occurred() != NULL:
            return FAILED
    return WRITTEN


cdef int write_value(Output* out, const ValueNode* node, PyObject* value, int levels) noexcept:
    """Write a value that the caller holds, within so many others. Returns WRITTEN, DECLINED, FAILED or NO_MEMORY."""
    cdef int operation = node.operation
    cdef int code
    if operation == NULL_VALUE:
        return WRITTEN if value == Py_None else DECLINED
    if operation == BOOLEAN:
        return put_number(out, value == Py_True) if PyBool_Check(value) else DECLINED
    if operation == INTEGER:
        return write_integer(out, value, node.size == 64)
    if operation == FLOAT or operation == DOUBLE:
        return write_floating(out, value, operation == DOUBLE)
    if operation == STRING:
        return write_text(out, value)
    if operation == BYTES:
        if not PyBytes_CheckExact(value):
            return DECLINED
        return write_sized(out, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
    if operation == FIXED:
        if not PyBytes_CheckExact(value) or PyBytes_GET_SIZE(value) != node.size:
            return DECLINED
        return write_bytes(out, value)
    if operation == TIMESTAMP:
        if PyDateTime_CheckExact(value):
            return write_datetime(out, value, node.size)
        return write_integer(out, value, True)
    if operation == DATE:
        if PyDate_CheckExact(value):
            return write_number(out, days_since_epoch(value))
        return write_integer(out, value, False)
    if operation == ENUM:
        return write_enum(out, node, value)
    if operation == FASTAVRO:
        return write_with_fastavro(out, node, value)
    if operation == UNION:
        return write_union(out, node, value, levels)
    # Values may contain themselves, and some versions of CPython allow more levels than the stack of a thread has room
    # for.
    if levels == _MOST_LEVELS:
        return DECLINED
    if Py_EnterRecursiveCall(" while a value is written in Avro"):
        return FAILED
    if operation == ARRAY:
        code = write_array(out, node, value, levels + 1)
    elif operation == MAP:
        code = write_map(out, node, value, levels + 1)
    else:
        code = write_record(out, node, value, levels + 1)
    Py_LeaveRecursiveCall()
    return code


# -- the encoder ------------------------------------------------------------------------------------------------

@cython.final
@cython.no_gc_clear  # the nodes point to objects without counting
cdef class AvroRecordEncoder:
    """Writes the values of one schema. Thread-safe.

    Args:
        nodes: ``ValueNode`` of ``kproducer._core.columns.avro_records``; the first one is the outermost record.
        prefix: what each result begins with.
        with_fastavro: encodes the values that the plan declines, with the prefix.

    Raises:
        TypeError, ValueError, OverflowError: a node is not as ``avro_records`` describes it.
    """

    # These keep the objects alive to which the nodes point.
    cdef list _described
    cdef bytes _prefix
    cdef object _with_fastavro
    cdef ValueNode* _nodes
    cdef Py_ssize_t _count

    def __cinit__(self, tuple nodes not None, bytes prefix not None, with_fastavro):
        cdef Py_ssize_t number
        self._described = []
        self._prefix = prefix
        self._with_fastavro = with_fastavro
        self._nodes = <ValueNode*> calloc(len(nodes) + 1, sizeof(ValueNode))
        if self._nodes == NULL:
            raise MemoryError
        self._count = len(nodes)
        for number in range(self._count):
            self._add(&self._nodes[number], nodes[number])
        if self._nodes[0].operation != RECORD:
            raise ValueError("nodes: expected a record first")

    cdef tuple _kept(self, described):
        """An immutable copy of what describes a node or a child."""
        cdef tuple kept = tuple(described)
        self._described.append(kept)
        return kept

    cdef int _add(self, ValueNode* node, described) except -1:
        cdef tuple parts = self._kept(described)
        cdef tuple children
        if len(parts) != 4:
            raise ValueError("nodes: expected four parts of a node")
        children = parts[1]
        node.operation = parts[0]
        node.size = parts[2]
        node.data = <PyObject*> parts[3]
        node.children = node.end = <Child*> calloc(len(children) + 1, sizeof(Child))
        if node.children == NULL:
            raise MemoryError
        for described in children:
            self._add_child(node, self._kept(described))
        if (
            not NULL_VALUE <= node.operation <= RECORD
            or (node.operation in (ARRAY, MAP) and len(children) != 1)
            or (node.operation == ENUM and type(parts[3]) is not dict)
            or (node.operation == TIMESTAMP and not 0 < node.size <= 1000000)
        ):
            raise ValueError("nodes: not a node, see ValueOperation")
        return 0

    cdef int _add_child(self, ValueNode* node, tuple parts) except -1:
        cdef Child* child = node.end
        cdef tuple default
        cdef Py_ssize_t number
        if len(parts) != 3:
            raise ValueError("nodes: expected three parts of a child")
        number = parts[0]
        default = parts[2]
        # A union comes after its branches in the list, because otherwise it could contain itself.
        if not 0 <= number < self._count or (node.operation == UNION and &self._nodes[number] >= node):
            raise ValueError("nodes: the number of a child is wrong")
        child.node = &self._nodes[number]
        child.name = <PyObject*> parts[1]
        if node.operation == UNION:
            child.branch = <uint64_t> <int64_t> parts[1] << 1
        if default:
            child.default = <PyObject*> default[0]
        node.end += 1
        return 0

    def __dealloc__(self):
        cdef Py_ssize_t number
        for number in range(self._count):
            free(self._nodes[number].children)
        free(self._nodes)

    def encode(self, value, /):
        """The prefix and the value; of a value that the plan declines, what ``with_fastavro`` returns.

        Raises:
            Exception: of ``with_fastavro``.
        """
        global _spare
        # Taken over, not shared: while Python code runs, another record may be written.
        cdef Output out = _spare
        cdef object data = None
        cdef int code
        _spare.data = NULL
        _spare.room = 0
        out.size = 0
        out.most = _MOST_BYTES
        code = put(&out, self._prefix, len(self._prefix))
        if code == WRITTEN:
            code = write_record(&out, self._nodes, <PyObject*> value, 1)
        try:
            if code == WRITTEN:
                data = PyBytes_FromStringAndSize(out.data, out.size)
        finally:
            if _spare.data == NULL and out.room <= _MOST_SPARE_BYTES:
                _spare.data = out.data
                _spare.room = out.room
            else:
                free(out.data)
        if data is not None:
            return data
        if code == FAILED:
            if not PyErr_ExceptionMatches(PyExc_Exception):
                KP_RAISED()  # such as KeyboardInterrupt
            # The exception is cleared before fastavro runs: fastavro's error must not have it as context.
            PyErr_Clear()
        return self._with_fastavro(value)

# Appends one record to the open batch of its partition; for the other compiled modules.
#
# The rule: a compiled append takes no lock, because nothing else can run between reading `AppendSlot.appender`
# and the end of the write. So everything that may run Python code comes before that: conversions, and every
# allocation (the collector may run in one, and with it the application's __del__): new_future().
# Code that writes WITHOUT the interpreter lock, moves a writer's limit or rewinds it must hold `AppendSlot.lock`,
# take the appender out of the slot first, and put it back at the end (see PartitionQueue).
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.long cimport PyLong_CheckExact
from cpython.unicode cimport PyUnicode_AsUTF8String

from kproducer.kernel.native._batch cimport BatchWriter, Record, is_nearly_full
from kproducer.kernel.native._completion cimport BatchOutcome, Deliveries, RecordFuture


cdef class RecordAppender:
    cdef readonly BatchWriter writer
    cdef readonly object owner
    cdef readonly BatchOutcome outcome
    cdef readonly object future_type
    cdef readonly Deliveries deliveries

    # Writes the record and binds `future` to it. `on_delivery` may be None.
    # 1: done; 0: no room, nothing has changed.
    cdef int append_record(self, Record* record, RecordFuture future, object on_delivery) except -1


cdef class AppendSlot:
    cdef public RecordAppender appender
    cdef readonly object lock


cdef class StickyPartition:
    cdef readonly Py_ssize_t partition
    cdef public long long produced_bytes
    cdef readonly long long switch_at_bytes
    cdef readonly long long force_switch_at_bytes
    cdef readonly long long record_overhead_bytes


# Whether it may be time to switch to another partition: the general path decides.
cdef inline bint should_switch_partition(StickyPartition sticky, BatchWriter writer) noexcept nogil:
    return sticky.produced_bytes >= sticky.switch_at_bytes and (
        sticky.produced_bytes >= sticky.force_switch_at_bytes
        or is_nearly_full(writer)
    )


# Counts a record that was appended. A null has the size -1.
cdef inline void count_record(StickyPartition sticky, Py_ssize_t key_size, Py_ssize_t value_size) noexcept nogil:
    sticky.produced_bytes += sticky.record_overhead_bytes + max(key_size, 0) + max(value_size, 0)


cdef class TopicSlots:
    cdef public list slots
    cdef public StickyPartition sticky
    cdef public Py_ssize_t partition_count

    # The slot of a partition, or None: nothing was sent there yet. The caller need not keep a reference.
    cdef AppendSlot slot(self, Py_ssize_t partition)
    # Appends to the open batch of the sticky partition. 0: not appended, nothing has changed: there is no sticky
    # partition, no open batch or no room, or it may be time to switch.
    cdef int append_sticky_record(self, Record* record, RecordFuture future, object on_delivery) except -1


# -- arguments of send and send_many ----------------------------------------------------------------------------

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    void* PyUnicode_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) except? -1


cdef enum:
    ANY_PARTITION = -1
    NO_PARTITION = -2


cdef inline Py_ssize_t partition_number(object partition, Py_ssize_t count) except? -3:
    """The number of an existing partition, ``ANY_PARTITION`` for ``None``, else ``NO_PARTITION``."""
    cdef int overflow = 0
    cdef long long number
    if count <= 0:
        return NO_PARTITION
    if partition is None:
        return ANY_PARTITION
    if not PyLong_CheckExact(partition):
        return NO_PARTITION
    number = PyLong_AsLongLongAndOverflow(partition, &overflow)
    return NO_PARTITION if overflow or number < 0 or number >= count else <Py_ssize_t>number


cdef inline int timestamp_number(object timestamp_ms, long long* number) except -1:
    """Milliseconds since the epoch; unchanged for ``None``; 0: neither."""
    cdef int overflow = 0
    if timestamp_ms is None:
        return 1
    if not PyLong_CheckExact(timestamp_ms):
        return 0
    number[0] = PyLong_AsLongLongAndOverflow(timestamp_ms, &overflow)
    return not overflow and number[0] >= 0


cdef inline object ascii_or_bytes(str text):
    """ASCII text as it is, other text as UTF-8; ``text`` itself if it cannot be encoded."""
    if PyUnicode_IS_COMPACT_ASCII(text):
        return text
    try:
        return PyUnicode_AsUTF8String(text)
    except UnicodeEncodeError:
        return text


cdef inline bint point_to(object data, const char** start, Py_ssize_t* size) noexcept:
    """Find bytes, or the characters of a text from ``ascii_or_bytes``. ``False``: neither."""
    start[0] = NULL
    size[0] = -1
    if data is None:
        return True
    if PyBytes_CheckExact(data):
        start[0] = PyBytes_AS_STRING(data)
        size[0] = PyBytes_GET_SIZE(data)
        return True
    if type(data) is str and PyUnicode_IS_COMPACT_ASCII(data):
        start[0] = <const char*>PyUnicode_DATA(data)
        size[0] = PyUnicode_GET_LENGTH(data)
        return True
    return False

# Appends one record to the open batch of its partition; for the other compiled modules.
#
# The rule: outside of lanes a compiled append takes no lock, because nothing else can run between reading
# `AppendSlot.appender` and the end of the write. So everything that may run Python code comes before that: conversions, and every
# allocation (the collector may run in one, and with it the application's __del__): new_future().
# Code that writes WITHOUT the interpreter lock, moves a writer's limit or rewinds it must hold `AppendSlot.lock`,
# take the appender out of the slot first, and put it back at the end (see PartitionQueue).
# docs/decisions/0022-no-lock-in-send.md
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.long cimport PyLong_CheckExact
from cpython.unicode cimport PyUnicode_AsUTF8String, PyUnicode_CheckExact

from kproducer._core.kernel.native._batch cimport BatchWriter, Record, is_nearly_full
from kproducer._core.kernel.native._completion cimport BatchOutcome, Deliveries, RecordFuture, _LazyResult


cdef class RecordAppender:
    cdef readonly BatchWriter writer
    cdef readonly object batch_result
    cdef readonly BatchOutcome outcome
    cdef readonly object future_type
    # Public to compiled code alone, which may move them.
    cdef readonly Deliveries deliveries
    # For bulk calls: the id of the RowSender or ArrowRows that used this appender last, and the number that the result has
    # there.
    cdef long long row_sender_id
    cdef int result_number

    # Writes the record and binds `future` to it. `on_delivery` may be None.
    # 1: done; 0: no room, nothing has changed.
    cdef int append_record(self, Record* record, RecordFuture future, object on_delivery) except -1


cdef class AppendSlot:
    cdef public RecordAppender appender
    cdef public object part
    cdef readonly object lock


cdef class StickyPartition:
    cdef readonly Py_ssize_t partition
    cdef readonly long long least_bytes
    cdef public long long produced_bytes
    cdef readonly long long switch_at_bytes
    cdef readonly long long force_switch_at_bytes
    cdef readonly long long record_overhead_bytes


# Whether it may be time to switch to another partition; then the general path decides.
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
    cdef public object choose


cdef inline AppendSlot slot_of(TopicSlots topic, Py_ssize_t partition):
    """The slot of a partition; ``None``: nothing was sent there yet."""
    cdef list slots = topic.slots
    if slots is None or partition < 0 or partition >= PyList_GET_SIZE(slots):
        return None
    if <object>PyList_GET_ITEM(slots, partition) is None:
        return None
    return <AppendSlot?>(<object>PyList_GET_ITEM(slots, partition))


cdef inline RecordAppender open_appender(AppendSlot slot, StickyPartition sticky):
    """The appender of the partition's open batch.

    Args:
        slot: the partition's; ``None``: it has none.
        sticky: its ``StickyPartition``, if the partition was chosen for that reason.

    Returns:
        ``None``: there is no open batch, or it may be time to switch to another sticky partition.
    """
    if slot is None or slot.appender is None:
        return None
    if sticky is not None and should_switch_partition(sticky, slot.appender.writer):
        return None
    return slot.appender


cdef enum:
    # At most this many sticky partitions are tried for a record (in a bulk call, after the first one): there may be a
    # single partition, with too little room left in its batch.
    MOST_CHOICES = 3


cdef inline StickyPartition next_choice(TopicSlots slots, StickyPartition sticky):
    """The choice after ``sticky``, made now unless another thread has made it. ``None``: the general path makes it."""
    if slots.choose is None:
        return None
    chosen = slots.choose()
    if chosen is None:
        return None
    # No Python code runs in between.
    if slots.sticky is sticky:
        slots.sticky = <StickyPartition?>chosen
    return slots.sticky


# A new id for an object that numbers results: see RecordAppender.
cdef long long new_sender_id() noexcept


cdef inline object result_of(RecordAppender appender):
    """The ``ProduceRequestResult`` of the batch. The first call makes it, in Python, if the batch is in a lane."""
    cdef object owner = appender.batch_result
    return (<_LazyResult>owner).result if isinstance(owner, _LazyResult) else owner


cdef inline int number_of(object batch_result, dict numbers) except -1:
    """The number of a batch's result; a new result gets the next one. ``numbers`` is ``None``: all get 0."""
    return 0 if numbers is None else numbers.setdefault(batch_result, len(numbers))


cdef inline int meet(RecordAppender appender, long long sender_id, dict numbers) except -1:
    """Number the result of its batch for a bulk call. May run Python code."""
    appender.result_number = number_of(result_of(appender), numbers)
    appender.row_sender_id = sender_id
    return 0


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


cdef inline object ascii_or_bytes(object data):
    """Text as UTF-8, unless its characters are its bytes; everything else as it is."""
    if not PyUnicode_CheckExact(data) or PyUnicode_IS_COMPACT_ASCII(data):
        return data
    try:
        return PyUnicode_AsUTF8String(data)
    except UnicodeEncodeError:
        return data


cdef inline bint point_to(object data, const char** start, Py_ssize_t* size) noexcept:
    """Find the bytes of a result of ``ascii_or_bytes``. ``False``: it has none."""
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


cdef inline bint fill_plain_record(Record* record, object value, object key, bytes headers,
                                   Py_ssize_t small_size) noexcept:
    """Point to value and key from ``ascii_or_bytes`` and headers from ``regular_headers``, which the caller keeps.

    Returns:
        ``False``: one of them has no bytes, or together they have more than ``small_size``.
    """
    record.headers = NULL
    record.headers_size = 0
    if headers is not None:
        record.headers = PyBytes_AS_STRING(headers)
        record.headers_size = PyBytes_GET_SIZE(headers)
    if not (point_to(value, &record.value, &record.value_size) and point_to(key, &record.key, &record.key_size)):
        return False
    # Null has the size -1 and takes no room.
    return max(record.key_size, 0) + max(record.value_size, 0) + record.headers_size <= small_size

# The way of one record into its partition's open batch, for the other compiled rooms.
#
# The rule of this room: no lock is taken, because nothing else can run between the look at `Lane.appender` and
# the end of the write. So everything that may run Python code comes before the look: conversions, and every
# allocation (the collector may run in one, and with it anybody's __del__): new_future().
# Whoever writes WITHOUT the interpreter lock, moves a writer's limit or rewinds it, holds `queue.lock`, has
# taken the appender out of its lane before, and puts it back (RecordAccumulator does, see _open_lane) at the end.
from kproducer.kernel.native._batch cimport BatchWriter, is_nearly_full
from kproducer.kernel.native._completion cimport BatchOutcome, Deliveries, RecordFuture


# A record ready to be written. The pointers belong to objects that the caller keeps.
cdef struct Record:
    long long timestamp_ms
    const char* key
    Py_ssize_t key_size
    const char* value
    Py_ssize_t value_size
    const char* headers
    Py_ssize_t headers_size


cdef class RecordAppender:
    cdef readonly BatchWriter writer
    cdef readonly object owner
    cdef readonly BatchOutcome outcome
    cdef readonly object future_type
    cdef readonly Deliveries deliveries

    # Writes the record and makes `future` the promise of it. `on_delivery`: who wants to know, or None.
    # 1: done; 0: no room, nothing has changed.
    cdef int append_record(self, Record* record, RecordFuture future, object on_delivery) except -1


cdef class Lane:
    cdef public RecordAppender appender


cdef class StickyPartition:
    cdef public Py_ssize_t partition
    cdef public long long produced_bytes
    cdef public long long switch_at_bytes
    cdef public long long force_switch_at_bytes


# Whether so much was sent to a partition that it is time for another one.
cdef inline bint stay_ends(StickyPartition sticky, BatchWriter writer) noexcept nogil:
    return sticky.produced_bytes >= sticky.switch_at_bytes and (
        sticky.produced_bytes >= sticky.force_switch_at_bytes
        or is_nearly_full(writer)
    )


cdef class StickyChoice:
    cdef public StickyPartition current


cdef class TopicLanes:
    cdef public list lanes
    cdef public StickyChoice partitioner
    # What the partition count was looked up in: the same object means that nothing has changed.
    cdef object _snapshot
    cdef Py_ssize_t _partition_count

    # The number of partitions in `snapshot`; 0: the topic is not in it.
    cdef Py_ssize_t partition_count(self, str topic, object snapshot) except -1
    # The lane of a partition, or None: nothing was sent there yet. The caller need not keep it.
    cdef Lane lane(self, Py_ssize_t partition)
    # The appender of the sticky choice's open batch, or None.
    cdef RecordAppender sticky_appender(self)
    # Writes to the sticky choice's open batch; 0: there is no choice, no batch or no room.
    cdef int append_sticky_record(self, Record* record, RecordFuture future, object on_delivery,
                                  object snapshot) except -1


cdef class SendPath:
    cdef bint _usual
    cdef bint _ignores_keys
    cdef bint _reads_system_clock
    cdef bint _serializes_key
    cdef bint _serializes_value
    cdef Py_ssize_t _small_size
    cdef object _wall_ms
    cdef object _future_type
    cdef object _key_bytes
    cdef object _value_bytes
    cdef object _header_pairs
    # All of the running engine; None while there is none.
    cdef object _metadata
    cdef dict _topics
    cdef object _last_topic
    cdef TopicLanes _last_lanes

    cdef TopicLanes lanes_of(self, str topic)
    cdef object send_serialized(self, TopicLanes lanes, object topic, object snapshot, object value, object key,
                                object headers, object partition, object timestamp_ms, object on_delivery)
    cdef RecordFuture quick(self, TopicLanes lanes, object snapshot, Py_ssize_t count, object value, object key,
                            object headers, object partition, object timestamp_ms, object on_delivery,
                            bint text_headers)

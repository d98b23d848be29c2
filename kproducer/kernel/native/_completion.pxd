# How the fate of a batch reaches those who sent its records, for the other compiled rooms.

# The decided outcome of a batch, as kproducer.accumulator.future_record_metadata keeps it; guarded by its lock.
cdef class BatchOutcome:
    cdef public object topic_partition
    cdef public object error
    cdef public object parts
    cdef public object _record_errors
    cdef public long long base_offset
    cdef public long long log_append_time_ms
    cdef public unsigned long _firing_thread_id
    cdef public bint done
    cdef public bint _settled

    # A RecordMetadata.
    cdef object metadata(self, long long index, long long timestamp_ms, Py_ssize_t key_size,
                         Py_ssize_t value_size)


cdef class RecordFuture:
    cdef public object _owner
    cdef public long long _index
    cdef public long long _timestamp_ms
    cdef public Py_ssize_t _key_size
    cdef public Py_ssize_t _value_size


# A new FutureRecordMetadata, empty, and not tracked by the garbage collector.
cdef RecordFuture new_future()


# One record's on_delivery, and what its metadata needs. The numbers are 32 bits in a batch, too.
cdef struct Delivery:
    void* on_delivery
    long long timestamp_ms
    int index
    int key_size
    int value_size


cdef class Deliveries:
    cdef Delivery* _entries
    cdef Py_ssize_t _count
    cdef Py_ssize_t _room

    # Makes room for one more; runs no Python code, and neither does `push`, which needs that room.
    cdef int reserve(self) except -1
    cdef void push(self, object on_delivery, long long index, long long timestamp_ms, Py_ssize_t key_size,
                   Py_ssize_t value_size) noexcept
    # Lets go of the callbacks from `start` to `end`, and of the memory.
    cdef void drop(self, Delivery* entries, Py_ssize_t start, Py_ssize_t end) noexcept

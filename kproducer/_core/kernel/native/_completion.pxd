# How the outcome of a batch reaches the records' futures and callbacks, for the other compiled modules.

# The outcome of a batch, written once under the lock of kproducer._core.accumulator.future_record_metadata.
cdef class BatchOutcome:
    cdef public object topic_partition
    cdef public object metadata_type
    cdef public object error
    cdef public long long base_offset
    cdef public long long log_append_time_ms
    cdef public unsigned long firing_thread_id
    cdef public bint settled
    cdef public bint done
    cdef public bint is_split

    cpdef bint is_readable(self) noexcept
    # Makes a new `metadata_type` for the record with this index.
    cpdef object metadata(self, long long index, long long timestamp_ms, Py_ssize_t key_size, Py_ssize_t value_size)


# A ProduceRequestResult that is made when something asks for it: the result of most batches is never looked at.
cdef class _LazyResult:
    cdef readonly BatchOutcome outcome
    cdef object _made
    cdef object _make
    # Locks of threads that wait and have not made the result. Released with the interpreter lock.
    cdef list _waiting
    # The thread that may not wait: that of the I/O.
    cdef unsigned long io_thread_id

    cdef void release(self) noexcept


# The base of FutureRecordMetadata, and the one compiled class that has a subclass.
cdef class RecordFuture:
    # The ProduceRequestResult, or a _LazyResult. `_batch_result` is always the former.
    cdef object _owner
    cdef public BatchOutcome _outcome
    cdef public long long _timestamp_ms
    cdef public int _index
    cdef public int _key_size
    cdef public int _value_size


# A new, empty future of this type, not tracked by the garbage collector.
cdef RecordFuture new_future(object future_type)


# One record's on_delivery, and what its metadata needs. 32 bits are enough, as in the batch itself.
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

    # Makes room for one more. Neither this nor `push`, which needs that room, runs Python code.
    cdef int reserve(self) except -1
    cdef void push(self, object on_delivery, long long index, long long timestamp_ms, Py_ssize_t key_size,
                   Py_ssize_t value_size) noexcept
    # Releases the callbacks from `start` to `end`, then frees the memory.
    cdef void drop(self, Delivery* entries, Py_ssize_t start, Py_ssize_t end) noexcept

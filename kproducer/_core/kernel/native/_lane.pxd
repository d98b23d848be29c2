# The objects around the structures of plane.h.
from libc.stdint cimport int64_t

from kproducer._core.kernel.native._append cimport RecordAppender, StickyPartition
from kproducer._core.kernel.native._batch cimport Record
from kproducer._core.kernel.native._completion cimport RecordFuture, _LazyResult
from kproducer._core.kernel.native.plane cimport KpBatch, KpCodec, KpLane, KpPart, KpPlane, KpRequest, KpStep, KpTopic
from kproducer._core.runtime._native_eventfd cimport EventDescriptor


cdef class Codec:
    cdef KpCodec *c


cdef class Plane:
    cdef KpPlane c
    cdef Codec _codec
    cdef readonly dict incomplete
    cdef list _lanes
    cdef KpStep step
    # `step.wake_fd` is its descriptor. None: there is `_on_wake`, or the plane is closed.
    cdef EventDescriptor _wakeup
    cdef object _future_type, _metadata_type, _make_result, _allocate, _deallocate
    cdef object _now_ms, _on_wake, _memory_waiters
    cdef int64_t _gathered_since_ms
    cdef unsigned long io_thread_id
    cdef tuple _sizes
    cdef Py_ssize_t _batch_size, _largest_bytes, _first_bytes, _memory_bytes
    # The transaction that takes records: any thread reads it, with the interpreter lock. None: there is none.
    cdef readonly object transaction
    cdef bint _adds_partitions
    cdef object _last_transaction, _on_refusal

    cdef int wake(self) except -1
    # A clock in Python is not called with a lock, so its time is read before; 0: the clock is the system's.
    cdef int64_t early_ms(self) except -1
    cdef Py_ssize_t buffer_bytes(self, Py_ssize_t wanted, Py_ssize_t most) noexcept
    cdef Py_ssize_t next_size(self, Py_ssize_t wanted) noexcept


cdef class FastLane:
    cdef KpLane c
    cdef readonly Plane plane
    cdef readonly object owner
    cdef bytes _fields
    cdef object _send
    cdef dict _parts
    cdef list _topics
    # Counted with the interpreter lock; the I/O thread adds them to its metrics and sets them to 0.
    cdef public double requests, request_bytes, request_bytes_max, response_bytes, response_bytes_max
    cdef public double latency_ms, latency_ms_max, batches, batch_bytes, batch_bytes_max, records, records_max
    cdef public double queue_ms, queue_ms_max, plain_bytes, compression, compression_max

    cdef settle_request(self, KpRequest *request, int64_t now_ms)
    cdef count_request(self, KpRequest *request, int64_t now_ms)


cdef class FastTopic:
    cdef KpTopic c
    cdef readonly str name
    cdef bytes _encoded
    cdef object _ratio
    cdef Py_ssize_t _room
    cdef public double batches, records, records_max, batch_bytes, batch_bytes_max, compression, compression_max

    cdef int add(self, FastPart part) except -1


cdef class FastBatch(_LazyResult):
    cdef KpBatch c
    # Held while a caller compresses it; None: no caller has.
    cdef readonly object compression_lock
    cdef readonly RecordAppender appender
    cdef readonly FastPart part
    # Its place in the sending order of the partition.
    cdef readonly long long order
    # What it is now, once it was handed back.
    cdef readonly object successor

    cdef succeed(self)
    cdef abandon(self)


cdef class FastPart:
    cdef KpPart c
    cdef readonly Plane plane
    cdef readonly FastTopic topic
    cdef readonly FastLane lane
    cdef readonly object topic_partition
    cdef public bint fills_batches
    cdef readonly bint is_refusing
    # Written while it is not armed; read with its lock.
    cdef public object added_to
    cdef public long long next_order
    # What `disarm` has returned, until the caller has it.
    cdef public list detached

    cdef FastBatch adopted(self, row)


# What happens to a full batch if the I/O thread has enough to compress.
cdef enum Backlog:
    COMPRESS        # the caller compresses it
    LEAVE           # the I/O thread will, as the caller must not be blocked
    RETURN_CLOSED   # the caller may, after it has released the locks that it holds

cdef enum Appended:
    NOT_APPENDED    # the general path has to do it, nothing has changed
    APPENDED
    CLOSED          # only with RETURN_CLOSED: the open batch has no room, and was closed
    ELSEWHERE       # only with `sticky`: the batch is at its end, and the record is to go to another partition

# Appends to the armed partition. Returns one of `Appended`.
# `sticky`: why it was chosen. `transaction`: to which the record belongs. `given`: a batch without records that may be
# used.
cdef int append_to_part(FastPart part, Record* record, RecordFuture future, object on_delivery,
                        StickyPartition sticky, object transaction, FastBatch given, Backlog backlog) except -1


# The others are for bulk calls, which have a `sender_id` and a number for each batch's result: see RecordAppender, `meet`.

# Appends one row to an armed partition: a batch is begun, or grows. Returns one of `Appended`.
# `future`: new. `number`: is set to that of the batch's result if the record is accepted, even if this raises.
cdef int append_alone(FastPart part, Record* record, RecordFuture future, StickyPartition sticky, object transaction,
                      dict numbers, int* number) except -1

# Takes the lock of an armed partition, for rows to be written to its open batch, whose result has its number. None: the
# lock is not held, because there is no such batch, or it does not take records of this transaction, or the sticky
# partition has to change. No reference may be dropped before `leave_open`.
cdef FastBatch take_open(FastPart part, StickyPartition sticky, object transaction, long long sender_id, dict numbers,
                         int64_t early_ms)

# Notes what was written, and releases that lock. Whether to wake the I/O thread.
cdef bint leave_open(FastBatch batch, int64_t early_ms) noexcept nogil

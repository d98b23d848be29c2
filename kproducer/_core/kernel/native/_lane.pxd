# Binds plane.h, which describes structures, owners, locks and events.
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kproducer._core.kernel.native._append cimport RecordAppender, StickyPartition
from kproducer._core.kernel.native._batch cimport Record
from kproducer._core.kernel.native._completion cimport RecordFuture, _LazyResult

cdef extern from "plane.h" nogil:
    int64_t KP_NEVER_MS
    ctypedef enum kp_frame:
        KP_FRAME_MORE
        KP_FRAME_DONE
        KP_FRAME_FOREIGN
        KP_FRAME_UNUSUAL
    ctypedef struct KpPlane:
        int64_t linger_ms, request_timeout_ms, delivery_timeout_ms, longest_open_ms
        bint is_transactional
        int64_t generation
    ctypedef struct KpTopic:
        KpPart **parts
        int32_t part_count
        const unsigned char *name
        int32_t name_size
        unsigned char id[16]
        bint has_id
    ctypedef struct KpPart:
        KpLane *lane
        KpTopic *topic
        KpBatch *open
        KpBatch *head
        KpBatch *flying_first
        int32_t index
        void *owner
        bint is_numbered
        int16_t producer_epoch
        int32_t next_sequence, last_acked_sequence, settled_count
        int64_t producer_id, acknowledged_ms, generation
    ctypedef struct KpBatch:
        KpBatch *next
        KpPart *part
        void *owner
        unsigned char *data
        int64_t end, base_timestamp_ms, max_timestamp_ms, begun_ms, closed_ms, base_offset, log_append_time_ms
        int64_t producer_id
        int32_t sequence
        int16_t producer_epoch
        int32_t record_count
        uint8_t state
    cdef struct iovec:
        void *iov_base
        size_t iov_len
    ctypedef int64_t (*kp_send)(void *socket, const iovec *pieces, int count) noexcept nogil
    ctypedef struct KpRequest:
        KpRequest *next
        int32_t correlation_id, batch_count, topic_count, piece_count, next_piece
        int64_t sent_ms, frame_bytes, bytes_left, response_bytes
        KpBatch **batches
        iovec *pieces
    ctypedef struct KpLane:
        KpPlane *plane
        int fd
        kp_send send
        void *socket
        int16_t version
        int32_t most_in_flight, fields_size, next_correlation_id, foreign, in_flight, done_count
        int64_t most_request_bytes, partial_size
        const unsigned char *fields
        unsigned char *partial
        unsigned char *held
        int64_t held_size
        void *owner
        bint armed, stalled, behind_python, needs_python, has_uncounted
        KpRequest *first
    ctypedef struct KpStep:
        KpPlane *plane
        KpLane **lanes
        Py_ssize_t lane_count
        int wake_fd
        void (*set_sleep)(KpPlane *plane, int64_t until_ms) noexcept nogil
        int64_t (*next_ms)(KpLane *lane) noexcept nogil
        int64_t (*expiry_ms)(KpLane *lane) noexcept nogil
        int (*drain)(KpLane *lane, int64_t now_ms) noexcept nogil
        int (*write)(KpLane *lane) noexcept nogil
        kp_frame (*receive)(KpLane *lane, const unsigned char *data, int64_t size, int64_t *consumed,
                            const unsigned char **frame, int64_t *frame_size) noexcept nogil
        bint (*hold)(KpLane *lane, const unsigned char *data, int64_t size) noexcept nogil
        int64_t (*take_held)(KpLane *lane, unsigned char *target) noexcept nogil


cdef class Plane:
    cdef KpPlane c
    cdef readonly dict incomplete
    cdef list _lanes
    cdef KpStep step
    cdef object _future_type, _metadata_type, _make_result, _allocate, _deallocate
    cdef object _now_ms, _on_wake, _memory_waiters
    cdef int64_t _gathered_since_ms
    cdef unsigned long io_thread_id
    cdef tuple _sizes
    cdef Py_ssize_t _batch_size, _first_bytes, _share_bytes
    # The transaction that takes records: any thread reads it, with the interpreter lock. None: there is none.
    cdef readonly object transaction
    cdef bint _adds_partitions
    cdef object _last_transaction, _on_refusal

    cdef int wake(self) except -1
    cdef int64_t next_ms(self) noexcept
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
    cdef public double queue_ms, queue_ms_max

    cdef settle_request(self, KpRequest *request, int64_t now_ms)


cdef class FastTopic:
    cdef KpTopic c
    cdef readonly str name
    cdef bytes _encoded
    cdef Py_ssize_t _room
    cdef public double batches, records, records_max, batch_bytes, batch_bytes_max

    cdef int add(self, FastPart part) except -1


cdef class FastBatch(_LazyResult):
    cdef KpBatch c
    cdef readonly RecordAppender appender
    cdef readonly FastPart part
    # Its place in the sending order of the partition.
    cdef readonly long long order
    # What it is now, once it was handed back.
    cdef public object successor

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
    # The transaction to which the partition was added, and whose records it takes; None: it takes those of any
    # transaction of version 2, and those of a producer without transactions.
    cdef public object added_to
    cdef public long long next_order


# Appends to the armed partition. 0: the general path has to do it, nothing has changed.
# `sticky`: why it was chosen. `transaction`: to which the record belongs. `given`: a batch without records that may be
# used.
cdef int append_to_part(FastPart part, Record* record, RecordFuture future, object on_delivery,
                        StickyPartition sticky, object transaction, FastBatch given) except -1

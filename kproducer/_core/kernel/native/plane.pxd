# Declares what plane.h has, for the modules that use it. That explains structures, owners, locks and events.
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from posix.uio cimport iovec

cdef extern from *:
    """
    #include <time.h>
    /* The clock of the system. The core gets the time as an argument. */
    static inline long long kp_now_ms(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    }
    """
    int64_t kp_now_ms() noexcept nogil

cdef extern from "codec.h" nogil:
    ctypedef struct KpCodec:
        int64_t (*bound)(KpCodec *codec, int64_t size) noexcept nogil
        int64_t (*compress)(KpCodec *codec, unsigned char *target, int64_t room, const unsigned char *source,
                            int64_t size) noexcept nogil

cdef extern from "plane.h" nogil:
    int64_t KP_NEVER_MS
    int KP_MOST_GATHERED
    int KP_MOST_GATHERED_UNDER_LOAD
    cdef enum kp_state:
        KP_OPEN
        KP_QUEUED
        KP_FLYING
        KP_SETTLED
    ctypedef enum kp_frame:
        KP_FRAME_MORE
        KP_FRAME_DONE
        KP_FRAME_FOREIGN
        KP_FRAME_UNUSUAL
    ctypedef struct KpPlane:
        int64_t linger_ms, request_timeout_ms, delivery_timeout_ms, longest_open_ms
        bint is_transactional
        int sends_everything
        int64_t generation
        KpCodec *codec
        int64_t (*clock_ms)() noexcept nogil
        int plain_count, active_count
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
        unsigned char *compressed
        bint is_full
        int64_t compressed_end
        double ratio
        int64_t end, base_timestamp_ms, max_timestamp_ms, begun_ms, closed_ms, base_offset, log_append_time_ms
        int64_t producer_id
        int32_t sequence
        int16_t producer_epoch
        int32_t record_count
        uint8_t state
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
        KpRequest *unwritten
    ctypedef struct KpStep:
        KpPlane *plane
        KpLane **lanes
        Py_ssize_t lane_count
        int wake_fd
        void (*set_sleep)(KpPlane *plane, int64_t until_ms) noexcept nogil
        int64_t (*begin_wait)(KpPlane *plane, KpLane **lanes, Py_ssize_t lane_count, int64_t until_ms) noexcept nogil
        int64_t (*next_ms)(KpLane *lane) noexcept nogil
        bint (*is_blocked)(KpLane *lane) noexcept nogil
        int64_t (*expiry_ms)(KpLane *lane) noexcept nogil
        int (*drain)(KpLane *lane, int64_t now_ms) noexcept nogil
        int (*write)(KpLane *lane) noexcept nogil
        kp_frame (*receive)(KpLane *lane, const unsigned char *data, int64_t size, int64_t *consumed,
                            const unsigned char **frame, int64_t *frame_size) noexcept nogil
        bint (*hold)(KpLane *lane, const unsigned char *data, int64_t size) noexcept nogil
        int64_t (*take_held)(KpLane *lane, unsigned char *target) noexcept nogil

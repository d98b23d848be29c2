/* The data plane: Produce requests of the usual kind, from the open batch of a partition to its acknowledgement,
 * without the interpreter.
 *
 * C11, without Python.h: nothing here can call Python, allocate a Python object or change a reference count. `_lane.pyx`
 * binds it. Time and transport are arguments: the only system call is `sendmsg`, in `kp_send_plain`.
 *
 * A LANE is a cache of the Python code for the steady state. It belongs to one ready connection. While a partition is
 * ARMED (`part->lane` is set), the lane holds its batches, and the partition's PartitionQueue is empty. Everything
 * unusual DISARMS: the batches become ProducerBatch objects, the requests in flight become ClientRequest objects, and
 * the Python code decides. It arms the partition again later. Nothing is decided here: no retry, no expiry, no
 * error code.
 *
 * Structures and their owners
 *
 *   KpPlane     one per producer.      `sleep_until_ms`, `sends_everything`, `has_sent`: atomic. The producer id of a
 *                                      transactional producer: see there. The rest: fixed.
 *   KpLane      one per connection.    `due`, `lingering`: due_mu. The rest: the I/O thread.
 *   KpPart      one per partition.     `lane`, `open`, `head`, `tail`: mu; `flying_*`: the I/O thread; the fields of the
 *                                      list that it is in: due_mu of its lane.
 *   KpBatch     by state:              OPEN and QUEUED: mu of its part. FLYING, SETTLED: the I/O thread. `is_compressing`: a caller
 *                                      reads `data` without the lock; nobody writes there, nor gives it back, meanwhile.
 *   KpRequest   one per Produce request in flight: the I/O thread.
 *   KpTopic     fixed while any of its partitions is armed; changed by the I/O thread.
 *
 * Locks: `part->mu`, then `lane->due_mu`; at most one of each kind. No call into Python, no allocation and no system
 * call under them, so each is held for less than a microsecond, or as long as a batch takes to be filled or copied. Threads that hold the interpreter lock may wait for
 * them: the holder never asks for the interpreter lock.
 *
 * Wake-ups: a caller changes a list, then reads `sleep_until_ms`; the I/O thread stores `sleep_until_ms`, then looks at
 * the lists. Both are sequentially consistent, so at least one sees the other. What it stores is never earlier than the end
 * of its wait: what was due a moment ago may be gone, because a caller compresses it or has taken it back. A caller that
 * will wake it stores that it is awake: until it runs, the others need not.
 *
 * Events
 *
 *   event                                          who       function
 *   record fits into the open batch, or rows of a  caller    kp_part_note
 *   bulk call
 *   no open batch, or the record does not fit      caller    kp_part_begin
 *   batch full, enough for the I/O to compress     caller    kp_part_begin_compression (on the general path
 *                                                            kp_part_begin_last_compression), kp_compress, kp_part_end_compression
 *   caller needs the general path                  caller    kp_part_detach: this partition only; its requests stay
 *   linger over, batch full, flush                 I/O       kp_lane_drain
 *   socket has room                                I/O       kp_lane_write
 *   bytes received                                 I/O       kp_lane_receive, which answers one of:
 *     KP_FRAME_DONE      every partition once, all error codes 0, not throttled: kp_lane_take_done
 *     KP_FRAME_FOREIGN   answers a request that Python sent before the lane was armed: Python gets the frame, and
 *                        handles it before the lane reads what is behind it (kp_lane_hold)
 *     KP_FRAME_UNUSUAL   everything else: Python gets all bytes from this frame on; disarm the lane
 *   a transaction ends                             caller    nothing: the binding refuses appends until the next one, and
 *                                                            Python ends it only once no batch is left
 *   record of a transaction of version 1 that has  caller    kp_part_detach; Python arms the partition again when it is
 *   not added the partition                                  added
 *   new producer id or epoch of a transactional    Python    kp_plane_number: a partition numbers from 0 when it sends
 *   producer                                                 its next batch
 *   everything else: timeouts, disconnects, metadata, a request of Python on this connection, purge, abort, close
 *                                                  I/O       kp_part_detach for each partition, kp_lane_take_requests
 */
#ifndef KPRODUCER_PLANE_H
#define KPRODUCER_PLANE_H

#include "codec.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define KP_NEVER_MS INT64_MAX

enum {
    /* As MOST_PENDING_BATCHES and REMEMBERED_MS of `transactions/sequence_tracker.py`. */
    KP_MOST_FLYING = 5,
    KP_REMEMBERED_MS = 1000,
    /* So many answered requests are settled at once, if others are in flight; and if batches wait for them, too. */
    KP_MOST_GATHERED = 16,
    KP_MOST_GATHERED_UNDER_LOAD = 128,
};
enum kp_state { KP_OPEN, KP_QUEUED, KP_FLYING, KP_SETTLED };
enum kp_list { KP_NOWHERE, KP_DUE, KP_LINGERING };
typedef enum { KP_FRAME_MORE, KP_FRAME_DONE, KP_FRAME_FOREIGN, KP_FRAME_UNUSUAL } kp_frame;

typedef struct KpPlane KpPlane;
typedef struct KpLane KpLane;
typedef struct KpPart KpPart;
typedef struct KpBatch KpBatch;
typedef struct KpTopic KpTopic;
typedef struct KpRequest KpRequest;

struct KpPlane {
    int64_t linger_ms, request_timeout_ms, delivery_timeout_ms, longest_open_ms;
    _Atomic int64_t sleep_until_ms;     /* the I/O thread is awake: INT64_MIN; asleep: when it will wake by itself */
    atomic_int sends_everything;        /* flushes, threads that wait for memory, the close: nothing lingers */
    bool is_transactional;
    atomic_bool has_sent;       /* a batch of the open transaction may be on its way: set before its first byte is */
    /* Of a transactional producer. Written with the interpreter lock, while no transaction takes records and no batch
     * is left; so the I/O thread reads it only when it has a batch to number, which was appended after that. */
    int64_t generation, producer_id;
    int16_t producer_epoch;
    KpCodec *codec;             /* fixed; NULL: no compression */
    int64_t (*clock_ms)(void);  /* fixed; after a compression, which may last. NULL: the time that was given holds */
    atomic_int plain_count;     /* with a codec: batches that the I/O thread is to compress */
    atomic_int active_count;    /* partitions with batches that wait or are in flight */
};

/* A batch. Its memory, from the header on, belongs to `owner`, which keeps it until the batch is settled or detached. */
struct KpBatch {
    KpBatch *next;          /* QUEUED: in its partition. FLYING: behind it in flight to the same partition */
    KpBatch *in_topic;      /* while a frame is laid out */
    KpPart *part;
    KpRequest *request;     /* FLYING */
    void *owner;            /* of the binding */
    unsigned char *data;
    int64_t end;            /* position behind the last record */
    unsigned char *compressed;      /* header and compressed records, from `malloc`; NULL: there are none */
    int64_t compressed_end;
    double ratio;           /* with a codec: its expected size, divided by the plain one */
    bool is_full;           /* OPEN: it takes no other record, so it is due */
    bool is_plain;          /* QUEUED: counted in `plain_count` */
    bool is_compressing;    /* QUEUED: by a caller. It is not sent meanwhile */
    int64_t base_timestamp_ms, max_timestamp_ms;
    int64_t begun_ms, closed_ms;
    int64_t base_offset, log_append_time_ms;    /* SETTLED */
    int64_t producer_id;    /* from here on: FLYING, in a numbered partition */
    int32_t sequence;
    int16_t producer_epoch;
    int32_t record_count;
    uint8_t state;
    bool answered;          /* while a response is read */
};

struct KpTopic {
    KpPart **parts;         /* by partition number; NULL: never armed */
    int32_t part_count;
    const unsigned char *name;      /* as in a frame of the lanes' version: see `fields` of KpLane */
    int32_t name_size;
    unsigned char id[16];
    bool has_id;
    KpBatch *first, *last;  /* while a frame is laid out */
    int32_t batch_count;
};

struct KpPart {
    pthread_mutex_t mu;
    KpPlane *plane;         /* fixed, as the next two */
    KpTopic *topic;
    int32_t index;
    KpLane *lane;           /* NULL: disarmed */
    KpBatch *open, *head, *tail;
    atomic_int waiting_count;       /* of these */
    atomic_int batch_count;         /* of these, and of those in flight */
    KpBatch *flying_first, *flying_last;
    KpPart *before, *after;
    uint8_t where;
    int64_t due_ms;         /* when its first batch is to be sent: the order of `lingering` */
    int64_t expiry_ms;      /* when its first batch expires or, if it is open, has to be closed */
    uint64_t round;         /* of the frame that it was looked at for; the I/O thread */
    void *owner;
    /* Idempotence. The lane numbers the batches while the partition is armed: with the lock, in the order of the
     * frames. Only the I/O thread reads and writes these, except `is_held` (mu). */
    bool is_numbered;
    int64_t generation;     /* of the plane's producer id, to which the numbers belong */
    bool is_held;           /* nothing may be sent until a batch in flight is acknowledged */
    int16_t producer_epoch;
    int32_t next_sequence, last_acked_sequence, flying_count;
    int32_t settled_count;  /* since Python looked last */
    int64_t producer_id;
    int64_t acknowledged_ms;        /* -1: never */
};

typedef struct KpPartList {
    KpPart *first, *last;
} KpPartList;

struct KpRequest {
    KpRequest *next;
    int32_t correlation_id;
    int32_t batch_count, topic_count;
    int64_t sent_ms;
    int64_t closed_ms;      /* the smallest of its batches */
    int64_t frame_bytes, bytes_left, response_bytes;
    int32_t piece_count, next_piece;
    KpBatch **batches;      /* in the order of the frame: by topic */
    KpTopic **topics;
    struct iovec *pieces;
    unsigned char *small;   /* all bytes but the records */
};

/* Sends the first of these bytes. Returns how many the socket took (fewer than all: it is full), or -errno. What was not
 * taken may be encrypted already, so it has to be the next thing that is sent on the connection. */
typedef int64_t (*kp_send)(void *socket, const struct iovec *pieces, int count);

struct KpLane {
    KpPlane *plane;
    int fd;                 /* also how the selector knows it */
    kp_send send;           /* with `socket`; kp_send_plain, with `fd`, unless something else was set */
    void *socket;
    int16_t version;        /* of Produce */
    int32_t most_in_flight;
    int64_t most_request_bytes;
    const unsigned char *fields;    /* of each frame, between the correlation id and the number of topics */
    int32_t fields_size;
    void *owner;
    pthread_mutex_t due_mu;
    KpPartList due, lingering;
    /* The I/O thread: */
    bool armed;
    bool needs_python;      /* an event has come that Python has to handle first: set by the step */
    bool has_uncounted;     /* requests were settled that are not in the metrics: set and cleared by the binding */
    bool stalled;           /* the socket took less than it was offered */
    bool behind_python;     /* bytes of Python's are written first: set by the step, before it waits */
    int32_t next_correlation_id;
    int32_t foreign;        /* requests of Python that are in flight before those of the lane */
    int32_t in_flight;
    KpRequest *first, *last;        /* in flight, oldest first */
    KpRequest *unwritten;           /* the first one with bytes left */
    KpRequest *done_first, *done_last;      /* answered, and not settled: `done_count` */
    int32_t done_count;
    uint64_t round;
    int64_t now_ms;         /* of the last drain */
    unsigned char *partial; /* the beginning of a frame */
    int64_t partial_size, partial_room;
    unsigned char *held;    /* what was read behind a frame that Python has to handle first */
    int64_t held_size;
};

/* -- checksum and header */

uint32_t kp_crc32c(const unsigned char *data, size_t size);
uint32_t kp_crc32c_table(const unsigned char *data, size_t size);
/* Compresses the records, and writes header and checksum. Without memory for that, they are sent as they are. */
void kp_batch_finish(KpBatch *batch);
/* Of a finished batch: what is sent. */
static inline unsigned char *kp_batch_data(const KpBatch *batch) { return batch->compressed ? batch->compressed : batch->data; }
static inline int64_t kp_batch_size(const KpBatch *batch) { return batch->compressed ? batch->compressed_end : batch->end; }
void kp_batch_forget_compressed(KpBatch *batch);
/* A copy of compressed records becomes those of a batch that is not in a partition. Whether there was memory for it. */
bool kp_batch_take_compressed(KpBatch *batch, const unsigned char *records, int64_t size);

/* -- the producer */

void kp_plane_set_sleep(KpPlane *plane, int64_t until_ms);
/* The I/O thread is about to wait. Until when it may, at most `until_ms`. */
int64_t kp_plane_begin_wait(KpPlane *plane, KpLane **lanes, ptrdiff_t lane_count, int64_t until_ms);
void kp_plane_set_sends_everything(KpPlane *plane, int on);
/* All partitions use this producer id and epoch from their next batch on, and number it 0. */
void kp_plane_number(KpPlane *plane, int64_t producer_id, int16_t producer_epoch);
/* Whether a batch of the transaction may have been sent. */
bool kp_plane_has_sent(KpPlane *plane);
void kp_plane_begin_transaction(KpPlane *plane);

/* -- partitions: any thread */

void kp_part_init(KpPart *part, KpPlane *plane, KpTopic *topic, int32_t index, void *owner);
void kp_part_lock(KpPart *part);
bool kp_part_try_lock(KpPart *part);
void kp_part_unlock(KpPart *part);
/* With the lock of an armed partition: */
static inline void kp_part_note(KpBatch *open, int64_t end, int32_t count, int64_t base_ms, int64_t max_ms) {
    open->end = end;
    open->record_count = count;
    open->base_timestamp_ms = base_ms;
    open->max_timestamp_ms = max_ms;
}
/* A batch with its first record becomes the open one; what was open is closed. Whether to wake the I/O thread. */
bool kp_part_begin(KpPart *part, KpBatch *batch, int64_t now_ms);
/* Before it is armed: a batch that has not been sent is the open one; what was open is closed. */
void kp_part_adopt(KpPart *part, KpBatch *batch);
/* Its batches that are not in flight. Any thread, without the lock. */
int kp_part_waiting_count(KpPart *part);
/* The open batch is full: as `kp_part_begin`, without another one. */
bool kp_part_close_open(KpPart *part, int64_t now_ms);
/* The open batch is full, and the caller will compress it. NULL: none is open. With the lock. */
KpBatch *kp_part_begin_compression(KpPart *part, int64_t now_ms);
/* The caller will compress the last batch that takes no more. NULL: there is none, or it is not plain. With the lock. */
KpBatch *kp_part_begin_last_compression(KpPart *part);
/* Whether to wake the I/O thread. `*compressed` is NULL then, unless the batch was handed back meanwhile. With the lock. */
bool kp_part_end_compression(KpPart *part, KpBatch *batch, unsigned char **compressed, int64_t end);
/* The records of a batch that takes no more, behind room for a header; NULL: there is no memory. Without the lock. */
unsigned char *kp_compress(KpCodec *codec, const KpBatch *batch, int64_t *end);
/* Numbers from 0 if the plane has another producer id or epoch, unless a batch is in flight. The I/O thread. */
void kp_part_renumber(KpPart *part);
/* Disarms: returns the batches that are not in flight, oldest first, linked by `next`. The last one may be OPEN. */
KpBatch *kp_part_detach(KpPart *part);

/* -- lanes: the I/O thread */

void kp_lane_init(KpLane *lane, KpPlane *plane, void *owner);
void kp_lane_free(KpLane *lane);
/* With its lock. False: it is armed already. */
bool kp_part_arm(KpPart *part, KpLane *lane);
/* When kp_lane_drain has something to do; INT64_MIN: now. */
int64_t kp_lane_next_ms(KpLane *lane);
/* When Python has to look whether a request or a batch has timed out. Of batches behind others, perhaps too late by the
 * time that they wait; never too early. */
int64_t kp_lane_expiry_ms(KpLane *lane);
/* The same, of all that it has. */
int64_t kp_lane_exact_expiry_ms(KpLane *lane);
/* Whether batches are due, and the socket is full or the limit of requests in flight is reached. */
bool kp_lane_is_blocked(KpLane *lane);
/* Puts what is due into requests, as far as the limit of requests in flight allows. The number of requests; -1: no memory. */
int kp_lane_drain(KpLane *lane, int64_t now_ms);
int64_t kp_send_plain(void *lane, const struct iovec *pieces, int count);
/* Writes until the socket is full. 0, or errno. */
int kp_lane_write(KpLane *lane);
/* Looks at the next frame in `data`. KP_FRAME_MORE: all bytes are consumed or kept. FOREIGN and UNUSUAL: `frame` is
 * the payload (without its size), if it is complete. `consumed`: bytes of `data`, up to the end of the frame; UNUSUAL: none. */
kp_frame kp_lane_receive(KpLane *lane, const unsigned char *data, int64_t size, int64_t *consumed,
                              const unsigned char **frame, int64_t *frame_size);
/* Keeps what was read behind a frame of Python's. Whether there was memory for it. */
bool kp_lane_hold(KpLane *lane, const unsigned char *data, int64_t size);
/* Copies it to `target`, which has room for `held_size`, and forgets it. How many bytes. */
int64_t kp_lane_take_held(KpLane *lane, unsigned char *target);
/* The requests that are answered, oldest first. The caller frees each. */
KpRequest *kp_lane_take_done(KpLane *lane);
/* Disarming: the requests in flight, oldest first. The caller frees each. */
KpRequest *kp_lane_take_requests(KpLane *lane);
void kp_request_free(KpRequest *request);
/* Whether the response says, for every partition of the request once, that it was appended, and nothing else.
 * Then the batches have their offsets. Reads nothing outside of `data`. */
bool kp_read_response(KpRequest *request, int16_t version, const unsigned char *data, int64_t size);

/* What the module of the sockets needs, which is not linked to this code. */
typedef struct KpStep {
    KpPlane *plane;
    KpLane **lanes;
    ptrdiff_t lane_count;
    int wake_fd;            /* each write is an edge, which ends the wait of the I/O thread; -1: closed */
    void (*set_sleep)(KpPlane *plane, int64_t until_ms);
    int64_t (*begin_wait)(KpPlane *plane, KpLane **lanes, ptrdiff_t lane_count, int64_t until_ms);
    int64_t (*next_ms)(KpLane *lane);
    bool (*is_blocked)(KpLane *lane);
    int64_t (*expiry_ms)(KpLane *lane);
    int (*drain)(KpLane *lane, int64_t now_ms);
    int (*write)(KpLane *lane);
    kp_frame (*receive)(KpLane *lane, const unsigned char *data, int64_t size, int64_t *consumed,
                        const unsigned char **frame, int64_t *frame_size);
    bool (*hold)(KpLane *lane, const unsigned char *data, int64_t size);
    int64_t (*take_held)(KpLane *lane, unsigned char *target);
} KpStep;

#endif

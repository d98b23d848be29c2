/* See plane.h. */
#include "plane.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#ifndef IOV_MAX
#define IOV_MAX 1024
#endif
#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

enum {
    FIRST_FLEXIBLE = 9,
    FIRST_WITH_TOPIC_IDS = 13,
    PRODUCE = 0,
    FRAME_START_BYTES = 12,
    BATCH_HEADER_BYTES = 61,
    MOST_COMPRESSED_BYTES = 1 << 20,
    /* A larger response is unusual. */
    MOST_RESPONSE_BYTES = 1 << 20,
    MOST_VARINT_BYTES = 5,
    TRANSACTIONAL = 0x10,   /* among the attributes of a batch */
};

/* -- big-endian numbers */

static inline void put16(unsigned char *at, uint16_t value) {
    at[0] = (unsigned char)(value >> 8);
    at[1] = (unsigned char)value;
}

static inline void put32(unsigned char *at, uint32_t value) {
    at[0] = (unsigned char)(value >> 24);
    at[1] = (unsigned char)(value >> 16);
    at[2] = (unsigned char)(value >> 8);
    at[3] = (unsigned char)value;
}

static inline void put64(unsigned char *at, uint64_t value) {
    put32(at, (uint32_t)(value >> 32));
    put32(at + 4, (uint32_t)value);
}

static inline uint32_t get32(const unsigned char *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* -- checksum */

static uint32_t crc_table[8][256];
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
enum { STRIDE_BYTES = 1024 };
static uint32_t crc_zeros[4][256];
#endif
static pthread_once_t crc_once = PTHREAD_ONCE_INIT;
static bool crc_in_hardware;

static void crc_prepare(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
        crc_table[0][byte] = crc;
    }
    for (int step = 1; step < 8; step++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t crc = crc_table[step - 1][byte];
            crc_table[step][byte] = crc >> 8 ^ crc_table[0][crc & 0xFF];
        }
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    crc_in_hardware = __builtin_cpu_supports("sse4.2") != 0;
    for (int bit = 0; bit < 32; bit++) {
        uint32_t crc = 1u << bit;
        for (int zeros = 0; zeros < STRIDE_BYTES; zeros++) crc = crc >> 8 ^ crc_table[0][crc & 0xFF];
        for (uint32_t value = 0; value < 256; value++)
            if (value >> bit % 8 & 1) crc_zeros[bit / 8][value] ^= crc;
    }
#endif
}

uint32_t kp_crc32c_table(const unsigned char *data, size_t size) {
    uint32_t crc = ~0u;
    pthread_once(&crc_once, crc_prepare);
    for (; size >= 8; data += 8, size -= 8) {
        crc ^= (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        crc = crc_table[7][crc & 0xFF] ^ crc_table[6][crc >> 8 & 0xFF] ^ crc_table[5][crc >> 16 & 0xFF]
            ^ crc_table[4][crc >> 24] ^ crc_table[3][data[4]] ^ crc_table[2][data[5]] ^ crc_table[1][data[6]]
            ^ crc_table[0][data[7]];
    }
    for (; size; data++, size--) crc = crc >> 8 ^ crc_table[0][(crc ^ *data) & 0xFF];
    return ~crc;
}

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
static inline uint64_t word_at(const unsigned char *data) {
    uint64_t word;
    memcpy(&word, data, 8);
    return word;
}

/* The checksum of what `crc` is the checksum of, followed by STRIDE_BYTES zeros. */
static inline uint32_t crc_before_zeros(uint64_t crc) {
    return crc_zeros[0][crc & 0xFF] ^ crc_zeros[1][crc >> 8 & 0xFF] ^ crc_zeros[2][crc >> 16 & 0xFF] ^ crc_zeros[3][crc >> 24 & 0xFF];
}

__attribute__((target("sse4.2"))) static uint32_t crc_hardware(const unsigned char *data, size_t size) {
    uint64_t crc = ~0u;
    /* The processor works at three checksums at once, each of which has to wait for its own last result. They are linear. */
    for (; size >= 3 * STRIDE_BYTES; data += 3 * STRIDE_BYTES, size -= 3 * STRIDE_BYTES) {
        uint64_t second = 0, third = 0;
        for (size_t at = 0; at < STRIDE_BYTES; at += 8) {
            crc = __builtin_ia32_crc32di(crc, word_at(data + at));
            second = __builtin_ia32_crc32di(second, word_at(data + STRIDE_BYTES + at));
            third = __builtin_ia32_crc32di(third, word_at(data + 2 * STRIDE_BYTES + at));
        }
        crc = crc_before_zeros(crc_before_zeros(crc) ^ second) ^ third;
    }
    for (; size >= 8; data += 8, size -= 8) crc = __builtin_ia32_crc32di(crc, word_at(data));
    uint32_t rest = (uint32_t)crc;
    for (; size; data++, size--) rest = __builtin_ia32_crc32qi(rest, *data);
    return ~rest;
}
#endif

uint32_t kp_crc32c(const unsigned char *data, size_t size) {
    pthread_once(&crc_once, crc_prepare);
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    if (crc_in_hardware) return crc_hardware(data, size);
#endif
    return kp_crc32c_table(data, size);
}

unsigned char *kp_compress(KpCodec *codec, const KpBatch *batch, int64_t *end) {
    int64_t size = batch->end - BATCH_HEADER_BYTES, room = codec->bound(codec, size);
    unsigned char *made = malloc((size_t)(BATCH_HEADER_BYTES + room));
    if (!made) return NULL;
    int64_t count = codec->compress(codec, made + BATCH_HEADER_BYTES, room, batch->data + BATCH_HEADER_BYTES, size);
    if (count < 0) {
        free(made);
        return NULL;
    }
    *end = BATCH_HEADER_BYTES + count;
    unsigned char *smaller = realloc(made, (size_t)*end);
    return smaller ? smaller : made;
}

void kp_batch_forget_compressed(KpBatch *batch) {
    free(batch->compressed);
    batch->compressed = NULL;
}

bool kp_batch_take_compressed(KpBatch *batch, const unsigned char *records, int64_t size) {
    batch->compressed = malloc((size_t)(BATCH_HEADER_BYTES + size));
    if (!batch->compressed) return false;
    memcpy(batch->compressed + BATCH_HEADER_BYTES, records, (size_t)size);
    batch->compressed_end = BATCH_HEADER_BYTES + size;
    return true;
}

void kp_batch_finish(KpBatch *batch) {
    KpPlane *plane = batch->part ? batch->part->plane : NULL;
    KpCodec *codec = plane ? plane->codec : NULL;
    if (codec && !batch->compressed) batch->compressed = kp_compress(codec, batch, &batch->compressed_end);
    unsigned char *at = kp_batch_data(batch);
    int64_t end = kp_batch_size(batch);
    put64(at, 0);                                   /* base offset: the broker sets it */
    put32(at + 8, (uint32_t)(end - 12));
    put32(at + 12, UINT32_MAX);                     /* partition leader epoch */
    at[16] = 2;                                     /* magic */
    put16(at + 21, (uint16_t)((plane && plane->is_transactional ? TRANSACTIONAL : 0) | (batch->compressed ? codec->type : 0)));
    put32(at + 23, (uint32_t)(batch->record_count - 1));
    put64(at + 27, (uint64_t)batch->base_timestamp_ms);
    put64(at + 35, (uint64_t)batch->max_timestamp_ms);
    if (batch->part && batch->part->is_numbered) {
        put64(at + 43, (uint64_t)batch->producer_id);
        put16(at + 51, (uint16_t)batch->producer_epoch);
        put32(at + 53, (uint32_t)batch->sequence);
    } else {
        memset(at + 43, 0xFF, 14);                  /* no producer id, epoch, sequence */
    }
    put32(at + 57, (uint32_t)batch->record_count);
    put32(at + 17, kp_crc32c(at + 21, (size_t)(end - 21)));
}

/* -- the producer */

static inline int64_t earlier(int64_t one, int64_t other) { return one < other ? one : other; }

void kp_plane_set_sleep(KpPlane *plane, int64_t until_ms) { atomic_store(&plane->sleep_until_ms, until_ms); }

int64_t kp_plane_begin_wait(KpPlane *plane, KpLane **lanes, ptrdiff_t lane_count, int64_t until_ms) {
    kp_plane_set_sleep(plane, until_ms);
    for (ptrdiff_t i = 0; i < lane_count; i++) until_ms = earlier(until_ms, kp_lane_next_ms(lanes[i]));
    kp_plane_set_sleep(plane, until_ms);
    return until_ms;
}

void kp_plane_set_sends_everything(KpPlane *plane, int on) { atomic_store(&plane->sends_everything, on); }

void kp_plane_number(KpPlane *plane, int64_t producer_id, int16_t producer_epoch) {
    plane->generation++;
    plane->producer_id = producer_id;
    plane->producer_epoch = producer_epoch;
}

bool kp_plane_has_sent(KpPlane *plane) { return atomic_load(&plane->has_sent); }
void kp_plane_begin_transaction(KpPlane *plane) { atomic_store(&plane->has_sent, false); }

/* -- lists of partitions: due_mu is held */

static void list_remove(KpLane *lane, KpPart *part) {
    KpPartList *list = part->where == KP_DUE ? &lane->due : &lane->lingering;
    if (part->where == KP_NOWHERE) return;
    *(part->before ? &part->before->after : &list->first) = part->after;
    *(part->after ? &part->after->before : &list->last) = part->before;
    part->before = part->after = NULL;
    part->where = KP_NOWHERE;
}

static void list_insert(KpPartList *list, KpPart *part, KpPart *before, uint8_t where) {
    KpPart *after = before ? before->after : list->first;
    part->before = before;
    part->after = after;
    *(before ? &before->after : &list->first) = part;
    *(after ? &after->before : &list->last) = part;
    part->where = where;
}

/* -- partitions */

void kp_part_init(KpPart *part, KpPlane *plane, KpTopic *topic, int32_t index, void *owner) {
    memset(part, 0, sizeof *part);
    pthread_mutex_init(&part->mu, NULL);
    part->plane = plane;
    part->topic = topic;
    part->index = index;
    part->owner = owner;
}

void kp_part_lock(KpPart *part) { pthread_mutex_lock(&part->mu); }
bool kp_part_try_lock(KpPart *part) { return pthread_mutex_trylock(&part->mu) == 0; }
void kp_part_unlock(KpPart *part) { pthread_mutex_unlock(&part->mu); }

/* Notes whether the I/O thread is to compress a batch. */
static void set_plain(KpPlane *plane, KpBatch *batch, bool is_plain) {
    if (batch->is_plain != is_plain) atomic_fetch_add(&plane->plain_count, is_plain ? 1 : -1);
    batch->is_plain = is_plain;
}

static void close_open(KpPart *part, int64_t now_ms) {
    KpBatch *open = part->open;
    if (!open) return;
    part->open = NULL;
    open->state = KP_QUEUED;
    /* As PartitionQueue: a single record came when the batch was begun. */
    if (open->record_count > 1 && now_ms > open->closed_ms) open->closed_ms = now_ms;
    open->next = NULL;
    set_plain(part->plane, open, part->plane->codec && !open->compressed && !open->is_compressing);
    *(part->tail ? &part->tail->next : &part->head) = open;
    part->tail = open;
}

/* Puts an armed partition into the list in which it belongs. When its first batch is to be sent; INT64_MIN: now. */
static int64_t place(KpPart *part, bool at_front) {
    KpLane *lane = part->lane;
    uint8_t wanted = KP_NOWHERE;
    int64_t due_ms = KP_NEVER_MS;
    if (part->is_held || (part->head && part->head->is_compressing)) {
        /* complete_first() or kp_part_end_compression() places it again. */
    } else if (part->head || (part->open && (part->plane->linger_ms <= 0 || part->open->is_full))) {
        wanted = KP_DUE;
        due_ms = INT64_MIN;
    } else if (part->open) {
        wanted = KP_LINGERING;
        due_ms = part->open->begun_ms + part->plane->linger_ms;
    }
    pthread_mutex_lock(&lane->due_mu);
    if (part->where != wanted || part->due_ms != due_ms) list_remove(lane, part);
    part->due_ms = due_ms;
    part->expiry_ms = part->head ? part->head->closed_ms + part->plane->delivery_timeout_ms
        : part->open ? part->open->begun_ms + part->plane->longest_open_ms : KP_NEVER_MS;
    if (part->where != wanted && wanted == KP_DUE) {
        list_insert(&lane->due, part, at_front ? NULL : lane->due.last, KP_DUE);
    } else if (part->where != wanted && wanted == KP_LINGERING) {
        KpPart *before = lane->lingering.last;
        while (before && before->due_ms > due_ms) before = before->before;
        list_insert(&lane->lingering, part, before, KP_LINGERING);
    }
    pthread_mutex_unlock(&lane->due_mu);
    return wanted == KP_LINGERING && atomic_load(&part->plane->sends_everything) ? INT64_MIN : due_ms;
}

/* Whether the caller has to wake the I/O thread afterwards. First the list, then the look: see plane.h. As operands of one
 * comparison, C would leave their order to the compiler. */
static bool place_and_look(KpPart *part) {
    int64_t due_ms = place(part, false);
    if (due_ms >= atomic_load(&part->plane->sleep_until_ms)) return false;
    kp_plane_set_sleep(part->plane, INT64_MIN);
    return true;
}

static void count_batches(KpPart *part, int change) {
    int before = atomic_fetch_add(&part->batch_count, change);
    if ((before > 0) != (before + change > 0)) atomic_fetch_add(&part->plane->active_count, change > 0 ? 1 : -1);
}

static void open_batch(KpPart *part, KpBatch *batch) {
    batch->part = part;
    batch->state = KP_OPEN;
    batch->next = NULL;
    part->open = batch;
    atomic_fetch_add(&part->waiting_count, 1);
    count_batches(part, 1);
}

void kp_part_adopt(KpPart *part, KpBatch *batch) {
    close_open(part, 0);
    open_batch(part, batch);
}

KpBatch *kp_part_begin_compression(KpPart *part, int64_t now_ms) {
    KpBatch *batch = part->open;
    if (!batch || !part->lane) return NULL;
    batch->is_compressing = true;
    close_open(part, now_ms);
    place(part, false);
    return batch;
}

KpBatch *kp_part_begin_last_compression(KpPart *part) {
    KpBatch *batch = part->tail;
    if (!batch || !batch->is_plain) return NULL;
    set_plain(part->plane, batch, false);
    batch->is_compressing = true;
    place(part, false);
    return batch;
}

bool kp_part_end_compression(KpPart *part, KpBatch *batch, unsigned char **compressed, int64_t end) {
    if (!batch->is_compressing) return false;
    batch->is_compressing = false;
    batch->compressed = *compressed;
    batch->compressed_end = end;
    *compressed = NULL;
    return place_and_look(part);
}

int kp_part_waiting_count(KpPart *part) { return atomic_load(&part->waiting_count); }

bool kp_part_begin(KpPart *part, KpBatch *batch, int64_t now_ms) {
    close_open(part, now_ms);
    batch->begun_ms = batch->closed_ms = now_ms;
    open_batch(part, batch);
    return place_and_look(part);
}

bool kp_part_close_open(KpPart *part, int64_t now_ms) {
    close_open(part, now_ms);
    return part->lane && place_and_look(part);
}

void kp_part_renumber(KpPart *part) {
    const KpPlane *plane = part->plane;
    if (part->generation == plane->generation || part->flying_count) return;
    part->generation = plane->generation;
    /* A leader that knows the producer id takes batches of the next epoch in order only, too. */
    if (part->producer_id != plane->producer_id) part->acknowledged_ms = -1;
    part->producer_id = plane->producer_id;
    part->producer_epoch = plane->producer_epoch;
    part->next_sequence = part->settled_count = 0;
    part->last_acked_sequence = -1;
}

KpBatch *kp_part_detach(KpPart *part) {
    KpLane *lane = part->lane;
    if (!lane) return NULL;
    KpBatch *first = part->head;
    if (part->open) {
        part->open->next = NULL;
        if (first) part->tail->next = part->open;
        else first = part->open;
    }
    for (KpBatch *batch = first; batch; batch = batch->next) {
        set_plain(part->plane, batch, false);
        batch->is_compressing = false;
    }
    part->open = part->head = part->tail = NULL;
    count_batches(part, -atomic_exchange(&part->waiting_count, 0));
    part->is_held = false;
    pthread_mutex_lock(&lane->due_mu);
    list_remove(lane, part);
    pthread_mutex_unlock(&lane->due_mu);
    part->lane = NULL;
    return first;
}

/* -- lanes */

void kp_lane_init(KpLane *lane, KpPlane *plane, void *owner) {
    memset(lane, 0, sizeof *lane);
    pthread_mutex_init(&lane->due_mu, NULL);
    lane->plane = plane;
    lane->owner = owner;
    lane->fd = -1;
    lane->send = kp_send_plain;
    lane->socket = lane;
}

void kp_lane_free(KpLane *lane) {
    /* Their batches and partitions may not exist any more. */
    for (KpRequest *each = lane->first, *next; each; each = next) {
        next = each->next;
        kp_request_free(each);
    }
    for (KpRequest *each = kp_lane_take_done(lane), *next; each; each = next) {
        next = each->next;
        kp_request_free(each);
    }
    free(lane->partial);
    free(lane->held);
    lane->partial = lane->held = NULL;
    pthread_mutex_destroy(&lane->due_mu);
}

bool kp_part_arm(KpPart *part, KpLane *lane) {
    if (part->lane) return false;
    part->lane = lane;
    place(part, false);
    return true;
}

static bool can_send(KpLane *lane) {
    return lane->armed && !lane->stalled && !lane->behind_python
        && lane->in_flight + lane->foreign < lane->most_in_flight;
}

bool kp_lane_is_blocked(KpLane *lane) {
    pthread_mutex_lock(&lane->due_mu);
    bool is_due = lane->due.first != NULL;
    pthread_mutex_unlock(&lane->due_mu);
    return is_due && !can_send(lane);
}

int64_t kp_lane_next_ms(KpLane *lane) {
    if (!can_send(lane)) return KP_NEVER_MS;
    pthread_mutex_lock(&lane->due_mu);
    int64_t when = KP_NEVER_MS;
    if (lane->due.first) when = INT64_MIN;
    else if (lane->lingering.first)
        when = atomic_load(&lane->plane->sends_everything) ? INT64_MIN : lane->lingering.first->due_ms;
    pthread_mutex_unlock(&lane->due_mu);
    return when;
}

static int64_t request_expiry_ms(KpLane *lane, KpRequest *request) {
    return earlier(request->sent_ms + lane->plane->request_timeout_ms + 1,
                   request->closed_ms + lane->plane->delivery_timeout_ms);
}

/* Of the first partition in a list, or of all of them. What can be sent will be sent, and does not expire here. */
static int64_t list_expiry_ms(KpLane *lane, bool of_all) {
    int64_t when = KP_NEVER_MS;
    if (can_send(lane)) return when;
    pthread_mutex_lock(&lane->due_mu);
    for (KpPart *part = lane->due.first; part; part = of_all ? part->after : NULL) when = earlier(when, part->expiry_ms);
    for (KpPart *part = lane->lingering.first; part; part = of_all ? part->after : NULL)
        when = earlier(when, part->expiry_ms);
    pthread_mutex_unlock(&lane->due_mu);
    return when;
}

int64_t kp_lane_expiry_ms(KpLane *lane) {
    int64_t when = list_expiry_ms(lane, false);
    return lane->first ? earlier(when, request_expiry_ms(lane, lane->first)) : when;
}

int64_t kp_lane_exact_expiry_ms(KpLane *lane) {
    int64_t when = list_expiry_ms(lane, true);
    for (KpRequest *request = lane->first; request; request = request->next)
        when = earlier(when, request_expiry_ms(lane, request));
    return when;
}

/* How many bytes it will send. */
static int64_t expected_bytes(const KpPlane *plane, const KpBatch *batch) {
    if (!plane->codec || batch->compressed) return kp_batch_size(batch);
    return BATCH_HEADER_BYTES + (int64_t)((double)(batch->end - BATCH_HEADER_BYTES) * batch->ratio);
}

/* Takes the first batch of a partition, if it fits. NULL: there is none, or `*is_full` is set. */
static KpBatch *take_first(KpLane *lane, KpPart *part, int64_t now_ms, int64_t room, bool *is_full) {
    KpBatch *batch = NULL;
    kp_part_lock(part);
    if (part->lane == lane) {
        batch = part->head ? part->head : part->open;
        if (batch && batch->is_compressing) batch = NULL;
        if (batch && part->is_numbered) kp_part_renumber(part);
        /* Brokers remember five batches of a producer; and one that has forgotten it would accept any as the first. */
        part->is_held = batch && part->is_numbered && part->flying_count
            && (part->flying_count >= KP_MOST_FLYING || part->generation != part->plane->generation
                || part->acknowledged_ms < 0
                || now_ms - part->acknowledged_ms >= KP_REMEMBERED_MS);
        if (part->is_held) {
            batch = NULL;
            place(part, false);
        } else if (batch && expected_bytes(lane->plane, batch) > room) {
            *is_full = true;
            batch = NULL;
            place(part, true);
        } else if (batch) {
            if (batch == part->open) close_open(part, now_ms);
            part->head = batch->next;
            if (!part->head) part->tail = NULL;
            atomic_fetch_sub(&part->waiting_count, 1);
            batch->next = NULL;
            set_plain(lane->plane, batch, false);
            batch->state = KP_FLYING;
            if (part->is_numbered) {
                if (lane->plane->is_transactional) atomic_store(&lane->plane->has_sent, true);
                batch->producer_id = part->producer_id;
                batch->producer_epoch = part->producer_epoch;
                batch->sequence = part->next_sequence;
                part->next_sequence = (int32_t)(((uint32_t)part->next_sequence + (uint32_t)batch->record_count) & INT32_MAX);
            }
            place(part, false);
        }
    }
    kp_part_unlock(part);
    return batch;
}

static KpPart *pop_part(KpLane *lane, bool lingering_too) {
    pthread_mutex_lock(&lane->due_mu);
    KpPart *part = lane->due.first;
    if (part && part->round == lane->round) part = NULL;    /* all others had their turn */
    if (!part && lingering_too) {
        part = lane->lingering.first;
        if (part && part->round == lane->round) part = NULL;
    }
    if (part) {
        list_remove(lane, part);
        part->round = lane->round;
    }
    pthread_mutex_unlock(&lane->due_mu);
    return part;
}

static unsigned char *put_length(unsigned char *at, bool flexible, uint32_t length) {
    if (!flexible) {
        put32(at, length);
        return at + 4;
    }
    for (length++; length > 0x7F; length >>= 7) *at++ = (unsigned char)(length | 0x80);
    *at++ = (unsigned char)length;
    return at;
}

/* The most bytes that a request takes, with what it points to, except the records. `name_bytes`: of all topics. */
static size_t request_bytes(const KpLane *lane, int32_t topic_count, size_t name_bytes, int32_t batch_count) {
    size_t small = FRAME_START_BYTES + (size_t)lane->fields_size + MOST_VARINT_BYTES + 1 + name_bytes
        + (size_t)topic_count * (MOST_VARINT_BYTES + 1) + (size_t)batch_count * (4 + MOST_VARINT_BYTES + 1);
    return sizeof(KpRequest) + (2 * (size_t)batch_count + 1) * sizeof(struct iovec)
        + (size_t)batch_count * sizeof(KpBatch *) + (size_t)topic_count * sizeof(KpTopic *) + small;
}

/* Lays out a frame of the batches that the topics in `topics` list, in memory of `request_bytes`. */
static void lay_out(KpLane *lane, KpRequest *request, KpTopic **topics, int32_t topic_count, int32_t batch_count) {
    bool flexible = lane->version >= FIRST_FLEXIBLE, by_id = lane->version >= FIRST_WITH_TOPIC_IDS;
    memset(request, 0, sizeof *request);
    request->pieces = (struct iovec *)(request + 1);
    request->batches = (KpBatch **)(request->pieces + 2 * (size_t)batch_count + 1);
    request->topics = (KpTopic **)(request->batches + batch_count);
    request->small = (unsigned char *)(request->topics + topic_count);
    request->topic_count = topic_count;
    memcpy(request->topics, topics, (size_t)topic_count * sizeof *topics);

    unsigned char *at = request->small + FRAME_START_BYTES, *start = request->small;
    int64_t record_bytes = 0;
    struct iovec *piece = request->pieces;
    memcpy(at, lane->fields, (size_t)lane->fields_size);
    at = put_length(at + lane->fields_size, flexible, (uint32_t)topic_count);
    for (int32_t i = 0; i < topic_count; i++) {
        KpTopic *topic = topics[i];
        const unsigned char *name = by_id ? topic->id : topic->name;
        size_t name_size = by_id ? 16 : (size_t)topic->name_size;
        memcpy(at, name, name_size);
        at = put_length(at + name_size, flexible, (uint32_t)topic->batch_count);
        for (KpBatch *batch = topic->first; batch; batch = batch->in_topic) {
            put32(at, (uint32_t)batch->part->index);
            at = put_length(at + 4, flexible, (uint32_t)kp_batch_size(batch));
            *piece++ = (struct iovec){start, (size_t)(at - start)};
            *piece++ = (struct iovec){kp_batch_data(batch), (size_t)kp_batch_size(batch)};
            record_bytes += kp_batch_size(batch);
            start = at;
            if (flexible) *at++ = 0;
            request->batches[request->batch_count++] = batch;
            if (request->batch_count == 1 || batch->closed_ms < request->closed_ms) request->closed_ms = batch->closed_ms;
            batch->request = request;
        }
        if (flexible) *at++ = 0;
    }
    if (flexible) *at++ = 0;
    if (at > start) *piece++ = (struct iovec){start, (size_t)(at - start)};
    request->piece_count = (int32_t)(piece - request->pieces);
    request->frame_bytes = request->bytes_left = at - request->small + record_bytes;
    request->correlation_id = lane->next_correlation_id;
    lane->next_correlation_id = lane->next_correlation_id == INT32_MAX ? 0 : lane->next_correlation_id + 1;
    put32(request->small, (uint32_t)(request->frame_bytes - 4));
    put16(request->small + 4, PRODUCE);
    put16(request->small + 6, (uint16_t)lane->version);
    put32(request->small + 8, (uint32_t)request->correlation_id);
}

/* What a request is made of. */
typedef struct Draft {
    KpRequest *request;     /* memory of `request_room` bytes */
    size_t request_room, name_bytes;
    KpTopic **topics;       /* memory for `topic_room` of them */
    int32_t topic_count, topic_room, batch_count;
} Draft;

/* Makes room for a batch of this topic: what was taken cannot be given back, as its partition may be disarmed. */
static bool reserve(const KpLane *lane, Draft *draft, const KpTopic *topic) {
    int32_t topic_count = draft->topic_count + (topic->first == NULL);
    size_t name_bytes = draft->name_bytes + (topic->first ? 0 : topic->has_id ? 16 : (size_t)topic->name_size);
    size_t needed = request_bytes(lane, topic_count, name_bytes, draft->batch_count + 1);
    if (needed > draft->request_room) {
        void *grown = realloc(draft->request, 2 * needed);
        if (!grown) return false;
        draft->request = grown;
        draft->request_room = 2 * needed;
    }
    if (topic_count > draft->topic_room) {
        void *grown = realloc(draft->topics, 2 * (size_t)topic_count * sizeof *draft->topics);
        if (!grown) return false;
        draft->topics = grown;
        draft->topic_room = 2 * topic_count;
    }
    return true;
}

static void add(Draft *draft, KpBatch *batch) {
    KpTopic *topic = batch->part->topic;
    batch->in_topic = NULL;
    if (topic->first) {
        topic->last->in_topic = batch;
    } else {
        topic->first = batch;
        draft->topics[draft->topic_count++] = topic;
        draft->name_bytes += topic->has_id ? 16 : (size_t)topic->name_size;
    }
    topic->last = batch;
    topic->batch_count++;
    draft->batch_count++;
}

/* One request with at most one batch of each partition. 0: nothing is due; -1: no memory. Adds what it compresses. */
static int drain_once(KpLane *lane, int64_t now_ms, int64_t *compressed_bytes) {
    Draft draft = {0};
    int64_t room = INT64_MAX, plain_bytes = 0;
    bool is_full = false, no_memory = false;
    if (kp_lane_next_ms(lane) > now_ms) return 0;
    lane->round++;
    for (KpPart *part; !is_full && (part = pop_part(lane, true));) {
        no_memory = !reserve(lane, &draft, part->topic);
        KpBatch *batch = take_first(lane, part, now_ms, no_memory ? -1 : room, &is_full);
        if (!batch) continue;
        add(&draft, batch);
        if (room == INT64_MAX) room = lane->most_request_bytes;
        room -= expected_bytes(lane->plane, batch);
        /* The estimate may be far too low. */
        plain_bytes += batch->end;
        if (room <= 0 || plain_bytes >= 4 * lane->most_request_bytes) is_full = true;
    }
    KpRequest *request = draft.request;
    /* After all are taken: it may last, and `now_ms` is the time until which batches are closed. */
    for (int32_t i = 0; i < draft.topic_count; i++)
        for (KpBatch *batch = draft.topics[i]->first; batch; batch = batch->in_topic) {
            if (lane->plane->codec && !batch->compressed) *compressed_bytes += batch->end;
            kp_batch_finish(batch);
        }
    if (draft.batch_count) lay_out(lane, request, draft.topics, draft.topic_count, draft.batch_count);
    for (int32_t i = 0; i < draft.topic_count; i++) {
        KpTopic *topic = draft.topics[i];
        for (KpBatch *batch = topic->first; batch; batch = batch->in_topic) {
            KpPart *part = batch->part;
            *(part->flying_last ? &part->flying_last->next : &part->flying_first) = batch;
            part->flying_last = batch;
            part->flying_count++;
        }
        topic->first = topic->last = NULL;
        topic->batch_count = 0;
    }
    free(draft.topics);
    if (!draft.batch_count) {
        free(request);
        return no_memory ? -1 : 0;
    }
    request->sent_ms = *compressed_bytes && lane->plane->clock_ms ? lane->plane->clock_ms() : now_ms;
    *(lane->last ? &lane->last->next : &lane->first) = request;
    lane->last = request;
    if (!lane->unwritten) lane->unwritten = request;
    lane->in_flight++;
    return 1;
}

int kp_lane_drain(KpLane *lane, int64_t now_ms) {
    int made = 0, result = 0;
    lane->now_ms = now_ms;
    int64_t compressed_bytes = 0;
    /* Not for too long: responses wait meanwhile. */
    while (compressed_bytes < MOST_COMPRESSED_BYTES && (result = drain_once(lane, now_ms, &compressed_bytes)) > 0) {
        made++;
        now_ms = lane->last->sent_ms;
        if (kp_lane_write(lane)) break;     /* the next write reports it */
    }
    return result < 0 ? result : made;
}

int64_t kp_send_plain(void *lane, const struct iovec *pieces, int count) {
    struct msghdr message = {0};
    message.msg_iov = (struct iovec *)pieces;
    message.msg_iovlen = (size_t)count;
    for (;;) {
        ssize_t written = sendmsg(((KpLane *)lane)->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (written >= 0) return written;
        if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
        if (errno != EINTR) return -errno;
    }
}

int kp_lane_write(KpLane *lane) {
    lane->stalled = false;
    while (lane->unwritten) {
        KpRequest *request = lane->unwritten;
        const struct iovec *pieces = request->pieces + request->next_piece;
        int32_t count = request->piece_count - request->next_piece;
        int64_t offered = 0;
        if (count > IOV_MAX) count = IOV_MAX;
        for (int32_t i = 0; i < count; i++) offered += (int64_t)pieces[i].iov_len;
        int64_t written = lane->send(lane->socket, pieces, count);
        lane->stalled = written < offered;
        if (written < 0) return (int)-written;
        request->bytes_left -= written;
        for (int64_t left = written; left > 0;) {
            struct iovec *piece = request->pieces + request->next_piece;
            if (left < (int64_t)piece->iov_len) {
                piece->iov_base = (char *)piece->iov_base + left;
                piece->iov_len -= (size_t)left;
                break;
            }
            left -= (int64_t)piece->iov_len;
            request->next_piece++;
        }
        if (!request->bytes_left) lane->unwritten = request->next;
        if (lane->stalled) return 0;
    }
    return 0;
}

/* -- responses */

typedef struct Reader {
    const unsigned char *at, *end;
    bool failed;        /* something was missing: what was read is 0 */
} Reader;

static bool has(Reader *reader, int64_t size) {
    if (reader->failed || reader->end - reader->at < size) {
        reader->failed = true;
        return false;
    }
    return true;
}

static int32_t read16(Reader *reader) {
    if (!has(reader, 2)) return 0;
    reader->at += 2;
    return (int16_t)(reader->at[-2] << 8 | reader->at[-1]);
}

static int32_t read32(Reader *reader) {
    if (!has(reader, 4)) return 0;
    reader->at += 4;
    return (int32_t)get32(reader->at - 4);
}

static int64_t read64(Reader *reader) {
    if (!has(reader, 8)) return 0;
    reader->at += 8;
    return (int64_t)((uint64_t)get32(reader->at - 8) << 32 | get32(reader->at - 4));
}

static uint32_t read_varint(Reader *reader) {
    uint32_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        if (!has(reader, 1)) return 0;
        uint32_t byte = *reader->at++;
        if (shift == 28 && byte > 0x0F) break;
        value |= (byte & 0x7F) << shift;
        if (byte < 0x80) return value;
    }
    reader->failed = true;
    return 0;
}

/* The number of elements of an array; -1: null, or none could be read. */
static int64_t read_length(Reader *reader, bool flexible) {
    int64_t length = flexible ? (int64_t)read_varint(reader) - 1 : read32(reader);
    return reader->failed ? -1 : length;
}

/* Whether there are no tagged fields. */
static bool ends_here(Reader *reader, bool flexible) {
    return !flexible || (has(reader, 1) && *reader->at++ == 0);
}

static KpTopic *read_topic(Reader *reader, KpRequest *request, int16_t version, int32_t expected) {
    bool by_id = version >= FIRST_WITH_TOPIC_IDS;
    const unsigned char *start = reader->at;
    int64_t size = 16;
    if (!by_id) {
        /* The encoded name is compared, its length included. */
        int64_t length = version >= FIRST_FLEXIBLE ? (int64_t)read_varint(reader) - 1 : read16(reader);
        size = reader->at - start + length;
        if (reader->failed || length < 0) return NULL;
        reader->at = start;
    }
    if (!has(reader, size)) return NULL;
    reader->at += size;
    for (int32_t i = 0; i < request->topic_count; i++) {
        KpTopic *topic = request->topics[(expected + i) % request->topic_count];
        const unsigned char *name = by_id ? topic->id : topic->name;
        int64_t name_size = by_id ? 16 : topic->name_size;
        if (name_size == size && !memcmp(start, name, (size_t)size)) return topic;
    }
    return NULL;
}

static bool read_partition(Reader *reader, KpRequest *request, int16_t version, KpTopic *topic) {
    bool flexible = version >= FIRST_FLEXIBLE;
    int32_t index = read32(reader), error_code = read16(reader);
    int64_t base_offset = read64(reader), log_append_time_ms = read64(reader);
    if (version >= 5) read64(reader);   /* log start offset */
    if (version >= 8) {
        /* No record errors, and no error message. */
        if (read_length(reader, flexible) > 0) return false;
        int64_t length = flexible ? (int64_t)read_varint(reader) - 1 : read16(reader);
        if (reader->failed || length >= 0) return false;
    }
    if (reader->failed || error_code || base_offset < 0 || !ends_here(reader, flexible)) return false;
    if (index < 0 || index >= topic->part_count || !topic->parts[index]) return false;
    KpBatch *batch = topic->parts[index]->flying_first;
    if (!batch || batch->request != request || batch->answered) return false;
    batch->answered = true;
    batch->base_offset = base_offset;
    batch->log_append_time_ms = log_append_time_ms < 0 ? -1 : log_append_time_ms;
    return true;
}

bool kp_read_response(KpRequest *request, int16_t version, const unsigned char *data, int64_t size) {
    Reader reader = {data, data + size, false};
    bool flexible = version >= FIRST_FLEXIBLE, is_usual = false;
    int32_t answered = 0;
    if (read32(&reader) != request->correlation_id || !ends_here(&reader, flexible)) return false;
    int64_t topic_count = read_length(&reader, flexible);
    for (int64_t i = 0; i < topic_count; i++) {
        KpTopic *topic = read_topic(&reader, request, version, (int32_t)(i % request->topic_count));
        int64_t count = topic ? read_length(&reader, flexible) : -1;
        /* Each partition once: so the loop ends after at most batch_count steps. */
        for (int64_t j = 0; j < count; j++, answered++)
            if (!read_partition(&reader, request, version, topic)) goto end;
        if (count <= 0 || !ends_here(&reader, flexible)) goto end;
    }
    is_usual = answered == request->batch_count && read32(&reader) == 0 && !reader.failed
        && ends_here(&reader, flexible) && reader.at == reader.end;
end:
    for (int32_t i = 0; i < request->batch_count; i++) request->batches[i]->answered = false;
    return is_usual;
}

static bool keep_partial(KpLane *lane, const unsigned char *data, int64_t size) {
    if (lane->partial_size + size > lane->partial_room) {
        int64_t room = 2 * (lane->partial_size + size) + 256;
        unsigned char *grown = realloc(lane->partial, (size_t)room);
        if (!grown) return false;
        lane->partial = grown;
        lane->partial_room = room;
    }
    memcpy(lane->partial + lane->partial_size, data, (size_t)size);
    lane->partial_size += size;
    return true;
}

static void complete_first(KpLane *lane) {
    KpRequest *request = lane->first;
    lane->first = request->next;
    if (!lane->first) lane->last = NULL;
    lane->in_flight--;
    request->next = NULL;
    *(lane->done_last ? &lane->done_last->next : &lane->done_first) = request;
    lane->done_last = request;
    lane->done_count++;
    for (int32_t i = 0; i < request->batch_count; i++) {
        KpBatch *batch = request->batches[i];
        KpPart *part = batch->part;
        part->flying_first = batch->next;
        if (!part->flying_first) part->flying_last = NULL;
        part->flying_count--;
        count_batches(part, -1);
        if (part->is_numbered) {
            part->settled_count++;
            part->acknowledged_ms = lane->now_ms;
            part->last_acked_sequence =
                (int32_t)(((uint32_t)batch->sequence + (uint32_t)batch->record_count - 1) & INT32_MAX);
            kp_part_lock(part);
            if (part->is_held) {
                part->is_held = false;
                if (part->lane) place(part, false);
            }
            kp_part_unlock(part);
        }
        batch->next = NULL;
        batch->request = NULL;
        batch->state = KP_SETTLED;
    }
}

kp_frame kp_lane_receive(KpLane *lane, const unsigned char *data, int64_t size, int64_t *consumed,
                              const unsigned char **frame, int64_t *frame_size) {
    unsigned char head[4];
    int64_t kept = lane->partial_size;
    *consumed = 0;
    *frame = NULL;
    *frame_size = 0;
    if (kept + size < 4) {
        if (!keep_partial(lane, data, size)) return KP_FRAME_UNUSUAL;
        *consumed = size;
        return KP_FRAME_MORE;
    }
    for (int64_t i = 0; i < 4; i++) head[i] = i < kept ? lane->partial[i] : data[i - kept];
    int64_t length = (int32_t)get32(head);
    if (length < 4 || length > MOST_RESPONSE_BYTES) return KP_FRAME_UNUSUAL;
    if (kept + size < 4 + length) {
        if (!keep_partial(lane, data, size)) return KP_FRAME_UNUSUAL;
        *consumed = size;
        return KP_FRAME_MORE;
    }
    int64_t taken = 4 + length - kept;
    const unsigned char *payload = data + 4;
    if (kept) {
        if (!keep_partial(lane, data, taken)) return KP_FRAME_UNUSUAL;
        payload = lane->partial + 4;
    }
    kp_frame kind = KP_FRAME_UNUSUAL;
    if (lane->foreign) {
        lane->foreign--;
        *frame = payload;
        *frame_size = length;
        kind = KP_FRAME_FOREIGN;
    } else if (lane->first && !lane->first->bytes_left && kp_read_response(lane->first, lane->version, payload, length)) {
        lane->first->response_bytes = 4 + length;
        complete_first(lane);
        kind = KP_FRAME_DONE;
    }
    if (kind == KP_FRAME_UNUSUAL) {
        lane->partial_size = kept;
        return kind;
    }
    lane->partial_size = 0;
    *consumed = taken;
    return kind;
}

bool kp_lane_hold(KpLane *lane, const unsigned char *data, int64_t size) {
    lane->held = size ? malloc((size_t)size) : NULL;
    if (size && !lane->held) return false;
    if (size) memcpy(lane->held, data, (size_t)size);
    lane->held_size = size;
    return true;
}

int64_t kp_lane_take_held(KpLane *lane, unsigned char *target) {
    int64_t size = lane->held_size;
    if (size) memcpy(target, lane->held, (size_t)size);
    free(lane->held);
    lane->held = NULL;
    lane->held_size = 0;
    return size;
}

KpRequest *kp_lane_take_done(KpLane *lane) {
    KpRequest *first = lane->done_first;
    lane->done_first = lane->done_last = NULL;
    lane->done_count = 0;
    return first;
}

KpRequest *kp_lane_take_requests(KpLane *lane) {
    KpRequest *first = lane->first;
    for (KpRequest *request = first; request; request = request->next)
        for (int32_t i = 0; i < request->batch_count; i++) {
            KpPart *part = request->batches[i]->part;
            part->flying_first = part->flying_last = NULL;
            part->flying_count = 0;
            kp_part_lock(part);
            count_batches(part, -1);
            part->is_held = false;
            if (part->lane) place(part, false);
            kp_part_unlock(part);
        }
    lane->first = lane->last = lane->unwritten = NULL;
    lane->in_flight = 0;
    lane->stalled = false;
    return first;
}

void kp_request_free(KpRequest *request) { free(request); }

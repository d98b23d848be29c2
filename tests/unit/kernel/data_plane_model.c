/* Every interleaving of two callers, the I/O thread and a broker, within bounds: test_data_plane_interleavings.py.
 *
 * The code under test is plane.c itself. Each thread is a coroutine, which stops before it takes a lock, before each
 * atomic operation, and where this file says `point`. From every state, each thread that can go on does so, depth
 * first; a state is memory, so it is copied to come back to it, and its hash tells whether it was seen before. What
 * `_lane.pyx` and the Python code do around plane.c is imitated here: the callers as in `append_to_part`, the rest
 * as far as it touches partitions and lanes.
 *
 * Memory of a fixed size, and nothing that depends on the order of events but the state itself: so threads that come to
 * the same state in different ways are one state. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <ucontext.h>

/* -- what replaces the system ----------------------------------------------------------------------------------- */

static void point(const char *where);
static void stop_for(const volatile void *atomic, const char *where);
static void model_lock(pthread_mutex_t *mutex);
static void model_unlock(pthread_mutex_t *mutex);
static void *model_realloc(void *old, size_t size);
static void model_free(void *memory);

#define pthread_mutex_lock model_lock
#define pthread_mutex_unlock model_unlock
#define pthread_mutex_trylock(mutex) (model_lock(mutex), 0)
#define pthread_mutex_destroy(mutex) ((void)(mutex))
#define malloc(size) model_realloc(NULL, size)
#define realloc(old, size) model_realloc(old, size)
#define free(memory) model_free(memory)
#undef atomic_load
#undef atomic_store
#undef atomic_fetch_add
#undef atomic_fetch_sub
#define atomic_load(at) (stop_for(at, "load " #at), *(at))
#define atomic_store(at, value) (stop_for(at, "store " #at), (void)(*(at) = (value)))
/* Counts that decide nothing here: no need to stop. */
#define atomic_fetch_add(at, value) ((*(at) += (value)) - (value))
#define atomic_fetch_sub(at, value) ((*(at) -= (value)) + (value))
#include "plane.c"

enum {
    PARTS = 2, CALLERS = 2, OPS = 5, CAPACITY = 2, RECORDS = 12, BATCHES = 12, SLOTS = 10, SLOT_BYTES = 832,
    REQUESTS = 8, BYTES = 768, TRIES = 3, STACK_BYTES = 8192, MOST_DEPTH = 4000,
};
enum { IO = CALLERS, BROKER, THREADS };
enum { END, SEND, GENERAL, BEGIN, COMMIT, ABORT, FLUSH };

typedef struct { int kind, part, size; } Op;

typedef struct {
    const char *name;
    Op programs[CALLERS][OPS];
    int errors, hand_overs, stalls, failures;       /* at most so many */
    bool linger, time_stands_still, transactions, compression;
} Scenario;

static const Scenario scenarios[] = {
    {"append", {{{SEND, 0, 1}, {SEND, 0, 2}}, {{SEND, 0, 1}}}},
    {"partitions", {{{SEND, 0, 1}, {SEND, 1, 1}}, {{SEND, 1, 2}}}},
    {"memory", {{{SEND, 0, 1}}, {{SEND, 0, 2}}}, .failures = 1},
    {"detach", {{{SEND, 0, 1}, {SEND, 0, 1}}, {{GENERAL, 0, 1}}}},
    {"take-back", {{{SEND, 0, 1}}, {{SEND, 0, 2}}}, .hand_overs = 1, .stalls = 1},
    {"errors", {{{SEND, 0, 1}}, {{SEND, 0, 2}}}, .errors = 1},
    {"linger", {{{SEND, 0, 1}, {FLUSH}}, {{SEND, 0, 1}}}, .linger = true},
    {"flush", {{{SEND, 0, 1}, {FLUSH}}, {{SEND, 1, 1}}}, .linger = true, .time_stands_still = true},
    {"compression", {{{SEND, 0, 1}, {SEND, 0, 2}}, {{END}}}, .compression = true},
    {"compression-detach", {{{SEND, 0, 1}, {SEND, 0, 2}}, {{GENERAL, 0, 1}}}, .compression = true},
    {"abort", {{{BEGIN}, {SEND, 0, 1}, {ABORT}, {BEGIN}}, {{SEND, 0, 1}}}, .transactions = true},
    {"commit", {{{BEGIN}, {SEND, 0, 1}, {COMMIT}, {BEGIN}, {SEND, 0, 1}}, {{SEND, 1, 1}}}, .transactions = true},
    /* Larger ones: not in `make test`. */
    {"append-more", {{{SEND, 0, 1}, {SEND, 0, 2}, {SEND, 1, 1}}, {{SEND, 0, 1}, {SEND, 1, 2}}}, .failures = 1},
    {"detach-more", {{{SEND, 0, 1}, {SEND, 0, 2}, {SEND, 1, 1}}, {{GENERAL, 0, 1}, {SEND, 0, 1}}}},
    {"take-back-more", {{{SEND, 0, 1}, {SEND, 0, 2}}, {{SEND, 0, 1}, {SEND, 1, 1}}}, .hand_overs = 1, .stalls = 1},
    {"errors-more", {{{SEND, 0, 2}, {SEND, 0, 1}}, {{SEND, 0, 1}, {GENERAL, 0, 1}}}, .errors = 1, .hand_overs = 1},
    {"linger-more", {{{SEND, 0, 1}, {FLUSH}, {SEND, 1, 1}}, {{SEND, 0, 1}, {SEND, 1, 1}, {FLUSH}}}, .linger = true},
    {"two-compress", {{{SEND, 0, 2}, {SEND, 0, 1}}, {{SEND, 0, 1}}}, .compression = true},
    {"compression-more", {{{SEND, 0, 1}, {SEND, 0, 2}}, {{SEND, 0, 1}, {SEND, 0, 2}}}, .hand_overs = 1, .compression = true},
    {"abort-more", {{{BEGIN}, {SEND, 0, 1}, {ABORT}, {BEGIN}, {SEND, 0, 2}}, {{SEND, 0, 1}, {GENERAL, 1, 1}}}, .hand_overs = 1, .transactions = true},
};

/* A batch; `b` comes first. Its records are numbers: the place among all that its partition has accepted. */
typedef struct Batch {
    KpBatch b;
    unsigned char data[BATCH_HEADER_BYTES + CAPACITY];
    bool is_used;
    bool is_busy;           /* a caller compresses it */
    bool was_busy;
    struct Batch *older;    /* it was handed back, and this one is compressed just now */
    bool is_numbered;       /* by Python, or by a lane that had sent it */
} Batch;

typedef struct { int32_t id; int count; Batch *batches[PARTS]; } Flight;
typedef struct {
    int part, count, sequence, epoch;
    unsigned char records[CAPACITY];
} Appended;
typedef struct { int32_t id; int count; Appended appended[PARTS]; } Produce;

typedef struct {
    ucontext_t context;
    bool (*may_go_on)(void *of);        /* NULL: yes */
    void *of;
    const char *where;
    int choices, choice;
    int locks;              /* that it has */
    bool is_done, has_stopped;      /* since it took the first of them */
    char *stack_pointer;
} Thread;

typedef struct {
    KpPlane plane; KpLane lane; KpTopic topic; KpPart parts[PARTS]; KpPart *part_table[PARTS];
    Batch batches[BATCHES];
    bool slot_used[SLOTS]; _Alignas(16) unsigned char slots[SLOTS][SLOT_BYTES];
    Thread threads[THREADS];
    int current;
    const char *failure;
    int64_t now_ms;
    /* Of the Python code. `queue`: with its lock. */
    pthread_mutex_t queue_locks[PARTS];
    Batch *queue[PARTS], *queue_last[PARTS];
    bool is_armed[PARTS];
    int disarmed;           /* a bit per partition, for the I/O thread */
    int incomplete, transaction, ending, flushes;
    bool sends_everything, is_open;     /* flushes; a transaction */
    bool wakes_plane, wakes_python;
    /* The I/O thread's. */
    bool is_lent[PARTS], is_wanted[PARTS];
    int32_t next_sequence[PARTS], flying[PARTS], next_id;
    Flight flights[REQUESTS]; int flight_count;
    unsigned char received[BYTES]; int64_t received_size;
    int errors, hand_overs, stalls, failures;
    /* Of the connection and the broker. */
    unsigned char sent[BYTES]; int64_t sent_size;           /* a part of a frame */
    unsigned char responses[BYTES]; int64_t response_size;
    Produce requests[REQUESTS]; int request_count;
    int32_t broker_sequence[PARTS], broker_epoch[PARTS];
    bool is_known[PARTS];   /* the leader knows the producer id */
    /* What was accepted, and what has come of it. */
    int accepted[PARTS], appended[PARTS], settled[PARTS];
    bool is_dropped[PARTS][RECORDS];
    int transaction_of[PARTS][RECORDS];
} World;

static World w;
static _Alignas(16) char stacks[THREADS][STACK_BYTES];
static ucontext_t scheduler;
static const Scenario *scenario;

static const char WAIT[] = "wait";

#define CHECK(condition, what) do { if (!(condition)) fail(what); } while (0)

static void leave(void) {
    Thread *self = &w.threads[w.current];
    self->stack_pointer = (char *)__builtin_frame_address(0) - 256;
    swapcontext(&self->context, &scheduler);
}

static void fail(const char *what) {
    w.failure = what;
    for (;;) leave();
}

static int stop(const char *where, bool (*may_go_on)(void *), void *of, int choices) {
    Thread *self = &w.threads[w.current];
    self->where = where;
    self->has_stopped = true;
    self->may_go_on = may_go_on;
    self->of = of;
    self->choices = choices;
    leave();
    self = &w.threads[w.current];
    int choice = self->choice;
    self->where = "";
    self->may_go_on = NULL;
    self->of = NULL;
    self->choices = self->choice = 0;
    return choice;
}

static void point(const char *where) { stop(where, NULL, NULL, 1); }
/* What no thread changes while others look at it is not worth a stop. */
static void stop_for(const volatile void *atomic, const char *where) {
    if (atomic != &w.plane.sends_everything || scenario->linger) point(where);
}
static int choose(const char *what, int count) { return stop(what, NULL, NULL, count); }

static bool is_free(void *mutex) { return !*(int *)mutex; }
static void model_lock(pthread_mutex_t *mutex) {
    Thread *self = &w.threads[w.current];
    CHECK(*(int *)mutex != w.current + 1, "a thread takes a lock that it has");
    /* Locks that are taken one after the other are taken at once: what happens in between could happen before. */
    if (!self->locks || self->has_stopped || *(int *)mutex) stop("lock", is_free, mutex, 1);
    if (!self->locks++) self->has_stopped = false;
    *(int *)mutex = w.current + 1;
}
static void model_unlock(pthread_mutex_t *mutex) {
    CHECK(*(int *)mutex == w.current + 1, "a thread releases a lock that it has not");
    *(int *)mutex = 0;
    w.threads[w.current].locks--;
    w.threads[w.current].has_stopped = true;
}

static void *model_realloc(void *old, size_t size) {
    if (size > SLOT_BYTES) fail("the model's slots are too small");
    if (old) return old;
    if (w.current == IO && w.failures < scenario->failures && choose("memory: yes, no", 2)) {
        w.failures++;
        return NULL;
    }
    for (int i = 0; i < SLOTS; i++)
        if (!w.slot_used[i]) {
            w.slot_used[i] = true;
            return w.slots[i];
        }
    fail("the model has too few slots");
    return NULL;
}
static void model_free(void *memory) {
    if (!memory) return;
    int64_t at = ((unsigned char *)memory - w.slots[0]) / SLOT_BYTES;
    CHECK(at >= 0 && at < SLOTS && memory == w.slots[at] && w.slot_used[at], "what is freed was not allocated");
    w.slot_used[at] = false;
    memset(memory, 0, SLOT_BYTES);
}

static Batch *new_batch(void) {
    for (int i = 0; i < BATCHES; i++)
        if (!w.batches[i].is_used && !w.batches[i].is_busy) {
            w.batches[i].is_used = true;
            w.batches[i].b.data = w.batches[i].data;
            w.batches[i].b.ratio = 1;
            w.batches[i].b.end = BATCH_HEADER_BYTES;
            return &w.batches[i];
        }
    fail("the model has too few batches");
    return NULL;
}
static void drop_batch(Batch *batch) {
    kp_batch_forget_compressed(&batch->b);
    if (batch->is_busy) batch->is_used = false;     /* the caller that compresses it clears it */
    else memset(batch, 0, sizeof *batch);
}

/* -- the codec: a mark, and the records ----------------------------------------------------------------------------- */

static int64_t codec_bound(KpCodec *codec, int64_t size) { (void)codec; return size + 1; }
static int64_t codec_compress(KpCodec *codec, unsigned char *target, int64_t room, const unsigned char *source, int64_t size) {
    (void)codec;
    CHECK(room > size, "the codec has too little room");
    target[0] = 0xC0;
    memcpy(target + 1, source, (size_t)size);
    return size + 1;
}
static KpCodec codec = {3, codec_bound, codec_compress};

/* -- callers ------------------------------------------------------------------------------------------------------------ */

static int add_record(Batch *batch, int p, int size) {
    if (batch->b.record_count + size > CAPACITY) return 0;
    CHECK(w.accepted[p] + size <= RECORDS, "the model has too few records");
    for (int i = 0; i < size; i++) {
        w.transaction_of[p][w.accepted[p]] = w.transaction;
        batch->data[BATCH_HEADER_BYTES + batch->b.record_count + i] = (unsigned char)w.accepted[p]++;
    }
    kp_part_note(&batch->b, batch->b.end + size, batch->b.record_count + size, 1, 1);
    return 1;
}

static bool takes_records(int transaction) {
    return !scenario->transactions || (transaction && transaction == w.transaction);
}

static void note_complete(Batch *batch) {
    drop_batch(batch);
    w.incomplete--;
    CHECK(w.incomplete >= 0, "more batches have an outcome than there were");
}

static void compress_as_caller(Batch *batch) {
    int p = batch->b.part->index;
    int64_t end = 0;
    unsigned char before[sizeof batch->data];
    memcpy(before, batch->data, sizeof before);
    point("compress");
    CHECK(!memcmp(before, batch->data, sizeof before), "a batch was written to while a caller compressed it");
    unsigned char *compressed = kp_compress(w.plane.codec, &batch->b, &end);
    memset(before, 0, sizeof before);
    kp_part_lock(&w.parts[p]);
    bool wakes = kp_part_end_compression(&w.parts[p], &batch->b, &compressed, end);
    kp_part_unlock(&w.parts[p]);
    model_free(compressed);
    batch->is_busy = false;
    if (!batch->is_used) memset(batch, 0, sizeof *batch);
    if (wakes) {
        point("wake");
        w.wakes_plane = true;
    }
}

/* As `append_to_part`. */
static int append_to_lane(int p, int size, int transaction) {
    KpPart *part = &w.parts[p];
    Batch *begun = NULL, *closed;
    bool wakes = false;
    int taken = 0, tries;
    for (tries = 0; tries < TRIES; tries++) {
        closed = NULL;
        kp_part_lock(part);
        if (!part->lane || !takes_records(transaction)) {
            kp_part_unlock(part);
            break;
        }
        if (part->open) {
            Batch *open = (Batch *)part->open;
            taken = add_record(open, p, size);
            if (taken && open->b.record_count == CAPACITY) wakes |= kp_part_close_open(part, w.now_ms);
            if (!taken && w.plane.codec && choose("the I/O thread has enough to compress: no, yes", 2)) {
                closed = open;
                closed->is_busy = closed->was_busy = true;
                kp_part_begin_compression(part, w.now_ms);
                kp_part_unlock(part);
                compress_as_caller(closed);
                continue;
            }
        }
        if (!taken && begun) {
            taken = add_record(begun, p, size);
            begun->b.is_full = begun->b.record_count == CAPACITY;
            wakes |= kp_part_begin(part, &begun->b, w.now_ms);
            if (begun->b.is_full && !w.plane.codec) wakes |= kp_part_close_open(part, w.now_ms);
            begun = NULL;
        }
        kp_part_unlock(part);
        if (taken) break;
        if (w.failures < scenario->failures && choose("allocate: yes, no", 2)) {
            w.failures++;
            break;
        }
        /* Nothing has changed: as if this were before the lock. */
        if (!begun) {
            begun = new_batch();
            w.incomplete++;
        }
    }
    if (wakes) {
        point("wake");
        w.wakes_plane = true;
    }
    if (begun) {
        point("abandon");
        note_complete(begun);
        if (scenario->transactions && !w.transaction) w.wakes_python = true;
    }
    return taken;
}

static void push(int p, Batch *batch) {
    batch->b.next = NULL;
    if (w.queue_last[p]) w.queue_last[p]->b.next = &batch->b;
    else w.queue[p] = batch;
    w.queue_last[p] = batch;
}

/* As `PartitionQueue.disarm_locked`. What a lane had becomes other objects, which a late caller does not know. */
static void disarm_locked(int p) {
    if (!w.is_armed[p]) return;
    kp_part_lock(&w.parts[p]);
    KpBatch *each = kp_part_detach(&w.parts[p]);
    kp_part_unlock(&w.parts[p]);
    w.is_armed[p] = false;
    w.disarmed |= 1 << p;
    for (KpBatch *next; each; each = next) {
        next = each->next;
        Batch *old = (Batch *)each, *made = new_batch();
        CHECK(each->state != KP_FLYING, "a batch in flight was handed back as one that waits");
        memcpy(made->data, old->data, sizeof made->data);
        made->b.part = each->part;
        made->b.state = each->state;
        made->b.end = each->end;
        made->b.record_count = each->record_count;
        made->b.begun_ms = each->begun_ms;
        made->b.closed_ms = each->closed_ms;
        made->b.compressed = each->compressed;
        made->b.compressed_end = each->compressed_end;
        made->was_busy = old->was_busy;
        made->older = old->is_busy ? old : NULL;
        old->b.compressed = NULL;
        drop_batch(old);
        push(p, made);
    }
}

/* As `RecordAccumulator.append`. Whether the record was accepted. */
static int append_in_python(int p, int size, int transaction) {
    int taken = 0;
    model_lock(&w.queue_locks[p]);
    disarm_locked(p);
    point("check the transaction");
    if (takes_records(transaction)) {
        Batch *open = w.queue_last[p];
        taken = open && open->b.state == KP_OPEN && add_record(open, p, size);
        if (!taken) {
            if (open) open->b.state = KP_QUEUED;
            open = new_batch();
            w.incomplete++;
            open->b.part = &w.parts[p];
            taken = add_record(open, p, size);
            push(p, open);
        }
    }
    model_unlock(&w.queue_locks[p]);
    point("wake Python");
    w.wakes_python = true;
    return taken;
}

static bool has_ended(void *unused) { (void)unused; return !w.ending; }
static bool is_flushed(void *unused) { (void)unused; return !w.incomplete; }

/* As the method of `FastLanes`. */
static void update_sends_everything(void) {
    for (;;) {
        bool wanted = w.flushes > 0;
        point("look whether to send everything");
        if (wanted == w.sends_everything) return;
        w.sends_everything = wanted;
        w.plane.sends_everything = wanted;      /* the interpreter lock is not released in between */
        if (wanted) {
            point("wake");
            w.wakes_plane = true;
        }
    }
}

static void caller(void) {
    for (int i = 0; i < OPS; i++) {
        Op op = scenario->programs[w.current][i];
        if (scenario->transactions) point("next call");
        int transaction = w.transaction;
        switch (op.kind) {
        case END: return;
        case SEND:
            if (scenario->transactions && !transaction) break;      /* refused */
            if (!append_to_lane(op.part, op.size, transaction)) append_in_python(op.part, op.size, transaction);
            break;
        case GENERAL:
            if (scenario->transactions && !transaction) break;
            append_in_python(op.part, op.size, transaction);
            break;
        case BEGIN:
            kp_plane_begin_transaction(&w.plane);
            w.transaction = w.plane.producer_epoch;
            w.is_open = true;
            break;
        case COMMIT:
        case ABORT:
            w.transaction = 0;
            point("end the transaction");
            w.ending = op.kind;
            w.wakes_python = true;
            stop("the end of the transaction", has_ended, NULL, 1);
            break;
        case FLUSH:
            w.flushes++;
            update_sends_everything();
            stop("flush", is_flushed, NULL, 1);
            w.flushes--;
            update_sends_everything();
            break;
        }
    }
}

/* -- connection and broker -------------------------------------------------------------------------------------------- */

static void parse_request(const unsigned char *frame) {
    CHECK(w.request_count < REQUESTS, "the model has too few requests");
    Produce *request = &w.requests[w.request_count++];
    const unsigned char *at = frame + 8 + 4 + 2;
    request->id = (int32_t)get32(frame + 8);
    CHECK(get32(at) == 1, "the frame is not one of this topic");
    at += 4 + 3;
    request->count = (int)get32(at);
    CHECK(request->count >= 1 && request->count <= PARTS, "a request has a partition twice");
    at += 4;
    for (int i = 0; i < request->count; i++) {
        Appended *each = &request->appended[i];
        const unsigned char *data = at + 8;
        int is_compressed = data[22] & 7;
        each->part = (int)get32(at);
        each->sequence = (int32_t)get32(data + 53);
        each->epoch = data[51] << 8 | data[52];
        each->count = (int)get32(data + 57);
        CHECK(each->count >= 1 && each->count <= CAPACITY, "a batch has a wrong number of records");
        CHECK((int)get32(at + 4) == BATCH_HEADER_BYTES + each->count + !!is_compressed, "a batch has a wrong size");
        CHECK(!is_compressed || data[BATCH_HEADER_BYTES] == 0xC0, "a batch is not compressed as it says");
        CHECK(is_compressed || !scenario->compression || w.failures, "a batch was not compressed");
        memcpy(each->records, data + BATCH_HEADER_BYTES + !!is_compressed, (size_t)each->count);
        at = data + get32(at + 4);
    }
}

static int64_t model_send(void *unused, const struct iovec *pieces, int count) {
    int64_t offered = 0, taken;
    (void)unused;
    for (int i = 0; i < count; i++) offered += (int64_t)pieces[i].iov_len;
    taken = offered;
    if (w.stalls < scenario->stalls && choose("the socket takes: all, a part", 2)) {
        w.stalls++;
        taken = offered / 2;
    }
    CHECK(!scenario->transactions || w.plane.has_sent, "the transaction sends, and does not know");
    CHECK(!scenario->transactions || w.is_open, "something is sent between two transactions");
    for (int64_t left = taken; left; pieces++) {
        int64_t size = left < (int64_t)pieces->iov_len ? left : (int64_t)pieces->iov_len;
        CHECK(w.sent_size + size <= BYTES, "the model's buffer is too small");
        memcpy(w.sent + w.sent_size, pieces->iov_base, (size_t)size);
        w.sent_size += size;
        left -= size;
    }
    while (w.sent_size >= 4 && w.sent_size >= 4 + (int64_t)get32(w.sent)) {
        int64_t size = 4 + (int64_t)get32(w.sent);
        parse_request(w.sent);
        memmove(w.sent, w.sent + size, (size_t)(w.sent_size - size));
        memset(w.sent + w.sent_size - size, 0, (size_t)size);
        w.sent_size -= size;
    }
    return taken;
}

/* The error code. */
static int append_at_broker(const Appended *batch) {
    int p = batch->part;
    if (batch->epoch != w.broker_epoch[p]) {
        CHECK(batch->epoch > w.broker_epoch[p], "an epoch goes back");
        w.broker_epoch[p] = batch->epoch;
        w.broker_sequence[p] = 0;
    }
    if (!w.is_known[p]) w.broker_sequence[p] = batch->sequence;     /* it accepts any number as the first */
    w.is_known[p] = true;
    CHECK(batch->sequence >= w.broker_sequence[p], "a sequence number occurs twice");
    if (batch->sequence != w.broker_sequence[p]) {
        CHECK(w.errors, "sequence numbers have a gap, and nothing has failed");
        return 45;
    }
    w.broker_sequence[p] += batch->count;
    for (int i = 0; i < batch->count; i++) {
        while (w.is_dropped[p][w.appended[p]]) w.appended[p]++;
        CHECK(batch->records[i] >= w.appended[p], "a record is written twice, or late");
        CHECK(batch->records[i] == w.appended[p], "a record is lost, or overtaken");
        CHECK(w.transaction_of[p][w.appended[p]] == (scenario->transactions ? batch->epoch : 0),
              "a record is written in another transaction");
        CHECK(!scenario->transactions || batch->epoch == w.plane.producer_epoch, "a record is written after its transaction");
        w.appended[p]++;
    }
    return 0;
}

/* An answer that comes earlier is not seen earlier. */
static bool is_waiting(void) { return w.threads[IO].where == WAIT; }
static bool has_request(void *unused) { (void)unused; return w.request_count > 0 && is_waiting(); }

static void put_number(unsigned char **at, int bytes, int64_t value) {
    for (int i = bytes; i--;) *(*at)++ = (unsigned char)(value >> 8 * i);
}

static void broker(void) {
    for (;;) {
        stop("answer", has_request, NULL, 1);
        Produce request = w.requests[0];
        memmove(w.requests, w.requests + 1, sizeof w.requests - sizeof *w.requests);
        memset(&w.requests[--w.request_count], 0, sizeof *w.requests);
        int error = 0;
        if (w.errors < scenario->errors && choose("the broker: appends, refuses", 2)) {
            w.errors++;
            error = 6;
        }
        unsigned char *start = w.responses + w.response_size, *at = start + 4;
        CHECK(w.response_size + 17 + 22 * request.count + 4 <= BYTES, "the model's buffer is too small");
        put_number(&at, 4, request.id);
        put_number(&at, 4, 1);
        memcpy(at, "\0\1t", 3);
        at += 3;
        put_number(&at, 4, request.count);
        for (int i = 0; i < request.count; i++) {
            int code = error ? error : append_at_broker(&request.appended[i]);
            put_number(&at, 4, request.appended[i].part);
            put_number(&at, 2, code);
            put_number(&at, 8, code ? -1 : 5);
            put_number(&at, 8, -1);
        }
        put_number(&at, 4, 0);
        int64_t size = at - start;
        put_number(&start, 4, size - 4);
        w.response_size += size;
        memset(&request, 0, sizeof request);
    }
}

/* -- the I/O thread ------------------------------------------------------------------------------------------------------- */

static void succeed(Batch *batch) {
    int p = batch->b.part->index;
    for (int i = 0; i < batch->b.record_count; i++) {
        while (w.is_dropped[p][w.settled[p]]) w.settled[p]++;
        CHECK(batch->data[BATCH_HEADER_BYTES + i] == w.settled[p], "outcomes are not in order");
        CHECK(w.settled[p] < w.appended[p], "a record has succeeded that was not written");
        w.settled[p]++;
    }
    note_complete(batch);
}

static void settle(void) {
    KpRequest *next, *each = kp_lane_take_done(&w.lane);
    for (; each; each = next) {
        next = each->next;
        for (int i = 0; i < each->batch_count; i++) succeed((Batch *)each->batches[i]);
        kp_request_free(each);
    }
}

/* As `FastLanes._adopt_requests`. */
static void adopt_requests(void) {
    w.next_id = w.lane.next_correlation_id;
    KpRequest *next, *each = w.lane.first;
    for (; each; each = each->next) {
        Flight *flight = &w.flights[w.flight_count++];
        CHECK(w.flight_count < REQUESTS, "the model has too few requests");
        flight->id = each->correlation_id;
        for (int i = 0; i < each->batch_count; i++) {
            Batch *batch = (Batch *)each->batches[i];
            CHECK(batch->b.state == KP_FLYING, "a batch in a request is not in flight");
            batch->is_numbered = true;
            flight->batches[flight->count++] = batch;
            w.flying[batch->b.part->index]++;
        }
        /* What is left of a frame is the next thing that Python writes. */
        if (each->bytes_left) model_send(NULL, each->pieces + each->next_piece, each->piece_count - each->next_piece);
    }
    for (each = kp_lane_take_requests(&w.lane); each; each = next) {
        next = each->next;
        kp_request_free(each);
    }
}

/* As `FastLanes._take_back_disarmed`. */
static void take_back_disarmed(void) {
    int disarmed = w.disarmed;
    w.disarmed = 0;
    for (int p = 0; p < PARTS; p++)
        if (disarmed & 1 << p) {
            if (w.parts[p].flying_first) adopt_requests();
            kp_part_renumber(&w.parts[p]);
            w.next_sequence[p] = w.parts[p].next_sequence;
            w.is_lent[p] = false;
        }
}

static void begin_lane(void) {
    kp_lane_init(&w.lane, &w.plane, NULL);
    w.lane.send = model_send;
    w.lane.version = 3;
    w.lane.fields = (const unsigned char *)"\377\377";
    w.lane.fields_size = 2;
    w.lane.most_in_flight = 2;
    w.lane.most_request_bytes = 1 << 20;
    w.lane.foreign = w.flight_count;
    w.lane.next_correlation_id = w.next_id;
    w.lane.armed = true;
}

static void handle_response(const unsigned char *at) {
    Flight flight = w.flights[0];
    CHECK(w.flight_count > 0 && get32(at) == (uint32_t)flight.id, "a response is not that of the first request");
    memmove(w.flights, w.flights + 1, sizeof w.flights - sizeof *w.flights);
    memset(&w.flights[--w.flight_count], 0, sizeof *w.flights);
    at += 4 + 4 + 3 + 4;
    for (int i = 0; i < flight.count; i++, at += 22) {
        Batch *batch = flight.batches[i];
        int p = batch->b.part->index;
        CHECK((int)get32(at) == p, "a response has other partitions");
        w.flying[p]--;
        if (!(at[4] | at[5])) {
            succeed(batch);
            continue;
        }
        /* As `put_back`: in its place. */
        model_lock(&w.queue_locks[p]);
        disarm_locked(p);
        KpBatch **place = (KpBatch **)&w.queue[p];
        while (*place && (*place)->data[BATCH_HEADER_BYTES] < batch->data[BATCH_HEADER_BYTES]) place = &(*place)->next;
        batch->b.next = *place;
        batch->b.state = KP_QUEUED;
        *place = &batch->b;
        if (!batch->b.next) w.queue_last[p] = batch;
        model_unlock(&w.queue_locks[p]);
    }
    memset(&flight, 0, sizeof flight);
}

static void handle_received(void) {
    int64_t at = 0;
    while (at < w.received_size) {
        handle_response(w.received + at + 4);
        at += 4 + (int64_t)get32(w.received + at);
    }
    memset(w.received, 0, sizeof w.received);
    w.received_size = 0;
}

static void receive_in_python(const unsigned char *data, int64_t size) {
    CHECK(w.received_size + size <= BYTES, "the model's buffer is too small");
    memcpy(w.received + w.received_size, data, (size_t)size);
    w.received_size += size;
}

/* As `FastLanes._take_back`. */
static void take_back(void) {
    w.lane.armed = false;
    settle();
    adopt_requests();
    for (int p = 0; p < PARTS; p++) {
        if (!w.is_armed[p]) continue;
        model_lock(&w.queue_locks[p]);
        disarm_locked(p);
        model_unlock(&w.queue_locks[p]);
    }
    take_back_disarmed();
    unsigned char held[BYTES];
    int64_t size = w.lane.held_size;
    kp_lane_take_held(&w.lane, held);
    receive_in_python(held, size);
    memset(held, 0, sizeof held);
    for (int p = 0; p < PARTS; p++)
        CHECK(w.parts[p].where == KP_NOWHERE && !w.parts[p].lane, "a lane goes, and a partition is in its lists");
    kp_lane_free(&w.lane);
    begin_lane();
}

/* As `FastLanes._arm_partition`. */
static void arm(int p) {
    KpPart *part = &w.parts[p];
    model_lock(&w.queue_locks[p]);
    bool may = !w.is_armed[p];
    for (Batch *each = w.queue[p]; each; each = (Batch *)each->b.next) may &= !each->is_numbered && !each->was_busy;
    if (may) {
        Batch *each = w.queue[p], *next;
        bool is_open = each && w.queue_last[p]->b.state == KP_OPEN;
        w.queue[p] = w.queue_last[p] = NULL;
        part->is_numbered = true;
        part->generation = w.plane.generation;
        part->producer_id = w.plane.producer_id;
        part->producer_epoch = w.plane.producer_epoch;
        part->next_sequence = w.next_sequence[p];
        part->acknowledged_ms = w.settled[p] ? w.now_ms : -1;
        part->settled_count = 0;
        if (each) {
            kp_part_lock(part);
            for (; each; each = next) {
                next = (Batch *)each->b.next;
                kp_part_adopt(part, &each->b);
            }
            if (!is_open) kp_part_close_open(part, 0);
            kp_part_unlock(part);
        }
        kp_part_lock(part);
        CHECK(!part->flying_first && !part->flying_count, "a partition is armed with batches in flight");
        CHECK(kp_part_arm(part, &w.lane), "a partition is armed twice");
        kp_part_unlock(part);
        w.is_armed[p] = true;
        w.is_lent[p] = true;
        w.is_wanted[p] = false;
    }
    model_unlock(&w.queue_locks[p]);
}

static bool is_compressed(void *batch) { return !((Batch *)batch)->is_busy; }

/* As `Sender._send_producer_data`, for one partition. */
static void send_in_python(int p) {
    if (!w.queue[p]) return;
    model_lock(&w.queue_locks[p]);
    Batch *batch = w.is_armed[p] || w.disarmed & 1 << p ? NULL : w.queue[p];
    if (batch) {
        w.queue[p] = (Batch *)batch->b.next;
        if (!w.queue[p]) w.queue_last[p] = NULL;
        batch->b.next = NULL;
        batch->b.state = KP_FLYING;
    }
    model_unlock(&w.queue_locks[p]);
    if (!batch) return;
    if (batch->older) stop("a caller compresses", is_compressed, batch->older, 1);
    batch->older = NULL;
    if (!batch->is_numbered) {
        batch->is_numbered = true;
        batch->b.producer_epoch = w.plane.producer_epoch;
        batch->b.producer_id = w.plane.producer_id;
        batch->b.sequence = w.next_sequence[p];
        w.next_sequence[p] += batch->b.record_count;
    }
    w.is_wanted[p] = true;
    if (w.lane.stalled) take_back();
    else adopt_requests();
    w.plane.has_sent = true;
    kp_batch_finish(&batch->b);
    unsigned char start[33] = {0}, *at = start;
    int64_t size = kp_batch_size(&batch->b);
    put_number(&at, 4, (int64_t)sizeof start - 4 + size);
    put_number(&at, 4, 3);
    put_number(&at, 4, w.next_id);
    memcpy(at, "\377\377\0\0\0\1\0\1t\0\0\0\1", 13);
    at += 13;
    put_number(&at, 4, p);
    put_number(&at, 4, size);
    struct iovec pieces[2] = {{start, sizeof start}, {kp_batch_data(&batch->b), (size_t)size}};
    int stalls = w.stalls;
    w.stalls = scenario->stalls;
    model_send(NULL, pieces, 2);
    w.stalls = stalls;
    Flight *flight = &w.flights[w.flight_count++];
    flight->id = w.next_id++;
    flight->count = 1;
    flight->batches[0] = batch;
    w.flying[p]++;
    memset(start, 0, sizeof start);
}

static void drop_unsent(void) {
    for (int p = 0; p < PARTS; p++) {
        if (!w.queue[p]) continue;
        model_lock(&w.queue_locks[p]);
        for (Batch *each = w.queue[p], *next; each; each = next) {
            next = (Batch *)each->b.next;
            for (int i = 0; i < each->b.record_count; i++) w.is_dropped[p][each->data[BATCH_HEADER_BYTES + i]] = true;
            if (each->older) stop("a caller compresses", is_compressed, each->older, 1);
            note_complete(each);
        }
        w.queue[p] = w.queue_last[p] = NULL;
        model_unlock(&w.queue_locks[p]);
    }
}

static void python_round(void) {
    handle_received();
    take_back_disarmed();
    if (w.ending == ABORT) {
        take_back();
        handle_received();
        drop_unsent();
    }
    point("are batches left?");
    if (w.ending && !w.incomplete) {
        kp_plane_number(&w.plane, 7, (int16_t)(w.plane.producer_epoch + 1));
        for (int p = 0; p < PARTS; p++) w.next_sequence[p] = 0;
        w.ending = 0;
        w.is_open = false;
    }
    for (int p = 0; p < PARTS; p++)
        if (w.is_wanted[p] && !w.is_lent[p] && !w.flying[p] && !w.ending) arm(p);
    for (int p = 0; p < PARTS; p++)
        if (!w.is_lent[p] && !w.flying[p]) send_in_python(p);
    if (!w.lane.in_flight) w.lane.foreign = w.flight_count;
    if (w.lane.next_correlation_id < w.next_id) w.lane.next_correlation_id = w.next_id;
}

static bool are_callers_done(void) { return w.threads[0].is_done && w.threads[1].is_done; }

static bool has_event(void *timer_ms) {
    int64_t until_ms = *(int64_t *)timer_ms;
    /* So records leave while somebody calls `flush`, or not at all. */
    if (scenario->time_stands_still && until_ms > w.now_ms && !are_callers_done()) until_ms = KP_NEVER_MS;
    return w.wakes_plane || w.wakes_python || w.response_size || w.lane.stalled || until_ms < KP_NEVER_MS;
}

/* Whether Python is needed. */
static bool feed(const unsigned char *data, int64_t size) {
    while (size) {
        int64_t consumed, frame_size;
        const unsigned char *frame;
        kp_frame kind = kp_lane_receive(&w.lane, data, size, &consumed, &frame, &frame_size);
        data += consumed;
        size -= consumed;
        if (kind == KP_FRAME_FOREIGN) {
            receive_in_python(frame - 4, frame_size + 4);
            if (!size || kp_lane_hold(&w.lane, data, size)) return true;
            kind = KP_FRAME_UNUSUAL;
        }
        if (kind == KP_FRAME_UNUSUAL) {
            take_back();
            receive_in_python(data, size);
            return true;
        }
    }
    return false;
}

/* As `SocketIo.write_wait_read`. */
static void exchange(void) {
    bool is_over = false;
    while (!is_over) {
        unsigned char bytes[BYTES];
        if (w.hand_overs < scenario->hand_overs && choose("take back: no, yes", 2)) {
            w.hand_overs++;
            take_back();
            return;
        }
        int64_t size = w.lane.held_size;
        kp_lane_take_held(&w.lane, bytes);
        bool has_fed = size > 0, needs_python = has_fed && feed(bytes, size);
        memset(bytes, 0, sizeof bytes);
        if (needs_python) return;
        if (kp_lane_next_ms(&w.lane) <= w.now_ms) kp_lane_drain(&w.lane, w.now_ms);
        KpLane *lanes[] = {&w.lane};
        /* Something else that is due soon does not wake the I/O thread for a flush: that time does not come. */
        bool is_over_soon = scenario->time_stands_still && !are_callers_done();
        int64_t timer_ms = kp_plane_begin_wait(&w.plane, lanes, 1, is_over_soon ? w.now_ms + 1 : KP_NEVER_MS);
        if (has_fed) timer_ms = INT64_MIN;      /* what was answered is settled before the next wait */
        stop(WAIT, has_event, &timer_ms, 1);
        bool is_woken = w.wakes_plane || w.wakes_python || w.response_size;
        if (timer_ms < KP_NEVER_MS && timer_ms > w.now_ms && !is_woken) w.now_ms = timer_ms;
        kp_plane_set_sleep(&w.plane, INT64_MIN);
        is_over = w.wakes_python;
        w.wakes_plane = w.wakes_python = false;
        size = w.response_size;
        memcpy(bytes, w.responses, (size_t)size);
        memset(w.responses, 0, (size_t)size);
        w.response_size = 0;
        is_over |= feed(bytes, size);
        memset(bytes, 0, sizeof bytes);
        if (w.lane.stalled) kp_lane_write(&w.lane);
        settle();
        /* A commit waits for the last batch: `return_early`. */
        if (w.ending && !w.incomplete) is_over = true;
    }
}

static void io_thread(void) {
    for (;;) {
        python_round();
        exchange();
    }
}

/* -- all interleavings --------------------------------------------------------------------------------------------------- */

static void run_thread(void) {
    if (w.current < CALLERS) caller();
    else if (w.current == IO) io_thread();
    else broker();
    w.threads[w.current].is_done = true;
    for (;;) leave();
}

static const char *const thread_names[] = {"caller 1", "caller 2", "I/O", "broker"};
static struct { int thread, choice; const char *where; void *of; } trace[MOST_DEPTH];
static uint64_t *seen, seen_mask, states, transitions, ends, most_states;

static char *live(int thread) {
    char *from = w.threads[thread].stack_pointer;
    return (char *)((uintptr_t)from & ~(uintptr_t)7);
}

static uint64_t mix(uint64_t hash, const void *from, size_t size) {
    const uint64_t *at = from;
    uint64_t parts[4] = {hash, hash + 1, hash + 2, hash + 3};   /* at the same time */
    size_t i = 0;
    for (size /= 8; i < size; i++) {
        uint64_t *part = &parts[i & 3];
        *part = (*part ^ at[i]) * 0x9E3779B97F4A7C15u;
        *part ^= *part >> 29;
    }
    for (i = 0; i < 4; i++) hash = (hash ^ parts[i]) * 0x9E3779B97F4A7C15u, hash ^= hash >> 32;
    return hash;
}

static bool is_new(void) {
    uint64_t hash = mix(1, &w, sizeof w);
    for (int i = 0; i < THREADS; i++) hash = mix(hash, live(i), (size_t)(stacks[i] + STACK_BYTES - live(i)));
    hash |= 1;
    uint64_t at = hash >> 20;
    for (;; at++) {
        at &= seen_mask;
        if (seen[at] == hash) return false;
        if (!seen[at]) break;
    }
    seen[at] = hash;
    states++;
    return true;
}

static void report(int depth, const char *what) {
    printf("FAILED: %s\n", what);
    for (int i = 0; i < depth; i++) {
        printf("%4d %-8s %s", i, thread_names[trace[i].thread], trace[i].where);
        if (trace[i].of == &w.lane.due_mu) printf(" the lists");
        for (int p = 0; p < PARTS; p++) {
            if (trace[i].of == &w.parts[p].mu) printf(" partition %d", p);
            if (trace[i].of == &w.queue_locks[p]) printf(" queue %d", p);
        }
        printf("%s\n", trace[i].choice ? ": the second" : "");
    }
    exit(1);
}

static bool can_go_on(const Thread *thread) {
    return !thread->is_done && (!thread->may_go_on || thread->may_go_on(thread->of));
}

static void check_end(int depth) {
    ends++;
    if (!w.threads[0].is_done || !w.threads[1].is_done) report(depth, "a caller waits for ever");
    for (int p = 0; p < PARTS; p++) {
        while (w.is_dropped[p][w.settled[p]]) w.settled[p]++;
        if (w.settled[p] != w.accepted[p]) report(depth, "records are stranded");
        if (w.parts[p].waiting_count || w.parts[p].batch_count || w.parts[p].flying_count || w.plane.active_count)
            report(depth, "a count is wrong at the end");
    }
    for (int i = 0; i < SLOTS; i++)
        if (w.slot_used[i]) report(depth, "memory is not freed");
    for (int i = 0; i < BATCHES; i++)
        if (w.batches[i].is_used) report(depth, "a batch is left");
    if (w.incomplete) report(depth, "`incomplete` is not empty, although all outcomes are known");
    if (w.plane.plain_count) report(depth, "the count of batches to compress is wrong at the end");
    if (w.sent_size) report(depth, "a part of a frame was not written");
}

static void explore(int depth) {
    size_t sizes[THREADS], total = sizeof w;
    if (depth >= MOST_DEPTH) report(depth, "the model's trace is too long");
    for (int i = 0; i < THREADS; i++) total += sizes[i] = (size_t)(stacks[i] + STACK_BYTES - live(i));
    char *copy = (malloc)(total);
    char *at = copy;
    if (!copy) report(depth, "no memory for the model");
    memcpy(at, &w, sizeof w);
    at += sizeof w;
    for (int i = 0; i < THREADS; i++) at = (char *)memcpy(at, live(i), sizes[i]) + sizes[i];
    bool is_end = true;
    int first = 0, behind = THREADS;
    /* What a thread chooses concerns no other one until it stops again. */
    for (int i = 0; i < THREADS; i++)
        if (w.threads[i].choices > 1) {
            first = i;
            behind = i + 1;
        }
    for (int thread = first; thread < behind; thread++) {
        int choices = can_go_on(&w.threads[thread]) ? w.threads[thread].choices : 0;
        for (int choice = 0; choice < choices; choice++) {
            is_end = false;
            transitions++;
            trace[depth].thread = thread;
            trace[depth].choice = choice;
            trace[depth].where = w.threads[thread].where;
            trace[depth].of = w.threads[thread].of;
            w.current = thread;
            w.threads[thread].choice = choice;
            swapcontext(&scheduler, &w.threads[thread].context);
            memset(stacks[thread], 0, (size_t)(live(thread) - stacks[thread]));
            w.current = 0;
            if (w.failure) report(depth + 1, w.failure);
            if (is_new() && states < most_states) explore(depth + 1);
            memcpy(&w, copy, sizeof w);
            at = copy + sizeof w;
            for (int i = 0; i < THREADS; i++) {
                memcpy(live(i), at, sizes[i]);
                at += sizes[i];
            }
        }
    }
    if (is_end) check_end(depth);
    (free)(copy);
}

int main(int argc, char **argv) {
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        if (argc > 1 && !strcmp(argv[1], scenarios[i].name)) scenario = &scenarios[i];
    if (!scenario) {
        for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) puts(scenarios[i].name);
        return 2;
    }
    most_states = argc > 2 ? strtoull(argv[2], NULL, 10) : 3000000;
    for (seen_mask = 1; seen_mask < 2 * most_states;) seen_mask *= 2;
    seen_mask--;
    seen = calloc(seen_mask + 1, sizeof *seen);
    kp_crc32c((const unsigned char *)"", 0);
    w.now_ms = 1000;
    w.plane.linger_ms = scenario->linger ? 5 : 0;
    w.plane.request_timeout_ms = w.plane.delivery_timeout_ms = w.plane.longest_open_ms = 100000;
    w.plane.sleep_until_ms = INT64_MIN;
    w.plane.is_transactional = scenario->transactions;
    w.plane.codec = scenario->compression ? &codec : NULL;
    kp_plane_number(&w.plane, 7, 1);
    w.topic.name = (const unsigned char *)"\0\1t";
    w.topic.name_size = 3;
    w.topic.parts = w.part_table;
    w.topic.part_count = PARTS;
    for (int p = 0; p < PARTS; p++) {
        kp_part_init(&w.parts[p], &w.plane, &w.topic, p, NULL);
        w.part_table[p] = &w.parts[p];
        w.broker_epoch[p] = 1;
    }
    begin_lane();
    for (int p = 0; p < PARTS; p++) {
        /* Armed, as by `arm`, but no thread is there to stop. The leader of the first one does not know the producer. */
        w.parts[p].is_numbered = true;
        w.parts[p].generation = w.plane.generation;
        w.parts[p].producer_id = 7;
        w.parts[p].producer_epoch = 1;
        w.parts[p].acknowledged_ms = p ? w.now_ms : -1;
        w.is_known[p] = p;
        w.parts[p].last_acked_sequence = -1;
        w.parts[p].lane = &w.lane;
        w.parts[p].due_ms = KP_NEVER_MS;
        w.is_armed[p] = w.is_lent[p] = true;
    }
    for (int i = 0; i < THREADS; i++) {
        Thread *thread = &w.threads[i];
        getcontext(&thread->context);
        thread->context.uc_stack.ss_sp = stacks[i];
        thread->context.uc_stack.ss_size = STACK_BYTES;
        makecontext(&thread->context, run_thread, 0);
        w.current = i;
        swapcontext(&scheduler, &thread->context);
        memset(stacks[i], 0, (size_t)(live(i) - stacks[i]));
    }
    w.current = 0;
    is_new();
    explore(0);
    printf("%s %s: %llu states, %llu transitions, %llu ends\n",
           states < most_states ? "ok" : "not complete", scenario->name, (unsigned long long)states,
           (unsigned long long)transitions, (unsigned long long)ends);
    return states >= most_states ? 3 : 0;
}

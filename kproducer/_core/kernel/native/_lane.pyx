# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False, annotation_typing=False, nonecheck=True
"""Plane, FastLane, FastTopic, FastPart, FastBatch: the objects around the structures of ``plane.h``.

They own the memory that the structures refer to. Unless noted, everything here needs the interpreter lock; the
structures do not.
"""

from __future__ import annotations

from _thread import allocate_lock

cimport cython
from cpython.dict cimport PyDict_Contains, PyDict_DelItem
from cpython.pycapsule cimport PyCapsule_New
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.buffer cimport PyBUF_READ
from libc.errno cimport EIO
from libc.stdint cimport INT64_MIN, int16_t, int32_t, uint8_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from kproducer._core.kernel.native._append cimport (
    RecordAppender, StickyPartition, count_record, meet, number_of,
)
from kproducer._core.kernel.native._batch cimport RECORD_BATCH_OVERHEAD, BatchWriter, Record, expected_size, fill_record
from kproducer._core.kernel.native._completion cimport BatchOutcome, Deliveries, RecordFuture, new_future, _LazyResult
from kproducer._core.kernel.native.plane cimport (
    KP_FLYING,
    KP_FRAME_FOREIGN,
    KP_FRAME_MORE,
    KP_FRAME_UNUSUAL,
    KP_MOST_GATHERED,
    KP_NEVER_MS,
    KP_OPEN,
    KpBatch,
    KpCodec,
    KpLane,
    KpPart,
    KpPlane,
    KpRequest,
    KpTopic,
    iovec,
    kp_frame,
    kp_now_ms,
)

cdef extern from "plane.c" nogil:
    int64_t kp_lane_next_ms(KpLane *lane)
    int64_t kp_lane_exact_expiry_ms(KpLane *lane)
    bint kp_lane_is_blocked(KpLane *lane)
    int64_t kp_lane_expiry_ms(KpLane *lane)
    int kp_lane_drain(KpLane *lane, int64_t now_ms)
    int kp_lane_write(KpLane *lane)
    kp_frame kp_lane_receive(KpLane *lane, const unsigned char *data, int64_t size, int64_t *consumed,
                             const unsigned char **frame, int64_t *frame_size) noexcept
    int64_t kp_batch_size(const KpBatch *batch)
    void kp_batch_forget_compressed(KpBatch *batch)
    uint32_t kp_crc32c(const unsigned char *data, size_t size)
    uint32_t kp_crc32c_table(const unsigned char *data, size_t size)
    void kp_part_init(KpPart *part, KpPlane *plane, KpTopic *topic, int32_t index, void *owner)
    void kp_part_lock(KpPart *part)
    bint kp_part_try_lock(KpPart *part)
    void kp_part_unlock(KpPart *part)
    void kp_part_note(KpBatch *open, int64_t end, int32_t count, int64_t base_ms, int64_t max_ms)
    bint kp_part_begin(KpPart *part, KpBatch *batch, int64_t now_ms)
    void kp_part_adopt(KpPart *part, KpBatch *batch)
    int kp_part_waiting_count(KpPart *part)
    bint kp_part_close_open(KpPart *part, int64_t now_ms)
    KpBatch *kp_part_detach(KpPart *part)
    KpBatch *kp_part_begin_compression(KpPart *part, int64_t now_ms)
    KpBatch *kp_part_begin_last_compression(KpPart *part)
    bint kp_part_end_compression(KpPart *part, KpBatch *batch, unsigned char **compressed, int64_t end)
    bint kp_batch_take_compressed(KpBatch *batch, const unsigned char *records, int64_t size)
    unsigned char *kp_compress(KpCodec *codec, const KpBatch *batch, int64_t *end)
    bint kp_part_arm(KpPart *part, KpLane *lane)
    void kp_lane_init(KpLane *lane, KpPlane *plane, void *owner)
    void kp_lane_free(KpLane *lane)
    KpRequest *kp_lane_take_done(KpLane *lane)
    KpRequest *kp_lane_take_requests(KpLane *lane)
    void kp_request_free(KpRequest *request)
    bint kp_lane_hold(KpLane *lane, const unsigned char *data, int64_t size)
    int64_t kp_lane_take_held(KpLane *lane, unsigned char *target)
    void kp_plane_set_sleep(KpPlane *plane, int64_t until_ms)
    int64_t kp_plane_begin_wait(KpPlane *plane, KpLane **lanes, Py_ssize_t lane_count, int64_t until_ms)
    void kp_plane_set_sends_everything(KpPlane *plane, int on)
    void kp_plane_number(KpPlane *plane, int64_t producer_id, int16_t producer_epoch)
    bint kp_plane_has_sent(KpPlane *plane)
    void kp_plane_begin_transaction(KpPlane *plane)
    void kp_part_renumber(KpPart *part)

cdef extern from "codec.c" nogil:
    KpCodec *kp_codec_open(uint8_t type, int level, const char *path)
    void kp_codec_close(KpCodec *codec)

cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident() noexcept
    void PyObject_GC_Track(PyObject* op) noexcept
    void PyObject_GC_UnTrack(PyObject* op) noexcept
    int PyObject_GC_IsTracked(PyObject* op) noexcept

cdef enum:
    MOST_PARTITIONS = 1 << 24
    # Answers are not left for longer than this.
    GATHER_MS = 2
    # How often a record is tried to be appended before the general path does it.
    MOST_TRIES = 6
    # As MAX_COMPRESSION_BACKLOG of the accumulator, which has the reason.
    MOST_PLAIN = 3
    # At most so much of a record is neither key nor value nor headers.
    RECORD_OVERHEAD_BYTES = 64
    # How often a thread that holds the interpreter lock tries a lock of the plane before it lets other threads run.
    SPINS = 200


def crc32c(data, bint in_table=False):
    """The CRC-32C of bytes; for tests."""
    cdef const unsigned char[::1] view = data
    if not view.shape[0]:
        return 0
    return kp_crc32c_table(&view[0], view.shape[0]) if in_table else kp_crc32c(&view[0], view.shape[0])


# -- compression -----------------------------------------------------------------------------------------------

@cython.final
cdef class Codec:
    """A codec that needs no interpreter lock.

    Args:
        type: as in the attributes of a batch.
        level: as its library has it.
        path: of a shared library that has its functions, or is linked with one that has.

    Raises:
        ValueError: the functions are not there.
    """

    def __cinit__(self, int type, int level, str path not None):
        self.c = kp_codec_open(<uint8_t>type, level, path.encode())
        if self.c == NULL:
            raise ValueError(f"{path} has no functions for codec {type}")

    def __dealloc__(self):
        kp_codec_close(self.c)

    def compress(self, bytes data not None):
        """The compressed form of ``data``. Raises MemoryError."""
        cdef int64_t room = self.c.bound(self.c, len(data))
        target = bytearray(room)
        cdef int64_t count = self.c.compress(self.c, target, room, data, len(data))
        if count < 0:
            raise MemoryError
        return bytes(target[:count])


# -- the producer ----------------------------------------------------------------------------------------------

cdef int64_t system_ms() noexcept nogil:
    return kp_now_ms()


@cython.final
cdef class Plane:
    """The data plane of one producer.

    Args:
        linger_ms, request_timeout_ms, delivery_timeout_ms, batch_size, buffer_memory: as configured.
        longest_open_ms: after that, a batch takes no more records.
        first_bytes: the size of the first buffer of a batch.
        codec: compresses the records; ``None``: nothing does.
        sizes: of the buffers that a batch may have while it grows, largest first.
        future_type: a subclass of ``RecordFuture``.
        metadata_type: of ``BatchOutcome``.
        make_result: ``ProduceRequestResult``.
        allocate: ``BufferPool.try_allocate``.
        deallocate: ``BufferPool.deallocate_all``.
        incomplete: the accumulator's dict of batches without an outcome.
        memory_waiters: not empty while threads wait for memory.
        now_ms: the clock; ``None``: the system's.
        on_wake: wakes the I/O thread; ``None``: a descriptor does, which ``NativeChannelIo`` watches.
    """

    def __cinit__(self, *, long long linger_ms, long long request_timeout_ms, long long delivery_timeout_ms,
                  long long longest_open_ms, Py_ssize_t batch_size, long long buffer_memory, Py_ssize_t first_bytes,
                  tuple sizes not None, future_type, metadata_type, make_result, allocate, deallocate,
                  dict incomplete not None, memory_waiters, now_ms=None, on_wake=None, Codec codec=None):
        self.step.wake_fd = -1
        self._now_ms = now_ms
        self._on_wake = on_wake
        self._memory_waiters = memory_waiters
        self._sizes = sizes
        self._memory_bytes = buffer_memory
        self.c.linger_ms = linger_ms
        self.c.request_timeout_ms = request_timeout_ms
        self.c.delivery_timeout_ms = delivery_timeout_ms
        self.c.longest_open_ms = longest_open_ms
        kp_plane_set_sleep(&self.c, INT64_MIN)
        self.step.plane = &self.c
        self.step.set_sleep = kp_plane_set_sleep
        self.step.begin_wait = kp_plane_begin_wait
        self.step.next_ms = kp_lane_next_ms
        self.step.is_blocked = kp_lane_is_blocked
        self.step.expiry_ms = kp_lane_expiry_ms
        self.step.drain = kp_lane_drain
        self.step.write = kp_lane_write
        self.step.receive = kp_lane_receive
        self.step.hold = kp_lane_hold
        self.step.take_held = kp_lane_take_held
        if on_wake is None:
            self._wakeup = EventDescriptor()
            self.step.wake_fd = self._wakeup.fd
        if codec is not None:
            self._codec = codec
            self.c.codec = codec.c
            if now_ms is None:
                self.c.clock_ms = system_ms
        self._batch_size = batch_size
        self._largest_bytes = batch_size if codec is None else max(batch_size, sizes[0])
        self._first_bytes = first_bytes
        self._future_type = future_type
        self._metadata_type = metadata_type
        self._make_result = make_result
        self._allocate = allocate
        self._deallocate = deallocate
        self.incomplete = incomplete
        self._lanes = []

    def __dealloc__(self):
        PyMem_Free(self.step.lanes)

    def close(self):
        """Wake no thread any more. Idempotent."""
        self.step.wake_fd = -1
        self._wakeup = None

    def send_everything(self, bint on):
        """Nothing lingers while a flush or the close is under way, or a thread waits for memory."""
        kp_plane_set_sends_everything(&self.c, on)
        if on:
            self.wake()

    # Transactions. See TransactionStateMachine, which calls these with its lock held.

    def use_transactions(self, on_refusal):
        """Take records only within transactions.

        Args:
            on_refusal: called when a batch without records disappears after the transaction has ended: the I/O thread may
                have waited for it.
        """
        self.c.is_transactional = True
        self._on_refusal = on_refusal

    def begin_transaction(self, transaction not None, bint adds_partitions):
        """Take its records, just before others do; again after ``end_transaction`` if it has not ended after all.

        Args:
            transaction: any object.
            adds_partitions: it has version 2: Produce requests add their partitions. Otherwise, partitions take its
                records if they were ``added_to`` it.
        """
        if transaction is not self._last_transaction:
            kp_plane_begin_transaction(&self.c)
            self._last_transaction = transaction
        self._adds_partitions = adds_partitions
        self.transaction = transaction

    def end_transaction(self):
        """Take no more records. The batch of each record that was taken is in ``incomplete`` already."""
        self.transaction = None

    @property
    def has_sent(self):
        """Whether a batch of the open transaction, or of the last one, may be on its way. Any thread."""
        return kp_plane_has_sent(&self.c)

    def number(self, long long producer_id, int epoch):
        """Number the next batch of each partition 0, with these. No batch is left, and no transaction takes records."""
        kp_plane_number(&self.c, producer_id, <int16_t>epoch)

    cdef int wake(self) except -1:
        if self._on_wake is not None:
            try:
                self._on_wake()
            except BaseException:
                # A signal handler, perhaps before it was woken: then the next caller wakes it.
                kp_plane_set_sleep(&self.c, KP_NEVER_MS)
                raise
        elif self._wakeup is not None:
            self._wakeup.set()
        return 0

    cdef int64_t early_ms(self) except -1:
        return 0 if self._now_ms is None else self._now_ms()

    cdef Py_ssize_t buffer_bytes(self, Py_ssize_t wanted, Py_ssize_t most) noexcept:
        """The largest of the sizes up to ``most`` that is within the partition's share of the memory, or ``wanted``.

        All partitions with batches together may take a quarter of it: see ``_first_bytes`` of the accumulator.
        """
        cdef Py_ssize_t size = 0
        cdef Py_ssize_t count = self.c.active_count
        for each in self._sizes:
            size = each
            if size <= most and size * count <= self._memory_bytes // 4:
                break
        return max(size, wanted)

    cdef Py_ssize_t next_size(self, Py_ssize_t wanted) noexcept:
        """The smallest of the sizes with so many bytes, or the largest."""
        cdef Py_ssize_t size = self._largest_bytes
        for each in self._sizes:
            if each < wanted:
                break
            size = each
        return size

    def capsule(self):
        """The address of its ``KpStep``, valid as long as this object."""
        return PyCapsule_New(&self.step, "kproducer.data_plane", NULL)

    @property
    def lanes(self):
        """A copy of the list of its lanes."""
        return list(self._lanes)

    def add_lane(self, FastLane lane not None):
        """From the next step on."""
        if lane.plane is not self or lane in self._lanes:
            raise ValueError("the lane is not of this plane, or was added before")
        cdef void *grown = PyMem_Realloc(self.step.lanes, (self.step.lane_count + 1) * sizeof(KpLane *))
        if grown == NULL:
            raise MemoryError
        self.step.lanes = <KpLane **>grown
        self.io_thread_id = PyThread_get_thread_ident()
        self._lanes.append(lane)
        self.step.lanes[self.step.lane_count] = &lane.c
        self.step.lane_count += 1

    def remove_lane(self, FastLane lane not None):
        """It was handed back, and its connection has ended."""
        cdef Py_ssize_t at
        cdef FastLane each
        self._lanes.remove(lane)
        for at, each in enumerate(self._lanes):
            self.step.lanes[at] = &each.c
        self.step.lane_count = len(self._lanes)

    def settle(self, long long now_ms, bint may_gather=False):
        """Settle what is answered in all lanes: run callbacks, wake waiters, return memory.

        Args:
            may_gather: leave answers for a later call, if it comes within ``GATHER_MS``. While threads wait for memory,
                each of them would be woken for a single batch, and wait again before the next one is answered.

        Returns:
            How many requests; -1: answers were left.
        """
        cdef Py_ssize_t count = 0
        cdef Py_ssize_t in_flight = 0
        cdef FastLane lane
        if may_gather and self._memory_waiters:
            for lane in self._lanes:
                count += lane.c.done_count
                in_flight += lane.c.in_flight
            if count == 0:
                self._gathered_since_ms = now_ms
                return 0
            if count < KP_MOST_GATHERED and in_flight and now_ms - self._gathered_since_ms < GATHER_MS:
                return -1
            count = 0
        self._gathered_since_ms = now_ms
        for lane in list(self._lanes):
            count += lane.settle(now_ms)
        return count

    # What a selector needs that moves the bytes itself.

    @property
    def wait_until_ms(self):
        """Until when a wait for events may last, if no caller ends it. Announces it: see plane.h."""
        cdef FastLane lane
        cdef int64_t until_ms = KP_NEVER_MS
        for lane in self._lanes:
            until_ms = min(until_ms, kp_lane_expiry_ms(&lane.c))
        return kp_plane_begin_wait(&self.c, self.step.lanes, self.step.lane_count, until_ms)

    def wait_is_over(self):
        """The I/O thread is awake: callers need not wake it."""
        kp_plane_set_sleep(&self.c, INT64_MIN)


# -- connections -----------------------------------------------------------------------------------------------

cdef int64_t send_in_python(void *owner, const iovec *pieces, int count) noexcept with gil:
    cdef FastLane lane = <FastLane>owner
    cdef int at
    try:
        return lane._send([
            PyMemoryView_FromMemory(<char *>pieces[at].iov_base, <Py_ssize_t>pieces[at].iov_len, PyBUF_READ)
            for at in range(count)
        ])
    except OSError as error:
        return -(error.errno or EIO)
    except BaseException:
        return -EIO


@cython.final
cdef class FastLane:
    """One ready connection.

    Args:
        owner: the channel of the connection.
        fd: of its socket.
        version: of Produce.
        fields: what is between the correlation id and the number of topics in each frame.
        most_in_flight: requests on the connection.
        most_request_bytes: records in one request, unless a single batch has more.
        send: sends the first of some ``memoryview`` objects, which are valid during the call, and returns how many
            bytes the socket took. Raises OSError. ``None``: the socket ``fd``.
    """

    def __cinit__(self, Plane plane not None, owner, int fd, int version, bytes fields not None, int most_in_flight,
                  long long most_request_bytes, send=None):
        kp_lane_init(&self.c, &plane.c, <void *>self)
        if send is not None:
            self._send = send
            self.c.send = send_in_python
            self.c.socket = <void *>self
        self.plane = plane
        self.owner = owner
        self._fields = fields
        self.c.fd = fd
        self.c.version = <int16_t>version
        self.c.fields = fields
        self.c.fields_size = <int32_t>len(fields)
        self.c.most_in_flight = most_in_flight
        self.c.most_request_bytes = most_request_bytes
        self._parts = {}
        self._topics = []

    def __dealloc__(self):
        kp_lane_free(&self.c)

    def capsule(self):
        """The address of its ``KpLane``, valid as long as this object."""
        return PyCapsule_New(&self.c, "kproducer.lane", NULL)

    @property
    def needs_python(self):
        """Whether the step has met an event that Python has to handle first."""
        return self.c.needs_python

    @property
    def parts(self):
        """A copy of the list of its partitions."""
        return list(self._parts)

    @property
    def in_flight(self):
        """How many requests wait for their response."""
        return self.c.in_flight

    @property
    def is_stalled(self):
        """Whether the socket was full when it wrote last."""
        return self.c.stalled

    @property
    def is_behind_python(self):
        """Whether bytes of Python's have to be written first. The selector sets it before it waits."""
        return self.c.behind_python

    @is_behind_python.setter
    def is_behind_python(self, bint is_behind):
        self.c.behind_python = is_behind

    @property
    def version(self):
        """Of Produce."""
        return self.c.version

    @property
    def is_blocked(self):
        """Whether batches are due that the connection cannot take now."""
        return kp_lane_is_blocked(&self.c)

    @property
    def is_armed(self):
        """Whether it may send."""
        return self.c.armed

    @is_armed.setter
    def is_armed(self, bint armed):
        self.c.armed = armed

    @property
    def foreign(self):
        """How many requests of Python are in flight before its own."""
        return self.c.foreign

    @foreign.setter
    def foreign(self, int count):
        self.c.foreign = count

    @property
    def next_correlation_id(self):
        """Of its next request."""
        return self.c.next_correlation_id

    @next_correlation_id.setter
    def next_correlation_id(self, int number):
        self.c.next_correlation_id = number

    @property
    def expiry_ms(self):
        """When the first of its requests and batches times out, or an open batch that cannot be sent has to be closed."""
        return kp_lane_exact_expiry_ms(&self.c)

    def take_partial(self):
        """What was read and not handled; it is not the lane's any more."""
        cdef bytes partial = self.c.partial[:self.c.partial_size] if self.c.partial_size else b""
        cdef bytes held = self.c.held[:self.c.held_size] if self.c.held_size else b""
        cdef bytes both = partial + held
        self.c.partial_size = 0
        kp_lane_take_held(&self.c, <unsigned char *><char *>held)
        return both

    def take_requests(self):
        """The requests in flight, oldest first: (correlation id, ms when sent, batches, frame size, pieces not written).

        Raises:
            MemoryError: nothing was taken.
        """
        cdef KpRequest *request = self.c.first
        cdef KpRequest *following
        cdef FastBatch batch
        cdef list result = []
        cdef list pieces, batches
        cdef int at
        while request != NULL:
            batches = [<FastBatch>request.batches[at].owner for at in range(request.batch_count)]
            pieces = []
            if request.bytes_left:
                # Copied: this is rare, and the memory of the small pieces goes with the request.
                for at in range(request.next_piece, request.piece_count):
                    pieces.append((<char *>request.pieces[at].iov_base)[:request.pieces[at].iov_len])
            result.append((request.correlation_id, request.sent_ms, batches, request.frame_bytes, pieces))
            request = request.next
        # From here on, nothing can fail.
        request = kp_lane_take_requests(&self.c)
        while request != NULL:
            for at in range(request.batch_count):
                batch = <FastBatch>request.batches[at].owner
                batch.c.next = NULL
                Py_DECREF(batch)
            following = request.next
            kp_request_free(request)
            request = following
        return result

    def take_topics(self):
        """What each topic has sent; sets that of the lane to 0, too.

        Returns:
            Of each: name, batches, records, most records, bytes, most bytes, compression ratios, the largest.
        """
        cdef FastTopic topic
        cdef list taken = []
        for topic in self._topics:
            if topic.batches:
                taken.append((topic.name, topic.batches, topic.records, topic.records_max, topic.batch_bytes,
                              topic.batch_bytes_max, topic.compression, topic.compression_max))
                topic.batches = topic.records = topic.records_max = topic.batch_bytes = topic.batch_bytes_max = 0
                topic.compression = topic.compression_max = 0
        self.c.has_uncounted = False
        self.requests = self.request_bytes = self.request_bytes_max = self.response_bytes = 0
        self.response_bytes_max = self.latency_ms = self.latency_ms_max = self.batches = self.batch_bytes = 0
        self.batch_bytes_max = self.records = self.records_max = self.queue_ms = self.queue_ms_max = 0
        self.plain_bytes = self.compression = self.compression_max = 0
        return taken

    # What a selector needs that moves the bytes itself.

    def drain(self, long long now_ms):
        """Lay out and write what is due. Returns the number of requests; negative: there is no memory."""
        cdef int made = 0
        with nogil:
            if kp_lane_next_ms(&self.c) <= now_ms:
                made = kp_lane_drain(&self.c, now_ms)
        return made

    def write(self):
        """Go on writing. Returns errno."""
        return kp_lane_write(&self.c)

    def receive(self, const unsigned char[::1] data not None):
        """Read frames, after those that were held, up to one that is Python's.

        Returns:
            (its payload or ``None``, the bytes that are Python's or ``None``). With a payload, what is behind it is
            held for the next call. Bytes: from an unusual frame on, after which the lane is to be handed back.
        """
        cdef const unsigned char *frame = NULL
        cdef int64_t frame_size = 0, consumed = 0
        cdef Py_ssize_t at = 0
        cdef kp_frame kind = KP_FRAME_MORE
        if self.c.held_size:
            together = bytearray(self.c.held_size + data.shape[0])
            together[self.c.held_size:] = data
            kp_lane_take_held(&self.c, together)
            data = together
        while at < data.shape[0]:
            kind = kp_lane_receive(&self.c, &data[at], data.shape[0] - at, &consumed, &frame, &frame_size)
            if kind == KP_FRAME_UNUSUAL:
                return None, bytes(data[at:])
            at += consumed
            if kind == KP_FRAME_FOREIGN:
                payload = <bytes>frame[:frame_size]
                if at < data.shape[0] and not kp_lane_hold(&self.c, &data[at], data.shape[0] - at):
                    raise MemoryError
                return payload, None
            if kind == KP_FRAME_MORE:
                break
        return None, None

    @property
    def holds_bytes(self):
        """Whether something was read that is still to be looked at."""
        return self.c.held_size > 0

    def settle(self, long long now_ms):
        """Settle what is answered: run callbacks, wake waiters, return memory. Returns how many requests."""
        cdef KpRequest *request = kp_lane_take_done(&self.c)
        cdef KpRequest *following
        cdef Py_ssize_t count = 0
        cdef object error = None
        while request != NULL:
            following = request.next
            try:
                self.settle_request(request, now_ms)
            except BaseException as raised:
                error = error or raised
            kp_request_free(request)
            request = following
            count += 1
        if error is not None:
            raise error
        return count

    cdef settle_request(self, KpRequest *request, int64_t now_ms):
        """Each batch gets its outcome, even if a callback or the pool raises; the first error is raised at the end."""
        cdef FastBatch settled
        cdef list buffers
        cdef object error = None
        cdef int at
        try:
            self.count_request(request, now_ms)
            buffers = [(<FastBatch>request.batches[at].owner).appender.writer.buffer for at in range(request.batch_count)]
            # First: a thread may wait for it, and callbacks may last.
            self.plane._deallocate(buffers)
        except BaseException as raised:
            error = raised
        for at in range(request.batch_count):
            settled = <FastBatch>request.batches[at].owner
            Py_DECREF(settled)
            try:
                settled.succeed()
            except BaseException as raised:
                error = error or raised
        if error is not None:
            raise error

    cdef count_request(self, KpRequest *request, int64_t now_ms):
        cdef double latency_ms = now_ms - request.sent_ms
        cdef KpBatch *batch
        cdef FastBatch settled
        cdef FastTopic topic
        cdef double size
        cdef double ratio
        cdef double queue_ms
        cdef int at
        self.requests += 1
        self.c.has_uncounted = True
        self.request_bytes += request.frame_bytes
        self.request_bytes_max = max(self.request_bytes_max, <double>request.frame_bytes)
        self.response_bytes += request.response_bytes
        self.response_bytes_max = max(self.response_bytes_max, <double>request.response_bytes)
        self.latency_ms += latency_ms
        self.latency_ms_max = max(self.latency_ms_max, latency_ms)
        for at in range(request.batch_count):
            batch = request.batches[at]
            settled = <FastBatch>batch.owner
            topic = settled.part.topic
            if settled.part.fills_batches and 4 * batch.end < settled.appender.writer._size:
                settled.part.fills_batches = False
            size = kp_batch_size(batch)
            queue_ms = request.sent_ms - batch.begun_ms
            self.batches += 1
            self.batch_bytes += size
            self.plain_bytes += batch.end
            ratio = 1.0
            if batch.compressed != NULL:
                ratio = (size - RECORD_BATCH_OVERHEAD) / (batch.end - RECORD_BATCH_OVERHEAD)
                try:
                    topic._ratio.observe(ratio)
                except MemoryError:
                    pass  # other batches will show it
            self.compression += ratio
            self.compression_max = max(self.compression_max, ratio)
            topic.compression += ratio
            topic.compression_max = max(topic.compression_max, ratio)
            self.batch_bytes_max = max(self.batch_bytes_max, size)
            self.records += batch.record_count
            self.queue_ms += queue_ms
            self.queue_ms_max = max(self.queue_ms_max, queue_ms)
            topic.batches += 1
            topic.records += batch.record_count
            topic.records_max = max(topic.records_max, <double>batch.record_count)
            topic.batch_bytes += size
            topic.batch_bytes_max = max(topic.batch_bytes_max, size)


# -- partitions ------------------------------------------------------------------------------------------------

@cython.final
cdef class FastTopic:
    """One topic as it is in frames.

    Args:
        encoded: its name as in a frame, or its id.
        is_id: which of the two.
        ratio: its ``TopicCompressionRatio``; ``None``: nothing is compressed.
    """

    def __cinit__(self, str name not None, bytes encoded not None, bint is_id, ratio=None):
        self.name = name
        self._ratio = ratio
        self._encoded = encoded
        if is_id:
            if len(encoded) != 16:
                raise ValueError("a topic id has 16 bytes")
            self.c.has_id = True
            memcpy(self.c.id, <const char *>encoded, 16)
        else:
            self.c.name = encoded
            self.c.name_size = <int32_t>len(encoded)

    def __dealloc__(self):
        PyMem_Free(self.c.parts)

    cdef int add(self, FastPart part) except -1:
        cdef Py_ssize_t needed = part.c.index + 1
        cdef void *grown
        if needed > self._room:
            needed = max(needed, 2 * self._room)
            grown = PyMem_Realloc(self.c.parts, needed * sizeof(KpPart *))
            if grown == NULL:
                raise MemoryError
            self.c.parts = <KpPart **>grown
            self._room = needed
        if part.c.index + 1 > self.c.part_count:
            memset(self.c.parts + self.c.part_count, 0, (part.c.index + 1 - self.c.part_count) * sizeof(KpPart *))
            self.c.part_count = part.c.index + 1
        self.c.parts[part.c.index] = &part.c
        return 0


@cython.final
cdef class FastPart:
    """One partition whose open batch compiled code begins.

    Attributes:
        lane: by which it was armed last. Whether it is armed is known under its lock alone.
        fills_batches: the last batch was full, so the next one begins with a large buffer.
        added_to: the transaction of version 1 to which it was added; it takes the records of no other one. ``None``: it
            takes those of each transaction of version 2, or the producer has no transactions.
    """

    def __cinit__(self, Plane plane not None, FastTopic topic not None, topic_partition):
        self.plane = plane
        self.topic = topic
        self.topic_partition = topic_partition
        _, number = topic_partition
        if not 0 <= number < MOST_PARTITIONS:
            raise ValueError(f"{number} is not the number of a partition")
        kp_part_init(&self.c, &plane.c, &topic.c, number, <void *>self)

    def arm(self, FastLane lane not None, list batches=None, bint is_last_open=False):
        """Give it to a lane. Its queue's lock is held. I/O thread. If this raises, it is not armed.

        Args:
            batches: those of the queue, which were never sent, oldest first. Of each: itself, appender, place in the
                sending order, ms when begun, ms of the last record, compressed records or ``None``. No slot has the
                appenders. What they become replaces them in ``plane.incomplete``.
            is_last_open: whether the last one takes more records.
        """
        cdef list adopted
        cdef FastBatch batch
        cdef dict incomplete = self.plane.incomplete
        if lane.plane is not self.plane:
            raise ValueError("the lane is of another plane")
        if self.c.lane != NULL:
            raise ValueError("it is armed already")
        adopted = [self.adopted(each) for each in batches or ()]
        self.topic.add(self)
        if self.topic not in lane._topics:
            lane._topics.append(self.topic)
        lane._parts[self] = None
        try:
            for batch in adopted:
                incomplete[batch] = batch
        except BaseException:
            for batch in adopted:
                incomplete.pop(batch, None)
            raise
        # From here on, nothing can fail.
        self.detached = None
        self.lane = lane
        lock(&self.c)
        for batch in adopted:
            Py_INCREF(batch)
            kp_part_adopt(&self.c, &batch.c)
        if is_last_open:
            set_limits(batch)
        else:
            kp_part_close_open(&self.c, 0)
        kp_part_arm(&self.c, &lane.c)
        kp_part_unlock(&self.c)
        for row in batches or ():
            if PyDict_Contains(incomplete, (<tuple>row)[0]) == 1:
                PyDict_DelItem(incomplete, (<tuple>row)[0])

    cdef FastBatch adopted(self, row):
        """A batch of the queue as one of the lane."""
        cdef FastBatch batch = FastBatch.__new__(FastBatch)
        cdef RecordAppender appender
        cdef const unsigned char[::1] wire
        _, appender, batch.order, batch.c.begun_ms, batch.c.closed_ms, wire = row
        batch._made = appender.batch_result
        fill(batch, self, appender)
        batch.c.ratio = expected_ratio(self)
        note(batch)
        if wire is not None and not kp_batch_take_compressed(&batch.c, &wire[0], wire.shape[0]):
            raise MemoryError
        return batch

    @property
    def is_in_flight(self):
        """Whether a request with one of its batches waits for its response. I/O thread."""
        return self.c.flying_first != NULL

    def number(self, long long producer_id, int epoch, int next_sequence, long long acknowledged_ms):
        """Before ``arm``: number its batches from here on. I/O thread.

        Args:
            acknowledged_ms: when its leader has acknowledged this producer id last; -1: never.
        """
        if self.c.flying_first != NULL:
            raise ValueError("batches are in flight")
        self.c.is_numbered = True
        self.c.generation = self.plane.c.generation
        self.c.producer_id = producer_id
        self.c.producer_epoch = <int16_t>epoch
        self.c.next_sequence = next_sequence
        self.c.acknowledged_ms = acknowledged_ms
        self.c.last_acked_sequence = -1
        self.c.settled_count = 0

    @property
    def next_sequence(self):
        """Of its next batch. I/O thread."""
        kp_part_renumber(&self.c)
        return self.c.next_sequence

    def take_acknowledged(self):
        """(how many batches were acknowledged since the last call, last sequence number, when). I/O thread."""
        kp_part_renumber(&self.c)
        count = self.c.settled_count
        self.c.settled_count = 0
        return count, self.c.last_acked_sequence, self.c.acknowledged_ms

    def disarm(self):
        """Take it from its lane; its requests in flight stay there.

        Returns:
            Its other batches, oldest first. As long as these are in ``detached``, calls return the same: a caller that
            was interrupted can go on.
        """
        cdef KpBatch *batch
        cdef list batches = []
        if self.detached is not None:
            return self.detached
        lock(&self.c)
        try:
            # Listed first: if there is no memory for that, nothing has changed.
            batch = self.c.head
            while batch != NULL:
                batches.append(<FastBatch>batch.owner)
                batch = batch.next
            if self.c.open != NULL:
                batches.append(<FastBatch>self.c.open.owner)
            self.detached = batches
            kp_part_detach(&self.c)
        finally:
            kp_part_unlock(&self.c)
        for each in batches:
            Py_DECREF(each)
        if self.lane is not None:
            self.lane._parts.pop(self, None)
        return batches

    @property
    def waiting_count(self):
        """Batches that are not in flight."""
        return kp_part_waiting_count(&self.c)

    @property
    def has_open_batch(self):
        """Whether a batch takes more records."""
        lock(&self.c)
        cdef bint has = self.c.open != NULL and not self.c.open.is_full
        kp_part_unlock(&self.c)
        return has

    def refuse(self):
        """The producer is being closed: take no more records. What it has will be sent."""
        self.is_refusing = True

    def append(self, append):
        """Encode one record; begin a batch with it if none is open.

        A signal handler may raise as soon as this returns, or wakes the I/O thread. So what was done is in ``append``.

        Args:
            append: has ``record``; ``transaction``, ``None`` if the producer has none; ``buffer`` for the batch, if one is
                begun, ``None`` for one from the pool. Gets ``future`` when the record was taken; ``buffer`` becomes
                ``None`` when it is in use.

        Returns:
            Whether the open batch had no room and was closed: then call again, ``compress_last`` first. Otherwise, if
            the record was not taken, nothing has changed: the partition is not armed any more, or not for this
            transaction, or there is no memory: ``needed_bytes`` says how much a batch takes.

        Raises:
            TypeError, ValueError, OverflowError: as ``BatchWriter.append``.
        """
        cdef Record record
        cdef bytes tail
        cdef RecordFuture future = new_future(self.plane._future_type)
        cdef FastBatch begun = None
        timestamp_ms, key, value, headers, on_delivery = append.record
        tail = fill_record(&record, timestamp_ms, key, value, headers)
        if append.buffer is not None:
            begun = new_batch(self, append.buffer)
        try:
            return append_to_part(self, &record, future, on_delivery, None, append.transaction, begun, RETURN_CLOSED) == CLOSED
        finally:
            if begun is not None and begun.c.part != NULL:
                append.buffer = None
            if future._outcome is not None:
                append.future = future
            if begun is not None and begun.c.part == NULL:
                begun.abandon()

    def compress_last(self):
        """Compress the last batch that takes no more records, if the I/O thread has enough to compress.

        The caller may be interrupted before this: then the I/O thread compresses the batch.
        """
        cdef KpBatch *found = NULL
        cdef FastBatch batch
        if self.plane.c.plain_count <= MOST_PLAIN:
            return
        compression_lock = allocate_lock()
        compression_lock.acquire()
        lock(&self.c)
        found = kp_part_begin_last_compression(&self.c)
        if found != NULL:
            batch = <FastBatch>found.owner
            batch.compression_lock = compression_lock
        kp_part_unlock(&self.c)
        if found != NULL and compress(batch):
            self.plane.wake()

    @property
    def is_armed(self):
        """Whether it was armed when this was called."""
        return self.c.lane != NULL

    def needed_bytes(self, timestamp_ms, key, value, headers):
        """The size of the buffer of a new batch whose first record is this one."""
        cdef Record record
        cdef bytes tail = fill_record(&record, timestamp_ms, key, value, headers)
        return first_bytes(self, &record)


@cython.final
cdef class FastBatch(_LazyResult):
    """A batch of an armed partition. ``plane.incomplete`` holds it until it has its outcome or is handed back.

    Python code that finds it there sees it as it would see a ``ProducerBatch``.
    """

    def __repr__(self):
        return f"<FastBatch {self.topic_partition} records={self.c.record_count}>"

    @property
    def topic_partition(self):
        return self.outcome.topic_partition

    @property
    def record_count(self):
        return self.c.record_count if self.successor is None else self.successor.record_count

    @property
    def created_ms(self):
        return self.c.begun_ms

    @property
    def closed_ms(self):
        return self.c.closed_ms

    @property
    def is_open(self):
        """Whether it may take more records, as of when it was handed back."""
        return self.c.state == KP_OPEN

    @property
    def is_begun(self):
        """Whether it has a record. If not, a caller is about to begin or to forget it."""
        return self.c.part != NULL

    @property
    def is_done(self):
        return self.outcome.settled or self.outcome.is_split

    @property
    def in_flight(self):
        return self.c.state == KP_FLYING

    def __dealloc__(self):
        kp_batch_forget_compressed(&self.c)

    @property
    def compressed_records(self):
        """A copy of the compressed records; ``None``: there are none."""
        return None if self.c.compressed == NULL else self.c.compressed[RECORD_BATCH_OVERHEAD:self.c.compressed_end]

    def new_appender(self):
        """An appender with the same writer, result and callbacks, for what it becomes."""
        cdef RecordAppender old = self.appender
        cdef object result = self.result
        cdef RecordAppender appender = RecordAppender(old.writer, result, self.outcome, old.future_type)
        appender.deliveries = old.deliveries
        # The builder that gets the writer sets its own.
        old.writer.set_compression_estimate(0, 0)
        # Those that come later find the result.
        if self._waiting is not None and not result.add_listener(self._wake):
            self.release()
        return appender

    def _wake(self):
        self.release()

    def hand_over(self, successor not None):
        """From here on, ``successor`` has its records and its memory."""
        self.successor = successor
        self.appender = None
        for each in (self, self.outcome):
            if each is not None and not PyObject_GC_IsTracked(<PyObject*>each):
                PyObject_GC_Track(<PyObject*>each)
        kp_batch_forget_compressed(&self.c)

    @property
    def numbers(self):
        """(producer id, epoch, base sequence); ``None``: it has none. I/O thread."""
        if self.c.state < KP_FLYING or self.part is None or not self.part.c.is_numbered:
            return None
        return self.c.producer_id, self.c.producer_epoch, self.c.sequence

    @property
    def send_count(self):
        return 1 if self.c.state >= KP_FLYING else 0

    cdef succeed(self):
        """The broker has it, and its memory was returned. Run its callbacks, and wake the threads that wait for it."""
        cdef BatchOutcome outcome = self.outcome
        cdef Deliveries deliveries = self.appender.deliveries
        cdef Plane plane = self.part.plane
        cdef bint is_new = not outcome.settled and not outcome.is_split
        try:
            if is_new:
                outcome.base_offset = self.c.base_offset
                outcome.log_append_time_ms = self.c.log_append_time_ms
                outcome.settled = True
            if is_new and deliveries._count:
                outcome.firing_thread_id = PyThread_get_thread_ident()
                raised = deliveries.run(outcome, None, self._log_raised)
                if raised > 1:
                    self.result.log_all_raised(raised)
        finally:
            try:
                if is_new:
                    outcome.done = True
                    outcome.firing_thread_id = 0
                    self.release()
                    # A thread that has made the result since then sees that it is done: see add_listener.
                    if self._made is not None:
                        self._made.release()
            finally:
                # Nothing may find its memory here.
                plane.incomplete.pop(self, None)
                self.appender = None
                self.part = None  # futures keep the batch: with the partition, they would keep the producer
                kp_batch_forget_compressed(&self.c)

    cdef abandon(self):
        """It takes no record; its buffer is the caller's. A flush may have found it meanwhile, or the end of a
        transaction."""
        cdef Plane plane = self.part.plane
        plane.incomplete.pop(self, None)
        self.appender = None
        self.outcome.settled = self.outcome.done = True
        if self._made is not None:
            self._made.release()
        if plane.c.is_transactional and plane.transaction is None:
            plane._on_refusal()

    def _log_raised(self):
        self.result._log_raised()


# -- appending -------------------------------------------------------------------------------------------------

cdef void lock(KpPart *part) noexcept:
    """Take its lock; with the interpreter lock held, which others get while this waits for long."""
    cdef int spin
    while True:
        for spin in range(SPINS):
            if kp_part_try_lock(part):
                return
        with nogil:
            kp_part_lock(part)
            kp_part_unlock(part)


cdef inline void note(FastBatch batch) noexcept nogil:
    kp_part_note(&batch.c, batch.appender.writer.position, <int32_t>batch.appender.writer.record_count,
                 batch.appender.writer.base_timestamp_ms, batch.appender.writer.max_timestamp_ms)


cdef inline Py_ssize_t upper_bound(const Record *record) noexcept:
    """Of the bytes that a record takes. A null has the size -1."""
    return RECORD_OVERHEAD_BYTES + max(record.key_size, 0) + max(record.value_size, 0) + record.headers_size


cdef Py_ssize_t first_bytes(FastPart part, const Record *record):
    """The size of the buffer of a new batch whose first record is this one."""
    cdef Plane plane = part.plane
    cdef Py_ssize_t most = plane._first_bytes
    if part.fills_batches:
        most = max(most, plane._batch_size)
        if plane._codec is not None:
            # As much as it is expected to take, or the next larger size.
            most = max(most, <Py_ssize_t>(2 * plane._batch_size / expected_ratio(part)) - 1)
    # With compression, batches may grow to more than the memory.
    return plane.buffer_bytes(RECORD_BATCH_OVERHEAD + upper_bound(record), min(most, plane._memory_bytes))


cdef void fill(FastBatch batch, FastPart part, RecordAppender appender) noexcept:
    """Set what a batch of this partition has from its beginning."""
    batch.part = part
    batch._make = part.plane._make_result
    batch.io_thread_id = part.plane.io_thread_id
    batch.outcome = appender.outcome
    batch.appender = appender
    batch.c.owner = <void *>batch
    batch.c.data = <unsigned char *>appender.writer._data


cdef FastBatch new_batch(FastPart part, object buffer):
    """A batch without records, in ``plane.incomplete``."""
    cdef Plane plane = part.plane
    cdef FastBatch batch = FastBatch.__new__(FastBatch)
    cdef BatchWriter writer = BatchWriter.__new__(BatchWriter, buffer)
    cdef BatchOutcome outcome = BatchOutcome.__new__(BatchOutcome, part.topic_partition, plane._metadata_type)
    fill(batch, part, RecordAppender.__new__(RecordAppender, writer, batch, outcome, plane._future_type))
    batch.c.ratio = expected_ratio(part)
    plane.incomplete[batch] = batch
    # As futures, which keep it: with a batch per record, the collector would take half of the time. What refers to
    # itself here ends when the batch does, or is handed over.
    PyObject_GC_UnTrack(<PyObject*>batch)
    PyObject_GC_UnTrack(<PyObject*>batch.appender)
    PyObject_GC_UnTrack(<PyObject*>outcome)
    return batch


cdef double expected_ratio(FastPart part) except -1:
    """The expected size of a batch, divided by the plain one, with a margin."""
    return 1.0 if part.topic._ratio is None else part.topic._ratio.factor


cdef void set_limits(FastBatch batch) noexcept:
    """How far the writer of an open batch takes records. As RecordBatchBuilder: only the first one may go beyond."""
    cdef BatchWriter writer = batch.appender.writer
    cdef Plane plane = batch.part.plane
    if plane._codec is None:
        writer.limit = min(plane._batch_size, writer._size)
        return
    # All by the estimate.
    writer.limit = RECORD_BATCH_OVERHEAD
    writer._ratio = batch.c.ratio
    writer._wire_limit = plane._batch_size


cdef inline bint is_full(FastBatch batch) noexcept nogil:
    """Whether the open batch certainly takes no other record."""
    cdef int64_t size = batch.appender.writer.position
    if batch.part.plane.c.codec != NULL:
        size = expected_size(batch.appender.writer, size)
    return size >= batch.part.plane._batch_size


cdef int append(FastBatch batch, Record* record, RecordFuture future, object on_delivery) except -1:
    """Append to the open batch, with its partition's lock. 0: it takes no such record."""
    cdef BatchWriter writer = batch.appender.writer
    cdef Plane plane = batch.part.plane
    cdef int taken = batch.appender.append_record(record, future, on_delivery)
    if not taken and plane._codec is not None:
        # The record that fills the batch: it counts in full.
        writer.limit = min(writer.position + plane._batch_size - expected_size(writer, writer.position), writer._size)
        try:
            taken = batch.appender.append_record(record, future, on_delivery)
        finally:
            set_limits(batch)
    return taken


cdef inline bint may_grow_larger(FastBatch batch) noexcept:
    """Whether the open batch has room that its buffer has not."""
    cdef BatchWriter writer = batch.appender.writer
    cdef Plane plane = batch.part.plane
    if writer._size >= plane._largest_bytes:
        return False
    return plane._codec is None or (
        expected_size(writer, writer.position) + writer._size - writer.position < plane._batch_size
    )


cdef object grow(FastBatch batch, object larger):
    """Continue the open batch in a larger buffer, with its partition's lock. Returns the old one."""
    cdef BatchWriter writer = batch.appender.writer
    cdef object old = writer.buffer
    writer.move_to(larger)
    set_limits(batch)
    batch.c.data = <unsigned char *>writer._data
    return old


cdef inline bint takes_records_of(FastPart part, object transaction):
    """Whether this transaction takes records, and the partition is armed for it.

    Asked when the batch is in ``incomplete``. The transaction takes no more records before anyone asks whether a
    batch is left, so it does not end before this batch has its outcome.
    """
    cdef Plane plane = part.plane
    if not plane.c.is_transactional:
        return True
    if transaction is None or transaction is not plane.transaction:
        return False
    return part.added_to is None if plane._adds_partitions else part.added_to is transaction


cdef inline bint has_enough_to_compress(Plane plane) noexcept:
    """Whether the I/O thread has. Then callers compress the batches that they find full."""
    return plane._codec is not None and plane.c.plain_count >= MOST_PLAIN


cdef bint compress(FastBatch batch) noexcept:
    """Compress the records of a full batch. Whether to wake the I/O thread.

    No Python code runs before its lock is released: a signal handler would wait for this thread.
    """
    cdef KpCodec *codec = batch.part.plane.c.codec
    cdef KpPart *part = &batch.part.c
    cdef unsigned char *compressed
    cdef int64_t end = 0
    cdef bint wakes
    with nogil:
        compressed = kp_compress(codec, &batch.c, &end)
    lock(part)
    wakes = kp_part_end_compression(part, &batch.c, &compressed, end)
    kp_part_unlock(part)
    free(compressed)
    batch.compression_lock.release()
    return wakes


cdef FastBatch take_open(FastPart part, StickyPartition sticky, object transaction, long long sender_id, dict numbers,
                         int64_t early_ms):
    cdef FastBatch batch
    cdef RecordAppender appender
    while True:
        # No reference may be dropped while the lock is held.
        batch = appender = None
        lock(&part.c)
        if (
            part.c.lane == NULL or part.c.open == NULL or part.c.open.is_full or part.is_refusing
            or not takes_records_of(part, transaction)
            or (sticky is not None and sticky.produced_bytes >= sticky.force_switch_at_bytes)
        ):
            kp_part_unlock(&part.c)
            return None
        batch = <FastBatch>part.c.open.owner
        if batch.appender.row_sender_id == sender_id:
            return batch
        appender = batch.appender
        if leave_open(batch, early_ms):
            part.plane.wake()
        # The batch may be closed while this makes its result.
        meet(appender, sender_id, numbers)


cdef bint leave_open(FastBatch batch, int64_t early_ms) noexcept nogil:
    cdef KpPart *part = batch.c.part
    cdef bint wakes = False
    note(batch)
    if is_full(batch):
        batch.part.fills_batches = True
        wakes = kp_part_close_open(part, early_ms or kp_now_ms())
    kp_part_unlock(part)
    return wakes


cdef int append_to_part(FastPart part, Record* record, RecordFuture future, object on_delivery,
                        StickyPartition sticky, object transaction, FastBatch given, Backlog backlog) except -1:
    cdef Plane plane = part.plane
    cdef FastBatch begun = given    # takes the record if no batch is open
    cdef object buffer = None       # of `begun`, if that is not given
    cdef object larger = None       # a larger buffer for the open batch
    cdef object compression_lock = None     # for the open batch, which this thread has to compress
    cdef FastBatch closed = None    # that batch
    cdef FastBatch batch
    cdef BatchWriter writer
    cdef Py_ssize_t wanted
    cdef int taken = 0
    cdef bint wakes = False, may_grow = True
    cdef int64_t early_ms = plane.early_ms()
    cdef int64_t now_ms
    try:
        # Fails only while other threads fill batches as fast as this one prepares them.
        for _ in range(MOST_TRIES):
            wanted = 0
            lock(&part.c)
            try:
                if part.c.lane == NULL or part.is_refusing or not takes_records_of(part, transaction):
                    break
                if part.c.open != NULL:
                    batch = <FastBatch>part.c.open.owner
                    writer = batch.appender.writer
                    if sticky is not None and sticky.produced_bytes >= sticky.force_switch_at_bytes:
                        taken = ELSEWHERE
                        break
                    taken = append(batch, record, future, on_delivery)
                    if not taken and larger is not None:
                        if len(larger) > writer._size:
                            larger = grow(batch, larger)
                            taken = append(batch, record, future, on_delivery)
                        may_grow = False
                    if taken:
                        note(batch)
                        if is_full(batch):
                            part.fills_batches = True
                            wakes |= kp_part_close_open(&part.c, early_ms or kp_now_ms())
                        break
                    if may_grow and may_grow_larger(batch):
                        wanted = max(writer.position + upper_bound(record), 2 * writer._size)
                    else:
                        part.fills_batches = True
                        if sticky is not None:
                            # No small batch is to be left here.
                            sticky.produced_bytes = max(sticky.produced_bytes, sticky.switch_at_bytes)
                        if backlog == RETURN_CLOSED:
                            wakes |= kp_part_close_open(&part.c, early_ms or kp_now_ms())
                            taken = CLOSED
                            break
                        if backlog == COMPRESS and has_enough_to_compress(plane):
                            if compression_lock is None:
                                wanted = -1
                            else:
                                closed = batch
                                closed.compression_lock = compression_lock
                                kp_part_begin_compression(&part.c, early_ms or kp_now_ms())
                                continue
                        elif sticky is not None:
                            wakes |= kp_part_close_open(&part.c, early_ms or kp_now_ms())
                            taken = ELSEWHERE
                            break
                elif sticky is not None and sticky.produced_bytes >= sticky.least_bytes:
                    taken = ELSEWHERE
                    break
                if begun is not None and not wanted:
                    # As RecordBatchBuilder: only the first record may take more than ``batch_size``.
                    writer = begun.appender.writer
                    taken = begun.appender.append_record(record, future, on_delivery)
                    if taken:
                        now_ms = early_ms or kp_now_ms()
                        set_limits(begun)
                        note(begun)
                        # The structure's, until the batch is settled or taken back.
                        Py_INCREF(begun)
                        begun.order = part.next_order
                        part.next_order += 1
                        # A caller may compress it, unless the I/O thread takes it before.
                        begun.c.is_full = is_full(begun)
                        wakes |= kp_part_begin(&part.c, &begun.c, now_ms)
                        if begun.c.is_full and (backlog == LEAVE or not has_enough_to_compress(plane)):
                            wakes |= kp_part_close_open(&part.c, now_ms)
                        begun = None
                        buffer = None
                    break
            finally:
                kp_part_unlock(&part.c)
                if closed is not None:
                    wakes |= compress(closed)
                    closed = compression_lock = None
            if wakes:
                wakes = False
                plane.wake()  # the others rely on it
            # Other code may run in here, so everything is looked at again afterwards.
            if wanted < 0:
                compression_lock = allocate_lock()
                compression_lock.acquire()
            elif wanted:
                larger = plane._allocate(plane.next_size(wanted))
                may_grow = larger is not None
            elif begun is None:
                buffer = plane._allocate(first_bytes(part, record))
                if buffer is None:
                    break
                begun = new_batch(part, buffer)
    finally:
        # A signal handler may raise in each of these.
        try:
            if wakes:
                plane.wake()
        finally:
            if begun is not None and begun is not given:
                begun.abandon()
            if buffer is not None:
                plane._deallocate([buffer])
            if larger is not None:
                plane._deallocate([larger])
    if taken == APPENDED and sticky is not None:
        count_record(sticky, record.key_size, record.value_size)
    return taken


cdef int append_alone(FastPart part, Record* record, RecordFuture future, StickyPartition sticky, object transaction,
                      dict numbers, int* number) except -1:
    cdef int appended
    try:
        appended = append_to_part(part, record, future, None, sticky, transaction, None, COMPRESS)
        if appended == APPENDED:
            number[0] = number_of(future._batch_result, numbers)
    except BaseException:
        # A signal handler's. That does not change whether the record is accepted.
        if future._outcome is not None:
            number[0] = number_of(future._batch_result, numbers)
        raise
    return appended

# cython: language_level=3, boundscheck=False, wraparound=False
"""All the socket calls of one poll in one go, without the interpreter lock: write, wait, read.

With a busy application thread each return from a system call waits up to a switch interval (5 ms) for the
lock. So a poll takes the lock back once, whatever number of connections it moved bytes on. Linux only (epoll).
Knows sockets and buffers; frames, handshakes and what an error means are the selector's. Its twin is
``network.transport_io``, which makes the same calls one by one. Source: ours.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.ref cimport PyObject
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint32_t
from libc.string cimport memset

import os


cdef extern from "<sys/uio.h>" nogil:
    cdef struct iovec:
        void *iov_base
        size_t iov_len

cdef extern from "<sys/socket.h>" nogil:
    cdef struct msghdr:
        iovec *msg_iov
        size_t msg_iovlen
    ssize_t sendmsg(int fd, const msghdr *message, int flags)
    ssize_t recv(int fd, void *buffer, size_t size, int flags)
    int MSG_DONTWAIT
    int MSG_NOSIGNAL

cdef extern from "<sys/epoll.h>" nogil:
    ctypedef union epoll_data_t:
        int fd
    cdef struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int flags)
    int epoll_ctl(int epfd, int op, int fd, epoll_event *event)
    int epoll_wait(int epfd, epoll_event *events, int maxevents, int timeout)
    int EPOLL_CLOEXEC
    int EPOLL_CTL_ADD
    int EPOLL_CTL_MOD
    int EPOLL_CTL_DEL
    uint32_t EPOLLIN
    uint32_t EPOLLOUT

cdef extern from "<unistd.h>" nogil:
    int close_descriptor "close"(int fd)
    int getpid()

cdef extern from "<limits.h>":
    """
    #ifndef IOV_MAX
    #define IOV_MAX 1024
    #endif
    """
    int IOV_MAX

cdef enum:
    #: As in ``selectors``.
    READ = 1
    WRITE = 2
    #: Events taken in by one wait; what is left over is reported at once by the next one.
    MAX_EVENTS = 1024
    #: With less room than this left, the other readable sockets wait for the next poll.
    LEAST_READ_BYTES = 4096


cdef struct LaneState:
    int fd
    PyObject *owner          # borrowed from the SocketLane
    bint established
    bint muted
    bint stalled             # the socket took less than it was offered; its readiness is waited for
    bint broken              # a write failed; nothing more is done until the lane is closed
    uint32_t interest        # as registered with epoll; 0: not registered
    iovec *pieces            # [next, count) is still to be written
    Py_buffer *views         # [pinned, count) are held
    Py_ssize_t count
    Py_ssize_t capacity
    Py_ssize_t next
    Py_ssize_t pinned


cdef struct Outcome:
    LaneState *lane
    int mask
    Py_ssize_t sent
    int write_errno
    Py_ssize_t read_at
    Py_ssize_t read_count    # -1: nothing was read
    int read_errno


cdef void write_pieces(LaneState *lane, Outcome *outcome) noexcept nogil:
    """Write until nothing is left or the socket is full. A short write is not tried again: it is full then."""
    cdef msghdr message
    cdef Py_ssize_t written, offered, at, pieces
    while lane.next < lane.count:
        pieces = min(lane.count - lane.next, <Py_ssize_t>IOV_MAX)
        offered = 0
        for at in range(lane.next, lane.next + pieces):
            offered += <Py_ssize_t>lane.pieces[at].iov_len
        memset(&message, 0, sizeof(message))
        message.msg_iov = lane.pieces + lane.next
        message.msg_iovlen = <size_t>pieces
        written = sendmsg(lane.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL)
        if written < 0:
            if errno == EINTR:
                continue
            if errno == EAGAIN:
                lane.stalled = True
                return
            outcome.write_errno = errno
            lane.broken = True
            return
        outcome.sent += written
        at = written
        while at > 0:
            if <size_t>at < lane.pieces[lane.next].iov_len:
                lane.pieces[lane.next].iov_base = <char *>lane.pieces[lane.next].iov_base + at
                lane.pieces[lane.next].iov_len -= <size_t>at
                break
            at -= <Py_ssize_t>lane.pieces[lane.next].iov_len
            lane.next += 1
        if written < offered:
            lane.stalled = True
            return
    lane.stalled = False


cdef int update_interest(int epoll_fd, LaneState *lane) noexcept nogil:
    """Register what the lane waits for now; a system call only when that changed. Returns errno or 0."""
    cdef epoll_event event
    cdef uint32_t wanted = 0
    cdef int operation
    if not lane.established:
        wanted = EPOLLOUT  # the event that tells how the connect went
    else:
        if not lane.muted:
            wanted |= EPOLLIN
        if lane.stalled:
            wanted |= EPOLLOUT
    if wanted == lane.interest:
        return 0
    event.events = wanted
    event.data.fd = lane.fd
    operation = EPOLL_CTL_MOD if lane.interest else EPOLL_CTL_ADD
    if not wanted:
        operation = EPOLL_CTL_DEL
    if epoll_ctl(epoll_fd, operation, lane.fd, &event) < 0:
        return errno
    lane.interest = wanted
    return 0


cdef class SocketLane:
    """One socket's part of a ``SocketIo``: what is queued for it, and what it waits for."""

    cdef LaneState state
    cdef SocketIo io
    cdef object owner

    def __cinit__(self, SocketIo io not None, int fd, object owner):
        memset(&self.state, 0, sizeof(LaneState))
        self.io = io
        self.owner = owner
        self.state.fd = fd
        self.state.owner = <PyObject *>owner

    def __dealloc__(self):
        self.unpin(self.state.count)
        PyMem_Free(self.state.pieces)
        PyMem_Free(self.state.views)

    def establish(self):
        """The connection is up: from now on bytes are moved. Raises OSError."""
        self.state.established = True
        self.io.update(&self.state)

    def mute(self, bint muted):
        """Whether to leave alone what comes in. Raises OSError."""
        self.state.muted = muted
        self.io.update(&self.state)

    def queue(self, list buffers):
        """Append contiguous buffers to what is to be written; they are held until they are, or until ``close``."""
        cdef LaneState *state = &self.state
        cdef Py_ssize_t needed = state.count + len(buffers)
        cdef Py_ssize_t before = state.count
        cdef Py_buffer *view
        self.io.check_idle()
        self.reserve(needed)
        try:
            for buffer in buffers:
                if state.count == needed:
                    raise RuntimeError("the list of buffers grew while it was queued")
                view = &state.views[state.count]
                PyObject_GetBuffer(buffer, view, PyBUF_SIMPLE)
                if not view.len:
                    # Behind a piece that no write gets past, none would ever be written.
                    PyBuffer_Release(view)
                    continue
                state.pieces[state.count].iov_base = view.buf
                state.pieces[state.count].iov_len = <size_t>view.len
                state.count += 1
        except BaseException:
            while state.count > before:
                state.count -= 1
                PyBuffer_Release(&state.views[state.count])
            raise

    def close(self):
        """Stop watching the socket, which the caller closes, and let go of the buffers. Idempotent."""
        self.io.forget(self)
        self.drop()

    cdef drop(self):
        self.unpin(self.state.count)
        self.state.count = self.state.next = self.state.pinned = 0
        self.state.owner = <PyObject *>None
        self.owner = None

    cdef void unpin(self, Py_ssize_t end):
        cdef LaneState *state = &self.state
        while state.pinned < end:
            PyBuffer_Release(&state.views[state.pinned])
            state.pinned += 1
        if state.pinned == state.count:
            state.count = state.next = state.pinned = 0

    cdef reserve(self, Py_ssize_t needed):
        cdef LaneState *state = &self.state
        cdef Py_ssize_t capacity
        cdef void *grown
        if needed <= state.capacity:
            return
        capacity = max(needed, 2 * state.capacity, 32)
        grown = PyMem_Realloc(state.pieces, <size_t>capacity * sizeof(iovec))
        if grown == NULL:
            raise MemoryError()
        state.pieces = <iovec *>grown
        grown = PyMem_Realloc(state.views, <size_t>capacity * sizeof(Py_buffer))
        if grown == NULL:
            raise MemoryError()
        state.views = <Py_buffer *>grown
        state.capacity = capacity


# Or the collector lets go of the exported buffer without giving the export back. The dict breaks the cycle.
@cython.no_gc_clear
cdef class SocketIo:
    """Writes, waits and reads on many sockets. One thread only; others are refused while it is at that.

    Args:
        wakeup_fd: a non-blocking socket; bytes in it end a wait and are swallowed.
        read_buffer: what comes in is put here. Not a memoryview: the collector clears one even while others
            hold its bytes, and the interpreter crashes when they give them back.
        read_size_bytes: at most so much of one socket in one exchange.
    """

    cdef int epoll_fd
    cdef int wakeup_fd
    # In the middle of an exchange, which looks at lanes and tables that nobody may free or move.
    cdef bint busy
    cdef int pid
    cdef Py_buffer arena
    cdef bint has_arena
    cdef Py_ssize_t read_size_bytes
    cdef dict lanes
    cdef LaneState **by_fd
    cdef Py_ssize_t by_fd_size
    cdef epoll_event *events
    cdef Outcome *outcomes
    cdef Py_ssize_t outcome_capacity

    def __cinit__(self, int wakeup_fd, bytearray read_buffer not None, Py_ssize_t read_size_bytes):
        self.epoll_fd = -1
        self.wakeup_fd = wakeup_fd
        self.pid = getpid()
        self.lanes = {}
        PyObject_GetBuffer(read_buffer, &self.arena, PyBUF_WRITABLE)
        self.has_arena = True
        self.read_size_bytes = read_size_bytes
        self.events = <epoll_event *>PyMem_Malloc(MAX_EVENTS * sizeof(epoll_event))
        if self.events == NULL:
            raise MemoryError()
        self.epoll_fd = epoll_create1(EPOLL_CLOEXEC)
        if self.epoll_fd < 0:
            raise OSError(errno, os.strerror(errno))
        cdef epoll_event event
        event.events = EPOLLIN
        event.data.fd = wakeup_fd
        if epoll_ctl(self.epoll_fd, EPOLL_CTL_ADD, wakeup_fd, &event) < 0:
            raise OSError(errno, os.strerror(errno))

    def __dealloc__(self):
        if self.epoll_fd >= 0:
            close_descriptor(self.epoll_fd)
        if self.has_arena:
            PyBuffer_Release(&self.arena)
        PyMem_Free(self.events)
        PyMem_Free(self.outcomes)
        PyMem_Free(self.by_fd)

    def register(self, int fd, object owner):
        """Watch a connecting socket. Returns its SocketLane. Raises OSError."""
        cdef Py_ssize_t size
        cdef void *grown
        cdef SocketLane lane
        os.fstat(fd)  # the table below has a place for each descriptor up to this one
        lane = self.lanes.get(fd)
        if lane is not None:
            self.forget(lane)
        lane = SocketLane(self, fd, owner)
        self.check_idle()
        if fd >= self.by_fd_size:
            size = max(2 * self.by_fd_size, <Py_ssize_t>fd + 1, 64)
            grown = PyMem_Realloc(self.by_fd, <size_t>size * sizeof(LaneState *))
            if grown == NULL:
                raise MemoryError()
            self.by_fd = <LaneState **>grown
            memset(self.by_fd + self.by_fd_size, 0, <size_t>(size - self.by_fd_size) * sizeof(LaneState *))
            self.by_fd_size = size
        self.lanes[fd] = lane
        self.by_fd[fd] = &lane.state
        try:
            self.update(&lane.state)
        except BaseException:
            self.forget(lane)
            raise
        return lane

    cdef update(self, LaneState *state):
        if self.epoll_fd < 0 or state.fd < 0:
            return
        cdef int code = update_interest(self.epoll_fd, state)
        if code:
            raise OSError(code, os.strerror(code))

    cdef forget(self, SocketLane lane):
        cdef int fd = lane.state.fd
        cdef epoll_event unused
        self.check_idle()
        if fd < 0:
            return
        lane.state.fd = -1
        if self.epoll_fd >= 0 and lane.state.interest:
            epoll_ctl(self.epoll_fd, EPOLL_CTL_DEL, fd, &unused)
        lane.state.interest = 0
        if self.lanes.get(fd) is lane:
            del self.lanes[fd]
            self.by_fd[fd] = NULL

    cdef check_idle(self):
        if self.busy:
            raise RuntimeError("the sockets are in use, by another thread or further up")

    def exchange(self, list sending, int timeout_ms):
        """Write what the lanes in ``sending`` have queued, wait, then read, and write where room came free.

        The wait is cut short when a write failed. Only a full socket is waited for: sockets whose lanes are
        not in ``sending`` are written to when the wait says that they have room again.

        Returns:
            Tuples (owner, mask, bytes sent, write errno, read position, bytes read, read errno), first those
            of ``sending``, then one for each event. Bytes read: 0 is the end of the stream, -1 nothing read.
        """
        self.check_idle()
        self.busy = True
        try:
            return self.write_wait_read(sending, timeout_ms)
        finally:
            self.busy = False

    cdef list write_wait_read(self, list sending, int timeout_ms):
        cdef Py_ssize_t at, count = len(sending), made = 0, read_at = 0, size
        cdef int ready = 0, code = 0
        cdef SocketLane lane
        cdef LaneState *state
        cdef Outcome *outcome
        cdef uint32_t bits
        cdef char drained[64]
        if self.epoll_fd < 0:
            raise ValueError("the sockets are closed")
        if count + MAX_EVENTS > self.outcome_capacity:
            size = count + MAX_EVENTS
            outcome = <Outcome *>PyMem_Realloc(self.outcomes, <size_t>size * sizeof(Outcome))
            if outcome == NULL:
                raise MemoryError()
            self.outcomes = outcome
            self.outcome_capacity = size
        for at in range(count):
            lane = <SocketLane?>sending[at]
            if lane.io is not self or (lane.state.fd >= 0 and self.lanes.get(lane.state.fd) is not lane):
                raise ValueError("a lane that is not registered here")
            self.outcomes[at].lane = &lane.state
        with nogil:
            for at in range(count):
                outcome = &self.outcomes[at]
                state = outcome.lane
                memset(outcome, 0, sizeof(Outcome))
                outcome.lane = state
                outcome.mask = WRITE
                outcome.read_count = -1
                if state.broken or state.fd < 0:
                    continue
                write_pieces(state, outcome)
                if not state.broken:
                    code = update_interest(self.epoll_fd, state)
                    if code:
                        outcome.write_errno = code
                        state.broken = True
                if state.broken:
                    timeout_ms = 0
            made = count
            ready = epoll_wait(self.epoll_fd, self.events, MAX_EVENTS, timeout_ms)
            code = errno if ready < 0 else 0
            for at in range(ready):
                if self.events[at].data.fd == self.wakeup_fd:
                    recv(self.wakeup_fd, drained, sizeof(drained), MSG_DONTWAIT)
                    continue
                if self.events[at].data.fd >= self.by_fd_size:
                    continue
                state = self.by_fd[self.events[at].data.fd]
                if state == NULL or state.broken:
                    continue
                bits = self.events[at].events
                outcome = &self.outcomes[made]
                memset(outcome, 0, sizeof(Outcome))
                outcome.lane = state
                outcome.read_count = -1
                # Errors and hang-ups show when the socket is used, in whatever way it is used next.
                outcome.mask = (READ if bits & ~EPOLLOUT else 0) | (WRITE if bits & ~EPOLLIN else 0)
                made += 1
                if not state.established:
                    continue
                if outcome.mask & READ and not state.muted:
                    size = min(self.arena.len - read_at, self.read_size_bytes)
                    if size < min(<Py_ssize_t>LEAST_READ_BYTES, self.arena.len):
                        outcome.mask &= ~<int>READ  # the next poll hears of it again
                    else:
                        outcome.read_at = read_at
                        outcome.read_count = recv(
                            state.fd, <char *>self.arena.buf + read_at, <size_t>size, MSG_DONTWAIT
                        )
                        if outcome.read_count > 0:
                            read_at += outcome.read_count
                        elif outcome.read_count < 0 and errno != EAGAIN and errno != EINTR:
                            outcome.read_errno = errno
                if outcome.mask & WRITE and state.next < state.count and outcome.read_count and not outcome.read_errno:
                    write_pieces(state, outcome)
                    if not state.broken:
                        code = update_interest(self.epoll_fd, state)
                        if code:
                            outcome.write_errno = code
                            state.broken = True
                        code = 0
        if ready < 0 and code != EINTR:
            raise OSError(code, os.strerror(code))
        return self.report(made)

    cdef list report(self, Py_ssize_t made):
        cdef list result = []
        cdef Outcome *outcome
        cdef LaneState *state
        cdef Py_ssize_t at
        for at in range(made):
            outcome = &self.outcomes[at]
            state = outcome.lane
            if state.fd >= 0 and outcome.sent:
                (<SocketLane>self.lanes[state.fd]).unpin(state.next)
            result.append((
                <object>state.owner, outcome.mask, outcome.sent, outcome.write_errno,
                outcome.read_at, outcome.read_count, outcome.read_errno,
            ))
        return result

    def close(self):
        """Stop watching everything and let go of all buffers; the sockets are the caller's. Idempotent."""
        cdef SocketLane lane
        if self.busy and getpid() != self.pid:
            # A child, forked in the middle of an exchange, which goes on in the parent alone.
            self.busy = False
        self.check_idle()
        for lane in list(self.lanes.values()):
            lane.state.interest = 0  # the epoll instance goes as a whole; a forked child must not touch it
            self.forget(lane)
            lane.drop()
        if self.epoll_fd >= 0:
            close_descriptor(self.epoll_fd)
            self.epoll_fd = -1

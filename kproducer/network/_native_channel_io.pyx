# cython: language_level=3, boundscheck=False, wraparound=False
"""Makes all socket calls of one poll (write, wait, read) in one step without the interpreter lock.

While an application thread is busy, every system call that releases the lock may wait up to a switch interval
(5 ms) to get it back. This module releases and takes the lock once per poll, for any number of connections.
Linux only (epoll). It handles sockets and buffers and returns errno values; frames, handshakes and the meaning
of errors belong to the selector. It is a leaf: it imports nothing of kproducer and reads no clock.
``channel_io.PortableChannelIo`` makes the same calls one by one and is its reference. Source: ours.

Longer than 400 lines: one socket and the poll of all sockets share C structs, which one module keeps private.
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
    #: Events returned by one wait; the next wait reports the others at once.
    MAX_EVENTS = 1024
    #: When less space than this is left for reads, the other readable sockets wait for the next poll.
    LEAST_READ_BYTES = 4096


cdef struct SocketState:
    int fd
    PyObject *owner          # borrowed from the NativeSocket
    bint established
    bint stalled             # the socket took less than it was offered; epoll tells when it has space again
    bint broken              # a write failed; the socket is not used again before it is closed
    uint32_t interest        # as registered with epoll; 0: not registered
    iovec *pieces            # [next, count) still have to be written
    Py_buffer *views         # [pinned, count) are held
    Py_ssize_t count
    Py_ssize_t capacity
    Py_ssize_t next
    Py_ssize_t pinned


cdef struct Outcome:
    SocketState *sock
    int mask
    Py_ssize_t sent
    int write_errno
    Py_ssize_t read_at
    Py_ssize_t read_count    # -1: nothing was read
    int read_errno


cdef void write_pieces(SocketState *sock, Outcome *outcome) noexcept nogil:
    """Write until everything is written or the socket is full. After a short write the socket is full."""
    cdef msghdr message
    cdef Py_ssize_t written, offered, at, pieces
    while sock.next < sock.count:
        pieces = min(sock.count - sock.next, <Py_ssize_t>IOV_MAX)
        offered = 0
        for at in range(sock.next, sock.next + pieces):
            offered += <Py_ssize_t>sock.pieces[at].iov_len
        memset(&message, 0, sizeof(message))
        message.msg_iov = sock.pieces + sock.next
        message.msg_iovlen = <size_t>pieces
        written = sendmsg(sock.fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL)
        if written < 0:
            if errno == EINTR:
                continue
            if errno == EAGAIN:
                sock.stalled = True
                return
            outcome.write_errno = errno
            sock.broken = True
            return
        outcome.sent += written
        at = written
        while at > 0:
            if <size_t>at < sock.pieces[sock.next].iov_len:
                sock.pieces[sock.next].iov_base = <char *>sock.pieces[sock.next].iov_base + at
                sock.pieces[sock.next].iov_len -= <size_t>at
                break
            at -= <Py_ssize_t>sock.pieces[sock.next].iov_len
            sock.next += 1
        if written < offered:
            sock.stalled = True
            return
    sock.stalled = False


cdef int update_interest(int epoll_fd, SocketState *sock) noexcept nogil:
    """Register the events the socket waits for, if they have changed. Returns errno or 0."""
    cdef epoll_event event
    cdef uint32_t wanted = EPOLLOUT  # while connecting: the event that reports the result of the connect
    if sock.established:
        wanted = EPOLLIN | EPOLLOUT if sock.stalled else EPOLLIN
    if wanted == sock.interest:
        return 0
    event.events = wanted
    event.data.fd = sock.fd
    if epoll_ctl(epoll_fd, EPOLL_CTL_MOD if sock.interest else EPOLL_CTL_ADD, sock.fd, &event) < 0:
        return errno
    sock.interest = wanted
    return 0


cdef void write_queued(int epoll_fd, SocketState *sock, Outcome *outcome) noexcept nogil:
    """Write what is queued, then register whether the socket has to become writable first."""
    write_pieces(sock, outcome)
    if not sock.broken:
        outcome.write_errno = update_interest(epoll_fd, sock)
        sock.broken = outcome.write_errno != 0


cdef class NativeSocket:
    """One socket of a ``SocketIo``: the buffers queued for it, and the events it waits for."""

    cdef SocketState state
    cdef SocketIo io
    cdef object owner

    def __cinit__(self, SocketIo io not None, int fd, object owner):
        memset(&self.state, 0, sizeof(SocketState))
        self.io = io
        self.owner = owner
        self.state.fd = fd
        self.state.owner = <PyObject *>owner

    def __dealloc__(self):
        self.unpin(self.state.count)
        PyMem_Free(self.state.pieces)
        PyMem_Free(self.state.views)

    def establish(self):
        """The connection is up: read and write from now on. Idempotent. Raises OSError."""
        self.state.established = True
        self.io.update(&self.state)

    def queue(self, list buffers):
        """Queue contiguous buffers. They are held until they have been written, or until ``close``."""
        cdef SocketState *state = &self.state
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
                    # write_pieces would never get past an empty piece.
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
        """Stop watching the socket and release its buffers; the caller closes it. Idempotent."""
        self.io.forget(self)
        self.drop()

    cdef drop(self):
        self.unpin(self.state.count)
        self.state.count = self.state.next = self.state.pinned = 0
        self.state.owner = <PyObject *>None
        self.owner = None

    cdef void unpin(self, Py_ssize_t end):
        cdef SocketState *state = &self.state
        while state.pinned < end:
            PyBuffer_Release(&state.views[state.pinned])
            state.pinned += 1
        if state.pinned == state.count:
            state.count = state.next = state.pinned = 0

    cdef reserve(self, Py_ssize_t needed):
        cdef SocketState *state = &self.state
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


# Without no_gc_clear the garbage collector would drop the buffer without releasing its export first. The dict
# breaks reference cycles.
@cython.no_gc_clear
cdef class SocketIo:
    """Writes, waits and reads on many sockets. One thread only; calls during an exchange are refused.

    Args:
        wakeup_fd: a non-blocking socket; bytes in it end a wait and are discarded.
        read_buffer: receives the bytes read. Not a memoryview: the garbage collector clears one even while
            its bytes are exported, and releasing them then crashes the interpreter.
        read_size_bytes: the most that one exchange reads from one socket.
    """

    cdef int epoll_fd
    cdef int wakeup_fd
    # True during an exchange, which uses sockets and tables that must not be freed or moved.
    cdef bint busy
    cdef int pid
    cdef Py_buffer arena
    cdef bint has_arena
    cdef Py_ssize_t read_size_bytes
    cdef dict sockets
    cdef SocketState **by_fd
    cdef Py_ssize_t by_fd_size
    cdef epoll_event *events
    cdef Outcome *outcomes
    cdef Py_ssize_t outcome_capacity

    def __cinit__(self, int wakeup_fd, bytearray read_buffer not None, Py_ssize_t read_size_bytes):
        self.epoll_fd = -1
        self.wakeup_fd = wakeup_fd
        self.pid = getpid()
        self.sockets = {}
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
        """Watch a connecting socket. Returns its NativeSocket. Raises OSError."""
        cdef Py_ssize_t size
        cdef void *grown
        cdef NativeSocket sock
        os.fstat(fd)  # refuses a number that is not a descriptor: the table below is indexed by it
        sock = self.sockets.get(fd)
        if sock is not None:
            self.forget(sock)
        sock = NativeSocket(self, fd, owner)
        self.check_idle()
        if fd >= self.by_fd_size:
            size = max(2 * self.by_fd_size, <Py_ssize_t>fd + 1, 64)
            grown = PyMem_Realloc(self.by_fd, <size_t>size * sizeof(SocketState *))
            if grown == NULL:
                raise MemoryError()
            self.by_fd = <SocketState **>grown
            memset(self.by_fd + self.by_fd_size, 0, <size_t>(size - self.by_fd_size) * sizeof(SocketState *))
            self.by_fd_size = size
        self.sockets[fd] = sock
        self.by_fd[fd] = &sock.state
        try:
            self.update(&sock.state)
        except BaseException:
            self.forget(sock)
            raise
        return sock

    cdef update(self, SocketState *state):
        if self.epoll_fd < 0 or state.fd < 0:
            return
        cdef int code = update_interest(self.epoll_fd, state)
        if code:
            raise OSError(code, os.strerror(code))

    cdef forget(self, NativeSocket sock):
        cdef int fd = sock.state.fd
        cdef epoll_event unused
        self.check_idle()
        if fd < 0:
            return
        sock.state.fd = -1
        if self.epoll_fd >= 0 and sock.state.interest:
            epoll_ctl(self.epoll_fd, EPOLL_CTL_DEL, fd, &unused)
        sock.state.interest = 0
        if self.sockets.get(fd) is sock:
            del self.sockets[fd]
            self.by_fd[fd] = NULL

    cdef check_idle(self):
        if self.busy:
            raise RuntimeError("the sockets are in use: another thread, or a caller of this one, is exchanging")

    def exchange(self, list sending, int timeout_ms):
        """Write the queued buffers of ``sending``, wait for events, then read and go on writing.

        Does not wait after a failed write. A socket that is not in ``sending`` is written to only when it was
        full and the wait reports that it has space again.

        Args:
            sending: NativeSockets of this object.
            timeout_ms: the longest wait; 0 does not wait, negative waits without limit.

        Returns:
            Tuples (owner, mask, bytes sent, write errno, read position, bytes read, read errno), first those
            of ``sending``, then one for each event. Bytes read: 0 is the end of the stream, -1 nothing read.

        Raises:
            OSError: the wait failed.
            RuntimeError: another exchange is in progress.
            ValueError: this object is closed, or a socket in ``sending`` is not registered here.
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
        cdef NativeSocket sock
        cdef SocketState *state
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
            sock = <NativeSocket?>sending[at]
            if sock.io is not self or (sock.state.fd >= 0 and self.sockets.get(sock.state.fd) is not sock):
                raise ValueError("a socket in the list is not registered here")
            self.outcomes[at].sock = &sock.state
        with nogil:
            for at in range(count):
                outcome = &self.outcomes[at]
                state = outcome.sock
                memset(outcome, 0, sizeof(Outcome))
                outcome.sock = state
                outcome.mask = WRITE
                outcome.read_count = -1
                if state.broken or state.fd < 0:
                    continue
                write_queued(self.epoll_fd, state, outcome)
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
                outcome.sock = state
                outcome.read_count = -1
                # The next read or write on the socket reports an error or hang-up.
                outcome.mask = (READ if bits & ~EPOLLOUT else 0) | (WRITE if bits & ~EPOLLIN else 0)
                made += 1
                if not state.established:
                    continue
                if outcome.mask & READ:
                    size = min(self.arena.len - read_at, self.read_size_bytes)
                    if size < min(<Py_ssize_t>LEAST_READ_BYTES, self.arena.len):
                        outcome.mask &= ~<int>READ  # the next wait reports it again
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
                    write_queued(self.epoll_fd, state, outcome)
        if ready < 0 and code != EINTR:
            raise OSError(code, os.strerror(code))
        return self.report(made)

    cdef list report(self, Py_ssize_t made):
        cdef list result = []
        cdef Outcome *outcome
        cdef SocketState *state
        cdef Py_ssize_t at
        for at in range(made):
            outcome = &self.outcomes[at]
            state = outcome.sock
            if state.fd >= 0 and outcome.sent:
                (<NativeSocket>self.sockets[state.fd]).unpin(state.next)
            result.append((
                <object>state.owner, outcome.mask, outcome.sent, outcome.write_errno,
                outcome.read_at, outcome.read_count, outcome.read_errno,
            ))
        return result

    def close(self):
        """Stop watching all sockets and release all buffers; the caller closes the sockets. Idempotent."""
        cdef NativeSocket sock
        if self.busy and getpid() != self.pid:
            # A child forked during an exchange, which continues only in the parent.
            self.busy = False
        self.check_idle()
        for sock in list(self.sockets.values()):
            # No epoll_ctl: the instance is closed as a whole, and a forked child shares it with its parent.
            sock.state.interest = 0
            self.forget(sock)
            sock.drop()
        if self.epoll_fd >= 0:
            close_descriptor(self.epoll_fd)
            self.epoll_fd = -1

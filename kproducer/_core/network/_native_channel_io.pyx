# cython: language_level=3, boundscheck=False, wraparound=False
"""Makes all socket calls of one poll (write, wait, read) in one step without the interpreter lock.

While an application thread is busy, every system call that releases the lock may wait up to a switch interval
(5 ms) to get it back. This module releases and takes the lock once per poll, for any number of connections.
Linux only (epoll). It handles sockets and buffers and returns errno values; frames, handshakes and the meaning
of errors belong to the selector. It is a leaf: it imports nothing of kproducer. It reads the clock only for
the lanes of the data plane, which the kernel hands it as a capsule (``kernel/native/plane.h``).
``channel_io.PortableChannelIo`` makes the same calls one by one and is its reference. Source: ours.

A TLS connection is encrypted and decrypted in the same step, by the ``SSL`` object inside of an
``ssl.SSLObject``, after ``ssl`` has made the handshake. ``TlsTransport`` is the reference for that: it works on
the same ``SSL`` object and the same memory buffers (docs/decisions/0036-native-tls.md). Lanes send through the
same function as the frames that Python has queued.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.ref cimport PyObject
from libc.errno cimport EAGAIN, EBADF, ECONNABORTED, EINTR, errno
from libc.stdint cimport INT64_MIN, int64_t, uint32_t
from libc.string cimport memcpy, memset
from posix.uio cimport iovec
from posix.unistd cimport close as close_descriptor, getpid

from kproducer._core.network._openssl cimport (
    BIO_CTRL_INFO,
    BIO_CTRL_PENDING,
    SSL_ERROR_WANT_READ,
    SSL_ERROR_ZERO_RETURN,
    OpenSsl,
    find_functions,
)

import os

# Declarations only. The data plane itself comes as a capsule: nothing of it is imported.
from kproducer._core.kernel.native.plane cimport (
    KP_FRAME_FOREIGN,
    KP_FRAME_MORE,
    KP_FRAME_UNUSUAL,
    KP_MOST_GATHERED,
    KP_MOST_GATHERED_UNDER_LOAD,
    KP_NEVER_MS,
    KpLane,
    KpStep,
    kp_frame,
    kp_now_ms,
)


cdef extern from "<sys/socket.h>" nogil:
    cdef struct msghdr:
        iovec *msg_iov
        size_t msg_iovlen
    ssize_t sendmsg(int fd, const msghdr *message, int flags)
    ssize_t recv(int fd, void *buffer, size_t size, int flags)
    ssize_t send(int fd, const void *buffer, size_t size, int flags)
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
    uint32_t EPOLLET
    uint32_t EPOLLIN
    uint32_t EPOLLOUT

cdef extern from "<limits.h>":
    """
    #ifndef IOV_MAX
    #define IOV_MAX 1024
    #endif
    """
    int IOV_MAX

cdef enum:
    #: The same values as in ``selectors``.
    READ = 1
    WRITE = 2
    #: Events returned by one wait; the next wait reports the others at once.
    MAX_EVENTS = 1024
    #: How long Python is not called, although there is something for its metrics and its partitioners.
    MOST_UNCOUNTED_MS = 100
    #: How long to gather answers while batches wait for them. The interpreter lock may take longer to get:
    #: meanwhile, nothing would be sent.
    GATHER_MS = 3
    #: When less space than this is left for reads, the other readable sockets wait for the next poll.
    LEAST_READ_BYTES = 4096
    #: The most plaintext in one TLS record. Smaller pieces are joined to a whole record, larger ones are not copied.
    RECORD_BYTES = 16384
    #: The most plaintext whose ciphertext waits for the socket: fits into the cache, and one write sends it.
    AHEAD_BYTES = 8 * RECORD_BYTES


cdef struct TlsState:
    void *ssl
    void *incoming           # the BIOs of the MemoryBIO objects
    void *outgoing
    char *scratch            # borrowed from the SocketIo
    # Plaintext bytes that are encrypted and not counted yet: the next ones to be offered begin with them. Either
    # Python's queue has them or the lane, whose unwritten frames are queued when Python takes over.
    Py_ssize_t ahead
    int write_errno          # a write failed
    bint unread              # something to be read raises no event: plaintext, the end of the stream, an error
    bint ended
    bint has_received        # application data
    unsigned long failure    # OpenSSL's code of a fatal error


cdef struct SocketState:
    int fd
    PyObject *owner          # borrowed from the NativeSocket
    TlsState *tls            # borrowed from the NativeSocket's TlsSession; NULL: plaintext
    uint32_t awaited         # the events to wait for while not established
    bint established
    bint stalled             # the socket took less than Python or OpenSSL offered; epoll tells when it has space again
    bint broken              # a write failed; the socket is not used again before it is closed
    KpLane *lane             # borrowed from the NativeSocket's FastLane; NULL: only Python sends
    bint is_lane_stalled     # the socket was full when the lane wrote
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


cdef void *resized(void *memory, size_t size) except NULL:
    """``realloc`` that raises MemoryError; the old memory stays valid then."""
    cdef void *result = PyMem_Realloc(memory, size)
    if result == NULL:
        raise MemoryError()
    return result


cdef void begin_outcome(Outcome *outcome, SocketState *sock, int mask) noexcept nogil:
    memset(outcome, 0, sizeof(Outcome))
    outcome.sock = sock
    outcome.mask = mask
    outcome.read_count = -1


cdef void advance(SocketState *sock, Py_ssize_t count) noexcept nogil:
    """The first ``count`` bytes of the pieces are written."""
    while count > 0:
        if <size_t>count < sock.pieces[sock.next].iov_len:
            sock.pieces[sock.next].iov_base = <char *>sock.pieces[sock.next].iov_base + count
            sock.pieces[sock.next].iov_len -= <size_t>count
            return
        count -= <Py_ssize_t>sock.pieces[sock.next].iov_len
        sock.next += 1


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
        advance(sock, written)
        if written < offered:
            sock.stalled = True
            return
    sock.stalled = False


cdef int update_interest(int epoll_fd, SocketState *sock) noexcept nogil:
    """Register the events the socket waits for, if they have changed. Returns errno or 0."""
    cdef epoll_event event
    cdef uint32_t wanted = sock.awaited
    if sock.established:
        wanted = EPOLLIN | EPOLLOUT if sock.stalled or sock.is_lane_stalled else EPOLLIN
    if wanted == sock.interest:
        return 0
    event.events = wanted
    event.data.fd = sock.fd
    if epoll_ctl(epoll_fd, EPOLL_CTL_MOD if sock.interest else EPOLL_CTL_ADD, sock.fd, &event) < 0:
        return errno
    sock.interest = wanted
    return 0


# -- TLS ---------------------------------------------------------------------------------------------------


#: OpenSSL's functions in this process; load_openssl finds them.
cdef OpenSsl openssl
cdef bint is_loaded = False


cdef void note_failure(TlsState *tls) noexcept nogil:
    """The first failure is the cause of the others."""
    if not tls.failure:
        tls.failure = openssl.last_error()
    if not tls.failure:
        tls.failure = 1
    openssl.clear_errors()


cdef bint send_ciphertext(SocketState *sock) noexcept nogil:
    """Send the ciphertext; returns whether the socket took all of it."""
    cdef void *data = NULL
    cdef Py_ssize_t waiting, sent, part, left
    while True:
        waiting = openssl.bio_ctrl(sock.tls.outgoing, BIO_CTRL_INFO, 0, &data)
        if waiting <= 0:
            return True
        sent = send(sock.fd, data, <size_t>waiting, MSG_DONTWAIT | MSG_NOSIGNAL)
        if sent < 0:
            if errno == EINTR:
                continue
            if errno == EAGAIN:
                sock.stalled = True
            elif sock.next == sock.count and (sock.lane == NULL or sock.lane.unwritten == NULL):
                # The answer to a key update, or an alert. The next read reports that the connection is broken.
                sock.stalled = False
            else:
                sock.tls.write_errno = errno
            return False
        left = sent
        while left > 0:
            part = openssl.bio_read(sock.tls.outgoing, sock.tls.scratch, <int>min(left, <Py_ssize_t>RECORD_BYTES))
            if part <= 0:
                break
            left -= part
        if sent < waiting:
            sock.stalled = True
            return False


cdef struct Position:
    # In pieces that stay as they are: the lane's, or those of Python's queue.
    const iovec *pieces
    Py_ssize_t count
    Py_ssize_t at            # the first piece that is not passed
    Py_ssize_t offset        # in this piece


cdef void skip(Position *position, Py_ssize_t size) noexcept nogil:
    """Pass bytes; afterwards the position is the end, or in a piece that has bytes left."""
    cdef Py_ssize_t left
    while position.at < position.count:
        left = <Py_ssize_t>position.pieces[position.at].iov_len - position.offset
        if size < left:
            position.offset += size
            return
        size -= left
        position.at += 1
        position.offset = 0


cdef bint encrypt_ahead(TlsState *tls, Position position) noexcept nogil:
    """Encrypt what comes next, up to AHEAD_BYTES. Returns whether that succeeded."""
    cdef Py_ssize_t size, part
    cdef const char *data
    cdef int written
    while position.at < position.count and tls.ahead < AHEAD_BYTES:
        data = <const char *>position.pieces[position.at].iov_base + position.offset
        size = <Py_ssize_t>position.pieces[position.at].iov_len - position.offset
        if size >= RECORD_BYTES:
            size = min(size - size % RECORD_BYTES, AHEAD_BYTES - tls.ahead)
            skip(&position, size)
        else:
            size = 0
            while position.at < position.count and size < RECORD_BYTES:
                part = min(
                    <Py_ssize_t>position.pieces[position.at].iov_len - position.offset, RECORD_BYTES - size
                )
                memcpy(
                    tls.scratch + size,
                    <const char *>position.pieces[position.at].iov_base + position.offset,
                    <size_t>part,
                )
                size += part
                skip(&position, part)
            data = tls.scratch
        openssl.clear_errors()
        # Into a memory buffer: OpenSSL takes all of it, and needs the plaintext no more.
        written = openssl.ssl_write(tls.ssl, data, <int>size)
        if written <= 0:
            note_failure(tls)
            return False
        tls.ahead += written
        if written < size:
            break
    return True


cdef Py_ssize_t send_encrypted(SocketState *sock, const iovec *pieces, Py_ssize_t count) noexcept nogil:
    """Encrypt and send until the socket is full or a write fails, which ``write_errno`` tells.

    Returns how many bytes are written: all of their ciphertext is in the socket. The next call gets the others
    again, first of all; a call without pieces sends only what waits, and counts nothing.
    """
    cdef TlsState *tls = sock.tls
    cdef Position position
    cdef Py_ssize_t counted = 0
    position.pieces = pieces
    position.count = count
    position.at = position.offset = 0
    while not tls.write_errno and send_ciphertext(sock):
        if count:
            counted += tls.ahead
            skip(&position, tls.ahead)
            tls.ahead = 0
        if position.at == count:
            sock.stalled = False
            break
        if not encrypt_ahead(tls, position):
            tls.write_errno = ECONNABORTED
    return counted


cdef int64_t send_for_lane(void *socket, const iovec *pieces, int count) noexcept nogil:
    """Sends what a lane offers: see ``kp_send``."""
    cdef SocketState *sock = <SocketState *>socket
    cdef Py_ssize_t counted
    if sock.tls == NULL:
        return -EBADF  # closed
    counted = send_encrypted(sock, pieces, count)
    return -sock.tls.write_errno if sock.tls.write_errno and not counted else counted


cdef int64_t send_nowhere(void *socket, const iovec *pieces, int count) noexcept nogil:
    """For a lane whose socket is used by others."""
    return -EBADF


cdef void write_encrypted(SocketState *sock, Outcome *outcome) noexcept nogil:
    """As ``write_pieces``. Bytes count as written when all of their ciphertext is in the socket."""
    cdef Py_ssize_t sent = send_encrypted(sock, sock.pieces + sock.next, sock.count - sock.next)
    outcome.sent += sent
    advance(sock, sent)
    report_write_error(sock, outcome)


cdef void report_write_error(SocketState *sock, Outcome *outcome) noexcept nogil:
    if sock.tls.write_errno:
        outcome.write_errno = sock.tls.write_errno
        sock.broken = True


cdef void read_encrypted(
    SocketState *sock, char *target, Py_ssize_t size, bint readable, Outcome *outcome
) noexcept nogil:
    """Decrypt what has arrived, after one read of the socket if nothing is waiting to be decrypted."""
    cdef TlsState *tls = sock.tls
    cdef Py_ssize_t received, filled = 0
    cdef int count, error
    if readable and not tls.unread:
        received = recv(sock.fd, target, <size_t>size, MSG_DONTWAIT)
        if received > 0:
            if openssl.bio_write(tls.incoming, target, <int>received) != received:
                note_failure(tls)  # out of memory
        elif received == 0:
            tls.ended = True
        elif errno != EAGAIN and errno != EINTR:
            outcome.read_errno = errno
            return
    while filled < size and not tls.failure:
        openssl.clear_errors()
        count = openssl.ssl_read(tls.ssl, target + filled, <int>(size - filled))
        if count > 0:
            filled += count
            continue
        error = openssl.ssl_get_error(tls.ssl, count)
        if error == SSL_ERROR_ZERO_RETURN:
            tls.ended = True
        elif error != SSL_ERROR_WANT_READ:
            note_failure(tls)
        break
    openssl.clear_errors()
    if openssl.bio_ctrl(tls.outgoing, BIO_CTRL_PENDING, 0, NULL) > 0:
        # The answer to a key update, or an alert. If the socket is full, it goes before the next bytes.
        send_ciphertext(sock)
        report_write_error(sock, outcome)
    tls.unread = filled > 0 and (
        tls.failure or tls.ended or (filled == size and (
            openssl.ssl_pending(tls.ssl) > 0 or openssl.bio_ctrl(tls.incoming, BIO_CTRL_PENDING, 0, NULL) > 0
        ))
    )
    if filled:
        outcome.read_count = filled
        tls.has_received = True
    elif tls.failure:
        outcome.read_errno = ECONNABORTED
    elif tls.ended:
        outcome.read_count = 0


def load_openssl(str module_path not None) -> int:
    """Find OpenSSL's functions in the libraries of the module ``_ssl``; 0: it is not loaded, or has other ones.

    Returns the number of OpenSSL's version.
    """
    global is_loaded
    path = os.fsencode(module_path)
    is_loaded = find_functions(&openssl, path)
    return openssl.version() if is_loaded else 0


cdef void *word_of(object each, Py_ssize_t index) except? NULL:
    """A word of the memory of an object of a fixed size."""
    if (<Py_ssize_t>type(each).__basicsize__) < (index + 1) * <Py_ssize_t>sizeof(void *):
        raise ValueError(f"{type(each).__name__} is smaller than expected")
    return (<void **><PyObject *>each)[index]


cdef class TlsSession:
    """The ``SSL`` object inside of an ``ssl.SSLObject``, and its two memory buffers.

    Where ``ssl`` keeps the pointers is not public, but has been the same since Python 3.6. Nothing is used before
    four pointers that were found in different objects agree with each other: the context of the Python object, and
    OpenSSL's own answers for its context and its two buffers.

    Args:
        inner: ``ssl.SSLObject._sslobj``.
        incoming, outgoing: its ``ssl.MemoryBIO`` objects.

    Raises:
        ValueError: the objects are not laid out as expected.
    """

    cdef TlsState state
    cdef tuple objects  # owners of the pointers

    def __cinit__(self, object inner not None, object incoming not None, object outgoing not None):
        cdef TlsState *state = &self.state
        cdef object context = inner.context
        if not is_loaded:
            raise ValueError("OpenSSL's functions were not found")
        if word_of(inner, 4) != <void *><PyObject *>context:
            raise ValueError("the context is not where it was expected")
        state.ssl = word_of(inner, 3)
        state.incoming = word_of(incoming, 2)
        state.outgoing = word_of(outgoing, 2)
        if state.ssl == NULL or state.incoming == NULL or state.outgoing == NULL:
            raise ValueError("there is no SSL object")
        if openssl.ssl_get_context(state.ssl) != word_of(context, 2):
            raise ValueError("the SSL object has another context")
        if (
            openssl.ssl_get_rbio(state.ssl) != state.incoming
            or openssl.ssl_get_wbio(state.ssl) != state.outgoing
        ):
            raise ValueError("the SSL object has other buffers")
        state.unread = openssl.bio_ctrl(state.incoming, BIO_CTRL_PENDING, 0, NULL) > 0
        self.objects = (inner, context, incoming, outgoing)

    # For the check before the first use.

    def write(self, bytes data not None) -> int:
        """SSL_write. Returns how many bytes were written, or a negative SSL_ERROR."""
        openssl.clear_errors()
        cdef int written = openssl.ssl_write(self.state.ssl, <const char *>data, <int>len(data))
        return written if written > 0 else -openssl.ssl_get_error(self.state.ssl, written)

    def read(self) -> int:
        """SSL_read of a byte. Returns 1, or a negative SSL_ERROR, after which ``failure`` may tell the reason."""
        cdef char byte
        openssl.clear_errors()
        cdef int count = openssl.ssl_read(self.state.ssl, &byte, 1)
        if count > 0:
            return 1
        count = openssl.ssl_get_error(self.state.ssl, count)
        note_failure(&self.state)
        return -count

    def feed(self, bytes data not None) -> int:
        """BIO_write of ciphertext that has arrived."""
        return openssl.bio_write(self.state.incoming, <const char *>data, <int>len(data))

    def take(self, Py_ssize_t size) -> bytes:
        """All ciphertext to be sent, of which the first ``size`` bytes are then removed, at most 1000."""
        cdef void *data = NULL
        cdef char scratch[1000]
        cdef long waiting = openssl.bio_ctrl(self.state.outgoing, BIO_CTRL_INFO, 0, &data)
        cdef bytes found = (<char *>data)[:waiting] if waiting > 0 else b""
        openssl.bio_read(self.state.outgoing, scratch, <int>min(size, 1000))
        return found

    # For errors.

    @property
    def failure(self) -> str:
        """OpenSSL's words for the error that ended the session; empty: none did."""
        if not self.state.failure:
            return ""
        cdef const char *text = openssl.error_text(self.state.failure)
        return "unknown error" if text == NULL else (<bytes>text).decode("latin-1")

    @property
    def has_received(self) -> bool:
        """Whether application data has arrived."""
        return self.state.has_received


# -- sockets -----------------------------------------------------------------------------------------------


cdef void write_queued(int epoll_fd, SocketState *sock, Outcome *outcome) noexcept nogil:
    """Write what is queued, then register whether the socket has to become writable first."""
    if sock.tls == NULL:
        write_pieces(sock, outcome)
    else:
        write_encrypted(sock, outcome)
    if not sock.broken:
        outcome.write_errno = update_interest(epoll_fd, sock)
        sock.broken = outcome.write_errno != 0


# Without no_gc_clear the garbage collector would drop the lane before it forgets the socket. The dict of the SocketIo
# breaks reference cycles.
@cython.no_gc_clear
cdef class NativeSocket:
    """One socket of a ``SocketIo``: the buffers queued for it, and the events it waits for."""

    cdef SocketState state
    cdef SocketIo io
    cdef object owner
    cdef TlsSession tls
    cdef object lane

    def __cinit__(self, SocketIo io not None, int fd, object owner):
        self.io = io
        self.owner = owner
        self.state.fd = fd
        self.state.owner = <PyObject *>owner
        self.state.awaited = EPOLLOUT  # the event that reports the result of the connect

    def __dealloc__(self):
        self.release_lane()
        self.unpin(self.state.count)
        PyMem_Free(self.state.pieces)
        PyMem_Free(self.state.views)

    def await_events(self, bint readable, bint writable):
        """Report these events until ``establish``. Raises OSError."""
        self.state.awaited = (EPOLLIN if readable else 0) | (EPOLLOUT if writable else 0)
        self.io.update(&self.state)

    def encrypt(self, TlsSession tls not None):
        """Before ``establish``: encrypt and decrypt all bytes from now on. Nothing else may use ``tls``.

        Raises:
            ValueError: a lane has the socket.
        """
        self.io.check_idle()
        if self.state.lane != NULL:
            raise ValueError("a lane has the socket")
        if self.io.scratch == NULL:
            self.io.scratch = <char *>resized(NULL, RECORD_BYTES)
        self.tls = tls
        tls.state.scratch = self.io.scratch
        self.state.tls = &tls.state

    def establish(self):
        """The connection is up: read and write from now on. Idempotent. Raises OSError."""
        self.io.check_idle()
        self.state.established = True
        if self.state.tls != NULL and self.state.tls.unread:
            self.io.has_unread = True
        self.io.update(&self.state)

    def use_lane(self, object lane):
        """Let a lane write to the socket, after what is queued, and read from it first; ``None``: no more."""
        cdef KpLane *found = NULL
        self.io.check_idle()
        if lane is not None:
            found = <KpLane *>PyCapsule_GetPointer(lane.capsule(), "kproducer.lane")
        self.release_lane()
        self.state.lane = found
        self.lane = lane
        if found != NULL and self.state.tls != NULL:
            found.send = send_for_lane
            found.socket = &self.state

    cdef void release_lane(self) noexcept:
        cdef KpLane *lane = self.state.lane
        if lane != NULL and lane.socket == &self.state:
            lane.send = send_nowhere
            lane.socket = NULL
        self.state.lane = NULL
        self.state.is_lane_stalled = False
        self.lane = None

    def note_full(self):
        """The socket has taken a part of the first frame in the queue. Raises OSError."""
        self.io.check_idle()
        self.state.stalled = True
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
        if needed <= state.capacity:
            return
        capacity = max(needed, 2 * state.capacity, 32)
        state.pieces = <iovec *>resized(state.pieces, <size_t>capacity * sizeof(iovec))
        state.views = <Py_buffer *>resized(state.views, <size_t>capacity * sizeof(Py_buffer))
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
    cdef Py_ssize_t read_size_bytes
    cdef dict sockets
    cdef SocketState **by_fd
    cdef Py_ssize_t by_fd_size
    cdef epoll_event *events
    cdef Outcome *outcomes
    cdef Py_ssize_t outcome_capacity
    cdef char *scratch       # for plaintext that is joined, and ciphertext that was sent; NULL without TLS
    cdef bint has_unread     # a TlsState may have ``unread`` set
    cdef bint lacks_memory   # a lane could not make a request
    cdef object plane        # owner of the next one; None: no socket has a lane
    cdef KpStep *step
    #: Frames that answer requests of Python on a connection with a lane: (owner, payload).
    cdef readonly list frames
    cdef bint has_frames
    #: Return after each answered request, because Python waits for them: the close.
    cdef public bint returns_early

    def __cinit__(self, int wakeup_fd, bytearray read_buffer not None, Py_ssize_t read_size_bytes):
        self.epoll_fd = -1
        self.wakeup_fd = wakeup_fd
        self.pid = getpid()
        self.sockets = {}
        self.frames = []
        PyObject_GetBuffer(read_buffer, &self.arena, PyBUF_WRITABLE)
        self.read_size_bytes = read_size_bytes
        self.events = <epoll_event *>resized(NULL, MAX_EVENTS * sizeof(epoll_event))
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
        PyBuffer_Release(&self.arena)
        PyMem_Free(self.events)
        PyMem_Free(self.outcomes)
        PyMem_Free(self.by_fd)
        PyMem_Free(self.scratch)

    def register(self, int fd, object owner):
        """Watch a connecting socket. Returns its NativeSocket. Raises OSError."""
        cdef Py_ssize_t size
        cdef NativeSocket sock
        os.fstat(fd)  # refuses a number that is not a descriptor: the table below is indexed by it
        sock = self.sockets.get(fd)
        if sock is not None:
            self.forget(sock)
        sock = NativeSocket(self, fd, owner)
        self.check_idle()
        if fd >= self.by_fd_size:
            size = max(2 * self.by_fd_size, <Py_ssize_t>fd + 1, 64)
            self.by_fd = <SocketState **>resized(self.by_fd, <size_t>size * sizeof(SocketState *))
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

    def take_frames(self):
        """The frames of the last exchange, once."""
        self.has_frames = False
        frames, self.frames = self.frames, []
        return frames

    def use_plane(self, object plane not None):
        """The lanes of its sockets are those of this plane. Raises OSError."""
        cdef epoll_event event
        cdef KpStep *step = <KpStep *>PyCapsule_GetPointer(plane.capsule(), "kproducer.data_plane")
        event.events = EPOLLIN | EPOLLET
        event.data.fd = step.wake_fd
        self.check_idle()
        if epoll_ctl(self.epoll_fd, EPOLL_CTL_ADD, step.wake_fd, &event) < 0:
            raise OSError(errno, os.strerror(errno))
        self.plane = plane
        self.step = step

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
        if fd >= 0:
            sock.state.fd = -1
            if self.epoll_fd >= 0 and sock.state.interest:
                epoll_ctl(self.epoll_fd, EPOLL_CTL_DEL, fd, &unused)
            sock.state.interest = 0
            if self.sockets.get(fd) is sock:
                del self.sockets[fd]
                self.by_fd[fd] = NULL
        sock.unpin(sock.state.count)
        sock.state.owner = <PyObject *>None
        sock.owner = None
        sock.release_lane()
        sock.state.tls = NULL
        sock.tls = None

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
        cdef bint is_woken = False, has_fed = False, is_loaded
        cdef Py_ssize_t settled = 0
        cdef int more
        cdef bint has_lanes = self.step != NULL and self.step.lane_count > 0
        cdef int64_t now_ms = 0, until_ms = KP_NEVER_MS, count_at_ms = KP_NEVER_MS
        cdef int64_t counted_until_ms, gather_until_ms
        if self.epoll_fd < 0:
            raise ValueError("the sockets are closed")
        # A socket with a lane may have an outcome before and one after the wait, and any socket one because of bytes
        # that raise no event. An event of a lane may have two.
        size = count + 3 * len(self.sockets) + 2 * MAX_EVENTS
        if size > self.outcome_capacity:
            self.outcomes = <Outcome *>resized(self.outcomes, <size_t>size * sizeof(Outcome))
            self.outcome_capacity = size
        for at in range(count):
            sock = <NativeSocket?>sending[at]
            if sock.io is not self or (sock.state.fd >= 0 and self.sockets.get(sock.state.fd) is not sock):
                raise ValueError("a socket in the list is not registered here")
            begin_outcome(&self.outcomes[at], &sock.state, WRITE)
        with nogil:
            for at in range(count):
                outcome = &self.outcomes[at]
                state = outcome.sock
                if state.broken or state.fd < 0:
                    continue
                write_queued(self.epoll_fd, state, outcome)
                if state.broken:
                    timeout_ms = 0
        made = count
        if not has_lanes:
            with nogil:
                ready = epoll_wait(self.epoll_fd, self.events, MAX_EVENTS, 0 if self.has_unread else timeout_ms)
                code = errno if ready < 0 else 0
                self.serve(ready, &made, &read_at, &is_woken)
        else:
            now_ms = kp_now_ms()
            until_ms = KP_NEVER_MS if timeout_ms < 0 else now_ms + timeout_ms
            count_at_ms = now_ms + MOST_UNCOUNTED_MS
            settled = self.plane.settle(now_ms, not self.returns_early)
            while True:
                counted_until_ms = count_at_ms if self.has_uncounted() else KP_NEVER_MS
                with nogil:
                    while True:
                        read_at = 0
                        has_fed = self.feed_held(&made, &read_at)
                        self.drain_lanes(now_ms, &made)
                        ready = self.wait(
                            INT64_MIN if has_fed or made > count
                            else min(until_ms, counted_until_ms, KP_NEVER_MS if settled >= 0 else now_ms + 1), now_ms
                        )
                        code = errno if ready < 0 else 0
                        self.serve(ready, &made, &read_at, &is_woken)
                        now_ms = kp_now_ms()
                        if (
                            made or is_woken or ready < 0 or settled < 0 or self.has_answers()
                            or now_ms >= min(until_ms, counted_until_ms, self.expiry_ms())
                        ):
                            break  # otherwise, there is nothing for Python
                    # Before the interpreter lock is taken, which may last: what can be sent now, and more answers.
                    self.drain_lanes(now_ms, &made)
                    gather_until_ms = now_ms + GATHER_MS
                    while made == count and not is_woken and self.expects_more(KP_MOST_GATHERED_UNDER_LOAD):
                        is_loaded = now_ms < gather_until_ms and self.is_loaded()
                        if not is_loaded and not self.expects_more(KP_MOST_GATHERED):
                            break
                        read_at = 0
                        more = self.wait(gather_until_ms if is_loaded else INT64_MIN, now_ms)
                        if more <= 0:
                            break
                        self.serve(more, &made, &read_at, &is_woken)
                        now_ms = kp_now_ms()
                        self.drain_lanes(now_ms, &made)
                settled = self.plane.settle(now_ms, not self.returns_early)
                if settled > 0 and self.returns_early:
                    is_woken = True
                if self.epoll_fd < 0:
                    return []  # a callback has forked, and this is the child
                if made > count or is_woken or self.frames or ready < 0 or now_ms >= until_ms:
                    break
                if now_ms >= self.expiry_ms() or (now_ms >= count_at_ms and self.has_uncounted()):
                    break
                if count:
                    # What was written is reported before a long wait: it ends requests.
                    break
        if ready < 0 and code != EINTR:
            raise OSError(code, os.strerror(code))
        return self.report(made)

    cdef bint is_loaded(self) noexcept nogil:
        """Whether batches of any lane wait for answers, and no thread for memory."""
        cdef Py_ssize_t at
        if self.step.plane.sends_everything:
            return False
        for at in range(self.step.lane_count):
            if self.step.is_blocked(self.step.lanes[at]):
                return True
        return False

    cdef bint has_answers(self) noexcept nogil:
        """Whether requests are answered, of lanes or of Python."""
        cdef Py_ssize_t at
        for at in range(self.step.lane_count):
            if self.step.lanes[at].done_count:
                return True
        return self.has_frames

    cdef bint expects_more(self, Py_ssize_t most) noexcept nogil:
        """Whether a few requests of lanes are answered, fewer than ``most``, and others are in flight."""
        cdef Py_ssize_t at, done = 0, in_flight = 0
        if self.has_frames or self.has_unread:
            return False
        for at in range(self.step.lane_count):
            done += self.step.lanes[at].done_count
            in_flight += self.step.lanes[at].in_flight
        return 0 < done < most and in_flight > 0

    cdef bint has_uncounted(self) noexcept nogil:
        """Whether any lane has something for the metrics."""
        cdef Py_ssize_t at
        for at in range(self.step.lane_count):
            if self.step.lanes[at].has_uncounted:
                return True
        return False

    cdef int64_t expiry_ms(self) noexcept nogil:
        """When Python has to look for timeouts."""
        cdef int64_t when = KP_NEVER_MS
        cdef Py_ssize_t at
        for at in range(self.step.lane_count):
            when = min(when, self.step.expiry_ms(self.step.lanes[at]))
        return when

    cdef void drain_lanes(self, int64_t now_ms, Py_ssize_t *made) noexcept nogil:
        """Write what the lanes have to send, except behind frames of Python that are not written yet."""
        cdef Py_ssize_t at
        cdef KpLane *lane
        cdef SocketState *state
        for at in range(self.step.lane_count):
            lane = self.step.lanes[at]
            if lane.fd < 0 or lane.fd >= self.by_fd_size:
                continue
            state = self.by_fd[lane.fd]
            if state == NULL or state.lane != lane:
                continue
            lane.behind_python = state.next < state.count
            if state.broken or lane.behind_python or lane.needs_python:
                continue
            if self.step.next_ms(lane) <= now_ms:
                # The lanes before may have compressed for long.
                if self.step.drain(lane, kp_now_ms()) < 0:
                    self.lacks_memory = True
                self.write_lane(state, made)

    cdef void write_lane(self, SocketState *state, Py_ssize_t *made) noexcept nogil:
        """Go on writing the requests of a lane, and the ciphertext that waits."""
        cdef int code = self.step.write(state.lane)
        if state.tls != NULL and not code:
            if state.stalled and not state.lane.stalled:
                send_encrypted(state, NULL, 0)  # the answer to a key update, or an alert
            code = state.tls.write_errno
        if not code:
            state.is_lane_stalled = state.lane.stalled
            code = update_interest(self.epoll_fd, state)
        if code:
            state.broken = True
            begin_outcome(&self.outcomes[made[0]], state, WRITE)
            self.outcomes[made[0]].write_errno = code
            made[0] += 1
            self.hand_over(state)

    cdef int wait(self, int64_t until_ms, int64_t now_ms) noexcept nogil:
        """Wait until then for events, or until a lane has something to send. Negative: as ``epoll_wait``."""
        cdef int64_t lanes_ms, left_ms
        cdef int ready
        if self.has_unread or until_ms <= now_ms:
            return epoll_wait(self.epoll_fd, self.events, MAX_EVENTS, 0)
        if self.lacks_memory:
            # What is due stays due. There may be memory a little later.
            self.lacks_memory = False
            return epoll_wait(self.epoll_fd, self.events, MAX_EVENTS, 1)
        lanes_ms = self.step.begin_wait(
            self.step.plane, self.step.lanes, self.step.lane_count, min(until_ms, self.expiry_ms())
        )
        now_ms = kp_now_ms()  # the drain before may have lasted
        left_ms = lanes_ms - now_ms if lanes_ms > now_ms else 0
        ready = epoll_wait(self.epoll_fd, self.events, MAX_EVENTS, <int>min(left_ms, <int64_t>3600000))
        self.step.set_sleep(self.step.plane, INT64_MIN)
        return ready

    cdef void serve(self, int ready, Py_ssize_t *made, Py_ssize_t *read_at, bint *is_woken) noexcept nogil:
        """Read and write where ``epoll_wait`` has found events."""
        cdef Py_ssize_t at
        cdef SocketState *state
        cdef Outcome *outcome
        cdef uint32_t bits
        cdef char drained[64]
        if self.has_unread:
            self.has_unread = False
            for at in range(self.by_fd_size):
                state = self.by_fd[at]
                if state == NULL or state.tls == NULL or not state.tls.unread or state.broken:
                    continue
                if state.lane != NULL and not state.lane.needs_python:
                    self.read_lane(state, False, made, read_at)
                    continue
                outcome = &self.outcomes[made[0]]
                begin_outcome(outcome, state, READ)
                made[0] += 1
                self.read(state, read_at, False, outcome)
        for at in range(ready):
            if self.events[at].data.fd == self.wakeup_fd:
                recv(self.wakeup_fd, drained, sizeof(drained), MSG_DONTWAIT)
                is_woken[0] = True
                continue
            if self.step != NULL and self.events[at].data.fd == self.step.wake_fd:
                continue  # edge-triggered: each write is reported once, and nobody reads them
            if self.events[at].data.fd >= self.by_fd_size:
                continue
            state = self.by_fd[self.events[at].data.fd]
            if state == NULL or state.broken:
                continue
            bits = self.events[at].events
            if state.lane != NULL and self.serve_lane(state, bits, made, read_at):
                continue
            outcome = &self.outcomes[made[0]]
            # The next read or write on the socket reports an error or hang-up.
            begin_outcome(
                outcome, state, (READ if bits & ~EPOLLOUT else 0) | (WRITE if bits & ~EPOLLIN else 0)
            )
            made[0] += 1
            if not state.established:
                continue
            if outcome.mask & READ:
                self.read(state, read_at, True, outcome)
            if (
                outcome.mask & WRITE and (state.next < state.count or state.stalled)
                and outcome.read_count and not outcome.read_errno
            ):
                write_queued(self.epoll_fd, state, outcome)

    cdef bint serve_lane(self, SocketState *state, uint32_t bits, Py_ssize_t *made, Py_ssize_t *read_at) noexcept nogil:
        """Read for a lane, and go on writing: what Python has queued, then the lane's. False: Python has to do it."""
        if not state.established or state.lane.needs_python or bits & ~(EPOLLIN | EPOLLOUT):
            return self.hand_over(state)
        if bits & EPOLLIN:
            self.read_lane(state, True, made, read_at)
        if bits & EPOLLOUT and not state.lane.needs_python:
            if state.next < state.count:
                begin_outcome(&self.outcomes[made[0]], state, WRITE)
                write_queued(self.epoll_fd, state, &self.outcomes[made[0]])
                made[0] += 1
                if state.broken:
                    self.hand_over(state)
            else:
                self.write_lane(state, made)
        return True

    cdef void read_lane(self, SocketState *state, bint readable, Py_ssize_t *made, Py_ssize_t *read_at) noexcept nogil:
        """Read for a lane, unless it has to wait for Python."""
        cdef Outcome *outcome = &self.outcomes[made[0]]
        if state.lane.held_size:
            if state.tls != NULL and state.tls.unread:
                self.has_unread = True
            return
        begin_outcome(outcome, state, READ)
        self.read(state, read_at, readable, outcome)
        if outcome.read_count == 0 or outcome.read_errno or outcome.write_errno:
            made[0] += 1
            self.hand_over(state)
        elif outcome.read_count > 0:
            self.feed_lane(state, made, outcome.read_at, outcome.read_count)
        # Otherwise nothing is there, or no space: the next wait reports it again.

    cdef bint feed_held(self, Py_ssize_t *made, Py_ssize_t *read_at) noexcept nogil:
        """Look at what was read behind frames that Python has handled now. Returns whether there was anything."""
        cdef bint has_fed = False
        cdef Py_ssize_t at, count
        cdef KpLane *lane
        cdef SocketState *state
        for at in range(self.step.lane_count):
            lane = self.step.lanes[at]
            if lane.held_size and lane.held_size <= self.arena.len - read_at[0] and 0 <= lane.fd < self.by_fd_size:
                state = self.by_fd[lane.fd]
                if state != NULL and state.lane == lane:
                    has_fed = True
                    count = <Py_ssize_t>self.step.take_held(lane, <unsigned char *>self.arena.buf + read_at[0])
                    read_at[0] += count
                    self.feed_lane(state, made, read_at[0] - count, count)
        return has_fed

    cdef void feed_lane(self, SocketState *state, Py_ssize_t *made, Py_ssize_t position, Py_ssize_t left) noexcept nogil:
        """Have the lane look at bytes of the buffer. What it does not understand is reported as read."""
        cdef const unsigned char *data = <const unsigned char *>self.arena.buf + position
        cdef const unsigned char *frame
        cdef int64_t consumed, frame_size
        cdef kp_frame kind
        while left:
            kind = self.step.receive(state.lane, data, left, &consumed, &frame, &frame_size)
            data += consumed
            left -= <Py_ssize_t>consumed
            if kind == KP_FRAME_MORE:
                return
            if kind == KP_FRAME_FOREIGN:
                self.has_frames = True
                with gil:
                    self.frames.append((<object>state.owner, <bytes>frame[:frame_size]))
                if not left or self.step.hold(state.lane, data, left):
                    return
                kind = KP_FRAME_UNUSUAL  # no memory
            if kind == KP_FRAME_UNUSUAL:
                # From this frame on, Python reads.
                begin_outcome(&self.outcomes[made[0]], state, READ)
                self.outcomes[made[0]].read_at = <Py_ssize_t>(data - <const unsigned char *>self.arena.buf)
                self.outcomes[made[0]].read_count = left
                made[0] += 1
                self.hand_over(state)
                return

    cdef bint hand_over(self, SocketState *state) noexcept nogil:
        """Mark the lane: Python takes it back before it looks at the events. Returns False."""
        state.lane.needs_python = True
        return False

    cdef void read(self, SocketState *sock, Py_ssize_t *position, bint readable, Outcome *outcome) noexcept nogil:
        """Read from an established socket into the buffer, if it has space."""
        cdef Py_ssize_t size = min(self.arena.len - position[0], self.read_size_bytes)
        cdef char *target = <char *>self.arena.buf + position[0]
        if size < min(<Py_ssize_t>LEAST_READ_BYTES, self.arena.len):
            outcome.mask &= ~<int>READ  # the next wait reports it again
        elif sock.tls != NULL:
            read_encrypted(sock, target, size, readable, outcome)
            if outcome.write_errno:
                outcome.mask |= WRITE  # or it would never be reported: a broken socket is not used again
            update_interest(self.epoll_fd, sock)
        else:
            outcome.read_count = recv(sock.fd, target, <size_t>size, MSG_DONTWAIT)
            if outcome.read_count < 0 and errno != EAGAIN and errno != EINTR:
                outcome.read_errno = errno
        outcome.read_at = position[0]
        if outcome.read_count > 0:
            position[0] += outcome.read_count
        if sock.tls != NULL and sock.tls.unread:
            self.has_unread = True

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
        if self.epoll_fd >= 0:
            close_descriptor(self.epoll_fd)
            self.epoll_fd = -1
        if self.plane is not None:
            self.plane.close()

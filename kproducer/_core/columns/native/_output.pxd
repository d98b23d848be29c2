"""Memory that grows while values are written to it; for all compiled encoders of values.

Inline functions only, so that encoders need not be linked to each other.
"""

from libc.stdint cimport uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memcpy

from kproducer._core.kernel.native._batch cimport put_varint

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define KP_LIKELY(condition) __builtin_expect(!!(condition), 1)
    #else
    #define KP_LIKELY(condition) (condition)
    #endif
    """
    bint KP_LIKELY(bint condition) noexcept nogil


# What the functions below return, and writers of values; each writer has more results of its own.
cdef enum:
    NO_MEMORY = -2
    WRITTEN = 0


cdef struct Output:
    char* data
    Py_ssize_t size
    Py_ssize_t room
    Py_ssize_t most             # memory ends at this size
    Py_ssize_t wanted           # a size that was above it; 0: none was
    int misfit_node             # for rows: the node whose value did not fit


cdef inline bint reserve(Output* out, Py_ssize_t more) noexcept nogil:
    """Make room for ``more`` bytes. ``False``: no memory, or this is more than a row may have."""
    cdef Py_ssize_t room
    cdef void* grown
    if KP_LIKELY(out.size + more <= out.room):
        return True
    if out.size + more > out.most:
        out.wanted = out.size + more
        return False
    room = max(2 * out.room, out.size + more, 65536)
    grown = realloc(out.data, room)
    if grown == NULL:
        return False
    out.data = <char*> grown
    out.room = room
    return True


cdef inline int put(Output* out, const char* data, Py_ssize_t size) noexcept nogil:
    """Write ``size`` bytes. Returns WRITTEN or NO_MEMORY."""
    if not reserve(out, size):
        return NO_MEMORY
    memcpy(out.data + out.size, data, size)
    out.size += size
    return WRITTEN


cdef inline int put_number(Output* out, uint64_t number) noexcept nogil:
    """Write a varint. Returns WRITTEN or NO_MEMORY."""
    if not reserve(out, 10):
        return NO_MEMORY
    out.size = put_varint(out.data + out.size, number) - out.data
    return WRITTEN

"""Headers of Arrow rows as they lie in records; see the .pyx."""

from libc.stdint cimport int64_t

from kproducer.kernel.native._arrow_chunk cimport ChunkColumns


cdef struct Span:
    Py_ssize_t start
    Py_ssize_t size


cdef class HeaderBuffer:
    cdef char* data
    cdef Py_ssize_t _room
    cdef Py_ssize_t _used

    cdef void clear(self) noexcept nogil
    cdef int encode(self, ChunkColumns chunk, int64_t row, Py_ssize_t size_limit, Span* span) noexcept nogil
    cdef list pairs(self, const Span* span)
    cdef bint _reserve(self, Py_ssize_t size) noexcept nogil

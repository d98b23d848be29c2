# Records of batch v2 for the other compiled rooms. Who calls append_raw: see the rules in _append.pxd.
from libc.stdint cimport uint32_t


cdef class BatchWriter:
    cdef Py_buffer _export
    cdef char* _data
    cdef Py_ssize_t _size
    cdef bint _exported
    cdef readonly object buffer
    cdef public Py_ssize_t limit
    cdef readonly Py_ssize_t position
    cdef public long long record_count
    cdef readonly long long base_timestamp_ms
    cdef readonly long long max_timestamp_ms

    # One record, encoded at `position`: 1 taken; 0 it would end behind the limit and nothing has changed.
    # Sizes: -1 is null, INT32_MAX the most; headers: encoded with their count, or none. timestamp_ms >= 0.
    cdef int append_raw(self, long long timestamp_ms, const char* key, Py_ssize_t key_size,
                        const char* value, Py_ssize_t value_size,
                        const char* headers, Py_ssize_t headers_size) noexcept nogil


# The headers of one record with their count; `text_values` lets values be str, as `send` does. None: these
# need the slower way, which knows every shape and every error.
cdef bytes regular_headers(object headers, bint text_values)

cdef bytes encoded_headers(object headers)

cdef uint32_t murmur2_raw(const unsigned char* data, Py_ssize_t size) noexcept nogil

# Records of batch v2 for the other compiled rooms. Who writes records: see the rules in _append.pxd.
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define KP_BITS(value) (64 - __builtin_clzll((value) | 1))
    #else
    static int KP_BITS(unsigned long long value) { int n = 1; while (value >>= 1) n++; return n; }
    #endif
    """
    int KP_BITS(uint64_t value) noexcept nogil

cdef enum:
    MAX_INT32 = 0x7FFFFFFF
    # Of a batch: its header.
    OVERHEAD = 61
    # Room below which a batch may be full; more costs a question, no more.
    NEARLY_FULL_BYTES = 64


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
    # See set_compression_estimate().
    cdef double _weight
    cdef long long _earlier_bytes
    cdef long long _wire_limit

    # put_record(), for those who write one record at a time.
    cdef int append_raw(self, long long timestamp_ms, const char* key, Py_ssize_t key_size,
                        const char* value, Py_ssize_t value_size,
                        const char* headers, Py_ssize_t headers_size) noexcept nogil


# -- varints ------------------------------------------------------------------------------------------------

cdef inline Py_ssize_t varint_size(uint64_t zigzag) noexcept nogil:
    # Nearly all are short.
    if zigzag < 1 << 7:
        return 1
    if zigzag < 1 << 14:
        return 2
    return (KP_BITS(zigzag) + 6) // 7


cdef inline char* put_varint(char* place, uint64_t zigzag) noexcept nogil:
    while zigzag > 0x7F:
        place[0] = <char>((zigzag & 0x7F) | 0x80)
        place += 1
        zigzag >>= 7
    place[0] = <char>zigzag
    return place + 1


cdef inline Py_ssize_t bytes_size(Py_ssize_t size) noexcept nogil:
    """What ``put_bytes`` takes."""
    return 1 if size < 0 else varint_size(<uint64_t>size << 1) + size


cdef inline char* put_bytes(char* place, const char* data, Py_ssize_t size) noexcept nogil:
    """A length and as many bytes; -1 is null."""
    if size < 0:
        place[0] = 1
        return place + 1
    place = put_varint(place, <uint64_t>size << 1)
    memcpy(place, data, size)
    return place + size


# -- records ------------------------------------------------------------------------------------------------

cdef inline uint64_t timestamp_delta(BatchWriter writer, long long timestamp_ms) noexcept nogil:
    """The difference to the first record, zigzag. Unsigned: that no input overflows is C's word for it."""
    if writer.record_count == 0:
        return 0
    cdef uint64_t delta = <uint64_t>timestamp_ms - <uint64_t>writer.base_timestamp_ms
    return (delta << 1) ^ (0 - (delta >> 63))


cdef inline Py_ssize_t body_size(BatchWriter writer, long long timestamp_ms, Py_ssize_t key_size,
                                 Py_ssize_t value_size, Py_ssize_t headers_size) noexcept nogil:
    """Bytes of a record behind its length."""
    return (
        1
        + varint_size(timestamp_delta(writer, timestamp_ms))
        + varint_size(<uint64_t>writer.record_count << 1)
        + bytes_size(key_size)
        + bytes_size(value_size)
        + (headers_size if headers_size > 0 else 1)
    )


cdef inline long long weighed_size(BatchWriter writer, Py_ssize_t position) noexcept nogil:
    """Size of the batch on the wire, going by its weight, if its records ended there."""
    return OVERHEAD + <long long>((writer._earlier_bytes + position - OVERHEAD) * writer._weight)


cdef inline bint fits_by_weight(BatchWriter writer, Py_ssize_t end) noexcept nogil:
    """Whether a record may end there, which is behind ``limit``. See ``set_compression_estimate``."""
    return (
        writer._weight > 0
        and writer.limit > 0
        and end <= writer._size
        and weighed_size(writer, writer.position) + end - writer.position <= writer._wire_limit
        and weighed_size(writer, end) < writer._wire_limit
    )


cdef inline bint is_nearly_full(BatchWriter writer) noexcept nogil:
    """Whether there is hardly room for another record, or it is not known."""
    cdef Py_ssize_t end = writer.position + NEARLY_FULL_BYTES
    return end > writer.limit and not fits_by_weight(writer, end)


cdef inline int put_record(BatchWriter writer, long long timestamp_ms, const char* key, Py_ssize_t key_size,
                           const char* value, Py_ssize_t value_size,
                           const char* headers, Py_ssize_t headers_size) noexcept nogil:
    """Encode one record at ``position``.

    Args:
        timestamp_ms: 0 or more.
        key_size, value_size: -1 is null, ``MAX_INT32`` the most.
        headers: encoded with their count; ``NULL``: none.

    Returns:
        1: taken; 0: it would end behind the limit, also by weight, and nothing has changed.
    """
    cdef Py_ssize_t size
    cdef Py_ssize_t end
    cdef char* place
    if writer.record_count > MAX_INT32:
        return 0
    size = body_size(writer, timestamp_ms, key_size, value_size, headers_size)
    if size > MAX_INT32:
        return 0
    end = writer.position + varint_size(<uint64_t>size << 1) + size
    if end > writer._size or (end > writer.limit and not fits_by_weight(writer, end)):
        return 0
    place = put_varint(writer._data + writer.position, <uint64_t>size << 1)
    place[0] = 0
    place = put_varint(place + 1, timestamp_delta(writer, timestamp_ms))
    place = put_varint(place, <uint64_t>writer.record_count << 1)
    place = put_bytes(place, key, key_size)
    place = put_bytes(place, value, value_size)
    if headers is NULL:
        place[0] = 0
    else:
        memcpy(place, headers, headers_size)
    if timestamp_ms > writer.max_timestamp_ms:
        writer.max_timestamp_ms = timestamp_ms
    if writer.record_count == 0:
        writer.base_timestamp_ms = timestamp_ms
    writer.position = end
    writer.record_count += 1
    return 1


# The headers of one record with their count; `text_values` lets values be str, as `send` does. None: these
# need the slower way, which knows every shape and every error.
cdef bytes regular_headers(object headers, bint text_values)

cdef bytes encoded_headers(object headers)

cdef uint32_t murmur2_raw(const unsigned char* data, Py_ssize_t size) noexcept nogil


# The partition that Kafka's clients choose for a key, of `count`.
cdef inline Py_ssize_t partition_of_key(const char* key, Py_ssize_t size, Py_ssize_t count) noexcept nogil:
    return (murmur2_raw(<const unsigned char*>key, size) & 0x7FFFFFFF) % <uint32_t>count

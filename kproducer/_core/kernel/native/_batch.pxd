# Records of batch v2, for the other compiled modules. See _append.pxd for the rules of writing records.
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define KP_PREFETCH(address) __builtin_prefetch(address)
    #define KP_PREFETCH_TO_WRITE(address) __builtin_prefetch(address, 1)
    #define KP_BITS(value) (64 - __builtin_clzll((value) | 1))
    #else
    #define KP_PREFETCH(address) ((void)(address))
    #define KP_PREFETCH_TO_WRITE(address) ((void)(address))
    static int KP_BITS(unsigned long long value) { int n = 1; while (value >>= 1) n++; return n; }
    #endif
    """
    void KP_PREFETCH(const void* address) noexcept nogil
    void KP_PREFETCH_TO_WRITE(const void* address) noexcept nogil
    int KP_BITS(uint64_t value) noexcept nogil

cdef enum:
    MAX_INT32 = 0x7FFFFFFF
    # The same values as in layout.py.
    RECORD_BATCH_OVERHEAD = 61
    MAX_RECORD_OVERHEAD = 36
    # With less room than this, a batch may be full. Too high a value costs only calls that check it exactly.
    NEARLY_FULL_BYTES = 64


# A record ready to be written. The pointers belong to objects that the caller keeps.
cdef struct Record:
    long long timestamp_ms      # 0 or more
    const char* key
    Py_ssize_t key_size         # -1: null; at most MAX_INT32, as value_size
    const char* value
    Py_ssize_t value_size
    const char* headers         # encoded with their count; NULL: none
    Py_ssize_t headers_size


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
    cdef double _ratio
    cdef long long _wire_limit

    # The same as put_record(), not inlined, for callers that write one record at a time.
    cdef int append_record(self, const Record* record) noexcept nogil


# -- varints ------------------------------------------------------------------------------------------------

cdef inline Py_ssize_t varint_size(uint64_t zigzag) noexcept nogil:
    # Most are short, so the short ones come first.
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


cdef inline const char* get_varint(const char* place, uint64_t* zigzag) noexcept nogil:
    """Read what ``put_varint`` has written."""
    cdef int shift = 0
    zigzag[0] = <unsigned char>place[0] & 0x7F
    while place[0] & 0x80:
        place += 1
        shift += 7
        zigzag[0] |= <uint64_t>(<unsigned char>place[0] & 0x7F) << shift
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


cdef inline const char* get_bytes(const char* place, const char** data, Py_ssize_t* size) noexcept nogil:
    """Read what ``put_bytes`` has written."""
    cdef uint64_t zigzag
    data[0] = get_varint(place, &zigzag)
    size[0] = -1 if zigzag == 1 else <Py_ssize_t>(zigzag >> 1)
    return data[0] + max(size[0], 0)


# -- records ------------------------------------------------------------------------------------------------

cdef inline uint64_t timestamp_delta(BatchWriter writer, long long timestamp_ms) noexcept nogil:
    """The difference to the first record, zigzag. Unsigned, because signed differences could overflow."""
    if writer.record_count == 0:
        return 0
    cdef uint64_t delta = <uint64_t>timestamp_ms - <uint64_t>writer.base_timestamp_ms
    return (delta << 1) ^ (0 - (delta >> 63))


cdef inline Py_ssize_t body_size(BatchWriter writer, const Record* record) noexcept nogil:
    """Bytes of a record after its length."""
    return (
        1
        + varint_size(timestamp_delta(writer, record.timestamp_ms))
        + varint_size(<uint64_t>writer.record_count << 1)
        + bytes_size(record.key_size)
        + bytes_size(record.value_size)
        + (record.headers_size if record.headers_size > 0 else 1)
    )


cdef inline long long expected_size(BatchWriter writer, Py_ssize_t position) noexcept nogil:
    """Expected size of the batch on the wire if its records ended at ``position``."""
    return RECORD_BATCH_OVERHEAD + <long long>((position - RECORD_BATCH_OVERHEAD) * writer._ratio)


cdef inline bint fits_by_estimate(BatchWriter writer, Py_ssize_t end) noexcept nogil:
    """Whether a record may end at ``end``, beyond ``limit``. See ``set_compression_estimate``."""
    return (
        writer._ratio > 0
        and writer.limit > 0
        and end <= writer._size
        and expected_size(writer, writer.position) + end - writer.position <= writer._wire_limit
        and expected_size(writer, end) < writer._wire_limit
    )


cdef inline bint is_nearly_full(BatchWriter writer) noexcept nogil:
    """Whether there may be no room for another record. ``False`` is certain."""
    cdef Py_ssize_t end = writer.position + NEARLY_FULL_BYTES
    return end > writer.limit and not fits_by_estimate(writer, end)


cdef inline int put_record(BatchWriter writer, const Record* record) noexcept nogil:
    """Encode one record at ``position``.

    Returns:
        1: taken. 0: it would end beyond the limit, and the compression estimate does not allow it either;
        nothing has changed.
    """
    cdef Py_ssize_t size
    cdef Py_ssize_t end
    cdef char* place
    if writer.record_count > MAX_INT32:
        return 0
    size = body_size(writer, record)
    if size > MAX_INT32:
        return 0
    end = writer.position + varint_size(<uint64_t>size << 1) + size
    if end > writer._size or (end > writer.limit and not fits_by_estimate(writer, end)):
        return 0
    place = put_varint(writer._data + writer.position, <uint64_t>size << 1)
    place[0] = 0
    place = put_varint(place + 1, timestamp_delta(writer, record.timestamp_ms))
    place = put_varint(place, <uint64_t>writer.record_count << 1)
    place = put_bytes(place, record.key, record.key_size)
    place = put_bytes(place, record.value, record.value_size)
    if record.headers is NULL:
        place[0] = 0
    else:
        memcpy(place, record.headers, record.headers_size)
    if record.timestamp_ms > writer.max_timestamp_ms:
        writer.max_timestamp_ms = record.timestamp_ms
    if writer.record_count == 0:
        writer.base_timestamp_ms = record.timestamp_ms
    writer.position = end
    writer.record_count += 1
    return 1


# Returns the encoded headers of one record with their count, or None if they are not a list or tuple of (str, bytes or
# None) tuples. `text_values` allows str as values, as `send` does.
cdef bytes regular_headers(object headers, bint text_values)

# Makes `record` point to the arguments of BatchWriter.append, which it checks. Returns the encoded headers, which the
# caller has to keep.
cdef bytes fill_record(Record* record, object timestamp_ms, object key, object value, object headers)

cdef uint32_t murmur2_raw(const unsigned char* data, Py_ssize_t size) noexcept nogil


# The partition that Kafka's clients choose for a key of a topic with `count` partitions.
cdef inline Py_ssize_t partition_of_key(const char* key, Py_ssize_t size, Py_ssize_t count) noexcept nogil:
    return (murmur2_raw(<const unsigned char*>key, size) & 0x7FFFFFFF) % <uint32_t>count

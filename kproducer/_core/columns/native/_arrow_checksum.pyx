# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False
"""RowChecksum: one number for the contents of the rows of Arrow data, in any order.

The compiled twin of ``pure/arrow_checksum.py``, which describes the hash. Hashes the rows as ``BlockReader`` reads
them, as they would be written, without Python objects per row and without the interpreter lock.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from kproducer._core.kernel.native._append cimport point_to
from kproducer._core.columns.native._arrow_block cimport PARTITION, ROW_IS_FINE, TIMESTAMP, TOPIC, BlockReader, BlockRows
from kproducer._core.columns.native._arrow_reader cimport KP_MOST_BYTES, ArrowSource, Cell, Column, integer_at, is_null
from kproducer._core.kernel.native._batch cimport get_bytes, get_varint
from kproducer._core.columns.native._row_encoder cimport RowEncoder

cdef extern from *:
    """
    #include <stdint.h>

    /* The two halves of a product, one over the other. */
    static inline uint64_t KP_FOLD(uint64_t a, uint64_t b) {
    #if defined(__SIZEOF_INT128__)
        unsigned __int128 product = (unsigned __int128)a * b;
        return (uint64_t)product ^ (uint64_t)(product >> 64);
    #else
        uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
        uint64_t low = a0 * b0, one = a1 * b0, two = a0 * b1, high = a1 * b1;
        uint64_t middle = (low >> 32) + (uint32_t)one + (uint32_t)two;
        high += (one >> 32) + (two >> 32) + (middle >> 32);
        return (((middle << 32) | (uint32_t)low)) ^ high;
    #endif
    }

    /* Little-endian on every machine; compilers make one load of it. */
    static inline uint64_t KP_READ_32(const uint8_t *at) {
        return (uint64_t)at[0] | (uint64_t)at[1] << 8 | (uint64_t)at[2] << 16 | (uint64_t)at[3] << 24;
    }

    static inline uint64_t KP_READ_64(const uint8_t *at) {
        return KP_READ_32(at) | KP_READ_32(at + 4) << 32;
    }
    """
    uint64_t KP_FOLD(uint64_t a, uint64_t b) noexcept nogil
    uint64_t KP_READ_32(const uint8_t* at) noexcept nogil
    uint64_t KP_READ_64(const uint8_t* at) noexcept nogil

# The same constants as in the pure twin.
cdef uint64_t _LENGTH = 0x243F6A8885A308D3
cdef uint64_t _WORDS = 0x082EFA98EC4E6C89
cdef uint64_t _NUMBER = 0x452821E638D01377
cdef uint64_t _ROW = <uint64_t> 0xC0AC29B7C97C50DD
cdef uint64_t _UNWRITABLE = 0x3F84D5B5B5470917


cdef inline uint64_t _add_number(uint64_t state, uint64_t number) noexcept nogil:
    return KP_FOLD(state ^ _NUMBER, number ^ _LENGTH)


cdef inline uint64_t _add_words(uint64_t state, uint64_t first, uint64_t second) noexcept nogil:
    return KP_FOLD(first ^ _WORDS, second ^ state)


cdef inline uint64_t _add_bytes(uint64_t state, const Cell* cell) noexcept nogil:
    cdef const uint8_t* at = <const uint8_t*> cell.data
    cdef Py_ssize_t size = cell.size
    state = KP_FOLD(state ^ _LENGTH, <uint64_t> (size + 1) ^ _NUMBER)
    if size <= 0:
        return state
    if size < 4:
        return _add_words(state, at[0] | <uint64_t> at[size >> 1] << 8 | <uint64_t> at[size - 1] << 16, 0)
    if size < 8:
        return _add_words(state, KP_READ_32(at), KP_READ_32(at + size - 4))
    if size < 16:
        return _add_words(state, KP_READ_64(at), KP_READ_64(at + size - 8))
    while size > 16:
        state = _add_words(state, KP_READ_64(at), KP_READ_64(at + 8))
        at += 16
        size -= 16
    # The last 16 bytes; some of them are added twice.
    at += size - 16
    return _add_words(state, KP_READ_64(at), KP_READ_64(at + 8))


cdef class RowChecksum:
    """See the pure twin. For one thread.

    Attributes:
        rows: number of rows added.
        value: the sum of their hashes, modulo 2**64.
    """

    cdef readonly long long rows
    cdef readonly uint64_t value
    cdef bytes _topic
    cdef int64_t _partition
    cdef int64_t _timestamp_ms

    def __cinit__(self, topic: str | None, partition: int, timestamp_ms: int):
        self._topic = None if topic is None else topic.encode()
        self._partition = partition
        self._timestamp_ms = timestamp_ms

    def add_chunk(self, ArrowSource source not None, tuple columns not None, RowEncoder value=None,
                  RowEncoder key=None, headers=()) -> None:
        cdef BlockReader reader = BlockReader(source, columns, KP_MOST_BYTES)
        cdef uint64_t total = 0
        cdef int64_t fault = -1
        cdef int64_t first = 0
        cdef Cell default_topic
        point_to(self._topic, &default_topic.data, &default_topic.size)
        reader.encode_columns(value, key, list(headers))
        try:
            reader.bind_chunk()
            source.busy = True
            with nogil:
                while fault == -1 and first < source.chunk_rows:
                    fault = reader.read(first, self._timestamp_ms)
                    if fault == -1:
                        total += _sum_rows(reader, &default_topic, self._partition)
                        first += reader.rows
            source.busy = False
        finally:
            reader.give_back_encoders()
        reader.raise_fault(fault)
        self.value += total
        self.rows += source.chunk_rows


cdef uint64_t _sum_rows(BlockReader reader, const Cell* default_topic, int64_t default_partition) noexcept nogil:
    """The sum of the hashes of the rows that were read."""
    cdef BlockRows* block = reader.block
    cdef Column* partitions = &reader.columns[PARTITION]
    cdef bint has_topics = reader.positions[TOPIC] >= 0
    cdef bint has_partitions = reader.has(PARTITION)
    cdef const Cell* topic = default_topic
    cdef uint64_t total = 0
    cdef uint64_t topic_state = _add_bytes(_ROW, topic)
    cdef uint64_t start, state
    cdef bint starts_alike = not (has_topics or has_partitions or reader.has(TIMESTAMP))
    cdef int64_t partition = default_partition
    cdef Py_ssize_t row
    start = _add_number(_add_number(topic_state, <uint64_t> partition), <uint64_t> block.timestamps[0])
    for row in range(reader.rows):
        if has_topics:
            topic = &block.topic_names[row]
            topic_state = _add_bytes(_ROW, topic)
        if has_partitions:
            partition = default_partition
            if not is_null(partitions, reader.first + row):
                partition = integer_at(partitions, reader.first + row)
                if partition < 0:
                    total += _UNWRITABLE
                    continue
        if block.status[row] != ROW_IS_FINE or (has_topics and topic.size < 0):
            total += _UNWRITABLE
            continue
        if not starts_alike:
            start = _add_number(_add_number(topic_state, <uint64_t> partition), <uint64_t> block.timestamps[row])
        state = _add_bytes(_add_bytes(start, &block.keys[row]), &block.values[row])
        total += _add_headers(state, reader.header_bytes + block.headers[row].start, block.headers[row].size)
    return total


cdef inline uint64_t _add_headers(uint64_t state, const char* at, Py_ssize_t size) noexcept nogil:
    """Hash the encoded headers of one row: their number, and then each name and value."""
    cdef uint64_t number, count
    cdef Cell cell
    if size == 0:
        return _add_number(state, 0)
    at = get_varint(at, &count)
    state = _add_number(state, count >> 1)
    for number in range(count):  # twice the number of headers, as zigzag
        at = get_bytes(at, &cell.data, &cell.size)
        state = _add_bytes(state, &cell)
    return state

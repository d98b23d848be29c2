# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False
"""RowChecksum: one number for the contents of the rows of Arrow chunks, whatever their order.

The compiled twin of ``pure/arrow_checksum.py``, which describes the hash. Makes no Python objects per row, and
reads a chunk without the interpreter lock.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint64_t

from kproducer.kernel.native._arrow_reader cimport (
    HEADER, HEADER_NAME, HEADER_VALUE, HEADERS, KEY, PARTITION, ROOT, STRUCT, TIMESTAMP, TOPIC, VALUE, ArrowSource,
    Cell, ChunkColumns, Column, cell_at, epoch_ms_at, integer_at, is_null, is_utf8, range_at, resolve,
)

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

    /* Little-endian whatever the machine is; compilers make one load of it. */
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

cdef enum:
    _BLOCK_ROWS = 256           # rows whose cells are found at a time

# As in the pure twin.
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

    def __init__(self, topic: str | None, partition: int, timestamp_ms: int) -> None:
        pass

    def add_chunk(self, source: ArrowSource, columns: tuple[int, int, int, int, int, int]) -> None:
        cdef ChunkColumns chunk = ChunkColumns(source, columns)
        cdef ArrowSource read = chunk.source
        cdef uint64_t value = 0
        cdef int64_t fault
        cdef bytes topic = self._topic
        cdef Cell default_topic
        chunk.bind_chunk()
        default_topic.data = NULL
        default_topic.size = -1
        if topic is not None:
            default_topic.data = PyBytes_AS_STRING(topic)
            default_topic.size = PyBytes_GET_SIZE(topic)
        read.busy = True
        with nogil:
            fault = _sum_rows(chunk, &default_topic, self._partition, self._timestamp_ms, &value)
        read.busy = False
        if fault >= 0:
            raise ValueError(f"invalid Arrow data: row {fault} of the chunk refers to bytes outside of its data")
        self.value += value
        self.rows += read.chunk_rows


cdef int64_t _sum_rows(ChunkColumns chunk, const Cell* topic, int64_t partition, int64_t timestamp_ms,
                       uint64_t* value) noexcept nogil:
    """Add the hashes of all rows to ``value``. Returns -1, or a row that refers to bytes outside of the data."""
    cdef Cell[_BLOCK_ROWS] values
    cdef Cell[_BLOCK_ROWS] keys
    cdef Cell[_BLOCK_ROWS] topics
    cdef Column* columns = chunk.columns
    cdef int64_t total_rows = chunk.source.chunk_rows
    cdef int64_t first = 0
    cdef int64_t at, fault
    cdef Py_ssize_t row, count
    cdef uint64_t state
    cdef uint64_t start = _start(_add_bytes(_ROW, topic), partition, timestamp_ms)
    cdef bint has_topics = chunk.positions[TOPIC] >= 0
    cdef bint starts_alike = not (has_topics or chunk.has(PARTITION) or chunk.has(TIMESTAMP))
    cdef bint has_headers = chunk.has(HEADERS)
    cdef bint has_null_rows = columns[ROOT].layout == STRUCT and columns[ROOT].validity != NULL
    for row in range(_BLOCK_ROWS):
        keys[row].data = NULL
        keys[row].size = -1
        topics[row] = topic[0]
    while first < total_rows:
        count = min(total_rows - first, _BLOCK_ROWS)
        fault = resolve(&columns[VALUE], first, count, values)
        if fault < 0 and chunk.positions[KEY] >= 0:
            fault = resolve(&columns[KEY], first, count, keys)
        if fault < 0 and has_topics:
            fault = resolve(&columns[TOPIC], first, count, topics)
        if fault >= 0:
            return first + fault
        for row in range(count):
            at = first + row
            if has_null_rows and is_null(&columns[ROOT], at):
                value[0] += _UNWRITABLE
                continue
            if not starts_alike and not _start_row(
                chunk, at, &topics[row], has_topics, partition, timestamp_ms, &start
            ):
                value[0] += _UNWRITABLE
                continue
            state = _add_bytes(_add_bytes(start, &keys[row]), &values[row])
            if not has_headers:
                value[0] += _add_number(state, 0)
            elif not _add_headers(chunk, at, &state):
                return at
            else:
                value[0] += state
        first += count
    return -1


cdef inline uint64_t _start(uint64_t state, int64_t partition, int64_t timestamp_ms) noexcept nogil:
    return _add_number(_add_number(state, <uint64_t> partition), <uint64_t> timestamp_ms)


cdef bint _start_row(ChunkColumns chunk, int64_t row, const Cell* topic, bint has_topics, int64_t partition,
                     int64_t timestamp_ms, uint64_t* start) noexcept nogil:
    """Hash what comes before key and value. ``False``: the row cannot be sent."""
    cdef Column* columns = chunk.columns
    if has_topics and topic.size < 0:
        return False
    if chunk.has(PARTITION) and not is_null(&columns[PARTITION], row):
        partition = integer_at(&columns[PARTITION], row)
        if partition < 0:
            return False
    if chunk.has(TIMESTAMP) and not is_null(&columns[TIMESTAMP], row):
        timestamp_ms = epoch_ms_at(&columns[TIMESTAMP], row)
        if timestamp_ms < 0:
            return False
    start[0] = _start(_add_bytes(_ROW, topic), partition, timestamp_ms)
    return True


cdef bint _add_headers(ChunkColumns chunk, int64_t row, uint64_t* state) noexcept nogil:
    """Add the headers of a row, or set ``state`` to that of a row that cannot be sent.

    Returns:
        ``False``: they refer to bytes outside of the data.
    """
    cdef Column* columns = chunk.columns
    cdef int64_t at
    cdef int64_t start = 0
    cdef int64_t end = 0
    cdef Cell name, value
    if not is_null(&columns[HEADERS], row):
        if not range_at(&columns[HEADERS], row, &start, &end) or end > columns[HEADER].length:
            return False
    state[0] = _add_number(state[0], <uint64_t> (end - start))
    for at in range(start, end):
        if is_null(&columns[HEADER], at):
            state[0] = _UNWRITABLE
            return True
        if not (cell_at(&columns[HEADER_NAME], at, &name) and cell_at(&columns[HEADER_VALUE], at, &value)):
            return False
        if name.size < 0 or not is_utf8(<const uint8_t*> name.data, name.size):
            state[0] = _UNWRITABLE
            return True
        state[0] = _add_bytes(_add_bytes(state[0], &name), &value)
    return True

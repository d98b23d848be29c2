# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False
"""HeaderBuffer: the headers of a block of rows, encoded one behind the other as they lie in records."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, realloc

from kproducer.kernel.native._arrow_chunk cimport HEADER, HEADER_NAME, HEADER_VALUE, HEADERS, ChunkColumns
from kproducer.kernel.native._arrow_columns cimport (
    KP_MOST_BYTES, Cell, Column, cell_at, is_null, is_utf8, range_at,
)
from kproducer.kernel.native._arrow_status cimport (
    HEADER_IS_NULL, HEADER_NAME_WRONG, LEADS_OUTSIDE, NO_MEMORY, ROW_IS_FINE,
)
from kproducer.kernel.native._batch cimport bytes_size, put_bytes, put_varint, varint_size


cdef class HeaderBuffer:
    """For one thread. What was encoded before a ``clear`` is not to be read after it."""

    def __dealloc__(self):
        free(self.data)

    cdef void clear(self) noexcept nogil:
        self._used = 0

    cdef int encode(self, ChunkColumns chunk, int64_t row, Py_ssize_t size_limit, Span* span) noexcept nogil:
        """Encode the headers of a row and say where; size 0: there are none.

        Each cell is found once, and copied as it was measured: the application may change the offsets meanwhile.

        Returns:
            The row's status, or LEADS_OUTSIDE (of the data), or NO_MEMORY. What is above ``size_limit`` is
            fine here, and not copied: its size says why the row will be refused.
        """
        cdef Column* columns = chunk.columns
        cdef int64_t start, end, at
        cdef Py_ssize_t size, pair_size
        cdef Cell name, value
        cdef const char* text
        cdef char* place
        span.start = self._used
        span.size = 0
        if is_null(&columns[HEADERS], row):
            return ROW_IS_FINE
        if not range_at(&columns[HEADERS], row, &start, &end) or end > columns[HEADER].length:
            return LEADS_OUTSIDE
        if start == end:
            return ROW_IS_FINE
        size = varint_size(<uint64_t> (end - start) << 1)
        if not self._reserve(size):
            return NO_MEMORY
        put_varint(self.data + self._used, <uint64_t> (end - start) << 1)
        for at in range(start, end):
            if is_null(&columns[HEADER], at):
                return HEADER_IS_NULL
            if not cell_at(&columns[HEADER_NAME], at, &name):
                return LEADS_OUTSIDE
            if not cell_at(&columns[HEADER_VALUE], at, &value):
                return LEADS_OUTSIDE
            if name.size < 0:
                return HEADER_NAME_WRONG
            text = name.data
            pair_size = bytes_size(name.size) + bytes_size(value.size)
            if size + pair_size <= size_limit:
                if not self._reserve(size + pair_size):
                    return NO_MEMORY
                place = put_bytes(self.data + self._used + size, name.data, name.size)
                text = place - name.size
                put_bytes(place, value.data, value.size)
            if not is_utf8(<const uint8_t*> text, name.size):
                return HEADER_NAME_WRONG
            # Cells may be the same bytes any number of times. Beyond this it is too large already.
            size = min(size + pair_size, KP_MOST_BYTES)
        span.size = size
        if size <= size_limit:
            self._used += size
        return ROW_IS_FINE

    cdef list pairs(self, const Span* span):
        """Headers that were encoded, as ``send`` takes them; ``None`` for none."""
        cdef const char* place = self.data + span.start
        cdef uint64_t size
        cdef list found = []
        if span.size == 0:
            return None
        for _ in range(take_varint(&place) >> 1):
            size = take_varint(&place) >> 1
            name = PyBytes_FromStringAndSize(place, size).decode()
            place += size
            size = take_varint(&place)
            if size == 1:
                found.append((name, None))
                continue
            size >>= 1
            found.append((name, PyBytes_FromStringAndSize(place, size)))
            place += size
        return found

    cdef bint _reserve(self, Py_ssize_t size) noexcept nogil:
        cdef Py_ssize_t room = self._room
        if self._used + size > room:
            room = max(2 * room, self._used + size, 4096)
            grown = realloc(self.data, room)
            if grown == NULL:
                return False
            self.data = <char*> grown
            self._room = room
        return True


cdef uint64_t take_varint(const char** place) noexcept nogil:
    """Read what ``put_varint`` wrote, and go behind it."""
    cdef uint64_t number = 0
    cdef int shift = 0
    cdef uint8_t byte = 0x80
    while byte & 0x80:
        byte = <uint8_t> place[0][0]
        number |= <uint64_t> (byte & 0x7F) << shift
        shift += 7
        place[0] += 1
    return number

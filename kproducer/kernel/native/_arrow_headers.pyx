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

        Returns:
            The row's status, or LEADS_OUTSIDE (of the data), or NO_MEMORY. What is above ``size_limit`` is
            fine here, and not copied: its size says why the row will be refused.
        """
        cdef Column* columns = chunk.columns
        cdef int64_t start, end, at
        cdef Py_ssize_t size
        cdef Cell name, value
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
        for at in range(start, end):
            if is_null(&columns[HEADER], at):
                return HEADER_IS_NULL
            if not cell_at(&columns[HEADER_NAME], at, &name):
                return LEADS_OUTSIDE
            if not cell_at(&columns[HEADER_VALUE], at, &value):
                return LEADS_OUTSIDE
            if name.size < 0 or not is_utf8(<const uint8_t*> name.data, name.size):
                return HEADER_NAME_WRONG
            size += bytes_size(name.size) + bytes_size(value.size)
            if size > KP_MOST_BYTES:
                # Cells may be the same bytes any number of times. Too large it is already.
                size = KP_MOST_BYTES
        span.size = size
        if size > size_limit:
            return ROW_IS_FINE
        if not self._reserve(size):
            return NO_MEMORY
        place = put_varint(self.data + self._used, <uint64_t> (end - start) << 1)
        for at in range(start, end):
            cell_at(&columns[HEADER_NAME], at, &name)
            cell_at(&columns[HEADER_VALUE], at, &value)
            place = put_bytes(put_bytes(place, name.data, name.size), value.data, value.size)
        self._used += size
        return ROW_IS_FINE

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


cdef list header_pairs(ChunkColumns chunk, int64_t row):
    """The headers of a row that ``encode`` found fine, as ``send`` takes them; ``None`` for none."""
    cdef int64_t start, end, number
    cdef Cell name, value
    if not chunk.has(HEADERS) or is_null(&chunk.columns[HEADERS], row):
        return None
    pairs = []
    range_at(&chunk.columns[HEADERS], row, &start, &end)
    for number in range(start, end):
        cell_at(&chunk.columns[HEADER_NAME], number, &name)
        cell_at(&chunk.columns[HEADER_VALUE], number, &value)
        data = None if value.size < 0 else PyBytes_FromStringAndSize(value.data, value.size)
        pairs.append((PyBytes_FromStringAndSize(name.data, name.size).decode(), data))
    return pairs or None

"""The columns that records are made of, bound to an Arrow chunk; see the .pyx."""

from kproducer.kernel.native._arrow_columns cimport Column
from kproducer.kernel.native._arrow_source cimport ArrowSource


cdef enum:
    # Places in ChunkColumns.columns; the dictionary of each lies DICTIONARY places behind it.
    VALUE = 0
    KEY
    HEADERS
    PARTITION
    TIMESTAMP
    TOPIC
    HEADER
    HEADER_NAME
    HEADER_VALUE
    ROOT
    DICTIONARY = 10
    COLUMN_COUNT = 20
    # How many of them are columns of the source; HEADER and what follows belong to HEADERS and to the rows.
    ROLE_COUNT = 6


cdef class ChunkColumns:
    cdef ArrowSource source
    # Numbers of the source's columns; -1: there is none.
    cdef int[ROLE_COUNT] positions
    cdef Column[COLUMN_COUNT] columns
    # What the source's was at bind_chunk; -1: no chunk is bound.
    cdef long long _generation

    cdef int bind_chunk(self) except -1
    cdef int check_chunk(self) except -1
    cdef bint is_bound(self) noexcept
    cdef int let_go(self) except -1
    cdef bint has(self, int role) noexcept nogil
    cdef int _check_layout(self, int role) except -1
    cdef int _bind_headers(self) except -1

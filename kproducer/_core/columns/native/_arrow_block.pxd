"""A block of Arrow rows, read; see the .pyx."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kproducer._core.columns.native._arrow_reader cimport ArrowSource, Cell, Column
from kproducer._core.columns.native._row_encoder cimport RowEncoder

cdef enum:
    # Indexes of BlockReader.columns. The dictionary of each column is DICTIONARY places behind it.
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
    # The first six are columns of the source. HEADER and what follows are parts of HEADERS, and the rows.
    ROLE_COUNT = 6


cdef enum:
    # Rows that are read and sorted by partition at a time: with 100 bytes each they fit into a core's cache.
    BLOCK_ROWS = 4096


cdef enum RowStatus:
    ROW_IS_FINE = 0
    # Why a row cannot be sent: the places in kproducer._core.columns.arrow_names.REFUSALS.
    ROW_IS_NULL
    TOPIC_IS_NULL
    TIMESTAMP_WRONG
    TOO_LARGE
    HEADER_IS_NULL
    HEADER_NAME_WRONG
    VALUE_DOES_NOT_FIT
    KEY_DOES_NOT_FIT
    # The caller has to send this row by the general path, because its topic or partition is not known here.
    GENERAL_PATH
    # The next two end the reading of a block; rows never have them.
    LEADS_OUTSIDE = -1
    NO_MEMORY = -2


cdef struct Span:
    Py_ssize_t start
    Py_ssize_t size


cdef struct BlockRows:
    Cell[BLOCK_ROWS] values
    Cell[BLOCK_ROWS] keys
    Cell[BLOCK_ROWS] topic_names        # if there is a column of them
    int64_t[BLOCK_ROWS] timestamps
    Span[BLOCK_ROWS] headers
    uint8_t[BLOCK_ROWS] status
    # By status: the size of a row that is too large; what does not fit (RowEncoder.encode); else the number of the
    # topic.
    int64_t[BLOCK_ROWS] details
    int32_t[BLOCK_ROWS] targets         # of fine rows
    # Fine rows sorted by target; each target's rows keep their order.
    int32_t[BLOCK_ROWS] order
    # The targets of the block, in the order of their first rows.
    int32_t[BLOCK_ROWS] touched


cdef class BlockReader:
    cdef ArrowSource source
    # The number of the source's column by role; -1: not given.
    cdef int[ROLE_COUNT] positions
    cdef Column[COLUMN_COUNT] columns
    # The source's generation at bind_chunk; -1: no chunk is bound.
    cdef long long _generation
    cdef int64_t _content_limit
    # The encoders where value or key is made of several columns; else None.
    cdef RowEncoder _value_encoder
    cdef RowEncoder _key_encoder
    # Headers that are added to each row, encoded, without their count.
    cdef bytes _added_headers
    cdef Cell _added
    cdef int _added_count
    # The block: its first row in the chunk, the number of rows, and the bytes of keys and values.
    cdef int64_t first
    cdef Py_ssize_t rows
    cdef int64_t block_bytes
    cdef BlockRows* block
    # The role of the column whose cell leads outside of the data.
    cdef int _fault_role
    # Encoded headers, one row after the other.
    cdef char* header_bytes
    cdef Py_ssize_t _header_room
    cdef Py_ssize_t _header_used

    cdef void give_back_encoders(self) noexcept
    cdef int bind_chunk(self) except -1
    cdef int check_chunk(self) except -1
    cdef bint is_bound(self) noexcept
    cdef bint has(self, int role) noexcept nogil
    cdef int64_t read(self, int64_t first, int64_t timestamp_ms) noexcept nogil
    cdef int raise_fault(self, int64_t fault) except -1
    cdef int _bind_column(self, int role) except -1
    cdef int _bind_headers(self) except -1
    cdef int64_t _find_contents(self) noexcept nogil
    cdef Py_ssize_t _find_cells(self, int role, Cell* cells) noexcept nogil
    cdef void _find_timestamps(self, int64_t timestamp_ms) noexcept nogil
    cdef int64_t _encode_headers(self) noexcept nogil
    cdef int _encode_row(self, int64_t row, Span* span) noexcept nogil
    cdef char* _reserve_headers(self, Py_ssize_t size) noexcept nogil
    cdef void check_sizes(self) noexcept nogil
    cdef void _mark_null_rows(self) noexcept nogil

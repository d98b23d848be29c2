"""Columns of an Arrow chunk as C structs; see the .pyx."""

from libc.stdint cimport int64_t, uint8_t

from kproducer.kernel.native._arrow_abi cimport ArrowArray, ArrowSchema

cdef extern from *:
    """
    /* Lengths and offsets up to here: sums of a few, and their products with small widths, do not overflow. */
    #define KP_MOST_ROWS ((int64_t) 1 << 48)
    /* Nobody has as much memory: sums of sizes up to here, or of one and an address, do not overflow. */
    #define KP_MOST_BYTES ((int64_t) 1 << 48)
    """
    const int64_t KP_MOST_ROWS
    const int64_t KP_MOST_BYTES


cdef enum Layout:
    NO_COLUMN      # the call names none
    ALL_NULL       # n
    BYTES_32       # u z
    BYTES_64       # U Z
    BYTES_VIEW     # vu vz
    BYTES_FIXED    # w:width
    INTEGER        # c C s S i I l L; also what timestamps are
    SECONDS        # g
    LIST_32        # +l +m
    LIST_64        # +L
    LIST_VIEW_32   # +vl
    LIST_VIEW_64   # +vL
    STRUCT         # +s


cdef struct Column:
    Layout layout
    int width                   # bytes of a fixed size value or of an integer
    bint is_signed
    bint is_text                # UTF-8 by its type
    int64_t ticks_per_second    # timestamps; 0: not one
    int64_t offset              # where row 0 is, the offsets of the parents included
    int64_t length              # rows that are there
    const uint8_t* validity     # NULL: no nulls
    const void* values          # offsets, views, or the values themselves
    const void* sizes           # of list views
    const char* data            # what offsets point into
    const void** view_buffers
    const int64_t* view_sizes
    int64_t view_count
    Column* dictionary          # NULL: values are here


cdef struct Cell:
    const char* data
    Py_ssize_t size             # -1: null; else KP_MOST_BYTES at most


cdef bint has_sane_bounds(const ArrowArray* array) noexcept
cdef int bind(ArrowSchema* schema, ArrowArray* array, int64_t base, int64_t rows, Column* column,
              Column* dictionary) except -1
cdef Py_ssize_t resolve(const Column* column, int64_t start, Py_ssize_t rows, Cell* cells) noexcept nogil
cdef bint cell_at(const Column* column, int64_t row, Cell* cell) noexcept nogil
cdef bint is_null(const Column* column, int64_t row) noexcept nogil
cdef int64_t integer_at(const Column* column, int64_t row) noexcept nogil
cdef int64_t epoch_ms_at(const Column* column, int64_t row) noexcept nogil
cdef bint range_at(const Column* column, int64_t row, int64_t* start, int64_t* end) noexcept nogil
cdef bint is_utf8(const uint8_t* data, Py_ssize_t size) noexcept nogil
cdef str format_text(ArrowSchema* schema, int depth)

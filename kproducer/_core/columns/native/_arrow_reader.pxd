"""Arrow data through the C data interface and the PyCapsule interface; see the .pyx.

``ArrowSchema``, ``ArrowArray`` and ``ArrowArrayStream`` are the structs of the C data and C stream interfaces.
Source: https://arrow.apache.org/docs/format/CDataInterface.html and CStreamInterface.html.
"""

from libc.stdint cimport int64_t, uint8_t

cdef extern from *:
    """
    #include <stdint.h>

    /* Lengths and offsets up to here: sums of a few, and their products with small widths, do not overflow. */
    #define KP_MOST_ROWS ((int64_t) 1 << 48)
    /* No machine has as much memory: sums of sizes up to here, or of one and an address, do not overflow. */
    #define KP_MOST_BYTES ((int64_t) 1 << 48)

    /* Releases a struct of the C data interface, unless it was released or moved. */
    #define KP_RELEASE(it) do { if ((it)->release) { (it)->release(it); (it)->release = NULL; } } while (0)
    """
    const int64_t KP_MOST_ROWS
    const int64_t KP_MOST_BYTES
    void KP_RELEASE(void* it) noexcept nogil


cdef struct ArrowSchema:
    const char* format
    const char* name
    const char* metadata
    int64_t flags
    int64_t n_children
    ArrowSchema** children
    ArrowSchema* dictionary
    void (*release)(ArrowSchema*) noexcept nogil
    void* private_data


cdef struct ArrowArray:
    int64_t length
    int64_t null_count
    int64_t offset
    int64_t n_buffers
    int64_t n_children
    const void** buffers
    ArrowArray** children
    ArrowArray* dictionary
    void (*release)(ArrowArray*) noexcept nogil
    void* private_data


cdef struct ArrowArrayStream:
    int (*get_schema)(ArrowArrayStream*, ArrowSchema*) noexcept nogil
    int (*get_next)(ArrowArrayStream*, ArrowArray*) noexcept nogil
    const char* (*get_last_error)(ArrowArrayStream*) noexcept nogil
    void (*release)(ArrowArrayStream*) noexcept nogil
    void* private_data


cdef enum Layout:
    NO_COLUMN      # the call names none
    ALL_NULL       # n
    BYTES          # u z U Z
    BYTES_VIEW     # vu vz
    BYTES_FIXED    # w:width
    INTEGER        # c C s S i I l L; also what dates, times, timestamps and durations are
    FLOATING       # e f g
    LIST           # +l +m +L
    LIST_VIEW      # +vl +vL
    STRUCT         # +s
    # Layouts that only the plans of an encoder can have.
    BOOLEAN        # b
    WIDE           # d:precision,scale tiM tiD tin: little-endian words, at the same places as BYTES_FIXED
    LIST_FIXED     # +w:width
    UNION_SPARSE   # +us:
    UNION_DENSE    # +ud:


cdef struct Column:
    Layout layout
    int width                   # bytes of an integer, of an offset, or of a value of fixed size
    bint is_signed
    int64_t ticks_per_second    # timestamps; 0: not one
    int64_t offset              # where row 0 is, the offsets of the parents included
    int64_t length              # number of rows
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


cdef int bind_column(ArrowSchema* schema, ArrowArray* array, int64_t base, int64_t rows, Column* column,
                     Column* dictionary) except -1
cdef object invalid(str what)
cdef Py_ssize_t resolve(const Column* column, int64_t start, Py_ssize_t rows, Cell* cells) noexcept nogil
cdef bint cell_at(const Column* column, int64_t row, Cell* cell) noexcept nogil
cdef bint is_null(const Column* column, int64_t row) noexcept nogil
cdef int64_t integer_at(const Column* column, int64_t row) noexcept nogil
cdef int64_t epoch_ms_at(const Column* column, int64_t row) noexcept nogil
cdef bint range_at(const Column* column, int64_t row, int64_t* start, int64_t* end) noexcept nogil
cdef bint is_utf8(const uint8_t* data, Py_ssize_t size) noexcept nogil


cdef class ArrowSource:
    cdef ArrowSchema _schema
    cdef ArrowArrayStream _stream
    cdef ArrowArray _array
    cdef bint _array_is_unread
    cdef bint _is_struct
    # Changes with every chunk: columns that were bound to an earlier chunk point to released memory.
    cdef long long generation
    # Set while rows are read without the interpreter lock.
    cdef bint busy
    cdef readonly tuple names
    cdef readonly tuple formats
    cdef readonly int64_t chunk_rows

    cdef int check_idle(self) except -1
    cdef int check_chunk(self) except -1
    cdef ArrowSchema* child_schema(self, int number)
    cdef ArrowArray* child(self, int number)
    cdef int _take_stream(self, object capsule) except -1
    cdef int _read_schema(self) except -1
    cdef int64_t _checked_length(self) except -1
    cdef object _stream_error(self, int code)
    cdef void _release_chunk(self) noexcept
    cdef void _release(self) noexcept

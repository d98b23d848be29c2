"""An Arrow source and its chunk at hand; see the .pyx."""

from libc.stdint cimport int64_t

from kproducer.kernel.native._arrow_abi cimport ArrowArray, ArrowArrayStream, ArrowSchema
from kproducer.kernel.native._arrow_columns cimport Column


cdef class ArrowSource:
    cdef ArrowSchema _schema
    cdef ArrowArrayStream _stream
    cdef ArrowArray _array
    cdef bint _array_waits
    cdef bint _is_struct
    # Of the chunk at hand: what was bound before it changed points nowhere.
    cdef long long generation
    # Rows are being read without the interpreter lock.
    cdef bint busy
    cdef readonly tuple names
    cdef readonly tuple formats
    cdef readonly int64_t chunk_rows

    cdef int bind_column(self, int number, Column* column, Column* dictionary) except -1
    cdef int check_idle(self) except -1
    cdef int bind_root(self, Column* column) except -1
    cdef ArrowArray* child(self, int number)
    cdef ArrowSchema* child_schema(self, int number)
    cdef int _take_schema(self, object capsule) except -1
    cdef int _take_array(self, object capsule) except -1
    cdef int _take_stream(self, object capsule) except -1
    cdef int _read_schema(self) except -1
    cdef int64_t _checked_length(self) except -1
    cdef object _stream_error(self, int code)
    cdef void _release_array(self) noexcept
    cdef void _release_stream(self) noexcept
    cdef void _release(self) noexcept

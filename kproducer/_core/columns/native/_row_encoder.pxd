"""RowEncoder: a key or value of several columns; see the .pyx."""

from libc.stdint cimport int64_t, uint8_t

from kproducer._core.columns.native._arrow_reader cimport ArrowArray, ArrowSchema, ArrowSource, Cell
from kproducer._core.columns.native._output cimport Output
from kproducer._core.columns.native._row_output cimport Node, ReadsLayout, WriteNode


cdef class RowEncoder:
    # The plan, which keeps the bytes alive that nodes point to.
    cdef readonly object plan
    cdef Node root
    cdef Output out
    cdef WriteNode write
    cdef ReadsLayout reads
    cdef const char* prefix
    cdef Py_ssize_t prefix_size
    # The reader whose cells are in the memory of ``out``; NULL: none.
    cdef void* _reader

    cdef int _build(self, Node* node, object plan_node, int* count, int depth) except -1
    cdef int _hash_symbols(self, Node* node) except -1
    cdef int take(self, void* reader) except -1
    cdef void give_back(self, void* reader) noexcept
    cdef int bind(self, ArrowSource source) except -1
    cdef int _bind_node(self, Node* node, ArrowSchema* schema, ArrowArray* array, int64_t base, int64_t rows) except -1
    cdef int _bind_children(self, Node* node, ArrowSchema* schema, ArrowArray* array, int64_t base) except -1
    cdef int64_t encode(self, int64_t first, Py_ssize_t* rows, Cell* cells, uint8_t* status, int64_t* details,
                        uint8_t misfit_status, uint8_t size_status, int64_t most) noexcept nogil

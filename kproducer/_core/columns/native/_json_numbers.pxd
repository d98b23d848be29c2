from libc.stdint cimport int64_t

from kproducer._core.columns.native._arrow_reader cimport Column
from kproducer._core.columns.native._output cimport Output
from kproducer._core.columns.native._row_output cimport Node

cdef enum:
    MOST_SCALE = 76

# Computes tables. To be called before floating point numbers are written.
cdef int prepare_numbers() except -1
# Each returns as WriteNode.
cdef int write_integer(Output* out, const Column* column, int64_t row) noexcept nogil
cdef int write_decimal(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil
cdef int write_float(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil

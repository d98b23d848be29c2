from libc.stdint cimport int64_t

from kproducer._core.columns.native._arrow_reader cimport Column
from kproducer._core.columns.native._output cimport Output
from kproducer._core.columns.native._row_output cimport Node

cdef enum:
    # The numbers of JsonOperation.
    DATE = 8
    TIME = 9
    TIMESTAMP = 10
    DURATION = 11
    INTERVAL = 12

# Each returns as WriteNode.
cdef int write_time(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil
cdef int write_duration(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil

from libc.stdint cimport int64_t

from kproducer._core.columns.native._arrow_reader cimport Column
from kproducer._core.columns.native._output cimport Output
from kproducer._core.columns.native._row_output cimport Node

# See WriteNode and ReadsLayout.
cdef int write_avro(Output* out, Node* node, int64_t row) noexcept nogil
cdef bint reads_avro(const Node* node, const Column* values) noexcept nogil

"""A block of Arrow rows, ready to be written; see the .pyx."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kproducer.kernel.native._arrow_chunk cimport ChunkColumns
from kproducer.kernel.native._arrow_columns cimport Cell
from kproducer.kernel.native._arrow_headers cimport HeaderBuffer, Span
from kproducer.kernel.native._arrow_topics cimport TopicTable


cdef class BlockPlan:
    cdef ChunkColumns chunk
    cdef TopicTable topics
    cdef bint _hashes_keys
    cdef int64_t _size_limit
    # The block: its first row in the chunk, how many there are, and bytes of keys and values of fine ones.
    cdef int64_t first
    cdef Py_ssize_t rows
    cdef int64_t content_bytes
    cdef bint all_fine
    # By row of the block.
    cdef Cell* values
    cdef Cell* keys
    cdef Cell* topic_names          # if there is a column of them
    cdef int64_t* timestamps
    cdef Span* headers
    cdef uint8_t* status
    cdef int64_t* details           # the topic's number of fine rows; of others what is wrong
    cdef int32_t* targets           # of fine rows
    cdef HeaderBuffer header_bytes
    cdef bint _has_header_spans
    # Fine rows by target; each target's rows are in their order.
    cdef int32_t* order
    cdef bint order_is_plain        # row 0, 1, 2, ...
    cdef bint _order_is_filled
    cdef int32_t* counts            # by target; only those of the block are not 0
    cdef int32_t* touched           # the targets of the block, as they come first
    cdef Py_ssize_t touched_count
    # Of a row that leads outside of the data.
    cdef int fault_role

    cdef int reserve_targets(self, Py_ssize_t count) except -1
    cdef void forget(self) noexcept nogil
    cdef int64_t make(self, int64_t first, int64_t timestamp_ms, int32_t partition, int64_t* fault) noexcept nogil
    cdef int64_t _find_cells(self, int64_t timestamp_ms) noexcept nogil
    cdef void _find_timestamps(self, int64_t timestamp_ms) noexcept nogil
    cdef int64_t _encode_headers(self) noexcept nogil
    cdef void _check_sizes(self) noexcept nogil
    cdef void _mark_null_rows(self) noexcept nogil
    cdef bint _has_one_target(self, int32_t partition) noexcept nogil
    cdef void _choose_one_target(self, int32_t partition) noexcept nogil
    cdef Py_ssize_t _choose_targets(self, int32_t partition) noexcept nogil
    cdef int64_t _wanted_partition(self, Py_ssize_t row, int64_t partition, int32_t count) noexcept nogil
    cdef void _sort_by_target(self) noexcept nogil
    cdef void _put_in_plain_order(self) noexcept nogil
    cdef bint _are_all_fine(self) noexcept nogil
    cdef void _sum_content(self) noexcept nogil

"""A block of Arrow rows, ready to be written; see the .pyx."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from kproducer.kernel.native._append cimport TopicSlots
from kproducer.kernel.native._arrow_reader cimport Cell, ChunkColumns

cdef enum:
    # Rows that are planned and sorted by partition at a time: with 100 bytes each they fit into a core's cache.
    BLOCK_ROWS = 4096


cdef enum RowStatus:
    ROW_IS_FINE = 0
    # Why a row cannot be sent: the places in kproducer.kernel.arrow.REFUSALS.
    ROW_IS_NULL
    TOPIC_IS_NULL
    TIMESTAMP_WRONG
    TOO_LARGE
    HEADER_IS_NULL
    HEADER_NAME_WRONG
    # The caller has to send this row: its topic or partition is not known here.
    GENERAL_PATH
    # Not statuses: what ends the reading of a block.
    LEADS_OUTSIDE = -1
    NO_MEMORY = -2


cdef struct Span:
    Py_ssize_t start
    Py_ssize_t size


cdef struct Topic:
    const char* name            # points into BlockPlan._names
    Py_ssize_t size
    int32_t partition_count     # -1: the caller sends its rows
    int32_t first_target        # followed by a target per partition, and one for the sticky partition


cdef struct BlockRows:
    Cell[BLOCK_ROWS] values
    Cell[BLOCK_ROWS] keys
    Cell[BLOCK_ROWS] topic_names        # if there is a column of them
    int64_t[BLOCK_ROWS] timestamps
    Span[BLOCK_ROWS] headers
    uint8_t[BLOCK_ROWS] status
    int64_t[BLOCK_ROWS] details         # the size of rows that are too large, else the number of the topic
    int32_t[BLOCK_ROWS] targets         # of fine rows
    # Fine rows sorted by target; each target's rows keep their order.
    int32_t[BLOCK_ROWS] order
    # The targets of the block, in the order of their first rows.
    int32_t[BLOCK_ROWS] touched


cdef class BlockPlan:
    cdef ChunkColumns chunk
    cdef bint _hashes_keys
    cdef int64_t _content_limit
    # The block: its first row in the chunk, the number of rows, and the bytes of keys and values.
    cdef int64_t first
    cdef Py_ssize_t rows
    cdef int64_t content_bytes
    cdef bint all_fine
    cdef BlockRows* block
    cdef bint order_is_plain            # row 0, 1, 2, ...
    cdef bint _order_is_filled
    cdef int32_t* counts                # rows by target; 0 except for targets of the block
    cdef Py_ssize_t touched_count
    # The column of a row that leads outside of the data.
    cdef int fault_role
    # Encoded headers, one row after the other.
    cdef char* header_bytes
    cdef Py_ssize_t _header_room
    cdef Py_ssize_t _header_used
    cdef bint _has_header_spans
    # Topics by number; a target is a partition of a topic, or its sticky partition.
    cdef Topic* topics
    cdef Py_ssize_t topic_count
    cdef Py_ssize_t target_count
    cdef list _names
    cdef list _slots
    # A hash table of topic numbers; -1: free.
    cdef int32_t* _table
    cdef Py_ssize_t _table_size

    cdef int add_topic(self, bytes name, int32_t partition_count, TopicSlots slots) except -1
    cdef TopicSlots slots_of(self, Py_ssize_t number)
    cdef void forget(self) noexcept nogil
    cdef int64_t make(self, int64_t first, int64_t timestamp_ms, int32_t partition, int64_t* fault) noexcept nogil
    cdef int _rebuild_table(self) except -1
    cdef Py_ssize_t _find_topic(self, const Cell* name, Py_ssize_t guess) noexcept nogil
    cdef bint _is_name_of(self, Py_ssize_t number, const Cell* name) noexcept nogil
    cdef int64_t read(self, int64_t first, int64_t timestamp_ms) noexcept nogil
    cdef object fault_error(self, int64_t row)
    cdef Py_ssize_t _find_cells(self, int role, Cell* cells) noexcept nogil
    cdef void _find_timestamps(self, int64_t timestamp_ms) noexcept nogil
    cdef int64_t _encode_headers(self) noexcept nogil
    cdef int _encode_row(self, int64_t row, Span* span) noexcept nogil
    cdef char* _reserve_headers(self, Py_ssize_t size) noexcept nogil
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

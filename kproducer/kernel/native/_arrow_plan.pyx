# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False
"""BlockPlan: which rows of a block can be sent, and where each of them goes.

Cells are found, headers encoded, rows that cannot be sent marked, keys hashed, and rows sorted by target: a
partition of a topic, or its sticky choice. What is the same for all blocks (no keys, no headers, one target)
is filled in once. Runs without the interpreter lock; writes nothing anywhere else.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memset

from kproducer.kernel.native._arrow_chunk cimport (
    HEADERS, KEY, PARTITION, ROOT, TIMESTAMP, TOPIC, VALUE, ChunkColumns,
)
from kproducer.kernel.native._arrow_columns cimport (
    STRUCT, Cell, Column, epoch_ms_at, integer_at, is_null, resolve,
)
from kproducer.kernel.native._arrow_headers cimport HeaderBuffer, Span
from kproducer.kernel.native._arrow_status cimport (
    LEADS_OUTSIDE, PARTITION_WRONG, ROW_IS_FINE, ROW_IS_NULL, TIMESTAMP_WRONG, TOO_LARGE, TOPIC_FAILED,
    TOPIC_IS_NULL,
)
from kproducer.kernel.native._arrow_topics cimport Topic, TopicTable
from kproducer.kernel.native._batch cimport murmur2_raw

from kproducer.kernel.arrow_columns import BLOCK_ROWS

cdef Py_ssize_t _BLOCK_ROWS = BLOCK_ROWS

cdef enum:
    _OVERHEAD = 61 + 36         # of record_size_upper_bound: a batch's header and a record's at its longest


cdef class BlockPlan:
    """For one thread, and the columns of one source.

    Args:
        chunk: bound to a chunk whenever ``make`` is called.
        size_limit: bytes that a record may take, as ``record_size_upper_bound`` counts.
        hashes_keys: a key chooses the partition; else only partition numbers do.
    """

    def __cinit__(self, ChunkColumns chunk not None, size_limit: int, hashes_keys: bool):
        cdef Py_ssize_t row
        self.chunk = chunk
        self.topics = TopicTable()
        self.header_bytes = HeaderBuffer()
        self._size_limit = size_limit
        self._hashes_keys = hashes_keys
        self.values = <Cell*> malloc(_BLOCK_ROWS * sizeof(Cell))
        self.keys = <Cell*> malloc(_BLOCK_ROWS * sizeof(Cell))
        self.topic_names = <Cell*> malloc(_BLOCK_ROWS * sizeof(Cell))
        self.timestamps = <int64_t*> malloc(_BLOCK_ROWS * sizeof(int64_t))
        self.headers = <Span*> malloc(_BLOCK_ROWS * sizeof(Span))
        self.status = <uint8_t*> malloc(_BLOCK_ROWS)
        self.details = <int64_t*> malloc(_BLOCK_ROWS * sizeof(int64_t))
        self.targets = <int32_t*> malloc(_BLOCK_ROWS * sizeof(int32_t))
        self.order = <int32_t*> malloc(_BLOCK_ROWS * sizeof(int32_t))
        self.touched = <int32_t*> malloc(_BLOCK_ROWS * sizeof(int32_t))
        if (
            self.values == NULL or self.keys == NULL or self.topic_names == NULL
            or self.timestamps == NULL or self.headers == NULL or self.status == NULL or self.details == NULL or self.targets == NULL or self.order == NULL
            or self.touched == NULL
        ):
            raise MemoryError
        for row in range(_BLOCK_ROWS):
            # Where there is no column of keys it stays so.
            self.keys[row].data = NULL
            self.keys[row].size = -1
        memset(self.headers, 0, _BLOCK_ROWS * sizeof(Span))

    def __dealloc__(self):
        free(self.values)
        free(self.keys)
        free(self.topic_names)
        free(self.timestamps)
        free(self.headers)
        free(self.status)
        free(self.details)
        free(self.targets)
        free(self.order)
        free(self.touched)
        free(self.counts)

    cdef int reserve_targets(self, Py_ssize_t count) except -1:
        """Make room for the counts of so many targets. Before ``topics`` has them."""
        cdef Py_ssize_t known = self.topics.target_count
        grown = <int32_t*> realloc(self.counts, max(count, 1) * sizeof(int32_t))
        if grown == NULL:
            raise MemoryError
        self.counts = grown
        memset(&self.counts[known], 0, (count - known) * sizeof(int32_t))
        return 0

    cdef void forget(self) noexcept nogil:
        """There is no block."""
        cdef Py_ssize_t target
        for target in range(self.touched_count):
            self.counts[self.touched[target]] = 0
        self.rows = self.touched_count = 0
        self.content_bytes = 0

    cdef int64_t make(self, int64_t first, int64_t timestamp_ms, int32_t partition, int64_t* fault) noexcept nogil:
        """Plan the rows from ``first`` on, a block at most. The block before must be forgotten.

        Args:
            timestamp_ms, partition: of rows without one; a partition of -1 is none.
            fault: set to -1, a row that leads outside of the data (``fault_role`` says where), or NO_MEMORY;
                then there is no block.

        Returns:
            -1, or the row behind the block where a topic comes that is not known.
        """
        cdef Py_ssize_t stop = -1
        self.first = first
        self.rows = min(_BLOCK_ROWS, self.chunk.source.chunk_rows - first)
        fault[0] = self._find_cells(timestamp_ms)
        if fault[0] != -1:
            self.rows = 0
            return -1
        self.all_fine = self._are_all_fine()
        if self.rows and self.all_fine and self._has_one_target(partition):
            self._choose_one_target(partition)
            return -1
        stop = self._choose_targets(partition)
        self._sort_by_target()
        self.all_fine = self._are_all_fine()
        if not self.all_fine or stop >= 0:
            self._sum_content()
        return stop

    # -- what is in the rows -----------------------------------------------------------------------------

    cdef int64_t _find_cells(self, int64_t timestamp_ms) noexcept nogil:
        """Fill values, keys, timestamps, headers and status. Returns -1, a faulty row or NO_MEMORY."""
        cdef Py_ssize_t fault
        cdef Column* columns = self.chunk.columns
        memset(self.status, ROW_IS_FINE, self.rows)
        self.fault_role = VALUE
        fault = resolve(&columns[VALUE], self.first, self.rows, self.values)
        if fault >= 0:
            return fault
        if self.chunk.positions[KEY] >= 0:
            self.fault_role = KEY
            fault = resolve(&columns[KEY], self.first, self.rows, self.keys)
            if fault >= 0:
                return fault
        if self.chunk.positions[TOPIC] >= 0:
            self.fault_role = TOPIC
            fault = resolve(&columns[TOPIC], self.first, self.rows, self.topic_names)
            if fault >= 0:
                return fault
        self._find_timestamps(timestamp_ms)
        self.fault_role = HEADERS
        fault = self._encode_headers()
        if fault != -1:
            return fault
        self._check_sizes()
        self._mark_null_rows()
        return -1

    cdef void _find_timestamps(self, int64_t timestamp_ms) noexcept nogil:
        cdef Py_ssize_t row
        cdef const Column* column = &self.chunk.columns[TIMESTAMP]
        if not self.chunk.has(TIMESTAMP):
            for row in range(self.rows):
                self.timestamps[row] = timestamp_ms
            return
        for row in range(self.rows):
            if is_null(column, self.first + row):
                self.timestamps[row] = timestamp_ms
                continue
            self.timestamps[row] = epoch_ms_at(column, self.first + row)
            if self.timestamps[row] < 0:
                self.status[row] = TIMESTAMP_WRONG

    cdef int64_t _encode_headers(self) noexcept nogil:
        """Returns -1, a faulty row or NO_MEMORY."""
        cdef Py_ssize_t row
        cdef int status
        if not self.chunk.has(HEADERS):
            if self._has_header_spans:
                memset(self.headers, 0, _BLOCK_ROWS * sizeof(Span))
                self._has_header_spans = False
            return -1
        self._has_header_spans = True
        self.header_bytes.clear()
        for row in range(self.rows):
            if self.status[row]:
                self.headers[row].start = self.headers[row].size = 0
                continue
            status = self.header_bytes.encode(
                self.chunk, self.first + row, self._size_limit, &self.headers[row]
            )
            if status < 0:
                return row if status == LEADS_OUTSIDE else status
            self.status[row] = <uint8_t> status
        return -1

    cdef void _check_sizes(self) noexcept nogil:
        """Mark what is too large, and count all bytes as if every row were fine."""
        cdef Py_ssize_t row
        cdef int64_t size, content
        cdef int64_t total = 0
        for row in range(self.rows):
            content = max(self.values[row].size, 0) + max(self.keys[row].size, 0)
            total += content
            size = content + self.headers[row].size + _OVERHEAD
            if size > self._size_limit and self.status[row] == ROW_IS_FINE:
                self.status[row] = TOO_LARGE
                self.details[row] = size
        self.content_bytes = total

    cdef void _mark_null_rows(self) noexcept nogil:
        cdef Py_ssize_t row
        cdef const Column* root = &self.chunk.columns[ROOT]
        if root.layout == STRUCT and root.validity != NULL:
            for row in range(self.rows):
                if is_null(root, self.first + row):
                    self.status[row] = ROW_IS_NULL

    # -- where they go -----------------------------------------------------------------------------------

    cdef bint _has_one_target(self, int32_t partition) noexcept nogil:
        """Whether no row has a say in where it goes, and that is somewhere."""
        cdef int32_t count
        if self.chunk.positions[TOPIC] >= 0 or self.chunk.has(PARTITION):
            return False
        count = self.topics.topics[0].partition_count
        if count < 0 or partition >= count:
            return False
        return partition >= 0 or count == 1 or not (self._hashes_keys and self.chunk.has(KEY))

    cdef void _choose_one_target(self, int32_t partition) noexcept nogil:
        cdef Py_ssize_t row
        cdef Topic* topic = &self.topics.topics[0]
        cdef int32_t target = topic.first_target + (
            partition if partition >= 0
            else 0 if self._hashes_keys and topic.partition_count == 1
            else topic.partition_count
        )
        for row in range(self.rows):
            self.targets[row] = target
        memset(self.details, 0, self.rows * sizeof(int64_t))
        self.counts[target] = <int32_t> self.rows
        self.touched[0] = target
        self.touched_count = 1
        self._put_in_plain_order()

    cdef Py_ssize_t _choose_targets(self, int32_t partition) noexcept nogil:
        """Give each row that is fine its target. Returns -1, or the row with a topic that is not known."""
        cdef Py_ssize_t row
        cdef Py_ssize_t number = 0
        cdef int64_t wanted
        cdef bint has_topics = self.chunk.positions[TOPIC] >= 0
        cdef Topic* topic
        for row in range(self.rows):
            if self.status[row]:
                continue
            if has_topics:
                if self.topic_names[row].size < 0:
                    self.status[row] = TOPIC_IS_NULL
                    continue
                number = self.topics.find(&self.topic_names[row], max(number, 0))
                if number < 0:
                    self.rows = row
                    return row
            topic = &self.topics.topics[number]
            self.details[row] = number
            if topic.partition_count < 0:
                self.status[row] = TOPIC_FAILED
                continue
            wanted = self._wanted_partition(row, partition, topic.partition_count)
            if wanted < 0:
                self.status[row] = PARTITION_WRONG
                continue
            self.targets[row] = topic.first_target + <int32_t> wanted
        return -1

    cdef int64_t _wanted_partition(self, Py_ssize_t row, int64_t partition, int32_t count) noexcept nogil:
        """The partition of a row, ``count`` for the sticky choice; -1: there is no such partition."""
        cdef uint32_t hashed
        if self.chunk.has(PARTITION) and not is_null(&self.chunk.columns[PARTITION], self.first + row):
            partition = integer_at(&self.chunk.columns[PARTITION], self.first + row)
            return partition if 0 <= partition < count else -1
        if partition >= 0:
            return partition if partition < count else -1
        if self._hashes_keys and count == 1:
            # So that all rows of such a topic stay in order.
            return 0
        if self._hashes_keys and self.keys[row].size >= 0:
            hashed = murmur2_raw(<const unsigned char*> self.keys[row].data, self.keys[row].size)
            return (hashed & 0x7FFFFFFF) % <uint32_t> count
        return count

    cdef void _sort_by_target(self) noexcept nogil:
        """Sort the rows that are fine by target, targets as they come first, rows of one in their order."""
        cdef Py_ssize_t row, at
        cdef int32_t target, count
        for row in range(self.rows):
            if self.status[row] == ROW_IS_FINE:
                target = self.targets[row]
                if self.counts[target] == 0:
                    self.touched[self.touched_count] = target
                    self.touched_count += 1
                self.counts[target] += 1
        if self.touched_count == 1 and self.counts[self.touched[0]] == self.rows:
            self._put_in_plain_order()
            return
        self.order_is_plain = self._order_is_filled = False
        at = 0
        for row in range(self.touched_count):
            target = self.touched[row]
            count = self.counts[target]
            self.counts[target] = <int32_t> at
            at += count
        for row in range(self.rows):
            if self.status[row] == ROW_IS_FINE:
                target = self.targets[row]
                self.order[self.counts[target]] = <int32_t> row
                self.counts[target] += 1
        # Each count is the end of its target's rows now; back to counts, which is what they are between blocks.
        at = 0
        for row in range(self.touched_count):
            target = self.touched[row]
            count = self.counts[target]
            self.counts[target] = count - <int32_t> at
            at = count

    cdef void _put_in_plain_order(self) noexcept nogil:
        cdef Py_ssize_t row
        self.order_is_plain = True
        if not self._order_is_filled:
            self._order_is_filled = True
            for row in range(_BLOCK_ROWS):
                self.order[row] = <int32_t> row

    # -- all together ------------------------------------------------------------------------------------

    cdef bint _are_all_fine(self) noexcept nogil:
        cdef Py_ssize_t row
        cdef uint8_t found = 0
        for row in range(self.rows):
            found |= self.status[row]
        return found == ROW_IS_FINE

    cdef void _sum_content(self) noexcept nogil:
        """Count the bytes of the rows that are fine."""
        cdef Py_ssize_t row
        cdef int64_t total = 0
        for row in range(self.rows):
            if self.status[row] == ROW_IS_FINE:
                total += max(self.values[row].size, 0) + max(self.keys[row].size, 0)
        self.content_bytes = total

# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False
"""BlockPlan: which rows of a block can be written, and to which partition each of them goes.

Finds cells, encodes headers, marks rows that cannot be written, hashes keys, and sorts the rows by target: a
partition of a topic, or its sticky partition. What is the same for all blocks (no keys, no headers, one target) is
filled in once. Runs without the interpreter lock and changes nothing but the plan.

More than 400 lines, since every step works on the arrays of one block.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memset

from kproducer.kernel.native._append cimport TopicSlots
from kproducer.kernel.native._arrow_reader cimport (
    HEADER, HEADER_NAME, HEADER_VALUE, HEADERS, KEY, KP_MOST_BYTES, PARTITION, ROOT, STRUCT, TIMESTAMP, TOPIC, VALUE,
    Cell, ChunkColumns, Column, cell_at, epoch_ms_at, integer_at, is_null, is_utf8, range_at, resolve,
)
from kproducer.kernel.native._batch cimport (
    bytes_size, murmur2_raw, partition_of_key, put_bytes, put_varint, varint_size,
)

# The block of a plan that is gone: touching fresh memory would cost as much as planning thousands of rows.
cdef BlockRows* _spare_block = NULL


cdef BlockRows* _take_block() except NULL:
    global _spare_block
    cdef BlockRows* block = _spare_block
    _spare_block = NULL
    if block == NULL:
        block = <BlockRows*> malloc(sizeof(BlockRows))
    if block == NULL:
        raise MemoryError
    return block


cdef void _give_block_back(BlockRows* block) noexcept:
    global _spare_block
    if _spare_block == NULL:
        _spare_block = block
    else:
        free(block)


cdef class BlockPlan:
    """For one thread, and the columns of one source.

    Args:
        chunk: bound to a chunk whenever ``make`` is called.
        content_limit: bytes of key, value and encoded headers that a record may have together.
        hashes_keys: a key chooses the partition; else only partition numbers do.
    """

    def __cinit__(self, ChunkColumns chunk not None, content_limit: int, hashes_keys: bool):
        cdef Py_ssize_t row
        self.chunk = chunk
        self._content_limit = content_limit
        self._hashes_keys = hashes_keys
        self._names = []
        self._slots = []
        self.block = _take_block()
        # Without a column of keys or headers, they stay null.
        for row in range(BLOCK_ROWS):
            self.block.keys[row].data = NULL
            self.block.keys[row].size = -1
        memset(self.block.headers, 0, sizeof(self.block.headers))

    def __dealloc__(self):
        _give_block_back(self.block)
        free(self.counts)
        free(self.header_bytes)
        free(self.topics)
        free(self._table)

    # -- topics ------------------------------------------------------------------------------------------

    cdef int add_topic(self, bytes name, int32_t partition_count, TopicSlots slots) except -1:
        """Add a topic, and a target for each of its partitions and for its sticky partition.

        A topic that was added before keeps its number, and gets new targets. Not while there is a block.
        """
        cdef Cell wanted
        cdef Topic* topic
        cdef Py_ssize_t number
        cdef Py_ssize_t targets = max(partition_count + 1, 0)
        wanted.data = PyBytes_AS_STRING(name)
        wanted.size = PyBytes_GET_SIZE(name)
        grown = <int32_t*> realloc(self.counts, (self.target_count + targets + 1) * sizeof(int32_t))
        if grown == NULL:
            raise MemoryError
        self.counts = grown
        memset(&self.counts[self.target_count], 0, (targets + 1) * sizeof(int32_t))
        number = self._find_topic(&wanted, 0)
        if number < 0:
            number = self.topic_count
            topics = <Topic*> realloc(self.topics, (number + 1) * sizeof(Topic))
            if topics == NULL:
                raise MemoryError
            self.topics = topics
            self._names.append(name)
            self._slots.append(slots)
            self.topics[number].name = wanted.data
            self.topics[number].size = wanted.size
            self.topic_count += 1
            self._rebuild_table()
        self._slots[number] = slots
        topic = &self.topics[number]
        topic.partition_count = partition_count
        topic.first_target = <int32_t> self.target_count
        self.target_count += targets
        return 0

    cdef TopicSlots slots_of(self, Py_ssize_t number):
        return self._slots[number]

    cdef int _rebuild_table(self) except -1:
        cdef Py_ssize_t number, at
        cdef Py_ssize_t size = 16
        while size < 2 * self.topic_count:
            size *= 2
        grown = <int32_t*> realloc(self._table, size * sizeof(int32_t))
        if grown == NULL:
            raise MemoryError
        self._table = grown
        self._table_size = size
        memset(self._table, 0xFF, size * sizeof(int32_t))
        for number in range(self.topic_count):
            at = murmur2_raw(<const unsigned char*> self.topics[number].name, self.topics[number].size)
            at &= size - 1
            while self._table[at] >= 0:
                at = (at + 1) & (size - 1)
            self._table[at] = <int32_t> number
        return 0

    cdef Py_ssize_t _find_topic(self, const Cell* name, Py_ssize_t guess) noexcept nogil:
        """The number of the topic, or -1. ``guess``: a number that is tried first."""
        cdef Py_ssize_t at, number
        if self.topic_count == 0:
            return -1
        if self._is_name_of(guess, name):
            return guess
        at = murmur2_raw(<const unsigned char*> name.data, name.size) & <uint32_t> (self._table_size - 1)
        while True:
            number = self._table[at]
            if number < 0 or self._is_name_of(number, name):
                return number
            at = (at + 1) & (self._table_size - 1)

    cdef bint _is_name_of(self, Py_ssize_t number, const Cell* name) noexcept nogil:
        cdef Topic* topic = &self.topics[number]
        return topic.size == name.size and memcmp(topic.name, name.data, name.size) == 0

    cdef void forget(self) noexcept nogil:
        """Discard the block."""
        cdef Py_ssize_t target
        for target in range(self.touched_count):
            self.counts[self.block.touched[target]] = 0
        self.rows = self.touched_count = 0
        self.content_bytes = 0

    cdef int64_t make(self, int64_t first, int64_t timestamp_ms, int32_t partition, int64_t* fault) noexcept nogil:
        """Plan a block of rows from ``first`` on. The previous block must be forgotten.

        Args:
            timestamp_ms, partition: of rows without one; partition -1: none.
            fault: set to the result of ``read``; unless it is -1, there is no block.

        Returns:
            -1, or the row behind the block, if its topic was not added yet.
        """
        cdef Py_ssize_t stop = -1
        fault[0] = self.read(first, timestamp_ms)
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

    # -- reading rows ------------------------------------------------------------------------------------

    cdef int64_t read(self, int64_t first, int64_t timestamp_ms) noexcept nogil:
        """Read the rows of a block: values, keys, topics, timestamps, headers, and what prevents that they are sent.

        Returns:
            -1, or the row (in the block) of a cell outside of the data (``fault_role`` is its column), or NO_MEMORY.
        """
        cdef int64_t fault
        self.first = first
        self.rows = min(BLOCK_ROWS, self.chunk.source.chunk_rows - first)
        memset(self.block.status, ROW_IS_FINE, self.rows)
        fault = self._find_cells(VALUE, self.block.values)
        if fault < 0 and self.chunk.positions[KEY] >= 0:
            fault = self._find_cells(KEY, self.block.keys)
        if fault < 0 and self.chunk.positions[TOPIC] >= 0:
            fault = self._find_cells(TOPIC, self.block.topic_names)
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

    cdef Py_ssize_t _find_cells(self, int role, Cell* cells) noexcept nogil:
        self.fault_role = role
        return resolve(&self.chunk.columns[role], self.first, self.rows, cells)

    cdef object fault_error(self, int64_t row):
        """The error for a row of the block that refers to bytes outside of its data."""
        return ValueError(
            f"invalid Arrow data: column {self.chunk.source.names[self.chunk.positions[self.fault_role]]!r} refers to "
            f"bytes outside of its data in row {self.first + row} of the chunk"
        )

    cdef void _find_timestamps(self, int64_t timestamp_ms) noexcept nogil:
        cdef Py_ssize_t row
        cdef const Column* column = &self.chunk.columns[TIMESTAMP]
        if not self.chunk.has(TIMESTAMP):
            for row in range(self.rows):
                self.block.timestamps[row] = timestamp_ms
            return
        for row in range(self.rows):
            if is_null(column, self.first + row):
                self.block.timestamps[row] = timestamp_ms
                continue
            self.block.timestamps[row] = epoch_ms_at(column, self.first + row)
            if self.block.timestamps[row] < 0:
                self.block.status[row] = TIMESTAMP_WRONG

    cdef int64_t _encode_headers(self) noexcept nogil:
        """Returns -1, a faulty row or NO_MEMORY."""
        cdef Py_ssize_t row
        cdef int status
        if not self.chunk.has(HEADERS):
            if self._has_header_spans:
                memset(self.block.headers, 0, BLOCK_ROWS * sizeof(Span))
                self._has_header_spans = False
            return -1
        self._has_header_spans = True
        self._header_used = 0
        for row in range(self.rows):
            if self.block.status[row]:
                self.block.headers[row].start = self.block.headers[row].size = 0
                continue
            status = self._encode_row(self.first + row, &self.block.headers[row])
            if status < 0:
                return row if status == LEADS_OUTSIDE else status
            self.block.status[row] = <uint8_t> status
        return -1

    cdef int _encode_row(self, int64_t row, Span* span) noexcept nogil:
        """Encode the headers of a row of the chunk and set ``span``; size 0: there are none.

        Each cell is found once, and copied as it was measured: the application may change the offsets meanwhile.

        Returns:
            The row's status, or LEADS_OUTSIDE (of the data), or NO_MEMORY. Headers above the limit are fine here,
            and not copied: ``_check_sizes`` refuses the row for its size.
        """
        cdef Column* columns = self.chunk.columns
        cdef int64_t start, end, at
        cdef Py_ssize_t size, pair_size
        cdef Cell name, value
        cdef const char* text
        cdef char* place
        span.start = self._header_used
        span.size = 0
        if is_null(&columns[HEADERS], row):
            return ROW_IS_FINE
        if not range_at(&columns[HEADERS], row, &start, &end) or end > columns[HEADER].length:
            return LEADS_OUTSIDE
        if start == end:
            return ROW_IS_FINE
        size = varint_size(<uint64_t> (end - start) << 1)
        place = self._reserve_headers(size)
        if place == NULL:
            return NO_MEMORY
        put_varint(place, <uint64_t> (end - start) << 1)
        for at in range(start, end):
            if is_null(&columns[HEADER], at):
                return HEADER_IS_NULL
            if not (cell_at(&columns[HEADER_NAME], at, &name) and cell_at(&columns[HEADER_VALUE], at, &value)):
                return LEADS_OUTSIDE
            if name.size < 0:
                return HEADER_NAME_WRONG
            text = name.data
            pair_size = bytes_size(name.size) + bytes_size(value.size)
            if size + pair_size <= self._content_limit:
                place = self._reserve_headers(size + pair_size)
                if place == NULL:
                    return NO_MEMORY
                place = put_bytes(place + size, name.data, name.size)
                text = place - name.size
                put_bytes(place, value.data, value.size)
            if not is_utf8(<const uint8_t*> text, name.size):
                return HEADER_NAME_WRONG
            # Cells may share their bytes, so this sum needs a limit. Beyond it the row is too large already.
            size = min(size + pair_size, KP_MOST_BYTES)
        span.size = size
        if size <= self._content_limit:
            self._header_used += size
        return ROW_IS_FINE

    cdef char* _reserve_headers(self, Py_ssize_t size) noexcept nogil:
        """Where the next headers go, with room for ``size`` bytes; NULL: no memory."""
        cdef Py_ssize_t room = self._header_room
        if self._header_used + size > room:
            room = max(2 * room, self._header_used + size, 4096)
            grown = realloc(self.header_bytes, room)
            if grown == NULL:
                return NULL
            self.header_bytes = <char*> grown
            self._header_room = room
        return self.header_bytes + self._header_used

    cdef void _check_sizes(self) noexcept nogil:
        """Mark rows that are too large; count the bytes of all rows."""
        cdef Py_ssize_t row
        cdef int64_t size, content
        cdef int64_t total = 0
        for row in range(self.rows):
            content = max(self.block.values[row].size, 0) + max(self.block.keys[row].size, 0)
            total += content
            size = content + self.block.headers[row].size
            if size > self._content_limit and self.block.status[row] == ROW_IS_FINE:
                self.block.status[row] = TOO_LARGE
                self.block.details[row] = size
        self.content_bytes = total

    cdef void _mark_null_rows(self) noexcept nogil:
        cdef Py_ssize_t row
        cdef const Column* root = &self.chunk.columns[ROOT]
        if root.layout == STRUCT and root.validity != NULL:
            for row in range(self.rows):
                if is_null(root, self.first + row):
                    self.block.status[row] = ROW_IS_NULL

    # -- choosing targets --------------------------------------------------------------------------------

    cdef bint _has_one_target(self, int32_t partition) noexcept nogil:
        """Whether all rows have the same target."""
        cdef int32_t count
        if self.chunk.positions[TOPIC] >= 0 or self.chunk.has(PARTITION):
            return False
        count = self.topics[0].partition_count
        if count < 0 or partition >= count:
            return False
        return partition >= 0 or count == 1 or not (self._hashes_keys and self.chunk.has(KEY))

    cdef void _choose_one_target(self, int32_t partition) noexcept nogil:
        cdef Py_ssize_t row
        cdef Topic* topic = &self.topics[0]
        cdef int32_t target = topic.first_target + (
            partition if partition >= 0
            else 0 if self._hashes_keys and topic.partition_count == 1
            else topic.partition_count
        )
        for row in range(self.rows):
            self.block.targets[row] = target
        memset(self.block.details, 0, self.rows * sizeof(int64_t))
        self.counts[target] = <int32_t> self.rows
        self.block.touched[0] = target
        self.touched_count = 1
        self._put_in_plain_order()

    cdef Py_ssize_t _choose_targets(self, int32_t partition) noexcept nogil:
        """Give each fine row its target. Returns -1, or the first row whose topic was not added yet."""
        cdef Py_ssize_t row
        cdef Py_ssize_t number = 0
        cdef int64_t wanted
        cdef bint has_topics = self.chunk.positions[TOPIC] >= 0
        cdef Topic* topic
        for row in range(self.rows):
            if self.block.status[row]:
                continue
            if has_topics:
                if self.block.topic_names[row].size < 0:
                    self.block.status[row] = TOPIC_IS_NULL
                    continue
                number = self._find_topic(&self.block.topic_names[row], max(number, 0))
                if number < 0:
                    self.rows = row
                    return row
            topic = &self.topics[number]
            self.block.details[row] = number
            wanted = -1
            if topic.partition_count >= 0:
                wanted = self._wanted_partition(row, partition, topic.partition_count)
            if wanted < 0:
                self.block.status[row] = GENERAL_PATH
                continue
            self.block.targets[row] = topic.first_target + <int32_t> wanted
        return -1

    cdef int64_t _wanted_partition(self, Py_ssize_t row, int64_t partition, int32_t count) noexcept nogil:
        """The partition of a row; ``count``: the sticky partition; -1: the topic has no such partition."""
        if self.chunk.has(PARTITION) and not is_null(&self.chunk.columns[PARTITION], self.first + row):
            partition = integer_at(&self.chunk.columns[PARTITION], self.first + row)
            return partition if 0 <= partition < count else -1
        if partition >= 0:
            return partition if partition < count else -1
        if self._hashes_keys and count == 1:
            # All rows of such a topic stay in order.
            return 0
        if self._hashes_keys and self.block.keys[row].size >= 0:
            return partition_of_key(self.block.keys[row].data, self.block.keys[row].size, count)
        return count

    cdef void _sort_by_target(self) noexcept nogil:
        """Sort the fine rows by target: targets in the order of their first rows, rows of one in their order."""
        cdef Py_ssize_t row, at
        cdef int32_t target, count
        for row in range(self.rows):
            if self.block.status[row] == ROW_IS_FINE:
                target = self.block.targets[row]
                if self.counts[target] == 0:
                    self.block.touched[self.touched_count] = target
                    self.touched_count += 1
                self.counts[target] += 1
        if self.touched_count == 1 and self.counts[self.block.touched[0]] == self.rows:
            self._put_in_plain_order()
            return
        self.order_is_plain = self._order_is_filled = False
        at = 0
        for row in range(self.touched_count):
            target = self.block.touched[row]
            count = self.counts[target]
            self.counts[target] = <int32_t> at
            at += count
        for row in range(self.rows):
            if self.block.status[row] == ROW_IS_FINE:
                target = self.block.targets[row]
                self.block.order[self.counts[target]] = <int32_t> row
                self.counts[target] += 1
        # Each count is now the end of its target's rows: turn it back into a number of rows.
        at = 0
        for row in range(self.touched_count):
            target = self.block.touched[row]
            count = self.counts[target]
            self.counts[target] = count - <int32_t> at
            at = count

    cdef void _put_in_plain_order(self) noexcept nogil:
        cdef Py_ssize_t row
        self.order_is_plain = True
        if not self._order_is_filled:
            self._order_is_filled = True
            for row in range(BLOCK_ROWS):
                self.block.order[row] = <int32_t> row

    # -- sums --------------------------------------------------------------------------------------------

    cdef bint _are_all_fine(self) noexcept nogil:
        cdef Py_ssize_t row
        cdef uint8_t found = 0
        for row in range(self.rows):
            found |= self.block.status[row]
        return found == ROW_IS_FINE

    cdef void _sum_content(self) noexcept nogil:
        """Count the bytes of the rows that are not refused."""
        cdef Py_ssize_t row
        cdef int64_t total = 0
        for row in range(self.rows):
            if self.block.status[row] == ROW_IS_FINE or self.block.status[row] == GENERAL_PATH:
                total += max(self.block.values[row].size, 0) + max(self.block.keys[row].size, 0)
        self.content_bytes = total

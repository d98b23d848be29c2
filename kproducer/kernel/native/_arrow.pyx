# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False
"""ArrowRows: the rows of Arrow chunks as records of partitions, without a Python object for a row.

A block of rows is planned at a time: cells found, headers encoded, rows that cannot be sent marked, keys
hashed, and the rows sorted by partition (each partition's rows stay in their order). Then each partition's
rows are written into its open batch in one run. What does not fit is handed out, one record, for the slow way.
The compiled twin of ``pure/arrow.py``, which describes the interface. Knows no policy and no time.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

from kproducer.kernel.native._append cimport (
    Lane,
    RecordAppender,
    StickyPartition,
    TopicLanes,
    stay_ends,
)
from kproducer.kernel.native._arrow_chunk cimport (
    HEADER, HEADER_NAME, HEADER_VALUE, HEADERS, KEY, PARTITION, ROOT, TIMESTAMP, TOPIC, VALUE, ChunkColumns,
)
from kproducer.kernel.native._arrow_columns cimport (
    ALL_NULL, STRUCT, Cell, Column, cell_at, epoch_ms_at, integer_at, is_null, is_utf8, range_at, resolve,
)
from kproducer.kernel.native._arrow_source cimport ArrowSource
from kproducer.kernel.native._batch cimport BatchWriter, murmur2_raw

from kproducer.errors import InvalidArgumentError
from kproducer.kernel.arrow_columns import BLOCK_ROWS, REASONS

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define KP_PREFETCH(address) __builtin_prefetch(address)
    #else
    #define KP_PREFETCH(address) ((void)0)
    #endif
    """
    void KP_PREFETCH(const void* address) noexcept nogil

cdef enum:
    # Status of a row: 0 is fine, the others are places in REASONS.
    _ROW_IS_NULL = 1
    _TOPIC_IS_NULL
    _TOPIC_FAILED
    _PARTITION_WRONG
    _TIMESTAMP_WRONG
    _TOO_LARGE
    _HEADER_IS_NULL
    _HEADER_NAME_WRONG

    _OVERHEAD = 61 + 36         # of record_size_upper_bound: a batch's header and a record's at its longest
    _STICKY_OVERHEAD = 9        # RecordAccumulator's estimate of a record's, for the sticky choice
    _LONG_RUN_BYTES = 256 * 1024  # a fraction of a millisecond; for less the interpreter lock is kept
    _NO_MEMORY = -2
    _AHEAD = 8                  # rows whose bytes are asked for before they are written

assert len(REASONS) == _HEADER_NAME_WRONG + 1


cdef struct _Span:
    Py_ssize_t start
    Py_ssize_t size


cdef struct _Topic:
    char* name
    Py_ssize_t size
    int32_t partition_count     # -1: its rows are refused
    int32_t first_target        # as many targets follow as it has partitions, and one for the sticky choice


cdef class ArrowRows:
    """See the pure twin. For one thread; rows are counted from the start of the chunk at hand.

    Attributes:
        content_bytes: keys and values of all rows that were planned and not refused.
        refusals: (row, reason, topic number, detail) of the block planned last.
        unknown_topic: the name that ended the last plan early, else ``None``.
        owner_counts: rows by owner, for those that are not kept in places.
    """

    cdef ArrowSource _source
    cdef ChunkColumns _chunk
    # Those of _chunk.
    cdef int* _positions
    cdef Column* _columns
    # Changes with every plan: what is Python code on the way may call anything.
    cdef long long _plan_number
    cdef bint _hashes_keys
    cdef long long _size_limit
    cdef Py_ssize_t _block_rows
    # The block.
    cdef int64_t _first
    cdef Py_ssize_t _rows
    cdef int64_t _block_bytes
    cdef Cell* _values
    cdef Cell* _keys
    cdef int64_t* _timestamps
    cdef _Span* _headers
    cdef int32_t* _targets
    cdef int32_t* _order
    cdef uint8_t* _status
    cdef int64_t* _details
    cdef char* _header_bytes
    cdef Py_ssize_t _header_room
    cdef Py_ssize_t _header_used
    cdef int _fault_column
    # Targets: partitions of topics, sticky choices. Rows by target, then the targets of the block.
    cdef int32_t* _counts
    cdef int32_t* _touched
    cdef Py_ssize_t _target_count
    cdef Py_ssize_t _touched_count
    cdef Py_ssize_t _touched_at
    cdef Py_ssize_t _run_at
    cdef Py_ssize_t _run_end
    # Topics, by number, and a hash table of their numbers (-1: free).
    cdef _Topic* _topics
    cdef Py_ssize_t _topic_count
    cdef int32_t* _table
    cdef Py_ssize_t _table_size
    cdef list _lanes
    # Where to note what became of rows.
    cdef object _places
    cdef int[::1] _owner_numbers
    cdef int[::1] _indexes
    cdef long long[::1] _place_timestamps
    cdef int[::1] _key_sizes
    cdef int[::1] _value_sizes
    cdef Py_ssize_t _places_start
    cdef readonly dict owner_counts
    cdef readonly long long content_bytes
    cdef readonly list refusals
    cdef readonly object unknown_topic

    def __cinit__(
        self,
        ArrowSource source not None,
        columns: tuple[int, int, int, int, int, int],
        size_limit: int,
        hashes_keys: bool,
    ):
        self._source = source
        self._chunk = ChunkColumns(source, columns)
        self._positions = self._chunk.positions
        self._columns = self._chunk.columns
        self._size_limit = size_limit
        self._hashes_keys = hashes_keys
        self._lanes = []
        self.owner_counts = {}
        self.refusals = []
        self._block_rows = BLOCK_ROWS
        self._values = <Cell*> malloc(self._block_rows * sizeof(Cell))
        self._keys = <Cell*> malloc(self._block_rows * sizeof(Cell))
        self._timestamps = <int64_t*> malloc(self._block_rows * sizeof(int64_t))
        self._headers = <_Span*> malloc(self._block_rows * sizeof(_Span))
        self._targets = <int32_t*> malloc(self._block_rows * sizeof(int32_t))
        self._order = <int32_t*> malloc(self._block_rows * sizeof(int32_t))
        self._status = <uint8_t*> malloc(self._block_rows)
        self._details = <int64_t*> malloc(self._block_rows * sizeof(int64_t))
        self._touched = <int32_t*> malloc(self._block_rows * sizeof(int32_t))
        if (
            self._values == NULL or self._keys == NULL or self._timestamps == NULL or self._headers == NULL
            or self._targets == NULL or self._order == NULL or self._status == NULL
            or self._details == NULL or self._touched == NULL
        ):
            raise MemoryError

    def __dealloc__(self):
        cdef Py_ssize_t number
        for number in range(self._topic_count):
            free(self._topics[number].name)
        free(self._values)
        free(self._keys)
        free(self._timestamps)
        free(self._headers)
        free(self._targets)
        free(self._order)
        free(self._status)
        free(self._details)
        free(self._touched)
        free(self._counts)
        free(self._header_bytes)
        free(self._topics)
        free(self._table)

    def __init__(
        self,
        source: ArrowSource,
        columns: tuple[int, int, int, int, int, int],
        size_limit: int,
        hashes_keys: bool,
    ) -> None:
        pass

    # -- topics ------------------------------------------------------------------------------------------

    def add_topic(self, name: str, partition_count: int, lanes: object) -> int:
        cdef bytes encoded = name.encode()
        cdef Py_ssize_t size = PyBytes_GET_SIZE(encoded)
        cdef int32_t count = partition_count
        if count < -1 or count == 0:
            raise ValueError(f"a topic cannot have {count} partitions")
        self._source.check_idle()
        cdef Py_ssize_t targets = self._target_count + (count + 1 if count >= 0 else 0)
        cdef _Topic* topic
        cdef void* grown = realloc(self._topics, (self._topic_count + 1) * sizeof(_Topic))
        if grown == NULL:
            raise MemoryError
        self._topics = <_Topic*> grown
        grown = realloc(self._counts, max(targets, 1) * sizeof(int32_t))
        if grown == NULL:
            raise MemoryError
        self._counts = <int32_t*> grown
        memset(&self._counts[self._target_count], 0, (targets - self._target_count) * sizeof(int32_t))
        topic = &self._topics[self._topic_count]
        topic.name = <char*> malloc(max(size, 1))
        if topic.name == NULL:
            raise MemoryError
        memcpy(topic.name, PyBytes_AS_STRING(encoded), size)
        topic.size = size
        topic.partition_count = count
        topic.first_target = <int32_t> self._target_count
        self._topic_count += 1
        self._target_count = targets
        self._lanes.append(lanes)
        self._rebuild_table()
        return self._topic_count - 1

    cdef int _rebuild_table(self) except -1:
        cdef Py_ssize_t number, at
        cdef Py_ssize_t size = 16
        while size < 2 * self._topic_count:
            size *= 2
        grown = <int32_t*> realloc(self._table, size * sizeof(int32_t))
        if grown == NULL:
            raise MemoryError
        self._table = grown
        self._table_size = size
        memset(self._table, 0xFF, size * sizeof(int32_t))
        for number in range(self._topic_count):
            at = murmur2_raw(<const unsigned char*> self._topics[number].name, self._topics[number].size)
            at &= size - 1
            while self._table[at] >= 0:
                at = (at + 1) & (size - 1)
            self._table[at] = <int32_t> number
        return 0

    cdef Py_ssize_t _find_topic(self, const Cell* name) noexcept nogil:
        """The number of the topic, or -1."""
        cdef Py_ssize_t at, number
        if self._table_size == 0:
            return -1
        at = murmur2_raw(<const unsigned char*> name.data, name.size) & <uint32_t> (self._table_size - 1)
        while True:
            number = self._table[at]
            if number < 0:
                return -1
            if self._is_name_of(number, name):
                return number
            at = (at + 1) & (self._table_size - 1)

    cdef inline bint _is_name_of(self, Py_ssize_t number, const Cell* name) noexcept nogil:
        cdef _Topic* topic = &self._topics[number]
        return topic.size == name.size and memcmp(topic.name, name.data, name.size) == 0

    # -- chunks ------------------------------------------------------------------------------------------

    def start_chunk(self, places: object = None, first_place: int = 0) -> None:
        self._forget_block()
        self._chunk.let_go()
        if first_place < 0:
            raise ValueError("places are counted from 0")
        self._places = places
        if places is not None:
            self._places_start = first_place
            self._owner_numbers = places.owner_numbers
            self._indexes = places.indexes
            self._place_timestamps = places.timestamps_ms
            self._key_sizes = places.key_sizes
            self._value_sizes = places.value_sizes
            if min(
                self._owner_numbers.shape[0], self._indexes.shape[0], self._place_timestamps.shape[0],
                self._key_sizes.shape[0], self._value_sizes.shape[0],
            ) < first_place + self._source.chunk_rows:
                raise ValueError("too few places")
        # At the end: what a stranger's places run on the way finds no chunk.
        self._chunk.bind_chunk()

    def end_chunk(self) -> None:
        self._forget_block()
        self._chunk.let_go()
        self._places = None
        self._owner_numbers = self._indexes = self._key_sizes = self._value_sizes = None
        self._place_timestamps = None

    cdef int _forget_block(self) except -1:
        cdef Py_ssize_t target
        self._source.check_idle()
        self._plan_number += 1
        for target in range(self._touched_count):
            self._counts[self._touched[target]] = 0
        self._rows = self._touched_count = self._touched_at = self._run_at = self._run_end = 0
        return 0

    # -- planning ----------------------------------------------------------------------------------------

    def plan(self, first_row: int, timestamp_ms: int, partition: int) -> int:
        cdef Py_ssize_t fault
        cdef int64_t default_timestamp = timestamp_ms
        cdef int32_t default_partition = partition
        cdef Py_ssize_t stop_row = -1
        self._chunk.check_chunk()
        if not 0 <= first_row <= self._source.chunk_rows:
            raise IndexError(first_row)
        if self._positions[TOPIC] < 0 and not self._topic_count:
            raise ValueError("there is no topic")
        self._forget_block()
        self._first = first_row
        self._rows = min(self._block_rows, self._source.chunk_rows - first_row)
        self.refusals = []
        self.unknown_topic = None
        if not self._rows:
            return first_row
        self._source.busy = True
        with nogil:
            fault = self._find_cells(default_timestamp)
            if fault == -1:
                stop_row = self._choose_targets(default_partition)
                self._sort_by_target()
        self._source.busy = False
        if fault == _NO_MEMORY:
            self._rows = 0
            raise MemoryError
        if fault >= 0:
            self._rows = 0
            raise InvalidArgumentError(
                f"this is no valid Arrow data: row {first_row + fault} of the chunk in column "
                f"{self._source.names[self._positions[self._fault_column]]!r} leads outside of its data"
            )
        if stop_row >= 0:
            self._note_unknown_topic(stop_row)
        self._note_planned()
        return first_row + self._rows

    cdef Py_ssize_t _find_cells(self, int64_t default_timestamp) noexcept nogil:
        """Fill values, keys, timestamps, headers and status. Returns -1, a faulty row or _NO_MEMORY."""
        cdef Py_ssize_t row, fault
        cdef Cell topic
        memset(self._status, 0, self._rows)
        self._fault_column = VALUE
        fault = resolve(&self._columns[VALUE], self._first, self._rows, self._values)
        if fault >= 0:
            return fault
        if self._positions[KEY] >= 0:
            self._fault_column = KEY
            fault = resolve(&self._columns[KEY], self._first, self._rows, self._keys)
            if fault >= 0:
                return fault
        else:
            for row in range(self._rows):
                self._keys[row].data = NULL
                self._keys[row].size = -1
        if self._positions[TOPIC] >= 0:
            self._fault_column = TOPIC
            for row in range(self._rows):
                if not cell_at(&self._columns[TOPIC], self._first + row, &topic):
                    return row
        self._find_timestamps(default_timestamp)
        if self._positions[HEADERS] >= 0 and self._columns[HEADERS].layout != ALL_NULL:
            self._fault_column = HEADERS
            self._header_used = 0
            for row in range(self._rows):
                if not self._encode_headers(row):
                    return row
                if self._headers[row].size < 0:
                    return _NO_MEMORY
        else:
            memset(self._headers, 0, self._rows * sizeof(_Span))
        self._check_sizes()
        if self._columns[ROOT].layout == STRUCT and self._columns[ROOT].validity != NULL:
            for row in range(self._rows):
                if is_null(&self._columns[ROOT], self._first + row):
                    self._status[row] = _ROW_IS_NULL
        return -1

    cdef void _find_timestamps(self, int64_t default_timestamp) noexcept nogil:
        cdef Py_ssize_t row
        cdef const Column* column = &self._columns[TIMESTAMP]
        if self._positions[TIMESTAMP] < 0 or column.layout == ALL_NULL:
            for row in range(self._rows):
                self._timestamps[row] = default_timestamp
            return
        for row in range(self._rows):
            if is_null(column, self._first + row):
                self._timestamps[row] = default_timestamp
                continue
            self._timestamps[row] = epoch_ms_at(column, self._first + row)
            if self._timestamps[row] < 0:
                self._status[row] = _TIMESTAMP_WRONG

    cdef void _check_sizes(self) noexcept nogil:
        cdef Py_ssize_t row
        cdef int64_t size
        for row in range(self._rows):
            if self._status[row]:
                continue
            size = _OVERHEAD + self._headers[row].size
            # Each is below 2**48 or refused by the next line: no sum overflows.
            if self._values[row].size > 0:
                size += self._values[row].size
            if self._keys[row].size > 0:
                size += self._keys[row].size
            if size > self._size_limit:
                self._status[row] = _TOO_LARGE
                self._details[row] = size

    cdef bint _encode_headers(self, Py_ssize_t row) noexcept nogil:
        """Encode the headers of a row as they lie in a record; ``False``: they lead outside of the data."""
        cdef const Column* column = &self._columns[HEADERS]
        cdef int64_t start, end, at
        cdef Py_ssize_t size
        cdef Cell name, value
        self._headers[row].start = self._header_used
        self._headers[row].size = 0
        if self._status[row] or is_null(column, self._first + row):
            return True
        if not range_at(column, self._first + row, &start, &end) or end > self._columns[HEADER].length:
            return False
        if start == end:
            return True
        size = _varint_size(end - start)
        for at in range(start, end):
            if is_null(&self._columns[HEADER], at):
                self._status[row] = _HEADER_IS_NULL
                return True
            if not cell_at(&self._columns[HEADER_NAME], at, &name):
                return False
            if not cell_at(&self._columns[HEADER_VALUE], at, &value):
                return False
            if name.size < 0 or not is_utf8(<const uint8_t*> name.data, name.size):
                self._status[row] = _HEADER_NAME_WRONG
                return True
            size += _varint_size(name.size) + name.size + _varint_size(value.size) + max(value.size, 0)
        # What is too large is not copied: _check_sizes() refuses it.
        self._headers[row].size = size
        if size > self._size_limit:
            return True
        if not self._reserve(size):
            self._headers[row].size = -1
            return True
        self._put_varint(end - start)
        for at in range(start, end):
            cell_at(&self._columns[HEADER_NAME], at, &name)
            cell_at(&self._columns[HEADER_VALUE], at, &value)
            self._put_cell(&name)
            self._put_cell(&value)
        return True

    cdef bint _reserve(self, Py_ssize_t size) noexcept nogil:
        cdef Py_ssize_t room = self._header_room
        if self._header_used + size > room:
            room = max(2 * room, self._header_used + size, 4096)
            grown = realloc(self._header_bytes, room)
            if grown == NULL:
                return False
            self._header_bytes = <char*> grown
            self._header_room = room
        return True

    cdef void _put_varint(self, int64_t value) noexcept nogil:
        cdef uint64_t rest = _zigzag(value)
        while rest > 0x7F:
            self._header_bytes[self._header_used] = <char> ((rest & 0x7F) | 0x80)
            self._header_used += 1
            rest >>= 7
        self._header_bytes[self._header_used] = <char> rest
        self._header_used += 1

    cdef void _put_cell(self, const Cell* cell) noexcept nogil:
        self._put_varint(cell.size)
        if cell.size > 0:
            memcpy(self._header_bytes + self._header_used, cell.data, cell.size)
            self._header_used += cell.size

    cdef Py_ssize_t _choose_targets(self, int32_t default_partition) noexcept nogil:
        """Give each row that is fine its target. Returns -1, or the row with a topic that is not known."""
        cdef Py_ssize_t row
        cdef Py_ssize_t number = 0
        cdef int64_t partition
        cdef bint has_partitions = (
            self._positions[PARTITION] >= 0 and self._columns[PARTITION].layout != ALL_NULL
        )
        cdef bint has_topics = self._positions[TOPIC] >= 0
        cdef _Topic* topic
        cdef Cell name
        cdef uint32_t hashed
        for row in range(self._rows):
            if self._status[row]:
                continue
            if has_topics:
                cell_at(&self._columns[TOPIC], self._first + row, &name)
                if name.size < 0:
                    self._status[row] = _TOPIC_IS_NULL
                    continue
                if self._topic_count == 0 or not self._is_name_of(number, &name):
                    number = self._find_topic(&name)
                    if number < 0:
                        self._rows = row
                        return row
            topic = &self._topics[number]
            self._details[row] = number
            if topic.partition_count < 0:
                self._status[row] = _TOPIC_FAILED
                continue
            partition = default_partition
            if has_partitions and not is_null(&self._columns[PARTITION], self._first + row):
                partition = integer_at(&self._columns[PARTITION], self._first + row)
                if partition < 0:
                    partition = topic.partition_count
            if partition < 0:
                if self._hashes_keys and topic.partition_count == 1:
                    partition = 0
                elif self._hashes_keys and self._keys[row].size >= 0:
                    hashed = murmur2_raw(<const unsigned char*> self._keys[row].data, self._keys[row].size)
                    partition = (hashed & 0x7FFFFFFF) % <uint32_t> topic.partition_count
                else:
                    partition = topic.partition_count
            elif partition >= topic.partition_count:
                self._status[row] = _PARTITION_WRONG
                continue
            self._targets[row] = topic.first_target + <int32_t> partition
        return -1

    cdef void _sort_by_target(self) noexcept nogil:
        """Sort the rows that are fine by target, targets as they come first, rows of one in their order."""
        cdef Py_ssize_t row, at
        cdef int32_t target, count
        for row in range(self._rows):
            if self._status[row] == 0:
                target = self._targets[row]
                if self._counts[target] == 0:
                    self._touched[self._touched_count] = target
                    self._touched_count += 1
                self._counts[target] += 1
        if self._touched_count == 1 and self._counts[self._touched[0]] == self._rows:
            for row in range(self._rows):
                self._order[row] = <int32_t> row
            return
        at = 0
        for row in range(self._touched_count):
            target = self._touched[row]
            count = self._counts[target]
            self._counts[target] = <int32_t> at
            at += count
        for row in range(self._rows):
            if self._status[row] == 0:
                target = self._targets[row]
                self._order[self._counts[target]] = <int32_t> row
                self._counts[target] += 1
        # Each count is the end of its target's rows now; back to counts, which is what they are between blocks.
        at = 0
        for row in range(self._touched_count):
            target = self._touched[row]
            count = self._counts[target]
            self._counts[target] = count - <int32_t> at
            at = count

    cdef int _note_unknown_topic(self, Py_ssize_t row) except -1:
        cdef Cell name
        cell_at(&self._columns[TOPIC], self._first + row, &name)
        self.unknown_topic = PyBytes_FromStringAndSize(name.data, name.size).decode("utf-8", "replace")
        return 0

    cdef int _note_planned(self) except -1:
        """Count what will be sent, and note what is known of the rows already."""
        cdef Py_ssize_t row
        cdef int64_t content = 0
        for row in range(self._rows):
            if self._status[row]:
                topic = 0 if self._positions[TOPIC] < 0 else -1
                if self._status[row] in (_TOPIC_FAILED, _PARTITION_WRONG):
                    topic = self._details[row]
                detail = -1
                if self._status[row] == _PARTITION_WRONG and self._positions[PARTITION] >= 0:
                    detail = integer_at(&self._columns[PARTITION], self._first + row)
                elif self._status[row] == _TOO_LARGE:
                    detail = self._details[row]
                self.refusals.append((self._first + row, REASONS[self._status[row]], topic, detail))
            else:
                content += max(self._values[row].size, 0) + max(self._keys[row].size, 0)
        self.content_bytes += content
        self._block_bytes = content
        if self._places is not None:
            self._note_sizes()
        return 0

    cdef void _note_sizes(self) noexcept:
        cdef Py_ssize_t row
        cdef Py_ssize_t place = self._places_start + self._first
        for row in range(self._rows):
            self._place_timestamps[place + row] = self._timestamps[row]
            # A size that does not fit is that of a record which is refused.
            self._key_sizes[place + row] = <int> self._keys[row].size
            self._value_sizes[place + row] = <int> self._values[row].size

    # -- appending ---------------------------------------------------------------------------------------

    def append_planned(self, snapshot: object) -> int:
        cdef int32_t target
        cdef Py_ssize_t row
        self._chunk.check_chunk()
        while True:
            while self._run_at < self._run_end:
                if not self._append_run(self._touched[self._touched_at - 1], snapshot):
                    row = self._order[self._run_at]
                    self._run_at += 1
                    return self._first + row
            if self._touched_at >= self._touched_count:
                return -1
            target = self._touched[self._touched_at]
            self._touched_at += 1
            self._run_end += self._counts[target]

    def destination(self, row: int) -> tuple[int, int]:
        cdef Py_ssize_t at = self._planned(row)
        if self._status[at]:
            raise IndexError(row)
        cdef Py_ssize_t topic = self._details[at]
        cdef Py_ssize_t partition = self._targets[at] - self._topics[topic].first_target
        return topic, -1 if partition == self._topics[topic].partition_count else partition

    def record(self, row: int) -> tuple[int, bytes | None, bytes | None, Headers | None]:
        cdef Py_ssize_t at = self._planned(row)
        return self._timestamps[at], _bytes(&self._keys[at]), _bytes(&self._values[at]), self._pairs(at)

    cdef list _pairs(self, Py_ssize_t at):
        """The headers of a row that was planned and is fine; ``None`` for none."""
        cdef int64_t start, end, number
        cdef Cell name, value
        if self._headers[at].size <= 0:
            return None
        pairs = []
        range_at(&self._columns[HEADERS], self._first + at, &start, &end)
        for number in range(start, end):
            cell_at(&self._columns[HEADER_NAME], number, &name)
            cell_at(&self._columns[HEADER_VALUE], number, &value)
            pairs.append((_bytes(&name).decode(), _bytes(&value)))
        return pairs

    cdef Py_ssize_t _planned(self, int64_t row) except -1:
        self._chunk.check_chunk()
        if not self._first <= row < self._first + self._rows:
            raise IndexError(row)
        return row - self._first

    cdef bint _append_run(self, int32_t target, object snapshot) except -1:
        """Write rows of one target, as many as its open batch takes. ``False``: none."""
        cdef Py_ssize_t number = self._details[self._order[self._run_at]]
        cdef _Topic* topic = &self._topics[number]
        cdef TopicLanes lanes = self._lanes[number]
        if lanes is None:
            return False
        cdef Py_ssize_t partition = target - topic.first_target
        cdef StickyPartition sticky = None
        if partition == topic.partition_count:
            if lanes.partitioner is None or lanes.partitioner.current is None:
                return False
            sticky = lanes.partitioner.current
            partition = sticky.partition
        cdef Lane lane = lanes.lane(partition)
        if lane is None or lane.appender is None:
            return False
        # Taking the interpreter lock back from a busy I/O thread may take longer than all of a short run.
        if min(
            lane.appender.writer.limit - lane.appender.writer.position,
            (self._run_end - self._run_at) * (self._block_bytes // self._rows),
        ) > _LONG_RUN_BYTES:
            return self._append_long_run(lanes, lane, sticky, snapshot)
        return self._append_short_run(lanes, lane, sticky, snapshot)

    cdef bint _append_short_run(self, TopicLanes lanes, Lane lane, StickyPartition sticky,
                                object snapshot) except -1:
        """With the interpreter lock: see the rule in ``_append.pxd``."""
        cdef RecordAppender appender = lane.appender
        cdef Py_ssize_t start = self._run_at
        cdef long long index
        cdef long long plan_number = self._plan_number
        number = self._owner_number(appender.owner)
        # That was Python code: another thread may have closed the batch meanwhile, or ended the stay.
        self._check_plan(plan_number)
        if lane.appender is not appender or (sticky is not None and lanes.partitioner.current is not sticky):
            return False
        index = appender.writer.record_count
        self._run_at = self._write(appender.writer, sticky, start, self._run_end)
        self._note_run(appender.owner, number, index, start)
        if sticky is not None and self._run_at > start and stay_ends(sticky, appender.writer):
            lanes.end_stay(sticky, lane, snapshot)
        return self._run_at > start

    cdef bint _append_long_run(self, TopicLanes lanes, Lane lane, StickyPartition sticky,
                               object snapshot) except -1:
        """Without the interpreter lock: the lane is ours alone meanwhile."""
        cdef RecordAppender appender = lane.appender
        cdef Py_ssize_t start = self._run_at
        cdef Py_ssize_t end = start
        cdef long long index
        cdef bint stay_is_over = False
        cdef long long plan_number = self._plan_number
        # While the lock is held no Python code runs: a signal handler in it could wait for us for ever.
        number = self._owner_number(appender.owner)
        lock = lane.lock
        acquire = lock.acquire
        release = lock.release
        acquire()
        if self._plan_number != plan_number or not self._chunk.is_bound():
            release()
            self._check_plan(plan_number)
        if lane.appender is not appender or (sticky is not None and lanes.partitioner.current is not sticky):
            release()
            return False
        index = appender.writer.record_count
        lane.appender = None
        self._source.busy = True
        with nogil:
            end = self._write(appender.writer, sticky, start, self._run_end)
            stay_is_over = sticky is not None and stay_ends(sticky, appender.writer)
        self._source.busy = False
        # It may be closed by now. Then its batch takes a few more records, and goes out with them.
        lane.appender = appender
        release()
        self._run_at = end
        self._note_run(appender.owner, number, index, start)
        if stay_is_over and end > start:
            lanes.end_stay(sticky, lane, snapshot)
        return end > start

    cdef Py_ssize_t _write(self, BatchWriter writer, StickyPartition sticky, Py_ssize_t at,
                           Py_ssize_t end) noexcept nogil:
        """Write rows of the sorted block until one does not fit, or the stay at a partition ends."""
        cdef Py_ssize_t row
        cdef const char* headers
        cdef long long produced = 0
        while at < end:
            if at + _AHEAD < end:
                # Sorted by partition, rows lie where the processor does not expect them.
                row = self._order[at + _AHEAD]
                KP_PREFETCH(self._values[row].data)
                KP_PREFETCH(self._values[row].data + 64)
                KP_PREFETCH(self._keys[row].data)
            row = self._order[at]
            headers = NULL
            if self._headers[row].size:
                headers = self._header_bytes + self._headers[row].start
            if not writer.append_raw(
                self._timestamps[row], self._keys[row].data, self._keys[row].size,
                self._values[row].data, self._values[row].size, headers, self._headers[row].size,
            ):
                break
            at += 1
            if sticky is not None:
                sticky.produced_bytes += (
                    _STICKY_OVERHEAD + max(self._keys[row].size, 0) + max(self._values[row].size, 0)
                )
                if stay_ends(sticky, writer):
                    break
        return at

    cdef int _check_plan(self, long long number) except -1:
        self._chunk.check_chunk()
        if self._plan_number != number:
            raise RuntimeError("the block was planned anew while it was written")
        return 0

    cdef long long _owner_number(self, object owner) except -1:
        return 0 if self._places is None else self._places.number_of(owner)

    cdef int _note_run(self, object owner, long long number, long long index, Py_ssize_t start) except -1:
        """Note whose the rows from ``start`` to where the run is now are; ``index``: of the first one."""
        cdef Py_ssize_t at, place
        cdef Py_ssize_t first = self._places_start + self._first
        if self._places is None:
            if self._run_at > start:
                self.owner_counts[owner] = self.owner_counts.get(owner, 0) + self._run_at - start
            return 0
        for at in range(start, self._run_at):
            place = first + self._order[at]
            self._indexes[place] = <int> (index + at - start)
            self._owner_numbers[place] = <int> number
        return 0


cdef inline uint64_t _zigzag(int64_t value) noexcept nogil:
    return (<uint64_t> value << 1) ^ (0 - (<uint64_t> value >> 63))


cdef inline Py_ssize_t _varint_size(int64_t value) noexcept nogil:
    cdef uint64_t rest = _zigzag(value)
    cdef Py_ssize_t size = 1
    while rest > 0x7F:
        size += 1
        rest >>= 7
    return size


cdef object _bytes(const Cell* cell):
    return None if cell.size < 0 else PyBytes_FromStringAndSize(cell.data, cell.size)

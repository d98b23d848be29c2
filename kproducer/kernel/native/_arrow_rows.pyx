# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False
"""ArrowRows: writes the rows of Arrow chunks into open batches, without a Python object per row.

Plans a block of rows at a time (``_arrow_plan.pyx``), then writes each partition's rows into its open batch in one
run. Hands out the rows that it cannot write; the caller sends them one by one.
The pure twin in ``pure/arrow.py`` writes none; it describes the interface.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t

from kproducer.kernel.native._append cimport (
    AppendSlot, RecordAppender, StickyPartition, TopicSlots, count_record, should_switch_partition,
)
from kproducer.kernel.native._arrow_plan cimport (
    BLOCK_ROWS, GENERAL_PATH, NO_MEMORY, ROW_IS_FINE, TOO_LARGE, BlockPlan, BlockRows, Topic,
)
from kproducer.kernel.native._arrow_reader cimport (
    HEADER, HEADER_NAME, HEADER_VALUE, HEADERS, PARTITION, TOPIC, ArrowSource, Cell, ChunkColumns, Column, cell_at,
    integer_at, is_null, range_at,
)
from kproducer.kernel.native._batch cimport BatchWriter, Record, put_record

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define KP_PREFETCH(address) __builtin_prefetch(address)
    #define KP_PREFETCH_TO_WRITE(address) __builtin_prefetch(address, 1)
    #else
    #define KP_PREFETCH(address) ((void)0)
    #define KP_PREFETCH_TO_WRITE(address) ((void)0)
    #endif
    """
    void KP_PREFETCH(const void* address) noexcept nogil
    void KP_PREFETCH_TO_WRITE(const void* address) noexcept nogil

cdef enum:
    _LONG_RUN_BYTES = 256 * 1024  # a fraction of a millisecond; shorter runs keep the interpreter lock
    _AHEAD = 8                  # rows whose bytes are prefetched before they are written
    _AHEAD_BYTES = 1024         # likewise, of the buffer that they are written to


cdef class ArrowRows:
    """See the pure twin. For one thread; rows are counted from the start of the current chunk."""

    cdef ArrowSource _source
    cdef ChunkColumns _chunk
    cdef BlockPlan _plan
    # Changes with every plan: Python code that runs on the way may call any method.
    cdef long long _plan_number
    # The next row to look at for one that is not fine.
    cdef Py_ssize_t _alone_at
    # The current target is the last one before _touched_at; the run is its rows in the plan's order.
    cdef Py_ssize_t _touched_at
    cdef Py_ssize_t _run_at
    cdef Py_ssize_t _run_end
    # The caller's; see start_chunk. Columns that it does not have are None.
    cdef dict _owners
    cdef list _runs
    cdef int[::1] _owner_numbers
    cdef int[::1] _indexes
    cdef long long[::1] _timestamps
    cdef int[::1] _key_sizes
    cdef int[::1] _value_sizes
    cdef Py_ssize_t _first_location
    cdef readonly long long content_bytes
    cdef readonly object unknown_topic

    def __cinit__(
        self,
        ArrowSource source not None,
        columns: tuple[int, int, int, int, int, int],
        content_limit: int,
        hashes_keys: bool,
    ):
        self._source = source
        self._chunk = ChunkColumns(source, columns)
        self._plan = BlockPlan(self._chunk, content_limit, hashes_keys)

    def add_topic(self, bytes name not None, partition_count: int, TopicSlots slots) -> None:
        cdef int32_t count = partition_count
        if count < -1 or count == 0:
            raise ValueError(f"a topic cannot have {count} partitions")
        self._source.check_idle()
        self._plan.add_topic(name, count, slots)

    # -- chunks ------------------------------------------------------------------------------------------

    def start_chunk(self, Py_ssize_t first_location, dict owners not None, list runs=None, owner_numbers=None,
                    indexes=None, timestamps_ms=None, key_sizes=None, value_sizes=None) -> None:
        self._forget_block()
        self._chunk.unbind()
        self._release_locations()
        if first_location < 0:
            raise ValueError(f"locations are counted from 0, not from {first_location}")
        for column in (owner_numbers, indexes, timestamps_ms, key_sizes, value_sizes):
            if column is not None and len(column) - first_location < self._source.chunk_rows:
                raise ValueError(f"{len(column)} locations for {self._source.chunk_rows} rows "
                                 f"from {first_location} on")
        if owner_numbers is not None and indexes is None:
            raise ValueError("owner_numbers need indexes")
        self._first_location = first_location
        self._owners = owners
        self._runs = runs
        self._owner_numbers = owner_numbers
        self._indexes = indexes
        self._timestamps = timestamps_ms
        self._key_sizes = key_sizes
        self._value_sizes = value_sizes
        self._chunk.bind_chunk()

    def end_chunk(self) -> None:
        self._forget_block()
        self._chunk.unbind()
        self._release_locations()

    cdef int _release_locations(self) except -1:
        self._owners = self._runs = None
        self._owner_numbers = self._indexes = self._key_sizes = self._value_sizes = None
        self._timestamps = None
        return 0

    cdef int _forget_block(self) except -1:
        self._source.check_idle()
        self._plan_number += 1
        self._plan.forget()
        self._alone_at = self._touched_at = self._run_at = self._run_end = 0
        return 0

    # -- planning ----------------------------------------------------------------------------------------

    def plan(self, first_row: int, timestamp_ms: int, partition: int) -> int:
        cdef BlockPlan plan = self._plan
        cdef int64_t fault = -1
        cdef int64_t stop = -1
        cdef int64_t first = first_row
        cdef int64_t default_timestamp = timestamp_ms
        cdef int32_t default_partition = partition
        self._chunk.check_chunk()
        if not 0 <= first <= self._source.chunk_rows:
            raise IndexError(first_row)
        if self._chunk.positions[TOPIC] < 0 and not plan.topic_count:
            raise ValueError("there is no topic")
        self._forget_block()
        self.unknown_topic = None
        self._source.busy = True
        with nogil:
            stop = plan.make(first, default_timestamp, default_partition, &fault)
        self._source.busy = False
        if fault == NO_MEMORY:
            raise MemoryError
        if fault >= 0:
            raise plan.fault_error(fault)
        if stop >= 0:
            self.unknown_topic = _bytes(&plan.block.topic_names[stop])
        self.content_bytes += plan.content_bytes
        self._note_sizes()
        return first + plan.rows

    cdef void _note_sizes(self) noexcept:
        """Note what is known of the rows before they are written."""
        cdef BlockRows* block = self._plan.block
        cdef Py_ssize_t row
        cdef Py_ssize_t first = self._first_location + self._plan.first
        # A size that does not fit belongs to a row that is refused.
        if self._value_sizes is not None:
            for row in range(self._plan.rows):
                self._value_sizes[first + row] = <int> block.values[row].size
        if self._key_sizes is not None:
            for row in range(self._plan.rows):
                self._key_sizes[first + row] = <int> block.keys[row].size
        if self._timestamps is not None:
            for row in range(self._plan.rows):
                self._timestamps[first + row] = block.timestamps[row]

    # -- single rows -------------------------------------------------------------------------------------

    def refusal(self, row: int) -> tuple[int, int]:
        cdef Py_ssize_t at = self._planned(row)
        cdef int status = self._plan.block.status[at]
        if status == GENERAL_PATH:
            status = ROW_IS_FINE
        return status, self._plan.block.details[at] if status == TOO_LARGE else 0

    def record(self, row: int) -> tuple[bytes | None, bytes | None, bytes | None, Headers | None, int | None, int]:
        cdef Py_ssize_t at = self._planned(row)
        cdef BlockRows* block = self._plan.block
        if block.status[at] != ROW_IS_FINE and block.status[at] != GENERAL_PATH:
            raise IndexError(row)
        topic = None if self._chunk.positions[TOPIC] < 0 else _bytes(&block.topic_names[at])
        partition = None
        if self._chunk.has(PARTITION) and not is_null(&self._chunk.columns[PARTITION], row):
            partition = integer_at(&self._chunk.columns[PARTITION], row)
        headers = self._headers(row) if block.headers[at].size else None
        return topic, _bytes(&block.values[at]), _bytes(&block.keys[at]), headers, partition, block.timestamps[at]

    cdef list _headers(self, int64_t row):
        """The headers of a row as ``send`` takes them."""
        cdef Column* columns = self._chunk.columns
        cdef int64_t start, end, at
        cdef Cell name, value
        cdef list headers = []
        if not range_at(&columns[HEADERS], row, &start, &end) or end > columns[HEADER].length:
            raise ValueError(f"invalid Arrow data: the headers of row {row} changed while they were read")
        for at in range(start, end):
            if not (cell_at(&columns[HEADER_NAME], at, &name) and cell_at(&columns[HEADER_VALUE], at, &value)):
                raise ValueError(f"invalid Arrow data: the headers of row {row} changed while they were read")
            headers.append(((_bytes(&name) or b"").decode(), _bytes(&value)))
        return headers

    cdef Py_ssize_t _planned(self, int64_t row) except -1:
        self._chunk.check_chunk()
        if not self._plan.first <= row < self._plan.first + self._plan.rows:
            raise IndexError(row)
        return row - self._plan.first

    # -- appending ---------------------------------------------------------------------------------------

    def append_planned(self) -> int:
        cdef BlockPlan plan = self._plan
        cdef Py_ssize_t row
        self._chunk.check_chunk()
        while not plan.all_fine and self._alone_at < plan.rows:
            self._alone_at += 1
            if plan.block.status[self._alone_at - 1] != ROW_IS_FINE:
                return plan.first + self._alone_at - 1
        while True:
            while self._run_at < self._run_end:
                if not self._append_run(plan.block.touched[self._touched_at - 1]):
                    row = plan.block.order[self._run_at]
                    self._run_at += 1
                    return plan.first + row
            if self._touched_at >= plan.touched_count:
                return -1
            self._run_end += plan.counts[plan.block.touched[self._touched_at]]
            self._touched_at += 1

    cdef bint _append_run(self, int32_t target) except -1:
        """Write rows of one target, as many as its open batch takes. ``False``: none."""
        cdef BlockPlan plan = self._plan
        cdef Py_ssize_t number = plan.block.details[plan.block.order[self._run_at]]
        cdef Topic* topic = &plan.topics[number]
        cdef TopicSlots slots = plan.slots_of(number)
        cdef Py_ssize_t partition = target - topic.first_target
        cdef StickyPartition sticky = None
        cdef AppendSlot slot
        cdef RecordAppender appender
        cdef Py_ssize_t start = self._run_at
        cdef Py_ssize_t end = start
        cdef long long index
        cdef long long plan_number = self._plan_number
        cdef bint is_long, has_changed
        if slots is None:
            return False
        if partition == topic.partition_count:
            sticky = slots.sticky
            if sticky is None:
                return False
            partition = sticky.partition
        slot = slots.slot(partition)
        if slot is None or slot.appender is None:
            return False
        appender = slot.appender
        # Taking the interpreter lock back from a busy I/O thread may take longer than all of a short run.
        is_long = min(
            appender.writer.limit - appender.writer.position,
            (self._run_end - start) * (plan.content_bytes // plan.rows),
        ) > _LONG_RUN_BYTES
        # May run Python code: it comes before the look at the slot (see _append.pxd), and before the lock is taken,
        # since a signal handler that waits for the lock would wait for ever.
        owner_number = self._number_of(appender.owner)
        release = None
        if is_long:
            release = slot.lock.release
            slot.lock.acquire()
        has_changed = self._plan_number != plan_number or not self._chunk.is_bound()
        if (
            has_changed or slot.appender is not appender
            or (sticky is not None and slots.sticky is not sticky)
            or (sticky is not None and should_switch_partition(sticky, appender.writer))
        ):
            if release is not None:
                release()
            if has_changed:
                raise RuntimeError("another block was planned while this one was written")
            return False
        index = appender.writer.record_count
        if is_long:
            # Without the interpreter lock: nothing else may append or close the batch meanwhile.
            slot.appender = None
            self._source.busy = True
            with nogil:
                end = _write(plan, appender.writer, sticky, start, self._run_end)
            self._source.busy = False
            slot.appender = appender
            release()
        else:
            end = _write(plan, appender.writer, sticky, start, self._run_end)
        self._run_at = end
        if end > start:
            self._note_run(appender.owner, owner_number, index, start)
        return end > start

    cdef int _number_of(self, object owner) except -1:
        """The number of an owner; it gets the next one if it has none."""
        if self._runs is None and self._owner_numbers is None:
            return 0
        number = self._owners.get(owner)
        if number is None:
            number = self._owners[owner] = len(self._owners)
        return number

    cdef int _note_run(self, object owner, int number, long long index, Py_ssize_t start) except -1:
        """Note the owner of the rows from ``start`` to the end of the run. ``index``: of the first one's record.

        No Python code runs in here, so a signal cannot prevent that written rows are noted.
        """
        cdef Py_ssize_t at, row, next_at
        cdef Py_ssize_t first = self._first_location + self._plan.first
        cdef const int32_t* order = self._plan.block.order
        if self._runs is not None:
            at = start
            while at < self._run_at:
                next_at = at + 1
                if self._plan.order_is_plain:
                    next_at = self._run_at
                while next_at < self._run_at and order[next_at] == order[next_at - 1] + 1:
                    next_at += 1
                self._runs.append((first + order[at], next_at - at, number, index + at - start))
                at = next_at
        elif self._owner_numbers is not None:
            for at in range(start, self._run_at):
                row = first + order[at]
                self._indexes[row] = <int> (index + at - start)
                self._owner_numbers[row] = number
        else:
            self._owners[owner] = self._owners.get(owner, 0) + self._run_at - start
        return 0


cdef Py_ssize_t _write(BlockPlan plan, BatchWriter writer, StickyPartition sticky, Py_ssize_t at,
                       Py_ssize_t end) noexcept nogil:
    """Write rows of the sorted block until one does not fit, or the sticky partition may have to change."""
    cdef BlockRows* block = plan.block
    cdef Record record
    cdef Py_ssize_t row
    cdef bint is_plain = plan.order_is_plain
    while at < end:
        row = at
        if not is_plain:
            if at + _AHEAD < end:
                # Sorted by partition, rows are where the processor does not expect them.
                row = block.order[at + _AHEAD]
                KP_PREFETCH(block.values[row].data)
                KP_PREFETCH(block.values[row].data + 64)
                KP_PREFETCH(block.keys[row].data)
            row = block.order[at]
        # Buffers that are used again have left the caches. Beyond the end of one this does nothing.
        KP_PREFETCH_TO_WRITE(writer._data + writer.position + _AHEAD_BYTES)
        KP_PREFETCH_TO_WRITE(writer._data + writer.position + _AHEAD_BYTES + 64)
        record.timestamp_ms = block.timestamps[row]
        record.key = block.keys[row].data
        record.key_size = block.keys[row].size
        record.value = block.values[row].data
        record.value_size = block.values[row].size
        record.headers_size = block.headers[row].size
        record.headers = plan.header_bytes + block.headers[row].start if record.headers_size else NULL
        if not put_record(writer, &record):
            break
        at += 1
        if sticky is not None:
            count_record(sticky, record.key_size, record.value_size)
            if should_switch_partition(sticky, writer):
                break
    return at


cdef bytes _bytes(const Cell* cell):
    return None if cell.size < 0 else PyBytes_FromStringAndSize(cell.data, cell.size)

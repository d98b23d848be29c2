# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False
"""ArrowRows: writes the rows of Arrow chunks into open batches, without a Python object per row.

Plans a block of rows at a time: reads them, hashes keys, and sorts the rows by target, which is a partition of a topic
or its sticky partition. Then writes each target's rows into its open batch in one run. Hands out the rows that it
cannot write; the caller sends them one by one. Mirrors ``Admission.admit`` of ``sending/admission.py`` (size,
timestamp, partition) and ``RecordAccumulator.try_append`` (sticky bytes). The pure twin in ``pure/arrow_rows.py`` writes
none; it describes the interface.

docs/decisions/0028-sorted-arrow-rows.md says why rows are sorted, and when a run is written without the GIL.
"""

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memset

from kproducer._core.kernel.native._append cimport (
    MOST_CHOICES, AppendSlot, RecordAppender, StickyPartition, TopicSlots, count_record, new_sender_id, next_choice,
    number_of, point_to, result_of, should_switch_partition, slot_of,
)
from kproducer._core.columns.native._arrow_block cimport (
    BLOCK_ROWS, GENERAL_PATH, KEY, KEY_DOES_NOT_FIT, PARTITION, ROW_IS_FINE, TOO_LARGE, TOPIC, TOPIC_IS_NULL,
    VALUE_DOES_NOT_FIT, BlockReader, BlockRows,
)
from kproducer._core.columns.native._arrow_reader cimport ArrowSource, Cell, integer_at, is_null
from kproducer._core.kernel.native._batch cimport (
    KP_PREFETCH, KP_PREFETCH_TO_WRITE, BatchWriter, Record, get_bytes, get_varint, murmur2_raw, partition_of_key,
    put_record,
)
from kproducer._core.kernel.native._completion cimport RecordFuture, new_future
from kproducer._core.kernel.native._lane cimport (
    APPENDED, ELSEWHERE, NOT_APPENDED, FastBatch, FastPart, append_alone, leave_open, take_open,
)

cdef enum:
    _LONG_RUN_BYTES = 256 * 1024  # a fraction of a millisecond; shorter runs keep the interpreter lock
    _AHEAD = 8                  # rows whose bytes are prefetched before they are written
    _AHEAD_BYTES = 1024         # how far ahead the buffer that they are written to is prefetched
    _COLUMNS = 5                # of locations


cdef struct Topic:
    const char* name            # points into ArrowRows._names
    Py_ssize_t size
    int32_t partition_count     # -1: the caller sends its rows
    int32_t first_target        # followed by a target per partition, and one for the sticky partition


cdef class ArrowRows(BlockReader):
    """See the pure twin. For one thread; rows are counted from the start of the current chunk."""

    cdef bint _hashes_keys
    # Topics by number; a target is a partition of a topic, or its sticky partition.
    cdef Topic* topics
    cdef Py_ssize_t topic_count
    cdef Py_ssize_t target_count
    cdef list _names
    cdef list _slots
    # A hash table of topic numbers; -1: free.
    cdef int32_t* _table
    cdef Py_ssize_t _table_size
    cdef bint all_fine
    cdef bint order_is_plain            # row 0, 1, 2, ...
    cdef bint _order_is_filled
    cdef int32_t* ends                  # by target: where its rows end in the order; 0: the block has none
    cdef Py_ssize_t touched_count
    # Changes with every plan, because Python code that runs in between may call any method of this object.
    cdef long long _plan_number
    # Where the search for the next row that is not fine continues.
    cdef Py_ssize_t _alone_at
    # The current target is the last one before _touched_at; the run is its rows in the plan's order.
    cdef Py_ssize_t _touched_at
    cdef Py_ssize_t _run_at
    cdef Py_ssize_t _run_end
    # The caller's arrays; see start_chunk. Those that it does not want are NULL.
    cdef dict _batch_results
    cdef dict _numbers                  # the same, or None: it counts rows instead
    cdef list _runs
    cdef int* _result_numbers
    cdef int* _indexes
    cdef long long* _timestamps
    cdef int* _key_sizes
    cdef int* _value_sizes
    cdef Py_buffer _exports[_COLUMNS]   # of these columns: while they are held, the arrays cannot be resized
    cdef Py_ssize_t _first_location
    cdef readonly long long content_bytes
    cdef readonly object unknown_topic
    cdef long long _id                  # of the chunk; marks the appenders that it has met, see _append.pxd
    cdef object _transaction
    cdef int _choices                   # how often the next row was sent to another sticky partition

    def __cinit__(self, source, columns, content_limit, hashes_keys: bool):
        self._hashes_keys = hashes_keys
        self._names = []
        self._slots = []

    def __dealloc__(self):
        _release(self._exports)
        free(self.ends)
        free(self.topics)
        free(self._table)

    # -- topics ------------------------------------------------------------------------------------------

    def add_topic(self, bytes name not None, int32_t partition_count, TopicSlots slots) -> None:
        """Add a topic, and a target for each of its partitions and for its sticky partition.

        A topic that was added before keeps its number, and gets new targets. Not while there is a block.
        """
        cdef Cell wanted
        cdef Topic* topic
        cdef Py_ssize_t number
        cdef Py_ssize_t targets = <Py_ssize_t> partition_count + 1
        if partition_count < -1 or partition_count == 0:
            raise ValueError(f"a topic cannot have {partition_count} partitions")
        self.source.check_idle()
        point_to(name, &wanted.data, &wanted.size)
        self.ends = <int32_t*> _resized(self.ends, (self.target_count + targets + 1) * sizeof(int32_t))
        memset(&self.ends[self.target_count], 0, (targets + 1) * sizeof(int32_t))
        number = self._find_topic(&wanted, 0)
        if number < 0:
            number = self.topic_count
            self.topics = <Topic*> _resized(self.topics, (number + 1) * sizeof(Topic))
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

    cdef int _rebuild_table(self) except -1:
        cdef Py_ssize_t number, at
        cdef Py_ssize_t size = 16
        while size < 2 * self.topic_count:
            size *= 2
        self._table = <int32_t*> _resized(self._table, size * sizeof(int32_t))
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

    # -- chunks ------------------------------------------------------------------------------------------

    def start_chunk(self, Py_ssize_t first_location, dict batch_results not None, list runs=None,
                    result_numbers=None, indexes=None, timestamps_ms=None, key_sizes=None, value_sizes=None,
                    transaction=None) -> None:
        self.end_chunk()
        if first_location < 0:
            raise ValueError(f"locations are counted from 0, not from {first_location}")
        if result_numbers is not None and indexes is None:
            raise ValueError("result_numbers need indexes")
        self._first_location = first_location
        try:
            self._result_numbers = <int*> self._export(0, result_numbers, sizeof(int))
            self._indexes = <int*> self._export(1, indexes, sizeof(int))
            self._timestamps = <long long*> self._export(2, timestamps_ms, sizeof(long long))
            self._key_sizes = <int*> self._export(3, key_sizes, sizeof(int))
            self._value_sizes = <int*> self._export(4, value_sizes, sizeof(int))
        except BaseException:
            self.end_chunk()
            raise
        self._batch_results = batch_results
        self._numbers = None if runs is None and result_numbers is None else batch_results
        self._runs = runs
        self._transaction = transaction
        self._id = new_sender_id()
        self.bind_chunk()

    cdef void* _export(self, int number, object column, Py_ssize_t item_bytes) except? NULL:
        """Hold a column and return where it starts; NULL if it is None."""
        cdef Py_buffer* export = &self._exports[number]
        cdef Py_ssize_t length
        if column is None:
            return NULL
        PyObject_GetBuffer(column, export, PyBUF_WRITABLE)
        length = export.len // item_bytes
        if length - self._first_location < self.source.chunk_rows:
            raise ValueError(f"{length} locations for {self.source.chunk_rows} rows from {self._first_location} on")
        return export.buf

    def end_chunk(self) -> None:
        self._forget_block()
        self._generation = -1
        self._batch_results = self._numbers = self._runs = self._transaction = None
        self._result_numbers = self._indexes = self._key_sizes = self._value_sizes = NULL
        self._timestamps = NULL
        _release(self._exports)

    cdef int _forget_block(self) except -1:
        cdef Py_ssize_t target
        self.source.check_idle()
        self._plan_number += 1
        for target in range(self.touched_count):
            self.ends[self.block.touched[target]] = 0
        self.rows = self.touched_count = self.block_bytes = 0
        self._alone_at = self._touched_at = self._run_at = self._run_end = 0
        return 0

    # -- planning ----------------------------------------------------------------------------------------

    def plan(self, int64_t first_row, int64_t timestamp_ms, int32_t partition) -> int:
        cdef int64_t fault
        cdef Py_ssize_t stop = -1
        self.check_chunk()
        if not 0 <= first_row <= self.source.chunk_rows:
            raise IndexError(first_row)
        if self.positions[TOPIC] < 0 and not self.topic_count:
            raise ValueError("there is no topic")
        self._forget_block()
        self.unknown_topic = None
        self.source.busy = True
        with nogil:
            fault = self.read(first_row, timestamp_ms)
            if fault == -1:
                stop = self._sort_rows(partition)
        self.source.busy = False
        self.raise_fault(fault)
        if stop >= 0:
            self.unknown_topic = _bytes(&self.block.topic_names[stop])
        self.content_bytes += self.block_bytes
        self._note_sizes()
        return first_row + self.rows

    cdef void _note_sizes(self) noexcept:
        """Note what is known of the rows before they are written."""
        cdef BlockRows* block = self.block
        cdef Py_ssize_t row
        cdef Py_ssize_t first = self._first_location + self.first
        # A size that does not fit into an int belongs to a row that is refused.
        if self._value_sizes != NULL:
            for row in range(self.rows):
                self._value_sizes[first + row] = <int> block.values[row].size
        if self._key_sizes != NULL:
            for row in range(self.rows):
                self._key_sizes[first + row] = <int> block.keys[row].size
        if self._timestamps != NULL:
            for row in range(self.rows):
                self._timestamps[first + row] = block.timestamps[row]

    # -- single rows -------------------------------------------------------------------------------------

    def refusal(self, row: int) -> tuple[int, int]:
        cdef Py_ssize_t at = self._planned(row)
        cdef int status = self.block.status[at]
        if status == GENERAL_PATH:
            status = ROW_IS_FINE
        has_detail = status in (TOO_LARGE, VALUE_DOES_NOT_FIT, KEY_DOES_NOT_FIT)
        return status, self.block.details[at] if has_detail else 0

    def record(self, row: int) -> tuple[bytes | None, bytes | None, bytes | None, Headers | None, int | None, int]:
        cdef Py_ssize_t at = self._planned(row)
        cdef BlockRows* block = self.block
        if block.status[at] != ROW_IS_FINE and block.status[at] != GENERAL_PATH:
            raise IndexError(row)
        topic = None if self.positions[TOPIC] < 0 else _bytes(&block.topic_names[at])
        partition = None
        if self.has(PARTITION) and not is_null(&self.columns[PARTITION], row):
            partition = integer_at(&self.columns[PARTITION], row)
        headers = self._headers(at) if block.headers[at].size else None
        return topic, _bytes(&block.values[at]), _bytes(&block.keys[at]), headers, partition, block.timestamps[at]

    cdef list _headers(self, Py_ssize_t row):
        """The headers of a row of the block as ``send`` takes them."""
        cdef const char* at = self.header_bytes + self.block.headers[row].start
        cdef uint64_t count, number
        cdef Cell name, value
        cdef list headers = []
        at = get_varint(at, &count)
        for number in range(count >> 1):
            at = get_bytes(at, &name.data, &name.size)
            at = get_bytes(at, &value.data, &value.size)
            headers.append((_bytes(&name).decode(), _bytes(&value)))
        return headers

    cdef Py_ssize_t _planned(self, int64_t row) except -1:
        self.check_chunk()
        if not self.first <= row < self.first + self.rows:
            raise IndexError(row)
        return row - self.first

    # -- appending ---------------------------------------------------------------------------------------

    def append_planned(self) -> int:
        cdef Py_ssize_t row
        self.check_chunk()
        while not self.all_fine and self._alone_at < self.rows:
            self._alone_at += 1
            if self.block.status[self._alone_at - 1] != ROW_IS_FINE:
                return self.first + self._alone_at - 1
        while True:
            while self._run_at < self._run_end:
                if not self._append_run(self.block.touched[self._touched_at - 1]):
                    row = self.block.order[self._run_at]
                    self._run_at += 1
                    self._choices = 0
                    return self.first + row
            if self._touched_at >= self.touched_count:
                return -1
            self._run_end = self.ends[self.block.touched[self._touched_at]]
            self._touched_at += 1

    cdef bint _append_run(self, int32_t target) except -1:
        """Write rows of one target, as many as its open batch takes. ``False``: none."""
        cdef Py_ssize_t number = self.block.details[self.block.order[self._run_at]]
        cdef Topic* topic = &self.topics[number]
        cdef TopicSlots slots = self._slots[number]
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
        slot = slot_of(slots, partition)
        if slot is not None and slot.part is not None:
            return self._append_run_to_lane(<FastPart?> slot.part, slots, sticky)
        if slot is None or slot.appender is None:
            return False
        appender = slot.appender
        is_long = self._is_long(appender.writer.limit - appender.writer.position)
        # May run Python code: it comes before the slot is read (see _append.pxd), and before the lock is taken,
        # since a signal handler that waits for the lock would wait for ever.
        result_number = number_of(appender.batch_result, self._numbers)
        release = None
        if is_long:
            release = slot.lock.release
            slot.lock.acquire()
        has_changed = self._plan_number != plan_number or not self.is_bound()
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
            # Written without the interpreter lock, so nothing else may append to the batch or close it meanwhile.
            slot.appender = None
            self.source.busy = True
            with nogil:
                end = _write(self, appender.writer, sticky, start, self._run_end)
            self.source.busy = False
            slot.appender = appender
            release()
        else:
            end = _write(self, appender.writer, sticky, start, self._run_end)
        self._run_at = end
        if end > start:
            self._note_run(appender.batch_result, result_number, index, start)
        return end > start

    cdef bint _is_long(self, Py_ssize_t room) noexcept:
        """Whether to write the run without the interpreter lock: taking that back may take longer than a short run."""
        return min(room, (self._run_end - self._run_at) * (self.block_bytes // self.rows)) > _LONG_RUN_BYTES

    cdef bint _append_run_to_lane(self, FastPart part, TopicSlots slots, StickyPartition sticky) except -1:
        """Write rows of the run to an armed partition, as many as its open batch takes. ``False``: none.

        ``True`` also if another sticky partition was chosen instead.
        """
        cdef int appended
        # Python code may run in here, which must not plan another block.
        self.source.busy = True
        try:
            appended = self._write_run(part, sticky) or self._append_alone(part, sticky)
        finally:
            self.source.busy = False
        if appended == ELSEWHERE:
            self._choices += 1
            return self._choices <= MOST_CHOICES and next_choice(slots, sticky) is not None
        self._choices = 0
        return appended == APPENDED

    cdef int _write_run(self, FastPart part, StickyPartition sticky) except -1:
        """Write rows of the run to the open batch of an armed partition. ``NOT_APPENDED`` or ``APPENDED``."""
        cdef object transaction = self._transaction_of(part)
        cdef int64_t early_ms = part.plane.early_ms()
        cdef FastBatch batch = take_open(part, sticky, transaction, self._id, self._numbers, early_ms)
        cdef RecordAppender appender
        cdef Py_ssize_t start = self._run_at
        cdef long long index
        cdef bint wakes
        if batch is None:
            return NOT_APPENDED
        appender = batch.appender
        index = appender.writer.record_count
        if self._is_long(appender.writer._size - appender.writer.position):
            with nogil:
                self._run_at = _write(self, appender.writer, sticky, start, self._run_end)
                wakes = leave_open(batch, early_ms)
        else:
            self._run_at = _write(self, appender.writer, sticky, start, self._run_end)
            wakes = leave_open(batch, early_ms)
        try:
            if wakes:
                part.plane.wake()
        finally:
            if self._run_at > start:
                self._note_run(result_of(appender), appender.result_number, index, start)
        return APPENDED if self._run_at > start else NOT_APPENDED

    cdef int _append_alone(self, FastPart part, StickyPartition sticky) except -1:
        """Append the first row of the run to an armed partition. One of ``Appended``."""
        cdef Record record
        cdef RecordFuture future = new_future(part.plane._future_type)
        cdef Py_ssize_t start = self._run_at
        cdef int number = -1
        _fill(self, self.block.order[start], &record)
        try:
            return append_alone(part, &record, future, sticky, self._transaction_of(part), self._numbers, &number)
        finally:
            if number >= 0:
                self._run_at = start + 1
                self._note_run(future._batch_result, number, future._index, start)

    cdef object _transaction_of(self, FastPart part):
        return part.plane.transaction if self._transaction is None else self._transaction

    cdef int _note_run(self, object batch_result, int number, long long index, Py_ssize_t start) except -1:
        """Note the result of the rows from ``start`` to the end of the run. ``index``: of the first one's record.

        No Python code runs in here, so a signal cannot prevent that written rows are noted.
        """
        cdef Py_ssize_t at, row, next_at
        cdef Py_ssize_t first = self._first_location + self.first
        cdef const int32_t* order = self.block.order
        if self._runs is not None:
            at = start
            while at < self._run_at:
                next_at = at + 1
                if self.order_is_plain:
                    next_at = self._run_at
                while next_at < self._run_at and order[next_at] == order[next_at - 1] + 1:
                    next_at += 1
                self._runs.append((first + order[at], next_at - at, number, index + at - start))
                at = next_at
        elif self._result_numbers != NULL:
            for at in range(start, self._run_at):
                row = first + order[at]
                self._indexes[row] = <int> (index + at - start)
                self._result_numbers[row] = number
        else:
            self._batch_results[batch_result] = self._batch_results.get(batch_result, 0) + self._run_at - start
        return 0

    # -- sorting rows by target --------------------------------------------------------------------------

    cdef Py_ssize_t _sort_rows(self, int32_t partition) noexcept nogil:
        """Choose the targets of the rows that were read, and sort the rows by target.

        Args:
            partition: of rows without one; -1: none.

        Returns:
            -1, or the row behind the block, if its topic was not added yet.
        """
        cdef Py_ssize_t stop
        self.check_sizes()
        self.all_fine = self._are_all_fine()
        if self.all_fine and self._choose_one_target(partition):
            return -1
        stop = self._choose_targets(partition)
        self._sort_by_target()
        self.all_fine = self._are_all_fine()
        if not self.all_fine or stop >= 0:
            self._sum_content()
        return stop

    cdef bint _choose_one_target(self, int32_t partition) noexcept nogil:
        """Give all rows the same target. ``False``: there are no rows, or their targets may differ."""
        cdef Topic* topic = &self.topics[0]
        cdef int64_t wanted
        cdef int32_t target
        if self.rows == 0 or self.positions[TOPIC] >= 0 or self.has(PARTITION):
            return False
        if partition < 0 and topic.partition_count > 1 and self._hashes_keys and (self.has(KEY) or self._key_encoder is not None):
            return False
        wanted = self._wanted_partition(0, partition, topic.partition_count)
        if wanted < 0:
            return False
        target = topic.first_target + <int32_t> wanted
        memset(self.block.details, 0, self.rows * sizeof(int64_t))
        self.ends[target] = <int32_t> self.rows
        self.block.touched[0] = target
        self.touched_count = 1
        self._put_in_plain_order()
        return True

    cdef Py_ssize_t _choose_targets(self, int32_t partition) noexcept nogil:
        """Give each fine row its target. Returns -1, or the first row whose topic was not added yet."""
        cdef Py_ssize_t row
        cdef Py_ssize_t number = 0
        cdef int64_t wanted
        cdef bint has_topics = self.positions[TOPIC] >= 0
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
            wanted = self._wanted_partition(row, partition, topic.partition_count)
            if wanted < 0:
                self.block.status[row] = GENERAL_PATH
            else:
                self.block.targets[row] = topic.first_target + <int32_t> wanted
        return -1

    cdef int64_t _wanted_partition(self, Py_ssize_t row, int64_t partition, int32_t count) noexcept nogil:
        """The partition of a row; ``count``: the sticky partition; -1: the general path chooses it."""
        if count < 0:
            return -1
        if self.has(PARTITION) and not is_null(&self.columns[PARTITION], self.first + row):
            partition = integer_at(&self.columns[PARTITION], self.first + row)
            return partition if 0 <= partition < count else -1
        if partition >= 0:
            return partition if partition < count else -1
        if self._hashes_keys and count == 1:
            # With one partition, rows with and without keys have the same target, so that all of them keep their order.
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
                if self.ends[target] == 0:
                    self.block.touched[self.touched_count] = target
                    self.touched_count += 1
                self.ends[target] += 1
        if self.touched_count == 1 and self.ends[self.block.touched[0]] == self.rows:
            self._put_in_plain_order()
            return
        self.order_is_plain = self._order_is_filled = False
        # Each count becomes a place in the order, which then advances from the target's first row to behind its last
        # one.
        at = 0
        for row in range(self.touched_count):
            target = self.block.touched[row]
            count = self.ends[target]
            self.ends[target] = <int32_t> at
            at += count
        for row in range(self.rows):
            if self.block.status[row] == ROW_IS_FINE:
                target = self.block.targets[row]
                self.block.order[self.ends[target]] = <int32_t> row
                self.ends[target] += 1

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
        self.block_bytes = total


cdef inline void _fill(ArrowRows plan, Py_ssize_t row, Record* record) noexcept nogil:
    """Point to the record of a row of the block."""
    cdef BlockRows* block = plan.block
    record.timestamp_ms = block.timestamps[row]
    record.key = block.keys[row].data
    record.key_size = block.keys[row].size
    record.value = block.values[row].data
    record.value_size = block.values[row].size
    record.headers_size = block.headers[row].size
    record.headers = plan.header_bytes + block.headers[row].start if record.headers_size else NULL


cdef Py_ssize_t _write(ArrowRows plan, BatchWriter writer, StickyPartition sticky, Py_ssize_t at,
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
                # After sorting, the processor cannot guess where the next row is: prefetch it.
                row = block.order[at + _AHEAD]
                KP_PREFETCH(block.values[row].data)
                KP_PREFETCH(block.values[row].data + 64)
                KP_PREFETCH(block.keys[row].data)
            row = block.order[at]
        # Buffers that are used again have left the caches. Beyond the end of one this does nothing.
        KP_PREFETCH_TO_WRITE(writer._data + writer.position + _AHEAD_BYTES)
        KP_PREFETCH_TO_WRITE(writer._data + writer.position + _AHEAD_BYTES + 64)
        _fill(plan, row, &record)
        if not put_record(writer, &record):
            break
        at += 1
        if sticky is not None:
            count_record(sticky, record.key_size, record.value_size)
            if should_switch_partition(sticky, writer):
                break
    return at


cdef void _release(Py_buffer* exports) noexcept:
    cdef int number
    for number in range(_COLUMNS):
        PyBuffer_Release(&exports[number])  # does nothing for one that is not held


cdef bytes _bytes(const Cell* cell):
    return None if cell.size < 0 else PyBytes_FromStringAndSize(cell.data, cell.size)


cdef void* _resized(void* memory, size_t size) except NULL:
    cdef void* resized = realloc(memory, size)
    if resized == NULL:
        raise MemoryError
    return resized

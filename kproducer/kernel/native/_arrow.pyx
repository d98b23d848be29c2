# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False
"""ArrowRows: the rows of Arrow chunks as records of partitions, without a Python object for a row.

A block of rows is planned at a time (``_arrow_plan.pyx``). Then each partition's rows are written into its open
batch in one run. What does not fit is handed out, one record, for the slow way.
The compiled twin of ``pure/arrow.py``, which describes the interface. Knows no policy and no time.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t

from kproducer.kernel.native._append cimport (
    AppendSlot,
    RecordAppender,
    StickyPartition,
    TopicSlots,
    count_record,
    should_switch_partition,
)
from kproducer.kernel.native._arrow_chunk cimport PARTITION, TOPIC, ChunkColumns
from kproducer.kernel.native._arrow_columns cimport Cell, integer_at, is_null
from kproducer.kernel.native._arrow_plan cimport BlockPlan
from kproducer.kernel.native._arrow_source cimport ArrowSource
from kproducer.kernel.native._arrow_status cimport (
    NO_MEMORY, PARTITION_WRONG, STATUS_COUNT, TOO_LARGE, TOPIC_FAILED,
)
from kproducer.kernel.native._arrow_topics cimport Topic
from kproducer.kernel.native._batch cimport BatchWriter, put_record

from kproducer.errors import InvalidArgumentError
from kproducer.kernel.arrow_columns import REASONS

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
    _LONG_RUN_BYTES = 256 * 1024  # a fraction of a millisecond; for less the interpreter lock is kept
    _AHEAD = 8                  # rows whose bytes are asked for before they are written
    _AHEAD_BYTES = 1024         # likewise, of the buffer that they are written to

assert len(REASONS) == STATUS_COUNT


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
    cdef BlockPlan _plan
    # Changes with every plan: what is Python code on the way may call anything.
    cdef long long _plan_number
    # The target at hand is the last one before _touched_at; its rows in the plan's order.
    cdef Py_ssize_t _touched_at
    cdef Py_ssize_t _run_at
    cdef Py_ssize_t _run_end
    # Where to note what became of rows; the columns that it does not have are None.
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
        self._plan = BlockPlan(self._chunk, size_limit, hashes_keys)
        self.owner_counts = {}
        self.refusals = []

    def __init__(
        self,
        source: ArrowSource,
        columns: tuple[int, int, int, int, int, int],
        size_limit: int,
        hashes_keys: bool,
    ) -> None:
        pass

    def add_topic(self, name: str, partition_count: int, lanes: object) -> int:
        cdef bytes encoded = name.encode()
        cdef int32_t count = partition_count
        if count < -1 or count == 0:
            raise ValueError(f"a topic cannot have {count} partitions")
        self._source.check_idle()
        self._plan.reserve_targets(self._plan.topics.target_count + (count + 1 if count >= 0 else 0))
        return self._plan.topics.add(encoded, count, lanes)

    # -- chunks ------------------------------------------------------------------------------------------

    def start_chunk(self, places: object = None, first_place: int = 0) -> None:
        self._forget_block()
        self._chunk.let_go()
        if first_place < 0:
            raise ValueError("places are counted from 0")
        self._let_go_of_places()
        if places is not None:
            self._places_start = first_place
            self._place_timestamps = places.timestamps_ms
            self._key_sizes = places.key_sizes
            self._value_sizes = places.value_sizes
            if (
                self._value_sizes is None
                or self._are_too_few(self._value_sizes.shape[0])
                or (self._key_sizes is not None and self._are_too_few(self._key_sizes.shape[0]))
                or (self._place_timestamps is not None and self._are_too_few(self._place_timestamps.shape[0]))
            ):
                raise ValueError("too few places")
        self._places = places
        # At the end: what a stranger's places run on the way finds no chunk.
        self._chunk.bind_chunk()

    def end_chunk(self) -> None:
        self._forget_block()
        self._chunk.let_go()
        self._let_go_of_places()

    cdef int _let_go_of_places(self) except -1:
        self._places = None
        self._owner_numbers = self._indexes = self._key_sizes = self._value_sizes = None
        self._place_timestamps = None
        return 0

    cdef bint _are_too_few(self, Py_ssize_t places):
        return places - self._places_start < self._source.chunk_rows

    cdef int _forget_block(self) except -1:
        self._source.check_idle()
        self._plan_number += 1
        self._plan.forget()
        self._touched_at = self._run_at = self._run_end = 0
        return 0

    # -- planning ----------------------------------------------------------------------------------------

    def plan(self, first_row: int, timestamp_ms: int, partition: int) -> int:
        cdef int64_t fault = -1
        cdef int64_t stop = -1
        cdef int64_t first = first_row
        cdef int64_t default_timestamp = timestamp_ms
        cdef int32_t default_partition = partition
        self._chunk.check_chunk()
        if not 0 <= first <= self._source.chunk_rows:
            raise IndexError(first_row)
        if self._chunk.positions[TOPIC] < 0 and not self._plan.topics.count:
            raise ValueError("there is no topic")
        self._forget_block()
        self.refusals = []
        self.unknown_topic = None
        self._source.busy = True
        with nogil:
            stop = self._plan.make(first, default_timestamp, default_partition, &fault)
        self._source.busy = False
        if fault == NO_MEMORY:
            raise MemoryError
        if fault >= 0:
            raise InvalidArgumentError(
                f"this is no valid Arrow data: row {first + fault} of the chunk in column "
                f"{self._source.names[self._chunk.positions[self._plan.fault_role]]!r} leads outside of its data"
            )
        if stop >= 0:
            self._note_unknown_topic(stop)
        if not self._plan.all_fine:
            self._note_refusals()
        self.content_bytes += self._plan.content_bytes
        if self._places is not None:
            self._note_sizes()
        return first + self._plan.rows

    cdef int _note_unknown_topic(self, int64_t row) except -1:
        cdef Cell name = self._plan.topic_names[row]
        self.unknown_topic = PyBytes_FromStringAndSize(name.data, name.size).decode("utf-8", "replace")
        return 0

    cdef int _note_refusals(self) except -1:
        cdef BlockPlan plan = self._plan
        cdef Py_ssize_t row
        cdef int status
        for row in range(plan.rows):
            status = plan.status[row]
            if not status:
                continue
            topic = 0 if self._chunk.positions[TOPIC] < 0 else -1
            detail = -1
            if status == TOPIC_FAILED or status == PARTITION_WRONG:
                topic = plan.details[row]
            if status == PARTITION_WRONG:
                detail = self._partition_at(plan.first + row)
            elif status == TOO_LARGE:
                detail = plan.details[row]
            self.refusals.append((plan.first + row, REASONS[status], topic, detail))
        return 0

    cdef int64_t _partition_at(self, int64_t row) noexcept:
        if not self._chunk.has(PARTITION) or is_null(&self._chunk.columns[PARTITION], row):
            return -1
        return integer_at(&self._chunk.columns[PARTITION], row)

    cdef void _note_sizes(self) noexcept:
        """Note what is known of the rows already."""
        cdef BlockPlan plan = self._plan
        cdef Py_ssize_t row
        cdef Py_ssize_t place = self._places_start + plan.first
        # A size that does not fit is that of a record which is refused.
        for row in range(plan.rows):
            self._value_sizes[place + row] = <int> plan.values[row].size
        if self._key_sizes is not None:
            for row in range(plan.rows):
                self._key_sizes[place + row] = <int> plan.keys[row].size
        if self._place_timestamps is not None:
            for row in range(plan.rows):
                self._place_timestamps[place + row] = plan.timestamps[row]

    # -- rows by themselves ------------------------------------------------------------------------------

    def destination(self, row: int) -> tuple[int, int]:
        cdef Py_ssize_t at = self._planned(row)
        if self._plan.status[at]:
            raise IndexError(row)
        cdef Py_ssize_t number = self._plan.details[at]
        cdef Topic* topic = &self._plan.topics.topics[number]
        cdef Py_ssize_t partition = self._plan.targets[at] - topic.first_target
        return number, -1 if partition == topic.partition_count else partition

    def record(self, row: int) -> tuple[int, bytes | None, bytes | None, Headers | None]:
        cdef Py_ssize_t at = self._planned(row)
        cdef BlockPlan plan = self._plan
        # A partition that is not known yet is found out last: everything else of the row is there.
        if plan.status[at] and plan.status[at] != PARTITION_WRONG:
            raise IndexError(row)
        pairs = plan.header_bytes.pairs(&plan.headers[at])
        return plan.timestamps[at], _bytes(&plan.keys[at]), _bytes(&plan.values[at]), pairs

    cdef Py_ssize_t _planned(self, int64_t row) except -1:
        self._chunk.check_chunk()
        if not self._plan.first <= row < self._plan.first + self._plan.rows:
            raise IndexError(row)
        return row - self._plan.first

    # -- appending ---------------------------------------------------------------------------------------

    def append_planned(self, snapshot: object) -> int:
        cdef BlockPlan plan = self._plan
        cdef int32_t target
        cdef Py_ssize_t row
        self._chunk.check_chunk()
        while True:
            while self._run_at < self._run_end:
                if not self._append_run(plan.touched[self._touched_at - 1], snapshot):
                    row = plan.order[self._run_at]
                    self._run_at += 1
                    return plan.first + row
            if self._touched_at >= plan.touched_count:
                return -1
            target = plan.touched[self._touched_at]
            self._touched_at += 1
            self._run_end += plan.counts[target]

    cdef bint _append_run(self, int32_t target, object snapshot) except -1:
        """Write rows of one target, as many as its open batch takes. ``False``: none."""
        cdef BlockPlan plan = self._plan
        cdef Py_ssize_t number = plan.details[plan.order[self._run_at]]
        cdef Topic* topic = &plan.topics.topics[number]
        cdef TopicSlots lanes = plan.topics.lanes(number)
        if lanes is None:
            return False
        cdef Py_ssize_t partition = target - topic.first_target
        cdef StickyPartition sticky = None
        if partition == topic.partition_count:
            sticky = lanes.sticky
            if sticky is None:
                return False
            partition = sticky.partition
        cdef AppendSlot lane = lanes.slot(partition)
        if lane is None or lane.appender is None:
            return False
        if sticky is not None and should_switch_partition(sticky, lane.appender.writer):
            return False
        # Taking the interpreter lock back from a busy I/O thread may take longer than all of a short run.
        if min(
            lane.appender.writer.limit - lane.appender.writer.position,
            (self._run_end - self._run_at) * (plan.content_bytes // plan.rows),
        ) > _LONG_RUN_BYTES:
            return self._append_long_run(lanes, lane, sticky, snapshot)
        return self._append_short_run(lanes, lane, sticky, snapshot)

    cdef bint _append_short_run(self, TopicSlots lanes, AppendSlot lane, StickyPartition sticky,
                                object snapshot) except -1:
        """With the interpreter lock: see the rule in ``_append.pxd``."""
        cdef RecordAppender appender = lane.appender
        cdef Py_ssize_t start = self._run_at
        cdef long long index
        cdef long long plan_number = self._plan_number
        number = self._owner_number(appender.owner)
        cdef list runs = self._runs()
        # That was Python code: another thread may have closed the batch meanwhile, or ended the stay.
        self._check_plan(plan_number)
        if lane.appender is not appender or (sticky is not None and lanes.sticky is not sticky):
            return False
        index = appender.writer.record_count
        self._run_at = _write(self._plan, appender.writer, sticky, start, self._run_end)
        self._note_run(appender.owner, number, runs, index, start)
        return self._run_at > start

    cdef bint _append_long_run(self, TopicSlots lanes, AppendSlot lane, StickyPartition sticky,
                               object snapshot) except -1:
        """Without the interpreter lock: the lane is ours alone meanwhile."""
        cdef RecordAppender appender = lane.appender
        cdef Py_ssize_t start = self._run_at
        cdef Py_ssize_t end = start
        cdef long long index
        cdef long long plan_number = self._plan_number
        # While the lock is held no Python code runs: a signal handler in it could wait for us for ever.
        number = self._owner_number(appender.owner)
        cdef list runs = self._runs()
        lock = lane.lock
        acquire = lock.acquire
        release = lock.release
        acquire()
        if self._plan_number != plan_number or not self._chunk.is_bound():
            release()
            self._check_plan(plan_number)
        if lane.appender is not appender or (sticky is not None and lanes.sticky is not sticky):
            release()
            return False
        index = appender.writer.record_count
        lane.appender = None
        self._source.busy = True
        with nogil:
            end = _write(self._plan, appender.writer, sticky, start, self._run_end)
        self._source.busy = False
        # It may be closed by now. Then its batch takes a few more records, and goes out with them.
        lane.appender = appender
        release()
        self._run_at = end
        self._note_run(appender.owner, number, runs, index, start)
        return end > start

    cdef int _check_plan(self, long long number) except -1:
        self._chunk.check_chunk()
        if self._plan_number != number:
            raise RuntimeError("the block was planned anew while it was written")
        return 0

    # -- noting ------------------------------------------------------------------------------------------

    cdef long long _owner_number(self, object owner) except -1:
        return 0 if self._places is None else self._places.number_of(owner)

    cdef list _runs(self):
        """Where runs of rows are noted as such; ``None``: each row by itself."""
        cdef list runs
        if self._places is None:
            return None
        if self._plan.order_is_plain:
            runs = self._places.runs
            if runs is not None:
                return runs
        if self._owner_numbers is None or self._indexes is None:
            self._owner_numbers = self._places.owner_numbers
            self._indexes = self._places.indexes
            if self._are_too_few(self._owner_numbers.shape[0]) or self._are_too_few(self._indexes.shape[0]):
                self._owner_numbers = self._indexes = None
                raise ValueError("too few places")
        return None

    cdef int _note_run(self, object owner, long long number, list runs, long long index,
                       Py_ssize_t start) except -1:
        """Note whose the rows from ``start`` to where the run is now are; ``index``: of the first one.

        No Python code runs in here: what was written is noted, whatever signal comes.
        """
        cdef Py_ssize_t at, place
        cdef Py_ssize_t first = self._places_start + self._plan.first
        cdef const int32_t* order = self._plan.order
        if self._run_at == start:
            return 0
        if self._places is None:
            self.owner_counts[owner] = self.owner_counts.get(owner, 0) + self._run_at - start
        elif runs is not None:
            runs.append((first + start, self._run_at - start, number, index))
        else:
            for at in range(start, self._run_at):
                place = first + order[at]
                self._indexes[place] = <int> (index + at - start)
                self._owner_numbers[place] = <int> number
        return 0


cdef Py_ssize_t _write(BlockPlan plan, BatchWriter writer, StickyPartition sticky, Py_ssize_t at,
                       Py_ssize_t end) noexcept nogil:
    """Write rows of the sorted block until one does not fit, or the stay at a partition ends."""
    cdef const Cell* value
    cdef const Cell* key
    cdef Py_ssize_t row
    cdef Py_ssize_t headers_size
    cdef bint is_plain = plan.order_is_plain
    cdef const char* headers
    while at < end:
        row = at
        if not is_plain:
            if at + _AHEAD < end:
                # Sorted by partition, rows lie where the processor does not expect them.
                row = plan.order[at + _AHEAD]
                KP_PREFETCH(plan.values[row].data)
                KP_PREFETCH(plan.values[row].data + 64)
                KP_PREFETCH(plan.keys[row].data)
            row = plan.order[at]
        # Buffers that come round again have left the caches. Beyond the end of one this does nothing.
        KP_PREFETCH_TO_WRITE(writer._data + writer.position + _AHEAD_BYTES)
        KP_PREFETCH_TO_WRITE(writer._data + writer.position + _AHEAD_BYTES + 64)
        value = &plan.values[row]
        key = &plan.keys[row]
        headers_size = plan.headers[row].size
        headers = plan.header_bytes.data + plan.headers[row].start if headers_size else NULL
        if not put_record(
            writer, plan.timestamps[row], key.data, key.size, value.data, value.size, headers, headers_size
        ):
            break
        at += 1
        if sticky is not None:
            count_record(sticky, key.size, value.size)
            if should_switch_partition(sticky, writer):
                break
    return at


cdef object _bytes(const Cell* cell):
    return None if cell.size < 0 else PyBytes_FromStringAndSize(cell.data, cell.size)

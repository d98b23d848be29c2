# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False
"""BlockReader: the rows of an Arrow chunk as C values, a block of rows at a time.

Binds the columns of a chunk, finds cells, converts times, encodes headers, and marks rows that cannot be sent. What is
the same for all blocks (no keys, no headers) is filled in once. Rows are read without the interpreter lock.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from kproducer._core.columns.native._arrow_reader cimport (
    ALL_NULL, BYTES, BYTES_FIXED, BYTES_VIEW, FLOATING, INTEGER, KP_MOST_BYTES, LIST, LIST_VIEW, STRUCT, ArrowArray,
    ArrowSchema, ArrowSource, Cell, Column, Layout, bind_column, cell_at, epoch_ms_at, invalid, is_null, is_utf8,
    range_at, resolve,
)
from kproducer._core.kernel.native._batch cimport bytes_size, put_bytes, put_varint, regular_headers, varint_size
from kproducer._core.columns.native._row_encoder cimport RowEncoder


cdef enum:
    # Up to this size, rows are measured exactly. Elements may share their bytes, so that a small array can describe a
    # key or value that no memory can hold.
    _ROW_BYTES = 64 * 1024 * 1024


cdef class BlockReader:
    """Reads the columns of one source that records are made of, a block of rows at a time. For one thread.

    Args:
        source: read by the caller, chunk by chunk.
        columns: numbers of the columns value, key, headers, partition, timestamp, topic; -1: not given.
        content_limit: bytes of key, value and encoded headers that a record may have together.

    Raises:
        ValueError: a number is out of range.
    """

    def __cinit__(self, ArrowSource source not None, tuple columns not None, int64_t content_limit, *others):
        cdef Py_ssize_t row
        if len(columns) != ROLE_COUNT:
            raise ValueError(f"{len(columns)} column numbers, where {ROLE_COUNT} are expected")
        for role in range(ROLE_COUNT):
            if not -1 <= columns[role] < len(source.names):
                raise ValueError(f"there is no column {columns[role]}")
            self.positions[role] = columns[role]
        self.source = source
        self._content_limit = content_limit
        self._generation = -1
        self.block = <BlockRows*> malloc(sizeof(BlockRows))
        if self.block == NULL:
            raise MemoryError
        # Without a column of keys or headers, these stay null.
        for row in range(BLOCK_ROWS):
            self.block.keys[row].data = NULL
            self.block.keys[row].size = -1
        memset(self.block.headers, 0, sizeof(self.block.headers))

    def __dealloc__(self):
        self.give_back_encoders()
        free(self.block)
        free(self.header_bytes)

    def encode_columns(self, RowEncoder value, RowEncoder key, list headers not None) -> None:
        cdef bytes encoded = regular_headers(headers, False) if headers else b""
        cdef Py_ssize_t row
        if encoded is None or len(headers) > 63:
            raise ValueError("headers must be pairs of a name and bytes, 63 of them at most")
        self.source.check_idle()
        if value is not None and value is key:
            raise ValueError("value and key need encoders of their own")
        self.give_back_encoders()
        if value is not None:
            value.take(<void*> self)
        self._value_encoder = value
        if key is not None:
            key.take(<void*> self)
        self._key_encoder = key
        self._added_count = <int> len(headers)
        # Without the count, which is one byte.
        self._added_headers = encoded[1:]
        self._added.data = PyBytes_AS_STRING(self._added_headers)
        self._added.size = PyBytes_GET_SIZE(self._added_headers)
        if encoded:
            if self._reserve_headers(len(encoded)) == NULL:
                raise MemoryError
            memcpy(self.header_bytes, <const char*> encoded, len(encoded))
            # Without a column of headers, every row has exactly these.
            for row in range(BLOCK_ROWS):
                self.block.headers[row].start = 0
                self.block.headers[row].size = len(encoded)

    cdef void give_back_encoders(self) noexcept:
        """Let other readers use the encoders. There is no block then."""
        if self._value_encoder is not None:
            self._value_encoder.give_back(<void*> self)
        if self._key_encoder is not None:
            self._key_encoder.give_back(<void*> self)
        self._generation = -1
        self._value_encoder = self._key_encoder = None

    # -- binding a chunk ---------------------------------------------------------------------------------

    cdef int bind_chunk(self) except -1:
        """Make the columns read the current chunk.

        Raises:
            ValueError: the chunk contradicts itself or the schema.
        """
        cdef int role
        cdef Column* root = &self.columns[ROOT]
        cdef ArrowSource source = self.source
        source.check_idle()
        source.check_chunk()
        self._generation = -1
        if self.positions[VALUE] < 0 and self._value_encoder is None:
            raise ValueError("there is no value column")
        memset(root, 0, sizeof(Column))
        if source._is_struct:
            bind_column(&source._schema, &source._array, 0, source.chunk_rows, root, NULL)
        for role in range(ROLE_COUNT):
            if self.positions[role] >= 0:
                self._bind_column(role)
        if self.has(HEADERS):
            self._bind_headers()
        if self._value_encoder is not None:
            self._value_encoder.bind(source)
        if self._key_encoder is not None:
            self._key_encoder.bind(source)
        self._generation = source.generation
        return 0

    cdef bint is_bound(self) noexcept:
        """Whether the chunk that was bound is still the current one."""
        return self._generation == self.source.generation

    cdef int check_chunk(self) except -1:
        self.source.check_idle()
        if not self.is_bound():
            raise ValueError("the current chunk was not started")
        return 0

    cdef bint has(self, int role) noexcept nogil:
        """Whether the column is given, and not of type null."""
        return self.positions[role] >= 0 and self.columns[role].layout != ALL_NULL

    cdef int _bind_column(self, int role) except -1:
        """The caller has checked types; a source whose data contradict its schema is refused here."""
        cdef int position = self.positions[role]
        cdef Column* column = &self.columns[role]
        cdef int64_t base = self.source._array.offset if self.source._is_struct else 0
        cdef bint fits
        try:
            bind_column(self.source.child_schema(position), self.source.child(position), base,
                        self.source.chunk_rows, column, &self.columns[role + DICTIONARY])
        except ValueError as error:
            raise ValueError(f"column {self.source.names[position]!r}: {error}") from error
        if role == HEADERS:
            fits = column.layout in (ALL_NULL, LIST, LIST_VIEW)
        elif role == PARTITION or role == TIMESTAMP:
            fits = column.dictionary == NULL and (
                column.layout in (ALL_NULL, INTEGER) or (role == TIMESTAMP and column.layout == FLOATING and column.width == 8)
            )
        else:
            fits = _has_bytes(column)
        if not fits:
            raise ValueError(
                f"column {self.source.names[position]!r} cannot be of Arrow format "
                f"{self.source.formats[position]!r}"
            )
        return 0

    cdef int _bind_headers(self) except -1:
        cdef int position = self.positions[HEADERS]
        cdef ArrowSchema* schema = self.source.child_schema(position)
        cdef ArrowArray* array = self.source.child(position)
        cdef Column* column
        cdef int number
        if not _has_children(schema, array, 1) or schema.children[0] == NULL or array.children[0] == NULL:
            raise invalid("a list without values")
        schema = schema.children[0]
        array = array.children[0]
        bind_column(schema, array, 0, array.length, &self.columns[HEADER], NULL)
        if self.columns[HEADER].layout != STRUCT or not _has_children(schema, array, 2):
            raise ValueError("headers must be structs of a name and a value")
        for number in range(2):
            column = &self.columns[HEADER_NAME + number]
            bind_column(schema.children[number], array.children[number], array.offset, array.length,
                        column, column + DICTIONARY)
            if not _has_bytes(column):
                raise ValueError("names and values of headers must be strings or binary")
        return 0

    # -- reading rows ------------------------------------------------------------------------------------

    cdef int64_t read(self, int64_t first, int64_t timestamp_ms) noexcept nogil:
        """Read the rows of a block: values, keys, topics, timestamps, headers, and what prevents that they are sent.

        Returns:
            -1, or the row (in the block) of a cell outside of the data (``_fault_role`` is its column), or NO_MEMORY.
        """
        cdef int64_t fault
        self.first = first
        self.rows = min(BLOCK_ROWS, self.source.chunk_rows - first)
        memset(self.block.status, ROW_IS_FINE, self.rows)
        fault = self._find_contents()
        if fault != -1:
            return fault
        self._find_timestamps(timestamp_ms)
        self._fault_role = HEADERS
        fault = self._encode_headers()
        if fault == -1:
            self._mark_null_rows()
        return fault

    cdef int64_t _find_contents(self) noexcept nogil:
        """Find or make values and keys, which may end the block early, and find topics. Returns as ``read``."""
        cdef int64_t fault = -1
        self._fault_role = VALUE
        if self._value_encoder is not None:
            fault = self._value_encoder.encode(
                self.first, &self.rows, self.block.values, self.block.status, self.block.details, VALUE_DOES_NOT_FIT,
                TOO_LARGE, max(self._content_limit, _ROW_BYTES)
            )
        else:
            fault = self._find_cells(VALUE, self.block.values)
        if fault != -1:
            return fault
        self._fault_role = KEY
        if self._key_encoder is not None:
            fault = self._key_encoder.encode(
                self.first, &self.rows, self.block.keys, self.block.status, self.block.details, KEY_DOES_NOT_FIT,
                TOO_LARGE, max(self._content_limit, _ROW_BYTES)
            )
        elif self.positions[KEY] >= 0:
            fault = self._find_cells(KEY, self.block.keys)
        if fault == -1 and self.positions[TOPIC] >= 0:
            fault = self._find_cells(TOPIC, self.block.topic_names)
        return fault

    cdef Py_ssize_t _find_cells(self, int role, Cell* cells) noexcept nogil:
        self._fault_role = role
        return resolve(&self.columns[role], self.first, self.rows, cells)

    cdef int raise_fault(self, int64_t fault) except -1:
        """Raise the error for a result of ``read`` that is not -1. There is no block then."""
        if fault == -1:
            return 0
        self.rows = 0
        if fault == NO_MEMORY:
            raise MemoryError
        position = self.positions[self._fault_role]
        column = "a column" if position < 0 else f"column {self.source.names[position]!r}"
        raise invalid(f"{column} refers to bytes outside of its data in row {self.first + fault} of the chunk")

    cdef void _find_timestamps(self, int64_t timestamp_ms) noexcept nogil:
        cdef Py_ssize_t row
        cdef const Column* column = &self.columns[TIMESTAMP]
        if not self.has(TIMESTAMP):
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
        if not self.has(HEADERS):
            return -1
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
            and not copied: ``check_sizes`` refuses the row for its size.
        """
        cdef Column* columns = self.columns
        cdef int64_t start, end, at
        cdef Py_ssize_t size, pair_size, added_size
        cdef uint64_t count
        cdef Cell name, value
        cdef const char* text
        cdef char* place
        span.start = self._header_used
        span.size = 0
        start = end = 0
        if not is_null(&columns[HEADERS], row) and (
            not range_at(&columns[HEADERS], row, &start, &end) or end > columns[HEADER].length
        ):
            return LEADS_OUTSIDE
        count = <uint64_t> (end - start + self._added_count)
        if count == 0:
            return ROW_IS_FINE
        added_size = self._added.size
        size = varint_size(count << 1)
        place = self._reserve_headers(size + added_size)
        if place == NULL:
            return NO_MEMORY
        put_varint(place, count << 1)
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
                place = self._reserve_headers(size + pair_size + added_size)
                if place == NULL:
                    return NO_MEMORY
                place = put_bytes(place + size, name.data, name.size)
                text = place - name.size
                put_bytes(place, value.data, value.size)
            if not is_utf8(<const uint8_t*> text, name.size):
                return HEADER_NAME_WRONG
            # Cells may share their bytes, so this sum needs a limit. Beyond it the row is too large already.
            size = min(size + pair_size, KP_MOST_BYTES)
        if added_size:
            if size + added_size <= self._content_limit:
                # The last header has reserved the room for them.
                memcpy(self.header_bytes + self._header_used + size, self._added.data, added_size)
            size += added_size
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

    cdef void check_sizes(self) noexcept nogil:
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
        self.block_bytes = total

    cdef void _mark_null_rows(self) noexcept nogil:
        cdef Py_ssize_t row
        cdef const Column* root = &self.columns[ROOT]
        if root.layout == STRUCT and root.validity != NULL:
            for row in range(self.rows):
                if is_null(root, self.first + row):
                    self.block.status[row] = ROW_IS_NULL


cdef bint _has_bytes(const Column* column) noexcept:
    cdef Layout layout = column.layout if column.dictionary == NULL else column.dictionary.layout
    return layout in (ALL_NULL, BYTES, BYTES_VIEW, BYTES_FIXED)


cdef bint _has_children(const ArrowSchema* schema, const ArrowArray* array, int64_t count) noexcept:
    return schema.n_children == array.n_children == count and schema.children != NULL and array.children != NULL

# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False
"""Reads Arrow data: ``ArrowSource`` opens it, C functions bind columns and read their cells.

Columns are bound once per chunk and read without the interpreter lock and without Python objects. Needs no
pyarrow. Invalid data raise ``ValueError``.

The C data interface does not say how long buffers are, apart from those of views; there the exporter has to be
trusted. Everything else is checked (lengths, offsets of parents, the order of offsets, views, dictionary
indexes): a cell that fails is an error, never a read outside of the data. Each number is read once, and the
checked copy is used, because the application may change its buffers at any time.

The cell readers are in one file, because they are only inlined into each other there.
Source: the Arrow columnar format 1.4, its C data and C stream interfaces, and the PyCapsule interface.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from libc.math cimport floor
from libc.stdint cimport (
    int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, INT32_MAX, INT64_MAX,
)
from libc.string cimport memcpy, memset, strcmp, strerror

#: Seconds since the epoch that fit as milliseconds, with room.
cdef double _MOST_SECONDS = 9.2e15
#: Types that contain types are shown in messages up to this depth, and described for a plan up to the next.
cdef int _DEEPEST = 16
cdef int _DEEPEST_FIELD = 32  # as in the pure twin
#: A flag of ``ArrowSchema``.
cdef int64_t _IS_NULLABLE = 2

#: Layout, width and signedness of the formats that are read here.
cdef dict _FORMATS = {
    b"n": (ALL_NULL, 0, False),
    b"u": (BYTES, 4, False), b"z": (BYTES, 4, False), b"U": (BYTES, 8, False), b"Z": (BYTES, 8, False),
    b"vu": (BYTES_VIEW, 0, False), b"vz": (BYTES_VIEW, 0, False),
    b"c": (INTEGER, 1, True), b"C": (INTEGER, 1, False),
    b"s": (INTEGER, 2, True), b"S": (INTEGER, 2, False),
    b"i": (INTEGER, 4, True), b"I": (INTEGER, 4, False),
    b"l": (INTEGER, 8, True), b"L": (INTEGER, 8, False),
    b"b": (BOOLEAN, 0, False), b"e": (FLOATING, 2, True), b"f": (FLOATING, 4, True), b"g": (FLOATING, 8, True),
    b"tdD": (INTEGER, 4, True), b"tdm": (INTEGER, 8, True),
    b"tts": (INTEGER, 4, True), b"ttm": (INTEGER, 4, True), b"ttu": (INTEGER, 8, True), b"ttn": (INTEGER, 8, True),
    b"tDs": (INTEGER, 8, True), b"tDm": (INTEGER, 8, True), b"tDu": (INTEGER, 8, True), b"tDn": (INTEGER, 8, True),
    b"tiM": (WIDE, 4, True), b"tiD": (WIDE, 8, True), b"tin": (WIDE, 16, True),
    b"+l": (LIST, 4, False), b"+m": (LIST, 4, False), b"+L": (LIST, 8, False),
    b"+vl": (LIST_VIEW, 4, False), b"+vL": (LIST_VIEW, 8, False),
    b"+s": (STRUCT, 0, False),
}
cdef dict _TICKS_PER_SECOND = {b"tss:": 1, b"tsm:": 1000, b"tsu:": 1000000, b"tsn:": 1000000000}


cdef struct _View:
    int32_t size
    char prefix[4]
    int32_t buffer
    int32_t offset


# -- binding a column ------------------------------------------------------------------------------------


cdef str _format_text(ArrowSchema* schema, int depth):
    """The type as text: Arrow's format, children in brackets; ``dictionary(i,u)`` for encoded ones."""
    if schema.format == NULL or depth > _DEEPEST:
        return "?"
    text = _text(schema.format)
    if schema.dictionary != NULL:
        return f"dictionary({text},{_format_text(schema.dictionary, depth + 1)})"
    if schema.n_children <= 0 or schema.children == NULL:
        return text
    children = []
    for number in range(schema.n_children):
        if schema.children[number] == NULL:
            return "?"
        children.append(f"{_text(schema.children[number].name)}:{_format_text(schema.children[number], depth + 1)}")
    return f"{text}({','.join(children)})"


cdef tuple _described(ArrowSchema* schema, int depth):
    """A field as in ``ArrowField``, children included."""
    cdef Column column
    if depth > _DEEPEST_FIELD:
        raise ValueError(f"the types of a column contain each other more than {_DEEPEST_FIELD} levels deep")
    if schema == NULL or schema.n_children < 0 or (schema.n_children and schema.children == NULL):
        raise invalid("a child is missing")
    children = [_described(schema.children[number], depth + 1) for number in range(schema.n_children)]
    text = _text(schema.format)
    if text.startswith(("d:", "w:", "t", "+w", "+u")):
        # Formats read the parameters of these.
        _parse_format(schema, &column)
    expected = schema.n_children
    if text == "+m" or text.startswith(("+l", "+L", "+vl", "+vL", "+w:")):
        expected = 1
    elif text.startswith(("+us:", "+ud:")):
        expected = len(text[4:].split(",")) if text[4:] else 0
    if schema.n_children != expected or (text == "+m" and len(children[0][3]) != 2):
        raise invalid(f"the format {text!r} with {schema.n_children} children")
    dictionary = None if schema.dictionary == NULL else _described(schema.dictionary, depth + 1)
    return (
        _text(schema.name), text, bool(schema.flags & _IS_NULLABLE), tuple(children), dictionary,
        _extension_name(schema.metadata),
    )


cdef str _extension_name(const char* metadata):
    """From pairs of texts with their lengths, in the byte order of this machine. Empty: not an extension type."""
    cdef int32_t count, size
    cdef bytes key, value
    if metadata == NULL:
        return ""
    memcpy(&count, metadata, 4)
    metadata += 4
    for _ in range(max(count, 0)):
        memcpy(&size, metadata, 4)
        key = metadata[4:4 + max(size, 0)]
        metadata += 4 + max(size, 0)
        memcpy(&size, metadata, 4)
        value = metadata[4:4 + max(size, 0)]
        metadata += 4 + max(size, 0)
        if key == b"ARROW:extension:name":
            return value.decode("utf-8", "replace")
    return ""


cdef str _text(const char* given):
    """Empty for NULL."""
    return "" if given == NULL else (<bytes> given).decode("utf-8", "replace")


cdef int _parse_format(ArrowSchema* schema, Column* column) except -1:
    """Set layout, width, signedness and unit. Raises ``ValueError`` for formats that are not read here."""
    text = b"" if schema.format == NULL else <bytes> schema.format
    found = _FORMATS.get(text)
    if text[:4] in _TICKS_PER_SECOND:
        column.ticks_per_second = _TICKS_PER_SECOND[text[:4]]
        found = _FORMATS[b"l"]
    elif text[:2] == b"w:" and text[2:].isdigit() and int(text[2:]) <= INT32_MAX:
        found = (BYTES_FIXED, int(text[2:]), False)
    elif text[:3] == b"+w:" and text[3:].isdigit() and int(text[3:]) <= INT32_MAX:
        found = (LIST_FIXED, int(text[3:]), False)
    elif text[:2] == b"d:":
        parts = text[2:].split(b",")
        bits = parts[2] if len(parts) == 3 else b"128"
        if len(parts) in (2, 3) and _are_numbers(parts) and bits in (b"32", b"64", b"128", b"256"):
            found = (WIDE, int(bits) // 8, True)
    elif text[:4] in (b"+us:", b"+ud:") and (len(text) == 4 or _are_numbers(text[4:].split(b","))):
        found = (UNION_SPARSE if text[:4] == b"+us:" else UNION_DENSE, 1, False)
    if found is None:
        raise _unreadable(schema)
    column.layout = <Layout> <int> found[0]
    column.width = found[1]
    column.is_signed = found[2]
    return 0


cdef bint _are_numbers(list texts) except -1:
    """Whether all are numbers of three digits at most, with a sign or without."""
    return all([0 < len(each) <= 4 and each.lstrip(b"-").isdigit() for each in texts])


cdef bint _has_sane_bounds(const ArrowArray* array) noexcept:
    """Whether sums of length and offset cannot overflow."""
    return 0 <= array.length <= KP_MOST_ROWS and 0 <= array.offset <= KP_MOST_ROWS


cdef int bind_column(ArrowSchema* schema, ArrowArray* array, int64_t base, int64_t rows, Column* column,
                     Column* dictionary) except -1:
    """Make ``column`` read ``array``, whose rows 0 to ``rows`` are behind ``base`` elements.

    Args:
        base: the offset of the parent, which counts for its children as well; 0 or more.
        rows: how many the parent has; 0 or more.
        dictionary: where to put the dictionary's column; NULL: none is allowed.

    Raises:
        ValueError: this type is not read here, or the array contradicts itself.
    """
    memset(column, 0, sizeof(Column))
    if array == NULL or schema == NULL:
        raise invalid("a child is missing")
    _parse_format(schema, column)
    if not _has_sane_bounds(array):
        raise invalid(f"length {array.length}, offset {array.offset}")
    if array.length - base < rows:
        raise invalid(f"a child has {array.length} rows, its parent needs {<object> base + rows}")
    column.offset = array.offset + base
    column.length = rows
    if column.layout in (BYTES_FIXED, LIST_FIXED) and column.width > KP_MOST_BYTES // max(column.offset + rows, 1):
        raise invalid(f"{column.offset + rows} values of {column.width} bytes or elements")
    _bind_buffers(array, column)
    if schema.dictionary != NULL:
        if dictionary == NULL or column.layout != INTEGER or column.ticks_per_second:
            raise _unreadable(schema)
        if array.dictionary == NULL:
            raise invalid("its dictionary is missing")
        bind_column(schema.dictionary, array.dictionary, 0, array.dictionary.length, dictionary, NULL)
        column.dictionary = dictionary
    return 0


cdef int _bind_buffers(ArrowArray* array, Column* column) except -1:
    cdef int64_t expected = 2
    if column.layout == ALL_NULL:
        return 0
    if column.layout in (STRUCT, LIST_FIXED, UNION_SPARSE):
        expected = 1
    elif column.layout in (BYTES, BYTES_VIEW, LIST_VIEW):
        expected = 3
    if array.buffers == NULL or array.n_buffers < expected or (
        array.n_buffers > expected and column.layout != BYTES_VIEW
    ):
        raise invalid(f"{array.n_buffers} buffers where the type has {expected}")
    if column.layout in (UNION_SPARSE, UNION_DENSE):
        # Unions have no nulls of their own.
        column.data = <const char*> array.buffers[0]
        if column.layout == UNION_DENSE:
            column.values = array.buffers[1]
        if column.length and (column.data == NULL or (column.layout == UNION_DENSE and column.values == NULL)):
            raise invalid("a buffer of a union is missing")
        return 0
    if array.null_count != 0:
        column.validity = <const uint8_t*> array.buffers[0]
        if column.validity == NULL and array.null_count > 0:
            raise invalid(f"{array.null_count} nulls, and no bitmap that marks them")
    if column.layout in (STRUCT, LIST_FIXED):
        return 0
    column.values = array.buffers[1]
    if column.values == NULL and column.length and not (column.layout == BYTES_FIXED and column.width == 0):
        raise invalid("a buffer of values, offsets or views is missing")
    if column.layout == BYTES:
        column.data = <const char*> array.buffers[2]
    elif column.layout == BYTES_VIEW:
        column.view_count = array.n_buffers - 3
        if column.view_count > INT32_MAX:
            raise invalid(f"{array.n_buffers} buffers, more than views can number")
        column.view_buffers = array.buffers + 2
        column.view_sizes = <const int64_t*> array.buffers[array.n_buffers - 1]
        if column.view_count and column.view_sizes == NULL:
            raise invalid("the sizes of its buffers are missing")
    elif column.layout == LIST_VIEW:
        column.sizes = array.buffers[2]
        if column.sizes == NULL and column.length:
            raise invalid("the buffer of sizes is missing")
    return 0


cdef object invalid(str what):
    return ValueError(f"invalid Arrow data: {what}")


cdef object _unreadable(ArrowSchema* schema):
    return ValueError(f"the Arrow format {_format_text(schema, 0)!r} is not supported")


# -- reading cells --------------------------------------------------------------------------------------


cdef bint is_null(const Column* column, int64_t row) noexcept nogil:
    """Whether the row has no value. A null in the dictionary does not count."""
    cdef int64_t at = column.offset + row
    if column.layout == ALL_NULL:
        return True
    return column.validity != NULL and not (column.validity[at >> 3] >> (at & 7)) & 1


cdef int64_t integer_at(const Column* column, int64_t row) noexcept nogil:
    """The number; -1 if it does not fit into an int64."""
    cdef int64_t at = column.offset + row
    cdef int64_t number
    if column.width == 4:
        number = (<const int32_t*> column.values)[at]
        return number if column.is_signed else <int64_t> <uint32_t> number
    if column.width == 8:
        number = (<const int64_t*> column.values)[at]
        return number if column.is_signed else max(number, -1)
    if column.width == 2:
        number = (<const int16_t*> column.values)[at]
        return number if column.is_signed else <int64_t> <uint16_t> number
    number = (<const int8_t*> column.values)[at]
    return number if column.is_signed else <int64_t> <uint8_t> number


cdef inline int64_t _offset_at(const void* offsets, int width, int64_t at) noexcept nogil:
    return (<const int64_t*> offsets)[at] if width == 8 else (<const int32_t*> offsets)[at]


cdef int64_t epoch_ms_at(const Column* column, int64_t row) noexcept nogil:
    """Milliseconds since the epoch, rounded down; -1: before it, or too large for an int64."""
    cdef double seconds
    cdef int64_t ticks, unit
    if column.layout == FLOATING:
        seconds = (<const double*> column.values)[column.offset + row]
        # Written so that NaN fails it.
        if not (0 <= seconds <= _MOST_SECONDS):
            return -1
        return <int64_t> floor(seconds * 1000.0)
    ticks = integer_at(column, row)
    unit = column.ticks_per_second
    if ticks < 0:
        return -1
    if unit > 1000:
        return ticks // (unit // 1000)
    if unit == 1:
        return ticks * 1000 if ticks <= INT64_MAX // 1000 else -1
    return ticks


cdef bint range_at(const Column* column, int64_t row, int64_t* start, int64_t* end) noexcept nogil:
    """The elements of a list. ``False``: offsets go backwards. The caller checks that the elements exist."""
    cdef int64_t at = column.offset + row
    if column.layout == LIST_FIXED:
        start[0] = at * column.width
        end[0] = start[0] + column.width
        return True
    start[0] = _offset_at(column.values, column.width, at)
    if column.layout == LIST:
        end[0] = _offset_at(column.values, column.width, at + 1)
    else:
        # Added as unsigned numbers, which may overflow.
        end[0] = <int64_t> (<uint64_t> start[0] + <uint64_t> _offset_at(column.sizes, column.width, at))
    return 0 <= start[0] <= end[0]


cdef inline bint _view_at(const Column* column, int64_t at, Cell* cell) noexcept nogil:
    # A copy: the application may change the view between the check and the use.
    cdef _View view = (<const _View*> column.values)[at]
    if view.size < 0:
        return False
    cell.size = view.size
    if view.size <= 12:
        cell.data = <const char*> &(<const _View*> column.values)[at] + 4
        return True
    if not (0 <= view.buffer < column.view_count) or view.offset < 0:
        return False
    cell.data = <const char*> column.view_buffers[view.buffer]
    if cell.data == NULL or <int64_t> view.offset + view.size > column.view_sizes[view.buffer]:
        return False
    cell.data += view.offset
    return True


cdef inline bint _plain_at(const Column* column, int64_t row, Cell* cell) noexcept nogil:
    """``cell_at`` of a column without a dictionary."""
    cdef int64_t at = column.offset + row
    cdef int64_t start, end
    if is_null(column, row):
        cell.data = NULL
        cell.size = -1
        return True
    if column.layout == BYTES_VIEW:
        return _view_at(column, at, cell)
    if column.layout == BYTES_FIXED:
        cell.data = <const char*> column.values + at * column.width
        cell.size = column.width
        return True
    start = _offset_at(column.values, column.width, at)
    end = _offset_at(column.values, column.width, at + 1)
    if not (0 <= start <= end <= KP_MOST_BYTES) or (column.data == NULL and end > start):
        return False
    cell.data = column.data + start
    cell.size = end - start
    return True


cdef bint cell_at(const Column* column, int64_t row, Cell* cell) noexcept nogil:
    """The bytes of one row. ``False``: they are outside of the data."""
    cdef int64_t index
    if column.dictionary == NULL or is_null(column, row):
        return _plain_at(column, row, cell)
    index = integer_at(column, row)
    if not (0 <= index < column.dictionary.length):
        return False
    return _plain_at(column.dictionary, index, cell)


cdef Py_ssize_t resolve(const Column* column, int64_t start, Py_ssize_t rows, Cell* cells) noexcept nogil:
    """Fill ``cells`` with the bytes of ``rows`` rows. Returns -1, or the first row outside of the data."""
    cdef Py_ssize_t row, offset, end
    cdef const int32_t* offsets
    if column.layout == BYTES and column.width == 4 and column.validity == NULL and column.dictionary == NULL:
        # By far the most common case.
        offsets = (<const int32_t*> column.values) + column.offset + start
        end = offsets[0]
        for row in range(rows):
            # Each offset is read once: the application may change it between the check and the use.
            offset = end
            end = offsets[row + 1]
            if not (0 <= offset <= end) or (column.data == NULL and end > offset):
                return row
            cells[row].data = column.data + offset
            cells[row].size = end - offset
        return -1
    for row in range(rows):
        if not cell_at(column, start + row, &cells[row]):
            return row
    return -1


cdef bint is_utf8(const uint8_t* data, Py_ssize_t size) noexcept nogil:
    """Whether Python can decode it: no overlong forms, no surrogates, nothing above U+10FFFF."""
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t more
    cdef uint32_t code
    while at < size:
        code = data[at]
        at += 1
        if code < 0x80:
            continue
        more = 1 if code < 0xE0 else 2 if code < 0xF0 else 3
        if not 0xC2 <= code < 0xF5 or at + more > size:
            return False
        code &= 0x3F >> more
        for at in range(at, at + more):
            if data[at] & 0xC0 != 0x80:
                return False
            code = (code << 6) | (data[at] & 0x3F)
        at += 1
        if (
            (more == 2 and code < 0x800) or (more == 3 and code < 0x10000)
            or 0xD800 <= code < 0xE000 or code > 0x10FFFF
        ):
            return False
    return True


# -- opening a source ------------------------------------------------------------------------------------


cdef class ArrowSource:
    """One table, record batch, array or stream. For one thread.

    Moves the structs out of the capsules and releases each of them once.

    Args:
        data: has ``__arrow_c_array__`` or ``__arrow_c_stream__``.

    Attributes:
        names, formats: of the columns; formats as in the C data interface, children in brackets. Data that is
            not a struct is one column without a name.
        chunk_rows: rows of the current chunk.

    Raises:
        ValueError: it has neither, or what it exports is not valid.
    """

    def __init__(self, data: object) -> None:
        cdef ArrowSchema* schema
        cdef ArrowArray* array
        if self._schema.release != NULL:
            raise TypeError("an ArrowSource is opened once")
        if hasattr(data, "__arrow_c_array__"):
            exported = data.__arrow_c_array__()
            if not isinstance(exported, tuple) or len(exported) != 2:
                raise ValueError("__arrow_c_array__ did not return two capsules")
            schema = <ArrowSchema*> _pointer(exported[0], b"arrow_schema")
            array = <ArrowArray*> _pointer(exported[1], b"arrow_array")
            if schema.release == NULL or array.release == NULL:
                raise ValueError("the Arrow array was released before it could be read")
            self._schema = schema[0]
            schema.release = NULL
            self._array = array[0]
            array.release = NULL
            self._array_is_unread = True
        elif hasattr(data, "__arrow_c_stream__"):
            self._take_stream(data.__arrow_c_stream__())
        else:
            raise ValueError(
                f"{type(data).__name__} has no Arrow interface (__arrow_c_stream__ or __arrow_c_array__): "
                "make a table of it, for example with pyarrow.Table.from_pylist(rows)"
            )
        self._read_schema()

    def __dealloc__(self):
        self._release()

    def close(self) -> None:
        """Release everything; there are no more chunks. Idempotent."""
        self.check_idle()
        self._release()

    def next_chunk(self) -> int:
        """Release the current chunk and go to the next one.

        Returns:
            The number of its rows; -1: there are no more chunks.

        Raises:
            ValueError: the source failed; has its own message.
        """
        cdef int code
        self.check_idle()
        if self._array_is_unread:
            self._array_is_unread = False
            self.chunk_rows = self._checked_length()
            return self.chunk_rows
        self._release_chunk()
        if self._stream.release == NULL:
            return -1
        self.busy = True
        with nogil:
            # This may run a query or a generator.
            code = self._stream.get_next(&self._stream, &self._array)
        self.busy = False
        if code:
            self._array.release = NULL
            raise self._stream_error(code)
        if self._array.release == NULL:
            KP_RELEASE(&self._stream)
            return -1
        self.chunk_rows = self._checked_length()
        return self.chunk_rows

    def fields(self) -> tuple:
        """The columns with all that they contain, as ``ArrowField`` has it, in plain tuples."""
        cdef int number
        if self._schema.release == NULL:
            raise ValueError("the Arrow data were closed")
        return tuple([_described(self.child_schema(number), 0) for number in range(len(self.names))])

    cdef int check_idle(self) except -1:
        """Refuse to change what another thread, or the caller of a callback, is reading."""
        if self.busy:
            raise RuntimeError("the Arrow data are being read")
        return 0

    cdef int check_chunk(self) except -1:
        """Refuse to read a chunk that is not there: before the first one, or behind the last."""
        if self._array.release == NULL or self._array_is_unread:
            raise ValueError("no chunk of Arrow data is loaded: call next_chunk() first, until it returns -1")
        return 0

    cdef ArrowSchema* child_schema(self, int number):
        return self._schema.children[number] if self._is_struct else &self._schema

    cdef ArrowArray* child(self, int number):
        return self._array.children[number] if self._is_struct else &self._array

    cdef int _take_stream(self, object capsule) except -1:
        cdef int code
        cdef ArrowArrayStream* given = <ArrowArrayStream*> _pointer(capsule, b"arrow_array_stream")
        if given.release == NULL or given.get_schema == NULL or given.get_next == NULL:
            raise ValueError("the Arrow stream was read before")
        self._stream = given[0]
        given.release = NULL
        with nogil:
            code = self._stream.get_schema(&self._stream, &self._schema)
        if code:
            self._schema.release = NULL
            raise self._stream_error(code)
        if self._schema.release == NULL:
            raise ValueError("the Arrow stream gave no schema")
        return 0

    cdef int _read_schema(self) except -1:
        cdef int64_t number
        cdef int64_t count = 1
        cdef ArrowSchema* child
        if self._schema.format == NULL:
            raise invalid("the schema has no format")
        self._is_struct = strcmp(self._schema.format, b"+s") == 0
        if self._is_struct:
            count = self._schema.n_children
            if count < 0 or (count and self._schema.children == NULL):
                raise invalid("the schema has fewer columns than it says")
        names = []
        formats = []
        for number in range(count):
            child = self.child_schema(number)
            if child == NULL:
                raise invalid("the schema has fewer columns than it says")
            names.append(_text(child.name) if self._is_struct else "")
            formats.append(_format_text(child, 0))
        self.names = tuple(names)
        self.formats = tuple(formats)
        return 0

    cdef int64_t _checked_length(self) except -1:
        cdef bint has_columns = self._array.n_children == self._schema.n_children and (
            self._array.n_children == 0 or self._array.children != NULL
        )
        if not _has_sane_bounds(&self._array) or (self._is_struct and not has_columns):
            raise invalid(
                f"length {self._array.length}, offset {self._array.offset}, "
                f"{self._array.n_children} columns where the schema has {self._schema.n_children}"
            )
        return self._array.length

    cdef object _stream_error(self, int code):
        cdef const char* text = NULL
        if self._stream.get_last_error != NULL:
            text = self._stream.get_last_error(&self._stream)
        if text == NULL:
            text = strerror(code)
        return ValueError(f"the Arrow stream failed: {_text(text)}")

    cdef void _release_chunk(self) noexcept:
        self._array_is_unread = False
        self.generation += 1
        self.chunk_rows = 0
        KP_RELEASE(&self._array)

    cdef void _release(self) noexcept:
        self._release_chunk()
        KP_RELEASE(&self._stream)
        KP_RELEASE(&self._schema)


cdef void* _pointer(object capsule, const char* name) except NULL:
    if not PyCapsule_IsValid(capsule, name):
        raise ValueError(f"not a capsule named {name.decode()}: {capsule!r:.100}")
    return PyCapsule_GetPointer(capsule, name)

# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Columns of an Arrow chunk: bound once a chunk, read without the GIL and without a Python object.

What a producer of capsules says is believed only where it cannot be checked: the C data interface does not
tell how long buffers are, apart from those of views. Lengths, offsets of parents, the order of offsets, views
and dictionary indexes are checked; a cell that fails is an error, never a read outside. Each is read once, and what
was checked is what is used: an application may change its buffers at any time.
Source: the Arrow columnar format 1.4 and its C data interface.
"""

from libc.math cimport floor
from libc.stdint cimport (
    int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, INT32_MAX, INT64_MAX,
)
from libc.stdlib cimport strtoll
from libc.string cimport memset, strcmp, strlen, strncmp

from kproducer.errors import InvalidArgumentError

#: Seconds since the epoch that fit as milliseconds, with room.
cdef double _MOST_SECONDS = 9.2e15
#: Types may hold types; nobody's hold this many.
cdef int _DEEPEST = 16


cdef struct _View:
    int32_t size
    char prefix[4]
    int32_t buffer
    int32_t offset


# -- binding ---------------------------------------------------------------------------------------------


cdef str format_text(ArrowSchema* schema, int depth):
    """The type as text: Arrow's format, children in brackets; ``dictionary(i,u)`` for encoded ones."""
    if schema.format == NULL or depth > _DEEPEST:
        return "?"
    text = schema.format.decode("utf-8", "replace")
    if schema.dictionary != NULL:
        return f"dictionary({text},{format_text(schema.dictionary, depth + 1)})"
    if schema.n_children <= 0 or schema.children == NULL:
        return text
    children = []
    for number in range(schema.n_children):
        if schema.children[number] == NULL:
            return "?"
        name = b"" if schema.children[number].name == NULL else <bytes> schema.children[number].name
        children.append(
            f"{name.decode('utf-8', 'replace')}:{format_text(schema.children[number], depth + 1)}"
        )
    return f"{text}({','.join(children)})"


cdef bint _parse_format(const char* text, Column* column) noexcept:
    """Set layout, width, signedness and unit; whether the format is one that is read here."""
    cdef char first
    if text == NULL or text[0] == 0:
        return False
    first = text[0]
    if text[1] == 0:
        column.is_text = first == b"u" or first == b"U"
        if first == b"u" or first == b"z":
            column.layout = BYTES_32
        elif first == b"U" or first == b"Z":
            column.layout = BYTES_64
        elif first == b"n":
            column.layout = ALL_NULL
        elif first == b"g":
            column.layout = SECONDS
            column.width = 8
        else:
            return _parse_integer(first, column)
        return True
    if strcmp(text, b"vu") == 0 or strcmp(text, b"vz") == 0:
        column.layout = BYTES_VIEW
        column.is_text = text[1] == b"u"
        return True
    if strncmp(text, b"w:", 2) == 0:
        width = strtoll(text + 2, NULL, 10)
        if not 0 <= width <= INT32_MAX:
            return False
        column.layout = BYTES_FIXED
        column.width = <int> width
        return True
    if strncmp(text, b"ts", 2) == 0 and strlen(text) >= 4 and text[3] == b":":
        column.layout = INTEGER
        column.width = 8
        column.is_signed = True
        if text[2] == b"s":
            column.ticks_per_second = 1
        elif text[2] == b"m":
            column.ticks_per_second = 1000
        elif text[2] == b"u":
            column.ticks_per_second = 1000000
        elif text[2] == b"n":
            column.ticks_per_second = 1000000000
        return column.ticks_per_second != 0
    if strcmp(text, b"+l") == 0 or strcmp(text, b"+m") == 0:
        column.layout = LIST_32
    elif strcmp(text, b"+L") == 0:
        column.layout = LIST_64
    elif strcmp(text, b"+vl") == 0:
        column.layout = LIST_VIEW_32
    elif strcmp(text, b"+vL") == 0:
        column.layout = LIST_VIEW_64
    elif strcmp(text, b"+s") == 0:
        column.layout = STRUCT
    else:
        return False
    return True


cdef bint _parse_integer(char kind, Column* column) noexcept:
    column.layout = INTEGER
    column.is_signed = kind == b"c" or kind == b"s" or kind == b"i" or kind == b"l"
    if kind == b"c" or kind == b"C":
        column.width = 1
    elif kind == b"s" or kind == b"S":
        column.width = 2
    elif kind == b"i" or kind == b"I":
        column.width = 4
    elif kind == b"l" or kind == b"L":
        column.width = 8
    else:
        return False
    return True


cdef int _buffer_count(Layout layout) noexcept:
    if layout == STRUCT:
        return 1
    if layout in (BYTES_32, BYTES_64, BYTES_VIEW, LIST_VIEW_32, LIST_VIEW_64):
        return 3
    return 2


cdef bint has_sane_bounds(const ArrowArray* array) noexcept:
    """Whether length and offset are such that sums of them cannot overflow."""
    return 0 <= array.length <= KP_MOST_ROWS and 0 <= array.offset <= KP_MOST_ROWS


cdef int bind(ArrowSchema* schema, ArrowArray* array, int64_t base, int64_t rows, Column* column,
              Column* dictionary) except -1:
    """Make ``column`` read ``array``, whose rows 0 to ``rows`` lie behind ``base`` elements.

    Args:
        base: the offset of the parent, which counts for its children as well; 0 or more.
        rows: how many the parent has; 0 or more.
        dictionary: where to put the dictionary's column; NULL: none is allowed.

    Raises:
        InvalidArgumentError: the type is none that is read here, or the array contradicts itself.
    """
    memset(column, 0, sizeof(Column))
    if array == NULL or schema == NULL:
        raise _invalid("a child is missing")
    if not _parse_format(schema.format, column):
        raise InvalidArgumentError(f"the Arrow format {format_text(schema, 0)!r} is not read here")
    if not has_sane_bounds(array):
        raise _invalid(f"length {array.length}, offset {array.offset}")
    if array.length - base < rows:
        raise _invalid(f"a child has {array.length} rows, its parent needs {<object> base + rows}")
    column.offset = array.offset + base
    column.length = rows
    if column.layout == BYTES_FIXED and column.width > KP_MOST_BYTES // max(column.offset + rows, 1):
        raise _invalid(f"{column.offset + rows} values of {column.width} bytes")
    _bind_buffers(array, column)
    if schema.dictionary != NULL:
        if dictionary == NULL or column.layout != INTEGER or column.ticks_per_second:
            raise InvalidArgumentError(f"the Arrow format {format_text(schema, 0)!r} is not read here")
        if array.dictionary == NULL:
            raise _invalid("its dictionary is missing")
        bind(schema.dictionary, array.dictionary, 0, array.dictionary.length, dictionary, NULL)
        column.dictionary = dictionary
    return 0


cdef int _bind_buffers(ArrowArray* array, Column* column) except -1:
    cdef int64_t expected = _buffer_count(column.layout)
    cdef bint enough = array.n_buffers >= expected if column.layout == BYTES_VIEW else (
        array.n_buffers == expected
    )
    if column.layout == ALL_NULL:
        return 0
    if not enough or array.buffers == NULL:
        raise _invalid(f"{array.n_buffers} buffers where the type has {expected}")
    if array.null_count != 0:
        column.validity = <const uint8_t*> array.buffers[0]
        if column.validity == NULL and array.null_count > 0:
            raise _invalid(f"{array.null_count} nulls and no bitmap that says where")
    if column.layout == STRUCT:
        return 0
    column.values = array.buffers[1]
    if column.values == NULL and column.length and column.width != 0:
        raise _invalid("a buffer is missing")
    if column.layout in (BYTES_32, BYTES_64):
        if column.values == NULL and column.length:
            raise _invalid("the buffer of offsets is missing")
        column.data = <const char*> array.buffers[2]
    elif column.layout == BYTES_VIEW:
        if column.values == NULL and column.length:
            raise _invalid("the buffer of views is missing")
        column.view_count = array.n_buffers - 3
        if column.view_count > INT32_MAX:
            raise _invalid(f"{array.n_buffers} buffers, more than views can tell apart")
        column.view_buffers = array.buffers + 2
        column.view_sizes = <const int64_t*> array.buffers[array.n_buffers - 1]
        if column.view_count and column.view_sizes == NULL:
            raise _invalid("the sizes of its buffers are missing")
    elif column.layout in (LIST_32, LIST_64, LIST_VIEW_32, LIST_VIEW_64):
        if column.values == NULL and column.length:
            raise _invalid("the buffer of offsets is missing")
        if column.layout in (LIST_VIEW_32, LIST_VIEW_64):
            column.sizes = array.buffers[2]
            if column.sizes == NULL and column.length:
                raise _invalid("the buffer of sizes is missing")
    return 0


cdef object _invalid(str what):
    return InvalidArgumentError(f"this is no valid Arrow data: {what}")


# -- reading ---------------------------------------------------------------------------------------------


cdef bint is_null(const Column* column, int64_t row) noexcept nogil:
    """Whether the row has no value; the entry of the dictionary is not looked at."""
    cdef int64_t at = column.offset + row
    if column.layout == ALL_NULL:
        return True
    return column.validity != NULL and not (column.validity[at >> 3] >> (at & 7)) & 1


cdef int64_t integer_at(const Column* column, int64_t row) noexcept nogil:
    """The number; what does not fit an int64 is -1."""
    cdef int64_t at = column.offset + row
    if column.width == 4:
        if column.is_signed:
            return (<const int32_t*> column.values)[at]
        return (<const uint32_t*> column.values)[at]
    if column.width == 8:
        if column.is_signed or (<const int64_t*> column.values)[at] >= 0:
            return (<const int64_t*> column.values)[at]
        return -1
    if column.width == 2:
        if column.is_signed:
            return (<const int16_t*> column.values)[at]
        return (<const uint16_t*> column.values)[at]
    if column.is_signed:
        return (<const int8_t*> column.values)[at]
    return (<const uint8_t*> column.values)[at]


cdef int64_t epoch_ms_at(const Column* column, int64_t row) noexcept nogil:
    """Milliseconds since the epoch, rounded down; -1: before it, or beyond what an int64 holds."""
    cdef double seconds
    cdef int64_t ticks, unit
    if column.layout == SECONDS:
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
    """The elements of a list; ``False``: offsets go backwards. Whether they exist is the caller's to check."""
    cdef int64_t at = column.offset + row
    if column.layout == LIST_32:
        start[0] = (<const int32_t*> column.values)[at]
        end[0] = (<const int32_t*> column.values)[at + 1]
    elif column.layout == LIST_64:
        start[0] = (<const int64_t*> column.values)[at]
        end[0] = (<const int64_t*> column.values)[at + 1]
    elif column.layout == LIST_VIEW_32:
        start[0] = (<const int32_t*> column.values)[at]
        end[0] = start[0] + (<const int32_t*> column.sizes)[at]
    else:
        start[0] = (<const int64_t*> column.values)[at]
        # As unsigned numbers, whose sums may pass the end.
        end[0] = <int64_t> (<uint64_t> start[0] + <uint64_t> (<const int64_t*> column.sizes)[at])
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
    if column.layout == ALL_NULL or (
        column.validity != NULL and not (column.validity[at >> 3] >> (at & 7)) & 1
    ):
        cell.data = NULL
        cell.size = -1
        return True
    if column.layout == BYTES_32:
        start = (<const int32_t*> column.values)[at]
        end = (<const int32_t*> column.values)[at + 1]
    elif column.layout == BYTES_64:
        start = (<const int64_t*> column.values)[at]
        end = (<const int64_t*> column.values)[at + 1]
        if end > KP_MOST_BYTES:
            return False
    elif column.layout == BYTES_VIEW:
        return _view_at(column, at, cell)
    else:
        cell.data = <const char*> column.values + at * column.width
        cell.size = column.width
        return True
    if not (0 <= start <= end) or (column.data == NULL and end > start):
        return False
    cell.data = column.data + start
    cell.size = end - start
    return True


cdef bint cell_at(const Column* column, int64_t row, Cell* cell) noexcept nogil:
    """The bytes of one row; ``False``: they lie outside of the data."""
    cdef int64_t index
    if column.dictionary == NULL:
        return _plain_at(column, row, cell)
    if is_null(column, row):
        cell.data = NULL
        cell.size = -1
        return True
    index = integer_at(column, row)
    if not (0 <= index < column.dictionary.length):
        return False
    return _plain_at(column.dictionary, index, cell)


cdef Py_ssize_t resolve(const Column* column, int64_t start, Py_ssize_t rows, Cell* cells) noexcept nogil:
    """Fill ``cells`` with the bytes of ``rows`` rows. Returns -1, or the first row that leads outside."""
    cdef Py_ssize_t row, offset, end
    cdef const int32_t* offsets
    if column.layout == BYTES_32 and column.validity == NULL and column.dictionary == NULL:
        # The commonest case by far.
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
    """Whether Python would decode it: no overlong forms, no surrogates, nothing above U+10FFFF."""
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t more
    cdef uint32_t code
    while at < size:
        if data[at] < 0x80:
            at += 1
            continue
        if 0xC2 <= data[at] < 0xE0:
            more = 1
            code = data[at] & 0x1F
        elif 0xE0 <= data[at] < 0xF0:
            more = 2
            code = data[at] & 0x0F
        elif 0xF0 <= data[at] < 0xF5:
            more = 3
            code = data[at] & 0x07
        else:
            return False
        if at + more >= size:
            return False
        for at in range(at + 1, at + 1 + more):
            if data[at] & 0xC0 != 0x80:
                return False
            code = (code << 6) | (data[at] & 0x3F)
        at += 1
        if (more == 2 and (code < 0x800 or 0xD800 <= code < 0xE000)) or (
            more == 3 and not 0x10000 <= code < 0x110000
        ):
            return False
    return True

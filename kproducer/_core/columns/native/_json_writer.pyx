# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False
"""Writes Arrow values as JSON; see ``JsonOperation``. The pure twin is ``pure/json_writer.py``.

Sources: RFC 8259 (JSON), RFC 4648 (base64).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from kproducer._core.columns.native._arrow_reader cimport (
    BOOLEAN, BYTES, BYTES_FIXED, BYTES_VIEW, FLOATING, INTEGER, LIST, LIST_FIXED, LIST_VIEW, STRUCT, UNION_DENSE,
    UNION_SPARSE, WIDE, Cell, Column, cell_at, is_utf8, range_at,
)
from kproducer._core.columns.native._json_numbers cimport (
    MOST_SCALE, prepare_numbers, write_decimal, write_float, write_integer,
)
from kproducer._core.columns.native._json_times cimport DATE, DURATION, INTERVAL, TIME, TIMESTAMP, write_duration, write_time
from kproducer._core.columns.native._output cimport KP_LIKELY, NO_MEMORY, WRITTEN, Output, put, reserve
from kproducer._core.columns.native._row_output cimport (
    LEADS_OUTSIDE, NOT_A_UUID, NOT_UTF8, Node, alternative_of, boolean_at, has_value, misfit,
)

cdef enum:
    # The numbers of JsonOperation; the others are in _json_times.
    NOTHING = 0
    BOOLEAN_VALUE = 1
    INTEGER_VALUE = 2
    FLOAT = 3
    TEXT = 4
    BINARY = 5
    UUID = 6
    DECIMAL = 7
    ARRAY = 13
    MAP = 14
    ENTRY = 15
    OBJECT = 16
    UNION = 17
    _MOST_TICKS = 1000000000

# The letter behind the backslash for each byte; 0: it is not escaped.
cdef char[256] _escapes
cdef bint _is_prepared = False
cdef const char* _HEX = b"0123456789abcdef"
cdef const char* _BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


cdef int prepare_json() except -1:
    global _is_prepared
    if _is_prepared:
        return 0
    prepare_numbers()
    memset(_escapes, c"u", 32)
    _escapes[8] = c"b"
    _escapes[9] = c"t"
    _escapes[10] = c"n"
    _escapes[12] = c"f"
    _escapes[13] = c"r"
    _escapes[34] = c'"'
    _escapes[92] = c"\\"
    _is_prepared = True
    return 0


cdef bint reads_json(const Node* node, const Column* values) noexcept nogil:
    cdef int operation = node.operation
    if operation == NOTHING:
        return True
    if operation == BOOLEAN_VALUE:
        return values.layout == BOOLEAN
    if operation == INTEGER_VALUE:
        return values.layout == INTEGER
    if operation == FLOAT:
        return values.layout == FLOATING and values.width == node.a
    if operation in (TEXT, BINARY, UUID):
        return values.layout in (BYTES, BYTES_VIEW, BYTES_FIXED)
    if operation == DECIMAL:
        return values.layout == WIDE and -MOST_SCALE <= node.a <= MOST_SCALE
    if operation in (DATE, TIME, TIMESTAMP, DURATION):
        return values.layout == INTEGER and 0 < node.a <= _MOST_TICKS
    if operation == INTERVAL:
        return values.layout == WIDE and values.width <= 16
    if operation in (ARRAY, MAP):
        return values.layout in (LIST, LIST_VIEW, LIST_FIXED) and node.child_count == 1
    if operation in (ENTRY, OBJECT):
        return values.layout == STRUCT
    return operation == UNION and values.layout in (UNION_SPARSE, UNION_DENSE) and node.symbol_count > 0


cdef int write_json(Output* out, Node* node, int64_t row) noexcept nogil:
    cdef const Column* column = NULL
    cdef int operation = node.operation
    cdef int code
    if not has_value(out, node, &row, &column, &code):
        return code
    if node.prefix_size:
        code = put(out, node.prefix, node.prefix_size)
        if code:
            return code
    if operation == TEXT:
        return _write_text(out, node, column, row)
    if operation == INTEGER_VALUE:
        return write_integer(out, column, row)
    if operation == FLOAT:
        return write_float(out, node, column, row)
    if operation == OBJECT:
        return _write_object(out, node, row)
    if operation in (DATE, TIME, TIMESTAMP):
        return write_time(out, node, column, row)
    if operation == BOOLEAN_VALUE:
        return put(out, b"true", 4) if boolean_at(column, row) else put(out, b"false", 5)
    if operation == ARRAY or operation == MAP:
        return _write_elements(out, node, column, row)
    if operation == ENTRY:
        return _write_members(out, node, row)
    if operation == DECIMAL:
        return write_decimal(out, node, column, row)
    if operation == BINARY:
        return _write_base64(out, column, row)
    if operation == UUID:
        return _write_uuid(out, node, column, row)
    if operation == DURATION or operation == INTERVAL:
        return write_duration(out, node, column, row)
    if operation == UNION:
        return _write_union(out, node, column, row)
    return WRITTEN


# -- text -----------------------------------------------------------------------------------------------


cdef inline bint _needs_escapes(uint64_t word) noexcept nogil:
    """Whether one of 8 bytes is a control character, a quote or a backslash."""
    cdef uint64_t ones = 0x0101010101010101
    cdef uint64_t quote = word ^ (ones * 0x22)
    cdef uint64_t backslash = word ^ (ones * 0x5C)
    # Subtracting sets the highest bit of a byte that is smaller, or of one above a smaller one.
    return (
        (((word - ones * 0x20) & ~word) | ((quote - ones) & ~quote) | ((backslash - ones) & ~backslash))
        & (ones * 0x80)
    ) != 0


cdef int _put_escaped(Output* out, const uint8_t* data, Py_ssize_t size, Py_ssize_t more) noexcept nogil:
    """Write up to 8 bytes with escapes, and reserve room for ``more`` and a quote."""
    cdef Py_ssize_t at
    cdef char* place
    cdef char letter
    if not reserve(out, 6 * 8 + more + 16):
        return NO_MEMORY
    place = out.data + out.size
    for at in range(size):
        letter = _escapes[data[at]]
        if letter == 0:
            place[0] = <char> data[at]
            place += 1
            continue
        place[0] = c"\\"
        place[1] = letter
        place += 2
        if letter == c"u":
            memcpy(place, b"00", 2)
            place[2] = _HEX[data[at] >> 4]
            place[3] = _HEX[data[at] & 15]
            place += 4
    out.size = place - out.data
    return WRITTEN


cdef int _write_text(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil:
    cdef Cell cell
    cdef uint64_t word
    cdef uint64_t all_bits = 0
    cdef Py_ssize_t at, count
    cdef Py_ssize_t start = out.size + 1
    cdef char* place
    if not cell_at(column, row, &cell):
        return LEADS_OUTSIDE
    if not reserve(out, cell.size + 16):
        return NO_MEMORY
    place = out.data + out.size
    place[0] = c'"'
    place += 1
    at = 0
    while at < cell.size:
        # A copy of the bytes is what is checked and written: the application may change its buffers.
        count = cell.size - at
        if KP_LIKELY(count >= 8):
            count = 8
            memcpy(&word, cell.data + at, 8)
        else:
            # Filled up with spaces, which the next bytes overwrite.
            word = 0x2020202020202020
            memcpy(&word, cell.data + at, count)
        all_bits |= word
        at += count
        if KP_LIKELY(not _needs_escapes(word)):
            memcpy(place, &word, 8)
            place += count
            continue
        out.size = place - out.data
        if _put_escaped(out, <const uint8_t*> &word, count, cell.size - at):
            return NO_MEMORY
        place = out.data + out.size
    place[0] = c'"'
    out.size = place + 1 - out.data
    if all_bits & <uint64_t> 0x8080808080808080 and not is_utf8(<const uint8_t*> out.data + start, out.size - start):
        return misfit(out, node, NOT_UTF8)
    return WRITTEN


cdef int _write_base64(Output* out, const Column* column, int64_t row) noexcept nogil:
    cdef Cell cell
    cdef Py_ssize_t at, rest
    cdef uint32_t group
    cdef char* place
    cdef const uint8_t* data
    if not cell_at(column, row, &cell):
        return LEADS_OUTSIDE
    if not reserve(out, (cell.size + 2) // 3 * 4 + 2):
        return NO_MEMORY
    data = <const uint8_t*> cell.data
    place = out.data + out.size
    place[0] = c'"'
    place += 1
    at = 0
    while at < cell.size:
        rest = cell.size - at
        group = <uint32_t> data[at] << 16
        if rest > 1:
            group |= <uint32_t> data[at + 1] << 8
        if rest > 2:
            group |= data[at + 2]
        place[0] = _BASE64[group >> 18]
        place[1] = _BASE64[(group >> 12) & 63]
        place[2] = _BASE64[(group >> 6) & 63] if rest > 1 else c"="
        place[3] = _BASE64[group & 63] if rest > 2 else c"="
        place += 4
        at += 3
    place[0] = c'"'
    out.size = place + 1 - out.data
    return WRITTEN


cdef int _write_uuid(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil:
    cdef Cell cell
    cdef int at
    cdef uint8_t byte
    cdef char* place
    if not cell_at(column, row, &cell):
        return LEADS_OUTSIDE
    if cell.size != 16:
        return misfit(out, node, NOT_A_UUID)
    if not reserve(out, 38):
        return NO_MEMORY
    place = out.data + out.size
    place[0] = c'"'
    place += 1
    for at in range(16):
        if at in (4, 6, 8, 10):
            place[0] = c"-"
            place += 1
        byte = <uint8_t> cell.data[at]
        place[0] = _HEX[byte >> 4]
        place[1] = _HEX[byte & 15]
        place += 2
    place[0] = c'"'
    out.size = place + 1 - out.data
    return WRITTEN


# -- values in values -----------------------------------------------------------------------------------


cdef inline int _write_members(Output* out, Node* node, int64_t row) noexcept nogil:
    cdef Py_ssize_t number
    cdef int code
    for number in range(node.child_count):
        code = write_json(out, &node.children[number], row)
        if code != WRITTEN:
            return code
    return WRITTEN


cdef inline int _put_brackets(Output* out, Py_ssize_t start, const char* brackets) noexcept nogil:
    """Replace the comma at ``start`` by the opening bracket, and append the closing one."""
    if out.size == start:
        return put(out, brackets, 2)
    out.data[start] = brackets[0]
    return put(out, brackets + 1, 1)


cdef int _write_object(Output* out, Node* node, int64_t row) noexcept nogil:
    cdef Py_ssize_t start = out.size
    cdef int code = _write_members(out, node, row)
    return code if code != WRITTEN else _put_brackets(out, start, b"{}")


cdef int _write_elements(Output* out, Node* node, const Column* column, int64_t row) noexcept nogil:
    """The elements of a list, or the entries of a map."""
    cdef int64_t first, end, at
    cdef int code
    cdef Py_ssize_t start = out.size
    if not range_at(column, row, &first, &end) or end > node.children[0].column.length:
        return LEADS_OUTSIDE
    for at in range(first, end):
        code = write_json(out, &node.children[0], at)
        if code != WRITTEN:
            return code
    return _put_brackets(out, start, b"[]" if node.operation == ARRAY else b"{}")


cdef int _write_union(Output* out, Node* node, const Column* column, int64_t row) noexcept nogil:
    cdef Node* child = alternative_of(node, column, &row)
    return LEADS_OUTSIDE if child == NULL else write_json(out, child, row)

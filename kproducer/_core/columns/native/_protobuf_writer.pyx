# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False
"""Writes Arrow values in Protobuf's binary encoding; see ``ProtobufOperation``.

The pure twin is ``pure/protobuf_writer.py``. Source: Protocol Buffers documentation, "Encoding".
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove

from kproducer._core.columns.native._arrow_reader cimport (
    BOOLEAN, BYTES, BYTES_FIXED, BYTES_VIEW, FLOATING, INTEGER, LIST, LIST_FIXED, LIST_VIEW, STRUCT, UNION_DENSE,
    UNION_SPARSE, Cell, Column, cell_at, is_utf8, range_at,
)
from kproducer._core.kernel.native._batch cimport put_varint
from kproducer._core.columns.native._output cimport KP_LIKELY, NO_MEMORY, WRITTEN, Output, put, reserve
from kproducer._core.columns.native._row_output cimport (
    LEADS_OUTSIDE, NOT_A_SYMBOL, NOT_EXACT, NOT_UTF8, OUT_OF_RANGE, ROW, SEVERAL_VALUES, Node, alternative_of,
    boolean_at, find_symbol, has_value, index_at, is_exact, misfit,
)

cdef enum:
    # The numbers of ProtobufOperation.
    NOTHING = 0
    BOOLEAN_VALUE = 1
    VARINT = 2
    ZIGZAG = 3
    FIXED32 = 4
    FIXED64 = 5
    FLOAT = 6
    DOUBLE = 7
    BYTES_VALUE = 8
    STRING = 9
    ENUM = 10
    ENUM_NUMBER = 11
    TIMESTAMP = 12
    DURATION = 13
    DATE = 14
    FIELDS = 15
    MESSAGE = 16
    REPEATED = 17
    PACKED = 18
    UNION = 19
    # What the size of a node says, as in ProtobufOperation.
    NOT_IF_DEFAULT = 1
    # The most bytes of a varint, and of a message with two or three numbers.
    _VARINT_BYTES = 10
    _MESSAGE_BYTES = 34

cdef extern from *:
    """
    /* As in the pure twin. */
    #define KP_FIRST_SECOND ((int64_t) -62135596800)
    #define KP_LAST_SECOND ((int64_t) 253402300799)
    #define KP_LONGEST_SECONDS ((int64_t) 315576000000)
    #define KP_FIRST_DAY ((int64_t) -719162)
    #define KP_LAST_DAY ((int64_t) 2932896)
    """
    const int64_t KP_FIRST_SECOND
    const int64_t KP_LAST_SECOND
    const int64_t KP_LONGEST_SECONDS
    const int64_t KP_FIRST_DAY
    const int64_t KP_LAST_DAY


cdef bint reads_protobuf(const Node* node, const Column* values) noexcept nogil:
    cdef int operation = node.operation
    cdef bint is_bytes = values.layout in (BYTES, BYTES_VIEW, BYTES_FIXED)
    cdef Py_ssize_t number
    if operation == NOTHING:
        return True
    if operation == BOOLEAN_VALUE:
        return values.layout == BOOLEAN
    if operation in (VARINT, ZIGZAG, FIXED32, FIXED64):
        return values.layout == INTEGER
    if operation in (FLOAT, DOUBLE):
        return values.layout in (FLOATING, INTEGER)
    if operation in (BYTES_VALUE, STRING):
        return is_bytes
    if operation == ENUM:
        return is_bytes and node.symbol_count > 0
    if operation == ENUM_NUMBER:
        return values.layout == INTEGER and node.symbol_count > 0
    if operation in (TIMESTAMP, DURATION, DATE):
        return values.layout == INTEGER and values.is_signed and node.a > 0
    if operation in (FIELDS, MESSAGE):
        if values.layout == STRUCT:
            return True
        # Such as a message around a number: its only field is the value itself.
        for number in range(node.child_count):
            if node.children[number].column_number >= 0:
                return False
        return True
    if operation in (REPEATED, PACKED):
        return values.layout in (LIST, LIST_VIEW, LIST_FIXED) and node.child_count == 1
    return operation == UNION and values.layout in (UNION_SPARSE, UNION_DENSE) and node.symbol_count > 0


cdef int write_protobuf(Output* out, Node* node, int64_t row) noexcept nogil:
    cdef const Column* column = NULL
    cdef int operation = node.operation
    cdef int code
    if not has_value(out, node, &row, &column, &code):
        return code
    if node.column_number == ROW:
        return _write_fields(out, node, row)
    if operation == STRING or operation == BYTES_VALUE:
        return _write_bytes(out, node, column, row)
    if operation == VARINT or operation == ZIGZAG:
        return _write_varint(out, node, column, row)
    if operation == DOUBLE or operation == FLOAT:
        return _write_floating(out, node, column, row)
    if operation == TIMESTAMP:
        return _write_timestamp(out, node, column, row)
    if operation == MESSAGE:
        return _write_message(out, node, row)
    if operation == BOOLEAN_VALUE:
        return _put_small(out, node, boolean_at(column, row))
    if operation == REPEATED or operation == PACKED:
        return _write_list(out, node, column, row)
    if operation == ENUM or operation == ENUM_NUMBER:
        return _write_enum(out, node, column, row)
    if operation == FIXED32 or operation == FIXED64:
        return _write_fixed(out, node, column, row)
    if operation == DURATION:
        return _write_duration(out, node, column, row)
    if operation == DATE:
        return _write_date(out, node, column, row)
    if operation == UNION:
        return _write_union(out, node, column, row)
    if put(out, node.prefix, node.prefix_size) == NO_MEMORY:
        return NO_MEMORY
    return _write_fields(out, node, row) if operation == FIELDS else WRITTEN


cdef inline char* _begin(Output* out, const Node* node, Py_ssize_t more) noexcept nogil:
    """Make room for the prefix and ``more`` bytes. Returns the place behind the prefix; NULL: no memory."""
    cdef char* place
    if not reserve(out, node.prefix_size + more):
        return NULL
    place = out.data + out.size
    if KP_LIKELY(node.prefix_size == 1):
        place[0] = node.prefix[0]
        return place + 1
    memcpy(place, node.prefix, node.prefix_size)
    return place + node.prefix_size


cdef inline int _put_small(Output* out, const Node* node, uint8_t number) noexcept nogil:
    """A number of up to 7 bits."""
    cdef char* place
    if number == 0 and node.size == NOT_IF_DEFAULT:
        return WRITTEN
    place = _begin(out, node, 1)
    if place == NULL:
        return NO_MEMORY
    place[0] = <char> number
    out.size = place + 1 - out.data
    return WRITTEN


# -- numbers --------------------------------------------------------------------------------------------


cdef inline bint _fits(const Column* column, int64_t number, int64_t bits) noexcept nogil:
    """Whether a number that ``index_at`` has returned is in range; see ``ProtobufOperation``."""
    cdef bint is_huge = number < 0 and not column.is_signed
    if bits == 64:
        return not is_huge
    if bits == -64:
        return number >= 0 or is_huge
    if is_huge:
        return False
    return number == <int32_t> number if bits == 32 else number == <int64_t> <uint32_t> number


cdef inline int _write_varint(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil:
    cdef int64_t number = index_at(column, column.offset + row)
    cdef uint64_t encoded = <uint64_t> number
    cdef char* place
    if not _fits(column, number, node.b):
        return misfit(out, node, OUT_OF_RANGE)
    if number == 0 and node.size == NOT_IF_DEFAULT:
        return WRITTEN
    if node.operation == ZIGZAG:
        encoded = (encoded << 1) ^ <uint64_t> (number >> 63)
    place = _begin(out, node, _VARINT_BYTES)
    if place == NULL:
        return NO_MEMORY
    out.size = put_varint(place, encoded) - out.data
    return WRITTEN


cdef inline int _put_little_endian(Output* out, const Node* node, uint64_t bits, int size) noexcept nogil:
    cdef char* place
    cdef int at
    if bits == 0 and node.size == NOT_IF_DEFAULT:
        return WRITTEN
    place = _begin(out, node, 8)
    if place == NULL:
        return NO_MEMORY
    for at in range(8):
        place[at] = <char> (bits >> (8 * at))
    out.size = place + size - out.data
    return WRITTEN


cdef int _write_fixed(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil:
    cdef int64_t number = index_at(column, column.offset + row)
    if not _fits(column, number, node.b):
        return misfit(out, node, OUT_OF_RANGE)
    if node.operation == FIXED64:
        return _put_little_endian(out, node, <uint64_t> number, 8)
    return _put_little_endian(out, node, <uint32_t> number, 4)


cdef inline int _write_floating(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil:
    cdef double number
    cdef float short_number
    cdef uint64_t bits
    cdef uint32_t short_bits
    if not is_exact(column, row, node.operation == DOUBLE, &number):
        return misfit(out, node, NOT_EXACT)
    if node.operation == DOUBLE:
        memcpy(&bits, &number, 8)
        return _put_little_endian(out, node, bits, 8)
    short_number = <float> number
    memcpy(&short_bits, &short_number, 4)
    return _put_little_endian(out, node, short_bits, 4)


# -- bytes and enums ------------------------------------------------------------------------------------


cdef inline bint _is_text(const char* data, Py_ssize_t size) noexcept nogil:
    """Whether it is UTF-8. Eight bytes of ASCII take one step."""
    cdef Py_ssize_t at = 0
    cdef uint64_t word
    cdef uint8_t all_bits = 0
    while size - at >= 8:
        memcpy(&word, data + at, 8)
        if word & 0x8080808080808080U:
            return is_utf8(<const uint8_t*> data + at, size - at)
        at += 8
    for at in range(at, size):
        all_bits |= <uint8_t> data[at]
    if all_bits & 0x80:
        at = size - (size & 7)
        return is_utf8(<const uint8_t*> data + at, size - at)
    return True


cdef inline int _write_bytes(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil:
    cdef Cell cell
    cdef char* place
    if not cell_at(column, row, &cell):
        return LEADS_OUTSIDE
    if cell.size == 0 and node.size == NOT_IF_DEFAULT:
        return WRITTEN
    if node.operation == STRING and not _is_text(cell.data, cell.size):
        return misfit(out, node, NOT_UTF8)
    place = _begin(out, node, _VARINT_BYTES + cell.size)
    if place == NULL:
        return NO_MEMORY
    place = put_varint(place, <uint64_t> cell.size)
    if cell.size:
        # A column without any bytes may have no buffer.
        memcpy(place, cell.data, cell.size)
    out.size = place + cell.size - out.data
    return WRITTEN


cdef int _write_enum(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil:
    cdef Cell text
    cdef const Cell* encoded
    cdef int64_t number
    cdef int32_t symbol
    cdef char[4] digits
    cdef int at
    cdef char* place
    if node.operation == ENUM:
        if not cell_at(column, row, &text):
            return LEADS_OUTSIDE
    else:
        number = index_at(column, column.offset + row)
        if not _fits(column, number, 32):
            return misfit(out, node, OUT_OF_RANGE)
        for at in range(4):
            digits[at] = <char> (number >> (8 * at))
        text.data = digits
        text.size = 4
    symbol = find_symbol(node, &text)
    if symbol < 0:
        return misfit(out, node, NOT_A_SYMBOL)
    encoded = &node.symbols[symbol].encoded
    if node.size == NOT_IF_DEFAULT and encoded.size == 1 and encoded.data[0] == 0:
        return WRITTEN
    place = _begin(out, node, encoded.size)
    if place == NULL:
        return NO_MEMORY
    memcpy(place, encoded.data, encoded.size)
    out.size = place + encoded.size - out.data
    return WRITTEN


# -- times ----------------------------------------------------------------------------------------------


cdef inline int _put_numbers(Output* out, const Node* node, const int64_t* numbers, int count) noexcept nogil:
    """A message whose fields 1, 2 and so on are these numbers; the default, 0, is not written."""
    cdef char* start = _begin(out, node, _MESSAGE_BYTES)
    cdef char* place
    cdef int at
    if start == NULL:
        return NO_MEMORY
    place = start + 1
    for at in range(count):
        if numbers[at]:
            place[0] = <char> ((at + 1) << 3)
            place = put_varint(place + 1, <uint64_t> numbers[at])
    start[0] = <char> (place - start - 1)
    out.size = place - out.data
    return WRITTEN


cdef inline void _split(int64_t ticks, int64_t per_second, int64_t* parts) noexcept nogil:
    """Seconds and nanoseconds, rounded towards zero. Divisors that the compiler knows are fast."""
    if per_second == 1000000:
        parts[0] = ticks // 1000000
        parts[1] = ticks % 1000000 * 1000
    elif per_second == 1000000000:
        parts[0] = ticks // 1000000000
        parts[1] = ticks % 1000000000
    elif per_second == 1000:
        parts[0] = ticks // 1000
        parts[1] = ticks % 1000 * 1000000
    else:
        parts[0] = ticks // per_second
        parts[1] = ticks % per_second * (1000000000 // per_second)


cdef inline int _write_timestamp(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil:
    cdef int64_t[2] parts
    _split(index_at(column, column.offset + row), node.a, parts)
    if parts[1] < 0:
        parts[0] -= 1
        parts[1] += 1000000000
    if not KP_FIRST_SECOND <= parts[0] <= KP_LAST_SECOND:
        return misfit(out, node, OUT_OF_RANGE)
    return _put_numbers(out, node, parts, 2)


cdef int _write_duration(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil:
    cdef int64_t[2] parts
    _split(index_at(column, column.offset + row), node.a, parts)
    if not -KP_LONGEST_SECONDS <= parts[0] <= KP_LONGEST_SECONDS:
        return misfit(out, node, OUT_OF_RANGE)
    return _put_numbers(out, node, parts, 2)


cdef int _write_date(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil:
    """Counts in years that begin in March, so that the day that not all years have is the last one."""
    cdef int64_t ticks = index_at(column, column.offset + row)
    cdef int64_t days = ticks // node.a - (ticks % node.a < 0)
    cdef int64_t era, day, year, month
    cdef int64_t[3] parts
    if not KP_FIRST_DAY <= days <= KP_LAST_DAY:
        return misfit(out, node, OUT_OF_RANGE)
    # From the first of March of the year 0 on; the numbers are positive, but for 306 days of it.
    days += 719468
    # An era has 400 years, which are 146,097 days.
    era = days // 146097
    day = days % 146097
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * year + year // 4 - year // 100
    # Five months from March on have 153 days, and so have the five that follow.
    month = (5 * day + 2) // 153
    parts[2] = day - (153 * month + 2) // 5 + 1
    parts[1] = month + 3 if month < 10 else month - 9
    parts[0] = year + 400 * era + (month >= 10)
    return _put_numbers(out, node, parts, 3)


# -- values in values -----------------------------------------------------------------------------------


cdef int _write_fields(Output* out, Node* node, int64_t row) noexcept nogil:
    cdef Py_ssize_t number, start
    cdef int code
    cdef Node* child
    cdef uint64_t seen = 0
    for number in range(node.child_count):
        child = &node.children[number]
        start = out.size
        code = write_protobuf(out, child, row)
        if code != WRITTEN:
            return code
        if child.size > NOT_IF_DEFAULT and out.size > start:
            if seen >> (child.size & 63) & 1:
                return misfit(out, child, SEVERAL_VALUES)
            seen |= <uint64_t> 1 << (child.size & 63)
    return WRITTEN


cdef int _write_message(Output* out, Node* node, int64_t row) noexcept nogil:
    cdef char* place = _begin(out, node, 1)
    cdef int code
    cdef Py_ssize_t start
    if place == NULL:
        return NO_MEMORY
    start = place + 1 - out.data
    out.size = start
    code = _write_fields(out, node, row)
    return code if code != WRITTEN else _put_length(out, start)


cdef inline int _put_length(Output* out, Py_ssize_t start) noexcept nogil:
    """Write the length of all from ``start`` on in front of it, where there is a byte for it."""
    cdef Py_ssize_t size = out.size - start
    cdef char[_VARINT_BYTES] length
    cdef Py_ssize_t length_size
    if KP_LIKELY(size < 0x80):
        out.data[start - 1] = <char> size
        return WRITTEN
    length_size = put_varint(length, <uint64_t> size) - length
    if not reserve(out, length_size):
        return NO_MEMORY
    memmove(out.data + start - 1 + length_size, out.data + start, size)
    memcpy(out.data + start - 1, length, length_size)
    out.size += length_size - 1
    return WRITTEN


cdef int _write_list(Output* out, Node* node, const Column* column, int64_t row) noexcept nogil:
    cdef int64_t first, end, at
    cdef int code
    cdef Py_ssize_t start = 0
    cdef char* place
    if not range_at(column, row, &first, &end) or end > node.children[0].column.length:
        return LEADS_OUTSIDE
    if node.operation == PACKED:
        if first == end:
            return WRITTEN
        place = _begin(out, node, 1)
        if place == NULL:
            return NO_MEMORY
        start = place + 1 - out.data
        out.size = start
    for at in range(first, end):
        code = write_protobuf(out, &node.children[0], at)
        if code != WRITTEN:
            return code
    return _put_length(out, start) if node.operation == PACKED else WRITTEN


cdef int _write_union(Output* out, Node* node, const Column* column, int64_t row) noexcept nogil:
    cdef Node* child = alternative_of(node, column, &row)
    return LEADS_OUTSIDE if child == NULL else write_protobuf(out, child, row)

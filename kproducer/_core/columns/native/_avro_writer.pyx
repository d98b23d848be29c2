# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False
"""Writes Arrow values in Avro's binary encoding; see ``AvroOperation``. The pure twin is ``pure/avro_writer.py``.

Source: Avro specification 1.12, "Binary Encoding" and "Logical Types".
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from kproducer._core.columns.native._arrow_reader cimport (
    BOOLEAN, BYTES, BYTES_FIXED, BYTES_VIEW, FLOATING, INTEGER, LIST, LIST_FIXED, LIST_VIEW, STRUCT, UNION_DENSE,
    UNION_SPARSE, WIDE, Cell, Column, cell_at, range_at,
)
from kproducer._core.kernel.native._batch cimport put_varint
from kproducer._core.columns.native._output cimport NO_MEMORY, WRITTEN, Output, put, put_number, reserve
from kproducer._core.columns.native._row_output cimport (
    LEADS_OUTSIDE, NEGATIVE, NOT_A_SYMBOL, NOT_A_UUID, NOT_EXACT, OUT_OF_RANGE, TOO_MANY_DIGITS, WRONG_SIZE, Node,
    alternative_of, boolean_at, find_symbol, has_value, index_at, is_exact, misfit,
)

cdef enum:
    # The numbers of AvroOperation.
    NOTHING = 0
    BOOLEAN_VALUE = 1
    INTEGER_VALUE = 2
    FLOAT = 3
    DOUBLE = 4
    BYTES_VALUE = 5
    FIXED = 6
    DECIMAL = 7
    DECIMAL_FIXED = 8
    UUID = 9
    DURATION = 10
    ENUM = 11
    ARRAY = 12
    RECORD = 13
    UNION = 14
    _LIMBS = 4


cdef bint reads_avro(const Node* node, const Column* values) noexcept nogil:
    cdef int operation = node.operation
    cdef bint is_bytes = values.layout in (BYTES, BYTES_VIEW, BYTES_FIXED)
    if operation == NOTHING:
        return True
    if operation == BOOLEAN_VALUE:
        return values.layout == BOOLEAN
    if operation == INTEGER_VALUE:
        return values.layout == INTEGER
    if operation in (FLOAT, DOUBLE):
        return values.layout in (FLOATING, INTEGER)
    if operation in (BYTES_VALUE, FIXED, UUID):
        return is_bytes
    if operation == ENUM:
        return is_bytes and node.symbol_count > 0
    if operation in (DECIMAL, DECIMAL_FIXED):
        return values.layout == WIDE and node.symbol_count == 1 and node.symbols[0].encoded.size == 8 * _LIMBS
    if operation == DURATION:
        return values.layout in (WIDE, INTEGER)
    if operation == ARRAY:
        return values.layout in (LIST, LIST_VIEW, LIST_FIXED) and node.child_count == 1
    if operation == RECORD:
        return values.layout == STRUCT
    return operation == UNION and values.layout in (UNION_SPARSE, UNION_DENSE) and node.symbol_count > 0


cdef int write_avro(Output* out, Node* node, int64_t row) noexcept nogil:
    cdef const Column* column = NULL
    cdef int operation = node.operation
    cdef int code
    if not has_value(out, node, &row, &column, &code):
        return code
    if node.prefix_size:
        code = put(out, node.prefix, node.prefix_size)
        if code:
            return code
    if operation == INTEGER_VALUE:
        return _write_integer(out, node, column, row)
    if operation == BYTES_VALUE:
        return _write_bytes(out, node, column, row)
    if operation == RECORD:
        return _write_record(out, node, row)
    if operation in (FLOAT, DOUBLE):
        return _write_floating(out, node, column, row)
    if operation == BOOLEAN_VALUE:
        if not reserve(out, 1):
            return NO_MEMORY
        out.data[out.size] = boolean_at(column, row)
        out.size += 1
        return WRITTEN
    if operation == ARRAY:
        return _write_array(out, node, column, row)
    if operation == ENUM or operation == FIXED:
        return _write_of_bytes(out, node, column, row)
    if operation == DECIMAL or operation == DECIMAL_FIXED:
        return _write_decimal(out, node, column, row)
    if operation == UUID:
        return _write_uuid(out, node, column, row)
    if operation == DURATION:
        return _write_duration(out, node, column, row)
    if operation == UNION:
        return _write_union(out, node, column, row)
    return WRITTEN


# -- numbers --------------------------------------------------------------------------------------------


cdef inline int _scaled(const Column* column, int64_t row, int64_t factor, int64_t* number) noexcept nogil:
    """An integer times a factor, or divided by a negative one and rounded down. Returns 0 or OUT_OF_RANGE."""
    cdef int64_t found = index_at(column, column.offset + row)
    cdef int64_t divisor
    if found < 0 and not column.is_signed:
        return OUT_OF_RANGE
    if factor < 0:
        divisor = -factor
        number[0] = found // divisor - (found % divisor < 0)
        return 0
    if factor > 1 and not INT64_MIN // factor <= found <= INT64_MAX // factor:
        return OUT_OF_RANGE
    number[0] = found * factor if factor > 1 else found
    return 0


cdef inline int _write_integer(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil:
    cdef int64_t number
    if _scaled(column, row, node.a, &number) or (node.b == 32 and number != <int32_t> number):
        return misfit(out, node, OUT_OF_RANGE)
    return put_number(out, (<uint64_t> number << 1) ^ <uint64_t> (number >> 63))


cdef inline int _write_floating(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil:
    """Little-endian."""
    cdef double number
    cdef float short_number
    cdef uint64_t bits
    cdef uint32_t short_bits
    cdef int at
    if not is_exact(column, row, node.operation == DOUBLE, &number):
        return misfit(out, node, NOT_EXACT)
    if not reserve(out, 8):
        return NO_MEMORY
    if node.operation == DOUBLE:
        memcpy(&bits, &number, 8)
        for at in range(8):
            out.data[out.size + at] = <char> (bits >> (8 * at))
        out.size += 8
    else:
        short_number = <float> number
        memcpy(&short_bits, &short_number, 4)
        for at in range(4):
            out.data[out.size + at] = <char> (short_bits >> (8 * at))
        out.size += 4
    return WRITTEN


cdef int _write_decimal(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil:
    cdef uint64_t[4] number
    cdef uint64_t carry
    cdef const char* source = <const char*> column.values + (column.offset + row) * column.width
    cdef bint is_negative
    cdef int at, size
    cdef int64_t step
    cdef char* place
    _read_wide(source, column.width, number)
    is_negative = number[_LIMBS - 1] >> 63
    if is_negative:
        _negate(number)
    for step in range(node.a):
        carry = 0
        for at in range(_LIMBS):
            carry = _times_ten(&number[at], carry)
        # The highest bit would be the sign.
        if carry or number[_LIMBS - 1] >> 63:
            return misfit(out, node, TOO_MANY_DIGITS)
    if not _is_less(number, node.symbols[0].encoded.data):
        return misfit(out, node, TOO_MANY_DIGITS)
    if is_negative:
        _negate(number)
    # As few bytes as keep the sign.
    size = 1
    for at in range(8 * _LIMBS):
        if _byte(number, at) != (0xFF if is_negative else 0):
            size = at + 1
    if (_byte(number, size - 1) >> 7) != is_negative:
        size += 1
    if node.operation == DECIMAL_FIXED:
        if size > node.size:
            return misfit(out, node, OUT_OF_RANGE)
        size = <int> node.size
    if not reserve(out, size + 1):
        return NO_MEMORY
    place = out.data + out.size
    if node.operation == DECIMAL:
        place[0] = <char> (size << 1)
        place += 1
    for at in range(size):
        place[size - 1 - at] = <char> (
            _byte(number, at) if at < 8 * _LIMBS else 0xFF if is_negative else 0
        )
    out.size = place + size - out.data
    return WRITTEN


cdef inline void _read_wide(const char* source, int width, uint64_t* number) noexcept nogil:
    """A number of ``width`` bytes in the byte order of this machine's words, extended by its sign."""
    cdef int at
    cdef int32_t short_word
    cdef int64_t word
    if width == 4:
        memcpy(&short_word, source, 4)
        word = short_word
        number[0] = <uint64_t> word
    else:
        memcpy(number, source, width)
        word = <int64_t> number[width // 8 - 1]
    for at in range(max(width // 8, 1), _LIMBS):
        number[at] = <uint64_t> (word >> 63)


cdef inline void _negate(uint64_t* number) noexcept nogil:
    cdef int at
    cdef uint64_t carry = 1
    for at in range(_LIMBS):
        number[at] = ~number[at] + carry
        carry = carry and number[at] == 0


cdef inline uint64_t _times_ten(uint64_t* word, uint64_t carry) noexcept nogil:
    """Multiply a word and add; return what does not fit."""
    cdef uint64_t low = <uint64_t> <uint32_t> word[0] * 10 + carry
    cdef uint64_t high = (word[0] >> 32) * 10 + (low >> 32)
    word[0] = <uint64_t> <uint32_t> low | high << 32
    return high >> 32


cdef inline bint _is_less(const uint64_t* number, const char* limit) noexcept nogil:
    """``limit``: bytes, the lowest first."""
    cdef int at
    cdef uint8_t here, there
    for at in range(8 * _LIMBS - 1, -1, -1):
        here = _byte(number, at)
        there = <uint8_t> limit[at]
        if here != there:
            return here < there
    return False


cdef inline uint8_t _byte(const uint64_t* number, int at) noexcept nogil:
    """The byte ``at``, the lowest first."""
    return <uint8_t> (number[at >> 3] >> (8 * (at & 7)))


# -- bytes ----------------------------------------------------------------------------------------------


cdef inline int _put_sized(Output* out, const char* data, Py_ssize_t size) noexcept nogil:
    """A length and the bytes."""
    cdef char* place
    if not reserve(out, size + 10):
        return NO_MEMORY
    place = put_varint(out.data + out.size, <uint64_t> size << 1)
    memcpy(place, data, size)
    out.size = place + size - out.data
    return WRITTEN


cdef inline int _write_bytes(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil:
    cdef Cell cell
    if not cell_at(column, row, &cell):
        return LEADS_OUTSIDE
    return put(out, cell.data, cell.size) if node.a else _put_sized(out, cell.data, cell.size)


cdef int _write_of_bytes(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil:
    """A symbol of an enum, or bytes of a fixed size."""
    cdef Cell cell
    cdef int32_t number
    if not cell_at(column, row, &cell):
        return LEADS_OUTSIDE
    if node.operation == FIXED:
        return put(out, cell.data, cell.size) if cell.size == node.size else misfit(out, node, WRONG_SIZE)
    number = find_symbol(node, &cell)
    if number < 0:
        return misfit(out, node, NOT_A_SYMBOL)
    return put(out, node.symbols[number].encoded.data, node.symbols[number].encoded.size)


cdef int _write_uuid(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil:
    cdef Cell cell
    cdef char[16] parsed
    cdef char[36] text
    cdef const char* digits = b"0123456789abcdef"
    cdef const char* data
    cdef int at, place
    if not cell_at(column, row, &cell):
        return LEADS_OUTSIDE
    if node.a == 16 and cell.size == 16:
        data = cell.data
    elif node.a != 16 and _parse_uuid(&cell, parsed):
        data = parsed
    else:
        return misfit(out, node, NOT_A_UUID)
    if node.size == 16:
        return put(out, data, 16)
    if data == parsed:
        return _put_sized(out, cell.data, cell.size)
    place = 0
    for at in range(16):
        if at in (4, 6, 8, 10):
            text[place] = c"-"
            place += 1
        text[place] = digits[<uint8_t> data[at] >> 4]
        text[place + 1] = digits[data[at] & 15]
        place += 2
    return _put_sized(out, text, 36)


cdef bint _parse_uuid(const Cell* cell, char* parsed) noexcept nogil:
    cdef int at
    cdef int place = 0
    cdef uint8_t letter
    cdef int digit
    if cell.size != 36:
        return False
    for at in range(36):
        letter = <uint8_t> cell.data[at]
        if at in (8, 13, 18, 23):
            if letter != c"-":
                return False
            continue
        if c"0" <= letter <= c"9":
            digit = letter - c"0"
        elif c"a" <= (letter | 32) <= c"f":
            digit = (letter | 32) - c"a" + 10
        else:
            return False
        if place & 1:
            parsed[place >> 1] = <char> (<uint8_t> parsed[place >> 1] | digit)
        else:
            parsed[place >> 1] = <char> (digit << 4)
        place += 1
    return True


cdef int _write_duration(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil:
    """Months, days and milliseconds, each without a sign, little-endian."""
    cdef int64_t[3] parts
    cdef int32_t[4] words
    cdef int64_t nanoseconds
    cdef int part, at
    cdef const char* source = <const char*> column.values + (column.offset + row) * column.width
    parts[0] = parts[1] = parts[2] = 0
    if column.layout == INTEGER:
        if _scaled(column, row, node.a, &parts[2]):
            return misfit(out, node, OUT_OF_RANGE)
    else:
        memcpy(words, source, column.width)
        if column.width == 4:
            parts[0] = words[0]
        elif column.width == 8:
            parts[1] = words[0]
            parts[2] = words[1]
        else:
            memcpy(&nanoseconds, source + 8, 8)
            parts[0] = words[0]
            parts[1] = words[1]
            parts[2] = nanoseconds // 1000000 - (nanoseconds % 1000000 < 0)
    if not reserve(out, 12):
        return NO_MEMORY
    for part in range(3):
        if parts[part] < 0:
            return misfit(out, node, NEGATIVE)
        if parts[part] >> 32:
            return misfit(out, node, OUT_OF_RANGE)
        for at in range(4):
            out.data[out.size] = <char> (parts[part] >> (8 * at))
            out.size += 1
    return WRITTEN


# -- values in values -----------------------------------------------------------------------------------


cdef int _write_record(Output* out, Node* node, int64_t row) noexcept nogil:
    cdef Py_ssize_t number
    cdef int code
    for number in range(node.child_count):
        code = write_avro(out, &node.children[number], row)
        if code != WRITTEN:
            return code
    return WRITTEN


cdef int _write_array(Output* out, Node* node, const Column* column, int64_t row) noexcept nogil:
    """One block with all elements, and the end."""
    cdef int64_t start, end, at
    cdef int code
    if not range_at(column, row, &start, &end) or end > node.children[0].column.length:
        return LEADS_OUTSIDE
    if end > start:
        code = put_number(out, <uint64_t> (end - start) << 1)
        if code != WRITTEN:
            return code
        for at in range(start, end):
            code = write_avro(out, &node.children[0], at)
            if code != WRITTEN:
                return code
    return put(out, b"\0", 1)


cdef int _write_union(Output* out, Node* node, const Column* column, int64_t row) noexcept nogil:
    cdef Node* child = alternative_of(node, column, &row)
    return LEADS_OUTSIDE if child == NULL else write_avro(out, child, row)

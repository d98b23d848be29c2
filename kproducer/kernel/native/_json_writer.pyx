# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False
"""Writes Arrow values as JSON; see ``JsonOperation``. The pure twin is ``pure/json_writer.py``.

Sources: RFC 8259 (JSON), RFC 3339 (dates and times), RFC 4648 (base64); for floating point numbers R. Giulietti,
"The Schubfach way to render doubles" (2020).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove, memset

from kproducer.kernel.native._arrow_reader cimport (
    BOOLEAN, BYTES, BYTES_FIXED, BYTES_VIEW, FLOATING, INTEGER, LIST, LIST_FIXED, LIST_VIEW, STRUCT, UNION_DENSE,
    UNION_SPARSE, WIDE, Cell, Column, cell_at, is_utf8, range_at,
)
from kproducer.kernel.native._row_output cimport (
    IS_NULL, KP_LIKELY, LEADS_OUTSIDE, NO_MEMORY, NOT_A_NUMBER, NOT_A_UUID, NOT_UTF8, OUT_OF_RANGE, WRITTEN, Node,
    Output, boolean_at, find_symbol, find_value, index_at, misfit, put, reserve,
)

cdef extern from *:
    """
    #include <stdint.h>

    /* Returns the lower half of a product. */
    static inline uint64_t kp_multiply(uint64_t left, uint64_t right, uint64_t* upper) {
    #if defined(__SIZEOF_INT128__)
        unsigned __int128 product = (unsigned __int128) left * right;
        *upper = (uint64_t) (product >> 64);
        return (uint64_t) product;
    #else
        uint64_t low = (left & 0xFFFFFFFF) * (right & 0xFFFFFFFF);
        uint64_t one = (left >> 32) * (right & 0xFFFFFFFF) + (low >> 32);
        uint64_t other = (left & 0xFFFFFFFF) * (right >> 32) + (one & 0xFFFFFFFF);
        *upper = (left >> 32) * (right >> 32) + (one >> 32) + (other >> 32);
        return other << 32 | (low & 0xFFFFFFFF);
    #endif
    }
    """
    uint64_t kp_multiply(uint64_t left, uint64_t right, uint64_t* upper) noexcept nogil


cdef enum:
    # As in JsonOperation.
    NOTHING = 0
    BOOLEAN_VALUE = 1
    INTEGER_VALUE = 2
    FLOAT = 3
    TEXT = 4
    BINARY = 5
    UUID = 6
    DECIMAL = 7
    DATE = 8
    TIME = 9
    TIMESTAMP = 10
    DURATION = 11
    INTERVAL = 12
    ARRAY = 13
    MAP = 14
    ENTRY = 15
    OBJECT = 16
    UNION = 17
    # As in PlanNode.
    _CONSTANT = -1
    _ROW = -2
    _LIMBS = 4
    # Digits of a number of 256 bits.
    _MOST_DIGITS = 78
    _MOST_SCALE = 76
    _SECONDS_PER_DAY = 86400
    # The calendar repeats after 400 years.
    _DAYS_PER_ERA = 146097
    _MOST_TICKS = 1000000000
    # Powers of ten that doubles need.
    _LEAST_POWER = -292
    _POWERS = 617
    # Days from 0000-03-01, and from 0000-01-01, to 1970-01-01; from there to 10000-01-01.
    _DAYS_FROM_MARCH = 719468
    _DAYS_FROM_YEAR_0 = 719528
    _DAYS_TO_YEAR_10000 = 2932897

# 10**n as 128 bits, rounded up, the highest bit set: upper and lower half.
cdef uint64_t[617] _upper_powers
cdef uint64_t[617] _lower_powers
# 00 to 99.
cdef char[200] _pairs
# The letter behind the backslash for each byte; 0: it is not escaped.
cdef char[256] _escapes
cdef bint _is_prepared = False
cdef const char* _HEX = b"0123456789abcdef"
cdef const char* _BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


cdef int prepare_json() except -1:
    global _is_prepared
    cdef int number
    cdef object exponent, power, bits, rounded
    if _is_prepared:
        return 0
    for number in range(_POWERS):
        exponent = _LEAST_POWER + number
        power = 10 ** abs(exponent)
        bits = power.bit_length()
        if exponent < 0:
            rounded = -(-(1 << (127 + bits)) // power)
        else:
            rounded = power << (128 - bits) if bits <= 128 else -(-power >> (bits - 128))
        _upper_powers[number] = rounded >> 64
        _lower_powers[number] = rounded & 0xFFFFFFFFFFFFFFFF
    for number in range(100):
        _pairs[2 * number] = <char> (c"0" + number // 10)
        _pairs[2 * number + 1] = <char> (c"0" + number % 10)
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
        return values.layout == WIDE and -_MOST_SCALE <= node.a <= _MOST_SCALE
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
    cdef bint is_missing = False
    cdef int operation = node.operation
    cdef int code
    if node.column_number >= 0 or node.column_number < _ROW:
        if not find_value(node, &row, &column, &is_missing):
            return LEADS_OUTSIDE
        if is_missing:
            return misfit(out, node, IS_NULL) if node.null_size < 0 else put(out, node.null, node.null_size)
    if node.prefix_size:
        code = put(out, node.prefix, node.prefix_size)
        if code:
            return code
    if operation == TEXT:
        return _write_text(out, node, column, row)
    if operation == INTEGER_VALUE:
        return _write_integer(out, column, row)
    if operation == FLOAT:
        return _write_float(out, node, column, row)
    if operation == OBJECT:
        return _write_object(out, node, row)
    if operation in (DATE, TIME, TIMESTAMP):
        return _write_time(out, node, column, row)
    if operation == BOOLEAN_VALUE:
        return put(out, b"true", 4) if boolean_at(column, row) else put(out, b"false", 5)
    if operation == ARRAY or operation == MAP:
        return _write_elements(out, node, column, row)
    if operation == ENTRY:
        return _write_members(out, node, row)
    if operation == DECIMAL:
        return _write_decimal(out, node, column, row)
    if operation == BINARY:
        return _write_base64(out, column, row)
    if operation == UUID:
        return _write_uuid(out, node, column, row)
    if operation == DURATION or operation == INTERVAL:
        return _write_duration(out, node, column, row)
    if operation == UNION:
        return _write_union(out, node, column, row)
    return WRITTEN


# -- whole numbers --------------------------------------------------------------------------------------


cdef inline char* _digits_before(char* end, uint64_t number) noexcept nogil:
    """Write digits that end before ``end``, at least one. Returns where they start."""
    cdef uint64_t rest
    while number >= 100:
        rest = number // 100
        end -= 2
        memcpy(end, &_pairs[2 * (number - 100 * rest)], 2)
        number = rest
    if number >= 10:
        end -= 2
        memcpy(end, &_pairs[2 * number], 2)
    else:
        end -= 1
        end[0] = <char> (c"0" + number)
    return end


cdef inline char* _put_digits(char* place, uint64_t number) noexcept nogil:
    """Write up to 20 digits, for which there is room. Returns the place behind them."""
    cdef char[20] digits
    cdef char* start = _digits_before(digits + 20, number)
    cdef Py_ssize_t size = digits + 20 - start
    memcpy(place, start, size)
    return place + size


cdef inline char* _put_padded(char* place, uint64_t number, int size) noexcept nogil:
    """Write the last ``size`` digits, with zeros in front."""
    cdef int at = size
    cdef uint64_t rest
    while at >= 2:
        at -= 2
        rest = number // 100
        memcpy(place + at, &_pairs[2 * (number - 100 * rest)], 2)
        number = rest
    if at:
        place[0] = <char> (c"0" + number % 10)
    return place + size


cdef inline char* _put_pair(char* place, uint64_t number) noexcept nogil:
    memcpy(place, &_pairs[2 * number], 2)
    return place + 2


cdef inline int _write_integer(Output* out, const Column* column, int64_t row) noexcept nogil:
    cdef int64_t number = index_at(column, column.offset + row)
    cdef uint64_t digits = <uint64_t> number
    if not reserve(out, 24):
        return NO_MEMORY
    if number < 0 and column.is_signed:
        out.data[out.size] = c"-"
        out.size += 1
        digits = 0 - digits
    out.size = _put_digits(out.data + out.size, digits) - out.data
    return WRITTEN


cdef int _write_decimal(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil:
    cdef char[_MOST_DIGITS + 2 * _MOST_SCALE] digits
    cdef char* end = digits + sizeof(digits)
    cdef char* start
    cdef char* place
    cdef uint32_t[2 * _LIMBS] number
    cdef bint is_negative = _read_wide(column, row, number)
    cdef int scale = <int> node.a
    cdef Py_ssize_t size
    start = end
    if scale < 0:
        start -= -scale
        memset(start, c"0", -scale)
    start = _wide_digits_before(start, number)
    if start + 1 == end + scale and start[0] == c"0":
        # Zero, and not zero followed by zeros.
        end = start + 1
    # At least one digit before the point.
    while end - start <= scale:
        start -= 1
        start[0] = c"0"
    size = end - start
    if not reserve(out, size + 4):
        return NO_MEMORY
    place = out.data + out.size
    if node.b:
        place[0] = c'"'
        place += 1
    if is_negative:
        place[0] = c"-"
        place += 1
    if scale > 0:
        size -= scale
    memcpy(place, start, size)
    place += size
    if scale > 0:
        place[0] = c"."
        memcpy(place + 1, start + size, scale)
        place += 1 + scale
    if node.b:
        place[0] = c'"'
        place += 1
    out.size = place - out.data
    return WRITTEN


cdef bint _read_wide(const Column* column, int64_t row, uint32_t* number) noexcept nogil:
    """The absolute value of a number of ``column.width`` bytes in words, the lowest first. Returns the sign."""
    cdef uint64_t[_LIMBS] limbs
    cdef int at
    cdef int32_t short_word
    cdef uint64_t carry = 1
    cdef bint is_negative
    cdef const char* source = <const char*> column.values + (column.offset + row) * column.width
    if column.width == 4:
        memcpy(&short_word, source, 4)
        limbs[0] = <uint64_t> <int64_t> short_word
    else:
        memcpy(limbs, source, column.width)
    at = max(column.width // 8, 1) - 1
    is_negative = limbs[at] >> 63
    for at in range(at + 1, _LIMBS):
        limbs[at] = <uint64_t> -<int64_t> is_negative
    for at in range(_LIMBS):
        if is_negative:
            limbs[at] = ~limbs[at] + carry
            carry = carry and limbs[at] == 0
        number[2 * at] = <uint32_t> limbs[at]
        number[2 * at + 1] = <uint32_t> (limbs[at] >> 32)
    return is_negative


cdef char* _wide_digits_before(char* end, uint32_t* number) noexcept nogil:
    """As ``_digits_before``; destroys the number."""
    cdef int words = 2 * _LIMBS
    cdef int at
    cdef uint64_t rest
    while True:
        while words and number[words - 1] == 0:
            words -= 1
        if words <= 2:
            return _digits_before(end, <uint64_t> number[1] << 32 | number[0])
        rest = 0
        for at in range(words - 1, -1, -1):
            rest = rest << 32 | number[at]
            number[at] = <uint32_t> (rest // 1000000000)
            rest %= 1000000000
        end -= 9
        _put_padded(end, rest, 9)


# -- floating point numbers -----------------------------------------------------------------------------


cdef int _write_float(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil:
    cdef int64_t at = column.offset + row
    cdef uint64_t bits, fraction, digits
    cdef int fraction_bits, exponent_bits, biased, exponent
    cdef bint is_negative
    cdef char* place
    if column.width == 8:
        bits = (<const uint64_t*> column.values)[at]
        fraction_bits, exponent_bits = 52, 11
    elif column.width == 4:
        bits = (<const uint32_t*> column.values)[at]
        fraction_bits, exponent_bits = 23, 8
    else:
        bits = (<const uint16_t*> column.values)[at]
        fraction_bits, exponent_bits = 10, 5
    fraction = bits & ((<uint64_t> 1 << fraction_bits) - 1)
    biased = <int> (bits >> fraction_bits) & ((1 << exponent_bits) - 1)
    is_negative = bits >> (fraction_bits + exponent_bits)
    if biased == (1 << exponent_bits) - 1:
        if not node.b or node.null_size < 0:
            return misfit(out, node, NOT_A_NUMBER)
        out.size -= node.prefix_size
        return put(out, node.null, node.null_size)
    if not reserve(out, 32):
        return NO_MEMORY
    place = out.data + out.size
    if is_negative:
        place[0] = c"-"
        place += 1
    # The number is fraction * 2**exponent.
    exponent = max(biased, 1) - fraction_bits - (1 << (exponent_bits - 1)) + 1
    if biased:
        fraction |= <uint64_t> 1 << fraction_bits
    if -fraction_bits <= exponent <= 0 and not fraction & ((<uint64_t> 1 << -exponent) - 1):
        # A whole number of at most 2**53: all of its digits are needed.
        place = _put_digits(place, fraction >> -exponent)
        memcpy(place, b".0", 2)
        out.size = place + 2 - out.data
        return WRITTEN
    if fraction == 0:
        memcpy(place, b"0.0", 3)
        out.size = place + 3 - out.data
        return WRITTEN
    digits = _shortest(
        fraction, &exponent, fraction == <uint64_t> 1 << fraction_bits and biased > 1
    )
    out.size = _put_scientific(place, digits, exponent) - out.data
    return WRITTEN


cdef inline uint64_t _times_power(int power, uint64_t factor) noexcept nogil:
    """The upper 64 bits of a power's 128 bits times a factor. The last bit is set if others were not 0."""
    cdef uint64_t carry, upper
    cdef uint64_t lower
    kp_multiply(_lower_powers[power - _LEAST_POWER], factor, &carry)
    lower = kp_multiply(_upper_powers[power - _LEAST_POWER], factor, &upper)
    lower += carry
    upper += lower < carry
    return upper | (lower > 1)


cdef inline uint64_t _shortest(uint64_t fraction, int* exponent, bint is_power_of_two) noexcept nogil:
    """The number with the fewest digits that is nearer to fraction * 2**exponent than to its neighbours.

    Of several the nearest one. It is of the form digits * 10**power; there are one or two such powers where one
    or a few multiples lie between the halves of the way to the neighbours.

    Args:
        exponent: of 2; becomes the exponent of 10.
        is_power_of_two: the lower neighbour is only half as far away as the upper one.

    Returns:
        The digits, which do not end with 0.
    """
    cdef int two = exponent[0]
    # The logarithms of 2 and 3/4 to the base 10, and of 10 to the base 2, as fractions; rounded down.
    cdef int ten = (two * 1262611 - (524031 if is_power_of_two else 0)) >> 22
    cdef int shift = two + ((-ten * 1741647) >> 19) + 1
    # The bounds of the interval belong to it if the fraction is even.
    cdef uint64_t is_odd = fraction & 1
    # Four times the number and the bounds, in units of 10**ten.
    cdef uint64_t four = _times_power(-ten, fraction << (shift + 2))
    cdef uint64_t low = _times_power(-ten, ((fraction << 2) - 2 + is_power_of_two) << shift) + is_odd
    cdef uint64_t high = _times_power(-ten, ((fraction << 2) + 2) << shift) - is_odd
    cdef uint64_t digits = four >> 2
    cdef uint64_t tens = digits // 10
    cdef bint lower_fits = low <= 40 * tens
    cdef bint upper_fits = 40 * tens + 40 <= high
    if tens and lower_fits != upper_fits:
        digits = tens + upper_fits
        ten += 1
    else:
        lower_fits = low <= 4 * digits
        upper_fits = 4 * digits + 4 <= high
        if lower_fits != upper_fits:
            digits += upper_fits
        else:
            # The nearer one; the even one if both are as near.
            digits += four + (digits & 1) > 4 * digits + 2
    while digits % 10000 == 0:
        digits //= 10000
        ten += 4
    while digits % 10 == 0:
        digits //= 10
        ten += 1
    exponent[0] = ten
    return digits


cdef inline char* _put_scientific(char* place, uint64_t digits, int exponent) noexcept nogil:
    """Write digits * 10**exponent in at most 25 bytes, in the form of Python's repr."""
    cdef char[20] text
    cdef char* start = _digits_before(text + 20, digits)
    cdef int size = <int> (text + 20 - start)
    # How many digits are before the point.
    cdef int before = size + exponent
    if 0 < before <= 16:
        if before >= size:
            memcpy(place, start, size)
            memset(place + size, c"0", before - size)
            memcpy(place + before, b".0", 2)
            return place + before + 2
        memcpy(place, start, before)
        place[before] = c"."
        memcpy(place + before + 1, start + before, size - before)
        return place + size + 1
    if -4 < before <= 0:
        memcpy(place, b"0.000", 5)
        place += 2 - before
        memcpy(place, start, size)
        return place + size
    place[0] = start[0]
    place += 1
    if size > 1:
        place[0] = c"."
        memcpy(place + 1, start + 1, size - 1)
        place += size
    before -= 1
    place[0] = c"e"
    place[1] = c"-" if before < 0 else c"+"
    before = -before if before < 0 else before
    if before < 100:
        return _put_pair(place + 2, before)
    return _put_digits(place + 2, before)


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


# -- time -----------------------------------------------------------------------------------------------


cdef inline int64_t _floor_divide(int64_t number, int64_t divisor) noexcept nogil:
    return number // divisor - (number % divisor < 0)


cdef inline int64_t _whole_seconds(int64_t ticks, int64_t ticks_per_second) noexcept nogil:
    """Rounded down. Compilers know how to divide by the usual units without a division."""
    if ticks_per_second == 1000000:
        return _floor_divide(ticks, 1000000)
    if ticks_per_second == 1000000000:
        return _floor_divide(ticks, 1000000000)
    if ticks_per_second == 1000:
        return _floor_divide(ticks, 1000)
    return _floor_divide(ticks, ticks_per_second)


cdef int _write_time(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil:
    """A date, a time or both."""
    cdef int64_t ticks = index_at(column, column.offset + row)
    cdef int64_t days = 0
    cdef int64_t seconds = 0
    cdef uint32_t second
    cdef char* place
    if not reserve(out, 40):
        return NO_MEMORY
    place = out.data + out.size
    place[0] = c'"'
    place += 1
    if node.operation == DATE:
        days = ticks if node.a == 1 else _floor_divide(ticks, node.a)
    else:
        seconds = _whole_seconds(ticks, node.a)
        ticks -= seconds * node.a
        if node.operation == TIMESTAMP:
            days = _floor_divide(seconds, _SECONDS_PER_DAY)
            seconds -= days * _SECONDS_PER_DAY
        elif not 0 <= seconds < _SECONDS_PER_DAY:
            return misfit(out, node, OUT_OF_RANGE)
    if node.operation != TIME:
        if not -_DAYS_FROM_YEAR_0 <= days < _DAYS_TO_YEAR_10000:
            return misfit(out, node, OUT_OF_RANGE)
        place = _put_date(place, <uint32_t> (days + _DAYS_FROM_MARCH + _DAYS_PER_ERA))
    if node.operation != DATE:
        if node.operation == TIMESTAMP:
            place[0] = c"T"
            place += 1
        second = <uint32_t> seconds
        place = _put_pair(place, second // 3600)
        place[0] = c":"
        place = _put_pair(place + 1, second // 60 % 60)
        place[0] = c":"
        place = _put_pair(place + 1, second % 60)
        place = _put_fraction(place, ticks, node.a)
        if node.b:
            place[0] = c"Z"
            place += 1
    place[0] = c'"'
    out.size = place + 1 - out.data
    return WRITTEN


cdef inline char* _put_date(char* place, uint32_t days) noexcept nogil:
    """Write a date.

    Args:
        days: since March 1st of the year -400. Years that start in March have the leap day at their end.
    """
    cdef uint32_t era = days // _DAYS_PER_ERA
    cdef uint32_t day_of_era = days - era * _DAYS_PER_ERA
    cdef uint32_t year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    cdef uint32_t day = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    # Five months in a row have 153 days.
    cdef uint32_t month = (5 * day + 2) // 153
    cdef uint32_t year = era * 400 + year_of_era - 400 + (month >= 10)
    day -= (153 * month + 2) // 5
    place = _put_pair(place, year // 100)
    place = _put_pair(place, year % 100)
    place[0] = c"-"
    place = _put_pair(place + 1, month + 3 if month < 10 else month - 9)
    place[0] = c"-"
    return _put_pair(place + 1, day + 1)


cdef inline char* _put_fraction(char* place, uint64_t ticks, int64_t ticks_per_second) noexcept nogil:
    """Write a part of a second with a point and 3, 6 or 9 digits; nothing for 0."""
    cdef int size
    if ticks == 0:
        return place
    size = 3 if ticks_per_second == 1000 else 6 if ticks_per_second == 1000000 else 9
    while size > 3 and ticks % 1000 == 0:
        ticks //= 1000
        size -= 3
    place[0] = c"."
    return _put_padded(place + 1, ticks, size)


cdef int _write_duration(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil:
    """Months, days and seconds. If none is positive, the sign is in front of all."""
    cdef int64_t months = 0
    cdef int64_t days = 0
    cdef int64_t ticks = 0
    cdef int64_t ticks_per_second = node.a
    cdef int32_t[4] words
    cdef bint is_negative
    cdef char* place
    if node.operation == DURATION:
        ticks = index_at(column, column.offset + row)
    else:
        memcpy(words, <const char*> column.values + (column.offset + row) * column.width, column.width)
        ticks_per_second = 1000
        if column.width == 4:
            months = words[0]
        elif column.width == 8:
            days, ticks = words[0], words[1]
        else:
            months, days = words[0], words[1]
            memcpy(&ticks, &words[2], 8)
            ticks_per_second = 1000000000
    if not reserve(out, 80):
        return NO_MEMORY
    place = out.data + out.size
    place[0] = c'"'
    place += 1
    is_negative = months <= 0 and days <= 0 and ticks <= 0 and (months < 0 or days < 0 or ticks < 0)
    if is_negative:
        place[0] = c"-"
        place += 1
    place[0] = c"P"
    place += 1
    if months:
        place = _put_part(place, months, 1, is_negative, c"M")
    if days:
        place = _put_part(place, days, 1, is_negative, c"D")
    if ticks or not (months or days):
        place[0] = c"T"
        place = _put_part(place + 1, ticks, ticks_per_second, is_negative, c"S")
    place[0] = c'"'
    out.size = place + 1 - out.data
    return WRITTEN


cdef char* _put_part(char* place, int64_t ticks, int64_t ticks_per_unit, bint sign_is_written,
                     char unit) noexcept nogil:
    cdef uint64_t size = <uint64_t> ticks
    if ticks < 0:
        size = 0 - size
        if not sign_is_written:
            place[0] = c"-"
            place += 1
    place = _put_digits(place, size // <uint64_t> ticks_per_unit)
    place = _put_fraction(place, size % <uint64_t> ticks_per_unit, ticks_per_unit)
    place[0] = unit
    return place + 1


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
    cdef int64_t at = column.offset + row
    cdef Cell type_id
    cdef int32_t number
    cdef Node* child
    type_id.data = column.data + at
    type_id.size = 1
    number = find_symbol(node, &type_id)
    if number < 0:
        return LEADS_OUTSIDE
    number = node.symbols[number].encoded.data[0]
    if not 0 <= number < node.child_count:
        return LEADS_OUTSIDE
    child = &node.children[number]
    if column.layout == UNION_DENSE:
        row = (<const int32_t*> column.values)[at]
        if not 0 <= row < child.column.length:
            return LEADS_OUTSIDE
    return write_json(out, child, row)

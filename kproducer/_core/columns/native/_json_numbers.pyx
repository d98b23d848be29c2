# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False
"""Writes numbers of Arrow columns as JSON, for ``_json_writer``. The pure twin is ``pure/json_writer.py``.

Source for floating point numbers: R. Giulietti, "The Schubfach way to render doubles" (2020).
"""

from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from kproducer._core.columns.native._arrow_reader cimport Column
from kproducer._core.columns.native._digits cimport digits_before, put_digits, put_padded, put_pair
from kproducer._core.columns.native._output cimport NO_MEMORY, WRITTEN, Output, put, reserve
from kproducer._core.columns.native._row_output cimport NOT_A_NUMBER, Node, index_at, misfit

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
    _LIMBS = 4
    # Digits of a number of 256 bits.
    _MOST_DIGITS = 78
    # Powers of ten that doubles need.
    _LEAST_POWER = -292
    _POWERS = 617

# 10**n as 128 bits, rounded up, the highest bit set: upper and lower half.
cdef uint64_t[617] _upper_powers
cdef uint64_t[617] _lower_powers


cdef int prepare_numbers() except -1:
    cdef int number
    cdef object exponent, power, bits, rounded
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
    return 0


# -- whole numbers --------------------------------------------------------------------------------------


cdef int write_integer(Output* out, const Column* column, int64_t row) noexcept nogil:
    cdef int64_t number = index_at(column, column.offset + row)
    cdef uint64_t digits = <uint64_t> number
    if not reserve(out, 24):
        return NO_MEMORY
    if number < 0 and column.is_signed:
        out.data[out.size] = c"-"
        out.size += 1
        digits = 0 - digits
    out.size = put_digits(out.data + out.size, digits) - out.data
    return WRITTEN


cdef int write_decimal(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil:
    cdef char[_MOST_DIGITS + 2 * MOST_SCALE] digits
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
            return digits_before(end, <uint64_t> number[1] << 32 | number[0])
        rest = 0
        for at in range(words - 1, -1, -1):
            rest = rest << 32 | number[at]
            number[at] = <uint32_t> (rest // 1000000000)
            rest %= 1000000000
        end -= 9
        put_padded(end, rest, 9)


# -- floating point numbers -----------------------------------------------------------------------------


cdef int write_float(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil:
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
        place = put_digits(place, fraction >> -exponent)
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
    cdef char* start = digits_before(text + 20, digits)
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
        return put_pair(place + 2, before)
    return put_digits(place + 2, before)

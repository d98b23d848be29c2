"""Decimal digits of whole numbers. Inline functions only."""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy


cdef inline char* put_pair(char* place, uint32_t number) noexcept nogil:
    """Write the two digits of a number below 100. Returns the place behind them."""
    place[0] = <char> (c"0" + number // 10)
    place[1] = <char> (c"0" + number % 10)
    return place + 2


cdef inline char* digits_before(char* end, uint64_t number) noexcept nogil:
    """Write digits that end before ``end``, at least one. Returns where they start."""
    cdef uint64_t rest
    while number >= 100:
        rest = number // 100
        end -= 2
        put_pair(end, <uint32_t> (number - 100 * rest))
        number = rest
    if number >= 10:
        end -= 2
        put_pair(end, <uint32_t> number)
    else:
        end -= 1
        end[0] = <char> (c"0" + number)
    return end


cdef inline char* put_digits(char* place, uint64_t number) noexcept nogil:
    """Write up to 20 digits, for which there is room. Returns the place behind them."""
    cdef char[20] digits
    cdef char* start = digits_before(digits + 20, number)
    cdef Py_ssize_t size = digits + 20 - start
    memcpy(place, start, size)
    return place + size


cdef inline char* put_padded(char* place, uint64_t number, int size) noexcept nogil:
    """Write the last ``size`` digits, with zeros in front. Returns the place behind them."""
    cdef int at = size
    cdef uint64_t rest
    while at >= 2:
        at -= 2
        rest = number // 100
        put_pair(place + at, <uint32_t> (number - 100 * rest))
        number = rest
    if at:
        place[0] = <char> (c"0" + number % 10)
    return place + size

# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False
"""Writes dates, times and durations of Arrow columns as JSON, for ``_json_writer``. The pure twin is
``pure/json_writer.py``.

Sources: RFC 3339 (dates and times), ISO 8601 (durations).
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from kproducer._core.columns.native._arrow_reader cimport Column
from kproducer._core.columns.native._digits cimport put_digits, put_padded, put_pair
from kproducer._core.columns.native._output cimport NO_MEMORY, WRITTEN, Output, reserve
from kproducer._core.columns.native._row_output cimport OUT_OF_RANGE, Node, index_at, misfit

cdef enum:
    _SECONDS_PER_DAY = 86400
    # The calendar repeats after 400 years.
    _DAYS_PER_ERA = 146097
    # Days from 0000-03-01, and from 0000-01-01, to 1970-01-01; from there to 10000-01-01.
    _DAYS_FROM_MARCH = 719468
    _DAYS_FROM_YEAR_0 = 719528
    _DAYS_TO_YEAR_10000 = 2932897


cdef inline int64_t _floor_divide(int64_t number, int64_t divisor) noexcept nogil:
    return number // divisor - (number % divisor < 0)


cdef inline int64_t _rest(int64_t number, int64_t quotient, int64_t divisor) noexcept nogil:
    """What a division leaves. The product may be below all numbers of 64 bits, so it is one without a sign."""
    return <int64_t> (<uint64_t> number - <uint64_t> quotient * <uint64_t> divisor)


cdef inline int64_t _whole_seconds(int64_t ticks, int64_t ticks_per_second) noexcept nogil:
    """Rounded down. Compilers know how to divide by the usual units without a division."""
    if ticks_per_second == 1000000:
        return _floor_divide(ticks, 1000000)
    if ticks_per_second == 1000000000:
        return _floor_divide(ticks, 1000000000)
    if ticks_per_second == 1000:
        return _floor_divide(ticks, 1000)
    return _floor_divide(ticks, ticks_per_second)


cdef int write_time(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil:
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
        ticks = _rest(ticks, seconds, node.a)
        if node.operation == TIMESTAMP:
            days = _floor_divide(seconds, _SECONDS_PER_DAY)
            seconds = _rest(seconds, days, _SECONDS_PER_DAY)
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
        place = put_pair(place, second // 3600)
        place[0] = c":"
        place = put_pair(place + 1, second // 60 % 60)
        place[0] = c":"
        place = put_pair(place + 1, second % 60)
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
    place = put_pair(place, year // 100)
    place = put_pair(place, year % 100)
    place[0] = c"-"
    place = put_pair(place + 1, month + 3 if month < 10 else month - 9)
    place[0] = c"-"
    return put_pair(place + 1, day + 1)


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
    return put_padded(place + 1, ticks, size)


cdef int write_duration(Output* out, const Node* node, const Column* column, int64_t row) noexcept nogil:
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
    place = put_digits(place, size // <uint64_t> ticks_per_unit)
    place = _put_fraction(place, size % <uint64_t> ticks_per_unit, ticks_per_unit)
    place[0] = unit
    return place + 1

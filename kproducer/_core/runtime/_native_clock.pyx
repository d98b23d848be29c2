# cython: language_level=3
"""The clocks as C functions: one for compiled code that stamps records, one for Python code.

A call through Python costs about three times as much.
"""

from __future__ import annotations

from cpython.pycapsule cimport PyCapsule_New

cdef extern from *:
    """
    #include <time.h>
    static long long KP_WALL_MS(void) {
        struct timespec now;
        timespec_get(&now, TIME_UTC);
        return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    }
    static long long KP_MONOTONIC_MS(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    }
    """
    long long KP_WALL_MS() noexcept nogil
    long long KP_MONOTONIC_MS() noexcept nogil

#: A pointer to ``long long (*)(void)``: milliseconds since the Unix epoch.
WALL_MS = PyCapsule_New(<void*>KP_WALL_MS, "kproducer.wall_ms", NULL)


def monotonic_ms():
    """``time.monotonic_ns() // 1_000_000``."""
    return KP_MONOTONIC_MS()

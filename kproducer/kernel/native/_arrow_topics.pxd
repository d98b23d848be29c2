"""The topics of Arrow rows, by number and by name; see the .pyx."""

from libc.stdint cimport int32_t

from kproducer.kernel.native._append cimport TopicSlots
from kproducer.kernel.native._arrow_columns cimport Cell


cdef struct Topic:
    char* name
    Py_ssize_t size
    int32_t partition_count     # -1: its rows are refused
    int32_t first_target        # as many targets follow as it has partitions, and one for the sticky choice


cdef class TopicTable:
    cdef Topic* topics
    cdef Py_ssize_t count
    # Places that rows may go to: partitions of topics, and each topic's sticky choice.
    cdef Py_ssize_t target_count
    cdef list _lanes
    # A hash table of numbers; -1: free.
    cdef int32_t* _table
    cdef Py_ssize_t _table_size

    cdef Py_ssize_t add(self, bytes name, int32_t partition_count, object lanes) except -1
    cdef void _set_targets(self, Topic* topic, int32_t partition_count) noexcept
    cdef TopicSlots lanes(self, Py_ssize_t number)
    cdef Py_ssize_t find(self, const Cell* name, Py_ssize_t guess) noexcept nogil
    cdef int _rebuild_table(self) except -1
    cdef bint _is_name_of(self, Py_ssize_t number, const Cell* name) noexcept nogil

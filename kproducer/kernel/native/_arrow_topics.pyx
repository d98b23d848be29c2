# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False
"""TopicTable: topics by number, found by the bytes of a name without a Python object."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

from kproducer.kernel.native._append cimport TopicSlots
from kproducer.kernel.native._arrow_columns cimport Cell
from kproducer.kernel.native._batch cimport murmur2_raw


cdef class TopicTable:
    """Topics are numbered from 0 on, as they are added. For one thread."""

    def __cinit__(self):
        self._lanes = []

    def __dealloc__(self):
        cdef Py_ssize_t number
        for number in range(self.count):
            free(self.topics[number].name)
        free(self.topics)
        free(self._table)

    cdef Py_ssize_t add(self, bytes name, int32_t partition_count, object lanes) except -1:
        """Add a topic, and a target for each of its partitions and for its sticky choice. Returns its number.

        A topic that is known keeps its number, and gets new targets.
        """
        cdef Py_ssize_t size = PyBytes_GET_SIZE(name)
        cdef Topic* topic
        cdef Cell wanted
        cdef Py_ssize_t known
        wanted.data = PyBytes_AS_STRING(name)
        wanted.size = size
        known = self.find(&wanted, 0)
        if known >= 0:
            self._lanes[known] = lanes
            self._set_targets(&self.topics[known], partition_count)
            return known
        cdef void* grown = realloc(self.topics, (self.count + 1) * sizeof(Topic))
        if grown == NULL:
            raise MemoryError
        self.topics = <Topic*> grown
        topic = &self.topics[self.count]
        topic.name = <char*> malloc(max(size, 1))
        if topic.name == NULL:
            raise MemoryError
        memcpy(topic.name, PyBytes_AS_STRING(name), size)
        topic.size = size
        self._set_targets(topic, partition_count)
        self.count += 1
        self._lanes.append(lanes)
        self._rebuild_table()
        return self.count - 1

    cdef void _set_targets(self, Topic* topic, int32_t partition_count) noexcept:
        topic.partition_count = partition_count
        topic.first_target = <int32_t> self.target_count
        self.target_count += partition_count + 1 if partition_count >= 0 else 0

    cdef TopicSlots lanes(self, Py_ssize_t number):
        return self._lanes[number]

    cdef Py_ssize_t find(self, const Cell* name, Py_ssize_t guess) noexcept nogil:
        """The number of the topic, or -1; ``guess``: one that it may well be."""
        cdef Py_ssize_t at, number
        if self.count == 0:
            return -1
        if self._is_name_of(guess, name):
            return guess
        at = murmur2_raw(<const unsigned char*> name.data, name.size) & <uint32_t> (self._table_size - 1)
        while True:
            number = self._table[at]
            if number < 0 or self._is_name_of(number, name):
                return number
            at = (at + 1) & (self._table_size - 1)

    cdef int _rebuild_table(self) except -1:
        cdef Py_ssize_t number, at
        cdef Py_ssize_t size = 16
        while size < 2 * self.count:
            size *= 2
        grown = <int32_t*> realloc(self._table, size * sizeof(int32_t))
        if grown == NULL:
            raise MemoryError
        self._table = grown
        self._table_size = size
        memset(self._table, 0xFF, size * sizeof(int32_t))
        for number in range(self.count):
            at = murmur2_raw(<const unsigned char*> self.topics[number].name, self.topics[number].size)
            at &= size - 1
            while self._table[at] >= 0:
                at = (at + 1) & (size - 1)
            self._table[at] = <int32_t> number
        return 0

    cdef bint _is_name_of(self, Py_ssize_t number, const Cell* name) noexcept nogil:
        cdef Topic* topic = &self.topics[number]
        return topic.size == name.size and memcmp(topic.name, name.data, name.size) == 0

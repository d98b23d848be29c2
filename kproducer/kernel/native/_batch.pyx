# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False
"""Writes record batch v2: the compiled twin of ``pure/batch_v2.py`` and ``pure/murmur2.py``.

The format is described there. What is rare (other shapes of headers, whatever has to be refused) is left to
the same Python code that the pure twin uses, so that both say the same.

Sizes are measured before anything is written, and the buffer is exported for as long as the writer lives, so
that nobody can resize it: no input makes this write outside of it.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memmove

from kproducer.kernel.layout import RECORD_BATCH_OVERHEAD
from kproducer.kernel.pure.batch_v2 import encode_headers
from kproducer.kernel.record_arguments import (
    as_bytes,
    check_buffer,
    check_weights,
    refuse_buffer,
    refuse_length,
    refuse_timestamp,
)

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) except? -1

cdef enum:
    # Length, attributes, timestamp delta, offset delta, and the lengths of key, value and headers.
    LONGEST_RECORD_OVERHEAD = 5 + 1 + 10 + 5 + 3 * 5

assert OVERHEAD == RECORD_BATCH_OVERHEAD


# -- records ---------------------------------------------------------------------------------------------------

# Or the collector lets go of an exported buffer without giving the export back. Cycles are broken elsewhere.
@cython.no_gc_clear
cdef class BatchWriter:
    """Encodes the records of one batch into ``buffer``, behind room for the header. Not thread-safe.

    The buffer is never resized. While a writer exists the buffer cannot be resized by others either.

    Attributes:
        buffer: what was passed in, or to ``move_to`` since.
        limit: no record may end behind this position; the owner may move it between 0 (nothing more is taken)
            and ``len(buffer)``, which it is at first.
        position: where the next record starts.
        record_count: records taken so far; also the offset delta of the next one.
        base_timestamp_ms: timestamp of the first record; -1 before it.
        max_timestamp_ms: largest timestamp; -1 before the first record.
    """

    def __cinit__(self, buffer):
        check_buffer(buffer)
        PyObject_GetBuffer(buffer, &self._export, PyBUF_SIMPLE | PyBUF_WRITABLE)
        self._exported = True
        self._data = <char*>self._export.buf
        self._size = self._export.len
        if self._size < OVERHEAD:  # a subclass may have lied about its length
            raise ValueError(f"a buffer of {self._size} bytes cannot hold a header of {OVERHEAD}")
        self.buffer = buffer
        self.limit = self._size
        self._weight = 0
        self._earlier_bytes = 0
        self._wire_limit = 0
        self.position = OVERHEAD
        self.record_count = 0
        self.base_timestamp_ms = -1
        self.max_timestamp_ms = -1

    def __init__(self, buffer):
        pass

    def __dealloc__(self):
        if self._exported:
            PyBuffer_Release(&self._export)

    def append(self, timestamp_ms, key, value, headers):
        """Encode one record at ``position``.

        Args:
            timestamp_ms: milliseconds since the epoch, 0 to 2**63 - 1. It may be before the first record's.
            key, value: bytes, or a bytearray or memoryview (copied first); ``None`` is null.
            headers: (name, value) pairs in order; names may repeat, values may be ``None``.

        Returns:
            Whether it was taken. ``False``: it would end beyond ``limit``, and the compression estimate (see
            ``set_compression_estimate``) does not allow it either; nothing has changed.

        Raises:
            SerializationError: an argument is of the wrong type or out of range; nothing has changed.
        """
        cdef int overflow = 0
        cdef long long timestamp
        cdef Py_ssize_t key_size = -1
        cdef Py_ssize_t value_size = -1
        cdef Py_ssize_t headers_size = 1
        cdef const char* key_data = NULL
        cdef const char* value_data = NULL
        cdef const char* headers_data = NULL
        cdef bytes tail = None
        if value is not None:
            if not PyBytes_CheckExact(value):
                value = as_bytes(value, "value")
            value_data = PyBytes_AS_STRING(value)
            value_size = PyBytes_GET_SIZE(value)
        if key is not None:
            if not PyBytes_CheckExact(key):
                key = as_bytes(key, "key")
            key_data = PyBytes_AS_STRING(key)
            key_size = PyBytes_GET_SIZE(key)
        if not PyLong_CheckExact(timestamp_ms):
            refuse_timestamp(timestamp_ms)
        timestamp = PyLong_AsLongLongAndOverflow(timestamp_ms, &overflow)
        if overflow < 0 or (timestamp < 0 and not overflow):
            refuse_timestamp(timestamp_ms)
        if headers is not None and headers:
            tail = encoded_headers(headers)
            headers_data = PyBytes_AS_STRING(tail)
            headers_size = PyBytes_GET_SIZE(tail)
        if overflow:
            refuse_timestamp(timestamp_ms)
        # From here on no other Python code runs: what is looked at stays as it is.
        if self.record_count > MAX_INT32:
            return False
        if value_size > MAX_INT32:
            refuse_length(value_size, "value")
        if key_size > MAX_INT32:
            refuse_length(key_size, "key")
        if key_size + value_size + headers_size > MAX_INT32 - LONGEST_RECORD_OVERHEAD:
            check_record_size(self, timestamp, key_size, value_size, headers_size)
        return self.append_raw(
            timestamp, key_data, key_size, value_data, value_size, headers_data, headers_size
        ) != 0

    cdef int append_raw(self, long long timestamp_ms, const char* key, Py_ssize_t key_size,
                        const char* value, Py_ssize_t value_size,
                        const char* headers, Py_ssize_t headers_size) noexcept nogil:
        return put_record(
            self, timestamp_ms, key, key_size, value, value_size, headers, headers_size
        )

    def move_to(self, buffer):
        """Go on in another buffer, with a copy of what was written so far; ``limit`` is its size now.

        Raises:
            TypeError, ValueError: as the constructor does, or it is too small for the copy; nothing changed.
        """
        cdef Py_buffer export
        check_buffer(buffer)
        PyObject_GetBuffer(buffer, &export, PyBUF_SIMPLE | PyBUF_WRITABLE)
        if export.len < self.position:
            size = export.len
            PyBuffer_Release(&export)
            refuse_buffer(size, self.position)
        memmove(<char*>export.buf, self._data, self.position)  # it may be the same buffer
        PyBuffer_Release(&self._export)
        self._export = export
        self._data = <char*>export.buf
        self._size = export.len
        self.limit = export.len
        self.buffer = buffer

    def set_compression_estimate(self, weight, earlier_bytes, wire_limit):
        """Take records behind ``limit`` too, as far as the buffer goes, while the batch is light enough.

        Kafka's rule: the size of the batch on the wire is its header and ``weight`` for each byte of records
        so far; a record counts in full as long as it is not in. One that would make the batch weigh
        ``wire_limit`` is not taken, and none is while ``limit`` is 0.

        Args:
            weight: expected bytes on the wire for each byte of records, 0 (nothing is weighed) to 1.
            earlier_bytes: of records that are no longer in the buffer, 0 to 2**40.
            wire_limit: bytes, 0 to 2**40.

        Raises:
            ValueError: an argument is out of range.
        """
        cdef double checked_weight = weight
        check_weights(checked_weight, earlier_bytes, wire_limit)
        self._earlier_bytes = earlier_bytes
        self._wire_limit = wire_limit
        self._weight = checked_weight

    def rewind(self):
        """Start again behind the header; the records so far still count, their bytes are the caller's."""
        self.position = OVERHEAD


cdef int check_record_size(BatchWriter writer, long long timestamp_ms, Py_ssize_t key_size,
                           Py_ssize_t value_size, Py_ssize_t headers_size) except -1:
    """Refuse what does not fit the format; worth the exact size only near its limit."""
    cdef Py_ssize_t size = body_size(writer, timestamp_ms, key_size, value_size, headers_size)
    if size > MAX_INT32:
        refuse_length(size, "record")
    return 0


def record_size_upper_bound(key, value, headers):
    """Return the most bytes that a batch with this one record can need, the batch's header included.

    A buffer of this size takes the record with certainty, as the first one of a batch.

    Raises:
        SerializationError: key, value or headers are of the wrong type.
    """
    cdef Py_ssize_t size = OVERHEAD + LONGEST_RECORD_OVERHEAD
    if value is not None:
        if not PyBytes_CheckExact(value):
            value = as_bytes(value, "value")
        size += PyBytes_GET_SIZE(value)
    if key is not None:
        if not PyBytes_CheckExact(key):
            key = as_bytes(key, "key")
        size += PyBytes_GET_SIZE(key)
    if headers is not None and headers:
        size += PyBytes_GET_SIZE(encoded_headers(headers))
    return size


# -- headers ---------------------------------------------------------------------------------------------------

cdef bytes encoded_headers(object headers):
    """The headers of one record, their count included; whatever they look like.

    Raises:
        SerializationError: as the pure twin does.
    """
    cdef bytes encoded = regular_headers(headers, False)
    return encode_headers(headers) if encoded is None else encoded


cdef bytes regular_headers(object headers, bint text_values):
    """As ``encoded_headers``, for a list or tuple of pairs of exactly the usual types; else ``None``.

    No Python code runs in here: nobody can change the list between the measuring and the writing.
    """
    cdef Py_ssize_t count
    cdef Py_ssize_t index
    cdef Py_ssize_t size
    cdef Py_ssize_t part
    cdef const char* data
    cdef char* place
    cdef object pair
    cdef object value
    cdef bytes encoded
    if not PyList_CheckExact(headers) and not PyTuple_CheckExact(headers):
        return None
    count = len(headers)
    size = varint_size(<uint64_t>count << 1)
    for index in range(count):
        pair = headers[index]
        if not PyTuple_CheckExact(pair) or PyTuple_GET_SIZE(pair) != 2:
            return None
        if not text_of(<object>PyTuple_GET_ITEM(pair, 0), &data, &part):
            return None
        size += varint_size(<uint64_t>part << 1) + part
        value = <object>PyTuple_GET_ITEM(pair, 1)
        if not value_of(value, text_values, &data, &part):
            return None
        size += 1 if part < 0 else varint_size(<uint64_t>part << 1) + part
        if size > MAX_INT32:
            return None
    encoded = PyBytes_FromStringAndSize(NULL, size)
    place = PyBytes_AS_STRING(encoded)
    place = put_varint(place, <uint64_t>count << 1)
    for index in range(count):
        pair = headers[index]
        text_of(<object>PyTuple_GET_ITEM(pair, 0), &data, &part)
        place = put_bytes(place, data, part)
        value_of(<object>PyTuple_GET_ITEM(pair, 1), text_values, &data, &part)
        place = put_bytes(place, data, part)
    return encoded


cdef inline bint text_of(object text, const char** data, Py_ssize_t* size):
    """UTF-8 of an exact ``str``, which keeps it; false: it is none, or has lone surrogates."""
    if not PyUnicode_CheckExact(text):
        return False
    try:
        data[0] = PyUnicode_AsUTF8AndSize(text, size)
    except UnicodeEncodeError:
        return False
    return True


cdef inline bint value_of(object value, bint text_values, const char** data, Py_ssize_t* size):
    if value is None:
        size[0] = -1
        return True
    if PyBytes_CheckExact(value):
        data[0] = PyBytes_AS_STRING(value)
        size[0] = PyBytes_GET_SIZE(value)
        return True
    return text_values and text_of(value, data, size)


# -- the partition of a key ------------------------------------------------------------------------------------

def partition_for_key(bytes key not None, Py_ssize_t partition_count):
    """Return the partition to which Kafka's default partitioner sends records with this key.

    Args:
        key: the serialized key.
        partition_count: number of partitions of the topic, at least 1.

    Raises:
        ValueError: ``partition_count`` is less than 1.
    """
    if partition_count < 1:
        raise ValueError(f"partition_count is {partition_count}; it must be at least 1")
    return partition_of_key(PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key), partition_count)


cdef uint32_t murmur2_raw(const unsigned char* data, Py_ssize_t size) noexcept nogil:
    cdef uint32_t m = <uint32_t>0x5BD1E995
    cdef uint32_t h = <uint32_t>0x9747B28C ^ <uint32_t>size
    cdef uint32_t k
    while size >= 4:
        # Little-endian whatever the machine is; compilers make one load of it.
        k = data[0] | <uint32_t>data[1] << 8 | <uint32_t>data[2] << 16 | <uint32_t>data[3] << 24
        k *= m
        k ^= k >> 24
        h = (h * m) ^ (k * m)
        data += 4
        size -= 4
    if size > 0:
        if size == 3:
            h ^= <uint32_t>data[2] << 16
        if size >= 2:
            h ^= <uint32_t>data[1] << 8
        h ^= data[0]
        h *= m
    h ^= h >> 13
    h *= m
    return h ^ (h >> 15)

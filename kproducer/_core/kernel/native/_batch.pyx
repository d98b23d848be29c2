# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False
"""Writes record batch v2 and hashes keys: the compiled form of ``pure/batch_v2.py`` and ``pure/murmur2.py``.

``pure/batch_v2.py`` describes the format. Arguments of other types than those that the methods name raise TypeError.

Sizes are measured before anything is written, and the buffer stays exported while the writer lives, so that it
cannot be resized: no input makes the writer write outside of it.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_Check
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_Check
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memmove

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef extern from *:
    """
    #ifdef __GLIBC__
    #include <malloc.h>
    #define KP_RETURN_FREE_MEMORY() ((void)malloc_trim(0))
    #else
    #define KP_RETURN_FREE_MEMORY() ((void)0)
    #endif
    """
    void KP_RETURN_FREE_MEMORY() noexcept nogil


# -- records ---------------------------------------------------------------------------------------------------

# The garbage collector must not clear the reference to an exported buffer: the export would never be released. And it
# need not see it: a bytearray refers to nothing.
@cython.no_gc
cdef class BatchWriter:
    """Encodes the records of one batch into ``buffer``, after the space for the header. Not thread-safe.

    The writer never resizes the buffer, and nothing else can while the writer exists. Arguments must have
    exactly the types given here: callers convert and check what applications pass in.

    Attributes:
        buffer: what was passed in, or to ``move_to`` since.
        limit: no record may end beyond this position. The owner may move it between 0 (no more records are
            taken) and ``len(buffer)``, its initial value.
        position: where the next record starts.
        record_count: records taken so far; also the offset delta of the next one.
        base_timestamp_ms: timestamp of the first record; -1 before it.
        max_timestamp_ms: largest timestamp; -1 before the first record.
    """

    def __cinit__(self, buffer):
        export_buffer(buffer, RECORD_BATCH_OVERHEAD, &self._export)
        self._exported = True
        self._data = <char*>self._export.buf
        self._size = self._export.len
        self.buffer = buffer
        self.limit = self._size
        self.position = RECORD_BATCH_OVERHEAD
        self.base_timestamp_ms = -1
        self.max_timestamp_ms = -1

    def __dealloc__(self):
        if self._exported:
            PyBuffer_Release(&self._export)

    def append(self, timestamp_ms, key, value, headers):
        """Encode one record at ``position``.

        Args:
            timestamp_ms: milliseconds since the epoch, 0 to 2**63 - 1. It may be before the first record's.
            key, value: ``None`` is null.
            headers: (name, value) pairs in order; names may repeat, values may be ``None``.

        Returns:
            Whether it was taken. ``False``: it would end beyond ``limit``, and the compression estimate (see
            ``set_compression_estimate``) does not allow it either; nothing has changed.

        Raises:
            TypeError: an argument has another type; nothing has changed.
            ValueError, OverflowError: an argument is out of range, or a header's name cannot be encoded as
                UTF-8; nothing has changed.
        """
        cdef Record record
        cdef bytes tail = fill_record(&record, timestamp_ms, key, value, headers)
        return self.append_record(&record) != 0

    cdef int append_record(self, const Record* record) noexcept nogil:
        return put_record(self, record)

    def move_to(self, buffer):
        """Continue in another buffer, with a copy of what was written so far; ``limit`` becomes its size.

        Raises:
            TypeError: ``buffer`` is not a bytearray.
            ValueError: it is too small for the copy; nothing has changed.
        """
        cdef Py_buffer export
        export_buffer(buffer, self.position, &export)
        memmove(<char*>export.buf, self._data, self.position)  # it may be the same buffer
        PyBuffer_Release(&self._export)
        self._export = export
        self._data = <char*>export.buf
        self._size = export.len
        self.limit = export.len
        self.buffer = buffer

    def set_compression_estimate(self, double ratio, long long wire_limit):
        """Take records beyond ``limit``, up to the end of the buffer, while the estimate allows it.

        Kafka's rule: the expected size of the batch on the wire is its header and ``ratio`` times the bytes of
        its records; the record to be added counts in full. A record that would make the expected size
        ``wire_limit`` is not taken. While ``limit`` is 0, none is.

        Args:
            ratio: expected bytes on the wire per byte of records, 0 (there is no estimate) to 1.
            wire_limit: bytes, 0 to 2**40; larger than any batch.
        """
        self._wire_limit = wire_limit
        self._ratio = ratio


cdef int export_buffer(object buffer, Py_ssize_t content_bytes, Py_buffer* export) except -1:
    """Export a bytearray that has room for ``content_bytes``."""
    if not PyByteArray_Check(buffer):
        raise TypeError(f"a batch is written into a bytearray, not {type(buffer).__name__}")
    PyObject_GetBuffer(buffer, export, PyBUF_SIMPLE | PyBUF_WRITABLE)
    cdef Py_ssize_t size = export.len
    if size < content_bytes:
        PyBuffer_Release(export)
        raise ValueError(f"a buffer of {size} bytes cannot hold the {content_bytes} bytes of a batch")
    return 0


cdef bytes fill_record(Record* record, object timestamp_ms, object key, object value, object headers):
    cdef bytes tail = None
    point_to_bytes(value, &record.value, &record.value_size)
    point_to_bytes(key, &record.key, &record.key_size)
    if not PyLong_CheckExact(timestamp_ms):
        raise TypeError(f"timestamp_ms must be an int, not {type(timestamp_ms).__name__}")
    record.timestamp_ms = timestamp_ms
    if record.timestamp_ms < 0:
        raise ValueError(f"timestamp_ms is {timestamp_ms}; it must not be negative")
    record.headers = NULL
    record.headers_size = 0
    if headers is not None and headers:
        tail = regular_headers(headers, False)
        if tail is None:
            raise TypeError("headers must be a list or tuple of (name, value) tuples of str and bytes or None")
        record.headers = PyBytes_AS_STRING(tail)
        record.headers_size = PyBytes_GET_SIZE(tail)
    return tail


cdef int point_to_bytes(object data, const char** start, Py_ssize_t* size) except -1:
    """The memory of a key or value. A null has the size -1."""
    if data is None:
        start[0] = NULL
        size[0] = -1
        return 0
    if not PyBytes_CheckExact(data):
        raise TypeError(f"key and value must be bytes or None, not {type(data).__name__}")
    start[0] = PyBytes_AS_STRING(data)
    size[0] = PyBytes_GET_SIZE(data)
    if size[0] > MAX_INT32:
        raise ValueError(f"a key or value has {size[0]} bytes; the record format allows {MAX_INT32}")
    return 0


# -- headers ---------------------------------------------------------------------------------------------------

cdef bytes regular_headers(object headers, bint text_values):
    """The headers of one record, their count included; ``None``: see ``_batch.pxd``.

    No Python code runs in here: no other thread can change the list between measuring and writing.
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
        size += bytes_size(part)
        value = <object>PyTuple_GET_ITEM(pair, 1)
        if not value_of(value, text_values, &data, &part):
            return None
        size += bytes_size(part)
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
    """The UTF-8 form of a ``str``, which owns it; false: not a ``str``, or it has lone surrogates."""
    if not PyUnicode_Check(text):
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
        # Little-endian on every machine; compilers make one load of it.
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


# -- memory ----------------------------------------------------------------------------------------------------

def return_free_memory():
    """Give what the C library has free back to the operating system, where it does not by itself (glibc)."""
    with nogil:
        KP_RETURN_FREE_MEMORY()

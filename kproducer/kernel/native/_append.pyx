# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False, annotation_typing=False
"""From ``send`` to the record in its batch: the compiled twin of ``pure/append.py``.

Only the usual is here: a known topic, arguments of the usual types, an open batch with room. For everything
else the answer is "not here", and ``RecordAccumulator`` and ``KafkaProducer`` do it in Python.
The rule that makes this safe without locks stands in ``_append.pxd``.
"""

from __future__ import annotations

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItemWithError
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject

from kproducer.kernel.native._batch cimport BatchWriter, encoded_headers, partition_of_key, regular_headers
from kproducer.kernel.native._completion cimport BatchOutcome, Deliveries, RecordFuture, new_future

from kproducer.errors import KafkaError, Outcome

cdef extern from *:
    """
    #include <time.h>
    static long long KP_WALL_MS(void) {
        struct timespec now;
        timespec_get(&now, TIME_UTC);
        return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    }
    """
    long long KP_WALL_MS() noexcept

cdef extern from "Python.h":
    int PyCallable_Check(PyObject* op) noexcept

cdef enum:
    MAX_INT32 = 0x7FFFFFFF


# -- one batch -------------------------------------------------------------------------------------------------

@cython.final
cdef class RecordAppender:
    """Appends records to one batch and makes their futures.

    Args:
        writer: the batch's.
        owner: the result that the futures refer to.
        outcome: the outcome of ``owner``.
        future_type: a subclass of ``RecordFuture``.

    Attributes:
        writer, owner, outcome, future_type: as given.
        deliveries: the callbacks of its records.
    """

    def __cinit__(self, BatchWriter writer not None, owner, BatchOutcome outcome not None, future_type not None):
        if not issubclass(future_type, RecordFuture):
            raise TypeError(f"future_type must be a subclass of RecordFuture, not {future_type!r}")
        self.writer = writer
        self.owner = owner
        self.outcome = outcome
        self.future_type = future_type
        self.deliveries = Deliveries()

    def append(self, long long timestamp_ms, bytes key, bytes value, headers, on_delivery):
        """Encode one record. The caller has checked the arguments: this raises only to protect memory.

        Returns:
            The record's future; ``None``: there was no room, nothing has changed.
        """
        cdef Record record
        cdef bytes tail
        if timestamp_ms < 0:
            raise ValueError(f"timestamp_ms is {timestamp_ms}")
        record.timestamp_ms = timestamp_ms
        record.key = NULL if key is None else PyBytes_AS_STRING(key)
        record.key_size = -1 if key is None else PyBytes_GET_SIZE(key)
        record.value = NULL if value is None else PyBytes_AS_STRING(value)
        record.value_size = -1 if value is None else PyBytes_GET_SIZE(value)
        record.headers = NULL
        record.headers_size = 0
        if headers:
            tail = encoded_headers(headers)
            record.headers = PyBytes_AS_STRING(tail)
            record.headers_size = PyBytes_GET_SIZE(tail)
        if record.key_size > MAX_INT32 or record.value_size > MAX_INT32:
            raise ValueError("the record format allows keys and values of 2**31 - 1 bytes")
        cdef RecordFuture future = new_future(self.future_type)
        return future if self.append_record(&record, future, on_delivery) else None

    cdef int append_record(self, Record* record, RecordFuture future, object on_delivery) except -1:
        cdef BatchWriter writer = self.writer
        cdef long long index = writer.record_count
        if on_delivery is not None:
            # Before the record is in: it cannot be taken back if this allocation fails.
            self.deliveries.reserve()
        if not writer.append_raw(record.timestamp_ms, record.key, record.key_size, record.value,
                                 record.value_size, record.headers, record.headers_size):
            return 0
        if on_delivery is not None:
            self.deliveries.push(on_delivery, index, record.timestamp_ms, record.key_size, record.value_size)
        future._batch_result = self.owner
        future._outcome = self.outcome
        future._index = <int>index
        future._timestamp_ms = record.timestamp_ms
        future._key_size = <int>record.key_size
        future._value_size = <int>record.value_size
        return 1

    def future_for_last_record(self, timestamp_ms, key_size, value_size, on_delivery):
        """The future of the record that the caller has just appended to ``writer`` directly.

        The appender is in no slot meanwhile, so that record is still the last one.
        """
        cdef RecordFuture future = new_future(self.future_type)
        future._batch_result = self.owner
        future._outcome = self.outcome
        future._index = self.writer.record_count - 1
        future._timestamp_ms = timestamp_ms
        future._key_size = key_size
        future._value_size = value_size
        if on_delivery is not None:
            self.deliveries.add(on_delivery, future._index, timestamp_ms, key_size, value_size)
        return future


# -- one partition ---------------------------------------------------------------------------------------------

@cython.final
cdef class AppendSlot:
    """Where compiled code finds the open batch of one partition. A plain value.

    Attributes:
        appender: of the open batch; ``None``: there is none, or compiled code must not append to it now.
        lock: the partition's; held by code that writes without the interpreter lock.
    """

    def __cinit__(self, lock):
        self.lock = lock


# -- one topic -------------------------------------------------------------------------------------------------

@cython.final
cdef class StickyPartition:
    """The partition that the built-in partitioner sends records to at present. A plain value.

    Attributes:
        partition: its number.
        produced_bytes: appended since it was chosen, before compression.
        switch_at_bytes: the next full batch from here on is the last one.
        force_switch_at_bytes: the limit, whether the batch is full or not.
        record_overhead_bytes: added to the size of each record's key and value.
    """

    def __cinit__(self, Py_ssize_t partition, long long switch_at_bytes, long long record_overhead_bytes):
        self.partition = partition
        self.produced_bytes = 0
        self.switch_at_bytes = switch_at_bytes
        self.force_switch_at_bytes = 2 * switch_at_bytes
        self.record_overhead_bytes = record_overhead_bytes


@cython.final
cdef class TopicSlots:
    """The slots of one topic. A plain value.

    Attributes:
        slots: ``AppendSlot`` by partition number; ``None`` where nothing was sent yet.
        sticky: the present ``StickyPartition``; ``None`` before the first one.
    """

    def __cinit__(self):
        self.slots = []

    cdef Py_ssize_t partition_count(self, str topic, object snapshot) except -1:
        if snapshot is not self._snapshot:
            metadata = snapshot.topics.get(topic)
            count = 0 if metadata is None else len(metadata.partitions)
            self._partition_count = count
            self._snapshot = snapshot
        return self._partition_count

    cdef AppendSlot slot(self, Py_ssize_t partition):
        cdef list slots = self.slots
        if slots is None or partition < 0 or partition >= PyList_GET_SIZE(slots):
            return None
        if <object>PyList_GET_ITEM(slots, partition) is None:
            return None
        return <AppendSlot?>(<object>PyList_GET_ITEM(slots, partition))

    cdef int append_sticky_record(self, Record* record, RecordFuture future, object on_delivery) except -1:
        cdef AppendSlot slot
        cdef RecordAppender appender
        cdef StickyPartition sticky = self.sticky
        if sticky is None:
            return 0
        slot = self.slot(sticky.partition)
        if slot is None:
            return 0
        appender = slot.appender
        if appender is None or should_switch_partition(sticky, appender.writer):
            return 0
        if not appender.append_record(record, future, on_delivery):
            return 0
        count_record(sticky, record.key_size, record.value_size)
        return 1


# -- one producer ----------------------------------------------------------------------------------------------

cdef class SendPath:
    """``send`` for the usual record; a subclass has ``_send_slowly`` and ``_send_serialized`` for others."""

    def _configure_send(self, *, usual, wall_ms, serializes_key, serializes_value, key_bytes, value_bytes,
                        header_pairs, ignores_keys, small_size, future_type):
        """Say what the usual record is. Once, before ``_open_send``.

        Args:
            usual: ``False`` leaves every record to ``_send_slowly``.
            wall_ms: the clock; ``None`` is the operating system's.
            serializes_key, serializes_value: whether bytes, too, go through the functions that follow.
            key_bytes, value_bytes: (topic, header list, object) to bytes.
            header_pairs: (topic, headers) to the list that the serializers see.
            ignores_keys: keys do not decide on partitions.
            small_size: key, value and headers of so many bytes together cannot exceed any limit.
        """
        if not issubclass(future_type, RecordFuture):
            raise TypeError(f"future_type must be a subclass of RecordFuture, not {future_type!r}")
        self._future_type = future_type
        self._usual = usual
        self._wall_ms = wall_ms
        self._reads_system_clock = wall_ms is None
        self._serializes_key = serializes_key
        self._serializes_value = serializes_value
        self._key_bytes = key_bytes
        self._value_bytes = value_bytes
        self._header_pairs = header_pairs
        self._ignores_keys = ignores_keys
        self._small_size = small_size

    def _open_send(self, metadata, topics):
        """Send from now on: ``metadata.snapshot`` knows the topics, ``topics`` their ``TopicSlots``."""
        self._last_topic = None
        self._last_lanes = None
        self._metadata = metadata
        self._topics = topics

    def _close_send(self):
        """Leave every record to ``_send_slowly`` from now on."""
        self._topics = None
        self._metadata = None
        self._last_topic = None
        self._last_lanes = None

    cdef TopicSlots lanes_of(self, str topic):
        """The topic's lanes, or ``None``: nothing was sent there yet, or nothing may be sent."""
        cdef PyObject* found
        if topic is self._last_topic and topic is not None:
            return self._last_lanes
        if self._topics is None:
            return None
        found = PyDict_GetItemWithError(self._topics, topic)
        if found is NULL:
            return None
        self._last_lanes = <TopicSlots?>(<object>found)
        self._last_topic = topic
        return self._last_lanes

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: HeadersInput | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> FutureRecordMetadata:
        cdef TopicSlots lanes
        cdef RecordFuture future
        cdef Py_ssize_t count
        cdef object snapshot
        if self._usual and type(topic) is str and (
            on_delivery is None or PyCallable_Check(<PyObject*>on_delivery)
        ):
            lanes = self.lanes_of(topic)
            if lanes is not None:
                snapshot = self._metadata.snapshot
                count = lanes.partition_count(topic, snapshot)
                if self._serializes_key or self._serializes_value:
                    if count > 0 and partition_number(partition, count) != NO_PARTITION:
                        return self.send_serialized(
                            lanes, topic, snapshot, value, key, headers, partition, timestamp_ms, on_delivery
                        )
                else:
                    future = self.quick(
                        lanes, snapshot, count, value, key, headers, partition, timestamp_ms, on_delivery, True
                    )
                    if future is not None:
                        return future
        return self._send_slowly(topic, value, key, headers, partition, timestamp_ms, on_delivery)

    cdef object send_serialized(self, TopicSlots lanes, object topic, object snapshot, object value, object key,
                                object headers, object partition, object timestamp_ms, object on_delivery):
        """Call the serializers, once for each record, whichever way it takes then."""
        cdef RecordFuture future
        cdef Py_ssize_t count
        cdef object pairs = headers
        cdef object key_data = key
        cdef object value_data = value
        try:
            if headers is not None:
                pairs = self._header_pairs(topic, headers)
            if key is not None and (self._serializes_key or not PyBytes_CheckExact(key)):
                pairs = [] if pairs is None else pairs
                key_data = self._key_bytes(topic, pairs, key)
            if value is not None and (self._serializes_value or not PyBytes_CheckExact(value)):
                pairs = [] if pairs is None else pairs
                value_data = self._value_bytes(topic, pairs, value)
        except KafkaError as error:
            if error.outcome is None:
                error.outcome = Outcome.NOT_SENT
            raise
        count = lanes.partition_count(topic, snapshot)
        if self._topics is not None:  # a serializer may have closed us
            future = self.quick(
                lanes, snapshot, count, value_data, key_data, pairs, partition, timestamp_ms, on_delivery, False
            )
            if future is not None:
                return future
        return self._send_serialized(
            topic, value, value_data, key, key_data, pairs, partition, timestamp_ms, on_delivery, snapshot
        )

    cdef RecordFuture quick(self, TopicSlots lanes, object snapshot, Py_ssize_t count, object value, object key,
                            object headers, object partition, object timestamp_ms, object on_delivery,
                            bint text_headers):
        """Write the record, or return ``None``, having changed nothing, if anything about it is unusual."""
        cdef RecordFuture future
        cdef AppendSlot slot
        cdef RecordAppender appender
        cdef Record record
        cdef bytes tail
        cdef Py_ssize_t number = partition_number(partition, count)
        if number == NO_PARTITION:
            return None
        if type(key) is str:
            key = ascii_or_bytes(key)
        if not point_to(key, &record.key, &record.key_size):
            return None
        if type(value) is str:
            value = ascii_or_bytes(value)
        if not point_to(value, &record.value, &record.value_size):
            return None
        record.headers = NULL
        record.headers_size = 0
        if headers is not None:
            tail = regular_headers(headers, text_headers)
            if tail is None:
                return None
            if PyBytes_GET_SIZE(tail) > 1:  # more than a count of 0, which takes no room of its own
                record.headers = PyBytes_AS_STRING(tail)
                record.headers_size = PyBytes_GET_SIZE(tail)
        # Null is -1, and takes no room either.
        if max(record.key_size, 0) + max(record.value_size, 0) + record.headers_size > self._small_size:
            return None
        if timestamp_ms is None:
            record.timestamp_ms = KP_WALL_MS() if self._reads_system_clock else self._wall_ms()
        elif not timestamp_number(timestamp_ms, &record.timestamp_ms):
            return None
        if record.timestamp_ms < 0:
            return None
        future = new_future(self._future_type)
        # From here on nothing but the write: see _append.pxd.
        if number == ANY_PARTITION:
            if record.key_size < 0 or self._ignores_keys:
                return future if lanes.append_sticky_record(&record, future, on_delivery) else None
            number = partition_of_key(record.key, record.key_size, count)
        slot = lanes.slot(number)
        if slot is None:
            return None
        appender = slot.appender
        if appender is None or not appender.append_record(&record, future, on_delivery):
            return None
        return future

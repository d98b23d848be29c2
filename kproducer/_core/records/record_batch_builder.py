"""One record batch while it is built: records go in, one contiguous buffer comes out.

``ProducerBatch`` owns a builder and the pooled buffer under it. The kernel encodes the records into that
buffer; when the buffer is full before the batch is, the records move to a larger one if the pool has one.

Without compression, the buffer itself is sent. With compression, it holds plain records, up to twice as many
bytes as the batch may have on the wire, and more for small batches; the records are compressed once, at the
end. The compressed records go back into the buffer if they fit.

The builder does not know partitions, brokers, retries or memory accounting.
Source: Kafka's ``MemoryRecordsBuilder``.
"""

from __future__ import annotations

from typing import Protocol

from kproducer._core.kernel import BatchWriter, record_size_upper_bound, write_batch_header
from kproducer._core.kernel.layout import (
    INT16_MAX,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    RECORD_BATCH_OVERHEAD,
    TRANSACTIONAL_MASK,
)
from kproducer._core.records.batch_sizing import (
    ESTIMATION_FACTOR,
    TopicCompressionRatio,
    buffer_sizes,
    largest_buffer_bytes,
)
from kproducer._core.records.compression import PLAIN, Compression
from kproducer._core.records.record_reader import ReadRecord, read_records
from kproducer.errors import IllegalStateError, LocalProtocolError
from kproducer.types import INT32_MAX, INT64_MAX, Headers


class BufferSource(Protocol):
    """A source of larger buffers."""

    def try_allocate(self, size_bytes: int) -> bytearray | None:
        """Return a buffer of exactly this size, or ``None`` if that would have to wait for memory."""

    def deallocate(self, buffer: bytearray) -> None:
        """Take a buffer back."""


class RecordBatchBuilder:
    """Builds one batch in ``buffer``. Not thread-safe: one lock guards appends, then the I/O thread closes.

    Args:
        buffer: pooled memory; at least ``record_size_upper_bound`` of the first record.
        compression: codec and level.
        topic_ratio: the topic's estimate for this codec; read at construction, updated when the records are
            compressed.
        write_limit: bytes that the batch should not exceed, header included; with compression, an estimate.
            Only the first record may exceed it. ``None``: the size of the buffer.
        buffers: source of larger buffers, up to ``largest_buffer_bytes``; takes ``buffer`` back when the
            records have moved. ``None``: the buffer does not grow.
        writer: has written into ``buffer`` already; ``None``: a new one.

    Attributes:
        compression: as given.
        writer: encodes the records. If it refuses one, the caller asks ``append_at_limit``.
        compression_ratio: size on the wire divided by plain size, without the batch's header; 1.0 until it is
            known.
        is_full: the batch takes no further record: it is closed for appends, or at the write limit. Only
            ``append_at_limit`` takes the record that fills it. Read without a lock: a hint.
    """

    # Defaults on the class, because in most batches these never change.
    compression_ratio = 1.0
    is_full = False
    #: Expected bytes on the wire per plain byte.
    _factor = 1.0
    _is_open = True
    #: Producer id, producer epoch, base sequence.
    _producer_state = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
    _is_transactional = False
    #: The compressed records until they are in the wire buffer: a copy that is interrupted is made again.
    _compressed: bytes | None = None
    #: Set when the records are finished: their plain size and their size on the wire.
    _record_bytes = 0
    _compressed_size_bytes = 0
    _closed_view: memoryview | None = None

    def __init__(
        self,
        buffer: bytearray,
        compression: Compression,
        topic_ratio: TopicCompressionRatio | None = None,
        write_limit: int | None = None,
        buffers: BufferSource | None = None,
        writer: BatchWriter | None = None,
    ) -> None:
        self.compression = compression
        self.writer = BatchWriter(buffer) if writer is None else writer
        self._buffers = buffers
        if write_limit is None or (buffers is None and write_limit > len(buffer)):
            write_limit = len(buffer)
        self._write_limit = write_limit
        self._topic_ratio = topic_ratio
        #: Where the finished batch lies.
        self._wire_buffer = buffer
        if compression.type is PLAIN:
            # The same limit that ``_adjust_limit`` would compute.
            self.writer.limit = min(write_limit - 1, len(buffer))
        else:
            self._factor = ESTIMATION_FACTOR if topic_ratio is None else topic_ratio.factor
            self._adjust_limit()

    # -- contents --------------------------------------------------------------------------------------------

    @property
    def buffer(self) -> bytearray:
        """The pooled buffer."""
        return self.writer.buffer

    @property
    def uncompressed_size_bytes(self) -> int:
        """Size of the batch before compression, header included."""
        return self.writer.position

    @property
    def estimated_size_bytes(self) -> int:
        """Size of the batch on the wire: exact once its records are finished or without compression."""
        if self._compressed_size_bytes:
            return RECORD_BATCH_OVERHEAD + self._compressed_size_bytes
        return RECORD_BATCH_OVERHEAD + int((self.writer.position - RECORD_BATCH_OVERHEAD) * self._factor)

    @property
    def is_compressed(self) -> bool:
        """Whether the records are in the form in which they are sent."""
        return bool(self._record_bytes)

    # -- appending -------------------------------------------------------------------------------------------

    def try_append(
        self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers | None
    ) -> bool:
        """Encode one record into the batch.

        Args:
            timestamp_ms, key, value, headers: see ``BatchWriter.append``.

        Returns:
            Whether it was taken. ``False``: the batch has no room for it and has not changed.

        Raises:
            IllegalStateError: the batch is closed for appends, or the buffer is too small for this first
            record. TypeError, ValueError, OverflowError: see ``BatchWriter.append``.
        """
        if self.writer.append(timestamp_ms, key, value, headers):
            return True
        # The writer's limit is set so that every rare case lies beyond it: the usual append needs no other
        # check.
        return self.append_at_limit(timestamp_ms, key, value, headers)

    def append_at_limit(
        self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers | None
    ) -> bool:
        """``try_append`` for a record that the writer has just refused. No other thread may append."""
        if not self._is_open:
            raise IllegalStateError("cannot append to a batch that is closed for appends")
        writer = self.writer
        buffer_bytes = len(writer.buffer)
        if not writer.record_count:
            writer.limit = buffer_bytes
            if not writer.append(timestamp_ms, key, value, headers):
                raise IllegalStateError(
                    f"a buffer of {buffer_bytes} bytes is too small for this first record"
                )
            self._adjust_limit()
            return True
        is_plain = self.compression.type is PLAIN
        room = self._write_limit - writer.position if is_plain else self._room_bytes()
        writer.limit = min(writer.position + room, buffer_bytes)
        taken = writer.append(timestamp_ms, key, value, headers)
        # If the batch has room, but the buffer has not, the records move to a larger one.
        lacks_memory = not taken and room > buffer_bytes - writer.position
        if lacks_memory and self._grow(record_size_upper_bound(key, value, headers)):
            writer.limit = min(writer.position + room, len(writer.buffer))
            taken = writer.append(timestamp_ms, key, value, headers)
        self._adjust_limit()
        return taken

    def _grow(self, record_bytes: int) -> bool:
        """Move to a buffer with room for a record of this size, or to the largest that a batch may have."""
        writer = self.writer
        old = writer.buffer
        largest = largest_buffer_bytes(self._write_limit, self.compression.type is not PLAIN)
        if self._buffers is None or len(old) >= largest:
            return False
        wanted = max(writer.position + record_bytes, 2 * len(old))
        size = next((size for size in buffer_sizes(largest) if size >= wanted), largest)
        larger = self._buffers.try_allocate(size)
        if larger is None:
            return False
        try:
            writer.move_to(larger)
        finally:
            # Also if a signal handler has raised: the batch keeps one of the two buffers, and the other goes
            # back.
            self._wire_buffer = writer.buffer
            self._buffers.deallocate(old if writer.buffer is larger else larger)
        return True

    def _room_bytes(self) -> int:
        """The most bytes that the next record may have. As in Kafka, it counts uncompressed."""
        return self._write_limit - self.estimated_size_bytes

    def _adjust_limit(self) -> None:
        """Let the writer take records on its own as far as the estimate is certain to hold.

        The limit is one byte less than that: the record that fills the batch comes to ``append_at_limit``, so
        that the batch's owner notices that it is full.
        """
        writer = self.writer
        if self.compression.type is PLAIN:
            self.is_full = writer.position >= self._write_limit
            writer.limit = min(self._write_limit - 1, len(writer.buffer))
            return
        if self._factor < 1.0:
            # Beyond the limit, the writer itself applies the estimate to each record.
            writer.set_compression_estimate(self._factor, self._write_limit)
        room = self._room_bytes()
        self.is_full = room <= 0 and writer.record_count > 0
        run = int((room - 1) / max(self._factor, 1.0))
        writer.limit = min(writer.position + max(run, 0), len(writer.buffer))

    # -- closing ---------------------------------------------------------------------------------------------

    def close_for_appends(self) -> None:
        """Take no more records. Idempotent."""
        self._is_open = False
        self.is_full = True
        self.writer.limit = 0

    def compress(self) -> None:
        """Take no more records and compress them now instead of in ``close``. Idempotent."""
        self.close_for_appends()
        if not self.is_compressed:
            self._finish_records()

    def use_compressed(self, records: bytes) -> None:
        """Take no more records: these are the compressed ones."""
        self.close_for_appends()
        self._compressed = records

    @property
    def compressed_records(self) -> bytes | memoryview | None:
        """The records as they are sent, without the batch's header; ``None``: they are not compressed."""
        if self._compressed is not None:
            return self._compressed  # what is in the buffer may be compressed already
        if self.compression.type is PLAIN or not self._record_bytes:
            return None
        return memoryview(self._wire_buffer)[RECORD_BATCH_OVERHEAD:][: self._compressed_size_bytes]

    def set_producer_state(
        self, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool
    ) -> None:
        """Set what makes the batch idempotent or transactional.

        If the batch is closed already, the next ``close`` writes only header and checksum again. The caller
        makes sure that no socket is still sending the batch.

        Args:
            producer_id, producer_epoch, base_sequence: all -1 for a plain batch, otherwise not negative.
            is_transactional: needs a producer id.

        Raises:
            LocalProtocolError: the values contradict each other or are out of range; nothing has changed.
        """
        state = (producer_id, producer_epoch, base_sequence)
        is_plain = state == (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
        is_numbered = (
            0 <= producer_id <= INT64_MAX
            and 0 <= producer_epoch <= INT16_MAX
            and 0 <= base_sequence <= INT32_MAX
        )
        if not is_numbered and (is_transactional or not is_plain):
            raise LocalProtocolError(
                f"a {'transactional ' if is_transactional else ''}batch cannot have producer id "
                f"{producer_id}, producer epoch {producer_epoch} and base sequence {base_sequence}"
            )
        self._closed_view = None
        self._producer_state, self._is_transactional = state, is_transactional

    def close(self) -> memoryview:
        """Finish the batch: compress it, write its header and checksum. Later calls return the same view.

        Returns:
            The whole batch: a view of the pooled buffer, or of other memory if the compressed records do not
            fit into it.

        Raises:
            IllegalStateError: the batch has no records.
        """
        if self._closed_view is not None:
            return self._closed_view
        writer = self.writer
        if not writer.record_count:
            raise IllegalStateError("cannot close a batch without records")
        self._is_open = False
        self.is_full = True
        writer.limit = 0
        if not self._record_bytes:
            self._finish_records()
        end = RECORD_BATCH_OVERHEAD + self._compressed_size_bytes
        attributes = self.compression.type | (TRANSACTIONAL_MASK if self._is_transactional else 0)
        times_ms = (writer.base_timestamp_ms, writer.max_timestamp_ms)
        write_batch_header(
            self._wire_buffer, end, attributes, writer.record_count, *times_ms, *self._producer_state
        )
        self._closed_view = memoryview(self._wire_buffer)[:end]
        return self._closed_view

    def _finish_records(self) -> None:
        """Compress the records, and put them where they will be sent from. Can be repeated if interrupted."""
        plain_bytes = self.writer.position - RECORD_BATCH_OVERHEAD
        if self.compression.type is PLAIN:
            self._compressed_size_bytes = self._record_bytes = plain_bytes
            return
        compressed = self._compressed
        if compressed is None:
            with memoryview(self.writer.buffer) as view:
                compressed = self.compression.compress(view[RECORD_BATCH_OVERHEAD : self.writer.position])
            self._compressed = compressed
        end = RECORD_BATCH_OVERHEAD + len(compressed)
        if end > len(self.writer.buffer):
            self._wire_buffer = bytearray(end)
        with memoryview(self._wire_buffer) as view:
            view[RECORD_BATCH_OVERHEAD:end] = compressed
        self._compressed_size_bytes = len(compressed)
        self.compression_ratio = len(compressed) / plain_bytes
        # Set last: if an interruption comes before this, all of it is repeated.
        self._record_bytes = plain_bytes
        self._compressed = None
        if self._topic_ratio is not None:
            self._topic_ratio.observe(self.compression_ratio)

    def records(self) -> list[ReadRecord]:
        """Return the records in order, to append them to smaller batches. Closes the batch.

        Raises:
            IllegalStateError: as for ``close``.
        """
        plain = self.compression.decompress(self.close()[RECORD_BATCH_OVERHEAD:])
        return read_records(plain, self.writer.record_count, self.writer.base_timestamp_ms)

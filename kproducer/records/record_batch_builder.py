"""One record batch while it is being made: records go in, one contiguous buffer comes out.

``ProducerBatch`` owns a builder and the pooled buffer under it. The kernel encodes the records into that
buffer; when it is full before the batch is, they move to a larger one, if there is one to be had. Without
compression it is the buffer that is sent. With compression it holds plain records, up to twice as many bytes
as the batch may have on the wire: when it cannot grow and the estimate says that the compressed batch still
has room, they go through a compression stream as one chunk, unless they are a large batch already; else they
are compressed once at the end, which is faster and makes them smaller. The result goes back into the buffer
when it fits.
Knows nothing of partitions, brokers, retries or memory accounting. Source: Kafka's ``MemoryRecordsBuilder``.
"""

from __future__ import annotations

import enum
from functools import lru_cache
from typing import Final, Protocol

from kproducer.errors import IllegalStateError, LocalProtocolError
from kproducer.kernel import (
    BatchWriter,
    RawRecord,
    decode_records,
    record_size_upper_bound,
    write_batch_header,
)
from kproducer.kernel.layout import (
    INT16_MAX,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    RECORD_BATCH_OVERHEAD,
    TRANSACTIONAL_MASK,
)
from kproducer.records.compression import Compression, CompressionStream, CompressionType
from kproducer.records.compression_ratio_estimator import TopicCompressionRatio
from kproducer.records.decompression import decompress
from kproducer.types import INT32_MAX, INT64_MAX, Headers

#: What a batch begins with, unless batch_size is smaller: a partition with little traffic needs no more.
FIRST_BUFFER_BYTES: Final = 16384
#: How much larger the next buffer is. Few sizes, and few copies: a third of the bytes is copied once more.
GROWTH_FACTOR: Final = 4


@lru_cache(maxsize=64)
def buffer_sizes(largest_bytes: int) -> tuple[int, ...]:
    """The sizes that the buffers of batches have while they grow up to ``largest_bytes``, smallest first."""
    sizes = [min(FIRST_BUFFER_BYTES, largest_bytes)]
    while sizes[-1] < largest_bytes:
        sizes.append(min(sizes[-1] * GROWTH_FACTOR, largest_bytes))
    return tuple(sizes)


#: Records that will be compressed may take so many times the size of their batch.
PLAIN_SIZE_FACTOR: Final = 2


def largest_buffer_bytes(batch_size: int, is_compressed: bool) -> int:
    """The size that the buffer of a batch grows up to."""
    return batch_size * PLAIN_SIZE_FACTOR if is_compressed else batch_size


#: A buffer of this size that is full makes a full batch, however small it will be: more would not make it any
#: cheaper to send, and compressing in parts is the business of those who append.
WHOLE_BUFFER_BYTES: Final = 1 << 20

#: Safety on top of the estimated ratio.
ESTIMATION_FACTOR: Final = 1.05


def expected_plain_bytes(batch_size: int, topic_ratio: TopicCompressionRatio | None) -> float:
    """How many bytes of records a batch takes, going by the topic's estimate; ``None``: not compressed."""
    return batch_size if topic_ratio is None else batch_size / (ESTIMATION_FACTOR * topic_ratio.ratio)


class BufferSource(Protocol):
    """Where larger buffers come from."""

    def try_allocate(self, size_bytes: int) -> bytearray | None:
        """A buffer of exactly this size, if there is one to be had without waiting."""

    def deallocate(self, buffer: bytearray) -> None:
        """Give a buffer back."""


class BuilderState(enum.Enum):
    """Where a batch is in its life."""

    OPEN = "open"
    SEALED = "closed for appends"
    CLOSED = "closed"
    REOPENED = "reopened to rewrite its header"
    ABORTED = "aborted"

    # Members are their own only equals. Enum hashes names, in Python, for each look into the table below.
    __hash__ = object.__hash__


_TRANSITIONS: Final[dict[BuilderState, frozenset[BuilderState]]] = {
    BuilderState.OPEN: frozenset({BuilderState.SEALED, BuilderState.CLOSED, BuilderState.ABORTED}),
    BuilderState.SEALED: frozenset({BuilderState.CLOSED, BuilderState.ABORTED}),
    BuilderState.CLOSED: frozenset({BuilderState.REOPENED, BuilderState.ABORTED}),
    BuilderState.REOPENED: frozenset({BuilderState.REOPENED, BuilderState.CLOSED, BuilderState.ABORTED}),
    BuilderState.ABORTED: frozenset({BuilderState.ABORTED}),
}


class RecordBatchBuilder:
    """Builds one batch in ``buffer``. Not thread-safe: one lock guards appends, then the I/O thread closes.

    Args:
        buffer: pooled memory; at least ``record_size_upper_bound`` of the first record.
        compression: codec and level.
        topic_ratio: the topic's estimate for this codec: read at construction, taught by ``close``.
        write_limit: bytes the batch should not exceed, header included; compressed: by estimate. Only the
            first record may exceed it. ``None``: the size of the buffer.
        buffers: where larger buffers, up to ``largest_buffer_bytes``, come from and ``buffer`` goes back to
            then; ``None``: there are none.

    Attributes:
        compression: what was passed in.
        producer_id, producer_epoch, base_sequence, is_transactional: see ``set_producer_state``.
    """

    __slots__ = (
        "_buffers",
        "_closed_view",
        "_compressed_pieces",
        "_compressed_size_bytes",
        "_factor",
        "_flushed_bytes",
        "_is_broken",
        "_largest_buffer_bytes",
        "_record_bytes",
        "_state",
        "_stream",
        "_topic_ratio",
        "_wire_buffer",
        "_write_limit",
        "_writer",
        "base_sequence",
        "compression",
        "is_transactional",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self,
        buffer: bytearray,
        compression: Compression,
        topic_ratio: TopicCompressionRatio | None = None,
        write_limit: int | None = None,
        buffers: BufferSource | None = None,
    ) -> None:
        self.compression = compression
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.base_sequence = NO_SEQUENCE
        self.is_transactional = False
        self._writer = BatchWriter(buffer)
        self._buffers = buffers
        self._write_limit = len(buffer) if write_limit is None else write_limit
        if buffers is None:
            self._write_limit = min(self._write_limit, len(buffer))
        is_compressed = compression.type is not CompressionType.NONE
        self._largest_buffer_bytes = largest_buffer_bytes(self._write_limit, is_compressed)
        self._topic_ratio = topic_ratio
        #: Expected bytes on the wire for each plain byte.
        self._factor = 1.0
        if is_compressed:
            self._factor = ESTIMATION_FACTOR * (1.0 if topic_ratio is None else topic_ratio.ratio)
        self._state = BuilderState.OPEN
        #: Plain bytes that went through the stream already.
        self._flushed_bytes = 0
        self._stream: CompressionStream | None = None
        #: What the stream has given out so far; usually there is no stream.
        self._compressed_pieces: list[bytes] | None = None
        #: Compression has begun and not come to its end: something was raised in between, by a signal handler
        #: or for want of memory, and records may be in the stream twice.
        self._is_broken = False
        #: Fixed when the records are finished: their plain and wire size, and where the batch lies.
        self._record_bytes = 0
        self._compressed_size_bytes = 0
        self._wire_buffer = buffer
        self._closed_view: memoryview | None = None
        self._adjust_limit()

    # -- what it holds ---------------------------------------------------------------------------------------

    @property
    def buffer(self) -> bytearray:
        """The pooled buffer, whatever lies in it."""
        return self._writer.buffer

    @property
    def writer(self) -> BatchWriter:
        """What the records go through; whoever appends to it asks ``append_at_limit`` when it refuses."""
        return self._writer

    @property
    def state(self) -> BuilderState:
        """Where the batch is in its life."""
        return self._state

    @property
    def record_count(self) -> int:
        """Records taken."""
        return self._writer.record_count

    @property
    def base_timestamp_ms(self) -> int:
        """Timestamp of the first record; -1 before it."""
        return self._writer.base_timestamp_ms

    @property
    def max_timestamp_ms(self) -> int:
        """Largest timestamp; -1 before the first record."""
        return self._writer.max_timestamp_ms

    @property
    def uncompressed_size_bytes(self) -> int:
        """Size of the batch before compression, header included."""
        return RECORD_BATCH_OVERHEAD + self._plain_bytes()

    @property
    def estimated_size_bytes(self) -> int:
        """Size of the batch on the wire: exact once it is closed or without compression, else estimated."""
        if self._compressed_size_bytes:
            return RECORD_BATCH_OVERHEAD + self._compressed_size_bytes
        return RECORD_BATCH_OVERHEAD + int(self._plain_bytes() * self._factor)

    @property
    def is_full(self) -> bool:
        """Whether no further record is taken: closed for appends, or the write limit is reached."""
        if self._state is not BuilderState.OPEN:
            return True
        return self._writer.record_count > 0 and self.estimated_size_bytes >= self._write_limit

    @property
    def is_compressed(self) -> bool:
        """Whether the records are as they will be sent: always so once it is closed."""
        return bool(self._record_bytes)

    @property
    def compression_ratio(self) -> float:
        """Size on the wire divided by plain size, headers of the batch left out; 1.0 before ``close``."""
        if not self._record_bytes:
            return 1.0
        return self._compressed_size_bytes / self._record_bytes

    # -- records in ------------------------------------------------------------------------------------------

    def try_append(
        self,
        timestamp_ms: int,
        key: bytes | bytearray | memoryview | None,
        value: bytes | bytearray | memoryview | None,
        headers: Headers | None,
    ) -> bool:
        """Encode one record into the batch.

        Args:
            timestamp_ms: milliseconds since the epoch, not negative.
            key, value: ``None`` is null.
            headers: (name, value) pairs.

        Returns:
            Whether it was taken. ``False``: the batch has no room for it and has not changed.

        Raises:
            IllegalStateError: the batch is closed, closed for appends or aborted, or the buffer is too small
                for this first record.
            SerializationError: an argument is of the wrong type or out of range; nothing has changed.
        """
        if self._writer.append(timestamp_ms, key, value, headers):
            return True
        # Beyond the writer's limit lies everything that is rare: this keeps checks out of the usual case.
        return self.append_at_limit(timestamp_ms, key, value, headers)

    def append_at_limit(
        self,
        timestamp_ms: int,
        key: bytes | bytearray | memoryview | None,
        value: bytes | bytearray | memoryview | None,
        headers: Headers | None,
    ) -> bool:
        """``try_append`` for a record that the writer has just refused. Nobody else may append meanwhile."""
        if self._state is not BuilderState.OPEN:
            raise IllegalStateError(f"cannot append to a batch that is {self._state.value}")
        if self._is_broken:
            return False
        writer = self._writer
        buffer_bytes = len(writer.buffer)
        if not writer.record_count:
            writer.limit = buffer_bytes
            if not writer.append(timestamp_ms, key, value, headers):
                raise IllegalStateError(
                    f"a buffer of {buffer_bytes} bytes is too small for this first record"
                )
            self._adjust_limit()
            return True
        room = self._room_bytes()
        writer.limit = min(writer.position + room, buffer_bytes)
        taken = writer.append(timestamp_ms, key, value, headers)
        if not taken and room > buffer_bytes - writer.position:
            # The batch has room where the buffer has none.
            if self._grow(record_size_upper_bound(key, value, headers)):
                buffer_bytes = len(writer.buffer)
                writer.limit = min(writer.position + room, buffer_bytes)
                taken = writer.append(timestamp_ms, key, value, headers)
            if (
                not taken
                and self.compression.type is not CompressionType.NONE
                and room > buffer_bytes - writer.position
                and writer.position > RECORD_BATCH_OVERHEAD
                and buffer_bytes < WHOLE_BUFFER_BYTES
                # What is compressed has to fit into the buffer that it has: no other memory is counted.
                and RECORD_BATCH_OVERHEAD + self._plain_bytes() * self._factor < buffer_bytes
            ):
                self._flush_chunk()
                writer.limit = min(writer.position + room, buffer_bytes)
                taken = writer.append(timestamp_ms, key, value, headers)
        self._adjust_limit()
        return taken

    def _grow(self, record_bytes: int) -> bool:
        """Move to a buffer with room for a record of this size, or as large as the batch may become."""
        writer = self._writer
        old = writer.buffer
        largest = self._largest_buffer_bytes
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
            # Also when a signal handler raises in between: one of the two is the batch's, the other is not.
            self._wire_buffer = writer.buffer
            self._buffers.deallocate(old if writer.buffer is larger else larger)
        return True

    def _room_bytes(self) -> int:
        """Return how long the next record may be: its own compression is not counted on, as in Kafka."""
        return self._write_limit - RECORD_BATCH_OVERHEAD - int(self._plain_bytes() * self._factor)

    def _adjust_limit(self) -> None:
        """Let the writer run, without asking us, as far as the estimate is sure to hold.

        A byte less: the record that makes the batch full is asked about, so that its owner notices.
        """
        if self.compression.type is CompressionType.NONE:
            self._writer.limit = min(self._write_limit - 1, len(self._writer.buffer))
            return
        if self._factor < 1.0:
            # Behind the limit the writer works out itself what the estimate says of each record.
            self._writer.set_compression_estimate(self._factor, self._flushed_bytes, self._write_limit)
        run = int((self._room_bytes() - 1) / max(self._factor, 1.0))
        self._writer.limit = min(self._writer.position + max(run, 0), len(self._writer.buffer))

    def _flush_chunk(self) -> None:
        """Compress the records in the buffer, and go on at its start."""
        self._is_broken = True
        self._compress_chunk()
        self._is_broken = False

    def _compress_chunk(self) -> None:
        writer = self._writer
        if self._stream is None:
            self._stream = self.compression.stream()
            self._compressed_pieces = []
        with memoryview(writer.buffer) as view:
            compressed = self._stream.compress(view[RECORD_BATCH_OVERHEAD : writer.position])
        if compressed and self._compressed_pieces is not None:
            self._compressed_pieces.append(compressed)
        self._flushed_bytes += writer.position - RECORD_BATCH_OVERHEAD
        writer.rewind()
        writer.set_compression_estimate(0.0, 0, 0)

    def _plain_bytes(self) -> int:
        if self._record_bytes:
            return self._record_bytes
        return self._flushed_bytes + self._writer.position - RECORD_BATCH_OVERHEAD

    # -- end of life -----------------------------------------------------------------------------------------

    def _move_to(self, state: BuilderState) -> None:
        if state not in _TRANSITIONS[self._state]:
            raise IllegalStateError(f"a batch that is {self._state.value} cannot become {state.value}")
        self._state = state

    def close_for_appends(self) -> None:
        """Take no more records. Does nothing when that is so already.

        A stream that was begun ends here and not in ``close``: it holds memory of its codec (zstd: a megabyte
        and more) that nobody counts, and many batches may wait to be sent.
        """
        if self._state is BuilderState.OPEN:
            self._move_to(BuilderState.SEALED)
            self._writer.limit = 0
            if self._stream is not None and not self._is_broken:
                self._finish_records()

    def compress(self) -> None:
        """Take no more records, and compress what there is now rather than in ``close``. Idempotent."""
        self.close_for_appends()
        if self._state is BuilderState.SEALED and not self.is_compressed and not self._is_broken:
            self._finish_records()

    def set_producer_state(
        self, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool
    ) -> None:
        """Set what makes the batch idempotent or transactional; before it is closed only.

        Args:
            producer_id, producer_epoch, base_sequence: all -1 for a plain batch, else none negative.
            is_transactional: needs a producer id.

        Raises:
            IllegalStateError: the batch is closed (its sequence may be known to a broker already) or aborted.
            LocalProtocolError: the values contradict each other or do not fit; nothing has changed.
        """
        if self._state not in (BuilderState.OPEN, BuilderState.SEALED):
            raise IllegalStateError(f"cannot set the producer state of a batch that is {self._state.value}")
        self._assign_producer_state(producer_id, producer_epoch, base_sequence, is_transactional)

    def reopen_and_rewrite_producer_state(
        self, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool
    ) -> None:
        """Give a closed batch another producer state; the next ``close`` rewrites only header and checksum.

        The caller makes sure that no socket is still reading the batch.

        Raises:
            IllegalStateError: the batch was never closed, or is aborted.
            LocalProtocolError: as for ``set_producer_state``.
        """
        _check_producer_state(producer_id, producer_epoch, base_sequence, is_transactional)
        self._move_to(BuilderState.REOPENED)
        self._closed_view = None
        self._assign_producer_state(producer_id, producer_epoch, base_sequence, is_transactional)

    def _assign_producer_state(
        self, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool
    ) -> None:
        _check_producer_state(producer_id, producer_epoch, base_sequence, is_transactional)
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.is_transactional = is_transactional

    def close(self) -> memoryview:
        """Finish the batch: compress, write the header and the checksum. Later calls return the same view.

        Returns:
            The batch in one piece: a view of the pooled buffer (always without compression, and with it
            when the result fits), else of memory of its own.

        Raises:
            IllegalStateError: the batch is aborted or has no records, or its compression was interrupted.
        """
        if self._closed_view is not None:
            return self._closed_view
        if not self._writer.record_count and self._state is not BuilderState.ABORTED:
            raise IllegalStateError("cannot close a batch without records")
        writer = self._writer
        if self._state is BuilderState.OPEN and self.compression.type is CompressionType.NONE:
            # Most batches: what the lines below do, without their calls.
            writer.limit = 0
            self._record_bytes = self._compressed_size_bytes = writer.position - RECORD_BATCH_OVERHEAD
        else:
            self.compress()
            if self._is_broken:
                raise IllegalStateError("its compression was interrupted")
        self._move_to(BuilderState.CLOSED)
        end = RECORD_BATCH_OVERHEAD + self._compressed_size_bytes
        write_batch_header(
            self._wire_buffer,
            end,
            self.compression.type | (TRANSACTIONAL_MASK if self.is_transactional else 0),
            writer.record_count,
            writer.base_timestamp_ms,
            writer.max_timestamp_ms,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
        )
        self._closed_view = memoryview(self._wire_buffer)[:end]
        return self._closed_view

    def _finish_records(self) -> None:
        """Compress what is left and put the records where they will be sent from."""
        plain_bytes = self._plain_bytes()
        if self.compression.type is CompressionType.NONE:
            self._compressed_size_bytes = plain_bytes
            self._record_bytes = plain_bytes
            return
        # Interrupted in here, it can be begun anew: the records are where they were.
        compressed = self._compressed_whole() if self._stream is None else None
        self._is_broken = True
        if compressed is None:
            compressed = self._end_stream()
        end = RECORD_BATCH_OVERHEAD + len(compressed)
        if end > len(self._writer.buffer):
            self._wire_buffer = bytearray(end)
        with memoryview(self._wire_buffer) as view:
            view[RECORD_BATCH_OVERHEAD:end] = compressed
        self._compressed_size_bytes = len(compressed)
        self._record_bytes = plain_bytes
        self._is_broken = False
        if self._topic_ratio is not None:
            self._topic_ratio.observe(self.compression_ratio)

    def _compressed_whole(self) -> bytes:
        """The records in the buffer, which are all there are, compressed."""
        with memoryview(self._writer.buffer) as view:
            return self.compression.compress(view[RECORD_BATCH_OVERHEAD : self._writer.position])

    def _end_stream(self) -> bytes:
        """All that went through the stream, with the records in the buffer as its last part."""
        assert self._stream is not None
        self._compress_chunk()
        compressed = b"".join([*(self._compressed_pieces or ()), self._stream.flush()])
        self._stream = None
        self._compressed_pieces = None
        return compressed

    def abort(self) -> None:
        """Give the batch up: no append, close or read after it. Writes nothing into the buffer."""
        self._move_to(BuilderState.ABORTED)
        self._writer.limit = 0
        self._writer.rewind()
        self._stream = None
        self._compressed_pieces = None
        self._closed_view = None

    def records(self) -> list[RawRecord]:
        """Return the records in order, for instance to append them to smaller batches. Closes an open batch.

        Raises:
            IllegalStateError: the batch is aborted or has no records.
        """
        wire = self.close()
        plain = decompress(self.compression.type, wire[RECORD_BATCH_OVERHEAD:], self._record_bytes)
        return decode_records(plain, self._writer.record_count, self._writer.base_timestamp_ms)


def _check_producer_state(
    producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool
) -> None:
    if producer_id == NO_PRODUCER_ID:
        if is_transactional:
            raise LocalProtocolError("a transactional batch needs a producer id")
        if producer_epoch != NO_PRODUCER_EPOCH or base_sequence != NO_SEQUENCE:
            raise LocalProtocolError(
                f"producer epoch {producer_epoch} and base sequence {base_sequence} need a producer id"
            )
        return
    if not 0 <= producer_id <= INT64_MAX:
        raise LocalProtocolError(f"producer id {producer_id} is out of range")
    if not 0 <= producer_epoch <= INT16_MAX:
        raise LocalProtocolError(
            f"producer epoch {producer_epoch} is out of range (producer id {producer_id})"
        )
    if not 0 <= base_sequence <= INT32_MAX:
        raise LocalProtocolError(f"base sequence {base_sequence} is out of range (producer id {producer_id})")

"""Writes record batch v2: records one by one into a caller's buffer, then the header in front of them.

A record on the wire (all integers zigzag varints, the timestamp delta a varlong):

    length | attributes (one zero byte) | timestamp delta | offset delta
    key length (-1: null) | key | value length (-1: null) | value
    header count | for each: name length | name (UTF-8) | value length (-1: null) | value

Knows nothing of compression, limits on requests or retries. Source: Kafka's ``DefaultRecord.writeTo``,
``DefaultRecordBatch.writeHeader``.
"""

from __future__ import annotations

from typing import Final

from kproducer.kernel.layout import (
    ATTRIBUTES_OFFSET,
    CRC,
    CRC_OFFSET,
    HEADER_AFTER_CRC,
    HEADER_BEFORE_CRC,
    LOG_OVERHEAD,
    MAGIC,
    MAX_RECORD_OVERHEAD,
    MAX_VARINT_BYTES,
    NO_PARTITION_LEADER_EPOCH,
    RECORD_BATCH_OVERHEAD,
)
from kproducer.kernel.pure.crc32c import crc32c
from kproducer.kernel.pure.varint import NULL_LENGTH, TABLE, TABLE_SIZE, encode_varint, encode_varlong
from kproducer.kernel.record_arguments import (
    BytesLike,
    Headers,
    as_bytes,
    as_header_sequence,
    as_pair,
    bad_header_name,
    check_buffer,
    check_weights,
    refuse_buffer,
    refuse_length,
    refuse_timestamp,
)
from kproducer.types import INT32_MAX, INT64_MAX

#: Room below which a batch may be full; more costs a question, no more.
NEARLY_FULL_BYTES: Final = 64
#: The end of a record without headers: their count.
NO_HEADERS: Final = b"\0"


class BatchWriter:
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

    __slots__ = (
        "_earlier_bytes",
        "_view",
        "_weight",
        "_wire_limit",
        "base_timestamp_ms",
        "buffer",
        "limit",
        "max_timestamp_ms",
        "position",
        "record_count",
    )

    def __init__(self, buffer: bytearray) -> None:
        check_buffer(buffer)
        self.buffer = buffer
        # Assigning bytes to a slice of a bytearray makes a temporary copy first; a memoryview does not.
        self._view = memoryview(buffer)
        self.limit = len(buffer)
        self._weight = 0.0
        self._earlier_bytes = 0
        self._wire_limit = 0
        self.position = RECORD_BATCH_OVERHEAD
        self.record_count = 0
        self.base_timestamp_ms = -1
        self.max_timestamp_ms = -1

    def append(
        self,
        timestamp_ms: int,
        key: BytesLike | None,
        value: BytesLike | None,
        headers: Headers | None,
    ) -> bool:
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
        if value.__class__ is not bytes and value is not None:
            value = as_bytes(value, "value")
        if key.__class__ is not bytes and key is not None:
            key = as_bytes(key, "key")
        if timestamp_ms.__class__ is not int or timestamp_ms < 0:
            refuse_timestamp(timestamp_ms)
        tail = encode_headers(headers) if headers else NO_HEADERS
        record_count = self.record_count
        max_timestamp_ms = self.max_timestamp_ms
        if timestamp_ms > max_timestamp_ms:
            max_timestamp_ms = timestamp_ms
            if timestamp_ms > INT64_MAX:
                refuse_timestamp(timestamp_ms)
        delta = timestamp_ms - self.base_timestamp_ms if record_count else 0
        delta_bytes = TABLE[delta] if 0 <= delta < TABLE_SIZE else encode_varlong(delta)
        if record_count < TABLE_SIZE:
            count_bytes = TABLE[record_count]
        elif record_count <= INT32_MAX:
            count_bytes = encode_varint(record_count)
        else:
            return False
        if value is None:
            value_length_bytes = NULL_LENGTH
            value = b""
        else:
            size = len(value)
            value_length_bytes = TABLE[size] if size < TABLE_SIZE else _length_prefix(size, "value")
        if key is None:
            body = b"".join((b"\0", delta_bytes, count_bytes, NULL_LENGTH, value_length_bytes, value, tail))
        else:
            size = len(key)
            key_length_bytes = TABLE[size] if size < TABLE_SIZE else _length_prefix(size, "key")
            body = b"".join(
                (b"\0", delta_bytes, count_bytes, key_length_bytes, key, value_length_bytes, value, tail)
            )
        size = len(body)
        record = (TABLE[size] if size < TABLE_SIZE else _length_prefix(size, "record")) + body
        position = self.position
        end = position + len(record)
        if end > self.limit and not self._fits_by_weight(end):
            return False
        earlier_max_timestamp_ms = self.max_timestamp_ms
        try:
            self._view[position:end] = record
            self.position = end
            self.record_count = record_count + 1
            if max_timestamp_ms != earlier_max_timestamp_ms:
                self.max_timestamp_ms = max_timestamp_ms
                if not record_count:
                    self.base_timestamp_ms = timestamp_ms
        except BaseException:
            # Ctrl-C and other signal handlers raise between any two of these: position and count must agree,
            # or the broker refuses the whole batch.
            self.position = position
            self.record_count = record_count
            self.max_timestamp_ms = earlier_max_timestamp_ms
            raise
        return True

    def move_to(self, buffer: bytearray) -> None:
        """Go on in another buffer, with a copy of what was written so far; ``limit`` is its size now.

        Raises:
            TypeError, ValueError: as the constructor does, or it is too small for the copy; nothing changed.
        """
        check_buffer(buffer)
        if len(buffer) < self.position:
            refuse_buffer(len(buffer), self.position)
        view = memoryview(buffer)
        view[: self.position] = self._view[: self.position]
        self._view, self.buffer = view, buffer
        self.limit = len(buffer)

    def set_compression_estimate(self, weight: float, earlier_bytes: int, wire_limit: int) -> None:
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
        check_weights(weight, earlier_bytes, wire_limit)
        self._earlier_bytes = earlier_bytes
        self._wire_limit = wire_limit
        self._weight = weight

    def _weighed_size(self, position: int) -> int:
        """Size of the batch on the wire, going by its weight, if its records ended there."""
        return RECORD_BATCH_OVERHEAD + int(
            (self._earlier_bytes + position - RECORD_BATCH_OVERHEAD) * self._weight
        )

    def _fits_by_weight(self, end: int) -> bool:
        """Whether a record may end there, which is behind ``limit``. See ``set_compression_estimate``."""
        position = self.position
        return (
            self._weight > 0
            and self.limit > 0
            and end <= len(self.buffer)
            and self._weighed_size(position) + end - position <= self._wire_limit
            and self._weighed_size(end) < self._wire_limit
        )

    def rewind(self) -> None:
        """Start again behind the header; the records so far still count, their bytes are the caller's."""
        self.position = RECORD_BATCH_OVERHEAD


def is_nearly_full(writer: BatchWriter) -> bool:
    """Whether there is hardly room for another record, or it is not known."""
    end = writer.position + NEARLY_FULL_BYTES
    return end > writer.limit and not writer._fits_by_weight(end)


def record_size_upper_bound(key: BytesLike | None, value: BytesLike | None, headers: Headers | None) -> int:
    """Return the most bytes that a batch with this one record can need, the batch's header included.

    A buffer of this size takes the record with certainty, as the first one of a batch.

    Raises:
        SerializationError: key, value or headers are of the wrong type.
    """
    size = RECORD_BATCH_OVERHEAD + MAX_RECORD_OVERHEAD + 3 * MAX_VARINT_BYTES
    if value is not None:
        size += len(value) if value.__class__ is bytes else len(as_bytes(value, "value"))
    if key is not None:
        size += len(key) if key.__class__ is bytes else len(as_bytes(key, "key"))
    if headers:
        size += len(encode_headers(headers))
    return size


def write_batch_header(
    buffer: bytearray,
    end: int,
    attributes: int,
    record_count: int,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
) -> None:
    """Write the header, checksum included, of the batch whose records lie in ``buffer`` from 61 to ``end``.

    Base offset is 0 and the partition leader epoch -1: the broker sets both.

    Raises:
        struct.error: a value does not fit its field.
    """
    HEADER_BEFORE_CRC.pack_into(buffer, 0, 0, end - LOG_OVERHEAD, NO_PARTITION_LEADER_EPOCH, MAGIC)
    HEADER_AFTER_CRC.pack_into(
        buffer,
        ATTRIBUTES_OFFSET,
        attributes,
        record_count - 1,
        base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    CRC.pack_into(buffer, CRC_OFFSET, crc32c(memoryview(buffer)[ATTRIBUTES_OFFSET:end]))


def encode_headers(headers: Headers) -> bytes:
    """Encode the headers of one record, their count included.

    Raises:
        SerializationError: the shape, a name or a value is not as it has to be.
    """
    if headers.__class__ is list:
        # Another thread may change a list between the count and the last of its items.
        headers = tuple(headers)
    elif headers.__class__ is not tuple:
        headers = tuple(as_header_sequence(headers))
    pieces = [encode_varint(len(headers))]
    for index, header in enumerate(headers):
        if header.__class__ is not tuple or len(header) != 2:
            header = as_pair(header, index)
        name, value = header
        try:
            name_bytes = name.encode()
        except (AttributeError, UnicodeEncodeError) as error:
            raise bad_header_name(name, index) from error
        size = len(name_bytes)
        pieces.append(TABLE[size] if size < TABLE_SIZE else _length_prefix(size, f"name of header {index}"))
        pieces.append(name_bytes)
        if value is None:
            pieces.append(NULL_LENGTH)
            continue
        if value.__class__ is not bytes:
            value = as_bytes(value, f"value of header {index} ({name[:50]!r})")
        size = len(value)
        pieces.append(TABLE[size] if size < TABLE_SIZE else _length_prefix(size, f"value of header {index}"))
        pieces.append(value)
    return b"".join(pieces)


def _length_prefix(size: int, field: str) -> bytes:
    if size > INT32_MAX:
        refuse_length(size, field)
    return encode_varint(size)

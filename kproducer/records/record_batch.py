"""A finished record batch v2, read-only: header fields, checksum, records. The bytes may come from anybody.

The reading side of ``record_batch_builder.py``, for tools, tests and test brokers. ``parse`` checks what can
be checked without touching the records: lengths, magic, checksum, codec. ``records`` does the rest.
Layout: ``kproducer.kernel.layout``. Source: Kafka's ``DefaultRecordBatch``.
"""

from __future__ import annotations

from typing import Final

import attrs

from kproducer.kernel import RawRecord, RecordFormatError, crc32c, decode_records
from kproducer.kernel.layout import (
    ATTRIBUTES_OFFSET,
    COMPRESSION_MASK,
    CONTROL_MASK,
    HEADER,
    LOG_OVERHEAD,
    MAGIC,
    RECORD_BATCH_OVERHEAD,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
)
from kproducer.records.compression import CompressionType
from kproducer.records.decompression import decompress
from kproducer.records.errors import CorruptRecordBatchError

#: More plain bytes than any batch of a sane topic; a bound, not an allocation.
DEFAULT_MAX_PLAIN_BYTES: Final = 128 * 1024 * 1024


@attrs.frozen(slots=True)
class RecordBatch:
    """One parsed batch. Immutable, but a view: valid while the buffer under it keeps its content.

    Attributes:
        base_offset: offset of the first record; 0 from a producer.
        size_bytes: the whole batch, base offset and length field included.
        partition_leader_epoch: set by the broker; -1 from a producer.
        crc: the checksum, already found right.
        attributes: the bits; see the properties.
        last_offset_delta: offset of the last record minus base offset.
        base_timestamp_ms: what the records' timestamps are counted from.
        max_timestamp_ms: largest timestamp; for LogAppendTime the broker's.
        producer_id, producer_epoch, base_sequence: -1 in a batch without producer state.
        record_count: records in it, as the header says.
        payload: the records as they lie in the buffer, perhaps compressed.
    """

    base_offset: int
    size_bytes: int
    partition_leader_epoch: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    payload: memoryview

    @classmethod
    def parse(cls, buffer: bytes | bytearray | memoryview, position: int = 0) -> RecordBatch:
        """Read the batch that starts at ``position``; what follows it is left alone.

        Raises:
            CorruptRecordBatchError: too short, another magic, wrong checksum, unknown codec, or a count that
                contradicts the offsets.
        """
        view = memoryview(buffer)[position:]
        if len(view) < RECORD_BATCH_OVERHEAD:
            raise CorruptRecordBatchError(
                f"{len(view)} bytes are no batch: its header has {RECORD_BATCH_OVERHEAD}"
            )
        fields = HEADER.unpack_from(view)
        base_offset, batch_length, leader_epoch, magic, crc, attributes, last_offset_delta = fields[:7]
        record_count = fields[12]
        size_bytes = batch_length + LOG_OVERHEAD
        if magic != MAGIC:
            raise CorruptRecordBatchError(f"magic {magic}; only {MAGIC} is supported")
        if not RECORD_BATCH_OVERHEAD <= size_bytes <= len(view):
            raise CorruptRecordBatchError(f"batch length {batch_length} in {len(view)} bytes")
        computed = crc32c(view[ATTRIBUTES_OFFSET:size_bytes])
        if computed != crc:
            raise CorruptRecordBatchError(f"checksum {crc:#010x}; the content has {computed:#010x}")
        if attributes & COMPRESSION_MASK > max(CompressionType):
            raise CorruptRecordBatchError(f"unknown codec {attributes & COMPRESSION_MASK}")
        if record_count < 0 or last_offset_delta < record_count - 1:
            raise CorruptRecordBatchError(
                f"{record_count} records with last offset delta {last_offset_delta}"
            )
        return cls(
            base_offset=base_offset,
            size_bytes=size_bytes,
            partition_leader_epoch=leader_epoch,
            crc=crc,
            attributes=attributes,
            last_offset_delta=last_offset_delta,
            base_timestamp_ms=fields[7],
            max_timestamp_ms=fields[8],
            producer_id=fields[9],
            producer_epoch=fields[10],
            base_sequence=fields[11],
            record_count=record_count,
            payload=view[RECORD_BATCH_OVERHEAD:size_bytes].toreadonly(),
        )

    @property
    def compression_type(self) -> CompressionType:
        """The codec of the records."""
        return CompressionType(self.attributes & COMPRESSION_MASK)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_MASK)

    @property
    def is_control(self) -> bool:
        """Whether it holds a transaction marker, which only brokers write."""
        return bool(self.attributes & CONTROL_MASK)

    @property
    def is_log_append_time(self) -> bool:
        """Whether the broker's clock, not the producer's, set the timestamps."""
        return bool(self.attributes & TIMESTAMP_TYPE_MASK)

    def records(self, max_plain_bytes: int = DEFAULT_MAX_PLAIN_BYTES) -> list[RawRecord]:
        """Decompress and decode the records.

        Args:
            max_plain_bytes: the most that the records may have without compression.

        Raises:
            CorruptRecordBatchError: the codec's data, a record, the number of records or their offsets are
                wrong, or there is too much.
        """
        plain = decompress(self.compression_type, self.payload, max_plain_bytes)
        try:
            records = decode_records(plain, self.record_count, self.base_timestamp_ms)
        except RecordFormatError as error:
            raise CorruptRecordBatchError(str(error)) from error
        previous = -1
        for record in records:
            if not previous < record.offset_delta <= self.last_offset_delta:
                raise CorruptRecordBatchError(f"offset delta {record.offset_delta} follows {previous}")
            previous = record.offset_delta
        if self.is_log_append_time:
            return [record._replace(timestamp_ms=self.max_timestamp_ms) for record in records]
        return records


def parse_batches(buffer: bytes | bytearray | memoryview) -> list[RecordBatch]:
    """Read batches that lie one behind the other and fill ``buffer``.

    Raises:
        CorruptRecordBatchError: as for ``RecordBatch.parse``.
    """
    batches: list[RecordBatch] = []
    position = 0
    while position < len(buffer):
        batch = RecordBatch.parse(buffer, position)
        batches.append(batch)
        position += batch.size_bytes
    return batches

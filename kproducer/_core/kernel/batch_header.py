"""The header of record batch v2, for both kernels: once per batch, where compiled code gains nothing.

Source: Kafka's ``DefaultRecordBatch.writeHeader``.
"""

from __future__ import annotations

from kproducer._core.kernel.crc32c import crc32c
from kproducer._core.kernel.layout import (
    ATTRIBUTES_OFFSET,
    CRC,
    CRC_OFFSET,
    HEADER_AFTER_CRC,
    HEADER_BEFORE_CRC,
    LOG_OVERHEAD,
    MAGIC,
    MAX_RECORD_OVERHEAD,
    NO_PARTITION_LEADER_EPOCH,
    RECORD_BATCH_OVERHEAD,
)
from kproducer._core.kernel.record_headers import headers_size
from kproducer.types import Headers


def record_size_upper_bound(key: bytes | None, value: bytes | None, headers: Headers | None) -> int:
    """Return the most bytes that a batch with this one record can take, the batch's header included.

    A buffer of this size always has room for the record as the first one of a batch.

    Raises:
        TypeError, ValueError: as ``checked_headers``.
    """
    size = RECORD_BATCH_OVERHEAD + MAX_RECORD_OVERHEAD + len(key or b"") + len(value or b"")
    if headers:
        size += headers_size(headers)
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
    """Write the header, checksum included, of the batch whose records end at ``end`` in ``buffer``.

    The base offset is 0 and the partition leader epoch -1: the broker sets both.

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

"""Reads the records of a batch v2, trusting nothing: every length is checked before it is used.

Used where batches come back: splitting an over-large one, tests, tools. The mirror of ``batch_v2``, which
describes the bytes. Knows nothing of headers of batches, compression or checksums.
Source: Kafka's ``DefaultRecord.readFrom``.
"""

from __future__ import annotations

from typing import NamedTuple

from kproducer.kernel.layout import MIN_RECORD_BYTES
from kproducer.kernel.pure.varint import VarintError, decode_varint, decode_varlong
from kproducer.types import INT64_MAX


class RecordFormatError(ValueError):
    """The bytes are no valid sequence of records."""


class RawRecord(NamedTuple):
    """A record as it lies in a batch.

    Attributes:
        offset_delta: offset, counted from the batch's base offset.
        timestamp_ms: milliseconds since the epoch, the base timestamp already added.
        key, value: ``None`` is null, which is not the same as empty.
        headers: (name, value) in their order.
    """

    offset_delta: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def decode_records(data: bytes, record_count: int, base_timestamp_ms: int) -> list[RawRecord]:
    """Decode exactly ``record_count`` records, which must fill ``data`` to its last byte.

    Args:
        data: the records, uncompressed, without the batch's header.
        record_count: what the batch's header says.
        base_timestamp_ms: what the batch's header says.

    Raises:
        RecordFormatError: any length, count or varint is wrong. Says which record and byte.
    """
    if record_count < 0 or record_count * MIN_RECORD_BYTES > len(data):
        raise RecordFormatError(f"{record_count} records cannot lie in {len(data)} bytes")
    records: list[RawRecord] = []
    position = 0
    for index in range(record_count):
        try:
            record, position = _decode_record(data, position, base_timestamp_ms)
        except (VarintError, RecordFormatError) as error:
            raise RecordFormatError(f"record {index}: {error}") from error
        records.append(record)
    if position != len(data):
        raise RecordFormatError(f"{len(data) - position} bytes follow the last of {record_count} records")
    return records


def _decode_record(data: bytes, position: int, base_timestamp_ms: int) -> tuple[RawRecord, int]:
    size, position = _decode_small(data, position)
    end = position + size
    if size < MIN_RECORD_BYTES - 1 or end > len(data):
        raise RecordFormatError(f"length {size} at byte {position}; {len(data) - position} bytes are left")
    position += 1  # attributes: no bit of them is in use
    timestamp_delta, position = decode_varlong(data, position)
    offset_delta, position = _decode_small(data, position)
    timestamp_ms = base_timestamp_ms + timestamp_delta
    if not -INT64_MAX - 1 <= timestamp_ms <= INT64_MAX:
        raise RecordFormatError(f"timestamp {timestamp_ms} does not fit 64 bits")
    key, position = _decode_bytes(data, position, end, "key")
    value, position = _decode_bytes(data, position, end, "value")
    header_count, position = _decode_small(data, position)
    headers: tuple[tuple[str, bytes | None], ...] = ()
    if header_count:
        # A header takes two bytes at least.
        if header_count < 0 or header_count * 2 > end - position:
            raise RecordFormatError(f"{header_count} headers cannot lie in {end - position} bytes")
        headers, position = _decode_headers(data, position, end, header_count)
    if position != end:
        raise RecordFormatError(f"length {size} is wrong: the record ends at byte {position}, not {end}")
    return RawRecord(offset_delta, timestamp_ms, key, value, headers), position


def _decode_headers(
    data: bytes, position: int, end: int, header_count: int
) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(header_count):
        name, position = _decode_bytes(data, position, end, "header name")
        if name is None:
            raise RecordFormatError(f"null header name before byte {position}")
        value, position = _decode_bytes(data, position, end, "header value")
        try:
            headers.append((name.decode(), value))
        except UnicodeDecodeError as error:
            raise RecordFormatError(f"header name is not UTF-8: {error}") from error
    return tuple(headers), position


def _decode_small(data: bytes, position: int) -> tuple[int, int]:
    """Decode an int32, the one-byte case (nearly all of them) without a loop."""
    if position < len(data):
        byte = data[position]
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), position + 1
    return decode_varint(data, position)


def _decode_bytes(data: bytes, position: int, end: int, field: str) -> tuple[bytes | None, int]:
    size, position = _decode_small(data, position)
    if size < 0:
        if size == -1:
            return None, position
        raise RecordFormatError(f"{field} has the negative length {size}")
    field_end = position + size
    if field_end > end:
        raise RecordFormatError(f"{field} of {size} bytes runs past the end of the record")
    return data[position:field_end], field_end

"""Strict reading of one record batch as a producer sends it (log format 2).

Deliberately does not use ``kproducer._core.records``: an independent reader finds errors on which our
writer and reader would agree. Does not depend on topics or sockets.
Source: Kafka's ``DefaultRecordBatch``, ``DefaultRecord`` and the checks of ``LogValidator``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import attrs
import lz4.frame
import zstandard
from cramjam import snappy

from kproducer._core.kernel.crc32c import crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size
_CRC_FROM = 21
_TRANSACTIONAL = 0x10
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
ZSTD_SINCE_PRODUCE = 7
_XERIAL_MAGIC = b"\x82SNAPPY\x00"

CORRUPT_MESSAGE = 2
INVALID_TIMESTAMP = 32
UNSUPPORTED_COMPRESSION_TYPE = 76
INVALID_RECORD = 87


class BatchRefusedError(Exception):
    """A batch is refused.

    Args:
        code: the error code that Apache Kafka returns.
        reason: the broker's error message, v8 and later.
        record_errors: (index in the batch, message) of the invalid records, v8 and later.
    """

    def __init__(
        self, code: int, reason: str | None = None, record_errors: Sequence[tuple[int, str | None]] = ()
    ) -> None:
        super().__init__(reason)
        self.code, self.reason, self.record_errors = code, reason, record_errors


class StoredRecord(NamedTuple):
    """A record with absolute timestamp, and its offset in the log or, as it was read, in its batch."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@attrs.define
class RecordBatch:
    """A batch that passed every check. Its place in the log and its connection are known when it is there."""

    codec: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    max_timestamp_ms: int
    records: tuple[StoredRecord, ...]
    base_offset: int = 0
    connection_id: int = 0


def read_batch(data: bytes | memoryview, produce_version: int = ZSTD_SINCE_PRODUCE) -> RecordBatch:
    """Check and read ``data``, which must be exactly one batch.

    Args:
        data: the records field of a partition in a Produce request.
        produce_version: determines which codecs are legal.

    Raises:
        BatchRefusedError: with the broker's error code and the violation.
    """
    raw = bytes(data)
    if len(raw) < HEADER_BYTES:
        raise BatchRefusedError(CORRUPT_MESSAGE, f"{len(raw)} bytes are too short for a batch")
    fields = HEADER.unpack_from(raw)
    base_offset, length, _epoch, magic, crc, attributes, last_delta, base_ts, max_ts = fields[:9]
    producer_id, producer_epoch, base_sequence, count = fields[9:]
    if magic != 2:
        raise BatchRefusedError(INVALID_RECORD, f"magic {magic}")
    if length + 12 != len(raw):
        what = "more than one batch, or trailing bytes" if length + 12 < len(raw) else "cut short"
        raise BatchRefusedError(INVALID_RECORD, f"batch length {length} in {len(raw)} bytes: {what}")
    if crc32c(raw[_CRC_FROM:]) != crc:
        raise BatchRefusedError(CORRUPT_MESSAGE, "CRC mismatch")
    if base_offset != 0:
        raise BatchRefusedError(INVALID_RECORD, f"base offset {base_offset} from a producer")
    if count <= 0 or last_delta != count - 1:
        raise BatchRefusedError(INVALID_RECORD, f"{count} records, last offset delta {last_delta}")
    codec = _check_attributes(attributes, produce_version)
    payload = raw[HEADER_BYTES:] if codec == 0 else _decompress(codec, raw[HEADER_BYTES:])
    records = read_records(payload, count, base_ts)
    newest = max(record.timestamp_ms for record in records)
    if max_ts != newest:
        raise BatchRefusedError(INVALID_TIMESTAMP, f"max timestamp {max_ts}, newest record {newest}")
    is_transactional = bool(attributes & _TRANSACTIONAL)
    _check_producer(producer_id, producer_epoch, base_sequence, is_transactional)
    return RecordBatch(codec, producer_id, producer_epoch, base_sequence, is_transactional, max_ts, records)


def _check_producer(producer_id: int, epoch: int, sequence: int, is_transactional: bool) -> None:
    fields = (producer_id, epoch, sequence)
    if producer_id == -1 and not is_transactional:
        return  # brokers do not look at the rest
    if min(fields) < 0:
        raise BatchRefusedError(
            INVALID_RECORD, f"producer id, epoch, sequence {fields}, transactional: {is_transactional}"
        )


def _check_attributes(attributes: int, produce_version: int) -> int:
    codec = attributes & 0x07
    if codec > ZSTD:
        raise BatchRefusedError(UNSUPPORTED_COMPRESSION_TYPE, f"codec {codec}")
    if codec == ZSTD and produce_version < ZSTD_SINCE_PRODUCE:
        raise BatchRefusedError(UNSUPPORTED_COMPRESSION_TYPE, f"zstd in Produce v{produce_version}")
    if attributes & 0x08:
        raise BatchRefusedError(INVALID_TIMESTAMP, "a producer may not set log append time")
    if attributes & ~0x17:
        raise BatchRefusedError(INVALID_RECORD, f"attributes {attributes:#x} set unused or control bits")
    return codec


def _decompress(codec: int, data: bytes) -> bytes:
    try:
        if codec == GZIP:
            inflate = zlib.decompressobj(wbits=31)
            out = inflate.decompress(data)
            if not inflate.eof or inflate.unused_data:
                raise ValueError("not exactly one gzip member")
            return out
        if codec == SNAPPY:
            return _unsnappy(data)
        if codec == LZ4:
            if len(data) < 7 or not data[4] & 0x20:
                raise ValueError("lz4 blocks are not independent: Kafka's reader refuses that")
            return bytes(lz4.frame.decompress(data))
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    except Exception as error:
        raise BatchRefusedError(CORRUPT_MESSAGE, f"codec {codec} does not decompress: {error}") from error


def _unsnappy(data: bytes) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):  # librdkafka sends raw snappy; brokers accept both
        return bytes(snappy.decompress_raw(data))
    out = bytearray()
    position = 16  # magic, version, lowest compatible version
    while position < len(data):
        (size,) = struct.unpack_from(">i", data, position)
        position += 4
        if size < 0 or position + size > len(data):
            raise ValueError(f"snappy chunk of {size} bytes")
        out += bytes(snappy.decompress_raw(data[position : position + size]))
        position += size
    return bytes(out)


def read_records(payload: bytes, count: int, base_timestamp_ms: int) -> tuple[StoredRecord, ...]:
    """Check and read uncompressed records.

    Raises:
        BatchRefusedError: they violate the format.
    """
    records = []
    position = 0
    try:
        for index in range(count):
            size, position = _varint(payload, position)
            end = position + size
            if size < 0 or end > len(payload):
                raise ValueError(f"record {index} claims {size} bytes")
            records.append(_read_record(payload[position:end], index, base_timestamp_ms))
            position = end
    except (IndexError, ValueError) as error:
        raise BatchRefusedError(INVALID_RECORD, f"records do not parse: {error}") from error
    if position != len(payload):
        raise BatchRefusedError(INVALID_RECORD, f"{len(payload) - position} bytes behind the last record")
    return tuple(records)


def _read_record(body: bytes, index: int, base_timestamp_ms: int) -> StoredRecord:
    if body[0] != 0:
        raise ValueError(f"record {index} has attributes {body[0]}")
    timestamp_delta, position = _varint(body, 1)
    offset_delta, position = _varint(body, position)
    if offset_delta != index:
        raise ValueError(f"record {index} has offset delta {offset_delta}")
    key, position = _nullable(body, position)
    value, position = _nullable(body, position)
    header_count, position = _varint(body, position)
    if header_count < 0:
        raise ValueError(f"record {index} has {header_count} headers")
    headers = []
    for _ in range(header_count):
        name, position = _nullable(body, position)
        if name is None:
            raise ValueError(f"record {index} has a header without name")
        header_value, position = _nullable(body, position)
        headers.append((name.decode(), header_value))
    if position != len(body):
        raise ValueError(f"record {index} is {len(body)} bytes long, {position} are used")
    return StoredRecord(index, base_timestamp_ms + timestamp_delta, key, value, tuple(headers))


def _nullable(body: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = _varint(body, position)
    if size == -1:
        return None, position
    if size < -1 or position + size > len(body):
        raise ValueError(f"length {size} with {len(body) - position} bytes left")
    return body[position : position + size], position + size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1), position
        shift += 7
        if shift > 63:
            raise ValueError("varint too long")

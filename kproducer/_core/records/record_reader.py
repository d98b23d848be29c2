"""Reads the records of a batch back, to distribute them over smaller batches.

Only for batches that this process has built: nothing is checked against hostile data.
``kproducer._core.kernel.pure.batch_v2`` describes the format. Source: Kafka's ``DefaultRecord.readFrom``.
"""

from __future__ import annotations

from typing import TypeAlias

from kproducer.errors import IllegalStateError

#: Timestamp in milliseconds, key, value, headers; ``None`` is null.
ReadRecord: TypeAlias = "tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]"


def read_records(data: bytes, record_count: int, base_timestamp_ms: int) -> list[ReadRecord]:
    """Decode the records of a batch in their order.

    Args:
        data: the uncompressed records, without the batch's header.
        record_count: number of records in ``data``.
        base_timestamp_ms: the base timestamp of the batch.

    Raises:
        IllegalStateError: ``data`` has more bytes than ``record_count`` records.
    """
    records: list[ReadRecord] = []
    position = 0
    for _ in range(record_count):
        _size, position = _read_varint(data, position)
        timestamp_delta, position = _read_varint(data, position + 1)  # after the attributes
        _offset_delta, position = _read_varint(data, position)
        key, position = _read_bytes(data, position)
        value, position = _read_bytes(data, position)
        header_count, position = _read_varint(data, position)
        headers: list[tuple[str, bytes | None]] = []
        for _ in range(header_count):
            name, position = _read_bytes(data, position)
            header_value, position = _read_bytes(data, position)
            headers.append(((name or b"").decode(), header_value))
        records.append((base_timestamp_ms + timestamp_delta, key, value, headers))
    if position != len(data):
        raise IllegalStateError(f"{len(data) - position} bytes follow the {record_count} records of a batch")
    return records


def _read_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = _read_varint(data, position)
    return (None, position) if size < 0 else (data[position : position + size], position + size)


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    raw = shift = 0
    while True:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7

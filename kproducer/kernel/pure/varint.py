"""Zigzag varints (int32) and varlongs (int64), as the records of batch v2 use them.

Shape: zigzag maps 0, -1, 1, -2 to 0, 1, 2, 3; then seven bits a byte, low bits first, the top bit saying that
another byte follows. Encoders return ready bytes, because the record encoder joins pieces; small values come
from a table. Decoders take an int32 in at most five bytes and an int64 in at most ten.
Source: Kafka's ``ByteUtils`` (writeVarint, readVarint, writeVarlong, readVarlong).
"""

from __future__ import annotations

from typing import Final

from kproducer.types import INT32_MAX, INT64_MAX


class VarintError(ValueError):
    """The bytes at this position are no varint."""


def _unsigned(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


#: Values 0 to TABLE_SIZE - 1 are looked up in ``TABLE`` by index. All that need one or two bytes are in it.
TABLE_SIZE: Final = 8192
TABLE: Final[tuple[bytes, ...]] = tuple(_unsigned(value << 1) for value in range(TABLE_SIZE))

#: The length of something that is null.
NULL_LENGTH: Final = _unsigned(1)


def encode_varint(value: int) -> bytes:
    """Encode an int32.

    Raises:
        ValueError: ``value`` is outside int32.
    """
    if 0 <= value < TABLE_SIZE:
        return TABLE[value]
    if not -INT32_MAX - 1 <= value <= INT32_MAX:
        raise ValueError(f"{value} does not fit an int32 varint")
    return _unsigned((value << 1) ^ (value >> 31))


def encode_varlong(value: int) -> bytes:
    """Encode an int64.

    Raises:
        ValueError: ``value`` is outside int64.
    """
    if 0 <= value < TABLE_SIZE:
        return TABLE[value]
    if not -INT64_MAX - 1 <= value <= INT64_MAX:
        raise ValueError(f"{value} does not fit an int64 varlong")
    return _unsigned((value << 1) ^ (value >> 63))


def decode_varint(data: bytes, position: int) -> tuple[int, int]:
    """Decode an int32 at ``position``; return (value, position behind it).

    Raises:
        VarintError: the data ends inside it, or it is longer than five bytes or than 32 bits.
    """
    return _decode(data, position, 32)


def decode_varlong(data: bytes, position: int) -> tuple[int, int]:
    """Decode an int64 at ``position``; return (value, position behind it).

    Raises:
        VarintError: the data ends inside it, or it is longer than ten bytes or than 64 bits.
    """
    return _decode(data, position, 64)


def _decode(data: bytes, position: int, bits: int) -> tuple[int, int]:
    start = position
    raw = 0
    shift = 0
    end = len(data)
    while True:
        if position >= end:
            raise VarintError(f"varint at byte {start} runs past the end of the data")
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= bits:
            raise VarintError(f"varint at byte {start} is longer than {bits} bits allow")
    if raw >> bits:
        # Differs from Kafka, whose reader drops the bits that do not fit the last byte.
        raise VarintError(f"varint at byte {start} does not fit {bits} bits")
    return (raw >> 1) ^ -(raw & 1), position

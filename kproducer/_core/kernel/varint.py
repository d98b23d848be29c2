"""Zigzag varints (int32) and varlongs (int64), as the records of batch v2 use them.

Zigzag maps 0, -1, 1, -2 to 0, 1, 2, 3; then each byte holds seven bits, low bits first, and its top bit says
whether another byte follows. The functions return bytes, because the record encoder joins pieces; small
values come from a table.
Source: Kafka's ``ByteUtils`` (writeVarint, writeVarlong).
"""

from __future__ import annotations

from typing import Final

from kproducer.types import INT32_MAX, INT64_MAX


def encode_unsigned(value: int) -> bytes:
    """Encode a number that is not negative, without zigzag."""
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


#: ``TABLE`` holds the encodings of 0 to TABLE_SIZE - 1: all that take one or two bytes.
TABLE_SIZE: Final = 8192
# Written out for one and two bytes: every program without the native kernel builds this table.
TABLE: Final[tuple[bytes, ...]] = (
    *[bytes((value << 1,)) for value in range(64)],
    *[bytes((value << 1 & 0x7F | 0x80, value >> 6)) for value in range(64, TABLE_SIZE)],
)

#: The encoded length of a null.
NULL_LENGTH: Final = encode_unsigned(1)


def encode_varint(value: int) -> bytes:
    """Encode an int32.

    Raises:
        ValueError: ``value`` is outside int32.
    """
    if not -INT32_MAX - 1 <= value <= INT32_MAX:
        raise ValueError(f"{value} does not fit an int32 varint")
    return encode_varlong(value)


def encode_varlong(value: int) -> bytes:
    """Encode an int64.

    Raises:
        ValueError: ``value`` is outside int64.
    """
    if 0 <= value < TABLE_SIZE:
        return TABLE[value]
    if not -INT64_MAX - 1 <= value <= INT64_MAX:
        raise ValueError(f"{value} does not fit an int64 varlong")
    return encode_unsigned((value << 1) ^ (value >> 63))

"""Murmur2, 32 bit, with the seed of Kafka's default partitioner: all clients agree where a key belongs.

Shape: bytes in, unsigned 32-bit int out. Java's result is the same bits read as a signed int; a partitioner
masks with 0x7fffffff, which makes the two equal.
Source: Kafka's ``Utils.murmur2``.
"""

from __future__ import annotations

import struct
from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF

#: Unpackers for 0 to 63 whole words: making one costs more than hashing a short key.
_WORDS: Final = tuple(struct.Struct(f"<{count}I") for count in range(64))


def murmur2(data: bytes) -> int:
    """Hash ``data``.

    Only the low 32 bits matter and nothing flows down into them from above, so a product may stay uncut
    until it is combined: fewer maskings a word.

    Args:
        data: the serialized key; any bytes-like object of single bytes.

    Returns:
        An unsigned 32-bit hash.
    """
    length = len(data)
    word_count = length >> 2
    words = (_WORDS[word_count] if word_count < 64 else struct.Struct(f"<{word_count}I")).unpack_from(data)
    h = _SEED ^ length
    for word in words:
        k = (word * _M) & _MASK
        h = ((h * _M) ^ ((k ^ (k >> 24)) * _M)) & _MASK
    tail = length & 3
    if tail:
        h ^= int.from_bytes(data[length - tail :], "little")
        h = (h * _M) & _MASK
    h ^= h >> 13
    h = (h * _M) & _MASK
    return h ^ (h >> 15)

"""The partition of a key: Murmur2, 32 bits with Kafka's seed, modulo the number of partitions.

Java's result is the same 32 bits read as a signed int; the sign bit is masked, which makes the two equal.
Source: Kafka's ``Utils.murmur2``, ``BuiltInPartitioner.partitionForKey``.
"""

from __future__ import annotations

import struct
from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF

#: Unpackers for 0 to 63 whole words, made in advance: making one costs more than hashing a short key.
_WORDS: Final = tuple(struct.Struct(f"<{count}I") for count in range(64))


def murmur2(data: bytes) -> int:
    """Hash ``data``.

    Only the low 32 bits matter, and higher bits never flow down into them, so a product is masked only after
    it is combined: fewer operations per word.

    Args:
        data: the serialized key.

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


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition to which Kafka's default partitioner sends records with this key.

    Args:
        key: the serialized key.
        partition_count: number of partitions of the topic, at least 1.

    Raises:
        ValueError: ``partition_count`` is less than 1.
    """
    if partition_count < 1:
        raise ValueError(f"partition_count is {partition_count}; it must be at least 1")
    return (murmur2(key) & 0x7FFFFFFF) % partition_count

"""The partition of a key, by Murmur2: Java's vectors, every tail length, agreement with other clients."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.units.foreign_records import murmur2 as foreign_murmur2

#: With so many partitions, the partition is the hash without its sign bit.
ALL_HASHES = 2**31

#: As signed 32-bit numbers, which is what Java's function returns.
JAVA_VECTORS = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


@pytest.mark.parametrize(("data", "signed"), JAVA_VECTORS)
def test_java_vectors(kernel: ModuleType, data: bytes, signed: int) -> None:
    assert kernel.partition_for_key(data, ALL_HASHES) == signed & 0x7FFFFFFF


@pytest.mark.parametrize("size", [*range(20), 251, 252, 253, 255, 256, 257, 1000])
def test_every_tail_length_and_long_keys(kernel: ModuleType, size: int) -> None:
    data = bytes((7 * i + 200) & 0xFF for i in range(size))
    assert kernel.partition_for_key(data, ALL_HASHES) == foreign_murmur2(bytearray(data)) & 0x7FFFFFFF


def test_the_empty_key_has_a_hash(kernel: ModuleType) -> None:
    assert kernel.partition_for_key(b"", ALL_HASHES) == 275646681


@given(st.binary(max_size=600), st.integers(1, 1000))
def test_agrees_with_another_client(kernel: ModuleType, data: bytes, count: int) -> None:
    hashed = foreign_murmur2(bytearray(data)) & 0x7FFFFFFF
    assert kernel.partition_for_key(data, count) == hashed % count


@pytest.mark.parametrize("count", [0, -1])
def test_a_topic_without_partitions_is_refused(kernel: ModuleType, count: int) -> None:
    with pytest.raises(ValueError, match=f"partition_count is {count}"):
        kernel.partition_for_key(b"key", count)

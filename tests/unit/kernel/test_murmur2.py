"""Murmur2: Java's vectors, every tail length, agreement with other clients."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer.kernel import murmur2
from tests.support.units.foreign_records import murmur2 as foreign_murmur2

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
    assert kernel.murmur2(data) == signed & 0xFFFFFFFF


@pytest.mark.parametrize("size", [*range(20), 251, 252, 253, 255, 256, 257, 1000])
def test_every_tail_length_and_long_keys(kernel: ModuleType, size: int) -> None:
    data = bytes((7 * i + 200) & 0xFF for i in range(size))
    assert kernel.murmur2(data) == foreign_murmur2(bytearray(data)) & 0xFFFFFFFF


def test_the_empty_key_has_a_hash(kernel: ModuleType) -> None:
    assert kernel.murmur2(b"") == 275646681


@given(st.binary(max_size=600))
def test_agrees_with_another_client(data: bytes) -> None:
    result = murmur2(data)
    assert result == foreign_murmur2(bytearray(data)) & 0xFFFFFFFF
    assert murmur2(bytearray(data)) == murmur2(memoryview(data)) == result
    assert 0 <= result < 2**32

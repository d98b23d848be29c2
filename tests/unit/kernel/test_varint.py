"""Zigzag varints: the edges, the refusals, and agreement with an implementation of somebody else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer._core.kernel.varint import (
    TABLE,
    TABLE_SIZE,
    encode_varint,
    encode_varlong,
)
from tests.support.units.foreign_records import decode_varint as foreign_decode
from tests.support.units.foreign_records import encode_varint as foreign_encode

EDGES_32 = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (-65, "8101"),
    (8191, "fe7f"),
    (-8192, "ff7f"),
    (8192, "808001"),
    (-8193, "818001"),
    (1048575, "feff7f"),
    (-1048576, "ffff7f"),
    (1048576, "80808001"),
    (-1048577, "81808001"),
    (134217727, "feffff7f"),
    (-134217728, "ffffff7f"),
    (134217728, "8080808001"),
    (-134217729, "8180808001"),
    (2**31 - 1, "feffffff0f"),
    (-(2**31), "ffffffff0f"),
]
EDGES_64 = [
    *EDGES_32,
    (2**31, "8080808010"),
    (17179869183, "feffffff7f"),
    (-17179869184, "ffffffff7f"),
    (17179869184, "808080808001"),
    (2**62 - 1, "feffffffffffffff7f"),
    (2**62, "80808080808080808001"),
    (-(2**62) - 1, "81808080808080808001"),
    (2**63 - 1, "feffffffffffffffff01"),
    (-(2**63), "ffffffffffffffffff01"),
]


@pytest.mark.parametrize(("value", "encoded"), EDGES_32)
def test_int32_edges(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded


@pytest.mark.parametrize(("value", "encoded"), EDGES_64)
def test_int64_edges(value: int, encoded: str) -> None:
    assert encode_varlong(value).hex() == encoded


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**63])
def test_values_beyond_int32_are_refused(value: int) -> None:
    with pytest.raises(ValueError, match="int32"):
        encode_varint(value)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_values_beyond_int64_are_refused(value: int) -> None:
    with pytest.raises(ValueError, match="int64"):
        encode_varlong(value)


def test_the_table_holds_what_the_long_way_gives() -> None:
    assert len(TABLE) == TABLE_SIZE
    for value in (0, 1, 63, 64, 8191):
        out = bytearray()
        foreign_encode(value, out.append)
        assert TABLE[value] == bytes(out)


@given(st.integers(-(2**63), 2**63 - 1))
def test_agrees_with_another_implementation(value: int) -> None:
    encoded = encode_varlong(value)
    out = bytearray()
    foreign_encode(value, out.append)
    assert encoded == bytes(out)
    assert foreign_decode(bytearray(encoded), 0) == (value, len(encoded))


@given(st.integers(-(2**31), 2**31 - 1))
def test_int32_and_int64_share_their_encoding(value: int) -> None:
    assert encode_varint(value) == encode_varlong(value)

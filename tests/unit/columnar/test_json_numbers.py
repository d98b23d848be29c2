"""Numbers as JSON: all digits of integers and decimals, the fewest that identify floating point numbers."""

from __future__ import annotations

import decimal
import json
import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kproducer._core.columns.encoder_plan import Misfit
from kproducer._core.columns.pure.json_writer import shortest
from tests.unit.columnar.json_rows import values

POWERS = [
    2.0**53, 2.0**53 + 2, 9007199254740993.0, 5e-324, 2.2250738585072014e-308, 2.225073858507201e-308,
    1.7976931348623157e308, 1e16, 9999999999999998.0, 1e-4, 9.999e-5, 1e22, 1e23, 0.1, 0.3, 5.0, -0.0,
    123456.789, 9.5367431640625e-07, 5e-5, 1.0, 100.0, 2.0**-1074 * 3,
]  # fmt: skip


def of_bits(bits: int) -> float:
    return struct.unpack("<d", struct.pack("<Q", bits))[0]  # type: ignore[no-any-return]


DOUBLES = st.one_of(
    st.integers(0, 2**64 - 1).map(of_bits),
    st.floats(),
    st.integers(-(2**54), 2**54).map(float),
    st.builds(lambda digits, scale: digits / 10**scale, st.integers(0, 10**9), st.integers(0, 9)),
)


@settings(max_examples=200)
@given(st.lists(DOUBLES, max_size=50))
@example(POWERS)
@example([math.ldexp(1, power) for power in range(-1074, 1024)])
@example([np.nextafter(math.ldexp(1, power), 0) for power in range(-1074, 1024)])
@example([float(f"1e{power}") for power in range(-323, 309)])
def test_doubles_are_written_as_python_does(numbers: list[float]) -> None:
    for number, row in zip(numbers, values(pa.array(numbers, pa.float64())), strict=True):
        if math.isfinite(number):
            assert row == repr(float(number)).encode()
        else:
            assert row == ("", Misfit.NOT_A_NUMBER)


@settings(max_examples=200)
@given(st.lists(st.integers(0, 2**32 - 1), max_size=50))
@example([exponent << 23 for exponent in range(256)])
@example([(exponent << 23) - 1 for exponent in range(1, 256)])
def test_floats_have_the_fewest_digits_of_their_size(patterns: list[int]) -> None:
    numbers = np.array(patterns, np.uint32).view(np.float32)
    for number, row in zip(numbers, values(pa.array(numbers)), strict=True):
        if not np.isfinite(number):
            assert row == ("", Misfit.NOT_A_NUMBER)
            continue
        assert np.float32(row.decode()).tobytes() == number.tobytes()
        # As numpy, which writes other exponents.
        assert float(row) == float(str(number))
        assert repr(float(row)).encode() == row


def test_all_half_precision_numbers() -> None:
    numbers = np.arange(2**16, dtype=np.uint16).view(np.float16)
    numbers = numbers[np.isfinite(numbers)]
    rows = values(pa.array(numbers))
    assert [float(row) for row in rows] == [float(str(number)) for number in numbers]


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_the_exact_search_of_the_pure_kernel_finds_what_numpy_does(number: float) -> None:
    # Of doubles, the kernel takes repr itself.
    assert float(shortest(number, 4)) == float(str(np.float32(number)))


def test_nan_and_infinities_may_become_null() -> None:
    array = pa.array([math.nan, math.inf, -math.inf, 1.5, None])
    assert values(array, nan="null") == [b"null", b"null", b"null", b"1.5", None]


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_of_all_widths(kind: str) -> None:
    limits = np.iinfo(kind)
    numbers = [limits.min, limits.max, 0, 1, 9, 10, 99, 100, 127]
    assert values(pa.array(numbers, getattr(pa, kind)())) == [str(number).encode() for number in numbers]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_any_integer(numbers: list[int]) -> None:
    assert values(pa.array(numbers, pa.int64())) == [str(number).encode() for number in numbers]


WIDTHS = {9: pa.decimal32, 18: pa.decimal64, 38: pa.decimal128, 76: pa.decimal256}


@st.composite
def decimals(draw: Any) -> tuple[pa.DataType, list[decimal.Decimal]]:
    precision = draw(st.sampled_from(list(WIDTHS)))
    # pyarrow does not take all numbers of few bits with a negative scale.
    scale = draw(st.integers(0 if precision < 38 else -5, precision))
    unscaled = st.integers(-(10**precision) + 1, 10**precision - 1)
    if scale < 0:
        unscaled = st.integers(-(10**30), 10**30)
    numbers = draw(st.lists(st.one_of(unscaled, st.integers(-12, 12)), max_size=20))
    with decimal.localcontext(decimal.Context(prec=100)):
        found = [decimal.Decimal(number).scaleb(-scale) for number in numbers]
    return WIDTHS[precision](precision, scale), found


@given(decimals())
def test_decimals_keep_all_digits(data: tuple[pa.DataType, list[decimal.Decimal]]) -> None:
    kind, numbers = data
    array = pa.array(numbers, kind)
    for number, row, text in zip(numbers, values(array), values(array, decimals="string"), strict=True):
        found = json.loads(row, parse_float=decimal.Decimal, parse_int=decimal.Decimal)
        assert found == number
        assert json.loads(text) == row.decode()
        # A zero has no other sign, and as many digits behind the point.
        assert max(0, -found.as_tuple().exponent) == max(0, kind.scale)


def test_decimals_as_people_write_them() -> None:
    cents = [decimal.Decimal(text) for text in ("0", "0.05", "-0.05", "1.5", "-123.45", "1000")]
    assert values(pa.array(cents, pa.decimal128(10, 2))) == [
        b"0.00", b"0.05", b"-0.05", b"1.50", b"-123.45", b"1000.00",
    ]  # fmt: skip
    thousands = [decimal.Decimal("-5e3"), decimal.Decimal(0)]
    assert values(pa.array(thousands, pa.decimal128(10, -3))) == [b"-5000", b"0"]

"""Arrow arrays with any value that a type has, however strange: bits are drawn, not values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

_BITS = {
    8: [pa.int8(), pa.uint8()],
    16: [pa.int16(), pa.uint16(), pa.float16()],
    32: [
        pa.int32(),
        pa.uint32(),
        pa.float32(),
        pa.date32(),
        pa.time32("s"),
        pa.time32("ms"),
        pa.decimal32(9, 2),
    ],
    64: [
        *(pa.int64(), pa.uint64(), pa.float64(), pa.date64(), pa.time64("us"), pa.time64("ns")),
        *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
        *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
        *(pa.decimal64(18, 0), pa.decimal64(18, 18)),
    ],
    128: [pa.decimal128(38, 0), pa.decimal128(38, 5), pa.decimal128(20, -3), pa.month_day_nano_interval()],
    256: [pa.decimal256(76, 0), pa.decimal256(76, 40)],
}
_WIDTHS = {kind: width for width, kinds in _BITS.items() for kind in kinds}
_TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
_BINARY = [pa.binary(), pa.large_binary(), pa.binary_view()]
WILD_TYPES = [
    *_WIDTHS,
    *_TEXTS,
    *_BINARY,
    *(pa.binary(size) for size in (0, 3, 12, 16)),
    pa.dictionary(pa.int16(), pa.string()),
    pa.bool_(),
]

_SYMBOLS = st.sampled_from(["A", "B_2", "c", "", "a", "12345678-1234-1234-1234-1234567890aB"])
_STRANGE_UUIDS = st.sampled_from(
    [
        "12345678-1234-1234-1234-1234567890a",
        "12345678-1234-1234-1234-1234567890abc",
        "12345678-1234-1234-1234-1234567890ag",
        "123456781-234-1234-1234-1234567890ab",
        "12345678-1234-1234-1234-1234567890ab\n",
        "12345678-1234-1234-1234-1234567890\u00e4",
    ]
)


def wild_array(data: st.DataObject, kind: Any) -> Any:
    """A few values of a type, and nulls."""
    if kind in _WIDTHS:
        width = _WIDTHS[kind]
        low, high = -(2 ** (width - 1)), 2 ** (width - 1) - 1
        number = (
            st.integers(low, high)
            | st.integers(max(low, -130), min(high, 130))
            | st.sampled_from([low, low + 1, high, high - 1])
            | st.integers(0, width - 2).map(lambda bit: 1 << bit)
            | st.integers(0, width // 4).map(lambda digits: min(10**digits, high))
        )
        numbers = data.draw(st.lists(number, min_size=1, max_size=6))
        bits = b"".join(each.to_bytes(width // 8, "little", signed=True) for each in numbers)
        return _with_nulls(data, kind, len(numbers), [pa.py_buffer(bits)])
    if kind in _TEXTS or pa.types.is_dictionary(kind):
        values: Any = st.text(max_size=5) | _SYMBOLS | _STRANGE_UUIDS
    elif pa.types.is_boolean(kind):
        values = st.booleans()
    else:
        size = kind.byte_width if pa.types.is_fixed_size_binary(kind) else None
        values = st.binary(min_size=size or 0, max_size=16 if size is None else size)
    return pa.array(data.draw(st.lists(st.none() | values, min_size=1, max_size=6)), type=kind)


def _with_nulls(data: st.DataObject, kind: Any, count: int, buffers: list[Any]) -> Any:
    valid = pa.py_buffer(bytes([data.draw(st.sampled_from([0xFF, 0xFF, 0b101101]))]))
    return pa.Array.from_buffers(kind, count, [valid, *buffers])

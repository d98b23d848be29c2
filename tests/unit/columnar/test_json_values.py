"""Values of every Arrow type as JSON: what Python's json reads back, and the same bytes from both kernels."""

from __future__ import annotations

import base64
import datetime
import json
import uuid
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproducer._core.columns.encoder_plan import Misfit
from kproducer.columnar import Json
from tests.unit.columnar.json_rows import values, written

TEXTS = st.one_of(
    st.text(max_size=40),
    st.text(st.sampled_from('abc"\\\n\x00\x1f\x20\x7f\u00e9\u2028\U0001f600'), max_size=40),
)
TEXT_TYPES = [pa.string(), pa.large_string(), pa.string_view()]
BINARY_TYPES = [pa.binary(), pa.large_binary(), pa.binary_view()]


# -- strings ---------------------------------------------------------------------------------------------


@given(st.lists(TEXTS), st.sampled_from(TEXT_TYPES))
def test_strings_are_escaped_as_python_does(texts: list[str], kind: pa.DataType) -> None:
    rows = values(pa.array(texts, kind))
    assert rows == [json.dumps(text, ensure_ascii=False).encode() for text in texts]
    assert [json.loads(row) for row in rows] == texts


@pytest.mark.parametrize("size", range(34))
def test_an_escape_at_every_place(size: int) -> None:
    texts = ["x" * place + wanted + "x" * (size - place) for place in range(size + 1) for wanted in '"\\\né']
    assert values(pa.array(texts)) == [json.dumps(text, ensure_ascii=False).encode() for text in texts]


def test_long_strings_of_escapes() -> None:
    texts = ["\x01" * 100_000, "é" * 100_000, '"' * 99_999]
    assert values(pa.array(texts)) == [json.dumps(text, ensure_ascii=False).encode() for text in texts]


@given(st.lists(st.one_of(st.binary(max_size=12), TEXTS.map(str.encode))), st.sampled_from([0, 1, 2]))
def test_strings_that_are_not_utf8(cells: list[bytes], number: int) -> None:
    array = pa.array(cells, BINARY_TYPES[number]).view(TEXT_TYPES[number])
    for cell, row in zip(cells, values(array), strict=True):
        try:
            text = cell.decode()
        except UnicodeDecodeError:
            assert row == ("", Misfit.NOT_UTF8)
        else:
            assert json.loads(row) == text


@given(st.lists(st.binary()), st.sampled_from(BINARY_TYPES))
def test_binary_is_base64(cells: list[bytes], kind: pa.DataType) -> None:
    rows = values(pa.array(cells, kind))
    assert [base64.b64decode(json.loads(row), validate=True) for row in rows] == cells


def test_binary_of_a_fixed_size_and_uuids() -> None:
    cells = [bytes(range(16)), uuid.uuid4().bytes]
    assert values(pa.array(cells, pa.binary(16))) == [b'"' + base64.b64encode(cell) + b'"' for cell in cells]
    ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array(cells, pa.binary(16)))
    assert values(ids) == [f'"{uuid.UUID(bytes=cell)}"'.encode() for cell in cells]
    assert values(pa.array([b"", b""], pa.binary(0))) == [b'""', b'""']


# -- time ------------------------------------------------------------------------------------------------


@given(st.lists(st.dates()))
def test_dates(dates: list[datetime.date]) -> None:
    expected = [f'"{date.isoformat()}"'.encode() for date in dates]
    assert values(pa.array(dates, pa.date32())) == expected
    assert values(pa.array(dates, pa.date64())) == expected


def test_days_outside_of_four_digit_years() -> None:
    days = pa.array([-719_529, -719_528, -719_163, -719_162, 2_932_896, 2_932_897, -(2**31), 2**31 - 1])
    out = ("", Misfit.OUT_OF_RANGE)
    assert values(days.cast(pa.int32()).view(pa.date32())) == [
        out, b'"0000-01-01"', b'"0000-12-31"', b'"0001-01-01"', b'"9999-12-31"', out, out, out,
    ]  # fmt: skip
    leap = pa.array([-719_528 + 59]).cast(pa.int32()).view(pa.date32())
    assert values(leap) == [b'"0000-02-29"']


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@given(times=st.lists(st.datetimes()))
def test_timestamps(zone: str | None, times: list[datetime.datetime]) -> None:
    array = pa.array(times, pa.timestamp("us")).view(pa.timestamp("us", zone))
    for time, row in zip(times, values(array), strict=True):
        text = json.loads(row)
        assert text.endswith("Z") == bool(zone)
        if not time.microsecond % 1000 and time.microsecond:
            assert len(text.rstrip("Z")) == len("2024-01-31T12:34:56.789")
        assert datetime.datetime.fromisoformat(text.rstrip("Z")) == time


def test_timestamps_of_all_units() -> None:
    for unit, ticks, text in [
        ("s", 1_706_704_496, "2024-01-31T12:34:56"),
        ("ms", 1_706_704_496_789, "2024-01-31T12:34:56.789"),
        ("us", 1_706_704_496_000_000, "2024-01-31T12:34:56"),
        ("us", 1_706_704_496_700_000, "2024-01-31T12:34:56.700"),
        ("ns", 1_706_704_496_000_000_001, "2024-01-31T12:34:56.000000001"),
        ("ns", 1_706_704_496_000_001_000, "2024-01-31T12:34:56.000001"),
        ("ns", -1, "1969-12-31T23:59:59.999999999"),
        ("s", -62_167_219_200, "0000-01-01T00:00:00"),
        ("ms", 253_402_300_799_999, "9999-12-31T23:59:59.999"),
    ]:
        assert values(pa.array([ticks], pa.timestamp(unit))) == [f'"{text}"'.encode()]
    beyond = [-62_167_219_201, 253_402_300_800, 2**63 - 1, -(2**63)]
    out = ("", Misfit.OUT_OF_RANGE)
    assert values(pa.array(beyond, pa.timestamp("s"))) == [out] * 4
    limits = pa.array([-(2**63), 2**63 - 1])
    for kind in (pa.timestamp("ms"), pa.timestamp("us"), pa.date64(), pa.time64("ns"), pa.time64("us")):
        assert values(limits.view(kind)) == [out, out]
    assert values(limits.view(pa.timestamp("ns"))) == [
        b'"1677-09-21T00:12:43.145224192"', b'"2262-04-11T23:47:16.854775807"',
    ]  # fmt: skip


@given(st.lists(st.times()))
def test_times(times: list[datetime.time]) -> None:
    rows = values(pa.array(times, pa.time64("us")))
    assert [datetime.time.fromisoformat(json.loads(row)) for row in rows] == times
    assert all(len(row) in (10, 14, 17) for row in rows)


def test_times_outside_of_a_day() -> None:
    array = pa.array([-1, 0, 86_399, 86_400]).cast(pa.int32()).view(pa.time32("s"))
    out = ("", Misfit.OUT_OF_RANGE)
    assert values(array) == [out, b'"00:00:00"', b'"23:59:59"', out]


def test_durations() -> None:
    for unit, ticks, text in [
        ("s", 0, "PT0S"),
        ("s", 93_600, "PT93600S"),
        ("ms", -1_500, "-PT1.500S"),
        ("us", 1, "PT0.000001S"),
        ("ns", -(2**63), "-PT9223372036.854775808S"),
        ("s", -(2**63), "-PT9223372036854775808S"),
    ]:
        assert values(pa.array([ticks], pa.duration(unit))) == [f'"{text}"'.encode()]


def test_intervals() -> None:
    parts = [(14, 3, 4_500_000_000), (0, 0, 0), (-1, 0, -1), (-1, 2, 0), (0, 1, -1_000_000_000)]
    assert values(pa.array(parts, pa.month_day_nano_interval())) == [
        b'"P14M3DT4.500S"', b'"PT0S"', b'"-P1MT0.000000001S"', b'"P-1M2D"', b'"P1DT-1S"',
    ]  # fmt: skip


# -- values in values ------------------------------------------------------------------------------------


def test_an_object_of_columns() -> None:
    table = pa.table({"b": [1, None], 'a"\né': ["x", "y"], "t": [True, False], "n": pa.nulls(2)})
    assert written(Json(), table) == [
        '{"b":1,"a\\"\\né":"x","t":true,"n":null}'.encode(),
        '{"b":null,"a\\"\\né":"y","t":false,"n":null}'.encode(),
    ]
    assert written(Json(["t", "b"], nulls="omit"), table) == [b'{"t":true,"b":1}', b'{"t":false}']


def test_nulls_are_left_out_of_objects_only() -> None:
    kind = pa.struct(
        [("x", pa.float64()), ("m", pa.map_(pa.string(), pa.int8())), ("l", pa.list_(pa.int8()))]
    )
    rows = [
        {"x": None, "m": [("k", None)], "l": [None, 1]},
        {"x": float("nan"), "m": None, "l": None},
        {"x": 1.0, "m": [], "l": []},
        None,
    ]
    table = pa.table({"a": pa.array(rows, kind)})
    assert written(Json(nulls="omit", nan="null"), table) == [
        b'{"a":{"m":{"k":null},"l":[null,1]}}', b'{"a":{}}', b'{"a":{"x":1.0,"m":{},"l":[]}}', b"{}",
    ]  # fmt: skip
    assert written(Json(nan="null"), table)[1] == b'{"a":{"x":null,"m":null,"l":null}}'


def test_keys_of_maps_are_strings() -> None:
    for kind, key, text in [
        (pa.string(), 'a"', 'a\\"'),
        (pa.int64(), -5, "-5"),
        (pa.uint8(), 255, "255"),
        (pa.bool_(), True, "true"),
        (pa.date32(), datetime.date(2024, 1, 31), "2024-01-31"),
        (pa.dictionary(pa.int8(), pa.string()), "x", "x"),
    ]:
        entries = pa.array([[(key, 1), (key, None)], []], pa.map_(kind, pa.int8()))
        assert values(entries) == [f'{{"{text}":1,"{text}":null}}'.encode(), b"{}"]


def test_unions() -> None:
    types = pa.array([0, 1, 0, 1], pa.int8())
    children = [pa.array([1, 2, None, 4], pa.int32()), pa.array(["a", "b", "c", None])]
    sparse = pa.UnionArray.from_sparse(types, children)
    dense = pa.UnionArray.from_dense(types, pa.array([0, 1, 2, 3], pa.int32()), children)
    for union in (sparse, dense):
        table = pa.table({"a": union})
        assert written(Json("a"), table) == [b"1", b'"b"', b"null", b"null"]
        assert written(Json(nulls="omit"), table) == [b'{"a":1}', b'{"a":"b"}', b"{}", b"{}"]


def test_misfits_name_their_place() -> None:
    kind = pa.struct([("y", pa.list_(pa.float64()))])
    table = pa.table({"a": pa.array([{"y": [1.0, float("nan")]}, {"y": [2.0]}], kind)})
    assert written(Json(), table) == [("a.y[]", Misfit.NOT_A_NUMBER), b'{"a":{"y":[2.0]}}']


SCALARS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-128, 127)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.float32(), st.floats(width=32)),
    (pa.string(), TEXTS),
    (pa.string_view(), TEXTS),
    (pa.large_binary(), st.binary(max_size=20)),
    (pa.timestamp("us", "UTC"), st.integers(-(2**62), 2**62)),
    (pa.duration("ns"), st.integers(-(2**63), 2**63 - 1)),
    (pa.decimal128(20, 5), st.decimals(-(10**10), 10**10, places=5)),
    (pa.null(), st.none()),
    (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["", "a", 'b"', "é"])),
]


def nested(depth: int) -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    scalars = st.sampled_from(SCALARS)
    if depth == 0:
        return scalars
    inner = nested(depth - 1)
    kinds = [pa.list_, pa.large_list, pa.list_view, pa.large_list_view]
    return st.one_of(
        scalars,
        st.tuples(inner, st.sampled_from(kinds)).map(
            lambda each: (each[1](each[0][0]), st.lists(st.none() | each[0][1], max_size=3))
        ),
        inner.map(
            lambda each: (
                pa.map_(pa.string(), each[0]),
                st.dictionaries(TEXTS, st.none() | each[1], max_size=3).map(lambda found: [*found.items()]),
            )
        ),
        inner.map(lambda each: (pa.list_(each[0], 2), st.lists(st.none() | each[1], min_size=2, max_size=2))),
        st.lists(inner, max_size=3).map(
            lambda each: (
                pa.struct([(f"f{number}", kind) for number, (kind, _) in enumerate(each)]),
                st.fixed_dictionaries(
                    {f"f{number}": st.none() | strategy for number, (_, strategy) in enumerate(each)}
                ),
            )
        ),
    )


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_both_kernels_agree_on_any_type(data: st.DataObject) -> None:
    kind, strategy = data.draw(nested(2))
    rows = data.draw(st.lists(st.none() | strategy, max_size=12))
    array = pa.array(rows, kind)
    first = data.draw(st.integers(0, len(rows)))
    table = pa.table({"a": array.slice(first), "b": range(len(rows) - first)})
    options = {
        "nulls": data.draw(st.sampled_from(["write", "omit"])),
        "nan": data.draw(st.sampled_from(["error", "null"])),
        "decimals": data.draw(st.sampled_from(["number", "string"])),
    }
    for number, row in enumerate(written(Json(**options), table)):
        if isinstance(row, bytes):
            assert json.loads(row)["b"] == number

"""Arrow columns become the Python values that a row by row conversion would give."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproducer.spark import arrow_columns

TEXTS = st.lists(st.none() | st.text(max_size=20), max_size=50)
BLOBS = st.lists(st.none() | st.binary(max_size=20), max_size=50)
HEADER_LISTS = st.lists(
    st.none() | st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=4),
    max_size=30,
)


def header_array(rows, value_type=None):
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", value_type or pa.binary())]))
    return pa.array(
        [None if row is None else [{"key": key, "value": value} for key, value in row] for row in rows],
        type=kind,
    )


@settings(deadline=None)
@given(TEXTS, st.sampled_from([pa.string(), pa.large_string()]), st.integers(0, 5))
def test_strings_become_their_utf8_bytes(values, kind, start):
    column = pa.array(values, type=kind)[start:]
    assert arrow_columns.as_bytes(column) == [
        None if value is None else value.encode() for value in values[start:]
    ]


@settings(deadline=None)
@given(BLOBS, st.sampled_from([pa.binary(), pa.large_binary()]))
def test_binary_values_stay(values, kind):
    column = pa.array(values, type=kind)
    assert arrow_columns.as_bytes(column) == values
    assert arrow_columns.content_bytes(column) == sum(len(value) for value in values if value is not None)


@settings(deadline=None)
@given(HEADER_LISTS, st.integers(0, 5), st.integers(0, 30))
def test_headers_keep_order_repetitions_and_null_values_in_any_slice(rows, start, length):
    column = header_array(rows).slice(min(start, len(rows)), length)
    expected = rows[start : start + length]
    assert arrow_columns.as_headers(column) == [row or None for row in expected]


def test_header_values_may_be_strings():
    assert arrow_columns.as_headers(header_array([[("a", "é")]], pa.string())) == [[("a", "é".encode())]]


def test_a_header_without_a_name_is_refused():
    with pytest.raises(ValueError, match="null key"):
        arrow_columns.as_headers(header_array([[(None, b"x")]]))


def test_a_null_in_the_list_of_headers_is_refused():
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    with pytest.raises(ValueError, match="header is null"):
        arrow_columns.as_headers(pa.array([[None]], type=kind))


@settings(deadline=None)
@given(st.lists(st.none() | st.integers(-(2**50), 2**50), max_size=20))
def test_microseconds_are_rounded_down_to_milliseconds(values):
    column = pa.array(values, type=pa.timestamp("us", tz="Europe/Berlin"))
    assert arrow_columns.as_epoch_ms(column) == [None if value is None else value // 1000 for value in values]


def test_timestamps_are_those_of_utc():
    moment = datetime.datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=datetime.timezone.utc)
    column = pa.array([moment], type=pa.timestamp("us", tz="UTC"))
    assert arrow_columns.as_epoch_ms(column) == [1709208000123]


def test_seconds_as_double_become_milliseconds():
    assert arrow_columns.as_epoch_ms(pa.array([1.5, None, 0.0])) == [1500, None, 0]


def test_equal_topics_are_one_object():
    topics = arrow_columns.as_topics(pa.array(["orders", "refunds", "orders"]))
    assert topics == ["orders", "refunds", "orders"]
    assert topics[0] is topics[2]


@settings(deadline=None)
@given(st.lists(st.binary(max_size=300), max_size=100), st.integers(1, 2000), st.integers(1, 40))
def test_slices_hold_every_row_once_and_stay_small(values, slice_bytes, slice_rows):
    batch = pa.RecordBatch.from_arrays([pa.array(values, type=pa.binary())], names=["value"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow_columns, "SLICE_BYTES", slice_bytes)
        patch.setattr(arrow_columns, "SLICE_ROWS", slice_rows)
        pieces = list(arrow_columns.slices(batch))
    assert [value for piece in pieces for value in piece.column(0).to_pylist()] == values
    assert all(0 < piece.num_rows <= slice_rows for piece in pieces)


def test_slices_of_rows_of_one_size_keep_the_bound():
    batch = pa.RecordBatch.from_arrays([pa.array([b"x" * 1_000_000] * 20)], names=["value"])
    assert max(piece.num_rows for piece in arrow_columns.slices(batch)) == 4

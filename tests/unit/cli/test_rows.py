from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal

import pytest

from kproducer.cli.rows import Fields, RowError, RowMapping


def test_without_a_column_of_values_the_value_is_the_row_as_json():
    row = {"n": 1, "text": "ä", "price": Decimal("1.10"), "raw": b"\xff", "day": datetime(2024, 1, 2)}
    assert RowMapping().fields(row) == Fields(
        '{"n":1,"text":"ä","price":"1.10","raw":"/w==","day":"2024-01-02T00:00:00"}'.encode()
    )


def test_json_of_the_input_is_sent_as_it_is():
    assert RowMapping().fields({"n": 1}, b'{"n":  1.00}').value == b'{"n":  1.00}'


@pytest.mark.parametrize(
    ("cell", "content"),
    [
        ("ä", "ä".encode()),
        (b"\xff", b"\xff"),
        (None, None),
        (1, b"1"),
        ({"a": [1]}, b'{"a":[1]}'),
        (True, b"true"),
    ],
)
def test_key_and_value_are_texts_or_json(cell, content):
    assert RowMapping(value="v", key="v").fields({"v": cell}) == Fields(content, content)


@pytest.mark.parametrize(
    "cell",
    [
        {"a": "1", "b": None},
        [["a", "1"], ["b", None]],
        [{"key": "a", "value": "1"}, {"key": "b", "value": None}],
        '{"a": "1", "b": null}',
    ],
)
def test_headers_are_an_object_or_pairs(cell):
    fields = RowMapping(headers="h", value="h").fields({"h": cell})
    assert fields.headers == [("a", b"1"), ("b", None)]


@pytest.mark.parametrize(
    "cell",
    [
        1_700_000_000_123,
        "1700000000123",
        "2023-11-14T22:13:20.123Z",
        "2023-11-14T23:13:20.123+01:00",
        "2023-11-14 22:13:20.123",
        datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=timezone.utc),
    ],
)
def test_timestamps_are_milliseconds_or_iso_8601(cell):
    assert RowMapping(timestamp="t", value="t").fields({"t": cell}).timestamp_ms == 1_700_000_000_123


@pytest.mark.parametrize(
    ("mapping", "row", "reason"),
    [
        (RowMapping(value="x"), {"y": 1}, "there is no column 'x'; the columns are 'y'"),
        (RowMapping(timestamp="x"), {"x": "noon"}, "the timestamp is neither"),
        (RowMapping(timestamp="x"), {"x": True}, "the timestamp is neither"),
        (RowMapping(headers="x"), {"x": 5}, "the headers are neither"),
        (RowMapping(headers="x"), {"x": "{"}, "the headers are not JSON"),
        (RowMapping(headers="x"), {"x": "[" * 100_000}, "the headers are not JSON"),
        (RowMapping(headers="x"), {"x": [["a"]]}, "a header is not a pair"),
        (RowMapping(), {"x": float("nan")}, "cannot be written as JSON"),
        (RowMapping(), {"x": "\udc80"}, "cannot be encoded as UTF-8"),
        (RowMapping(value="x"), {"x": "\udc80"}, "cannot be encoded as UTF-8"),
    ],
)
def test_a_row_from_which_no_record_can_be_made_says_why(mapping, row, reason):
    with pytest.raises(RowError, match=reason):
        mapping.fields(row)

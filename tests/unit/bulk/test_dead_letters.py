"""Rows as JSON for dead letters, also of values that JSON does not have and rows that are too long."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from kproducer._core.bulk.dead_letters import DeadLetterCause, JsonRow, longest_cell
from kproducer.errors import KafkaError

ROW = {
    "text": 'ü "quoted"\n\x1f\N{GRINNING FACE}',
    "data": b"\xff\x00",
    "price": Decimal("1.50"),
    "ratios": [math.nan, -math.inf, 0.5],
    "at": datetime(2024, 2, 29, 12, 30, tzinfo=timezone.utc),
    "day": date(2024, 2, 29),
    "took": timedelta(seconds=1.5),
    "counts": [("a", 1), ("b", None)],
    "nested": {"inner": {"flag": True}},
    "nothing": None,
}
AS_JSON = {
    "text": ROW["text"],
    "data": "/wA=",
    "price": "1.50",
    "ratios": ["nan", "-inf", 0.5],
    "at": "2024-02-29T12:30:00+00:00",
    "day": "2024-02-29",
    "took": 1.5,
    "counts": [["a", 1], ["b", None]],
    "nested": {"inner": {"flag": True}},
    "nothing": None,
}


def test_every_value_has_a_form_in_json():
    value, cut = JsonRow.of(ROW, 10_000)
    assert json.loads(value) == AS_JSON
    assert cut == []


@pytest.mark.parametrize("character", ["x", "ü", "\x1f", "\N{GRINNING FACE}", '"', "\ud800"])
def test_a_row_that_is_too_long_fits_and_names_the_columns_that_were_cut(character):
    row = {**ROW, "long": character * 3000, "list": [character * 3000]}
    for limit in range(400, 20_000, 997):
        value, cut = JsonRow.of(row, limit)
        assert len(value) <= limit
        read = json.loads(value)
        assert list(read) == list(row)
        assert {name: read[name] for name in AS_JSON if name not in cut} == {
            name: cell for name, cell in AS_JSON.items() if name not in cut
        }
        assert character == "\ud800" or row["long"].startswith(read["long"])
        assert len(value) > limit // 20


def test_the_longest_cell_is_that_with_the_longest_json():
    assert longest_cell({"a": "xxx", "b": b"yyyy", "c": None}) == "b"
    assert longest_cell({}) == ""


def test_headers_are_short_and_valid_whatever_the_error_says():
    cause = DeadLetterCause(KafkaError("\ud800" * 5000), "\ud800" * 5000, "ü" * 5000, 3, "key", "id")
    headers = dict(cause.headers("writer", 7, cut="", line="4"))
    assert headers["__connect.errors.exception.message"] == b"?" * 1000
    assert headers["__connect.errors.topic"] == "ü".encode() * 124
    assert headers["__connect.errors.stage"] == b"KEY_CONVERTER"
    assert headers["__connect.errors.task.id"] == b"7"
    assert headers["__kproducer.errors.line"] == b"4"
    assert "__kproducer.errors.cut" not in headers

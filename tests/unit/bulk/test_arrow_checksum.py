"""The checksum takes what the sink takes, and finds columns as it does."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kproducer._core.bulk.arrow_columns import ArrowColumns
from kproducer._core.bulk.send_arrow import ArrowChecksum
from kproducer.errors import InvalidArgumentError

TABLE = pa.table({"key": ["a", "b", None], "value": ["1", None, "3"], "other": [1.5, 2.5, 3.5]})


def checksum(data: object, topic: str | None = "t", **columns: object) -> tuple[int, int]:
    summed = ArrowChecksum(ArrowColumns(**columns), topic)  # type: ignore[arg-type]
    summed.update(data)
    return summed.rows, summed.value


def test_tables_batches_and_streams_of_the_same_rows_have_one_value() -> None:
    expected = checksum(TABLE, value="value", key="key")
    assert expected[0] == 3
    pieces = [TABLE[2:], TABLE[:2]]
    assert checksum(pieces, value="value", key="key") == expected
    assert checksum(TABLE.to_reader(), value="value", key="key") == expected
    summed = ArrowChecksum(ArrowColumns(value="value", key="key"), "t")
    for piece in pieces:
        summed.update(piece)
    assert (summed.rows, summed.value) == expected


def test_only_what_is_written_counts() -> None:
    columns = {"value": "value", "key": "key"}
    assert checksum(TABLE.drop_columns(["other"]), **columns) == checksum(TABLE, **columns)
    others = {
        checksum(TABLE, **columns),
        checksum(TABLE, "u", **columns),
        checksum(TABLE, value="value"),
        checksum(TABLE, value="key", key="value"),
        checksum(TABLE, partition=0, **columns),
        checksum(TABLE, timestamp=0, **columns),
    }
    assert len(others) == 6


def test_columns_that_cannot_be_written_are_refused_as_by_the_sink() -> None:
    with pytest.raises(InvalidArgumentError, match="'other' is of type float64"):
        checksum(TABLE, value="other")
    with pytest.raises(InvalidArgumentError, match="data must be Arrow data"):
        checksum(5, value="value")

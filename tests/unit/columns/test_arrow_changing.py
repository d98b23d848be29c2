"""An application that changes its Arrow buffers while rows are read gets some rows or an error, not a crash.

One thread reads, and lets go of the interpreter lock on the way; another changes offsets. What was checked is
what must be used. Torn records are found here; reads outside of the data are found by ``make sanitize``.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from kproducer.testing.fakebroker.batch_check import read_records
from tests.unit.columns.arrow_kit import Batches, Twin, parts

ROWS = 1000
LONG = 60
ROUNDS = 12
#: A row that is read while offsets change may be as long as all the data.
CONTENT_LIMIT = 2000
SHORT_OFFSETS = struct.pack(f"<{ROWS + 1}i", *range(ROWS + 1))
LONG_OFFSETS = struct.pack(f"<{ROWS + 1}i", *range(0, LONG * (ROWS + 1), LONG))
BACKWARD_OFFSETS = struct.pack(f"<{ROWS + 1}i", *range(LONG * ROWS, -1, -LONG))


@contextmanager
def changing(buffer: bytearray, *contents: bytes) -> Iterator[None]:
    """Another thread writes one after the other into the buffer, all the time."""
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            for content in contents:
                buffer[:] = content

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def texts(offsets: bytearray) -> Any:
    data = pa.py_buffer(b"n" * (LONG * ROWS))
    return pa.StringArray.from_buffers(ROWS, pa.py_buffer(offsets), data)


def read(native: Twin, batch: Any, columns: tuple[int, int, int, int, int, int]) -> list[Any]:
    """The records of all rows that were not refused, decoded; none if the data were seen to be wrong."""
    source = native.source(batch)
    rows = native.arrow(source, columns, CONTENT_LIMIT, True)
    batches = Batches(native, 1, ROWS * CONTENT_LIMIT)
    if columns[5] < 0:
        rows.add_topic(b"t", 1, batches.slots)
    source.next_chunk()
    rows.start_chunk(0, {})
    at = refused = 0
    try:
        while at < ROWS:
            at = rows.plan(at, 7, 0)
            while (alone := rows.append_planned()) >= 0:
                if rows.refusal(alone)[0]:
                    refused += 1
                else:
                    batches.append(0, parts(rows.record(alone)))
            if rows.unknown_topic is not None:
                rows.add_topic(rows.unknown_topic, 1, batches.slots)
    except ValueError:
        return []
    written = batches.finish()[0]
    return read_records(written[0], ROWS - refused, 7) if written else []


def headers(names: Any, values: Any) -> Any:
    pairs = pa.StructArray.from_arrays([names, values], names=["key", "value"])
    return pa.ListArray.from_arrays(pa.array(range(ROWS + 1), pa.int32()), pairs)


@pytest.mark.parametrize("changed", ["name", "value"])
def test_headers_are_written_as_they_were_measured(native: Twin, changed: str) -> None:
    offsets = bytearray(SHORT_OFFSETS)
    fixed, moving = texts(bytearray(SHORT_OFFSETS)), texts(offsets)
    both = (moving, fixed) if changed == "name" else (fixed, moving)
    values = pa.array([b"v"] * ROWS, pa.binary())
    batch = pa.RecordBatch.from_arrays([values, headers(*both)], names=["value", "headers"])
    found = 0
    with changing(offsets, LONG_OFFSETS, SHORT_OFFSETS):
        for _ in range(ROUNDS):
            for record in read(native, batch, (0, -1, 1, -1, -1, -1)):
                ((name, value),) = record.headers
                assert set(name) | set(value.decode()) <= {"n"}
                found += 1
    assert found > 0


@pytest.mark.parametrize("role", ["value", "key", "topic"])
def test_offsets_that_go_backwards_meanwhile_are_errors_or_are_not_seen(native: Twin, role: str) -> None:
    offsets = bytearray(SHORT_OFFSETS)
    arrays = {"value": pa.array([b"v"] * ROWS, pa.binary()), role: texts(offsets)}
    batch = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
    number = list(arrays).index(role)
    columns = (0, number if role == "key" else -1, -1, -1, -1, number if role == "topic" else -1)
    with changing(offsets, BACKWARD_OFFSETS, SHORT_OFFSETS):
        for _ in range(ROUNDS):
            for record in read(native, batch, columns):
                assert set((record.value or b"") + (record.key or b"")) <= set(b"nv")

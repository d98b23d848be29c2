"""Encoding records and headers: golden bytes, room, refusals that change nothing, agreement with others."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kproducer._core.kernel import BatchWriter, record_size_upper_bound, write_batch_header
from kproducer._core.kernel.layout import RECORD_BATCH_OVERHEAD
from kproducer._core.kernel.pure.batch_v2 import encode_headers
from kproducer.testing.fakebroker.batch_check import read_records
from kproducer.types import INT32_MAX, INT64_MAX
from tests.support.units.foreign_records import kafka_python_records

TS = 1_700_000_000_000

keys_and_values = st.one_of(st.none(), st.binary(max_size=200))
header_lists = st.lists(
    st.tuples(st.text(max_size=10), st.one_of(st.none(), st.binary(max_size=20))), max_size=4
)
timestamps = st.one_of(st.integers(TS - 10_000, TS + 10_000), st.integers(0, INT64_MAX))
record_lists = st.lists(
    st.tuples(timestamps, keys_and_values, keys_and_values, header_lists), min_size=1, max_size=12
)


def record_bytes(writer: BatchWriter) -> bytes:
    return bytes(writer.buffer[RECORD_BATCH_OVERHEAD : writer.position])


def state(writer: Any) -> tuple[object, ...]:
    return (
        bytes(writer.buffer),
        writer.position,
        writer.record_count,
        writer.base_timestamp_ms,
        writer.max_timestamp_ms,
    )


def test_golden_record_without_key_and_headers(kernel: ModuleType) -> None:
    writer = kernel.BatchWriter(bytearray(200))
    assert writer.append(TS, None, b"hello", None)
    # length 11 | attributes | timestamp delta 0 | offset delta 0 | null key | 5 bytes | no headers
    assert record_bytes(writer).hex(" ") == "16 00 00 00 01 0a 68 65 6c 6c 6f 00"


def test_golden_second_record_with_everything(kernel: ModuleType) -> None:
    writer = kernel.BatchWriter(bytearray(200))
    assert writer.append(TS, None, None, None)
    start = writer.position
    assert writer.append(TS - 3, b"k", b"", [("a", b"1"), ("\u00e9", None), ("a", b"")])
    # length 18 | attributes | timestamp delta -3 | offset delta 1 | key | empty value | three headers
    assert bytes(writer.buffer[start : writer.position]).hex(" ") == (
        "24 00 05 02 02 6b 00 06 02 61 02 31 04 c3 a9 01 02 61 00"
    )


def test_golden_header(kernel: ModuleType) -> None:
    buffer = bytearray(200)
    writer = kernel.BatchWriter(buffer)
    writer.append(TS, None, b"hello", None)
    kernel.write_batch_header(buffer, writer.position, 0x12, 1, TS, TS + 5, 7, 3, 42)
    fields = [
        "0000000000000000",  # base offset
        "0000003d",  # batch length
        "ffffffff",  # partition leader epoch
        "02",  # magic
        "072f7d60",  # CRC-32C
        "0012",  # attributes: transactional, snappy
        "00000000",  # last offset delta
        "0000018bcfe56800",  # base timestamp
        "0000018bcfe56805",  # max timestamp
        "0000000000000007",  # producer id
        "0003",  # producer epoch
        "0000002a",  # base sequence
        "00000001",  # record count
        "16000000010a68656c6c6f00",  # the record
    ]
    wire = bytes(buffer[: writer.position])
    assert wire.hex() == "".join(fields)
    assert kafka_python_records.DefaultRecordBatch(wire).validate_crc()


def test_counters_follow_the_records(kernel: ModuleType) -> None:
    writer = kernel.BatchWriter(bytearray(500))
    assert (writer.record_count, writer.base_timestamp_ms, writer.max_timestamp_ms) == (0, -1, -1)
    for timestamp_ms in (TS, TS + 50, TS - 20):
        assert writer.append(timestamp_ms, None, b"v", None)
    assert (writer.record_count, writer.base_timestamp_ms, writer.max_timestamp_ms) == (3, TS, TS + 50)


def test_the_epoch_itself_is_a_timestamp(kernel: ModuleType) -> None:
    writer = kernel.BatchWriter(bytearray(100))
    assert writer.append(0, None, b"v", None)
    assert (writer.base_timestamp_ms, writer.max_timestamp_ms) == (0, 0)


def test_a_record_that_ends_at_the_limit_fits_and_one_byte_less_does_not(kernel: ModuleType) -> None:
    headers = [("name", b"value")]
    probe = kernel.BatchWriter(bytearray(500))
    probe.append(TS, b"key", b"value", headers)
    writer = kernel.BatchWriter(bytearray(500))
    writer.limit = probe.position - 1
    before = state(writer)
    assert not writer.append(TS, b"key", b"value", headers)
    assert state(writer) == before
    writer.limit = probe.position
    assert writer.append(TS, b"key", b"value", headers)
    assert writer.position == writer.limit


def test_nothing_fits_below_a_limit_of_zero(kernel: ModuleType) -> None:
    writer = kernel.BatchWriter(bytearray(500))
    writer.set_compression_estimate(0.5, 10_000)
    writer.limit = 0
    assert not writer.append(TS, None, None, None)


@given(
    weight=st.floats(0, 1, exclude_min=True),
    wire_limit=st.integers(61, 3000),
    sizes=st.lists(st.integers(0, 200), max_size=40),
)
def test_behind_the_limit_a_record_is_taken_while_the_batch_is_light_enough(
    kernel: ModuleType, weight: float, wire_limit: int, sizes: list[int]
) -> None:
    writer = kernel.BatchWriter(bytearray(2000))
    probe = kernel.BatchWriter(bytearray(20_000))
    writer.set_compression_estimate(weight, wire_limit)
    writer.limit = 1
    for size in sizes:
        probe.record_count, start = writer.record_count, probe.position
        assert probe.append(TS, None, bytes(size), None)
        record_bytes = probe.position - start
        plain = writer.position - RECORD_BATCH_OVERHEAD
        fits = (
            RECORD_BATCH_OVERHEAD + int(plain * weight) + record_bytes <= wire_limit
            and RECORD_BATCH_OVERHEAD + int((plain + record_bytes) * weight) < wire_limit
            and writer.position + record_bytes <= 2000
        )
        assert writer.append(TS, None, bytes(size), None) == fits


def test_the_buffer_is_never_resized(kernel: ModuleType) -> None:
    buffer = bytearray(RECORD_BATCH_OVERHEAD + 20)
    writer = kernel.BatchWriter(buffer)
    while writer.append(TS, None, b"v", None):
        pass
    assert len(buffer) == RECORD_BATCH_OVERHEAD + 20
    assert writer.buffer is buffer


def test_a_buffer_smaller_than_a_header_is_refused(kernel: ModuleType) -> None:
    with pytest.raises(ValueError, match="cannot hold the 61 bytes"):
        kernel.BatchWriter(bytearray(60))


def test_offset_deltas_end_with_int32(kernel: ModuleType) -> None:
    writer = kernel.BatchWriter(bytearray(200))
    writer.append(TS, None, b"v", None)
    writer.record_count = INT32_MAX
    assert writer.append(TS, None, b"v", None)
    assert record_bytes(writer)[-10:].hex() == "00feffffff0f01027600"
    before = state(writer)
    assert not writer.append(TS, None, b"v", None)
    assert state(writer) == before


REFUSALS = (TypeError, ValueError, OverflowError)
BAD_RECORDS = [
    (TS, "key", b"v", None),
    (TS, b"k", "value", None),
    (TS, bytearray(b"k"), b"v", None),
    (TS, b"k", memoryview(b"v"), None),
    (TS, b"k", {"a": 1}, None),
    (-1, b"k", b"v", None),
    (2**63, b"k", b"v", None),
    (-(2**70), b"k", b"v", None),
    (1.5, b"k", b"v", None),
    (None, b"k", b"v", None),
    (True, b"k", b"v", None),
    (TS, b"k", b"v", [(b"name", b"v")]),
    (TS, b"k", b"v", [("a", b"v"), (None, b"v")]),
    (TS, b"k", b"v", [("\ud800", b"v")]),
    (TS, b"k", b"v", [("name", "text")]),
    (TS, b"k", b"v", [("name", bytearray(b"v"))]),
    (TS, b"k", b"v", [("name",)]),
    (TS, b"k", b"v", [["name", b"v"]]),
    (TS, b"k", b"v", ["ab"]),
    (TS, b"k", b"v", {"name": b"v"}),
    (TS, b"k", b"v", "headers"),
    (TS, b"k", b"v", iter([("a", b"v")])),
]


@pytest.mark.parametrize("record", BAD_RECORDS)
@pytest.mark.parametrize("earlier", [0, 1])
def test_a_bad_record_is_refused_and_changes_nothing(
    kernel: ModuleType, record: tuple[Any, Any, Any, Any], earlier: int
) -> None:
    writer = kernel.BatchWriter(bytearray(300))
    for _ in range(earlier):
        writer.append(TS, None, b"v", None)
    before = state(writer)
    with pytest.raises(REFUSALS):
        writer.append(*record)
    assert state(writer) == before


@pytest.mark.parametrize("field", ["key", "value"])
def test_lengths_beyond_int32_are_refused_before_anything_is_copied(kernel: ModuleType, field: str) -> None:
    huge = bytes(INT32_MAX + 1)  # zero pages that nobody touches
    writer = kernel.BatchWriter(bytearray(300))
    before = state(writer)
    record = (huge, b"v") if field == "key" else (b"k", huge)
    with pytest.raises(ValueError, match="2147483648"):
        writer.append(TS, *record, None)
    assert state(writer) == before


def test_headers_in_a_tuple_give_the_same_record(kernel: ModuleType) -> None:
    one, other = kernel.BatchWriter(bytearray(300)), kernel.BatchWriter(bytearray(300))
    one.append(TS, None, None, [("h", b"x"), ("i", None)])
    other.append(TS, None, None, (("h", b"x"), ("i", None)))
    assert record_bytes(one) == record_bytes(other)


@given(record_lists)
def test_every_batch_is_read_back_by_us_and_by_another_client(
    records: list[tuple[Any, Any, Any, Any]],
) -> None:
    buffer = bytearray(1 << 16)
    writer = BatchWriter(buffer)
    for timestamp_ms, key, value, headers in records:
        assert writer.append(timestamp_ms, key, value, headers)
    write_batch_header(
        buffer,
        writer.position,
        0,
        len(records),
        writer.base_timestamp_ms,
        writer.max_timestamp_ms,
        -1,
        -1,
        -1,
    )
    assert writer.max_timestamp_ms == max(record[0] for record in records)
    ours = read_records(record_bytes(writer), len(records), writer.base_timestamp_ms)
    assert [(r.timestamp_ms, r.key, r.value, list(r.headers)) for r in ours] == records
    assert [r.offset for r in ours] == list(range(len(records)))
    foreign = kafka_python_records.DefaultRecordBatch(bytes(buffer[: writer.position]))
    assert foreign.validate_crc()
    assert [(r.timestamp, r.key, r.value, list(r.headers)) for r in foreign] == records


@given(record_lists)
def test_the_bytes_equal_those_of_another_client(records: list[tuple[Any, Any, Any, Any]]) -> None:
    foreign = kafka_python_records.DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    buffer = bytearray(1 << 16)
    writer = BatchWriter(buffer)
    for offset, (timestamp_ms, key, value, headers) in enumerate(records):
        assert foreign.append(offset, timestamp_ms, key, value, headers) is not None
        assert writer.append(timestamp_ms, key, value, headers)
    assert record_bytes(writer) == bytes(foreign.build())[RECORD_BATCH_OVERHEAD:]


@given(timestamps, keys_and_values, keys_and_values, header_lists)
def test_a_buffer_of_the_upper_bound_takes_the_first_record(
    timestamp_ms: int, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    size = record_size_upper_bound(key, value, headers)
    writer = BatchWriter(bytearray(size))
    assert writer.append(timestamp_ms, key, value, headers)
    assert writer.position <= size


@given(header_lists)
@example([("x" * 63, b"y" * 64), ("", None)])
@example([("é" * 4096, b"y" * 8191)] * 64)
def test_the_upper_bound_has_the_exact_size_of_the_headers(headers: list[tuple[str, bytes | None]]) -> None:
    without = record_size_upper_bound(None, None, None)
    expected = len(encode_headers(headers)) if headers else 0
    assert record_size_upper_bound(None, None, headers) - without == expected

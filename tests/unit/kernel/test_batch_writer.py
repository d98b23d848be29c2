"""Encoding records and headers: golden bytes, room, refusals that change nothing, agreement with others."""

from __future__ import annotations

import math
import struct
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer.errors import SerializationError
from kproducer.kernel import BatchWriter, decode_records, record_size_upper_bound, write_batch_header
from kproducer.kernel.layout import RECORD_BATCH_OVERHEAD
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
    writer.set_compression_estimate(0.5, 0, 10_000)
    writer.limit = 0
    assert not writer.append(TS, None, None, None)


@given(
    weight=st.floats(0, 1, exclude_min=True),
    earlier_bytes=st.integers(0, 3000),
    wire_limit=st.integers(61, 3000),
    sizes=st.lists(st.integers(0, 200), max_size=40),
)
def test_behind_the_limit_a_record_is_taken_while_the_batch_is_light_enough(
    kernel: ModuleType, weight: float, earlier_bytes: int, wire_limit: int, sizes: list[int]
) -> None:
    writer = kernel.BatchWriter(bytearray(2000))
    probe = kernel.BatchWriter(bytearray(20_000))
    writer.set_compression_estimate(weight, earlier_bytes, wire_limit)
    writer.limit = 1
    for size in sizes:
        probe.record_count, start = writer.record_count, probe.position
        assert probe.append(TS, None, bytes(size), None)
        record_bytes = probe.position - start
        plain = earlier_bytes + writer.position - RECORD_BATCH_OVERHEAD
        fits = (
            RECORD_BATCH_OVERHEAD + int(plain * weight) + record_bytes <= wire_limit
            and RECORD_BATCH_OVERHEAD + int((plain + record_bytes) * weight) < wire_limit
            and writer.position + record_bytes <= 2000
        )
        assert writer.append(TS, None, bytes(size), None) == fits


@pytest.mark.parametrize(
    "arguments",
    [(-0.1, 0, 100), (1.1, 0, 100), (math.nan, 0, 100), (0.5, -1, 100), (0.5, 0, -1), (0.5, 0, 2**50)],
)
def test_weights_that_cannot_be_are_refused(kernel: ModuleType, arguments: tuple[float, int, int]) -> None:
    with pytest.raises(ValueError, match=r"weighs 0 to 1|no sizes of a batch"):
        kernel.BatchWriter(bytearray(500)).set_compression_estimate(*arguments)


def test_the_buffer_is_never_resized(kernel: ModuleType) -> None:
    buffer = bytearray(RECORD_BATCH_OVERHEAD + 20)
    writer = kernel.BatchWriter(buffer)
    while writer.append(TS, None, b"v", None):
        pass
    assert len(buffer) == RECORD_BATCH_OVERHEAD + 20
    assert writer.buffer is buffer


def test_a_buffer_smaller_than_a_header_is_refused(kernel: ModuleType) -> None:
    with pytest.raises(ValueError, match="a header of 61"):
        kernel.BatchWriter(bytearray(60))


def test_rewind_starts_behind_the_header_and_keeps_counting(kernel: ModuleType) -> None:
    writer = kernel.BatchWriter(bytearray(200))
    writer.append(TS, None, b"v", None)
    writer.rewind()
    assert (writer.position, writer.record_count) == (RECORD_BATCH_OVERHEAD, 1)
    writer.append(TS, None, b"w", None)
    assert writer.buffer[RECORD_BATCH_OVERHEAD + 3] == 2  # offset delta 1


def test_offset_deltas_end_with_int32(kernel: ModuleType) -> None:
    writer = kernel.BatchWriter(bytearray(200))
    writer.append(TS, None, b"v", None)
    writer.record_count = INT32_MAX
    assert writer.append(TS, None, b"v", None)
    assert record_bytes(writer)[-10:].hex() == "00feffffff0f01027600"
    before = state(writer)
    assert not writer.append(TS, None, b"v", None)
    assert state(writer) == before


BAD_RECORDS = [
    ((TS, "key", b"v", None), "the key must be bytes, bytearray, memoryview or None, not str"),
    ((TS, b"k", "value", None), "the value must be bytes, bytearray, memoryview or None, not str"),
    ((TS, 5, b"v", None), "the key must be .*, not int"),
    ((TS, b"k", {"a": 1}, None), "the value must be .*, not dict"),
    ((TS, b"k", [1, 2], None), "the value must be .*, not list"),
    ((-1, b"k", b"v", None), "timestamp_ms is -1; it must be 0 to"),
    ((2**63, b"k", b"v", None), "timestamp_ms is 9223372036854775808"),
    ((1.5, b"k", b"v", None), "timestamp_ms must be an int, not float"),
    ((None, b"k", b"v", None), "timestamp_ms must be an int, not NoneType"),
    (("0", b"k", b"v", None), "timestamp_ms must be an int, not str"),
    ((TS, b"k", b"v", [(b"name", b"v")]), "the name of header 0 must be a str, not bytes"),
    ((TS, b"k", b"v", [("a", b"v"), (None, b"v")]), "the name of header 1 must be a str, not NoneType"),
    ((TS, b"k", b"v", [("\ud800", b"v")]), "the name of header 0 cannot be encoded as UTF-8"),
    ((TS, b"k", b"v", [("name", "text")]), r"the value of header 0 \('name'\) must be bytes.*, not str"),
    ((TS, b"k", b"v", [("name",)]), "header 0 must be a .name, value. pair"),
    ((TS, b"k", b"v", ["ab"]), "header 0 must be a .name, value. pair, not 'ab'"),
    ((TS, b"k", b"v", {"name": b"v"}), "headers must be a sequence .*, not dict"),
    ((TS, b"k", b"v", "headers"), "headers must be a sequence .*, not str"),
    ((TS, b"k", b"v", iter([("a", b"v")])), "headers must be a sequence .*, not list_iterator"),
]


@pytest.mark.parametrize(("record", "message"), BAD_RECORDS)
@pytest.mark.parametrize("earlier", [0, 1])
def test_a_bad_record_is_refused_by_name_and_changes_nothing(
    kernel: ModuleType, record: tuple[Any, Any, Any, Any], message: str, earlier: int
) -> None:
    writer = kernel.BatchWriter(bytearray(300))
    for _ in range(earlier):
        writer.append(TS, None, b"v", None)
    before = state(writer)
    with pytest.raises(SerializationError, match=message):
        writer.append(*record)
    assert state(writer) == before


@pytest.mark.parametrize("field", ["key", "value"])
def test_lengths_beyond_int32_are_refused_before_anything_is_copied(kernel: ModuleType, field: str) -> None:
    huge = bytes(INT32_MAX + 1)  # zero pages that nobody touches
    writer = kernel.BatchWriter(bytearray(300))
    before = state(writer)
    record = (huge, b"v") if field == "key" else (b"k", huge)
    with pytest.raises(SerializationError, match=f"the {field} has 2147483648 bytes"):
        writer.append(TS, *record, None)
    assert state(writer) == before


@pytest.mark.parametrize("convert", [bytearray, memoryview, lambda data: memoryview(data * 2)[: len(data)]])
def test_every_kind_of_bytes_gives_the_same_record(kernel: ModuleType, convert: Any) -> None:
    plain = kernel.BatchWriter(bytearray(300))
    plain.append(TS, b"key", b"value", [("h", b"x")])
    other = kernel.BatchWriter(bytearray(300))
    other.append(TS, convert(b"key"), convert(b"value"), (["h", convert(b"x")],))
    assert record_bytes(other) == record_bytes(plain)
    assert kernel.record_size_upper_bound(convert(b"key"), convert(b"value"), [("h", convert(b"x"))]) == (
        kernel.record_size_upper_bound(b"key", b"value", [("h", b"x")])
    )


def test_a_view_of_wider_items_is_taken_as_its_bytes(kernel: ModuleType) -> None:
    wide = memoryview(struct.pack("<3I", 1, 2, 3)).cast("I")
    writer = kernel.BatchWriter(bytearray(300))
    writer.append(TS, None, wide, None)
    assert decode_records(record_bytes(writer), 1, TS)[0].value == struct.pack("<3I", 1, 2, 3)
    assert kernel.record_size_upper_bound(None, wide, None) == kernel.record_size_upper_bound(
        None, bytes(12), None
    )


def test_a_released_view_is_refused(kernel: ModuleType) -> None:
    view = memoryview(b"gone")
    view.release()
    with pytest.raises(SerializationError, match="the value cannot be read"):
        kernel.BatchWriter(bytearray(300)).append(TS, None, view, None)


def test_the_upper_bound_refuses_what_cannot_be_encoded(kernel: ModuleType) -> None:
    with pytest.raises(SerializationError, match="the key must be"):
        kernel.record_size_upper_bound("k", b"v", None)
    with pytest.raises(SerializationError, match="the value must be"):
        kernel.record_size_upper_bound(b"k", 3, None)
    with pytest.raises(SerializationError, match="headers must be"):
        kernel.record_size_upper_bound(b"k", b"v", "abc")


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
    ours = decode_records(record_bytes(writer), len(records), writer.base_timestamp_ms)
    assert [(r.timestamp_ms, r.key, r.value, list(r.headers)) for r in ours] == records
    assert [r.offset_delta for r in ours] == list(range(len(records)))
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

"""Decoding records that somebody made wrong: every length is checked, nothing is read beyond its end."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer.kernel import BatchWriter, RecordFormatError, decode_records
from kproducer.kernel.layout import RECORD_BATCH_OVERHEAD

TS = 1_700_000_000_000

#: length, attributes, timestamp delta, offset delta, key "k", value "v", one header ("h", "x")
GOOD = bytes.fromhex("18 00 00 00 02 6b 02 76 02 02 68 02 78")

HOSTILE = [
    ("empty data", "", "1 records cannot lie in 0 bytes"),
    ("length beyond the data", "7e 00 00 00 01 01 00 00 00", "length 63 at byte 1; 8 bytes are left"),
    ("negative length", "01 00 00 00 00 00 00 00", "length -1"),
    ("length below the shortest", "0a 00 00 00 01 01 00", "length 5"),
    ("length one too long", "1a 00 00 00 02 6b 02 76 02 02 68 02 78 00", "length 13 is wrong"),
    ("length one too short", "16 00 00 00 02 6b 02 76 02 02 68 02 78", "header value of 1 bytes runs past"),
    ("overlong length", "80 80 80 80 80 00 00 00 00 00", "longer than 32 bits"),
    ("length of 33 bits", "80 80 80 80 10 00 00 00 00 00", "does not fit 32 bits"),
    ("overlong timestamp", "20 00 80 80 80 80 80 80 80 80 80 80 01 00 01 01 00", "longer than 64 bits"),
    ("overlong offset delta", "18 00 00 80 80 80 80 80 01 01 01 00 00", "longer than 32 bits"),
    ("key beyond", "18 00 00 00 7e 6b 02 76 02 02 68 02 78", "key of 63 bytes runs past"),
    ("negative key length", "18 00 00 00 03 6b 02 76 02 02 68 02 78", "key has the negative length -2"),
    ("value beyond", "18 00 00 00 02 6b 7e 76 02 02 68 02 78", "value of 63 bytes runs past"),
    ("negative value length", "18 00 00 00 02 6b 05 76 02 02 68 02 78", "value has the negative length -3"),
    ("negative header count", "18 00 00 00 02 6b 02 76 01 02 68 02 78", "-1 headers cannot lie in 4 bytes"),
    ("too many headers", "18 00 00 00 02 6b 02 76 06 02 68 02 78", "3 headers cannot lie in 4 bytes"),
    ("huge header count", "18 00 00 00 02 6b 01 fe ff ff ff 0f 00", "2147483647 headers cannot"),
    ("header left over", "18 00 00 00 02 6b 02 76 00 02 68 02 78", "length 12 is wrong"),
    ("null header name", "18 00 00 00 02 6b 02 76 02 01 68 02 78", "null header name before byte 10"),
    ("negative header name", "18 00 00 00 02 6b 02 76 02 03 68 02 78", "header name has the negative length"),
    ("header name beyond", "18 00 00 00 02 6b 02 76 02 7e 68 02 78", "header name of 63 bytes runs past"),
    ("header name not UTF-8", "18 00 00 00 02 6b 02 76 02 02 ff 02 78", "header name is not UTF-8"),
    (
        "negative header value",
        "18 00 00 00 02 6b 02 76 02 02 68 03 78",
        "header value has the negative length",
    ),
    ("a byte behind the last", GOOD.hex() + "00", "1 bytes follow the last of 1 records"),
    ("a record not announced", GOOD.hex() * 2, "13 bytes follow the last of 1 records"),
]


def test_the_good_record_is_good(kernel: ModuleType) -> None:
    assert kernel.decode_records(GOOD, 1, TS) == [(0, TS, b"k", b"v", (("h", b"x"),))]


def test_null_and_empty_are_told_apart(kernel: ModuleType) -> None:
    data = bytes.fromhex("10 00 00 00 01 00 02 00 01")
    assert kernel.decode_records(data, 1, TS) == [(0, TS, None, b"", (("", None),))]


@pytest.mark.parametrize(
    ("data", "message"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE]
)
def test_hostile_records_are_refused(kernel: ModuleType, data: str, message: str) -> None:
    with pytest.raises(RecordFormatError, match=message):
        kernel.decode_records(bytes.fromhex(data), 1, TS)


@pytest.mark.parametrize("count", [-1, 2, 3, 2**31 - 1])
def test_a_wrong_count_is_refused(kernel: ModuleType, count: int) -> None:
    with pytest.raises(RecordFormatError, match=r"records cannot lie|runs past the end|length"):
        kernel.decode_records(GOOD + GOOD[:1], count, TS)


def test_a_timestamp_beyond_64_bits_is_refused(kernel: ModuleType) -> None:
    data = bytes.fromhex("0c 00 02 00 01 01 00")
    assert kernel.decode_records(data, 1, TS)[0].timestamp_ms == TS + 1
    with pytest.raises(RecordFormatError, match="does not fit 64 bits"):
        kernel.decode_records(data, 1, 2**63 - 1)


def test_the_error_says_which_record(kernel: ModuleType) -> None:
    bad = bytes.fromhex("18 00 00 02 03 6b 02 76 02 02 68 02 78")
    with pytest.raises(RecordFormatError, match=r"^record 1: key has"):
        kernel.decode_records(GOOD + bad, 2, TS)


@given(st.binary(max_size=60), st.integers(-2, 12))
def test_arbitrary_bytes_give_records_or_the_one_error(data: bytes, count: int) -> None:
    try:
        records = decode_records(data, count, TS)
    except RecordFormatError:
        return
    assert len(records) == count


@given(st.integers(0, 200), st.integers(0, 255))
def test_a_changed_byte_gives_records_or_the_one_error(position: int, byte: int) -> None:
    writer = BatchWriter(bytearray(400))
    for index in range(5):
        writer.append(TS + index, b"key", b"value", [("name", b"x"), ("other", None)])
    data = bytearray(writer.buffer[RECORD_BATCH_OVERHEAD : writer.position])
    data[position % len(data)] = byte
    try:
        decode_records(bytes(data), 5, TS)
    except RecordFormatError:
        return


def test_every_cut_is_noticed(kernel: ModuleType) -> None:
    for end in range(len(GOOD)):
        with pytest.raises(RecordFormatError):
            kernel.decode_records(GOOD[:end], 1, TS)

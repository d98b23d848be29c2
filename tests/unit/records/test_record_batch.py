"""Reading batches that somebody else, or nobody sane, has made."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kproducer.errors import RemoteProtocolError
from kproducer.kernel import crc32c
from kproducer.kernel.layout import RECORD_BATCH_OVERHEAD
from kproducer.records.compression import Compression, CompressionType
from kproducer.records.errors import CorruptRecordBatchError
from kproducer.records.record_batch import RecordBatch, parse_batches
from kproducer.records.record_batch_builder import RecordBatchBuilder

TS = 1_700_000_000_000
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def make_batch(codec: str = "none", count: int = 3) -> bytearray:
    builder = RecordBatchBuilder(bytearray(4096), Compression.of(codec))
    for index in range(count):
        assert builder.try_append(TS + index, b"key", b"value %d" % index, [("name", b"x")])
    return bytearray(builder.close())


def with_field(wire: bytearray, offset: int, layout: str, value: int) -> bytearray:
    """Change a header field and make the checksum right again."""
    struct.pack_into(layout, wire, offset, value)
    struct.pack_into(">I", wire, 17, crc32c(wire[21:]))
    return wire


def with_records(records: bytes, count: int, attributes: int = 0) -> bytearray:
    wire = bytearray(make_batch()[:RECORD_BATCH_OVERHEAD] + records)
    struct.pack_into(">i", wire, 8, len(wire) - 12)
    struct.pack_into(">hi", wire, 21, attributes, max(count - 1, 0))
    return with_field(wire, 57, ">i", count)


def test_every_header_field_is_read() -> None:
    builder = RecordBatchBuilder(bytearray(4096), Compression.of("zstd"))
    for timestamp_ms in (TS, TS + 9, TS - 4):
        builder.try_append(timestamp_ms, None, b"v", None)
    builder.set_producer_state(11, 5, 70, True)
    wire = bytes(builder.close())
    batch = RecordBatch.parse(wire)
    assert (batch.base_offset, batch.size_bytes, batch.partition_leader_epoch) == (0, len(wire), -1)
    assert (batch.record_count, batch.last_offset_delta) == (3, 2)
    assert (batch.base_timestamp_ms, batch.max_timestamp_ms) == (TS, TS + 9)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (11, 5, 70)
    assert batch.compression_type is CompressionType.ZSTD
    assert batch.is_transactional
    assert not batch.is_control
    assert not batch.is_log_append_time
    assert batch.crc == struct.unpack_from(">I", wire, 17)[0]


def test_a_broker_may_change_what_the_checksum_does_not_cover() -> None:
    wire = make_batch()
    struct.pack_into(">q", wire, 0, 12345)
    struct.pack_into(">i", wire, 12, 8)
    batch = RecordBatch.parse(wire)
    assert (batch.base_offset, batch.partition_leader_epoch) == (12345, 8)


def test_log_append_time_replaces_every_timestamp() -> None:
    wire = with_field(make_batch(), 21, ">h", 0x08)
    batch = RecordBatch.parse(with_field(wire, 35, ">q", TS + 1000))
    assert batch.is_log_append_time
    assert {record.timestamp_ms for record in batch.records()} == {TS + 1000}


def test_the_payload_cannot_be_written_through_the_view() -> None:
    with pytest.raises(TypeError):
        RecordBatch.parse(make_batch()).payload[0] = 1


@pytest.mark.parametrize("codec", CODECS)
def test_any_flipped_byte_behind_the_checksum_is_noticed(codec: str) -> None:
    wire = make_batch(codec)
    for position in range(17, len(wire)):
        wire[position] ^= 0x40
        with pytest.raises(CorruptRecordBatchError, match="checksum"):
            RecordBatch.parse(wire)
        wire[position] ^= 0x40
    assert RecordBatch.parse(wire).record_count == 3


def test_every_cut_is_noticed() -> None:
    wire = make_batch()
    for end in range(len(wire)):
        with pytest.raises(CorruptRecordBatchError, match=r"are no batch|batch length"):
            RecordBatch.parse(wire[:end])


@pytest.mark.parametrize("length", [-1, 0, 48, 2**31 - 1, -(2**31)])
def test_a_wrong_batch_length_is_refused(length: int) -> None:
    wire = make_batch()
    struct.pack_into(">i", wire, 8, length)
    with pytest.raises(CorruptRecordBatchError, match=f"batch length {length} in"):
        RecordBatch.parse(wire)


@pytest.mark.parametrize("magic", [0, 1, 3, -1])
def test_other_magics_are_refused_by_number(magic: int) -> None:
    wire = make_batch()
    struct.pack_into(">b", wire, 16, magic)
    with pytest.raises(CorruptRecordBatchError, match=f"magic {magic}"):
        RecordBatch.parse(wire)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    with pytest.raises(CorruptRecordBatchError, match=f"unknown codec {codec}"):
        RecordBatch.parse(with_field(make_batch(), 21, ">h", codec))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_declared_count_too_low_is_refused(codec: str, count: int) -> None:
    batch = RecordBatch.parse(with_field(make_batch(codec), 57, ">i", count))
    with pytest.raises(CorruptRecordBatchError, match=f"follow the last of {count} records"):
        batch.records()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("count", [4, 100, 2**31 - 1])
def test_a_declared_count_too_high_is_refused(codec: str, count: int) -> None:
    wire = with_field(make_batch(codec), 57, ">i", count)
    with pytest.raises(CorruptRecordBatchError, match=f"{count} records with last offset delta 2"):
        RecordBatch.parse(wire)
    batch = RecordBatch.parse(with_field(wire, 23, ">i", count - 1))
    with pytest.raises(CorruptRecordBatchError, match=r"record 3|records cannot lie"):
        batch.records()


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(CorruptRecordBatchError, match="-1 records"):
        RecordBatch.parse(with_field(make_batch(), 57, ">i", -1))


RECORD_0 = bytes.fromhex("0e 00 00 00 01 02 76 00")
RECORD_1 = bytes.fromhex("0e 00 00 02 01 02 77 00")


@pytest.mark.parametrize(
    "records",
    [RECORD_0 + RECORD_0, RECORD_1 + RECORD_0, RECORD_0 + RECORD_1.replace(b"\x02\x01", b"\x04\x01")],
    ids=["twice", "backwards", "beyond the last"],
)
def test_offsets_must_ascend_to_the_last_one(records: bytes) -> None:
    assert len(RecordBatch.parse(with_records(RECORD_0 + RECORD_1, 2)).records()) == 2
    with pytest.raises(CorruptRecordBatchError, match="offset delta"):
        RecordBatch.parse(with_records(records, 2)).records()


def test_gaps_in_offsets_are_legal_as_compaction_leaves_them() -> None:
    wire = with_field(with_records(RECORD_1, 1), 23, ">i", 5)
    assert [record.offset_delta for record in RecordBatch.parse(wire).records()] == [1]


def test_a_bad_record_is_a_corrupt_batch() -> None:
    with pytest.raises(CorruptRecordBatchError, match="record 0: value of 63 bytes"):
        RecordBatch.parse(with_records(bytes.fromhex("0e 00 00 00 01 7e 76 00"), 1)).records()


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_bomb_is_refused(codec: str) -> None:
    compression = Compression.of(codec)
    wire = with_records(compression.compress(bytes(1 << 22)), 1, attributes=compression.type)
    with pytest.raises(CorruptRecordBatchError, match="longer than 100000 bytes"):
        RecordBatch.parse(wire).records(max_plain_bytes=100_000)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_records_of_another_codec_than_declared_are_refused(codec: str) -> None:
    wire = with_records(RECORD_0, 1, attributes=Compression.of(codec).type)
    with pytest.raises(CorruptRecordBatchError):
        RecordBatch.parse(wire).records()


@given(st.binary(max_size=150))
def test_arbitrary_bytes_give_the_one_error(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        RecordBatch.parse(data)


@given(records=st.binary(max_size=60), count=st.integers(-1, 8), attributes=st.integers(0, 7))
def test_arbitrary_records_under_a_right_checksum_give_records_or_the_one_error(
    records: bytes, count: int, attributes: int
) -> None:
    try:
        found = RecordBatch.parse(with_records(records, count, attributes)).records(1 << 20)
    except CorruptRecordBatchError:
        return
    assert len(found) == count


def test_batches_in_a_row_are_parsed_to_the_last_byte() -> None:
    wire = make_batch("none", 2) + make_batch("lz4", 5)
    assert [batch.record_count for batch in parse_batches(wire)] == [2, 5]
    assert parse_batches(b"") == []
    with pytest.raises(CorruptRecordBatchError, match="are no batch"):
        parse_batches(wire + b"more")
